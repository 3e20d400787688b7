"""Large models, read and written in pieces; the bytes of large constants stay in files.

A message of protobuf is a row of fields. Each is a number, a type, and for text, bytes
and messages a length. To parse two rows one after the other into one message is to
parse them as one row, also inside a field that is one message. So a graph can be parsed
some fields at a time.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count, islice
from typing import Any, BinaryIO

import onnx
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from msgspec import Struct

from onnxgather.core.errors import OnnxGatherError, pass_foreign

LARGE = 2**24
"""A file of more bytes, or a model whose constants have more bytes together, is read or
written in pieces; and so is a constant of more bytes."""

LEAST_WEIGHT_LEFT_OUT = 2**16
"""A constant of more bytes is left out of a copy without weights."""


class ChangedFileError(OnnxGatherError):
    """The file of a model was changed while it was read."""


class StoredBytes(Struct, frozen=True):
    """Bytes of a file, which are read whenever they are needed."""

    path: str
    state: tuple[int, ...]
    """What `_state` returned when the places were read."""
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    def part(self, start: int, end: int) -> bytes:
        """Return some of the bytes, counted from the first.

        Raises:
            ChangedFileError: As `pieces`.
        """
        with self._opened() as stream:
            return _between(stream, self.start + start, self.start + end)

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes.

        Raises:
            ChangedFileError: The file was changed, or cannot be read any more.
        """
        with self._opened() as stream:
            for start in range(self.start, self.end, LARGE):
                yield _between(stream, start, min(start + LARGE, self.end))

    @contextmanager
    def _opened(self) -> Generator[BinaryIO]:
        try:
            with open(self.path, "rb") as stream:
                if _state(stream) == self.state:
                    yield stream
                    # Case: it was changed during the reading, or it was not.
                    if _state(stream) == self.state:
                        return
        except OSError as error:
            pass_foreign(error)  # else it is as if the file were another one
        raise ChangedFileError(
            f"{self.path}: the file must stay as it is while it is read"
        )


class StoredTensor(Struct, frozen=True):
    """A constant whose elements are in the file of its model."""

    light: onnx.TensorProto
    """The constant without its elements."""
    number: int
    """The number of the field of its elements."""
    content: StoredBytes
    """Its elements."""

    @property
    def data_type(self) -> int:
        """ONNX's number of its data type."""
        return self.light.data_type

    @property
    def dims(self) -> Sequence[int]:
        """Its sizes."""
        return self.light.dims

    def whole(self) -> onnx.TensorProto:
        """Return the constant with its elements."""
        tensor = onnx.TensorProto()
        tensor.MergeFromString(b"".join(read_pieces(_tensor_pieces(self))))
        return tensor


Weight = onnx.TensorProto | StoredTensor
"""A constant, wherever its bytes are."""

Weights = Mapping[str, Weight]
"""Constants that a model lacks the bytes of, by their keys: in the place of each is a
stub, which `weight_of` knows."""

NO_WEIGHTS: Weights = {}

_MARK = f"onnxgather.{secrets.token_hex(8)}"
"""What a stub has beside its key. No file can have it."""

_KEYS = map(str, count())


def weight_of(tensor: onnx.TensorProto, weights: Weights) -> Weight:
    """Return the constant in whose place a tensor is; the tensor if it is no stub.

    Args:
        tensor: A tensor of a model.
        weights: The constants that the model lacks the bytes of.
    """
    # Case: the model lacks nothing, as most small ones.
    if not weights:
        return tensor
    for entry in tensor.external_data:
        if entry.key == _MARK:
            return weights.get(entry.value, tensor)
    return tensor


def _stub(light: onnx.TensorProto, key: str) -> onnx.TensorProto:
    """Return a constant without its elements, with the key of the whole one."""
    stub = onnx.TensorProto()
    stub.CopyFrom(light)
    stub.external_data.add(key=_MARK, value=key)
    return stub


def whole_tensor(weight: Weight) -> onnx.TensorProto:
    """Return a constant with its bytes."""
    return weight.whole() if isinstance(weight, StoredTensor) else weight


MOST_FIELDS = 2**16
"""A model has fewer fields, not counting those of its graph."""

_GRAPH = 7
"""The number of the field of a model that is its graph."""

_DATA: Mapping[int, tuple[int, int]] = {
    4: (onnx.TensorProto.FLOAT, 4),
    9: (0, 1),
    10: (onnx.TensorProto.DOUBLE, 8),
}
"""The fields of a tensor whose bytes are those of its elements, by their numbers, with
the data type for which they are, 0 for any, and the bytes of one item."""

