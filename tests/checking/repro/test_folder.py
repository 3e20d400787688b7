"""The folder of a repro: its script, its issue, written whole or not at all."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np
import onnx
import pytest
from messages import message_of
from repro_cases import CASE, GATHERS, INFO, OUTSIDE, STUB, rerun
from rings import one_quick_in
from short_descriptors import descriptor
from stub_runtime import environment

from onnxgather.checking.cases import Case, DescriptorCase, ForbiddenNode, NodeCase
from onnxgather.checking.judge import judge
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.checking.repro.folder import Difference, trials_of, write_folder
from onnxgather.checking.results import Result, ResultKind
from onnxgather.core.checks import printable
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution import runtime
from onnxgather.core.options import OutOfRange

DIFFERENT = Result("cpu", "DIFF", ResultKind.SHAPE, "expected shape [3, 4], got [3]")


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Return what the script in a folder did."""
    command = [sys.executable, *options, str(folder / "repro.py")]
    return subprocess.run(command, capture_output=True, text=True, cwd="/")


def write(folder: Path, case: Case = CASE, info: LaneInfo = INFO) -> None:
    *_, trial = trials_of(case, "portable")
    write_folder(str(folder), Difference(case, info, DIFFERENT), trial)


@pytest.mark.parametrize(
    "policy", one_quick_in(4, ["clamp", "zero", "error", "directml"])
)
def test_onnx_runtime_passes_what_is_right(tmp_path: Path, policy: OutOfRange) -> None:
    case = CASE if policy == "error" else replace(OUTSIDE, out_of_range=policy)
    for number, trial in enumerate(trials_of(case, "cpu")):
        folder = tmp_path / str(number)
        write_folder(str(folder), Difference(case, INFO, DIFFERENT), trial)
        done = run(folder)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith("\nIt does not differ.\n")


def test_onnx_runtime_refuses_what_it_must(tmp_path: Path) -> None:
    write(tmp_path / "out", OUTSIDE)
    done = run(tmp_path / "out")
    assert done.returncode == 0
    assert "\nactual: CPUExecutionProvider fails: " in done.stdout


def test_a_script_says_that_its_provider_is_not_there(tmp_path: Path) -> None:
    info = LaneInfo("none", "NoExecutionProvider")
    write(tmp_path / "out", info=info)
    done = run(tmp_path / "out")
    assert done.returncode == 3
    last = done.stdout.splitlines()[-1]
    start = "NoExecutionProvider did not run the model: onnxruntime has only "
    assert last.startswith(start)


@pytest.mark.parametrize(
    ("change", "why"),
    one_quick_in(
        3,
        [
            (
                "PLACE = 'CPUExecutionProvider'",
                (
                    "it did not get every node: Gather (Gather) runs on"
                    " CPUExecutionProvider"
                ),
            ),
            ("NODES = []", "it did not get any node: none is left to run"),
            (
                (
                    "class InferenceSession:\n    def __init__(self,"
                    " *_, **__):\n      "
                    "  raise RuntimeError('nodes were assigned to"
                    " the default CPU EP')"
                ),
                (
                    "it did not get every node: some node would run on"
                    " CPUExecutionProvider"
                ),
            ),
        ],
    ),
)
def test_a_script_says_why_its_provider_did_not_run_the_model(
    tmp_path: Path, change: str, why: str
) -> None:
    tmp_path.joinpath("environment").mkdir()
    environment(tmp_path / "environment", change)
    write(tmp_path / "out", info=LaneInfo("stub", STUB))
    code, printed = rerun(tmp_path)
    assert code == 3
    assert printed.splitlines()[-1] == f"{STUB} did not run the model: {why}"


def test_a_script_has_a_sentence_for_whatever_keeps_a_model_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "out")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "runtime", runtime)
    script = runpy.run_path(str(tmp_path / "out" / "repro.py"), {}, "repro")
    assert set(script["WHY"]) == set(get_args(runtime.NotRunKind))
    assert all(why.format("x") for why in script["WHY"].values())


