"""The conditions under which a gather is proved are the weakest ones of their kind."""

from __future__ import annotations

import math

import pytest
from onnx_graphs import written
from rings import one_quick_in

import onnxgather as og
from onnxgather.auditing.proof import conditions
from onnxgather.auditing.proof.conditions import (
    LIMITS_TRIED,
    MOST_OPERATIONS,
    Search,
)
from onnxgather.auditing.proof.contract import Condition
from onnxgather.auditing.proof.ranges import ranges_of
from onnxgather.core.model.network import Network, read_network

CONSTANTS = """
int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 three = {3}, int64 five = {5},
int64 six = {6}, int64 last = {63}, int64 far = {300}, int64 far_size = {134217728},
int64 minus_one = {-1}, int64 behind = {64}, int64 next = {65}, int64 pad = {-100},
int64[1] all_three = {3}, int64[1] axis_1 = {1},
int64[1] at_0 = {0}, int64[1] at_1 = {1}, int64[1] at_2 = {2}, float low = {0},
float high = {63}, int32 low_32 = {0}, int32 two_32 = {2}
"""


def network_of(inputs: str, nodes: str, output: str = "y") -> Network:
    """A graph in ONNX's textual syntax, with the constants."""
    text = f"({inputs}) => ({output}) <{CONSTANTS}> {{ {nodes} }}"
    return read_network(written(text))


def shown(condition: Condition) -> str:
    """A condition as `ids[0]: -64..63` of values, `x[1] - x[0]: 0..9` of a difference,
    `n of x.0: 6..` of a size, or `n - m: ..0`; one that is exact has a `!`."""
    low = condition.low if condition.low is not None else condition.low_expression
    high = condition.high if condition.high is not None else condition.high_expression
    ends = "..".join("" if end is None else str(end) for end in (low, high))
    ends += "!" if condition.exact else ""
    if condition.also:
        ends = f"{', '.join(map(str, condition.also))} or {ends}"
    if condition.of == "values":
        columns = "" if condition.columns is None else str([*condition.columns])
        return f"{condition.input}{columns}: {ends}"
    if condition.of == "difference":
        columns = " - ".join(f"{condition.input}[{n}]" for n in condition.columns or ())
        return f"{columns}: {ends}"
    where = f" of {condition.input}.{condition.dim}" if condition.of == "size" else ""
    return f"{condition.expression}{where}: {ends}"


def asked(network: Network, allow_negative: bool = True) -> str:
    """The conditions of the gather whose output is y."""
    ranges = ranges_of(network, allow_negative=allow_negative)
    search = Search(network, ranges)
    (found,) = (
        search.conditions(scope, one)
        for scope in network.main.scopes()
        for one in scope.operations
        if one.outputs == ("y",)
    )
    return ", ".join(map(shown, found))


