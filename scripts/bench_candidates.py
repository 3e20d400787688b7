"""What bench.py times: ways to run one workload, each into memory that is there beforehand."""

from __future__ import annotations

import ctypes
import json
import math
import shutil
import subprocess
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from bench_report import C_LOOP, COMPILER, DIRECT, FLAGS, HAND_WRITTEN, SOURCE, TARGETS
from bench_workloads import Array, Workload
from onnx import numpy_helper, parser

import onnxgather as og
from onnxgather.execution import kernels
from onnxgather.lowering.cpu import forms

Candidate = tuple[Callable[[], object], Array]
"""A call that runs a workload, and the array in which it leaves the result."""

Candidates = dict[str, Candidate]


def candidates(workload: Workload, threads: int) -> Candidates:
    """Return every way to run a workload that is installed; all gave the reference's bytes.

    Raises:
        AssertionError: A result differs from the reference.
    """
    data, indices = workload.arrays()
    desc = workload.desc()
    bind, expected, inputs, output = _binder(workload, desc, threads)
    data, indices = inputs[0].reshape(data.shape), inputs[1].reshape(indices.shape)
    found = {HAND_WRITTEN: bind(hand_written(workload))}
    for target in TARGETS:
        if target != "native" or kernels.operators_library():
            found[target] = bind(og.to_onnx(desc, target=target, threads=threads))
    if kernels.python_kernels():
        found[DIRECT] = partial(og.Gather(desc, threads=threads), *inputs, output), output
    out = output.reshape(workload.output)
    found["numpy"] = _in_numpy(workload, data, indices, out)
    if find_spec("torch"):
        found["torch"] = _in_torch(workload, data, indices, out, threads)
    found["memcpy"] = partial(np.copyto, output, expected), output
    if threads == 1 and (loops := _loops()):
        found[C_LOOP] = _in_c(loops, workload, data, indices, out)
    _check(workload, found, expected)
    return found


def form_and_next(workload: Workload, index_type: str, threads: int) -> Candidates:
    """Return the form of the CPU lowering that a workload takes, and the next one that fits.

    Only the portable lowering where no form fits.
    """
    desc = workload.desc(index_type)
    bind, expected, _, _ = _binder(workload, desc, threads)
    found: Candidates = {}
    left = forms.FORMS
    while len(found) < 2 and "portable" not in found:
        with patch.object(forms, "FORMS", left):
            model = og.to_onnx(desc, target="cpu", threads=threads)
        name = json.loads(model.metadata_props[0].value)["form"].partition(":")[0]
        found[name] = bind(model)
        tried = [form.name for form in left]
        left = left[tried.index(name) + 1 :] if name in tried else ()
    _check(workload, found, expected)
    return found


def _check(workload: Workload, found: Candidates, expected: Array) -> None:
    for name, (run, result) in found.items():
        result.view(np.uint8)[...] = 0xA5
        run()
        same = result.tobytes() == expected.tobytes()
        assert same, f"workload {workload.name}: {name} differs from the reference"


def hand_written(workload: Workload) -> onnx.ModelProto:
    """Return the model that a competent user writes: INT64, Max, Min, the gather, Reshape."""
    desc, gather = workload.desc(), workload.gather
    constants = {"zero": np.array(0), "last": workload.limits.astype(np.int64) - 1}
    nodes: list[str] = []

    def reshaped(name: str, found: tuple[int, ...], wanted: tuple[int, ...]) -> str:
        if found == wanted:
            return name
        constants[f"{name}_sizes"] = np.array(wanted)
        nodes.append(f"{name}_shaped = Reshape ({name}, {name}_sizes)")
        return f"{name}_shaped"

    data = reshaped("InputTensor", desc.input_tensor.array_shape, workload.data)
    index = reshaped("IndicesTensor", desc.indices_tensor.array_shape, workload.indices)
    nodes += [
        f"wide = Cast <to = {onnx.TensorProto.INT64}> ({index})",
        "not_below = Max (wide, zero)",
        "index = Min (not_below, last)",
    ]
    if workload.operator == "GATHER_ELEMENTS":
        constants["each"] = np.array(workload.output)
        nodes.append("index_each = Expand (index, each)")
    index = nodes[-1].partition(" ")[0]
    constants["sizes"] = np.array(desc.output_tensor.sizes)
    nodes += [
        f"gathered = {gather.onnx} <{gather.attribute} = {gather.number}> ({data}, {index})",
        "OutputTensor = Reshape (gathered, sizes)",
    ]
    declared = og.to_onnx(desc).graph
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> hand_written () => () {' + " ".join(nodes) + "}"
    )
    for name, array in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    model.graph.input.extend(declared.input)
    model.graph.output.extend(declared.output)
    return model


