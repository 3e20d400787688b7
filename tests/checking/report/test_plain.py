"""A check as a table on the terminal."""

from __future__ import annotations

import re
import textwrap
import xml.etree.ElementTree as ET

import pytest
from msgspec.structs import replace
from report_samples import (
    CPU,
    DIFF,
    DIRECTML,
    ELSEWHERE,
    ERROR,
    HOSTILE,
    KNOWN,
    OPENVINO,
    absent,
    entry,
    gather,
    gather_case,
    passed,
    report_of,
    small,
)

from onnxgather.checking.report import as_lines, junit
from onnxgather.checking.results import Invalid, Report, Result
from onnxgather.core.output.result_states import STATES


def test_a_provider_that_was_given_other_data_types_is_told_of() -> None:
    words = "data as UINT32, indices as INT32"
    case = gather_case("case", gather("FLOAT64"))
    good, bad = (
        replace(passed("cpu"), given_as=words),
        replace(DIFF, given_as="data as UINT32"),
    )
    lines = as_lines(report_of([CPU, OPENVINO], entry(case, good, bad))).splitlines()
    assert f"case  PASS, {words}  DIFF, data as UINT32" in lines
    assert "cpu: 1 case, 1 PASS, 1 given other data types" in lines
    assert "         given: data as UINT32" in lines
    assert (
        "1 case on 2 lanes: 1 agree bit for bit, 1 of them given other data types, 1"
        " had wrong elements." in lines
    )


def many(count: int, *bad: Result) -> Report:
    """A report of many cases, alternately of two data types, the first ones bad."""
    cases = [
        entry(
            gather_case(f"case {k}", gather("FLOAT16" if k % 2 else "INT32")),
            passed("cpu"),
            bad[k] if k < len(bad) else passed("openvino"),
        )
        for k in range(count)
    ]
    return report_of([CPU, OPENVINO], *cases)


def test_few_cases_have_a_row_each() -> None:
    assert as_lines(small(), 80) == textwrap.dedent("""\
        onnxgather 0.1.0, 2026-11-21T12:00:00Z, Linux 6.1 x86_64, 2 cores
        cpu       CPUExecutionProvider, onnxruntime 1.31.1, python 3.11.7; CPU
        openvino  OpenVINOExecutionProvider, onnxruntime 1.24.1, openvino 2025.4
        directml  did not start: onnxruntime has no DmlExecutionProvider

                            cpu   openvino  directml
        gather/a            PASS  DIFF      NOT-RUN
        gather/b            PASS  ERROR     NOT-RUN
        gather/c            PASS  KNOWN     NOT-RUN
        gather/d (wrapped)  PASS  FIXED     NOT-RUN
        gather/e            PASS  NOT-RUN   NOT-RUN
        gather/f            PASS  PASS      NOT-RUN

        DIFF     openvino: gather/a
                 1 of 4 elements differ, first OutputTensor[1,0]: expected 5.0 (00 00 a0 40), \
got 0.0 (00 00 00 00)
                 output[1,0] = input[1, 2] = 5
                 ran: Clip, Gather
                 again: onnxgather check --case gather/a --lanes openvino
        ERROR    openvino: gather/b
                 OpenVINOExecutionProvider failed: no such layout
                 again: onnxgather check --case gather/b --lanes openvino
        FIXED    openvino: gather/d (wrapped)
                 passes, although it is a known difference
                 Crashes below 1.25 (https://example.com/2)
                 ran: Gather
                 again: onnxgather check --case gather/d --lanes openvino --wrap
        KNOWN    openvino: gather/c
                 Zeros where an index is out of range (https://example.com/1)
        NOT-RUN  openvino: gather/e
                 Gather went to CPUExecutionProvider
        NOT-RUN  directml: 6 cases, such as gather/a
                 onnxruntime has no DmlExecutionProvider

        cpu: 6 cases, 6 PASS
        openvino: 6 cases, 1 PASS, 1 DIFF, 1 ERROR, 1 NOT-RUN, 1 KNOWN, 1 FIXED
        directml: 6 cases, 6 NOT-RUN

        3 findings; directml did not start. Known: 1 had wrong elements
        6 cases on 3 lanes: 7 agree bit for bit, 1 had wrong elements, 1 failed, \
1 fixed known difference, 1 known, 7 not run, which proves nothing.""")  # noqa: E501


def test_many_cases_are_summed_up_by_operator_and_data_type() -> None:
    report = many(32, DIFF, KNOWN, KNOWN, ELSEWHERE)
    assert as_lines(report, 80) == textwrap.dedent("""\
        onnxgather 0.1.0, 2026-11-21T12:00:00Z, Linux 6.1 x86_64, 2 cores
        cpu       CPUExecutionProvider, onnxruntime 1.31.1, python 3.11.7; CPU
        openvino  OpenVINOExecutionProvider, onnxruntime 1.24.1, openvino 2025.4

                        cpu      openvino
        GATHER FLOAT16  16 PASS  14 PASS, 1 NOT-RUN, 1 KNOWN
        GATHER INT32    16 PASS  14 PASS, 1 DIFF, 1 KNOWN

        DIFF     openvino: case 0
                 1 of 4 elements differ, first OutputTensor[1,0]: expected 5.0 (00 00 a0 40), \
got 0.0 (00 00 00 00)
                 output[1,0] = input[1, 2] = 5
                 ran: Clip, Gather
                 again: onnxgather check --case 'case 0' --lanes openvino
        KNOWN    openvino: 2 cases, such as case 1
                 Zeros where an index is out of range (https://example.com/1)
        NOT-RUN  openvino: case 3
                 Gather went to CPUExecutionProvider

        cpu: 32 cases, 32 PASS
        openvino: 32 cases, 28 PASS, 1 DIFF, 1 NOT-RUN, 2 KNOWN

        1 finding. Known: 2 had wrong elements
        32 cases on 2 lanes: 60 agree bit for bit, 1 had wrong elements, 2 known, \
1 not run, which proves nothing.""")  # noqa: E501


