"""ONNX models whose gathers do not fail: those that are not proved in range are rewritten.

Gathers are rewritten where they stand; every other part of a model keeps its bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import msgspec
import onnx
from onnx import ModelProto, helper, numpy_helper

from onnxgather.checks import check_choice, shown
from onnxgather.descriptors.arrays import Array
from onnxgather.errors import OnnxGatherError, located
from onnxgather.files import check_apart, write_whole
from onnxgather.gather import ATTRIBUTES
from onnxgather.lowering.gather_nodes import GatherNode, Operand, as_directml, limited_operands
from onnxgather.lowering.graph import ONNX_TYPES, Graph, Value, new_name
from onnxgather.lowering.indices import INDICES
from onnxgather.lowering.portable import INPUT, OUTPUT
from onnxgather.model.protos import bodies_of, external_files, key_of, names_in
from onnxgather.model.values import ValueType, name_of, serialized
from onnxgather.model.write import add_nodes
from onnxgather.networks.contract import Condition, GivenContract
from onnxgather.networks.gathers import audit_model, given_conditions, operations_of
from onnxgather.networks.network import Network, Operation, Scope, read_network
from onnxgather.networks.ranges import ranges_of
from onnxgather.options import HARDENED, OPSETS, POLICIES, OutOfRange

_DTYPES = {name_of(number): dtype for dtype, number in ONNX_TYPES.items()}
"""numpy's types by ONNX's names, such as FLOAT."""


class Rewritten(msgspec.Struct, frozen=True):
    """What became of a gather."""

    place: str
    """Such as "main graph"."""
    node: str
    operator: str
    changes: tuple[str, ...]
    """Sentences: what the gather did, and what it does now."""

    def __str__(self) -> str:
        return f"{self.place}: {self.operator} {shown(self.node)}: {'; '.join(self.changes)}"


def harden(
    model: str | os.PathLike[str] | ModelProto,
    out_of_range: OutOfRange = "clamp",
    shapes: Mapping[str, Sequence[int]] | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    assume: GivenContract | None = None,
) -> ModelProto:
    """A model in which each index that is not proved in range is kept in it.

    Gathers that are proved stay as they are, and so does every other part of the model, to the
    byte. Where DirectML refuses a GatherElements because it has more data than indices off the
    axis, the data is cropped. The outputs for indices in range are those of the model.

    Args:
        model: A file, or the model itself; external data is neither read nor moved.
        out_of_range: What an index out of range does: "clamp", "zero", or "directml", which needs
            sizes that are known.
        shapes: The sizes of graph inputs, by name. Proofs hold for these sizes.
        ranges: The least and the largest element of graph inputs, by name. Proofs hold for these.
        assume: A contract of the model, a file or a plain dict. Proofs hold under its conditions.

    Raises:
        OnnxGatherError: The model cannot be read, its opset is too old for the index arithmetic,
            or what is not known of a gather makes the policy impossible.
    """
    plain = read_network(model)
    conditions = given_conditions(plain, ranges, [] if assume is None else [assume])
    return _hardened(plain, out_of_range, shapes, conditions)[0]


def harden_file(
    plain: Network,
    output: str,
    out_of_range: OutOfRange = "clamp",
    shapes: Mapping[str, Sequence[int]] | None = None,
    conditions: Iterable[Condition] = (),
    write: Callable[[str, bytes], None] = write_whole,
) -> list[Rewritten]:
    """Write what `harden` makes of the model in a file; return what was rewritten.

    Args:
        plain: The model, with the sizes of its file.
        output: The file to write.
        out_of_range: As of `harden`.
        shapes: As of `harden`.
        conditions: What holds for the inputs.
        write: What writes the file.

    Raises:
        OnnxGatherError: As `harden`; or the file to write is the model, or is in another folder
            although it refers to external data.
    """
    path = plain.path
    check_apart([(output, "the model")], [path])
    hardened, done = _hardened(plain, out_of_range, shapes, conditions)
    folders = [os.path.dirname(os.path.realpath(file)) for file in (path, output)]
    external = external_files(hardened)
    if external and folders[0] != folders[1]:
        rule = f"{output} must be in the folder of {path}, as it refers to its external data"
        raise OnnxGatherError(f"{rule}, {shown(external[0])}")
    write(output, serialized(hardened))
    return done


def _hardened(
    plain: Network,
    out_of_range: OutOfRange,
    shapes: Mapping[str, Sequence[int]] | None,
    conditions: Iterable[Condition],
) -> tuple[ModelProto, list[Rewritten]]:
    check_choice("out_of_range", out_of_range, HARDENED)
    audited = audit_model(plain, None, shapes, conditions)
    network = audited.network
    if shapes:
        ranges_of(plain)  # which tells the sizes
    unproved = {key for key, gather in audited.gathers.items() if gather.range.state != "proved"}
    limited = {operation for key, _, operation in operations_of(network) if key in unproved}
    return rewrite(network, plain, limited, out_of_range)


@dataclass(frozen=True, slots=True)
class _Found:
    """A gather in one call of the graph that it is in."""

    scope: Scope
    operation: Operation
    siblings: Any
    """The nodes of the onnx graph or function that the gather is in."""
    proto: onnx.NodeProto

    def known(self, k: int) -> ValueType:
        return self.scope.type_of(self.operation.inputs[k])


def rewrite(
    network: Network,
    plain: Network,
    limited: Collection[Operation],
    out_of_range: OutOfRange,
) -> tuple[ModelProto, list[Rewritten]]:
    """A model with some of its gathers rewritten, and what was changed, in the order of the nodes.

    A gather in a function is one node, however often the function is called.

    Args:
        network: The model, with the sizes that were given.
        plain: The same model with the sizes of its file alone. The index arithmetic reads all other
            sizes from the data, so that the result is right for every size.
        limited: The gathers of `network` whose indices may be out of range.
        out_of_range: What such an index does: "clamp", "zero" or "directml".

    Raises:
        OnnxGatherError: The opset is too old for the nodes, or what is not known of a gather makes
            the nodes impossible.
    """
    model = ModelProto()
    model.CopyFrom(network.proto)
    found: dict[int, list[tuple[_Found, _Found]]] = {}
    for given, own in zip(_gathers(network, model), _gathers(plain, model), strict=True):
        found.setdefault(id(given.proto), []).append((given, own))
    taken, done = names_in(model), list[Rewritten]()
    for calls in found.values():
        first = calls[0][0]
        scope, operation = first.scope, first.operation
        unsafe = any(given.operation in limited for given, _ in calls)
        cropped = () if unsafe and out_of_range == "directml" else _cropped(g for g, _ in calls)
        if unsafe or cropped:
            with located(f"{scope.where}: {operation.operator} {shown(operation.label)}"):
                rule = f"the opset must be at least {OPSETS[0]} for the index arithmetic"
                if scope.version < OPSETS[0]:
                    raise OnnxGatherError(f"{rule}, got {scope.version}")
                as_given = unsafe and out_of_range == "directml"
                node = _common([given if as_given else own for given, own in calls])
                _replace(first, node, out_of_range if unsafe else None, cropped, taken)
            told = [_told_limit(node, out_of_range)] if unsafe else []
            told += [_told_crop(cropped)] if cropped else []
            name = operation.label
            done.append(Rewritten(scope.where, name, operation.operator, tuple(told)))
    return model, done


def _gathers(network: Network, model: ModelProto) -> Iterator[_Found]:
    """Yield the gathers of a network beside the nodes of its model, in subgraphs and calls too."""
    functions: dict[Any, Any] = {key_of(function): function for function in model.functions}

    def walk(scope: Scope, siblings: Any) -> Iterator[_Found]:
        for operation, proto in zip(scope.operations, list(siblings), strict=True):
            if operation.is_gather:
                yield _Found(scope, operation, siblings, proto)
            bodies: dict[str, Any] = {
                **dict(bodies_of(proto)),
                "function": functions.get(key_of(proto)),
            }
            for name, inner in operation.bodies.items():
                yield from walk(inner, bodies[name].node)

    return walk(network.main, model.graph.node)


def _common(calls: list[_Found]) -> GatherNode:
    """What is known of a gather in all calls of the function that it is in.

    Raises:
        OnnxGatherError: The calls give it different axes.
    """
    operator = calls[0].operation.operator
    numbers = {found.operation.number for found in calls}
    if len(numbers) > 1:
        listed = ", ".join(map(str, sorted(numbers)))
        name = ATTRIBUTES[operator]
        raise OnnxGatherError(f"{name} must be the same in all calls of the function, got {listed}")
    known = [reduce(ValueType.common, (found.known(k) for found in calls)) for k in (0, 1)]
    data, indices = (Operand(_DTYPES.get(each.data_type), each.sizes) for each in known)
    return GatherNode(operator, numbers.pop(), data, indices)


def _cropped(calls: Iterable[_Found]) -> tuple[int, ...]:
    """The dimensions off the axis where GatherElements has more data than indices."""
    dimensions: set[int] = set()
    for found in calls:
        data, indices = (found.known(k).sizes for k in (0, 1))
        if found.operation.operator == "GatherElements" and data and indices:
            axis = found.operation.number % len(data)
            pairs = enumerate(zip(data, indices, strict=False))  # ONNX forbids other ranks
            dimensions |= {k for k, (n, m) in pairs if k != axis and n and m and m < n}
    return tuple(sorted(dimensions))


def _replace(
    found: _Found,
    node: GatherNode,
    out_of_range: OutOfRange | None,
    cropped: tuple[int, ...],
    taken: set[str],
) -> None:
    """Put the nodes of the lowering before a gather, or under "directml" in its stead."""
    proto, siblings = found.proto, found.siblings
    names = {"": "", INPUT: proto.input[0], INDICES: proto.input[1]}
    operands: list[Value] = []
    if out_of_range == "directml":
        graph = as_directml(node)
        names[OUTPUT] = proto.output[0]
    else:
        graph, *operands = limited_operands(node, out_of_range, cropped)
    at = next(k for k, one in enumerate(siblings) if one.output == proto.output)
    for made in _protos(graph, names, f"{found.operation.label}/", taken):
        siblings.insert(at, made)
        at += 1
    if not operands:
        del siblings[at]
    for k, value in enumerate(operands):
        siblings[at].input[k] = names[value.name]


def _protos(
    graph: Graph, names: dict[str, str], prefix: str, taken: set[str]
) -> list[onnx.NodeProto]:
    """The nodes and, as functions have no initializers, the constants of a graph, renamed.

    Args:
        graph: The graph.
        names: The names of the values that the model has already; it takes those of the others.
        prefix: The start of the new names.
        taken: The names in use; it takes the new ones.
    """

    def new(name: str) -> str:
        if name not in names:
            names[name] = new_name(prefix + name, taken)
        return names[name]

    def held(name: str, array: Array) -> onnx.NodeProto:
        tensor = numpy_helper.from_array(array)
        return helper.make_node("Constant", [], [new(name)], new(name), value=tensor)

    made = onnx.GraphProto(node=[held(name, array) for name, array in graph.constants.items()])
    for node in graph.nodes:
        inputs = tuple(map(new, node.inputs))
        add_nodes(made.node, [node._replace(inputs=inputs, output=new(node.output))])
    return [*made.node]


def _told_limit(node: GatherNode, out_of_range: OutOfRange) -> str:
    sizes, axes = node.data.sizes, [*node.indexed().flat]
    known = [sizes[k] for k in axes] if sizes else [None]
    ranges = ", ".join(f"[-{n}, {n})" for n in known)
    outside = f"an index outside {ranges}" if None not in known else "an index out of range"
    return f"{outside} was an error, and now the output holds {POLICIES[out_of_range].returns}"


def _told_crop(dimensions: tuple[int, ...]) -> str:
    which = ", ".join(map(str, dimensions))
    rule = "as DirectML refuses more data than indices off the axis"
    return f"the data is cropped to the sizes of the indices in dimension {which}, {rule}"
