"""The pictures of an audit: each gather as its first execution in a run had it."""

from __future__ import annotations

from typing import Any

import msgspec

from onnxgather.auditing.audit import AuditedModel
from onnxgather.auditing.capture import Gathered
from onnxgather.auditing.graph_audit import OperationKey, operations_of
from onnxgather.core.descriptors.arrays import Array, check_arrays
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.gather import Geometry, gather_of_node
from onnxgather.core.model.cropping import constant_data
from onnxgather.core.model.network import Operation, Scope
from onnxgather.core.model.values import DIRECTML_NAMES, type_name
from onnxgather.core.output.page import described
from onnxgather.core.output.picture import picture_of

MOST_EXECUTIONS = 8
"""The most executions of a gather, as in a loop, that are tried for a picture."""


def pictures_of(audited: AuditedModel) -> list[dict[str, Any]]:
    """Return the picture of each gather, in the order of the records.

    A picture is the data that the scripts of the page draw. It is empty for a gather
    that did not run, for a gather that cannot be drawn, and for other operators.
    """
    pictures: dict[OperationKey, dict[str, Any]] = {key: {} for key in audited.gathers}
    for key, scope, operation in operations_of(audited.network):
        if key not in pictures or not operation.is_gather:
            continue
        executions = audited.captured.gathers.get(operation, [])
        for execution in executions[:MOST_EXECUTIONS]:
            # Another execution, or a call of the same function, has a picture already.
            if pictures[key]:
                break
            pictures[key] = _picture(scope, operation, execution)
    return list(pictures.values())


def _picture(scope: Scope, operation: Operation, execution: Gathered) -> dict[str, Any]:
    """Return the picture of an execution; it is empty if none can be drawn."""
    data, indices = execution.inputs
    # The run leaves constants to their readers.
    if data is None:
        data, indices = constant_data(scope, operation, indices)
    for array in (data, indices):
        if type_name(array) not in DIRECTML_NAMES:
            return {}
    operator = operation.operator
    number = operation.number
    gather = gather_of_node(operator, data.shape, indices.shape, number)
    broken_rule = gather.broken_rule()
    # ONNX forbids the node, so it has no descriptor.
    if broken_rule is not None:
        node = {
            "operator": gather.onnx,
            "attributes": {gather.attribute: gather.number},
            "output_shape": list(gather.output),
            "rule": broken_rule,
        }
        return {**_drawn(None, data, indices), "node": node}
    try:
        desc, data, indices = _with_descriptor(gather, data, indices)
    except OnnxGatherError:
        # The sizes or the types break a rule of DirectML.
        return {}
    facts = described(desc, "error", ["portable"])
    # The graph is the one of the portable target, and not a part of the model.
    facts["graphs"] = []
    return {**_drawn(desc, data, indices), **facts}


def _with_descriptor(
    gather: Geometry, data: Array, indices: Array
) -> tuple[Descriptor, Array, Array]:
    """Return the descriptor of a gather, and its inputs in the sizes of DirectML.

    Raises:
        OnnxGatherError: The gather breaks a rule of DirectML.
    """
    data_type = _type_of(data)
    data_sizes, index_sizes, output_sizes = gather.tensor_sizes()
    tensors = [
        TensorDesc(data_type, data_sizes),
        TensorDesc(_type_of(indices), index_sizes),
        TensorDesc(data_type, output_sizes),
    ]
    desc = gather.descriptor(tensors)
    data = data.reshape(data_sizes)
    indices = indices.reshape(index_sizes)
    return (desc, *check_arrays(desc, data, indices))


def _drawn(desc: Descriptor | None, data: Array, indices: Array) -> dict[str, Any]:
    """Return a picture with the types of its tensors, as the page reads it."""
    picture = picture_of(desc, data, indices, "error")
    return {
        "type": _type_of(data),
        "indexType": _type_of(indices),
        "picture": msgspec.to_builtins(picture),
    }


def _type_of(array: Array) -> str:
    """Return DirectML's name of an array's data type, such as FLOAT32."""
    return array.dtype.name.upper()
