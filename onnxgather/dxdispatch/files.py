"""The files that a program names: where they may be, and what a source file holds."""

from __future__ import annotations

import io
import math
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from onnxgather.datatypes import TensorDataType
from onnxgather.dxdispatch.node import Node
from onnxgather.dxdispatch.values import Bytes
from onnxgather.errors import FileFormatError

_IMAGES = (".jpg", ".png")
_DATA_TYPES = {t.numpy: t for t in TensorDataType} | {np.dtype(bool): TensorDataType.INT8}


@dataclass(frozen=True, slots=True)
class FileValues:
    """The content of a file from an offset on."""

    file: str
    offset: int
    size: int
    swapped: int
    """The element size of big-endian data, otherwise 0."""
    path: str
    """Where the program names the file."""

    def to_bytes(self) -> Bytes:
        """Read the file."""
        try:
            content = np.fromfile(self.file, np.uint8, offset=self.offset)
        except OSError as error:
            raise FileFormatError(f"{self.path}: {_reason(error)}: {self.file}") from None
        if content.size != self.size:
            raise FileFormatError(f"{self.path}: the file changed while it was used: {self.file}")
        if self.swapped:
            whole = content[: self.size // self.swapped * self.swapped]
            whole.view(f"u{self.swapped}").byteswap(inplace=True)
        return content


def read_source(
    node: Node, folder: str, *, allow_outside: bool
) -> tuple[FileValues, TensorDataType | None]:
    """Return what a `sourcePath` names, and its data type where the file has one.

    Raises:
        FileFormatError: The file is missing, out of bounds, an image or not what it should be.
    """
    refuse_image(node)
    source = _find(node, folder, allow_outside=allow_outside)
    try:
        with open(source, "rb") as file:
            if node.text().lower().endswith(".npy"):
                return _npy(node, source, file)
            return FileValues(source, 0, os.fstat(file.fileno()).st_size, 0, node.path), None
    except OSError as error:
        raise FileFormatError(f"{node.path}: {_reason(error)}: {node.text()}") from None


def refuse_image(node: Node) -> None:
    """Raise FileFormatError for a path with the extension of an image."""
    if node.text().lower().endswith(_IMAGES):
        raise node.error("must not be an image, as only arrays and raw bytes are translated")


def is_inside(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path lies in one of the folders, links resolved."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(folder)) for folder in folders)


def target_file(node: Node, folder: str, *, allow_outside: bool) -> str:
    """Return the path that a `targetPath` names.

    Raises:
        FileFormatError: It leaves the output folder.
    """
    target = os.path.join(folder, node.text())
    if not (allow_outside or is_inside(target, [folder])):
        raise node.error("must stay in the output folder")
    return os.path.realpath(target)


def write_file(node: Node, target: str, header: bytes, content: Bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        FileFormatError: It cannot be written.
    """
    folder, name = os.path.split(target)
    partial = os.path.join(folder, f".{name}.{os.getpid()}.partial")
    try:
        os.makedirs(folder, exist_ok=True)
        try:
            with open(partial, "wb") as file:
                file.write(header)
                content.tofile(file)
            os.replace(partial, target)
        finally:
            Path(partial).unlink(missing_ok=True)
    except OSError as error:
        raise FileFormatError(f"{node.path}: {_reason(error)}: {node.text()}") from None


def npy_header(data_type: TensorDataType, shape: tuple[int, ...]) -> bytes:
    """Return the header of an .npy file."""
    header = io.BytesIO()
    description = {"descr": data_type.numpy.str, "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(header, description)
    return header.getvalue()


def _find(node: Node, folder: str, *, allow_outside: bool) -> str:
    """Return the file in the program's folder, else in the current one, as DxDispatch does."""
    roots = (folder, os.getcwd())
    found = [os.path.realpath(os.path.join(root, node.text())) for root in roots]
    source = next((path for path in found if os.path.exists(path)), found[0])
    if not (allow_outside or is_inside(source, roots)):
        raise node.error("must stay in the folder of the program or the current folder")
    if not os.path.exists(source):
        raise node.error("must be a file that exists")
    if not os.path.isfile(source):
        raise node.error("must be a file, not a folder or a device")
    return source


def _npy(node: Node, source: str, file: BinaryIO) -> tuple[FileValues, TensorDataType]:
    shape, fortran, dtype = _npy_header(node, file)
    data_type = _DATA_TYPES.get(dtype.newbyteorder("="))
    if data_type is None:
        found = dtype if dtype.names is None else "a structure"
        raise FileFormatError(f"{node.path}: the .npy file must hold numbers, got {found}")
    if fortran:
        raise node.error("must be an .npy file in C order, not in Fortran order")
    offset = file.tell()
    size = os.fstat(file.fileno()).st_size - offset
    needed = math.prod(shape) * data_type.size
    if min(shape, default=0) < 0 or size < needed:
        raise FileFormatError(
            f"{node.path}: the .npy file must hold {needed} bytes for its shape, got {size}"
        )
    swapped = 0 if dtype.isnative else dtype.itemsize
    # What follows the array belongs to the resource too: the padding that writeFile wrote.
    return FileValues(source, offset, size, swapped, node.path), data_type


def _npy_header(node: Node, file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's remark on files of Python 2
            version = npy.read_magic(file)
            if version == (1, 0):
                return npy.read_array_header_1_0(file)
            if version in ((2, 0), (3, 0)):
                return npy.read_array_header_2_0(file)
    except OSError:
        raise
    except Exception:
        # A damaged header is evaluated as a literal, which fails in too many ways to list.
        raise node.error("must be a well-formed .npy file") from None
    raise FileFormatError(
        f"{node.path}: the .npy file must have version 1.0, 2.0 or 3.0, got "
        f"{version[0]}.{version[1]}"
    )


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
