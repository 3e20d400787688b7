"""What onnxgather writes into a model about it, and whether the model is still that.

An entry of the metadata says what the model was made from. It has the digest of the
graph: a model whose graph has another digest is not the one that the entry is about.
Its key has a digest of the whole file: another one is that of a file that somebody
changed, as a tool may that keeps the graph.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from onnxgather.core.options import OutOfRange, Target
from onnxgather.core.version import __version__

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from onnx import ModelProto

    from onnxgather.core.model.wire import Property, Weights

_BLOCK = 2**20
"""How many bytes of a file are read at once."""

KEY = "onnxgather."
"""How the keys of our entries start."""


class ModelEntry(msgspec.Struct, frozen=True):
    """What a model says of itself; a model of another kind lacks some fields."""

    digest: str
    """That of the graph, as `graph_digest` gives it."""
    version: str = ""
    """The version of onnxgather that wrote the model."""
    descriptor: dict[str, Any] | None = None
    """The descriptor that the model was made from, in DxDispatch's spelling."""
    program: str | None = None
    """The file of the program that the model is the whole of."""
    out_of_range: OutOfRange | None = None
    """What an index out of range does in the model."""
    target: Target | None = None
    """The target that the model was made for."""
    hardened: str | None = None
    """What harden made of an index out of range, such as `clamp` or `index=3`."""


def graph_digest(model: ModelProto, weights: Weights | None = None) -> str:
    """Return the digest of what a model computes, such as `sha256:...`.

    It covers nodes, initializers, inputs, outputs and functions. It leaves out the
    types of inner values and the versions of operator sets, which tools add.

    Args:
        model: The model.
        weights: The constants whose bytes it lacks, as `without_weights` returns them.
    """
    from onnxgather.core.model.wire import pieces_of_message, read_pieces

    graph = model.graph
    digest = hashlib.sha256()
    parts: tuple[Iterable[Message], ...] = (
        graph.node,
        graph.initializer,
        graph.sparse_initializer,
        graph.input,
        graph.output,
        model.functions,
    )
    # Each item of a part stands behind its length, and each part ends with a line, so
    # that no two lists of items have the same text.
    for part in parts:
        for item in part:
            # Case: the model lacks nothing, as most models.
            if not weights:
                content = item.SerializeToString(deterministic=True)
                digest.update(b"%d:" % len(content))
                digest.update(content)
                continue
            pieces = pieces_of_message(item, weights)
            digest.update(b"%d:" % sum(map(len, pieces)))
            for piece in read_pieces(pieces):
                digest.update(piece)
        digest.update(b"\n")
    return f"sha256:{digest.hexdigest()}"


def add_entry(
    model: ModelProto, metadata: Mapping[str, object], weights: Weights | None = None
) -> None:
    """Add an entry to the metadata of a model, with version and digest.

    It is one property of the model, as JSON. Its key ends in a digest of the entry and
    of all else in the file: ONNX merges no models that have a key in common, and a file
    that somebody changed has another digest.

    Args:
        model: The model, with all else that it is to have.
        metadata: The other fields of the entry.
        weights: As of `graph_digest`.
    """
    from onnxgather.core.model.wire import pieces_of

    entry = {
        **metadata,
        "version": __version__,
        "digest": graph_digest(model, weights),
    }
    content = msgspec.json.encode(entry)
    key = _key(pieces_of(model, weights or {}), content)
    model.metadata_props.add(key=key, value=content.decode())


def _key(others: Iterable[bytes], content: bytes) -> str:
    """Return the key of an entry.

    Args:
        others: The pieces of the model without the entry.
        content: The entry.
    """
    digest = hashlib.sha256()
    for piece in others:
        digest.update(piece)
    digest.update(content)
    return f"{KEY}{digest.hexdigest()[:16]}"


def renew_entry(
    model: ModelProto, metadata: Mapping[str, object], weights: Weights | None
) -> None:
    """Give a model one entry: its own, written anew, or another if it has none.

    Args:
        model: The model.
        metadata: The fields of the other entry.
        weights: As of `graph_digest`.
    """
    content = _own_content(model, weights)
    # Case: the graph is that of the entry, which so stays true.
    if content is not None:
        metadata = msgspec.json.decode(content)
    drop_entries(model)
    add_entry(model, metadata, weights)


def is_own_key(key: object) -> bool:
    """Return whether a property of a model is an entry, by its key."""
    # A key that is no UTF-8 is bytes.
    return isinstance(key, str) and key.startswith(KEY)


def entries_in(stream: BinaryIO) -> list[Property]:
    """Return the entries of the model in a file; none if it holds no model.

    The graph is not parsed, as it may be large.
    """
    from google.protobuf.message import DecodeError

    from onnxgather.core.model.wire import properties_in

    try:
        properties = properties_in(stream)
    except DecodeError:
        return []
    return [found for found in properties if is_own_key(found.key)]


def is_as_written(stream: BinaryIO) -> bool | None:
    """Return whether the model in a file is as onnxgather wrote it, to the byte.

    It is None if onnxgather did not write it: the file is no model, or one without an
    entry.
    """
    own = entries_in(stream)
    if not own:
        return None
    # Case: somebody merged models of onnxgather, which writes one entry.
    if len(own) > 1:
        return False
    (entry,) = own
    return _key(_all_but(stream, entry), entry.value.encode()) == entry.key


def _all_but(stream: BinaryIO, entry: Property) -> Iterator[bytes]:
    """Yield the bytes of the file of a model, some at a time, without an entry."""
    size = os.fstat(stream.fileno()).st_size
    for start, end in ((0, entry.start), (entry.end, size)):
        stream.seek(start)
        for position in range(start, end, _BLOCK):
            yield stream.read(min(_BLOCK, end - position))


def _contents_of(model: ModelProto) -> Iterator[tuple[str, ModelEntry]]:
    """Yield the entries of a model that can be read, each as text and as read."""
    for prop in model.metadata_props:
        if not is_own_key(prop.key):
            continue
        try:
            yield prop.value, msgspec.json.decode(prop.value, type=ModelEntry)
        # Case: another tool wrote it, or a user, or onnxgather before it wrote digests.
        except (msgspec.DecodeError, RecursionError):
            continue


def entries_of(model: ModelProto) -> list[ModelEntry]:
    """Return the entries of a model that can be read, whatever their digests."""
    return [entry for _, entry in _contents_of(model)]


def _own_content(model: ModelProto, weights: Weights | None) -> str | None:
    """Return the entry that is about the graph of a model, as JSON."""
    contents = [*_contents_of(model)]
    if not contents:
        return None
    digest = graph_digest(model, weights)
    for content, entry in contents:
        if entry.digest == digest:
            return content
    return None


def own_entry(model: ModelProto, weights: Weights | None = None) -> ModelEntry | None:
    """Return the entry that is about the graph of a model; None if there is none.

    Args:
        model: The model.
        weights: As of `graph_digest`.
    """
    content = _own_content(model, weights)
    if content is None:
        return None
    return msgspec.json.decode(content, type=ModelEntry)


def drop_entries(model: ModelProto) -> None:
    """Remove the entries of a model, as its graph is to become another one."""
    kept = [prop for prop in model.metadata_props if not is_own_key(prop.key)]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
