"""No file of a user is replaced where onnxgather makes the name of a file.

Each command that names files runs with something of a user in the place of a file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import (
    DESC,
    POSIX,
    changed,
    error_of,
    outcome,
    output_of,
    program,
    read_bytes,
    read_text,
    succeed,
)
from onnx import compose, parser
from own_models import merged_with_relu
from rings import one_quick_in

import onnxgather as og
from onnxgather.auditing.hardening import harden
from onnxgather.core.model import write
from onnxgather.core.options import POLICIES, TARGETS, OutOfRange, Target

NETWORK = """
<ir_version: 8, opset_import: ["" : 17]>
g (int64[n] ids) => (y) <float[3] table = {0, 1, 2}> { y = Gather (table, ids) }"""

PART = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[4, 3] x, int64[2] ids) => (y) { y = Gather (x, ids) }"""

LEVELS = "--levels none"
CONTRACTS = f"audit n --contract o {LEVELS}"
CONTRACT = ".onnx.contract.json"


def network(path: str, text: str = NETWORK) -> None:
    """Write a network of a user."""
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_bytes(parser.parse_model(text).SerializeToString())


@pytest.fixture(autouse=True)
def _inputs(folder: Path) -> None:
    """Programs and networks, two of each, so that one may fail alone."""
    program("d/a.json")
    program("d/b.json")
    network("n/a.onnx")
    network("n/b.onnx")
    network("part/a.onnx", PART)


@dataclass(frozen=True, slots=True)
class Place:
    """A command, with a file that it names and another of the same run."""

    command: str
    path: str
    other: str


PLACES = [
    Place(*map(str.strip, line.split("|")))
    for line in f"""\
        convert d                              | d/a.onnx          | d/b.onnx
        convert d -o o                         | o/a.onnx          | o/b.onnx
        convert d --whole                      | d/a.onnx          | d/b.onnx
        convert d --target webnn               | d/a.mjs           | d/b.mjs
        convert d --target webnn -o o          | o/a.mjs           | o/b.mjs
        convert part/a.onnx                    | part/a.001_y.onnx | part/a.001_y.json
        convert part/a.onnx                    | part/a.001_y.json | part/a.001_y.onnx
        convert part/a.onnx -o x.onnx          | x.json            | x.onnx
        harden n -o o {LEVELS}      | o/a.onnx          | o/b.onnx
        {CONTRACTS} | o/a{CONTRACT} | o/b{CONTRACT}""".splitlines()
]
"""Each command that names files; `run` and `extract` have tests of their own."""

NOT_WRITTEN = "as onnxgather did not write it; --force replaces it"
CHANGED = "as somebody changed it since onnxgather wrote it; --force replaces it"


def a_network(path: Path, _: bytes) -> str:
    path.write_bytes(parser.parse_model(NETWORK).SerializeToString())
    return NOT_WRITTEN


def a_text(path: Path, _: bytes) -> str:
    path.write_bytes(b"mine\n")
    return NOT_WRITTEN


def a_module_of_others(path: Path, _: bytes) -> str:
    path.write_bytes(b"// Written by a program, not onnxgather 0.1.0.\nlet x;\n")
    return NOT_WRITTEN


def a_module_without_its_line(path: Path, _: bytes) -> str:
    path.write_text(og.to_webnn(DESC).to_javascript(), encoding="utf-8")
    return NOT_WRITTEN


def a_program_of_a_user(path: Path, _: bytes) -> str:
    program(str(path))
    return NOT_WRITTEN


def a_network_of_ours_and_a_relu(path: Path, _: bytes) -> str:
    merged = merged_with_relu(compose.add_prefix(og.to_onnx(DESC), "g/"))
    path.write_bytes(merged.SerializeToString())
    return CHANGED


def a_hardened_network_with_a_node_less(path: Path, _: bytes) -> str:
    model = og.harden(parser.parse_model(NETWORK), levels=[])
    del model.graph.node[0]
    path.write_bytes(model.SerializeToString())
    return CHANGED


def a_model_of_another_opset(path: Path, _: bytes) -> str:
    model = og.to_onnx(DESC)
    model.opset_import[0].version += 1
    path.write_bytes(model.SerializeToString())
    return CHANGED


def our_file_with_a_byte_more(path: Path, own: bytes) -> str:
    # To a model it is an empty field.
    path.write_bytes(own + (b"\x0a\x00" if own.startswith(b"\x08") else b"\n"))
    return CHANGED