_MOST_OF_TENSOR = 2**12
"""A constant whose bytes are left out has fewer fields."""

_HELD: Mapping[str, Mapping[int, str]] = {
    "model": {_GRAPH: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 11: "graph"},
}
"""The messages that hold nodes and constants at some depth: what each of their fields
is, by its number."""

MOST_WALKED = 2**21
"""How many fields of a file are looked at, which takes some seconds. What is behind
them is read by protobuf alone."""

_DEEPEST = 100
"""protobuf reads no more messages that hold each other."""

_WINDOW = 2**14
"""The bytes that are read at a time in search of fields."""

_LONGEST_NUMBER = 10
"""The most bytes of a number that is the content of a field."""

_LONGEST_IN_HEAD = 5
"""The most bytes of a number before the content of a field, as protobuf reads it."""

_LONGEST_HEAD = 2 * _LONGEST_NUMBER
"""The most bytes of a field up to its content; or up to its end, if it is a number."""

_ATTRIBUTE = b"\x2a"
"""How an attribute of a node starts; the byte may stand elsewhere too."""

LEAST_NODE = 2
"""The fewest bytes of a node in a file."""

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
    reader = _Reader(stream, None)
    return reader.model()


def parsed_without_weights(
    stream: BinaryIO, path: str
) -> tuple[onnx.ModelProto, Weights]:
    """Return the model in a file without the elements of large constants, and these.

    A model that cannot be written in pieces is read whole.

    Raises:
        DecodeError: The file holds no model.
    """
    reader = _Reader(stream, path)
    model = reader.model()
    weights = reader.weights
    if weights and not _is_light(model, weights):
        return parsed_in_pieces(stream), NO_WEIGHTS
    return model, weights


class _Reader:
    """The model in a file, parsed some fields at a time.

    Args:
        stream: The file.
        path: Its path; None where all constants are read.
    """

    def __init__(self, stream: BinaryIO, path: str | None) -> None:
        self.weights: dict[str, Weight] = {}
        """The constants that are left out."""
        self._stream = stream
        self._path = path
        # A change of the file during the reading is seen by whoever reads a constant.
        self._state = _state(stream)
        self._walked = count()

    def model(self) -> onnx.ModelProto:
        """Return the model.

        Raises:
            DecodeError: The file holds no model.
        """
        model = onnx.ModelProto()
        self._fill(model, "model", 0, _size(self._stream), 1)
        return model

    def _fill(
        self, message: Message, kind: str, start: int, end: int, depth: int
    ) -> None:
        """Parse the fields of a message.

        Args:
            message: The message, which gets them.
            kind: What it is, as of `_HELD`.
            start: Where its content starts in the file.
            end: Where it ends.
            depth: How many messages hold each other here.
        """
        if depth > _DEEPEST:
            raise DecodeError
        parsed = start  # what is before it is in the message
        for place in _places(self._stream, start, end):
            if next(self._walked) >= MOST_WALKED:
                break
            number, of_wire = place.kind
            inner = _HELD[kind].get(number) if of_wire == _LENGTH else None
            if inner is None or place.end - place.content <= LEAST_WEIGHT_LEFT_OUT:
                if place.end - parsed >= LARGE:
                    message.MergeFromString(_between(self._stream, parsed, place.end))
                    parsed = place.end
                continue
            # What is before the field is parsed before it.
            message.MergeFromString(_between(self._stream, parsed, place.start))
            parsed = place.end
            field = message.DESCRIPTOR.fields_by_number[number]
            value: Any = getattr(message, field.name)
            held = value if isinstance(value, Message) else value.add()
            if inner == "tensor":
                self._fill_tensor(held, place)
            else:
                self._fill(held, inner, place.content, place.end, depth + 1)
        message.MergeFromString(_between(self._stream, parsed, end))

    def _fill_tensor(self, tensor: Message, place: _Place) -> None:
        """Parse a constant, or leave out its elements."""
        weight = None
        if self._path is not None:
            weight = _stored_tensor(self._stream, self._path, self._state, place)
        if weight is None:
            content = _between(self._stream, place.content, place.end)
            tensor.MergeFromString(content)
            return
        key = next(_KEYS)
        self.weights[key] = weight
        tensor.MergeFrom(_stub(weight.light, key))


