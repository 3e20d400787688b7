"""The programs of docs/migrate-directml.md print what the page says."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from command_line import call
from cpp_programs import compile_program, needs_headers
from folders import MODELS, ROOT
from public_names import CALLED
from wpt import BROWSER, Server, results_of_browser

import onnxgather as og
from onnxgather.cli.commands import TASKS, find_command
from onnxgather.core.execution.kernels import custom_ops_library
from onnxgather.core.programs.writer import write_program

PAGE = (ROOT / "docs" / "migrate-directml.md").read_text(encoding="utf-8")
SWAP = MODELS / "gather_3_swap_columns.json"
REGISTER = '// options.RegisterCustomOpsLibrary(ORT_TSTR("onnxgather_operators.so"));'


def block(kind: str) -> str:
    """Return the code of the page in a language."""
    (code,) = re.findall(rf"```{kind}\n(.+?)```", PAGE, re.DOTALL)
    return code


def convert(target: str, folder: Path) -> None:
    """Write the model of the page for a target."""
    result = call("convert", str(SWAP), "--target", target, "-o", f"{folder}/swap.onnx")
    assert result.exit_code == 0, result.output


def printed_by(program: Path) -> str:
    """Return what a program prints in its folder."""
    done = subprocess.run(
        [program], cwd=program.parent, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
@needs_headers
def test_the_program_in_cpp_runs_each_model(tmp_path: Path) -> None:
    convert("portable", tmp_path)
    program = compile_program(block("cpp"), tmp_path)
    assert printed_by(program) == "2 1 4 3 6 5 "
    assert "and prints `2 1 4 3 6 5`:" in PAGE
    # Without the library, ONNX's own nodes run.
    convert("native", tmp_path)
    assert printed_by(program) == "2 1 4 3 6 5 "


@pytest.mark.slow
@needs_headers
def test_the_program_in_cpp_registers_the_library(tmp_path: Path) -> None:
    library = custom_ops_library()
    (tmp_path / "onnxgather_operators.so").symlink_to(library)
    code = block("cpp")
    assert REGISTER in code
    code = code.replace(REGISTER, REGISTER.removeprefix("// "))
    code = code.replace('"onnxgather_op', f'"{tmp_path}/onnxgather_op')
    convert("native", tmp_path)
    program = compile_program(code, tmp_path)
    assert printed_by(program) == "2 1 4 3 6 5 "
    # The registration is no word without effect: it needs the file.
    (tmp_path / "onnxgather_operators.so").unlink()
    done = subprocess.run(
        [program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "onnxgather_operators.so" in done.stderr


@pytest.mark.slow
@needs_headers
def test_an_index_out_of_range_is_an_exception_in_cpp(tmp_path: Path) -> None:
    model = og.to_onnx(og.from_dict(SWAP_DESCRIPTOR), out_of_range="error")
    (tmp_path / "swap.onnx").write_bytes(model.SerializeToString())
    code = block("cpp").replace("indices[] = {1, 0}", "indices[] = {1, 2}")
    program = compile_program(code, tmp_path)
    done = subprocess.run(
        [program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "Ort::Exception" in done.stderr
    assert "indices element out of data bounds, idx=2" in done.stderr


HTML = """<!doctype html>
<meta charset="utf-8">
<script type="module">
  const post = result => {
    return fetch("/result", {method: "POST", body: JSON.stringify(result)});
  };
  const end = name => post({name}).then(() => post({completed: true}));
  console.log = array => end(String(array));
  import("./program.mjs").catch(error => end(String(error)));
