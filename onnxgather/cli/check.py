"""The command `check`, and those of its corpus and its reports: `corpus export`, `report merge`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from signal import Signals
from typing import TYPE_CHECKING, Any

import click
import msgspec

from onnxgather.checking.cases import Case
from onnxgather.checking.check_options import CHECK_OPTIONS
from onnxgather.cli import arguments
from onnxgather.cli.outputs import Outputs, codes
from onnxgather.cli.sources import Batch, FileCases, JsonCommand, Reading, cases_in
from onnxgather.cli.terminal import Interrupted, say
from onnxgather.core.checks import check_choice, listed, shown_with_suggestion
from onnxgather.core.errors import FINDINGS, GOOD, UNUSABLE, DescriptorError
from onnxgather.core.files import is_model
from onnxgather.core.options import FORMATS, FormatName, OutOfRange, Target

if TYPE_CHECKING:
    from onnxgather.checking.known_differences import Known
    from onnxgather.checking.results import Invalid, Report
    from onnxgather.checking.run import Team

MOST_COMPARED = 10_000
"""The most names of cases that a wrong name is compared with."""

_STATES = """\b
States:
  PASS     the data type, shape and bytes of the reference, or both refuse
  DIFF     the output differs; the details say how, and where first
  ERROR    the provider failed, or its worker crashed or hung
  NOT-RUN  the provider is missing, does not start, or did not run a node
  KNOWN    DIFF, ERROR or NOT-RUN, explained in the file of known differences
  FIXED    PASS, although that file says otherwise
"""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The arguments and options of `onnxgather check`."""

    paths: tuple[str, ...]
    reading: Reading
    corpus: bool
    count: int | None
    """How many random cases."""
    seed: int
    lanes: arguments.Lanes
    required: tuple[str, ...]
    """The lanes that must run every case."""
    text: str
    """The text that the name of a case must have."""
    name: str | None
    """The name of the only case."""
    listing: bool
    """Whether the names of the cases are printed, and no case runs."""
    shard: tuple[int, int] | None
    """The number of the part of the cases, from 1, and how many parts there are."""
    maxfail: int | None
    jobs: int
    """How many workers each lane has."""
    wrap: bool
    out_of_range: OutOfRange | None
    """The policy; None means that of each case, and that of `run` for programs."""
    target: Target | None
    outputs: Outputs
    with_paths: bool
    known_files: tuple[str, ...]
    no_known: bool

    def with_source(self) -> CheckOptions:
        """The options with the source that the name of the only case tells, if they have none."""
        if self.name is None or self.paths or self.corpus or self.count:
            return self
        path, colon, _ = self.name.partition(": ")
        if colon:
            return replace(self, paths=(path,))
        if drawn := re.fullmatch("random/([0-9]{1,9})/([0-9]{1,6})", self.name):
            seed, number = map(int, drawn.groups())
            return replace(self, seed=seed, count=number + 1)
        return replace(self, corpus=True)

    def fits(self, name: str) -> bool:
        """Whether the case of a name may be checked."""
        return self.text in name and self.name in (None, name)

    def unfitted(self, names: Iterable[str]) -> str:
        """The message where no case fits, from the names of all."""
        known = [*islice(names, MOST_COMPARED)]
        if self.name is not None:
            return f"no case is named {shown_with_suggestion(self.name, known)}"
        length = self.text.count("/") + 1
        split = (name.split("/") for name in known)
        parts = {
            "/".join(one[k : k + length]) for one in split for k in range(len(one))
        }
        return (
            f"no case name contains {shown_with_suggestion(self.text, sorted(parts))}"
        )


