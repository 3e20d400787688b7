"""Any ONNX model read: its gather nodes, and a model of the nodes that lead to one value."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import external_data_helper, helper, numpy_helper

from onnxgather.arrays import Array
from onnxgather.checks import listed, shown, suggestion
from onnxgather.datatypes import TensorDataType
from onnxgather.errors import OnnxGatherError
from onnxgather.files import reason
from onnxgather.gather import ATTRIBUTES
from onnxgather.model.write import LARGEST_MODEL

DIRECTML_NAMES = {onnx.TensorProto.DataType.Name(row.onnx): row.name for row in TensorDataType}
"""DirectML's names of data types by ONNX's, such as FLOAT32 of FLOAT."""

GATHERED_TYPES = DIRECTML_NAMES.keys()
"""ONNX's names of the data types that DirectML gathers, such as FLOAT."""

MOST_LISTED = 20
"""The most nodes that a message lists."""


@dataclass(frozen=True, slots=True)
class GatherNode:
    """A node of the gather family."""

    name: str
    """The name of the node, or of its output where the node has none."""
    operator: str
    number: int
    """`axis`, or `batch_dims` of GatherND."""
    data: str
    indices: str


@dataclass(frozen=True, slots=True)
class Declared:
    """The type and the shape that a model declares for a value."""

    data_type: str
    """ONNX's name, such as FLOAT."""
    shape: list[int | str] | None
    """The sizes, `?` where any size is allowed; None where no shape is declared."""

    @classmethod
    def of(cls, value: onnx.ValueInfoProto) -> Declared:
        """The declared type and shape of an input, an output or another value."""
        kind = value.type.WhichOneof("value") or "undefined"
        if kind != "tensor_type":
            return cls(kind.removesuffix("_type").upper(), None)
        tensor = value.type.tensor_type
        sizes = [d.dim_value if d.HasField("dim_value") else "?" for d in tensor.shape.dim]
        return cls(_name_of(tensor.elem_type), sizes if tensor.HasField("shape") else None)

    def admits(self, array: Array) -> bool:
        """Whether an array has this type and this shape."""
        sizes = array.shape if self.shape is None else self.shape
        fits = all(n in ("?", m) for n, m in zip(sizes, array.shape, strict=False))
        return fits and len(sizes) == array.ndim and type_name(array) == self.data_type

    def __str__(self) -> str:
        sizes = "" if self.shape is None else f" [{', '.join(map(str, self.shape))}]"
        return self.data_type + sizes


