"""The audit of a model: a record of each gather, in the JSON of `onnxgather audit`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import reduce
from itertools import chain, groupby, zip_longest
from shlex import quote
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from onnxgather.auditing.algebra.bounds import unknown
from onnxgather.auditing.algebra.sizes import low_of, size_from, terms_in
from onnxgather.auditing.capture import (
    MOST_ITERATIONS,
    MOST_OF_ALL,
    Captured,
    capture,
)
from onnxgather.auditing.operators.calls import Call
from onnxgather.auditing.operators.index_operators import (
    INDEX_OPERATORS,
    Coordinate,
    coordinates_of,
    given_indices,
    inputs_of,
    operator_of,
)
from onnxgather.auditing.proof.conditions import Search
from onnxgather.auditing.proof.contract import (
    NOT_EMPTY,
    Assumption,
    Condition,
    Contract,
    GivenContract,
    expression_of,
    read_contract,
    sizes_given,
    tightened,
)
from onnxgather.auditing.proof.ranges import (
    Found,
    IndexRange,
    SizesFrom,
    proof_of,
    ranges_of,
)
from onnxgather.auditing.proof.shape_computations import shape_computations
from onnxgather.core.checks import (
    html_table,
    integer,
    mapping,
    number_of,
    sequence,
    shown,
)
from onnxgather.core.descriptors.arrays import Array, is_outside
from onnxgather.core.descriptors.feature_levels import minimum_feature_level
from onnxgather.core.descriptors.operators import FACTS, Descriptor
from onnxgather.core.descriptors.spelling import to_dict
from onnxgather.core.errors import DescriptorError, OnnxGatherError
from onnxgather.core.execution.providers import PROVIDERS, known_difference_rows
from onnxgather.core.gather import ATTRIBUTES, from_onnx
from onnxgather.core.model.given_inputs import checked
from onnxgather.core.model.network import (
    MAIN,
    Network,
    Operation,
    Scope,
    check_input,
    read_network,
    shapes_given,
)
from onnxgather.core.model.protos import Key, key_of
from onnxgather.core.model.values import (
    DIRECTML_NAMES,
    ModelProto,
    ValueType,
    common_sizes,
    type_name,
)

RUN_TIMEOUT = 60.0
"""Seconds that a run of the model may take."""

LARGEST_NAMED = 256
"""The largest open size that a hint names to meet a condition."""

LARGEST = 2**63 - 1
"""The largest number of INT64, and the largest size that an index is compared with."""

EMPTY = "the DirectML provider does nothing, as a tensor is empty"

_STATES = ("proved", "proved-if", "not-proved", "out-of-range")
"""The states of a range, from the best to the worst."""

_DECIDED = ("proved", "out-of-range")
"""The states that more sizes do not change."""


class Tensor(msgspec.Struct, frozen=True):
    """The type and the sizes of a value, as far as they are known."""

    type: str | None
    """DirectML's name, or ONNX's if DirectML has no such type; None if it is not
    known."""
    sizes: tuple[int | None, ...] | None
    """None for a size that is not known; None alone if the rank is not known."""

    @property
    def is_static(self) -> bool:
        """Whether every size is known."""
        return self.sizes is not None and None not in self.sizes


class AuditedGather(msgspec.Struct, frozen=True):
    """One gather of a model."""

    node: str
    """The name of the node; its first output if the name is empty or not unique."""
    output_name: str
    place: str
    """The main graph, or the path into a subgraph or a function."""
    op: str
    shape_computation: bool
    """Whether the gather computes shapes, which the DirectML provider leaves to the
    CPU."""
    data: Tensor
    indices: Tensor
    output: Tensor
    constant_indices: bool
    descriptor: dict[str, Any] | None
    """The descriptor that the DirectML provider builds, as `to_dict` writes it."""
    refused: str | None
    """The rule by which the DirectML provider refuses the node."""
    feature_level: str | None
    range: IndexRange
    domain: str = ""
    """The domain of the operator; "" is ONNX's own."""

    @property
    def is_settled(self) -> bool:
        """Whether all sizes are known, and the state of the indices is decided."""
        tensors = (self.data, self.indices, self.output)
        is_static = all(tensor.is_static for tensor in tensors)
        return is_static and self.range.state in _DECIDED


