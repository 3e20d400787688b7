"""The observatory: which lanes it takes, and what it writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import observatory
import pytest
from html_page import Page
from msgspec.structs import replace
from report_samples import CPU, DIRECTML, OPENVINO, passed

from onnxgather.checking.doctor import Environment, TriedProvider
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.report_files import open_report
from onnxgather.checking.results import Result, ResultKind


def test_lanes_run_a_gather_or_say_why_they_do_not_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = TriedProvider(CPU, {"Gather": passed("cpu", "Gather")})
    elsewhere = Result("openvino", "NOT-RUN", ResultKind.NOT_RUN, "it ran elsewhere")
    no_gather = TriedProvider(OPENVINO, {"Gather": elsewhere})
    broken = TriedProvider(DIRECTML)
    found = [*observatory.places([runs, no_gather, broken], [])]
    assert [(place.name, place.python) for place in found] == [
        ("cpu", None),
        ("directml", None),
    ]
    message = "observatory.py: openvino: starts, but runs no gather; left out\n"
    assert capsys.readouterr().err == message


def test_a_lane_of_another_environment_has_its_name() -> None:
    runs = TriedProvider(CPU, {"Gather": passed("cpu", "Gather")})
    (found,) = observatory.places([runs], ["cpu"], "old", "envs/old/bin/python")
    assert (found.name, found.python) == ("cpu@old", "envs/old/bin/python")
    # A host that an earlier checkup found is the same lane.
    assert [*observatory.places([runs], ["cpu"])] == []
    here = [observatory.Place(name, None, CPU) for name in ("cpu", "webgpu")]
    words = observatory.command([*here, found], Path("out"), "2/8", "nan")
    assert " ".join(words[3:]) == (
        "check --corpus --lanes cpu,webgpu,cpu@old --lane cpu@old=envs/old/bin/python"
        f" --shard 2/8 -k nan --json={Path('out', 'observatory.json')}"
        f" --html {Path('out', 'observatory.html')}"
    )


def test_an_environment_of_another_runtime_has_no_lane_of_the_cpu() -> None:
    no_cpu = TriedProvider(replace(CPU, not_run="CPU needs ONNX Runtime"))
    tract = TriedProvider(LaneInfo("tract", "tract", {"tract": "0.23.9"}))
    both = Environment("python", providers=(no_cpu, tract), runtimes=("tract",))
    assert observatory.kept(both) == [tract]
    # Case: ONNX Runtime is there, or nothing is.
    listed = replace(both, listed=("CPUExecutionProvider",))
    assert observatory.kept(listed) == [no_cpu, tract]
    assert observatory.kept(Environment("python", providers=(no_cpu,))) == [no_cpu]


def test_each_lane_of_the_machine_is_there_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = {"Gather": passed("cpu", "Gather")}
    tried = [
        TriedProvider(replace(CPU, name=name), runs)
        for name in ("cpu", "directml-dll", "cpu@windows")
    ]
    places = [Environment(one.info.name, providers=(one,)) for one in tried]
    checkup = Mock(environments=places)
    monkeypatch.setattr(observatory, "examine", Mock(return_value=checkup))

    def started(name: str, python: str | None = None) -> list[observatory.Place]:
        return [observatory.Place(name, python, CPU)]

    monkeypatch.setattr(observatory, "started", started)
    names = [place.name for place in observatory.lanes_here(None)]
    assert names == ["cpu", "cpu@windows", "directml-dll", "onnx-reference"]


def test_the_evaluator_of_onnx_is_a_lane() -> None:
    (found,) = observatory.started("onnx-reference")
    assert (found.name, found.python) == ("onnx-reference", None)
    (found,) = observatory.started("onnx-reference", sys.executable)
    assert found.python == sys.executable


def test_columns_are_sorted_by_runtime_and_version() -> None:
    lanes = "onnxruntime 1.9.0, onnxruntime 1.24.4, onnxruntime 1.32.0, openvino 2025.4"
    lanes += ", tract 0.9.2, tract 0.10.1"
    found = list[observatory.Place]()
    for name in lanes.split(", "):
        runtime, version = name.split()
        info = LaneInfo("tract", "tract", {runtime: version})
        if runtime == "onnxruntime":
            info = replace(CPU, versions=info.versions)
        if runtime == "openvino":
            info = OPENVINO
        found.append(observatory.Place(name, None, info))
    found.reverse()
    names = [place.name for place in sorted(found, key=lambda place: place.order)]
    assert ", ".join(names) == lanes


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


def test_no_lane_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    broken = [observatory.Place("directml", None, DIRECTML)]

    def lanes_here(_: Path | None) -> list[observatory.Place]:
        return broken

    monkeypatch.setattr(observatory, "lanes_here", lanes_here)
    monkeypatch.setattr(sys, "argv", ["observatory.py", "-o", str(tmp_path)])
    assert observatory.main() == 1
    message = "no lane of this machine starts, so nothing can be observed"
    assert capsys.readouterr().err == f"observatory.py: {message}\n"


def observed(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """A run of the script on a few cases."""
    words = [sys.executable, observatory.__file__, "-k", text, "-o", str(folder)]
    return subprocess.run(words, capture_output=True, text=True)


@pytest.mark.slow
def test_one_page_and_one_json_are_written(tmp_path: Path) -> None:
    done = observed(tmp_path, "forbidden/gather/")
    assert (done.returncode, done.stdout) == (0, "")
    report = open_report(str(tmp_path / "observatory.json"))
    assert {"cpu", "onnx-reference"} <= {lane.name for lane in report.lanes}
    assert len(report.cases) == 4
    page = Page((tmp_path / "observatory.html").read_bytes())
    assert [case["name"] for case in page.cases] == [case.name for case in report.cases]
    assert "observatory.py: cpu: " in done.stderr


@pytest.mark.slow
def test_no_case_is_a_failure(tmp_path: Path) -> None:
    done = observed(tmp_path, "no such case")
    assert done.returncode == 2
    assert "no case name contains" in done.stderr
    assert not [*tmp_path.iterdir()]
