"""What commands write: files, or the standard output in the place of a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import click

from onnxgather.cli.sources import (
    STANDARD,
    Batch,
    FileGathers,
    Source,
    placed,
    with_external_data,
)
from onnxgather.cli.terminal import has_colours, is_terminal, json_bytes, say, width
from onnxgather.core.checks import number_of
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.errors import FINDINGS, NOT_RUN, OnnxGatherError
from onnxgather.core.files import (
    check_apart,
    check_writable,
    clashes,
    write_pieces,
    write_whole,
)
from onnxgather.core.output.result_states import BAD
from onnxgather.core.programs.program import Program
from onnxgather.core.replacing import check_replaceable, with_line, write_made

if TYPE_CHECKING:
    from onnxgather.checking.known_differences import Known
    from onnxgather.checking.results import Report

Folder = Mapping[str, bytes]
"""The contents of the files of a folder, by their paths in it."""

_UNSAFE = frozenset('%/\\:*?"<>|')
"""The characters that some file systems forbid in a name, and the % that escapes
them."""


def write_in_pieces(path: str, content: Iterable[bytes]) -> None:
    """Write a file, or print its content where the path is "-", piece by piece.

    Raises:
        OnnxGatherError: As `write_pieces`.
    """
    if path == STANDARD:
        for piece in content:
            say(piece, end="")
    else:
        write_pieces(path, content)


def _write_folder(batch: Batch, folder: str, files: Folder, force: bool) -> None:
    """Write the files of a folder, and tell how many there are.

    Args:
        batch: It keeps the errors of the files; the other files are written.
        folder: The folder.
        files: The contents of its files.
        force: As of `write_made`.
    """
    written = 0
    for name, content in files.items():
        path = os.path.join(folder, name)
        with batch.step(path, failing="be written"):
            write_made(path, [content], force)
            written += 1
    if written:
        batch.tell(f"written: {folder}, {number_of(written, 'file')}")


class Outputs(NamedTuple):
    """The files that a command writes; None is a file that no option names."""

    json_file: str | None = None
    junit_file: str | None = None
    html_file: str | None = None
    markdown_file: str | None = None
    contract_file: str | None = None
    annotate_file: str | None = None
    sarif_file: str | None = None
    write_baseline_file: str | None = None
    write_inputs_file: str | None = None
    write_known_file: str | None = None

    @property
    def by_option(self) -> dict[str, str]:
        """The files that options name, by the options."""
        files = dict[str, str]()
        for field, file in self._asdict().items():
            # The field `write_known_file` is the option --write-known.
            words = field.removesuffix("_file").replace("_", "-")
            if file is not None:
                files[f"--{words}"] = file
        return files

    def check_apart(self, inputs: Iterable[str]) -> None:
        """Check that each file is apart from the others and from the inputs.

        Raises:
            OnnxGatherError: Two of them are one file.
        """
        named_files = [(file, option) for option, file in self.by_option.items()]
        check_apart(named_files, inputs)

    def check_apart_from_models(self, inputs: Iterable[str]) -> None:
        """Check as `check_apart`; the inputs of models are their external data too.

        Raises:
            OnnxGatherError: Two of the files are one file.
        """
        # Without a file to write, no model is read for its external data.
        if self.by_option:
            self.check_apart(chain.from_iterable(map(with_external_data, inputs)))

    def check_writable(self, folders: Collection[str] = ()) -> None:
        """Check that each file can be written, before the work that it is for.

        Args:
            folders: The options whose value is a folder of files. They are not
                checked: a folder may have to be new, or have files that are replaced.

        Raises:
            OnnxGatherError: A file cannot be written.
        """
        for option, file in self.by_option.items():
            if option not in folders and file != STANDARD:
                check_writable(file)

    def known_before(self) -> Sequence[Known]:
        """Return the known differences that the file of --write-known has already.

        Raises:
            FileFormatError: As `open_known`.
        """
        from onnxgather.checking.report_files import open_known

        if self.write_known_file is None or not os.path.isfile(self.write_known_file):
            return ()
        return open_known(self.write_known_file)

    def write(
        self,
        batch: Batch,
        contents: Mapping[str, Callable[[], bytes | Folder]],
        force: bool = False,
    ) -> bool:
        """Write the files, and print those whose path is "-".

        Args:
            batch: It keeps the errors of the files.
            contents: What makes the content of each file, by the options.
            force: As of `write_made`, for the files of a folder.

        Returns:
            Whether a content was printed, so that the command prints nothing else.
        """
        printed = list[str]()
        for option, file in self.by_option.items():
            if file == STANDARD:
                printed.append(option)
                continue
            with batch.step(file, failing="be written"):
                content = contents[option]()
                if isinstance(content, Mapping):
                    _write_folder(batch, file, content, force)
                else:
                    write_whole(file, content)
                    batch.tell(f"written: {file}")

        # The standard output comes last, after the errors of files.
        batch.progress.clear()
        for option in printed:
            content = contents[option]()
            if not isinstance(content, Mapping):  # a folder has no place on it
                say(content, end="" if content.endswith(b"\n") else "\n")
        return bool(printed)

    def write_json(self, batch: Batch, value: object) -> bool:
        """Write a value as JSON; return what `write` returns."""
        return self.write(batch, {"--json": partial(json_bytes, value)})

    def write_report(
        self, batch: Batch, report: Report, shown: Report, before: Sequence[Known] = ()
    ) -> None:
        """Write a report; then print the contents that go to "-", or the table.

        Args:
            batch: As of `write`.
            report: The report of the table.
            shown: The report of the files.
            before: The known differences that were in the file of --write-known.
        """
        from onnxgather.checking.known_differences import with_findings
        from onnxgather.checking.report import as_lines, html, junit, markdown

        contents = {
            "--json": partial(json_bytes, shown),
            "--junit": partial(junit, shown),
            "--html": partial(html, shown),
            "--markdown": partial(markdown, shown),
            "--write-known": lambda: json_bytes(with_findings(report, before)),
        }
        is_printed = self.write(batch, contents)
        if not is_printed:
            table = as_lines(report, width(), colour=has_colours())
            say(table, as_is=True)


def codes(report: Report) -> Iterator[int]:
    """Yield the exit codes that a report calls for."""
    from onnxgather.checking.report.sentences import faults_at_exit, unmet

    results = [result for case in report.cases for result in case.results]
    is_bad = any(result.state in BAD for result in results)
    if is_bad or report.invalid or faults_at_exit(report):
        yield FINDINGS
    # A result that is known has its state before that in `found`.
    states = {result.found or result.state for result in results}
    if unmet(report) or states == {"NOT-RUN"}:
        yield NOT_RUN


class Job(NamedTuple):
    """A gather or a program, and the file that is made of it: a model or a program."""

    source: str
    name: str
    """The gather's; empty for a whole program."""
    where: str
    content: Descriptor | Program
    output: str
    is_beside: bool = False
    """Whether the file is the program beside the model of a gather of a network, with
    data of zeros."""
    is_named: bool = False
    """Whether the user named the file, which is then replaced whatever it is."""
    clash: str | None = None
    """Why the file must not be written: it is an input, or that of another job."""

    def check(self, force: bool) -> None:
        """Check that the file may be written, before the work that it is for.

        Args:
            force: As of `write_made`.

        Raises:
            OnnxGatherError: It may not.
        """
        if self.clash is not None:
            raise OnnxGatherError(self.clash)
        if not self.is_named:
            check_replaceable(self.output, force)

    def write(self, content: bytes, force: bool) -> None:
        """Write the file, or print its content where the path is "-".

        Args:
            content: The content. A text gets a line more if the user did not name the
                file.
            force: As of `write_made`.

        Raises:
            OnnxGatherError: As `write_whole`, or `write_made`.
        """
        if self.output == STANDARD:
            say(content, end="")
        elif self.is_named:
            write_whole(self.output, content)
        else:
            # A model says in its metadata who wrote it.
            is_text = os.path.splitext(self.output)[1] in WEBNN_ENDINGS
            marked = with_line(content) if is_text else content
            write_made(self.output, [marked], force)

    @property
    def place(self) -> str:
        """Where the gather or the program is, as messages have it."""
        return placed(self.source, self.where)


