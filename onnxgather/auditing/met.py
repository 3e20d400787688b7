"""What a gather met in a run of a whole model, as onnxgather's provider counts it."""

from __future__ import annotations

from msgspec import Struct

from onnxgather.core.execution.gather_provider import GatherCounts


class Met(Struct, frozen=True):
    """What a gather met in a run of the whole model, in all iterations and calls."""

    runs: int
    """How often it ran."""
    indices: int
    """How many indices it had, in all runs."""
    outside: int
    """How many of them were out of range."""
    least: int | None
    """The least index out of range."""
    largest: int | None
    """The largest index out of range."""
    first: tuple[int, ...] | None
    """The place of the first index out of range that it met, in the indices."""
    value: int | None
    """The index there."""
    under_clamp: bool
    """Whether the untouched model stops at another gather, whose index was clamped.
    What this gather met may follow from that."""

    @property
    def ends(self) -> tuple[int, ...]:
        """The least and the largest index out of range; empty if there is none."""
        return tuple(end for end in (self.least, self.largest) if end is not None)

    def joined(self, other: Met) -> Met:
        """Return what is met in the calls of this and of another one behind it."""
        first = self if self.outside else other
        ends = (*self.ends, *other.ends)
        return Met(
            self.runs + other.runs,
            self.indices + other.indices,
            self.outside + other.outside,
            min(ends, default=None),
            max(ends, default=None),
            first.first,
            first.value,
            self.under_clamp and other.under_clamp,
        )


def met_of(row: GatherCounts, under_clamp: bool) -> Met:
    """Return what a gather met, by the row of onnxgather's provider."""
    value = None
    if row.outside_text:  # it ends with the index
        value = int(row.outside_text.rpartition(" ")[2])
    return Met(
        row.runs,
        row.indices,
        row.outside,
        row.least,
        row.largest,
        row.first,
        value,
        under_clamp,
    )