class NodeModel:
    """An ONNX model in which a gather is looked for; external data is read when it is needed.

    Args:
        path: The file.

    Raises:
        OnnxGatherError: The file cannot be read, or holds no ONNX model.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder = os.path.dirname(os.path.abspath(path))
        try:
            if os.path.exists(path) and not os.path.isfile(path):  # a device may have no end
                raise OnnxGatherError(f"{path}: must be a file, not a folder or a device")
            if os.path.getsize(path) > LARGEST_MODEL:
                raise OnnxGatherError(f"{path}: must be an ONNX model of at most 2 GiB")
            self._model = onnx.ModelProto.FromString(Path(path).read_bytes())
        except DecodeError:
            raise OnnxGatherError(f"{path}: must be an ONNX model") from None
        except (OSError, ValueError) as error:
            raise OnnxGatherError(f"{path}: {reason(error)}") from None
        self._graph = graph = self._model.graph
        if not graph.node:
            raise OnnxGatherError(f"{path}: must be an ONNX model with nodes")
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self.inputs = [value.name for value in graph.input]
        self.declared: dict[str, Declared] = {}
        """The types and shapes of the initializers and of all other values that have them."""
        for name, tensor in self._constants.items():
            self.declared[name] = Declared(_name_of(tensor.data_type), [*tensor.dims])
        for value in (*graph.value_info, *graph.output, *graph.input):
            self.declared[value.name] = Declared.of(value)
        made = Counter(name for node in graph.node for name in node.output if name)
        made.update({*self.inputs} - self._constants.keys())
        made.update(tensor.name for tensor in graph.initializer)
        made.update(tensor.values.name for tensor in graph.sparse_initializer)
        self.values = made.keys()
        self._check(made)

    def _check(self, made: Counter[str]) -> None:
        """Check what no part of a model can be read without; ONNX Runtime checks what it runs."""
        nodes = [*self._graph.node, *(node for _, node in self._inner_nodes())]
        texts = {text for n in nodes for text in (n.name, n.op_type, *n.input, *n.output)}
        wrong = [(text, "UTF-8") for text in (*texts, *self.declared) if isinstance(text, bytes)]
        wrong += [(name, f"of one value, got {n}") for name, n in made.items() if n > 1]
        for name, rule in wrong:
            raise OnnxGatherError(f"{self.path}: name {shown(name)} must be {rule}")

    def gather(self, name: str) -> GatherNode:
        """The gather with a name, or with an output of that name.

        Raises:
            OnnxGatherError: There is no such gather, or more than one, or ONNX forbids it.
        """
        found = [node for node in self._graph.node if name in (node.name, *node.output) and name]
        gathers = [node for node in found if _is_gather(node)]
        if len(gathers) == 1:
            return self._gather(gathers[0])
        where = f"{self.path}: node {shown(name)} must be one"
        if gathers:
            outputs = listed([shown(output) for n in gathers for output in n.output], MOST_LISTED)
            raise OnnxGatherError(f"{where} node, got {len(gathers)}; name its output: {outputs}")
        if found:
            raise OnnxGatherError(f"{where} of {', '.join(ATTRIBUTES)}, got {found[0].op_type}")
        for inside, node in self._inner_nodes():
            if name in (node.name, *node.output):
                raise OnnxGatherError(f"{where} of the main graph, but is in {inside}")
        gathers = [node for node in self._graph.node if _is_gather(node)]
        names = listed([f"{shown(_named(n))} ({n.op_type})" for n in gathers], MOST_LISTED)
        near = suggestion(name, map(_named, gathers))
        raise OnnxGatherError(f"{where} of the model's gathers, {names or 'but it has none'}{near}")

    def constant(self, value: str) -> Array | None:
        """The array of an initializer; None where the value is no initializer.

        Raises:
            OnnxGatherError: The data, which may be in another file, cannot be read.
        """
        if value not in self._constants:
            return None
        tensor = self._constants[value]
        with self._reading(value):
            array = numpy_helper.to_array(tensor, self._folder)
            if [*array.shape] != [*tensor.dims]:  # numpy takes -1 for the size that is left
                raise ValueError(f"its sizes must be at least 0, got {[*tensor.dims]}")
            return array

    def missing_for(self, values: Iterable[str], given: Iterable[str]) -> list[str]:
        """The graph inputs that values depend on and that are not given, in their order.

        Args:
            values: The names of the values.
            given: The names of values, inputs or not, that are given.
        """
        needed, _ = self._closure(values, given)
        return [name for name in self.inputs if name in needed - {*given} - {*self._constants}]

    def model_of(self, value: str, given: Mapping[str, Array]) -> tuple[bytes, dict[str, Array]]:
        """A serialized model whose output is a value of this one, and the inputs to run it with.

        One input is always True, and the output passes an If on it. So even a value that depends
        on constants alone has a node that runs.

        Args:
            value: The name of the value.
            given: Arrays of values, by name; the value is computed from those it depends on.

        Raises:
            OnnxGatherError: The data of initializers cannot be read, or exceeds a model's 2 GiB.
        """
        needed, nodes = self._closure([value], given)
        inputs = {name: array for name, array in given.items() if name in needed}
        kept = _graph_of(helper.make_node("Identity", [value], ["onnxgather.kept"]))
        last = helper.make_node("If", ["onnxgather.true"], ["onnxgather.value"])
        for branch in ("then_branch", "else_branch"):
            last.attribute.append(helper.make_attribute(branch, kept))
        inputs["onnxgather.true"] = np.array(True)
        model = onnx.ModelProto(graph=_graph_of(*nodes, last))
        model.ir_version = self._model.ir_version
        model.opset_import.extend(self._model.opset_import)
        model.functions.extend(self._model.functions)
        graph, own, left = model.graph, self._graph, needed - given.keys()
        graph.initializer.extend(t for t in own.initializer if t.name in left)
        graph.sparse_initializer.extend(t for t in own.sparse_initializer if t.values.name in left)
        with self._reading(value):
            for name, array in inputs.items():
                element_type = helper.np_dtype_to_tensor_dtype(array.dtype)
                graph.input.append(helper.make_tensor_value_info(name, element_type, array.shape))
            types = [helper.tensor_dtype_to_np_dtype(t.data_type) for t in graph.initializer]
            sizes = [math.prod(tensor.dims) for tensor in graph.initializer]
            if sum(n * t.itemsize for n, t in zip(sizes, types, strict=True)) > LARGEST_MODEL:
                raise ValueError("its initializers exceed the 2 GiB of a model")
            external_data_helper.load_external_data_for_model(model, self._folder)
            return model.SerializeToString(), inputs

    def _closure(
        self, values: Iterable[str], given: Iterable[str]
    ) -> tuple[set[str], list[onnx.NodeProto]]:
        """The values that `values` depend on, and the nodes that compute them from `given`."""
        needed, nodes, known = set(values), list[onnx.NodeProto](), {*given, ""}
        for node in reversed(self._graph.node):
            if not needed.isdisjoint({*node.output} - known):
                nodes.append(node)
                needed |= _uses(node)
        return needed & self.values, nodes[::-1]

    def _inner_nodes(self) -> Iterator[tuple[str, onnx.NodeProto]]:
        """Yield the nodes outside the main graph, each with the subgraph or function it is in."""
        for node in self._graph.node:
            for inside, graph in _bodies(node):
                yield from ((inside, inner) for inner in graph.node)
        for function in self._model.functions:
            yield from ((f"the function {shown(function.name)}", node) for node in function.node)

    @contextmanager
    def _reading(self, value: str) -> Generator[None]:
        """Turn what onnx raises while data is read into an error that names the value."""
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:  # onnx raises whatever a broken tensor leads to
            said = reason(error) if isinstance(error, OSError) else " ".join(str(error).split())
            raise OnnxGatherError(
                f"{self.path}: what leads to {shown(value)} cannot be read: {said}"
            ) from error

    def _gather(self, node: onnx.NodeProto) -> GatherNode:
        """A gather, if it has the inputs, the output and the attributes that ONNX gives it."""
        where = f"{self.path}: node {shown(_named(node))}"
        node.domain = ""  # "ai.onnx" is the same, but onnx's check does not know it
        try:
            onnx.checker.check_node(node)
        except (onnx.checker.ValidationError, ValueError) as error:  # a name may be no UTF-8
            said = str(error).partition("\n")[0].strip()
            raise OnnxGatherError(f"{where} must be one that ONNX allows: {said}") from None
        for value in node.input:
            if value not in self.values:
                raise OnnxGatherError(f"{where}: {shown(value)} must be a value of the model")
        number = next((a.i for a in node.attribute), 0)  # it has no attribute but its own
        return GatherNode(_named(node), node.op_type, number, node.input[0], node.input[1])


def _name_of(data_type: int) -> str:
    """ONNX's name of a data type, such as FLOAT."""
    names = onnx.TensorProto.DataType
    return names.Name(data_type) if data_type in names.values() else f"data type {data_type}"