def our_file_with_another_last_byte(path: Path, own: bytes) -> str:
    path.write_bytes(own[:-1] + bytes([own[-1] ^ 1]))
    return CHANGED


def a_folder(path: Path, _: bytes) -> str:
    path.mkdir()
    (path / "precious").write_bytes(b"mine")
    return "as it is a folder"


def a_link(path: Path, _: bytes) -> str:
    Path("precious").write_bytes(b"mine")
    path.symlink_to(Path("precious").absolute())
    return "as it is a link"


def a_link_to_our_file(path: Path, own: bytes) -> str:
    Path("precious").write_bytes(own)
    path.symlink_to(Path("precious").absolute())
    return "as it is a link"


def a_link_to_nothing(path: Path, _: bytes) -> str:
    path.symlink_to("nowhere")
    return "as it is a link"


Intruder = Callable[[Path, bytes], str]
"""Puts something in the place of a file, of which the bytes are given that onnxgather
writes; it returns why that is not replaced."""

PLAIN: tuple[Intruder, ...] = (
    a_network,
    a_text,
    a_module_of_others,
    a_module_without_its_line,
    a_program_of_a_user,
    a_network_of_ours_and_a_relu,
    a_hardened_network_with_a_node_less,
    a_model_of_another_opset,
    our_file_with_a_byte_more,
    our_file_with_another_last_byte,
)
LINKS: tuple[Intruder, ...] = (a_link, a_link_to_our_file, a_link_to_nothing)


def tree() -> dict[str, bytes | str]:
    """Return the bytes of files below the current folder, and the ends of links."""
    found: dict[str, bytes | str] = {}
    for path in sorted(Path().rglob("*")):
        if path.is_symlink():
            found[path.as_posix()] = os.readlink(path)
        elif path.is_file():
            found[path.as_posix()] = path.read_bytes()
    return found


def undisturbed(place: Place) -> tuple[bytes, bytes]:
    """Run a command where nothing is in its way; return the bytes of both files."""
    succeed(place.command)
    own = read_bytes(place.path)
    other = read_bytes(place.other)
    for path in {path for path in tree() if path.startswith("o/")}:
        Path(path).unlink()
    for path in (place.path, place.other):
        Path(path).unlink(missing_ok=True)
        Path(path).parent.mkdir(exist_ok=True)
    return own, other


def kept(place: Place, intruder: Intruder, *options: str) -> None:
    """Run a command with something in the place of one of its files, which stays."""
    own, other = undisturbed(place)
    why = intruder(Path(place.path), own)
    before = tree()
    code, _, error = outcome(place.command, *options)
    sentence = f"Error: {place.path} must not be replaced, {why}"
    assert code == 2
    assert [line for line in error.splitlines() if "Error" in line] == [sentence]
    after = tree()
    assert after.pop(place.other) == other
    before.pop(place.other, None)
    assert after == before


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("intruder", one_quick_in(3, [*PLAIN, a_folder]))
def test_what_a_user_has_there_stays_and_the_other_file_is_written(
    place: Place, intruder: Intruder
) -> None:
    kept(place, intruder)


@POSIX
@pytest.mark.parametrize("place", one_quick_in(3, PLACES), ids=str)
@pytest.mark.parametrize("intruder", LINKS)
def test_a_link_stays_with_its_target(place: Place, intruder: Intruder) -> None:
    kept(place, intruder)


@POSIX
@pytest.mark.parametrize("place", one_quick_in(3, PLACES), ids=str)
@pytest.mark.parametrize("intruder", [a_folder, *LINKS])
def test_force_replaces_no_folder_and_no_link(place: Place, intruder: Intruder) -> None:
    kept(place, intruder, "--force")


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("intruder", [a_network, a_text, our_file_with_a_byte_more])
def test_force_replaces_a_plain_file(place: Place, intruder: Intruder) -> None:
    own, other = undisturbed(place)
    intruder(Path(place.path), own)
    code, _, error = outcome(place.command, "--force")
    assert (code, "Error" in error) == (0, False)
    assert read_bytes(place.path) == own
    assert read_bytes(place.other) == other


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_an_empty_file_and_an_own_one_are_replaced(place: Place) -> None:
    own, _ = undisturbed(place)
    ours = og.harden(og.to_onnx(DESC, "error"), "zero").SerializeToString()
    for content in (b"", own, ours, og.to_onnx(DESC, "zero").SerializeToString()):
        Path(place.path).write_bytes(content)
        code, _, error = outcome(place.command)
        assert (code, "Error" in error) == (0, False)
        assert read_bytes(place.path) == own


