"""ONNX models that no index makes fail: nodes that are not proved are rewritten.

They are rewritten in place; every other part of a model keeps its bytes. The metadata
get an entry that says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar

import onnx
from msgspec import Struct
from msgspec.structs import replace
from onnx import ModelProto, helper, numpy_helper

from onnxgather.auditing.audit import (
    AuditedModel,
    Premises,
    audit_model,
    given_conditions,
    given_ranges,
    plain_ranges,
)
from onnxgather.auditing.declared import declare
from onnxgather.auditing.graph_audit import Calls, OperationKey, calls_of, operations_of
from onnxgather.auditing.hardening.gather_nodes import (
    IndexNode,
    Limit,
    Operand,
    as_directml,
    limited_operands,
    without_zeros,
)
from onnxgather.auditing.levels import Levels
from onnxgather.auditing.operators.index_operators import (
    INDEX_OPERATORS,
    Hardened,
    IndexInput,
    inputs_of,
    operator_of,
)
from onnxgather.auditing.proof.contract import Condition, GivenContract, open_sizes
from onnxgather.auditing.proof.ranges import Ranges, ranges_of
from onnxgather.auditing.records import AuditedGather
from onnxgather.core.checks import plain_text, shown
from onnxgather.core.errors import OnnxGatherError, located
from onnxgather.core.files import check_apart, write_pieces
from onnxgather.core.lowering.graph import ONNX_TYPES, Graph, Value, new_name
from onnxgather.core.lowering.indices import INDICES
from onnxgather.core.lowering.portable import INPUT, OUTPUT
from onnxgather.core.model.network import MAIN, Network, Operation, Scope, read_network
from onnxgather.core.model.own import renew_entry
from onnxgather.core.model.protos import (
    bodies_of,
    check_beside_data,
    external_files,
    key_of,
    names_in,
)
from onnxgather.core.model.values import ValueType, name_of, serialized_pieces
from onnxgather.core.model.wire import Weights, whole_model, without_weights
from onnxgather.core.model.write import add_nodes
from onnxgather.core.options import HARDENED, POLICIES, OutOfRange
from onnxgather.core.public import public

_DTYPES = {name_of(number): dtype for dtype, number in ONNX_TYPES.items()}
"""numpy's types by ONNX's names, such as FLOAT."""

OLDEST_OPSET = 9
"""The first opset with the operators of the index arithmetic."""


def hardening_rule(out_of_range: object) -> OutOfRange | int:
    """Return the policy with a name of `HARDENED`, or the number of the row.

    Raises:
        OnnxGatherError: There is no such policy.
    """
    given = plain_text(out_of_range)
    text = given if isinstance(given, str) else ""
    if text in POLICIES and text in HARDENED:
        return text
    row = re.fullmatch(r"index=([0-9]{1,18})", text)
    if row:
        return int(row[1])
    choices = ", ".join(HARDENED)
    raise OnnxGatherError(
        f"out_of_range must be one of {choices}, got {shown(out_of_range)}"
    )


class Rewritten(Struct, frozen=True):
    """A node that was rewritten, and the changes."""

    place: str
    """Such as "main graph"."""
    node: str
    operator: str
    changes: tuple[str, ...]
    """Sentences: what the node did, and what it does now."""

    def __str__(self) -> str:
        changes = "; ".join(self.changes)
        return f"{self.place}: {self.operator} {shown(self.node)}: {changes}"


class Left(Struct, frozen=True):
    """A node that stays as it is, although its indices may be out of range."""

    place: str
    node: str
    operator: str
    why: str
    can_fail: ClassVar[bool] = True
    """Whether the node may get an index out of range."""

    def __str__(self) -> str:
        return f"left: {self.place}: {self.operator} {shown(self.node)}: {self.why}"


class LeftUncalled(Left, frozen=True):
    """A node that stays as it is, and never runs."""

    why: str = "the function is never called"
    can_fail: ClassVar[bool] = False


class HardenedModel(Struct, frozen=True):
    """A hardened model."""

    light: ModelProto
    """The model, without the bytes of `weights`."""
    rewritten: list[Rewritten] = []
    """In the order of the nodes, as `left`."""
    left: list[Left] = []
    limited: dict[tuple[str, str], OperationKey] = {}
    """The paths to the operations whose indices are limited, by their place and the
    first output that they have now."""
    audits: tuple[AuditedModel, AuditedModel] | None = None
    """Of the model before and after hardening, if both are known. Where no node is
    rewritten, they are the same."""
    weights: Weights = {}
    """The large constants, which are those of the model before hardening: memory holds
    them at most once. Of a large file they stay there, so it must stay as it is."""

    @property
    def model(self) -> ModelProto:
        """The whole model, with copies of the large constants.

        Raises:
            OnnxGatherError: The file that has them was changed since.
        """
        if not self.weights:
            return self.light
        return whole_model(self.light, self.weights)

    @property
    def content(self) -> bytes:
        """The bytes of the whole model.

        Raises:
            OnnxGatherError: protobuf cannot write it, or as `model`.
        """
        return b"".join(serialized_pieces(self.light, self.weights))

    def network(self, place: str) -> Network:
        """Return the model as plain data; `place` is that of `read_network`."""
        return read_network(self.light, place=place, weights=self.weights)

    @property
    def failing(self) -> list[Left]:
        """The nodes that can still fail."""
        return [left for left in self.left if left.can_fail]

    @property
    def gathers(self) -> list[AuditedGather]:
        """The records of all gathers and other operators with indices."""
        if self.audits is None:
            return []
        return list(self.audits[0].gathers.values())


@public
def harden(
    model: str | os.PathLike[str] | ModelProto,
    out_of_range: str = "clamp",
    shapes: Mapping[str, Sequence[int]] | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    assume: GivenContract | None = None,
    allow_empty: bool = False,
    levels: Sequence[str] | None = None,
    runtimes: Sequence[str] = (),
    sizes: Mapping[str, tuple[int, int]] | None = None,
) -> ModelProto:
    """Return a model in which each index that is not proved in range is kept in it.

    Nodes that are proved stay as they are, and so does every other part of the model,
    to the byte; its metadata get an entry of onnxgather, and the ranges, the sizes and
    the conditions of the contract that are given. What a model declares in its metadata
    proves nothing here, as nothing checks it. A write out of range of a
    scatter is dropped. If DirectML refuses a GatherElements because it has more data
    than indices off the axis, the data is cropped. The outputs for indices in range are
    those of the model. A node that cannot be kept in range, such as RoiAlign, or
    whose sizes may not fit, stays as it is: an audit of the result does not prove it.

    Args:
        model: A file, or the model itself; external data is neither read nor moved.
        out_of_range: What an index out of range does: "clamp", "zero", "index=N" for
            row N, or "directml", which needs sizes that are known. An operator that is
            no gather of ONNX clamps in place of "zero" and "directml"; positions and
            segments also in place of "index=N".
        shapes: The sizes of graph inputs, by name. Proofs hold for these sizes.
        ranges: The least and the largest element of graph inputs, by name. Proofs hold
            for these.
        assume: A contract of the model, a file or a plain dict. Proofs hold under its
            conditions.
        allow_empty: Whether open sizes of inputs may be 0; else they are at least 1.
        levels: As of `audit`: a node is also rewritten if it is not proved in a graph
            that ONNX Runtime makes of the model.
        runtimes: As of `audit`.
        sizes: The least and the greatest number of open sizes, by name. Proofs hold for
            these.

    Raises:
        OnnxGatherError: The model cannot be read, or an axis has no row N; or under
            "directml" a size is not known.

    Example:
        >>> og.audit("models/networks/keywords.onnx")
        <Audit of 4 gathers: 2 proved, 2 proved-if>
        >>> model = og.harden("models/networks/keywords.onnx", "clamp")
        >>> og.audit(model)
        <Audit of 4 gathers: 4 proved>
    """
    network = read_network(model)
    contracts = [] if assume is None else [assume]
    ranges = plain_ranges(network, ranges)
    conditions = given_conditions(network, ranges, contracts, sizes)
    graphs = Levels(levels, runtimes)
    given = given_ranges(ranges)
    premises = Premises(network, shapes, conditions, allow_empty, graphs, given=given)
    return hardened(premises, out_of_range).model


def harden_file(
    premises: Premises,
    output: str,
    out_of_range: str = "clamp",
    write: Callable[[str, Iterator[bytes]], None] = write_pieces,
) -> HardenedModel:
    """Write the hardened model to a file; return it.

    Args:
        premises: The model, and what holds of its inputs.
        output: The file to write.
        out_of_range: As of `harden`.
        write: What writes the file, from the pieces of its content.

    Raises:
        OnnxGatherError: As `harden`; or the file to write is the model or its external
            data, or is in another folder although it refers to external data.
    """
    path = premises.network.path
    folder = os.path.dirname(path)
    model = premises.network.proto
    data_files = [os.path.join(folder, name) for name in external_files(model)]
    check_apart([(output, "the model")], [path, *data_files])
    check_beside_data(model, path, output)
    result = hardened(premises, out_of_range)
    write(output, serialized_pieces(result.light, result.weights))
    return result


def hardened(
    premises: Premises, out_of_range: str = "clamp", audited: AuditedModel | None = None
) -> HardenedModel:
    """Return the hardened model, with what was done with its nodes.

    A node whose new indices an audit would not prove is left as it is.

    Args:
        premises: The model, and what holds of its inputs.
        out_of_range: As of `harden`.
        audited: The audit of the model, if it is known.

    Raises:
        OnnxGatherError: As `harden`.
    """
    limit = hardening_rule(out_of_range)
    plain = premises.network
    audited = audited or audit_model(premises)
    reasons_to_leave: dict[OperationKey, str] = {}
    records: dict[OperationKey, AuditedGather] = {}
    for key, scope, operation, gather in not_proved(audited):
        records[key] = gather
        reasons_to_leave[key] = ""
        if gather.range.state == "invalid":
            reasons_to_leave[key] = f"the node is invalid: {gather.range.why}"
        elif gather.range.unfit and _hardened_as(operation) != "leave":
            rule = gather.range.unfit[0]
            reasons_to_leave[key] = f"no limit of its indices mends its sizes: {rule}"
        else:
            _check_row(scope, operation, gather, out_of_range)

    # The sizes count that no option gives. They are read where a node changes.
    own = audited.bounds
    all_calls = calls_of(audited.network).values()
    is_changed = bool(records) or any(map(_cropped, all_calls))
    if is_changed and (premises.conditions or premises.shapes):
        own = ranges_of(plain, (), premises.allow_empty)

    # A limit that is not proved is no use: such nodes are left in the next round.
    counted: list[OperationKey] = []
    if _counts_from_start(audited):
        counted = [key for key, gather in records.items() if gather.rewritten_at]
    while True:
        result = rewrite(
            audited.network,
            plain,
            own,
            reasons_to_leave,
            limit,
            counted,
            premises.conditions,
        )
        if not result.rewritten:  # each node is as it was audited
            audited_again = audited
            break
        new_network = result.network(plain.path)
        audited_again = audit_model(replace(premises, network=new_network))
        more_reasons: dict[OperationKey, str] = {}
        for _, scope, operation, _ in not_proved(audited_again):
            key = result.limited.get((scope.place, operation.outputs[0]))
            if key:
                more_reasons[key] = _why_no_limit(records[key], limit)
        if not more_reasons:
            break
        reasons_to_leave |= more_reasons
    result.left.extend(_left_uncalled(audited))
    result.left.extend(_left_in_graphs(audited_again, result))
    return replace(result, audits=(audited, audited_again))


def _check_row(
    scope: Scope, operation: Operation, gather: AuditedGather, out_of_range: str
) -> None:
    """Check that the axis of an operation has the row that "index=N" names."""
    rule = hardening_rule(out_of_range)
    limit = _limit_of(operation, 0, rule)
    if not isinstance(limit, int) or not gather.range.size:
        return
    # An axis of an open size takes its last row if it has fewer.
    size = gather.range.size[0]
    if size is not None and size <= limit:
        where = f"{scope.where}: {operation.operator} {shown(operation.label)}"
        raise OnnxGatherError(
            f"{where}: {out_of_range} must be in the axis, of {size} elements"
        )


def _counts_from_start(audited: AuditedModel) -> bool:
    """Return whether a graph has an operator of `quirks.EMBEDDING_FROM_START`."""
    own = {(gather.domain, gather.op) for gather in audited.gathers.values()}
    for name in audited.runtimes.operators - own:
        if not INDEX_OPERATORS[name].counts_from_end:
            return True
    return False


def _why_no_limit(gather: AuditedGather, rule: OutOfRange | int) -> str:
    """Return why the indices of a gather are not limited."""
    if gather.range.input is not None:
        why = (
            f"no limit of its indices would be proved, as {gather.range.input} is open"
        )
    elif gather.range.state == "proved":
        why = "no limit of its indices would be proved in the graph that runs"
    else:
        why = "no limit of its indices would be proved"
    return why if rule == "clamp" else f"{why}; one of clamp may be"


def _left_uncalled(audited: AuditedModel) -> list[Left]:
    """Return the operations that are not proved, in functions that nothing calls."""
    called = calls_of(replace(audited.network, uncalled={}))
    left: dict[OperationKey, Left] = {}
    for key, scope, operation, _ in not_proved(audited):
        if key not in called:
            left[key] = LeftUncalled(scope.where, operation.label, operation.operator)
    return list(left.values())


def _left_in_graphs(audited: AuditedModel, result: HardenedModel) -> list[Left]:
    """Return the operations that only a graph of ONNX Runtime leaves open.

    Args:
        audited: The audit of the hardened model.
        result: The hardened model.
    """
    named = {(left.node, left.operator) for left in result.left}
    why = "ONNX Runtime runs another graph, which does not prove it"
    return [
        Left(gather.where, gather.node, gather.op, why)
        for gather in audited.audit_without_digest.graph_gathers
        if (gather.node, gather.op) not in named
    ]


def not_proved(
    audited: AuditedModel,
) -> Iterator[tuple[OperationKey, Scope, Operation, AuditedGather]]:
    """Yield the operations that an audit does not prove, in each call of a function.

    Those are among them that have the name and the operator of one that a graph of ONNX
    Runtime leaves open.
    """
    open_names = {
        (gather.node, gather.op)
        for row in audited.runtimes.rows
        for gather in row.not_proved
    }
    for key, scope, operation in operations_of(audited.network):
        gather = audited.gathers.get(key)
        if gather is None:
            continue
        if gather.range.state != "proved" or (gather.node, gather.op) in open_names:
            yield key, scope, operation, gather


def rewrite(
    network: Network,
    plain: Network,
    own: Ranges,
    reasons_to_leave: Mapping[OperationKey, str],
    rule: OutOfRange | int,
    counted: Collection[OperationKey] = (),
    conditions: Sequence[Condition] = (),
) -> HardenedModel:
    """Return a model with some of the nodes rewritten that carry indices.

    A node in a function is rewritten once, however often the function is called.

    Args:
        network: The model, with the sizes that were given.
        plain: The same model with the sizes of its file alone. The index arithmetic
            reads all other sizes from the data, so that the result is right for every
            size.
        own: The bounds of the values of `plain`.
        reasons_to_leave: The paths to the operations whose indices may be out of range,
            each with the reason to leave it as it is, or "".
        rule: What such an index does: "clamp", "zero" or "directml", or the row that it
            means.
        counted: The paths to the gathers whose new indices must be at least 0
            (`quirks.EMBEDDING_FROM_START`).
        conditions: The conditions that are given. The model declares them.

    Raises:
        OnnxGatherError: A size is not known under "directml".
    """
    model, weights = without_weights(network.proto, network.weights)
    # A function that nothing calls has no sizes, and its nodes are left as they are.
    calls_by_key = calls_of(replace(network, uncalled={}))
    plain_calls_by_key = calls_of(replace(plain, uncalled={}))
    keys: list[OperationKey] = []
    for key, calls in calls_by_key.items():
        _, operation = calls[0]
        if _hardened_as(operation) != "nothing":
            keys.append(key)

    # The nodes of all keys are looked up before positions change.
    result = HardenedModel(model, weights=weights)
    taken = names_in(model)
    for key, siblings in _siblings(model, keys).items():
        calls = calls_by_key[key]
        scope, operation = calls[0]
        name = (scope.where, operation.label, operation.operator)
        reason = reasons_to_leave.get(key)
        if reason:
            result.left.append(Left(*name, reason))
            continue
        is_unsafe = key in reasons_to_leave
        cropped = _cropped(calls)
        if not is_unsafe and not cropped:
            continue
        if is_unsafe and rule == "directml" and operation.is_gather:
            where = f"{scope.where}: {operation.operator} {shown(operation.label)}"
            with located(where):
                changes = _replace(siblings, calls, plain_calls_by_key[key], own, taken)
            output = operation.outputs[0]
        else:
            limit = rule if is_unsafe else None
            try:
                output, changes = _limit(
                    siblings,
                    plain_calls_by_key[key],
                    own,
                    limit,
                    cropped,
                    key in counted,
                    taken,
                )
            except OnnxGatherError as error:  # too little is known of the node
                result.left.append(Left(*name, str(error)))
                continue
        if is_unsafe:
            result.limited[scope.place, output] = key
        result.rewritten.append(Rewritten(*name, tuple(changes)))
    declare(model, plain, open_sizes(plain), conditions)
    # A model that stays as it is keeps what onnxgather wrote about it.
    text = f"index={rule}" if isinstance(rule, int) else rule
    renew_entry(model, {"hardened": text}, weights)
    return result


def _hardened_as(operation: Operation) -> Hardened:
    """Return what is done with indices out of range of an operation."""
    row = operator_of(operation)
    return row.hardened if row else "nothing"


def _limit_of(
    operation: Operation, input_number: int, rule: OutOfRange | int
) -> Limit | int:
    """Return what an index out of range of an input of an operation does."""
    if _hardened_as(operation) == "drop":  # writes go to a row that is cut off
        return "zero"
    if rule == "zero" and operation.is_gather:
        return "zero"
    # Other inputs hold positions and segments, of which no row has a meaning.
    holds_positions = operation.operator.endswith("RotaryEmbedding")
    is_row = input_number == 0 and not holds_positions
    return rule if isinstance(rule, int) and is_row else "clamp"


def _siblings(
    model: ModelProto, keys: Iterable[OperationKey]
) -> dict[OperationKey, Any]:
    """Return the nodes of the graph or function that contains each operation."""
    owners: dict[Any, Any] = {MAIN: model.graph}
    for function in model.functions:
        owners[key_of(function)] = function
    siblings_by_key: dict[OperationKey, Any] = {}
    for key in keys:
        owner, *path, _ = key
        siblings: Any = owners[owner].node
        for number, body in zip(path[::2], path[1::2], strict=True):
            bodies: dict[str, Any] = dict(bodies_of(siblings[number]))
            siblings = bodies[str(body)].node
        siblings_by_key[key] = siblings
    return siblings_by_key


def _position(siblings: Any, operation: Operation) -> int:
    """Return the position of the node of an operation among its siblings."""
    return next(
        position
        for position, node in enumerate(siblings)
        if tuple(node.output) == operation.outputs
    )


def _node(
    calls: Calls, index_input: IndexInput, own: Ranges, is_counted: bool
) -> IndexNode:
    """Return what is known of a node in all calls of the function that contains it.

    Args:
        calls: The calls.
        index_input: The input that holds the indices.
        own: The bounds of the values.
        is_counted: Whether the new indices must be at least 0.

    Raises:
        OnnxGatherError: The calls give it different axes, or too little is known of it.
    """
    scope, operation = calls[0]
    axes = {index_input.axis_of(operation) for _, operation in calls}
    if len(axes) > 1:
        rule = f"{index_input.attribute} must be the same in all calls of the function"
        got = ", ".join(map(str, sorted(axes)))
        raise OnnxGatherError(f"{rule}, got {got}")
    version = scope.version
    if version < OLDEST_OPSET:
        rule = f"the opset must be at least {OLDEST_OPSET} for the index arithmetic"
        more = "onnx.version_converter makes a newer model"
        raise OnnxGatherError(f"{rule}, got {version}; {more}")
    indices = _operand(calls, index_input.position)
    if operation.operator == "RotaryEmbedding" and len(indices.sizes or ()) != 2:
        raise OnnxGatherError(
            "position_ids must have two dimensions, as else others follow it"
        )
    node = IndexNode(
        operation.operator,
        axes.pop(),
        _operand(calls, index_input.data),
        indices,
        version,
        index_input.is_tuple,
        index_input.from_end,
        is_counted,
    )
    empty: set[int] = set()
    for call_scope, call in calls:
        data = own.value(call_scope, call.inputs[index_input.data])
        for dimension in map(int, node.indexed().flat):
            if data.sizes is None:
                raise OnnxGatherError("the rank of the data is unknown")
            size = data.sizes[dimension]
            if size is None or not size >= 1:  # an open size need not be comparable
                empty.add(dimension)
    return replace(node, empty=frozenset(empty))


def _operand(calls: Calls, position: int) -> Operand:
    """Return what is known of an input in all calls."""
    types = [scope.type_of(operation.inputs[position]) for scope, operation in calls]
    common = reduce(ValueType.common, types)
    return Operand(_DTYPES.get(common.data_type), common.sizes)


def _cropped(calls: Calls) -> tuple[int, ...]:
    """Return the dimensions off the axis where GatherElements has too much data.

    DirectML refuses more data than indices there.
    """
    dimensions: set[int] = set()
    for scope, operation in calls:
        if operation.operator != "GatherElements" or not operation.is_gather:
            continue
        data, indices = (scope.type_of(name).sizes for name in operation.inputs)
        if not data or not indices:
            continue
        axis = operation.number % len(data)
        pairs = zip(data, indices, strict=False)  # ONNX forbids different ranks
        for dimension, (data_size, index_size) in enumerate(pairs):
            if dimension == axis or not data_size or not index_size:
                continue
            if index_size < data_size:
                dimensions.add(dimension)
    return tuple(sorted(dimensions))


class _LimitedInput(Struct, frozen=True):
    """An input of a node that holds indices, with the nodes that limit them."""

    index_input: IndexInput
    node: IndexNode
    limit: Limit | int | None
    """None where the indices stay as they are, and the data is cropped alone."""
    graph: Graph
    data: Value
    """The data for the node, a value of the graph."""
    indices: Value


def _limited_input(
    calls: Calls,
    number: int,
    own: Ranges,
    rule: OutOfRange | int | None,
    cropped: tuple[int, ...],
    is_counted: bool,
) -> _LimitedInput:
    """Return an input of a node with the nodes that limit its indices.

    Raises:
        OnnxGatherError: Too little is known of the node.
    """
    _, operation = calls[0]
    index_input = inputs_of(operation)[number]
    node = _node(calls, index_input, own, is_counted)
    limit = None if rule is None else _limit_of(operation, number, rule)
    if node.empty and limit == "clamp" and not operation.is_gather:
        raise OnnxGatherError("its axis may be empty")
    graph, data, indices = limited_operands(node, limit, cropped)
    return _LimitedInput(index_input, node, limit, graph, data, indices)


def _limit(
    siblings: Any,
    calls: Calls,
    own: Ranges,
    rule: OutOfRange | int | None,
    cropped: tuple[int, ...],
    is_counted: bool,
    taken: set[str],
) -> tuple[str, list[str]]:
    """Put nodes before a node that keep its indices in range, and behind it.

    Returns:
        The first output of the node then, and sentences on what was changed.

    Raises:
        OnnxGatherError: Too little is known of the node; it is then as it was.
    """
    _, operation = calls[0]
    if _hardened_as(operation) == "leave":
        raise OnnxGatherError("its indices are not limited")
    # All errors come before the first change, so that a node can be left as it was.
    limited_inputs = [
        _limited_input(calls, number, own, rule, cropped, is_counted)
        for number in range(len(inputs_of(operation)))
    ]
    position = _position(siblings, operation)
    prefix = f"{operation.label}/"
    changes: list[str] = []
    for limited in limited_inputs:
        position = _insert_limit(siblings, position, limited, prefix, taken)
        node = limited.node
        padded: list[int] = []
        # Without a limit, the data is cropped alone.
        if limited.limit is not None:
            changes.append(
                _limit_sentence(node, limited.limit, operation, limited.index_input)
            )
            padded = node.padded(limited.limit)
        if padded and limited.limit == "zero" and not operation.is_gather:
            # The zeros to which a scatter may write are cut off behind it.
            graph = without_zeros(node, padded)
            outputs = siblings[position].output
            output = outputs[0]
            outputs[0] = new_name(f"{prefix}written", taken)
            names = {"": "", INPUT: outputs[0], OUTPUT: output}
            _insert(siblings, position + 1, _protos(graph, names, prefix, taken))
        elif node.empty:
            changes.append(
                "zeros are put behind a copy of the data, as its axis may be empty"
            )
    if cropped:
        which = ", ".join(map(str, cropped))
        change = f"the data is cropped to the sizes of the indices in dimension {which}"
        why = "as DirectML refuses more data than indices off the axis"
        changes.append(f"{change}, {why}")
    return siblings[position].output[0], changes


def _insert_limit(
    siblings: Any, position: int, limited: _LimitedInput, prefix: str, taken: set[str]
) -> int:
    """Put the nodes of a limit in front of a node; return the node's new position."""
    data_position = limited.index_input.data
    indices_position = limited.index_input.position
    inputs = siblings[position].input
    names = {
        "": "",
        INPUT: inputs[data_position],
        INDICES: inputs[indices_position],
    }
    nodes = _protos(limited.graph, names, prefix, taken)
    position = _insert(siblings, position, nodes)
    # The node has moved, so its inputs are another object of protobuf now.
    inputs = siblings[position].input
    inputs[data_position] = names[limited.data.name]
    inputs[indices_position] = names[limited.indices.name]
    return position


