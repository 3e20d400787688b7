"""The findings of audits, and the baseline: a file of those that are known."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from onnxgather.auditing.audit import Audit, AuditedGather, AuditedModel
from onnxgather.auditing.output.text import cause_of, said
from onnxgather.core.checks import printable
from onnxgather.core.json_files import decoding, whole

LARGEST_BASELINE = 2**28
"""The most bytes of a baseline."""

FindingState = Literal["proved-if", "not-proved", "out-of-range", "refused"]

_RANKS: Mapping[FindingState, int] = {
    "proved-if": 0,
    "not-proved": 1,
    "out-of-range": 2,
}
"""How bad the state of a range is. A refusal has no rank, as it may stand beside any
range."""


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
    said: str
    """The sentence on the gather in this state."""
    entry: KnownFinding
    """The finding as the baseline is to have it: with its state, and the reason there
    so far."""
    counts: bool
    """Whether the exit code counts it unless it is known."""
    is_known: bool

    @property
    def is_new(self) -> bool:
        """Whether the exit code counts it."""
        return self.counts and not self.is_known


@dataclass(frozen=True, slots=True)
class FinishedAudit:
    """The audit of a model, with what the files that the command writes need of it."""

    audit: Audit
    files: Sequence[str]
    """The files of the model's external data."""
    pictures: Sequence[dict[str, Any]] = ()
    """The picture of each gather, in their order, as `pictures_of` returns them; empty
    where no page is written."""
    audited: AuditedModel | None = None
    """The model and its run; None where no file needs them, as they may be large."""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The audits of several models."""

    models: Mapping[str, FinishedAudit]
    """By their paths."""
    findings: Mapping[str, Sequence[Sequence[GatherFinding]]]
    """Of each model the findings on each of its gathers."""
    unusable: Sequence[str]
    """Why models were not audited; sentences for people."""

    @property
    def every(self) -> Iterator[GatherFinding]:
        """All findings, in the order of the models."""
        return chain.from_iterable(chain.from_iterable(self.findings.values()))


@dataclass(frozen=True, slots=True)
class Baseline:
    """A file of known findings."""

    path: str = ""
    """Empty where there is no baseline."""
    entries: Mapping[tuple[object, ...], KnownFinding] = field(
        default_factory=dict[Any, Any]
    )
    """By what they are about."""

    @classmethod
    def read(cls, path: str) -> Baseline:
        """Read a baseline.

        Raises:
            FileFormatError: It cannot be read, or breaks a rule; the message names the field.
        """
        with decoding(path, "docs/models.md"), open(path, "rb") as file:
            content = msgspec.json.decode(whole(file, LARGEST_BASELINE), type=_Content)
        return cls(path, {one.subject: one for one in content.findings})

    def findings(
        self, model: str, audit: Audit, strict: bool
    ) -> list[list[GatherFinding]]:
        """The findings on each gather of a model.

        Args:
            model: The path of the model.
            audit: Its audit.
            strict: Whether a gather counts that is not proved, or under conditions alone.
        """
        path, every = self._path_of(model), list[list[GatherFinding]]()
        for gather in audit.gathers:
            told = dict[FindingState, str]()
            if (state := gather.range.state) != "proved":
                cause = f"; {cause_of(gather, {})}" if state == "not-proved" else ""
                told[state] = said(gather, audit.contract["sizes"]) + cause
            if gather.refused and not gather.shape_computation:
                told["refused"] = gather.refused
            every.append([])
            for state, sentence in told.items():
                entry = KnownFinding(path, gather.place, gather.node, gather.op, state)
                known = self.entries.get(entry.subject)
                if known and _RANKS.get(known.state, 0) < _RANKS.get(state, 0):
                    known = None
                entry = replace(entry, reason=known.reason if known else "")
                counts = strict or state in ("out-of-range", "refused")
                found = GatherFinding(
                    model, gather, sentence, entry, counts, known is not None
                )
                every[-1].append(found)
        return every

    def compared(self, report: AuditReport) -> dict[str, Any]:
        """How many counted findings the baseline has, the new ones, and its entries that are gone.

        An entry of a model that was not audited is gone where the model is.
        """
        counted = [one for one in report.every if one.counts]
        new = [one.entry for one in counted if one.is_new]
        found = {one.entry.subject for one in report.every}
        audited, folder = (
            {*map(self._path_of, report.models)},
            os.path.dirname(self.path),
        )
        left = [
            entry for subject, entry in self.entries.items() if subject not in found
        ]
        models = {entry.model for entry in left}
        lost = {
            model for model in models if not os.path.exists(os.path.join(folder, model))
        }
        gone = [entry for entry in left if entry.model in audited | lost]
        return {"known": len(counted) - len(new), "new": new, "gone": gone}

    def of_today(self, report: AuditReport, missed: Collection[str]) -> bytes:
        """The baseline with the findings of a report, sorted.

        Args:
            report: The report, whose findings have the reasons of this baseline.
            missed: The models that were to be audited, but were not, whose entries stay.
        """
        stay = {*map(self._path_of, missed)}
        entries = [entry for entry in self.entries.values() if entry.model in stay]
        entries += [one.entry for one in report.every if one.counts]
        content = msgspec.json.encode(_Content(1, tuple(sorted({*entries}))))
        return msgspec.json.format(content, indent=2) + b"\n"

    def _path_of(self, model: str) -> str:
        return printable(path_from(os.path.dirname(self.path), model))


def path_from(folder: str, path: str) -> str:
    """The path of a file from a folder, with forward slashes."""
    try:
        path = os.path.relpath(path, folder or os.curdir)
    except ValueError:  # on another drive
        path = os.path.abspath(path)
    return path.replace(os.sep, "/")
