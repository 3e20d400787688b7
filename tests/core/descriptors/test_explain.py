"""The texts of explanations, and that explanations agree with the reference."""

from __future__ import annotations

import itertools
import re
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import message_of, rows_of
from short_descriptors import ascending, descriptor
from strategies import Case, cases, descriptors

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array, elements
from onnxgather.core.descriptors.explain import (
    MOST_EXPLAINED,
    Explanation,
    element_at,
    explain,
    named_source,
    named_sources,
    value_text,
)
from onnxgather.core.descriptors.reference import offsets, source_map
from onnxgather.core.options import OutOfRange

POLICIES: list[OutOfRange] = ["clamp", "error", "zero", "directml"]


def gather(
    index_type: str, data_type: str = "FLOAT32", total: int = 0
) -> og.GatherDesc:
    """A GATHER along the second axis."""
    data = f"{data_type} 4x3 bytes {total}"
    return descriptor(f"GATHER: {data}, {index_type} 1x2, {data_type} 4x2, 1, 1")


def told(
    index_type: str, indices: list[int], at: tuple[int, ...], policy: OutOfRange
) -> Explanation:
    """An explanation of a GATHER from the numbers 0 to 11."""
    desc = gather(index_type)
    data = ascending("FLOAT32 4x3")
    array = np.array([indices], desc.indices_tensor.data_type.numpy)
    return explain(desc, data, array, at, policy)


DESCRIPTORS: dict[str, og.Descriptor] = {
    **{kind: gather(kind) for kind in ("UINT32", "INT32", "UINT64", "INT64")},
    "padded": gather("UINT32", "UINT8", total=16),
    "scalar": descriptor("GATHER: INT16 1x5, INT32 1x1, INT16 1x1, 1, 0"),
    "GATHER_ELEMENTS": descriptor(
        "GATHER_ELEMENTS: INT16 2x1x3, INT32 2x2x3, INT16 2x2x3, 1"
    ),
    "GATHER_ND": descriptor("GATHER_ND: FLOAT32 2x3, INT32 3x2, FLOAT32 1x3, 2, 2"),
    "GATHER_ND1": descriptor(
        "GATHER_ND1: INT8 1x2x3x2, UINT32 1x2x2x1, INT8 1x2x2x2, 3, 3, 1"
    ),
    "strided": descriptor(
        "GATHER_ND: INT32 2x3 strides 1x4, INT32 2x2 strides 3x1,"
        " INT32 1x2 strides 0x2, 2, 2"
    ),
}

