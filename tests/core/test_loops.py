"""A gather as nested loops: the numbers by hand, and what they compute against the
reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import rows_of
from msgspec.structs import asdict, replace
from short_descriptors import descriptor, tensor_desc
from strategies import Case, cases

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus.sampling import random_cases
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.loops import Loops, loops_of
from onnxgather.core.options import POLICIES, OutOfRange

T = og.TensorDesc

WORKED = descriptor("GATHER: FLOAT16 1x6x4, INT64 1x2x3, FLOAT16 2x3x4, 1, 2")
"""The example of docs/lowering.md: six rows of four elements, chosen by 2 x 3
indices."""


BY_HAND = """
GATHER: FLOAT16 1x6x4, INT64 1x2x3, FLOAT16 2x3x4, 1, 2
sizes 6 4, data_strides 0 1, index_strides 1 0, output_strides 4 1, axis_sizes 6,
axis_strides 4, counts 24 6 24, reachable_count 24, indices_sizes 1 2 3,
indices_strides 6 3 1

GATHER: FLOAT32 4x3 strides 1x5, UINT32 1x2 strides 0x2, FLOAT32 4x2 strides 3x1, 1, 1
sizes 4 2, data_strides 1 0, index_strides 0 2, output_strides 3 1, axis_sizes 3,
axis_strides 5, counts 14 3 11, reachable_count 14, indices_sizes 1 2, indices_strides
0 2

GATHER_ELEMENTS: INT8 3x4, INT32 2x4, INT8 2x4, 0
sizes 2 4, data_strides 0 1, index_strides 4 1, output_strides 4 1, axis_sizes 3,
axis_strides 4, counts 12 8 8, reachable_count 12, indices_sizes 2 4, indices_strides
4 1

GATHER_ND: INT16 3x4x2, INT64 1x5x2, INT16 1x5x2, 3, 2
sizes 5 2, data_strides 0 1, index_strides 2 0, output_strides 2 1, tuple_stride 1,
axis_sizes 3 4, axis_strides 8 2, counts 24 10 10, reachable_count 24, indices_sizes 1
5 2, indices_strides 10 2 1

GATHER_ND1: FLOAT32 3x4x2, UINT32 1x3x1, FLOAT32 1x3x2, 3, 2, 1
sizes 3 2, data_strides 8 1, index_strides 1 0, output_strides 2 1, tuple_stride 1,
axis_sizes 4, axis_strides 2, counts 24 3 6, reachable_count 24, indices_sizes 1 3 1,
indices_strides 3 1 1

GATHER: INT8 1, INT32 1, INT8 1, 0, 1
sizes 1, data_strides 0, index_strides 0, output_strides 0, axis_sizes 1, counts 1 1
1, reachable_count 4, indices_sizes 1, indices_strides 1
"""
"""Descriptors, and their numbers, but for those that are usual for one coordinate.

