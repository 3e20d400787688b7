"""The commands `doctor` and `repro`: they examine an installation and a gather."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import click
from click import UsageError

from onnxgather.checking.cases import drawn_cases
from onnxgather.cli import arguments
from onnxgather.cli.arguments import Lanes
from onnxgather.cli.examples import command
from onnxgather.cli.outputs import Outputs
from onnxgather.cli.sources import (
    Batch,
    Reading,
    case_with_inputs,
    check_has_gather,
    notes_on_drawn,
    refuse_for_model,
)
from onnxgather.cli.terminal import Progress, say
from onnxgather.cli.unforeseen import foreseen
from onnxgather.core.checks import shown
from onnxgather.core.errors import GOOD, NOT_RUN, UNUSABLE, OnnxGatherError
from onnxgather.core.files import check_outside
from onnxgather.core.options import DEFAULT_OPSET, OutOfRange, Target

if TYPE_CHECKING:
    from onnxgather.checking.cases import Case, DescriptorCase
    from onnxgather.checking.lanes.lane import LaneInfo
    from onnxgather.checking.results import Report
    from onnxgather.core.programs.program import Program


@command("doctor")
@arguments.lanes
@arguments.json_file("findings")
@arguments.as_records(lanes=Lanes, outputs=Outputs)
def doctor_command(lanes: Lanes, outputs: Outputs) -> int:
    """Examine this Python environment, and others given as lanes.

    Says which wheels own the module onnxruntime and which providers run a gather, and
    gives the commands that mend what is wrong. With --plugin it tries only the lanes
    that are named.
    """
    from onnxgather.checking.doctor import examine

    lanes.check_paths()
    outputs.check_writable()
    checkup = examine(
        lanes.pythons,
        lanes.plugins,
        timeout=lanes.timeout,
        adapters=lanes.adapters,
        provider_options=lanes.provider_options,
    )
    batch = Batch(prints=False)
    is_printed = outputs.write_json(batch, checkup)
    if not is_printed:
        say(str(checkup), as_is=True)
    return batch.finish([checkup.exit_code])


def _lane(text: str) -> tuple[str, str | None]:
    """Return the name and the path of a lane."""
    from onnxgather.checking.lanes import parse_lane

    with arguments.as_usage():
        return parse_lane(text)


class ReproOptions(NamedTuple):
    """The options that say which case may differ, and where."""

    name: str | None
    """The case of a program or of a report."""
    lane: tuple[str, str | None] | None
    """The name and the path of the lane."""
    plugin: str | None
    """The library that brings the lane's provider, or the package that has it."""
    provider_options: dict[str, dict[str, str]]
    adapters: dict[str, str]
    """The files of adapters, by the names of their lanes."""
    wrap: bool
    out_of_range: OutOfRange | None
    target: Target | None


class Suspect(NamedTuple):
    """A case that may differ on a lane."""

    case: Case
    target: Target | None
    reported: LaneInfo | None = None
    """The lane as a report describes it."""
    others: Sequence[Case] = ()
    """Cases that may differ where that one is right."""


