"""`--size`, `audit --annotate`, and what a model declares, at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from command_line import error_of, outcome, output_of
from onnx import external_data_helper, parser

import onnxgather as og

POSITIONS = """
<ir_version: 8, opset_import: ["" : 17]{more}>
g (int64[batch, length] ids) => (y) <float[3] table = {{0, 1, 2}}> {{
  one = Constant <value_int: int = 1> ()
  zero = Constant <value_int: int = 0> ()
  sizes = Shape (ids)
  length = Gather (sizes, one)
  numbers = Range (zero, length, one)
  place = Gather (table, numbers)
  word = Gather (table, ids)
  y = Add (place, word)
}}"""


def saved(path: str = "m.onnx", more: str = "") -> str:
    """Write a model whose ids and whose size `length` have conditions."""
    model = parser.parse_model(POSITIONS.format(more=more))
    Path(path).write_bytes(model.SerializeToString())
    return path


def loaded(path: str) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(Path(path).read_bytes())


def declaring(low: int, high: int) -> str:
    """Return metadata with a range of the values of ids, as a part of a text."""
    entries = json.dumps([{"name": "ids", "value_range": [low, high]}])
    return f', metadata_props: ["winml.io.inputs": {json.dumps(entries)}]'


def line_of(text: str, start: str) -> str:
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    return line


def test_a_declared_range_that_leaves_the_axis_ends_with_findings() -> None:
    code, text, error = outcome("audit --levels none", saved(more=declaring(0, 4)))
    assert (code, error) == (1, "")
    assert line_of(text, "OUT OF RANGE") == (
        "OUT OF RANGE  word (Gather, main graph): can leave its axis: the range that"
        " the model declares of ids contains 3, and the axis has 3 elements; in range"
        " if each value of ids is from -3 to 2"
    )
    assert line_of(text, "given") == (
        "given         by the model's metadata winml.io.inputs: each value of ids is"
        " from 0 to 3; the contract is for such inputs alone"
    )
    options = "--levels none --range ids=0:2"
    assert "OUT OF RANGE" not in output_of(f"audit m.onnx {options}")


def test_metadata_that_are_none_are_a_note() -> None:
    more = ', metadata_props: ["winml.io.inputs": "nothing"]'
    text = output_of("audit --levels none", saved(more=more))
    assert "the metadata winml.io.inputs are left out: $" in text


def test_a_size_may_be_given() -> None:
    text = output_of("audit --levels none --size length=1:3", saved())
    assert line_of(text, "given") == (
        "given         size 1 of ids (length) is from 1 to 3; the contract is for such"
        " inputs alone"
    )
    code, text, _ = outcome("harden m.onnx --levels none --size length=1:3 -o h.onnx")
    assert (code, text.count("Gather 'place'")) == (0, 0)
    code, text, _ = outcome("harden m.onnx --levels none --size length=1:4 -o h.onnx")
    assert (code, text.count("Gather 'place'")) == (0, 1)


@pytest.mark.parametrize("value", ["length", "length=3", "length=1:", "length=1:2:3"])
def test_a_size_without_two_ends_is_a_usage_error(value: str) -> None:
    code, text, error = outcome("audit", saved(), "--size", value)
    assert (code, text) == (2, "")
    rule = "Invalid value for '--size': must be NAME=LOW:HIGH"
    assert error.endswith(f"Error: {rule}, got {value!r}\n")


def test_a_size_of_another_name_is_an_error() -> None:
    message = error_of("audit --size words=1:3", saved())
    assert message == (
        "m.onnx: a size must be an open size of the inputs ('batch', 'length'),"
        " got 'words'"
    )


def test_an_annotated_model_declares_the_conditions() -> None:
    code, _, error = outcome("audit --levels none --annotate a.onnx", saved())
    assert (code, error) == (0, "written: a.onnx\n")
    before = loaded("m.onnx")
    after = loaded("a.onnx")
    assert after.graph.SerializeToString() == before.graph.SerializeToString()
    assert og.audit("a.onnx", levels=[]).verdict == "never"
    output_of("audit a.onnx --levels none --fail-on proved-if")
    # The model itself may be annotated anew.
    assert outcome("audit a.onnx --levels none --annotate b.onnx")[0] == 0
    assert Path("b.onnx").read_bytes() == Path("a.onnx").read_bytes()


def test_a_condition_without_a_form_is_told() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        "g (int64[n, 2] ids) => (y) <float[3, 2] t = {0, 1, 2, 3, 4, 5}> "
        "{ y = GatherND (t, ids) }"
    )
    Path("nd.onnx").write_bytes(model.SerializeToString())
    _, _, error = outcome("audit nd.onnx --levels none --annotate a.onnx")
    told = "a.onnx: metadata have no form for a condition: each value of column"
    assert error == (
        f"{told} 0 of the last axis of ids is from -3 to 2\n"
        f"{told} 1 of the last axis of ids is from -2 to 1\n"
        "written: a.onnx\n"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("m.onnx n.onnx --annotate a.onnx", "--annotate must be given with one model"),
        ("m.onnx --annotate -", "--annotate must be a file, got -"),
    ],
)
def test_an_annotated_model_is_a_file_of_one_model(words: str, sentence: str) -> None:
    saved()
    saved("n.onnx")
    code, text, error = outcome(f"audit {words}")
    assert (code, text) == (2, "")
    assert error.endswith(f"Error: {sentence}\n")


def test_an_annotated_model_is_apart_from_the_model_and_beside_its_data() -> None:
    saved()
    message = "m.onnx must not be written, as it is an input"
    assert error_of("audit m.onnx --annotate m.onnx") == message
    model = loaded("m.onnx")
    table = model.graph.initializer[0]
    table.raw_data = onnx.numpy_helper.to_array(table).tobytes()
    table.ClearField("float_data")
    external_data_helper.convert_model_to_external_data(model, True, "w.bin", 0)
    external_data_helper.write_external_data_tensors(model, ".")
    Path("e.onnx").write_bytes(model.SerializeToString())
    assert outcome("audit e.onnx --levels none --annotate f.onnx")[0] == 0
    Path("out").mkdir()
    code, _, error = outcome("audit e.onnx --levels none --annotate out/f.onnx")
    assert code == 2
    assert error == (
        "Error: out/f.onnx must be in the folder of e.onnx, as it refers to its"
        " external data, 'w.bin'\n"
    )