@pytest.mark.parametrize(
    ("inputs", "nodes", "expected"),
    one_quick_in(
        4,
        [
            # Values.
            (
                "float[64, 3] table, int64[4] ids",
                "y = Gather (table, ids)",
                "ids: -64..63!",
            ),
            (
                "float[64, 3] table, int64[4] ids",
                "i = Add (ids, one)  y = Gather (table, i)",
                "ids: -65..62!",
            ),
            (
                "float[64, 3] table, int64[4] ids",
                "i = Neg (ids)  y = Gather (table, i)",
                "ids: -63..64!",
            ),
            (
                "float[64, 3] table, int64[4] ids",
                "i = Mul (ids, two)  y = Gather (table, i)",
                "ids: -32..31!",
            ),
            (
                "float[64, 3] table, int32[4] ids",
                "y = Gather (table, ids)",
                "ids: -64..63!",
            ),
            (
                "float[1] table, int64[4] ids",
                "y = Gather (table, ids)",
                "ids: -1..0!",
            ),
            (
                "float[2] table, int64[4] ids",
                "y = Gather (table, ids)",
                "ids: -2..1!",
            ),
            (
                "float[64, 3] table, int64[4] ids",
                "i = Div (six, ids)  y = Gather (table, i)",
                "ids: 1..",
            ),
            (
                "float[64, 3] table, int64[4] ids",
                "i = Add (ids, far)  y = Gather (table, i)",
                "",
            ),
            (
                "float[64, 3] table, float[4] x",
                "i = Cast <to = 7> (x)  y = Gather (table, i)",
                "x: -64..63",
            ),
            (
                "float[64, 3] table, uint8[4] x",
                "i = Cast <to = 7> (x)  y = Gather (table, i)",
                "x: ..63!",
            ),
            (
                "float[64, 3] table, float[4] x",
                "c = Clip (x, low, high)  i = Cast <to = 7> (c)  y = Gather (table, i)",
                "x: ..",
            ),
            (
                "float[64, 3] table, bool[4] b",
                "i = Cast <to = 7> (b)  j = Mul (i, far)  y = Gather (table, j)",
                "",
            ),
            (
                "float[64, 3] table, float[2, 2] x",
                "d = Det (x)  i = Cast <to = 7> (d)  y = Gather (table, i)",
                "",
            ),
            (
                "float[64, 3] table, int64[4] ids",
                "i = Sub (ids, ids)  y = Gather (table, i)",
                "ids: 0..63",
            ),
            # Of several inputs.
            (
                "float[64, 3] table, int64[4] a, int64[4] b",
                "i = Add (a, b)  y = Gather (table, i)",
                "a: -64..62!, b: 0..1!",
            ),
            (
                "float[64, 3] table, int32[4] a, int32[4] b",
                "m = Min (a, b)  i = Max (m, low_32)  y = Gather (table, i)",
                "b: ..63",
            ),
            (
                "float[64, 3] table, int64[4] a, int64[4] x",
                "i = Add (a, x)  y = Gather (table, a)",
                "a: -64..63!",
            ),
            # Of columns.
            (
                "float[5, 7] data, int64[4, 2] ids",
                "y = GatherND (data, ids)",
                "ids[0]: -5..4!, ids[1]: -7..6!",
            ),
            (
                "float[64, 3] table, int64[4, 3] ids",
                "i = Slice (ids, at_0, at_1, axis_1)  y = Gather (table, i)",
                "ids[0]: -64..63!",
            ),
            (
                "float[64, 3] table, int64[4, 2] ids",
                "i = Slice (ids, at_1, at_2, axis_1)  y = Gather (table, i)",
                "ids[1]: -64..63!",
            ),
            (
                "float[64, 3] table, int64[4, 1] ids",
                "i = Slice (ids, at_1, at_2, axis_1)  y = Gather (table, i)",
                "ids: -64..63",
            ),
            (
                "float[64, 3] table, int64[4, 16] ids",
                "i = Slice (ids, at_1, at_2, axis_1)  y = Gather (table, i)",
                "ids[1]: -64..63!",
            ),
            (
                "float[64, 3] table, int64[4, 17] ids",
                "i = Slice (ids, at_1, at_2, axis_1)  y = Gather (table, i)",
                "ids: -64..63!",
            ),
            (
                ("float[64, 3] table, float[4, 3] x"),
                """
                s = Slice (x, at_0, at_1, axis_1)
                i = Cast <to = 7> (s)
                y = Gather (table, i)
                """,
                "x: -64..63",
            ),
            # Of differences of columns.
            (
                "float[64, 3] table, int64[n, 5, 4] box",
                """
                a = Gather <axis = 2> (box, three)
                b = Gather <axis = 2> (box, one)
                i = Sub (a, b)
                y = Gather (table, i)
                """,
                "box[3] - box[1]: -64..63!",
            ),
            (
                "float[64, 3] table, int32[n, 4] box",
                """
                a = Gather <axis = -1> (box, minus_one)
                b = Gather <axis = 1> (box, at_0)
                c = Squeeze (b, axis_1)
                d = Sub (c, a)
                i = Add (d, two_32)
                y = Gather (table, i)
                """,
                "box[0] - box[3]: -66..61!",
            ),
            (
                "float[64, 3] table, int32[n, 4] box",
                """
                c = Cast <to = 7> (box)
                a = Slice (c, at_1, at_2, axis_1)
                b = Slice (c, at_2, all_three, axis_1)
                i = Sub (a, b)
                y = Gather (table, i)
                """,
                "box[1] - box[2]: -64..63!",
            ),
            (  # a column is added again: no range of the difference is exact
                "float[64, 3] table, int64[n, 4] box",
                """
                a = Gather <axis = 1> (box, one)
                b = Gather <axis = 1> (box, two)
                d = Sub (a, b)
                i = Add (d, a)
                y = Gather (table, i)
                """,
                "box[1]: -16..31, box[2]: -1..32",
            ),
            (  # other rows meet: no difference of columns
                "float[64, 3] table, int64[n, 4] box",
                """
                a = Gather <axis = 1> (box, one)
                b = Gather <axis = 1> (box, two)
                c = Unsqueeze (a, at_0)
                d = Unsqueeze (b, axis_1)
                i = Sub (c, d)
                y = Gather (table, i)
                """,
                "box[1]: -1..63, box[2]: 0..63",
            ),
            # Of sizes.
            ("float[n] table", "y = Gather (table, five)", "n of table.0: 6..!"),
            (
                "float[n] ids, float[3, m, n] table",
                "y = Gather (table, five)",
                "",
            ),
            (
                "float[3, m, n] table",
                "y = Gather <axis = -1> (table, five)",
                "n of table.2: 6..!",
            ),
            (
                "float[n] table",
                "d = Concat <axis = 0> (table, table)  y = Gather (d, five)",
                "n of table.0: 3..!",
            ),
            (
                "float[n] table",
                "d = Concat <axis = 0> (table, table)  y = Gather (d, six)",
                "n of table.0: 4..!",
            ),
            (
                "float[64, 3] table, float[n] x",
                "s = Size (x)  i = Range (zero, s, one)  y = Gather (table, i)",
                "n of x.0: ..64!",
            ),
            (
                ("float[64, 3] table, float[n] x"),
                """
                s = Size (x)
                t = Mul (s, two)
                i = Range (zero, t, one)
                y = Gather (table, i)
                """,
                "n of x.0: ..32!",
            ),
            (
                "float[64, 3] table, float[n, m] x",
                "s = Size (x)  i = Range (zero, s, one)  y = Gather (table, i)",
                "n*m: ..64!",
            ),
            (
                "float[n] x, float[m] table",
                "s = Size (x)  i = Range (zero, s, one)  y = Gather (table, i)",
                "n - m: ..0!",
            ),
            (
                ("float[64, 3] table, float[n] x"),
                """
                s = Size (x)
                t = Add (s, last)
                i = Range (zero, t, one)
                y = Gather (table, i)
                """,
                "n of x.0: ..1!",
            ),
            (
                ("float[64, 3] table, float[n] x"),
                """
                s = Size (x)
                t = Add (s, far)
                i = Range (zero, t, one)
                y = Gather (table, i)
                """,
                "",
            ),
            (
                "float[64, 3] table, float[n] x",
                "k = NonZero (x)  s = Size (k)  y = Gather (table, s)",
                "n of x.0: ..63",
            ),
            (
                "float[64, 3] table, float[n] x",
                "s = Size (x)  t = Sub (zero, s)  y = Gather (table, t)",
                "n of x.0: ..64!",
            ),
            # Of values and sizes.
            (
                "float[n] table, int64[4] ids",
                "y = Gather (table, ids)",
                "ids: -n..n - 1!",
            ),
            (
                "float[n, 7] data, int64[4, 2] ids",
                "y = GatherND (data, ids)",
                "ids[0]: -2..1, ids[1]: -7..6!, n of data.0: 2..",
            ),
            (
                "float[n, m] data, int64[4, 2] ids",
                "y = GatherND (data, ids)",
                "ids: -2..1, n of data.0: 2.., m of data.1: 2..",
            ),
        ],
    ),
)
def test_conditions_are_the_weakest(inputs: str, nodes: str, expected: str) -> None:
    assert asked(network_of(inputs, nodes)) == expected


