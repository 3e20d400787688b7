"""A small ONNX graph under construction: its nodes and its constants.

The graph knows the shape and the data type of every value. It adds no node that would
change nothing, and it folds: what depends on constants alone is computed with numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import OPERATORS

Shape = tuple[int, ...]

Attribute = int | str | tuple[int, ...]


class Value(NamedTuple):
    """A value of the graph; `constant` holds its elements where they are known.

    Like `Node` it is a named tuple, as a graph makes dozens and a frozen dataclass
    takes twice as long.
    """

    name: str
    dtype: np.dtype[Any]
    shape: Shape
    constant: Array | None = None


class Node(NamedTuple):
    """An ONNX node with one output; `why` says what it is for."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Attribute]
    why: str
    bodies: Mapping[str, Graph]
    """The subgraph of a Scan, which reads the outer graph's values and constants; or as
    `FUNCTION` the body of a function, which reads the inputs of the node."""


class Graph(Struct):
    """Nodes in topological order, with the values and the constants that they read."""

    fold_all: bool = False
    """Whether constants of any size are folded; if not, those of up to LONGEST_INLINE
    elements."""
    narrow: bool = False
    """Whether arithmetic is done without INT64, Min, Max and Or, as the target webgpu
    needs."""
    for_webnn: bool = False
    """Whether WebNN's provider is to run the graph, which has no arithmetic of UINT32
    and no Reshape to a scalar."""
    inputs: list[Value] = []
    nodes: list[Node] = []
    constants: dict[str, Array] = {}
    output: Value | None = None
    choice: str = ""
    """The form that was chosen, and why; empty where there was no choice."""
    passed_over: tuple[tuple[str, str], ...] = ()
    """The forms that were tried before the chosen one, and why each does not fit."""
    values: dict[str, Value] = {}
    """Every input and every value that a node computes, by name."""
    names: set[str] = set()
    """The names that are taken."""
    _outputs: dict[tuple[object, ...], Value] = {}
    """The output of each node, by its operator, inputs and attributes."""

    @property
    def integer(self) -> type[np.int32 | np.int64]:
        """The data type of counts, rows and offsets."""
        return np.int32 if self.narrow else np.int64

    @property
    def word(self) -> type[np.int32 | np.uint32]:
        """The data type of DirectML's arithmetic, which is modulo 2^32."""
        return np.int32 if self.for_webnn else np.uint32

    def body(self) -> Graph:
        """Return an empty subgraph, which shares this graph's constants and names."""
        # A body reads what nodes before it computed, but not the other way round.
        outputs = dict(self._outputs)
        return replace(self, inputs=[], nodes=[], _outputs=outputs)

    def input(self, name: str, dtype: np.dtype[Any], shape: Shape) -> Value:
        """Return the graph input with a name; add it if the graph does not have it."""
        if name in self.values:
            return self.values[name]
        value = Value(new_name(name, self.names), dtype, shape)
        self.values[name] = value
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
        """Add a node; return its output.

        Nothing is added if the graph has the same node or can fold it.

        Args:
            op: The ONNX operator.
            name: The name of the output; a number is added if it is taken.
            inputs: The inputs, in order; `LEFT_OUT` for an optional one.
            why: What the node is for.
            shape: The shape of the output; None means the broadcast shape of the
                inputs.
            dtype: The data type of the output; None means bool of a comparison, of a
                Where that of what it chooses from, of other operators that of the first
                input.
            bodies: The subgraphs, by the names of their attributes.
            attributes: The other attributes.
        """
        if shape is None:
            shape = _broadcast_shape(inputs)
        if dtype is None:
            dtype = _output_type(op, inputs)
        dtype = np.dtype(dtype)

        # Case 1: numpy computes the node, as all of its inputs are constants.
        if op in _FOLD and self._is_inline(shape):
            arrays = [value.constant for value in inputs if value.constant is not None]
            if len(arrays) == len(inputs):
                with np.errstate(over="ignore"):
                    folded = _FOLD[op](*arrays, **attributes)
                return constant(name, np.asarray(folded, dtype).reshape(shape))

        # Case 2: the graph has the same node. Nodes with bodies are never the same.
        names = tuple([self._reference(value) for value in inputs])
        key = (op, names, tuple(attributes.items()))
        if key in self._outputs and not bodies:
            return self._outputs[key]

        # Case 3: a new node.
        output = Value(new_name(name, self.names), dtype, shape)
        self._outputs[key] = output
        self.values[output.name] = output
        node = Node(op, names, output.name, attributes, why, bodies or {})
        self.nodes.append(node)
        return output

    def cast(self, value: Value, dtype: Any, name: str, why: str) -> Value:
        """Return `value` in another data type.

        Integers that do not fit lose their high bits.
        """
        dtype = np.dtype(dtype)
        if value.dtype == dtype:
            return value
        if value.constant is not None:
            return constant(name, value.constant.astype(dtype))
        to = ONNX_TYPES[dtype]
        return self.add("Cast", name, value, why=why, dtype=dtype, to=to)

    def reshape(self, value: Value, shape: Shape, name: str, why: str) -> Value:
        """Return `value` with another shape of as many elements."""
        # Case: a scalar, for which one element stands.
        if self.for_webnn and not shape:
            shape = (1,)
        if value.shape == shape:
            return value
        if value.constant is not None:
            return constant(name, value.constant.reshape(shape))
        if self.narrow and value.dtype == np.bool_:
            # WebGPU's provider has no Reshape of masks.
            cast_why = "a type that Reshape takes"
            number = self.cast(value, np.int32, f"{name}_int32", cast_why)
            number = self.reshape(number, shape, name, why)
            return self.cast(number, np.bool_, name, "a mask again")
        target = _shape_input(name, shape)
        return self.add("Reshape", name, value, target, why=why, shape=shape)

    def expand(self, value: Value, shape: Shape, name: str, why: str) -> Value:
        """Return `value` repeated along its dimensions of size 1 to fill `shape`."""
        if value.shape == shape:
            return value
        if value.constant is not None and self._is_inline(shape):
            return constant(name, np.broadcast_to(value.constant, shape))
        target = _shape_input(name, shape)
        return self.add("Expand", name, value, target, why=why, shape=shape)

    def with_zeros(
        self, value: Value, axis: int, zeros: tuple[str, str], both: tuple[str, str]
    ) -> Value:
        """Return `value` with zeros behind its last elements along a dimension.

        Args:
            value: The value.
            axis: The dimension, which becomes one longer.
            zeros: The name of the zeros, and why they are there.
            both: The name of the value with them, and why it is there.
        """
        rank = len(value.shape)
        zero = constant("zero", np.zeros((1,) * rank, value.dtype))
        sizes = list(value.shape)
        sizes[axis] = 1
        zero = self.expand(zero, tuple(sizes), *zeros)
        sizes[axis] = value.shape[axis] + 1
        shape = tuple(sizes)
        name, why = both
        return self.add("Concat", name, value, zero, why=why, shape=shape, axis=axis)

    def transpose(
        self, value: Value, perm: tuple[int, ...], name: str, why: str
    ) -> Value:
        """Return `value` with its dimensions in another order."""
        if perm == tuple(range(len(perm))):
            return value
        shape = tuple(value.shape[dimension] for dimension in perm)
        return self.add("Transpose", name, value, why=why, shape=shape, perm=perm)

    def slice(self, value: Value, first: int, end: int, name: str, why: str) -> Value:
        """Return the elements from `first` to before `end` of the last dimension."""
        axis = len(value.shape) - 1
        limits = {"start": first, "end": end, "axis": axis}
        inputs: list[Value] = []
        for part, number in limits.items():
            array = np.array([number], np.int64)
            inputs.append(constant(f"{name}_{part}", array))
        shape = (*value.shape[:-1], end - first)
        return self.add("Slice", name, value, *inputs, why=why, shape=shape)

    def arange(self, count: int, step: int, dtype: Any, name: str) -> Value:
        """Return the 1-D value 0, step, …, of `count` elements.

        It is a constant, or a Range node if it is too long to write.
        """
        if self.fold_all or count <= LONGEST_INLINE:
            numbers = np.arange(count, dtype=np.uint64)
            steps = numbers * np.uint64(step)
            return constant(name, steps.astype(dtype))
        limits = {"start": 0, "limit": count * step, "delta": step}
        scalars: list[Value] = []
        for part, limit in limits.items():
            array = np.array(limit, np.int64)
            scalars.append(constant(f"{name}_{part}", array))
        why = "counts the offsets; folded when the model is loaded"
        value = self.add("Range", name, *scalars, why=why, shape=(count,))
        typed_name = f"{name}_{np.dtype(dtype).name}"
        return self.cast(value, dtype, typed_name, "the offsets' type")

    def finish(self, value: Value, name: str) -> None:
        """Rename `value`, the last node's output, and make it the graph's output."""
        last = self.nodes[-1]
        assert last.output == value.name
        self.nodes[-1] = last._replace(output=name)
        self.output = Value(name, value.dtype, value.shape)
        self.values[name] = self.output

    def inline(self, other: Graph, given: Mapping[str, Value], name: str) -> Value:
        """Add the nodes of another graph, named after its output; return the output.

        Args:
            other: The graph.
            given: What the inputs of the other graph are here, by their names there.
            name: The name of the output; a number is added if it is taken.
        """
        assert other.output is not None
        output = other.output._replace(name=new_name(name, self.names))
        names = {old: value.name for old, value in given.items()}
        names[other.output.name] = output.name
        for old, array in other.constants.items():
            names[old] = self._reference(constant(f"{output.name}.{old}", array))
        for value in other.values.values():
            if value.name not in names:
                names[value.name] = new_name(f"{output.name}.{value.name}", self.names)
        # A name without an entry is that of an input left out.
        renamed_other = renamed(other, lambda old: names.get(old, old))
        self.nodes += renamed_other.nodes
        return output

    def _is_inline(self, shape: Shape) -> bool:
        """Return whether a constant of a shape is written instead of computed."""
        # numpy makes no array of very large sizes, not even if one of them is 0.
        sizes = [size for size in shape if size]
        return self.fold_all or math.prod(sizes) <= LONGEST_INLINE

    def _reference(self, value: Value) -> str:
        """Return the name by which a node reads a value; store a constant first."""
        if value.constant is None:  # an input left out has no name
            return value.name
        array = np.asarray(value.constant, order="C")
        # Short constants are compared by their bytes, as 0.0 equals -0.0.
        for name, stored in self.constants.items():
            alike = stored.dtype == array.dtype and stored.shape == array.shape
            if not alike or array.size > 64:
                continue
            if stored.tobytes() == array.tobytes():
                return name
        name = new_name(value.name, self.names)
        self.constants[name] = array
        return name


