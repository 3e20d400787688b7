"""The one table of execution providers: short name, ONNX Runtime's name, what brings it."""

from __future__ import annotations

from typing import NamedTuple

from onnxgather.checks import shown
from onnxgather.errors import ProviderError


class Provider(NamedTuple):
    """An execution provider of ONNX Runtime."""

    name: str
    """ONNX Runtime's full name."""
    source: str
    """What to install for it."""

    def why_not_run(self, kind: str, detail: str) -> str:
        """Return one sentence for what `runtime.NotRunError` holds."""
        return _NOT_RUN[kind].format(name=self.name, source=self.source, detail=detail)


_NOT_RUN = {
    "no-runtime": "{name} needs ONNX Runtime, which is not installed; install {source}",
    "empty-runtime": "the module onnxruntime is empty, as uninstalling one of its wheels leaves "
    "it; reinstall {source}",
    "absent": "{name} is not available (available: {detail}); install {source}",
    "too-old": "{name} must say which nodes it ran, which ONNX Runtime {detail} does not record; "
    "install 1.24.4 or later",
    "library": "the plugin library of {name} does not load: {detail}",
    "no-device": "the plugin library of {name} loads, but offers no device for it",
    "elsewhere": "{name} must run every node, but {detail}",
    "folded": "{name} must run a node, but {detail}",
}
"""What to say of each kind of `runtime.NotRunError`."""

PROVIDERS = {
    "cpu": Provider("CPUExecutionProvider", "onnxgather[cpu]"),
    "directml": Provider("DmlExecutionProvider", "onnxgather[directml] on Windows"),
    "openvino": Provider("OpenVINOExecutionProvider", "onnxgather[openvino]"),
    "cuda": Provider("CUDAExecutionProvider", "onnxruntime-gpu"),
    "tensorrt": Provider("TensorrtExecutionProvider", "onnxruntime-gpu"),
    "webgpu": Provider("WebGpuExecutionProvider", "onnxruntime-webgpu"),
    "qnn": Provider("QNNExecutionProvider", "onnxruntime-qnn on Windows"),
    "coreml": Provider("CoreMLExecutionProvider", "onnxgather[cpu] on macOS"),
}


def find_provider(name: object) -> Provider:
    """Return the provider of a short or full name.

    Raises:
        ProviderError: The name is neither short nor one of ONNX Runtime's.
    """
    text = name if isinstance(name, str) else ""
    for short, provider in PROVIDERS.items():
        if text in (short, provider.name):
            return provider
    if text.endswith("ExecutionProvider"):
        return Provider(text, f"an ONNX Runtime with {text}")
    known = ", ".join(PROVIDERS)
    raise ProviderError(
        f"provider must be one of {known}, or ONNX Runtime's full name of one, got {shown(name)}"
    )
