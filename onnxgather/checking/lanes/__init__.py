"""Lanes, opened by name.

A lane is a provider in a Python environment, DirectML.dll, or another runtime behind an
adapter. It runs cases.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from shutil import which

from onnxgather.checking.lanes.directml import DirectMLLane, find_host
from onnxgather.checking.lanes.lane import CASE_TIMEOUT
from onnxgather.checking.lanes.plugins import is_package
from onnxgather.checking.lanes.python import ModelLane, model_lane, target_of_lane
from onnxgather.checking.lanes.runtime import RuntimeLane
from onnxgather.core.checks import check_choice, check_name, plain_text, sequence, shown
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution.elsewhere.hosts import (
    WINDOWS_LANE,
    find_runtime,
    runtime_python,
    windows_host,
)
from onnxgather.core.execution.kernels import operators_library
from onnxgather.core.execution.other_runtimes import (
    OTHER_RUNTIMES,
    RUNTIME_NAME,
    RUNTIME_NAME_RULE,
)
from onnxgather.core.execution.providers import (
    DIRECTML_DLL,
    OUT_OF_RANGE,
    PROVIDERS,
    SHORT_NAMES,
    WEB_PROVIDERS,
)
from onnxgather.core.options import DEFAULT_OPSET, Target

REFERENCE = "reference"
"""The name of the reference, with which all lanes are compared.

Naming it changes nothing.
"""

OpenedLane = ModelLane | RuntimeLane | DirectMLLane
"""A lane that is opened by its name."""

EVALUATOR = "onnx-reference"
"""The name of the lane of ONNX's own evaluator."""

LONGEST_LABEL = 64
"""The most characters of a lane's label."""


def open_lanes(
    names: Sequence[str],
    pythons: Mapping[str, str] = {},
    plugins: Mapping[str, str] = {},
    target: Target | None = None,
    timeout: float = CASE_TIMEOUT,
    adapters: Mapping[str, str] = {},
    opset: int = DEFAULT_OPSET,
    provider_options: Mapping[str, Mapping[str, str]] = {},
) -> list[OpenedLane]:
    """Return the lanes of some names, not started.

    Args:
        names: The names of the lanes: a provider's short or full name, and `@` with any
            label if the provider has several lanes, such as `cpu@1.24.4`. If the last
            label is a target, as in `cpu@native` or `cpu@1.24.4@native`, it is the
            target of the lane's models. "directml-dll" is DirectML itself;
            "cpu@windows" is the CPU provider of ONNX Runtime for Windows; "reference"
            adds no lane.
        pythons: The interpreters of lanes that run in another environment, or shared
            libraries of ONNX Runtime, by the lanes' names. For DirectML itself, and for
            "cpu@windows" on another system, it is the folder of the host.
        plugins: The plugin libraries that bring the providers of lanes, or the Python
            packages that have them, by the lanes' names. These may be any names of
            providers, or the names of the packages. A label such as GPU, or GPU:1 for
            the second, chooses among the devices of the library.
        target: The target of the models of lanes whose names have none; None is the
            target that suits the provider.
        timeout: Seconds that one case may take.
        adapters: The files of adapters of one's own, by the names of their lanes
            without labels.
        opset: The version of the ONNX operator set of the models.
        provider_options: The providers' own options, by the lanes' names.

    Raises:
        ProviderError: A name is that of no provider, and of no other runtime.
        OnnxGatherError: A lane is named twice, no lane is named, or a label, the name
            of an adapter or the timeout is not as it must be; or a target is that of
            no ONNX models, or an option that of no lane that takes options; or as
            `model_lane`.
    """
    listed = list(names)
    for name in {**pythons, **plugins}:
        if name not in names:
            listed.append(name)
    bases = {base_of(name) for name in listed}
    for name in adapters:
        _check_adapter_name(name)
        # Case: no lane is named for the adapter, so it has one of its own name.
        if name not in bases:
            listed.append(name)
    listed = [name for name in listed if name != REFERENCE]
    if not listed:
        raise OnnxGatherError("lanes must name one beside the reference, got none")
    for name in listed:
        if listed.count(name) > 1:
            raise OnnxGatherError(f"lanes must differ, got {shown(name)} twice")
        _check_label(name)
    for name in provider_options:
        check_choice("the lane of an option of a provider", name, listed)

    lanes = list[OpenedLane]()
    for name in listed:
        python = pythons.get(name)
        plugin = plugins.get(name)
        lane: OpenedLane
        base = base_of(name)
        is_runtime = base in adapters or base in OTHER_RUNTIMES
        if base == DIRECTML_DLL:
            lane = DirectMLLane(name, python, timeout)
        # The provider of a plugin may have the name of another runtime.
        elif is_runtime and plugin is None:
            lane = RuntimeLane(name, adapters.get(base), python, target, opset, timeout)
        else:
            lane = model_lane(name, python, plugin, target, timeout, opset)
        settings = provider_options.get(name)
        if settings:
            if not isinstance(lane, ModelLane) or lane.host:
                raise OnnxGatherError(
                    f"lane {shown(name)} must have no options of a provider, as its"
                    f" program takes none, got {', '.join(settings)}"
                )
            if lane.provider.gathers_alone and OUT_OF_RANGE in settings:
                raise OnnxGatherError(
                    f"lane {shown(name)} must have no option {OUT_OF_RANGE}, as each"
                    f" case has its own, got {settings[OUT_OF_RANGE]}"
                )
            lane.settings = settings
        lanes.append(lane)
    others = [lane.name for lane in lanes if not _has_target(lane)]
    # A lane beside one without a target may need it; a label is its own.
    unused_target = target if len(others) == len(lanes) else None
    for name in others:
        own_target = target_of_lane(name, unused_target)
        if own_target is not None:
            raise OnnxGatherError(
                "target must come with a lane whose models have one"
                f", got {own_target} with {shown(name)}"
            )
    return lanes


