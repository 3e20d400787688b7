"""The file of known differences: results that are explained, so that others stand out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion

from onnxgather.cases import Case, DescriptorCase
from onnxgather.descriptors import GatherDesc
from onnxgather.lanes.lane import Breakdown, LaneInfo
from onnxgather.parity.results import Result, ResultKind
from onnxgather.runtime import NotRunKind


class Pattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which cases are meant; every field that is there must hold. The name may hold `*`."""

    name: str = "*"
    operator: tuple[str, ...] = ()
    """GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1; Gather, … of a forbidden node."""
    data_type: tuple[str, ...] = ()
    index_type: tuple[str, ...] = ()
    dimension_count: tuple[int, ...] = ()
    index_dimensions: int | None = None
    """IndexDimensions of a GATHER."""
    out_of_range: tuple[str, ...] = ()
    in_range: bool | None = None
    wrapped: bool | None = None

    def fits(self, case: Case) -> bool:
        """Whether a case is meant."""
        return (
            fnmatchcase(case.name, self.name)
            and case.operator in (self.operator or (case.operator,))
            and case.data_type in (self.data_type or (case.data_type,))
            and case.index_type in (self.index_type or (case.index_type,))
            and case.dimension_count in (self.dimension_count or (case.dimension_count,))
            and self.index_dimensions in (None, _index_dimensions(case))
            and case.out_of_range in (self.out_of_range or (case.out_of_range,))
            and self.wrapped in (None, case.wrapped)
            and self.in_range in (None, case.in_range)
        )


def _index_dimensions(case: Case) -> int | None:
    desc = case.descriptor if isinstance(case, DescriptorCase) else None
    return desc.index_dimensions if isinstance(desc, GatherDesc) else None


class Found(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which results are meant; every field that is there must hold."""

    kind: ResultKind
    says: str = ""
    """A regular expression that the provider's own message holds."""
    not_run: NotRunKind | None = None
    node: tuple[str, ...] = ()
    """ONNX operators; the node that went to another provider is one of them."""
    breakdown: Breakdown | None = None
    detail: str | None = None
    """Of a breakdown, such as the signal's name."""
    element: tuple[str, str] | None = None
    """The value that is expected of the first element that differs, and the value it has."""

    def fits(self, result: Result) -> bool:
        """Whether a result is meant."""
        node, first = result.elsewhere, result.first
        return (
            result.kind is self.kind
            and re.search(self.says, result.message or "", re.DOTALL) is not None
            and self.not_run in (None, result.not_run)
            and (not self.node or (node is not None and node.operator in self.node))
            and self.breakdown in (None, result.breakdown)
            and self.detail in (None, result.detail)
            and self.element in (None, first and (first.expected, first.got))
        )


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One known difference."""

    provider: str
    """The full name, such as OpenVINOExecutionProvider."""
    versions: str
    """Of onnxruntime, or DirectML, as pip writes ranges: `>=1.24,<1.25`."""
    cases: tuple[Pattern, ...]
    """It is about a case that one of them fits."""
    found: tuple[Found, ...]
    """It explains a result that one of them fits."""
    reason: str
    """Why; one sentence."""
    link: str
    """Where it is reported or documented; how it was measured where it is neither."""
    sometimes: bool = False
    """Whether the case may also pass, as with memory that nobody wrote."""

    def is_about(self, case: Case, lane: LaneInfo) -> bool:
        """Whether it speaks of a case on a lane."""
        version = lane.versions.get("onnxruntime") or lane.versions.get("DirectML")
        return (
            lane.provider == self.provider
            and _is_within(version, self.versions)
            and any(pattern.fits(case) for pattern in self.cases)
        )

    def explains(self, result: Result) -> bool:
        """Whether it speaks of a result of such a case."""
        return any(found.fits(result) for found in self.found)

    def __str__(self) -> str:
        return f"{self.reason} ({self.link})"


def _is_within(version: str | None, versions: str) -> bool:
    """Whether a version is in a range; text that is not a version is in no range."""
    try:
        return version is not None and SpecifierSet(versions).contains(version, prereleases=True)
    except InvalidVersion:
        return False


def explained(result: Result, case: Case, info: LaneInfo, known: Sequence[Known]) -> Result:
    """The result as KNOWN or FIXED where a known difference speaks of it."""
    for entry in known:
        if not entry.is_about(case, info):
            continue
        replace = msgspec.structs.replace
        if entry.explains(result):
            return replace(result, state="KNOWN", found=result.state, known=str(entry))
        if result.state == "PASS" and not entry.sometimes:
            reason = "passes, although it is a known difference"
            return replace(result, state="FIXED", reason=reason, known=str(entry))
    return result


@cache
def known_differences() -> Sequence[Known]:
    """The known differences that come with onnxgather."""
    text = files("onnxgather.parity").joinpath("known_differences.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[Known, ...])
