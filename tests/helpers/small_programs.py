"""Small DxDispatch programs, written by hand."""

from __future__ import annotations

import json
from typing import Any

ROLES = ("InputTensor", "IndicesTensor", "OutputTensor")


def gather(
    data: object,
    indices: object,
    output: object,
    size: int,
    count: int,
    **fields: dict[str, Any],
) -> dict[str, Any]:
    """Return a gather of `count` FLOAT32 elements out of `size`, by UINT32 indices.

    Args:
        data: What InputTensor is bound to: the name of a resource, or a binding.
        indices: What IndicesTensor is bound to.
        output: What OutputTensor is bound to.
        size: The size of InputTensor.
        count: The size of the others.
        fields: Other fields of tensors, by the names of the tensors.
    """
    tensors = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [size]},
        "IndicesTensor": {"DataType": "UINT32", "Sizes": [count]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [count]},
    }
    desc = {name: tensor | fields.get(name, {}) for name, tensor in tensors.items()}
    bindings: dict[str, Any] = dict(zip(ROLES, (data, indices, output), strict=True))
    owned = {k: bindings.pop(k) for k, tensor in desc.items() if "Flags" in tensor}
    whole = desc | {"Axis": 0, "IndexDimensions": 1}
    dispatchable = {"type": "DML_OPERATOR_GATHER", "desc": whole, "bindings": owned}
    return {"type": "dispatch", "dispatchable": dispatchable, "bindings": bindings}


def shown(resource: str) -> dict[str, str]:
    """Return a command that prints a resource."""
    return {"type": "print", "resource": resource}


def small_program(resources: dict[str, Any], *commands: dict[str, Any]) -> str:
    """Return a program.

    Args:
        resources: FLOAT32 values in a list, UINT32 values in a tuple, or JSON, by name.
        commands: The commands; a dispatch has its dispatchable inside.
    """
    dispatchables, written = dict[str, Any](), list[Any]()
    for number, command in enumerate(commands):
        if "dispatchable" in command:
            dispatchables[f"g{number}"] = command["dispatchable"]
            command = {**command, "dispatchable": f"g{number}"}
        written.append(command)
    made = {name: _resource(values) for name, values in resources.items()}
    return json.dumps(
        {"resources": made, "dispatchables": dispatchables, "commands": written}
    )


def _resource(values: Any) -> Any:
    data_type = {tuple: "UINT32", list: "FLOAT32"}.get(values.__class__)
    made = {"initialValuesDataType": data_type, "initialValues": values}
    return made if data_type else values


def written(text: str, **resources: Any) -> str:
    """Return a program that is written as text: `"y = x[i]; print y"`.

    Args:
        text: Gathers along the only axis, and what is printed.
        resources: Values of resources. Without them `x` has four FLOAT32 values, `i`
            has four indices, and others are four zeros.
    """
    values = {"x": [11.0, 12.0, 13.0, 14.0], "i": (3, 1, 3, 0)} | resources
    used, commands = dict[str, Any](), list[dict[str, Any]]()
    for command in text.split("; "):
        *left, right = command.replace("[", " ").removesuffix("]").split()
        names = [name for name in (*left, right) if name not in ("=", "print")]
        for name in names:
            used[name] = values.get(name, [0.0] * 4)
        if left == ["print"]:
            commands.append(shown(right))
        else:
            output, data, indices = names
            sizes = (len(used[data]), len(used[indices]))
            commands.append(gather(data, indices, output, *sizes))
    return small_program(used, *commands)
