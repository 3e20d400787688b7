"""The blocks of code on the pages, which a reader may run."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from folders import ROOT

FENCE = re.compile(
    r"(?:<!-- (?P<mark>[^>]+) -->\n)?```(?P<kind>\w+)\n(?P<text>.+?)```"
    r"(?:\n\n```\n(?P<output>.+?)```)?",
    re.DOTALL,
)
"""A block of code, with the mark before it and the output after it."""


@dataclass(frozen=True)
class Block:
    """A block of a page that a reader may run."""

    page: str
    kind: str
    text: str
    output: str | None
    """The output; `...` in it stands for any text, as a line for any lines."""
    mark: str

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command of a block for shells."""
        lines = re.split(r"\n|&&", self.text.replace("\\\n", " "))
        return [
            words
            for words in (shlex.split(line, comments=True) for line in lines)
            if words
        ]


PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCKS = [
    Block(path.name, match["kind"], match["text"], match["output"], match["mark"] or "")
    for path in PAGES
    for match in FENCE.finditer(path.read_text(encoding="utf-8"))
    if match["kind"] in ("sh", "python") or (match["mark"] or "").startswith("file: ")
]
