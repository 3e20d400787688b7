"""The inputs and output of each gather in a run, in bodies too; and what each met.

A graph runs with its inner values as outputs. Then each body runs by itself, with the
values that its node had; the body of a loop runs once per iteration.

On onnxgather's provider the first run is that of the whole model, and counts what each
gather meets in it. If an index is out of range there, the model runs under clamp.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import count
from typing import Any, NamedTuple

import msgspec
import numpy as np
import onnx
from msgspec import Struct
from msgspec.structs import replace
from onnx import helper

from onnxgather.auditing.operators.index_operators import given_indices, operator_of
from onnxgather.auditing.proof.index_range import Met, met_of
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import ProviderError
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.execution.elsewhere.worker import Worker
from onnxgather.core.execution.gather_provider import GatherCounts
from onnxgather.core.execution.kernels import operators_library, why_not
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.model.network import (
    MAIN,
    Network,
    Operation,
    Scope,
    folder_of,
    taken,
    uses,
)
from onnxgather.core.model.protos import bodies_of, key_of
from onnxgather.core.model.values import serialized

MOST_ITERATIONS = 256
"""The most iterations of the body of a loop or a scan that run by themselves."""

_MARK = re.compile(r"#(\d+)#")
"""What stands in the name of a gather that runs: its number. ONNX Runtime puts the name
of a function before that of a node in it."""

_CPU = PROVIDERS["cpu"]
_GATHERS = PROVIDERS["onnxgather"]

_NO_CRASH = (Breakdown.NOT_STARTED, Breakdown.LATE, Breakdown.EXITED)
"""How a worker breaks down without a fault of the node that it runs."""


class Gathered(NamedTuple):
    """The inputs and the output of an execution of an operation with indices."""

    inputs: tuple[Any, ...]
    """Arrays; None for an input that is left out, and for a constant of the model that
    holds no indices, which may be large."""
    output: Array | None
    """The first output; None if the operation fails."""


class Captured(Struct, eq=False):
    """The executions of the operations that carry indices in a run."""

    gathers: dict[Operation, list[Gathered]] = {}
    """The executions of each operation."""
    counts: dict[Operation, Met] = {}
    """What each gather met in the whole run, that of a function in all its calls under
    the first one. Gathers that stay on the CPU provider are not there."""
    first_outside: str | None = None
    """Where the run of the untouched model ends by an index out of range that the
    provider counts, and which; None if it does not."""
    added: list[GatherCounts] = []
    """What gathers met that ONNX Runtime makes of other operators."""
    no_provider: str | None = None
    """Why the run was on the CPU provider alone, where a gather fails that meets an
    index out of range; None if it was not."""
    stop: str | None = None
    """Where the run fails, and how; None if it does not fail."""
    cut: set[str] = set()
    """The bodies of loops and scans of which not all iterations run by themselves."""


class _Answered(Struct):
    not_run: tuple[runtime.NotRunKind, str, Any] | None = None
    refused: str | None = None
    outputs: tuple[str | tuple[tuple[str, tuple[int, ...], int] | None, ...], ...] = ()
    rows: list[GatherCounts] = []


class _UnknownError(Exception):
    """A value was not seen, as it is no tensor of numbers or comes after a failure."""


def capture(
    network: Network, inputs: Mapping[str, Array], timeout: float, clamp: bool = False
) -> Captured:
    """Run a model and keep the executions of the operations that carry indices.

    Args:
        network: The model.
        inputs: The arrays of its graph inputs, by name.
        timeout: Seconds that a run may take.
        clamp: Whether the run goes on under clamp behind an index out of range, where
            onnxgather's provider is there.

    Raises:
        ProviderError: There is no CPU provider, it cannot start, or the run takes too
            long.
    """
    with closing(Worker(sys.executable, timeout)) as worker:
        worker.about()  # else a worker that cannot start reads as a node that fails
        run = _Run(network, worker)
        if clamp:
            run.use_gathers()
        run.values_of(network.main, dict(inputs))
    return run.captured


def _read(header: bytes, blobs: bytes) -> tuple[_Answered, bytes]:
    return msgspec.json.decode(header, type=_Answered), blobs


class _Run:
    """A run of a model, scope by scope."""

    def __init__(self, network: Network, worker: Worker) -> None:
        folder = folder_of(network.path)
        self._network = network
        self._worker = worker
        self._on_cpu = {"provider": _CPU.name, "level": 0, "folder": folder}
        self._session: dict[str, object] = self._on_cpu
        self._policy = ""
        """What onnxgather's provider does with an index out of range; "" without it."""
        self._first: Operation | None = None
        """The gather at which the untouched model stops, by an index out of range."""
        self.captured = Captured()
        self._iterations: Counter[str] = Counter()
        """How often the body of a loop or a scan ran by itself, by its place."""

    def use_gathers(self) -> None:
        """Run the model on onnxgather's provider, if its library is there."""
        library = operators_library()
        if library is None:
            self.captured.no_provider = f"the native kernels are missing: {why_not()}"
            return
        on_gathers = {"provider": _GATHERS.name, "library": library, "cpu_too": True}
        self._session = self._on_cpu | on_gathers
        self._policy = "error"

    def values_of(self, scope: Scope, fed: dict[str, Array]) -> dict[str, Array]:
        """Return the values that gathers and bodies of a scope use, and its outputs."""
        given = fed.keys() | scope.stored.keys() | {*scope.inputs}
        computed = scope.types.keys() - given
        wanted = [name for name in _values_to_see(scope) if name in computed]
        values = fed | self._computed(scope, wanted, fed)
        for operation in scope.operations:
            try:
                if operator_of(operation):
                    self._keep(scope, operation, values)
                elif operation.bodies:
                    self._run_bodies(scope, operation, values)
            except _UnknownError:
                continue
        return values

    def _keep(
        self, scope: Scope, operation: Operation, values: Mapping[str, Array]
    ) -> None:
        """Keep an execution of an operation whose inputs are known."""
        index_names = given_indices(operation)
        inputs: list[Array | None] = []
        for name in operation.inputs:
            is_constant = scope.is_constant(name) or name in scope.defaults
            # A constant that holds no indices may be large.
            is_left_out = not name or (is_constant and name not in values)
            if is_left_out and name not in index_names:
                inputs.append(None)
            else:
                inputs.append(self._value(scope, name, values))
        gathered = Gathered(tuple(inputs), values.get(operation.outputs[0]))
        self.captured.gathers.setdefault(operation, []).append(gathered)

    def _value(self, scope: Scope, name: str, values: Mapping[str, Array]) -> Array:
        """Return a value that was computed, or a constant."""
        value = values.get(name)
        if value is None:
            value = scope.constant(name)
        if value is None:
            raise _UnknownError
        return value

    def _computed(
        self, scope: Scope, wanted: list[str], fed: dict[str, Array]
    ) -> dict[str, Array]:
        """Return the wanted values of a graph; if a node fails, those before it."""
        total = len(scope.operations)
        values: dict[int, dict[str, Array]] = {}
        reasons: dict[int, str] = {}

        def fails(count: int) -> bool:
            """Return whether the first operations fail; keep what they return."""
            outputs: set[str] = set()
            for operation in scope.operations[:count]:
                outputs.update(operation.outputs)
            names = [name for name in wanted if name in outputs]
            try:
                values[count] = self._ask(scope, count, names, fed)
            except runtime.FailedError as error:
                reasons[count] = _MARK.sub("", str(error))
            return count in reasons

        if not fails(total):
            return values[total]
        before = bisect_left(range(1, total), True, key=fails)
        # The first failure of the run is the one that a note names.
        if self.captured.stop is None:
            where = "" if scope.where == MAIN else f" in {scope.where}"
            label = scope.operations[before].label
            self.captured.stop = f"{label}{where} fails: {reasons[before + 1]}"
        return values.get(before, {})

    def _ask(
        self, scope: Scope, count: int, names: list[str], fed: dict[str, Array]
    ) -> dict[str, Array]:
        """Return values that the first operations of a scope compute in the worker.

        Raises:
            FailedError: A node fails, or the worker crashes.
            ProviderError: There is no CPU provider, or the run takes too long.
        """
        if not names:
            return {}
        model, marked = _model_of(self._network, scope, count, names, fed)
        blobs = bytearray(serialized(model))
        size = len(blobs)
        feed = {name: runtime.append_array(array, blobs) for name, array in fed.items()}
        is_whole = scope is self._network.main and count == len(scope.operations)
        request = {
            "model": size,
            "feeds": [feed],
            "every": True,
            # Each iteration of a loop runs the same model.
            "keep": scope.outer is not None,
            "report": is_whole and self._policy != "",
        }
        answer, content = self._exchange(request, blobs)
        # Case: the provider is not there, as ONNX Runtime refuses its library.
        if answer.not_run is not None and self._policy:
            kind, detail, _ = answer.not_run
            self.captured.no_provider = _GATHERS.why_not_run(kind, detail)
            self._session = self._on_cpu
            self._policy = ""
            answer, content = self._exchange(request | {"report": False}, blobs)
        if answer.not_run is not None:
            kind, detail, _ = answer.not_run
            raise ProviderError(_CPU.why_not_run(kind, detail))
        # Case: an index may be out of range; what is behind it runs under clamp.
        if self._policy == "error" and _failure(answer) is not None:
            self._policy = "clamp"
            self._keep_first(answer.rows, marked)
            answer, content = self._exchange(request, blobs)
        if is_whole:
            self._keep_counts(answer.rows, marked)
        reason = _failure(answer)
        if reason is not None:
            raise runtime.FailedError(reason)
        (outputs,) = answer.outputs
        values: dict[str, Array] = {}
        for name, place in zip(names, outputs, strict=True):
            if place is not None:  # else it is no tensor of numbers
                values[name] = runtime.array_at(place, content)
        return values

    def _exchange(
        self, request: Mapping[str, object], blobs: bytearray
    ) -> tuple[_Answered, bytes]:
        """Return the answer of the worker to a request; raise as `_ask`."""
        session = self._session
        if self._policy:
            session = session | {"settings": {"out_of_range": self._policy}}
        try:
            request = {**request, "session": session}
            return self._worker.exchange(_read, request, blobs)
        except NoAnswerError as error:
            if error.how in _NO_CRASH or error.detail == "SIGKILL":
                rule = f"{self._network.path}: the model must run with the given inputs"
                raise ProviderError(f"{rule}, but {error}") from None
            # A node can crash the worker.
            raise runtime.FailedError(str(error)) from None

    def _keep_first(
        self, rows: Iterable[GatherCounts], marked: Sequence[tuple[Scope, Operation]]
    ) -> None:
        """Keep at which gather the untouched model stops, by the rows of its run."""
        for row in rows:
            number = _MARK.search(row.node)
            if row.error is None or number is None:
                continue
            scope, operation = marked[int(number[1])]
            place = f"{operation.label} ({operation.operator}, {scope.place})"
            # The provider names the node before its sentence on the index.
            _, _, sentence = row.error.rpartition("': ")
            self.captured.first_outside = f"{place}: {sentence}"
            self._first = operation

    def _keep_counts(
        self, rows: Iterable[GatherCounts], marked: Sequence[tuple[Scope, Operation]]
    ) -> None:
        """Keep what each gather met in the whole run."""
        counts = self.captured.counts
        for row in rows:
            number = _MARK.search(row.node)
            # Case: ONNX Runtime makes the gather of another operator.
            if number is None:
                self.captured.added.append(row)
                continue
            _, operation = marked[int(number[1])]
            is_first = operation is self._first
            met = met_of(row, self._policy == "clamp" and not is_first)
            if operation in counts:  # another call of the function
                met = counts[operation].joined(met)
            counts[operation] = met

    def _run_bodies(
        self, scope: Scope, operation: Operation, values: Mapping[str, Array]
    ) -> None:
        """Run the bodies of an operation that the provider runs."""
        inputs = [
            self._value(scope, name, values) if name else None
            for name in operation.inputs
        ]
        bodies = operation.bodies
        if "function" in bodies:
            self._run_body(bodies["function"], inputs, {})
            return
        outer_values: dict[str, dict[str, Array]] = {}
        for key, body in bodies.items():
            outer_values[key] = {
                name: self._value(scope, name, values) for name in uses(body)
            }
        if operation.operator == "If" and inputs[0] is not None:
            branch = "then_branch" if inputs[0].all() else "else_branch"
            self.values_of(bodies[branch], outer_values[branch])
        elif operation.operator == "Loop":
            self._run_loop(bodies["body"], inputs, outer_values["body"])
        elif operation.operator == "Scan":
            self._run_scan(operation, inputs, outer_values["body"])

    def _run_body(
        self,
        body: Scope,
        inputs: Sequence[Array | None],
        outer_values: Mapping[str, Array],
    ) -> dict[str, Array]:
        """Return the values of a body with its inputs, None for an omitted input."""
        fed = dict(outer_values)
        for name, array in zip(body.inputs, inputs, strict=False):
            if array is not None:
                fed[name] = array
        return self.values_of(body, fed)

    def _is_cut(self, body: Scope) -> bool:
        """Return whether a body ran too often to run once more; note the cut."""
        self._iterations[body.where] += 1
        is_cut = self._iterations[body.where] > MOST_ITERATIONS
        if is_cut:
            self.captured.cut.add(body.where)
        return is_cut

    def _run_loop(
        self,
        body: Scope,
        inputs: Sequence[Array | None],
        outer_values: Mapping[str, Array],
    ) -> None:
        """Run the iterations of a Loop, as its trip count and condition say."""
        trip_count, condition, *state = inputs
        if condition is None:
            condition = np.array(True)
        output_names = body.outputs[: 1 + len(state)]
        number_sizes: Sequence[int | None] = ()
        if body.inputs:
            number_sizes = body.type_of(body.inputs[0]).sizes or ()
        for iteration in count():
            if not condition.all():
                break
            if trip_count is not None and iteration >= trip_count:
                break
            if self._is_cut(body):
                break
            # The number of the iteration is a scalar, or an array of one element.
            number = np.full([size or 1 for size in number_sizes], iteration)
            values = self._run_body(body, [number, condition, *state], outer_values)
            outputs = [self._value(body, name, values) for name in output_names]
            condition, *state = outputs

    def _run_scan(
        self,
        operation: Operation,
        inputs: Sequence[Array | None],
        outer_values: Mapping[str, Array],
    ) -> None:
        """Run the iterations of a Scan, each with a slice of the scanned inputs."""
        body = operation.bodies["body"]
        attributes = operation.attributes
        scan_count = int(attributes["num_scan_inputs"])
        state = inputs[:-scan_count]
        scanned = inputs[-scan_count:]
        axes = attributes.get("scan_input_axes", (0,) * scan_count)
        directions = attributes.get("scan_input_directions", (0,) * scan_count)
        sequences: list[Array] = []
        for array, axis, backwards in zip(scanned, axes, directions, strict=True):
            if array is not None:
                step = -1 if backwards else 1
                sequences.append(np.moveaxis(array, axis, 0)[::step])
        state_names = body.outputs[: len(state)]
        for slices in zip(*sequences, strict=True):
            if self._is_cut(body):
                break
            # A slice of a vector is a number of numpy, not an array.
            arrays = map(np.asarray, slices)
            values = self._run_body(body, [*state, *arrays], outer_values)
            state = [self._value(body, name, values) for name in state_names]


