"""Lanes opened by name."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from messages import message_of

import onnxgather as og
from onnxgather.checking.lanes import LONGEST_LABEL, lanes_set_up, open_lanes
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.lanes.python import ModelLane, device_of_lane, model_lane
from onnxgather.core.options import Target


@pytest.mark.parametrize(
    "label", ["1.24.4", "an old one", "größe", "x" * LONGEST_LABEL]
)
def test_a_label_may_be_any_short_text(label: str) -> None:
    (lane,) = open_lanes([f"cpu@{label}"])
    assert lane.name == f"cpu@{label}"


@pytest.mark.parametrize("lane", ["cpu", "directml-dll"])
@pytest.mark.parametrize(
    "label",
    [
        "",
        "a=b",
        "a\nb",
        "\x1b[31m",
        "\0",
        "\u202e",
        "\udc80",
        "x" * (LONGEST_LABEL + 1),
    ],
)
def test_a_label_that_cannot_be_printed_is_refused(lane: str, label: str) -> None:
    assert (
        message_of(og.OnnxGatherError, open_lanes, [f"{lane}@{label}"])
        == "the label of a lane must have 1 to 64 printable characters, no =, got"
        f" {label!r}"
    )


def test_two_lanes_of_one_name_are_refused() -> None:
    assert (
        message_of(og.OnnxGatherError, open_lanes, ["cpu@a", "cpu@a"])
        == "lanes must differ, got 'cpu@a' twice"
    )


@pytest.mark.parametrize(
    ("names", "target", "got"),
    [
        (["webnn"], "cpu", "cpu with 'webnn'"),
        (["directml-dll", "webnn"], "portable", "portable with 'directml-dll'"),
        (["cpu", "webnn@native"], None, "native with 'webnn@native'"),
        (["onnxgather"], "cpu", "cpu with 'onnxgather'"),
    ],
)
def test_a_target_without_onnx_models_is_refused(
    names: list[str], target: Target | None, got: str
) -> None:
    with pytest.raises(og.OnnxGatherError) as caught:
        open_lanes(names, target=target)
    rule = "target must come with a lane whose models have one"
    assert str(caught.value) == f"{rule}, got {got}"


def test_a_target_is_that_of_the_lanes_with_onnx_models() -> None:
    _, webnn, own = open_lanes(["cpu", "webnn", "webnn@own"], target="cpu")
    assert [webnn.name, own.name] == ["webnn", "webnn@own"]


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("ggml", "ggml"),
        ("My-EP_2.0@old", "My-EP_2.0"),
        ("webgpu@x", "WebGpuExecutionProvider"),
        ("CPUExecutionProvider", "CPUExecutionProvider"),
        ("opencv", "opencv"),
    ],
)
def test_the_provider_of_a_plugin_has_any_name(name: str, provider: str) -> None:
    (lane,) = open_lanes([], plugins={name: "libplugin.so"})
    assert isinstance(lane, ModelLane)
    assert (lane.provider.name, lane.plugin) == (provider, "libplugin.so")
    assert lane.library == os.path.abspath("libplugin.so")


@pytest.mark.parametrize("name", ["a b", "-a", "$(x)", "a" * 82, "é"])
def test_the_provider_of_a_plugin_has_a_name_for_a_command(name: str) -> None:
    assert (
        message_of(og.ProviderError, open_lanes, [], plugins={name: "libplugin.so"})
        == "the provider of a plugin library must have a name of up to 81 letters,"
        f" digits, _, . and -, a letter or digit first, got {name!r}; NAME=LIBRARY"
        " chooses it"
    )


def test_the_options_of_a_provider_are_those_of_a_lane() -> None:
    assert (
        message_of(
            og.OnnxGatherError,
            open_lanes,
            ["cpu", "openvino"],
            provider_options={"openvno": {"a": "b"}},
        )
        == "the lane of an option of a provider must be one of cpu, openvino, got"
        " 'openvno'; did you mean \"openvino\"?"
    )


@pytest.mark.parametrize("name", ["directml-dll", "opencv", "web-wasm", "cpu@library"])
def test_a_lane_whose_program_takes_no_options_is_refused(
    tmp_path: Path, name: str
) -> None:
    path = str(tmp_path)
    if name == "cpu@library":
        path = "libonnxruntime.so"
    assert (
        message_of(
            og.OnnxGatherError,
            open_lanes,
            [],
            {name: path},
            provider_options={name: {"a": "1", "b": "2"}},
        )
        == f"lane {name!r} must have no options of a provider, as its program takes"
        " none, got a, b"
    )


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("mine@GPU", "GPU"),
        ("mine@NPU:12@portable", "NPU:12"),
        ("mine@old@CPU:0", "CPU:0"),
        ("mine@gpu", None),
        ("mine@GPU:", None),
        ("GPU", None),
    ],
)
def test_a_label_chooses_the_devices_of_a_plugin(name: str, device: str | None) -> None:
    assert device_of_lane(name) == device


def test_a_plugin_beside_a_shared_library_is_refused() -> None:
    assert (
        message_of(
            og.OnnxGatherError,
            open_lanes,
            [],
            {"webgpu@x": "libonnxruntime.so.1"},
            {"webgpu@x": "libplugin.so"},
        )
        == "lane 'webgpu@x' must have a shared library of ONNX Runtime or a plugin, got"
        " both"
    )


def test_a_shared_library_is_a_file_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert model_lane("cpu", "libonnxruntime.so.1").host == [
        str(tmp_path / "libonnxruntime.so.1")
    ]


@pytest.mark.parametrize(
    "provider",
    ["StubExecutionProvider", "DirectML.dll", "onnx-reference", "mine_2.0", "My-EP"],
)
def test_a_lane_has_the_full_name_of_its_provider(provider: str) -> None:
    info = LaneInfo("x", provider)
    assert msgspec.json.decode(msgspec.json.encode(info), type=LaneInfo) == info


@pytest.mark.parametrize(
    "provider",
    ["", "'); import os #ExecutionProvider", "CPUExecutionProvider\n", "-x", ".a"],
)
def test_a_lane_whose_provider_is_no_name_is_not_read(provider: str) -> None:
    content = msgspec.json.encode({"name": "x", "provider": provider})
    assert (
        message_of(msgspec.ValidationError, msgspec.json.decode, content, type=LaneInfo)
        == "Expected `str` matching regex"
        " '^[A-Za-z0-9][A-Za-z0-9_.-]{0,80}\\\\Z' - at `$.provider`"
    )


@pytest.mark.parametrize(
    ("name", "asked", "target"),
    [
        ("cpu", None, "cpu"),
        ("cpu@old", None, "cpu"),
        ("cpu@native", None, "native"),
        ("cpu@1.24.4@native", "portable", "native"),
        ("openvino@cpu", None, "cpu"),
        ("openvino", "native", "native"),
        ("cpu@native@old", None, "cpu"),
    ],
)
def test_a_last_label_that_is_a_target_is_the_target_of_the_lane(
    tmp_path: Path, name: str, asked: Target | None, target: Target
) -> None:
    with closing(model_lane(name, str(tmp_path / "no python"), target=asked)) as lane:
        assert lane.start().target == target


def test_lanes_that_scripts_made_are_set_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert lanes_set_up() == []
    names = ["tract", "opencv", "other"]
    for name in names:
        (tmp_path / "onnxgather/runtimes" / name / "bin").mkdir(parents=True)
        (tmp_path / "onnxgather/runtimes" / name / "bin/python").touch()
    (tmp_path / "onnxgather/web/chromium").mkdir(parents=True)
    assert lanes_set_up() == ["webnn", "opencv", "tract"]
