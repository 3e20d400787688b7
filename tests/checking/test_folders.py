"""Folders written whole, and the files of others in them, which stay."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from messages import message_of

from onnxgather.checking.folders import SUMS, FolderKind
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.replacing import check_replaceable

POSIX = pytest.mark.skipif(os.name == "nt", reason="makes links of POSIX")
KIND = FolderKind("thing", "it must be a thing, got {}", ("one", "two"), ("mark",))


def test_a_path_that_is_opened_again_adds_to_its_file(tmp_path: Path) -> None:
    parts = [("two", b"a"), ("one/x/y", b"1"), ("two", b"b"), ("mark", b"")]
    KIND.write(str(tmp_path), iter(parts))
    assert (tmp_path / "two").read_bytes() == b"ab"
    assert (tmp_path / "one" / "x" / "y").read_bytes() == b"1"
    assert sorted(os.listdir(tmp_path)) == ["SHA256SUMS", "mark", "one", "two"]
    KIND.write(str(tmp_path), [("mark", b"new")])
    assert sorted(os.listdir(tmp_path)) == ["SHA256SUMS", "mark"]
    assert (tmp_path / "mark").read_bytes() == b"new"


@pytest.mark.parametrize("there", [False, True])
def test_a_failure_leaves_nothing_behind(tmp_path: Path, there: bool) -> None:
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
def test_a_folder_with_other_files_is_refused(tmp_path: Path, names: list[str]) -> None:
    for name in [*names, ".onnxgather.1.partial"]:
        (tmp_path / name).touch()
    found = "one" if names == ["one"] else "three"
    assert (
        message_of(OnnxGatherError, KIND.write, str(tmp_path), [("mark", b"")])
        == f"{tmp_path}: it must be a thing, got '{found}'"
    )
    assert len(os.listdir(tmp_path)) == len(names) + 1


def test_an_empty_path_is_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").write_text("mine")
    monkeypatch.chdir(tmp_path)
    assert (
        message_of(OnnxGatherError, KIND.write, "", [("one", b"1"), ("mark", b"")])
        == ".: it must be a thing, got 'one'"
    )
    assert os.listdir(tmp_path) == ["one"]
    assert (tmp_path / "one").read_text() == "mine"


@POSIX
def test_a_folder_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert (
        message_of(OnnxGatherError, KIND.check, str(loop))
        == f"{loop}: too many levels of symbolic links"
    )


PARTS = [("one/a", b"1"), ("one/b/c", b"2"), ("two", b"3"), ("mark", b"4")]
NEW_PARTS = [("one/a", b"5"), ("mark", b"6")]


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder, but for the list of digests."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != SUMS
    }


def refusal(folder: Path) -> str:
    """Return why a folder is not written anew, which then is as it was."""
    before = contents(folder)
    with pytest.raises(OnnxGatherError) as checked:
        KIND.check(str(folder))
    with pytest.raises(OnnxGatherError) as caught:
        KIND.write(str(folder), NEW_PARTS)
    assert contents(folder) == before
    assert not list(folder.rglob("*.partial"))
    assert str(checked.value) == str(caught.value)
    return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the kind."""
    folder = tmp_path / "folder"
    KIND.write(str(folder), PARTS)
    return folder


def test_the_digests_are_those_that_sha256sum_writes(folder: Path) -> None:
    head, *lines = (folder / SUMS).read_text().splitlines()
    assert head.startswith("# Written by onnxgather ")
    assert lines == [
        f"{sha256(content).hexdigest()}  {path}" for path, content in sorted(PARTS)
    ]
    check_replaceable(str(folder / SUMS))


@pytest.mark.parametrize("path", ["one/a", "one/b/c", "two", "mark"])
def test_a_file_that_was_changed_is_kept(folder: Path, path: str) -> None:
    (folder / path).write_bytes(b"mine")
    changed = "as somebody changed it since onnxgather wrote it"
    wanted = f"{folder / path} must not be replaced, {changed}; --force replaces it"
    assert refusal(folder) == wanted
    KIND.write(str(folder), NEW_PARTS, force=True)
    assert contents(folder) == dict(NEW_PARTS)
    KIND.write(str(folder), NEW_PARTS)


@pytest.mark.parametrize("path", ["one/note", "one/b/note", "one/new/note"])
def test_a_file_of_others_stays(folder: Path, path: str) -> None:
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_bytes(b"mine")
    rule = f"{folder / path} must not be in an earlier thing"
    assert refusal(folder) == (
        f"{rule}, as the thing did not write it; --force leaves it there"
    )
    for _ in range(2):
        KIND.write(str(folder), NEW_PARTS, force=True)
        assert contents(folder) == {path: b"mine", **dict(NEW_PARTS)}


