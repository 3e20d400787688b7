"""The audit of a model: each of its gathers as a record, in the JSON of `onnxgather audit`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, cast

import msgspec
import numpy as np

from onnxgather.checks import listed, number_of, shown
from onnxgather.descriptors.arrays import Array, outside
from onnxgather.descriptors.feature_levels import minimum_feature_level
from onnxgather.descriptors.operators import TABLE
from onnxgather.descriptors.spelling import to_dict
from onnxgather.errors import DescriptorError, OnnxGatherError
from onnxgather.execution.providers import PROVIDERS
from onnxgather.gather import ATTRIBUTES, from_onnx
from onnxgather.model.values import DIRECTML_NAMES, ModelProto, ValueType, type_name
from onnxgather.networks.capture import (
    MOST_ITERATIONS,
    Captured,
    Gathered,
    capture,
    level_1,
)
from onnxgather.networks.inputs import MOST_LISTED, checked
from onnxgather.networks.network import Network, Operation, Scope, check_input, read_network
from onnxgather.networks.proof import Proof, proof_of
from onnxgather.networks.ranges import ranges_of
from onnxgather.networks.shapes import shape_computations
from onnxgather.parity.known import known_differences
from onnxgather.parity.states import State

TIMEOUT = 60.0
"""Seconds that a run of the model may take."""

EMPTY = "the DirectML provider does nothing, as a tensor is empty"

SizesFrom = Literal["file", "given", "level-1", "run"]


class Tensor(msgspec.Struct, frozen=True):
    """What is known of a value."""

    type: str | None
    """DirectML's name, or ONNX's where DirectML has none; None where it is not known."""
    sizes: tuple[int | None, ...] | None
    """None for a size, or for all, that is not known."""

    @property
    def is_static(self) -> bool:
        """Whether every size is known."""
        return self.sizes is not None and None not in self.sizes


class Found(msgspec.Struct, frozen=True):
    """An index out of range."""

    source: Literal["constant", "inputs"]
    """Where it was found: in a constant of the model, or in what the given inputs lead to."""
    at: tuple[int, ...]
    """Its coordinates in the indices; the first one's where several are out of range."""
    value: int
    count: int
    """How many indices are out of range."""
    providers: dict[str, str]
    """What each provider makes of it, by its short name."""


class IndexRange(msgspec.Struct, frozen=True):
    """The range of the indices of a gather, one number per coordinate of a tuple."""

    state: Literal["proved", "not-proved", "out-of-range"]
    low: tuple[int | None, ...] | None
    """The smallest index, before negative ones are counted from the end; None: unbounded. Without
    any index there is none."""
    high: tuple[int | None, ...] | None
    size: tuple[int | None, ...] | None
    """The size of the axis that is indexed."""
    why: str
    """The proof in words, such as "constant"; or what is known."""
    sizes_from: SizesFrom
    """For which sizes it holds: those of the file, those given, those of ONNX Runtime's level-1
    passes with the sizes given, or those of a run with the inputs given."""
    input: str | None
    """What stops the proof: a graph input, or an operator."""
    found: Found | None


class AuditedGather(msgspec.Struct, frozen=True):
    """One gather of a model."""

    node: str
    """The name of the node, or its first output where the name is empty or not unique."""
    output_name: str
    place: str
    """The main graph, or the way into a subgraph or a function."""
    op: str
    shape_computation: bool
    """Whether the DirectML provider leaves it to the CPU, as it computes shapes."""
    data: Tensor
    indices: Tensor
    output: Tensor
    constant_indices: bool
    descriptor: dict[str, Any] | None
    """The descriptor that the DirectML provider builds, as `to_dict` writes it."""
    refused: str | None
    """The rule that the DirectML provider refuses the node by."""
    feature_level: str | None
    range: IndexRange
    lanes: dict[str, State] = {}
    """What became of it on each lane that was asked; the worst of its executions."""

    @property
    def is_settled(self) -> bool:
        """Whether all sizes are known and the indices are proved in range, or found out of it."""
        static = all(tensor.is_static for tensor in (self.data, self.indices, self.output))
        return static and self.range.state != "not-proved"


