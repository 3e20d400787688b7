"""Which node of a model ends the program that runs it on ONNX Runtime.

Some operators of ONNX Runtime end the whole program: an integer division by 0, a
ConvTranspose of empty tensors. The program leaves no message, so the node is searched
for: each part of the model runs in a program of its own, from the first node on.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from network_draft import Feeds, results, session
from onnx.inliner import inline_local_functions

MODEL = "last.onnx"
INPUTS = "last.npz"
LEVEL = "last.txt"
"""The names of the files of the last run, in the folder that keeps it."""

LONGEST = 60
"""Seconds that a part of a model may run."""


def _loaded(path: Path) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(path.read_bytes())


def keep(folder: Path, model: bytes, level: int, feeds: Feeds) -> None:
    """Write a model before ONNX Runtime opens it at a level, or runs it with inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MODEL).write_bytes(model)
    (folder / LEVEL).write_text(str(level))
    arrays: dict[str, Any] = {**feeds}
    np.savez(folder / INPUTS, **arrays)


def ending_operator(python: str, folder: Path) -> str:
    """Return the operator of the first node that ends the program of the kept run.

    The result is "" if no node does.
    """
    model = inline_local_functions(_loaded(folder / MODEL))
    nodes = [*model.graph.node]
    for count in range(1, len(nodes) + 1):
        part = onnx.ModelProto()
        part.CopyFrom(model)
        del part.graph.node[count:]
        del part.graph.output[:]
        for name in nodes[count - 1].output:
            if name:
                part.graph.output.append(onnx.ValueInfoProto(name=name))
        path = folder / "part.onnx"
        path.write_bytes(part.SerializeToString())
        level = (folder / LEVEL).read_text()
        command = [python, __file__, str(path), level, str(folder / INPUTS)]
        ended = subprocess.run(
            command, capture_output=True, timeout=LONGEST, check=False
        )
        if ended.returncode < 0:
            return nodes[count - 1].op_type
    return ""


def proves_nothing(python: str, folder: Path) -> bool:
    """Return whether the audit of the kept model proves nothing.

    So it must be where ONNX Runtime ends the program that opens the model.
    """
    audit = (
        "import sys, onnxgather as og\n"
        "gathers = og.audit(sys.argv[1]).gathers\n"
        "sys.exit(any(gather.range.state == 'proved' for gather in gathers))"
    )
    command = [python, "-c", audit, str(folder / MODEL)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def was_opening(folder: Path) -> bool:
    """Return whether the kept model had no inputs yet, as it was being opened."""
    with np.load(folder / INPUTS) as arrays:
        return not arrays.files


def _run_part(path: str, level: str, inputs: str) -> None:
    """Run a part; an error that Python sees does not end the program."""
    with np.load(inputs) as arrays:
        feeds = {name: arrays[name] for name in arrays.files}
    opened = session(_loaded(Path(path)), int(level))
    if feeds:
        results(opened, feeds)


if __name__ == "__main__":
    _run_part(*sys.argv[1:])
