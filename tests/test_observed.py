"""DirectML.dll's recorded results: the reference and the models give its bytes."""

from __future__ import annotations

import json
import lzma
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import onnxgather as og
from onnxgather.arrays import Array, OutOfRange

FOLDER = Path(__file__).parent / "data" / "observed"

# One message per rule; {} stands for the names and values of a case.
RULES = {
    "INPUT_DATA_TYPE": "InputTensor.DataType must be one of {}, got {}",
    "INDICES_DATA_TYPE": "IndicesTensor.DataType must be one of {}, got {}",
    "OUTPUT_DATA_TYPE": "OutputTensor.DataType must be that of InputTensor ({}), got {}",
    "DIMENSION_COUNT_RANGE": "InputTensor.DimensionCount must be 1 to 8, got {}",
    "DIMENSION_COUNT_EQUAL": "{}Tensor.DimensionCount must be that of InputTensor ({}), got {}",
    "ZERO_SIZE": "{}Tensor.Sizes[{}] must be at least 1, got 0",
    "STRIDES_COUNT": "{}Tensor.Strides must have as many elements as Sizes ({}), got {}",
    "MAX_ELEMENTS": (
        "{}Tensor.Sizes and Strides must describe at most 4294967295 elements, got {}"
    ),
    "TOTAL_SIZE": "{}Tensor.TotalTensorSizeInBytes must be at least {}, got {}",
    "ALIGNMENT": (
        "{}Tensor.GuaranteedBaseOffsetAlignment must be 0 or a power of two from 16, got {}"
    ),
    "AXIS_RANGE": "Axis must be less than InputTensor.DimensionCount ({}), got {}",
    "INDEX_DIMENSIONS_RANGE": (
        "IndexDimensions must be 0 to IndicesTensor.DimensionCount ({}), got {}"
    ),
    "INDICES_LEADING_ONES": (
        "IndicesTensor.Sizes before the last IndexDimensions ({}) must be 1, as what others mean "
        "is undefined, got {}"
    ),
    "GATHER_OUTPUT_RANK": (
        "The first IndexDimensions - 1 ({}) sizes of InputTensor must be 1 and stand before Axis, "
        "as the output crops them and what cropping others means is undefined, got Axis {} and "
        "InputTensor.Sizes {}"
    ),
    "GATHER_OUTPUT_SIZES": (
        "OutputTensor.Sizes must be InputTensor.Sizes with the one at Axis replaced by the last "
        "IndexDimensions sizes of IndicesTensor, {}, got {}"
    ),
    "ELEMENTS_NON_AXIS_SIZES": (
        "IndicesTensor.Sizes[{}] must be InputTensor.Sizes[{}] ({}), as it is not at Axis, got {}"
    ),
    "ELEMENTS_OUTPUT_SIZES": "OutputTensor.Sizes must be IndicesTensor.Sizes, {}, got {}",
    "ND_INPUT_DIMENSION_COUNT": (
        "InputDimensionCount must be 1 to InputTensor.DimensionCount ({}), got {}"
    ),
    "ND_INDICES_DIMENSION_COUNT": (
        "IndicesDimensionCount must be 1 to IndicesTensor.DimensionCount ({}), got {}"
    ),
    "ND_BATCH_RANGE": "BatchDimensionCount must be less than DimensionCount ({}), got {}",
    "ND_BATCH_COUNTS": (
        "BatchDimensionCount must be less than InputDimensionCount ({}) and "
        "IndicesDimensionCount ({}), got {}"
    ),
    "ND_TUPLE_SIZE": (
        "IndicesTensor.Sizes[{}], the size of an index tuple, must be at most {} ({}), got {}"
    ),
    "ND_INPUT_LEADING_ONES": (
        "InputTensor.Sizes before the last InputDimensionCount ({}) must be 1, as what others "
        "mean is undefined, got {}"
    ),
    "ND_INDICES_LEADING_ONES": (
        "IndicesTensor.Sizes before the last IndicesDimensionCount ({}) must be 1, as what others "
        "mean is undefined, got {}"
    ),
    "ND_BATCH_SIZES": (
        "The first BatchDimensionCount ({}) sizes of IndicesTensor must be those of InputTensor, "
        "{}; what other batch sizes mean is undefined, got {}"
    ),
    "ND_OUTPUT_RANK": (
        "OutputTensor.DimensionCount ({}) must hold the sizes of IndicesTensor before the tuples "
        "and those of InputTensor after the indexed ones, got {}"
    ),
    "ND_OUTPUT_SIZES": (
        "OutputTensor.Sizes must be the sizes of IndicesTensor before the tuples and those of "
        "InputTensor after the indexed ones, {}, got {}"
    ),
}


def load(name: str) -> list[dict[str, Any]]:
    """Return the cases of a recording; a file of another length is a mistake."""
    cases: list[dict[str, Any]] = json.loads(lzma.decompress((FOLDER / name).read_bytes()))
    return cases


IN_RANGE, OUT_OF_RANGE, INVALID = (
    load(f"{name}.json.xz") for name in ("in_range", "out_of_range", "invalid")
)


class Recorded(NamedTuple):
    """One recorded case."""

    desc: og.Descriptor
    data: Array
    indices: Array
    output: bytes


def recorded(case: dict[str, Any]) -> Recorded:
    """Return a recorded case with its buffers as the arrays that stand for its tensors."""
    desc = og.from_dict({"type": case["operator"], "desc": case["desc"]})

    def array(tensor: og.TensorDesc, text: str) -> Array:
        count = math.prod(tensor.array_shape)
        buffer = np.frombuffer(bytes.fromhex(text), tensor.data_type.numpy, count)
        return buffer.reshape(tensor.array_shape)

    return Recorded(
        desc,
        array(desc.input_tensor, case["input_hex"]),
        array(desc.indices_tensor, case["indices_hex"]),
        bytes.fromhex(case["output_hex"]),
    )


def test_recordings_are_complete() -> None:
    assert (len(IN_RANGE), len(OUT_OF_RANGE), len(INVALID)) == (360, 447, 540)
    assert {case["rule"] for case in INVALID} == RULES.keys()


@pytest.mark.parametrize("policy", ["clamp", "error", "zero", "directml"])
@pytest.mark.parametrize("case", IN_RANGE, ids=lambda c: c["id"])
def test_in_range_gives_directmls_bytes(case: dict[str, Any], policy: OutOfRange) -> None:
    desc, data, indices, output = recorded(case)
    assert og.reference(desc, data, indices, policy).tobytes() == output
    assert og.run(desc, data, indices, policy).tobytes() == output


@pytest.mark.parametrize("case", OUT_OF_RANGE, ids=lambda c: c["id"])
def test_out_of_range_gives_directmls_bytes(case: dict[str, Any]) -> None:
    desc, data, indices, output = recorded(case)
    assert og.reference(desc, data, indices, "directml").tobytes() == output
    assert og.run(desc, data, indices, "directml").tobytes() == output


@pytest.mark.parametrize("case", INVALID, ids=lambda c: c["id"])
def test_broken_descriptor_is_refused_by_its_own_rule(case: dict[str, Any]) -> None:
    with pytest.raises(og.DescriptorError) as caught:
        og.from_dict({"type": case["operator"], "desc": case["desc"]})
    pattern = re.escape(RULES[case["rule"]]).replace(r"\{\}", r"(.+)")
    assert re.fullmatch(pattern, str(caught.value)), str(caught.value)
