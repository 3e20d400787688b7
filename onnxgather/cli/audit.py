"""The command `audit`, which says of each gather of an ONNX model what becomes of it."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import click

from onnxgather.cli import arguments
from onnxgather.cli.outputs import Outputs, codes
from onnxgather.cli.sources import Batch
from onnxgather.cli.terminal import json_bytes, say
from onnxgather.errors import FINDINGS
from onnxgather.execution.providers import NAMES


@click.command("audit")
@click.argument("model", type=arguments.FILE, metavar="MODEL")
@arguments.file(
    "--inputs", metavar="FILE", help="The model's inputs, as .npz; the model then runs."
)
@arguments.given
@arguments.flag("--all", "every", help="List each gather, those too that compute shapes.")
@arguments.lane_names(
    help=f"Providers that run each gather with what it gets on the CPU, with commas: {NAMES}; "
    "directml-dll is DirectML itself.",
)
@arguments.lanes
@arguments.file(
    "--json",
    "json_file",
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="Write the records as JSON; print them where there is no FILE.",
)
@arguments.as_html
@click.option(
    "--fail-on",
    type=click.Choice(["not-proved"]),
    metavar="not-proved",
    help="Let a gather that is not proved in range be a finding too.",
)
@arguments.as_records(outputs=Outputs)
def audit_command(
    model: str,
    inputs: str | None,
    shapes: dict[str, tuple[int, ...]],
    ranges: dict[str, tuple[int, int]],
    every: bool,
    lanes: list[str],
    pythons: dict[str, str],
    plugins: dict[str, str],
    timeout: float,
    outputs: Outputs,
    fail_on: str | None,
) -> int:
    """Say of each gather what DirectML makes of it, and whether its indices are in range.

    A range is proved from the constants and the operators of the model; --shape, --range and
    --inputs tell more. A gather out of range, or one that the DirectML provider refuses, is a
    finding, and so is one that a lane computes wrongly.
    """
    from onnxgather.networks.audit_page import audit_page
    from onnxgather.networks.comparison import compare, lane_lines
    from onnxgather.networks.gathers import audit_model
    from onnxgather.networks.inputs import read_inputs
    from onnxgather.networks.text import lines
    from onnxgather.parity.lanes import open_lanes

    outputs.check_apart([model, *([] if inputs is None else [inputs])])
    asked = bool(lanes or pythons or plugins)
    if asked and inputs is None:
        raise click.UsageError("--inputs must be given with lanes, which get what a run shows")
    with ExitStack() as stack:
        with arguments.as_usage(click.UsageError):
            opened = open_lanes(lanes, pythons, plugins, "portable", timeout) if asked else []
        for lane in opened:
            stack.callback(lane.close)
        arrays = read_inputs(inputs) if inputs is not None else None
        audited = audit_model(model, arrays, shapes, ranges)
        compared = compare(audited, opened)
    found, batch = compared.audit, Batch(prints=False)
    page = partial(audit_page, model, audited.network, compared)
    contents = {"--json": partial(json_bytes, found), "--html": page}
    if not outputs.write(batch, contents):
        for text in [*lines(model, found, every), *lane_lines(compared)]:
            say(text)
    failed = found.out_of_range or found.refused or (fail_on and found.not_proved)
    return batch.finish([*codes(compared.report), *([FINDINGS] if failed else [])])
