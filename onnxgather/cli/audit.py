"""The command `audit`, which says of each gather of an ONNX model what becomes of it."""

from __future__ import annotations

import os

import click

from onnxgather.cli import options
from onnxgather.cli.terminal import json_bytes, main, say
from onnxgather.errors import FINDINGS, GOOD, OnnxGatherError
from onnxgather.files import write_whole


@main.command(short_help="Say what becomes of each gather of an ONNX model.")
@click.argument("model", type=options.FILE, metavar="MODEL")
@options.file("--inputs", metavar="FILE", help="The model's inputs, as .npz; the model then runs.")
@options.given
@options.flag("--all", "every", help="List each gather, those too that compute shapes.")
@options.file(
    "--json",
    "json_file",
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="Write the records as JSON; print them where there is no FILE.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["not-proved"]),
    metavar="not-proved",
    help="Let a gather that is not proved in range be a finding too.",
)
def audit(
    model: str,
    inputs: str | None,
    shapes: dict[str, tuple[int, ...]],
    ranges: dict[str, tuple[int, int]],
    every: bool,
    json_file: str | None,
    fail_on: str | None,
) -> int:
    """Say of each gather what DirectML makes of it, and whether its indices are in range.

    A range is proved from the constants and the operators of the model; --shape, --range and
    --inputs tell more. A gather out of range, or one that the DirectML provider refuses, is a
    finding.
    """
    from onnxgather.audit import gathers
    from onnxgather.audit.text import lines
    from onnxgather.repro.node import read_inputs

    taken = [os.path.realpath(path) for path in (model, inputs) if path]
    if json_file is not None and os.path.realpath(json_file) in taken:
        raise OnnxGatherError(f"{json_file} must not be written, as it is an input")
    arrays = read_inputs(inputs) if inputs is not None else None
    found = gathers.audit(model, arrays, shapes, ranges)
    if json_file == "-":
        say(json_bytes(found))
    else:
        for line in lines(model, found, every):
            say(line)
        if json_file is not None:
            write_whole(json_file, json_bytes(found))
    failed = found.out_of_range or found.refused or (fail_on and found.not_proved)
    return FINDINGS if failed else GOOD
