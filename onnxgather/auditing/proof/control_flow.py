"""Operations with bodies: the bounds of what branches, loops and functions return.

A branch or a function is walked once for each operation. A loop is walked until its
state holds for any number of iterations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from onnxgather.auditing.algebra.bounds import (
    LIMITS,
    Bounds,
    Reason,
    interval,
    joined,
    stacked,
    taken_apart,
    unknown,
    widened,
)
from onnxgather.auditing.algebra.sizes import MOST, AnySize, is_made_since, mark
from onnxgather.auditing.operators.calls import Call
from onnxgather.core.model.network import Operation, Scope

DEEPEST = 2
"""The iterations of a loop inside this many other loops are not followed."""

PATIENCE = 3
"""The bounds that still move after this many iterations of a loop are widened."""

_CONTROL = ("If", "Loop", "Scan")
"""The operators of ONNX whose bodies are followed."""


def has_own_types(operation: Operation) -> bool:
    """Return whether the bodies of an operation say the types of its outputs."""
    return "function" in operation.bodies or operation.operator in _CONTROL


class Walk(Protocol):
    """What computes the bounds of the values of a body, such as `Ranges`."""

    def evaluate(self, scope: Scope, inputs: Sequence[Bounds]) -> list[Bounds]:
        """Compute the bounds of each value of a scope; return those of its outputs."""
        ...


class ControlFlow:
    """The bounds of operations with bodies.

    Args:
        walk: Computes the bounds of a body.
    """

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._depth = 0
        """How many loops are followed now, one in the other."""

    @property
    def is_in_loop(self) -> bool:
        """Return whether the body of a loop is followed now."""
        return self._depth > 0

    def outputs(self, call: Call) -> Sequence[Bounds] | None:
        """Return the outputs of an operation with bodies; None if they do not say them.

        The values of its bodies are computed in each case.
        """
        operation = call.operation
        # Case 1: a function.
        if "function" in operation.bodies:
            inputs = [value or unknown("", None) for value in call.inputs]
            return self._walk.evaluate(operation.bodies["function"], inputs)

        # Case 2: If, Loop or Scan. Before version 9 a Scan has a batch, and its lengths
        # are in front of the state.
        is_old_scan = operation.operator == "Scan" and call.version < 9
        is_control = operation.operator in _CONTROL and not is_old_scan
        if is_control and not operation.domain:
            try:
                match call.operator:
                    case "If":
                        return self._if_outputs(call)
                    case "Loop":
                        return self._loop_outputs(call)
                    case _:
                        return self._scan_outputs(call)
            except (LookupError, TypeError, ValueError):  # it breaks a rule of ONNX
                return None

        # Case 3: another operator, such as SequenceMap.
        for body in operation.bodies.values():
            self._evaluate_alone(body)
        return None

    def _evaluate_alone(self, body: Scope) -> None:
        """Compute the values of a body whose inputs may be anything of their types.

        The sizes that it declares of its inputs may be wrong.
        """
        inputs: list[Bounds] = []
        for name in body.inputs:
            data_type = body.types[name].data_type
            inputs.append(unknown(data_type, None, name))
        self._walk.evaluate(body, inputs)

    def _if_outputs(self, call: Call) -> Sequence[Bounds]:
        """Return the outputs of the branch that runs, or those of both, joined."""
        low, high = call.x.whole
        bodies = call.operation.bodies
        then_outputs = self._walk.evaluate(bodies["then_branch"], [])
        else_outputs = self._walk.evaluate(bodies["else_branch"], [])
        if low == high:
            return then_outputs if low else else_outputs
        pairs = zip(then_outputs, else_outputs, strict=True)
        return [joined(pair) for pair in pairs]

    def _loop_outputs(self, call: Call) -> Sequence[Bounds]:
        """Return the state after any number of iterations, and what is kept of each."""
        trips = call.has(0)
        body = call.operation.bodies["body"]
        most_trips = MOST
        # A broken model may give a count that is no integer.
        if trips is not None and trips.data_type in LIMITS:
            most_trips = trips.whole[1]
        if isinstance(most_trips, int):
            most_trips = max(most_trips, 1)
        # Of the sizes that the body declares of its iteration, only the rank counts
        # (test_the_sizes_that_a_loop_declares_for_its_iteration_are_not_believed).
        declared = body.types[body.inputs[0]].sizes
        sizes = (1,) if declared else declared
        why = Reason(f"the iterations of {call.operation.label}")
        iteration = interval("INT64", sizes, 0, most_trips - 1, why=(why,))
        condition = unknown("BOOL", None)
        first = [value or unknown("", None) for value in call.inputs[2:]]
        state, outputs = self._repeated(body, first, [iteration, condition], [], 1)

        # If no iteration runs, the kept values may have any rank.
        surely_runs = False
        if trips is not None and call.has(1) is None:
            surely_runs = trips.whole[0] >= 1
        kept: list[Bounds] = []
        for value in outputs[len(state) :]:
            if surely_runs and value.sizes is not None:
                kept.append(value.resized((None, *value.sizes)))
            else:
                kept.append(value.resized(None))
        return [*state, *kept]

    def _scan_outputs(self, call: Call) -> Sequence[Bounds]:
        """Return the state after all iterations, and what is kept of each.

        What is kept is stacked along the axes of the outputs.
        """
        attributes = call.attributes
        body = call.operation.bodies["body"]
        scanned = int(attributes["num_scan_inputs"])
        first = [value or unknown("", None) for value in call.inputs[:-scanned]]
        input_axes = attributes.get("scan_input_axes", (0,) * scanned)
        slices: list[Bounds] = []
        count: AnySize | None = None
        for position, axis in enumerate(input_axes, len(first)):
            value = call.of(position)
            if value.sizes:
                count = value.sizes[int(axis)]
                slices.append(taken_apart(value, axis))
            else:
                slices.append(unknown(value.data_type, None, *value.stops))
        state, outputs = self._repeated(body, first, [], slices, 0)

        output_axes = attributes.get("scan_output_axes", (0,) * len(outputs))
        # If no iteration runs, the sizes are those that the body declares.
        surely_runs = count is not None and count >= 1
        kept: list[Bounds] = []
        for value, axis in zip(outputs[len(state) :], output_axes, strict=False):
            if surely_runs and value.sizes is not None:
                kept.append(stacked(value, axis, count))
            else:
                kept.append(value.resized(None))
        return [*state, *kept]

    def _repeated(
        self,
        body: Scope,
        first: Sequence[Bounds],
        before: Sequence[Bounds],
        after: Sequence[Bounds],
        skipped: int,
    ) -> tuple[list[Bounds], list[Bounds]]:
        """Return the state after any number of iterations of a body, and its outputs.

        The outputs are those of any iteration.

        Args:
            body: The body.
            first: The state before the first iteration.
            before: The inputs of the body in front of its state.
            after: The inputs behind its state.
            skipped: How many outputs are in front of the state.
        """

        def run(state: Sequence[Bounds]) -> list[Bounds]:
            start = mark()
            outputs = self._walk.evaluate(body, [*before, *state, *after])
            return [_closed_since(value, start) for value in outputs[skipped:]]

        if self._depth == DEEPEST:
            limit = f"a loop inside {DEEPEST} other loops"
            state = [unknown("", None, *value.stops, limit) for value in first]
            return state, run(state)
        self._depth += 1
        try:
            state = _lasting(first, run)
            outputs = run(state)
        finally:
            self._depth -= 1
        last = [joined(pair) for pair in zip(first, outputs, strict=False)]
        return last, outputs


def _lasting(
    first: Sequence[Bounds], run: Callable[[Sequence[Bounds]], list[Bounds]]
) -> list[Bounds]:
    """Return a state that holds before each iteration of a loop.

    Args:
        first: The state before the first iteration.
        run: Returns what an iteration makes of a state, in front of other outputs.
    """
    state = list(first)
    for iteration in itertools.count(1):
        moved = [joined(pair) for pair in zip(state, run(state), strict=False)]
        if all(map(_is_covered, state, moved)):
            break
        is_patient = iteration <= PATIENCE
        state = moved if is_patient else list(map(widened, state, moved))
    # What holds for any iteration still holds an iteration later, and may be less.
    return [joined(pair) for pair in zip(first, run(state), strict=False)]


def _closed_since(value: Bounds, start: int) -> Bounds:
    """Return a result of an iteration, without sizes that are new in each iteration."""
    if any(is_made_since(end, start) for end in value.bounds.flat):
        value = value.closed
    sizes = value.sizes
    if sizes is not None:
        sizes = tuple(None if is_made_since(size, start) else size for size in sizes)
    return replace(value, sizes=sizes)


def _is_covered(old: Bounds, new: Bounds) -> bool:
    """Return whether `old` holds all that `new` does, which holds all of `old`."""
    if old.data_type != new.data_type or old.sizes != new.sizes or old.nan != new.nan:
        return False
    is_below = old.low <= new.low
    is_above = old.high >= new.high
    return bool(is_below.all() and is_above.all())
