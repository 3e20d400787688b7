"""The benchmark: every form of the CPU lowering has a workload, and its verdict on a form."""

from __future__ import annotations

import pytest
from bench_candidates import form_and_next, hand_written
from bench_report import FormResult, forms_section
from bench_workloads import APART, WORKLOADS, Workload

from onnxgather.lowering import cpu
from onnxgather.lowering.cpu.facts import Facts

SMALL = [
    Workload("a", "GATHER", "GATHER", "FLOAT16", (3, 9, 4), (5, 2), 1),
    Workload("b", "GATHER_ELEMENTS", "GATHER_ELEMENTS", "INT8", (3, 9, 4), (3, 5, 1), 1),
    Workload("c", "GATHER_ND", "GATHER_ND", "FLOAT32", (3, 9, 4), (5, 2)),
]


def form_of(workload: Workload, index_type: str, threads: int) -> str | None:
    """Return the name of the form that a workload takes."""
    facts = Facts(workload.desc(index_type), "clamp", None, threads)
    return next((form.name for form in cpu.FORMS if form.passed_over(facts) is None), None)


def test_a_workload_takes_every_form() -> None:
    taken = {
        form_of(workload, index_type, threads)
        for workload in WORKLOADS + APART
        for index_type in ("UINT32", "INT64")
        for threads in (1, 2)
    }
    assert taken == {None, *(form.name for form in cpu.FORMS)}


def test_every_mean_is_over_the_same_workloads() -> None:
    names = "1 1b 2 3 4 4h 4c 4b 5 5b 6 7 7b 8 8h 8b 9 9b 10"
    assert [workload.name for workload in WORKLOADS] == names.split()


@pytest.mark.parametrize("workload", SMALL, ids=lambda workload: workload.title)
def test_a_form_is_timed_against_the_next_that_fits(workload: Workload) -> None:
    assert list(form_and_next(workload, "UINT32", 1)) == ["portable"]
    assert list(form_and_next(workload, "INT64", 1)) == ["portable"]


def test_the_hand_written_graph() -> None:
    operators = [[node.op_type for node in hand_written(w).graph.node] for w in SMALL]
    start = ["Cast", "Max", "Min"]
    assert operators == [
        ["Reshape", "Reshape", *start, "Gather", "Reshape"],
        ["Reshape", *start, "Expand", "GatherElements", "Reshape"],
        ["Reshape", *start, "GatherND", "Reshape"],
    ]


@pytest.mark.parametrize(("times", "verdict"), [(1.26, "stays"), (1.24, "goes")])
def test_a_form_stays_that_is_worth_it(times: float, verdict: str) -> None:
    samples = {"elements": [1.0, 2.0, 4.0], "portable": [times, 2 * times, 1.0]}
    result = FormResult(SMALL[0], 1, "cpu", samples, "INT64")
    rows = [[cell.strip() for cell in line.split("|")] for line in forms_section([result])]
    assert ["", "elements", "geometric mean", "", verdict, f"{times:.2f}", ""] in rows
    assert ["", "", "a", "INT64", "portable", f"{times:.2f}", ""] in rows
    assert ["", "columns", "none", "", "", "", ""] in rows
