"""The CPU lowering: every form of its table is reached, and gives the reference's
bytes."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from agreement import EXAMPLES, POLICIES, check_model_against_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import rows_of
from rings import one_quick_in
from short_descriptors import descriptor
from strategies import Case, cases, random_case, random_data, random_indices

import onnxgather as og
from onnxgather.core.lowering import cpu, lower
from onnxgather.core.lowering.cpu import facts, forms, long_rows, row_numbers
from onnxgather.core.options import OutOfRange

TAKEN: Counter[str] = Counter()
NAMES = {"portable", *(form.name for form in cpu.FORMS)}


@pytest.fixture(autouse=True, scope="module")
def _every_size_counts() -> Any:
    """Take every form however small the descriptor."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(facts, "FEWEST_ELEMENTS", 0)
        patch.setattr(forms.NarrowRows, "DENSE", 0)
        patch.setattr(forms.Slices, "SMALLEST_SLICE", 0)
        patch.setattr(long_rows, "SHORTEST_LAID_OUT", 2)
        yield


def choice(case: Case, policy: OutOfRange, threads: int | None, *, known: bool) -> str:
    """Return the name of the form that is taken."""
    indices = case.indices if known else None
    return lower(case.desc, policy, indices, "cpu", threads).choice.split(":")[0]


@st.composite
def likely(draw: st.DrawFn) -> Case:
    """A case of a kind that some form of the table is for."""
    n, count, row = (
        draw(st.integers(1, 9)),
        draw(st.integers(1, 12)),
        draw(st.integers(1, 7)),
    )
    before = draw(st.sampled_from([1, 1, 3]))
    data_type = draw(st.sampled_from(list(og.TensorDataType)))
    index_type = draw(st.sampled_from(["INT64", "INT32", "UINT64", "UINT32"]))
    kind = draw(
        st.sampled_from(
            ["gather", "elements", "repeated", "tuples", "turned", "slices"]
        )
    )
    data = f"{data_type} {before}x{n}x{row}"
    output = f"{data_type} {before}x{count}x{row}"
    if kind in ("gather", "turned"):
        strides = f" strides 1x{before}x{before * n}" if kind == "turned" else ""
        fields = f"{data}{strides}, {index_type} 1x1x{count}, {output}, 1, 1"
        desc = descriptor(f"GATHER: {fields}")
    elif kind == "tuples":
        data = f"{data_type} {n}x{draw(st.integers(1, 4))}x{row}"
        output = f"{data_type} 1x{count}x{row}"
        desc = descriptor(
            f"GATHER_ND: {data}, {index_type} 1x{count}x2, {output}, 3, 2"
        )
    elif kind == "slices":
        index_type = index_type if index_type.startswith("U") else f"U{index_type}"
        indices = f"{index_type} 3x{row}x{count} strides {count}x0x1"
        fields = f"{data_type} 3x{row}x{n}, {indices}, {data_type} 3x{row}x{count}, 2"
        desc = descriptor(f"GATHER_ELEMENTS: {fields}")
    else:
        strides = f" strides {count}x1x0" if kind == "repeated" else ""
        indices = f"{index_type} {before}x{count}x{row}{strides}"
        desc = descriptor(f"GATHER_ELEMENTS: {data}, {indices}, {output}, 1")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    wild = draw(st.sampled_from([0.0, 0.3]))
    indices = random_indices(desc, rng, wild=wild)
    if draw(st.booleans()) and kind == "gather":
        start, step = draw(st.integers(-2, n + 1)), draw(st.integers(-2, 2))
        pattern = start + step * np.arange(count)
        if draw(st.booleans()):
            pattern = pattern % draw(st.integers(1, n))
        low = 0 if index_type.startswith("U") else -n
        indices = np.clip(pattern, low, n).astype(indices.dtype).reshape(indices.shape)
    return Case(desc, random_data(desc.input_tensor, rng), indices)


