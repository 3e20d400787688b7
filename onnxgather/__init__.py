"""Translates DirectML's gather operators to ONNX models, runs them with ONNX Runtime, and proves that they return the same bytes.

A descriptor has the fields of its C struct, here of `DML_GATHER_OPERATOR_DESC`:

    >>> import numpy as np
    >>> import onnxgather as og
    >>> desc = og.GatherDesc(
    ...     input_tensor=og.TensorDesc("FLOAT32", [3, 2]),
    ...     indices_tensor=og.TensorDesc("UINT32", [1, 4]),
    ...     output_tensor=og.TensorDesc("FLOAT32", [4, 2]),
    ...     axis=0, index_dimensions=1)
    >>> model = og.to_onnx(desc)  # an onnx.ModelProto
    >>> data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    >>> og.run(desc, data, np.array([[0, 1, 1, 2]], np.uint32))
    array([[1., 2.],
           [3., 4.],
           [3., 4.],
           [5., 6.]], dtype=float32)

`to_onnx`, `program_to_onnx` and `to_webnn` translate; `load` reads DxDispatch programs.
`certify` proves a model for every index, `check` compares the bytes of providers, and
`reference` is DirectML's formula. `audit` and `harden` are for ONNX models of your own.

`Descriptor` is the union of the four descriptors, `OPERATORS` has them by the names of
their operators. `OutOfRange` is the names of what an index out of range does. `Target`
and `ProvedTarget` are the names of what models are made for, `WebnnForm` those of the
forms of WebNN programs.

In the examples of all names `np` is numpy and `og` is onnxgather, and the folder is the
root of the checkout.
"""  # noqa: E501

from __future__ import annotations

from importlib import import_module
from itertools import pairwise


def _read_modules() -> dict[str, str]:
    """Return the module of each public name, as the stub beside this file has them.

    numpy, onnx and onnxruntime take longer to import than all else together, and a
    caller needs only some of the names: so each is imported at its first use.
    """
    stub: bytes = __spec__.loader.get_data(f"{__path__[0]}/__init__.pyi")
    modules: dict[str, str] = {}
    for statement in stub.decode().split("\nfrom ")[1:]:
        module, _, names = statement.partition(" import ")
        words = names.replace(",", " ").split()
        for before, name in pairwise(words):
            if before == "as":
                modules[name] = module
    return modules


_MODULES = _read_modules()

__all__ = [name for name in sorted(_MODULES) if name != "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value  # so that the next use does not come here
    return value


def __dir__() -> list[str]:
    """Return the public names, though each is imported at its first use."""
    return sorted(_MODULES)
