"""The audit of a model: each of its gathers as a record, in the JSON of `onnxgather audit`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby, zip_longest
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
    Gathered,
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
from onnxgather.core.execution.providers import PROVIDERS, known_rows
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
"""The largest size that an index is compared with."""

EMPTY = "the DirectML provider does nothing, as a tensor is empty"


class Tensor(msgspec.Struct, frozen=True):
    """The type and the sizes of a value, as far as they are known."""

    type: str | None
    """DirectML's name, or ONNX's where DirectML has none; None where it is not
    known."""
    sizes: tuple[int | None, ...] | None
    """None for a size that is not known; None alone where the rank is not known."""

    @property
    def is_static(self) -> bool:
        """Whether every size is known."""
        return self.sizes is not None and None not in self.sizes


class AuditedGather(msgspec.Struct, frozen=True):
    """One gather of a model."""

    node: str
    """The name of the node, or its first output where the name is empty or not
    unique."""
    output_name: str
    place: str
    """The main graph, or the way into a subgraph or a function."""
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
    """The rule that the DirectML provider refuses the node by."""
    feature_level: str | None
    range: IndexRange
    lanes: dict[str, str] = {}
    """Always empty; schema 2 of the JSON contains the key."""
    domain: str = ""
    """Of the operator; "" is ONNX's own."""

    @property
    def is_settled(self) -> bool:
        """Whether all sizes are known, and whether the indices are in range is decided."""
        static = all(
            tensor.is_static for tensor in (self.data, self.indices, self.output)
        )
        return static and self.range.state in ("proved", "out-of-range")


class Audit(msgspec.Struct, frozen=True):
    """The audit of a model."""

    gathers: list[AuditedGather]
    notes: list[str] = []
    """Sentences: where the run ended early, and which iterations of a loop were not
    seen."""
    options: list[str] = []
    """Options of the command that would tell more, such as `--shape ids=2,12`; LO and
    HI stand for the least and the greatest number of an input, and FILE.npz for a file
    of arrays."""
    contract: dict[str, Any] = {}
    """The conditions on inputs under which every gather is proved that can be, as
    `Contract` has them; `check_inputs` takes it."""
    assumes: Assumption = NOT_EMPTY
    """What every proof assumes."""
    schema: int = 2

    def __repr__(self) -> str:
        counts = Counter(gather.range.state for gather in self.gathers)
        told = ", ".join(f"{count:,} {state}" for state, count in counts.items())
        return f"<Audit of {counted(self.gathers)}{told and f': {told}'}>"

    def _repr_html_(self) -> str:
        rows = ((g.node, f"{g.op}, {g.place}: {g.range.state}") for g in self.gathers)
        return html_table(repr(self)[1:-1], rows)

    @property
    def out_of_range(self) -> list[AuditedGather]:
        """The gathers of which an index is out of range."""
        return [
            gather for gather in self.gathers if gather.range.state == "out-of-range"
        ]

    @property
    def open(self) -> list[AuditedGather]:
        """The gathers that are not proved, or under conditions alone."""
        return [gather for gather in self.gathers if gather.range.state != "proved"]

    @property
    def refused(self) -> list[AuditedGather]:
        """The gathers that the DirectML provider refuses, without those it leaves to the CPU."""
        return [g for g in self.gathers if g.refused and not g.shape_computation]

    @property
    def not_proved(self) -> list[AuditedGather]:
        """The gathers whose indices may be out of range."""
        return [gather for gather in self.gathers if gather.range.state == "not-proved"]

    @property
    def proved_if(self) -> list[AuditedGather]:
        """The gathers that are proved under conditions on the inputs."""
        return [gather for gather in self.gathers if gather.range.state == "proved-if"]


OperationKey = tuple[int | str | Key, ...]
"""The way to an operation: the numbers of operations and the names of bodies, from the
main graph or from the function that it is in. It is the same for each call of a
function."""

Calls = Sequence[tuple[Scope, Operation]]
"""An operation in each call of the function that it is in, with its scope there."""


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
    """A model with the records of its gathers, in the order in which they run, and with its run."""

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
        contract, gathers = self.contract, [*self.gathers.values()]
        notes = [*_notes(self.captured)]
        return Audit(gathers, notes, self.options, contract.plain, contract.assumes)