TEXTS = """
UINT32 clamp 2 7
output[1,0] = input[1, indices[0]] = input[1, 2] = 5

UINT32 clamp 2 7
output[1,1] = input[1, indices[1]] = input[1, 7] -> input[1, 2] (7 is past the end,
clamped to 2) = 5, 10 under directml

INT32 clamp -1 -9
output[0,0] = input[0, indices[0]] = input[0, -1] -> input[0, 2] (-1 is counted from
the end of 3) = 2

INT32 clamp -1 -9
output[3,1] = input[3, indices[1]] = input[3, -9] -> input[3, 0] (-9 is before the
start, clamped to 0) = 9, 3 under directml

UINT64 clamp 18446744073709551615 0
output[0,0] = input[0, indices[0]] = input[0, 18446744073709551615] -> input[0, 2]
(18446744073709551615 is past the end, clamped to 2) = 2

INT64 zero -1 -9
output[3,1] = input[3, indices[1]] = input[3, -9] = 0, 3 under directml (index -9 is
out of range of 3)

INT64 zero -1 7
output[3,0] = input[3, indices[0]] = input[3, -1] -> input[3, 2] (-1 is counted from
the end of 3) = 11

INT64 error 1 7
output[3,1] = input[3, indices[1]] = input[3, 7]: an error, 11 under directml (index 7
is out of range of 3)

INT64 error 1 7
output[3,0] = input[3, indices[0]] = input[3, 1] = 10 (but the gather is an error:
IndicesTensor[0,1] must be in [-3, 3), got 7)

INT64 error 1 2
output[3,0] = input[3, indices[0]] = input[3, 1] = 10

UINT32 directml 2 7
output[1,0] = input[1, indices[0]] = input[1, 2] -> buffer element 5 (1 x 3 + 2 x 1 =
5) = 5

UINT32 directml 2 7
output[1,1] = input[1, indices[1]] = input[1, 7] -> buffer element 10 (1 x 3 + 7 x 1 =
10) = input[3, 1] = 10, 5 under clamp

UINT32 directml 2 7
output[3,1] = input[3, indices[1]] = input[3, 7] -> buffer element 11 (3 x 3 + 7 x 1 =
16; 16 is past the last element, clamped to 11) = input[3, 2] = 11

INT32 directml -1 -9
output[1,0] = input[1, indices[0]] = input[1, -1] -> buffer element 5 (1 x 3 + (-1 +
3) x 1 = 5) = input[1, 2] = 5

INT32 directml -1 -9
output[1,1] = input[1, indices[1]] = input[1, -9] -> buffer element 11 (1 x 3 + (-9 +
3) x 1 = -3, modulo 2^32 4294967293; 4294967293 is past the last element, clamped to
11) = input[3, 2] = 11, 3 under clamp

INT64 directml 4294967296 0
output[1,0] = input[1, indices[0]] = input[1, 4294967296] -> buffer element 3 (1 x 3 +
4294967296 x 1 = 4294967299, modulo 2^32 3) = input[1, 0] = 3, 5 under clamp

UINT64 directml 18446744073709551615 0
output[1,0] = input[1, indices[0]] = input[1, 18446744073709551615] -> buffer element
5 (18446744073709551615 is read as -1; 1 x 3 + (-1 + 3) x 1 = 5) = input[1, 2] = 5

padded directml 3 0
output[3,0] = input[3, indices[0]] = input[3, 3] -> buffer element 12 (3 x 3 + 3 x 1 =
12; padding reads as zero) = 0, 11 under clamp

scalar clamp 3
output[0,0] = input[0, indices] = input[0, 3] = 3

GATHER_ELEMENTS clamp 0 0 0 0 0 0 0 0 0 0 0 4
output[1,1,2] = input[1, indices[1, 1, 2], 2] = input[1, 4, 2] -> input[1, 0, 2] (4 is
past the end, clamped to 0) = 5

GATHER_ELEMENTS directml 0 0 0 0 0 0 0 0 0 0 0 4
output[1,1,2] = input[1, indices[1, 1, 2], 2] = input[1, 4, 2] -> buffer element 5 (1 x
3 + 4 x 0 + 2 x 1 = 5) = input[1, 0, 2] = 5

GATHER_ND clamp 1 2 -1 5 4 5
output[0,0] = input[indices[0, :]] = input[(1, 2)] = 5

GATHER_ND clamp 1 2 -1 5 4 5
output[0,1] = input[indices[1, :]] = input[(-1, 5)] -> input[(1, 2)] (-1 is counted from
the end of 2; 5 is past the end, clamped to 2) = 5

GATHER_ND clamp 1 2 -1 5 4 5
output[0,2] = input[indices[2, :]] = input[(4, 5)] -> input[(1, 2)] (4 is past the end,
clamped to 1; 5 is past the end, clamped to 2) = 5

GATHER_ND zero 1 2 -1 5 4 5
output[0,2] = input[indices[2, :]] = input[(4, 5)] = 0, 5 under directml (index 4 is out
of range of 2; index 5 is out of range of 3)

GATHER_ND1 clamp 2 1 0 2
output[0,1,1,0] = input[0, 1, indices[1, 1, 0], 0] = input[0, 1, 2, 0] = 10

strided clamp 0 0 9 1 2
output[0,1] = input[indices[1, :]] = input[(1, 2)] = 9 (buffer offsets: output 2,
indices 3 4, input 9)

strided directml 0 0 9 1 2
output[0,1] = input[indices[1, :]] = input[(1, 2)] -> buffer element 9 (1 x 1 + 2 x 4 =
9) = 9 (buffer offsets: output 2, indices 3 4)

strided directml 0 0 9 2 2
output[0,1] = input[indices[1, :]] = input[(2, 2)] -> buffer element 9 (2 x 1 + 2 x 4 =
10; 10 is past the last element, clamped to 9) = input[(1, 2)] = 9 (buffer offsets:
output 2, indices 3 4)

strided directml 0 0 9 2 0
output[0,1] = input[indices[1, :]] = input[(2, 0)] -> buffer element 2 (2 x 1 + 0 x 4 =
2) = 2, 1 under clamp (buffer offsets: output 2, indices 3 4)
"""
"""The descriptor, the policy and the indices; and the text.

The data are the numbers from 0 on.
"""


