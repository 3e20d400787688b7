"""Lanes on shared libraries of ONNX Runtime: their host, and what stops it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from fake_compiler import library_of
from messages import message_of
from rings import one_quick_in

from onnxgather.checking.cases import smallest_case
from onnxgather.checking.corpus import built_in_cases
from onnxgather.checking.lanes import open_lanes
from onnxgather.checking.lanes.lane import AnswerKind
from onnxgather.checking.lanes.python import model_lane
from onnxgather.checking.run import check_all
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.execution.elsewhere.hosts import (
    cache_folder,
    compiled_host,
    is_library,
)
from onnxgather.core.execution.elsewhere.worker import Worker

posix = pytest.mark.skipif(
    os.name == "nt", reason="the stand-in compiler is a shell script"
)
compiles = pytest.mark.skipif(
    shutil.which("c++") is None or sys.platform != "linux",
    reason="the host is compiled here by c++, for Linux",
)
CASE = smallest_case("Gather", "FLOAT32")


@pytest.mark.parametrize(
    ("path", "library"),
    [
        ("libonnxruntime.so", True),
        ("lib/libonnxruntime.so.1", True),
        ("libonnxruntime.so.1.31.1", True),
        ("libonnxruntime.1.31.1.dylib", True),
        ("C:\\onnxruntime.dll", True),
        ("venv.so/bin/python", False),
        ("python3.11", False),
        ("run.so.old", False),
    ],
)
def test_a_shared_library_is_known_by_its_name(path: str, library: bool) -> None:
    assert is_library(path) == library


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that keeps the host for the tests of this module."""
    return tmp_path_factory.mktemp("cache")


@compiles
class TestLibraries:
    @pytest.fixture(autouse=True)
    def _cached(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        monkeypatch.delenv("CXX", raising=False)

    @pytest.mark.slow
    def test_the_library_of_a_wheel_runs_the_corpus_as_a_lane(self) -> None:
        spec = find_spec("onnxruntime")
        assert spec is not None
        assert spec.origin is not None
        (library,) = (Path(spec.origin).parent / "capi").glob("libonnxruntime.so.*")
        (lane,) = open_lanes([], {"cpu@library": str(library)})
        # The host takes DirectML's data types alone.
        part = [*built_in_cases()][::40]
        cases = [case for case in part if case.data_type in [*TensorDataType]]
        report = check_all(cases, [lane])
        lane.close()
        (info,) = report.lanes
        version = library.name.removeprefix("libonnxruntime.so.")
        assert (info.versions, info.python, info.not_run) == (
            {"onnxruntime": version},
            None,
            None,
        )
        assert report.counts(0) == {"PASS": len(cases)}
        assert len(cases) > 38

    @pytest.mark.slow
    def test_a_host_is_compiled_once(self) -> None:
        made = Path(compiled_host())
        assert made.parent == cache_folder()
        times = made.stat().st_mtime_ns
        assert compiled_host() == str(made)
        assert made.stat().st_mtime_ns == times
        assert [*cache_folder().iterdir()] == [made]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "content", "reason"),
        [
            (
                "none.so",
                None,
                "{}: cannot open shared object file: No such file or directory",
            ),
            ("text.so.1", b"hello", "{}: file too short"),
            ("zeros.dll", bytes(10_000), "{}: invalid ELF header"),
        ],
    )
    def test_a_file_that_is_no_library_does_not_start(
        self, tmp_path: Path, name: str, content: bytes | None, reason: str
    ) -> None:
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        lane = model_lane("cpu@x", str(path))
        info = lane.start()
        lane.close()
        assert (info.not_run, info.versions) == (reason.format(path), {})

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("source", "reason"),
        [
            ("int nothing;", "{} is no ONNX Runtime"),
            (
                (
                    "static void* api(unsigned) { return nullptr; }\n"
                    'static const char* version() { return "1.23.2"; }\n'
                    "static const void* base[] = {(void*)api, (void*)version};\n"
                    'extern "C" const void* OrtGetApiBase() { return base; }\n'
                ),
                "ONNX Runtime must be 1.24 or later, got 1.23.2",
            ),
        ],
    )
    def test_a_library_that_is_no_fit_does_not_start(
        self, tmp_path: Path, source: str, reason: str
    ) -> None:
        code, path = tmp_path / "library.cpp", tmp_path / "library.so"
        code.write_text(source)
        subprocess.run(["c++", "-shared", "-fPIC", "-o", path, code], check=True)
        lane = model_lane("cpu@x", str(path))
        info = lane.start()
        lane.close()
        assert info.not_run == reason.format(path)

    @pytest.mark.parametrize(
        ("compiler", "reason"),
        [
            ("/none/c++ -g", "/none/c++: No such file or directory"),
            ("c++ 'odd", "No closing quotation"),
            ("sh -c 'echo oh >&2; echo no >&2; exit 1'", "oh no"),
            (
                "false",
                "Command '['false', '--version']' returned non-zero exit status 1.",
            ),
        ],
    )
    def test_a_compiler_that_fails_is_told(
        self, monkeypatch: pytest.MonkeyPatch, compiler: str, reason: str
    ) -> None:
        monkeypatch.setenv("CXX", compiler)
        with pytest.raises(NoAnswerError) as caught:
            Worker("", 30, ["/none/libonnxruntime.so"]).about()
        assert (
            str(caught.value)
            == f"the host of a shared library must be compiled by {compiler}, or what"
            f" CXX names: {reason}"
        )
        assert caught.value.how is Breakdown.NOT_STARTED

    def test_a_host_that_cannot_be_kept_is_told(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "onnxgather").write_text("a file")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert message_of(NoAnswerError, compiled_host) == (
            "the host of a shared library must be compiled by c++, or what CXX"
            " names: "
            f"{tmp_path / 'onnxgather'}: File exists"
        )


@posix
@pytest.mark.parametrize(
    ("change", "how", "reason"),
    one_quick_in(
        4,
        [
            (
                "os._exit(7)",
                Breakdown.EXITED,
                "the worker ended with exit code 7 and printed nothing",
            ),
            (
                "os.abort()",
                Breakdown.DIED,
                "the worker died of SIGABRT and printed nothing",
            ),
            (
                "time.sleep(60)",
                Breakdown.LATE,
                "the worker did not answer within 0.5 s and",
            ),
            ("bytes(2**50)", None, ""),
        ],
    ),
)
def test_a_host_that_misbehaves_costs_its_case(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    how: Breakdown | None,
    reason: str,
) -> None:
    bad = replace(CASE, indices=np.array([1, 0, 2]))
    library = library_of(
        tmp_path,
        monkeypatch,
        "class InferenceSession(InferenceSession):\n"
        "    def compute(self, data, indices):\n"
        f"        if indices[0] == 1: {change}\n"
        "        return super().compute(data, indices)\n",
    )
    lane = model_lane("StubExecutionProvider@x", library)
    assert lane.start().not_run is None
    worker = lane._worker  # type: ignore[reportPrivateUsage]
    for _ in range(2):
        assert lane.answer(CASE).kind is AnswerKind.RAN
        worker.timeout = 0.5 if "sleep" in change else 30
        answer = lane.answer(bad)
        worker.timeout = 30
        assert answer.how is how
        assert (answer.reason or "").startswith(reason)
    lane.close()