def test_cpu_models_equal_the_reference() -> None:
    TAKEN.clear()

    @settings(max_examples=EXAMPLES)
    @given(
        st.one_of(cases(), likely(), likely()),
        st.sampled_from(POLICIES),
        st.sampled_from([13, 17, 18, 25]),
        st.booleans(),
        st.sampled_from([None, 1, 2, 16]),
    )
    def law(
        case: Case, policy: OutOfRange, opset: int, known: bool, threads: int | None
    ) -> None:
        check_model_against_reference(
            case, policy, opset, known=known, target="cpu", threads=threads
        )
        if known and policy == "error":
            return  # refused before a form is chosen
        TAKEN[choice(case, policy, threads, known=known)] += 1

    law()
    assert set(TAKEN) <= NAMES
    assert sum(TAKEN.values()) > EXAMPLES / 2


def check(
    case: Case, policy: OutOfRange, *, known: bool = False, threads: int | None = None
) -> None:
    """Compare the model of a case with the reference."""
    options: dict[str, Any] = {"known": known, "target": "cpu", "threads": threads}
    check_model_against_reference(case, policy, 17, **options)


DIRECTED: dict[str, Any] = {
    name: (*about.split(" | "), descriptor(desc))
    for row, desc in rows_of("""
repeated rows | repeated rows | clamp
GATHER_ELEMENTS: FLOAT32 2x9x6, INT64 2x7x6 strides 7x1x0, FLOAT32 2x7x6, 1

elements | elements | zero
GATHER: UINT8 1x9, INT64 1x40, UINT8 1x40, 1, 1

columns | columns | zero
GATHER: FLOAT16 5x9, INT32 1x12, FLOAT16 5x12, 1, 1

narrow rows | narrow rows | clamp
GATHER: INT16 9x2, INT64 1x20, INT16 20x2, 0, 1

narrow rows of tuples | narrow rows | clamp
GATHER_ND: INT32 4x5x3, INT64 1x30x2, INT32 1x30x3, 3, 2

tuples of rows | portable | clamp
GATHER_ND: FLOAT64 4x5x9, INT32 1x30x2, FLOAT64 1x30x9, 3, 2

slices | slices | clamp
GATHER_ELEMENTS: FLOAT32 3x2x9, UINT32 3x2x8, FLOAT32 3x2x8, 2

offsets | offsets | error
GATHER: INT8 9x70 strides 71x1, INT64 1x20, INT8 20x70, 0, 1

offsets of rows | offsets | directml
GATHER: FLOAT32 9x70, INT64 1x20, FLOAT32 20x70, 0, 1

offsets of tuples | offsets | directml
GATHER_ND: UINT8 1x40 strides 1x1, INT64 60x2, UINT8 1x60, 2, 2

rows of INT64 indices | portable | clamp
GATHER: FLOAT32 9x70, INT64 1x20, FLOAT32 20x70, 0, 1

tuples of INT64 indices | portable | clamp
GATHER_ND: INT8 4x5x80, INT64 1x30x2, INT8 1x30x80, 3, 2

rows | portable | clamp
GATHER: FLOAT32 9x70, UINT32 1x20, FLOAT32 20x70, 0, 1

a single row | portable | clamp
GATHER: FLOAT16 9x6, UINT32 1x1, FLOAT16 1x6, 0, 1

narrow elements | portable | clamp
GATHER_ELEMENTS: FLOAT32 1x9x3, INT32 1x40x3, FLOAT32 1x40x3, 1

elements in front of ones | portable | error
GATHER_ELEMENTS: FLOAT32 4x9x1, UINT64 4x40x1, FLOAT32 4x40x1, 1

strided rows | portable | zero
GATHER: FLOAT32 9x70 strides 71x1, INT64 1x20, FLOAT32 20x70, 0, 1
""")
    for name, about in [row.split(" | ", 1)]
}
"""The form that is taken, for which policy and descriptor."""


def test_every_form_has_a_descriptor_that_takes_it() -> None:
    assert {name for name, _, _ in DIRECTED.values()} == NAMES


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", one_quick_in(3, DIRECTED))
def test_a_form_is_taken_and_gives_the_references_bytes(
    name: str, threads: int
) -> None:
    taken, policy, desc = DIRECTED[name]
    for seed, wild in ((0, 0.0), (1, 0.3), (2, 1.0)):
        case = random_case(desc, seed, wild)
        if taken == "narrow rows" and threads > 1:
            taken = "portable"  # several threads share a Gather
        assert choice(case, policy, threads, known=False) == taken
        check(case, policy, threads=threads)


