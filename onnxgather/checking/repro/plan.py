"""Cases by name: the cases of a program, and the findings of a report."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TypeVar

from onnxgather.checking.cases import (
    Case,
    DescriptorCase,
    FileModel,
    GatherNode,
    NodeCase,
    Origin,
    cases_of_file,
)
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.results import CaseResult, Evidence, Report
from onnxgather.core.checks import listed, shown
from onnxgather.core.descriptors.spelling import from_dict
from onnxgather.core.errors import FileFormatError, OnnxGatherError
from onnxgather.core.gather import ATTRIBUTES
from onnxgather.core.model.values import loaded
from onnxgather.core.options import OutOfRange
from onnxgather.core.programs.loading import program_of_model
from onnxgather.core.programs.program import Program

T = TypeVar("T", DescriptorCase, CaseResult)

MOST_CASES_LISTED = 10
"""The most names that a message lists."""


def case_of_program(
    program: Program, out_of_range: OutOfRange | None, name: str | None = None
) -> DescriptorCase:
    """Return a case of a program.

    Args:
        program: The program.
        out_of_range: As of `policy_of`.
        name: The case's name, its command, such as `$.commands[0]`, or its
            dispatchable; None if the program has one case.

    Raises:
        OnnxGatherError: There is no such case, or more than one.
    """
    named_cases: list[tuple[str, DescriptorCase]] = []
    for case in cases_of_file(program, out_of_range):
        assert case.origin is not None, "a program is the origin of its cases"
        named_cases.append((case.name, case))
        named_cases.append((case.origin.command, case))
        named_cases.append((case.origin.dispatchable, case))
    return _chosen(program.path, name, named_cases, "listed by onnxgather check --json")


def case_of_finding(
    report: Report, name: str | None = None, where: str = "the report"
) -> Case:
    """Return a case of a report, with the arrays that the report holds of it.

    Args:
        report: The report.
        name: The case's name; None if one case has evidence, or only one of these
            went wrong.
        where: What an error calls the report.

    Raises:
        FileFormatError: The evidence is not of a case.
        OnnxGatherError: There is no such case, more than one, or no evidence of it.
    """
    cases = report.cases
    if name is None:
        cases = [case for case, _ in _gone_wrong(report)]
        # Case: all lanes are right, but cases that did not run have evidence.
        if not cases:
            cases = [case for case in report.cases if case.evidence]
    named_cases = [(case.name, case) for case in cases]
    case = _chosen(where, name, named_cases, "listed in its $.cases")
    return rebuilt(case, where)


def nothing_wrong(report: Report, name: str | None) -> bool:
    """Return whether no lane of a report went wrong in a case.

    Without a name all cases count. A name that the report lacks gives False.
    """
    if name is not None and all(case.name != name for case in report.cases):
        return False
    return not _gone_wrong(report, name)


def lane_of_finding(report: Report, name: str, where: str = "the report") -> LaneInfo:
    """Return the one lane of a report on which a case went wrong.

    Args:
        report: The report.
        name: The case's name.
        where: What an error calls the report.

    Raises:
        OnnxGatherError: There is no such lane, or more than one.
    """
    lanes = [lane for _, lane in _gone_wrong(report, name)]
    if len(lanes) != 1:
        names = ", ".join(lane.name for lane in lanes) or "none"
        raise OnnxGatherError(
            f"{where}: --lane must name where case {shown(name)} goes wrong, got"
            f" {names} there"
        )
    return lanes[0]


def _gone_wrong(
    report: Report, name: str | None = None
) -> list[tuple[CaseResult, LaneInfo]]:
    """Return the cases with a name, or all cases, with each lane that went wrong."""
    pairs: list[tuple[CaseResult, LaneInfo]] = []
    for case in report.cases:
        if name is not None and case.name != name:
            continue
        for lane, result in report.answers(case):
            if result.is_wrong:
                pairs.append((case, lane))
    return pairs


def rebuilt(entry: CaseResult, where: str) -> Case:
    """Return the case of an entry of a report; errors are as of `case_of_finding`."""
    where = f"{where}: case {shown(entry.name)}"
    evidence = entry.evidence
    if evidence is None:
        raise OnnxGatherError(
            f"{where} must have evidence, got none, as it passed on every lane or its"
            " arrays exceed 1 MiB"
        )
    has_descriptor = evidence.descriptor is not None
    has_node = evidence.node is not None
    if has_descriptor == has_node:
        got = "both" if has_node else "none"
        raise FileFormatError(
            f"{where}: evidence must have a descriptor or a node, got {got}"
        )
    try:
        return _case_with_evidence(entry, evidence)
    # A report may be changed by hand: arrays, types and descriptors may not fit.
    except (OnnxGatherError, ValueError, TypeError) as error:
        raise FileFormatError(f"{where}: {error}") from None


def _case_with_evidence(entry: CaseResult, evidence: Evidence) -> Case:
    """Return the case of an entry that has a descriptor or a node."""
    data = evidence.data.array()
    indices = evidence.indices.array()
    # Only cases of programs have an origin.
    origin = None
    if entry.file is not None:
        origin = Origin(entry.file, entry.command or "", entry.dispatchable or "")
    if evidence.node is not None:
        _check_node(evidence.node)
        arrays = (data, indices)
        case = NodeCase(entry.name, evidence.node, *arrays, entry.wrapped, origin)
        case.expected()  # checks the arrays
        return case
    return DescriptorCase(
        entry.name,
        from_dict(evidence.descriptor),
        data,
        indices,
        entry.out_of_range,
        entry.wrapped,
        origin,
        _model_of(evidence, entry.name),
    )


def _model_of(evidence: Evidence, name: str) -> FileModel | None:
    """Return the model that the lanes ran; None if they made it.

    Raises:
        OnnxGatherError: It is no model that onnxgather wrote.
    """
    if evidence.model is None:
        return None
    _, proto = loaded(evidence.model)
    own = program_of_model(proto, name).model
    assert own is not None, "the program is that of a model"
    return FileModel.of(own)


def _check_node(node: GatherNode) -> None:
    """Check that a node of a report is a gather."""
    attribute = ATTRIBUTES.get(node.operator)
    if list(node.attributes) != [attribute]:
        allowed = [f"{operator} with {name}" for operator, name in ATTRIBUTES.items()]
        got = " and ".join(node.attributes) or "nothing"
        raise OnnxGatherError(
            f"a node must be one of {', '.join(allowed)}, got {node.operator} with"
            f" {got}"
        )


def _chosen(
    where: str, name: str | None, named_cases: Sequence[tuple[str, T]], all_names: str
) -> T:
    """Return the case with a name, or the only case.

    Args:
        where: What an error calls the program or the report.
        name: The name; None if there is one case.
        named_cases: The cases by their names. A case may have several names, its own
            first.
        all_names: Where a person finds the names.
    """
    # By their own names: a dispatchable, say, may be that of several cases.
    all_cases: dict[str, T] = {}
    matches: dict[str, T] = {}
    for case_name, case in named_cases:
        all_cases[case.name] = case
        if name is None or case_name == name:
            matches[case.name] = case
    if name is not None and not matches:
        case_names = {case_name for case_name, _ in named_cases}
        near = difflib.get_close_matches(name, case_names, MOST_CASES_LISTED)
        rule = f"one of {len(all_cases):,}, {all_names}"
        if near:
            rule = f"one of its cases, such as {', '.join(map(shown, near))}"
        raise OnnxGatherError(f"{where}: case must be {rule}, got {shown(name)}")
    if len(matches) == 1:
        (case,) = matches.values()
        return case
    what = "case" if name is None else f"case {shown(name)}"
    names = listed([shown(case_name) for case_name in matches], MOST_CASES_LISTED)
    raise OnnxGatherError(f"{where}: {what} must name one, got {names or 'none'}")
