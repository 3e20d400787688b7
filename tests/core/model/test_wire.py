"""Models that are read and written in pieces are those of protobuf."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from folders import MODELS
from google.protobuf.message import DecodeError
from messages import message_of
from onnx import helper

from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model import values, wire
from onnxgather.core.model.network import read_network
from onnxgather.core.model.values import load_model, serialized_pieces
from onnxgather.core.model.wire import (
    digest_of_file,
    parsed_in_pieces,
    pieces_of,
    without_weights,
)

PEAK = """
import re, sys
from pathlib import Path
from onnxgather.cli import main
try:
    main(sys.argv[1:], prog_name="onnxgather")
finally:
    print(re.search(r"VmHWM:\\s+([0-9]+)", Path("/proc/self/status").read_text())[1])
"""
"""A program that runs a command, and then prints the most KiB that it had."""


def model_with(*sizes: int) -> onnx.ModelProto:
    """Return a model with a Gather, and constants of so many bytes."""
    constants: list[onnx.TensorProto] = []
    for number, size in enumerate(sizes):
        name = "data" if number == 0 else f"w{number}"
        tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.UINT8)
        tensor.dims.append(size)
        tensor.raw_data = bytes([number + 1]) * size
        constants.append(tensor)
    node = helper.make_node("Gather", ["data", "ids"], ["y"])
    ids = helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["n"])
    output = helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, None)
    graph = helper.make_graph([node], "g", [ids], [output], constants)
    graph.metadata_props.add(key="a", value="b")
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    model.metadata_props.add(key="c", value="d")
    return model


def with_unknown_field() -> onnx.ModelProto:
    """Return a model whose graph has a field that ONNX does not know."""
    model = model_with(100, 100)
    model.graph.MergeFromString(b"\xa0\x06\x05")  # field 100 is 5
    return model


def with_broken_text() -> onnx.ModelProto:
    """Return a model whose graph has a name that is no UTF-8."""
    model = model_with(100, 100)
    model.graph.MergeFromString(b"\x12\x01\xff")
    return model


MADE = {
    "constants": model_with(100, 3, 500),
    "no graph": onnx.ModelProto(ir_version=8),
    "an empty graph": onnx.ModelProto(graph=onnx.GraphProto()),
    "an unknown field": with_unknown_field(),
    "a broken text": with_broken_text(),
}
FILES = sorted(MODELS.rglob("*.onnx"))
CONTENTS = {
    **{name: model.SerializeToString() for name, model in MADE.items()},
    **{path.name: path.read_bytes() for path in FILES},
}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LARGE", 50)


@pytest.mark.parametrize("name", CONTENTS)
def test_the_pieces_of_a_model_are_its_bytes(name: str) -> None:
    model = onnx.ModelProto.FromString(CONTENTS[name])
    expected = model.SerializeToString(deterministic=True)
    assert b"".join(pieces_of(model)) == expected


def test_a_constant_is_a_piece_of_its_own() -> None:
    model = model_with(100, 3, 500)
    pieces = [*pieces_of(model)]
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > wire.LARGE:
            assert tensor.raw_data in pieces


@pytest.mark.parametrize("name", CONTENTS)
def test_a_copy_without_weights_is_written_with_them(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(wire, "LEAST_WEIGHT_LEFT_OUT", 50)
    model = onnx.ModelProto.FromString(CONTENTS[name])
    expected = model.SerializeToString(deterministic=True)
    copy, weights = without_weights(model)
    assert b"".join(pieces_of(copy, weights)) == expected
    assert model.SerializeToString(deterministic=True) == expected
    for tensor in copy.graph.initializer:
        # A model that cannot be written in pieces is copied whole.
        most = 50 if weights else 500
        assert len(tensor.raw_data) <= (0 if tensor.name in weights else most)
    # A copy of the copy has the same constants, not their copies.
    other, same_weights = without_weights(copy, weights)
    assert b"".join(pieces_of(other, same_weights)) == expected
    for tensor_name, tensor in weights.items():
        assert same_weights[tensor_name] is tensor


def test_large_constants_are_left_out_of_a_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "LEAST_WEIGHT_LEFT_OUT", 50)
    model = model_with(100, 3, 500)
    copy, weights = without_weights(model)
    assert [*weights] == ["data", "w2"]
    assert copy.ByteSize() < model.ByteSize() - 600
    for tensor, expected in zip(
        copy.graph.initializer, model.graph.initializer, strict=True
    ):
        assert (tensor.name, [*tensor.dims]) == (expected.name, [*expected.dims])


@pytest.mark.parametrize("name", CONTENTS)
def test_a_model_that_is_parsed_in_pieces_is_the_same(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(CONTENTS[name])
    with open(path, "rb") as stream:
        model = parsed_in_pieces(stream)
    expected = onnx.ModelProto.FromString(CONTENTS[name])
    assert model == expected
    assert model.HasField("graph") == expected.HasField("graph")
    assert model.SerializeToString() == expected.SerializeToString()


def test_a_model_that_is_broken_anywhere_is_refused_as_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = model_with(100, 3, 60).SerializeToString()
    path = tmp_path / "m.onnx"
    for size in range(1, len(content)):
        path.write_bytes(content[:size])
        outcomes: list[str] = []
        for large in (0, 2**24):
            monkeypatch.setattr(values, "LARGE", large)
            try:
                outcomes.append(str(load_model(str(path))))
            except OnnxGatherError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]


def test_bytes_that_are_no_fields_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for content in (b"\xff" * 11, b"\x0b", b"\x3a\x7f\x0a", b"\x3a\x02\x2a\x05ab"):
        path.write_bytes(content)
        with open(path, "rb") as stream, pytest.raises(DecodeError):
            parsed_in_pieces(stream)


def test_a_model_of_more_than_2_gib_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = model_with(100)
    size = model.ByteSize()
    monkeypatch.setattr(values, "LARGEST_MODEL", size)
    assert b"".join(serialized_pieces(model)) == model.SerializeToString()
    monkeypatch.setattr(values, "LARGEST_MODEL", size - 1)
    assert message_of(OnnxGatherError, next, serialized_pieces(model)) == (
        "the model must have at most 2 GiB, and memory must hold another copy of it"
    )


def test_a_large_file_and_its_object_have_one_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "LARGE", 50)
    model = model_with(100, 3, 500)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    digest = read_network(str(path)).digest
    assert digest == read_network(model).digest
    assert digest == (
        "sha256:5ccef2b4b727cd3bd8f74ad09a54af7938f7ad00c7b1b6ad8a2a1cf1d81759d8"
    )


@pytest.mark.parametrize("size", [0, 1, 49, 50, 51, 100, 230])
def test_a_sparse_file_has_the_digest_of_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(wire, "LARGE", 50)
    sparse = tmp_path / "sparse"
    digests = [set[bytes](), set[bytes]()]
    for first in (0, size // 2, size - 1):
        content = bytearray(size)
        if size:
            content[first] = 7
        for array, of_content in ((content, digests[0]), (bytes(size), digests[1])):
            copy = tmp_path / "copy"
            copy.write_bytes(array)
            with sparse.open("wb") as stream:
                stream.truncate(size)
                stream.seek(first if array is content and size else 0)
                stream.write(array[first : first + 1] if array is content else b"")
            digest = digest_of_file(str(copy))
            assert digest == digest_of_file(str(sparse))
            of_content.add(digest)
    # Each place of a byte has a digest of its own.
    places = len({0, size // 2, size - 1}) if size else 1
    assert (len(digests[0]), len(digests[1])) == (places, 1)
    assert digests[0].isdisjoint(digests[1]) == bool(size)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (bytes(50), bytes(51)),
        (bytes(100), bytes(50) + b"0"),
        (b"0" + bytes(49), bytes(50) + b"0"),
        (bytes(50) + b"+" * 50, b"+" * 100),
    ],
)
def test_files_that_differ_have_digests_that_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes, second: bytes
) -> None:
    monkeypatch.setattr(wire, "LARGE", 50)
    digests = set[bytes]()
    for content in (first, second):
        path = tmp_path / "file"
        path.write_bytes(content)
        digests.add(digest_of_file(str(path)))
    assert len(digests) == 2


def test_a_sparse_file_of_many_pieces_is_read_where_it_has_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "LARGE", 2**24)
    path = tmp_path / "sparse"
    size = 2**36  # nobody could read it
    digests = set[bytes]()
    # At the start of a piece, in one, and in the next; the last file has no byte.
    for place, byte in (
        (2**32, b"7"),
        (2**32 + 2**20, b"7"),
        (2**32 + 2**24 + 1, b"7"),
        (0, b""),
    ):
        with path.open("wb") as stream:
            stream.truncate(size)
            stream.seek(place)
            stream.write(byte)
        digests.add(digest_of_file(str(path)))
    assert len(digests) == 4


@pytest.mark.slow  # it writes models of 200 MB
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.parametrize(
    ("more", "times"), [(["audit"], 1.3), (["harden", "-o", "out.onnx"], 1.5)]
)
@pytest.mark.parametrize("count", [10, 200])
def test_memory_holds_a_large_model_few_times(
    tmp_path: Path, more: list[str], times: float, count: int
) -> None:
    peaks: list[int] = []
    for size in (1000, 2 * 10**8 // count):
        path = tmp_path / f"{size}.onnx"
        path.write_bytes(model_with(*[size] * count).SerializeToString())
        command, *options = more
        words = [sys.executable, "-c", PEAK, command, str(path), *options]
        done = subprocess.run(
            words, capture_output=True, text=True, cwd=tmp_path, check=True
        )
        peaks.append(int(done.stdout.splitlines()[-1]))
    assert (peaks[1] - peaks[0]) * 1024 < times * 2 * 10**8