def _replace(
    siblings: Any, calls: Calls, plain_calls: Calls, own: Ranges, taken: set[str]
) -> list[str]:
    """Put the lowering under "directml" in place of a gather; return the changes."""
    _, operation = calls[0]
    index_input = inputs_of(operation)[0]
    node = _node(calls, index_input, own, is_counted=False)
    types = [scope.type_of(name) for scope, call in plain_calls for name in call.inputs]
    is_static = all(value_type.is_static for value_type in types)
    graph = as_directml(node, is_static)
    data, indices = operation.inputs
    names = {"": "", INPUT: data, INDICES: indices, OUTPUT: operation.outputs[0]}
    nodes = _protos(graph, names, f"{operation.label}/", taken)
    position = _insert(siblings, _position(siblings, operation), nodes)
    del siblings[position]
    return [_limit_sentence(node, "directml", operation, index_input)]


def _insert(siblings: Any, position: int, nodes: Sequence[onnx.NodeProto]) -> int:
    """Put nodes in front of a node; return its new position."""
    for offset, node in enumerate(nodes):
        siblings.insert(position + offset, node)
    return position + len(nodes)


def _protos(
    graph: Graph, names: dict[str, str], prefix: str, taken: set[str]
) -> list[onnx.NodeProto]:
    """Return the nodes of a graph, renamed, and its constants as nodes.

    The nodes may be put in a function, which has no initializers.

    Args:
        graph: The graph.
        names: The names of the values that the model has already. The new names of the
            other values are added.
        prefix: The start of the new names.
        taken: The names in use. The new names are added.
    """
    given_names = set(names.values())

    def new(name: str) -> str:
        if name not in names:
            names[name] = new_name(prefix + name, taken)
        return names[name]

    proto = onnx.GraphProto()
    for name, array in graph.constants.items():
        tensor = numpy_helper.from_array(array)
        constant = helper.make_node(
            "Constant", [], [new(name)], name=new(name), value=tensor
        )
        proto.node.append(constant)
    for node in graph.nodes:
        inputs = tuple(map(new, node.inputs))
        renamed = node._replace(inputs=inputs, output=new(node.output))
        add_nodes(proto.node, [renamed])
        added = proto.node[-1]
        if added.output[0] in given_names:  # another node may have its name
            added.name = new_name(f"{prefix}output", taken)
    return list(proto.node)


