"""The audit of a model: its file, and the graphs that ONNX Runtime makes of it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from shlex import quote

from msgspec import Struct, field
from msgspec.structs import replace

from onnxgather.auditing.algebra.sizes import (
    MOST_OF_INPUT,
    low_of,
    size_from,
    terms_in,
)
from onnxgather.auditing.capture import Captured
from onnxgather.auditing.declared import Declarations, declared_in
from onnxgather.auditing.graph_audit import (
    LARGEST,
    OperationKey,
    audit_graph,
    notes_of,
    operations_of,
)
from onnxgather.auditing.levels import (
    AuditedRuntimes,
    Levels,
    audit_levels,
    with_rewritten,
)
from onnxgather.auditing.lost_sizes import TrialShapes, with_told_sizes
from onnxgather.auditing.operators.other_operators import is_judged
from onnxgather.auditing.proof.contract import (
    Condition,
    Contract,
    GivenContract,
    condition_on_size,
    expression_of,
    open_sizes,
    read_contract,
    sizes_given,
)
from onnxgather.auditing.proof.given_ends import GivenRange
from onnxgather.auditing.proof.index_range import IndexRange, without_conditions
from onnxgather.auditing.proof.ranges import Ranges
from onnxgather.auditing.records import (
    Audit,
    AuditedGather,
    NotJudged,
    not_judged_texts,
)
from onnxgather.core.checks import (
    integer,
    mapping,
    sequence,
    shown,
    shown_with_suggestion,
)
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.given_inputs import GivenArray, checked
from onnxgather.core.model.network import (
    Network,
    check_input,
    read_network,
    shapes_given,
)
from onnxgather.core.model.values import ModelProto
from onnxgather.core.public import public

LARGEST_NAMED = 256
"""The largest open size that a hint names to meet a condition."""


class Premises(Struct, frozen=True):
    """A model, and what holds of its inputs."""

    network: Network
    """The model, with the sizes of its file."""
    shapes: Mapping[str, Sequence[int]] | None = None
    """The sizes of graph inputs, by name."""
    conditions: Sequence[Condition] = ()
    allow_empty: bool = False
    """Whether open sizes of inputs may be 0; else they are at least 1."""
    levels: Levels = field(default_factory=Levels)
    """Which graphs that ONNX Runtime makes of the model are audited too."""
    no_negative: bool = False
    """Whether an index below 0 that depends on an input counts as out of range."""
    given: Sequence[GivenRange] = ()
    """The least and the greatest element of inputs, which are among the conditions
    too. An end that leads to an index out of range is a finding."""
    declared: bool = False
    """Whether what the model declares of its inputs holds, too."""


class AuditedModel(Struct, frozen=True):
    """A model, the records of its gathers in the order of execution, and its run."""

    network: Network
    """The model, with the sizes that were given or that a run showed."""
    gathers: dict[OperationKey, AuditedGather]
    captured: Captured
    options: list[str]
    """As of `Audit`."""
    contract: Contract
    """With the conditions that were given, and those of all gathers."""
    runtimes: AuditedRuntimes
    """The audits of the graphs that ONNX Runtime makes of the model."""
    given: list[str]
    """As of `Audit`."""
    bounds: Ranges
    """The bounds of the values of the file, for all that was given."""
    declared: Declarations
    """What the model declares of its inputs."""

    @property
    def audit(self) -> Audit:
        """The records, in the JSON of the command."""
        contract = self.contract.with_digest(self.network)
        return replace(self, contract=contract).audit_without_digest

    @property
    def audit_without_digest(self) -> Audit:
        """The records, with a contract that nobody writes or reads."""
        return Audit(
            gathers=list(self.gathers.values()),
            notes=[
                *not_judged_texts(self.not_judged),
                *notes_of(self.captured),
                *self.declared.notes,
                *self.runtimes.notes,
            ],
            runtime=self.runtimes.record,
            runtime_reason=self.runtimes.reason,
            options=self.options,
            contract=self.contract.plain,
            assumes=self.contract.assumes,
            not_judged=self.not_judged,
            given=self.given,
        )

    @property
    def not_judged(self) -> list[NotJudged]:
        """The nodes of operators that are not known."""
        nodes: dict[OperationKey, NotJudged] = {}
        for key, scope, operation in operations_of(self.network):
            if key in nodes or is_judged(scope, operation):
                continue
            nodes[key] = NotJudged(
                operation.label, scope.place, operation.operator, operation.domain
            )
        return list(nodes.values())


@public
def audit(
    model: str | os.PathLike[str] | ModelProto,
    inputs: Mapping[str, Array] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    assume: GivenContract | None = None,
    allow_empty: bool = False,
    levels: Sequence[str] | None = None,
    runtimes: Sequence[str] = (),
    no_negative: bool = False,
    sizes: Mapping[str, tuple[int, int]] | None = None,
) -> Audit:
    """Return for each gather of a model whether its indices stay in range.

    The audit also says which gathers DirectML's provider refuses.

    What the metadata of the model declare of its inputs holds too, but for an input or
    a size of which an argument says something. The `verdict` of the result says whether
    a wrong input can leave an axis.

    Args:
        model: A file, or the model itself.
        inputs: Arrays for all graph inputs; the model then runs in a program of its
            own, on onnxgather's provider. It goes on under clamp behind a gather that
            meets an index out of range. Without the native kernels, or if it does not
            end under clamp, it runs on the CPU provider, and stops at such a gather.
        shapes: The sizes of graph inputs, by name; those of `inputs` are known.
        ranges: The least and the greatest element of graph inputs, by name.
        assume: A contract of the model, a file or a plain dict, whose conditions hold.
        allow_empty: Whether open sizes of inputs may be 0; else they are at least 1.
        levels: The levels of ONNX Runtime's optimizations whose graphs are audited too:
            "basic", "extended", "all". () for none; None for that of a session, "all",
            if onnxruntime is installed and the model has at most 1 GiB.
        runtimes: The Python interpreters of other environments, whose ONNX Runtime is
            asked for these graphs in place of the installed one.
        no_negative: Whether an index below 0 that depends on an input counts as out of
            range; else it counts from the end where ONNX lets it.
        sizes: The least and the greatest number of open sizes, by name.

    Raises:
        OnnxGatherError: The model, an input, a size, a range or the contract is not as
            it must be.
        ProviderError: There are inputs, levels or runtimes, but no CPU provider; it
            cannot start, or takes too long.

    Example:
        >>> audit = og.audit("models/networks/keywords.onnx")
        >>> for gather in audit.gathers:
        ...     print(gather.node, gather.range.state, *gather.range.conditions)
        length proved
        position_embedding proved-if size 1 of words (length) is at most 16
        word_embedding proved-if each value of words is from -32 to 31
        keep_best proved
    """
    graphs = Levels(levels, runtimes)
    network = read_network(model)
    contracts = [] if assume is None else [assume]
    ranges = plain_ranges(network, ranges)
    conditions = given_conditions(network, ranges, contracts, sizes)
    given = given_ranges(ranges)
    premises = Premises(
        network,
        shapes,
        conditions,
        allow_empty,
        graphs,
        no_negative,
        given,
        declared=True,
    )
    return audit_model(premises, inputs).audit


def given_conditions(
    network: Network,
    ranges: Mapping[str, tuple[int, int]] | None,
    assume: Iterable[GivenContract],
    sizes: Mapping[str, tuple[int, int]] | None = None,
) -> list[Condition]:
    """Return the conditions of ranges, of sizes and of contracts of the model.

    Args:
        network: The model, with the sizes of its file.
        ranges: The least and the greatest element of graph inputs, by name.
        assume: Contracts.
        sizes: The least and the greatest number of open sizes, by name.

    Raises:
        OnnxGatherError: A range, a size or a contract is not as it must be.
    """
    conditions: list[Condition] = []
    for name, (low, high) in plain_ranges(network, ranges).items():
        conditions.append(_range_condition(name, low, high))
    for name, ends in mapping("sizes", sizes).items():
        conditions.append(_size_condition(network, name, ends))
    for given in assume:
        conditions += read_contract(given, network).conditions
    return conditions


def plain_ranges(
    network: Network, ranges: Mapping[str, tuple[int, int]] | None
) -> dict[str, tuple[int, int]]:
    """Return the ranges of inputs as plain numbers, as an iterator is read but once.

    Raises:
        OnnxGatherError: A range is not as it must be.
    """
    checked: dict[str, tuple[int, int]] = {}
    for name, ends in mapping("ranges", ranges).items():
        check_input(network.path, network.main.inputs, name, "a range")
        checked[name] = _ends(f"{network.path}: the range of {shown(name)}", ends)
    return checked


def given_ranges(ranges: Mapping[str, tuple[int, int]] | None) -> list[GivenRange]:
    """Return the ranges of inputs that `given_conditions` accepts, as records."""
    return [
        GivenRange("range", name, low, high)
        for name, (low, high) in (ranges or {}).items()
    ]


def _range_condition(name: str, low: int, high: int) -> Condition:
    """Return the condition of a range that is given for an input."""
    # An end that INT64 does not contain limits nothing.
    return Condition(
        of="values",
        input=name,
        low=low if abs(low) <= LARGEST else None,
        high=high if abs(high) <= LARGEST else None,
    )


def _ends(where: str, ends: object) -> tuple[int, int]:
    """Return the two ends of a range that is given.

    Raises:
        OnnxGatherError: They are no numbers in their order.
    """
    given = sequence(where, ends)
    numbers = [integer(end) for end in given]
    low = high = None
    if len(numbers) == 2:
        low, high = numbers
    if low is None or high is None or low > high:
        got = ":".join(map(shown, given[:9]))
        raise OnnxGatherError(f"{where} must be from a low to a high number, got {got}")
    return low, high


def _size_condition(network: Network, name: str, ends: object) -> Condition:
    """Return the condition of a range that is given for an open size."""
    named = open_sizes(network)
    if name not in named:
        names = ", ".join(map(shown, named)) or "none"
        rule = f"a size must be an open size of the inputs ({names})"
        got = shown_with_suggestion(name, named)
        raise OnnxGatherError(f"{network.path}: {rule}, got {got}")
    where = f"{network.path}: the size of {shown(name)}"
    low, high = _ends(where, ends)
    # A proof assumes that no size is larger, and 0 alone is given as a shape.
    if low < 0 or not 1 <= high <= MOST_OF_INPUT:
        ends = f"a number of 0 or more to one of 1 to {MOST_OF_INPUT:,}"
        rule = f"{where} must be from {ends}"
        raise OnnxGatherError(f"{rule}, got {low}:{high}")
    greatest = high if high < MOST_OF_INPUT else None
    return condition_on_size(name, named[name][0], low, greatest)


def audit_model(
    premises: Premises, inputs: Mapping[str, GivenArray] | None = None
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

    declared = Declarations()
    if premises.declared:
        declared = declared_in(network, premises.conditions, shapes)
        premises = replace(
            premises,
            conditions=[*premises.conditions, *declared.texts],
            given=[*premises.given, *declared.ranges],
        )
    contract = Contract.of(network, (), premises.allow_empty, premises.no_negative)
    contract = contract.joined(premises.conditions)
    shape_conditions = sizes_given(contract.sizes, shapes)
    # This raises an error if the conditions exclude the given sizes.
    contract.joined(shape_conditions)

    given = premises.given
    file = audit_graph(network, shapes, arrays, contract, given=given)
    gathers = file.gathers
    captured = file.captured

    given_texts = [declared.texts.get(each, str(each)) for each in contract.conditions]
    given_shapes: Mapping[str, Sequence[int]] = {}
    # Proofs that rest on given sizes hold only for these sizes.
    if any(gather.range.sizes_from != "file" for gather in gathers.values()):
        contract = contract.joined(shape_conditions)
        given_shapes = shapes
        given_texts += map(str, shape_conditions)
    contract, gathers = _with_conditions(contract, gathers)
    contract = contract.with_inputs(network, given_shapes)
    for name, shape in contract.shapes.items():
        if network.dimensions[name] is None:
            given_texts.append(f"the shape of {name} is {shape}")

    runtimes = audit_levels(
        network,
        premises.levels,
        bool(arrays),
        partial(audit_graph, shapes=shapes, arrays=arrays, contract=contract),
        replace(file, gathers=gathers),
        contract.sizes,
    )
    gathers = with_rewritten(gathers, runtimes)

    # The shapes that an option names agree with the sizes that are given.
    full_contract = contract
    with suppress(OnnxGatherError):
        full_contract = contract.joined(shape_conditions)
    open_shapes = _open_shapes(premises.network, shapes, full_contract)
    shape_options = list(_shape_options(open_shapes))
    if shape_options:
        trial = TrialShapes(
            {**shapes, **open_shapes},
            " ".join(shape_options),
            premises.conditions,
            premises.allow_empty,
        )
        gathers = with_told_sizes(premises.network, gathers, trial)
    options = _options(premises.network, captured, gathers.values(), shape_options)
    return AuditedModel(
        file.network,
        gathers,
        captured,
        list(options),
        contract,
        runtimes,
        list(dict.fromkeys(given_texts)),
        file.bounds,
        declared,
    )


def _with_conditions(
    contract: Contract, gathers: dict[OperationKey, AuditedGather]
) -> tuple[Contract, dict[OperationKey, AuditedGather]]:
    """Return a contract with the conditions of gathers, and the gathers.

    A gather is not proved if no input meets its conditions, those of the contract and
    those of the gathers before it.
    """
    conditions: list[Condition] = []
    for gather in gathers.values():
        conditions += gather.range.conditions
    # Case: some inputs meet the conditions of all, as of most models.
    with suppress(OnnxGatherError):
        return contract.joined(conditions), gathers
    judged: dict[OperationKey, AuditedGather] = {}
    for key, gather in gathers.items():
        judged[key] = gather
        conditions_of_gather = gather.range.conditions
        try:
            contract = contract.joined(conditions_of_gather)
        except OnnxGatherError:
            index_range = without_conditions(gather.range, conditions_of_gather)
            judged[key] = replace(gather, range=index_range)
    return contract, judged


def _options(
    network: Network,
    captured: Captured,
    gathers: Collection[AuditedGather],
    shape_options: Sequence[str],
) -> Iterator[str]:
    """Yield the options of the command with which an audit says more."""
    is_static = all(
        gather.data.is_static and gather.indices.is_static for gather in gathers
    )
    was_run = bool(captured.gathers or captured.stop)
    if not is_static and not was_run:
        yield from shape_options
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


def _open_shapes(
    network: Network, shapes: Mapping[str, Sequence[int]], contract: Contract
) -> dict[str, list[int]]:
    """Return a shape for each input whose shape is open and not given, by name."""
    sizes = _sizes_that_meet(contract)
    open_shapes: dict[str, list[int]] = {}
    for name, dimensions in network.dimensions.items():
        if not dimensions or name in shapes:
            continue
        if any(isinstance(size, str) for size in dimensions):
            open_shapes[name] = [
                sizes[size] if isinstance(size, str) else size for size in dimensions
            ]
    return open_shapes


def _shape_options(shapes: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Yield the options of the command that give shapes to inputs."""
    for name, shape in shapes.items():
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
        if condition.is_of_elements:
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
