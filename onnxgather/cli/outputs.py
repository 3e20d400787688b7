"""What commands write: files, or the standard output in the place of a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import click

from onnxgather.cli.sources import STANDARD, Batch, FileGathers, Source
from onnxgather.cli.terminal import has_colours, is_terminal, json_bytes, say, width
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.errors import FINDINGS, NOT_RUN, OnnxGatherError
from onnxgather.core.files import check_apart, check_writable, write_whole
from onnxgather.core.output.result_states import BAD
from onnxgather.core.programs.program import Program

if TYPE_CHECKING:
    from onnxgather.checking.known_differences import Known
    from onnxgather.checking.results import Report

_UNSAFE = frozenset('%/\\:*?"<>|')
"""Characters that some file systems do not take in a name, and the % that escapes
them."""


def write_output(path: str, content: bytes, *, follow: bool = True) -> None:
    """Write a file, or print its content where the path is "-".

    Raises:
        OnnxGatherError: As `write_whole`, which `follow` is for.
    """
    if path == STANDARD:
        say(content, end="")
    else:
        write_whole(path, content, follow=follow)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The files that a command writes what it found to; None is a file that is not asked for."""

    json_file: str | None = None
    junit_file: str | None = None
    html_file: str | None = None
    markdown_file: str | None = None
    contract_file: str | None = None
    sarif_file: str | None = None
    write_baseline_file: str | None = None
    write_inputs_file: str | None = None
    write_known_file: str | None = None

    @property
    def by_option(self) -> dict[str, str]:
        """The files that are asked for, by their options."""
        names = [field.name for field in fields(self)]
        options = (
            f"--{name.removesuffix('_file').replace('_', '-')}" for name in names
        )
        files = {
            option: getattr(self, name)
            for option, name in zip(options, names, strict=True)
        }
        return {option: file for option, file in files.items() if file is not None}

    def check_apart(self, inputs: Iterable[str]) -> None:
        """Check that each file is apart from the others and from the inputs.

        Raises:
            OnnxGatherError: It is not.
        """
        check_apart([(file, option) for option, file in self.by_option.items()], inputs)

    def check_writable(self) -> None:
        """Check that each file can be written, before the work that it is for.

        Raises:
            OnnxGatherError: It cannot.
        """
        for file in self.by_option.values():
            if file != STANDARD:
                check_writable(file)

    def write(self, batch: Batch, contents: Mapping[str, Callable[[], bytes]]) -> bool:
        """Write the files, and print those whose path is "-".

        Args:
            batch: It keeps the errors of the files.
            contents: What makes the content of each file, by the options.

        Returns:
            Whether one was printed, so that the command prints nothing else.
        """
        for option, file in self.by_option.items():
            if file != STANDARD:
                with batch.step(file):
                    write_whole(file, contents[option]())
                    batch.progress.clear()
                    say(f"written: {file}", err=True)
        printed = [
            option for option, file in self.by_option.items() if file == STANDARD
        ]
        batch.progress.clear()
        for option in printed:
            say(contents[option]())
        return bool(printed)

    def write_report(
        self, batch: Batch, report: Report, shown: Report, before: Sequence[Known] = ()
    ) -> None:
        """Write a report; then print what was asked for, or the table.

        Args:
            batch: As of `write`.
            report: The report of the table.
            shown: The report of the files.
            before: The known differences that the file to write them to had.
        """
        from onnxgather.checking.known_differences import with_findings
        from onnxgather.checking.report import as_lines, html, junit, markdown

        writers = {
            "--json": json_bytes,
            "--junit": junit,
            "--html": html,
            "--markdown": markdown,
        }
        contents = {option: partial(make, shown) for option, make in writers.items()}
        known = {"--write-known": lambda: json_bytes(with_findings(report, before))}
        if not self.write(batch, {**contents, **known}):
            say(as_lines(report, width(), colour=has_colours()), as_is=True)


