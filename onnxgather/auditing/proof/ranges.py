"""The walk through a network: the bounds of each value, in subgraphs and functions too.

The bounds of the indices of a gather and the sizes of its axes then prove that the
indices are in range, or do not prove it.
"""

from __future__ import annotations

import itertools
from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal

import msgspec
import numpy as np
import onnx

from onnxgather.auditing.algebra.bounds import (
    COLUMNS,
    ELEMENTS,
    FLOATS,
    INTEGERS,
    LIMITS,
    Bounds,
    bounds_of_array,
    elements_of,
    greatest,
    hull,
    interval,
    joined,
    least,
    merged_reasons,
    stacked,
    taken_apart,
    unknown,
    widened,
)
from onnxgather.auditing.algebra.sizes import (
    MOST,
    MOST_OF_INPUT,
    AnySize,
    AnySizes,
    NodeName,
    Size,
    Symbol,
    first_lost_by,
    high_of,
    in_named,
    is_made_since,
    larger,
    lesser,
    low_of,
    mark,
    new_symbols,
    size_from,
    unknown_size,
)
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.auditing.operators.index_operators import (
    RANGE_GIVEN,
    Coordinate,
    coordinates_of,
    operator_of,
)
from onnxgather.auditing.operators.output_bounds import (
    ELEMENTWISE,
    QUIET,
    TRANSFERS,
)
from onnxgather.auditing.operators.output_bounds_order import (
    COMPARISONS,
    in_both,
    where_compared,
)
from onnxgather.auditing.operators.output_bounds_table import LARGEST_SIZE
from onnxgather.auditing.proof.alike import Alike
from onnxgather.auditing.proof.columns import ColumnDifference, difference_of
from onnxgather.auditing.proof.contract import Condition, NamedSizes, open_sizes
from onnxgather.auditing.proof.earlier import EarlierGraph
from onnxgather.core.checks import check_type
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.network import (
    Dimensions,
    Network,
    Operation,
    Scope,
)
from onnxgather.core.model.values import ValueType, numbers_in
from onnxgather.core.public import public

WEIGHTS = 2**16
"""Constants of more elements are not read, unless they are integers."""

MOST_READ = 2**26
"""Constants of integers with more elements are not read."""

KEPT = 2**23
"""The most bounds that all large values together keep of their elements.

Later values keep only the bounds of all their elements.
"""

DEEPEST = 2
"""The iterations of a loop inside this many other loops are not followed."""

PATIENCE = 3
"""The bounds that still move after this many iterations of a loop are widened."""

_COUNTING = ("Compress", "NonMaxSuppression", "NonZero", "Range", "Unique")
"""The operators whose outputs have sizes that depend on elements, not on sizes."""

_CONTROL = ("If", "Loop", "Scan")
"""The operators whose bodies are followed."""

NESTED = 12
"""A condition of Where is followed through at most this many operations."""


def ranges_of(
    network: Network,
    conditions: Iterable[Condition] = (),
    allow_empty: bool = False,
    seen: Mapping[Scope, Mapping[str, ValueType]] | None = None,
    earlier: EarlierGraph | None = None,
    named: NamedSizes | None = None,
    allow_negative: bool = True,
) -> Ranges:
    """Return the bounds of the values of a network, for the sizes it was read with.

    The types and sizes of the values are written to the scopes of the network.

    Args:
        network: The network.
        conditions: What is true of its inputs.
        allow_empty: Whether its open sizes are at least 0, not at least 1.
        seen: The types and sizes of values in a run. The bounds then hold for these
            alone.
        earlier: Another graph of the same model with the same inputs, whose bounds are
            used again. It was walked with the same conditions and sizes.
        named: The dimensions of the sizes that conditions name; None for those that
            the network leaves open. A size in it may be given.
        allow_negative: Whether an index below 0 may count from the end if it depends
            on an input; else it counts as out of range.
    """
    conditions = list(conditions)
    check_type("allow_empty", allow_empty, "True or False", bool)
    if earlier is None:
        sizes = _open_sizes(network, conditions, allow_empty)
    else:
        sizes = earlier.sizes
    all_sizes = {**_given_sizes(network, named or {}), **sizes}
    ranges = Ranges(seen or {}, sizes=sizes, main=network.main, earlier=earlier)
    ranges.allow_negative = allow_negative
    ranges.differences = _differences(conditions, all_sizes)
    inputs = [
        input_bounds(network, name, all_sizes, conditions)
        for name in network.main.inputs
    ]
    ranges.evaluate(network.main, inputs)
    for scope in network.uncalled.values():
        ranges.evaluate(scope, [unknown("", None, name) for name in scope.inputs])
    return ranges


