"""Gathers of data types that a provider lacks: what it is given, and what its answers
mean."""

from __future__ import annotations

from typing import Any, cast

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
from onnxgather.checking.lanes.python import ModelLane, given_to, substitute_for
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.errors import IndexOutOfRangeError
from onnxgather.core.execution.elsewhere.substitutes import (
    Substitute,
    substitute_of,
    why_not_as_it_is,
)
from onnxgather.core.execution.providers import (
    PROVIDERS,
    WEB_PROVIDERS,
    Provider,
)
from onnxgather.core.execution.runtime import NotRunError
from onnxgather.core.execution.session import Session

WEBGPU = PROVIDERS["webgpu"]
OPENVINO = PROVIDERS["openvino"]
FEW = replace(PROVIDERS["cpu"], data_types=WEBGPU.data_types)
"""The CPU provider, as if it had no more data types than WebGPU's."""


def gather(data_type: str, index_type: str) -> og.GatherDesc:
    """The gather of rows 0 and 1 of a [2, 3]."""
    return descriptor(
        f"GATHER: {data_type} 2x3, {index_type} 1x2, {data_type} 2x3, 0, 1"
    )


def substitute(data_type: str, index_type: str = "INT32") -> Substitute:
    """What WebGPU's provider runs in place of `gather`, which it does not run."""
    found = substitute_of(gather(data_type, index_type), WEBGPU, "clamp")
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("provider", [WEBGPU, OPENVINO, WEB_PROVIDERS["web-webnn"]])
def test_a_gather_of_its_words_gives_the_words_of_its_elements(
    provider: Provider,
) -> None:
    wide = 0
    refused = 0
    for case in descriptor_cases():
        if case.must_refuse:
            continue
        found = substitute_for(case, provider)
        if found is None:
            continue
        inputs = {"InputTensor": case.data, "IndicesTensor": case.indices}
        try:
            feeds = found.feeds([inputs])
        except NotRunError:
            assert case.out_of_range == "directml"
            assert not case.in_range
            refused += 1
            continue
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
    assert refused == (0 if "UINT32" in provider.data_types else 15)


def test_the_words_are_of_the_first_type_that_the_provider_has() -> None:
    desc = gather("FLOAT64", "UINT64")
    found = substitute_of(desc, WEB_PROVIDERS["web-webnn"], "clamp")
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
    assert substitute_of(gather("FLOAT32", "UINT32"), WEBGPU, "clamp") is None
    assert substitute_of(gather("FLOAT64", "UINT64"), PROVIDERS["cpu"], "clamp") is None


@pytest.mark.parametrize("data_type", TensorDataType)
def test_no_word_is_a_float(data_type: TensorDataType) -> None:
    found = substitute_of(gather(data_type, "INT32"), WEBGPU, "clamp")
    assert (found is None) == (data_type in WEBGPU.data_types)
    assert found is None or found.given.input_tensor.data_type == "UINT32"


@pytest.mark.parametrize(("total", "counts"), [(16, (2, 2)), (20, (2, 3))])
def test_the_buffer_keeps_its_elements_and_the_part_of_one(
    total: int, counts: tuple[int, int]
) -> None:
    data = og.TensorDesc("FLOAT64", [2], total_tensor_size_in_bytes=total)
    indices, output = tensor_desc("INT32 2"), tensor_desc("FLOAT64 2")
    found = substitute_of(
        og.GatherDesc(data, indices, output, axis=0, index_dimensions=1),
        WEBGPU,
        "clamp",
    )
    assert found is not None
    tensor = found.given.input_tensor
    assert (tensor.element_count, tensor.reachable_count) == counts


@pytest.mark.parametrize("index_type", ["INT64", "UINT64"])
def test_under_error_indices_that_int32_does_not_hold_stay_as_they_are(
    index_type: str,
) -> None:
    desc = gather("FLOAT32", index_type)
    dtype = np.dtype(index_type.lower())
    for largest, fits in ((2**31 - 1, True), (2**31, False)):
        found = substitute_of(desc, WEBGPU, "error", np.array([[0, largest]], dtype))
        assert (found is not None) == fits
    least = np.array([[0, -(2**31)]])
    desc = gather("FLOAT32", "INT64")
    assert substitute_of(desc, WEBGPU, "error", least) is not None
    assert substitute_of(desc, WEBGPU, "error", least - 1) is None


GIVEN = """\
webgpu | clamp | INT64 | -2147483649 2147483648 | INT32 | -2147483648 2147483647
webgpu | zero | UINT64 | 1 18446744073709551615 | INT32 | 1 2147483647
webgpu | directml | INT64 | -1 4294967297 | UINT32 | 1 1
webgpu | directml | UINT64 | 9223372036854775808 2147483648 | UINT32 | 2 2147483648
openvino | clamp | UINT32 | 0 2147483649 | INT32 | 0 2147483647
openvino | zero | INT32 | -9 9 | INT32 | -9 9
openvino | directml | INT64 | -1 4294967297 | INT32 | 1 1
openvino | directml | INT64 | -3 7 | INT32 | 2 7
openvino | directml | UINT32 | 1073741825 2147483647 | INT32 | 1 2
"""
"""Indices of 2 rows of 4 elements under a policy, and those that a provider is given.

The address of the index 1073741825 is 4 modulo 2^32, as that of 1; those of -3 and
2147483647 are past the last element, as that of 2.
"""


