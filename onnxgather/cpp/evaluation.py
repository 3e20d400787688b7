"""A file of C or C++, evaluated from its first line to its last as far as it has constants.

Functions are read as if each ran once, with parameters that are not known. What a condition, a loop
or a lambda assigns to is not known before or behind it. A function is taken to change the arrays
and buffers that it gets, and the fields that nothing else sets, but no numbers. So a value is what
every run of the program gives it, or it is `Unknown`, with the reason.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress

from onnxgather.cpp.reading import Reading
from onnxgather.cpp.structs import BUFFER, CONSTANTS, OPERATORS, SIZES, STRUCTS
from onnxgather.cpp.syntax import NAMES, Part, parse
from onnxgather.cpp.values import Braces, Kind, Object, Pointer, Unknown, Value, fits, target_of
from onnxgather.dxdispatch.document import quoted
from onnxgather.errors import OnnxGatherError

_OPERATIONS: dict[str, Callable[[int, int], int]] = (
    {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__}
    | {"%": int.__mod__, "<<": int.__lshift__, ">>": int.__rshift__, "&": int.__and__}
    | {"|": int.__or__, "^": int.__xor__, "<": int.__lt__, ">": int.__gt__, "<=": int.__le__}
    | {">=": int.__ge__, "==": int.__eq__, "!=": int.__ne__}
)

_ARRAYS = ("array", "vector", "initializer_list", "span")
_LENGTHS = ("size", "_countof", "ARRAYSIZE")
_ZEROS = ("memset", "ZeroMemory")
_NO_CONSTANT = "which is not a constant"
_NOT_CPP = "which is not C++"
_ONLY_PERHAPS = "which may run or not"
_MOST_ELEMENTS = 1000


class Evaluation:
    """The evaluation of one file.

    Args:
        content: The file.
    """

    def __init__(self, content: bytes) -> None:
        root = parse(content)
        self.found: list[Object] = []
        """The operators' structs, in the order of the file."""
        self.lost: list[Unknown] = []
        """What is not C++ and names such a struct."""
        self._scope: ChainMap[str, Value] = ChainMap()
        self._in_function = False
        self._changed = {name for name, _ in _assigned(root)}
        self.read(root)

    def read(self, part: Part) -> Value:
        """Evaluate a part by the method that has the name of its type."""
        return getattr(self, f"read_{part.type}", self._others)(part)

    def _others(self, part: Part) -> Value:
        for inner in part.parts:
            self.read(inner)
        return unknown(part)

    # --- Names -------------------------------------------------------------------------------

    @contextmanager
    def _scoped(self, name: str | None = None) -> Generator[None]:
        """A scope; where it has a name, its names are known outside behind that name."""
        self._scope = self._scope.new_child()
        yield
        inner, self._scope = self._scope.maps[0], self._scope.parents
        if name is not None:
            start = f"{name}::" if name else ""
            self._scope.update({start + key: value for key, value in inner.items()})

    def _block(self, part: Part) -> Value:
        with self._scoped():
            return self._others(part)

    def _named_block(self, part: Part) -> Value:
        with self._scoped(part.at("name").text):
            return self._others(part)

    read_compound_statement = read_template_declaration = _block
    read_namespace_definition = read_class_specifier = read_struct_specifier = _named_block

    def read_enum_specifier(self, part: Part) -> Value:
        """An enumeration's names, also known without its own name where it has no `class`."""
        last: Value = -1
        with self._scoped(part.at("name").text):
            for each in part.at("body").parts:
                given = each.at("value")
                last = last + 1 if isinstance(last, int) else last
                last = self._scope[each.at("name").text] = self.read(given) if given else last
            inner = self._scope.maps[0]
        if "class" not in part.words:
            self._scope.update(inner)
        return 0

    def read_identifier(self, part: Part) -> Value:
        """The value of a name, of this file or of DirectML.h."""
        name = part.text.replace(" ", "")
        known = self._scope.get(name, CONSTANTS.get(name.rpartition("::")[2]))
        return unknown(part, "which the file does not define") if known is None else known

    read_qualified_identifier = read_type_identifier = read_identifier

    def _spoil(self, names: Iterable[tuple[str, Part]], why: str) -> None:
        """Make unknown what these names hold, because of a part of the file."""
        for name, part in names:
            scope = next((one for one in self._scope.maps if name in one), dict[str, Value]())
            held = scope.get(name, 0)
            held = held.target if isinstance(held, Pointer) else held
            if isinstance(held, Object):
                held.spoil(unknown(part, why))
            elif scope:
                scope[name] = unknown(part, why)

    def _spoil_all(self, part: Part) -> None:
        self._spoil([(name, part) for name in part.identifiers()], _NOT_CPP)

    def read_parameter_declaration(self, part: Part) -> Value:
        """A parameter, of a function or of a template."""
        name = part.at("declarator").declared()
        self._scope[name.text] = unknown(name, "a parameter")
        return 0

    read_optional_parameter_declaration = read_parameter_declaration

    # --- What may run or not -----------------------------------------------------------------

    def _perhaps(self, part: Part) -> Value:
        """Code that runs once, more often, or never: what it assigns to is not known."""
        with self._scoped():
            assigned = _assigned(part)
            if part.type == "for_range_loop":
                self.read_parameter_declaration(part)
            for inner in part.parts:
                self._spoil(assigned, _ONLY_PERHAPS)
                self.read(inner)
            self._spoil(assigned, _ONLY_PERHAPS)
        return unknown(part)

    read_lambda_expression = read_if_statement = read_for_range_loop = _perhaps
    read_for_statement = read_while_statement = read_do_statement = _perhaps
    read_switch_statement = read_try_statement = _perhaps

    def read_function_definition(self, part: Part) -> Value:
        """A function, as if it ran once."""
        before, self._in_function = self._in_function, True
        value = self._perhaps(part)
        if part.has_error and part.at("type").name in OPERATORS:
            self.lost.append(unknown(part, _NOT_CPP))
        self._in_function = before
        return value

    def read_preproc_ifdef(self, part: Part) -> Value:
        """What `#ifndef` guards against being included twice, or may leave out."""
        first = part.parts[1:2]
        if first and first[0].type == "preproc_def" and first[0].name == part.name:
            return self._others(part)
        return self.read_preproc_if(part)

    def read_preproc_if(self, part: Part) -> Value:
        """Code that is compiled or not; names that it declares are known outside."""
        assigned, condition, other = _assigned(part), part.at("condition"), part.at("alternative")
        chosen = self.read(condition)
        assigned = [] if isinstance(chosen, int) else assigned
        self._spoil(assigned, "which an #if decides")
        for inner in part.parts:
            if chosen != 0 and inner not in (condition, other):
                self.read(inner)
        if chosen == 0 or not isinstance(chosen, int):
            self.read(other)
        self._spoil(assigned, "which an #if decides")
        return unknown(part, "which an #if decides")

    read_preproc_elif = read_preproc_if

    def read_preproc_def(self, part: Part) -> Value:
        """A macro without parameters, taken for the expression or the list that it stands for."""
        value = part.at("value")
        text = value.text.replace("\\", " ")  # the end of a line that goes on
        tree = parse(f"auto x = {text}\n;".encode(), part.line)
        held = unknown(value, "which is not an expression")
        if len(tree.parts) == 1 and not tree.has_error:
            held = self.read(tree.parts[0].at("declarator").at("value"))
        self._scope[part.name] = held
        return 0

    def read_ERROR(self, part: Part) -> Value:  # noqa: N802  tree-sitter's name
        """What the grammar does not know: all that it names is not known."""
        before, lost = len(self.found), unknown(part, _NOT_CPP)
        self._others(part)
        self._spoil_all(part)
        if len(self.found) == before and any(name in part.text for name in OPERATORS):
            self.lost.append(lost)
        return lost

    # --- Declarations ------------------------------------------------------------------------

    def read_declaration(self, part: Part) -> Value:
        """Variables, each with its initializer."""
        pairs: list[tuple[Part, Part]] = []
        for field, inner in part.fields():
            if field == "type" and inner.at("body"):
                self.read(inner)
            elif field == "declarator" and inner.type == "init_declarator":
                pairs.append((inner.at("declarator"), inner.at("value")))
            elif field == "declarator":
                pairs.append((inner, Part(None)))
            elif pairs and field in ("default_value", "value"):
                pairs[-1] = pairs[-1][0], inner
        for declarator, value in pairs:
            given, name = self.read(value) if value else None, declarator.declared()
            if not name:
                continue
            kind = self._kind(part, declarator)
            if kind.is_reference and not kind.is_const and not isinstance(given, Object):
                self._spoil(
                    [(one, part) for one in value.targets()], "which a reference may change"
                )
            self._declare(part, name, kind, given)
        if part.has_error:
            self._spoil_all(part)
        return 0

    read_field_declaration = read_declaration

    def _declare(self, part: Part, name: Part, kind: Kind, given: Value | None) -> None:
        text, made = name.text, self._construct(kind, given, part)
        if isinstance(made, Object):
            made.call(text)
        is_constant = kind.is_const or self._in_function or text not in self._changed
        if (
            isinstance(made, int)
            and not kind.is_const
            and (part.type == "field_declaration" or not is_constant)
        ):
            made = unknown(name, "a variable that may change")
        twice = text in self._scope.maps[0]  # in the branches of an #if
        self._scope[text] = made
        self._spoil([(text, name)] * twice, "which is declared twice")

    def read_alias_declaration(self, part: Part) -> Value:
        """Another name of a type."""
        name = part.at("name") or part.at("declarator")
        self._scope[f"type {name.text}"] = Unknown(part.at("type").name, 0, "")
        return 0

    read_type_definition = read_alias_declaration

    def _type(self, part: Part) -> str:
        """The name of a type or a function, behind other names of it."""
        alias = self._scope.get(f"type {part.name}")
        return alias.text if isinstance(alias, Unknown) else part.name

    def _kind(self, part: Part, declarator: Part) -> Kind:
        """The type of a declaration, or of a type in an expression."""
        written = part.at("type") or part
        name, arrays = self._type(written), list[Value | None]()
        if name in _ARRAYS:
            arguments = _template_arguments(written)
            name = self._type(arguments[0]) if arguments else "auto"
            arrays = [self.read(arguments[1]) if len(arguments) > 1 else None]
        decays = is_pointer = is_reference = False
        while declarator and declarator.type not in NAMES:
            if declarator.type.endswith("array_declarator"):
                size, decays = declarator.at("size"), True
                arrays.insert(0, self.read(size) if size else None)
            is_pointer |= declarator.type.endswith("pointer_declarator")
            is_reference |= declarator.type.endswith("reference_declarator")
            declarator = declarator.inner()
        is_const = any(one.text in ("const", "constexpr") for one in part.parts)
        return Kind(name, tuple(arrays), decays, is_pointer, is_reference, is_const)

    def _construct(self, kind: Kind, given: Value | None, part: Part) -> Value:
        """A value of a type, made of its initializer; None stands for no initializer."""
        if isinstance(given, Braces) and kind.name == "auto" and not kind.arrays:
            kind = kind._replace(arrays=(None,))
        if kind.is_reference and given is not None and not isinstance(given, Braces):
            return given
        if isinstance(given, Object) and (kind.name in ("auto", "") or kind.is_pointer):
            if given.kind.arrays and (given.kind.decays or kind.is_pointer):
                return given.address
            kind = given.kind._replace(is_const=kind.is_const)
        if not kind.arrays and (kind.name not in STRUCTS or kind.is_pointer):
            if isinstance(given, Braces):
                given = given.items[0][1] if given.items else 0
            if given is None:
                return unknown(part, "which has no initializer")
            return _checked(part, given, kind.name)
        if isinstance(given, Object):
            if given.kind.name != kind.name or bool(given.kind.arrays) != bool(kind.arrays):
                return unknown(part, f"which is not a {kind.name}")
            made = given.copy() if given.name else given
            made.kind = kind._replace(decays=given.kind.decays)
        else:
            made = Object(kind, part.line, 0)
            self._fill(made, given, part)
        if kind.name in OPERATORS and not kind.arrays and made not in self.found:
            self.found.append(made)
        return made

    def _fill(self, made: Object, given: Value | None, part: Part) -> None:
        """Give a new struct or array what its initializer says."""
        first, element = None, Kind("")
        items = given.items if isinstance(given, Braces) else []
        if made.kind.arrays:
            first, *rest = made.kind.arrays
            element = made.kind._replace(arrays=tuple(rest))
            is_nested = bool(rest) or element.name in STRUCTS
            if not is_nested and len(items) == 1 and isinstance(items[0][1], Braces):
                items = items[0][1].items  # the inner braces of a std::array
            if isinstance(given, int) and first is None:  # std::vector<UINT> sizes(4)
                first, given = given, Braces([])
            made.length = first if isinstance(first, int) else len(items)
        if given is None and not (made.kind.arrays and first is None):
            made.blank = unknown(part, "which has no initializer")
        for value in (given, first):
            if value is not None and not isinstance(value, Braces | int):
                found = value if isinstance(value, Unknown) else unknown(part)
                made.spoilt = made.spoilt or found
        position, keys, plain = 0, made.keys, unknown(part)
        for key, value in items:
            where = plain._replace(text=quoted(key)) if isinstance(key, str) else plain
            if key is not None:
                position = [*keys].index(key) if key in keys else -1
            found = keys[position] if 0 <= position < len(keys) else ""
            made.put(found, self._construct(element, value, part), where)
            position += 1
        if made.kind.arrays and element.name in STRUCTS and not element.is_pointer:
            for other in {*keys[:_MOST_ELEMENTS]} - made.members.keys():
                made.members[other] = self._construct(element, given and Braces([]), part)

    # --- Expressions -------------------------------------------------------------------------

    def read_number_literal(self, part: Part) -> Value:
        """An integer in any base, with quotes between its digits and letters behind it."""
        digits = part.text.replace("'", "").lower().rstrip("ulz")
        octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
        with suppress(ValueError):
            return _checked(part, int(digits, 8 if octal else 0))
        return unknown(part, "which is not an integer")

    def read_true(self, _: Part) -> Value:
        """The constant true."""
        return 1

    def read_null(self, _: Part) -> Value:
        """The constants false, nullptr and NULL."""
        return 0

    read_false = read_null

    def read_parenthesized_expression(self, part: Part) -> Value:
        """What stands in the parentheses."""
        return self.read(part.parts[0]) if len(part.parts) == 1 else self._others(part)

    read_expression_statement = read_parenthesized_expression

    def read_unary_expression(self, part: Part) -> Value:
        """A sign or a negation."""
        value = self.read(part.at("argument"))
        if not isinstance(value, int):
            return value if isinstance(value, Unknown) else unknown(part)
        known = {"-": -value, "+": value, "!": int(not value)}
        return known.get(part.at("operator").text, unknown(part))

    def read_binary_expression(self, part: Part) -> Value:
        """Two numbers, or a pointer and how far it is moved."""
        left, right = self.read(part.at("left")), self.read(part.at("right"))
        return _computed(part, part.at("operator").text, left, right)

    def read_conditional_expression(self, part: Part) -> Value:
        """One of two values, where the condition is known."""
        condition = self.read(part.at("condition"))
        if not isinstance(condition, int):
            names = [(name, part) for name in part.identifiers() if self._is_free(name)]
            self._spoil(names, "which may be changed by a pointer")
            return condition if isinstance(condition, Unknown) else unknown(part)
        return self.read(part.at("consequence" if condition else "alternative"))

    def _is_free(self, name: str) -> bool:
        """Whether a name holds a struct or an array that may change."""
        held = target_of(self._scope.get(name, 0))
        return held is not None and not held.kind.is_const

    def read_cast_expression(self, part: Part) -> Value:
        """A value as another type."""
        return _checked(part, self.read(part.at("value")), part.at("type").name)

    def read_initializer_list(self, part: Part) -> Value:
        """A list in braces."""
        items: list[tuple[str | int | None, Value]] = []
        for each in part.parts:
            if each.type != "initializer_pair":
                items.append((None, self.read(each)))
                continue
            (inner, *_) = each.at("designator").parts or [each]
            number = self.read(inner) if "subscript" in each.at("designator").type else None
            key = number if isinstance(number, int) else inner.text
            more = sum(field == "designator" for field, _ in each.fields()) > 1
            items.append((each.text if more else key, self.read(each.at("value"))))
        return Braces(items)

    def read_argument_list(self, part: Part) -> Value:
        """What stands in parentheses behind a variable: one value, or how often and which."""
        values = [self.read(each) for each in part.parts]
        if len(values) == 2 and isinstance(values[0], int) and values[0] <= _MOST_ELEMENTS:
            return Braces([(None, values[1])] * values[0])
        return values[0] if len(values) == 1 else unknown(part) if values else Braces([])

    read_subscript_argument_list = read_argument_list

    def read_compound_literal_expression(self, part: Part) -> Value:
        """A value of a type that stands in front of it."""
        kind = part.at("type")
        given = self.read(part.at("value"))
        return self._construct(self._kind(kind, kind.at("declarator")), given, part)

    def read_sizeof_expression(self, part: Part) -> Value:
        """The bytes of a type of numbers, of an array of numbers or of its elements."""
        of = part.at("type") or part.at("value")
        while of.type == "parenthesized_expression" and of.parts:
            of = of.parts[0]
        name, factor = of.name, 1
        found = self._scope.get((of.at("argument") or of).text)
        if isinstance(found, Object) and found.kind.decays and len(found.kind.arrays) == 1:
            name = found.kind.name
            factor = 1 if of.type == "subscript_expression" else found.length
        return SIZES[name] * factor if name in SIZES else unknown(part)

    def read_pointer_expression(self, part: Part) -> Value:
        """The address of an object, or what stands at one."""
        argument = part.at("argument")
        value = self.read(argument)
        if part.at("operator").text == "*":
            return target_of(value) or unknown(part)
        if isinstance(value, Object):
            return value.address
        if argument.type == "subscript_expression":
            return _computed(part, "+", *self._element(argument))
        self._spoil([(name, part) for name in argument.targets()], "whose address is taken")
        return unknown(part, "which is not the address of a struct or an array")

    def _element(self, part: Part) -> tuple[Value, Value]:
        """The array and the number of an element."""
        return self.read(part.at("argument")), self.read(part.at("indices"))

    def read_subscript_expression(self, part: Part) -> Value:
        """An element of an array."""
        found = _computed(part, "+", *self._element(part))
        if not isinstance(found, Pointer):
            return found if isinstance(found, Unknown) else unknown(part)
        array, index = found
        if index not in array.keys:
            return unknown(part, "which the array does not have")
        return array.get(index)

    def read_field_expression(self, part: Part) -> Value:
        """A field of a struct, by a dot or an arrow."""
        value, field = self.read(part.at("argument")), part.at("field").text
        found = target_of(value)
        if found is None or field not in found.keys:
            return value if isinstance(value, Unknown) else unknown(part, "a field")
        return found.get(field)

    def read_call_expression(self, part: Part) -> Value:
        """A cast, a length, an address, or a call whose result is not known."""
        function, arguments = part.at("function"), part.at("arguments")
        name, values = self._type(function), [self.read(each) for each in arguments.parts]
        if method := function.at("field").text:
            name, values = method, [self.read(function.at("argument")), *values]
        if name in _ARRAYS or (name in STRUCTS and not values):
            given = self.read(arguments)
            return self._construct(self._kind(function, Part(None)), given, part)
        first = values[0] if values else 0
        held = target_of(first)
        if name.endswith("_cast") or (name in SIZES and len(values) == 1):
            (kind, *_) = _template_arguments(function) or [function]
            return _checked(part, first, kind.name)
        if held and name in _LENGTHS and held.kind.arrays:
            return held.spoilt or held.length
        if held and name == "data":
            return held.address
        if held and name in ("push_back", "emplace_back") and len(values) == 2:
            held.length += 1
            held.put(held.length - 1, values[1], unknown(part))
        elif held and name in _ZEROS and (name != "memset" or values[1:2] == [0]):
            held.members, held.blank = {}, 0
        elif name == "DMLCalcBufferTensorSize" and len(values) == 4:
            return _tensor_size(part, values)
        else:
            for held in map(target_of, values):
                if held and not held.kind.is_const:
                    held.give_away(unknown(part, "a call that may change it"))
        return first if isinstance(first, Unknown) and method else unknown(part, "a call")

    # --- Assignments -------------------------------------------------------------------------

    def read_assignment_expression(self, part: Part) -> Value:
        """A value that a variable, a field or an element gets."""
        left, value = part.at("left"), self.read(part.at("right"))
        if sign := part.at("operator").text.removesuffix("="):
            value = _computed(part, sign, self.read(left), value)
        return self._assign(part, left, value)

    def read_update_expression(self, part: Part) -> Value:
        """A variable that is counted up or down."""
        left = part.at("argument")
        sign = part.at("operator").text[:1]
        return self._assign(part, left, _computed(part, sign, self.read(left), 1))

    def _assign(self, part: Part, left: Part, value: Value) -> Value:
        where, current, scope = unknown(part), self.read(left), self._scope.maps[0]
        if isinstance(current, Object):
            made = self._construct(current.kind._replace(is_reference=False), value, part)
            if isinstance(made, Object) and not part.has_error:
                if made in self.found and not made.name:
                    self.found.remove(made)
                current.length, current.blank = made.length, made.blank
                current.spoilt = current.spoilt or made.spoilt
                for key in {*current.members, *made.members}:
                    current.put(key, made.get(key), where)
                return current
        elif left.type in ("field_expression", "subscript_expression"):
            held, key = self.read(left.at("argument")), left.at("field").text
            held, index = target_of(held), key or self.read(left.at("indices"))
            if held and isinstance(index, int | str) and not part.has_error:
                held.put(index, self._construct(Kind(""), value, part), where)
                return value
        elif left.type == "identifier" and not part.has_error:
            scope = next((one for one in self._scope.maps if left.text in one), scope)
            scope[left.text] = value
            return value
        self._spoil([(name, part) for name in left.targets()], "which is not followed")
        return value


