"""Workers: `runtime` in any Python environment, or a host that speaks its protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, BinaryIO, TypeVar

import msgspec

from onnxgather import runtime
from onnxgather.checks import LONGEST_SHOWN
from onnxgather.datatypes import TensorDataType
from onnxgather.workers.child import Breakdown, Child, NoAnswerError

LONGEST_PRINTED = 500
"""The most characters of a worker's prints that a message shows."""

LONGEST_BANNER = 2**16
"""The most bytes that an environment may print at its start, before the worker greets."""

LONGEST_HEADER = 2**20
"""The most bytes of the JSON in an answer."""

_T = TypeVar("_T")
_Natural = Annotated[int, msgspec.Meta(ge=0)]
_TYPES = "|".join(["bool", *(row.numpy.name for row in TensorDataType)])
_DataType = Annotated[str, msgspec.Meta(pattern=rf"^({_TYPES})\Z")]


class NodeElsewhere(msgspec.Struct, frozen=True):
    """A node that went to another provider than the one asked for."""

    name: str
    operator: str
    """ONNX's name, such as Reshape."""
    provider: str
    """The full name of the provider that it went to."""


class About(msgspec.Struct, frozen=True):
    """What `runtime.about` says of an environment."""

    versions: dict[str, str]
    providers: tuple[str, ...] = ()
    devices: dict[str, tuple[str, ...]] = {}
    records_nodes: bool = True
    fault: str | None = None


class Answered(msgspec.Struct, frozen=True):
    """What `runtime.answer` says of a model."""

    not_run: tuple[runtime.NotRunKind, str, NodeElsewhere | None] | None = None
    refused: str | None = None
    nodes: tuple[str, ...] = ()
    outputs: tuple[str | tuple[_DataType, tuple[_Natural, ...], _Natural], ...] = ()


class Worker(Child):
    """`runtime` as a program in any Python environment, or a host that speaks its protocol.

    It starts with the first request.

    Args:
        python: The interpreter that runs it; it needs onnxruntime and numpy.
        timeout: Seconds that an answer may take.
        host: The command of the host, which needs no interpreter.
    """

    name = "worker"

    def __init__(self, python: str, timeout: float, host: Sequence[str] = ()) -> None:
        # Not -I: a user may make an environment by PYTHONPATH.
        super().__init__(host or [python, "-u", runtime.__file__], timeout)

    def about(self) -> About:
        """What the environment offers; a plugin's devices are there after its first model.

        Raises:
            NoAnswerError: The worker gives no answer.
        """
        return self.ask(lambda header, _: msgspec.json.decode(header, type=About), {})

    def ask(
        self,
        read: Callable[[bytes, bytes], _T],
        request: Mapping[str, Any],
        blobs: bytes | bytearray = b"",
    ) -> _T:
        """Send a request for `runtime.answer`; return the answer as `read` decodes it.

        Args:
            read: Decodes the JSON and the bytes of an answer.
            request: The request, which becomes JSON.
            blobs: The bytes of the request.

        Raises:
            NoAnswerError: There is no answer, or `read` cannot decode it.
        """

        def answered(stream: BinaryIO) -> _T:
            header, _, blobs = runtime.read_frame(stream).partition(b"\n")
            try:
                if len(header) > LONGEST_HEADER:
                    raise ValueError(f"{len(header)} bytes of JSON")
                return read(header, blobs)
            except Exception as error:  # whatever it is that cannot be decoded
                detail = str(error)[:LONGEST_SHOWN]
                reason = f"the worker answered what no worker answers: {detail}"
                raise NoAnswerError(Breakdown.NONSENSE, reason, detail) from error

        return self.exchange(runtime.message(request, blobs), answered)

    def _greeted(self, stream: BinaryIO) -> None:
        start = b""
        while len(start) < LONGEST_BANNER and (byte := stream.read(1)):
            start += byte
            if start.endswith(runtime.MAGIC):
                return
        raise ValueError(start) if start else EOFError

    def _printed(self, content: bytes) -> str:
        text = " ".join(content.decode(errors="replace").split())
        if len(text) > LONGEST_PRINTED:
            text = "…" + text[-LONGEST_PRINTED:]
        return f"; it printed: {text}" if text else " and printed nothing"
