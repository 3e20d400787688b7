"""The benchmark: its workloads, its candidates, its files and the page made of them."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import bench
import bench_machine
import bench_report
import bench_rivals
import bench_timing
import numpy as np
import pytest
from bench_candidates import candidates, form_and_next, hand_written
from bench_machine import machine_kind, vectors
from bench_report import (
    FOLDER,
    PAGE,
    Measurement,
    markdown,
    read_machines,
    read_thresholds,
    sentence_on_load,
    update_machine,
    verdict_on_form,
)
from bench_rivals import Given, rivals
from bench_timing import Times, measure
from bench_workloads import (
    APART,
    DATA_BYTES,
    ELEMENT_TYPES,
    LARGEST_ROW,
    OPERATORS,
    OUTPUT_BYTES,
    PAGE_BYTES,
    WORKLOADS,
    Workload,
    placed,
    random_workloads,
)
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
    Workload("d", "GATHER_ND1", "GATHER_ND1", "FLOAT64", (3, 9, 4), (3, 5, 1), 1),
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
        [*start, "GatherND", "Reshape"],
    ]


def size_in_bytes(workload: Workload, shape: tuple[int, ...]) -> int:
    """Return the bytes of a tensor of the workload's type."""
    return math.prod(shape) * np.dtype(workload.data_type.lower()).itemsize


def test_random_shapes_cover_operators_elements_and_sizes() -> None:
    shapes = random_workloads(400, 7)
    assert {shape.operator for shape in shapes} == set(OPERATORS)
    assert {shape.data_type for shape in shapes} == set(ELEMENT_TYPES)
    rows = [shape.row_bytes for shape in shapes]
    data = [size_in_bytes(shape, shape.data) for shape in shapes]
    outputs = [size_in_bytes(shape, shape.output) for shape in shapes]
    assert min(rows) < 4
    assert LARGEST_ROW // 2 < max(rows) <= LARGEST_ROW
    # two rows of data and a row of output are the least
    assert max(data) <= DATA_BYTES[1]
    assert min(data) < 2 * DATA_BYTES[0]
    assert max(outputs) <= OUTPUT_BYTES[1]
    assert min(outputs) < 2 * OUTPUT_BYTES[0]


def test_random_shapes_are_the_same_for_a_seed() -> None:
    assert random_workloads() == random_workloads()
    assert random_workloads(30, 1) != random_workloads(30, 2)
    assert random_workloads()[:5] == random_workloads(5)


def test_arrays_begin_where_they_are_placed() -> None:
    data, indices, output, expected = placed(SMALL[0], 48)
    begins = [array.ctypes.data % PAGE_BYTES for array in (data, indices, output)]
    assert begins == [0, 0, 48]
    assert output.shape == expected.shape


def test_every_candidate_gives_the_bytes_of_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench_rivals, "find_spec", "numpy".__eq__)
    names = candidates(SMALL[3], 1)
    assert {"hand-written", "portable", "cpu", "memcpy", "numpy"} <= set(names)


def untaken(*_: object) -> None:
    """Take the place of np.take, and gather nothing."""


def test_a_candidate_with_other_bytes_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench_rivals, "find_spec", "numpy".__eq__)
    monkeypatch.setattr(np, "take", untaken)
    with pytest.raises(AssertionError) as caught:
        candidates(SMALL[0], 1)
    assert str(caught.value) == "workload a: numpy differs from the reference"


def test_calls_take_turns_and_the_least_and_the_median_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    order: list[str] = []

    def call(name: str, seconds: list[float]) -> Callable[[], None]:
        def run() -> None:
            nonlocal now
            now += seconds[len(order) % len(seconds)]
            order.append(name)

        return run

    monkeypatch.setitem(bench_timing.CLOCKS, "cpu", lambda: now)
    monkeypatch.setattr(bench_timing, "LONG_ENOUGH", 0.0)
    calls = {"a": call("a", [2.0]), "b": call("b", [1.0])}
    times = measure(calls, 3, "cpu")
    assert times == {"a": Times(2e6, 2e6), "b": Times(1e6, 1e6)}
    turns = order[6:]  # three calls of each say how often it is repeated
    assert "".join(turns) == "aabb" + "bbaa" + "aabb"


MEASUREMENTS = [
    Measurement(
        "1",
        1,
        {
            "hand-written": Times(4.0, 5.0),
            "native": Times(2.0, 2.5),
            "direct": Times(1.0, 2.0),
            "memcpy": Times(0.5, 1.0),
            "numpy": Times(2.0, 2.0),
            "numba": Times(0.5, 4.0),
        },
    ),
    Measurement("14", 1, {"direct": Times(3.0, 3.0), "numpy": Times(1.0, 1.0)}),
]
FACTS = {"processor": "fast"}
CIRCUMSTANCES = {"date": "2026-11-28", "rounds": 3, "load": [0.5, 1.5]}


