"""Gathers as one HTML page that teaches: picture, formula, descriptor and graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import msgspec
import numpy as np

from onnxgather.core.checks import number_of, printable
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.sample_values import index_values
from onnxgather.core.lowering.show import Description
from onnxgather.core.output.page import facts_of, filled
from onnxgather.core.output.picture import LARGEST_OUTPUT, picture_of

_LESSONS = {
    "GATHER": (
        "Each index chooses a slice of InputTensor along Axis. The slices stand in "
        "OutputTensor where the indices stand in IndicesTensor."
    ),
    "GATHER_ELEMENTS": (
        "Each index chooses one element of InputTensor along Axis. The element's "
        "other coordinates are those of the index."
    ),
    "GATHER_ND": (
        "The last dimension of IndicesTensor is a tuple of indices. It chooses from as "
        "many dimensions of InputTensor, and what lies behind them is copied whole."
    ),
    "GATHER_ND1": (
        "The last dimension of IndicesTensor is a tuple of indices. Each batch has "
        "tuples of its own, which choose from the same batch of InputTensor."
    ),
}
"""What each operator does, in words."""

_END = 16
"""How many characters at the end of the heading are seen, however narrow the page is.

Where the heading is too long for a line, its middle is left out.
"""


def lesson_page(
    name: str,
    lessons: Sequence[Mapping[str, Any]],
    commands: Mapping[str, str],
    left_out: Sequence[str] = (),
) -> bytes:
    """Return gathers as an HTML page in UTF-8, which loads nothing.

    Args:
        name: The file or folder that the gathers are read from.
        lessons: The data of each gather, as `lesson` returns it.
        commands: Commands that may come next, each with what it does.
        left_out: Why gathers and files are not on the page.
    """
    heading = f"{number_of(len(lessons), 'gather')} of {printable(name)}"
    texts = {
        "title": escape(f"{heading} · onnxgather show"),
        "heading": escape(heading),
        "start": escape(heading[:-_END]),
        "end": escape(heading[-_END:]),
    }
    data = {
        "file": name,
        "gathers": lessons,
        "commands": commands,
        "left_out": left_out,
    }
    return filled("cli/lesson", texts, data)


def lesson(
    name: str,
    desc: Descriptor,
    description: Description,
    arrays: tuple[Array, Array] | None,
) -> dict[str, Any]:
    """Return the data of a gather on the page, with a picture if its tensors are small.

    Args:
        name: The heading.
        desc: Any of the four gather descriptors.
        description: Its description, with the policy and the target that it is shown
            for.
        arrays: Those of InputTensor and IndicesTensor. None stands for examples:
            elements that count up, and indices in range.

    Raises:
        DescriptorError: The arrays do not fit their tensors.
    """
    picture = None
    tensors = (desc.input_tensor, desc.indices_tensor, desc.output_tensor)
    largest = max(math.prod(tensor.array_shape) for tensor in tensors)
    if largest <= LARGEST_OUTPUT:
        data, indices = arrays or _example(desc)
        picture = picture_of(desc, data, indices, description.out_of_range)
    return {
        "name": name,
        "lesson": _LESSONS[desc.operator],
        "is_example": arrays is None,
        "picture": msgspec.to_builtins(picture),
        "type": desc.input_tensor.data_type.name,
        "index_type": desc.indices_tensor.data_type.name,
        **facts_of([description]),
    }


def _example(desc: Descriptor) -> tuple[Array, Array]:
    """Return elements that count up, and indices in range."""
    tensor = desc.input_tensor
    data_type = tensor.data_type.numpy
    # The elements start again before they exceed the limits of the data type.
    period = 100 if data_type.itemsize == 1 else 1000
    numbers = np.arange(math.prod(tensor.array_shape)) % period
    data = numbers.astype(data_type).reshape(tensor.array_shape)
    return data, index_values(desc, "any", 1)
