"""Python packages that have the plugin library of a provider."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from messages import message_of
from stub_runtime import environment

import onnxgather as og
from onnxgather.checking.lanes import check_paths
from onnxgather.checking.lanes.plugins import is_package, provider_of_plugin

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="the stand-in interpreter is a shell script"
)


def packaged(folder: Path, text: str) -> str:
    """Return an interpreter that has a package `ep_mine`.

    Args:
        folder: An empty folder.
        text: The package.
    """
    python = environment(folder)
    (folder / "site" / "ep_mine.py").write_text(text)
    return python


ONE = """
def get_library_path(): return "/lib/libmine.so"
def get_ep_name(): return "mine"
"""
TWO = f"""{ONE}
def get_ep_names(): return ["mine", "other"]
"""


@pytest.mark.parametrize(
    ("text", "lane", "plugin", "provider"),
    [
        (ONE, "ep_mine", "ep_mine", "mine"),
        (f"print('a banner'){ONE}", "ep-mine@GPU", "ep-mine", "mine"),
        (ONE, "yours", "ep_mine", "yours"),
        (TWO, "other@a", "ep_mine", "other"),
    ],
)
def test_a_package_says_where_its_library_is(
    tmp_path: Path, text: str, lane: str, plugin: str, provider: str
) -> None:
    python = packaged(tmp_path, text)
    found, library = provider_of_plugin(lane, plugin, python)
    assert (found.name, library) == (provider, "/lib/libmine.so")


def test_a_package_with_two_providers_needs_the_name_of_one(tmp_path: Path) -> None:
    python = packaged(tmp_path, TWO)
    assert (
        message_of(og.OnnxGatherError, provider_of_plugin, "ep_mine", "ep_mine", python)
        == "the provider of a plugin library must have a name of up to 81 letters,"
        " digits, _, . and -, a letter or digit first, got 'mine, other'; NAME=LIBRARY"
        " chooses it"
    )


@pytest.mark.parametrize(
    ("text", "plugin", "got"),
    [
        ("", "ep_none", "ModuleNotFoundError: No module named 'ep_none'"),
        (
            "def get_ep_name(): return 'mine'",
            "ep_mine",
            "AttributeError: module 'ep_mine' has no attribute 'get_library_path'",
        ),
        ("raise OSError('no library')", "ep_mine", "OSError: no library"),
        ("import os; os._exit(0)", "ep_mine", "no answer"),
        ("import atexit; atexit.register(print, '[]')", "ep_mine", "no answer"),
    ],
)
def test_a_package_without_a_library_is_refused(
    tmp_path: Path, text: str, plugin: str, got: str
) -> None:
    python = packaged(tmp_path, text)
    assert (
        message_of(og.OnnxGatherError, provider_of_plugin, plugin, plugin, python)
        == f"the package {plugin!r} of {python} must have get_library_path() and"
        f" get_ep_name(), got {got!r}; NAME=LIBRARY names a library itself"
    )


def test_a_file_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_package("onnxruntime_qnn")
    assert is_package("onnxruntime-ep-webgpu")
    assert not is_package("libmy.so")
    assert not is_package("lib/my")
    Path("libmy").touch()
    assert not is_package("libmy")
    check_paths("plugin", ["libmy", "ep_mine"])
    assert (
        message_of(og.OnnxGatherError, check_paths, "plugin", ["no.so"])
        == "'no.so': no such file or directory"
    )
