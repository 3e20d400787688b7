"""The host over ONNX Runtime's C API, compiled here and asked as a worker is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import pytest
from corpus_cases import corpus, descriptor_cases

from onnxgather.checking.cases import smallest_case
from onnxgather.checking.lanes import open_lanes
from onnxgather.checking.lanes.python import ModelLane
from onnxgather.checking.run import check_all
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.execution.elsewhere.hosts import find_runtime
from onnxgather.core.execution.elsewhere.worker import Worker
from onnxgather.core.execution.kernels import operators_library
from onnxgather.core.execution.providers import PROVIDERS

COMPILER = shutil.which("c++")
SOURCE = resources.files("onnxgather") / "native" / "hosts" / "runtime_host.cpp"


def library() -> Path:
    """ONNX Runtime's library in the wheel of this environment."""
    spec = find_spec("onnxruntime")
    assert spec is not None
    assert spec.origin is not None
    (found,) = (Path(spec.origin).parent / "capi").glob("libonnxruntime.so.*")
    return found


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        COMPILER is None or sys.platform != "linux",
        reason="the host is compiled here by c++, for Linux",
    ),
]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("host") / "runtime_host"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(made)]
    subprocess.run([str(COMPILER), *flags, str(SOURCE), "-ldl"], check=True)
    return made


def test_a_host_answers_as_a_worker_in_python_does(host: Path) -> None:
    step = 40
    # The host takes DirectML's data types alone.
    cases = [case for case in corpus()[::step] if case.data_type in [*TensorDataType]]
    lanes = [
        ModelLane("cpu", PROVIDERS["cpu"]),
        ModelLane("cpu@host", PROVIDERS["cpu"], host=[str(host), str(library())]),
    ]
    try:
        report = check_all(cases, lanes)
    finally:
        for lane in lanes:
            lane.close()
    python, native = report.lanes
    assert native.versions == {"onnxruntime": python.versions["onnxruntime"]}
    assert native.python is None
    for case in report.cases:
        first, second = case.results
        assert (second.state, second.kind) == (first.state, first.kind)
        assert second.nodes == first.nodes
    assert report.counts(1)["PASS"] > 1400 // step


def test_a_host_says_which_providers_there_are(host: Path) -> None:
    lane = ModelLane(
        "directml", PROVIDERS["directml"], host=[str(host), str(library())]
    )
    info = lane.start()
    lane.close()
    assert info.not_run is not None
    assert info.not_run.startswith("DmlExecutionProvider is not available (available: ")


@pytest.mark.skipif(
    operators_library() is None, reason="the native kernels are not built"
)
def test_a_host_runs_the_operators_of_a_library_as_a_worker_does(host: Path) -> None:
    cases = descriptor_cases()[::60]
    command = [str(host), str(library())]
    lanes = [
        ModelLane("cpu@native", PROVIDERS["cpu"], target="native"),
        ModelLane("cpu@host@native", PROVIDERS["cpu"], target="native", host=command),
    ]
    report = check_all(cases, lanes)
    for lane in lanes:
        lane.close()
    assert {result.state for case in report.cases for result in case.results} == {
        "PASS"
    }
    for case in report.cases:
        first, second = case.results
        assert second.nodes == first.nodes
        assert any(node.startswith("GATHER") for node in second.nodes)


def test_a_library_that_a_host_cannot_load_is_told(host: Path) -> None:
    name = '/none/größe/\u03b5\u03bb/\U0001f40c".so'
    command = [str(host), str(library())]
    lane = ModelLane(
        "cpu@x", PROVIDERS["cpu"], target="native", host=command, operators=name
    )
    told = lane.start().not_run
    lane.close()
    assert (
        told == "CPUExecutionProvider must run onnxgather's own operators, but their"
        f" library does not load: Failed to load library {name} with error: {name}:"
        " cannot open shared object file: No such file or directory"
    )


def test_a_host_starts_anew_after_some_models(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[Worker] = []

    def restart(worker: Worker) -> None:
        starts.append(worker)

    monkeypatch.setattr("onnxgather.core.execution.elsewhere.worker.HOST_RUNS", 2)
    monkeypatch.setattr(
        "onnxgather.core.execution.runtime.DIRECTML", PROVIDERS["cpu"].name
    )
    monkeypatch.setattr(Worker, "restart", restart)
    lane = ModelLane("cpu", PROVIDERS["cpu"], host=[str(host), str(library())])
    case = smallest_case("Gather", "FLOAT32")
    for _ in range(5):
        lane.answer(case)
    assert len(starts) == 2
    monkeypatch.undo()
    lane.close()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "host: takes one argument, ONNX Runtime's library\n"),
        (["/dev/null"], "host: /dev/null: file too short\n"),
        (["libc.so.6"], "host: libc.so.6 is no ONNX Runtime\n"),
    ],
)
def test_a_host_without_a_library_says_so(
    host: Path, arguments: list[str], sentence: str
) -> None:
    found = subprocess.run(
        [str(host), *arguments], stdin=subprocess.DEVNULL, capture_output=True
    )
    assert (found.returncode, found.stderr.decode()) == (2, sentence)


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (b"\x02\0\0\0\0\0\0\0{}", "host: a frame without a line\n"),
        (b"\x02\0\0\0\0\0\0\0{\n", "host: a request is cut short\n"),
        (b"\xff" * 8, "host: a frame of more than 8 GiB\n"),
        (b"\x09\0\0\0\0\0\0\0{}\n", "host: the input ends within a frame\n"),
        (b'\x07\0\0\0\0\0\0\0{"\\u12\n', "host: a request is cut short\n"),
        (b'\x08\0\0\0\0\0\0\0{"a":1}\n', "host: a request without session\n"),
    ],
)
def test_a_request_that_is_none_ends_the_host(
    host: Path, request_: bytes, sentence: str
) -> None:
    found = subprocess.run(
        [str(host), str(library())], input=request_, capture_output=True
    )
    assert (found.returncode, found.stderr.decode()) == (2, sentence)


@pytest.mark.skipif(
    not find_runtime(PROVIDERS["directml"]),
    reason="scripts/directml/setup.sh has not run",
)
def test_the_directml_provider_runs_here() -> None:
    (lane,) = open_lanes(["directml"])
    cases = [case for case in corpus() if "2-to-the-31" in case.name][::6]
    report = check_all(cases, [lane])
    lane.close()
    assert report.lanes[0].not_run is None
    assert report.counts(0).keys() <= {"PASS", "KNOWN"}
    assert report.counts(0)["PASS"] > 0
