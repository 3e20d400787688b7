"""What Microsoft's pages print and DirectML refuses.

A descriptor that follows one of these errata breaks a rule, and the message says so.
The pages are those of MicrosoftDocs/sdk-api; docs/disagreements.md has the
measurements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct


class Erratum(Struct, frozen=True):
    """A mistake of Microsoft's pages."""

    pages: tuple[str, ...]
    """The structs whose pages have it."""
    section: str
    """Where it stands on the page."""
    field: str
    """The field whose rule it breaks."""
    explains: Callable[[Any], bool]
    """Whether a descriptor or tensor that breaks the rule follows the page."""
    says: str
    """What the message says."""


def note(field: str, struct: object) -> str:
    """Return what a message adds where an erratum explains a broken rule; else "".

    Args:
        field: The field whose rule is broken, as directml.h spells it.
        struct: The descriptor or the tensor.
    """
    operator = getattr(struct, "operator", None)
    page = f"DML_{operator}_OPERATOR_DESC" if operator else "DML_BUFFER_TENSOR_DESC"
    for erratum in ERRATA:
        is_asked = page in erratum.pages and field == erratum.field
        if is_asked and erratum.explains(struct):
            return f" ({erratum.says})"
    return ""


def _printed(
    data: tuple[int, ...],
    indices: tuple[int, ...],
    output: tuple[int, ...],
    **numbers: int,
) -> Callable[[Any], bool]:
    """Return whether a descriptor has the sizes and the numbers that a page prints."""
    printed = (data, indices, output)

    def explains(desc: Any) -> bool:
        tensors = (desc.input_tensor, desc.indices_tensor, desc.output_tensor)
        own_sizes = tuple([tensor.sizes for tensor in tensors])
        own_numbers = {name: getattr(desc, name) for name in numbers}
        return own_sizes == printed and own_numbers == numbers

    return explains


_printed_elements = _printed((3, 3), (2, 3), (2, 3), axis=0)


def _has_type_of_example(desc: Any) -> bool:
    """Return whether a descriptor is the example with the output type of the page."""
    return _printed_elements(desc) and desc.output_tensor.data_type == "UINT32"


def _printed_indices(
    sizes: tuple[int, ...], count: int, batches: int = 0
) -> Callable[[Any], bool]:
    """Return whether a descriptor has the sizes of IndicesTensor that a page prints."""

    def explains(desc: Any) -> bool:
        own = (
            desc.indices_tensor.sizes,
            desc.indices_dimension_count,
            desc.batches,
        )
        return own == (sizes, count, batches)

    return explains


def _has_sizes_of_formula(desc: Any) -> bool:
    """Return whether OutputTensor.Sizes are those of the formula on the page."""
    data = desc.input_tensor.sizes
    indices = desc.indices_tensor.sizes
    count = len(data)
    first = count - desc.indices_dimension_count
    sizes = indices[first:-1] + data[count - desc.tuple_size :]
    fitted = (1,) * (count - len(sizes)) + sizes
    return desc.output_tensor.sizes == fitted


def _has_tuples_of_page(desc: Any) -> bool:
    """Return whether an index tuple is no longer than the page allows."""
    return desc.tuple_size <= desc.input_tensor.dimension_count


def _has_batches_of_page(desc: Any) -> bool:
    """Return whether there are no more batches than the page allows."""
    return desc.batches < desc.input_tensor.dimension_count


def _has_alignment_of_page(tensor: Any) -> bool:
    """Return whether the page allows the alignment of a tensor."""
    alignment = tensor.guaranteed_base_offset_alignment
    return alignment.bit_count() == 1 and alignment >= tensor.data_type.size


_GATHER = ("DML_GATHER_OPERATOR_DESC",)
_ELEMENTS = ("DML_GATHER_ELEMENTS_OPERATOR_DESC",)
_ND1 = ("DML_GATHER_ND1_OPERATOR_DESC",)
_TUPLES = ("DML_GATHER_ND_OPERATOR_DESC", *_ND1)

ERRATA = (
    Erratum(
        _GATHER,
        "Example 3. 2D, Axis 1, swap columns",
        "OutputTensor.Sizes",
        _printed((3, 2), (1, 2), (3, 2), axis=1, index_dimensions=2),
        "Microsoft's example 3 prints IndexDimensions 2, which DirectML refuses",
    ),
    Erratum(
        _GATHER,
        "Example 4. 2D, Axis 1, nested indices",
        "OutputTensor.Sizes",
        _printed((1, 3, 3), (1, 1, 2), (3, 1, 2), axis=1, index_dimensions=2),
        "the title of Microsoft's example 4 does not count the leading 1",
    ),
    Erratum(
        _GATHER,
        "Example 5. 2D, Axis 0, nested indices",
        "OutputTensor.Sizes",
        _printed((1, 3, 2), (1, 2, 2), (2, 2, 2), axis=0, index_dimensions=2),
        "the title of Microsoft's example 5 does not count the leading 1",
    ),
    Erratum(
        _ELEMENTS,
        "Examples",
        "OutputTensor.DataType",
        _has_type_of_example,
        "Microsoft's example prints UINT32, which DirectML refuses",
    ),
    Erratum(
        _TUPLES,
        "OutputTensor",
        "OutputTensor.Sizes",
        _has_sizes_of_formula,
        "the formula on Microsoft's page gives these sizes; its examples and DirectML"
        " do not follow it",
    ),
    Erratum(
        _TUPLES,
        "IndicesDimensionCount",
        "IndicesTensor.Sizes",
        _printed_indices((1, 1, 4, 6), 3),
        "Microsoft's page prints these sizes to explain IndicesDimensionCount alone",
    ),
    Erratum(
        _ND1,
        "BatchDimensionCount",
        "IndicesTensor.Sizes",
        _printed_indices((1, 3, 4, 5, 6, 7), 5, 2),
        "Microsoft's page prints these sizes to explain BatchDimensionCount alone",
    ),
    Erratum(
        _TUPLES,
        "IndicesTensor",
        "IndicesTensor.Sizes",
        _has_tuples_of_page,
        "Microsoft's page allows InputTensor.DimensionCount, which DirectML refuses",
    ),
    Erratum(
        _ND1,
        "BatchDimensionCount",
        "BatchDimensionCount",
        _has_batches_of_page,
        "Microsoft's page compares it with DimensionCount alone, and DirectML refuses"
        " it",
    ),
    Erratum(
        ("DML_BUFFER_TENSOR_DESC",),
        "GuaranteedBaseOffsetAlignment",
        "GuaranteedBaseOffsetAlignment",
        _has_alignment_of_page,
        "Microsoft's page allows a power of two from the size of an element, which"
        " DirectML refuses below 16",
    ),
)
"""The errata that explain why a descriptor typed from the pages is refused.

Where several explain it, the first does. DirectML's refusals were measured.
"""
