"""The commands `check`, `corpus export` and `report merge`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from signal import Signals
from typing import TYPE_CHECKING, Any

import click
import msgspec

from onnxgather.checking.cases import Case
from onnxgather.cli import arguments
from onnxgather.cli.choice import Choice
from onnxgather.cli.examples import command, examples_of
from onnxgather.cli.outputs import Outputs, codes
from onnxgather.cli.sources import (
    Batch,
    FileCases,
    JsonCommand,
    Reading,
    cases_in,
    refuse_for_model,
)
from onnxgather.cli.terminal import BY_SIGNAL, Interrupted, say
from onnxgather.core.checks import check_choice, listed, number_of
from onnxgather.core.errors import FINDINGS, GOOD, UNUSABLE, DescriptorError
from onnxgather.core.files import is_model
from onnxgather.core.options import (
    DEFAULT_OPSET,
    FORMATS,
    FormatName,
    OutOfRange,
    Target,
)

if TYPE_CHECKING:
    from onnxgather.checking.known_differences import Known
    from onnxgather.checking.results import Invalid, Report
    from onnxgather.checking.run import Team

HELP_ON_LANES = """\b
Forms of --lane:
  openvino=env/bin/python  the interpreter of another environment, which needs
                           numpy, and onnxruntime or the lane's own runtime
  cpu@mine=libmine.so      an ONNX Runtime library (.so, .so.1, .dll, .dylib)
  directml=FOLDER          the folder that a setup.sh filled
  web-wasm=FOLDER          the folder of onnxruntime-web, for lanes web-...
A label tells two lanes of one provider apart, such as cpu@old. If the label
is a target, as in cpu@native, the lane's models are made for this target. If
it is CPU, GPU or NPU, the lane of --plugin uses the devices of this type;
with a number, as in mine@GPU:1, it uses one of them, counted from 0.
"""

HELP_ON_STATES = """\b
States:
  PASS     the data type, shape and bytes of the reference, or both refuse
  DIFF     the output differs; the details say how, and where first
  ERROR    the provider failed, or its worker crashed or hung
  NOT-RUN  the provider is missing, does not start, or did not run a node
  KNOWN    DIFF, ERROR or NOT-RUN, explained in the file of known differences
  FIXED    PASS, although that file says otherwise