</script>
"""
"""A page that runs the program, and sends what it prints."""


def printed_in_chromium(code: str, module: Path) -> str:
    """Return what a program prints in Chromium with WebNN.

    Args:
        code: The code of the program, which imports `./swap.mjs`.
        module: The module that stands for it.
    """
    folder = module.parent
    (folder / "program.mjs").write_text(code, encoding="utf-8")
    (folder / "test.html").write_text(HTML, encoding="utf-8")
    files = {
        f"/{path.name}": path
        for path in (*folder.glob("*.mjs"), *folder.glob("*.html"))
    }
    server = Server(files)
    try:
        (result,) = results_of_browser(server, str(BROWSER))
    finally:
        server.shutdown()
        server.server_close()
    return result["name"]


@pytest.mark.slow
@pytest.mark.skipif(
    not BROWSER.exists(), reason="scripts/web/setup.sh has not got Chromium"
)
def test_the_program_in_javascript_runs_the_module(tmp_path: Path) -> None:
    module = tmp_path / "swap.mjs"
    command = ["convert", str(SWAP), "--target", "webnn", "-o", str(module)]
    assert call(*command).exit_code == 0
    assert printed_in_chromium(block("js"), module) == "2,1,4,3,6,5"
    assert "This program prints 2, 1, 4, 3, 6, 5:" in PAGE
    # Under `error`, run throws.
    assert call(*command, "--out-of-range", "error").exit_code == 0
    code = block("js").replace("Uint32Array([1, 0])", "Uint32Array([1, 2])")
    code += "\nconsole.log('no error');"
    message = printed_in_chromium(code, module)
    assert message.startswith("RangeError: IndicesTensor[0,")
    assert message.endswith("1] must be in [0, 2), got 2")


SWAP_DESCRIPTOR = {
    "type": "DML_OPERATOR_GATHER",
    "desc": {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [3, 2]},
        "IndicesTensor": {"DataType": "UINT32", "Sizes": [1, 2]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [3, 2]},
        "Axis": 1,
        "IndexDimensions": 1,
    },
}
"""The descriptor of the page."""


SENTENCES = """\
- What onnxgather makes, checks or proves from a descriptor or a program clamps, in every command and in every function of Python.
- The command `run` is dxdispatch in another place: it prints DirectML's elements on every provider.
- A gather of an ONNX model of others is `error`, as ONNX says. A model that onnxgather wrote has its own policy.
"""  # noqa: E501
"""What the page says of default policies; the tests below derive it."""


def test_the_page_has_the_sentences_on_defaults() -> None:
    assert SENTENCES in PAGE


def test_every_function_with_a_policy_clamps() -> None:
    defaults: dict[str, object] = {}
    for name in CALLED:
        parameters = inspect.signature(getattr(og, name)).parameters
        if "out_of_range" in parameters:
            defaults[name] = parameters["out_of_range"].default
    assert len(defaults) >= 15
    assert {"to_onnx", "program_to_onnx", "program_to_webnn", "run"} <= {*defaults}
    # These take models of others: None of a session is "error" for such a model, and
    # "clamp" for a descriptor.
    assert defaults.pop("add_provider") == "error"
    assert defaults.pop("Session") is None
    assert set(defaults.values()) == {"clamp"}


def stated_defaults() -> dict[str, list[str]]:
    """Return what the help of each command says of its default policy, by clauses."""
    found: dict[str, list[str]] = {}
    for name in chain(*TASKS.values()):
        for parameter in find_command(name).params:
            if "--out-of-range" in parameter.opts:
                text = getattr(parameter, "help", "")
                (stated,) = re.findall(r"\[default: (.+)\]", text)
                found[name] = stated.split("; ")
    return found


def test_every_command_clamps_but_run() -> None:
    firsts: dict[str, str] = {}
    for name, (first, *_) in stated_defaults().items():
        firsts[name] = first
    assert firsts.pop("run") == "directml, as dxdispatch"
    assert "`run` is dxdispatch in another place: it prints DirectML's" in SENTENCES
    assert {"convert", "check", "certify", "show", "explain", "repro"} <= {*firsts}
    assert set(firsts.values()) == {"clamp"}


def test_every_command_says_the_same_of_models() -> None:
    clauses: set[str] = set()
    for _, *rest in stated_defaults().values():
        clauses.update(rest)
    assert clauses == {
        "of a model that onnxgather wrote: its own",
        "of other models: error",
        # A node of a model of others is `error`, too: it has no other policy.
        "of a model, of a node and of a report: its own",
        "of the corpus, of --random and of ONNX models: each case's own",
    }


@pytest.mark.parametrize("words", [["convert"], ["convert", "--whole"]])
def test_a_model_clamps_if_nothing_else_is_said(
    words: list[str], tmp_path: Path
) -> None:
    command = [*words, str(SWAP)]
    assert call(*command, "-o", f"{tmp_path}/default.onnx").exit_code == 0
    named = [*command, "--out-of-range", "clamp", "-o", f"{tmp_path}/named.onnx"]
    assert call(*named).exit_code == 0
    default = (tmp_path / "default.onnx").read_bytes()
    assert default == (tmp_path / "named.onnx").read_bytes()


def test_commands_do_what_the_sentences_say(tmp_path: Path) -> None:
    desc = og.from_dict(SWAP_DESCRIPTOR)
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    program = tmp_path / "p.json"
    indices = np.array([[1, 9]], np.uint32)
    program.write_text(write_program(desc, data, indices), encoding="utf-8")
    clamped = "Resource 'output': 1, 1, 3, 3, 5, 5\n"
    assert call("run", str(program)).stdout == "Resource 'output': 1, 5, 3, 5, 5, 5\n"
    assert call("run", str(program), "--out-of-range", "clamp").stdout == clamped
    report = json.loads(call("check", str(program), "--json").stdout)
    assert [case["out_of_range"] for case in report["cases"]] == ["clamp"]
    first = call("show", str(program)).stdout.split("\n\n")[-1].splitlines()[0]
    assert first == "ONNX, opset 17, target portable, out of range: clamp"
    certified = call("certify", str(program)).stdout.splitlines()[0]
    assert certified == "policy clamp: an index out of range is clamped"

    # A model has its own policy; that of others is ONNX's.
    model = og.to_onnx(desc, "zero")
    own = tmp_path / "own.onnx"
    own.write_bytes(model.SerializeToString())
    del model.metadata_props[:]
    others = tmp_path / "others.onnx"
    others.write_bytes(model.SerializeToString())
    policies: list[set[str]] = []
    for path in (own, others):
        shown = json.loads(call("show", str(path), "--json").stdout)
        gathers = shown.get("dispatchables") or shown["gathers"]
        policies.append({gather["out_of_range"] for gather in gathers.values()})
    assert policies == [{"zero"}, {"error"}]
