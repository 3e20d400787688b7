"""Large models, read and written in pieces, so that memory holds them once.

A message of protobuf is a row of fields. Each is a number, a type, and for text, bytes
and messages a length. To parse two rows one after the other into one message is to
parse them as one row, also inside a field that is one message. So a graph can be parsed
some fields at a time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import onnx
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from msgspec import Struct

LARGE = 2**24
"""A file of more bytes, or a model whose constants have more bytes together, is read or
written in pieces; and so is a constant of more bytes."""

LEAST_WEIGHT_LEFT_OUT = 2**16
"""A constant of more bytes is left out of a copy without weights."""

Weights = Mapping[str, onnx.TensorProto]
"""Constants of the main graph that a model lacks the bytes of, by their names."""

NO_WEIGHTS: Weights = {}

MOST_FIELDS = 2**16
"""A model has fewer fields, not counting those of its graph."""

_GRAPH = 7
"""The number of the field of a model that is its graph."""

_METADATA = 14
"""The number of the field of a model that is a property of its metadata."""

_LENGTH = 2
"""The type of a field that has a length."""

_FIXED = {1: 8, 5: 4}
"""The bytes of a field's content, by the types for which they are always the same."""


def parsed_in_pieces(stream: BinaryIO) -> onnx.ModelProto:
    """Return the model in a file.

    Raises:
        DecodeError: The file holds no model.
    """
    model = onnx.ModelProto()
    for place in _places(stream, 0, _size(stream)):
        if place.kind != (_GRAPH, _LENGTH):
            model.MergeFromString(_between(stream, place.start, place.end))
            continue
        model.graph.SetInParent()  # it may have no fields
        for piece in _pieces_between(stream, place.content, place.end):
            model.graph.MergeFromString(piece)
    return model


class Property(Struct, frozen=True):
    """A property of a model's metadata, with where it is in the file."""

    key: str
    value: str
    start: int
    end: int


def properties_in(stream: BinaryIO) -> list[Property]:
    """Return the metadata of the model in a file, without reading its graph.

    Raises:
        DecodeError: The file holds no model, or one of very many fields.
    """
    properties: list[Property] = []
    for number, place in enumerate(_places(stream, 0, _size(stream))):
        # A file of another kind may look like a model of as many fields as bytes.
        if number == MOST_FIELDS:
            raise DecodeError
        if place.kind == (_METADATA, _LENGTH):
            # A field alone is a model that has nothing else.
            field = _between(stream, place.start, place.end)
            (found,) = onnx.ModelProto.FromString(field).metadata_props
            properties.append(Property(found.key, found.value, place.start, place.end))
    return properties


class _Place(Struct, frozen=True):
    """Where a field of a message is in a file."""

    kind: tuple[int, int]
    """Its number and its type."""
    start: int
    content: int
    """Where its content starts, behind its number and its length."""
    end: int


def _places(stream: BinaryIO, start: int, end: int) -> Iterator[_Place]:
    """Yield where each field is between two places of a file.

    Raises:
        DecodeError: As `_field`.
    """
    while start < end:
        stream.seek(start)
        number, kind, size = _field(stream, end)
        content = stream.tell()
        yield _Place((number, kind), start, content, content + size)
        start = content + size


