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

from onnxgather.parity.results import Invalid, Report, Result
from onnxgather.parity.states import STATES
from onnxgather.report import junit, render
from onnxgather.report.page import write_verdict


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
    assert render(small(), 80) == textwrap.dedent(
        """\
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
                 1 of 4 elements differ, first OutputTensor[1,0]: expected 5.0 (00 00 a0
                 40), got 0.0 (00 00 00 00)
                 output[1,0] = input[1, 2] = 5
                 ran: Clip, Gather
        ERROR    openvino: gather/b
                 OpenVINOExecutionProvider failed: no such layout
        FIXED    openvino: gather/d (wrapped)
                 passes, although it is a known difference
                 Crashes below 1.25 (https://example.com/2)
                 ran: Gather

        KNOWN    openvino: gather/c
                 Zeros where an index is out of range (https://example.com/1)
        NOT-RUN  directml: 6 cases, such as gather/a
                 onnxruntime has no DmlExecutionProvider
        NOT-RUN  openvino: gather/e
                 Gather went to CPUExecutionProvider

        cpu: 6 cases, 6 PASS
        openvino: 6 cases, 1 PASS, 1 DIFF, 1 ERROR, 1 NOT-RUN, 1 KNOWN, 1 FIXED
        directml: 6 cases, 6 NOT-RUN"""
    )


def test_many_cases_are_summed_up_by_operator_and_data_type() -> None:
    report = many(32, DIFF, KNOWN, KNOWN, ELSEWHERE)
    assert render(report, 80) == textwrap.dedent(
        """\
        onnxgather 0.1.0, 2026-11-21T12:00:00Z, Linux 6.1 x86_64, 2 cores
        cpu       CPUExecutionProvider, onnxruntime 1.31.1, python 3.11.7; CPU
        openvino  OpenVINOExecutionProvider, onnxruntime 1.24.1, openvino 2025.4

                        cpu      openvino
        GATHER FLOAT16  16 PASS  14 PASS, 1 NOT-RUN, 1 KNOWN
        GATHER INT32    16 PASS  14 PASS, 1 DIFF, 1 KNOWN

        DIFF     openvino: case 0
                 1 of 4 elements differ, first OutputTensor[1,0]: expected 5.0 (00 00 a0
                 40), got 0.0 (00 00 00 00)
                 output[1,0] = input[1, 2] = 5
                 ran: Clip, Gather

        KNOWN    openvino: 2 cases, such as case 1
                 Zeros where an index is out of range (https://example.com/1)
        NOT-RUN  openvino: case 3
                 Gather went to CPUExecutionProvider

        cpu: 32 cases, 32 PASS
        openvino: 32 cases, 28 PASS, 1 DIFF, 1 NOT-RUN, 2 KNOWN"""
    )


@pytest.mark.parametrize(("count", "rows"), [(30, 30), (31, 2)])
def test_more_than_30_cases_are_summed_up(count: int, rows: int) -> None:
    table = render(many(count)).split("\n\n")[1]
    assert len(table.splitlines()) == 1 + rows


def test_details_are_cut_and_say_so() -> None:
    errors = [replace(ERROR, reason=f"failure {k}") for k in range(53)]
    text = render(many(60, *errors))
    assert "failure 49\n... and 3 more findings; --json or --html has them all\n" in text
    assert "failure 50" not in text
    assert "more finding" not in render(many(60, *errors[:50]))
    assert "... and 1 more finding; --json" in render(many(60, *errors[:51]))


def test_reasons_are_cut_and_say_so() -> None:
    reasons = [replace(ELSEWHERE, reason=f"reason {k:02}") for k in range(52)]
    text = render(many(120, *reasons, *reasons))
    assert "openvino: 2 cases, such as case 49\n         reason 49\n" in text
    assert "... and 2 more reasons, of 4 results; --json or --html has them all\n" in text
    assert "reason 50" not in text


def test_more_lanes_than_fit_make_more_tables() -> None:
    lanes, states = [replace(CPU, name=f"lane-{k}") for k in range(9)], list(STATES)
    cases = [
        entry(gather_case(f"case {k}"), *(replace(ERROR, state=states[k % 6]) for _ in lanes))
        for k in range(31)
    ]
    sections = render(report_of(lanes, *cases), 60).split("\n\n")
    tables = [section for section in sections if "GATHER FLOAT32" in section]
    assert [re.findall(r"lane-\d", table) for table in tables] == [
        ["lane-0", "lane-1", "lane-2"],
        ["lane-3", "lane-4", "lane-5"],
        ["lane-6", "lane-7", "lane-8"],
    ]
    assert tables[2] == textwrap.dedent(
        """\
                        lane-6         lane-7         lane-8
        GATHER FLOAT32  6 PASS,        6 PASS,        6 PASS,
                        5 DIFF,        5 DIFF,        5 DIFF,
                        5 ERROR,       5 ERROR,       5 ERROR,
                        5 NOT-RUN,     5 NOT-RUN,     5 NOT-RUN,
                        5 KNOWN,       5 KNOWN,       5 KNOWN,
                        5 FIXED        5 FIXED        5 FIXED"""
    )


