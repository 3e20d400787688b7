"""The commands `audit`, `extract` and `harden`, for the gathers of ONNX models."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from onnxgather.cli import arguments
from onnxgather.cli.outputs import Outputs, check_no_terminal, write_output
from onnxgather.cli.processes import finished
from onnxgather.cli.sources import STANDARD, Batch, JsonCommand
from onnxgather.cli.terminal import Progress, json_bytes, say
from onnxgather.core.checks import number_of
from onnxgather.core.errors import FINDINGS, GOOD
from onnxgather.core.files import check_apart
from onnxgather.core.options import POLICIES, OutOfRange

if TYPE_CHECKING:
    from onnxgather.auditing.hardening.harden import HardenedModel
    from onnxgather.auditing.output.findings import AuditReport, Baseline, FinishedAudit
    from onnxgather.core.descriptors.arrays import Array


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The arguments and options of `onnxgather audit`."""

    paths: tuple[str, ...]
    inputs: str | None
    given: arguments.Given
    every: bool
    outputs: Outputs
    fail_on: str | None
    baseline: str | None
    jobs: int


@click.command("audit", cls=JsonCommand)
@click.argument(
    "paths", nargs=-1, required=True, type=arguments.FILE, metavar="MODEL..."
)
@arguments.file("--inputs", help="The model's inputs, as .npz; the model then runs.")
@arguments.given
@arguments.flag(
    "--all", "every", help="List each gather, those too that compute shapes."
)
@arguments.json_file("records")
@arguments.reports
@arguments.file("--sarif", "sarif_file", help="Write the findings as SARIF 2.1.0.")
@arguments.file(
    "--contract",
    "contract_file",
    help="Write the conditions on inputs under which the gathers are proved.",
)
@arguments.file(
    "--write-inputs",
    "write_inputs_file",
    help=(
        "Write inputs that are made at random, in range, with which the model runs, as"
        " .npz."
    ),
)
@arguments.fail_on(
    "not-proved",
    "Let a gather that is not proved in range, or under conditions alone, be a finding"
    " too.",
)
@arguments.file(
    "--baseline", help="Known findings; the exit code counts new and worse ones only."
)
@arguments.file(
    "--write-baseline",
    "write_baseline_file",
    help=(
        "Write the findings as a baseline, which makes them known; reasons in FILE"
        " stay."
    ),
)
@arguments.number(
    "--jobs", most=64, default=1, help="How many models are audited side by side."
)
@arguments.as_records(outputs=Outputs, given=arguments.Given)
def audit_command(**given: Any) -> int:
    """Say of each gather what DirectML makes of it, and whether its indices are in range.

    Other operators that carry indices are judged too, such as scatters and embeddings.

    A MODEL may also be a folder: all *.onnx files in it and below it; or a pattern in quotes. A
    range is proved from the constants and the operators of the model; --shape, --range,
    --tokenizer, --assume and --inputs tell more. A gather out of range, or one that the DirectML
    provider refuses, is a finding.
    """
    from onnxgather.auditing.output.findings import AuditReport, Baseline

    asked, batch = AuditOptions(**given), Batch(prints=False)
    outputs, strict = asked.outputs, asked.fail_on is not None
    files = dict[str, str]()  # a model that is named twice is audited once
    for source in batch.sources(asked.paths, ".onnx"):
        files.setdefault(os.path.abspath(source.path), source.path)
    models = [*files.values()]
    is_one = models == [*dict.fromkeys(asked.paths)] and len(models) == 1
    known, written = asked.baseline, outputs.write_baseline_file or ""
    outputs.check_apart(
        [*models, *asked.given.files, *filter(None, (asked.inputs, known))]
    )
    for option in ("--contract", "--write-inputs"):
        if option in outputs.by_option and not is_one:
            raise click.UsageError(f"{option} must be given with one model")
    if known and written:
        raise click.UsageError(
            "--baseline must come without --write-baseline, which compares with"
            " FILE too"
        )
    is_read = known or os.path.isfile(written)
    baseline = Baseline.read(known or written) if is_read else Baseline(written)
    outputs.check_writable()
    done = _each(asked, batch, models)
    if not done:
        return batch.finish()
    outputs.check_apart(file for one in done.values() for file in one.files)
    found = {
        model: baseline.findings(model, one.audit, strict)
        for model, one in done.items()
    }
    report = AuditReport(done, found, [str(error) for _, error in batch.failures])
    contents = _contents(report, is_one, baseline)
    contents["--write-baseline"] = lambda: baseline.of_today(
        report, {*models} - done.keys()
    )
    if not outputs.write(batch, contents):
        _say(report, is_one, asked.every, baseline)
    is_bad = not written and any(one.is_new for one in report.every)
    return batch.finish([FINDINGS] if is_bad else [])


