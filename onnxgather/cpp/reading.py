"""Descriptors read from C and C++: the constants that a file gives to DirectML.h's structs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from onnxgather.cpp.structs import OPERATORS
from onnxgather.descriptors.operators import Descriptor
from onnxgather.errors import FileFormatError, OnnxGatherError
from onnxgather.files import reason

MAX_BYTES = 2**21
"""The most bytes of a file of C or C++."""

_SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".inl")


def is_cpp(path: str) -> bool:
    """Whether a file is C or C++, by its name."""
    return path.lower().endswith(_SUFFIXES)


def read_cpp(path: str) -> Iterator[tuple[str, Descriptor | OnnxGatherError]]:
    """Yield the gathers of a file of C or C++, each with its descriptor or why it has none.

    A name is that of the variable, with its line where several have that name.

    Args:
        path: The file.

    Raises:
        FileFormatError: The file cannot be read, or has no gather.
        OnnxGatherError: The libraries that read C++ are not installed.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path}: {reason(error)}") from None
    if len(content) > MAX_BYTES:
        raise FileFormatError(f"{path}: must have at most {MAX_BYTES} bytes")
    try:
        from onnxgather.cpp.gathers import Gathers
    except ImportError:
        rule = "C++ needs tree-sitter and its grammar, which the extra onnxgather[cpp] installs"
        raise OnnxGatherError(f"{path}: {rule}") from None
    gathers = Gathers(path, content)
    if not gathers.found and not gathers.lost:
        rule = f"must define a variable of one of the types {', '.join(OPERATORS)}"
        raise FileFormatError(f"{path}: {rule}, got none")
    yield from ((f"line {line}", error) for line, error in gathers.lost)
    often = Counter(one.shown for one in gathers.found)
    for one in gathers.found:
        unique = one.name if one.name and often[one.name] == 1 else f"{one.shown}@{one.part.line}"
        try:
            yield unique, gathers.descriptor(one)
        except OnnxGatherError as error:
            yield unique, error
        except RecursionError:
            rule = "must have fewer expressions inside one another"
            raise FileFormatError(f"{path}: {rule}, got too many") from None
