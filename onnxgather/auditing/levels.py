"""The graphs that ONNX Runtime makes of a model, one for each level of optimization.

ONNX Runtime does not run the graph of the file: it folds constants, leaves nodes out,
and puts other nodes in their place. A gather is proved only if it is proved in the file
and in each of these graphs.
"""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from onnxgather.auditing.algebra.bounds import INTEGERS
from onnxgather.auditing.graph_audit import (
    AuditedGraph,
    OperationKey,
    audit_graph,
    badness,
    calls_of,
    ends_of_all,
    operations_of,
)
from onnxgather.auditing.operators.index_operators import (
    given_indices,
    inputs_of,
    operator_of,
)
from onnxgather.auditing.proof.contract import Condition, Contract, tightened
from onnxgather.auditing.proof.ranges import IndexRange
from onnxgather.auditing.records import (
    AskedRuntime,
    AuditedGather,
    Runtime,
    RuntimeLevel,
)
from onnxgather.core.checks import check_type, sequence, shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError, ProviderError
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.execution.elsewhere.worker import shared_worker
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.model.network import (
    Network,
    Operation,
    Scope,
    external_paths,
    folder_of,
    read_network,
)
from onnxgather.core.model.values import ModelProto, name_of, serialized

RUNTIME_LEVELS: Mapping[str, int] = {"basic": 1, "extended": 2, "all": 99}
"""The levels of optimization, with ONNX Runtime's own numbers."""

DISABLED = 0
"""ONNX Runtime's number for no optimization."""

WRITING_TIMEOUT = 60.0
"""Seconds that ONNX Runtime may take to write the graphs of a model."""

WRITING_MEMORY = 2**32
"""The bytes of memory that ONNX Runtime may have to write the graphs of a small
model."""

COPIES = 4
"""How often ONNX Runtime may hold a model beyond that."""

LEAST_WEIGHT = 2**19
"""The least bytes of a constant that is written to a file beside the graph. Constants
of floats are read up to `ranges.WEIGHTS` elements, which have fewer bytes."""

SMALL_MODEL = 2**26
"""The large constants of a model with at most as many bytes are written to disk."""

_CPU = PROVIDERS["cpu"]


@dataclass(frozen=True, slots=True)
class Levels:
    """Which graphs of ONNX Runtime are audited."""

    names: Sequence[str] | None = None
    """The levels; None for all of them, if onnxruntime is installed."""
    pythons: Sequence[str] = ()
    """The interpreters of the environments whose ONNX Runtime is asked; none for that
    of this environment."""

    def __post_init__(self) -> None:
        for python in sequence("runtimes", self.pythons):
            check_type("runtimes", python, "a list of paths", str)
        if self.names is None:
            return
        for name in sequence("levels", self.names):
            if name not in RUNTIME_LEVELS:
                rule = f"levels must be some of {', '.join(RUNTIME_LEVELS)}"
                raise OnnxGatherError(f"{rule}, got {shown(name)}")

    @property
    def is_required(self) -> bool:
        """Return whether ONNX Runtime must be there."""
        return bool(self.names or self.pythons)


@dataclass(frozen=True, slots=True)
class RuntimeGraph:
    """A graph that ONNX Runtime makes of a model."""

    version: str
    """The version of ONNX Runtime."""
    level: str
    audited: AuditedGraph


