"""`onnxgather doctor` and `onnxgather repro`, as a user gets them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from command_line import outcome, program
from onnx import TensorProto, helper
from stub_runtime import environment

POSIX = pytest.mark.skipif(os.name == "nt", reason="the stand-in interpreter is a shell script")

WRONG = """
PROVIDERS = [PLACE := "OpenVINOExecutionProvider"]
class InferenceSession(InferenceSession):
    def compute(self, data, indices):
        if data.ndim == 1:
            return data[indices]
        return data[:, indices.reshape(-1).astype(np.int64) % 2]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestDoctor:
    def test_this_environment(self) -> None:
        code, out, err = outcome("doctor")
        assert (code, err) == (0, "")
        assert "GatherElements  alone: ran GatherElements; between two Mul: ran Mul, " in out
        assert out.endswith("\nnothing is wrong\n")

    def test_json(self) -> None:
        code, out, _ = outcome("doctor", "--json")
        assert code == 0
        found = json.loads(out)
        assert (found["exit_code"], found["findings"]) == (0, [])

    @POSIX
    def test_a_lane_that_does_not_start(self, tmp_path: Path) -> None:
        python = environment(tmp_path / "stub", "PROVIDERS = ['CPUExecutionProvider']")
        code, out, err = outcome("doctor", "--lane", f"openvino={python}")
        assert (code, err) == (1, "")
        assert "OpenVINOExecutionProvider is not available" in " ".join(out.split())


@POSIX
class TestRepro:
    def lane(self) -> str:
        """Return a lane that takes every index modulo 2."""
        return f"openvino={environment(Path('stub').absolute(), WRONG)}"

    def test_of_a_program(self) -> None:
        program("x.json")
        code, out, err = outcome("repro", "x.json", "--lane", self.lane(), "-o", "out")
        assert (code, err) == (1, "")
        assert out.startswith("out: OpenVINOExecutionProvider returns wrong elements for Gather")
        assert out.endswith("; repro.py shows it\n")
        done = subprocess.run(
            [Path("stub/python").absolute(), "repro.py"],
            cwd="out",
            capture_output=True,
            check=False,
        )
        assert done.returncode == 1
        with np.load("out/inputs.npz") as inputs:
            assert max(array.size for array in inputs.values()) <= 8

    def test_of_a_report(self) -> None:
        program("x.json")
        lanes = ("--lanes", "cpu", "--lane", self.lane())
        assert outcome("check", "x.json", *lanes, "--json", "r.json")[0] == 1
        code, out, err = outcome("repro", "r.json", "-o", "out")
        assert (code, err) == (1, "")
        assert out.endswith("; repro.py shows it\n")

    def test_what_passes(self) -> None:
        program("x.json")
        code, out, err = outcome("repro", "x.json", "-o", "out")
        assert (code, err) == (0, "")
        assert out == (
            "case 'x.json: $.commands[0] (gather)' passes on lane cpu: nothing to reproduce\n"
        )
        assert not Path("out").exists()

    def test_what_does_not_run(self) -> None:
        program("x.json")
        code, out, _ = outcome("repro", "x.json", "-o", "out", "--lane", "XyzExecutionProvider")
        assert code == 3
        assert out.startswith("XyzExecutionProvider is not available")

    def test_of_a_node(self) -> None:
        node = helper.make_node("Gather", ["data", "where"], ["result"], "pick", axis=1)
        graph = helper.make_graph(
            [node],
            "graph",
            [
                helper.make_tensor_value_info("data", TensorProto.FLOAT, [2, 3]),
                helper.make_tensor_value_info("where", TensorProto.INT64, [2]),
            ],
            [helper.make_tensor_value_info("result", TensorProto.FLOAT, [2, 2])],
        )
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        Path("m.onnx").write_bytes(model.SerializeToString())
        data = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.savez("x.npz", data=data, where=np.array([2, 0]))
        arguments = ("repro", "m.onnx", "--node", "pick", "--inputs", "x.npz", "-o", "out")
        code, out, err = outcome(*arguments)
        assert (code, err) == (0, "")
        assert out.endswith(" passes on lane cpu: nothing to reproduce\n")
        code, out, err = outcome(*arguments, "--lane", self.lane())
        assert (code, err) == (1, "")
        assert out.endswith("; repro.py shows it\n")

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["none.json"], "none.json: no such file or directory"),
            (
                ["x.json", "--case", "y"],
                "x.json: case must be one of its cases, such as 'x.json: $.commands[0] (gather)', "
                "'$.commands[0]', 'gather', got 'y'",
            ),
            (["x.json", "--lane", "gpu"], None),
        ],
    )
    def test_what_cannot_be(self, arguments: list[str], sentence: str | None) -> None:
        program("x.json")
        code, out, err = outcome("repro", *arguments, "-o", "out")
        assert (code, out) == (2 if sentence else 3, "")
        assert err.startswith("Error: ")
        if sentence:
            assert err == f"Error: {sentence}\n"
        assert not Path("out").exists()
