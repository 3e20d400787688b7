"""The programs and ONNX models of paths, with their gathers and their cases."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from glob import glob
from typing import TYPE_CHECKING, NamedTuple

import click

from onnxgather.checking.cases import (
    GIVEN,
    Case,
    DescriptorCase,
    NodeCase,
    Origin,
    case_of_arrays,
    cases_of_file,
    policy_of,
    program_names,
)
from onnxgather.cli.left_out import left_out
from onnxgather.cli.terminal import (
    Interrupted,
    Progress,
    is_terminal,
    say,
    say_error,
    signals_handled,
)
from onnxgather.cli.unforeseen import foreseen, is_lack_of_memory, say_where
from onnxgather.core.checks import listed, number_of, shown
from onnxgather.core.descriptors.drawn import MAX_DRAWN_BYTES, bytes_of, draw_names
from onnxgather.core.descriptors.operators import Descriptor
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

if TYPE_CHECKING:
    from onnxgather.core.model.given_inputs import GivenArray

STANDARD = "-"
"""The name of the standard input as a source, and of the standard output as a file to
write."""

PROGRAM_ENDING = ".json"
"""The ending of the files of programs."""

_BEST_TO_WORST = (GOOD, NOT_RUN, FINDINGS, UNUSABLE)


class Source(NamedTuple):
    """A file with a program or an ONNX model."""

    path: str
    inside: str
    """The path below the folder that the user named, or the file's name if the user
    named that."""
    is_named: bool = True
    """Whether the user named the file, and not a folder around it."""


def each_once(sources: Iterable[Source]) -> list[Source]:
    """Return the sources; a file that is named twice is there once."""
    by_path = dict[str, Source]()
    # Two paths of one file differ, so the full paths are compared.
    for source in sources:
        by_path.setdefault(os.path.abspath(source.path), source)
    return [*by_path.values()]


class Reading(NamedTuple):
    """The options that say how programs and ONNX models are read."""

    allow_outside: bool = False
    """Whether a program may name files outside its folder and the current one."""
    node: str | None = None
    """The name of the only gather of a model that counts; None for all."""
    inputs: str | None = None
    """The file of a model's inputs."""
    shapes: Mapping[str, Sequence[int]] = {}
    """The sizes of a model's inputs, by name."""

    def check_models(self, *paths: str) -> None:
        """Check that the options for models come with a model.

        --inputs may also come with a descriptor alone.

        Raises:
            UsageError: No path is an ONNX model.
        """
        if self.is_of_graph and not any(map(is_model, paths)):
            rule = "--node and --shape must come with an ONNX model"
            names = ", ".join(paths) or "none"
            raise click.UsageError(f"{rule}, got {names}")

    @property
    def is_of_graph(self) -> bool:
        """Whether an option is about the graph of a model, whoever wrote the model."""
        return self.node is not None or bool(self.shapes)

    def arrays(self) -> dict[str, GivenArray]:
        """Return the inputs of a model, by name; they are not unpacked yet.

        Raises:
            OnnxGatherError: The file cannot be read, or is no .npz file of arrays.
        """
        from onnxgather.core.model.given_inputs import read_inputs

        if self.inputs is None:
            return {}
        return read_inputs(self.inputs)


class FileGathers(NamedTuple):
    """The gathers of a program or of an ONNX model."""

    source: Source
    files: Sequence[str]
    """The files that they are read from."""
    descriptors: Mapping[str, Descriptor]
    """By the names of dispatchables or nodes."""
    program: Program | None = None
    """The program, perhaps of a model that onnxgather wrote; None if the gathers are
    those of an ONNX model of others."""
    stems: Mapping[str, str] = {}
    """How the files of the gathers of a model are named, as extract names their
    folders."""

    def contents(self, whole: bool) -> Mapping[str, Descriptor | Program]:
        """Return what models are made of, by the names of gathers.

        A whole program has an empty name.
        """
        if whole and self.program:
            return {"": self.program}
        return self.descriptors

    @property
    def policy(self) -> OutOfRange:
        """What an index out of range does, if the user names no policy.

        A node of an ONNX model fails.
        """
        return "error" if self.program is None else policy_of(self.program, None)

    def where(self, name: str) -> str:
        """Return where a gather is: `$.dispatchables.gather` or `node 'gather'`.

        The text is empty if the file is one descriptor.
        """
        if self.program is None:
            return f"node {shown(name)}"
        return self.program.dispatchables[name].path

    def place(self, name: str) -> str:
        """Return the file, and where a gather is in it."""
        return placed(self.source.path, self.where(name))


