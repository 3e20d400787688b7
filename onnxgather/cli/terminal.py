"""What commands send to the terminal."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Generator, Iterable, Sequence
from datetime import timedelta
from typing import TextIO

import msgspec

from onnxgather.cli.sources import Source, find_sources
from onnxgather.errors import FINDINGS, GOOD, NOT_RUN, UNUSABLE, OnnxGatherError

INTERRUPTED, BROKEN_PIPE = 130, 141  # 128 + the signal, as shells count

_BEST_TO_WORST = (GOOD, FINDINGS, NOT_RUN, UNUSABLE)


class Progress:
    """One line on the standard error that says how far the work is.

    It shows where the standard error is a terminal, once the work takes a second.

    Args:
        hidden: Whether it does not show at all.
    """

    def __init__(self, *, hidden: bool = False) -> None:
        self._start = time.monotonic()
        self._shows = _is_terminal(sys.stderr) and not hidden
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
            what: What is counted, such as `Checking`.
            total: Of how many, if that is known; then the line tells the time that is left.
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


class Batch:
    """Work on many files: a bad one does not stop the others, and progress shows.

    Args:
        prints: Whether a line is printed for each file. Those show the progress themselves where
            the standard output is a terminal.
    """

    def __init__(self, *, prints: bool = True) -> None:
        self.failures: list[tuple[str, OnnxGatherError]] = []
        """What each file that failed is called, and why it did."""
        self.progress = Progress(hidden=prints and _is_terminal(sys.stdout))

    def sources(self, paths: Sequence[str]) -> list[Source]:
        """The programs that the paths stand for."""
        sources: list[Source] = []
        for path in paths:
            with self.step(path):
                sources += find_sources(path)
        return sources

    @contextlib.contextmanager
    def step(self, name: str, number: int = 0, total: int = 0) -> Generator[None]:
        """Show what is being done, and report an error that ends it."""
        self.progress.show((f"{number}/{total} " if total else "") + name)
        try:
            yield
        except OnnxGatherError as error:
            self.progress.clear()
            say(f"Error: {error}", err=True)
            self.failures.append((name, error))

    def say(self, text: str) -> None:
        """Print a line."""
        self.progress.clear()
        say(text)

    def finish(self, codes: Iterable[int] = ()) -> int:
        """Return the exit code of the whole, of the failures and what else there was."""
        self.progress.clear()
        codes = [*codes, *(error.exit_code for _, error in self.failures)]
        return max(codes, key=_BEST_TO_WORST.index, default=GOOD)


def say(text: str | bytes, *, err: bool = False, end: str = "\n") -> None:
    """Print text at once; what the stream's encoding lacks goes out as in a file's name.

    Args:
        text: Text, or bytes that go out as they are.
        err: Whether it goes to the standard error.
        end: What follows it.
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


def say_json(value: object) -> None:
    """Print a value as JSON."""
    say(json_bytes(value))


def json_bytes(value: object) -> bytes:
    """A value as indented JSON."""
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2)
    except UnicodeEncodeError:  # a file name that is not Unicode: escaped, as json reads it back
        return json.dumps(msgspec.to_builtins(value), indent=2).encode()


def width() -> int:
    """How many columns a table may take."""
    if not _is_terminal(sys.stdout):
        return 100
    return min(max(shutil.get_terminal_size().columns, 60), 160)


def has_colours() -> bool:
    """Whether the standard output shows colours: a terminal, unless NO_COLOR is set."""
    return _is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def abandon(*streams: TextIO) -> None:
    """Send nowhere what a stream that failed still holds, or it would fail once more at exit."""
    for stream in streams:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
