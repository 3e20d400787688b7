"""Gathers that no descriptor of DirectML says: each command takes them as ONNX does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from command_line import POSIX, call, outcome, output_of, read_json
from fake_directml import fake_folder
from onnx_gathers import ENDS, LETTERS, ONNX_GATHERS, TRUE_AT, OnnxGather, write_gather
from rings import quick_alone

from onnxgather.core.descriptors.datatypes import GATHERED_TYPES

TOLD = (
    "{}.onnx: main graph: node 'g': no descriptor of DirectML says it, as {}; so the"
    " formula of ONNX counts, in which an index out of range is an error\n"
)

EXPLAINED = {
    "bool": """\
input: BOOL [2, 6]
[[True, False, False, False, False, False],
 [False, True, False, False, False, False]]

indices: INT64 [3]
[0, -1, 3]

output[0,0] = input[0, indices[0]] = input[0, 0] = True
output[0,1] = input[0, indices[1]] = input[0, -1] -> input[0, 5] (-1 is counted from\
 the end of 6) = False
output[0,2] = input[0, indices[2]] = input[0, 3] = False
output[1,0] = input[1, indices[0]] = input[1, 0] = False
output[1,1] = input[1, indices[1]] = input[1, -1] -> input[1, 5] (-1 is counted from\
 the end of 6) = False
output[1,2] = input[1, indices[2]] = input[1, 3] = False
""",
    "string": """\
input: STRING [4, 2]
[['a', 'b'],
 ['c', 'd'],
 ['e', 'f'],
 ['g', 'h']]

indices: INT64 [3]
[0, -1, 3]

output[0,0] = input[indices[0], 0] = input[0, 0] = 'a'
output[0,1] = input[indices[0], 1] = input[0, 1] = 'b'
output[1,0] = input[indices[1], 0] = input[-1, 0] -> input[3, 0] (-1 is counted from\
 the end of 4) = 'g'
output[1,1] = input[indices[1], 1] = input[-1, 1] -> input[3, 1] (-1 is counted from\
 the end of 4) = 'h'
output[2,0] = input[indices[2], 0] = input[3, 0] = 'g'
output[2,1] = input[indices[2], 1] = input[3, 1] = 'h'
""",
    "empty-data": """\
input: FLOAT32 [4, 0]
[]

indices: INT64 [3]
[0, 1, 2]

The output has no elements.
""",
    "empty-indices": """\
input: FLOAT32 [4, 2]
[[0, 0],
 [0, 0],
 [0, 0],
 [0, 0]]

indices: INT64 [0]
[]

The output has no elements.
""",
    "rank-9": """\
input: FLOAT32 [1, 1, 1, 1, 1, 1, 1, 1, 3]
[[[[[[[[[0, 1, 2]]]]]]]]]

indices: INT64 []
1

output[0,0,0,0,0,0,0,0] = input[0, 0, 0, 0, 0, 0, 0, 0, indices] = input[0, 0, 0, 0, 0,\
 0, 0, 0, 1] = 1
""",
    "fewer-indices": """\
input: FLOAT32 [2, 3]
[[10, 11, 12],
 [20, 21, 22]]

indices: INT64 [1, 2]
[[2, 0]]

