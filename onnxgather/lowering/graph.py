"""A small ONNX graph under construction: nodes, constants, and folding of what is constant.

It knows the shape and the data type of every value, so that nothing that changes nothing is
added, and it computes with numpy whatever depends on constants alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onnxgather.arrays import Array
from onnxgather.datatypes import TensorDataType

Shape = tuple[int, ...]

Attribute = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the graph; `constant` holds its elements where they are known."""

    name: str
    dtype: np.dtype[Any]
    shape: Shape
    constant: Array | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One ONNX node with one output, and why it is there."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Attribute]
    why: str
    bodies: Mapping[str, Graph] = field(default_factory=dict[str, "Graph"])
    """The subgraph of a Scan; it reads the outer graph's values and constants."""


@dataclass(slots=True)
class Graph:
    """Nodes in topological order, with the inputs, the output and the constants they need."""

    fold_all: bool = False
    """Fold what is constant whatever its size; else up to LONGEST_INLINE elements."""
    inputs: list[Value] = field(default_factory=list[Value])
    nodes: list[Node] = field(default_factory=list[Node])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    output: Value | None = None
    choice: str = ""
    """Which form was chosen, and why, where there was a choice."""
    passed_over: tuple[tuple[str, str], ...] = ()
    """The forms that were tried before it, and why each does not fit."""
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    """Every value that a node makes, by name."""
    _made: dict[tuple[object, ...], Value] = field(default_factory=dict[tuple[object, ...], Value])
    _names: set[str] = field(default_factory=set[str])

    def body(self) -> Graph:
        """Return an empty subgraph; it shares the constants and must not repeat a name."""
        return Graph(
            self.fold_all,
            constants=self.constants,
            values=self.values,
            _made=dict(self._made),
            _names=self._names,
        )

    def input(self, name: str, dtype: np.dtype[Any], shape: Shape) -> Value:
        """Return a graph input, added unless it is there."""
        if name in self.values:
            return self.values[name]
        value = self.values[name] = Value(self._unused(name), dtype, shape)
        self.inputs.append(value)
        return value

    def add(
        self,
        op: str,
        name: str,
        *inputs: Value,
        why: str,
        shape: Shape | None = None,
        dtype: Any = None,
        bodies: Mapping[str, Graph] | None = None,
        **attributes: Attribute,
    ) -> Value:
        """Add a node unless it is there or all inputs are constant; return its output.

        The output broadcasts the inputs' shapes and has the first one's data type unless given.
        """
        if shape is None:
            shapes = {value.shape for value in inputs if value.shape}
            shape = shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)
        dtype = inputs[0].dtype if dtype is None else np.dtype(dtype)
        if op in _FOLD and (self.fold_all or math.prod(shape) <= LONGEST_INLINE):
            known = [value.constant for value in inputs if value.constant is not None]
            if len(known) == len(inputs):
                with np.errstate(over="ignore"):
                    folded = _FOLD[op](*known, **attributes)
                return constant(name, np.asarray(folded, dtype).reshape(shape))
        names = tuple(self._reference(value) for value in inputs)
        key = (op, names, tuple(attributes.items()))
        if key not in self._made or bodies:
            made = Value(self._unused(name), dtype, shape)
            self._made[key] = self.values[made.name] = made
            self.nodes.append(Node(op, names, made.name, attributes, why, bodies or {}))
        return self._made[key]

    def cast(self, value: Value, dtype: Any, name: str, why: str) -> Value:
        """Return `value` in another data type; wraps as two's complement does."""
        dtype = np.dtype(dtype)
        if value.dtype == dtype:
            return value
        if value.constant is not None:
            return constant(name, value.constant.astype(dtype))
        to = ONNX_TYPES[dtype]
        return self.add("Cast", name, value, why=why, dtype=dtype, to=to)

    def reshape(self, value: Value, shape: Shape, name: str, why: str) -> Value:
        """Return `value` with another shape of as many elements."""
        if value.shape == shape:
            return value
        if value.constant is not None:
            return constant(name, value.constant.reshape(shape))
        target = constant(f"{name}_shape", np.array(shape, np.int64))
        return self.add("Reshape", name, value, target, why=why, shape=shape)

    def expand(self, value: Value, shape: Shape, name: str, why: str) -> Value:
        """Return `value` repeated along its dimensions of size 1 to fill `shape`."""
        if value.shape == shape:
            return value
        small = self.fold_all or math.prod(shape) <= LONGEST_INLINE
        if value.constant is not None and small:
            return constant(name, np.broadcast_to(value.constant, shape))
        target = constant(f"{name}_shape", np.array(shape, np.int64))
        return self.add("Expand", name, value, target, why=why, shape=shape)

    def transpose(self, value: Value, perm: tuple[int, ...], name: str, why: str) -> Value:
        """Return `value` with its dimensions in another order."""
        if perm == tuple(range(len(perm))):
            return value
        shape = tuple(value.shape[k] for k in perm)
        return self.add("Transpose", name, value, why=why, shape=shape, perm=perm)

    def scan(
        self, values: tuple[Value, ...], make: Callable[[Graph, list[Value]], Value], name: str
    ) -> Value:
        """Return what `make(body, parts)` adds for one part of the values after another.

        The first dimension counts the parts, which ONNX Runtime hands in and out without a copy.
        """
        body = self.body()
        parts = [body.input(f"{value.name}_part", value.dtype, value.shape[1:]) for value in values]
        made = make(body, parts)
        body.finish(made, f"{name}_part")
        return self.add(
            "Scan",
            name,
            *values,
            why="one part after another, each in the cache",
            shape=(values[0].shape[0], *made.shape),
            dtype=made.dtype,
            bodies={"body": body},
            num_scan_inputs=len(values),
        )

    def arange(self, count: int, step: int, dtype: Any, name: str) -> Value:
        """Return 0, step, … as a constant, or as a Range where that is too long to write."""
        if self.fold_all or count <= LONGEST_INLINE:
            steps = np.arange(count, dtype=np.uint64) * np.uint64(step)
            return constant(name, steps.astype(dtype))
        limits = (0, count * step, step)
        scalars = [
            constant(f"{name}_{part}", np.array(limit, np.int64))
            for part, limit in zip(("start", "limit", "delta"), limits, strict=True)
        ]
        why = "counts the offsets; folded when the model is loaded"
        value = self.add("Range", name, *scalars, why=why, shape=(count,))
        return self.cast(value, dtype, f"{name}_{np.dtype(dtype).name}", "the offsets' type")

    def finish(self, value: Value, name: str) -> None:
        """Make `value`, the last node's output, the graph's output under another name."""
        last = self.nodes[-1]
        assert last.output == value.name
        self.nodes[-1] = replace(last, output=name)
        self.output = self.values[name] = Value(name, value.dtype, value.shape)

    def _reference(self, value: Value) -> str:
        """Return the name under which a node reads a value, storing constants on the way."""
        if value.constant is None:  # an input left out has no name
            return value.name
        array = np.ascontiguousarray(value.constant).reshape(value.shape)
        for name, stored in self.constants.items():
            alike = stored.dtype == array.dtype and stored.shape == array.shape
            if alike and array.size <= 64 and stored.tobytes() == array.tobytes():
                return name
        name = self._unused(value.name)
        self.constants[name] = array
        return name

    def _unused(self, name: str) -> str:
        unused, number = name, 2
        while unused in self._names:
            unused, number = f"{name}_{number}", number + 1
        self._names.add(unused)
        return unused


