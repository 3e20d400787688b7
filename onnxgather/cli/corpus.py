"""The command `corpus export`, which writes the built-in corpus."""

from __future__ import annotations

import click

from onnxgather.cli import arguments
from onnxgather.cli.terminal import say
from onnxgather.errors import GOOD
from onnxgather.options import FORMATS, FormatName


@click.group("corpus")
def corpus_command() -> None:
    """Export the cases that `check --corpus` runs."""


@corpus_command.command("export", short_help="Write the corpus for others to run.")
@click.option(
    "--format",
    "name",
    type=click.Choice(list(FORMATS)),
    required=True,
    metavar="FORMAT",
    help="; ".join(f"{name}: {content}" for name, content in FORMATS.items()) + ".",
)
@click.argument("folder", type=arguments.FOLDER, metavar="DIR")
def export_command(name: FormatName, folder: str) -> int:
    """Write the corpus to DIR, which must be empty or an earlier export.

    DIR gets a README that says how to run the cases without onnxgather.
    """
    from onnxgather.parity.corpus import built_in_cases
    from onnxgather.parity.corpus import export as write

    exported = write(built_in_cases(), name, folder)
    say(f"{folder}: {exported.written:,} cases")
    for why, count in exported.left_out.items():
        say(f"left out: {count:,}, as each {why}")
    return GOOD
