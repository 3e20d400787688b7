"""Programs that onnxgather starts, such as workers, and asks over pipes, with a deadline."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO, ClassVar, TypeVar, cast

from onnxgather.checks import shown
from onnxgather.errors import ProviderError
from onnxgather.lanes.lane import Answer, AnswerKind, Breakdown

LONGEST_UNREAD = 2**16
"""The most bytes that are read of the output of a program after it is killed."""

_PAUSE = 0.1
"""Seconds between looks at the deadline."""

_SENTENCES = {
    Breakdown.NOT_STARTED: "{command} does not start: {detail}",
    Breakdown.LATE: "the {name} did not answer within {detail}{printed}",
    Breakdown.STRAY: "the {name} printed where it must answer{printed}",
    Breakdown.TOO_LONG: "the {name} announced more bytes than there can be",
    Breakdown.DIED: "the {name} died of {detail}{printed}",
    Breakdown.EXITED: "the {name} ended with exit code {detail}{printed}",
    Breakdown.CLOSED: "the {name} was ended",
}

_T = TypeVar("_T")


class NoAnswerError(ProviderError):
    """A program gave no answer. The message says why, with what the program printed."""

    def __init__(self, how: Breakdown, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.answer = Answer(AnswerKind.BROKEN, reason, how=how, detail=detail)
        """The answer of a lane for the case at hand."""


class Child(ABC):
    """A program that answers requests, one at a time, and greets before the first.

    If the program ends, hangs or writes something other than an answer, the request at hand has no
    answer. The program is then killed with all that it started; the next request starts another.

    Args:
        command: The program and its arguments.
        timeout: Seconds that an answer may take.
    """

    name: ClassVar[str]
    """The word for the program in messages."""
    sentences: ClassVar[Mapping[Breakdown, str]] = _SENTENCES
    """The messages about missing answers."""

    def __init__(self, command: Sequence[str], timeout: float) -> None:
        self.command, self.timeout = list(command), timeout
        self._program: Program | None = None
        self._closed = False
        self._asking = threading.Lock()

    @abstractmethod
    def _greeted(self, stream: BinaryIO) -> None:
        """Read the program's greeting at its start; raises as `read` of `exchange`."""

    @abstractmethod
    def _printed(self, content: bytes) -> str:
        """What the program wrote, its standard error included, as the end of a message."""

    def start(self) -> None:
        """Start the program if it does not run, and read its greeting.

        Raises:
            NoAnswerError: The program does not start, or does not greet.
        """
        self.exchange(b"", lambda _: None)

    def exchange(self, request: bytes, read: Callable[[BinaryIO], _T]) -> _T:
        """Send a request and return the answer.

        Args:
            request: The bytes for the program's standard input.
            read: Reads the answer from the program's standard output. It raises EOFError if the
                output ends too early, and ValueError with the bytes if they are no answer.

        Raises:
            NoAnswerError: There is no answer.
        """
        with self._asking:
            if self._closed:
                raise self._no_answer(Breakdown.CLOSED)
            program = self._program
            if program is None or program.popen.poll() is not None:
                program = self._start()
            return self._exchange(program, request, read)

    def restart(self) -> None:
        """End the program; the next request starts another."""
        with self._asking:
            self._end()

    def close(self) -> None:
        """End the program for good; a request that waits for an answer raises NoAnswerError."""
        self._closed = True
        program = self._program
        if program is not None:
            program.kill()
        self.restart()

    def _start(self) -> Program:
        self._end()
        try:
            program = self._program = Program(self.command)
        except OSError as error:
            raise self._no_answer(Breakdown.NOT_STARTED, error.strerror or "") from error
        self._exchange(program, b"", self._greeted)
        return program

    def _exchange(self, program: Program, request: bytes, read: Callable[[BinaryIO], _T]) -> _T:
        how, stray = Breakdown.EXITED, b""
        deadline = program.deadline = time.monotonic() + self.timeout
        try:
            program.stdin.write(request)
            program.stdin.flush()
            answer = read(program.stdout)
            program.deadline = math.inf
            if time.monotonic() < deadline:  # so the program was not killed before
                program.printed()  # dropped, as messages about later requests must not have it
                return answer
        except (OSError, EOFError):
            program.popen.wait()  # a program that closed its output but does not end is late
        except MemoryError:
            how = Breakdown.TOO_LONG
        except ValueError as error:
            how, stray = Breakdown.STRAY, error.args[0]
        except BaseException:  # such as an interruption: a late answer must not be the next one
            self._end()
            raise
        late = time.monotonic() >= deadline
        code, printed = self._end()
        detail = stray.decode(errors="replace")
        if late:
            how, detail = Breakdown.LATE, f"{self.timeout:g} s"
        elif how is Breakdown.EXITED and -code in set(signal.Signals):
            how, detail = Breakdown.DIED, signal.Signals(-code).name
        elif how is Breakdown.EXITED:
            detail = str(code)
        raise self._no_answer(how, detail, stray, printed)

    def _end(self) -> tuple[int, bytes]:
        """End the program, and return its exit code and what it wrote that was not read."""
        program, self._program = self._program, None
        return (0, b"") if program is None else program.end()

    def _no_answer(
        self, how: Breakdown, detail: str = "", stray: bytes = b"", printed: bytes = b""
    ) -> NoAnswerError:
        reason = self.sentences[how].format(
            name=self.name,
            command=self.command[0],
            detail=detail,
            stray=shown(stray),
            printed=self._printed(stray + printed),
        )
        return NoAnswerError(how, reason, detail)


class Program:
    """A program that runs, with pipes to it and from it.

    It has a process group of its own. So an interruption by the terminal does not reach it, and
    `kill` reaches what it started, such as the interpreter behind a script.
    """

    def __init__(self, command: Sequence[str]) -> None:
        # A file, as a pipe would fill up: the standard error is not read while the program runs.
        self._errors: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115
        pipe = subprocess.PIPE
        try:
            self.popen = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=self._errors, start_new_session=True
            )
        except OSError:
            self._errors.close()
            raise
        self.stdin = cast("BinaryIO", self.popen.stdin)
        self.stdout = cast("BinaryIO", self.popen.stdout)
        self.deadline = math.inf
        """When the program is killed, in seconds of `time.monotonic`."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Kill the program at its deadline; a timer for each request would cost half as much again.

        The time is read before the deadline, so that no program is killed that met its own.
        """
        while self.popen.returncode is None:
            now = time.monotonic()
            if now > self.deadline:
                self.kill()
                return
            time.sleep(_PAUSE)

    def kill(self) -> None:
        """Kill the program and, except on Windows, its process group."""
        self.popen.kill()
        if sys.platform != "win32":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.popen.pid, signal.SIGKILL)

    def printed(self) -> bytes:
        """Return and drop the standard error so far.

        The file's position is shared with the program, which goes on writing at the start.
        """
        self._errors.seek(0)
        printed = self._errors.read()
        self._errors.seek(0)
        self._errors.truncate()
        return printed

    def end(self) -> tuple[int, bytes]:
        """Kill the program, and return its exit code and what it wrote that was not read."""
        self.kill()
        with contextlib.suppress(OSError):  # the program did not read all of the request
            self.stdin.close()
        with self.stdout, self._errors:
            code, unread = self.popen.wait(), self.stdout.read(LONGEST_UNREAD)
            return code, unread + b" " + self.printed()
