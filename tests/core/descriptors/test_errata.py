"""Errata of Microsoft's pages: a message names the one that explains it."""

from __future__ import annotations

from collections import Counter

import pytest
from messages import message_of, rows_of
from recordings import INDEPENDENT, OURS
from short_descriptors import descriptor, tensor_desc

import onnxgather as og
from onnxgather.core.descriptors.errata import ERRATA


def refusal(text: str) -> str:
    """Return the message with which a descriptor or a tensor is refused."""
    make = descriptor if ": " in text else tensor_desc
    return message_of(og.DescriptorError, make, text)


EXPLAINED = rows_of("""
GATHER: FLOAT32 3x2, UINT32 1x2, FLOAT32 3x2, 1, 2
OutputTensor.Sizes must be [3, 1, 2], which Axis 1 and IndexDimensions 2 give, as only
leading ones are cropped to DimensionCount (2), got [3, 2] (Microsoft's example 3
prints IndexDimensions 2, which DirectML refuses); did you mean IndexDimensions 1?

GATHER: FLOAT32 1x3x3, UINT32 1x1x2, FLOAT32 3x1x2, 1, 2
OutputTensor.Sizes must be [1, 2, 3], which Axis 1 and IndexDimensions 2 give, got [3,
1, 2] (the title of Microsoft's example 4 does not count the leading 1); did you mean
Axis 2?

GATHER: FLOAT32 1x3x2, UINT32 1x2x2, FLOAT32 2x2x2, 0, 2
OutputTensor.Sizes must be [2, 2, 3, 2], which Axis 0 and IndexDimensions 2 give, as
only leading ones are cropped to DimensionCount (3), got [2, 2, 2] (the title of
Microsoft's example 5 does not count the leading 1); did you mean Axis 1?

GATHER_ELEMENTS: FLOAT32 3x3, UINT32 2x3, UINT32 2x3, 0
OutputTensor.DataType must be that of InputTensor (FLOAT32), got UINT32 (Microsoft's
example prints UINT32, which DirectML refuses)

GATHER_ND: FLOAT32 3x4x5x6x7, UINT32 1x1x1x2x3, FLOAT32 1x2x5x6x7, 5, 3
OutputTensor.Sizes must be [1, 1, 2, 6, 7], which InputDimensionCount 5,
IndicesDimensionCount 3 and index tuples of 3 give, got [1, 2, 5, 6, 7] (the formula
on Microsoft's page gives these sizes; its examples and DirectML do not follow it)

GATHER_ND1: FLOAT32 1x3x2x2, UINT32 1x3x2x2, FLOAT32 3x2x2x2, 3, 3, 1
OutputTensor.Sizes must be [1, 1, 3, 2], which InputDimensionCount 3,
IndicesDimensionCount 3, BatchDimensionCount 1 and index tuples of 2 give, got [3, 2,
2, 2] (the formula on Microsoft's page gives these sizes; its examples and DirectML do
not follow it)

GATHER_ND: FLOAT32 2x3x4x5, UINT32 1x1x4x6, FLOAT32 1x1x1x4, 4, 3
IndicesTensor.Sizes[3], the size of an index tuple, must be at most
InputDimensionCount (4), got 6 (Microsoft's page prints these sizes to explain
IndicesDimensionCount alone)

GATHER_ND1: FLOAT32 2x3x4x5, UINT32 1x1x4x6, FLOAT32 1x1x1x4, 4, 3, 0
IndicesTensor.Sizes[3], the size of an index tuple, must be at most
InputDimensionCount (4), got 6 (Microsoft's page prints these sizes to explain
IndicesDimensionCount alone)

GATHER_ND1: FLOAT32 3x4x2x2x2x2, UINT32 1x3x4x5x6x7, FLOAT32 1x1x1x1x1x1, 6, 5, 2
IndicesTensor.Sizes[5], the size of an index tuple, must be at most
InputDimensionCount - BatchDimensionCount (4), got 7 (Microsoft's page prints these
sizes to explain BatchDimensionCount alone)

GATHER_ND1: FLOAT32 1x4x5, UINT32 1x2x3, FLOAT32 1x1x2, 2, 2, 0
IndicesTensor.Sizes[2], the size of an index tuple, must be at most
InputDimensionCount (2), got 3 (Microsoft's page allows InputTensor.DimensionCount,
which DirectML refuses); did you mean InputDimensionCount 3?

GATHER_ND: FLOAT32 1x4x5, UINT32 1x2x3, FLOAT32 1x1x2, 2, 2
IndicesTensor.Sizes[2], the size of an index tuple, must be at most
InputDimensionCount (2), got 3 (Microsoft's page allows InputTensor.DimensionCount,
which DirectML refuses); did you mean InputDimensionCount 3?

GATHER_ND1: FLOAT32 1x4x5, UINT32 1x4x1, FLOAT32 1x1x4, 2, 2, 2
BatchDimensionCount must be less than InputDimensionCount (2) and
IndicesDimensionCount (2), got 2 (Microsoft's page compares it with DimensionCount
alone, and DirectML refuses it); did you mean BatchDimensionCount 1?

FLOAT32 2 alignment 4
GuaranteedBaseOffsetAlignment must be 0 or a power of two from 16, got 4 (Microsoft's
page allows a power of two from the size of an element, which DirectML refuses below
16)
""")
"""What the pages have, and the message."""


@pytest.mark.parametrize(("text", "message"), EXPLAINED)
def test_a_descriptor_typed_from_the_pages_is_refused_with_its_erratum(
    text: str, message: str
) -> None:
    assert refusal(text) == message


def test_each_erratum_explains_a_message() -> None:
    messages = "".join(message for _, message in EXPLAINED)
    assert [row.says for row in ERRATA if f"({row.says})" not in messages] == []


NOT_EXPLAINED = [
    # Other sizes than those of the examples.
    "GATHER: FLOAT32 4x2, UINT32 1x2, FLOAT32 4x2, 1, 2",
    "GATHER_ELEMENTS: FLOAT32 3x3, UINT32 2x3, FLOAT16 2x3, 0",
    # Sizes of no formula, tuples and batches that the page does not allow either.
    "GATHER_ND: FLOAT32 3x4x5x6x7, UINT32 1x1x1x2x3, FLOAT32 1x2x5x6x8, 5, 3",
    "GATHER_ND: FLOAT32 4x5, UINT32 2x3, FLOAT32 1x2, 2, 2",
    "GATHER_ND1: FLOAT32 4x5, UINT32 4x1, FLOAT32 1x4, 2, 2, 2",
    # No power of two, and smaller than an element.
    "FLOAT32 2 alignment 12",
    "FLOAT64 2 alignment 4",
]


@pytest.mark.parametrize("text", NOT_EXPLAINED)
def test_a_message_that_no_erratum_explains_names_none(text: str) -> None:
    assert "Microsoft" not in refusal(text)


def test_directml_refuses_what_an_erratum_says_that_it_refuses() -> None:
    recorded: Counter[str] = Counter()
    for case in OURS["invalid"] + INDEPENDENT["invalid"]:
        desc = {"type": case["operator"], "desc": case["desc"]}
        message = message_of(og.DescriptorError, og.from_dict, desc)
        for erratum in ERRATA:
            if f"({erratum.says})" in message:
                assert case["directml_accepts"] is False, case["id"]
                recorded[erratum.field] += 1
    # Those of an example alone are in docs/disagreements.md.
    assert recorded.keys() == {
        "OutputTensor.Sizes",
        "IndicesTensor.Sizes",
        "BatchDimensionCount",
        "GuaranteedBaseOffsetAlignment",
    }