def _is_light(model: onnx.ModelProto, weights: Mapping[str, Weight]) -> bool:
    """Return whether a model is written with its constants as its file has it.

    Args:
        model: A model that was read from a file.
        weights: The constants whose elements were left out.
    """
    marked = [*_marked(model)]
    stubs = [message for message in marked if isinstance(message, onnx.TensorProto)]
    # Case: an attribute has two constants, which become one.
    if len(stubs) != len(weights):
        return False
    for stub in stubs:
        weight = weight_of(stub, weights)
        if not isinstance(weight, StoredTensor):
            return False
        if stub != _stub(weight.light, stub.external_data[0].value):
            return False
    return _is_plain(model) and all(map(_has_plain_fields, marked))


def _marked(message: Message) -> Iterator[Message]:
    """Yield the messages in a message that are stubs, or hold one."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for item in _items(value):
            if _MARK.encode() in item.SerializeToString():
                yield item
                if not isinstance(item, onnx.TensorProto):
                    yield from _marked(item)


def _items(value: Any) -> Iterable[Message]:
    """Return the messages of a field, which may be one."""
    return [value] if isinstance(value, Message) else value


def _stored_tensor(
    stream: BinaryIO, path: str, state: tuple[int, ...], place: _Place
) -> StoredTensor | None:
    """Return a constant with large data in a file; None for any other.

    Args:
        stream: The file.
        path: Its path.
        state: What `_state` returned before the file was read.
        place: Where the constant is.
    """
    fields = [*islice(_places(stream, place.content, place.end), _MOST_OF_TENSOR)]
    data = [
        field for field in fields if field.end - field.start > LEAST_WEIGHT_LEFT_OUT
    ]
    if len(data) != 1 or len(fields) == _MOST_OF_TENSOR:
        return None
    (content,) = data
    light = onnx.TensorProto()
    light.MergeFromString(_between(stream, place.content, content.start))
    light.MergeFromString(_between(stream, content.end, place.end))
    number, kind = content.kind
    # Case: what is large is a text, or data of which protobuf makes other bytes.
    if kind != _LENGTH or number not in _DATA:
        return None
    data_type, width = _DATA[number]
    size = content.end - content.content
    if data_type not in (0, light.data_type) or size % width:
        return None
    # Case: the data in the file does not count alone.
    if light.data_location or any(
        field.name.endswith("_data") for field, _ in light.ListFields()
    ):
        return None
    elements = StoredBytes(path, state, content.content, content.end)
    return StoredTensor(light, number, elements)


def _state(stream: BinaryIO) -> tuple[int, ...]:
    """Return what is another of a file that was changed or replaced."""
    status = os.fstat(stream.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def has_more_nodes(stream: BinaryIO, limit: int) -> bool:
    """Return whether the model in a file has more nodes, with its bodies and functions.

    A file that holds no model may have any number. Nodes behind very many other fields
    do not count.
    """
    end = _size(stream)
    # Case: it is too small, as most files without weights.
    if end <= limit * LEAST_NODE:
        return False
    nodes = _nodes_between(stream, "model", 0, end, count())
    with suppress(DecodeError):
        return next(islice(nodes, limit, None), None) is not None
    return False


def _nodes_between(
    stream: BinaryIO,
    message: str,
    start: int,
    end: int,
    walked: Iterator[int],
    depth: int = 1,
) -> Iterator[int]:
    """Yield where each node of a message of a file starts, and each in its bodies.

    Args:
        stream: The file.
        message: A message of `_HELD`.
        start: Where the content of the message starts in the file.
        end: Where it ends.
        walked: The numbers of the fields that are looked at.
        depth: How many messages hold each other here.

    Raises:
        DecodeError: The file holds no model.
    """
    if depth > _DEEPEST:
        raise DecodeError
    held = _HELD[message]
    for place in _places(stream, start, end):
        if next(walked) >= MOST_WALKED:
            return
        number, kind = place.kind
        inner = held.get(number) if kind == _LENGTH else None
        if inner is None or inner == "tensor":
            continue
        if inner == "node":
            yield place.start
            # Case: it has no attribute, and so no body, as most nodes.
            is_short = place.end - place.content < _WINDOW
            if is_short and _ATTRIBUTE not in _between(
                stream, place.content, place.end
            ):
                continue
        content = place.content
        yield from _nodes_between(stream, inner, content, place.end, walked, depth + 1)


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
        DecodeError: A field ends behind `end`, or its type is not one of ONNX.
    """
    window = b""
    first = start  # the place of the window in the file
    while start < end:
        window_end = first + len(window)
        if start + _LONGEST_HEAD > window_end and window_end < end:
            window = _between(stream, start, min(start + _WINDOW, end))
            first = start
        try:
            number, kind, at = _kind_at(window, start - first)
            # Case: a long file of zeros, which would be read byte by byte.
            if number == 0:
                raise DecodeError
            size, at = _size_at(window, at, kind)
        except IndexError:  # it ends within the head of a field
            raise DecodeError from None
        content = first + at
        if content + size > end:
            raise DecodeError
        yield _Place((number, kind), start, content, content + size)
        start = content + size


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
    except OSError as error:
        pass_foreign(error)
        return b""
    return digest.digest()


