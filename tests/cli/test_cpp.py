"""C++ on the command line is refused as a file."""

from __future__ import annotations

import pytest
from command_line import outcome, write_text

HEADS = {
    "x.h": "#pragma once\n",
    "x.c": "/* one gather */\n#include <DirectML.h>\n",
    "x.cpp": "// one gather\nconst UINT sizes[] = {4, 3};\n",
    "x.hpp": "namespace gathers {}\n",
}
GATHER = (
    "const DML_OPERATOR_DESC gatherOperator = {DML_OPERATOR_GATHER, &gatherDesc};\n"
)


@pytest.mark.parametrize("command", ["check", "convert", "explain", "run", "show"])
@pytest.mark.parametrize("name", HEADS)
def test_a_command_says_that_it_does_not_read_cpp(name: str, command: str) -> None:
    write_text(name, HEADS[name] + GATHER)
    rule = "must be a DxDispatch program, which is JSON"
    kind = "C or C++, which onnxgather does not read"
    assert outcome(command, name)[::2] == (2, f"Error: {name}: {rule}, got {kind}\n")
