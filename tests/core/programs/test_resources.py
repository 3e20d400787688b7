"""Initial values: each form gives the bytes that DxDispatch would upload."""

from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import message_of

from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.documents import Field
from onnxgather.core.errors import FileFormatError, shortened
from onnxgather.core.programs.program import npy_header
from onnxgather.core.programs.resources import Resource, read_resource

INTEGERS = [t for t in TensorDataType if t.numpy.kind in "iu"]
FLOATS = [t for t in TensorDataType if t.numpy.kind == "f"]

POSIX = pytest.mark.skipif(os.name == "nt", reason="makes links and pipes")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(
    values: object, data_type: str | None = None, folder: str = ".", **more: Any
) -> Resource:
    value = {"initialValues": values, **more}
    if data_type is not None:
        value["initialValuesDataType"] = data_type
    return read_resource(Field(value), folder, allow_outside=False)


def content(
    values: object, data_type: str | None = None, folder: str = ".", **more: Any
) -> bytes:
    return read(values, data_type, folder, **more).initial_bytes().tobytes()


def refusal(
    values: object, data_type: str | None = None, folder: str = ".", **more: Any
) -> str:
    return message_of(FileFormatError, read, values, data_type, folder, **more)


@pytest.mark.parametrize("data_type", INTEGERS)
def test_a_list_takes_every_integer_of_its_type(data_type: TensorDataType):
    limits = np.iinfo(data_type.numpy)
    values = [int(limits.min), 0, 1, int(limits.max)]
    expected = b"".join(
        v.to_bytes(data_type.size, "little", signed=v < 0) for v in values
    )
    assert content(values, data_type) == expected
    for value in (int(limits.min) - 1, int(limits.max) + 1):
        shown = value if value < 2**128 else "a larger integer"
        assert (
            refusal([0, value], data_type)
            == f"$.initialValues[1] must be an integer from {limits.min} to"
            f" {limits.max}, got {shown}"
        )


@pytest.mark.parametrize("value", [1.0, "1", True, None, [1], {}])
def test_an_integer_is_a_json_integer(value: object):
    assert refusal([value], "UINT8").startswith(
        "$.initialValues[0] must be an integer from 0 to 255, got "
    )


def test_floats_take_numbers_and_the_three_names_in_any_case():
    values = [0, -0.0, 1, 0.1, 1e300, "inf", "-INF", "NaN", 2**63]
    expected = [0.0, -0.0, 1.0, 0.1, 1e300, float("inf"), float("-inf")]
    nan = b"\0\0\0\0\0\0\xf8\x7f"
    assert content(values, "FLOAT64") == struct.pack(
        "<7d", *expected
    ) + nan + struct.pack("<d", 2.0**63)


def test_small_floats_round_and_overflow_to_infinity():
    assert content([0.1, 1e39, -1e-60], "FLOAT32") == bytes.fromhex(
        "cdcccc3d0000807f00000080"
    )
    assert content([0.1, 65520, "nan"], "FLOAT16", sizeInBytes=6) == bytes.fromhex(
        "662e007c007e"
    )


def test_float16_is_rounded_through_float32():
    # Just above a tie between two FLOAT16; FLOAT32 puts it on the tie, which goes to
    # even.
    value = 1 + 2**-11 + 2**-40
    assert np.float16(value) == 1 + 2**-10
    assert content([value], "FLOAT16", sizeInBytes=2) == np.float16(1).tobytes()


@pytest.mark.parametrize("value", ["infinity", "+inf", "", True, None, []])
def test_a_float_is_a_number_or_one_of_the_three_names(value: object):
    rule = '$.initialValues[0] must be a number, "nan", "inf" or "-inf", got '
    assert refusal([value], "FLOAT32").startswith(rule)


def test_an_integer_that_float64_does_not_hold_is_refused():
    assert (
        refusal([2**53, 2**53 + 1], "FLOAT32")
        == "$.initialValues[1] must be an integer that FLOAT64 holds exactly, got"
        " 9007199254740993"
    )


def test_a_typed_list_is_packed():
    values = [
        {"type": "UINT8", "value": 1},
        {"type": "DML_TENSOR_DATA_TYPE_INT16", "value": -2},
        {"type": "FLOAT64", "value": 0.5},
    ]
    packed = struct.pack("<Bhd", 1, -2, 0.5)
    assert content(values) == packed + b"\0"
    assert content(values, "UNKNOWN") == packed + b"\0"
    assert read(values).data_type is None
    assert read(values).values.size == 11


