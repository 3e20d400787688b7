"""The inputs of a model: the arrays of a file, checked against the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxgather.core.checks import listed, mapping, shown, suggestion
from onnxgather.core.descriptors.arrays import Array, plain_array
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.files import got, reason
from onnxgather.core.model.network import Network
from onnxgather.core.model.values import type_name

MOST_INPUTS_LISTED = 20
"""A message lists at most this many names."""

_NPZ = (b"PK\x03\x04", b"PK\x05\x06")
"""The first bytes of an .npz file, with arrays or without."""


def read_inputs(path: str) -> dict[str, Array]:
    """Return the arrays of an .npz file.

    Raises:
        OnnxGatherError: The file cannot be read, or is no .npz file of arrays.
    """
    rule = f"{path}: must be an .npz file of arrays"
    arrays: dict[str, Any] = {}
    try:
        with open(path, "rb") as stream:
            start = stream.read(100)
            stream.seek(0)
            if start.startswith(_NPZ):
                arrays = dict(np.load(stream))
    except OSError as error:
        raise OnnxGatherError(f"{path}: {reason(error)}") from None
    except MemoryError:
        raise
    # zipfile and numpy raise whatever a broken file leads to.
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        if "allow_pickle" in why:
            why = "it holds Python objects"
        raise OnnxGatherError(f"{rule} ({why})") from None
    if not start.startswith(_NPZ):
        kind = got(start, "an .npz") or ", got something else"
        raise OnnxGatherError(f"{rule}{kind}")
    # numpy returns the bytes of other files in the archive.
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise OnnxGatherError(f"{rule}, got {shown(name)} in it")
    return arrays


def checked(
    network: Network, inputs: Mapping[str, Array], inner: bool = False
) -> dict[str, Array]:
    """Return the inputs of a model as plain arrays of numpy, not of a subclass.

    Args:
        network: The model.
        inputs: The arrays, by name.
        inner: Whether any value of the main graph may be given, and every input may be
            left out.

    Raises:
        OnnxGatherError: An array is of no such value, or not of its type; or an input
            without a default is not given.
    """
    arrays: dict[str, Array] = {}
    for name, given in mapping("inputs", inputs).items():
        where = f"{network.path}: input {shown(name)}"
        array = plain_array(f"{where} must be an array", given)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        arrays[name] = array
        if not (inner and name in network.main.types):
            _check_name(network, name)
        value_type = network.main.types[name]
        has_type = value_type.data_type in ("", type_name(array))
        if not has_type or not value_type.admits(array.shape):
            array_type = f"{array.dtype} {[*array.shape]}"
            raise OnnxGatherError(f"{where} must be {value_type}, got {array_type}")
    if not inner:
        _check_complete(network, arrays)
    return arrays


def _check_name(network: Network, name: str) -> None:
    """Check that a model has an input with a name."""
    names = network.main.inputs
    if name not in names:
        listed_names = listed([*map(shown, names)], MOST_INPUTS_LISTED)
        own = f"the model's inputs are {listed_names}{suggestion(name, names)}"
        rule = f"the given inputs hold {shown(name)}, but {own}"
        raise OnnxGatherError(f"{network.path}: {rule}")


def _check_complete(network: Network, arrays: Mapping[str, Array]) -> None:
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