class Audit(msgspec.Struct, frozen=True):
    """The audit of a model."""

    gathers: list[AuditedGather]
    notes: list[str] = []
    """Sentences: where the run ended early, and which iterations of a loop were not
    seen."""
    options: list[str] = []
    """Options of the command with which an audit says more, such as `--shape ids=2,12`.
    LO and HI mean the least and the greatest number of an input, FILE.npz a file of
    arrays."""
    contract: dict[str, Any] = {}
    """The conditions on inputs under which every gather is proved that can be, as a
    plain `Contract`; `check_inputs` accepts it."""
    assumes: Assumption = NOT_EMPTY
    """What every proof assumes."""
    schema: int = 2

    def __repr__(self) -> str:
        counts = Counter(gather.range.state for gather in self.gathers)
        states = ", ".join(f"{count:,} {state}" for state, count in counts.items())
        text = f"Audit of {counted(self.gathers)}"
        if states:
            text = f"{text}: {states}"
        return f"<{text}>"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, str]] = []
        for gather in self.gathers:
            text = f"{gather.op}, {gather.place}: {gather.range.state}"
            rows.append((gather.node, text))
        return html_table(repr(self)[1:-1], rows)

    @property
    def out_of_range(self) -> list[AuditedGather]:
        """The gathers with an index that is out of range."""
        return self._in_state("out-of-range")

    @property
    def open(self) -> list[AuditedGather]:
        """The gathers that are not proved, or only under conditions."""
        return [gather for gather in self.gathers if gather.range.state != "proved"]

    @property
    def refused(self) -> list[AuditedGather]:
        """The gathers that DirectML refuses and does not leave to the CPU."""
        return [
            gather
            for gather in self.gathers
            if gather.refused and not gather.shape_computation
        ]

    @property
    def not_proved(self) -> list[AuditedGather]:
        """The gathers whose indices may be out of range."""
        return self._in_state("not-proved")

    @property
    def proved_if(self) -> list[AuditedGather]:
        """The gathers that are proved under conditions on the inputs."""
        return self._in_state("proved-if")

    def _in_state(self, state: str) -> list[AuditedGather]:
        return [gather for gather in self.gathers if gather.range.state == state]


OperationKey = tuple[int | str | Key, ...]
"""The path to an operation: the numbers of operations and the names of bodies, from the
main graph or from the function that contains the operation. The path is the same for
each call of a function."""

Calls = Sequence[tuple[Scope, Operation]]
"""An operation in each call of the function that contains it, with its scope there."""


@dataclass(frozen=True, slots=True)
class Premises:
    """A model, and what holds of its inputs."""

    network: Network
    """The model, with the sizes of its file."""
    shapes: Mapping[str, Sequence[int]] | None = None
    """The sizes of graph inputs, by name."""
    conditions: Sequence[Condition] = ()
    allow_empty: bool = False
    """Whether open sizes of inputs may be 0; else they are at least 1."""


@dataclass(frozen=True, slots=True)
class AuditedModel:
    """A model, the records of its gathers in the order of execution, and its run."""

    network: Network
    """The model, with the sizes that were given or that a run showed."""
    gathers: dict[OperationKey, AuditedGather]
    captured: Captured
    options: list[str]
    """As of `Audit`."""
    contract: Contract
    """With the conditions that were given, and those of all gathers."""

    @property
    def audit(self) -> Audit:
        """The records, in the JSON of the command."""
        return Audit(
            gathers=list(self.gathers.values()),
            notes=list(_notes(self.captured)),
            options=self.options,
            contract=self.contract.plain,
            assumes=self.contract.assumes,
        )


def audit(
    model: str | os.PathLike[str] | ModelProto,
    inputs: Mapping[str, Array] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    assume: GivenContract | None = None,
    allow_empty: bool = False,
) -> Audit:
    """Return what DirectML makes of each gather of a model, and where its indices go.

    Args:
        model: A file, or the model itself.
        inputs: Arrays for all graph inputs; the model then runs on the CPU provider.
        shapes: The sizes of graph inputs, by name; those of `inputs` are known.
        ranges: The least and the greatest element of graph inputs, by name.
        assume: A contract of the model, a file or a plain dict, whose conditions hold.
        allow_empty: Whether open sizes of inputs may be 0; else they are at least 1.

    Raises:
        OnnxGatherError: The model, an input, a size, a range or the contract is not as
            it must be.
        ProviderError: There are inputs, but no CPU provider; it cannot start, or takes
            too long.
    """
    network = read_network(model)
    contracts = [] if assume is None else [assume]
    conditions = given_conditions(network, ranges, contracts)
    premises = Premises(network, shapes, conditions, allow_empty)
    return audit_model(premises, inputs).audit


