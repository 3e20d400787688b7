"""What is known of the tensors of sequences, and of the slices of Scan, holds in ONNX
Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from network_draft import results, session
from onnx import TensorProto, helper, numpy_helper

from onnxgather.descriptors.arrays import Array
from onnxgather.networks import ranges
from onnxgather.networks.intervals import Bounds
from onnxgather.networks.network import read_network
from onnxgather.networks.ranges import IndexRange, proof_of, ranges_of

LEVELS = range(4)
"""Of the optimizations of ONNX Runtime."""
BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64
Known = tuple[str, Any, int, int]
"""The data type, the sizes as text, the least and the greatest element."""


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    # "_" is an input that is left out.
    names = [name.strip("_") for name in inputs.split()]
    return helper.make_node(operator, names, outputs.split(), **attributes)


def info(name: str, *shape: Any, data_type: int = INT64) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, data_type, shape)


def listed(name: str, *shape: Any) -> onnx.ValueInfoProto:
    """A sequence of tensors; of any rank without sizes."""
    return helper.make_tensor_sequence_value_info(name, INT64, shape or None)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    outputs: str,
    *inputs: Any,
    declared: Sequence[onnx.ValueInfoProto] = (),
    opset: int = 17,
    **constants: Any,
) -> onnx.ModelProto:
    arrays = [
        numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()
    ]
    told = [onnx.ValueInfoProto(name=name) for name in outputs.split()]
    graph = helper.make_graph(nodes, "g", inputs, told, arrays, value_info=declared)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )


def run(model: onnx.ModelProto, level: int, feeds: dict[str, Any]) -> list[Array]:
    return [*results(session(model, level), feeds).values()]


def known(model: onnx.ModelProto, **feeds: Any) -> list[Bounds]:
    """What is known of the outputs; each level of ONNX Runtime computes what it
    allows."""
    network = read_network(model)
    found = ranges_of(network)
    values = [found.value(network.main, name) for name in network.main.outputs]
    for level in LEVELS:
        for value, array in zip(values, run(model, level, feeds), strict=True):
            if value.sizes is not None:
                assert len(value.sizes) == array.ndim
                pairs = zip(value.sizes, array.shape, strict=True)
                assert all(n == real for n, real in pairs if isinstance(n, int))
            assert (value.closed.low <= array[..., None]).all()
            assert (array[..., None] <= value.closed.high).all()
    return values


def told(value: Bounds) -> Known:
    low, high = value.closed.whole
    sizes = None if value.sizes is None else ", ".join(map(str, value.sizes))
    return value.data_type, sizes, low, high


READ = [node("SequenceAt", "s last", "a"), node("SequenceLength", "s", "n")]
LAST: dict[str, Any] = {"last": np.int64(-1)}
NUMBERS = np.arange(12).reshape(6, 2)


def test_an_element_is_one_of_those_that_a_sequence_is_made_of() -> None:
    nodes = [node("SequenceConstruct", "one two", "s"), *READ]
    made = known(
        model_of(nodes, "a n", one=[[1, 9], [3, 4]], two=[[2, 8], [0, 4]], **LAST)
    )
    assert made[0].sizes == (2, 2)
    assert made[0].bounds.tolist() == [[[1, 2], [8, 9]], [[0, 3], [4, 4]]]
    assert told(made[1]) == ("INT64", "", 2, 2)
    made = known(model_of(nodes, "a n", one=[[1, 9]], two=[[2, 8], [0, 4]], **LAST))
    assert told(made[0]) == ("INT64", "?, 2", 0, 9)
    made = known(model_of(nodes, "a n", one=[1, 9], two=[[2, 8], [0, 4]], **LAST))
    assert told(made[0]) == ("INT64", None, 0, 9)


def test_elements_of_one_open_size_have_this_size() -> None:
    nodes = [node("SequenceConstruct", "x y", "s"), *READ, node("Shape", "a", "z")]
    x, y = np.arange(3), np.arange(2)
    model = model_of(nodes, "a z", info("x", "N"), info("y", "N"), **LAST)
    found = known(model, x=x, y=x)
    assert str(found[0].sizes) == "(N,)"
    assert str(found[1].bounds.tolist()) == "[[N, N]]"
    model = model_of(nodes, "a z", info("x", "N"), info("y", "M"), **LAST)
    found = known(model, x=x, y=y)
    assert str(found[0].sizes) == "(?,)"
    assert told(found[1])[2] == 0


def test_an_element_that_is_inserted_is_one_of_the_sequence() -> None:
    nodes = [
        node("SequenceEmpty", "", "e", dtype=INT64),
        node("SequenceInsert", "e one", "f"),
        node("SequenceInsert", "f two zero", "s"),
    ]
    constants: dict[str, Any] = {
        "one": [1, 9],
        "two": [3, 4],
        "zero": np.int64(0),
    } | LAST
    made = known(model_of([*nodes, *READ], "a n", **constants))
    assert told(made[0]) == ("INT64", "2", 1, 9)
    assert told(made[1]) == ("INT64", "", 2, 2)
    made = known(
        model_of([*nodes[:2], node("Identity", "f", "s"), *READ], "a n", **constants)
    )
    assert (made[0].exact is not None, told(made[1])[2:]) == (True, (1, 1))
    nodes += [node("SequenceErase", "s zero", "t"), node("SequenceAt", "t zero", "b")]
    made = known(
        model_of([*nodes, node("SequenceLength", "t", "m")], "b m", **constants)
    )
    assert told(made[0]) == ("INT64", "2", 1, 9)
    assert told(made[1])[2] == 0
    assert told(made[1])[3] > 2


@pytest.mark.parametrize(
    ("split", "keepdims", "sizes", "length"),
    [
        (None, 1, "1, 2", 6),
        (None, 0, "2", 6),
        (np.int64(2), 1, "2, 2", 3),
        (np.int64(4), 1, "?, 2", None),
        (np.int64(7), 1, "?, 2", None),
        (np.int64(1), 0, "2", 6),
        (np.array([2, 4]), 1, "?, 2", 2),
        (np.array([3, 3]), 0, "3, 2", 2),
        (np.array([6]), 0, "6, 2", 1),
    ],
)
def test_the_parts_of_a_tensor_have_the_sizes_that_they_are_split_into(
    split: Any, keepdims: int, sizes: str, length: int | None
) -> None:
    given: dict[str, Any] = {} if split is None else {"split": split}
    inputs = " ".join(["x", *given])
    for axis in (0, -2):
        nodes = [
            node("SplitToSequence", inputs, "s", axis=axis, keepdims=keepdims),
            *READ,
        ]
        part, count = known(model_of(nodes, "a n", x=NUMBERS, **given, **LAST))
        assert told(part) == ("INT64", sizes, 0, 11)
        if part.sizes and len(part.sizes) == part.bounds.ndim - 1:
            assert part.bounds.reshape(-1, 2).tolist() == [[0, 10], [1, 11]]
        assert told(count)[2:] == ((length, length) if length else (0, 2**48))


def test_what_is_not_known_of_a_split_is_open() -> None:
    nodes = [node("SplitToSequence", "x split", "s"), *READ]
    for shape, array, sizes in (
        ([2], np.array([3, 3]), "?, 2"),
        ([], np.array(4), "?, 2"),
    ):
        model = model_of(nodes, "a n", info("split", *shape), x=NUMBERS, **LAST)
        assert told(known(model, split=array)[0]) == ("INT64", sizes, 0, 11)
    anything = info("split")
    anything.type.tensor_type.ClearField("shape")
    model = model_of(nodes, "a n", anything, x=NUMBERS, **LAST)
    part, count = known(model, split=np.array([3, 3]))
    assert told(part) == ("", None, -np.inf, np.inf)
    assert told(count)[2] == 0


def test_the_parts_of_an_open_size_that_a_number_divides() -> None:
    nodes = [
        node("Concat", "x x", "y", axis=0),
        node("SplitToSequence", "y two", "s"),
        *READ,
        node("Shape", "a", "z"),
    ]
    model = model_of(nodes, "a n z", info("x", "N"), two=np.int64(2), **LAST)
    part, count, shape = known(model, x=np.arange(3))
    assert (part.sizes, str(count.bounds.tolist()), shape.bounds.tolist()) == (
        (2,),
        "[N, N]",
        [[2, 2]],
    )


@pytest.mark.parametrize(
    ("axis", "new_axis", "sizes", "bounds"),
    [
        (0, 0, "4, 3", [[0, 9], [1, 5], [2, 7]]),
        (-1, 0, "2, 6", [[0, 9], [3, 5]]),
        (0, 1, "2, 2, 3", [[0, 9], [1, 4], [2, 7], [3, 3], [4, 5], [5, 5]]),
        (-1, 1, "2, 3, 2", [[0, 9], [1, 4], [2, 7], [3, 3], [4, 5], [5, 5]]),
    ],
)
def test_the_tensors_of_a_sequence_are_put_together(
    axis: int, new_axis: int, sizes: str, bounds: list[list[int]]
) -> None:
    nodes = [
        node("SequenceConstruct", "one two", "s"),
        node("ConcatFromSequence", "s", "a", axis=axis, new_axis=new_axis),
        node("Shape", "a", "z"),
    ]
    one, two = [[0, 1, 2], [3, 4, 5]], [[9, 4, 7], [3, 5, 5]]
    found, shape = known(model_of(nodes, "a z", one=one, two=two))
    assert told(found) == ("INT64", sizes, 0, 9)
    assert found.bounds.reshape(-1, 2).tolist() == bounds
    assert shape.bounds.tolist() == [[size, size] for size in found.sizes or ()]


def test_a_size_that_the_tensors_do_not_share_stays_open_when_they_are_put_together() -> (
    None
):
    nodes = [
        node("SequenceConstruct", "one two", "s"),
        node("ConcatFromSequence", "s", "a", axis=0),
    ]
    found = known(model_of(nodes, "a", one=[[1, 2]], two=[[3, 4], [5, 6]]))
    assert told(found[0]) == ("INT64", "?, 2", 1, 6)
    nodes[:1] = [
        node("SplitToSequence", "one", "p", axis=1),
        node("SequenceInsert", "p two", "s"),
    ]
    nodes[-1] = node("ConcatFromSequence", "s", "a", axis=-1)
    found = known(model_of(nodes, "a", one=[[1, 2]], two=[[3, 4]]))
    assert told(found[0]) == ("INT64", "1, ?", 1, 4)


SHAPE = [*READ[:1], node("Shape", "a", "z")]


@pytest.mark.parametrize(
    ("nodes", "declared"),
    [
        ([node("SequenceConstruct", "x x", "s")], listed("s", 8)),
        ([node("SequenceConstruct", "x x", "s")], listed("s", "N", 2)),
        (
            [node("SequenceConstruct", "x", "r"), node("SequenceInsert", "r x", "s")],
            listed("r", 8),
        ),
        (
            [node("SequenceConstruct", "x x", "r"), node("Identity", "r", "s")],
            listed("s", 8),
        ),
    ],
)
def test_sizes_that_a_model_declares_for_a_sequence_are_not_believed(
    nodes: list[onnx.NodeProto], declared: Any
) -> None:
    x = info("x", "N")
    model = model_of([*nodes, *SHAPE], "a z", x, declared=[declared], **LAST)
    found, shape = known(model, x=np.arange(3))
    assert str(found.sizes) in ("None", "(?,)")
    assert told(shape)[2] == 0
    assert [run(model, level, {"x": np.arange(3)})[1][0] for level in LEVELS[:2]] != [
        8,
        8,
    ]
    sequence = model_of(SHAPE, "a z", listed("s", 8), **LAST)
    network = read_network(sequence)
    assert ranges_of(network).value(network.main, "a").sizes is None


def test_a_sequence_is_one_of_those_of_two_branches() -> None:
    branches = {
        name: helper.make_graph(
            [node("SequenceConstruct", inputs, name)], name, [], [listed(name)]
        )
        for name, inputs in (("then_branch", "one"), ("else_branch", "two two"))
    }
    nodes = [node("If", "b", "s", **branches), *READ]
    b = info("b", data_type=BOOL)
    model = model_of(nodes, "a n", b, one=[[1, 2]], two=[[3, 4]], **LAST)
    found = known(model, b=np.array(False))
    assert [told(value) for value in found] == [
        ("INT64", "1, 2", 1, 4),
        ("INT64", "", 0, 2**48),
    ]
    model = model_of(nodes, "a n", b, one=[[1, 2]], two=[3, 4], **LAST)
    assert told(known(model, b=np.array(True))[0]) == ("INT64", None, 1, 4)


def loop(row: Sequence[onnx.NodeProto], state: onnx.ValueInfoProto) -> onnx.NodeProto:
    """A Loop that inserts a row into a sequence in each iteration."""
    nodes = [
        *row,
        node("SequenceInsert", "state row", "after"),
        node("Identity", "c", "d"),
    ]
    infos = [info("k"), info("c", data_type=BOOL), state]
    outputs = [info("d", data_type=BOOL), listed("after")]
    body = helper.make_graph(nodes, "body", infos, outputs)
    return helper.make_node("Loop", ["trips", "", "start"], ["s"], body=body)


def test_a_sequence_that_grows_in_a_loop_has_the_rows_of_any_iteration() -> None:
    empty = node("SequenceEmpty", "", "start", dtype=INT64)
    start = node("SequenceConstruct", "first", "start")
    row = [node("Mod", "k seven", "m"), node("Add", "m ones", "row")]
    constants: dict[str, Any] = {
        "ones": [1, 1, 1],
        "trips": np.int64(9),
        "seven": np.int64(7),
    } | LAST
    constants |= {"first": [20, 21, 22]}
    whole = node("ConcatFromSequence", "s", "w", axis=0, new_axis=1)
    model = model_of(
        [empty, loop(row, listed("state")), *READ, whole], "a n w", **constants
    )
    element, length, stacked = known(model)
    assert told(element) == ("INT64", "3", 1, 7)
    assert told(length)[2] == 0
    assert str(stacked.sizes) == "(?, 3)"
    model = model_of([start, loop(row, listed("state")), *READ], "a n", **constants)
    assert told(known(model)[0]) == ("INT64", "3", 1, 22)
    constants["first"] = [20, 21]
    model = model_of([start, loop(row, listed("state")), *READ], "a n", **constants)
    assert told(known(model)[0]) == ("INT64", "?", 1, 21)
    model = model_of(
        [empty, loop(row, listed("state", 8)), *READ, SHAPE[1]], "a z", **constants
    )
    assert told(known(model)[0]) == ("INT64", "?", 1, 7)


def test_rows_that_grow_from_iteration_to_iteration_have_no_bound() -> None:
    start = node("SequenceConstruct", "ones", "start")
    row = [node("SequenceAt", "state last", "r"), node("Mul", "r two", "row")]
    constants: dict[str, Any] = {
        "ones": [1, 1, 1],
        "trips": np.int64(50),
        "two": np.int64(2),
    } | LAST
    model = model_of([start, loop(row, listed("state")), *READ], "a n", **constants)
    assert told(known(model)[0]) == ("INT64", "3", -(2**63), 2**63 - 1)
    row[1:] = [node("Add", "r one", "m"), node("Min", "m top", "row")]
    constants |= {"one": np.int64(1), "top": np.int64(40)}
    model = model_of([start, loop(row, listed("state")), *READ], "a n", **constants)
    assert told(known(model)[0]) == ("INT64", "3", 1, 2**30)


def test_a_sequence_that_is_made_of_one_that_is_not_known_is_not_known() -> None:
    inserted = node("SequenceInsert", "given one", "s")
    model = model_of([inserted, *READ], "a n", listed("given"), one=[7, 8], **LAST)
    element, length = known(model, given=[np.arange(3)])
    assert (told(element)[1:], told(length)[2]) == ((None, -np.inf, np.inf), 0)
    states, count = [f"s{k}" for k in range(7)], 6
    inner = [node("SequenceInsert", f"s{k + 1} one", f"t{k}") for k in range(count)]
    inner += [node("SequenceInsert", "given one", "t6"), node("Identity", "c", "d")]
    infos = [info("k"), info("c", data_type=BOOL), *map(listed, states)]
    outputs = [info("d", data_type=BOOL), *(listed(f"t{k}") for k in range(7))]
    body = helper.make_graph(inner, "body", infos, outputs)
    names = ["s", *(f"u{k}" for k in range(count))]
    loop = helper.make_node("Loop", ["trips", "", *["start"] * 7], names, body=body)
    nodes = [node("SequenceConstruct", "one", "start"), loop, *READ]
    nodes[-2] = node("SequenceAt", "s first", "a")
    constants: dict[str, Any] = {
        "one": [7, 8],
        "trips": np.int64(9),
        "first": np.int64(0),
    }
    model = model_of(nodes, "a n", listed("given"), **constants)
    assert told(known(model, given=[np.arange(3)])[0])[1:] == (None, -np.inf, np.inf)


def test_a_size_that_an_iteration_makes_is_not_that_of_each_tensor() -> None:
    inner = [
        node("Less", "places k", "some"),
        node("NonZero", "some", "row"),
        node("SequenceConstruct", "row row", "after"),
        node("Identity", "c", "d"),
    ]
    infos = [info("k"), info("c", data_type=BOOL), listed("state")]
    outputs = [info("d", data_type=BOOL), listed("after")]
    body = helper.make_graph(inner, "body", infos, outputs)
    nodes = [
        node("SequenceEmpty", "", "start", dtype=INT64),
        helper.make_node("Loop", ["trips", "", "start"], ["s"], body=body),
        *SHAPE,
    ]
    constants: dict[str, Any] = {"places": np.arange(6), "trips": np.int64(4)} | LAST
    element, shape = known(model_of(nodes, "a z", **constants))
    assert told(element) == ("INT64", "1, ?", 0, 5)
    assert shape.bounds.tolist() == [[1, 1], [0, 2**63 - 1]]


def test_no_more_bounds_of_the_tensors_of_sequences_are_kept_than_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = read_network(
        model_of([node("SequenceConstruct", "one", "s")], "s", one=np.arange(25))
    )
    element = ranges_of(network).value(network.main, "s").element
    assert element is not None
    assert element.bounds.shape == (25, 2)
    monkeypatch.setattr(ranges, "KEPT", 60)
    element = ranges_of(network).value(network.main, "s").element
    assert element is not None
    assert element.bounds.tolist() == [[0, 24]]


TABLE = info("table", 64, 4)
GATHER = node("Gather", "table a", "y")


def proof(*given: Any, last: bool = True, **more: Any) -> IndexRange:
    network = read_network(model_of(*given, **more, **(LAST if last else {})))
    gathers = [each for each in network.main.operations if each.is_gather]
    return proof_of(ranges_of(network), network.main, gathers[-1])


def test_an_index_that_comes_through_a_sequence_is_proved() -> None:
    nodes = [
        node("NonZero", "mask", "places"),
        node("SplitToSequence", "places", "s", keepdims=0),
        READ[0],
        node("Gather", "mask a", "y", axis=0),
    ]
    mask = info("mask", 5, 5, data_type=BOOL)
    assert proof(nodes, "y", mask) == IndexRange(
        "proved", (0,), (4,), (5,), "NonZero over axes of 5, 5"
    )
    mask = info("mask", 5, 7, data_type=BOOL)
    assert proof(nodes, "y", mask).state == "not-proved"


def test_the_last_position_of_a_sequence_is_proved_in_what_it_is_put_together_to() -> (
    None
):
    nodes = [
        node("SplitToSequence", "x", "s"),
        node("ConcatFromSequence", "s", "whole", axis=0, new_axis=1),
        READ[1],
        node("Sub", "n one", "a"),
        node("Gather", "whole a", "y"),
    ]
    found = proof(nodes, "y", info("x", "N", 2), last=False, one=np.int64(1))
    assert (found.state, found.why) == ("proved", "constant, at most N - 1 of N")
    nodes[3] = node("Identity", "n", "a")
    assert proof(nodes, "y", info("x", "N", 2), last=False).state == "not-proved"


def test_an_index_that_may_come_from_an_input_through_a_sequence_is_not_proved() -> (
    None
):
    nodes = [node("SequenceConstruct", "k x", "s"), READ[0], GATHER]
    x = info("x", 3)
    assert proof(nodes, "y", TABLE, x, k=[1, 2, 3]) == IndexRange(
        "not-proved", (None,), (None,), (64,), "constant", input="x"
    )
    assert proof(nodes[1:], "y", TABLE, listed("s", 3)) == IndexRange(
        "not-proved", (None,), (None,), (64,), "constant", input="s"
    )


def test_nothing_is_known_of_what_a_sequence_map_takes() -> None:
    inner = [node("Gather", "row seven", "y")]
    body = helper.make_graph(inner, "body", [info("row", 8)], [info("y")])
    nodes = [
        node("SequenceConstruct", "x x", "s"),
        node("SequenceMap", "s", "t", body=body),
    ]
    nodes.append(node("SequenceAt", "t last", "a"))
    model = model_of(nodes, "a", info("x", "N"), seven=np.int64(7), **LAST)
    assert told(known(model, x=np.arange(8))[0])[1:] == (None, -np.inf, np.inf)
    with pytest.raises(Exception, match="indices element out of data bounds"):
        run(model, 0, {"x": np.arange(3)})
    network = read_network(model)
    found, inside = ranges_of(network), network.main.operations[1].bodies["body"]
    assert proof_of(found, inside, inside.operations[0]) == IndexRange(
        "not-proved", (7,), (7,), (None,), "constant", input="the size of row"
    )


def scan(inner: Sequence[onnx.NodeProto], **attributes: Any) -> onnx.NodeProto:
    """A Scan whose state is the row before, and which keeps each row plus this
    state."""
    infos = [info("state", None), info("row", None)]
    outputs = [info("next", None), info("kept", None)]
    body = helper.make_graph(inner, "body", infos, outputs)
    return node(
        "Scan", "start x", "end all", body=body, num_scan_inputs=1, **attributes
    )


ROWS = [node("Identity", "row", "next"), node("Add", "row state", "kept")]


@pytest.mark.parametrize(
    ("attributes", "start", "sizes", "high"),
    [
        ({}, [0, 0], "6, 2", 20),
        (
            {"scan_input_directions": [1], "scan_output_directions": [1]},
            [0, 0],
            "6, 2",
            20,
        ),
        ({"scan_input_axes": [1]}, [0] * 6, "2, 6", 22),
        ({"scan_input_axes": [-1], "scan_output_axes": [1]}, [0] * 6, "6, 2", 22),
        ({"scan_output_axes": [-1]}, [0, 0], "2, 6", 20),
    ],
)
def test_the_slices_of_a_scan_lie_along_the_axes_that_it_names(
    attributes: dict[str, Any], start: list[int], sizes: str, high: int
) -> None:
    model = model_of([scan(ROWS, **attributes)], "end all", x=NUMBERS, start=start)
    end, every = known(model)
    assert told(every)[:3] == ("INT64", sizes, 0)
    assert told(every)[3] >= high
    assert told(end) == ("INT64", str(len(start)), 0, 11)


def test_a_scan_over_an_open_size_keeps_as_many_slices() -> None:
    nodes = [node("ReduceMin", "x", "start", axes=[0], keepdims=0), scan(ROWS)]
    end, every = known(model_of(nodes, "end all", info("x", "N", 2)), x=NUMBERS)
    assert [str(end.sizes), str(every.sizes)] == ["(2,)", "(N, 2)"]


def test_nothing_is_known_of_a_scan_with_a_batch() -> None:
    inner = [
        node("Cast", "state", "b", to=BOOL),
        node("Cast", "b", "i", to=INT64),
        node("Gather", "row i", "kept"),
        node("Identity", "state", "next"),
    ]
    body = helper.make_graph(
        inner, "body", [info("state"), info("row", 6)], [info("next"), info("kept")]
    )
    nodes = [node("Scan", "lengths start x", "end all", body=body, num_scan_inputs=1)]
    constants: dict[str, Any] = {
        "lengths": [1, 1],
        "start": [5, 7],
        "x": np.arange(12).reshape(2, 1, 6),
    }
    model = model_of(nodes, "end all", opset=8, **constants)
    assert [run(model, level, {})[1].tolist() for level in LEVELS] == [[[1], [7]]] * 4
    network = read_network(model)
    found = ranges_of(network)
    inside = network.main.operations[0].bodies["body"]
    assert proof_of(found, inside, inside.operations[2]) == IndexRange(
        "not-proved", (0,), (1,), (None,), "Cast", input="state"
    )
    for name in ("end", "all"):
        assert told(found.value(network.main, name))[1:] == (None, -np.inf, np.inf)
