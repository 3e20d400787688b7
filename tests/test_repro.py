"""From a case and a lane to a folder whose script shows the difference without onnxgather."""

from __future__ import annotations

import os
import platform
import runpy
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import onnx
import pytest
from stub_runtime import environment

import onnxgather as og
from onnxgather import runtime
from onnxgather.cases import Case, DescriptorCase, ForbiddenNode, NodeCase, Origin
from onnxgather.cli.terminal import json_bytes
from onnxgather.datatypes import TensorDataType
from onnxgather.dxdispatch import dispatches, parse_program, read_program
from onnxgather.errors import FileFormatError, OnnxGatherError
from onnxgather.lanes import open_lanes
from onnxgather.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.model import check_model
from onnxgather.options import OutOfRange
from onnxgather.parity.check import check_cases
from onnxgather.parity.judge import judge
from onnxgather.parity.results import Blob, CaseResult, Evidence, Report, Result, ResultKind
from onnxgather.repro import flow
from onnxgather.repro.flow import Outcome, make_repro
from onnxgather.repro.folder import write_folder
from onnxgather.repro.issue import Finding
from onnxgather.repro.sources import (
    case_of_finding,
    case_of_program,
    lane_of_finding,
    read_findings,
)
from onnxgather.repro.trial import trials_of

STUB = "StubExecutionProvider"

GATHERS = """
SCRIPT = sys.argv[0].endswith("repro.py")
class InferenceSession(InferenceSession):
    def compute(self, data, indices):
        n = data.shape[0]
        if (indices >= n).any() or (indices < -n).any():
            raise RuntimeError("index out of range, " + str(indices.max()))
        found = data[indices.astype(np.int64)]
        return found.reshape(found.shape[found.ndim - self.rank(data, indices):])
    def rank(self, data, indices):
        return data.ndim - 1 + (indices.ndim if data.ndim == 1 else 1)
"""
"""A provider that takes rows of the data, and runs whatever model it is given. SCRIPT tells whether
a repro.py asks it, or else a worker."""

NEGATIVE = """
class InferenceSession(InferenceSession):
    def compute(self, data, indices):
        return super().compute(data, np.maximum(indices, 0))
"""

DESC = og.GatherDesc(
    og.TensorDesc("FLOAT32", [5, 4]),
    og.TensorDesc("INT64", [1, 3]),
    og.TensorDesc("FLOAT32", [3, 4]),
    axis=0,
    index_dimensions=1,
)
CASE = DescriptorCase(
    "rows", DESC, np.arange(20, dtype=np.float32).reshape(5, 4), np.array([[1, -2, 4]]), "error"
)
OUTSIDE = replace(CASE, indices=np.array([[1, 7, 4]]))


def made(tmp_path: Path, change: str, case: Case = CASE, **options: Any) -> Outcome:
    """Return what becomes of a case on the stand-in of ONNX Runtime, changed."""
    tmp_path.joinpath("environment").mkdir()
    python = environment(tmp_path / "environment", GATHERS + textwrap.dedent(change))
    (lane,) = open_lanes([STUB], {STUB: python})
    with closing(lane):
        return make_repro(case, lane, str(tmp_path / "out"), **options)


