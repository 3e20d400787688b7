"""The walk through a network: the bounds of each value, in subgraphs and functions too.

Whether the indices of a gather are proved in range is read from it: their interval
beside the sizes of the axes.
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

from onnxgather.auditing.algebra.bounds import (
    COLUMNS,
    ELEMENTS,
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
    Size,
    Symbol,
    in_named,
    is_made_since,
    lesser,
    mark,
    size_from,
    unknown_size,
)
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.auditing.operators.index_operators import (
    Coordinate,
    coordinates_of,
    is_inside,
    operator_of,
)
from onnxgather.auditing.operators.output_bounds import ELEMENTWISE, QUIET, TRANSFERS
from onnxgather.auditing.operators.output_bounds_order import (
    COMPARISONS,
    met,
    where_compared,
)
from onnxgather.auditing.operators.output_types import output_types
from onnxgather.auditing.proof.contract import Condition, open_sizes
from onnxgather.core.checks import check_type
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.network import (
    MAY_DO_NOTHING,
    Dimensions,
    Network,
    Operation,
    Scope,
)
from onnxgather.core.model.values import ValueType, numbers_in

WEIGHTS, MOST_READ = 2**16, 2**26
"""Constants, and those of integers, of more elements are not read."""

KEPT = 2**23
"""The most bounds that are kept of elements of large values; of more, those of the
whole are."""

DEEPEST = 2
"""How deep a loop may be in others for its iterations to be followed."""

PATIENCE = 3
"""The iterations of a loop after which the bounds that still move are given up."""

_CONTROL = ("If", "Loop", "Scan")
"""The operators whose bodies are followed."""

NESTED = 12
"""Through how many operations a condition of Where is followed."""


def ranges_of(
    network: Network,
    conditions: Iterable[Condition] = (),
    allow_empty: bool = False,
    seen: Mapping[Scope, Mapping[str, ValueType]] | None = None,
) -> Ranges:
    """The bounds of the values of a network, for the sizes that it was read with.

    The types and sizes of its values are told to the scopes of the network.

    Args:
        network: The network.
        conditions: What holds of its inputs.
        allow_empty: Whether its open sizes count from 0, not from 1.
        seen: The types and sizes that values have in a run, for which alone the bounds then hold.
    """
    conditions = list(conditions)
    check_type("allow_empty", allow_empty, "True or False", bool)
    sizes = _open_sizes(network, conditions, allow_empty)
    named: dict[str, AnySize | None] = {**sizes}
    for (
        value
    ) in network.main.proto.input:  # with their sizes by the names of the model, too
        for dim, n in zip(
            value.type.tensor_type.shape.dim,
            network.dimensions.get(value.name) or (),
            strict=False,
        ):
            if dim.dim_param:
                named[dim.dim_param] = sizes[n] if isinstance(n, str) else n
    ranges = Ranges(seen or {}, named)
    inputs = [_input(network, name, sizes, conditions) for name in network.main.inputs]
    ranges.evaluate(network.main, inputs)
    for scope in network.uncalled.values():
        ranges.evaluate(scope, [unknown("", None, name) for name in scope.inputs])
    return ranges


def _open_sizes(
    network: Network, conditions: Sequence[Condition], allow_empty: bool
) -> dict[str, Size]:
    """The open sizes of the inputs, with what the conditions tell of them."""
    dims = network.dimensions  # an input without elements may have any sizes
    filled = {name for name in dims if not allow_empty and 0 not in (dims[name] or ())}
    symbols = {
        name: Symbol(
            name, 1 - allow_empty, MOST_OF_INPUT, tensors={n for n, _ in where} & filled
        )
        for name, where in open_sizes(network).items()
    }
    for condition in conditions:
        if condition.of == "size":
            size = (network.dimensions[condition.input or ""] or ())[condition.dim or 0]
            if one := symbols.get(str(size)):
                one.low = max(one.low, condition.low or 0)
                one.high = min(n for n in (one.high, condition.high) if n is not None)
    made = {name: Size({(one,): 1}) for name, one in symbols.items()}
    for condition in conditions:
        if condition.of == "sizes" and condition.high is not None:
            with suppress(KeyError):  # a size in it that is given, which is no open one
                fact = condition.high - size_from(condition.expression or "0", made)
                if isinstance(fact, Size):
                    for one in fact.symbols:
                        one.facts.append(fact)
    return made


def _input(
    network: Network,
    name: str,
    sizes: Mapping[str, Size],
    conditions: Sequence[Condition],
) -> Bounds:
    """What is known of a graph input."""
    own, data_type = network.dimensions[name], network.main.types[name].data_type
    shape: AnySizes | None = None
    if own is not None:
        shape = tuple(sizes[n] if isinstance(n, str) else n for n in own)
    value = unknown(data_type, shape, name)
    told = [one for one in conditions if one.of == "values" and one.input == name]
    if not told:
        return value
    last = own[-1] if own and any(one.columns for one in told) else 1
    count = last if isinstance(last, int) and last <= ELEMENTS else 0
    ends = np.repeat(value.whole.reshape(1, 2), count or 1, axis=0)
    for one in told:
        if one.columns and max(one.columns) >= count:
            continue  # which columns there are is not known, or there are fewer, or too many
        k = slice(None) if one.columns is None else list(one.columns)
        ends[k, 0] = np.maximum(ends[k, 0], ends[k, 0] if one.low is None else one.low)
        ends[k, 1] = np.minimum(
            ends[k, 1], ends[k, 1] if one.high is None else one.high
        )
    why = (f"the range given of {name}",)
    nan = value.nan and any(end in UNBOUNDED for end in ends.ravel().tolist())
    return interval(data_type, shape, ends[:, :1], ends[:, 1:], nan, why=why)


class Ranges:
    """The bounds of the values of a network."""

    def __init__(
        self,
        seen: Mapping[Scope, Mapping[str, ValueType]],
        named: dict[str, AnySize | None],
        tells: bool = True,
    ) -> None:
        self._seen, self._named, self._tells = seen, named, tells
        self._values: dict[Scope, MutableMapping[str, Bounds]] = {}
        self._makers: dict[Scope, dict[str, Operation]] = {}
        self._kept = self._depth = 0
        self.computed = 0
        """How many values were computed."""

    def value(self, scope: Scope, name: str) -> Bounds:
        """The bounds of a value of a scope, or of a scope around it."""
        owner = scope.owner(name) or scope
        if name in self._values.get(owner, ()):
            return self._values[owner][name]
        data_type, sizes = scope.type_of(name)
        value, count = unknown(data_type, sizes, name), elements_of(sizes)
        most = MOST_READ if data_type in LIMITS else WEIGHTS
        if not isinstance(count, int) or count > most:
            return value
        with suppress(
            OnnxGatherError
        ):  # such as a file that is missing; a run would tell
            if (array := scope.constant(name)) is not None:
                value = bounds_of_array(data_type, array)
        value = self._limited(value)
        self._values.setdefault(owner, {})[name] = (
            value  # of a body that nothing is known of too
        )
        return value

    def _limited(self, value: Bounds) -> Bounds:
        """The value with the bounds of its elements, or of the whole where many are kept."""
        many = value.bounds.size > 2 * COLUMNS
        self._kept += value.bounds.size if many else 0
        if not many or self._kept <= KEPT:
            return value
        return replace(value, bounds=hull(value.bounds, range(value.bounds.ndim - 1)))

    def evaluate(self, scope: Scope, inputs: Sequence[Bounds]) -> list[Bounds]:
        """Find the bounds of each value of a scope; return those of its outputs."""
        self._values[scope], self._makers[scope] = {}, {}
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
        """The bounds with other values, where some operations alone are computed anew.

        Args:
            scope: A scope.
            operations: Operations of the scope, in their order.
            values: What is known of values of the scope instead.
        """
        changed = Ranges(self._seen, self._named, tells=False)
        changed._values[scope] = ChainMap(dict(values), self._values[scope])
        changed._makers[scope] = self._makers[scope]
        changed._run(scope, operations)
        return changed

    def _run(self, scope: Scope, operations: Sequence[Operation]) -> None:
        """Find the bounds of what operations of a scope compute."""
        for operation in operations:
            self.computed += len(operation.outputs)
            if not operation.bodies and all(
                name in scope.stored for name in operation.outputs
            ):
                continue  # a constant, which `value` reads
            call = self.call(scope, operation)
            for name, value in zip(
                operation.outputs, self._computed(scope, call), strict=False
            ):
                self._keep(scope, name, _reasoned(call, value))
                self._makers[scope][name] = operation

    def given(self, scope: Scope, operation: Operation) -> Call:
        """An operation with the bounds of its inputs."""
        known = (self.value(scope, name) if name else None for name in operation.inputs)
        return Call(operation, tuple(known), scope.version)

    def call(self, scope: Scope, operation: Operation) -> Call:
        """An operation with the bounds of its inputs and the types of its outputs."""
        call = self.given(scope, operation)
        if "function" in operation.bodies or operation.operator in _CONTROL:
            return call
        told = (
            scope.types.get(name, ValueType()).data_type for name in operation.outputs
        )
        pairs = zip(output_types(call), told, strict=True)
        return replace(
            call, types=[OpenType(t.data_type or own, t.sizes) for t, own in pairs]
        )

    def _keep(self, scope: Scope, name: str, value: Bounds) -> None:
        """Keep a value, with a new symbol for each size of which nothing is known."""
        if known := self._seen.get(scope, {}).get(name):
            pairs = zip(
                known.sizes or (), value.sizes or known.sizes or (), strict=True
            )
            told = tuple(
                own if isinstance(own, int) or n is None else n for n, own in pairs
            )
            value = replace(
                value.resized(told), data_type=value.data_type or known.data_type
            )
        declared, sizes = scope.declared.get(name), value.sizes
        sizes = self._believed(declared, sizes)
        sizes = sizes and tuple(
            None if isinstance(n, Size) and n.is_large else n for n in sizes
        )
        if sizes != value.sizes or None in (sizes or ()):
            value = value.resized(
                sizes
                and tuple(
                    unknown_size(doubtful=True) if n is None else n for n in sizes
                )
            )
        self._values[scope][name] = value = self._limited(value)
        if not self._tells:
            return
        data_type = value.data_type or scope.type_of(name).data_type
        scope.types[name] = ValueType(data_type, numbers_in(value.sizes))

    def _believed(
        self, declared: Dimensions | None, sizes: AnySizes | None
    ) -> AnySizes | None:
        """The sizes of a value, without those of which the model declares something else.

        Nothing checks what a model declares. But from level 1 on ONNX Runtime believes
        it: a Shape is then what is declared, and two sizes of one name are one size.
        """
        if declared is None or sizes is None:
            return sizes
        if len(declared) != len(sizes):
            return None
        return tuple(map(self._agreed, declared, sizes))

    def _agreed(self, declared: int | str, size: AnySize | None) -> AnySize | None:
        """The size, if the model declares no other of it; a name is that of its first size."""
        if isinstance(declared, str):
            return (
                size
                if not declared or self._named.setdefault(declared, size) == size
                else None
            )
        return size if size == declared else None

    def _computed(self, scope: Scope, call: Call) -> Sequence[Bounds]:
        """The bounds of the outputs of an operation."""
        operation = call.operation
        if "function" in operation.bodies:
            inputs = [value or unknown("", None) for value in call.inputs]
            return self.evaluate(operation.bodies["function"], inputs)
        nothing = [unknown(*told) for told in call.types]
        # Before version 9 a Scan has a batch, and its lengths in front of the state.
        is_batch = operation.operator == "Scan" and call.version < 9
        if not operation.domain and operation.operator in _CONTROL and not is_batch:
            control = {"If": self._if, "Loop": self._loop, "Scan": self._scan}
            depth = self._depth
            with suppress(LookupError, TypeError, ValueError):  # not as ONNX asks
                return control[operation.operator](call)
            self._depth = depth
            return nothing
        for (
            body
        ) in operation.bodies.values():  # what is declared of its inputs may not be so
            types = [body.types[name].data_type for name in body.inputs]
            self.evaluate(
                body, list(map(unknown, types, itertools.repeat(None), body.inputs))
            )
        if operation.domain or operation.operator not in TRANSFERS:
            return nothing
        if operation.operator == "Where":
            call = self._refined(scope, call)
        if operation.operator == "Gather":
            call = self._sliced(scope, call)
        return _transferred(call) or nothing

    def _if(self, call: Call) -> Sequence[Bounds]:
        low, high = call.x.whole
        bodies = (
            call.operation.bodies[name] for name in ("then_branch", "else_branch")
        )
        chosen, other = (self.evaluate(body, []) for body in bodies)
        if low == high:
            return chosen if low else other
        return [joined(pair) for pair in zip(chosen, other, strict=True)]

    def _loop(self, call: Call) -> Sequence[Bounds]:
        """The state after any number of iterations, and what is kept of each."""
        trips, body = call.has(0), call.operation.bodies["body"]
        last = MOST if trips is None else trips.whole[1]
        last = max(last, 1) if isinstance(last, int) else last
        declared = body.types[body.inputs[0]].sizes  # of which the rank alone counts
        one = declared and (1,)
        why = (f"the iterations of {call.operation.label}",)
        fixed = [interval("INT64", one, 0, last - 1, why=why), unknown("BOOL", None)]
        first = [value or unknown("", None) for value in call.inputs[2:]]
        state, outputs = self._repeated(body, first, fixed, [], 1)
        runs = trips is not None and trips.whole[0] >= 1 and call.has(1) is None
        kept = [
            value.resized(
                (None, *value.sizes) if runs and value.sizes is not None else None
            )
            for value in outputs[len(state) :]
        ]
        return [*state, *kept]

    def _scan(self, call: Call) -> Sequence[Bounds]:
        """The state after all iterations, and what is kept of each, along the axis of outputs."""
        body, attributes = call.operation.bodies["body"], call.attributes
        scanned = int(attributes["num_scan_inputs"])
        first = [value or unknown("", None) for value in call.inputs[:-scanned]]
        axes = attributes.get("scan_input_axes", (0,) * scanned)
        slices = list[Bounds]()
        count: AnySize | None = None
        for k, axis in enumerate(axes, len(first)):
            value = call.of(k)
            if not value.sizes:
                slices.append(unknown(value.data_type, None, *value.stops))
                continue
            count = value.sizes[int(axis)]
            slices.append(taken_apart(value, axis))
        state, outputs = self._repeated(body, first, [], slices, 0)
        axes = attributes.get("scan_output_axes", (0,) * len(outputs))
        runs = count is not None and count >= 1  # else what the body declares counts
        kept = [
            (
                stacked(value, axis, count)
                if runs and value.sizes is not None
                else value.resized(None)
            )
            for value, axis in zip(outputs[len(state) :], axes, strict=False)
        ]
        return [*state, *kept]

    def _repeated(
        self,
        body: Scope,
        first: Sequence[Bounds],
        before: Sequence[Bounds],
        after: Sequence[Bounds],
        skipped: int,
    ) -> tuple[list[Bounds], list[Bounds]]:
        """The state after any number of iterations of a body, and its outputs in any of them.

        Args:
            body: The body.
            first: The state before the first iteration.
            before: The inputs of the body in front of its state.
            after: The inputs behind its state.
            skipped: How many outputs are in front of the state.
        """
        state = list(first)

        def run() -> list[Bounds]:
            since = mark()
            outputs = self.evaluate(body, [*before, *state, *after])
            return [_closed_since(value, since) for value in outputs[skipped:]]

        if self._depth == DEEPEST:
            state = [unknown("", None, *value.stops) for value in first]
            return state, run()
        self._depth += 1
        for iteration in itertools.count(1):
            moved = [joined(pair) for pair in zip(state, run(), strict=False)]
            if all(map(_is_covered, state, moved)):
                break
            state = list(map(widened, state, moved)) if iteration > PATIENCE else moved
        # What holds for any iteration still holds one iteration later, and may be less.
        state = [joined(pair) for pair in zip(first, run(), strict=False)]
        outputs = run()
        self._depth -= 1
        return [joined(pair) for pair in zip(first, outputs, strict=False)], outputs

    def _sliced(self, scope: Scope, call: Call) -> Call:
        """A call of Gather, without the size along a Range of which ONNX Runtime makes a Slice.

        It does so from level 2 on: ends below 0 then count from the end of the axis,
        and positions beyond the axis are left out.
        """
        x, indices, sizes = call.x, call.of(1), call.types[0].sizes
        wanted, seen, made = [call.operation.inputs[1]], set[str](), list[Operation]()
        while wanted and indices.sizes is not None and len(indices.sizes) == 1:
            maker = (
                None
                if (name := wanted.pop()) in seen
                else self._makers[scope].get(name)
            )
            seen.add(name)
            if maker is not None and not maker.domain:
                wanted += maker.inputs if maker.operator in MAY_DO_NOTHING else ()
                made += [maker] * (maker.operator == "Range")
        if not made or not x.sizes or sizes is None:
            return call
        axis = call.axis(0)
        size, ends = x.sizes[axis], [self.value(scope, one) for one in made[0].inputs]
        is_ahead = len(made) == 1 and all(end.whole[0] >= 0 for end in ends[:2])
        low, high = indices.whole
        if is_ahead and is_inside(low, high, size):
            return call
        least, count = None, sizes[axis]
        is_own = made == [self._makers[scope].get(call.operation.inputs[1])]
        is_from_0 = (
            is_own and is_ahead and [ends[0].whole[1], *ends[2].whole] == [0, 1, 1]
        )
        if is_from_0 and count is not None and size is not None:
            least = lesser(count, size)
        told = OpenType(
            call.types[0].data_type, (*sizes[:axis], least, *sizes[axis + 1 :])
        )
        any_of = unknown(indices.data_type, indices.sizes, *indices.stops)
        return replace(call, inputs=(x, any_of), types=[told])

    def _refined(self, scope: Scope, call: Call) -> Call:
        """A call of Where, whose two values hold where its condition is true, or is false."""
        condition, *names = call.operation.inputs
        values = list(call.inputs)
        for k, holds in ((1, True), (2, False)):
            told = dict[str, Bounds]()
            self._assume(scope, condition, holds, told, NESTED)
            if told:
                values[k] = self._under(scope, names[k - 1], told, NESTED)
        return replace(call, inputs=tuple(values))

    def _assume(
        self, scope: Scope, name: str, holds: bool, told: dict[str, Bounds], depth: int
    ) -> None:
        """Add to `told` what the values are where a condition is true, or is false."""
        maker = self._makers[scope].get(name)
        if maker is None or maker.domain or not depth:
            return
        operands = [self.value(scope, one) for one in maker.inputs if one]
        if maker.operator == "Not":
            self._assume(scope, maker.inputs[0], not holds, told, depth - 1)
        elif maker.operator == ("And" if holds else "Or"):
            for one in maker.inputs:
                self._assume(scope, one, holds, told, depth - 1)
        elif maker.operator in (*COMPARISONS, "Equal"):
            values = where_compared(maker.operator, holds, *operands)
            for one, value in zip(maker.inputs, values, strict=True):
                told[one] = value if one not in told else met(told[one], value)

    def _under(
        self, scope: Scope, name: str, told: dict[str, Bounds], depth: int
    ) -> Bounds:
        """A value, computed anew by elementwise operations from what is told of others."""
        if name in told:
            return told[name]
        value, maker = self.value(scope, name), self._makers[scope].get(name)
        if (
            maker is None
            or maker.domain
            or maker.operator not in ELEMENTWISE
            or not depth
        ):
            return value
        known = (self.value(scope, one) if one else None for one in maker.inputs)
        inputs = [
            self._under(scope, one, told, depth - 1) if one else None
            for one in maker.inputs
        ]
        if all(a is b for a, b in zip(known, inputs, strict=True)):
            return value
        types = [OpenType(value.data_type, value.sizes)]
        again = Call(maker, tuple(inputs), scope.version, types)
        found = _transferred(again)
        return _reasoned(again, found[0]) if found else value


def _transferred(call: Call) -> Sequence[Bounds]:
    """The bounds of the outputs of an operation of the table; nothing where it tells none."""
    try:
        with np.errstate(all="ignore"):
            found = TRANSFERS[call.operator](call)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # not as ONNX asks
        return []
    return [found] if isinstance(found, Bounds) else found or []


def _closed_since(value: Bounds, since: int) -> Bounds:
    """What an iteration makes, without the sizes that differ from iteration to iteration."""
    sizes = value.sizes and tuple(
        None if is_made_since(n, since) else n for n in value.sizes
    )
    is_own = any(is_made_since(end, since) for end in value.bounds.flat)
    return replace(value.closed if is_own else value, sizes=sizes)


def _is_covered(old: Bounds, new: Bounds) -> bool:
    """Whether `old` holds all that `new` does, which holds all that `old` does."""
    if (old.data_type, old.sizes, old.nan) != (new.data_type, new.sizes, new.nan):
        return False
    return bool((old.low <= new.low).all() and (old.high >= new.high).all())


def _reasoned(call: Call, value: Bounds) -> Bounds:
    """The value with what its bounds come from, or what leaves it without bounds."""
    if value.why or value.stops:
        return value
    why, stops = (
        merged_reasons(getattr(v, kind) for v in call.given)
        for kind in ("why", "stops")
    )
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


SizesFrom = Literal["file", "given", "run"]


class Found(msgspec.Struct, frozen=True):
    """An index out of range."""

    source: Literal["constant", "inputs"]
    """A constant of the model, or a run with the given inputs."""
    at: tuple[int, ...]
    """Its coordinates in the indices; the first one's where several are out of
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