def _open_sizes(
    network: Network, conditions: Sequence[Condition], allow_empty: bool
) -> dict[str, Size]:
    """Return the open sizes of the inputs, with what the conditions say of them."""
    symbols = _symbols(network, allow_empty)
    for condition in conditions:
        if condition.of == "size":
            _limit_symbol(network, symbols, condition)

    sizes = {name: Size({(symbol,): 1}) for name, symbol in symbols.items()}
    for condition in conditions:
        if condition.of != "sizes" or condition.high is None:
            continue
        try:
            size = size_from(condition.expression or "0", sizes)
        except KeyError:  # a size in it is given, so it is not open
            continue
        fact = condition.high - size
        if isinstance(fact, Size):
            for symbol in fact.symbols:
                symbol.facts.append(fact)
    return sizes


def _symbols(network: Network, allow_empty: bool) -> dict[str, Symbol]:
    """Return a symbol for each open size of the inputs, by its name."""
    # The number of elements limits a product of sizes. An input without elements may
    # have any sizes.
    with_elements: set[str] = set()
    for name, dimensions in network.dimensions.items():
        if not allow_empty and 0 not in (dimensions or ()):
            with_elements.add(name)

    symbols: dict[str, Symbol] = {}
    lowest = 0 if allow_empty else 1
    for name, places in open_sizes(network).items():
        tensors = {input_name for input_name, _ in places} & with_elements
        symbols[name] = Symbol(name, lowest, MOST_OF_INPUT, tensors=tensors)
    return symbols


def _limit_symbol(
    network: Network, symbols: Mapping[str, Symbol], condition: Condition
) -> None:
    """Tighten the limits of a symbol to those of a condition on one size."""
    dimensions = network.dimensions[condition.input or ""] or ()
    size = dimensions[condition.dim or 0]
    symbol = symbols.get(str(size))
    if symbol is None:  # the size is given
        return
    symbol.low = max(symbol.low, condition.low or 0)
    if condition.high is not None:
        symbol.high = min(symbol.high, condition.high)


def _given_sizes(network: Network, named: NamedSizes) -> dict[str, int]:
    """Return the sizes by their names that are numbers in a network."""
    numbers: dict[str, int] = {}
    for name, places in named.items():
        for input_name, dim in places:
            dimensions = network.dimensions.get(input_name) or ()
            size = dimensions[dim] if dim < len(dimensions) else name
            if isinstance(size, int):
                numbers[name] = size
    return numbers


def _differences(
    conditions: Iterable[Condition], sizes: Mapping[str, AnySize]
) -> dict[ColumnDifference, tuple[AnySize, AnySize]]:
    """Return the ends of the differences of columns that conditions are on.

    A difference without one of its ends may be beyond its data type, so it says
    nothing.
    """
    differences: dict[ColumnDifference, tuple[AnySize, AnySize]] = {}
    for condition in conditions:
        columns = condition.columns or ()
        if condition.of != "difference" or len(columns) != 2:
            continue
        low, high = _ends_of(condition, sizes)
        if low is None or high is None:
            continue
        difference = ColumnDifference(condition.input or "", *columns)
        if difference in differences:
            other_low, other_high = differences[difference]
            low = larger(low, other_low)
            high = lesser(high, other_high)
        differences[difference] = (low, high)
    return differences


def _ends_of(
    condition: Condition, sizes: Mapping[str, AnySize]
) -> tuple[AnySize | None, AnySize | None]:
    """Return the ends of a condition on elements, numbers or open sizes.

    None for an open end, and for an expression of which a size is not known.
    """
    ends: list[AnySize | None] = [condition.low, condition.high]
    expressions = (condition.low_expression, condition.high_expression)
    for side, expression in enumerate(expressions):
        if expression is None:
            continue
        with suppress(KeyError):
            ends[side] = size_from(expression, sizes)
    low, high = ends
    return low, high


def input_bounds(
    network: Network,
    name: str,
    sizes: Mapping[str, AnySize],
    conditions: Sequence[Condition] = (),
) -> Bounds:
    """Return the bounds of a graph input.

    Args:
        network: The network.
        name: The name of the input.
        sizes: The open sizes, and those that are given, by their names.
        conditions: What is true of the inputs.
    """
    dimensions = network.dimensions[name]
    data_type = network.main.types[name].data_type
    shape: AnySizes | None = None
    if dimensions is not None:
        shape = tuple(sizes[n] if isinstance(n, str) else n for n in dimensions)
    value = unknown(data_type, shape, name)

    own_conditions = [
        condition
        for condition in conditions
        if condition.of == "values" and condition.input == name
    ]
    if not own_conditions:
        return value
    column_count = _column_count(dimensions, own_conditions)
    ends = np.repeat(value.whole.reshape(1, 2), column_count or 1, axis=0)
    is_covered = np.zeros(len(ends), bool)
    for condition in own_conditions:
        columns = condition.columns
        # The input lacks these columns; 0 columns stand for an unknown number, or too
        # many. Without the condition the range is wider, so nothing false is proved.
        if columns and max(columns) >= column_count:
            continue
        rows = slice(None) if columns is None else list(columns)
        is_covered[rows] = True
        low_end, high_end = _ends_of(condition, sizes)
        # A float has no open size as a bound.
        if data_type in FLOATS:
            low_end = None if low_end is None else low_of(low_end)
            high_end = None if high_end is None else high_of(high_end)
        if low_end is not None:
            ends[rows, :1] = greatest(ends[rows, :1], _array_of(low_end, ends))
        if high_end is not None:
            ends[rows, 1:] = least(ends[rows, 1:], _array_of(high_end, ends))

    # NaN is in no range: it is only where no condition is.
    nan = value.nan and not is_covered.all()
    low = ends[:, :1]
    high = ends[:, 1:]
    why = (f"{RANGE_GIVEN} {name}",)
    return interval(data_type, shape, low, high, nan, why=why)


