"""What paths hold: programs, folders of programs and ONNX models, their gathers and their cases."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import glob

import click

from onnxgather.checking.cases import Case, DescriptorCase, program_cases, program_names
from onnxgather.cli.terminal import (
    Interrupted,
    Progress,
    is_terminal,
    say,
    signals_handled,
)
from onnxgather.core.checks import listed, shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.documents import Field
from onnxgather.core.errors import (
    FINDINGS,
    GOOD,
    NOT_RUN,
    UNUSABLE,
    FileFormatError,
    OnnxGatherError,
)
from onnxgather.core.files import is_model, reason
from onnxgather.core.options import OutOfRange
from onnxgather.core.programs.program import (
    MAX_PROGRAM_BYTES,
    Program,
    parse_program,
    read_program,
)

STANDARD = "-"
"""The name of the standard input as a source, and of the standard output as a file to
write."""

_BEST_TO_WORST = (GOOD, NOT_RUN, FINDINGS, UNUSABLE)


@dataclass(frozen=True, slots=True)
class Source:
    """A file with a program or an ONNX model."""

    path: str
    inside: str
    """The path below the folder that the user named, or the file's name if the user
    named that."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The options that say how programs and ONNX models are read."""

    allow_outside: bool = False
    """Whether a program may name files outside its folder and the current one."""
    node: str | None = None
    """The name of the only gather of a model that counts; None for all."""
    inputs: str | None = None
    """The file of a model's inputs."""
    shapes: Mapping[str, Sequence[int]] = field(
        default_factory=dict[str, Sequence[int]]
    )
    """The sizes of a model's inputs, by name."""

    def check_models(self, *paths: str) -> None:
        """Check that the options for models come with one.

        Raises:
            UsageError: No path is an ONNX model.
        """
        given = self.node is not None or self.inputs is not None or self.shapes
        if given and not any(map(is_model, paths)):
            rule = "--node, --shape and --inputs must come with an ONNX model"
            raise click.UsageError(f"{rule}, got {', '.join(paths) or 'none'}")

    def arrays(self) -> dict[str, Array]:
        """The inputs of a model, by name.

        Raises:
            OnnxGatherError: The file cannot be read, or is no .npz file of arrays.
        """
        from onnxgather.core.model.given_inputs import read_inputs

        return {} if self.inputs is None else read_inputs(self.inputs)


@dataclass(frozen=True, slots=True)
class FileGathers:
    """The gathers of a program or of an ONNX model."""

    source: Source
    files: Sequence[str]
    """The files that they are read from."""
    descriptors: Mapping[str, Descriptor]
    """By the names of dispatchables or nodes."""
    program: Program | None = None
    """The program; None if the gathers are those of an ONNX model."""
    stems: Mapping[str, str] = field(default_factory=dict[str, str])
    """How the files of the gathers of a model are named, as extract names their
    folders."""

    def contents(self, whole: bool) -> Mapping[str, Descriptor | Program]:
        """What models are made of, by the names of gathers; that of a whole program is empty."""
        return {"": self.program} if whole and self.program else self.descriptors

    def where(self, name: str) -> str:
        """A gather in its file, such as `$.dispatchables.gather` or `node 'gather'`."""
        if self.program is None:
            return f"node {shown(name)}"
        return Field({name: None}, "$.dispatchables").member(name).path


@dataclass(frozen=True, slots=True)
class FileCases:
    """The cases of a program or of an ONNX model."""

    path: str
    files: Sequence[str]
    """The files that they are read from."""
    names: Sequence[str]
    """The names of the cases, which are known before any case is made."""
    each: Iterator[Case]
    refused: Sequence[str] = ()
    """Why the file, or a gather of it, is no case: DirectML refuses a gather, or an
    input of a dispatch shares bytes with the output."""