@command("repro", click.Command)
@arguments.argument("source", metavar="SOURCE")
@arguments.folder("-o", "--output", required=True, help="The folder.")
@arguments.name_option("--case", "name", help="Which case of a program or a report.")
@click.option(
    "--lane",
    type=_lane,
    metavar="NAME[=PATH]",
    help=(
        "Where it differs; `check --help` lists the forms at its end.  [default: cpu;"
        " of a report: the lane that did not pass]"
    ),
)
@arguments.file(
    "--plugin",
    metavar="[NAME=]LIBRARY",
    help=(
        "The library that brings the lane's provider, or the Python package that has"
        " it; NAME is the lane's."
    ),
)
@arguments.provider_option
@arguments.adapter
@arguments.node
@arguments.inputs
@arguments.flag("--wrap", help="Put the gather between two multiplications by one.")
@arguments.flag("--no-reduce", help="Keep the case as it is.")
@arguments.force
@arguments.policy(
    default_in_help="clamp; of a model, of a node and of a report: its own"
)
@arguments.target(
    default_in_help=(
        "the one that run uses for the lane's provider; of a report: the lane's; of a"
        " node: the node"
    )
)
@arguments.timeout
@arguments.allow_outside
@arguments.as_records(reading=Reading, options=ReproOptions)
def repro_command(
    source: str,
    output: str,
    no_reduce: bool,
    force: bool,
    timeout: float,
    reading: Reading,
    options: ReproOptions,
) -> int:
    """Write a folder with the smallest model whose result on a lane still differs.

    SOURCE is a program, a descriptor alone, a report of `check --json`, an ONNX model
    that onnxgather wrote, or another one with --node and --inputs. DIR gets model.onnx,
    inputs.npz, the text of an issue, and a repro.py that needs only onnxruntime, or the
    runtime of the lane, numpy and the module beside it. On the lane of a browser it
    gets a repro.html instead.
    """
    from onnxgather.checking.repro.flow import make_repro

    check_outside([source, reading.inputs], output)
    suspect = _suspect(source, reading, options, timeout)
    _check_lane(options)
    if suspect is None:
        cases = "any case"
        if options.name is not None:
            cases = f"case {shown(options.name)}"
        say(f"{source}: no lane went wrong in {cases}: nothing to reproduce")
        return GOOD

    cases = [suspect.case, *suspect.others]
    if options.wrap:
        cases = [case if case.wrapped else case.wrapped_in() for case in cases]
    case, *others = cases
    reported = suspect.reported
    lanes = _lanes(options, reported, timeout)
    if lanes.pythons:
        # The lane of another environment is not the lane of the report.
        reported = None
    (lane,) = lanes.open(suspect.target)
    progress = Progress()
    with closing(lane), closing(progress):
        repro = make_repro(
            case,
            lane,
            output,
            others=others,
            reported=reported,
            reduce=not no_reduce,
            tried=lambda: progress.count("Smaller cases tried:"),
            force=force,
        )
    say(repro.text)
    if repro.stop is not None:
        raise repro.stop
    if repro.result.state == "NOT-RUN":
        return NOT_RUN
    # A folder is unusable if its script does not show the difference.
    if repro.folder is not None and not repro.shown:
        return UNUSABLE
    return GOOD


def _check_lane(options: ReproOptions) -> None:
    """Check the name of --lane, and that each adapter is there and is the lane's."""
    from onnxgather.checking.lanes.lane import CASE_TIMEOUT

    for name, path in options.adapters.items():
        if options.lane is None or options.lane[0].partition("@")[0] != name:
            raise UsageError(f"--adapter {name}={path} must come with --lane {name}")
    if options.lane is None:
        return
    try:
        # Later it is opened anew, with what a report says of it.
        _lanes(options, None, CASE_TIMEOUT).open(None)
    except OnnxGatherError as error:
        raise click.BadParameter(str(error), param_hint="'--lane'") from None


def _lanes(options: ReproOptions, reported: LaneInfo | None, timeout: float) -> Lanes:
    """Return the options of the only lane.

    It is that of --lane, else that of the report, else that of --plugin, else cpu.
    """
    name = "cpu"
    pythons = dict[str, str]()
    if options.lane is not None:
        name, python = options.lane
        if python:
            pythons[name] = python
    elif reported is not None:
        name = reported.name
    elif options.plugin:
        name = options.plugin.partition("=")[0]
    # The name before the library is optional, as there is only this lane.
    plugins = dict[str, str]()
    if options.plugin:
        plugins[name] = options.plugin.removeprefix(f"{name}=")
    settings = options.provider_options
    opset = DEFAULT_OPSET
    if reported is not None:
        opset = reported.opset or opset
        settings = settings or {name: reported.provider_options}
    adapters = options.adapters
    return Lanes(pythons, plugins, adapters, timeout, [name], opset, settings)