def test_unusable_files_and_lanes_have_a_line_each() -> None:
    report = report_of(
        [DIRECTML],
        invalid=[Invalid("a.json", "$.dispatchables.g: Axis must be less than 2, got 3")],
        unusable=["b.json: no such file or directory"],
    )
    assert render(report, 80) == textwrap.dedent(
        """\
        onnxgather 0.1.0, 2026-11-21T12:00:00Z, Linux 6.1 x86_64, 2 cores
        directml  did not start: onnxruntime has no DmlExecutionProvider

        INVALID   a.json: $.dispatchables.g: Axis must be less than 2, got 3
        UNUSABLE  b.json: no such file or directory

        directml: 0 cases
        files: 1 invalid, 1 unusable"""
    )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_asked(width: int) -> None:
    long = replace(DIFF, reason="x" * 300 + " " + "word " * 60)
    lanes = [replace(CPU, name="n" * 50), OPENVINO, DIRECTML]
    row = entry(gather_case("name/" * 40), passed("n" * 50), long, absent())
    for cases in ([row], [row] * 31):
        report = report_of(lanes, *cases, unusable=["u" * 200])
        lines = render(report, width).splitlines()
        assert max(map(len, lines)) <= width
        assert "x" * (width - 9) in "\n".join(lines)


def test_control_characters_are_written_and_not_sent() -> None:
    report = report_of(
        [replace(OPENVINO, name=HOSTILE)],
        entry(gather_case(HOSTILE), replace(ERROR, lane=HOSTILE, reason=HOSTILE)),
        unusable=[HOSTILE],
    )
    text = render(report)
    assert all(c.isprintable() or c == "\n" for c in text)
    assert text.count(r"a\x1b[31m\x00b\udc80\u202e</name>") == 7


def test_colours_only_when_asked_and_only_around_states() -> None:
    plain, coloured = render(small(), 80), render(small(), 80, colour=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert "\n\x1b[1;31mDIFF\x1b[0m     openvino: gather/a\n" in coloured
    assert "gather/e            \x1b[32mPASS\x1b[0m  \x1b[33mNOT-RUN\x1b[0m" in coloured
    assert "\n\x1b[33mdirectml: 6 cases, 6 NOT-RUN\x1b[0m" in coloured


def test_what_did_not_run_is_never_counted_as_passed() -> None:
    report = report_of([DIRECTML], *[entry(gather_case(f"c{k}"), absent()) for k in range(40)])
    assert "PASS" not in render(report)
    assert b"PASS" not in junit(report)
    suite = ET.fromstring(junit(report))[0]
    assert (suite.get("tests"), suite.get("skipped")) == ("41", "40")


def test_a_check_that_ended_early_says_so() -> None:
    cases = [entry(gather_case(f"c{k}"), passed("cpu")) for k in range(2)]
    early = report_of(
        [CPU], *cases, planned=1500, interrupted="SIGTERM", shard="2/8", without_evidence=1
    )
    said = "interrupted by SIGTERM after 2 of 1500 cases"
    notes = ["shard 2/8 of the cases", "1 case without arrays, for want of room", said]
    assert render(early).endswith("\n".join(["\n\ncpu: 2 cases, 2 PASS", *notes]))
    assert max(map(len, render(early, 40).splitlines())) <= 40
    _, suite = ET.fromstring(junit(early))
    (error,) = suite.iter("error")
    assert error.attrib == {"type": "interrupted", "message": f"interrupted: {said}"}
    more = f"2 cases on 1 lane: 2 agree bit for bit, {', '.join(notes)}."
    assert write_verdict(early) == (said.replace("int", "Int"), more, "open")
    failed = replace(early, interrupted=None, maxfail=1, shard=None, without_evidence=0)
    said = "stopped at 1 finding (--maxfail) after 2 of 1500 cases"
    assert render(failed).endswith(f"\n\ncpu: 2 cases, 2 PASS\n{said}")


def test_the_table_of_an_empty_report() -> None:
    report = report_of([CPU])
    assert render(report).endswith("\n\ncpu: 0 cases")
    assert ET.fromstring(junit(report)).get("tests") == "0"