def audit(
    model: str | os.PathLike[str] | ModelProto,
    inputs: Mapping[str, Array] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    assume: GivenContract | None = None,
    allow_empty: bool = False,
) -> Audit:
    """What DirectML makes of each gather of a model, and whether its indices are in range.

    Args:
        model: A file, or the model itself.
        inputs: Arrays for all graph inputs; the model then runs on the CPU provider.
        shapes: The sizes of graph inputs, by name; those of `inputs` are known.
        ranges: The least and the greatest element of graph inputs, by name.
        assume: A contract of the model, a file or a plain dict, whose conditions hold.
        allow_empty: Whether open sizes of inputs may be 0; else they are at least 1.

    Raises:
        OnnxGatherError: The model, an input, a size, a range or the contract is not as it must be.
        ProviderError: There are inputs, but no CPU provider; it cannot start, or takes too long.
    """
    network = read_network(model)
    conditions = given_conditions(network, ranges, [] if assume is None else [assume])
    return audit_model(Premises(network, shapes, conditions, allow_empty), inputs).audit


def counted(gathers: Collection[AuditedGather]) -> str:
    """How many gathers there are, and how many other operators that carry indices."""
    others = sum(not gather.op.startswith("Gather") for gather in gathers)
    count = number_of(len(gathers) - others, "gather")
    if not others:
        return count
    more = number_of(others, "other operator" if others < len(gathers) else "operator")
    return (f"{count} and {more}" if others < len(gathers) else more) + " with indices"


def given_conditions(
    network: Network,
    ranges: Mapping[str, tuple[int, int]] | None,
    assume: Iterable[GivenContract],
) -> list[Condition]:
    """The conditions that are given as ranges of inputs and as contracts of the model.

    Args:
        network: The model, with the sizes of its file.
        ranges: The least and the greatest element of graph inputs, by name.
        assume: Contracts.

    Raises:
        OnnxGatherError: A range or a contract is not as it must be.
    """
    conditions = list[Condition]()
    for name, ends in mapping("ranges", ranges).items():
        check_input(network.path, network.main.inputs, name, "a range")
        where = f"{network.path}: the range of {shown(name)}"
        given = sequence(where, ends)
        low, high, *more = *map(integer, given), None, None
        if low is None or high is None or low > high or more != [None, None]:
            got = ":".join(map(shown, given[:9]))
            raise OnnxGatherError(
                f"{where} must be from a low to a high number, got {got}"
            )
        first, last = (end if abs(end) < 2**63 else None for end in (low, high))
        conditions.append(Condition(of="values", input=name, low=first, high=last))
    return conditions + [
        c for given in assume for c in read_contract(given, network).conditions
    ]


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
    plain = premises.network
    inputs = checked(plain, inputs) if inputs is not None else None
    shapes = shapes_given(premises.shapes)
    shapes |= {name: array.shape for name, array in (inputs or {}).items()}
    known = Contract.of(plain, tightened(premises.conditions), premises.allow_empty)
    given = sizes_given(known.sizes, shapes)
    tightened(
        [*known.conditions, *given]
    )  # which tells of sizes that the conditions exclude
    network, captured, gathers = plain, Captured(), dict[OperationKey, AuditedGather]()
    _refine(gathers, plain, "file", captured, known)
    if shapes:
        network = read_network(plain, shapes)
        _refine(gathers, network, "given", captured, known)
    if inputs:
        captured = capture(network, inputs, RUN_TIMEOUT)
        _refine(gathers, network, "run", captured, known)
        _put_seen(gathers, network, captured)
    is_given = any(gather.range.sizes_from != "file" for gather in gathers.values())
    unranked = {
        name: [*n] for name, n in shapes.items() if plain.dimensions[name] is None
    }
    contract = replace(known.joined(given), shapes=unranked) if is_given else known
    for gather in gathers.values():
        contract = contract.joined(gather.range.conditions)
    options = [
        *_options(plain, captured, gathers.values(), shapes, contract.joined(given))
    ]
    return AuditedModel(network, gathers, captured, options, contract)


def operations_of(network: Network) -> Iterator[tuple[OperationKey, Scope, Operation]]:
    """Yield every operation of a network in order; those of a function once per call."""

    def walk(
        scope: Scope, way: OperationKey
    ) -> Iterator[tuple[OperationKey, Scope, Operation]]:
        for k, operation in enumerate(scope.operations):
            yield (*way, k), scope, operation
            for name, body in operation.bodies.items():
                is_call = name == "function"
                yield from walk(
                    body, (key_of(operation.proto),) if is_call else (*way, k, name)
                )

    for owner, scope in {MAIN: network.main, **network.uncalled}.items():
        yield from walk(scope, (owner,))


