"""The facts that decide for a form of the CPU lowering, and the reasons of forms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.gather import Geometry, gather_of
from onnxgather.core.lowering.graph import Graph, Shape, Value, size_of
from onnxgather.core.options import OutOfRange

FEWEST_ELEMENTS = 512
"""Output elements below which every form costs about the same, a few microseconds of
calls."""

MANY_THREADS = 8
"""From this many threads on, Gather, whose work threads share, beats GatherElements on
one row."""


@dataclass(frozen=True)
class Facts:
    """A descriptor as a gather of rows.

    A row is the elements that one index or index tuple leads to. A table is the rows
    that it chooses from. The dimensions before the indexed ones number the tables.
    """

    desc: Descriptor
    out_of_range: OutOfRange
    indices: Array | None
    """The array that stands for IndicesTensor, if it is known."""
    threads: int
    """How many threads the graph will run on."""

    @cached_property
    def gather(self) -> Geometry:
        """The gather of the descriptor."""
        return gather_of(self.desc)

    @property
    def sizes(self) -> Shape:
        """OutputTensor.Sizes."""
        return self.desc.output_tensor.sizes

    @property
    def elements(self) -> int:
        """How many elements the output has."""
        return size_of(self.sizes)

    @property
    def tables(self) -> int:
        """How many tables there are.

        An index chooses a row of each, or only of its own table.
        """
        return size_of(self.gather.data[: self.gather.number])

    @property
    def row(self) -> int:
        """How many elements a row has."""
        return size_of(self.gather.behind)

    @property
    def count(self) -> int:
        """How many rows the output has."""
        return self.elements // self.row

    @property
    def table_rows(self) -> int:
        """How many rows all tables have together."""
        return size_of(self.gather.data) // self.row

    @property
    def signed(self) -> bool:
        """Whether the indices may be negative when the model runs."""
        return self.indices is None and self.desc.indices_tensor.data_type.is_signed


class Form(Protocol):
    """One way to gather; see `forms`."""

    name: str
    reason: str
    """Why the form is fast."""
    gain: float
    """How many times as long the next form that fits takes, or the portable
    lowering."""

    def passed_over(self, facts: Facts) -> str | None:
        """Return why the form does not fit; None where it fits."""
        ...

    def build(self, graph: Graph, facts: Facts, data: Value) -> Value:
        """Add the nodes of the form to a graph; return OutputTensor's elements."""
        ...


def small(facts: Facts) -> str | None:
    """Return why an output is too small for a gain.

    Like all reasons below, it is None where there is no reason.
    """
    if facts.elements < FEWEST_ELEMENTS:
        return (
            f"the output has {facts.elements} elements, a gain begins at"
            f" {FEWEST_ELEMENTS}"
        )
    return None


def not_plain(facts: Facts) -> str | None:
    """Return why the data or the indices cannot be reshaped at will."""
    desc = facts.desc
    if not desc.input_tensor.is_plain:
        return "InputTensor has strides or padding, this form takes packed data"
    if facts.indices is None and not desc.indices_tensor.is_plain:
        return "IndicesTensor has strides or padding, this form takes packed indices"
    return wide(facts)


def wide(facts: Facts) -> str | None:
    """Return why INT32 cannot hold the offsets of the data's elements."""
    # Under "error" each coordinate out of range adds the number of elements once more.
    count = facts.desc.input_tensor.element_count * (facts.gather.tuple_size + 1)
    if count >= 2**31:
        return f"element offsets reach {count}, this form counts in INT32"
    return None


def many_threads(facts: Facts) -> str | None:
    """Return why a form that a single thread computes leaves too many threads idle."""
    # The work of GatherElements on one row is not shared among threads.
    if facts.threads >= MANY_THREADS:
        return f"{facts.threads} threads share a Gather, this form is the work of one"
    return None


def other_policy(facts: Facts, *taken: OutOfRange) -> str | None:
    """Return why the policy rules out a form that accepts the policies of `taken`."""
    if facts.out_of_range not in taken:
        return (
            f'the policy is "{facts.out_of_range}", this form takes {", ".join(taken)}'
        )
    return None


def not_limited(facts: Facts) -> str | None:
    """Return why no clamp, error of the operator or zero keeps the policy."""
    if facts.gather.has_tuples:
        return other_policy(facts, "clamp")
    # Under "zero" the data is copied, to append a zero.
    size = size_of(facts.gather.data)
    if facts.out_of_range == "zero" and size > 4 * facts.elements:
        return (
            f"a zero behind the data costs a copy of {size} elements to gather"
            f" {facts.elements}"
        )
    return other_policy(facts, "clamp", "error", "zero")
