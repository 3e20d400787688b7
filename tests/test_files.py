"""Files written whole or not at all, and what is no file; how a report is told."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import msgspec
import pytest

from onnxgather.cli.terminal import json_bytes
from onnxgather.errors import OnnxGatherError
from onnxgather.files import is_report, write_whole
from onnxgather.parity.results import Report

POSIX = pytest.mark.skipif(os.name == "nt", reason="makes pipes and opens devices of POSIX")


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
        reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
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
        with pytest.raises(OnnxGatherError) as caught:
            write_whole("/dev/full", b"content")
        assert str(caught.value) == "/dev/full: no space left on device"
        assert stat.S_ISCHR(os.stat("/dev/full").st_mode)

    def test_a_folder_is_kept(self, tmp_path: Path) -> None:
        with pytest.raises(OnnxGatherError) as caught:
            write_whole(str(tmp_path), b"content")
        assert str(caught.value) == f"{tmp_path}: is a directory"


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


@pytest.mark.parametrize(
    ("start", "is_one"),
    [
        (b'\xef\xbb\xbf {\r\n\t"onnxgather" : 1', True),
        (b'{"onnxgather":', True),
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
