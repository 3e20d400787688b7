"""A gather node of an ONNX model as a case, with the inputs of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxgather.arrays import Array, plain_array
from onnxgather.cases import Case
from onnxgather.checks import listed, shown
from onnxgather.datatypes import TensorDataType
from onnxgather.errors import OnnxGatherError, ProviderError
from onnxgather.files import got, reason
from onnxgather.gather import gather_of_node
from onnxgather.lanes.lane import AnswerKind
from onnxgather.lanes.python import ModelLane
from onnxgather.model.read import GATHERED_TYPES, MOST_LISTED, NodeModel, type_name
from onnxgather.repro.candidates import Candidate, case_of

_NPZ = (b"PK\x03\x04", b"PK\x05\x06")
"""The first bytes of an .npz file, with arrays or without."""


def read_inputs(path: str) -> dict[str, Array]:
    """The arrays of an .npz file.

    Raises:
        OnnxGatherError: The file cannot be read, or is no .npz file of arrays.
    """
    rule = f"{path}: must be an .npz file of arrays"
    try:
        with open(path, "rb") as stream:
            start = stream.read(100)
            stream.seek(0)
            arrays = dict[str, Any](np.load(stream) if start.startswith(_NPZ) else {})
    except OSError as error:
        raise OnnxGatherError(f"{path}: {reason(error)}") from None
    except MemoryError:
        raise
    except Exception as error:  # zipfile and numpy raise whatever a broken file leads to
        why = " ".join(str(error).split()) or type(error).__name__
        why = "it holds Python objects" if "allow_pickle" in why else why
        raise OnnxGatherError(f"{rule} ({why})") from None
    if not start.startswith(_NPZ):
        raise OnnxGatherError(f"{rule}{got(start, 'an .npz') or ', got something else'}")
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # the bytes of another file in the archive
            raise OnnxGatherError(f"{rule}, got {shown(name)} in it")
    return arrays


def case_of_node(
    model_path: str,
    node_name: str,
    inputs: Mapping[str, Array],
    cpu: ModelLane,
) -> Case:
    """The case of a gather node: the descriptor that ONNX Runtime's DirectML provider makes of it.

    The data and the indices of the node are graph inputs, initializers or outputs of other nodes,
    which then run on ONNX Runtime's CPU provider. An index out of range is an error, as in ONNX. A
    node that ONNX forbids is a `NodeCase`.

    Args:
        model_path: The file of the model; external data is looked for in its folder.
        node_name: The name of a Gather, GatherElements or GatherND of the main graph, or of its
            output.
        inputs: Arrays by name, for the graph inputs that the node depends on. Any other value of
            the model may be given too; it is then not computed.
        cpu: The lane that runs the nodes before the gather, on the CPU provider; the caller closes
            it.

    Raises:
        OnnxGatherError: The model, the node or an input is not as it must be, or the nodes that
            compute the data or the indices do not run.
        DescriptorError: The descriptor of the node breaks a rule of DirectML.
        ProviderError: There is no CPU provider.
    """
    model = NodeModel(model_path)
    rule = f"{model_path}: an input must be an array"
    inputs = {name: plain_array(rule, array) for name, array in inputs.items()}
    node = model.gather(node_name)
    where = f"{model_path}: node {shown(node.name)}"
    values = {"data": node.data, "indices": node.indices}
    for role, value in values.items():
        if value in model.declared:
            _check_type(where, role, model.declared[value].data_type)
    missing = model.missing_for(values.values(), inputs)
    if missing:
        raise OnnxGatherError(
            f"{model_path}: the inputs that lead to node {shown(node.name)} must be given, "
            f"got none for {listed([*map(shown, missing)], MOST_LISTED)}"
        )
    _check_inputs(model, inputs)
    data, indices = (_value(model, value, inputs, cpu, where) for value in values.values())
    return case_of_arrays(where, node.operator, node.number, data, indices)


def case_of_arrays(where: str, operator: str, number: int, data: Array, indices: Array) -> Case:
    """The case of a gather node with what it takes; an index out of range is an error.

    Args:
        where: What an error calls the node.
        operator: Gather, GatherElements or GatherND.
        number: Its `axis` or `batch_dims`.
        data: The first input.
        indices: The second input.

    Raises:
        OnnxGatherError: DirectML has no such types.
        DescriptorError: The descriptor of the node breaks a rule of DirectML.
    """
    _check_type(where, "data", type_name(data))
    _check_type(where, "indices", type_name(indices))
    try:
        gather = gather_of_node(operator, data.shape, indices.shape, number)
        candidate = Candidate(gather.operator, gather.number, data, indices)
        return case_of(candidate, where, "error")
    except OnnxGatherError as error:
        raise error.at(where) from None


def _check_type(where: str, role: str, found: str) -> None:
    if found not in ("", *GATHERED_TYPES):
        types = ", ".join(TensorDataType.__members__)
        raise OnnxGatherError(
            f"{where}: {role} must be of a type that DirectML gathers ({types}), got {found}"
        )


def _check_inputs(model: NodeModel, inputs: Mapping[str, Array]) -> None:
    """Check that the inputs are values of the model, of the types and shapes that it declares."""
    for name, array in inputs.items():
        if name not in model.values:
            names = ", ".join(map(shown, model.inputs))
            raise OnnxGatherError(
                f"{model.path}: an input must be a value of the model, such as {names}, "
                f"got {shown(name)}"
            )
        known = model.declared.get(name) if name in model.inputs else None
        if known and not (known.admits(array.shape) and known.data_type == type_name(array)):
            raise OnnxGatherError(
                f"{model.path}: input {shown(name)} must be {known}, "
                f"got {array.dtype} {list(array.shape)}"
            )


def _value(
    model: NodeModel, value: str, inputs: Mapping[str, Array], cpu: ModelLane, where: str
) -> Array:
    if value in inputs:
        return inputs[value]
    constant = model.constant(value)
    if constant is not None:
        return constant
    before, used = model.model_of(value, inputs)
    answer = cpu.run(before, [used])
    if answer.kind is AnswerKind.NOT_RUN:
        raise ProviderError(f"{where}: {answer.reason}")
    if answer.output is None:
        raise OnnxGatherError(
            f"{where}: {cpu.provider.name} cannot run what leads to {shown(value)}: {answer.reason}"
        )
    return answer.output