@click.command("check", cls=JsonCommand, epilog=_STATES)
@click.argument("paths", nargs=-1, type=arguments.FILE, metavar="[PATH]...")
@arguments.of_check("corpus")
@arguments.of_check("random", "count")
@arguments.of_check("seed")
@arguments.lane_names(help=CHECK_OPTIONS["lanes"].help)
@arguments.lanes
@arguments.of_check("require", "required")
@click.option(
    "-k", "text", default="", metavar="TEXT", help="Only cases whose name has TEXT."
)
@click.option(
    "--case",
    "name",
    metavar="NAME",
    help=(
        "Only the case of this name, which a report tells; the name also says where the"
        " case is."
    ),
)
@arguments.flag(
    "--list", "listing", help="Print the names of the cases, and run no case."
)
@arguments.shard
@arguments.number("--maxfail", help="Stop after N findings.")
@arguments.number(
    "--jobs",
    most=64,
    default=1,
    help="Workers of each lane; the lanes run side by side in any case.",
)
@arguments.of_check("wrap")
@arguments.node
@arguments.inputs
@arguments.of_check("out-of-range")
@arguments.of_check("target")
@arguments.json_file("results")
@arguments.reports
@arguments.flag(
    "--with-paths",
    help="Let reports name interpreters, plugins and the home folder by their paths.",
)
@arguments.of_check("known", "known_files")
@arguments.of_check("no-known")
@arguments.file(
    "--write-known",
    "write_known_file",
    help=(
        "Write the findings, and what lanes of --require did not run, as known"
        " differences; what FILE lists is known, and stays there."
    ),
)
@arguments.allow_outside
@arguments.as_records(reading=Reading, lanes=arguments.Lanes, outputs=Outputs)
def check_command(**given: Any) -> int:
    """Compare what each lane returns with the reference, bit by bit.

    A lane is an execution provider, in this environment or another. A PATH is a
    program; or an ONNX model, with --inputs; or a folder: all *.json files in it and
    below it; or a pattern in quotes, such as 'tests/*.json'.
    """
    from onnxgather.checking.report_files import known_from, open_known
    from onnxgather.checking.run import check_all

    asked, batch = CheckOptions(**given).with_source(), Batch(prints=False)
    written = asked.outputs.write_known_file or ""
    before = open_known(written) if os.path.isfile(written) else ()
    known = [*before, *known_from(asked.known_files, ours=not asked.no_known)]
    lanes = _teams(asked)
    paths = list(dict.fromkeys(source.path for source in batch.sources(asked.paths)))
    asked.reading.check_models(*paths)
    read = [*paths, *filter(None, [asked.reading.inputs])]
    asked.outputs.check_apart(read)
    asked.outputs.check_writable()
    if asked.listing and asked.outputs.by_option:
        raise click.UsageError(
            f"--list must come without {next(iter(asked.outputs.by_option))}"
        )
    cases, planned, invalid = iter(list[Case]()), 0, list["Invalid"]()
    with ExitStack() as stack:
        for lane in lanes:
            stack.callback(lane.close)
        stack.callback(batch.progress.clear)
        try:
            found = _found(asked, batch, paths, invalid)
            asked.outputs.check_apart(chain(read, *(one.files for one in found)))
            names, cases, planned = _planned(asked, batch, found, invalid)
            if asked.listing:
                for name in names:
                    batch.say(name)
                for one in invalid:
                    batch.tell(f"{one.file}: {one.reason}")
                return batch.finish([FINDINGS] if invalid else [])
        except Interrupted as signal:  # the report says so, and no lane starts
            batch.stop, lanes = signal, []
        stack.enter_context(batch.first_signal_kept())
        report = check_all(
            cases,
            lanes,
            asked.required,
            seen=lambda _: batch.progress.count("Checking", planned),
            known=known,
            planned=planned,
            jobs=asked.jobs,
            maxfail=asked.maxfail,
            stop=lambda: batch.stop.name if batch.stop else None,
        )
        report = msgspec.structs.replace(report, invalid=invalid)
        _write(asked, batch, report, before)
        return batch.finish(codes(report))


def _teams(asked: CheckOptions) -> list[Team]:
    """The lanes, each of as many workers as there are jobs.

    Raises:
        UsageError: A lane cannot be opened, or a required lane is not one of them.
    """
    from onnxgather.checking.run import Team

    lanes = asked.lanes
    if not lanes.are_named:
        lanes = replace(lanes, lanes=["cpu"])
    with arguments.as_usage(click.UsageError):
        same = zip(*(lanes.open(asked.target) for _ in range(asked.jobs)), strict=True)
        teams = [*map(Team, same)]
        for name in asked.required:
            check_choice("--require", name, [team.name for team in teams])
    return teams


def _write(
    asked: CheckOptions, batch: Batch, report: Report, before: Sequence[Known]
) -> None:
    """Write the report, with what went wrong before the check."""
    from onnxgather.checking.report import without_paths
    from onnxgather.core.execution.elsewhere.hosts import is_library

    unusable = [str(error) for _, error in batch.failures]
    shard = asked.shard and "/".join(map(str, asked.shard))
    told = {"unusable": unusable, "shard": shard, "no_known": bool(asked.no_known)}
    report = msgspec.structs.replace(report, **told)
    lanes = asked.lanes
    libraries = [*lanes.plugins.values(), *filter(is_library, lanes.pythons.values())]
    shown = report if asked.with_paths else without_paths(report, libraries)
    asked.outputs.write_report(batch, report, shown, before)