def at_of(text: str) -> tuple[int, ...]:
    """The element of the output that a text begins with."""
    place, _, _ = text.removeprefix("output[").partition("]")
    return tuple(map(int, place.split(",")))


@pytest.mark.parametrize(("asked", "text"), rows_of(TEXTS))
def test_the_text_for_each_operator_and_policy(asked: str, text: str) -> None:
    name, policy, *numbers = asked.split()
    desc = DESCRIPTORS[name]
    tensor = desc.indices_tensor
    values = np.array([int(number) for number in numbers], tensor.data_type.numpy)
    indices = values.reshape(tensor.array_shape)
    given: Any = (desc, ascending(desc.input_tensor), indices, at_of(text), policy)
    assert str(explain(*given)) == text


def test_the_fields_of_an_explanation_and_their_json() -> None:
    assert told("INT32", [0, -9], (3, 1), "clamp") == Explanation(
        "output[3,1] = input[3, indices[1]] = input[3, -9] -> input[3, 0] "
        "(-9 is before the start, clamped to 0) = 9, 3 under directml",
        at=(3, 1),
        index_places=((0, 1),),
        index_values=(-9,),
        before=(3, -9),
        after=(3, 0),
        offset=9,
        value="9",
        value_bytes="00001041",
        notes=("-9 is before the start, clamped to 0",),
        other_value="3",
    )
    zero, error = (
        told("INT32", [0, -9], (3, 1), policy) for policy in ("zero", "error")
    )
    for found in (zero, error):
        assert (found.after, found.offset, found.other_value) == (None, None, "3")
    assert (zero.value, zero.value_bytes) == ("0", "00000000")
    assert (error.value, error.value_bytes) == (None, None)
    # The element in range is the same under each policy.
    inside = [told("INT32", [0, -9], (3, 0), policy) for policy in POLICIES]
    assert [explanation.other_value for explanation in inside] == [None] * 4
    largest = told("UINT64", [2**64 - 1, 0], (1, 0), "directml")
    assert (
        msgspec.json.decode(msgspec.json.encode(largest), type=Explanation) == largest
    )


def test_padding_is_no_element() -> None:
    desc = DESCRIPTORS["padded"]
    data, indices = ascending(desc.input_tensor), np.array([[3, 0]], np.uint32)
    found = explain(desc, data, indices, (3, 0), "directml")
    assert (found.after, found.offset, found.other_value) == (None, 12, "11")


def test_an_offset_between_elements_is_no_element() -> None:
    desc = DESCRIPTORS["strided"]
    indices = np.array([0, 0, 9, 2, 0], np.int32)
    found = explain(desc, ascending(desc.input_tensor), indices, (0, 1), "directml")
    assert found.after is None


def test_coordinates_may_be_integers_of_numpy_in_any_sequence() -> None:
    desc, data = gather("INT32"), ascending(gather("INT32").input_tensor)
    indices = np.array([[2, 1]], np.int32)
    wanted = explain(desc, data, indices, (1, 0))
    for at in ([1, 0], np.array([1, 0])):
        assert explain(desc, data, indices, at) == wanted  # pyright: ignore[reportArgumentType]