def _suspect(
    source: str, reading: Reading, options: ReproOptions, timeout: float
) -> Suspect | None:
    """Return the case that may differ; None if no lane went wrong in it.

    Raises:
        OnnxGatherError: The source cannot be read, or is a model without --node.
        UsageError: An option is not for a source of this kind.
    """
    from onnxgather.checking.report_files import find_report

    if reading.node is not None:
        return _of_node(source, reading, options, timeout)
    report = find_report(source)
    if report is not None:
        return _of_report(source, report, reading, options)
    batch = Batch()
    program = batch.program_of(source, reading)
    if program is None:
        raise OnnxGatherError(
            f"{source}: an ONNX model that onnxgather did not write must come with"
            " --node, got none"
        )
    return _of_program(batch, program, reading, options)


def _of_node(
    source: str, reading: Reading, options: ReproOptions, timeout: float
) -> Suspect:
    """Return the gather of an ONNX model, as it is there."""
    from onnxgather.extracting.extract import case_of_node

    if options.name or options.out_of_range or options.target:
        raise UsageError(
            "--case, --out-of-range and --target must come without --node"
            ", as a node runs as it is in ONNX"
        )
    with foreseen(f"{source}: cannot be read"):
        case = case_of_node(source, reading.arrays(), reading.node, timeout)
    return Suspect(case, "portable")


def _of_report(
    source: str, report: Report, reading: Reading, options: ReproOptions
) -> Suspect | None:
    """Return the case of a report.

    It is None if no lane is named and none went wrong in the case.
    """
    from onnxgather.checking.report.sentences import options_again
    from onnxgather.checking.repro import plan

    if options.out_of_range:
        raise UsageError(
            "--out-of-range must come without a report, as its cases have it"
        )
    if reading.inputs is not None:
        raise UsageError(
            "--inputs must come without a report, as its cases have theirs"
        )
    if options.lane is None and plan.nothing_wrong(report, options.name):
        return None
    case = plan.case_of_finding(report, options.name, source)
    reported = None
    if options.lane is None:
        reported = plan.lane_of_finding(report, case.name, source)
        if reported.has_answers:
            raise OnnxGatherError(
                f"{source}: --lane must name a lane that can run the case, as the"
                f" answers of {shown(reported.name)} came from a folder"
            )
    else:
        # A lane that is named need not be in the report.
        named = [info for info in report.lanes if info.name == options.lane[0]]
        reported = next(iter(named), None)
    # A report never names a program to start, nor a library to load.
    if reported is not None:
        lacks_adapter = reported.adapter is not None and not options.adapters
        lacks_plugin = reported.plugin is not None and not options.plugin
        if lacks_adapter or lacks_plugin:
            words = shlex.join(options_again(reported))
            raise OnnxGatherError(
                f"{source}: lane {shown(reported.name)} needs its own options"
                f", such as --lane {reported.name} {words}"
            )
    target = options.target
    if target is None and reported is not None:
        target = reported.target
    return Suspect(case, target, reported)


def _of_program(
    batch: Batch, program: Program, reading: Reading, options: ReproOptions
) -> Suspect:
    """Return the case of a dispatch of a program, or of a descriptor alone.

    Without a name, the cases of a descriptor alone are all suspect.
    """
    from onnxgather.checking.repro import plan

    policy = options.out_of_range
    check_has_gather(program)
    if program.model is not None and (options.target or options.wrap):
        option = "--wrap" if options.wrap else f"--target {options.target}"
        refuse_for_model(option, program.path)
    if reading.inputs is not None:
        if options.name is not None:
            raise UsageError("--case must come without --inputs")
        case = case_with_inputs(program, reading, policy)
        return Suspect(case, options.target)

    for note in notes_on_drawn(program, policy):
        batch.tell(note)
    others: list[DescriptorCase] = []
    if program.dispatch_commands or options.name is not None:
        case = plan.case_of_program(program, policy, options.name)
    else:
        case, *others = drawn_cases(program, policy)
    return Suspect(case, options.target, others=others)
