"""Gather nodes of any ONNX model, and models of what leads to a value of it; speaks protobuf."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import external_data_helper, helper, numpy_helper

from onnxgather.arrays import Array
from onnxgather.checks import shown
from onnxgather.errors import OnnxGatherError
from onnxgather.files import reason

GATHERS = ("Gather", "GatherElements", "GatherND")

MOST_LISTED = 20
"""Nodes that a message lists."""

TAKEN = "onnxgather.taken"
"""The input of an extracted model that must be True."""


@dataclass(frozen=True, slots=True)
class GatherNode:
    """A node of the gather family."""

    name: str
    """Its own, or that of its output where it has none."""
    operator: str
    number: int
    """`axis`, or `batch_dims` of GatherND."""
    data: str
    indices: str


@dataclass(frozen=True, slots=True)
class Declared:
    """What a model says of a graph input."""

    data_type: str
    """ONNX's name, such as FLOAT."""
    shape: tuple[int | None, ...] | None
    """None in it is a size that may be any; None for it a rank that may be any."""

    def admits(self, array: Array) -> bool:
        """Return whether an array is of this type and shape."""
        if _type_name(array) != self.data_type:
            return False
        if self.shape is None:
            return True
        sizes = zip(self.shape, array.shape, strict=False)
        return len(self.shape) == array.ndim and all(n in (None, m) for n, m in sizes)

    def __str__(self) -> str:
        sizes = "" if self.shape is None else [n if n is not None else "?" for n in self.shape]
        return f"{self.data_type} {sizes}".replace("'", "").strip()


class NodeModel:
    """An ONNX model as a place to find gathers in; its external data is read when it is needed.

    Args:
        path: The file.

    Raises:
        OnnxGatherError: It cannot be read, or is no ONNX model.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._model = onnx.ModelProto.FromString(Path(path).read_bytes())
        except DecodeError:
            raise OnnxGatherError(f"{path}: must be an ONNX model") from None
        except OSError as error:
            raise OnnxGatherError(f"{path}: {reason(error)}") from None
        graph = self._model.graph
        if not graph.node:
            raise OnnxGatherError(f"{path}: must be an ONNX model with nodes")
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self.inputs = {value.name: _declared(value) for value in graph.input}
        self.values = {name for node in graph.node for name in node.output if name}
        self.values |= self._constants.keys() | self.inputs.keys()

    def gather(self, name: str) -> GatherNode:
        """Return the gather of that name, or with an output of it.

        Raises:
            OnnxGatherError: There is none, or more than one.
        """
        graph = self._model.graph
        found = [node for node in graph.node if name in (node.name, *node.output) and name]
        gathers = [node for node in found if _is_gather(node)]
        if len(gathers) == 1:
            return _gather(gathers[0])
        where = f"{self.path}: node {shown(name)}"
        if gathers:
            outputs = ", ".join(shown(node.output[0]) for node in gathers)
            raise OnnxGatherError(
                f"{where} must be one node, got {len(gathers)}; name its output: {outputs}"
            )
        if found:
            raise OnnxGatherError(
                f"{where} must be one of {', '.join(GATHERS)}, got {found[0].op_type}"
            )
        for place, node in _nested(self._model):
            if name in (node.name, *node.output):
                raise OnnxGatherError(f"{where} must be one of the main graph, but is in {place}")
        raise OnnxGatherError(f"{where} must be one of the model's gathers, {self._listed()}")

    def declared_type(self, value: str) -> str | None:
        """Return ONNX's name of the type of a value; None where the model does not say."""
        if value in self._constants:
            return onnx.TensorProto.DataType.Name(self._constants[value].data_type)
        for info in (*self._model.graph.value_info, *self._model.graph.output):
            if info.name == value:
                return _declared(info).data_type
        return self.inputs[value].data_type if value in self.inputs else None

    def constant(self, value: str) -> Array | None:
        """Return an initializer; None for what is none.

        Raises:
            OnnxGatherError: Its data, which may be in another file, cannot be read.
        """
        if value not in self._constants:
            return None
        try:
            return numpy_helper.to_array(self._constants[value], self._folder)
        except (OSError, ValueError, onnx.checker.ValidationError) as error:
            raise self._unreadable(value, error) from error

    def needed_for(self, value: str, given: Iterable[str]) -> list[str]:
        """Return the graph inputs that lead to a value, in their order.

        Args:
            value: The value.
            given: Values, inputs or not, behind which nothing is needed.
        """
        needed, _ = self._closure(value, set(given))
        return [name for name in self.inputs if name in needed and name not in self._constants]

    def model_of(self, value: str, given: Mapping[str, Array]) -> tuple[bytes, Mapping[str, Array]]:
        """Return a model whose output is a value, and which of those given are its inputs.

        It has one more input, TAKEN, a BOOL that must be True: the output passes an If on it, so
        that a value that follows from constants alone still has a node that runs.

        Raises:
            OnnxGatherError: Its data cannot be read, or is more than a model can hold.
        """
        needed, nodes = self._closure(value, set(given))
        model = onnx.ModelProto()
        model.CopyFrom(_without_graph(self._model))
        graph = model.graph
        graph.name = "before"
        for node in nodes:
            graph.node.add().CopyFrom(node)
        then, other = _branch("then", value), _branch("else", value)
        outputs = ["onnxgather.value"]
        last = helper.make_node("If", [TAKEN], outputs, then_branch=then, else_branch=other)
        graph.node.append(last)
        graph.output.append(onnx.ValueInfoProto(name="onnxgather.value"))
        graph.input.append(helper.make_tensor_value_info(TAKEN, onnx.TensorProto.BOOL, []))
        used = {name: array for name, array in given.items() if name in needed}
        for name, array in used.items():
            element_type = helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(helper.make_tensor_value_info(name, element_type, array.shape))
        source = self._model.graph
        left = needed - given.keys()
        graph.initializer.extend(t for t in source.initializer if t.name in left)
        graph.sparse_initializer.extend(
            t for t in source.sparse_initializer if t.values.name in left
        )
        try:
            external_data_helper.load_external_data_for_model(model, self._folder)
            return model.SerializeToString(), used
        except (OSError, ValueError, EncodeError, onnx.checker.ValidationError) as error:
            raise self._unreadable(value, error) from error

    @property
    def _folder(self) -> str:
        return os.path.dirname(os.path.abspath(self.path))

    def _closure(self, value: str, given: set[str]) -> tuple[set[str], list[onnx.NodeProto]]:
        """Return the values that lead to one, and the nodes between them in order."""
        needed, nodes = {value}, list[onnx.NodeProto]()
        for node in reversed(self._model.graph.node):
            if needed.isdisjoint(set(node.output) - given - {""}):
                continue
            nodes.insert(0, node)
            needed.update(_uses(node))
        return needed & self.values, nodes

    def _listed(self) -> str:
        gathers = [_gather(node) for node in self._model.graph.node if _is_gather(node)]
        if not gathers:
            return f"but it has no {', '.join(GATHERS[:-1])} or {GATHERS[-1]}"
        names = [f"{shown(node.name)} ({node.operator})" for node in gathers[:MOST_LISTED]]
        more = len(gathers) - len(names)
        return ", ".join(names) + (f" and {more} more" if more else "")

    def _unreadable(self, value: str, error: Exception) -> OnnxGatherError:
        said = reason(error) if isinstance(error, OSError) else " ".join(str(error).split())
        return OnnxGatherError(f"{self.path}: what leads to {shown(value)} cannot be read: {said}")


