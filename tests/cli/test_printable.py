"""Names from outside reach a terminal as text that is plain to see, from every
command."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from command_line import (
    DESC,
    POSIX,
    call,
    changed,
    program,
    read_json,
    renamed,
    write_text,
)
from rings import one_quick_in

from onnxgather.core.model.write import descriptor_model

HOSTILE = "x\x1b[2J\x9b31m\u202e\u2066\u2028\udcff\nforged"
"""An escape sequence, a C1 control, changed directions, a line separator, a byte, a new
line."""

FILE = f"{HOSTILE}.json"

pytestmark = POSIX


def _prints_plainly(*arguments: str) -> str:
    """Run a command and return what it printed, of which every character is plain to
    see."""
    result = call(*arguments)
    text = result.stdout + result.stderr
    assert all(c.isprintable() for line in text.split("\n") for c in line), ascii(text)
    assert "\nforged" not in text
    return text


ESCAPED = r"x\x1b[2J\x9b31m\u202e\u2066\u2028\udcff\nforged"


@pytest.mark.parametrize(
    "arguments",
    one_quick_in(
        5,
        [
            ["convert"],
            ["show"],
            ["show", "--json"],
            ["explain", "--at", "0,0"],
            ["check"],
            ["check", "--json"],
            ["repro", "-o", "folder"],
        ],
    ),
    ids=" ".join,
)
def test_the_name_of_a_file(arguments: list[str]) -> None:
    program(FILE)
    text = _prints_plainly(*arguments, FILE)
    if "explain" not in arguments and "repro" not in arguments:
        spelled = json.dumps(FILE)[1:-1] if "--json" in arguments else ESCAPED
        assert spelled.replace("\\u009b", "\\x9b") in text.replace("\\u009b", "\\x9b")


@pytest.mark.parametrize(
    "command", ["convert", "run", "show", "explain", "check", "repro"]
)
def test_the_name_of_a_file_in_an_error(command: str) -> None:
    more = {"explain": ["--at", "0"], "repro": ["-o", "folder"]}.get(command, [])
    assert f"Error: {ESCAPED}" in _prints_plainly(command, HOSTILE, *more)
    write_text(FILE, "{")
    assert f"Error: {ESCAPED}.json: " in _prints_plainly(command, FILE, *more)


@pytest.mark.parametrize(
    "command", one_quick_in(5, ["convert", "show", "explain", "check", "repro"])
)
def test_the_name_of_a_dispatchable(command: str) -> None:
    more = {"explain": ["--at", "0,0"], "repro": ["-o", "folder"]}.get(command, [])
    path = renamed(program("x.json"), HOSTILE.replace("\udcff", ""), "other")
    _prints_plainly(command, path, *more)


@pytest.mark.parametrize("verbose", [False, True])
def test_the_name_of_a_resource(verbose: bool) -> None:
    name = HOSTILE.replace("\udcff", "") + "\n::error::forged"
    content = read_json(program("x.json"))
    resources = content["resources"]
    resources[name] = resources.pop("output")
    dispatch = content["commands"][0]
    dispatch["bindings"]["OutputTensor"] = name
    commands = [
        dispatch,
        {"type": "print", "resource": name, "verbose": verbose},
        {"type": "writeFile", "resource": name, "targetPath": "\x1b[31my.npy"},
    ]
    path = changed("x.json", resources=resources, commands=commands)
    text = _prints_plainly("run", path, "--allow-outside")
    escaped = ESCAPED.replace("\\udcff", "") + "\\n::error::forged"
    assert text.startswith(f"Resource '{escaped}':")
    assert f"\nResource '{escaped}' written to '" in text
    assert text.endswith("\\x1b[31my.npy'\n")


@pytest.mark.parametrize("command", ["run", "explain", "check", "repro"])
@pytest.mark.parametrize(
    "fields",
    [
        {"commands": [{"type": HOSTILE}]},
        {"commands": [{"type": "dispatch", "dispatchable": HOSTILE}]},
        {"resources": {HOSTILE: {HOSTILE: 1}}},
        {"dispatchables": {HOSTILE: {"type": HOSTILE}}},
        {
            "dispatchables": {
                HOSTILE: {"type": "DML_OPERATOR_GATHER", "desc": {HOSTILE: 1}}
            }
        },
    ],
    ids=["command", "dispatch", "resource", "operator", "field"],
)
def test_a_text_in_a_program(command: str, fields: dict[str, object]) -> None:
    more = {"explain": ["--at", "0,0"], "repro": ["-o", "folder"]}.get(command, [])
    assert "Error: " in _prints_plainly(
        command, changed(program("x.json"), **fields), *more
    )


@pytest.mark.parametrize(
    "arguments",
    one_quick_in(
        4,
        [
            [HOSTILE],
            [f"--{HOSTILE}"],
            ["show", f"--{HOSTILE}"],
            ["convert", "x.json", "-o", f"{HOSTILE}/y.onnx", "--opset", HOSTILE],
            ["convert", "x.json", "--feature-level", HOSTILE],
            ["run", "x.json", "--provider", HOSTILE],
            ["run", "x.json", "--output-folder", HOSTILE, "--out-of-range", HOSTILE],
            ["explain", "x.json", "--at", HOSTILE],
            ["explain", "x.json", "--at", "0,0", "--dispatch", HOSTILE],
            ["check", "x.json", "--lanes", HOSTILE],
            ["check", "x.json", "--lanes", f"cpu,cpu@{HOSTILE},cpu@{HOSTILE}"],
            ["check", "x.json", "--require", HOSTILE],
            ["check", "x.json", "--lane", HOSTILE],
            ["check", "x.json", "--lane", f"cpu@{HOSTILE}={HOSTILE}"],
            ["check", "x.json", "--lane", f"cpu@{HOSTILE}={HOSTILE}", "--json"],
            ["check", "x.json", "--plugin", f"{HOSTILE}ExecutionProvider={HOSTILE}"],
            ["check", "x.json", f"--json={HOSTILE}/"],
            ["doctor", "--lane", f"cpu@{HOSTILE}={HOSTILE}"],
            ["doctor", "--lane", f"cpu@{HOSTILE}={HOSTILE}", "--json"],
            ["repro", "x.json", "-o", HOSTILE, "--case", HOSTILE],
            ["repro", "x.json", "-o", "folder", "--lane", HOSTILE],
            ["repro", "x.json", "-o", "folder", "--node", HOSTILE, "--inputs", HOSTILE],
            ["corpus", HOSTILE],
            ["corpus", "export", "--format", HOSTILE, "folder"],
            ["corpus", "export", "--format", "json", "x.json/" + HOSTILE],
        ],
    ),
    ids=lambda arguments: " ".join(arguments).replace(HOSTILE, "~"),
)
def test_an_argument(arguments: list[str]) -> None:
    program("x.json")
    _prints_plainly(*arguments)


@pytest.mark.slow
def test_the_folder_of_an_export() -> None:
    assert f"{ESCAPED}: " in _prints_plainly(
        "corpus", "export", "--format", "json", HOSTILE
    )


@pytest.mark.parametrize("where", ["node", "value"])
def test_a_name_in_a_model(where: str) -> None:
    name = HOSTILE.replace("\udcff", "")
    model = descriptor_model(DESC)
    if where == "node":
        model.graph.node[-1].name = name
    else:
        model.graph.node[-1].output[0] = model.graph.output[0].name = name
    Path("x.onnx").write_bytes(model.SerializeToString())
    for node in ("none", name):
        _prints_plainly("repro", "x.onnx", "--node", node, "-o", "folder")


@pytest.mark.slow
@pytest.mark.parametrize("option", [[], ["--json"]])
def test_what_a_worker_says(option: list[str]) -> None:
    program("x.json")
    write_text("worker", f"#!{sys.executable}\nraise SystemExit({HOSTILE!r})\n")
    os.chmod("worker", 0o700)
    for arguments in (["check", "x.json"], ["doctor"]):
        _prints_plainly(*arguments, "--lane", "cpu@old=./worker", *option)
