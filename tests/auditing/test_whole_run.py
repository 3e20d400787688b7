"""What the gathers of a whole model met in a run on onnxgather's provider."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from exported_networks import NETWORKS, NO_KERNEL
from network_draft import session
from onnx_graphs import constant, function, nodes_of, written
from rings import quick_alone

import onnxgather as og
from onnxgather.auditing import graph_audit, whole_run
from onnxgather.auditing.capture import Captured, capture
from onnxgather.auditing.met import Met
from onnxgather.core.execution.kernels import operators_library
from onnxgather.core.model.network import read_network

pytestmark = pytest.mark.skipif(
    operators_library() is None, reason="the native kernels are not built"
)

TABLE = constant("table", np.arange(12.0, dtype=np.float32).reshape(4, 3))

WILD = 1_000_003
"""A number that is no index of a network."""


def run_of(model: onnx.ModelProto, inputs: dict[str, Any]) -> Captured:
    arrays = {name: np.asarray(array) for name, array in inputs.items()}
    return capture(read_network(model), arrays, 60, clamp=True)


def met_of_labels(captured: Captured) -> dict[str, Met]:
    return {gather.label: met for gather, met in captured.whole.counts.items()}


def seen_labels(captured: Captured) -> set[str]:
    return {operation.label for operation in captured.gathers}


def audit_of(model: onnx.ModelProto, **inputs: Any) -> og.Audit:
    arrays = {name: np.asarray(array) for name, array in inputs.items()}
    return og.audit(model, arrays, levels=())


def wild_feeds(inputs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the inputs, each time with a number out of range in another one."""
    for name, array in inputs.items():
        if array.dtype.kind in "iu" and array.size:
            wild = array.copy()
            wild.flat[-1] = WILD
            yield {**inputs, name: wild}


def failing_node(model: onnx.ModelProto, inputs: dict[str, Any]) -> str | None:
    """The node at which the untouched model stops on the CPU provider, if it does."""
    try:
        session(model).run(None, inputs)
    except Exception as error:
        found = re.search(r"Name:'([^']*)'", str(error))
        assert found is not None
        return found[1]
    return None


def counted_by_arrays(captured: Captured) -> dict[str, tuple[int, int]]:
    """How many runs and indices the arrays of each gather show."""
    return {
        gather.label: (
            len(captured.gathers[gather]),
            sum(one.inputs[1].size for one in captured.gathers[gather]),
        )
        for gather in captured.whole.counts
    }


@pytest.mark.parametrize("name", quick_alone(["gpt2.dyn.onnx"], NETWORKS))
def test_each_gather_of_a_network_is_reached(name: str) -> None:
    if name in NO_KERNEL:
        pytest.skip("the installed ONNX Runtime does not open the network")
    model, inputs = NETWORKS[name]
    in_range = run_of(model, inputs)
    assert in_range.stop is None
    assert in_range.whole.first_outside is None
    runs = sum(met.runs for met in met_of_labels(in_range).values())
    assert not any(met.outside for met in met_of_labels(in_range).values())
    for feeds in wild_feeds(inputs):
        captured = run_of(model, feeds)
        met = met_of_labels(captured)
        node = failing_node(model, feeds)
        first = captured.whole.first_outside
        if captured.stop is None:
            # The node at which the CPU provider stops is named, and the run goes on.
            assert (node is None) == (first is None)
            assert sum(each.runs for each in met.values()) == runs
            assert seen_labels(captured) == seen_labels(in_range)
            counted = {label: (each.runs, each.indices) for label, each in met.items()}
            assert counted == counted_by_arrays(captured)
        if first is not None:
            assert first.startswith(f"{node} (")
            assert met[node or ""].outside > 0
            assert not met[node or ""].under_clamp
            assert all(each.under_clamp for name, each in met.items() if name != node)


