"""Files out: written whole or not at all."""

from __future__ import annotations

import os
import re
from pathlib import Path

from onnxgather.errors import OnnxGatherError

_REPORT = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"onnxgather"\s*:')
"""How a report starts, whoever formatted it."""


def write_whole(path: str, content: bytes) -> None:
    """Write a file whole or not at all, and make its folder where there is none.

    What is there and no regular file, such as a device or a pipe, is written to instead.

    Raises:
        OnnxGatherError: It cannot be written; a file that was there is as it was.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    partial = Path(folder, f".onnxgather.{os.getpid()}.partial")
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            Path(path).write_bytes(content)
            return
        os.makedirs(folder, exist_ok=True)
        try:
            partial.write_bytes(content)
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise OnnxGatherError(f"{path}: a file stands where its folder should be") from None
    except OSError as error:
        raise OnnxGatherError(f"{path}: {reason(error)}") from None


def is_report(start: bytes) -> bool:
    """Return whether a file is a report of `onnxgather check --json`, by its first 40 bytes."""
    return _REPORT.match(start) is not None


def reason(error: OSError) -> str:
    """Return what an OSError says, without its number and its path."""
    return (error.strerror or str(error) or type(error).__name__).lower()
