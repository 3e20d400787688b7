"""Programs that onnxgather starts, such as workers, and asks over pipes, in time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from enum import StrEnum
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO, ClassVar, Self, TypeVar, cast

from onnxgather.core.checks import LONGEST_SHOWN, check_seconds
from onnxgather.core.errors import FAULTS, ProviderError, pass_foreign
from onnxgather.core.execution import runtime

LONGEST_UNREAD = 2**16
"""The most bytes that are read of the output of a program after it is killed."""


LONGEST_BANNER = 2**16
"""The most bytes that an environment may print at its start, before its program
greets."""

LONGEST_HEADER = 2**20
"""The most bytes of the JSON in an answer."""

LONGEST_PRINTED = 500
"""The most characters of a program's prints that a message shows."""

LARGEST_PRINTED = 2**24
"""The most bytes of standard error that a program may fill between two looks at it."""

_PAUSE = 0.1
"""Seconds between looks at a program that has not answered."""


class Breakdown(StrEnum):
    """How a lane broke down: why its program gave no answer."""

    NOT_STARTED = "not-started"
    """The program does not start; the detail is the system's reason."""
    DIED = "died"
    """The program died of a signal; the detail is its name, such as SIGSEGV."""
    EXITED = "exited"
    """The program ended by itself; the detail is its exit code."""
    LATE = "late"
    """The program did not answer in time; the detail is its time, such as "60 s"."""
    STRAY = "stray"
    """The program wrote something else where it must answer; the detail is how that
    begins."""
    TOO_LONG = "too-long"
    """The program announced an answer longer than there can be."""
    NONSENSE = "nonsense"
    """The program sent an answer that cannot be decoded; the detail says what is wrong
    with it."""
    CLOSED = "closed"
    """The lane was closed before it answered."""
    NO_VERDICT = "no-verdict"
    """DirectML failed for a reason that is no verdict on the descriptor."""
    NO_MODEL = "no-model"
    """onnxgather could not make the model."""
    NO_ANSWER = "no-answer"
    """There is no answer in the folder of answers: the case ended its process."""


_SENTENCES = {
    Breakdown.NOT_STARTED: "{command} does not start: {detail}",
    Breakdown.LATE: "the {name} did not answer within {detail}{printed}",
    Breakdown.STRAY: "the {name} printed where it must answer{printed}",
    Breakdown.TOO_LONG: "the {name} announced more bytes than there can be",
    Breakdown.DIED: "the {name} died of {detail}{printed}",
    Breakdown.EXITED: "the {name} ended with exit code {detail}{printed}",
    Breakdown.NONSENSE: "the {name} answered what no {name} answers: {detail}",
    Breakdown.CLOSED: "the {name} was ended",
}

_T = TypeVar("_T")


_BY_HOST = "host: "
"""The start of the line in which a host says why it ends."""


class NoAnswerError(ProviderError):
    """A program gave no answer. The message says why, with what the program printed."""

    def __init__(
        self, how: Breakdown, reason: str, detail: str = "", last_words: str = ""
    ) -> None:
        super().__init__(reason)
        self.how = how
        self.detail = detail
        self.last_words = last_words
        """What the program printed; empty if it printed nothing."""

    def at(self, where: str) -> Self:
        """Return the same error, its message starting with `where`."""
        reason = f"{where}: {self}"
        return type(self)(self.how, reason, self.detail, self.last_words)


class LateError(Exception):
    """There is no answer in time; not TimeoutError, which a caller may raise."""


def _ignore_seconds(_: float) -> None: ...


