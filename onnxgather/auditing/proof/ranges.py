"""The walk through a network: the bounds of each value, in subgraphs and functions too.

Each operation is looked at once, in order. Its bounds come from those of its inputs.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from onnxgather.auditing.algebra.bounds import (
    COLUMNS,
    INTEGERS,
    LIMITS,
    Bounds,
    bounds_of_array,
    elements_of,
    greatest,
    hull,
    interval,
    least,
    unknown,
)
from onnxgather.auditing.algebra.sizes import (
    AnySize,
    Size,
    high_of,
    low_of,
    unknown_size,
)
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.auditing.operators.index_operators import Coordinate, coordinates_of
from onnxgather.auditing.operators.output_bounds import (
    TRANSFERS,
    bounds_by_table,
    with_reasons,
)
from onnxgather.auditing.operators.output_bounds_table import LARGEST_SIZE
from onnxgather.auditing.proof.alike import Alike
from onnxgather.auditing.proof.columns import ColumnDifference, difference_of
from onnxgather.auditing.proof.contract import Condition, NamedSizes
from onnxgather.auditing.proof.control_flow import ControlFlow, has_own_types
from onnxgather.auditing.proof.input_bounds import (
    input_bounds,
    limited_differences,
    sizes_by_name,
    symbolic_sizes,
)
from onnxgather.auditing.proof.lost_by import note_lost
from onnxgather.auditing.proof.where_cases import in_cases
from onnxgather.core.checks import check_type
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.network import Network, Operation, Scope
from onnxgather.core.model.values import ValueType, numbers_in, value_type
from onnxgather.core.model.wire import ChangedFileError, Weight

WEIGHTS = 2**16
"""Constants of more elements are not read, unless they are integers."""

MOST_READ = 2**26
"""Constants of integers with more elements are not read."""

RELATED = {"Where", "Range"}
"""The operators whose bounds depend on more than the bounds of their inputs."""

KEPT = 2**23
"""The most bounds that all large values together keep of their elements.

Later values keep only the bounds of all their elements.
"""


def ranges_of(
    network: Network,
    conditions: Iterable[Condition] = (),
    allow_empty: bool = False,
    seen: Mapping[Scope, Mapping[str, ValueType]] | None = None,
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
        named: The dimensions of the sizes that conditions name; None for those that
            the network leaves open. A size in it may be given.
        allow_negative: Whether an index below 0 may count from the end if it depends
            on an input; else it counts as out of range.
    """
    conditions = list(conditions)
    check_type("allow_empty", allow_empty, "True or False", bool)
    sizes = symbolic_sizes(network, conditions, allow_empty)
    all_sizes = {**sizes_by_name(network, named or {}), **sizes}
    ranges = Ranges(
        seen,
        main=network.main,
        sizes=sizes,
        differences=limited_differences(conditions, all_sizes),
        allow_negative=allow_negative,
    )
    inputs = [
        input_bounds(network, name, all_sizes, conditions)
        for name in network.main.inputs
    ]
    ranges.evaluate(network.main, inputs)
    for scope in network.uncalled.values():
        ranges.evaluate(scope, [unknown("", None, name) for name in scope.inputs])
    return ranges


