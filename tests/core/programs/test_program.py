"""Whole programs: reading, running, printing, writing files, and writing programs."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import struct
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folders import DATA, ROOT
from hypothesis import given
from hypothesis import strategies as st
from messages import message_of
from short_descriptors import descriptor
from small_programs import written

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import (
    Descriptor,
)
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.descriptors.spelling import from_dict, to_dict
from onnxgather.core.errors import (
    DescriptorError,
    FileFormatError,
    IndexOutOfRangeError,
)
from onnxgather.core.programs.program import (
    PrintCommand,
    parse_program,
    read_program,
)
from onnxgather.core.programs.running import execute, printed
from onnxgather.core.programs.writer import write_program

SAMPLES = sorted((DATA / "dxdispatch").glob("*.json"))
INVALID = sorted((DATA / "invalid").glob("*.json"))

POSIX = pytest.mark.skipif(
    os.name == "nt", reason="makes links, or quotes POSIX errors"
)

BROKEN_RULES = {
    "descriptor_rule",
    "descriptor_rule_inline",
    "descriptor_size_zero",
    "descriptor_unknown_data_type",
    "descriptor_uint4",
    "descriptor_dimension_count",
    "descriptor_unknown_flag",
}


def small() -> dict[str, Any]:
    """The smallest program: y = x[i]."""
    text = written("y = x[i]; print y", i=(3, 1, 3, 0, 2), y=[0] * 5)
    return json.loads(text)


RIGHT = ["Resource 'y': 14, 12, 14, 11, 13"]
"""What the smallest program prints."""


def run(
    program: dict[str, Any] | str, folder: str | Path = ".", **more: Any
) -> list[str]:
    text = program if isinstance(program, str) else json.dumps(program)
    parsed = parse_program(text, "p.json")
    return printed_lines(execute(parsed, reference, output_folder=folder, **more))


def printed_lines(pieces: Iterable[bytes]) -> list[str]:
    """The lines in pieces of bytes; each character is one byte."""
    return b"".join(pieces).decode("latin-1").split("\n")[:-1]


def refusal(program: dict[str, Any] | str) -> str:
    """The message with which a program is refused, before it runs or when it does."""
    return message_of(FileFormatError, run, program)


def test_the_folders_of_cases_are_not_empty():
    assert len(SAMPLES) >= 3
    assert len(INVALID) >= 100


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_invalid_programs_say_what_is_wrong(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    first, _, _ = path.read_text("utf-8").partition("\n")
    monkeypatch.chdir(path.parent)
    kind = DescriptorError if path.stem in BROKEN_RULES else FileFormatError
    assert first == f"// expect: {message_of(kind, read_program, path.name)}"


PRINTED = {
    "gather_elements_strided": ["Resource 'out': 4, 8, 3, 0, 7, 2, 3, 0"],
    "gather_nd1_batched": ["Resource 'out': 0, 3, 7, 4, 9, 10"],
    "gather_nested_negative": ["Resource 'out': 1, 2, 5, 6, 3, 4, 1, 2"],
}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples_print_what_dxdispatch_prints(path: Path, tmp_path: Path):
    lines = printed_lines(
        execute(read_program(path), reference, output_folder=str(tmp_path))
    )
    assert [line for line in lines if " written to " not in line] == PRINTED[path.stem]


def test_a_sample_writes_its_file(tmp_path: Path):
    program = read_program(DATA / "dxdispatch" / "gather_nd1_batched.json")
    list(execute(program, reference, output_folder=str(tmp_path)))
    found = np.load(tmp_path / "gather_nd1_out.npy")
    assert (found.dtype, found.tolist()) == (np.float16, [[[[0, 3], [7, 4], [9, 10]]]])
    assert os.listdir(tmp_path) == ["gather_nd1_out.npy"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing.json", "no such file or directory"),
        ("", "no such file or directory"),
        (".", "is a directory"),
        ("a\0b", "embedded"),
    ],
)
def test_files_that_cannot_be_read_are_refused(path: str, reason: str):
    told = path.replace("\0", r"\x00")
    assert message_of(FileFormatError, read_program, path).startswith(
        f"{told}: {reason}"
    )


def test_messages_show_the_path_as_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.json").write_text("[]")
    assert message_of(FileFormatError, read_program, "./p.json") == (
        "./p.json: $ must have a descriptor, got an empty array"
    )


OTHER_FILES = {
    "an empty file": b"",
    "UTF-16, which must be UTF-8": '{"resources": {}}'.encode("utf-16"),
    "a gzip file, which must be unpacked": gzip.compress(b"{}"),
    "an .npz or zip file, which onnxgather audit, check, explain, extract, harden,"
    " repro and run take with --inputs": b"PK\3\4\x14\0",
    "an .npy file, which a DxDispatch program names by sourcePath": b"\x93NUMPY\1\0",
    "an ONNX model, which onnxgather audit, certify, check, convert, explain, extract,"
    " harden, repro and show take": b"\x08\x0a\x12\x0aonnxgather",
    "a report, which onnxgather repro and report merge take": (
        b'{"schema": 1, "onnxgather": "0.1"}'
    ),
    "C or C++, which onnxgather does not read": (
        b"// one gather\nconst UINT a[] = {4};"
    ),
}


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_a_file_of_another_kind_is_called_so(kind: str):
    assert message_of(FileFormatError, parse_program, OTHER_FILES[kind], "p") == (
        f"p: must be a DxDispatch program, which is JSON, got {kind}"
    )


def test_utf16_is_recognised_without_its_mark():
    for coding in ("utf-16-le", "utf-16-be", "utf-32"):
        with pytest.raises(FileFormatError, match=r"got UTF-16, which must be UTF-8$"):
            parse_program(json.dumps(small()).encode(coding), "p")


def test_a_model_of_our_own_is_recognised():
    with pytest.raises(FileFormatError, match="got an ONNX model, which"):
        read_program(ROOT / "models" / "token_embedding.onnx")


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("line", ["\n", "\r\n"])
def test_marks_and_line_ends_of_windows_are_read(mark: str, line: str):
    text = mark + json.dumps(small(), indent=1).replace("\n", line)
    assert len(parse_program(text.encode(), "p").dispatch_commands) == 1


TOO_LARGE = (
    "must have at most 33554432 bytes, and larger values in files of their own, which"
    " sourcePath names"
)


@POSIX
def test_a_program_without_an_end_is_refused():
    assert message_of(FileFormatError, read_program, "/dev/zero") == (
        f"/dev/zero: {TOO_LARGE}"
    )


@POSIX
def test_a_pipe_is_read(tmp_path: Path):
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDWR), "wb") as writer:
        writer.write(json.dumps(small()).encode())
        writer.flush()
        reader = threading.Timer(0.2, writer.close)
        reader.start()
        assert len(read_program(pipe).dispatch_commands) == 1


def with_another_operator() -> dict[str, Any]:
    """The smallest program with an addition after the gather."""
    program = small()
    program["dispatchables"]["add"] = {
        "type": "DML_OPERATOR_ELEMENT_WISE_ADD",
        "desc": {"ATensor": 1},
    }
    bindings = {"ATensor": "y"}
    program["commands"].append(
        {"type": "dispatch", "dispatchable": "add", "bindings": bindings}
    )
    return program


OTHER_OPERATOR = (
    "p.json: $.dispatchables.add.type must be one of GATHER, GATHER_ELEMENTS,"
    " GATHER_ND, GATHER_ND1, got 'DML_OPERATOR_ELEMENT_WISE_ADD'"
)


def test_another_operator_may_be_there_and_not_be_dispatched():
    program = with_another_operator()
    assert refusal(program) == OTHER_OPERATOR
    program["commands"].pop()
    assert run(program) == RIGHT


def test_the_gathers_of_a_program_are_read_without_its_other_operators():
    program = with_another_operator()
    found = parse_program(json.dumps(program), "p.json")
    assert list(found.dispatchables) == ["g0"]
    assert [command.path for command in found.commands] == [
        "$.commands[0]",
        "$.commands[1]",
    ]
    assert found.left_out == ("$.dispatchables.add", "$.commands[2]")
    del program["dispatchables"]["g0"]
    program["commands"] = program["commands"][2:]
    assert refusal(program) == OTHER_OPERATOR


def test_a_program_that_takes_too_much_memory_is_refused_before_it_takes_any():
    program = small()
    program["resources"]["y"]["initialValues"] = {"value": 0, "valueCount": 2**28}
    assert refusal(program) == (
        "p.json: $.resources must take at most 1073741824 bytes when it runs, with"
        " all "
        f"resources, got {2**30 + 16 + 20}"
    )
    program = small()
    for name, values in (
        ("x", [1, 2, 3, 4]),
        ("y", {"value": 0, "valueCount": 2**26}),
    ):
        typed = {"initialValuesDataType": "UINT8", "initialValues": values}
        program["resources"][name] = typed
    program["dispatchables"]["g0"]["desc"].update(
        InputTensor={"DataType": "UINT8", "Sizes": [4]},
        IndicesTensor={"DataType": "UINT32", "Sizes": [2**26], "Strides": [0]},
        OutputTensor={"DataType": "UINT8", "Sizes": [2**26]},
    )
    assert len(parse_program(json.dumps(program), "p").dispatch_commands) == 1
    assert refusal(program) == (
        "p.json: $.commands[0] must take at most 1073741824 bytes when it runs,"
        f" with all resources, got {2 * (2**26 + 4) + 20 + 4 + 2 * 8 * 2**26}"
    )


NEAR = [
    (
        ("commands", 0, "type"),
        "dispach",
        "must be one of dispatch, print, writeFile",
        "dispatch",
    ),
    (("commands", 0, "dispatchable"), "G0", "must be the name of a dispatchable", "g0"),
    (("commands", 1, "resource"), "Y", "must be the name of a resource", "y"),
    (
        ("commands", 0, "bindings", "InputTensor"),
        "X",
        "must be the name of a resource",
        "x",
    ),
]


@pytest.mark.parametrize(("path", "name", "rule", "near"), NEAR)
def test_a_name_that_is_nearly_right_gets_a_suggestion(
    path: tuple[Any, ...], name: str, rule: str, near: str
):
    program = small()
    inner: Any = program
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = name
    where = "$" + "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in path)
    assert refusal(program) == (
        f'p.json: {where} {rule}, got {name!r}; did you mean "{near}"?'
    )


def test_a_tensor_and_a_flag_that_are_nearly_right_get_a_suggestion():
    program = small()
    program["commands"][0]["bindings"]["InputTesnor"] = "x"
    assert refusal(program).endswith("got 'InputTesnor'; did you mean \"InputTensor\"?")
    program = small()
    program["dispatchables"]["g0"]["executionFlags"] = "DML_EXECUTION_FLAG_NON"
    assert refusal(program).endswith('did you mean "DML_EXECUTION_FLAG_NONE"?')


def test_repeated_entries_are_all_read_and_the_last_counts():
    text = json.dumps(small())
    doubled = text.replace(
        '"x": {', '"x": {"initialValuesDataType": "INT8", "initialValues": [1]}, "x": {'
    )
    assert run(doubled) == RIGHT
    broken = text.replace('"x": {', '"x": {}, "x": {')
    assert refusal(broken) == ("p.json: $.resources.x.initialValues is required")


def test_the_first_of_repeated_fields_counts():
    text = json.dumps(small()).replace('"Axis": 0', '"Axis": 0, "Axis": 9')
    assert run(text) == RIGHT


def test_commands_run_in_order_and_names_ignore_case():
    program = small()
    dispatch, show = program["commands"]
    program["commands"] = [
        {**show, "type": "PRINT"},
        {**dispatch, "type": "Dispatch"},
        show,
    ]
    assert run(program) == [
        "Resource 'y': 0, 0, 0, 0, 0",
        "Resource 'y': 14, 12, 14, 11, 13",
    ]


def test_a_binding_starts_at_its_offset_and_ignores_element_count():
    program = small()
    program["resources"]["x"]["initialValues"] = [0, 0, 0, 0, 11, 12, 13, 14]
    source: dict[str, Any] = {"name": "x", "elementOffset": 4, "elementCount": 1}
    for binding in (
        source,
        [source],
        {**source, "elementOffset": 1, "elementSizeInBytes": 16},
    ):
        program["commands"][0]["bindings"]["InputTensor"] = binding
        assert run(program) == RIGHT


@pytest.mark.parametrize(
    ("promise", "offset", "told"),
    [
        (0, 16, None),
        (0, 8, "16, got 8"),
        (32, 32, None),
        (32, 16, "32, the GuaranteedBaseOffsetAlignment, got 16"),
        (64, 32, "64, the GuaranteedBaseOffsetAlignment, got 32"),
    ],
)
def test_an_offset_is_a_multiple_of_16_and_of_what_its_tensor_promises(
    promise: int, offset: int, told: str | None
):
    program = small()
    program["resources"]["x"]["initialValues"] = {"value": 7, "valueCount": 64}
    bindings = program["commands"][0]["bindings"]
    bindings["InputTensor"] = {"name": "x", "elementOffset": offset // 4}
    tensor = program["dispatchables"]["g0"]["desc"]["InputTensor"]
    tensor["GuaranteedBaseOffsetAlignment"] = promise
    if told is None:
        assert run(program) == ["Resource 'y': 7, 7, 7, 7, 7"]
    else:
        assert refusal(program) == (
            "p.json: $.commands[0].bindings.InputTensor: elementOffset times"
            f" elementSizeInBytes must be a multiple of {told}"
        )


def test_what_a_gather_has_no_use_for_in_a_binding_is_ignored():
    program = small()
    more = {
        "format": "R32_FLOAT",
        "shape": [4],
        "counter": "y",
        "counterOffsetBytes": 0,
    }
    program["commands"][0]["bindings"]["InputTensor"] = {"name": "x", **more}
    program["commands"][0]["threadGroupCount"] = [1, 1, 1]
    program["dispatchables"]["g0"].update(
        dmlCompileType="DmlCompileGraph",
        executionFlags=[
            "DML_EXECUTION_FLAG_DISABLE_META_COMMANDS",
            "DESCRIPTORS_VOLATILE",
        ],
    )
    assert run(program) == RIGHT


def test_dispatches_yield_the_inputs_of_each_dispatch():
    program = small()
    program["resources"]["i"]["initialValues"] = [1, 2, 3, 0, 0]
    again = json.loads(json.dumps(program["commands"][0]))
    again["bindings"].update(InputTensor="y", OutputTensor="x")
    program["resources"]["x"]["initialValues"].append(0)
    program["commands"].append(again)
    found = list(parse_program(json.dumps(program), "p").dispatched(reference))
    assert [(d.path, d.dispatchable) for d in found] == [
        ("$.commands[0]", "g0"),
        ("$.commands[2]", "g0"),
    ]
    assert [d.data.tolist() for d in found] == [[11, 12, 13, 14], [12, 13, 14, 11]]
    assert [d.output.tolist() for d in found] == [
        [12, 13, 14, 11, 11],
        [13, 14, 11, 12, 12],
    ]
    assert [d.indices.tolist() for d in found] == [[1, 2, 3, 0, 0]] * 2
    assert all(d.descriptor == from_dict(program["dispatchables"]["g0"]) for d in found)


def test_errors_of_the_operator_name_file_and_command():
    def fail(*_: object) -> Array:
        raise IndexOutOfRangeError("too far")

    program = parse_program(json.dumps(small()), "p.json")
    assert (
        message_of(
            IndexOutOfRangeError,
            lambda: list(execute(program, fail, output_folder=".")),
        )
        == "p.json: $.commands[0]: too far"
    )


def test_an_operator_that_returns_something_else_is_noticed():
    program = parse_program(json.dumps(small()), "p.json")
    assert message_of(
        DescriptorError, list, program.dispatched(lambda desc, data, indices: data)
    ) == (
        "p.json: $.commands[0]: OutputTensor must be an array of float32 (5,), got"
        " float32 (4,)"
    )


def test_lack_of_memory_in_an_operator_is_our_error():
    def fail(desc: Descriptor, data: Array, indices: Array) -> Array:
        raise MemoryError

    program = parse_program(json.dumps(small()), "p.json")
    assert message_of(FileFormatError, list, program.dispatched(fail)) == (
        "p.json: $.commands[0]: there is no memory for its tensors"
    )


def shown_line(data_type: str, values: bytes, *, verbose: bool = False) -> str:
    content = np.frombuffer(values, np.uint8)
    pieces = printed("r", TensorDataType(data_type), content, verbose=verbose)
    return b"".join(pieces).decode("latin-1").removesuffix("\n")


@pytest.mark.parametrize(
    ("data_type", "values"), [("UINT8", b"\0"), ("FLOAT32", b"abc")]
)
def test_a_nul_and_a_part_of_an_element_print_nothing(data_type: str, values: bytes):
    assert shown_line(data_type, values) == "Resource 'r': "


@pytest.mark.parametrize(
    ("data_type", "bits", "line"),
    [
        ("FLOAT32", "0000c07f", "nan"),
        ("FLOAT32", "0100807f", "nan"),
        ("FLOAT32", "0000c0ff", "-nan(ind)"),
        ("FLOAT32", "0100c0ff", "-nan"),
        ("FLOAT16", "007e", "nan"),
        ("FLOAT16", "00fe", "-nan(ind)"),
        ("FLOAT16", "01fe", "-nan"),
        ("FLOAT64", "000000000000f87f", "nan"),
        ("FLOAT64", "000000000000f8ff", "-nan(ind)"),
        ("FLOAT64", "010000000000f07f", "nan(snan)"),
        ("FLOAT64", "010000000000f0ff", "-nan(snan)"),
    ],
)
def test_nans_are_printed_as_on_windows(data_type: str, bits: str, line: str):
    assert shown_line(data_type, bytes.fromhex(bits)) == f"Resource 'r': {line}"


def test_verbose_prints_position_and_bits():
    assert (
        shown_line("FLOAT32", struct.pack("<2f", 1, 5e-45), verbose=True)
        == "Resource 'r':\n[0] 1 (0x3F800000)\n[1] 5.60519e-45 (0x       4)\n"
    )
    lines = shown_line("INT16", struct.pack("<10h", *range(-1, 9)), verbose=True).split(
        "\n"
    )
    assert lines[1] == "[ 0] -1 (0xFFFF)"
    assert lines[10] == "[ 9] 8 (0x   8)"
    assert (
        shown_line("INT8", b"A\0", verbose=True) == "Resource 'r':\n[0] A (0x41)\n[1] "
    )


def test_print_stops_at_the_initial_count_and_names_are_bytes():
    program = small()
    program["resources"]["ü"] = {**program["resources"]["x"], "sizeInBytes": 64}
    program["commands"] = [{"type": "print", "resource": "ü", "verbose": False}]
    assert [line.encode("latin-1") for line in run(program)] == [
        "Resource 'ü': 11, 12, 13, 14".encode()
    ]


def write(target: str, **more: Any) -> dict[str, Any]:
    program = small()
    program["commands"][1] = {
        "type": "writeFile",
        "resource": "y",
        "targetPath": target,
        **more,
    }
    return program


def test_a_file_is_written_as_npy(tmp_path: Path):
    run(write("deep/er/y.NPY", dimensions=[1, 5]), tmp_path)
    found = np.load(tmp_path / "deep" / "er" / "y.NPY")
    assert (found.dtype, found.tolist()) == (np.float32, [[14, 12, 14, 11, 13]])


def test_an_npy_file_without_dimensions_has_the_padding_too(tmp_path: Path):
    program = write("y.npy", dimensions=[])
    program["resources"]["y"]["sizeInBytes"] = 32
    run(program, tmp_path)
    assert np.load(tmp_path / "y.npy").tolist() == [14, 12, 14, 11, 13, 0, 0, 0]
    program["commands"][1]["dimensions"] = [5]
    run(program, tmp_path, force=True)
    assert np.load(tmp_path / "y.npy").tolist() == [14, 12, 14, 11, 13]


@POSIX
def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path):
    (tmp_path / "file").touch()
    assert message_of(FileFormatError, run, write("file/y.bin"), tmp_path) == (
        "p.json: $.commands[1].targetPath: file exists: file/y.bin"
    )
    assert os.listdir(tmp_path) == ["file"]


def test_a_program_reads_its_files_beside_it(tmp_path: Path):
    program = small()
    program["resources"]["x"]["initialValues"] = {"sourcePath": "x.npy"}
    np.save(tmp_path / "x.npy", np.array([11, 12, 13, 14], np.float32))
    (tmp_path / "p.json").write_text(json.dumps(program))
    read = read_program(tmp_path / "p.json")
    assert printed_lines(execute(read, reference, output_folder=".")) == RIGHT
    (tmp_path / "sub").mkdir()
    shutil.move(tmp_path / "x.npy", tmp_path / "y.npy")
    program["resources"]["x"]["initialValues"] = {"sourcePath": "../y.npy"}
    (tmp_path / "sub" / "p.json").write_text(json.dumps(program))
    with pytest.raises(FileFormatError):
        read_program(tmp_path / "sub" / "p.json")
    assert read_program(tmp_path / "sub" / "p.json", allow_outside=True).commands[
        1
    ] == (PrintCommand("$.commands[1]", "y", verbose=False))


def test_write_program_is_laid_out_for_people():
    desc = from_dict(small()["dispatchables"]["g0"])
    data = np.array([1, 2.5, -0.0, -3], np.float32)
    indices = np.array([3, 1, 3, 0, 2], np.uint32)
    text = write_program(desc, data, indices, comment="One.\n\nTwo.")
    assert text.startswith("// One.\n//\n// Two.\n{\n")
    assert '"initialValues": [1, 2.5, -0.0, -3]' in text
    assert '"IndicesTensor": {"DataType": "UINT32", "Sizes": [5]},' in text
    assert max(map(len, text.splitlines())) <= 100
    assert text.endswith("}\n")
    assert run(text) == ["Resource 'output': -3, 2.5, -3, 1, -0"]


@pytest.mark.parametrize("data_type", TensorDataType)
def test_write_program_keeps_every_bit(data_type: TensorDataType):
    count = 300
    desc = descriptor(
        f"GATHER: {data_type} {count} bytes {count * 8 + 64},"
        f" INT64 2 flags OWNED_BY_DML, {data_type} 2 strides 7 bytes 100, 0, 1"
    )
    generator = np.random.default_rng(7)
    data = np.frombuffer(generator.bytes(count * data_type.size), data_type.numpy)
    finite = np.where(data == data, data, data_type.numpy.type(1))
    for values in (data, finite):
        indices = np.array([0, -count], np.int64)
        program = parse_program(write_program(desc, values, indices), "p")
        (found,) = program.dispatched(reference)
        assert found.descriptor == desc
        assert found.data.dtype == data.dtype
        assert found.data.tobytes() == values.tobytes()
        assert found.indices.tobytes() == indices.tobytes()
    assert program.resources["data"].data_type == data_type


@given(
    st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4),
    st.sampled_from([16, 32]),
)
def test_write_program_keeps_any_float(bits: list[int], width: int):
    kind = TensorDataType(f"FLOAT{width}")
    desc = descriptor(f"GATHER: {kind} 4, UINT32 1, {kind} 1, 0, 1")
    data = np.array([b % 2**width for b in bits], f"u{width // 8}").view(kind.numpy)
    text = write_program(desc, data, np.zeros(1, np.uint32))
    (found,) = parse_program(text, "p").dispatched(reference)
    assert found.data.tobytes() == data.tobytes()


def test_write_program_refuses_arrays_of_other_tensors():
    desc = from_dict(small()["dispatchables"]["g0"])
    assert (
        message_of(
            DescriptorError,
            write_program,
            desc,
            np.zeros(4, np.float32),
            np.zeros(5, np.int32),
        )
        == "IndicesTensor must be an array of uint32 (5,), got int32 (5,)"
    )


def test_a_long_list_is_wrapped_and_read_back():
    desc = descriptor("GATHER_ELEMENTS: FLOAT32 500, UINT32 1, FLOAT32 1, 0")
    data = (np.arange(500, dtype=np.float32) - 250) * np.float32(1e-7)
    text = write_program(desc, data, np.array([499], np.uint32))
    assert max(map(len, text.splitlines())) <= 100
    (found,) = parse_program(text, "p").dispatched(reference)
    assert found.data.tobytes() == data.tobytes()
    assert to_dict(found.descriptor) == to_dict(desc)


@given(st.text() | st.binary())
def test_any_text_is_refused_or_a_program(text: str | bytes):
    message = message_of(FileFormatError, parse_program, text, "p.json")
    assert message.startswith("p.json: ")