class Batch:
    """Work on many files: it goes on after a bad file, and shows its progress.

    Args:
        prints: Whether a line is printed for each file. On a terminal these lines are the progress.
    """

    def __init__(self, *, prints: bool = True) -> None:
        self.failures: list[tuple[str, OnnxGatherError]] = []
        """The names of the files that failed, each with its error."""
        self.stop: Interrupted | None = None
        """The signal that ended the work."""
        self.progress = Progress(hidden=prints and is_terminal(sys.stdout))

    def sources(self, paths: Sequence[str], ending: str = ".json") -> list[Source]:
        """The files that the paths stand for, as `find_sources` has them."""
        sources: list[Source] = []
        for path in paths:
            with self.step(path):
                sources += find_sources(path, ending)
        return sources

    @contextlib.contextmanager
    def step(self, name: str, number: int = 0, total: int = 0) -> Generator[None]:
        """Show that a file is worked on; print and keep an error that ends the work on it.

        Args:
            name: The file.
            number: The number of the file, for the progress.
            total: How many files there are; 0 if that is not known.
        """
        counted = f"{number:,} of {total:,}: " if total > 1 else ""
        self.progress.show(counted + name, (number - 1) / total if total else None)
        try:
            yield
        except OnnxGatherError as error:
            self.tell(f"Error: {error}")
            self.failures.append((name, error))

    @contextlib.contextmanager
    def first_signal_kept(self) -> Generator[None]:
        """Keep the first signal that would end the command; the next one ends it."""

        def keep(number: int, _: object) -> None:
            if self.stop:
                raise self.stop
            self.stop = Interrupted(number)

        with signals_handled(keep):
            yield

    def read(self, path: str, allow_outside: bool) -> Program:
        """Read the gathers of a program; what is left out is said on the standard error."""
        program = read_source(path, allow_outside)
        told = [*program.notes]
        if program.left_out:
            left_out = listed(program.left_out, 4)
            told.append(f"left out, as only gathers are translated: {left_out}")
        for text in told:
            self.tell(f"{path}: {text}")
        return program

    def tell(self, text: str) -> None:
        """Print a line on the standard error."""
        self.progress.clear()
        say(text, err=True)

    def say(self, text: str | bytes) -> None:
        """Print a line, or lines."""
        self.progress.clear()
        say(text)

    def finish(self, codes: Iterable[int] = ()) -> int:
        """The exit code of the command: the worst of those of the failures and of `codes`.

        After a signal, it is that of the signal.
        """
        self.progress.clear()
        if self.stop:
            return self.stop.exit_code
        codes = [*codes, *(error.exit_code for _, error in self.failures)]
        return max(codes, key=_BEST_TO_WORST.index, default=GOOD)


def gathers_in(batch: Batch, source: Source, reading: Reading) -> FileGathers:
    """The gathers of a program or of a model; those of a model without a descriptor are failures.

    Raises:
        OnnxGatherError: There is none.
        UsageError: An option for models comes with a program.
    """
    path, found = source.path, dict[str, Descriptor]()
    reading.check_models(path)
    if not is_model(path):
        program = batch.read(path, reading.allow_outside)
        if not program.dispatchables:
            raise FileFormatError(f"{path}: $.dispatchables must hold a gather")
        found = {name: one.descriptor for name, one in program.dispatchables.items()}
        return FileGathers(source, [program.path, *program.files], found, program)
    from onnxgather.extracting.extract import file_stem, gather_descriptors

    stems = dict[str, str]()
    for name, one in gather_descriptors(path, reading.shapes, reading.node):
        stems[name] = file_stem(len(stems) + 1, name)
        with batch.step(path):
            if isinstance(one, OnnxGatherError):
                raise one.at(f"{path}: node {shown(name)}")
            found[name] = one
    return FileGathers(source, [path], found, stems=stems)


