"""The lane on DirectML.dll: what it makes of an answer, and DirectML.dll's own
answers."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from command_line import DATA_4X3 as DATA
from command_line import DESC
from corpus_cases import corpus
from fake_directml import START, done, failed, fake_folder
from lane_cases import results, told
from msgspec.structs import replace
from recordings import IN_RANGE as RECORDED_IN_RANGE
from recordings import OUT_OF_RANGE, recorded
from rings import one_quick_in

from onnxgather.checking.cases import Case, DescriptorCase, FileModel
from onnxgather.checking.corpus import random_cases
from onnxgather.checking.corpus.built_in import forbidden_cases
from onnxgather.checking.lanes.directml import DirectMLLane, find_host, setup_command
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.checking.results import Result, ResultKind
from onnxgather.checking.run import check_cases
from onnxgather.core.descriptors.arrays import elements
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.options import OutOfRange

NODES = ("DML_OPERATOR_GATHER",)
NONSENSE = "the host answered what no host answers: "
TOO_FEW = "31 bytes of OutputTensor, not 32"
RIGHT = "struct.pack('<8f', 2, 1, 5, 4, 8, 7, 11, 10)"
BY_FORMULA = "struct.pack('<8f', 2, 7, 5, 10, 8, 11, 11, 11)"
"""The columns 2 and 7 by DirectML's formula."""
CLAMPED = "struct.pack('<8f', 2, 2, 5, 5, 8, 8, 11, 11)"
"""The columns 2 and 7, the second clamped to 2."""

stand_in = pytest.mark.skipif(os.name == "nt", reason="the stand-in host is a script")


def case(*indices: int, out_of_range: OutOfRange = "directml") -> Case:
    """Return a gather of two of the three columns of DATA."""
    return DescriptorCase(
        "case", DESC, DATA, np.array([indices], np.uint32), out_of_range
    )


IN_RANGE, OUTSIDE = case(2, 1), case(2, 7)


def judged(folder: Path, action: str, *cases: Case) -> Result:
    """Return the result of a case on a lane whose host does something."""
    folder.mkdir(exist_ok=True)
    lane = DirectMLLane("dml", fake_folder(folder, action))
    (found,) = results(lane, *cases)
    return found.results[0]


def broken(how: Breakdown, reason: str, detail: str = "") -> Answer:
    """Return the answer of a lane that broke down."""
    return Answer(AnswerKind.BROKEN, reason, how=how, detail=detail)


@stand_in
def test_the_folder_of_the_host_is_that_from_where_the_lane_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fake_folder(tmp_path, done(RIGHT))
    monkeypatch.chdir(tmp_path)
    lane = DirectMLLane("dml", os.path.relpath(folder))
    monkeypatch.chdir("/")
    assert lane.place == folder


@pytest.mark.parametrize(
    ("action", "answer"),
    one_quick_in(
        5,
        [
            (
                failed("CreateOperator", 0x80070057),
                Answer(AnswerKind.REFUSED, "CreateOperator gave 0x80070057"),
            ),
            (
                failed("CompileOperator", 0x80070057),
                Answer(AnswerKind.REFUSED, "CompileOperator gave 0x80070057"),
            ),
            (
                failed("CompileOperator", 0x8007000E),
                broken(
                    Breakdown.NO_VERDICT,
                    "CompileOperator gave 0x8007000E, which is no verdict",
                ),
            ),
            (
                failed("DMLCreateDevice1", 0x80004005),
                Answer(AnswerKind.FAILED, "DMLCreateDevice1 gave 0x80004005", NODES),
            ),
            (
                done("b'x' * 31"),
                broken(Breakdown.NONSENSE, f"{NONSENSE}{TOO_FEW}", TOO_FEW),
            ),
            (
                failed("dispatch", 0x887A0005, lost=True),
                Answer(AnswerKind.FAILED, "dispatch gave 0x887A0005", NODES),
            ),
            (
                done(RIGHT, touched=True),
                Answer(
                    AnswerKind.FAILED,
                    "bytes beside OutputTensor were written",
                    NODES,
                ),
            ),
            (
                "time.sleep(60)",
                broken(Breakdown.LATE, "the host did not answer within 0.5 s", "0.5 s"),
            ),
        ],
    ),
)
def test_each_answer_of_the_host_has_its_kind(
    action: str, answer: Answer, tmp_path: Path
) -> None:
    timeout = 0.5 if answer.how is Breakdown.LATE else 60
    lane = DirectMLLane("dml", fake_folder(tmp_path, action), timeout=timeout)
    lane.start()
    assert lane.answer(IN_RANGE) == answer
    lane.close()


def test_a_host_that_answers_nonsense_is_replaced_until_the_lane_is_closed(
    tmp_path: Path,
) -> None:
    once = str(tmp_path / "once")
    nonsense = done("b'x' * 31")
    again = f"{done(RIGHT)} if pathlib.Path({once!r}).exists() else {nonsense}"
    folder = fake_folder(tmp_path, f"\n    {again}", f"import pathlib; {START}")
    lane = DirectMLLane("dml", folder)
    lane.start()
    found = broken(Breakdown.NONSENSE, f"{NONSENSE}{TOO_FEW}", TOO_FEW)
    assert lane.answer(IN_RANGE) == found
    (tmp_path / "once").touch()
    assert lane.answer(IN_RANGE).kind is AnswerKind.RAN
    lane.close()
    assert lane.answer(IN_RANGE) == broken(Breakdown.CLOSED, "the host was ended")