def test_a_plugin_library_is_registered(tmp_path: Path) -> None:
    tmp_path.joinpath("environment").mkdir()
    change = """
        PROVIDERS, DEVICES = [], []
        def register_execution_provider_library(name, library):
            print("registered", name, library)
            hardware = Any_(type="OrtHardwareDeviceType.GPU", vendor="Maker")
            DEVICES.append(Any_(ep_name=name, ep_metadata={}, device=hardware))
        def get_ep_devices(): return DEVICES
        class SessionOptions(SessionOptions):
            def add_provider_for_devices(self, devices, options): print("for", len(devices), options)
        """  # noqa: E501
    environment(tmp_path / "environment", GATHERS + textwrap.dedent(change))
    *_, trial = trials_of(CASE, "portable", "/lib/stub.so")
    info = LaneInfo(
        "stub@GPU:0", STUB, plugin="/lib/stub.so", provider_options={"a": "'b"}
    )
    finding = Difference(CASE, info, DIFFERENT)
    write_folder(str(tmp_path / "out"), finding, trial)
    how = f"{STUB} is in a plugin library: `python repro.py LIBRARY` names yours."
    text = (tmp_path / "out" / "ISSUE.md").read_text()
    assert how in text.replace("\n", " ")
    assert "- `a='b`\n- `plugin library stub.so`\n" in text
    code, printed = rerun(tmp_path)
    assert code == 0
    chosen = "for 1 {'a': \"'b\"}\n"
    assert f"registered {STUB} /lib/stub.so\n{chosen}" in printed
    code, printed = rerun(tmp_path, "mine.so")
    assert code == 0
    assert f"registered {STUB} /mine.so\n{chosen}" in printed


def test_the_plainest_run_is_one_node_on_its_own_shapes() -> None:
    desc = descriptor("GATHER_ND: FLOAT32 4x3, INT64 2x2, FLOAT32 1x2, 2, 2")
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    case = DescriptorCase("tuples", desc, data, np.array([[1, 2], [-1, 0]]), "error")
    trials = list(trials_of(case, "portable"))
    models = [onnx.ModelProto.FromString(trial.question.model) for trial in trials]
    found = [[node.op_type for node in model.graph.node] for model in models]
    assert found == [["GatherND"], ["Reshape", "GatherND"]]
    shapes = [trial.expected.shape for trial in trials if trial.expected is not None]
    assert shapes == [(2,), (1, 2)]
    node = ForbiddenNode("Gather", {"axis": 9}, (), "axis")
    forbidden = NodeCase("forbidden", node, case.data, case.indices)
    assert len(list(trials_of(forbidden, "portable"))) == 1
    assert len(list(trials_of(replace(case, out_of_range="clamp"), "portable"))) == 1


def test_the_issue_of_a_strided_case(tmp_path: Path) -> None:
    desc = descriptor(
        "GATHER_ND1: FLOAT16 2x40 strides 1x2, UINT32 2x1 strides 0x1,"
        " FLOAT16 1x2 strides 5x3, 2, 2, 1"
    )
    data = np.arange(80, dtype=np.float16)
    case = DescriptorCase("strided", desc, data, np.array([7], np.uint32))
    answer = Answer(AnswerKind.RAN, None, ("Gather",), np.zeros(4, np.float16))
    result = judge(case, INFO, answer)
    *_, trial = trials_of(case, "portable")
    write_folder(str(tmp_path / "out"), Difference(case, INFO, result), trial)
    text = (tmp_path / "out" / "ISSUE.md").read_text()
    assert text.startswith(
        "# CPUExecutionProvider returns wrong elements for GatherND of FLOAT16 data"
        " by UINT32 indices\n"
    )
    assert (
        "ONNX's `GatherND` with `batch_dims=1`, on data FLOAT16 [2, 40] and indices"
        " UINT32 [2, 1]; in DirectML `DML_OPERATOR_GATHER_ND1`, with"
        " InputTensor.Strides [1, 2] and IndicesTensor.Strides [0, 1] and"
        " OutputTensor.Strides [5, 3] in elements. It computes `out[0, a] = in[a,"
        " idx[a, 0]]` for `a < 2`; in range is 0 <= idx < 40; an index out of range"
        " is clamped." in text.replace("\n", " ")
    )
    assert "InputTensor: float16 [80]\n\nIndicesTensor: uint32 [1]\n\n    [7]\n" in text
    assert (
        "## Expected\n\nOutputTensor: float16 [4]\n\n    [14.,  0.,  0.,"
        " 15.]\n\nThe first element that differs: `output[0,0] = input[0,"
        " indices[0, 0]] = input[0, 7] = 14 (buffer\noffsets: output 0, indices 0,"
        " input 14)`.\n\n## Actual\n\n    2 of 4 elements differ, first"
        " OutputTensor[0]: expected 14.0 (00 4b)" in text
    )


