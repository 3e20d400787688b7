"""A file of C or C++, evaluated from its first line to its last as far as it has constants.

Functions are read as if each ran once, with parameters that are not known. What a condition, a loop
or a lambda assigns to is not known before or behind it. So nothing here guesses: a value is what
every run of the program gives it, or it is `Unknown`, with the reason.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager

from tree_sitter import Language, Node, Parser
from tree_sitter_cpp import language

from onnxgather.cpp.structs import CONSTANTS, OPERATORS, SIZES, STRUCTS
from onnxgather.cpp.values import Braces, Kind, Object, Pointer, Unknown, Value, fits, target_of
from onnxgather.datatypes import DATA_TYPES
from onnxgather.dxdispatch.document import quoted
from onnxgather.errors import DescriptorError
from onnxgather.tensors import TensorDesc

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&&": lambda a, b: int(bool(a and b)),
    "||": lambda a, b: int(bool(a or b)),
}

_ARRAYS = ("array", "vector", "initializer_list", "span", "basic_string_view")
_LENGTHS = ("size", "ssize", "_countof", "ARRAYSIZE")
_SAME = ("data", "move", "as_const", "addressof")
_ZEROS = ("memset", "ZeroMemory", "SecureZeroMemory")

_NAMES = ("identifier", "field_identifier", "type_identifier", "qualified_identifier")
_RUN_LATER = "which may run or not"


class Evaluation:
    """The evaluation of one file.

    Args:
        content: The file.
    """

    def __init__(self, content: bytes) -> None:
        self._parser = Parser(Language(language()))
        self._first_line = 1
        self._scope: ChainMap[str, Value] = ChainMap()
        self.found: list[Object] = []
        """The operators' structs, in the order of the file."""
        self.lost: list[Unknown] = []
        """What is not C++ and names such a struct."""
        self.root = self._parser.parse(content).root_node
        self._in_function = False
        self._changed = {name for name, _ in _assigned(self.root)}
        self.read(self.root)

    # --- Any node ----------------------------------------------------------------------------

    def read(self, node: Node | None) -> Value:
        """Evaluate a node by the method that has the name of its type."""
        if node is None:
            return Unknown("nothing", self._first_line, "which is not C++")
        return getattr(self, f"read_{node.type}", self._others)(node)

    def _others(self, node: Node) -> Value:
        for child in node.named_children:
            self.read(child)
        return self.unknown(node, "which is not a constant")

    def _at(self, node: Node, field: str) -> Value:
        return self.read(node.child_by_field_name(field))

    def unknown(self, node: Node, why: str) -> Unknown:
        """The value of a node that is not known, and why."""
        return Unknown(
            quoted(" ".join(_text(node).split())), self._first_line + node.start_point.row, why
        )

    # --- Names -------------------------------------------------------------------------------

    @contextmanager
    def _scoped(self, name: str | None = None) -> Generator[None]:
        """A scope; where it is a named one, its names are known outside behind that name."""
        self._scope = self._scope.new_child()
        yield
        inner, self._scope = self._scope.maps[0], self._scope.parents
        if name is not None:
            start = f"{name}::" if name else ""
            self._scope.update({start + key: value for key, value in inner.items()})

    def _block(self, node: Node) -> Value:
        with self._scoped():
            return self._others(node)

    read_compound_statement = read_template_declaration = _block

    def _named_block(self, node: Node) -> Value:
        name = node.child_by_field_name("name")
        with self._scoped("" if name is None else _text(name)):
            return self._others(node)

    read_namespace_definition = _named_block
    read_class_specifier = read_struct_specifier = read_union_specifier = _named_block

    def read_enum_specifier(self, node: Node) -> Value:
        """An enumeration's names, also known without its own name where it has no `class`."""
        value, body, names = -1, node.child_by_field_name("body"), dict[str, Value]()
        own = node.child_by_field_name("name")
        with self._scoped(None if own is None else _text(own)):
            for each in body.named_children if body else ():
                if name := each.child_by_field_name("name"):
                    given = each.child_by_field_name("value")
                    found = self.read(given) if given else self._checked(each, value + 1)
                    names[_text(name)] = self._scope[_text(name)] = found
                    value = found if isinstance(found, int) else 2**64
        if not any(child.type in ("class", "struct") for child in node.children):
            self._scope.update(names)
        return 0

    def read_identifier(self, node: Node) -> Value:
        """The value of a name, of this file or of DirectML.h."""
        name = "".join(_text(node).split())
        if name in self._scope:
            return self._scope[name]
        known = CONSTANTS.get(name.rpartition("::")[2])
        return self.unknown(node, "which the file does not define") if known is None else known

    read_qualified_identifier = read_type_identifier = read_identifier

    def _spoil(self, names: Iterable[tuple[str, Node]], why: str) -> None:
        """Make what these names hold unknown."""
        for name, node in names:
            scope = next((one for one in self._scope.maps if name in one), dict[str, Value](x=0))
            held, unknown = scope.get(name), self.unknown(node, why)
            held = held.target if isinstance(held, Pointer) else held
            if isinstance(held, Object):
                held.spoilt = held.spoilt or unknown
            else:
                scope[name] = unknown

    def read_parameter_declaration(self, node: Node) -> Value:
        """A parameter, of a function or of a template."""
        declarator = node.child_by_field_name("declarator")
        if declarator is not None and (name := _declared(declarator)):
            self._scope[_text(name)] = self.unknown(name, "a parameter")
        return 0

    read_optional_parameter_declaration = read_parameter_declaration

    # --- What may run or not -----------------------------------------------------------------

    def _perhaps(self, node: Node) -> Value:
        """Code that runs once, more often, or never: what it assigns to is not known."""
        with self._scoped():
            assigned = _assigned(node)
            for child in node.named_children:
                self._spoil(assigned, _RUN_LATER)
                self.read(child)
            self._spoil(assigned, _RUN_LATER)
        return self.unknown(node, "which is not a constant")

    def read_function_definition(self, node: Node) -> Value:
        """A function, as if it ran once."""
        before, self._in_function = self._in_function, True
        value = self._perhaps(node)
        kind = node.child_by_field_name("type")
        if node.has_error and kind is not None and _type_name(kind) in OPERATORS:
            self.lost.append(self.unknown(node, "which is not C++"))
        self._in_function = before
        return value

    read_lambda_expression = read_if_statement = _perhaps
    read_for_statement = read_while_statement = read_do_statement = _perhaps
    read_switch_statement = read_try_statement = _perhaps

    def read_for_range_loop(self, node: Node) -> Value:
        """A loop over elements: its variable is not known."""
        with self._scoped():
            self.read_parameter_declaration(node)
            return self._perhaps(node)

    def read_preproc_ifdef(self, node: Node) -> Value:
        """What `#ifndef` guards against being included twice, or may leave out."""
        name, body = node.child_by_field_name("name"), node.named_children[1:]
        defined = body[0].child_by_field_name("name") if body else None
        if name and defined and body[0].type == "preproc_def" and _text(defined) == _text(name):
            return self._others(node)
        return self.read_preproc_if(node)

    def read_preproc_if(self, node: Node) -> Value:
        """Code that is compiled or not; names that it declares are known outside."""
        self._spoil(_assigned(node), "which an #if decides")
        condition = node.child_by_field_name("condition")
        alternative = node.child_by_field_name("alternative")
        chosen = None if condition is None else self.read(condition)
        for child in node.named_children:
            if child not in (condition, alternative) and chosen != 0:
                self.read(child)
        if alternative is not None and (chosen == 0 or not isinstance(chosen, int)):
            self.read(alternative)
        self._spoil(_assigned(node), "which an #if decides")
        return self.unknown(node, "which an #if decides")

    read_preproc_elif = read_preproc_if

    def read_preproc_def(self, node: Node) -> Value:
        """A macro without parameters, taken for the expression or the list that it stands for."""
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None and value is not None and value.text is not None:
            line, self._first_line = self._first_line, self._first_line + node.start_point.row
            tree = self._parser.parse(b"auto x = " + value.text + b"\n;")
            (declaration, *more) = tree.root_node.children or [tree.root_node]
            declarator = declaration.child_by_field_name("declarator")
            held = self.unknown(value, "which is not an expression")
            if declarator and not (more or tree.root_node.has_error):
                held = self._at(declarator, "value")
            self._scope[_text(name)], self._first_line = held, line
        return 0

    def read_ERROR(self, node: Node) -> Value:  # noqa: N802  tree-sitter's name
        """What the grammar does not know: all that it names is not known."""
        before, unknown = len(self.found), self.unknown(node, "which is not C++")
        self._others(node)
        self._spoil(_identifiers(node), "which stands in what is not C++")
        if len(self.found) == before and any(name in _text(node) for name in OPERATORS):
            self.lost.append(unknown)
        return unknown

    # --- Declarations ------------------------------------------------------------------------

    def read_declaration(self, node: Node) -> Value:
        """Variables, each with its initializer."""
        if (kind := node.child_by_field_name("type")) and kind.child_by_field_name("body"):
            self.read(kind)
        pairs: list[tuple[Node, Node | None]] = []
        for number, child in enumerate(node.children):
            match node.field_name_for_child(number):
                case "declarator":
                    pairs.append((child, None))
                case "default_value" | "value" if pairs:
                    pairs[-1] = pairs[-1][0], child
                case _:
                    pass
        for declarator, value in pairs:
            if declarator.type == "init_declarator":
                value = declarator.child_by_field_name("value")
                declarator = declarator.child_by_field_name("declarator")
            name = declarator and _declared(declarator)
            if declarator is None or name is None:
                self.read(value)
                continue
            given = None if value is None else self.read(value)
            kind, text = self._kind(node, declarator), _text(name)
            made = self._construct(kind, given, node)
            _name(made, text)
            is_free = not (self._in_function or kind.is_const) and isinstance(made, int)
            if is_free and (text in self._changed or node.type == "field_declaration"):
                made = self.unknown(name, "a variable that may change")
            twice = text in self._scope.maps[0]
            self._scope[text] = made
            if twice:  # in the branches of an #if
                self._spoil([(text, name)], "which is declared twice")
        if node.has_error:
            self._spoil(_identifiers(node), "which stands in what is not C++")
        return 0

    read_field_declaration = read_declaration

    def read_alias_declaration(self, node: Node) -> Value:
        """Another name of a type."""
        name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
        kind = node.child_by_field_name("type")
        if name is not None and kind is not None:
            inner = kind.child_by_field_name("type") or kind
            self._scope[f"type {_text(name)}"] = Unknown(_type_name(inner), 0, "")
        return 0

    read_type_definition = read_alias_declaration

    def _kind(self, node: Node, declarator: Node | None) -> Kind:
        """The type of a declaration, or of a type in an expression."""
        written = node.child_by_field_name("type") or node
        template = written.child_by_field_name("name") if "::" in _text(written) else written
        name, arrays = _type_name(written), list[int | Unknown | None]()
        decays = is_pointer = is_reference = False
        if name in _ARRAYS:
            given = template and template.child_by_field_name("arguments")
            arguments = given.named_children if given else []
            name = _type_name(arguments[0]) if arguments else ""
            arrays = [self._length(arguments[1]) if len(arguments) > 1 else None]
        name = self._unaliased(name)
        while declarator is not None and declarator.type not in _NAMES:
            if declarator.type.endswith("array_declarator"):
                size = declarator.child_by_field_name("size")
                arrays.insert(0, None if size is None else self._length(size))
                decays = True
            is_pointer |= declarator.type.endswith("pointer_declarator")
            is_reference |= declarator.type.endswith("reference_declarator")
            declarator = _inner(declarator)
        words = {_text(child) for child in node.children if child.type == "type_qualifier"}
        is_const = bool(words & {"const", "constexpr"})
        return Kind(name, tuple(arrays), decays, is_pointer, is_reference, is_const)

    def _unaliased(self, name: str) -> str:
        alias = self._scope.get(f"type {name}")
        return alias.text if isinstance(alias, Unknown) else name

    def _length(self, node: Node) -> int | Unknown:
        value = self.read(node)
        known = isinstance(value, int | Unknown)
        return value if known else self.unknown(node, "which is not a number")

    def _construct(self, kind: Kind, given: Value | None, node: Node) -> Value:
        """A value of a type, made of its initializer; None stands for no initializer."""
        if kind.is_reference and given is not None and not isinstance(given, Braces):
            return given
        if isinstance(given, Braces) and kind.name == "auto":
            kind = kind._replace(arrays=(None,))
        if isinstance(given, Object) and (kind.name in ("auto", "") or kind.is_pointer):
            is_array = bool(given.kind.arrays)
            if is_array and (given.kind.decays or kind.is_pointer):
                return given.address
            kind = given.kind
        is_struct = bool(kind.arrays) or (kind.name in STRUCTS and not kind.is_pointer)
        if not is_struct:
            if isinstance(given, Braces):
                given = given.items[0][1] if given.items else 0
            if isinstance(given, int):
                return self._checked(node, given, kind.name)
            return self.unknown(node, "which has no initializer") if given is None else given
        if isinstance(given, Object):
            if given.kind.name != kind.name or bool(given.kind.arrays) != bool(kind.arrays):
                return self.unknown(node, f"which is not a {kind.name}")
            made = given.copy() if given.name else given
            made.kind = kind._replace(decays=given.kind.decays)
        else:
            made = Object(kind, self._first_line + node.start_point.row, 0)
            self._fill(made, given, node)
        if kind.name in OPERATORS and not kind.arrays and made not in self.found:
            self.found.append(made)
        return made

    def _fill(self, made: Object, given: Value | None, node: Node) -> None:
        """Give a new struct or array what its initializer says."""
        first, *rest = made.kind.arrays or (None,)
        element = made.kind._replace(arrays=tuple(rest)) if made.kind.arrays else None
        if given is None and not (element and first is None):
            made.blank = self.unknown(node, "which has no initializer")
        elif isinstance(given, int) and element and first is None:  # std::vector<UINT> sizes(4)
            first = given
        elif given is not None and not isinstance(given, Braces):
            made.spoilt = given if isinstance(given, Unknown) else None
            made.spoilt = made.spoilt or self.unknown(node, "which is not a list in braces")
        items = given.items if isinstance(given, Braces) else []
        is_plain = element and not rest and element.name not in STRUCTS
        if is_plain and len(items) == 1 and isinstance(items[0][1], Braces):
            items = items[0][1].items  # the inner braces of a std::array
        if isinstance(first, Unknown):
            made.spoilt = made.spoilt or first
        position = 0
        made.length = first if isinstance(first, int) else len(items)
        plain = self.unknown(node, "")
        for key, value in items:
            where = plain._replace(text=quoted(key)) if isinstance(key, str) else plain
            keys = made.keys
            if key is not None:
                position = [*keys].index(key) if key in keys else -1
            found = keys[position] if 0 <= position < len(keys) else ""
            made.put(found, self._construct(element or Kind(""), value, node), where)
            position += 1
        if element and made.kind.name in STRUCTS and not made.kind.is_pointer:
            for rest_of in set(range(min(made.length, 1000))) - made.members.keys():
                blank = None if given is None else Braces([])
                made.members[rest_of] = self._construct(element, blank, node)

    # --- Expressions -------------------------------------------------------------------------

    def _checked(self, node: Node, value: int, name: str = "") -> int | Unknown:
        fitting = fits(value, name)
        return value if fitting else self.unknown(node, f"which {name or '64 bits'} cannot hold")

    def read_number_literal(self, node: Node) -> Value:
        """An integer in any base, with quotes between its digits and letters behind it."""
        digits = _text(node).replace("'", "").lower()
        digits = digits.rstrip("ulz")
        octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
        try:
            return self._checked(node, int(digits, 8 if octal else 0))
        except ValueError:
            return self.unknown(node, "which is not an integer")

    def read_true(self, _: Node) -> Value:
        """The constant true."""
        return 1

    def read_false(self, _: Node) -> Value:
        """The constants false, nullptr and NULL."""
        return 0

    read_null = read_comment = read_false

    def read_parenthesized_expression(self, node: Node) -> Value:
        """What stands in the parentheses."""
        inner = [child for child in node.named_children if child.type != "comment"]
        return self.read(inner[0]) if len(inner) == 1 else self._others(node)

    read_condition_clause = read_expression_statement = read_parenthesized_expression

    def read_unary_expression(self, node: Node) -> Value:
        """A sign, a complement or a negation."""
        value, sign = self._at(node, "argument"), _operator(node)
        if not isinstance(value, int):
            return value if isinstance(value, Unknown) else self._others(node)
        results = {"-": -value, "+": value, "!": int(not value)}
        return results.get(sign, self.unknown(node, "which is not a constant"))

    def read_binary_expression(self, node: Node) -> Value:
        """Two numbers, or a pointer and how far it is moved."""
        left, right = self._at(node, "left"), self._at(node, "right")
        return self._computed(node, _operator(node), left, right)

    def _computed(self, node: Node, sign: str, left: Value, right: Value) -> Value:
        for value in (left, right):
            if isinstance(value, Unknown):
                return value
        if isinstance(left, Object) and left.kind.arrays:
            left = left.address
        if isinstance(left, Pointer) and isinstance(right, int) and sign == "+":
            return Pointer(left.target, left.offset + right)
        unknown = self.unknown(node, "which is not a constant")
        if not (isinstance(left, int) and isinstance(right, int)) or sign not in _OPERATIONS:
            return unknown
        if (sign in ("/", "%") and (left < 0 or right <= 0)) or (
            sign in ("<<", ">>") and not 0 <= right < 64
        ):
            return unknown
        return self._checked(node, int(_OPERATIONS[sign](left, right)))

    def read_conditional_expression(self, node: Node) -> Value:
        """One of two values, where the condition is known."""
        condition = self._at(node, "condition")
        if not isinstance(condition, int):
            return condition if isinstance(condition, Unknown) else self._others(node)
        return self._at(node, "consequence" if condition else "alternative")

    def read_cast_expression(self, node: Node) -> Value:
        """A value as another type."""
        return self._cast(node, node.child_by_field_name("type"), self._at(node, "value"))

    def _cast(self, node: Node, kind: Node | None, value: Value) -> Value:
        if kind is None or not isinstance(value, int):
            return value
        return self._checked(node, value, _type_name(kind))

    def read_initializer_list(self, node: Node) -> Value:
        """A list in braces."""
        items: list[tuple[str | int | None, Value]] = []
        for child in node.named_children:
            key, value = None, child
            if child.type == "initializer_pair":
                designators = child.children_by_field_name("designator")
                value = child.child_by_field_name("value")
                designated = designators[0].named_children if len(designators) == 1 else []
                key = "no constant"
                if designated and designated[0].type == "field_identifier":
                    key = _text(designated[0])
                elif designated and isinstance(number := self.read(designated[0]), int):
                    key = number
            if child.type != "comment":
                items.append((key, self.read(value)))
        return Braces(items)

    def read_argument_list(self, node: Node) -> Value:
        """What stands in parentheses behind a variable: one value, or how often and which."""
        values = self._arguments(node)
        if len(values) == 2 and isinstance(values[0], int) and values[0] <= 1000:
            return Braces([(None, values[1])] * values[0])
        return values[0] if len(values) == 1 else self.unknown(node, "which is not a constant")

    def _arguments(self, node: Node | None) -> list[Value]:
        children = node.named_children if node else []
        return [self.read(child) for child in children if child.type != "comment"]

    def read_compound_literal_expression(self, node: Node) -> Value:
        """A value of a type that stands in front of it."""
        kind = node.child_by_field_name("type") or node
        full = self._kind(kind, kind.child_by_field_name("declarator"))
        return self._construct(full, self._at(node, "value"), node)

    def read_new_expression(self, node: Node) -> Value:
        """A pointer to a new value."""
        arguments = node.child_by_field_name("arguments")
        given = Braces([]) if arguments is None else self.read(arguments)
        made = self._construct(self._kind(node, None), given, node)
        return made.address if isinstance(made, Object) else made

    def read_sizeof_expression(self, node: Node) -> Value:
        """The bytes of a number or of an array of numbers."""
        kind, value = node.child_by_field_name("type"), node.child_by_field_name("value")
        while value is not None and value.type == "parenthesized_expression":
            value = value.named_children[0] if value.named_children else None
        factor = 1
        name = "" if (kind or value) is None else _type_name(kind or value or node)
        if value is not None:
            is_element = value.type == "subscript_expression"
            of = value.child_by_field_name("argument") if is_element else value
            found = self._scope.get(_text(of or value))
            if isinstance(found, Object) and found.kind.decays and len(found.kind.arrays) == 1:
                name, factor = found.kind.name, 1 if is_element else found.length
        size = SIZES.get(name)
        return self.unknown(node, "which is not a constant") if size is None else size * factor

    def read_pointer_expression(self, node: Node) -> Value:
        """The address of an object, or what stands at one."""
        argument = node.child_by_field_name("argument")
        value = self.read(argument)
        if _operator(node) == "*":
            return target_of(value) or self.unknown(node, "which is not a constant")
        if isinstance(value, Object):
            return value.address
        if argument is not None and argument.type == "subscript_expression":
            array, index = target_of(self._at(argument, "argument")), self._index(argument)
            if array is not None and isinstance(index, int):
                return Pointer(array.address.target, index)
        if argument is not None and not isinstance(value, Pointer):
            self._spoil(_targets(argument), "whose address is taken")
        return self.unknown(node, "which is not the address of a struct or an array")

    def _index(self, node: Node) -> Value:
        indices = self._arguments(node.child_by_field_name("indices"))
        return indices[0] if len(indices) == 1 else self.unknown(node, "which is not a constant")

    def read_subscript_expression(self, node: Node) -> Value:
        """An element of an array."""
        value, index = self._at(node, "argument"), self._index(node)
        array, start = target_of(value), 0
        if isinstance(value, Pointer):
            array, start = value.target, value.offset
        if array is None or not isinstance(index, int):
            found = next((one for one in (index, value) if isinstance(one, Unknown)), None)
            return found or self.unknown(node, "which is not a constant")
        if not array.kind.arrays or start + index not in array.keys:
            return self.unknown(node, "which the array does not have")
        return array.get(start + index)

    def read_field_expression(self, node: Node) -> Value:
        """A field of a struct, by a dot or an arrow."""
        value, name = self._at(node, "argument"), node.child_by_field_name("field")
        found = target_of(value)
        if found is None or name is None or found.kind.arrays:
            return value if isinstance(value, Unknown) else self.unknown(node, "a field")
        return found.get(_text(name))

    def read_call_expression(self, node: Node) -> Value:
        """A cast, a length, an address, or a call whose result is not known."""
        function = node.child_by_field_name("function")
        values = self._arguments(node.child_by_field_name("arguments"))
        name, template = "" if function is None else self._unaliased(_type_name(function)), None
        if function is not None and function.type == "field_expression":
            return self._method(node, function, values)
        if function is not None and "<" in _text(function):
            inner = function
            while inner.type == "qualified_identifier" and (
                found := inner.child_by_field_name("name")
            ):
                inner = found
            arguments = inner.child_by_field_name("arguments")
            template = arguments.named_children[0] if arguments else None
        if function is not None and (name in _ARRAYS or (name in STRUCTS and not values)):
            given = self._at(node, "arguments") if values else Braces([])
            return self._construct(self._kind(function, None), given, node)
        if len(values) == 1:
            held = target_of(values[0])
            if name.endswith("_cast") or (name in SIZES and function is not None):
                return self._cast(node, template or function, values[0])
            if name in _LENGTHS and held is not None and held.kind.arrays:
                return held.spoilt or held.length
            if name in _SAME and held is not None:
                return held.address if name in ("data", "addressof") else held
        is_zero = name != "memset" or values[1:2] == [0]
        if name in _ZEROS and is_zero and values and (held := target_of(values[0])):
            held.members.clear()
            held.blank = 0
            return 0
        if name == "DMLCalcBufferTensorSize" and len(values) == 4:
            return self._tensor_size(node, values)
        for value in values:  # a function may fill what it gets the address of
            held = target_of(value)
            if held is not None and not held.kind.is_const and not isinstance(held.blank, Unknown):
                held.blank = self.unknown(node, "a call that may fill it")
        self.read(function)
        return self.unknown(node, "a call")

    def _method(self, node: Node, function: Node, values: list[Value]) -> Value:
        field, value = function.child_by_field_name("field"), self._at(function, "argument")
        held, name = target_of(value), "" if field is None else _text(field)
        if held is not None and held.kind.arrays:
            if name == "size":
                return held.spoilt or held.length
            if name == "data":
                return held.address
            if name in ("push_back", "emplace_back") and len(values) == 1:
                held.length += 1
                held.put(held.length - 1, values[0], self.unknown(node, ""))
                return 0
        return value if isinstance(value, Unknown) else self.unknown(node, "a call")

    def _tensor_size(self, node: Node, values: list[Value]) -> Value:
        """What Microsoft's function of that name returns: the smallest legal size."""
        data_type, dimensions, *pointers = values
        names = {number: name for name, number in DATA_TYPES.items()}
        try:
            sizes, strides = (numbers_at(pointer, dimensions) for pointer in pointers)
            name = names.get(data_type, "") if isinstance(data_type, int) else ""
            tensor = TensorDesc(name, sizes or (), strides)
        except (DescriptorError, LookupError):
            known = (value for value in values if isinstance(value, Unknown))
            return next(known, self.unknown(node, "a call"))
        return tensor.default_total_tensor_size_in_bytes

    # --- Assignments -------------------------------------------------------------------------

    def read_assignment_expression(self, node: Node) -> Value:
        """A value that a variable, a field or an element gets."""
        left, value = node.child_by_field_name("left"), self._at(node, "right")
        sign = _operator(node).removesuffix("=")
        if sign:
            value = self._computed(node, sign, self.read(left), value)
        return self._assign(node, left, value)

    def read_update_expression(self, node: Node) -> Value:
        """A variable that is counted up or down."""
        argument = node.child_by_field_name("argument")
        value = self._computed(node, _operator(node)[:1], self.read(argument), 1)
        return self._assign(node, argument, value)

    def _assign(self, node: Node, left: Node | None, value: Value) -> Value:
        where = self.unknown(node, "")
        while left is not None and left.type == "parenthesized_expression":
            left = left.named_children[0] if left.named_children else None
        if left is None:
            return where
        if node.has_error:
            self._spoil(_identifiers(node), "which stands in what is not C++")
            return value
        current = self.read(left)
        if isinstance(current, Object) and not current.kind.is_pointer:
            made = self._construct(current.kind, value, node)
            if isinstance(made, Object) and made is not current:
                if made in self.found and not made.name:
                    self.found.remove(made)
                current.length = made.length
                current.blank, current.spoilt = made.blank, current.spoilt or made.spoilt
                for key in {*current.members, *made.members}:
                    current.put(key, made.get(key), where)
                return current
        elif left.type in ("field_expression", "subscript_expression"):
            held, field = target_of(self._at(left, "argument")), left.child_by_field_name("field")
            key = self._index(left) if field is None else _text(field)
            if held is not None and isinstance(key, int | str):
                if isinstance(value, Object) and value.kind.decays:
                    value = value.address
                held.put(key, value, where)
                return value
        if left.type == "identifier" and not isinstance(current, Object):
            scope = next((one for one in self._scope.maps if _text(left) in one), None)
            if scope is not None:
                scope[_text(left)] = value
            return value
        self._spoil(_targets(left), "which is assigned to in a way that is not followed")
        return value


