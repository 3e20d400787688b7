"""Lanes: programs that run cases and answer with evidence, opened by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from onnxgather.checks import shown
from onnxgather.errors import OnnxGatherError
from onnxgather.lanes.directml import DIRECTML_DLL, DirectMLLane
from onnxgather.lanes.lane import TIMEOUT, Lane
from onnxgather.lanes.python import ModelLane
from onnxgather.options import Target
from onnxgather.providers import find_provider

REFERENCE = "reference"
"""The lane that all others are compared with; naming it is allowed and changes nothing."""


def open_lanes(
    names: Sequence[str],
    pythons: Mapping[str, str] | None = None,
    plugins: Mapping[str, str] | None = None,
    target: Target | None = None,
    timeout: float = TIMEOUT,
) -> list[Lane]:
    """The lanes of these names, not started.

    Args:
        names: A provider's short or full name each, with `@` and a label of one's own where a
            provider has several lanes: `cpu@1.24.4`. "directml-dll" is DirectML itself,
            "reference" stands for no lane.
        pythons: Lanes that run in another environment, and its interpreter; of DirectML itself
            the folder of its program.
        plugins: Lanes whose provider comes from a plugin library, and its path.
        target: The target of the models; None is the one that suits the provider.
        timeout: Seconds that one case may take.

    Raises:
        ProviderError: A name is no provider's.
        OnnxGatherError: A lane is named twice, or there is none beside the reference.
    """
    pythons, plugins = pythons or {}, plugins or {}
    wanted = [*names, *(name for name in {**pythons, **plugins} if name not in names)]
    wanted = [name for name in wanted if name != REFERENCE]
    if not wanted:
        raise OnnxGatherError("lanes must name one beside the reference, got none")
    for name in wanted:
        if wanted.count(name) > 1:
            raise OnnxGatherError(f"lanes must differ, got {shown(name)} twice")
    return [
        DirectMLLane(name, pythons.get(name), timeout)
        if name.partition("@")[0] == DIRECTML_DLL
        else ModelLane(
            name,
            find_provider(name.partition("@")[0]),
            _interpreter(pythons.get(name, sys.executable)),
            os.path.abspath(plugins[name]) if name in plugins else None,
            target,
            timeout,
        )
        for name in wanted
    ]


def parse_lane(text: str) -> tuple[str, str | None]:
    """The name and the interpreter of a lane that is given as NAME or NAME=PYTHON.

    Raises:
        OnnxGatherError: It is neither.
    """
    name, equals, python = text.partition("=")
    if not name or (equals and not python):
        raise OnnxGatherError(f"a lane must be NAME or NAME=PYTHON, got {shown(text)}")
    return name, python or None


def _interpreter(path: str) -> str:
    """An interpreter as an absolute path, or as a command that the PATH leads to."""
    path = os.path.expanduser(path)
    return os.path.abspath(path) if os.path.dirname(path) else path