def _array_of(end: AnySize, like: Array) -> Array:
    """Return an end as an array of the type of others."""
    array = np.empty((1, 1), like.dtype)
    array[0, 0] = end
    return array


def _column_count(
    dimensions: Dimensions | None, conditions: Sequence[Condition]
) -> int:
    """Return the number of columns to keep bounds of; 0 if it is open or too large."""
    if not dimensions or not any(condition.columns for condition in conditions):
        return 1
    count = dimensions[-1]
    if isinstance(count, str) or count > ELEMENTS:
        return 0
    return count


class Ranges:
    """The bounds of the values of a network."""

    def __init__(
        self,
        seen: Mapping[Scope, Mapping[str, ValueType]],
        writes_types: bool = True,
        sizes: Mapping[str, Size] | None = None,
        main: Scope | None = None,
        earlier: EarlierGraph | None = None,
    ) -> None:
        self.sizes: Mapping[str, Size] = sizes or {}
        """The open sizes of the inputs of the network, by name."""
        self.allow_negative = True
        """Whether an index below 0 that depends on an input counts from the end."""
        self.differences: Mapping[ColumnDifference, tuple[AnySize, AnySize]] = {}
        """The ends of differences of columns, which conditions give."""
        self.alike = earlier.alike if earlier else Alike()
        """What operations have computed, for others that are alike."""
        self._main = main
        self._earlier = earlier
        self._seen = seen
        self._writes_types = writes_types
        self._values: dict[Scope, MutableMapping[str, Bounds]] = {}
        self._producers: dict[Scope, dict[str, Operation]] = {}
        self._kept = 0
        """How many bounds all large values together have."""
        self._depth = 0
        """How many loops the walk is in."""
        self.computed = 0
        """How many values were computed."""

    def value(self, scope: Scope, name: str) -> Bounds:
        """Return the bounds of a value of a scope, or of a scope around it."""
        own_values = self._values.get(scope)
        if own_values is not None and name in own_values:
            return own_values[name]
        owner = scope.owner(name) or scope
        values = self._values.get(owner)
        if values is not None and name in values:
            return values[name]
        data_type, sizes = scope.type_of(name)
        value = unknown(data_type, sizes, name)
        count = elements_of(sizes)
        most = MOST_READ if data_type in LIMITS else WEIGHTS
        if not isinstance(count, int) or count > most:
            return value
        tensor = owner.tensor(name)
        if tensor is not None:
            value = self._constant(owner, name, tensor, value)
        value = self._shared(owner, name, value)
        # The walk may not have come to the owner: it may be a body of an unknown
        # operator.
        self._values.setdefault(owner, {})[name] = value
        return value

    def _constant(
        self, scope: Scope, name: str, tensor: onnx.TensorProto, nothing: Bounds
    ) -> Bounds:
        """Return the value of a constant.

        Args:
            scope: The scope that has the constant.
            name: Its name.
            tensor: The constant.
            nothing: The value if it cannot be read.
        """
        if self._earlier is not None and scope is self._main:
            same = self._earlier.constant(name, tensor)
            if same is not None:
                return same

        def read() -> Bounds:
            value = nothing
            # Its file may be missing: a run would report it.
            with suppress(OnnxGatherError):
                array = scope.constant(name)
                if array is not None:
                    value = bounds_of_array(nothing.data_type, array)
            return self._limited(value)

        return self.alike.constant(tensor, read)

    def _shared(self, scope: Scope, name: str, value: Bounds) -> Bounds:
        """Return a value; that of the earlier graph if it is the same there."""
        if self._earlier is None or scope is not self._main:
            return value
        return self._earlier.shared(name, value)

    def _limited(self, value: Bounds) -> Bounds:
        """Return the value, without bounds of its elements if many are kept already."""
        count = value.bounds.size
        if count <= 2 * COLUMNS:
            return value
        self._kept += count
        if self._kept <= KEPT:
            return value
        every_axis = range(value.bounds.ndim - 1)
        return replace(value, bounds=hull(value.bounds, every_axis))

    def evaluate(self, scope: Scope, inputs: Sequence[Bounds]) -> list[Bounds]:
        """Compute the bounds of each value of a scope; return those of its outputs."""
        self._values[scope] = {}
        self._producers[scope] = {}
        for name, value in zip(scope.inputs, inputs, strict=False):
            self._keep(scope, name, value)
        self._run(scope, scope.operations)
        return [self.value(scope, name) for name in scope.outputs]

    def again(
        self,
        scope: Scope,
        operations: Sequence[Operation],
        values: Mapping[str, Bounds],
    ) -> Ranges:
        """Return the bounds with other values; only some operations are computed anew.

        Args:
            scope: A scope.
            operations: The operations of the scope to compute, in their order.
            values: The bounds that replace those of values of the scope.
        """
        changed = self._same_network()
        changed._producers[scope] = self._producers[scope]
        of_scope = ChainMap(dict(values), self._values[scope])
        return changed._ran(scope, operations, of_scope)

    def anew(
        self,
        scope: Scope,
        operations: Sequence[Operation],
        values: Mapping[str, Bounds],
    ) -> Ranges:
        """Return the bounds of some operations alone, of given values and constants.

        Args:
            scope: A scope.
            operations: Operations of the scope, in their order.
            values: The bounds of the values that they take, besides constants.
        """
        changed = self._same_network()
        changed._producers[scope] = {}
        return changed._ran(scope, operations, dict(values))

    def _ran(
        self,
        scope: Scope,
        operations: Sequence[Operation],
        values: MutableMapping[str, Bounds],
    ) -> Ranges:
        """Compute operations of a scope from the values in it; return these bounds."""
        self._values[scope] = values
        self._run(scope, operations)
        return self

    def _same_network(self) -> Ranges:
        """Return bounds of the same network, without values."""
        changed = Ranges(self._seen, writes_types=False, main=self._main)
        changed.alike = self.alike
        changed.allow_negative = self.allow_negative
        changed.differences = self.differences
        return changed

    def coordinates(self, scope: Scope, operation: Operation) -> list[Coordinate]:
        """Return the coordinates of the indices of an operation."""
        return coordinates_of(self.given(scope, operation), self.allow_negative)

    def _run(self, scope: Scope, operations: Sequence[Operation]) -> None:
        """Compute the bounds of the outputs of operations of a scope."""
        for operation in operations:
            outputs = operation.outputs
            self.computed += len(outputs)
            # A constant: `value` reads it.
            if not operation.bodies and all(name in scope.stored for name in outputs):
                continue
            call = self.given(scope, operation)
            if self._put_earlier(scope, call):
                continue
            typed = self._typed(scope, call)
            results = self._output_bounds(scope, typed)
            for name, value in zip(outputs, results, strict=False):
                value = self._limited_difference(scope, operation, value)
                self._keep(scope, name, _reasoned(call, value), operation)
                self._producers[scope][name] = operation

    def _typed(self, scope: Scope, call: Call) -> Call:
        """Return an operation with the types of its outputs."""
        operation = call.operation
        if "function" in operation.bodies or operation.operator in _CONTROL:
            return call
        inferred = self.alike.types(call, keeps=self._writes_types)
        types: list[OpenType] = []
        for name, output in zip(operation.outputs, inferred, strict=True):
            data_type = output.data_type
            if not data_type and name in scope.types:
                data_type = scope.types[name].data_type
            types.append(OpenType(data_type, output.sizes))
        return replace(call, types=types)

    def _limited_difference(
        self, scope: Scope, operation: Operation, value: Bounds
    ) -> Bounds:
        """Return the value of an operation, within the ends that conditions give."""
        if not self.differences or scope is not self._main:
            return value
        if value.data_type not in INTEGERS:
            return value
        difference = difference_of(self, scope, operation)
        if difference is None or difference not in self.differences:
            return value
        low, high = self.differences[difference]
        # Beyond its data type, the difference would wrap around.
        lowest, highest = INTEGERS[value.data_type]
        if low_of(low) < lowest or high_of(high) > highest:
            return value
        ends = np.empty((1, 2), object)
        ends[0] = low, high
        return interval(
            value.data_type,
            value.sizes,
            greatest(value.low, ends[:, :1]),
            least(value.high, ends[:, 1:]),
            value.nan,
            why=value.why,
            stops=value.stops,
        )

    def _put_earlier(self, scope: Scope, call: Call) -> bool:
        """Put what the earlier graph has for an operation; return whether it has it."""
        if self._earlier is None or scope is not self._main:
            return False
        operation = call.operation
        # A difference that has an end depends on more than the bounds of its operands.
        if self.differences and operation.operator == "Sub":
            return False
        outputs = self._earlier.outputs(scope, operation, call.inputs)
        if outputs is None:
            return False
        for name, value in zip(operation.outputs, outputs, strict=True):
            self._put(scope, name, value)
            self._producers[scope][name] = operation
        return True

    def producer(self, scope: Scope, name: str) -> Operation | None:
        """Return the operation of a scope that computes a value."""
        return self._producers.get(scope, {}).get(name)

    def given(self, scope: Scope, operation: Operation) -> Call:
        """Return an operation with the bounds of its inputs."""
        inputs = tuple(
            self.value(scope, name) if name else None for name in operation.inputs
        )
        return Call(operation, inputs, scope.version)

    def _keep(
        self,
        scope: Scope,
        name: str,
        value: Bounds,
        operation: Operation | None = None,
    ) -> None:
        """Keep a value, with a new symbol for each size that is not known.

        Args:
            scope: The scope of the value.
            name: Its name.
            value: The value.
            operation: What computes it; None for an input.
        """
        seen_type = self._seen.get(scope, {}).get(name)
        if seen_type is not None:
            value = _with_seen_type(value, seen_type)
        if value.sizes is not None:
            sizes = tuple(map(_kept_size, value.sizes))
            if operation is not None:
                self._note_lost(scope, operation, sizes)
            if sizes != value.sizes:
                value = value.resized(sizes)
        value = self._limited(value)
        self._put(scope, name, self._shared(scope, name, value))

    def _note_lost(
        self,
        scope: Scope,
        operation: Operation,
        kept: Sequence[AnySize],
    ) -> None:
        """Note which node lost the new symbols in the sizes of an output.

        Args:
            scope: The scope of the operation.
            operation: The operation.
            kept: The sizes, with new symbols.
        """
        for axis, size in enumerate(kept):
            for symbol in new_symbols(size):
                earlier: NodeName | None = None
                # A count that the operator makes is lost by no other node.
                if operation.operator not in _COUNTING:
                    earlier = self._lost_before(scope, operation, axis, len(kept))
                symbol.lost_by = earlier or (operation.label, operation.operator)

    def _lost_before(
        self, scope: Scope, operation: Operation, axis: int, rank: int
    ) -> NodeName | None:
        """Return which node lost a size of an input of an operation, if one did.

        A size of the same axis comes first, and a rank that is lost comes last.
        """
        of_axis: list[AnySize] = []
        of_all: list[AnySize] = []
        unranked: list[str] = []
        for name in filter(None, operation.inputs):
            sizes = self.value(scope, name).sizes
            if sizes is None:
                unranked.append(name)
                continue
            of_all += [size for size in sizes if size is not None]
            if len(sizes) == rank:
                of_axis.append(sizes[axis] or 0)
        earlier = first_lost_by(*of_axis) or first_lost_by(*of_all)
        if earlier is None and unranked:
            return self.rank_lost_by(scope, unranked[0])
        return earlier

    def rank_lost_by(self, scope: Scope, name: str) -> NodeName | None:
        """Return the first node on the way to a value behind which its rank is lost.

        None means that the value has a rank, or that an input of the model or of a body
        has none.
        """
        if self.value(scope, name).sizes is not None:
            return None
        scope = scope.owner(name) or scope
        producer = self.producer(scope, name)
        if producer is None:
            return None
        own = (producer.label, producer.operator)
        return self._lost_before(scope, producer, 0, -1) or own

    def _put(self, scope: Scope, name: str, value: Bounds) -> None:
        """Put a value with the others of its scope, and write its type."""
        self._values[scope][name] = value
        if self._writes_types:
            data_type = value.data_type or scope.type_of(name).data_type
            scope.types[name] = ValueType(data_type, numbers_in(value.sizes))

    def _output_bounds(self, scope: Scope, call: Call) -> Sequence[Bounds]:
        """Return the bounds of the outputs of an operation."""
        operation = call.operation
        # Case 1: a function.
        if "function" in operation.bodies:
            inputs = [value or unknown("", None) for value in call.inputs]
            return self.evaluate(operation.bodies["function"], inputs)

        # Case 2: If, Loop or Scan. Before version 9 a Scan has a batch, and its lengths
        # are in front of the state.
        nothing_known = [unknown(*output_type) for output_type in call.types]
        is_old_scan = operation.operator == "Scan" and call.version < 9
        is_control = operation.operator in _CONTROL and not is_old_scan
        if is_control and not operation.domain:
            depth = self._depth
            try:
                return self._control_bounds(call)
            except (LookupError, TypeError, ValueError):  # it breaks a rule of ONNX
                self._depth = depth
                return nothing_known

        # Case 3: an operator of the table, or one that is not known.
        for body in operation.bodies.values():
            self._evaluate_alone(body)
        if operation.domain or operation.operator not in TRANSFERS:
            return nothing_known
        if operation.operator == "Where":
            # A comparison may have too few inputs, or too many.
            with suppress(LookupError, TypeError, ValueError):
                call = self._refined(scope, call)
        results = _transferred(call)
        # A broken operation may have more outputs than its operator.
        return [*results, *nothing_known[len(results) :]]

    def _evaluate_alone(self, body: Scope) -> None:
        """Compute the values of a body whose inputs may be anything of their types.

        The sizes that it declares of its inputs may be wrong.
        """
        inputs: list[Bounds] = []
        for name in body.inputs:
            data_type = body.types[name].data_type
            inputs.append(unknown(data_type, None, name))
        self.evaluate(body, inputs)

    def _control_bounds(self, call: Call) -> Sequence[Bounds]:
        match call.operator:
            case "If":
                return self._if_bounds(call)
            case "Loop":
                return self._loop_bounds(call)
            case _:
                return self._scan_bounds(call)

    def _if_bounds(self, call: Call) -> Sequence[Bounds]:
        """Return the outputs of the branch that runs, or those of both, joined."""
        low, high = call.x.whole
        bodies = call.operation.bodies
        then_outputs = self.evaluate(bodies["then_branch"], [])
        else_outputs = self.evaluate(bodies["else_branch"], [])
        if low == high:
            return then_outputs if low else else_outputs
        pairs = zip(then_outputs, else_outputs, strict=True)
        return [joined(pair) for pair in pairs]

    def _loop_bounds(self, call: Call) -> Sequence[Bounds]:
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
        why = (f"the iterations of {call.operation.label}",)
        iteration = interval("INT64", sizes, 0, most_trips - 1, why=why)
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

    def _scan_bounds(self, call: Call) -> Sequence[Bounds]:
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
        state = list(first)

        def run() -> list[Bounds]:
            start = mark()
            outputs = self.evaluate(body, [*before, *state, *after])
            return [_closed_since(value, start) for value in outputs[skipped:]]

        if self._depth == DEEPEST:
            state = [unknown("", None, *value.stops) for value in first]
            return state, run()
        self._depth += 1
        for iteration in itertools.count(1):
            pairs = zip(state, run(), strict=False)
            moved = [joined(pair) for pair in pairs]
            if all(map(_is_covered, state, moved)):
                break
            is_patient = iteration <= PATIENCE
            state = moved if is_patient else list(map(widened, state, moved))
        # What holds for any iteration still holds an iteration later, and may be less.
        state = [joined(pair) for pair in zip(first, run(), strict=False)]
        outputs = run()
        self._depth -= 1
        last = [joined(pair) for pair in zip(first, outputs, strict=False)]
        return last, outputs

    def _refined(self, scope: Scope, call: Call) -> Call:
        """Return a Where, each of whose values has the bounds of the case it is for."""
        condition, *names = call.operation.inputs
        values = list(call.inputs)
        for position, holds in ((1, True), (2, False)):
            assumed: dict[str, Bounds] = {}
            self._assume(scope, condition, holds, assumed, NESTED)
            if assumed:
                name = names[position - 1]
                values[position] = self._under(scope, name, assumed, NESTED)
        return replace(call, inputs=tuple(values))

    def _assume(
        self,
        scope: Scope,
        name: str,
        holds: bool,
        assumed: dict[str, Bounds],
        depth: int,
    ) -> None:
        """Add to `assumed` the bounds of values if a condition is true, or is false."""
        producer = self._producers[scope].get(name)
        if producer is None or producer.domain or not depth:
            return
        inputs = producer.inputs
        operands = [self.value(scope, operand) for operand in inputs if operand]
        if producer.operator == "Not":
            self._assume(scope, inputs[0], not holds, assumed, depth - 1)
        elif producer.operator == ("And" if holds else "Or"):
            for operand in inputs:
                self._assume(scope, operand, holds, assumed, depth - 1)
        elif producer.operator in (*COMPARISONS, "Equal"):
            values = where_compared(producer.operator, holds, *operands)
            for operand, value in zip(inputs, values, strict=True):
                if operand in assumed:
                    value = in_both(assumed[operand], value)
                assumed[operand] = value

    def _under(
        self, scope: Scope, name: str, assumed: dict[str, Bounds], depth: int
    ) -> Bounds:
        """Return a value, computed by elementwise operations from assumed values."""
        if name in assumed:
            return assumed[name]
        value = self.value(scope, name)
        producer = self._producers[scope].get(name)
        if producer is None or producer.domain or not depth:
            return value
        if producer.operator not in ELEMENTWISE:
            return value
        inputs: list[Bounds | None] = []
        has_changed = False
        for input_name in producer.inputs:
            if not input_name:
                inputs.append(None)
                continue
            new_input = self._under(scope, input_name, assumed, depth - 1)
            inputs.append(new_input)
            if new_input is not self.value(scope, input_name):
                has_changed = True
        if not has_changed:
            return value
        types = [OpenType(value.data_type, value.sizes)]
        call = Call(producer, tuple(inputs), scope.version, types)
        results = _transferred(call)
        return _reasoned(call, results[0]) if results else value