def numbers_at(pointer: Value, dimensions: Value) -> list[int] | None:
    """The numbers that a pointer leads to; None for a null pointer.

    Raises:
        LookupError: One is not known.
    """
    if pointer == 0:
        return None
    pointer = pointer.address if isinstance(pointer, Object) else pointer
    if not isinstance(pointer, Pointer) or not isinstance(dimensions, int):
        raise LookupError
    target, start = pointer
    found = [target.get(start + k) for k in range(min(dimensions, target.length - start))]
    numbers = [value for value in found if isinstance(value, int)]
    if len(numbers) != dimensions:
        raise LookupError
    return numbers


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _operator(node: Node) -> str:
    found = node.child_by_field_name("operator")
    return "" if found is None else _text(found)


def _type_name(node: Node) -> str:
    """The last part of the name of a type or a function, without its template's arguments."""
    inner = node.child_by_field_name("name") or node.child_by_field_name("type")
    return _type_name(inner) if inner is not None else " ".join(_text(node).split())


def _inner(declarator: Node) -> Node | None:
    """The declarator inside another one, such as that of `x` in `*x`."""
    inner = declarator.child_by_field_name("declarator")
    return inner or next(
        (c for c in declarator.named_children if "declarator" in c.type or c.type in _NAMES), None
    )