@pytest.mark.parametrize("row", GIVEN.splitlines())
def test_an_index_is_given_as_one_that_leads_to_the_same_element(row: str) -> None:
    name, policy, index_type, wanted, given_type, given = row.split(" | ")
    desc = descriptor(f"GATHER: INT8 2x4, {index_type} 1x2, INT8 2x4, 0, 1")
    indices = np.array([wanted.split()], index_type.lower())
    inputs = {"InputTensor": ascending("INT8 2x4"), "IndicesTensor": indices}
    found = substitute_of(desc, PROVIDERS[name], cast("Any", policy))
    arrays = [inputs]
    if found is not None:
        desc = found.given
        arrays = found.feeds([inputs])
    assert desc.indices_tensor.data_type == given_type
    assert arrays[0]["IndicesTensor"].tolist() == [[*map(int, given.split())]]


REFUSED = """\
GATHER: INT8 2x3, INT64 1x2, INT8 2x2, 1, 1 | 0 -4 | 0,1 | -4
GATHER: INT8 2x3, UINT32 1x2, INT8 2x3, 0, 1 | 0 2863311532 | 0,1 | 2863311532
GATHER_ND: INT8 2x3, INT32 1x1, INT8 1x3, 2, 2 | -1431655766 | 0 | [-1431655766]
"""
"""Gathers, their indices, which of them needs UINT32, and that index.

The address of -4 is 2^32 - 1, and that of the second row 2; those of the others are 4,
which is no row's.
"""


@pytest.mark.parametrize("row", REFUSED.splitlines())
def test_an_index_that_leads_nowhere_without_uint32_is_refused(row: str) -> None:
    text, wanted, where, index = row.split(" | ")
    desc = descriptor(text)
    found = substitute_of(desc, OPENVINO, "directml")
    assert found is not None
    dtype = desc.indices_tensor.data_type.numpy
    indices = np.array([wanted.split()], dtype)
    inputs = {"InputTensor": ascending("INT8 2x3"), "IndicesTensor": indices}
    with pytest.raises(NotRunError) as caught:
        found.feeds([inputs])
    assert OPENVINO.why_not_run(caught.value.kind, caught.value.detail) == (
        "OpenVINOExecutionProvider has no UINT32, so that"
        f" IndicesTensor[{where}] must have an address that does not wrap modulo 2^32,"
        f" got {index}"
    )


AS_IT_IS = """\
FLOAT32 | UINT32 | clamp | 0 2147483647 | None
FLOAT32 | UINT32 | clamp | 0 2147483648 | indices as INT32
FLOAT32 | INT32 | directml | 0 1 | None
FLOAT32 | INT32 | directml | 0 2 | indices as INT32
FLOAT16 | INT32 | clamp | 0 1 | data as INT32
"""
"""Gathers in files, and what OpenVINO's provider must be given in their place."""


@pytest.mark.parametrize("row", AS_IT_IS.splitlines())
def test_a_file_that_a_provider_may_read_otherwise_is_refused(row: str) -> None:
    data_type, index_type, policy, wanted, given_as = row.split(" | ")
    desc = gather(data_type, index_type)
    indices = np.array([wanted.split()], index_type.lower())
    told = why_not_as_it_is(desc, OPENVINO, cast("Any", policy), indices)
    name = "OpenVINOExecutionProvider"
    sentence = f"{name} must be given {given_as}, and a file runs as it is"
    assert told == (None if given_as == "None" else sentence)
    assert why_not_as_it_is(desc, PROVIDERS["cpu"], "clamp", indices) is None


def test_an_axis_that_int32_does_not_count_is_refused() -> None:
    data = og.TensorDesc("INT8", [2**31], strides=[0])
    indices, output = tensor_desc("UINT32 2"), tensor_desc("INT8 2")
    desc = og.GatherDesc(data, indices, output, axis=0, index_dimensions=1)
    found = substitute_of(desc, OPENVINO, "zero")
    assert found is not None
    inputs = {"InputTensor": np.zeros(4, np.int8), "IndicesTensor": np.zeros(2)}
    with pytest.raises(NotRunError) as caught:
        found.feeds([inputs])
    assert OPENVINO.why_not_run(caught.value.kind, caught.value.detail) == (
        "OpenVINOExecutionProvider has no INT64, so that an axis must be shorter than"
        " 2147483648, got 2147483648"
    )


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
        "out-of-range/gather/uint64/2-to-the-32/clamp": "indices as INT32",
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
    def test_an_index_that_int32_does_not_hold_is_read_whole(self, policy: Any) -> None:
        desc = gather("FLOAT32", "UINT64")
        session = Session(desc, out_of_range=policy)
        data = ascending("FLOAT32 2x3")
        for last in (1, 2**31 - 1, 2**31, 2**32, 2**64 - 1):
            given = np.array([[0, last]], np.uint64)
            found = session.run(data, given)
            assert np.array_equal(found, og.reference(desc, data, given, policy))

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