four_types = pytest.mark.parametrize(
    "index_type", one_quick_in(4, ["INT64", "INT32", "UINT64", "UINT32"])
)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("sizes", ["6x6", "4x9", "3x3x3"])
@four_types
def test_tuples_laid_out_several_a_row_equal_the_reference(
    index_type: str,
    sizes: str,
    policy: OutOfRange,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_numbers, "WIDEST_TILE", 8)
    rank = len(sizes.split("x"))
    ones = "1x" * (rank - 2)
    output = f"INT16 1x{ones}96"
    indices = f"{index_type} {ones}96x{rank}"
    desc = descriptor(f"GATHER_ND: INT16 {sizes}, {indices}, {output}, {rank}, 2")
    check(random_case(desc), policy)


@pytest.mark.parametrize("policy", one_quick_in(4, POLICIES))
@pytest.mark.parametrize("index_type", ["INT64", "UINT64"])
def test_indices_of_an_axis_beyond_what_float32_counts_are_exact(
    index_type: str, policy: OutOfRange
) -> None:
    size = 2**24 + 5
    near = [0, 1, 2**24 - 1, 2**24, 2**24 + 1, size - 2, size - 1]
    wild = [size, size + 1, 2**31 + 1, 2**32 + 3, 2**63 - 1]
    low = [-1, -2, 1 - size, -size, -size - 1, -size - 2, -(2**63)]
    if index_type == "UINT64":
        low = [2**64 - 1]
    for values in (near, [*near, *wild, *low]):
        count = len(values)
        indices = f"{index_type} 1x{count}"
        desc = descriptor(f"GATHER: UINT8 1x{size}, {indices}, UINT8 1x{count}, 1, 1")
        given = np.array([values], index_type.lower())
        check(replace(random_case(desc), indices=given), policy)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", one_quick_in(4, DIRECTED))
def test_indices_carried_in_float64_equal_the_reference(
    name: str, policy: OutOfRange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_numbers, "EXACT_FLOAT", 3)
    *_, desc = DIRECTED[name]
    check(random_case(desc), policy)


@pytest.mark.parametrize(
    ("form", "data", "output", "axis"),
    [("columns", "5x9", "5x12", 1), ("narrow rows", "9x2", "12x2", 0)],
)
@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT64", "INT32", "INT64", "INT8"])
@pytest.mark.parametrize("index_type", ["INT64", "INT32"])
def test_an_index_below_the_axis_gathers_zeros_whatever_the_operator(
    index_type: str, data_type: str, form: str, data: str, output: str, axis: int
) -> None:
    # ArrayFeatureExtractor, unlike GatherElements, counts nothing from the end.
    three = f"{data_type} {data}, {index_type} 1x12, {data_type} {output}"
    desc = descriptor(f"GATHER: {three}, {axis}, 1")
    below = [-10, -11, -(2**31)]
    values = [0, 8, -1, -9, 9, 10, 2**31 - 1, *below, -5, 4]
    case = replace(random_case(desc), indices=np.array([values], index_type.lower()))
    assert choice(case, "zero", 1, known=False) == form
    check(case, "zero", threads=1)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("output", ["1x96", "2x48"])
@four_types
def test_single_bytes_gathered_in_one_row_or_several_equal_the_reference(
    index_type: str, output: str, policy: OutOfRange
) -> None:
    indices = f"{index_type} {output}"
    desc = descriptor(f"GATHER: UINT8 1x50, {indices}, UINT8 {output}, 1, 2")
    for wild in (0.0, 0.3):
        check(random_case(desc, wild=wild), policy)