MODEL_ENDINGS = (".onnx",)
"""The endings of the files of ONNX models."""

WEBNN_ENDINGS = (".mjs", ".json")
"""The endings of the files of WebNN programs: as a module, and as data."""


def plan(
    all_gathers: Sequence[FileGathers],
    output: str | None,
    unread: Sequence[str],
    whole: bool,
    endings: Sequence[str],
) -> list[Job]:
    """Return the files to write: a model for each gather.

    A gather of an ONNX model gets a program too, beside its model. A file that would
    replace an input, or be that of two gathers, has a sentence in `Job.clash`.

    Args:
        all_gathers: The gathers of each file.
        output: The file of the only model, if the name has one of the endings or is
            `STANDARD`, else a folder; None means beside each source.
        unread: The inputs that failed to be read: each counts as a model, and none is
            written to.
        whole: Whether a program becomes one model.
        endings: The endings of the files that are written; the first is that of files
            that the user does not name.

    Raises:
        OnnxGatherError: The models of a pipe have no file to go to.
        UsageError: A model has no file to go to, or a folder would have the name of a
            program.
    """
    models = len(unread)
    for gathers in all_gathers:
        models += len(gathers.contents(whole))
    only_file = _only_file(output, models, endings)

    jobs = list[Job]()
    inputs = [*unread]
    for gathers in all_gathers:
        jobs += _jobs(gathers, output, only_file, whole, endings[0])
        inputs += gathers.files
    named_files = [(job.output, job.place) for job in jobs]
    sentences = clashes(named_files, inputs)
    return [
        job._replace(is_named=job.output == output, clash=sentence)
        for job, sentence in zip(jobs, sentences, strict=True)
    ]


