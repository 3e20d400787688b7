"""The commands `convert`, `run`, `show` and `explain`, for programs.

Commands return their exit code. The commands that need onnx or onnxruntime import them, so that
`--help` and `show` answer at once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Unpack

import click

from onnxgather.checks import printable
from onnxgather.cli import options
from onnxgather.cli.options import Lowering
from onnxgather.cli.sources import Batch, Source, dispatchable_path, plan
from onnxgather.cli.terminal import json_bytes, main, say
from onnxgather.dxdispatch import Program, execute, read_program
from onnxgather.errors import GOOD, DescriptorError, FileFormatError, located
from onnxgather.feature_levels import FEATURE_LEVELS, check_feature_level
from onnxgather.files import write_whole
from onnxgather.options import OutOfRange


@main.command(short_help="Write programs as ONNX models.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="A folder; or a file, if there is one model and the name ends in .onnx.",
)
@options.lowering
@click.option(
    "--feature-level",
    type=click.Choice(FEATURE_LEVELS),
    metavar="LEVEL",
    help="Refuse descriptors that need more than this level, such as 3_0.",
)
@options.allow_outside
def convert(
    files: Sequence[str],
    output: str | None,
    feature_level: str | None,
    allow_outside: bool,
    **lowering: Unpack[Lowering],
) -> int:
    """Write an ONNX model for each gather of each program.

    A FILE may also be a folder: all *.json files in it and below it. Models go beside their
    programs as NAME.onnx, or as NAME.DISPATCHABLE.onnx where a program has several gathers.
    """
    from onnxgather.model import check_model, to_onnx

    batch = Batch()
    programs: list[tuple[Source, Program]] = []
    for source in batch.sources(files):
        with batch.step(source.path):
            programs.append((source, _read_gathers(batch, source.path, allow_outside)))
    jobs = plan(programs, output, [name for name, _ in batch.failures])
    for number, job in enumerate(jobs, 1):
        with batch.step(job.source, number, len(jobs)):
            with located(f"{job.source}: {job.dispatchable}"):
                if feature_level is not None:
                    check_feature_level(job.descriptor, feature_level)
                model = to_onnx(job.descriptor, **lowering)
                check_model(model)
            write_whole(job.output, model.SerializeToString(deterministic=True))
            batch.say(f"{job.source} -> {job.output}")
    return batch.finish()


@main.command(short_help="Run a program, print what dxdispatch prints.")
@click.argument("file", metavar="FILE")
@options.run_on
@options.policy("directml, as dxdispatch", "directml")
@click.option(
    "--output-folder",
    default=os.curdir,
    metavar="DIR",
    help="Where writeFile writes.  [default: the current folder]",
)
@options.allow_outside
def run(
    file: str, provider: str, out_of_range: OutOfRange, output_folder: str, allow_outside: bool
) -> int:
    """Run the commands of a program and print the lines that dxdispatch prints.

    FILE is read whole before anything runs. writeFile replaces plain files below DIR: none that is
    hidden or behind a link, unless --allow-outside is given, and none that the program reads. The
    standard error tells how many indices are out of range.
    """
    from onnxgather import session

    pieces = execute(
        read_program(file, allow_outside=allow_outside),
        lambda desc, data, indices, policy: session.run(desc, data, indices, policy, provider),
        out_of_range,
        output_folder=output_folder,
        allow_outside=allow_outside,
        note=partial(say, err=True),
    )
    for piece in pieces:
        say(piece, end="")
    return GOOD


@main.command(short_help="Explain a program's gathers and their models.")
@click.argument("file", metavar="FILE")
@options.lowering
@options.as_json
@options.allow_outside
def show(file: str, as_json: bool, allow_outside: bool, **lowering: Unpack[Lowering]) -> int:
    """Explain each gather of a program: its descriptor, its formula, its ONNX nodes."""
    from onnxgather.show import describe, render

    program = _read_gathers(Batch(), file, allow_outside)
    descriptions = {
        name: describe(dispatchable.descriptor, **lowering)
        for name, dispatchable in program.dispatchables.items()
    }
    if as_json:
        say(json_bytes({"file": file, "dispatchables": descriptions}))
    else:
        texts = [
            printable(f"{file}: {dispatchable_path(name)}") + f"\n\n{render(description)}"
            for name, description in descriptions.items()
        ]
        say("\n\n\n".join(texts), as_is=True)
    return GOOD


def _read_gathers(batch: Batch, path: str, allow_outside: bool) -> Program:
    program = batch.read(path, allow_outside)
    if not program.dispatchables:
        raise FileFormatError(f"{path}: $.dispatchables must hold a gather")
    return program


@main.command(short_help="Say where an output element comes from.")
@click.argument("file", metavar="FILE")
@click.option("--at", required=True, metavar="COORDINATES", help="Such as 1,0.")
@click.option(
    "--dispatch",
    "number",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Which of the program's dispatches.",
)
@options.out_of_range
@options.as_json
@options.allow_outside
def explain(
    file: str, at: str, number: int, out_of_range: OutOfRange, as_json: bool, allow_outside: bool
) -> int:
    """Say which index and which input element an element of OutputTensor comes from."""
    from onnxgather.cases import program_cases
    from onnxgather.explain import explain as explain_element

    program = read_program(file, allow_outside=allow_outside)
    cases = list(program_cases(program, out_of_range))
    if number > len(cases):
        rule = f"{file}: $.commands must hold {number} dispatches for --dispatch {number}"
        raise FileFormatError(f"{rule}, got {len(cases)}")
    try:
        coordinates = [int(part) for part in at.split(",")]
    except ValueError:
        raise click.BadParameter(f"must be integers with commas, got {at!r}") from None
    case = cases[number - 1]
    arrays = case.data, case.indices
    try:
        found = explain_element(case.descriptor, *arrays, coordinates, out_of_range)
    except DescriptorError as error:  # it can be about the coordinates only
        raise click.BadParameter(str(error)) from None
    say(json_bytes(found) if as_json else str(found))
    return GOOD
