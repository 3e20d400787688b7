"""Models of nodes that gather, and their sessions on onnxgather's own provider."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import onnx
from folders import HELPERS, ROOT
from onnx import TensorProto, helper

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution import runtime
from onnxgather.core.options import OutOfRange

ort: Any = import_module("onnxruntime")

GATHERS = "OnnxGatherExecutionProvider"
CPU_PROVIDER = "CPUExecutionProvider"

Shape = Sequence[int | str] | None
"""The shape that a model declares: a text is an open size, None an open rank."""


def tensor(name: str, data_type: int, shape: Shape) -> onnx.ValueInfoProto:
    """Return an input or an output of a model."""
    return helper.make_tensor_value_info(name, data_type, shape)


def number_of(array: Array) -> int:
    """Return ONNX's number of the data type of an array."""
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    opset: int = 17,
    name: str = "graph",
    constants: Mapping[str, Array] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """Return a model."""
    initializers = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in (constants or {}).items()
    ]
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", opset)]
    opsets += [
        helper.make_opsetid(domain, 1) for domain in {f.domain for f in functions}
    ]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=10, functions=functions
    )


def one_gather(
    operator: str,
    data: Array,
    indices: Array,
    *,
    name: str = "g",
    shapes: tuple[Shape, Shape, Shape] | None = None,
    opset: int = 17,
    graph: str = "graph",
    constants: Sequence[str] = (),
    attributes: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """Return a model with one node, from `data` and `indices` to `output`.

    Args:
        operator: Gather, GatherElements or GatherND.
        data: An array of the data's type and shape.
        indices: The same of the indices.
        name: The name of the node.
        shapes: The shapes that the model declares of data, indices and output; None
            those of the arrays, and an open rank of the output.
        opset: The opset of the model.
        graph: The name of the graph.
        constants: Which of data and indices are constants.
        attributes: The attributes of the node.
    """
    numbers: dict[str, Any] = {**(attributes or {})}
    node = helper.make_node(operator, ["data", "indices"], ["output"], name, **numbers)
    data_shape, indices_shape, output_shape = shapes or (
        data.shape,
        indices.shape,
        None,
    )
    arrays = {"data": data, "indices": indices}
    declared = {"data": data_shape, "indices": indices_shape}
    inputs = [
        tensor(each, number_of(arrays[each]), declared[each])
        for each in arrays
        if each not in constants
    ]
    kept = {each: arrays[each] for each in constants}
    output = tensor("output", number_of(data), output_shape)
    if output_shape is None:
        output.type.tensor_type.ClearField("shape")
    return model_of([node], inputs, [output], opset, graph, kept)


def opened(
    model: onnx.ModelProto | bytes,
    out_of_range: OutOfRange = "error",
    *,
    level: int | None = None,
    threads: int = 1,
    report: bool = False,
) -> Any:
    """Return the session of a model on the provider, with the CPU's behind it."""
    options = session_options(level, threads)
    og.add_provider(options, out_of_range, report)
    return session_of(model, options)


def opened_on_cpu(
    model: onnx.ModelProto | bytes, *, level: int | None = None, threads: int = 1
) -> Any:
    """Return the session of a model on ONNX Runtime's provider for the CPU alone."""
    options = session_options(level, threads)
    return session_of(model, options, [CPU_PROVIDER])


def session_options(level: int | None = None, threads: int = 1) -> Any:
    """Return the options of a session that logs nothing and knows who ran each node."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if level is not None:
        options.graph_optimization_level = ort.GraphOptimizationLevel(level)
    return options


def session_of(
    model: onnx.ModelProto | bytes, options: Any, providers: Sequence[str] = ()
) -> Any:
    """Return a session."""
    content = model if isinstance(model, bytes) else model.SerializeToString()
    return ort.InferenceSession(
        content, options, providers=[*providers], enable_fallback=0
    )


def run_on(session: Any, *arrays: Array) -> list[Array]:
    """Run a session on the arrays of its inputs; return its outputs as bytes of their
    types."""
    values = {
        value.name: ort_value(array)
        for value, array in zip(session.get_inputs(), arrays, strict=True)
    }
    names = [value.name for value in session.get_outputs()]
    return [array_of(value) for value in session.run_with_ort_values(names, values)]


def ort_value(array: Array) -> Any:
    """Return an array as a tensor of ONNX Runtime, of a type that numpy lacks, too."""
    if array.dtype.name in runtime.ONNX_NUMBERS:
        bits = np.ascontiguousarray(array).view(f"u{array.itemsize}")
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
            bits.reshape(array.shape), number_of(array)
        )
    return ort.OrtValue.ortvalue_from_numpy(
        np.ascontiguousarray(array).reshape(array.shape)
    )


def array_of(value: Any) -> Array:
    """Return the array of a tensor of ONNX Runtime."""
    number = value.element_type()
    if number != TensorProto.BFLOAT16:
        return value.numpy()
    dtype = helper.tensor_dtype_to_np_dtype(number)
    count = int(np.prod(value.shape(), dtype=np.int64))
    content = ctypes.string_at(value.data_ptr(), 2 * count) if count else b""
    return np.frombuffer(content, dtype).reshape(value.shape())


def message_of_run(session: Any, *arrays: Array) -> str:
    """Return what the provider says where a run ends with an error."""
    try:
        run_on(session, *arrays)
    except Exception as error:
        return said(error)
    raise AssertionError("the run must fail")


def said(error: BaseException) -> str:
    """Return the sentence of an error of ONNX Runtime, without the words before it."""
    return str(error).rpartition("Status Message: ")[2].strip()


def run_alone(code: str) -> tuple[str, str]:
    """Run a program in a process of its own, and return what it prints and logs."""
    program = f"import sys; sys.path[:0] = {[str(ROOT), str(HELPERS)]}\n{code}"
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, ended.stderr


def providers_of(session: Any) -> dict[str, str]:
    """Return the provider of each node, by the node's name."""
    return {
        node.name: part.ep_name
        for part in session.get_provider_graph_assignment_info()
        for node in part.get_nodes()
    }


def operators_on(session: Any, provider: str = GATHERS) -> list[str]:
    """Return the operators of the nodes that a provider runs, in order of the
    alphabet."""
    return sorted(
        node.op_type
        for part in session.get_provider_graph_assignment_info()
        if part.ep_name == provider
        for node in part.get_nodes()
    )
