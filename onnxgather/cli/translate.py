"""The commands `convert`, `run`, `show` and `explain`, for programs.

Commands return their exit code. The commands that need onnx or onnxruntime import them,
so that `--help` and `show` answer at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from onnxgather.checking.cases import DescriptorCase, program_cases
from onnxgather.cli import arguments
from onnxgather.cli.arguments import Lowering
from onnxgather.cli.outputs import Job, Outputs, plan, write_output
from onnxgather.cli.sources import (
    STANDARD,
    Batch,
    FileGathers,
    JsonCommand,
    Reading,
    gathers_in,
    read_source,
)
from onnxgather.cli.terminal import Progress, json_bytes, say
from onnxgather.core.checks import number_of, printable, shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.explain import explain as explain_element
from onnxgather.core.descriptors.explain import explain_all, explanation_text
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
from onnxgather.core.files import is_model
from onnxgather.core.options import OutOfRange, Target
from onnxgather.core.programs.program import MAX_COMPARED_BYTES, Program
from onnxgather.core.programs.running import execute
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
        " output."
    ),
)
@arguments.lowering
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
@arguments.as_records(lowering=Lowering, reading=Reading)
def convert_command(
    files: Sequence[str],
    output: str | None,
    feature_level: str | None,
    whole: bool,
    resources: Sequence[str],
    lowering: Lowering,
    reading: Reading,
) -> int:
    """Write an ONNX model for each gather of each program.

    A FILE may also be a folder: all *.json files in it and below it; or a pattern in
    quotes; or -, the standard input. Models go beside their programs as NAME.onnx, or
    as NAME.DISPATCHABLE.onnx where a program has several gathers. With --whole a
    program is one model, and an index out of range does by default what it does in run.
    """
    if resources and not whole:
        raise click.UsageError("--input must come with --whole")
    source_of = click.get_current_context().get_parameter_source
    if whole and source_of("out_of_range") is ParameterSource.DEFAULT:
        lowering["out_of_range"] = "directml"
    batch = Batch()
    found: list[FileGathers] = []
    for source in batch.sources(files):
        with batch.step(source.path):
            gathers = gathers_in(batch, source, reading)
            if gathers.program:
                _check_convertible(
                    batch, gathers.program, lowering["out_of_range"], whole
                )
            elif whole:
                raise click.UsageError(
                    f"--whole must come with programs, got {source.path}"
                )
            found.append(gathers)
    read = {gathers.source.path for gathers in found}
    jobs = plan(
        found, output, [name for name, _ in batch.failures if name not in read], whole
    )
    for number, job in enumerate(jobs, 1):
        with batch.step(job.source, number, len(jobs)):
            content = _content(job, feature_level, resources, lowering)
            write_output(job.output, content, follow=job.output == output)
            if job.output != STANDARD:
                batch.say(f"{job.source} -> {job.output}")
    return batch.finish()


def _check_convertible(
    batch: Batch, program: Program, policy: OutOfRange, whole: bool
) -> None:
    """Check that no dispatch is in place; say which has indices that DirectML treats otherwise.

    The indices are those that `run` has. In one model of the whole program, a dispatch
    reads what earlier ones compute under the policy; in a model of its own, what they
    compute in DirectML.
    """
    program.check_apart()
    try:
        if policy == "directml" or program.in_range():
            return
        program.check_run(MAX_COMPARED_BYTES)
        in_models = (
            program_cases(program, policy) if whole and policy != "error" else None
        )
        for case in program_cases(program, "directml"):
            asked = replace(case, out_of_range=policy)
            model = next(in_models) if in_models else asked
            if told := asked.told(model.expected()):
                keeps = "--out-of-range directml keeps DirectML's elements"
                batch.tell(f"{case.name}: {told}; {keeps}")
    except FileFormatError as error:
        batch.tell(f"{error}; so it is not known what an index out of range changes")


def _content(
    job: Job, feature_level: str | None, resources: Sequence[str], lowering: Lowering
) -> bytes:
    """The content of a file that `convert` writes."""
    from onnxgather.core.model.write import check_model, to_onnx
    from onnxgather.core.programs.whole import program_to_onnx

    made, level = job.content, feature_level or FEATURE_LEVELS[-1]
    if isinstance(made, Program):
        with located(f"{job.source}: {job.where}"):
            for one in made.dispatchables.values():
                check_feature_level(one.descriptor, level)
        model = program_to_onnx(made, **lowering, inputs=resources or None)
    else:
        with located(f"{job.source}: {job.where}"):
            check_feature_level(made, level)
            if job.output.endswith(".json"):
                return write_program_of_zeros(made, job.where).encode()
            model = to_onnx(made, **lowering)
    with located(f"{job.source}: {job.where}"):
        check_model(model)
    return model.SerializeToString(deterministic=True)


@click.command("run")
@click.argument("file", type=arguments.FILE, metavar="FILE")
@arguments.run_on
@arguments.policy(default_in_help="directml, as dxdispatch", default="directml")
@arguments.target(default_in_help="the one that suits the provider")
@arguments.folder(
    "--output-folder",
    default=os.curdir,
    help="Where writeFile writes.  [default: the current folder]",
)
@arguments.allow_outside
def run_command(
    file: str,
    provider: str,
    out_of_range: OutOfRange,
    target: Target | None,
    output_folder: str,
    allow_outside: bool,
) -> int:
    """Run the commands of a program and print the lines that dxdispatch prints.

    FILE is read whole before anything runs. writeFile replaces plain files below DIR:
    none that is hidden or behind a link, unless --allow-outside is given, and none that
    the program reads. The standard error tells how many indices are out of range.

    With --provider directml-dll a dispatch runs on DirectML.dll itself, its tensors
    bound to the resources at their offsets.
    """
    from onnxgather.core.execution import session
    from onnxgather.core.execution.elsewhere import child, hosts

    progress = Progress(first_line=2)

    def tell_start(seconds: float) -> None:
        progress.show(
            f"{provider}: waiting for its host, {seconds:.0f} s; a start takes 2 to"
            " 20 s"
        )

    def by_provider(
        desc: Descriptor, data: Array, indices: Array, policy: OutOfRange
    ) -> Array:
        with closing(progress), child.starts_told(tell_start):
            return session.run(desc, data, indices, policy, provider, target)

    on_dll, on_resources = provider == DIRECTML_DLL, None
    if on_dll and (target or out_of_range != "directml"):
        found = f"--target {target}" if target else f"--out-of-range {out_of_range}"
        why = (
            "as DirectML.dll runs no model, and has its own rule for an index out of"
            " range"
        )
        raise click.UsageError(
            f"{found} must not come with --provider {provider}, {why}"
        )
    # Before the program, as a variable that is wrong is no fault of the program.
    hosts.find_runtime(PROVIDERS.get(provider, Provider(provider)), warm=True)
    program = read_source(file, allow_outside)
    for text in program.notes:
        say(f"{file}: {text}", err=True)
    with ExitStack() as stack:
        if on_dll:
            from onnxgather.checking.lanes.directml import open_host
            from onnxgather.core.execution.elsewhere.worker import REQUEST_TIMEOUT

            with closing(progress), child.starts_told(tell_start):
                host = open_host(timeout=REQUEST_TIMEOUT)
            on_resources = stack.enter_context(closing(host)).dispatch
        pieces = execute(
            program,
            by_provider,
            out_of_range,
            output_folder=output_folder,
            allow_outside=allow_outside,
            note=partial(say, err=True),
            on_resources=on_resources,
        )
        for piece in pieces:
            say(piece, end="")
    return GOOD


@click.command("show", cls=JsonCommand)
@click.argument(
    "files", nargs=-1, required=True, type=arguments.FILE, metavar="FILE..."
)
@arguments.policy(
    default_in_help="clamp; of an ONNX model: error, as its gathers have it"
)
@arguments.model_options
@arguments.node
@arguments.shape
@arguments.json_file("descriptors and models")
@arguments.as_html
@arguments.allow_outside
@arguments.as_records(outputs=Outputs, lowering=Lowering, reading=Reading)
def show_command(
    files: Sequence[str],
    outputs: Outputs,
    lowering: Lowering,
    reading: Reading,
) -> int:
    """Explain each gather of each program: its descriptor, its formula, its ONNX nodes.

    A FILE may also be a folder: all *.json files in it and below it; or -, the standard
    input; or a pattern in quotes. With
    --json, several files, or a folder, are a list. With --html, the page has a picture of each
    gather, in which pointing at an element shows where it came from.
    """
    from onnxgather.core.lowering.show import describe, description_text

    if len(outputs.by_option) > 1:
        raise click.UsageError("--json and --html must come one at a time")
    batch = Batch()
    asked: OutOfRange | None = lowering[
        "out_of_range"
    ]  # None where the option is not given
    found: list[tuple[FileGathers, dict[str, Description]]] = []
    for source in batch.sources(files):
        with batch.step(source.path):
            gathers = gathers_in(batch, source, reading)
            lowering["out_of_range"] = asked or (
                "clamp" if gathers.program else "error"
            )
            described = {
                k: describe(one, **lowering) for k, one in gathers.descriptors.items()
            }
            found.append((gathers, described))
    documents = [
        {
            "file": of.source.path,
            "dispatchables" if of.program else "gathers": described,
        }
        for of, described in found
    ]
    alone = len(files) == 1 and not os.path.isdir(files[0])
    is_empty_list = outputs.json_file is not None and not alone
    if outputs.by_option and (found or is_empty_list):
        outputs.check_apart(path for of, _ in found for path in of.files)
        left_out = [str(error) for _, error in batch.failures]
        contents = {
            "--html": partial(page_of, found, left_out=left_out),
            "--json": partial(json_bytes, documents[0] if alone else documents),
        }
        outputs.write(batch, contents)
    elif texts := [
        printable(f"{of.source.path}: {of.where(name)}")
        + f"\n\n{description_text(description)}"
        for of, described in found
        for name, description in described.items()
    ]:
        say("\n\n\n".join(texts), as_is=True)
    return batch.finish()


def page_of(
    found: Sequence[tuple[FileGathers, Mapping[str, Description]]],
    left_out: Sequence[str] = (),
) -> bytes:
    """The page of `show`, with the data that the programs have.

    Args:
        found: The gathers of each file with their descriptions.
        left_out: As of `lesson_page`.
    """
    from onnxgather.core.output.lesson import lesson, lesson_page

    programs = [quote(of.source.path) for of, _ in found if of.program]
    networks = [quote(of.source.path) for of, _ in found if not of.program]
    lessons, commands = list[dict[str, Any]](), dict[str, str]()
    if programs:
        commands[f"onnxgather convert {' '.join(programs)} -o models"] = (
            "Writes the ONNX models."
        )
    if networks:
        commands[f"onnxgather audit {' '.join(networks)}"] = (
            "Says whether the indices stay in range."
        )
    for of, described in found:
        policies: list[OutOfRange] = [one.out_of_range for one in described.values()]
        cases = [*program_cases(of.program, policies[0])] if of.program else []
        arrays = {
            c.origin.dispatchable: (c.data, c.indices)
            for c in reversed(cases)
            if c.origin
        }
        for name, one in described.items():
            title, desc = f"{of.source.path}: {of.where(name)}", of.descriptors[name]
            lessons.append(lesson(title, desc, one, arrays.get(name)))
    paths = [*dict.fromkeys(of.source.path for of, _ in found)]
    name = paths[0] if len(paths) == 1 else number_of(len(paths), "file")
    return lesson_page(name, lessons, commands, left_out)


@click.command("explain", cls=JsonCommand)
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
@arguments.policy(default_in_help="directml")
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

    Without --at, say so of every element, and show the inputs.
    """
    reading.check_models(file)
    if is_model(file):
        from onnxgather.extracting.extract import case_of_node

        case = case_of_node(file, reading.arrays(), reading.node)
        read = [file, *filter(None, [reading.inputs])]
    else:
        program = Batch().read(file, reading.allow_outside)
        read = [program.path, *program.files]
        cases = [*program_cases(program, out_of_range)]
        if number > len(cases):
            rule = (
                f"{file}: $.commands must hold {number} dispatches for --dispatch"
                f" {number}"
            )
            raise FileFormatError(f"{rule}, got {len(cases)}")
        case = cases[number - 1]
    if not isinstance(case, DescriptorCase):  # ONNX forbids the node
        raise OnnxGatherError(f"{case.name}: {case.node.rule}")
    arrays = case.descriptor, case.data, case.indices
    out_of_range = out_of_range or ("clamp" if case.in_range else "directml")
    outputs.check_apart(read)
    outputs.check_writable()
    batch = Batch(prints=False)
    try:
        if at is None:
            found = explain_all(*arrays, out_of_range)
            text = explanation_text(*arrays, found)
        else:
            found = explain_element(*arrays, _coordinates(at), out_of_range)
            text = str(found)
    except DescriptorError as error:  # it can be about the coordinates only
        raise click.BadParameter(str(error), param_hint="--at") from None
    if not outputs.write(batch, {"--json": partial(json_bytes, found)}):
        say(text, as_is=at is None)
    return batch.finish()


def _coordinates(text: str) -> Sequence[int]:
    try:
        return arguments.integers(text)
    except ValueError:
        rule = "must be integers with commas"
        raise click.BadParameter(
            f"{rule}, got {shown(text)}", param_hint="--at"
        ) from None
