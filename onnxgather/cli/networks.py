"""The commands `audit`, `extract` and `harden`, for the gathers of ONNX models."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import click
from msgspec.structs import asdict

from onnxgather.checks import number_of
from onnxgather.cli import arguments
from onnxgather.cli.outputs import Outputs, check_no_terminal, codes, write_output
from onnxgather.cli.sources import STANDARD, Batch, JsonBeforePaths
from onnxgather.cli.terminal import json_bytes, say
from onnxgather.errors import FINDINGS, GOOD
from onnxgather.execution.providers import NAMES
from onnxgather.options import OutOfRange


@click.command("audit", cls=JsonBeforePaths)
@click.argument("paths", nargs=-1, required=True, type=arguments.FILE, metavar="MODEL...")
@arguments.file("--inputs", help="The model's inputs, as .npz; the model then runs.")
@arguments.given
@arguments.flag("--allow-empty", help="Let open sizes of inputs be 0; else they are at least 1.")
@arguments.flag("--all", "every", help="List each gather, those too that compute shapes.")
@arguments.lane_names(
    help=f"Providers that run each gather with what it gets on the CPU, with commas: {NAMES}; "
    "directml-dll is DirectML itself.",
)
@arguments.lanes
@arguments.json_file("records")
@arguments.as_html
@arguments.file(
    "--contract",
    "contract_file",
    help="Write the conditions on inputs under which the gathers are proved.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["not-proved"]),
    metavar="not-proved",
    help="Let a gather that is not proved in range, or under conditions alone, be a finding too.",
)
@arguments.as_records(outputs=Outputs, given=arguments.Given)
def audit_command(
    paths: tuple[str, ...],
    inputs: str | None,
    given: arguments.Given,
    allow_empty: bool,
    every: bool,
    lanes: list[str],
    pythons: dict[str, str],
    plugins: dict[str, str],
    timeout: float,
    outputs: Outputs,
    fail_on: str | None,
) -> int:
    """Say of each gather what DirectML makes of it, and whether its indices are in range.

    A MODEL may also be a folder: all *.onnx files in it and below it; or a pattern in quotes. A
    range is proved from the constants and the operators of the model; --shape, --range,
    --tokenizer, --assume and --inputs tell more. A gather out of range, or one that the DirectML
    provider refuses, is a finding, and so is one that a lane computes wrongly.
    """
    from onnxgather.networks.audit_page import audit_page
    from onnxgather.networks.comparison import Compared, compare, lane_lines
    from onnxgather.networks.gathers import audit_model
    from onnxgather.networks.inputs import read_inputs
    from onnxgather.networks.text import lines, next_lines
    from onnxgather.parity.lanes import open_lanes

    batch, done = Batch(prints=False), dict[str, Compared]()
    models = [*dict.fromkeys(source.path for source in batch.sources(paths, ".onnx"))]
    is_one = models == [*dict.fromkeys(paths)] and len(models) == 1
    outputs.check_apart([*models, *given.files, *([] if inputs is None else [inputs])])
    if not is_one and (outputs.html_file or outputs.contract_file):
        raise click.UsageError("--html and --contract must be given with one model")
    asked = bool(lanes or pythons or plugins)
    if asked and inputs is None:
        raise click.UsageError("--inputs must be given with lanes, which get what a run shows")
    with ExitStack() as stack:
        with arguments.as_usage(click.UsageError):
            opened = open_lanes(lanes, pythons, plugins, "portable", timeout) if asked else []
        for lane in opened:
            stack.callback(lane.close)
        arrays = read_inputs(inputs) if inputs is not None else None
        for number, model in enumerate(models, 1):
            with batch.step(model, number, len(models)):
                network, conditions = given.read(model)
                audited = audit_model(network, arrays, given.shapes, conditions, allow_empty)
                done[model] = compare(audited, opened)
    if not done:
        return batch.finish()
    model, one = next(iter(done.items()))
    every_model = [{"model": path, **asdict(each.audit)} for path, each in done.items()]
    record = one.audit if is_one else {"schema": 2, "models": every_model}
    contents = {"--json": partial(json_bytes, record), "--html": partial(audit_page, {model: one})}
    contents["--contract"] = partial(json_bytes, one.audit.contract)
    if not outputs.write(batch, contents):
        for path, each in done.items():
            told = [*lines(path, each.audit, every), *lane_lines(each)]
            for text in [*told, *next_lines(path, each.audit)]:
                say(text)
    found = list[int]()
    for audit, report in ((each.audit, each.report) for each in done.values()):
        unproved = fail_on and (audit.not_proved or audit.proved_if)
        is_finding = audit.out_of_range or audit.refused or unproved
        found += [*codes(report), *([FINDINGS] if is_finding else [])]
    return batch.finish(found)


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
