"""The results of a check as data, from which the reports of all formats are made.

`report.schema.json` describes the classes of this module to readers of the JSON.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import force_setattr, replace

from onnxgather.checking.cases import Case, DescriptorCase, GatherNode, name_beside
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.core.descriptors.arrays import Array, content_of
from onnxgather.core.descriptors.datatypes import (
    ONNX_NAMES,
    TensorDataType,
    numpy_type,
)
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.spelling import from_dict, to_dict
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.execution.elsewhere.worker import NodeElsewhere
from onnxgather.core.execution.runtime import NotRunKind
from onnxgather.core.options import OutOfRange
from onnxgather.core.output.result_states import SEVERITIES, Severity, State
from onnxgather.core.public import public

LARGEST_EXAMPLE = 2**9
"""The most bytes of inputs that a report holds of a case that passed."""

SCHEMA = 2
"""The version of the report's JSON.

It grows when a field goes away or changes its meaning.
"""

BY_DIRECTML = "with DirectML's formula"
"""What is said of results that DirectML's formula judged in place of the policy."""

LARGEST_EVIDENCE = 2**20
"""The most bytes of arrays that a report holds of one case."""


class ResultKind(StrEnum):
    """What became of a case on a lane, exactly."""

    SAME = "same"
    """The output has the data type, the shape and the bytes of the reference's."""
    REFUSED = "refused"
    """The provider refuses the case, as it must, and is right about the valid case
    beside it."""
    ELEMENTS = "elements"
    """Elements of the output differ."""
    DATA_TYPE = "data-type"
    """The output has another data type."""
    SHAPE = "shape"
    """The output has another shape."""
    NOT_REFUSED = "not-refused"
    """The provider returned an output for a case that it must refuse."""
    FAILED = "failed"
    """The provider failed while it ran the model."""
    NOT_TAKEN = "not-taken"
    """The provider did not take the model."""
    BROKEN = "broken"
    """The program behind the lane gave no answer."""
    NOT_RUN = "not-run"
    """The provider did not run the model."""
    NOT_STARTED = "not-started"
    """The lane did not start."""
    UNPROVED = "unproved"
    """The provider refuses the case, as it must, but is not right about the valid case
    beside it, so that the refusal proves nothing."""


class Returned(StrEnum):
    """What an output holds where the indices are out of range."""

    ZEROS = "zeros"
    """Zeros alone."""
    CLAMPED = "clamped"
    """The elements at the clamped indices."""
    DIRECTML = "directml"
    """The elements that DirectML returns."""
    OTHER = "other"
    """Other elements of InputTensor."""
    FOREIGN = "foreign"
    """Values that InputTensor does not have."""
    UNKNOWN = "unknown"
    """Anything; `got` is the data type and the shape of the output."""


_SEVERITIES = {
    ResultKind.SAME: Severity.AGREES,
    ResultKind.REFUSED: Severity.AGREES,
    ResultKind.ELEMENTS: Severity.WRONG_ELEMENTS,
    ResultKind.DATA_TYPE: Severity.WRONG_ELEMENTS,
    ResultKind.SHAPE: Severity.WRONG_ELEMENTS,
    ResultKind.NOT_REFUSED: Severity.NOT_REFUSED,
    ResultKind.FAILED: Severity.FAILS,
    ResultKind.NOT_TAKEN: Severity.FAILS,
    ResultKind.BROKEN: Severity.FAILS,
    ResultKind.NOT_RUN: Severity.DECLINES,
    ResultKind.NOT_STARTED: Severity.NOT_STARTED,
    ResultKind.UNPROVED: Severity.DECLINES,
}
"""The severity of each kind of result, where nothing worse is known."""

_ENDS = (Breakdown.DIED, Breakdown.EXITED, Breakdown.NO_ANSWER)
"""The breakdowns in which a process ended."""


class ForeignMemory(StrEnum):
    """How an output shows memory that is not the model's."""

    PATTERN = "pattern"
    """Elements hold the bytes that were put into free memory before each run."""
    DIFFERS = "differs"
    """Two runs over free memory with other bytes differ."""
    VALUES = "values"
    """Elements are neither in InputTensor nor zero, in both runs."""


