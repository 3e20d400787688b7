"""The bounds of each operator hold what ONNX Runtime computes: at every optimization
level the bounds are those of the graph that runs."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import pytest
from network_draft import session
from onnx import TensorProto, helper
from onnx_graphs import constant, written
from rings import one_quick_in
from runtime_faults import IS_OLD

from onnxgather.auditing.algebra.bounds import Bounds, bounds_of_array, interval
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.auditing.operators.output_bounds import TRANSFERS
from onnxgather.auditing.proof.ranges import Ranges, ranges_of
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution.elsewhere.child import NoAnswerError
from onnxgather.core.execution.elsewhere.worker import Worker
from onnxgather.core.execution.runtime import CPU, RefusedError
from onnxgather.core.model.network import read_network

HALF, FLOAT, DOUBLE = np.float16, np.float32, np.float64
NAN = FLOAT(np.nan)


def model_of(
    nodes: str, x: Array, opset: int = 17, output: str = "y", **constants: Any
) -> onnx.ModelProto:
    """A model with an input x and an output y."""
    stored = [constant(name, array) for name, array in constants.items()]
    made = written(f"() => ({output}) {{ {nodes} }}", *stored)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    made.graph.input.append(helper.make_tensor_value_info("x", kind, x.shape))
    made.opset_import[0].version = opset
    return made


def bounds_of(model: onnx.ModelProto, x: Array) -> Bounds:
    """What is known of the output where x is known."""
    data_type = TensorProto.DataType.Name(
        model.graph.input[0].type.tensor_type.elem_type
    )
    network = read_network(model)
    return Ranges({}).evaluate(network.main, [bounds_of_array(data_type, x)])[0]


def outside(value: Bounds, array: Array) -> list[Any]:
    """The elements of an array that are not between the bounds."""
    ends = np.broadcast_to(value.bounds, (*array.shape, 2)).reshape(-1, 2).tolist()
    pairs = zip(array.ravel().tolist(), ends, strict=True)
    return [
        n for n, (low, high) in pairs if not (value.nan if n != n else low <= n <= high)
    ]


def graphs_and_runs(
    model: onnx.ModelProto, x: Array
) -> list[tuple[onnx.ModelProto, Array]]:
    """The graph that ONNX Runtime runs, and what it computes, on each level."""
    found = list[tuple[onnx.ModelProto, Array]]()
    with TemporaryDirectory() as folder:
        path = Path(folder, "graph.onnx")
        for level in range(4):
            whole = session(model, level, kept=str(path))
            array = np.asarray(whole.run(None, {"x": x})[0])
            graph = onnx.ModelProto.FromString(path.read_bytes())
            found.append((graph, array))
    return found


def runs(model: onnx.ModelProto, x: Array) -> list[Array]:
    """What ONNX Runtime computes, on each level."""
    return [found for _, found in graphs_and_runs(model, x)]


Case = tuple[str, Array, dict[str, Any], list[Any]]
CASES: dict[str, Case] = {
    "NaN is true": (
        "c = Clip (x, zero, zero)  b = Cast <to = 9> (c)  y = Cast <to = 7> (b)",
        np.array([np.nan, 0.0], FLOAT),
        {"zero": FLOAT(0)},
        [[1, 0]],
    ),
    "an INT64 is rounded to FLOAT once": (
        "f = Cast <to = 1> (x)  c = Cast <to = 7> (f)  y = Sub (c, base)",
        np.array([2**60 + 2**36 + 1]),
        {"base": np.int64(2**60)},
        [[2**37]],
    ),
    "a DOUBLE is rounded to FLOAT16 by way of FLOAT": (
        "y = Cast <to = 10> (x)",
        np.array([2049.0000001]),
        {},
        [[2048], [2050]],
    ),
    "1 / x * x of floats": (
        "d = Div (one, x)  m = Mul (d, x)  y = Cast <to = 7> (m)",
        np.array([41, 49, 1e-40], FLOAT),
        {"one": FLOAT(1)},
        [],
    ),
    "a DOUBLE that is 1 as FLOAT is multiplied": (
        "m = Mul (x, near)  y = Floor (m)",
        np.array([255.0]),
        {"near": DOUBLE(1 - 1e-9)},
        [],
    ),
    "a DOUBLE that is 1 as FLOAT divides": (
        "d = Div (x, near)  y = Floor (d)",
        np.array([255.0]),
        {"near": DOUBLE(1 + 1e-9)},
        [],
    ),
    "a DOUBLE that is 0 as FLOAT is added": (
        "a = Add (x, near)  y = Ceil (a)",
        np.array([0.0]),
        {"near": DOUBLE(2.0**-150)},
        [],
    ),
    "a DOUBLE that is 0 as FLOAT is subtracted": (
        "s = Sub (x, near)  y = Floor (s)",
        np.array([0.0]),
        {"near": DOUBLE(1e-50)},
        [],
    ),
    "1 / x * 7 of integers": (
        "d = Div (one, x)  y = Mul (seven, d)",
        np.array([3, -2]),
        {"one": np.int64(1), "seven": np.int64(7)},
        [],
    ),
    "FLOAT16 is kept as FLOAT": (
        "a = Add (x, x)  s = Sub (a, x)  y = Cast <to = 1> (s)",
        np.array([60000], HALF),
        {},
        [[60000]],
    ),
    "a FLOAT16 too small for it is kept as FLOAT": (
        "m = Mul (x, x)  n = Mul (m, large)  y = Mul (n, large)",
        np.array([1e-4], HALF),
        {"large": HALF(60000)},
        [[36.0]],
    ),
    "a square root of FLOAT16 is kept as FLOAT": (
        "s = Sqrt (x)  y = Cast <to = 1> (s)",
        np.array([2, 3], HALF),
        {},
        [[np.sqrt(FLOAT(2)), np.sqrt(FLOAT(3))]],
    ),
    "the sign of NaN": (  # of FLOAT16 it is 0
        "c = Clip (x, three, three)  y = Sign (c)",
        np.array([3, np.nan], HALF),
        {"three": HALF(3)},
        [[1, 0]],
    ),
    "infinity minus infinity": (
        "d = Div (one, x)  y = Sub (d, d)",
        np.array([1e-40, 1], FLOAT),
        {"one": FLOAT(1)},
        [[NAN, 0]],
    ),
    "a fraction is true": (  # ONNX Runtime 1.24 leaves out the first Cast
        "i = Cast <to = 7> (x)  b = Cast <to = 9> (i)  y = Cast <to = 7> (b)",
        np.array([0.5, -0.5], FLOAT),
        {},
        [[0, 0], [1, 1]],
    ),
    # an option of the session, which no proof covers, leaves the Casts out
    "a BOOL between two Casts": (
        "b = Cast <to = 9> (x)  y = Cast <to = 7> (b)",
        np.array([5, 0]),
        {},
        [[1, 0]],
    ),
    "of two Casts that wrap, the first is left out": (
        "i = Cast <to = 7> (x)  y = Cast <to = 6> (i)",
        np.array([3e9, 2.0**32 + 512], FLOAT),
        {},
        [[-(2**31)] * 2],
    ),
    "of three Casts that wrap, one is left out": (
        "i = Cast <to = 2> (x)  j = Add (i, zero)  y = Cast <to = 7> (j)",
        np.array([300], FLOAT),
        {"zero": np.uint8(0)},
        [[44], [300]],
    ),
    "a Range of INT32 that is longer than INT32": (
        "start = Squeeze (x)  y = Range (start, limit, delta)",
        np.array([2**31 - 1], np.int32),
        {"limit": np.int32(-(2**31)), "delta": np.int32(1)},
        [[2**31 - 1]],
    ),
    "fmod of INT64 as DOUBLE": (  # until ONNX Runtime 1.31
        "y = Mod <fmod = 1> (x, divisor)",
        np.array([2**60 + 1]),
        {"divisor": np.int64(2**60 + 3)},
        [[0], [2**60 + 1]],
    ),
    "what a Scan keeps, along the second axis": (
        """
        y = Scan (x) <num_scan_inputs = 1, scan_output_axes = [1],
            body = g (int64[2] row) => (int64[2] same) { same = Identity (row) } >
        """,
        np.array([[0, 9], [1, 8]]),
        {},
        [[[0, 1], [9, 8]]],
    ),
}
"""Nodes, the input, constants, and what versions of ONNX Runtime compute of it, unless
they run another graph at some level."""


@pytest.mark.parametrize("name", CASES)
def test_the_bounds_hold_what_onnx_runtime_computes(name: str) -> None:
    nodes, x, constants, seen = CASES[name]
    model = model_of(nodes, x, **constants)
    value = bounds_of(model, x)
    for found in [*map(np.asarray, seen)]:
        assert not outside(value, found)
    for number, (graph, found) in enumerate(graphs_and_runs(model, x)):
        assert not outside(bounds_of(graph, x), found)
        if number == 0:  # without optimizations the file itself runs
            assert not outside(value, found)


def test_an_axis_that_is_named_twice_is_summed_once() -> None:
    nodes = """
        sizes = Shape (x)
        ones = ConstantOfShape <value = int64[1] {1}> (sizes)
        y = ReduceSum <keepdims = 0> (ones, axes)
    """
    x = np.zeros(5, FLOAT)
    model = model_of(nodes, x, axes=np.array([0, -1]))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    network = read_network(model)
    assert str(ranges_of(network).value(network.main, "y").bounds.tolist()) == "[n, n]"
    assert [found.tolist() for found in runs(model, x)] == [5] * 4


def test_two_sizes_that_are_not_known_may_change_places() -> None:
    rows = np.array([0, 10, 20]).reshape(1, 3, 1, 1)
    x = interval("INT64", (None, 3, None), rows, rows)
    model = model_of("y = Reshape (x, shape)", np.zeros((2, 3, 1), np.int64), shape=[3])
    (operation,) = read_network(model).main.operations
    for sizes, least in (
        ((None, 3, None), [0]),
        ((4, 3, None), [0]),
        ((None, 3, 5), [0]),
    ):
        found = TRANSFERS["Reshape"](
            Call(operation, (x, None), 17, [OpenType("INT64", sizes)])
        )
        assert isinstance(found, Bounds)
        assert np.unique(found.low).tolist() == least
    open_axis = interval("INT64", (None, 3, 2), rows, rows)
    found = TRANSFERS["Reshape"](
        Call(operation, (open_axis, None), 17, [OpenType("INT64", (None, 3, 2))])
    )
    assert isinstance(found, Bounds)
    assert np.unique(found.low).tolist() == [0, 10, 20]


def test_the_largest_of_some_elements_is_one_of_them_if_there_are_any() -> None:
    x = np.array([[3, 9], [5, 4]])
    rows = "m = ReduceMax <axes = [1], keepdims = 0> (x)"
    model = model_of(f"{rows}  y = ReduceMin (m)", x)
    value = bounds_of(model, x)
    assert value.whole.tolist() == [3, 9]
    assert [found.tolist() for found in runs(model, x)] == [[5]] * 4
    nothing = np.zeros((2, 0), np.int64)
    model = model_of(rows, nothing, output="m")
    assert not bounds_of(model, nothing).is_bounded


def test_a_one_hot_has_its_two_values() -> None:
    x = np.array([1, -1, 7])
    model = model_of(
        "y = OneHot (x, depth, values)", x, depth=np.int64(3), values=[4, 6]
    )
    assert bounds_of(model, x).whole.tolist() == [4, 6]
    assert [found.tolist() for found in runs(model, x)] == [
        [[4, 6, 4], [4, 4, 6], [4, 4, 4]]
    ] * 4


@pytest.mark.parametrize("attributes", ["broadcast = 1", "axis = 0, broadcast = 1"])
def test_before_opset_7_a_broadcast_is_of_another_kind(attributes: str) -> None:
    x = np.array([3, 9])
    model = model_of(f"y = Add <{attributes}> (x, one)", x, opset=6, one=np.int64(1))
    assert not bounds_of(model, x).is_bounded


FORMS: list[tuple[str, dict[str, Any], dict[int, Any]]] = [
    (
        "Slice",
        {"starts": [1, 0], "ends": [3, -1], "axes": [1, 2]},
        {1: [4, 10], 7: "", 9: ""},
    ),
    ("Slice", {"starts": [0, 1], "ends": [9, 2**31 - 1]}, {1: [4, 11], 7: "", 9: ""}),
    ("Slice", {"starts": [-2], "ends": [2**63 - 1], "axes": [1]}, {1: [4, 11], 9: ""}),
    ("Squeeze", {"axes": [0]}, {1: [0, 11], 7: "", 11: "", 12: ""}),
    ("Squeeze", {}, {1: [0, 11], 7: "", 12: ""}),
    ("Squeeze", {"axes": [-3]}, {11: "", 12: ""}),
    ("Unsqueeze", {"axes": [0, 2]}, {1: [0, 11], 7: "", 12: ""}),
    ("Unsqueeze", {"axes": [-1]}, {11: "", 12: ""}),
    ("ReduceSum", {"axes": [1], "keepdims": 0}, {1: [12, 21], 7: "", 12: ""}),
    ("ReduceSum", {"axes": [-1]}, {11: "", 12: ""}),
    ("ReduceSum", {}, {1: [66, 66], 7: "", 12: ""}),
    ("ReduceMax", {"axes": [1], "keepdims": 0}, {1: [0, 11], 7: [0, 11], 13: [0, 11]}),
    ("Split", {"axis": 2}, {2: [0, 11], 7: "", 12: ""}),
    ("Split", {"axis": 2, "split": [3, 1]}, {2: [0, 11], 7: "", 12: ""}),
    ("Split", {"axis": -1, "split": [3, 1]}, {11: "", 12: ""}),
    ("TopK", {"k": 2, "axis": 1}, {1: [0, 2], 7: [0, 2], 9: [0, 2]}),
    ("TopK", {"k": 3}, {1: [0, 3], 9: [0, 3]}),
    (
        "Pad",
        {"pads": [0, 0, 0, 0, 1, 0], "value": 50.0},
        {2: [0, 50], 7: [0, 50], 10: [0, 50]},
    ),
    ("Clip", {"min": 2.0, "max": 7.0}, {6: [2, 7], 7: "", 10: ""}),
    ("Clip", {"max": 7.0}, {6: [0, 7], 10: ""}),
    ("ArgMax", {"axis": 1}, {1: [0, 2], 11: [0, 2]}),
    ("ArgMax", {"axis": -1, "keepdims": 0}, {11: [0, 3]}),
]
"""Operators as they were before their inputs: by version, the least and the greatest
element, or "" where each is known. Before version 7 no size is known."""


@pytest.mark.parametrize(
    ("operator", "attributes", "versions"), one_quick_in(12, FORMS)
)
def test_the_attributes_of_older_versions_count(
    operator: str, attributes: dict[str, Any], versions: dict[int, Any]
) -> None:
    x = np.arange(
        12, dtype=FLOAT if operator in ("Clip", "Pad", "TopK") else int
    ).reshape(1, 3, 4)
    outputs = ["y", "z"] if operator in ("Split", "TopK") else ["y"]
    made = helper.make_node(operator, ["x"], outputs, **attributes)
    for version, ends in versions.items():
        model = model_of("", x, version, output=outputs[-1])
        model.graph.node.append(made)
        value = bounds_of(model, x)
        for array in runs(model, x):
            assert outside(value, array) == []
            assert value.sizes == (None if version < 7 else array.shape)
            exact = value.exact
            assert [*value.whole] == ends or (
                exact is not None and (exact == array).all()
            )
        assert (ends == "") == (value.exact is not None)


LONG_PADS = [
    ("reflect", [0, 0, 0, 2]),
    ("reflect", [0, 9, 0, 0]),
    ("wrap", [0, 3, 0, 0]),
]


@pytest.mark.parametrize(("mode", "pads"), LONG_PADS)
def test_long_pads_read_foreign_memory_before_onnx_runtime_1_32(
    mode: str, pads: list[int]
) -> None:
    x = np.full((3, 2), 7)
    nodes = f'y = Pad<mode = "{mode}">(x, pads)'
    model = model_of(nodes, x, 19, pads=np.array(pads))
    session = {"provider": CPU, "threads": 1}
    # The read may end the process, so it is another one.
    with closing(Worker(sys.executable, 15)) as worker:
        content = model.SerializeToString()
        try:
            (output,) = worker.run(content, session, [{"x": x}]).outputs
        except NoAnswerError:
            output = "the process ended"
        except RefusedError:
            output = "refused"
    is_refused = isinstance(output, str) and output != "the process ended"
    has_elements_of_x = np.all(output == x[0, 0])
    if IS_OLD:
        assert not is_refused
        assert not has_elements_of_x
    else:
        assert is_refused is (mode == "reflect")
        assert has_elements_of_x == (mode == "wrap")


SUMMED = [
    (np.float32, (0.0, 1.0), 300),
    (np.float32, (-0.25, 0.3), 300),
    (np.float32, (0.1, 0.1), 5000),
    (np.float64, (-3.0, 2.5), 300),
    (np.float16, (0.0, 1.0), 300),
    (np.float16, (0.0, 1.0), 3000),
    (np.float16, (0.7, 0.7), 9000),
]


@pytest.mark.parametrize("operator", ["CumSum", "ReduceSum"])
@pytest.mark.parametrize(("dtype", "ends", "count"), one_quick_in(4, SUMMED))
def test_sums_of_floats_are_within_their_bounds(
    operator: str, dtype: Any, ends: tuple[float, float], count: int
) -> None:
    """Beyond 2^11 a sum of FLOAT16 is rounded; the CPU provider sums it as FLOAT."""
    low, high = (float(dtype(end)) for end in ends)
    draws = np.random.default_rng(0).uniform(low, high, (2, count))
    draws[1] = high
    x = draws.clip(low, high).astype(dtype)
    is_scan = operator == "CumSum"
    options = "" if is_scan else "<keepdims = 0>"
    axis = np.array(1 if is_scan else [1])
    model = model_of(f"y = {operator} {options} (x, axis)", x, axis=axis)
    data_type = TensorProto.DataType.Name(
        model.graph.input[0].type.tensor_type.elem_type
    )
    given = interval(data_type, x.shape, low, high)
    network = read_network(model)
    value = Ranges({}).evaluate(network.main, [given])[0]
    for found in runs(model, x):
        assert not outside(value, found)
    exact = x.astype(np.float64).sum(1).max()
    reach = value.whole.astype(np.float64).max()
    assert exact * 0.99 <= reach
    if float(np.finfo(dtype).max) > 1e5:
        assert reach <= 2 * max(abs(low), abs(high), 1) * count


def test_sums_that_may_be_infinite_have_no_bounds() -> None:
    for low, high, nan in ((0, 1e38, False), (0, np.inf, False), (0, 1, True)):
        x = np.zeros((2, 9), np.float32)
        model = model_of("y = CumSum (x, axis)", x, axis=np.array(1))
        given = interval("FLOAT", x.shape, low, high, nan)
        value = Ranges({}).evaluate(read_network(model).main, [given])[0]
        assert value.whole.tolist() == [-np.inf, np.inf]
