"""Gathers of data types that a provider lacks: what it is given, and what its answers
mean."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from corpus_cases import corpus, descriptor_cases
from messages import message_of
from msgspec.structs import replace
from short_descriptors import ascending, descriptor, tensor_desc

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase, NodeCase
from onnxgather.checking.judge import judge
from onnxgather.checking.lanes.lane import AnswerKind
from onnxgather.checking.lanes.python import ModelLane, given_to
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.errors import IndexOutOfRangeError, ProviderError
from onnxgather.core.execution.elsewhere.substitutes import Substitute, substitute_of
from onnxgather.core.execution.providers import (
    PROVIDERS,
    WEB_PROVIDERS,
    Provider,
)
from onnxgather.core.execution.session import Session

WEBGPU = PROVIDERS["webgpu"]
FEW = replace(PROVIDERS["cpu"], data_types=WEBGPU.data_types)
"""The CPU provider, as if it had no more data types than WebGPU's."""


def gather(data_type: str, index_type: str) -> og.GatherDesc:
    """The gather of rows 0 and 1 of a [2, 3]."""
    return descriptor(
        f"GATHER: {data_type} 2x3, {index_type} 1x2, {data_type} 2x3, 0, 1"
    )


def substitute(data_type: str, index_type: str = "INT32") -> Substitute:
    """What WebGPU's provider runs in place of `gather`, which it does not run."""
    found = substitute_of(gather(data_type, index_type), WEBGPU)
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("provider", [WEBGPU, WEB_PROVIDERS["web-webnn"]])
def test_a_gather_of_its_words_gives_the_words_of_its_elements(
    provider: Provider,
) -> None:
    wide = 0
    for case in descriptor_cases():
        if case.must_refuse:
            continue
        found = substitute_of(case.descriptor, provider, case.indices, not case.wrapped)
        if found is None:
            continue
        feeds = found.feeds([{"InputTensor": case.data, "IndicesTensor": case.indices}])
        outputs = [
            og.reference(
                found.given,
                feed["InputTensor"],
                feed["IndicesTensor"],
                case.out_of_range,
            )
            for feed in feeds
        ]
        (output,), expected = found.outputs(outputs), case.expected()
        assert isinstance(expected, np.ndarray), case.name
        assert (output.dtype, output.shape) == (expected.dtype, expected.shape), (
            case.name
        )
        assert output.tobytes() == expected.tobytes(), case.name
        wide += len(feeds) == 2
    assert wide > 100


def test_the_words_are_of_the_first_type_that_the_provider_has() -> None:
    found = substitute_of(gather("FLOAT64", "UINT64"), WEB_PROVIDERS["web-webnn"])
    assert found is not None
    assert found.given_as == "data as INT32, indices as INT32"
    values = np.array([[1.5, -2.5, np.nan], [0, -0.0, np.inf]])
    indices = np.zeros((1, 2), np.uint64)
    low, high = found.feeds([{"InputTensor": values, "IndicesTensor": indices}])
    words = [low["InputTensor"], high["InputTensor"]]
    assert {word.dtype.name for word in words} == {"int32"}
    assert found.outputs(words)[0].tobytes() == values.tobytes()


def test_a_substitute_tells_the_types_that_differ() -> None:
    assert (
        substitute("FLOAT64", "UINT64").given_as == "data as UINT32, indices as INT32"
    )
    assert substitute("INT8").given_as == "data as UINT32"
    assert substitute("FLOAT16", "INT64").given_as == "indices as INT32"
    assert substitute_of(gather("FLOAT32", "UINT32"), WEBGPU) is None
    assert substitute_of(gather("FLOAT64", "UINT64"), PROVIDERS["cpu"]) is None


@pytest.mark.parametrize("data_type", TensorDataType)
def test_no_word_is_a_float(data_type: TensorDataType) -> None:
    found = substitute_of(gather(data_type, "INT32"), WEBGPU)
    assert (found is None) == (data_type in WEBGPU.data_types)
    assert found is None or found.given.input_tensor.data_type == "UINT32"


@pytest.mark.parametrize(("total", "counts"), [(16, (2, 2)), (20, (2, 3))])
def test_the_buffer_keeps_its_elements_and_the_part_of_one(
    total: int, counts: tuple[int, int]
) -> None:
    data = og.TensorDesc("FLOAT64", [2], total_tensor_size_in_bytes=total)
    indices, output = tensor_desc("INT32 2"), tensor_desc("FLOAT64 2")
    found = substitute_of(
        og.GatherDesc(data, indices, output, axis=0, index_dimensions=1), WEBGPU
    )
    assert found is not None
    tensor = found.given.input_tensor
    assert (tensor.element_count, tensor.reachable_count) == counts


@pytest.mark.parametrize("index_type", ["INT64", "UINT64"])
def test_indices_that_int32_does_not_hold_stay_as_they_are(index_type: str) -> None:
    desc = gather("FLOAT32", index_type)
    dtype = np.dtype(index_type.lower())
    for largest, fits in ((2**31 - 1, True), (2**31, False)):
        found = substitute_of(desc, WEBGPU, np.array([[0, largest]], dtype))
        assert (found is not None) == fits
    least = np.array([[0, -(2**31)]])
    assert substitute_of(gather("FLOAT32", "INT64"), WEBGPU, least) is not None
    assert substitute_of(gather("FLOAT32", "INT64"), WEBGPU, least - 1) is None


