"""The commands `doctor` and `repro`: what is wrong with an installation, and with a gather."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from onnxgather.cli import arguments
from onnxgather.cli.arguments import Lanes
from onnxgather.cli.outputs import Outputs
from onnxgather.cli.sources import Batch, JsonCommand, Reading
from onnxgather.cli.terminal import Progress, json_bytes, say
from onnxgather.core.checks import shown
from onnxgather.core.errors import GOOD, NOT_RUN, UNUSABLE, OnnxGatherError
from onnxgather.core.files import is_model
from onnxgather.core.options import OutOfRange, Target

if TYPE_CHECKING:
    from onnxgather.checking.cases import Case
    from onnxgather.checking.lanes.lane import LaneInfo
    from onnxgather.checking.results import Report


@click.command("doctor", cls=JsonCommand)
@arguments.lanes
@arguments.json_file("findings")
@arguments.as_records(lanes=Lanes, outputs=Outputs)
def doctor_command(lanes: Lanes, outputs: Outputs) -> int:
    """Examine this Python environment, and others given as lanes.

    Says which wheels own the module onnxruntime and which providers run a gather, and
    gives the commands that mend what is wrong.
    """
    from onnxgather.checking.doctor import examine

    lanes.check_paths()
    outputs.check_writable()
    checkup = examine(lanes.pythons, lanes.plugins, timeout=lanes.timeout)
    batch = Batch(prints=False)
    if not outputs.write(batch, {"--json": partial(json_bytes, checkup)}):
        say(str(checkup), as_is=True)
    return batch.finish([checkup.exit_code])


def _lane(text: str) -> tuple[str, str | None]:
    """The name and the path of a lane that can be opened."""
    from onnxgather.checking.lanes import open_lanes, parse_lane

    with arguments.as_usage():
        name, python = parse_lane(text)
        open_lanes([name])
        return name, python


@dataclass(frozen=True, slots=True)
class ReproOptions:
    """The options that say which case may differ, and where."""

    name: str | None
    """The case of a program or of a report."""
    lane: tuple[str, str | None] | None
    """The name and the path of the lane."""
    plugin: str | None
    """The library that brings the lane's provider."""
    wrap: bool
    out_of_range: OutOfRange | None
    target: Target | None


@dataclass(frozen=True, slots=True)
class Suspect:
    """A case that may differ on a lane."""

    case: Case
    target: Target | None
    reported: LaneInfo | None = None
    """The lane as a report describes it."""


@click.command("repro")
@click.argument("source", type=arguments.FILE, metavar="SOURCE")
@arguments.folder("-o", "--output", required=True, help="The folder.")
@click.option(
    "--case", "name", metavar="NAME", help="Which case of a program or a report."
)
@click.option(
    "--lane",
    type=_lane,
    metavar="NAME[=PATH]",
    help="Where it differs.  [default: cpu; of a report: the lane that did not pass]",
)
@arguments.file(
    "--plugin",
    metavar="[NAME=]LIBRARY",
    help="The library that brings the lane's provider; NAME is the lane's.",
)
@arguments.node
@arguments.inputs
@arguments.flag("--wrap", help="Put the gather between two multiplications by one.")
@arguments.flag("--no-reduce", help="Keep the case as it is.")
@arguments.policy(default_in_help="directml; of a node and of a report: its own")
@arguments.target(
    default_in_help=(
        "the one that run uses for the lane's provider; of a report: the lane's; of a"
        " node: the node"
    )
)
@arguments.timeout
@arguments.allow_outside
@arguments.as_records(reading=Reading, asked=ReproOptions)
def repro_command(
    source: str,
    output: str,
    no_reduce: bool,
    timeout: float,
    reading: Reading,
    asked: ReproOptions,
) -> int:
    """Write a folder with the smallest model whose result on a lane still differs.

    SOURCE is a program, a report of `check --json`, or an ONNX model with --node and
    --inputs. DIR gets model.onnx, inputs.npz, a repro.py that needs only onnxruntime,
    numpy and the runtime.py that comes with it, and the text of an issue.
    """
    from onnxgather.checking.report_files import find_report
    from onnxgather.checking.repro.flow import make_repro

    if reading.inputs is not None and reading.node is None:
        raise click.UsageError("--inputs must come with --node")
    if reading.node is not None:
        suspect = _of_node(source, reading, asked, timeout)
    elif (report := find_report(source)) is not None:
        suspect = _of_report(source, report, asked)
    elif is_model(source):
        raise OnnxGatherError(
            f"{source}: an ONNX model must come with --node, got none"
        )
    else:
        suspect = _of_program(source, reading, asked)
    if suspect is None:
        what = "any case" if asked.name is None else f"case {shown(asked.name)}"
        say(f"{source}: no lane went wrong in {what}: nothing to reproduce")
        return GOOD
    case, reported = suspect.case, suspect.reported
    name, python = asked.lane or (reported.name if reported else "cpu", None)
    if asked.wrap and not case.wrapped:
        case = case.wrapped_in()
    plugins = {name: asked.plugin.removeprefix(f"{name}=")} if asked.plugin else {}
    pythons = {name: python} if python else {}
    (opened,) = Lanes(pythons, plugins, timeout, [name]).open(suspect.target)
    progress = Progress()
    with closing(opened), closing(progress):
        made = make_repro(
            case,
            opened,
            output,
            reported=None if python else reported,
            reduce=not no_reduce,
            tried=lambda: progress.count("Smaller cases tried:"),
        )
    say(made.text)
    if made.stop is not None:
        raise made.stop
    if made.result.state == "NOT-RUN":
        return NOT_RUN
    return GOOD if made.folder is None or made.shown else UNUSABLE


def _of_node(
    source: str, reading: Reading, asked: ReproOptions, timeout: float
) -> Suspect:
    """The gather of an ONNX model, as it is there."""
    from onnxgather.extracting.extract import case_of_node

    if asked.name or asked.out_of_range or asked.target:
        rule = "--case, --out-of-range and --target must come without --node"
        raise click.UsageError(f"{rule}, as a node runs as it is in ONNX")
    case = case_of_node(source, reading.arrays(), reading.node, timeout)
    return Suspect(case, "portable")


def _of_report(source: str, report: Report, asked: ReproOptions) -> Suspect | None:
    """The case of a report; None if no lane is named and none went wrong in the case."""
    from onnxgather.checking.repro import plan

    if asked.out_of_range:
        raise click.UsageError(
            "--out-of-range must come without a report, as its cases have it"
        )
    if asked.lane is None and plan.nothing_wrong(report, asked.name):
        return None
    case = plan.case_of_finding(report, asked.name, source)
    if asked.lane is None:
        reported = plan.lane_of_finding(report, case.name, source)
    else:
        reported = next(
            (info for info in report.lanes if info.name == asked.lane[0]), None
        )
    return Suspect(case, asked.target or (reported and reported.target), reported)


def _of_program(source: str, reading: Reading, asked: ReproOptions) -> Suspect:
    """The case of a dispatch of a program."""
    from onnxgather.checking.repro import plan

    program = Batch().read(source, reading.allow_outside)
    case = plan.case_of_program(program, asked.out_of_range, asked.name)
    return Suspect(case, asked.target)
