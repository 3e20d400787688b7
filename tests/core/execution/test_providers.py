"""The table of execution providers."""

from __future__ import annotations

import pytest

from onnxgather.core.errors import ProviderError
from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES
from onnxgather.core.execution.providers import (
    NAMES,
    PROVIDERS,
    WEB_PROVIDERS,
    Provider,
    find_provider,
)
from onnxgather.core.options import WEBNN


def test_provider_table_has_no_name_twice() -> None:
    assert len({provider.name for provider in PROVIDERS.values()}) == len(PROVIDERS)
    assert all(isinstance(provider, Provider) for provider in PROVIDERS.values())


def test_each_provider_says_what_to_install() -> None:
    assert {short: provider.source for short, provider in PROVIDERS.items()} == {
        "cpu": "onnxgather[cpu]",
        "directml": (
            "onnxgather[directml] on Windows, or run scripts/directml/setup.sh on Linux"
        ),
        "openvino": "onnxgather[openvino]",
        "cuda": "onnxruntime-gpu",
        "tensorrt": "onnxruntime-gpu",
        "webgpu": "onnxruntime-webgpu, or run scripts/directml/setup.sh on Linux",
        "qnn": "onnxruntime-qnn on Windows",
        "coreml": "onnxgather[cpu] on macOS",
    }
    unknown = find_provider("XyzExecutionProvider")
    assert unknown.source == "an ONNX Runtime with XyzExecutionProvider"


def test_a_browsers_provider_has_a_short_name_of_its_own() -> None:
    for short, provider in WEB_PROVIDERS.items():
        assert find_provider(short) == provider
        assert provider.in_browser
        source = "onnxruntime-web: run scripts/web/setup.sh"
        if provider.runs_programs:
            source = "a browser with WebNN: run scripts/web/setup.sh --lanes webnn"
        assert provider.source == source
    for name in ("CPUExecutionProvider", "WebGpuExecutionProvider"):
        assert not find_provider(name).in_browser
    assert find_provider("WebNNExecutionProvider") == WEB_PROVIDERS["web-webnn"]
    assert [name for name, row in WEB_PROVIDERS.items() if row.runs_programs] == [WEBNN]


@pytest.mark.parametrize("name", OTHER_RUNTIMES)
def test_a_runtime_that_is_no_provider_says_what_runs_it(name: str) -> None:
    with pytest.raises(ProviderError) as caught:
        find_provider(name)
    assert str(caught.value) == (
        f"provider must be one of {NAMES}, got {name!r}, a runtime that is no provider"
        f" of ONNX Runtime; its lane runs cases: onnxgather check --lanes {name}"
    )
