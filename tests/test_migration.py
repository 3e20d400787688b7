"""The programs of docs/migrate-directml.md print what the page says."""

from __future__ import annotations

import inspect
import re
import subprocess
from itertools import chain
from pathlib import Path

import pytest
from command_line import call
from cpp_programs import compile_program, needs_headers
from folders import MODELS, ROOT
from public_names import CALLED
from wpt import BROWSER, Server, results_of_browser

import onnxgather as og
from onnxgather.cli.commands import TASKS, find_command
from onnxgather.core.execution.kernels import custom_ops_library
from onnxgather.core.options import POLICIES

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


def defaults() -> list[tuple[list[str], str, str, str]]:
    """Return the rows of the page's table of default policies.

    A row has the commands or functions, what they read, the default and the option.
    """
    _, _, table = PAGE.partition("| command or function |")
    lines = table.partition("\n\n")[0].splitlines()[2:]
    rows = [line.strip("| ").split(" | ") for line in lines]
    return [
        (re.findall(r"`([^`]+)`", names), read, default.strip("`"), option.strip("`"))
        for names, read, default, option in rows
    ]


def test_the_table_of_defaults_has_every_function_with_a_policy() -> None:
    of_page = {
        name.removeprefix("og."): default
        for names, _, default, option in defaults()
        for name in names
        if option == "out_of_range="
    }
    of_package: dict[str, object] = {}
    for name in CALLED:
        parameters = inspect.signature(getattr(og, name)).parameters
        if "out_of_range" in parameters:
            of_package[name] = parameters["out_of_range"].default
    assert of_page == of_package


BESIDE_HELP = {
    # With --whole.
    "convert": {"directml"},
    # Of ONNX models; of the built-in cases.
    "check": {"error", "that of each case"},
    # With --node, which --out-of-range does not change.
    "repro": {"error"},
}
"""The defaults on the page that the help of an option does not name."""


def test_the_table_of_defaults_has_every_command_with_a_policy() -> None:
    of_page: dict[str, set[str]] = {}
    for names, _, default, option in defaults():
        for name in names:
            if not name.startswith("og."):
                command, _, _ = name.partition(" ")
                of_page.setdefault(command, set()).add(default)
                assert option in ("--out-of-range", "none")
    of_help: dict[str, set[str]] = {}
    for name in chain(*TASKS.values()):
        for parameter in find_command(name).params:
            if "--out-of-range" in parameter.opts:
                text = getattr(parameter, "help", "")
                (stated,) = re.findall(r"\[default: (.+)\]", text)
                of_help[name] = {policy for policy in POLICIES if policy in stated}
    assert of_page.keys() == of_help.keys()
    for name, policies in of_help.items():
        assert of_page[name] == policies | BESIDE_HELP.get(name, set()), name


@pytest.mark.parametrize(
    ("words", "policy"),
    [
        (["convert"], "clamp"),
        (["convert", "--whole"], "directml"),
    ],
)
def test_a_default_of_convert_is_that_of_the_table(
    words: list[str], policy: str, tmp_path: Path
) -> None:
    (row,) = [row for row in defaults() if " ".join(words) in row[0]]
    assert row[2] == policy
    command = [*words, str(SWAP)]
    assert call(*command, "-o", f"{tmp_path}/default.onnx").exit_code == 0
    named = [*command, "--out-of-range", policy, "-o", f"{tmp_path}/named.onnx"]
    assert call(*named).exit_code == 0
    default = (tmp_path / "default.onnx").read_bytes()
    assert default == (tmp_path / "named.onnx").read_bytes()
