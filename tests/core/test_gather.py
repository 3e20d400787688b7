"""Gathers: the descriptor of an ONNX node, and the node of a descriptor."""

from __future__ import annotations

import random
from ast import literal_eval
from contextlib import closing
from typing import Any

import msgspec
import numpy as np
import pytest
from agreement import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import message_of, rows_of
from provider_descriptors import random_node
from short_descriptors import descriptor, tensor_desc
from sizes_of_one import recorded_nodes
from strategies import descriptors, random_data, random_indices

import onnxgather as og
from onnxgather.core.descriptors.arrays import axis_sizes
from onnxgather.core.descriptors.operators import TENSORS
from onnxgather.core.execution.elsewhere.hosts import find_runtime
from onnxgather.core.execution.elsewhere.worker import Worker
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.gather import gather_of, gather_of_node

DATA = ("FLOAT32", (4, 3))


def fields_of(desc: og.Descriptor) -> dict[str, Any]:
    """Return the fields of a descriptor that are no tensors."""
    return {k: v for k, v in msgspec.structs.asdict(desc).items() if k not in TENSORS}


@pytest.mark.parametrize(
    ("node", "desc"),
    [
        (
            ("Gather", DATA, ("INT64", ()), -1),
            "GATHER: FLOAT32 4x3, INT64 1x1, FLOAT32 1x4, 1, 0",
        ),
        (
            ("Gather", ("FLOAT16", [6, 4]), ("INT64", [2, 3])),
            "GATHER: FLOAT16 1x6x4, INT64 1x2x3, FLOAT16 2x3x4, 1, 2",
        ),
        (
            ("GatherElements", ("BOOL", [4, 3]), ("INT32", [4, 5]), 1),
            "GATHER_ELEMENTS: UINT8 4x3, INT32 4x5, UINT8 4x5, 1",
        ),
        (
            ("GatherND", ("INT8", [2, 4, 3]), ("INT64", [2, 7, 1]), 9, 1),
            "GATHER_ND1: INT8 2x4x3, INT64 2x7x1, INT8 2x7x3, 3, 3, 1",
        ),
    ],
)
def test_a_node_becomes_the_descriptor_of_the_provider(node: Any, desc: str) -> None:
    assert og.from_onnx(*node) == descriptor(desc)


def test_tensors_may_be_descriptors() -> None:
    data, indices = tensor_desc("FLOAT32 4x3"), tensor_desc("INT32 2")
    assert og.from_onnx("Gather", data, indices, 1) == og.from_onnx(
        "Gather", DATA, ("INT32", [2]), 1
    )


ONES = recorded_nodes()
"""Nodes that ran on the provider, most of them along sizes of 1."""


@pytest.mark.parametrize("is_static", [True, False])
def test_the_provider_reads_a_size_of_1_by_the_formulas(is_static: bool) -> None:
    for row in ONES:
        desc = row.descriptor(is_static)
        shapes = desc.input_tensor.array_shape, desc.indices_tensor.array_shape
        for run in row.runs:
            data, indices = map(np.reshape, row.inputs(run).values(), shapes)
            found = og.reference(desc, data, indices, "directml")
            assert found.ravel().tolist() == run.of(is_static), (row, run)
    is_other = [run.static != run.open for row in ONES for run in row.runs]
    assert (is_other.count(True), is_other.count(False)) == (31, 64)


def test_of_static_sizes_only_an_indexed_1_has_the_stride_0() -> None:
    strides = [row.descriptor(True).input_tensor.strides for row in ONES]
    assert strides == [
        *((0, 1), (1, 0), (0,), (2, 0, 1), None, (0, 1, 0)),
        *((0, 1), (1, 0), None),
        *((0, 1), (0, 1), (1, 0), (3, 0, 1), (2, 0, 1), None),
    ]
    assert not any(row.descriptor(False).input_tensor.strides for row in ONES)


