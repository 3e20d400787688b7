"""What onnxgather writes into a model about it, and whether the model is still that.

An entry of the metadata says what the model was made from. It has the digest of the
graph: a model whose graph has another digest is not the one that the entry is about.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from onnxgather.core.options import OutOfRange, Target
from onnxgather.core.version import __version__

if TYPE_CHECKING:
    from onnx import ModelProto

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


def graph_digest(model: ModelProto) -> str:
    """Return the digest of what a model computes, such as `sha256:...`.

    It covers nodes, initializers, inputs, outputs and functions. It leaves out the
    types of inner values and the versions of operator sets, which tools add.
    """
    graph = model.graph
    parts: list[Iterable[Any]] = [
        graph.node,
        graph.initializer,
        graph.sparse_initializer,
        graph.input,
        graph.output,
        model.functions,
    ]
    digest = hashlib.sha256()
    for part in parts:
        # Each item stands behind its length, and each part ends with a line, so that no
        # two lists of items have the same text.
        for item in part:
            content = item.SerializeToString(deterministic=True)
            digest.update(b"%d:" % len(content))
            digest.update(content)
        digest.update(b"\n")
    return f"sha256:{digest.hexdigest()}"


def add_entry(model: ModelProto, metadata: Mapping[str, object]) -> None:
    """Add an entry to the metadata of a model, with version and digest.

    It is one property of the model, as JSON. Its key ends in a digest, as ONNX merges
    no models that have a key in common.

    Args:
        model: The model, with its graph and its functions.
        metadata: The other fields of the entry.
    """
    entry = {**metadata, "version": __version__, "digest": graph_digest(model)}
    content = msgspec.json.encode(entry)
    digest = hashlib.sha256(content).hexdigest()
    model.metadata_props.add(key=f"{KEY}{digest[:16]}", value=content.decode())


def entries_of(model: ModelProto) -> list[ModelEntry]:
    """Return the entries of a model that can be read, whatever their digests."""
    entries: list[ModelEntry] = []
    for prop in model.metadata_props:
        if not prop.key.startswith(KEY):
            continue
        try:
            entries.append(msgspec.json.decode(prop.value, type=ModelEntry))
        # Case: another tool wrote it, or a user, or onnxgather before it wrote digests.
        except (msgspec.DecodeError, RecursionError):
            continue
    return entries


def own_entry(model: ModelProto) -> ModelEntry | None:
    """Return the entry that is about the graph of a model; None if there is none."""
    entries = entries_of(model)
    if not entries:
        return None
    digest = graph_digest(model)
    for entry in entries:
        if entry.digest == digest:
            return entry
    return None


def drop_entries(model: ModelProto) -> None:
    """Remove the entries of a model, as its graph is to become another one."""
    kept = [prop for prop in model.metadata_props if not prop.key.startswith(KEY)]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
