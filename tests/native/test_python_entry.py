"""The Python module of the kernels takes no gather and no array that leads outside
memory."""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
from ast import literal_eval
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import message_of, rows_of
from rings import by_ring

from onnxgather.core.execution import kernels

FOLDER = Path(__file__).parent
MODULE: Any = kernels.python_kernels()
pytestmark = pytest.mark.skipif(
    MODULE is None, reason="the native kernels are not built"
)


def numbers(**changed: Any) -> bytes:
    """Return the numbers of a gather of 3 FLOAT32 of 6 at UINT32 indices, some of them
    changed."""
    fields: dict[str, list[int]] = {
        "element_size": [4],
        "index_type": [0],
        "policy": [0],
        "loop_count": [1],
        "tuple_size": [1],
        "sizes": [3, *[0] * 7],
        "data_strides": [0] * 8,
        "index_strides": [1, *[0] * 7],
        "output_strides": [1, *[0] * 7],
        "tuple_stride": [0],
        "axis_sizes": [6, *[0] * 7],
        "axis_strides": [1, *[0] * 7],
        "counts": [6, 3, 3],
        "reachable_count": [6],
    }
    flat = [number for each in (fields | changed).values() for number in each]
    return struct.pack(f"={len(flat)}Q", *flat)


FLOAT32, UINT32 = np.dtype(np.float32), np.dtype(np.uint32)
TYPES = (FLOAT32, UINT32, FLOAT32)


def made(packed: bytes, types: Any = TYPES, shapes: Any = ((6,), (3,), (3,))) -> Any:
    """Return the gather of numbers."""
    return MODULE.Gather(np.ndarray, packed, types, shapes, 1)


def test_a_gather_of_numbers_says_what_became_of_three_arrays() -> None:
    data, out = np.arange(6, dtype=np.float32), np.zeros(3, np.float32)
    indices = np.array([5, 0, 9], np.uint32)
    assert made(numbers()).run(data, indices, out) is True
    assert out.tolist() == [5, 0, 5]
    assert made(numbers(policy=[1])).run(data, indices, out) is False
    assert made(numbers()).run(data, out, indices) is None


CHANGES: list[Callable[[Any], Any]] = [
    lambda array: pickle.loads(pickle.dumps(array)),
    lambda array: array.astype(array.dtype.newbyteorder()),
    lambda array: array.reshape(-1, 1),
    lambda array: array[0],
    lambda array: np.asarray(array[0]),
    lambda array: array[:0],
    lambda array: np.repeat(array, 2)[::2],
    lambda array: array.view(np.recarray),
    memoryview,
    list,
]
"""What makes an array one that the kernel does not read."""


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("place", range(3))
def test_an_array_that_is_not_as_the_kernel_reads_it_is_refused(
    change: Callable[[Any], Any], place: int
) -> None:
    arrays: list[Any] = [np.arange(6, dtype=np.float32), np.zeros(3, np.uint32)]
    arrays.append(np.zeros(3, np.float32))
    assert made(numbers()).run(*arrays) is True
    arrays[place] = change(arrays[place])
    assert made(numbers()).run(*arrays) is None


def test_an_output_that_cannot_be_written_is_refused() -> None:
    data, out = np.arange(6, dtype=np.float32), np.zeros(3, np.float32)
    out.flags.writeable = False
    assert made(numbers()).run(data, np.zeros(3, np.uint32), out) is None


NO_GATHERS = """
{"counts": [5, 3, 3]}
axis_strides must lead to elements of InputTensor

{"counts": [6, 3]}
numbers must be of one gather

{"policy": [4]}
policy must be a number below 4

{"loop_count": [4294967297]}
the first five numbers must be below 2^32

{"shapes": ((6,), (2,), (3,))}
a shape must have as many elements as the gather counts

{"shapes": ((6,), (3,), (-3,))}
a shape must have as many elements as the gather counts

{"shapes": ((6,), (3,), (4611686018427387904, 4611686018427387904))}
a shape must have as many elements as the gather counts

{"shapes": ((6,), (3,), ("3",))}
a shape must have as many elements as the gather counts

{"shapes": ((6,), (3,), ())}
a shape must have 1 to 8 sizes

{"shapes": ((6,), (3,), (1, 1, 1, 1, 1, 1, 1, 1, 1))}
a shape must have 1 to 8 sizes
"""
"""The numbers or the shapes that are changed, and the message."""
A_TYPE = "a type must have elements of the gather's size"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *((literal_eval(change), message) for change, message in rows_of(NO_GATHERS)),
        ({"types": (FLOAT32, np.dtype(np.uint8), FLOAT32)}, A_TYPE),
        ({"types": (FLOAT32, UINT32, "float32")}, A_TYPE),
    ],
)
def test_numbers_that_are_no_gather_are_refused(
    change: dict[str, Any], message: str
) -> None:
    rest = {key: value for key, value in change.items() if key in ("shapes", "types")}
    changed = {key: value for key, value in change.items() if key not in rest}
    assert message_of(ValueError, made, numbers(**changed), **rest) == message


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (b"", b""),
        (np.ndarray, "text", TYPES, ((1,), (1,), (1,)), 1),
        (np.ndarray, b"", TYPES[:2], ((1,), (1,), (1,)), 1),
        (np.ndarray, b"", TYPES, ((1,), (1,), [1]), 1),
        ("numpy", b"", TYPES, 1, 1),
    ],
)
def test_other_arguments_are_type_errors(arguments: Any) -> None:
    with pytest.raises(TypeError):
        MODULE.Gather(*arguments)
    with pytest.raises(TypeError, match="run takes three arrays"):
        made(numbers()).run()


def test_random_calls_end_in_errors_or_right_answers() -> None:
    """A process of its own makes them, which a crash ends."""
    count = by_ring(500, 2_000)
    fuzzer = str(FOLDER / "fuzz_python_entry.py")
    command = [sys.executable, fuzzer, str(count), "7"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"of {count // 2} each, ")
