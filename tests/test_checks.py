"""What a message shows of a value."""

from __future__ import annotations

import pytest

from onnxgather.checks import printable


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("größe 表 🎲", "größe 表 🎲"),
        ("\x1b[31m\r\n\t\x7f", r"\x1b[31m\r\n\t\x7f"),
        ("\x9b2J", r"\x9b2J"),
        ("\u202egpj.exe\u2066", r"\u202egpj.exe\u2066"),
        ("a\u2028b\xa0\u3000", r"a\u2028b\xa0\u3000"),
        ("caf\udce9", r"caf\udce9"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_characters_that_are_not_plain_to_see_are_escaped(text: str, written: str) -> None:
    assert printable(text) == written