def _values_to_see(scope: Scope) -> list[str]:
    """Return the outputs of a scope, and the values around its gathers and bodies."""
    names = dict.fromkeys(scope.outputs)
    for operation in scope.operations:
        if not operator_of(operation) and not operation.bodies:
            continue
        names |= dict.fromkeys((*operation.inputs, *operation.outputs))
        for body in operation.bodies.values():
            names |= dict.fromkeys(uses(body))
    return list(names)


def _leading(
    scope: Scope, count: int, wanted: Iterable[str], given: Collection[str]
) -> tuple[list[Operation], set[str]]:
    """Return the operations that lead to values, and the values that they need.

    Args:
        scope: The scope.
        count: How many of its operations there are to choose from, the first ones.
        wanted: The names of the values.
        given: The names of values that are not computed, nor needed.
    """
    needed = set(wanted).difference(given)
    leading: list[Operation] = []
    for operation in reversed(scope.operations[:count]):
        if not needed.isdisjoint(operation.outputs):
            leading.append(operation)
            needed |= taken(operation).difference(given)
    leading.reverse()
    return leading, needed


def part_of(network: Network, wanted: Iterable[str], given: Collection[str]) -> Network:
    """Return the part of a network that computes values of its main graph.

    Args:
        network: The network.
        wanted: The names of the values.
        given: The names of values that are inputs of the part, and not computed there.
    """
    main = network.main
    outputs = tuple(wanted)
    operations, needed = _leading(main, len(main.operations), outputs, given)
    needed_inputs = [name for name in main.inputs if name in needed]
    part = replace(
        main,
        inputs=(*given, *needed_inputs),
        outputs=outputs,
        operations=tuple(operations),
    )
    return replace(network, main=part)