def _declared(declarator: Node) -> Node | None:
    """The name that a declarator declares for a variable."""
    found: Node | None = declarator
    while found is not None and found.type not in _NAMES:
        is_other = found.type.endswith(("function_declarator", "binding_declarator"))
        found = None if is_other else _inner(found)
    return found


def _name(value: Value, name: str) -> None:
    """Name a variable's object, and the elements of an array."""
    if isinstance(value, Object) and not value.name:
        value.name = name
        for key, member in value.members.items():
            if value.kind.arrays:
                _name(member, f"{name}[{key}]")


def _below(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += reversed(found.named_children)


def _identifiers(node: Node) -> list[tuple[str, Node]]:
    return [(_text(one), one) for one in _below(node) if one.type == "identifier"]


def _targets(node: Node) -> list[tuple[str, Node]]:
    """The variables that an assignment to an expression may change."""
    while (inner := node.child_by_field_name("argument")) is not None:
        node = inner
    return _identifiers(node)


def _assigned(node: Node) -> list[tuple[str, Node]]:
    """The variables that code may assign to."""
    found: list[tuple[str, Node]] = []
    for one in _below(node):
        target = None
        if one.type in ("assignment_expression", "update_expression"):
            target = one.child_by_field_name("left") or one.child_by_field_name("argument")
        elif one.type == "call_expression":
            function = one.child_by_field_name("function")
            if function is not None and function.type == "field_expression":
                field = function.child_by_field_name("field")
                if field is not None and _text(field) not in ("size", "data"):
                    target = function.child_by_field_name("argument")
            elif function is not None and _text(function) in _ZEROS:
                target = one.child_by_field_name("arguments")
        if target is not None:
            found += [(name, one) for name, _ in _targets(target)]
    return found
