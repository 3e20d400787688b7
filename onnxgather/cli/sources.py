"""Many files at once: the programs that paths stand for, and the files of their models."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import click

from onnxgather.checks import listed, shown
from onnxgather.cli.terminal import Progress, is_terminal, say
from onnxgather.descriptors.operators import Descriptor
from onnxgather.documents import Field
from onnxgather.errors import (
    FINDINGS,
    GOOD,
    NOT_RUN,
    UNUSABLE,
    FileFormatError,
    OnnxGatherError,
)
from onnxgather.files import is_model, reason
from onnxgather.programs import Program, parse_program, read_program
from onnxgather.programs.program import MAX_PROGRAM_BYTES

_UNSAFE = frozenset('%/\\:*?"<>|')
"""Characters that some file systems do not take in a name, and the % that escapes them."""

_CASELESS = sys.platform in ("darwin", "win32")
"""Whether names of files that differ only in case are usually one file."""

STANDARD = "-"
"""The name of the standard input as a source, and of the standard output as the file of a model."""

_BEST_TO_WORST = (GOOD, NOT_RUN, FINDINGS, UNUSABLE)


class Source(NamedTuple):
    """A file with a program."""

    path: str
    inside: str
    """The path below the folder that the user named, or the file's name if the user named that."""


class Gathers(NamedTuple):
    """The gathers of a program or of an ONNX model."""

    source: Source
    files: Sequence[str]
    """The files that they are read from."""
    descriptors: Mapping[str, Descriptor]
    """By the names of dispatchables or nodes."""
    program: Program | None = None
    """The program; None if the gathers are those of an ONNX model."""

    def contents(self, whole: bool) -> Mapping[str, Descriptor | Program]:
        """What models are made of, by the names of gathers; that of a whole program is empty."""
        return {"": self.program} if whole and self.program else self.descriptors

    def where(self, name: str) -> str:
        """A gather in its file, such as `$.dispatchables.gather` or `node 'gather'`."""
        if self.program is None:
            return f"node {shown(name)}"
        return Field({name: None}, "$.dispatchables").member(name).path


class Job(NamedTuple):
    """A gather or a program, and the file that it becomes: a model, or a program of a gather."""

    source: str
    where: str
    content: Descriptor | Program
    output: str


class Batch:
    """Work on many files: it goes on after a bad file, and shows its progress.

    Args:
        prints: Whether a line is printed for each file. On a terminal these lines are the progress.
    """

    def __init__(self, *, prints: bool = True) -> None:
        self.failures: list[tuple[str, OnnxGatherError]] = []
        """The names of the files that failed, each with its error."""
        self.progress = Progress(hidden=prints and is_terminal(sys.stdout))

    def sources(self, paths: Sequence[str]) -> list[Source]:
        """The programs that the paths stand for."""
        sources: list[Source] = []
        for path in paths:
            with self.step(path):
                sources += find_sources(path)
        return sources

    @contextlib.contextmanager
    def step(self, name: str, number: int = 0, total: int = 0) -> Generator[None]:
        """Show that a file is worked on; print and keep an error that ends the work on it.

        Args:
            name: The file.
            number: The number of the file, for the progress.
            total: How many files there are; 0 if that is not known.
        """
        self.progress.show((f"{number}/{total} " if total else "") + name)
        try:
            yield
        except OnnxGatherError as error:
            self.tell(f"Error: {error}")
            self.failures.append((name, error))

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

    def gathers(
        self,
        source: Source,
        allow_outside: bool,
        shapes: Mapping[str, Sequence[int]],
        node: str | None,
    ) -> Gathers:
        """The gathers of a program or of a model; those without a descriptor are failures.

        Args:
            source: The file.
            allow_outside: As of `read`.
            shapes: The sizes of a model's inputs, by name.
            node: The name of the only gather of a model; None for all.

        Raises:
            OnnxGatherError: There is none.
        """
        path, found = source.path, dict[str, Descriptor]()
        if shapes or node is not None:
            check_is_model(path)
        if not is_model(path):
            program = self.read(path, allow_outside)
            if not program.dispatchables:
                raise FileFormatError(f"{path}: $.dispatchables must hold a gather")
            found = {name: one.descriptor for name, one in program.dispatchables.items()}
            return Gathers(source, [program.path, *program.files], found, program)
        from onnxgather.networks.extraction import gather_descriptors

        for name, one in gather_descriptors(path, shapes, node):
            with self.step(path):
                if isinstance(one, OnnxGatherError):
                    raise one.at(f"{path}: node {shown(name)}")
                found[name] = one
        return Gathers(source, [path], found)

    def say(self, text: str | bytes) -> None:
        """Print a line, or lines."""
        self.progress.clear()
        say(text)

    def finish(self, codes: Iterable[int] = ()) -> int:
        """The exit code of the command: the worst of those of the failures and of `codes`."""
        self.progress.clear()
        codes = [*codes, *(error.exit_code for _, error in self.failures)]
        return max(codes, key=_BEST_TO_WORST.index, default=GOOD)


