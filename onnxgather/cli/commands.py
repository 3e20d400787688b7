"""The commands, each imported when it runs, with the exit codes and errors."""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import time
from _thread import start_new_thread
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn, TextIO

import click
from click.exceptions import NoArgsIsHelpError

from onnxgather.cli.terminal import (
    BY_SIGNAL,
    ClosedOutput,
    Interrupted,
    abandon,
    say,
    say_error,
    signals_handled,
)
from onnxgather.cli.unforeseen import (
    UnforeseenError,
    foreseen,
    is_lack_of_memory,
    say_where,
)
from onnxgather.core.checks import line_of
from onnxgather.core.errors import GOOD, UNUSABLE, OnnxGatherError
from onnxgather.core.version import SUMMARY, __version__

_BROKEN_PIPE = BY_SIGNAL + 13

COMMANDS = {
    "audit": ("networks", "Say whether an input can take an index out of range."),
    "certify": ("certify", "Prove models for every index."),
    "check": ("check", "Compare providers with the reference."),
    "convert": ("convert", "Write descriptors and programs as ONNX models."),
    "corpus": ("check", "Export the built-in corpus."),
    "doctor": ("examine", "Say which wheels and providers work."),
    "explain": ("translate", "Say where an output element comes from."),
    "extract": ("networks", "Take gathers out of an ONNX model, with their data."),
    "harden": ("harden", "Keep the indices of an ONNX model in range."),
    "judge": ("judge", "Compare the answers of your program with the reference."),
    "report": ("check", "Make one report of several."),
    "repro": ("examine", "Reduce a difference to a folder that shows it."),
    "run": ("translate", "Run a program, print what dxdispatch prints."),
    "show": ("translate", "Explain gathers and their models."),
}
"""The commands by name: the file of each in this package, and its line in the help."""