def rerun(tmp_path: Path) -> tuple[int, str]:
    """Run a written repro.py again, by hand and from elsewhere."""
    python = str(tmp_path / "environment" / "python")
    command = [python, str(tmp_path / "out" / "repro.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    return done.returncode, done.stdout + done.stderr


SYSTEM = (
    f"onnxruntime 9.9.9, numpy {np.__version__}, Python {platform.python_version()}, "
    f"{platform.platform()}"
)


class TestTheFlow:
    def test_a_fault_becomes_a_folder(self, tmp_path: Path) -> None:
        outcome = made(tmp_path, NEGATIVE)
        folder = tmp_path / "out"
        assert outcome.text == (
            f"{folder}: {STUB} returns wrong elements for Gather of FLOAT32 data by INT64 indices; "
            "repro.py shows it"
        )
        assert (outcome.shown, outcome.folder) == (True, str(folder))
        assert outcome.result.state == "DIFF"
        assert sorted(os.listdir(folder)) == [
            "ISSUE.md",
            "expected.npy",
            "inputs.npz",
            "model.onnx",
            "program.json",
            "repro.py",
            "runtime.py",
        ]
        assert outcome.case.indices.reshape(-1).tolist() == [-1]
        assert outcome.case.data.reshape(-1).tolist() == [1, 2]
        assert rerun(tmp_path) == (
            1,
            f"{SYSTEM}\n"
            "InputTensor: float32 [2]\n    [1., 2.]\n"
            "IndicesTensor: int64 [1]\n    [-1]\n"
            "expected: float32 [1]\n    [2.]\n"
            f"node Gather (Gather) runs on {STUB}\n"
            "actual: float32 [1]\n    [1.]\n"
            "It differs: 1 of 1 elements, first OutputTensor[0]: expected 2.0 (bytes 00 00 00 40), "
            "actual 1.0 (bytes 00 00 80 3f).\n",
        )

    def test_the_model_is_one_node_of_onnx(self, tmp_path: Path) -> None:
        made(tmp_path, NEGATIVE)
        model = onnx.ModelProto.FromString((tmp_path / "out" / "model.onnx").read_bytes())
        check_model(model)
        assert [node.op_type for node in model.graph.node] == ["Gather"]

    def test_the_program_says_the_same(self, tmp_path: Path) -> None:
        outcome = made(tmp_path, NEGATIVE)
        (found,) = dispatches(read_program(str(tmp_path / "out" / "program.json")), og.reference)
        assert isinstance(outcome.case, DescriptorCase)
        assert found.descriptor == outcome.case.descriptor
        assert found.data.tobytes() == outcome.case.data.tobytes()
        expected = np.load(tmp_path / "out" / "expected.npy")
        assert found.output.tobytes() == expected.tobytes()

    def test_not_reduced(self, tmp_path: Path) -> None:
        outcome = made(tmp_path, NEGATIVE, reduce=False)
        assert outcome.case is CASE
        assert outcome.shown
        with np.load(tmp_path / "out" / "inputs.npz") as inputs:
            assert inputs["InputTensor"].tobytes() == CASE.data.tobytes()
        code, printed = rerun(tmp_path)
        assert code == 1
        assert "4 of 12 elements, first OutputTensor[1,0]: expected 12.0 (" in printed

    def test_what_must_be_refused(self, tmp_path: Path) -> None:
        outcome = made(
            tmp_path,
            "class InferenceSession(InferenceSession):\n"
            "    def compute(self, data, indices):\n"
            "        inside = np.clip(indices, 0, data.shape[0] - 1)\n"
            "        return super().compute(data, inside) * (indices == inside).all()\n",
            OUTSIDE,
        )
        title = f"{STUB} returns an output for Gather with an index out of range"
        assert outcome.text == f"{tmp_path / 'out'}: {title}; repro.py shows it"
        assert not (tmp_path / "out" / "expected.npy").exists()
        rule = "IndicesTensor[0] must be in [-1, 1), got 1"
        assert rerun(tmp_path) == (
            1,
            f"{SYSTEM}\n"
            "InputTensor: float32 [1]\n    [1.]\n"
            "IndicesTensor: int64 [1]\n    [1]\n"
            f"expected: an error, as {rule}\n"
            f"node Gather (Gather) runs on {STUB}\n"
            "actual: float32 [1]\n    [0.]\n"
            "It differs: there is an output where there must be an error.\n",
        )
        assert (tmp_path / "out" / "ISSUE.md").read_text() == (
            f"# {title}\n\n"
            "## Versions\n\n"
            f"- {STUB}\n- python {platform.python_version()}\n- numpy {np.__version__}\n"
            f"- onnxruntime 9.9.9\n- {platform.system()} {platform.machine()}\n\n"
            "## The model\n\n"
            "ONNX's `Gather` with `axis=0`, on data FLOAT32 [1] and indices INT64 [1]; in "
            "DirectML\n`DML_OPERATOR_GATHER`. It computes `out[0] = in[idx[0]]`; in range is -1 <= "
            "idx < 1, from the end\nwhere negative; an index out of range is an error.\n\n"
            "InputTensor: float32 [1]\n\n    [1.]\n\n"
            "IndicesTensor: int64 [1]\n\n    [1]\n\n"
            f"## Expected\n\nAn error: {rule}.\n\n"
            "## Actual\n\n`repro.py` prints:\n\n"
            f"    {SYSTEM}\n"
            "    InputTensor: float32 [1]\n        [1.]\n"
            "    IndicesTensor: int64 [1]\n        [1]\n"
            f"    expected: an error, as {rule}\n"
            f"    node Gather (Gather) runs on {STUB}\n"
            "    actual: float32 [1]\n        [0.]\n"
            "    It differs: there is an output where there must be an error.\n\n"
            "## How to run it\n\n"
            "`python repro.py`, where onnxruntime and numpy are installed, runs `model.onnx` on "
            "`inputs.npz` with\n"
            f"{STUB} alone, by `runtime.py` beside it. Its exit code is 1 where it differs, 0 "
            "where\nit does not, and 3 where the provider did not run the model.\n\n"
            "`program.json` says the same to dxdispatch, for DirectML itself.\n"
        )

    def test_a_provider_that_fails(self, tmp_path: Path) -> None:
        change = "    def compute(self, data, indices): raise RuntimeError('no kernel for 7')\n"
        outcome = made(tmp_path, "class InferenceSession(InferenceSession):\n" + change)
        title = f"{STUB} fails in Gather of FLOAT32 data by INT64 indices"
        assert outcome.text == f"{tmp_path / 'out'}: {title}; repro.py shows it"
        code, printed = rerun(tmp_path)
        assert code == 1
        assert printed.endswith(
            f"actual: {STUB} fails: no kernel for 7\nIt differs: there is an error and no output.\n"
        )
        assert max(outcome.case.data.size, outcome.case.indices.size) == 1

    def test_a_provider_that_refuses_the_model(self, tmp_path: Path) -> None:
        change = """
        class InferenceSession(InferenceSession):
            def __init__(self, model, *more, **options):
                if b"Mul" not in model:
                    raise ValueError("not a model for us")
                super().__init__(model, *more, **options)
        """
        outcome = made(tmp_path, change)
        title = f"{STUB} refuses Gather of FLOAT32 data by INT64 indices"
        assert outcome.text == f"{tmp_path / 'out'}: {title}; repro.py shows it"
        assert rerun(tmp_path)[1].endswith(
            f"actual: {STUB} refuses the model: not a model for us\n"
            "It differs: there is an error and no output.\n"
        )

    def test_a_provider_that_takes_the_host_down(self, tmp_path: Path) -> None:
        change = """
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                os.kill(os.getpid(), signal.SIGSEGV)
        """
        probe = "if data.size == 3: return data[indices]\n                "
        outcome = made(tmp_path, change.replace("os.kill", probe + "os.kill"))
        title = f"{STUB} takes the host down in Gather of FLOAT32 data by INT64 indices"
        assert outcome.text == f"{tmp_path / 'out'}: {title}; repro.py shows it"
        assert rerun(tmp_path)[0] == -11
        issue = (tmp_path / "out" / "ISSUE.md").read_text()
        assert "## Actual\n\nThe worker died of SIGSEGV and printed nothing.\n\n" in issue

    def test_where_all_is_well_there_is_no_folder(self, tmp_path: Path) -> None:
        outcome = made(tmp_path, "")
        assert outcome.text == f"case 'rows' passes on lane {STUB}: nothing to reproduce"
        assert (outcome.result.state, outcome.folder) == ("PASS", None)
        assert not (tmp_path / "out").exists()

    def test_a_case_that_does_not_run(self, tmp_path: Path) -> None:
        outcome = made(tmp_path, "PLACE = 'CPUExecutionProvider'")
        assert outcome.result.state == "NOT-RUN"
        assert outcome.text == (
            f"case 'rows' did not run on lane {STUB}: {STUB} must run every node, but Gather "
            "(Gather) runs on CPUExecutionProvider"
        )
        assert not (tmp_path / "out").exists()

    def test_a_lane_that_does_not_start(self, tmp_path: Path) -> None:
        (lane,) = open_lanes(["openvino"], {"openvino": str(tmp_path / "python")})
        outcome = make_repro(CASE, lane, str(tmp_path / "out"))
        assert outcome.result.state == "NOT-RUN"
        assert outcome.text == f"{tmp_path / 'python'} does not start: No such file or directory"

    def test_a_script_that_does_not_show_it(self, tmp_path: Path) -> None:
        change = """
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                right = super().compute(data, indices)
                return right if SCRIPT else -right
        """
        outcome = made(tmp_path, change)
        assert not outcome.shown
        assert outcome.text == (
            f"{tmp_path / 'out'}: {STUB} returns wrong elements for Gather of FLOAT32 data by "
            "INT64 indices; but repro.py does not show it: it ended with exit code 0 and said: It "
            "does not differ."
        )
        assert rerun(tmp_path)[0] == 0
        issue = (tmp_path / "out" / "ISSUE.md").read_text()
        assert "## Actual\n\n1 of 1 elements differ, first OutputTensor[0]: expected 1.0 (" in issue

    def test_a_script_that_does_not_end(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(flow, "LONGEST_RUN", 1.0)
        change = """
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                if SCRIPT: time.sleep(60)
                return -super().compute(data, indices)
        """
        outcome = made(tmp_path, change)
        assert outcome.text.endswith("; but repro.py does not show it: it did not end within 1 s")

    def test_a_script_that_fails(self, tmp_path: Path) -> None:
        change = """
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                if SCRIPT: return None
                return -super().compute(data, indices)
        """
        outcome = made(tmp_path, change)
        assert outcome.text.endswith(
            "; but repro.py does not show it: it ended with exit code 1 and said: AttributeError: "
            "'NoneType' object has no attribute 'dtype'"
        )

    def test_an_interpreter_that_does_not_start(self, tmp_path: Path) -> None:
        tmp_path.joinpath("environment").mkdir()
        python = environment(tmp_path / "environment", GATHERS + NEGATIVE)
        (lane,) = open_lanes([STUB], {STUB: python})
        with closing(lane):
            outcome = make_repro(
                CASE, lane, str(tmp_path / "out"), tried=lambda: Path(python).unlink(True)
            )
        assert outcome.text.endswith(
            f"; but repro.py does not show it: {python} does not start: No such file or directory"
        )

    def test_memory_that_nobody_wrote_differs_only_sometimes(self, tmp_path: Path) -> None:
        change = """
        class InferenceSession(InferenceSession):
            runs = 0
            def compute(self, data, indices):
                self.runs += 1
                late = self.runs == 3 or not SCRIPT
                return super().compute(data, indices) * (-1 if late else 1)
        """
        outcome = made(tmp_path, change)
        assert outcome.shown

    def test_a_folder_of_others_is_refused_before_anything_runs(self, tmp_path: Path) -> None:
        tmp_path.joinpath("out").mkdir()
        tmp_path.joinpath("out", "mine").touch()
        (lane,) = open_lanes(["openvino"], {"openvino": str(tmp_path / "python")})
        with pytest.raises(OnnxGatherError) as caught:
            make_repro(CASE, lane, str(tmp_path / "out"))
        assert str(caught.value) == (
            f"{tmp_path / 'out'}: the folder must be new, empty or an earlier repro, got 'mine'"
        )

    def test_wrapped(self, tmp_path: Path) -> None:
        change = """
        class InferenceSession(InferenceSession):
            def run(self, _, feeds, options):
                wrong = "One" in feeds and len(feeds["InputTensor"]) > 1
                return [super().run(_, feeds, options)[0] * (-1 if wrong else 1)]
        """
        outcome = made(tmp_path, change, CASE.wrapped_in())
        assert outcome.case.wrapped
        assert outcome.shown
        model = onnx.ModelProto.FromString((tmp_path / "out" / "model.onnx").read_bytes())
        assert [node.op_type for node in model.graph.node] == ["Mul", "Gather", "Mul"]
        issue = (tmp_path / "out" / "ISSUE.md").read_text()
        assert "between two multiplications by one; in DirectML" in issue.replace("\n", " ")

    def test_a_forbidden_node(self, tmp_path: Path) -> None:
        rule = "axis must be in [-2, 2), got 2"
        node = ForbiddenNode("Gather", {"axis": 2}, (3, 4), rule)
        case = NodeCase("bare", node, CASE.data, np.array([1, 2, 0]))
        outcome = made(tmp_path, "", case)
        title = f"{STUB} runs a Gather that ONNX forbids"
        assert outcome.text == f"{tmp_path / 'out'}: {title}; repro.py shows it"
        assert isinstance(outcome.case, NodeCase)
        assert outcome.case.node.rule == "axis must be in [-1, 1), got 1"
        assert not (tmp_path / "out" / "program.json").exists()
        issue = (tmp_path / "out" / "ISSUE.md").read_text()
        assert (
            "ONNX's `Gather` with `axis=1`, on data FLOAT32 [1] and indices INT64 []. ONNX does "
            "not allow it: axis must be in [-1, 1), got 1."
        ) in issue.replace("\n", " ")
        assert "dxdispatch" not in issue

    def test_a_lane_without_onnx_runtime_is_refused(self, tmp_path: Path) -> None:
        class Lane:
            name = "directml-dll"

            def start(self) -> LaneInfo:
                return LaneInfo("directml-dll", "DirectML.dll")

            def answer(self, case: Case) -> Answer:
                raise AssertionError(case)

            def close(self) -> None:
                pass

        with pytest.raises(OnnxGatherError) as caught:
            make_repro(CASE, Lane(), str(tmp_path / "out"))
        assert str(caught.value) == "lane 'directml-dll' must run ONNX models, but runs none"


INFO = LaneInfo("cpu", "CPUExecutionProvider", {"onnxruntime": "9.9.9"}, python=sys.executable)
DIFFERENT = Result("cpu", "DIFF", ResultKind.SHAPE, "expected shape [3, 4], got [3]")


class TestTheFolder:
    def write(self, folder: Path, case: Case = CASE, info: LaneInfo = INFO) -> None:
        *_, trial = trials_of(case, "portable")
        write_folder(str(folder), Finding(case, info, DIFFERENT), trial)

    @pytest.mark.parametrize("policy", ["clamp", "zero", "error", "directml"])
    def test_onnx_runtime_passes_what_is_right(self, tmp_path: Path, policy: OutOfRange) -> None:
        case = CASE if policy == "error" else replace(OUTSIDE, out_of_range=policy)
        for number, trial in enumerate(trials_of(case, "cpu")):
            folder = tmp_path / str(number)
            write_folder(str(folder), Finding(case, INFO, DIFFERENT), trial)
            command = [sys.executable, str(folder / "repro.py")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.endswith("\nIt does not differ.\n")

    def test_onnx_runtime_refuses_what_it_must(self, tmp_path: Path) -> None:
        self.write(tmp_path / "out", OUTSIDE)
        command = [sys.executable, str(tmp_path / "out" / "repro.py")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0
        assert "\nactual: CPUExecutionProvider fails: " in done.stdout

    def test_a_provider_that_is_not_there(self, tmp_path: Path) -> None:
        info = LaneInfo("none", "NoExecutionProvider")
        self.write(tmp_path / "out", info=info)
        command = [sys.executable, str(tmp_path / "out" / "repro.py")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 3
        last = done.stdout.splitlines()[-1]
        start = "NoExecutionProvider did not run the model: onnxruntime has only "
        assert last.startswith(start)

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            (
                "PLACE = 'CPUExecutionProvider'",
                "it did not get every node: Gather (Gather) runs on CPUExecutionProvider",
            ),
            ("NODES = []", "it did not get any node: none is left to run"),
            (
                "class InferenceSession:\n    def __init__(self, *_, **__):\n        raise "
                "RuntimeError('nodes were assigned to the default CPU EP')",
                "it did not get every node: some node would run on CPUExecutionProvider",
            ),
        ],
    )
    def test_nodes_elsewhere(self, tmp_path: Path, change: str, why: str) -> None:
        tmp_path.joinpath("environment").mkdir()
        environment(tmp_path / "environment", change)
        self.write(tmp_path / "out", info=LaneInfo("stub", STUB))
        code, printed = rerun(tmp_path)
        assert code == 3
        assert printed.splitlines()[-1] == f"{STUB} did not run the model: {why}"

    def test_a_script_has_a_sentence_for_whatever_keeps_a_model_from_running(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.write(tmp_path / "out")
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.setitem(sys.modules, "runtime", runtime)
        script = runpy.run_path(str(tmp_path / "out" / "repro.py"), {}, "repro")
        assert set(script["WHY"]) == set(get_args(runtime.NotRunKind))
        assert all(why.format("x") for why in script["WHY"].values())

    def test_a_plugin_library_is_registered(self, tmp_path: Path) -> None:
        tmp_path.joinpath("environment").mkdir()
        change = """
        PROVIDERS, DEVICES = [], []
        def register_execution_provider_library(name, library):
            print("registered", name, library)
            DEVICES.append(Any_(ep_name=name))
        def get_ep_devices(): return DEVICES
        class SessionOptions(SessionOptions):
            def add_provider_for_devices(self, devices, options): print("for", len(devices))
        """
        environment(tmp_path / "environment", GATHERS + textwrap.dedent(change))
        *_, trial = trials_of(CASE, "portable", "/lib/stub.so")
        finding = Finding(CASE, LaneInfo("stub", STUB), DIFFERENT)
        write_folder(str(tmp_path / "out"), finding, trial)
        code, printed = rerun(tmp_path)
        assert code == 0
        assert f"registered {STUB} /lib/stub.so\nfor 1\n" in printed

    def test_the_plainest_run_is_one_node_on_its_own_shapes(self) -> None:
        desc = og.GatherNDDesc(
            og.TensorDesc("FLOAT32", [4, 3]),
            og.TensorDesc("INT64", [2, 2]),
            og.TensorDesc("FLOAT32", [1, 2]),
            input_dimension_count=2,
            indices_dimension_count=2,
        )
        data = np.arange(12, dtype=np.float32).reshape(4, 3)
        case = DescriptorCase("tuples", desc, data, np.array([[1, 2], [-1, 0]]), "error")
        trials = list(trials_of(case, "portable"))
        models = [onnx.ModelProto.FromString(trial.model) for trial in trials]
        found = [[node.op_type for node in model.graph.node] for model in models]
        assert found == [["GatherND"], ["Reshape", "GatherND"]]
        shapes = [trial.expected.shape for trial in trials if trial.expected is not None]
        assert shapes == [(2,), (1, 2)]
        node = ForbiddenNode("Gather", {"axis": 9}, (), "axis")
        forbidden = NodeCase("forbidden", node, case.data, case.indices)
        assert len(list(trials_of(forbidden, "portable"))) == 1
        assert len(list(trials_of(replace(case, out_of_range="clamp"), "portable"))) == 1

    def test_an_issue_of_a_strided_case(self, tmp_path: Path) -> None:
        desc = og.GatherND1Desc(
            og.TensorDesc("FLOAT16", [2, 40], [1, 2]),
            og.TensorDesc("UINT32", [2, 1], [0, 1]),
            og.TensorDesc("FLOAT16", [1, 2], [5, 3]),
            input_dimension_count=2,
            indices_dimension_count=2,
            batch_dimension_count=1,
        )
        data = np.arange(80, dtype=np.float16)
        case = DescriptorCase("strided", desc, data, np.array([7], np.uint32))
        answer = Answer(AnswerKind.RAN, None, ("Gather",), np.zeros(4, np.float16))
        result = judge(case, INFO, answer)
        *_, trial = trials_of(case, "portable")
        write_folder(str(tmp_path / "out"), Finding(case, INFO, result), trial)
        text = (tmp_path / "out" / "ISSUE.md").read_text()
        assert text.startswith(
            "# CPUExecutionProvider returns wrong elements for GatherND of FLOAT16 data by UINT32 "
            "indices\n"
        )
        assert (
            "ONNX's `GatherND` with `batch_dims=1`, on data FLOAT16 [2, 40] and indices UINT32 "
            "[2, 1]; in DirectML `DML_OPERATOR_GATHER_ND1`, with InputTensor.Strides [1, 2] and "
            "IndicesTensor.Strides [0, 1] and OutputTensor.Strides [5, 3] in elements. It computes "
            "`out[0, a] = in[a, idx[a, 0]]` for `a < 2`; in range is 0 <= idx < 40; an index out "
            "of range is clamped."
        ) in text.replace("\n", " ")
        assert "InputTensor: float16 [80]\n\nIndicesTensor: uint32 [1]\n\n    [7]\n" in text
        assert (
            "## Expected\n\nOutputTensor: float16 [4]\n\n    [14.,  0.,  0., 15.]\n\n"
            "The first element that differs: `output[0,0] = input[0, indices[0, 0]] = input[0, 7] "
            "= 14 (buffer\noffsets: output 0, indices 0, input 14)`.\n\n"
            "## Actual\n\n2 of 4 elements differ, first OutputTensor[0]: expected 14.0 (00 4b), "
        ) in text

    def test_an_earlier_repro_is_replaced(self, tmp_path: Path) -> None:
        self.write(tmp_path / "out")
        self.write(tmp_path / "out", OUTSIDE)
        assert not (tmp_path / "out" / "expected.npy").exists()
        assert os.listdir(tmp_path) == ["out"]

    def test_the_same_repro_has_the_same_bytes(self, tmp_path: Path) -> None:
        self.write(tmp_path / "a")
        self.write(tmp_path / "b")
        for name in os.listdir(tmp_path / "a"):
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()

    def test_the_runtime_is_the_package_s_own(self, tmp_path: Path) -> None:
        self.write(tmp_path / "out")
        assert (tmp_path / "out" / "runtime.py").read_bytes() == Path(runtime.__file__).read_bytes()

    def test_a_script_finds_its_runtime_wherever_python_looks_for_modules(
        self, tmp_path: Path
    ) -> None:
        self.write(tmp_path / "out")
        command = [sys.executable, "-I", str(tmp_path / "out" / "repro.py")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        assert (done.returncode, done.stderr) == (0, "")

    def test_a_wrong_bit_that_no_comparison_of_numbers_sees(self, tmp_path: Path) -> None:
        case = replace(CASE, data=np.zeros((5, 4), np.float32))
        *_, trial = trials_of(case, "portable")
        assert trial.expected is not None
        trial = replace(trial, expected=-trial.expected)
        write_folder(str(tmp_path / "out"), Finding(case, INFO, DIFFERENT), trial)
        command = [sys.executable, str(tmp_path / "out" / "repro.py")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (1, "")
        assert done.stdout.splitlines()[-1] == (
            "It differs: 12 of 12 elements, first OutputTensor[0,0]: expected -0.0 (bytes 00 00 00 "
            "80), actual 0.0 (bytes 00 00 00 00)."
        )

    def test_a_repro_with_something_else_in_it_is_kept(self, tmp_path: Path) -> None:
        self.write(tmp_path / "out")
        tmp_path.joinpath("out", "notes.txt").write_text("mine")
        with pytest.raises(OnnxGatherError) as caught:
            self.write(tmp_path / "out")
        assert str(caught.value) == (
            f"{tmp_path / 'out'}: the folder must be new, empty or an earlier repro, got "
            "'notes.txt'"
        )
        assert (tmp_path / "out" / "notes.txt").read_text() == "mine"

    def test_an_empty_folder_is_taken(self, tmp_path: Path) -> None:
        tmp_path.joinpath("out").mkdir()
        self.write(tmp_path / "out")
        assert len(os.listdir(tmp_path / "out")) == 7

    def test_a_file_is_not(self, tmp_path: Path) -> None:
        tmp_path.joinpath("out").touch()
        with pytest.raises(OnnxGatherError) as caught:
            self.write(tmp_path / "out")
        where = tmp_path / "out"
        assert str(caught.value) == f"{where}: a file stands where the folder should be"
        with pytest.raises(OnnxGatherError) as caught:
            self.write(tmp_path / "out" / "below")
        where = tmp_path / "out" / "below"
        assert str(caught.value) == f"{where}: a file stands where the folder should be"

    def test_a_part_of_a_repro_is_not_one(self, tmp_path: Path) -> None:
        tmp_path.joinpath("out").mkdir()
        tmp_path.joinpath("out", "model.onnx").write_bytes(b"mine")
        with pytest.raises(OnnxGatherError) as caught:
            self.write(tmp_path / "out")
        assert str(caught.value) == (
            f"{tmp_path / 'out'}: the folder must be new, empty or an earlier repro, got "
            "'model.onnx'"
        )
        assert (tmp_path / "out" / "model.onnx").read_bytes() == b"mine"

    def test_all_or_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.write(tmp_path / "out")
        before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
        moves, failing = os.replace, iter([OSError(28, "No space left on device")])

        def stop(source: Path, target: Path) -> None:
            if target == tmp_path / "out" / "repro.py" and (error := next(failing, None)):
                raise error
            moves(source, target)

        monkeypatch.setattr(os, "replace", stop)
        with pytest.raises(OnnxGatherError) as caught:
            self.write(tmp_path / "out", OUTSIDE)
        assert str(caught.value) == f"{tmp_path / 'out'}: no space left on device"
        assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before
        assert os.listdir(tmp_path) == ["out"]


PROGRAM = """{
  "resources": {
    "data": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4]},
    "indices": {"initialValuesDataType": "INT32", "initialValues": [3, 0]},
    "output": {"initialValuesDataType": "FLOAT32", "initialValues": [0, 0]}
  },
  "dispatchables": {
    "one": {"type": "DML_OPERATOR_GATHER", "desc": {
      "InputTensor": {"DataType": "FLOAT32", "Sizes": [4]},
      "IndicesTensor": {"DataType": "INT32", "Sizes": [2]},
      "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2]}, "Axis": 0, "IndexDimensions": 1}}
  },
  "commands": [COMMANDS]
}"""
COMMAND = """{"type": "dispatch", "dispatchable": "one", "bindings":
  {"InputTensor": "data", "IndicesTensor": "indices", "OutputTensor": "output"}}"""


def program(commands: int) -> Any:
    text = PROGRAM.replace("COMMANDS", ", ".join([COMMAND] * commands))
    return parse_program(text, "p.json")


class TestCasesOfPrograms:
    def test_the_only_one(self) -> None:
        case = case_of_program(program(1), "zero")
        assert case.name == "p.json: $.commands[0] (one)"
        assert case.out_of_range == "zero"
        assert case.indices.tolist() == [3, 0]

    @pytest.mark.parametrize("name", ["p.json: $.commands[1] (one)", "$.commands[1]"])
    def test_by_name(self, name: str) -> None:
        assert case_of_program(program(2), "clamp", name).origin == Origin(
            "p.json", "$.commands[1]", "one"
        )

    @pytest.mark.parametrize(
        ("commands", "name", "message"),
        [
            (0, None, "p.json: case must name one, got none"),
            (
                2,
                None,
                "p.json: case must name one, got 'p.json: $.commands[0] (one)', "
                "'p.json: $.commands[1] (one)'",
            ),
            (
                2,
                "one",
                "p.json: case 'one' must name one, got 'p.json: $.commands[0] (one)', "
                "'p.json: $.commands[1] (one)'",
            ),
            (
                1,
                "$.command[0]",
                "p.json: case must be one of its cases, such as '$.commands[0]', "
                "'p.json: $.commands[0] (one)', got '$.command[0]'",
            ),
            (
                2,
                "nope",
                "p.json: case must be one of 2, listed by onnxgather check --json, got 'nope'",
            ),
            (
                0,
                "one",
                "p.json: case must be one of 0, listed by onnxgather check --json, got 'one'",
            ),
        ],
    )
    def test_refusals(self, commands: int, name: str | None, message: str) -> None:
        with pytest.raises(OnnxGatherError) as caught:
            case_of_program(program(commands), "clamp", name)
        assert str(caught.value) == message


class WrongLane:
    """A lane whose output is always nothing but zeros of another shape."""

    name = "wrong"

    def start(self) -> LaneInfo:
        return INFO

    def answer(self, case: Case) -> Answer:
        if case.name == "right":
            expected = case.expected()
            assert not isinstance(expected, str)
            return Answer(AnswerKind.RAN, None, ("Gather",), expected)
        return Answer(AnswerKind.RAN, None, ("Gather",), np.zeros(0, np.float32))

    def close(self) -> None:
        pass


NODE = ForbiddenNode("Gather", {"axis": 2}, (3, 4), "axis must be in [-2, 2), got 2")
BARE = NodeCase("bare", NODE, CASE.data, np.array([1, 2, 0]))


class TestCasesOfReports:
    @pytest.fixture
    def report(self) -> Report:
        return Report("0", "now", "here", (INFO,), list(self.results()))

    def results(self) -> Iterator[CaseResult]:
        origin = Origin("p.json", "$.commands[0]", "g")
        placed = replace(OUTSIDE, name="placed", out_of_range="zero", wrapped=True, origin=origin)
        cases = [CASE, placed, BARE, replace(CASE, name="right")]
        yield from check_cases(cases, [WrongLane()], [INFO], [])

    @pytest.mark.parametrize("name", ["rows", "placed", "bare"])
    def test_are_what_they_were(self, report: Report, name: str) -> None:
        case = case_of_finding(report, name)
        wanted = {"rows": CASE, "placed": OUTSIDE, "bare": BARE}[name]
        for field in ("descriptor", "node"):
            assert getattr(case, field, None) == getattr(wanted, field, None)
        assert case.data.tobytes() == wanted.data.tobytes()
        assert case.indices.tobytes() == wanted.indices.tobytes()
        assert case.out_of_range == ("zero" if name == "placed" else wanted.out_of_range)
        assert (case.origin is not None) == (name == "placed")
        assert case.wrapped == (name == "placed")

    def test_the_only_one(self, report: Report) -> None:
        only = Report("0", "now", "here", (INFO,), report.cases[2:])
        assert case_of_finding(only).name == "bare"

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            (None, "the report: case must name one, got 'rows', 'placed', 'bare'"),
            ("row", "the report: case must be one of its cases, such as 'rows', got 'row'"),
            ("zzz", "the report: case must be one of 4, listed in its $.cases, got 'zzz'"),
            (
                "right",
                "the report: case 'right' must have evidence, got none, as it passed on every "
                "lane or its arrays exceed 1 MiB",
            ),
        ],
    )
    def test_refusals(self, report: Report, name: str | None, message: str) -> None:
        with pytest.raises(OnnxGatherError) as caught:
            case_of_finding(report, name)
        assert str(caught.value) == message

    def changed(self, report: Report, number: int, **changes: Any) -> str:
        """Return what is said of a case whose evidence was edited."""
        case = report.cases[number]
        assert case.evidence is not None
        evidence = msgspec.structs.replace(case.evidence, **changes)
        report.cases[number] = msgspec.structs.replace(case, evidence=evidence)
        with pytest.raises(FileFormatError) as caught:
            case_of_finding(report, case.name, "r.json")
        return str(caught.value)

    def test_evidence_is_of_a_descriptor_or_a_node(self, report: Report) -> None:
        rule = "evidence must have a descriptor or a node"
        both = self.changed(report, 0, node=NODE)
        assert both == f"r.json: case 'rows': {rule}, got both"
        assert self.changed(report, 2, node=None) == f"r.json: case 'bare': {rule}, got none"

    @pytest.mark.parametrize(
        ("number", "changes", "message"),
        [
            (
                0,
                {"data": Blob.of(CASE.data[:4])},
                "InputTensor must be an array of float32 (5, 4), got float32 (4, 4)",
            ),
            (
                0,
                {"indices": Blob.of(CASE.indices.astype(np.int32))},
                "IndicesTensor must be an array of int64 (1, 3), got int32 (1, 3)",
            ),
            (
                0,
                {"data": Blob("float32", (5, 4), bytes(79))},
                "buffer size must be a multiple of element size",
            ),
            (0, {"data": Blob("floaty", (5, 4), b"")}, "data type 'floaty' not understood"),
            (0, {"descriptor": {}}, "$.type is required"),
            (
                2,
                {"node": ForbiddenNode("Gather", {"axes": 1}, (3, 4), "no")},
                "a node must be one of Gather with axis, GatherElements with axis, GatherND "
                "with batch_dims, got Gather with axes",
            ),
            (
                2,
                {"node": ForbiddenNode("Where", {}, (3, 4), "no")},
                "a node must be one of Gather with axis, GatherElements with axis, GatherND "
                "with batch_dims, got Where with nothing",
            ),
            (
                2,
                {"indices": Blob.of(np.zeros(3, np.complex64))},
                f"IndicesTensor must be of {', '.join(TensorDataType.__members__)}, got complex64",
            ),
        ],
    )
    def test_evidence_that_is_none(
        self, report: Report, number: int, changes: dict[str, Any], message: str
    ) -> None:
        name = report.cases[number].name
        said = self.changed(report, number, **changes)
        assert said == f"r.json: case {name!r}: {message}"

    def test_the_lane_of_a_finding(self, report: Report) -> None:
        assert lane_of_finding(report, "rows") == INFO
        with pytest.raises(OnnxGatherError) as caught:
            lane_of_finding(report, "right", "r.json")
        assert str(caught.value) == (
            "r.json: --lane must name where case 'right' goes wrong, got none there"
        )


class TestReportsInFiles:
    REPORT = Report(
        "0",
        "now",
        "here",
        (INFO,),
        [
            CaseResult(
                "x",
                "GATHER",
                "INT8",
                "INT32",
                1,
                "clamp",
                True,
                (Result("cpu", "PASS", ResultKind.SAME),),
            )
        ],
    )

    def refusal(self, tmp_path: Path, content: bytes) -> str:
        """Return what is said of a file, without its path."""
        path = tmp_path / "r.json"
        path.write_bytes(content)
        with pytest.raises(FileFormatError) as caught:
            read_findings(str(path))
        return str(caught.value).removeprefix(f"{path}: ")

    def test_are_read(self, tmp_path: Path) -> None:
        path = tmp_path / "r.json"
        for form in (msgspec.json.encode, json_bytes):
            path.write_bytes(form(self.REPORT))
            assert read_findings(str(path)) == self.REPORT

    @pytest.mark.parametrize("content", [b"", b"{}", b'{"dispatchables": {}}', b"\x08\x08", b"[]"])
    def test_something_else_is_none(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "x").write_bytes(content)
        assert read_findings(str(tmp_path / "x")) is None

    @pytest.mark.parametrize(
        ("old", "new", "why"),
        [
            (b'"PASS"', b'"NO"', "Invalid enum value 'NO' - at `$.cases[0].results[0].state`"),
            (b'"made":"now",', b"", "Object missing required field `made`"),
            (b"here", b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: "),
        ],
    )
    def test_must_be_right(self, tmp_path: Path, old: bytes, new: bytes, why: str) -> None:
        content = msgspec.json.encode(self.REPORT)
        assert old in content
        said = self.refusal(tmp_path, content.replace(old, new))
        assert said.startswith(f"must be a report of onnxgather check --json ({why}")

    @pytest.mark.parametrize(
        ("schema", "got"),
        [
            (b"", "none, as in reports of earlier versions"),
            (b'"schema":2,', "2"),
        ],
    )
    def test_must_have_this_schema(self, tmp_path: Path, schema: bytes, got: str) -> None:
        content = msgspec.json.encode(self.REPORT).replace(b'"schema":1,', schema)
        assert self.refusal(tmp_path, content) == (
            f"must be a report of onnxgather check --json (its schema must be 1, got {got})"
        )

    def test_must_not_be_deep(self, tmp_path: Path) -> None:
        assert self.refusal(tmp_path, b'{"onnxgather":"0","x":' + b"[" * 100_000).startswith(
            "must be a report of onnxgather check --json (maximum recursion depth exceeded"
        )

    def test_arrays_are_base64(self, tmp_path: Path) -> None:
        evidence = Evidence(Blob.of(CASE.data), Blob.of(CASE.indices))
        (case,) = self.REPORT.cases
        case = msgspec.structs.replace(case, evidence=evidence)
        report = msgspec.structs.replace(self.REPORT, cases=[case])
        content = msgspec.json.encode(report).replace(b'"data":"', b'"data":"!')
        assert self.refusal(tmp_path, content) == (
            "must be a report of onnxgather check --json (Invalid base64 encoded string - at "
            "`$.cases[0].evidence.data.data`)"
        )

    def test_must_be_whole(self, tmp_path: Path) -> None:
        content = msgspec.json.encode(self.REPORT)
        why = "must be a report of onnxgather check --json (Input data was truncated)"
        for size in range(content.index(b'"onnxgather":') + 13, len(content)):
            assert self.refusal(tmp_path, content[:size]) == why

    @pytest.mark.parametrize(
        ("results", "got"),
        [((), "[]"), (("other",), "['other']"), (("cpu", "cpu"), "['cpu', 'cpu']")],
    )
    def test_must_have_a_result_per_lane(
        self, tmp_path: Path, results: tuple[str, ...], got: str
    ) -> None:
        (case,) = self.REPORT.cases
        case = msgspec.structs.replace(
            case, results=tuple(Result(n, "PASS", ResultKind.SAME) for n in results)
        )
        report = msgspec.structs.replace(self.REPORT, cases=[case])
        assert self.refusal(tmp_path, msgspec.json.encode(report)) == (
            f"case 'x': results must be of the report's lanes, ['cpu'], got {got}"
        )