def test_a_host_that_says_much_of_itself_does_not_start(tmp_path: Path) -> None:
    start = f"INFO['version'] = 'v' * 201; {START}"
    lane = DirectMLLane("dml", fake_folder(tmp_path, done(RIGHT), start))
    assert (
        lane.start().not_run
        == "the host answered what no host answers: Expected `str` of length <= 200"
        " - at `$.version`"
    )


def test_an_output_has_the_type_and_shape_of_its_tensor(tmp_path: Path) -> None:
    lane = DirectMLLane("dml", fake_folder(tmp_path, done(RIGHT)))
    lane.start()
    answer = lane.answer(IN_RANGE)
    lane.close()
    assert replace(answer, output=None) == Answer(AnswerKind.RAN, None, NODES)
    assert answer.output is not None
    assert answer.output.tolist() == [[2, 1], [5, 4], [8, 7], [11, 10]]


def test_a_host_that_does_not_start_again_is_an_error(tmp_path: Path) -> None:
    once = str(tmp_path / "once")
    start = (
        f"import os\nif os.path.exists({once!r}): sys.exit(5)\nopen({once!r},"
        " 'w').close()"
    )
    folder = fake_folder(tmp_path, "sys.exit(3)", f"{start}\n{START}")
    lane = DirectMLLane("dml", folder)
    lane.start()
    ended = broken(Breakdown.EXITED, "the host ended with exit code 3", "3")
    assert lane.answer(IN_RANGE) == ended
    again = "DirectML.dll cannot run: the host ended with exit code 5"
    assert lane.answer(IN_RANGE) == broken(Breakdown.NOT_STARTED, again)
    lane.close()


@stand_in
class TestStates:
    def test_a_host_that_does_nothing_does_not_pass(self, tmp_path: Path) -> None:
        lane = DirectMLLane("dml", fake_folder(tmp_path, done("request[-32:]")))
        zeros = DescriptorCase(
            "zeros", DESC, np.zeros((4, 3), np.float32), IN_RANGE.indices, "directml"
        )
        states = [state for state, _ in told(lane, IN_RANGE, zeros)]
        assert states == ["DIFF", "DIFF"]

    def test_other_bytes_are_a_difference(self, tmp_path: Path) -> None:
        ((state, reason),) = told(
            DirectMLLane("dml", fake_folder(tmp_path, done())), IN_RANGE
        )
        assert state == "DIFF"
        assert (
            reason
            == "7 of 8 elements differ, first OutputTensor[0,0]: expected 2.0 (00 00 00"
            " 40), got 0.0 (00 00 00 00)"
        )

    def test_a_host_that_writes_elsewhere_is_an_error(self, tmp_path: Path) -> None:
        lane = DirectMLLane("dml", fake_folder(tmp_path, done(RIGHT, touched=True)))
        reason = "DirectML.dll failed: bytes beside OutputTensor were written"
        assert told(lane, IN_RANGE) == [("ERROR", reason)]

    def test_a_refusal_is_an_error(self, tmp_path: Path) -> None:
        lane = DirectMLLane(
            "dml", fake_folder(tmp_path, failed("CreateOperator", 0x80070057))
        )
        ((state, reason),) = told(lane, IN_RANGE)
        assert state == "ERROR"
        assert reason is not None
        assert reason.endswith(": CreateOperator gave 0x80070057")

    @pytest.mark.parametrize("policy", ["clamp", "zero", "error"])
    def test_an_index_out_of_range_is_judged_by_directml_s_formula(
        self, policy: OutOfRange, tmp_path: Path
    ) -> None:
        asked_case = case(2, 7, out_of_range=policy)
        result = judged(tmp_path / "right", done(BY_FORMULA), asked_case)
        assert (result.state, result.kind) == ("PASS", ResultKind.SAME)
        assert result.by_directml
        assert result.remarks == ["with DirectML's formula"]
        # The elements that the policy gives are wrong there.
        wrong = judged(tmp_path / "clamped", done(CLAMPED), asked_case)
        assert wrong.by_directml
        assert wrong.state == "DIFF"
        assert (
            wrong.reason
            == "3 of 8 elements differ, first OutputTensor[0,1]: expected 7.0 (00 00"
            " e0 40), got 2.0 (00 00 00 40)"
        )
        # A lane that does not answer is never right.
        broken = judged(tmp_path / "broken", "sys.exit(3)", asked_case)
        assert broken.state == "ERROR"
        assert broken.reason == "the host ended with exit code 3"

    def test_directml_s_own_policy_needs_no_remark(self, tmp_path: Path) -> None:
        result = judged(tmp_path, done(BY_FORMULA), OUTSIDE)
        assert result.state == "PASS"
        assert result.remarks == []

    @pytest.mark.parametrize("policy", ["clamp", "zero", "error"])
    def test_what_the_corpus_asks_under_directml_is_not_asked_again(
        self, policy: OutOfRange, tmp_path: Path
    ) -> None:
        lane = DirectMLLane("dml", fake_folder(tmp_path, "sys.exit(3)"))
        twin = case(2, 7, out_of_range=policy)
        assert isinstance(twin, DescriptorCase)
        twin = dataclasses.replace(twin, asked_as_directml=True)
        assert told(lane, twin) == [
            (
                "NOT-RUN",
                "DirectML.dll has a rule of its own for indices out of range, which "
                f'out_of_range="{policy}" is not',
            )
        ]

    def test_the_file_of_a_model_is_run_as_its_descriptor(self, tmp_path: Path) -> None:
        model = FileModel(
            b"", ("InputTensor", "IndicesTensor"), "OutputTensor", "portable"
        )
        of_file = case(2, 1, out_of_range="clamp")
        assert isinstance(of_file, DescriptorCase)
        of_file = dataclasses.replace(of_file, model=model)
        result = judged(tmp_path, done(RIGHT), of_file)
        assert result.state == "PASS"
        assert result.of_descriptor
        assert result.remarks == ["its descriptor"]

    @pytest.mark.parametrize("policy", ["clamp", "zero", "error", "directml"])
    def test_in_range_the_policy_plays_no_part(
        self, policy: OutOfRange, tmp_path: Path
    ) -> None:
        result = judged(tmp_path, done(RIGHT), case(2, 1, out_of_range=policy))
        assert (result.state, result.reason) == ("PASS", None)
        assert result.remarks == []

    def test_a_node_that_no_descriptor_says_is_not_run(self, tmp_path: Path) -> None:
        lane = DirectMLLane("dml", fake_folder(tmp_path, "sys.exit(3)"))
        bare = next(forbidden_cases())
        says = "DirectML.dll runs descriptors, and no descriptor says"
        assert told(lane, bare, IN_RANGE.wrapped_in()) == [
            ("NOT-RUN", f"{says} this node"),
            ("NOT-RUN", f"{says} a gather between operators"),
        ]