def _is_hole(stream: BinaryIO, start: int) -> bool:
    """Return whether a piece of a sparse file is known to have no bytes on disk."""
    # Case: Windows tells no holes.
    if not hasattr(os, "SEEK_DATA"):
        return False
    try:
        next_data = os.lseek(stream.fileno(), start, os.SEEK_DATA)
    except OSError as error:
        pass_foreign(error)
        return True  # as there are no more bytes
    return next_data >= start + LARGE


def _size(stream: BinaryIO) -> int:
    return os.fstat(stream.fileno()).st_size


def _between(stream: BinaryIO, start: int, end: int) -> bytes:
    """Return the bytes of a file between two places."""
    stream.seek(start)
    return stream.read(end - start)


def _kind_at(content: bytes, at: int) -> tuple[int, int, int]:
    """Return the number and the type of a field, and where what follows starts."""
    key, at = _number_at(content, at, _LONGEST_IN_HEAD)
    return key >> 3, key & 7, at


def _size_at(content: bytes, at: int, kind: int) -> tuple[int, int]:
    """Return the size of what a field of a type holds, and where that starts.

    Raises:
        DecodeError: The type is not one of ONNX.
    """
    if kind == _LENGTH:
        return _number_at(content, at, _LONGEST_IN_HEAD)
    if kind == 0:  # a number, up to its last byte
        _, end = _number_at(content, at, _LONGEST_NUMBER)
        return end - at, at
    if kind not in _FIXED:
        raise DecodeError
    return _FIXED[kind], at


def _number_at(content: bytes, at: int, longest: int) -> tuple[int, int]:
    """Return a number, whose bytes have seven bits each, the lowest ones first.

    Args:
        content: The bytes.
        at: Where the number starts.
        longest: The most bytes that it may have.

    Returns:
        The number, and where what follows it starts.

    Raises:
        DecodeError: It has too many bytes.
        IndexError: The content ends within it.
    """
    number = 0
    for shift in range(0, 7 * longest, 7):
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise DecodeError


def pieces_of(model: onnx.ModelProto, weights: Weights = NO_WEIGHTS) -> Iterator[bytes]:
    """Yield the bytes of a model, in pieces if it is large.

    Together they are those of `SerializeToString(deterministic=True)`.

    Args:
        model: The model.
        weights: The constants whose bytes the model lacks.

    Raises:
        ChangedFileError: As `StoredBytes.pieces`.
    """
    if weights or (_bytes_of_constants(model) > LARGE and _is_plain(model)):
        yield from read_pieces(_pieces(model, _by_weights(weights)))
    else:
        yield model.SerializeToString(deterministic=True)


def written_size(model: onnx.ModelProto, weights: Weights) -> int:
    """Return the number of the bytes that `pieces_of` yields."""
    if weights:
        return sum(map(len, _pieces(model, _by_weights(weights))))
    return sum(map(len, pieces_of(model)))


Piece = bytes | StoredBytes
"""Some bytes of a message, or where they are."""

_Change = Callable[[onnx.TensorProto], Weight]
"""What returns the constant that is written in the place of another one."""


def _by_weights(weights: Weights) -> _Change:
    return partial(weight_of, weights=weights)


def read_pieces(pieces: Iterable[Piece]) -> Iterator[bytes]:
    """Yield pieces, with those that are in files read from there.

    Raises:
        ChangedFileError: As `StoredBytes.pieces`.
    """
    for piece in pieces:
        if isinstance(piece, StoredBytes):
            yield from piece.pieces()
        else:
            yield piece


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
    has_large = _bytes_of_constants(model) > LEAST_WEIGHT_LEFT_OUT
    if weights or not has_large or not _is_plain(model):
        copy.CopyFrom(model)
        return copy, weights
    content = b"".join(read_pieces(_pieces(model, _without_bytes)))
    copy.MergeFromString(content)
    left_out: dict[str, Weight] = {}
    pairs = zip(model.graph.initializer, copy.graph.initializer, strict=True)
    for tensor, light in pairs:
        if len(tensor.raw_data) > LEAST_WEIGHT_LEFT_OUT:
            key = next(_KEYS)
            left_out[key] = tensor
            light.external_data.add(key=_MARK, value=key)
    return copy, left_out


