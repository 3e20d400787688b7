"""The lane `cpu@windows`: how it is found, and the CPU provider of ONNX Runtime for
Windows itself.

The whole of it is `onnxgather check --corpus --lanes
cpu@windows,cpu@windows@portable,cpu@windows@native --require cpu@windows --require
cpu@windows@portable --require cpu@windows@native`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import outcome
from native_models import CASE, RULE
from rings import one_quick_in
from stub_runtime import environment

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus import built_in_cases, random_cases
from onnxgather.checking.doctor import examine
from onnxgather.checking.judge import judge
from onnxgather.checking.lanes import open_lanes
from onnxgather.checking.lanes.lane import AnswerKind
from onnxgather.checking.lanes.python import ModelLane, Question, model_lane
from onnxgather.checking.run import check_all
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.hosts import WINDOWS_OPERATORS, windows_host
from onnxgather.core.model.protos import operators
from onnxgather.core.options import POLICIES

SETUP = "scripts/directml/setup.sh --lanes cpu@windows"
NOT_SET_UP = f"ONNX Runtime for Windows is not set up; run {SETUP}"
LANES = ("cpu@windows", "cpu@windows@portable", "cpu@windows@native")

elsewhere = pytest.mark.skipif(
    os.name == "nt", reason="on Windows the lane is the local provider"
)
live = pytest.mark.skipif(
    os.name == "nt" or not os.path.isfile(windows_host()), reason=f"{SETUP} has not run"
)


def host(folder: Path, place: Path, change: str) -> None:
    """Make a stand-in for the host in a folder.

    Args:
        folder: The folder that setup.sh would have made.
        place: An empty folder for the stand-in's environment.
        change: Python that is put at the end of the stand-in for onnxruntime.
    """
    python, made = environment(place, change), folder / "run-windows"
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_text(f'#!/bin/sh\nexec "{python}" -u "{runtime.__file__}"\n')
    made.chmod(0o755)


@elsewhere
class TestWithoutTheHost:
    @pytest.fixture(autouse=True)
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        return tmp_path / "onnxgather" / "directml"

    @pytest.mark.parametrize("name", LANES)
    def test_a_lane_that_is_not_set_up_names_the_command(self, name: str) -> None:
        (lane,) = open_lanes([name])
        with closing(lane):
            assert lane.start().not_run == NOT_SET_UP
            assert lane.answer(CASE).reason == NOT_SET_UP

    def test_a_folder_that_is_not_set_up_is_named(self, tmp_path: Path) -> None:
        folder = tmp_path / "my lanes"
        (lane,) = open_lanes([], {"cpu@windows": str(folder)})
        with closing(lane):
            assert lane.start().not_run == f"{NOT_SET_UP} '{folder}'"

    @pytest.mark.parametrize("name", ["directml", "webgpu", "directml@old"])
    def test_a_folder_without_the_host_of_a_lane_is_named(
        self, name: str, tmp_path: Path
    ) -> None:
        lane_name = name.partition("@")[0]
        (lane,) = open_lanes([], {name: str(tmp_path)})
        told = (
            f"the lane {lane_name} is not set up; run scripts/directml/setup.sh --lanes"
            f" {lane_name} {tmp_path}"
        )
        with closing(lane):
            assert lane.start().not_run == told

    def test_a_folder_of_ones_own_has_the_hosts_of_its_lanes(
        self, tmp_path: Path
    ) -> None:
        lanes = open_lanes([], dict.fromkeys(["directml", "webgpu"], str(tmp_path)))
        commands = [lane.host for lane in lanes if isinstance(lane, ModelLane)]
        assert commands == [
            [str(tmp_path / "run-runtime")],
            [str(tmp_path / "run-webgpu"), "-u", runtime.__file__],
        ]

    def test_a_file_is_no_folder_of_a_host(self, tmp_path: Path) -> None:
        (tmp_path / "python").touch()
        with pytest.raises(og.OnnxGatherError) as caught:
            open_lanes([], {"cpu@windows": str(tmp_path / "python")})
        rule = (
            "lane 'cpu@windows' must have the folder that scripts/directml/setup.sh"
            " makes"
        )
        assert str(caught.value) == f"{rule}, got the file '{tmp_path}/python'"

    def test_a_check_that_requires_it_ends_with_3(self) -> None:
        lanes = "--lanes", "cpu@windows", "--require", "cpu@windows"
        code, printed, errors = outcome("check --random 1", *lanes)
        assert code == 3
        assert f"cpu@windows did not start: {NOT_SET_UP}" in " ".join(printed.split())
        assert errors == ""

    @pytest.mark.slow
    def test_the_doctor_examines_it_where_it_is_set_up(
        self, cache: Path, tmp_path: Path
    ) -> None:
        host(cache, tmp_path, "PROVIDERS = [PLACE := 'CPUExecutionProvider']")
        checkup = examine(python=environment(tmp_path / "here"))
        assert [one.info.name for one in checkup.environments[1].providers] == [
            "cpu@windows"
        ]
        assert checkup.environments[1].python == str(cache / "run-windows")

    @pytest.mark.parametrize("folder", one_quick_in(2, [None, "elsewhere"]))
    def test_the_host_is_asked_for_the_operators_of_windows(
        self, cache: Path, tmp_path: Path, folder: str | None
    ) -> None:
        registers = f"""
        PROVIDERS = [PLACE := "CPUExecutionProvider"]
        NODES = ["GATHER"]
        class RunOptions:
            def add_run_config_entry(self, *_): pass
        class SessionOptions(SessionOptions):
            def register_custom_ops_library(self, path): assert path == {WINDOWS_OPERATORS!r}
        class InferenceSession(InferenceSession):
            def compute(self, data, indices): return data[[3, 3]]
        """  # noqa: E501
        place = cache if folder is None else tmp_path / folder
        host(place, tmp_path, registers)
        with closing(model_lane("cpu@windows@native", folder and str(place))) as lane:
            answer = lane.answer(CASE)
        assert (answer.kind, answer.nodes) == (AnswerKind.RAN, ("GATHER",))


def test_on_windows_the_lane_is_the_local_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    lane = model_lane("cpu@windows@native")
    assert (lane.host, lane.operators, lane.python) == ([], None, sys.executable)
    assert list(model_lane("cpu@windows", "python.exe").host) == []


@elsewhere
@pytest.mark.parametrize(
    "name", ["cpu", "cpu@windowsold", "cpu@old@windows", "openvino@windows"]
)
def test_other_lanes_are_not_that_host_s(name: str) -> None:
    assert list(model_lane(name).host) == []


@pytest.fixture(scope="module")
def native() -> Iterator[ModelLane]:
    """The lane of target native, started."""
    with closing(model_lane("cpu@windows@native")) as lane:
        assert lane.start().not_run is None
        yield lane


@pytest.mark.slow
@live
class TestLive:
    def test_a_part_of_the_corpus_and_random_cases_give_the_reference_s_bytes(
        self,
    ) -> None:
        # Texts and other types that DirectML lacks are given to this environment alone.
        cases = [case for case in built_in_cases() if not case.name.startswith("onnx/")]
        cases = cases[::12]
        for policy in POLICIES:
            cases += random_cases(20, 1, policy)
        here, *lanes = open_lanes(["cpu", *LANES])
        report = check_all(cases, [here, *lanes])
        for lane in (here, *lanes):
            lane.close()
        assert [info.not_run for info in report.lanes] == [None] * 4
        assert report.lanes[1].versions.keys() == {"onnxruntime", "wine"}
        for number in range(4):
            assert report.counts(number).keys() <= {"PASS", "KNOWN"}
            assert report.counts(number) == report.counts(0)

    @pytest.mark.parametrize("wrapped", [False, True])
    def test_the_operator_itself_ran(self, native: ModelLane, wrapped: bool) -> None:
        case = CASE.wrapped_in() if wrapped else CASE
        answer = native.answer(case)
        assert answer.nodes == (("Mul", "GATHER", "Mul") if wrapped else ("GATHER",))
        assert answer.output is not None
        assert answer.output.tolist() == [4, 4]

    def test_the_message_of_an_index_out_of_range_is_the_operator_s(
        self, native: ModelLane
    ) -> None:
        here = model_lane("cpu@native")
        with closing(here):
            told = [
                lane.answer(replace(CASE, out_of_range="error"))
                for lane in (here, native)
            ]
        assert [answer.kind for answer in told] == [AnswerKind.FAILED] * 2
        python, windows = (answer.reason or "" for answer in told)
        assert windows.endswith(
            "Status Message: IndicesTensor[1] must be in [-4, 4), got 9"
        )
        # Python puts ONNX Runtime's code in front
        assert python.endswith(f" : {windows}")

    def test_without_the_library_the_body_does_not_count(self) -> None:
        lane = model_lane("cpu@windows@native")
        lane._operators = None  # type: ignore[reportPrivateUsage]
        with closing(lane):
            model = og.to_onnx(CASE.descriptor, target="native")
            inputs = {"InputTensor": CASE.data, "IndicesTensor": CASE.indices}
            sent = operators(model)
            question = Question(model.SerializeToString(), inputs, 1, sent)
            answer = lane.run(question, sent)
        assert (answer.kind, answer.how) == (AnswerKind.NOT_RUN, "operators")

    @pytest.mark.parametrize("name", ["gone.dll", "größe/ελ/\U0001f40c.dll"])
    def test_a_library_that_does_not_load_is_told(self, name: str) -> None:
        lane = replace(model_lane("cpu@windows@native"), operators=f"Z:\\lane\\{name}")
        with closing(lane):
            told = lane.start().not_run
        assert told is not None
        assert told.startswith(f"{RULE}their library does not load: ")
        assert name in told

    def test_several_threads_give_the_reference_s_bytes(
        self, native: ModelLane
    ) -> None:
        sizes = [64, 4096]
        data_desc, indices_desc = (
            og.TensorDesc("UINT16", sizes),
            og.TensorDesc("INT32", sizes),
        )
        desc = og.GatherElementsDesc(data_desc, indices_desc, data_desc, 1)
        rng = np.random.default_rng(5)
        data = rng.integers(0, 2**16, sizes, np.uint16)
        case = DescriptorCase(
            "large", desc, data, rng.integers(-9999, 9999, sizes, np.int32)
        )
        info = native.start()
        for _ in range(5):
            assert judge(case, info, native.answer(case)).state == "PASS"
