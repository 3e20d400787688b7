"""The commands `doctor` and `repro`: what is wrong with an installation, and with a gather."""

from __future__ import annotations

from contextlib import closing

import click

from onnxgather.checks import shown
from onnxgather.cli import arguments
from onnxgather.cli.sources import Batch
from onnxgather.cli.terminal import Progress, json_bytes, say
from onnxgather.errors import FINDINGS, GOOD, NOT_RUN, UNUSABLE, OnnxGatherError
from onnxgather.files import is_model
from onnxgather.options import OutOfRange, Target


@click.command("doctor")
@arguments.lanes
@arguments.as_json
def doctor_command(
    pythons: dict[str, str], plugins: dict[str, str], timeout: float, as_json: bool
) -> int:
    """Examine this Python environment, and others given as lanes.

    Says which wheels own the module onnxruntime and which providers run a gather, and gives the
    commands that mend what is wrong.
    """
    from onnxgather.doctor import examine

    checkup = examine(pythons, plugins, timeout=timeout)
    say(json_bytes(checkup) if as_json else str(checkup), as_is=True)
    return checkup.exit_code


def _lane(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[str, str | None] | None:
    """The name and the path of a lane that can be opened."""
    from onnxgather.parity.lanes import open_lanes, parse_lane

    if value is None:
        return None
    with arguments.as_usage():
        name, python = parse_lane(value)
        open_lanes([name])
        return name, python


@click.command("repro")
@click.argument("source", type=arguments.FILE, metavar="SOURCE")
@arguments.folder("-o", "--output", required=True, metavar="DIR", help="The folder.")
@click.option("--case", "name", metavar="NAME", help="Which case of a program or a report.")
@click.option(
    "--lane",
    callback=_lane,
    metavar="NAME[=PATH]",
    help="Where it differs.  [default: cpu; of a report: the lane that did not pass]",
)
@arguments.file("--plugin", metavar="LIBRARY", help="The library that brings the lane's provider.")
@arguments.node
@arguments.inputs
@arguments.flag("--wrap", help="Put the gather between two multiplications by one.")
@arguments.flag("--no-reduce", help="Keep the case as it is.")
@arguments.policy("clamp; of a node and of a report: its own")
@arguments.target(
    "the one that run uses for the lane's provider; of a report: the lane's; of a node: the node"
)
@arguments.timeout
@arguments.allow_outside
def repro_command(
    source: str,
    output: str,
    name: str | None,
    lane: tuple[str, str | None] | None,
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
    """Write a folder with the smallest model whose result on a lane still differs.

    SOURCE is a program, a report of `check --json`, or an ONNX model with --node and --inputs.
    DIR gets model.onnx, inputs.npz, a repro.py that needs only onnxruntime, numpy and the
    runtime.py that comes with it, and the text of an issue.
    """
    from onnxgather.networks.extraction import case_of_node
    from onnxgather.networks.inputs import read_inputs
    from onnxgather.parity.lanes import open_lanes
    from onnxgather.parity.reading import find_report
    from onnxgather.repro import plan
    from onnxgather.repro.flow import make_repro

    if inputs is not None and node is None:
        raise click.UsageError("--inputs must come with --node")
    lane_name, python = lane or ("cpu", None)
    reported = None
    if node is not None:
        if name or out_of_range or target:
            rule = "--case, --out-of-range and --target must come without --node"
            raise click.UsageError(f"{rule}, as a node runs as it is in ONNX")
        arrays = read_inputs(inputs) if inputs is not None else {}
        case = case_of_node(source, arrays, node, timeout)
        target = "portable"
    elif (report := find_report(source)) is not None:
        if out_of_range:
            raise click.UsageError(
                "--out-of-range must come without a report, as its cases have it"
            )
        if lane is None and plan.nothing_wrong(report, name):
            what = "any case" if name is None else f"case {shown(name)}"
            say(f"{source}: no lane went wrong in {what}: nothing to reproduce")
            return GOOD
        case = plan.case_of_finding(report, name, source)
        if lane is None:
            lane_name = plan.lane_of_finding(report, case.name, source).name
        reported = next((info for info in report.lanes if info.name == lane_name), None)
        target = target or (reported.target if reported else None)
    elif is_model(source):
        raise OnnxGatherError(f"{source}: an ONNX model must come with --node, got none")
    else:
        program = Batch().read(source, allow_outside)
        case = plan.case_of_program(program, out_of_range or "clamp", name)
    if wrap and not case.wrapped:
        case = case.wrapped_in()
    plugins = {lane_name: plugin} if plugin else {}
    pythons = {lane_name: python} if python else {}
    (opened,) = open_lanes([lane_name], pythons, plugins, target, timeout)
    progress = Progress()
    with closing(opened), closing(progress):
        made = make_repro(
            case,
            opened,
            output,
            library=plugin,
            reported=None if python else reported,
            reduce=not no_reduce,
            tried=lambda: progress.count("Smaller cases tried:"),
        )
    say(made.text)
    if made.stop is not None:
        raise made.stop
    if made.result.state == "NOT-RUN":
        return NOT_RUN
    if made.folder is None:
        return GOOD
    return FINDINGS if made.shown else UNUSABLE