def whole_model(model: onnx.ModelProto, weights: Weights) -> onnx.ModelProto:
    """Return a copy of a model with the constants whose bytes it lacks.

    Raises:
        ChangedFileError: As `StoredBytes.pieces`.
    """
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    for message in [*_marked(whole)]:
        if isinstance(message, onnx.TensorProto):
            message.CopyFrom(whole_tensor(weight_of(message, weights)))
    return whole


def _without_bytes(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """Return a copy of a tensor without its raw data; the tensor if they are few."""
    if len(tensor.raw_data) <= LEAST_WEIGHT_LEFT_OUT:
        return tensor
    copy = onnx.TensorProto()
    for field, value in tensor.ListFields():
        if field.name != "raw_data":
            copy.MergeFromString(
                b"".join(read_pieces(_field_pieces(tensor, field, value)))
            )
    return copy


def _bytes_of_constants(model: onnx.ModelProto) -> int:
    """Return how many bytes of raw data the constants of a model have together."""
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer)


def _is_plain(model: onnx.ModelProto) -> bool:
    """Return whether the fields of a model and of its graph can be written alone."""
    messages: list[Message] = [model, model.graph, *model.graph.initializer]
    return all(map(_has_plain_fields, messages))


def _has_plain_fields(message: Message) -> bool:
    """Return whether the fields of a message can be written alone."""
    if len(UnknownFieldSet(message)):  # they come last, whatever their number
        return False
    for field, value in message.ListFields():
        # protobuf returns bytes where a text is broken.
        if field.type == field.TYPE_STRING and isinstance(value, bytes):
            return False
    return True


def _same(tensor: onnx.TensorProto) -> Weight:
    return tensor


def _pieces(message: Message, change: _Change = _same) -> Iterator[Piece]:
    """Yield the fields of a message in the order of their numbers.

    Args:
        message: A model, its graph, a large constant of it, or what holds a stub.
        change: Returns what is written in the place of each constant.
    """
    for field, value in message.ListFields():
        yield from _field_pieces(message, field, value, change)


def _field_pieces(
    message: Message, field: Any, value: Any, change: _Change = _same
) -> Iterator[Piece]:
    """Yield a field of a message; `change` is that of `_pieces`."""
    if field.message_type is not None:
        for item in _items(value):
            yield from _piece(field.number, item, change)
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


def _tensor_pieces(weight: Weight) -> Iterator[Piece]:
    """Yield the fields of a constant, in pieces if it is large."""
    if isinstance(weight, StoredTensor):
        behind: list[Piece] = []
        for field, value in weight.light.ListFields():
            pieces = _field_pieces(weight.light, field, value)
            if field.number < weight.number:
                yield from pieces
            else:
                behind += pieces
        yield _head(weight.number, len(weight.content))
        yield weight.content
        yield from behind
    elif len(weight.raw_data) > LARGE:
        yield from _pieces(weight)
    else:
        yield weight.SerializeToString(deterministic=True)


def pieces_of_message(message: Message, weights: Weights) -> list[Piece]:
    """Return the bytes of a message of a model.

    Args:
        message: Such as a node or a constant.
        weights: The constants whose bytes the model lacks.
    """
    return [*_message_pieces(message, _by_weights(weights))]


def _message_pieces(message: Message, change: _Change) -> Iterator[Piece]:
    """Yield a message; `change` is that of `_pieces`."""
    if isinstance(message, onnx.TensorProto):
        yield from _tensor_pieces(change(message))
        return
    content = message.SerializeToString(deterministic=True)
    if _MARK.encode() in content:
        yield from _pieces(message, change)
    else:
        yield content


def _piece(number: int, item: Message, change: _Change) -> Iterator[Piece]:
    """Yield a field that is a message; `change` is that of `_pieces`."""
    # Case: the main graph, of whose pieces memory need not hold all.
    if number == _GRAPH and isinstance(item, onnx.GraphProto):
        yield _head(number, sum(map(len, _pieces(item, change))))
        yield from _pieces(item, change)
        return
    pieces = [*_message_pieces(item, change)]
    yield _head(number, sum(map(len, pieces)))
    yield from pieces


def _head(number: int, size: int) -> bytes:
    """Return the start of a field with a length."""
    content = bytearray()
    for value in (number * 8 + _LENGTH, size):
        while value >= 0x80:
            content.append(value & 0x7F | 0x80)
            value >>= 7
        content.append(value)
    return bytes(content)