LARGE = 4_000_000
LARGE_OUTPUTS = f"""
GATHER: FLOAT32 1000, UINT32 {LARGE}, FLOAT32 {LARGE}, 0, 1
GATHER: FLOAT32 2000x3000, UINT32 1x2000, FLOAT32 2000x2000, 1, 1
GATHER: FLOAT32 1000x400, INT64 1x10000, FLOAT32 10000x400, 0, 1
GATHER: FLOAT32 1000x3, INT32 1x{LARGE}, FLOAT32 {LARGE}x3, 0, 1
GATHER_ND: FLOAT32 1000x1000, UINT64 {LARGE}x2, FLOAT32 1x{LARGE}, 2, 2
GATHER_ELEMENTS: FLOAT32 4x524288x2, UINT32 4x524288x2, FLOAT32 4x524288x2, 2
GATHER: FLOAT32 2000x3000 strides 3001x1, UINT32 1x2000, FLOAT32 2000x2000, 1, 1
"""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("text", LARGE_OUTPUTS.strip().splitlines())
def test_no_initializer_grows_with_the_output(text: str, policy: OutOfRange) -> None:
    desc = descriptor(text)
    model = og.to_onnx(desc, policy, "cpu")
    assert model.ByteSize() < 100_000
    assert math.prod(desc.output_tensor.sizes) >= LARGE


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("tuple_", [[3, -1], [0, 4]])
def test_a_model_of_one_known_tuple_equals_the_reference(
    tuple_: list[int], policy: OutOfRange
) -> None:
    desc = descriptor("GATHER_ND: UINT8 4x5, INT64 1x2, UINT8 1x1, 2, 1")
    case = replace(random_case(desc), indices=np.array([tuple_]))
    check(case, policy, known=True)


def test_the_graph_says_which_form_was_taken_and_why_not_those_above_it() -> None:
    desc = descriptor("GATHER: FLOAT32 1x1000, UINT32 1x5000, FLOAT32 1x5000, 1, 1")
    graph = lower(desc, "clamp", target="cpu")
    assert (
        graph.choice
        == "elements: GatherElements takes 1 to 2 ns for a single element, Gather and"
        " GatherND 10 to 14; the next form that fits takes 4.9 times as long"
    )
    assert graph.passed_over == (
        (
            "repeated rows",
            "GATHER has one index for a row, this form joins those of elements",
        ),
    )
    portable = lower(desc, "clamp")
    assert (portable.choice, portable.passed_over) == ("", ())


def reasons(text: str, policy: OutOfRange = "clamp", threads: int = 1) -> Any:
    """Return why forms are passed over, by the name of the form."""
    return dict(lower(descriptor(text), policy, None, "cpu", threads).passed_over)


ROW = "GATHER: FLOAT32 1x9, UINT32 1x20, FLOAT32 1x20, 1, 1"


def test_the_reasons_why_a_form_is_passed_over() -> None:
    assert reasons("GATHER: FLOAT32 9x4096, UINT32 1x20, FLOAT32 20x4096, 0, 1") == {
        "repeated rows": (
            "GATHER has one index for a row, this form joins those of elements"
        ),
        "elements": "rows have 4096 elements, this form gathers single ones",
        "columns": "rows have 4096 elements, this form gathers single ones",
        "narrow rows": "rows have 4096 elements, this form gathers 2 to 4",
        "slices": "GATHER shares its indices, this form has one for each element",
        "offsets": 'the data is packed and the policy "clamp" needs no offsets',
    }
    strided = "GATHER: FLOAT32 3x9 strides 10x1, UINT32 1x20, FLOAT32 3x20, 1, 1"
    why = "InputTensor has strides or padding, this form takes packed data"
    assert reasons(strided)["columns"] == why


@pytest.mark.parametrize(
    ("desc", "policy", "threads", "why"),
    [
        (ROW, "clamp", 8, "8 threads share a Gather, this form is the work of one"),
        (
            "GATHER_ND: INT8 4x5, INT32 30x2, INT8 1x30, 2, 2",
            "zero",
            1,
            'the policy is "zero", this form takes clamp',
        ),
        (
            "GATHER: FLOAT32 1x900, UINT32 1x20, FLOAT32 1x20, 1, 1",
            "zero",
            1,
            "a zero behind the data costs a copy of 900 elements to gather 20",
        ),
    ],
)
def test_the_reason_why_elements_is_passed_over(
    desc: str, policy: OutOfRange, threads: int, why: str
) -> None:
    assert reasons(desc, policy, threads)["elements"] == why


def test_a_small_output_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "FEWEST_ELEMENTS", 512)
    why = "the output has 20 elements, a gain begins at 512"
    assert reasons(ROW)["elements"] == why
