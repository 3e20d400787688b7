"""An audit as lines to read: what is wrong first, then what may be, then what is proved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from onnxgather.checks import number_of
from onnxgather.networks.gathers import Audit, AuditedGather
from onnxgather.networks.ranges import IndexRange


def lines(name: str, audit: Audit, every: bool = False) -> Iterator[str]:
    """Yield the lines.

    Args:
        name: What was audited.
        audit: The audit.
        every: Whether each gather has its line: one that computes shapes, or is proved, too.
    """
    shapes = [gather for gather in audit.gathers if gather.shape_computation]
    proved = [g for g in audit.gathers if g.range.state == "proved" and (every or g not in shapes)]
    yield f"{name}: {summary(audit)}"
    for gather in audit.out_of_range:
        yield f"OUT OF RANGE  {named(gather)}: {_where(gather.range)}"
        for provider, made in gather.range.found.providers.items() if gather.range.found else ():
            yield f"    {provider:<9} {made}"
    for gather in audit.refused:
        yield f"REFUSED       {named(gather)}: {gather.refused}"
    for gather in audit.not_proved:
        stop = f"; it depends on {gather.range.input}" if gather.range.input else ""
        yield f"not proved    {named(gather)}: {indices_text(gather.range)}{stop}"
    if every:
        for gather in proved:
            reason = gather.range.why
            yield f"proved        {named(gather)}: {indices_text(gather.range)}, {reason}"
    else:
        reasons = Counter(gather.range.why for gather in proved)
        for reason, count in reasons.most_common():
            yield f"proved        {number_of(count, 'gather')}: {reason}"
        if shapes:
            yield f"shapes        {summary_of_shapes(shapes)}"
    for note in audit.notes:
        yield f"note          {note}"


def summary_of_shapes(shapes: Sequence[AuditedGather]) -> str:
    """One line on the gathers that compute shapes."""
    known = sum(gather.range.state == "proved" for gather in shapes)
    proved = "all" if known == len(shapes) else f"{known:,} of them"
    gathers = "1 gather computes" if len(shapes) == 1 else f"{len(shapes):,} gathers compute"
    return f"{gathers} shapes on the CPU, {proved} proved"


def summary(audit: Audit) -> str:
    """How many gathers there are, and how many are in range."""
    counts = [
        (len(audit.out_of_range), "out of range"),
        (len(audit.refused), "refused by DirectML"),
        (len(audit.not_proved), "not proved in range"),
        (sum(g.range.state == "proved" for g in audit.gathers), "proved in range"),
    ]
    said = ", ".join(f"{count:,} {what}" for count, what in counts if count)
    return number_of(len(audit.gathers), "gather") + (f": {said}" if said else "")


def indices_text(found: IndexRange) -> str:
    """The interval of the indices beside the size of the axis, such as `0..15 of 512`."""
    if found.low is None or found.high is None:
        return "no index"
    sizes = found.size or (None,) * len(found.low)
    each = [
        f"{_ends(low, high)} of {'an unknown size' if size is None else size}"
        for low, high, size in zip(found.low, found.high, sizes, strict=True)
    ]
    return each[0] if len(each) == 1 else f"({', '.join(each)})"


def _ends(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return "any index" if low == high else f"{low} and up" if high is None else f"up to {high}"
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
