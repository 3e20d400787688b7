"""The findings of audits, and the baseline: a file of those that are known."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from onnxgather.auditing.audit import AuditedModel
from onnxgather.auditing.output.text import NamedPaths, sentence_of
from onnxgather.auditing.output.way_to_gather import WayStep
from onnxgather.auditing.proof.contract import NamedSizes
from onnxgather.auditing.records import Audit, AuditedGather, GraphGather
from onnxgather.core.checks import printable
from onnxgather.core.files import path_from
from onnxgather.core.json_files import decoding, whole

LARGEST_BASELINE = 2**28
"""The most bytes of a baseline."""

FindingState = Literal["proved-if", "not-proved", "out-of-range", "invalid", "refused"]

_RANKS: Mapping[FindingState, int] = {
    "proved-if": 0,
    "not-proved": 1,
    "out-of-range": 2,
    "invalid": 3,
    # A refusal is compared with refusals alone, as it may be beside any range.
    "refused": 0,
}
"""How bad a state is."""


_ALWAYS_COUNTED = ("out-of-range", "invalid", "refused")
"""The states that the exit code counts without --fail-on."""


class KnownFinding(Struct, frozen=True, forbid_unknown_fields=True):
    """A finding in a baseline."""

    model: str
    """The path of the model from the folder of the baseline, with forward slashes."""
    place: str
    node: str
    op: str
    state: FindingState
    reason: str = ""
    """Why the finding may stay; for people, who write it."""
    conditions: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """The conditions of the state proved-if, as sentences. An entry without them stands
    for any conditions."""

    @property
    def subject(self) -> tuple[object, ...]:
        """What the finding is about, which does not depend on the rank of its state."""
        return self.model, self.place, self.node, self.op, self.state == "refused"


class _Content(Struct, frozen=True, forbid_unknown_fields=True):
    schema: Literal[1]
    findings: tuple[KnownFinding, ...]


class ModelFinding(Struct, frozen=True):
    """A gather that is not proved, that is invalid, or that DirectML refuses."""

    model: str
    gather: AuditedGather | GraphGather
    said: str
    """The sentence on the gather in this state."""
    entry: KnownFinding
    """The entry of the finding for the baseline, with the reason that is there so
    far."""
    counts: bool
    """Whether the exit code counts it unless it is known."""
    is_known: bool

    @property
    def is_new(self) -> bool:
        """Whether the exit code counts it."""
        return self.counts and not self.is_known


class GatherFinding(ModelFinding, frozen=True):
    """A finding on a gather of the file, not of a graph that ONNX Runtime makes."""

    gather: AuditedGather


class FinishedAudit(Struct, frozen=True):
    """The audit of a model, with what the files that the command writes need of it."""

    audit: Audit
    files: Sequence[str]
    """The files of the model's external data."""
    pictures: Sequence[dict[str, Any]] = ()
    """The picture of each gather, in their order, as `pictures_of` returns them; empty
    where no page is written."""
    audited: AuditedModel | None = None
    """The model and its run; None where no file needs them, as they may be large."""
    ways: Sequence[Sequence[WayStep]] = ()
    """The way to each gather, as `ways_of` returns it; empty where no page is
    written."""


class AuditReport(Struct, frozen=True):
    """The audits of several models."""

    models: Mapping[str, FinishedAudit]
    """By their paths."""
    findings: Mapping[str, Sequence[Sequence[ModelFinding]]]
    """Of each model the findings on each of its gathers, as `gathers_of` has them."""
    unusable: Sequence[str]
    """Why models were not audited; sentences for people."""
    left_out: int
    """How many models were to be audited, but were not: some cannot be read, and after
    an interruption there is one sentence for all others."""
    named: NamedPaths
    """The paths of the command."""

    @property
    def every(self) -> Iterator[ModelFinding]:
        """All findings, in the order of the models."""
        return chain.from_iterable(chain.from_iterable(self.findings.values()))