@pytest.mark.parametrize(
    ("inputs", "nodes", "expected"),
    [
        (
            "float[n] data, int64[4] ids",
            "i = Add (ids, one)  y = Gather (data, i)",
            "ids: -n - 1..n - 2!",
        ),
        (
            "float[n] data, int64[4] ids",
            "i = Sub (ids, one)  y = Gather (data, i)",
            "ids: -n + 1..n!",
        ),
        (
            "float[n] data, int64[4] ids",
            "d = Concat <axis = 0> (data, data)  y = Gather (d, ids)",
            "ids: -2*n..2*n - 1!",
        ),
        (
            "float[n] data, float[4] ids",
            "f = Cast <to = 7> (ids)  y = Gather (data, f)",
            "ids: -2..1, n of data.0: 2..",
        ),
    ],
)
def test_an_end_is_the_size_of_the_axis(inputs: str, nodes: str, expected: str) -> None:
    assert asked(network_of(inputs, nodes)) == expected


OF_TABLE = "float[64, 3] table, int64[4] ids"
IS_PAD = "p = Equal (ids, pad)"
AT_PLACES = "y = Gather (table, i)"
AT_PADS = f"{IS_PAD}  i = Where (p, zero, ids)  {AT_PLACES}"


@pytest.mark.parametrize(
    ("inputs", "nodes", "expected"),
    one_quick_in(
        3,
        [
            # Numbers beside the range.
            (
                OF_TABLE,
                f"e = Equal (ids, behind)  i = Where (e, zero, ids)  {AT_PLACES}",
                "ids: -64..64!",
            ),
            (
                OF_TABLE,
                f"""
                e = Equal (behind, ids)
                o = Not (e)
                i = Where (o, ids, zero)
                {AT_PLACES}
                """,
                "ids: -64..64!",
            ),
            (
                OF_TABLE,
                f"""
                e = Equal (ids, behind)
                f = Equal (ids, next)
                o = Or (e, f)
                i = Where (o, zero, ids)
                {AT_PLACES}
                """,
                "ids: -64..65!",
            ),
            (
                OF_TABLE,
                f"""
                e = Equal (ids, behind)
                j = Where (e, zero, ids)
                f = Equal (j, next)
                i = Where (f, zero, j)
                {AT_PLACES}
                """,
                "ids: -64..65!",
            ),
            # Numbers apart from the range.
            (OF_TABLE, AT_PADS, "ids: -100 or -64..63!"),
            (
                "float[64, 3] table, int32[4] ids",
                f"long = Cast <to = 7> (ids)  {AT_PADS.replace('ids', 'long')}",
                "ids: -100 or -64..63!",
            ),
            (
                OF_TABLE,
                f"""
                {IS_PAD}
                o = Not (p)
                m = Cast <to = 7> (o)
                i = Mul (ids, m)
                {AT_PLACES}
                """,
                "ids: -100 or -64..63!",
            ),
            (
                OF_TABLE,
                f"""
                {IS_PAD}
                f = Equal (ids, far)
                j = Where (p, zero, ids)
                i = Where (f, one, j)
                {AT_PLACES}
                """,
                "ids: -100, 300 or -64..63!",
            ),
            # An id of -n - 1 may be -100.
            ("float[n] table, int64[4] ids", AT_PADS, "ids: -100 or -n..n - 1"),
            # The number in its place is out of range, too.
            (
                OF_TABLE,
                f"{IS_PAD}  i = Where (p, far, ids)  {AT_PLACES}",
                "ids: -64..63!",
            ),
            # The largest id may be -100, and then all are; another id alone is not.
            (
                OF_TABLE,
                f"""
                most = ReduceMax <keepdims = 0> (ids)
                p = Equal (most, pad)
                i = Where (p, zero, ids)
                {AT_PLACES}
                """,
                "ids: -64..63!",
            ),
            # Each id is added to each, so -100 is beside others.
            (
                OF_TABLE,
                f"""
                column = Unsqueeze (ids, axis_1)
                sum = Add (ids, column)
                double = Mul (pad, two)
                p = Equal (sum, double)
                i = Where (p, zero, sum)
                {AT_PLACES}
                """,
                "ids: -32..31!",
            ),
            # Of two inputs, each has its range.
            (
                "float[64, 3] table, int64[4] ids, int64[4] more",
                f"{IS_PAD}  j = Where (p, zero, ids)  i = Add (j, more)  {AT_PLACES}",
                "ids: -64..62!, more: 0..1!",
            ),
            # Floats are between -100 and -99.
            (
                "float[64, 3] table, float[4] floats",
                f"ids = Cast <to = 7> (floats)  {AT_PADS}",
                "floats: -64..63",
            ),
        ],
    ),
)
def test_a_number_that_the_model_replaces_is_in_range(
    inputs: str, nodes: str, expected: str
) -> None:
    assert asked(network_of(inputs, nodes)) == expected


