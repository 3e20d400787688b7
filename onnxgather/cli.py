"""The command line; the only module that speaks to the terminal.

Commands return their exit code. onnx and onnxruntime are imported by the commands that need
them, so that `--help` and `show` answer at once.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import NoReturn, get_args

import click
import msgspec

from onnxgather.arrays import Array, OutOfRange
from onnxgather.descriptors import Descriptor
from onnxgather.dxdispatch import Program, execute, read_program
from onnxgather.dxdispatch.node import located
from onnxgather.errors import DescriptorError, FileFormatError, OnnxGatherError, ProviderError
from onnxgather.feature_levels import FEATURE_LEVELS, check_feature_level
from onnxgather.options import DEFAULT_OPSET, OPSETS, Target
from onnxgather.outputs import Source, dispatchable_path, plan, reason, write_whole
from onnxgather.providers import find_provider
from onnxgather.terminal import (
    BROKEN_PIPE,
    GOOD,
    INTERRUPTED,
    UNUSABLE,
    Batch,
    abandon,
    exit_code,
    say,
)

_EPILOG = """\b
Exit codes:
  0  good
  1  findings: a difference, an error, an invalid descriptor or index
  2  unusable input or usage
  3  the provider that was asked for did not run
Where several things go wrong, 2 counts before 3, and 3 before 1.
"""

_STATES = """\b
States:
  PASS     model and reference agree in data type, shape and bytes
  DIFF     they differ; the line says how, and where first
  ERROR    the provider failed, or the descriptor is invalid
  NOT-RUN  the provider is missing, or did not get every node
