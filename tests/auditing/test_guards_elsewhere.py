"""Guards where Python's ONNX Runtime is not: on OpenVINO, in a browser, in Node.js, in
C++. The code is that of the page docs/guards.md."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cpp_programs import compile_program, needs_headers
from exported_networks import NETWORKS
from folders import MODELS, ROOT
from guard_cases import DIRECTED, GuardCase, wild_inputs

import onnxgather as og
from onnxgather.auditing.output.guard_code import cpp_check, javascript_check
from onnxgather.core.execution.elsewhere.hosts import find_runtime
from onnxgather.core.execution.providers import find_provider

PAGE = (ROOT / "docs/guards.md").read_text(encoding="utf-8")
KEYWORDS = str(MODELS / "networks" / "keywords.onnx")
RULE = "each value of words is from -32 to 31"

NAMES = ("gpt2.dyn.onnx", "hand_scatter.onnx", "timesfm.ts.onnx")
"""Exported networks whose guards are tried."""

NODE_MODULES = Path(os.environ.get("ONNXRUNTIME_NODE", "/")) / "node_modules"
"""The folder in which npm has installed onnxruntime-node."""


needs_node = pytest.mark.skipif(
    not (NODE_MODULES / "onnxruntime-node").exists() or shutil.which("node") is None,
    reason=(
        "needs node, and onnxruntime-node in the folder that ONNXRUNTIME_NODE names"
    ),
)


def block(kind: str) -> str:
    """The code of the page in a language."""
    (found,) = re.findall(rf"```{kind}\n(.+?)```", PAGE, re.DOTALL)
    return found


@pytest.fixture
def guard_file(tmp_path: Path) -> Path:
    """The guard of the page's model."""
    path = tmp_path / "guard.onnx"
    contract = og.audit(KEYWORDS, levels=()).contract
    path.write_bytes(og.contract_model(contract, KEYWORDS).SerializeToString())
    return path