def _pieces_between(stream: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    """Yield the fields between two places of a file, some at a time."""
    for place in _places(stream, start, end):
        if place.end - start >= LARGE or place.end == end:
            yield _between(stream, start, place.end)
            start = place.end


def digest_of_file(path: str) -> bytes:
    """Return a digest of the bytes of a file; b"" where no plain file can be read.

    A piece of zeros counts as its length. So a sparse file has the digest of its copy,
    and nobody reads its holes.
    """
    if not os.path.isfile(path):
        return b""
    digest = hashlib.sha256()
    try:
        # A buffer would not know that the search for holes moves the place in the file.
        with open(path, "rb", buffering=0) as stream:
            end = _size(stream)
            digest.update(b"%d:" % end)
            for start in range(0, end, LARGE):
                piece = b""
                if not _is_hole(stream, start):
                    piece = _between(stream, start, min(start + LARGE, end))
                # The sign says which of the two pieces this is.
                if piece.lstrip(b"\0"):
                    digest.update(b"+")
                    digest.update(piece)
                else:
                    digest.update(b"0")
    except OSError:
        return b""
    return digest.digest()


def _is_hole(stream: BinaryIO, start: int) -> bool:
    """Return whether a piece of a sparse file is known to have no bytes on disk."""
    # Case: Windows tells no holes.
    if not hasattr(os, "SEEK_DATA"):
        return False
    try:
        next_data = os.lseek(stream.fileno(), start, os.SEEK_DATA)
    except OSError:  # there are no more bytes
        return True
    return next_data >= start + LARGE


def _size(stream: BinaryIO) -> int:
    return os.fstat(stream.fileno()).st_size


def _between(stream: BinaryIO, start: int, end: int) -> bytes:
    """Return the bytes of a file between two places."""
    stream.seek(start)
    return stream.read(end - start)


def _field(stream: BinaryIO, end: int) -> tuple[int, int, int]:
    """Read the start of a field; return its number, its type and its size.

    Raises:
        DecodeError: It ends behind `end`, or its type is not one of ONNX.
    """
    number, kind = divmod(_varint(stream), 8)
    size = 0
    if kind == 0:  # a number, up to its last byte
        _varint(stream)
    elif kind == _LENGTH:
        size = _varint(stream)
    elif kind in _FIXED:
        size = _FIXED[kind]
    else:
        raise DecodeError
    if stream.tell() + size > end:
        raise DecodeError
    return number, kind, size


def _varint(stream: BinaryIO) -> int:
    """Read a number, whose bytes have seven bits each, the lowest ones first."""
    number = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            break
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return number
    raise DecodeError


def pieces_of(model: onnx.ModelProto, weights: Weights = NO_WEIGHTS) -> Iterator[bytes]:
    """Yield the bytes of a model, in pieces if it is large.

    Together they are those of `SerializeToString(deterministic=True)`.

    Args:
        model: The model.
        weights: The constants whose bytes `without_weights` left out.
    """
    if weights or (_bytes_of_constants(model) > LARGE and _is_plain(model)):
        yield from _pieces(model, weights)
    else:
        yield model.SerializeToString(deterministic=True)


def without_weights(
    model: onnx.ModelProto, weights: Weights = NO_WEIGHTS
) -> tuple[onnx.ModelProto, Weights]:
    """Return a copy of a model without the bytes of large constants, and the constants.

    The constants are those of the model, and no copies, so that memory holds them once.
    A model that cannot be written in pieces is copied whole.

    Args:
        model: The model.
        weights: The constants whose bytes it lacks already.
    """
    copy = onnx.ModelProto()
    has_weights = weights or _bytes_of_constants(model) > LEAST_WEIGHT_LEFT_OUT
    if not has_weights or not _is_plain(model):
        copy.CopyFrom(model)
        return copy, weights
    left_out: dict[str, onnx.TensorProto] = {**weights}
    stubs: dict[str, onnx.TensorProto] = {}
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > LEAST_WEIGHT_LEFT_OUT:
            left_out[tensor.name] = tensor
            stubs[tensor.name] = _without_bytes(tensor)
    copy.MergeFromString(b"".join(_pieces(model, stubs)))
    return copy, left_out


def _without_bytes(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """Return a copy of a tensor without its raw data."""
    copy = onnx.TensorProto()
    for field, value in tensor.ListFields():
        if field.name != "raw_data":
            copy.MergeFromString(b"".join(_field_pieces(tensor, field, value)))
    return copy


def _bytes_of_constants(model: onnx.ModelProto) -> int:
    """Return how many bytes of raw data the constants of a model have together."""
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer)


def _is_plain(model: onnx.ModelProto) -> bool:
    """Return whether the fields of a model and of its graph can be written alone."""
    messages: list[Message] = [model, model.graph, *model.graph.initializer]
    for message in messages:
        if len(UnknownFieldSet(message)):  # they come last, whatever their number
            return False
        for field, value in message.ListFields():
            # protobuf returns bytes where a text is broken.
            if field.type == field.TYPE_STRING and isinstance(value, bytes):
                return False
    return True


def _pieces(message: Message, weights: Weights = NO_WEIGHTS) -> Iterator[bytes]:
    """Yield the fields of a message in the order of their numbers.

    Args:
        message: A model, its graph, or a large constant of it.
        weights: The constants that are written in the place of those of their names.
    """
    for field, value in message.ListFields():
        yield from _field_pieces(message, field, value, weights)


def _field_pieces(
    message: Message, field: Any, value: Any, weights: Weights = NO_WEIGHTS
) -> Iterator[bytes]:
    """Yield a field of a message; `weights` is that of `_pieces`."""
    if isinstance(value, Message):
        yield from _piece(field.number, value, weights)
    elif field.message_type is not None:
        for item in value:
            # Only the main graph gets here: a subgraph is written with its node.
            if field.name == "initializer":
                yield from _piece(field.number, weights.get(item.name, item))
            else:
                yield from _piece(field.number, item)
    elif isinstance(value, bytes):
        yield _head(field.number, len(value))
        yield value
    else:
        alone: Any = type(message)()
        if isinstance(value, str | int | float):
            setattr(alone, field.name, value)
        else:
            getattr(alone, field.name).extend(value)
        yield alone.SerializeToString(deterministic=True)


def pieces_of_tensor(tensor: onnx.TensorProto) -> Iterator[bytes]:
    """Yield the bytes of a constant, in pieces if it is large."""
    if len(tensor.raw_data) > LARGE:
        yield from _pieces(tensor)
    else:
        yield tensor.SerializeToString(deterministic=True)


def _piece(
    number: int, message: Message, weights: Weights = NO_WEIGHTS
) -> Iterator[bytes]:
    """Yield a field that is a message; `weights` is that of `_pieces`."""
    is_large_tensor = (
        isinstance(message, onnx.TensorProto) and len(message.raw_data) > LARGE
    )
    if is_large_tensor or isinstance(message, onnx.GraphProto):
        yield _head(number, sum(map(len, _pieces(message, weights))))
        yield from _pieces(message, weights)
    else:
        content = message.SerializeToString(deterministic=True)
        yield _head(number, len(content))
        yield content


def _head(number: int, size: int) -> bytes:
    """Return the start of a field with a length."""
    content = bytearray()
    for value in (number * 8 + _LENGTH, size):
        while value >= 0x80:
            content.append(value & 0x7F | 0x80)
            value >>= 7
        content.append(value)
    return bytes(content)
