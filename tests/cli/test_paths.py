"""Paths that stand for several files, and --json before one: nothing that is read is
written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import (
    POSIX,
    error_of,
    files,
    json_of,
    outcome,
    output_of,
    posix,
    program,
    read_bytes,
    read_json,
    read_text,
    succeed,
    write_text,
)
from messages import rows_of
from onnx import parser
from onnx_graphs import FLOAT, INT64, constant, info, model, node
from rings import one_quick_in

NEG = model(
    [node("Neg", ["x"], "y")], [info("x", FLOAT, [2])], ["y"]
).SerializeToString()


def save(*paths: str) -> None:
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(NEG)


def audited(*arguments: str) -> list[str]:
    """The models that an audit tells of, in its order."""
    text = output_of("audit", *arguments, "--json")
    return [posix(each["model"]) for each in json.loads(text)["models"]]


def test_a_folder_gives_its_models_sorted_and_those_below_it() -> None:
    save("m/b.onnx", "m/a.ONNX", "m/below/c.onnx", "m/weights.bin", "d.onnx")
    assert audited("m", "d.onnx") == [
        "m/a.ONNX",
        "m/b.onnx",
        "m/below/c.onnx",
        "d.onnx",
    ]


def test_a_pattern_gives_what_a_shell_would_and_a_model_counts_once() -> None:
    save("m/b.onnx", "m/a.onnx", "m/below/c.onnx", "[x].onnx", "x.onnx")
    assert audited("[x].onnx", "x.onnx") == ["[x].onnx", "x.onnx"]
    assert audited("m/*.onnx") == ["m/a.onnx", "m/b.onnx"]
    assert audited("m/**/*.onnx", "m/b.onnx") == [
        "m/a.onnx",
        "m/b.onnx",
        "m/below/c.onnx",
    ]
    assert audited("m/*") == ["m/a.onnx", "m/b.onnx", "m/below/c.onnx"]


def test_a_folder_of_one_model_has_the_json_of_several() -> None:
    save("m/a.onnx")
    assert audited("m") == audited("m/*") == ["m/a.onnx"]
    assert "models" not in json_of("audit m/a.onnx m/a.onnx --json")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("m", "m: the folder must have a *.onnx file, got none"),
        ("m/*.onnx", "m/*.onnx: no such file or directory"),
    ],
)
def test_where_no_model_is_found_it_is_one_sentence(path: str, sentence: str) -> None:
    Path("m").mkdir()
    assert error_of(f"audit {path}") == sentence


def test_programs_come_from_patterns_too() -> None:
    program("p/b.json")
    program("p/a.json")
    converted = (
        "p/a.json -> p/a.onnx\np/b.json -> p/b.onnx\n2 programs: 2 models written\n"
    )
    assert output_of("convert p/*.json") == converted
    text = output_of("check p/?.json --json")
    assert len(json.loads(text)["cases"]) == 2


def test_json_without_a_file_stands_before_any_path() -> None:
    save("a.onnx", "m/b.onnx", "extensionless")
    before = files()
    assert audited("--json", "a.onnx", "m") == ["a.onnx", "m/b.onnx"]
    assert audited("--json", "m", "a.onnx") == ["m/b.onnx", "a.onnx"]
    assert audited("m", "--json", "extensionless", "a.onnx") == [
        "m/b.onnx",
        "extensionless",
        "a.onnx",
    ]
    assert audited("--json", "*.onnx", "m") == ["a.onnx", "m/b.onnx"]
    assert (
        outcome("audit --json none.onnx a.onnx")[2]
        == "Error: none.onnx: no such file or directory\n"
    )
    program("p/x.json")
    text = output_of("check --json p/*.json")
    assert len(json.loads(text)["cases"]) == 1
    assert files() == [*before, "p/x.json"]


@pytest.mark.parametrize(
    ("command", "usage"),
    rows_of("""
audit a.onnx --json r.json
audit [OPTIONS] MODEL...

audit --json r.json a.onnx
audit [OPTIONS] MODEL...

check a.json --json r.json
check [OPTIONS] [PATH]...

