"""What a descriptor computes, written as a formula with its own sizes put in."""

from __future__ import annotations

import msgspec

from onnxgather.descriptors import Descriptor
from onnxgather.gather import gather_of
from onnxgather.options import POLICIES, OutOfRange
from onnxgather.reference import directml_strides

_PASSED = "abcdefgh"
_INDEX = "ijklmnop"
_COORDINATES = "pqrstuvw"  # of a tuple, which takes a dimension, so that p is free


class Formula(msgspec.Struct, frozen=True):
    """A formula in DirectML's coordinates; every dimension of every tensor is written.

    Positions along InputTensor are called a, b, ...; those along IndicesTensor i, j, ...; the
    coordinates of an index tuple p, q, .... A dimension of size 1 has the position 0.
    """

    equation: str
    """Such as `out[a, i, b] = in[a, idx[0, i, 0], b]`."""
    coordinates: str | None
    """Where the equation names coordinates: `p, q = idx[i, :]`."""
    bounds: str
    """The sizes: `a < 4, i < 2, b < 3`; empty for a single element."""
    range: str
    """Which indices are in range and what the others do."""


def write_formula(desc: Descriptor, out_of_range: OutOfRange) -> Formula:
    """Return the formula that a descriptor computes.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does.
    """
    gather, count = gather_of(desc), desc.input_tensor.dimension_count
    shown = _positions(desc, {count + output for output, _ in gather.passed})
    data = ["0"] * count
    for output, dimension in gather.passed:
        data[dimension] = shown[output]
    first = count - gather.after - len(gather.per_index)
    index = ["0"] * (count - len(gather.indices)) + shown[first : count - gather.after]
    named = list(_COORDINATES[: gather.tuple_size])
    coordinates = None
    if not gather.has_tuples:
        named = [f"idx[{', '.join(index)}]"]
    elif len(named) == 1:
        named = [f"idx[{', '.join([*index, '0'])}]"]
    else:
        coordinates = f"{', '.join(named)} = idx[{', '.join([*index, ':'])}]"
    for dimension, name in zip(gather.indexed, named, strict=True):
        data[dimension] = name
    bounds = [f"{s} < {n}" for s, n in zip(shown, desc.output_tensor.sizes, strict=True) if n > 1]
    return Formula(
        f"out[{', '.join(shown)}] = in[{', '.join(data)}]",
        coordinates,
        ", ".join(bounds),
        _range(desc, named if coordinates else ["idx"], out_of_range),
    )


def _positions(desc: Descriptor, passed: set[int]) -> list[str]:
    """Return a letter for the position along each dimension of OutputTensor, 0 for size 1."""
    sizes = desc.output_tensor.sizes
    of_input, of_indices = iter(_PASSED), iter(_INDEX)
    return [
        "0" if n == 1 else next(of_input if k in passed else of_indices)
        for k, n in enumerate(sizes)
    ]


def _range(desc: Descriptor, names: list[str], out_of_range: OutOfRange) -> str:
    if out_of_range == "directml":
        return _directml(desc)
    sizes = gather_of(desc).axes
    signed = desc.indices_tensor.data_type.is_signed
    limits = [
        f"{-n if signed else 0} <= {name} < {n}" for name, n in zip(names, sizes, strict=True)
    ]
    negative = ", from the end where negative" if signed else ""
    return f"{', '.join(limits)}{negative}; an index out of range {POLICIES[out_of_range].brief}"


def _directml(desc: Descriptor) -> str:
    tensor = desc.input_tensor
    strides = list(directml_strides(desc))
    added = ""
    if desc.indices_tensor.data_type != "UINT32":
        added = " A negative index (UINT64 is read as INT64) has its axis size added first."
    return (
        "as DirectML does, whatever the index: the element of the buffer at "
        f"min(offset mod 2^32, {tensor.reachable_count - 1}), where offset is the sum of "
        f"coordinate x stride, strides {strides}.{added}"
    )