@pytest.mark.parametrize(
    ("nodes", "state"),
    [(AT_PADS, "proved"), ("y = Gather (table, ids)", "proved-if")],
)
def test_only_a_model_that_replaces_a_number_is_proved_where_it_is_given(
    nodes: str, state: str
) -> None:
    masked = network_of(OF_TABLE, AT_PADS)
    contract = og.audit(masked.proto, levels=()).contract
    network = network_of(OF_TABLE, nodes)
    given = {**contract, "digest": network.digest}
    audit = og.audit(network.proto, assume=given, levels=())
    (gather,) = audit.gathers
    assert gather.range.state == state
    assert (not gather.range.conditions) == (state == "proved")


def test_a_contract_with_a_number_and_a_size_proves_its_model() -> None:
    # The row in place of the number asks for a size. From that size on, other
    # conditions are wider.
    masked = "p = Equal (ids, five)  i = Where (p, one, ids)"
    gather = "y = GatherElements <axis = 0> (data, i)"
    network = network_of("float[n] data, int64[4] ids", f"{masked}  {gather}")
    assert asked(network) == "ids: 5 or -2..1, n of data.0: 2.."
    contract = og.audit(network.proto, levels=()).contract
    (record,) = og.audit(network.proto, assume=contract, levels=()).gathers
    assert (record.range.state, record.range.conditions) == ("proved", ())