def check_is_model(path: str) -> None:
    """Check that options of models come with one; a UsageError says so."""
    if not is_model(path):
        rule = "--node, --shape and --inputs must come with an ONNX model"
        raise click.UsageError(f"{rule}, got {path}")


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


def find_sources(path: str) -> list[Source]:
    """The programs that a path stands for: the file itself, or all *.json files of a folder.

    A pipe or a device in a folder is not read.

    Raises:
        FileFormatError: A folder has none, or one of its folders cannot be read.
    """
    if not os.path.isdir(path):
        return [Source(path, "stdin" if path == STANDARD else os.path.basename(path))]
    found: list[str] = []
    try:
        for folder, folders, names in os.walk(path, onerror=_stop):
            folders.sort()
            programs = (name for name in sorted(names) if name.lower().endswith(".json"))
            files = (os.path.join(folder, name) for name in programs)
            found += [file for file in files if os.path.isfile(file) or not os.path.exists(file)]
    except OSError as error:
        raise FileFormatError(f"{error.filename}: {reason(error)}") from None
    if not found:
        raise FileFormatError(f"{path}: the folder must have a *.json file, got none")
    return [Source(file, os.path.relpath(file, path)) for file in found]


def _stop(error: OSError) -> None:
    raise error


def plan(
    sources: Sequence[Gathers], output: str | None, unread: Sequence[str] = (), whole: bool = False
) -> list[Job]:
    """The files to write: a model per gather, and for those of ONNX models a program too.

    Args:
        sources: The gathers and where they come from.
        output: The file of the only model, if the name ends in .onnx or is `STANDARD`, else a
            folder; None means beside each source.
        unread: The inputs that failed to be read: each counts as a model, and none is written to.
        whole: Whether a program becomes one model.

    Raises:
        OnnxGatherError: Two files would be one, or a file would replace an input.
        UsageError: A model has no file to go to.
    """
    models = len(unread) + sum(len(gathers.contents(whole)) for gathers in sources)
    is_file = output == STANDARD or (output or "").lower().endswith(".onnx")
    is_file = output is not None and is_file and not os.path.isdir(output)
    if is_file and models > 1:
        raise click.UsageError(f"--output must be a folder for {models} models, got {output}")
    if output == STANDARD and is_terminal(sys.stdout):
        raise click.UsageError("--output must be a file, as a terminal does not show a model")
    inputs = [*unread, *chain.from_iterable(gathers.files for gathers in sources)]
    taken = {_identity(file): file for file in inputs}
    jobs: dict[str, Job] = {}
    for gathers in sources:
        path = gathers.source.path
        is_pipe = os.path.exists(path) and not os.path.isfile(path)
        if output is None and (is_pipe or path == STANDARD):
            raise OnnxGatherError(f"{path}: the models of a pipe must come with -o PATH")
        contents = gathers.contents(whole)
        alone = len(contents) == 1 and gathers.program is not None
        for name, content in contents.items():
            beside = _target(gathers.source, None if alone else name, output)
            model = output if is_file and output else beside
            with_program = gathers.program is None and output != STANDARD
            program = [os.path.splitext(model)[0] + ".json"] if with_program else []
            for target in (model, *program):
                job = Job(path, "$.commands" if whole else gathers.where(name), content, target)
                identity = _identity(target)
                rule = f"{target} must not be written"
                if identity in taken:
                    raise OnnxGatherError(f"{rule}, as it is an input: {taken[identity]}")
                if (other := jobs.get(identity)) is not None:
                    both = " and ".join(f"{one.where} of {one.source}" for one in (other, job))
                    raise OnnxGatherError(f"{rule} twice, for {both}")
                jobs[identity] = job
    return list(jobs.values())


def _target(source: Source, name: str | None, output: str | None) -> str:
    """The file of a model beside its source, or at the same path in the output folder."""
    stem = os.path.splitext(source.path if output is None else os.path.join(output, source.inside))[
        0
    ]
    if name is not None:
        stem += "." + "".join(map(_safe, name))
    return stem + ".onnx"


def _safe(character: str) -> str:
    safe = character.isprintable() and character not in _UNSAFE
    return character if safe else f"%{ord(character):02X}"


def _identity(path: str) -> str:
    path = os.path.normcase(os.path.realpath(path))
    return path.casefold() if _CASELESS else path
