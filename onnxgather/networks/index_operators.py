"""The table of operators that carry indices: their inputs, and what an index out of range does.

Slice and Compress carry bounds and a mask, which ONNX cuts to the axis: they are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from onnxgather.networks.network import Operation

Hardened = Literal["clamp", "drop", "leave", "nothing"]
"""What harden does with indices out of range: it clamps them, drops the writes at them, leaves
them as they are, or has nothing to do, as the operator takes any index."""


@dataclass(frozen=True, slots=True)
class IndexInput:
    """An input of an operator that holds indices."""

    name: str
    """As the operator's definition has it."""
    position: int
    data: int
    """The position of the input that is indexed."""
    axis: int = 0
    """The axis that is indexed, or the first one of a tuple."""
    attribute: str = ""
    """The attribute that gives the axis where it is not the default above."""
    from_end: bool = False
    """Whether indices below 0 count from the end of the axis."""
    is_tuple: bool = False
    """Whether each row of the last axis is one index into several axes."""

    def axis_of(self, operation: Operation) -> int:
        """The axis in an operation, which may count from the end."""
        return int(operation.attributes.get(self.attribute, self.axis))


@dataclass(frozen=True, slots=True)
class IndexOperator:
    """An operator that carries indices."""

    inputs: tuple[IndexInput, ...]
    """Those that hold indices; the first one is always there, or the operator checks no index."""
    hardened: Hardened
    providers: Mapping[str, str] = field(default_factory=dict[str, str])
    """What each provider does with an index out of range, by its short name, as far as it is not
    a known difference of DirectML's own gathers."""


def _gathered(attribute: str, is_tuple: bool = False) -> tuple[IndexInput]:
    return (IndexInput("indices", 1, 0, 0, attribute, from_end=True, is_tuple=is_tuple),)


_FAILS = "The node fails."
_ON_CPU = "The provider has no such operator; the node runs on the CPU provider."
_UNCHECKED_WRITE = (
    "No error: the element is written at the offset that the index gives in the buffer, so in "
    "another row, or nowhere beyond the buffer. With a reduction, and from opset 18 on, the node "
    "runs on the CPU provider."
)
_OFF = "No error by design: the row is all off."
_SCATTERS = {"cpu": _FAILS, "directml": _UNCHECKED_WRITE}
_TABLES = (IndexInput("input_ids", 0, 2), IndexInput("segment_ids", 1, 4))
_UNCHECKED = "1.24.4 reads outside of its memory"

INDEX_OPERATORS: dict[tuple[str, str], IndexOperator] = {
    ("", "Gather"): IndexOperator(_gathered("axis"), "clamp"),
    ("", "GatherElements"): IndexOperator(_gathered("axis"), "clamp"),
    ("", "GatherND"): IndexOperator(_gathered("batch_dims", is_tuple=True), "clamp"),
    ("com.microsoft", "GatherBlockQuantized"): IndexOperator(
        _gathered("gather_axis"),
        "clamp",
        {"cpu": "No error: the output is 0 there; 1.24.4 fails instead.", "directml": _ON_CPU},
    ),
    ("com.microsoft", "EmbedLayerNormalization"): IndexOperator(
        (*_TABLES, IndexInput("position_ids", 8, 3)),
        "clamp",
        {
            "cpu": f"{_FAILS} {_UNCHECKED} for a position below 0.",
            "directml": "Not known; the provider refuses the node on some devices.",
        },
    ),
    ("com.microsoft", "QEmbedLayerNormalization"): IndexOperator(
        _TABLES, "clamp", {"cpu": _FAILS, "directml": _ON_CPU}
    ),
    ("com.microsoft", "RotaryEmbedding"): IndexOperator(
        (IndexInput("position_ids", 1, 2),),
        "clamp",
        {
            "cpu": f"{_FAILS} {_UNCHECKED}.",
            "directml": "No error: one below 0 counts from the end, else the output is 0 there.",
        },
    ),
    ("", "RotaryEmbedding"): IndexOperator(
        (IndexInput("position_ids", 3, 1),),
        "clamp",
        {"cpu": f"{_FAILS} {_UNCHECKED}.", "directml": _ON_CPU},
    ),
    ("com.microsoft", "WordConvEmbedding"): IndexOperator(
        (IndexInput("Sequence", 0, 3),),
        "leave",
        {"cpu": f"No error: a row of zeros is read. {_UNCHECKED}.", "directml": _ON_CPU},
    ),
    ("", "Scatter"): IndexOperator(_gathered("axis"), "drop", _SCATTERS),
    ("", "ScatterElements"): IndexOperator(_gathered("axis"), "drop", _SCATTERS),
    ("", "ScatterND"): IndexOperator(_gathered("", is_tuple=True), "drop", _SCATTERS),
    ("", "MaxUnpool"): IndexOperator(
        (IndexInput("I", 1, 0),),
        "leave",
        {
            "cpu": "The node fails. 1.24.4 ends the process.",
            "directml": "No error: the element is dropped.",
        },
    ),
    ("", "RoiAlign"): IndexOperator(
        (IndexInput("batch_indices", 2, 0),),
        "leave",
        {"cpu": _FAILS, "directml": "No error: the last image of the batch is read."},
    ),
    ("", "MaxRoiPool"): IndexOperator(
        (IndexInput("rois", 1, 0),),
        "leave",
        {"cpu": _FAILS, "directml": "No error: the first or the last image is read."},
    ),
    ("", "ReverseSequence"): IndexOperator(
        (IndexInput("sequence_lens", 1, 0, 0, "time_axis"),),
        "leave",
        {"cpu": _FAILS, "directml": "No error: some elements stand there twice."},
    ),
    ("", "TensorScatter"): IndexOperator(
        (IndexInput("write_indices", 2, 0, -2, "axis"),),
        "leave",
        {
            "cpu": f"{_FAILS} 1.24.4 has no such operator.",
            "directml": "ONNX Runtime 1.24.4 has no such operator.",
        },
    ),
    ("", "OneHot"): IndexOperator(
        (IndexInput("indices", 0, 2, from_end=True),),
        "nothing",
        {"cpu": _OFF, "directml": _OFF},
    ),
}
"""The operators, by domain ("" is ONNX's own) and name."""


def operator_of(operation: Operation) -> IndexOperator | None:
    """The row of an operation; None where the operation carries no indices."""
    if "function" in operation.bodies:
        return None
    return INDEX_OPERATORS.get((operation.domain, operation.operator))
