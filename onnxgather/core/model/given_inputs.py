"""The inputs of a model: the arrays of a file, checked against the model."""

from __future__ import annotations

import io
import lzma
import math
import zipfile
import zlib
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.lib import format as npy

from onnxgather.core.checks import listed, mapping, shown, suggestion
from onnxgather.core.descriptors.arrays import FAULTS_OF_NPY, Array, plain_array
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.files import got, reason
from onnxgather.core.model.network import Network
from onnxgather.core.model.values import ValueType, name_of_dtype

MOST_INPUTS_LISTED = 20
"""A message lists at most this many names."""

LARGEST_INPUTS = 2**30
"""The most bytes that the arrays of an .npz file may have in memory."""

_LONGEST_HEADER = 2**14
"""The most bytes that are read of an array in front of its elements; numpy refuses a
header of more than 10,000."""

_RULE = "must be an .npz file of arrays"

_NPZ = (b"PK\x03\x04", b"PK\x05\x06")
"""The first bytes of an .npz file, with arrays or without."""


class StoredArray(Struct, frozen=True):
    """An array in an .npz file, of which only the header has been read."""

    path: str
    """The .npz file."""
    member: str
    """The name of the array's file in it."""
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The bytes that the array takes in memory."""
        return math.prod(self.shape) * self.dtype.itemsize

    def read(self) -> Array:
        """Return the array.

        Raises:
            OnnxGatherError: The file cannot be read, or is damaged.
        """
        with (
            _reading_npz(self.path),
            zipfile.ZipFile(self.path) as archive,
            archive.open(self.member) as stream,
        ):
            return npy.read_array(stream, allow_pickle=False)


GivenArray = Array | StoredArray
"""An input of a model, as an array or in a file."""


def read_inputs(path: str) -> dict[str, GivenArray]:
    """Return the arrays of an .npz file, by their headers; nothing is unpacked.

    Raises:
        OnnxGatherError: The file cannot be read, or is no .npz file of arrays.
    """
    arrays: dict[str, GivenArray] = {}
    with _reading_npz(path), open(path, "rb") as stream:
        start = stream.read(100)
        if not start.startswith(_NPZ):
            kind = got(start, "an .npz") or ", got something else"
            raise OnnxGatherError(f"{path}: {_RULE}{kind}")
        with zipfile.ZipFile(stream) as archive:
            for member in archive.namelist():
                array = _stored_array(path, archive, member)
                arrays[member.removesuffix(".npy")] = array
    return arrays


def _stored_array(path: str, archive: zipfile.ZipFile, member: str) -> StoredArray:
    """Return an array of an .npz file, by its header."""
    with archive.open(member) as stream:
        start = io.BytesIO(stream.read(_LONGEST_HEADER))
    if not start.getvalue().startswith(npy.MAGIC_PREFIX):
        raise OnnxGatherError(f"{path}: {_RULE}, got {shown(member)} in it")
    dtype, shape = stored_type(start)
    if dtype.hasobject:
        raise OnnxGatherError(f"{path}: {_RULE} (it holds Python objects)")
    return StoredArray(path, member, dtype, shape)


def stored_type(stream: BinaryIO) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the data type and the shape in the header of an .npy file.

    A damaged header raises one of `FAULTS_OF_NPY`.
    """
    read_header = npy.read_array_header_2_0
    if npy.read_magic(stream) == (1, 0):
        read_header = npy.read_array_header_1_0
    shape, _, dtype = read_header(stream)
    return dtype, shape


@contextmanager
def _reading_npz(path: str) -> Generator[None]:
    """Turn what numpy and zipfile raise into an error that names the file."""
    try:
        yield
    except (OnnxGatherError, MemoryError):
        raise
    except OSError as error:
        raise OnnxGatherError(f"{path}: {reason(error)}") from None
    except (*FAULTS_OF_NPY, lzma.LZMAError, zipfile.BadZipFile, zlib.error) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise OnnxGatherError(f"{path}: {_RULE} ({why})") from None


def checked(
    network: Network, inputs: Mapping[str, GivenArray], inner: bool = False
) -> dict[str, Array]:
    """Return the inputs of a model as plain arrays of numpy, not of a subclass.

    An array in a file is read only after its header, and those of all other inputs,
    have been checked.

    Args:
        network: The model.
        inputs: The arrays, by name.
        inner: Whether any value of the main graph may be given, and every input may be
            left out.

    Raises:
        OnnxGatherError: An array is of no such value, or not of its type; or an input
            without a default is not given; or the arrays in a file exceed
            `LARGEST_INPUTS`.
    """
    arrays: dict[str, Array] = {}
    stored_arrays: dict[str, StoredArray] = {}
    for name, given in mapping("inputs", inputs).items():
        where = f"{network.path}: input {shown(name)}"
        is_inner = inner and name in network.main.types
        if isinstance(given, StoredArray):
            if not is_inner:
                _check_name(network, name)
            given = _of_declared_type(network.main.types[name], given)
            stored_arrays[name] = given
            _check_type(where, network.main.types[name], given)
            continue
        array = plain_array(f"{where} must be an array", given)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        arrays[name] = array
        if not is_inner:
            _check_name(network, name)
        _check_type(where, network.main.types[name], array)
    if not inner:
        _check_complete(network, {*arrays, *stored_arrays})
    # Memory need not hold too much of a file.
    total = 0
    for array in stored_arrays.values():
        total += array.nbytes
        if total > LARGEST_INPUTS:
            rule = f"its arrays must have at most {LARGEST_INPUTS:,} bytes"
            raise OnnxGatherError(f"{array.path}: {rule}, got more")
    for name, stored in stored_arrays.items():
        array = stored.read().view(stored.dtype)
        arrays[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    return arrays


def _of_declared_type(value_type: ValueType, array: StoredArray) -> StoredArray:
    """Return an array of bare bytes as one of the type that the model declares.

    An .npz file has no names of types such as BFLOAT16: numpy writes bare bytes.
    """
    declared = value_type.dtype
    is_bare = array.dtype.type is np.void and array.dtype.names is None
    if not is_bare or declared is None or declared.itemsize != array.dtype.itemsize:
        return array
    return replace(array, dtype=declared)


def _check_type(where: str, value_type: ValueType, array: GivenArray) -> None:
    """Check that an array has the type and the sizes of a value."""
    dtype = array.dtype.newbyteorder("=")
    has_type = value_type.data_type in ("", name_of_dtype(dtype))
    if not has_type or not value_type.admits(array.shape):
        array_type = f"{dtype} {[*array.shape]}"
        raise OnnxGatherError(f"{where} must be {value_type}, got {array_type}")


def _check_name(network: Network, name: str) -> None:
    """Check that a model has an input with a name."""
    names = network.main.inputs
    if name not in names:
        listed_names = listed([*map(shown, names)], MOST_INPUTS_LISTED)
        own = f"the model's inputs are {listed_names}{suggestion(name, names)}"
        rule = f"the given inputs hold {shown(name)}, but {own}"
        raise OnnxGatherError(f"{network.path}: {rule}")


def _check_complete(network: Network, arrays: Collection[str]) -> None:
    """Check that each input of a model without a default is given."""
    missing: list[str] = []
    for name in network.main.inputs:
        if name not in arrays and name not in network.main.defaults:
            missing.append(shown(name))
    if missing:
        rule = "the inputs must hold an array for each input of the model"
        names = listed(missing, MOST_INPUTS_LISTED)
        hint = "" if arrays else "; give --inputs FILE.npz"
        raise OnnxGatherError(f"{network.path}: {rule}, got none for {names}{hint}")
