"""The inputs and output of each gather in a run on the CPU provider, in bodies too.

A graph runs with its inner values as outputs. Then each body runs by itself, with the
values that its node had; a loop's once per iteration.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple

import msgspec
import numpy as np
import onnx
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

MOST_ITERATIONS, MOST_OF_ALL = 256, 4096
"""The most iterations of a loop that are run, and of all loops and scans of a model."""

_CPU = PROVIDERS["cpu"]

_NO_CRASH = (Breakdown.NOT_STARTED, Breakdown.LATE, Breakdown.EXITED)
"""How a worker breaks down without a fault of the node that it runs."""


class Gathered(NamedTuple):
    """The inputs and the output of one execution of an operation that carries indices."""

    inputs: tuple[Any, ...]
    """Arrays; None where one is left out, or is a constant of the model, which may be
    large. Those of indices are there."""
    output: Array | None
    """The first one; None where the operation fails."""


@dataclass(eq=False)
class Captured:
    """The executions of the operations that carry indices in a run."""

    gathers: dict[Operation, list[Gathered]] = field(default_factory=dict[Any, Any])
    """The executions of each."""
    stop: str | None = None
    """Where the run fails, and how; None where it does not."""
    cut: set[str] = field(default_factory=set[str])
    """The bodies of loops and scans of which not all iterations are run."""


class _Answered(msgspec.Struct):
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
        ProviderError: There is no CPU provider, it cannot start, or the run takes too long.
    """
    with closing(Worker(sys.executable, timeout)) as worker:
        worker.about()  # so that a worker that cannot start does not read as a node that fails
        run = _Run(network, worker)
        run.values_of(network.main, dict(inputs))
    return run.found


def _read(header: bytes, blobs: bytes) -> tuple[_Answered, bytes]:
    return msgspec.json.decode(header, type=_Answered), blobs


