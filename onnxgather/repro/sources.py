"""Cases by name: those of a program, and the findings of a report."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TypeVar

from onnxgather.arrays import OutOfRange
from onnxgather.dxdispatch import Program, from_dict
from onnxgather.errors import OnnxGatherError
from onnxgather.parity.cases import Case, Place, program_cases
from onnxgather.parity.results import CaseResult, Report
from onnxgather.rules import shown

T = TypeVar("T", Case, CaseResult)

MOST_LISTED = 10
"""Names that a message lists."""


def case_of_program(program: Program, out_of_range: OutOfRange, name: str | None = None) -> Case:
    """Return a case of a program.

    Args:
        program: The program.
        out_of_range: What an index out of range does.
        name: The case's name, its command, such as `$.commands[0]`, or its dispatchable; None
            where the program has one dispatch.

    Raises:
        OnnxGatherError: There is no such case, or more than one.
    """
    found: dict[str, list[Case]] = {}
    cases: list[Case] = []
    for case in program_cases(program, out_of_range):
        cases.append(case)
        assert case.place is not None
        for key in (case.name, case.place.command, case.place.dispatchable):
            found.setdefault(key, []).append(case)
    if name is None:
        return _only(program.path, "case", cases, [case.name for case in cases])
    if name not in found:
        raise _unknown(program.path, name, list(found))
    named = found[name]
    return _only(program.path, f"case {shown(name)}", named, [case.name for case in named])


def case_of_finding(report: Report, name: str | None = None) -> Case:
    """Return a case of a report, with the arrays that the report holds of it.

    Args:
        report: The report.
        name: The case's name; None where one case has evidence.

    Raises:
        OnnxGatherError: There is no such case, more than one, or no evidence of it.
    """
    findings = [case for case in report.cases if case.evidence is not None]
    if name is None:
        return _rebuilt(_only("the report", "case", findings, [case.name for case in findings]))
    named = [case for case in report.cases if case.name == name]
    if not named:
        raise _unknown("the report", name, [case.name for case in report.cases])
    return _rebuilt(named[0])


def _rebuilt(found: CaseResult) -> Case:
    evidence = found.evidence
    if evidence is None:
        raise OnnxGatherError(
            f"the report: case {shown(found.name)} must have evidence, got none, as it passed on "
            "every lane or its arrays exceed 1 MiB"
        )
    place = None
    if found.file is not None:
        place = Place(found.file, found.command or "", found.dispatchable or "")
    try:
        return Case(
            found.name,
            None if evidence.descriptor is None else from_dict(evidence.descriptor),
            evidence.data.array(),
            evidence.indices.array(),
            found.out_of_range,
            found.wrapped,
            evidence.bare,
            place,
        )
    except (OnnxGatherError, ValueError, TypeError) as error:
        raise OnnxGatherError(f"the report: case {shown(found.name)}: {error}") from None


def _only(where: str, what: str, found: Sequence[T], names: Sequence[str]) -> T:
    if len(found) == 1:
        return found[0]
    listed = ", ".join(map(shown, names[:MOST_LISTED]))
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    raise OnnxGatherError(f"{where}: {what} must name one, got {listed or 'none'}{more}")


def _unknown(where: str, name: str, names: Sequence[str]) -> OnnxGatherError:
    near = difflib.get_close_matches(name, names, MOST_LISTED, 0.4) or names[:MOST_LISTED]
    listed = ", ".join(map(shown, near)) or "none"
    return OnnxGatherError(
        f"{where}: case must be one of its cases, such as {listed}, got {shown(name)}"
    )
