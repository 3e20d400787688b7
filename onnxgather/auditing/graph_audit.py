"""The audit of one graph: a record of each gather in it, from its proofs and runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from itertools import groupby, zip_longest
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from onnxgather.auditing.algebra.bounds import unknown
from onnxgather.auditing.algebra.sizes import Comparisons, comparing, low_of
from onnxgather.auditing.capture import MOST_ITERATIONS, Captured, capture
from onnxgather.auditing.met import Met
from onnxgather.auditing.operators.calls import Call
from onnxgather.auditing.operators.index_operators import (
    INDEX_OPERATORS,
    Coordinate,
    coordinates_of,
    given_indices,
    inputs_of,
    operator_of,
)
from onnxgather.auditing.operators.node_rules import broken_rule
from onnxgather.auditing.operators.tree_features import features_of
from onnxgather.auditing.proof.conditions import Search
from onnxgather.auditing.proof.contract import NOT_EMPTY, Condition, Contract, tightened
from onnxgather.auditing.proof.given_ends import GivenRange, ends_that_leave
from onnxgather.auditing.proof.index_range import (
    Found,
    IndexRange,
    SizesFrom,
    invalid_range,
    proof_of,
)
from onnxgather.auditing.proof.ranges import Ranges, ranges_of
from onnxgather.auditing.proof.shape_computations import shape_computations
from onnxgather.auditing.records import DECIDED, RANGE_STATES, AuditedGather, Tensor
from onnxgather.core.checks import number_of, printable
from onnxgather.core.descriptors.arrays import Array, is_outside
from onnxgather.core.descriptors.feature_levels import minimum_feature_level
from onnxgather.core.descriptors.operators import FACTS, Descriptor
from onnxgather.core.descriptors.spelling import to_dict
from onnxgather.core.errors import DescriptorError, OnnxGatherError
from onnxgather.core.execution.providers import PROVIDERS, known_difference_rows
from onnxgather.core.gather import ATTRIBUTES, from_onnx
from onnxgather.core.model.network import MAIN, Network, Operation, Scope, read_network
from onnxgather.core.model.protos import Key, key_of
from onnxgather.core.model.values import (
    DIRECTML_NAMES,
    ValueType,
    common_sizes,
    type_name,
)

RUN_TIMEOUT = 60.0
"""Seconds that a run of the model may take."""

LARGEST = 2**63 - 1
"""The largest number of INT64, and the largest size that an index is compared with."""

COUNTS_FROM_END = "The index counts from the end."

FORBIDDEN = "the node must be one that ONNX allows"
"""The rule of a node of which no other rule is known that it breaks."""

EMPTY = "the DirectML provider does nothing, as a tensor is empty"


OperationKey = tuple[int | str | Key, ...]
"""The path to an operation: the numbers of operations and the names of bodies, from the
main graph or from the function that contains the operation. The path is the same for
each call of a function."""

Calls = Sequence[tuple[Scope, Operation]]
"""An operation in each call of the function that contains it, with its scope there."""

MOST_POSITIONS = 2**24
"""The most positions, of those that an operator counts itself, that are looked at."""


class AuditedGraph(Struct, frozen=True):
    """A graph, the records of its gathers in the order of execution, and its run."""

    network: Network
    """The graph, with the sizes that were given or that a run showed."""
    gathers: dict[OperationKey, AuditedGather]
    captured: Captured
    bounds: Ranges
    """The bounds of its values, as the last stage has them."""


def audit_graph(
    network: Network,
    shapes: Mapping[str, Sequence[int]],
    arrays: Mapping[str, Array],
    contract: Contract,
    given: Sequence[GivenRange] = (),
) -> AuditedGraph:
    """Audit a graph in stages: each knows more sizes, and looks at what is left open.

    Args:
        network: The graph, with the sizes of its file.
        shapes: The sizes of inputs that are given, by name.
        arrays: The inputs of a run, by name; no run where there are none.
        contract: What holds of the inputs.
        given: The ranges that are given of inputs. An end that leads to an index out of
            range decides the state of a gather.

    Raises:
        OnnxGatherError: ONNX allows no such gather.
        ProviderError: There is no CPU provider, it cannot start, or the run takes too
            long.
    """
    gathers: dict[OperationKey, AuditedGather] = {}
    captured = Captured()

    def refine(source: SizesFrom) -> Ranges:
        with comparing() as comparisons:
            stage = _Stage(network, source, captured, contract, comparisons)
            _refine(gathers, stage)
        return stage.bounds

    bounds = refine("file")
    if shapes:
        network = read_network(network, shapes)
        bounds = refine("given")
    if arrays:
        captured = capture(network, arrays, RUN_TIMEOUT, clamp=True)
        if any(not gather.is_settled for gather in gathers.values()):
            bounds = refine("run")
        _put_broken(gathers, network, bounds, captured, contract)
        _put_seen(gathers, network, captured)
    if given:
        _put_given_ends(gathers, network, bounds, given, contract)
    return AuditedGraph(network, gathers, captured, bounds)


def _put_given_ends(
    gathers: dict[OperationKey, AuditedGather],
    network: Network,
    bounds: Ranges,
    given: Sequence[GivenRange],
    contract: Contract,
) -> None:
    """Put in the records which gathers can leave an axis by the ranges given."""
    open_keys: dict[Operation, OperationKey] = {}
    scopes: dict[Operation, Scope] = {}
    for key, scope, operation in operations_of(network):
        record = gathers.get(key)
        if record is not None and record.range.state not in DECIDED:
            open_keys[operation] = key
            scopes[operation] = scope
    if not scopes:
        return
    ends = ends_that_leave(network, bounds, given, contract.conditions, scopes)
    for operation, end in ends.items():
        key = open_keys[operation]
        record = gathers[key]
        # The conditions stay: under them the gather is proved.
        index_range = replace(record.range, state="out-of-range", input=None, given=end)
        gathers[key] = replace(record, range=index_range)


def operations_of(network: Network) -> Iterator[tuple[OperationKey, Scope, Operation]]:
    """Yield every operation of a network in order; a function's once for each call."""

    def walk(
        scope: Scope, path: OperationKey
    ) -> Iterator[tuple[OperationKey, Scope, Operation]]:
        for number, operation in enumerate(scope.operations):
            yield (*path, number), scope, operation
            for name, body in operation.bodies.items():
                body_path: OperationKey = (*path, number, name)
                if name == "function":  # whose path is the same in each call
                    body_path = (key_of(operation.proto),)
                yield from walk(body, body_path)

    yield from walk(network.main, (MAIN,))
    for function, scope in network.uncalled.items():
        yield from walk(scope, (function,))


