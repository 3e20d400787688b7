"""The command `extract`: a folder for each gather, with what it gets in a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import error_of, outcome, output_of, read_json, succeed
from onnx import parser

from onnxgather.core.programs.program import read_program

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 2] data, int64[k] ids, bool yes, string[2] words) => (y, z, s)
{
  y = Gather (data, ids)
  z = If (yes) <
    then_branch = t () => (a) { a = Gather <axis = 1> (data, ids) },
    else_branch = f () => (b) { b = Gather (data, ids) } >
  s = Gather (words, ids)
}"""
INPUTS = {
    "data": np.array([[1, 2], [3, 4], [5, 6]], np.float32),
    "ids": np.array([1, 0]),
    "yes": np.array(True),
    "words": np.array(["a", "b"]),
}


@pytest.fixture(autouse=True)
def _files(folder: Path) -> None:
    model = parser.parse_model(MODEL)
    model.graph.node[0].name = "first gather/"
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    np.savez(folder / "x.npz", allow_pickle=False, **INPUTS)


ALL = ("extract", "model.onnx", "--inputs", "x.npz", "-o", "out", "--all")


def test_each_gather_gets_a_folder_that_runs() -> None:
    assert output_of(*ALL) == (
        "without a program: main graph: Gather 's': DirectML gathers no STRING\n"
        "left out: else_branch of z: Gather 'b': it did not run with these inputs\n"
        "model.onnx -> out: 3 of 4 gathers\n"
    )
    index = read_json("out/index.json")
    folders = [gather["folder"] for gather in index["gathers"]]
    assert sorted(str(folder) for folder in folders if folder) == [
        "gathers/001_first_gather",
        "gathers/002_s",
        "gathers/003_a",
    ]
    assert (
        output_of("run out/gathers/001_first_gather/program.json")
        == "Resource 'output': 3, 4, 1, 2\n"
    )
    assert (
        output_of("run out/gathers/003_a/program.json")
        == "Resource 'output': 2, 1, 4, 3, 6, 5\n"
    )
    script = ["out/gathers/003_a/repro.py"]
    done = subprocess.run(
        [sys.executable, *script], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("It does not differ.\n")


@pytest.mark.slow
def test_a_large_constant_is_cropped(monkeypatch: pytest.MonkeyPatch) -> None:
    model = parser.parse_model(
        """
<ir_version: 8, opset_import: ["" : 17]>
g (int64[k] ids) => (y) <float[5] table = {0, 1, 2, 3, 4}> { y = Gather (table, ids) }"""  # noqa: E501
    )
    Path("table.onnx").write_bytes(model.SerializeToString())
    np.savez("ids.npz", ids=np.array([3, 3]))
    monkeypatch.setattr("onnxgather.auditing.cropping.LARGEST_WHOLE", 19)
    arguments = "extract table.onnx --inputs ids.npz -o out --all"
    assert output_of(arguments) == (
        "cropped: main graph: Gather 'y': data [5] is cropped to [3], as no more is"
        " read\ntable.onnx -> out: 1 of 1 gathers\n"
    )
    assert (
        output_of("run out/gathers/001_y/program.json") == "Resource 'output': 3, 3\n"
    )
    monkeypatch.setattr("onnxgather.auditing.cropping.LARGEST_WHOLE", 20)
    assert output_of(arguments) == "table.onnx -> out: 1 of 1 gathers\n"


def test_one_gather_is_chosen_by_its_name_or_its_output() -> None:
    for name in ("first gather/", "y"):
        arguments = (
            "extract",
            "model.onnx",
            "--inputs",
            "x.npz",
            "-o",
            "out",
            "--node",
            name,
        )
        assert outcome(*arguments)[:2] == (0, "model.onnx -> out: 1 of 1 gathers\n")
    index = read_json("out/index.json")
    assert index["gathers"][0]["descriptor"]["type"] == "DML_OPERATOR_GATHER"


def test_what_cannot_be_extracted_is_refused() -> None:
    node = "extract model.onnx --inputs x.npz -o out --node yy"
    assert (
        error_of(node) == "model.onnx: node 'yy' must be one of the model's 4 gathers"
    )
    assert "give either --node NAME or --all" in outcome(*ALL[:-1])[2]
    np.savez("y.npz", ids=INPUTS["ids"])
    assert (
        outcome("extract model.onnx --inputs y.npz -o out --all")[2]
        == "Error: model.onnx: the inputs must hold an array for each input of the"
        " model, got none for 'data', 'yes', 'words'\n"
    )
    Path("other").mkdir()
    Path("other/letter.txt").touch()
    assert (
        outcome(*ALL[:-2], "other", "--all")[2]
        == "Error: other: the folder must be new, empty or an earlier extract, got"
        " 'letter.txt'\n"
    )
    assert outcome(*ALL)[0] == outcome(*ALL)[0] == 0


def test_large_data_is_in_a_file_beside_the_program() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[20000, 2] data, int64[20000] ids) => (y) { y = Gather (data, ids) }"""
    Path("model.onnx").write_bytes(parser.parse_model(text).SerializeToString())
    data = np.arange(40_000, dtype=np.float32).reshape(20_000, 2)
    data.view(np.uint32)[0, 0] = 0x7F800001  # a NaN that JSON cannot express
    np.savez("x.npz", allow_pickle=False, data=data, ids=np.arange(20_000)[::-1])
    succeed(*ALL)
    folder = Path("out/gathers/001_y")
    assert (folder / "program.json").stat().st_size < 2000
    found = read_program(folder / "program.json").resources
    assert found["data"].initial_bytes().tobytes() == data.tobytes()
    assert np.load(folder / "indices.npy").ravel().tolist() == [*range(20_000)][::-1]
