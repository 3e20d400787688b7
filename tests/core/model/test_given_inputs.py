"""The inputs of a model: the arrays of a file, checked against the model."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.given_inputs import read_inputs

DATA = np.arange(20, dtype=np.float32).reshape(5, 4)
IDS = np.array([3, 1, 0])


class TestInputs:
    def test_inputs_are_read_by_name(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "x.npz", a=DATA, b=IDS)
        found = read_inputs(str(tmp_path / "x.npz"))
        assert {name: array.tolist() for name, array in found.items()} == {
            "a": DATA.tolist(),
            "b": IDS.tolist(),
        }

    def test_a_file_that_is_no_npz_file_of_arrays_is_refused(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "x.npz"
        objects: Any = np.array([{}], object)
        with pytest.raises(OnnxGatherError) as caught:
            read_inputs(str(path))
        assert str(caught.value) == f"{path}: no such file or directory"
        with path.open("wb") as file:
            np.save(file, DATA)
        with pytest.raises(OnnxGatherError) as caught:
            read_inputs(str(path))
        assert (
            str(caught.value)
            == f"{path}: must be an .npz file of arrays, got an .npy file, which a"
            " DxDispatch program names by sourcePath"
        )
        np.savez(path, objects, allow_pickle=True)
        assert self.refusal(path) == " (it holds Python objects)"
        for content, found in ((b"PK no", "something else"), (b"", "an empty file")):
            path.write_bytes(content)
            assert self.refusal(path) == f", got {found}"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("read.me", "text")
        assert self.refusal(path) == ", got 'read.me' in it"

    @pytest.mark.parametrize(
        ("place", "content", "why"),
        [
            ((8, 10), b"\x61\x00", " (That compression method is not supported)"),
            (
                (6, 8),
                b"\x01\x00",
                " (File 'a.npy' is encrypted, password required for extraction)",
            ),
            (
                (60, None),
                b"\xff" * 9,
                " (Error -3 while decompressing data: invalid code lengths set)",
            ),
            ((0, 0), b"PK\x03\x04", " (Bad magic number for central directory)"),
        ],
    )
    def test_a_damaged_npz_file_is_refused(
        self, tmp_path: Path, place: tuple[int, int | None], content: bytes, why: str
    ) -> None:
        path = tmp_path / "x.npz"
        np.savez_compressed(path, a=np.arange(1000.0))
        broken = bytearray(path.read_bytes())
        for start, offset in zip((0, broken.index(b"PK\x01\x02")), place, strict=True):
            if offset is not None:
                broken[start + offset : start + offset + len(content)] = content
        path.write_bytes(broken)
        assert self.refusal(path) == why

    def test_an_npz_file_that_is_cut_short_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "x.npz"
        np.savez(path, a=DATA)
        path.write_bytes(path.read_bytes()[:-30])
        assert self.refusal(path) == " (File is not a zip file)"

    def refusal(self, path: Path) -> str:
        """Return what is said of a file behind the rule."""
        with pytest.raises(OnnxGatherError) as caught:
            read_inputs(str(path))
        rule = f"{path}: must be an .npz file of arrays"
        assert str(caught.value).startswith(rule)
        return str(caught.value).removeprefix(rule)