def calls_of(network: Network) -> dict[OperationKey, Calls]:
    """Return the operations with indices of a network by the paths to them."""
    calls: dict[OperationKey, list[tuple[Scope, Operation]]] = {}
    for key, scope, operation in operations_of(network):
        if operator_of(operation) is not None:
            calls.setdefault(key, []).append((scope, operation))
    return {**calls}


def _refine(gathers: dict[OperationKey, AuditedGather], stage: _Stage) -> None:
    """Put the results of a stage in the records that earlier stages left open.

    Args:
        gathers: The records so far, empty before the first stage.
        stage: The stage.

    Raises:
        OnnxGatherError: ONNX allows no such gather.
    """
    open_calls = _open_calls(calls_of(stage.network), gathers)
    on_cpu = shape_computations(stage.network)
    name_counts = _name_counts(stage.network)
    for key, calls in open_calls.items():
        ranges = [stage.range_of(scope, operation) for scope, operation in calls]
        record = _record(calls, ranges, on_cpu, name_counts)
        last_record = gathers.get(key)
        # What is decided stays as it was decided; this stage adds the sizes.
        if last_record is not None and last_record.range.state in DECIDED:
            record = replace(record, range=last_record.range)
        gathers[key] = record


def _open_calls(
    all_calls: Mapping[OperationKey, Calls],
    gathers: Mapping[OperationKey, AuditedGather],
) -> dict[OperationKey, Calls]:
    """Return the operations that no record settles yet."""
    open_calls: dict[OperationKey, Calls] = {}
    for key, calls in all_calls.items():
        record = gathers.get(key)
        if record is None or not record.is_settled:
            open_calls[key] = calls
    return open_calls