certify a.json --json r.json
certify [OPTIONS] FILE...

doctor --json r.json
doctor [OPTIONS]

explain a.json --json r.json
explain [OPTIONS] FILE

extract a.onnx --json r.json
extract [OPTIONS] MODEL

harden a.onnx --json r.json
harden [OPTIONS] MODEL...

report merge a.json --json r.json
report merge [OPTIONS] FILE...

show a.json --json r.json
show [OPTIONS] FILE...
"""),
)
def test_a_new_file_after_json_gets_a_hint(command: str, usage: str) -> None:
    name = usage.partition(" [")[0]
    text = f"""\
Usage: onnxgather {usage}
Try 'onnxgather {name} --help' for help.

Error: r.json: no such file or directory. Write --json=FILE.
"""
    assert outcome(*command.split()) == (2, "", text)
    assert files() == []


@pytest.mark.parametrize(
    "command",
    one_quick_in(
        3,
        [
            "audit a.onnx",
            "check a.json",
            "explain a.json",
            "extract a.onnx --all --inputs a.npz -o out",
            "harden a.onnx -o b.onnx",
            "show a.json",
        ],
    ),
)
def test_json_with_a_file_writes_what_json_prints(command: str) -> None:
    inputs = [info("x", FLOAT, [2]), info("i", INT64, [1])]
    gather = model([node("Gather", ["x", "i"], "y")], inputs, ["y"])
    Path("a.onnx").write_bytes(gather.SerializeToString())
    program("a.json")
    np.savez("a.npz", x=np.zeros(2, np.float32), i=np.zeros(1, np.int64))
    printed = output_of(*command.split(), "--json")
    code, _, errors = outcome(*command.split(), "--json=r.json")
    assert (code, errors.count("written: r.json\n")) == (0, 1)
    written = read_text("r.json")
    if command.startswith("check"):
        assert json.loads(written).keys() == json.loads(printed).keys()
    else:
        assert json.loads(written) == json.loads(printed)
    read = command.split()[1]
    assert (
        error_of(*command.split(), f"--json={read}")
        == f"{read} must not be written, as it is an input"
    )


def test_json_with_a_file_replaces_what_json_wrote_and_nothing_else() -> None:
    save("a.onnx", "b.onnx")
    for paths in (["a.onnx"], ["a.onnx", "b.onnx"]):
        for _ in range(2):
            succeed("audit", *paths, "--json=out.json")
        assert read_json("out.json")["schema"] == 3
    write_text("notes", "mine")
    sentence = "must be an ONNX model, got bytes that are cut short, or no model"
    error = f"Error: notes: {sentence}\n"
    assert outcome("audit a.onnx --json notes")[::2] == (2, error)
    assert read_text("notes") == "mine"
    succeed("audit --json=notes -- a.onnx")
    assert read_json("notes")["gathers"] == []


def test_after_two_dashes_json_is_a_path() -> None:
    save("--json", "a.onnx")
    succeed("audit --json=out -- --json a.onnx")
    found = read_json("out")["models"]
    assert [each["model"] for each in found] == ["--json", "a.onnx"]


@POSIX
@pytest.mark.parametrize("paths", ["m", "m/*", "link.onnx", "m/a.onnx", "linked"])
@pytest.mark.parametrize(
    "output", ["m/a.onnx", "link.onnx", "m/../m/a.onnx", "linked/a.onnx"]
)
def test_an_output_is_no_input_by_whatever_name(paths: str, output: str) -> None:
    save("m/a.onnx")
    os.symlink("m/a.onnx", "link.onnx")
    os.symlink("m", "linked")
    assert error_of(f"audit {paths} --json={output}").startswith(
        f"{output} must not be written, as it is an input"
    )
    assert read_bytes("m/a.onnx") == NEG


def test_an_output_is_no_external_data_of_a_model() -> None:
    table = constant("table", np.zeros((400, 3), np.float32))
    made = model([node("Neg", ["table"], "y")], [], ["y"], [table])
    onnx.save_model(  # pyright: ignore[reportUnknownMemberType]
        made, "m.onnx", save_as_external_data=True, location="weights"
    )
    weights = read_bytes("weights")
    said = f"as it is an input: {Path('weights').absolute().as_posix()}"
    assert (
        error_of("audit m.onnx --junit weights")
        == f"weights must not be written, {said}"
    )
    assert read_bytes("weights") == weights


def model_with_external_data(path: str) -> bytes:
    """Write a model whose table is in a file beside it; return that file's bytes."""
    table = np.arange(400, dtype=np.float32).reshape(100, 4)
    whole = model(
        [node("Gather", ["table", "ids"], "y", axis=0)],
        [info("ids", INT64, [2])],
        ["y"],
        [constant("table", table)],
    )
    data = Path(path).with_suffix(".data")
    onnx.save(  # pyright: ignore[reportUnknownMemberType]
        whole,
        path,
        save_as_external_data=True,
        location=data.name,
        size_threshold=0,
    )
    return data.read_bytes()