class IndexRange(msgspec.Struct, frozen=True):
    """The range of the indices of a gather, one number per coordinate of a tuple."""

    state: Literal["proved", "proved-if", "not-proved", "out-of-range"]
    """Proved: each index is in range, or there is none; proved if: where the inputs
    meet the conditions. Out of range: an index is not."""
    low: tuple[int | None, ...] | None
    """The smallest index, before negative ones are counted from the end; None:
    unbounded. Without any index there is none."""
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
    """On the inputs, where the range is proved under conditions."""


def proof_of(ranges: Ranges, scope: Scope, operation: Operation) -> IndexRange:
    """The range of the indices of an operation: proved, not proved, or out of it for any inputs."""
    every, row = coordinates_of(ranges.given(scope, operation)), operator_of(operation)
    low, high = (tuple(_number(c, k) for c in every) for k in range(2))
    numbers = numbers_in([c.size for c in every]) or ()
    why = ", ".join(merged_reasons(c.value.why for c in every))
    if all(c.value.is_empty for c in every):
        return IndexRange("proved", None, None, numbers, "there is no index")
    if row and row.hardened == "nothing":
        return IndexRange(
            "proved", low, high, numbers, "any index is in range by design"
        )
    if all(c.is_inside for c in every):
        named = [
            c for c in every if isinstance(c.size, Size) and in_named(c.size) == c.size
        ]
        opened = [f"at most {c.high} of {c.size}" for c in named]
        return IndexRange(
            "proved", low, high, numbers, ", ".join(filter(None, [why, *opened]))
        )
    outside = [c for c in every if not c.is_inside]
    for c in outside:
        # Where both ends of an interval are reached, one beyond the axis is an index
        # beyond it.
        is_reached = c.value.is_exact or scope.is_constant(c.input.value_in(operation))
        count, ends = elements_of(c.value.sizes), (_number(c, 0), _number(c, 1))
        is_known = None not in ends and isinstance(c.size, int)
        is_reached &= not is_inside(c.low, c.high, c.size, c.input.from_end)
        if is_reached and is_known and count is not None and count >= 1:
            return IndexRange("out-of-range", low, high, numbers, why)
    unsized = [
        operation.inputs[c.input.data] for c in outside if not isinstance(c.size, int)
    ]
    stops = ", ".join(merged_reasons(c.value.stops for c in outside))
    stop = stops or (f"the size of {unsized[0]}" if unsized else "") or why
    return IndexRange("not-proved", low, high, numbers, why, input=stop)


def _number(coordinate: Coordinate, k: int) -> int | None:
    """The least or the greatest number; None for an open size, or the data type's own limit."""
    end = (coordinate.low, coordinate.high)[k]
    limit = INTEGERS.get(coordinate.value.data_type, INTEGERS["INT64"])[k]
    return end if isinstance(end, int) and end != limit else None
