"""The conditions under which a gather is proved are the weakest ones of their kind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from rings import one_quick_in

from onnxgather.auditing.proof import conditions
from onnxgather.auditing.proof.conditions import (
    LIMITS_TRIED,
    MOST_OPERATIONS,
    Search,
)
from onnxgather.auditing.proof.contract import Condition
from onnxgather.auditing.proof.ranges import ranges_of
from onnxgather.core.model.network import Network, read_network

CONSTANTS: dict[str, Any] = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "five": 5,
    "six": 6,
    "last": 63,
    "far": 300,
    "far size": 2**27,
    "three": 3,
    "minus one": -1,
    "all three": [3],
    "axis 1": [1],
    "at 0": [0],
    "at 1": [1],
    "at 2": [2],
    "low": np.float32(0),
    "high": np.float32(63),
    "low 32": np.int32(0),
    "two 32": np.int32(2),
}


def nodes_of(lines: str) -> list[onnx.NodeProto]:
    """The nodes of lines such as `y = Gather a, b; axis=1`."""
    nodes = list[onnx.NodeProto]()
    for line in lines.splitlines():
        call, _, option = line.partition(";")
        output, _, call = call.partition(" = ")
        operator, _, names = call.partition(" ")
        name, _, number = option.strip().partition("=")
        attributes: dict[str, Any] = {name: int(number)} if name else {}
        nodes.append(
            helper.make_node(operator, names.split(", "), [output], **attributes)
        )
    return nodes


def graph_of(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Any]
) -> onnx.GraphProto:
    """A graph whose output is that of the last node; inputs are such as `("INT64", 3,
    "n")`."""
    infos = [
        helper.make_tensor_value_info(
            name, onnx.TensorProto.DataType.Value(kind), sizes
        )
        for name, (kind, *sizes) in inputs.items()
    ]
    return helper.make_graph(
        nodes, "g", infos, [onnx.ValueInfoProto(name=nodes[-1].output[0])]
    )


def network_of(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Any]) -> Network:
    graph = graph_of(nodes, inputs)
    for name, array in CONSTANTS.items():
        graph.initializer.append(numpy_helper.from_array(np.array(array), name))
    opsets = [helper.make_opsetid("", 17)]
    return read_network(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def shown(condition: Condition) -> str:
    """A condition as `ids[0]: -64..63` of values, `x[1] - x[0]: 0..9` of a difference,
    `n of x.0: 6..` of a size, or `n - m: ..0`; one that is exact has a `!`."""
    low = condition.low if condition.low is not None else condition.low_expression
    high = condition.high if condition.high is not None else condition.high_expression
    ends = "..".join("" if end is None else str(end) for end in (low, high))
    ends += "!" if condition.exact else ""
    if condition.of == "values":
        columns = "" if condition.columns is None else str([*condition.columns])
        return f"{condition.input}{columns}: {ends}"
    if condition.of == "difference":
        columns = " - ".join(f"{condition.input}[{n}]" for n in condition.columns or ())
        return f"{columns}: {ends}"
    where = f" of {condition.input}.{condition.dim}" if condition.of == "size" else ""
    return f"{condition.expression}{where}: {ends}"


def asked(network: Network) -> str:
    """The conditions of the gather whose output is y."""
    search = Search(network, ranges_of(network))
    (found,) = (
        search.conditions(scope, one)
        for scope in network.main.scopes()
        for one in scope.operations
        if one.outputs == ("y",)
    )
    return ", ".join(map(shown, found))


TABLE = {"table": ("FLOAT", 64, 3)}
IDS = {"ids": ("INT64", 4)}


@pytest.mark.parametrize(
    ("lines", "inputs", "expected"),
    one_quick_in(
        4,
        [
            # Values.
            ("y = Gather table, ids", TABLE | IDS, "ids: -64..63!"),
            ("i = Add ids, one\ny = Gather table, i", TABLE | IDS, "ids: -65..62!"),
            ("i = Neg ids\ny = Gather table, i", TABLE | IDS, "ids: -63..64!"),
            ("i = Mul ids, two\ny = Gather table, i", TABLE | IDS, "ids: -32..31!"),
            ("y = Gather table, ids", TABLE | {"ids": ("INT32", 4)}, "ids: -64..63!"),
            (
                "y = Gather table, ids",
                {"table": ("FLOAT", 1), "ids": ("INT64", 4)},
                "ids: -1..0!",
            ),
            (
                "y = Gather table, ids",
                {"table": ("FLOAT", 2), "ids": ("INT64", 4)},
                "ids: -2..1!",
            ),
            ("i = Div six, ids\ny = Gather table, i", TABLE | IDS, "ids: 1.."),
            ("i = Add ids, far\ny = Gather table, i", TABLE | IDS, ""),
            (
                "i = Cast x; to=7\ny = Gather table, i",
                TABLE | {"x": ("FLOAT", 4)},
                "x: -64..63",
            ),
            (
                "i = Cast x; to=7\ny = Gather table, i",
                TABLE | {"x": ("UINT8", 4)},
                "x: ..63!",
            ),
            (
                "c = Clip x, low, high\ni = Cast c; to=7\ny = Gather table, i",
                TABLE | {"x": ("FLOAT", 4)},
                "x: ..",
            ),
            (
                "i = Cast b; to=7\nj = Mul i, far\ny = Gather table, j",
                TABLE | {"b": ("BOOL", 4)},
                "",
            ),
            (
                "d = Det x\ni = Cast d; to=7\ny = Gather table, i",
                TABLE | {"x": ("FLOAT", 2, 2)},
                "",
            ),
            ("i = Sub ids, ids\ny = Gather table, i", TABLE | IDS, "ids: 0..63"),
            # Of several inputs.
            (
                "i = Add a, b\ny = Gather table, i",
                TABLE | {"a": ("INT64", 4), "b": ("INT64", 4)},
                "a: -64..62!, b: 0..1!",
            ),
            (
                "m = Min a, b\ni = Max m, low 32\ny = Gather table, i",
                TABLE | {"a": ("INT32", 4), "b": ("INT32", 4)},
                "b: ..63",
            ),
            (
                "i = Add a, x\ny = Gather table, a",
                TABLE | {"a": ("INT64", 4), "x": ("INT64", 4)},
                "a: -64..63!",
            ),
            # Of columns.
            (
                "y = GatherND data, ids",
                {"data": ("FLOAT", 5, 7), "ids": ("INT64", 4, 2)},
                "ids[0]: -5..4!, ids[1]: -7..6!",
            ),
            (
                "i = Slice ids, at 0, at 1, axis 1\ny = Gather table, i",
                TABLE | {"ids": ("INT64", 4, 3)},
                "ids[0]: -64..63!",
            ),
            (
                "i = Slice ids, at 1, at 2, axis 1\ny = Gather table, i",
                TABLE | {"ids": ("INT64", 4, 2)},
                "ids[1]: -64..63!",
            ),
            (
                "i = Slice ids, at 1, at 2, axis 1\ny = Gather table, i",
                TABLE | {"ids": ("INT64", 4, 1)},
                "ids: -64..63",
            ),
            (
                "i = Slice ids, at 1, at 2, axis 1\ny = Gather table, i",
                TABLE | {"ids": ("INT64", 4, 16)},
                "ids[1]: -64..63!",
            ),
            (
                "i = Slice ids, at 1, at 2, axis 1\ny = Gather table, i",
                TABLE | {"ids": ("INT64", 4, 17)},
                "ids: -64..63!",
            ),
            (
                (
                    "s = Slice x, at 0, at 1, axis 1\ni = Cast s; to=7\n"
                    "y = Gather table, i"
                ),
                TABLE | {"x": ("FLOAT", 4, 3)},
                "x: -64..63",
            ),
            # Of differences of columns.
            (
                "a = Gather box, three; axis=2\nb = Gather box, one; axis=2\n"
                "i = Sub a, b\ny = Gather table, i",
                TABLE | {"box": ("INT64", "n", 5, 4)},
                "box[3] - box[1]: -64..63!",
            ),
            (
                "a = Gather box, minus one; axis=-1\nb = Gather box, at 0; axis=1\n"
                "c = Squeeze b, axis 1\nd = Sub c, a\ni = Add d, two 32\n"
                "y = Gather table, i",
                TABLE | {"box": ("INT32", "n", 4)},
                "box[0] - box[3]: -66..61!",
            ),
            (
                "c = Cast box; to=7\na = Slice c, at 1, at 2, axis 1\n"
                "b = Slice c, at 2, all three, axis 1\n"
                "i = Sub a, b\ny = Gather table, i",
                TABLE | {"box": ("INT32", "n", 4)},
                "box[1] - box[2]: -64..63!",
            ),
            (  # a column is added again: no range of the difference is exact
                "a = Gather box, one; axis=1\nb = Gather box, two; axis=1\n"
                "d = Sub a, b\ni = Add d, a\ny = Gather table, i",
                TABLE | {"box": ("INT64", "n", 4)},
                "box[1]: -16..31, box[2]: -1..32",
            ),
            (  # other rows meet: no difference of columns
                "a = Gather box, one; axis=1\nb = Gather box, two; axis=1\n"
                "c = Unsqueeze a, at 0\nd = Unsqueeze b, axis 1\n"
                "i = Sub c, d\ny = Gather table, i",
                TABLE | {"box": ("INT64", "n", 4)},
                "box[1]: -1..63, box[2]: 0..63",
            ),
            # Of sizes.
            ("y = Gather table, five", {"table": ("FLOAT", "n")}, "n of table.0: 6..!"),
            (
                "y = Gather table, five",
                {"ids": ("FLOAT", "n"), "table": ("FLOAT", 3, "m", "n")},
                "",
            ),
            (
                "y = Gather table, five; axis=-1",
                {"table": ("FLOAT", 3, "m", "n")},
                "n of table.2: 6..!",
            ),
            (
                "d = Concat table, table; axis=0\ny = Gather d, five",
                {"table": ("FLOAT", "n")},
                "n of table.0: 3..!",
            ),
            (
                "d = Concat table, table; axis=0\ny = Gather d, six",
                {"table": ("FLOAT", "n")},
                "n of table.0: 4..!",
            ),
            (
                "s = Size x\ni = Range zero, s, one\ny = Gather table, i",
                TABLE | {"x": ("FLOAT", "n")},
                "n of x.0: ..64!",
            ),
            (
                (
                    "s = Size x\nt = Mul s, two\ni = Range zero, t, one\n"
                    "y = Gather table, i"
                ),
                TABLE | {"x": ("FLOAT", "n")},
                "n of x.0: ..32!",
            ),
            (
                "s = Size x\ni = Range zero, s, one\ny = Gather table, i",
                TABLE | {"x": ("FLOAT", "n", "m")},
                "n*m: ..64!",
            ),
            (
                "s = Size x\ni = Range zero, s, one\ny = Gather table, i",
                {"x": ("FLOAT", "n"), "table": ("FLOAT", "m")},
                "n - m: ..0!",
            ),
            (
                (
                    "s = Size x\nt = Add s, last\ni = Range zero, t, one\n"
                    "y = Gather table, i"
                ),
                TABLE | {"x": ("FLOAT", "n")},
                "n of x.0: ..1!",
            ),
            (
                (
                    "s = Size x\nt = Add s, far\ni = Range zero, t, one\n"
                    "y = Gather table, i"
                ),
                TABLE | {"x": ("FLOAT", "n")},
                "",
            ),
            (
                "k = NonZero x\ns = Size k\ny = Gather table, s",
                TABLE | {"x": ("FLOAT", "n")},
                "n of x.0: ..63",
            ),
            (
                "s = Size x\nt = Sub zero, s\ny = Gather table, t",
                TABLE | {"x": ("FLOAT", "n")},
                "n of x.0: ..64!",
            ),
            # Of values and sizes.
            (
                "y = Gather table, ids",
                {"table": ("FLOAT", "n")} | IDS,
                "ids: -n..n - 1!",
            ),
            (
                "y = GatherND data, ids",
                {"data": ("FLOAT", "n", 7), "ids": ("INT64", 4, 2)},
                "ids[0]: -2..1, ids[1]: -7..6!, n of data.0: 2..",
            ),
            (
                "y = GatherND data, ids",
                {"data": ("FLOAT", "n", "m"), "ids": ("INT64", 4, 2)},
                "ids: -2..1, n of data.0: 2.., m of data.1: 2..",
            ),
        ],
    ),
)
def test_conditions_are_the_weakest(
    lines: str, inputs: dict[str, Any], expected: str
) -> None:
    assert asked(network_of(nodes_of(lines), inputs)) == expected


@pytest.mark.parametrize(
    ("lines", "inputs", "expected"),
    [
        (
            "i = Add ids, one\ny = Gather data, i",
            {"data": ("FLOAT", "n")} | IDS,
            "ids: -n - 1..n - 2!",
        ),
        (
            "i = Sub ids, one\ny = Gather data, i",
            {"data": ("FLOAT", "n")} | IDS,
            "ids: -n + 1..n!",
        ),
        (
            "d = Concat data, data; axis=0\ny = Gather d, ids",
            {"data": ("FLOAT", "n")} | IDS,
            "ids: -2*n..2*n - 1!",
        ),
        (
            "f = Cast ids; to=7\ny = Gather data, f",
            {"data": ("FLOAT", "n"), "ids": ("FLOAT", 4)},
            "ids: -2..1, n of data.0: 2..",
        ),
    ],
)
def test_an_end_is_the_size_of_the_axis(
    lines: str, inputs: dict[str, Any], expected: str
) -> None:
    assert asked(network_of(nodes_of(lines), inputs)) == expected


@pytest.mark.parametrize(
    ("lines", "inputs", "expected"),
    [
        # Only 0 is in range, and 1 and -1 surely leave the axis.
        ("i = Mul ids, far\ny = Gather table, i", IDS, "ids: 0..0!"),
        # The bounds of a square hold numbers that no square is.
        (
            "s = Mul ids, ids\nt = Mul s, far\ni = Sub t, t\ny = Gather table, i",
            IDS,
            "",
        ),
    ],
)
def test_a_range_that_cannot_grow_is_a_condition_only_if_it_is_exact(
    lines: str, inputs: dict[str, Any], expected: str
) -> None:
    assert asked(network_of(nodes_of(lines), TABLE | inputs)) == expected


def test_a_size_that_only_far_sizes_meet_is_no_condition() -> None:
    lines = "s = Size x\nt = Sub s, far size\ny = Gather table, t"
    network = network_of(nodes_of(lines), TABLE | {"x": ("FLOAT", "n")})
    assert asked(network) == ""


def test_a_gather_in_a_body_is_proved_by_what_leads_to_the_body() -> None:
    one, other = (
        graph_of(nodes_of(lines), {})
        for lines in ("k = Add i, one\ny = Gather table, k", "e = Neg table")
    )
    choice = helper.make_node("If", ["c"], ["d"], then_branch=one, else_branch=other)
    nodes = [*nodes_of("i = Add ids, one"), choice, *nodes_of("z = Neg d")]
    assert asked(network_of(nodes, TABLE | IDS | {"c": ("BOOL",)})) == "ids: -66..61"


def test_conditions_are_tried_over_200_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MOST_OPERATIONS == 200
    monkeypatch.setattr(conditions, "MOST_OPERATIONS", 3)
    nodes = nodes_of("a = Neg ids\nb = Neg a\ni = Neg b\ny = Gather table, i")
    network = network_of(nodes, TABLE | IDS)
    assert asked(network) == "ids: -63..64!"
    monkeypatch.setattr(conditions, "MOST_OPERATIONS", 2)
    assert asked(network) == ""


def test_floats_are_tried_up_to_infinity() -> None:
    for data_type in ("FLOAT16", "FLOAT", "DOUBLE"):
        assert LIMITS_TRIED[data_type] == (-math.inf, math.inf)
    assert LIMITS_TRIED["INT8"] == (-128, 127)


@pytest.mark.parametrize(
    ("last", "greatest", "tried"),
    [
        (100, 100, [100]),
        (100, 0, [100, 1]),
        (100, 1, [100, 1, 3, 2]),
        (100, 6, [100, 1, 3, 7, 5, 6]),
        (100, 98, [100, 1, 3, 7, 15, 31, 63, 81, 90, 95, 97, 98, 99]),
        (5, 4, [5, 1, 3, 4]),
        (1, 0, [1]),
    ],
)
def test_a_range_grows_in_steps_that_double_and_then_halve(
    last: int, greatest: int, tried: list[int]
) -> None:
    numbers = list[int]()

    def holds(number: int) -> bool:
        numbers.append(number)
        return number <= greatest

    found = conditions._farthest(0, last, holds)  # type: ignore[reportPrivateUsage]
    assert (found, numbers) == (greatest, tried)