def _name_counts(network: Network) -> Counter[str]:
    """Return how many operations of a network have a name."""
    counts = Counter[str]()
    in_functions: set[OperationKey] = set()
    for key, _, operation in operations_of(network):
        # An operation of a function is yielded once for each call.
        if key[0] != MAIN:
            if key in in_functions:
                continue
            in_functions.add(key)
        counts[operation.name] += 1
    return counts


class _Stage:
    """A stage of an audit: what is proved of a model with the sizes of the stage."""

    def __init__(
        self,
        network: Network,
        source: SizesFrom,
        captured: Captured,
        contract: Contract,
        comparisons: Comparisons,
    ) -> None:
        seen = {scope: _sizes_seen(scope, captured) for scope in network.scopes()}
        allow_empty = contract.assumes != NOT_EMPTY
        self.network = network
        self._source = source
        self._captured = captured
        self._contract = contract
        self._comparisons = comparisons
        self.bounds = ranges_of(
            network,
            contract.conditions,
            allow_empty,
            seen,
            contract.sizes,
            not contract.no_negative,
        )
        self._search = Search(network, self.bounds, contract.conditions)

    def range_of(self, scope: Scope, operation: Operation) -> IndexRange:
        """Return the range of an operation, from its proof and from its executions.

        Raises:
            OnnxGatherError: ONNX allows no such operation.
        """
        index_range = replace(self._proof(scope, operation), sizes_from=self._source)
        found = self._index_out_of_range(scope, operation, index_range.state)
        if found is None:
            return index_range
        return replace(index_range, state="out-of-range", input=None, found=found)

    def _proof(self, scope: Scope, operation: Operation) -> IndexRange:
        """Return what is proved of the indices, with conditions or without."""
        try:
            rule = broken_rule(self.bounds.given(scope, operation))
            if rule is not None:
                return invalid_range(rule)
            proof = proof_of(self.bounds, scope, operation)
        except (LookupError, TypeError, ValueError):
            return invalid_range(FORBIDDEN)
        if proof.state != "not-proved":
            return proof
        conditions = self._search.conditions(scope, operation)
        limit = self._search.limit or self._comparisons.limit
        proof = replace(proof, limit=limit)
        if not conditions:
            return proof
        proved_if = replace(proof, state="proved-if", conditions=conditions)
        # Case: nothing is given.
        if not self._contract.conditions:
            return proved_if
        # What is given may be exact or not: only the ends are compared.
        ends = [replace(condition, exact=False) for condition in conditions]
        # Conditions that no input meets beside those given are judged with all others.
        with suppress(OnnxGatherError):
            # Case: what is given of the inputs says so already.
            if self._contract.joined(ends) == self._contract:
                return replace(proof, state="proved", input=None, lost=None)
        return proved_if

    def _index_out_of_range(
        self, scope: Scope, operation: Operation, state: str
    ) -> Found | None:
        """Return the first index out of range, of constants or of a run; else None."""
        if state in ("proved", "invalid"):
            return None
        if state == "out-of-range":
            call = self.bounds.given(scope, operation)
            index_names = given_indices(operation)
            arrays = [
                scope.constant(name) if name in index_names else None
                for name in operation.inputs
            ]
            return _first_out_of_range(call, "constant", arrays)
        return _found_in_run(
            self.bounds, self._captured, self._contract, scope, operation
        )


