"""The checks of a hardened model: proved indices, equal bytes in range, wild inputs."""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.random import Generator, default_rng
from onnx import helper

from onnxgather.auditing.algebra.sizes import low_of, size_from
from onnxgather.auditing.audit import AuditedModel, Premises, audit_model
from onnxgather.auditing.hardening.harden import HardenedModel, hardened, not_proved
from onnxgather.auditing.proof.contract import Condition, check_inputs, open_sizes
from onnxgather.auditing.records import AuditedGather
from onnxgather.core.checks import number_of, shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError, ProviderError
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.execution.runtime import (
    FailedError,
    NotRunError,
    Opened,
    RefusedError,
    Setup,
)
from onnxgather.core.model.network import Network, folder_of
from onnxgather.core.model.protos import external_files
from onnxgather.core.model.values import NUMBERS

RUNS = 8
"""How often a model runs with inputs in range that are made."""

WILD_RUNS = 64
"""How often the hardened model runs with wild inputs."""

MOST_MADE = 80
"""How many inputs are made to find those with which the model runs."""

LARGER_SIZES = (1, 16, 32, 64, 128, 512, 2048)
"""Open sizes that are tried where a model runs with none up to `LONGEST`: sizes of
windows and images, and of pieces of sound."""

MOST_ELEMENTS_MADE = 2**20
"""The most elements that the inputs have together for which larger sizes are tried."""

LONGEST = 8
"""The largest open size that is made, unless a condition needs a larger size."""

_TYPES_MADE = (
    "BOOL",
    "FLOAT16",
    "FLOAT",
    "DOUBLE",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
)
"""The data types of which inputs are made."""

_NEAR_LIMITS = (
    *(-(2**32), -(2**31), -2, -1, 0, 1),
    *(2**24, 2**31 - 1, 2**31, 2**32, 2**53),
)
"""Integers at which an axis, a type or a cast ends; 0 and its neighbours twice as often
as others, as `range(-9, 10)` has them too."""


_CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
"""How a message of ONNX Runtime starts."""

_FAILED_NODE = re.compile(
    r"Non-zero status code returned while running (\S+) node\."
    r" Name:'(.*?)' Status Message: (.*)",
    re.DOTALL,
)
"""The message on a node that fails: its operator, its name, and what is wrong."""

_SOURCE = re.compile(r"^\S+\.\w+:\d+ (?:.*? was false\. |\w+ )", re.DOTALL)
"""The place in the sources of ONNX Runtime, with the test or the function there."""


class Verified(msgspec.Struct, frozen=True):
    """The result of a check of a hardened model."""

    check: Literal["audit", "bytes", "wild", "again"]
    holds: bool
    said: str
    """The result, as a sentence."""


def index_inputs(network: Network, gathers: Iterable[AuditedGather]) -> set[str]:
    """Return the inputs of a model whose values decide whether indices are in range."""
    names = set[str]()
    for gather in gathers:
        names.update((gather.range.input or "").split(", "))
        for condition in gather.range.conditions:
            if condition.is_of_elements:
                names.add(condition.input or "")
    return names & set(network.main.inputs)