def test_an_earlier_repro_is_replaced(tmp_path: Path) -> None:
    write(tmp_path / "out")
    write(tmp_path / "out", OUTSIDE)
    assert not (tmp_path / "out" / "expected.npy").exists()
    assert os.listdir(tmp_path) == ["out"]


def test_an_issue_names_the_types_that_stand_for_others(tmp_path: Path) -> None:
    *_, trial = trials_of(CASE, "portable")
    result = msgspec.structs.replace(DIFFERENT, given_as="indices as INT32")
    write_folder(str(tmp_path / "out"), Difference(CASE, INFO, result), trial)
    told = (
        "\n\n`model.onnx` has, for types that the provider lacks, indices as INT32.\n\n"
    )
    assert told in (tmp_path / "out" / "ISSUE.md").read_text()


HOSTILE = (
    "a\n\n# b\n```\n<b>$(touch x)`touch x`\u2028- c\x1b]\r\"\"\"\nopen('x', 'w')\n\\"
)
"""Text that would be Python, Markdown, a command or a terminal's sequence if it
    could."""


def hostile(folder: Path, info: LaneInfo, printed: str | None = None) -> None:
    """Write a repro whose texts of others are hostile."""
    node = ForbiddenNode("Gather", {"axis": 2}, (3, 4), HOSTILE)
    case = NodeCase(HOSTILE, node, CASE.data, np.array([1, 2, 0]))
    *_, trial = trials_of(case, "portable", HOSTILE)
    result = Result("cpu", "ERROR", ResultKind.BROKEN, HOSTILE)
    write_folder(str(folder), Difference(case, info, result), trial, printed)


