"""The intervals of values hold what ONNX Runtime computes, and prove what they
should."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import network_draft
import numpy as np
import onnx
import pytest
import random_networks
from onnx import helper, numpy_helper
from open_numbers import OpenNumbers
from rings import by_ring, one_quick_in

from onnxgather import audit
from onnxgather.auditing.algebra.bounds import (
    Bounds,
    Reason,
    bounds_of_array,
    broadcast,
    interval,
)
from onnxgather.auditing.operators.calls import Call
from onnxgather.auditing.operators.output_bounds import TRANSFERS
from onnxgather.auditing.proof import ranges
from onnxgather.auditing.proof.contract import Condition
from onnxgather.auditing.proof.index_range import IndexRange, Reached, proof_of
from onnxgather.auditing.proof.ranges import ranges_of
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.gather import ATTRIBUTES
from onnxgather.core.model.network import read_network


def broken(value: Bounds, array: Array, open_numbers: OpenNumbers) -> str:
    """What a captured array has that its interval does not allow; "" where it fits."""
    if value.data_type != onnx.TensorProto.DataType.Name(
        network_draft.data_type(array)
    ):
        return f"data type {value.data_type}"
    if value.sizes is not None and (
        wrong := open_numbers.meet(value.sizes, array.shape)
    ):
        return wrong
    if array.size:
        pairs = zip(
            value.bounds.ravel().tolist(),
            value.closed.bounds.ravel().tolist(),
            strict=True,
        )
        told = [
            end if (n := open_numbers.of(size)) is None else n for size, end in pairs
        ]
        bounds = np.array(told, object).reshape(value.bounds.shape)
        bounds = np.broadcast_to(bounds, (*array.shape, 2)).reshape(-1, 2).tolist()
        for number, (low, high) in zip(array.ravel().tolist(), bounds, strict=True):
            if number != number and not value.nan:
                return "NaN"
            if number == number and not low <= number <= high:
                return f"{number} in {low}..{high}"
    return ""


def violations(seeds: Iterable[int], operator: str = "") -> Iterator[str]:
    """Yield "" or what is wrong for each interval of random networks, in each of their
    runs."""
    for seed in seeds:
        sample = random_networks.sample(seed, operator)
        network = read_network(sample.model)
        inputs = [sample.runs[0][name] for name in network.main.inputs]
        found = ranges_of(
            network, allow_empty=any(0 in array.shape for array in inputs)
        )
        makers = dict.fromkeys(network.main.inputs, "input")
        makers |= {
            name: node.operator
            for node in network.main.operations
            for name in node.outputs
        }
        for run in sample.runs:
            open_numbers = OpenNumbers()
            for name, maker in makers.items():
                wrong = broken(found.value(network.main, name), run[name], open_numbers)
                yield wrong and f"seed {seed}, {maker} {name}: {wrong}"


def test_no_value_of_a_random_network_leaves_its_interval() -> None:
    found = list(violations(range(by_ring(12, 50))))
    assert len(found) > by_ring(480, 2000)
    assert not [wrong for wrong in found if wrong]


@pytest.mark.parametrize(
    "operator",
    one_quick_in(6, sorted(TRANSFERS.keys() & random_networks.TEMPLATES.keys())),
)
def test_a_mistake_in_an_operator_is_caught(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = TRANSFERS[operator]

    def wrong(call: Call) -> Any:
        """Say of each value that it is below its least number."""
        found = right(call)
        values = [found] if isinstance(found, Bounds) else [*(found or ())]
        lows = [value.low.min() - 1 for value in values]
        return [
            interval(value.data_type, value.sizes, low, low, why=(Reason("mistaken"),))
            for value, low in zip(values, lows, strict=True)
        ]

    monkeypatch.setitem(TRANSFERS, operator, wrong)
    assert any(violations(range(20), operator))


def proof(
    nodes: Sequence[onnx.NodeProto],
    *inputs: Any,
    given: Any = (),
    **constants: Any,
) -> IndexRange:
    """The proof of the last gather of a network."""
    arrays = [
        numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()
    ]
    outputs = [onnx.ValueInfoProto(name=nodes[-1].output[0])]
    made = helper.make_graph(nodes, "g", inputs, outputs, arrays)
    opsets = [helper.make_opsetid("", 17)]
    network = read_network(helper.make_model(made, opset_imports=opsets, ir_version=8))
    found = ranges_of(network, given)
    gathers = [node for node in network.main.operations if node.operator in ATTRIBUTES]
    return proof_of(found, network.main, gathers[-1])


def values(name: str, low: int | None, high: int | None, *columns: int) -> Condition:
    """A condition on the values of an input, or of some columns of it."""
    return Condition(
        of="values", input=name, low=low, high=high, columns=columns or None
    )


def told(
    state: Any,
    low: Any,
    high: Any,
    size: Any,
    why: str,
    stop: str,
    reached: Reached | None = None,
    unfit: tuple[str, ...] = (),
) -> IndexRange:
    """What the proof says of a gather, with what stops it if it is not proved."""
    return IndexRange(
        state,
        low,
        high,
        size,
        why,
        input=stop if stop and state == "not-proved" else None,
        reached=reached,
        unfit=unfit,
    )


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def info(name: str, data_type: int, *shape: int | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, data_type, shape)


FLOAT, INT32, INT64 = (
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.INT32,
    onnx.TensorProto.INT64,
)
BOOL = onnx.TensorProto.BOOL
TABLE = info("table", FLOAT, 64, 4)
IDS = info("ids", INT64, 2, 16)
GATHER = node("Gather", "table i", "y")
LIMITS = {"low": np.int64(0), "high": np.int64(63)}


def test_a_constant_is_proved_and_one_beyond_the_axis_is_not() -> None:
    assert proof([GATHER], TABLE, i=[[0, -64], [63, 5]]) == told(
        "proved", (-64,), (63,), (64,), "constant", ""
    )
    assert proof([GATHER], TABLE, i=[64, 1]) == told(
        *("out-of-range", (1,), (64,), (64,), "constant", ""),
        Reached("each run", 0, 64),
    )
    assert proof([GATHER], TABLE, i=np.full(5000, 64)).state == "out-of-range"


def test_a_graph_input_stops_the_proof_unless_its_range_is_given() -> None:
    nodes = [node("Identity", "ids", "i"), GATHER]
    assert proof(nodes, TABLE, IDS) == told(
        "not-proved", (None,), (None,), (64,), "", "ids"
    )
    assert proof(nodes, TABLE, IDS, given=[values("ids", 0, 63)]) == told(
        "proved", (0,), (63,), (64,), "the range given of ids", ""
    )
    assert proof(nodes, TABLE, IDS, given=[values("ids", 0, 64)]) == told(
        "not-proved",
        (0,),
        (64,),
        (64,),
        "the range given of ids",
        "the range given of ids",
    )


def test_clip_proves_an_int64_index_where_every_provider_orders_it_alike() -> None:
    nodes = [node("Clip", "ids low high", "i"), GATHER]
    assert proof(nodes, TABLE, IDS, **LIMITS) == told(
        "proved", (0,), (63,), (64,), "Clip", ""
    )
    # The CPU provider lets 2^31 … 2^32 - 1 pass as negative numbers.
    limits = LIMITS | {"low": np.int64(-64)}
    assert proof(nodes, TABLE, IDS, **limits) == told(
        "not-proved", (-(2**32),), (2**32 - 1,), (64,), "Clip", "Clip"
    )
    nodes = [node("Min", "ids high", "j"), node("Max", "j low", "i"), GATHER]
    assert proof(nodes, TABLE, IDS, **LIMITS).high == (2**32 - 1,)
    small = info("ids", INT32, 2)
    limits = {name: np.int32(number) for name, number in LIMITS.items()}
    assert proof(nodes, TABLE, small, **limits).state == "proved"


def test_a_float_that_may_be_nan_stops_the_proof_behind_its_cast() -> None:
    grid = info("grid", FLOAT, 2)
    limits = {name: np.float32(number) for name, number in LIMITS.items()}
    nodes = [
        node("Clip", "grid low high", "c"),
        node("Cast", "c", "i", to=INT64),
        GATHER,
    ]
    assert proof(nodes, TABLE, grid, **limits) == told(
        "not-proved", (None,), (None,), (64,), "constant", "grid"
    )
    nodes[:1] = [node("Cast", "ids", "f", to=FLOAT), node("Clip", "f low high", "c")]
    assert proof(nodes, TABLE, IDS, **limits) == told(
        "proved", (0,), (63,), (64,), "Clip", ""
    )


def test_positions_are_proved_by_the_axis_that_they_stand_on() -> None:
    scores = info("scores", FLOAT, 2, 64)
    nodes = [node("TopK", "scores k", "v i"), GATHER]
    assert proof(nodes, TABLE, scores, k=[5]).why == "TopK over axis of 64"
    nodes = [node("ArgMax", "scores", "i", axis=1), GATHER]
    assert proof(nodes, TABLE, scores).state == "proved"
    nodes = [node("ArgMax", "scores", "i", axis=1), node("Gather", "small i", "y")]
    assert proof(nodes, info("small", FLOAT, 63), scores) == told(
        "not-proved",
        (0,),
        (63,),
        (63,),
        "ArgMax over axis of 64",
        "ArgMax over axis of 64",
        Reached("some run", 0, 63),
    )


def test_each_coordinate_of_a_tuple_has_an_interval_of_its_own() -> None:
    mask = info("mask", onnx.TensorProto.BOOL, 5, 7)
    nodes = [node("NonZero", "mask", "n"), node("Transpose", "n", "i")]
    nodes.append(node("GatherND", "data i", "y"))
    assert proof(nodes, info("data", FLOAT, 5, 7, 3), mask) == told(
        "proved", (0, 0), (4, 6), (5, 7), "NonZero over axes of 5, 7", ""
    )


def test_a_tuple_of_any_length_must_be_within_each_axis() -> None:
    tuples, gather = info("i", INT64, 3, None), [node("GatherND", "data i", "y")]
    of_length = ("the last size of i must be at most the rank of data",)
    given = "the range given of i"
    assert proof(
        gather, info("data", FLOAT, 5, 2), tuples, given=[values("i", 0, 4)]
    ) == told("not-proved", (0, 0), (4, 4), (5, 2), given, given, unfit=of_length)
    assert proof(
        gather, info("data", FLOAT, 5, 2), tuples, given=[values("i", 0, 1)]
    ) == told("not-proved", (0, 0), (1, 1), (5, 2), given, "", unfit=of_length)


def test_an_operator_that_is_not_known_stops_the_proof() -> None:
    nodes = [
        helper.make_node("Det", ["m"], ["d"], "det"),
        node("Cast", "d", "i", to=INT64),
        GATHER,
    ]
    found = proof(nodes, TABLE, m=np.zeros((2, 2), np.float32))
    assert found == told("not-proved", (None,), (None,), (64,), "constant", "Det det")


def test_an_open_size_holds_the_first_index_and_stops_the_proof_of_others() -> None:
    table = info("table", FLOAT, None, 4)
    assert proof([GATHER], table, i=[-1, 0]) == told(
        "proved", (-1,), (0,), (None,), "constant, at most 0 of table.0", ""
    )
    assert proof([GATHER], table, i=[1]) == told(
        "not-proved", (1,), (1,), (None,), "constant", "the size of table"
    )
    table.type.tensor_type.ClearField("shape")
    assert proof([GATHER], table, i=[0]) == told(
        "not-proved", (0,), (0,), (None,), "constant", "the size of table"
    )


def test_without_an_index_a_gather_is_proved() -> None:
    assert proof([GATHER], TABLE, info("i", INT64, 0, 3)) == told(
        "proved", None, None, (64,), "there is no index", ""
    )


def test_sizes_are_computed_through_shapes() -> None:
    nodes = [
        node("Shape", "ids", "s"),
        node("Gather", "s one", "n"),
        node("Range", "zero n step", "r"),
        node("Mul", "r four", "i"),
        GATHER,
    ]
    constants = {
        "one": np.int64(1),
        "zero": np.int64(0),
        "step": np.int64(1),
        "four": np.int64(4),
    }
    assert proof(nodes, TABLE, IDS, **constants) == told(
        "proved", (0,), (60,), (64,), "constant", ""
    )


def test_a_loop_ends_with_the_interval_of_any_number_of_iterations() -> None:
    names = [info("n", INT64), info("c", onnx.TensorProto.BOOL), info("s", INT64)]
    body = [
        node("Identity", "c", "d"),
        node("Add", "s one", "t"),
        node("Min", "t high", "u"),
    ]
    outputs = [info("d", onnx.TensorProto.BOOL), info("u", INT64), info("n", INT64)]
    loop = helper.make_graph(body, "body", names, outputs)
    nodes = [
        helper.make_node("Loop", ["trips", "", "start"], ["end", "all"], body=loop)
    ]
    constants = {
        "trips": np.int64(99),
        "start": np.int64(3),
        "one": np.int64(1),
    } | LIMITS
    end = [*nodes, node("Gather", "table end", "y")]
    assert proof(end, TABLE, **constants).low == (3,)
    every = [*nodes, node("Gather", "table all", "y")]
    found = proof(every, info("table", FLOAT, 99), **constants)
    assert (found.state, found.low, found.high) == ("proved", (0,), (98,))


def nested(depth: int) -> onnx.GraphProto:
    """The body of a loop with `depth` more loops in it, the innermost of which has a
    gather."""
    names = [
        info(f"n{depth}", INT64),
        info(f"c{depth}", BOOL),
        info(f"s{depth}", INT64),
    ]
    if depth:
        body = nested(depth - 1)
        nodes = [
            helper.make_node("Loop", ["n9", "", f"s{depth}"], [f"t{depth}"], body=body)
        ]
    else:
        nodes = [node("Identity", "s0", "t0"), node("Gather", "table s0", "row")]
    nodes.append(node("Identity", f"c{depth}", f"d{depth}"))
    return helper.make_graph(
        nodes, "body", names, [info(f"d{depth}", BOOL), info(f"t{depth}", INT64)]
    )


def test_a_loop_deep_in_others_is_walked_once_and_its_state_is_open() -> None:
    """Each loop takes several walks through its body, so that deep ones took no end."""
    loops = helper.make_node("Loop", ["n9", "", "zero"], ["end"], body=nested(29))
    constants = [
        numpy_helper.from_array(np.array(k), name)
        for k, name in ((9, "n9"), (0, "zero"))
    ]
    outer = helper.make_graph([loops], "main", [TABLE], [info("end", INT64)], constants)
    opsets = [helper.make_opsetid("", 17)]
    network = read_network(helper.make_model(outer, opset_imports=opsets, ir_version=8))
    found = ranges_of(network)
    *_, deepest = network.scopes()
    assert proof_of(found, deepest, deepest.operations[1]).state == "not-proved"
    # of 30 bodies, the outermost 4 times, all others 13 times
    assert found.computed == 776
    shallow = helper.make_node("Loop", ["n9", "", "zero"], ["end"], body=nested(1))
    proved = proof(
        [shallow, node("Gather", "table end", "y")],
        TABLE,
        n9=np.int64(9),
        zero=np.int64(0),
    )
    assert (proved.state, proved.high) == ("proved", (0,))


def test_a_chain_may_be_longer_than_calls_can_be_deep() -> None:
    count = 5_000
    nodes = [node("Identity", f"i{k}", f"i{k + 1}") for k in range(count)]
    nodes.append(node("Gather", f"table i{count}", "y"))
    proved = proof(nodes, TABLE, info("i0", INT64, 3), given=[values("i0", 0, 63)])
    assert (proved.state, proved.high) == ("proved", (63,))


def test_a_value_of_many_dimensions_has_no_sizes() -> None:
    one = helper.make_graph(
        [node("Min", "x high", "i"), GATHER], "g", [TABLE], [info("y", FLOAT)]
    )
    one.input.append(info("x", INT64, *[1] * 100))
    one.initializer.append(numpy_helper.from_array(np.ones([1] * 31, np.int64), "high"))
    opsets = [helper.make_opsetid("", 17)]
    network = read_network(helper.make_model(one, opset_imports=opsets, ir_version=8))
    found = ranges_of(network)
    value = found.value(network.main, "x")
    assert (value.sizes, value.bounds.tolist()) == (None, [-(2**63), 2**63 - 1])
    value = found.value(network.main, "high")
    assert (value.sizes, value.bounds.tolist()) == (None, [1, 1])


def test_many_elements_have_bounds_of_their_own_only_until_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = [
        node("Add", "a a", "i"),
        node("Split", "i", "j k"),
        node("Gather", "table k", "y"),
    ]
    numbers = np.arange(32)
    assert (
        proof(nodes, TABLE, a=numbers).low,
        proof(nodes, TABLE, a=numbers).high,
    ) == (
        (32,),
        (62,),
    )
    monkeypatch.setattr(ranges, "KEPT", 127)
    assert (
        proof(nodes, TABLE, a=numbers).low,
        proof(nodes, TABLE, a=numbers).high,
    ) == (
        (0,),
        (62,),
    )


@pytest.mark.parametrize("columns", [(0, 15), ()])
@pytest.mark.parametrize("size", [16, 2**40])
def test_a_condition_on_columns_takes_no_memory_of_their_number(
    size: int, columns: tuple[int, ...]
) -> None:
    x = info("x", INT64, 1, size)
    ends = {"starts": [15], "ends": [16], "axes": [1]}
    nodes = [node("Slice", "x starts ends axes", "i"), GATHER]
    state = "not-proved" if size > 16 and columns else "proved"
    assert (
        proof(nodes, TABLE, x, given=[values("x", 0, 63, *columns)], **ends).state
        == state
    )


def test_constants_that_are_too_large_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert proof([GATHER], TABLE, i=[0, 1, 2, 3]).state == "proved"
    monkeypatch.setattr(ranges, "MOST_READ", 4)
    assert proof([GATHER], TABLE, i=[0, 1, 2, 3]).state == "proved"
    monkeypatch.setattr(ranges, "MOST_READ", 3)
    assert proof([GATHER], TABLE, i=[0, 1, 2, 3]).state == "not-proved"


def test_sizes_that_grow_with_each_operation_become_open() -> None:
    """The quotient is 0 or 1, so that no limit of a data type ends the products of
    it."""
    nodes = [node("Shape", "x", "s"), node("Div", "s most", "q0")]
    nodes += [node("Mul", f"q{k} q{k}", f"q{k + 1}") for k in range(60)]
    nodes += [node("Gather", "table q60", "y")]
    x = helper.make_tensor_value_info("x", FLOAT, ["n"])
    found = proof(nodes, TABLE, x, most=[2**28])
    assert (found.state, found.low, found.high) == ("proved", (0,), (1,))
    dims = [f"n{k}" for k in range(40)]
    x = helper.make_tensor_value_info("x", FLOAT, dims[:30])
    nodes = [
        node("Pad", "x pads", "p"),
        node("Reshape", "p all", "f"),
        node("Shape", "f", "i"),
    ]
    found = proof([*nodes, GATHER], TABLE, x, pads=[1] * 60, all=[-1])
    assert (found.state, found.low, found.high) == ("not-proved", (None,), (None,))


@pytest.mark.parametrize(("sizes", "size"), [([], 4), ([1], 1)])
def test_the_number_of_an_iteration_has_the_rank_that_the_body_declares(
    sizes: list[int], size: int
) -> None:
    names = [info("n", INT64, *sizes), info("c", onnx.TensorProto.BOOL, *sizes)]
    nodes = [node("Gather", "table n", "row"), node("Gather", "row last", "r")]
    nodes.append(node("Identity", "c", "d"))
    outputs = [info("d", onnx.TensorProto.BOOL), info("r", FLOAT)]
    loop = helper.make_node(
        "Loop",
        ["high", ""],
        ["all"],
        body=helper.make_graph(nodes, "body", names, outputs),
    )
    initializers = [
        numpy_helper.from_array(np.array(3), name) for name in ("high", "last")
    ]
    outer = helper.make_graph(
        [loop], "main", [TABLE], [info("all", FLOAT)], initializers
    )
    opsets = [helper.make_opsetid("", 17)]
    network = read_network(helper.make_model(outer, opset_imports=opsets, ir_version=8))
    body = network.main.operations[0].bodies["body"]
    assert proof_of(ranges_of(network), body, body.operations[1]).size == (size,)


def test_each_element_of_a_small_table_of_positions_has_its_own_interval() -> None:
    """Buckets of distances, as T5 has them: the logarithm of 0 is no integer, but is
    not taken."""
    nodes = [
        node("Cast", "distance", "f", to=FLOAT),
        node("Log", "f", "l"),
        node("Mul", "l two", "m"),
        node("Cast", "m", "c", to=INT64),
        node("Add", "c eight", "a"),
        node("Min", "a high", "large"),
        node("Less", "distance eight", "is_small"),
        node("Where", "is_small distance large", "i"),
        GATHER,
    ]
    constants = {"distance": np.arange(256).reshape(16, 16), "two": np.float32(8)}
    constants |= {"eight": np.int64(8), "high": np.int64(31)}
    assert proof(nodes, TABLE, **constants).high == (31,)


def test_a_constant_around_a_subgraph_is_known_in_it() -> None:
    shifted = helper.make_graph(
        [node("Add", "six one", "t")], "then", [], [onnx.ValueInfoProto(name="t")]
    )
    other = helper.make_graph(
        [node("Identity", "one", "e")], "else", [], [info("e", INT64)]
    )
    choice = helper.make_node(
        "If", ["b"], ["i"], then_branch=shifted, else_branch=other
    )
    found = proof(
        [choice, GATHER],
        TABLE,
        info("b", onnx.TensorProto.BOOL),
        six=np.int64(6),
        one=np.int64(1),
    )
    assert (found.state, found.low, found.high) == ("proved", (1,), (7,))


EXPORTED: dict[
    str, tuple[list[onnx.NodeProto], list[Any], dict[str, Any], IndexRange]
] = {
    "TopK": (
        [node("TopK", "scores five", "v i"), GATHER],
        [TABLE, info("scores", FLOAT, 2, 64)],
        {"five": [5]},
        told("proved", (0,), (63,), (64,), "TopK over axis of 64", ""),
    ),
    "ArgMax": (
        [node("ArgMax", "scores", "i", axis=-1, keepdims=0), GATHER],
        [TABLE, info("scores", FLOAT, 2, 64)],
        {},
        told("proved", (0,), (63,), (64,), "ArgMax over axis of 64", ""),
    ),
    "CumSum": (  # positions of the tokens that are no padding
        [
            node("Equal", "ids pad", "e"),
            node("Not", "e", "n"),
            node("Cast", "n", "m", to=INT32),
            node("CumSum", "m one", "c"),
            node("Mul", "c m", "p"),
            node("Cast", "p", "q", to=INT64),
            node("Add", "q pad", "i"),
            GATHER,
        ],
        [TABLE, IDS],
        {"pad": np.int64(1), "one": np.int64(1)},
        told("proved", (1,), (17,), (64,), "Equal, Not, CumSum, Mul, Add", ""),
    ),
    "ReduceSum": (  # the last token of a mask
        [
            node("Cast", "mask", "m", to=INT64),
            node("ReduceSum", "m axis", "s", keepdims=0),
            node("Sub", "s one", "i"),
            GATHER,
        ],
        [TABLE, info("mask", BOOL, 2, 16)],
        {"axis": [1], "one": np.int64(1)},
        told("proved", (-1,), (15,), (64,), "ReduceSum, Sub", ""),
    ),
    "NonMaxSuppression": (  # the boxes that are chosen
        [
            node("NonMaxSuppression", "boxes scores most", "n"),
            node("Slice", "n two end one", "s"),
            node("Squeeze", "s one", "i"),
            node("Gather", "boxes i", "y", axis=1),
        ],
        [info("boxes", FLOAT, 1, 20, 4), info("scores", FLOAT, 1, 3, 20)],
        {"most": [5], "two": [2], "end": [3], "one": [1]},
        told("proved", (0,), (19,), (20,), "NonMaxSuppression of 20 boxes", ""),
    ),
    "NonZero": (
        [
            node("NonZero", "mask", "n"),
            node("Transpose", "n", "i"),
            node("GatherND", "mask i", "y"),
        ],
        [info("mask", BOOL, 5, 7)],
        {},
        told("proved", (0, 0), (4, 6), (5, 7), "NonZero over axes of 5, 7", ""),
    ),
    "Clip": (  # positions relative to one another
        [
            node("Shape", "ids", "shape"),
            node("Gather", "shape one", "n"),
            node("Range", "zero n step", "r"),
            node("Unsqueeze", "r one", "column"),
            node("Sub", "column r", "d"),
            node("Clip", "d low high", "c"),
            node("Add", "c eight", "i"),
            GATHER,
        ],
        [TABLE, info("ids", INT64, 2, 2000)],
        {
            "one": [1],
            "zero": np.int64(0),
            "step": np.int64(1),
            "low": np.int64(-8),
            "high": np.int64(8),
            "eight": np.int64(8),
        },
        told("proved", (0,), (16,), (64,), "Sub, Clip, Add", ""),
    ),
    "Mod": (
        [node("Mod", "ids most", "i"), GATHER],
        [TABLE, IDS],
        {"most": np.int64(64)},
        told("proved", (0,), (63,), (64,), "Mod", ""),
    ),
}
"""What exporters write before a gather, by the operator that earns the proof."""


@pytest.mark.parametrize("operator", EXPORTED)
def test_what_exporters_write_is_proved_by_the_operator_that_bounds_it(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, inputs, constants, expected = EXPORTED[operator]
    assert proof(nodes, *inputs, **constants) == expected
    monkeypatch.delitem(TRANSFERS, operator)
    assert proof(nodes, *inputs, **constants).state == "not-proved"


def test_what_is_broadcast_has_no_more_bounds_than_are_kept() -> None:
    column = bounds_of_array("INT64", np.arange(4096).reshape(-1, 1))
    found = broadcast((column, None, bounds_of_array("INT64", np.arange(4096))))
    assert [value and value.bounds.tolist() for value in found] == [
        [[[0, 4095]]],
        None,
        [[0, 4095]],
    ]


def test_coordinates_clamped_as_floats_stop_at_the_input_that_may_be_nan() -> None:
    limits = {
        "low": np.float32(0),
        "high": np.float32(7),
        "eight": np.int64(8),
        "last": [-1],
    }
    nodes = [
        node("Floor", "grid", "f"),
        node("Clip", "f low high", "c"),
        node("Cast", "c", "n", to=INT64),
        node("Split", "n", "column row", axis=-1),
        node("Mul", "row eight", "rows"),
        node("Add", "rows column", "flat"),
        node("Squeeze", "flat last", "i"),
        GATHER,
    ]
    grid = info("grid", FLOAT, 4, 2)
    assert proof(nodes, TABLE, grid, **limits) == told(
        "not-proved", (None,), (None,), (64,), "constant", "grid"
    )
    whole = [node("Cast", "cells", "grid", to=FLOAT), *nodes]
    assert proof(whole, TABLE, info("cells", INT32, 4, 2), **limits) == told(
        "proved", (0,), (63,), (64,), "Floor, Clip, Mul, Add", ""
    )


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_range_with_a_wrong_number_of_inputs_is_no_traceback(
    count: int, between: bool
) -> None:
    """ONNX forbids the node, but a file may have it in front of a Gather."""
    names = ["start", "limit", "delta", "more"][:count]
    nodes = [helper.make_node("Range", names, ["r"])]
    if between:
        nodes.append(helper.make_node("Reshape", ["r", "shape"], ["q"]))
    indices = "q" if between else "r"
    nodes.append(helper.make_node("Gather", ["x", indices], ["y"]))
    float_type = onnx.TensorProto.FLOAT
    int64 = onnx.TensorProto.INT64
    constants = [helper.make_tensor("shape", int64, [1], [-1])]
    for name, value in zip(names, (0, 3, 1, 1), strict=False):
        constants.append(helper.make_tensor(name, int64, [], [value]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", float_type, [4])],
        [helper.make_tensor_value_info("y", float_type, None)],
        constants,
        value_info=[helper.make_tensor_value_info("r", int64, ["n"])],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    (gather,) = audit(model).gathers
    assert gather.range.state == ("proved" if count == 4 else "not-proved")
