"""The variables of a file of C or C++: where each is declared, assigned and otherwise named.

A variable that is not constant is known where each part of the file that names it is understood:
it is declared, its fields are assigned one after the other in its own block, or its value or its
address goes into another initializer. Whatever else names it makes it unknown, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnxgather.cpp.structs import SIZES, STRUCTS
from onnxgather.cpp.syntax import NAMES, Part
from onnxgather.documents import quoted

ARRAYS = ("array", "vector")
_COUNTS = ("size", "_countof", "ARRAYSIZE", "DMLCalcBufferTensorSize")
_BLOCKS = (
    *("translation_unit", "compound_statement", "function_definition", "lambda_expression"),
    *("for_statement", "for_range_loop", "while_statement", "do_statement", "if_statement"),
    *("else_clause", "switch_statement", "case_statement", "labeled_statement", "catch_clause"),
    "template_declaration",
)
_NAMED = ("namespace_definition", "class_specifier", "struct_specifier")
_DECLARATIONS = ("declaration", "field_declaration")
_UNDERSTOOD = (
    *("parenthesized_expression", "cast_expression", "binary_expression", "initializer_list"),
    *("initializer_pair", "compound_literal_expression", "subscript_expression"),
    *("subscript_argument_list", "field_expression", "init_declarator", "pointer_expression"),
    "argument_list",
)


class NotKnown(Exception):  # noqa: N818  it is no error until a descriptor needs the value
    """A value that the file does not say: what stands there, its line, and why."""

    def __init__(self, part: Part, why: str = "which is not a constant") -> None:
        self.line, self.text, self.why = part.line, quoted(part.text), why


@dataclass(eq=False)
class Variable:
    """A variable, a macro, or a name that is declared in a way that is not followed."""

    name: Part
    declaration: Part
    value: Part
    """The initializer, if there is one."""
    kind: str = ""
    """The type of the number, the struct, the elements, or of what the pointer leads to."""
    lengths: tuple[Part, ...] = ()
    """Where the lengths of an array stand; one that is not there follows from the initializer."""
    is_pointer: bool = False
    is_const: bool = False
    """Whether the number, the struct, the elements or what the pointer leads to is constant."""
    is_c_array: bool = False
    """Whether `sizeof` counts its elements."""
    why: str = ""
    """Why its value is not known, such as `a parameter`."""


class Variables:
    """The variables of one file.

    Args:
        root: The file.
    """

    def __init__(self, root: Part) -> None:
        self.all: list[Variable] = []
        self._by_name: dict[str, list[Variable]] = {}
        self._uses: dict[str, list[Part]] = {}
        for part in root.below():
            if part.type in _DECLARATIONS:
                self._declare(part)
            elif part.type == "preproc_def":
                self._add(Variable(part.at("name"), part, part.at("value"), is_const=True))
            elif part.type.endswith("parameter_declaration"):
                self._add_unknown(part.at("declarator"), part, "a parameter")
            elif part.type in ("enumerator", "structured_binding_declarator", "using_declaration"):
                self._add_unknown(part, part, "which is not followed")
            elif part.type == "for_range_loop":
                self._add_unknown(part.at("declarator"), part, "which may run or not")
            if part.type in ("identifier", "qualified_identifier"):
                self._uses.setdefault(part.name, []).append(part)

    def _add(self, variable: Variable) -> None:
        self.all.append(variable)
        self._by_name.setdefault(variable.name.text, []).append(variable)

    def _add_unknown(self, names: Part, part: Part, why: str) -> None:
        for one in names.below():
            if one.type == "identifier":
                self._add(Variable(one, part, Part(None), why=why))

    def _declare(self, part: Part) -> None:
        for one in part.parts:
            if one in (part.at("type"), part.at("default_value")):
                continue
            if "declarator" in one.type or one.type in NAMES:
                is_pair = one.type == "init_declarator"
                value = one.at("value") if is_pair else part.at("default_value")
                variable = Variable(one, part, value)
                self._set_type(variable, part, one.at("declarator") if is_pair else one)
                if variable.name.type in NAMES:
                    self._add(variable)

    def _set_type(self, variable: Variable, part: Part, declarator: Part) -> None:
        written, literal = part.at("type") or part, variable.value.at("type")
        words = {one.text for one in part.parts}
        if written.name == "auto" and variable.value.type == "compound_literal_expression":
            written = literal
        variable.kind, variable.is_const = written.name, bool(words & {"const", "constexpr"})
        if variable.kind in ARRAYS:
            arguments = template_arguments(written)
            variable.kind = arguments[0].name if arguments else "auto"
            variable.lengths = (arguments[1] if len(arguments) > 1 else Part(None),)
            if arguments and arguments[0].at("declarator"):
                variable.why = "an array of pointers"
        while declarator and declarator.type not in NAMES:
            if declarator.type.endswith("array_declarator"):
                variable.lengths, variable.is_c_array = (declarator.at("size"),), True
            variable.is_pointer |= declarator.type.endswith("pointer_declarator")
            if declarator.type.endswith(("reference_declarator", "function_declarator")):
                variable.why = "which a reference may change"
            names = (one for one in declarator.parts if one.type.endswith((*NAMES, "declarator")))
            declarator = declarator.at("declarator") or next(names, Part(None))
        variable.name = declarator
        known = {*SIZES, *STRUCTS, "auto", "void", "char"}
        if not (variable.kind in known or variable.kind.startswith("DML_")):
            variable.why = variable.why or "whose type is not known"
        is_loose = part.type == "field_declaration" or words & {"extern", "volatile"}
        if is_loose and not variable.is_const:
            variable.why = variable.why or "a variable that may change"

    # --- Names -------------------------------------------------------------------------------

    def named(self, use: Part) -> Variable | None:
        """The variable that a name means; None for a name that the file does not declare.

        Raises:
            NotKnown: The file declares it twice, or an #if decides whether it does.
        """
        *path, name = use.text.replace(" ", "").removeprefix("::").split("::")
        of_name = self._by_name.get(name, [])
        found = [one for one in of_name if one.declaration.type == "preproc_def"]
        if path and not found:
            end = "::".join(["", *path])
            found = [one for one in of_name if f"::{_path(one.name)}".endswith(end)]
        for scope in filter(_is_scope, [] if path else use.above()):
            inside = (one for one in of_name if next(filter(_is_scope, one.name.above())) == scope)
            found = found or [one for one in inside if one.name.start <= use.start]
        if len(found) > 1:
            raise NotKnown(found[-1].name, "which is declared twice")
        for above in found[0].declaration.above() if found else ():
            if _is_choice(above) and above not in use.above():
                raise NotKnown(above, "which an #if decides")
        return found[0] if found else None

    def assigned(self, variable: Variable) -> list[Part]:
        """The assignments to the fields of a variable, in order.

        Raises:
            NotKnown: Something names the variable that is not understood.
        """
        if variable.why:
            raise NotKnown(variable.name, variable.why)
        found, is_shared, given = list[Part](), False, set[str]()
        if variable.is_const and not variable.is_pointer:
            return found
        for use in self._uses.get(variable.name.text, ()):
            if use == variable.name or self.named(use) != variable:
                continue
            field = use.parent.at("field").text
            assignment = _assignment(use)
            if assignment and not assignment.has_error:
                if _blocks(use) != _blocks(variable.name):
                    raise NotKnown(assignment, "which may run or not")
                if is_shared and (field in given or variable.value.text not in ("", "{}")):
                    raise NotKnown(assignment, "a change after the address was taken")
                if field not in STRUCTS.get(variable.kind, ()):
                    why = f"which sets what {variable.kind} does not have"
                    raise NotKnown(assignment, why)
                found.append(assignment)
                given.add(field)
            else:
                self._check_use(use, variable)
                is_shared = True
        return found

    def _check_use(self, use: Part, variable: Variable) -> None:
        """Refuse what may change a variable that it names."""
        is_address, part = bool(variable.lengths), use
        for above in use.above():
            is_address |= above.type == "pointer_expression"
            if above.type == "field_expression" or above.type == "subscript_expression":
                is_address &= above.at("field").text in ("size", "data")
            call = above.parent if above.type == "argument_list" else above
            if above.type == "sizeof_expression":
                return
            if above.type in _DECLARATIONS:
                self._check_target(part.at("declarator"), above, is_address)
                return
            if above.type == "assignment_expression":
                if part == above.at("left"):
                    raise NotKnown(above, "which is not followed")
                self._check_target(above.at("left"), above, is_address)
                return
            if above.type == "compound_literal_expression" and above.at("type").name in STRUCTS:
                return
            if above.type == "return_statement" and part == use:
                return
            if call.type == "call_expression":
                name = call.at("function").name
                if call.at("function").at("field"):
                    name = call.at("function").at("field").text
                if not (name in (*_COUNTS, "data") or name in SIZES or name.endswith("_cast")):
                    raise NotKnown(call, "a call that may change it")
                if name in _COUNTS:
                    return
            elif above.type not in _UNDERSTOOD:
                raise NotKnown(above, "which is not followed")
            part = above

    def _check_target(self, target: Part, part: Part, is_address: bool) -> None:
        """Refuse a variable that may change what its initializer or its value leads to."""
        while inner := target.at("argument") or target.at("declarator"):
            target = inner
        named = (one for one in target.below() if one.type == "identifier")
        found = self.named(next(named, target))
        if found is None or found.why:
            raise NotKnown(part, found.why if found else "which is not followed")
        is_loose = found.is_pointer and not found.is_const
        if is_loose or (is_address and found.kind not in STRUCTS and not found.is_pointer):
            raise NotKnown(part, "which may be changed by a pointer")


def template_arguments(part: Part) -> list[Part]:
    """What stands in the angle brackets of a template."""
    while part.type == "qualified_identifier":
        part = part.at("name")
    return part.at("arguments").parts if part.type.startswith("template_") else []


def _is_scope(part: Part) -> bool:
    """Whether names are known in a part alone, or outside behind its name."""
    return part.type in _BLOCKS or (part.type in _NAMED and bool(part.at("name")))


def _blocks(part: Part) -> list[Part]:
    """The blocks and the branches of #if that a part stands in."""
    return [one for one in part.above() if _is_scope(one) or _is_choice(one)]


def _path(name: Part) -> str:
    """The names of the namespaces and classes of a name."""
    spaces = [one.at("name").text for one in name.above() if one.type in _NAMED]
    return "::".join(reversed(spaces))


def _assignment(use: Part) -> Part:
    """The statement `use.field = value`, perhaps with more fields that get the value."""
    part = use.parent.parent
    if use.parent.type != "field_expression" or part.at("left") != use.parent:
        return Part(None)
    whole = part
    while whole.parent.type == "assignment_expression":
        whole = whole.parent
    is_plain = part.at("operator").text == "=" and whole.parent.type == "expression_statement"
    return part if is_plain else Part(None)


def _is_choice(part: Part) -> bool:
    """Whether it is an #if that does more than keep a file from being included twice."""
    if not part.type.startswith("preproc_"):
        return False
    first = part.parts[1:2]
    return part.type != "preproc_ifdef" or not first or first[0].name != part.name