def page_of(folder: Path, *kinds: str) -> str:
    """Return the page of so many machines, all with the same figures."""
    for kind in kinds:
        update_machine(kind, FACTS, "workloads", CIRCUMSTANCES, MEASUREMENTS)
    return markdown(read_machines(folder), folder)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder in the place of benchmarks/."""
    monkeypatch.setattr(bench_report, "FOLDER", tmp_path)
    return tmp_path


def test_a_file_keeps_its_other_parts(folder: Path) -> None:
    page_of(folder, "fast")
    new = {"1": Times(200.0, 210.0), "2": Times(100.0, 105.0)}
    later = Measurement("64 rows", 2, new)
    update_machine("fast", FACTS, "threads", CIRCUMSTANCES, [later])
    (machine,) = read_machines(folder)
    assert machine.of("workloads") == MEASUREMENTS
    assert machine.of("threads") == [later]
    assert machine.of("forms") == ()
    row = "| A | 64 rows of 8 KiB | 200.0 us | 100.0 us | 0.50 / 0.50 |"
    assert row in markdown([machine], folder)


def test_the_page_says_how_far_og_gather_is_ahead(folder: Path) -> None:
    lines = page_of(folder, "fast").splitlines()
    assert "| og.Gather | numpy | 0.50 / 1.00 (1 of 1) |" in lines
    assert "| og.Gather | the fastest library | 2.00 / 0.50 (0 of 1) |" in lines
    assert "| native | hand-written | 0.50 / 0.50 (1 of 1) |" in lines
    assert "| workloads measured | 2026-11-28, 3 rounds, load 0.5 to 1.5 |" in lines


def test_the_page_says_where_a_library_is_faster(folder: Path) -> None:
    lines = page_of(folder, "fast").splitlines()
    begin = lines.index("## Where a library is faster")
    assert lines[begin + 7 : begin + 9] == [
        "| A | 1 | 14 rows of 64, 200,000 of 200,000 | 3.00 / 3.00 | numpy |",
        "| A | 1 | 1 LLM embedding [32000, 4096] FLOAT16, prefill 512 | 2.00 / 0.50 |"
        " numba |",
    ]
    even = Measurement("1", 1, {"direct": Times(1, 1), "numpy": Times(1, 1)})
    update_machine("fast", FACTS, "workloads", CIRCUMSTANCES, [even])
    page = markdown(read_machines(folder), folder)
    assert "Nowhere by more than 1.05, in minima." in page


def test_the_page_has_the_machines_side_by_side(folder: Path) -> None:
    alone = "**Only one kind of machine has been measured so far.**"
    assert alone in page_of(folder, "fast")
    page = page_of(folder, "fast", "slow")
    assert alone not in page
    cells = ["1.0 us", "0.25 / 0.40", "2.00 / 2.00", "0.50 / 1.00", "2.00 / 0.50"]
    side = " | ".join([*cells, "2.00 / 0.50 numba"])
    row = "| 1 | LLM embedding [32000, 4096] FLOAT16, prefill 512"
    assert f"{row} | {side} | {side} |" in page.splitlines()


def test_the_page_of_the_repository_is_that_of_its_files() -> None:
    written = PAGE.read_text(encoding="utf-8")
    advice = "python scripts/bench.py --page writes it"
    assert written == markdown(read_machines(FOLDER)), advice


def test_the_page_has_the_loss_of_each_threshold(folder: Path) -> None:
    first, second, *_ = read_thresholds()
    loss = {"machine": "fast", "base": ".", "change": f"{first.name}=7"}
    loss |= {"mean": [1.5, 1.6], "worst": [2.5, 2.6], "worst_workload": "4b"}
    cache = loss | {"base": "HEAD", "change": "CACHE_BYTES=9"}
    (folder / "thresholds.json").write_text(json.dumps([loss, cache]))
    lines = page_of(folder, "fast").splitlines()
    head = f"| `{first.name}` = {first.value} | {first.meaning}"
    assert f"{head} | 7 | 1.50 / 1.60 | 2.50 / 2.60 (4b) | A |" in lines
    head = f"| `{second.name}` = {second.value} | {second.meaning}"
    assert f"{head} | not measured |  |  |  |" in lines
    head = "| `CACHE_BYTES=9` | a macro of the sources | "
    assert f"{head} | 1.50 / 1.60 | 2.50 / 2.60 (4b) | A, HEAD |" in lines


def test_thresholds_are_read_with_the_comment_above_them(tmp_path: Path) -> None:
    header = tmp_path / "thresholds.h"
    header.write_text("""/* Not this. */
