"""Cases of programs, of reports and of their files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from messages import message_of, rows_of
from repro_cases import CASE, INFO, OUTSIDE

from onnxgather.checking.cases import Case, GatherNode, NodeCase, Origin
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.checking.repro.plan import (
    case_of_finding,
    case_of_program,
    lane_of_finding,
)
from onnxgather.checking.results import Blob, CaseResult, Report
from onnxgather.checking.run import check_cases
from onnxgather.core.errors import FileFormatError, OnnxGatherError
from onnxgather.core.programs.program import parse_program

PROGRAM = """{
  "resources": {
    "data": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4]},
    "indices": {"initialValuesDataType": "INT32", "initialValues": [3, 0]},
    "output": {"initialValuesDataType": "FLOAT32", "initialValues": [0, 0]}
  },
  "dispatchables": {
    "one": {"type": "DML_OPERATOR_GATHER", "desc": {
      "InputTensor": {"DataType": "FLOAT32", "Sizes": [4]},
      "IndicesTensor": {"DataType": "INT32", "Sizes": [2]},
      "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2]}, "Axis": 0, "IndexDimensions": 1}}
  },
  "commands": [COMMANDS]
}"""  # noqa: E501
COMMAND = """{"type": "dispatch", "dispatchable": "one", "bindings":
  {"InputTensor": "data", "IndicesTensor": "indices", "OutputTensor": "output"}}"""


def program(commands: int) -> Any:
    text = PROGRAM.replace("COMMANDS", ", ".join([COMMAND] * commands))
    return parse_program(text, "p.json")


NO_CASE = """
0
must name one, got 'p.json: both ends of each axis (one)', 'p.json: random bits (one)',
'p.json: wild indices (one)'

2
must name one, got 'p.json: $.commands[0] (one)', 'p.json: $.commands[1] (one)'

2 one
'one' must name one, got 'p.json: $.commands[0] (one)', 'p.json: $.commands[1] (one)'

1 $.command[0]
must be one of its cases, such as '$.commands[0]', 'p.json: $.commands[0] (one)', got
'$.command[0]'

2 nope
must be one of 2, listed by onnxgather check --json, got 'nope'

0 one
'one' must name one, got 'p.json: both ends of each axis (one)', 'p.json: random bits
(one)', 'p.json: wild indices (one)'
"""
"""The number of commands, a name, and what is said of the case."""


def test_the_only_case_needs_no_name() -> None:
    case = case_of_program(program(1), "zero")
    assert case.name == "p.json: $.commands[0] (one)"
    assert case.out_of_range == "zero"
    assert case.indices.tolist() == [3, 0]


@pytest.mark.parametrize("name", ["p.json: $.commands[1] (one)", "$.commands[1]"])
def test_a_case_is_named_whole_or_by_its_command(name: str) -> None:
    assert case_of_program(program(2), "clamp", name).origin == Origin(
        "p.json", "$.commands[1]", "one"
    )


@pytest.mark.parametrize(("asked", "message"), rows_of(NO_CASE))
def test_a_name_of_no_case_or_of_several_is_refused(asked: str, message: str) -> None:
    commands, _, name = asked.partition(" ")
    case = program(int(commands))
    said = message_of(OnnxGatherError, case_of_program, case, "clamp", name or None)
    assert said == f"p.json: case {message}"


@pytest.mark.parametrize("name", ["random bits", "p.json: random bits (one)"])
def test_a_case_that_is_drawn_is_named_like_another(name: str) -> None:
    case = case_of_program(program(0), "clamp", name)
    assert case.name == "p.json: random bits (one)"
    assert case.origin == Origin("p.json", "random bits", "one")


class WrongLane:
    """A lane whose output is always nothing but zeros of another shape."""

    name = "wrong"

    def start(self) -> LaneInfo:
        return INFO

    def answer(self, case: Case) -> Answer:
        if case.name == "right":
            expected = case.expected()
            assert not isinstance(expected, str)
            return Answer(AnswerKind.RAN, None, ("Gather",), expected)
        return Answer(AnswerKind.RAN, None, ("Gather",), np.zeros(0, np.float32))

    def close(self) -> None:
        pass


NODE = GatherNode("Gather", {"axis": 2}, (3, 4), "axis must be in [-2, 2), got 2")
BARE = NodeCase("bare", NODE, CASE.data, np.array([1, 2, 0]))


NO_FINDING = """
none
must name one, got 'rows', 'placed', 'bare'

row
must be one of its cases, such as 'rows', got 'row'

zzz
must be one of 4, listed in its $.cases, got 'zzz'

right
'right' must have evidence, got none, as it passed on every lane or its arrays exceed 1
MiB
"""

UNFIT = """\
'rows': InputTensor must be an array of float32 (5, 4), got float32 (4, 4)
'rows': IndicesTensor must be an array of int64 (1, 3), got int32 (1, 3)
'rows': buffer size must be a multiple of element size
'rows': data_type must be that of numbers or texts, got floaty
'rows': $.type is required
'bare': a node must be one of Gather with axis, GatherElements with axis, GatherND with batch_dims, got Gather with axes
'bare': a node must be one of Gather with axis, GatherElements with axis, GatherND with batch_dims, got Where with nothing
'bare': axis must be in [-2, 2), got 2
"""  # noqa: E501


@pytest.fixture
def report() -> Report:
    return Report("0", "now", "here", (INFO,), list(results()))


def results() -> Iterator[CaseResult]:
    origin = Origin("p.json", "$.commands[0]", "g")
    placed = replace(
        OUTSIDE, name="placed", out_of_range="zero", wrapped=True, origin=origin
    )
    cases = [CASE, placed, BARE, replace(CASE, name="right")]
    yield from check_cases(cases, [WrongLane()], [INFO], [])


@pytest.mark.parametrize("name", ["rows", "placed", "bare"])
def test_a_case_of_a_report_is_what_was_checked(report: Report, name: str) -> None:
    case = case_of_finding(report, name)
    wanted = {"rows": CASE, "placed": OUTSIDE, "bare": BARE}[name]
    for field in ("descriptor", "node"):
        assert getattr(case, field, None) == getattr(wanted, field, None)
    assert case.data.tobytes() == wanted.data.tobytes()
    assert case.indices.tobytes() == wanted.indices.tobytes()
    assert case.out_of_range == ("zero" if name == "placed" else wanted.out_of_range)
    assert (case.origin is not None) == (name == "placed")
    assert case.wrapped == (name == "placed")


def test_the_only_finding_needs_no_name(report: Report) -> None:
    only = Report("0", "now", "here", (INFO,), report.cases[2:])
    assert case_of_finding(only).name == "bare"


@pytest.mark.parametrize(("name", "message"), rows_of(NO_FINDING))
def test_a_name_of_no_finding_or_of_several_is_refused(
    report: Report, name: str, message: str
) -> None:
    name = name.removeprefix("none")
    said = message_of(OnnxGatherError, case_of_finding, report, name or None)
    assert said == f"the report: case {message}"


def changed(report: Report, number: int, **changes: Any) -> str:
    """Return what is said of a case whose evidence was edited."""
    case = report.cases[number]
    assert case.evidence is not None
    evidence = msgspec.structs.replace(case.evidence, **changes)
    report.cases[number] = msgspec.structs.replace(case, evidence=evidence)
    return message_of(FileFormatError, case_of_finding, report, case.name, "r.json")


def test_evidence_is_of_a_descriptor_or_a_node(report: Report) -> None:
    rule = "evidence must have a descriptor or a node"
    both = changed(report, 0, node=NODE)
    assert both == f"r.json: case 'rows': {rule}, got both"
    assert changed(report, 2, node=None) == f"r.json: case 'bare': {rule}, got none"


CHANGES: tuple[dict[str, Any], ...] = (
    {"data": Blob.of(CASE.data[:4])},
    {"indices": Blob.of(CASE.indices.astype(np.int32))},
    {"data": Blob("float32", (5, 4), bytes(79))},
    {"data": Blob("floaty", (5, 4), b"")},
    {"descriptor": {}},
    {"node": GatherNode("Gather", {"axes": 1}, (3, 4), "no")},
    {"node": GatherNode("Where", {}, (3, 4), "no")},
    {"node": GatherNode("Gather", {"axis": 2}, (3, 4))},
)


@pytest.mark.parametrize(
    ("changes", "message"), [*zip(CHANGES, UNFIT.splitlines(), strict=True)]
)
def test_evidence_that_does_not_fit_its_case_is_refused(
    report: Report, changes: dict[str, Any], message: str
) -> None:
    name = message.partition("'")[2].partition("'")[0]
    number = [case.name for case in report.cases].index(name)
    said = changed(report, number, **changes)
    assert said == f"r.json: case {message}"


def test_the_lane_of_a_finding(report: Report) -> None:
    assert lane_of_finding(report, "rows") == INFO
    assert (
        message_of(OnnxGatherError, lane_of_finding, report, "right", "r.json")
        == "r.json: --lane must name where case 'right' goes wrong, got none there"
    )
