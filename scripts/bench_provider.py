"""Times onnxgather's provider beside ONNX Runtime's CPU provider.

  python scripts/bench_provider.py                     the workloads, as bare nodes
  python scripts/bench_provider.py --only d1           one of them
  python scripts/bench_provider.py --networks FOLDER   networks: each .onnx with the
                                                       inputs in the .npz beside it

A share of 0.6 says that a session with the provider takes 0.6 of the CPU time of a
session without it. All sessions of a workload take turns, and the least time of each
counts. Their outputs must have the same bytes before they are timed. It needs Linux.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import onnx
from bench import keep_to_cores, measure
from bench_workloads import DENSE, WORKLOADS, Array, Workload, at_page, named
from onnx import helper

import onnxgather as og
from onnxgather.core.options import OutOfRange

SESSIONS: dict[str, tuple[OutOfRange, bool] | None] = {
    "cpu": None,
    "error": ("error", False),
    "clamp": ("clamp", False),
    "clamp, report": ("clamp", True),
    "directml": ("directml", False),
}
"""The provider's options of each session; None for the CPU provider alone."""


def bare_node(workload: Workload) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return the ONNX node of a workload with INT64 indices, and its inputs."""
    gather = workload.gather
    data, indices = workload.arrays()
    wide = indices.astype(np.int64)
    if workload.operator == "GATHER_ELEMENTS":
        wide = np.broadcast_to(wide, workload.output)
    inputs = {"data": at_page(data, 0), "indices": at_page(np.asarray(wide), 0)}
    inputs["data"][...] = data
    inputs["indices"][...] = wide
    values = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in inputs.items()
    ]
    output = helper.make_tensor_value_info(
        "output", values[0].type.tensor_type.elem_type, workload.output
    )
    attributes = {gather.attribute: gather.number}
    node = helper.make_node(gather.onnx, [*inputs], ["output"], "node", **attributes)
    graph = helper.make_graph([node], workload.name, values, [output])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), inputs


def networks(folder: Path) -> Iterator[tuple[str, onnx.ModelProto, dict[str, Array]]]:
    """Return the networks of a folder, each with its inputs."""
    for path in sorted(folder.glob("*.onnx")):
        inputs = folder / f"{path.name.split('.')[0]}.npz"
        if inputs.exists():
            yield path.stem, onnx.load(path), dict(np.load(inputs))


def session_of(
    model: bytes, inputs: Mapping[str, Array], setting: tuple[OutOfRange, bool] | None
) -> tuple[Any, Any]:
    """Return a session with one thread, and its inputs and outputs."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if setting is None:
        session = runtime.InferenceSession(model, options, ["CPUExecutionProvider"])
    else:
        og.add_provider(options, *setting)
        session = runtime.InferenceSession(model, options)
    binding = session.io_binding()
    names = {value.name for value in session.get_inputs()}
    for name, array in inputs.items():
        if name in names:
            pointer = array.ctypes.data
            binding.bind_input(name, "cpu", 0, array.dtype, array.shape, pointer)
    for value in session.get_outputs():
        binding.bind_output(value.name)
    return session, binding


def shares(
    name: str, model: onnx.ModelProto, inputs: Mapping[str, Array], rounds: int
) -> dict[str, float]:
    """Return the share of each session in the time of the CPU provider alone."""
    content = model.SerializeToString()
    runs: dict[str, Any] = {}
    outputs: dict[str, list[bytes]] = {}
    for title, setting in SESSIONS.items():
        session, binding = session_of(content, inputs, setting)
        runs[title] = partial(session.run_with_iobinding, binding)
        runs[title]()
        outputs[title] = [each.tobytes() for each in binding.copy_outputs_to_cpu()]
        same = outputs[title] == outputs["cpu"]
        assert same, f"{name}: {title} has other bytes than the CPU provider"
    times = measure(runs, rounds, 1)
    return {title: times[title] / times["cpu"] for title in times if title != "cpu"}


def main() -> None:
    """Measure and print what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", help="a workload; repeatable")
    parser.add_argument("--networks", type=Path, help="a folder")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    keep_to_cores(1)
    started = time.perf_counter()
    rows: dict[str, dict[str, float]] = {}
    if options.networks:
        for name, model, inputs in networks(options.networks):
            rows[name] = shares(name, model, inputs, options.rounds)
            print(name, line_of(rows[name]), flush=True)
    else:
        for workload in named((*WORKLOADS, *DENSE), options.only):
            model, inputs = bare_node(workload)
            rows[workload.name] = shares(workload.name, model, inputs, options.rounds)
            print(workload.name, line_of(rows[workload.name]), flush=True)
    for title in list(SESSIONS)[1:]:
        column = [row[title] for row in rows.values()]
        worst = max(rows, key=lambda name: rows[name][title])
        print(
            f"{title}: geometric mean {geometric_mean(column):.3f} of {len(column)},"
            f" worst {rows[worst][title]:.3f} ({worst})"
        )
    print(f"{time.perf_counter() - started:.0f} s")


def line_of(row: Mapping[str, float]) -> str:
    """Return the shares of a row, as a line."""
    return "  ".join(f"{title} {share:.3f}" for title, share in row.items())


if __name__ == "__main__":
    main()
