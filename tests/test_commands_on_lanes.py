"""The commands of the pages on lanes that need more than Python, where the lanes are.

Each command runs as the page has it, but on a part of its cases, and with the folders
of this machine. `.ci/run` sets the lanes up, and runs this file behind.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from folders import ROOT
from page_blocks import BLOCKS

from onnxgather.checking.lanes.directml import find_host
from onnxgather.cli import main
from onnxgather.core.execution.elsewhere.hosts import (
    find_runtime,
    made_folder,
    runtime_python,
    windows_host,
)
from onnxgather.core.execution.providers import PROVIDERS, WEB_PROVIDERS

PART = "1/400"
"""The part of the corpus that runs."""

RANDOM = "3"
"""How many random cases run."""

ALL_PROVIDERS = {**PROVIDERS, **WEB_PROVIDERS}

HERE = {"cpu", "cpu@native"}
"""The lanes of this environment."""


def lanes_of(words: list[str]) -> list[str]:
    """Return the lanes of a command that need more than this environment."""
    lanes: list[str] = []
    for option, value in pairwise(words):
        if option in ("--lanes", "--provider"):
            lanes += value.split(",")
        elif option == "--lane":
            name, _, place = value.partition("=")
            # A build of one's own is on no machine of the tests.
            lanes.append("" if place.startswith("build/") else name)
        elif option == "--plugin":
            lanes.append("")
    return [lane for lane in lanes if lane not in HERE]


def commands() -> dict[str, list[str]]:
    """Return the commands on such lanes, by their pages and texts."""
    by_name: dict[str, list[str]] = {}
    for block in BLOCKS:
        if block.kind != "sh" or not block.mark.startswith("not run: "):
            continue
        for words in block.commands:
            lanes = lanes_of(words)
            runs_here = lanes != [] and "" not in lanes
            # The report of an earlier command of the page is on no machine.
            if words[0] == "onnxgather" and runs_here and "report.json" not in words:
                by_name[f"{block.page}: {' '.join(words)}"] = words
    return by_name


COMMANDS = commands()

NAMES = [
    f"{name.partition(':')[0]}-{'-'.join(lanes_of(COMMANDS[name]))}"
    for name in COMMANDS
]
"""The names of the tests: pages and lanes."""


def is_set_up(lane: str, openvino: str | None) -> bool:
    """Return whether this machine has what a lane needs."""
    if lane == "directml-dll":
        return find_host() is not None
    if lane.startswith("cpu@windows"):
        return Path(windows_host()).is_file()
    if lane == "openvino":
        return openvino is not None
    if lane in ALL_PROVIDERS:
        return find_runtime(ALL_PROVIDERS[lane]) != []
    return runtime_python(lane) is not None


def here(words: list[str], places: Mapping[str, str]) -> list[str]:
    """Return a command with the places of this machine, on a part of its cases."""
    command: list[str] = []
    for word in words[1:]:
        name, equals, place = word.partition("=")
        command.append(f"{name}{equals}{places.get(place, place)}")
    if "--shard" in command:
        command[command.index("--shard") + 1] = PART
    elif "--corpus" in command:
        command += ["--shard", PART]
    if "--random" in command:
        command[command.index("--random") + 1] = RANDOM
    return command


def test_the_pages_have_commands_for_each_lane_that_a_script_sets_up() -> None:
    lanes = {lane for words in COMMANDS.values() for lane in lanes_of(words)}
    assert lanes >= {
        "cpu@windows",
        "directml",
        "directml-dll",
        "opencv",
        "openvino",
        "web-webgpu",
        "webgpu",
        "webnn",
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS, ids=NAMES)
def test_a_command_of_a_page_runs_where_its_lanes_are(
    name: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    words = COMMANDS[name]
    openvino = request.config.getoption("--openvino")
    if openvino is not None:
        openvino = str(Path(openvino).absolute())
    for lane in lanes_of(words):
        if not is_set_up(lane, openvino):
            pytest.skip(f"the lane {lane} is not set up here")
    places = {
        "FOLDER": str(made_folder()),
        "../openvino/bin/python": openvino or "",
        "opencv/bin/python": runtime_python("opencv") or "",
    }
    shutil.copytree(ROOT / "models", tmp_path / "models")
    # The models that the pages write before.
    (tmp_path / "converted").mkdir()
    for name in ("converted/swap.onnx", "swap.onnx"):
        shutil.copy(ROOT / "models" / "gather_3_swap_columns.onnx", tmp_path / name)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, here(words, places))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert result.exit_code == 0, result.output
    assert result.output
