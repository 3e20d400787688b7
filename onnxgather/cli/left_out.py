"""The JSON files of a folder that commands leave out, as they are no programs."""

from __future__ import annotations

from typing import Any, cast

from onnxgather.core.checks import suggestion
from onnxgather.core.descriptors.operators import OPERATORS
from onnxgather.core.descriptors.spelling import OPERATOR_PREFIX
from onnxgather.core.documents import parse_json
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.programs.program import MAX_PROGRAM_BYTES, PROGRAM_FIELDS

_NEAR = 0.85
"""How alike a name must be to one of ours to count as a slip."""

_GATHER = "GATHER"


def left_out(path: str) -> str | None:
    """Return the operator of a file that is a descriptor, but not of a gather.

    Returns:
        None if the file is to be read, as it is a program, or may be one with a
        mistake; an empty text if it is no program.
    """
    try:
        with open(path, "rb") as stream:
            content = stream.read(MAX_PROGRAM_BYTES + 1)
        # Who reads the file says what is wrong with it.
        if len(content) > MAX_PROGRAM_BYTES:
            return None
        return left_out_document(parse_json(content))
    except (OSError, OnnxGatherError):
        return None


def left_out_document(document: object) -> str | None:
    """Return what `left_out` returns, of what a file holds."""
    if isinstance(document, dict):
        fields = cast("dict[str, Any]", document)
        if _is_program(fields):
            return None
        return _of_descriptors([fields])
    if isinstance(document, list):
        items = cast("list[Any]", document)
        return _of_descriptors([item for item in items if isinstance(item, dict)])
    return ""


def _is_program(fields: dict[str, Any]) -> bool:
    """Return whether an object has a field of a program, or one that is nearly so."""
    # Case: what `show --json` writes.
    if fields.keys() == {"file", "dispatchables"}:
        return False
    # Case: what `convert --whole --target webnn` writes.
    if "out_of_range" in fields and "dispatchables" not in fields:
        return False
    # Case: a descriptor whose type was forgotten.
    names = (*PROGRAM_FIELDS, "InputTensor")
    return any(suggestion(key, names, near=_NEAR) for key in fields)


def _of_descriptors(descriptors: list[dict[str, Any]]) -> str | None:
    """Return what `left_out` returns, of the objects that may be descriptors."""
    others: list[str] = []
    for fields in descriptors:
        for key, value in fields.items():
            if not isinstance(value, str):
                continue
            is_type = key.lower() == "type"
            # The type of a descriptor with a slip in the name of the field.
            if not is_type and not value.startswith(OPERATOR_PREFIX):
                continue
            is_gather = _GATHER in value.upper()
            if is_gather or suggestion(value, OPERATORS, OPERATOR_PREFIX, _NEAR):
                return None
            if value.startswith(OPERATOR_PREFIX):
                others.append(value)
    return ", ".join(dict.fromkeys(others))
