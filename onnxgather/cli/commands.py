"""The commands, each imported when it is asked for, and the codes and errors they end with."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import click
from click.exceptions import NoArgsIsHelpError

from onnxgather.cli.terminal import (
    BY_SIGNAL,
    Interrupted,
    abandon,
    say,
    signals_handled,
)
from onnxgather.core.checks import printable
from onnxgather.core.errors import GOOD, UNUSABLE, OnnxGatherError

_BROKEN_PIPE = BY_SIGNAL + 13

COMMANDS = {
    "audit": ("networks", "Say what becomes of each gather of an ONNX model."),
    "certify": ("certify", "Prove that models mean their descriptors."),
    "check": ("check", "Compare providers with the reference."),
    "convert": ("translate", "Write programs as ONNX models."),
    "corpus": ("check", "Export the built-in corpus."),
    "doctor": ("examine", "Say which wheels and providers work."),
    "explain": ("translate", "Say where an output element comes from."),
    "extract": ("networks", "Take gathers out of an ONNX model, with their data."),
    "harden": ("networks", "Keep the indices of an ONNX model in range."),
    "report": ("check", "Make one report of several."),
    "repro": ("examine", "Reduce a difference to a folder that shows it."),
    "run": ("translate", "Run a program, print what dxdispatch prints."),
    "show": ("translate", "Explain programs' gathers and their models."),
}
"""The commands by name: the file of each in this package, and its line in the help."""

TASKS = {
    "ONNX models": ("audit", "harden", "extract"),
    "DirectML programs": ("run", "show", "explain", "convert"),
    "Providers": ("check", "repro", "report", "corpus"),
    "Proofs and setup": ("certify", "doctor"),
}
"""The commands by the tasks that the help groups them by."""

OTHER_WORDS = {
    "--policy": ("--out-of-range",),
    "--mode": ("--out-of-range",),
    **dict.fromkeys(
        ["--provider", "--providers", "--ep", "--device"], ("--provider", "--lanes")
    ),
    "--lanes": ("--provider", "--lane"),
}
"""Options that other tools or other commands have, and those of ours that mean the
same."""

OTHER_COMMANDS = {
    ("audit", "--lanes"): "onnxgather check MODEL --inputs FILE --lanes NAMES"
}
"""Commands with options that they do not have, each with the command that answers the
question."""

_EPILOG = """\b
Exit codes:
  0  good
  1  findings: a difference, an error, an invalid descriptor or index
  2  unusable input or usage
  3  a lane did not start, or a required one did not run a case
Where several apply: 2, then 1, then 3. Interrupted: 130 (SIGINT), 143 (SIGTERM).
"""


def find_command(name: str) -> click.Command:
    """The command of a name, from its file, where it is the function NAME_command."""
    file, _ = COMMANDS[name]
    return getattr(import_module(f"onnxgather.cli.{file}"), f"{name}_command")


def _interrupt(number: int, _: object) -> None:
    raise Interrupted(number)


class Commands(click.Group):
    """The group of all commands; turns what they return and raise into exit codes and errors.

    Its own `commands` have only names and lines of the help, so that the help imports
    nothing.
    """

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command line and end with its exit code."""
        while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass  # a standard stream that was closed: no file may take its number
        os.close(spare)
        code, sentence = UNUSABLE, ""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except click.ClickException as error:
            _say_usage(error)
        except OnnxGatherError as error:
            code, sentence = error.exit_code, str(error)
        except ImportError as error:  # such as a library that memory does not hold
            sentence = " ".join(str(error).split())
        except (
            SystemExit
        ) as end:  # click's own: 0 after a completion, 1 at a broken pipe
            abandon(sys.stdout, sys.stderr)
            code = _BROKEN_PIPE if end.code else GOOD
        except OSError as error:
            from onnxgather.core.files import reason

            abandon(sys.stdout)
            where = os.fsdecode(error.filename) if error.filename else "standard output"
            sentence = f"{where}: {reason(error)}"
        except Exception as error:
            # protobuf's is an EncodeError, where it cannot copy a message
            if not (
                isinstance(error, MemoryError) or type(error).__name__ == "EncodeError"
            ):
                raise
            sentence = "there is not enough memory"
        if sentence:
            say(f"Error: {sentence}", err=True)
        sys.exit(code)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the commands, grouped by task."""
        for task, names in TASKS.items():
            with formatter.section(task):
                formatter.write_dl(
                    [(f"{name:<7}", COMMANDS[name][1]) for name in names]
                )

    def invoke(self, ctx: click.Context) -> int:
        """Run the command; an interruption is an exit code too."""
        try:
            with signals_handled(_interrupt):
                return super().invoke(ctx)
        except Interrupted as interrupted:
            return interrupted.exit_code

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command that the arguments start with; a file in its place gets advice."""
        known = (
            args[0] in self.commands or ctx.resilient_parsing
        )  # by a shell that completes
        if not known and os.path.exists(args[0]):
            ctx.fail(f"a command must come before {args[0]}, such as run or show")
        name, command, rest = super().resolve_command(ctx, args)
        return name, None if command is None else find_command(args[0]), rest


@click.group(
    cls=Commands,
    commands=[
        click.Command(name, short_help=told) for name, (_, told) in COMMANDS.items()
    ],
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(package_name="onnxgather", message="%(prog)s %(version)s")
def main() -> None:
    """Turn DirectML gather descriptors into ONNX models, run them, check them.

    A program is DxDispatch's: JSON, comments allowed.
    """


def _say_usage(error: click.ClickException) -> None:
    """Print an error in a command line, as click words it: the usage, and what is wrong."""
    if (
        isinstance(error, click.NoSuchOption)
        and error.ctx
        and error.option_name in OTHER_WORDS
    ):
        known = {name for one in error.ctx.command.params for name in one.opts}
        ours = [name for name in OTHER_WORDS[error.option_name] if name in known]
        asked = error.ctx.command.name or "", error.option_name
        if asked in OTHER_COMMANDS:
            ours = [OTHER_COMMANDS[asked]]
        hint = f" Did you mean '{ours[0]}'?" if ours else ""
        error = click.UsageError(error.message + hint, error.ctx)
    error.show(shown := io.StringIO())
    text = shown.getvalue()
    if not isinstance(error, NoArgsIsHelpError):  # whose message is the help
        text = text.replace(error.message, printable(error.message))
    say(text, err=True, end="", as_is=True)
