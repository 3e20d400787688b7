"""`runtime` as a program in any Python environment, asked over pipes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

from onnxgather import runtime
from onnxgather.lanes.child import Child
from onnxgather.lanes.lane import Breakdown

LONGEST_PRINTED = 500
"""Characters of what a worker printed that a message shows."""

LONGEST_BANNER = 2**16
"""Bytes that an environment may print at its start, before the worker takes over."""

_SENTENCES = {
    Breakdown.NOT_STARTED: "{python} does not start: {detail}",
    Breakdown.LATE: "the worker did not answer within {detail}{printed}",
    Breakdown.STRAY: "the worker printed where it must answer{printed}",
    Breakdown.TOO_LONG: "the worker announced more bytes than there can be",
    Breakdown.DIED: "the worker died of {detail}{printed}",
    Breakdown.EXITED: "the worker ended with exit code {detail}{printed}",
    Breakdown.CLOSED: "the worker was ended",
}


class Worker(Child):
    """A worker; it starts with the first request.

    Args:
        python: The interpreter that runs it; it needs onnxruntime and numpy.
        timeout: Seconds that an answer may take.
    """

    def __init__(self, python: str, timeout: float) -> None:
        # Not -I: a user's PYTHONPATH may be what makes the environment.
        super().__init__([python, "-u", runtime.__file__], timeout)
        self.about: dict[str, Any] = {}
        """What `runtime.about` said of the environment; empty before it did."""

    def ask(
        self, request: Mapping[str, Any], blobs: bytes | bytearray = b""
    ) -> tuple[dict[str, Any], bytes]:
        """Return the answer to a request (`runtime.answer`).

        Raises:
            NoAnswerError: There is none.
        """
        return self.exchange(runtime.frame(request, blobs), runtime.read_frame)

    def _greeted(self, stream: BinaryIO) -> None:
        self.about, _ = runtime.read_frame(stream, LONGEST_BANNER)

    def _sentence(self, how: Breakdown, detail: str, stray: bytes, printed: bytes) -> str:
        text = " ".join((stray + printed).decode(errors="replace").split())
        if len(text) > LONGEST_PRINTED:
            text = "…" + text[-LONGEST_PRINTED:]
        said = f"; it printed: {text}" if text else " and printed nothing"
        return _SENTENCES[how].format(python=self.command[0], detail=detail, printed=said)
