"""An audit as lines to read: what is wrong first, then what may be, then what is proved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from shlex import quote

from onnxgather.checks import number_of
from onnxgather.networks.contract import NamedSizes
from onnxgather.networks.gathers import Audit, AuditedGather, counted, out_of_range
from onnxgather.networks.ranges import IndexRange
from onnxgather.networks.sizes import terms_in


def lines(name: str, audit: Audit, every: bool = False) -> Iterator[str]:
    """Yield the lines.

    Args:
        name: What was audited.
        audit: The audit.
        every: Whether each gather has its line: one that computes shapes, or is proved, too.
    """
    shapes = [gather for gather in audit.gathers if gather.shape_computation]
    told = audit.gathers if every else [g for g in audit.gathers if not g.shape_computation]
    proved = [gather for gather in told if gather.range.state == "proved"]
    say = partial(said, sizes=audit.contract["sizes"])
    yield f"{name}: {summary(audit)}"
    for gather in audit.out_of_range:
        yield f"OUT OF RANGE  {named(gather)}: {say(gather)}"
    for gather in audit.refused:
        yield f"REFUSED       {named(gather)}: {gather.refused}"
    for text in _alike(audit.not_proved, say, every):
        yield f"not proved    {text}"
    yield from _provider_lines([*audit.out_of_range, *audit.not_proved])
    for text in proved_if_lines(audit, every):
        yield f"proved if     {text}"
    for text in _alike(proved, say if every else lambda gather: gather.range.why, every):
        yield f"proved        {text}"
    if shapes and not every:
        yield f"shapes        {summary_of_shapes(shapes)}"
    if audit.gathers and audit.contract["sizes"]:
        yield f"assumes       {audit.assumes}"
    for note in audit.notes:
        yield f"note          {note}"


def _alike(
    gathers: Sequence[AuditedGather], say: Callable[[AuditedGather], str], every: bool
) -> Iterator[str]:
    """Yield what is said of gathers: once of those of one operator, or of each."""
    groups = dict[tuple[str, str], list[AuditedGather]]()
    for k, gather in enumerate(gathers):
        groups.setdefault((say(gather), str(k) if every else gather.op), []).append(gather)
    for (said, _), (first, *others) in groups.items():
        yield named(first) + (f" and {len(others):,} more" if others else "") + f": {said}"


def said(gather: AuditedGather, sizes: NamedSizes) -> str:
    """The index of a gather that is out of range, why it is not proved, its conditions or proof.

    Args:
        gather: The gather.
        sizes: The places of the open sizes.
    """
    found = gather.range
    if found.state == "proved-if":
        return _conditions(found, sizes)
    if found.state == "out-of-range":
        return _where(found)
    ends = (*(found.low or (None,)), *(found.high or (None,)), *(found.size or (None,)))
    if found.state == "proved":
        return found.why if None in ends else f"{indices_text(found)}, {found.why}"
    seen = "" if found.seen is None else f"; the run had {_ends(*found.seen)}"
    return indices_text(found) + seen + (f"; it depends on {found.input}" if found.input else "")


def _provider_lines(gathers: Sequence[AuditedGather]) -> Iterator[str]:
    """Yield what each provider does with an index out of range of these gathers, once."""
    operators = dict[tuple[tuple[str, str], ...], list[str]]()
    for op, domain in dict.fromkeys((gather.op, gather.domain) for gather in gathers):
        operators.setdefault(tuple(out_of_range(op, domain).items()), []).append(op)
    for told, each in operators.items():
        yield f"providers     what an index out of range of {', '.join(each)} does:"
        yield from (f"    {name:<9} {made}" for name, made in told)


def proved_if_lines(audit: Audit, every: bool = False) -> Iterator[str]:
    """Yield the conditions under which gathers are proved, with these gathers."""
    return _alike(audit.proved_if, partial(said, sizes=audit.contract["sizes"]), every)


def _conditions(found: IndexRange, sizes: NamedSizes) -> str:
    """The conditions under which a range is proved, and where the indices are without them.

    Args:
        found: The range.
        sizes: The places of the open sizes, which are told of an expression.
    """
    terms = (terms_in(one.expression or "") for one in found.conditions if one.of == "sizes")
    factors = (factor for each in terms for _, product in each for factor in product.split("*"))
    places = {name: sizes[name][0] for name in factors if name in sizes}
    told = ", ".join(f"{name} is size {dim} of {which}" for name, (which, dim) in places.items())
    is_bounded = found.low and found.high and None not in (*found.low, *found.high)
    beside = f"; else the indices are {indices_text(found)}" if is_bounded else ""
    return " and ".join(map(str, found.conditions)) + (f", where {told}" if told else "") + beside


def commands(name: str, audit: Audit) -> Iterator[str]:
    """Yield the commands that keep the conditions of a model, and that mend it."""
    if audit.proved_if:
        yield f"onnxgather audit {quote(name)} --contract contract.json"
        yield f"onnxgather audit {quote(name)} --assume contract.json --fail-on not-proved"
    if audit.proved_if or audit.not_proved or audit.out_of_range:
        yield f"onnxgather harden {quote(name)} -o hardened.onnx"


def summary_of_shapes(shapes: Sequence[AuditedGather]) -> str:
    """One line on the gathers that compute shapes."""
    known = sum(gather.range.state == "proved" for gather in shapes)
    proved = "all" if known == len(shapes) else f"{known:,} of them"
    compute = "computes" if len(shapes) == 1 else "compute"
    return f"{counted(shapes)} {compute} shapes on the CPU, {proved} proved"


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
    return counted(audit.gathers) + (f": {said}" if said else "")


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
        index = "unbounded" if low == high else f"up to {high}" if low is None else f"{low} and up"
    axis = "an unknown size" if size is None else number_of(size, "element")
    return f"index {index}; the axis has {axis}"


def _ends(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low}..{high}"


def named(gather: AuditedGather) -> str:
    """A gather with its operator and where it is."""
    return f"{gather.node} ({gather.op}, {gather.place})"


def _where(found: IndexRange) -> str:
    wrong = found.found
    if wrong is None or found.size is None:
        return indices_text(found)
    size = found.size[wrong.at[-1] if len(found.size) > 1 else 0]
    at = ",".join(map(str, wrong.at))
    source = "a constant" if wrong.source == "constant" else "by the given inputs"
    more = f"; {wrong.count:,} indices are out of range" if wrong.count > 1 else ""
    return f"indices[{at}] is {wrong.value}, {source}, on an axis of {size}{more}"
