"""Which files onnxgather replaces where it made their names.

It replaces those that it wrote and that nobody changed since. Such a file says who
wrote it, with a digest of all else in it: a text in its first line, JSON in its first
field, a model in its metadata. A file whose name the user gave is replaced whatever it
is; `write_whole` in `core/files.py` writes it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from functools import partial
from hashlib import file_digest, sha256
from io import BufferedReader

from onnxgather.core.errors import OnnxGatherError, pass_foreign
from onnxgather.core.files import reason, write_pieces
from onnxgather.core.version import __version__

NOT_WRITTEN = "onnxgather did not write it"
CHANGED = "somebody changed it since onnxgather wrote it"

_WRITER = r"onnxgather [^ \n]{1,50}"
_DIGEST = r"([0-9a-f]{64})"

_HEADS = {
    rf"(?://|\#) Written by {_WRITER}; SHA-256 of the lines below: {_DIGEST}\n": b"",
    rf'\{{"made_by": "{_WRITER}, sha256:{_DIGEST}",': b"{",
}
"""How files start that say who wrote them, and what stood there before that was added.

The digest is that of the file as it was.
"""

_LONGEST_HEAD = 256
"""A head has fewer bytes."""


def with_line(content: bytes, mark: str = "//") -> bytes:
    """Return a text behind a line that says who wrote it.

    Args:
        content: The text.
        mark: How a comment starts.
    """
    digest = sha256(content).hexdigest()
    writer = f"{mark} Written by onnxgather {__version__}"
    return f"{writer}; SHA-256 of the lines below: {digest}\n".encode() + content


def with_field(content: bytes) -> bytes:
    """Return a JSON object with one more field, the first, that says who wrote it."""
    digest = sha256(content).hexdigest()
    field = f'"made_by": "onnxgather {__version__}, sha256:{digest}"'
    return f"{{{field},".encode() + content.removeprefix(b"{")


def check_replaceable(path: str, force: bool = False) -> None:
    """Check that a file whose name onnxgather made may be written.

    It may if nothing is there, or an empty file, or a file as onnxgather wrote it.

    Args:
        path: The file.
        force: Whether any other file that can be read may be replaced, too. A link, a
            folder or a device never is.

    Raises:
        OnnxGatherError: It may not.
    """
    try:
        mode = os.lstat(path).st_mode
    # Case: nothing is there; or whoever writes the file says what is wrong.
    except OSError as error:
        pass_foreign(error)
        return
    rule = f"{path} must not be replaced"
    if not stat.S_ISREG(mode):
        raise OnnxGatherError(f"{rule}, as it is {_name_of(mode)}")
    try:
        with open(path, "rb") as stream:
            objection = _objection(stream)
    except OSError as error:
        raise OnnxGatherError(
            f"{rule}, as it cannot be read: {reason(error)}"
        ) from None
    if objection and not force:
        raise OnnxGatherError(f"{rule}, as {objection}; --force replaces it")


def write_made(path: str, content: Iterable[bytes], force: bool = False) -> None:
    """Write a file whose name onnxgather made.

    Args:
        path: The file.
        content: The parts of its content, in order.
        force: As of `check_replaceable`.

    Raises:
        OnnxGatherError: The file must not be replaced, or cannot be written; an earlier
            file is as it was.
    """
    check_replaceable(path, force)
    write_pieces(path, content, follow=False)


def has_bytes(path: str, *content: bytes | memoryview) -> bool:
    """Return whether a file is empty or has the bytes of the parts of a content."""
    size = os.path.getsize(path)
    if size == 0:
        return True
    if size != sum(map(len, content)):
        return False
    with open(path, "rb") as stream:
        return all(stream.read(len(part)) == part for part in content)


def _name_of(mode: int) -> str:
    """Return what stands in the place of a file, which is none."""
    if stat.S_ISLNK(mode):
        return "a link"
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a device or a pipe"


def _objection(stream: BufferedReader) -> str:
    """Return why a file must not be replaced; empty if it may be."""
    head = stream.read(_LONGEST_HEAD)
    if not head:
        return ""
    for pattern, before in _HEADS.items():
        found = re.match(pattern.encode(), head)
        if found is None:
            continue
        stream.seek(found.end())
        digest = file_digest(stream, partial(sha256, before)).hexdigest()
        return "" if digest == found[1].decode() else CHANGED

    # Only a model needs onnx.
    from onnxgather.core.model.own import is_as_written

    stream.seek(0)
    as_written = is_as_written(stream)
    if as_written is None:
        return NOT_WRITTEN
    return "" if as_written else CHANGED
