"""The inputs and output of each gather in a run on the CPU provider, in bodies too.

A graph runs with its inner values as outputs. Then each body runs by itself, with the
values that its node had; the body of a loop runs once per iteration.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import ProviderError
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.execution.elsewhere.worker import Worker
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
from onnxgather.core.model.values import serialized

MOST_ITERATIONS = 256
"""The most iterations of a loop that are run."""

MOST_OF_ALL = 4096
"""The most iterations of all loops and scans of a model that are run."""

_CPU = PROVIDERS["cpu"]

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
    stop: str | None = None
    """Where the run fails, and how; None if it does not fail."""
    cut: set[str] = set()
    """The bodies of loops and scans of which not all iterations are run."""


class _Answered(Struct):
    not_run: tuple[runtime.NotRunKind, str, Any] | None = None
    refused: str | None = None
    outputs: tuple[str | tuple[tuple[str, tuple[int, ...], int] | None, ...], ...] = ()


class _UnknownError(Exception):
    """A value was not seen, as it is no tensor of numbers or comes after a failure."""


def capture(network: Network, inputs: Mapping[str, Array], timeout: float) -> Captured:
    """Run a model and keep the executions of the operations that carry indices.

    Args:
        network: The model.
        inputs: The arrays of its graph inputs, by name.
        timeout: Seconds that a run may take.

    Raises:
        ProviderError: There is no CPU provider, it cannot start, or the run takes too
            long.
    """
    with closing(Worker(sys.executable, timeout)) as worker:
        worker.about()  # else a worker that cannot start reads as a node that fails
        run = _Run(network, worker)
        run.values_of(network.main, dict(inputs))
    return run.captured


def _read(header: bytes, blobs: bytes) -> tuple[_Answered, bytes]:
    return msgspec.json.decode(header, type=_Answered), blobs


class _Run:
    """A run of a model, scope by scope."""

    def __init__(self, network: Network, worker: Worker) -> None:
        self._network = network
        self._worker = worker
        self.captured = Captured()
        self._iterations = 0

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
        """Return the wanted values of a graph; if a node fails, those before it.

        The node that fails is found by halving: the first `working` operations run, and
        the first `failing` operations do not.
        """
        total = len(scope.operations)
        working = 0
        failing = total + 1
        tried = total
        values: dict[str, Array] = {}
        reason = ""
        while working + 1 < failing:
            outputs: set[str] = set()
            for operation in scope.operations[:tried]:
                outputs.update(operation.outputs)
            names = [name for name in wanted if name in outputs]
            try:
                values = self._ask(scope, tried, names, fed)
                working = tried
            except runtime.FailedError as error:
                failing = tried
                reason = str(error)
            tried = (working + failing) // 2
        # The first failure of the run is the one that a note names.
        if failing <= total and self.captured.stop is None:
            where = "" if scope.where == MAIN else f" in {scope.where}"
            label = scope.operations[failing - 1].label
            self.captured.stop = f"{label}{where} fails: {reason}"
        return values

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
        blobs = bytearray(model)
        feed = {name: runtime.append_array(array, blobs) for name, array in fed.items()}
        folder = folder_of(self._network.path)
        request = {
            "model": len(model),
            "session": {"provider": _CPU.name, "level": 0, "folder": folder},
            "feeds": [feed],
            "every": True,
            # Each iteration of a loop runs the same model.
            "keep": scope.outer is not None,
        }
        try:
            answer, content = self._worker.exchange(_read, request, blobs)
        except NoAnswerError as error:
            if error.how in _NO_CRASH or error.detail == "SIGKILL":
                rule = f"{self._network.path}: the model must run with the given inputs"
                raise ProviderError(f"{rule}, but {error}") from None
            # A node can crash the worker.
            raise runtime.FailedError(str(error)) from None
        if answer.not_run is not None:
            kind, detail, _ = answer.not_run
            raise ProviderError(_CPU.why_not_run(kind, detail))
        if answer.refused is not None:
            raise runtime.FailedError(answer.refused)
        (outputs,) = answer.outputs
        if isinstance(outputs, str):
            raise runtime.FailedError(outputs)
        values: dict[str, Array] = {}
        for name, place in zip(names, outputs, strict=True):
            if place is not None:  # else it is no tensor of numbers
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

    def _is_cut(self, body: Scope, iteration: int) -> bool:
        """Return whether there are too many iterations to run this; note the cut."""
        self._iterations += 1
        is_cut = iteration == MOST_ITERATIONS or self._iterations > MOST_OF_ALL
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
            if self._is_cut(body, iteration):
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
        for iteration, slices in enumerate(zip(*sequences, strict=True)):
            if self._is_cut(body, iteration):
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
) -> bytes:
    """Return a serialized model whose outputs are values of a scope.

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
    return serialized(model)
