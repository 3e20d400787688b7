"""The benchmark: its workloads, its ways to run them, the page made of their times."""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import bench
import build_hook
import numpy as np
import pytest
from bench_workloads import (
    APART,
    DATA_BYTES,
    DENSE,
    ELEMENT_TYPES,
    LARGEST_ROW,
    OPERATORS,
    OUTPUT_BYTES,
    PAGE_BYTES,
    WORKLOADS,
    Given,
    Workload,
    placed,
    random_workloads,
)
from build_hook import KERNELS, kernels_of
from folders import HELPERS, ROOT
from messages import message_of

from onnxgather.core.execution.kernels import python_kernels
from onnxgather.core.lowering import cpu
from onnxgather.core.lowering.cpu.facts import Facts


def small(text: str) -> Workload:
    """Return the workload of a text: its fields in their order, without strides."""
    *names, data, indices, axis, index_type = text.split()
    name, title, operator, data_type = names
    data_shape = tuple(map(int, data.split("x")))
    indices_shape = tuple(map(int, indices.split("x")))
    shapes = data_shape, indices_shape
    more = int(axis), None, index_type
    return Workload(name, title, operator, data_type, *shapes, *more)


SMALL = [
    small(line)
    for line in """\
a rows GATHER FLOAT16 3x9x4 5x2 1 UINT32
b repeated GATHER_ELEMENTS INT8 3x9x4 3x5x1 1 UINT32
c pairs GATHER_ND FLOAT32 3x9x4 5x2 0 UINT32
d batches GATHER_ND1 FLOAT64 3x9x4 3x5x1 1 UINT32
e scalars GATHER FLOAT32 9 5 0 UINT32
f plain GATHER FLOAT32 9x4 5 0 UINT32
g dense GATHER_ELEMENTS UINT8 3x9x4 3x5x4 1 INT64
""".splitlines()
]


def form_of(workload: Workload, index_type: str, threads: int) -> str | None:
    """Return the name of the form that a workload takes."""
    facts = Facts(workload.desc(index_type), "clamp", None, threads)
    return next(
        (form.name for form in cpu.FORMS if form.passed_over(facts) is None), None
    )


def test_a_workload_takes_every_form() -> None:
    offered = itertools.product(WORKLOADS + APART, ("UINT32", "INT64"), (1, 2))
    taken = {form_of(*each) for each in offered}
    assert taken == {None, *(form.name for form in cpu.FORMS)}


def test_every_mean_is_over_the_same_workloads() -> None:
    names = "1 1b 2 3 4 4h 4c 4b 5 5b 6 7 7b 8 8h 8b 9 9b 10"
    assert [workload.name for workload in WORKLOADS] == names.split()


def test_dense_indices_have_no_stride_of_0() -> None:
    assert {workload.index_type for workload in DENSE} == {"INT64"}
    assert all(workload.desc().indices_tensor.strides is None for workload in DENSE)
    assert all(workload.indices == workload.output for workload in DENSE)