def unknown(part: Part, why: str = _NO_CONSTANT) -> Unknown:
    """The value of a part that is not known, and why."""
    return Unknown(quoted(part.text), part.line, why)


def _checked(part: Part, value: Value, name: str = "") -> Value:
    """A value, if it is no number or if a type of numbers holds it."""
    if isinstance(value, int) and name == "bool":
        return int(value != 0)
    fitting = not isinstance(value, int) or fits(value, name)
    return value if fitting else unknown(part, f"which {name or '64 bits'} cannot hold")


def _computed(part: Part, sign: str, left: Value, right: Value) -> Value:
    for value in (left, right):
        if isinstance(value, Unknown):
            return value
    left = left.address if isinstance(left, Object) and left.kind.arrays else left
    if isinstance(left, Pointer) and isinstance(right, int) and sign == "+":
        return Pointer(left.target, left.offset + right)
    if not (isinstance(left, int) and isinstance(right, int)) or sign not in _OPERATIONS:
        return unknown(part)
    if (sign in ("/", "%") and not right) or (sign in ("<<", ">>") and right > 63):
        return unknown(part)
    if min(left, right) < 0 and sign not in "+-*":  # as types decide what it is
        return unknown(part)
    value = int(_OPERATIONS[sign](left, right))
    is_wide = max(left, right) >> 32 or any(
        word in part.text for word in ("64", "size", "ll", "LL")
    )
    return _checked(part, value, "" if is_wide else "UINT")


