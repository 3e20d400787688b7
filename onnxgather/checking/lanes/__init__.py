"""Lanes: providers in Python environments, or DirectML.dll, that run cases; opened by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnxgather.checking.lanes.directml import DirectMLLane
from onnxgather.checking.lanes.lane import CASE_TIMEOUT, Lane
from onnxgather.checking.lanes.python import model_lane
from onnxgather.core.checks import shown
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution.providers import DIRECTML_DLL
from onnxgather.core.options import Target

REFERENCE = "reference"
"""A name for the reference, with which all lanes are compared; naming it changes
nothing."""

LONGEST_LABEL = 64
"""The most characters of a lane's label."""


def open_lanes(
    names: Sequence[str],
    pythons: Mapping[str, str] | None = None,
    plugins: Mapping[str, str] | None = None,
    target: Target | None = None,
    timeout: float = CASE_TIMEOUT,
) -> list[Lane]:
    """The lanes of these names, not started.

    Args:
        names: The names of the lanes: a provider's short or full name, and `@` with any label if
            the provider has several lanes, such as `cpu@1.24.4`. A last label that is a target, as
            in `cpu@native` or `cpu@1.24.4@native`, is the target of the lane's models.
            "directml-dll" is DirectML itself; "cpu@windows" is the CPU provider of ONNX Runtime
            for Windows; "reference" adds no lane.
        pythons: The interpreters of lanes that run in another environment, or shared libraries of
            ONNX Runtime, by the lanes' names. For DirectML itself, and for "cpu@windows" on
            another system, it is the folder of the host.
        plugins: The plugin libraries that bring the providers of lanes, by the lanes' names.
        target: The target of the models of lanes whose names have none; None is the one that
            suits the provider.
        timeout: Seconds that one case may take.

    Raises:
        ProviderError: A name is not that of a provider.
        OnnxGatherError: A lane is named twice, no lane is named, or a label or the timeout is not
            as it must be.
    """
    pythons, plugins = pythons or {}, plugins or {}
    wanted = [*names, *(name for name in {**pythons, **plugins} if name not in names)]
    wanted = [name for name in wanted if name != REFERENCE]
    if not wanted:
        raise OnnxGatherError("lanes must name one beside the reference, got none")
    for name in wanted:
        if wanted.count(name) > 1:
            raise OnnxGatherError(f"lanes must differ, got {shown(name)} twice")
        _, at, label = name.partition("@")
        if at and (
            "=" in label
            or not label.isprintable()
            or not 0 < len(label) <= LONGEST_LABEL
        ):
            rule = (
                f"the label of a lane must have 1 to {LONGEST_LABEL} printable"
                " characters, no ="
            )
            raise OnnxGatherError(f"{rule}, got {shown(label)}")
    return [
        (
            DirectMLLane(name, pythons.get(name), timeout)
            if name.partition("@")[0] == DIRECTML_DLL
            else model_lane(name, pythons.get(name), plugins.get(name), target, timeout)
        )
        for name in wanted
    ]


def parse_lane(text: str) -> tuple[str, str | None]:
    """The name and the path of a lane that is given as NAME or NAME=PATH.

    Raises:
        OnnxGatherError: The text is neither.
    """
    name, equals, path = text.partition("=")
    if not name or (equals and not path):
        raise OnnxGatherError(f"a lane must be NAME or NAME=PATH, got {shown(text)}")
    return name, path or None