def counted(gathers: Collection[AuditedGather]) -> str:
    """Return how many gathers there are, and how many other operators with indices."""
    total = len(gathers)
    others = sum(not gather.op.startswith("Gather") for gather in gathers)
    gather_count = number_of(total - others, "gather")
    if others == 0:
        return gather_count
    if others == total:
        return f"{number_of(others, 'operator')} with indices"
    return f"{gather_count} and {number_of(others, 'other operator')} with indices"


def given_conditions(
    network: Network,
    ranges: Mapping[str, tuple[int, int]] | None,
    assume: Iterable[GivenContract],
) -> list[Condition]:
    """Return the conditions of ranges of inputs and of contracts of the model.

    Args:
        network: The model, with the sizes of its file.
        ranges: The least and the greatest element of graph inputs, by name.
        assume: Contracts.

    Raises:
        OnnxGatherError: A range or a contract is not as it must be.
    """
    conditions: list[Condition] = []
    for name, ends in mapping("ranges", ranges).items():
        check_input(network.path, network.main.inputs, name, "a range")
        where = f"{network.path}: the range of {shown(name)}"
        conditions.append(_range_condition(where, name, ends))
    for given in assume:
        conditions += read_contract(given, network).conditions
    return conditions


def _range_condition(where: str, name: str, ends: object) -> Condition:
    """Return the condition of a range that is given for an input."""
    given = sequence(where, ends)
    numbers = [integer(end) for end in given]
    low = high = None
    if len(numbers) == 2:
        low, high = numbers
    if low is None or high is None or low > high:
        got = ":".join(map(shown, given[:9]))
        raise OnnxGatherError(f"{where} must be from a low to a high number, got {got}")
    # An end that INT64 does not contain limits nothing.
    return Condition(
        of="values",
        input=name,
        low=low if abs(low) <= LARGEST else None,
        high=high if abs(high) <= LARGEST else None,
    )


def audit_model(
    premises: Premises, inputs: Mapping[str, Array] | None = None
) -> AuditedModel:
    """Audit a model and keep the network and the run.

    Args:
        premises: The model, and what holds of its inputs.
        inputs: As of `audit`.

    Raises:
        OnnxGatherError: As `audit`; or the conditions exclude each other.
    """
    network = premises.network
    arrays: dict[str, Array] = {}
    if inputs is not None:
        arrays = checked(network, inputs)
    shapes = shapes_given(premises.shapes)
    for name, array in arrays.items():
        shapes[name] = array.shape

    conditions = tightened(premises.conditions)
    contract = Contract.of(network, conditions, premises.allow_empty)
    shape_conditions = sizes_given(contract.sizes, shapes)
    # This raises an error if the conditions exclude the given sizes.
    tightened([*contract.conditions, *shape_conditions])

    # Each stage knows more sizes, and looks at what the stages before left open.
    gathers: dict[OperationKey, AuditedGather] = {}
    captured = Captured()
    _refine(gathers, network, "file", captured, contract)
    if shapes:
        network = read_network(network, shapes)
        _refine(gathers, network, "given", captured, contract)
    if arrays:
        captured = capture(network, arrays, RUN_TIMEOUT)
        _refine(gathers, network, "run", captured, contract)
        _put_seen(gathers, network, captured)

    # Proofs that rest on given sizes hold only for these sizes.
    if any(gather.range.sizes_from != "file" for gather in gathers.values()):
        contract = contract.joined(shape_conditions)
        unranked = _unranked_shapes(premises.network, shapes)
        contract = replace(contract, shapes=unranked)
    for gather in gathers.values():
        contract = contract.joined(gather.range.conditions)

    # The shapes that an option names agree with the sizes that are given.
    full_contract = contract.joined(shape_conditions)
    options = _options(
        premises.network, captured, gathers.values(), shapes, full_contract
    )
    return AuditedModel(network, gathers, captured, list(options), contract)


def _unranked_shapes(
    network: Network, shapes: Mapping[str, Sequence[int]]
) -> dict[str, list[int]]:
    """Return the given shapes of the inputs whose rank the model leaves open."""
    unranked: dict[str, list[int]] = {}
    for name, shape in shapes.items():
        if network.dimensions[name] is None:
            unranked[name] = list(shape)
    return unranked


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
    """Return the operations of a network by the paths to them."""
    calls: dict[OperationKey, list[tuple[Scope, Operation]]] = {}
    for key, scope, operation in operations_of(network):
        calls.setdefault(key, []).append((scope, operation))
    return {**calls}


