"""The inputs of a model: the arrays of a file, checked against the model."""

from __future__ import annotations

import ast
import math
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from messages import message_of
from onnx_gathers import OnnxGather, write_gather
from onnx_texts import model_of as written
from short_descriptors import ascending

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model import given_inputs
from onnxgather.core.model.given_inputs import (
    GivenArray,
    StoredArray,
    checked,
    read_inputs,
)
from onnxgather.core.model.network import Network, read_network

DATA = ascending("FLOAT32 5x4")
IDS = np.array([3, 1, 0])

BOMB = """
import re, sys
from pathlib import Path
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.given_inputs import checked, read_inputs
from onnxgather.core.model.network import read_network

def peak():
    status = Path("/proc/self/status").read_text()
    return int(re.search("VmHWM:.*?([0-9]+)", status)[1])

network = read_network(sys.argv[1])
before = peak()
try:
    checked(network, read_inputs(sys.argv[2]))
except OnnxGatherError as error:
    print(error)
print(peak() - before)
"""
"""A program that prints why inputs are refused, and by how many KiB its memory
grew."""


class TestInputs:
    def test_inputs_are_read_by_name(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "x.npz", a=DATA, b=IDS)
        found = read_inputs(str(tmp_path / "x.npz"))
        assert {name: read(array).tolist() for name, array in found.items()} == {
            "a": DATA.tolist(),
            "b": IDS.tolist(),
        }

    def test_bare_bytes_are_of_the_type_that_the_model_declares(
        self, tmp_path: Path
    ) -> None:
        gather = OnnxGather(
            "Gather", {"axis": 0}, np.ones(2, ml_dtypes.bfloat16), IDS, ""
        )
        write_gather(tmp_path, "m", gather)
        path = str(tmp_path / "m.onnx")
        network = read_network(path)
        half = np.array([1.5, -2], ml_dtypes.bfloat16)
        np.savez(tmp_path / "x.npz", data=half, ids=IDS)
        given = read_inputs(str(tmp_path / "x.npz"))
        assert given["data"].dtype == np.dtype("V2")
        found = checked(network, given)["data"]
        assert (found.dtype, found.tolist()) == (half.dtype, half.tolist())
        np.savez(tmp_path / "x.npz", data=np.zeros(2, "V4"), ids=IDS)
        given = read_inputs(str(tmp_path / "x.npz"))
        assert message_of(OnnxGatherError, checked, network, given) == (
            f"{path}: input 'data' must be BFLOAT16 [2], got |V4 [2]"
        )

    def test_a_file_that_is_no_npz_file_of_arrays_is_refused(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "x.npz"
        objects: Any = np.array([{}], object)
        assert message_of(OnnxGatherError, read_inputs, str(path)) == (
            f"{path}: no such file or directory"
        )
        with path.open("wb") as file:
            np.save(file, DATA)
        assert message_of(OnnxGatherError, read_inputs, str(path)) == (
            f"{path}: must be an .npz file of arrays, got an .npy file, which a"
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
        message = message_of(OnnxGatherError, read_inputs, str(path))
        rule = f"{path}: must be an .npz file of arrays"
        assert message.startswith(rule)
        return message.removeprefix(rule)


def read(array: GivenArray) -> Array:
    """Return an array of a file."""
    assert isinstance(array, StoredArray)
    return array.read()


def network_of(tmp_path: Path) -> Network:
    """Return a model with the inputs `data`, [?, 4], and `ids`, [3]."""
    return read_network(str(model_of(tmp_path)))


def model_of(tmp_path: Path) -> Path:
    """Write a model with the inputs `data`, [?, 4], and `ids`, [3]."""
    nodes = "y = Gather (data, ids)"
    model = written(f"g (float[n,4] data, int64[3] ids) => (float y) {{ {nodes} }}")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def member(archive: zipfile.ZipFile, name: str, dtype: str, shape: str) -> None:
    """Write an array of zeros, as many as a header says, and pack them."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}"
    text = header.encode().ljust(117) + b"\n"
    with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
        stream.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
        left = math.prod(ast.literal_eval(shape)) * np.dtype(dtype).itemsize
        while left:
            part = min(left, 2**24)
            stream.write(bytes(part))
            left -= part


class TestMembers:
    """The inputs in a file are checked by their headers."""

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            (
                {"data": DATA, "ids": IDS, "idx": IDS},
                "{model}: the given inputs hold 'idx', but the model's inputs are"
                " 'data', 'ids'",
            ),
            (
                {"data": DATA, "ids": IDS.astype(np.float32)},
                "{model}: input 'ids' must be INT64 [3], got float32 [3]",
            ),
            (
                {"data": DATA[:, :3], "ids": IDS},
                "{model}: input 'data' must be FLOAT [?, 4], got float32 [5, 3]",
            ),
            (
                {"data": DATA},
                "{model}: the inputs must hold an array for each input of the model,"
                " got none for 'ids'",
            ),
        ],
    )
    def test_a_member_that_the_model_does_not_take_is_never_unpacked(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        arrays: dict[str, Array],
        message: str,
    ) -> None:
        network = network_of(tmp_path)
        path = tmp_path / "x.npz"
        np.savez(path, allow_pickle=False, **arrays)
        monkeypatch.setattr(StoredArray, "read", None)
        assert message_of(
            OnnxGatherError, checked, network, read_inputs(str(path))
        ) == (message.format(model=network.path))

    def test_members_have_a_limit_together(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        network = network_of(tmp_path)
        path = tmp_path / "x.npz"
        np.savez(path, data=DATA, ids=IDS)
        size = DATA.nbytes + IDS.nbytes
        monkeypatch.setattr(given_inputs, "LARGEST_INPUTS", size)
        arrays = checked(network, read_inputs(str(path)))
        assert arrays["data"].tolist() == DATA.tolist()
        assert arrays["ids"].tolist() == IDS.tolist()
        monkeypatch.setattr(given_inputs, "LARGEST_INPUTS", size - 1)
        monkeypatch.setattr(StoredArray, "read", None)
        rule = f"its arrays must have at most {size - 1} bytes, got more"
        stored = read_inputs(str(path))
        assert message_of(OnnxGatherError, checked, network, stored) == (
            f"{path}: {rule}"
        )

    def test_other_byte_orders_are_read(self, tmp_path: Path) -> None:
        path = tmp_path / "x.npz"
        np.savez(path, data=DATA.astype(">f4"), ids=np.asfortranarray(IDS))
        arrays = checked(network_of(tmp_path), read_inputs(str(path)))
        assert arrays["data"].dtype == np.dtype("=f4")
        assert arrays["data"].tolist() == DATA.tolist()

    def test_a_member_that_is_damaged_behind_its_header_is_refused(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "x.npz"
        np.savez(path, data=DATA, ids=IDS)
        content = path.read_bytes()
        path.write_bytes(content.replace(DATA.tobytes(), DATA.tobytes()[::-1]))
        message = message_of(OnnxGatherError, read_inputs, str(path))
        why = "Bad CRC-32 for file 'data.npy'"
        assert message == f"{path}: must be an .npz file of arrays ({why})"

    def test_a_long_header_is_not_unpacked(self, tmp_path: Path) -> None:
        path = tmp_path / "x.npz"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            start = b"\x93NUMPY\x02\x00" + (2**31).to_bytes(4, "little")
            archive.writestr("a.npy", start + b" " * 2**20)
        why = "EOF: reading array header, expected 2147483648 bytes got 16372"
        message = message_of(OnnxGatherError, read_inputs, str(path))
        assert message == f"{path}: must be an .npz file of arrays ({why})"

    @pytest.mark.slow  # it packs 1.1 GB of zeros
    @pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
    def test_a_small_file_of_much_takes_little_memory(self, tmp_path: Path) -> None:
        model = model_of(tmp_path)
        path = tmp_path / "x.npz"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            member(archive, "data", "<f4", "(70_000_000, 4)")
            member(archive, "ids", "<i8", "(3,)")
        assert path.stat().st_size < 2_100_000
        words = [sys.executable, "-c", BOMB, str(model), str(path)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        message, grown = done.stdout.splitlines()
        rule = "its arrays must have at most 1,073,741,824 bytes, got more"
        assert message == f"{path}: {rule}"
        assert int(grown) < 16 * 1024