output[0,0] = input[0, indices[0, 0]] = input[0, 2] = 12
output[0,1] = input[0, indices[0, 1]] = input[0, 0] = 10
""",
}


@pytest.fixture(params=quick_alone(["string", "empty-data"], ONNX_GATHERS))
def name(request: pytest.FixtureRequest, folder: Path) -> str:
    """The name of a gather, whose files are in the current folder."""
    write_gather(folder, request.param, ONNX_GATHERS[request.param])
    return request.param


LOST = ("DIFF", "elements", 3)
"""ONNX Runtime's Gather of texts copies the first of the texts behind each index, and
loses the others: seen in 1.24.1 to 1.32.0."""


def test_check_compares_it_with_the_formula_of_onnx(name: str) -> None:
    words = f"check {name}.onnx --inputs {name}.npz --json=report.json"
    _, _, error = outcome(words)
    told = TOLD.format(name, ONNX_GATHERS[name].why)
    assert error == f"{told}written: report.json\n"
    (case,) = read_json("report.json")["cases"]
    (result,) = case["results"]
    gather = ONNX_GATHERS[name]
    assert (case["operator"], result["nodes"]) == (gather.operator, [gather.operator])
    found = result.get("found", result["state"])
    verdict = found, result["kind"], result.get("differing", 0)
    assert verdict == (LOST if name == "string" else ("PASS", "same", 0))


def test_extract_writes_it_without_a_program(name: str) -> None:
    gather = ONNX_GATHERS[name]
    assert output_of(f"extract {name}.onnx --inputs {name}.npz --all -o out") == (
        f"without a program: main graph: {gather.operator} 'g': {gather.why}\n"
        f"{name}.onnx -> out: 1 of 1 gathers\n"
    )
    files = {path.name: path for path in Path("out/gathers/001_g").iterdir()}
    assert files.keys() == {
        *("model.onnx", "inputs.npz", "expected.npy", "repro.py", "runtime.py")
    }
    (record,) = read_json("out/index.json")["gathers"]
    assert record["no_descriptor"] == gather.why
    script = files["repro.py"]
    why = f"of {name}.onnx; there is no program.json, as {gather.why}."
    assert why in script.read_text()
    ran = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False
    )
    told = "It does not differ.\n"
    if name == "string":
        told = (
            "It differs: 3 of 6 elements, first OutputTensor[0,1]: expected 'b', actual"
            " ''.\n"
        )
    assert ran.stdout.endswith(told), ran.stderr
    assert ran.returncode == (name == "string")
    # The folder is a model with its inputs for other commands.
    written = "out/gathers/001_g"
    words = f"explain {written}/model.onnx --inputs {written}/inputs.npz"
    assert call(words).stdout == EXPLAINED[name]


def test_explain_says_where_each_element_comes_from(name: str) -> None:
    words = f"explain {name}.onnx --inputs {name}.npz"
    told = TOLD.format(name, ONNX_GATHERS[name].why)
    assert outcome(words) == (0, EXPLAINED[name], told)


@pytest.mark.slow
def test_a_type_that_numpy_lacks_is_bare_bytes_in_files(folder: Path) -> None:
    data = np.arange(8).astype(ml_dtypes.bfloat16).reshape(4, 2)
    why = "DirectML gathers no BFLOAT16"
    write_gather(folder, "m", OnnxGather("Gather", {"axis": 0}, data, ENDS, why))
    code, output, error = outcome("explain m.onnx --inputs m.npz --at 1,0")
    assert (code, error) == (0, TOLD.format("m", why))
    assert output == (
        "output[1,0] = input[indices[1], 0] = input[-1, 0] -> input[3, 0] (-1 is"
        " counted from the end of 4) = 6\n"
    )
    assert "\ncpu: 1 case, 1 PASS\n" in call("check m.onnx --inputs m.npz").stdout


def test_a_type_that_onnx_does_not_gather_must_be_refused(folder: Path) -> None:
    data = np.arange(4).astype(ml_dtypes.float8_e4m3fn)
    gather = OnnxGather("Gather", {"axis": 0}, data, np.array([1]), "")
    write_gather(folder, "m", gather)
    types = f"{', '.join(GATHERED_TYPES)}, got FLOAT8E4M3FN"
    assert outcome("explain m.onnx --inputs m.npz")[2] == (
        f"Error: m.onnx: main graph: node 'g': data must be {types}\n"
    )
    assert "\ncpu: 1 case, 1 PASS\n" in call("check m.onnx --inputs m.npz").stdout


def test_several_gathers_are_told_in_one_line(folder: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (bool[2,6] data, int64[3] ids) => (a, b)
        { a = Gather <axis = 1> (data, ids) b = Gather (data, zero) }"""
    model = onnx.parser.parse_model(text)
    zero = onnx.numpy_helper.from_array(np.zeros(1, np.int64), "zero")
    model.graph.initializer.append(zero)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    np.savez("m.npz", allow_pickle=False, data=TRUE_AT, ids=ENDS)
    code, output, error = outcome("check m.onnx --inputs m.npz")
    told = TOLD.format("m", "DirectML gathers no BOOL").replace("'g'", "'a'")
    assert (code, error) == (0, f"2 gathers, such as {told}")
    assert "\ncpu: 2 cases, 2 PASS\n" in output


def test_an_index_out_of_range_must_be_refused(folder: Path) -> None:
    far = ONNX_GATHERS["bool"]._replace(indices=np.array([0, 6]))
    write_gather(folder, "far", far)
    words = "far.onnx --inputs far.npz"
    assert "\ncpu: 1 case, 1 PASS\n" in call(f"check {words}").stdout
    explained = outcome(f"explain {words} --at 1,1")
    assert explained[1] == (
        "output[1,1] = input[1, indices[1]] = input[1, 6]: an error (index 6 is out of"
        " range of 6)\n"
    )


@POSIX
def test_directml_itself_says_why_it_does_not_run_it(folder: Path) -> None:
    write_gather(folder, "bool", ONNX_GATHERS["bool"])
    host = fake_folder(folder, "sys.exit(3)")
    words = f"check bool.onnx --inputs bool.npz --lane directml-dll={host}"
    (result,) = json.loads(call(f"{words} --json").stdout)["cases"][0]["results"]
    assert (result["state"], result["reason"]) == (
        "NOT-RUN",
        "DirectML.dll runs descriptors, and no descriptor says this node",
    )


@pytest.mark.slow
def test_repro_makes_a_difference_of_texts_small(folder: Path) -> None:
    write_gather(folder, "m", ONNX_GATHERS["string"])
    title = (
        "CPUExecutionProvider returns wrong elements for Gather of STRING data by INT64"
        " indices; repro.py shows it\n"
    )
    words = "m.onnx --inputs m.npz"
    assert output_of(f"repro {words} --node g -o small") == f"small: {title}"
    with np.load("small/inputs.npz") as inputs:
        shapes = {name: array.shape for name, array in inputs.items()}
    assert shapes == {"InputTensor": (1, 2), "IndicesTensor": ()}
    assert "on data STRING [1, 2]" in Path("small/ISSUE.md").read_text()
    call(f"check {words} --json=report.json")
    again = output_of("repro report.json --no-reduce -o whole")
    assert again == f"whole: {title}"
    assert np.load("whole/expected.npy").tolist() == LETTERS[ENDS].tolist()
