"""What a lane is: something that is asked cases and answers with evidence."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from onnxgather.arrays import Array
from onnxgather.cases import Case
from onnxgather.options import Target

Kind = Literal["ran", "refused", "not-run", "broken"]


class Answer(msgspec.Struct, frozen=True):
    """What a lane says to a case."""

    kind: Kind
    """"ran": every node ran where it should. "refused": the model was not taken, though the
    provider started. "not-run": provider missing, not started, or a node elsewhere. "broken":
    the worker died, hung or talked nonsense."""
    reason: str | None = None
    """Why it is not "ran"."""
    nodes: tuple[str, ...] = ()
    """The operators that ran, by the runtime's own node assignment."""
    output: Array | None = None
    error: str | None = None
    """What the provider said instead of an output."""
    answers_in_range: Array | None = None
    """Where the case must be refused: what it returned for indices of zero, as proof that it
    does not refuse everything."""
    started: bool = True
    """Of "not-run": whether the provider at least started."""


class LaneInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who a lane is."""

    name: str
    """As the user named it, such as `cpu` or `openvino@old`."""
    provider: str
    """The full name, such as CPUExecutionProvider."""
    versions: dict[str, str] = {}
    """Of onnxruntime, numpy, python and whatever else counts, such as DirectML."""
    devices: tuple[str, ...] = ()
    python: str | None = None
    """The interpreter that ran it."""
    not_run: str | None = None
    """Why it could not start at all."""
    target: Target | None = None
    """Whom its models are for; None where it runs no ONNX model."""
    required: bool = False


class Lane(Protocol):
    """A provider, in this environment or another, or DirectML itself."""

    @property
    def name(self) -> str:
        """As the user named it, such as `cpu` or `openvino@old`."""
        ...

    def start(self) -> LaneInfo:
        """Start it and say who it is; what cannot start says so in `not_run`."""
        ...

    def answer(self, case: Case) -> Answer:
        """Run a case; never raises for what the lane does wrong."""
        ...

    def close(self) -> None:
        """End it."""
        ...
