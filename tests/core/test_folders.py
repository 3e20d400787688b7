"""Folders written whole, and the files of others in them, which stay."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.folders import FolderKind

POSIX = pytest.mark.skipif(os.name == "nt", reason="makes links of POSIX")
KIND = FolderKind("thing", "it must be a thing, got {}", ("one", "two"), ("mark",))


class TestFolders:
    def test_a_path_that_is_opened_again_adds_to_its_file(self, tmp_path: Path) -> None:
        parts = [("two", b"a"), ("one/x/y", b"1"), ("two", b"b"), ("mark", b"")]
        KIND.write(str(tmp_path), iter(parts))
        assert (tmp_path / "two").read_bytes() == b"ab"
        assert (tmp_path / "one" / "x" / "y").read_bytes() == b"1"
        assert sorted(os.listdir(tmp_path)) == ["mark", "one", "two"]
        KIND.write(str(tmp_path), [("mark", b"new")])
        assert os.listdir(tmp_path) == ["mark"]
        assert (tmp_path / "mark").read_bytes() == b"new"

    @pytest.mark.parametrize("there", [False, True])
    def test_a_failure_leaves_nothing_behind(self, tmp_path: Path, there: bool) -> None:
        folder = tmp_path / "folder"
        if there:
            folder.mkdir()

        def broken() -> Iterator[tuple[str, bytes]]:
            yield "one", b"1"
            assert len(os.listdir(folder)) == 1
            raise OnnxGatherError("no more")

        with pytest.raises(OnnxGatherError, match=r"^no more$"):
            KIND.write(str(folder), broken())
        assert folder.exists() == there
        assert not list(tmp_path.rglob("*.partial"))

    @pytest.mark.parametrize("names", [["one"], ["mark", "three"], ["three"]])
    def test_a_folder_with_other_files_is_refused(
        self, tmp_path: Path, names: list[str]
    ) -> None:
        for name in [*names, ".onnxgather.1.partial"]:
            (tmp_path / name).touch()
        found = "one" if names == ["one"] else "three"
        with pytest.raises(OnnxGatherError) as caught:
            KIND.write(str(tmp_path), [("mark", b"")])
        assert str(caught.value) == f"{tmp_path}: it must be a thing, got '{found}'"
        assert len(os.listdir(tmp_path)) == len(names) + 1

    def test_an_empty_path_is_the_current_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "one").write_text("mine")
        monkeypatch.chdir(tmp_path)
        with pytest.raises(OnnxGatherError) as caught:
            KIND.write("", [("one", b"1"), ("mark", b"")])
        assert str(caught.value) == ".: it must be a thing, got 'one'"
        assert os.listdir(tmp_path) == ["one"]
        assert (tmp_path / "one").read_text() == "mine"

    @POSIX
    def test_a_folder_that_cannot_be_read_is_one_sentence(self, tmp_path: Path) -> None:
        loop = tmp_path / "loop"
        loop.symlink_to(loop)
        with pytest.raises(OnnxGatherError) as caught:
            KIND.check(str(loop))
        assert str(caught.value) == f"{loop}: too many levels of symbolic links"
