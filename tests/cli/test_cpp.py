"""C++ on the command line: written by `show --cpp`, and refused as a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import DESC, outcome, program, renamed

import onnxgather as og

HEADS = {
    "x.h": "#pragma once\n",
    "x.c": "/* one gather */\n#include <DirectML.h>\n",
    "x.cpp": "// one gather\nconst UINT sizes[] = {4, 3};\n",
    "x.hpp": "namespace gathers {}\n",
}


def test_show_writes_the_descriptors_of_a_program_as_cpp() -> None:
    assert outcome("show", program("x.json"), "--cpp") == (0, og.to_cpp(DESC), "")
    renamed("x.json", "first", "my second")
    text = f"{og.to_cpp(DESC, 'first')}\n{og.to_cpp(DESC, 'my_second')}"
    assert outcome("show", "x.json", "--cpp") == (0, text, "")


@pytest.mark.parametrize("other", [["--json"], ["--html", "x.html"]])
def test_show_writes_one_thing(other: list[str]) -> None:
    code, out, err = outcome("show", program("x.json"), "--cpp", *other)
    assert (code, out) == (2, "")
    assert err.endswith("Error: --cpp, --json and --html must come one at a time\n")


@pytest.mark.parametrize("command", ["check", "convert", "explain", "run", "show"])
@pytest.mark.parametrize("name", HEADS)
def test_a_command_says_that_it_does_not_read_cpp(name: str, command: str) -> None:
    Path(name).write_text(HEADS[name] + og.to_cpp(DESC), encoding="utf-8")
    rule = "must be a DxDispatch program, which is JSON"
    found = "C or C++, which onnxgather writes but does not read"
    assert outcome(command, name)[::2] == (2, f"Error: {name}: {rule}, got {found}\n")
