"""What bench.py times: ways to run one workload, each into memory that is there beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, get_args

import numpy as np
import onnx
from bench_loop import C_LOOP, gather_in_c
from bench_workloads import Array, Workload
from onnx import helper, numpy_helper

import onnxgather as og
from onnxgather.options import Target

HAND_WRITTEN = "hand-written"
"""The candidate that the others are compared with."""

TARGETS: tuple[Target, ...] = get_args(Target)
"""The targets of `to_onnx`."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run a workload: `run` leaves the result in `result`."""

    name: str
    run: Callable[[], object]
    result: Array


def candidates(workload: Workload, threads: int) -> list[Candidate]:
    """Return every way to run a workload that is installed; all gave the reference's bytes.

    Raises:
        AssertionError: A result differs from the reference.
    """
    data, indices = workload.arrays()
    desc = workload.desc()
    shaped = (
        data.reshape(desc.input_tensor.array_shape),
        indices.reshape(desc.indices_tensor.array_shape),
    )
    expected = og.reference(desc, *shaped)
    models: dict[str, onnx.ModelProto] = {HAND_WRITTEN: hand_written(workload)}
    for target in TARGETS:
        models[target] = og.to_onnx(desc, target=target, threads=threads)
    bind = _binder(*shaped, expected, threads)
    found = [bind(name, model) for name, model in models.items()]
    found.append(_in_numpy(workload, data, indices))
    if find_spec("torch"):
        found.append(_in_torch(workload, data, indices, threads))
    copy = np.zeros_like(expected)
    found.append(Candidate("memcpy", lambda: np.copyto(copy, expected), copy))
    if threads == 1 and (loop := gather_in_c(workload, data, indices)):
        found.append(Candidate(C_LOOP, *loop))
    for candidate in found:
        candidate.run()
        same = candidate.result.tobytes() == expected.tobytes()
        assert same, f"workload {workload.name}: {candidate.name} differs from the reference"
    return found


def hand_written(workload: Workload) -> onnx.ModelProto:
    """Return the model that a competent user writes: INT64, Max, Min, the gather, Reshape."""
    desc = workload.desc()
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def add(op: str, *inputs: str | Array, **attributes: Any) -> str:
        names: list[str] = []
        for value in inputs:
            if isinstance(value, np.ndarray):
                name = f"constant_{len(constants)}"
                constants.append(numpy_helper.from_array(value, name))
                names.append(name)
            else:
                names.append(value)
        nodes.append(helper.make_node(op, names, [f"value_{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    def shape(*sizes: int) -> Array:
        return np.array(sizes, np.int64)

    data, index = "InputTensor", "IndicesTensor"
    if desc.input_tensor.array_shape != workload.data:
        data = add("Reshape", data, shape(*workload.data))
    if desc.indices_tensor.array_shape != workload.indices:
        index = add("Reshape", index, shape(*workload.indices))
    index = add("Cast", index, to=onnx.TensorProto.INT64)
    index = add("Max", index, np.array(0, np.int64))
    index = add("Min", index, np.asarray(workload.limits - 1, np.int64))
    if workload.operator == "GATHER":
        result = add("Gather", data, index, axis=workload.axis)
    elif workload.operator == "GATHER_ND":
        result = add("GatherND", data, index)
    else:
        index = add("Expand", index, shape(*workload.output))
        result = add("GatherElements", data, index, axis=workload.axis)
    add("Reshape", result, shape(*desc.output_tensor.sizes))
    nodes[-1].output[0] = "OutputTensor"
    tensors = {
        "InputTensor": desc.input_tensor,
        "IndicesTensor": desc.indices_tensor,
        "OutputTensor": desc.output_tensor,
    }
    *inputs, output = (
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(tensor.data_type.numpy), tensor.array_shape
        )
        for name, tensor in tensors.items()
    )
    graph = helper.make_graph(nodes, "hand_written", inputs, [output], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _binder(
    data: Array, indices: Array, expected: Array, threads: int
) -> Callable[[str, onnx.ModelProto], Candidate]:
    """Return what makes a model a candidate, its inputs and its output bound once and for all."""
    runtime: Any = import_module("onnxruntime")
    inputs = {
        "InputTensor": runtime.OrtValue.ortvalue_from_numpy(data),
        "IndicesTensor": runtime.OrtValue.ortvalue_from_numpy(indices),
    }

    def bind(name: str, model: onnx.ModelProto) -> Candidate:
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        # Else the workers of the last session still spin while the next one is timed.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        session = runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        output = np.zeros_like(expected)
        binding = session.io_binding()
        for key, value in inputs.items():
            binding.bind_ortvalue_input(key, value)
        # An OrtValue of an array that lives as long as the binding: both see the same memory.
        binding.bind_output(
            "OutputTensor", "cpu", 0, output.dtype, output.shape, output.ctypes.data
        )
        return Candidate(name, lambda: session.run_with_iobinding(binding), output)

    return bind


def _in_numpy(workload: Workload, data: Array, indices: Array) -> Candidate:
    """Return the gather as np.take, which clamps by itself and writes where it is told."""
    out = np.zeros(workload.output, data.dtype)
    wide = np.zeros(indices.shape, np.intp)
    axis, limits = workload.axis, workload.limits

    def take() -> None:
        np.copyto(wide, indices)
        np.take(data, wide, axis, out, "clip")

    def take_batches() -> None:
        np.copyto(wide, indices)
        for one_data, one_index, one_out in zip(data, wide, out, strict=True):
            np.take(one_data, one_index.reshape(-1), axis - 1, one_out, "clip")

    def take_tuples() -> None:
        np.copyto(wide, indices)
        row = np.ravel_multi_index(tuple(wide.T), tuple(limits), mode="clip")
        np.take(data.reshape(-1, *data.shape[limits.size :]), row, 0, out, "clip")

    runs = {"GATHER": take, "GATHER_ELEMENTS": take_batches, "GATHER_ND": take_tuples}
    return Candidate("numpy", runs[workload.operator], out)


def _in_torch(workload: Workload, data: Array, indices: Array, threads: int) -> Candidate:
    """Return the gather as torch.index_select or torch.gather, into an existing tensor."""
    torch: Any = import_module("torch")
    torch.set_num_threads(threads)
    out = np.zeros(workload.output, data.dtype)
    source, index, result = (torch.from_numpy(array) for array in (data, indices, out))
    axis = workload.axis
    limits = np.asarray(workload.limits - 1, np.int64)
    last = torch.from_numpy(limits) if limits.ndim else int(limits)
    wide = torch.zeros(indices.shape, dtype=torch.int64)
    single = wide.reshape(-1)
    everywhere = wide.expand(workload.output) if workload.operator == "GATHER_ELEMENTS" else None
    rows = result.reshape(*data.shape[:axis], -1, *data.shape[axis + 1 :])
    tuples = workload.operator == "GATHER_ND"
    slices = source.reshape(-1, *data.shape[limits.size :]) if tuples else None

    def select() -> None:
        torch.clamp(wide.copy_(index), max=last, out=wide)
        torch.index_select(source, axis, single, out=rows)

    def gather() -> None:
        torch.clamp(wide.copy_(index), max=last, out=wide)
        torch.gather(source, axis, everywhere, out=result)

    def select_tuples() -> None:
        torch.clamp(wide.copy_(index), max=last, out=wide)
        row, column = wide.unbind(-1)
        torch.index_select(slices, 0, row * data.shape[1] + column, out=result)

    runs = {"GATHER": select, "GATHER_ELEMENTS": gather, "GATHER_ND": select_tuples}
    return Candidate("torch", runs[workload.operator], out)
