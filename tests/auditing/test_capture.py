"""What a run shows of gathers, inside branches, loops, scans and functions too."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_graphs import constant, function, nodes_of, written
from rings import one_quick_in

from onnxgather.auditing import capture as capture_module
from onnxgather.auditing import whole_run
from onnxgather.auditing.capture import Captured, capture
from onnxgather.core.model.network import Network, read_network

TABLE = constant("table", np.arange(12.0, dtype=np.float32).reshape(4, 3))


def seen(made: onnx.ModelProto, **inputs: Any) -> dict[str, list[list[Any]]]:
    """The indices and the output of each gather by its place, once per execution."""
    network, found = captured(made, **inputs)
    return {
        scope.where: [
            [one.inputs[1].tolist(), _listed(one.output)] for one in found.gathers[node]
        ]
        for scope in network.scopes()
        for node in scope.operations
        if node in found.gathers
    }


def _listed(array: Any) -> Any:
    return None if array is None else array[..., 0].tolist()


def captured(made: onnx.ModelProto, **inputs: Any) -> tuple[Network, Captured]:
    network = read_network(made)
    return network, capture(network, {k: np.asarray(v) for k, v in inputs.items()}, 60)


def test_a_gather_has_its_arrays() -> None:
    made = written(
        """
        (int64[n] ids) => (rows)
        { moved = Neg (ids)  [g] rows = Gather (table, moved) }
        """,
        TABLE,
    )
    assert seen(made, ids=[1, -2]) == {"main graph": [[[-1, 2], [9, 6]]]}


def test_a_model_of_texts_runs() -> None:
    made = written(
        """
        (string[n] words) => (rows)
        {
            stops = Equal (words, stop)
            which = Cast <to = 7> (stops)
            [g] rows = Gather (table, which)
        }
        """,
        TABLE,
        constant("stop", np.array(["the"])),
    )
    made.opset_import[0].version = 19  # Equal of texts
    _, found = captured(made, words=["the", "cat"])
    assert found.stop is None
    assert [one.inputs[1].tolist() for (one,) in found.gathers.values()] == [[1, 0]]


def test_only_the_branch_that_runs_is_seen() -> None:
    made = written(
        """
        (int64[n] ids, bool on) => (out)
        {
            moved = Neg (ids)
            [if_1] out = If (on) <
                then_branch = g () => (y) { y = Gather (table, ids) },
                else_branch = g () => (z) { z = Gather (table, moved) } >
        }
        """,
        TABLE,
    )
    assert seen(made, ids=[1], on=True) == {"then_branch of if_1": [[[1], [3]]]}
    assert seen(made, ids=[1], on=False) == {"else_branch of if_1": [[[-1], [9]]]}


def test_each_iteration_of_a_loop_is_seen() -> None:
    made = written(
        """
        (int64[n] ids) => (all)
        <int64 last = {1}>
        {
            [loop_1] end, all = Loop ("", "", ids) <
                body = g (int64 k, bool going, int64[n] at) => (still, next, rows) {
                    rows = Gather (table, at)
                    next = Add (at, ids)
                    still = Less (k, last)
                } >
        }
        """,
        TABLE,
    )
    assert seen(made, ids=[1]) == {"body of loop_1": [[[1], [3]], [[2], [6]]]}


@pytest.mark.parametrize(("k", "sizes"), one_quick_in(2, [(" k", []), ("[1] k", [1])]))
def test_the_number_of_an_iteration_has_the_sizes_that_the_body_declares(
    k: str, sizes: list[int]
) -> None:
    made = written(
        f"""
        () => (all)
        <int64 twice = {{2}}>
        {{
            [loop_1] all = Loop (twice, "") <
                body = g (int64{k}, bool going) => (still, row)
                {{ [row] row = Gather (table, k)  still = Identity (going) }} >
        }}
        """,
        TABLE,
    )
    _, found = captured(made)
    assert found.stop is None
    (rows,) = found.gathers.values()
    assert [one.inputs[1].shape for one in rows] == [tuple(sizes)] * 2
    assert [one.output.shape for one in rows if one.output is not None] == [
        (*sizes, 3)
    ] * 2


SCAN = """
[scan_1] all = Scan <num_scan_inputs = 1,
    body = g (int64 row) => (got) { got = Gather (table, row) }> (ids)