def calls_of(network: Network) -> dict[OperationKey, Calls]:
    """The operations of a network by the ways to them."""
    calls = dict[OperationKey, list[tuple[Scope, Operation]]]()
    for key, scope, operation in operations_of(network):
        calls.setdefault(key, []).append((scope, operation))
    return {**calls}


def _refine(
    gathers: dict[OperationKey, AuditedGather],
    network: Network,
    source: SizesFrom,
    captured: Captured,
    known: Contract,
) -> None:
    """Put what a stage tells in the records of those gathers that earlier stages left open.

    Args:
        gathers: The records so far, empty before the first stage.
        network: The model, with the sizes of this stage.
        source: Where the sizes come from.
        captured: What a run showed; empty before one.
        known: What holds of the inputs.

    Raises:
        OnnxGatherError: ONNX allows no such gather.
    """
    every, settled = (
        calls_of(network),
        {key for key, one in gathers.items() if one.is_settled},
    )
    calls = {
        k: each
        for k, each in every.items()
        if operator_of(each[0][1]) and k not in settled
    }
    if source == "run" and not calls:
        return
    seen = {scope: _sizes_seen(scope, captured) for scope in network.scopes()}
    bounds = ranges_of(network, known.conditions, known.assumes != NOT_EMPTY, seen)
    search = Search(network, bounds)
    on_cpu = shape_computations(network)
    names = Counter(each[0][1].name for each in every.values())
    for key, each in calls.items():
        ranges = list[IndexRange]()
        for scope, operation in each:
            try:
                proof = proof_of(bounds, scope, operation)
            except (LookupError, TypeError, ValueError):
                where = f"{network.path}: node {shown(operation.label)}"
                raise OnnxGatherError(f"{where} must be one that ONNX allows") from None
            found = (
                search.conditions(scope, operation)
                if proof.state == "not-proved"
                else ()
            )
            if found and known.joined(found) is not known:  # else nothing meets both
                proof = replace(proof, state="proved-if", conditions=found)
            call = bounds.given(scope, operation)
            executions = captured.gathers.get(operation, [])
            ranges.append(_range(scope, call, proof, source, executions))
        record = _record(each, ranges, on_cpu, names)
        if key in gathers and gathers[key].range.state in ("proved", "out-of-range"):
            record = replace(record, range=gathers[key].range)
        gathers[key] = record


def _record(
    calls: Calls,
    ranges: Sequence[IndexRange],
    on_cpu: Collection[Operation],
    names: Mapping[str, int],
) -> AuditedGather:
    """The record of a gather: what holds in each call of the function that it is in.

    Args:
        calls: The gather in each call, with its graph.
        ranges: The range of its indices in each call.
        on_cpu: The operations that compute shapes.
        names: How many operations have a name.
    """
    scope, operation = calls[0]
    types = [
        [each.type_of(name) for name in _data_indices_output(n)] for each, n in calls
    ]
    made = [
        _translated(n, *known[:2]) for (_, n), known in zip(calls, types, strict=True)
    ]
    common = [reduce(ValueType.common, each) for each in zip(*types, strict=True)]
    data, indices, output = map(_tensor, common)
    descriptor = made[0][0] if all(one == made[0] for one in made) else None
    indices_range = ranges[0] if len(calls) == 1 else _joined(ranges)
    is_known = operation.is_gather and data.is_static and indices.is_static
    if is_known and 0 in (*(data.sizes or ()), *(indices.sizes or ())):
        indices_range = replace(indices_range, why=EMPTY)
    return AuditedGather(
        operation.label if names[operation.name] == 1 else operation.outputs[0],
        operation.outputs[0],
        scope.where if len(calls) == 1 else scope.place,
        operation.operator,
        all(one in on_cpu for _, one in calls),
        data,
        indices,
        output,
        all(each.is_constant(given_indices(one)[0]) for each, one in calls),
        to_dict(descriptor) if descriptor else None,
        next((rule for _, rule in made if rule), None),
        minimum_feature_level(descriptor) if descriptor else None,
        indices_range,
        domain=operation.domain,
    )


def _data_indices_output(operation: Operation) -> tuple[str, str, str]:
    """The names of the indices of an operation, the first ones, of their data and the output."""
    one = inputs_of(operation)[0]
    data = operation.inputs[one.data] if one.data < len(operation.inputs) else ""
    return data, one.value_in(operation), operation.outputs[0]