def test_an_answer_that_is_not_what_the_model_says_stays_as_it_is() -> None:
    found, word = substitute("FLOAT64"), np.zeros((2, 3), np.uint32)
    assert found.outputs([word, "device lost"]) == ["device lost"]
    for wrong in (word.astype(np.int32), word[:1]):
        (output,) = found.outputs([wrong, word])
        assert output is wrong
    assert found.outputs([word, word, word, word])[1].dtype == np.float64


def test_the_lane_passes_types_that_its_provider_lacks() -> None:
    names = {
        f"gather/{t}/{index}/forward"
        for t in ("float64", "uint8")
        for index in ("uint64",)
    }
    names |= {
        "gather/float32/uint32/forward",
        "out-of-range/gather/uint64/2-to-the-32/clamp",
    }
    lane = ModelLane("cpu", FEW)
    told: dict[str, str] = {}
    for case in corpus():
        if case.name in names:
            result = judge(case, info := lane.start(), lane.answer(case))
            assert (info.not_run, result.state) == (None, "PASS")
            told[case.name] = result.given_as
    lane.close()
    both = "data as UINT32, indices as INT32"
    assert told == dict.fromkeys(names, "") | {
        "gather/float64/uint64/forward": both,
        "gather/uint8/uint64/forward": both,
    }


def test_a_refusal_of_words_is_a_refusal() -> None:
    desc, data = gather("FLOAT64", "UINT64"), np.arange(6.0).reshape(2, 3)
    outside = np.array([[0, 2]], np.uint64)
    lane = ModelLane("cpu", FEW, target="portable")
    answer = lane.answer(DescriptorCase("outside", desc, data, outside, "error"))
    lane.close()
    assert answer.kind is AnswerKind.FAILED


def test_a_case_whose_elements_are_multiplied_keeps_its_data_type() -> None:
    desc, data = gather("FLOAT64", "INT64"), np.ones((2, 3))
    case = DescriptorCase("case", desc, data, np.array([[0, 1]])).wrapped_in()
    (given,) = given_to(WEBGPU, case)
    assert (given.data_type, given.index_type) == ("FLOAT64", "INT32")


def test_a_repro_has_a_case_for_each_word() -> None:
    data = np.array([[1, 2, 3], [4, 5, 2**40 + 6]])
    case = DescriptorCase("case", gather("INT64", "INT64"), data, np.array([[0, 1]]))
    low, high = given_to(WEBGPU, case)
    assert (low.data_type, low.index_type) == ("UINT32", "INT32")
    assert low.data.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert high.data.tolist() == [[0, 0, 0], [0, 0, 2**8]]
    for whole in (next(c for c in corpus() if isinstance(c, NodeCase)), low):
        assert given_to(WEBGPU, whole) == [whole]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider cpu, as if it had no more data types than WebGPU's."""

    def find(_: str) -> Provider:
        return FEW

    monkeypatch.setattr("onnxgather.core.execution.session.find_provider", find)


@pytest.mark.usefixtures("few")
class TestSession:
    def test_its_inputs_and_output_have_the_descriptor_s_types(self) -> None:
        session = Session(gather("INT64", "UINT64"))
        types = {
            name: str(kind)
            for name, kind in {**session.inputs, **session.outputs}.items()
        }
        assert types == {
            "InputTensor": "INT64 [2, 3]",
            "IndicesTensor": "UINT64 [1, 2]",
            "OutputTensor": "INT64 [2, 3]",
        }
        data = np.array([[1, -2, 3], [4, 5, 2**40 + 6]])
        found = session.run(data, np.array([[1, 0]], np.uint64))
        assert found.dtype == np.int64
        assert np.array_equal(found, data[[1, 0]])

    def test_the_model_of_a_descriptor_keeps_its_types(self) -> None:
        model = og.to_onnx(gather("INT64", "UINT64"), target="webgpu")
        types = [value.type.tensor_type.elem_type for value in model.graph.input]
        assert types == [7, 13]

    @pytest.mark.parametrize("policy", ["clamp", "zero", "directml"])
    def test_an_index_that_int32_does_not_hold_is_refused_in_each_call(
        self, policy: Any
    ) -> None:
        session = Session(gather("FLOAT32", "UINT64"), out_of_range=policy)
        data = ascending("FLOAT32 2x3")
        for indices in ([[0, 2**31 - 1]], [[1, 0]]):
            given = np.array(indices, np.uint64)
            found = session.run(data, given)
            assert np.array_equal(
                found, og.reference(gather("FLOAT32", "UINT64"), data, given, policy)
            )
            assert message_of(
                ProviderError, session.run, data, np.array([[0, 2**31]], np.uint64)
            ) == (
                "CPUExecutionProvider reads the low 32 bits of UINT64 indices: "
                "IndicesTensor[0,1] must be in [0, 2147483648), got 2147483648"
            )

    def test_an_index_out_of_range_stays_an_error(self) -> None:
        session = Session(gather("FLOAT64", "UINT64"), out_of_range="error")
        says = "IndicesTensor[0,1] must be in [0, 2), got 4294967296"
        assert (
            message_of(
                IndexOutOfRangeError,
                session.run,
                np.zeros((2, 3)),
                np.array([[0, 2**32]], np.uint64),
            )
            == says
        )


def test_a_tensor_has_the_same_fields_but_for_its_type() -> None:
    given = substitute("INT16").given.input_tensor
    assert msgspec.structs.asdict(given) == msgspec.structs.asdict(
        tensor_desc("UINT32 2x3")
    )
