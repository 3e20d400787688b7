"""The terminal: printing, progress, and the exit codes and errors that commands end with."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from datetime import timedelta
from typing import NoReturn, TextIO

import click
import msgspec

from onnxgather.errors import UNUSABLE, OnnxGatherError
from onnxgather.files import reason

_INTERRUPTED, _BROKEN_PIPE = 130, 141  # 128 + the signal, as shells count


_EPILOG = """\b
Exit codes:
  0  good
  1  findings: a difference, an error, an invalid descriptor or index
  2  unusable input or usage
  3  a provider asked for, or a required lane, did not run
Where several things go wrong, 2 counts before 3, and 3 before 1.
"""


class Commands(click.Group):
    """The group of all commands; turns what they return and raise into exit codes and errors."""

    def invoke(self, ctx: click.Context) -> NoReturn:
        """Run the command and end with its exit code."""
        code, sentence = UNUSABLE, ""
        try:
            code = super().invoke(ctx)
        except OnnxGatherError as error:
            code, sentence = error.exit_code, str(error)
        except MemoryError:
            sentence = "there is not enough memory"
        except BrokenPipeError:
            _abandon(sys.stdout, sys.stderr)
            code = _BROKEN_PIPE
        except OSError as error:
            _abandon(sys.stdout)
            where = os.fsdecode(error.filename) if error.filename else "standard output"
            sentence = f"{where}: {reason(error)}"
        except KeyboardInterrupt:
            code = _INTERRUPTED
        if sentence:
            say(f"Error: {sentence}", err=True)
        ctx.exit(code)


@click.group(
    cls=Commands,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(package_name="onnxgather", message="%(prog)s %(version)s")
def main() -> None:
    """Turn DirectML gather descriptors into ONNX models, run them, check them.

    FILE is a DxDispatch program: JSON, comments allowed.
    """


class Progress:
    """One line on the standard error that says how far the work is.

    The line appears if the standard error is a terminal and the work has taken a second.

    Args:
        hidden: Whether the line never appears.
    """

    def __init__(self, *, hidden: bool = False) -> None:
        self._start = time.monotonic()
        self._shows = is_terminal(sys.stderr) and not hidden
        self._width = self._done = 0

    def show(self, text: str) -> None:
        """Show a text in place of the last one."""
        if self._shows and time.monotonic() - self._start > 1:
            self.clear()
            text = text[:79]
            say(text, err=True, end="")
            self._width = len(text)

    def count(self, what: str, total: int | None = None) -> None:
        """Show that one more is done.

        Args:
            what: The work, such as `Checking`.
            total: How many there are, if that is known; then the line tells the time that is left.
        """
        self._done += 1
        text = f"{what} {self._done:,}"
        if total is not None:
            seconds = (time.monotonic() - self._start) / self._done * (total - self._done)
            text += f"/{total:,}, {timedelta(seconds=round(seconds))} left"
        self.show(text)

    def clear(self) -> None:
        """Take the line away, so that something else can be printed."""
        if self._width:
            say("\r" + " " * self._width + "\r", err=True, end="")
            self._width = 0

    close = clear  # as `contextlib.closing` calls it


def say(text: str | bytes, *, err: bool = False, end: str = "\n") -> None:
    """Print text at once. Text that the stream's encoding lacks is printed as UTF-8.

    Args:
        text: Text, or bytes that are printed as they are.
        err: Whether to print to the standard error.
        end: The text to print after it.
    """
    stream: TextIO | None = sys.stderr if err else sys.stdout
    if stream is None:  # the program was started with it closed
        return
    if isinstance(text, str):
        try:
            stream.write(text + end)
            stream.flush()
            return
        except UnicodeEncodeError:
            text = text.encode("utf-8", sys.getfilesystemencodeerrors())
    stream.buffer.write(text + end.encode())
    stream.buffer.flush()


def json_bytes(value: object) -> bytes:
    """A value as indented JSON."""
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2)
    except UnicodeEncodeError:  # a file name that is not Unicode: escaped, as json reads it back
        return json.dumps(msgspec.to_builtins(value), indent=2).encode()


def width() -> int:
    """How many columns a table may take."""
    if not is_terminal(sys.stdout):
        return 100
    return min(max(shutil.get_terminal_size().columns, 60), 160)


def has_colours() -> bool:
    """Whether the standard output shows colours: a terminal, unless NO_COLOR is set."""
    return is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is open and shows on a terminal."""
    return stream is not None and stream.isatty()


def _abandon(*streams: TextIO) -> None:
    """Drop what a stream that failed still holds, so that it does not fail once more at exit."""
    for stream in streams:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
