"""The terminal: printing, progress, and the signals that end a command."""

from __future__ import annotations

import contextlib
import errno
import io
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
from types import FrameType
from typing import NoReturn, TextIO

from onnxgather.core.checks import line_of, printable

BY_SIGNAL = 128
"""The exit code of a program that a signal ended is this and the signal, as shells
count."""

LONGEST_INDENTED = 2**22
"""JSON of so many bytes is not indented."""

FIRST_LINE = 10
"""After how many seconds a log has its first line on how far the work is."""

NEXT_LINE = 30
"""How many seconds lie between two lines of a log, if a tenth of the work is done."""

SILENCE = 300
"""How many seconds lie between two lines of a log at most."""

SHARE_OF_LINE = 0.1
"""How much of the work is done between two lines of a log."""

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
def signals_handled(
    handler: Callable[[int, FrameType | None], object],
) -> Generator[None]:
    """Have a function handle each signal that ends a command.

    A signal that is ignored stays so, as under nohup. Python allows this in its main
    thread alone.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    numbers = signal.Signals if in_main_thread else ()
    with contextlib.ExitStack() as undo:
        for number in numbers:
            if number.name not in _SIGNALS:
                continue
            # The handler is None if another library than Python has set it.
            if signal.getsignal(number) in (signal.SIG_IGN, None):
                continue
            earlier = signal.signal(number, handler)
            undo.callback(signal.signal, number, earlier)
        yield


class ClosedOutput(io.RawIOBase):
    """The standard output of a program that was started with it closed."""

    name = "<stdout>"

    def writable(self) -> bool:
        """Return that it may be written to, as printing asks first."""
        return True

    def write(self, content: object) -> NoReturn:
        """Fail, as a full device does.

        Raises:
            OSError: Always.
        """
        del content
        raise OSError(errno.EBADF, "closed, so nothing was printed")


class Progress:
    """The lines on the standard error that say how far the work is.

    A terminal has one line, once the work has taken a second; a log has a line now and
    then.

    Args:
        hidden: Whether nothing is said.
        first_line: After how many seconds a log has its first line.
    """

    def __init__(self, *, hidden: bool = False, first_line: float = FIRST_LINE) -> None:
        now = time.monotonic()
        self._hidden = hidden
        self._on_terminal = is_terminal(sys.stderr)
        self._start = now
        self._first_done = now
        self._next_line = now + first_line
        """When a log may have its next line."""
        self._next_share = 0.0
        """How much of the work is done then."""
        self._width = 0
        """The length of the line of a terminal."""
        self._done = 0

    def show(self, text: str, share: float | None = None) -> None:
        """Show a text in place of the last one.

        Args:
            text: The text.
            share: How much of the work is done, from 0 to 1; None if that is not known.
        """
        now = time.monotonic()
        if self._hidden:
            return
        if self._on_terminal:
            if now - self._start > 1:
                self._show_on_terminal(text)
            return
        if now < self._next_line:
            return
        # Slow work has a line only when enough is done, or after a long silence.
        is_silent = now >= self._next_line - NEXT_LINE + SILENCE
        if share is None or share >= self._next_share or is_silent:
            self._next_line = now + NEXT_LINE
            self._next_share = (share or 0) + SHARE_OF_LINE
            say(text, err=True)

    def _show_on_terminal(self, text: str) -> None:
        self.clear()
        # The last column stays free, as some terminals break the line there.
        columns = shutil.get_terminal_size().columns - 1
        text = printable(text)[: min(79, columns)]
        self._width = len(text)  # first, as a signal may come
        say(text, err=True, end="")

    def count(self, what: str, total: int | None = None) -> None:
        """Show that one more is done.

        Args:
            what: The work, such as `Checking`.
            total: How many there are, if that is known; then the line has the time that
                is left.
        """
        now = time.monotonic()
        self._done += 1
        if self._done == 1:  # lanes have started, and taken their time for it
            self._first_done = now
        text = f"{what} {self._done:,}"
        if total is None:
            self.show(text)
            return
        text += f"/{total:,}"
        elapsed = now - self._first_done
        if elapsed >= 1:
            seconds_of_each = elapsed / (self._done - 1)
            with contextlib.suppress(OverflowError):  # millions of years
                seconds_left = round(seconds_of_each * (total - self._done))
                text += f", {timedelta(seconds=seconds_left)} left"
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
        text: Text, which is escaped by `printable`, and on the standard error a line as
            `line_of` returns it; or bytes, which are printed as they are.
        err: Whether to print to the standard error.
        end: The text to print after it, as it is.
        as_is: Whether text is not escaped, as it is lines, or coloured, and was escaped
            before.
    """
    stream = sys.stderr if err else sys.stdout
    if stream is None:  # the program was started with it closed
        return
    try:
        if isinstance(text, bytes):
            _write_bytes(stream, text + end.encode())
            return
        # A message is short. The standard output has names and commands to type again.
        if not as_is and err:
            text = line_of(text)
        elif not as_is:
            text = printable(text)
        text += end
        try:
            stream.write(text)
            stream.flush()
        except UnicodeEncodeError:
            _write_bytes(stream, text.encode())
    except OSError:
        if not err:
            raise
        abandon(stream)