def cases_in(
    batch: Batch, path: str, reading: Reading, out_of_range: OutOfRange | None
) -> FileCases:
    """The dispatches of a program, or the gathers of a model with what they get in a run.

    Args:
        batch: It tells of what is left out.
        path: The file.
        reading: How it is read.
        out_of_range: The policy; None means that of each node, and that of `run` for programs.

    Raises:
        OnnxGatherError: The file is not as it must be, or it holds no case.
        DescriptorError: A descriptor of a program breaks a rule of DirectML.
    """
    if not is_model(path):
        program = batch.read(path, reading.allow_outside)
        if not program.dispatch_commands:
            raise FileFormatError(f"{path}: $.commands must hold a dispatch")
        if shared := [*program.in_place()]:
            return FileCases(path, program.files, [], iter(()), shared)
        every = program_cases(program, out_of_range)
        return FileCases(path, program.files, [*program_names(program)], every)
    from onnxgather.extracting.extract import gather_cases

    cases, refused = list[Case](), list[str]()
    for told, case in gather_cases(path, reading.arrays(), reading.node):
        where = f"{told.place}: {told.operator} {shown(told.node)}: {told.left_out}"
        if isinstance(case, DescriptorCase) and out_of_range:
            case = replace(case, out_of_range=out_of_range)
        if case is not None:
            cases.append(case)
        elif told.executions:
            refused.append(where)
        else:
            batch.tell(f"{path}: left out: {where}")
    return FileCases(path, [path], [case.name for case in cases], iter(cases), refused)


def read_source(path: str, allow_outside: bool) -> Program:
    """Read a program as `read_program` does, or from the standard input where the path is "-".

    Raises:
        FileFormatError: As `read_program`.
        DescriptorError: As `read_program`.
    """
    if path != STANDARD:
        return read_program(path, allow_outside=allow_outside)
    name = "standard input"
    try:
        with open(0, "rb", closefd=False) as stream:
            content = stream.read(MAX_PROGRAM_BYTES + 1)
    except OSError as error:
        raise FileFormatError(f"{name}: {reason(error)}") from None
    return parse_program(content, name, allow_outside=allow_outside)


def find_sources(path: str, ending: str) -> list[Source]:
    """The files that a path stands for, sorted.

    These are the file itself; the files of a folder, and below it, whose names have an
    ending; or what a pattern such as `models/*` names, as shells expand it. A pipe or a
    device in a folder is not read.

    Raises:
        FileFormatError: A folder has none, or one of its folders cannot be read.
    """
    if not os.path.lexists(path) and (named := sorted(glob(path, recursive=True))):
        return [source for each in named for source in find_sources(each, ending)]
    if not os.path.isdir(path):
        return [Source(path, "stdin" if path == STANDARD else os.path.basename(path))]
    found: list[str] = []
    try:
        for folder, folders, names in os.walk(path, onerror=_stop):
            folders.sort()
            wanted = (name for name in sorted(names) if name.lower().endswith(ending))
            files = (os.path.join(folder, name) for name in wanted)
            found += [
                file
                for file in files
                if os.path.isfile(file) or not os.path.exists(file)
            ]
    except OSError as error:
        raise FileFormatError(f"{error.filename}: {reason(error)}") from None
    if not found:
        raise FileFormatError(
            f"{path}: the folder must have a *{ending} file, got none"
        )
    return [Source(file, os.path.relpath(file, path)) for file in found]


class JsonCommand(click.Command):
    """A command whose --json has a FILE only after an equals sign."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments: a word after --json is the next argument.

        Raises:
            UsageError: The word after --json looks like a file to write.
        """
        end = args.index("--") if "--" in args else len(args)
        for k in range(end):
            if args[k] != "--json":
                continue
            after = args[k + 1] if k + 1 < end else ""
            # A shell that completes reads words that are not whole yet.
            if _is_new_json(after) and not ctx.resilient_parsing:
                rule = f"{after}: no such file or directory"
                raise click.UsageError(f"{rule}. Write --json=FILE.", ctx)
            args[k] = f"--json={STANDARD}"
        return super().parse_args(ctx, args)


def _is_new_json(word: str) -> bool:
    """Whether a word looks like a JSON file that does not exist."""
    if not word.lower().endswith(".json") or os.path.lexists(word):
        return False
    # A pattern stands for files that exist.
    return not glob(word, recursive=True)


def _stop(error: OSError) -> None:
    raise error
