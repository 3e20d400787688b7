"""What is said where an index of a program is out of range."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from onnxgather.core.descriptors.arrays import Array, elements, indices_outside
from onnxgather.core.descriptors.explain import value_text
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.reference import reference, source_map
from onnxgather.core.options import OutOfRange

COMPARED = 2**22
"""The most output elements that are compared with DirectML's where an index is out of
range."""


def told_outside(
    desc: Descriptor,
    data: Array,
    indices: Array,
    policy: OutOfRange,
    output: Array | str | None,
    has_option: bool = True,
) -> str:
    """Return how many indices are out of range, and how much that matters.

    Args:
        desc: The descriptor.
        data: InputTensor, with what lies behind its elements in the buffer, as DirectML
            reads it.
        indices: IndicesTensor.
        policy: What an index out of range does.
        output: OutputTensor under the policy; another value where there is none, or
            where it is not known.
        has_option: Whether the command can run another policy.

    Returns:
        The sentence; empty if every index is in range and the outputs are equal.
    """
    outside = indices_outside(desc, indices)
    # Case: nothing is an error, so that nothing differs.
    if policy == "error" and not outside.any():
        return ""
    parts = list[str]()
    if outside.any():
        first = _first(outside)
        value = elements(desc.indices_tensor, indices)[first]
        count = f"indices out of range: {np.count_nonzero(outside)} of {outside.size}"
        parts.append(f"{count}, first {_place('IndicesTensor', first)} = {value}")
    # The other policy is DirectML's, or that which the other commands have.
    other: OutOfRange = "clamp" if policy == "directml" else "directml"
    size = math.prod(desc.output_tensor.sizes)
    if size > COMPARED:
        parts.append(f"too many output elements to compare with {other}: {size}")
        return "; ".join(parts)

    other_output = elements(desc.output_tensor, reference(desc, data, indices, other))
    # Case 1: there is no output under the policy.
    if policy == "error":
        if not outside.any():
            return ""
        first = _first(source_map(desc, indices, "zero") < 0)
        place = _place("OutputTensor", first)
        theirs = value_text(other_output[first])
        parts.append(f"{place} is an error, {theirs} under {other}")
    else:
        if not isinstance(output, np.ndarray):
            output = reference(desc, data, indices, policy)
        own_output = elements(desc.output_tensor, output)
        bits = f"u{own_output.itemsize}"
        different = own_output.view(bits) != other_output.view(bits)
        # Case 2: the outputs agree bit for bit.
        if not different.any():
            if parts:
                parts.append(f"the output is the same under {other}")
            return "; ".join(parts)
        # Case 3: they differ.
        first = _first(different)
        place = _place("OutputTensor", first)
        own = value_text(own_output[first])
        theirs = value_text(other_output[first])
        differing = f"{np.count_nonzero(different)} of {size} output elements differ"
        parts.append(
            f"{differing}, first {place}: {own} under {policy}, {theirs} under {other}"
        )
    if has_option:
        parts.append(f"for the other output: --out-of-range {other}")
    return "; ".join(parts)


def _first(places: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the coordinates of the first true element, of which there must be one."""
    return tuple(np.argwhere(places)[0].tolist())


def _place(name: str, at: Sequence[int]) -> str:
    """Return an element of a tensor, such as `OutputTensor[1,0]`."""
    return f"{name}[{','.join(map(str, at))}]"
