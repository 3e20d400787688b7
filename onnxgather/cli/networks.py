"""The commands `extract` and `harden`, for the gathers of ONNX models."""

from __future__ import annotations

from functools import partial

import click

from onnxgather.checks import number_of
from onnxgather.cli import arguments
from onnxgather.cli.outputs import check_no_terminal, write_output
from onnxgather.cli.sources import STANDARD
from onnxgather.cli.terminal import json_bytes, say
from onnxgather.errors import GOOD
from onnxgather.options import OutOfRange


@click.command("extract")
@click.argument("model", type=arguments.FILE, metavar="MODEL")
@click.option("--node", metavar="NAME", help="The gather of that name, or with such an output.")
@arguments.flag("--all", "every", help="Every gather.")
@arguments.file("--inputs", required=True, help="The model's inputs, as .npz.")
@arguments.folder("-o", "--output", required=True, help="The folder.")
@arguments.as_json
def extract_command(
    model: str, node: str | None, every: bool, inputs: str, output: str, as_json: bool
) -> int:
    """Write each gather with what it gets in a run of MODEL, one folder each.

    A folder has a DxDispatch program with the data, the ONNX model of the gather, its inputs, the
    expected output, and a repro.py that runs it with onnxruntime and numpy alone.
    """
    from onnxgather.networks.extraction import extract as write
    from onnxgather.networks.inputs import read_inputs

    if every == (node is not None):
        raise click.UsageError("give either --node NAME or --all")
    done = write(model, read_inputs(inputs), output, node)
    if as_json:
        say(json_bytes({"model": model, "output": output, "gathers": done}))
        return GOOD
    for one in done:
        for what, why in (("left out", one.left_out), ("cropped", one.cropped)):
            if why:
                say(f"{what}: {one.place}: {one.operator} {one.node!r}: {why}")
    written = sum(one.folder is not None for one in done)
    say(f"{model} -> {output}: {written} of {len(done)} gathers")
    return GOOD


@click.command("harden")
@click.argument("model", type=arguments.FILE, metavar="MODEL")
@arguments.file(
    "-o", "--output", required=True, metavar="OUT", help="The model to write; - prints it."
)
@arguments.hardening
@arguments.given
@arguments.as_json
@arguments.as_records(given=arguments.Given)
def harden_command(
    model: str,
    output: str,
    out_of_range: OutOfRange,
    given: arguments.Given,
    as_json: bool,
) -> int:
    """Write an ONNX model in which no index that may be out of range is an error.

    Only gathers that the audit does not prove are rewritten, and GatherElements whose data DirectML
    refuses; every other part keeps its bytes. External data stays in its files, so OUT must then be
    in the folder of MODEL.
    """
    from onnxgather.networks.hardening import harden_file

    prints = output == STANDARD
    if prints and as_json:
        raise click.UsageError("--json must come with a file as --output, as - prints the model")
    check_no_terminal(output)
    network, conditions = given.read(model)
    write = partial(write_output, end="")
    done = harden_file(network, output, out_of_range, given.shapes, conditions, write)
    if as_json:
        say(json_bytes({"model": model, "output": output, "rewritten": done}))
        return GOOD
    for one in done:
        say(str(one), err=prints)
    rewritten = f"{model} -> {output}: {number_of(len(done), 'gather')} rewritten"
    say(rewritten, err=prints)
    if done:
        say("An index out of range is no error there any more: it is a value.", err=True)
    return GOOD