def _found(
    asked: CheckOptions, batch: Batch, paths: Sequence[str], invalid: list[Invalid]
) -> list[FileCases]:
    """The cases of the paths, programs first; what DirectML refuses is put into `invalid`."""
    from onnxgather.checking.results import Invalid

    found: list[FileCases] = []
    for path in sorted(paths, key=is_model):
        with batch.step(path):
            try:
                found.append(cases_in(batch, path, asked.reading, asked.out_of_range))
                invalid += [Invalid(path, reason) for reason in found[-1].refused]
            except DescriptorError as error:
                invalid.append(Invalid(path, str(error).removeprefix(f"{path}: ")))
    return found


def _planned(
    asked: CheckOptions,
    batch: Batch,
    found: Sequence[FileCases],
    invalid: Sequence[Invalid],
) -> tuple[Iterator[str], Iterator[Case], int]:
    """The names of the cases or the cases, of which one may be read, and how many they are."""
    from onnxgather.checking.corpus import built_in_cases, random_cases, random_names

    built_in = [*built_in_cases(asked.out_of_range)] if asked.corpus else []
    random = asked.count or 0
    total = sum(len(one.names) for one in found) + len(built_in) + random
    if not total + len(invalid):
        if batch.failures:
            raise click.exceptions.Exit(batch.finish())
        raise click.UsageError(
            "there is nothing to check: give a PATH, --corpus or --random N"
        )
    (part, parts), numbers = asked.shard or (1, 1), count()

    def names() -> Iterator[str]:
        yield from chain(
            *(one.names for one in found), (case.name for case in built_in)
        )
        yield from random_names(random, asked.seed)

    if asked.text or asked.name is not None:
        total = sum(map(asked.fits, names()))
        if not total:
            raise click.UsageError(asked.unfitted(names()))

    def chosen(name: str) -> bool:
        """Whether a case runs; asked of each case once, in order."""
        return asked.fits(name) and next(numbers) % parts == part - 1

    def cases() -> Iterator[Case]:
        for one in found:
            with batch.step(one.path):
                yield from (case for case in one.each if chosen(case.name))
        yield from (case for case in built_in if chosen(case.name))
        yield from random_cases(random, asked.seed, asked.out_of_range, chosen)

    wrapped = (case.wrapped_in() for case in cases()) if asked.wrap else cases()
    return filter(chosen, names()), wrapped, (total + parts - part) // parts


@click.group("corpus")
def corpus_command() -> None:
    """Export the cases that `check --corpus` runs."""


@corpus_command.command("export", short_help="Write the corpus for others to run.")
@click.option(
    "--format",
    "name",
    type=click.Choice(list(FORMATS)),
    required=True,
    metavar="FORMAT",
    help="; ".join(f"{name}: {content}" for name, content in FORMATS.items()) + ".",
)
@click.argument("folder", type=arguments.FOLDER, metavar="DIR")
def export_command(name: FormatName, folder: str) -> int:
    """Write the corpus to DIR, which must be empty or an earlier export.

    DIR gets a README that says how to run the cases without onnxgather.
    """
    from onnxgather.checking.corpus import built_in_cases
    from onnxgather.checking.corpus import export as write

    exported = write(built_in_cases(), name, folder)
    say(f"{folder}: {exported.written:,} cases")
    for why, cases in exported.left_out.items():
        say(f"left out: {cases:,}, as each {why}")
    return GOOD


@click.group("report")
def report_command() -> None:
    """Work on the reports of `check --json`."""


@report_command.command(
    "merge", cls=JsonCommand, short_help="Make one report of several."
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@arguments.json_file("whole", "-o")
@arguments.reports
@arguments.as_records(outputs=Outputs)
def merge_command(files: tuple[str, ...], outputs: Outputs) -> int:
    """Make one report of those that `check --shard K/N --json=FILE` wrote.

    The lanes of all must agree in name, provider, versions and target. Where shards are
    missing, the report of the others is written, and the exit code is 2. Otherwise it
    is the exit code that the whole check would have had.
    """
    from onnxgather.checking.merge import merge
    from onnxgather.checking.report_files import open_report

    outputs.check_apart(files)
    outputs.check_writable()
    batch = Batch(prints=False)
    whole, missing = merge([(file, open_report(file)) for file in files])
    outputs.write_report(batch, whole, whole)
    if missing:
        say(
            f"Error: every shard must be given, got none of {listed(missing, 10)}",
            err=True,
        )
    ended = Signals.__members__.get(whole.interrupted or "")
    code = batch.finish(
        [*codes(whole), *([UNUSABLE] if whole.unusable or missing else [])]
    )
    return code if ended is None else 128 + ended