def base_of(name: str) -> str:
    """Return the name of a lane without its label."""
    return name.partition("@")[0]


def lanes_set_up() -> list[str]:
    """Return the names of the lanes that scripts of onnxgather set up on this machine.

    Those are lanes in a host, and other runtimes in an environment of their own.
    """
    providers = PROVIDERS | WEB_PROVIDERS
    names = [name for name in providers if find_runtime(providers[name])]
    if find_host() is not None:
        names.insert(0, DIRECTML_DLL)
    if os.path.isfile(windows_host()):
        names.append(WINDOWS_LANE)
    names.extend(filter(runtime_python, OTHER_RUNTIMES))
    return names


def lanes_installed(
    listed: Iterable[str],
    runtimes: Iterable[str],
    named: Collection[str] = (),
    takes_plugins: bool = False,
) -> list[str]:
    """Return the names of the lanes that an environment has.

    Args:
        listed: The full names of the providers that its ONNX Runtime lists.
        runtimes: The other runtimes whose modules it has. onnxgather itself brings
            onnx, so that the evaluator is always there and no lane for it is.
        named: Lanes to leave out, by the short or full names of their providers.
        takes_plugins: Whether its ONNX Runtime loads plugin libraries, such as that of
            onnxgather's own provider.
    """
    names: list[str] = []
    providers = [*listed]
    if takes_plugins and operators_library() is not None:
        providers.append(PROVIDERS["onnxgather"].name)
    for provider in providers:
        name = SHORT_NAMES.get(provider, provider)
        if name not in named and provider not in named:
            names.append(name)
    for runtime in runtimes:
        if runtime not in (*named, EVALUATOR):
            names.append(runtime)
    return names


def _has_target(lane: OpenedLane) -> bool:
    """Return whether a lane runs ONNX models that are made for a target."""
    if isinstance(lane, ModelLane):
        return lane.provider.has_target
    return isinstance(lane, RuntimeLane)


def _check_adapter_name(name: str) -> None:
    """Check the name of the lane of an adapter of one's own."""
    if not re.fullmatch(RUNTIME_NAME, name):
        raise OnnxGatherError(
            f"the name of an adapter {RUNTIME_NAME_RULE}, got {shown(name)}"
        )
    if name in (*PROVIDERS, *WEB_PROVIDERS, DIRECTML_DLL, REFERENCE):
        raise OnnxGatherError(
            "the name of an adapter must not be that of another lane"
            f", got {shown(name)}"
        )


def _check_label(name: str) -> None:
    """Check the label of a lane's name, if the name has a label."""
    _, at_sign, label = name.partition("@")
    if not at_sign:
        return
    # With "=" the label would name an interpreter where NAME=PATH is read.
    is_right = "=" not in label and label.isprintable()
    if not is_right or not 0 < len(label) <= LONGEST_LABEL:
        raise OnnxGatherError(
            f"the label of a lane must have 1 to {LONGEST_LABEL} printable"
            " characters, no ="
            f", got {shown(label)}"
        )


def split_lanes(lanes: object) -> tuple[list[str], dict[str, str]]:
    """Return the names of lanes, and the paths of those that run elsewhere.

    Args:
        lanes: Texts, each NAME or NAME=PATH; or such texts in one, with commas.

    Raises:
        OnnxGatherError: They are something else.
    """
    lanes = plain_text(lanes)
    if isinstance(lanes, str):
        items = [item.strip() for item in lanes.split(",")]
        items = [item for item in items if item]
    else:
        items = sequence("lanes", lanes)
    names: list[str] = []
    paths: dict[str, str] = {}
    for number, item in enumerate(items):
        name, path = parse_lane(check_name(f"lanes[{number}]", item))
        names.append(name)
        if path is not None:
            paths[name] = path
    return names, paths


def check_paths(kind: str, paths: Iterable[str]) -> None:
    """Check that the paths of lanes exist.

    Args:
        kind: What the paths are: "lane", the interpreters, libraries and folders of
            lanes, or names of commands; "plugin", plugin libraries; or "adapter".
        paths: The paths.

    Raises:
        OnnxGatherError: A path does not exist, or is the folder of a Python environment
            in place of its interpreter.
    """
    for path in paths:
        full_path = os.path.expanduser(path)
        is_there = os.path.exists(full_path)
        # A package is looked for in the environment of its lane.
        if kind == "plugin" and is_package(path):
            is_there = True
        if kind == "adapter":
            is_there = os.path.isfile(full_path)
        if kind == "lane" and not is_there:
            is_there = which(path) is not None
        if not is_there:
            raise OnnxGatherError(f"{shown(path)}: no such file or directory")
        is_environment = os.path.exists(os.path.join(full_path, "pyvenv.cfg"))
        if kind == "lane" and is_environment:
            raise OnnxGatherError(
                f"must be the interpreter of an environment, got its folder {path!r}"
            )


def parse_lane(text: str) -> tuple[str, str | None]:
    """Return the name and the path of a lane that is given as NAME or NAME=PATH.

    Raises:
        OnnxGatherError: The text is neither.
    """
    name, equals_sign, path = text.partition("=")
    if not name or (equals_sign and not path):
        raise OnnxGatherError(f"a lane must be NAME or NAME=PATH, got {shown(text)}")
    return name, path or None