def _each(
    asked: AuditOptions, batch: Batch, models: Sequence[str]
) -> dict[str, FinishedAudit]:
    """Return the audits of the models, in their order."""
    from onnxgather.core.model.given_inputs import read_inputs

    arrays = None if asked.inputs is None else read_inputs(asked.inputs)
    work = partial(_audited, asked, arrays)
    return finished(batch, asked.jobs, work, models, "model")


def _audited(
    asked: AuditOptions, arrays: Mapping[str, Array] | None, model: str
) -> FinishedAudit:
    """Audit a model; keep of it and of its run only what a file to write needs."""
    from onnxgather.auditing.audit import audit_model
    from onnxgather.auditing.output.findings import FinishedAudit
    from onnxgather.core.model.network import folder_of
    from onnxgather.core.model.protos import external_files

    audited = audit_model(asked.given.read(model), arrays)
    pictures = list[dict[str, Any]]()
    if asked.outputs.html_file is not None:
        from onnxgather.auditing.output.picture_of_finding import pictures_of

        pictures = pictures_of(audited)
    folder = folder_of(audited.network.path)
    names = external_files(audited.network.proto)
    files = [os.path.join(folder, name) for name in names]
    kept = None
    if asked.outputs.write_inputs_file is not None:
        kept = audited
    return FinishedAudit(audited.audit, files, pictures, kept)


def _contents(
    report: AuditReport, is_one: bool, baseline: Baseline
) -> dict[str, Callable[[], bytes]]:
    """What makes the content of each file, by the options."""
    from onnxgather.auditing.output.page import audit_page
    from onnxgather.auditing.output.reports import (
        audit_junit,
        audit_markdown,
        audit_sarif,
    )

    def json() -> bytes:
        each = [
            {"model": model, **asdict(one.audit)}
            for model, one in report.models.items()
        ]
        whole: dict[str, Any] = {"schema": 2, "models": each}
        if is_one:
            whole = asdict(first.audit)
        elif report.unusable:
            whole["unusable"] = report.unusable
        if baseline.path:
            whole["baseline"] = baseline.compared(report)
        return json_bytes(whole)

    first = next(iter(report.models.values()))
    contents = {
        "--json": json,
        "--junit": partial(audit_junit, report),
        "--markdown": partial(audit_markdown, report, baseline),
        "--sarif": lambda: json_bytes(audit_sarif(report, baseline)),
        "--html": partial(audit_page, report.models),
        "--contract": partial(json_bytes, first.audit.contract),
    }
    if first.audited:
        from onnxgather.auditing.hardening.verify import made_inputs

        contents["--write-inputs"] = partial(made_inputs, first.audited)
    return contents


def _say(report: AuditReport, is_one: bool, every: bool, baseline: Baseline) -> None:
    """Print a table of several models, what is open in each, and what the baseline lacks."""
    from onnxgather.auditing.output.reports import baseline_lines, table
    from onnxgather.auditing.output.text import lines, next_lines, provider_lines

    told = [] if is_one else [*table(report), ""]
    alone = len(report.models) == 1
    gathers = [gather for one in report.models.values() for gather in one.audit.gathers]
    for model, one in report.models.items():
        if is_one or every or any(report.findings[model]):
            told += lines(model, one.audit, every, alone)
    then = next_lines({model: one.audit for model, one in report.models.items()})
    for text in [*told, *provider_lines(gathers), *then]:
        say(text)
    for text in baseline_lines(report, baseline) if baseline.path else ():
        say(text)


@click.command("extract", cls=JsonCommand)
@click.argument("model", type=arguments.FILE, metavar="MODEL")
@click.option(
    "--node", metavar="NAME", help="The gather of that name, or with such an output."
)
@arguments.flag("--all", "every", help="Every gather.")
@arguments.file("--inputs", required=True, help="The model's inputs, as .npz.")
@arguments.folder("-o", "--output", required=True, help="The folder.")
@arguments.json_file("gathers")
@arguments.as_records(outputs=Outputs)
def extract_command(
    model: str,
    node: str | None,
    every: bool,
    inputs: str,
    output: str,
    outputs: Outputs,
) -> int:
    """Write each gather with what it gets in a run of MODEL, one folder each.

    A folder has a DxDispatch program with the data, the ONNX model of the gather, its
    inputs, the expected output, and a repro.py that runs it with onnxruntime and numpy
    alone.
    """
    from onnxgather.core.model.given_inputs import read_inputs
    from onnxgather.extracting.extract import extract as write

    if every == (node is not None):
        raise click.UsageError("give either --node NAME or --all")
    outputs.check_apart([model, inputs])
    outputs.check_writable()
    batch = Batch(prints=False)
    done = write(model, read_inputs(inputs), output, node)
    record = {"model": model, "output": output, "gathers": done}
    if outputs.write(batch, {"--json": partial(json_bytes, record)}):
        return batch.finish()
    for one in done:
        for what, why in (("left out", one.left_out), ("cropped", one.cropped)):
            if why:
                say(f"{what}: {one.place}: {one.operator} {one.node!r}: {why}")
    written = sum(one.folder is not None for one in done)
    say(f"{model} -> {output}: {written} of {len(done)} gathers")
    return batch.finish()