def test_the_order_is_that_of_execution() -> None:
    """ONNX Runtime runs the second node of the file first."""
    model = written(
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
    ids = np.array([1, 7])
    assert failing_node(model, {"ids": ids}) == "second"
    audit = audit_of(model, ids=ids)
    assert audit.notes == [
        "with the given inputs the untouched model stops at second (Gather, main"
        " graph): IndicesTensor[0] must be in [-4, 4), got 9; what the run met behind"
        " it is under clamp"
    ]
    assert [gather.range.met for gather in audit.gathers] == [
        Met(1, 2, 1, 7, 7, (1,), 7, under_clamp=True),
        Met(1, 1, 1, 9, 9, (0,), 9, under_clamp=False),
        Met(1, 2, 2, 1, 7, (0,), 1, under_clamp=True),
    ]


def test_each_iteration_is_counted() -> None:
    model = written(
        """
        (int64 trips) => (rows)
        {
            [loop_1] rows = Loop (trips, "") <
                body = g (int64 k, bool on) => (still, row)
                { still = Identity (on)  [inner] row = Gather (table, k) } >
        }
        """,
        constant("table", np.zeros((300, 1), np.float32)),
    )
    audit = audit_of(model, trips=5000)
    (gather,) = audit.gathers
    assert gather.range.met == Met(
        5000, 5000, 4700, 300, 4999, (), 300, under_clamp=False
    )
    assert gather.range.seen == (0, 4999)
    # The arrays of the first iterations show none of these.
    assert gather.range.state == "out-of-range"
    assert gather.range.found is not None
    found = gather.range.found
    assert (found.at, found.value, found.count, found.low) == ((), 300, 4700, -300)
    assert audit.notes == [
        "with the given inputs the untouched model stops at inner (Gather, body of"
        " loop_1): IndicesTensor must be in [-300, 300), got 300; what the run met"
        " behind it is under clamp",
        "the body of loop_1 has more iterations than are seen: 256; indices out of"
        " range are counted in all",
    ]


@pytest.mark.slow
def test_a_tuple_that_only_the_whole_run_counted_has_its_coordinate() -> None:
    model = written(
        """
        (int64 trips) => (rows)
        <int64[1] start = {0}, int64[1] minus = {-1}>
        {
            [loop_1] rows = Loop (trips, "") <
                body = g (int64 k, bool on) => (still, row)
                {
                    still = Identity (on)
                    second = Reshape (k, minus)
                    tuple = Concat <axis = 0> (start, second)
                    [inner] row = GatherND (table, tuple)
                } >
        }
        """,
        constant("table", np.zeros((2, 300), np.float32)),
    )
    (gather,) = audit_of(model, trips=302).gathers
    assert gather.range.found is not None
    found = gather.range.found
    assert (found.at, found.value, found.count, found.low) == ((1,), 300, 2, -300)
    assert found.coordinate == 1


def test_the_calls_of_a_function_are_counted_together() -> None:
    inner = function("Inner", ["x", "w"], nodes_of("[in] y = Gather (x, w)"))
    outer = function("Outer", ["x", "w"], nodes_of("z = own.Inner (x, w)"))
    model = written(
        """
        (int64[n] ids, int64[m] more) => (a, b)
        {
            [one] a = own.Outer (table, ids)
            [two] b = own.Inner (table, more)
        }
        """,
        TABLE,
        functions=[inner, outer],
    )
    audit = audit_of(model, ids=[3, 0], more=[1])
    assert [gather.range.met for gather in audit.gathers] == [
        Met(2, 3, 0, None, None, None, None, under_clamp=False)
    ]
    assert audit.notes == []
    audit = audit_of(model, ids=[3, 8], more=[-9])
    (gather,) = audit.gathers
    met = gather.range.met
    assert met is not None
    assert (met.runs, met.indices, met.outside) == (2, 3, 2)
    assert (met.least, met.largest, met.under_clamp) == (-9, 8, False)
    assert len(audit.notes) == 1


@pytest.mark.slow
def test_gathers_of_one_name_are_counted_apart() -> None:
    model = written(
        """
        (int64[n] ids, bool on) => (out)
        {
            [if_1] out = If (on) <
                then_branch = g () => (y) { [inner] y = Gather (table, ids) },
                else_branch = h () => (y) { [inner] y = Gather (table, ids) } >
        }
        """,
        TABLE,
    )
    for on in (True, False):
        audit = audit_of(model, ids=[7], on=on)
        branch = "then" if on else "else"
        runs = {
            gather.place: gather.range.met.runs
            for gather in audit.gathers
            if gather.range.met is not None
        }
        assert runs == {
            "then_branch of if_1": int(on),
            "else_branch of if_1": int(not on),
        }
        assert audit.notes == [
            "with the given inputs the untouched model stops at inner (Gather,"
            f" {branch}_branch of if_1): IndicesTensor[0] must be in [-4, 4), got 7;"
            " what the run met behind it is under clamp"
        ]


def test_a_gather_that_onnx_runtime_makes_is_told() -> None:
    model = written(
        """
        (float[n, 3] x, int64[n] labels) => (y)
        { [loss] y = NegativeLogLikelihoodLoss <reduction = "none"> (x, labels) }
        """
    )
    audit = audit_of(model, x=np.zeros((2, 3), np.float32), labels=[1, 5])
    name = "_inlfunc_NegativeLogLikelihoodLoss_input_gather_element"
    assert audit.notes == [
        f"with the given inputs the untouched model stops at {name} (GatherElements,"
        " made by ONNX Runtime): IndicesTensor[1,0] must be in [-3, 3), got 5; what"
        " the run met behind it is under clamp",
        f"ONNX Runtime makes 1 gather of other operators ({name}): 1 of 2 indices were"
        " out of range",
    ]


@pytest.mark.slow
def test_another_operator_ends_the_run_early() -> None:
    model = written(
        """
        (int64[n] ids) => (last)
        <int64[1, 1] far = {9}, int64[1] zero = {0}>
        {
            [before] rows = Gather (table, ids)
            [beside] row = Gather (table, zero)
            [scatter] put = ScatterND (rows, far, row)
            [behind] last = Gather (put, ids)
        }
        """,
        TABLE,
    )
    audit = audit_of(model, ids=[1, 5])
    stop, end = audit.notes
    assert stop.startswith("with the given inputs the untouched model stops at before")
    assert end.startswith("the run with the given inputs ends early: scatter fails: ")
    assert "were not reached" not in end
    runs = [gather.range.met and gather.range.met.runs for gather in audit.gathers]
    assert runs == [1, 1, None, 0]


def test_a_gather_that_an_input_breaks_is_not_called_proved() -> None:
    """A proof under a given range says nothing of an input outside of it."""
    model = written(
        "(int64[1] ids) => (y) { [rows] y = Gather (table, ids) }",
        TABLE,
    )
    for ids, state in ([3], "proved"), ([7], "out-of-range"):
        audit = og.audit(
            model, {"ids": np.array(ids)}, ranges={"ids": (0, 3)}, levels=()
        )
        (gather,) = audit.gathers
        assert gather.range.state == state
        assert audit.verdict == ("never" if state == "proved" else "can-leave")
    assert gather.range.found is not None
    assert (gather.range.found.at, gather.range.found.value) == ((0,), 7)


def test_names_of_a_model_may_look_like_numbers_of_gathers() -> None:
    inner = function("In#7#ner", ["x", "w"], nodes_of("[inner] y = Gather (x, w)"))
    model = written(
        "(int64[n] ids) => (a) { [call] a = own.Inner (table, ids) }",
        TABLE,
        functions=[inner],
    )
    # The parser reads no such names.
    model.graph.node[0].op_type = "In#7#ner"
    model.graph.node[0].name = "call#9#"
    (gather,) = audit_of(model, ids=[7]).gathers
    assert gather.range.met == Met(1, 1, 1, 7, 7, (0,), 7, under_clamp=False)


@pytest.mark.slow
def test_a_loop_that_does_not_end_under_clamp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The untouched model stops at once, so it has an audit."""
    monkeypatch.setattr(graph_audit, "RUN_TIMEOUT", 10.0)
    model = written(
        """
        (int64[1] ids) => (rows)
        <int64[2] ones = {1, 1}, int64 zero = {0}>
        {
            [loop_1] rows = Loop ("", "") <
                body = g (int64 k, bool on) => (goes_on, row)
                {
                    [inner] row = Gather (ones, ids)
                    number = Squeeze (row)
                    goes_on = Greater (number, zero)
                } >
        }
        """
    )
    audit = audit_of(model, ids=[5])
    (gather,) = audit.gathers
    assert gather.range.state == "out-of-range"
    assert gather.range.met is None
    stop, end = audit.notes
    assert stop == (
        "with the given inputs the untouched model stops at inner (Gather, body of"
        " loop_1): IndicesTensor[0] must be in [-2, 2), got 5"
    )
    assert end.startswith("the run with the given inputs ends early: loop_1 fails: ")
    assert end.endswith(
        f"{NOT_REACHED}a run under clamp takes too long or too much memory"
    )


NOT_REACHED = "; gathers behind it were not reached, as "


def notes_on_the_cpu(model: onnx.ModelProto) -> tuple[str, str]:
    """The two halves of the note on a run that stops at the first gather."""
    audit = audit_of(model, ids=[7])
    assert [gather.range.met for gather in audit.gathers] == [None, None]
    states = [gather.range.state for gather in audit.gathers]
    assert states == ["out-of-range", "proved-if"]
    (note,) = audit.notes
    end, _, why = note.partition(NOT_REACHED)
    return end, why


def two_gathers() -> onnx.ModelProto:
    return written(
        """
        (int64[n] ids) => (z)
        { [first] y = Gather (table, ids)  [behind] z = Gather (y, ids) }
        """,
        TABLE,
    )


def test_without_the_library_the_run_stops_at_the_gather(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONNXGATHER_NATIVE", "0")
    end, why = notes_on_the_cpu(two_gathers())
    assert end.startswith("the run with the given inputs ends early: first fails: ")
    assert why == (
        "onnxgather's provider must have the native kernels, but ONNXGATHER_NATIVE is 0"
    )
    assert audit_of(two_gathers(), ids=[0]).notes == []


def test_a_library_that_is_refused_leaves_the_run_to_the_cpu_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "gathers.so"
    library.write_text("no library")
    monkeypatch.setattr(whole_run, "operators_library", lambda: str(library))
    end, why = notes_on_the_cpu(two_gathers())
    assert end.startswith("the run with the given inputs ends early: first fails: ")
    rule = "the plugin library of OnnxGatherExecutionProvider does not load: "
    assert why.startswith(rule)
