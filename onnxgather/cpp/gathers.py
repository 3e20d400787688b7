"""The operators' structs of a file of C or C++, as descriptors."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from onnxgather.checks import require
from onnxgather.cpp.evaluation import Evaluation, Struct
from onnxgather.cpp.structs import BUFFER, CONSTANTS, OPERATORS, STRUCTS, TENSOR
from onnxgather.cpp.syntax import Part, parse
from onnxgather.cpp.variables import NotKnown, Variable, Variables
from onnxgather.descriptors.datatypes import DATA_TYPES
from onnxgather.descriptors.operators import TENSORS, Descriptor, header_names
from onnxgather.descriptors.tensors import TensorDesc, TensorFlags
from onnxgather.documents import quoted
from onnxgather.errors import DescriptorError, FileFormatError

_NUMBERS = [field for field in STRUCTS[BUFFER] if field not in ("Sizes", "Strides")]


class Gather(NamedTuple):
    """A struct of an operator in a file."""

    name: str
    """The variable, such as `descs[1]`; empty where it has none."""
    part: Part
    """The struct, or the declaration of the variable."""
    kind: str
    variable: Variable | None

    @property
    def shown(self) -> str:
        """Its name in errors."""
        return self.name or self.kind


class Gathers:
    """The gathers of a file; an error names the file, the line, the variable, the field.

    Args:
        path: The file.
        content: What it contains.
    """

    def __init__(self, path: str, content: bytes) -> None:
        root = parse(content)
        variables = Variables(root)
        self._path, self._evaluation = path, Evaluation(variables)
        self.found: list[Gather] = []
        """The operators' structs, in the order of the file."""
        self.lost: list[tuple[int, FileFormatError]] = []
        """The lines of what names such a struct and is not read."""
        for one in variables.all:
            if one.kind in OPERATORS and not one.is_pointer:
                self.found += _of_variable(one)
        values = {one.variable.value for one in self.found if one.variable}
        for part in root.below():
            name = part.at("type").name
            if part.type == "compound_literal_expression" and part not in values:
                self.found += [Gather("", part, name, None)] * (name in OPERATORS)
            if part.type in ("alias_declaration", "type_definition") and name in OPERATORS:
                self._lose(part, "must use the names of DirectML.h")
            is_broken = part.type == "function_definition" and part.has_error and name in OPERATORS
            if is_broken or (part.type == "ERROR" and any(each in part.text for each in OPERATORS)):
                self._lose(part, "must be C++")
        self.found.sort(key=lambda one: one.part.start)

    def _lose(self, part: Part, rule: str) -> None:
        rule = f"{self._path}:{part.line}: {rule}, got {quoted(part.text)}"
        self.lost.append((part.line, FileFormatError(rule)))

    def descriptor(self, gather: Gather) -> Descriptor:
        """The descriptor that an operator's struct describes.

        Raises:
            FileFormatError: A field is not known.
            DescriptorError: A rule is broken.
        """
        name = gather.shown
        with self._known(name):
            if gather.variable:
                found = self._evaluation.held(gather.variable)
            else:
                found = self._evaluation.listed(gather.part, gather.kind)
        operator = OPERATORS[found.kind]
        values: dict[str, int | TensorDesc] = {}
        try:
            for attribute, field in header_names(operator).items():
                read = self._tensor if attribute in TENSORS else self._number
                values[attribute] = read(found, name, field)
            return operator(**values)
        except DescriptorError as error:
            raise error.at(f"{self._path}:{found.line}: {name}") from None

    @contextmanager
    def _known(self, where: str) -> Generator[None]:
        try:
            yield
        except NotKnown as error:
            rule = f"{where} must be a constant, got {error.text}, {error.why}"
            raise FileFormatError(f"{self._path}:{error.line}: {rule}") from None

    def _error(self, of: Struct, where: str, rule: str, got: object) -> FileFormatError:
        return FileFormatError(f"{self._path}:{of.line}: {where} {rule}, got {got}")

    def _number(self, of: Struct, where: str, key: str) -> int:
        with self._known(f"{where}.{key}"):
            return self._evaluation.number(of.fields.get(key, Part(None)))

    def _pointed(self, of: Struct, where: str, key: str, kind: str) -> Struct:
        with self._known(f"{where}.{key}"):
            found = self._evaluation.pointed(of.fields.get(key, Part(None)))
        if found.kind != kind:
            rule, name = f"must be the address of a {kind}", found.name or found.kind
            raise self._error(of, f"{where}.{key}", rule, f"the address of {name}")
        return found

    def _numbers(self, of: Struct, where: str, key: str, count: int) -> list[int] | None:
        part, field = of.fields.get(key, Part(None)), f"{where}.{key}"
        with suppress(NotKnown):
            if self._evaluation.number(part) == 0:
                return None
        with self._known(field):
            elements = self._evaluation.array(part).elements
        if count > len(elements):
            rule = f"must have as many elements as DimensionCount says ({count})"
            raise self._error(of, field, rule, len(elements))
        with self._known(field):
            return [self._evaluation.number(one) for one in elements[:count]]

    def _tensor(self, found: Struct, name: str, field: str) -> TensorDesc:
        where = f"{name}.{field}"
        tensor = self._pointed(found, name, field, TENSOR)
        kind = self._number(tensor, where, "Type")
        if kind != CONSTANTS["DML_TENSOR_TYPE_BUFFER"]:
            raise self._error(tensor, f"{where}.Type", "must be DML_TENSOR_TYPE_BUFFER", kind)
        buffer = self._pointed(tensor, where, "Desc", BUFFER)
        try:
            return self._buffer(buffer, where)
        except DescriptorError as error:
            raise DescriptorError(f"{field}.{error}") from None

    def _buffer(self, found: Struct, where: str) -> TensorDesc:
        number = {key: self._number(found, where, key) for key in _NUMBERS}
        count, flags = number["DimensionCount"], number["Flags"]
        sizes, strides = (self._numbers(found, where, key, count) for key in ("Sizes", "Strides"))
        if sizes is None:
            raise self._error(found, f"{where}.Sizes", "must be the address of an array", "null")
        names = {number: name for name, number in DATA_TYPES.items()}
        total = number["TotalTensorSizeInBytes"]
        tensor = TensorDesc(
            names.get(number["DataType"], str(number["DataType"])),
            sizes,
            strides,
            total,
            TensorFlags(flags) if flags in TensorFlags.__members__.values() else str(flags),
            number["GuaranteedBaseOffsetAlignment"],
        )
        least = tensor.default_total_tensor_size_in_bytes
        require(total > 0, f"TotalTensorSizeInBytes must be at least {least}", total)
        return tensor


def _of_variable(variable: Variable) -> list[Gather]:
    """A variable that holds a struct, or the elements of one that holds several."""
    name, kind, value = variable.name.text, variable.kind, variable.value
    if variable.lengths and value.type == "initializer_list":
        return [Gather(f"{name}[{k}]", one, kind, None) for k, one in enumerate(value.parts)]
    return [Gather(name, variable.declaration, kind, variable)]