@pytest.mark.slow
@pytest.mark.skipif(
    not find_runtime(PROVIDERS["directml"]),
    reason="scripts/directml/setup.sh has not run",
)
def test_the_provider_reads_a_size_of_1_as_it_did() -> None:
    session = {"provider": PROVIDERS["directml"].name, "threads": 0}
    with closing(Worker("", 120, find_runtime(PROVIDERS["directml"]))) as worker:
        for row in ONES:
            for is_static in (True, False):
                made = row.model(is_static).SerializeToString()
                ran = worker.run(made, session, list(map(row.inputs, row.runs)))
                for run, output in zip(row.runs, ran.outputs, strict=True):
                    numbers = np.asarray(output).ravel().tolist()
                    assert numbers == run.of(is_static), (row, run)


REFUSED = """
"Gather", ("FLOAT32", [1, 1, 1, 1, 1, 1, 1, 1]), ("INT64", [2, 3])
InputTensor.DimensionCount must be 1 to 8, got 9

"GatherElements", ("FLOAT32", [3, 3]), ("INT64", [1, 2]), 1
IndicesTensor.Sizes[0] must be InputTensor.Sizes[0] (3), as it is not at Axis, got 1

"GatherND", ("FLOAT32", (4, 3)), ("INT64", [2])
OutputTensor of GatherND must have a dimension, as the provider refuses a scalar, got
none

"Gather", ("FLOAT32", []), ("INT64", [1])
what Gather takes must have a dimension, got the shapes [] and [1]

"GatherND", ("FLOAT32", [2]), ("INT64", [])
what GatherND takes must have a dimension, got the shapes [2] and []

"GatherElements", ("FLOAT32", [2, 3]), ("INT64", [1])
indices must have the rank of data (2), got 1

"GatherND", ("FLOAT32", [2, 3]), ("INT64", [2, 3]), 0, 2
batch_dims must be at least 0 and less than both ranks (2), got 2

"GatherND", ("FLOAT32", [2, 3]), ("INT64", [2, 3]), 0, 1
the last size of indices must be 1 to rank(data) - batch_dims (1), got 3

"Gather", ("STRING", [3]), ("INT64", [2])
InputTensor.DataType must be one of FLOAT64, FLOAT32, FLOAT16, INT64, INT32, INT16,
INT8, UINT64, UINT32, UINT16, UINT8, got 'STRING'

"Gather", ("FLOAT32", [0, 3]), ("INT64", [2])
InputTensor.Sizes[0] must be at least 1, got 0

"Gather", ("FLOAT32", (4, 3)), ("INT64", [0])
IndicesTensor.Sizes[1] must be at least 1, got 0

"Gather", ("FLOAT32", (4, 3)), ("INT64", [2]), 2
axis must be in [-2, 2), got 2

"Gather", ("FLOAT32", (4, 3)), ("INT64", [2]), 1.5
axis must be an integer, got 1.5

"GatherND", ("FLOAT32", (4, 3)), ("INT64", [2]), 0, None
batch_dims must be an integer, got None

"GatherND", ("FLOAT32", (4, 3)), ("INT32", [2, 1])
indices must be INT64, got INT32

"Gather", ("FLOAT32", (4, 3)), ("UINT32", [2])
indices must be INT32 or INT64, got UINT32

"Gather", ("FLOAT32", (4, 3)), 5
IndicesTensor must be a sequence, got 5

"Gather", ("FLOAT32", (4, 3)), ("INT64",)
IndicesTensor must be a TensorDesc, or a type and sizes, got ('INT64',)

"Gather", ("FLOAT32", (4, 3)), ("INT64", [-1])
IndicesTensor.Sizes[0] must be an integer from 0 to 4294967295, got -1
"""
"""The arguments of from_onnx, and the message."""


@pytest.mark.parametrize(("arguments", "message"), rows_of(REFUSED))
def test_a_node_without_a_descriptor_is_refused_with_the_rule(
    arguments: str, message: str
) -> None:
    given = literal_eval(arguments)
    assert message_of(og.DescriptorError, og.from_onnx, *given) == message


def test_an_operator_that_is_no_gather_is_refused() -> None:
    given = ("GatherNd", DATA, ("INT64", [2]))
    assert message_of(og.OnnxGatherError, og.from_onnx, *given) == (
        "op_type must be one of Gather, GatherElements, GatherND, got 'GatherNd';"
        ' did you mean "GatherND"?'
    )


