"""Writes docs/cli.md from the help of the commands: `python scripts/cli_page.py`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from onnxgather.cli import main
from onnxgather.cli.commands import TASKS, find_command

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"

HEAD = """\
# Commands

`onnxgather COMMAND --help` prints what stands here; this page is made from it by
`python scripts/cli_page.py`.
"""


def page() -> str:
    """Return the page, with the commands by their tasks."""
    parts = [HEAD]
    for task, names in TASKS.items():
        parts.append(f"## {task}\n")
        for name in names:
            parts += _command(f"onnxgather {name}", find_command(name))
    parts += ["## Before the command\n", *_options(main)]
    parts += ["## Exit codes\n", _prose(main.epilog or "").replace("Exit codes:\n", "")]
    return "\n".join(parts)


def _command(path: str, command: click.Command) -> Iterator[str]:
    """Return the parts of a command, or of each command of a group."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _command(f"{path} {name}", inner)
        return
    context = click.Context(command, info_name=path, **main.context_settings)
    yield f"### {path}\n"
    yield f"```\n{' '.join([path, *command.collect_usage_pieces(context)])}\n```\n"
    yield _prose(command.help or "")
    yield from _options(command)
    yield _prose(command.epilog or "")


def _options(command: click.Command) -> Iterator[str]:
    """Return the table of the options of a command, and an empty line."""
    context = click.Context(command, **main.context_settings)
    yield "| option | meaning |\n| --- | --- |"
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and record[1] and "--help" not in record[0]:
            # How many cores a machine has is no part of the page.
            told = re.sub(
                r"default: \d+\.", "default: the cores of the machine.", record[1]
            )
            told = " ".join(told.split()).replace("|", "\\|")
            yield f"| `{record[0]}` | {told} |"
    yield ""


def _prose(text: str) -> str:
    """Return the paragraphs of a help text.

    Those whose lines stay, after a backspace, are blocks.
    """
    paragraphs = inspect.cleandoc(text).split("\n\n")
    told = (
        (
            f"```\n{part.removeprefix(chr(8)).strip()}\n```"
            if part.startswith("\b")
            else " ".join(part.split())
        )
        for part in paragraphs
    )
    return "\n\n".join(told) + "\n" if text else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
