"""Descriptors in DxDispatch's spelling: every variant it reads, and back."""

from __future__ import annotations

import copy
from ast import literal_eval
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import message_of, rows_of
from short_descriptors import descriptor, tensor_desc

from onnxgather.core.descriptors.operators import (
    Descriptor,
)
from onnxgather.core.descriptors.spelling import from_dict, to_dict
from onnxgather.core.errors import DescriptorError, FileFormatError

DESC = descriptor("GATHER: FLOAT32 4x3, UINT32 1x2, FLOAT32 4x2, 1, 1")
FIELDS: dict[str, Any] = {
    "InputTensor": {"DataType": "FLOAT32", "Sizes": [4, 3]},
    "IndicesTensor": {"DataType": "UINT32", "Sizes": [1, 2]},
    "OutputTensor": {"DataType": "FLOAT32", "Sizes": [4, 2]},
    "Axis": 1,
    "IndexDimensions": 1,
}
OTHER = {"InputTensor": 0}

EXAMPLES: list[Descriptor] = [
    DESC,
    descriptor(
        "GATHER_ELEMENTS: FLOAT16 3x3 strides 4x1 alignment 16,"
        " INT64 2x3 flags OWNED_BY_DML, FLOAT16 2x3 strides 4x1 bytes 32, 0"
    ),
    descriptor(
        "GATHER_ND: UINT8 1x2x2, INT32 1x2x2 strides 0x2x1, UINT8 1x1x2 bytes 6, 2, 2"
    ),
    descriptor("GATHER_ND1: FLOAT64 1x3x2x2, UINT64 1x3x2x2, FLOAT64 1x1x3x2, 3, 3, 1"),
]

VARIANTS: dict[str, dict[str, Any]] = {
    "long operator name": {"type": "DML_OPERATOR_GATHER", "desc": FIELDS},
    "short operator name": {"type": "GATHER", "desc": FIELDS},
    "capital Desc": {"type": "GATHER", "Desc": FIELDS},
    "capital Desc beats desc": {"type": "GATHER", "Desc": FIELDS, "desc": OTHER},
    "desc beats inline fields": {"type": "GATHER", "desc": FIELDS, **OTHER},
    "inline fields": {"type": "GATHER", **FIELDS},
    "capital Type beats type": {"type": "anything", "Type": "GATHER", "desc": FIELDS},
    "unknown fields": {"type": "GATHER", "desc": {**FIELDS, "axis": 7}, "note": []},
}

