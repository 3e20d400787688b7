"""The command that all others are part of: exit codes and sentences instead of tracebacks."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from onnxgather.cli.terminal import BROKEN_PIPE, INTERRUPTED, abandon, say
from onnxgather.errors import UNUSABLE, OnnxGatherError
from onnxgather.files import reason

_EPILOG = """\b
Exit codes:
  0  good
  1  findings: a difference, an error, an invalid descriptor or index
  2  unusable input or usage
  3  a provider asked for, or a required lane, did not run
Where several things go wrong, 2 counts before 3, and 3 before 1.
"""


class Commands(click.Group):
    """Turns what the commands return and raise into exit codes and sentences."""

    def invoke(self, ctx: click.Context) -> NoReturn:
        """Run the command and end with its exit code."""
        try:
            code: int = super().invoke(ctx)
        except OnnxGatherError as error:
            say(f"Error: {error}", err=True)
            code = error.exit_code
        except MemoryError:
            say("Error: there is not enough memory", err=True)
            code = UNUSABLE
        except BrokenPipeError:
            abandon(sys.stdout, sys.stderr)
            code = BROKEN_PIPE
        except OSError as error:
            abandon(sys.stdout)
            where = os.fsdecode(error.filename) if error.filename else "standard output"
            say(f"Error: {where}: {reason(error)}", err=True)
            code = UNUSABLE
        except KeyboardInterrupt:
            code = INTERRUPTED
        ctx.exit(code)


@click.group(
    cls=Commands,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(package_name="onnxgather", message="%(prog)s %(version)s")
def main() -> None:
    """Turn DirectML gather descriptors into ONNX models, run them, check them.

    FILE is a DxDispatch program: JSON, comments allowed.
    """