def _refine(
    gathers: dict[OperationKey, AuditedGather],
    network: Network,
    source: SizesFrom,
    captured: Captured,
    contract: Contract,
) -> None:
    """Put the results of a stage in the records that earlier stages left open.

    Args:
        gathers: The records so far, empty before the first stage.
        network: The model, with the sizes of this stage.
        source: Where the sizes come from.
        captured: What a run showed; empty before a run.
        contract: What holds of the inputs.

    Raises:
        OnnxGatherError: ONNX allows no such gather.
    """
    all_calls = calls_of(network)
    open_calls = _open_calls(all_calls, gathers)
    if source == "run" and not open_calls:
        return
    stage = _Stage(network, source, captured, contract)
    on_cpu = shape_computations(network)
    name_counts = Counter(calls[0][1].name for calls in all_calls.values())
    for key, calls in open_calls.items():
        ranges = [stage.range_of(scope, operation) for scope, operation in calls]
        record = _record(calls, ranges, on_cpu, name_counts)
        earlier = gathers.get(key)
        # What is decided stays as it was decided; this stage adds the sizes.
        if earlier is not None and earlier.range.state in _DECIDED:
            record = replace(record, range=earlier.range)
        gathers[key] = record


def _open_calls(
    all_calls: Mapping[OperationKey, Calls],
    gathers: Mapping[OperationKey, AuditedGather],
) -> dict[OperationKey, Calls]:
    """Return the operations with indices that no record settles yet."""
    open_calls: dict[OperationKey, Calls] = {}
    for key, calls in all_calls.items():
        _, operation = calls[0]
        if operator_of(operation) is None:
            continue
        record = gathers.get(key)
        if record is None or not record.is_settled:
            open_calls[key] = calls
    return open_calls


class _Stage:
    """A stage of an audit: what is proved of a model with the sizes of the stage."""

    def __init__(
        self,
        network: Network,
        source: SizesFrom,
        captured: Captured,
        contract: Contract,
    ) -> None:
        seen = {scope: _sizes_seen(scope, captured) for scope in network.scopes()}
        allow_empty = contract.assumes != NOT_EMPTY
        self._network = network
        self._source = source
        self._captured = captured
        self._contract = contract
        self._bounds = ranges_of(network, contract.conditions, allow_empty, seen)
        self._search = Search(network, self._bounds)

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
            proof = proof_of(self._bounds, scope, operation)
        except (LookupError, TypeError, ValueError):
            where = f"{self._network.path}: node {shown(operation.label)}"
            raise OnnxGatherError(f"{where} must be one that ONNX allows") from None
        if proof.state != "not-proved":
            return proof
        conditions = self._search.conditions(scope, operation)
        if not conditions:
            return proof
        # The contract stays as it is if no inputs meet both.
        if self._contract.joined(conditions) is self._contract:
            return proof
        return replace(proof, state="proved-if", conditions=conditions)

    def _index_out_of_range(
        self, scope: Scope, operation: Operation, state: str
    ) -> Found | None:
        """Return the first index out of range, of constants or of a run; else None."""
        if state == "proved":
            return None
        call = self._bounds.given(scope, operation)
        if state == "out-of-range":
            index_names = given_indices(operation)
            arrays = [
                scope.constant(name) if name in index_names else None
                for name in operation.inputs
            ]
            return _first_out_of_range(call, "constant", arrays)
        for execution in self._captured.gathers.get(operation, ()):
            arrays = execution.inputs
            found = _first_out_of_range(call.with_arrays(arrays), "inputs", arrays)
            if found is not None:
                return found
        return None


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
    rules = [rule for _, rule in translations if rule]

    index_range = ranges[0] if len(calls) == 1 else _joined(ranges)
    if operation.is_gather and data.is_static and indices.is_static:
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
        constant_indices=all(map(_has_constant_indices, calls)),
        descriptor=to_dict(descriptor) if descriptor else None,
        refused=rules[0] if rules else None,
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
        names = _data_indices_output(operation)
        data, indices, output = map(scope.type_of, names)
        types_by_call.append([data, indices, output])
        translations.append(_translated(operation, data, indices))
    types = [
        reduce(ValueType.common, types) for types in zip(*types_by_call, strict=True)
    ]
    return types, translations


def _has_constant_indices(call: tuple[Scope, Operation]) -> bool:
    scope, operation = call
    return scope.is_constant(given_indices(operation)[0])


