"""The command `judge`: a folder of answers, compared as `check` compares lanes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import click

from onnxgather.cli import arguments
from onnxgather.cli.check import HELP_ON_STATES, Reporting
from onnxgather.cli.choice import Choice
from onnxgather.cli.examples import command
from onnxgather.cli.outputs import Outputs
from onnxgather.cli.sources import Batch


@dataclass(frozen=True)
class JudgeOptions(Reporting):
    """The arguments and options of `onnxgather judge`."""

    exported: str
    """The folder of the export."""
    answers: str
    """The folder of the answers."""


@command("judge", words=HELP_ON_STATES)
@click.argument("exported", type=arguments.FOLDER, metavar="EXPORT")
@click.argument("answers", type=arguments.FOLDER, metavar="ANSWERS")
@arguments.choice()
@arguments.json_file("results")
@arguments.reports
@arguments.with_paths
@arguments.known
@arguments.as_records(choice=Choice, known=arguments.KnownFiles, outputs=Outputs)
def judge_command(**values: Any) -> int:
    """Compare a folder of answers with what an export of the corpus expects.

    EXPORT is a folder that `corpus export` wrote; its README says what ANSWERS must
    contain. A case without an answer ended its process, and is an ERROR.
    """
    from onnxgather.checking.corpus.exported import read_export
    from onnxgather.checking.lanes.answers import RUNTIME_FILE, AnswersLane
    from onnxgather.checking.run import check_all

    options = JudgeOptions(**values)
    outputs = options.outputs
    before = outputs.known_before()
    known_differences = [*before, *options.known.read()]
    index = os.path.join(options.exported, "index.json")
    outputs.check_apart([index, os.path.join(options.answers, RUNTIME_FILE)])
    outputs.check_writable()

    export = read_export(options.exported, options.answers)
    lane = AnswersLane(options.answers, export.answers)
    names = [case.name for case in export.cases]
    planned = options.choice.size(lambda: names, len(names))
    is_chosen = options.choice.chooser()
    batch = Batch(prints=False)
    with batch.first_signal_kept():
        report = check_all(
            (case for case in export.cases if is_chosen(case.name)),
            [lane],
            # A refusal that proves nothing is no success of the only lane.
            required=[lane.name],
            seen=lambda _: batch.progress.count("Judging", planned),
            known=known_differences,
            planned=planned,
            stop=lambda: batch.stop.name if batch.stop else None,
        )
        return options.finish(batch, report, before)
