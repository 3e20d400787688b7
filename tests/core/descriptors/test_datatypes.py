"""The names of data types: DirectML's, ONNX's and numpy's."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper

import onnxgather as og
from onnxgather.core.descriptors.datatypes import (
    GATHERED_TYPES,
    ONNX_NAMES,
    dtype_of,
    type_of,
)
from onnxgather.core.execution import runtime


@pytest.mark.parametrize("name", ONNX_NAMES.values())
def test_the_names_are_those_of_onnx(name: str) -> None:
    number = onnx.TensorProto.DataType.Value(name)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    assert dtype_of(name) == dtype
    assert type_of(dtype) == name
    # ONNX Runtime is given the types that numpy lacks by their numbers.
    if not hasattr(np, f"{dtype.name}_") and not hasattr(np, dtype.name):
        assert runtime.ONNX_NUMBERS[dtype.name] == number


def test_the_other_names_are_those_of_directml() -> None:
    for row in og.TensorDataType:
        assert (type_of(row.numpy), dtype_of(row.name)) == (row.name, row.numpy)
    assert type_of(np.dtype("U3")) == "STR96"


@pytest.mark.parametrize("operator", ["Gather", "GatherElements", "GatherND"])
def test_the_types_that_gathers_accept_are_those_of_the_schemas(operator: str) -> None:
    texts = onnx.defs.get_schema(operator).type_constraints[0].allowed_type_strs
    named: set[str] = set()
    for text in texts:
        name = text.removeprefix("tensor(").removesuffix(")").upper()
        names = {"FLOAT": "FLOAT32", "DOUBLE": "FLOAT64"}
        named.add(names.get(name, name))
    assert named == set(GATHERED_TYPES)


@pytest.mark.slow
def test_a_type_of_ml_dtypes_is_found_where_nothing_imported_it() -> None:
    program = (
        "from onnxgather.core.descriptors.datatypes import dtype_of;"
        "print(dtype_of('BFLOAT16'), dtype_of('STRING'))"
    )
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert printed == "bfloat16 object\n"