def _limit_sentence(
    node: IndexNode,
    limit: OutOfRange | int,
    operation: Operation,
    index_input: IndexInput,
) -> str:
    """Return what an index out of range did, and what it does now."""
    sizes: list[int | None] = [None]
    if node.data.sizes:
        sizes = [node.data.sizes[axis] for axis in node.indexed().flat]
    is_open = None in sizes
    outside = _outside_sentence(node, sizes, operation, index_input)
    if _hardened_as(operation) == "drop":
        now = "now its write is dropped: two copies of the data"
        return f"{outside} was an error, and {now}"
    before = "did what the provider makes of it"
    if operation.is_gather:
        before = "was an error"
    if not isinstance(limit, int):
        result = POLICIES[limit].returns
    elif is_open and limit > 0:
        result = f"row {limit}, or the last one where there are fewer"
    else:
        result = f"row {limit}"
    return f"{outside} {before}, and now the output holds {result}"


def _outside_sentence(
    node: IndexNode,
    sizes: Sequence[int | None],
    operation: Operation,
    index_input: IndexInput,
) -> str:
    """Return the start of a sentence on an index out of range."""
    row = operator_of(operation)
    subject = "an index"
    if row and len(row.inputs) > 1:
        subject = f"an index of {index_input.name}"
    if None in sizes:
        return f"{subject} out of range"
    ranges: list[str] = []
    for size in sizes:
        low = f"-{size}" if node.from_end else "0"
        ranges.append(f"[{low}, {size})")
    return f"{subject} outside {', '.join(ranges)}"
