"""The one table of wheels: which one brings a provider, and for which platforms it exists."""

from __future__ import annotations

import re
from typing import NamedTuple

OLDEST_RUNTIME = "1.24"
"""The oldest ONNX Runtime known to tell its node assignment (measured: 1.24.1)."""


class Wheel(NamedTuple):
    """A distribution on PyPI."""

    requirement: str
    """As pip takes it."""
    platforms: tuple[str, ...]
    """What `sysconfig.get_platform()` starts with where the wheel exists."""
    where: str
    """The same in words."""
    newest_python: int
    """The newest 3.N that it exists for."""
    beside: bool = False
    """Whether it is a plugin, which stands beside the module onnxruntime."""

    @property
    def name(self) -> str:
        """The distribution's name."""
        return re.split(r"[\[<>=]", self.requirement)[0]

    def why_none(self, platform: str, python: str) -> str | None:
        """Return why the wheel does not exist there, None where it does.

        Args:
            platform: Such as `linux-x86_64`.
            python: The version, such as `3.11.7`.
        """
        if not platform.startswith(self.platforms):
            return f"{self.name} exists for {self.where} only, not for {platform}"
        if int(python.split(".")[1]) > self.newest_python:
            short = ".".join(python.split(".")[:2])
            return f"{self.name} exists up to Python 3.{self.newest_python}, not for {short}"
        return None


_X64 = ("win-amd64", "linux-x86_64")
_PLAIN = "onnxruntime>=1.24.4"
_PLATFORMS, _WHERE = ("win-", "linux-", "macosx-"), "Windows, Linux and macOS"
_GPU = Wheel("onnxruntime-gpu[cuda,cudnn]>=1.24.4", _X64, "Windows and Linux on x64", 14)

# Measured with pip in November 2026.
WHEELS = {
    "CPUExecutionProvider": Wheel(_PLAIN, _PLATFORMS, _WHERE, 14),
    "DmlExecutionProvider": Wheel(
        "onnxruntime-directml>=1.24.4", ("win-amd64",), "Windows on x64", 14
    ),
    "OpenVINOExecutionProvider": Wheel(
        "onnxruntime-openvino>=1.24.1", _X64, "Windows and Linux on x64", 13
    ),
    "CUDAExecutionProvider": _GPU,
    "TensorrtExecutionProvider": _GPU,
    "WebGpuExecutionProvider": Wheel(
        "onnxruntime-webgpu>=1.27", (*_X64, "macosx-"), "Windows and Linux on x64 and macOS", 14
    ),
    "QNNExecutionProvider": Wheel("onnxruntime-qnn>=2.7", ("win-",), "Windows", 14, beside=True),
    "CoreMLExecutionProvider": Wheel(_PLAIN, ("macosx-",), "macOS", 14),
}

PLUGINS = {
    "WebGpuExecutionProvider": Wheel("onnxruntime-ep-webgpu>=0.4", _PLATFORMS, _WHERE, 14, True),
    "QNNExecutionProvider": WHEELS["QNNExecutionProvider"],
}
"""Wheels with a plugin library."""

LIBRARIES = {"CUDAExecutionProvider"}
"""Providers that may not start for want of libraries which their requirement brings."""

REMOTE = {"AzureExecutionProvider": "sends models to endpoints at Azure; has no operators itself"}
"""Providers that by their nature run no gather, and what they do."""