@pytest.mark.parametrize("data_type", TensorDataType)
def test_a_constant_is_repeated(data_type: TensorDataType):
    found = read({"value": 3, "valueCount": 5}, data_type)
    assert found.values.to_bytes().tobytes() == np.full(5, 3, data_type.numpy).tobytes()
    assert found.size_in_bytes == (5 * data_type.size + 3) // 4 * 4


def by_repeated_addition(
    data_type: TensorDataType, start: float, delta: float, count: int
) -> bytes:
    """Add one value at a time, each time in the type."""
    kind = data_type.numpy.type
    value, step = kind(start), kind(delta)
    found: list[np.generic] = []
    with np.errstate(all="ignore"):
        for _ in range(count):
            found.append(value)
            value = kind(value + step)
    return np.array(found, data_type.numpy).tobytes()


@pytest.mark.parametrize("data_type", FLOATS)
@pytest.mark.parametrize(
    ("start", "delta"), [(0, 0.1), (1e4, 30.7), (-1, 1e-3), (6e4, 1e3)]
)
def test_a_float_sequence_rounds_at_each_step(
    data_type: TensorDataType, start: float, delta: float
):
    values = {"valueStart": start, "valueDelta": delta, "valueCount": 5000}
    expected = by_repeated_addition(data_type, start, delta, 5000)
    assert content(values, data_type) == expected


def test_a_float16_sequence_stops_where_the_step_is_lost():
    values = {"valueStart": 2046, "valueDelta": 1, "valueCount": 6}
    found = np.frombuffer(content(values, "FLOAT16"), np.float16)
    assert found.tolist() == [2046, 2047, 2048, 2048, 2048, 2048]


@given(st.sampled_from(INTEGERS), st.data(), st.integers(1, 700))
def test_an_integer_sequence_wraps(
    data_type: TensorDataType, data: st.DataObject, count: int
):
    limits = np.iinfo(data_type.numpy)
    number = st.integers(int(limits.min), int(limits.max))
    start, delta = data.draw(number), data.draw(number)
    values = {"valueStart": start, "valueDelta": delta, "valueCount": count}
    modulus = 2 ** (8 * data_type.size)
    expected = b"".join(
        ((start + k * delta) % modulus).to_bytes(data_type.size, "little")
        for k in range(count)
    )
    assert read(values, data_type).values.to_bytes().tobytes() == expected


def test_the_size_is_rounded_up_unless_it_is_given():
    assert content([1, 2, 3], "UINT8") == b"\1\2\3\0"
    assert content([1, 2, 3], "UINT8", sizeInBytes=3) == b"\1\2\3"
    assert content([1, 2, 3], "UINT8", sizeInBytes=9) == b"\1\2\3" + bytes(6)


def test_an_offset_is_checked_and_never_applied():
    assert (
        content([1], "UINT8", sizeInBytes=3, initialValuesOffsetInBytes=2) == b"\1\0\0"
    )
    assert (
        refusal([1], "UINT8", sizeInBytes="3")
        == "$.sizeInBytes must be an integer, got '3'"
    )
    assert (
        refusal([1], "UINT8", sizeInBytes=3, initialValuesOffsetInBytes=3)
        == "$.sizeInBytes must be at least 4, the initial values and their offset,"
        " got 3"
    )


def test_large_resources_are_read_without_being_made():
    tracemalloc.start()
    found = read({"value": 0, "valueCount": 2**32 - 4}, "UINT8")
    assert found.size_in_bytes == 2**32 - 4
    assert (
        refusal({"value": 0, "valueCount": 2**32 - 1}, "UINT8")
        == "$ must take at most 4294967295 bytes, got 4294967296"
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_lack_of_memory_is_our_error(monkeypatch: pytest.MonkeyPatch):
    def no_memory(*_: object) -> None:
        raise MemoryError

    found = read([1], "UINT8")
    monkeypatch.setattr(np, "zeros", no_memory)
    assert message_of(FileFormatError, found.initial_bytes) == (
        "$: there is no memory for its 4 bytes"
    )


def save(path: str, array: Any, version: tuple[int, int] = (1, 0)) -> None:
    with open(path, "wb") as file:
        np.lib.format.write_array(file, array, version)


@pytest.mark.parametrize("data_type", TensorDataType)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["<", ">"])
def test_an_npy_file_is_typed(
    data_type: TensorDataType,
    version: tuple[int, int],
    order: Literal["<", ">"],
):
    array = np.arange(6, dtype=data_type.numpy).reshape(2, 3)
    save("x.NPY", array.astype(array.dtype.newbyteorder(order)), version)
    for declared in (None, data_type):
        found = read({"sourcePath": "x.NPY"}, declared)
        assert found.data_type == data_type
        assert found.values.to_bytes().tobytes() == array.tobytes()