def _shape_input(name: str, shape: Shape) -> Value:
    """Return the input that tells Reshape or Expand the shape of its output `name`."""
    return constant(f"{name}_shape", np.array(shape, np.int64))


def _broadcast_shape(inputs: tuple[Value, ...]) -> Shape:
    """Return the shape of an operator's output that broadcasts its inputs."""
    shapes = {value.shape for value in inputs if value.shape}
    if len(shapes) == 1:  # numpy's function is slow, and this is the usual case
        return shapes.pop()
    return np.broadcast_shapes(*shapes)


def _output_type(op: str, inputs: tuple[Value, ...]) -> Any:
    """Return the data type of an operator's output, for which its inputs decide."""
    if op in ("Equal", "Less"):
        return np.bool_
    if op == "Where":
        return inputs[1].dtype
    return inputs[0].dtype


LEFT_OUT = Value("", np.dtype(np.bool_), ())
"""An optional input of a node that is left out."""

LONGEST_INLINE = 1024
"""The most elements of a constant that is written into the model where nodes can
compute it."""

FUNCTION = "function"
"""The name of the body of a node that stands for a function of the model."""

NATIVE_DOMAIN = "org.onnxgather"
"""The domain of onnxgather's own operators, which are named after DirectML's."""

DOMAINS = {
    "ArrayFeatureExtractor": ("ai.onnx.ml", 1),
    **dict.fromkeys(OPERATORS, (NATIVE_DOMAIN, 1)),
}
"""The operators outside ONNX's own domain: their domain, and its opset."""

