"""`runtime` as a program in any Python environment, asked over pipes.

A worker that dies, hangs or prints where it must answer costs the request at hand: it is killed,
and the next request starts another.
"""

from __future__ import annotations

import contextlib
import math
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from onnxgather import runtime
from onnxgather.lanes.child import kill, pipes, start
from onnxgather.lanes.lane import Breakdown
from onnxgather.runtime import read_frame, write_frame

LONGEST_PRINTED = 500
"""Characters of what a worker printed that a message shows."""

LONGEST_BANNER = 2**16
"""Bytes that an environment may print at its start, before the worker takes over."""

_PAUSE = 0.1
"""Seconds between looks at the deadline."""

_NONE, _EXPIRED = math.inf, -math.inf


class WorkerError(Exception):
    """A worker did not answer; one sentence says why, with what it printed."""

    def __init__(self, how: Breakdown, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.how, self.detail = how, detail


class Worker:
    """A worker; it starts with the first request.

    Args:
        python: The interpreter that runs it; it needs onnxruntime and numpy.
        timeout: Seconds that an answer may take.
    """

    def __init__(self, python: str, timeout: float) -> None:
        self.python, self.timeout = python, timeout
        self.about: dict[str, Any] = {}
        self._running: subprocess.Popen[bytes] | None = None
        self._printed: BinaryIO | None = None
        self._deadline = _NONE
        self._closed = False
        self._asking = threading.Lock()
        self._timing = threading.Lock()

    def start(self) -> None:
        """Start it and learn what environment it runs in (`runtime.about`).

        Raises:
            WorkerError: It does not start.
        """
        self._discard()
        if self._closed:
            raise WorkerError(Breakdown.CLOSED, "the worker was ended")
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 as it is open while it runs
        # Not -I: a user's PYTHONPATH may be what makes the environment.
        command = [self.python, "-u", str(Path(runtime.__file__))]
        try:
            self._running = start(command, self._printed)
        except OSError as error:
            self._discard()
            reason = f"{self.python} does not start: {error.strerror}"
            raise WorkerError(Breakdown.NOT_STARTED, reason, error.strerror or "") from None
        threading.Thread(target=self._watch, args=(self._running,), daemon=True).start()
        self.about, _ = self._wait(self._running)

    def ask(self, request: Mapping[str, Any], blobs: bytes) -> tuple[dict[str, Any], bytes]:
        """Return the answer to a request (`runtime.answer`).

        Raises:
            WorkerError: There is none.
        """
        with self._asking:
            if self._running is None or self._running.poll() is not None:
                self.start()
            assert self._running is not None
            return self._wait(self._running, request, blobs)

    def close(self) -> None:
        """End it for good; who waits for its answer hears that it died."""
        self._closed = True
        if self._running is not None:
            kill(self._running)
        with self._asking:
            self._discard()

    def _discard(self) -> None:
        """End what runs, and drop what it printed."""
        self._end()
        if self._printed is not None:
            self._printed.close()

    def _end(self) -> tuple[int, bytes]:
        """Kill it, and return its exit code and what else it sent."""
        running, self._running = self._running, None
        if running is None:
            return 0, b""
        kill(running)
        stdin, stdout = pipes(running)
        with contextlib.suppress(OSError):  # what it was never sent
            stdin.close()
        with stdout:
            return running.wait(), stdout.read(LONGEST_BANNER)

    def _wait(
        self,
        running: subprocess.Popen[bytes],
        request: Mapping[str, Any] | None = None,
        blobs: bytes = b"",
    ) -> tuple[dict[str, Any], bytes]:
        """Send a request, if there is one, and return the next frame."""
        stdin, stdout = pipes(running)
        stray, frame, too_much = b"", None, False
        self._deadline = time.monotonic() + self.timeout
        try:
            if request is not None:
                write_frame(stdin, request, blobs)
            frame = read_frame(stdout, 0 if request is not None else LONGEST_BANNER)
        except ValueError as error:
            stray = error.args[0] if isinstance(error.args[0], bytes) else str(error).encode()
        except (MemoryError, OverflowError):
            too_much = True
        except OSError:
            pass  # it died while it was written to
        with self._timing:
            expired, self._deadline = self._deadline == _EXPIRED, _NONE
        if frame is not None and not expired:
            self._forget()
            return frame
        code, rest = self._end()
        if too_much and not expired:
            reason = "the worker announced more bytes than there can be"
            raise WorkerError(Breakdown.TOO_LONG, reason)
        raise self._why(code, stray + rest, expired=expired)

    def _watch(self, running: subprocess.Popen[bytes]) -> None:
        """Kill a worker that passes its deadline; one thread each, as a timer each time is slow."""
        while running is self._running:
            with self._timing:
                if self._deadline < time.monotonic():
                    self._deadline = _EXPIRED
                    kill(running)
                    return
            time.sleep(_PAUSE)

    def _why(self, code: int, stray: bytes, *, expired: bool) -> WorkerError:
        """Return what went wrong, and what it printed."""
        if expired:
            how, detail = Breakdown.LATE, f"{self.timeout:g} s"
            reason = f"the worker did not answer within {detail}"
        elif stray:
            how, detail = Breakdown.STRAY, stray.decode(errors="replace")
            reason = "the worker printed where it must answer"
        elif -code in set(signal.Signals):
            how, detail = Breakdown.DIED, signal.Signals(-code).name
            reason = f"the worker died of {detail}"
        else:
            how, detail = Breakdown.EXITED, str(code)
            reason = f"the worker ended with exit code {detail}"
        printed = " ".join((stray + b" " + self._forget()).decode(errors="replace").split())
        if len(printed) > LONGEST_PRINTED:
            printed = "…" + printed[-LONGEST_PRINTED:]
        reason += f"; it printed: {printed}" if printed else " and printed nothing"
        return WorkerError(how, reason, detail)

    def _forget(self) -> bytes:
        """Return and drop what it printed; its position in the file is the worker's own too."""
        assert self._printed is not None
        self._printed.seek(0)
        printed = self._printed.read()
        self._printed.seek(0)
        self._printed.truncate()
        return printed