def test_an_npy_file_of_booleans_is_int8():
    save("x.npy", np.array([True, False]))
    found = read({"sourcePath": "x.npy"})
    assert (found.data_type, found.initial_bytes().tobytes()) == ("INT8", b"\1\0\0\0")


def test_what_follows_an_npy_array_is_kept():
    Path("x.npy").write_bytes(npy_header(TensorDataType.UINT8, (3,)) + b"\1\2\3\4\5")
    assert content({"sourcePath": "x.npy"}, sizeInBytes=5) == b"\1\2\3\4\5"


def test_other_files_are_raw():
    Path("x.dat").write_bytes(b"\1\2\3\4\5")
    assert content({"sourcePath": "x.dat"}, "UINT16") == b"\1\2\3\4\5\0\0\0"
    assert (
        refusal({"sourcePath": "x.dat"})
        == "$.initialValuesDataType is required for these values"
    )


SOURCE = "$.initialValues.sourcePath"
NO_NPY = " must be a well-formed .npy file, got 'x.npy'"
INT32_3 = npy_header(TensorDataType.INT32, (3,))


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (b"not an array", NO_NPY),
        (b"", NO_NPY),
        (INT32_3[:40], NO_NPY),
        (b"\x93NUMPY\1\0\4\0(((\n", NO_NPY),
        (
            INT32_3 + bytes(11),
            ": the .npy file must hold 12 bytes for its shape, got 11",
        ),
        (
            npy_header(TensorDataType.INT32, (2**40, 2**40)),
            f": the .npy file must hold {2**82} bytes for its shape, got 0",
        ),
        (
            npy_header(TensorDataType.UINT8, (-1,)),
            ": the .npy file must hold -1 bytes for its shape, got 0",
        ),
        (
            b"\x93NUMPY\4\0" + bytes(60),
            ": the .npy file must have version 1.0, 2.0 or 3.0, got 4.0",
        ),
    ],
)
def test_broken_npy_files_are_refused(damaged: bytes, message: str):
    Path("x.npy").write_bytes(damaged)
    assert refusal({"sourcePath": "x.npy"}) == SOURCE + message


def test_an_npy_file_of_nothing_is_refused():
    Path("x.npy").write_bytes(npy_header(TensorDataType.UINT8, (0,)))
    rule = "$.initialValues must hold at least one value, got none"
    assert refusal({"sourcePath": "x.npy"}) == rule


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([{}]), f"{SOURCE}: the .npy file must hold numbers, got object"),
        (np.array(["a"]), f"{SOURCE}: the .npy file must hold numbers, got <U1"),
        (np.array([1j]), f"{SOURCE}: the .npy file must hold numbers, got complex128"),
        (
            np.zeros(1, [("a", "i4")]),
            f"{SOURCE}: the .npy file must hold numbers, got a structure",
        ),
        (
            np.asfortranarray(np.ones((2, 2))),
            (
                f"{SOURCE} must be an .npy file in C order, not in Fortran order, got"
                " 'x.npy'"
            ),
        ),
    ],
)
def test_npy_files_of_something_else_are_refused(array: Any, message: str):
    np.save("x.npy", array, allow_pickle=True)
    assert refusal({"sourcePath": "x.npy"}) == message


def test_an_npy_file_must_have_the_declared_type():
    save("x.npy", np.ones(2, np.float32))
    assert (
        refusal({"sourcePath": "x.npy"}, "UINT32")
        == f"{SOURCE}: the .npy file must hold UINT32, as initialValuesDataType says,"
        " got FLOAT32"
    )


def test_files_are_looked_for_in_the_folder_and_then_here():
    Path("here").mkdir()
    Path("folder").mkdir()
    Path("here/x.bin").write_bytes(b"here")
    os.chdir("here")
    assert content({"sourcePath": "x.bin"}, "UINT8", "../folder") == b"here"
    Path("../folder/x.bin").write_bytes(b"fold")
    assert content({"sourcePath": "x.bin"}, "UINT8", "../folder") == b"fold"
    assert content({"sourcePath": "../here/x.bin"}, "UINT8", "../folder") == b"here"