def refuse_for_model(option: str, path: str) -> None:
    """Refuse an option that asks for another model than that of a file.

    Raises:
        UsageError: There is such an option.
    """
    if option:
        raise click.UsageError(
            f"{option} must not come with {path}, as a model runs as it is"
        )


def placed(path: str, where: str) -> str:
    """Return a place in a file as messages have it; it may be the file alone."""
    return f"{path}: {where}" if where else path


class FileCases(NamedTuple):
    """The cases of a program or of an ONNX model."""

    path: str
    files: Sequence[str]
    """The files that they are read from."""
    names: Sequence[str]
    """The names of the cases, which are known before any case is made."""
    cases: Iterator[Case]
    runs_file: bool = False
    """Whether lanes run the file itself, a model that onnxgather wrote."""
    refused: Sequence[str] = ()
    """Why the file is no case: an input of a dispatch shares bytes with the output."""
    notes: Sequence[str] = ()
    """What is to be told of the cases, if they run."""


class Batch:
    """Work on many files: it goes on after a bad file, and shows its progress.

    Args:
        prints: Whether a line is printed for each file. On a terminal these lines are
            the progress.
    """

    def __init__(self, *, prints: bool = True) -> None:
        self.failures: list[tuple[str, OnnxGatherError]] = []
        """The names of the files that failed, each with its error."""
        self.left_out = 0
        """How many files of folders are left out, as they are no programs."""
        self.stop: Interrupted | None = None
        """The signal that ended the work."""
        self._held: list[OnnxGatherError] | None = None
        """The errors that are printed later; None if each is printed at once."""
        self.progress = Progress(hidden=prints and is_terminal(sys.stdout))

    def sources(
        self, paths: Sequence[str], ending: str = PROGRAM_ENDING
    ) -> list[Source]:
        """Return the files that the paths name, as `find_sources` returns them.

        Of folders, JSON files that are no programs are left out, which is told.
        """
        sources = list[Source]()
        names: list[str] = []
        for path in paths:
            with self.step(path):
                found = find_sources(path, ending)
                kept = found
                if ending == PROGRAM_ENDING:
                    kept = self._without_others(found, names)
                sources += kept
                if not kept:
                    others = number_of(len(found), "JSON file")
                    raise FileFormatError(
                        f"{path}: the folder must have a program"
                        f", got {others} of other kinds"
                    )
        if names:
            count = number_of(len(names), "JSON file")
            are_none = "is no program" if len(names) == 1 else "are no programs"
            self.tell(f"{count} {are_none}: {listed(names, 4)}")
        return sources

    def _without_others(
        self, sources: Sequence[Source], names: list[str]
    ) -> list[Source]:
        """Return the sources without JSON files of folders that are no programs.

        The names of those that are nothing of DirectML are added to `names`; of a
        descriptor of another operator it is told at once.
        """
        kept: list[Source] = []
        for source in sources:
            other = None if source.is_named else left_out(source.path)
            if other is None:
                kept.append(source)
                continue
            self.left_out += 1
            if other:
                self._tell_left_out(source.path, other)
            else:
                names.append(source.inside)
        return kept

    def _tell_left_out(self, path: str, names: str) -> None:
        self.tell(f"{path}: left out, as only gathers are translated: {names}")

    @contextlib.contextmanager
    def step(
        self, name: str, number: int = 0, total: int = 0, failing: str = "be read"
    ) -> Generator[None]:
        """Show that a file is worked on; print and keep an error of the block.

        An exception that nothing foresees is such an error too, and so is a lack of
        memory, as other files may need less.

        Args:
            name: The file.
            number: The number of the file, for the progress.
            total: How many files there are; 0 if that is not known.
            failing: What the file cannot do where nothing foresees the exception.
        """
        text = f"{number:,} of {total:,}: {name}" if total > 1 else name
        share = None
        if total:
            # The work on this file begins only now.
            share = (number - 1) / total
        self.progress.show(text, share)
        try:
            with foreseen(f"{name}: cannot {failing}"):
                yield
        except OnnxGatherError as error:
            self._keep_failure(name, error)
        except Exception as error:
            if not is_lack_of_memory(error):
                raise
            lack = OnnxGatherError(f"{name}: there is not enough memory")
            self._keep_failure(name, lack)

    def _keep_failure(self, name: str, error: OnnxGatherError) -> None:
        """Print an error of a file, perhaps later, and keep it."""
        self.failures.append((name, error))
        if self._held is None:
            self._say_error(error)
        else:
            self._held.append(error)

    def _say_error(self, error: OnnxGatherError) -> None:
        self.progress.clear()
        say_where(error)
        say_error(str(error))

    @contextlib.contextmanager
    def errors_last(self) -> Generator[None]:
        """Print the errors of the block behind its lines, if a terminal shows these.

        Among hundreds of lines an error would not be seen there.
        """
        if is_terminal(sys.stdout):
            self._held = []
        try:
            yield
        finally:
            held = self._held or []
            self._held = None
            for error in held:
                self._say_error(error)

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
        """Read the gathers of a program; tell what is left out."""
        program = read_source(path, allow_outside)
        for note in program.notes:
            self.tell(f"{path}: {note}")
        if program.left_out:
            self._tell_left_out(path, listed(program.left_out, 4))
        return program

    def program_of(self, path: str, reading: Reading) -> Program | None:
        """Read a program, a descriptor, or a model that onnxgather wrote.

        It is None for a model of others, and where the user asks for a node of a model.

        Raises:
            OnnxGatherError: As `read_source` and `own_program`.
        """
        if is_model(path):
            return self.read_own(path, reading)
        return self.read(path, reading.allow_outside)

    def read_own(self, path: str, reading: Reading) -> Program | None:
        """Read a model that onnxgather wrote; None for a model of others.

        Tell if the model was changed since. None too where the user asks for a node of
        the graph.

        Raises:
            OnnxGatherError: As `own_program`.
        """
        if reading.is_of_graph:
            return None
        # --help must not load onnx.
        from onnxgather.core.programs.loading import (
            fault_of_metadata,
            model_with_entry,
            own_program,
        )

        found = model_with_entry(path)
        if found is None:
            return None
        model, weights = found
        program = own_program(model, path, weights)
        # The digest of its graph is that of its metadata.
        if program is not None:
            return program
        fault = fault_of_metadata(model, weights)
        if fault:
            self.tell(
                f"{path}: its metadata of onnxgather {fault}, so it is read as any ONNX"
                " model"
            )
        return None

    def tell(self, text: str) -> None:
        """Print a line on the standard error."""
        self.progress.clear()
        say(text, err=True)

    def say(self, text: str | bytes) -> None:
        """Print a line, or lines."""
        self.progress.clear()
        say(text)

    def finish(self, codes: Iterable[int] = ()) -> int:
        """Return the exit code: the worst of those of the failures and of `codes`.

        After a signal, it is that of the signal.
        """
        self.progress.clear()
        if self.stop:
            return self.stop.exit_code
        of_failures = [error.exit_code for _, error in self.failures]
        all_codes = [*codes, *of_failures]
        return max(all_codes, key=_BEST_TO_WORST.index, default=GOOD)