def _data_indices_output(operation: Operation) -> tuple[str, str, str]:
    """Return the names of the data, the first input of indices and the output."""
    index_input = inputs_of(operation)[0]
    data = ""
    if index_input.data < len(operation.inputs):
        data = operation.inputs[index_input.data]
    return data, index_input.value_in(operation), operation.outputs[0]


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


def _put_seen(
    gathers: dict[OperationKey, AuditedGather], network: Network, captured: Captured
) -> None:
    """Put the least and the greatest index of a run in the records."""
    for key, scope, operation in operations_of(network):
        executions = captured.gathers.get(operation)
        if not executions:
            continue
        unknown_inputs = (unknown("", None),) * len(operation.inputs)
        call = Call(operation, unknown_inputs, scope.version)
        for execution in executions:
            arrays = execution.inputs
            for array, _ in _index_arrays(call.with_arrays(arrays), arrays):
                if array.size:
                    gathers[key] = _with_seen(gathers[key], array)


def _with_seen(gather: AuditedGather, indices: Array) -> AuditedGather:
    """Return a record that covers some more indices of a run."""
    low = int(indices.min())
    high = int(indices.max())
    if gather.range.seen is not None:
        seen_low, seen_high = gather.range.seen
        low = min(low, seen_low)
        high = max(high, seen_high)
    index_range = replace(gather.range, seen=(low, high))
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
        if index_input.value_in(call.operation):
            array = arrays[index_input.position]
        elif isinstance(high, int):  # the operator counts the positions itself
            array = np.arange(high + 1)
        if array is None or array.dtype.kind not in "iuf":
            continue
        column = index_input.column
        if column is not None:
            array = array[..., column : column + 1]
        if array.dtype.kind == "f":
            with np.errstate(invalid="ignore"):  # of NaN a provider makes some integer
                array = array.astype(np.int64)
        yield array, coordinates


def _first_out_of_range(
    call: Call, source: Literal["constant", "inputs"], arrays: Sequence[Array | None]
) -> Found | None:
    """Return the first index that is known to be out of range."""
    first_coordinate = 0
    for array, coordinates in _index_arrays(call, arrays):
        index_input = coordinates[0].input
        mask = _outside(array, coordinates)
        if mask is not None and mask.any():
            where = np.unravel_index(np.argmax(mask), mask.shape)
            position = tuple(map(int, where))
            coordinate = first_coordinate
            if len(coordinates) > 1:  # the last axis holds tuples
                coordinate += position[-1]
            return Found(
                source,
                at=position,
                value=int(array[position]),
                count=int(mask.sum()),
                providers=out_of_range(call.operator, call.operation.domain),
                name=index_input.name,
                coordinate=coordinate,
            )
        first_coordinate += len(coordinates)
    return None


def _outside(array: Array, coordinates: Sequence[Coordinate]) -> Array | None:
    """Return which indices are out of range; None if the size of an axis is open."""
    sizes: list[int] = []
    for coordinate in coordinates:
        if not isinstance(coordinate.size, int):
            return None
        sizes.append(min(coordinate.size, LARGEST))
    mask: Array = is_outside(array, np.array(sizes))
    mask = mask.reshape(array.shape)  # a number has no shape
    if not coordinates[0].input.from_end:
        mask |= array < 0
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
            if _is_about_bad_indices(case, directml_operators):
                behaviour_by_provider.setdefault(short_name, difference["reason"])
    return dict(sorted(behaviour_by_provider.items()))


def _is_about_bad_indices(case: Mapping[str, Any], operators: Collection[str]) -> bool:
    """Return whether a known difference is about indices out of range of operators."""
    if case.get("in_range") is not False:
        return False
    if case.get("out_of_range") != ["error"]:  # another policy, which allows the index
        return False
    case_operators = case.get("operator")
    if case_operators is None:  # the cases of all operators
        return True
    return any(operator in operators for operator in case_operators)


def _tensor(value_type: ValueType) -> Tensor:
    name = value_type.data_type
    return Tensor(DIRECTML_NAMES.get(name, name) or None, value_type.sizes)


def _badness(index_range: IndexRange) -> int:
    return _STATES.index(index_range.state)


