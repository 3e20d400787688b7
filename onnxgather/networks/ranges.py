"""The walk through a network: the bounds of each value, in subgraphs and functions too.

Whether the indices of a gather are proved in range is read from it: their interval beside the sizes
of the axes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import msgspec
import numpy as np

from onnxgather.descriptors.arrays import Array
from onnxgather.errors import OnnxGatherError
from onnxgather.model.values import ValueType
from onnxgather.networks.inside import inferred
from onnxgather.networks.intervals import (
    COLUMNS,
    FLOATS,
    INTEGERS,
    LIMITS,
    UNBOUNDED,
    Bounds,
    bounds_of_array,
    elements_of,
    hull,
    interval,
    joined,
    merged_reasons,
    unknown,
    widened,
)
from onnxgather.networks.network import Network, Operation, Scope
from onnxgather.networks.operator_bounds import LARGEST_SIZE, QUIET, TRANSFERS, Call

WEIGHTS = 2**16
"""Float constants of more elements are not read."""

PATIENCE = 3
"""The iterations of a loop after which the bounds that still move are given up."""

NOTHING = ValueType("", None)

SHAPED = {"Reshape": 1, "ConstantOfShape": 0, "Expand": 2}
"""Operators whose last input is a shape, and from which number on it holds sizes of the output."""


def ranges_of(network: Network, given: Mapping[str, tuple[int, int]] | None = None) -> Ranges:
    """The bounds of the values of a network, for the sizes that it was read with.

    Args:
        network: The network.
        given: The least and the greatest element of graph inputs, by name.
    """
    ranges, inputs = Ranges(), list[Bounds]()
    for name in network.main.inputs:
        value = unknown(*network.main.types.get(name, NOTHING), name)
        if given and name in given:
            (low, high), (first, last) = given[name], LIMITS.get(value.data_type, UNBOUNDED)
            ends, why = (max(low, first), min(high, last)), (f"the range given of {name}",)
            value = interval(value.data_type, value.sizes, *ends, why=why)
        inputs.append(value)
    ranges.evaluate(network.main, inputs)
    return ranges


class Ranges:
    """The bounds of the values of a network."""

    def __init__(self) -> None:
        self._values: dict[Scope, dict[str, Bounds]] = {}

    def value(self, scope: Scope, name: str) -> Bounds:
        """The bounds of a value of a scope, or of a scope around it."""
        around: Scope | None = scope
        while around is not None:
            if name in self._values.get(around, ()):
                return self._values[around][name]
            around = around.outer
        value_type = scope.type_of(name)
        count = elements_of(value_type.sizes)
        if value_type.data_type in FLOATS and (count is None or count > WEIGHTS):
            return unknown(*value_type, name)
        try:
            array = scope.constant(name)
        except OnnxGatherError:  # such as a file that is missing; a run would tell
            array = None
        value = (
            unknown(*value_type, name)
            if array is None
            else bounds_of_array(value_type.data_type, array)
        )
        self._values.setdefault(scope, {})[name] = value  # of a body that nothing is known of too
        return value

    def evaluate(self, scope: Scope, inputs: Sequence[Bounds]) -> list[Bounds]:
        """Find the bounds of each value of a scope; return those of its outputs."""
        self._values[scope] = dict(zip(scope.inputs, inputs, strict=False))
        for operation in scope.operations:
            if not operation.bodies and all(name in scope.stored for name in operation.outputs):
                continue  # a constant, which `value` reads
            known = tuple(self.value(scope, name) if name else None for name in operation.inputs)
            call = Call(operation, known, _types(scope, operation, known))
            for name, value in zip(operation.outputs, self._computed(call), strict=False):
                self._values[scope][name] = _reasoned(call, value)
        return [self.value(scope, name) for name in scope.outputs]

    def _computed(self, call: Call) -> Sequence[Bounds]:
        """The bounds of the outputs of an operation."""
        operation, nothing = call.operation, [unknown(*told) for told in call.types]
        control = {"If": self._if, "Loop": self._loop, "Scan": self._scan}
        if "function" in operation.bodies:
            inputs = [value or unknown("", None) for value in call.inputs]
            found = self.evaluate(operation.bodies["function"], inputs)
        elif operation.domain or operation.operator not in control | TRANSFERS:
            found = nothing
        else:
            compute = control.get(operation.operator) or TRANSFERS[operation.operator]
            try:
                with np.errstate(all="ignore"):
                    found = compute(call) or nothing
            except (ArithmeticError, LookupError, TypeError, ValueError):  # not as ONNX asks
                return nothing
            if isinstance(found, Bounds):
                return [found]
            if operation.operator not in control:
                return found
        return [*map(_typed, found, call.types), *nothing[len(found) :]]

    def _if(self, call: Call) -> Sequence[Bounds]:
        low, high = call.x.whole
        bodies = (call.operation.bodies[name] for name in ("then_branch", "else_branch"))
        chosen, other = (self.evaluate(body, []) for body in bodies)
        if low == high:
            return chosen if low else other
        return [joined(pair) for pair in zip(chosen, other, strict=True)]

    def _loop(self, call: Call) -> Sequence[Bounds]:
        """The state after any number of iterations, and what is kept of each."""
        trips, body = call.has(0), call.operation.bodies["body"]
        last = LARGEST_SIZE if trips is None else max(int(trips.whole[1]), 1)
        sizes = [body.types[name].sizes for name in body.inputs[:2]]
        why = (f"the iterations of {call.operation.label}",)
        fixed = [interval("INT64", sizes[0], 0, last - 1, why=why), unknown("BOOL", sizes[1])]
        first = state = [value or unknown("", None) for value in call.inputs[2:]]
        outputs = list[Bounds]()
        for iteration in itertools.count(1):
            outputs = self.evaluate(body, [*fixed, *state])[1:]
            after = [joined(pair) for pair in zip(state, outputs, strict=False)]
            if all(map(_is_covered, state, after)):
                break
            state = list(map(widened, state, after)) if iteration > PATIENCE else after
        # What holds for any iteration still holds one iteration later, and may be less.
        state = [joined(pair) for pair in zip(first, outputs, strict=False)]
        outputs = self.evaluate(body, [*fixed, *state])[1:]
        state = [joined(pair) for pair in zip(first, outputs, strict=False)]
        runs = trips is not None and trips.whole[0] >= 1 and call.has(1) is None
        stacked = [
            value.resized((None, *value.sizes) if runs and value.sizes is not None else None)
            for value in outputs[len(state) :]
        ]
        return [*state, *stacked]

    def _scan(self, call: Call) -> Sequence[Bounds]:
        body, stop = call.operation.bodies["body"], f"Scan {call.operation.label}"
        self.evaluate(body, [unknown(*body.type_of(name), stop) for name in body.inputs])
        return []


def _is_covered(old: Bounds, new: Bounds) -> bool:
    """Whether `old` holds all that `new` does, which holds all that `old` does."""
    same = (old.data_type, old.sizes, old.nan) == (new.data_type, new.sizes, new.nan)
    return same and bool((old.low <= new.low).all() and (old.high >= new.high).all())


def _types(scope: Scope, operation: Operation, known: Sequence[Bounds | None]) -> list[ValueType]:
    """The types of the outputs of an operation, from the network and from its inputs."""
    told = [scope.types.get(name, NOTHING) for name in operation.outputs]
    if operation.operator == "Loop":  # without an iteration, ONNX Runtime forgets the rank
        return [ValueType(each.data_type) for each in told]
    inputs = {name: value for name, value in zip(operation.inputs, known, strict=True) if value}
    if all(each.is_static for each in told) and all(
        value.sizes == scope.type_of(name).sizes for name, value in inputs.items()
    ):
        return told
    types = {name: ValueType(value.data_type, value.sizes) for name, value in inputs.items()}
    arrays = {name: value.known for name, value in inputs.items()}
    better = inferred(operation, scope.version, types, arrays)
    shape = known[-1].full if operation.operator in SHAPED and known[-1] else None
    if shape is not None and (better[0].sizes or operation.operator != "Expand"):
        first = SHAPED[operation.operator]
        sizes = tuple(int(low) if low == high and low >= first else None for low, high in shape)
        better[0] = better[0].refined(ValueType("", sizes))
    return [a.refined(b) for a, b in zip(better, told, strict=True)]


def _typed(value: Bounds, value_type: ValueType) -> Bounds:
    """The value with what the network tells of its type where nothing else does."""
    if not value.data_type:
        value = unknown(value_type.data_type, value.sizes, *value.stops)
    sizes = ValueType(value.data_type, value.sizes).refined(value_type).sizes
    return value if sizes == value.sizes else value.resized(sizes)


def _reasoned(call: Call, value: Bounds) -> Bounds:
    """The value with what its bounds come from, or what leaves it without bounds."""
    if value.why or value.stops:
        return value
    why, stops = (merged_reasons(getattr(v, kind) for v in call.given) for kind in ("why", "stops"))
    if value.is_exact:
        return replace(value, why=("constant",))
    if not value.is_bounded:
        operation = call.operation
        name = f"{operation.operator} {operation.label}"
        return replace(value, why=why, stops=stops or (name,))
    why = tuple(reason for reason in why if reason != "constant")
    if stops:
        kept = stops if call.operator in QUIET else ()
        return replace(value, why=(call.operator,), stops=kept)
    named = () if call.operator in QUIET else (call.operator,)
    return replace(value, why=merged_reasons([why, named]) or ("constant",))


SizesFrom = Literal["file", "given", "level-1", "run"]


class Found(msgspec.Struct, frozen=True):
    """An index out of range."""

    source: Literal["constant", "inputs"]
    """A constant of the model, or a run with the given inputs."""
    at: tuple[int, ...]
    """Its coordinates in the indices; the first one's where several are out of range."""
    value: int
    count: int
    """How many indices are out of range."""
    providers: dict[str, str]
    """What each provider does with such an index, by the provider's short name."""