def _model_of(
    network: Network,
    scope: Scope,
    count: int,
    wanted: Collection[str],
    fed: Mapping[str, Array],
) -> tuple[onnx.ModelProto, list[tuple[Scope, Operation]]]:
    """Return a model whose outputs are values of a scope, and its marked gathers.

    Args:
        network: The network of the scope.
        scope: Any of its scopes.
        count: How many of its operations there are to choose from, the first ones.
        wanted: The names of the outputs; the model has the operations that lead there.
        fed: The arrays of the inputs, by name.
    """
    source = scope.proto
    model = onnx.ModelProto()
    model.ir_version = max(8, network.proto.ir_version)  # functions need 8
    for domain, version in scope.opsets.items():
        model.opset_import.append(helper.make_opsetid(domain, version))
    model.functions.extend(network.proto.functions)
    graph = model.graph
    graph.name = "inside"
    operations, needed = _leading(scope, count, wanted, fed)
    graph.node.extend(operation.proto for operation in operations)
    marked: list[tuple[Scope, Operation]] = []
    _mark(graph.node, scope, operations, marked)
    bodies = {key_of(call.proto): call.bodies["function"] for call in _calls(network)}
    for function in model.functions:
        body = bodies.get(key_of(function))
        if body is not None:
            _mark(function.node, body, body.operations, marked)
    for tensor in source.initializer:
        if tensor.name in needed:
            graph.initializer.append(tensor)
    for sparse in source.sparse_initializer:
        if sparse.values.name in needed:
            graph.sparse_initializer.append(sparse)
    for name, array in fed.items():
        data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        value = helper.make_tensor_value_info(name, data_type, array.shape)
        graph.input.append(value)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    return model, marked


def _calls(network: Network) -> Iterator[Operation]:
    """Yield the operations that call functions."""
    for scope in network.main.scopes():
        for operation in scope.operations:
            if "function" in operation.bodies:
                yield operation


def _mark(
    nodes: Iterable[onnx.NodeProto],
    scope: Scope,
    operations: Iterable[Operation],
    marked: list[tuple[Scope, Operation]],
) -> None:
    """Mark the gathers of nodes and of their bodies by numbers in their names.

    Args:
        nodes: The nodes that run.
        scope: Their scope.
        operations: The operations of the nodes.
        marked: The gathers by their numbers, to which these are appended.
    """
    for node, operation in zip(nodes, operations, strict=True):
        if operation.is_gather:
            node.name = f"#{len(marked)}#{operation.label}"
            marked.append((scope, operation))
        for name, graph in bodies_of(node):
            body = operation.bodies[name]
            _mark(graph.node, body, body.operations, marked)


def _failure(answer: _Answered) -> str | None:
    """Return why the model did not run; None if it ran."""
    if answer.refused is not None:
        return answer.refused
    (outputs,) = answer.outputs
    return outputs if isinstance(outputs, str) else None