def _found_in_run(
    bounds: Ranges,
    captured: Captured,
    contract: Contract,
    scope: Scope,
    operation: Operation,
) -> Found | None:
    """Return the first index out of range that an operation has in a run.

    Args:
        bounds: The bounds of the values.
        captured: The run.
        contract: What holds of the inputs.
        scope: The scope of the operation.
        operation: The operation.
    """
    call = bounds.given(scope, operation)
    # Of other inputs, an index below 0 is out of range.
    allow_negative = not contract.no_negative
    from_end: dict[int, bool] = {}
    for coordinate in bounds.coordinates(scope, operation):
        # The file counts a number of a Range from the end.
        is_range = allow_negative and coordinate.value.is_range
        from_end[coordinate.input.position] = coordinate.from_end or is_range
    for execution in captured.gathers.get(operation, ()):
        arrays = execution.inputs
        found = _first_out_of_range(
            call.with_arrays(arrays), "inputs", arrays, from_end
        )
        if found is not None:
            return found
    # Case: only the whole run counted it.
    met = captured.whole.counts.get(operation)
    if met is None or met.first is None or met.value is None:
        return None
    coordinates = bounds.coordinates(scope, operation)
    coordinate = 0
    if len(coordinates) > 1:  # the last axis holds tuples
        coordinate = met.first[-1]
    return Found(
        "inputs",
        met.first,
        met.value,
        met.outside,
        out_of_range(operation.operator),
        coordinate=coordinate,
        low=int(low_of(coordinates[coordinate].lowest)),
    )


def _record(
    calls: Calls,
    ranges: Sequence[IndexRange],
    on_cpu: Collection[Operation],
    name_counts: Mapping[str, int],
) -> AuditedGather:
    """Return the record of a gather: what holds in each call of its function.

    Args:
        calls: The gather in each call, with its graph.
        ranges: The range of its indices in each call.
        on_cpu: The operations that compute shapes.
        name_counts: How many operations have a name.
    """
    scope, operation = calls[0]
    types, translations = _types_and_translations(calls)
    data, indices, output = map(_tensor, types)
    # A gather has a descriptor if each call leads to the same.
    descriptor, _ = translations[0]
    if any(translation != translations[0] for translation in translations):
        descriptor = None
    refused = next((rule for _, rule in translations if rule), None)

    index_range = ranges[0] if len(calls) == 1 else joined_ranges(ranges)
    # DirectML's rules say nothing more of a node that is invalid.
    if index_range.state == "invalid":
        descriptor = None
        refused = None
    elif operation.is_gather and data.is_static and indices.is_static:
        sizes = (*(data.sizes or ()), *(indices.sizes or ()))
        if 0 in sizes:
            index_range = replace(index_range, why=EMPTY)
    has_own_name = name_counts[operation.name] == 1
    return AuditedGather(
        node=operation.label if has_own_name else operation.outputs[0],
        output_name=operation.outputs[0],
        place=scope.where if len(calls) == 1 else scope.place,
        op=operation.operator,
        shape_computation=all(call in on_cpu for _, call in calls),
        data=data,
        indices=indices,
        output=output,
        # Indices in an attribute have no name.
        constant_indices=all(
            scope.is_constant(name)
            for scope, operation in calls
            for name in given_indices(operation)[:1]
        ),
        descriptor=to_dict(descriptor) if descriptor else None,
        refused=refused,
        feature_level=minimum_feature_level(descriptor) if descriptor else None,
        range=index_range,
        domain=operation.domain,
    )


_Translation = tuple[Descriptor | None, str | None]
"""The descriptor of a gather, or the rule by which the DirectML provider refuses it."""


def _types_and_translations(
    calls: Calls,
) -> tuple[list[ValueType], list[_Translation]]:
    """Return the types of data, indices and output in all calls; each translation."""
    types_by_call: list[list[ValueType]] = []
    translations: list[_Translation] = []
    for scope, operation in calls:
        index_input = inputs_of(operation)[0]
        data = ""
        if index_input.data < len(operation.inputs):
            data = operation.inputs[index_input.data]
        names = data, index_input.value_in(operation), operation.outputs[0]
        data, indices, output = map(scope.type_of, names)
        types_by_call.append([data, indices, output])
        translations.append(_translated(operation, data, indices))
    types = [
        reduce(ValueType.common, types) for types in zip(*types_by_call, strict=True)
    ]
    return types, translations


