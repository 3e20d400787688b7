"""The file of known differences.

It explains results that are known to be wrong, so that new wrong results stand out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache, reduce
from glob import escape
from importlib.resources import files
from itertools import chain, starmap
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion

from onnxgather.checking.arithmetic import (
    Arithmetic,
    Computed,
    arithmetics,
    computed,
)
from onnxgather.checking.cases import Case, DescriptorCase
from onnxgather.checking.judge import with_beside
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.lanes.python import question_to
from onnxgather.checking.results import CaseResult, Report, Result, ResultKind
from onnxgather.core.checks import shown
from onnxgather.core.descriptors.arrays import Array, content_of, elements
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.execution.providers import (
    PROVIDER_NAME,
    PROVIDERS,
    WEB_PROVIDERS,
)
from onnxgather.core.execution.runtime import NotRunKind
from onnxgather.core.options import POLICIES

IndexValues = Literal[
    "negative",
    "beyond 2^24",
    "beyond INT32",
    "below INT32",
]
"""What an entry may say of the values of indices."""

INDEX_VALUES: Mapping[IndexValues, tuple[int, int]] = {
    "negative": (-(2**63), -1),
    "beyond 2^24": (2**24 + 1, 2**64),
    "beyond INT32": (2**31, 2**64),
    "below INT32": (-(2**63), -(2**31) - 1),
}
"""The least and the greatest such value."""


class _Pattern(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Wanted values for attributes of some facts; a field that is None wants nothing.

    Of a tuple of values any must be equal. In a text, `*` stands for any text.
    """

    def fits(self, facts: object) -> bool:
        """Return whether the attributes of `facts` have the values of the fields."""
        for name in self.__struct_fields__:
            wanted = getattr(self, name)
            if wanted is None:
                continue
            if not _holds(wanted, getattr(facts, name, None)):
                return False
        return True


def _holds(wanted: Any, fact: Any) -> bool:
    """Return whether a fact has the wanted value."""
    match wanted:
        case _Pattern():
            return wanted.fits(fact)
        case str():
            return isinstance(fact, str) and fnmatchcase(fact, wanted)
        case tuple():
            return fact in wanted
        case frozenset():
            return not wanted.isdisjoint(fact or ())
        case _:
            return fact == wanted


class TensorPattern(_Pattern, frozen=True):
    """The tensors that a known difference is about."""

    sizes: tuple[tuple[int, ...], ...]
    """The sizes of the tensor must be in this array."""


class DescriptorPattern(_Pattern, frozen=True):
    """The descriptors that a known difference is about."""

    index_dimensions: int | None = None
    """IndexDimensions of a GATHER."""
    indices_tensor: TensorPattern | None = None
    """IndicesTensor."""


class CasePattern(_Pattern, frozen=True):
    """The cases that a known difference is about; they have the value of each field."""

    name: str | None = None
    """The name of the case. In this text, as in every text of a pattern, `*` stands for
    any text."""
    operator: tuple[str, ...] | None = None
    """The operators of the cases, such as GATHER_ND; of forbidden nodes by ONNX's
    names, such as GatherND. The value of a case must be in this array, as in every
    array of a pattern."""
    gathers: frozenset[str] | None = None
    """ONNX's names of gathers; the model that the lane was given contains one of them.
    A GATHER_ND may be lowered to Gather."""
    indices: frozenset[IndexValues] | None = None
    """What the values of the indices are like; one of them must be so."""
    data_type: tuple[str, ...] | None = None
    index_type: tuple[str, ...] | None = None
    dimension_count: tuple[int, ...] | None = None
    descriptor: DescriptorPattern | None = None
    """The descriptor of the case."""
    out_of_range: tuple[str, ...] | None = None
    in_range: bool | None = None
    wrapped: bool | None = None


class NodePattern(_Pattern, frozen=True):
    """The nodes that ran on another provider and that a known difference is about."""

    operator: tuple[str, ...]
    """ONNX's names of the operators."""