def _kept_size(size: AnySize | None) -> AnySize:
    """Return a size; a new unknown size if it is not known or is too large to keep."""
    # A tensor without elements may have any size.
    if size is None:
        return unknown_size(LARGEST_SIZE)
    if isinstance(size, Size) and size.is_large:
        return unknown_size(LARGEST_SIZE)
    return size


def _with_seen_type(value: Bounds, seen: ValueType) -> Bounds:
    """Return a value with the type and the sizes that it has in a run."""
    sizes = value.sizes or seen.sizes or ()
    pairs = zip(seen.sizes or (), sizes, strict=True)
    # An open size stays if the run has no number for it.
    new_sizes = tuple(
        size if isinstance(size, int) or number is None else number
        for number, size in pairs
    )
    data_type = value.data_type or seen.data_type
    return replace(value.resized(new_sizes), data_type=data_type)


def _transferred(call: Call) -> Sequence[Bounds]:
    """Return the bounds of an operation of the table; nothing if it knows none."""
    try:
        with np.errstate(all="ignore"):
            results = TRANSFERS[call.operator](call)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return []  # it breaks a rule of ONNX
    if isinstance(results, Bounds):
        return [results]
    return results or []


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


def _reasoned(call: Call, value: Bounds) -> Bounds:
    """Return the value with what its bounds come from, or what leaves it without."""
    # Case 1: the operator said it.
    if value.why or value.stops:
        return value
    # Case 2: each element is known.
    if value.is_exact:
        return replace(value, why=("constant",))
    # Case 3: no bounds.
    why = merged_reasons(v.why for v in call.given)
    stops = merged_reasons(v.stops for v in call.given)
    if not value.is_bounded:
        operation = call.operation
        name = f"{operation.operator} {operation.label}"
        return replace(value, why=why, stops=stops or (name,))
    # Case 4: bounds in spite of an input without bounds come from the operator.
    is_quiet = call.operator in QUIET
    if stops:
        kept = stops if is_quiet else ()
        return replace(value, why=(call.operator,), stops=kept)
    # Case 5: bounds come from the inputs and the operator.
    reasons = tuple(reason for reason in why if reason != "constant")
    own = () if is_quiet else (call.operator,)
    return replace(value, why=merged_reasons([reasons, own]) or ("constant",))


