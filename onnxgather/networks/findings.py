"""The findings of audits, and the baseline: a file of those that are known."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from onnxgather.checks import printable
from onnxgather.networks.gathers import Audit, AuditedGather
from onnxgather.networks.text import cause_of, said
from onnxgather.parity.decoding import decoding, whole

LARGEST_BASELINE = 2**28
"""The most bytes of a baseline."""

FindingState = Literal["proved-if", "not-proved", "out-of-range", "refused"]

_RANKS: Mapping[FindingState, int] = {"proved-if": 0, "not-proved": 1, "out-of-range": 2}
"""How bad the state of a range is. A refusal has no rank, as it may stand beside any range."""


class KnownFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """A finding as a baseline has it."""

    model: str
    """The path of the model from the folder of the baseline, with forward slashes."""
    place: str
    node: str
    op: str
    state: FindingState
    reason: str = ""
    """Why the finding may stay; for people, who write it."""

    @property
    def subject(self) -> tuple[object, ...]:
        """What the finding is about, which is the same where its state has another rank."""
        return self.model, self.place, self.node, self.op, self.state == "refused"


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: Literal[1]
    findings: tuple[KnownFinding, ...]


@dataclass(frozen=True, slots=True)
class GatherFinding:
    """A gather that is not proved, or that DirectML refuses."""

    model: str
    gather: AuditedGather
    state: FindingState
    said: str
    """The sentence on the gather in this state."""
    counts: bool
    """Whether the exit code counts it where no baseline has it."""
    known: KnownFinding | None = None
    """The finding in the baseline."""

    @property
    def is_new(self) -> bool:
        """Whether the exit code counts it."""
        return self.counts and self.known is None

    def entry(self, folder: str) -> KnownFinding:
        """The finding as a baseline in a folder has it, without a reason."""
        one, model = self.gather, printable(path_from(folder, self.model))
        return KnownFinding(model, one.place, one.node, one.op, self.state)


@dataclass(frozen=True, slots=True)
class Baseline:
    """A file of known findings."""

    path: str
    entries: Mapping[tuple[object, ...], KnownFinding]
    """By what they are about."""

    @property
    def folder(self) -> str:
        """Where the paths of its models start."""
        return os.path.dirname(self.path)

    @classmethod
    def read(cls, path: str) -> Baseline:
        """Read a baseline.

        Raises:
            FileFormatError: It cannot be read, or breaks a rule; the message names the field.
        """
        with decoding(path, "docs/models.md"), open(path, "rb") as file:
            content = msgspec.json.decode(whole(file, LARGEST_BASELINE), type=_Content)
        return cls(path, {one.subject: one for one in content.findings})

    def known(self, finding: GatherFinding) -> KnownFinding | None:
        """The entry of a finding; None where there is none, or the state has become worse."""
        wanted = finding.entry(self.folder)
        entry = self.entries.get(wanted.subject)
        is_worse = entry and _RANKS.get(wanted.state, 0) > _RANKS.get(entry.state, 0)
        return None if is_worse else entry

    def compared(self, report: AuditReport) -> dict[str, Any]:
        """How many counted findings the baseline has, the new ones, and its entries that are gone.

        An entry of a model that was not audited is gone where the model is.
        """
        counted = [one for one in report.every if one.counts]
        new = [one.entry(self.folder) for one in counted if one.is_new]
        found = {one.entry(self.folder).subject for one in report.every}
        audited = {printable(path_from(self.folder, model)) for model in report.audits}
        left = (entry for subject, entry in self.entries.items() if subject not in found)
        gone = [
            entry
            for entry in left
            if entry.model in audited or not os.path.exists(os.path.join(self.folder, entry.model))
        ]
        return {"known": len(counted) - len(new), "new": new, "gone": gone}

    def of_today(self, report: AuditReport, missed: Collection[str]) -> bytes:
        """The baseline with the findings of a report, sorted.

        Args:
            report: The report. A finding keeps the reason that it has in this or its own baseline.
            missed: The models that were to be audited, but were not, whose entries stay.
        """
        stay = {printable(path_from(self.folder, model)) for model in missed}
        entries = [entry for entry in self.entries.values() if entry.model in stay]
        for finding in report.every:
            known = self.known(finding) or finding.known
            if finding.counts:
                reason = known.reason if known else ""
                entries.append(replace(finding.entry(self.folder), reason=reason))
        content = _Content(1, tuple(sorted(entries)))
        return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The audits of several models."""

    audits: Mapping[str, Audit]
    """By the paths of the models."""
    findings: Mapping[str, Sequence[Sequence[GatherFinding]]]
    """Of each model the findings on each of its gathers."""
    unusable: Sequence[str]
    """Why models were not audited; sentences for people."""
    lanes: Mapping[str, Sequence[str]]
    """Of each model what lanes made of its gathers; lines for people."""
    bad_lanes: Collection[str]
    """The models with a lane that did not start, or whose result is a finding."""
    baseline: Baseline | None = None

    @property
    def every(self) -> Iterator[GatherFinding]:
        """All findings, in the order of the models."""
        return chain.from_iterable(chain.from_iterable(self.findings.values()))


def findings_of(
    model: str, audit: Audit, strict: bool, baseline: Baseline | None
) -> list[list[GatherFinding]]:
    """The findings on each gather of a model.

    Args:
        model: The path of the model.
        audit: Its audit.
        strict: Whether a gather counts that is not proved, or under conditions alone.
        baseline: The known findings.
    """
    say, every = partial(said, sizes=audit.contract["sizes"]), list[list[GatherFinding]]()
    for gather in audit.gathers:
        found, state = list[GatherFinding](), gather.range.state
        if state != "proved":
            counts = strict or state == "out-of-range"
            cause = f"; {cause_of(gather, {})}" if state == "not-proved" else ""
            found.append(GatherFinding(model, gather, state, say(gather) + cause, counts))
        if gather.refused and not gather.shape_computation:
            found.append(GatherFinding(model, gather, "refused", gather.refused, counts=True))
        if baseline:
            found = [dataclasses.replace(one, known=baseline.known(one)) for one in found]
        every.append(found)
    return every


def path_from(folder: str, path: str) -> str:
    """The path of a file from a folder, with forward slashes."""
    try:
        path = os.path.relpath(path, folder or os.curdir)
    except ValueError:  # on another drive
        path = os.path.abspath(path)
    return path.replace(os.sep, "/")