def _translated(
    operation: Operation, *known: ValueType
) -> tuple[Descriptor | None, str | None]:
    """The descriptor of a gather, or the rule that the DirectML provider refuses it by.

    Neither where the types of its data and indices are not known, or one of them is
    empty; nor of another operator.
    """
    if not operation.is_gather or not all(
        each.data_type and each.is_static and 0 not in (each.sizes or ())
        for each in known
    ):
        return None, None
    pairs: Any = [(each.type, each.sizes) for each in map(_tensor, known)]
    number = {ATTRIBUTES[operation.operator]: operation.number}
    try:
        return from_onnx(operation.operator, *pairs, **number), None
    except DescriptorError as error:
        return None, str(error)


def _range(
    scope: Scope,
    call: Call,
    proof: IndexRange,
    source: SizesFrom,
    executions: Sequence[Gathered],
) -> IndexRange:
    """The range of the indices of an operation, from its proof and from what executions had."""
    found, operation = None, call.operation
    if proof.state == "out-of-range":
        held = given_indices(operation)
        arrays = [
            scope.constant(name) if name in held else None for name in operation.inputs
        ]
        found = _found(call, "constant", arrays)
    elif proof.state != "proved":
        for one in executions:
            ran = call.with_arrays(one.inputs)
            found = found or _found(ran, "inputs", one.inputs)
    proof = replace(proof, sizes_from=source)
    return (
        replace(proof, state="out-of-range", input=None, found=found)
        if found
        else proof
    )


def _put_seen(
    gathers: dict[OperationKey, AuditedGather], network: Network, captured: Captured
) -> None:
    """Put the least and the greatest index that a run had in the records."""
    for key, scope, operation in operations_of(network):
        call = Call(
            operation, (unknown("", None),) * len(operation.inputs), scope.version
        )
        for one in captured.gathers.get(operation, ()):
            for array, _ in _indices(call.with_arrays(one.inputs), one.inputs):
                if array.size:
                    found, ends = (
                        gathers[key].range,
                        (int(array.min()), int(array.max())),
                    )
                    low, high = found.seen or ends
                    found = replace(found, seen=(min(low, ends[0]), max(high, ends[1])))
                    gathers[key] = replace(gathers[key], range=found)


def _indices(
    call: Call, arrays: Sequence[Array | None]
) -> Iterator[tuple[Array, list[Coordinate]]]:
    """Yield the arrays that hold indices, each with its coordinates."""
    for one, each in groupby(
        coordinates_of(call), key=lambda coordinate: coordinate.input
    ):
        every, is_given = [*each], bool(one.value_in(call.operation))
        array = arrays[one.position] if is_given else None
        if not is_given and isinstance(every[0].high, int):
            array = np.arange(every[0].high + 1)
        if array is not None and array.dtype.kind in "iuf":
            part = array if one.column is None else array[..., one.column :][..., :1]
            with np.errstate(
                invalid="ignore"
            ):  # of NaN, of which a provider makes some integer
                yield part.astype(np.int64) if part.dtype.kind == "f" else part, every


def _found(
    call: Call, source: Literal["constant", "inputs"], arrays: Sequence[Array | None]
) -> Found | None:
    """The first index out of range; None where all are in range, or an axis is not known."""
    number = 0
    for array, each in _indices(call, arrays):
        one, sizes = (
            each[0].input,
            [min(c.size, LARGEST) for c in each if isinstance(c.size, int)],
        )
        if len(sizes) == len(each):
            mask = is_outside(array, np.array(sizes)).reshape(array.shape)
            mask |= (array < 0) & (not one.from_end)
            if mask.any():
                at = tuple(map(int, np.unravel_index(np.argmax(mask), mask.shape)))
                told = out_of_range(call.operator, call.operation.domain)
                k = number + (at[-1] if len(each) > 1 else 0)
                return Found(
                    source, at, int(array[at]), int(mask.sum()), told, one.name, k
                )
        number += len(each)
    return None


def out_of_range(op: str, domain: str = "") -> dict[str, str]:
    """What each provider does with an index out of range of an operator."""
    if told := INDEX_OPERATORS.get(
        (domain, op), INDEX_OPERATORS["", "Gather"]
    ).providers:
        return {**told}
    told = {"cpu": "The node fails.", "webnn": "The index is clamped to its own axis."}
    directml = {name for name, row in FACTS.items() if row.onnx == op}
    short = {provider.name: name for name, provider in PROVIDERS.items()}
    for known in known_rows():
        for case in known["cases"]:
            operators = case.get("operator")
            about = operators is None or not directml.isdisjoint(operators)
            about &= known["provider"] in short
            if (
                case.get("in_range") is False
                and case.get("out_of_range") == ["error"]
                and about
            ):
                told.setdefault(short[known["provider"]], known["reason"])
    return dict(sorted(told.items()))


