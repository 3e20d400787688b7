"""A reader of serialized DirectML graphs: which operators a graph has, with their
descriptors.

With the session option `ep.dml.enable_graph_serialization` ONNX Runtime's DirectML
provider writes each graph that it gives DirectML to a file, `Partition_0.bin` and so
on. The file is a flatbuffer; its schema is that of ONNX Runtime's
DmlGraphDesc_generated.h and OperatorFieldTypes_generated.h:

    table DmlGraphDesc { nodes: [DmlGraphNode]; graphInputNames: [string]; ... }
    table DmlGraphNode { desc: union { OperatorNodeDesc, ConstantNodeDesc };
                         name: string; inputNames: [string]; outputNames: [string]; }
    table OperatorNodeDesc { type: string; inputs: [DmlBufferTensorDesc];
                             outputs: [DmlBufferTensorDesc];
                             attributes: [AttributeDesc]; }
    table DmlBufferTensorDesc { dataType: string; sizes: [uint32]; strides: [uint32];
                                totalTensorSizeInBytes: uint64; }
    table AttributeDesc { name: string; val: union of kinds of values; }

The file has neither Flags nor GuaranteedBaseOffsetAlignment.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

_OPERATOR, _CONSTANT = 1, 2
"""The kinds of nodes."""

_NUMBERS = {3: "<I", 4: "<Q", 5: "<i", 6: "<f", 13: "<?"}
"""How the number of an attribute is packed, by the kind of value: UInt32, UInt64,
Int32, Float32 and Bool. Attributes of other kinds, which no gather has, are left
out."""

_REPEATED = 4
"""How often a file may use its bytes on average, as some names stand there once for
several."""


class SerializedGraphError(ValueError):
    """The bytes are no serialized DirectML graph; the message says why."""


@dataclass(frozen=True)
class SerializedTensor:
    """What the file has of a DML_BUFFER_TENSOR_DESC."""

    data_type: str
    """Without DML_TENSOR_DATA_TYPE_, such as FLOAT32."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    total_tensor_size_in_bytes: int


@dataclass(frozen=True)
class SerializedOperator:
    """An operator of a graph, with the names of the graph's values."""

    name: str
    type: str
    """Such as DML_OPERATOR_GATHER."""
    inputs: tuple[SerializedTensor, ...]
    outputs: tuple[SerializedTensor, ...]
    fields: dict[str, float]
    """The fields that are numbers, by their names in directml.h."""
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]


def read_operators(content: bytes) -> list[SerializedOperator]:
    """The operators of a graph; nodes that are constants are left out.

    Raises:
        SerializedGraphError: The bytes are no serialized graph.
    """
    file = _File(content)
    graph = _Table(file, file.offset(0), "a graph")
    found: list[SerializedOperator] = []
    for node in graph.items(0, "nodes", lambda at: _Table(file, at, "a node")):
        kind = node.number(0, "<B")
        if kind == _OPERATOR:
            found.append(_operator(file, node))
        elif kind != _CONSTANT:
            raise SerializedGraphError(
                f"a node must be an operator or a constant, got {kind}"
            )
    return found


def _operator(file: _File, node: _Table) -> SerializedOperator:
    desc = _Table(file, node.target(1, "desc"), "an operator")
    inputs = desc.items(1, "inputs", lambda at: _tensor(file, at))
    outputs = desc.items(2, "outputs", lambda at: _tensor(file, at))
    fields: dict[str, float] = {}
    for field in desc.items(
        3, "attributes", lambda at: _Table(file, at, "an attribute")
    ):
        packing = _NUMBERS.get(int(field.number(1, "<B")))
        if packing is not None:
            fields[field.text(0, "name")] = file.number(packing, field.target(2, "val"))
    return SerializedOperator(
        node.text(2, "name"),
        desc.text(0, "type"),
        inputs,
        outputs,
        fields,
        node.items(3, "inputNames", file.text),
        node.items(4, "outputNames", file.text),
    )


