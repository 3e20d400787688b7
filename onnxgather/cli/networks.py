"""The commands `audit` and `extract`, for the gathers of ONNX models."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click import UsageError
from msgspec.structs import asdict

from onnxgather.cli import arguments
from onnxgather.cli.contracts import (
    check_contract_file,
    check_contract_folder,
    contract_content,
    contract_names,
    contracts_folder,
    is_guard,
    without_model,
)
from onnxgather.cli.examples import command
from onnxgather.cli.outputs import Folder, Outputs
from onnxgather.cli.processes import finished
from onnxgather.cli.sources import STANDARD, Batch, each_once
from onnxgather.cli.terminal import has_colours, json_bytes, say
from onnxgather.cli.unforeseen import foreseen
from onnxgather.core.checks import printable
from onnxgather.core.errors import FINDINGS
from onnxgather.core.files import check_new_folder, check_outside

if TYPE_CHECKING:
    from onnxgather.auditing.audit import AuditedModel
    from onnxgather.auditing.inputs.formats import Format
    from onnxgather.auditing.output.findings import AuditReport, Baseline, FinishedAudit
    from onnxgather.auditing.output.text import NamedPaths
    from onnxgather.auditing.output.way_to_gather import WayStep
    from onnxgather.auditing.records import Audit
    from onnxgather.core.model.given_inputs import GivenArray


class AuditOptions(NamedTuple):
    """The arguments and options of `onnxgather audit`."""

    paths: tuple[str, ...]
    inputs: str | None
    given: arguments.Given
    every: bool
    """Whether each gather is listed."""
    outputs: Outputs
    fail_on: tuple[tuple[str, ...], ...]
    """The states that each --fail-on makes findings."""
    baseline: str | None
    jobs: int
    tool: str | None
    """The tool in whose format inputs are written; None for an .npz file."""
    boundary: bool
    """Whether inputs at the ends of the conditions are written, too."""
    force: bool
    """Whether contracts of a folder replace files that others wrote or changed."""

    @property
    def inputs_format(self) -> Format:
        """The format of --write-inputs."""
        from onnxgather.auditing.inputs.formats import INPUT_FORMATS, NPZ

        return NPZ if self.tool is None else INPUT_FORMATS[self.tool]

    @property
    def writes_folder_of_inputs(self) -> bool:
        """Whether --write-inputs names a folder: of several sets, or for a tool."""
        if self.outputs.write_inputs_file is None:
            return False
        if self.tool is None:
            return self.boundary
        return not self.inputs_format.suffix


@command("audit")
@arguments.files("paths", metavar="MODEL...")
@arguments.file("--inputs", help="The model's inputs, as .npz; the model then runs.")
@arguments.given
@arguments.no_negative
@arguments.flag(
    "--all", "every", help="List each gather, those too that compute shapes."
)
@arguments.json_file("records")
@arguments.reports
@arguments.file("--sarif", "sarif_file", help="Write the findings as SARIF 2.1.0.")
@arguments.file(
    "--contract",
    "contract_file",
    help=(
        "Write the conditions on inputs under which the gathers are proved: a .json"
        " file, or a guard as .onnx or .py; of several models a folder."
    ),
)
@arguments.file(
    "--annotate",
    "annotate_file",
    help=(
        "Write a copy of the model whose metadata declare these conditions, as far as"
        " winml.io.inputs and torch's range_constraints have a form for them."
    ),
)
@arguments.force
@arguments.file(
    "--write-inputs",
    "write_inputs_file",
    help=(
        "Write inputs that are made at random, in range, with which the model runs, as"
        " .npz."
    ),
)
@click.option(
    "--for",
    "tool",
    type=arguments.tool,
    metavar="TOOL",
    help=(
        "Write the inputs of --write-inputs as a tool reads them: trtexec,"
        " onnxruntime_perf_test, polygraphy, benchmark_app, perf_analyzer or onnx-mlir;"
        " and print the bounds of open sizes for it."
    ),
)
@arguments.flag(
    "--boundary",
    help="Write inputs at both ends of each condition of the contract, too.",
)
@arguments.fail_on_states
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
def audit_command(**values: Any) -> int:
    """Say of each gather whether an input can take its indices out of range.

    The audit also says which gathers DirectML's provider refuses. Other operators that
    carry indices are judged too, such as scatters and embeddings.
    The first line says whether a wrong input can leave an axis: it can, perhaps, or
    never; or that a node is invalid.

    A MODEL may also be a folder: all *.onnx files in it and below it; or a pattern in
    quotes. A range is proved from the constants and the operators of the model, and
    from what its metadata declare of its inputs; --shape, --size, --range, --tokenizer,
    --assume and --inputs tell more. A gather that is invalid, out of range, or refused
    by the DirectML provider is a finding.
    """
    from onnxgather.auditing.output.findings import AuditReport

    options = AuditOptions(**values)
    batch = Batch(prints=False)
    sources = each_once(batch.sources(options.paths, ".onnx"))
    models = [source.path for source in sources]
    # A folder or a pattern is a list of models, even if it names only one.
    is_single = len(models) == 1 and models == [*dict.fromkeys(options.paths)]
    outputs = options.outputs
    # The contracts of several models go to a folder.
    contracts = dict[str, str]()
    if outputs.contract_file is not None and not is_single and models:
        contracts = contract_names(outputs.contract_file, sources)
    _check_usage(options, models, is_single)
    baseline = _baseline(options)
    _check_writable(options, models, is_single, contracts)

    audits = _audits(options, batch, models)
    if not audits:
        return batch.finish()
    external_files = chain.from_iterable(audit.files for audit in audits.values())
    outputs.check_apart(external_files)
    # The failure of an interruption has no name: it is that of no path.
    failed = {name for name, _ in batch.failures if name}
    not_audited = failed.union(models) - audits.keys()
    named = _named_paths(options, is_single)
    counted = {*chain.from_iterable(options.fail_on)}
    findings = {
        model: baseline.findings(model, finished_audit.audit, counted)
        for model, finished_audit in audits.items()
    }
    unusable = [str(error) for _, error in batch.failures]
    report = AuditReport(audits, findings, unusable, len(not_audited), named)
    contents = _contents(outputs, report, is_single, baseline)
    if contracts:
        contents["--contract"] = partial(contracts_folder, contracts, audits)
    input_lines = list[str]()
    first = next(iter(audits.values()))
    # The model is kept where a file needs it, and then there is a single model.
    if first.audited:
        contents["--annotate"] = partial(
            _annotated_model, outputs.annotate_file or "", first.audited, batch
        )
        contents["--write-inputs"] = partial(
            _input_files, options, first.audited, input_lines
        )
    contents["--write-baseline"] = partial(baseline.of_today, report, not_audited)
    is_printed = outputs.write(batch, contents, options.force)
    digests = {audit.audit.contract["digest"] for audit in audits.values()}
    for line in without_model(options.given.assume, digests):
        batch.tell(line)
    if not is_printed:
        _say(report, is_single, options.every, baseline)
    # The sets of inputs are a part of the answer, which is printed as the text is.
    for line in input_lines:
        say(printable(line), err=is_printed, as_is=True)

    # A baseline that is written makes each finding known.
    if outputs.write_baseline_file:
        return batch.finish()
    not_judged = any(finished.audit.not_judged for finished in audits.values())
    if not_judged and arguments.NOT_JUDGED in counted:
        return batch.finish([FINDINGS])
    if any(finding.is_new for finding in report.every):
        return batch.finish([FINDINGS])
    return batch.finish()


def _check_writable(
    options: AuditOptions,
    models: Sequence[str],
    is_single: bool,
    contracts: Mapping[str, str],
) -> None:
    """Check that the files can be written, before the work that they are for.

    Args:
        options: The options of the command.
        models: The models.
        is_single: Whether there is one model, and no list of them.
        contracts: The paths of contracts in their folder, by the models.

    Raises:
        OnnxGatherError: A file cannot be written, or is another file of the command.
    """
    outputs = options.outputs
    folders = list[str]()
    if options.writes_folder_of_inputs:
        # Files of an earlier run would count as inputs for the tool.
        check_new_folder(outputs.by_option["--write-inputs"])
        folders.append("--write-inputs")
    if outputs.contract_file is not None and not is_single:
        # Contracts of an earlier run are replaced, so the folder may have files.
        files = outputs.by_option
        folder = files.pop("--contract")
        others = [*_inputs(options, models), *files.values()]
        check_contract_folder(folder, contracts.values(), others)
        folders.append("--contract")
    outputs.check_writable(folders)


def _inputs(options: AuditOptions, models: Sequence[str]) -> list[str]:
    """Return the files that the command reads, without the external data of models."""
    given = (options.inputs, options.baseline)
    return [*models, *options.given.files, *filter(None, given)]


def _check_usage(options: AuditOptions, models: Sequence[str], is_single: bool) -> None:
    """Check the options that do not go with others, or with several models.

    Raises:
        OnnxGatherError: A file to write is an input, or another file to write.
        UsageError: An option must come with one model, or without another option.
    """
    outputs = options.outputs
    outputs.check_apart(_inputs(options, models))
    for option in ("--annotate", "--write-inputs"):
        if option in outputs.by_option and not is_single:
            raise UsageError(f"{option} must be given with one model")
    if outputs.annotate_file == STANDARD:
        raise UsageError("--annotate must be a file, got -")
    if outputs.contract_file is not None and is_single:
        check_contract_file(outputs.contract_file)
    _check_usage_of_inputs(options)
    if options.baseline and outputs.write_baseline_file:
        raise UsageError(
            "--baseline must come without --write-baseline, which compares with"
            " FILE too"
        )


def _check_usage_of_inputs(options: AuditOptions) -> None:
    """Check the options that say how inputs are written.

    Raises:
        UsageError: They come without --write-inputs, or its path is of another kind.
    """
    path = options.outputs.write_inputs_file
    if path is None:
        if options.tool is not None:
            raise UsageError("--for must come with --write-inputs")
        if options.boundary:
            raise UsageError("--boundary must come with --write-inputs")
        return

    if options.writes_folder_of_inputs:
        _check_folder_of_inputs(options, path)
        return
    # polygraphy reads a path without a suffix as a folder.
    suffix = options.inputs_format.suffix
    if path != STANDARD and not path.lower().endswith(suffix):
        reader = "without --for" if options.tool is None else f"for {options.tool}"
        raise UsageError(f"--write-inputs must end in {suffix} {reader}, got {path}")


def _check_folder_of_inputs(options: AuditOptions, path: str) -> None:
    """Check that the path of --write-inputs may be a folder.

    Raises:
        UsageError: It is the standard output, or a new folder with the name of a file.
    """
    from onnxgather.auditing.inputs.formats import INPUT_FORMATS, NPZ

    if path == STANDARD:
        raise UsageError(
            "--write-inputs must be a folder, as there are several files, got -"
        )
    suffixes = {row.suffix for row in (NPZ, *INPUT_FORMATS.values()) if row.suffix}
    _, suffix = os.path.splitext(path)
    # A folder that is there may have any name.
    if suffix.lower() in suffixes and not os.path.isdir(path):
        reason = "with --boundary" if options.tool is None else f"for {options.tool}"
        raise UsageError(f"--write-inputs must be a folder {reason}, got {path}")


def _baseline(options: AuditOptions) -> Baseline:
    """Return the baseline to compare with; it is empty if its file does not exist yet.

    Raises:
        OnnxGatherError: It cannot be read.
    """
    from onnxgather.auditing.output.findings import Baseline

    if options.baseline:
        return Baseline.read(options.baseline)
    # A baseline that is written anew keeps the reasons of the old file.
    written = options.outputs.write_baseline_file or ""
    if os.path.isfile(written):
        return Baseline.read(written)
    return Baseline(written)


def _audits(
    options: AuditOptions, batch: Batch, models: Sequence[str]
) -> dict[str, FinishedAudit]:
    """Return the audits of the models, in their order."""
    from onnxgather.core.model.given_inputs import read_inputs

    arrays = None
    if options.inputs is not None:
        arrays = read_inputs(options.inputs)
    work = partial(_audited, options, arrays)
    return finished(batch, options.jobs, work, models, "model")


def _audited(
    options: AuditOptions, arrays: Mapping[str, GivenArray] | None, model: str
) -> FinishedAudit:
    """Audit a model; keep of it and of its run only what a file to write needs."""
    from onnxgather.auditing.audit import audit_model
    from onnxgather.auditing.output.findings import FinishedAudit
    from onnxgather.core.model.network import external_paths

    audited = audit_model(options.given.read(model, declared=True), arrays)
    pictures = list[dict[str, Any]]()
    ways: list[list[WayStep]] = []
    if options.outputs.html_file is not None:
        from onnxgather.auditing.output.picture_of_finding import pictures_of
        from onnxgather.auditing.output.way_to_gather import ways_of

        pictures = pictures_of(audited)
        ways = ways_of(audited)
    files = external_paths(audited.network.path, audited.network.proto)
    # A model and its run may be large, and another process may have to send them.
    kept = None
    outputs = options.outputs
    needs_model = outputs.write_inputs_file or outputs.annotate_file
    if needs_model or is_guard(outputs.contract_file):
        kept = audited
    audit = audited.audit_without_digest
    # The digest of a contract takes seconds if the external data is large.
    if options.outputs.by_option or options.given.assume:
        audit = audited.audit
    return FinishedAudit(audit, files, pictures, kept, ways)


def _named_paths(options: AuditOptions, is_single: bool) -> NamedPaths:
    """Return the paths of the command, which the commands to run next name again."""
    from onnxgather.auditing.output.text import NamedPaths

    contract = options.outputs.contract_file
    assume = options.given.assume
    if not is_single:
        return NamedPaths([*dict.fromkeys(options.paths)], contract, assume)
    # A guard is no file of --assume.
    if contract is not None and not contract.lower().endswith(".json"):
        contract = None
    return NamedPaths((), contract, assume)


def _contents(
    outputs: Outputs, report: AuditReport, is_single: bool, baseline: Baseline
) -> dict[str, Callable[[], bytes | Folder]]:
    """Return what makes the content of each file, by the options."""
    from onnxgather.auditing.output.page import audit_page
    from onnxgather.auditing.output.reports import (
        audit_junit,
        audit_markdown,
        audit_sarif,
    )

    first = next(iter(report.models.values()))
    contract_file = outputs.contract_file or STANDARD
    return {
        "--json": lambda: json_bytes(_record(report, is_single, baseline)),
        "--junit": partial(audit_junit, report),
        "--markdown": partial(audit_markdown, report, baseline),
        "--sarif": lambda: json_bytes(audit_sarif(report, baseline)),
        "--html": partial(audit_page, report.models, report.left_out),
        "--contract": partial(contract_content, contract_file, first),
    }


def _annotated_model(path: str, audited: AuditedModel, batch: Batch) -> bytes:
    """Return the model of --annotate, and tell which conditions have no form.

    Raises:
        OnnxGatherError: The model cannot be written there.
    """
    from onnxgather.auditing.declared import annotated
    from onnxgather.core.model.protos import check_beside_data

    network = audited.network
    check_beside_data(network.proto, network.path, path)
    content, without_form = annotated(network, audited.contract)
    for condition in without_form:
        batch.tell(f"{path}: metadata have no form for a condition: {condition}")
    return content


def _input_files(
    options: AuditOptions, audited: AuditedModel, lines: list[str]
) -> bytes | Folder:
    """Return the inputs that --write-inputs writes: a file, or those of a folder.

    Args:
        options: The options of the command.
        audited: The audit of the model.
        lines: The lines to print are added: what each set is, what reads them.
    """
    from onnxgather.auditing.inputs.formats import Request
    from onnxgather.auditing.inputs.sets import input_sets, meanings

    inputs_format = options.inputs_format
    is_folder = options.writes_folder_of_inputs
    sets, missing = input_sets(
        audited, at_ends=options.boundary, defaults=options.tool is None
    )
    path = options.outputs.write_inputs_file or ""
    arrays = [made.arrays for made in sets]
    conditions = audited.contract.conditions
    request = Request(audited.network, path, arrays, is_folder, conditions)
    files = inputs_format.written(request)
    if options.boundary:
        lines += meanings(sets, missing)
    if options.tool is not None and path != STANDARD:
        lines += inputs_format.command_lines(request)
        lines += inputs_format.lines_on_bounds(request)
    if is_folder:
        return files
    (content,) = files.values()
    return content


def _record(report: AuditReport, is_single: bool, baseline: Baseline) -> dict[str, Any]:
    """Return what --json writes: the record of a model, or a list of records."""
    from onnxgather.auditing.output.reports import report_verdict

    record: dict[str, Any]
    if is_single:
        (single,) = report.models.values()
        record = _record_of_model(single.audit)
    else:
        rows = [
            {"model": model, **_record_of_model(finished_audit.audit)}
            for model, finished_audit in report.models.items()
        ]
        record = {"schema": 3, "verdict": report_verdict(report), "models": rows}
        if report.unusable:
            record["unusable"] = report.unusable
    if baseline.path:
        record["baseline"] = baseline.compared(report)
    return record


def _record_of_model(audit: Audit) -> dict[str, Any]:
    """Return the record of a model, with its verdict."""
    return {"verdict": audit.verdict, **asdict(audit)}


def _say(
    report: AuditReport, is_single: bool, show_all: bool, baseline: Baseline
) -> None:
    """Print the findings; of several models a verdict and a table come first."""
    from onnxgather.auditing.output.colours import coloured
    from onnxgather.auditing.output.overview import overview_lines
    from onnxgather.auditing.output.reports import baseline_lines
    from onnxgather.auditing.output.text import lines, next_lines, provider_lines
    from onnxgather.auditing.output.verdict import colour_of

    output_lines = list[str]()
    if is_single:
        ((model, finished_audit),) = report.models.items()
        audit = finished_audit.audit
        output_lines += lines(model, audit, show_all)
        output_lines += provider_lines(audit.gathers)
        output_lines += next_lines({model: audit}, report.named)
    else:
        output_lines += overview_lines(report, show_all)
    if baseline.path:
        output_lines += baseline_lines(report, baseline)
    escaped_lines = [printable(line) for line in output_lines]
    if has_colours():
        audits = [finished.audit for finished in report.models.values()]
        verdict = colour_of(audits, report.left_out)
        escaped_lines = list(coloured(escaped_lines, verdict))
    for line in escaped_lines:
        say(line, as_is=True)


@command("extract")
@arguments.argument("model", metavar="MODEL")
@arguments.name_option(
    "--node", help="The gather of that name, or with such an output."
)
@arguments.flag("--all", "every", help="Every gather.")
@arguments.file("--inputs", required=True, help="The model's inputs, as .npz.")
@arguments.folder("-o", "--output", required=True, help="The folder.")
@arguments.force
@arguments.json_file("gathers")
@arguments.as_records(outputs=Outputs)
def extract_command(
    model: str,
    node: str | None,
    every: bool,
    inputs: str,
    output: str,
    force: bool,
    outputs: Outputs,
) -> int:
    """Write each gather with what it gets in a run of MODEL, one folder each.

    A folder has a DxDispatch program with the data, the ONNX model of the gather, its
    inputs, the expected output, and a repro.py that runs it with onnxruntime and numpy
    alone. A gather that no descriptor of DirectML says has no program.
    """
    from onnxgather.core.model.given_inputs import read_inputs
    from onnxgather.extracting.extract import extract as write

    is_named = node is not None
    if every == is_named:
        raise UsageError("give either --node NAME or --all")
    outputs.check_apart_from_models([model, inputs])
    outputs.check_writable()
    check_outside([inputs], output)
    batch = Batch(prints=False)
    with foreseen(f"{model}: cannot be read"):
        gathers = write(model, read_inputs(inputs), output, node, force)
    record = {"model": model, "output": output, "gathers": gathers}
    is_printed = outputs.write_json(batch, record)
    if not is_printed:
        for gather in gathers:
            name = f"{gather.place}: {gather.operator} {gather.node!r}"
            if gather.left_out:
                say(f"left out: {name}: {gather.left_out}")
            if gather.cropped:
                say(f"cropped: {name}: {gather.cropped}")
            if gather.no_descriptor:
                say(f"without a program: {name}: {gather.no_descriptor}")
        written = sum(gather.folder is not None for gather in gathers)
        say(f"{model} -> {output}: {written} of {len(gathers)} gathers")
    return batch.finish()
