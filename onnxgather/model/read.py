"""Any ONNX model read: its gather nodes, and a model of the nodes that lead to one value."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import external_data_helper, helper

from onnxgather.arrays import Array
from onnxgather.checks import listed, shown, suggestion
from onnxgather.datatypes import TensorDataType
from onnxgather.errors import OnnxGatherError
from onnxgather.gather import ATTRIBUTES
from onnxgather.model.network import (
    ValueType,
    all_nodes,
    array_of,
    bodies_of,
    check_names,
    domain_of,
    folder_of,
    load,
    reading,
)
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


class NodeModel:
    """An ONNX model in which a gather is looked for; external data is read when it is needed.

    Args:
        path: The file.

    Raises:
        OnnxGatherError: The file cannot be read, or holds no ONNX model.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder = folder_of(path)
        self._model = load(path)
        self._graph = graph = self._model.graph
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self.inputs = [value.name for value in graph.input]
        self.declared = {name: ValueType.of_tensor(t) for name, t in self._constants.items()}
        """The types and sizes of the initializers and of all other values that have them."""
        for value in (*graph.value_info, *graph.output, *graph.input):
            self.declared[value.name] = ValueType.of(value)
        bodies = (body for node in all_nodes(graph.node) for _, body in bodies_of(node))
        functions = (onnx.GraphProto(node=function.node) for function in self._model.functions)
        for each in (graph, *bodies, *functions):
            check_names(path, each)
        made = {name for node in graph.node for name in node.output if name}
        sparse = {tensor.values.name for tensor in graph.sparse_initializer}
        self.values = made | sparse | self._constants.keys() | {*self.inputs}

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
        with reading(self.path, value):
            return array_of(self._constants[value], self._folder)

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
        with reading(self.path, value):
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


def operators(model: onnx.ModelProto) -> Counter[str]:
    """How often each operator stands in a model, its subgraphs included."""
    return Counter(node.op_type for node in all_nodes(model.graph.node))


def type_name(array: Array) -> str:
    """ONNX's name of an array's type; numpy's name in capitals where ONNX has no such type."""
    try:
        return onnx.TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(array.dtype))
    except (KeyError, ValueError):
        return array.dtype.name.upper()


def _is_gather(node: onnx.NodeProto) -> bool:
    return node.op_type in ATTRIBUTES and not domain_of(node)


def _named(node: onnx.NodeProto) -> str:
    """The name of a node, or of its first output where the node has none."""
    return node.name or next(iter(node.output), "")


def _bodies(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """Yield the graphs inside a node, at any depth, each with a text that says where it is."""
    name = shown(_named(node))
    for attribute, graph in bodies_of(node):
        yield f"{attribute} of {name} ({node.op_type})", graph
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
