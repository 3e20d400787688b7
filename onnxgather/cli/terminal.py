"""The terminal: printing, progress, and the signals that end a command."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from datetime import timedelta
from typing import TextIO

from onnxgather.core.checks import printable

BY_SIGNAL = 128
"""The exit code of a program that a signal ended is this and the signal, as shells
count."""

LONGEST_INDENTED = 2**22
"""JSON of so many bytes is not indented."""

FIRST_LINE, NEXT_LINE, SILENCE = 10, 30, 300
"""After how many seconds a log has its first line on how far the work is; how many lie
between two lines, unless less than a tenth of the work is done since; and how many lie
there at most."""

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
"""The signals that end a command."""


class Interrupted(KeyboardInterrupt):
    """A signal ends the command."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = BY_SIGNAL + number
        self.name = signal.Signals(number).name
        """Such as SIGTERM."""


@contextlib.contextmanager
def signals_handled(handler: Callable[[int, object], object]) -> Generator[None]:
    """Have a function handle each signal that ends a command.

    A signal that is ignored stays so, as under nohup. Python allows this in its main
    thread alone.
    """
    here = threading.current_thread() is threading.main_thread()
    with contextlib.ExitStack() as undo:
        for number in signal.Signals if here else ():
            if number.name in _SIGNALS and signal.getsignal(number) not in (
                signal.SIG_IGN,
                None,
            ):
                undo.callback(signal.signal, number, signal.signal(number, handler))
        yield


class Progress:
    """What the standard error says of how far the work is.

    A terminal has one line, once the work has taken a second; a log has a line now and
    then.

    Args:
        hidden: Whether nothing is said.
        first_line: After how many seconds a log has its first line.
    """

    def __init__(self, *, hidden: bool = False, first_line: float = FIRST_LINE) -> None:
        self._start = self._first = time.monotonic()
        self._next, self._share = self._start + first_line, 0.0
        self._hidden, self._on_terminal = hidden, is_terminal(sys.stderr)
        self._width = self._done = 0

    def show(self, text: str, share: float | None = None) -> None:
        """Show a text in place of the last one.

        Args:
            text: The text.
            share: How much of the work is done, from 0 to 1; None if that is not known.
        """
        now = time.monotonic()
        if self._hidden:
            return
        due = (
            share is None
            or share >= self._share
            or now >= self._next - NEXT_LINE + SILENCE
        )
        if not self._on_terminal and now >= self._next and due:
            self._next, self._share = now + NEXT_LINE, (share or 0) + 0.1
            say(text, err=True)
        if self._on_terminal and now - self._start > 1:
            self.clear()
            text = printable(text)[: min(79, shutil.get_terminal_size().columns - 1)]
            self._width = len(text)  # first, as a signal may come
            say(text, err=True, end="")

    def count(self, what: str, total: int | None = None) -> None:
        """Show that one more is done.

        Args:
            what: The work, such as `Checking`.
            total: How many there are, if that is known; then the line tells the time that is left.
        """
        self._done += 1
        text, now = f"{what} {self._done:,}", time.monotonic()
        if self._done == 1:  # lanes have started, and taken their time for it
            self._first = now
        if total is None:
            self.show(text)
            return
        text += f"/{total:,}"
        if now - self._first >= 1:
            seconds = (now - self._first) / (self._done - 1)
            with contextlib.suppress(OverflowError):  # millions of years
                text += (
                    f", {timedelta(seconds=round(seconds * (total - self._done)))} left"
                )
        self.show(text, self._done / total)

    def clear(self) -> None:
        """Take the line away, so that something else can be printed."""
        if self._width:
            say("", err=True, end="\r" + " " * self._width + "\r")
            self._width = 0

    close = clear  # as `contextlib.closing` calls it


def say(
    text: str | bytes, *, err: bool = False, end: str = "\n", as_is: bool = False
) -> None:
    """Print a line at once. Text that the stream's encoding lacks is printed as UTF-8.

    An error that cannot be printed is dropped, as there is nowhere else to say so.

    Args:
        text: Text, which is escaped by `printable`; or bytes, which are printed as they are.
        err: Whether to print to the standard error.
        end: The text to print after it, as it is.
        as_is: Whether text is not escaped, as it is lines, or coloured, and escaped before.
    """
    stream: TextIO | None = sys.stderr if err else sys.stdout
    if stream is None:  # the program was started with it closed
        return
    try:
        if isinstance(text, str):
            text = (text if as_is else printable(text)) + end
            try:
                stream.write(text)
                stream.flush()
                return
            except UnicodeEncodeError:
                text, end = text.encode(), ""
        stream.buffer.write(text + end.encode())
        stream.buffer.flush()
    except OSError:
        if not err:
            raise
        abandon(stream)


def json_bytes(value: object) -> bytes:
    """A value as JSON, whose texts are escaped as a terminal needs it.

    It is indented unless it is so long that this would cost much memory.
    """
    import msgspec  # late, as neither --help nor --version needs it

    try:
        text = msgspec.json.encode(value)
        if len(text) < LONGEST_INDENTED:
            text = msgspec.json.format(text, indent=2)
    except (
        UnicodeEncodeError
    ):  # a file name that is not Unicode: escaped, as json reads it back
        text = json.dumps(msgspec.to_builtins(value), indent=2).encode()
    if re.search(rb"[^\n -~]", text) is None:  # without a copy
        return text
    return re.sub("[^\n -~]", _json_escaped, text.decode()).encode()


def _json_escaped(found: re.Match[str]) -> str:
    character = found[0]
    units = character.encode("utf-16-be").hex(" ", 2)
    return character if character.isprintable() else "\\u" + units.replace(" ", "\\u")


def width() -> int:
    """How many columns a table may take: COLUMNS, or those of the terminal; else 100."""
    return max(40, shutil.get_terminal_size((100, 24)).columns)


def has_colours() -> bool:
    """Whether the standard output shows colours.

    NO_COLOR forbids them, FORCE_COLOR asks for them, else a terminal shows them unless
    it is dumb.
    """
    if os.environ.get("NO_COLOR"):
        return False
    capable = is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"
    return capable or bool(os.environ.get("FORCE_COLOR"))


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is open and shows on a terminal."""
    return stream is not None and stream.isatty()


def abandon(*streams: TextIO) -> None:
    """Drop what a stream that failed still holds, so that it does not fail once more at exit."""
    for stream in streams:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
