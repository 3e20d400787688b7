"""Repros: a difference reduced to the smallest case that shows it, in a folder with a script."""

from onnxgather.repro.flow import Outcome, make_repro
from onnxgather.repro.node import case_of_node, read_inputs
from onnxgather.repro.sources import (
    case_of_finding,
    case_of_program,
    lane_of_finding,
    nothing_wrong,
    read_findings,
)

__all__ = [
    "Outcome",
    "case_of_finding",
    "case_of_node",
    "case_of_program",
    "lane_of_finding",
    "make_repro",
    "nothing_wrong",
    "read_findings",
    "read_inputs",
]
