"""Random DxDispatch programs of one to six gathers over shared resources."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np

import onnxgather as og
from onnxgather.checking.corpus import random_cases
from onnxgather.core.descriptors.datatypes import INDEX_TYPES
from onnxgather.core.descriptors.spelling import tensors
from onnxgather.core.descriptors.tensors import TensorFlags


def random_program(seed: int) -> str:
    """Return a program: chains, fans, resources used again, views of parts, none in
    place.

    The resources have the data types of indices and one more. Commands write them to
    the files `NUMBER.bin`, where NUMBER is that of the command, or print them.
    """
    rng = np.random.default_rng(seed)
    index_type = rng.choice([*INDEX_TYPES])
    data_types = [index_type, index_type, rng.choice([*og.TensorDataType])]
    pool, packed = dict[str, _Resource](), bool(rng.random() < 0.4)
    dispatchables, commands = dict[str, Any](), list[Any]()

    def show(name: str) -> None:
        command = {
            "type": "writeFile",
            "resource": name,
            "targetPath": f"{len(commands)}.bin",
        }
        is_print = rng.random() < 0.3
        commands.append({"type": "print", "resource": name} if is_print else command)

    for number, case in enumerate(random_cases(int(rng.integers(1, 7)), seed)):
        data_type = rng.choice(data_types)
        desc = _typed(case.descriptor, data_type, index_type, packed)
        given, owned = dict[str, Any](), dict[str, Any]()
        ends = dict[str, int]()  # of what the gather reads of each resource
        for role, tensor in tensors(desc).items():
            is_output = role == "OutputTensor"
            same = [
                name for name, one in pool.items() if one.data_type == tensor.data_type
            ]
            same = [
                name for name in same if not (is_output and packed and name in ends)
            ]
            name = (
                str(rng.choice(same))
                if same and rng.random() < 0.8
                else f"r{len(pool)}"
            )
            one = pool.setdefault(name, _Resource(tensor.data_type))
            offset = 0 if packed else int(rng.choice([0, 0, 16, 32]))
            offset += (ends.get(name, 0) + 15) // 16 * 16 if is_output else 0
            one.size = max(one.size, offset + tensor.total_tensor_size_in_bytes)
            bound = {
                "name": name,
                "elementOffset": offset // 16,
                "elementSizeInBytes": 16,
            }
            if not is_output and rng.random() < 0.08:
                flags = msgspec.structs.replace(tensor, flags=TensorFlags.OWNED_BY_DML)
                field = {"InputTensor": "input_tensor"}.get(role, "indices_tensor")
                desc = msgspec.structs.replace(desc, **{field: flags})
                owned[role] = bound
            else:
                given[role] = bound
                end = offset + tensor.total_tensor_size_in_bytes
                ends[name] = max(ends.get(name, 0), end)
        dispatchables[f"g{number}"] = {**og.to_dict(desc), "bindings": owned}
        commands.append(
            {"type": "dispatch", "dispatchable": f"g{number}", "bindings": given}
        )
        if rng.random() < 0.3:
            show(str(rng.choice([*pool])))
    for name in pool:
        if rng.random() < 0.7:
            show(name)
    most = int(rng.choice([1, 1, 2, 6]))
    resources = {name: one.written(rng, most) for name, one in pool.items()}
    program = {
        "resources": resources,
        "dispatchables": dispatchables,
        "commands": commands,
    }
    return json.dumps(program, indent=1)


class _Resource:
    """A resource that grows with what is bound to it."""

    def __init__(self, data_type: og.TensorDataType) -> None:
        self.data_type, self.size = data_type, 0

    def written(self, rng: np.random.Generator, most: int) -> dict[str, Any]:
        """Return the resource as JSON: indices up to `most` or random bits, and some
        padding."""
        item = self.data_type.size
        size = (self.size + 3) // 4 * 4 + int(rng.choice([0, 0, 4, 8, 20]))
        bits = np.frombuffer(rng.bytes(size // item * item), f"u{item}")
        if self.data_type in INDEX_TYPES:
            low = -1 if self.data_type.is_signed else 0
            small = rng.integers(low, most, bits.size).astype(self.data_type.numpy)
            bits = np.where(rng.random(bits.size) < 0.02, bits, small.view(bits.dtype))
        values = {
            "initialValuesDataType": f"UINT{8 * item}",
            "initialValues": bits.tolist(),
            "sizeInBytes": size,
        }
        return (
            values if rng.random() < 0.8 else {**values, "initialValues": _filled(bits)}
        )


def _filled(bits: Any) -> dict[str, Any]:
    return {"value": int(bits[0]), "valueCount": bits.size}


def _typed(
    desc: og.Descriptor, data_type: str, index_type: str, packed: bool
) -> og.Descriptor:
    """Return a descriptor with other data types, and without strides if `packed`."""

    def typed(tensor: og.TensorDesc, name: str) -> og.TensorDesc:
        strides = None if packed else tensor.strides
        extra = (
            tensor.total_tensor_size_in_bytes
            - tensor.default_total_tensor_size_in_bytes
        )
        made = og.TensorDesc(name, tensor.sizes, strides)
        total = made.total_tensor_size_in_bytes + (0 if packed else extra)
        return msgspec.structs.replace(made, total_tensor_size_in_bytes=total)

    return msgspec.structs.replace(
        desc,
        input_tensor=typed(desc.input_tensor, data_type),
        indices_tensor=typed(desc.indices_tensor, index_type),
        output_tensor=typed(desc.output_tensor, data_type),
    )
