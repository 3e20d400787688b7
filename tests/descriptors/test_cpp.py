"""Descriptors written as C++."""

from __future__ import annotations

import pytest
from command_line import DESC

import onnxgather as og
from onnxgather.cpp import variable_names

WRITTEN = """\
// DML_OPERATOR_GATHER, feature level 3_0
const UINT tableInputSizes[] = {4, 3};
const UINT tableInputStrides[] = {4, 1};
const DML_BUFFER_TENSOR_DESC tableInputBuffer = {
    DML_TENSOR_DATA_TYPE_FLOAT32,  // DataType
    DML_TENSOR_FLAG_OWNED_BY_DML,  // Flags
    2,                             // DimensionCount
    tableInputSizes,               // Sizes
    tableInputStrides,             // Strides
    64,                            // TotalTensorSizeInBytes
    32,                            // GuaranteedBaseOffsetAlignment
};
const DML_TENSOR_DESC tableInputTensor = {DML_TENSOR_TYPE_BUFFER, &tableInputBuffer};

const UINT tableIndicesSizes[] = {1, 2};
const DML_BUFFER_TENSOR_DESC tableIndicesBuffer = {
    DML_TENSOR_DATA_TYPE_UINT32,  // DataType
    DML_TENSOR_FLAG_NONE,         // Flags
    2,                            // DimensionCount
    tableIndicesSizes,            // Sizes
    nullptr,                      // Strides
    8,                            // TotalTensorSizeInBytes
    0,                            // GuaranteedBaseOffsetAlignment
};
const DML_TENSOR_DESC tableIndicesTensor = {DML_TENSOR_TYPE_BUFFER, &tableIndicesBuffer};

const UINT tableOutputSizes[] = {4, 2};
const DML_BUFFER_TENSOR_DESC tableOutputBuffer = {
    DML_TENSOR_DATA_TYPE_FLOAT32,  // DataType
    DML_TENSOR_FLAG_NONE,          // Flags
    2,                             // DimensionCount
    tableOutputSizes,              // Sizes
    nullptr,                       // Strides
    32,                            // TotalTensorSizeInBytes
    0,                             // GuaranteedBaseOffsetAlignment
};
const DML_TENSOR_DESC tableOutputTensor = {DML_TENSOR_TYPE_BUFFER, &tableOutputBuffer};

const DML_GATHER_OPERATOR_DESC tableDesc = {
    &tableInputTensor,    // InputTensor
    &tableIndicesTensor,  // IndicesTensor
    &tableOutputTensor,   // OutputTensor
    1,                    // Axis
    1,                    // IndexDimensions
};
const DML_OPERATOR_DESC tableOperator = {DML_OPERATOR_GATHER, &tableDesc};
"""


def test_a_descriptor_is_written_in_the_spelling_of_the_header() -> None:
    data = og.TensorDesc("FLOAT32", [4, 3], [4, 1], 64, "OWNED_BY_DML", 32)
    desc = og.GatherDesc(data, DESC.indices_tensor, DESC.output_tensor, 1, 1)
    assert og.to_cpp(desc, "table") == WRITTEN


def test_a_line_has_at_most_100_columns() -> None:
    sizes = [1, 1, 1, 1, 1, 1, 1, 1]
    data = og.TensorDesc("UINT8", [*sizes[:7], 2], [4_000_000_000] * 7 + [1])
    out = og.TensorDesc("UINT8", sizes)
    text = og.to_cpp(og.GatherDesc(data, og.TensorDesc("UINT32", sizes), out, 7, 1))
    start = "const UINT gatherInputStrides[] = {\n    4000000000, 4000000000, "
    assert start in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("name", ["", "1st", "größe", "a b", "a;"])
def test_a_name_that_cpp_does_not_take_is_refused(name: str) -> None:
    with pytest.raises(og.OnnxGatherError) as caught:
        og.to_cpp(DESC, name)
    assert str(caught.value) == f"name must be letters, digits and _, got {name!r}"


def test_names_of_dispatchables_become_different_names_of_variables() -> None:
    names = ["gather", "gatherDesc", "my gather", "my-gather", "", "1", "größe"]
    assert variable_names(names) == [
        *("gather", "gather_2", "my_gather", "my_gather_4", "gather_", "gather_1", "gr__e"),
    ]