@click.command("harden", cls=JsonCommand)
@click.argument("model", type=arguments.FILE, metavar="MODEL")
@arguments.file(
    "-o",
    "--output",
    required=True,
    metavar="OUT",
    help="The model to write; - prints it.",
)
@arguments.hardening
@arguments.given
@arguments.flag("--verify", help="Audit OUT, run MODEL and OUT, and harden OUT again.")
@arguments.file(
    "--inputs", help="Inputs of MODEL with indices in range, as .npz, for --verify."
)
@arguments.json_file("nodes")
@arguments.as_records(given=arguments.Given, outputs=Outputs)
def harden_command(
    model: str,
    output: str,
    out_of_range: str,
    given: arguments.Given,
    verify: bool,
    inputs: str | None,
    outputs: Outputs,
) -> int:
    """Write an ONNX model in which no index that may be out of range is an error.

    Only nodes that the audit does not prove are rewritten, and GatherElements whose
    data DirectML refuses; every other part keeps its bytes. A scatter drops writes out
    of range. A node that cannot be kept in range is left, and named. External data
    stays in its files, so OUT must then be in the folder of MODEL.
    """
    from onnxgather.auditing.hardening.harden import harden_file, hardening_rule
    from onnxgather.auditing.hardening.verify import Verified
    from onnxgather.auditing.hardening.verify import verify as verified
    from onnxgather.core.model.given_inputs import checked, read_inputs

    prints = output == STANDARD
    prints_json = outputs.json_file == STANDARD
    if prints and prints_json:
        raise click.UsageError(
            "--json must come with a file as --output, as - prints the model"
        )
    check_no_terminal(output)
    if inputs is not None and not verify:
        raise click.UsageError("--inputs must come with --verify, which runs the model")
    check_apart([(output, "--output")], [*given.files, *filter(None, [inputs])])
    outputs.check_apart([model, output, *given.files, *filter(None, [inputs])])
    outputs.check_writable()
    premises = given.read(model)
    arrays = None if inputs is None else checked(premises.network, read_inputs(inputs))
    done = harden_file(premises, output, out_of_range, write_output)
    found = list[Verified]()
    if not prints_json:
        _say_hardened(done, model, output, hardening_rule(out_of_range))
    with closing(Progress()) as progress:
        tried = partial(progress.count, "Runs tried:")
        checks = (
            verified(premises, done, out_of_range, arrays, tried=tried)
            if verify
            else ()
        )
        for one in checks:
            found.append(one)
            if not prints_json:
                holds = "holds" if one.holds else "does not hold"
                progress.clear()
                say(f"{one.check}: {holds}: {one.said}", err=prints)
    record: dict[str, Any] = {
        "model": model,
        "output": output,
        "rewritten": done.rewritten,
        "left": done.left,
    }
    if verify:
        record["verified"] = found
    batch = Batch(prints=False)
    outputs.write(batch, {"--json": partial(json_bytes, record)})
    holds = all(one.holds for one in found)
    return batch.finish([GOOD if holds else FINDINGS])


def _say_hardened(
    done: HardenedModel, model: str, output: str, rule: OutOfRange | int
) -> None:
    """Print what became of each node, and what the new model does with a bad index."""
    prints, count = output == STANDARD, len(done.rewritten)
    for one in (*done.rewritten, *done.left):
        say(str(one), err=prints)
    say(f"{model} -> {output}: {number_of(count, 'node')} rewritten", err=prints)
    scatters = sum("Scatter" in one.operator for one in done.rewritten)
    policy = POLICIES.get(rule) if isinstance(rule, str) else None
    value = policy.element or policy.returns if policy else f"row {rule}"
    does = [f"returns {value}"] if count > scatters else []
    does += ["drops the write of a scatter"] if scatters else []
    left = f", but in {number_of(len(done.left), 'node')} left" if done.left else ""
    if count:
        name = "the model" if prints else output
        say(
            f"{name} no longer fails on a bad index{left}; it {' and '.join(does)}.",
            err=True,
        )