In the worked example, the 2 x 3 indices lie packed in indices and output, so they are
one loop. A batch is a step in the data, in the indices and in the output. The elements
of four bytes, the least that a tensor has, are reachable.
"""


@pytest.mark.parametrize(("desc", "numbers"), rows_of(BY_HAND))
def test_the_loops_of_a_descriptor_by_hand(desc: str, numbers: str) -> None:
    usual = {"policy": "clamp", "tuple_stride": 0, "axis_strides": (1,)}
    found = asdict(loops_of(descriptor(desc), "clamp"))
    expected = dict[str, Any]()
    for field in numbers.split(", "):
        name, *values = field.split()
        several = tuple(map(int, values))
        expected[name] = several if isinstance(found[name], tuple) else several[0]
    assert found == usual | expected


def test_directml_gives_the_axis_of_gather_elements_of_size_1_the_stride_0() -> None:
    tensor = tensor_desc("INT8 2x1")
    desc = og.GatherElementsDesc(tensor, tensor_desc("UINT32 2x1"), tensor, 1)
    assert loops_of(desc, "directml").axis_strides == (0,)
    assert loops_of(desc, "zero").axis_strides == (1,)


def run(numbers: Loops, data: Array, indices: Array) -> Array | None:
    """Run loops, in Python's integers; None where an index is an error."""
    bits = data.reshape(-1).view(f"u{data.itemsize}")
    read = indices.reshape(-1).tolist()
    signed = indices.dtype.kind == "i"
    output = np.zeros(numbers.counts[2], bits.dtype)
    steps = (numbers.data_strides, numbers.index_strides, numbers.output_strides)
    for at in np.ndindex(numbers.sizes):
        offset, first, to = (sum(map(int.__mul__, at, strides)) for strides in steps)
        found = True
        for k, (n, stride) in enumerate(
            zip(numbers.axis_sizes, numbers.axis_strides, strict=True)
        ):
            index = read[first + k * numbers.tuple_stride]
            if numbers.policy == "directml":
                index -= 2**64 if index >= 2**63 else 0
                offset += (index + n if index < 0 else index) * stride
                continue
            found &= -n * signed <= index < n
            offset += min(max(index, -n), n - 1) % n * stride
        if numbers.policy == "error" and not found:
            return None
        if numbers.policy == "directml":
            offset = min(offset % 2**32, numbers.reachable_count - 1)
        if (found or numbers.policy == "clamp") and offset < bits.size:
            output[to] = bits[offset]
    return output.view(data.dtype)


def agrees(numbers: Loops, desc: og.Descriptor, data: Array, indices: Array) -> bool:
    """Return whether loops give the bytes of the reference, or both an error."""
    try:
        expected = og.reference(desc, data, indices, numbers.policy)
    except og.IndexOutOfRangeError:
        return run(numbers, data, indices) is None
    found = run(numbers, data, indices)
    return found is not None and found.tobytes() == expected.tobytes()


@given(cases(), st.sampled_from([*POLICIES]))
def test_the_loops_of_any_descriptor_equal_the_reference(
    case: Case, policy: OutOfRange
) -> None:
    assert agrees(loops_of(case.desc, policy), case.desc, case.data, case.indices)


@given(cases())
def test_loops_are_at_most_8_and_none_of_them_joins_with_the_next(case: Case) -> None:
    found = loops_of(case.desc, "clamp")
    strides = [
        *zip(found.data_strides, found.index_strides, found.output_strides, strict=True)
    ]
    assert 1 <= len(found.sizes) <= 8
    assert all(size > 1 for size in found.sizes) or found.sizes == (1,)
    for outer, inner, size in zip(strides, strides[1:], found.sizes[1:], strict=False):
        assert outer != tuple(size * stride for stride in inner)


SAMPLE = [*random_cases(300, 7)]


CHANGES: dict[str, Callable[[Loops], Loops]] = {
    "sizes": lambda x: replace(x, sizes=(*x.sizes[:-1], 1)),
    "data": lambda x: replace(x, data_strides=x.data_strides[::-1]),
    "indices": lambda x: replace(x, index_strides=x.index_strides[::-1]),
    "output": lambda x: replace(x, output_strides=x.output_strides[::-1]),
    "tuple stride": lambda x: replace(x, tuple_stride=0),
    "axis sizes": lambda x: replace(x, axis_sizes=x.axis_sizes[::-1]),
    "axis strides": lambda x: replace(x, axis_strides=x.axis_strides[::-1]),
    "reachable count": lambda x: replace(x, reachable_count=x.counts[0]),
    "policy": lambda x: replace(x, policy="clamp"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_planted_mistake_in_the_loops_is_seen(
    change: Callable[[Loops], Loops],
) -> None:
    def differs(case: DescriptorCase) -> bool:
        right = loops_of(case.descriptor, case.out_of_range)
        try:
            expected, found = (
                case.expected(),
                run(change(right), case.data, case.indices),
            )
        except IndexError:  # the loops lead outside
            return True
        return (found is None) != isinstance(expected, str) or (
            found is not None and found.tobytes() != np.asarray(expected).tobytes()
        )

    assert any(map(differs, SAMPLE))
