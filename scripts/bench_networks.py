"""Times whole networks with onnxgather's provider, and on the CPU provider alone.

  python scripts/bench_networks.py FOLDER     each .onnx, with the inputs in the .npz
                                              that begins with the same name

A share of 1.01 says that a session with the provider takes 1.01 of the CPU time of a
session without it. The sessions of a network take turns, and the least time of each
counts. Their outputs must have the same bytes before they are timed. It needs Linux.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
from bench import Run, keep_to_cores, measure
from bench_workloads import Array

import onnxgather as og
from onnxgather.core.options import OutOfRange

ALONE = "cpu"
"""The session without onnxgather's provider."""

SETTINGS: dict[str, tuple[OutOfRange, bool]] = {
    "error": ("error", False),
    "clamp": ("clamp", False),
    "clamp, report": ("clamp", True),
}
"""What the provider is told in the other sessions."""


def session_of(path: Path, setting: tuple[OutOfRange, bool] | None) -> Any:
    """Return a session of a network with one thread."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if setting is not None:
        og.add_provider(options, *setting)
    return runtime.InferenceSession(path, options)


def shares(path: Path, inputs: Mapping[str, Array], rounds: int) -> dict[str, float]:
    """Return what each session takes of the time of the CPU provider alone."""
    runs: dict[str, Run] = {}
    contents: dict[str, list[bytes]] = {}
    for name, setting in {ALONE: None, **SETTINGS}.items():
        session = session_of(path, setting)
        binding = session.io_binding()
        for value in session.get_inputs():
            binding.bind_cpu_input(value.name, inputs[value.name])
        for value in session.get_outputs():
            binding.bind_output(value.name)
        runs[name] = partial(session.run_with_iobinding, binding)
        runs[name]()
        outputs = binding.copy_outputs_to_cpu()
        contents[name] = [output.tobytes() for output in outputs]
        assert contents[name] == contents[ALONE], f"{path}: {name} has other bytes"
    times = measure(runs, rounds, 1)
    return {name: times[name] / times[ALONE] for name in SETTINGS}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    keep_to_cores(1)
    rows: dict[str, dict[str, float]] = {}
    for path in sorted(options.folder.glob("*.onnx")):
        first, _, _ = path.name.partition(".")
        inputs = path.with_name(f"{first}.npz")
        if inputs.exists():
            row = shares(path, dict(np.load(inputs)), options.rounds)
            rows[path.stem] = row
            print(path.stem, *(f"{name} {row[name]:.3f}" for name in row), flush=True)
    for name in SETTINGS:
        column = {network: row[name] for network, row in rows.items()}
        worst = max(column, key=lambda network: column[network])
        print(
            f"{name}: geometric mean {geometric_mean(column.values()):.3f} of"
            f" {len(column)}, worst {column[worst]:.3f} ({worst})"
        )


if __name__ == "__main__":
    main()