def _tensor_size(part: Part, values: list[Value]) -> Value:
    """What Microsoft's function DMLCalcBufferTensorSize returns: the smallest legal size."""
    made = Object(Kind(BUFFER), part.line, 0)
    for key, value in zip(("DataType", "DimensionCount", "Sizes", "Strides"), values, strict=True):
        made.put(key, value.address if isinstance(value, Object) else value, unknown(part))
    with suppress(OnnxGatherError):
        return Reading("").buffer(made, "").default_total_tensor_size_in_bytes
    return next((value for value in values if isinstance(value, Unknown)), unknown(part, "a call"))


def _template_arguments(part: Part) -> list[Part]:
    """What stands in the angle brackets of a template."""
    while part.type == "qualified_identifier":
        part = part.at("name")
    return part.at("arguments").parts if part.type.startswith("template_") else []


def _assigned(part: Part) -> list[tuple[str, Part]]:
    """The variables that code may assign to, each with the part that does."""
    found: list[tuple[str, Part]] = []
    for one in part.below():
        target, function = Part(None), one.at("function")
        if one.type in ("assignment_expression", "update_expression"):
            target = one.at("left") or one.at("argument")
        elif function.at("field").text not in ("", "size", "data"):
            target = function.at("argument")
        elif function.text in _ZEROS:
            target = one.at("arguments")
        elif one.type == "for_range_loop" and one.at("declarator").type != "identifier":
            target = one.at("right")
        elif one.type == "preproc_def":
            target = one.at("name")
        found += [(name, one) for name in target.targets()]
    return found
