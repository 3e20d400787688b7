"""A node of an ONNX model, with the model's inputs, as a case."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnxgather.arrays import Array
from onnxgather.cases import Case
from onnxgather.checks import shown
from onnxgather.datatypes import TensorDataType
from onnxgather.errors import OnnxGatherError, ProviderError
from onnxgather.files import reason
from onnxgather.gather import gather_of_node
from onnxgather.model_nodes import TAKEN, GatherNode, NodeModel
from onnxgather.options import OutOfRange
from onnxgather.providers import PROVIDERS
from onnxgather.repro.candidates import Candidate, case_of
from onnxgather.runtime import FailedError, NotRunError, Opened, RefusedError

_NPZ, _NPY = (b"PK\x03\x04", b"PK\x05\x06"), b"\x93NUMPY"
"""How an .npz file, one without arrays too, and an .npy file start."""

_ONNX_NAMES = {"FLOAT": "FLOAT32", "DOUBLE": "FLOAT64"}
"""ONNX's names of data types that are not DirectML's."""


def read_inputs(path: str) -> dict[str, Array]:
    """Return the arrays of an .npz file.

    Raises:
        OnnxGatherError: It cannot be read, or is none.
    """
    rule = f"{path}: must be an .npz file of arrays"
    arrays: dict[str, Array] = {}
    try:
        with open(path, "rb") as stream:
            start = stream.read(len(_NPY))
            if not start.startswith(_NPZ):
                found = "one array" if start == _NPY else "something else"
                raise OnnxGatherError(f"{rule}, got {found}")
            stream.seek(0)
            file: Mapping[str, object] = np.load(stream, allow_pickle=False)
            for name, array in file.items():
                if not isinstance(array, np.ndarray):  # the bytes of something else
                    raise OnnxGatherError(f"{rule}, got {shown(name)} in it")
                arrays[name] = array
    except OSError as error:
        raise OnnxGatherError(f"{path}: {reason(error)}") from None
    except (OnnxGatherError, MemoryError):
        raise
    except Exception as error:  # zipfile and numpy raise whatever a broken file leads to
        why = " ".join(str(error).split()) or type(error).__name__
        why = "it holds Python objects" if "allow_pickle" in why else why
        raise OnnxGatherError(f"{rule} ({why})") from None
    return arrays


def case_of_node(
    model_path: str,
    node_name: str,
    inputs: Mapping[str, Array],
    out_of_range: OutOfRange = "error",
) -> Case:
    """Return what a gather of a model computes, as ONNX Runtime's DirectML provider would say it.

    The data and the indices of the node are graph inputs, initializers, or computed: then what
    leads to them runs on ONNX Runtime's CPU provider. A node that ONNX forbids is a `NodeCase`.

    Args:
        model_path: The model; its external data stands beside it.
        node_name: The name of a Gather, GatherElements or GatherND of the main graph, or of its
            output.
        inputs: The graph inputs that lead to the node; any other value of the model may be given
            too, and is then not computed.
        out_of_range: What an index out of range does; in ONNX it is an error.

    Raises:
        OnnxGatherError: The model, the node or an input is not as it must be.
        DescriptorError: No descriptor says what the node does.
        ProviderError: What leads to the node does not run.
    """
    model = NodeModel(model_path)
    node = model.gather(node_name)
    where = f"{model_path}: node {shown(node.name)}"
    for role, value in (("data", node.data), ("indices", node.indices)):
        _check_type(where, role, model.declared_type(value))
    _check_inputs(model, node, inputs)
    data, indices = (_value(model, value, inputs, where) for value in (node.data, node.indices))
    for role, array in (("data", data), ("indices", indices)):
        _check_type(where, role, array.dtype.name.upper())
    try:
        gather = gather_of_node(node.operator, data.shape, indices.shape, node.number)
        return case_of(
            Candidate(gather.operator, gather.number, data, indices), where, out_of_range
        )
    except OnnxGatherError as error:
        raise error.at(where) from None


def _check_type(where: str, role: str, found: str | None) -> None:
    known = _ONNX_NAMES.get(found or "", found)
    if known is None or known == "UNDEFINED" or known in TensorDataType.__members__:
        return
    types = ", ".join(TensorDataType.__members__)
    raise OnnxGatherError(
        f"{where}: {role} must be of a type that DirectML gathers ({types}), got {found}"
    )


def _check_inputs(model: NodeModel, node: GatherNode, inputs: Mapping[str, Array]) -> None:
    """Check that the inputs are those that lead to the node, as the model declares them."""
    needed = {
        name: None
        for value in (node.data, node.indices)
        for name in model.needed_for(value, inputs)
    }
    missing = [name for name in needed if name not in inputs]
    if missing:
        names = ", ".join(map(shown, missing))
        raise OnnxGatherError(
            f"{model.path}: the inputs that lead to node {shown(node.name)} must be given, "
            f"got none for {names}"
        )
    for name, array in inputs.items():
        if name not in model.values:
            names = ", ".join(map(shown, model.inputs))
            raise OnnxGatherError(
                f"{model.path}: an input must be a value of the model, such as {names}, "
                f"got {shown(name)}"
            )
        declared = model.inputs.get(name)
        if declared is not None and not declared.admits(array):
            raise OnnxGatherError(
                f"{model.path}: input {shown(name)} must be {declared}, "
                f"got {array.dtype} {list(array.shape)}"
            )


def _value(model: NodeModel, value: str, inputs: Mapping[str, Array], where: str) -> Array:
    if value in inputs:
        return inputs[value]
    constant = model.constant(value)
    if constant is not None:
        return constant
    cpu = PROVIDERS["cpu"]
    before, used = model.model_of(value, inputs)
    try:
        return Opened(before, cpu.name).run({**used, TAKEN: np.array(True)})
    except NotRunError as error:
        raise ProviderError(f"{where}: {cpu.why_not_run(error.kind, error.detail)}") from error
    except (RefusedError, FailedError) as error:
        raise ProviderError(
            f"{where}: {cpu.name} cannot run what leads to {shown(value)}: {error}"
        ) from error