def _tensor(known: ValueType) -> Tensor:
    name = known.data_type
    return Tensor(DIRECTML_NAMES.get(name, name) or None, known.sizes)


def _joined(ranges: Sequence[IndexRange]) -> IndexRange:
    """The range of the indices of a gather, from its ranges in the calls of a function."""
    worst = max(ranges, key=lambda each: _STATES.index(each.state))
    conditions = tuple[Condition, ...]()
    if worst.state == "proved-if":
        try:
            conditions = tightened(c for each in ranges for c in each.conditions)
        except OnnxGatherError:  # no inputs meet those of all calls
            worst = replace(worst, state="not-proved")
    return replace(
        worst,
        low=_ends(min, [each.low for each in ranges]),
        high=_ends(max, [each.high for each in ranges]),
        size=common_sizes([each.size for each in ranges]),
        conditions=conditions,
    )


_STATES = ("proved", "proved-if", "not-proved", "out-of-range")
"""From the best to the worst."""


def _ends(choose: Any, calls: Sequence[tuple[int | None, ...] | None]) -> Any:
    """The ends that hold in all calls; a call without an index has none, and bounds nothing."""
    ends = zip_longest(*(each for each in calls if each is not None))
    return tuple(None if None in each else choose(each) for each in ends) or None


def _sizes_seen(scope: Scope, captured: Captured) -> dict[str, ValueType]:
    """The types of the inputs and outputs of gathers, with the sizes that all executions share."""
    types = dict[str, ValueType]()
    for operation in scope.operations:
        for arrays in captured.gathers.get(operation, ()):
            every = (*arrays.inputs, arrays.output)
            for name, array in zip(
                (*operation.inputs, operation.outputs[0]), every, strict=True
            ):
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
    plain: Network,
    captured: Captured,
    gathers: Collection[AuditedGather],
    shapes: Mapping[str, Sequence[int]],
    contract: Contract,
) -> Iterator[str]:
    """Yield the options of the command that would tell more."""
    unknown = sum(not (g.data.is_static and g.indices.is_static) for g in gathers)
    if unknown and not (captured.gathers or captured.stop):
        yield from _shape_options(plain, shapes, contract)
        yield "--inputs FILE.npz"
    stops = set[str]()
    for found in (each.range for each in gathers if each.range.state == "not-proved"):
        names = {*(found.input or "").split(", ")}
        if names <= {*plain.main.inputs} and None not in (found.size or (None,)):
            stops |= names
    for name in plain.main.inputs:
        if name in stops:
            yield f"--range {quote(f'{name}=LO:HI')}"


def _shape_options(
    plain: Network, shapes: Mapping[str, Sequence[int]], contract: Contract
) -> Iterator[str]:
    """Yield an option with a shape for each input whose sizes are open and not given."""
    sizes = _sizes_that_meet(contract)
    for name, dimensions in plain.dimensions.items():
        if (
            dimensions
            and name not in shapes
            and any(isinstance(n, str) for n in dimensions)
        ):
            numbers = ",".join(
                str(sizes[n] if isinstance(n, str) else n) for n in dimensions
            )
            yield f"--shape {quote(f'{name}={numbers}')}"


def _sizes_that_meet(contract: Contract) -> dict[str, int]:
    """Open sizes of a model: 2 and 12, or numbers near 12 where conditions ask for others.

    A condition that no change of one size meets is not met.
    """
    sizes = {name: 12 if places[0][1] else 2 for name, places in contract.sizes.items()}
    met = list[tuple[Condition, str]]()
    for one in (
        condition for condition in contract.conditions if condition.of != "values"
    ):
        expression = expression_of(one, contract.sizes)
        factors = {f for _, product in terms_in(expression) for f in product.split("*")}
        names = [name for name in sizes if name in factors]
        near = sorted(range(1, LARGEST_NAMED + 1), key=lambda n: abs(n - 12))
        changes = ({**sizes, name: n} for n in near for name in names)
        both = [(one, expression), *met]
        for each in (sizes, *changes) if names else ():
            if all(of.admits(low_of(size_from(text, each))) for of, text in both):
                sizes, met = each, both
                break
    return sizes
