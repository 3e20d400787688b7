"""The syntax tree of C and C++; the only module that imports tree-sitter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Language, Node, Parser
from tree_sitter_cpp import language

NAMES = ("identifier", "field_identifier", "type_identifier", "qualified_identifier")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a file; one that is not there has no type, no text and no parts."""

    node: Node | None
    first_line: int = 1

    @property
    def type(self) -> str:
        """What it is, as tree-sitter's grammar calls it."""
        return self.node.type if self.node else ""

    @property
    def text(self) -> str:
        """Its text on one line."""
        text = (self.node.text if self.node else None) or b""
        return " ".join(text.decode(errors="replace").split())

    @property
    def name(self) -> str:
        """The last part of a name, without the arguments of a template."""
        inner = self.at("name") or self.at("type")
        return inner.name if inner else self.text

    @property
    def line(self) -> int:
        """The line where it begins."""
        return self.first_line + (self.node.start_point.row if self.node else 0)

    @property
    def parts(self) -> list[Part]:
        """Its parts without punctuation and comments."""
        children = self.node.named_children if self.node else []
        return [Part(one, self.first_line) for one in children if one.type != "comment"]

    @property
    def words(self) -> list[str]:
        """Its parts that have none themselves, such as `const` or `class`."""
        children = self.node.children if self.node else []
        return [Part(child).text for child in children if not child.named_child_count]

    @property
    def has_error(self) -> bool:
        """Whether the grammar does not know something in it."""
        return self.node is not None and self.node.has_error

    def at(self, field: str) -> Part:
        """The part that the grammar calls by a name."""
        return Part(self.node and self.node.child_by_field_name(field), self.first_line)

    def fields(self) -> Iterator[tuple[str, Part]]:
        """Yield the parts that have names, in order."""
        for number, child in enumerate(self.node.children if self.node else ()):
            if name := self.node and self.node.field_name_for_child(number):
                yield name, Part(child, self.first_line)

    def below(self) -> Iterator[Part]:
        """Yield it and all parts below it."""
        waiting = [self]
        while waiting:
            yield (found := waiting.pop())
            waiting += found.parts[::-1]

    def identifiers(self) -> list[str]:
        """The names of variables below it."""
        return [one.text for one in self.below() if one.type == "identifier"]

    def targets(self) -> list[str]:
        """The names of the variables that an assignment to it may change."""
        inner = self.at("argument")
        return inner.targets() if inner else self.identifiers()

    def inner(self) -> Part:
        """The declarator inside another one, such as that of `x` in `*x`."""
        inner = (one for one in self.parts if "declarator" in one.type or one.type in NAMES)
        return self.at("declarator") or next(inner, Part(None))

    def declared(self) -> Part:
        """The name that a declarator declares for a variable."""
        if self.type.endswith(("function_declarator", "binding_declarator")):
            return Part(None)
        return self if self.type in (*NAMES, "") else self.inner().declared()

    def __bool__(self) -> bool:
        return self.node is not None


def parse(content: bytes, first_line: int = 1) -> Part:
    """The tree of a text."""
    return Part(Parser(Language(language())).parse(content).root_node, first_line)
