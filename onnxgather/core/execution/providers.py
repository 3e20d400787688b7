"""The table of execution providers: their names, and what to install for each."""

from __future__ import annotations

import json
import platform
import re
import sys
from importlib.resources import files
from typing import Any

from msgspec import Struct

from onnxgather.core.checks import argument_text, plain_text, shown, suggestion
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.errors import ProviderError
from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES
from onnxgather.core.options import WEBNN, Target

OLDEST_RUNTIME = "1.24.4"
"""The oldest ONNX Runtime that onnxgather supports.

It records which provider ran a node.
"""

SYSTEM = {"Darwin": "macOS"}.get(platform.system(), platform.system())
"""This operating system, as `Provider.system` names it."""

OUT_OF_RANGE = "out_of_range"
"""The option of onnxgather's own provider that names the policy."""

REPORT = "report"
"""The option of onnxgather's own provider that has it warn of each gather that meets an
index out of range."""

DIRECTML_DLL = "directml-dll"
"""The name of DirectML.dll itself, which runs no models.

The provider `directml` is that of ONNX Runtime.
"""

SETUP = "scripts/directml/setup.sh"
"""The script that makes programs for DirectML and its provider on Linux."""

WEB_SETUP = "scripts/web/setup.sh"
"""The script that makes the folder of onnxruntime-web and says how to get a browser."""


class Provider(Struct, frozen=True):
    """An execution provider of ONNX Runtime."""

    name: str
    """ONNX Runtime's full name."""
    wheel: str = ""
    """The wheel of ONNX Runtime that has the provider, as pip spells it; empty if there
    is no such wheel."""
    plugin: str = ""
    """The wheel whose plugin library adds the provider to any ONNX Runtime, as pip
    spells it."""
    system: str = ""
    """The only operating system that the provider exists on: Windows or macOS."""
    host: str = ""
    """The program, of those that `SETUP` makes, that runs the provider on Linux; empty
    if none."""
    host_is_python: bool = False
    """Whether that program is a Python interpreter."""
    library: str = ""
    """The module of onnxruntime-web that has the provider, in a browser; empty for
    other providers."""
    needs_webnn: bool = False
    """Whether the browser must have WebNN."""
    target: Target = "portable"
    """The target that suits the provider."""
    gathers_alone: bool = False
    """Whether the provider is onnxgather's own: it runs the gathers of ONNX and nothing
    else, under the policy of its option `OUT_OF_RANGE`, and the CPU the rest."""
    data_types: tuple[TensorDataType, ...] = ()
    """The data types that the provider computes in as ONNX says, of data and of
    indices; empty if these are all.

    `substitute_of` gives others as these.
    """

    @property
    def distribution(self) -> str:
        """The name of the distribution in `wheel`, or else in `plugin`."""
        return re.split(r"[\[<>=]", self.wheel or self.plugin)[0]

    @property
    def in_browser(self) -> bool:
        """Return whether the provider runs in a browser."""
        return self.library != "" or self.needs_webnn

    @property
    def runs_programs(self) -> bool:
        """Return whether the provider runs programs of WebNN, and no ONNX models."""
        return self.needs_webnn and not self.library

    @property
    def has_target(self) -> bool:
        """Return whether the provider runs models that are made for a target."""
        return not (self.runs_programs or self.gathers_alone)

    @property
    def source(self) -> str:
        """What to install for the provider, in words."""
        if self.runs_programs:
            return f"a browser with WebNN: run {WEB_SETUP} --lanes {WEBNN}"
        if self.library:
            return f"onnxruntime-web: run {WEB_SETUP}"
        source = self.distribution or f"an ONNX Runtime with {self.name}"
        if self.system:
            source += f" on {self.system}"
        if self.host:
            source += f", or run {SETUP} on Linux"
        return source

    @property
    def short_name(self) -> str:
        """The name that a user types: the short one, if the provider has one."""
        return SHORT_NAMES.get(self.name, self.name)

    @property
    def environment(self) -> str:
        """The interpreter of the environment that `make_environment` makes."""
        if sys.platform == "win32":
            return rf"..\{self.short_name}\Scripts\python"
        return f"../{self.short_name}/bin/python"

    def make_environment(self, *, with_onnxgather: bool) -> str:
        """Return the command that makes an environment with the provider's wheel.

        Args:
            with_onnxgather: Whether the environment gets onnxgather itself, from the
                checkout in the current folder; else a lane may run there.
        """
        python = "py" if sys.platform == "win32" else "python3"
        folder = self.environment.partition(self.short_name)[0] + self.short_name
        pip = self.environment.removesuffix("python") + "pip"
        wheel, *_ = re.split(r"[<>=]", self.wheel)
        wheel = argument_text(wheel)
        packages = f". {wheel}" if with_onnxgather else f"{wheel} numpy"
        return f"{python} -m venv {folder} && {pip} install {packages}"

    def why_not_run(self, kind: str, detail: str, lane: str | None = None) -> str:
        """Return a sentence for what `runtime.NotRunError` holds.

        Args:
            kind: Its kind.
            detail: Its detail.
            lane: The name of a lane that may run in another environment; empty if the
                lane must run where it does; None if it is no lane.
        """
        sentence = _NOT_RUN[kind]
        text = sentence.format(name=self.name, source=self.source, detail=detail)
        is_apart = self.wheel not in ("", _PLAIN) and self.system in ("", SYSTEM)
        if kind != "absent" or not is_apart or lane == "":
            return text
        text += "; the wheel needs an environment of its own: "
        # Case 1: a worker runs the models there, and onnxgather stays here.
        if lane:
            command = self.make_environment(with_onnxgather=False)
            return f"{text}{command}, then --lane {lane}={self.environment}"
        # Case 2: onnxgather itself must be there.
        command = self.make_environment(with_onnxgather=True)
        return f"{text}{command}, in a checkout of onnxgather"