INPUT = FIELDS["InputTensor"]
TENSOR_VARIANTS: dict[str, dict[str, Any]] = {
    "long data type": {**INPUT, "DataType": "DML_TENSOR_DATA_TYPE_FLOAT32"},
    "buffer": {**INPUT, "Type": "BUFFER"},
    "long buffer, nested": {"Type": "DML_TENSOR_TYPE_BUFFER", "Desc": INPUT},
    "nested": {"Desc": INPUT, "Sizes": [7]},
    "lower desc is unknown": {**INPUT, "desc": {"Sizes": [7]}},
    "empty strides": {**INPUT, "Strides": []},
    "dimension count": {**INPUT, "DimensionCount": 2},
    "flag": {**INPUT, "Flags": "NONE"},
    "long flags": {**INPUT, "Flags": ["DML_TENSOR_FLAG_NONE"]},
    "no flags": {**INPUT, "Flags": []},
    "total to compute": {**INPUT, "TotalTensorSizeInBytes": 0},
    "total": {**INPUT, "TotalTensorSizeInBytes": 48},
    "alignment": {**INPUT, "GuaranteedBaseOffsetAlignment": 0},
    "tuple": {**INPUT, "Sizes": (4, 3)},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_reads_every_variant(variant: str):
    assert from_dict(VARIANTS[variant]) == DESC


@pytest.mark.parametrize("variant", TENSOR_VARIANTS)
def test_reads_every_variant_of_a_tensor(variant: str):
    root = changed(("desc", "InputTensor"), TENSOR_VARIANTS[variant])
    assert from_dict(root) == DESC


def test_reads_every_field_of_a_tensor():
    tensor = {
        "DataType": "FLOAT32",
        "Flags": ["NONE", "DML_TENSOR_FLAG_OWNED_BY_DML"],
        "DimensionCount": 2,
        "Sizes": [4, 3],
        "Strides": [5, 1],
        "TotalTensorSizeInBytes": 80,
        "GuaranteedBaseOffsetAlignment": 32,
    }
    found = from_dict(changed(("desc", "InputTensor"), tensor)).input_tensor
    every = "strides 5x1 bytes 80 flags OWNED_BY_DML alignment 32"
    assert found == tensor_desc(f"FLOAT32 4x3 {every}")


def changed(path: tuple[str, ...], value: object) -> dict[str, Any]:
    root = copy.deepcopy({"type": "GATHER", "desc": FIELDS})
    inner: dict[str, Any] = root
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return root


CHANGED = """
type = 1
$.type must be a string, got 1

type = "DML_OPERATOR_GATHERND"
$.type must be one of GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1, got
'DML_OPERATOR_GATHERND'; did you mean "DML_OPERATOR_GATHER_ND"?

type = "gather"
$.type must be one of GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1, got 'gather'; did
you mean "GATHER"?

type = "HLSL"
$.type: HLSL shaders are not gathers, got 'HLSL'

desc = {"InputTesnor": 1, "OutputTensor": 1}
$.desc.InputTensor is required, got 'InputTesnor'; did you mean "InputTensor"?

desc = {"OutputTensor": 1}
$.desc.InputTensor is required

desc.InputTensor.Sizes = [4, "3"]
$.desc.InputTensor.Sizes[1] must be an integer, got '3'

desc.InputTensor = {"Desc": {"DataType": "FLOAT32"}}
$.desc.InputTensor.Desc.Sizes is required

desc.Axis = 1.0
$.desc.Axis must be an integer, got 1.0
"""
BROKEN = """
desc.InputTensor.Sizes = [4, 0]
InputTensor.Sizes[1] must be at least 1, got 0

desc.InputTensor.DataType = "A_TYPE_THAT_THERE_IS_NOT"
InputTensor.DataType must be one of FLOAT64, FLOAT32, FLOAT16, INT64, INT32, INT16,
INT8, UINT64, UINT32, UINT16, UINT8, got 'A_TYPE_THAT_THERE_IS_NOT'

desc.IndicesTensor.DimensionCount = 3
IndicesTensor.DimensionCount must be the number of Sizes (2), got 3

desc.Axis = 2
Axis must be less than InputTensor.DimensionCount (2), got 2; did you mean Axis 1?

desc.Axis = -1
Axis must be an integer from 0 to 4294967295, got -1; did you mean Axis 1?
"""
"""What a field of the descriptor becomes, and the message."""


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        *((FileFormatError, *row) for row in rows_of(CHANGED)),
        *((DescriptorError, *row) for row in rows_of(BROKEN)),
    ],
)
def test_a_wrong_field_is_refused_by_path_rule_and_value(
    kind: type[Exception], change: str, message: str
):
    path, _, value = change.partition(" = ")
    root = changed(tuple(path.split(".")), literal_eval(value))
    assert message_of(kind, from_dict, root) == message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (DESC, "$ must be an object, got a Python GatherDesc"),
        ({"type": "GATHER"}, "$.InputTensor is required"),
        (
            {"Type": "GATHER", "desc": FIELDS},
            """$.type is required, got 'Type'; did you mean "type"?""",
        ),
        (
            changed(("desc", "InputTensor", "Sizes"), [4, 10**5000]),
            "$.desc.InputTensor.Sizes[1] must be an integer of 64 bits, got a larger"
            " integer",
        ),
    ],
)
def test_a_wrong_document_is_refused_by_path_rule_and_value(
    value: object, message: str
):
    assert message_of(FileFormatError, from_dict, value) == message


def test_to_dict_leaves_defaults_out():
    assert to_dict(DESC) == {"type": "DML_OPERATOR_GATHER", "desc": FIELDS}


def test_to_dict_writes_what_is_not_default():
    assert to_dict(EXAMPLES[1])["desc"] == {
        "InputTensor": {
            "DataType": "FLOAT16",
            "Sizes": [3, 3],
            "Strides": [4, 1],
            "GuaranteedBaseOffsetAlignment": 16,
        },
        "IndicesTensor": {
            "DataType": "INT64",
            "Sizes": [2, 3],
            "Flags": "OWNED_BY_DML",
        },
        "OutputTensor": {
            "DataType": "FLOAT16",
            "Sizes": [2, 3],
            "Strides": [4, 1],
            "TotalTensorSizeInBytes": 32,
        },
        "Axis": 0,
    }


@pytest.mark.parametrize("desc", EXAMPLES, ids=lambda desc: desc.operator)
def test_from_dict_inverts_to_dict(desc: Descriptor):
    assert from_dict(to_dict(desc)) == desc


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
    ),
    max_leaves=4,
)
PATHS = [
    ("type",),
    ("Type",),
    ("desc",),
    ("Desc",),
    *[("desc", field) for field in FIELDS],
    *[
        ("desc", tensor, name)
        for tensor in list(FIELDS)[:3]
        for name in (
            "Type",
            "Desc",
            "DataType",
            "Flags",
            "DimensionCount",
            "Sizes",
            "Strides",
            "TotalTensorSizeInBytes",
            "GuaranteedBaseOffsetAlignment",
        )
    ],
]


@given(st.sampled_from(PATHS), anything | st.lists(st.integers(-1, 5), max_size=9))
def test_any_value_anywhere_gives_a_descriptor_or_our_error(
    path: tuple[str, ...], value: object
):
    try:
        desc = from_dict(changed(path, value))
    except (DescriptorError, FileFormatError) as error:
        message = str(error)
        assert any(
            rule in message for rule in ("must", "is required", "are not gathers")
        )
        return
    assert from_dict(to_dict(desc)) == desc
