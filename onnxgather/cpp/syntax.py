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
        return self.node.start_point.row + 1 if self.node else 0

    @property
    def start(self) -> int:
        """The byte where it begins."""
        return self.node.start_byte if self.node else 0

    @property
    def parent(self) -> Part:
        """The part that it belongs to."""
        return Part(self.node and self.node.parent)

    @property
    def parts(self) -> list[Part]:
        """Its parts without punctuation and comments."""
        children = self.node.named_children if self.node else []
        return [Part(one) for one in children if one.type != "comment"]

    @property
    def has_error(self) -> bool:
        """Whether the grammar does not know something in it."""
        return self.node is not None and self.node.has_error

    def at(self, field: str) -> Part:
        """The part that the grammar calls by a name."""
        return Part(self.node and self.node.child_by_field_name(field))

    def below(self) -> Iterator[Part]:
        """Yield it and all parts below it."""
        waiting = [self]
        while waiting:
            yield (found := waiting.pop())
            waiting += found.parts[::-1]

    def above(self) -> Iterator[Part]:
        """Yield the parts that it belongs to, from the innermost."""
        part = self.parent
        while part:
            yield part
            part = part.parent

    def __bool__(self) -> bool:
        return self.node is not None


def parse(content: bytes, line: int = 1) -> Part:
    """The tree of a text, whose first line has a number."""
    return Part(Parser(Language(language())).parse(b"\n" * (line - 1) + content).root_node)