_NOT_RUN = {
    "no-runtime": (
        "the environment of {name} does not contain ONNX Runtime; install {source}"
    ),
    "empty-runtime": (
        "the module onnxruntime is empty, as uninstalling one of its wheels leaves "
        "it; reinstall {source}"
    ),
    "absent": "{name} is not available (available: {detail}); install {source}",
    "too-old": (
        "{name} must say which nodes it ran, which ONNX Runtime {detail} does not"
        f" record; install {OLDEST_RUNTIME} or later"
    ),
    "before-plugins": (
        "{name} must run in ONNX Runtime 1.24 or later, got {detail}; install"
        f" onnxruntime>={OLDEST_RUNTIME}"
    ),
    "library": "the plugin library of {name} does not load: {detail}",
    "no-device": "the plugin library of {name} loads, but does not offer {detail}",
    "elsewhere": "{name} must run every node, but {detail}",
    "folded": "{name} must run a node, but {detail}",
    "operators": "{name} must run onnxgather's own operators, but {detail}",
    "types": "{name} has no {detail}",
}
"""The sentence for each kind of `runtime.NotRunError`."""


def _types(*names: str) -> tuple[TensorDataType, ...]:
    """Return data types by their names."""
    return tuple(TensorDataType(name) for name in names)


_PLAIN = f"onnxruntime>={OLDEST_RUNTIME}"
_CUDA = f"onnxruntime-gpu[cuda,cudnn]>={OLDEST_RUNTIME}"

PROVIDERS = {
    "cpu": Provider("CPUExecutionProvider", _PLAIN, target="cpu"),
    "directml": Provider(
        "DmlExecutionProvider",
        f"onnxruntime-directml>={OLDEST_RUNTIME}",
        system="Windows",
        host="run-runtime",
    ),
    "openvino": Provider(
        "OpenVINOExecutionProvider",
        "onnxruntime-openvino>=1.24.1",
        # Its ReduceSum of integers adds floats, and is not exact beyond 2^24.
        target="webgpu",
        # It declines FLOAT64 and UINT64, and holds INT64 and UINT32 in INT32, and
        # FLOAT16 in FLOAT32, which quiets NaNs. Indices that it holds wrongly may end
        # the program.
        data_types=_types("FLOAT32", "INT32", "INT16", "INT8", "UINT16", "UINT8"),
    ),
    "cuda": Provider("CUDAExecutionProvider", _CUDA),
    "tensorrt": Provider("TensorrtExecutionProvider", _CUDA),
    "webgpu": Provider(
        "WebGpuExecutionProvider",
        "onnxruntime-webgpu>=1.27",
        plugin="onnxruntime-ep-webgpu>=0.4",
        host="run-webgpu",
        host_is_python=True,
        target="webgpu",
        # It gathers with INT64 indices too, but its Cast of them reads the low 32 bits
        # alone.
        data_types=_types("FLOAT32", "FLOAT16", "INT32", "UINT32"),
    ),
    "qnn": Provider("QNNExecutionProvider", plugin="onnxruntime-qnn>=2.7"),
    "coreml": Provider("CoreMLExecutionProvider", _PLAIN, system="macOS"),
    "onnxgather": Provider("OnnxGatherExecutionProvider", _PLAIN, gathers_alone=True),
}

SHORT_NAMES = {provider.name: short for short, provider in PROVIDERS.items()}
"""The short name of each provider, by its full name."""

# Many devices lack the extension for FLOAT16.
_IN_SHADERS = _types("FLOAT32", "INT32", "UINT32")