class TestNames:
    """Names stand for the values of indices, where there are none."""

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("UINT32", "output[1,0] = input[1, IndicesTensor[0,0]]"),
            ("GATHER_ELEMENTS", "output[1,1,2] = input[1, IndicesTensor[1,1,2], 2]"),
            (
                "GATHER_ND",
                "output[0,2] = input[IndicesTensor[2,0], IndicesTensor[2,1]]",
            ),
            (
                "GATHER_ND1",
                "output[0,1,1,0] = input[0, 1, IndicesTensor[0,1,1,0], 0]",
            ),
            ("strided", "output[0,1] = input[IndicesTensor[1,0], IndicesTensor[1,1]]"),
        ],
    )
    def test_the_text_of_each_operator(self, name: str, text: str) -> None:
        source = named_source(DESCRIPTORS[name], at_of(text))
        assert (str(source), source.at) == (text, at_of(text))
        found = re.findall(r"IndicesTensor\[([\d,]+)\]", text)
        places = [tuple(map(int, place.split(","))) for place in found]
        assert source.index_places == tuple(places)

    def test_all_elements_come_in_order(self) -> None:
        texts = [source.text for source in named_sources(gather("INT64"))]
        assert len(texts) == 8
        assert texts[0] == "output[0,0] = input[0, IndicesTensor[0,0]]"
        assert texts[-1] == "output[3,1] = input[3, IndicesTensor[0,1]]"

    def test_what_is_not_there_is_a_sentence(self) -> None:
        assert (
            message_of(og.DescriptorError, named_source, gather("INT64"), (4, 0))
            == "at must have 2 coordinates within OutputTensor.Sizes [4, 2], got [4, 0]"
        )
        large = descriptor("GATHER: INT8 1000, INT32 2000, INT8 2000, 0, 1")
        assert message_of(og.DescriptorError, named_sources, large) == (
            f"at must be given where OutputTensor has more than {MOST_EXPLAINED}"
            " elements, got 2000"
        )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.1), "0.1"),
        (np.float32(-0.0), "-0"),
        (np.float32(6), "6"),
        (np.float32(1e20), "1e+20"),
        (np.float16(65504), "65504"),
        (np.float16(1e-7), "1e-07"),
        (np.float64("nan"), "nan"),
        (np.float64("-inf"), "-inf"),
        (np.int8(-128), "-128"),
        (np.uint64(2**64 - 1), "18446744073709551615"),
    ],
)
def test_value_text_reads_back_as_the_same_value(value: np.generic, text: str) -> None:
    assert value_text(value) == text
    assert np.array(
        float(text) if value.dtype.kind == "f" else int(text), value.dtype
    ).tobytes() == (value.tobytes())


WITHIN = "must have 2 coordinates within OutputTensor.Sizes [4, 2], got"


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ([4, 0], f"{WITHIN} [4, 0]"),
        ([-1, 0], f"{WITHIN} [-1, 0]"),
        ([1], f"{WITHIN} [1]"),
        ((1, 0, 0), f"{WITHIN} [1, 0, 0]"),
        ([1, 0.0], f"{WITHIN} [1, 0.0]"),
        ([True, 0], f"{WITHIN} [True, 0]"),
        (3, "must be a sequence, got 3"),
        ("1,0", "must be a sequence, got '1,0'"),
    ],
)
def test_at_must_be_coordinates_of_an_output_element(at: Any, message: str) -> None:
    data, indices = np.zeros((4, 3), np.float32), np.zeros((1, 2), np.int32)
    given = (explain, gather("INT32"), data, indices, at)
    assert message_of(og.DescriptorError, *given) == f"at {message}"


def test_the_error_for_at_speaks_of_one_coordinate_in_the_singular() -> None:
    desc = descriptor("GATHER: INT8 3, INT32 2, INT8 2, 0, 1")
    given = (desc, np.zeros(3, np.int8), np.zeros(2, np.int32), (2,))
    assert message_of(og.DescriptorError, explain, *given) == (
        "at must have 1 coordinate within OutputTensor.Sizes [2], got [2]"
    )


def test_arrays_and_policy_are_checked() -> None:
    desc, data, indices = (
        gather("INT32"),
        np.zeros((4, 3), np.float32),
        np.zeros((1, 2), np.int32),
    )
    for call, message in (
        (
            lambda: explain(desc, indices, indices, (0, 0)),
            "InputTensor must be an array of float32 (4, 3), got int32 (1, 2)",
        ),
        (
            lambda: explain(desc, data, data, (0, 0)),
            "IndicesTensor must be an array of int32 (1, 2), got float32 (4, 3)",
        ),
        (
            lambda: explain(desc, data, indices, (0, 0), "wrap"),  # pyright: ignore[reportArgumentType]
            "out_of_range must be one of clamp, error, zero, directml, got 'wrap'",
        ),
        (
            lambda: source_map(desc, indices + 3, "error"),
            "IndicesTensor[0,0] must be in [-3, 3), got 3",
        ),
    ):
        assert message_of(og.OnnxGatherError, call) == message


