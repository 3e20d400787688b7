"""The commands that look for what is wrong: with an installation, and with a gather."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from onnxgather.cli import options
from onnxgather.cli.group import main
from onnxgather.cli.terminal import Progress, say, say_json
from onnxgather.dxdispatch import read_program
from onnxgather.errors import FINDINGS, GOOD, NOT_RUN, UNUSABLE, OnnxGatherError
from onnxgather.options import OutOfRange, Target

if TYPE_CHECKING:
    from onnxgather.cases import Case


@main.command(short_help="Say which wheels and providers work.")
@options.lanes
@options.as_json
def doctor(pythons: dict[str, str], plugins: dict[str, str], timeout: float, as_json: bool) -> int:
    """Examine this Python environment, and others given as lanes.

    Says which wheels own the module onnxruntime, and which providers really run a gather; for what
    is wrong, the command that mends it.
    """
    from onnxgather.doctor import examine

    checkup = examine(pythons, plugins, timeout=timeout)
    if as_json:
        say_json(checkup)
    else:
        say(str(checkup))
    return checkup.exit_code


def _lane(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check NAME or NAME=PYTHON."""
    from onnxgather.lanes.directml import DIRECTML_DLL

    if value is None:
        return None
    name, equals, python = value.partition("=")
    if not name or (equals and not python):
        raise click.BadParameter(f"must be NAME or NAME=PYTHON, got {value!r}")
    if (provider := name.partition("@")[0]) != DIRECTML_DLL:
        options.provider(ctx, param, provider)
    return value


@main.command(short_help="Reduce a difference to a folder that shows it.")
@click.argument("source", metavar="SOURCE")
@click.option("-o", "--output", required=True, metavar="DIR", help="The folder.")
@click.option("--case", "name", metavar="NAME", help="Which case of a program or a report.")
@click.option(
    "--lane",
    callback=_lane,
    metavar="NAME[=PYTHON]",
    help="Where it differs.  [default: cpu; of a report: the lane that did not pass]",
)
@click.option("--plugin", metavar="LIBRARY", help="The library that brings the lane's provider.")
@click.option("--node", metavar="NAME", help="Which gather of an ONNX model.")
@click.option("--inputs", metavar="FILE", help="The model's inputs, as .npz.")
@click.option("--wrap", is_flag=True, help="Put the gather between two multiplications by one.")
@click.option("--no-reduce", is_flag=True, help="Keep the case as it is.")
@options.rule("clamp; of a node: error")
@options.models(
    "Whose models to run; default: those that run takes on the provider, of a report those of its "
    "lane."
)
@options.timeout
@options.allow_outside
def repro(
    source: str,
    output: str,
    name: str | None,
    lane: str | None,
    plugin: str | None,
    node: str | None,
    inputs: str | None,
    wrap: bool,
    no_reduce: bool,
    out_of_range: OutOfRange | None,
    target: Target | None,
    timeout: float,
    allow_outside: bool,
) -> int:
    """Write the smallest model that still differs on a lane, with all that shows it.

    SOURCE is a program, a report of `check --json`, or an ONNX model with --node and --inputs.
    DIR gets model.onnx, inputs.npz, a repro.py that needs only onnxruntime, numpy and the
    runtime.py that comes with it, and the text of an issue.
    """
    from onnxgather.lanes import open_lanes
    from onnxgather.repro import case_of_finding, lane_of_finding, make_repro, read_findings

    if inputs is not None and node is None:
        raise click.UsageError("--inputs must come with --node")
    report = read_findings(source) if node is None else None
    if report is not None:
        case = case_of_finding(report, name, source)
        lane = lane or lane_of_finding(report, case.name, source).name
    else:
        case = _case(source, name, node, inputs, out_of_range, allow_outside)
    lane_name, _, python = (lane or "cpu").partition("=")
    info = next((i for i in report.lanes if i.name == lane_name), None) if report else None
    if info is not None:
        python, target = python or info.python or "", target or info.target
    pythons = {lane_name: python or sys.executable}
    plugins = {lane_name: plugin} if plugin else {}
    if wrap and not case.wrapped:
        case = case.wrapped_in()
    (opened,) = open_lanes([], pythons, plugins, target, timeout)
    progress = Progress()
    with ExitStack() as stack:
        stack.callback(opened.close)
        stack.callback(progress.clear)
        made = make_repro(
            case,
            opened,
            output,
            library=plugin,
            reduce=not no_reduce,
            tried=lambda: progress.count("Smaller cases tried:"),
        )
    say(made.text)
    if made.result.state == "NOT-RUN":
        return NOT_RUN
    if made.folder is None:
        return GOOD
    return FINDINGS if made.shown else UNUSABLE


def _case(
    source: str,
    name: str | None,
    node: str | None,
    inputs: str | None,
    out_of_range: OutOfRange | None,
    allow_outside: bool,
) -> Case:
    from onnxgather.repro import case_of_node, case_of_program, read_inputs

    if node is None:
        if source.lower().endswith(".onnx"):
            raise OnnxGatherError(f"{source}: an ONNX model must come with --node, got none")
        program = read_program(source, allow_outside=allow_outside)
        return case_of_program(program, out_of_range or "clamp", name)
    arrays = read_inputs(inputs) if inputs is not None else {}
    return case_of_node(source, node, arrays, out_of_range or "error")