def _binder(
    workload: Workload, desc: og.Descriptor, threads: int
) -> tuple[Callable[[onnx.ModelProto], Candidate], Array, tuple[Array, Array], Array]:
    """Return what makes a model a candidate, the right result, the inputs, and where outputs go.

    All candidates share the arrays and the memory of the output: its position moves the times.
    """
    runtime: Any = import_module("onnxruntime")
    data, indices = workload.arrays()
    data = data.reshape(desc.input_tensor.array_shape)
    tensor = desc.indices_tensor
    indices = indices.reshape(tensor.array_shape).astype(tensor.data_type.numpy)
    expected = og.reference(desc, data, indices)
    inputs = {
        "InputTensor": runtime.OrtValue.ortvalue_from_numpy(data),
        "IndicesTensor": runtime.OrtValue.ortvalue_from_numpy(indices),
    }

    output = np.zeros_like(expected)

    def bind(model: onnx.ModelProto) -> Candidate:
        options = runtime.SessionOptions()
        if path := kernels.operators_library():
            options.register_custom_ops_library(path)
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        # Else the workers of the last session still spin while the next one is timed.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        session = runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        for value in model.graph.input:
            binding.bind_ortvalue_input(value.name, inputs[value.name])
        # An OrtValue of an array that lives as long as the binding: both see the same memory.
        binding.bind_output(
            "OutputTensor", "cpu", 0, output.dtype, output.shape, output.ctypes.data
        )
        return partial(session.run_with_iobinding, binding), output

    return bind, expected, (data, indices), output


def _in_numpy(workload: Workload, data: Array, indices: Array, out: Array) -> Candidate:
    """Return the gather as np.take, which clamps by itself and writes where it is told."""
    wide = np.zeros(indices.shape, np.intp)
    axis, limits = workload.axis, workload.limits

    def take_batches() -> None:
        for one_data, one_index, one_out in zip(data, wide, out, strict=True):
            np.take(one_data, one_index.reshape(-1), axis - 1, one_out, "clip")

    def take_tuples() -> None:
        row = np.ravel_multi_index(tuple(wide.T), tuple(limits), mode="clip")
        np.take(data.reshape(-1, *data.shape[limits.size :]), row, 0, out, "clip")

    take = {
        "GATHER": partial(np.take, data, wide, axis, out, "clip"),
        "GATHER_ELEMENTS": take_batches,
        "GATHER_ND": take_tuples,
    }[workload.operator]

    def run() -> None:
        np.copyto(wide, indices)
        take()

    return run, out


def _in_torch(
    workload: Workload, data: Array, indices: Array, out: Array, threads: int
) -> Candidate:
    """Return the gather as torch.index_select or torch.gather, into an existing tensor."""
    torch: Any = import_module("torch")
    torch.set_num_threads(threads)
    source, index, result = (torch.from_numpy(array) for array in (data, indices, out))
    axis, limits = workload.axis, np.asarray(workload.limits - 1, np.int64)
    last = torch.from_numpy(limits) if limits.ndim else int(limits)
    wide = torch.zeros(indices.shape, dtype=torch.int64)

    def select_tuples() -> None:
        row, column = wide.unbind(-1)
        slices = source.reshape(-1, *data.shape[2:])
        torch.index_select(slices, 0, row * data.shape[1] + column, out=result)

    if workload.operator == "GATHER":
        rows = result.reshape(*data.shape[:axis], -1, *data.shape[axis + 1 :])
        select = partial(torch.index_select, source, axis, wide.reshape(-1), out=rows)
    elif workload.operator == "GATHER_ELEMENTS":
        everywhere = wide.expand(workload.output)
        select = partial(torch.gather, source, axis, everywhere, out=result)
    else:
        select = select_tuples

    def run() -> None:
        torch.clamp(wide.copy_(index), max=last, out=wide)
        select()

    return run, out


def compiler() -> str | None:
    """Return the C compiler's name and version, None where there is none."""
    path = shutil.which(COMPILER)
    if path is None:
        return None
    shown = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return shown.stdout.partition("\n")[0]


@cache
def _loops() -> ctypes.CDLL | None:
    """Return the compiled loops, None where there is no C compiler.

    Raises:
        CalledProcessError: The compiler refuses them; it said why on the standard error.
    """
    if shutil.which(COMPILER) is None:
        return None
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        library = Path(folder, "bench_loop.so")
        subprocess.run([COMPILER, *FLAGS, "-o", library, SOURCE], check=True)
        return ctypes.CDLL(str(library))


def _in_c(
    loops: ctypes.CDLL, workload: Workload, data: Array, indices: Array, result: Array
) -> Candidate:
    """Return the gather as a plain loop in C."""
    if workload.operator == "GATHER_ND":
        loop = loops.gather_pairs
        sizes = (*workload.limits.tolist(), workload.indices[0])
    else:
        loop = loops.gather
        elements = workload.operator == "GATHER_ELEMENTS"
        batches = math.prod(workload.indices[: workload.axis]) if elements else 1
        repeats = math.prod(workload.data[: workload.axis]) // batches
        sizes = (batches, repeats, workload.limits.item(), indices.size // batches)
    loop.restype = None
    # These pointers keep their arrays alive; converted once, arguments cost a tiny call least.
    arrays = (array.ctypes.data_as(ctypes.c_void_p) for array in (data, indices, result))
    numbers = map(ctypes.c_size_t, (*sizes, workload.row_bytes))
    return partial(loop, *arrays, *numbers), result