SizesFrom = Literal["file", "given", "run"]


class Found(msgspec.Struct, frozen=True):
    """An index out of range."""

    source: Literal["constant", "inputs"]
    """A constant of the model, or a run with the given inputs."""
    at: tuple[int, ...]
    """Its coordinates in the indices; those of the first index if several are out of
    range."""
    value: int
    count: int
    """How many indices are out of range."""
    providers: dict[str, str]
    """What each provider does with such an index, by the provider's short name."""
    name: str = "indices"
    """The input that holds the index, as the operator's definition has it."""
    coordinate: int = 0
    """Which of the coordinates that the range has."""
    low: int = 0
    """The least index in range there."""


class Lost(msgspec.Struct, frozen=True):
    """The node behind which the size of an axis is not known."""

    node: str
    op: str
    told_by: str | None = None
    """Options with which an audit knows the size, such as `--shape in0=1,3,64,64`; None
    if no such options are known."""


class GivenEnd(msgspec.Struct, frozen=True):
    """An end of the range given of an input, which leads to an index out of range."""

    source: Literal["range", "tokenizer"]
    """What gives it: a range of the input, or the tokenizer that computes its ids."""
    input: str
    """The graph input."""
    value: int
    """The element of the input: the least or the greatest one that is given."""
    index: int | None
    """The index that it leads to; None if that is not a single known number."""
    coordinate: int
    """Which of the coordinates that the range has."""


