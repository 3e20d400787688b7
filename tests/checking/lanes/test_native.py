"""Lanes of target native: on the CPU provider an answer counts only if the kernel gave
it."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from native_models import CASE, RULE
from stub_runtime import environment

from onnxgather.checking.lanes.lane import AnswerKind
from onnxgather.checking.lanes.python import model_lane
from onnxgather.core.execution import kernels

built = pytest.mark.skipif(
    kernels.operators_library() is None, reason="the native kernels are not built"
)
posix = pytest.mark.skipif(
    os.name == "nt", reason="the stand-in interpreter is a shell script"
)


@built
@pytest.mark.parametrize("wrapped", [False, True])
def test_the_nodes_of_an_answer_name_the_operator(wrapped: bool) -> None:
    case = CASE.wrapped_in() if wrapped else CASE
    with closing(model_lane("cpu@native")) as lane:
        assert lane.start().not_run is None
        answer = lane.answer(case)
    assert answer.kind is AnswerKind.RAN
    assert answer.nodes == (("Mul", "GATHER", "Mul") if wrapped else ("GATHER",))
    assert answer.output is not None
    assert answer.output.tolist() == [4, 4]


def test_without_the_kernels_the_lane_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONNXGATHER_NATIVE", "0")
    with closing(model_lane("cpu@native")) as lane:
        assert lane.start().not_run == f"{RULE}ONNXGATHER_NATIVE is 0"
        answer = lane.answer(CASE)
    assert (answer.kind, answer.how) == (AnswerKind.NOT_RUN, "operators")


def test_a_library_that_does_not_load_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "operators.so"
    library.write_text("no library")
    monkeypatch.setattr(kernels, "operators_library", lambda: str(library))
    with closing(model_lane("cpu@native")) as lane:
        told = lane.start().not_run
    assert told is not None
    assert told.startswith(f"{RULE}their library does not load: ")
    assert "operators.so" in told


@posix
def test_an_answer_of_the_body_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "operators_library", lambda: "operators.so")
    registers = """
    PROVIDERS = [PLACE := "CPUExecutionProvider"]
    class RunOptions:
        def add_run_config_entry(self, *_): pass
    class SessionOptions(SessionOptions):
        def register_custom_ops_library(self, path): assert path == "operators.so"
    """
    with closing(model_lane("cpu@native", environment(tmp_path, registers))) as lane:
        answer = lane.answer(CASE)
        assert lane.start().not_run == answer.reason
    assert (answer.kind, answer.reason) == (
        AnswerKind.NOT_RUN,
        f"{RULE}the body of GATHER ran",
    )


@built
def test_other_targets_get_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "operators_library", lambda: "gone.so")
    with closing(model_lane("cpu")) as lane:
        assert lane.start().not_run is None
