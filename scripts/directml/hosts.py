"""What the scripts share: the host of DirectML.dll, and its verdict on a descriptor."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from rules import Raw

from onnxgather.errors import NOT_RUN, DescriptorError
from onnxgather.execution.child import NoAnswerError
from onnxgather.parity.lanes.directml import REFUSALS, Host, find_host, setup_command

VERDICTS = ("refused", "accepted", "crashed", "not asked")


def run(
    parser: argparse.ArgumentParser, script: Callable[[argparse.Namespace, list[str]], int]
) -> NoReturn:
    """Run a script and exit with its code; with 3 if DirectML.dll cannot run.

    Args:
        parser: The script's options; `--host` is added.
        script: Takes the options and the command that starts the host.
    """
    parser.add_argument("--host", help="the folder with the host, by default setup.sh's")
    options = parser.parse_args()
    command = find_host(options.host)
    if command is None:
        print(f"no host of DirectML.dll; {setup_command(options.host)} makes it", file=sys.stderr)
        sys.exit(NOT_RUN)
    try:
        sys.exit(script(options, command))
    except NoAnswerError as error:
        print(error, file=sys.stderr)
        sys.exit(NOT_RUN)


def verdict(host: Host, raw: Raw, feature_level: str = "1_0") -> tuple[str, str]:
    """DirectML's verdict on a descriptor, one of VERDICTS, and its reason: "" if accepted."""
    try:
        answer = host.ask(raw, feature_level=feature_level)
    except DescriptorError as error:
        return "not asked", str(error)  # DirectML's structures cannot hold it
    except NoAnswerError as error:
        return "crashed", str(error)
    if answer.accepted:
        return "accepted", ""
    return ("refused" if answer.stage in REFUSALS else "crashed"), str(answer)