class _Run:
    """A run of a model, scope by scope."""

    def __init__(self, network: Network, worker: Worker) -> None:
        self._network, self._worker = network, worker
        self.found = Captured()
        self._iterations = 0

    def values_of(self, scope: Scope, fed: dict[str, Array]) -> dict[str, Array]:
        """The values of a scope that its gathers and bodies take, and its outputs."""
        wanted = dict.fromkeys(scope.outputs)
        for operation in scope.operations:
            if operator_of(operation) or operation.bodies:
                taken = (
                    name for body in operation.bodies.values() for name in uses(body)
                )
                wanted |= dict.fromkeys((*operation.inputs, *operation.outputs, *taken))
        given = fed.keys() | scope.stored.keys() | {*scope.inputs}
        names = [name for name in wanted if name in scope.types.keys() - given]
        values = fed | self._longest(scope, names, fed)
        for operation in scope.operations:
            try:
                if operator_of(operation):
                    self._gather(scope, operation, values)
                elif operation.bodies:
                    self._bodies(scope, operation, values)
            except _UnknownError:
                continue
        return values

    def _gather(
        self, scope: Scope, operation: Operation, values: Mapping[str, Array]
    ) -> None:
        """Keep an execution of an operation whose inputs are known."""
        inputs, held = list[Any](), given_indices(operation)
        for name in operation.inputs:
            is_constant = not name or scope.is_constant(name) or name in scope.defaults
            is_left = name not in held and is_constant and name not in values
            inputs.append(None if is_left else self._value(scope, name, values))
        gathered = Gathered(tuple(inputs), values.get(operation.outputs[0]))
        self.found.gathers.setdefault(operation, []).append(gathered)

    def _value(self, scope: Scope, name: str, values: Mapping[str, Array]) -> Array:
        found = values.get(name)
        found = scope.constant(name) if found is None else found
        if found is None:
            raise _UnknownError
        return found

    def _longest(
        self, scope: Scope, wanted: list[str], fed: dict[str, Array]
    ) -> dict[str, Array]:
        """The wanted values of a graph; if a node fails, those before it."""
        works, fails, found, reason = (
            0,
            len(scope.operations) + 1,
            dict[str, Array](),
            "",
        )
        tried = fails - 1
        while works + 1 < fails:
            made = {
                name
                for operation in scope.operations[:tried]
                for name in operation.outputs
            }
            names = [name for name in wanted if name in made]
            try:
                found, works = self._ask(scope, tried, names, fed), tried
            except runtime.FailedError as error:
                fails, reason = tried, str(error)
            tried = (works + fails) // 2
        if fails <= len(scope.operations) and self.found.stop is None:
            where = "" if scope.where == MAIN else f" in {scope.where}"
            label = scope.operations[fails - 1].label
            self.found.stop = f"{label}{where} fails: {reason}"
        return found

    def _ask(
        self, scope: Scope, nodes: int, names: list[str], fed: dict[str, Array]
    ) -> dict[str, Array]:
        if not names:
            return {}
        model = _model_of(self._network, scope, nodes, names, fed)
        blobs = bytearray(model)
        feed = {name: runtime.append_array(array, blobs) for name, array in fed.items()}
        folder = folder_of(self._network.path)
        session = {"provider": _CPU.name, "level": 0, "folder": folder}
        request = {
            "model": len(model),
            "session": session,
            "feeds": [feed],
            "every": True,
        }
        request["keep"] = (
            scope.outer is not None
        )  # as each iteration of a loop has this model
        try:
            answered, content = self._worker.exchange(_read, request, blobs)
        except NoAnswerError as error:
            if error.how in _NO_CRASH or error.detail == "SIGKILL":
                rule = f"{self._network.path}: the model must run with the given inputs"
                raise ProviderError(f"{rule}, but {error}") from None
            raise runtime.FailedError(
                str(error)
            ) from None  # as a node can crash the worker
        if answered.not_run is not None:
            raise ProviderError(_CPU.why_not_run(*answered.not_run[:2]))
        if answered.refused is not None:
            raise runtime.FailedError(answered.refused)
        (outputs,) = answered.outputs
        if isinstance(outputs, str):
            raise runtime.FailedError(outputs)
        pairs = zip(names, outputs, strict=True)
        return {
            name: runtime.array_at(one, content)
            for name, one in pairs
            if one is not None
        }

    def _bodies(
        self, scope: Scope, operation: Operation, values: Mapping[str, Array]
    ) -> None:
        """Run the bodies of an operation."""
        inputs = [
            self._value(scope, name, values) if name else None
            for name in operation.inputs
        ]
        if "function" in operation.bodies:
            self._body(operation.bodies["function"], inputs, {})
            return
        around = {
            key: {name: self._value(scope, name, values) for name in uses(body)}
            for key, body in operation.bodies.items()
        }
        if operation.operator == "If" and inputs[0] is not None:
            branch = "then_branch" if inputs[0].all() else "else_branch"
            self.values_of(operation.bodies[branch], around[branch])
        elif operation.operator == "Loop":
            self._loop(operation.bodies["body"], inputs, around["body"])
        elif operation.operator == "Scan":
            self._scan(operation, inputs, around["body"])

    def _body(
        self, body: Scope, inputs: Sequence[Array | None], around: Mapping[str, Array]
    ) -> dict[str, Array]:
        """The values of a body with its inputs, None for one that is left out."""
        pairs = zip(body.inputs, inputs, strict=False)
        given = {name: array for name, array in pairs if array is not None}
        return self.values_of(body, {**around, **given})

    def _ends(self, body: Scope, iteration: int) -> bool:
        """Whether an iteration is not run, as there are too many; the body is then cut."""
        self._iterations += 1
        ends = iteration == MOST_ITERATIONS or self._iterations > MOST_OF_ALL
        self.found.cut |= {body.where} if ends else set()
        return ends

    def _loop(
        self, body: Scope, inputs: Sequence[Array | None], around: Mapping[str, Array]
    ) -> None:
        trips, condition, *state = inputs
        going = np.array(True) if condition is None else condition
        for k in count():
            if (
                not going.all()
                or (trips is not None and k >= trips)
                or self._ends(body, k)
            ):
                break
            sizes = body.type_of(*body.inputs[:1] or [""]).sizes or ()
            given = [np.full([n or 1 for n in sizes], k), going, *state]
            values = self._body(body, given, around)
            outputs = body.outputs[: 1 + len(state)]
            going, *state = (self._value(body, name, values) for name in outputs)

    def _scan(
        self,
        operation: Operation,
        inputs: Sequence[Array | None],
        around: Mapping[str, Array],
    ) -> None:
        body, attributes = operation.bodies["body"], operation.attributes
        scanned = int(attributes["num_scan_inputs"])
        state, rows = inputs[:-scanned], inputs[-scanned:]
        axes = attributes.get("scan_input_axes", (0,) * scanned)
        turned = attributes.get("scan_input_directions", (0,) * scanned)
        moved = [
            np.moveaxis(row, axis, 0)[:: -1 if backwards else 1]
            for row, axis, backwards in zip(rows, axes, turned, strict=True)
            if row is not None
        ]
        for k, slices in enumerate(zip(*moved, strict=True)):
            if self._ends(body, k):
                break
            values = self._body(body, [*state, *map(np.asarray, slices)], around)
            state = [
                self._value(body, name, values) for name in body.outputs[: len(state)]
            ]


