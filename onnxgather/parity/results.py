"""What became of the cases, as data: the terminal, JSON, JUnit and HTML are written from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

import msgspec
import numpy as np

from onnxgather.arrays import Array
from onnxgather.cases import Case, ForbiddenNode
from onnxgather.lanes.lane import LaneInfo
from onnxgather.options import OutOfRange

State = Literal["PASS", "DIFF", "ERROR", "NOT-RUN", "KNOWN", "FIXED"]
"""PASS: the same data type, shape and bytes as the reference, or refused where both refuse.
DIFF: not so. ERROR: the provider failed. NOT-RUN: the provider did not run it. KNOWN: one of
the last three, as the file of known differences says. FIXED: PASS although that file says not.
"""

BAD: tuple[State, ...] = ("DIFF", "ERROR", "FIXED")
"""The states that somebody must look at."""


class Element(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first element that differs."""

    index: tuple[int, ...]
    """Its place in the array that stands for OutputTensor."""
    expected: str
    expected_bytes: str
    """In hexadecimal, in the order of memory."""
    got: str
    got_bytes: str
    source: str | None = None
    """Which index led there, such as `output[1, 0] = input[1, indices[0]] = input[1, 2] = 6`."""


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one lane made of one case, with the evidence."""

    lane: str
    state: State
    reason: str | None = None
    """Why it is not PASS, or what both refused."""
    nodes: tuple[str, ...] = ()
    """The operators that the provider ran, by ONNX Runtime's own node assignment."""
    first: Element | None = None
    found: State | None = None
    """Of KNOWN: what it would be without the file of known differences."""
    known: str | None = None
    """Of KNOWN and FIXED: what that file says."""


class Blob(msgspec.Struct, frozen=True):
    """An array in a report."""

    data_type: str
    """numpy's name, such as float32."""
    shape: tuple[int, ...]
    data: bytes
    """Little-endian, in the order of memory; base64 in JSON."""

    @classmethod
    def of(cls, array: Array) -> Blob:
        """Return an array as a blob."""
        return cls(
            array.dtype.name, array.shape, array.astype(array.dtype.newbyteorder("<")).tobytes()
        )

    def array(self) -> Array:
        """Return the array."""
        dtype = np.dtype(self.data_type)
        array = np.frombuffer(self.data, dtype.newbyteorder("<")).reshape(self.shape)
        return array.astype(dtype)


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything needed to run a case again."""

    data: Blob
    indices: Blob
    descriptor: dict[str, Any] | None = None
    """In DxDispatch's spelling."""
    bare: ForbiddenNode | None = None
    expected: Blob | None = None
    """None where the case must be refused."""
    got: dict[str, Blob] = {}
    """What the lanes returned that did not pass."""


class CaseResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One case on all lanes."""

    name: str
    operator: str
    data_type: str
    index_type: str
    dimension_count: int
    out_of_range: OutOfRange
    in_range: bool
    results: tuple[Result, ...]
    """One per lane, in the order of the report's lanes."""
    wrapped: bool = False
    file: str | None = None
    command: str | None = None
    dispatchable: str | None = None
    evidence: Evidence | None = None
    """None where all lanes passed, and where the arrays exceed 1 MiB."""

    @classmethod
    def of(cls, case: Case, results: tuple[Result, ...], evidence: Evidence | None) -> CaseResult:
        """Return the results of a case."""
        origin = case.origin
        return cls(
            case.name,
            case.operator,
            case.data_type,
            case.index_type,
            case.dimension_count,
            case.out_of_range,
            case.in_range,
            results,
            case.wrapped,
            origin.file if origin else None,
            origin.command if origin else None,
            origin.dispatchable if origin else None,
            evidence,
        )


class Invalid(msgspec.Struct, frozen=True):
    """A file whose descriptor breaks a rule, so that none of its dispatches could run."""

    file: str
    reason: str


class Report(msgspec.Struct, frozen=True):
    """A whole check."""

    onnxgather: str
    """Its version."""
    made: str
    """When it ended: UTC, such as 2026-11-21T12:00:00Z."""
    machine: str
    """Such as `Linux 6.1 x86_64, 2 cores`."""
    lanes: tuple[LaneInfo, ...]
    cases: list[CaseResult]
    invalid: list[Invalid] = []
    unusable: list[str] = []
    """What is wrong with the files that could not be checked."""

    def counts(self, lane: int) -> Counter[State]:
        """Return how many cases of a lane have each state."""
        return Counter(case.results[lane].state for case in self.cases)


def worst(states: Iterable[State]) -> State:
    """Return the state that a row of states is shown by."""
    order: tuple[State, ...] = ("PASS", "KNOWN", "NOT-RUN", "FIXED", "ERROR", "DIFF")
    return max(states, key=order.index) if (states := list(states)) else "NOT-RUN"


def read_report(text: bytes) -> Report:
    """Return a report from its JSON."""
    return msgspec.json.decode(text, type=Report)
