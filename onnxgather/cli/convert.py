"""The command `convert`, which writes programs as ONNX models or for WebNN.

What needs onnx is imported when it is needed, so that `--help` answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from shlex import quote

import click

from onnxgather.checking.cases import program_cases
from onnxgather.cli import arguments
from onnxgather.cli.converted import (
    Conversions,
    Converted,
    ConvertOptions,
    converted_of,
)
from onnxgather.cli.examples import command
from onnxgather.cli.outputs import MODEL_ENDINGS, WEBNN_ENDINGS, Job, Outputs, plan
from onnxgather.cli.sources import (
    STANDARD,
    Batch,
    FileGathers,
    Reading,
    Source,
    gathers_in,
)
from onnxgather.cli.terminal import Interrupted
from onnxgather.core.checks import number_of
from onnxgather.core.descriptors.feature_levels import FEATURE_LEVELS
from onnxgather.core.errors import FileFormatError, OnnxGatherError
from onnxgather.core.files import check_apart, first_missing_folder, is_model
from onnxgather.core.options import OutOfRange
from onnxgather.core.programs.program import MAX_COMPARED_BYTES, Program

MOST_TOLD = 10
"""Of so many dispatches a line says which of their indices is out of range."""


@command("convert")
@arguments.files("files", metavar="FILE...")
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
@arguments.name_option(
    "--input",
    "resources",
    multiple=True,
    help=(
        "With --whole: a resource that is a graph input.  [default: those with"
        " sourcePath]"
    ),
)
@arguments.json_file("list of models")
@arguments.allow_outside
@arguments.force
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
        raise click.UsageError(
            "--json must have a FILE, as --json=FILE"
            ", where a model goes to the standard output"
        )
    if options.verify and not options.is_webnn:
        # No model is made where none can run.
        from onnxgather.proving.verify import check_runs_models

        check_runs_models()
    outputs.check_writable()
    batch = Batch(prints=False)
    work = Conversions(batch, options)
    sources = list[Source]()
    jobs = list[Job]()
    with batch.errors_last():
        try:
            sources = batch.sources(files)
            for number, source in enumerate(sources, 1):
                with batch.step(source.path, number, len(sources)):
                    work.gathers[source.path] = _read(work, source, output, reading)
            _tell_of_more(work)
            jobs = _jobs(work, sources, output, outputs)
            _convert_all(work, jobs, prints=outputs.json_file != STANDARD)
        except Interrupted as stop:
            _keep_stop(work, stop, len(jobs))
    errors = [
        {"file": name or None, "error": str(error)} for name, error in batch.failures
    ]
    manifest = {
        "schema": 1,
        "files": work.rows,
        "left_out": batch.left_out,
        "errors": errors,
    }
    is_printed = outputs.write_json(batch, manifest)
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
            raise click.UsageError(
                f"--whole must come with programs, got {source.path}"
            )
        return gathers
    if options.whole and not program.commands and not program.resources:
        raise OnnxGatherError(
            f"{source.path}: must be a program with commands to be one model, got"
            " descriptors alone"
        )
    # Case: the model beside a model would have its name.
    if program.model and output is None and not options.is_webnn:
        raise OnnxGatherError(
            f"{source.path}: the new model must come with -o PATH, as {source.path} is"
            " the input"
        )
    policy = options.out_of_range or gathers.policy
    _check_convertible(work, program, policy)
    return gathers


def _tell_of_more(work: Conversions) -> None:
    """Tell how many dispatches have indices out of range, if not all were named."""
    if work.out_of_range > MOST_TOLD:
        work.batch.tell(
            f"{work.out_of_range:,} dispatches have indices out of range; the first"
            f" {MOST_TOLD} of them are named above"
        )


def _jobs(
    work: Conversions, sources: Sequence[Source], output: str | None, outputs: Outputs
) -> list[Job]:
    """Return the files to write.

    Raises:
        OnnxGatherError: As `plan`; or the file of --json is an input or a model.
        UsageError: As `plan`.
    """
    options = work.options
    # A file that is named twice is there twice, so that the clash is seen.
    all_gathers = [
        work.gathers[source.path]._replace(source=source)
        for source in sources
        if source.path in work.gathers
    ]
    # Some gathers of a file may fail while others are read; such a file is read.
    unread = [path for path, _ in work.batch.failures if path not in work.gathers]
    endings = WEBNN_ENDINGS if options.is_webnn else MODEL_ENDINGS
    jobs = plan(all_gathers, output, unread, options.whole, endings)
    if outputs.json_file is not None:
        named_file = (outputs.json_file, "--json")
        read = [file for gathers in all_gathers for file in gathers.files]
        check_apart([named_file], [*read, *unread])
        # Whether the models are apart from one another is seen before.
        for job in jobs:
            check_apart([(job.output, job.place), named_file], ())
    return jobs


def _convert_all(work: Conversions, jobs: Sequence[Job], prints: bool) -> None:
    """Write the files, and print a line for each.

    Args:
        work: The files that were read.
        jobs: The files to write.
        prints: Whether the lines of models are printed.
    """
    batch = work.batch
    # Each new folder is told once, without the folders in it.
    new_folders = [first_missing_folder(job.output) for job in jobs]
    told_folders = {""}
    for number, job in enumerate(jobs, 1):
        with batch.step(job.source, number, len(jobs)):
            job.check(work.options.force)
            converted = converted_of(work, job)
            job.write(converted.content, work.options.force)
            new_folder = new_folders[number - 1]
            if new_folder not in told_folders:
                told_folders.add(new_folder)
                batch.tell(f"new folder: {new_folder}")
            _tell(work, job, converted, prints)


def _keep_stop(work: Conversions, stop: Interrupted, jobs: int) -> None:
    """Keep the signal that ended the work, so that the list says what there is.

    Args:
        work: The work until then.
        stop: The signal.
        jobs: How many files were to be written; 0 if not all inputs were read.
    """
    work.batch.stop = stop
    count = f"{number_of(len(work.gathers), 'file')} of the input"
    if jobs:
        count = f"{len(work.rows):,} of {number_of(jobs, work.options.noun)}"
    with work.batch.step(""):
        raise OnnxGatherError(f"interrupted by {stop.name} after {count}")


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
    if job.is_beside:
        return
    row = {
        "program": job.source,
        "dispatchable": None if work.options.whole else job.name,
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


def _counts(work: Conversions, sources: Sequence[Source]) -> str:
    """Return the last line, such as `3 programs: 2 models written, 1 error`."""
    batch = work.batch
    # Some of the files may be models.
    are_programs = not any(is_model(source.path) for source in sources)
    noun = "program" if are_programs else "file"
    parts = [f"{number_of(len(work.rows), work.options.noun)} written"]
    if work.options.verify:
        verified = [row["verified"] for row in work.rows]
        parts.append(f"{sum(found.proved for found in verified):,} of them proved")
    if batch.left_out:
        parts.append(f"{number_of(batch.left_out, 'file')} left out")
    if batch.failures:
        parts.append(number_of(len(batch.failures), "error"))
    return f"{number_of(len(sources), noun)}: {', '.join(parts)}"


def _note_on_no_inputs(job: Job) -> str:
    """Return a sentence if the model of a whole program has no inputs, else nothing."""
    from onnxgather.core.programs.whole import inputs_to_name

    if not isinstance(job.content, Program):
        return ""
    names = inputs_to_name(job.content)
    if not names:
        return ""
    options = " ".join(f"--input {quote(name)}" for name in names)
    return (
        f"{job.source}: the model has no inputs, as the program contains all data; to"
        f" give it inputs, add {options}"
    )


def _check_convertible(work: Conversions, program: Program, policy: OutOfRange) -> None:
    """Check that no dispatch is in place; name those that DirectML runs otherwise.

    These have indices out of range, with those indices that `run` has. In one model of
    the whole program, a dispatch reads what earlier ones compute under the policy; in a
    model of its own, what they compute in DirectML.
    """
    whole = work.options.whole
    program.check_apart()
    try:
        if program.in_range():
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
            if not difference:
                continue
            work.out_of_range += 1
            if work.out_of_range <= MOST_TOLD:
                work.batch.tell(f"{case.name}: {difference}")
    except FileFormatError as error:
        work.batch.tell(
            f"{error}; so it is not known what an index out of range changes"
        )
