"""The command `check`, which compares providers with the reference."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import click
import msgspec

from onnxgather.checks import check_choice, shown
from onnxgather.cli import arguments
from onnxgather.cli.report import Outputs, codes
from onnxgather.cli.sources import Batch, check_is_model
from onnxgather.cli.terminal import Interrupted, first_signal_kept
from onnxgather.errors import DescriptorError, FileFormatError
from onnxgather.files import check_writable, is_model, is_report
from onnxgather.options import OutOfRange, Target
from onnxgather.parity.asked import CHECK_OPTIONS
from onnxgather.programs import Program

if TYPE_CHECKING:
    from onnxgather.parity.cases import Case
    from onnxgather.parity.checking import Team
    from onnxgather.parity.results import Invalid

_STATES = """\b
States:
  PASS     the data type, shape and bytes of the reference, or both refuse
  DIFF     the output differs; the details say how, and where first
  ERROR    the provider failed, or its worker crashed or hung
  NOT-RUN  the provider is missing, does not start, or did not run a node
  KNOWN    DIFF, ERROR or NOT-RUN, explained in the file of known differences
  FIXED    PASS, although that file says otherwise
"""


def _shard(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    if value is None:
        return None
    from onnxgather.parity.merge import parse_shard

    with arguments.as_usage():
        return parse_shard("the shard", value)


@dataclass(frozen=True, slots=True)
class CheckOptions(Outputs):
    """The arguments and options of `onnxgather check`."""

    paths: tuple[str, ...]
    corpus: bool
    count: int | None
    """How many random cases."""
    seed: int
    lanes: list[str]
    provider: str | None
    """The provider of the only lane, if no lane is named."""
    pythons: dict[str, str]
    plugins: dict[str, str]
    timeout: float
    required: tuple[str, ...]
    wrap: bool
    node: str | None
    """The only gather of ONNX models."""
    inputs: str | None
    """The file of their inputs."""
    out_of_range: OutOfRange | None
    """The policy; None means that of each case, and "clamp" for programs."""
    target: Target | None
    with_paths: bool
    known_files: tuple[str, ...]
    no_known: bool
    allow_outside: bool
    text: str
    """The text that the name of a case must have."""
    maxfail: int | None
    jobs: int
    shard: tuple[int, int] | None
    """The number of the part of the cases, from 1, and how many parts there are."""


@click.command("check", epilog=_STATES)
@click.argument("paths", nargs=-1, type=arguments.FILE, metavar="[PATH]...")
@arguments.of_check("corpus")
@arguments.of_check("random", "count")
@arguments.of_check("seed")
@arguments.lane_names(help=CHECK_OPTIONS["lanes"].help)
@click.option("--provider", callback=arguments.provider, metavar="NAME", hidden=True)
@arguments.lanes
@arguments.of_check("require", "required")
@click.option("-k", "text", default="", metavar="TEXT", help="Only cases whose name has TEXT.")
@click.option(
    "--shard",
    callback=_shard,
    metavar="K/N",
    help="Only the K-th of N parts of the cases, such as 2/8; each case is in one part.",
)
@arguments.number("--maxfail", metavar="N", help="Stop after N findings.")
@arguments.number(
    "--jobs",
    most=64,
    default=1,
    metavar="N",
    help="Workers of each lane; the lanes run side by side in any case.",
)
@arguments.of_check("wrap")
@arguments.node
@arguments.inputs
@arguments.of_check("out-of-range")
@arguments.of_check("target")
@arguments.file(
    "--json",
    "json_file",
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="Write the results as JSON; print them where there is no FILE.",
)
@arguments.reports
@arguments.flag(
    "--with-paths",
    help="Let reports name interpreters, plugins and the home folder by their paths.",
)
@arguments.of_check("known", "known_files")
@arguments.of_check("no-known")
@arguments.allow_outside
def check_command(**given: Any) -> int:
    """Compare what each lane returns with the reference, bit by bit.

    A lane is an execution provider, in this environment or another. A PATH is a program; or an
    ONNX model, with --inputs; or a folder: all *.json files in it and below it.
    """
    asked = CheckOptions(**given)
    if asked.json_file is not None and _is_input(asked.json_file):  # the flag, and then a path
        asked = replace(asked, paths=(*asked.paths, asked.json_file), json_file="-")
    if not (asked.lanes or asked.pythons or asked.plugins):
        asked = replace(asked, lanes=[asked.provider or "cpu"])
    return _run(asked)


def _run(asked: CheckOptions) -> int:
    from onnxgather.execution.library import is_library
    from onnxgather.parity.checking import check as check_lanes
    from onnxgather.parity.reading import known_from
    from onnxgather.report import without_paths

    batch = Batch(prints=False)
    known = known_from(asked.known_files, ours=not asked.no_known)
    lanes = _lanes(asked)
    paths = list(dict.fromkeys(source.path for source in batch.sources(asked.paths)))
    networks = [path for path in paths if is_model(path)]
    if not networks and (asked.node is not None or asked.inputs is not None):
        check_is_model(", ".join(paths) or "none")
    asked.check_apart([*paths, *filter(None, [asked.inputs])])
    for file in asked.files:
        check_writable(file)
    cases: Iterable[Case] = ()
    planned = 0
    invalid: list[Invalid] = []
    signals: list[Interrupted] = []
    with ExitStack() as stack:
        for lane in lanes:
            stack.callback(lane.close)
        stack.callback(batch.progress.clear)
        try:
            of_models = _of_models(asked, batch, networks, invalid)
            others = [path for path in paths if path not in networks]
            programs = _programs(asked, batch, others, invalid)
            cases, planned = _planned(asked, batch, programs, of_models, invalid)
        except Interrupted as signal:  # the report says so, and no lane starts
            signals, lanes = [signal], []
        stack.enter_context(first_signal_kept(signals))
        report = check_lanes(
            cases,
            lanes,
            asked.required,
            seen=lambda _: batch.progress.count("Checking", planned),
            known=known,
            planned=planned,
            jobs=asked.jobs,
            maxfail=asked.maxfail,
            stop=lambda: signals[0].name if signals else None,
        )
        unusable = [str(error) for _, error in batch.failures]
        shard = asked.shard and "/".join(map(str, asked.shard))
        report = msgspec.structs.replace(report, invalid=invalid, unusable=unusable, shard=shard)
        libraries = [*asked.plugins.values(), *filter(is_library, asked.pythons.values())]
        shown = report if asked.with_paths else without_paths(report, libraries)
        asked.write(batch, report, shown)
        code = batch.finish(codes(report))
        if signals:
            raise signals[0]
        return code


def _lanes(asked: CheckOptions) -> list[Team]:
    """The lanes, each of as many workers as there are jobs."""
    from onnxgather.parity.checking import Team
    from onnxgather.parity.lanes import open_lanes

    named = asked.lanes, asked.pythons, asked.plugins, asked.target, asked.timeout
    with arguments.as_usage(click.UsageError):
        same = zip(*(open_lanes(*named) for _ in range(asked.jobs)), strict=True)
        lanes = [*map(Team, same)]
        for name in asked.required:
            check_choice("--require", name, [lane.name for lane in lanes])
        return lanes


def _planned(
    asked: CheckOptions,
    batch: Batch,
    programs: Sequence[Program],
    of_models: Sequence[Case],
    invalid: Sequence[Invalid],
) -> tuple[Iterator[Case], int]:
    """The cases, and how many they are."""
    from onnxgather.parity.cases import program_cases, program_names
    from onnxgather.parity.corpus import built_in_cases, random_cases, random_names

    built_in = [*of_models, *(built_in_cases(asked.out_of_range) if asked.corpus else ())]
    random = asked.count or 0
    total = sum(len(program.dispatch_commands) for program in programs) + len(built_in) + random
    if not total + len(invalid):
        if batch.failures:
            raise click.exceptions.Exit(batch.finish())
        raise click.UsageError("there is nothing to check: give a PATH, --corpus or --random N")
    if asked.text:
        names = (case.name for case in built_in)
        names = chain(*map(program_names, programs), names, random_names(random, asked.seed))
        total = sum(asked.text in name for name in names)
        if not total:
            raise click.UsageError(f"-k must be in the name of a case, got {asked.text!r}")
    (part, parts), numbers = asked.shard or (1, 1), count()

    def chosen(name: str) -> bool:
        """Whether a case runs; asked of each case once, in order."""
        return asked.text in name and next(numbers) % parts == part - 1

    def cases() -> Iterator[Case]:
        for program in programs:
            with batch.step(program.path):
                every = program_cases(program, asked.out_of_range or "clamp")
                yield from (case for case in every if chosen(case.name))
        yield from (case for case in built_in if chosen(case.name))
        yield from random_cases(random, asked.seed, asked.out_of_range, chosen)

    found = cases()
    wrapped = (case.wrapped_in() for case in found) if asked.wrap else found
    return wrapped, (total + parts - part) // parts


def _is_input(path: str) -> bool:
    """Whether a path exists and is neither a report nor empty, so that it is a PATH to check."""
    if not os.path.isfile(path):
        return os.path.isdir(path)
    with open(path, "rb") as file:
        start = file.read(100)
    return bool(start) and not is_report(start)


def _programs(
    asked: CheckOptions, batch: Batch, paths: Sequence[str], invalid: list[Invalid]
) -> list[Program]:
    """The programs to check; files with an invalid descriptor are put into `invalid`."""
    from onnxgather.parity.results import Invalid

    programs: list[Program] = []
    for path in paths:
        with batch.step(path):
            try:
                program = batch.read(path, asked.allow_outside)
            except DescriptorError as error:
                invalid.append(Invalid(path, str(error).removeprefix(f"{path}: ")))
                continue
            if not program.dispatch_commands:
                raise FileFormatError(f"{path}: $.commands must hold a dispatch")
            asked.check_apart(program.files)
            programs.append(program)
    return programs


def _of_models(
    asked: CheckOptions, batch: Batch, paths: Sequence[str], invalid: list[Invalid]
) -> list[Case]:
    """The gathers of ONNX models with what they get; those that DirectML refuses are invalid."""
    from onnxgather.networks.extraction import gather_cases
    from onnxgather.networks.inputs import read_inputs
    from onnxgather.parity.cases import DescriptorCase
    from onnxgather.parity.results import Invalid

    cases: list[Case] = []
    for path in paths:
        with batch.step(path):
            arrays = read_inputs(asked.inputs) if asked.inputs is not None else {}
            for told, case in gather_cases(path, arrays, asked.node):
                where = f"{told.place}: {told.operator} {shown(told.node)}: {told.left_out}"
                if case is not None:
                    if asked.out_of_range and isinstance(case, DescriptorCase):
                        case = replace(case, out_of_range=asked.out_of_range)
                    cases.append(case)
                elif told.executions:
                    invalid.append(Invalid(path, where))
                else:
                    batch.tell(f"{path}: left out: {where}")
    return cases