@public
class IndexRange(msgspec.Struct, frozen=True):
    """The range of the indices of a gather, a number for each coordinate of a tuple.

    Example:
        >>> first, *_ = og.audit("models/networks/keywords.onnx").gathers
        >>> first.range.state, first.range.low, first.range.high, first.range.size
        ('proved', (1,), (1,), (2,))
    """

    state: Literal["proved", "proved-if", "not-proved", "out-of-range"]
    """Proved: each index is in range, or there is no index. Proved if: the same if the
    inputs meet the conditions. Out of range: an index is known that is not in range: a
    constant, one of a run, or one that a given range of an input leads to."""
    low: tuple[int | None, ...] | None
    """The smallest index, before negative indices are counted from the end. A number is
    None if it is unbounded, and all is None if there is no index."""
    high: tuple[int | None, ...] | None
    size: tuple[int | None, ...] | None
    """The size of the axis that is indexed."""
    why: str
    """The proof in words, such as "constant"; without a proof, the operators behind the
    bounds."""
    sizes_from: SizesFrom = "file"
    """The sizes for which the range holds: those of the file, those given, or those of
    a run with the inputs given."""
    input: str | None = None
    """What stops the proof: a graph input, or an operator."""
    found: Found | None = None
    seen: tuple[int, int] | None = None
    """The least and the greatest index in a run with the inputs given."""
    conditions: tuple[Condition, ...] = ()
    """The conditions on the inputs under which the range is proved."""
    level: str | None = None
    """The level of ONNX Runtime's optimizations whose graph decides the state; None if
    the file decides it."""
    lost: Lost | None = None
    """What lost the size of an axis that stops the proof."""
    given: GivenEnd | None = None
    """What shows that an index is out of range if neither a constant nor a run does:
    an end of a given range. The conditions say where the gather is proved."""