def _leading(
    scope: Scope, count: int, wanted: Iterable[str], given: Collection[str]
) -> tuple[list[Operation], set[str]]:
    """The operations that lead to values, in their order, and the values that they need.

    Args:
        scope: The scope.
        count: How many of its operations there are to choose from, the first ones.
        wanted: The names of the values.
        given: The names of values that are not computed, nor needed.
    """
    kept, needed = list[Operation](), {*wanted}.difference(given)
    for operation in reversed(scope.operations[:count]):
        if not needed.isdisjoint(operation.outputs):
            kept.append(operation)
            needed |= taken(operation).difference(given)
    return kept[::-1], needed


def part_of(network: Network, wanted: Iterable[str], given: Collection[str]) -> Network:
    """The part of a network that computes values of its main graph, with all that it needs.

    Args:
        network: The network.
        wanted: The names of the values.
        given: The names of values that are inputs of the part, and not computed there.
    """
    main, outputs = network.main, tuple(wanted)
    kept, needed = _leading(main, len(main.operations), outputs, given)
    inputs = (*given, *(name for name in main.inputs if name in needed))
    part = replace(main, inputs=inputs, outputs=outputs, operations=tuple(kept))
    return replace(network, main=part)


def _model_of(
    network: Network,
    scope: Scope,
    count: int,
    wanted: Collection[str],
    fed: Mapping[str, Array],
) -> bytes:
    """A serialized model of operations of a scope, whose outputs are values of the scope.

    Args:
        network: The network of the scope.
        scope: Any of its scopes.
        count: How many of its operations there are to choose from, the first ones.
        wanted: The names of the outputs; the model has the operations that lead there.
        fed: The arrays of the inputs, by name.
    """
    own, model = scope.proto, onnx.ModelProto()
    model.ir_version = max(8, network.proto.ir_version)
    model.opset_import.extend(
        helper.make_opsetid(d, v) for d, v in scope.opsets.items()
    )
    model.functions.extend(network.proto.functions)
    made = model.graph
    made.name = "inside"
    kept, needed = _leading(scope, count, wanted, fed)
    made.node.extend(operation.proto for operation in kept)
    made.initializer.extend(one for one in own.initializer if one.name in needed)
    sparse = (one for one in own.sparse_initializer if one.values.name in needed)
    made.sparse_initializer.extend(sparse)
    for name, array in fed.items():
        element_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        made.input.append(
            helper.make_tensor_value_info(name, element_type, array.shape)
        )
    made.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    return serialized(model)
