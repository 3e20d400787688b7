"""The errors that bad input raises: one sentence of where, which rule, and what was found."""

from __future__ import annotations

from typing import Self


class OnnxGatherError(Exception):
    """Base of every error that onnxgather raises for bad input."""

    def at(self, where: str) -> Self:
        """Return the same error with the place where it happened in front."""
        return type(self)(f"{where}: {self}")


class DescriptorError(OnnxGatherError):
    """A descriptor, or an array given for one of its tensors, breaks a rule of DirectML."""


class FileFormatError(OnnxGatherError):
    """A file or dict is not what DxDispatch reads; names the file and the path to the field."""


class ProviderError(OnnxGatherError):
    """An execution provider is missing, or did not run what it was asked to run."""


class IndexOutOfRangeError(OnnxGatherError):
    """An index is out of range where out_of_range="error" forbids it."""
