"""What the expressions of C and C++ are worth: numbers, structs and arrays."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar, NamedTuple

from onnxgather.cpp.structs import CONSTANTS, SIZES, STRUCTS
from onnxgather.cpp.syntax import NAMES, Part, parse
from onnxgather.cpp.variables import ARRAYS, NotKnown, Variable, Variables, template_arguments
from onnxgather.descriptors.datatypes import DATA_TYPES
from onnxgather.descriptors.tensors import TensorDesc
from onnxgather.documents import quoted
from onnxgather.errors import OnnxGatherError

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
    "/": int.__floordiv__,
} | {"%": int.__mod__, "<<": int.__lshift__, ">>": int.__rshift__, "|": int.__or__}

_LISTS = ("initializer_list", "argument_list")


class Struct(NamedTuple):
    """A struct of DirectML.h."""

    kind: str
    name: str
    """The variable that holds it, such as `descs[1]`, if there is one."""
    line: int
    fields: dict[str, Part]
    """What stands there for each field; one that is 0 as nothing sets it has no part."""


class Array(NamedTuple):
    """An array, or the rest of one behind the element that a pointer leads to."""

    kind: str
    name: str
    elements: list[Part]

    @property
    def first(self) -> Part:
        """The first element."""
        if not self.elements:
            raise NotKnown(Part(None), "an array without elements")
        return self.elements[0]


class Evaluation:
    """The evaluation of one file; each of its functions raises NotKnown.

    Args:
        variables: Its variables.
    """

    def __init__(self, variables: Variables) -> None:
        self._variables = variables

    # --- Structs and arrays ------------------------------------------------------------------

    def struct(self, part: Part) -> Struct:
        """The struct that an expression is."""
        part = self._plain(part)
        if part.type == "compound_literal_expression":
            return self.listed(part.at("value"), part.at("type").name)
        if part.type == "subscript_expression":
            array = self.array(part)
            return self.listed(array.first, array.kind, array.name)
        variable = self._variables.named(part) if part.type == "identifier" else None
        if variable is None or variable.kind not in STRUCTS or variable.lengths:
            raise NotKnown(part)
        if variable.is_pointer:
            return self.pointed(variable.value)
        return self.held(variable, part.start)

    def held(self, variable: Variable, before: int | None = None) -> Struct:
        """The struct that a variable holds, at the end or before a byte of the file."""
        name, value = variable.name.text, variable.value
        assigned = self._variables.assigned(variable)
        if value.type in _LISTS:
            found = self.listed(value, variable.kind, name)
        elif value:
            found = self.struct(value)
        else:
            found = Struct(
                variable.kind, name, 0, dict.fromkeys(STRUCTS[variable.kind], variable.declaration)
            )
        fields = dict(found.fields)
        for one in assigned:
            if before is None or one.start < before:
                fields[one.at("left").at("field").text] = one.at("right")
        return Struct(variable.kind, name, variable.declaration.line, fields)

    def listed(self, part: Part, kind: str, name: str = "") -> Struct:
        """The struct that a list in braces is."""
        part = self._plain(part)
        if kind not in STRUCTS:
            raise NotKnown(part)
        if part.type == "compound_literal_expression":
            part = part.at("value")
        if part.type not in _LISTS or part.has_error:
            raise NotKnown(part, "which is not C++" if part.has_error else "which is not a list")
        fields, keys, position = dict[str, Part](), STRUCTS[kind], 0
        for each in part.parts:
            if each.type == "initializer_pair":
                key = each.at("designator").text.removeprefix(".")
                if key not in keys:
                    unset = NotKnown(part, f"which sets what {kind} does not have")
                    unset.text = quoted(key)
                    raise unset
                position = keys.index(key)
            if position >= len(keys):
                raise NotKnown(part, f"which sets what {kind} does not have")
            is_pair = each.type == "initializer_pair"
            fields[keys[position]] = each.at("value") if is_pair else each
            position += 1
        return Struct(kind, name, part.line, fields)

    def pointed(self, part: Part) -> Struct:
        """The struct that a pointer leads to."""
        part = self._plain(part)
        if part.type == "pointer_expression" and part.at("operator").text == "&":
            return self.struct(part.at("argument"))
        variable = self._variables.named(part) if part.type == "identifier" else None
        if variable and variable.is_pointer:
            self._variables.assigned(variable)
            return self.pointed(variable.value)
        array = self.array(part)
        if array.kind not in STRUCTS:
            raise NotKnown(part)
        return self.listed(array.first, array.kind, array.name)

    def array(self, part: Part) -> Array:
        """The array that an expression is or leads to, from an element on."""
        part = self._plain(part)
        function = part.at("function")
        if part.type == "pointer_expression" and part.at("operator").text == "&":
            return self.array(part.at("argument"))
        if part.type in ("subscript_expression", "binary_expression"):
            array = self.array(part.at("argument") or part.at("left"))
            index = self.number(part.at("indices") or part.at("right"))
            if part.at("operator").text not in ("", "+") or index >= len(array.elements):
                raise NotKnown(part, "which the array does not have")
            return array._replace(elements=array.elements[index:])
        if function.at("field").text == "data":
            return self.array(function.at("argument"))
        if function.name == "data" and len(part.at("arguments").parts) == 1:
            return self.array(part.at("arguments"))
        if part.type == "field_expression":
            return self.array(self._member(part))
        if part.type == "initializer_list":
            return Array("", "", self._elements(part, Part(None), ""))
        if part.type == "compound_literal_expression":
            kind = part.at("type")
            size = kind.at("declarator").at("size")
            if kind.name in ARRAYS:
                kind, size = [*template_arguments(kind), Part(None), Part(None)][:2]
            return Array(kind.name, "", self._elements(part.at("value"), size, kind.name))
        variable = self._variables.named(part) if part.type in (*NAMES, "type_descriptor") else None
        if variable is None or (
            variable.kind in STRUCTS and not (variable.is_pointer or variable.lengths)
        ):
            raise NotKnown(part)
        self._variables.assigned(variable)
        name, value = variable.name.text, self._plain(variable.value)
        if variable.lengths and value.type != "compound_literal_expression":
            return Array(
                variable.kind, name, self._elements(value, variable.lengths[0], variable.kind)
            )
        return self.array(value)._replace(name=name)

    def _elements(self, part: Part, size: Part, kind: str) -> list[Part]:
        part = self._plain(part)
        if part.type != "initializer_list" or part.has_error:
            raise NotKnown(part)
        elements = part.parts
        if len(elements) == 1 and elements[0].type == "initializer_list":
            is_list = {one.type for one in elements[0].parts} <= {"initializer_list"}
            if is_list or kind not in STRUCTS:
                elements = elements[0].parts  # the inner braces of a std::array
        if any(one.type == "initializer_pair" for one in elements):
            raise NotKnown(part)
        missing = self.number(size) - len(elements) if size else 0
        if not 0 <= missing <= 1000:
            raise NotKnown(part)
        return elements + [Part(None)] * missing

    def _plain(self, part: Part) -> Part:
        """An expression without parentheses and casts, or what a macro stands for."""
        if part.type == "declaration":
            raise NotKnown(part, "which has no initializer")
        if part.has_error:
            raise NotKnown(part, "which is not C++")
        if part.type in ("parenthesized_expression", "argument_list", "subscript_argument_list"):
            return self._plain(part.parts[0]) if len(part.parts) == 1 else part
        if part.type == "cast_expression" and part.at("type").at("declarator"):
            return self._plain(part.at("value"))
        if part.at("function").name.endswith("_cast") and len(part.at("arguments").parts) == 1:
            (kind, *_) = [*template_arguments(part.at("function")), Part(None)]
            return self._plain(part.at("arguments").parts[0]) if kind.at("declarator") else part
        variable = self._variables.named(part) if part.type == "identifier" else None
        if variable and variable.declaration.type == "preproc_def":
            text = variable.value.text.replace("\\", " ")  # the end of a line that goes on
            tree = parse(f"auto x = {text}\n;".encode(), variable.value.line)
            if len(tree.parts) != 1 or tree.has_error:
                raise NotKnown(variable.value, "which is not an expression")
            return self._plain(tree.parts[0].at("declarator").at("value"))
        return part

    # --- Numbers -----------------------------------------------------------------------------

    def number(self, part: Part) -> int:
        """The integer that an expression is."""
        part = self._plain(part)
        if not part or part.type in ("null", "false"):
            return 0
        if part.type == "assignment_expression":
            return self.number(part.at("right"))
        if part.type not in self._NUMBERS:
            raise NotKnown(part)
        return self._NUMBERS[part.type](self, part)

    def _literal(self, part: Part) -> int:
        digits = part.text.replace("'", "").lower().rstrip("ulz")
        octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
        with suppress(ValueError):
            return int(digits, 8 if octal else 0)
        raise NotKnown(part, "which is not an integer")

    def _variable(self, part: Part) -> int:
        variable = self._variables.named(part)
        if variable is None:
            known = CONSTANTS.get(part.name)
            if known is None:
                raise NotKnown(part, "which the file does not define")
            return known
        self._variables.assigned(variable)
        if variable.lengths or variable.is_pointer or variable.kind in STRUCTS:
            raise NotKnown(part)
        if not variable.value:
            raise NotKnown(variable.declaration, "which has no initializer")
        return self._fitting(part, self.number(variable.value), variable.kind)

    def _binary(self, part: Part) -> int:
        sign = part.at("operator").text
        if sign not in _OPERATIONS:
            raise NotKnown(part)
        left, right = self.number(part.at("left")), self.number(part.at("right"))
        if (sign in ("/", "%") and not right) or (sign in ("<<", ">>") and right > 31):
            raise NotKnown(part)
        value = int(_OPERATIONS[sign](left, right))
        if not 0 <= value < 1 << 31:  # beyond, the types of both sides decide
            raise NotKnown(part, "which int cannot hold")
        return value

    def _typed(self, part: Part) -> int:
        return self._cast(part, part.at("type"), part.at("value"))

    def _element(self, part: Part) -> int:
        return self.number(self.array(part).first)

    def _cast(self, part: Part, kind: Part, value: Part) -> int:
        known = kind.name in SIZES or kind.name.startswith("DML_")
        if not known or kind.at("declarator"):
            raise NotKnown(part, "whose type is not known")
        return self._fitting(part, self.number(value), kind.name)

    def _fitting(self, part: Part, value: int, kind: str) -> int:
        if value >= 1 << 8 * SIZES.get(kind, 8):
            raise NotKnown(part, f"which {kind} cannot hold")
        return int(value != 0) if kind == "bool" else value

    def _braces(self, part: Part) -> int:
        if len(part.parts) > 1:
            raise NotKnown(part)
        return self.number(part.parts[0]) if part.parts else 0

    def _sizeof(self, part: Part) -> int:
        of = self._plain(part.at("type") or part.at("value"))
        inner = of.at("argument") or of
        variable = (
            self._variables.named(inner) if inner.type in (*NAMES, "type_descriptor") else None
        )
        kind = variable.kind if variable else of.name
        is_plain = variable.is_c_array and not variable.is_pointer if variable else inner == of
        if kind not in SIZES or not is_plain or of.at("declarator"):
            raise NotKnown(part)
        is_whole = variable is not None and inner == of
        return SIZES[kind] * (len(self.array(inner).elements) if is_whole else 1)

    def _field(self, part: Part) -> int:
        return self.number(self._member(part))

    def _member(self, part: Part) -> Part:
        """What stands for a field of a struct."""
        found, key = self.struct(part.at("argument")), part.at("field").text
        if key not in STRUCTS[found.kind]:
            raise NotKnown(part)
        return found.fields.get(key, Part(None))

    def numbers(self, part: Part, count: int) -> list[int] | None:
        """The first numbers of the array that a pointer leads to, or None for a null pointer."""
        with suppress(NotKnown):
            if self.number(part) == 0:
                return None
        elements = self.array(part).elements
        return [self.number(one) for one in elements[:count]]

    def _tensor_size(self, part: Part, arguments: list[Part]) -> int:
        """What Microsoft's function DMLCalcBufferTensorSize returns: the smallest legal size."""
        kind, count = (self.number(one) for one in arguments[:2])
        sizes, strides = (self.numbers(one, count) for one in arguments[2:])
        names = [name for name, number in DATA_TYPES.items() if number == kind]
        with suppress(OnnxGatherError):
            return TensorDesc(
                "".join(names), sizes or (), strides
            ).default_total_tensor_size_in_bytes
        raise NotKnown(part, "a call")

    def _call(self, part: Part) -> int:
        function, arguments = part.at("function"), part.at("arguments").parts
        name, method = function.name, function.at("field").text
        if method == "size" and not arguments:
            return len(self.array(function.at("argument")).elements)
        if name in ("size", "_countof", "ARRAYSIZE") and len(arguments) == 1:
            return len(self.array(arguments[0]).elements)
        if len(arguments) == 1 and (name.endswith("_cast") or name in SIZES):
            (kind, *_) = template_arguments(function) or [function]
            return self._cast(part, kind, arguments[0])
        if name == "DMLCalcBufferTensorSize" and len(arguments) == 4:
            return self._tensor_size(part, arguments)
        raise NotKnown(part, "a call")

    _NUMBERS: ClassVar[dict[str, Callable[[Evaluation, Part], int]]] = {
        "true": lambda _, part: int(part.text == "true"),
        "number_literal": _literal,
        "identifier": _variable,
        "qualified_identifier": _variable,
        "binary_expression": _binary,
        "cast_expression": _typed,
        "compound_literal_expression": _typed,
        "initializer_list": _braces,
        "sizeof_expression": _sizeof,
        "subscript_expression": _element,
        "field_expression": _field,
        "call_expression": _call,
    }
    """What reads a number, by the type of its part as tree-sitter's grammar calls it."""
