"""Running programs: policies, what is printed, which files are written, and how much
memory."""

from __future__ import annotations

import json
import os
import secrets
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import message_of
from small_programs import gather, shown, small_program

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.errors import FileFormatError
from onnxgather.core.options import OutOfRange
from onnxgather.core.programs import outside
from onnxgather.core.programs.program import parse_program
from onnxgather.core.programs.running import (
    PIECE,
    ByteForm,
    execute,
    printed,
)

NOT_ASCII = (
    "p.json: $.commands[0]: 8-bit values are printed as bytes, as dxdispatch does;"
    " --numbers prints numbers"
)

POSIX = pytest.mark.skipif(os.name == "nt", reason="makes links and pipes")


def program_of(
    data: object, indices: object, data_type: str = "FLOAT32", **resource: Any
) -> dict[str, Any]:
    """A program that gathers as many elements of `data` as there are indices, and
    prints them."""
    size = resource.pop("size", np.size(np.array(data)))
    count = np.size(np.array(indices))
    typed = {"DataType": data_type}
    kinds: dict[str, Any] = {"InputTensor": typed, "OutputTensor": typed}
    dispatch = gather(
        "x", "i", "y", size, count, IndicesTensor={"DataType": "INT32"}, **kinds
    )
    zeros = {"value": 0, "valueCount": count}
    x = {"initialValuesDataType": data_type, "initialValues": data, **resource}
    i = {"initialValuesDataType": "INT32", "initialValues": indices}
    y = {"initialValuesDataType": data_type, "initialValues": zeros}
    return json.loads(small_program({"x": x, "i": i, "y": y}, dispatch, shown("y")))


def run(
    program: dict[str, Any],
    out_of_range: OutOfRange = "directml",
    folder: str | Path = ".",
    **more: Any,
) -> tuple[str, list[str]]:
    """Return what a program prints and the notes."""
    notes: list[str] = []
    parsed = parse_program(json.dumps(program), "p.json")
    pieces = execute(
        parsed, reference, out_of_range, output_folder=folder, note=notes.append, **more
    )
    return b"".join(pieces).decode("latin-1"), notes


def refused(program: dict[str, Any], **options: Any) -> str:
    """Return the rule that the target of the first command breaks."""
    message = message_of(FileFormatError, run, program, **options)
    start = "p.json: $.commands[0].targetPath"
    assert message.startswith(start)
    return message.removeprefix(start)