def gathers_in(batch: Batch, source: Source, reading: Reading) -> FileGathers:
    """Return the gathers of a program or of a model.

    A gather of a model that has no descriptor is a failure of the batch.

    Raises:
        OnnxGatherError: There is no gather.
        UsageError: An option for models comes with a program.
    """
    path = source.path
    reading.check_models(path)
    descriptors = dict[str, Descriptor]()
    program = batch.program_of(path, reading)
    if program is not None:
        check_has_gather(program)
        for name, dispatchable in program.dispatchables.items():
            descriptors[name] = dispatchable.descriptor
        files = [program.path, *program.files]
        return FileGathers(source, files, descriptors, program)

    # Only a model needs the audit, which takes long to import.
    from onnxgather.extracting.extract import file_stem, gather_descriptors

    stems = dict[str, str]()
    for name, result in gather_descriptors(path, reading.shapes, reading.node):
        # A gather without a descriptor has a number too, as in an extract.
        stems[name] = file_stem(len(stems) + 1, name)
        with batch.step(path):
            if isinstance(result, OnnxGatherError):
                raise result.at(f"{path}: node {shown(name)}")
            descriptors[name] = result
    files = with_external_data(path)
    return FileGathers(source, files, descriptors, stems=stems)


def with_external_data(path: str) -> list[str]:
    """Return a file, and the files of its external data if it is a model."""
    files = [path]
    if is_model(path):
        from onnxgather.core.model.network import external_paths
        from onnxgather.core.model.values import load_light

        # The command itself says what is wrong with a model that cannot be read.
        with contextlib.suppress(OnnxGatherError):
            model, _ = load_light(path)
            files.extend(external_paths(path, model))
    return files


