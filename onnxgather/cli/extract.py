"""The command `extract`, which takes the gathers out of an ONNX model."""

from __future__ import annotations

import click

from onnxgather.cli import arguments
from onnxgather.cli.terminal import json_bytes, say
from onnxgather.errors import GOOD


@click.command("extract")
@click.argument("model", type=arguments.FILE, metavar="MODEL")
@click.option("--node", metavar="NAME", help="The gather of that name, or with such an output.")
@arguments.flag("--all", "every", help="Every gather.")
@arguments.file("--inputs", required=True, metavar="FILE", help="The model's inputs, as .npz.")
@arguments.folder("-o", "--output", required=True, metavar="DIR", help="The folder.")
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
        if one.left_out:
            say(f"left out: {one.place}: {one.operator} {one.node!r}: {one.left_out}")
    written = sum(one.folder is not None for one in done)
    say(f"{model} -> {output}: {written} of {len(done)} gathers")
    return GOOD