def operators(model: onnx.ModelProto) -> Counter[str]:
    """How often each operator stands in a model, its subgraphs included."""
    nodes = list(model.graph.node)
    for node in nodes:  # the list grows
        for _, body in _bodies(node):
            nodes += body.node
    return Counter(node.op_type for node in nodes)


def type_name(array: Array) -> str:
    """ONNX's name of an array's type; numpy's name in capitals where ONNX has no such type."""
    try:
        return onnx.TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(array.dtype))
    except (KeyError, ValueError):
        return array.dtype.name.upper()


def _is_gather(node: onnx.NodeProto) -> bool:
    return node.op_type in ATTRIBUTES and node.domain in ("", "ai.onnx")


def _named(node: onnx.NodeProto) -> str:
    """The name of a node, or of its first output where the node has none."""
    return node.name or next(iter(node.output), "")


def _bodies(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """Yield the graphs inside a node, at any depth, each with a text that says where it is."""
    name = shown(_named(node))
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):  # `g` is empty where it is not set
            yield f"{attribute.name} of {name} ({node.op_type})", graph
            for inner in graph.node:
                yield from _bodies(inner)


def _uses(node: onnx.NodeProto) -> set[str]:
    """The names of the values that a node takes, and of all those that its bodies take."""
    used = set(node.input)
    for _, graph in _bodies(node):
        used.update(value.name for value in graph.output)
        used.update(name for inner in graph.node for name in inner.input)
    return used - {""}


def _graph_of(*nodes: onnx.NodeProto) -> onnx.GraphProto:
    """A graph whose output is that of its last node, of no declared type."""
    output = onnx.ValueInfoProto(name=nodes[-1].output[0])
    return helper.make_graph(nodes, "onnxgather", [], [output])
