"""The commands `run`, `show` and `explain`, for programs.

Commands return their exit code. The commands that need onnx or onnxruntime import them,
so that `--help` and `show` answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np
from click import UsageError
from click.core import ParameterSource

from onnxgather.checking.cases import Case, DescriptorCase, program_cases
from onnxgather.cli import arguments
from onnxgather.cli.arguments import Lowering
from onnxgather.cli.examples import command
from onnxgather.cli.outputs import Outputs
from onnxgather.cli.sources import (
    STANDARD,
    Batch,
    FileGathers,
    Reading,
    case_with_inputs,
    gathers_in,
    read_source,
    refuse_for_model,
)
from onnxgather.cli.terminal import Progress, is_terminal, json_bytes, say
from onnxgather.cli.unforeseen import foreseen
from onnxgather.core.checks import check_choice, line_of, number_of, shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.explain import (
    Explanation,
    NamedSource,
    all_places,
    explanation_text,
    named_source,
    named_sources,
)
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.errors import (
    GOOD,
    DescriptorError,
    FileFormatError,
    IndexOutOfRangeError,
    OnnxGatherError,
    ProviderError,
    located,
)
from onnxgather.core.execution.providers import DIRECTML_DLL, PROVIDERS, Provider
from onnxgather.core.files import is_model
from onnxgather.core.options import OutOfRange, Target, WebnnForm
from onnxgather.core.programs.program import Program
from onnxgather.core.programs.running import ByteForm, execute, printed

if TYPE_CHECKING:
    from onnxgather.core.execution.session import Session
    from onnxgather.core.lowering.show import Description


@command("run", click.Command)
@arguments.argument("file", metavar="FILE")
@arguments.run_on
@arguments.provider_option
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
@arguments.flag("--numbers", help="Print 8-bit values as numbers, not as characters.")
@arguments.allow_outside
@arguments.force
@arguments.as_records(reading=Reading)
def run_command(
    file: str,
    provider: str,
    provider_options: dict[str, dict[str, str]],
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
            # Case: no options, so that the session is kept for the next dispatch.
            if not provider_options:
                arrays = (data, indices)
                return session.run(desc, *arrays, policy, provider, target)
            opened = make_session(desc, out_of_range=policy, target=target)
            return opened.run(data, indices)

    for name in provider_options:
        with arguments.as_usage(UsageError):
            check_choice("the NAME of --provider-option", name, [provider])
    make_session = partial(
        session.Session,
        provider=provider,
        provider_options=provider_options.get(provider),
    )
    on_dll = provider == DIRECTML_DLL
    if on_dll:
        _check_options_of_dll(target, out_of_range or "directml", provider_options)
    # Before the program, as a variable that is wrong is no fault of the program.
    hosts.find_runtime(PROVIDERS.get(provider, Provider(provider)), warm=True)
    allow_outside = reading.allow_outside
    program = _program_to_run(file, allow_outside)
    for note in program.notes:
        say(f"{file}: {note}", err=True)
    # Case: descriptors alone have no data.
    needs_inputs = program.without_data and not program.commands
    if reading.inputs is not None or needs_inputs:
        if program.model is None:
            out_of_range = out_of_range or "directml"
        case = _case_to_run(program, reading, out_of_range, target, provider)
        # Case: what is out of range is an error, which says it.
        if case.note is not None and not case.must_refuse:
            say(f"{file}: {case.note}", err=True)
        with located(file):
            output = _output(case, program, make_session, target)
        data_type = case.descriptor.output_tensor.data_type
        content = np.ascontiguousarray(output).reshape(-1).view(np.uint8)
        form = _byte_form(numbers)
        for piece in printed("OutputTensor", data_type, content, False, form):
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
    count = len(program.dispatchables)
    if reading.inputs is None and count == 1:
        raise UsageError(
            f"--inputs FILE.npz must come with {program.path}, which has no data"
        )
    if count != 1:
        raise OnnxGatherError(
            f"{program.path}: run takes a program, or one descriptor with --inputs"
            f" FILE.npz, got {count} descriptors"
        )
    if provider == DIRECTML_DLL:
        raise UsageError(
            f"--provider {DIRECTML_DLL} must come with a program that has data;"
            f" onnxgather check {program.path} --lanes {DIRECTML_DLL} runs a descriptor"
            " alone"
        )
    option = ""
    if program.model is not None:
        if out_of_range is not None:
            option = f"--out-of-range {out_of_range}"
        elif target is not None:
            option = f"--target {target}"
    refuse_for_model(option, program.path)
    return case_with_inputs(program, reading, out_of_range)


def _output(
    case: DescriptorCase,
    program: Program,
    make_session: Callable[..., Session],
    target: Target | None,
) -> Array:
    """Return the output of a descriptor alone, or of a model.

    Raises:
        IndexOutOfRangeError: An index is out of range, and that is an error.
        ProviderError: The provider is missing, fails, or did not get every node.
    """
    from onnxgather.core.execution.elsewhere.substitutes import why_not_as_it_is

    if program.model is None:
        session = make_session(
            case.descriptor, out_of_range=case.out_of_range, target=target
        )
        return session.run(case.data, case.indices)
    session = make_session(program.model.proto)
    # Some providers refuse no index.
    if case.must_refuse:
        raise IndexOutOfRangeError(str(case.expected()))
    why_not = why_not_as_it_is(
        case.descriptor, session.provider, case.out_of_range, case.indices
    )
    if why_not is not None:
        raise ProviderError(why_not)
    return session.run(case.data, case.indices)


def _byte_form(numbers: bool) -> ByteForm:
    """Return how 8-bit values are printed.

    Args:
        numbers: Whether the user asks for numbers.
    """
    if numbers:
        return "numbers"
    # A terminal obeys some bytes; a file or a pipe has what dxdispatch prints.
    return "escapes" if is_terminal(sys.stdout) else "bytes"


def _check_options_of_dll(
    target: Target | None, policy: OutOfRange, provider_options: Mapping[str, object]
) -> None:
    """Check the options of a run on DirectML.dll itself.

    Raises:
        UsageError: An option is for models.
    """
    option = ""
    if target:
        option = f"--target {target}"
    elif policy != "directml":
        option = f"--out-of-range {policy}"
    elif provider_options:
        option = "--provider-option"
    if option:
        raise UsageError(
            f"{option} must not come with --provider {DIRECTML_DLL}, as DirectML.dll"
            " runs no model, and has its own rule for an index out of range"
        )


@command("show")
@arguments.files("files", metavar="FILE...")
@arguments.policy()
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
        raise UsageError("--json and --html must come one at a time")
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


class DescribedFile(NamedTuple):
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
            title = line_of(file.gathers.place(name))
            texts.append(f"{title}\n\n{description_text(description)}")
    if texts:
        say("\n\n\n".join(texts), as_is=True)


def page_of(described: Sequence[DescribedFile], left_out: Sequence[str] = ()) -> bytes:
    """Return the page of `show`, with the data that the programs have.

    Args:
        described: The gathers of each file with their descriptions.
        left_out: As of `lesson_page`.
    """
    from onnxgather.cli.lesson import lesson, lesson_page

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
    if program is None:
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
    paths = {command: list[str]() for command in _NEXT}
    for file in described:
        program = file.gathers.program
        command = "certify {}"
        if program is None:
            command = "audit {}"
        elif program.model is None:
            command = "convert {} -o models"
        paths[command].append(quote(file.gathers.source.path))
    return {
        f"onnxgather {command.format(' '.join(paths[command]))}": effect
        for command, effect in _NEXT.items()
        if paths[command]
    }


_NEXT = {
    "convert {} -o models": "Writes the ONNX models.",
    "certify {}": "Proves that the models mean their descriptors.",
    "audit {}": "Says whether the indices stay in range.",
}
"""What each command does with files that were shown."""


@command("explain")
@arguments.argument("file", metavar="FILE")
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
@arguments.policy()
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
    program = batch.program_of(file, reading)
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
        desc = None
        if program is not None and reading.inputs is None:
            desc = _descriptor_without_data(program, number)
        if desc is not None:
            explanation, text = _explained_by_names(desc, place)
        else:
            case = _case_to_explain(file, program, number, out_of_range, reading)
            note = case.note if isinstance(case, DescriptorCase) else case.told_as_node
            if note is not None:
                batch.tell(f"{case.name}: {note}")
            explanation, text = _explained(case, place)
    except DescriptorError as error:  # it can be about the coordinates only
        raise click.BadParameter(str(error), param_hint="--at") from None
    is_printed = outputs.write_json(batch, explanation)
    if not is_printed:
        say(text, as_is=at is None)
    return batch.finish()


def _explained(
    case: Case, at: Sequence[int] | None
) -> tuple[Explanation | list[Explanation], str]:
    """Return what is said of one output element or of all, as data and as text."""
    if at is not None:
        explanation = case.explained(at)
        return explanation, str(explanation)
    explanations = [case.explained(place) for place in all_places(case.output_sizes)]
    data, indices = case.elements
    text = explanation_text(
        case.data_type, data, case.index_type, indices, explanations
    )
    return explanations, text


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
) -> Case:
    """Return the case of a dispatch, or of a node of a model of others.

    Raises:
        OnnxGatherError: ONNX forbids the node, or the inputs do not fit.
    """
    if program is None:
        from onnxgather.extracting.extract import case_of_node

        with foreseen(f"{file}: cannot be read"):
            case = case_of_node(file, reading.arrays(), reading.node)
        if isinstance(case, DescriptorCase):
            return replace(case, out_of_range=out_of_range or "error")
        if case.node.rule is not None:
            raise OnnxGatherError(f"{case.name}: {case.node.rule}")
        return case
    if reading.inputs is not None:
        return case_with_inputs(program, reading, out_of_range)
    cases = [*program_cases(program, out_of_range)]
    return cases[number - 1]


def _descriptor_without_data(program: Program, number: int) -> Descriptor | None:
    """Return the gather with a number from 1; None if a command gives it data.

    The gathers that no command dispatches come last.

    Raises:
        FileFormatError: The program has fewer gathers.
    """
    dispatched = len(program.dispatch_commands)
    gathers = [*program.without_data.values()]
    count = dispatched + len(gathers)
    if number > count:
        raise FileFormatError(
            f"{program.path}: the file must have {number} gathers for --dispatch"
            f" {number}, got {count}"
        )
    if number <= dispatched:
        return None
    return gathers[number - dispatched - 1].descriptor


def _coordinates(text: str) -> Sequence[int]:
    """Return the coordinates of an output element, as --at gives them."""
    try:
        return arguments.integers(text)
    except ValueError:
        raise click.BadParameter(
            f"must be integers with commas, got {shown(text)}", param_hint="--at"
        ) from None