def change_inputs() -> None:
    """Give the commands other programs and networks."""
    for path in ("d/a.json", "d/b.json"):
        desc = {**og.to_dict(DESC)["desc"], "Axis": 0}
        desc["OutputTensor"] = {"DataType": "FLOAT32", "Sizes": [2, 3]}
        gather = {"type": "DML_OPERATOR_GATHER", "desc": desc}
        changed(path, dispatchables={"gather": gather})
    longer = NETWORK.replace("float[3] table = {", "float[4] table = {3, ")
    for path in ("n/a.onnx", "n/b.onnx"):
        network(path, longer)
    network("part/a.onnx", PART.replace("float[4, 3]", "float[5, 3]"))


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_our_file_of_another_source_is_replaced(place: Place) -> None:
    succeed(place.command)
    before = read_bytes(place.path)
    change_inputs()
    code, _, error = outcome(place.command)
    assert (code, "Error" in error) == (0, False)
    assert read_bytes(place.path) != before


@pytest.mark.parametrize("target", [*TARGETS, "webnn"])
def test_models_of_each_policy_and_target_replace_one_another(target: Target) -> None:
    for policy in (*POLICIES, *POLICIES):
        arguments = f"--out-of-range {policy} --target {target}"
        succeed(f"convert d {arguments}")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_file_that_the_user_names_has_the_bytes_of_the_function(
    policy: OutOfRange,
) -> None:
    arguments = f"convert d/a.json --out-of-range {policy}"
    for name in ("x.onnx", "x.mjs", "x.json"):
        a_text(Path(name), b"")
    succeed(f"{arguments} -o x.onnx")
    assert read_bytes("x.onnx") == og.to_onnx(DESC, policy).SerializeToString()
    webnn = og.to_webnn(DESC, policy)
    for name, text in (("x.mjs", webnn.to_javascript()), ("x.json", webnn.to_json())):
        succeed(f"{arguments} --target webnn -o", name)
        assert read_text(name) == text


def test_the_program_beside_the_model_of_a_network_is_read_and_runs() -> None:
    succeed("convert part/a.onnx")
    text = output_of("run part/a.001_y.json")
    assert text == "Resource 'output': 0, 0, 0, 0, 0, 0\n"


def test_a_file_that_must_stay_is_told_before_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("it worked in vain")

    for path in ("d/a.onnx", "o/a.onnx"):
        Path(path).parent.mkdir(exist_ok=True)
        a_text(Path(path), b"")
    monkeypatch.setattr(write, "descriptor_model", fail)
    monkeypatch.setattr(harden, "harden_file", fail)
    for command in ("convert d/a.json", "harden n/a.onnx -o o"):
        code, _, error = outcome(command)
        assert (code, error.count(NOT_WRITTEN)) == (2, 1)


def test_a_file_that_comes_during_the_work_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harden_file = harden.harden_file

    def during_work(premises: Any, output: str, *rest: Any) -> Any:
        a_text(Path(output), b"")
        return harden_file(premises, output, *rest)

    Path("o").mkdir()
    monkeypatch.setattr(harden, "harden_file", during_work)
    error = f"Error: o/a.onnx must not be replaced, {NOT_WRITTEN}\n"
    assert outcome("harden n/a.onnx -o o")[::2] == (2, error)
    assert read_bytes("o/a.onnx") == b"mine\n"


def test_a_clash_of_names_fails_those_files_alone() -> None:
    program("e/a.json")
    program("e/c.json")
    code, text, error = outcome("convert d e -o o")
    place = "$.dispatchables.gather"
    sentence = f"o/a.onnx must not be written twice, for d/a.json: {place}"
    sentence = f"Error: {sentence} and e/a.json: {place}"
    assert code == 2
    assert text == (
        "d/b.json -> o/b.onnx\ne/c.json -> o/c.onnx\n"
        "4 programs: 2 models written, 2 errors\n"
    )
    lines = error.splitlines()
    assert sorted(lines) == [sentence, sentence, "new folder: o"]


def test_an_input_is_no_output_and_the_others_are_written() -> None:
    shutil.copy("d/a.json", "d/b.onnx")
    before = read_bytes("d/b.onnx")
    paths = "d/a.json d/b.json d/b.onnx"
    code, text, error = outcome(f"convert {paths} --force")
    sentence = "Error: d/b.onnx must not be written, as it is an input\n"
    counts = "3 programs: 1 model written, 2 errors\n"
    assert (code, text) == (2, f"d/a.json -> d/a.onnx\n{counts}")
    assert error == sentence * 2
    assert read_bytes("d/b.onnx") == before


