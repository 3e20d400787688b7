"""Markdown for the summaries of build servers: tables, escapes, a limited size."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from onnxgather.core.checks import number_of, printable, shortened

MOST_BYTES = 2**20
"""The size of the largest document. GitHub refuses larger ones."""

LONGEST_TEXT = 1000
"""The most characters of one text."""

_ROOM_FOR_LAST_LINE = 100
"""The bytes that are kept free for the line about the lines left off."""

_MARKS = re.compile(r"[\\`*_\[\]<>|&~#@$!]")
"""The characters with a meaning to Markdown, HTML or GitHub."""


def table_row(cells: Iterable[str]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def plain(text: str) -> str:
    """Return a text that is shown as it is: on one line, without Markdown or HTML."""
    text = shortened(printable(text), LONGEST_TEXT)
    return _MARKS.sub(r"\\\g<0>", text)


def markdown_document(lines: Sequence[str]) -> bytes:
    """Return lines as a document of at most `MOST_BYTES` in UTF-8.

    If lines are left off, the last line says how many.
    """
    kept: list[str] = []
    bytes_left = MOST_BYTES - _ROOM_FOR_LAST_LINE
    for line in lines:
        bytes_left -= len(line.encode()) + 1  # with the end of the line
        if bytes_left < 0:
            left_off = number_of(len(lines) - len(kept), "line")
            kept += ["", f"{left_off} left off; --json or --html has them all."]
            break
        kept.append(line)
    return "\n".join([*kept, ""]).encode()