def proof_of(ranges: Ranges, scope: Scope, operation: Operation) -> IndexRange:
    """Return the range of the indices of an operation, and what is proved of it."""
    coordinates = ranges.coordinates(scope, operation)
    row = operator_of(operation)
    low = tuple(_told_number(coordinate, 0) for coordinate in coordinates)
    high = tuple(_told_number(coordinate, 1) for coordinate in coordinates)
    sizes = numbers_in([coordinate.size for coordinate in coordinates]) or ()
    why = ", ".join(merged_reasons(coordinate.value.why for coordinate in coordinates))

    # Case 1: each index is in range.
    if all(coordinate.value.is_empty for coordinate in coordinates):
        return IndexRange("proved", None, None, sizes, "there is no index")
    if row and row.hardened == "nothing":
        by_design = "any index is in range by design"
        return IndexRange("proved", low, high, sizes, by_design)
    outside = [coordinate for coordinate in coordinates if not coordinate.is_inside]
    if not outside:
        reasons = [why] if why else []
        for coordinate in coordinates:
            size = coordinate.size
            if isinstance(size, Size) and in_named(size) == size:
                reasons.append(f"at most {coordinate.high} of {size}")
        return IndexRange("proved", low, high, sizes, ", ".join(reasons))

    # Case 2: an index is out of range, whatever the inputs are.
    for coordinate in outside:
        if _is_surely_outside(scope, operation, coordinate):
            return IndexRange("out-of-range", low, high, sizes, why)

    # Case 3: neither is proved.
    stop = _stop_of(operation, outside) or why
    lost = _lost_size(ranges, scope, operation, outside)
    return IndexRange("not-proved", low, high, sizes, why, input=stop, lost=lost)