def make_inputs(
    audited: AuditedModel, random: Generator, given: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Return small random inputs of a model, in the ranges that its audit names.

    Args:
        audited: The audit of the model.
        random: The source of random numbers.
        given: The numbers of some open sizes, by their names.

    Raises:
        OnnxGatherError: An input is of a type or a rank of which no array can be made.
    """
    network = audited.network
    sizes = _make_sizes(audited, random, given or {})
    inputs: dict[str, Array] = {}
    for name in network.main.inputs:
        dimensions = network.dimensions[name]
        data_type = network.main.types[name].data_type
        if dimensions is None or data_type not in _TYPES_MADE:
            rule = f"{network.path}: no array can be made for input {shown(name)}"
            raise OnnxGatherError(f"{rule}, give --inputs FILE")
        shape = tuple(
            sizes[size] if isinstance(size, str) else size for size in dimensions
        )
        array = _drawn(data_type, shape, random)
        if array.dtype.kind in "iuf":
            conditions = [
                condition.with_numbers(sizes)
                for condition in audited.contract.conditions
                if condition.is_of_elements and condition.input == name
            ]
            for condition in conditions:
                if condition.of != "values":
                    continue
                if array.dtype.kind == "f":
                    _move_into_range(array, condition)
                else:
                    _draw_in_range(array, condition, random)
            # A difference changes columns that are in their own ranges already.
            for condition in conditions:
                if condition.of == "difference":
                    _draw_difference(array, condition, conditions, random)
        inputs[name] = array
    return inputs


def _make_sizes(
    audited: AuditedModel, random: Generator, given: Mapping[str, int]
) -> dict[str, int]:
    """Return a number for each open size of a model: the given one, or a random one."""
    # Every second time all sizes are the same, as some models run only then.
    common_size = 0
    if random.random() < 0.5:
        common_size = int(random.integers(1, LONGEST + 1))
    limits: dict[str | None, tuple[int, int]] = {}
    for condition in audited.contract.conditions:
        if condition.of == "size":
            low = condition.low or 1
            # Without a high end, a size is no larger than it must be.
            high = condition.high or max(low, LONGEST)
            limits[condition.expression] = (low, high)

    sizes: dict[str, int] = {}
    for name in _open_sizes_in_order(audited.network):
        low, high = limits.get(name, (1, LONGEST))
        size = common_size
        if not size:
            longest = min(high, max(low, LONGEST))
            size = int(random.integers(low, longest + 1))
        sizes[name] = given.get(name, max(low, min(size, high)))
        # The size may be a sum of others, such as `past + sequence`.
        with suppress(KeyError):
            sizes[name] = max(0, low_of(size_from(name, sizes)))
    return sizes


def _larger_sizes(audited: AuditedModel, random: Generator) -> dict[str, int]:
    """Return larger numbers for the open sizes, with few elements; {} if they are many.

    A size that has a condition is left out, and so is a sum of sizes.
    """
    limited = {condition.expression for condition in audited.contract.conditions}
    common_size = int(random.choice(LARGER_SIZES))
    sizes: dict[str, int] = {}
    for number, name in enumerate(_open_sizes_in_order(audited.network)):
        # The first size is most often that of a batch.
        is_batch = number == 0 and random.random() < 0.5
        size = 1 if is_batch else common_size
        if random.random() < 0.2:
            size = int(random.choice(LARGER_SIZES))
        if name not in limited and name.isidentifier():
            sizes[name] = size
    count = count_of_elements(audited.network, sizes, LONGEST)
    return sizes if count <= MOST_ELEMENTS_MADE else {}


def count_of_elements(network: Network, sizes: Mapping[str, int], other: int) -> int:
    """Return how many elements the inputs of a model have together.

    Args:
        network: The model.
        sizes: The numbers of open sizes.
        other: The number of each open size that is not among them.
    """
    total = 0
    for dimensions in network.dimensions.values():
        numbers = [
            sizes.get(size, other) if isinstance(size, str) else size
            for size in dimensions or ()
        ]
        total += math.prod(numbers)
    return total


def _open_sizes_in_order(network: Network) -> list[str]:
    """Return the names of the open sizes, the terms of a sum before the sum."""
    return sorted(open_sizes(network), key=lambda name: (len(name), name))


def _drawn(data_type: str, shape: tuple[int, ...], random: Generator) -> Array:
    """Return 0 and 1; for a float type, about as many numbers below 0 as above."""
    dtype = helper.tensor_dtype_to_np_dtype(NUMBERS[data_type])
    if dtype.kind == "f":
        return random.normal(size=shape).astype(dtype)
    return random.integers(0, 2, shape).astype(dtype)


def _move_into_range(array: Array, condition: Condition) -> None:
    """Move the floats of an array that are beyond an end inside, as far as they were.

    Those that are then beyond the other end become the middle.
    """
    part: Any = Ellipsis
    if condition.columns:
        part = (Ellipsis, [*condition.columns])
    numbers = array[part]
    low = condition.low
    high = condition.high
    if low is not None:
        numbers = np.where(numbers < low, 2 * low - numbers, numbers)
    if high is not None:
        numbers = np.where(numbers > high, 2 * high - numbers, numbers)
    if low is not None and high is not None:
        numbers = np.where(numbers < low, (low + high) / 2, numbers)
    array[part] = numbers


def _draw_difference(
    array: Array,
    condition: Condition,
    conditions: Sequence[Condition],
    random: Generator,
) -> None:
    """Draw the first column of a difference anew, in its own range, too."""
    first, second = condition.columns or (0, 0)
    low = -LONGEST if condition.low is None else condition.low
    high = low + 2 * LONGEST if condition.high is None else condition.high
    first_low, first_high = ends_of_column(array.dtype, conditions, first)
    second_low, second_high = ends_of_column(array.dtype, conditions, second)
    # The second column leaves room for the first, which is it plus the difference.
    least = max(second_low, first_low - high)
    most = min(second_high, first_high - low)
    # No number meets both, as with a size that another condition excludes.
    if least > most or low > high:
        return
    seconds = np.clip(array[..., second], least, most).astype(np.int64)
    lows = np.maximum(first_low, seconds + low)
    highs = np.minimum(first_high, seconds + high)
    array[..., second] = seconds
    array[..., first] = random.integers(lows, highs, endpoint=True)


def ends_of_column(
    dtype: np.dtype[Any], conditions: Iterable[Condition], column: int
) -> tuple[int, int]:
    """Return the ends that conditions on values set to a column of an input.

    Args:
        dtype: A type of integers.
        conditions: Conditions on the input, whose ends are numbers.
        column: The number of the column.
    """
    limits = np.iinfo(dtype)
    low = int(limits.min)
    high = int(limits.max)
    for condition in conditions:
        is_of_others = condition.columns and column not in condition.columns
        if condition.of != "values" or is_of_others:
            continue
        if condition.low is not None:
            low = max(low, condition.low)
        if condition.high is not None:
            high = min(high, condition.high)
    return low, high


def _draw_in_range(array: Array, condition: Condition, random: Generator) -> None:
    """Draw the integers of an array anew that a condition is about, in its range."""
    limits = np.iinfo(array.dtype)
    low = -LONGEST if condition.low is None else condition.low
    low = max(limits.min, low)
    high = low + 2 * LONGEST if condition.high is None else condition.high
    high = min(limits.max, high)
    # No number meets it, as with a size that another condition excludes.
    if low > high:
        return
    drawn = random.integers(low, high, array.shape, array.dtype, endpoint=True)
    if condition.columns is None:
        array[...] = drawn
        return
    column_count = array.shape[-1] if array.shape else 1
    is_limited = np.isin(np.arange(column_count), condition.columns)
    array[...] = np.where(is_limited, drawn, array)


def make_wild(array: Array, random: Generator) -> Array:
    """Return an array with some elements as they are, and others anything of the type.

    Args:
        array: Of numbers, or flags.
        random: The source of random numbers.
    """
    far: Array
    ends: Array
    if array.dtype.kind == "f":
        far = random.normal(size=array.shape) * 10.0 ** random.integers(0, 38)
        ends = random.choice([np.nan, np.inf, -np.inf, -1, 0], array.shape)
    elif array.dtype == bool:
        far = ~array
        ends = array
    else:
        limits = np.iinfo(array.dtype)
        low = int(limits.min)
        high = int(limits.max)
        far = random.integers(low, high, array.shape, array.dtype, endpoint=True)
        # At these an index may leave its axis, or a cast ends.
        every = (low, high, *_NEAR_LIMITS, *range(-9, 10))
        numbers = [number for number in every if low <= number <= high]
        ends = random.choice(np.array(numbers, array.dtype), array.shape)
    kinds = random.choice(3, array.shape)
    with np.errstate(over="ignore"):  # a number may be beyond a float type
        choices = [array, far.astype(array.dtype), ends.astype(array.dtype)]
        return np.choose(kinds, choices)


def opened(network: Network, model: bytes | str) -> Opened:
    """Return a model on the CPU provider, beside the external data of a network.

    Raises:
        ProviderError: There is no such provider, or it makes no session.
    """
    cpu = PROVIDERS["cpu"]
    try:
        return Opened(model, Setup(cpu.name, folder=folder_of(network.path)))
    except NotRunError as error:
        raise ProviderError(cpu.why_not_run(error.kind, error.detail)) from None
    except RefusedError as error:
        rule = f"{network.path}: the model must run"
        raise ProviderError(f"{rule}, but {error}") from None


def outputs(whole: Opened, inputs: Mapping[str, Array]) -> list[Any] | str:
    """Return the outputs of a run, or why it fails."""
    try:
        return whole.run_all(dict(inputs))
    except FailedError as error:
        return str(error)


def failure_text(message: str) -> str:
    """Return the useful part of a message of ONNX Runtime on a run that failed.

    It is the node with its operator, and what is wrong there. The code of the error,
    and the place in the sources of ONNX Runtime, are left out.
    """
    text = _CODE.sub("", message)
    failed_node = _FAILED_NODE.fullmatch(text)
    if failed_node is None:
        return text.rstrip(" .")
    operator, name, status = failed_node.groups()
    node = operator
    if name:
        node = f"{name} ({operator})"
    return f"{node} fails: {_SOURCE.sub('', status).rstrip(' .')}"


def same(outputs: Any, others: Any) -> bool:
    """Return whether two outputs, or the lists of all, are equal to the byte."""
    pair: list[Any] = [outputs, others]
    if all(isinstance(value, list) for value in pair):
        return len(outputs) == len(others) and all(map(same, outputs, others))
    a, b = map(np.asarray, pair)
    if object in (a.dtype, b.dtype):  # texts
        return bool(np.array_equal(a, b))
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    return a.tobytes() == b.tobytes()


def in_range(
    audited: AuditedModel,
    whole: Opened,
    random: Generator,
    run: Callable[[Opened, Mapping[str, Array]], list[Any] | str] = outputs,
) -> Iterator[tuple[dict[str, Array], list[Any]]]:
    """Yield made inputs with which a model runs, and its outputs.

    Raises:
        ProviderError: It runs with none of them.
    """
    why = ""
    has_run = False
    for number in range(MOST_MADE):
        sizes: dict[str, int] = {}
        if number >= MOST_MADE // 2 and not has_run:
            sizes = _larger_sizes(audited, random)
        inputs = make_inputs(audited, random, sizes)
        with suppress(OnnxGatherError):  # of conditions over several sizes
            check_inputs(audited.contract.plain, inputs)
            result = run(whole, inputs)
            if isinstance(result, str):
                why = failure_text(result)
            else:
                has_run = True
                yield inputs, result
    if not has_run:
        path = audited.network.path
        rule = f"{path}: the model must run with inputs that are made for it"
        why = why or "none meet its contract"
        raise ProviderError(f"{rule}, but {why}; give --inputs FILE")


def verify(
    premises: Premises,
    done: HardenedModel,
    out_of_range: str = "clamp",
    inputs: Mapping[str, Array] | None = None,
    tried: Callable[[], object] = lambda: None,
) -> Iterator[Verified]:
    """Yield the results of the checks of a hardened model, as soon as they are known.

    Args:
        premises: The model, and what holds of its inputs.
        done: What `hardened` made of it.
        out_of_range: As of `hardened`.
        inputs: The inputs whose indices are in range; None for inputs that are made.
        tried: Called after each run.

    Raises:
        OnnxGatherError: An array can be made for no input of such a type.
        ProviderError: There is no CPU provider, or the model does not run.
    """
    verification = _Verification(premises, done, tried)
    yield verification.audit()
    yield verification.equal_bytes(inputs)
    yield verification.wild()
    yield verification.again(out_of_range)


class _Verification:
    """The checks of a hardened model; `wild` uses the runs of `equal_bytes`."""

    def __init__(
        self,
        premises: Premises,
        done: HardenedModel,
        tried: Callable[[], object],
    ) -> None:
        self._premises = premises
        self._done = done
        self._tried = tried
        self._network = premises.network
        self._random = default_rng(0)
        self._new_premises = replace(premises, network=done.network("the model"))
        if done.audits is None:
            self._before = audit_model(premises)
        else:
            self._before, self._after = done.audits
        # Where no node is rewritten, the model before hardening was audited alone.
        if done.audits is None or not done.rewritten:
            self._after = audit_model(self._new_premises)
        self._left = {(left.node, left.operator) for left in done.left}
        self._not_proved = list[tuple[tuple[str, str], AuditedGather]]()
        for _, _, operation, gather in not_proved(self._after):
            name = (operation.label, operation.operator)
            self._not_proved.append((name, gather))

    def audit(self) -> Verified:
        """Return whether an audit proves all nodes but those that were left."""
        others = {name for name, _ in self._not_proved} - self._left
        nodes = number_of(len(self._after.gathers), "node")
        left = f"{len(self._left)} left"
        text = f"{nodes} with indices, {left}, {len(others)} others not proved"
        return Verified("audit", not others, text)

    def equal_bytes(self, inputs: Mapping[str, Array] | None) -> Verified:
        """Return whether outputs of both models are equal if indices are in range."""
        self._runs = self._runs_before(inputs)
        source = "given inputs"
        if inputs is None:
            source = "inputs made with seed 0"
        # Memory does not hold the other model any more.
        self._hardened = self._opened_hardened()
        equal = 0
        # Given inputs make a single run.
        for fed, expected in self._runs:
            equal += same(self._run(self._hardened, fed), expected)
        total = len(self._runs)
        text = f"equal bytes in {equal} of {number_of(total, 'run')} with {source}"
        return Verified("bytes", equal == total, text)

    def _runs_before(
        self, inputs: Mapping[str, Array] | None
    ) -> list[tuple[dict[str, Array], list[Any]]]:
        """Return sets of inputs, each with the outputs of the model before hardening.

        Args:
            inputs: The only set; None if sets are made.
        """
        model = opened(self._network, self._network.source)
        if inputs is not None:
            return [(dict(inputs), self._expected(model, inputs))]
        made = in_range(self._before, model, self._random, self._run)
        return list(islice(made, RUNS))

    def _opened_hardened(self) -> Opened:
        """Return the hardened model on the CPU provider."""
        new = self._new_premises.network
        if external_files(new.proto):
            return opened(self._network, new.content)
        with tempfile.TemporaryDirectory(prefix="onnxgather-") as folder:
            path = os.path.join(folder, "model.onnx")
            new.write(path)
            return opened(self._network, path)

    def _expected(self, model: Opened, inputs: Mapping[str, Array]) -> list[Any]:
        """Return the outputs of the model with given inputs."""
        result = self._run(model, inputs)
        if isinstance(result, str):
            rule = "the model must run with the given inputs"
            which = "which audit --write-inputs makes"
            raise OnnxGatherError(
                f"{self._network.path}: {rule}, {which}, but {result}"
            )
        return result

    def wild(self) -> Verified:
        """Return whether the hardened model runs with any values of index inputs."""
        # A bad index at a node that was left may end the process.
        left = [gather for name, gather in self._not_proved if name in self._left]
        kept = index_inputs(self._network, left)
        names = index_inputs(self._network, self._before.gathers.values()) - kept
        for condition in self._premises.conditions:
            if condition.is_of_elements:
                names.discard(condition.input or "")
        failures: list[str] = []
        failures_left: list[str] = []
        for number in range(WILD_RUNS if names else 0):
            fed, _ = self._runs[number % len(self._runs)]
            wild: dict[str, Array] = {}
            for name, array in fed.items():
                is_wild = name in names
                wild[name] = make_wild(array, self._random) if is_wild else array
            result = self._run(self._hardened, wild)
            if not isinstance(result, str):
                continue
            # The provider's message names the operator of the node that fails.
            if any(f" {left.operator} node" in result for left in self._done.left):
                failures_left.append(result)
            else:
                failures.append(result)

        text = "0 runs"
        if names:
            inputs = ", ".join(sorted(names))
            text = f"{WILD_RUNS} runs with wild {inputs}, {len(failures)} failed"
        elif not kept:
            text += ", as no index depends on an input whose numbers are free"
        if failures:
            text += f", first: {failures[0]}"
        if failures_left:
            text += f", {len(failures_left)} more in a node left"
        if kept:
            inputs = ", ".join(sorted(kept))
            text += f"; not wild, as a node left depends on it: {inputs}"
        return Verified("wild", not failures, text)

    def again(self, out_of_range: str) -> Verified:
        """Return whether hardening the hardened model changes nothing."""
        twice = hardened(self._new_premises, out_of_range, self._after)
        # Both lack the same constants.
        contents: list[bytes] = []
        for model in (self._done.light, twice.light):
            contents.append(model.SerializeToString(deterministic=True))
        holds = contents[0] == contents[1]
        changed = "nothing" if holds else number_of(len(twice.rewritten), "node")
        return Verified("again", holds, f"a second time changes {changed}")

    def _run(self, whole: Opened, inputs: Mapping[str, Array]) -> list[Any] | str:
        result = outputs(whole, inputs)
        self._tried()
        return result
