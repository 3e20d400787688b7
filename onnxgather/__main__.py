"""The commands as `python -m onnxgather`, and as the program `onnxgather`."""

from __future__ import annotations

import signal


def run_command_line() -> None:
    """Run the command line of this program, and end with its exit code."""
    # Python would raise an interrupt wherever it is, and print the place. Now SIGINT
    # ends the program as SIGTERM does, until the command handles both.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from onnxgather.cli import main

    main(prog_name="onnxgather")


if __name__ == "__main__":
    run_command_line()