"""


@pytest.mark.slow
def test_each_row_of_a_scan_is_seen() -> None:
    made = written(f"(int64[n] ids) => (all) {{ {SCAN} }}", TABLE)
    assert seen(made, ids=[2, 0]) == {"body of scan_1": [[2, 6], [0, 0]]}
    made.graph.node[0].attribute.append(
        onnx.helper.make_attribute("scan_input_directions", [1])
    )
    assert seen(made, ids=[2, 0]) == {"body of scan_1": [[0, 0], [2, 6]]}


@pytest.mark.parametrize(
    ("most", "rows", "cut"), one_quick_in(2, [(5, 5, True), (6, 6, False)])
)
def test_loops_and_scans_end_after_many_iterations(
    monkeypatch: pytest.MonkeyPatch, most: int, rows: int, cut: bool
) -> None:
    """A scan of 3 rows in a loop of 2 iterations has 6 in all."""
    monkeypatch.setattr(capture_module, "MOST_ITERATIONS", most)
    made = written(
        f"""
        (int64[n] ids) => (end)
        <int64 twice = {{2}}>
        {{
            [loop_1] end = Loop (twice, "") <
                body = g (int64 k, bool going) => (still, all)
                {{ still = Identity (going)  {SCAN} }} >
        }}
        """,
        TABLE,
    )
    _, found = captured(made, ids=[2, 0, 1])
    assert sum(map(len, found.gathers.values())) == rows
    assert found.cut == ({"body of scan_1 in body of loop_1"} if cut else set())


def test_a_large_model_is_written_to_a_file_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = written(
        """
        (int64[n] ids) => (end)
        <int64 twice = {2}>
        {
            [loop_1] end = Loop (twice, "") <
                body = g (int64 k, bool going) => (still, rows)
                { still = Identity (going)  rows = Gather (table, ids) } >
        }
        """,
        TABLE,
    )
    expected = seen(made, ids=[3, 0])
    paths: list[str] = []
    write = Network.write

    def write_and_note(network: Network, path: str) -> None:
        paths.append(path)
        write(network, path)

    monkeypatch.setattr(Network, "write", write_and_note)
    monkeypatch.setattr(whole_run, "LARGE", 0)
    assert seen(made, ids=[3, 0]) == expected
    # The main graph, and the body of the loop, which runs twice.
    assert len({*paths}) == len(paths) == 2
    assert not any(map(os.path.exists, paths))


@pytest.mark.slow
def test_each_call_of_a_function_is_seen() -> None:
    inner = function("Inner", ["x", "w"], nodes_of("y = Gather (x, w)"))
    outer = function("Outer", ["x", "w"], nodes_of("[in] z = own.Inner (x, w)"))
    made = written(
        """
        (int64[n] ids) => (a, b)
        {
            [one] a = own.Outer (table, ids)
            [two] b = own.Inner (table, ids)
        }
        """,
        TABLE,
        functions=[inner, outer],
    )
    assert seen(made, ids=[3]) == {
        "function Inner, called by in in function Outer, called by one": [[[3], [9]]],
        "function Inner, called by two": [[[3], [9]]],
    }


def test_a_run_that_fails_shows_what_came_before() -> None:
    made = written(
        """
        (int64[n] ids) => (never)
        <int64[1] far = {9}>
        {
            [first] rows = Gather (table, ids)
            [second] wild = Gather (table, far)
            turned = Neg (wild)
            [third] never = Gather (turned, ids)
        }
        """,
        TABLE,
    )
    network, found = captured(made, ids=[1])
    names = [node.name for node in network.main.operations if node in found.gathers]
    assert names == ["first", "second"]
    assert found.stop is not None
    assert found.stop.startswith("second fails: ")


@pytest.mark.slow
def test_a_failure_in_a_branch_is_named_there() -> None:
    made = written(
        """
        (int64[n] ids, bool on) => (out)
        {
            [if_1] out = If (on) <
                then_branch = g () => (y) { [inner] y = Gather (table, ids) },
                else_branch = g () => (y) { [inner] y = Gather (table, ids) } >
        }
        """,
        TABLE,
    )
    network, found = captured(made, ids=[7], on=True)
    assert found.stop is not None
    assert found.stop.startswith("if_1 fails: ")
    ((one,),) = found.gathers.values()
    assert (one.inputs[1].tolist(), one.output) == ([7], None)
    assert (
        network.main.operations[0].bodies["then_branch"].operations[0] in found.gathers
    )


def test_a_gather_from_the_default_of_an_input_is_seen() -> None:
    made = written(
        "(int64[n] ids, float[4, 3] table) => (rows) { rows = Gather (table, ids) }",
        TABLE,
    )
    ((one,),) = captured(made, ids=[1])[1].gathers.values()
    assert (one.inputs[0], one.inputs[1].tolist()) == (None, [1])
