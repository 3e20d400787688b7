"""The file of known differences: it explains results that are wrong, so that new ones stand out."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from glob import escape
from importlib.resources import files
from typing import Any

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion

from onnxgather.checking.cases import Case
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.results import CaseResult, Report, Result, ResultKind
from onnxgather.core.checks import shown
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.execution.runtime import NotRunKind


class _Pattern(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Wanted values for attributes of some facts; a field that is None wants nothing.

    Of a tuple of values one must be equal. In a text, `*` stands for any text.
    """

    def fits(self, facts: object) -> bool:
        """Whether the attributes of `facts` have the values that the fields want."""
        wanted = {name: getattr(self, name) for name in self.__struct_fields__}
        return all(
            _holds(value, getattr(facts, name, None))
            for name, value in wanted.items()
            if value is not None
        )


def _holds(wanted: Any, fact: Any) -> bool:
    match wanted:
        case _Pattern():
            return wanted.fits(fact)
        case str():
            return isinstance(fact, str) and fnmatchcase(fact, wanted)
        case tuple():
            return fact in wanted
        case _:
            return fact == wanted


class DescriptorPattern(_Pattern, frozen=True):
    """The descriptors that a known difference is about."""

    index_dimensions: int
    """IndexDimensions of a GATHER."""


class CasePattern(_Pattern, frozen=True):
    """The cases that a known difference is about: those that have every field's value."""

    name: str | None = None
    """In it, as in every text of a pattern, `*` is any text."""
    operator: tuple[str, ...] | None = None
    """One of these must be the case's, and likewise of every array of a pattern.
    GATHER, GATHER_ELEMENTS, GATHER_ND or GATHER_ND1; ONNX's names for forbidden
    nodes."""
    data_type: tuple[str, ...] | None = None
    index_type: tuple[str, ...] | None = None
    dimension_count: tuple[int, ...] | None = None
    descriptor: DescriptorPattern | None = None
    out_of_range: tuple[str, ...] | None = None
    in_range: bool | None = None
    wrapped: bool | None = None


class NodePattern(_Pattern, frozen=True):
    """The nodes, gone to another provider, that a known difference is about."""

    operator: tuple[str, ...]
    """ONNX's names of the operators."""


class ElementPattern(_Pattern, frozen=True):
    """The first differing elements that a known difference is about."""

    expected: str
    got: str


class ResultPattern(_Pattern, frozen=True):
    """The results that a known difference explains; the fields are those of `Result`."""

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
    """The full name, such as OpenVINOExecutionProvider."""
    versions: str
    """Of onnxruntime, or DirectML, as pip writes ranges: `>=1.24,<1.25`."""
    cases: tuple[CasePattern, ...]
    """The known difference is about the cases that one of these patterns fits."""
    found: tuple[ResultPattern, ...]
    """The known difference explains the results that one of these patterns fits."""
    reason: str
    """Why the provider differs; one sentence."""
    link: str
    """Where the difference is reported or documented; if nowhere, how it was
    measured."""
    sometimes: bool = False
    """Whether the case may also pass, as where the provider reads memory that was never
    written."""

    def __post_init__(self) -> None:
        """Check the texts that no type says all of.

        Raises:
            ValueError: One of them is wrong.
        """
        if not self.provider.endswith(("Provider", ".dll")):
            names = "CPUExecutionProvider, or DirectML.dll"
            raise ValueError(
                f"provider must be a full name such as {names}, got"
                f" {shown(self.provider)}"
            )
        try:
            SpecifierSet(self.versions)
        except InvalidSpecifier:
            raise ValueError(
                f"versions must be such as >=1.24,<1.25, got {shown(self.versions)}"
            ) from None

    def is_about(self, case: Case, lane: LaneInfo) -> bool:
        """Whether the known difference is about a case on a lane."""
        return (
            lane.provider == self.provider
            and _is_within(_version(lane), self.versions)
            and any(pattern.fits(case) for pattern in self.cases)
        )

    def __str__(self) -> str:
        return f"{self.reason} ({self.link})"


def _version(lane: LaneInfo) -> str | None:
    return lane.versions.get("onnxruntime") or lane.versions.get("DirectML")


@cache
def _is_within(version: str | None, versions: str) -> bool:
    """Whether a version is in a range, as pip writes ranges; False for text that is no version."""
    try:
        return version is not None and SpecifierSet(versions).contains(
            version, prereleases=True
        )
    except (InvalidSpecifier, InvalidVersion):
        return False


def explained(
    result: Result, case: Case, info: LaneInfo, known: Sequence[Known]
) -> Result:
    """The result, with state KNOWN or FIXED if a known difference is about it."""
    for entry in known:
        if entry.is_about(case, info):
            told = msgspec.structs.replace(result, known=str(entry))
            if any(pattern.fits(result) for pattern in entry.found):
                return msgspec.structs.replace(told, state="KNOWN", found=result.state)
            if result.state == "PASS" and not entry.sometimes:
                reason = "passes, although it is a known difference"
                return msgspec.structs.replace(told, state="FIXED", reason=reason)
    return result


def with_findings(report: Report, before: Sequence[Known] = ()) -> list[Known]:
    """The known differences of a file and those that a report found, sorted.

    An entry is about one kind of result and one broken rule, of one version of a
    provider, and names the cases. NOT-RUN gets one on a required lane alone. FIXED gets
    none, nor a lane without a version.

    Args:
        report: The report.
        before: The entries that the file had, which stay as they are.
    """
    found: dict[
        tuple[str, str, ResultPattern, str], list[tuple[CaseResult, Result]]
    ] = {}
    for case in report.cases:
        for lane, result in zip(report.lanes, case.results, strict=True):
            version, gone = f"{_version(lane)}", result.elsewhere
            counts = result.state in ("DIFF", "ERROR") or (
                result.state == "NOT-RUN"
                and lane.required
                and result.kind != "not-started"
            )
            if counts and _is_within(version, f"=={version}"):
                pattern = ResultPattern(
                    result.kind,
                    not_run=result.not_run,
                    elsewhere=NodePattern((gone.operator,)) if gone else None,
                    breakdown=result.breakdown,
                )
                key = (lane.provider, version, pattern, result.bare_rule)
                found.setdefault(key, []).append((case, result))
    entries = [*before]
    for (provider, version, pattern, _), results in found.items():
        patterns = {
            CasePattern(
                escape(case.name),
                out_of_range=(case.out_of_range,),
                wrapped=case.wrapped,
            )
            for case, _ in results
        }
        first, result = results[0]
        reason = f"No reason is written yet; {first.name}: {result.reason}"
        cases, measured = tuple(sorted(patterns, key=str)), f"measured with {version}"
        entries.append(
            Known(provider, f"=={version}", cases, (pattern,), reason, measured)
        )
    return sorted(
        entries, key=lambda entry: (entry.provider, entry.versions, repr(entry))
    )


@cache
def known_differences() -> Sequence[Known]:
    """The known differences that come with onnxgather."""
    text = (
        files("onnxgather.core.execution")
        .joinpath("known_differences.json")
        .read_bytes()
    )
    return msgspec.json.decode(text, type=tuple[Known, ...])
