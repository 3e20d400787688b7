"""The file of known differences: results that are explained, so that others stand out."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion

from onnxgather.cases import Case
from onnxgather.lanes.lane import Breakdown, LaneInfo
from onnxgather.parity.results import Result, ResultKind
from onnxgather.runtime import NotRunKind


class _Pattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What something must be like: each field that is there must hold.

    Of several values one must hold; a text may hold `*`, which stands for any text.
    """

    def fits(self, facts: object) -> bool:
        """Whether facts, with attributes of the same names, are like this."""
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
    """Which descriptors are meant."""

    index_dimensions: int
    """IndexDimensions of a GATHER."""


class CasePattern(_Pattern, frozen=True):
    """Which cases are meant."""

    name: str | None = None
    operator: tuple[str, ...] | None = None
    """GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1; Gather, … of a forbidden node."""
    data_type: tuple[str, ...] | None = None
    index_type: tuple[str, ...] | None = None
    dimension_count: tuple[int, ...] | None = None
    descriptor: DescriptorPattern | None = None
    out_of_range: tuple[str, ...] | None = None
    in_range: bool | None = None
    wrapped: bool | None = None


class NodePattern(_Pattern, frozen=True):
    """Which nodes are meant that went to another provider."""

    operator: tuple[str, ...]
    """ONNX's names."""


class ElementPattern(_Pattern, frozen=True):
    """Which first elements that differ are meant."""

    expected: str
    got: str


class ResultPattern(_Pattern, frozen=True):
    """Which results are meant; the fields are those of `Result`."""

    kind: ResultKind
    message: str | None = None
    not_run: NotRunKind | None = None
    elsewhere: NodePattern | None = None
    breakdown: Breakdown | None = None
    detail: str | None = None
    first: ElementPattern | None = None


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One known difference."""

    provider: str
    """The full name, such as OpenVINOExecutionProvider."""
    versions: str
    """Of onnxruntime, or DirectML, as pip writes ranges: `>=1.24,<1.25`."""
    cases: tuple[CasePattern, ...]
    """It is about a case that one of them fits."""
    found: tuple[ResultPattern, ...]
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
        if entry.is_about(case, info):
            told = msgspec.structs.replace(result, known=str(entry))
            if any(pattern.fits(result) for pattern in entry.found):
                return msgspec.structs.replace(told, state="KNOWN", found=result.state)
            if result.state == "PASS" and not entry.sometimes:
                reason = "passes, although it is a known difference"
                return msgspec.structs.replace(told, state="FIXED", reason=reason)
    return result


@cache
def known_differences() -> Sequence[Known]:
    """The known differences that come with onnxgather."""
    text = files("onnxgather.parity").joinpath("known_differences.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[Known, ...])