def test_the_first_of_several_files_is_named(folder: Path) -> None:
    for path in ("one/z", "two", "one/b/d"):
        (folder / path).write_bytes(b"mine")
    assert refusal(folder).startswith(f"{folder}/one/b/d must not be in an earlier")


def test_a_file_of_others_is_not_replaced_by_force(folder: Path) -> None:
    KIND.write(str(folder), NEW_PARTS)
    for path in ("two", "one/b"):
        (folder / path).write_bytes(b"mine")
        before = contents(folder)
        assert message_of(
            OnnxGatherError, KIND.write, str(folder), PARTS, force=True
        ) == (f"{folder / path} must not be replaced, as the thing did not write it")
        assert contents(folder) == before
        (folder / path).unlink()


@POSIX
@pytest.mark.parametrize("path", ["one", "one/a", "two", "one/link"])
def test_a_link_is_kept_with_its_target(
    folder: Path, tmp_path: Path, path: str
) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "a").write_bytes(b"1")
    link = folder / path
    if path == "one":
        shutil.rmtree(link)
    else:
        link.unlink(missing_ok=True)
    link.symlink_to(target)
    assert "must not be in an earlier thing, as the thing" in refusal(folder)
    is_in_the_way = path in ("one", "one/a")
    if is_in_the_way:
        with pytest.raises(OnnxGatherError, match="must not be replaced"):
            KIND.write(str(folder), NEW_PARTS, force=True)
    else:
        KIND.write(str(folder), NEW_PARTS, force=True)
        assert (folder / "mark").read_bytes() == b"6"
    assert link.is_symlink()
    assert (target / "a").read_bytes() == b"1"


@POSIX
def test_a_pipe_is_no_file_of_ours(folder: Path) -> None:
    (folder / "two").unlink()
    os.mkfifo(folder / "two")
    assert "two must not be in an earlier thing" in refusal(folder)
    KIND.write(str(folder), NEW_PARTS, force=True)
    assert stat.S_ISFIFO((folder / "two").stat().st_mode)


@pytest.mark.parametrize("content", ["", "mine", None])
def test_without_its_digests_a_folder_is_of_others(
    folder: Path, content: str | None
) -> None:
    (folder / SUMS).unlink()
    if content is None:
        wanted = f"{folder}: it must be a thing, got 'mark'"
    else:
        (folder / SUMS).write_text(content)
        wanted = (
            f"{folder / 'mark'} must not be in an earlier thing, as the thing did"
            " not write it; --force leaves it there"
        )
    if content:
        wanted = (
            f"{folder / SUMS} must not be replaced, as onnxgather did not write it;"
            " --force replaces it"
        )
    assert refusal(folder) == wanted


def test_a_changed_list_of_digests_is_kept(folder: Path) -> None:
    with open(folder / SUMS, "a") as stream:
        stream.write("# a remark of mine\n")
    assert refusal(folder) == (
        f"{folder / SUMS} must not be replaced, as somebody changed it since"
        " onnxgather wrote it; --force replaces it"
    )
    KIND.write(str(folder), NEW_PARTS, force=True)
    assert contents(folder) == dict(NEW_PARTS)


def test_a_file_that_comes_during_the_work_stays(folder: Path) -> None:
    def parts() -> Iterator[tuple[str, bytes]]:
        yield from NEW_PARTS
        (folder / "one" / "note").write_bytes(b"mine")

    with pytest.raises(OnnxGatherError, match="note must not be in an earlier"):
        KIND.write(str(folder), parts())
    assert contents(folder) == {**dict(PARTS), "one/note": b"mine"}


def test_a_failure_amid_moving_leaves_the_files_of_others_where_they_were(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "one" / "note").write_bytes(b"mine")
    before = contents(folder)
    replace = os.replace
    moves_before = 0

    def fail(source: Path, target: Path) -> None:
        nonlocal moves_before
        moves_before -= 1
        if moves_before == -1:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    # 4 names go aside, 3 come, and the note goes where it was.
    for number in range(8):
        moves_before = number
        assert (
            message_of(OnnxGatherError, KIND.write, str(folder), NEW_PARTS, force=True)
            == f"{folder}: no space left on device"
        )
        assert contents(folder) == before