@stand_in
class TestStart:
    def test_a_lane_says_its_provider_and_versions(self, tmp_path: Path) -> None:
        lane = DirectMLLane("dml", fake_folder(tmp_path, done()))
        versions = {"DirectML": "1.15.4.0", "feature level": "6_4", "wine": "10.0"}
        assert lane.start() == LaneInfo("dml", "DirectML.dll", versions, ("llvmpipe",))
        lane.close()

    def test_a_lane_that_is_not_set_up_says_how_to_set_it_up(
        self, tmp_path: Path
    ) -> None:
        lane = DirectMLLane("dml", str(tmp_path))
        why = f"DirectML.dll is not set up; run scripts/directml/setup.sh {tmp_path}"
        assert lane.start() == LaneInfo("dml", "DirectML.dll", not_run=why)
        assert told(lane, IN_RANGE) == [("NOT-RUN", why)]


@pytest.fixture(scope="module")
def directml() -> Iterator[DirectMLLane]:
    """Yield the lane on DirectML.dll itself, where it is set up."""
    if find_host() is None:
        pytest.skip(f"DirectML.dll is not set up; {setup_command()} makes it")
    lane = DirectMLLane("directml-dll")
    info = lane.start()
    assert info.not_run is None, info.not_run
    yield lane
    lane.close()


def _in_corpus(in_range: bool) -> list[Case]:
    """Return those cases of the corpus that DirectML.dll has an answer to."""
    return [
        found
        for found in corpus()
        if isinstance(found, DescriptorCase)
        and found.in_range == in_range
        and (in_range or found.out_of_range == "directml")
    ]


CASES: dict[str, Callable[[], list[Case]]] = {
    "in range": lambda: _in_corpus(True)[::3],
    "out of range": lambda: _in_corpus(False),
    "random": lambda: list(islice(random_cases(300, 11, "directml"), 300)),
}


@pytest.mark.slow
class TestDirectML:
    @pytest.mark.parametrize("kind", CASES)
    def test_the_reference_gives_its_bytes(
        self, directml: DirectMLLane, kind: str
    ) -> None:
        cases = CASES[kind]()
        info = LaneInfo("directml-dll", "DirectML.dll")
        found = list(check_cases(cases, [directml], [info], ()))
        wrong = [
            (each.name, each.results[0])
            for each in found
            if each.results[0].state != "PASS"
        ]
        assert not wrong
        assert len(found) > 90

    def test_it_gives_the_recorded_bytes(self, directml: DirectMLLane) -> None:
        for entry in RECORDED_IN_RANGE[::9] + OUT_OF_RANGE[::9]:
            desc, data, indices, output = recorded(entry)
            answer = directml.answer(
                DescriptorCase(entry["id"], desc, data, indices, "directml")
            )
            assert answer.output is not None, answer
            assert elements(desc.output_tensor, answer.output).tobytes() == output, (
                json.dumps(entry["desc"])
            )