def _translated(
    operation: Operation, data: ValueType, indices: ValueType
) -> _Translation:
    """Return the descriptor of a gather, or the rule by which it is refused.

    Both are None if the types of its data and indices are not known, if one of them is
    empty, or if the operator is another.
    """
    if not operation.is_gather:
        return None, None
    for value_type in (data, indices):
        is_known = value_type.data_type and value_type.is_static
        if not is_known or 0 in (value_type.sizes or ()):
            return None, None
    pairs: list[Any] = []
    for value_type in (data, indices):
        tensor = _tensor(value_type)
        pairs.append((tensor.type, tensor.sizes))
    number = {ATTRIBUTES[operation.operator]: operation.number}
    try:
        return from_onnx(operation.operator, *pairs, **number), None
    except DescriptorError as error:
        return None, str(error)


def _put_broken(
    gathers: dict[OperationKey, AuditedGather],
    network: Network,
    bounds: Ranges,
    captured: Captured,
    contract: Contract,
) -> None:
    """Put in the records which proved gathers have an index out of range in a run.

    A proof rests on what is given of the inputs, which those of the run may break.
    """
    for key, scope, operation in operations_of(network):
        record = gathers.get(key)
        if record is None or record.range.state != "proved":
            continue
        # Case: of an operator such as OneHot no index is out of range.
        row = operator_of(operation)
        if row is None or row.hardened == "nothing":
            continue
        found = _found_in_run(bounds, captured, contract, scope, operation)
        if found is not None:
            index_range = replace(
                record.range, state="out-of-range", input=None, found=found
            )
            gathers[key] = replace(record, range=index_range)


def _put_seen(
    gathers: dict[OperationKey, AuditedGather], network: Network, captured: Captured
) -> None:
    """Put what gathers met in a run, and the ends of their indices, in the records."""
    for key, scope, operation in operations_of(network):
        met = captured.whole.counts.get(operation)
        if met is not None:
            gathers[key] = _with_seen(gathers[key], met.ends, met)
        executions = captured.gathers.get(operation)
        if not executions:
            continue
        unknown_inputs = (unknown("", None),) * len(operation.inputs)
        call = Call(operation, unknown_inputs, scope.version)
        for execution in executions:
            arrays = execution.inputs
            for array, _ in _index_arrays(call.with_arrays(arrays), arrays):
                if array.size:
                    ends = int(array.min()), int(array.max())
                    gathers[key] = _with_seen(gathers[key], ends)


def _with_seen(
    gather: AuditedGather, ends: tuple[int, ...], met: Met | None = None
) -> AuditedGather:
    """Return the record of a gather, with ends of its indices in a run.

    Args:
        gather: The record.
        ends: A least and a greatest index; empty if there is no index.
        met: What the gather met in the whole run; None leaves the record's own.
    """
    all_ends = (*(gather.range.seen or ()), *ends)
    seen = None
    if all_ends:
        seen = min(all_ends), max(all_ends)
    index_range = replace(gather.range, seen=seen, met=met or gather.range.met)
    return replace(gather, range=index_range)


def _index_arrays(
    call: Call, arrays: Sequence[Array | None]
) -> Iterator[tuple[Array, list[Coordinate]]]:
    """Yield the arrays that hold indices, each with its coordinates."""
    groups = groupby(coordinates_of(call), key=lambda coordinate: coordinate.input)
    for index_input, group in groups:
        coordinates = list(group)
        high = coordinates[0].high
        array = None
        if index_input.is_attribute:
            array = features_of(call.operation)
        elif index_input.value_in(call.operation):
            array = arrays[index_input.position]
        # Case: the operator counts the positions itself.
        elif isinstance(high, int) and high < MOST_POSITIONS:
            array = np.arange(high + 1)
        if array is None or array.dtype.kind not in "iuf":
            continue
        column = index_input.column
        if column is not None:
            array = array[..., column : column + 1]
        if index_input.used is not None:
            counts = call.of(index_input.used).whole
            array = array[..., : max(0, int(counts.flat[-1]))]
        if array.dtype.kind == "f":
            with np.errstate(invalid="ignore"):  # of NaN a provider makes some integer
                array = array.astype(np.int64)
        yield array, coordinates


