"""The verdict of an audit: the worst state of a model, and how many models have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from onnxgather.auditing.records import Audit
from onnxgather.core.checks import number_of

NO_INDEX = "no-index"
"""The verdict of a model without gathers and other operators with indices."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """What is said of a model whose worst gather has a state."""

    alone: str
    """What the line of a single model says."""
    of_one: str
    """The predicate of one of several models."""
    of_several: str
    """The predicate of several models."""


VERDICTS = {
    # An index is known that is out of range: a constant, one of a run, or one that the
    # given range of an input leads to.
    "out-of-range": Predicate(
        "can leave an axis", "can leave an axis", "can leave an axis"
    ),
    # Neither such an index nor a proof is known.
    "not-proved": Predicate(
        "not proved in range", "is not proved in range", "are not proved in range"
    ),
    "proved-if": Predicate(
        "in range under conditions",
        "is in range under conditions",
        "are in range under conditions",
    ),
    "proved": Predicate("in range", "is in range", "are in range"),
    NO_INDEX: Predicate("no index", "has no index", "have no index"),
}
"""The verdicts from the worst, by the state of the worst gather of a model."""


def verdict_of(audit: Audit) -> str:
    """Return the verdict of a model: the state of its worst gather, or `NO_INDEX`."""
    states = {gather.range.state for gather in audit.gathers}
    return next((state for state in VERDICTS if state in states), NO_INDEX)


def badness_of(audit: Audit) -> tuple[int, int]:
    """Return a key that sorts models: the worst verdict first, then the most gathers.

    Only the gathers count that have the state of the verdict.
    """
    verdict = verdict_of(audit)
    count = sum(gather.range.state == verdict for gather in audit.gathers)
    return list(VERDICTS).index(verdict), -count


def verdict_of_models(audits: Collection[Audit], left_out: int = 0) -> str:
    """Return the verdict of several models, in one line.

    Args:
        audits: Their audits.
        left_out: How many models more were to be audited, but were not.
    """
    counts = Counter(map(verdict_of, audits))
    all_models = number_of(len(audits) + left_out, "model")
    parts = list[str]()
    for state, verdict in VERDICTS.items():
        count = counts[state]
        if not count:
            continue
        # The first part says how many models there are.
        subject = f"{count:,}"
        if not parts:
            subject = f"{count:,} of {all_models}"
        predicate = verdict.of_one if count == 1 else verdict.of_several
        parts.append(f"{subject} {predicate}")
    refused = sum(bool(audit.refused) for audit in audits)
    if refused:
        verb = "has" if refused == 1 else "have"
        parts.append(f"{refused:,} {verb} a gather that DirectML refuses")
    if left_out:
        verb = "was" if left_out == 1 else "were"
        subject = f"{left_out:,}"
        if not parts:
            subject = f"{left_out:,} of {all_models}"
        parts.append(f"{subject} {verb} not audited")
    return "; ".join(parts) + not_judged_text(audits)


def not_judged_text(audits: Iterable[Audit]) -> str:
    """Return how many nodes were not judged, as the end of a verdict.

    It is empty if each node was judged.
    """
    count = sum(len(audit.not_judged) for audit in audits)
    if not count:
        return ""
    verb = "was" if count == 1 else "were"
    return f"; {number_of(count, 'node')} {verb} not judged"