def _joined(ranges: Sequence[IndexRange]) -> IndexRange:
    """Return the range of a gather, from its ranges in the calls of a function."""
    worst = max(ranges, key=_badness)
    conditions: tuple[Condition, ...] = ()
    if worst.state == "proved-if":
        all_conditions = chain.from_iterable(
            index_range.conditions for index_range in ranges
        )
        try:
            conditions = tightened(all_conditions)
        except OnnxGatherError:  # no inputs meet the conditions of all calls
            worst = replace(worst, state="not-proved")
    return replace(
        worst,
        low=_ends_in_all_calls(min, [index_range.low for index_range in ranges]),
        high=_ends_in_all_calls(max, [index_range.high for index_range in ranges]),
        size=common_sizes([index_range.size for index_range in ranges]),
        conditions=conditions,
    )


def _ends_in_all_calls(
    choose: Callable[[Sequence[int]], int],
    ends_by_call: Sequence[tuple[int | None, ...] | None],
) -> tuple[int | None, ...] | None:
    """Return the ends that hold in all calls; a call without an index has no ends."""
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


def _notes(captured: Captured) -> Iterator[str]:
    """Yield the notes of an audit."""
    if captured.stop:
        yield f"the run with the given inputs ends early: {captured.stop}"
    for where in sorted(captured.cut):
        limits = f"{MOST_ITERATIONS} of a loop, {MOST_OF_ALL:,} of all"
        yield f"the {where} has more iterations than are seen: {limits}"


def _options(
    network: Network,
    captured: Captured,
    gathers: Collection[AuditedGather],
    shapes: Mapping[str, Sequence[int]],
    contract: Contract,
) -> Iterator[str]:
    """Yield the options of the command with which an audit says more."""
    is_static = all(
        gather.data.is_static and gather.indices.is_static for gather in gathers
    )
    was_run = bool(captured.gathers or captured.stop)
    if not is_static and not was_run:
        yield from _shape_options(network, shapes, contract)
        yield "--inputs FILE.npz"
    stopping: set[str] = set()
    for gather in gathers:
        stopping |= _stopping_inputs(network, gather.range)
    for name in network.main.inputs:
        if name in stopping:
            yield f"--range {quote(f'{name}=LO:HI')}"


def _stopping_inputs(network: Network, index_range: IndexRange) -> set[str]:
    """Return the inputs whose ranges may prove a gather whose sizes are known."""
    if index_range.state != "not-proved":
        return set()
    names = set((index_range.input or "").split(", "))
    if not names <= set(network.main.inputs):  # an operator stops the proof
        return set()
    if not index_range.size or None in index_range.size:
        return set()
    return names


def _shape_options(
    network: Network, shapes: Mapping[str, Sequence[int]], contract: Contract
) -> Iterator[str]:
    """Yield an option with a shape for each input whose shape is open and not given."""
    sizes = _sizes_that_meet(contract)
    for name, dimensions in network.dimensions.items():
        if not dimensions or name in shapes:
            continue
        if any(isinstance(size, str) for size in dimensions):
            shape = [
                sizes[size] if isinstance(size, str) else size for size in dimensions
            ]
            numbers = ",".join(map(str, shape))
            yield f"--shape {quote(f'{name}={numbers}')}"


def _sizes_that_meet(contract: Contract) -> dict[str, int]:
    """Return open sizes of a model: 2 and 12, or others where conditions need others.

    A condition that no change of a single size meets is not met.
    """
    sizes: dict[str, int] = {}
    for name, places in contract.sizes.items():
        _, dimension = places[0]
        sizes[name] = 12 if dimension else 2
    met: list[tuple[Condition, str]] = []
    for condition in contract.conditions:
        if condition.of == "values":
            continue
        expression = expression_of(condition, contract.sizes)
        wanted = [(condition, expression), *met]
        for trial in _trial_sizes(sizes, expression):
            if _meets(trial, wanted):
                sizes = trial
                met = wanted
                break
    return sizes


def _trial_sizes(sizes: dict[str, int], expression: str) -> Iterator[dict[str, int]]:
    """Yield sizes as they are, and with a change to a size of an expression.

    Numbers near 12 come first. An expression without open sizes needs no trial.
    """
    factors: set[str] = set()
    for _, product in terms_in(expression):
        factors.update(product.split("*"))
    names = [name for name in sizes if name in factors]
    if not names:
        return
    yield sizes
    numbers = range(1, LARGEST_NAMED + 1)
    for number in sorted(numbers, key=lambda number: abs(number - 12)):
        for name in names:
            yield {**sizes, name: number}


def _meets(
    sizes: Mapping[str, int], conditions: Iterable[tuple[Condition, str]]
) -> bool:
    """Return whether sizes meet conditions, each with its expression."""
    return all(
        condition.admits(low_of(size_from(expression, sizes)))
        for condition, expression in conditions
    )