class Ranges:
    """The bounds of the values of a network.

    Args:
        seen: The types and sizes of values in a run.
        main: The main graph of the network.
        sizes: The open sizes of its inputs, by name.
        differences: The ends of differences of columns, which conditions give.
        allow_negative: Whether an index below 0 that depends on an input counts from
            the end.
        alike: What operations of the network have computed.
        writes_types: Whether the types of values are written to their scopes.
    """

    def __init__(
        self,
        seen: Mapping[Scope, Mapping[str, ValueType]] | None = None,
        *,
        main: Scope | None = None,
        sizes: Mapping[str, Size] | None = None,
        differences: Mapping[ColumnDifference, tuple[AnySize, AnySize]] | None = None,
        allow_negative: bool = True,
        alike: Alike | None = None,
        writes_types: bool = True,
    ) -> None:
        self.sizes: Mapping[str, Size] = sizes or {}
        """The open sizes of the inputs of the network, by name."""
        self.main = main
        """The main graph of the network."""
        self.alike = alike or Alike()
        """What operations have computed, for others that are alike."""
        self.computed = 0
        """How many values were computed."""
        self._seen = seen or {}
        self._differences = differences or {}
        self._allow_negative = allow_negative
        self._writes_types = writes_types
        self._control_flow = ControlFlow(self)
        self._values: dict[Scope, MutableMapping[str, Bounds]] = {}
        self._producers: dict[Scope, dict[str, Operation]] = {}
        self._in_bodies: Collection[Operation] | None = None
        """The operations to compute in bodies; None for all of them."""
        self._kept = 0
        """How many bounds all large values together have."""

    def evaluate(self, scope: Scope, inputs: Sequence[Bounds]) -> list[Bounds]:
        """Compute the bounds of each value of a scope; return those of its outputs."""
        self._values[scope] = {}
        self._producers[scope] = {}
        for name, value in zip(scope.inputs, inputs, strict=False):
            self._keep(scope, name, value)
        operations: Sequence[Operation] = scope.operations
        if self._in_bodies is not None:
            operations = [one for one in operations if one in self._in_bodies]
        self._run(scope, operations)
        return [self.value(scope, name) for name in scope.outputs]

    def again(
        self,
        scope: Scope,
        operations: Sequence[Operation],
        values: Mapping[str, Bounds],
        in_bodies: Collection[Operation] | None = None,
    ) -> Ranges:
        """Return the bounds with other values; only some operations are computed anew.

        Args:
            scope: A scope.
            operations: The operations of the scope to compute, in their order.
            values: The bounds that replace those of values of the scope.
            in_bodies: The operations to compute in the bodies of these; None for all.
                Nothing is known of the results of others.
        """
        changed = self._same_network()
        changed._in_bodies = in_bodies
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

    def coordinates(self, scope: Scope, operation: Operation) -> list[Coordinate]:
        """Return the coordinates of the indices of an operation."""
        return coordinates_of(self.given(scope, operation), self._allow_negative)

    def given(self, scope: Scope, operation: Operation) -> Call:
        """Return an operation with the bounds of its inputs."""
        inputs = tuple(
            self.value(scope, name) if name else None for name in operation.inputs
        )
        return Call(operation, inputs, scope.version)

    def producer(self, scope: Scope, name: str) -> Operation | None:
        """Return the operation of a scope that computes a value."""
        return self._producers.get(scope, {}).get(name)

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
        # The walk may not have come to the owner: it may be a body of an unknown
        # operator.
        self._values.setdefault(owner, {})[name] = value
        return value

    def _constant(
        self, scope: Scope, name: str, tensor: Weight, nothing: Bounds
    ) -> Bounds:
        """Return the value of a constant.

        Args:
            scope: The scope that has the constant.
            name: Its name.
            tensor: The constant.
            nothing: The value if it cannot be read.
        """

        def read() -> Bounds:
            value = nothing
            try:
                array = scope.constant(name)
                if array is not None:
                    value = bounds_of_array(nothing.data_type, array)
            except ChangedFileError:
                raise
            except OnnxGatherError:
                pass  # its file may be missing: a run would report it
            return self._limited(value)

        return self.alike.constant(tensor, read)

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

    def _same_network(self) -> Ranges:
        """Return bounds of the same network, without values."""
        return Ranges(
            self._seen,
            main=self.main,
            differences=self._differences,
            allow_negative=self._allow_negative,
            alike=self.alike,
            writes_types=False,
        )

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

    def _run(self, scope: Scope, operations: Sequence[Operation]) -> None:
        """Compute the bounds of the outputs of operations of a scope."""
        for operation in operations:
            outputs = operation.outputs
            self.computed += len(outputs)
            # A constant: `value` reads it.
            if not operation.bodies and all(name in scope.stored for name in outputs):
                continue
            call = self.given(scope, operation)
            is_shared = self._is_shared(scope, operation)
            kept = self.alike.outputs(call) if is_shared else None
            for name, value in zip(outputs, kept or (), strict=False):
                self._put(scope, name, value)
                self._producers[scope][name] = operation
            if kept is not None:
                continue
            self._compute(scope, call)
            if is_shared:
                values = [self.value(scope, name) for name in outputs]
                self.alike.keep_outputs(call, values)

    def _compute(self, scope: Scope, call: Call) -> None:
        """Compute the outputs of an operation of a scope."""
        operation = call.operation
        typed = self._typed(scope, call)
        results = self._output_bounds(scope, typed)
        for name, value in zip(operation.outputs, results, strict=False):
            value = self._limited_difference(scope, operation, value)
            # ONNX Runtime folds a Range of constants.
            if operation.operator == "Range":
                is_folded = all(map(scope.is_constant, operation.inputs))
                value = replace(value, is_range=not is_folded)
            self._keep(scope, name, with_reasons(call, value), operation)
            self._producers[scope][name] = operation

    def _is_shared(self, scope: Scope, operation: Operation) -> bool:
        """Return whether operations that are alike surely have the same outputs."""
        # What a trial computes is of no use to others, and what a loop computes may
        # hold for one iteration alone.
        if not self._writes_types or self._control_flow.is_in_loop:
            return False
        if operation.operator in RELATED or self._may_be_limited(operation):
            return False
        seen = self._seen.get(scope, {})
        return not any(name in seen for name in operation.outputs)

    def _may_be_limited(self, operation: Operation) -> bool:
        """Return whether an operation may compute a difference that has an end.

        A difference depends on more than the bounds of its operands.
        """
        return bool(self._differences) and operation.operator == "Sub"

    def _typed(self, scope: Scope, call: Call) -> Call:
        """Return an operation with the types of its outputs."""
        operation = call.operation
        if has_own_types(operation):
            return call
        types = self.alike.types(call, keeps=self._writes_types)
        if not all(output.data_type for output in types):
            types = _with_declared(types, operation, scope)
        return Call(operation, call.inputs, call.version, types)

    def _output_bounds(self, scope: Scope, call: Call) -> Sequence[Bounds]:
        """Return the bounds of the outputs of an operation."""
        operation = call.operation
        if operation.bodies:
            outputs = self._control_flow.outputs(call)
            if outputs is not None:
                return outputs
        nothing_known = [unknown(*output_type) for output_type in call.types]
        if operation.domain or operation.operator not in TRANSFERS:
            return nothing_known
        if operation.operator == "Where":
            # A comparison may have too few inputs, or too many.
            with suppress(LookupError, TypeError, ValueError):
                call = in_cases(self, scope, call)
        results = bounds_by_table(call)
        # A broken operation may have more outputs than its operator.
        return [*results, *nothing_known[len(results) :]]

    def _limited_difference(
        self, scope: Scope, operation: Operation, value: Bounds
    ) -> Bounds:
        """Return the value of an operation, within the ends that conditions give."""
        if not self._differences or scope is not self.main:
            return value
        if value.data_type not in INTEGERS:
            return value
        difference = difference_of(self, scope, operation)
        if difference is None or difference not in self._differences:
            return value
        low, high = self._differences[difference]
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
                note_lost(self, scope, operation, sizes)
            if sizes != value.sizes:
                value = value.resized(sizes)
        value = self._limited(value)
        self._put(scope, name, value)

    def _put(self, scope: Scope, name: str, value: Bounds) -> None:
        """Put a value with the others of its scope, and write its type."""
        self._values[scope][name] = value
        if self._writes_types:
            data_type = value.data_type or scope.type_of(name).data_type
            scope.types[name] = value_type(data_type, numbers_in(value.sizes))


def _with_declared(
    types: Iterable[OpenType], operation: Operation, scope: Scope
) -> list[OpenType]:
    """Return the types of outputs, with declared data types where none follows."""
    typed: list[OpenType] = []
    for name, output in zip(operation.outputs, types, strict=True):
        declared = scope.types.get(name, ValueType())
        data_type = output.data_type or declared.data_type
        typed.append(OpenType(data_type, output.sizes))
    return typed


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