def _first_out_of_range(
    call: Call,
    source: Literal["constant", "inputs"],
    arrays: Sequence[Array | None],
    from_end: Mapping[int, bool] | None = None,
) -> Found | None:
    """Return the first index that is known to be out of range.

    Args:
        call: The operation.
        source: Where the arrays are from.
        arrays: The inputs that hold indices.
        from_end: Whether an index below 0 counts from the end, by the position of the
            input; None where ONNX's rule holds.
    """
    first_coordinate = 0
    for array, coordinates in _index_arrays(call, arrays):
        index_input = coordinates[0].input
        position = index_input.position
        counts_from_end = (from_end or {}).get(position, index_input.from_end)
        mask = _outside(array, coordinates, counts_from_end)
        if mask is not None and mask.any():
            where = np.unravel_index(np.argmax(mask), mask.shape)
            place = tuple(map(int, where))
            coordinate = first_coordinate
            if len(coordinates) > 1:  # the last axis holds tuples
                coordinate += place[-1]
            providers = out_of_range(call.operator, call.operation.domain)
            onnx_mask = _outside(array, coordinates, index_input.from_end)
            if onnx_mask is not None and not onnx_mask[place]:
                providers = dict.fromkeys(providers, COUNTS_FROM_END)
            return Found(
                source,
                at=place,
                value=int(array[place]),
                count=int(mask.sum()),
                providers=providers,
                name=index_input.name,
                coordinate=coordinate,
                low=int(low_of(coordinates[coordinate - first_coordinate].lowest)),
            )
        first_coordinate += len(coordinates)
    return None


def _outside(
    array: Array, coordinates: Sequence[Coordinate], from_end: bool
) -> Array | None:
    """Return which indices are out of range; None if the size of an axis is open."""
    sizes: list[int] = []
    for coordinate in coordinates:
        if not isinstance(coordinate.size, int):
            return None
        sizes.append(min(coordinate.size, LARGEST))
    mask: Array = is_outside(array, np.array(sizes))
    mask = mask.reshape(array.shape)  # a number has no shape
    # Only an index that counts from the end may be below 0, and a length may have to
    # be more than that.
    lowest = 0
    if not coordinates[0].input.from_end:
        lowest = low_of(coordinates[0].lowest)
    if not from_end:
        mask |= array < lowest
    ignored = coordinates[0].ignored
    if ignored is not None:
        mask &= array != ignored
    return mask


def out_of_range(op: str, domain: str = "") -> dict[str, str]:
    """Return what each provider does with an index out of range of an operator."""
    row = INDEX_OPERATORS.get((domain, op), INDEX_OPERATORS["", "Gather"])
    if row.providers:
        return dict(row.providers)
    # The row of a gather leaves this to the known differences of the providers.
    behaviour_by_provider = {
        "cpu": "The node fails.",
        "webnn": "The index is clamped to its own axis.",
    }
    short_names = {provider.name: short for short, provider in PROVIDERS.items()}
    directml_operators = {name for name, fact in FACTS.items() if fact.onnx == op}
    for difference in known_difference_rows():
        short_name = short_names.get(difference["provider"])
        if short_name is None:
            continue
        for case in difference["cases"]:
            if _is_about_bad_indices(case, {op, *directml_operators}):
                behaviour_by_provider.setdefault(short_name, difference["reason"])
    return dict(sorted(behaviour_by_provider.items()))


def _is_about_bad_indices(case: Mapping[str, Any], operators: Collection[str]) -> bool:
    """Return whether a known difference is about indices out of range of operators."""
    if case.get("in_range") is not False:
        return False
    if case.get("out_of_range") != ["error"]:  # another policy, which allows the index
        return False
    case_operators = case.get("operator") or case.get("gathers")
    if case_operators is None:  # the cases of all operators
        return True
    return any(operator in operators for operator in case_operators)