def test_no_text_of_others_is_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile(tmp_path / "out", LaneInfo("cpu", HOSTILE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "runtime", runtime)
    read = runpy.run_path(str(tmp_path / "out" / "repro.py"), {}, "repro")
    assert (read["PROVIDER"], read["LIBRARY"]) == (HOSTILE, HOSTILE)
    assert read["RULE"] == printable(HOSTILE)  # as the script prints it
    assert read["__doc__"].startswith(f"{HOSTILE} ends its process in Gather of ")
    script = (tmp_path / "out" / "repro.py").read_text()
    assert len(script.splitlines()) == script.count("\n")
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("printed", [None, HOSTILE])
def test_no_text_of_others_is_markdown(tmp_path: Path, printed: str | None) -> None:
    info = LaneInfo(
        "cpu",
        "CPUExecutionProvider",
        {"x": HOSTILE},
        (HOSTILE,),
        plugin=f"x/a{HOSTILE}",
    )
    hostile(tmp_path / "out", info, printed)
    text = (tmp_path / "out" / "ISSUE.md").read_text()
    lines = text.split("\n")
    assert lines == [*text.splitlines(), ""]
    assert all(line.isprintable() for line in lines)
    title = "# CPUExecutionProvider ends its process in Gather of FLOAT32 data by INT64"
    assert [line for line in lines if line.startswith("#")] == [
        f"{title} indices",
        *(f"## {x}" for x in ("Versions", "The model", "Expected", "Actual")),
        "## How to run it",
    ]
    spans = [line for line in lines if "touch" in line and not line.startswith("    ")]
    assert [span[:5] for span in spans] == ["- `x ", "- `pl", "- `de"]
    assert all(span.count("`") == 2 and span.endswith("`") for span in spans)
    assert sum(line == "    # b" for line in lines) == 3


def test_an_earlier_repro_is_replaced_also_after_its_script_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    write(tmp_path / "out")
    before = sorted(os.listdir(tmp_path / "out"))
    subprocess.run([sys.executable, str(tmp_path / "out" / "repro.py")], check=True)
    assert sorted(os.listdir(tmp_path / "out")) == before
    write(tmp_path / "out")


def test_the_same_repro_has_the_same_bytes(tmp_path: Path) -> None:
    files: list[dict[str, bytes]] = []
    for name in ("a", "b"):
        write(tmp_path / name)
        paths = (tmp_path / name).iterdir()
        files.append({path.name: path.read_bytes() for path in paths})
    assert files[0] == files[1]
    assert files[0]["runtime.py"] == Path(runtime.__file__).read_bytes()


def test_a_script_finds_its_runtime_wherever_python_looks_for_modules(
    tmp_path: Path,
) -> None:
    write(tmp_path / "out")
    done = run(tmp_path / "out", "-I")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_sees_a_wrong_bit_that_no_comparison_of_numbers_sees(
    tmp_path: Path,
) -> None:
    case = replace(CASE, data=np.zeros((5, 4), np.float32))
    *_, trial = trials_of(case, "portable")
    assert trial.expected is not None
    trial = trial._replace(expected=-trial.expected)
    write_folder(str(tmp_path / "out"), Difference(case, INFO, DIFFERENT), trial)
    done = run(tmp_path / "out")
    assert (done.returncode, done.stderr) == (1, "")
    assert (
        done.stdout.splitlines()[-1]
        == "It differs: 12 of 12 elements, first OutputTensor[0,0]: expected -0.0"
        " (bytes 00 00 00 80), actual 0.0 (bytes 00 00 00 00)."
    )


@pytest.mark.parametrize("name", ["notes.txt", "model.onnx"])
def test_a_folder_with_something_else_is_kept(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    if name == "notes.txt":
        write(out)
    else:  # a part of a repro alone
        out.mkdir()
    (out / name).write_text("mine")
    rule = "the folder must be new, empty or an earlier repro"
    said = message_of(OnnxGatherError, write, out)
    assert said == f"{out}: {rule}, got '{name}'"
    assert (out / name).read_text() == "mine"


def test_a_repro_that_somebody_changed_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "out")
    issue = tmp_path / "out" / "ISSUE.md"
    issue.write_text("mine")
    assert (
        message_of(OnnxGatherError, write, tmp_path / "out")
        == f"{issue} must not be replaced, as somebody changed it since onnxgather"
        " wrote it; --force replaces it"
    )
    assert issue.read_text() == "mine"


def test_a_repro_goes_into_an_empty_folder(tmp_path: Path) -> None:
    tmp_path.joinpath("out").mkdir()
    write(tmp_path / "out")
    assert len(os.listdir(tmp_path / "out")) == 8


@pytest.mark.parametrize("below", ["", "below"])
def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path, below: str) -> None:
    tmp_path.joinpath("out").touch()
    folder = tmp_path / "out" / below
    said = message_of(OnnxGatherError, write, folder)
    assert said == f"{folder}: a file stands where the folder should be"


def test_a_repro_that_cannot_be_written_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "out")
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    moves, failing = os.replace, iter([OSError(28, "No space left on device")])

    def stop(source: Path, target: Path) -> None:
        if target == tmp_path / "out" / "repro.py" and (error := next(failing, None)):
            raise error
        moves(source, target)

    monkeypatch.setattr(os, "replace", stop)
    assert (
        message_of(OnnxGatherError, write, tmp_path / "out", OUTSIDE)
        == f"{tmp_path / 'out'}: no space left on device"
    )
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before
    assert os.listdir(tmp_path) == ["out"]
