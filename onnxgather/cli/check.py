"""The command `check`, which compares providers with the reference."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec

from onnxgather.cli import options
from onnxgather.cli.sources import Batch
from onnxgather.cli.terminal import has_colours, json_bytes, main, say, width
from onnxgather.dxdispatch import Program, read_program
from onnxgather.errors import FINDINGS, NOT_RUN, DescriptorError, FileFormatError, OnnxGatherError
from onnxgather.files import is_report, write_whole
from onnxgather.options import OutOfRange, Target
from onnxgather.providers import NAMES

if TYPE_CHECKING:
    from onnxgather.cases import Case
    from onnxgather.parity.results import Invalid, Report

_STATES = """\b
States:
  PASS     the data type, shape and bytes of the reference, or both refuse
  DIFF     the output differs; the details say how, and where first
  ERROR    the provider failed, or its worker crashed or hung
  NOT-RUN  the provider is missing, does not start, or did not run a node
  KNOWN    DIFF, ERROR or NOT-RUN, explained in the file of known differences
  FIXED    PASS, although that file says otherwise
"""


def _names(_ctx: click.Context, _param: click.Parameter, value: str | None) -> list[str]:
    names = [name.strip() for name in (value or "").split(",") if name.strip()]
    if value is not None and not names:
        raise click.BadParameter(f"must be names with commas, got {value!r}")
    return names


@dataclass(frozen=True, slots=True)
class CheckOptions:
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
    out_of_range: OutOfRange | None
    """The policy; None means that of each case, and "clamp" for programs."""
    target: Target | None
    json_file: str | None
    """"-" is the standard output."""
    junit_file: str | None
    html_file: str | None
    allow_outside: bool

    @property
    def files(self) -> list[str]:
        """The files that are written."""
        json_file = None if self.json_file == "-" else self.json_file
        files = (json_file, self.junit_file, self.html_file)
        return [file for file in files if file is not None]


@main.command(short_help="Compare providers with the reference.", epilog=_STATES)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--corpus", is_flag=True, help="Check the built-in corpus.")
@click.option(
    "--random",
    "count",
    type=click.IntRange(1),
    metavar="N",
    help="Check N random descriptors.",
)
@click.option("--seed", type=click.IntRange(0), default=0, metavar="S", help="Of --random.")
@click.option(
    "--lanes",
    callback=_names,
    metavar="NAMES",
    help=f"Providers, with commas: {NAMES}; directml-dll is DirectML itself.  [default: cpu]",
)
@click.option("--provider", callback=options.provider, metavar="NAME", hidden=True)
@options.lanes
@click.option(
    "--require",
    "required",
    multiple=True,
    metavar="NAME",
    help="A lane where a case that did not run, unexplained, means exit code 3.",
)
@click.option("--wrap", is_flag=True, help="Put each gather between two multiplications by one.")
@options.policy("clamp; of the corpus and of --random: each case's own")
@options.target("the one that run uses for the provider")
@click.option(
    "--json",
    "json_file",
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="Write the results as JSON; print them where there is no FILE.",
)
@click.option("--junit", "junit_file", metavar="FILE", help="Write them for test reporters.")
@click.option("--html", "html_file", metavar="FILE", help="Write them as one page to read.")
@options.allow_outside
def check(**given: Any) -> int:
    """Compare what each lane returns with the reference, bit by bit.

    A lane is an execution provider, in this environment or another. A PATH is a program, or a
    folder: all *.json files in it and below it.
    """
    asked = CheckOptions(**given)
    if asked.json_file is not None and _is_input(asked.json_file):  # the flag, and then a path
        asked = replace(asked, paths=(*asked.paths, asked.json_file), json_file="-")
    if not (asked.lanes or asked.pythons or asked.plugins):
        only = asked.provider or "cpu"
        asked = replace(asked, lanes=[only], required=(*asked.required, only))
    return _run(asked)


def _run(asked: CheckOptions) -> int:
    from onnxgather.lanes import open_lanes
    from onnxgather.parity.check import check as check_lanes

    batch = Batch(prints=False)
    programs, invalid = _programs(batch, asked)
    _check_files(asked.files, programs)
    with ExitStack() as stack:
        try:
            lanes = open_lanes(
                asked.lanes, asked.pythons, asked.plugins, asked.target, asked.timeout
            )
        except OnnxGatherError as error:
            raise click.UsageError(str(error)) from None
        for lane in lanes:
            stack.callback(lane.close)
        names = [lane.name for lane in lanes]
        for name in asked.required:
            if name not in names:
                known = ", ".join(names)
                raise click.UsageError(f"--require must name a lane ({known}), got {name!r}")
        built_in = list(_built_in(asked.out_of_range)) if asked.corpus else []
        total = len(built_in) + (asked.count or 0) + sum(p.dispatch_count for p in programs)
        if not total + len(invalid) + len(batch.failures):
            raise click.UsageError("there is nothing to check: give a PATH, --corpus or --random N")
        if not total + len(invalid):
            return batch.finish()
        cases = _cases(batch, asked, programs, built_in)
        if asked.wrap:
            cases = (case.wrapped_in() for case in cases)
        stack.callback(batch.progress.clear)
        seen = partial(batch.progress.count, "Checking", total)
        report = check_lanes(cases, lanes, asked.required, lambda _: seen())
    unusable = [str(error) for _, error in batch.failures]
    report = msgspec.structs.replace(report, invalid=invalid, unusable=unusable)
    _write(batch, report, asked)
    return batch.finish(_codes(report))


def _is_input(path: str) -> bool:
    """Whether a path exists and is no report, so that it must be a PATH to check."""
    if not os.path.isfile(path):
        return os.path.isdir(path)
    with open(path, "rb") as file:
        return not is_report(file.read(100))


def _programs(batch: Batch, asked: CheckOptions) -> tuple[list[Program], list[Invalid]]:
    """The programs to check, and the files with an invalid descriptor."""
    from onnxgather.parity.results import Invalid

    programs: list[Program] = []
    invalid: list[Invalid] = []
    for path in {source.path: None for source in batch.sources(asked.paths)}:
        with batch.step(path):
            try:
                program = read_program(path, allow_outside=asked.allow_outside)
            except DescriptorError as error:
                invalid.append(Invalid(path, str(error).removeprefix(f"{path}: ")))
                continue
            if not program.dispatch_count:
                raise FileFormatError(f"{path}: $.commands must hold a dispatch")
            programs.append(program)
    return programs, invalid


def _cases(
    batch: Batch, asked: CheckOptions, programs: Sequence[Program], built_in: Sequence[Case]
) -> Iterator[Case]:
    from onnxgather.cases import program_cases
    from onnxgather.corpus import random_cases

    for program in programs:
        with batch.step(program.path):
            yield from program_cases(program, asked.out_of_range or "clamp")
    yield from built_in
    yield from random_cases(asked.count or 0, asked.seed, asked.out_of_range)


def _built_in(out_of_range: OutOfRange | None) -> Iterator[Case]:
    """Yield the corpus; under one policy, all cases in range and the other cases that have it."""
    from onnxgather.cases import DescriptorCase
    from onnxgather.corpus import corpus

    for case in corpus():
        if out_of_range is None or case.out_of_range == out_of_range:
            yield case
        elif isinstance(case, DescriptorCase) and case.in_range:  # all policies give the same
            name = f"{case.name}/{out_of_range}"
            yield replace(case, name=name, out_of_range=out_of_range)


def _codes(report: Report) -> Iterator[int]:
    """Yield the exit codes that a report calls for."""
    from onnxgather.parity.states import BAD
    from onnxgather.report.sentences import unmet

    results = [result for case in report.cases for result in case.results]
    if report.invalid or any(result.state in BAD for result in results):
        yield FINDINGS
    nothing_ran = all((result.found or result.state) == "NOT-RUN" for result in results)
    if unmet(report) or (results and nothing_ran):
        yield NOT_RUN


def _write(batch: Batch, report: Report, asked: CheckOptions) -> None:
    """Write the report to the files asked for; print the table, or the JSON if asked for."""
    from onnxgather.report import html, junit, render

    writers = [(asked.json_file, json_bytes), (asked.junit_file, junit), (asked.html_file, html)]
    if asked.json_file == "-":
        say(json_bytes(report))
    else:
        say(render(report, width(), colour=has_colours()), as_is=True)
    for file, written in writers:
        if file in asked.files:
            with batch.step(file):
                write_whole(file, written(report))


def _check_files(files: Sequence[str], programs: Sequence[Program]) -> None:
    """Check that each report goes to a file of its own, and none to a program."""
    taken = {os.path.realpath(program.path): program.path for program in programs}
    for file in files:
        if (other := taken.get(os.path.realpath(file))) is not None:
            raise click.UsageError(f"a report must go to a file of its own, got {file} and {other}")
        taken[os.path.realpath(file)] = file
