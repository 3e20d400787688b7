"""The pictures of an audit: each gather as its first execution in a run had it."""

from __future__ import annotations

from typing import Any

import msgspec

from onnxgather.auditing.audit import AuditedModel, OperationKey, operations_of
from onnxgather.auditing.capture import Gathered
from onnxgather.core.descriptors.arrays import Array, check_arrays
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.gather import gather_of_node
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
    """Return the picture of an execution; it is empty where none can be drawn."""
    data, indices = execution.inputs
    if data is None:
        # The run leaves constants to their readers.
        data, indices = constant_data(scope, operation, indices)
    if not {type_name(data), type_name(indices)} <= {*DIRECTML_NAMES}:
        return {}
    gather = gather_of_node(
        operation.operator, data.shape, indices.shape, operation.number
    )
    broken_rule = gather.broken_rule()
    if broken_rule is not None:
        # ONNX forbids the node, so it has no descriptor.
        node = {
            "operator": gather.onnx,
            "attributes": {gather.attribute: gather.number},
            "output_shape": list(gather.output),
            "rule": broken_rule,
        }
        picture = picture_of(None, data, indices, "error")
        return _drawn(data, indices, picture) | {"node": node}
    data_type, index_type = _type_of(data), _type_of(indices)
    try:
        data_sizes, index_sizes, output_sizes = gather.tensor_sizes()
        desc = gather.descriptor(
            [
                TensorDesc(data_type, data_sizes),
                TensorDesc(index_type, index_sizes),
                TensorDesc(data_type, output_sizes),
            ]
        )
        data, indices = check_arrays(
            desc, data.reshape(data_sizes), indices.reshape(index_sizes)
        )
    except OnnxGatherError:
        # The sizes or the types break a rule of DirectML.
        return {}
    picture = picture_of(desc, data, indices, "error")
    facts = described(desc, "error", ["portable"])
    # The graph is the one of the portable target, and not a part of the model.
    facts["graphs"] = []
    return _drawn(data, indices, picture) | facts


def _drawn(data: Array, indices: Array, picture: object) -> dict[str, Any]:
    """Return a picture with the types of its tensors, as the page has them."""
    return {
        "type": _type_of(data),
        "indexType": _type_of(indices),
        "picture": msgspec.to_builtins(picture),
    }


def _type_of(array: Array) -> str:
    """Return DirectML's name of an array's data type, such as FLOAT32."""
    return array.dtype.name.upper()
