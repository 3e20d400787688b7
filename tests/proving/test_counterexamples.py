"""Refuted models have a small counterexample, with which they differ on the CPU
provider."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from messages import message_of
from onnx import helper, numpy_helper
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.core.options import OutOfRange
from onnxgather.proving.certify import certify
from onnxgather.proving.claims import Claim
from onnxgather.proving.counterexamples import Counterexample, counterexample
from onnxgather.proving.formula import GatherFormula, index_reader
from onnxgather.proving.tensors import UndecidedError

pytest.importorskip("z3")


def gather(index_type: str = "INT64", count: int = 3) -> og.GatherDesc:
    """A GATHER of rows of two, with strides in the output."""
    return descriptor(
        f"GATHER: FLOAT32 5x2, {index_type} 1x{count}, "
        f"FLOAT32 {count}x2 strides 3x1, 0, 1"
    )


def changed(desc: og.Descriptor, policy: OutOfRange, **values: Any) -> onnx.ModelProto:
    """The model of a descriptor with other values of constants."""
    model = og.to_onnx(desc, policy)
    for tensor in model.graph.initializer:
        if tensor.name in values:
            dtype = numpy_helper.to_array(tensor).dtype
            array = np.array(values.pop(tensor.name), dtype).reshape(tuple(tensor.dims))
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    assert not values
    return model


def refuted(
    desc: og.Descriptor, policy: OutOfRange, model: onnx.ModelProto
) -> Counterexample:
    """The counterexample of a model, which the CPU provider confirms here again."""
    found = certify(desc, policy, model=model)
    assert found.state == "refuted", found
    shown = found.counterexample
    assert shown is not None
    return shown


Mistake = tuple[og.Descriptor, OutOfRange, dict[str, Any], Counterexample]

MISTAKES: dict[str, Mistake] = {
    "an index just out of range leads to another element": (
        gather(),
        "clamp",
        {"first_index": -4},
        Counterexample({0: -5}, 127, 0, 1.0, 3.0),
    ),
    "an index out of range makes the model fail": (
        gather(),
        "clamp",
        {"last_index": 5},
        Counterexample({0: 5}, 127, None, "float32 [8]", "an error"),
    ),
    "an index of 64 bits leads to another element": (
        gather("UINT64"),
        "clamp",
        {"last_index": 3},
        Counterexample({0: 4}, 127, 0, 9.0, 7.0),
    ),
    "an element is in another place whatever the indices are": (
        gather(),
        "clamp",
        {"output_offsets": [0, 1, 3, 4, 7, 6]},
        Counterexample({}, 127, 6, 1.0, 2.0),
    ),
    "a place between the elements of the output is not 0": (
        gather(),
        "clamp",
        {"empty": [0, 0, 1, 0, 0, 0, 0, 0]},
        Counterexample({}, 127, 2, 0.0, 1.0),
    ),
    "an index out of range leads to an element that is not 0": (
        gather(),
        "zero",
        {"zero_row": [[0, 1]]},
        Counterexample({0: 5}, 127, 1, 0.0, 1.0),
    ),
    "an index out of range does not make the model fail": (
        gather("UINT64", 1),
        "error",
        {"axis_size": 4},
        Counterexample({0: 5}, 127, None, "an error", "float32 [2]"),
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_refuted_model_has_its_smallest_counterexample(name: str) -> None:
    desc, policy, values, wanted = MISTAKES[name]
    assert refuted(desc, policy, changed(desc, policy, **values)) == wanted


def test_a_large_model_has_coordinates_in_its_counterexample() -> None:
    desc = descriptor("GATHER: UINT8 5x3000, INT32 1x4, UINT8 4x3000, 0, 1")
    shown = refuted(desc, "clamp", changed(desc, "clamp", last_index=3))
    assert shown == Counterexample({0: 4}, 127, 0, 63, 111)


def typed(model: onnx.ModelProto, dtype: int, sizes: list[int]) -> onnx.ModelProto:
    """A model whose output has another type and other sizes."""
    last = model.graph.node[-1]
    last.output[0] = "before"
    model.graph.node.append(helper.make_node("Cast", ["before"], ["cast"], to=dtype))
    model.graph.node.append(
        helper.make_node("Reshape", ["cast", "sizes"], ["OutputTensor"])
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array(sizes), "sizes"))
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("OutputTensor", dtype, sizes)
    )
    return model


@pytest.mark.parametrize(
    ("dtype", "sizes", "found"),
    [
        (onnx.TensorProto.DOUBLE, [8], "float64 [8]"),
        (onnx.TensorProto.FLOAT, [2, 4], "float32 [2, 4]"),
    ],
)
def test_an_output_of_another_type_or_other_sizes_is_refuted(
    dtype: int, sizes: list[int], found: str
) -> None:
    model = typed(og.to_onnx(gather(), "zero"), dtype, sizes)
    wanted = Counterexample({}, 127, None, "float32 [8]", found)
    assert refuted(gather(), "zero", model) == wanted


def test_a_model_with_other_inputs_and_outputs_is_run_as_well() -> None:
    model = changed(gather(), "clamp", first_index=-4)
    value = helper.make_tensor_value_info("other", onnx.TensorProto.FLOAT, ["n", 2])
    model.graph.input.insert(0, value)
    model.graph.output.insert(
        0, helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, [8])
    )
    model.graph.node.append(helper.make_node("Identity", ["empty"], ["more"]))
    assert refuted(gather(), "clamp", model) == Counterexample(
        {0: -5}, 127, 0, 1.0, 3.0
    )


def test_what_does_not_differ_or_does_not_run_is_no_counterexample() -> None:
    model, desc = og.to_onnx(gather()), gather()
    formula = GatherFormula(desc, "clamp", index_reader(desc.indices_tensor))
    assert (
        message_of(
            UndecidedError, counterexample, model, formula, Claim(True, False), 9
        )
        == "the model does not differ on the CPU provider where it is refuted"
    )
    model.graph.node[0].op_type = "Nothing"
    with pytest.raises(
        UndecidedError, match=r"^the model does not run on the CPU provider: .*Nothing"
    ):
        counterexample(model, formula, Claim(True, False), 9)


def test_the_solver_is_not_asked_beyond_its_time() -> None:
    model = changed(gather(), "clamp", first_index=-4)
    formula = GatherFormula(gather(), "clamp", index_reader(gather().indices_tensor))
    claim = Claim(True, formula.index(0) > -5, (0, 0))
    assert counterexample(model, formula, claim, 9).indices == {0: -5}
    with pytest.raises(UndecidedError, match="does not differ"):
        counterexample(model, formula, claim, 0)


def test_a_model_that_cannot_be_proved_is_refuted_where_a_run_differs() -> None:
    model = og.to_onnx(gather())
    cast = next(node for node in model.graph.node if node.input[0] == "indices_clamped")
    cast.input[0] = "same"
    node = helper.make_node("LeakyRelu", ["indices_clamped"], ["same"], alpha=1.0)
    model.graph.node.insert(3, node)
    found = certify(gather(), model=model)
    assert (found.state, found.why) == ("undecided", "the operator LeakyRelu")
    model.graph.node[3].attribute[0].f = 0.0
    assert certify(gather(), model=model).state == "undecided"
    model.graph.node[3].CopyFrom(helper.make_node("Erf", ["last_index"], ["same"]))
    assert refuted(gather(), "clamp", model).indices == {}


def test_a_model_that_always_fails_is_refuted() -> None:
    model = changed(gather(), "clamp", indices_shape=[4])
    wanted = Counterexample({}, 127, None, "float32 [8]", "an error")
    assert refuted(gather(), "clamp", model) == wanted


def test_a_model_that_differs_without_optimizations_alone_is_refuted() -> None:
    """ONNX Runtime drops a gather of which only a Shape is taken, which may fail."""
    desc = descriptor("GATHER: FLOAT32 5, INT64 3, FLOAT32 3, 0, 1")
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    graph (float[5] InputTensor, int64[3] IndicesTensor) => (float[3] OutputTensor)
    <int64 low = {-5}, int64 high = {4}> {
        near = Clip (IndicesTensor, low, high)
        right = Gather (InputTensor, near)
        may_fail = Gather (InputTensor, IndicesTensor)
        sizes = Shape (may_fail)
        OutputTensor = Reshape (right, sizes)
    }"""
    shown = refuted(desc, "clamp", onnx.parser.parse_model(text))
    assert (shown.expected, shown.found) == ("float32 [3]", "an error")
    assert shown.level == "disabled"
    assert str(shown).endswith(
        "OutputTensor must be float32 [3], got an error, with optimizations disabled"
    )


