"""Operations that are alike share what was computed of them, and no others do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnxgather.auditing.algebra.bounds import Bounds
from onnxgather.auditing.operators.calls import Call
from onnxgather.auditing.operators.output_bounds import bounds_by_table
from onnxgather.auditing.proof import ranges as ranges_module
from onnxgather.auditing.proof.ranges import Ranges, ranges_of
from onnxgather.core.model.network import Scope, read_network


class Walked(NamedTuple):
    """A graph and the bounds of its values."""

    main: Scope
    ranges: Ranges

    def value(self, name: str) -> Bounds:
        return self.ranges.value(self.main, name)


def bounds_of(
    nodes: list[onnx.NodeProto], constants: dict[str, Any], **inputs: list[Any]
) -> Walked:
    """Return the bounds of a graph of nodes; its inputs are INT64."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info(name, onnx.TensorProto.INT64, sizes)
            for name, sizes in inputs.items()
        ],
        [onnx.ValueInfoProto(name=nodes[-1].output[0])],
        [numpy_helper.from_array(np.array(c), n) for n, c in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    network = read_network(model)
    return Walked(network.main, ranges_of(network))


def node(operator: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(
        operator, inputs.split(), [output], name=f"node {output}", **attributes
    )


def layer(number: int, source: str) -> list[onnx.NodeProto]:
    """Return a layer: the first size of its input, plus the third constant."""
    k = str(number)
    return [
        node("Shape", source, f"shape{k}"),
        node("Gather", f"shape{k} zero{k}", f"size{k}"),
        node("Add", f"size{k} three", f"sum{k}"),
        node("Neg", source, f"x{k}"),
    ]


def test_layers_that_are_alike_are_computed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed: Counter[str] = Counter()

    def counting(call: Call) -> Any:
        computed[call.operator] += 1
        return bounds_by_table(call)

    monkeypatch.setattr(ranges_module, "bounds_by_table", counting)
    zeros = {f"zero{k}": np.int64(0) for k in range(5)}
    nodes = [part for k in range(5) for part in layer(k, f"x{k - 1}" if k else "x")]
    walked = bounds_of(nodes, {**zeros, "three": np.int64(3)}, x=["n", 4])
    assert str(walked.value("sum4").bounds.tolist()) == "[n + 3, n + 3]"
    assert walked.value("sum4") is walked.value("sum0")
    # The input of each layer is another one.
    assert computed == {"Shape": 1, "Gather": 1, "Add": 1, "Neg": 5}


def test_counts_of_the_same_values_are_not_the_same() -> None:
    """The count of a NonZero is a new size, whatever another NonZero counts."""
    nodes = [
        node("NonZero", "x", "a"),
        node("NonZero", "x", "b"),
        node("Shape", "a", "of_a"),
        node("Shape", "b", "of_b"),
    ]
    walked = bounds_of(nodes, {}, x=["n"])
    first = walked.value("a").sizes
    second = walked.value("b").sizes
    assert first is not None
    assert second is not None
    assert first[1] != second[1]
    assert walked.value("of_a") is not walked.value("of_b")


def test_operations_that_differ_share_nothing() -> None:
    nodes = [
        node("Concat", "x y", "first", axis=0),
        node("Concat", "x y", "second", axis=1),
        node("Concat", "y x", "third", axis=1),
        node("Cast", "x", "narrow", to=onnx.TensorProto.INT8),
        node("Cast", "x", "wide", to=onnx.TensorProto.INT32),
        node("Add", "x two", "plus_two"),
        node("Add", "x three", "plus_three"),
    ]
    constants = {"two": np.int64(2), "three": np.int64(3)}
    walked = bounds_of(nodes, constants, x=["n", 2], y=["n", 2])
    names = [str(own.output[0]) for own in nodes]
    assert len({id(walked.value(name)) for name in names}) == len(names)
    assert walked.value("narrow").data_type == "INT8"
    assert walked.value("wide").data_type == "INT32"


def test_each_operation_without_bounds_has_its_own_name() -> None:
    """What stops a proof is the operation that it names."""
    nodes = [
        node("BitwiseNot", "none", "a"),
        node("BitwiseNot", "none", "b"),
        node("Mul", "large large", "c"),
        node("Mul", "large large", "d"),
    ]
    large = np.array([2**40, 2], np.int64)
    walked = bounds_of(nodes, {"none": np.int64(0), "large": large}, x=[1])
    for name in "abcd":
        own = walked.value(name)
        others = set("abcd") - {name}
        assert not any(f"node {other}" in own.stops for other in others)
    assert walked.value("a").stops == ("BitwiseNot node a",)
    assert walked.value("b").stops == ("BitwiseNot node b",)


def test_constants_are_alike_by_their_bytes_and_types(tmp_path: Path) -> None:
    nodes = [
        node("Identity", "a", "one"),
        node("Identity", "b", "two"),
        node("Identity", "c", "three"),
        node("Identity", "d", "four"),
    ]
    constants = {
        "a": np.array([0, 1], np.int64),
        "b": np.array([0, 1], np.int64),
        "c": np.array([[0, 1]], np.int64),
        "d": np.array([0.0, 5e-324]),
    }
    walked = bounds_of(nodes, constants, x=[1])
    a, b, c, d = [walked.value(name) for name in "abcd"]
    assert a is b
    assert (a.sizes, c.sizes) == ((2,), (1, 2))
    assert (a.data_type, d.data_type) == ("INT64", "DOUBLE")
