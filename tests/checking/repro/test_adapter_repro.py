"""Repros of lanes on runtimes that are no providers, with a stand-in for a runtime."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lane_cases import pair
from planted_adapter import planted

from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.foreign_memory import REPORT_PRIVATELY
from onnxgather.checking.lanes.runtime import RuntimeLane
from onnxgather.checking.repro.flow import Outcome, make_repro
from onnxgather.checking.repro.folder import SPECIFICATION

CASE = pair(-1, 2, name="pair")
OUTSIDE = replace(CASE, indices=np.array([9, 2]))

WITHOUT_NEGATIVES = """
def gather(data, indices):
    return data[np.maximum(indices, 0)]
"""
FOREIGN = """
def gather(data, indices):
    inside = (indices >= -len(data)) & (indices < len(data))
    output = data[np.where(inside, indices, 0)]
    output[~inside] = np.frombuffer(os.urandom(4), np.uint8).sum() + 7
    return output
"""
ENDS = """
def gather(data, indices):
    if (indices >= len(data)).any():
        os.kill(os.getpid(), signal.SIGSEGV)
    return data[indices]
"""
SYSTEM = (
    f"planted 1.2.3, numpy {np.__version__}, Python {platform.python_version()}, "
    f"{platform.platform()}\n"
)


def made(folder: Path, change: str, case: DescriptorCase) -> Outcome:
    """Return what becomes of a case on the planted adapter, changed."""
    lane = RuntimeLane("planted", planted(folder, change), timeout=30)
    with closing(lane):
        return make_repro(case, lane, str(folder / "out"))


def rerun(folder: Path) -> tuple[int, str, str]:
    """Run a written repro.py again, by hand and from elsewhere."""
    # Not onnxgather's environment: nothing but numpy may be needed.
    command = [sys.executable, "-I", str(folder / "out" / "repro.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    return done.returncode, done.stdout, done.stderr


def issue(folder: Path) -> str:
    """Return the text of a written issue, with a blank for each line break."""
    text = (folder / "out" / "ISSUE.md").read_text("utf-8")
    return " ".join(text.split())


def test_a_fault_becomes_a_folder_that_needs_the_runtime_alone(tmp_path: Path) -> None:
    outcome = made(tmp_path, WITHOUT_NEGATIVES, CASE)
    folder = tmp_path / "out"
    title = "planted returns wrong elements for Gather of FLOAT32 data by INT64 indices"
    assert outcome.text == f"{folder}: {title}; repro.py shows it"
    assert sorted(os.listdir(folder)) == [
        "ISSUE.md",
        "SHA256SUMS",
        "adapter.py",
        "expected.npy",
        "inputs.npz",
        "model.onnx",
        "program.json",
        "repro.py",
    ]
    adapter = (tmp_path / "planted.py").read_text("utf-8")
    assert (folder / "adapter.py").read_text("utf-8") == adapter
    printed = (
        f"{SYSTEM}InputTensor: float32 [2]\n    [1., 2.]\nIndicesTensor: int64 [1]\n"
        "    [-1]\nexpected: float32 [1]\n    [2.]\nplanted ran Gather\n"
        "actual: float32 [1]\n    [1.]\n"
        "It differs: 1 of 1 elements, first OutputTensor[0]: expected 2.0 (bytes 00 00"
        " 00 40), actual 1.0 (bytes 00 00 80 3f).\n"
    )
    assert rerun(tmp_path) == (1, printed, "")
    text = issue(tmp_path)
    assert text.startswith(f"# {title} ## Versions - `python ")
    assert " - `planted 1.2.3` - " in text
    said = f'ONNX says of the indices of Gather: "{SPECIFICATION}"'
    every = "All indices are in range, so every policy gives the same."
    assert f"## What is right {said} {every} ## Actual" in text
    assert REPORT_PRIVATELY not in text
    how = (
        "`python repro.py`, where planted and numpy are installed, runs `model.onnx` on"
        " `inputs.npz`, by `adapter.py` beside it. Its exit code is 1 where it differs,"
        " 0 where it does not, and 3 where planted is not installed. If planted ends"
        " its process, the script ends with it."
    )
    assert f"## How to run it {how} `program.json` says" in text


@pytest.mark.slow
def test_foreign_memory_is_to_be_reported_privately_first(tmp_path: Path) -> None:
    outcome = made(tmp_path, FOREIGN, OUTSIDE)
    title = "planted returns an output for Gather with an index out of range"
    assert outcome.text == f"{tmp_path / 'out'}: {title}; repro.py shows it"
    code, printed, _ = rerun(tmp_path)
    assert code == 1
    assert (
        "\nIts runs return different outputs: they hold memory that is not the"
        " model's.\nIt differs: there is an output where there must be an error.\n"
        in printed
    )
    text = issue(tmp_path)
    assert text.startswith(
        f"# {title} **Not for a public issue yet.** {REPORT_PRIVATELY} ## Versions"
    )
    assert (
        "Two answers are safe. The first is an error, as ONNX Runtime's CPU provider"
        " gives. The second is what WebNN asks for: an index out of range moves to the"
        " nearest element of its own axis, below -n to element 0, and the output is"
        " OutputTensor: float32 [1] [1.] ## Actual" in text
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
def test_a_script_that_ends_shows_that_the_runtime_ends(tmp_path: Path) -> None:
    outcome = made(tmp_path, ENDS, OUTSIDE)
    gather = "Gather of FLOAT32 data by INT64 indices"
    title = f"planted ends its process in {gather}"
    assert outcome.text == f"{tmp_path / 'out'}: {title}; repro.py shows it"
    code, printed, _ = rerun(tmp_path)
    assert code == -11
    # What was printed before the end is not lost.
    assert printed.endswith(
        "\nexpected: an error, as IndicesTensor[0] must be in [-1, 1), got 1\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "does"),
    [
        ("os.urandom(4)", "returns memory that is not the model's for"),
        ("b'\x07\x07\x07\x07'", "returns wrong elements for"),
    ],
)
def test_the_title_says_what_was_returned(
    tmp_path: Path, values: str, does: str
) -> None:
    change = f"""
    def gather(data, indices):
        output = data[indices]
        output[:1] = np.frombuffer({values}, np.float32)
        return output
    """
    outcome = made(tmp_path, change, CASE)
    gather = "Gather of FLOAT32 data by INT64 indices"
    title = f"planted {does} {gather}; repro.py shows it"
    assert outcome.text == f"{tmp_path / 'out'}: {title}"


@pytest.mark.slow
def test_ran_is_called_behind_the_runs(tmp_path: Path) -> None:
    change = """
    def load(model, name):
        def run(inputs):
            run.kinds = ["Gather"] if b"Gather" in model else ["Add"]
            indices = np.maximum(inputs["IndicesTensor"], 0).astype(np.int64)
            return {"OutputTensor": inputs["InputTensor"][indices]}
        return run

    def ran(loaded):
        return loaded.kinds
    """
    made(tmp_path, change, CASE)
    code, printed, _ = rerun(tmp_path)
    assert (code, printed.count("\nplanted ran Gather\nactual: float32 [1]\n")) == (
        1,
        1,
    )


@pytest.mark.slow
def test_what_the_nodes_see_to_is_said_where_a_policy_bounds_indices(
    tmp_path: Path,
) -> None:
    zeros_outside = """
    def gather(data, indices):
        return data[indices % len(data)] * (indices < len(data))
    """
    made(tmp_path, zeros_outside, replace(OUTSIDE, out_of_range="clamp"))
    assert (
        "The nodes of `model.onnx` see to it that no index of the Gather is out of"
        " range: an index out of range moves to the nearest element of its own axis,"
        " below -n to element 0. ## Actual" in issue(tmp_path)
    )


@pytest.mark.slow
def test_a_script_without_the_runtime_says_so(tmp_path: Path) -> None:
    made(tmp_path, WITHOUT_NEGATIVES, CASE)
    adapter = tmp_path / "out" / "adapter.py"
    adapter.write_text("import no_such_runtime", "utf-8")
    cause = "No module named 'no_such_runtime'"
    assert rerun(tmp_path) == (3, f"planted is not there: {cause}\n", "")


def test_another_version_than_that_of_a_report_runs_nothing(tmp_path: Path) -> None:
    lane = RuntimeLane("planted", planted(tmp_path, WITHOUT_NEGATIVES), timeout=30)
    with closing(lane):
        info = lane.start()
        older = {**info.versions, "planted": "1.2.2"}
        reported = type(info)("planted", "planted", older, target="portable")
        out = str(tmp_path / "out")
        outcome = make_repro(CASE, lane, out, reported=reported)
    versions = ", ".join(f"{package} {version}" for package, version in older.items())
    assert outcome.text == (
        f"lane 'planted' of the report ran with '{versions}', but here is planted"
        " 1.2.3; give its environment: --lane NAME=PATH"
    )
    assert outcome.folder is None


TWO_RUNS = """
data[indices] + np.float32(1) | returns wrong elements for Gather of FLOAT32 data by INT64 indices | True
data[np.clip(indices, 0, 3)] | returns an output for Gather with an index out of range | False
data[np.clip(indices, 0, 3)] + np.float32(1) | returns an output for Gather with an index out of range | False
"""  # noqa: E501
"""What a runtime returns, what its repro shows, and whether all indices of that are in
range."""


@pytest.mark.slow
@pytest.mark.parametrize("row", TWO_RUNS.strip().splitlines())
def test_the_run_that_is_wrong_is_reduced(row: str, tmp_path: Path) -> None:
    returned, does, in_range = row.split(" | ")
    outcome = made(tmp_path, f"gather = lambda data, indices: {returned}", OUTSIDE)
    assert outcome.text == f"{tmp_path / 'out'}: planted {does}; repro.py shows it"
    assert outcome.case.in_range == (in_range == "True")
    assert rerun(tmp_path)[0] == 1