def test_positions_with_the_same_data_are_told_apart_by_other_data() -> None:
    desc = descriptor("GATHER: FLOAT32 300, INT64 1, FLOAT32 1, 0, 1")
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    graph (float[300] InputTensor, int64[1] IndicesTensor) => (float[1] OutputTensor)
    <int64 low = {-300}, int64 high = {172}, int64 more = {127}> {
        least = Min (IndicesTensor, high)
        near = Max (least, low)
        far = Add (near, more)
        OutputTensor = Gather (InputTensor, far)
    }"""
    shown = refuted(desc, "clamp", onnx.parser.parse_model(text))
    assert shown == Counterexample({}, 113, 0, 1.0, 15.0)
    assert str(shown) == (
        "where IndicesTensor is 0 and InputTensor counts from 1 to 113 over and over, "
        "OutputTensor must be 1.0 at 0, got 15.0"
    )


def test_an_attribute_that_is_neither_0_nor_1_is_not_guessed_at() -> None:
    desc = descriptor("GATHER: FLOAT32 3, INT64 1, FLOAT32 1, 0, 1")
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    graph (float[3] InputTensor, int64[1] IndicesTensor) => (float[1] OutputTensor)
    <int64 low = {-3}, int64 high = {2}, int64[1] one = {1}, int64[1] zero = {0}> {
        least = Min (IndicesTensor, high)
        near = Max (least, low)
        sum = ReduceSum <keepdims = NUMBER> (near, zero)
        again = Reshape (sum, one)
        OutputTensor = Gather (InputTensor, again)
    }"""
    for number, wanted in (("0", "proved"), ("1", "proved"), ("-1", "undecided")):
        model = onnx.parser.parse_model(text.replace("NUMBER", number))
        found = certify(desc, model=model)
        assert found.state == wanted, found
    assert certify(desc, model=model).why == "the attribute keepdims must be 0 or 1"
