"""Arrays between programs: texts, and data types that numpy lacks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from messages import message_of

from onnxgather.core.descriptors.arrays import Array, content_of
from onnxgather.core.execution import runtime

ARRAYS = {
    "texts": np.array([["a\0", "\n"], ["ü\U0001f600", ""]], object),
    "no texts": np.empty((0, 3), object),
    "a text": np.array("a", object),
    "bfloat16": np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16),
    "a bfloat16": np.array(3).astype(ml_dtypes.bfloat16),
    "float8": np.arange(6).astype(ml_dtypes.float8_e5m2),
    "4 bits": np.arange(6).astype(ml_dtypes.int4),
    "complex": np.arange(6).astype(np.complex64),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_comes_back_as_it_was(name: str) -> None:
    array = ARRAYS[name]
    blobs = bytearray(b"before")
    described = runtime.append_array(array, blobs)
    blobs += b"behind"
    back = runtime.array_at(described, bytes(blobs))
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert content_of(back) == content_of(array)


def test_an_environment_without_ml_dtypes_keeps_the_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(runtime, "import_module", absent)
    for name, size in (("bfloat16", 2), ("float8_e5m2", 1), ("int4", 1)):
        array = np.arange(4).astype(np.dtype(getattr(ml_dtypes, name)))
        blobs = bytearray()
        described = runtime.append_array(array, blobs)
        held = runtime.array_at(described, bytes(blobs))
        assert (held.dtype.names, held.itemsize, held.shape) == ((name,), size, (4,))
        again = bytearray()
        assert runtime.append_array(held, again) == described
        assert again == blobs


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[1, 2]\n", "an array of texts has other elements"),
        (b'["a", ["b"]]\n', "an array of texts has other elements"),
        (b'["a"]\n', "cannot reshape array of size 1 into shape (2,)"),
        (b'["a", "b"]', "subsection not found"),
    ],
)
def test_texts_that_are_none_are_refused(line: bytes, message: str) -> None:
    described = ["object", [2], 0]
    assert message_of(ValueError, runtime.array_at, described, line) == message


class Session:
    """A session of ONNX Runtime whose only node is an identity."""

    def run_with_ort_values(
        self, names: Any, values: dict[str, Any], options: Any
    ) -> list[Any]:
        del names, options
        return [*values.values()]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(3, 2).astype(ml_dtypes.bfloat16)[:, ::-1],
        np.empty((0, 2), ml_dtypes.bfloat16),
        np.array(3).astype(ml_dtypes.float8_e4m3fn),
        np.arange(6, dtype=np.float32),
    ],
    ids=["bfloat16", "empty", "float8", "float32"],
)
def test_onnx_runtime_is_given_the_bits(array: Array) -> None:
    import onnxruntime

    run = runtime._run_bits  # pyright: ignore[reportPrivateUsage]
    (back,) = run(onnxruntime, Session(), ["a"], {"a": array}, None)
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == array.tobytes()
