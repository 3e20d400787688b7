"""`onnxgather doctor` and `onnxgather repro`, as a user gets them."""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64encode
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import numpy as np
import pytest
from command_line import (
    DATA_4X3,
    DESC,
    INDICES,
    error_of,
    outcome,
    output_of,
    program,
    read_bytes,
    read_json,
    succeed,
    write_json,
    write_text,
)
from messages import rows_of
from onnx_graphs import written
from planted_adapter import planted
from rings import one_quick_in
from stub_runtime import PLUGIN, environment
from terminal import run_on_terminal

import onnxgather as og
from onnxgather.checking import doctor

POSIX = pytest.mark.skipif(
    os.name == "nt", reason="the stand-in interpreter is a shell script"
)

WRONG = """
PROVIDERS = [PLACE := "OpenVINOExecutionProvider"]
class InferenceSession(InferenceSession):
    def compute(self, data, indices):
        if data.ndim == 1:
            return data[indices]
        return data[:, indices.reshape(-1).astype(np.int64) % 2]
"""

_ADAPTER = "a lane on a runtime of your own needs --adapter martian=FILE.py"
_PROVIDER = (
    "provider must be one of openvino-runtime, opencv, tvm, iree, mnn, tract,"
    " onnx-reference, cpu, directml, openvino, cuda, tensorrt, webgpu, qnn,"
    " coreml, onnxgather, web-wasm, web-webgpu, web-webnn,"
    " webnn, or ONNX Runtime's full name of one, which"
    " ends in ExecutionProvider"
)


class TestDoctor:
    def test_doctor_prints_what_it_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = doctor.Checkup("0.1.0", "Linux", (), (doctor.Finding("bad"),), 1)
        monkeypatch.setattr(doctor, "examine", Mock(return_value=found))
        assert outcome("doctor") == (1, f"{found}\n", "")
        code, out, _ = outcome("doctor --json")
        assert (code, msgspec.json.decode(out, type=doctor.Checkup)) == (1, found)

    @pytest.mark.slow
    @POSIX
    def test_doctor_says_what_a_lane_that_does_not_start_needs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        python = environment(tmp_path / "stub", "PROVIDERS = ['CPUExecutionProvider']")
        code, out, err = outcome("doctor --lane", f"openvino={python}")
        assert (code, err) == (1, "")
        assert "OpenVINOExecutionProvider is not available" in out