def codes(report: Report) -> Iterator[int]:
    """Yield the exit codes that a report calls for."""
    from onnxgather.checking.report.sentences import unmet

    results = [result for case in report.cases for result in case.results]
    if report.invalid or any(result.state in BAD for result in results):
        yield FINDINGS
    nothing_ran = all((result.found or result.state) == "NOT-RUN" for result in results)
    if unmet(report) or (results and nothing_ran):
        yield NOT_RUN


@dataclass(frozen=True, slots=True)
class Job:
    """A gather or a program, and the file that it becomes: a model, or a program of a gather."""

    source: str
    where: str
    content: Descriptor | Program
    output: str


def plan(
    found: Sequence[FileGathers],
    output: str | None,
    unread: Sequence[str] = (),
    whole: bool = False,
) -> list[Job]:
    """The files to write: a model per gather, and for those of ONNX models a program too.

    Args:
        found: The gathers and where they come from.
        output: The file of the only model, if the name ends in .onnx or is `STANDARD`, else a
            folder; None means beside each source.
        unread: The inputs that failed to be read: each counts as a model, and none is written to.
        whole: Whether a program becomes one model.

    Raises:
        OnnxGatherError: Two files would be one, or a file would replace an input.
        UsageError: A model has no file to go to, or a folder would have the name of a program.
    """
    models = len(unread) + sum(len(gathers.contents(whole)) for gathers in found)
    file = _only_file(output, models)
    jobs = [job for gathers in found for job in _jobs(gathers, output, file, whole)]
    inputs = [*unread, *chain.from_iterable(gathers.files for gathers in found)]
    check_apart([(job.output, f"{job.where} of {job.source}") for job in jobs], inputs)
    return jobs


def _only_file(output: str | None, models: int) -> str | None:
    """The file of the only model; None if models go to a folder or beside their sources."""
    named = output is not None and (
        output == STANDARD or output.lower().endswith(".onnx")
    )
    if output and output.lower().endswith(".json") and not os.path.exists(output):
        raise click.UsageError(
            f"--output must be a folder or end in .onnx, got {output}"
        )
    if output is None or not named or os.path.isdir(output):
        return None
    if models > 1:
        raise click.UsageError(
            f"--output must be a folder for {models} models, got {output}"
        )
    check_no_terminal(output)
    return output


def check_no_terminal(output: str) -> None:
    """Check that a model is not printed to a terminal.

    Raises:
        UsageError: It is.
    """
    if output == STANDARD and is_terminal(sys.stdout):
        raise click.UsageError(
            "--output must be a file, as a terminal does not show a model"
        )


def _jobs(
    gathers: FileGathers, output: str | None, file: str | None, whole: bool
) -> Iterator[Job]:
    """Yield the files that the gathers of a source become."""
    path, of_model = gathers.source.path, gathers.program is None
    is_pipe = path == STANDARD or (os.path.exists(path) and not os.path.isfile(path))
    if output is None and is_pipe:
        raise OnnxGatherError(f"{path}: the models of a pipe must come with -o PATH")
    contents = gathers.contents(whole)
    alone = len(contents) == 1 and not of_model
    for name, content in contents.items():
        where = "$.commands" if whole else gathers.where(name)
        stem = None if alone else gathers.stems.get(name) or "".join(map(_safe, name))
        model = file or _target(gathers.source, stem, output)
        yield Job(path, where, content, model)
        if of_model and output != STANDARD:
            yield Job(path, where, content, os.path.splitext(model)[0] + ".json")


def _target(source: Source, stem: str | None, output: str | None) -> str:
    """The file of a model beside its source, or at the same path in the output folder."""
    path = source.path if output is None else os.path.join(output, source.inside)
    return ".".join(filter(None, [os.path.splitext(path)[0], stem, "onnx"]))


def _safe(character: str) -> str:
    safe = character.isprintable() and character not in _UNSAFE
    return character if safe else f"%{ord(character):02X}"