class Audit(msgspec.Struct, frozen=True):
    """What an audit says of a model."""

    gathers: list[AuditedGather]
    notes: list[str] = []
    """What would take the audit further, a sentence each."""
    schema: int = 1

    @property
    def out_of_range(self) -> list[AuditedGather]:
        """The gathers of which an index is out of range."""
        return [gather for gather in self.gathers if gather.range.state == "out-of-range"]

    @property
    def refused(self) -> list[AuditedGather]:
        """The gathers that the DirectML provider refuses, without those it leaves to the CPU."""
        return [g for g in self.gathers if g.refused and not g.shape_computation]

    @property
    def not_proved(self) -> list[AuditedGather]:
        """The gathers whose indices may be out of range."""
        return [gather for gather in self.gathers if gather.range.state == "not-proved"]


Key = tuple[int | str, ...]
"""The way to a node: the numbers of nodes and the names of bodies, from the main graph or from
the function that it is in. It is the same for each call of a function."""


class Examined(NamedTuple):
    """A model, its gathers in the order in which they run, and what a run showed of them."""

    network: Network
    """With the sizes that are given or seen."""
    gathers: dict[Key, AuditedGather]
    captured: Captured
    notes: list[str]

    @property
    def audit(self) -> Audit:
        """What is told of the model."""
        return Audit([*self.gathers.values()], self.notes)


def audit(
    model: str | os.PathLike[str] | ModelProto,
    inputs: Mapping[str, Array] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
) -> Audit:
    """What DirectML makes of each gather of a model, and whether its indices are in range.

    Args:
        model: A file, or the model itself.
        inputs: Arrays for all graph inputs; the model then runs on the CPU provider.
        shapes: The sizes of graph inputs, by name; those of `inputs` are known.
        ranges: The least and the greatest element of graph inputs, by name.

    Raises:
        OnnxGatherError: The model, an input, a size or a range is not as it must be.
        ProviderError: There are inputs, but no CPU provider.
    """
    return examine(model, inputs, shapes, ranges).audit


def examine(
    model: str | os.PathLike[str] | ModelProto,
    inputs: Mapping[str, Array] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
) -> Examined:
    """An audit with what it was made from; the arguments and errors are those of `audit`."""
    plain = read_network(model)
    inputs = checked(plain, inputs) if inputs is not None else None
    given = {**(shapes or {}), **{name: array.shape for name, array in (inputs or {}).items()}}
    _check_ranges(plain, ranges or {})
    stages = [_stage(plain, ranges, "file")]
    network, captured = plain, Captured()
    if given:
        network = read_network(plain, given)
        stages.append(_stage(network, ranges, "given"))
    if not inputs and not all(gather.is_settled for gather in stages[-1].values()):
        types, constants = level_1(network, TIMEOUT)
        _learn(network.main, types)
        for name in network.main.types.keys() & constants.keys():
            network.main.stored.setdefault(name, constants[name])
        stages.append(_stage(network, ranges, "level-1"))
    if inputs:
        captured = capture(network, inputs, TIMEOUT)
        for graph in network.graphs():
            _learn(graph, _sizes_seen(graph, captured))
        stages.append(_stage(network, ranges, "run", captured))
    gathers = {key: _first_settled([stage[key] for stage in stages]) for key in stages[0]}
    return Examined(network, gathers, captured, [*_notes(network, captured, gathers.values())])


def nodes_of(network: Network) -> Iterator[tuple[Key, Scope, Operation]]:
    """Yield every node of a network as they run, those of a function once per call."""

    def walk(graph: Scope, way: Key) -> Iterator[tuple[Key, Scope, Operation]]:
        for k, node in enumerate(graph.nodes):
            yield (*way, k), graph, node
            for name, body in node.graphs.items():
                yield from walk(body, (body.place,) if name == "function" else (*way, k, name))

    for graph in (network.main, *network.uncalled):
        yield from walk(graph, (graph.place,))


def _first_settled(stages: Sequence[AuditedGather]) -> AuditedGather:
    """A gather with the sizes of the first stage that knows all, and the first decided range."""
    chosen = next((gather for gather in stages if gather.is_settled), stages[-1])
    decided = (gather.range for gather in stages if gather.range.state != "not-proved")
    return msgspec.structs.replace(chosen, range=next(decided, chosen.range))


