"""The command `convert`, which writes programs as ONNX models or for WebNN.

What needs onnx is imported when it is needed, so that `--help` answers at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from onnxgather.checking.cases import program_cases
from onnxgather.cli import arguments
from onnxgather.cli.arguments import Lowering
from onnxgather.cli.examples import examples_of
from onnxgather.cli.outputs import (
    MODEL_ENDINGS,
    WEBNN_ENDINGS,
    Job,
    Outputs,
    plan,
    write_output,
)
from onnxgather.cli.sources import (
    STANDARD,
    Batch,
    FileGathers,
    JsonCommand,
    Reading,
    Source,
    gathers_in,
)
from onnxgather.cli.terminal import Interrupted, json_bytes
from onnxgather.core.checks import number_of
from onnxgather.core.descriptors.arrays import elements
from onnxgather.core.descriptors.drawn import Drawn
from onnxgather.core.descriptors.feature_levels import (
    FEATURE_LEVELS,
    check_feature_level,
)
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.errors import FileFormatError, OnnxGatherError, located
from onnxgather.core.files import check_apart, first_missing_folder, is_model
from onnxgather.core.options import TARGETS, WEBNN, OutOfRange, WebnnForm
from onnxgather.core.programs.program import MAX_COMPARED_BYTES, Program
from onnxgather.core.programs.writer import write_program_of_zeros

if TYPE_CHECKING:
    from onnxgather.core.lowering.webnn.steps import MLOperand
    from onnxgather.core.model.values import ModelProto
    from onnxgather.proving.verify import Verification


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """The options of `onnxgather convert`, but those of files."""

    out_of_range: OutOfRange | None
    """None is what `FileGathers.policy` says of each file."""
    target: str
    opset: int
    threads: int | None
    form: WebnnForm | None
    feature_level: str | None
    whole: bool
    resources: tuple[str, ...]
    """The resources that are inputs of whole programs; empty means the usual ones."""
    verify: bool

    @property
    def is_webnn(self) -> bool:
        """Whether programs for WebNN are written, and no ONNX models."""
        return self.target not in TARGETS

    @property
    def noun(self) -> str:
        """What is written."""
        return "WebNN program" if self.is_webnn else "model"

    @property
    def level(self) -> str:
        """The highest feature level that a descriptor may need."""
        return self.feature_level or FEATURE_LEVELS[-1]

    def lowering(self, policy: OutOfRange) -> Lowering:
        """Return the arguments of the functions that make models.

        Args:
            policy: The policy of the file.
        """
        target: Any = self.target
        return Lowering(
            out_of_range=policy, target=target, threads=self.threads, opset=self.opset
        )

    def check(self) -> None:
        """Check that the options go together.

        Raises:
            UsageError: They do not.
        """
        if self.resources and not self.whole:
            raise click.UsageError("--input must come with --whole")
        if not self.is_webnn:
            if self.form is not None:
                raise click.UsageError(f"--form must come with --target {WEBNN}")
            return
        source_of = click.get_current_context().get_parameter_source
        # Of a program for WebNN, the lowering has no target.
        for option in ("input", "opset", "threads"):
            parameter = "resources" if option == "input" else option
            if source_of(parameter) is not ParameterSource.DEFAULT:
                rule = f"--{option} must not come with --target {WEBNN}"
                raise click.UsageError(f"{rule}, as it is for ONNX models")
        if self.whole and self.form is not None:
            raise click.UsageError("--form must not come with --whole")


@dataclass(frozen=True, slots=True)
class Converted:
    """A model, or a program for WebNN."""

    content: bytes
    inputs: Mapping[str, Mapping[str, Any]]
    """The type and the sizes of each input of the graph, by its name."""
    verified: Verification | None = None


@dataclass(slots=True)
class Conversions:
    """The files to convert, and what became of them."""

    batch: Batch
    options: ConvertOptions
    gathers: dict[str, FileGathers] = field(default_factory=dict[str, FileGathers])
    """The gathers of each file that was read, by its path."""
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """What --json says of each model."""
    cases: dict[str, list[Drawn]] = field(default_factory=dict[str, list[Drawn]])
    """The data of a program for its gathers, by their names."""
    cases_of: str | None = None
    """The file of that program: the last one that was verified."""

    def policy(self, path: str) -> OutOfRange:
        """Return what an index out of range does in the models of a file."""
        return self.options.out_of_range or self.gathers[path].policy


@click.command("convert", cls=JsonCommand, epilog=examples_of("convert"))
@click.argument(
    "files", nargs=-1, required=True, type=arguments.FILE, metavar="FILE..."
)
@arguments.file(
    "-o",
    "--output",
    metavar="PATH",
    help=(
        "A folder; or, if there is one model, a file that ends in .onnx, or - for the"
        " output. With --target webnn a file ends in .mjs or .json."
    ),
)
@arguments.flag(
    "--verify",
    help=(
        "Run each model on ONNX Runtime's CPU provider, with the program's data and"
        " with three drawn cases, and prove it where 10 seconds are enough; write no"
        " model that differs from the descriptor. Most proofs need a solver: pip"
        " install z3-solver."
    ),
)
@arguments.conversion
@click.option(
    "--feature-level",
    type=click.Choice(FEATURE_LEVELS),
    metavar="LEVEL",
    help="Refuse descriptors that need more than this level, such as 3_0.",
)
@arguments.node
@arguments.shape
@arguments.flag(
    "--whole", help="Write each program as one model, all dispatches in order."
)
@click.option(
    "--input",
    "resources",
    multiple=True,
    metavar="NAME",
    help=(
        "With --whole: a resource that is a graph input.  [default: those with"
        " sourcePath]"
    ),
)
@arguments.json_file("list of models")
@arguments.allow_outside
@arguments.as_records(options=ConvertOptions, reading=Reading, outputs=Outputs)
def convert_command(
    files: Sequence[str],
    output: str | None,
    options: ConvertOptions,
    reading: Reading,
    outputs: Outputs,
) -> int:
    """Write an ONNX model, or a WebNN program, for each gather of each program.

    A FILE is a program, a descriptor alone or a list of them, or an ONNX model; or a
    folder: all *.json files in it and below it that may be programs; or a pattern in
    quotes; or -, the standard input. Models go beside their programs as NAME.onnx, or
    as NAME.DISPATCHABLE.onnx where a program has several gathers. With --whole a
    program is one model.
    """
    options.check()
    if outputs.json_file == STANDARD == output:
        rule = "--json must have a FILE, as --json=FILE"
        raise click.UsageError(f"{rule}, where a model goes to the standard output")
    if options.verify and not options.is_webnn:
        # No model is made where none can run.
        from onnxgather.proving.verify import check_runs_models

        check_runs_models()
    outputs.check_writable()
    batch = Batch(prints=False)
    work = Conversions(batch, options)
    with batch.errors_last():
        sources = batch.sources(files)
        for number, source in enumerate(sources, 1):
            with batch.step(source.path, number, len(sources)):
                work.gathers[source.path] = _read(work, source, output, reading)
        jobs = _jobs(work, sources, output, outputs)
        _convert_all(work, jobs, output, prints=outputs.json_file != STANDARD)
    is_printed = outputs.write(batch, {"--json": partial(_manifest, work)})
    # The only file needs no count.
    is_batch = len(sources) > 1 or batch.left_out > 0
    if sources and is_batch and not is_printed:
        batch.say(_counts(work, sources))
    return batch.finish()


def _read(
    work: Conversions, source: Source, output: str | None, reading: Reading
) -> FileGathers:
    """Return the gathers of a file that can be converted.

    Raises:
        OnnxGatherError: The file cannot be read, or its gathers cannot be converted.
        UsageError: An option does not go with the file.
    """
    options = work.options
    gathers = gathers_in(work.batch, source, reading)
    program = gathers.program
    if program is None or (options.whole and program.model):
        if options.whole:
            rule = "--whole must come with programs"
            raise click.UsageError(f"{rule}, got {source.path}")
        return gathers
    if options.whole and not program.commands and not program.resources:
        rule = "--whole must come with programs"
        what = "which is a descriptor alone, or a list of them"
        raise click.UsageError(f"{rule}, got {source.path}, {what}")
    # Case: the model beside a model would have its name.
    if program.model and output is None and not options.is_webnn:
        rule = "the new model must come with -o PATH"
        raise OnnxGatherError(f"{source.path}: {rule}, as {source.path} is the input")
    policy = options.out_of_range or gathers.policy
    _check_convertible(work.batch, program, policy, options.whole)
    return gathers


def _jobs(
    work: Conversions, sources: Sequence[Source], output: str | None, outputs: Outputs
) -> list[Job]:
    """Return the files to write.

    Raises:
        OnnxGatherError: Two files would be one, or a file would replace an input.
        UsageError: As `plan`.
    """
    options = work.options
    all_gathers: list[FileGathers] = []
    for source in sources:
        # A file that is named twice is there twice, so that the clash is seen.
        if source.path in work.gathers:
            all_gathers.append(replace(work.gathers[source.path], source=source))
    # Some gathers of a file may fail while others are read; such a file is read.
    unread = [path for path, _ in work.batch.failures if path not in work.gathers]
    endings = WEBNN_ENDINGS if options.is_webnn else MODEL_ENDINGS
    jobs = plan(all_gathers, output, unread, options.whole, endings)
    if outputs.json_file is not None:
        read = [file for gathers in all_gathers for file in gathers.files]
        written = [(job.output, job.place) for job in jobs if job.output != STANDARD]
        named_files = [*written, (outputs.json_file, "--json")]
        check_apart(named_files, [*read, *unread])
    return jobs


def _convert_all(
    work: Conversions, jobs: Sequence[Job], output: str | None, prints: bool
) -> None:
    """Write the files, and print a line for each. A signal ends the work.

    Args:
        work: The files that were read.
        jobs: The files to write.
        output: As of `plan`.
        prints: Whether the lines of models are printed.
    """
    batch = work.batch
    # Each new folder is told once, without the folders in it.
    new_folders = [first_missing_folder(job.output) for job in jobs]
    told_folders = {""}
    try:
        for number, job in enumerate(jobs, 1):
            with batch.step(job.source, number, len(jobs)):
                converted = _converted(work, job)
                write_output(job.output, converted.content, follow=job.output == output)
                new_folder = new_folders[number - 1]
                if new_folder not in told_folders:
                    told_folders.add(new_folder)
                    batch.tell(f"new folder: {new_folder}")
                _tell(work, job, converted, prints)
    except Interrupted as stop:
        batch.stop = stop
        with batch.step(""):
            count = f"{len(work.rows):,} of {number_of(len(jobs), work.options.noun)}"
            sentence = f"interrupted by {stop.name} after {count}"
            raise OnnxGatherError(sentence) from None


def _tell(work: Conversions, job: Job, converted: Converted, prints: bool) -> None:
    """Print the line of a file that was written, and keep what --json says of it."""
    batch = work.batch
    verified = converted.verified
    line = f"{job.source} -> {job.output}"
    if verified is not None:
        line += f": {verified}"
    if job.output != STANDARD and prints:
        batch.say(line)
    elif job.output == STANDARD and verified is not None:
        batch.tell(f"{job.source}: {verified}")
    # Case: the program beside the model of a gather of a network.
    if _is_program_beside(work, job):
        return
    gathers = work.gathers[job.source]
    names = {gathers.where(name): name for name in gathers.descriptors}
    row = {
        "program": job.source,
        "dispatchable": None if work.options.whole else names[job.where],
        "model": job.output,
        "inputs": converted.inputs,
        "out_of_range": work.policy(job.source),
        "target": work.options.target,
        "verified": verified,
    }
    work.rows.append(row)
    # A WebNN program of a whole program has inputs for all its resources.
    if not work.options.is_webnn and not work.options.resources:
        note = _note_on_no_inputs(job)
        if note:
            batch.tell(note)


def _is_program_beside(work: Conversions, job: Job) -> bool:
    """Return whether a file is the program beside a model, with data of zeros."""
    return not work.options.is_webnn and job.output.endswith(".json")


def _counts(work: Conversions, sources: Sequence[Source]) -> str:
    """Return the last line, such as `3 programs: 2 models written, 1 error`."""
    batch = work.batch
    # Some of the files may be models.
    are_programs = not any(is_model(source.path) for source in sources)
    noun = "program" if are_programs else "file"
    parts = [f"{number_of(len(work.rows), work.options.noun)} written"]
    if batch.left_out:
        parts.append(f"{number_of(batch.left_out, 'file')} left out")
    if batch.failures:
        parts.append(number_of(len(batch.failures), "error"))
    return f"{number_of(len(sources), noun)}: {', '.join(parts)}"


def _manifest(work: Conversions) -> bytes:
    """Return what --json writes."""
    errors = list[dict[str, str | None]]()
    for name, error in work.batch.failures:
        errors.append({"file": name or None, "error": str(error)})
    manifest = {
        "schema": 1,
        "files": work.rows,
        "left_out": work.batch.left_out,
        "errors": errors,
    }
    return json_bytes(manifest)


def _note_on_no_inputs(job: Job) -> str:
    """Return a sentence if the model of a whole program has no inputs, else nothing."""
    from onnxgather.core.programs.whole import inputs_to_name

    if not isinstance(job.content, Program):
        return ""
    names = inputs_to_name(job.content)
    if not names:
        return ""
    options = " ".join(f"--input {quote(name)}" for name in names)
    rule = "the model has no inputs, as the program contains all data"
    return f"{job.source}: {rule}; to give it inputs, add {options}"


def _check_convertible(
    batch: Batch, program: Program, policy: OutOfRange, whole: bool
) -> None:
    """Check that no dispatch is in place; name those that DirectML runs otherwise.

    These have indices out of range, with those indices that `run` has. In one model of
    the whole program, a dispatch reads what earlier ones compute under the policy; in a
    model of its own, what they compute in DirectML.
    """
    program.check_apart()
    try:
        if policy == "directml" or program.in_range():
            return
        program.check_run(MAX_COMPARED_BYTES)
        cases = program_cases(program, "directml")
        # The dispatches of the whole program run in step with those of DirectML.
        in_whole = None
        if whole and policy != "error":
            in_whole = program_cases(program, policy)
        # Behind them are the cases of gathers without data, which are drawn.
        for _, case in zip(program.dispatch_commands, cases, strict=False):
            under_policy = replace(case, out_of_range=policy)
            in_model = under_policy
            if in_whole is not None:
                in_model = next(in_whole)
            difference = under_policy.told(in_model.expected())
            if difference:
                batch.tell(f"{case.name}: {difference}")
    except FileFormatError as error:
        batch.tell(f"{error}; so it is not known what an index out of range changes")


def _converted(work: Conversions, job: Job) -> Converted:
    """Return the content of a file, verified if the user asks for it.

    Raises:
        OnnxGatherError: The descriptor is above the feature level, or its model differs
            from it.
    """
    options = work.options
    content = job.content
    # An error of a whole program says its place by itself.
    if isinstance(content, Program):
        with located(job.place):
            for dispatchable in content.dispatchables.values():
                check_feature_level(dispatchable.descriptor, options.level)
        if options.is_webnn:
            return _whole_webnn(work, job, content)
        return _whole_model(work, job, content)
    with located(job.place):
        check_feature_level(content, options.level)
        if options.is_webnn:
            return _webnn_program(work, job, content)
        if _is_program_beside(work, job):
            return Converted(write_program_of_zeros(content, job.where).encode(), {})
        return _model(work, job, content)


def _model(work: Conversions, job: Job, desc: Descriptor) -> Converted:
    """Return the model of a descriptor."""
    from onnxgather.core.model.write import descriptor_model

    lowering = work.options.lowering(work.policy(job.source))
    converted = _checked(descriptor_model(desc, **lowering))
    if not work.options.verify:
        return converted
    from onnxgather.proving.verify import verify_model

    verified = verify_model(
        converted.content,
        desc,
        lowering["out_of_range"],
        lowering["target"],
        _cases_of(work, job),
    )
    return replace(converted, verified=verified)


def _whole_model(work: Conversions, job: Job, program: Program) -> Converted:
    """Return the model of a whole program."""
    from onnxgather.core.programs.whole import program_to_onnx

    lowering = work.options.lowering(work.policy(job.source))
    inputs = work.options.resources or None
    model = program_to_onnx(program, **lowering, inputs=inputs)
    with located(job.place):
        converted = _checked(model)
    if not work.options.verify:
        return converted
    from onnxgather.proving.verify_whole import verify_whole

    with located(job.source):
        verified = verify_whole(converted.content, program, **lowering, inputs=inputs)
    return replace(converted, verified=verified)


def _checked(model: ModelProto) -> Converted:
    """Return a model that ONNX's checker accepts, as it is written.

    Raises:
        OnnxGatherError: The checker refuses it.
    """
    from onnxgather.core.model.values import DIRECTML_NAMES, values_of
    from onnxgather.core.model.write import check_model

    check_model(model)
    inputs: dict[str, dict[str, Any]] = {}
    for name, value_type in values_of(model)[0].items():
        data_type = DIRECTML_NAMES.get(value_type.data_type, value_type.data_type)
        inputs[name] = {"type": data_type, "sizes": value_type.sizes}
    return Converted(model.SerializeToString(deterministic=True), inputs)


def _webnn_program(work: Conversions, job: Job, desc: Descriptor) -> Converted:
    """Return the WebNN program of a descriptor: as a module, or as JSON."""
    from onnxgather.core.lowering.webnn.program import to_webnn

    options = work.options
    program = to_webnn(desc, work.policy(job.source), options.form or "bytes")
    verified = None
    if options.verify:
        from onnxgather.proving.verify import proved_webnn

        verified = proved_webnn(program)
    content = _webnn_text(job, program)
    return Converted(content, _webnn_inputs(program.graph.inputs), verified)


def _whole_webnn(work: Conversions, job: Job, program: Program) -> Converted:
    """Return the WebNN program of a whole program: as a module, or as JSON."""
    from onnxgather.core.programs.whole_webnn import program_to_webnn

    policy = work.policy(job.source)
    whole = program_to_webnn(program, policy)
    verified = None
    if work.options.verify:
        from onnxgather.proving.verify_whole import verify_whole_webnn

        verified = verify_whole_webnn(program, policy)
    inputs = _webnn_inputs(whole.graph.inputs)
    return Converted(_webnn_text(job, whole), inputs, verified)


def _webnn_text(job: Job, program: Any) -> bytes:
    if job.output.lower().endswith(".json"):
        return program.to_json().encode()
    return program.to_javascript().encode()


def _webnn_inputs(operands: Sequence[MLOperand]) -> dict[str, dict[str, Any]]:
    """Return the inputs of a WebNN graph as --json says them."""
    inputs: dict[str, dict[str, Any]] = {}
    for operand in operands:
        data_type = operand.data_type.upper()
        inputs[operand.name] = {"type": data_type, "sizes": operand.shape}
    return inputs


def _cases_of(work: Conversions, job: Job) -> Sequence[Drawn]:
    """Return the arrays that a program has for a gather.

    The program runs once for all its gathers, which come one behind the other.
    """
    gathers = work.gathers[job.source]
    program = gathers.program
    if program is None:
        return ()
    if work.cases_of != job.source:
        work.cases_of = job.source
        work.cases = {}
        try:
            _keep_cases(work, program, work.policy(job.source))
        except FileFormatError as error:
            work.batch.tell(f"{error}; so the models run with drawn data alone")
    for name in gathers.descriptors:
        if gathers.where(name) == job.where:
            return work.cases.get(name, ())
    return ()


def _keep_cases(work: Conversions, program: Program, policy: OutOfRange) -> None:
    """Keep the arrays of each dispatch of a program.

    Raises:
        FileFormatError: The program cannot run.
    """
    cases = program_cases(program, policy)
    # Behind them are the cases of gathers without data, which are drawn.
    for command, case in zip(program.dispatch_commands, cases, strict=False):
        data = case.data
        # Case: an index is out of range, so the array has what DirectML reads behind
        # the elements. An input of a model has the elements alone.
        if case.descriptor != command.descriptor:
            data = elements(case.descriptor.input_tensor, data).copy()
        arrays = Drawn(command.path, data, case.indices)
        work.cases.setdefault(command.dispatchable, []).append(arrays)