@dataclass(frozen=True, slots=True)
class AuditedLevels:
    """The audits of the graphs that ONNX Runtime makes of a model."""

    graphs: list[RuntimeGraph] = field(default_factory=list[RuntimeGraph])
    refused: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The versions and the levels that make no session of the model, or a graph that
    cannot be audited."""
    notes: list[str] = field(default_factory=list[str])
    """Why a graph was not audited, a sentence each."""

    @property
    def runtimes(self) -> list[AskedRuntime]:
        """Return the versions with the levels whose graphs were audited."""
        levels_by_version: dict[str, list[str]] = {}
        for graph in self.graphs:
            levels_by_version.setdefault(graph.version, []).append(graph.level)
        return [AskedRuntime(*item) for item in levels_by_version.items()]


class _Written(msgspec.Struct, frozen=True):
    """What a worker answers that wrote graphs."""

    version: str = ""
    refused: dict[int, str] = {}
    not_run: tuple[runtime.NotRunKind, str, Any] | None = None


class _NotAskedError(Exception):
    """ONNX Runtime wrote no graphs; the message is a sentence."""


def audit_levels(
    network: Network,
    levels: Levels,
    shapes: Mapping[str, Sequence[int]],
    arrays: Mapping[str, Array],
    contract: Contract,
    file: AuditedGraph,
) -> AuditedLevels:
    """Audit the graphs that ONNX Runtime makes of a model on the CPU.

    Args:
        network: The model, with the sizes of its file.
        levels: Which graphs.
        shapes: The sizes of inputs that are given, by name.
        arrays: The inputs of a run, by name; no run where there are none.
        contract: What holds of the inputs.
        file: The audit of the file.

    Raises:
        ProviderError: An environment that must be asked has no ONNX Runtime, or does
            not start.
    """
    result = AuditedLevels()
    names = list(RUNTIME_LEVELS) if levels.names is None else list(levels.names)
    if not names:
        return result
    audit_one = partial(
        audit_graph, shapes=shapes, arrays=arrays, contract=contract, file=file
    )
    for python in levels.pythons or [sys.executable]:
        with tempfile.TemporaryDirectory(prefix="onnxgather-") as folder:
            # A run needs the constants.
            keeps_weights = bool(arrays) or _needs_weights(network)
            ask = partial(
                _written,
                network,
                python,
                folder=folder,
                keeps_weights=keeps_weights,
                is_required=levels.is_required,
            )
            try:
                written = ask([RUNTIME_LEVELS[name] for name in names])
                opens = len(written.refused) < len(names)
                if not opens:
                    # A rewrite may be what makes ONNX Runtime refuse the model.
                    opens = not ask([DISABLED]).refused
            except _NotAskedError as error:
                result.notes.append(str(error))
                continue
            _audit_written(written, names, folder, audit_one, result, opens)
    return result


def _needs_weights(network: Network) -> bool:
    """Return whether an audit may read large constants of the graphs of a model.

    It reads integers. Those of a large model are few, if there are any.
    """
    if _size_of(network) <= SMALL_MODEL:
        return True
    for scope in network.scopes():
        for tensor in scope.stored.values():
            is_integer = name_of(tensor.data_type) in INTEGERS
            # An integer has up to 8 bytes.
            if is_integer and 8 * math.prod(tensor.dims) >= LEAST_WEIGHT:
                return True
    return False


def _written(
    network: Network,
    python: str,
    numbers: Sequence[int],
    folder: str,
    keeps_weights: bool,
    is_required: bool,
) -> _Written:
    """Let the ONNX Runtime of an environment write the graphs of a model to a folder.

    Raises:
        _NotAskedError: It does not write them.
        ProviderError: The same, if it must be there.
    """
    worker = shared_worker(python, WRITING_TIMEOUT)
    path = network.path if network.is_file else None
    proto = network.proto
    try:
        content = b"" if path else serialized(proto)
    except OnnxGatherError as error:
        raise _NotAskedError(f"ONNX Runtime was not asked: {error}") from None
    arguments = {
        "levels": numbers,
        "target": folder,
        "path": path and os.path.abspath(path),
        "folder": folder_of(network.path),
        "keeps_weights": keeps_weights,
        "least_weight": LEAST_WEIGHT,
        "memory": WRITING_MEMORY + COPIES * _size_of(network),
    }
    try:
        written = worker.exchange(_decoded, {"graphs": arguments}, content)
    except NoAnswerError as error:
        if is_required and error.how is Breakdown.NOT_STARTED:
            raise
        raise _NotAskedError(f"ONNX Runtime wrote no graphs: {error}") from None
    if written.not_run is not None:
        kind, detail, _ = written.not_run
        reason = _CPU.why_not_run(kind, detail)
        if is_required:
            raise ProviderError(reason)
        raise _NotAskedError(f"ONNX Runtime was not asked: {reason}")
    return written


def _decoded(header: bytes, _: bytes) -> _Written:
    return msgspec.json.decode(header, type=_Written)


def _size_of(network: Network) -> int:
    """Return the bytes of a model, with those of its external data."""
    total = network.proto.ByteSize()
    for path in external_paths(network.path, network.proto):
        # ONNX Runtime says what is wrong with a file that is not there.
        with suppress(OSError, ValueError):
            total += os.path.getsize(path)
    return total


def _audit_written(
    written: _Written,
    names: Sequence[str],
    folder: str,
    audit_one: Callable[[Network], AuditedGraph],
    result: AuditedLevels,
    opens: bool,
) -> None:
    """Audit the graphs in a folder, and add them to a result.

    Args:
        written: What the worker wrote.
        names: The levels.
        folder: The folder.
        audit_one: It audits a graph.
        result: The result.
        opens: Whether ONNX Runtime opens the model at any level, or without
            optimizations. If it does not, no level counts as refused.
    """
    audited_by_content: dict[bytes, AuditedGraph] = {}
    failed: dict[str, list[str]] = {}
    for name in names:
        number = RUNTIME_LEVELS[name]
        if number in written.refused:
            sentence = f"does not open the model: {written.refused[number]}"
            failed.setdefault(sentence, []).append(name)
            continue
        path = os.path.join(folder, f"{number}.onnx")
        content = Path(path).read_bytes()
        # Two levels often lead to the same graph.
        if content not in audited_by_content:
            try:
                model = ModelProto.FromString(content)
                network = read_network(model, place=path)
                audited_by_content[content] = audit_one(network)
            except OnnxGatherError as error:
                reason = str(error).replace(path, "the graph")
                sentence = f"runs a graph that cannot be audited: {reason}"
                failed.setdefault(sentence, []).append(name)
                continue
        graph = RuntimeGraph(written.version, name, audited_by_content[content])
        result.graphs.append(graph)
    for sentence, failed_names in failed.items():
        if opens:
            result.refused.extend((written.version, name) for name in failed_names)
        where = f"ONNX Runtime {written.version}"
        # Where all levels are alike, none is named.
        if len(failed_names) < len(names):
            where = f"{where} at level {', '.join(failed_names)}"
        result.notes.append(f"{where} {sentence}")


def with_levels(file: AuditedGraph, levels: AuditedLevels) -> AuditedGraph:
    """Return the audit of a file, in which each state is the worst of all graphs.

    Args:
        file: The audit of the graph of the file.
        levels: The audits of the other graphs. A note is added for each of their
            gathers that is not proved and that the file does not have.
    """
    if not levels.graphs and not levels.refused:
        return file
    names_by_key = _names_in_graphs(file.network)
    rows_by_key: dict[OperationKey, list[tuple[RuntimeLevel, IndexRange]]] = {}
    for graph in levels.graphs:
        matcher = _Matcher(graph, file, names_by_key)
        for key, gather in file.gathers.items():
            rows_by_key.setdefault(key, []).append(matcher.row(key, gather))
        levels.notes.extend(matcher.notes)
    # If one level opens the model and another does not, the other one is open.
    for key, gather in file.gathers.items():
        rows_by_key.setdefault(key, []).extend(
            _refused_row(version, level, gather) for version, level in levels.refused
        )
    gathers: dict[OperationKey, AuditedGather] = {}
    versions = [graph.version for graph in levels.graphs]
    versions += [version for version, _ in levels.refused]
    for key, gather in file.gathers.items():
        rows = [row for row, _ in rows_by_key[key]]
        index_range = _worst(gather.range, rows_by_key[key])
        runtime_record = Runtime(versions[0], rows)
        gathers[key] = replace(gather, range=index_range, runtime=runtime_record)
    return dataclasses.replace(file, gathers=gathers)


def _refused_row(
    version: str, level: str, gather: AuditedGather
) -> tuple[RuntimeLevel, IndexRange]:
    """Return the row of a level that does not open the model, or has no audit."""
    index_range = gather.range
    if index_range.state in ("proved", "proved-if"):
        stop = f"ONNX Runtime {version}, whose level {level} was not audited"
        index_range = replace(
            index_range, state="not-proved", conditions=(), input=stop
        )
    return RuntimeLevel(level, index_range.state, None, version), index_range


def _worst(
    own: IndexRange, others: Iterable[tuple[RuntimeLevel, IndexRange]]
) -> IndexRange:
    """Return the worst of the range in the file and those in other graphs.

    It has the conditions of all of them, and the least and the greatest index of all.
    """
    worst = own
    ranges = [own]
    conditions: list[Condition] = [*own.conditions]
    for row, index_range in others:
        ranges.append(index_range)
        conditions += index_range.conditions
        if badness(index_range) > badness(worst):
            worst = replace(index_range, level=row.level, seen=own.seen)
    if worst is not own:
        worst = replace(
            worst,
            low=ends_of_all(min, [index_range.low for index_range in ranges]),
            high=ends_of_all(max, [index_range.high for index_range in ranges]),
        )
    if worst.state != "proved-if":
        return worst
    try:
        return replace(worst, conditions=tightened(conditions))
    except OnnxGatherError:  # no inputs meet the conditions of all graphs
        return replace(worst, state="not-proved", conditions=())


@dataclass(frozen=True, slots=True)
class _Names:
    """The names that the values of a gather may have in another graph.

    ONNX Runtime puts the body of a function or of a branch in place of its node. The
    inputs and the outputs of the body then have the names of those of the node.
    """

    outputs: list[str] = field(default_factory=list[str])
    inputs: set[str] = field(default_factory=set[str])
    """Those of the data and of the indices."""


def _names_in_graphs(network: Network) -> dict[OperationKey, _Names]:
    """Return the names of the values of each gather in other graphs."""
    nodes_by_body: dict[Scope, tuple[Scope, Operation]] = {}
    for scope in network.scopes():
        for operation in scope.operations:
            for body in operation.bodies.values():
                nodes_by_body[body] = (scope, operation)
    names_by_key: dict[OperationKey, _Names] = {}
    for key, scope, operation in operations_of(network):
        if operator_of(operation) is None:
            continue
        names = names_by_key.setdefault(key, _Names())
        names.outputs.extend(
            _names_around(scope, operation.outputs[0], nodes_by_body, "outputs")
        )
        read = {*given_indices(operation)}
        for index_input in inputs_of(operation):
            read.update(operation.inputs[index_input.data : index_input.data + 1])
        for name in read:
            names.inputs.update(_names_around(scope, name, nodes_by_body, "inputs"))
    return names_by_key


def _names_around(
    scope: Scope,
    name: str,
    nodes_by_body: Mapping[Scope, tuple[Scope, Operation]],
    side: Literal["inputs", "outputs"],
) -> Iterator[str]:
    """Yield the name of a value, and its names in the graphs around its own."""
    yield name
    while scope in nodes_by_body:
        own_names: tuple[str, ...] = getattr(scope, side)
        if name not in own_names:
            return
        position = own_names.index(name)
        scope, node = nodes_by_body[scope]
        names: tuple[str, ...] = getattr(node, side)
        if position >= len(names):
            return
        name = names[position]
        yield name


_INLINED = ("_inlfunc_", "_if_")
"""The start of the names that ONNX Runtime gives to the values of a body that it puts
in place of a node."""

_CUTS = {"Slice"}
"""The operators that ONNX Runtime puts in place of a gather, and that cut positions to
the axis."""

_CUT = "an index out of range or below 0 gives other rows or none, and no error"


class _Matcher:
    """The gathers of a file in a graph that ONNX Runtime makes of it.

    Args:
        graph: The graph.
        file: The audit of the file.
        names_by_key: The names that their values may have in the graph.
    """

    def __init__(
        self,
        graph: RuntimeGraph,
        file: AuditedGraph,
        names_by_key: Mapping[OperationKey, _Names],
    ) -> None:
        self.notes: list[str] = []
        self._graph = graph
        self._network = graph.audited.network
        self._names_by_key = names_by_key
        self._producers = _producers_of(self._network)
        self._matches: dict[OperationKey, list[AuditedGather]] = {}
        """The gathers of the graph by the keys of the file."""
        records = graph.audited.gathers
        unmatched = self._match_by_name(file, records)
        self._match_the_rest(file, unmatched)

    def _match_by_name(
        self,
        file: AuditedGraph,
        records: Mapping[OperationKey, AuditedGather],
    ) -> dict[OperationKey, AuditedGather]:
        """Match gathers by the names of their outputs; return the others."""
        records_by_name: dict[str, list[OperationKey]] = {}
        for key, record in records.items():
            records_by_name.setdefault(record.output_name, []).append(key)
        unmatched = dict(records)
        for key in file.gathers:
            for name in self._names_by_key[key].outputs:
                for other_key in records_by_name.get(name, ()):
                    self._add(key, records[other_key])
                    unmatched.pop(other_key, None)
        return unmatched

    def _match_the_rest(
        self, file: AuditedGraph, unmatched: Mapping[OperationKey, AuditedGather]
    ) -> None:
        """Match the gathers whose names are new to those that are gone.

        A gather of the graph may belong to several of the file: the state of each is
        then at most as good.
        """
        gone = [key for key in file.gathers if key not in self._matches]
        calls_by_key = calls_of(self._network)
        for other_key, record in unmatched.items():
            _, operation = calls_by_key[other_key][0]
            # Case 1: it stood in a function or in a branch.
            owners = [key for key in gone if self._is_inlined(key, record)]
            # Case 2: the node is another, and reads the same values.
            if not owners:
                owners = [key for key in gone if self._reads_same(key, operation)]
            # Case 3: any gather that is gone, of the same operator if there is one.
            if not owners and record.range.state != "proved":
                owners = [key for key in gone if file.gathers[key].op == record.op]
                owners = owners or gone
            for key in owners:
                self._add(key, record)
            if not owners and record.range.state != "proved":
                where = f"ONNX Runtime {self._graph.version}"
                node = f"{record.op} {shown(record.node)}"
                self.notes.append(
                    f"{where} at level {self._graph.level} runs {node}, which the file"
                    " does not have, and which is not proved in range"
                )

    def _add(self, key: OperationKey, record: AuditedGather) -> None:
        self._matches.setdefault(key, []).append(record)

    def _is_inlined(self, key: OperationKey, record: AuditedGather) -> bool:
        """Return whether a gather of the graph has the name of one that was inlined."""
        name = record.output_name
        if not name.startswith(_INLINED):
            return False
        return any(name.endswith(f"_{own}") for own in self._names_by_key[key].outputs)

    def _reads_same(self, key: OperationKey, operation: Operation) -> bool:
        """Return whether an operation of the graph reads what a gather reads."""
        return not self._names_by_key[key].inputs.isdisjoint(operation.inputs)

    def row(
        self, key: OperationKey, gather: AuditedGather
    ) -> tuple[RuntimeLevel, IndexRange]:
        """Return what the graph has in place of a gather, and its range there."""
        version = self._graph.version
        level = self._graph.level
        matches = self._matches.get(key)
        # Case 1: the gather, or another operator with indices, is there.
        if matches:
            worst = max(matches, key=lambda record: badness(record.range))
            state = worst.range.state
            return RuntimeLevel(level, state, worst.op, version), worst.range
        # Case 2: another node computes the output.
        for name in self._names_by_key[key].outputs:
            if name in self._producers:
                scope, operation = self._producers[name]
                return self._row_of_other(scope, operation, gather)
        # Case 3: it was folded away.
        own = replace(gather.range, conditions=())
        return RuntimeLevel(level, own.state, None, version), gather.range

    def _row_of_other(
        self, scope: Scope, operation: Operation, gather: AuditedGather
    ) -> tuple[RuntimeLevel, IndexRange]:
        """Return the row of an operation that is no gather, but computes its output."""
        index_range = gather.range
        behaviour = None
        if operation.operator in _CUTS:
            behaviour = _CUT
            if not self._counts_from_start(scope, operation):
                index_range = _at_least_not_proved(index_range, operation)
        row = RuntimeLevel(
            self._graph.level,
            index_range.state,
            operation.operator,
            self._graph.version,
            behaviour,
        )
        return row, index_range

    def _counts_from_start(self, scope: Scope, operation: Operation) -> bool:
        """Return whether the starts and the ends of a Slice are surely at least 0."""
        bounds = self._graph.audited.bounds
        ends = [bounds.value(scope, name) for name in operation.inputs[1:3]]
        return all(end.whole[0] >= 0 for end in ends)


def _at_least_not_proved(index_range: IndexRange, operation: Operation) -> IndexRange:
    """Return the range of a gather of which other rows may be returned."""
    if index_range.state not in ("proved", "proved-if"):
        return index_range
    stop = f"{operation.operator} {operation.label}"
    return replace(index_range, state="not-proved", conditions=(), input=stop)


def _producers_of(network: Network) -> dict[str, tuple[Scope, Operation]]:
    """Return the operations of a network by their first outputs."""
    producers: dict[str, tuple[Scope, Operation]] = {}
    for _, scope, operation in operations_of(network):
        for name in operation.outputs[:1]:
            producers.setdefault(name, (scope, operation))
    return producers
