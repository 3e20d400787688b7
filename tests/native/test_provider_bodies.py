"""Gathers inside bodies and functions, folded constants, and the names of nodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from provider_models import (
    CPU_PROVIDER,
    GATHERS,
    model_of,
    one_gather,
    opened,
    opened_on_cpu,
    operators_on,
    run_on,
    said,
    tensor,
)
from runtime_faults import IS_OLD

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.options import POLICIES, OutOfRange

DATA = np.arange(12, dtype=np.float32).reshape(4, 3)
IDS = np.array([0, -1, 3])
WILD = np.array([0, 9, -7])
INT64, FLOAT, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    og.provider_report(reset=True)
    yield
    og.provider_report(reset=True)


def rows_of(model: str) -> list[og.GatherCounts]:
    """Return the rows of a model; a test that failed may have kept others."""
    return [row for row in og.provider_report() if row.model == model]


def gather(name: str, output: str, data: str = "data") -> onnx.NodeProto:
    """Return a Gather of rows."""
    return helper.make_node("Gather", [data, "ids"], [output], name)


def body_of_loop() -> onnx.GraphProto:
    """Return a body that adds rows of the outer data, at the outer indices."""
    nodes = [
        gather("in loop", "rows"),
        helper.make_node("Add", ["sum_in", "rows"], ["sum_out"], "add"),
        helper.make_node("Identity", ["go_in"], ["go_out"], "go"),
    ]
    inputs = [tensor("step", INT64, []), tensor("go_in", BOOL, [])]
    inputs.append(tensor("sum_in", FLOAT, [3, 3]))
    outputs = [tensor("go_out", BOOL, []), tensor("sum_out", FLOAT, [3, 3])]
    return helper.make_graph(nodes, "body", inputs, outputs)


def loop_model() -> onnx.ModelProto:
    loop = helper.make_node(
        "Loop", ["count", "", "zeros"], ["sum"], "loop", body=body_of_loop()
    )
    constants = {"count": np.array(5), "zeros": np.zeros((3, 3), np.float32)}
    return model_of(
        [loop], inputs_of(), [tensor("sum", FLOAT, [3, 3])], 17, "loops", constants
    )


def inputs_of() -> list[onnx.ValueInfoProto]:
    return [tensor("data", FLOAT, [4, 3]), tensor("ids", INT64, ["n"])]


def branch(name: str, operator: str) -> onnx.GraphProto:
    """Return a branch whose gather has the name of that of the other branch."""
    nodes = [
        gather(name, "rows"),
        helper.make_node(operator, ["rows"], [f"{operator}_out"], operator),
    ]
    return helper.make_graph(
        nodes, operator, [], [tensor(f"{operator}_out", FLOAT, ["n", 3])]
    )


def if_model(first: str = "same", second: str = "same") -> onnx.ModelProto:
    node = helper.make_node(
        "If",
        ["flag"],
        ["out"],
        "if",
        then_branch=branch(first, "Neg"),
        else_branch=branch(second, "Abs"),
    )
    inputs = [*inputs_of(), tensor("flag", BOOL, [])]
    return model_of([node], inputs, [tensor("out", FLOAT, ["n", 3])], 17, "branches")


def scan_model() -> onnx.ModelProto:
    body = helper.make_graph(
        [helper.make_node("Gather", ["data", "each"], ["row"], "in scan")],
        "body",
        [tensor("each", INT64, [])],
        [tensor("row", FLOAT, [3])],
    )
    scan = helper.make_node(
        "Scan", ["ids"], ["rows"], "scan", body=body, num_scan_inputs=1
    )
    return model_of([scan], inputs_of(), [tensor("rows", FLOAT, ["n", 3])], 17, "scans")


def function_model() -> onnx.ModelProto:
    """Return a model that calls a function twice, which gathers."""
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function(
        "local",
        "rows_at",
        ["data", "ids"],
        ["rows"],
        [gather("inside", "rows")],
        opsets,
    )
    calls = [
        helper.make_node("rows_at", ["data", "ids"], ["a"], "first", domain="local"),
        helper.make_node("rows_at", ["a", "ids"], ["b"], "second", domain="local"),
    ]
    outputs = [tensor("b", FLOAT, ["n", 3])]
    return model_of(calls, inputs_of(), outputs, 17, "functions", functions=[function])


def clamped(indices: Array, size: int = 4) -> Array:
    return np.clip(np.where(indices < 0, indices + size, indices), 0, size - 1)


@pytest.mark.parametrize("level", [0, 99])
@pytest.mark.parametrize("ids", [IDS, WILD], ids=["in range", "wild"])
def test_the_gather_of_a_loop_counts_every_iteration(level: int, ids: Array) -> None:
    session = opened(loop_model(), "clamp", level=level)
    assert "Gather" in operators_on(session)
    (output,) = run_on(session, DATA, ids)
    assert output.tobytes() == (5 * DATA[clamped(ids)]).tobytes()
    (row,) = rows_of("loops")
    outside = int(((ids < -4) | (ids >= 4)).sum())
    assert (row.node, row.model, row.operator) == ("in loop", "loops", "Gather")
    assert (row.runs, row.indices, row.outside) == (5, 15, 5 * outside)


@pytest.mark.parametrize("level", [0, 99])
def test_a_loop_stops_at_its_first_index_out_of_range(level: int) -> None:
    session = opened(loop_model(), "error", level=level)
    with pytest.raises(Exception, match="in loop") as caught:
        run_on(session, DATA, WILD)
    sentence = "Gather 'in loop': IndicesTensor[1] must be in [-4, 4), got 9"
    assert sentence in str(caught.value)
    (row,) = rows_of("loops")
    assert (row.runs, row.error) == (1, sentence)


@pytest.mark.parametrize("level", [0, 99])
def test_two_nodes_of_one_name_in_two_branches_have_a_row_each(level: int) -> None:
    """The names of their outputs tell them apart where the names of nodes do not."""
    model = if_model()
    bodies = {each.name: each.g for each in model.graph.node[0].attribute}
    bodies["else_branch"].node[0].output[0] = "other rows"
    bodies["else_branch"].node[1].input[0] = "other rows"
    session = opened(model, "clamp", level=level)
    flag = np.array(True)
    (output,) = run_on(session, DATA, WILD, flag)
    assert output.tobytes() == (-DATA[clamped(WILD)]).tobytes()
    rows = rows_of("branches")
    counted = {row.output_name: (row.node, row.runs, row.outside) for row in rows}
    assert counted == {"rows": ("same", 1, 2), "other rows": ("same", 0, 0)}


def test_the_gather_of_a_scan_counts_every_slice() -> None:
    session = opened(scan_model(), "zero")
    (output,) = run_on(session, DATA, WILD)
    expected = np.stack([DATA[0], np.zeros(3, np.float32), np.zeros(3, np.float32)])
    assert output.tobytes() == expected.tobytes()
    (row,) = rows_of("scans")
    assert (row.node, row.runs, row.indices, row.outside) == ("in scan", 3, 3, 2)
    assert (row.least, row.largest, row.first) == (-7, 9, ())
    assert row.error == "Gather 'in scan': IndicesTensor must be in [-4, 4), got 9"


@pytest.mark.parametrize("level", [0, 99])
def test_each_call_of_a_function_has_a_row(level: int) -> None:
    session = opened(function_model(), "clamp", level=level)
    assert operators_on(session) == ["Gather", "Gather"]
    ids = np.array([0, 2, 5])
    (output,) = run_on(session, DATA, ids)
    assert output.tobytes() == DATA[clamped(ids)][clamped(ids, 3)].tobytes()
    rows = rows_of("functions")
    assert len({(row.node, row.output_name) for row in rows}) == 2
    assert [(row.runs, row.outside) for row in rows] == [(1, 1), (1, 1)]


FOLDED = ("data", "indices")


@pytest.mark.parametrize("policy", POLICIES)
def test_constants_in_range_are_folded_before_the_provider(policy: OutOfRange) -> None:
    session = opened(one_gather("Gather", DATA, IDS, constants=FOLDED), policy)
    (output,) = run_on(session)
    assert output.tobytes() == DATA[IDS].tobytes()
    assert operators_on(session) == []


@pytest.mark.parametrize("level", [1, 2, 99])
def test_constants_out_of_range(level: int) -> None:
    """ONNX Runtime folds them by the CPU's kernel, which refuses the index: 1.24.4 then
    makes no session, and 1.32.0 leaves the node to the provider."""
    model = one_gather("Gather", DATA, WILD, constants=FOLDED)
    if IS_OLD:
        with pytest.raises(Exception, match="indices element out of data bounds"):
            opened(model, "clamp", level=level)
        return
    (output,) = run_on(opened(model, "clamp", level=level))
    assert output.tobytes() == DATA[clamped(WILD)].tobytes()
    with pytest.raises(Exception, match="IndicesTensor") as caught:
        run_on(opened(model, "error", level=level))
    assert said(caught.value) == (
        "Gather 'g': IndicesTensor[1] must be in [-4, 4), got 9"
    )


def test_constants_are_not_folded_without_optimization() -> None:
    session = opened(
        one_gather("Gather", DATA, WILD, constants=FOLDED), "clamp", level=0
    )
    (output,) = run_on(session)
    assert output.tobytes() == DATA[clamped(WILD)].tobytes()
    assert operators_on(session) == ["Gather"]


def test_the_cpu_s_provider_refuses_what_the_provider_gives_a_meaning() -> None:
    session = opened_on_cpu(one_gather("Gather", DATA, WILD))
    assert operators_on(session, CPU_PROVIDER) == ["Gather"]
    with pytest.raises(Exception, match="indices element out of data bounds"):
        run_on(session, DATA, WILD)


NAMES = {
    "plain": "layer/Gather_12",
    "quote": 'a "quoted" name',
    "apostrophe": "don't",
    "backslash": "a\\b\\n",
    "tab": "a\tb",
    "line": "a\nb\r\nc",
    "control": "a\x01b\x1fc\x7f",
    "accents": "Größe/été",
    "signs": "索引🙂",
    "separator": "a\u2028b\u0085c",
    "percent": "100% %s %n",
    "long": "n" * 300,
}


@pytest.mark.parametrize("name", [*NAMES])
def test_a_name_is_that_of_the_report(name: str) -> None:
    text = NAMES[name]
    session = opened(one_gather("Gather", DATA, WILD, name=text, graph=text), "clamp")
    run_on(session, DATA, WILD)
    (row,) = rows_of(text)
    assert (row.node, row.model, row.outside) == (text, text, 2)
    assert row.error == f"Gather '{text}': IndicesTensor[1] must be in [-4, 4), got 9"
    assert str(row).isprintable()


@pytest.mark.parametrize("length", [500, 5000])
def test_very_long_names_that_end_differently_have_a_row_each(length: int) -> None:
    names = ["é" * length + end for end in "ab"]
    nodes = [gather(name, f"out {name}") for name in names]
    outputs = [tensor(node.output[0], FLOAT, ["n", 3]) for node in nodes]
    model = model_of(nodes, inputs_of(), outputs, name=f"names of {length}")
    session = opened(model, "clamp", level=0)
    run_on(session, DATA, WILD)
    rows = rows_of(model.graph.name)
    assert sorted(row.node for row in rows) == names
    for row in rows:
        assert (row.runs, row.outside) == (1, 2)
        assert row.error is not None
        assert row.error.startswith("Gather 'ééé")
        assert row.error.endswith("': IndicesTensor[1] must be in [-4, 4), got 9")


def test_a_node_without_a_name_is_its_first_output() -> None:
    node = gather("", "the rows")
    outputs = [tensor("the rows", FLOAT, ["n", 3])]
    model = model_of([node], inputs_of(), outputs, name="nameless")
    session = opened(model, "error", level=0)
    assert operators_on(session, GATHERS) == ["Gather"]
    with pytest.raises(Exception, match="IndicesTensor") as caught:
        run_on(session, DATA, WILD)
    sentence = "Gather 'the rows': IndicesTensor[1] must be in [-4, 4), got 9"
    assert said(caught.value) == sentence
    (row,) = rows_of("nameless")
    assert (row.node, row.output_name, row.error) == ("the rows", "the rows", sentence)


def test_two_nodes_without_a_name_have_a_row_each() -> None:
    nodes = [gather("", "one"), gather("", "two", "one")]
    outputs = [tensor(name, FLOAT, ["n", 3]) for name in ("one", "two")]
    model = model_of(nodes, inputs_of(), outputs, name="unnamed")
    session = opened(model, "clamp", level=0)
    run_on(session, DATA, WILD)
    assert [row.node for row in rows_of("unnamed")] == ["one", "two"]