def test_the_graph_that_a_user_writes() -> None:
    start = "Cast Max Min"
    operators = [[node.op_type for node in w.model().graph.node] for w in SMALL]
    assert [" ".join(each) for each in operators] == [
        f"{start} Gather",
        f"{start} Expand GatherElements",
        f"{start} GatherND",
        f"{start} GatherND",
        f"{start} Gather",
        f"{start} Gather",
        f"{start} GatherElements",
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


@pytest.fixture
def with_kernels() -> None:
    """Skip where the native kernels were not built."""
    if not python_kernels():
        pytest.skip("there are no native kernels")


@pytest.fixture
def with_numpy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the other libraries, which take seconds to import."""
    monkeypatch.setattr(bench, "find_spec", "numpy".__eq__)


@pytest.mark.usefixtures("with_kernels", "with_numpy_alone")
@pytest.mark.parametrize("workload", SMALL, ids=lambda workload: workload.title)
def test_absent_libraries_are_left_out(workload: Workload) -> None:
    names = ["og.Gather", "native", "cpu", "portable", "ONNX Runtime", "numpy"]
    assert list(bench.ways(Given(workload, 1), None)) == names


ALL_LIBRARIES = """
import sys
sys.path[:0] = sys.argv[2:]
import bench, test_bench
for threads in (1, 2):
    given = test_bench.Given(test_bench.SMALL[int(sys.argv[1])], threads)
    ways = bench.ways(given, None)
    assert "numpy" in ways
"""


@pytest.mark.slow
@pytest.mark.usefixtures("with_kernels")
@pytest.mark.parametrize("number", range(len(SMALL)))
def test_a_library_gives_the_bytes_of_the_reference(number: int) -> None:
    """In a process of its own, as jax starts threads, and warns of each fork that comes
    later."""
    folders = [*map(str, (Path(__file__).parent, HELPERS, ROOT / "scripts"))]
    command = [sys.executable, "-W", "error", "-c", ALL_LIBRARIES, str(number)]
    # numba refuses more threads than cores, unless it is told otherwise.
    variables = {**os.environ, "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run(
        [*command, *folders], capture_output=True, text=True, env=variables
    )
    assert done.returncode == 0, done.stderr


ALL_NODES = """
import sys
sys.path[:0] = sys.argv[1:]
import bench, test_bench
for workload in test_bench.SMALL:
    given = test_bench.Given(workload.as_exported(), 1)
    assert list(bench.nodes(given)) == list(bench.NODES)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("with_kernels")
def test_a_node_gives_the_bytes_of_the_reference_on_each_provider() -> None:
    """In a process of its own, in which onnxgather's provider is registered."""
    folders = [*map(str, (Path(__file__).parent, HELPERS, ROOT / "scripts"))]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALL_NODES, *folders],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_exported_indices_are_those_that_a_node_has() -> None:
    """INT64, and one for each element of GatherElements."""
    exported = [workload.as_exported() for workload in SMALL]
    assert {workload.index_type for workload in exported} == {"INT64"}
    for workload in exported:
        assert [node.op_type for node in workload.bare_model().graph.node] == [
            workload.gather.onnx
        ]
        if workload.operator == "GATHER_ELEMENTS":
            assert workload.indices == workload.output


def nothing(*_: object) -> None:
    """Take the place of np.take, and gather nothing."""


@pytest.mark.usefixtures("with_kernels", "with_numpy_alone")
def test_a_way_with_other_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "take", nothing)
    assert (
        message_of(AssertionError, bench.ways, Given(SMALL[0], 1), None)
        == "workload a: numpy has other bytes"
    )


def test_ways_take_turns_and_the_least_time_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    times = iter([9.0, 9.0, 9.0, 8.0, 8.0, 8.0, 3.0, 5.0, 4.0, 2.0, 6.0, 7.0])

    def sample(run: bench.Run, *_: object) -> float:
        run()
        return next(times)

    monkeypatch.setattr(bench, "sample", sample)
    runs: dict[str, bench.Run] = {
        "a": lambda: order.append("a"),
        "b": lambda: order.append("b"),
    }
    assert bench.measure(runs, 3, 1) == {"a": 2.0, "b": 4.0}
    turns = order[6:]  # three calls of each say how often it is repeated
    assert "".join(turns) == "ab" + "ba" + "ab"


def test_a_sample_is_the_time_of_a_call() -> None:
    clock = iter([1.0, 3.0])
    assert bench.sample(lambda: None, 4, lambda: next(clock)) == 500_000


RUN = json.loads("""
{
  "date": "2026-11-28",
  "threads": 1,
  "rounds": 3,
  "load": [0.5, 1.5],
  "versions": {"numpy": "2.4.6"},
  "microseconds": {
    "1": {"og.Gather": 1.0, "ONNX Runtime": 4.0, "numpy": 2.0, "jax": 0.5},
    "1b": {"og.Gather": 8.0, "ONNX Runtime": 16.0, "numpy": 4.0},
    "14": {"og.Gather": 3.0, "ONNX Runtime": 3.0, "numpy": 1.0}
  }
}
""")


