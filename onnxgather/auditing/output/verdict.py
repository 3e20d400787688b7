"""What is said of the verdict of a model, and how many models have it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from onnxgather.auditing.records import Audit, ModelVerdict
from onnxgather.core.checks import number_of
from onnxgather.core.output.result_states import State


class VerdictFacts(Struct, frozen=True):
    """What is said of a model with a verdict, and in which colour."""

    sentence: str
    colour: State
    """The state of a result that has the colour."""


VERDICTS: dict[ModelVerdict, VerdictFacts] = {
    "invalid": VerdictFacts("a node is invalid", "DIFF"),
    "can-leave": VerdictFacts("a wrong input can leave an axis", "DIFF"),
    "perhaps": VerdictFacts("perhaps a wrong input can leave an axis", "NOT-RUN"),
    "never": VerdictFacts("an input can never leave an axis", "PASS"),
    "no-index": VerdictFacts("no index", "PASS"),
}
"""The verdicts from the worst."""


def verdict_text(audit: Audit) -> str:
    """Return what is said of a model."""
    sentence = VERDICTS[audit.verdict].sentence
    if audit.verdict == "never":
        sentence += _as_given([audit])
    return sentence


def _as_given(audits: Iterable[Audit]) -> str:
    """Return for which inputs alone the gathers of models are proved.

    The text is the end of a sentence; it is empty if they are proved for all inputs.
    """
    for audit in audits:
        # Of a run only its own sizes are known.
        is_of_run = any(gather.range.sizes_from == "run" for gather in audit.gathers)
        if audit.given or is_of_run:
            return ", if inputs are as given"
    return ""


def badness_of(audit: Audit) -> tuple[int, int, int]:
    """Return a key that sorts models, the worst first.

    It is the worst verdict, then the most gathers out of range, then the most gathers
    with the verdict.
    """
    count = sum(gather.verdict == audit.verdict for gather in audit.gathers)
    rank = list(VERDICTS).index(audit.verdict)
    return rank, -len(audit.out_of_range), -count


def colour_of(audits: Collection[Audit], left_out: int) -> State:
    """Return the state of a result that has the colour of models: that of the worst.

    Args:
        audits: The audits of the models.
        left_out: How many models more were to be audited, but were not.
    """
    worst = min(audits, key=badness_of)
    colour = VERDICTS[worst.verdict].colour
    if colour == "DIFF":
        return colour
    if any(audit.refused for audit in audits):
        return "ERROR"
    # Nothing is known of the others, so the colour is not that of a proof.
    if left_out or any(audit.not_judged for audit in audits):
        return VERDICTS["perhaps"].colour
    return colour


def verdict_of_models(audits: Collection[Audit], left_out: int) -> str:
    """Return the verdicts of several models, in one line.

    Args:
        audits: Their audits.
        left_out: How many models more were to be audited, but were not.
    """
    audits_by_verdict: dict[ModelVerdict, list[Audit]] = {}
    for audit in audits:
        audits_by_verdict.setdefault(audit.verdict, []).append(audit)
    total = len(audits) + left_out
    parts = list[str]()
    for verdict, facts in VERDICTS.items():
        members = audits_by_verdict.get(verdict, [])
        if not members:
            continue
        # The first part has the sentence and says how many models there are.
        if parts:
            part = f"{len(members):,}: {verdict.replace('-', ' ')}"
        else:
            part = f"{len(members):,} of {total:,}: {facts.sentence}"
        if verdict == "never":
            part += _as_given(members)
        parts.append(part)
    refused = sum(bool(audit.refused) for audit in audits)
    if refused:
        verb = "has" if refused == 1 else "have"
        parts.append(f"{refused:,} {verb} a gather that DirectML refuses")
    if left_out:
        verb = "was" if left_out == 1 else "were"
        subject = f"{left_out:,}"
        if not parts:
            subject = f"{left_out:,} of {number_of(total, 'model')}"
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