"""


class _Commands(click.Group):
    """Turns what the commands return and raise into exit codes and sentences."""

    def invoke(self, ctx: click.Context) -> NoReturn:
        try:
            code: int = super().invoke(ctx)
        except OnnxGatherError as error:
            say(f"Error: {error}", err=True)
            code = exit_code(error)
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


def _provider(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    try:
        find_provider(value)
    except ProviderError as error:
        raise click.BadParameter(str(error)) from None
    return value


_out_of_range = click.option(
    "--out-of-range",
    type=click.Choice(get_args(OutOfRange)),
    default="clamp",
    show_default=True,
    metavar="RULE",
    help="What an index out of range does: clamp, error, zero or directml.",
)
_target = click.option(
    "--target",
    type=click.Choice(get_args(Target)),
    default="portable",
    show_default=True,
    metavar="TARGET",
    help=f"Whom the model is for: {' or '.join(get_args(Target))}.",
)
_opset = click.option(
    "--opset",
    type=click.IntRange(OPSETS[0], OPSETS[-1]),
    default=DEFAULT_OPSET,
    show_default=True,
    metavar="N",
    help="Version of the ONNX operator set.",
)
_threads = click.option(
    "--threads",
    type=click.IntRange(1),
    metavar="N",
    help="Threads that a model for the CPU provider is made for; default: 2.",
)
_run_on = click.option(
    "--provider",
    default="cpu",
    show_default=True,
    callback=_provider,
    metavar="NAME",
    help="cpu, directml, openvino, ... or ONNX Runtime's full name.",
)
_allow_outside = click.option(
    "--allow-outside",
    is_flag=True,
    help="Let the program name files outside its folder and the current one.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group(
    cls=_Commands,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(package_name="onnxgather", message="%(prog)s %(version)s")
def main() -> None:
    """Turn DirectML gather descriptors into ONNX models, run them, check them.

    FILE is a DxDispatch program: JSON, comments allowed.
    """


@main.command(short_help="Write programs as ONNX models.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="A folder; or a file, if there is one model and the name ends in .onnx.",
)
@_out_of_range
@_target
@_threads
@_opset
@click.option(
    "--feature-level",
    type=click.Choice(FEATURE_LEVELS),
    metavar="LEVEL",
    help="Refuse descriptors that need more than this level, such as 3_0.",
)
@_allow_outside
def convert(
    files: Sequence[str],
    output: str | None,
    out_of_range: OutOfRange,
    target: Target,
    threads: int | None,
    opset: int,
    feature_level: str | None,
    allow_outside: bool,
) -> int:
    """Write an ONNX model for each gather of each program.

    A FILE may also be a folder: all *.json files in it and below it. Models go beside their
    programs as NAME.onnx, or as NAME.DISPATCHABLE.onnx where a program has several gathers.
    """
    batch = Batch()
    programs: list[tuple[Source, Program]] = []
    sources = batch.sources(files)
    for source in sources:
        with batch.step(source.path):
            programs.append((source, _read_gathers(source.path, allow_outside)))
    jobs = plan(programs, output, batch.failed)
    for number, job in enumerate(jobs, 1):
        with batch.step(job.source, number, len(jobs)):
            with located(f"{job.source}: {dispatchable_path(job.dispatchable)}"):
                if feature_level is not None:
                    check_feature_level(job.descriptor, feature_level)
                model = _model(job.descriptor, out_of_range, target, threads, opset)
            write_whole(job.output, model)
            batch.say(f"{job.source} -> {job.output}")
    return batch.finish()


@main.command(short_help="Run a program, print what dxdispatch prints.")
@click.argument("file", metavar="FILE")
@_run_on
@_out_of_range
@click.option(
    "--output-folder",
    default=os.curdir,
    metavar="DIR",
    help="Where writeFile writes.  [default: the current folder]",
)
@_allow_outside
def run(
    file: str, provider: str, out_of_range: OutOfRange, output_folder: str, allow_outside: bool
) -> int:
    """Run the commands of a program and print the lines that dxdispatch prints.

    FILE is read whole before anything runs.
    """
    program = read_program(file, allow_outside=allow_outside)

    def evaluate(desc: Descriptor, data: Array, indices: Array) -> Array:
        from onnxgather import session

        return session.run(desc, data, indices, out_of_range, provider)

    lines = execute(program, evaluate, output_folder=output_folder, allow_outside=allow_outside)
    for line in lines:
        say(line.encode("latin-1"))
    return GOOD


@main.command(short_help="Compare models with the reference.", epilog=_STATES)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@_run_on
@_out_of_range
@click.option(
    "--target",
    type=click.Choice(get_args(Target)),
    metavar="TARGET",
    help="Whose models to check; default: those that run takes on the provider.",
)
@_json
@_allow_outside
def check(
    paths: Sequence[str],
    provider: str,
    out_of_range: OutOfRange,
    target: Target | None,
    as_json: bool,
    allow_outside: bool,
) -> int:
    """Compare the model of each dispatch with the reference, bit by bit.

    A PATH is a program, or a folder: all *.json files in it and below it. Every dispatch gets a
    line that starts with its state.
    """
    from onnxgather.checks import EXIT_CODES, CheckResult, Report, broken_descriptor, check_program

    batch = Batch()
    results: list[CheckResult] = []

    def add(result: CheckResult) -> None:
        results.append(result)
        batch.codes.append(EXIT_CODES[result.state])
        if not as_json:
            batch.say(str(result))

    sources = batch.sources(paths)
    for number, source in enumerate(sources, 1):
        with batch.step(source.path, number, len(sources)):
            before = len(results)
            try:
                program = read_program(source.path, allow_outside=allow_outside)
            except DescriptorError as error:
                add(broken_descriptor(source.path, error))
                continue
            for result in check_program(program, out_of_range, provider, target):
                add(result)
            if len(results) == before:
                raise FileFormatError(f"{source.path}: $.commands must hold a dispatch")
    report = Report.of(find_provider(provider).name, out_of_range, results, batch.messages)
    if as_json:
        _say_json(report)
    else:
        batch.say(str(report))
    return batch.finish()


@main.command(short_help="Explain a program's gathers and their models.")
@click.argument("file", metavar="FILE")
@_out_of_range
@_target
@_threads
@_opset
@_json
@_allow_outside
def show(
    file: str,
    out_of_range: OutOfRange,
    target: Target,
    threads: int | None,
    opset: int,
    as_json: bool,
    allow_outside: bool,
) -> int:
    """Explain each gather of a program: its descriptor, its formula, its ONNX nodes."""
    from onnxgather.show import describe, render

    program = _read_gathers(file, allow_outside)
    descriptions = {
        name: describe(dispatchable.descriptor, out_of_range, target, opset, threads)
        for name, dispatchable in program.dispatchables.items()
    }
    if as_json:
        _say_json({"file": file, "dispatchables": descriptions})
        return GOOD
    texts = [f"{dispatchable_path(name)}\n\n{render(d)}" for name, d in descriptions.items()]
    say("\n\n\n".join(f"{file}: {text}" for text in texts))
    return GOOD


def _read_gathers(path: str, allow_outside: bool) -> Program:
    program = read_program(path, allow_outside=allow_outside)
    if not program.dispatchables:
        raise FileFormatError(f"{path}: $.dispatchables must hold a gather")
    return program


def _model(
    desc: Descriptor, out_of_range: OutOfRange, target: Target, threads: int | None, opset: int
) -> bytes:
    from onnxgather.model import check_model, to_onnx

    model = to_onnx(desc, out_of_range, target, opset, threads=threads)
    check_model(model)
    return model.SerializeToString(deterministic=True)


def _say_json(value: object) -> None:
    try:
        say(msgspec.json.format(msgspec.json.encode(value), indent=2))
    except UnicodeEncodeError:  # a file name that is not Unicode: escaped, as json reads it back
        say(json.dumps(msgspec.to_builtins(value), indent=2))