def test_the_page_is_made_from_the_files(tmp_path: Path) -> None:
    later = RUN | {
        "microseconds": {"1b": {"og.Gather": 2.0, "ONNX Runtime": 16.0, "numpy": 4.0}}
    }
    (tmp_path / "fast.json").write_text(json.dumps([RUN, later]))
    page = bench.page(tmp_path)
    _, _, rows = page.partition("## fast\n")
    for line in """\
- 2026-11-28, threads 1, 3 rounds, load 0.50 to 1.50:
  numpy 2.4.6
### Threads: 1
| ONNX Runtime | 0.18 (2 of 2) |
| numpy | 0.50 (2 of 2) |
| jax | 2.00 (0 of 1) |
| 1 | LLM embedding [32000, 4096] FLOAT16, prefill 512 | 1.0 us | 0.25 | 2.00 jax |
| 14 | rows of 64, 200,000 of 200,000 | 3.0 us | 1.00 | 3.00 numpy |
""".splitlines():
        assert line in rows.splitlines()


def test_the_page_of_the_repository_is_that_of_its_files() -> None:
    advice = "python scripts/bench.py --page writes it"
    assert bench.PAGE.read_text("utf-8") == bench.page(bench.FOLDER), advice


def test_the_kind_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = "cpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\nflags\t: avx2\n"

    def read_text(_: Path) -> str:
        return facts

    monkeypatch.setattr(Path, "read_text", read_text)
    assert bench.machine() == "amd-epyc-family-25-model-1"


@pytest.mark.slow
@pytest.mark.usefixtures("with_kernels")
def test_a_changed_threshold_is_timed_beside_the_kernels(tmp_path: Path) -> None:
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    other = kernels_of("TILE_ROWS=64", str(tmp_path))
    changed = (tmp_path / "kernels" / "thresholds.h").read_text()
    original = (ROOT / KERNELS / "thresholds.h").read_text()
    assert changed == original.replace("    TILE_ROWS = 8192,", "    TILE_ROWS = 64,")
    assert changed != original
    assert other is not python_kernels()
    runs = bench.ways(Given(SMALL[0], 1), other)
    assert list(bench.measure(runs, 1, 1)) == ["og.Gather", "the other kernels"]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        ("TILE=1", "TILE must be a number of thresholds.h"),
        ("absent", "a build must be a checkout or NAME=VALUE, got absent"),
    ],
)
def test_a_build_that_cannot_be_made_is_refused(
    build: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as caught:
        kernels_of(build, str(tmp_path))
    assert caught.value.code == message


def test_the_checkout_is_compiled_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "checkout" / KERNELS
    sources.mkdir(parents=True)
    (sources / "python.c").write_text("int x = ;")
    monkeypatch.setattr(build_hook, "load_build_hook", NoCompiler)
    with pytest.raises(subprocess.CalledProcessError):
        kernels_of(str(tmp_path / "checkout"), str(tmp_path))
    assert (tmp_path / "kernels" / "python.c").read_text() == "int x = ;"


class NoCompiler:
    """A build hook whose compiler fails."""

    SHARED = ()

    @staticmethod
    def words(_: str) -> list[str]:
        """Return the compiler."""
        return ["false"]

    @staticmethod
    def libraries_of(_: str) -> dict[str, list[str]]:
        """Return one library."""
        return {"_native.so": ["python.c"]}

    @staticmethod
    def command_of(compiler: list[str], *_: object) -> list[str]:
        """Return the compiler alone."""
        return compiler


def test_builds_are_not_saved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.py", "--against", ".", "--save"])
    with pytest.raises(SystemExit):
        bench.main()
    last = capsys.readouterr().err.splitlines()[-1]
    rule = "argument --save: not allowed with argument --against"
    assert last == f"bench.py: error: {rule}"
