"""The pictures of an audit: each gather as its first execution in a run had it.

An index out of range that is a constant of the model has a picture without a run too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from onnxgather.auditing.audit import AuditedModel
from onnxgather.auditing.capture import Gathered
from onnxgather.auditing.cropping import constant_data
from onnxgather.auditing.graph_audit import OperationKey, operations_of, out_of_range
from onnxgather.auditing.output.text import read_by_directml
from onnxgather.auditing.records import AuditedGather, Tensor
from onnxgather.core.descriptors.arrays import Array, check_arrays
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.gather import Geometry, gather_of_node
from onnxgather.core.model.network import Operation, Scope
from onnxgather.core.model.values import DIRECTML_NAMES, type_name
from onnxgather.core.options import OutOfRange
from onnxgather.core.output.page import described
from onnxgather.core.output.picture import LARGEST_OUTPUT, picture_of

MOST_EXECUTIONS = 8
"""The most executions of a gather, as in a loop, that are tried for a picture."""

_NOTE_UNDER_CLAMP = (
    "The untouched model stops at another gather. The elements are those of a run in"
    " which each index out of range is clamped to its axis."
)

_NOTE_WITHOUT_ELEMENTS = (
    "The audit ran no inputs. Each question mark is an element that a run computes."
)


def pictures_of(audited: AuditedModel) -> list[dict[str, Any]]:
    """Return the picture of each gather, in the order of the records.

    A picture is the data that the scripts of the page draw. It is empty for a gather
    that did not run, unless a constant of the model is an index out of range; for a
    gather that cannot be drawn; and for other operators.
    """
    pictures: dict[OperationKey, dict[str, Any]] = {key: {} for key in audited.gathers}
    for key, scope, operation in operations_of(audited.network):
        if key not in pictures or not operation.is_gather:
            continue
        record = audited.gathers[key]
        executions: Sequence[Gathered] = audited.captured.gathers.get(operation, [])
        if not executions and _is_read_by_directml(record):
            pictures[key] = _picture_without_run(scope, operation, record)
        for execution in executions[:MOST_EXECUTIONS]:
            # Another execution, or a call of the same function, has a picture already.
            if pictures[key] and _shows_its_state(pictures[key], record):
                break
            picture = _picture(scope, operation, execution, record)
            if not pictures[key] or _shows_its_state(picture, record):
                pictures[key] = picture
        met = record.range.met
        if pictures[key] and met is not None and met.under_clamp:
            pictures[key] = {**pictures[key], "note": _NOTE_UNDER_CLAMP}
    return list(pictures.values())


def _shows_its_state(picture: Mapping[str, Any], record: AuditedGather) -> bool:
    """Return whether a picture shows an index out of range, if the gather has one."""
    if record.range.state != "out-of-range":
        return True
    return bool(picture and picture["picture"].get("outside"))


def _is_read_by_directml(record: AuditedGather) -> bool:
    """Return whether DirectML reads an element for an index that is out of range."""
    if record.shape_computation or record.refused:
        return False
    return record.range.state == "out-of-range"


def _answers(record: AuditedGather) -> dict[str, str]:
    """Return what the CPU and DirectML do with the index that is out of range."""
    answers = out_of_range(record.op, record.domain)
    read = read_by_directml(record) or answers["directml"]
    return {"cpu": answers["cpu"], "directml": read}


def _picture_without_run(
    scope: Scope, operation: Operation, record: AuditedGather
) -> dict[str, Any]:
    """Return the picture of a gather that did not run, whose indices are a constant.

    It is empty if the indices are no constant, or if the sizes of the data are open.
    """
    data_name, index_name = operation.inputs[:2]
    if not scope.is_constant(index_name):
        return {}
    indices = scope.constant(index_name)
    # Case 1: the picture has the elements of the constant.
    if scope.is_constant(data_name):
        return _picture(scope, operation, Gathered((None, indices), None), record)
    # Case 2: only a run has the elements of the data.
    tensor = record.data
    if tensor.type not in DIRECTML_NAMES.values():
        return {}
    sizes = _sizes_to_draw(tensor)
    if sizes is None:
        return {}
    data = np.zeros(sizes, TensorDataType(tensor.type).numpy)
    picture = _picture(scope, operation, Gathered((data, indices), None), record)
    return _without_elements(picture)


def _sizes_to_draw(tensor: Tensor) -> list[int] | None:
    """Return the sizes of a tensor; None if a size is open or the tensor is large."""
    if tensor.sizes is None:
        return None
    sizes = [size for size in tensor.sizes if size is not None]
    is_open = len(sizes) < len(tensor.sizes)
    if is_open or math.prod(sizes) > LARGEST_OUTPUT:
        return None
    return sizes


def _without_elements(picture: dict[str, Any]) -> dict[str, Any]:
    """Return a picture with a question mark for each element of data and output."""
    if not picture:
        return {}
    drawn = dict(picture["picture"])
    for name in ("input", "output"):
        grids = list[dict[str, Any]]()
        for grid in drawn[name]:
            marks = ["?"] * len(grid["offsets"])
            grids.append({**grid, "values": " ".join(marks)})
        drawn[name] = grids
    return {**picture, "picture": drawn, "note": _NOTE_WITHOUT_ELEMENTS}


def _picture(
    scope: Scope, operation: Operation, execution: Gathered, record: AuditedGather
) -> dict[str, Any]:
    """Return the picture of an execution; it is empty if none can be drawn."""
    data, indices = execution.inputs
    is_whole = True
    # The run leaves constants to their readers.
    if data is None:
        data, new_indices = constant_data(scope, operation, indices)
        # The indices are others where the data is cropped.
        is_whole = new_indices is indices
        indices = new_indices
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
        return {**_drawn(None, data, indices, "error"), "node": node}
    try:
        desc, data, indices = _with_descriptor(gather, data, indices)
    except OnnxGatherError:
        # The sizes or the types break a rule of DirectML.
        return {}
    policy: OutOfRange = "error"
    # In data that is cropped, DirectML would read another element than in the model.
    # Along a size of 1, what it reads depends on whether sizes of the model are open.
    is_as_in_model = is_whole and 1 not in gather.axes
    if is_as_in_model and _is_read_by_directml(record):
        policy = "directml"
    facts = described(desc, policy, ["portable"])
    # The graph is the one of the portable target, and not a part of the model.
    facts["graphs"] = []
    if policy == "directml":
        facts["answers"] = _answers(record)
    return {**_drawn(desc, data, indices, policy), **facts}


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


def _drawn(
    desc: Descriptor | None, data: Array, indices: Array, out_of_range: OutOfRange
) -> dict[str, Any]:
    """Return a picture with the types of its tensors, as the page reads it."""
    # Of an index out of range the reader sees what is about it, and no more.
    shows_few = out_of_range == "directml"
    picture = picture_of(desc, data, indices, out_of_range, shows_few=shows_few)
    return {
        "type": _type_of(data),
        "indexType": _type_of(indices),
        "picture": msgspec.to_builtins(picture),
    }


def _type_of(array: Array) -> str:
    """Return DirectML's name of an array's data type, such as FLOAT32."""
    return array.dtype.name.upper()
