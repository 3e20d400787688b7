"""How many gathers of exported networks have their indices proved in range.

    python scripts/strength.py [FOLDER]

The folder, or without it `tests/data/networks.zip`, holds models, NAME.onnx or
NAME.KIND.onnx, each with arrays for its inputs, NAME.npz. It prints for each model, and
for all, how many gathers that compute no shapes are proved: from the file alone; under
conditions on the inputs; under the printed contract; and with the sizes and the ranges
of the arrays. Each gather that is not proved has its cause. The arrays must meet the
contract.
"""

from __future__ import annotations

import io
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import onnxgather as og
from onnxgather.auditing.audit import audit
from onnxgather.auditing.records import Audit

ZIP = Path(__file__).parents[1] / "tests/data/networks.zip"
"""Architectures in small configurations with random weights, exported for this project;
the weights are rounded so that the file is small. The inputs of layoutlm must meet
conditions on differences of columns, those of splinter ends that an open size gives.
longt5 sums a mask of floats, marian has one table for two gathers, and rtdetrv2 is a
detector, with Resize and TopK."""


def exported(
    source: Path = ZIP,
) -> Iterator[tuple[str, onnx.ModelProto, dict[str, Any]]]:
    """Yield name, model and inputs of each model of a folder or of a zip file."""
    root: Any = source if source.is_dir() else zipfile.Path(source)
    for path in sorted(root.iterdir(), key=lambda path: path.name):
        if path.name.endswith(".onnx"):
            model = onnx.ModelProto.FromString(path.read_bytes())
            arrays = (root / f"{path.name.partition('.')[0]}.npz").read_bytes()
            names = {value.name for value in model.graph.input}
            every = dict(np.load(io.BytesIO(arrays)))
            yield path.name, model, {name: every[name] for name in names & every.keys()}


def states(found: Audit) -> Counter[str]:
    """How many gathers that compute no shapes are in each state."""
    counted = [one for one in found.gathers if not one.shape_computation]
    return Counter(one.range.state for one in counted)


def measured(model: onnx.ModelProto, inputs: dict[str, Any]) -> dict[str, Counter[str]]:
    """Return the states of the gathers of a model, by what is known of its inputs."""
    bare = audit(model)
    og.check_inputs(bare.contract, inputs)
    shapes = {name: array.shape for name, array in inputs.items()}
    ranges = {
        name: (int(array.min()), int(array.max()))
        for name, array in inputs.items()
        if array.dtype.kind in "iuf" and array.size
    }
    return {
        "file": states(bare),
        "contract": states(audit(model, assume=bare.contract)),
        "shapes and ranges": states(audit(model, shapes=shapes, ranges=ranges)),
    }


def main(source: Path = ZIP) -> None:
    """Print what is proved of the models of a folder, or of a zip file."""
    total: dict[str, Counter[str]] = {}
    for name, model, inputs in exported(source):
        found = measured(model, inputs)
        told = "; ".join(f"{what}: {dict(counts)}" for what, counts in found.items())
        print(f"{name}: {told}", flush=True)
        for one in audit(model).gathers:
            if one.range.state == "not-proved" and not one.shape_computation:
                print(f"    not proved: {one.node}: {one.range.input}")
        for what, counts in found.items():
            total.setdefault(what, Counter()).update(counts)
    for what, counts in total.items():
        every = counts.total()
        proved, under = counts["proved"], counts["proved"] + counts["proved-if"]
        print(f"{what}: {proved} of {every} proved ({proved / every:.1%}), ", end="")
        print(f"{under} with conditions ({under / every:.1%})")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