def check_has_gather(program: Program) -> None:
    """Check that a program has a gather.

    Raises:
        FileFormatError: It has none.
    """
    if not program.dispatchables:
        raise FileFormatError(f"{program.path}: $.dispatchables must hold a gather")


def cases_in(
    batch: Batch, path: str, reading: Reading, out_of_range: OutOfRange | None
) -> FileCases:
    """Return the dispatches of a program, or the gathers of a model in a run.

    Args:
        batch: It prints what is left out.
        path: The file.
        reading: How it is read.
        out_of_range: The policy; None means that of each node of a model of others,
            and else as of `policy_of`.

    Raises:
        OnnxGatherError: The file is not as it must be, or it holds no case.
        DescriptorError: A descriptor of a program breaks a rule of DirectML.
    """
    program = batch.program_of(path, reading)
    if program is None:
        return _cases_of_model(batch, path, reading, out_of_range)
    check_has_gather(program)
    in_place = [*program.in_place()]
    if in_place:
        return FileCases(path, program.files, [], iter(()), refused=in_place)
    runs_file = program.model is not None
    if reading.inputs is not None:
        case = case_with_inputs(program, reading, out_of_range)
        files = [*program.files, reading.inputs]
        return FileCases(path, files, [case.name], iter([case]), runs_file)

    names = [*program_names(program, out_of_range)]
    notes = notes_on_drawn(program, out_of_range)
    cases = cases_of_file(program, out_of_range)
    return FileCases(path, program.files, names, cases, runs_file, notes=notes)


def notes_on_drawn(program: Program, out_of_range: OutOfRange | None) -> list[str]:
    """Return sentences on the gathers without data, whose cases are drawn.

    Raises:
        FileFormatError: They need too much memory, and there is no other case.
    """
    path = program.path
    drawn: list[str] = []
    too_large: list[str] = []
    for gather in program.without_data.values():
        is_too_large = bytes_of(gather.descriptor) > MAX_DRAWN_BYTES
        places = too_large if is_too_large else drawn
        places.append(gather.path)
    if too_large and not drawn and not program.dispatch_commands:
        raise FileFormatError(
            f"{path}: the tensors must have at most {MAX_DRAWN_BYTES:,} bytes to be"
            " drawn; --inputs FILE.npz gives data"
        )
    notes: list[str] = []
    if drawn:
        subject = placed(path, listed(drawn, 4))
        names = ", ".join(draw_names(policy_of(program, out_of_range)))
        notes.append(f"{subject}: without data, so three cases are drawn: {names}")
    if too_large:
        subject = placed(path, listed(too_large, 4))
        rule = f"more than {MAX_DRAWN_BYTES:,} bytes are not drawn"
        notes.append(f"{subject}: left out, as it has no data, and {rule}")
    return notes


def case_with_inputs(
    program: Program, reading: Reading, out_of_range: OutOfRange | None
) -> DescriptorCase:
    """Return the case of a descriptor alone, with the arrays that the user gives.

    Raises:
        OnnxGatherError: The program has data or several descriptors, or the arrays are
            not those of its inputs.
    """
    from onnxgather.core.model.given_inputs import checked
    from onnxgather.core.model.network import read_network
    from onnxgather.core.model.write import descriptor_model

    path = program.path
    rule = "--inputs must come with a model or with one descriptor alone"
    if program.commands:
        raise OnnxGatherError(f"{rule}, got {path}")
    count = len(program.dispatchables)
    if count != 1:
        raise OnnxGatherError(f"{rule}, got {path}, which has {count}")
    (name,) = program.dispatchables
    if program.model is None:
        model = descriptor_model(program.dispatchables[name].descriptor)
    else:
        model = program.model.proto
    network = read_network(model, place=path)
    arrays = checked(network, reading.arrays())
    data, indices = [arrays[one] for one in network.main.inputs]
    policy = policy_of(program, out_of_range)
    return case_of_arrays(program, Origin(path, GIVEN, name), policy, data, indices)


