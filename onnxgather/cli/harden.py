"""The command `harden`, which keeps the indices of an ONNX model in range."""

from __future__ import annotations

import click

from onnxgather.cli import arguments
from onnxgather.cli.terminal import json_bytes, say
from onnxgather.errors import GOOD
from onnxgather.options import OutOfRange


@click.command("harden")
@click.argument("model", type=arguments.FILE, metavar="MODEL")
@arguments.file("-o", "--output", required=True, metavar="OUT", help="The model to write.")
@arguments.hardening
@arguments.given
@arguments.as_json
def harden_command(
    model: str,
    output: str,
    out_of_range: OutOfRange,
    shapes: dict[str, tuple[int, ...]],
    ranges: dict[str, tuple[int, int]],
    as_json: bool,
) -> int:
    """Write an ONNX model in which no index that may be out of range is an error.

    Only gathers that the audit does not prove are rewritten, and GatherElements whose data DirectML
    refuses; every other part keeps its bytes. External data stays in its files, so OUT must then be
    in the folder of MODEL.
    """
    from onnxgather.networks.hardening import harden_file

    done = harden_file(model, output, out_of_range, shapes, ranges)
    if as_json:
        say(json_bytes({"model": model, "output": output, "rewritten": done}))
        return GOOD
    for one in done:
        say(str(one))
    gathers = "1 gather" if len(done) == 1 else f"{len(done)} gathers"
    say(f"{model} -> {output}: {gathers} rewritten")
    if done:
        say("An index out of range is no error there any more: it is a value.", err=True)
    return GOOD
