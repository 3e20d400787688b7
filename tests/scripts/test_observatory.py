"""The observatory: which lanes it takes, and what it writes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import msgspec
import observatory
import pytest
from html_page import Page
from msgspec.structs import replace
from report_samples import CPU, DIRECTML, OPENVINO, passed, small

from onnxgather.checking.doctor import Environment, TriedProvider
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.report_files import open_report
from onnxgather.checking.results import Report, Result, ResultKind


def test_lanes_run_a_gather_or_say_why_they_do_not_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = {"Gather": passed("cpu", "Gather")}
    elsewhere = Result("openvino", "NOT-RUN", ResultKind.NOT_RUN, "it ran elsewhere")
    tract = LaneInfo("tract@old", "tract", python="envs/old/bin/python")
    here = Environment(
        sys.executable,
        providers=(
            TriedProvider(replace(CPU, python=sys.executable), runs),
            TriedProvider(OPENVINO, {"Gather": elsewhere}),
            TriedProvider(DIRECTML),
        ),
    )
    other = Environment("envs/old/bin/python", providers=(TriedProvider(tract, runs),))
    lanes = observatory.lanes_of(Mock(environments=(here, other)))
    assert lanes == [
        "cpu",
        "directml",
        "tract@old=envs/old/bin/python",
        "onnx-reference",
    ]
    message = "observatory.py: openvino: starts, but runs no gather; left out\n"
    assert capsys.readouterr().err == message
    words = observatory.command(lanes, Path("out"), "2/8", "nan")
    assert " ".join(words[3:]) == (
        "check --corpus --lanes cpu,directml,onnx-reference"
        " --lane tract@old=envs/old/bin/python --shard 2/8 -k nan"
        f" --json={Path('out', 'observatory.json')}"
        f" --html {Path('out', 'observatory.html')}"
    )


def test_the_evaluator_that_is_set_up_is_a_lane_once() -> None:
    evaluator = LaneInfo("onnx-reference", "onnx-reference", python="envs/bin/python")
    runs = {"Gather": passed("onnx-reference", "Gather")}
    environment = Environment("x", providers=(TriedProvider(evaluator, runs),))
    lanes = observatory.lanes_of(Mock(environments=(environment,)))
    assert lanes == ["onnx-reference=envs/bin/python"]


def test_environments_are_folders_with_an_interpreter(tmp_path: Path) -> None:
    for name in ("opencv/bin", "tract/Scripts", "empty"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "opencv/bin/python").touch()
    (tmp_path / "tract/Scripts/python.exe").touch()
    assert [*observatory.environments(tmp_path)] == [
        ("opencv", str(tmp_path / "opencv/bin/python")),
        ("tract", str(tmp_path / "tract/Scripts/python.exe")),
    ]
    assert [*observatory.environments(None)] == []


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """What runs the script; it returns the exit code and what the script prints."""

    def ran(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["observatory.py", *words])
        code = observatory.main()
        said = capfd.readouterr()
        return code, said.out, said.err

    return ran


def files_of(report: Report, folder: Path) -> list[str]:
    """Write a report for each lane; return the files."""
    files: list[str] = []
    for number, lane in enumerate(report.lanes):
        cases = [
            replace(case, results=case.results[number : number + 1])
            for case in report.cases[number:]
        ]
        part = replace(report, lanes=(lane,), cases=cases, planned=len(cases))
        path = folder / f"{lane.name}.json"
        path.write_bytes(msgspec.json.encode(part))
        files.append(str(path))
    return files


def test_reports_become_one_page_and_one_json_and_no_case_runs(
    run: Run, tmp_path: Path
) -> None:
    files = files_of(small(), tmp_path)
    code, out, err = run("--reports", *files, "-o", str(tmp_path / "out"))
    assert (code, out) == (0, "")
    report = open_report(str(tmp_path / "out/observatory.json"))
    assert report.lanes == small().lanes
    assert [len(case.results) for case in report.cases] == [1, 2, 3, 3, 3, 3]
    page = Page((tmp_path / "out/observatory.html").read_bytes())
    assert [case["name"] for case in page.cases] == [case.name for case in report.cases]
    assert err.splitlines()[:3] == [
        "observatory.py: cpu: 6 of 6 passed",
        "observatory.py: openvino: 1 of 5 passed",
        "observatory.py: directml: onnxruntime has no DmlExecutionProvider",
    ]


def test_reports_that_cannot_be_joined_are_one_sentence(
    run: Run, tmp_path: Path
) -> None:
    path, *_ = files_of(small(), tmp_path)
    code, _, err = run("--reports", path, path, "-o", str(tmp_path / "out"))
    said = f"{path}: case 'gather/a' must be in one report, got {path} too"
    assert (code, err) == (1, f"observatory.py: {said}\n")
    assert not [*(tmp_path / "out").iterdir()]


@pytest.mark.slow
def test_one_page_and_one_json_are_written(run: Run, tmp_path: Path) -> None:
    code, out, err = run("-k", "forbidden/gather/", "-o", str(tmp_path))
    assert (code, out) == (0, "")
    report = open_report(str(tmp_path / "observatory.json"))
    assert {"cpu", "onnx-reference"} <= {lane.name for lane in report.lanes}
    assert len(report.cases) == 4
    page = Page((tmp_path / "observatory.html").read_bytes())
    assert [case["name"] for case in page.cases] == [case.name for case in report.cases]
    assert "observatory.py: cpu: " in err


@pytest.mark.slow
def test_no_case_is_a_failure(run: Run, tmp_path: Path) -> None:
    code, _, err = run("-k", "no such case", "-o", str(tmp_path))
    assert code == 1
    assert "no case name contains" in err
    assert not [*tmp_path.iterdir()]