def test_a_contract_with_two_conditions_on_an_input_proves_its_model() -> None:
    nodes = "y = Gather (table, ids)  z = Gather (data, ids)"
    network = network_of("float[64] table, float[n] data, int64[4] ids", nodes, "y, z")
    contract = og.audit(network.proto, levels=()).contract
    assert [str(Condition(**each)) for each in contract["conditions"]] == [
        "each value of ids is from -64 to 63",
        "each value of ids is at least -n and at most n - 1",
    ]
    audit = og.audit(network.proto, assume=contract, levels=())
    assert [record.range.state for record in audit.gathers] == ["proved", "proved"]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (AT_PADS, "ids: -100 or 0..63!"),
        # It stays below 0.
        (
            f"e = Equal (ids, minus_one)  i = Where (e, ids, ids)  {AT_PLACES}",
            "ids: 0..63!",
        ),
    ],
)
def test_a_number_that_is_tried_is_no_constant(nodes: str, expected: str) -> None:
    network = network_of(OF_TABLE, nodes)
    assert asked(network, allow_negative=False) == expected


@pytest.mark.parametrize(
    ("inputs", "nodes", "expected"),
    [
        # Only 0 is in range, and 1 and -1 surely leave the axis.
        (
            "float[64, 3] table, int64[4] ids",
            "i = Mul (ids, far)  y = Gather (table, i)",
            "ids: 0..0!",
        ),
        # The bounds of a square hold numbers that no square is.
        (
            "float[64, 3] table, int64[4] ids",
            """
                s = Mul (ids, ids)
                t = Mul (s, far)
                i = Sub (t, t)
                y = Gather (table, i)
                """,
            "",
        ),
    ],
)
def test_a_range_that_cannot_grow_is_a_condition_only_if_it_is_exact(
    inputs: str, nodes: str, expected: str
) -> None:
    assert asked(network_of(inputs, nodes)) == expected


def test_a_size_that_only_far_sizes_meet_is_no_condition() -> None:
    network = network_of(
        "float[64, 3] table, float[n] x",
        "s = Size (x)  t = Sub (s, far_size)  y = Gather (table, t)",
    )
    assert asked(network) == ""


def test_a_gather_in_a_body_is_proved_by_what_leads_to_the_body() -> None:
    network = network_of(
        "float[64, 3] table, int64[4] ids, bool c",
        """
        i = Add (ids, one)
        d = If (c) <
            then_branch = g () => (y) { k = Add (i, one)  y = Gather (table, k) },
            else_branch = g () => (e) { e = Neg (table) } >
        z = Neg (d)
        """,
        "z",
    )
    assert asked(network) == "ids: -66..61"


def test_conditions_are_tried_over_200_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MOST_OPERATIONS == 200
    monkeypatch.setattr(conditions, "MOST_OPERATIONS", 3)
    network = network_of(
        "float[64, 3] table, int64[4] ids",
        "a = Neg (ids)  b = Neg (a)  i = Neg (b)  y = Gather (table, i)",
    )
    assert asked(network) == "ids: -63..64!"
    monkeypatch.setattr(conditions, "MOST_OPERATIONS", 2)
    assert asked(network) == ""
    search = Search(network, ranges_of(network))
    search.conditions(network.main, network.main.operations[-1])
    why = "more than 2 operations lead to the indices"
    assert search.limit == f"no conditions were searched, as {why}"


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


@pytest.mark.parametrize(
    ("likely", "tried"),
    [
        ([60, 70], [60, 61]),
        ([70, 60], [70, 60, 61]),
        ([0, 60], [1, 60, 61]),
        ([61, 61], [61, 1, 3, 7, 15, 31, 46, 53, 57, 59, 60]),
        ([math.inf, -5], [100, 1, 3, 7, 15, 31, 63, 47, 55, 59, 61, 60]),
        ([40, 80], [40, 41, 80, 42, 44, 48, 56, 68, 62, 59, 60, 61]),
    ],
)
def test_the_likely_ends_of_a_range_are_tried_first(
    likely: list[float], tried: list[int]
) -> None:
    numbers = list[int]()

    def holds(number: int) -> bool:
        numbers.append(number)
        return number <= 60

    found = conditions._farthest(0, 100, holds, likely)  # type: ignore[reportPrivateUsage]
    assert (found, numbers) == (60, tried)