LEFT_OUT = Value("", np.dtype(np.bool_), ())
"""An optional input that a node does without."""

LONGEST_INLINE = 1024
"""Longest constant, in elements, that is written into the model where a Range can count it."""

DOMAINS = {"ArrayFeatureExtractor": ("ai.onnx.ml", 1)}
"""The operators outside ONNX's own domain: their domain and the opset that has them."""

ONNX_TYPES = {data_type.numpy: data_type.onnx for data_type in TensorDataType}
ONNX_TYPES[np.dtype(np.bool_)] = 9
"""`TensorProto.DataType` by numpy's type: the eleven types of tensors, and bool for masks."""


def constant(name: str, array: Array) -> Value:
    """Return a value whose elements are known; it is stored when a node reads it."""
    return Value(name, array.dtype, array.shape, array)


def size_of(shape: Shape) -> int:
    """Return the number of elements of a shape."""
    return math.prod(shape)


def _clip(x: Array, low: Array, high: Array) -> Array:
    return np.minimum(np.maximum(x, low), high)


def _reduce_sum(x: Array, axes: Array, keepdims: int) -> Array:
    return x.sum(axis=tuple(int(a) for a in axes), keepdims=bool(keepdims))


_FOLD: dict[str, Callable[..., Array]] = {
    "Add": np.add,
    "Clip": _clip,
    "Less": np.less,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Or": np.logical_or,
    "ReduceSum": _reduce_sum,
    "Where": np.where,
}
