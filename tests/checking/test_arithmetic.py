"""The output of a model as a faulty runtime computes it."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from rings import by_ring
from short_descriptors import descriptor

from onnxgather.checking.arithmetic import Arithmetic, Computed, computed
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus import built_in_cases
from onnxgather.checking.lanes.python import question_of
from onnxgather.checking.node_models import bare_model
from onnxgather.core.descriptors.arrays import Array

DATA = np.arange(10, 22, dtype=np.float32).reshape(3, 4)


def of_node(
    operator: str,
    indices: Any,
    row: dict[str, Any],
    data: Array = DATA,
    options: dict[str, int] | None = None,
) -> Computed:
    """Return what a row of the table computes for a node alone."""
    array = np.asarray(indices, np.int64)
    model = bare_model(operator, options or {}, data, array, ()).SerializeToString()
    inputs = {"InputTensor": data, "IndicesTensor": array}
    return computed(model, inputs, msgspec.convert(row, Arithmetic))


def test_what_computes_as_onnx_says_computes_the_corpus() -> None:
    count = 0
    for number, case in enumerate(built_in_cases()):
        is_a_part = number % by_ring(25, 5) == 0 and isinstance(case, DescriptorCase)
        if not is_a_part or case.must_refuse:
            continue
        expected = case.expected()
        assert not isinstance(expected, str)
        for target in ("portable", "webgpu"):
            question = question_of(case, target)
            found = computed(question.model, question.inputs, Arithmetic())
            assert found.is_that_of(expected), case.name
            assert not found.is_unknown.any()
        count += 1
    assert count > by_ring(40, 200)


RULES = """\
{"outside": "zero"} | 1 9 -1 -9 | 14 0 18 0
{"outside": "clamp"} | 1 9 -1 -9 | 14 18 18 10
{"outside": "modulo"} | 1 4 -1 -4 | 14 14 18 18
{"outside": "modulo-of-sum"} | 1 4 -1 -4 | 14 14 18 18
{"outside": "remainder-of-sum"} | 1 4 -1 -3 | 14 14 18 10
{"outside": "address", "beyond": "zero"} | 1 9 -1 -9 | 14 0 18 0
{"outside": "zero", "negative": "zero"} | 1 9 -1 -9 | 14 0 0 0
{"outside": "zero", "index_type": "int8"} | 1 257 -1 511 | 14 14 18 18
{"outside": "clamp", "negative": "clamp"} | 1 9 -1 -9 | 14 18 10 10
"""


@pytest.mark.parametrize("row", RULES.splitlines())
@pytest.mark.parametrize("operator", ["Gather", "GatherElements", "GatherND"])
def test_each_rule_of_an_index(operator: str, row: str) -> None:
    rule, indices, expected = row.split(" | ")
    column = DATA[:, 0].copy()
    array = [int(word) for word in indices.split()]
    shaped = [[index] for index in array] if operator == "GatherND" else array
    arithmetic = {"gathers": {operator: msgspec.json.decode(rule)}}
    found = of_node(operator, shaped, arithmetic, column)
    assert found.output.tolist() == [int(word) for word in expected.split()]


ADDRESSES = """\
Gather | 3 -1 | 0 | ? ? ? ? ? ? ? ?
Gather | 2 5 | 1 | 12 15 16 19 20 ?
GatherElements | 4 -1 | 1 | 14 ?
GatherND | 0,6 1,-2 | 0 | 16 12
GatherND | 0,-1 3,0 | 0 | ? ?
"""
"""Nodes whose indices nobody checks, and the elements; ? is memory outside the data."""


@pytest.mark.parametrize("row", ADDRESSES.splitlines())
def test_an_address_that_nobody_checks(row: str) -> None:
    operator, text, number, expected = row.split(" | ")
    indices = [[int(part) for part in word.split(",")] for word in text.split()]
    array = np.array(indices)
    options = {"batch_dims": 0}
    if operator != "GatherND":
        options = {"axis": int(number)}
        array = array.T if operator == "GatherElements" else array[:, 0]
    rule = {"outside": "address", "negative": "address"}
    found = of_node(operator, array, {"gathers": {operator: rule}}, DATA, options)
    words = [
        "?" if is_unknown else f"{element:.0f}"
        for element, is_unknown in zip(
            found.output.flat, found.is_unknown.flat, strict=True
        )
    ]
    assert words == expected.split()


@pytest.mark.parametrize(
    ("dtype", "count", "is_unknown"),
    [("int32", 64, True), ("int32", 65, False), ("int8", 64, False)],
)
def test_an_index_of_a_short_vector_of_integers(
    dtype: str, count: int, is_unknown: bool
) -> None:
    rules = {"Gather": {"outside": "zero", "outside_short": "address"}}
    data = np.ones(count, dtype)
    found = of_node("Gather", [0, count, -1], {"gathers": rules}, data)
    assert found.is_unknown.tolist() == [False, is_unknown, False]
    column = of_node("Gather", [[0], [count]], {"gathers": rules}, data)
    assert column.output.ravel().tolist() == [1, 0]


def test_an_index_may_count_from_the_end_and_still_be_outside() -> None:
    rules = {"GatherND": {"outside": "address"}}
    found = of_node("GatherND", [[1, -6], [0, 5]], {"gathers": rules})
    assert found.output.tolist() == [12, 15]


def test_what_is_known_must_be_so_and_what_is_outside_may_be_anything() -> None:
    rule = {"outside": "address", "negative": "address"}
    found = of_node("Gather", [2, 5], {"gathers": {"Gather": rule}}, DATA, {"axis": 1})
    output = found.output.copy()
    output[2, 1] = 1234
    assert found.is_that_of(output)
    output[0, 0] += 1
    assert not found.is_that_of(output)
    assert not found.is_that_of(found.output.astype(np.float64))
    assert not found.is_that_of(found.output[:2])


HELD = """\
{"holds": {"int64": "int32"}} | int64 | 4294967297 -5 | 1 -5
{"holds": {"int64": "int32"}, "inputs": "nearest"} | int64 | 4294967297 -5 | 2147483647 -5
{"holds": {"int64": "int32"}, "inputs": "bytes"} | int64 | 4294967297 -5 | 1 1
{"inputs_through": {"uint64": "int32"}} | uint64 | 4294967297 4294967295 | 1 0
{"holds": {"float64": "float32"}} | float64 | 0.1 2 | 0.10000000149011612 2.0
"""  # noqa: E501


@pytest.mark.parametrize("row", HELD.splitlines())
def test_a_type_that_is_held_in_another(row: str) -> None:
    arithmetic, dtype, numbers, expected = row.split(" | ")
    data = np.array([float(word) for word in numbers.split()]).astype(dtype)
    found = of_node("Gather", [0, 1], msgspec.json.decode(arithmetic), data)
    assert found.output.dtype == dtype
    assert [str(element) for element in found.output.tolist()] == expected.split()


def test_indices_that_the_adapter_converts_are_not_read_as_bytes() -> None:
    row = {"holds": {"int64": "int32"}, "inputs": "bytes", "converts_indices": True}
    found = of_node("Gather", [2, 1], row, np.array([4, 5, 6], np.float32))
    assert found.output.tolist() == [6, 5]


def test_an_index_that_the_runtime_refuses() -> None:
    row = {"gathers": {"Gather": {"outside": "refused", "index_type": "int32"}}}
    data = np.arange(5, dtype=np.float32)
    assert of_node("Gather", [2**32 + 1], row, data).output.tolist() == [1]
    with pytest.raises(IndexError, match="the runtime refuses the index"):
        of_node("Gather", [2**32 + 9], row, data)


def test_a_sum_that_overflows_leads_to_another_element() -> None:
    gathers = {"Gather": {"outside": "modulo-of-sum"}}
    row = {"holds": {"int64": "int32"}, "gathers": gathers}
    found = of_node("Gather", [2**31 - 1], row, np.arange(5, dtype=np.float32))
    assert found.output.tolist() == [(2**31 + 4 - 2**32) % 5]


def test_a_batch_that_is_added_to_each_index_of_a_tuple() -> None:
    rule = {"outside": "address", "beyond": "zero", "adds_batch_to_each": True}
    row = {"gathers": {"GatherND": rule}}
    data = np.arange(160, dtype=np.float32).reshape(16, 2, 5)
    indices = np.zeros((16, 2), np.int64)
    found = of_node("GatherND", indices, row, data, {"batch_dims": 1})
    assert found.output.tolist() == [0, 60, 120, *[0] * 13]
    alone = of_node("GatherND", indices[:, :1], row, data, {"batch_dims": 1})
    assert np.array_equal(alone.output, data[:, 0])


def test_integers_that_an_operator_computes_in_float32() -> None:
    desc = descriptor("GATHER: FLOAT32 5, INT32 2, FLOAT32 2, 0, 1")
    data = np.arange(5, dtype=np.float32)
    case = DescriptorCase("a", desc, data, np.array([2**31 - 1, 9], np.int32))
    question = question_of(case, "portable")
    gathers = {"Gather": {"outside": "modulo"}}
    row = {"in_float32": ["Max", "Min"], "gathers": gathers}
    arithmetic = msgspec.convert(row, Arithmetic)
    found = computed(question.model, question.inputs, arithmetic)
    assert found.output.tolist() == [-(2**31) % 5, 4]


def test_an_operand_that_where_does_not_broadcast() -> None:
    nodes = [
        helper.make_node("Less", ["a", "zero"], ["is_negative"]),
        helper.make_node("Add", ["a", "sizes"], ["raised"]),
        helper.make_node("Where", ["is_negative", "raised", "a"], ["b"]),
    ]
    constants = {"zero": np.array(0, np.int32), "sizes": np.array([10, 100], np.int32)}
    graph = helper.make_graph(
        nodes,
        "a graph",
        [helper.make_tensor_value_info("a", onnx.TensorProto.INT32, [4, 1])],
        [helper.make_tensor_value_info("b", onnx.TensorProto.INT32, [4, 2])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph).SerializeToString()
    inputs = {"a": np.array([[1], [-2], [3], [-4]], np.int32)}
    found = computed(model, inputs, Arithmetic(where_reads_on=True))
    # Measured with MNN 3.6.1; the two numbers in between are outside the operand.
    known = found.output.ravel()[~found.is_unknown.ravel()]
    assert known.tolist() == [1, -2, 8, 98, 6, 96]
    assert found.is_unknown.ravel().tolist() == [False] * 4 + [True] * 2 + [False] * 2


@pytest.mark.parametrize(("joins", "word"), [(True, -(2**31)), (False, 2**31 - 1)])
def test_a_where_that_is_joined_with_the_comparison_of_an_input(
    joins: bool, word: int
) -> None:
    desc = descriptor("GATHER_ELEMENTS: FLOAT32 5, INT64 2, FLOAT32 2, 0")
    data = np.arange(5, dtype=np.float32)
    indices = np.array([2**31 - 1, 1])
    question = question_of(
        DescriptorCase("a", desc, data, indices, "directml"), "portable"
    )
    rule = {"outside": "modulo"}
    row = {"holds": {"uint32": "int32"}, "joins_where": joins}
    arithmetic = msgspec.convert(row | {"gathers": {"Gather": rule}}, Arithmetic)
    found = computed(question.model, question.inputs, arithmetic)
    # The last offset is the greatest that is read, and an offset may be negative.
    assert found.output.tolist() == [data[min(word, 4) % 5], 1]


def test_padding_that_is_held_in_another_type_than_the_data() -> None:
    data = np.array([2**63 + 1, 2**63 + 3], np.uint64)
    padding = numpy_helper.from_array(np.zeros(1, np.uint64), "padding")
    node = helper.make_node("Concat", ["data", "padding"], ["y"], axis=0)
    kind = onnx.TensorProto.UINT64
    given = helper.make_tensor_value_info("data", kind, [2])
    output = helper.make_tensor_value_info("y", kind, [3])
    graph = helper.make_graph([node], "g", [given], [output], [padding])
    model = helper.make_model(graph).SerializeToString()
    row = Arithmetic(holds={"uint64": "int32"}, holds_data=False)
    found = computed(model, {"data": data}, row).output
    assert found.tolist() == [2**63 + 1, 2**63 + 3, 0]


def test_an_output_may_have_the_type_in_which_it_is_held() -> None:
    row = {"returns": {"float16": "float32"}}
    found = of_node("Gather", [1], row, np.array([1, 2], np.float16))
    assert (found.output.dtype, found.output.tolist()) == (np.float32, [2.0])


def test_a_signaling_nan_becomes_quiet() -> None:
    data = np.array([0x7C01, 0xFE00, 0x3C00], np.uint16).view(np.float16)
    row = {"holds": {"float16": "float32"}, "quiets_nans": True}
    found = of_node("Gather", [0, 1, 2], row, data)
    bits = found.output.view(np.uint16)
    assert [f"{word:x}" for word in bits] == ["7e01", "fe00", "3c00"]
