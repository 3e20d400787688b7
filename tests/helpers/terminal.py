"""Programs that write to a terminal."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Sequence
from typing import Literal

LONGEST = 60
"""Seconds that a program may take."""


def run_on_terminal(
    command: Sequence[str], stream: Literal["stdout", "stderr"]
) -> tuple[str, bytes]:
    """Run a program with one of its streams on a terminal.

    Args:
        command: The program and its arguments.
        stream: The stream that is a terminal.

    Returns:
        All that the terminal got, and what the other stream got.

    Raises:
        CalledProcessError: The exit code is not 0.
        TimeoutExpired: The program takes longer than `LONGEST`.
    """
    ours, theirs = os.openpty()
    parts: list[bytes] = []

    def read() -> None:
        # A terminal holds little: a program with more to say waits for a reader. Linux
        # ends a terminal that nobody has open with an error, macOS with no bytes.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 2**16):
                parts.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    is_stdout = stream == "stdout"
    try:
        done = subprocess.run(
            command,
            stdout=theirs if is_stdout else subprocess.PIPE,
            stderr=subprocess.PIPE if is_stdout else theirs,
            check=True,
            timeout=LONGEST,
        )
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    return b"".join(parts).decode(), done.stderr if is_stdout else done.stdout
