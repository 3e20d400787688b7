"""The table of feature levels: which DirectML version first accepts a descriptor."""

from __future__ import annotations

from onnxgather.core.checks import check_choice
from onnxgather.core.descriptors.arrays import check_descriptor
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import FACTS, Descriptor
from onnxgather.core.errors import DescriptorError
from onnxgather.core.public import public

FEATURE_LEVELS = (
    "1_0",
    "2_0",
    "2_1",
    "3_0",
    "3_1",
    "4_0",
    "4_1",
    "5_0",
    "5_1",
    "5_2",
    "6_0",
    "6_1",
    "6_2",
    "6_3",
    "6_4",
)
"""`DML_FEATURE_LEVEL_*`, oldest first. Nothing changes for gathers after 4_1."""

# From which level on a tensor may have a type, or a number of dimensions.

_DATA_TYPE = {
    "FLOAT64": "4_1",
    "FLOAT32": "1_0",
    "FLOAT16": "1_0",
    "INT64": "4_1",
    "INT32": "2_1",
    "INT16": "2_1",
    "INT8": "2_1",
    "UINT64": "4_1",
    "UINT32": "2_1",
    "UINT16": "2_1",
    "UINT8": "2_1",
}
_INDEX_TYPE = {"UINT32": "1_0", "UINT64": "3_0", "INT64": "3_0", "INT32": "3_0"}
_FOUR_DIMENSIONS = "1_0"
_ANY_DIMENSIONS = "3_0"


def feature_requirements(desc: Descriptor) -> list[tuple[str, str]]:
    """Return pairs of a feature level and the field of a descriptor that needs it.

    Source: the "Tensor support" tables of the four operator pages and DirectML's
    feature level history.
    """
    check_descriptor(desc)
    data_type: TensorDataType = desc.input_tensor.data_type
    index_type: TensorDataType = desc.indices_tensor.data_type
    count = desc.input_tensor.dimension_count
    # The first feature level has tensors of exactly four dimensions.
    count_level = _FOUR_DIMENSIONS if count == 4 else _ANY_DIMENSIONS
    return [
        (FACTS[desc.operator].feature_level, f"DML_OPERATOR_{desc.operator}"),
        (_DATA_TYPE[data_type], f"InputTensor.DataType {data_type}"),
        (_INDEX_TYPE[index_type], f"IndicesTensor.DataType {index_type}"),
        (count_level, f"DimensionCount {count}"),
    ]


@public
def minimum_feature_level(desc: Descriptor) -> str:
    """Return the lowest feature level that accepts a descriptor, such as "2_1".

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT16", [8]), ("INT64", [2]))
        >>> og.minimum_feature_level(desc)
        '3_0'
        >>> desc = og.from_onnx("Gather", ("FLOAT64", [8]), ("INT64", [2]))
        >>> og.minimum_feature_level(desc)
        '4_1'
    """
    levels = [level for level, _ in feature_requirements(desc)]
    return max(levels, key=FEATURE_LEVELS.index)


def check_feature_level(desc: Descriptor, ceiling: str) -> None:
    """Check that a descriptor needs no more than a feature level.

    Raises:
        DescriptorError: The descriptor needs more; the message names the fields
            that do.
        OnnxGatherError: The ceiling is not a feature level.
    """
    ceiling = check_choice("feature level", ceiling, FEATURE_LEVELS)
    first_above = FEATURE_LEVELS.index(ceiling) + 1
    levels_above = FEATURE_LEVELS[first_above:]
    too_new: list[str] = []
    for level, field in feature_requirements(desc):
        if level in levels_above:
            too_new.append(f"{field} needs {level}")
    if too_new:
        rule = f"the feature level must be at most {ceiling}"
        found = f"{minimum_feature_level(desc)} ({'; '.join(too_new)})"
        raise DescriptorError(f"{rule}, got {found}")
