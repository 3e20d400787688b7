"""The page of what each lane does, made from reports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import policies
import pytest
from command_line import outcome
from folders import ROOT

from onnxgather.checking.report_files import open_report
from onnxgather.checking.results import Result, ResultKind, Returned


@pytest.mark.slow
def test_the_page_counts_the_cases_of_a_report(tmp_path: Path) -> None:
    report = str(tmp_path / "report.json")
    code, _, _ = outcome("check --corpus -k just-past --lanes cpu", f"--json={report}")
    assert code == 0
    page = policies.page([open_report(report)])
    printed = subprocess.run(
        [sys.executable, policies.__file__, report], capture_output=True
    )
    assert (printed.returncode, printed.stdout) == (0, page.encode())
    assert page.startswith(policies.HEAD)
    assert "| policy | `cpu` |\n| --- | --- |\n| clamp | right 16 |\n" in page
    assert "| error | refused 16 |\n" in page
    assert "| GATHER, rank 5 |  |\n" in page
    assert "- `cpu`: CPUExecutionProvider, onnxruntime 1." in page
    (lane,) = [line for line in page.splitlines() if line.startswith("- `cpu`: ")]
    assert lane.endswith("; only cases with an index out of range are counted")


@pytest.mark.parametrize(
    ("result", "word"),
    [
        (Result("a", "PASS", ResultKind.SAME), "right"),
        (Result("a", "PASS", ResultKind.SAME, by_directml=True), "DirectML's"),
        (Result("a", "KNOWN", ResultKind.NOT_RUN, found="NOT-RUN"), "not run"),
        (Result("a", "KNOWN", ResultKind.ELEMENTS, found="DIFF"), "wrong"),
        (Result("a", "ERROR", ResultKind.BROKEN), "failed"),
        (
            Result("a", "DIFF", ResultKind.NOT_REFUSED, returned=Returned.OTHER),
            "another",
        ),
        (Result("a", "DIFF", ResultKind.NOT_REFUSED), "an output"),
    ],
)
def test_each_result_has_a_word(result: Result, word: str) -> None:
    assert policies.word(result) == word


def test_the_page_of_the_repository_has_each_lane_and_policy() -> None:
    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    assert page.startswith(policies.HEAD)
    names = ["cpu", "directml-dll", "directml", "openvino"]
    names += ["web-wasm", "web-webgpu", "web-webnn", "webnn"]
    columns = " | ".join(f"`{name}`" for name in names)
    for head in ("policy", "gather", "data"):
        assert f"\n| {head} | {columns} |\n" in page
    for name in names:
        assert f"\n- `{name}`: " in page