def _check_ranges(network: Network, ranges: Mapping[str, tuple[int, int]]) -> None:
    for name, ends in ranges.items():
        check_input(network.path, network.main.inputs, name, "a range")
        if ends[0] > ends[1]:
            rule = f"{network.path}: the range of {shown(name)} must be from a low to a high number"
            raise OnnxGatherError(f"{rule}, got {ends[0]}:{ends[1]}")


def _stage(
    network: Network,
    given: Mapping[str, tuple[int, int]] | None,
    source: SizesFrom,
    captured: Captured | None = None,
) -> dict[Key, AuditedGather]:
    """Every gather of a network, that of a function once."""
    ranges, on_cpu = ranges_of(network, dict(given or {})), shape_computations(network)
    names = Counter({key: node.name for key, _, node in nodes_of(network)}.values())
    found = dict[Key, AuditedGather]()
    for key, graph, node in nodes_of(network):
        if not node.is_gather:
            continue
        where = f"{network.path}: node {shown(node.label)}"
        try:
            proof = proof_of(ranges, graph, node)
        except (IndexError, TypeError, ValueError):
            raise OnnxGatherError(f"{where} must be one that ONNX allows") from None
        name = node.name if names[node.name] == 1 else node.outputs[0]
        seen = captured.gathers.get(node, []) if captured else []
        one = _Seen(graph, node, proof, source, seen)
        gather = one.gather(name or node.outputs[0], node in on_cpu)
        found[key] = _joined(found[key], gather, graph.place) if key in found else gather
    return found


class _Seen(NamedTuple):
    """A gather in one call, and what is known of it."""

    graph: Scope
    node: Operation
    proof: Proof
    source: SizesFrom
    seen: Sequence[Gathered]
    """What its executions had."""

    def gather(self, name: str, on_cpu: bool) -> AuditedGather:
        """The record of the gather, with what it is called, and whether it computes shapes."""
        node, graph = self.node, self.graph
        data, indices, output = (
            _tensor(graph.type_of(name)) for name in (*node.inputs, *node.outputs)
        )
        constant = graph.is_constant(node.inputs[1])
        known = all(each.type and each.is_static for each in (data, indices))
        empty = known and 0 in (*(data.sizes or ()), *(indices.sizes or ()))
        descriptor, refused = None, None
        if known and not empty:
            pairs: Any = [(each.type, each.sizes) for each in (data, indices)]
            try:
                number = {ATTRIBUTES[node.operator]: node.number}
                descriptor = from_onnx(node.operator, *pairs, **number)
            except DescriptorError as error:
                refused = str(error)
        return AuditedGather(
            name,
            node.outputs[0],
            graph.where,
            node.operator,
            on_cpu,
            data,
            indices,
            output,
            constant,
            to_dict(descriptor) if descriptor else None,
            refused,
            minimum_feature_level(descriptor) if descriptor else None,
            self._range(EMPTY if empty else self.proof.why),
        )

    def _range(self, why: str) -> IndexRange:
        state, low, high, size, _, stop = self.proof
        found = constant = None
        if state == "out-of-range":
            constant = self.graph.constant(self.node.inputs[1])
        if constant is not None:
            found = self._found("constant", constant, size)
        elif state == "not-proved":
            each = (self._found("inputs", one.indices, self._axes(one.data)) for one in self.seen)
            found = next(filter(None, each), None)
        state = "out-of-range" if found else state
        stop = stop if state == "not-proved" else None
        return IndexRange(state, low, high, size, why, self.source, stop, found)

    def _axes(self, data: Array | None) -> tuple[int | None, ...]:
        """The sizes of the dimensions of the data that are indexed."""
        if data is None:
            return self.proof.sizes
        return tuple(data.shape[self.node.number + k] for k in range(len(self.proof.sizes)))

    def _found(
        self, source: Literal["constant", "inputs"], indices: Array, size: Sequence[int | None]
    ) -> Found | None:
        """The first index out of range; None where all are in range, or an axis is not known."""
        if None in size or indices.dtype.kind not in "iu":
            return None
        mask = outside(indices, np.array(size)).reshape(indices.shape)
        if not mask.any():
            return None
        first = np.unravel_index(np.argmax(mask), mask.shape)
        at, value = tuple(map(int, first)), int(indices[first])
        return Found(source, at, value, int(mask.sum()), out_of_range(self.node.operator))