class Child:
    """A program that speaks the protocol of `runtime`, and gets one request at a time.

    If the program ends, hangs or writes something other than an answer, the request at
    hand has no answer. The program is then killed with all that it started; the next
    request starts another.

    Args:
        command: The program and its arguments.
        timeout: Seconds that an answer may take.

    Raises:
        OnnxGatherError: The timeout is not as `check_seconds` accepts it.
    """

    name: ClassVar[str]
    """The word for the program in messages."""
    tell_start: Callable[[float], object] = staticmethod(_ignore_seconds)
    """Is called now and then while a program starts, up to its first answer, with the
    seconds."""

    def __init__(self, command: Sequence[str], timeout: float) -> None:
        self.command = list(command)
        self.timeout = check_seconds("timeout", timeout)
        self.printed = b""
        """What the program printed before its last answer."""
        self._program: StartedProgram | None = None
        self._owes_answer = False
        """Whether an answer of the program may come that nobody waits for."""
        self._closed = False
        self._turns = dict[int, threading.Lock]()

    def exchange(
        self,
        read: Callable[[bytes, bytes], _T],
        request: Mapping[str, Any],
        blobs: bytes | bytearray = b"",
    ) -> _T:
        """Send a request, and return the answer as `read` decodes it.

        Args:
            read: Decodes the JSON and the bytes of an answer.
            request: The request, which becomes JSON.
            blobs: The bytes of the request.

        Raises:
            NoAnswerError: There is no answer, or `read` cannot decode it.
        """
        with self._turn():
            if self._closed:
                raise self._no_answer(Breakdown.CLOSED)
            program = self._program
            if program is None or self._owes_answer or not program.is_running():
                program = self._start()
            answer = self._answer(program, runtime.message(request, blobs))
            header, _, content = answer.partition(b"\n")
            try:
                if len(header) > LONGEST_HEADER:
                    raise ValueError(f"{len(header)} bytes of JSON")
                return read(header, content)
            except FAULTS as error:  # it cannot be decoded
                self._end()
                reason = str(error)[:LONGEST_SHOWN]
                raise self._no_answer(Breakdown.NONSENSE, reason) from error

    def restart(self) -> None:
        """End the program; the next request starts another."""
        with self._turn():
            self._end()

    def close(self) -> None:
        """End the program for good; a request that waits raises NoAnswerError."""
        self._closed = True
        program = self._program
        if program is not None:
            program.kill()
        self.restart()

    def _turn(self) -> threading.Lock:
        """Return the lock of this process.

        In the child of a fork, a thread may hold the parent's lock for ever.
        """
        return self._turns.setdefault(os.getpid(), threading.Lock())

    def _start(self) -> StartedProgram:
        self._end()
        self._owes_answer = True
        try:
            program = StartedProgram(self.command, self.tell_start)
        except (OSError, ValueError) as error:  # ValueError: no system has such a path
            pass_foreign(error)
            why = getattr(error, "strerror", None) or str(error)
            raise self._no_answer(Breakdown.NOT_STARTED, why) from error
        self._program = program
        try:
            self._answer(program, b"")
        except NoAnswerError as error:
            reason = str(error)
            # A host says at its start why it ends; its words are the whole message.
            if error.how is Breakdown.EXITED and error.last_words.startswith(_BY_HOST):
                reason = error.last_words.removeprefix(_BY_HOST)
            raise NoAnswerError(
                error.how, reason, error.detail, error.last_words
            ) from error
        return program

    def _answer(self, program: StartedProgram, request: bytes) -> bytes:
        """Return the answer of a program; end it if it does not answer in time."""
        how = Breakdown.EXITED
        detail = ""
        stray = b""
        failure: OSError | EOFError | None = None
        self._owes_answer = True
        try:
            answer = program.answer(request, time.monotonic() + self.timeout)
            # It does not belong into messages about later requests.
            self.printed = program.printed()
            self._owes_answer = False
            return answer
        except LateError:
            how = Breakdown.LATE
            detail = f"{self.timeout:g} s"
        except (OSError, EOFError) as error:
            failure = error
        except MemoryError:
            how = Breakdown.TOO_LONG
        except ValueError as error:
            how = Breakdown.STRAY
            stray = error.args[0]
            detail = stray[:LONGEST_SHOWN].decode(errors="replace")
        except BaseException:
            # Such as an interruption: the program would go on for nobody.
            self._end()
            raise
        code, printed = self._end()
        if failure is not None:
            pass_foreign(failure)
        if how is Breakdown.EXITED:
            detail = str(code)
            if -code in set(signal.Signals):
                how = Breakdown.DIED
                detail = signal.Signals(-code).name
        raise self._no_answer(how, detail, stray + printed)

    def _end(self) -> tuple[int, bytes]:
        """End the program; return its exit code and its output that was not read."""
        program = self._program
        self._program = None
        if program is None:
            return 0, b""
        return program.end()

    def _no_answer(
        self, how: Breakdown, detail: str = "", printed: bytes = b""
    ) -> NoAnswerError:
        reason = _SENTENCES[how].format(
            name=self.name,
            command=self.command[0],
            detail=detail,
            printed=self._printed(printed),
        )
        return NoAnswerError(how, reason, detail, self._last_words(printed))

    def _last_words(self, content: bytes) -> str:
        """Return what the program wrote and printed, as one line."""
        text = " ".join(content.decode(errors="replace").split())
        if len(text) > LONGEST_PRINTED:
            text = "…" + text[-LONGEST_PRINTED:]
        return text

    def _printed(self, content: bytes) -> str:
        """Return what the program wrote and printed, as the end of a message."""
        text = self._last_words(content)
        if not text:
            return " and printed nothing"
        return f"; it printed: {text}"