TASKS = {
    "DirectML's gathers": ("convert", "run", "show", "explain", "certify"),
    "Providers and runtimes": ("check", "repro", "report", "corpus", "judge"),
    "ONNX models": ("audit", "harden", "extract"),
    "Setup": ("doctor",),
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
"""The options that other tools or other commands have, and ours that mean the same."""

OTHER_COMMANDS = {
    ("audit", "--lanes"): "onnxgather check MODEL --inputs FILE --lanes NAMES"
}
"""Commands with options that they lack, each with the command to use instead."""

_EPILOG = """\b
Exit codes:
  0  good
  1  findings: a difference, an error, an invalid descriptor or index
  2  unusable input or usage
  3  a lane did not start, or a required one did not run a case
Where several apply: 2, then 1, then 3. Interrupted: 130 (SIGINT), 143 (SIGTERM).
"""


def find_command(name: str) -> click.Command:
    """Return the command of a name: the function NAME_command of its file."""
    file, _ = COMMANDS[name]
    module = import_module(f"onnxgather.cli.{file}")
    return getattr(module, f"{name}_command")


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the command; where an error must not be raised now, soon.

    A module in C that an error leaves half imported may crash. Python drops an error of
    a `__del__`, of what a weak reference calls when its object goes, and of what it
    calls when it has imported a module.
    """
    while frame is not None and frame.f_code is not Commands.invoke.__code__:
        is_import = frame.f_code.co_filename.startswith("<frozen importlib")
        is_weakref = frame.f_globals.get("__name__") in ("weakref", "_weakrefset")
        if is_import or is_weakref or frame.f_code.co_name == "__del__":
            # A Thread of `threading` takes locks, which this frame may hold.
            start_new_thread(_send_again, (number,))
            return
        frame = frame.f_back
    raise Interrupted(number)


def _send_again(number: int) -> None:
    """Send a signal to this program a little later."""
    time.sleep(0.01)
    if sys.platform == "win32":  # where `kill` would end the program
        signal.raise_signal(signal.Signals(number))
    else:
        os.kill(os.getpid(), number)


def _is_open(stream: TextIO | None) -> bool:
    """Return whether a stream has a reader, or is no pipe; False if nothing says so."""
    if stream is None or sys.platform == "win32":
        return False
    try:
        poll = select.poll()
        poll.register(stream.fileno(), select.POLLOUT)
        ((_, events),) = poll.poll(0)
    except (OSError, ValueError):
        return False
    return not events & (select.POLLERR | select.POLLHUP)


class Commands(click.Group):
    """The group of all commands, with their exit codes and errors.

    Its own `commands` have only names and lines of the help, so that the help imports
    nothing.
    """

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command line and end with its exit code."""
        _fill_standard_streams()
        code = UNUSABLE
        sentence = ""
        options = {**extra, "standalone_mode": False}
        try:
            code = super().main(*args, **options)
        except click.ClickException as error:
            _say_usage(error)
        except OnnxGatherError as error:
            code = error.exit_code
            sentence = str(error)
        except ImportError as error:  # such as a library that memory does not hold
            sentence = " ".join(str(error).split())
        except SystemExit as end:
            # It is click's own: 0 after a completion, 1 at a broken pipe.
            abandon(sys.stdout, sys.stderr)
            code = _BROKEN_PIPE if end.code else GOOD
        except OSError as error:
            from onnxgather.core.files import reason

            abandon(sys.stdout)
            place = "standard output"
            if error.filename:
                place = os.fsdecode(error.filename)
            sentence = f"{place}: {reason(error)}"
        except Exception as error:
            if not is_lack_of_memory(error):
                raise
            sentence = "there is not enough memory"
        if sentence:
            say_error(sentence)
        sys.exit(code)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the commands, grouped by task."""
        for task, names in TASKS.items():
            # All sections have the column of the longest name.
            rows = [(f"{name:<7}", COMMANDS[name][1]) for name in names]
            with formatter.section(task):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> int:
        """Run the command; an interruption is an exit code too."""
        try:
            with signals_handled(_interrupt), foreseen():
                return super().invoke(ctx)
        except Interrupted as interrupted:
            return interrupted.exit_code
        except UnforeseenError as error:
            say_where(error)
            raise
        except BrokenPipeError:
            # click takes the pipe for the standard output, and ends without a word.
            if not _is_open(sys.stdout):
                raise
            raise OnnxGatherError(
                "a pipe that the command writes to must be read, got a broken pipe"
            ) from None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command that the arguments start with.

        The message says what is missing where the first argument is a file.
        """
        word = args[0]
        # A shell that completes reads words that are not whole yet.
        may_be_file = word not in self.commands and not ctx.resilient_parsing
        if may_be_file and os.path.exists(word):
            ctx.fail(f"a command must come before {word}, such as run or show")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            command = find_command(word)
        return name, command, rest


def _fill_standard_streams() -> None:
    """Open a stream in place of each standard stream that is closed.

    Otherwise a file that is opened later has the number of a standard stream, and a
    command that cannot print would seem to succeed.
    """
    spare = os.open(os.devnull, os.O_RDWR)
    while spare <= 2:
        spare = os.open(os.devnull, os.O_RDWR)
    os.close(spare)
    if sys.stdout is None:
        # Without a buffer: what it does not take must not fail again at exit.
        sys.stdout = io.TextIOWrapper(ClosedOutput(), write_through=True)


_NAMES_AND_HELP = [
    click.Command(name, short_help=help_line)
    for name, (_, help_line) in COMMANDS.items()
]


@click.group(
    cls=Commands,
    commands=_NAMES_AND_HELP,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    help=f"{SUMMARY}\n\nA program is DxDispatch's: JSON, comments allowed.",
)
@click.option(
    "--debug", is_flag=True, help="Show the traceback of an unexpected error."
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def main(debug: bool) -> None:
    """Run a command of onnxgather."""
    del debug  # `say_where` reads it


def _say_usage(error: click.ClickException) -> None:
    """Print an error in a command line as click words it, after the usage."""
    if isinstance(error, click.NoSuchOption) and error.ctx:
        error = _with_hint(error, error.ctx)
    stream = io.StringIO()
    error.show(stream)
    text = stream.getvalue()
    # The message of this error is the help.
    if not isinstance(error, NoArgsIsHelpError):
        text = text.replace(error.message, line_of(error.message))
    say(text, err=True, end="", as_is=True)


def _with_hint(error: click.NoSuchOption, ctx: click.Context) -> click.UsageError:
    """Return an error that names our option, if the option is a word of other tools."""
    other_word = error.option_name
    if other_word not in OTHER_WORDS:
        return error
    command = ctx.command
    options = {option for param in command.params for option in param.opts}
    hints = [option for option in OTHER_WORDS[other_word] if option in options]
    # Case: another command does what the option asks for.
    other_command = OTHER_COMMANDS.get((command.name or "", other_word))
    if other_command is not None:
        hints = [other_command]
    message = error.message
    if hints:
        message += f" Did you mean '{hints[0]}'?"
    return click.UsageError(message, ctx)
