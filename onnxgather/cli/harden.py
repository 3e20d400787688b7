"""The command `harden`: models whose indices stay in range."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from onnxgather.cli import arguments
from onnxgather.cli.examples import command
from onnxgather.cli.outputs import Outputs, check_no_terminal, write_in_pieces
from onnxgather.cli.processes import finished
from onnxgather.cli.sources import STANDARD, Batch, Source, each_once
from onnxgather.cli.terminal import Progress, say
from onnxgather.cli.unforeseen import foreseen
from onnxgather.core.checks import number_of
from onnxgather.core.errors import FINDINGS, GOOD, OnnxGatherError
from onnxgather.core.files import check_apart, clashes, is_in
from onnxgather.core.options import POLICIES, OutOfRange
from onnxgather.core.replacing import check_replaceable, write_made

if TYPE_CHECKING:
    from onnxgather.auditing.hardening.harden import HardenedModel
    from onnxgather.auditing.hardening.verify import Verified


class HardenOptions(NamedTuple):
    """The arguments and options of `onnxgather harden`."""

    paths: tuple[str, ...]
    output: str
    out_of_range: str
    given: arguments.Given
    verify: bool
    inputs: str | None
    force: bool
    """Whether files of a folder are replaced that others wrote or changed."""
    outputs: Outputs

    @property
    def prints_json(self) -> bool:
        """Whether the standard output is for JSON alone."""
        return self.outputs.json_file == STANDARD


class _Hardening(NamedTuple):
    """What became of a model."""

    model: str
    output: str
    result: HardenedModel
    verified: Sequence[Verified] | None
    """None without --verify."""

    @property
    def exit_code(self) -> int:
        """Whether a node can still fail, or a check of the model does not hold."""
        holds = all(check.holds for check in self.verified or ())
        return GOOD if holds and not self.result.failing else FINDINGS

    @property
    def record(self) -> dict[str, Any]:
        """What --json writes of the model."""
        record: dict[str, Any] = {
            "model": self.model,
            "output": self.output,
            "rewritten": self.result.rewritten,
            "left": self.result.left,
        }
        if self.verified is not None:
            record["verified"] = self.verified
        return record

    @property
    def line(self) -> str:
        """How many nodes were rewritten."""
        nodes = number_of(len(self.result.rewritten), "node")
        return f"{self.model} -> {self.output}: {nodes} rewritten"


@command("harden")
@arguments.files("paths", metavar="MODEL...")
@arguments.file(
    "-o",
    "--output",
    required=True,
    metavar="OUT",
    help="The model to write, or - to print it; for several models the folder.",
)
@arguments.hardening
@arguments.given
@arguments.flag("--verify", help="Audit OUT, run MODEL and OUT, and harden OUT again.")
@arguments.file(
    "--inputs", help="Inputs of MODEL with indices in range, as .npz, for --verify."
)
@arguments.force
@arguments.json_file("nodes")
@arguments.as_records(given=arguments.Given, outputs=Outputs)
def harden_command(**values: Any) -> int:
    """Write an ONNX model that does not fail on an index out of range.

    A MODEL may also be a folder: all *.onnx files in it and below it; or a pattern in
    quotes. The models then go to the folder OUT, under their paths in that folder.

    Only nodes that the audit does not prove are rewritten, and GatherElements whose
    data DirectML refuses; every other part keeps its bytes. A scatter drops writes out
    of range. A node that cannot be kept in range is left, and named; the exit code is
    then 1. External data stays in its files, so OUT must then be in the folder of
    MODEL.
    """
    options = HardenOptions(**values)
    if options.inputs is not None and not options.verify:
        raise click.UsageError("--inputs must come with --verify, which runs the model")
    batch = Batch(prints=False)
    sources = batch.sources(options.paths, ".onnx")
    models = [source.path for source in sources]
    # A folder or a pattern is a list of models, even if it names only one.
    is_single = len(models) == 1 and models == [*dict.fromkeys(options.paths)]
    if is_single and not os.path.isdir(options.output):
        return _harden_one(options, batch, models[0])
    return _harden_all(options, batch, sources)


def _harden_one(options: HardenOptions, batch: Batch, model: str) -> int:
    """Harden a model, and say what became of each node."""
    from onnxgather.auditing.hardening.harden import hardening_rule

    output = options.output
    prints_model = output == STANDARD
    if prints_model and options.prints_json:
        raise click.UsageError(
            "--json must come with a file as --output, as - prints the model"
        )
    # A terminal would obey bytes of the model.
    check_no_terminal(output)
    read = _files_read(options)
    # That OUT is apart from MODEL and its external data is checked in `harden_file`.
    check_apart([(output, "--output")], read)
    options.outputs.check_apart_from_models([model, output, *read])
    options.outputs.check_writable()

    def say_nodes(hardening: _Hardening) -> None:
        for node in (*hardening.result.rewritten, *hardening.result.left):
            say(str(node), err=prints_model)
        say(hardening.line, err=prints_model)

    with foreseen(f"{model}: cannot be read"):
        hardening = _hardened(options, model, output, say_nodes, write_in_pieces)
    # With --json alone the standard output is for JSON, and the record says it all.
    if not options.prints_json:
        rule = hardening_rule(options.out_of_range)
        _say_effect(hardening, "the model" if prints_model else output, rule)
    options.outputs.write_json(batch, hardening.record)
    return batch.finish([hardening.exit_code])


def _harden_all(options: HardenOptions, batch: Batch, sources: Sequence[Source]) -> int:
    """Harden models to a folder, with a line for each and one for all."""
    targets = _targets(options, sources)
    models = [*targets]
    files_read = _files_read(options)
    named_files = [(path, model) for model, path in targets.items()]
    sentences = clashes(named_files, [*models, *files_read])
    clash_of = dict(zip(models, sentences, strict=True))
    options.outputs.check_apart_from_models([*models, *targets.values(), *files_read])
    options.outputs.check_writable()

    def say_line(hardening: _Hardening) -> None:
        line = hardening.line
        if hardening.result.failing:
            line = f"{line}; {_still_failing([hardening])}"
        batch.say(line)

    def work(model: str) -> _Hardening:
        clash = clash_of[model]
        if clash is not None:
            raise OnnxGatherError(clash)
        check_replaceable(targets[model], options.force)
        write = partial(write_made, force=options.force)
        return _hardened(options, model, targets[model], say_line, write)

    hardenings = [*finished(batch, 1, work, models, "model").values()]
    if not options.prints_json:
        batch.say(_sum(options.output, hardenings, len(batch.failures)))
    record: dict[str, Any] = {"models": [each.record for each in hardenings]}
    if batch.failures:
        record["unusable"] = [str(error) for _, error in batch.failures]
    options.outputs.write_json(batch, record)
    return batch.finish([each.exit_code for each in hardenings])


def _targets(options: HardenOptions, sources: Sequence[Source]) -> dict[str, str]:
    """Return the file to write for each model, by the path of the model.

    Raises:
        OnnxGatherError: The folder has models that are read.
        UsageError: The output is no folder.
    """
    folder = options.output
    # Case: a file or a broken link stands where the folder should be.
    is_no_folder = os.path.lexists(folder) and not os.path.isdir(folder)
    # Case: the name of one model, though several are written.
    is_named_as_model = folder.lower().endswith(".onnx") and not os.path.isdir(folder)
    if folder == STANDARD or is_no_folder or is_named_as_model:
        raise click.UsageError(
            f"--output must be a folder for several models, got {folder}"
        )
    for path in options.paths:
        # The next time, the hardened models would be hardened, too.
        if os.path.isdir(path) and is_in(folder, path):
            raise OnnxGatherError(
                f"{folder} must be outside of {path}, whose models are hardened"
            )
    targets = {
        source.path: os.path.join(folder, source.inside)
        for source in each_once(sources)
    }
    # A model that is read would be replaced, or be hardened twice.
    for model in targets:
        if is_in(model, folder):
            raise OnnxGatherError(
                f"{model} must be outside of {folder}, to which models are written"
            )
    return targets


def _files_read(options: HardenOptions) -> list[str]:
    """Return the files that are read beside the models."""
    return [*options.given.files, *filter(None, [options.inputs])]


def _hardened(
    options: HardenOptions,
    model: str,
    output: str,
    say_result: Callable[[_Hardening], None],
    write: Callable[[str, Iterable[bytes]], None],
) -> _Hardening:
    """Harden a model, write it, and check it where --verify asks for it.

    Args:
        options: The options of the command.
        model: The path of the model.
        output: The file to write.
        say_result: It says what became of the model, before it is checked.
        write: It writes the file, from the pieces of its content.
    """
    from onnxgather.auditing.hardening.harden import harden_file
    from onnxgather.core.model.given_inputs import checked, read_inputs

    premises = options.given.read(model)
    arrays = None
    if options.inputs is not None:
        arrays = checked(premises.network, read_inputs(options.inputs))
    rule = options.out_of_range
    result = harden_file(premises, output, rule, write)
    hardening = _Hardening(model, output, result, None)
    if not options.prints_json:
        say_result(hardening)
    # What became of the model was printed before, as the checks take long.
    if not options.verify:
        return hardening
    from onnxgather.auditing.hardening.verify import Verified
    from onnxgather.auditing.hardening.verify import verify as verify_model

    verified = list[Verified]()
    with closing(Progress()) as progress:
        count_run = partial(progress.count, "Runs tried:")
        for check in verify_model(premises, result, rule, arrays, tried=count_run):
            verified.append(check)
            if options.prints_json:
                continue
            holds = "holds" if check.holds else "does not hold"
            progress.clear()
            # Each result is printed at once, apart from the model.
            say(f"{check.check}: {holds}: {check.said}", err=output == STANDARD)
    return hardening._replace(verified=verified)


def _say_effect(hardening: _Hardening, name: str, rule: OutOfRange | int) -> None:
    """Print what a hardened model does with a bad index, or how many nodes can fail."""
    # Case: a node was left, so the model may fail as before.
    if hardening.result.failing:
        say(f"{_still_failing([hardening])}.", err=True)
        return
    rewritten = hardening.result.rewritten
    # Case: all was proved, and the model is what it was.
    if not rewritten:
        return
    # Scatters have no output element for a bad index, so the rule is for other nodes.
    scatters = sum("Scatter" in node.operator for node in rewritten)
    effects = list[str]()
    if len(rewritten) > scatters:
        effects.append(f"returns {_returned_value(rule)}")
    if scatters:
        effects.append("drops the write of a scatter")
    effect = " and ".join(effects)
    say(f"{name} no longer fails on a bad index; it {effect}.", err=True)


def _still_failing(hardenings: Sequence[_Hardening]) -> str:
    """Return how many gathers of models can still fail, and why if one reason does."""
    failing = [left for each in hardenings for left in each.result.failing]
    gathers = [gather for each in hardenings for gather in each.result.gathers]
    noun = "gather"
    if any(not gather.op.startswith("Gather") for gather in gathers):
        noun = "operator"
    text = f"{len(failing):,} of {number_of(len(gathers), noun)} can still fail"
    reasons = {left.why for left in failing}
    if len(reasons) == 1:
        text = f"{text}: {reasons.pop()}"
    return text


def _sum(output: str, hardenings: Sequence[_Hardening], unusable: int) -> str:
    """Return the last line about several models."""
    nodes = sum(len(each.result.rewritten) for each in hardenings)
    models = number_of(len(hardenings), "model")
    parts = [f"{models} -> {output}: {number_of(nodes, 'node')} rewritten"]
    failing = [each for each in hardenings if each.result.failing]
    if failing:
        where = number_of(len(failing), "model")
        parts.append(f"in {where} {_still_failing(failing)}")
    elif hardenings:
        parts.append("none of them can fail on a bad index")
    if unusable:
        parts.append(f"{number_of(unusable, 'model')} could not be hardened")
    return "; ".join(parts)


def _returned_value(rule: OutOfRange | int) -> str:
    """Return what a hardened gather returns for a bad index, as a sentence calls it."""
    # A rule that is a number is the row that is returned.
    policy = POLICIES.get(rule) if isinstance(rule, str) else None
    if policy is None:
        return f"row {rule}"
    return policy.element or policy.returns
