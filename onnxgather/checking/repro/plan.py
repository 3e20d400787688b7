"""Cases by name: those of a program, and the findings of a report."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TypeVar

from onnxgather.checking.cases import (
    Case,
    DescriptorCase,
    NodeCase,
    Origin,
    program_cases,
)
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.results import CaseResult, Report
from onnxgather.core.checks import listed, shown
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.spelling import from_dict
from onnxgather.core.errors import FileFormatError, OnnxGatherError
from onnxgather.core.gather import ATTRIBUTES
from onnxgather.core.options import OutOfRange
from onnxgather.core.programs.program import Program

T = TypeVar("T", DescriptorCase, CaseResult)

MOST_CASES_LISTED = 10
"""The most names that a message lists."""


def case_of_program(
    program: Program, out_of_range: OutOfRange | None, name: str | None = None
) -> DescriptorCase:
    """A case of a program.

    Args:
        program: The program.
        out_of_range: The policy; None means that of `run`.
        name: The case's name, its command, such as `$.commands[0]`, or its dispatchable; None
            where the program has one dispatch.

    Raises:
        OnnxGatherError: There is no such case, or more than one.
    """
    cases: list[tuple[str, DescriptorCase]] = []
    for case in program_cases(program, out_of_range):
        assert case.origin is not None
        names = (case.name, case.origin.command, case.origin.dispatchable)
        cases += [(known, case) for known in names]
    return _chosen(program.path, name, cases, "listed by onnxgather check --json")


def case_of_finding(
    report: Report, name: str | None = None, where: str = "the report"
) -> Case:
    """A case of a report, with the arrays that the report holds of it.

    Args:
        report: The report.
        name: The case's name; None where one case has evidence, or only one of these went wrong.
        where: What an error calls the report.

    Raises:
        FileFormatError: The evidence is not of a case.
        OnnxGatherError: There is no such case, more than one, or no evidence of it.
    """
    cases = report.cases
    if name is None:
        cases = [case for case, _ in _gone_wrong(report)] or [
            c for c in cases if c.evidence
        ]
    named = [(case.name, case) for case in cases]
    return _rebuilt(_chosen(where, name, named, "listed in its $.cases"), where)


def nothing_wrong(report: Report, name: str | None) -> bool:
    """Whether no lane of a report went wrong in a case; in all cases where `name` is None."""
    known = name is None or any(case.name == name for case in report.cases)
    return known and not _gone_wrong(report, name)


def _gone_wrong(
    report: Report, name: str | None = None
) -> list[tuple[CaseResult, LaneInfo]]:
    """The cases with a name, or all cases, each with each lane on which it went wrong."""
    return [
        (case, info)
        for case in report.cases
        for info, result in zip(report.lanes, case.results, strict=True)
        if name in (None, case.name) and result.is_wrong
    ]


def lane_of_finding(report: Report, name: str, where: str = "the report") -> LaneInfo:
    """The one lane of a report on which a case went wrong.

    Args:
        report: The report.
        name: The case's name.
        where: What an error calls the report.

    Raises:
        OnnxGatherError: There is no such lane, or more than one.
    """
    found = [info for _, info in _gone_wrong(report, name)]
    if len(found) != 1:
        lanes = ", ".join(info.name for info in found) or "none"
        raise OnnxGatherError(
            f"{where}: --lane must name where case {shown(name)} goes wrong, got"
            f" {lanes} there"
        )
    return found[0]


def _rebuilt(found: CaseResult, where: str) -> Case:
    """The case of a result of a report; the arguments and errors are those of `case_of_finding`."""
    where = f"{where}: case {shown(found.name)}"
    evidence = found.evidence
    if evidence is None:
        raise OnnxGatherError(
            f"{where} must have evidence, got none, as it passed on every lane or its"
            " arrays exceed 1 MiB"
        )
    if (evidence.descriptor is None) == (evidence.node is None):
        got = "none" if evidence.node is None else "both"
        raise FileFormatError(
            f"{where}: evidence must have a descriptor or a node, got {got}"
        )
    try:
        data, indices = evidence.data.array(), evidence.indices.array()
        if evidence.node is not None:
            case = NodeCase(found.name, evidence.node, data, indices, found.wrapped)
            _check_node(case)
            return case
        origin = None
        if found.file is not None:
            origin = Origin(found.file, found.command or "", found.dispatchable or "")
        desc, policy = from_dict(evidence.descriptor), found.out_of_range
        return DescriptorCase(
            found.name, desc, data, indices, policy, found.wrapped, origin
        )
    except (OnnxGatherError, ValueError, TypeError) as error:
        raise FileFormatError(f"{where}: {error}") from None


def _check_node(case: NodeCase) -> None:
    """Check that a node of a report is a gather, and that its arrays have DirectML's types."""
    node = case.node
    if [ATTRIBUTES.get(node.operator)] != list(node.attributes):
        nodes = ", ".join(
            f"{operator} with {name}" for operator, name in ATTRIBUTES.items()
        )
        got = " and ".join(node.attributes) or "nothing"
        raise OnnxGatherError(
            f"a node must be one of {nodes}, got {node.operator} with {got}"
        )
    for name, array in (("InputTensor", case.data), ("IndicesTensor", case.indices)):
        if array.dtype.name.upper() not in TensorDataType.__members__:
            types = ", ".join(TensorDataType.__members__)
            raise OnnxGatherError(f"{name} must be of {types}, got {array.dtype}")


def _chosen(
    where: str, name: str | None, cases: Sequence[tuple[str, T]], all_names: str
) -> T:
    """The case with a name, or the only case.

    Args:
        where: What an error calls the program or the report.
        name: The name; None where there is one case.
        cases: The cases by their names; a case may have several, its own first.
        all_names: Where a person finds the names.
    """
    every = {case.name: case for _, case in cases}
    found = {case.name: case for known, case in cases if name in (None, known)}
    if name is not None and not found:
        near = difflib.get_close_matches(
            name, {known for known, _ in cases}, MOST_CASES_LISTED
        )
        rule = f"one of {len(every):,}, {all_names}"
        if near:
            rule = f"one of its cases, such as {', '.join(map(shown, near))}"
        raise OnnxGatherError(f"{where}: case must be {rule}, got {shown(name)}")
    if len(found) == 1:
        return next(iter(found.values()))
    what = "case" if name is None else f"case {shown(name)}"
    names = listed([*map(shown, found)], MOST_CASES_LISTED) or "none"
    raise OnnxGatherError(f"{where}: {what} must name one, got {names}")