class TestContracts:
    """The contracts of a folder say who wrote them."""

    PATH = f"o/a{CONTRACT}"

    def test_a_contract_is_taken_with_and_without_the_field(self) -> None:
        succeed(CONTRACTS)
        succeed(f"audit n/a.onnx {LEVELS} --contract c.json")
        plain = og.audit("n/a.onnx", levels=[]).contract
        for path in (self.PATH, "c.json"):
            og.check_inputs(path, {"ids": np.array([0, 2])})
            with pytest.raises(og.OnnxGatherError):
                og.check_inputs(path, {"ids": np.array([3])})
            model = og.contract_model(path, "n/a.onnx")
            assert model == og.contract_model(plain, "n/a.onnx")
            text = output_of(f"audit n/a.onnx {LEVELS} --assume {path}")
            assert "1 proved in range" in text

    def test_the_field_is_the_first_and_the_rest_is_the_contract(self) -> None:
        succeed(CONTRACTS)
        succeed(f"audit n/a.onnx {LEVELS} --contract c.json")
        head, comma, rest = read_bytes(self.PATH).partition(b",")
        assert head.startswith(b'{"made_by": "onnxgather ')
        _, comma, rest = (comma + rest).partition(b'",')
        assert b"{" + rest == read_bytes("c.json")

    def test_a_contract_that_was_edited_is_read_and_not_replaced(self) -> None:
        succeed(CONTRACTS)
        path = Path(self.PATH)
        text = path.read_text(encoding="utf-8")
        assert text.count('"high": 2') == 1
        path.write_text(text.replace('"high": 2', '"high": 1'), encoding="utf-8")
        edited = path.read_bytes()
        with pytest.raises(og.OnnxGatherError):
            og.check_inputs(str(path), {"ids": np.array([2])})
        code, _, error = outcome(CONTRACTS)
        assert (code, path.read_bytes()) == (2, edited)
        assert error.splitlines() == [
            f"Error: {path.as_posix()} must not be replaced, {CHANGED}",
            "written: o, 1 file",
        ]


class TestRun:
    """A file of writeFile has no place for a word on who wrote it."""

    RULE = (
        "Error: w.json: $.commands[0].targetPath must name a file that is new, is empty"
        " or has these bytes already, as bytes do not say who wrote them; --force"
        " replaces any file, got 'Makefile'"
    )

    @pytest.fixture(autouse=True)
    def _program(self) -> None:
        command = {"type": "writeFile", "resource": "data", "targetPath": "Makefile"}
        changed(program("w.json"), commands=[command])

    def own(self) -> bytes:
        """Return the bytes that the program writes."""
        succeed("run w.json")
        own = read_bytes("Makefile")
        Path("Makefile").unlink()
        return own

    @pytest.mark.parametrize("intruder", PLAIN)
    def test_a_file_of_a_user_stays(self, intruder: Intruder) -> None:
        own = self.own()
        intruder(Path("Makefile"), own)
        before = tree()
        assert outcome("run w.json") == (2, "", f"{self.RULE}\n")
        assert tree() == before
        succeed("run w.json --force")
        assert read_bytes("Makefile") == own

    @POSIX
    @pytest.mark.parametrize("force", ["", "--force"])
    @pytest.mark.parametrize(
        ("intruder", "rule"),
        [
            (a_folder, "must be a file, not a folder or a device"),
            (a_link, "must not lead through a link"),
            (a_link_to_our_file, "must not lead through a link"),
            (a_link_to_nothing, "must not lead through a link"),
        ],
    )
    def test_a_folder_and_a_link_stay(
        self, intruder: Intruder, rule: str, force: str
    ) -> None:
        intruder(Path("Makefile"), self.own())
        before = tree()
        place = "Error: w.json: $.commands[0].targetPath"
        sentence = f"{place} {rule}, got 'Makefile'\n"
        assert outcome(f"run w.json {force}") == (2, "", sentence)
        assert tree() == before

    def test_an_empty_file_and_the_same_bytes_are_replaced(self) -> None:
        own = self.own()
        for content in (b"", own):
            Path("Makefile").write_bytes(content)
            succeed("run w.json")
            assert read_bytes("Makefile") == own

    @POSIX
    def test_behind_a_link_that_is_allowed_the_same_rule_holds(self) -> None:
        a_link(Path("Makefile"), self.own())
        before = tree()
        assert outcome("run w.json --allow-outside")[2] == f"{self.RULE}\n"
        assert tree() == before
        succeed("run w.json --allow-outside --force")
        assert Path("Makefile").is_symlink()
        assert read_bytes("precious") != b"mine"