def _cases_of_model(
    batch: Batch, path: str, reading: Reading, out_of_range: OutOfRange | None
) -> FileCases:
    from onnxgather.extracting.extract import gather_cases

    cases = list[Case]()
    nodes = list[NodeCase]()
    for extracted, case in gather_cases(path, reading.arrays(), reading.node):
        if isinstance(case, DescriptorCase) and out_of_range:
            case = replace(case, out_of_range=out_of_range)
        if isinstance(case, NodeCase) and case.node.rule is None:
            nodes.append(case)
        if case is not None:
            cases.append(case)
            continue
        node = f"{extracted.operator} {shown(extracted.node)}"
        batch.tell(f"{path}: left out: {extracted.place}: {node}: {extracted.left_out}")
    notes = list[str]()
    if nodes:
        first = nodes[0]
        note = f"{first.name}: {first.told_as_node}"
        if len(nodes) > 1:
            note = f"{number_of(len(nodes), 'gather')}, such as {note}"
        notes.append(note)
    names = [case.name for case in cases]
    return FileCases(path, [path], names, iter(cases), notes=notes)


def read_source(path: str, allow_outside: bool) -> Program:
    """Read a program from a file, or from the standard input where the path is "-".

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
    """Return the files that a path names, sorted.

    These are the file itself; the files of a folder, and below it, whose names have an
    ending; or what a pattern such as `models/*` names, as shells expand it. A pipe or a
    device in a folder is not read.

    Raises:
        FileFormatError: A folder has no file with the ending, or a folder in it cannot
            be read.
    """
    # Case 1: a pattern. A file whose name looks like a pattern is that file.
    if not os.path.lexists(path):
        matches = sorted(glob(path, recursive=True))
        if matches:
            sources = list[Source]()
            for match in matches:
                sources += find_sources(match, ending)
            return sources

    # Case 2: a file, or the standard input; whether it exists is seen when it is read.
    if not os.path.isdir(path):
        inside = "stdin" if path == STANDARD else os.path.basename(path)
        return [Source(path, inside)]

    # Case 3: a folder.
    try:
        files = [*_files_below(path, ending)]
    except OSError as error:
        raise FileFormatError(f"{error.filename}: {reason(error)}") from None
    if not files:
        got = "none"
        if ending == PROGRAM_ENDING and any(_files_below(path, ".onnx")):
            pattern = os.path.join(path, "**/*.onnx")
            got = f"models alone; a pattern names them: '{pattern}'"
        raise FileFormatError(
            f"{path}: the folder must have a *{ending} file, got {got}"
        )
    return [Source(file, os.path.relpath(file, path), False) for file in files]


def _files_below(path: str, ending: str) -> Iterator[str]:
    """Yield the files of a folder, and below it, whose names have an ending.

    Raises:
        OSError: A folder cannot be read.
    """
    for folder, folders, names in os.walk(path, onerror=_stop):
        # The order of the list is the order of the walk.
        folders.sort()
        for name in sorted(names):
            if not name.lower().endswith(ending):
                continue
            file = os.path.join(folder, name)
            # A link that leads nowhere is an error of its own when it is read.
            if os.path.isfile(file) or not os.path.exists(file):
                yield file


class JsonCommand(click.Command):
    """A command whose --json has a FILE only after an equals sign."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments: a word after --json is the next argument.

        Raises:
            UsageError: The word after --json looks like a file to write.
        """
        end = args.index("--") if "--" in args else len(args)
        for position in range(end):
            if args[position] != "--json":
                continue
            following = position + 1
            after = args[following] if following < end else ""
            # A shell that completes reads words that are not whole yet.
            if _is_new_json(after) and not ctx.resilient_parsing:
                raise click.UsageError(
                    f"{after}: no such file or directory. Write --json=FILE.", ctx
                )
            args[position] = f"--json={STANDARD}"
        return super().parse_args(ctx, args)


def _is_new_json(word: str) -> bool:
    """Return whether a word looks like a JSON file that does not exist."""
    if not word.lower().endswith(".json") or os.path.lexists(word):
        return False
    # A pattern stands for files that exist.
    return not glob(word, recursive=True)


def _stop(error: OSError) -> None:
    raise error