def _tensor(file: _File, at: int) -> SerializedTensor:
    table = _Table(file, at, "a tensor")
    prefix, data_type = "DML_TENSOR_DATA_TYPE_", table.text(0, "dataType")
    if not data_type.startswith(prefix):
        raise SerializedGraphError(
            f"dataType must start with {prefix}, got {data_type[:40]!r}"
        )
    sizes, strides = table.uints(1) or (), table.uints(2)
    if strides is not None and len(strides) != len(sizes):
        rule = f"a tensor must have as many strides as sizes ({len(sizes)})"
        raise SerializedGraphError(f"{rule}, got {len(strides)}")
    return SerializedTensor(
        data_type.removeprefix(prefix), sizes, strides, int(table.number(3, "<Q"))
    )


class _File:
    """The bytes of a flatbuffer; a place in it is the number of a byte.

    A file that points to the same bytes again and again would take forever, and is
    refused.
    """

    def __init__(self, content: bytes) -> None:
        self._content, self._left = content, _REPEATED * len(content)

    def number(self, packing: str, at: int) -> float:
        """The number at a place."""
        size = struct.calcsize(packing)
        if not 0 <= at <= len(self._content) - size:
            rule = f"the file has {len(self._content)} bytes"
            raise SerializedGraphError(f"{rule}, but a number must stand at byte {at}")
        self._spend(size)
        return struct.unpack_from(packing, self._content, at)[0]

    def offset(self, at: int) -> int:
        """The place that the offset at a place leads to, which is behind it."""
        return at + int(self.number("<I", at))

    def list(self, at: int) -> tuple[int, int]:
        """Where the items of a list begin, and how many they are."""
        count = int(self.number("<I", at))
        self._spend(count)
        return at + 4, count

    def text(self, at: int) -> str:
        """The text at a place."""
        start, count = self.list(at)
        if self.number("<B", start + count):
            raise SerializedGraphError(f"the text at byte {at} must end with a zero")
        try:
            return self._content[start : start + count].decode()
        except UnicodeDecodeError:
            raise SerializedGraphError(f"the text at byte {at} must be UTF-8") from None

    def _spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            rule = (
                f"the file must use each byte about once, got {len(self._content)}"
                " bytes"
            )
            raise SerializedGraphError(
                f"{rule} used more than {_REPEATED} times on average"
            )


class _Table:
    """A table of a flatbuffer: fields by their numbers, each of which may be absent.

    Args:
        file: The file.
        at: Where the table begins.
        name: What the table is, for messages.
    """

    def __init__(self, file: _File, at: int, name: str) -> None:
        self._file, self._at, self._name = file, at, name
        self._fields = at - int(file.number("<i", at))
        self._end = int(file.number("<H", self._fields))

    def number(self, field: int, packing: str) -> float:
        """A field that is a number; 0 where it is absent."""
        at = self._place(field)
        return 0 if at is None else self._file.number(packing, at)

    def target(self, field: int, name: str) -> int:
        """Where a field that must be there leads to."""
        at = self._place(field)
        if at is None:
            raise SerializedGraphError(f"{self._name} must have the field {name}")
        return self._file.offset(at)

    def text(self, field: int, name: str) -> str:
        """A field that is text."""
        return self._file.text(self.target(field, name))

    def uints(self, field: int) -> tuple[int, ...] | None:
        """A field that is a list of numbers; None where it is absent."""
        at = self._place(field)
        if at is None:
            return None
        start, count = self._file.list(self._file.offset(at))
        return tuple(int(self._file.number("<I", start + 4 * k)) for k in range(count))

    def items(self, field: int, name: str, read: Callable[[int], T]) -> tuple[T, ...]:
        """A field that is a list: what `read` makes of the place of each item."""
        start, count = self._file.list(self.target(field, name))
        return tuple(read(self._file.offset(start + 4 * k)) for k in range(count))

    def _place(self, field: int) -> int | None:
        entry = 4 + 2 * field
        if entry + 2 > self._end:
            return None
        offset = int(self._file.number("<H", self._fields + entry))
        return self._at + offset if offset else None
