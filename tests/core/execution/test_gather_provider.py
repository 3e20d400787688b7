"""onnxgather's own provider in sessions that a user makes: its options, the errors of
wrong ones, and the rows of its report."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cpp_programs import compile_program, needs_headers, needs_headers_of_plugins
from folders import MODELS, ROOT
from messages import message_of
from provider_models import one_gather, opened, ort, run_on, session_of

import onnxgather as og
from onnxgather.core.execution import kernels, runtime
from onnxgather.core.execution.runtime import CPU, GATHERS

pytestmark = pytest.mark.skipif(
    kernels.operators_library() is None, reason="the native kernels are not built"
)

NETWORK = MODELS / "networks" / "keywords.onnx"


def model_named(name: str, node: str = "tokens") -> onnx.ModelProto:
    """Return a model that is one Gather of rows, in a graph of this name."""
    shapes = (["n", 2], ["k"], ["k", 2])
    return one_gather("Gather", DATA, IDS, name=node, graph=name, shapes=shapes)


DATA = np.arange(8, dtype=np.float32).reshape(4, 2)
IDS = np.zeros(1, np.int64)


def run(session: Any, *indices: int) -> None:
    """Select rows of `DATA`."""
    run_on(session, DATA, np.array(indices, np.int64))


def rows_named(name: str) -> list[og.GatherCounts]:
    """Return the rows of the models of a name."""
    return [row for row in og.provider_report() if row.model == name]


class TestAdded:
    """The provider in the options of a session."""

    def test_a_session_has_it_before_the_cpu_and_refuses_without_a_policy(self) -> None:
        options = ort.SessionOptions()
        og.add_provider(options)
        session = session_of(model_named("first"), options)
        assert session.get_providers() == [GATHERS, CPU]
        text = message_of(Exception, run, session, 0, 9)
        assert text.endswith(
            "Gather 'tokens': IndicesTensor[1] must be in [-4, 4), got 9"
        )

    def test_it_is_behind_a_provider_that_was_added_before(self) -> None:
        options = ort.SessionOptions()
        options.add_provider("AzureExecutionProvider", {})
        og.add_provider(options)
        session = ort.InferenceSession(str(NETWORK), options)
        assert session.get_providers() == ["AzureExecutionProvider", GATHERS, CPU]

    def test_two_sessions_take_the_same_options(self) -> None:
        options = ort.SessionOptions()
        og.add_provider(options, "clamp")
        for _ in range(2):
            run(session_of(model_named("twins"), options), 7)
        (row,) = rows_named("twins")
        assert (row.runs, row.outside) == (2, 2)

    def test_providers_by_name_take_the_place_of_those_of_the_options(self) -> None:
        options = ort.SessionOptions()
        og.add_provider(options)
        with pytest.warns(UserWarning, match="already been configured"):
            session = ort.InferenceSession(str(NETWORK), options, providers=[CPU])
        assert session.get_providers() == [CPU]


class TestRefused:
    """What is no option, and where the provider cannot be."""

    @pytest.mark.parametrize(
        ("value", "name"),
        [(None, "NoneType"), (5, "int"), (ort.RunOptions(), "RunOptions")],
    )
    def test_options_of_another_type(self, value: object, name: str) -> None:
        assert message_of(og.OnnxGatherError, og.add_provider, value) == (
            f"session_options must be an onnxruntime.SessionOptions, got {name}"
        )

    def test_options_that_have_the_provider(self) -> None:
        options = ort.SessionOptions()
        og.add_provider(options, "clamp")
        assert message_of(og.OnnxGatherError, og.add_provider, options, "zero") == (
            "session_options must not have onnxgather's provider, got options that have"
            " it; make new SessionOptions for another policy"
        )

    def test_a_refused_policy_leaves_the_options_as_they_are(self) -> None:
        options: Any = ort.SessionOptions()
        add: Any = og.add_provider
        message_of(og.OnnxGatherError, add, options, "clmap")
        message_of(og.OnnxGatherError, add, options, "clamp", 1)
        assert not options.has_providers()
        og.add_provider(options)
        assert options.has_providers()

    def test_without_the_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ONNXGATHER_NATIVE", "0")
        options = ort.SessionOptions()
        for call in (
            lambda: og.add_provider(options),
            og.provider_library,
            og.provider_report,
        ):
            assert message_of(og.ProviderError, call) == (
                "the native kernels must be there, but ONNXGATHER_NATIVE is 0"
            )

    def test_without_onnx_runtime(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        assert message_of(og.ProviderError, og.add_provider, None) == (
            f"the environment of {GATHERS} does not contain ONNX Runtime; install"
            " onnxruntime"
        )

    @pytest.mark.parametrize("version", ["1.23.2", "1.9.0", "1.23rc1"])
    def test_in_an_older_onnx_runtime(
        self, version: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = ort.SessionOptions()
        monkeypatch.setattr(ort, "__version__", version)
        assert message_of(og.ProviderError, og.add_provider, options) == (
            f"{GATHERS} must run in ONNX Runtime 1.24 or later, got {version}; install"
            " onnxruntime>=1.24.4"
        )

    def test_a_library_that_another_thread_registers_meanwhile(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        og.add_provider(ort.SessionOptions())
        module: Any = runtime
        list_devices = module._plugin_devices
        calls: list[str] = []

        def late(*arguments: Any) -> list[Any]:
            calls.append(arguments[1])
            return list_devices(*arguments) if len(calls) > 1 else []

        monkeypatch.setattr(runtime, "_plugin_devices", late)
        og.add_provider(ort.SessionOptions())
        assert len(calls) > 2


class TestReport:
    """The rows of the report."""

    def test_a_row_counts_the_runs_of_a_node(self) -> None:
        session = opened(model_named("counted"), "clamp")
        assert [(row.runs, row.outside) for row in rows_named("counted")] == [(0, 0)]
        run(session, 0, 1)
        run(session, 9, 2, -7)
        assert rows_named("counted") == [
            og.GatherCounts(
                model="counted",
                policy="clamp",
                operator="Gather",
                node="tokens",
                output_name="output",
                runs=2,
                indices=5,
                outside=2,
                least=-7,
                largest=9,
                first=(0,),
                error="Gather 'tokens': IndicesTensor[0] must be in [-4, 4), got 9",
            )
        ]

    def test_a_row_has_names_that_are_no_utf_8(self) -> None:
        content = model_named("no text", "toXens").SerializeToString()
        run(opened(content.replace(b"toXens", b"to\xffens")), 0)
        (row,) = rows_named("no text")
        assert row.node == "to\ufffdens"

    @pytest.mark.parametrize(
        ("indices", "text"),
        [
            ([0], "0 of 1 indices out of range, in 1 run"),
            (
                [0, 9],
                "1 of 2 indices out of range, in 1 run; the first: IndicesTensor[1]"
                " must be in [-4, 4), got 9",
            ),
            (
                [9, 1, -5],
                "2 of 3 indices out of range, in 1 run, from -5 to 9; the first:"
                " IndicesTensor[0] must be in [-4, 4), got 9",
            ),
            (
                [9] * 2000,
                "2,000 of 2,000 indices out of range, in 1 run; the first:"
                " IndicesTensor[0] must be in [-4, 4), got 9",
            ),
        ],
    )
    def test_a_row_is_a_sentence(self, indices: list[int], text: str) -> None:
        og.provider_report(reset=True)
        run(opened(model_named("said"), "clamp"), *indices)
        (row,) = rows_named("said")
        assert str(row) == f"Gather 'tokens' of 'said', clamp: {text}"


@pytest.mark.slow
@needs_headers
@needs_headers_of_plugins
def test_the_program_in_cpp_of_the_page_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "provider.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```cpp\n(.+?)```", page, re.DOTALL)
    (tmp_path / "onnxgather_operators.so").symlink_to(og.provider_library())
    (tmp_path / "keywords.onnx").symlink_to(NETWORK)
    program = compile_program(code, tmp_path)
    subprocess.run([program], cwd=tmp_path, check=True)
    # The registration is no word without effect: it needs the file.
    (tmp_path / "onnxgather_operators.so").unlink()
    assert subprocess.run([program], cwd=tmp_path, check=False).returncode != 0


PROGRAM = """
import os, sys, threading
import numpy as np
import onnxruntime
import onnxgather as og

MODEL = sys.stdin.buffer.read()
FEED = {"data": np.zeros((4, 2), np.float32), "indices": np.array([9])}

def session_on_it():
    options = onnxruntime.SessionOptions()
    og.add_provider(options, "clamp")
    return onnxruntime.InferenceSession(MODEL, options)

def counts():
    return [(row.runs, row.outside) for row in og.provider_report()]
"""


def printed_by(program: str, name: str = "elsewhere") -> str:
    """Return what a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM + program],
        input=model_named(name).SerializeToString(),
        capture_output=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


class TestProcess:
    """What the first call does in a process."""

    def test_several_threads_may_make_the_first_call(self) -> None:
        program = """
barrier = threading.Barrier(8)
def first():
    barrier.wait()
    session_on_it().run(None, FEED)
threads = [threading.Thread(target=first) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(counts())
"""
        assert printed_by(program) == "[(8, 8)]\n"

    @pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="there is no fork")
    def test_the_child_of_a_fork_makes_sessions_of_its_own(self) -> None:
        program = """
session_on_it().run(None, FEED)
child = os.fork()
if not child:
    session_on_it().run(None, FEED)
    print(counts(), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(counts())
"""
        assert printed_by(program) == "[(2, 2)]\n[(1, 1)]\n"