WEB_PROVIDERS = {
    "web-wasm": Provider(
        "CPUExecutionProvider", library="ort.wasm.min.mjs", target="cpu"
    ),
    "web-webgpu": Provider(
        "WebGpuExecutionProvider",
        library="ort.webgpu.min.mjs",
        target="webgpu",
        data_types=_IN_SHADERS,
    ),
    "web-webnn": Provider(
        "WebNNExecutionProvider",
        library="ort.all.min.mjs",
        needs_webnn=True,
        target="webgpu",
        # It gathers no other type of integers, and has one word for all others.
        data_types=_types("FLOAT32", "INT32"),
    ),
    WEBNN: Provider(WEBNN, needs_webnn=True),
}
"""The providers in a browser.

The logs of onnxruntime-web have the full names of its own.
"""

# A full name that a browser's provider shares with another is that of the other, as the
# later entry wins.
_FULL_NAMES = {
    provider.name: provider
    for provider in (*WEB_PROVIDERS.values(), *PROVIDERS.values())
}
_BY_NAME = {**PROVIDERS, **WEB_PROVIDERS, **_FULL_NAMES}
"""The providers by their short names and by their full names."""

PROVIDER_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,80}"
"""The names that a provider of a plugin library may have.

The names go into commands and into generated code.
"""

FULL_NAME = r"[A-Za-z0-9]{1,64}ExecutionProvider"
"""How ONNX Runtime spells the full name of a provider of its own."""

NAMES = (
    f"{', '.join((*PROVIDERS, *WEB_PROVIDERS))}, or ONNX Runtime's full name of one, "
    "which ends in ExecutionProvider"
)
"""How a user may name a provider."""

_OTHER_TOOLS = {
    "dml": "directml",
    "trt": "tensorrt",
    "ov": "openvino",
    "wgpu": "webgpu",
} | {
    name.lower(): f"{name}ExecutionProvider"
    for name in (
        "NvTensorRTRTX",
        "MIGraphX",
        "VitisAI",
        "Dnnl",
        "Nnapi",
        "Xnnpack",
    )
}
"""Names that other tools have for providers, such as `onnxruntime_perf_test -e`."""


def target_of(
    provider: str, asked: Target | None = None, wrapped: bool = False
) -> Target:
    """Return the target of the models for a provider.

    Args:
        provider: The provider's full name.
        asked: The target that a user asks for; None means the target that suits the
            provider.
        wrapped: Whether the gather is wrapped; then the target is never "cpu".
    """
    target = asked
    if not target:
        target = _BY_NAME.get(provider, Provider(provider)).target
    if wrapped and target == "cpu":
        return "portable"
    return target


def find_provider(name: object, *others: str, cure: str = "") -> Provider:
    """Return the provider of a short or full name.

    A full name that the table does not have is taken as it is.

    Args:
        name: The name.
        others: Names that the caller accepts too, for the message.
        cure: The end of the message where no name is near.

    Raises:
        ProviderError: The name is neither a short name of the table nor a full name.
    """
    given = plain_text(name)
    text = given if isinstance(given, str) else ""
    if text in _BY_NAME:
        return _BY_NAME[text]
    if re.fullmatch(FULL_NAME, text):
        return Provider(text)

    names = ", ".join([*others, NAMES])
    rule = f"provider must be one of {names}, got {shown(name)}"
    if text == DIRECTML_DLL:
        command = "onnxgather run FILE --provider directml-dll"
        raise ProviderError(f"{rule}, which runs programs: {command}")
    if text in OTHER_RUNTIMES:
        what = "a runtime that is no provider of ONNX Runtime"
        cure = f"its lane runs cases: onnxgather check --lanes {text}"
        raise ProviderError(f"{rule}, {what}; {cure}")
    similar_names = [*others, *_BY_NAME, *_OTHER_TOOLS.values()]
    own_name = _OTHER_TOOLS.get(text.lower(), text)
    hint = suggestion(own_name, similar_names) or cure
    raise ProviderError(f"{rule}{hint}")


def plugin_provider(name: str) -> Provider:
    """Return the provider that a plugin library brings; `name` is short or full.

    Raises:
        ProviderError: The name has other signs than `PROVIDER_NAME`.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    if not re.fullmatch(PROVIDER_NAME, name):
        raise ProviderError(
            "the provider of a plugin library must have a name of up to 81 letters,"
            f" digits, _, . and -, a letter or digit first, got {shown(name)};"
            " NAME=LIBRARY chooses it"
        )
    return Provider(name)


def known_difference_rows() -> list[dict[str, Any]]:
    """Return the rows of known_differences.json as plain data.

    `checking` reads them with their types.
    """
    path = files("onnxgather.core.execution").joinpath("known_differences.json")
    return json.loads(path.read_bytes())
