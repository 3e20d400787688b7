"""Files and folders written whole or not at all, and what is no file; how a report is
told."""

from __future__ import annotations

import io
import os
import re
import secrets
import stat
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from messages import message_of

from onnxgather.checking.folders import FolderKind
from onnxgather.checking.results import Report
from onnxgather.cli.terminal import json_bytes
from onnxgather.core import files
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.files import check_outside, is_report, replace_file, write_whole

POSIX = pytest.mark.skipif(
    os.name == "nt", reason="makes pipes and opens devices of POSIX"
)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forbid to replace a file, as that may be a device of this machine."""

    def replace(source: str, target: str) -> None:
        raise AssertionError(f"{target} must not be replaced")

    monkeypatch.setattr(os, "replace", replace)


@POSIX
@pytest.mark.usefixtures("kept")
class TestWhatIsNoFile:
    @pytest.mark.parametrize("link", [False, True])
    def test_a_pipe_is_written_to(self, tmp_path: Path, link: bool) -> None:
        pipe = path = tmp_path / "pipe"
        os.mkfifo(pipe)
        if link:
            path = tmp_path / "link"
            path.symlink_to(pipe)
        read: list[bytes] = []
        reader = threading.Thread(
            target=lambda: read.append(pipe.read_bytes()), daemon=True
        )
        reader.start()
        write_whole(str(path), b"content")
        reader.join(10)
        assert read == [b"content"]
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        assert path.is_symlink() == link

    def test_a_pipe_that_only_this_process_has(self) -> None:
        reading, writing = os.pipe()
        write_whole(f"/dev/fd/{writing}", b"content")
        assert os.read(reading, 20) == b"content"
        os.close(reading)
        os.close(writing)

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
    def test_a_full_device_is_one_sentence(self) -> None:
        assert message_of(OnnxGatherError, write_whole, "/dev/full", b"content") == (
            "/dev/full: no space left on device"
        )
        assert stat.S_ISCHR(os.stat("/dev/full").st_mode)

    def test_a_folder_is_never_replaced_by_a_file(self, tmp_path: Path) -> None:
        assert message_of(OnnxGatherError, write_whole, str(tmp_path), b"content") == (
            f"{tmp_path}: is a directory"
        )


@pytest.mark.parametrize("link", [False, True])
def test_a_file_is_replaced(tmp_path: Path, link: bool) -> None:
    file = path = tmp_path / "file"
    file.write_bytes(b"before, and longer")
    if link:
        path = tmp_path / "link"
        path.symlink_to(file)
    with file.open("rb") as earlier:
        write_whole(str(path), b"content")
        assert earlier.read() == b"before, and longer"
    assert file.read_bytes() == b"content"
    assert path.is_symlink() == link


@POSIX
def test_a_link_that_is_not_to_be_followed_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "precious").chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "precious")
    replace_file(str(link), [b"content"], follow=False)
    assert (link.read_bytes(), link.is_symlink()) == (b"content", False)
    assert (tmp_path / "precious").read_bytes() == b"precious"
    new = tmp_path / "new"
    new.touch()
    assert stat.S_IMODE(link.stat().st_mode) == stat.S_IMODE(new.stat().st_mode)


class Full(io.FileIO):
    """A file on a device that has room for ten bytes."""

    def writelines(self, lines: Iterable[Any], /) -> None:
        self.write(b"".join(lines)[:10])
        raise OSError(28, "No space left on device")


class TestWhatIsNotYetWhole:
    """Files and folders under a name of their own, until they are whole."""

    def test_parts_follow_one_another(self, tmp_path: Path) -> None:
        parts = [b"a", memoryview(b"bc"), b"", b"d"]
        files.write_pieces(str(tmp_path / "below" / "file"), parts)
        assert (tmp_path / "below" / "file").read_bytes() == b"abcd"

    @pytest.mark.parametrize("before", [None, b"before"])
    def test_a_failure_leaves_nothing_behind(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes | None
    ) -> None:
        file = tmp_path / "file"
        if before is not None:
            file.write_bytes(before)
        monkeypatch.setattr(files, "open", Full, raising=False)
        with pytest.raises(OSError, match="No space"):
            replace_file(str(file), [b"more than ten bytes"])
        assert (
            message_of(OnnxGatherError, write_whole, str(file), b"more than ten bytes")
            == f"{file}: no space left on device"
        )
        monkeypatch.undo()
        assert os.listdir(tmp_path) == ([] if before is None else ["file"])
        assert before is None or file.read_bytes() == before

    def test_an_interruption_leaves_nothing_behind(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_whole(str(tmp_path / "file"), b"content")
        with pytest.raises(KeyboardInterrupt):
            KIND.write(str(tmp_path / "folder"), [("mark", b"")])
        assert os.listdir(tmp_path) == []

    def test_two_writers_of_one_file_do_not_mix(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The second writer comes, writes and goes while the first one's file is not
        yet moved."""
        file, replace, names = tmp_path / "file", os.replace, list[str]()

        def late(source: str, target: str) -> None:
            names.append(os.path.basename(source))
            assert os.path.dirname(source) == str(tmp_path)
            if len(names) == 1:
                write_whole(str(file), b"second")
                assert file.read_bytes() == b"second"
            replace(source, target)

        monkeypatch.setattr(os, "replace", late)
        write_whole(str(file), b"the first")
        assert file.read_bytes() == b"the first"
        assert len(set(names)) == 2
        assert os.listdir(tmp_path) == ["file"]

    def test_names_cannot_be_foreseen(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        replace, names = os.replace, list[str]()

        def note(source: str, target: str) -> None:
            names.append(os.path.basename(source))
            replace(source, target)

        monkeypatch.setattr(os, "replace", note)
        for _ in range(100):
            write_whole(str(tmp_path / "file"), b"content")
        assert len(set(names)) == 100
        assert all(
            re.fullmatch(r"\.onnxgather\.[0-9a-f]{32}\.partial", name) for name in names
        )

    @POSIX
    def test_a_link_at_the_name_is_not_followed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(secrets, "token_hex", str)
        victim, link = tmp_path / "victim", tmp_path / ".onnxgather.16.partial"
        victim.write_bytes(b"kept")
        for target in (victim, tmp_path / "not there"):
            link.symlink_to(target)
            with pytest.raises(FileExistsError):
                replace_file(str(tmp_path / "file"), [b"content"])
            with pytest.raises(OnnxGatherError):
                KIND.write(str(tmp_path), [("mark", b"")])
            assert link.is_symlink()
            link.unlink()
        assert victim.read_bytes() == b"kept"
        assert os.listdir(tmp_path) == ["victim"]


@POSIX
class TestPermissions:
    @pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
    def test_a_new_file_has_those_of_any_file(self, tmp_path: Path, mask: int) -> None:
        before = os.umask(mask)
        try:
            write_whole(str(tmp_path / "below" / "file"), b"content")
            KIND.write(str(tmp_path / "folder"), [("mark", b"")])
        finally:
            os.umask(before)
        for path in ("below/file", "folder/mark"):
            file = tmp_path / path
            assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask
            assert stat.S_IMODE(file.parent.stat().st_mode) == 0o777 & ~mask

    @pytest.mark.parametrize("mode", [0o600, 0o444, 0o755])
    def test_an_earlier_file_keeps_its_own(self, tmp_path: Path, mode: int) -> None:
        file = tmp_path / "file"
        file.write_bytes(b"before")
        file.chmod(mode)
        write_whole(str(file), b"content")
        assert file.read_bytes() == b"content"
        assert stat.S_IMODE(file.stat().st_mode) == mode

    def test_a_file_is_never_open_to_more_than_the_earlier_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        modes: list[int] = []

        class Watched(io.FileIO):
            def writelines(self, lines: Iterable[Any], /) -> None:
                modes.append(stat.S_IMODE(os.fstat(self.fileno()).st_mode))
                super().writelines(lines)

        file = tmp_path / "file"
        file.touch(0o600)
        monkeypatch.setattr(files, "open", Watched, raising=False)
        write_whole(str(file), b"secret")
        assert modes == [0o600]


KIND = FolderKind("thing", "it must be a thing, got {}", ("one", "two"), ("mark",))


@pytest.mark.parametrize(
    ("start", "is_one"),
    [
        (b'\xef\xbb\xbf {\r\n\t"onnxgather" : 1', True),
        (b'{"onnxgather":', True),
        (b'{ "schema": 12, "onnxgather":', True),
        (b'{"schema": 1, "gathers": []}', False),
        (b'{"onnxgather"', False),
        (b'{"made": "now", "onnxgather": "0"}', False),
        (b'// {"onnxgather": 1}\n{}', False),
        (b"", False),
    ],
)
def test_a_report_is_told_by_its_start(start: bytes, is_one: bool) -> None:
    assert is_report(start) is is_one


def test_what_check_writes_starts_as_a_report() -> None:
    report = Report("0.1.0", "now", "here", (), [])
    for content in (json_bytes(report), msgspec.json.encode(report)):
        assert is_report(content[:40])


def test_an_input_in_a_folder_that_is_written_is_refused(tmp_path: Path) -> None:
    check_outside([None, str(tmp_path / "a")], str(tmp_path / "b"))
    for path in (tmp_path / "b" / "x" / "y", tmp_path / "b" / ".." / "b" / "z"):
        assert message_of(
            OnnxGatherError, check_outside, [str(path)], str(tmp_path / "b")
        ) == (f"{path} must be outside of {tmp_path / 'b'}, whose files are replaced")
