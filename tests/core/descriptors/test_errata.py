"""Errata of Microsoft's pages: a message names the one that explains it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from recordings import INDEPENDENT, OURS

import onnxgather as og
from onnxgather.core.descriptors.errata import ERRATA

ND_FORMULA = (
    "the formula on Microsoft's page gives these sizes; its examples and DirectML do"
    " not follow it"
)

Sizes = list[int]


def operator(name: str, *sizes: Sizes, numbers: Sizes, output: str = "FLOAT32") -> Any:
    """Return what makes a descriptor, with the sizes of its three tensors."""
    types = ("FLOAT32", "UINT32", output)

    def make() -> og.Descriptor:
        cls: Any = og.OPERATORS[name]
        return cls(*map(og.TensorDesc, types, sizes), *numbers)

    return make


def aligned(data_type: str, alignment: int) -> Any:
    """Return what makes a tensor with a GuaranteedBaseOffsetAlignment."""
    return partial(
        og.TensorDesc, data_type, [2], guaranteed_base_offset_alignment=alignment
    )


def refusal(make: Callable[[], Any]) -> str:
    """Return the message with which a descriptor or a tensor is refused."""
    with pytest.raises(og.DescriptorError) as caught:
        make()
    return str(caught.value)


EXPLAINED = [
    (
        operator("GATHER", [3, 2], [1, 2], [3, 2], numbers=[1, 2]),
        (
            "OutputTensor.Sizes must be [3, 1, 2], which Axis 1 and IndexDimensions 2"
            " give, as only leading ones are cropped to DimensionCount (2), got [3, 2]"
            " (Microsoft's example 3 prints IndexDimensions 2, which DirectML refuses);"
            " did you mean IndexDimensions 1?"
        ),
    ),
    (
        operator("GATHER", [1, 3, 3], [1, 1, 2], [3, 1, 2], numbers=[1, 2]),
        (
            "OutputTensor.Sizes must be [1, 2, 3], which Axis 1 and IndexDimensions 2"
            " give, got [3, 1, 2] (the title of Microsoft's example 4 does not count"
            " the leading 1); did you mean Axis 2?"
        ),
    ),
    (
        operator("GATHER", [1, 3, 2], [1, 2, 2], [2, 2, 2], numbers=[0, 2]),
        (
            "OutputTensor.Sizes must be [2, 2, 3, 2], which Axis 0 and IndexDimensions"
            " 2 give, as only leading ones are cropped to DimensionCount (3), got"
            " [2, 2, 2] (the title of Microsoft's example 5 does not count the leading"
            " 1); did you mean Axis 1?"
        ),
    ),
    (
        operator(
            "GATHER_ELEMENTS", [3, 3], [2, 3], [2, 3], numbers=[0], output="UINT32"
        ),
        (
            "OutputTensor.DataType must be that of InputTensor (FLOAT32), got UINT32"
            " (Microsoft's example prints UINT32, which DirectML refuses)"
        ),
    ),
    (
        operator(
            "GATHER_ND",
            [3, 4, 5, 6, 7],
            [1, 1, 1, 2, 3],
            [1, 2, 5, 6, 7],
            numbers=[5, 3],
        ),
        (
            "OutputTensor.Sizes must be [1, 1, 2, 6, 7], which InputDimensionCount 5,"
            " IndicesDimensionCount 3 and index tuples of 3 give, got [1, 2, 5, 6, 7]"
            f" ({ND_FORMULA})"
        ),
    ),
    (
        operator(
            "GATHER_ND1", [1, 3, 2, 2], [1, 3, 2, 2], [3, 2, 2, 2], numbers=[3, 3, 1]
        ),
        (
            "OutputTensor.Sizes must be [1, 1, 3, 2], which InputDimensionCount 3,"
            " IndicesDimensionCount 3, BatchDimensionCount 1 and index tuples of 2"
            f" give, got [3, 2, 2, 2] ({ND_FORMULA})"
        ),
    ),
    (
        operator("GATHER_ND", [2, 3, 4, 5], [1, 1, 4, 6], [1, 1, 1, 4], numbers=[4, 3]),
        (
            "IndicesTensor.Sizes[3], the size of an index tuple, must be at most"
            " InputDimensionCount (4), got 6 (Microsoft's page prints these sizes to"
            " explain IndicesDimensionCount alone)"
        ),
    ),
    (
        operator(
            "GATHER_ND1",
            [3, 4, 2, 2, 2, 2],
            [1, 3, 4, 5, 6, 7],
            [1] * 6,
            numbers=[6, 5, 2],
        ),
        (
            "IndicesTensor.Sizes[5], the size of an index tuple, must be at most"
            " InputDimensionCount - BatchDimensionCount (4), got 7 (Microsoft's page"
            " prints these sizes to explain BatchDimensionCount alone)"
        ),
    ),
    (
        operator("GATHER_ND1", [1, 4, 5], [1, 2, 3], [1, 1, 2], numbers=[2, 2, 0]),
        (
            "IndicesTensor.Sizes[2], the size of an index tuple, must be at most"
            " InputDimensionCount (2), got 3 (Microsoft's page allows"
            " InputTensor.DimensionCount, which DirectML refuses); did you mean"
            " InputDimensionCount 3?"
        ),
    ),
    (
        operator("GATHER_ND1", [1, 4, 5], [1, 4, 1], [1, 1, 4], numbers=[2, 2, 2]),
        (
            "BatchDimensionCount must be less than InputDimensionCount (2) and"
            " IndicesDimensionCount (2), got 2 (Microsoft's page compares it with"
            " DimensionCount alone, and DirectML refuses it); did you mean"
            " BatchDimensionCount 1?"
        ),
    ),
    (
        aligned("FLOAT32", 4),
        (
            "GuaranteedBaseOffsetAlignment must be 0 or a power of two from 16, got 4"
            " (Microsoft's page allows a power of two from the size of an element,"
            " which DirectML refuses below 16)"
        ),
    ),
]
"""What the pages have: what makes it, and the message."""


@pytest.mark.parametrize(("make", "message"), EXPLAINED)
def test_a_descriptor_typed_from_the_pages_is_refused_with_its_erratum(
    make: Callable[[], Any], message: str
) -> None:
    assert refusal(make) == message


def test_each_erratum_explains_a_message() -> None:
    messages = "".join(message for _, message in EXPLAINED)
    assert [row.says for row in ERRATA if f"({row.says})" not in messages] == []


NOT_EXPLAINED = [
    # Other sizes than those of the examples.
    operator("GATHER", [4, 2], [1, 2], [4, 2], numbers=[1, 2]),
    operator("GATHER_ELEMENTS", [3, 3], [2, 3], [2, 3], numbers=[0], output="FLOAT16"),
    # Sizes of no formula, tuples and batches that the page does not allow either.
    operator(
        "GATHER_ND", [3, 4, 5, 6, 7], [1, 1, 1, 2, 3], [1, 2, 5, 6, 8], numbers=[5, 3]
    ),
    operator("GATHER_ND", [4, 5], [2, 3], [1, 2], numbers=[2, 2]),
    operator("GATHER_ND1", [4, 5], [4, 1], [1, 4], numbers=[2, 2, 2]),
    # No power of two, and smaller than an element.
    aligned("FLOAT32", 12),
    aligned("FLOAT64", 4),
]


@pytest.mark.parametrize("make", NOT_EXPLAINED)
def test_a_message_that_no_erratum_explains_names_none(
    make: Callable[[], Any],
) -> None:
    assert "Microsoft" not in refusal(make)


def test_directml_refuses_what_an_erratum_says_that_it_refuses() -> None:
    recorded: Counter[str] = Counter()
    for case in OURS["invalid"] + INDEPENDENT["invalid"]:
        with pytest.raises(og.DescriptorError) as caught:
            og.from_dict({"type": case["operator"], "desc": case["desc"]})
        for erratum in ERRATA:
            if f"({erratum.says})" in str(caught.value):
                assert case["directml_accepts"] is False, case["id"]
                recorded[erratum.field] += 1
    # Those of an example alone are in docs/disagreements.md.
    assert recorded.keys() == {
        "OutputTensor.Sizes",
        "IndicesTensor.Sizes",
        "BatchDimensionCount",
        "GuaranteedBaseOffsetAlignment",
    }