@pytest.mark.parametrize(("count", "rows"), [(30, 30), (31, 2)])
def test_more_than_30_cases_are_summed_up(count: int, rows: int) -> None:
    table = as_lines(many(count)).split("\n\n")[1]
    assert len(table.splitlines()) == 1 + rows


@pytest.mark.parametrize(
    ("count", "more"),
    [(50, ""), (51, "1 more cause, of 1 result"), (53, "3 more causes, of 3 results")],
)
def test_details_are_cut_and_say_so(count: int, more: str) -> None:
    text = as_lines(
        many(60, *[replace(ERROR, reason=f"failure {k}") for k in range(count)])
    )
    command = "onnxgather check --case 'case 49' --lanes openvino"
    end = f"... and {more}; --json or --html has them all\n" if more else "\n"
    assert f"failure 49\n         again: {command}\n{end}" in text
    assert "failure 50" not in text


def test_reasons_are_cut_and_say_so() -> None:
    reasons = [replace(ELSEWHERE, reason=f"reason {k:02}") for k in range(52)]
    text = as_lines(many(120, *reasons, *reasons))
    more = "... and 2 more causes, of 4 results; --json or --html has them all\n"
    start = "openvino: 2 cases, such as case 49\n         reason 49\n"
    assert f"{start}{more}" in text


def test_more_lanes_than_fit_make_more_tables() -> None:
    lanes, states = [replace(CPU, name=f"lane-{k}") for k in range(9)], list(STATES)
    cases = [
        entry(
            gather_case(f"case {k}"),
            *(replace(ERROR, lane=lane.name, state=states[k % 6]) for lane in lanes),
        )
        for k in range(31)
    ]
    sections = as_lines(report_of(lanes, *cases), 90).split("\n\n")
    tables = [section for section in sections if "GATHER FLOAT32" in section]
    names = [re.findall(r"lane-\d", table) for table in tables]
    assert names == [[f"lane-{k}"] for k in range(9)]
    counts = ", ".join(f"{6 if k < 1 else 5} {state}" for k, state in enumerate(states))
    assert tables[2] == f"                lane-2\nGATHER FLOAT32  {counts}"


def test_lanes_that_fit_stand_side_by_side() -> None:
    lanes = [replace(CPU, name=f"lane-{k}") for k in range(5)]
    report = report_of(
        lanes, entry(gather_case("case"), *(passed(lane.name) for lane in lanes))
    )
    assert """
      lane-0  lane-1  lane-2
case  PASS    PASS    PASS

      lane-3  lane-4
case  PASS    PASS

""" in as_lines(report, 28)


def test_unusable_files_and_lanes_have_a_line_each() -> None:
    report = report_of(
        [DIRECTML],
        invalid=[
            Invalid("a.json", "$.dispatchables.g: Axis must be less than 2, got 3")
        ],
        unusable=["b.json: no such file or directory"],
    )
    assert as_lines(report, 80) == textwrap.dedent("""\
        onnxgather 0.1.0, 2026-11-21T12:00:00Z, Linux 6.1 x86_64, 2 cores
        directml  did not start: onnxruntime has no DmlExecutionProvider

        INVALID   a.json: $.dispatchables.g: Axis must be less than 2, got 3
        UNUSABLE  b.json: no such file or directory

        directml: 0 cases
        files: 1 invalid, 1 unusable

        2 findings; directml did not start
        0 cases on 1 lane: 1 invalid file, 1 unusable file.""")


def test_control_characters_are_written_and_not_sent() -> None:
    report = report_of(
        [replace(OPENVINO, name=HOSTILE)],
        entry(gather_case(HOSTILE), replace(ERROR, lane=HOSTILE, reason=HOSTILE)),
        unusable=[HOSTILE],
    )
    text = as_lines(report)
    assert all(c.isprintable() or c == "\n" for c in text)
    assert text.count(r"a\x1b[31m\x00b\udc80\u202e</name>") == 10


def test_colours_only_when_asked_and_only_around_states() -> None:
    plain, coloured = as_lines(small(), 80), as_lines(small(), 80, colour=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert "\n\x1b[1;31mDIFF\x1b[0m     openvino: gather/a\n" in coloured
    assert "gather/e            \x1b[32mPASS\x1b[0m  \x1b[33mNOT-RUN\x1b[0m" in coloured
    assert "\n\x1b[33mdirectml: 6 cases, 6 NOT-RUN\x1b[0m" in coloured


def test_what_did_not_run_is_never_counted_as_passed() -> None:
    report = report_of(
        [DIRECTML], *[entry(gather_case(f"c{k}"), absent()) for k in range(40)]
    )
    assert "PASS" not in as_lines(report)
    assert b"PASS" not in junit(report)
    suite = ET.fromstring(junit(report))[0]
    assert (suite.get("tests"), suite.get("skipped")) == ("41", "40")


def test_the_table_of_an_empty_report() -> None:
    report = report_of([CPU])
    assert as_lines(report).endswith(
        "\n\ncpu: 0 cases\n\nNothing was checked\n0 cases on 1 lane."
    )
    assert ET.fromstring(junit(report)).get("tests") == "0"
