"""What a hardened model must hold, tried: proved indices, bytes in range, wild inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from itertools import islice
from typing import Any, Literal
from zipfile import ZipFile, ZipInfo

import msgspec
import numpy as np
from numpy.random import Generator, default_rng
from onnx import helper

from onnxgather.auditing.algebra.sizes import low_of, size_from
from onnxgather.auditing.audit import AuditedGather, AuditedModel, Premises, audit_model
from onnxgather.auditing.hardening.harden import HardenedModel, hardened, not_proved
from onnxgather.auditing.proof.contract import check_inputs
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
from onnxgather.core.model.network import Network, folder_of, read_network
from onnxgather.core.model.values import NUMBERS, serialized

RUNS, WILD_RUNS, MOST_MADE = 8, 64, 80
"""How often a model runs with inputs in range that are made, the hardened one with wild
inputs, and how many inputs are made to find those with which the model runs."""

LONGEST = 8
"""The largest open size that is made, where a condition asks for no larger one."""


class Verified(msgspec.Struct, frozen=True):
    """One thing that a hardened model must hold."""

    check: Literal["audit", "bytes", "wild", "again"]
    holds: bool
    said: str
    """What was found, as a sentence."""


def index_inputs(network: Network, gathers: Iterable[AuditedGather]) -> set[str]:
    """The inputs of a model on whose values it depends whether an index of gathers is in range."""
    ranges = [gather.range for gather in gathers]
    names = {name for one in ranges for name in (one.input or "").split(", ")}
    names |= {
        one.input or ""
        for each in ranges
        for one in each.conditions
        if one.of == "values"
    }
    return names & {*network.main.inputs}


def make_inputs(audited: AuditedModel, random: Generator) -> dict[str, Array]:
    """Inputs for a model: small ones that meet the conditions of its audit, one by one.

    Args:
        audited: The audit of the model.
        random: What they are drawn from.

    Raises:
        OnnxGatherError: An input is of a type or a rank of which none can be made.
    """
    network, conditions = audited.network, audited.contract.conditions
    inputs, sizes = dict[str, Array](), dict[str, int]()
    alike = int(random.integers(1, LONGEST + 1)) if random.random() < 0.5 else 0
    ends = {
        c.expression: (c.low or 1, c.high or LONGEST)
        for c in conditions
        if c.of == "size"
    }
    dims = {
        n
        for own in network.dimensions.values()
        for n in own or ()
        if isinstance(n, str)
    }
    for name in sorted(dims, key=lambda name: (len(name), name)):
        low, high = ends.get(name, (1, LONGEST))
        drawn = alike or int(random.integers(low, min(high, max(low, LONGEST)) + 1))
        sizes[name] = max(low, min(drawn, high))
        with suppress(KeyError):  # such as past + sequence
            sizes[name] = max(0, low_of(size_from(name, sizes)))
    for name in network.main.inputs:
        own, known = network.dimensions[name], network.main.types[name].data_type
        if own is None or known not in _MADE:
            rule = f"{network.path}: no array can be made for input {shown(name)}"
            raise OnnxGatherError(f"{rule}, give --inputs FILE")
        shape = tuple(sizes[n] if isinstance(n, str) else n for n in own)
        array = inputs[name] = _drawn(known, shape, random)
        for one in conditions if array.dtype.kind in "iu" else ():
            if one.of == "values" and one.input == name:
                limits = np.iinfo(array.dtype)
                low = max(limits.min, -LONGEST if one.low is None else one.low)
                high = min(
                    limits.max, low + 2 * LONGEST if one.high is None else one.high
                )
                made = random.integers(low, high, shape, array.dtype, endpoint=True)
                columns = np.isin(np.arange((shape or (1,))[-1]), one.columns or ())
                array[...] = np.where(one.columns is None or columns, made, array)
    return inputs


def _drawn(data_type: str, shape: tuple[int, ...], random: Generator) -> Array:
    """Plain numbers: 0 and 1, or of a float type about as many below 0 as above."""
    dtype = helper.tensor_dtype_to_np_dtype(NUMBERS[data_type])
    if dtype.kind == "f":
        return random.normal(size=shape).astype(dtype)
    return random.integers(0, 2, shape).astype(dtype)


def make_wild(array: Array, random: Generator) -> Array:
    """An array with some elements as they are, and others anything that the type holds.

    Args:
        array: Of numbers, or flags.
        random: What they are drawn from.
    """
    if array.dtype.kind == "f":
        far = random.normal(size=array.shape) * 10.0 ** random.integers(0, 38)
        ends = random.choice([np.nan, np.inf, -np.inf, -1, 0], array.shape)
    elif array.dtype == bool:
        far, ends = ~array, array
    else:
        low, high = (
            int(n) for n in (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
        )
        far = random.integers(low, high, array.shape, array.dtype, endpoint=True)
        near = (-(2**32), -(2**31), -2, -1, 0, 1, 2**24, 2**31 - 1, 2**31, 2**32, 2**53)
        known = [n for n in (low, high, *near, *range(-9, 10)) if low <= n <= high]
        ends = random.choice(np.array(known, array.dtype), array.shape)
    kinds = random.choice(3, array.shape)
    with np.errstate(over="ignore"):
        return np.choose(
            kinds, [array, far.astype(array.dtype), ends.astype(array.dtype)]
        )


_MADE = (
    "BOOL",
    "FLOAT16",
    "FLOAT",
    "DOUBLE",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT8",
)


def opened(network: Network, model: bytes) -> Opened:
    """A model on the CPU provider, beside the external data of a network.

    Raises:
        ProviderError: There is no such provider, or it makes no session.
    """
    cpu = PROVIDERS["cpu"]
    try:
        return Opened(model, Setup(cpu.name, folder=folder_of(network.path)))
    except NotRunError as error:
        raise ProviderError(cpu.why_not_run(error.kind, error.detail)) from None
    except RefusedError as error:
        raise ProviderError(
            f"{network.path}: the model must run, but {error}"
        ) from None


def outputs(whole: Opened, inputs: Mapping[str, Array]) -> list[Any] | str:
    """The outputs of a run, or why it fails."""
    try:
        return whole.run_all(dict(inputs))
    except FailedError as error:
        return str(error)


def same(outputs: Any, others: Any) -> bool:
    """Whether two outputs, or the lists of all, are equal to the byte."""
    pair = [outputs, others]
    if all(isinstance(each, list) for each in pair):
        return len(outputs) == len(others) and all(map(same, outputs, others))
    a, b = map(np.asarray, pair)
    if object in (a.dtype, b.dtype):  # texts
        return bool(np.array_equal(a, b))
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


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
    said, count = "", 0
    for _ in range(MOST_MADE):
        inputs = make_inputs(audited, random)
        with suppress(OnnxGatherError):  # of conditions over several sizes
            check_inputs(audited.contract.plain, inputs)
            found = run(whole, inputs)
            said = found if isinstance(found, str) else said
            if not isinstance(found, str):
                count += 1
                yield inputs, found
    if not count:
        rule = (
            f"{audited.network.path}: the model must run with inputs that are made"
            " for it"
        )
        raise ProviderError(
            f"{rule}, but {said or 'none meet its contract'}; give --inputs FILE"
        )


def made_inputs(audited: AuditedModel, seed: int = 0) -> bytes:
    """Inputs in range with which a model runs, made at random, as the content of an .npz file.

    Raises:
        OnnxGatherError: An array can be made for no input of such a type.
        ProviderError: There is no CPU provider, or the model runs with none of them.
    """
    whole = opened(audited.network, serialized(audited.network.proto))
    inputs, _ = next(in_range(audited, whole, default_rng(seed)))
    content = BytesIO()
    with ZipFile(content, "w") as archive:  # as np.savez does not take each name
        for name, array in inputs.items():
            with archive.open(ZipInfo(f"{name}.npy"), "w") as stream:
                np.lib.format.write_array(stream, array)
    return content.getvalue()


def verify(
    premises: Premises,
    done: HardenedModel,
    out_of_range: str = "clamp",
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    tried: Callable[[], object] = lambda: None,
) -> Iterator[Verified]:
    """Yield whether a hardened model holds what it must, each as soon as it is known.

    Args:
        premises: The model, and what holds of its inputs.
        done: What `hardened` made of it.
        out_of_range: As of `hardened`.
        inputs: The inputs whose indices are in range; None for inputs that are made.
        seed: Of what is drawn.
        tried: Called after each run.

    Raises:
        OnnxGatherError: An array can be made for no input of such a type.
        ProviderError: There is no CPU provider, or the model does not run.
    """

    def run(whole: Opened, inputs: Mapping[str, Array]) -> list[Any] | str:
        found = outputs(whole, inputs)
        tried()
        return found

    plain, random, data = premises.network, default_rng(seed), serialized(done.model)
    limited = replace(premises, network=read_network(done.model))
    audited, again = done.audits or (audit_model(premises), audit_model(limited))
    stays = {(one.node, one.operator) for one in done.left}
    rest = [
        ((one.label, one.operator), gather) for _, _, one, gather in not_proved(again)
    ]
    unproved = {one for one, _ in rest} - stays
    said = f"{number_of(len(again.gathers), 'node')} with indices, {len(stays)} left"
    yield Verified("audit", not unproved, f"{said}, {len(unproved)} others not proved")

    before, after = opened(plain, serialized(plain.proto)), opened(plain, data)
    if inputs is None:
        runs = [*islice(in_range(audited, before, random, run), RUNS)]
    else:
        expected = run(before, inputs)
        if isinstance(expected, str):
            rule = (
                "the model must run with the given inputs, which audit --write-inputs"
                " makes"
            )
            raise OnnxGatherError(f"{plain.path}: {rule}, but {expected}")
        runs = [(dict(inputs), expected)]
    equal = sum(same(run(after, fed), expected) for fed, expected in runs)
    source = "given inputs" if inputs is not None else f"inputs made with seed {seed}"
    said = f"equal bytes in {equal} of {number_of(len(runs), 'run')} with {source}"
    yield Verified("bytes", equal == len(runs), said)

    # An input behind a node that was left stays in range: a bad index there may end the
    # process.
    kept = index_inputs(plain, [gather for one, gather in rest if one in stays])
    names = index_inputs(plain, audited.gathers.values()) - kept
    names -= {one.input for one in premises.conditions if one.of == "values"}
    failed, at_left = list[str](), list[str]()
    for k in range(WILD_RUNS if names else 0):
        fed, _ = runs[k % len(runs)]
        wild = {
            n: make_wild(array, random) if n in names else array
            for n, array in fed.items()
        }
        told = run(after, wild)
        if isinstance(told, str):
            is_left = any(f" {one.operator} node" in told for one in done.left)
            (at_left if is_left else failed).append(told)
    said = (
        f"{WILD_RUNS} runs with wild {', '.join(sorted(names))}, {len(failed)} failed"
    )
    none = "" if kept else ", as no index depends on an input whose numbers are free"
    said = said if names else f"0 runs{none}"
    said += f", first: {failed[0]}" if failed else ""
    said += f", {len(at_left)} more in a node left" if at_left else ""
    said += (
        f"; not wild, as a node left depends on it: {', '.join(sorted(kept))}"
        if kept
        else ""
    )
    yield Verified("wild", not failed, said)

    twice = hardened(limited, out_of_range, again)
    holds = serialized(twice.model) == data
    changed = "nothing" if holds else number_of(len(twice.rewritten), "node")
    yield Verified("again", holds, f"a second time changes {changed}")
