"""The examination: every provider is started and given a gather of each kind."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from onnxgather import model
from onnxgather.cases import DescriptorCase
from onnxgather.descriptors import GatherDesc, GatherElementsDesc, GatherNDDesc
from onnxgather.doctor.checkup import Asked, Checkup, Examination, Examined
from onnxgather.doctor.environment import TIMEOUT, Environment, Finding, look_at
from onnxgather.doctor.wheels import LIBRARIES, PLUGINS, REMOTE, WHEELS
from onnxgather.errors import FINDINGS, GOOD, NOT_RUN
from onnxgather.lanes.environment import ModelLane
from onnxgather.lanes.lane import Lane
from onnxgather.parity.compare import judge
from onnxgather.providers import PROVIDERS, find_provider
from onnxgather.runtime import CPU
from onnxgather.tensors import TensorDesc


def examine(
    pythons: Mapping[str, str] | None = None,
    plugins: Mapping[str, str] | None = None,
    python: str = sys.executable,
    seen: Callable[[str], object] = lambda _: None,
    timeout: float = TIMEOUT,
) -> Checkup:
    """Examine this environment, every provider that its ONNX Runtime lists, and further lanes.

    onnxruntime is imported by workers only, as a broken one may crash.

    Args:
        pythons: Lanes that run in another environment, and its interpreter.
        plugins: Lanes whose provider comes from a plugin library, and its path.
        python: The interpreter of this environment.
        seen: Called with the name of what is examined next.
        timeout: Seconds that one gather may take.

    Raises:
        ProviderError: The name of a lane is no provider's.
    """
    pythons, plugins = pythons or {}, plugins or {}
    wanted: dict[str, list[ModelLane]] = {python: []}
    for name in dict.fromkeys([*pythons, *plugins]):
        path = os.path.expanduser(pythons.get(name, python))
        wanted.setdefault(path, []).append(_lane(name, path, plugins.get(name), timeout))
    examinations: list[Examination] = []
    findings: list[Finding] = []
    for path, lanes in wanted.items():
        seen(path)
        found = look_at(path)
        faults = found.findings(CPU if path == python else lanes[0].provider.name)
        findings += faults
        if path == python:
            given = {lane.provider.name for lane in lanes if lane.name not in plugins}
            listed = [name for name in found.providers if name not in given]
            lanes = [
                *(_lane(_SHORT.get(name, name), path, None, timeout) for name in listed),
                *lanes,
            ]
        examined: list[Examined] = []
        for lane in lanes:
            seen(lane.name)
            examined.append(_examined(lane))
            if not faults:  # whose mending comes first
                findings += _not_started(found, examined[-1], plugins.get(lane.name))
            findings += _wrong(found, examined[-1])
        examinations.append(Examination(found, tuple(examined)))
    runs = any(one.runs for each in examinations for one in each.providers)
    opset, ir = model.newest_written()
    return Checkup(
        model.VERSION,
        f"{platform.system()} {platform.release()} {platform.machine()}",
        opset,
        ir,
        tuple(examinations),
        tuple(findings),
        (FINDINGS if findings else GOOD) if runs else NOT_RUN,
    )


_SHORT = {provider.name: short for short, provider in PROVIDERS.items()}


def _lane(name: str, python: str, library: str | None, timeout: float) -> ModelLane:
    provider = find_provider(name.partition("@")[0])
    library = library and os.path.abspath(library)
    return ModelLane(name, provider, python, library, "portable", timeout)


def _examined(lane: Lane) -> Examined:
    """Start a lane, ask it every gather in both ways, and end it."""
    try:
        info = lane.start()
        remark = REMOTE.get(info.provider)
        if info.not_run is not None or remark is not None:
            return Examined(info, (), remark)
        asked = [
            Asked(operator, *(judge(case, info, lane.answer(case)) for case in ways))
            for operator, case in CASES.items()
            for ways in [(case, case.wrapped_in())]
        ]
        return Examined(info, tuple(asked))
    finally:
        lane.close()


def _not_started(found: Environment, examined: Examined, library: str | None) -> Iterator[Finding]:
    """Yield what keeps a provider from starting, and what mends it."""
    info = examined.info
    if info.not_run is None or examined.remark:
        return
    why, command = info.not_run, None
    wheel = (PLUGINS if library is not None else WHEELS).get(info.provider)
    if library is not None:
        lacks = not os.path.exists(library)
        why = f"there is no plugin library {library}" if lacks else why
    elif info.provider not in found.providers:
        lacks = True
        has = ", ".join(found.providers) or "none"
        why = f"its ONNX Runtime has {has}, not {info.provider}"
    else:
        lacks = info.provider in LIBRARIES
    if wheel is not None and lacks:
        none = wheel.why_none(found.platform, found.versions["python"])
        why += f"; {none}" if none else ""
        command = None if none else found.bring(wheel)
    yield Finding(f"{found.python}: {info.name}: {why}", command)


def _wrong(found: Environment, examined: Examined) -> Iterator[Finding]:
    """Yield the gathers that a provider takes and gets wrong."""
    for asked in examined.asked:
        for result in (asked.alone, asked.between):
            if result.state in ("DIFF", "ERROR"):
                where = f"{found.python}: {result.lane}: {asked.operator}"
                yield Finding(f"{where}: {result.state} {result.reason}")


def _cases() -> dict[str, DescriptorCase]:
    line, pair = TensorDesc("FLOAT32", [4]), TensorDesc("FLOAT32", [2])
    table, square = TensorDesc("FLOAT32", [2, 3]), TensorDesc("FLOAT32", [2, 2])
    values = np.arange(6, dtype=np.float32)
    gather = GatherDesc(line, TensorDesc("INT64", [2]), pair, axis=0, index_dimensions=1)
    elements = GatherElementsDesc(table, TensorDesc("INT64", [2, 2]), square, axis=1)
    rows = GatherNDDesc(
        table,
        TensorDesc("INT64", [2, 1]),
        table,
        input_dimension_count=2,
        indices_dimension_count=2,
    )
    array = values.reshape(2, 3)
    return {
        "Gather": DescriptorCase("Gather", gather, values[:4], np.array([3, 1]), "error"),
        "GatherElements": DescriptorCase(
            "GatherElements", elements, array, np.array([[2, 0], [1, 1]]), "error"
        ),
        "GatherND": DescriptorCase("GatherND", rows, array, np.array([[1], [0]]), "error"),
    }


CASES = _cases()
"""A case whose model is one node, by the node's operator."""
