"""An ONNX Runtime that is too old for the library of the operators and the provider."""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

STATUS_OF_ERROR = 2
"""What the function CreateStatus of the ONNX Runtime returns for such a status."""


@contextmanager
def older_runtime(messages: list[bytes]) -> Generator[Any]:
    """Yield a pointer to the OrtApiBase of ONNX Runtime 1.23.2.

    Args:
        messages: Where the messages of its errors go.
    """

    def create_status(code: int, message: bytes) -> int:
        messages.append(message)
        return code

    def get_api(version: int) -> int:
        return ctypes.addressof(functions) if version < 24 else 0

    def get_version() -> int:
        return ctypes.addressof(number)

    pointer = ctypes.c_void_p
    number = ctypes.create_string_buffer(b"1.23.2")
    create = ctypes.CFUNCTYPE(pointer, ctypes.c_int, ctypes.c_char_p)(create_status)
    functions = (pointer * 415)(ctypes.cast(create, pointer).value)
    callbacks = (
        ctypes.CFUNCTYPE(pointer, ctypes.c_uint32)(get_api),
        ctypes.CFUNCTYPE(pointer)(get_version),
    )
    addresses = [ctypes.cast(callback, pointer).value for callback in callbacks]
    base = (pointer * 2)(*addresses)
    # The functions live until the caller is done.
    yield ctypes.byref(base)
