"""The commands that look for what is wrong: with an installation, and with a gather."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, get_args

import click

from onnxgather.arrays import OutOfRange
from onnxgather.cli import options
from onnxgather.cli.group import main
from onnxgather.dxdispatch import read_program
from onnxgather.errors import OnnxGatherError
from onnxgather.terminal import FINDINGS, GOOD, NOT_RUN, UNUSABLE, say, say_json

if TYPE_CHECKING:
    from onnxgather.parity.cases import Case
    from onnxgather.parity.results import Report


@main.command(short_help="Say which wheels and providers work.")
@options.lanes
@options.as_json
def doctor(pythons: dict[str, str], plugins: dict[str, str], timeout: float, as_json: bool) -> int:
    """Examine this Python environment, and others given as lanes.

    Says which wheels own the module onnxruntime, what the versions load, and which providers
    really run a gather; for what is wrong, the command that mends it.
    """
    from onnxgather.doctor import examine

    checkup = examine(pythons, plugins, timeout=timeout)
    if as_json:
        say_json(checkup)
    else:
        say(str(checkup))
    return checkup.exit_code


@main.command(short_help="Reduce a difference to a folder that shows it.")
@click.argument("source", metavar="SOURCE")
@click.option("-o", "--output", required=True, metavar="DIR", help="The folder.")
@click.option("--case", "name", metavar="NAME", help="Which case of a program or a report.")
@click.option(
    "--lane",
    metavar="NAME[=PYTHON]",
    help="Where it differs.  [default: cpu; of a report: the lane that did not pass]",
)
@click.option("--plugin", metavar="LIBRARY", help="The library that brings the lane's provider.")
@click.option("--node", metavar="NAME", help="Which gather of an ONNX model.")
@click.option("--inputs", metavar="FILE", help="The model's inputs, as .npz.")
@click.option("--wrap", is_flag=True, help="Put the gather between two multiplications by one.")
@click.option("--no-reduce", is_flag=True, help="Keep the case as it is.")
@click.option(
    "--out-of-range",
    type=click.Choice(get_args(OutOfRange)),
    metavar="RULE",
    help="What an index out of range does: clamp, error, zero or directml.  [default: clamp; of "
    "a node: error]",
)
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
    allow_outside: bool,
) -> int:
    """Write the smallest model that still differs on a lane, with all that shows it.

    SOURCE is a program, a report of `check --json`, or an ONNX model with --node and --inputs.
    DIR gets model.onnx, inputs.npz, a repro.py that needs onnxruntime and numpy only, and the
    text of an issue.
    """
    from onnxgather.parity.lanes import open_lanes
    from onnxgather.repro import case_of_finding, make_repro

    report = _report(source)
    if report is not None:
        case = case_of_finding(report, name)
        lane = lane or _lane_of(report, case.name)
    else:
        case = _case(source, name, node, inputs, out_of_range, allow_outside)
    lane_name, _, python = (lane or "cpu").partition("=")
    if report is not None and not python:
        python = next((i.python for i in report.lanes if i.name == lane_name and i.python), "")
    pythons = {lane_name: python or sys.executable}
    (opened,) = open_lanes([], pythons, {lane_name: plugin} if plugin else {})
    try:
        made = make_repro(case, opened, output, reduce=not no_reduce, wrap=wrap, library=plugin)
    finally:
        opened.close()
    say(made.text)
    if made.result.state == "NOT-RUN":
        return NOT_RUN
    if made.folder is None:
        return GOOD
    return FINDINGS if made.shown else UNUSABLE


def _report(source: str) -> Report | None:
    """Return the report that a file holds, None where it holds something else."""
    import msgspec

    from onnxgather.parity.results import read_report

    try:
        with open(source, "rb") as file:
            return read_report(file.read())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _lane_of(report: Report, name: str) -> str:
    """Return the one lane of a report on which a case went wrong."""
    found = [
        info.name
        for case in report.cases
        for info, result in zip(report.lanes, case.results, strict=True)
        if case.name == name and (result.found or result.state) in ("DIFF", "ERROR")
    ]
    if len(found) != 1:
        lanes = ", ".join(found) or "none"
        raise OnnxGatherError(f"--lane must name where case {name!r} goes wrong: {lanes}")
    return found[0]


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
        program = read_program(source, allow_outside=allow_outside)
        return case_of_program(program, out_of_range or "clamp", name)
    arrays = read_inputs(inputs) if inputs is not None else {}
    return case_of_node(source, node, arrays, out_of_range or "error")
