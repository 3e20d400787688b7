"""The host that the scripts ask."""

from __future__ import annotations

import argparse
import sys

from onnxgather.errors import ProviderError
from onnxgather.lanes.directml_host import Host, find_host, setup_command

NONE = 3
"""The exit code where there is no DirectML.dll."""


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--host`."""
    parser.add_argument("--host", help="the folder with the host, by default setup.sh's")


def open_host(folder: str | None) -> Host | None:
    """Return a host that runs; None, said on the standard error, where there is none."""
    command = find_host(folder)
    if command is None:
        print(f"no host of DirectML.dll; {setup_command(folder)} makes it", file=sys.stderr)
        return None
    try:
        return Host(command)
    except ProviderError as error:
        print(error, file=sys.stderr)
        return None
