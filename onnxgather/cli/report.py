"""The reports that `check` and `report merge` write, and the commands about reports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from signal import Signals
from typing import TYPE_CHECKING

import click

from onnxgather.checks import listed
from onnxgather.cli import arguments
from onnxgather.cli.sources import Batch
from onnxgather.cli.terminal import has_colours, json_bytes, say, width
from onnxgather.errors import FINDINGS, NOT_RUN, UNUSABLE
from onnxgather.files import check_writable, write_whole

if TYPE_CHECKING:
    from onnxgather.parity.results import Report


@dataclass(frozen=True, slots=True)
class Outputs:
    """The files that reports are written to; "-" is the standard output."""

    json_file: str | None
    junit_file: str | None
    html_file: str | None
    markdown_file: str | None

    @property
    def files(self) -> list[str]:
        """The files that are asked for."""
        files = (self.json_file, self.junit_file, self.html_file, self.markdown_file)
        return [file for file in files if file is not None]

    def check_apart(self, inputs: Iterable[str]) -> None:
        """Check that each report goes to a file of its own, and none to an input."""
        taken = {os.path.realpath(path): path for path in inputs}
        for file in self.files:
            if (other := taken.get(os.path.realpath(file))) is not None:
                both = f"{file} and {other}"
                raise click.UsageError(f"a report must go to a file of its own, got {both}")
            taken[os.path.realpath(file)] = file

    def write(self, batch: Batch, report: Report, shown: Report) -> None:
        """Write the files; then print what was asked for, or the table.

        Args:
            batch: It keeps the errors of the files.
            report: The report of the table.
            shown: The report of the files.
        """
        from onnxgather.report import html, junit, markdown, render

        writers = [
            (self.json_file, json_bytes),
            (self.junit_file, junit),
            (self.html_file, html),
            (self.markdown_file, markdown),
        ]
        for file, written in writers:
            if file not in (None, "-"):
                with batch.step(file):
                    write_whole(file, written(shown))
        printed = [written(shown) for file, written in writers if file == "-"]
        batch.progress.clear()
        for text in printed or [render(report, width(), colour=has_colours())]:
            say(text, as_is=True)


def codes(report: Report) -> Iterator[int]:
    """Yield the exit codes that a report calls for."""
    from onnxgather.parity.states import BAD
    from onnxgather.report.sentences import unmet

    results = [result for case in report.cases for result in case.results]
    if report.invalid or any(result.state in BAD for result in results):
        yield FINDINGS
    nothing_ran = all((result.found or result.state) == "NOT-RUN" for result in results)
    if unmet(report) or (results and nothing_ran):
        yield NOT_RUN


@click.group("report")
def report_command() -> None:
    """Work on the reports of `check --json`."""


@report_command.command("merge", short_help="Make one report of several.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-o", "--json", "json_file", metavar="FILE", help="Write the whole as JSON.")
@arguments.reports
def merge_command(files: tuple[str, ...], **asked: str | None) -> int:
    """Make one report of those that `check --shard K/N --json FILE` wrote.

    The lanes of all must agree in name, provider, versions and target. Where shards are missing,
    the report of the others is written, and the exit code is 2. Otherwise it is the exit code
    that the whole check would have had.
    """
    from onnxgather.parity.merge import merge as merge_reports
    from onnxgather.parity.reading import open_report

    outputs = Outputs(**asked)
    outputs.check_apart(files)
    for file in outputs.files:
        check_writable(file)
    batch = Batch(prints=False)
    whole, missing = merge_reports([(file, open_report(file)) for file in files])
    outputs.write(batch, whole, whole)
    if missing:
        say(f"Error: every shard must be given, got none of {listed(missing, 10)}", err=True)
    ended = Signals.__members__.get(whole.interrupted or "")
    code = batch.finish([*codes(whole), *([UNUSABLE] if whole.unusable or missing else [])])
    return code if ended is None else 128 + ended
