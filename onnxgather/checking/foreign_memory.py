"""Outputs that hold memory which is not the model's.

A lane that runs each case twice fills free memory, and the memory around the inputs,
with another byte before each run. So what a runtime reads there differs between the
runs. What is the same in both runs and comes neither from the data nor from zeros is
memory that such bytes did not reach.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxgather.checking.cases import Case
from onnxgather.checking.lanes.adapter_program import PATTERNS
from onnxgather.checking.results import ForeignMemory
from onnxgather.core.descriptors.arrays import Array, content_of
from onnxgather.core.descriptors.datatypes import TensorDataType

FOREIGN_SENTENCES = {
    ForeignMemory.PATTERN: (
        "returned memory that is not the model's: elements hold the bytes that were put"
        " into free memory"
    ),
    ForeignMemory.DIFFERS: (
        "returned memory that is not the model's: two runs differ, with different"
        " bytes in free memory"
    ),
    ForeignMemory.VALUES: (
        "returned what may be memory that is not the model's: elements are neither in"
        " InputTensor nor zero"
    ),
}
"""The sentence for each way in which foreign memory shows."""

REPORT_PRIVATELY = (
    "A model can read memory of the process that runs it. Report it privately to the"
    " maintainers first, as their security policy says, and not in a public issue."
)
"""What to do where a result has foreign memory."""

_NARROWER = [row.numpy for row in TensorDataType]
"""The types in which a runtime may hold the data meanwhile."""


def foreign_memory(case: Case, output: Array, again: Array) -> ForeignMemory | None:
    """Return how the outputs of two runs show foreign memory; None if they do not.

    Args:
        case: The case, which both outputs are wrong for, or one of them.
        output: The output of a run.
        again: The output of the other run, over free memory with other bytes.
    """
    # Case 1: the runs differ.
    if (output.dtype, output.shape) != (again.dtype, again.shape):
        return ForeignMemory.DIFFERS
    if content_of(output) != content_of(again):
        if _holds_pattern(output, again) or _holds_pattern(again, output):
            return ForeignMemory.PATTERN
        return ForeignMemory.DIFFERS

    # Case 2: another data type; a runtime that converts says nothing of its memory. Or
    # one that is not converted, such as texts.
    data = case.data
    if output.dtype != data.dtype or not output.size or data.dtype.kind not in "biuf":
        return None
    # Case 3: elements that no conversion of the data explains.
    is_explained = np.asarray(output == 0)
    for explained in _conversions(data):
        is_explained |= np.isin(_bits(output), _bits(explained))
    if data.dtype.kind == "f" and np.isnan(data).any():
        is_explained |= np.isnan(output)
    return None if is_explained.all() else ForeignMemory.VALUES


def _holds_pattern(first: Array, second: Array) -> bool:
    """Return whether an element of two runs is the byte of each run's free memory."""
    if first.dtype.hasobject:  # texts
        return False
    size = first.itemsize
    elements_of_first = np.frombuffer(first.tobytes(), np.uint8).reshape(-1, size)
    elements_of_second = np.frombuffer(second.tobytes(), np.uint8).reshape(-1, size)
    pattern_of_first, pattern_of_second = PATTERNS
    is_of_first = elements_of_first == pattern_of_first
    is_of_second = elements_of_second == pattern_of_second
    is_pattern = (is_of_first & is_of_second).all(axis=1)
    return bool(is_pattern.any())


def _conversions(data: Array) -> Iterator[Array]:
    """Yield the data as they come back from each data type, wrapped and cut off."""
    yield data
    with np.errstate(all="ignore"):
        for dtype in _NARROWER:
            # Case 1: the conversion wraps what the type does not hold.
            wrapped = data.astype(dtype)
            yield wrapped.astype(data.dtype)
            # Case 2: the conversion cuts it off.
            limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
            floats = data.astype(np.float64)
            cut_off = np.clip(floats, limits.min, limits.max).astype(dtype)
            yield cut_off.astype(data.dtype)


def _bits(array: Array) -> Array:
    """Return the elements as integers, as a NaN is not equal to itself."""
    # numpy makes a scalar an array of one element.
    bits = np.ascontiguousarray(array).view(f"u{array.itemsize}")
    return bits.reshape(array.shape)
