"""What stands for each gather of a file in another graph of the model.

`core/model/quirks.py` says how a gather changes there. Where it is not sure which node
stands for a gather, each node counts that may.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec.structs import replace

from onnxgather.auditing.graph_audit import (
    AuditedGraph,
    OperationKey,
    badness,
    joined_ranges,
    operations_of,
)
from onnxgather.auditing.operators.index_operators import (
    INDEX_OPERATORS,
    given_indices,
    inputs_of,
    operator_of,
)
from onnxgather.auditing.proof.index_range import IndexRange
from onnxgather.core.model.network import Network, Operation, Scope

_INLINED = ("_inlfunc_", "_if_")
"""The start of the names that `quirks.INLINED_BODIES` gives to values."""

_FUNCTIONS = {row.operator for row in INDEX_OPERATORS.values() if row.is_function}
"""The operators in whose place ONNX Runtime puts a body of ONNX."""

_CUT = "an index out of range or below 0 gives other rows or none, and no error"
"""What a Slice does in place of a gather."""

_PROVED = ("proved", "proved-if")

_Side = Literal["inputs", "outputs"]


@dataclass(frozen=True, slots=True)
class Match:
    """What stands for a gather in a graph."""

    range: IndexRange
    """The range of its indices there."""
    operator: str | None
    """None if no node stands for it: it was folded away."""
    out_of_range: str | None = None
    """What the node does with an index out of range, if it is no gather."""


@dataclass(frozen=True, slots=True)
class _Names:
    """The names that the values of a gather may have in another graph.

    The inputs and the outputs of a body have the names of those of its node after
    `quirks.INLINED_BODIES`.
    """

    outputs: set[str] = field(default_factory=set[str])
    inputs: set[str] = field(default_factory=set[str])
    """Those of the data and of the indices."""


class FileNames:
    """The names of a file, to find its gathers in another graph.

    Args:
        network: The file.
    """

    def __init__(self, network: Network) -> None:
        self.by_key: dict[OperationKey, _Names] = {}
        """The names of each gather."""
        self.owners: dict[str, set[OperationKey]] = {}
        """The gathers by the names that their outputs may have."""
        self.producers: dict[str, set[OperationKey]] = {}
        """All operations by the names of their outputs."""
        self.operators: dict[str, set[str]] = {}
        """The operators by the names of their outputs."""
        self._nodes_by_body: dict[Scope, tuple[Scope, Operation]] = {}
        for scope in network.scopes():
            for operation in scope.operations:
                for body in operation.bodies.values():
                    self._nodes_by_body[body] = (scope, operation)
        for key, scope, operation in operations_of(network):
            for name in operation.outputs:
                self.producers.setdefault(name, set()).add(key)
                self.operators.setdefault(name, set()).add(operation.operator)
            if operator_of(operation) is not None:
                self._add(key, scope, operation)

    def _add(self, key: OperationKey, scope: Scope, operation: Operation) -> None:
        """Add the names of a gather."""
        names = self.by_key.setdefault(key, _Names())
        names.outputs.update(self._around(scope, operation.outputs[0], "outputs"))
        for name in names.outputs:
            self.owners.setdefault(name, set()).add(key)
        read = {*given_indices(operation)}
        for index_input in inputs_of(operation):
            read.update(operation.inputs[index_input.data : index_input.data + 1])
        for name in read:
            names.inputs.update(self._around(scope, name, "inputs"))

    def _around(self, scope: Scope, name: str, side: _Side) -> Iterator[str]:
        """Yield the name of a value, and its names in the graphs around its own."""
        yield name
        while scope in self._nodes_by_body:
            own_names: tuple[str, ...] = getattr(scope, side)
            if name not in own_names:
                return
            position = own_names.index(name)
            scope, node = self._nodes_by_body[scope]
            names: tuple[str, ...] = getattr(node, side)
            if position >= len(names):
                return
            name = names[position]
            yield name

    def owners_inlined(self, name: str) -> set[OperationKey]:
        """Return the gathers that a name of an inlined value may be of."""
        owners: set[OperationKey] = set()
        if name.startswith(_INLINED):
            for own, keys in self.owners.items():
                if name.endswith(f"_{own}"):
                    owners |= keys
        return owners

    def has(self, operator: str, name: str) -> bool:
        """Return whether the file has an operator with such an output."""
        if operator in self.operators.get(name, ()):
            return True
        if not name.startswith(_INLINED):
            return False
        return any(
            name.endswith(f"_{own}") and operator in operators
            for own, operators in self.operators.items()
        )


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A node of a graph that may stand for a gather."""

    range: IndexRange
    operation: Operation
    out_of_range: str | None = None