def _type_name(array: Array) -> str:
    try:
        number = helper.np_dtype_to_tensor_dtype(array.dtype)
    except (KeyError, ValueError):
        return array.dtype.name.upper()
    return onnx.TensorProto.DataType.Name(cast("Any", number))


def _declared(value: onnx.ValueInfoProto) -> Declared:
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        kind = value.type.WhichOneof("value") or "value of unknown type"
        return Declared(kind.removesuffix("_type").upper(), None)
    name = onnx.TensorProto.DataType.Name(tensor.elem_type)
    if not tensor.HasField("shape"):
        return Declared(name, None)
    sizes = (dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim)
    return Declared(name, tuple(sizes))


def _is_gather(node: onnx.NodeProto) -> bool:
    return node.op_type in GATHERS and node.domain in ("", "ai.onnx")


def _gather(node: onnx.NodeProto) -> GatherNode:
    wanted = "batch_dims" if node.op_type == "GatherND" else "axis"
    number = next((a.i for a in node.attribute if a.name == wanted), 0)
    name = node.name or node.output[0]
    return GatherNode(name, node.op_type, number, node.input[0], node.input[1])


def _bodies(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        for graph in attribute.graphs:
            yield attribute.name, graph


def _uses(node: onnx.NodeProto) -> set[str]:
    """Return the values that a node takes, and all those that its bodies name."""
    used = {name for name in node.input if name}
    for _, graph in _bodies(node):
        used.update(value.name for value in graph.output)
        for inner in graph.node:
            used |= _uses(inner)
    return used


def _nested(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.NodeProto]]:
    """Yield the nodes outside the main graph, and where they stand."""

    def inside(nodes: Iterable[onnx.NodeProto]) -> Iterator[tuple[str, onnx.NodeProto]]:
        for node in nodes:
            for body, graph in _bodies(node):
                place = f"{body} of {shown(node.name or node.output[0])} ({node.op_type})"
                yield from ((place, inner) for inner in graph.node)
                yield from inside(graph.node)

    yield from inside(model.graph.node)
    for function in model.functions:
        yield from ((f"the function {shown(function.name)}", node) for node in function.node)


def _without_graph(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return what a model has beside its graph."""
    return onnx.ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions
    )


def _branch(name: str, value: str) -> onnx.GraphProto:
    kept = f"onnxgather.{name}"
    output = onnx.ValueInfoProto(name=kept)
    return helper.make_graph([helper.make_node("Identity", [value], [kept])], name, [], [output])