class Baseline(Struct, frozen=True):
    """A file of known findings."""

    path: str = ""
    """Empty where there is no baseline."""
    entries: Mapping[tuple[object, ...], Sequence[KnownFinding]] = {}
    """By what they are about. Nodes of one name have several."""

    @classmethod
    def read(cls, path: str) -> Baseline:
        """Read a baseline.

        Raises:
            FileFormatError: It cannot be read, or breaks a rule; the message names the
                field.
        """
        with decoding(path, "docs/models.md"), open(path, "rb") as file:
            text = whole(file, LARGEST_BASELINE)
            content = msgspec.json.decode(text, type=_Content)
        entries = dict[tuple[object, ...], list[KnownFinding]]()
        for entry in content.findings:
            entries.setdefault(entry.subject, []).append(entry)
        return cls(path, entries)

    def findings(
        self, model: str, audit: Audit, counted: Collection[str]
    ) -> list[list[ModelFinding]]:
        """Return the findings on each gather of a model, as `gathers_of` has them.

        Args:
            model: The path of the model.
            audit: Its audit.
            counted: The states that the exit code counts beside those that it always
                counts.
        """
        path = self._path_of(model)
        sizes: NamedSizes = audit.contract["sizes"]
        findings_by_gather = list[list[ModelFinding]]()
        for gather in gathers_of(audit):
            findings = list[ModelFinding]()
            for state, sentence in _sentences(gather, sizes).items():
                entry = KnownFinding(path, gather.place, gather.node, gather.op, state)
                if isinstance(gather, AuditedGather) and state == "proved-if":
                    conditions = tuple(map(str, gather.range.conditions))
                    entry = replace(entry, conditions=conditions)
                known_entry = self._known(entry)
                if known_entry is not None:
                    entry = replace(entry, reason=known_entry.reason)
                counts = state in _ALWAYS_COUNTED or state in counted
                is_known = known_entry is not None
                facts = (sentence, entry, counts, is_known)
                if isinstance(gather, AuditedGather):
                    findings.append(GatherFinding(model, gather, *facts))
                else:
                    findings.append(ModelFinding(model, gather, *facts))
            findings_by_gather.append(findings)
        return findings_by_gather

    def _known(self, entry: KnownFinding) -> KnownFinding | None:
        """Return the entry that a finding is not worse than; None if there is none."""
        for known_entry in self.entries.get(entry.subject, ()):
            if not _is_worse(entry, known_entry):
                return known_entry
        return None

    def compared(self, report: AuditReport) -> dict[str, Any]:
        """Return how many counted findings are known, the new ones, and what is gone.

        An entry is gone if its model has no such finding now. An entry of a model that
        was not audited is gone if the file of the model is.
        """
        counted = [finding for finding in report.every if finding.counts]
        new = [finding.entry for finding in counted if finding.is_new]
        known_count = len(counted) - len(new)
        return {"known": known_count, "new": new, "gone": self._gone(report)}

    def _gone(self, report: AuditReport) -> list[KnownFinding]:
        """Return the entries that are gone."""
        subjects = {finding.entry.subject for finding in report.every}
        left = list[KnownFinding]()
        for subject, entries in self.entries.items():
            if subject not in subjects:
                left += entries

        # An entry of another model says nothing, unless its file is gone.
        models = {self._path_of(model) for model in report.models}
        folder = os.path.dirname(self.path)
        for model in {entry.model for entry in left}:
            if not os.path.exists(os.path.join(folder, model)):
                models.add(model)
        return [entry for entry in left if entry.model in models]

    def of_today(self, report: AuditReport, missed: Collection[str]) -> bytes:
        """Return the baseline with the findings of a report, sorted.

        Args:
            report: The report, whose findings have the reasons of this baseline.
            missed: The models that were to be audited, but were not. Their entries
                stay.
        """
        missed_paths = {self._path_of(model) for model in missed}
        # Equal entries are written once.
        entries = set[KnownFinding]()
        for entry in chain.from_iterable(self.entries.values()):
            if entry.model in missed_paths:
                entries.add(entry)
        for finding in report.every:
            if finding.counts:
                entries.add(finding.entry)
        content = _Content(1, tuple(sorted(entries, key=_place_in_file)))
        text = msgspec.json.format(msgspec.json.encode(content), indent=2)
        return text + b"\n"

    def _path_of(self, model: str) -> str:
        """Return the path of a model as an entry has it."""
        return printable(path_from(os.path.dirname(self.path), model))


def _is_worse(entry: KnownFinding, known_entry: KnownFinding) -> bool:
    """Return whether a finding is worse than a known one about the same node.

    Its state is worse, or it has a condition that the known finding does not have.
    """
    if entry.state != known_entry.state:
        return _RANKS[known_entry.state] < _RANKS[entry.state]
    # An entry without conditions stands for any.
    if not known_entry.conditions or not entry.conditions:
        return False
    return not {*entry.conditions} <= {*known_entry.conditions}


def _place_in_file(entry: KnownFinding) -> tuple[object, ...]:
    """Return what sorts the entries of a file."""
    conditions = entry.conditions or ()
    return entry.subject, entry.state, entry.reason, conditions


def gathers_of(audit: Audit) -> list[AuditedGather | GraphGather]:
    """Return the gathers that may have findings: of the file, then of the graphs."""
    return [*audit.gathers, *audit.graph_gathers]


def _sentences(
    gather: AuditedGather | GraphGather, sizes: NamedSizes
) -> dict[FindingState, str]:
    """Return the sentences on a gather, by the states that are findings."""
    sentences = dict[FindingState, str]()
    if isinstance(gather, GraphGather):
        if gather.state != "proved":
            sentences[gather.state] = gather.why
        return sentences
    state = gather.range.state
    if state != "proved":
        sentences[state] = sentence_of(gather, sizes)
    if gather.is_refused:
        sentences["refused"] = gather.refused or ""
    return sentences