class ResultPattern(_Pattern, frozen=True):
    """The results that a known difference explains, by fields of `Result`."""

    kind: ResultKind
    message: str | None = None
    not_run: NotRunKind | None = None
    elsewhere: NodePattern | None = None
    breakdown: Breakdown | None = None
    detail: str | None = None
    got: str | None = None
    """How the output of the lane comes about, which must have exactly these bytes: a
    policy, whose output it is; or a row of arithmetic.json, which computes it."""
    output: tuple[str, ...] | None = None
    """The digest of the lane's output, as `output_digest` makes it, must be in this
    array."""

    def __post_init__(self) -> None:
        """Check `got`.

        Raises:
            ValueError: It is the name of nothing.
        """
        names = (*POLICIES, *arithmetics())
        # Another name would explain nothing.
        if self.got is not None and self.got not in names:
            raise ValueError(
                f"got must be one of {', '.join(names)}, got {shown(self.got)}"
            )

    def fits(self, facts: object) -> bool:
        """Return whether the facts of a result fit, but for its output."""
        without_output = msgspec.structs.replace(self, got=None, output=None)
        return super(ResultPattern, without_output).fits(facts)


class Known(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One known difference."""

    provider: str
    """The full name of the provider, such as OpenVINOExecutionProvider; or the name of
    a runtime that is no provider, such as opencv."""
    versions: str
    """A range of versions of onnxruntime, of the plugin library, of DirectML or of the
    other runtime, as pip writes ranges: `>=1.24,<1.25`."""
    cases: tuple[CasePattern, ...]
    """The known difference is about the cases that one of these patterns fits."""
    found: tuple[ResultPattern, ...]
    """The known difference explains the results that one of these patterns fits."""
    reason: str
    """Why the provider differs; one sentence."""
    link: str
    """Where the difference is reported or documented; if it is not, how it was
    measured."""
    sometimes: bool = False
    """Whether the case may also pass, for example because the provider reads memory
    that was never written."""
    beside: str | None = None
    """A name among the versions of the lane, without which the known difference is
    about no case: such as wine, where the provider has a software device."""
    foreign_memory: bool = False
    """Whether it explains outputs with memory that is not the model's, too. Another
    entry leaves them findings, as they are a fault of their own."""

    def __post_init__(self) -> None:
        """Check the texts that no type says all of.

        Raises:
            ValueError: A text is wrong.
        """
        is_name = re.fullmatch(PROVIDER_NAME, self.provider) is not None
        # A short name of a provider would explain nothing.
        if not is_name or self.provider in (*PROVIDERS, *WEB_PROVIDERS):
            names = "CPUExecutionProvider, DirectML.dll or opencv"
            raise ValueError(
                f"provider must be a full name such as {names}"
                f", got {shown(self.provider)}"
            )
        try:
            SpecifierSet(self.versions)
        except InvalidSpecifier:
            raise ValueError(
                f"versions must be such as >=1.24,<1.25, got {shown(self.versions)}"
            ) from None

    def is_about(
        self, case: Case | CaseResult, lane: LaneInfo, gathers: tuple[str, ...] = ()
    ) -> bool:
        """Return whether the known difference is about a case on a lane.

        Args:
            case: The case.
            lane: The lane.
            gathers: As `Result.gathers`.
        """
        if lane.provider != self.provider:
            return False
        if not _is_within(_version(lane), self.versions):
            return False
        if self.beside is not None and self.beside not in lane.versions:
            return False
        facts = _CaseFacts(case, gathers)
        return any(pattern.fits(facts) for pattern in self.cases)

    def explains(self, result: Result, returned: LaneOutput) -> bool:
        """Return whether the known difference explains a result of its cases.

        Args:
            result: The result.
            returned: The output that the lane returned.
        """
        if result.foreign_memory is not None and not self.foreign_memory:
            return False
        for pattern in self.found:
            if not pattern.fits(result):
                continue
            # Case: nobody knows what lies in the memory that is read.
            is_silent = pattern.got is None and pattern.output is None
            if self.foreign_memory and is_silent and result.returned_any:
                return result.foreign_memory is not None
            if returned.is_that_of(pattern):
                return True
        return False

    def differs(self, returned: LaneOutput) -> bool:
        """Return whether a result of its cases must be wrong as the entry says.

        Some cases hide the difference, such as zeros in data of zeros.
        """
        for pattern in self.found:
            if pattern.got is None or returned.must_be_wrong(pattern):
                return True
        return False

    def __str__(self) -> str:
        return f"{self.reason} ({self.link})"


def _version(lane: LaneInfo) -> str | None:
    """Return the version of what runs the cases of a lane.

    It is that of the runtime of an adapter, of a plugin library, of ONNX Runtime or of
    DirectML.
    """
    for name in (lane.provider, "onnxruntime", "DirectML"):
        if name in lane.versions:
            return lane.versions[name]
    return None


@cache
def _is_within(version: str | None, versions: str) -> bool:
    """Return whether a version is in a range, as pip writes ranges.

    It is False for a text that is no version.
    """
    if version is None:
        return False
    try:
        return SpecifierSet(versions).contains(version, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return False


class _CaseFacts:
    """What the pattern of an entry reads of a case on a lane."""

    def __init__(self, case: Case | CaseResult, gathers: tuple[str, ...]) -> None:
        self._case = case
        self.gathers = gathers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._case, name, None)

    @property
    def indices(self) -> frozenset[str]:
        """The names of `INDEX_VALUES` that the indices of the case have."""
        case = self._case
        # Case: the entry of a report, whose arrays may have had no room.
        if isinstance(case, CaseResult):
            return frozenset()
        values = case.indices
        if isinstance(case, DescriptorCase):
            values = elements(case.descriptor.indices_tensor, values)
        if not values.size:
            return frozenset()
        # numpy compares no UINT64 with a negative number exactly.
        ends = (int(values.min()), int(values.max()))
        names: list[str] = []
        for name, (low, high) in INDEX_VALUES.items():
            if any(low <= end <= high for end in ends):
                names.append(name)
        return frozenset(names)


class LaneOutput:
    """The output of a lane, compared with what known differences say of it.

    Args:
        case: The case; or its entry in a report that has no arrays of it.
        info: The lane.
        output: The output; None if there is none, or if a report has no room for it.
    """

    def __init__(
        self, case: Case | CaseResult, info: LaneInfo, output: Array | None
    ) -> None:
        self._case = case
        self._info = info
        self._output = output
        self._wrong: dict[str, Computed | None] = {}

    def is_that_of(self, pattern: ResultPattern) -> bool:
        """Return whether the output is what a pattern says that it is."""
        if pattern.got is None and pattern.output is None:
            return True
        if self._output is None:
            return False
        if pattern.output is not None and output_digest(self._output) in pattern.output:
            return True
        if pattern.got is None:
            return False
        wrong = self.predicted(pattern.got)
        return wrong is not None and wrong.is_that_of(self._output)

    def must_be_wrong(self, pattern: ResultPattern) -> bool:
        """Return whether an output is wrong that comes about as a pattern says."""
        wrong = None
        if pattern.got is not None:
            wrong = self.predicted(pattern.got)
        if wrong is None or isinstance(self._case, CaseResult):
            return False
        expected = self._case.expected()
        if isinstance(expected, str):
            return pattern.kind is ResultKind.NOT_REFUSED
        is_right = wrong.is_that_of(expected)
        return pattern.kind is not ResultKind.NOT_REFUSED and not is_right

    def predicted(self, got: str) -> Computed | None:
        """Return the output that comes about so; None if the model has no such one."""
        if got not in self._wrong:
            self._wrong[got] = self._compute(got)
        return self._wrong[got]

    def _compute(self, got: str) -> Computed | None:
        case = self._case
        # Case: a report has no room for the arrays.
        if isinstance(case, CaseResult):
            return None
        for policy in POLICIES:
            if policy == got and isinstance(case, DescriptorCase):
                arrays = (case.data, case.indices)
                array = reference(case.descriptor, *arrays, policy)
                return Computed(array, np.zeros(array.shape, bool))
        if got not in arithmetics():
            return None
        # Case: a refusal, or a node that ONNX forbids and whose shapes no row computes.
        with suppress(IndexError, ValueError):
            return self._of_row(arithmetics()[got], case)
        return None

    def _of_row(self, row: Arithmetic, case: Case) -> Computed:
        """Return the output of the lane's model, computed as a row says."""
        question, substitute = question_to(case, self._info)
        if substitute is None:
            return computed(question.model, question.inputs, row)
        feeds = substitute.feeds([question.inputs])
        words = [computed(question.model, feed, row) for feed in feeds]
        (array,) = substitute.outputs([word.output for word in words])
        is_unknown = reduce(np.logical_or, [word.is_unknown for word in words])
        return Computed(array, is_unknown)


def output_digest(output: Array) -> str:
    """Return the digest of an output: of its data type, its shape and its bytes."""
    head = f"{output.dtype.name} {output.shape} "
    return hashlib.sha256(head.encode() + content_of(output)).hexdigest()[:16]


def explained(
    result: Result,
    case: Case | CaseResult,
    info: LaneInfo,
    known: Sequence[Known],
    output: Array | None,
) -> Result:
    """Return the result; its state is KNOWN if a known difference explains it.

    The first entry of `known` that explains the result decides. A result that is right
    where an entry says that it is wrong keeps the state PASS, and `known` has the
    entry; see `with_fixed`.

    Args:
        result: The result, as no known difference explains it.
        case: The case; or its entry in a report that has no arrays of it.
        info: The lane.
        known: The known differences.
        output: The output of the lane, if it returned one and a report has room for it.
    """
    replace = msgspec.structs.replace
    returned = LaneOutput(case, info, output)
    for entry in known:
        if not entry.is_about(case, info, result.gathers):
            continue
        # Case 1: the result is wrong as the entry says.
        if entry.explains(result, returned):
            text = str(entry)
            return replace(result, state="KNOWN", known=text, found=result.state)
        # Case 2: the result is right, so the entry may be out of date.
        is_right = result.state == "PASS" and not entry.sometimes
        if is_right and entry.differs(returned):
            return replace(result, known=str(entry))
    return result


def with_fixed(cases: Iterable[CaseResult]) -> list[CaseResult]:
    """Return the results of all cases; FIXED where a known difference is out of date.

    It is out of date on a lane if it explains no result, and results are right that it
    says are wrong.
    """
    all_cases = list(cases)
    explaining: set[tuple[str, str | None]] = set()
    for case in all_cases:
        for run in chain.from_iterable(result.runs for result in case.results):
            if run.state == "KNOWN":
                explaining.add((run.lane, run.known))
    return [_with_fixed(case, explaining) for case in all_cases]


def _with_fixed(
    case: CaseResult, explaining: set[tuple[str, str | None]]
) -> CaseResult:
    """Return the results of a case, where some entries explain results of lanes."""
    results: list[Result] = []
    for result in case.results:
        runs = [_fixed(run, explaining) for run in result.runs]
        results.append(reduce(with_beside, runs))
    if tuple(results) == case.results:
        return case
    return msgspec.structs.replace(case, results=tuple(results))


def _fixed(run: Result, explaining: set[tuple[str, str | None]]) -> Result:
    """Return a run that is FIXED if an entry is about it that explains no result."""
    replace = msgspec.structs.replace
    if run.state not in ("PASS", "FIXED") or run.known is None:
        return run
    if (run.lane, run.known) in explaining:
        return replace(run, state="PASS", known=None, reason=None)
    reason = "passes, although it is a known difference"
    return replace(run, state="FIXED", reason=reason)


class _Finding(NamedTuple):
    """What the results of an entry have in common."""

    provider: str
    version: str
    pattern: ResultPattern
    rule: str
    """The rule that the cases break, without its numbers."""
    is_steady: bool
    """Whether the entry has the digests of the outputs."""
    foreign_memory: bool


def with_findings(report: Report, before: Sequence[Known] = ()) -> list[Known]:
    """Return the known differences of a file and those that a report found, sorted.

    An entry is about one kind of result and one broken rule, of one version of a
    provider, and names the cases. NOT-RUN gets an entry on a required lane only. FIXED
    gets no entry, and neither does a lane without a version.

    Args:
        report: The report.
        before: The entries that the file had, which stay as they are.
    """
    results_of: dict[_Finding, list[_Found]] = {}
    for case in report.cases:
        for lane, result in report.answers(case):
            for entry, run in case.runs_of(result):
                found = _Found(entry, run, _digest_of(entry, run))
                finding = _finding(lane, found)
                if finding is not None:
                    results_of.setdefault(finding, []).append(found)
    entries = [*before, *starmap(_entry, results_of.items())]
    entries.sort(key=lambda entry: (entry.provider, entry.versions, repr(entry)))
    return entries


class _Found(NamedTuple):
    """A result that gets an entry, with the digest of the output, if it is steady."""

    case: CaseResult
    result: Result
    digest: str | None


def _digest_of(case: CaseResult, result: Result) -> str | None:
    """Return the digest of the output of a result; None if an entry cannot have it."""
    output = case.output_of(result.lane)
    # Case: another run returns something else.
    if result.unsteady or result.foreign_memory is not None:
        return None
    return None if output is None else output_digest(output)


def _finding(lane: LaneInfo, found: _Found) -> _Finding | None:
    """Return what a result has in common with others; None if it gets no entry."""
    result = found.result
    is_wrong = result.state in ("DIFF", "ERROR")
    has_not_run = (
        result.state == "NOT-RUN"
        and lane.required
        and result.kind not in (ResultKind.NOT_STARTED, ResultKind.UNPROVED)
    )
    if not (is_wrong or has_not_run):
        return None
    version = _version(lane)
    # A text that is no version, such as that of a build of one's own, has no range.
    if version is None or not _is_within(version, f"=={version}"):
        return None
    elsewhere = None
    if result.elsewhere is not None:
        elsewhere = NodePattern((result.elsewhere.operator,))
    pattern = ResultPattern(
        result.kind,
        not_run=result.not_run,
        elsewhere=elsewhere,
        breakdown=result.breakdown,
    )
    is_foreign = result.foreign_memory is not None
    is_steady = found.digest is not None
    return _Finding(
        lane.provider, version, pattern, result.bare_rule, is_steady, is_foreign
    )


def _entry(finding: _Finding, found: Sequence[_Found]) -> Known:
    """Return an entry that explains some results, for a person to complete."""
    patterns = {
        CasePattern(
            escape(case.name), out_of_range=(case.out_of_range,), wrapped=case.wrapped
        )
        for case, _, _ in found
    }
    digests = sorted({each.digest for each in found if each.digest is not None})
    pattern = finding.pattern
    if digests:
        pattern = msgspec.structs.replace(pattern, output=tuple(digests))
    first = f"{found[0].case.name}: {found[0].result.reason}"
    return Known(
        finding.provider,
        f"=={finding.version}",
        cases=tuple(sorted(patterns, key=str)),
        found=(pattern,),
        reason=f"No reason is written yet; {first}",
        link=f"measured with {finding.version}",
        foreign_memory=finding.foreign_memory,
    )


@cache
def known_differences() -> Sequence[Known]:
    """Return the known differences that come with onnxgather."""
    folder = files("onnxgather.core.execution")
    text = folder.joinpath("known_differences.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[Known, ...])