def out_of_range(op: str) -> dict[str, str]:
    """What each provider makes of an index out of range of an ONNX operator."""
    told = {"cpu": "The node fails.", "webnn": "The index is clamped to its own axis."}
    directml = {name for name, row in TABLE.items() if row.onnx == op}
    short = {provider.name: name for name, provider in PROVIDERS.items()}
    for known in known_differences():
        for case in known.cases:
            about = case.operator is None or not directml.isdisjoint(case.operator)
            if case.in_range is False and case.out_of_range == ("error",) and about:
                told.setdefault(short[known.provider], known.reason)
    return dict(sorted(told.items()))


def _tensor(known: ValueType) -> Tensor:
    name = known.data_type
    return Tensor(DIRECTML_NAMES.get(name, name) or None, known.sizes)


def _joined(one: AuditedGather, other: AuditedGather, place: str) -> AuditedGather:
    """A gather of a function, from its records in two calls."""
    names = ("data", "indices", "output", "descriptor", "feature_level")
    pair = (one.range, other.range)
    return msgspec.structs.replace(
        one,
        place=place,
        shape_computation=one.shape_computation and other.shape_computation,
        constant_indices=one.constant_indices and other.constant_indices,
        refused=one.refused or other.refused,
        range=msgspec.structs.replace(
            max(pair, key=lambda each: _STATES.index(each.state)),
            low=_hull(one.range.low, other.range.low, min),
            high=_hull(one.range.high, other.range.high, max),
            size=_same(one.range.size, other.range.size),
        ),
        **{name: _same(getattr(one, name), getattr(other, name)) for name in names},
    )


_STATES = ("proved", "not-proved", "out-of-range")
"""From the best to the worst."""


def _same(one: Any, other: Any) -> Any:
    """What holds of both; None for what does not."""
    if isinstance(one, Tensor):
        return Tensor(_same(one.type, other.type), _same(one.sizes, other.sizes))
    if one != other and other is not None and isinstance(one, tuple):
        sizes = cast("tuple[Any, ...]", one)
        return tuple(map(_same, sizes, other)) if len(sizes) == len(other) else None
    return one if one == other else None


def _hull(one: Any, other: Any, choose: Any) -> tuple[int | None, ...] | None:
    """The ends of the intervals that hold those of both; a call may have no index at all."""
    if one is None or other is None:
        return other if one is None else one
    return tuple(None if None in pair else choose(pair) for pair in zip_longest(one, other))


def _learn(graph: Scope, types: Mapping[str, ValueType]) -> None:
    """Give the values of a graph the sizes that are known of them by other means."""
    for name in graph.types.keys() & types.keys():
        graph.types[name] = graph.types[name].refined(types[name])


def _sizes_seen(graph: Scope, captured: Captured) -> dict[str, ValueType]:
    """The types and sizes of what the gathers of a graph had, the same in all executions."""
    types = dict[str, ValueType]()
    for node in graph.nodes:
        for arrays in captured.gathers.get(node, ()):
            for name, array in zip((*node.inputs, *node.outputs), arrays, strict=True):
                if array is not None:
                    seen = ValueType(type_name(array), array.shape)
                    types[name] = seen.common(types.get(name, seen))
    return types


def _notes(
    network: Network, captured: Captured, gathers: Collection[AuditedGather]
) -> Iterator[str]:
    """Yield what the run left out, and what would take the audit further."""
    if captured.stop:
        yield f"the run with the given inputs ends early: {captured.stop}"
    for where in sorted(captured.cut):
        yield f"the {where} has more iterations than the first {MOST_ITERATIONS}, which are seen"
    unknown = sum(not (g.data.is_static and g.indices.is_static) for g in gathers)
    if unknown:
        names = [n for n in network.main.inputs if not network.main.type_of(n).is_static]
        what = f"the shapes of {listed(names, MOST_LISTED)}, or inputs," if names else "inputs"
        yield f"{what} would tell the sizes of {number_of(unknown, 'gather')}"
    open_at = Counter(g.range.input for g in gathers if g.range.state == "not-proved")
    for name in network.main.inputs:
        if open_at[name]:
            yield f"a range of {name} may prove {number_of(open_at[name], 'gather')}"
