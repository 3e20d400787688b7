"""The inputs and output of each gather in a run, in bodies too.

A graph runs with its inner values as outputs. Then each body runs by itself, with the
values that its node had; the body of a loop runs once per iteration.
"""

from __future__ import annotations

import sys
import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import onnx
from msgspec import Struct, field
from msgspec.structs import replace
from onnx import helper

from onnxgather.auditing.operators.index_operators import given_indices, operator_of
from onnxgather.auditing.whole_run import WholeRun, answer_of, cpu_run, run_whole
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import ProviderError
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.worker import Worker
from onnxgather.core.execution.providers import find_provider
from onnxgather.core.model.network import MAIN, Network, Operation, Scope, taken, uses

MOST_ITERATIONS = 256
"""The most iterations of the body of a loop or a scan that run by themselves."""


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
    stop: str | None = None
    """Where the run fails, and how; None if it does not fail."""
    cut: set[str] = set()
    """The bodies of loops and scans of which not all iterations run by themselves."""
    whole: WholeRun = field(default_factory=WholeRun)
    """What gathers met in the run of the whole model."""


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
        clamp: Whether the model runs under clamp behind an index out of range, where
            onnxgather's provider is there. Else it stops there.

    Raises:
        ProviderError: There is no CPU provider, it cannot start, or the run takes too
            long.
    """
    with (
        tempfile.TemporaryDirectory(prefix="onnxgather-") as folder,
        closing(Worker(sys.executable, timeout)) as worker,
    ):
        worker.about()  # else a worker that cannot start reads as a node that fails
        whole = cpu_run(network)
        if clamp:
            whole = run_whole(network, inputs, worker, folder)
        run = _Run(network, worker, whole, folder)
        run.values_of(network.main, dict(inputs))
    return run.captured


class _Run:
    """A run of a model, scope by scope."""

    def __init__(
        self, network: Network, worker: Worker, whole: WholeRun, folder: str
    ) -> None:
        self._network = network
        self._worker = worker
        self._folder = folder
        """For large models."""
        self._iterations = Counter[str]()
        """How often the body of a loop or a scan ran, by where it is."""
        self.captured = Captured(whole=whole)

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
            """Return whether the first operations fail."""
            outputs: set[str] = set()
            for operation in scope.operations[:count]:
                outputs.update(operation.outputs)
            names = [name for name in wanted if name in outputs]
            try:
                seen = self._ask(scope, count, names, fed)
                values.clear()  # of fewer operations, which need memory
                values[count] = seen
            except runtime.FailedError as error:
                reasons[count] = str(error)
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
        model = _model_of(self._network, scope, count, names, fed)
        session = self.captured.whole.session
        # Each iteration of a loop runs the same model.
        keep = scope.outer is not None
        answer, content = answer_of(
            self._worker, self._network, model, fed, session, self._folder, keep
        )
        if answer.not_run is not None:
            kind, detail, _ = answer.not_run
            provider = find_provider(session["provider"])
            raise ProviderError(provider.why_not_run(kind, detail))
        if answer.failure is not None:
            raise runtime.FailedError(answer.failure)
        values: dict[str, Array] = {}
        for name, place in zip(names, answer.places, strict=True):
            if place is not None:
                values[name] = runtime.array_at(place, content)
        return values

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

    def _run_iteration(
        self,
        body: Scope,
        inputs: Sequence[Array | None],
        outer_values: Mapping[str, Array],
        state_count: int,
    ) -> list[Array]:
        """Return the first outputs of a body: the state for the next iteration."""
        values = self._run_body(body, inputs, outer_values)
        return [self._value(body, name, values) for name in body.outputs[:state_count]]

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
        number_sizes: Sequence[int | None] = ()
        if body.inputs:
            number_sizes = body.type_of(body.inputs[0]).sizes or ()
        for iteration in count():
            is_over = trip_count is not None and iteration >= trip_count
            if is_over or not condition.all() or self._is_cut(body):
                break
            # The number of the iteration is a scalar, or an array of one element.
            number = np.full([size or 1 for size in number_sizes], iteration)
            arrays = [number, condition, *state]
            condition, *state = self._run_iteration(
                body, arrays, outer_values, 1 + len(state)
            )

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
        for slices in zip(*sequences, strict=True):
            if self._is_cut(body):
                break
            # A slice of a vector is a number of numpy, not an array.
            arrays = [*state, *map(np.asarray, slices)]
            state = self._run_iteration(body, arrays, outer_values, len(state))


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
) -> onnx.ModelProto:
    """Return a model whose outputs are values of a scope, without large constants.

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
    return model