class StartedProgram:
    """A program that runs, with pipes to it and from it.

    It has a process group of its own. So an interruption by the terminal does not reach
    it, and `kill` reaches what it started, such as the interpreter behind a script.
    What leaves the group may hold the pipes open, so that a thread of the program's own
    writes and reads. The thread also starts the program, as Linux can end a program
    with the thread that started it.

    In the child of a fork the program stays the parent's: it counts as ended, and is
    not killed.

    Raises:
        OSError: The program, or the thread, does not start.
        ValueError: No system has such a command.
    """

    def __init__(
        self, command: Sequence[str], tell_start: Callable[[float], object]
    ) -> None:
        self._begun = time.monotonic()
        self._tell_start = tell_start
        self._started_in = os.getpid()
        # A file, as a pipe would fill up: the standard error is not read while the
        # program runs.
        self._errors = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        self._requests: SimpleQueue[bytes | None] = SimpleQueue()
        self._answers: SimpleQueue[bytes | BaseException] = SimpleQueue()
        self._unread = b""
        self._thread = threading.Thread(target=self._work, args=[command], daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._errors.close()
            raise OSError(str(error)) from error
        try:
            started = self._answers.get()
            if isinstance(started, BaseException):
                raise started
        except BaseException:
            # After an interruption the thread ends the program that it starts.
            self._requests.put(None)
            self._errors.close()
            raise

    def answer(self, request: bytes, deadline: float) -> bytes:
        """Send a frame, and return what the next frame of the program holds.

        Args:
            request: The frame; b"" waits for the greeting, and must come first.
            deadline: When the answer must be there, in seconds of `time.monotonic`.

        Raises:
            LateError: The answer was not there.
            EOFError: The program ended before.
            ValueError: The program wrote something else; the error contains its bytes.
            MemoryError: The answer is too long.
        """
        if request:
            self._requests.put(request)
        ended = False
        while True:
            left = deadline - time.monotonic()
            pause = max(0, min(_PAUSE, left))
            with contextlib.suppress(Empty):
                answer = self._answers.get(timeout=pause)
                if isinstance(answer, BaseException):
                    raise answer
                if request:
                    self._tell_start = _ignore_seconds
                return answer
            self._tell_start(time.monotonic() - self._begun)
            if ended:  # and a program that it started keeps its output open
                raise EOFError
            if left <= 0:
                raise LateError
            ended = self.popen.poll() is not None
            if os.fstat(self._errors.fileno()).st_size > LARGEST_PRINTED:
                self.printed()  # dropped, as it must not fill the disk

    def is_running(self) -> bool:
        """Return whether the program runs, and for this process."""
        return self._started_in == os.getpid() and self.popen.poll() is None

    def kill(self) -> None:
        """Kill the program and, except on Windows, its process group."""
        if self._started_in != os.getpid():
            return
        self.popen.kill()
        if sys.platform != "win32":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.popen.pid, signal.SIGKILL)

    def printed(self) -> bytes:
        """Drop the standard error so far; return its end.

        The file's position is shared with the program, which goes on writing at the
        start.
        """
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - LONGEST_UNREAD))
        printed = self._errors.read()
        self._errors.seek(0)
        self._errors.truncate()
        return printed

    def end(self) -> tuple[int, bytes]:
        """Kill the program; return its exit code and its output that was not read."""
        if self._started_in != os.getpid():
            self._leave()
            return 0, b""
        self.kill()
        code = self.popen.wait()
        self._requests.put(None)
        # Not for ever: what the program started may keep its output open.
        self._thread.join(5 * _PAUSE)
        with self._errors:
            unread = self._unread + b" " + self.printed()
        return code, unread

    def _leave(self) -> None:
        """In the child of a fork, let the pipes lead nowhere.

        They cannot be closed, as the parent's thread may have been using them.
        The program ends when the last process that holds its input has closed it.
        """
        with open(os.devnull, "r+b", 0) as nothing:
            for pipe in self.pipes:
                with contextlib.suppress(ValueError):  # closed
                    os.dup2(nothing.fileno(), pipe.fileno(), inheritable=False)
        self.popen.returncode = 0  # there is no end to wait for

    def _work(self, command: Sequence[str]) -> None:
        """Start the program, and pass on requests and answers; runs in the thread."""
        try:
            self.popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
            pipes = (self.popen.stdin, self.popen.stdout)
            self.pipes = cast("tuple[BinaryIO, BinaryIO]", pipes)
            """The standard input and output."""
        except BaseException as error:
            # Whatever it is, it belongs to the caller, who waits for it.
            self._answers.put(error)
            return
        self._answers.put(b"")
        stdin, stdout = self.pipes
        try:
            read_greeting(stdout)
            self._answers.put(b"")
            for request in iter(self._requests.get, None):
                stdin.write(request)
                stdin.flush()
                self._answers.put(runtime.read_frame(stdout))
            # Case: an interruption came before somebody had the program.
            if self.is_running():
                self.kill()
                self.popen.wait()
        except (OSError, EOFError) as error:
            # A program that closed its output but does not end is late.
            self.popen.wait()
            self._answers.put(error)
        except BaseException as error:
            self._answers.put(error)
        # The program may not have read all of the request.
        with contextlib.suppress(OSError):
            stdin.close()
        with stdout:
            self._unread = stdout.read(LONGEST_UNREAD)


@contextlib.contextmanager
def starts_told(tell: Callable[[float], object]) -> Generator[None]:
    """Have a function called while a program starts, with the seconds so far."""
    Child.tell_start = staticmethod(tell)
    try:
        yield
    finally:
        Child.tell_start = staticmethod(_ignore_seconds)


def read_greeting(stream: BinaryIO) -> None:
    """Read all that a program writes up to its greeting, `runtime.MAGIC`.

    Raises:
        EOFError: The stream ends.
        ValueError: The program wrote something else; the error contains its bytes.
    """
    start = b""
    while len(start) < LONGEST_BANNER:
        byte = stream.read(1)
        if not byte:
            break
        start += byte
        if start.endswith(runtime.MAGIC):
            return
    if not start:
        raise EOFError
    raise ValueError(start)