"""


@dataclass(frozen=True)
class Reporting:
    """The options that say which cases count, and what is written of them."""

    choice: Choice
    known: arguments.KnownFiles
    outputs: Outputs
    with_paths: bool

    def finish(
        self,
        batch: Batch,
        report: Report,
        before: Sequence[Known],
        libraries: Iterable[str] = (),
    ) -> int:
        """Write a report, with what went wrong before; return the exit code.

        Args:
            batch: It has the errors of files.
            report: The report of the cases.
            before: The known differences that were in the file of --write-known.
            libraries: As of `without_paths`.
        """
        from onnxgather.checking.known_differences import with_fixed
        from onnxgather.checking.report import without_paths

        cases = report.cases
        # Case: no shard, whose known differences may explain cases of another shard.
        if self.choice.shard_text is None:
            cases = with_fixed(cases)
        report = msgspec.structs.replace(
            report,
            cases=cases,
            unusable=[str(error) for _, error in batch.failures],
            shard=self.choice.shard_text,
            no_known=bool(self.known.no_known),
        )
        shown = report
        if not self.with_paths:
            shown = without_paths(report, libraries)
        self.outputs.write_report(batch, report, shown, before)
        return batch.finish(codes(report))


@dataclass(frozen=True)
class CheckOptions(Reporting):
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
    listing: bool
    """Whether the names of the cases are printed, and no case runs."""
    maxfail: int | None
    jobs: int
    """How many workers each lane has."""
    wrap: bool
    out_of_range: OutOfRange | None
    """The policy; None means that of each case, as `policy_of` says of a program."""
    target: Target | None

    @property
    def has_source(self) -> bool:
        """Whether the options say where cases come from."""
        return bool(self.paths or self.corpus or self.count)

    def with_source(self) -> CheckOptions:
        """Return the options with the source of the only case.

        Where no option names a source, the name of the case tells it.
        """
        name = self.choice.name
        if name is None or self.has_source:
            return self
        # Case 1: `PATH: DISPATCH`, the case of a file.
        path, colon, _ = name.partition(": ")
        if colon:
            return replace(self, paths=(path,))
        # Case 2: `random/SEED/NUMBER`.
        random = re.fullmatch("random/([0-9]{1,9})/([0-9]{1,6})", name)
        if random:
            seed, number = map(int, random.groups())
            return replace(self, seed=seed, count=number + 1)
        # Case 3: any other name is one of the corpus.
        return replace(self, corpus=True)


@command("check", words=f"{HELP_ON_LANES}\n{HELP_ON_STATES}")
@arguments.argument("paths", nargs=-1, metavar="[PATH]...")
@arguments.built_in
@arguments.lane_names
@arguments.lanes
@arguments.required
@arguments.choice("; the name also says where the case is")
@arguments.flag(
    "--list", "listing", help="Print the names of the cases, and run no case."
)
@arguments.number("--maxfail", help="Stop after N findings.")
@arguments.number(
    "--jobs",
    most=64,
    default=1,
    help="Workers of each lane; the lanes run side by side in any case.",
)
@arguments.flag("--wrap", help="Put each gather between two multiplications by one.")
@arguments.node
@arguments.inputs
@arguments.policy(
    default_in_help=(
        "clamp; of the corpus, of --random and of ONNX models: each case's own"
    )
)
@arguments.target(
    default_in_help=(
        "the one that run uses for the provider; the lanes directml-dll, onnxgather and"
        " webnn have none"
    )
)
@arguments.opset
@arguments.json_file("results")
@arguments.reports
@arguments.with_paths
@arguments.known
@arguments.allow_outside
def check_command(**values: Any) -> int:
    """Compare what each lane returns with the reference, bit by bit.

    A lane is an execution provider or another runtime, in this environment or
    elsewhere. A PATH is a program; or a descriptor alone; or an ONNX model that
    onnxgather wrote, which the lanes run as it is; or another model, with --inputs; or
    a folder: all *.json files in it and below it; or a pattern in quotes, such as
    'tests/*.json'. Where a descriptor has no data, three cases are drawn.
    """
    from onnxgather.core.execution.elsewhere.hosts import is_library

    options = options_of(values)
    outputs = options.outputs
    batch = Batch(prints=False)
    before = outputs.known_before()
    known_differences = [*before, *options.known.read()]
    lanes = teams_of(options)
    paths = _paths(options, batch)
    read = [*paths]
    if options.reading.inputs:
        read.append(options.reading.inputs)
    outputs.check_apart(read)
    outputs.check_writable()
    if options.listing and outputs.by_option:
        first_option = next(iter(outputs.by_option))
        raise click.UsageError(f"--list must come without {first_option}")

    with ExitStack() as stack:
        for lane in lanes:
            stack.callback(lane.close)
        stack.callback(batch.progress.clear)
        selection = Selection()
        try:
            _find_cases(options, batch, paths, selection)
            files = chain.from_iterable(cases.files for cases in selection.files)
            outputs.check_apart_from_models(chain(read, files))
            _select(options, batch, selection)
            if options.listing:
                return _list(batch, selection)
            # The errors of the files are told by then.
            if not selection.count and not selection.invalid:
                return batch.finish()
        except Interrupted as signal:  # the report says so, and no lane starts
            batch.stop = signal
            lanes = []
        stack.enter_context(batch.first_signal_kept())
        report = _checked(options, batch, selection, lanes, known_differences)
        libraries = [*options.lanes.plugins.values(), *options.lanes.adapters.values()]
        libraries += filter(is_library, options.lanes.pythons.values())
        return options.finish(batch, report, before, libraries)


def options_of(values: dict[str, Any]) -> CheckOptions:
    """Return the arguments and options of a check.

    Args:
        values: What click read, by the parameters of the command.
    """
    records = {
        "reading": Reading,
        "lanes": arguments.Lanes,
        "choice": Choice,
        "outputs": Outputs,
        "known": arguments.KnownFiles,
    }
    arguments.in_records(values, records)
    return CheckOptions(**values).with_source()


def _check_models_run_as_they_are(
    options: CheckOptions, files: Sequence[FileCases]
) -> None:
    """Check that no option asks for another model than that of a file.

    Raises:
        UsageError: One does.
    """
    from onnxgather.checking.lanes.python import target_of_lane

    option = ""
    lanes = options.lanes
    names = [*(lanes.lanes or ()), *lanes.pythons]
    targets = [name for name in names if target_of_lane(name, None)]
    if options.target is not None:
        option = f"--target {options.target}"
    elif lanes.opset != DEFAULT_OPSET:
        option = f"--opset {lanes.opset}"
    elif options.wrap:
        option = "--wrap"
    elif targets:
        option = f"the lane {targets[0]}"
    for file in files:
        if file.runs_file:
            refuse_for_model(option, file.path)


@dataclass
class Selection:
    """The cases that are checked."""

    files: list[FileCases] = field(default_factory=list[FileCases])
    """The cases of the paths, of which each may be read once."""
    invalid: list[Invalid] = field(default_factory=list["Invalid"])
    """What DirectML refuses."""
    names: Iterable[str] = ()
    """The names of the cases; either they or the cases may be read."""
    cases: Iterable[Case] = ()
    count: int = 0
    """How many cases there are."""


def selected(options: CheckOptions, batch: Batch) -> Selection:
    """Return the cases that options choose.

    Args:
        options: The options.
        batch: It keeps the errors of the files.

    Raises:
        UsageError: There is nothing to check, or no case fits.
    """
    selection = Selection()
    paths = _paths(options, batch)
    _find_cases(options, batch, paths, selection)
    _select(options, batch, selection)
    return selection


def _list(batch: Batch, selection: Selection) -> int:
    """Print the names of the cases, and what is invalid; return the exit code."""
    for name in selection.names:
        batch.say(name)
    for invalid in selection.invalid:
        batch.tell(f"{invalid.file}: {invalid.reason}")
    return batch.finish([FINDINGS] if selection.invalid else [])


def _checked(
    options: CheckOptions,
    batch: Batch,
    selection: Selection,
    lanes: Sequence[Team],
    known_differences: Sequence[Known],
) -> Report:
    """Return the report of the cases on the lanes."""
    from onnxgather.checking.run import check_all

    report = check_all(
        selection.cases,
        lanes,
        options.required,
        seen=lambda _: batch.progress.count("Checking", selection.count),
        known=known_differences,
        planned=selection.count,
        jobs=options.jobs,
        maxfail=options.maxfail,
        stop=lambda: batch.stop.name if batch.stop else None,
    )
    return msgspec.structs.replace(report, invalid=selection.invalid)


def teams_of(options: CheckOptions) -> list[Team]:
    """Return the lanes, each of as many workers as there are jobs.

    Raises:
        UsageError: A lane cannot be opened, or a required lane is not one of them.
    """
    from onnxgather.checking.run import Team

    lanes = options.lanes
    if not lanes.are_named:
        lanes = lanes._replace(lanes=["cpu"])
    with arguments.as_usage(click.UsageError):
        opened = [lanes.open(options.target) for _ in range(options.jobs)]
        # Each job opened all lanes; a team is the same lane of all jobs.
        teams = [Team(workers) for workers in zip(*opened, strict=True)]
        names = [team.name for team in teams]
        for name in options.required:
            check_choice("--require", name, names)
    return teams


def _paths(options: CheckOptions, batch: Batch) -> list[str]:
    """Return the files that the paths name."""
    sources = batch.sources(options.paths)
    paths = list(dict.fromkeys(source.path for source in sources))
    options.reading.check_models(*paths)
    return paths


def _find_cases(
    options: CheckOptions, batch: Batch, paths: Sequence[str], selection: Selection
) -> None:
    """Put the cases of the paths into a selection, programs first, and what is invalid.

    A signal may end the search, and the report then has what was found before.
    """
    from onnxgather.checking.results import Invalid

    for path in sorted(paths, key=is_model):
        with batch.step(path):
            try:
                cases = cases_in(batch, path, options.reading, options.out_of_range)
            except DescriptorError as error:
                # An entry of a report has the file in a field of its own.
                reason = str(error)
                if error.place == path:
                    reason = error.message_in_place
                selection.invalid.append(Invalid(path, reason))
                continue
            selection.files.append(cases)
            for reason in cases.refused:
                selection.invalid.append(Invalid(path, reason))


def _select(options: CheckOptions, batch: Batch, selection: Selection) -> None:
    """Choose the cases of the files, the corpus and the random cases.

    Raises:
        UsageError: There is nothing to check, or no case fits; or as
            `_check_models_run_as_they_are`.
    """
    from onnxgather.checking.corpus import built_in_cases, random_cases, random_names

    _check_models_run_as_they_are(options, selection.files)
    for note in chain.from_iterable(cases.notes for cases in selection.files):
        batch.tell(note)
    built_in: list[Case] = []
    if options.corpus:
        built_in += built_in_cases(options.out_of_range)
    random_count = options.count or 0

    def all_names() -> Iterator[str]:
        for file_cases in selection.files:
            yield from file_cases.names
        yield from (case.name for case in built_in)
        yield from random_names(random_count, options.seed)

    total = random_count + len(built_in)
    for file_cases in selection.files:
        total += len(file_cases.names)
    if not total:
        if selection.invalid or batch.failures:
            return
        raise click.UsageError(
            "there is nothing to check: give a PATH, --corpus or --random N"
        )
    selection.count = options.choice.size(all_names, total)
    is_chosen = options.choice.chooser()

    def chosen_cases() -> Iterator[Case]:
        for file_cases in selection.files:
            with batch.step(file_cases.path):
                yield from (case for case in file_cases.cases if is_chosen(case.name))
        yield from (case for case in built_in if is_chosen(case.name))
        yield from random_cases(
            random_count, options.seed, options.out_of_range, is_chosen
        )

    cases = chosen_cases()
    if options.wrap:
        cases = (case.wrapped_in() for case in cases)
    selection.names = filter(is_chosen, all_names())
    selection.cases = cases


@click.group("corpus")
def corpus_command() -> None:
    """Export the cases that `check --corpus` runs."""


@corpus_command.command(
    "export",
    short_help="Write the corpus for others to run.",
    epilog=examples_of("corpus export"),
)
@click.option(
    "--format",
    "name",
    type=click.Choice(FORMATS),
    required=True,
    metavar="FORMAT",
    help="; ".join(f"{name}: {content}" for name, content in FORMATS.items()) + ".",
)
@click.argument("folder", type=arguments.FOLDER, metavar="DIR")
@arguments.force
def export_command(name: FormatName, folder: str, force: bool) -> int:
    """Write the corpus to DIR, which must be empty or an earlier export.

    DIR gets a README that says how to run the cases without onnxgather.
    """
    from onnxgather.checking.corpus import built_in_cases
    from onnxgather.checking.corpus import export as write

    exported = write(built_in_cases(), name, folder, force)
    written = f"{folder}: {exported.written:,} cases"
    if exported.beside:
        valid = number_of(exported.beside, "valid case")
        written += f", and {valid} beside those that must be refused"
    say(written)
    for reason, cases in exported.left_out.items():
        say(f"left out: {cases:,}, as each {reason}")
    return GOOD


@click.group("report")
def report_command() -> None:
    """Work on the reports of `check --json`."""


@report_command.command(
    "merge",
    cls=JsonCommand,
    short_help="Make one report of several.",
    epilog=examples_of("report merge"),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@arguments.json_file("whole", "-o")
@arguments.reports
@arguments.known_files
@arguments.as_records(outputs=Outputs)
def merge_command(
    files: tuple[str, ...], known_files: tuple[str, ...], outputs: Outputs
) -> int:
    """Make one report of those that `check --json=FILE` wrote.

    Reports of the same lanes are of shards, as --shard K/N writes them; lanes of other
    reports stand beside them. A lane of several reports must agree in provider,
    versions, target and options. Where shards are missing, the report of the others is
    written, and the exit code is 2. Otherwise it is the exit code that the whole check
    would have had.
    """
    from onnxgather.checking.merge import merge, with_known
    from onnxgather.checking.report_files import known_from, open_report

    outputs.check_apart([*files, *known_files])
    outputs.check_writable()
    known_differences = known_from(known_files, ours=False)
    batch = Batch(prints=False)
    whole, missing = merge([(file, open_report(file)) for file in files])
    whole = with_known(whole, known_differences)
    outputs.write_report(batch, whole, whole)
    if missing:
        numbers = listed(missing, 10)
        say(f"Error: every shard must be given, got none of {numbers}", err=True)
    exit_codes = [*codes(whole)]
    if whole.unusable or missing:
        exit_codes.append(UNUSABLE)
    code = batch.finish(exit_codes)
    # A check that a signal ended had the exit code of the signal.
    signal = Signals.__members__.get(whole.interrupted or "")
    return code if signal is None else BY_SIGNAL + signal