enum {
    /* Rows of a tile,
       on any machine. 512: 1.2 (6). */
    TILE_ROWS = 1024,

    /* Bytes between. */
    LEAST_BYTES = 1 << 18,
    MOST_BYTES = 1 << 22,
};
""")
    thresholds = [(row.name, row.value, row.meaning) for row in read_thresholds(header)]
    assert thresholds == [
        ("TILE_ROWS", "1024", "Rows of a tile, on any machine."),
        ("LEAST_BYTES", "1 << 18", "Bytes between."),
        ("MOST_BYTES", "1 << 22", "Bytes between."),
    ]


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [([1.26, 1.0], "stays"), ([1.24, 1.0], "goes"), ([], "not measured")],
)
def test_a_form_stays_that_is_worth_it(gains: list[float], verdict: str) -> None:
    assert verdict_on_form([Times(gain, 1.0) for gain in gains]) == verdict


def test_the_gain_of_a_form_is_in_the_page(folder: Path) -> None:
    times = {"elements": Times(1.0, 2.0), "portable": Times(1.26, 2.0)}
    gains = [Measurement("7", threads, times, "UINT32") for threads in (1, 2)]
    update_machine("fast", FACTS, "forms", CIRCUMSTANCES, gains)
    lines = markdown(read_machines(folder), folder).splitlines()
    assert "| elements | stays | 1.26 / 1.00 | 1.26 / 1.00 |" in lines
    assert "| columns | not measured |  |  |" in lines


def test_a_busy_machine_is_named() -> None:
    assert sentence_on_load([0.5, 4.99]) == (
        "The load was 0.5 at the begin and 4.99 at the end."
    )
    assert sentence_on_load([5.0, 0.5]) == (
        "The load was 5 at the begin and 0.5 at the end. At a load of 5 or more, "
        "nothing below 15 % is believed."
    )


def differing(workload: Workload) -> list[str]:
    """Return the rivals whose bytes are not those of the reference, with 1 and 2
    threads."""
    desc = workload.desc()
    data, indices = workload.arrays()
    shapes = desc.input_tensor.array_shape, desc.indices_tensor.array_shape
    expected = og.reference(desc, data.reshape(shapes[0]), indices.reshape(shapes[1]))
    names = list[str]()
    for threads in (1, 2):
        out = np.zeros(workload.output, expected.dtype)
        offered = rivals(Given(workload, data, indices, out, threads))
        assert "numpy" in offered
        for name, candidate in offered.items():
            out.view(np.uint8)[...] = 0xA5
            if candidate.result(candidate.run()).tobytes() != expected.tobytes():
                names.append(name)
    return names


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
    # numba refuses more threads than cores, unless it is told otherwise.
    variables = {**os.environ, "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=variables
    )
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
    assert bench.environment()["jax"] == "not installed"


def test_the_bench_refuses_what_it_cannot_measure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = {
        "--rounds 0": "--rounds and --threads must be at least 1",
        "--threads 0": "--rounds and --threads must be at least 1",
        "--only 1 --save": (
            "--only measures a share of a part, so it cannot be with --save"
        ),
    }
    for words, message in messages.items():
        monkeypatch.setattr(sys, "argv", ["bench.py", *words.split()])
        with pytest.raises(SystemExit):
            bench.main()
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == f"bench.py: error: {message}"
    monkeypatch.setattr(sys, "argv", ["bench.py", "--only", "99"])
    with pytest.raises(SystemExit):
        bench.main()
    error = capsys.readouterr().err
    assert "error: --only must name some of 1, 1b, 2," in error
    assert error.endswith("r28, r29; got 99\n")


@pytest.mark.parametrize(
    ("facts", "kind", "widest"),
    [
        (
            {
                "model name": "Intel(R) Xeon(R) 8481C",
                "cpu family": "6",
                "model": "143",
                "flags": "sse2 avx2 avx512f",
            },
            "intel-r-xeon-r-8481c-family-6-model-143",
            "AVX-512",
        ),
        (
            {
                "model name": "AMD EPYC",
                "cpu family": "25",
                "model": "1",
                "flags": "sse2 avx2",
            },
            "amd-epyc-family-25-model-1",
            "AVX2",
        ),
    ],
    ids=["Intel", "AMD"],
)
def test_the_name_of_a_kind_of_machine(
    facts: dict[str, str],
    kind: str,
    widest: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench_machine, "_cpuinfo", lambda: facts)
    assert (machine_kind(), vectors()) == (kind, widest)
