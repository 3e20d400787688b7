"""An audit as lines to read: what is wrong first, then what may be, then what is proved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from shlex import quote

import numpy as np

from onnxgather.auditing.algebra.sizes import terms_in
from onnxgather.auditing.audit import Audit, AuditedGather, counted, out_of_range
from onnxgather.auditing.proof.contract import NamedSizes
from onnxgather.auditing.proof.ranges import IndexRange
from onnxgather.core.checks import number_of
from onnxgather.core.descriptors.explain import explain
from onnxgather.core.descriptors.operators import GatherDesc
from onnxgather.core.descriptors.spelling import from_dict

SHAPES = "shapes are computed on the CPU"
"""What is said of a proved gather that computes shapes."""


def lines(
    name: str, audit: Audit, every: bool = False, alone: bool = True
) -> Iterator[str]:
    """Yield the lines.

    Args:
        name: What was audited.
        audit: The audit.
        every: Whether each gather has its line: one that computes shapes, or is proved, too.
        alone: Whether no other model is audited; else only what is not proved is listed.
    """
    shapes = [gather for gather in audit.gathers if gather.shape_computation]
    told = (
        audit.gathers
        if every
        else [g for g in audit.gathers if not g.shape_computation]
    )
    proved = [gather for gather in told if gather.range.state == "proved"]
    say = partial(said, sizes=audit.contract["sizes"])
    causes = dict[str, list[AuditedGather]]()
    for gather in audit.not_proved:
        causes.setdefault(cause_of(gather, {}), []).append(gather)
    yield f"{name}: {summary(audit)}"
    for gather in audit.out_of_range:
        yield f"OUT OF RANGE  {named(gather)}: {say(gather)}"
        if read := read_by_directml(gather):
            yield f"    directml  {read}"
    for text in _alike(audit.refused, lambda gather: gather.refused or "", every):
        yield f"REFUSED       {text}"
    for cause, gathers in causes.items():
        yield f"not proved    {counted(gathers)}, {cause}:"
        yield from (f"    {text}" for text in _alike(gathers, say, every))
    for text in _alike(audit.proved_if, say, every):
        yield f"proved if     {text}"
    if alone or every:
        say_proved: Callable[[AuditedGather], str] = say
        if not every:
            say_proved = _proof
        for text in _alike(proved, say_proved, every):
            yield f"proved        {text}"
    if shapes and alone and not every:
        yield f"shapes        on the CPU, {summary(Audit(shapes))}"
    if ran := [gather for gather in audit.gathers if gather.range.seen]:
        found = sum(gather.range.found is not None for gather in audit.out_of_range)
        were = (
            f"{found:,} had an index out of range"
            if found
            else "each index was in range"
        )
        of = f"{len(ran):,} of " if len(ran) < len(audit.gathers) else ""
        yield f"run           the run reached {of}{counted(audit.gathers)}: {were}"
    if audit.gathers and audit.contract["sizes"]:
        yield f"assumes       {audit.assumes}"
    for note in audit.notes:
        yield f"note          {note}"


def provider_lines(gathers: Iterable[AuditedGather]) -> Iterator[str]:
    """Yield the lines on what each provider does with an index out of range."""
    for op, providers in providers_of(gathers).items():
        yield f"providers     what an index out of range of {op} does:"
        yield from (f"    {name:<9} {made}" for name, made in providers.items())


def next_lines(audits: Mapping[str, Audit]) -> Iterator[str]:
    """Yield the lines that say what may be done next; the audits are by the paths of the models."""
    for what, each in next_commands(audits).items():
        yield f"next          {what}"
        yield from (f"    {command}" for command in each)


def cause_of(gather: AuditedGather, sizes: NamedSizes) -> str:
    """What gathers of one state have in common: what stops their proof, or what proves them.

    Args:
        gather: One of the gathers.
        sizes: The places of the open sizes.
    """
    found = gather.range
    if found.state == "not-proved":
        is_known = found.size is not None and None not in found.size
        return f"because of {found.input if is_known else 'axes of unknown size'}"
    if found.state == "out-of-range":
        is_constant = found.found is None or found.found.source == "constant"
        return (
            "the model has such an index"
            if is_constant
            else "the given inputs lead to it"
        )
    if found.state == "proved":
        return SHAPES if gather.shape_computation else "in range"
    return said(gather, sizes)


def _proof(gather: AuditedGather) -> str:
    """Return the proof of a gather, without the indices."""
    return gather.range.why


def _alike(
    gathers: Sequence[AuditedGather], say: Callable[[AuditedGather], str], every: bool
) -> Iterator[str]:
    """Yield what is said of gathers: once of those of one operator, or of each."""
    groups = dict[tuple[str, str], list[AuditedGather]]()
    for k, gather in enumerate(gathers):
        groups.setdefault((say(gather), str(k) if every else gather.op), []).append(
            gather
        )
    for (said, _), each in groups.items():
        more = f" and {len(each) - 1:,} more" if len(each) > 1 else ""
        yield f"{named(each[0])}{more}: {said}{seen_text(each)}"


def seen_text(gathers: Sequence[AuditedGather]) -> str:
    """The least and the greatest index that a run had, such as `; seen 3..998`."""
    seen = [g.range.seen for g in gathers if g.range.seen and not g.constant_indices]
    lows, highs = zip(*seen, strict=True) if seen else ((), ())
    return f"; seen {_ends(min(lows), max(highs))}" if seen else ""


def said(gather: AuditedGather, sizes: NamedSizes) -> str:
    """The index of a gather that is out of range, its bounds, its conditions or its proof.

    Args:
        gather: The gather.
        sizes: The places of the open sizes.
    """
    found = gather.range
    if found.state == "proved-if":
        return _conditions(found, sizes)
    if found.state == "out-of-range":
        return _where(found)
    if found.state == "not-proved":
        return indices_text(found)
    ends = (*(found.low or (None,)), *(found.high or (None,)), *(found.size or (None,)))
    return found.why if None in ends else f"{indices_text(found)}, {found.why}"


def providers_of(gathers: Iterable[AuditedGather]) -> dict[str, dict[str, str]]:
    """What each provider does with an index out of range, by the operators that may have one."""
    operators = dict[tuple[tuple[str, str], ...], list[str]]()
    open_ones = [gather for gather in gathers if gather.range.state != "proved"]
    for op, domain in dict.fromkeys((gather.op, gather.domain) for gather in open_ones):
        operators.setdefault(tuple(out_of_range(op, domain).items()), []).append(op)
    return {", ".join(each): dict(told) for told, each in operators.items()}


def read_by_directml(gather: AuditedGather) -> str:
    """What DirectML does with the index that is out of range, where its element is known."""
    found = gather.range.found
    if found is None or gather.descriptor is None or gather.op == "GatherND":
        return ""
    desc = from_dict(gather.descriptor)
    tensors = desc.input_tensor, desc.indices_tensor
    data, indices = (np.zeros(one.array_shape, one.data_type.numpy) for one in tensors)
    indices[(..., *found.at)] = found.value
    behind = data.ndim - desc.axis - 1 if isinstance(desc, GatherDesc) else 0
    ahead = desc.output_tensor.dimension_count - len(found.at) - behind
    at = (*[0] * ahead, *found.at, *[0] * behind)
    after = explain(desc, data, indices, at, "directml").after or ()
    element = ",".join(map(str, after[-len(gather.data.sizes or ()) :]))
    return f"No error: returns another element of the tensor, here `input[{element}]`"


def _conditions(found: IndexRange, sizes: NamedSizes) -> str:
    """The conditions under which a range is proved, and where the indices are without them.

    Args:
        found: The range.
        sizes: The places of the open sizes, which are told of an expression.
    """
    terms = (
        terms_in(one.expression or "") for one in found.conditions if one.of == "sizes"
    )
    factors = (
        factor for each in terms for _, product in each for factor in product.split("*")
    )
    places = {name: sizes[name][0] for name in factors if name in sizes}
    told = ", ".join(
        f"{name} is size {dim} of {which}" for name, (which, dim) in places.items()
    )
    is_bounded = found.low and found.high and None not in (*found.low, *found.high)
    beside = f"; else the indices are {indices_text(found)}" if is_bounded else ""
    return (
        " and ".join(map(str, found.conditions))
        + (f", where {told}" if told else "")
        + beside
    )


def next_commands(audits: Mapping[str, Audit]) -> dict[str, list[str]]:
    """What may be done next, with the commands that do it.

    Args:
        audits: The audits by the paths of the models. Of several models, the commands
            are for the first one that is not proved.
    """
    chosen = [name for name, audit in audits.items() if len(audits) == 1 or audit.open]
    if not chosen:
        return {}
    first, *others = chosen
    told = dict(_commands(first, audits[first]))
    if others:
        what = f"{number_of(len(others), 'more model')}; for the first:"
        told[what] = [f"onnxgather audit {quote(others[0])}"]
    return told


def _commands(name: str, audit: Audit) -> Iterator[tuple[str, list[str]]]:
    """Yield what may be done next with a model, with the commands that do it."""
    again, stem = f"onnxgather audit {quote(name)}", os.path.splitext(name)[0]
    shapes, inputs, ranges = (
        [option for option in audit.options if option.startswith(f"--{kind} ")]
        for kind in ("shape", "inputs", "range")
    )
    if inputs:
        each = [" ".join([again, *more]) for more in (shapes, inputs) if more]
        yield (
            "to know the sizes that are open, and whether DirectML takes the gathers:",
            each,
        )
    if ranges:
        told = (
            "to prove more, with the least and the greatest number of an input for LO"
            " and HI:"
        )
        yield told, [" ".join([again, *ranges])]
    if audit.proved_if:
        file = quote(f"{stem}.contract.json")
        each = [
            f"{again} --contract {file}",
            f"{again} --assume {file} --fail-on not-proved",
        ]
        yield "to write the conditions to a file, and to take them as given:", each
    if audit.open:
        file = quote(f"{stem}.hardened.onnx")
        harden = f"onnxgather harden {quote(name)} -o {file} --verify"
        yield (
            "to make a model in which each index stays in range, and to try it:",
            [harden],
        )


def summary(audit: Audit) -> str:
    """How many gathers and other operators with indices there are, and how many are in range."""
    counts = [
        (len(audit.out_of_range), "out of range"),
        (len(audit.refused), "refused by DirectML"),
        (len(audit.not_proved), "not proved in range"),
        (len(audit.proved_if), "proved under conditions"),
        (sum(g.range.state == "proved" for g in audit.gathers), "proved in range"),
    ]
    said = ", ".join(f"{count:,} {what}" for count, what in counts if count)
    return (
        f"{counted(audit.gathers)}: {said}"
        if said
        else "no gather, and no other operator with indices"
    )


def indices_text(found: IndexRange) -> str:
    """The interval of the indices beside the size of the axis, such as `0..15 of 512`."""
    if found.low is None or found.high is None:
        return "no index"
    sizes = found.size or (None,) * len(found.low)
    each = list(map(_beside, found.low, found.high, sizes))
    return each[0] if len(each) == 1 else f"({', '.join(each)})"


def _beside(low: int | None, high: int | None, size: int | None) -> str:
    if low is not None and high is not None:
        index = _ends(low, high)
        if size is not None:
            return f"{index} of {size}"
    else:
        index = (
            "unbounded"
            if low == high
            else f"up to {high}"
            if low is None
            else f"{low} and up"
        )
    axis = "an unknown size" if size is None else number_of(size, "element")
    return f"index {index}; the axis has {axis}"


def _ends(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low}..{high}"


def named(gather: AuditedGather) -> str:
    """A gather with its operator and where it is."""
    return f"{gather.node} ({where(gather)})"


def where(gather: AuditedGather) -> str:
    """The operator of a gather and where it is."""
    return f"{gather.op}, {gather.place}"


def _where(found: IndexRange) -> str:
    wrong = found.found
    if wrong is None or found.size is None:
        return indices_text(found)
    size = found.size[wrong.coordinate] or 0
    at = ",".join(map(str, wrong.at))
    source = "a constant" if wrong.source == "constant" else "by the given inputs"
    more = f"; {wrong.count:,} indices are out of range" if wrong.count > 1 else ""
    rule = (
        f"on an axis of {size}"
        if wrong.name == "indices"
        else f"not from 0 to {size - 1}"
    )
    return f"{wrong.name}[{at}] is {wrong.value}, {source}, {rule}{more}"
