"""The command `report merge`, and the options of `check` that reports have."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import sys
import zlib
from pathlib import Path

import msgspec
import pytest
from command_line import (
    call,
    error_of,
    outcome,
    program,
    read_bytes,
    read_text,
    succeed,
    write_json,
    write_text,
)
from msgspec.structs import replace
from report_samples import (
    CPU,
    DIFF,
    DIRECTML,
    FIXED,
    KNOWN,
    OPENVINO,
    absent,
    entry,
    gather_case,
    passed,
    report_of,
)
from rings import by_ring

from onnxgather.checking.report import html
from onnxgather.checking.report_files import open_report
from onnxgather.checking.results import Invalid, Report


def written(path: str, report: Report) -> str:
    """Write a report and return its path."""
    Path(path).write_bytes(msgspec.json.encode(report))
    return path


def shard(k: int, *more: Report) -> str:
    """Write one of two shards."""
    case = entry(gather_case(f"case {k}"), passed("cpu"))
    return written(f"{k}.json", report_of([CPU], case, planned=1, shard=f"{k}/2"))


class TestMerge:
    def test_shards_become_the_whole(self) -> None:
        code, out, err = outcome(
            *("report", "merge", shard(1), shard(2), "-o", "all.json"),
            *("--junit", "r.xml", "--html", "r.html", "--markdown", "r.md"),
        )
        told = "written: all.json\nwritten: r.xml\nwritten: r.html\nwritten: r.md\n"
        assert (code, err) == (0, told)
        assert out.endswith("\ncpu: 2 cases, 2 PASS\n")
        whole = open_report("all.json")
        assert ([case.name for case in whole.cases], whole.shard) == (
            ["case 1", "case 2"],
            None,
        )
        assert b"Everything agrees" in read_bytes("r.html")
        assert b'tests="2"' in read_bytes("r.xml")
        assert read_text("r.md").startswith("## Everything agrees\n")

    def test_a_missing_shard_is_told_and_the_rest_is_written(self) -> None:
        code, out, err = outcome("report merge", shard(2), "--json=all.json")
        assert (code, err) == (
            2,
            "written: all.json\nError: every shard must be given, got none of 1/2\n",
        )
        assert out.endswith(
            "\nEverything agrees (shard 2/2 alone)\n1 case on 1 lane: 1 agree bit for"
            " bit.\n"
        )
        assert open_report("all.json").shard == "2/2"

    @pytest.mark.parametrize(
        ("report", "code"),
        [
            (report_of([CPU], entry(gather_case(), passed("cpu"))), 0),
            (report_of([OPENVINO], entry(gather_case(), KNOWN)), 0),
            (report_of([OPENVINO], entry(gather_case(), DIFF)), 1),
            (report_of([OPENVINO], entry(gather_case(), FIXED)), 1),
            (
                report_of(
                    [CPU],
                    entry(gather_case(), passed("cpu")),
                    invalid=[Invalid("a", "b")],
                ),
                1,
            ),
            (report_of([CPU], entry(gather_case(), passed("cpu")), unusable=["a"]), 2),
            (
                report_of(
                    [CPU, DIRECTML], entry(gather_case(), passed("cpu"), absent())
                ),
                3,
            ),
            (report_of([CPU], interrupted="SIGINT"), 130),
            (report_of([CPU], interrupted="SIGTERM"), 143),
            (report_of([CPU], interrupted="SIGNONE"), 0),
        ],
    )
    def test_the_exit_code_is_that_of_the_whole_check(
        self, report: Report, code: int
    ) -> None:
        assert call("report merge", written("r.json", report)).exit_code == code

    def test_the_same_report_twice_is_refused(self) -> None:
        one = shard(1)
        assert (
            error_of("report merge", one, one, "-o", "all.json")
            == "1.json: shard 1/2 must be in one report, got 1.json too"
        )
        assert not Path("all.json").exists()

    def test_no_report_is_written_over(self) -> None:
        code, _, err = outcome("report merge", shard(1), shard(2), "-o", "1.json")
        assert code == 2
        assert err == "Error: 1.json must not be written, as it is an input\n"

    def test_what_is_no_report_is_one_sentence(self) -> None:
        write_text("x.json", "{}")
        assert error_of("report merge x.json") == (
            "x.json: $.schema must be 2, got none, as in earlier reports and"
            " other files"
        )


class TestOptionsOfCheck:
    KNOWN = {
        "provider": "CPUExecutionProvider",
        "versions": ">=1.24",
        "cases": [{"operator": ["GATHER"]}],
        "found": [{"kind": "elements"}],
        "reason": "It passes.",
        "link": "measured",
    }

    @pytest.mark.slow
    def test_own_known_differences_come_beside_ours(self) -> None:
        program("x.json")
        write_json("known.json", [self.KNOWN])
        found = outcome("check x.json --known known.json --json=r.json")
        assert (found[0], found[2]) == (1, "written: r.json\n")
        (case,) = open_report("r.json").cases
        assert (case.results[0].state, case.results[0].known) == (
            "FIXED",
            "It passes. (measured)",
        )
        assert outcome("check x.json --known known.json --no-known")[0] == 1

    @pytest.mark.slow
    def test_without_known_differences_all_is_new(self) -> None:
        part = ["--corpus", "--shard", "1/4"]
        arguments = ["check", *part, "--out-of-range", "error"]
        succeed(*arguments, "--json=known.json")
        assert call(*arguments, "--no-known", "--json=all.json").exit_code == 1
        known, new = (
            {
                case.name
                for case in open_report(path).cases
                if case.results[0].state in states
            }
            for path, states in (
                ("known.json", ["KNOWN"]),
                ("all.json", ["DIFF", "ERROR"]),
            )
        )
        assert new
        assert known >= new

    def test_a_broken_file_of_known_differences_is_one_sentence(self) -> None:
        program("x.json")
        write_json("known.json", [{**self.KNOWN, "versions": "new"}])
        assert error_of("check x.json --known known.json") == (
            "known.json: $[0].versions must be such as >=1.24,<1.25, got 'new'"
        )
        assert (
            error_of("check x.json --known none.json")
            == "none.json: no such file or directory"
        )

    @pytest.mark.slow
    def test_reports_name_no_interpreter_by_path_unless_asked(self) -> None:
        program("x.json")
        Path("bin").mkdir()
        Path("bin/python9").touch()
        lane = ["--lane", f"cpu@own={os.path.join(os.getcwd(), 'bin', 'python9')}"]
        files = ["r.json", "r.xml", "r.html", "r.md"]
        kinds = ["json", "junit", "html", "markdown"]
        names = [f"--{kind}={file}" for kind, file in zip(kinds, files, strict=True)]
        for with_paths in (True, False):
            arguments = ["check", "x.json", "--lanes", "cpu", *lane, *names]
            call(*arguments, *["--with-paths"][:with_paths])
            for file in files:
                # as Markdown escapes it
                text = read_text(file).replace("\\_", "_")
                assert (os.getcwd() in text) == with_paths, file
        lanes = open_report("r.json").lanes
        assert [found.python for found in lanes] == [None, "python9"]
        assert sys.executable not in read_text("r.json")


def commands(page: str, sort: str = "repro") -> list[str]:
    """The commands that a page offers, in the order of its cases."""
    text = read_text(page)
    found = re.search(
        r'<script type="application/json" id="report">(.*?)</script>', text
    )
    assert found is not None
    chunks = json.loads(found[1])["details"]
    details = [json.loads(zlib.decompress(base64.b64decode(chunk))) for chunk in chunks]
    return [
        command for chunk in details for detail in chunk for command in detail[sort]
    ]


@pytest.mark.slow
def test_the_commands_that_a_page_offers_work() -> None:
    wrong = "check --corpus -k forbidden/gather-nd/batch-sizes --no-known"
    assert call(f"{wrong} --json=REPORT.json --html r.html").exit_code == 1
    offered = commands("r.html")
    failed = [
        case
        for case in open_report("REPORT.json").cases
        if case.results[0].state == "DIFF"
    ]
    assert [shlex.split(command)[4] for command in offered] == [
        case.name for case in failed
    ]
    succeed(*shlex.split(offered[0])[1:])
    assert Path("repro/repro.py").exists()
    for command in commands("r.html", "again")[:: by_ring(4, 1)]:
        again = call(*shlex.split(command)[1:], "--json=again.json")
        assert (again.exit_code, command in again.stdout) == (1, True)
        (case,) = open_report("again.json").cases
        assert (
            case.results == next(one for one in failed if one.name == case.name).results
        )


def test_commands_are_offered_where_a_model_went_wrong_and_quoted() -> None:
    name = "it's; $(rm) `x` \" \\ \n 🦖"
    here = replace(OPENVINO, name="a b", target="portable")
    there = replace(OPENVINO, name="ov@2", target="portable", python="python3")
    dll = replace(OPENVINO, name="directml-dll", provider="DirectML.dll")
    lanes = [replace(CPU, target="cpu", python=None), here, there, dll, DIRECTML]
    wrong = [replace(DIFF, lane=lane.name) for lane in (here, there, dll)]
    report = report_of(
        lanes,
        entry(gather_case(name), passed("cpu"), *wrong, absent()),
        entry(
            gather_case("fixed"), *[replace(FIXED, lane=lane.name) for lane in lanes]
        ),
    )
    Path("r.html").write_bytes(html(report))
    assert [shlex.split(command) for command in commands("r.html")] == [
        [
            "onnxgather",
            "repro",
            "REPORT.json",
            "--case",
            name,
            "--lane",
            lane,
            "-o",
            "repro",
        ]
        for lane in ("a b", "ov@2=PYTHON")
    ]
