"""ONNX models that no index makes fail: the nodes that are not proved in range are rewritten.

They are rewritten where they stand; every other part of a model keeps its bytes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import msgspec
import onnx
from onnx import ModelProto, helper, numpy_helper

from onnxgather.auditing.audit import (
    AuditedGather,
    AuditedModel,
    Calls,
    OperationKey,
    Premises,
    audit_model,
    calls_of,
    given_conditions,
    operations_of,
)
from onnxgather.auditing.operators.index_operators import (
    Hardened,
    IndexInput,
    inputs_of,
    operator_of,
)
from onnxgather.auditing.proof.contract import GivenContract
from onnxgather.auditing.proof.ranges import Ranges, ranges_of
from onnxgather.core.checks import shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError, located
from onnxgather.core.files import check_apart, write_whole
from onnxgather.core.lowering.gather_nodes import (
    GatherNode,
    Limit,
    Operand,
    as_directml,
    limited_operands,
    without_zeros,
)
from onnxgather.core.lowering.graph import ONNX_TYPES, Graph, Value, new_name
from onnxgather.core.lowering.indices import INDICES
from onnxgather.core.lowering.portable import INPUT, OUTPUT
from onnxgather.core.model.network import MAIN, Network, Operation, Scope, read_network
from onnxgather.core.model.protos import bodies_of, external_files, key_of, names_in
from onnxgather.core.model.values import ValueType, name_of, serialized
from onnxgather.core.model.write import add_nodes
from onnxgather.core.options import HARDENED, POLICIES, OutOfRange

_DTYPES = {name_of(number): dtype for dtype, number in ONNX_TYPES.items()}
"""numpy's types by ONNX's names, such as FLOAT."""

OLDEST_OPSET = 9
"""The first opset with the operators of the index arithmetic."""


def hardening_rule(out_of_range: object) -> OutOfRange | int:
    """The policy with a name of `HARDENED`, or the number of the row.

    Raises:
        OnnxGatherError: There is no such policy.
    """
    text = out_of_range if isinstance(out_of_range, str) else ""
    if text in POLICIES and text in HARDENED:
        return text
    if row := re.fullmatch(r"index=([0-9]{1,18})", text):
        return int(row[1])
    choices = ", ".join(HARDENED)
    raise OnnxGatherError(
        f"out_of_range must be one of {choices}, got {shown(out_of_range)}"
    )


class Rewritten(msgspec.Struct, frozen=True):
    """What became of a node that carries indices."""

    place: str
    """Such as "main graph"."""
    node: str
    operator: str
    changes: tuple[str, ...]
    """Sentences: what the node did, and what it does now."""

    def __str__(self) -> str:
        return (
            f"{self.place}: {self.operator} {shown(self.node)}:"
            f" {'; '.join(self.changes)}"
        )


class Left(msgspec.Struct, frozen=True):
    """A node that stays as it is, although its indices may be out of range."""

    place: str
    node: str
    operator: str
    why: str

    def __str__(self) -> str:
        return f"left: {self.place}: {self.operator} {shown(self.node)}: {self.why}"


@dataclass(frozen=True, slots=True)
class HardenedModel:
    """A hardened model."""

    model: ModelProto
    rewritten: list[Rewritten] = field(default_factory=list[Rewritten])
    """In the order of the nodes, as `left`."""
    left: list[Left] = field(default_factory=list[Left])
    made: dict[tuple[str, str], OperationKey] = field(default_factory=dict[Any, Any])
    """The ways to the operations whose indices are limited, by their place and the
    first output that they have now."""
    audits: tuple[AuditedModel, AuditedModel] | None = None
    """Of the model that was hardened and of this one, where they are known."""


def harden(
    model: str | os.PathLike[str] | ModelProto,
    out_of_range: str = "clamp",
    shapes: Mapping[str, Sequence[int]] | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    assume: GivenContract | None = None,
    allow_empty: bool = False,
) -> ModelProto:
    """A model in which each index that is not proved in range is kept in it.

    Nodes that are proved stay as they are, and so does every other part of the model,
    to the byte. A write out of range of a scatter is dropped. Where DirectML refuses a
    GatherElements because it has more data than indices off the axis, the data is
    cropped. The outputs for indices in range are those of the model. A node that cannot
    be kept in range, such as RoiAlign, stays as it is: an audit of the result does not
    prove it.

    Args:
        model: A file, or the model itself; external data is neither read nor moved.
        out_of_range: What an index out of range does: "clamp", "zero", "index=N" for row N, or
            "directml", which needs sizes that are known. An operator that is no gather of ONNX
            clamps in place of "zero" and "directml"; positions and segments also in place of
            "index=N".
        shapes: The sizes of graph inputs, by name. Proofs hold for these sizes.
        ranges: The least and the largest element of graph inputs, by name. Proofs hold for these.
        assume: A contract of the model, a file or a plain dict. Proofs hold under its conditions.
        allow_empty: Whether open sizes of inputs may be 0; else they are at least 1.

    Raises:
        OnnxGatherError: The model cannot be read, or an axis has no row N; or under "directml" a
            size is not known.
    """
    network = read_network(model)
    conditions = given_conditions(network, ranges, [] if assume is None else [assume])
    return hardened(
        Premises(network, shapes, conditions, allow_empty), out_of_range
    ).model


def harden_file(
    premises: Premises,
    output: str,
    out_of_range: str = "clamp",
    write: Callable[[str, bytes], None] = write_whole,
) -> HardenedModel:
    """Write what `harden` makes of the model in a file; return it.

    Args:
        premises: The model, and what holds of its inputs.
        output: The file to write.
        out_of_range: As of `harden`.
        write: What writes the file.

    Raises:
        OnnxGatherError: As `harden`; or the file to write is the model or its external data, or is
            in another folder although it refers to external data.
    """
    path, external = premises.network.path, external_files(premises.network.proto)
    data = (os.path.join(os.path.dirname(path), name) for name in external)
    check_apart([(output, "the model")], [path, *data])
    done = hardened(premises, out_of_range)
    folders = [os.path.dirname(os.path.realpath(file)) for file in (path, output)]
    if external and folders[0] != folders[1]:
        rule = (
            f"{output} must be in the folder of {path}, as it refers to its external"
            " data"
        )
        raise OnnxGatherError(f"{rule}, {shown(external[0])}")
    write(output, serialized(done.model))
    return done


def hardened(
    premises: Premises, out_of_range: str = "clamp", audited: AuditedModel | None = None
) -> HardenedModel:
    """What `harden` makes of a model, with what became of its nodes.

    A node whose new indices an audit would not prove is left as it is.

    Args:
        premises: The model, and what holds of its inputs.
        out_of_range: As of `harden`.
        audited: The audit of the model, where it is known.

    Raises:
        OnnxGatherError: As `harden`.
    """
    rule, plain = hardening_rule(out_of_range), premises.network
    audited = audited or audit_model(premises)
    own = ranges_of(plain, (), premises.allow_empty)  # which tells the sizes
    limited, stops = dict[OperationKey, str](), dict[OperationKey, str | None]()
    for key, scope, one, gather in not_proved(audited):
        limited[key], stops[key] = "", gather.range.input
        n = (gather.range.size or (None,))[0]
        if (
            n is not None
            and isinstance(_limit_of(one, 0, rule), int)
            and n <= int(rule)
        ):
            where = f"{scope.where}: {one.operator} {shown(one.label)}"
            raise OnnxGatherError(
                f"{where}: {out_of_range} must be in the axis, of {n} elements"
            )
    while True:
        done = rewrite(audited.network, plain, own, limited, rule)
        undone = dict[OperationKey, str]()
        again = audit_model(replace(premises, network=read_network(done.model)))
        for _, scope, one, _ in not_proved(again):
            if key := done.made.get((scope.place, one.outputs[0])):
                why = (
                    f"no limit of its indices would be proved, as {stops[key]} is open"
                )
                undone[key] = why if rule == "clamp" else f"{why}; one of clamp may be"
        if not undone:
            break
        limited |= undone
    called, why = (
        calls_of(replace(audited.network, uncalled={})),
        "the function is never called",
    )
    never = {
        key: (scope, one)
        for key, scope, one, _ in not_proved(audited)
        if key not in called
    }
    done.left.extend(
        Left(of.where, one.label, one.operator, why) for of, one in never.values()
    )
    return replace(done, audits=(audited, again))


def not_proved(
    audited: AuditedModel,
) -> Iterator[tuple[OperationKey, Scope, Operation, AuditedGather]]:
    """Yield the operations that an audit does not prove, in each call of a function."""
    for key, scope, operation in operations_of(audited.network):
        gather = audited.gathers.get(key)
        if gather is not None and gather.range.state != "proved":
            yield key, scope, operation, gather


def rewrite(
    network: Network,
    plain: Network,
    own: Ranges,
    limited: Mapping[OperationKey, str],
    rule: OutOfRange | int,
) -> HardenedModel:
    """A model with some of the nodes rewritten that carry indices.

    A node in a function is one, however often the function is called.

    Args:
        network: The model, with the sizes that were given.
        plain: The same model with the sizes of its file alone. The index arithmetic reads all other
            sizes from the data, so that the result is right for every size.
        own: The bounds of the values of `plain`.
        limited: The ways to the operations whose indices may be out of range; each with why it is
            to be left as it is, or "".
        rule: What such an index does: "clamp", "zero" or "directml", or the row that it means.

    Raises:
        OnnxGatherError: A size is not known under "directml".
    """
    model = ModelProto()
    model.CopyFrom(network.proto)
    given, bare = (calls_of(replace(each, uncalled={})) for each in (network, plain))
    carriers = [
        key for key, calls in given.items() if _hardened_as(calls[0][1]) != "nothing"
    ]
    taken, done = names_in(model), HardenedModel(model)
    for key, siblings in _siblings(model, carriers).items():
        scope, operation = given[key][0]
        named = scope.where, operation.label, operation.operator
        is_unsafe, cropped = key in limited, _cropped(given[key])
        if why := limited.get(key):
            done.left.append(Left(*named, why))
            continue
        if is_unsafe and rule == "directml" and operation.is_gather:
            with located(f"{named[0]}: {named[2]} {shown(named[1])}"):
                node = _node(given[key], inputs_of(operation)[0], own)
                _replace(siblings, operation, as_directml(node), taken)
            output = operation.outputs[0]
            told = [_told_limit(node, "directml", operation, "indices")]
        elif is_unsafe or cropped:
            try:
                limit = rule if is_unsafe else None
                output, told = _limit(siblings, bare[key], own, limit, cropped, taken)
            except OnnxGatherError as error:
                done.left.append(Left(*named, str(error)))
                continue
        else:
            continue
        if is_unsafe:
            done.made[scope.place, output] = key
        done.rewritten.append(Rewritten(*named, tuple(told)))
    return done


def _hardened_as(operation: Operation) -> Hardened:
    """What is done with indices out of range of an operation."""
    row = operator_of(operation)
    return row.hardened if row else "nothing"


def _limit_of(operation: Operation, k: int, rule: OutOfRange | int) -> Limit | int:
    """What an index out of range of the k-th input of an operation with indices does."""
    if _hardened_as(operation) == "drop" or (rule == "zero" and operation.is_gather):
        return "zero"
    is_row = k == 0 and operation.operator != "RotaryEmbedding"
    return rule if isinstance(rule, int) and is_row else "clamp"


def _siblings(
    model: ModelProto, keys: Iterable[OperationKey]
) -> dict[OperationKey, Any]:
    """The nodes of the onnx graph or function that each of some operations is in."""
    owners: dict[Any, Any] = {
        key_of(function): function for function in model.functions
    }
    owners[MAIN], found = model.graph, dict[OperationKey, Any]()
    for key in keys:
        owner, *way, _ = key
        found[key] = owners[owner].node
        for k, body in zip(way[::2], way[1::2], strict=True):
            found[key] = dict(bodies_of(found[key][k]))[str(body)].node
    return found


def _place(siblings: Any, operation: Operation) -> int:
    """The place of the node of an operation among its siblings."""
    return next(
        k for k, node in enumerate(siblings) if (*node.output,) == operation.outputs
    )


def _node(calls: Calls, one: IndexInput, own: Ranges) -> GatherNode:
    """What is known of a node in all calls of the function that it is in.

    Raises:
        OnnxGatherError: The calls give it different axes, or too little is known of it.
    """
    (scope, operation), *_ = calls
    operator, version = operation.operator, scope.version
    numbers = {one.axis_of(each) for _, each in calls}
    if len(numbers) > 1:
        rule = f"{one.attribute} must be the same in all calls of the function"
        raise OnnxGatherError(f"{rule}, got {', '.join(map(str, sorted(numbers)))}")
    if version < OLDEST_OPSET:
        rule = f"the opset must be at least {OLDEST_OPSET} for the index arithmetic"
        more = "; onnx.version_converter makes a newer model"
        raise OnnxGatherError(f"{rule}, got {version}{more}")
    types = (
        [s.type_of(each.inputs[k]) for s, each in calls]
        for k in (one.data, one.position)
    )
    known = [reduce(ValueType.common, each) for each in types]
    data, indices = (Operand(_DTYPES.get(each.data_type), each.sizes) for each in known)
    if operator == "RotaryEmbedding" and len(indices.sizes or ()) != 2:
        raise OnnxGatherError(
            "position_ids must have two dimensions, as else others follow it"
        )
    node = GatherNode(
        operator, numbers.pop(), data, indices, version, one.is_tuple, one.from_end
    )
    node = replace(node, counted=any(each.is_embedding for _, each in calls))
    every = [own.value(s, each.inputs[one.data]).sizes for s, each in calls]
    empty = set[int]()
    for k in map(int, node.indexed().flat):
        for sizes in every:
            if sizes is None:
                raise OnnxGatherError("the rank of the data must be known, but is not")
            size = sizes[k]
            empty |= {k} if size is None or not size >= 1 else set()
    return replace(node, empty=frozenset(empty))


def _cropped(calls: Calls) -> tuple[int, ...]:
    """The dimensions off the axis where GatherElements has more data than indices."""
    dimensions = set[int]()
    for scope, operation in calls:
        if operation.operator == "GatherElements" and operation.is_gather:
            data, indices = (scope.type_of(name).sizes for name in operation.inputs)
            axis = operation.number % len(data or (1,))
            pairs = enumerate(
                zip(data or (), indices or (), strict=False)
            )  # ONNX forbids others
            dimensions |= {k for k, (n, m) in pairs if k != axis and n and m and m < n}
    return tuple(sorted(dimensions))


def _limit(
    siblings: Any,
    calls: Calls,
    own: Ranges,
    rule: OutOfRange | int | None,
    cropped: tuple[int, ...],
    taken: set[str],
) -> tuple[str, list[str]]:
    """Put nodes before a node that keep its indices in range, and behind it.

    Returns:
        The first output of the node then, and sentences on what was changed.

    Raises:
        OnnxGatherError: Too little is known of it; it is then as it was.
    """
    operation = calls[0][1]
    if _hardened_as(operation) == "leave":
        raise OnnxGatherError("its indices are not limited")
    made = list[
        tuple[IndexInput, GatherNode, Limit | int | None, tuple[Graph, Value, Value]]
    ]()
    for k, one in enumerate(inputs_of(operation)):
        node = _node(calls, one, own)
        limit = None if rule is None else _limit_of(operation, k, rule)
        if node.empty and limit == "clamp" and not operation.is_gather:
            raise OnnxGatherError("its axis may be empty")
        made.append((one, node, limit, limited_operands(node, limit, cropped)))
    at, told = _place(siblings, operation), list[str]()
    for one, node, limit, (graph, *operands) in made:
        names = {"": "", INPUT: siblings[at].input[one.data]}
        names[INDICES] = siblings[at].input[one.position]
        at = _inserted(
            siblings, at, _protos(graph, names, f"{operation.label}/", taken)
        )
        for k, value in zip((one.data, one.position), operands, strict=True):
            siblings[at].input[k] = names[value.name]
        told += [] if limit is None else [_told_limit(node, limit, operation, one.name)]
        padded = () if limit is None else node.padded(limit)
        if padded and limit == "zero" and not operation.is_gather:
            output = siblings[at].output[0]
            siblings[at].output[0] = new_name(f"{operation.label}/written", taken)
            names = {"": "", INPUT: siblings[at].output[0], OUTPUT: output}
            behind = _protos(
                without_zeros(node, padded), names, f"{operation.label}/", taken
            )
            _inserted(siblings, at + 1, behind)
        elif node.empty:
            told.append(
                "zeros are put behind the data, as its axis may be empty: a copy of it"
            )
    told += [_told_crop(cropped)] if cropped else []
    return siblings[at].output[0], told


def _replace(
    siblings: Any, operation: Operation, graph: Graph, taken: set[str]
) -> None:
    """Put the nodes of the lowering under "directml" in the stead of a gather."""
    inputs, outputs = operation.inputs, operation.outputs
    names = {"": "", INPUT: inputs[0], INDICES: inputs[1], OUTPUT: outputs[0]}
    made = _protos(graph, names, f"{operation.label}/", taken)
    del siblings[_inserted(siblings, _place(siblings, operation), made)]


def _inserted(siblings: Any, at: int, nodes: Sequence[onnx.NodeProto]) -> int:
    """Put nodes in front of one; return its new place."""
    for k, node in enumerate(nodes, at):
        siblings.insert(k, node)
    return at + len(nodes)


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
    given = {*names.values()}

    def new(name: str) -> str:
        if name not in names:
            names[name] = new_name(prefix + name, taken)
        return names[name]

    def held(name: str, array: Array) -> onnx.NodeProto:
        tensor = numpy_helper.from_array(array)
        return helper.make_node("Constant", [], [new(name)], new(name), value=tensor)

    made = onnx.GraphProto(
        node=[held(name, array) for name, array in graph.constants.items()]
    )
    for node in graph.nodes:
        inputs = tuple(map(new, node.inputs))
        add_nodes(made.node, [node._replace(inputs=inputs, output=new(node.output))])
        if made.node[-1].output[0] in given:  # another node may have its name
            made.node[-1].name = new_name(f"{prefix}output", taken)
    return [*made.node]


def _told_limit(
    node: GatherNode, limit: OutOfRange | int, operation: Operation, name: str
) -> str:
    sizes, axes = node.data.sizes, [*node.indexed().flat]
    known = [sizes[k] for k in axes] if sizes else [None]
    ranges = ", ".join(f"[{f'-{n}' if node.from_end else 0}, {n})" for n in known)
    row = operator_of(operation)
    index = f"an index of {name}" if row and len(row.inputs) > 1 else "an index"
    outside = (
        f"{index} outside {ranges}" if None not in known else f"{index} out of range"
    )
    if _hardened_as(operation) == "drop":
        return (
            f"{outside} was an error, and now its write is dropped: two copies of the"
            " data"
        )
    did = "was an error" if operation.is_gather else "did what the provider makes of it"
    fewer = ", or the last one where there are fewer" if None in known and limit else ""
    held = f"row {limit}{fewer}" if isinstance(limit, int) else POLICIES[limit].returns
    return f"{outside} {did}, and now the output holds {held}"


def _told_crop(dimensions: tuple[int, ...]) -> str:
    which = ", ".join(map(str, dimensions))
    rule = "as DirectML refuses more data than indices off the axis"
    return (
        f"the data is cropped to the sizes of the indices in dimension {which}, {rule}"
    )