class TestExtract:
    """An extract deletes and replaces only what it wrote."""

    ALL = "extract part/a.onnx --all --inputs x.npz -o out"
    BELOW = "out/gathers/001_y"

    @pytest.fixture(autouse=True)
    def _extract(self) -> None:
        np.savez("x.npz", x=np.zeros((4, 3), np.float32), ids=np.array([1, 0]))
        succeed(self.ALL)

    def refused(self, path: str, why: str, *options: str) -> None:
        """Check that an extract is refused, and that all files stay."""
        before = tree()
        assert error_of(self.ALL, *options) == f"{path} must not be {why}"
        assert tree() == before

    def test_an_extract_replaces_its_own(self) -> None:
        before = tree()
        succeed(self.ALL)
        assert tree() == before
        np.savez("x.npz", x=np.ones((4, 3), np.float32), ids=np.array([1, 0]))
        succeed(self.ALL)
        assert tree() != before

    @pytest.mark.parametrize("intruder", one_quick_in(4, PLAIN))
    @pytest.mark.parametrize("name", ["repro.py", "model.onnx"])
    def test_a_file_that_was_changed_stays(self, intruder: Intruder, name: str) -> None:
        path = f"{self.BELOW}/{name}"
        own = read_bytes(path)
        intruder(Path(path), own)
        self.refused(path, f"replaced, {CHANGED}")
        succeed(f"{self.ALL} --force")
        assert read_bytes(path) == own

    def test_the_index_that_was_changed_stays(self) -> None:
        with open("out/index.json", "a", encoding="utf-8") as stream:
            stream.write("\n")
        self.refused("out/index.json", f"replaced, {CHANGED}")

    @pytest.mark.parametrize(
        "name", ["note.txt", "gathers/note.txt", "gathers/001_y/below/note.txt"]
    )
    def test_a_note_of_a_user_stays(self, name: str) -> None:
        path = f"out/{name}"
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_bytes(b"mine")
        before = tree()
        if name == "note.txt":
            rule = "out: the folder must be new, empty or an earlier extract"
            assert error_of(f"{self.ALL} --force") == f"{rule}, got 'note.txt'"
        else:
            why = "in an earlier extract, as the extract did not write it"
            self.refused(path, f"{why}; --force leaves it there")
            succeed(f"{self.ALL} --force")
        assert tree() == before

    @POSIX
    @pytest.mark.parametrize("intruder", LINKS)
    def test_a_link_stays_with_its_target(self, intruder: Intruder) -> None:
        path = f"{self.BELOW}/repro.py"
        own = read_bytes(path)
        Path(path).unlink()
        intruder(Path(path), own)
        why = "in an earlier extract, as the extract did not write it"
        self.refused(path, f"{why}; --force leaves it there")
        self.refused(path, "replaced, as the extract did not write it", "--force")

    def test_a_folder_of_a_user_stays(self) -> None:
        path = f"{self.BELOW}/repro.py"
        Path(path).unlink()
        a_folder(Path(path), b"")
        inner = f"{path}/precious"
        why = "in an earlier extract, as the extract did not write it"
        self.refused(inner, f"{why}; --force leaves it there")
        self.refused(inner, "replaced, as the extract did not write it", "--force")

    @pytest.mark.parametrize("name", ["inputs.npz", "model.onnx"])
    def test_no_input_is_deleted(self, name: str) -> None:
        path = f"{self.BELOW}/{name}"
        arguments = "extract part/a.onnx --all -o out --force"
        rest = f"--inputs {path}"
        if name == "model.onnx":
            arguments = f"extract {path} --all -o out --force"
            rest = "--inputs x.npz"
        before = tree()
        sentence = f"{path} must be outside of out, whose files are replaced"
        assert error_of(f"{arguments} {rest}") == sentence
        assert tree() == before


class TestOtherFolders:
    """Folders of the corpus and of a repro, which are written whole, too."""

    @pytest.mark.slow
    def test_the_corpus_deletes_no_file_of_a_user(self) -> None:
        export = "corpus export --format json c"
        succeed(export)
        own = read_bytes("c/README.md")
        Path("c/README.md").write_bytes(b"mine")
        assert error_of(export) == f"c/README.md must not be replaced, {CHANGED}"
        assert read_bytes("c/README.md") == b"mine"
        succeed(f"{export} --force")
        assert read_bytes("c/README.md") == own