def say_error(sentence: str) -> None:
    """Print an error on the standard error; a terminal shows its first word in red."""
    if has_colours(sys.stderr):
        # Late, as few commands end with an error on a terminal.
        from onnxgather.core.output.result_states import STATES, in_colour

        word = in_colour("Error:", STATES["DIFF"].colour)
        say(f"{word} {line_of(sentence)}", err=True, as_is=True)
    else:
        say(f"Error: {sentence}", err=True)


def _write_bytes(stream: TextIO, content: bytes) -> None:
    stream.buffer.write(content)
    stream.buffer.flush()


def json_bytes(value: object) -> bytes:
    """Return a value as a file of JSON, whose texts are escaped as a terminal needs it.

    It is indented unless it is so long that this would cost much memory.
    """
    import msgspec  # late, as neither --help nor --version needs it

    try:
        text = msgspec.json.encode(value)
        if len(text) < LONGEST_INDENTED:
            text = msgspec.json.format(text, indent=2)
    except UnicodeEncodeError:
        # A file name that is not Unicode is escaped, as json reads it back.
        text = json.dumps(msgspec.to_builtins(value), indent=2).encode()
    if re.search(rb"[^\n -~]", text) is not None:
        text = re.sub("[^\n -~]", _json_escaped, text.decode()).encode()
    return text + b"\n"


def _json_escaped(match: re.Match[str]) -> str:
    """Return a character as it is, if it is plain to see; else its escape of JSON."""
    character = match[0]
    if character.isprintable():
        return character
    # JSON writes a character beyond 16 bits as two units.
    units = character.encode("utf-16-be").hex(" ", 2)
    return "".join(f"\\u{unit}" for unit in units.split(" "))


def width() -> int:
    """Return how many columns a table may have.

    They are those of COLUMNS, or of the terminal, else 100; but at least 40.
    """
    terminal_size = shutil.get_terminal_size((100, 24))
    return max(40, terminal_size.columns)


def has_colours(stream: TextIO | None = None) -> bool:
    """Return whether a stream shows colours, by default the standard output.

    NO_COLOR forbids them, FORCE_COLOR asks for them, else a terminal shows them unless
    it is dumb.
    """
    if os.environ.get("NO_COLOR"):
        return False
    capable = is_terminal(stream or sys.stdout) and os.environ.get("TERM") != "dumb"
    return capable or bool(os.environ.get("FORCE_COLOR"))


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is open and shows on a terminal."""
    return stream is not None and stream.isatty()


def abandon(*streams: TextIO) -> None:
    """Drop what streams that failed still hold, so that none fails again at exit."""
    for stream in streams:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
