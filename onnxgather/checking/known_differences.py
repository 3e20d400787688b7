"""The file of known differences.

It explains results that are known to be wrong, so that new wrong results stand out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from glob import escape
from importlib.resources import files
from itertools import starmap
from typing import Any, NamedTuple

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion

from onnxgather.checking.cases import Case
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.results import CaseResult, Report, Result, ResultKind
from onnxgather.core.checks import shown
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.execution.other_runtimes import RUNTIME_NAME
from onnxgather.core.execution.providers import PROVIDERS, WEB_PROVIDERS
from onnxgather.core.execution.runtime import NotRunKind


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


class ElementPattern(_Pattern, frozen=True):
    """The first differing elements that a known difference is about."""

    expected: str
    got: str


class ResultPattern(_Pattern, frozen=True):
    """The results that a known difference explains, by fields of `Result`."""

    kind: ResultKind
    message: str | None = None
    not_run: NotRunKind | None = None
    elsewhere: NodePattern | None = None
    breakdown: Breakdown | None = None
    detail: str | None = None
    first: ElementPattern | None = None


class Known(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One known difference."""

    provider: str
    """The full name of the provider, such as OpenVINOExecutionProvider; or the name of
    a runtime that is no provider, such as opencv."""
    versions: str
    """A range of versions of onnxruntime, of DirectML or of the other runtime, as pip
    writes ranges: `>=1.24,<1.25`."""
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
        is_full_name = self.provider.endswith(("Provider", ".dll"))
        # A short name of a provider would explain nothing.
        is_runtime = re.fullmatch(RUNTIME_NAME, self.provider) is not None
        is_short_name = self.provider in (*PROVIDERS, *WEB_PROVIDERS)
        if not is_full_name and (not is_runtime or is_short_name):
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

    def is_about(self, case: Case | CaseResult, lane: LaneInfo) -> bool:
        """Return whether the known difference is about a case on a lane."""
        if lane.provider != self.provider:
            return False
        if not _is_within(_version(lane), self.versions):
            return False
        if self.beside is not None and self.beside not in lane.versions:
            return False
        return any(pattern.fits(case) for pattern in self.cases)

    def explains(self, result: Result) -> bool:
        """Return whether the known difference explains a result of its cases."""
        if result.foreign_memory is not None and not self.foreign_memory:
            return False
        return any(pattern.fits(result) for pattern in self.found)

    def __str__(self) -> str:
        return f"{self.reason} ({self.link})"


def _version(lane: LaneInfo) -> str | None:
    """Return the version of what runs the cases of a lane.

    It is that of ONNX Runtime, of DirectML or of the runtime of an adapter.
    """
    for name in ("onnxruntime", "DirectML", lane.provider):
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


def explained(
    result: Result, case: Case | CaseResult, info: LaneInfo, known: Sequence[Known]
) -> Result:
    """Return the result; its state is KNOWN or FIXED if a known difference is about it.

    The first entry of `known` that explains the result decides.

    Args:
        result: The result, as no known difference explains it.
        case: The case; or its entry in a report, which lacks the descriptor where the
            report has no arrays of the case.
        info: The lane.
        known: The known differences.
    """
    replace = msgspec.structs.replace
    for entry in known:
        if not entry.is_about(case, info):
            continue
        # Case 1: the result is wrong as the entry says.
        if entry.explains(result):
            text = str(entry)
            return replace(result, state="KNOWN", known=text, found=result.state)
        # Case 2: the result is right, so the entry is out of date.
        if result.state == "PASS" and not entry.sometimes:
            reason = "passes, although it is a known difference"
            return replace(result, state="FIXED", known=str(entry), reason=reason)
    return result


class _Finding(NamedTuple):
    """What the results of an entry have in common."""

    provider: str
    version: str
    pattern: ResultPattern
    rule: str
    """The rule that the cases break, without its numbers."""
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
    results_of: dict[_Finding, list[tuple[CaseResult, Result]]] = {}
    for case in report.cases:
        for lane, result in report.answers(case):
            finding = _finding(lane, result)
            if finding is not None:
                results_of.setdefault(finding, []).append((case, result))
    entries = [*before, *starmap(_entry, results_of.items())]
    entries.sort(key=lambda entry: (entry.provider, entry.versions, repr(entry)))
    return entries


def _finding(lane: LaneInfo, result: Result) -> _Finding | None:
    """Return what a result has in common with others; None if it gets no entry."""
    is_wrong = result.state in ("DIFF", "ERROR")
    has_not_run = (
        result.state == "NOT-RUN"
        and lane.required
        and result.kind is not ResultKind.NOT_STARTED
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
    return _Finding(lane.provider, version, pattern, result.bare_rule, is_foreign)


def _entry(finding: _Finding, results: Sequence[tuple[CaseResult, Result]]) -> Known:
    """Return an entry that explains some results, for a person to complete."""
    patterns = {
        CasePattern(
            escape(case.name), out_of_range=(case.out_of_range,), wrapped=case.wrapped
        )
        for case, _ in results
    }
    first_case, first_result = results[0]
    first = f"{first_case.name}: {first_result.reason}"
    return Known(
        finding.provider,
        f"=={finding.version}",
        cases=tuple(sorted(patterns, key=str)),
        found=(finding.pattern,),
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