@needs_headers
def test_the_program_in_cpp_names_the_rule(guard_file: Path) -> None:
    folder = guard_file.parent
    program = compile_program(block("cpp"), folder)
    done = subprocess.run(
        [program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, f"{RULE}\n", "")
    assert f"It prints `{RULE}` and returns 1." in PAGE


CPP_MAIN = """
#include <iostream>

int main() {
    Ort::Env env;
    Ort::Session guard(env, ORT_TSTR("guard.onnx"), Ort::SessionOptions{});
    std::vector<int64_t> words{3, 31};
    std::vector<int64_t> shape{1, 2};
    auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    for (int64_t word : {31, 32}) {
        words[1] = word;
        std::vector<Ort::Value> inputs;
        inputs.push_back(Ort::Value::CreateTensor<int64_t>(
            memory, words.data(), words.size(), shape.data(), shape.size()));
        try {
            check(guard, {"words"}, inputs);
            std::cout << "in range\\n";
        } catch (const std::invalid_argument& error) {
            std::cout << error.what() << "\\n";
        }
    }
}
"""


@needs_headers
def test_the_function_of_an_audit_page_in_cpp_throws_the_rule(
    guard_file: Path,
) -> None:
    code = cpp_check("guard.onnx") + CPP_MAIN
    program = compile_program(code, guard_file.parent)
    done = subprocess.run(
        [program], cwd=guard_file.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"in range\n{RULE}\n"


JAVASCRIPT_MAIN = """
for (const word of [31n, 32n]) {
  const words = new ort.Tensor("int64", BigInt64Array.from([3n, word]), [1, 2]);
  console.log(await check({ words }).then(() => "in range", (error) => error.message));
}
"""


@needs_node
def test_the_module_of_an_audit_page_in_javascript_throws_the_rules(
    guard_file: Path,
) -> None:
    folder = guard_file.parent
    (folder / "node_modules").symlink_to(NODE_MODULES)
    code = javascript_check("guard.onnx").replace(
        '"onnxruntime-web"', '"onnxruntime-node"'
    )
    (folder / "check.mjs").write_text(code + JAVASCRIPT_MAIN, encoding="utf-8")
    command = ["node", "check.mjs"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout == "in range\nThe inputs break rules of the contract: 1\n"


@needs_node
def test_the_program_in_javascript_names_the_rule(guard_file: Path) -> None:
    folder = guard_file.parent
    (folder / "node_modules").symlink_to(NODE_MODULES)
    (folder / "guard.mjs").write_text(block("js"), encoding="utf-8")
    command = ["node", "guard.mjs"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout == "false [ 1 ]\n"
    assert "It prints `false [ 1 ]`." in PAGE


WASM = find_provider("web-wasm")


@pytest.mark.slow
@pytest.mark.skipif(
    not find_runtime(WASM) or shutil.which("chromium") is None,
    reason="scripts/web/setup.sh has not run",
)
@pytest.mark.parametrize("name", ["directed", *NAMES])
def test_a_guard_in_a_browser_answers_as_check_inputs(name: str) -> None:
    sessions = dict[bytes, tuple[og.Session, og.Session]]()
    for model, inputs, expected in tried(name):
        if model not in sessions:
            # A page returns the first output alone.
            one = onnx.ModelProto.FromString(model)
            other = onnx.ModelProto.FromString(model)
            del one.graph.output[1], other.graph.output[0]
            sessions[model] = (
                og.Session(one, provider="web-wasm"),
                og.Session(other, provider="web-wasm"),
            )
        ok, broken = (session.run(inputs) for session in sessions[model])
        assert (bool(ok), broken.tolist()) == expected, inputs


RUN = """
import json, sys, numpy as np, onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
sessions, answers = {}, []
for number, (model, names) in enumerate(json.load(open("runs.json"))):
    if model not in sessions:
        sessions[model] = onnxruntime.InferenceSession(
            model, options, providers=[("OpenVINOExecutionProvider", {})])
        assert "OpenVINOExecutionProvider" in sessions[model].get_providers()
    arrays = np.load(f"{number}.npz")
    fed = {name: arrays[str(k)] for k, name in enumerate(names)}
    ok, broken = sessions[model].run(["ok", "broken"], fed)
    answers.append([bool(ok), broken.tolist()])
json.dump(answers, sys.stdout)
"""
"""The program that runs guards on OpenVINO, in another environment."""


@pytest.mark.parametrize("name", ["directed", *NAMES])
def test_a_guard_on_openvino_answers_as_check_inputs(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    python = request.config.getoption("--openvino")
    if python is None:
        pytest.skip(
            "needs --openvino PYTHON, an environment with onnxruntime-openvino and"
            " numpy"
        )
    runs = list[tuple[str, list[str]]]()
    expected = list[list[Any]]()
    files = dict[bytes, str]()
    for model, inputs, answer in tried(name):
        # OpenVINO computes INT64 as INT32, as the page says.
        if not all(is_narrow(array) for array in inputs.values()):
            continue
        file = files.setdefault(model, f"{len(files)}.onnx")
        (tmp_path / file).write_bytes(model)
        arrays = {str(k): array for k, array in enumerate(inputs.values())}
        np.savez(tmp_path / f"{len(runs)}.npz", **arrays)
        runs.append((file, [*inputs]))
        expected.append([*answer])
    assert len(runs) > 20
    assert {ok for ok, _ in expected} == {True, False}
    (tmp_path / "runs.json").write_text(json.dumps(runs), encoding="utf-8")
    command = [os.path.abspath(python), "-c", RUN]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected


def is_narrow(array: Any) -> bool:
    """Whether an array holds no number beyond INT32."""
    if array.dtype.kind not in "iu" or not array.size:
        return True
    return int(array.min()) >= -(2**31) and int(array.max()) < 2**31


def tried(name: str) -> list[tuple[bytes, dict[str, Any], tuple[bool, list[int]]]]:
    """Guards with inputs, and the answers that `check_inputs` gives of these.

    Args:
        name: That of an exported network; or "directed" for some of the cases by hand.
    """
    cases = list[GuardCase]()
    if name == "directed":
        cases = [case for case in DIRECTED if is_for_all(case)]
        made = [(case, case.inputs) for case in cases]
    else:
        model, inputs = NETWORKS[name]
        case: Any = GuardCase({"x": ("INT64", [1])}, (), {})
        case.model, case.contract = model, og.audit(model, levels=()).contract
        made = [(case, fed) for fed in wild_inputs(inputs)][::3]
    found = list[tuple[bytes, dict[str, Any], tuple[bool, list[int]]]]()
    guards = dict[str, onnx.ModelProto]()
    for case, inputs in made:
        key = str(case.contract)
        if key not in guards:
            guards[key] = og.contract_model(case.contract, case.model)
        case.inputs = inputs
        broken = case.broken()
        if None in broken:
            continue
        fed = {each.name: inputs[each.name] for each in guards[key].graph.input}
        numbers = [number for number in broken if number is not None]
        content = guards[key].SerializeToString(deterministic=True)
        found.append((content, fed, (case.meets(), numbers)))
    return found


def is_for_all(case: GuardCase) -> bool:
    """Whether all runtimes have the data types, the rank and the ends of a case."""
    ((data_type, shape), *others) = case.types.values()
    if others or not shape or data_type not in ("INT64", "INT32", "FLOAT", "BOOL"):
        return False
    ends = [case.conditions[0].low, case.conditions[0].high]
    return all(end is None or abs(end) < 2**31 for end in ends)


TRITON_TYPES = {"INT64": "TYPE_INT64", "BOOL": "TYPE_BOOL", "FLOAT": "TYPE_FP32"}


def test_the_ensemble_has_the_names_and_types_of_both_models(guard_file: Path) -> None:
    """Triton itself does not run here, as the page says."""
    text = block("pbtxt")
    pattern = r'name: "(\w+)" data_type: (\w+) dims: \[ (.*?) \]'
    listed = {name: (kind, sizes) for name, kind, sizes in re.findall(pattern, text)}
    values = dict[str, tuple[str, str]]()
    for path in (guard_file, Path(KEYWORDS)):
        model = onnx.ModelProto.FromString(path.read_bytes())
        for value in (*model.graph.input, *model.graph.output):
            tensor = value.type.tensor_type
            kind = onnx.TensorProto.DataType.Name(tensor.elem_type)
            sizes = [each.dim_value or -1 for each in tensor.shape.dim] or [1]
            values[value.name] = (TRITON_TYPES[kind], ", ".join(map(str, sizes)))
    assert listed == values
    maps = re.findall(r'_map { key: "(\w+)" value: "(\w+)" }', text)
    assert [*maps] == [(name, name) for name, _ in maps]
    assert {name for name, _ in maps} == {*values}


def test_triton_reads_the_ensemble() -> None:
    config = pytest.importorskip(
        "tritonclient.grpc.model_config_pb2", reason="needs tritonclient[grpc]"
    )
    from google.protobuf import text_format

    read = text_format.Parse(block("pbtxt"), config.ModelConfig())
    assert (read.name, read.platform) == ("checked", "ensemble")
    steps = read.ensemble_scheduling.step
    assert [step.model_name for step in steps] == ["guard", "keywords"]