def _lost_size(
    ranges: Ranges,
    scope: Scope,
    operation: Operation,
    outside: Sequence[Coordinate],
) -> Lost | None:
    """Return the node behind which the size of an axis of coordinates is not known."""
    for coordinate in outside:
        size = coordinate.size
        if isinstance(size, Size) and size.lost_by:
            return Lost(*size.lost_by)
        if size is None:
            data = operation.inputs[coordinate.input.data]
            lost_by = ranges.rank_lost_by(scope, data)
            if lost_by is not None:
                return Lost(*lost_by)
    return None


def _stop_of(operation: Operation, outside: Sequence[Coordinate]) -> str:
    """Return what stops the proof of coordinates; "" if nothing is known to."""
    # A node without its data input raises IndexError here: ONNX does not allow it.
    unsized = [
        operation.inputs[coordinate.input.data]
        for coordinate in outside
        if not isinstance(coordinate.size, int)
    ]
    unsized = [name for name in unsized if name]
    stops = ", ".join(merged_reasons(coordinate.value.stops for coordinate in outside))
    if stops:
        return stops
    return f"the size of {unsized[0]}" if unsized else ""


def _is_surely_outside(
    scope: Scope, operation: Operation, coordinate: Coordinate
) -> bool:
    """Return whether there is an index that is surely out of range.

    If indices reach both ends of their interval and an end is beyond the axis, an index
    is beyond it.
    """
    value = coordinate.value
    name = coordinate.input.value_in(operation)
    if not value.is_exact and not scope.is_constant(name):
        return False
    if coordinate.is_within or not coordinate.is_exact:
        return False
    is_open = _number(coordinate, 0) is None or _number(coordinate, 1) is None
    limits = (coordinate.lowest, coordinate.size)
    if is_open or not all(isinstance(limit, int) for limit in limits):
        return False
    count = elements_of(value.sizes)
    return count is not None and count >= 1


_ASSUMED = {MOST, MOST - 1, MOST_OF_INPUT, MOST_OF_INPUT - 1}
"""The largest sizes and positions that proofs assume."""


def _told_number(coordinate: Coordinate, end: Literal[0, 1]) -> int | None:
    """Return the least (0) or the greatest (1) number of a coordinate to be told.

    It is None where `_number` is, and where the number is only what every proof
    assumes of sizes.
    """
    number = _number(coordinate, end)
    if number is None or abs(number) not in _ASSUMED:
        return number
    value = coordinate.value
    is_given = any(reason.startswith(RANGE_GIVEN) for reason in value.why)
    return number if is_given or value.why == ("constant",) else None


def _number(coordinate: Coordinate, end: Literal[0, 1]) -> int | None:
    """Return the least (0) or the greatest (1) number of a coordinate.

    It is None for an open size, and for the limit of the data type.
    """
    number = (coordinate.low, coordinate.high)[end]
    limits = INTEGERS.get(coordinate.value.data_type, INTEGERS["INT64"])
    if not isinstance(number, int) or number == limits[end]:
        return None
    return number
