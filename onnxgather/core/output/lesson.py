"""Gathers as one HTML page that teaches: each with its picture, formula, descriptor and graph."""

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


def lesson_page(
    name: str,
    lessons: Sequence[Mapping[str, Any]],
    commands: Mapping[str, str],
    left_out: Sequence[str] = (),
) -> bytes:
    """Gathers as an HTML page in UTF-8, which loads nothing.

    Args:
        name: What they are read from.
        lessons: What `lesson` says of each.
        commands: Commands that may come next, each with what it does.
        left_out: Why gathers and files are not on the page.
    """
    heading = escape(f"{number_of(len(lessons), 'gather')} of {printable(name)}")
    texts = {"title": f"{heading} · onnxgather show", "heading": heading}
    data: dict[str, Any] = {
        "cases": [],
        "gathers": lessons,
        "commands": commands,
        "left_out": left_out,
    }
    return filled("core/output/lesson", texts, data)


def lesson(
    name: str,
    desc: Descriptor,
    description: Description,
    arrays: tuple[Array, Array] | None,
) -> dict[str, Any]:
    """What the page says of a gather; it has a picture where its tensors are small enough.

    Args:
        name: The heading.
        desc: Any of the four gather descriptors.
        description: Its description, with the policy and the target that it is shown for.
        arrays: Those of InputTensor and IndicesTensor. None stands for examples: elements that
            count up, and indices in range.

    Raises:
        DescriptorError: The arrays do not fit their tensors.
    """
    drawn, tensors = None, (desc.input_tensor, desc.indices_tensor, desc.output_tensor)
    if max(math.prod(tensor.array_shape) for tensor in tensors) <= LARGEST_OUTPUT:
        data, indices = arrays or _example(desc)
        drawn = picture_of(desc, data, indices, description.out_of_range)
    return {
        "name": name,
        "lesson": _LESSONS[desc.operator],
        "is_example": arrays is None,
        "picture": msgspec.to_builtins(drawn),
        "type": desc.input_tensor.data_type.name,
        "index_type": desc.indices_tensor.data_type.name,
        **facts_of([description]),
    }


def _example(desc: Descriptor) -> tuple[Array, Array]:
    tensor = desc.input_tensor
    dtype, count = tensor.data_type.numpy, math.prod(tensor.array_shape)
    data = np.arange(count) % (
        100 if dtype.itemsize == 1 else 1000
    )  # numbers that every type has
    return data.astype(dtype).reshape(tensor.array_shape), index_values(desc, "any", 1)