def _tensor(value_type: ValueType) -> Tensor:
    name = value_type.data_type
    return Tensor(DIRECTML_NAMES.get(name, name) or None, value_type.sizes)


def badness(index_range: IndexRange) -> int:
    """Return the place of a state among those from the best to the worst."""
    return RANGE_STATES.index(index_range.state)


def joined_ranges(ranges: Sequence[IndexRange]) -> IndexRange:
    """Return the range of a gather, from its ranges in the calls of a function."""
    worst = max(ranges, key=badness)
    conditions: tuple[Condition, ...] = ()
    if worst.state == "proved-if" or worst.given is not None:
        conditions = _common_conditions(ranges)
    return replace(
        worst,
        low=_ends_of_all(min, [index_range.low for index_range in ranges]),
        high=_ends_of_all(max, [index_range.high for index_range in ranges]),
        size=common_sizes([index_range.size for index_range in ranges]),
        conditions=conditions,
        unfit=max([index_range.unfit for index_range in ranges], key=len),
    )


def _common_conditions(ranges: Sequence[IndexRange]) -> tuple[Condition, ...]:
    """Return the conditions under which a gather is proved in all calls.

    There are none if no conditions prove it in one of them.
    """
    conditions: list[Condition] = []
    for index_range in ranges:
        if index_range.state != "proved" and not index_range.conditions:
            return ()
        conditions += index_range.conditions
    return tuple(tightened(conditions))


def _ends_of_all(
    choose: Callable[[Sequence[int]], int],
    ends_by_call: Sequence[tuple[int | None, ...] | None],
) -> tuple[int | None, ...] | None:
    """Return the ends that hold in all calls, by the coordinates.

    A call without an index has no ends.

    Args:
        choose: `min` for the lowest indices, `max` for the highest.
        ends_by_call: The ends in each call.
    """
    given_ends = [ends for ends in ends_by_call if ends is not None]
    common_ends: list[int | None] = []
    for ends in zip_longest(*given_ends):
        numbers = [end for end in ends if end is not None]
        is_open = len(numbers) < len(ends)
        common_ends.append(None if is_open else choose(numbers))
    return tuple(common_ends) or None


def _sizes_seen(scope: Scope, captured: Captured) -> dict[str, ValueType]:
    """Return the types around gathers, with the sizes that all executions share."""
    types: dict[str, ValueType] = {}
    # A function or a loop's body is executed more than once.
    for operation in scope.operations:
        for execution in captured.gathers.get(operation, ()):
            names = (*operation.inputs, operation.outputs[0])
            arrays = (*execution.inputs, execution.output)
            for name, array in zip(names, arrays, strict=True):
                if array is not None:
                    seen = ValueType(type_name(array), array.shape)
                    types[name] = seen.common(types.get(name, seen))
    return types


def notes_of(captured: Captured) -> Iterator[str]:
    """Yield the notes of an audit."""
    whole = captured.whole
    if whole.first_outside:
        where = whole.first_outside
        text = f"with the given inputs the untouched model stops at {where}"
        if whole.why_not is None:
            text = f"{text}; what the run met behind it is under clamp"
        yield text
    if captured.stop:
        text = f"the run with the given inputs ends early: {captured.stop}"
        if whole.why_not:
            why = f"gathers behind it were not reached, as {whole.why_not}"
            text = f"{text}; {why}"
        yield text
    if whole.added:
        names = ", ".join(printable(row.node) for row in whole.added)
        outside = sum(row.outside for row in whole.added)
        indices = sum(row.indices for row in whole.added)
        count = number_of(len(whole.added), "gather")
        yield (
            f"ONNX Runtime makes {count} of other operators ({names}):"
            f" {outside:,} of {indices:,} indices were out of range"
        )
    for where in sorted(captured.cut):
        text = f"the {where} has more iterations than are seen: {MOST_ITERATIONS}"
        if whole.counts:
            text = f"{text}; indices out of range are counted in all"
        yield text