def _only_file(output: str | None, models: int, endings: Sequence[str]) -> str | None:
    """Return the file of the only model.

    None means that models go to a folder or beside their sources.
    """
    if output is None:
        return None
    # A new folder whose name ends as that of a file is most likely a file.
    lower = output.lower()
    ending = os.path.splitext(lower)[1]
    file_endings = (*MODEL_ENDINGS, *WEBNN_ENDINGS, ".js")
    is_of_others = ending in file_endings and ending not in endings
    if is_of_others and not os.path.exists(output):
        raise click.UsageError(
            f"--output must be a folder or end in {' or '.join(endings)}, got {output}"
        )
    is_file = output == STANDARD or ending in endings
    if not is_file or os.path.isdir(output):
        return None
    if models > 1:
        raise click.UsageError(
            f"--output must be a folder for {models} models, got {output}"
        )
    if endings == MODEL_ENDINGS:
        check_no_terminal(output)
    return output


def check_no_terminal(output: str) -> None:
    """Check that a model is not printed to a terminal.

    Raises:
        UsageError: It would be.
    """
    if output == STANDARD and is_terminal(sys.stdout):
        raise click.UsageError(
            "--output must be a file, as a terminal does not show a model"
        )


def _jobs(
    gathers: FileGathers,
    output: str | None,
    only_file: str | None,
    whole: bool,
    ending: str,
) -> Iterator[Job]:
    """Yield the files that are made of the gathers of a source."""
    path = gathers.source.path
    is_pipe = path == STANDARD or (os.path.exists(path) and not os.path.isfile(path))
    if output is None and is_pipe:
        raise OnnxGatherError(f"{path}: the models of a pipe must come with -o PATH")

    is_of_model = gathers.program is None
    contents = gathers.contents(whole)
    for name, content in contents.items():
        where = "$.commands" if whole else gathers.where(name)
        model = only_file
        if model is None:
            # The only gather of a program needs no name of its own.
            stem = None
            # Those of a list of descriptors have its numbers, however long it is.
            is_of_list = where.startswith("$[")
            if is_of_model or is_of_list or len(contents) > 1:
                stem = gathers.stems.get(name) or "".join(map(_safe, name))
            model = _target(gathers.source, stem, output, ending)
        job = Job(path, name, where, content, model)
        yield job
        is_model_file = ending in MODEL_ENDINGS
        if is_of_model and is_model_file and output != STANDARD:
            program = os.path.splitext(model)[0] + ".json"
            yield job._replace(output=program, is_beside=True)


def _target(source: Source, stem: str | None, output: str | None, ending: str) -> str:
    """Return the file of a model beside its source, or at its path in a folder."""
    path = source.path
    if output is not None:
        path = os.path.join(output, source.inside)
    parts = [os.path.splitext(path)[0]]
    if stem:
        parts.append(stem)
    return ".".join(parts) + ending


def _safe(character: str) -> str:
    """Return a character as a name of a file may contain it."""
    if character.isprintable() and character not in _UNSAFE:
        return character
    return f"%{ord(character):02X}"
