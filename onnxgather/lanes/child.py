"""Programs that onnxgather starts, and can end with whatever they started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import BinaryIO, cast


def start(command: Sequence[str], said: BinaryIO) -> subprocess.Popen[bytes]:
    """Start a program with pipes to it and from it.

    It has a group of its own: a terminal's interruption is not for it, and `kill` reaches what
    it started, such as the interpreter behind a script.

    Args:
        command: The program and its arguments.
        said: Where its standard error goes.

    Raises:
        OSError: It does not start.
    """
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=said, start_new_session=True)


def pipes(child: subprocess.Popen[bytes]) -> tuple[BinaryIO, BinaryIO]:
    """Return the pipe to a child and the one from it."""
    return cast("BinaryIO", child.stdin), cast("BinaryIO", child.stdout)


def kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a child and, but on Windows, its group."""
    child.kill()
    if sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
