"""Descriptors written as C++."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import DESC
from corpus_cases import corpus
from folders import ROOT
from rings import LONG

import onnxgather as og
from onnxgather.descriptors.cpp import variable_names
from onnxgather.descriptors.operators import TENSORS, header_names
from onnxgather.parity.cases import DescriptorCase

COMPILER = shutil.which("c++")

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
        *(
            "gather",
            "gather_2",
            "my_gather",
            "my_gather_4",
            "gather_",
            "gather_1",
            "gr__e",
        ),
    ]


PRINT = """
#include <cstdio>

void print(const DML_TENSOR_DESC* tensor) {
    auto desc = static_cast<const DML_BUFFER_TENSOR_DESC*>(tensor->Desc);
    std::printf("%d %d %d %u", tensor->Type, desc->DataType, desc->Flags, desc->DimensionCount);
    for (UINT k = 0; k < desc->DimensionCount; ++k) std::printf(" %u", desc->Sizes[k]);
    for (UINT k = 0; desc->Strides && k < desc->DimensionCount; ++k)
        std::printf(" /%u", desc->Strides[k]);
    std::printf(" %llu %u, ", desc->TotalTensorSizeInBytes, desc->GuaranteedBaseOffsetAlignment);
}

int main() {
    for (auto one : written) {
        auto desc = static_cast<const GatherFamilyDesc*>(one->Desc);
        print(desc->InputTensor);
        print(desc->IndicesTensor);
        print(desc->OutputTensor);
        std::printf("%d", one->Type);
        UINT count = one->Type == DML_OPERATOR_GATHER_ELEMENTS ? 1
                   : one->Type == DML_OPERATOR_GATHER_ND1      ? 3
                                                               : 2;
        for (UINT k = 0; k < count; ++k) std::printf(" %u", desc->Fields[k]);
        std::printf("\\n");
    }
}
"""
"""A program that prints the numbers of each descriptor."""


def numbers(desc: og.Descriptor) -> str:
    """Return what `PRINT` prints of a descriptor."""
    text = ""
    for field in TENSORS:
        tensor: og.TensorDesc = getattr(desc, field)
        head = (1, tensor.data_type.directml, int(tensor.flags), tensor.dimension_count)
        tail = (
            tensor.total_tensor_size_in_bytes,
            tensor.guaranteed_base_offset_alignment,
        )
        strides = [f"/{stride}" for stride in tensor.strides or ()]
        text += " ".join(map(str, [*head, *tensor.sizes, *strides, *tail])) + ", "
    numbers_of = {
        "GATHER": 67,
        "GATHER_ELEMENTS": 107,
        "GATHER_ND": 108,
        "GATHER_ND1": 140,
    }
    fields = [
        getattr(desc, field)
        for field in header_names(type(desc))
        if field not in TENSORS
    ]
    return text + " ".join(map(str, [numbers_of[desc.operator], *fields]))


@pytest.mark.skipif(COMPILER is None, reason="c++ compiles what is written")
def test_a_compiler_reads_the_descriptors_of_the_corpus(tmp_path: Path) -> None:
    cases = [case.descriptor for case in corpus() if isinstance(case, DescriptorCase)]
    descriptors = list(dict.fromkeys(cases))[:: 1 if LONG else 20]
    assert len(descriptors) >= 40
    header = ROOT / "onnxgather" / "native" / "hosts" / "directml.h"
    declared, include, structs = header.read_text(encoding="utf-8").partition(
        "#include <d3d12.h>"
    )
    assert include
    assert declared
    names = [f"gather{k}" for k in range(len(descriptors))]
    text = "using UINT = unsigned;\nusing UINT64 = unsigned long long;\n"
    text += structs.partition("struct DML_BINDING_PROPERTIES")[0]
    text += "\n".join(map(og.to_cpp, descriptors, names))
    operators = ", ".join(f"&{name}Operator" for name in names)
    text += f"\nconst DML_OPERATOR_DESC* const written[] = {{{operators}}};\n{PRINT}"
    (tmp_path / "written.cpp").write_text(text, encoding="utf-8")
    options = [
        "-std=c++11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "written.cpp",
        "-o",
        "written",
    ]
    subprocess.run([COMPILER or "", *options], cwd=tmp_path, check=True)
    run = subprocess.run(
        [tmp_path / "written"], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines() == [numbers(desc) for desc in descriptors]
