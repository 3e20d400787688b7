"""Models that ONNX does not allow are audited, or refused in a sentence."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import TensorProto
from onnx_graphs import FLOAT, INT64, info, model, node, written

import onnxgather as og

X = info("x", FLOAT, ["n", 3])
GATHER = node("Gather", ["x", "i"], "y")


def _where_after(condition: str) -> onnx.ModelProto:
    return written(f"""
        (float[n, 3] x, int64[2] j) => (y)
        {{
            condition = {condition}
            i = Where (condition, j, j)
            y = Gather (x, i)
        }}
    """)


def _of_two_types(operator: str) -> onnx.ModelProto:
    return written(f"""
        (float[n, 3] x) => (y)
        <double[1] half = {{2.5}}>
        {{ sizes = Shape (x)  i = {operator} (sizes, half)  y = Gather (x, i) }}
    """)


def _loop_of(data_type: str) -> onnx.ModelProto:
    return written(f"""
        (float[n, 3] x, {data_type} count) => (y)
        {{
            i = Loop (count, "") <
                body = g (int64 trip, bool go) => (on, kept)
                {{ on = Identity (go)  kept = Identity (trip) }} >
            y = Gather (x, i)
        }}
    """)


NOT_PROVED = {
    "Div of two types": _of_two_types("Div"),
    "Mod of two types": _of_two_types("Mod"),
    "Loop of a text": _loop_of("string"),
    "Loop of a float": _loop_of("float"),
    "Less of one input": _where_after("Less (j)"),
    "Equal of three inputs": _where_after("Equal (j, j, j)"),
    "Not of no input": _where_after("Not ()"),
    "Where of one input": written("""
        (float[n, 3] x, int64[2] j) => (y)
        { less = Less (j, j)  i = Where (less)  y = Gather (x, i) }
    """),
}


@pytest.mark.parametrize("made", NOT_PROVED.values(), ids=NOT_PROVED)
def test_nothing_is_proved_without_conditions(made: onnx.ModelProto) -> None:
    (gather,) = og.audit(made).gathers
    assert gather.range.state in ("proved-if", "not-proved")


@pytest.mark.parametrize(
    ("data_type", "size"), [(TensorProto.BOOL, 2**62), (TensorProto.FLOAT16, 2**61)]
)
def test_a_small_type_may_have_sizes_that_numpy_lacks_for_larger(
    data_type: Any, size: int
) -> None:
    empty = TensorProto(name="x", data_type=data_type, dims=[0, size])
    made = model([GATHER], [info("i", INT64, [2])], ["y"], [empty])
    (gather,) = og.audit(made).gathers
    assert gather.data.sizes == (0, size)
    assert gather.range.state == "not-proved"


def test_an_operator_without_an_output_is_refused() -> None:
    broken = node("ScatterND", ["x", "i", "x"], "", "scatter")
    del broken.output[:]
    with pytest.raises(og.OnnxGatherError) as caught:
        og.audit(model([broken], [X, info("i", INT64, [1, 1])]))
    assert str(caught.value) == "the model: node 'scatter' must have an output"


def test_an_operator_of_another_domain_without_an_output_has_no_effect() -> None:
    broken = node("RotaryEmbedding", ["x"] * 4, "", domain="com.microsoft")
    del broken.output[:]
    assert og.audit(model([broken], [X])).gathers == []