class IndexRange(msgspec.Struct, frozen=True):
    """The range of the indices of a gather, one number per coordinate of a tuple."""

    state: Literal["proved", "not-proved", "out-of-range"]
    """Proved: each index is in range, or there is none. Out of range: an index is not."""
    low: tuple[int | None, ...] | None
    """The smallest index, before negative ones are counted from the end; None: unbounded. Without
    any index there is none."""
    high: tuple[int | None, ...] | None
    size: tuple[int | None, ...] | None
    """The size of the axis that is indexed."""
    why: str
    """The proof in words, such as "constant"; without a proof, the operators behind the bounds."""
    sizes_from: SizesFrom = "file"
    """The sizes for which the range holds: those of the file, those given, those of ONNX Runtime's
    level-1 passes with the sizes given, or those of a run with the inputs given."""
    input: str | None = None
    """What stops the proof: a graph input, or an operator."""
    found: Found | None = None


def proof_of(ranges: Ranges, scope: Scope, operation: Operation) -> IndexRange:
    """The range of the indices of a gather: proved, not proved, or out of it for any inputs."""
    data, indices = (ranges.value(scope, name) for name in operation.inputs[:2])
    low, high = _ends(_coordinates(indices, operation.operator), indices.data_type)
    rank, first = len(data.sizes or ()), operation.number
    axes = range(first, first + len(low))
    sizes = tuple((data.sizes or ())[k] if -rank <= k < rank else None for k in axes)
    why = ", ".join(indices.why)
    if indices.is_empty:
        return IndexRange("proved", None, None, sizes, "there is no index")
    if all(map(_is_inside, low, high, sizes)):
        return IndexRange("proved", low, high, sizes, why)
    # Where both ends of an interval are reached, one beyond the axis is an index beyond it.
    is_reached = indices.is_exact or scope.is_constant(operation.inputs[1])
    if is_reached and elements_of(indices.sizes) and None not in sizes:
        return IndexRange("out-of-range", low, high, sizes, why)
    unsized = f"the size of {operation.inputs[0]}" if None in sizes else ""
    stop = ", ".join(indices.stops) or unsized or why
    return IndexRange("not-proved", low, high, sizes, why, input=stop)


def _coordinates(indices: Bounds, operator: str) -> Array:
    """The bounds of each coordinate of a tuple, shape (coordinates, 2); (1, 2) if all are alike."""
    columns = indices.sizes[-1] if indices.sizes and not indices.is_empty else None
    if operator != "GatherND" or columns is None or columns > COLUMNS:
        return indices.whole.reshape(1, 2)
    rows = hull(indices.bounds, range(indices.bounds.ndim - 2))
    return np.broadcast_to(rows.reshape(-1, 2), (columns, 2))


def _ends(bounds: Array, data_type: str) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
    """The least and the greatest numbers; None where the data type alone bounds them."""
    limits = INTEGERS.get(data_type, UNBOUNDED)
    low, high = (
        tuple(None if end == limit else end for end in ends)
        for ends, limit in zip(bounds.T.tolist(), limits, strict=True)
    )
    return low, high


def _is_inside(low: int | None, high: int | None, size: int | None) -> bool:
    """Whether all indices of an interval are in range of an axis; False where one is not known."""
    if low is None or high is None or size is None:
        return False
    return -size <= low <= high < size
