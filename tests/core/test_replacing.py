"""Which files are replaced where onnxgather made their names."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from command_line import DESC
from messages import message_of
from onnx import version_converter
from rings import by_ring

import onnxgather as og
from onnxgather.core import replacing
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.own import add_entry, is_as_written
from onnxgather.core.model.wire import properties_in
from onnxgather.core.replacing import (
    check_replaceable,
    has_bytes,
    with_field,
    with_line,
    write_made,
)

POSIX = pytest.mark.skipif(os.name == "nt", reason="makes links and pipes of POSIX")

NOT_WRITTEN = "as onnxgather did not write it; --force replaces it"
CHANGED = "as somebody changed it since onnxgather wrote it; --force replaces it"

MODEL = og.to_onnx(DESC, "zero")

OWN: dict[str, bytes] = {
    "a model": MODEL.SerializeToString(),
    "a model for ONNX Runtime's own operators": og.to_onnx(
        DESC, target="native"
    ).SerializeToString(),
    "a hardened model": og.harden(og.to_onnx(DESC, "error")).SerializeToString(),
    "a text": with_line(b"export const x = 1;\n"),
    "a text of one empty line": with_line(b""),
    "a list": with_line(b"0  a\n", "#"),
    "a JSON object": with_field(b'{"a": 1}\n'),
    "an indented JSON object": with_field(b'{\n  "a": 1\n}\n'),
}
"""Files as onnxgather writes them."""


def refusal(path: Path, force: bool = False) -> str:
    """Return why a file is not replaced, which then is as it was."""
    with pytest.raises(OnnxGatherError) as checked:
        check_replaceable(str(path), force)
    with pytest.raises(OnnxGatherError) as caught:
        write_made(str(path), [b"new"], force)
    assert str(checked.value) == str(caught.value)
    rule, _, why = str(caught.value).partition(", ")
    assert rule == f"{path} must not be replaced"
    return why


@pytest.mark.parametrize("content", [*OWN.values(), b""], ids=[*OWN, "an empty file"])
def test_an_own_file_and_an_empty_one_are_replaced(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    write_made(str(path), [b"new", b" bytes"])
    assert path.read_bytes() == b"new bytes"


def test_a_file_and_its_folder_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    write_made(str(path), [b"new"])
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("content", OWN.values(), ids=OWN)
def test_a_file_that_was_changed_in_any_byte_is_kept(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "file"
    version = f"onnxgather {og.__version__}".encode()
    # The digest of a text is that of the rest, without the version that wrote it.
    free = range(0)
    if not content.startswith(b"\x08"):
        start = content.index(version) + len("onnxgather ")
        free = range(start, start + len(og.__version__))
    for position in range(0, len(content), by_ring(9, 1)):
        changed = bytearray(content)
        changed[position] ^= 1
        path.write_bytes(changed)
        if position not in free:
            assert refusal(path) in (NOT_WRITTEN, CHANGED)
    for changed in (content + b"\n", content[:-1], content[1:]):
        path.write_bytes(changed)
        assert refusal(path) in (NOT_WRITTEN, CHANGED)


def another_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    return version_converter.convert_version(model, 18)


def with_a_property(model: onnx.ModelProto) -> onnx.ModelProto:
    model.metadata_props.add(key="author", value="me")
    return model


def with_a_second_entry(model: onnx.ModelProto) -> onnx.ModelProto:
    add_entry(model, {"hardened": "clamp"})
    return model


def without_a_node(model: onnx.ModelProto) -> onnx.ModelProto:
    del model.graph.node[-1]
    return model


def with_an_entry_of_another(model: onnx.ModelProto) -> onnx.ModelProto:
    (entry,) = og.to_onnx(DESC, "clamp").metadata_props
    model.metadata_props[0].CopyFrom(entry)
    return model


CHANGES = (
    onnx.shape_inference.infer_shapes,
    another_opset,
    with_a_property,
    with_a_second_entry,
    without_a_node,
    with_an_entry_of_another,
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_that_a_tool_changed_is_kept(
    tmp_path: Path, change: Callable[[onnx.ModelProto], onnx.ModelProto]
) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    path = tmp_path / "x.onnx"
    path.write_bytes(change(model).SerializeToString())
    assert refusal(path) == CHANGED
    write_made(str(path), [b"new"], force=True)
    assert path.read_bytes() == b"new"


def test_an_entry_stands_anywhere_in_the_metadata(tmp_path: Path) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    del model.metadata_props[:]
    model.metadata_props.add(key="author", value="me")
    add_entry(model, {})
    model.metadata_props.reverse()
    path = tmp_path / "x.onnx"
    path.write_bytes(model.SerializeToString())
    check_replaceable(str(path))


OF_OTHERS: dict[str, bytes] = {
    "a text": b"mine\n",
    "a text that names onnxgather": b"// Written by onnxgather and me\n",
    "a text without a digest": b"// Written by onnxgather 0.1.0\n",
    "JSON": b'{"made_by": "onnxgather 0.1.0"}',
    "a model": onnx.helper.make_model(
        onnx.helper.make_graph([], "g", [], [])
    ).SerializeToString(),
    "zeros": bytes(1000),
    "half a model": MODEL.SerializeToString()[:100],
    "a model of very many fields": b"\x08\x08" * 2**17 + MODEL.SerializeToString(),
    "random bytes": bytes(range(255, -1, -1)),
}


@pytest.mark.parametrize("content", OF_OTHERS.values(), ids=OF_OTHERS)
def test_a_file_of_others_is_replaced_by_force_alone(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert refusal(path) == NOT_WRITTEN
    assert path.read_bytes() == content
    write_made(str(path), [b"new"], force=True)
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_is_never_replaced(tmp_path: Path, force: bool) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    assert refusal(path, force) == "as it is a folder"


@POSIX
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("content", [None, b"", OWN["a model"]])
def test_a_link_is_never_replaced(
    tmp_path: Path, content: bytes | None, force: bool
) -> None:
    target = tmp_path / "target"
    if content is not None:
        target.write_bytes(content)
    path = tmp_path / "link"
    path.symlink_to(target)
    assert refusal(path, force) == "as it is a link"
    assert path.is_symlink()
    assert (target.read_bytes() if target.exists() else None) == content


@POSIX
def test_a_link_that_comes_after_the_check_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "target").write_bytes(b"mine")
    path = tmp_path / "file"
    check = replacing.check_replaceable

    def check_and_link(path_to_check: str, force: bool) -> None:
        check(path_to_check, force)
        path.symlink_to(tmp_path / "target")

    monkeypatch.setattr(replacing, "check_replaceable", check_and_link)
    write_made(str(path), [b"new"])
    assert (tmp_path / "target").read_bytes() == b"mine"


@POSIX
@pytest.mark.parametrize("force", [False, True])
def test_a_pipe_is_never_replaced(tmp_path: Path, force: bool) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert refusal(path, force) == "as it is a device or a pipe"


@pytest.mark.parametrize("force", [False, True])
def test_a_file_that_cannot_be_read_is_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"mine")

    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(replacing, "open", fail, raising=False)
    assert refusal(path, force) == "as it cannot be read: permission denied"


def test_a_path_that_leads_nowhere_is_an_error_of_writing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    path = tmp_path / "file" / "below"
    check_replaceable(str(path))
    assert message_of(OnnxGatherError, write_made, str(path), [b"new"]) == (
        f"{path}: a file stands where its folder should be"
    )


def test_json_stays_json_and_a_text_stays_as_it_was() -> None:
    content = b'{\n  "a": [1]\n}\n'
    found = json.loads(with_field(content))
    assert [*found] == ["made_by", "a"]
    assert found["a"] == [1]
    assert with_line(b"x\ny").partition(b"\n")[2] == b"x\ny"


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (b"", True),
        (b"abcd", True),
        (b"abce", False),
        (b"abc", False),
        (b"abcde", False),
    ],
)
def test_the_bytes_of_a_file_are_compared(
    tmp_path: Path, found: bytes, holds: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(found)
    assert has_bytes(str(path), b"a", memoryview(b"bcd")) is holds


def test_a_large_model_of_others_is_not_read(tmp_path: Path) -> None:
    """The graph has 2**34 bytes, of which the file system stores none."""
    path = tmp_path / "x.onnx"
    size = 2**34
    head = b"\x08\x08\x3a" + onnx_length(size)
    end = b"r\x0a\x0a\x06author\x12\x00"
    with open(path, "wb") as stream:
        stream.write(head)
        stream.seek(size, os.SEEK_CUR)
        stream.write(end)
    with open(path, "rb") as stream:
        (found,) = properties_in(stream)
    assert (found.key, found.start) == ("author", len(head) + size)
    assert refusal(path) == NOT_WRITTEN


def onnx_length(size: int) -> bytes:
    """Return a length as protobuf writes it."""
    content = bytearray()
    while size >= 0x80:
        content.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*content, size])


def test_a_model_is_as_it_was_written_or_not(tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    for content, wanted in (
        (OWN["a model"], True),
        (OWN["a model"] + b"\x0a\x00", False),
        (OF_OTHERS["a model"], None),
        (b"text", None),
    ):
        path.write_bytes(content)
        with path.open("rb") as stream:
            assert is_as_written(stream) is wanted
