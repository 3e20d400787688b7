"""The commands `extract` and `harden`, for the gathers of ONNX models."""

from __future__ import annotations

import click

from onnxgather.checks import number_of
from onnxgather.cli import arguments
from onnxgather.cli.outputs import check_no_terminal, write_output
from onnxgather.cli.sources import STANDARD
from onnxgather.cli.terminal import json_bytes, say
from onnxgather.errors import FINDINGS, GOOD
from onnxgather.files import check_apart
from onnxgather.options import POLICIES


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
@arguments.flag("--verify", help="Audit OUT, run MODEL and OUT, and harden OUT again.")
@arguments.file("--inputs", help="Inputs of MODEL with indices in range, as .npz, for --verify.")
@arguments.as_json
@arguments.as_records(given=arguments.Given)
def harden_command(
    model: str,
    output: str,
    out_of_range: str,
    given: arguments.Given,
    verify: bool,
    inputs: str | None,
    as_json: bool,
) -> int:
    """Write an ONNX model in which no index that may be out of range is an error.

    Only nodes that the audit does not prove are rewritten, and GatherElements whose data DirectML
    refuses; every other part keeps its bytes. A scatter drops writes out of range. A node that
    cannot be kept in range is left, and named. External data stays in its files, so OUT must then
    be in the folder of MODEL.
    """
    from onnxgather.networks.hardening import harden_file, hardening_rule
    from onnxgather.networks.inputs import checked, read_inputs
    from onnxgather.networks.verify import Verified
    from onnxgather.networks.verify import verify as verified

    prints = output == STANDARD
    if prints and as_json:
        raise click.UsageError("--json must come with a file as --output, as - prints the model")
    check_no_terminal(output)
    if inputs is not None and not verify:
        raise click.UsageError("--inputs must come with --verify, which runs the model")
    check_apart([(output, "--output")], [*given.files, *filter(None, [inputs])])
    premises = given.read(model)
    arrays = None if inputs is None else checked(premises.network, read_inputs(inputs))
    done = harden_file(premises, output, out_of_range, write_output)
    rewritten, left, found = done.rewritten, done.left, list[Verified]()
    for one in [] if as_json else [*rewritten, *left]:
        say(str(one), err=prints)
    if verify:
        found = verified(premises, done, out_of_range, arrays)
    code = GOOD if all(one.holds for one in found) else FINDINGS
    if as_json:
        record = {"model": model, "output": output, "rewritten": rewritten, "left": left}
        say(json_bytes(record | ({"verified": found} if verify else {})))
        return code
    say(f"{model} -> {output}: {number_of(len(rewritten), 'node')} rewritten", err=prints)
    if rewritten:
        rule = hardening_rule(out_of_range)
        policy = POLICIES.get(rule) if isinstance(rule, str) else None
        value = policy.element or policy.returns if policy else f"row {rule}"
        nodes = f", but in {number_of(len(left), 'node')} left" if left else ""
        name = "the model" if prints else output
        say(f"{name} no longer fails on a bad index{nodes}; it returns {value}.", err=True)
    for one in found:
        say(f"{one.check}: {'holds' if one.holds else 'does not hold'}: {one.said}", err=prints)
    return code
