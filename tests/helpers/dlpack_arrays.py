"""Arrays of other packages."""

from __future__ import annotations

from typing import Any


class Exported:
    """An array that has nothing but DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()