class Element(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first element that differs."""

    index: tuple[int, ...]
    """The coordinates of the element in the array that stands for OutputTensor."""
    expected: str
    """The element of the reference."""
    expected_bytes: str
    """The bytes of that element in hexadecimal, in the order of memory."""
    got: str
    """The element of the provider."""
    got_bytes: str
    """The bytes of that element in hexadecimal, in the order of memory."""
    source: str | None = None
    """Which index led there, such as `output[1, 0] = input[1, indices[0]] = input[1, 2]
    = 6`."""

    def __str__(self) -> str:
        index = ",".join(map(str, self.index))
        expected = f"{self.expected} ({self.expected_bytes})"
        got = f"{self.got} ({self.got_bytes})"
        return f"first OutputTensor[{index}]: expected {expected}, got {got}"


class ArrayType(msgspec.Struct, frozen=True):
    """The data type and the shape of an array."""

    data_type: str
    """The data type by numpy's name, such as float32; string for texts."""
    shape: tuple[int, ...]
    """The sizes."""

    @classmethod
    def of(cls, array: Array) -> ArrayType:
        """Return the type of an array."""
        return cls(_name_of(array), array.shape)

    @property
    def sizes(self) -> list[int]:
        """The shape as a list, as sentences write it."""
        return list(self.shape)


@public
class Result(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """What became of one case on one lane.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [2]))
        >>> data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
        >>> indices = np.array([[2, 7]], np.int64)
        >>> (result,) = og.check(desc, data, indices, target="portable")
        >>> result.state, result.nodes
        ('PASS', ('Reshape', 'Cast', 'Clip', 'Cast', 'Gather'))
    """

    lane: str
    """The name of the lane."""
    state: State
    """Whether the lane computes what the reference computes. Where there is `beside`,
    it is the worse state of the two runs; that of `beside` where `kind` is unproved."""
    kind: ResultKind
    """What became of the case itself, exactly."""
    reason: str | None = None
    """A sentence for people: why the state is not PASS, or what both refused. Its
    wording may change at any time; programs read the other fields."""
    nodes: tuple[str, ...] = ()
    """The operators that the provider ran, by ONNX Runtime's own node assignment."""
    differing: int = 0
    """How many elements differ, where `kind` is elements."""
    compared: int = 0
    """How many elements there are, where `kind` is elements."""
    first: Element | None = None
    """The first element that differs, where `kind` is elements."""
    expected: ArrayType | None = None
    """What the reference has, where `kind` is data-type or shape."""
    got: ArrayType | None = None
    """What the provider returned, where `kind` is data-type or shape, or `returned` is
    unknown."""
    returned: Returned | None = None
    """What the output holds, where `kind` is not-refused."""
    rule: str | None = None
    """The rule that the case breaks, where `kind` is not-refused, or is refused and an
    index is out of range. A sentence for people."""
    message: str | None = None
    """The provider's own message on one line, where `kind` is refused, failed or
    not-taken."""
    not_run: NotRunKind | None = None
    """Why the provider did not run the model, where `kind` is not-run; absent where the
    lane runs no such case."""
    breakdown: Breakdown | None = None
    """In which way the lane broke down, where `kind` is broken."""
    detail: str = ""
    """What `not_run` or `breakdown` leaves open."""
    elsewhere: NodeElsewhere | None = None
    """The node that went to another provider, where `kind` is not-run and ONNX Runtime
    tells it."""
    beside: Result | None = None
    """The result of the valid case that runs beside a case which must be refused: the
    same descriptor with indices of zero, or an allowed node. A refusal counts only if
    the provider is right about the valid case. The other keys are about the case
    itself."""
    alone: State | None = None
    """The state of the case itself, where `state` is that of `beside`."""
    unsteady: bool = False
    """Whether a second run returned something else."""
    foreign_memory: ForeignMemory | None = None
    """How the output shows memory that is not the model's, where the case itself is a
    DIFF and the lane runs each case twice. Report it privately first."""
    found: State | None = None
    """The state of the case itself without the file of known differences, where that
    explains it."""
    known: str | None = None
    """What the file of known differences says, where the case itself is KNOWN or FIXED;
    and in the report of a part of the cases, where the case itself is right and the
    file says that it is wrong. A sentence for people."""
    of_descriptor: bool = False
    """Whether the lane ran the descriptor of the case's model, and not the model: it
    runs no ONNX models."""
    by_directml: bool = False
    """Whether the lane is DirectML itself and an index is out of range, so that
    DirectML's formula judged the output in place of the case's policy."""
    given_as: str = ""
    """The data types that the provider was given in place of those that it lacks, such
    as `data as UINT32, indices as INT32`. The inputs and the outputs of the report are
    those of the case."""
    severity: Severity = Severity.AGREES
    """What the result means to those who run models. It follows from the other keys."""
    gathers: tuple[str, ...] = ()
    """ONNX's names of the gathers in the model that the lane was given, such as
    GatherND; empty where it runs no ONNX model."""

    def __post_init__(self) -> None:
        severity = _SEVERITIES[self.kind]
        if self.breakdown in _ENDS:
            severity = Severity.ENDS_PROCESS
        elif self.foreign_memory is not None or self.returned is Returned.FOREIGN:
            severity = Severity.FOREIGN_MEMORY
        if self.beside is not None:
            severity = min(severity, self.beside.severity, key=[*Severity].index)
        force_setattr(self, "severity", severity)

    @property
    def returned_any(self) -> bool:
        """Whether the result is about an output that is wrong."""
        return self.kind in (
            ResultKind.ELEMENTS,
            ResultKind.DATA_TYPE,
            ResultKind.SHAPE,
            ResultKind.NOT_REFUSED,
        )

    @property
    def bare_rule(self) -> str:
        """The rule without its numbers, which differ from case to case."""
        return re.sub(r"\[[^]]*\]|-?[0-9]+", "", self.rule or "")

    @property
    def remarks(self) -> list[str]:
        """What a cell says beside the state: what ran, and what judged it."""
        remarks: list[str] = []
        if self.given_as:
            remarks.append(self.given_as)
        if self.of_descriptor:
            remarks.append("its descriptor")
        if self.by_directml:
            remarks.append(BY_DIRECTML)
        return remarks

    @property
    def runs(self) -> list[Result]:
        """The case itself, and the valid case beside it if one ran."""
        if self.beside is None:
            return [self]
        itself = replace(self, state=self.alone or self.state, beside=None, alone=None)
        return [itself, self.beside]

    @property
    def is_wrong(self) -> bool:
        """Whether the lane is wrong in a run, be it a known difference or not."""
        return any((run.found or run.state) in ("DIFF", "ERROR") for run in self.runs)


_ELEMENT_TYPES = {*ONNX_NAMES, *(row.numpy.name for row in TensorDataType)} - {"object"}
"""The names of the data types of arrays that a report may have, beside string."""


def _name_of(array: Array) -> str:
    return "string" if array.dtype.hasobject else array.dtype.name


class Blob(ArrayType, frozen=True):
    """An array in a report."""

    data: bytes
    """The bytes of the array, little-endian, in the order of memory; base64 in JSON. Of
    texts they are a list of JSON."""

    @classmethod
    def of(cls, array: Array) -> Blob:
        """Return an array as a blob."""
        little = array.astype(array.dtype.newbyteorder("<"))
        return cls(_name_of(array), array.shape, content_of(little))

    def array(self) -> Array:
        """Return the blob as an array, in this machine's byte order."""
        if self.data_type == "string":
            texts = msgspec.json.decode(self.data, type=list[str])
            return np.array(texts, object).reshape(self.shape)
        # Any other text may be a type to numpy, such as a list of types.
        if self.data_type not in _ELEMENT_TYPES:
            rule = "data_type must be that of numbers or texts"
            raise ValueError(f"{rule}, got {self.data_type}")
        dtype = numpy_type(self.data_type)
        elements = np.frombuffer(self.data, dtype.newbyteorder("<"))
        return elements.reshape(self.shape).astype(dtype)


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything needed to run a case again.

    Either `descriptor` or `node` is there.
    """

    data: Blob
    """The array of InputTensor."""
    indices: Blob
    """The array of IndicesTensor."""
    descriptor: dict[str, Any] | None = None
    """The descriptor, in DxDispatch's spelling."""
    node: GatherNode | None = None
    """The node, where no descriptor says the case."""
    model: bytes | None = None
    """The ONNX model that the lanes ran, if they ran the file of a model."""
    expected: Blob | None = None
    """The output of the reference; absent where the case must be refused."""
    got: dict[str, Blob] = {}
    """The outputs of the lanes that did not pass, by the names of the lanes."""
    got_beside: dict[str, Blob] = {}
    """Likewise the outputs for the valid case beside a case that must be refused."""

    @property
    def blobs(self) -> list[Blob]:
        """All arrays."""
        outputs = [*self.got.values(), *self.got_beside.values()]
        blobs = [self.data, self.indices, self.expected, *outputs]
        return [blob for blob in blobs if blob is not None]

    @property
    def size(self) -> int:
        """How many bytes the arrays and the model have."""
        return sum(len(blob.data) for blob in self.blobs) + len(self.model or b"")

    @classmethod
    def of(
        cls,
        case: Case,
        got: Mapping[str, Array],
        got_beside: Mapping[str, Array] | None = None,
    ) -> Evidence | None:
        """Return the evidence of a case; None if its arrays are too large.

        Args:
            case: The case.
            got: The outputs of the lanes that did not pass, by the names of the lanes.
            got_beside: Likewise those for the valid case beside it.
        """
        got_beside = got_beside or {}
        arrays = [case.data, case.indices, *got.values(), *got_beside.values()]
        descriptor = None
        node = None
        model = None
        if isinstance(case, DescriptorCase):
            descriptor = to_dict(case.descriptor)
            model = case.model.content if case.model else None
        else:
            node = case.node
        texts = [array for array in arrays if array.dtype.hasobject]
        size = sum(array.nbytes for array in arrays) + len(model or b"")
        size += sum(len(content_of(array)) for array in texts)
        if size > LARGEST_EVIDENCE:
            return None
        expected = None
        expected_output = case.expected()
        if not isinstance(expected_output, str):  # a text is the rule of a refusal
            expected = Blob.of(expected_output)
        return cls(
            Blob.of(case.data),
            Blob.of(case.indices),
            descriptor,
            node,
            model,
            expected,
            {lane: Blob.of(array) for lane, array in got.items()},
            {lane: Blob.of(array) for lane, array in got_beside.items()},
        )


class CaseResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One case on all lanes."""

    name: str
    """The name of the case, such as gather/float32/uint32/edges."""
    operator: str
    """GATHER, GATHER_ELEMENTS, GATHER_ND or GATHER_ND1, or ONNX's name of a forbidden
    node."""
    data_type: str
    """The data type of the data, such as FLOAT32."""
    index_type: str
    """The data type of the indices, such as INT64."""
    dimension_count: int
    """DimensionCount, or the rank of the data of a forbidden node."""
    out_of_range: OutOfRange
    """What an index out of range does."""
    in_range: bool
    """Whether every index is in range."""
    results: tuple[Result, ...]
    """The results, in the order of the report's lanes; one for each lane that was asked
    the case."""
    wrapped: bool = False
    """Whether the gather stands between two multiplications by one."""
    file: str | None = None
    """The program or the model that the case comes from; absent where it comes from
    none."""
    command: str | None = None
    """The path to its command in that file, such as `$.commands[0]`. Where no command
    dispatches the gather, it is which arrays it has, such as `random bits`."""
    dispatchable: str | None = None
    """The name of the program's dispatchable, which has the descriptor."""
    runs_file: bool = False
    """Whether the file is an ONNX model that the lanes run as it is."""
    note: str | None = None
    """How many indices are out of range, the first of them, and what another policy
    returns, where an index of a program or of the user's inputs is out of range. A
    sentence for people."""
    evidence: Evidence | None = None
    """What is needed to run the case again; absent where all lanes passed, where the
    arrays exceed 1 MiB, and where those of all cases would exceed 32 MiB."""

    example: Evidence | None = None
    """What a picture is drawn from where all lanes passed. The first 500 cases whose
    inputs have at most 512 bytes have an example."""

    @property
    def beside(self) -> CaseResult:
        """The valid case beside this one, which must be refused, without results."""
        name = f"beside/{self.name}"
        # Case: a node that ONNX forbids.
        if self.in_range:
            name = name_beside(self.operator, self.data_type)
        evidence = self.evidence
        if evidence is not None:
            evidence = replace(evidence, got=evidence.got_beside)
        return replace(self, name=name, in_range=True, results=(), evidence=evidence)

    def output_of(self, lane: str) -> Array | None:
        """Return the output of a lane that did not pass, if the report has it."""
        if self.evidence is None or lane not in self.evidence.got:
            return None
        return self.evidence.got[lane].array()

    def runs_of(self, result: Result) -> list[tuple[CaseResult, Result]]:
        """Return the runs of a result of this case, each beside its case."""
        itself, *others = result.runs
        return [(self, itself), *((self.beside, run) for run in others)]

    @property
    def descriptor(self) -> Descriptor | None:
        """The descriptor; None if there is no evidence of it and no example."""
        evidence = self.evidence or self.example
        if evidence is None or evidence.descriptor is None:
            return None
        return from_dict(evidence.descriptor)

    @classmethod
    def of(
        cls,
        case: Case,
        results: tuple[Result, ...],
        got: Mapping[str, Array],
        got_beside: Mapping[str, Array] | None = None,
    ) -> CaseResult:
        """Return the results of a case, with evidence or with an example.

        Evidence is kept if a lane did not pass, an example if all lanes passed.

        Args:
            case: The case.
            results: One per lane.
            got: The outputs of the lanes that did not pass, by the names of the lanes.
            got_beside: Likewise those for the valid case beside it.
        """
        # The facts have the names of the case's own attributes.
        names = [name for name in cls.__struct_fields__ if hasattr(case, name)]
        facts = {name: getattr(case, name) for name in names}
        if case.origin is not None:
            facts |= asdict(case.origin)
        evidence = None
        example = None
        if any(result.state != "PASS" for result in results):
            evidence = Evidence.of(case, got, got_beside)
        elif case.data.nbytes + case.indices.nbytes <= LARGEST_EXAMPLE:
            example = Evidence.of(case, got)
        return cls(**facts, results=results, evidence=evidence, example=example)


class Invalid(msgspec.Struct, frozen=True):
    """A file with a descriptor or a binding that breaks a rule.

    No dispatch of the file ran.
    """

    file: str
    """The path of the file."""
    reason: str
    """Which rule is broken: a sentence for people."""


class Report(msgspec.Struct, frozen=True, tag_field="schema", tag=SCHEMA):
    """A whole check."""

    onnxgather: str
    """The version of onnxgather."""
    made: str
    """When the check ended: UTC, such as 2026-11-21T12:00:00Z."""
    machine: str
    """The system and the processors, such as `Linux 6.1 x86_64, 2 cores`."""
    lanes: tuple[LaneInfo, ...]
    """The lanes that were asked."""
    cases: list[CaseResult]
    """What each lane answered to each case."""
    invalid: list[Invalid] = []
    """The files that break a rule."""
    unusable: list[str] = []
    """Why files could not be checked: sentences for people."""
    planned: int = 0
    """How many cases were to run; without those of other shards."""
    shard: str | None = None
    """Which part of all cases was to run: `2/8` is the second of eight parts. Where
    lanes ran other parts, each of them, such as `1/3, 1/5`."""
    interrupted: str | None = None
    """The name of the signal that ended the check early, such as SIGTERM."""
    maxfail: int | None = None
    """After how many findings the check ended early, as `--maxfail` says."""
    without_evidence: int = 0
    """How many cases have no evidence because the arrays of all cases would exceed 32
    MiB. Half of these are kept for findings."""
    no_known: bool = False
    """Whether the known differences of onnxgather were left out."""

    @property
    def results(self) -> list[Result]:
        """All results."""
        return [result for case in self.cases for result in case.results]

    def number_of(self, result: Result) -> int:
        """Return the number of a result's lane."""
        return [lane.name for lane in self.lanes].index(result.lane)

    def answers(self, case: CaseResult) -> list[tuple[LaneInfo, Result]]:
        """Return the results of a case, each behind its lane."""
        return [(self.lanes[self.number_of(one)], one) for one in case.results]

    def of_lane(self, number: int) -> list[tuple[CaseResult, Result]]:
        """Return the results of a lane, each behind its case."""
        name = self.lanes[number].name
        found: list[tuple[CaseResult, Result]] = []
        for case in self.cases:
            found += [(case, result) for result in case.results if result.lane == name]
        return found

    def counts(self, lane: int) -> Counter[State]:
        """Return how many cases of a lane have each state."""
        return Counter(result.state for _, result in self.of_lane(lane))

    def passed_by_directml(self, lane: int) -> int:
        """Return how many cases of a lane pass by DirectML's formula alone."""
        results = [result for _, result in self.of_lane(lane)]
        return sum(result.by_directml and result.state == "PASS" for result in results)


def counts_by_severity(results: Iterable[Result]) -> dict[str, int]:
    """Return how many results have each severity, by its words, the worst first."""
    counts = Counter(result.severity for result in results)
    return {SEVERITIES[one]: counts[one] for one in Severity if counts[one]}


class _Head(msgspec.Struct, frozen=True):
    schema: object = None


def read_report(text: bytes) -> Report:
    """Return a report from its JSON.

    Raises:
        msgspec.DecodeError: It is not a report of this version's schema.
    """
    # The schema is read first, as another schema fails at any field.
    schema = msgspec.json.decode(text, type=_Head).schema
    if schema == SCHEMA:
        return msgspec.json.decode(text, type=Report)
    if schema is None:
        schema = "none, as in earlier reports and other files"
    raise msgspec.ValidationError(f"schema must be {SCHEMA}, got {schema}")
