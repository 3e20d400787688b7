"""The reference against the formulas, spelled out element by element in Python
integers."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import message_of
from short_descriptors import ascending, descriptor
from strategies import Case, cases

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.options import OutOfRange

Compute = Callable[..., Array]


def source(
    desc: og.Descriptor, indices: Array, place: tuple[int, ...]
) -> list[tuple[int, bool]]:
    """Return, per dimension of InputTensor, the coordinate that an output element
    reads.

    Beside each stands whether it is an index value.
    """
    count = len(place)
    if isinstance(desc, og.GatherElementsDesc):  # out[p] = in[p with p[Axis] := idx[p]]
        return [
            (int(indices[place]) if k == desc.axis else place[k], k == desc.axis)
            for k in range(count)
        ]
    if isinstance(desc, og.GatherDesc):  # out[a…, i…, b…] = in[a…, idx[i…], b…]
        whole = desc.axis + desc.index_dimensions + count - desc.axis - 1
        full = [0] * (whole - count) + list(place)[max(0, count - whole) :]
        a, rest = full[: desc.axis], full[desc.axis :]
        i, b = rest[: desc.index_dimensions], rest[desc.index_dimensions :]
        index = int(indices[(0,) * (count - len(i)) + tuple(i)])
        return [*((c, False) for c in a), (index, True), *((c, False) for c in b)]
    # out[n…, i…, s…] = in[n…, idx[n…, i…, 0], …, idx[n…, i…, t-1], s…]
    behind = desc.input_dimension_count - desc.batches - desc.tuple_size
    inner = desc.indices_dimension_count - 1
    outer = place[count - behind - inner : count - behind]
    prefix = (0,) * (count - desc.indices_dimension_count) + outer
    tuples = [(int(indices[(*prefix, k)]), True) for k in range(desc.tuple_size)]
    ones = [(0, False)] * (count - desc.input_dimension_count)
    batch = [(c, False) for c in outer[: desc.batches]]
    return [*ones, *batch, *tuples, *((c, False) for c in place[count - behind :])]


def expected_element(
    case: Case, policy: OutOfRange, place: tuple[int, ...]
) -> bytes | None:
    """Return the bytes of one output element, None for an error."""
    desc, tensor = case.desc, case.desc.input_tensor
    indices = logical(desc.indices_tensor, case.indices)
    signed = desc.indices_tensor.data_type.is_signed
    buffer = list(case.data.reshape(-1))
    zero = bytes(tensor.data_type.size)
    offset = 0
    for k, (coordinate, is_index) in enumerate(source(desc, indices, place)):
        size, stride = tensor.sizes[k], tensor.element_strides[k]
        if policy == "directml":
            if isinstance(desc, og.GatherElementsDesc) and size == 1:
                stride = 0
            if (
                is_index
                and desc.indices_tensor.data_type == "UINT64"
                and coordinate >= 2**63
            ):
                coordinate -= 2**64
            coordinate += size if coordinate < 0 else 0
        elif is_index:
            if not -size * signed <= coordinate < size:
                if policy != "clamp":
                    return zero if policy == "zero" else None
                coordinate = min(max(coordinate, -size), size - 1)
            coordinate += size if coordinate < 0 else 0
        offset += coordinate * stride
    if policy == "directml":
        offset = min(offset % 2**32, tensor.reachable_count - 1)
    return bytes(buffer[offset].tobytes()) if offset < len(buffer) else zero


def logical(tensor: og.TensorDesc, array: Array) -> Array:
    """Return the elements of a tensor, one by one."""
    result = np.empty(tensor.sizes, array.dtype)
    for place in itertools.product(*map(range, tensor.sizes)):
        at = sum(c * s for c, s in zip(place, tensor.element_strides, strict=True))
        result[place] = array.reshape(-1)[at]
    return result


@given(cases(), st.sampled_from(["clamp", "error", "zero", "directml"]))
def test_reference_is_the_formula(case: Case, policy: OutOfRange) -> None:
    tensor = case.desc.output_tensor
    expected = bytearray(math.prod(tensor.array_shape) * tensor.data_type.size)
    step = tensor.data_type.size
    for place in itertools.product(*map(range, tensor.sizes)):
        element = expected_element(case, policy, place)
        if element is None:
            with pytest.raises(og.IndexOutOfRangeError):
                og.reference(case.desc, case.data, case.indices, policy)
            return
        at = step * sum(
            c * s for c, s in zip(place, tensor.element_strides, strict=True)
        )
        expected[at : at + step] = element
    result = og.reference(case.desc, case.data, case.indices, policy)
    assert result.shape == tensor.array_shape
    assert result.dtype == tensor.data_type.numpy
    assert result.tobytes() == bytes(expected)


def gather(
    data_type: str = "FLOAT32", index_type: str = "UINT32", total: int = 0
) -> og.GatherDesc:
    """Return a small GATHER along the second axis."""
    data = f"{data_type} 2x3 bytes {total}"
    return descriptor(f"GATHER: {data}, {index_type} 1x1, {data_type} 2x1, 1, 1")


OUT_OF_RANGE = """
UINT32 4294967295 clamp 2 5
UINT32 4294967295 zero 0 0
UINT32 4294967295 directml 5 2
UINT32 4 directml 4 5
UINT64 18446744073709551615 clamp 2 5
UINT64 18446744073709551615 zero 0 0
UINT64 18446744073709551615 directml 2 5
INT32 -4 clamp 0 3
INT64 -1 clamp 2 5
INT64 4294967295 clamp 2 5
INT64 -4294967296 clamp 0 3
INT64 4294967297 directml 1 4
"""
"""The type of the index, the index, the policy, and the two elements."""


@pytest.mark.parametrize("row", OUT_OF_RANGE.strip().splitlines())
def test_an_index_out_of_range_under_each_policy(row: str) -> None:
    index_type, index, policy, *expected = row.split()
    desc = gather(index_type=index_type)
    data = ascending("FLOAT32 2x3")
    indices = np.array([[int(index)]], desc.indices_tensor.data_type.numpy)
    given: Any = (desc, data, indices, policy)
    for compute in (og.reference, og.run):
        assert compute(*given).reshape(-1).tolist() == [*map(int, expected)]


def test_padding_reads_as_zero_under_directml() -> None:
    desc = gather("UINT8")
    data = np.arange(1, 7, dtype=np.uint8).reshape(2, 3)
    indices = np.array([[6]], np.uint32)
    for compute in (og.reference, og.run):
        assert compute(desc, data, indices, "directml").tolist() == [[0], [0]]


def test_padding_ends_at_total_tensor_size_in_bytes() -> None:
    desc = gather("FLOAT32")
    data = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    indices = np.array([[9]], np.uint32)
    for compute in (og.reference, og.run):
        assert compute(desc, data, indices, "directml").tolist() == [[6], [6]]
        assert compute(gather(total=28), data, indices, "directml").tolist() == [
            [0],
            [0],
        ]


@pytest.mark.parametrize(
    ("policy", "indices", "expected"),
    [
        ("clamp", [-5, 4], [1, 4]),
        ("error", [-4, 3], [1, 4]),
        ("zero", [-1, 4], [4, 0]),
        ("directml", [-1, 4], [4, 0]),
    ],
)
def test_padding_takes_no_memory(
    policy: OutOfRange, indices: list[int], expected: list[int]
) -> None:
    desc = descriptor(
        f"GATHER: FLOAT64 4 bytes {8 * (2**32 - 1)}, INT64 2, FLOAT64 2, 0, 1"
    )
    data = np.arange(1, 5, dtype=np.float64)
    tracemalloc.start()
    og.reference(desc, data, np.array(indices), policy)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**20
    for compute in (og.reference, og.run):
        assert compute(desc, data, np.array(indices), policy).tolist() == expected


either = pytest.mark.parametrize("compute", [og.reference, og.run])
DATA, INDICES = np.zeros((2, 3), np.float32), np.zeros((1, 1), np.uint32)


@either
@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([[0, 2], [2, 0]], "IndicesTensor[1,0] must be in [-2, 2), got 2"),
        ([[0, -4], [9, 0]], "IndicesTensor[0,1] must be in [-3, 3), got -4"),
    ],
)
def test_error_names_the_first_index_out_of_range(
    compute: Compute, indices: list[list[int]], message: str
) -> None:
    desc = descriptor("GATHER_ND: INT8 2x3, INT32 2x2, INT8 1x2, 2, 2")
    given = (desc, np.zeros((2, 3), np.int8), np.array(indices, np.int32), "error")
    assert message_of(og.IndexOutOfRangeError, compute, *given) == message


@either
def test_error_names_an_unsigned_index_out_of_range(compute: Compute) -> None:
    indices = np.array([[2**64 - 1]], np.uint64)
    given = (gather(index_type="UINT64"), DATA, indices, "error")
    rule = "IndicesTensor[0,0] must be in [0, 3), got 18446744073709551615"
    assert message_of(og.IndexOutOfRangeError, compute, *given) == rule


@either
@pytest.mark.parametrize(
    ("data", "indices", "message"),
    [
        (
            np.zeros((2, 3)),
            INDICES,
            "InputTensor must be an array of float32 (2, 3), got float64 (2, 3)",
        ),
        (
            np.zeros(6, np.float32),
            INDICES,
            "InputTensor must be an array of float32 (2, 3), got float32 (6,)",
        ),
        (DATA, [[-1]], "IndicesTensor: element [0, 0] must fit UINT32, got -1"),
    ],
)
def test_array_must_fit_its_tensor(
    compute: Compute, data: object, indices: object, message: str
) -> None:
    assert message_of(og.DescriptorError, compute, gather(), data, indices) == message


@either
def test_policy_must_be_known(compute: Compute) -> None:
    given = (gather(), DATA, INDICES, "wrap")
    assert message_of(og.OnnxGatherError, compute, *given) == (
        "out_of_range must be one of clamp, error, zero, directml, got 'wrap'"
    )