def test_the_source_map_under_each_policy() -> None:
    indices = np.array([[-1, 7]], np.int32)
    found = {
        p: source_map(gather("INT32"), indices, p) for p in POLICIES if p != "error"
    }
    assert {p: array[1:3].tolist() for p, array in found.items()} == {
        "clamp": [[5, 5], [8, 8]],
        "zero": [[5, -1], [8, -1]],
        "directml": [[5, 10], [8, 11]],
    }


def padded(desc: og.Descriptor, data: Array) -> bytes:
    """InputTensor's buffer, zero behind its array."""
    return data.tobytes().ljust(
        desc.input_tensor.reachable_count * data.itemsize, b"\0"
    )


def differences(case: Case, policy: OutOfRange) -> list[str]:
    """The texts of elements where `explain`, `source_map` and the reference
    disagree."""
    desc, tensor = case.desc, case.desc.input_tensor
    try:
        output = elements(
            desc.output_tensor, og.reference(desc, case.data, case.indices, policy)
        )
        sources = source_map(desc, case.indices, policy)
    except og.IndexOutOfRangeError:
        output = sources = None
    if sources is not None:
        assert (sources.dtype, sources.shape) == (np.int64, desc.output_tensor.sizes)
    found, raised = list[str](), False
    buffer, size = padded(desc, case.data), case.data.itemsize
    for at in itertools.product(*map(range, desc.output_tensor.sizes)):
        told = explain(desc, case.data, case.indices, at, policy)
        raised = (
            raised or told.value is None or "but the gather is an error" in told.text
        )
        wrong = told.at != at
        if output is not None and sources is not None:
            value, offset = output[at].tobytes(), int(sources[at])
            read = buffer[offset * size :][:size] if offset >= 0 else bytes(size)
            wrong |= told.value_bytes != value.hex() or read != value
            wrong |= told.offset != (None if offset < 0 else offset)
        if told.after is not None:
            pairs = zip(told.after, tensor.element_strides, strict=True)
            wrong |= sum(c * stride for c, stride in pairs) != told.offset
            wrong |= any(
                not 0 <= c < n for c, n in zip(told.after, tensor.sizes, strict=True)
            )
        logical = elements(desc.indices_tensor, case.indices)
        wrong |= (
            tuple(logical[p].item() for p in told.index_places) != told.index_values
        )
        if policy == "directml":
            terms, right = next(n for n in told.notes if " x " in n).split(" = ")
            total = int(right.split(",")[0])
            wrong |= eval(terms.replace("x", "*")) != total
            wrong |= told.offset != min(total % 2**32, tensor.reachable_count - 1)
        if wrong:
            found.append(told.text)
    if raised != (output is None):
        found.append("only one of the two is an error")
    return found


@given(cases(), st.sampled_from(POLICIES))
def test_explanations_agree_with_the_reference(case: Case, policy: OutOfRange) -> None:
    assert differences(case, policy) == []


def wild_case() -> Case:
    desc = gather("INT32")
    data = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    return Case(desc, data, np.array([[-1, 7]], np.int32))


@pytest.mark.parametrize("policy", ["clamp", "zero", "directml"])
def test_a_mistake_planted_in_the_offsets_is_seen(
    policy: OutOfRange, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert differences(wild_case(), policy) == []

    def off_by_one(*args: object) -> Array:
        return np.asarray(offsets(*args)) - 1  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr("onnxgather.core.descriptors.explain.offsets", off_by_one)
    assert len(differences(wild_case(), policy)) >= 4


@given(descriptors())
def test_element_at_inverts_the_strides_of_an_output(case: og.Descriptor) -> None:
    output = case.output_tensor
    places = {
        sum(c * s for c, s in zip(at, output.element_strides, strict=True)): at
        for at in itertools.product(*map(range, output.sizes))
    }
    for offset in range(output.element_count):
        assert element_at(output, offset) == places.get(offset)
