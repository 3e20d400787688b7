"""What the doctor found, as data and as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import msgspec

from onnxgather.doctor.environment import Environment, Finding
from onnxgather.lanes.lane import LaneInfo
from onnxgather.options import DEFAULT_OPSET, OPSETS
from onnxgather.parity.results import Result

WIDTH = 100
"""Columns of the text; a command keeps its line."""

LABEL = 20
"""Columns of what a line is about."""


class Asked(msgspec.Struct, frozen=True):
    """One of ONNX's gathers, put to a provider in two ways."""

    operator: str
    """Gather, GatherElements or GatherND."""
    alone: Result
    """Of a model that holds nothing else."""
    between: Result
    """Of one where it stands between two multiplications by one."""

    @property
    def runs(self) -> bool:
        """Whether the provider runs it in one of the two."""
        return any(result.nodes for result in (self.alone, self.between))

    def __str__(self) -> str:
        return f"alone: {_told(self.alone)}; between two Mul: {_told(self.between)}"


class Examined(msgspec.Struct, frozen=True, omit_defaults=True):
    """A provider that was started and asked."""

    info: LaneInfo
    asked: tuple[Asked, ...] = ()
    """Empty where it did not start."""
    remark: str | None = None
    """What a provider does that by its nature runs no gather."""

    @property
    def runs(self) -> bool:
        """Whether it runs any gather."""
        return any(asked.runs for asked in self.asked)

    def lines(self) -> Iterator[str]:
        """Yield its part of the text."""
        info = self.info
        if self.remark:
            yield from _wrapped(f"  {info.name}", self.remark)
            return
        state = f"does not start: {info.not_run}" if info.not_run else "starts"
        if not info.not_run and not self.runs:
            state = "starts, but takes no gather"
        yield from _wrapped(f"  {info.name}", state)
        if info.devices:
            yield from _wrapped("    device", ", ".join(info.devices))
        for asked in self.asked:
            yield from _wrapped(f"    {asked.operator}", str(asked))


class Examination(msgspec.Struct, frozen=True):
    """An environment and the providers that were examined there."""

    environment: Environment
    providers: tuple[Examined, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield its part of the text."""
        found = self.environment
        order = ("python", "onnx", "numpy", "protobuf", "onnxruntime")
        versions = [f"{name} {found.versions[name]}" for name in order if name in found.versions]
        yield f"{found.python}: {', '.join(versions) or 'does not answer'}"
        if found.versions:
            yield from _wrapped("  module", _module(found))
        if found.loads:
            loads = found.loads
            told = f"up to opset {loads.opset}, IR {loads.ir}; onnxgather's default opset "
            told += ", its newest ".join(
                f"{opset}: {'yes' if opset <= (loads.opset or 0) else 'no'}"
                for opset in (DEFAULT_OPSET, OPSETS[-1])
            )
            yield from _wrapped("  loads", told)
        for examined in self.providers:
            yield from examined.lines()


class Checkup(msgspec.Struct, frozen=True):
    """All that the doctor found."""

    onnxgather: str
    """Its version."""
    machine: str
    """Such as `Linux 6.1 x86_64`."""
    written_opset: int
    """The newest that the installed onnx writes."""
    written_ir: int
    examinations: tuple[Examination, ...]
    """This environment first, then those of the lanes."""
    findings: tuple[Finding, ...]
    exit_code: int
    """0: nothing is wrong. 1: findings. 3: no provider runs a gather."""

    def __str__(self) -> str:
        lines = [
            f"onnxgather {self.onnxgather} on {self.machine}; its onnx writes up to opset "
            f"{self.written_opset}, IR {self.written_ir}"
        ]
        for examination in self.examinations:
            lines += ["", *examination.lines()]
        lines += ["", _count(len(self.findings))]
        for number, finding in enumerate(self.findings, 1):
            lines += _wrapped(f"{number}.", finding.what, 4)
            if finding.command:
                lines.append(f"    {finding.command}")
        return "\n".join(lines)


def _module(found: Environment) -> str:
    """Return who owns the module onnxruntime."""
    owners = "; ".join(f"{owner}, {owner.state}" for owner in found.wheels)
    if not owners:
        where = found.folders[0] if found.folders else ""
        owners = f"of no distribution, in {where}" if where else "not installed"
    if found.shared:
        owners += f"; {found.shared} files belong to several"
    if found.empty:
        owners += "; the module is empty"
    return owners


def _told(result: Result) -> str:
    """Return what became of one model, with the nodes that ran."""
    nodes = ", ".join(result.nodes)
    if result.state == "PASS":
        return f"ran {nodes}"
    return " ".join(filter(None, (result.state, f"({nodes})" if nodes else "", result.reason)))


def _wrapped(label: str, text: str, width: int = LABEL) -> list[str]:
    """Return a label and a text beside it, which starts where the label leaves room."""
    return textwrap.wrap(
        " ".join(text.split()),
        WIDTH,
        initial_indent=f"{label:<{width}}" if len(label) < width else f"{label}  ",
        subsequent_indent=" " * width,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _count(findings: int) -> str:
    if not findings:
        return "nothing is wrong"
    return f"{findings} finding{'s' * (findings > 1)}:"
