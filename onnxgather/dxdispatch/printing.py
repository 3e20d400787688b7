"""The lines of a `print` command, byte for byte as dxdispatch.exe writes them.

Two of its habits show: 8-bit integers come out as the characters of that code, and the line ends
at the first NUL, so at the first 0 among them.
"""

from __future__ import annotations

import numpy as np

from onnxgather.arrays import Array
from onnxgather.datatypes import TensorDataType
from onnxgather.dxdispatch.values import Bytes


def printed(name: str, data_type: TensorDataType, content: Bytes, *, verbose: bool) -> str:
    """Return what `print` writes for a resource, one character (Latin-1) per byte.

    Args:
        name: The resource's name, which is written as UTF-8.
        data_type: The type of its initial values.
        content: As many bytes as its initial values have.
        verbose: Whether each value is on a line of its own, with its place and its bits.
    """
    whole = content.size // data_type.size * data_type.size
    values = content[:whole].view(data_type.numpy)
    characters = _characters(values)
    line = f"Resource '{name}':".encode().decode("latin-1")
    if verbose:
        bits = values.view(f"u{data_type.size}").tolist()
        places, digits = len(str(max(1, len(bits)))), data_type.size * 2
        rows = zip(characters, bits, strict=True)
        lines = [f"[{i:{places}}] {c} (0x{b:{digits}X})\n" for i, (c, b) in enumerate(rows)]
        line += "\n" + "".join(lines)
    else:
        line += " " + ", ".join(characters)
    return line.partition("\0")[0]


def _characters(values: Array) -> list[str]:
    if values.dtype.kind == "f":
        shown = [f"{value:g}" for value in values.tolist()]
        for i in np.flatnonzero(np.isnan(values)).tolist():
            shown[i] = _nan(values[i : i + 1])
        return shown
    if values.itemsize == 1:
        return list(values.tobytes().decode("latin-1"))
    return [str(value) for value in values.tolist()]


def _nan(value: Array) -> str:
    """Return a NaN as Microsoft's C runtime writes it, after the promotion to double."""
    size = value.itemsize
    fraction_bits = {2: 10, 4: 23, 8: 52}[size]
    bits = int(value.view(f"u{size}")[0])
    quiet = 1 << (fraction_bits - 1)
    fraction = bits & (2 * quiet - 1)
    negative = bits >> (8 * size - 1)
    if size == 8 and not fraction & quiet:  # the promotion makes the smaller ones quiet
        return "-nan(snan)" if negative else "nan(snan)"
    if negative:
        return "-nan(ind)" if fraction | quiet == quiet else "-nan"
    return "nan"
