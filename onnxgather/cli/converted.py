"""What `convert` writes of each gather: a model or a program for WebNN, verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click import UsageError
from click.core import ParameterSource

from onnxgather.checking.cases import program_cases
from onnxgather.cli.arguments import Lowering
from onnxgather.cli.outputs import Job
from onnxgather.cli.sources import Batch, FileGathers
from onnxgather.core.descriptors.arrays import elements
from onnxgather.core.descriptors.drawn import Drawn
from onnxgather.core.descriptors.feature_levels import (
    FEATURE_LEVELS,
    check_feature_level,
)
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.errors import FileFormatError, located
from onnxgather.core.options import TARGETS, WEBNN, OutOfRange, WebnnForm
from onnxgather.core.programs.program import Program
from onnxgather.core.programs.writer import write_program_of_zeros

if TYPE_CHECKING:
    from onnxgather.core.model.values import ModelProto
    from onnxgather.proving.verify import Verification


@dataclass(frozen=True)
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
    force: bool
    """As of `Job.write`."""

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
            raise UsageError("--input must come with --whole")
        if not self.is_webnn:
            if self.form is not None:
                raise UsageError(f"--form must come with --target {WEBNN}")
            return
        source_of = click.get_current_context().get_parameter_source
        # Of a program for WebNN, the lowering has no target.
        for option in ("input", "opset", "threads"):
            parameter = "resources" if option == "input" else option
            if source_of(parameter) is not ParameterSource.DEFAULT:
                raise UsageError(
                    f"--{option} must not come with --target {WEBNN}"
                    ", as it is for ONNX models"
                )
        if self.whole and self.form is not None:
            raise UsageError("--form must not come with --whole")


class Converted(NamedTuple):
    """A model, or a program for WebNN."""

    content: bytes
    inputs: Mapping[str, Mapping[str, Any]]
    """The type and the sizes of each input of the graph, by its name."""
    verified: Verification | None = None


@dataclass
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
    out_of_range: int = 0
    """How many dispatches have an index out of range that matters."""

    def policy(self, path: str) -> OutOfRange:
        """Return what an index out of range does in the models of a file."""
        return self.options.out_of_range or self.gathers[path].policy


def converted_of(work: Conversions, job: Job) -> Converted:
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
        if job.is_beside:
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
    return converted._replace(verified=verified)


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
    return converted._replace(verified=verified)


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

    form = work.options.form or "bytes"
    program = to_webnn(desc, work.policy(job.source), form)
    verified = None
    if work.options.verify:
        from onnxgather.proving.verify import proved_webnn

        verified = proved_webnn(program)
    return _webnn(job, program, verified)


def _whole_webnn(work: Conversions, job: Job, program: Program) -> Converted:
    """Return the WebNN program of a whole program: as a module, or as JSON."""
    from onnxgather.core.programs.whole_webnn import program_to_webnn

    policy = work.policy(job.source)
    whole = program_to_webnn(program, policy)
    verified = None
    if work.options.verify:
        from onnxgather.proving.verify_whole import verify_whole_webnn

        verified = verify_whole_webnn(program, policy)
    return _webnn(job, whole, verified)


def _webnn(job: Job, program: Any, verified: Verification | None) -> Converted:
    """Return a WebNN program as JSON or as a module, by the name of its file."""
    is_json = job.output.lower().endswith(".json")
    text = program.to_json() if is_json else program.to_javascript()
    inputs = {
        operand.name: {"type": operand.data_type.upper(), "sizes": operand.shape}
        for operand in program.graph.inputs
    }
    return Converted(text.encode(), inputs, verified)


def _cases_of(work: Conversions, job: Job) -> Sequence[Drawn]:
    """Return the arrays that a program has for a gather.

    The program runs once for all its gathers, which come one behind the other.
    """
    program = work.gathers[job.source].program
    if program is None:
        return ()
    if work.cases_of != job.source:
        work.cases_of = job.source
        work.cases = {}
        try:
            cases = program_cases(program, work.policy(job.source))
            # Behind them are the cases of gathers without data, which are drawn.
            for command, case in zip(program.dispatch_commands, cases, strict=False):
                data = case.data
                # Case: an index is out of range, so the array has what DirectML reads
                # behind the elements. An input of a model has the elements alone.
                if case.descriptor != command.descriptor:
                    data = elements(case.descriptor.input_tensor, data).copy()
                arrays = Drawn(command.path, data, case.indices)
                work.cases.setdefault(command.dispatchable, []).append(arrays)
        except FileFormatError as error:
            work.batch.tell(f"{error}; so the models run with drawn data alone")
    return work.cases.get(job.name, ())
