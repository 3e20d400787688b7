"""What lanes do with the file of a model: run it, or its descriptor, or say why not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from own_models import stamped, with_wrong_bound
from rings import one_quick_in
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase, FileModel
from onnxgather.checking.lanes import open_lanes
from onnxgather.checking.lanes.lane import Answer, AnswerKind
from onnxgather.checking.lanes.python import (
    ModelLane,
    Question,
    question_of,
    substitute_for,
)
from onnxgather.checking.results import Result
from onnxgather.checking.run import check_all
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.options import OutOfRange
from onnxgather.core.programs.loading import load


def gather(data_type: str = "FLOAT32", index_type: str = "UINT32") -> og.GatherDesc:
    text = f"{data_type} 4x3, {index_type} 1x2, {data_type} 4x2"
    return descriptor(f"GATHER: {text}, 1, 1")


def case_of(
    model: onnx.ModelProto,
    indices: tuple[int, int] = (2, 0),
    out_of_range: OutOfRange = "clamp",
) -> DescriptorCase:
    """Return a case of a model that onnxgather wrote."""
    program = load(model)
    (dispatch,) = program.dispatches
    assert program.model is not None
    desc = dispatch.descriptor
    data = np.arange(12).reshape(4, 3).astype(desc.input_tensor.data_type.numpy)
    array = np.array([indices], desc.indices_tensor.data_type.numpy)
    file = FileModel.of(program.model)
    return DescriptorCase("case", desc, data, array, out_of_range, model=file)


def results(case: DescriptorCase, *names: str) -> list[Result]:
    lanes = open_lanes(names)
    try:
        return [*check_all([case], lanes, known=()).cases[0].results]
    finally:
        for lane in lanes:
            lane.close()


@pytest.mark.parametrize("name", one_quick_in(2, ["cpu", "onnx-reference"]))
def test_a_lane_that_runs_models_runs_the_file(name: str) -> None:
    right = case_of(og.to_onnx(gather()))
    (result,) = results(right, name)
    assert (result.state, result.of_descriptor) == ("PASS", False)
    wrong = case_of(stamped(with_wrong_bound(og.to_onnx(gather()))))
    (result,) = results(wrong, name)
    assert (result.state, result.differing) == ("DIFF", 4)


def test_the_question_is_the_file_whatever_the_lane_asks_for() -> None:
    model = og.to_onnx(gather(), "zero", prefix="g/")
    case = case_of(model, out_of_range="zero")
    for target in ("portable", "cpu", "webgpu", "native"):
        question = question_of(case, target, opset=20, for_webnn=target == "webgpu")
        assert question.model == model.SerializeToString()
        assert [*question.inputs] == ["g/InputTensor", "g/IndicesTensor"]


def test_a_refusal_is_asked_for_with_the_names_of_the_file() -> None:
    names = {"InputTensor": "x", "IndicesTensor": "i", "OutputTensor": "y"}
    model = og.to_onnx(gather(), "error", names=names)
    case = case_of(model, (2, 7), "error")
    (result,) = results(case, "cpu")
    assert result.reason == "both refuse: IndicesTensor[0,1] must be in [0, 3), got 7"
    assert result.beside is not None
    assert result.beside.state == "PASS"


def test_a_lane_that_lacks_a_data_type_is_given_the_file_as_it_is() -> None:
    case = case_of(og.to_onnx(gather("UINT16"), target="webgpu"))
    for provider in (PROVIDERS["webgpu"], PROVIDERS["openvino"]):
        assert substitute_for(case, provider) is None


def test_webnn_runs_the_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    (lane,) = open_lanes(["webnn"])
    case = case_of(og.to_onnx(gather()))
    ran: list[Question] = []

    def run(_: ModelLane, question: Question, *__: Any) -> Answer:
        ran.append(question)
        output = og.reference(case.descriptor, case.data, case.indices)
        return Answer(AnswerKind.RAN, None, ("gather",), output)

    monkeypatch.setattr(ModelLane, "run", run)
    answer = lane.answer(case)
    assert answer.of_descriptor
    (question,) = ran
    assert question.model.startswith(b"// ")
