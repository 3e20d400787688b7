"""Gathers of a model on lanes: what each gets, what is told of it, and which one
differs first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from onnx_graphs import BOOL, INT64, constant, graph, info, model, node
from planned_lane import INFO, Planned

from onnxgather.networks.comparison import (
    MOST_EXECUTIONS,
    Compared,
    compare,
    lane_lines,
)
from onnxgather.networks.gathers import Audit, Premises, audit_model
from onnxgather.networks.network import read_network
from onnxgather.parity.cases import Case
from onnxgather.parity.lanes import open_lanes
from onnxgather.parity.lanes.lane import Answer, AnswerKind, Lane

TABLE = constant("table", np.arange(12.0, dtype=np.float32).reshape(4, 3))
IDS = info("ids", INT64, [2])
INPUTS = {"ids": np.array([1, 0])}
TWO = [
    node("Gather", ["table", "ids"], "rows", "first"),
    node("Gather", ["rows", "ids"], "again", "second"),
]


class Spoiling(Planned):
    """A lane that gives what the reference gives, and something else from the n-th case
    on."""

    def __init__(self, n: int) -> None:
        self.left = n

    def answer(self, case: Case) -> Answer:
        expected: Any = case.expected()
        if isinstance(expected, str):
            return Answer(AnswerKind.FAILED, "an index")
        self.left -= 1
        return Answer(AnswerKind.RAN, None, ("Gather",), expected + (self.left < 0))


class Absent(Planned):
    """A lane that does not start."""

    def start(self) -> Any:
        return replace(INFO, not_run="there is no such provider")


def compared(
    made: Any, lanes: Sequence[Lane], inputs: Any = INPUTS
) -> tuple[Audit, Compared, list[str]]:
    """Return the audit with its lanes, what they made of it, and what is told."""
    audited = audit_model(Premises(read_network(made)), inputs)
    found = compare(audited, lanes, known=[])
    return found.audit, found, [*lane_lines(found)]


def chain() -> Any:
    return model(TWO, [IDS], ["again"], [TABLE])


def test_each_gather_has_its_state_on_each_lane() -> None:
    (lane,) = open_lanes(["cpu"], target="portable")
    told, _, lines = compared(chain(), [lane])
    lane.close()
    assert [gather.lanes for gather in told.gathers] == [
        {"cpu": "PASS"},
        {"cpu": "PASS"},
    ]
    assert lines == ["lane          cpu: 2 PASS"]


def test_the_first_gather_that_differs_is_named_and_each_gets_what_the_cpu_gave() -> (
    None
):
    told, found, lines = compared(chain(), [Spoiling(1)])
    assert [gather.lanes for gather in told.gathers] == [
        {"stub": "PASS"},
        {"stub": "DIFF"},
    ]
    _, (second,) = found.cases.values()
    assert second.data.tolist() == [[3, 4, 5], [0, 1, 2]]
    assert lines == [
        "lane          stub: 1 PASS, 1 DIFF",
        "    the first whose output differs is second (Gather, main graph)",
        (
            "DIFF          stub: the model: main graph: node 'second': 6 of 6 elements"
            " differ, first OutputTensor[0,0]: expected 0.0 (00 00 00 00), got 1.0 (00"
            " 00 80 3f)"
        ),
    ]


def test_a_lane_that_does_not_start_says_why() -> None:
    told, _, lines = compared(chain(), [Absent()])
    assert [gather.lanes for gather in told.gathers] == [{"stub": "NOT-RUN"}] * 2
    assert lines == ["lane          stub: did not start: there is no such provider"]


def test_a_gather_that_did_not_run_is_told() -> None:
    told, _, lines = compared(chain(), [Spoiling(9)], {"ids": np.array([9, 0])})
    assert [gather.lanes for gather in told.gathers] == [{"stub": "ERROR"}, {}]
    assert (
        lines[-1] == "note          1 gather was not compared: the run stopped at first"
    )


@pytest.mark.slow
def test_an_operator_that_is_no_gather_of_onnx_is_told() -> None:
    added = node("ScatterElements", ["table", "at", "table"], "put", "scatter")
    at = constant("at", np.zeros((4, 3), np.int64))
    told, _, lines = compared(
        model([*TWO, added], [IDS], ["again", "put"], [TABLE, at]), []
    )
    assert [gather.lanes for gather in told.gathers] == [{}, {}, {}]
    assert lines == []
    told, _, lines = compared(
        model([*TWO, added], [IDS], ["again", "put"], [TABLE, at]), [Spoiling(9)]
    )
    assert [gather.lanes for gather in told.gathers] == [
        {"stub": "PASS"},
        {"stub": "PASS"},
        {},
    ]
    assert lines == [
        "lane          stub: 2 PASS",
        (
            "note          1 operator with indices was not compared: lanes run Gather,"
            " GatherElements and GatherND of ONNX alone"
        ),
    ]


def test_a_gather_that_fails_as_the_reference_does_is_told_to_pass() -> None:
    (lane,) = open_lanes(["cpu"], target="portable")
    lines = compared(chain(), [lane], {"ids": np.array([9, 0])})[2]
    lane.close()
    assert (
        lines[0]
        == "lane          cpu: 1 PASS; PASS too where it fails as the reference does"
    )


@pytest.mark.slow
def test_gathers_of_a_loop_run_as_often_as_they_ran_in_the_model() -> None:
    state = [info("k", INT64, []), info("on", BOOL, []), info("at", INT64, [2])]
    inner = [
        node("Identity", ["on"], "still"),
        node("Gather", ["table", "at"], "row", "inner"),
        node("Sub", ["at", "one"], "next"),
    ]
    body = graph(inner, state, ["still", "next", "row"], [constant("one", np.array(1))])
    loop = node("Loop", ["trips", "", "ids"], "end", "loop_1", body=body)
    loop.output.append("rows")
    made = model([loop], [IDS, info("trips", INT64, [])], ["rows"], [TABLE])
    given = {"ids": np.array([3, 2]), "trips": np.array(3)}
    told, found, _ = compared(made, [Spoiling(2)], given)
    (cases,) = found.cases.values()
    assert [case.indices.ravel().tolist() for case in cases] == [[3, 2], [2, 1], [1, 0]]
    assert [gather.lanes for gather in told.gathers] == [{"stub": "DIFF"}]
    many = {"ids": np.array([3, 2]), "trips": np.array(MOST_EXECUTIONS - 1)}
    assert (
        len(*compared(made, [Spoiling(99)], many)[1].cases.values())
        == MOST_EXECUTIONS - 1
    )
