"""The benchmark: every form of the CPU lowering has a workload, and its verdict on a
form."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import bench
import bench_rivals
import numpy as np
import pytest
from bench_candidates import form_and_next, hand_written
from bench_report import LIBRARIES, FormResult, Result, forms_section, table
from bench_rivals import Given, rivals
from bench_workloads import APART, RIVALS_OWN, WORKLOADS, Workload
from folders import HELPERS, ROOT

import onnxgather as og
from onnxgather.core.lowering import cpu
from onnxgather.core.lowering.cpu.facts import Facts

SMALL = [
    Workload("a", "GATHER", "GATHER", "FLOAT16", (3, 9, 4), (5, 2), 1),
    Workload(
        "b", "GATHER_ELEMENTS", "GATHER_ELEMENTS", "INT8", (3, 9, 4), (3, 5, 1), 1
    ),
    Workload("c", "GATHER_ND", "GATHER_ND", "FLOAT32", (3, 9, 4), (5, 2)),
]


def form_of(workload: Workload, index_type: str, threads: int) -> str | None:
    """Return the name of the form that a workload takes."""
    facts = Facts(workload.desc(index_type), "clamp", None, threads)
    return next(
        (form.name for form in cpu.FORMS if form.passed_over(facts) is None), None
    )


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
    rows = [
        [cell.strip() for cell in line.split("|")] for line in forms_section([result])
    ]
    assert ["", "elements", "geometric mean", "", verdict, f"{times:.2f}", ""] in rows
    assert ["", "", "a", "INT64", "portable", f"{times:.2f}", ""] in rows
    assert ["", "columns", "none", "", "", "", ""] in rows


def differing(workload: Workload) -> list[str]:
    """Return the rivals whose bytes are not those of the reference, with 1 and 2
    threads."""
    desc = workload.desc()
    data, indices = workload.arrays()
    shapes = desc.input_tensor.array_shape, desc.indices_tensor.array_shape
    expected = og.reference(desc, data.reshape(shapes[0]), indices.reshape(shapes[1]))
    found = list[str]()
    for threads in (1, 2):
        out = np.zeros(workload.output, expected.dtype)
        made = rivals(Given(workload, data, indices, out, threads))
        assert "numpy" in made
        for name, candidate in made.items():
            out.view(np.uint8)[...] = 0xA5
            if candidate.result(candidate.run()).tobytes() != expected.tobytes():
                found.append(name)
    return found


@pytest.mark.parametrize("workload", SMALL, ids=lambda workload: workload.title)
def test_a_rival_that_is_always_there_gives_the_bytes_of_the_reference(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_rivals, "find_spec", "numpy".__eq__)
    assert differing(workload) == []


ALL_RIVALS = """
import sys
sys.path[:0] = sys.argv[2:]
import test_bench
print(test_bench.differing(test_bench.SMALL[int(sys.argv[1])]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", range(len(SMALL)), ids=[workload.title for workload in SMALL]
)
def test_a_rival_gives_the_bytes_of_the_reference(number: int) -> None:
    """In a process of its own, as jax starts threads, and warns of each fork that comes
    later."""
    folders = [*map(str, (Path(__file__).parent, HELPERS, ROOT / "scripts"))]
    command = [sys.executable, "-W", "error", "-c", ALL_RIVALS, str(number), *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_a_library_that_is_absent_is_left_out_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def present(name: str) -> object:
        # others take seconds to import
        return find_spec(name) if name == "numpy" else None

    def version(name: str) -> str:
        raise bench.PackageNotFoundError

    monkeypatch.setattr(bench_rivals, "find_spec", present)
    monkeypatch.setattr(bench, "version", version)
    data, indices = SMALL[0].arrays()
    out = np.zeros(SMALL[0].output, data.dtype)
    assert "jax" not in rivals(Given(SMALL[0], data, indices, out, 1))
    assert bench.environment(1)["jax"] == "not installed, so it is left out"


def test_the_workloads_of_the_rivals_are_in_no_mean() -> None:
    times = {"hand-written": [4.0], "cpu": [2.0], "native": [1.0], "direct": [0.5]}
    own, theirs = (
        Result(workload, 2, "wall", times | {"numpy": [rival], "numba": [1.0]})
        for workload, rival in ((WORKLOADS[0], 2.0), (RIVALS_OWN[0], 0.25))
    )
    lines = table([own, theirs])
    assert (
        "- direct / numpy: geometric mean 0.250, at most 1.05 in 1 of 1, worst 0.25 "
        in "".join(line.removesuffix("(workload 1)") for line in lines)
    )
    heading = lines.index("### The rivals' own workloads with 2 threads")
    cells = [cell.strip() for cell in lines[-1].split("|")]
    assert lines[heading:][-1].startswith("| 14 ")
    assert cells[-3:-1] == ["2.00", "numpy"]


def test_every_library_has_a_place_in_the_picture() -> None:
    times = {name: [1.0] for name in ("hand-written", *LIBRARIES)}
    picture = bench.plot([Result(WORKLOADS[0], 1, "cpu", times)])
    assert all(picture.count(f">{name}</text>") == 1 for name in LIBRARIES)