ONNX_TYPES = {data_type.numpy: data_type.onnx for data_type in TensorDataType}
ONNX_TYPES[np.dtype(np.bool_)] = 9
"""`TensorProto.DataType` by numpy's type: the eleven types of tensors, and bool for
masks."""


def new_name(name: str, taken: set[str]) -> str:
    """Return the name, with a number behind it if it is taken; it is taken now."""
    unused = name
    number = 2
    while unused in taken:
        unused = f"{name}_{number}"
        number += 1
    taken.add(unused)
    return unused


def renamed(graph: Graph, name: Callable[[str], str]) -> Graph:
    """Return a graph whose nodes and values have other names.

    The nodes and values in the bodies of functions keep their names.

    Args:
        graph: The graph.
        name: The other name of a node or a value.
    """

    def renamed_value(value: Value) -> Value:
        return value._replace(name=name(value.name))

    # The order of calls matters: `name` gives a new name to what it sees first.
    nodes: list[Node] = []
    for node in graph.nodes:
        inputs = tuple(map(name, node.inputs))
        output = name(node.output)
        bodies: dict[str, Graph] = {}
        for key, body in node.bodies.items():
            bodies[key] = body if key == FUNCTION else renamed(body, name)
        nodes.append(node._replace(inputs=inputs, output=output, bodies=bodies))
    return replace(
        graph,
        inputs=[renamed_value(value) for value in graph.inputs],
        nodes=nodes,
        constants={name(key): array for key, array in graph.constants.items()},
        output=graph.output and renamed_value(graph.output),
    )


def constant(name: str, array: Array) -> Value:
    """Return a value whose elements are known; it is stored when a node reads it."""
    return Value(name, array.dtype, array.shape, array)


def size_of(shape: Shape) -> int:
    """Return the number of elements of a shape."""
    return math.prod(shape)


def _clip(x: Array, low: Array, high: Array) -> Array:
    return np.minimum(np.maximum(x, low), high)


def _reduce_sum(x: Array, axes: Array, keepdims: int) -> Array:
    dimensions = tuple(int(axis) for axis in axes)
    return x.sum(axis=dimensions, keepdims=bool(keepdims))


_FOLD: dict[str, Callable[..., Array]] = {
    "Add": np.add,
    "Clip": _clip,
    "Equal": np.equal,
    "Less": np.less,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "ReduceSum": _reduce_sum,
    "Sub": np.subtract,
    "Where": np.where,
}
