"""The types that a user's type checker sees, in a small program of a user."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import onnxgather as og

PROGRAM = """\
from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxgather as og

desc = og.GatherDesc(
    og.TensorDesc("FLOAT32", [4, 3]),
    og.TensorDesc("INT64", [1, 2]),
    og.TensorDesc("FLOAT32", [4, 2]),
    axis=1,
    index_dimensions=1,
)
data = np.zeros((4, 3), np.float32)
indices = np.zeros((1, 2), np.int64)


def hardened(wanted: og.Descriptor, policy: og.OutOfRange) -> onnx.ModelProto:
    model: onnx.ModelProto = og.to_onnx(wanted, policy, target="cpu", opset=21)
    return og.harden(model, "zero", shapes={"InputTensor": (4, 3)})


def worst(audit: og.Audit) -> og.AuditedGather | None:
    for gather in audit.gathers:
        index_range: og.IndexRange = gather.range
        conditions: tuple[og.Condition, ...] = index_range.conditions
        if conditions or index_range.state != "proved":
            return gather
    return None


def written(program: og.Program, target: og.Target) -> list[onnx.ModelProto]:
    dispatches: tuple[og.Dispatch, ...] = program.dispatches
    return [og.to_onnx(each.descriptor, target=target) for each in dispatches]


def certified(target: og.ProvedTarget) -> og.Counterexample | None:
    certificate: og.Certified = og.certify(desc, target=target)
    return certificate.counterexample


def in_browser(form: og.WebnnForm) -> og.WebnnProgram:
    return og.to_webnn(desc, form=form)


try:
    output: npt.NDArray[Any] = og.run(desc, data, indices, "error")
    gather = og.Gather(desc, threads=2)
    shape: tuple[int, ...] = gather(data, indices, out=np.empty((4, 2), np.float32)).shape
    with og.Session(hardened(desc, "clamp"), "cpu") as session:
        session.run({"InputTensor": data, "IndicesTensor": indices})
except og.IndexOutOfRangeError as error:
    code: int = error.exit_code
results: tuple[og.Result, ...] = og.check(desc, data, indices)
why: og.Explanation = og.explain(desc, data, indices, (0, 0))
described: og.Description = og.show(desc)
whole: og.WholeWebnnProgram = og.program_to_webnn("gather.json")
parts: list[og.Extracted] = og.extract("model.onnx", {"ids": indices}, "parts")
first: og.AuditedGather | None = worst(og.audit("model.onnx"))
models: list[onnx.ModelProto] = written(og.load("gather.json"), "cpu")
is_wide: bool = desc.input_tensor.data_type == "FLOAT64"
state: str = og.certify(desc).state
count: int = len(og.audit(og.to_onnx(desc)).gathers)
back: og.Descriptor = og.from_dict(og.to_dict(desc))
og.to_onnx(desc, "clam")
"""  # noqa: E501

WRONG = len(PROGRAM.splitlines())
"""The line whose policy is none."""

CHECKERS = {
    "mypy": (["--strict", "--cache-dir=."], r'{}: note: Revealed type is "(.*)"'),
    "pyright": (
        ["--pythonpath", sys.executable],
        r'{}:\d+ - information: Type of .* is "(.*)"',
    ),
}
"""Their arguments, and how they tell a type."""


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKERS)
def test_a_type_checker_sees_the_type_of_each_public_name(
    name: str, tmp_path: Path
) -> None:
    pytest.importorskip(name, reason="the extra lint is not installed")
    arguments, told = CHECKERS[name]
    names = "".join(f"reveal_type(og.{name})\n" for name in og.__all__)
    (tmp_path / "program.py").write_text(PROGRAM + names)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", name, *arguments, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    wrong = re.findall(r"program\.py:(\d+)[\d:]*:? (?:- )?error: ", done.stdout)
    assert wrong == [str(WRONG)], done.stdout + done.stderr
    for line, public in enumerate(og.__all__, WRONG + 1):
        found = re.search(told.format(line), done.stdout)
        assert found, public
        assert found[1] != "Any", public
        assert "Unknown" not in found[1], public
