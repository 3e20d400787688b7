"""A model whose large constants stay in its file gives the results of a small one."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import outcome
from onnx import helper, numpy_helper, parser
from rings import but_slow

from onnxgather.auditing import cropping
from onnxgather.cli import terminal
from onnxgather.core.model import values, wire

COMMANDS = {
    "audit": "audit m.onnx --all --json",
    "audit with inputs": "audit m.onnx --all --json --inputs inputs.npz",
    "contract": "audit m.onnx --contract out.json",
    "guard": "audit m.onnx --contract out.onnx",
    "declared": "audit m.onnx --annotate out.onnx",
    "harden": "harden m.onnx -o out.onnx",
    "harden, again": "harden h.onnx -o out.onnx",
    "harden, verified": "harden m.onnx -o out.onnx --verify",
    "zeros": "harden m.onnx -o out.onnx --out-of-range zero",
    "check": "check m.onnx --inputs inputs.npz",
    "check, hardened": "check h.onnx --inputs inputs.npz",
    "extract": "extract m.onnx --all --inputs inputs.npz -o out",
    "show": "show m.onnx",
}


@pytest.fixture
def model() -> onnx.ModelProto:
    """A model with a table, rows to read of it, and a default of an input."""
    made = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        "g (int64[2] ids, int64[30] rows) => (y, z, w) "
        "{ y = Gather (table, ids)  z = Gather (table, fixed)"
        "  w = Gather (table, rows) }"
    )
    table = np.arange(600, dtype=np.float32).reshape(60, 10)
    floats = helper.make_tensor(
        "table", onnx.TensorProto.FLOAT, [60, 10], table.ravel()
    )
    made.graph.initializer.append(floats)
    for name, first in (("fixed", 30), ("rows", 0)):
        numbers = np.arange(first, first + 30)
        made.graph.initializer.append(numpy_helper.from_array(numbers, name))
    return made


def results(line: str) -> tuple[object, ...]:
    """Return what a command prints and writes."""
    code, text, error = outcome(line)
    written: dict[str, bytes] = {}
    for folder, _, names in os.walk("."):
        for name in names:
            path = Path(folder, name)
            if path.name not in ("m.onnx", "h.onnx", "inputs.npz"):
                written[str(path)] = path.read_bytes()
                path.unlink()
    shutil.rmtree("out", ignore_errors=True)
    # A report says when it was made.
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "", text)
    return code, text, error, written


def say_nothing(*_: object) -> None:
    """Show no progress."""


@pytest.mark.parametrize(
    "name", but_slow(["audit with inputs", "check, hardened", "extract"], COMMANDS)
)
def test_a_command_gives_the_same(
    monkeypatch: pytest.MonkeyPatch, model: onnx.ModelProto, name: str
) -> None:
    # A slow machine would print more lines.
    monkeypatch.setattr(terminal.Progress, "show", say_nothing)
    Path("m.onnx").write_bytes(model.SerializeToString(deterministic=True))
    assert outcome("harden m.onnx -o h.onnx")[0] == 0
    np.savez("inputs.npz", ids=np.array([0, 59]))
    expected = results(COMMANDS[name])
    monkeypatch.setattr(values, "LARGE", 50)
    monkeypatch.setattr(wire, "LARGE", 50)
    monkeypatch.setattr(wire, "LEAST_WEIGHT_LEFT_OUT", 50)
    _, weights = values.load_light("m.onnx")
    names = [wire.whole_tensor(weight).name for weight in weights.values()]
    assert names == ["table", "fixed", "rows"]
    assert results(COMMANDS[name]) == expected
    assert expected[0] in (0, 1), expected


@pytest.mark.parametrize("more", [-1, 1])
def test_elements_that_do_not_fit_the_sizes_are_refused(
    monkeypatch: pytest.MonkeyPatch, model: onnx.ModelProto, more: int
) -> None:
    monkeypatch.setattr(cropping, "LARGEST_WHOLE", 100)
    monkeypatch.setattr(values, "LARGE", 50)
    monkeypatch.setattr(wire, "LEAST_WEIGHT_LEFT_OUT", 50)
    del model.graph.initializer[0]
    count = 600 + more
    raw_data = np.zeros(count, np.float32).tobytes()
    model.graph.initializer.add(
        name="table", data_type=1, dims=[60, 10], raw_data=raw_data
    )
    Path("m.onnx").write_bytes(model.SerializeToString())
    np.savez("inputs.npz", ids=np.array([0, 59]))
    code, _, error = outcome("extract m.onnx --all --inputs inputs.npz -o out")
    assert code == 2
    assert error == (
        "Error: m.onnx: what leads to 'table' cannot be read: cannot reshape array of"
        f" size {count} into shape (60,10)\n"
    )
