"""The files of contracts: the formats of a model's, and folders of those of several."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command_line import (
    error_of,
    outcome,
    output_of,
    read_bytes,
    read_json,
    read_text,
    succeed,
    write_text,
)
from network_draft import session
from onnx_graphs import constant, written

import onnxgather as og
from onnxgather.auditing.proof.contract_python import guard

SPEED = "--levels none"


def save(path: str, rows: int = 4) -> dict[str, Any]:
    """Write a model that gathers from a table of some rows; return its contract."""
    table = constant("table", np.zeros((rows, 2), np.float32))
    proto = written("(int64[n] ids) => (y) { y = Gather(table, ids) }", table)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(proto.SerializeToString())
    return og.audit(path, levels=()).contract


def test_the_name_of_a_contract_chooses_its_format() -> None:
    contract = save("m.onnx")
    for name in ("c.json", "c.py", "c.onnx", "c.ONNX"):
        assert outcome(f"audit m.onnx {SPEED} --contract {name}")[::2] == (
            0,
            f"written: {name}\n",
        )
    assert read_json("c.json") == contract
    assert read_bytes("c.json").endswith(b"\n}\n")
    assert read_text("c.py") == guard(contract)
    expected = og.contract_model(contract, "m.onnx")
    for name in ("c.onnx", "c.ONNX"):
        content = read_bytes(name)
        assert onnx.ModelProto.FromString(content) == expected
    ok, broken = session(expected).run(None, {"ids": np.array([3, 4])})
    assert (bool(ok), broken.tolist()) == (False, [0])
    text = output_of(f"audit m.onnx {SPEED} --contract -")
    assert json.loads(text) == contract


@pytest.mark.parametrize("name", ["c", "c.txt", "c.npz", "json"])
def test_another_name_of_a_contract_is_refused(name: str) -> None:
    save("m.onnx")
    assert (
        error_of("audit m.onnx --contract", name)
        == f"--contract must end in .json, .onnx or .py for a model, got {name}"
    )
    assert not os.path.exists(name)


def test_a_contract_is_not_written_over_its_model() -> None:
    save("m.onnx")
    assert (
        error_of("audit m.onnx --contract m.onnx")
        == "m.onnx must not be written, as it is an input"
    )


@pytest.mark.slow
def test_several_models_have_a_folder_of_contracts() -> None:
    contracts = {path: save(path, k) for k, path in enumerate(MODELS, 3)}
    code, _, error = outcome(f"audit a {SPEED} --contract c --jobs 2")
    files = ["c/m.onnx.contract.json", "c/x/m.onnx.contract.json"]
    # A slow run also tells how far it is.
    lines = [line for line in error.splitlines() if line.startswith("written: ")]
    assert (code, lines) == (0, ["written: c, 2 files"])
    for file, path in zip(files, ("a/m.onnx", "a/x/m.onnx"), strict=True):
        found = read_json(file)
        assert found.pop("made_by").startswith("onnxgather ")
        assert found == contracts[path]
    # A file that is there is written anew.
    succeed(f"audit a {SPEED} --contract c")


MODELS = ("a/m.onnx", "a/x/m.onnx", "b/m.onnx", "b/M.bin")


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("a", ["m.onnx", "x/m.onnx"]),
        ("a/x", ["m.onnx"]),
        ("a b", ["a/m.onnx", "a/x/m.onnx", "b/m.onnx"]),
        ("a a/x", ["m.onnx", "x/m.onnx"]),
        ("a/m.onnx b/m.onnx", ["a/m.onnx", "b/m.onnx"]),
        ("a/m.onnx a/x", ["m.onnx", "x/m.onnx"]),
        ("b/m.onnx b/M.bin", ["M.bin", "m.onnx"]),
        ("*/m.onnx", ["a/m.onnx", "b/m.onnx"]),
        ("./a/../a", ["m.onnx", "x/m.onnx"]),
    ],
)
def test_contracts_have_the_paths_of_their_models(given: str, names: list[str]) -> None:
    for path in MODELS:
        save(path)
    succeed(f"audit {given} {SPEED} --contract c")
    found = [path for path in Path("c").rglob("*") if path.is_file()]
    assert sorted(path.relative_to("c").as_posix() for path in found) == [
        f"{name}.contract.json" for name in names
    ]


@pytest.mark.parametrize("name", ["c.json", "c.onnx", "c.py", "-"])
def test_a_file_is_no_folder_of_contracts(name: str) -> None:
    for path in MODELS:
        save(path)
    assert (
        error_of("audit a --contract", name)
        == f"--contract must be a folder for 2 models, got {name}"
    )


def test_a_contract_in_a_folder_is_written_over_no_input() -> None:
    save("a/m.onnx")
    succeed(f"audit a {SPEED} --contract c")
    assert (
        error_of("audit a --assume c --contract c")
        == "c/m.onnx.contract.json must not be written, as it is an input"
    )


def test_a_folder_of_contracts_is_assumed_by_digest() -> None:
    for k, path in enumerate(MODELS, 3):
        save(path, k)
    succeed(f"audit a {SPEED} --contract c")
    write_text("c/tokenizer.json", "{}")  # no contract, by its name
    strict = f"audit {SPEED} --fail-on not-proved --assume c --json"
    text = output_of(f"{strict} a")
    states = [
        each["gathers"][0]["range"]["state"] for each in json.loads(text)["models"]
    ]
    assert states == ["proved", "proved"]
    # A model without a contract is audited without one.
    code, text, error = outcome(f"{strict} a/m.onnx b/m.onnx")
    states = [
        each["gathers"][0]["range"]["state"] for each in json.loads(text)["models"]
    ]
    assert states == ["proved", "proved-if"]
    assert error == "c: 1 of 2 contracts fits no model of this audit\n"
    code, text, error = outcome(f"audit a/m.onnx {SPEED} --assume c")
    assert (code, "4 rows" in text, "1 proved in range" in text) == (0, False, True)
    succeed(f"harden b/m.onnx {SPEED} -o h.onnx --assume c")
    assert (
        output_of(f"harden a/m.onnx {SPEED} -o h.onnx --assume c")
        == "a/m.onnx -> h.onnx: 0 nodes rewritten\n"
    )


def test_a_folder_without_a_contract_is_refused() -> None:
    save("m.onnx")
    Path("c").mkdir()
    for text, sentence in (
        (None, "c: the folder must have a *.contract.json file, got none"),
        ("{}", "c/x.contract.json: $ must have digest"),
    ):
        if text:
            write_text("c/x.contract.json", text)
        assert error_of("audit m.onnx --assume c") == sentence


def test_a_folder_without_models_has_no_contracts() -> None:
    Path("a").mkdir()
    sentence = "a: the folder must have a *.onnx file, got none"
    assert error_of("audit a --contract c") == sentence
    assert not os.path.exists("c")


def save_in_two_files(weight: float = 1) -> None:
    """Write a model whose table is in a file of its own."""
    library: Any = onnx
    Path("m.data").unlink(missing_ok=True)  # onnx replaces no file
    table = constant("table", np.full((4, 2), weight, np.float32))
    proto = written("(int64[n] ids) => (y) { y = Gather(table, ids) }", table)
    library.save_model(
        proto, "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0
    )


def test_a_contract_is_of_the_external_data_of_its_model_too() -> None:
    save_in_two_files()
    succeed(f"audit m.onnx {SPEED} --contract c.json")
    digest = read_json("c.json")["digest"]
    succeed(f"audit m.onnx {SPEED} --assume c.json")
    for content in (None, b"", read_bytes("m.data")[:-1], read_bytes("m.data") + b"\0"):
        Path("m.data").unlink(missing_ok=True)
        if content is not None:
            Path("m.data").write_bytes(content)
        own = og.audit("m.onnx", levels=()).contract["digest"]
        error = error_of(f"audit m.onnx {SPEED} --assume c.json")
        assert (
            error == f"c.json: $.digest must be that of m.onnx, '{own}', got '{digest}'"
        )
    save_in_two_files()
    succeed(f"audit m.onnx {SPEED} --assume c.json")
    folder = f"audit m.onnx {SPEED} --assume ."
    Path("c.json").rename("m.onnx.contract.json")
    assert "no model of this audit" not in outcome(folder)[2]
    save_in_two_files(2)
    assert "1 of 1 contract fits no model of this audit" in outcome(folder)[2]


@pytest.mark.parametrize("data", ["missing", "a folder", "/dev/zero"])
def test_external_data_that_is_no_plain_file_counts_as_none(data: str) -> None:
    library: Any = onnx
    save_in_two_files()
    proto = library.load("m.onnx", load_external_data=False)
    Path("a folder").mkdir()
    (location,) = (
        e for e in proto.graph.initializer[0].external_data if e.key == "location"
    )
    location.value = data
    Path("m.onnx").write_bytes(proto.SerializeToString())
    digest = og.audit("m.onnx", levels=()).contract["digest"]
    assert digest == f"sha256:{hashlib.sha256(read_bytes('m.onnx')).hexdigest()}"
