"""What bench.py times: the ways of onnxgather and of its rivals to run a workload."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from bench_report import DIRECT, HAND_WRITTEN, MEMCPY, TARGETS
from bench_rivals import Candidate, Given, in_place, rivals
from bench_workloads import Array, Workload, placed
from onnx import numpy_helper, parser

import onnxgather as og
from onnxgather.core.execution import kernels
from onnxgather.core.lowering.cpu import forms

Candidates = dict[str, Candidate]


def candidates(workload: Workload, threads: int) -> Candidates:
    """Return every installed way to run a workload.

    Each gave the bytes of the reference.

    Raises:
        AssertionError: A result differs from the reference.
    """
    desc = workload.desc()
    bind, expected, inputs, output = _binder(workload, "UINT32", threads)
    data = inputs[0]
    # data with strides stays its buffer
    if workload.strides is None:
        data = data.reshape(workload.data)
    indices = inputs[1].reshape(workload.indices)
    ways = {HAND_WRITTEN: bind(hand_written(workload))}
    for target in TARGETS:
        if target != "native" or kernels.operators_library():
            ways[target] = bind(og.to_onnx(desc, target=target, threads=threads))
    if kernels.python_kernels():
        gather = og.Gather(desc, threads=threads)
        ways[DIRECT] = in_place(partial(gather, *inputs, output), output)
    ways[MEMCPY] = in_place(partial(np.copyto, output, expected), output)
    ways |= rivals(
        Given(workload, data, indices, output.reshape(workload.output), threads)
    )
    _check(workload, ways, output, expected)
    return ways


def form_and_next(workload: Workload, index_type: str, threads: int) -> Candidates:
    """Return the form of the CPU lowering that a workload takes, and the next form.

    The next form is the next one that fits. Where no form fits, the portable lowering
    is returned alone.
    """
    desc = workload.desc(index_type)
    bind, expected, _, output = _binder(workload, index_type, threads)
    ways: Candidates = {}
    left = forms.FORMS
    while len(ways) < 2 and "portable" not in ways:
        with patch.object(forms, "FORMS", left):
            model = og.to_onnx(desc, target="cpu", threads=threads)
        name = json.loads(model.metadata_props[0].value)["form"].partition(":")[0]
        ways[name] = bind(model)
        tried = [form.name for form in left]
        left = left[tried.index(name) + 1 :] if name in tried else ()
    _check(workload, ways, output, expected)
    return ways


def _check(
    workload: Workload, ways: Candidates, output: Array, expected: Array
) -> None:
    for name, candidate in ways.items():
        output.view(np.uint8)[...] = 0xA5
        result = candidate.result(candidate.run())
        same = result.tobytes() == expected.tobytes()
        assert same, f"workload {workload.name}: {name} differs from the reference"


def hand_written(workload: Workload) -> onnx.ModelProto:
    """Return the model that a user writes: INT64, Max, Min, the gather, Reshape."""
    desc, gather = workload.desc(), workload.gather
    constants = {"zero": np.array(0), "last": workload.limits.astype(np.int64) - 1}
    nodes: list[str] = []

    def reshaped(name: str, present: tuple[int, ...], needed: tuple[int, ...]) -> str:
        if present == needed:
            return name
        constants[f"{name}_sizes"] = np.array(needed)
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
        (
            f"gathered = {gather.onnx} <{gather.attribute} = {gather.number}> ({data},"
            f" {index})"
        ),
        "OutputTensor = Reshape (gathered, sizes)",
    ]
    declared = og.to_onnx(desc).graph
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> hand_written () => () {'
        + " ".join(nodes)
        + "}"
    )
    for name, array in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    model.graph.input.extend(declared.input)
    model.graph.output.extend(declared.output)
    return model


def _binder(
    workload: Workload, index_type: str, threads: int
) -> tuple[Callable[[onnx.ModelProto], Candidate], Array, tuple[Array, Array], Array]:
    """Return what makes a model a candidate, the right result, inputs and output.

    The output is where the candidates write.

    All candidates share the arrays and the memory of the output: its position moves the
    times.
    """
    runtime: Any = import_module("onnxruntime")
    data, indices, output, expected = placed(workload, 0, index_type)
    inputs = {
        "InputTensor": runtime.OrtValue.ortvalue_from_numpy(data),
        "IndicesTensor": runtime.OrtValue.ortvalue_from_numpy(indices),
    }

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
        # An OrtValue of an array that lives as long as the binding: both see the same
        # memory.
        binding.bind_output(
            "OutputTensor", "cpu", 0, output.dtype, output.shape, output.ctypes.data
        )
        return in_place(partial(session.run_with_iobinding, binding), output)

    return bind, expected, (data, indices), output
