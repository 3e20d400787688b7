"""Descriptors read from C and C++: the constants that a file gives to DirectML.h's structs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from onnxgather.checks import require
from onnxgather.cpp.structs import BUFFER, CONSTANTS, OPERATORS, STRUCTS, TENSOR
from onnxgather.cpp.values import Braces, Object, Pointer, Unknown
from onnxgather.datatypes import DATA_TYPES
from onnxgather.descriptors import TENSORS, Descriptor, header_names
from onnxgather.errors import DescriptorError, FileFormatError, OnnxGatherError
from onnxgather.files import reason
from onnxgather.tensors import TensorDesc, TensorFlags

MAX_BYTES = 2**21
"""The most bytes of a file of C or C++."""

_SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".inl")


_NUMBERS = [field for field in STRUCTS[BUFFER] if field not in ("Sizes", "Strides")]


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
        from onnxgather.cpp.evaluation import Evaluation
    except ImportError:
        rule = "C++ needs tree-sitter and its grammar, which the extra onnxgather[cpp] installs"
        raise OnnxGatherError(f"{path}: {rule}") from None
    try:
        evaluation = Evaluation(content)
    except RecursionError:
        rule = "must have fewer expressions inside one another"
        raise FileFormatError(f"{path}: {rule}, got too many") from None
    found = evaluation.found
    if not found and not evaluation.lost:
        rule = f"must define a variable of one of the types {', '.join(OPERATORS)}"
        raise FileFormatError(f"{path}: {rule}, got none")
    for lost in evaluation.lost:
        yield (
            f"line {lost.line}",
            FileFormatError(f"{path}:{lost.line}: must be C++, got {lost.text}"),
        )
    names = [one.name or one.kind.name for one in found]
    often = Counter(names)
    for name, one in zip(names, found, strict=True):
        unique = name if often[name] == 1 and one.name else f"{name}@{one.line}"
        try:
            yield unique, Reading(path).descriptor(one, name)
        except OnnxGatherError as error:
            yield unique, error


class Reading:
    """Reads objects as descriptors; an error names the file, the line, the variable, the field.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def descriptor(self, found: Object, name: str) -> Descriptor:
        """The descriptor that an operator's struct describes; raises as `buffer`."""
        operator = OPERATORS[found.kind.name]
        values: dict[str, int | TensorDesc] = {}
        try:
            for attribute, field in header_names(operator).items():
                if attribute in TENSORS:
                    values[attribute] = self._tensor(found, name, field)
                else:
                    values[attribute] = self._number(found, name, field)
            return operator(**values)
        except DescriptorError as error:
            raise error.at(f"{self._path}:{found.line}: {name}") from None

    def _known(self, of: Object, where: str, key: str | int) -> int | Pointer | Object:
        value, field = of.get(key), f"{where}.{key}" if isinstance(key, str) else f"{where}[{key}]"
        if isinstance(value, Unknown):
            field = where if of.spoilt else field
            rule = f"{field} must be a constant, got {value.text}, {value.why}"
            raise FileFormatError(f"{self._path}:{value.line}: {rule}")
        assert not isinstance(value, Braces)  # nothing is assigned braces before they are an object
        return value

    def _error(self, of: Object, where: str, rule: str, got: object) -> FileFormatError:
        return FileFormatError(f"{self._path}:{of.line}: {where} {rule}, got {got}")

    def _number(self, of: Object, where: str, key: str | int) -> int:
        value = self._known(of, where, key)
        if not isinstance(value, int):
            field = f"{where}.{key}" if isinstance(key, str) else f"{where}[{key}]"
            raise self._error(of, field, "must be an integer", _noun(value))
        return value

    def _pointed(self, of: Object, where: str, key: str, kind: str) -> Object:
        value = self._known(of, where, key)
        found = value.target if isinstance(value, Pointer) else None
        if (
            isinstance(value, Pointer)
            and found
            and found.kind.arrays
            and value.offset in found.keys
        ):
            element = found.get(value.offset)
            found = element if isinstance(element, Object) else found
        if found is None or found.kind.name != kind or found.kind.arrays:
            raise self._error(
                of, f"{where}.{key}", f"must be the address of a {kind}", _noun(value)
            )
        return found

    def _numbers(self, of: Object, where: str, key: str, count: int) -> list[int] | None:
        value, field = self._known(of, where, key), f"{where}.{key}"
        if value == 0:
            return None
        if not isinstance(value, Pointer) or not value.target.kind.arrays:
            raise self._error(of, field, "must be the address of an array", _noun(value))
        target, start = value
        if target.spoilt:
            target.length = start + count  # so that the first element says why it is not known
        if count > target.length - start:
            rule = f"must have as many elements as DimensionCount says ({count})"
            raise self._error(of, field, rule, target.length - start)
        return [self._number(target, field, start + k) for k in range(count)]

    def _tensor(self, found: Object, name: str, field: str) -> TensorDesc:
        where = f"{name}.{field}"
        tensor = self._pointed(found, name, field, TENSOR)
        if self._number(tensor, where, "Type") != CONSTANTS["DML_TENSOR_TYPE_BUFFER"]:
            found_type = tensor.get("Type")
            raise self._error(tensor, f"{where}.Type", "must be DML_TENSOR_TYPE_BUFFER", found_type)
        buffer = self._pointed(tensor, where, "Desc", BUFFER)
        try:
            tensor = self.buffer(buffer, where)
            least = tensor.default_total_tensor_size_in_bytes
            given = self._number(buffer, where, "TotalTensorSizeInBytes")
            require(given > 0, f"TotalTensorSizeInBytes must be at least {least}", given)
            return tensor
        except DescriptorError as error:
            raise DescriptorError(f"{field}.{error}") from None

    def buffer(self, found: Object, where: str) -> TensorDesc:
        """The tensor that a DML_BUFFER_TENSOR_DESC describes; its name for errors is `where`.

        Where TotalTensorSizeInBytes is 0 it is the smallest legal number, which DirectML refuses.

        Raises:
            FileFormatError: A field is not known.
            DescriptorError: A rule is broken.
        """
        number = {key: self._number(found, where, key) for key in _NUMBERS}
        count, flags = number["DimensionCount"], number["Flags"]
        sizes, strides = (self._numbers(found, where, key, count) for key in ("Sizes", "Strides"))
        if sizes is None:
            raise self._error(found, f"{where}.Sizes", "must be the address of an array", "null")
        names = {number: name for name, number in DATA_TYPES.items()}
        return TensorDesc(
            names.get(number["DataType"], str(number["DataType"])),
            sizes,
            strides,
            number["TotalTensorSizeInBytes"],
            TensorFlags(flags) if flags in TensorFlags.__members__.values() else str(flags),
            number["GuaranteedBaseOffsetAlignment"],
        )


def _noun(value: int | Pointer | Object) -> str:
    if isinstance(value, int):
        return str(value) if value else "null"
    found = value.target if isinstance(value, Pointer) else value
    what = f"array of {found.kind.name}" if found.kind.arrays else found.kind.name
    return f"the address of {found.name or what}" if isinstance(value, Pointer) else f"a {what}"
