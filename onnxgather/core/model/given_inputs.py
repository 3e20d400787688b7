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
"""The most names that a message lists."""

_NPZ = (b"PK\x03\x04", b"PK\x05\x06")
"""The first bytes of an .npz file, with arrays or without."""


def read_inputs(path: str) -> dict[str, Array]:
    """The arrays of an .npz file.

    Raises:
        OnnxGatherError: The file cannot be read, or is no .npz file of arrays.
    """
    rule = f"{path}: must be an .npz file of arrays"
    try:
        with open(path, "rb") as stream:
            start = stream.read(100)
            stream.seek(0)
            arrays = dict[str, Any](np.load(stream) if start.startswith(_NPZ) else {})
    except OSError as error:
        raise OnnxGatherError(f"{path}: {reason(error)}") from None
    except MemoryError:
        raise
    except (
        Exception
    ) as error:  # zipfile and numpy raise whatever a broken file leads to
        why = " ".join(str(error).split()) or type(error).__name__
        why = "it holds Python objects" if "allow_pickle" in why else why
        raise OnnxGatherError(f"{rule} ({why})") from None
    if not start.startswith(_NPZ):
        raise OnnxGatherError(
            f"{rule}{got(start, 'an .npz') or ', got something else'}"
        )
    for name, array in arrays.items():
        if not isinstance(
            array, np.ndarray
        ):  # the bytes of another file in the archive
            raise OnnxGatherError(f"{rule}, got {shown(name)} in it")
    return arrays


def checked(
    network: Network, inputs: Mapping[str, Array], inner: bool = False
) -> dict[str, Array]:
    """The arrays that a model is given, without what subclasses of numpy's array add.

    Args:
        network: The model.
        inputs: The arrays, by name.
        inner: Whether any value of the main graph may be given, and every input left out.

    Raises:
        OnnxGatherError: An array is of no such value, or not of its type; or an input that has no
            default is not given.
    """
    given, where = dict[str, Array](), network.path
    for name, found in mapping("inputs", inputs).items():
        array = plain_array(f"{where}: input {shown(name)} must be an array", found)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        given[name] = array
        names = network.main.inputs
        if not (inner and name in network.main.types) and name not in names:
            own = listed([*map(shown, names)], MOST_INPUTS_LISTED) + suggestion(
                name, names
            )
            told = (
                f"the given inputs hold {shown(name)}, but the model's inputs are {own}"
            )
            raise OnnxGatherError(f"{where}: {told}")
        known = network.main.types[name]
        if not known.admits(array.shape) or known.data_type not in (
            "",
            type_name(array),
        ):
            found = f"{array.dtype} {[*array.shape]}"
            raise OnnxGatherError(
                f"{where}: input {shown(name)} must be {known}, got {found}"
            )
    known = {*given, *network.main.defaults, *(network.main.inputs if inner else ())}
    missing = [shown(name) for name in network.main.inputs if name not in known]
    if missing:
        rule = f"{where}: the inputs must hold an array for each input of the model"
        more = "" if given else "; give --inputs FILE.npz"
        raise OnnxGatherError(
            f"{rule}, got none for {listed(missing, MOST_INPUTS_LISTED)}{more}"
        )
    return given