def test_data_with_strides_are_refused() -> None:
    given = ("Gather", tensor_desc("FLOAT32 4x3 strides 1x4"), ("INT64", [2]))
    assert message_of(og.DescriptorError, og.from_onnx, *given) == (
        "InputTensor.Strides must be none, as an ONNX value is packed, got [1, 4]"
    )


@st.composite
def nodes(draw: st.DrawFn) -> tuple[str, tuple[int, ...], tuple[int, ...], int]:
    """Draw an operator, the sizes of its data and indices, and its attribute: valid in
    ONNX."""
    return random_node(random.Random(draw(st.integers(0, 2**32 - 1))))


@settings(max_examples=EXAMPLES)
@given(nodes())
def test_a_node_goes_to_a_descriptor_and_back(
    node: tuple[str, tuple[int, ...], tuple[int, ...], int],
) -> None:
    """The node that the descriptor becomes differs in leading ones alone.

    It has some where the output of the descriptor has more dimensions than that of the
    node, unless its rank would pass 8.
    """
    operator, data, indices, number = node
    types = ("FLOAT32", "INT64")
    try:
        desc = og.from_onnx(
            operator, (types[0], data), (types[1], indices), number, max(number, 0)
        )
    except og.DescriptorError:
        return
    given_gather, found = (
        gather_of_node(operator, data, indices, number),
        gather_of(desc),
    )
    assert (found.operator, found.data, found.indices, found.number) == (
        given_gather.operator,
        given_gather.data,
        given_gather.indices,
        given_gather.number,
    )
    back = found.node()
    output = desc.output_tensor.sizes
    assert max(len(back.data), len(back.indices)) <= 8
    assert without_leading_ones(back.output) == without_leading_ones(output)
    if back.output != output or len(given_gather.output) == len(output):
        assert (back.onnx, back.data, back.indices) == (operator, data, indices)
        assert back.number == given_gather.number


def without_leading_ones(sizes: tuple[int, ...]) -> tuple[int, ...]:
    ones = next((k for k, size in enumerate(sizes) if size != 1), len(sizes))
    return sizes[ones:]


@settings(max_examples=EXAMPLES)
@given(descriptors(packed=True))
def test_a_descriptor_goes_to_a_node_and_back(desc: og.Descriptor) -> None:
    """It comes back as it was if the sizes that count of its output are all
    DimensionCount sizes.

    But GATHER_ND comes back as GATHER_ND1 without batches, as GatherND always does, the
    indices have a type of ONNX's, and IndexDimensions leaves out the leading ones that
    the output crops, so that it is Axis + 1 at most. Other descriptors come back with
    more or fewer leading ones, and with the counts of dimensions that go with them.
    """
    gather = gather_of(desc)
    node = gather.node()
    fills = len(gather.output) == desc.output_tensor.dimension_count
    data, indices = (desc.input_tensor.data_type, node.data), ("INT64", node.indices)
    found = og.from_onnx(node.onnx, data, indices, node.number, max(node.number, 0))
    nd1 = gather.onnx == "GatherND"
    assert found.operator == ("GATHER_ND1" if nd1 else desc.operator)
    batches = {"batch_dimension_count": gather.number} if nd1 else {}
    for name in TENSORS:
        one, other = getattr(desc, name).sizes, getattr(found, name).sizes
        assert without_leading_ones(one) == without_leading_ones(other)
        assert one == other or not fills
    if fills:
        cropped = (
            {"index_dimensions": len(gather.indices)} if gather.onnx == "Gather" else {}
        )
        assert fields_of(found) == fields_of(desc) | batches | cropped
    elif not nd1:
        axis, count = fields_of(desc)["axis"], desc.input_tensor.dimension_count
        assert (
            fields_of(found)["axis"] - found.input_tensor.dimension_count
            == axis - count
        )
    rng = np.random.default_rng(len(node.data))
    values = random_data(desc.input_tensor, rng)
    where = random_indices(found, rng, wild=0)
    type_of_indices = desc.indices_tensor.data_type.numpy
    # the same indices in a type without a sign
    first = where % np.array(axis_sizes(found))
    first = first.astype(type_of_indices).reshape(desc.indices_tensor.sizes)
    second = og.reference(found, values.reshape(found.input_tensor.sizes), where)
    assert og.reference(desc, values, first).tobytes() == second.tobytes()