class TestIndicesOutOfRange:
    def test_directml_is_the_default(self) -> None:
        program = json.dumps(program_of([10, 11, 12, 13], [9, 1, -9]))
        # DirectML adds 4 to -9 once; the offset then wraps far behind the last element.
        lines = execute(parse_program(program, "p.json"), reference, output_folder=".")
        assert b"".join(lines) == b"Resource 'y': 13, 11, 13\n"

    @pytest.mark.parametrize(
        ("policy", "values", "told"),
        [
            (
                "directml",
                "13, 11, 13",
                (
                    "1 of 3 output elements differ, first OutputTensor[2]: 13 under"
                    " directml, 10 under clamp; for the other"
                    " output: --out-of-range clamp"
                ),
            ),
            (
                "clamp",
                "13, 11, 10",
                (
                    "1 of 3 output elements differ, first OutputTensor[2]: 10 under"
                    " clamp, 13 under directml; for the other"
                    " output: --out-of-range directml"
                ),
            ),
            (
                "zero",
                "0, 11, 0",
                (
                    "2 of 3 output elements differ, first OutputTensor[0]: 0 under"
                    " zero, 13 under directml; for the other"
                    " output: --out-of-range directml"
                ),
            ),
        ],
    )
    def test_a_note_counts_them_and_says_what_another_policy_gives(
        self, policy: OutOfRange, values: str, told: str
    ) -> None:
        assert run(program_of([10, 11, 12, 13], [9, 1, -9]), policy) == (
            f"Resource 'y': {values}\n",
            [
                "p.json: $.commands[0]: indices out of range: 2 of 3, first"
                f" IndicesTensor[0] = 9; {told}"
            ],
        )

    def test_large_outputs_are_not_compared_with_directml(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(outside, "COMPARED", 2)
        _, notes = run(program_of([1, 2], [9, 0, 1]), "clamp")
        assert notes == [
            "p.json: $.commands[0]: indices out of range: 1 of 3, first"
            " IndicesTensor[0] = 9; too many output elements to compare with directml:"
            " 3"
        ]

    @pytest.mark.parametrize("policy", ["clamp", "error", "zero", "directml"])
    def test_every_policy_is_clamp_where_every_index_is_in_range(
        self, policy: OutOfRange
    ) -> None:
        asked: list[str] = []

        def evaluate(
            desc: Descriptor, data: Array, indices: Array, by: OutOfRange
        ) -> Array:
            asked.append(by)
            return reference(desc, data, indices, by)

        notes: list[str] = []
        program = parse_program(json.dumps(program_of([1, 2, 3], [2, -3])), "p.json")
        pieces = execute(
            program, evaluate, policy, output_folder=".", note=notes.append
        )
        assert b"".join(pieces) == b"Resource 'y': 3, 1\n"
        assert (asked, notes) == (["clamp"], [])

    def test_directml_reads_what_the_resource_holds_behind_the_elements(self) -> None:
        program = program_of(list(b"abcdeXYZ"), [4, 5, 6, 99], "UINT8", size=5)
        assert run(program)[0] == "Resource 'y': e, X, Y, Z\n"
        assert run(program, "clamp")[0] == "Resource 'y': e, e, e, e\n"


class TestPrinting:
    @pytest.mark.parametrize("verbose", [False, True])
    @pytest.mark.parametrize("data_type", ["FLOAT16", "UINT8", "INT64"])
    def test_the_pieces_of_a_line_are_its_values_in_order(
        self, data_type: str, verbose: bool
    ) -> None:
        kind, count = TensorDataType(data_type), 2 * PIECE + 3
        values = (np.arange(count) % 97 + 1).astype(kind.numpy)
        content = values.view(np.uint8)
        pieces = list(printed("r", kind, content, verbose=verbose))
        assert max(map(len, pieces)) < PIECE * 32
        texts = [
            f"{v:g}" if data_type == "FLOAT16" else str(v) for v in values.tolist()
        ]
        if data_type == "UINT8":
            texts = [chr(v) for v in values.tolist()]
        wanted = f"Resource 'r': {', '.join(texts)}\n"
        if verbose:
            bits = values.view(f"u{kind.size}").tolist()
            rows = [
                f"[{i:5}] {text} (0x{b:{kind.size * 2}X})\n"
                for i, (text, b) in enumerate(zip(texts, bits, strict=True))
            ]
            wanted = f"Resource 'r':\n{''.join(rows)}\n"
        assert b"".join(pieces).decode("latin-1") == wanted

    def test_a_line_ends_at_a_nul_in_a_later_piece(self) -> None:
        content = np.full(3 * PIECE, ord("A"), np.uint8)
        content[PIECE + 1] = 0
        line = b"".join(printed("r", TensorDataType.UINT8, content, verbose=False))
        assert line == b"Resource 'r': " + b"A, " * (PIECE + 1) + b"\n"

    @pytest.mark.slow
    def test_printing_takes_little_memory(self) -> None:
        content = np.arange(2**19, dtype=np.float32).view(np.uint8)
        tracemalloc.start()
        for _ in printed("r", TensorDataType.FLOAT32, content, verbose=False):
            pass
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2**23

    @pytest.mark.parametrize(
        ("data_type", "values", "line"),
        [
            (
                "FLOAT32",
                ["NaN", "inf", "-INF", -0.0, 1e-45, 0.1, 1e20, 1234567],
                "nan, inf, -inf, -0, 1.4013e-45, 0.1, 1e+20, 1.23457e+06",
            ),
            (
                "FLOAT16",
                ["nan", -0.0, 6e-8, 0.1, 65504, 1e5],
                "nan, -0, 5.96046e-08, 0.0999756, 65504, inf",
            ),
            (
                "FLOAT64",
                [5e-324, 1e100, 123456789, 1e-5, 1 / 3],
                "4.94066e-324, 1e+100, 1.23457e+08, 1e-05, 0.333333",
            ),
            ("INT8", [65, -1, 10], "A, \xff, \n"),
            ("INT16", [-32768, 32767], "-32768, 32767"),
            ("UINT16", [65535], "65535"),
            ("UINT32", [4294967295], "4294967295"),
            ("INT64", [-(2**63)], "-9223372036854775808"),
            ("UINT64", [2**64 - 1], "18446744073709551615"),
        ],
    )
    def test_every_kind_of_value(
        self, data_type: str, values: list[Any], line: str
    ) -> None:
        program = program_of(values, [0], data_type)
        program["commands"] = [shown("x")]
        notes = [NOT_ASCII] if data_type == "INT8" else []
        assert run(program) == (f"Resource 'x': {line}\n", notes)

    @pytest.mark.parametrize(
        ("byte_form", "line"),
        [
            ("bytes", "A, \n"),
            ("escapes", r"A, \x00, \x1b, \xff, \\, \n" + "\n"),
            ("numbers", "65, 0, 27, 255, 92, 10\n"),
        ],
    )
    def test_bytes_have_three_forms(self, byte_form: ByteForm, line: str) -> None:
        program = program_of([65, 0, 27, 255, 92, 10], [0], "UINT8")
        program["commands"] = [shown("x")]
        text, notes = run(program, byte_form=byte_form)
        assert text == f"Resource 'x': {line}"
        assert notes == ([NOT_ASCII] if byte_form == "bytes" else [])

    def test_signed_bytes_are_signed_numbers(self) -> None:
        program = program_of([65, -1], [0], "INT8")
        program["commands"] = [{"type": "print", "resource": "x", "verbose": True}]
        text, _ = run(program, byte_form="numbers")
        assert text == "Resource 'x':\n[0] 65 (0x41)\n[1] -1 (0xFF)\n\n"


def writing(target: str, values: Iterable[int] = (7, 8)) -> dict[str, Any]:
    """A program that writes a resource to a file."""
    program = program_of(list(values), [0])
    program["commands"] = [{"type": "writeFile", "resource": "x", "targetPath": target}]
    return program


class TestWriteFile:
    @pytest.mark.parametrize(
        "target", ["y.bin", "new/y.bin", "new\\y.bin", "./a/../new/./y.bin"]
    )
    def test_its_line_has_the_whole_path(self, tmp_path: Path, target: str) -> None:
        path = tmp_path / ("y.bin" if target == "y.bin" else "new/y.bin")
        line = f"Resource 'x' written to '{path}'\n".encode().decode("latin-1")
        assert run(writing(target), folder=tmp_path) == (line, [])
        assert path.read_bytes() == np.array([7, 8], np.float32).tobytes()

    def test_a_file_that_is_empty_or_has_the_bytes_is_replaced(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "y.bin").touch()
        content = np.array([2, 3], np.float32).tobytes()
        for _ in range(2):
            run(writing("y.bin", [2, 3]), folder=tmp_path)
            assert (tmp_path / "y.bin").read_bytes() == content

    @pytest.mark.parametrize("before", [b"before", b"four", b"\0\0\0\0"])
    def test_any_other_file_is_replaced_by_force_alone(
        self, tmp_path: Path, before: bytes
    ) -> None:
        path = tmp_path / "y.bin"
        path.write_bytes(before)
        assert refused(writing("y.bin", [1]), folder=tmp_path) == (
            " must name a file that is new, is empty or has these bytes already, as"
            " bytes do not say who wrote them; --force replaces any file, got 'y.bin'"
        )
        assert path.read_bytes() == before
        run(writing("y.bin", [1]), folder=tmp_path, force=True)
        assert path.read_bytes() == np.array([1], np.float32).tobytes()

    def test_a_later_command_replaces_what_the_run_wrote(self, tmp_path: Path) -> None:
        program = program_of([7, 8], [0])
        names = ("x", "y", "x")
        program["commands"] = [
            {"type": "writeFile", "resource": name, "targetPath": "./z.bin"}
            for name in names
        ]
        run(program, folder=tmp_path)
        content = np.array([7, 8], np.float32).tobytes()
        assert (tmp_path / "z.bin").read_bytes() == content

    @pytest.mark.parametrize(
        ("target", "rule"),
        [
            ("../y.bin", "must stay in the output folder"),
            ("/y.bin", "must stay in the output folder"),
            ("..\\y.bin", "must stay in the output folder"),
            ("a/../../y.bin", "must stay in the output folder"),
            ("\\\\server\\share\\y.bin", "must stay in the output folder"),
            (".bashrc", "must have no hidden and no reserved name"),
            (".git/hooks/post-checkout", "must have no hidden and no reserved name"),
            ("a\\.git\\config", "must have no hidden and no reserved name"),
            ("\u200c.git/config", "must have no hidden and no reserved name"),
            ("...", "must have no hidden and no reserved name"),
            ("C:\\y.bin", "must have no hidden and no reserved name"),
            ("C:y.bin", "must have no hidden and no reserved name"),
            ("a.txt:stream", "must have no hidden and no reserved name"),
            ("nul", "must have no hidden and no reserved name"),
            ("a/com1.npy", "must have no hidden and no reserved name"),
            ("CON .txt", "must have no hidden and no reserved name"),
            ("y?.bin", "must have no hidden and no reserved name"),
            ("y\n.bin", "must have no hidden and no reserved name"),
            ("folder", "must be a file, not a folder or a device"),
            (".", "must be a file, not a folder or a device"),
        ],
    )
    @POSIX  # on Windows, drives are outside
    def test_targets_that_are_refused_before_anything_runs(
        self, tmp_path: Path, target: str, rule: str
    ) -> None:
        (tmp_path / "out" / "folder").mkdir(parents=True)
        program = writing(target)
        program["commands"].insert(
            0, {**program["commands"][0], "targetPath": "first.bin"}
        )
        assert message_of(FileFormatError, run, program, folder=tmp_path / "out") == (
            f"p.json: $.commands[1].targetPath {rule}, got {target!r}"
        )
        assert os.listdir(tmp_path / "out") == ["folder"]
        assert os.listdir(tmp_path) == ["out"]

    @POSIX
    @pytest.mark.parametrize(
        "target", ["file.bin", "folder/y.bin", "dangling.bin", "inside.bin"]
    )
    def test_links_are_not_followed(self, tmp_path: Path, target: str) -> None:
        (tmp_path / "precious").write_bytes(b"precious")
        (tmp_path / "elsewhere").mkdir()
        out = tmp_path / "out"
        out.mkdir()
        (out / "plain").write_bytes(b"plain")
        (out / "file.bin").symlink_to(tmp_path / "precious")
        (out / "folder").symlink_to(tmp_path / "elsewhere")
        (out / "dangling.bin").symlink_to(tmp_path / "new")
        (out / "inside.bin").symlink_to(out / "plain")
        rule = f" must not lead through a link, got {target!r}"
        assert refused(writing(target), folder=out) == rule
        assert (tmp_path / "precious").read_bytes() == b"precious"
        assert sorted(os.listdir(tmp_path)) == ["elsewhere", "out", "precious"]
        assert os.listdir(tmp_path / "elsewhere") == []

    @POSIX
    def test_the_output_folder_itself_may_be_hidden_or_a_link(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / ".hidden").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / ".hidden")
        run(writing("y.bin"), folder=tmp_path / "link")
        run(writing("z.bin"), folder=tmp_path / ".hidden" / "deeper")
        assert (tmp_path / ".hidden" / "y.bin").exists()
        assert (tmp_path / ".hidden" / "deeper" / "z.bin").exists()

    @POSIX
    def test_a_device_or_pipe_is_refused(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        rule = " must be a file, not a folder or a device, got 'pipe'"
        assert refused(writing("pipe"), folder=tmp_path) == rule

    @POSIX
    def test_outside_is_anywhere_that_the_user_may_write(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path / "target")
        for name, written in [
            (".hidden", ".hidden"),
            ("../y.bin", "../y.bin"),
            ("link", "target"),
        ]:
            folder = tmp_path / "out" if name.startswith("..") else tmp_path
            line, _ = run(writing(name), folder=folder, allow_outside=True)
            assert (
                line == f"Resource 'x' written to '{os.path.abspath(folder / name)}'\n"
            )
            assert (tmp_path / written.removeprefix("../")).read_bytes()
        assert (tmp_path / "link").is_symlink()

    @pytest.mark.parametrize("allow_outside", [False, True])
    @pytest.mark.parametrize("target", ["x.bin", "p.json", "a/../x.bin"])
    def test_an_input_is_never_replaced(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        target: str,
        allow_outside: bool,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("x.bin").write_bytes(b"precious")
        program = writing(target)
        program["resources"]["x"]["initialValues"] = {"sourcePath": "x.bin"}
        options: dict[str, Any] = {"folder": tmp_path, "allow_outside": allow_outside}
        rule = f" must not be an input of the program, got {target!r}"
        assert refused(program, **options) == rule
        assert Path("x.bin").read_bytes() == b"precious"

    @POSIX
    def test_a_link_that_appears_while_the_program_runs_is_not_followed(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "precious").write_bytes(b"precious")
        out = tmp_path / "out"
        out.mkdir()
        parsed = parse_program(json.dumps(writing("y.bin")), "p.json")
        lines = execute(parsed, reference, output_folder=out)
        (out / "y.bin").symlink_to(tmp_path / "precious")
        rule = "must not lead through a link, got 'y.bin'"
        assert message_of(FileFormatError, list, lines) == (
            f"p.json: $.commands[0].targetPath {rule}"
        )
        assert (tmp_path / "precious").read_bytes() == b"precious"

    @POSIX
    def test_a_link_under_the_random_name_is_not_followed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "precious").write_bytes(b"precious")
        out = tmp_path / "out"
        out.mkdir()

        def guessed(_: int) -> str:
            return "guessed"

        monkeypatch.setattr(secrets, "token_hex", guessed)
        (out / ".onnxgather.guessed.partial").symlink_to(tmp_path / "precious")
        assert refused(writing("y.bin"), folder=out) == ": file exists: y.bin"
        assert (tmp_path / "precious").read_bytes() == b"precious"
        assert os.listdir(out) == [".onnxgather.guessed.partial"]


class TestDataTypes:
    @pytest.mark.parametrize(
        ("held", "bound", "same"),
        [
            ("FLOAT64", "FLOAT32", False),
            ("INT64", "INT32", False),
            ("INT32", "FLOAT32", False),
            ("FLOAT32", "INT32", False),
            ("FLOAT32", "UINT32", False),
            ("UINT64", "UINT32", False),
            ("FLOAT32", "FLOAT32", True),
            ("UINT32", "FLOAT32", True),
            ("UINT8", "FLOAT32", True),
            ("INT32", "UINT32", True),
        ],
    )
    def test_a_tensor_that_reads_numbers_as_others_is_told(
        self, held: str, bound: str, same: bool
    ) -> None:
        program = program_of([1] * 16, [0, 1], bound, size=2)
        program["resources"]["x"]["initialValuesDataType"] = held
        sentence = (
            f"p.json: $.resources.x must hold {bound}, as InputTensor of $.commands[0],"
            f" got {held}"
        )
        printed, notes = run(program)
        assert notes == (
            [] if same else [f"{sentence}; its bytes are bound as they are"]
        )
        content = np.ones(16, TensorDataType(held).numpy).view(
            TensorDataType(bound).numpy
        )
        text = "{:g}, {:g}" if bound == "FLOAT32" else "{}, {}"
        assert printed == f"Resource 'y': {text.format(*content[:2].tolist())}\n"
        parsed = parse_program(json.dumps(program), "p.json")
        if same:
            (found,) = parsed.dispatched(reference)
            assert found.data.tobytes() == content[:2].tobytes()
        else:
            assert message_of(FileFormatError, list, parsed.dispatched(reference)) == (
                sentence
            )

    def test_an_npy_file_of_another_type_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        np.save("x.npy", np.array([1.5, 2.5]))
        program = program_of([0, 0], [0, 1])
        program["resources"]["x"] = {"initialValues": {"sourcePath": "x.npy"}}
        assert run(program) == (
            "Resource 'y': 0, 1.9375\n",
            [
                "p.json: $.resources.x must hold FLOAT32, as InputTensor of"
                " $.commands[0], got FLOAT64; its bytes are bound as they are"
            ],
        )


class TestMemory:
    def test_running_takes_the_buffers_and_one_output_more(self) -> None:
        count = 2**20
        numbers = {"valueStart": 0, "valueDelta": 1, "valueCount": count}
        program = program_of([0], [0])
        for name in ("x", "i", "y"):
            program["resources"][name]["initialValues"] = numbers
        tensors = ("InputTensor", "IndicesTensor", "OutputTensor")
        for name in tensors:
            program["dispatchables"]["g0"]["desc"][name]["Sizes"] = [count]
        parsed = parse_program(json.dumps(program), "p.json")
        buffers = 3 * 4 * count

        def evaluate(
            desc: Descriptor, data: Array, indices: Array, _: OutOfRange
        ) -> Array:
            tracemalloc.reset_peak()
            return data.copy()

        tracemalloc.start()
        assert next(execute(parsed, evaluate, output_folder=".")).startswith(
            b"Resource 'y': "
        )
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < buffers + 4 * count + 2**21
