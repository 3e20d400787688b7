"""Models on providers of a host: what a program asks it, and what a host that
misbehaves costs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from command_line import DATA_4X3 as DATA
from command_line import DESC, INDICES, outcome, program
from folders import HELPERS, MODELS
from messages import message_of
from rings import one_quick_in
from stub_runtime import environment
from terminal import run_on_terminal

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import ProviderError
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.hosts import find_runtime
from onnxgather.core.execution.elsewhere.worker import (
    _shared,  # type: ignore[reportPrivateUsage]
)
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.execution.session import open_session

WANTED = DATA[:, [2, 0]]

DIRECTML = """
from types import SimpleNamespace
PLACE = "DmlExecutionProvider"
PROVIDERS = [PLACE]
ExecutionMode = SimpleNamespace(ORT_SEQUENTIAL=0)
class InferenceSession(InferenceSession):
    def open(self):
        with open(FILE, "a") as file: print(os.getpid(), file=file)
    def compute(self, data, indices):
        if indices[0, 0] == 1: misbehave()
        return data[:, indices[0].astype(np.int64)]
"""
"""A stand-in with DirectML's provider, which notes its number for each session that it
makes."""

stand_in = pytest.mark.skipif(os.name == "nt", reason="the stand-in host is a script")


Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make a host of the stand-in; return the file of its notes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    open_session.cache_clear()

    def made(change: str = "") -> Path:
        notes = tmp_path / "notes"
        python = environment(tmp_path, f"FILE = {str(notes)!r}\n{DIRECTML}\n{change}")
        host = tmp_path / "onnxgather" / "directml" / "run-runtime"
        host.parent.mkdir(parents=True)
        host.write_text(f'#!/bin/sh\nexec "{python}" -u "{runtime.__file__}"\n')
        host.chmod(0o755)
        return notes

    yield made
    open_session.cache_clear()


def gathered(policy: og.OutOfRange = "clamp") -> Array:
    """Return what the host gathers."""
    return og.run(DESC, DATA, INDICES, policy, "directml")


@stand_in
class TestSessions:
    def test_a_provider_that_is_not_here_runs_in_its_host(self, make: Make) -> None:
        make()
        output = gathered()
        assert output.tobytes() == WANTED.tobytes()
        output[:] = 0  # it is the caller's
        session = open_session(DESC, "clamp", "directml")
        assert session.assignment == (("Gather", "Gather"),)

    def test_one_host_runs_all_models_and_keeps_the_last_one_open(
        self, make: Make
    ) -> None:
        notes = make()
        for policy in ("clamp", "clamp", "zero", "zero", "clamp"):
            assert gathered(policy).tobytes() == WANTED.tobytes()
        first, *others = notes.read_text().split()
        assert others == [first, first]

    def test_a_host_starts_anew_after_some_models(
        self, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("onnxgather.core.execution.elsewhere.worker.HOST_RUNS", 3)
        notes = make()
        for policy in ("clamp", "zero", "clamp", "clamp"):
            gathered(policy)
        one, two, three = notes.read_text().split()
        assert one == two != three

    @pytest.mark.parametrize(
        ("change", "reason"),
        one_quick_in(
            4,
            [
                (
                    "os._exit(7)",
                    "the worker ended with exit code 7 and printed nothing",
                ),
                (
                    "os.kill(os.getpid(), 11)",
                    "the worker died of SIGSEGV and printed nothing",
                ),
                (
                    "time.sleep(60)",
                    "the worker did not answer within 0.5 s and printed nothing",
                ),
                ("raise RuntimeError('no memory')", "no memory"),
            ],
        ),
    )
    def test_a_host_that_misbehaves_costs_that_call_only(
        self, make: Make, change: str, reason: str
    ) -> None:
        make(f"def misbehave(): {change}")
        for _ in range(2):
            assert gathered().tobytes() == WANTED.tobytes()
            worker = _shared(*find_runtime(PROVIDERS["directml"]))
            worker.timeout = 0.5 if "sleep" in change else 30
            given = (DESC, DATA, np.array([[1, 0]], np.uint32), "clamp", "directml")
            told = f"DmlExecutionProvider failed: {reason}"
            assert message_of(ProviderError, og.run, *given) == told
            worker.timeout = 30

    def test_a_host_takes_arrays_alone(self, make: Make) -> None:
        make()
        session = og.Session(DESC, "directml")
        assert session.run(DATA, INDICES).tobytes() == WANTED.tobytes()
        value = onnxruntime.OrtValue.ortvalue_from_numpy(DATA)
        for call in (
            lambda: session.run(value, INDICES),
            lambda: session.run(type("Tensor", (), {"__dlpack__": None})(), INDICES),
        ):
            assert message_of(ProviderError, call) == (
                "DmlExecutionProvider runs in another program here, which takes"
                " arrays of numpy alone: no OrtValue and no DLPack"
            )

    def test_a_host_takes_no_options_of_a_provider(self, make: Make) -> None:
        make()
        assert message_of(
            ProviderError,
            og.Session,
            DESC,
            "directml",
            provider_options={"device_id": "0"},
        ) == (
            "DmlExecutionProvider cannot run the model: the program that runs it"
            " here takes no options of the provider"
        )

    def test_a_model_that_a_host_refuses_is_told(self, make: Make) -> None:
        make("InferenceSession.open = lambda _: 1 / 0")
        assert message_of(ProviderError, gathered) == (
            "DmlExecutionProvider cannot run the model: division by zero"
        )

    def test_a_node_that_a_host_puts_elsewhere_is_told(self, make: Make) -> None:
        make("PLACE = 'CPUExecutionProvider'")
        assert message_of(ProviderError, gathered) == (
            "DmlExecutionProvider must run every node, but Gather (Gather) runs on "
            "CPUExecutionProvider"
        )

    @pytest.mark.slow
    def test_a_program_that_ends_ends_its_host(self, make: Make) -> None:
        notes = make()
        code = (
            "import numpy as np, onnxgather as og\n"
            "from command_line import DATA_4X3, DESC, INDICES\n"
            "og.run(DESC, DATA_4X3, INDICES, provider='directml')\n"
        )
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=HELPERS,
            capture_output=True,
            check=True,
        )
        assert (done.stdout, done.stderr) == (b"", b"")
        assert not Path(f"/proc/{notes.read_text().strip()}").exists()


SLOW = """
def misbehave(): pass
time.sleep(2.3)
"""
"""A host that takes so long until its first answer."""


TOLD = r"directml: waiting for its host, \d+ s; a start takes 2 to 20 s"


@stand_in
class TestWait:
    """What `run` says while a host starts."""

    @pytest.fixture
    def command(self, make: Make, tmp_path: Path) -> list[str]:
        """Return the command that runs a program on a slow host."""
        make(SLOW)
        path = program(str(tmp_path / "program.json"))
        words = ["-m", "onnxgather", "run", path, "--provider", "directml"]
        return [sys.executable, *words]

    @pytest.mark.slow
    def test_a_log_has_one_line(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == "Resource 'output': 2, 0, 5, 3, 8, 6, 11, 9\n"
        assert re.fullmatch(rf"({TOLD}\n)+", done.stderr)

    @pytest.mark.slow
    def test_a_terminal_has_a_line_that_goes_away(self, command: list[str]) -> None:
        shown, printed = run_on_terminal(command, "stderr")
        assert printed == b"Resource 'output': 2, 0, 5, 3, 8, 6, 11, 9\n"
        *lines, last, end = shown.split("\r")
        lines = [line for line in lines if line.strip()]
        assert len(lines) > 2
        assert all(re.fullmatch(TOLD, line) for line in lines)
        assert (last, end) == (" " * len(lines[-1]), "")

    @pytest.mark.slow
    def test_a_quick_start_is_not_told(self, make: Make, tmp_path: Path) -> None:
        make("def misbehave(): time.sleep(2.3)")
        path = program(
            str(tmp_path / "program.json"), indices=np.array([[1, 0]], np.uint32)
        )
        assert outcome("run", path, "--provider", "directml")[::2] == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(
    not find_runtime(PROVIDERS["directml"]),
    reason="scripts/directml/setup.sh has not run",
)
@pytest.mark.parametrize(
    "path", sorted(MODELS.glob("*.json")), ids=lambda path: path.stem
)
def test_the_directml_provider_prints_what_dxdispatch_prints(
    path: Path, tmp_path: Path
) -> None:
    found = outcome(
        "run", str(path), "--provider", "directml", "--output-folder", str(tmp_path)
    )
    assert found[:2] == (0, path.with_suffix(".txt").read_text())
    assert re.fullmatch(rf"({TOLD}\n)*", found[2])