@POSIX
class TestRepro:
    def lane(self) -> str:
        """Return a lane that takes every index modulo 2."""
        folder = Path("stub").absolute()
        python = folder / "python"
        return f"openvino={python if python.exists() else environment(folder, WRONG)}"

    @pytest.mark.slow
    def test_repro_takes_a_program(self) -> None:
        program("x.json")
        out = output_of("repro x.json -o out --lane", self.lane())
        assert out.startswith(
            "out: OpenVINOExecutionProvider returns wrong elements for Gather"
        )
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

    @pytest.mark.slow
    def test_repro_takes_a_report(self) -> None:
        program("x.json")
        checked = "check x.json --json=r.json --lanes cpu --lane"
        assert outcome(checked, self.lane())[0] == 1
        out = output_of("repro r.json -o out --lane", self.lane())
        assert out.endswith("; repro.py shows it\n")

    def test_a_case_that_passes_has_nothing_to_reproduce(self) -> None:
        program("x.json")
        out = output_of("repro x.json -o out")
        assert (
            out
            == "case 'x.json: $.commands[0] (gather)' passes on lane cpu: nothing to"
            " reproduce\n"
        )
        assert not Path("out").exists()

    def test_a_case_that_does_not_run_is_exit_code_3(self) -> None:
        program("x.json")
        code, out, _ = outcome("repro x.json -o out --lane XyzExecutionProvider")
        assert code == 3
        assert out.startswith("XyzExecutionProvider is not available")

    def edited_report(self, **lane: Any) -> dict[str, Any]:
        """Write a report in which lane cpu of this environment went wrong, and say
        otherwise."""
        program("x.json")
        succeed("check x.json --json=r.json")
        report = read_json("r.json")
        report["lanes"][0] |= lane
        (case,) = report["cases"]
        case["results"][0] |= {
            "state": "DIFF",
            "kind": "shape",
            "lane": report["lanes"][0]["name"],
        }
        data, indices = (
            {
                "data_type": a.dtype.name,
                "shape": a.shape,
                "data": b64encode(a.tobytes()).decode(),
            }
            for a in (DATA_4X3, INDICES)
        )
        case["evidence"] = {
            "data": data,
            "indices": indices,
            "descriptor": og.to_dict(DESC),
        }
        write_json("r.json", report)
        return report

    @pytest.mark.slow
    def test_a_report_starts_no_program(self) -> None:
        write_text("evil", "#!/bin/sh\ntouch started\n")
        Path("evil").chmod(0o755)
        self.edited_report(python=str(Path("evil").absolute()))
        passes = "passes on lane cpu: nothing to reproduce\n"
        assert (
            output_of("repro r.json -o out")
            == f"case 'x.json: $.commands[0] (gather)' {passes}"
        )
        self.edited_report(name="cpu@x=./evil")
        sentence = "r.json: the name of a lane must have no '=', got 'cpu@x=./evil'"
        assert error_of("repro r.json -o out") == sentence
        assert not Path("started").exists()

    def test_a_report_without_interpreters_is_enough(self) -> None:
        report = self.edited_report()
        report["lanes"][0].pop("python", None)
        write_json("r.json", report)
        out = output_of("repro r.json -o out")
        assert out[-25:] == "cpu: nothing to reproduce\n"[-25:]

    @pytest.mark.slow
    def test_a_lane_of_another_environment_needs_its_interpreter(self) -> None:
        self.edited_report(versions={"python": "3.12", "onnxruntime": "1.2.3\x1b"})
        here = version("onnxruntime")
        assert outcome("repro r.json -o out") == (
            3,
            (
                "lane 'cpu' of the report ran with 'python 3.12, onnxruntime"
                f" 1.2.3\\x1b', but here is onnxruntime {here}; give its environment:"
                " --lane NAME=PATH\n"
            ),
            "",
        )
        out = output_of("repro r.json -o out --lane", f"cpu={sys.executable}")
        assert out[-25:] == "cpu: nothing to reproduce\n"[-25:]

    @pytest.mark.parametrize(
        "case", one_quick_in(2, [None, "x.json: $.commands[0] (gather)"])
    )
    def test_a_report_without_a_difference_has_nothing_to_reproduce(
        self, case: str | None
    ) -> None:
        program("x.json")
        succeed("check x.json --json=r.json")
        arguments = () if case is None else ("--case", case)
        what = "any case" if case is None else f"case {case!r}"
        sentence = f"r.json: no lane went wrong in {what}: nothing to reproduce\n"
        assert output_of("repro r.json", *arguments, "-o", "out") == sentence
        assert not Path("out").exists()

    def test_options_that_a_source_does_not_have_are_refused(self) -> None:
        self.edited_report()
        node = (
            "--case, --out-of-range and --target must come without --node, as a node"
            " runs as it is"
        )
        report = "--out-of-range must come without a report, as its cases have it"
        for source, option, value, sentence in (
            (("m.onnx", "--node", "g"), "--out-of-range", "clamp", f"{node} in ONNX"),
            (("m.onnx", "--node", "g"), "--target", "cpu", f"{node} in ONNX"),
            (("m.onnx", "--node", "g"), "--case", "x", f"{node} in ONNX"),
            (("r.json",), "--out-of-range", "zero", report),
        ):
            code, out, err = outcome("repro", *source, option, value, "-o", "out")
            assert (code, out) == (2, "")
            assert err.endswith(f"\n\nError: {sentence}\n")

    def test_repro_takes_a_lane_with_an_adapter_and_its_opset(self) -> None:
        change = """
        def load(model, name):
            def run(inputs):
                raise ValueError(f"opset {model[model.rindex(bytes([16])) + 1]}")
            return run
        del ran
        """
        planted(Path.cwd(), change)
        adapter = "--adapter planted=planted.py"
        program("x.json")
        words = "check x.json --opset 13 --json=r.json"
        assert outcome(f"{words} {adapter}")[0] == 1
        words = "repro r.json -o out"
        needs = "r.json: lane 'planted' needs its own options, such as --lane planted"
        assert error_of(words) == f"{needs} --adapter planted=planted.py"
        needs = "--adapter planted=planted.py must come with --lane planted"
        assert outcome(f"{words} {adapter}")[2].endswith(f"\n\nError: {needs}\n")
        out = output_of(f"{words} --lane planted {adapter}")
        assert out[:22] == "out: planted fails in "
        assert "ValueError: opset 13\n" in Path("out/ISSUE.md").read_text("utf-8")

    def test_repro_takes_a_plugin_with_its_options(self) -> None:
        change = f"""{PLUGIN}
def offered(name): return [device(name, "GPU", "A"), device(name, "GPU", "B")]
PLACE = "My-EP"
class InferenceSession(InferenceSession):
    def __init__(self, model, options, providers, enable_fallback):
        assert options.settings == {{"mode": "a=b"}}, options.settings
        assert [each.device.vendor for each in options.chosen] == ["B"]
        super().__init__(model, options, providers, enable_fallback)
    def compute(self, data, indices):
        if data.ndim == 1:
            return data[indices]
        return data[:, indices.reshape(-1)] + np.float32(1)
"""
        python = environment(Path("stub").absolute(), change)
        Path("libmy.so").touch()
        program("x.json")
        lane = ["--lane", f"My-EP@GPU:1={python}"]
        plugin = ["--plugin", "My-EP@GPU:1=libmy.so"]
        option = ["--provider-option", "My-EP@GPU:1:mode=a=b"]
        check = ["check", "x.json", "--json=r.json", "--with-paths"]
        code, out, _ = outcome(*check, *lane, *plugin, *option)
        assert code == 1
        again = " ".join([*lane, *plugin, *option])
        assert f" {again} --out-of-range clamp\n" in out
        assert "numpy 2" in out
        assert "My-EP 0.2.0, mode=a=b, target portable; GPU A, GPU B\n" in out
        needs = (
            "r.json: lane 'My-EP@GPU:1' needs its own options, such as --lane"
            f" My-EP@GPU:1 {' '.join([*plugin, *option])}"
        )
        repro = ["repro", "r.json", "-o", "out"]
        assert error_of(*repro) == needs
        code, out, err = outcome(*repro, *lane, *plugin)
        assert (code, err) == (0, "")
        assert out.startswith("out: My-EP returns wrong elements for Gather of FLOAT32")
        assert out.endswith("; repro.py shows it\n")
        script = read_bytes("out/repro.py").decode()
        assert f"LIBRARY = {os.path.abspath('libmy.so')!r}  # " in script
        assert "SETTINGS = {'mode': 'a=b'}  # " in script
        assert "DEVICE = 'GPU:1'  # " in script
        issue = read_bytes("out/ISSUE.md").decode()
        assert "- `My-EP 0.2.0`\n- `mode=a=b`\n- `plugin library libmy.so`\n" in issue
        # Without a report and without --lane it is the lane of the plugin.
        repro = ["repro", "x.json", "-o", "out", *plugin]
        code, out, _ = outcome(*repro)
        assert code == 3
        assert out.startswith("the plugin library of My-EP does not load: ")

    @pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
    @pytest.mark.slow
    def test_an_interruption_says_what_was_reached(self, name: str, code: int) -> None:
        program("x.json")
        change = f"""
if sys.argv[0].endswith("repro.py"):
    os.kill(os.getppid(), signal.{name})
    time.sleep(60)
"""
        python = environment(Path("stub").absolute(), WRONG + change)
        command = f"""\
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite run by `&` ignores it
from onnxgather.checking import doctor
from onnxgather.cli import main
main(["repro", "x.json", "-o", "out", "--lane", "openvino={python}"])
"""  # noqa: E501
        done = subprocess.run(
            [sys.executable, "-c", command],
            capture_output=True,
            check=False,
            timeout=50,
        )
        assert (done.returncode, done.stderr) == (code, b"")
        out = done.stdout
        assert out.endswith(
            b"; interrupted: smaller cases may show it too, and repro.py was not"
            b" tried\n"
        )
        assert Path("out/repro.py").exists()

    @pytest.mark.slow
    def test_repro_takes_a_node_of_a_model(self) -> None:
        model = written("""(float[2, 3] data, int64[2] where) => (float[2, 2] result)
            { [pick] result = Gather<axis = 1>(data, where) }""")
        Path("m.onnx").write_bytes(model.SerializeToString())
        data = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.savez("x.npz", data=data, where=np.array([2, 0]))
        arguments = "repro m.onnx --node pick --inputs x.npz -o out"
        out = output_of(arguments)
        assert out.endswith(" passes on lane cpu: nothing to reproduce\n")
        out = output_of(f"{arguments} --lane", self.lane())
        assert out.endswith("; repro.py shows it\n")

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        rows_of("""
none.json
none.json: no such file or directory

x.json --case y
x.json: case must be one of 1, listed by onnxgather check --json, got 'y'

x.json --case gathers
x.json: case must be one of its cases, such as 'gather', got 'gathers'

m.ONNX
m.ONNX: an ONNX model that onnxgather did not write must come with --node, got none

x.json --inputs x.npz
--inputs must come with a model or with one descriptor alone, got x.json

none.onnx
none.onnx: no such file or directory

cut.json
cut.json: $ must be whole JSON, got an empty or cut file

cut.json --node x
cut.json: must be an ONNX model, got a report, which onnxgather repro and report merge
take
"""),
    )
    def test_a_source_that_cannot_be_read_is_one_sentence(
        self, arguments: str, sentence: str
    ) -> None:
        program("x.json")
        Path("m.ONNX").touch()
        write_text("cut.json", '{"onnxgather": "0.1.0", "made": "now", "machine')
        assert error_of(f"repro {arguments} -o out") == sentence
        assert not Path("out").exists()

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        rows_of(f"""
--lane martian
Invalid value for '--lane': {_PROVIDER}, got 'martian'; {_ADAPTER}

--lane martian@1=python
Invalid value for '--lane': {_PROVIDER}, got 'martian'; {_ADAPTER}

--lane=
Invalid value for '--lane': a lane must be NAME or NAME=PATH, got ''

--lane cpu=
Invalid value for '--lane': a lane must be NAME or NAME=PATH, got 'cpu='

--lane cpu=no/python
Invalid value for '--lane': 'no/python': no such file or directory

--lane MyExecutionProvider --plugin libmy.so
Invalid value for '--plugin': 'libmy.so': no such file or directory

--lane MyExecutionProvider --plugin MyExecutionProvider=libmy.so
Invalid value for '--plugin': 'libmy.so': no such file or directory

--timeout 0
Invalid value for '--timeout': 0 is not in the range 1<=x<=86400.

--target gpu
Invalid value for '--target': 'gpu' is not one of 'portable', 'cpu', 'webgpu', 'native'.
"""),
    )
    def test_wrong_usage_is_one_sentence(self, arguments: str, sentence: str) -> None:
        program("x.json")
        assert error_of(f"repro x.json {arguments} -o out") == sentence

    def test_an_edited_report_is_checked(self) -> None:
        program("x.json")
        checked = "check x.json --json=r.json --lanes cpu --lane"
        assert outcome(checked, self.lane())[0] == 1
        report = read_json("r.json")
        case = "r.json: case 'x.json: $.commands[0] (gather)'"

        def refusal() -> str:
            write_json("e.json", report)
            code, out, err = outcome("repro e.json -o out")
            assert (code, out) == (2, "")
            return err.replace("e.json", "r.json")

        evidence = report["cases"][0]["evidence"]
        descriptor = evidence.pop("descriptor")
        rule = "evidence must have a descriptor or a node"
        assert refusal() == f"Error: {case}: {rule}, got none\n"
        evidence["descriptor"] = descriptor
        evidence["data"]["shape"] = [3, 4]
        assert (
            refusal()
            == f"Error: {case}: InputTensor must be an array of float32 (4, 3), got"
            " float32 (3, 4)\n"
        )
        report["cases"][0]["results"].reverse()
        assert (
            refusal()
            == "Error: r.json: $.cases[0].results must be of lanes of the report,"
            " ['cpu', 'openvino'], in their order, got ['openvino', 'cpu']\n"
        )

    @pytest.mark.parametrize("given", one_quick_in(2, [False, True]))
    def test_the_target_is_that_of_the_report(self, given: bool) -> None:
        program("x.json")
        change = """
PROVIDERS = [PLACE := "CPUExecutionProvider"]
class InferenceSession(InferenceSession):
    def open(self):
        other = b"ArrayFeatureExtractor" in self.model
        NODES[:] = ["ArrayFeatureExtractor" if other else "Gather"]
    def compute(self, data, indices):
        if data.ndim == 1:
            return data[indices]
        wrong = b"target=portable" in self.model
        return data[:, indices.reshape(-1)] + np.float32(wrong)
"""
        lane = f"cpu={environment(Path('stub').absolute(), change)}"
        target = ("--target", "portable")
        if given:
            told = outcome("repro x.json --lane", lane, "-o", "out")
            source = ("x.json", "--lane", lane, *target)
        else:
            assert (
                outcome("check x.json --lane", lane, *target, "--json=r.json")[0] == 1
            )
            source = ("r.json", "--lane", lane)
            told = outcome("repro", *source, "--target", "cpu", "-o", "out")
        assert (told[0], told[1][-23:]) == (0, ": nothing to reproduce\n")
        code, out, err = outcome("repro", *source, "--no-reduce", "-o", "out")
        portable = og.to_onnx(DESC, "clamp", "portable", threads=1)
        assert (code, err) == (0, "")
        assert out.endswith("; repro.py shows it\n")
        assert read_bytes("out/model.onnx") == portable.SerializeToString()

    @pytest.mark.slow
    def test_a_lane_that_hangs_has_a_timeout(self) -> None:
        program("x.json")
        python = environment(
            Path("stub").absolute(), banner="import time; time.sleep(30)"
        )
        arguments = ("--lane", f"openvino={python}", "--timeout", "1", "-o", "out")
        assert outcome("repro x.json", *arguments) == (
            3,
            "the worker did not answer within 3 s and printed nothing\n",
            "",
        )

    @pytest.mark.slow
    def test_how_many_cases_were_tried_is_told_a_terminal(self) -> None:
        program("x.json")
        slow = environment(Path("stub").absolute(), WRONG, "import time; time.sleep(1)")
        lane = ("--lane", f"openvino={slow}")
        command = [
            sys.executable,
            "-m",
            "onnxgather",
            "repro",
            "x.json",
            *lane,
            "-o",
            "out",
        ]
        command += ["--lane", f"openvino={slow}"]
        said, printed = run_on_terminal(command, "stderr")
        assert printed.endswith(b"; repro.py shows it\n")
        counts = [part.rstrip(" ") for part in said.split("\r") if part.strip(" ")]
        assert counts == [
            f"Smaller cases tried: {n}" for n in range(1, len(counts) + 1)
        ]
        assert len(counts) > 1
        assert said.endswith(f"\r{' ' * len(counts[-1])}\r")
