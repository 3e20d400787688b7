"""The table of feature levels: which DirectML version first takes a descriptor."""

from __future__ import annotations

from onnxgather.core.checks import check_choice, require
from onnxgather.core.descriptors.arrays import check_descriptor
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import FACTS, Descriptor

FEATURE_LEVELS = (
    *("1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1"),
    *("5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4"),
)
"""`DML_FEATURE_LEVEL_*`, oldest first. Nothing changes for gathers after 4_1."""

_DATA_TYPE = {
    "FLOAT32": "1_0",
    "FLOAT16": "1_0",
    **dict.fromkeys(("INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8"), "2_1"),
    **dict.fromkeys(("FLOAT64", "INT64", "UINT64"), "4_1"),
}
_INDEX_TYPE = {"UINT32": "1_0", "UINT64": "3_0", "INT64": "3_0", "INT32": "3_0"}
_FOUR_DIMENSIONS, _ANY_DIMENSIONS = "1_0", "3_0"


def feature_requirements(desc: Descriptor) -> list[tuple[str, str]]:
    """Pairs of a feature level and the field of a descriptor that needs it.

    Source: the "Tensor support" tables of the four operator pages and DirectML's
    feature level history.
    """
    check_descriptor(desc)
    count = desc.input_tensor.dimension_count
    data: TensorDataType = desc.input_tensor.data_type
    indices: TensorDataType = desc.indices_tensor.data_type
    return [
        (FACTS[desc.operator].feature_level, f"DML_OPERATOR_{desc.operator}"),
        (_DATA_TYPE[data], f"InputTensor.DataType {data}"),
        (_INDEX_TYPE[indices], f"IndicesTensor.DataType {indices}"),
        (
            _FOUR_DIMENSIONS if count == 4 else _ANY_DIMENSIONS,
            f"DimensionCount {count}",
        ),
    ]


def minimum_feature_level(desc: Descriptor) -> str:
    """The lowest feature level that takes a descriptor, such as "2_1"."""
    return max(
        (level for level, _ in feature_requirements(desc)), key=FEATURE_LEVELS.index
    )


def check_feature_level(desc: Descriptor, ceiling: str) -> None:
    """Check that a descriptor needs no more than a feature level.

    Raises:
        DescriptorError: The descriptor needs more; the message names the fields that do.
        OnnxGatherError: The ceiling is not a feature level.
    """
    check_choice("feature level", ceiling, FEATURE_LEVELS)
    higher = FEATURE_LEVELS[FEATURE_LEVELS.index(ceiling) + 1 :]
    needs = feature_requirements(desc)
    above = [f"{field} needs {level}" for level, field in needs if level in higher]
    require(not above, f"the feature level must be at most {ceiling}", "; ".join(above))