@pytest.mark.parametrize(
    "arguments",
    one_quick_in(
        3,
        [
            "harden m.onnx -o out.onnx",
            "extract m.onnx --all --inputs ids.npz -o gathers",
            "show m.onnx",
            "explain m.onnx --inputs ids.npz",
            "check m.onnx --inputs ids.npz --lanes cpu",
            "certify x.json --model m.onnx",
        ],
    ),
)
def test_no_json_is_written_over_the_external_data_of_a_model(arguments: str) -> None:
    before = model_with_external_data("m.onnx")
    np.savez("ids.npz", ids=np.array([0, 1]))
    program("x.json")
    code, text, error = outcome(*arguments.split(), "--json=m.data")
    assert code == 2, (text, error)
    place = Path("m.data").absolute()
    rule = "m.data must not be written, as it is an input"
    assert f"{rule}: {posix(str(place))}" in posix(error)
    assert read_bytes("m.data") == before


def test_a_pattern_is_a_list_of_all_its_files() -> None:
    for name in ("a.json", "b.json"):
        program(name)
    text = output_of("show [ab].json --json")
    assert [entry["file"] for entry in json.loads(text)] == ["a.json", "b.json"]
    text = output_of("show a*.json --json")
    assert [entry["file"] for entry in json.loads(text)] == ["a.json"]
    text = output_of("show a.json --json")
    assert json.loads(text)["file"] == "a.json"


OUTPUTS_OF_AUDIT = {
    "--json=": "a.json",
    "--junit=": "a.xml",
    "--html=": "a.html",
    "--markdown=": "a.md",
    "--sarif=": "a.sarif",
    "--contract=": "c.json",
    "--write-inputs=": "x.npz",
    "--write-baseline=": "b.json",
}


def test_each_command_makes_the_missing_folder_of_a_file_to_write() -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (int64[n] ids) => (y) <float[3] t = {0, 1, 2}> { y = Gather (t, ids) }"""
    Path("m.onnx").write_bytes(parser.parse_model(text).SerializeToString())
    np.savez("x.npz", ids=np.array([0, 2]))
    plain = ("--levels", "none")
    for option, name in OUTPUTS_OF_AUDIT.items():
        path = f"audit{option.strip('-=')}/new/{name}"
        succeed("audit m.onnx", *plain, f"{option}{path}")
        assert Path(path).is_file()
    for path, command in {
        "contracts/new/m.onnx.contract.json": (
            *("audit", "m.onnx", "./m.onnx", ".", *plain),
            "--contract=contracts/new",
        ),
        "sets/new/0.npz": (
            *("audit", "m.onnx", *plain),
            *("--boundary", "--write-inputs=sets/new"),
        ),
        "hardened/new/m.onnx": (
            *("harden", "m.onnx", *plain),
            *("-o", "hardened/new/m.onnx"),
        ),
        "report/new/a.json": (
            *("harden", "m.onnx", *plain),
            *("-o", "h.onnx", "--json=report/new/a.json"),
        ),
    }.items():
        succeed(*command)
        assert Path(path).is_file()
