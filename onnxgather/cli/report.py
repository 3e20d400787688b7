"""The command `report merge`."""

from __future__ import annotations

from signal import Signals

import click

from onnxgather.checks import listed
from onnxgather.cli import arguments
from onnxgather.cli.outputs import Outputs, codes
from onnxgather.cli.sources import Batch
from onnxgather.cli.terminal import say
from onnxgather.errors import UNUSABLE


@click.group("report")
def report_command() -> None:
    """Work on the reports of `check --json`."""


@report_command.command("merge", short_help="Make one report of several.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-o", "--json", "json_file", metavar="FILE", help="Write the whole as JSON.")
@arguments.reports
@arguments.as_records(outputs=Outputs)
def merge_command(files: tuple[str, ...], outputs: Outputs) -> int:
    """Make one report of those that `check --shard K/N --json FILE` wrote.

    The lanes of all must agree in name, provider, versions and target. Where shards are missing,
    the report of the others is written, and the exit code is 2. Otherwise it is the exit code
    that the whole check would have had.
    """
    from onnxgather.parity.merge import merge
    from onnxgather.parity.reading import open_report

    outputs.check_apart(files)
    outputs.check_writable()
    batch = Batch(prints=False)
    whole, missing = merge([(file, open_report(file)) for file in files])
    outputs.write_report(batch, whole, whole)
    if missing:
        say(f"Error: every shard must be given, got none of {listed(missing, 10)}", err=True)
    ended = Signals.__members__.get(whole.interrupted or "")
    code = batch.finish([*codes(whole), *([UNUSABLE] if whole.unusable or missing else [])])
    return code if ended is None else 128 + ended
