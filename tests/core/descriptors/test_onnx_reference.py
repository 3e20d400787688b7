"""The reference of ONNX's own formulas, against others that know them."""

from __future__ import annotations

import math
from ast import literal_eval
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import message_of, rows_of
from onnx import helper
from onnx.reference import ReferenceEvaluator
from strategies import Case, cases

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array, content_of, elements
from onnxgather.core.descriptors.explain import explain_node
from onnxgather.core.gather import ATTRIBUTES, gather_of, gather_of_node

Node = tuple[str, Array, Array, dict[str, int]]

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)


@st.composite
def nodes(draw: st.DrawFn, least: int = 0) -> Node:
    """Draw a node that ONNX allows, with indices in range.

    Args:
        draw: Draws a value.
        least: The least size; 0 gives empty tensors too.
    """
    operator = draw(st.sampled_from(sorted(ATTRIBUTES)))
    some = st.integers(least, 3)
    data_sizes = draw(st.lists(some, min_size=1, max_size=4))
    rank = len(data_sizes)
    number = draw(st.integers(0, rank - 1))
    length = 1
    if operator == "GatherND":
        length = draw(st.integers(1, rank - number))
    indexed = data_sizes[number : number + length]
    # On an axis without elements no index is in range.
    rows = [0] if 0 in indexed else draw(st.lists(some, max_size=2))
    if operator == "Gather":
        index_sizes = rows
    elif operator == "GatherND":
        index_sizes = [*data_sizes[:number], *rows, length]
    else:
        index_sizes = [draw(st.integers(least, size)) for size in data_sizes]
        index_sizes[number] = 0 if 0 in indexed else draw(some)
    if operator != "GatherND":
        number -= draw(st.sampled_from([0, rank]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = np.maximum(indexed, 1)
    if operator != "GatherND":
        sizes = sizes[0]
    indices = random.integers(-sizes, sizes, index_sizes)
    data = np.arange(math.prod(data_sizes), dtype=np.float32).reshape(data_sizes)
    return operator, data, indices, {ATTRIBUTES[operator]: number}


def model_of(operator: str, data: Array, indices: Array, **attributes: int) -> bytes:
    """Return a model of one node."""
    value_type = helper.np_dtype_to_tensor_dtype(data.dtype)
    index_type = helper.np_dtype_to_tensor_dtype(indices.dtype)
    named: dict[str, Any] = dict(attributes)
    node = helper.make_node(operator, ["data", "indices"], ["output"], **named)
    inputs = [
        helper.make_tensor_value_info("data", value_type, data.shape),
        helper.make_tensor_value_info("indices", index_type, indices.shape),
    ]
    output = helper.make_tensor_value_info("output", value_type, None)
    graph = helper.make_graph([node], "gather", inputs, [output])
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
    return model.SerializeToString()


def check_same(got: Array, expected: Array) -> None:
    """Check type, shape and bytes."""
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert content_of(got) == content_of(expected)


@given(nodes())
def test_onnx_runtime_computes_the_same(node: Node) -> None:
    operator, data, indices, attributes = node
    model = model_of(operator, data, indices, **attributes)
    session: Any = onnxruntime.InferenceSession(
        model, providers=["CPUExecutionProvider"]
    )
    (expected,) = session.run(None, {"data": data, "indices": indices})
    got = og.reference_onnx(operator, data, indices, **attributes)
    check_same(got, expected)


@given(nodes(least=1))
def test_the_evaluator_of_onnx_computes_the_same(node: Node) -> None:
    operator, data, indices, attributes = node
    # Its GatherElements fails for indices that are smaller than the data off the axis,
    # and for axes that count from the end.
    if operator == "GatherElements":
        axis = attributes["axis"] % data.ndim
        kept = [slice(size) for size in indices.shape]
        kept[axis] = slice(None)
        data = data[tuple(kept)]
        attributes = {"axis": axis}
    model = model_of(operator, data, indices, **attributes)
    evaluator: Any = ReferenceEvaluator(onnx.load_from_string(model))
    (expected,) = evaluator.run(None, {"data": data, "indices": indices})
    got = og.reference_onnx(operator, data, indices, **attributes)
    check_same(got, expected)


@given(cases(wild=False))
def test_the_reference_of_directml_computes_the_same(case: Case) -> None:
    desc = case.desc
    gather = gather_of(desc)
    data = elements(desc.input_tensor, case.data).reshape(gather.data)
    indices = elements(desc.indices_tensor, case.indices).reshape(gather.indices)
    attributes = {gather.attribute: gather.number}
    # ONNX has no unsigned indices; these are in range.
    got = og.reference_onnx(gather.onnx, data, indices.astype(np.int64), **attributes)
    expected = og.reference(desc, case.data, case.indices)
    check_same(
        got.reshape(desc.output_tensor.sizes), elements(desc.output_tensor, expected)
    )


TEXTS = ["a", "", "a\0", "\ud800", "ü", "b" * 300]


@pytest.mark.parametrize(
    "data",
    [
        np.array(TEXTS, object),
        np.array([True, False, True, True, False, False]),
        np.arange(6).astype(ml_dtypes.bfloat16),
        np.arange(6).astype(ml_dtypes.float8_e4m3fn),
        np.arange(6).astype(ml_dtypes.float8_e5m2fnuz),
        np.arange(6).astype(ml_dtypes.int4),
        np.arange(6) * np.complex64(1 + 2j),
    ],
    ids=lambda data: data.dtype.name,
)
def test_each_data_type_moves(data: Array) -> None:
    order = np.array([5, 0, -4, 3, 1, 4])
    expected = np.array([data[place] for place in order], data.dtype)
    for operator, indices in (
        ("Gather", order),
        ("GatherElements", order),
        ("GatherND", order[:, None]),
    ):
        check_same(og.reference_onnx(operator, data, indices), expected)


def test_scalars_are_arrays() -> None:
    got = og.reference_onnx("Gather", np.array(["a", "b"], object), np.array(-1))
    check_same(got, np.array("b", object))
    got = og.reference_onnx("GatherND", DATA, np.array([-1, 2]))
    check_same(got, np.array(10, np.float32))


def test_ranks_beyond_directml() -> None:
    data = np.arange(2**10).reshape((2,) * 10)
    indices = np.zeros((2,) * 9 + (1,), np.int64)
    got = og.reference_onnx("GatherElements", data, indices, axis=-1)
    check_same(got, data[..., :1])


INVALID = (
    ("Gather", (), (2,), 0),
    ("Gather", (3,), (2,), 1),
    ("Gather", (3,), (2,), -2),
    ("GatherElements", (3, 2), (2,), 0),
    ("GatherElements", (3, 2), (3, 3), 0),
    ("GatherElements", (3, 2), (4, 2), 1),
    ("GatherND", (3,), (), 0),
    ("GatherND", (3,), (1,), 1),
    ("GatherND", (3,), (1,), -1),
    ("GatherND", (3,), (2,), 0),
    ("GatherND", (3,), (1, 0), 0),
    ("GatherND", (3, 2), (2, 1), 1),
)


@pytest.mark.parametrize(("operator", "data", "indices", "number"), INVALID)
def test_broken_rules_are_those_of_the_geometry(
    operator: str, data: tuple[int, ...], indices: tuple[int, ...], number: int
) -> None:
    attribute = {ATTRIBUTES[operator]: number}
    arrays = (np.zeros(data), np.zeros(indices, np.int64))
    said = message_of(
        og.DescriptorError, og.reference_onnx, operator, *arrays, **attribute
    )
    assert said == gather_of_node(operator, data, indices, number).broken_rule()


ERRORS = """\
op_type must be one of Gather, GatherElements, GatherND, got 'Where'
data must be an array, got list, of which numpy.asarray makes an array
indices must be an array, got 1
axis must be an integer, got 1.5
batch_dims must be an integer, got None
indices must be INT32 or INT64, got UINT8
indices must be INT64, got INT32
the output must have a rank that numpy has, got 66
"""

ONES = np.zeros((1,) * 34)

WRONG: tuple[tuple[Any, ...], ...] = (
    ("Where", DATA, DATA),
    ("Gather", [1], DATA),
    ("Gather", DATA, 1),
    ("Gather", DATA, np.array([0]), 1.5),
    ("GatherND", DATA, np.array([0]), 0, None),
    ("Gather", DATA, np.array([0], np.uint8)),
    ("GatherND", DATA, np.array([0], np.int32)),
    ("Gather", ONES, ONES.astype(np.int64)[0]),
)


@pytest.mark.parametrize(
    ("arguments", "message"), [*zip(WRONG, ERRORS.splitlines(), strict=True)]
)
def test_wrong_arguments(arguments: tuple[Any, ...], message: str) -> None:
    assert message_of(og.OnnxGatherError, og.reference_onnx, *arguments) == message


OUTSIDE = {
    "indices[0,1] must be in [-3, 3), got -4": ("Gather", [[2, -4, 7]]),
    "indices must be in [-3, 3), got 3": ("Gather", 3),
    "indices[1,2] must be in [-3, 3), got 3": (
        "GatherElements",
        [[0, 0, 0], [2, -3, 3]],
    ),
    "indices[1,1] must be in [-4, 4), got 4": ("GatherND", [[2, 3], [-3, 4]]),
}


@pytest.mark.parametrize("message", OUTSIDE)
def test_the_first_index_out_of_range_is_named(message: str) -> None:
    operator, indices = OUTSIDE[message]
    arguments = (operator, DATA, np.array(indices))
    said = message_of(og.IndexOutOfRangeError, og.reference_onnx, *arguments)
    assert said == message


def test_an_empty_axis_has_no_index_in_range() -> None:
    data = np.zeros((0, 2))
    said = message_of(
        og.IndexOutOfRangeError, og.reference_onnx, "Gather", data, np.array([0])
    )
    assert said == "indices[0] must be in [0, 0), got 0"
    got = og.reference_onnx("Gather", data, np.zeros((3, 0), np.int64))
    check_same(got, np.zeros((3, 0, 2)))


@given(nodes())
def test_each_element_is_explained_by_the_element_that_it_is_read_from(
    node: Node,
) -> None:
    operator, data, indices, attributes = node
    expected = og.reference_onnx(operator, data, indices, **attributes)
    for at in np.ndindex(expected.shape):
        found = explain_node(operator, attributes, data, indices, expected.shape, at)
        assert found.value_bytes == expected[at].tobytes().hex()
        assert found.after is not None
        assert (data[found.after], found.offset) == (expected[at], expected[at])
        assert found.index_values == tuple(indices[at] for at in found.index_places)


TOLD = """
GatherElements, [[2, 0]], (0, 1)
output[0,1] = input[0, indices[0, 1]] = input[0, 0] = 0

GatherElements, [[-1, 0]], (0, 0)
output[0,0] = input[0, indices[0, 0]] = input[0, -1] -> input[0, 3] (-1 is counted from
the end of 4) = 3

GatherElements, [[4, 0]], (0, 0)
output[0,0] = input[0, indices[0, 0]] = input[0, 4]: an error (index 4 is out of range
of 4)

GatherElements, [[4, 0]], (0, 1)
output[0,1] = input[0, indices[0, 1]] = input[0, 0] = 0 (but the gather is an error:
indices[0,0] must be in [-4, 4), got 4)

GatherND, [[2, -1]], (0,)
output[0] = input[indices[0, :]] = input[(2, -1)] -> input[(2, 3)] (-1 is counted from
the end of 4) = 11

Gather, 2, (1,)
output[1] = input[1, indices] = input[1, 2] = 6
"""


@pytest.mark.parametrize(("node", "told"), rows_of(TOLD))
def test_an_element_of_a_node_is_explained_in_a_line(node: str, told: str) -> None:
    operator, rest = node.split(", ", 1)
    values, at = literal_eval(f"({rest})")
    indices = np.array(values)
    attributes = {ATTRIBUTES[operator]: 0 if operator == "GatherND" else 1}
    number = attributes[ATTRIBUTES[operator]]
    sizes = gather_of_node(operator, DATA.shape, indices.shape, number).output
    found = explain_node(operator, attributes, DATA, indices, sizes, at)
    assert str(found) == told


def test_an_element_that_a_node_does_not_have_is_an_error() -> None:
    arguments = "Gather", {"axis": 0}, DATA, np.array([1]), (1, 4), (1, 0)
    assert message_of(og.DescriptorError, explain_node, *arguments) == (
        "at must have 2 coordinates within OutputTensor.Sizes [1, 4], got [1, 0]"
    )


def test_a_text_is_explained_with_its_value() -> None:
    letters = np.array(["a", "b"], object)
    found = explain_node("Gather", {"axis": 0}, letters, np.array([-1]), (1,), (0,))
    assert (found.value, found.value_bytes) == ("'b'", b'["b"]'.hex())
