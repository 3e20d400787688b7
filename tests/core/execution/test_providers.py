"""The table of execution providers."""

from __future__ import annotations

import sys

import pytest
from messages import message_of

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
        "cpu": "onnxruntime",
        "directml": (
            "onnxruntime-directml on Windows, or run scripts/directml/setup.sh on Linux"
        ),
        "openvino": "onnxruntime-openvino",
        "cuda": "onnxruntime-gpu",
        "tensorrt": "onnxruntime-gpu",
        "webgpu": "onnxruntime-webgpu, or run scripts/directml/setup.sh on Linux",
        "qnn": "onnxruntime-qnn",
        "coreml": "onnxruntime on macOS",
        "onnxgather": "onnxruntime",
    }
    unknown = find_provider("XyzExecutionProvider")
    assert unknown.source == "an ONNX Runtime with XyzExecutionProvider"


ABSENT = "OpenVINOExecutionProvider is not available (available: CPUExecutionProvider)"
APART = "install onnxruntime-openvino; the wheel needs an environment of its own"


@pytest.mark.parametrize(
    ("system", "lane", "cure"),
    [
        (
            "linux",
            "openvino@new",
            (
                f"{APART}: python3 -m venv ../openvino && ../openvino/bin/pip install"
                " onnxruntime-openvino numpy, then"
                " --lane openvino@new=../openvino/bin/python"
            ),
        ),
        (
            "linux",
            None,
            (
                f"{APART}: python3 -m venv ../openvino && ../openvino/bin/pip install ."
                " onnxruntime-openvino, in a checkout of onnxgather"
            ),
        ),
        (
            "win32",
            "openvino",
            (
                rf"{APART}: py -m venv ..\openvino && ..\openvino\Scripts\pip install"
                r" onnxruntime-openvino numpy, then"
                r" --lane openvino=..\openvino\Scripts\python"
            ),
        ),
        ("linux", "", "install onnxruntime-openvino"),
    ],
)
def test_an_absent_provider_gets_an_environment_for_its_wheel(
    monkeypatch: pytest.MonkeyPatch, system: str, lane: str | None, cure: str
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    found = PROVIDERS["openvino"].why_not_run("absent", "CPUExecutionProvider", lane)
    assert found == f"{ABSENT}; {cure}"


def test_an_environment_is_made_only_for_a_wheel_of_this_system_beside_another() -> (
    None
):
    for provider in PROVIDERS.values():
        text = provider.why_not_run("absent", "CPUExecutionProvider", "x")
        is_plain = provider.distribution == "onnxruntime"
        is_apart = provider.wheel and not is_plain and not provider.system
        assert ("the wheel needs an environment" in text) == bool(is_apart)
        for kind in ("no-runtime", "empty-runtime"):
            assert "venv" not in provider.why_not_run(kind, "", "x")


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
    assert message_of(ProviderError, find_provider, name) == (
        f"provider must be one of {NAMES}, got {name!r}, a runtime that is no provider"
        f" of ONNX Runtime; its lane runs cases: onnxgather check --lanes {name}"
    )
