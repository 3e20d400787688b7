"""The commands `convert`, `run`, `show` and `explain`, for programs.

Commands return their exit code. The commands that need onnx or onnxruntime import them,
so that `--help` and `show` answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from click.core import ParameterSource

from onnxgather.checking.cases import DescriptorCase, program_cases
from onnxgather.cli import arguments
from onnxgather.cli.arguments import Lowering
from onnxgather.cli.examples import examples_of
from onnxgather.cli.outputs import (
    MODEL_ENDINGS,
    WEBNN_ENDINGS,
    Job,
    Outputs,
    plan,
)
from onnxgather.cli.sources import (
    STANDARD,
    Batch,
    FileGathers,
    JsonCommand,
    Reading,
    case_with_inputs,
    gathers_in,
    read_source,
)
from onnxgather.cli.terminal import Progress, is_terminal, json_bytes, say
from onnxgather.cli.unforeseen import foreseen
from onnxgather.core.checks import number_of, printable, shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.explain import (
    Explanation,
    NamedSource,
    explain_all,
    explanation_text,
    named_source,
    named_sources,
)
from onnxgather.core.descriptors.explain import explain as explain_element
from onnxgather.core.descriptors.feature_levels import (
    FEATURE_LEVELS,
    check_feature_level,
)
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.errors import (
    GOOD,
    DescriptorError,
    FileFormatError,
    OnnxGatherError,
    located,
)
from onnxgather.core.execution.providers import DIRECTML_DLL, PROVIDERS, Provider
from onnxgather.core.files import first_missing_folder, is_model
from onnxgather.core.options import TARGETS, WEBNN, OutOfRange, Target, WebnnForm
from onnxgather.core.programs.program import MAX_COMPARED_BYTES, Program
from onnxgather.core.programs.running import ByteForm, execute, printed
from onnxgather.core.programs.writer import write_program_of_zeros

if TYPE_CHECKING:
    from onnxgather.core.lowering.show import Description


@click.command("convert")
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
@arguments.allow_outside
@arguments.force
@arguments.as_records(lowering=Lowering, reading=Reading)
def convert_command(
    files: Sequence[str],
    output: str | None,
    feature_level: str | None,
    whole: bool,
    resources: Sequence[str],
    form: WebnnForm | None,
    force: bool,
    lowering: Lowering,
    reading: Reading,
) -> int:
    """Write an ONNX model, or a WebNN program, for each gather of each program.

    A FILE may also be a folder: all *.json files in it and below it; or a pattern in
    quotes; or -, the standard input. Models go beside their programs as NAME.onnx, or
    as NAME.DISPATCHABLE.onnx where a program has several gathers. With --whole a
    program is one model.
    """
    if resources and not whole:
        raise click.UsageError("--input must come with --whole")
    source_of = click.get_current_context().get_parameter_source
    # Of a program for WebNN, the lowering has no target.
    is_webnn = lowering["target"] not in TARGETS
    if is_webnn:
        for option in ("input", "opset", "threads"):
            parameter = "resources" if option == "input" else option
            if source_of(parameter) is not ParameterSource.DEFAULT:
                rule = f"--{option} must not come with --target {WEBNN}"
                raise click.UsageError(f"{rule}, as it is for ONNX models")
        if whole and form is not None:
            raise click.UsageError("--form must not come with --whole")
    elif form is not None:
        raise click.UsageError(f"--form must come with --target {WEBNN}")
    batch = Batch()
    all_gathers: list[FileGathers] = []
    for source in batch.sources(files):
        with batch.step(source.path):
            gathers = gathers_in(batch, source, reading)
            if gathers.program:
                policy = lowering["out_of_range"]
                _check_convertible(batch, gathers.program, policy, whole)
            elif whole:
                rule = "--whole must come with programs"
                raise click.UsageError(f"{rule}, got {source.path}")
            all_gathers.append(gathers)

    # Some gathers of a file may fail while others are read; such a file is read.
    read = {gathers.source.path for gathers in all_gathers}
    unread = [path for path, _ in batch.failures if path not in read]
    endings = WEBNN_ENDINGS if is_webnn else MODEL_ENDINGS
    jobs = plan(all_gathers, output, unread, whole, endings)
    # Each new folder is told once, without the folders in it.
    new_folders = [first_missing_folder(job.output) for job in jobs]
    told_folders = {""}
    for number, job in enumerate(jobs, 1):
        with batch.step(job.source, number, len(jobs)):
            job.check(force)
            if is_webnn:
                content = _webnn_content(job, feature_level, form, lowering)
            else:
                content = _content(job, feature_level, resources, lowering)
            job.write(content, force)
            new_folder = new_folders[number - 1]
            if new_folder not in told_folders:
                told_folders.add(new_folder)
                batch.tell(f"new folder: {new_folder}")
            if job.output != STANDARD:
                batch.say(f"{job.source} -> {job.output}")
            # A WebNN program of a whole program has inputs for all its resources.
            if not is_webnn and not resources:
                note = _note_on_no_inputs(job)
                if note:
                    batch.tell(note)
    return batch.finish()


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
        for case in cases:
            under_policy = replace(case, out_of_range=policy)
            in_model = under_policy
            if in_whole is not None:
                in_model = next(in_whole)
            difference = under_policy.told(in_model.expected())
            if difference:
                batch.tell(f"{case.name}: {difference}")
    except FileFormatError as error:
        batch.tell(f"{error}; so it is not known what an index out of range changes")


def _content(
    job: Job, feature_level: str | None, resources: Sequence[str], lowering: Lowering
) -> bytes:
    """Return the content of a file that `convert` writes."""
    from onnxgather.core.model.write import check_model, to_onnx
    from onnxgather.core.programs.whole import program_to_onnx

    content = job.content
    place = job.place
    level = feature_level or FEATURE_LEVELS[-1]
    if isinstance(content, Program):
        with located(place):
            for dispatchable in content.dispatchables.values():
                check_feature_level(dispatchable.descriptor, level)
        # An error of the program says its place by itself.
        model = program_to_onnx(content, **lowering, inputs=resources or None)
    else:
        with located(place):
            check_feature_level(content, level)
            if job.output.endswith(".json"):
                return write_program_of_zeros(content, job.where).encode()
            model = to_onnx(content, **lowering)
    with located(place):
        check_model(model)
    return model.SerializeToString(deterministic=True)


def _webnn_content(
    job: Job, feature_level: str | None, form: WebnnForm | None, lowering: Lowering
) -> bytes:
    """Return the WebNN program that `convert` writes: as a module, or as JSON."""
    from onnxgather.core.lowering.webnn.program import to_webnn
    from onnxgather.core.programs.whole_webnn import program_to_webnn

    content = job.content
    level = feature_level or FEATURE_LEVELS[-1]
    policy = lowering["out_of_range"]
    if isinstance(content, Program):
        with located(job.place):
            for dispatchable in content.dispatchables.values():
                check_feature_level(dispatchable.descriptor, level)
        # An error of the program says its place by itself.
        program = program_to_webnn(content, policy)
    else:
        with located(job.place):
            check_feature_level(content, level)
            program = to_webnn(content, policy, form or "bytes")
    if job.output.lower().endswith(".json"):
        return program.to_json().encode()
    return program.to_javascript().encode()


@click.command("run", epilog=examples_of("run"))
@click.argument("file", type=arguments.FILE, metavar="FILE")
@arguments.run_on
@arguments.inputs
@arguments.policy(
    default_in_help="directml, as dxdispatch; of a model that onnxgather wrote: its own"
)
@arguments.target(default_in_help="the one that suits the provider")
@arguments.folder(
    "--output-folder",
    default=os.curdir,
    help="Where writeFile writes.  [default: the current folder]",
)
@arguments.flag(
    "--numbers",
    help="Print 8-bit values as numbers, not as characters.",
)
@arguments.allow_outside
@arguments.force
@arguments.as_records(reading=Reading)
def run_command(
    file: str,
    provider: str,
    out_of_range: OutOfRange | None,
    target: Target | None,
    output_folder: str,
    numbers: bool,
    force: bool,
    reading: Reading,
) -> int:
    """Run the commands of a program and print the lines that dxdispatch prints.

    A descriptor alone, and a model that onnxgather wrote, run on the arrays of
    --inputs; a model runs as it is.

    FILE is read whole before anything runs. writeFile writes plain files below DIR:
    none that is hidden or behind a link, unless --allow-outside is given, and none that
    the program reads. A file that is there must be empty or have these bytes already,
    unless --force is given. The standard error tells how many indices are out of range.

    dxdispatch prints 8-bit values as the bytes themselves. On a terminal, bytes that
    are no plain ASCII are escaped; --numbers prints numbers.

    With --provider directml-dll a dispatch runs on DirectML.dll itself, its tensors
    bound to the resources at their offsets.
    """
    from onnxgather.core.execution import session
    from onnxgather.core.execution.elsewhere import child, hosts

    progress = Progress(first_line=2)

    def show_wait(seconds: float) -> None:
        progress.show(
            f"{provider}: waiting for its host, {seconds:.0f} s; a start takes 2 to"
            " 20 s"
        )

    def by_provider(
        desc: Descriptor, data: Array, indices: Array, policy: OutOfRange
    ) -> Array:
        with closing(progress), child.starts_told(show_wait):
            return session.run(desc, data, indices, policy, provider, target)

    on_dll = provider == DIRECTML_DLL
    if on_dll:
        _check_options_of_dll(target, out_of_range or "directml")
    # Before the program, as a variable that is wrong is no fault of the program.
    hosts.find_runtime(PROVIDERS.get(provider, Provider(provider)), warm=True)
    allow_outside = reading.allow_outside
    program = _program_to_run(file, allow_outside)
    for note in program.notes:
        say(f"{file}: {note}", err=True)
    if reading.inputs is not None or _needs_inputs(program):
        if program.model is None:
            out_of_range = out_of_range or "directml"
        case = _case_to_run(program, reading, out_of_range, target, provider)
        if not case.in_range:
            has_option = not case.runs_file
            note = case.told(case.expected(), has_option=has_option)
            say(f"{file}: {note}", err=True)
        for piece in _printed_output(case, program, provider, target, numbers):
            say(piece, end="")
        return GOOD
    out_of_range = out_of_range or "directml"
    with ExitStack() as stack:
        on_resources = None
        if on_dll:
            from onnxgather.checking.lanes.directml import open_host
            from onnxgather.core.execution.elsewhere.worker import REQUEST_TIMEOUT

            with closing(progress), child.starts_told(show_wait):
                host = open_host(timeout=REQUEST_TIMEOUT)
            on_resources = stack.enter_context(closing(host)).dispatch
        pieces = execute(
            program,
            by_provider,
            out_of_range,
            output_folder=output_folder,
            allow_outside=allow_outside,
            force=force,
            note=partial(say, err=True),
            on_resources=on_resources,
            byte_form=_byte_form(numbers),
        )
        for piece in pieces:
            say(piece, end="")
    return GOOD


def _program_to_run(file: str, allow_outside: bool) -> Program:
    """Read a program, or the descriptor of a model that onnxgather wrote.

    Raises:
        OnnxGatherError: As `read_program` and `program_of_model`.
    """
    if not is_model(file):
        return read_source(file, allow_outside)
    # A program loads no onnx.
    from onnxgather.core.model.values import load_model
    from onnxgather.core.programs.loading import program_of_model

    return program_of_model(load_model(file), file)


def _needs_inputs(program: Program) -> bool:
    """Return whether a program has descriptors alone, which have no data."""
    return bool(program.without_data) and not program.commands


def _case_to_run(
    program: Program,
    reading: Reading,
    out_of_range: OutOfRange | None,
    target: Target | None,
    provider: str,
) -> DescriptorCase:
    """Return a descriptor with the arrays of --inputs.

    Raises:
        UsageError: There are no arrays, or an option is not for this file.
    """
    if reading.inputs is None:
        raise click.UsageError(
            f"--inputs FILE.npz must come with {program.path}, which has no data"
        )
    if provider == DIRECTML_DLL:
        rule = f"--provider {DIRECTML_DLL} must come with a program that has data"
        lane = f"onnxgather check {program.path} --lanes {DIRECTML_DLL}"
        raise click.UsageError(f"{rule}; {lane} runs a descriptor alone")
    option = ""
    if program.model is not None:
        if out_of_range is not None:
            option = f"--out-of-range {out_of_range}"
        elif target is not None:
            option = f"--target {target}"
    if option:
        rule = f"{option} must not come with {program.path}"
        raise click.UsageError(f"{rule}, as a model runs as it is")
    return case_with_inputs(program, reading, out_of_range)


def _printed_output(
    case: DescriptorCase,
    program: Program,
    provider: str,
    target: Target | None,
    numbers: bool,
) -> Iterator[bytes]:
    """Run a descriptor alone or a model, and yield its output as `print` prints it."""
    from onnxgather.core.execution.session import Session, run

    if program.model is None:
        output = run(
            case.descriptor,
            case.data,
            case.indices,
            case.out_of_range,
            provider,
            target,
        )
    else:
        output = Session(program.model.proto, provider).run(case.data, case.indices)
    data_type = case.descriptor.output_tensor.data_type
    content = np.ascontiguousarray(output).reshape(-1).view(np.uint8)
    form = _byte_form(numbers)
    return printed("OutputTensor", data_type, content, False, form)


def _byte_form(numbers: bool) -> ByteForm:
    """Return how 8-bit values are printed.

    Args:
        numbers: Whether the user asks for numbers.
    """
    if numbers:
        return "numbers"
    # A terminal obeys some bytes; a file or a pipe has what dxdispatch prints.
    return "escapes" if is_terminal(sys.stdout) else "bytes"


def _check_options_of_dll(target: Target | None, policy: OutOfRange) -> None:
    """Check the options of a run on DirectML.dll itself.

    Raises:
        UsageError: An option is for models.
    """
    option = ""
    if target:
        option = f"--target {target}"
    elif policy != "directml":
        option = f"--out-of-range {policy}"
    if option:
        rule = f"{option} must not come with --provider {DIRECTML_DLL}"
        reason = (
            "as DirectML.dll runs no model, and has its own rule for an index out of"
            " range"
        )
        raise click.UsageError(f"{rule}, {reason}")


@click.command("show", cls=JsonCommand, epilog=examples_of("show"))
@click.argument(
    "files", nargs=-1, required=True, type=arguments.FILE, metavar="FILE..."
)
@arguments.policy(
    default_in_help=(
        "clamp; of a model that onnxgather wrote: its own; of other models: error"
    )
)
@arguments.model_options
@arguments.webnn
@arguments.node
@arguments.shape
@arguments.json_file("descriptors and models")
@arguments.as_html
@arguments.allow_outside
@arguments.as_records(outputs=Outputs, lowering=Lowering, reading=Reading)
def show_command(
    files: Sequence[str],
    webnn: WebnnForm | None,
    outputs: Outputs,
    lowering: Lowering,
    reading: Reading,
) -> int:
    """Explain each gather of each program: its descriptor, its formula, its ONNX nodes.

    A FILE may also be a folder: all *.json files in it and below it; or -, the standard
    input; or a pattern in quotes. With --json, several files, a folder, or a pattern
    are a list. With --html, the page has a picture of each gather, in which pointing at
    an element shows where it came from.
    """
    if len(outputs.by_option) > 1:
        raise click.UsageError("--json and --html must come one at a time")
    outputs.check_writable()
    batch = Batch()
    described = _described(batch, files, lowering, webnn, reading)
    # A folder or a pattern is a list of files, even if it has only one.
    is_single = len(files) == 1 and not os.path.isdir(files[0])
    for description in described:
        if files[0] not in (STANDARD, description.gathers.source.path):
            is_single = False
    is_empty_list = outputs.json_file is not None and not is_single
    if not outputs.by_option:
        _say_described(described)
    elif described or is_empty_list:
        files_read = [path for shown in described for path in shown.gathers.files]
        outputs.check_apart_from_models(files_read)
        documents = [shown.document for shown in described]
        left_out = [str(error) for _, error in batch.failures]
        contents = {
            "--html": partial(page_of, described, left_out=left_out),
            "--json": partial(json_bytes, documents[0] if is_single else documents),
        }
        outputs.write(batch, contents)
    return batch.finish()


@dataclass(frozen=True, slots=True)
class DescribedFile:
    """The gathers of a file with their descriptions."""

    gathers: FileGathers
    descriptions: Mapping[str, Description]
    """By the names of the gathers."""

    @property
    def document(self) -> dict[str, Any]:
        """What --json writes of the file."""
        noun = "dispatchables" if self.gathers.program else "gathers"
        return {"file": self.gathers.source.path, noun: self.descriptions}


def _described(
    batch: Batch,
    files: Sequence[str],
    lowering: Lowering,
    webnn: WebnnForm | None,
    reading: Reading,
) -> list[DescribedFile]:
    """Return the gathers of the files with their descriptions."""
    from onnxgather.core.lowering.show import describe

    # None where the option is not given.
    policy: OutOfRange | None = lowering["out_of_range"]
    given_target = lowering["target"]
    source_of = click.get_current_context().get_parameter_source
    described: list[DescribedFile] = []
    for source in batch.sources(files):
        with batch.step(source.path):
            gathers = gathers_in(batch, source, reading)
            lowering["out_of_range"] = policy or gathers.policy
            program = gathers.program
            own = None if program is None else program.model
            lowering["target"] = given_target
            # Case: a model that onnxgather wrote has a target of its own.
            if own is not None and source_of("target") is ParameterSource.DEFAULT:
                lowering["target"] = own.target
            descriptions = {
                name: describe(desc, **lowering, webnn=webnn)
                for name, desc in gathers.descriptors.items()
            }
            described.append(DescribedFile(gathers, descriptions))
    return described


def _say_described(described: Sequence[DescribedFile]) -> None:
    """Print the descriptions, each under the place of its gather."""
    from onnxgather.core.lowering.show import description_text

    texts = list[str]()
    for file in described:
        for name, description in file.descriptions.items():
            title = printable(file.gathers.place(name))
            texts.append(f"{title}\n\n{description_text(description)}")
    if texts:
        say("\n\n\n".join(texts), as_is=True)


def page_of(described: Sequence[DescribedFile], left_out: Sequence[str] = ()) -> bytes:
    """Return the page of `show`, with the data that the programs have.

    Args:
        described: The gathers of each file with their descriptions.
        left_out: As of `lesson_page`.
    """
    from onnxgather.core.output.lesson import lesson, lesson_page

    lessons = list[dict[str, Any]]()
    for file in described:
        arrays = _arrays_of(file)
        for name, description in file.descriptions.items():
            desc = file.gathers.descriptors[name]
            lessons.append(
                lesson(file.gathers.place(name), desc, description, arrays.get(name))
            )

    paths = [*dict.fromkeys(file.gathers.source.path for file in described)]
    title = paths[0] if len(paths) == 1 else number_of(len(paths), "file")
    return lesson_page(title, lessons, _next_commands(described), left_out)


def _arrays_of(file: DescribedFile) -> dict[str, tuple[Array, Array]]:
    """Return data and indices of the first dispatch of each gather of a program."""
    program = file.gathers.program
    if program is None or program.without_data:
        return {}
    # All gathers of a file are described under one policy.
    policy = next(iter(file.descriptions.values())).out_of_range
    arrays = dict[str, tuple[Array, Array]]()
    for case in program_cases(program, policy):
        if case.origin:
            arrays.setdefault(case.origin.dispatchable, (case.data, case.indices))
    return arrays


def _next_commands(described: Sequence[DescribedFile]) -> dict[str, str]:
    """Return the commands for the files that come next, with what each does."""
    programs = list[str]()
    models = list[str]()
    for file in described:
        path = quote(file.gathers.source.path)
        if file.gathers.program:
            programs.append(path)
        else:
            models.append(path)
    commands = dict[str, str]()
    if programs:
        convert = f"onnxgather convert {' '.join(programs)} -o models"
        commands[convert] = "Writes the ONNX models."
    if models:
        audit = f"onnxgather audit {' '.join(models)}"
        commands[audit] = "Says whether the indices stay in range."
    return commands


@click.command("explain", cls=JsonCommand, epilog=examples_of("explain"))
@click.argument("file", type=arguments.FILE, metavar="FILE")
@click.option(
    "--at",
    metavar="COORDINATES",
    help="Such as 1,0.  [default: all, if the output is small]",
)
@arguments.number(
    "--dispatch", "number", default=1, help="Which of the program's dispatches."
)
@arguments.node
@arguments.inputs
@arguments.policy(
    default_in_help=(
        "clamp; of a model that onnxgather wrote: its own; of other models: error"
    )
)
@arguments.json_file("elements")
@arguments.allow_outside
@arguments.as_records(reading=Reading, outputs=Outputs)
def explain_command(
    file: str,
    at: str | None,
    number: int,
    out_of_range: OutOfRange | None,
    outputs: Outputs,
    reading: Reading,
) -> int:
    """Say which index and which input element an element of OutputTensor comes from.

    Without --at, say so of every element, and show the inputs. A descriptor alone, and
    a model that onnxgather wrote, have no data: without --inputs, names stand for the
    values of indices.
    """
    reading.check_models(file)
    batch = Batch(prints=False)
    program = None
    if not is_model(file):
        program = Batch().read(file, reading.allow_outside)
    elif not reading.is_of_graph:
        program = batch.read_own(file, reading)
    read = [file]
    if program is not None:
        read = [program.path, *program.files]
    if reading.inputs is not None:
        read.append(reading.inputs)
    outputs.check_apart_from_models(read)
    outputs.check_writable()

    place = None
    if at is not None:
        place = _coordinates(at)
    try:
        if program is not None and program.without_data and reading.inputs is None:
            desc = _descriptor_by_number(program, number)
            explanation, text = _explained_by_names(desc, place)
        else:
            case = _case_to_explain(file, program, number, out_of_range, reading)
            if case.note is not None:
                batch.tell(f"{case.name}: {case.note}")
            explanation, text = _explained(case, place)
    except DescriptorError as error:  # it can be about the coordinates only
        raise click.BadParameter(str(error), param_hint="--at") from None
    is_printed = outputs.write(batch, {"--json": partial(json_bytes, explanation)})
    if not is_printed:
        say(text, as_is=at is None)
    return batch.finish()


def _explained(
    case: DescriptorCase, at: Sequence[int] | None
) -> tuple[Explanation | list[Explanation], str]:
    """Return what is said of one output element or of all, as data and as text."""
    arrays = case.descriptor, case.data, case.indices
    if at is not None:
        explanation = explain_element(*arrays, at, case.out_of_range)
        return explanation, str(explanation)
    explanations = explain_all(*arrays, case.out_of_range)
    return explanations, explanation_text(*arrays, explanations)


def _explained_by_names(
    desc: Descriptor, at: Sequence[int] | None
) -> tuple[NamedSource | list[NamedSource], str]:
    """Return the same as `_explained` of a descriptor without data."""
    if at is not None:
        source = named_source(desc, at)
        return source, str(source)
    sources = named_sources(desc)
    return sources, "\n".join(map(str, sources))


def _case_to_explain(
    file: str,
    program: Program | None,
    number: int,
    out_of_range: OutOfRange | None,
    reading: Reading,
) -> DescriptorCase:
    """Return the case of a dispatch, or of a node of a model of others.

    Raises:
        FileFormatError: The program has fewer dispatches.
        OnnxGatherError: ONNX forbids the node, or the inputs do not fit.
    """
    if program is None:
        from onnxgather.extracting.extract import case_of_node

        with foreseen(f"{file}: cannot be read"):
            case = case_of_node(file, reading.arrays(), reading.node)
        if not isinstance(case, DescriptorCase):
            raise OnnxGatherError(f"{case.name}: {case.node.rule}")
        return replace(case, out_of_range=out_of_range or "error")
    if reading.inputs is not None:
        return case_with_inputs(program, reading, out_of_range)
    cases = [*program_cases(program, out_of_range)]
    _check_number(program, number, len(cases))
    return cases[number - 1]


def _descriptor_by_number(program: Program, number: int) -> Descriptor:
    """Return a descriptor without data, by its number from 1.

    Raises:
        FileFormatError: The program has fewer.
    """
    gathers = [*program.without_data.values()]
    _check_number(program, number, len(gathers))
    return gathers[number - 1].descriptor


def _check_number(program: Program, number: int, count: int) -> None:
    if number > count:
        rule = f"the file must have {number} dispatches for --dispatch {number}"
        raise FileFormatError(f"{program.path}: {rule}, got {count}")


def _coordinates(text: str) -> Sequence[int]:
    """Return the coordinates of an output element, as --at gives them."""
    try:
        return arguments.integers(text)
    except ValueError:
        sentence = f"must be integers with commas, got {shown(text)}"
        raise click.BadParameter(sentence, param_hint="--at") from None
