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
from onnxgather.lanes.lane import LaneInfo
from onnxgather.parity.results import Result, State


class Pattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which cases are meant; every field that is there must hold. Texts may hold `*`."""

    name: str = "*"
    operator: tuple[str, ...] = ()
    """GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1; Gather, … of a bare node."""
    data_type: tuple[str, ...] = ()
    index_type: tuple[str, ...] = ()
    dimension_count: tuple[int, ...] = ()
    index_dimensions: int | None = None
    """IndexDimensions of a GATHER."""
    out_of_range: tuple[str, ...] = ()
    in_range: bool | None = None
    wrapped: bool | None = None

    def fits(self, case: Case) -> bool:
        """Return whether a case is meant."""
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


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One known difference."""

    provider: str
    """The full name, such as OpenVINOExecutionProvider."""
    versions: str
    """Of onnxruntime, or DirectML, as pip writes ranges: `>=1.24,<1.25`."""
    cases: tuple[Pattern, ...]
    """It is about a case that one of them fits."""
    found: tuple[State, ...]
    """DIFF, ERROR, NOT-RUN: what is found there."""
    reason: str
    """Why; one sentence."""
    link: str
    """Where it is reported or documented; how it was measured where it is neither."""
    says: str = ""
    """A regular expression that the reason of what is found holds; a crash needs one."""
    sometimes: bool = False
    """Whether it may also pass, as with memory that nobody wrote."""

    def is_about(self, case: Case, lane: LaneInfo) -> bool:
        """Return whether it speaks of a case on a lane."""
        version = lane.versions.get("onnxruntime") or lane.versions.get("DirectML")
        return (
            lane.provider == self.provider
            and _is_within(version, self.versions)
            and any(pattern.fits(case) for pattern in self.cases)
        )

    def explains(self, result: Result) -> bool:
        """Return whether it is what a result says."""
        said = re.search(self.says, result.reason or "", re.DOTALL)
        return result.state in self.found and said is not None

    def __str__(self) -> str:
        return f"{self.reason} ({self.link})"


def _is_within(version: str | None, versions: str) -> bool:
    """Return whether a version is in a range; one that is no version is in none."""
    try:
        return version is not None and SpecifierSet(versions).contains(version, prereleases=True)
    except InvalidVersion:
        return False


@cache
def known_differences() -> Sequence[Known]:
    """Return the file that comes with onnxgather."""
    text = files("onnxgather.parity").joinpath("known_differences.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[Known, ...])
