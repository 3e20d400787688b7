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


def _prints_plainly(line: str, *arguments: str) -> str:
    """Run a command and return what it printed, of which every character is plain to
    see. In the line, ~ stands for a hostile text."""
    words = [word.replace("~", HOSTILE) for word in line.split()]
    result = call("", *words, *arguments)
    text = result.stdout + result.stderr
    assert all(c.isprintable() for line in text.split("\n") for c in line), ascii(text)
    assert "\nforged" not in text
    return text


MORE = {"explain": "--at 0,0", "repro": "-o folder"}
"""What some commands need."""

ESCAPED = r"x\x1b[2J\x9b31m\u202e\u2066\u2028\udcff\nforged"


@pytest.mark.parametrize(
    "arguments",
    one_quick_in(
        5,
        [
            *("convert", "show", "show --json", "explain --at 0,0"),
            *("check", "check --json", "repro -o folder"),
        ],
    ),
)
def test_the_name_of_a_file(arguments: str) -> None:
    program(FILE)
    text = _prints_plainly(arguments, FILE)
    if "explain" not in arguments and "repro" not in arguments:
        spelled = json.dumps(FILE)[1:-1] if "--json" in arguments else ESCAPED
        assert spelled.replace("\\u009b", "\\x9b") in text.replace("\\u009b", "\\x9b")


@pytest.mark.parametrize(
    "command", ["convert", "run", "show", "explain", "check", "repro"]
)
def test_the_name_of_a_file_in_an_error(command: str) -> None:
    line = f"{command} {MORE.get(command, '')}"
    assert f"Error: {ESCAPED}" in _prints_plainly(f"{line} ~")
    write_text(FILE, "{")
    assert f"Error: {ESCAPED}.json: " in _prints_plainly(line, FILE)


@pytest.mark.parametrize(
    "command", one_quick_in(5, ["convert", "show", "explain", "check", "repro"])
)
def test_the_name_of_a_dispatchable(command: str) -> None:
    line = f"{command} {MORE.get(command, '')}"
    path = renamed(program("x.json"), HOSTILE.replace("\udcff", ""), "other")
    _prints_plainly(line, path)


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
    text = _prints_plainly("run --allow-outside", path)
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
    line = f"{command} {MORE.get(command, '')}"
    path = changed(program("x.json"), **fields)
    assert "Error: " in _prints_plainly(line, path)


@pytest.mark.parametrize(
    "line",
    one_quick_in(
        4,
        """\
~
--~
show --~
convert x.json -o ~/y.onnx --opset ~
convert x.json --feature-level ~
run x.json --provider ~
run x.json --output-folder ~ --out-of-range ~
explain x.json --at ~
explain x.json --at 0,0 --dispatch ~
check x.json --lanes ~
check x.json --lanes cpu,cpu@~,cpu@~
check x.json --require ~
check x.json --lane ~
check x.json --lane cpu@~=~
check x.json --lane cpu@~=~ --json
check x.json --plugin ~ExecutionProvider=~
check x.json --json=~/
doctor --lane cpu@~=~
doctor --lane cpu@~=~ --json
repro x.json -o ~ --case ~
repro x.json -o folder --lane ~
repro x.json -o folder --node ~ --inputs ~
corpus ~
corpus export --format ~ folder
corpus export --format json x.json/~
""".splitlines(),
    ),
)
def test_an_argument(line: str) -> None:
    program("x.json")
    _prints_plainly(line)


@pytest.mark.slow
def test_the_folder_of_an_export() -> None:
    assert f"{ESCAPED}: " in _prints_plainly("corpus export --format json ~")


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
        _prints_plainly("repro x.onnx -o folder --node", node)


@pytest.mark.slow
@pytest.mark.parametrize("option", [[], ["--json"]])
def test_what_a_worker_says(
    option: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program("x.json")
    Path("worker").write_text(f"#!{sys.executable}\nraise SystemExit({HOSTILE!r})\n")
    os.chmod("worker", 0o700)
    for arguments in (["check", "x.json"], ["doctor"]):
        _prints_plainly("", *arguments, "--lane", "cpu@old=./worker", *option)
