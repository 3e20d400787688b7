"""The command that compares providers with the reference."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import click
import msgspec

from onnxgather.cli import options
from onnxgather.cli.group import main
from onnxgather.cli.terminal import Batch, has_colours, json_bytes, say_json, width
from onnxgather.dxdispatch import Program, read_program
from onnxgather.errors import FINDINGS, NOT_RUN, DescriptorError, FileFormatError, OnnxGatherError
from onnxgather.files import is_report, write_whole
from onnxgather.options import OutOfRange, Target

if TYPE_CHECKING:
    from onnxgather.cases import Case
    from onnxgather.parity.results import Invalid, Report

_STATES = """\b
States:
  PASS     the data type, shape and bytes of the reference, or both refuse
  DIFF     they differ; the details say how, and where first
  ERROR    the provider failed, or its worker crashed or hung
  NOT-RUN  the provider is missing, does not start, or lacks a node
  KNOWN    one of the last three, explained in the file of known differences
  FIXED    PASS, although that file says otherwise
"""


def _names(_ctx: click.Context, _param: click.Parameter, value: str | None) -> list[str]:
    names = [name.strip() for name in (value or "").split(",") if name.strip()]
    if value is not None and not names:
        raise click.BadParameter(f"must be names with commas, got {value!r}")
    return names


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
    help="Providers, with commas: cpu,openvino,directml or full names; directml-dll is DirectML "
    "itself.  [default: cpu]",
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
@options.rule("clamp; of the corpus and of --random: each case's own")
@options.models("Whose models to check; default: those that run takes on the provider.")
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
def check(
    paths: Sequence[str],
    corpus: bool,
    count: int | None,
    seed: int,
    lanes: list[str],
    provider: str | None,
    pythons: dict[str, str],
    plugins: dict[str, str],
    timeout: float,
    required: Sequence[str],
    wrap: bool,
    out_of_range: OutOfRange | None,
    target: Target | None,
    json_file: str | None,
    junit_file: str | None,
    html_file: str | None,
    allow_outside: bool,
) -> int:
    """Compare what each lane returns with the reference, bit by bit.

    A lane is an execution provider, in this environment or another. A PATH is a program, or a
    folder: all *.json files in it and below it.
    """
    from onnxgather.lanes import open_lanes
    from onnxgather.parity.check import check as check_lanes

    if json_file is not None and _is_input(json_file):  # `--json PATH`: the flag, and a path
        paths, json_file = [*paths, json_file], "-"
    if not (lanes or pythons or plugins):
        lanes = [provider or "cpu"]
        required = [*required, *lanes]
    batch = Batch(prints=False)
    programs, invalid = _programs(batch, paths, allow_outside)
    _check_files((json_file, junit_file, html_file), programs)
    with ExitStack() as stack:
        try:
            opened = open_lanes(lanes, pythons, plugins, target, timeout)
        except OnnxGatherError as error:
            raise click.UsageError(str(error)) from None
        for lane in opened:
            stack.callback(lane.close)
        for name in required:
            if name not in [lane.name for lane in opened]:
                known = ", ".join(lane.name for lane in opened)
                raise click.UsageError(f"--require must name a lane ({known}), got {name!r}")
        built_in = list(_built_in(out_of_range)) if corpus else []
        total = len(built_in) + (count or 0) + sum(p.dispatch_count for p in programs)
        if not total + len(invalid) + len(batch.failures):
            raise click.UsageError("there is nothing to check: give a PATH, --corpus or --random N")
        if not total + len(invalid):
            return batch.finish()
        found = chain(
            _from_programs(batch, programs, out_of_range or "clamp"),
            built_in,
            _random(count or 0, seed, out_of_range),
        )
        if wrap:
            found = (case.wrapped_in() for case in found)
        stack.callback(batch.progress.clear)
        report = check_lanes(
            found, opened, required, lambda _: batch.progress.count("Checking", total)
        )
    unusable = [str(error) for _, error in batch.failures]
    report = msgspec.structs.replace(report, invalid=invalid, unusable=unusable)
    _write(batch, report, json_file, junit_file, html_file)
    return batch.finish(_codes(report))


def _is_input(path: str) -> bool:
    """Return whether a path is there and is no report, so that it must not be written to."""
    if not os.path.isfile(path):
        return os.path.isdir(path)
    with open(path, "rb") as file:
        return not is_report(file.read(100))


def _programs(
    batch: Batch, paths: Sequence[str], allow_outside: bool
) -> tuple[list[Program], list[Invalid]]:
    """Return the programs to check, and what holds a broken descriptor instead."""
    from onnxgather.parity.results import Invalid

    programs: list[Program] = []
    invalid: list[Invalid] = []
    sources = {source.path: source for source in batch.sources(paths)}
    for source in sources.values():
        with batch.step(source.path):
            try:
                program = read_program(source.path, allow_outside=allow_outside)
            except DescriptorError as error:
                text = str(error).removeprefix(f"{source.path}: ")
                invalid.append(Invalid(source.path, text))
                continue
            if not program.dispatch_count:
                raise FileFormatError(f"{source.path}: $.commands must hold a dispatch")
            programs.append(program)
    return programs, invalid


def _from_programs(
    batch: Batch, programs: Sequence[Program], out_of_range: OutOfRange
) -> Iterator[Case]:
    from onnxgather.cases import program_cases

    for program in programs:
        with batch.step(program.path):
            yield from program_cases(program, out_of_range)


def _built_in(out_of_range: OutOfRange | None) -> Iterator[Case]:
    """Yield the corpus; under one rule, the cases in range and those out of range that have it."""
    from onnxgather.cases import DescriptorCase
    from onnxgather.corpus import corpus

    for case in corpus():
        if out_of_range is None or case.out_of_range == out_of_range:
            yield case
        elif isinstance(case, DescriptorCase) and case.in_range:  # then every rule gives the same
            name = f"{case.name}/{out_of_range}"
            yield replace(case, name=name, out_of_range=out_of_range)


def _random(count: int, seed: int, out_of_range: OutOfRange | None) -> Iterator[Case]:
    from onnxgather.corpus import random_cases

    yield from random_cases(count, seed, out_of_range)


def _codes(report: Report) -> Iterator[int]:
    """Yield the exit codes that a report calls for."""
    if report.invalid:
        yield FINDINGS
    from onnxgather.parity.states import BAD

    ran = False
    for number, lane in enumerate(report.lanes):
        counts = report.counts(number)
        ran |= any(
            (case.results[number].found or case.results[number].state) != "NOT-RUN"
            for case in report.cases
        )
        if any(counts[state] for state in BAD):
            yield FINDINGS
        if lane.required and counts["NOT-RUN"]:
            yield NOT_RUN
    if report.cases and not ran:
        yield NOT_RUN


def _write(
    batch: Batch,
    report: Report,
    json_file: str | None,
    junit_file: str | None,
    html_file: str | None,
) -> None:
    """Write a report in the forms asked for; the table goes to the terminal unless JSON does."""
    from onnxgather.report import html, junit, render

    if json_file == "-":
        say_json(report)
    else:
        batch.say(render(report, width(), colour=has_colours()))
    forms: list[tuple[str | None, Callable[[Report], bytes]]] = [
        (None if json_file == "-" else json_file, json_bytes),
        (junit_file, junit),
        (html_file, html),
    ]
    for file, form in forms:
        if file is not None:
            with batch.step(file):
                write_whole(file, form(report))


def _check_files(files: Sequence[str | None], programs: Sequence[Program]) -> None:
    """Check that each report goes to a file of its own, which is no program."""
    taken = {os.path.realpath(program.path): program.path for program in programs}
    for file in files:
        if file is None or file == "-":
            continue
        if (other := taken.get(os.path.realpath(file))) is not None:
            raise click.UsageError(f"a report must go to a file of its own, got {file} and {other}")
        taken[os.path.realpath(file)] = file