OUTSIDE = (
    f"{SOURCE} must stay in the folder of the program or the current folder without"
    " --allow-outside, got "
)


@POSIX
def test_files_outside_are_refused_unless_allowed(tmp_path: Path):
    Path("secret").write_bytes(b"1234")
    Path("folder").mkdir()
    os.chdir("folder")
    os.symlink(tmp_path / "secret", "link")
    for path in ("../secret", str(tmp_path / "secret"), "link"):
        assert refusal({"sourcePath": path}, "UINT8") == OUTSIDE + (
            repr(shortened(path, 60))
        )
        value = {
            "initialValuesDataType": "UINT8",
            "initialValues": {"sourcePath": path},
        }
        found = read_resource(Field(value), ".", allow_outside=True)
        assert found.initial_bytes().tobytes() == b"1234"


def test_backslashes_in_paths_are_those_of_windows():
    Path("data").mkdir()
    Path("data/x.bin").write_bytes(b"1234")
    assert content({"sourcePath": "data\\x.bin"}, "UINT8") == b"1234"


@POSIX
def test_a_backslash_may_be_part_of_a_name():
    Path("a\\b").write_bytes(b"1234")
    assert content({"sourcePath": "a\\b"}, "UINT8") == b"1234"
    Path("secret").write_bytes(b"1234")
    Path("folder").mkdir()
    rule = "must be a file that exists, its backslashes read as slashes too, got"
    for path in ("b\\a", "..\\b\\a"):
        asked: Any = {"sourcePath": path}
        assert refusal(asked, "UINT8", "folder") == f"{SOURCE} {rule} {path!r}"
    os.chdir("folder")
    assert refusal({"sourcePath": "..\\secret"}, "UINT8") == (
        OUTSIDE + repr("..\\secret")
    )


@POSIX
def test_links_that_go_in_circles_are_refused():
    os.symlink("b", "a")
    os.symlink("a", "b")
    assert (
        refusal({"sourcePath": "a"}, "UINT8")
        == f"{SOURCE} must be a file that exists, got 'a'"
    )


def test_a_name_that_is_too_long_is_refused():
    assert (
        refusal({"sourcePath": "a" * 5000}, "UINT8")
        == f"{SOURCE} must be a file that exists, got '{'a' * 30}…{'a' * 30}'"
    )


@POSIX
def test_a_device_is_refused():
    os.mkfifo("pipe")
    assert (
        refusal({"sourcePath": "pipe"}, "UINT8")
        == f"{SOURCE} must be a file, not a folder or a device, got 'pipe'"
    )


def test_a_file_that_cannot_be_opened_is_refused(monkeypatch: pytest.MonkeyPatch):
    def no_permission(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    Path("x.npy").write_bytes(b"1234")
    monkeypatch.setattr("builtins.open", no_permission)
    message = refusal({"sourcePath": "x.npy"})
    assert message == f"{SOURCE}: permission denied: x.npy"


def test_a_file_that_changes_is_noticed():
    Path("x.bin").write_bytes(b"1234")
    found = read({"sourcePath": "x.bin"}, "UINT8")
    Path("x.bin").write_bytes(b"123")
    real = os.path.realpath("x.bin")
    assert message_of(FileFormatError, found.initial_bytes) == (
        f"{SOURCE}: the file changed while it was used: {real}"
    )
    Path("x.bin").unlink()
    assert message_of(FileFormatError, found.initial_bytes) == (
        f"{SOURCE}: no such file or directory: {real}"
    )


@settings(deadline=None)  # it writes files
@given(st.binary(max_size=40), st.integers(0, 130))
def test_damaged_npy_headers_only_raise_our_error(
    tmp_path_factory: pytest.TempPathFactory, damage: bytes, start: int
):
    whole = npy_header(TensorDataType.INT32, (2, 3)) + bytes(24)
    folder = tmp_path_factory.mktemp("npy")
    (folder / "x.npy").write_bytes(
        whole[:start] + damage + whole[start + len(damage) :]
    )
    try:
        found = content({"sourcePath": "x.npy"}, None, str(folder))
    except FileFormatError as error:
        message = str(error)
        assert message.startswith("$.initialValues")
        return
    assert len(found) >= 4