class Matches:
    """What stands for each gather of a file in another graph.

    Args:
        file: The audit of the file.
        names: The names of the file.
        graph: The audit of the graph.
    """

    def __init__(
        self, file: AuditedGraph, names: FileNames, graph: AuditedGraph
    ) -> None:
        self._file = file
        self._names = names
        self._graph = graph
        self._calls = file.calls
        self._matched: dict[OperationKey, list[_Candidate]] = {}
        self._certain: set[OperationKey] = set()
        """The gathers of which it is sure what stands for them."""
        unmatched = [*self._match_by_name(), *self._new_nodes()]
        gone = [key for key in file.gathers if key not in self._matched]
        self._match_merged(gone)
        self.new: list[Operation] = []
        """The operators with indices that are not proved and that no gather of the
        file can be."""
        for candidate in unmatched:
            owners = self._owners(candidate)
            for key in owners:
                self._matched.setdefault(key, []).append(candidate)
            is_gather = operator_of(candidate.operation) is not None
            if not owners and is_gather and candidate.range.state != "proved":
                self.new.append(candidate.operation)

    def of(self, key: OperationKey) -> Match:
        """Return what stands for a gather of the file."""
        candidates = self._matched.get(key)
        if not candidates:
            own = self._file.gathers[key].range
            return Match(own, None)
        worst = max(candidates, key=_badness)
        index_range = joined_ranges([candidate.range for candidate in candidates])
        index_range = replace(index_range, size=worst.range.size)
        return Match(index_range, worst.operation.operator, worst.out_of_range)

    def _match_by_name(self) -> Iterator[_Candidate]:
        """Match gathers by the names of their outputs; yield the others."""
        for key, record in self._graph.gathers.items():
            _, operation = self._graph.calls[key][0]
            candidate = _Candidate(record.range, operation)
            name = record.output_name
            owners = self._names.owners.get(name, ())
            if not owners:
                yield candidate
            self._match(name, owners, candidate)

    def _match(
        self, name: str, owners: Iterable[OperationKey], candidate: _Candidate
    ) -> None:
        """Match a node with the gathers that have the name of its output."""
        # Another operation of the file may have such an output, in another graph.
        is_certain = len(self._names.producers.get(name, ())) == 1
        for owner in owners:
            self._matched.setdefault(owner, []).append(candidate)
            # The last node of a body is not the one that reads the indices.
            if is_certain and self._file.gathers[owner].op not in _FUNCTIONS:
                self._certain.add(owner)

    def _new_nodes(self) -> Iterator[_Candidate]:
        """Match nodes that stand for gathers and are none; yield those without name."""
        for _, scope, operation in operations_of(self._graph.network):
            if operator_of(operation) is not None or not operation.outputs:
                continue
            name = operation.outputs[0]
            if self._names.has(operation.operator, name):
                continue
            owners = self._names.owners.get(name, set())
            # A node with bodies may have the names of what is inside.
            if owners and not operation.bodies:
                for owner in owners:
                    candidate = self._instead(scope, operation, owner)
                    self._match(name, [owner], candidate)
            elif not owners and self._may_cut(scope, operation):
                index_range = _open_range(operation)
                yield _Candidate(index_range, operation, _cut_by(operation))

    def _instead(
        self, scope: Scope, operation: Operation, key: OperationKey
    ) -> _Candidate:
        """Return the candidate of a node that computes the output of a gather."""
        own = self._file.gathers[key].range
        # The nodes of a body that read the indices are candidates themselves.
        is_body = self._file.gathers[key].op in _FUNCTIONS
        if is_body:
            return _Candidate(own, operation)
        operation = self._behind(scope, operation)
        # Case 1: a gather whose output is transposed.
        records = [
            record
            for record in self._graph.gathers.values()
            if record.output_name == operation.outputs[0]
        ]
        if len(records) == 1 and operation.operator == self._file.gathers[key].op:
            return _Candidate(records[0].range, operation)
        # Case 2: another node.
        if own.state in _PROVED and not self._is_safe(scope, operation, key):
            own = _open_range(operation)
        return _Candidate(own, operation, _cut_by(operation))

    def _behind(self, scope: Scope, operation: Operation) -> Operation:
        """Return the node whose output Transposes turn, which may be the node itself.

        See `quirks.MOVED_TRANSPOSE`.
        """
        behind = operation
        while behind.operator == "Transpose":
            producer = self._graph.bounds.producer(scope, behind.inputs[0])
            if producer is None:
                return operation
            behind = producer
        return behind

    def _is_safe(self, scope: Scope, operation: Operation, key: OperationKey) -> bool:
        """Return whether a node surely does what a gather in its place would do.

        The indices of the gather are in range of the axis that it has in the file.
        """
        # Case 1: the positions of a Range.
        if operation.operator == "Slice":
            # Its data may have another name, if two constants are the same.
            has_same_axis = self._has_same_axis(scope, key)
            has_same_sizes = self._has_same_sizes(scope, operation, key)
            return (has_same_axis or has_same_sizes) and self._counts_from_start(
                scope, operation
            )
        # Case 2: a part of a Split, whose parts are all positions of the axis.
        name = next(iter(operation.inputs), "")
        producer = self._graph.bounds.producer(scope, name)
        if producer is not None and producer.operator == "Split":
            return self._splits_all(scope, producer)
        # Case 3: any other node.
        return self._has_same_axis(scope, key)

    def _has_same_axis(self, scope: Scope, key: OperationKey) -> bool:
        """Return whether the axis of a gather has the same size in the graph."""
        own_scope, gather = self._calls[key][0]
        (index_input, *_) = inputs_of(gather)
        name = gather.inputs[index_input.data]
        if scope.owner(name) is None:
            return False
        own = self._file.bounds.value(own_scope, name).sizes
        other = self._graph.bounds.value(scope, name).sizes
        if own is None or other is None or len(own) != len(other):
            return False
        # ONNX Runtime puts other nodes in place of a Gather alone.
        axis = index_input.axis_of(gather)
        if gather.operator != "Gather" or not -len(own) <= axis < len(own):
            return False
        return own[axis] is not None and own[axis] == other[axis]

    def _has_same_sizes(
        self, scope: Scope, operation: Operation, key: OperationKey
    ) -> bool:
        """Return whether the data of a node has the sizes of the data of a gather."""
        own_scope, gather = self._calls[key][0]
        (index_input, *_) = inputs_of(gather)
        name = gather.inputs[index_input.data]
        own = self._file.bounds.value(own_scope, name).sizes
        other = self._graph.bounds.value(scope, operation.inputs[0]).sizes
        return gather.operator == "Gather" and own is not None and own == other

    def _counts_from_start(self, scope: Scope, operation: Operation) -> bool:
        """Return whether the starts and the ends of a Slice are surely at least 0."""
        bounds = self._graph.bounds
        ends = [bounds.value(scope, name) for name in operation.inputs[1:3]]
        return all(end.whole[0] >= 0 for end in ends)

    def _may_cut(self, scope: Scope, operation: Operation) -> bool:
        """Return whether a new node may leave out positions, or fail at them."""
        if operation.operator == "Split":
            return not self._splits_all(scope, operation)
        if operation.operator != "Slice":
            return False
        # It may be a `quirks.GATHER_OF_RANGE`, whose ends are those of the Range.
        if len(operation.inputs) < 4 or not self._counts_from_start(scope, operation):
            return len(operation.inputs) >= 3
        bounds = self._graph.bounds
        data, _, ends, axes = [
            bounds.value(scope, name) for name in operation.inputs[:4]
        ]
        axis = axes.known
        if data.sizes is None or axis is None or axis.size != 1:
            return True
        size = data.sizes[int(axis.ravel()[0])]
        return size is None or not ends.whole[1] <= size

    def _splits_all(self, scope: Scope, operation: Operation) -> bool:
        """Return whether a Split has as many positions as its axis."""
        bounds = self._graph.bounds
        data = bounds.value(scope, operation.inputs[0])
        axis = int(operation.attributes.get("axis", 0))
        if data.sizes is None or not -len(data.sizes) <= axis < len(data.sizes):
            return False
        # Without sizes of the parts, they are those of `quirks.GATHERS_TO_SPLIT`.
        total = len(operation.outputs)
        if len(operation.inputs) > 1:
            parts = bounds.value(scope, operation.inputs[1]).known
            if parts is None:
                return False
            total = int(parts.sum())
        return data.sizes[axis] == total

    def _match_merged(self, gone: Iterable[OperationKey]) -> None:
        """Match gathers that are gone with those that are worse than in the file.

        See `quirks.MERGED_NODES`.
        """
        worse: list[_Candidate] = []
        for key, candidates in self._matched.items():
            own = badness(self._file.gathers[key].range)
            worse += [
                candidate for candidate in candidates if _badness(candidate) > own
            ]
        for key in gone:
            operator = self._file.gathers[key].op
            for candidate in worse:
                if candidate.operation.operator == operator:
                    self._matched.setdefault(key, []).append(candidate)

    def _owners(self, candidate: _Candidate) -> Sequence[OperationKey]:
        """Return the gathers of the file that a node without their names may be."""
        name = candidate.operation.outputs[0]
        gathers = self._file.gathers
        # Case 1: it stands in the body of an operator that is a function of ONNX.
        if any(name.startswith(f"{_INLINED[0]}{operator}") for operator in _FUNCTIONS):
            functions = [key for key in gathers if gathers[key].op in _FUNCTIONS]
            if functions:
                return functions
        inlined = [key for key in self._names.owners_inlined(name) if key in gathers]
        state = candidate.range.state
        # Case 2: it stood in a function or in a branch, and was as bad there.
        is_explained = any(
            badness(gathers[key].range) >= _badness(candidate) for key in inlined
        )
        if inlined and (is_explained or state == "proved"):
            return inlined
        uncertain = [key for key in gathers if key not in self._certain]
        # Case 3: the node is another, and reads the same values.
        inputs = candidate.operation.inputs
        reading = [
            key
            for key in uncertain
            if not self._names.by_key[key].inputs.isdisjoint(inputs)
        ]
        if state in _PROVED:
            return inlined or reading
        # Case 4: it may be any of them, as a proof must not be lost here.
        return [*{*inlined, *uncertain}]


def _badness(candidate: _Candidate) -> int:
    return badness(candidate.range)


def _cut_by(operation: Operation) -> str | None:
    """Return what a Slice does with an index out of range; None for other nodes."""
    return _CUT if operation.operator == "Slice" else None


def _open_range(operation: Operation) -> IndexRange:
    """Return the range of a node that may leave out positions."""
    stop = f"{operation.operator} {operation.label}"
    return IndexRange("not-proved", None, None, None, "", input=stop)
