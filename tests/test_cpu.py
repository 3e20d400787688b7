"""The CPU lowering: every form of its table is reached, and gives the reference's bytes."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Case, cases, random_data, random_indices
from test_properties import POLICIES, check_model_against_reference, same

import onnxgather as og
from onnxgather.lowering import cpu, cpu_fits, cpu_forms, cpu_indices, lower
from onnxgather.options import OutOfRange

TAKEN: Counter[str] = Counter()
NAMES = {"portable", *(form.name for form in cpu.FORMS)}


@pytest.fixture(autouse=True, scope="module")
def _every_size_counts() -> Any:
    """Take every form however small the descriptor."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_fits, "SMALL", 0)
        patch.setattr(cpu_fits, "DENSE", 0)
        patch.setattr(cpu_fits, "SMALLEST_SLICE", 0)
        patch.setattr(cpu_forms, "SHORTEST_LAID_OUT", 2)
        yield


def choice(case: Case, policy: OutOfRange, threads: int | None, *, known: bool) -> str:
    """Return the name of the form that is taken."""
    indices = case.indices if known else None
    return lower(case.desc, policy, indices, "cpu", threads).choice.split(":")[0]


@st.composite
def likely(draw: st.DrawFn) -> Case:
    """A case of a kind that some form of the table is for."""
    n, count, row = draw(st.integers(1, 9)), draw(st.integers(1, 12)), draw(st.integers(1, 7))
    before = draw(st.sampled_from([1, 1, 3]))
    data_type = draw(st.sampled_from(list(og.TensorDataType)))
    index_type = draw(st.sampled_from(["INT64", "INT32", "UINT64", "UINT32"]))
    kind = draw(
        st.sampled_from(["gather", "elements", "repeated", "tuples", "transposed", "slices"])
    )
    data = [before, n, row]
    desc: og.Descriptor
    if kind in ("gather", "transposed"):
        strides = [1, before, before * n] if kind == "transposed" else None
        desc = og.GatherDesc(
            og.TensorDesc(data_type, data, strides),
            og.TensorDesc(index_type, [1, 1, count]),
            og.TensorDesc(data_type, [before, count, row]),
            axis=1,
            index_dimensions=1,
        )
    elif kind == "tuples":
        sizes = [n, draw(st.integers(1, 4)), row]
        desc = og.GatherNDDesc(
            og.TensorDesc(data_type, sizes),
            og.TensorDesc(index_type, [1, count, 2]),
            og.TensorDesc(data_type, [1, count, row]),
            3,
            2,
        )
    elif kind == "slices":
        index_type = index_type if index_type.startswith("U") else f"U{index_type}"
        desc = og.GatherElementsDesc(
            og.TensorDesc(data_type, [3, row, n]),
            og.TensorDesc(index_type, [3, row, count], [count, 0, 1]),
            og.TensorDesc(data_type, [3, row, count]),
            axis=2,
        )
    else:
        strides = [count, 1, 0] if kind == "repeated" else None
        desc = og.GatherElementsDesc(
            og.TensorDesc(data_type, data),
            og.TensorDesc(index_type, [before, count, row], strides),
            og.TensorDesc(data_type, [before, count, row]),
            axis=1,
        )
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


def test_cpu_models_equal_the_reference(request: pytest.FixtureRequest) -> None:
    examples = int(str(request.config.getoption("--examples")))
    TAKEN.clear()

    @settings(max_examples=examples)
    @given(
        st.one_of(cases(), likely(), likely()),
        st.sampled_from(POLICIES),
        st.sampled_from([13, 17, 18, 25]),
        st.booleans(),
        st.sampled_from([None, 1, 2, 16]),
    )
    def law(case: Case, policy: OutOfRange, opset: int, known: bool, threads: int | None) -> None:
        check_model_against_reference(
            case, policy, opset, known=known, target="cpu", threads=threads
        )
        if known and policy == "error":
            return  # refused before a form is chosen
        TAKEN[choice(case, policy, threads, known=known)] += 1

    law()
    assert set(TAKEN) <= NAMES
    assert sum(TAKEN.values()) > examples / 2


T = og.TensorDesc


def a_gather(
    data: og.TensorDesc, index_type: str, count: int, sizes: list[int], axis: int = 1
) -> og.Descriptor:
    """Return a GATHER of some places along an axis."""
    indices = T(index_type, [1] * (len(sizes) - 1) + [count])
    return og.GatherDesc(data, indices, T(data.data_type, sizes), axis, 1)


def an_elements(data: list[int], indices: og.TensorDesc, axis: int = 1) -> og.Descriptor:
    """Return a GATHER_ELEMENTS of FLOAT32."""
    return og.GatherElementsDesc(
        T("FLOAT32", data), indices, T("FLOAT32", indices.sizes), axis=axis
    )


DIRECTED: dict[str, tuple[og.Descriptor, OutOfRange]] = {
    "transposed data": (
        a_gather(T("FLOAT32", [3, 9, 5], [1, 3, 27]), "INT32", 7, [3, 7, 5]),
        "clamp",
    ),
    "single row": (a_gather(T("FLOAT16", [9, 6]), "UINT32", 1, [1, 6], axis=0), "clamp"),
    "repeated rows": (an_elements([2, 9, 6], T("INT64", [2, 7, 6], [7, 1, 0])), "clamp"),
    "elements": (a_gather(T("UINT8", [1, 9]), "INT64", 40, [1, 40]), "zero"),
    "columns": (a_gather(T("FLOAT16", [5, 9]), "INT32", 12, [5, 12]), "zero"),
    "narrow rows": (a_gather(T("INT16", [9, 2]), "INT64", 20, [20, 2], axis=0), "clamp"),
    "row numbers": (
        og.GatherNDDesc(
            T("FLOAT64", [4, 5, 9]), T("INT32", [1, 30, 2]), T("FLOAT64", [1, 30, 9]), 3, 2
        ),
        "zero",
    ),
    "narrow elements": (an_elements([1, 9, 3], T("INT32", [1, 40, 3])), "clamp"),
    "turned elements": (an_elements([4, 9, 1], T("UINT64", [4, 40, 1])), "error"),
    "slices": (an_elements([3, 2, 9], T("UINT32", [3, 2, 8]), axis=2), "clamp"),
    "guarded": (a_gather(T("FLOAT32", [9, 70]), "INT64", 20, [20, 70], axis=0), "directml"),
    "natural": (a_gather(T("FLOAT32", [9, 70]), "INT64", 20, [20, 70], axis=0), "clamp"),
    "directml tuples": (
        og.GatherNDDesc(
            T("UINT8", [1, 40], [1, 1]), T("INT64", [60, 2]), T("UINT8", [1, 60]), 2, 2
        ),
        "directml",
    ),
    "portable": (a_gather(T("FLOAT32", [9, 70], [71, 1]), "INT64", 20, [20, 70], 0), "directml"),
}


def test_a_descriptor_is_directed_at_every_form() -> None:
    assert {*DIRECTED, "pattern"} - {"directml tuples"} == NAMES


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", DIRECTED)
def test_form_is_taken_and_gives_the_references_bytes(name: str, threads: int) -> None:
    desc, policy = DIRECTED[name]
    for seed, wild in ((0, 0.0), (1, 0.3), (2, 1.0)):
        rng = np.random.default_rng(seed)
        case = Case(desc, random_data(desc.input_tensor, rng), random_indices(desc, rng, wild=wild))
        taken = "elements" if name == "directml tuples" else name
        assert choice(case, policy, threads, known=False) == taken
        check_model_against_reference(case, policy, 17, known=False, target="cpu", threads=threads)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("sizes", [[6, 6], [4, 9], [3, 3, 3]])
@pytest.mark.parametrize("index_type", ["INT64", "INT32", "UINT64", "UINT32"])
def test_tuples_tile_by_tile(
    index_type: str, sizes: list[int], policy: OutOfRange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_indices, "TILE", 8)
    rank = len(sizes)
    indices, output = T(index_type, [1] * (rank - 2) + [96, rank]), [1] * (rank - 1) + [96]
    desc = og.GatherNDDesc(T("INT16", sizes), indices, T("INT16", output), rank, 2)
    rng = np.random.default_rng(0)
    case = Case(desc, random_data(desc.input_tensor, rng), random_indices(desc, rng, wild=0.3))
    check_model_against_reference(case, policy, 17, known=False, target="cpu")
    operators = [node.op for node in lower(desc, policy, None, "cpu").nodes]
    assert ("Scan" in operators) == (policy in ("clamp", "zero"))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("index_type", ["INT64", "UINT64"])
def test_an_axis_beyond_what_float32_counts(index_type: str, policy: OutOfRange) -> None:
    size = 2**24 + 5
    near = [0, 1, 2**24 - 1, 2**24, 2**24 + 1, size - 2, size - 1]
    signed = index_type == "INT64"
    wild = [size, size + 1, 2**31 + 1, 2**32 + 3, 2**63 - 1]
    low = [-1, -2, 1 - size, -size, -size - 1, -size - 2, -(2**63)] if signed else [2**64 - 1]
    for values in (near, [*near, *wild, *low]):
        desc = a_gather(T("UINT8", [1, size]), index_type, len(values), [1, len(values)])
        data = random_data(desc.input_tensor, np.random.default_rng(0))
        indices = np.array([values], np.int64 if signed else np.uint64)
        check_model_against_reference(
            Case(desc, data, indices), policy, 17, known=False, target="cpu"
        )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", [n for n in DIRECTED if n != "portable"])
def test_indices_carried_in_float64(
    name: str, policy: OutOfRange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_indices, "EXACT_FLOAT", 3)
    desc, _ = DIRECTED[name]
    rng = np.random.default_rng(0)
    case = Case(desc, random_data(desc.input_tensor, rng), random_indices(desc, rng, wild=0.3))
    check_model_against_reference(case, policy, 17, known=False, target="cpu")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("output", [[1, 96], [2, 48]])
@pytest.mark.parametrize("index_type", ["INT64", "INT32", "UINT64", "UINT32"])
def test_short_elements_tile_by_tile(
    index_type: str, output: list[int], policy: OutOfRange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_fits, "TILE", 8)
    indices = T(index_type, output)
    desc = og.GatherDesc(T("UINT8", [1, 50]), indices, T("UINT8", output), 1, 2)
    for wild in (0.0, 0.3):
        rng = np.random.default_rng(0)
        data = random_data(desc.input_tensor, rng)
        case = Case(desc, data, random_indices(desc, rng, wild=wild))
        check_model_against_reference(case, policy, 17, known=False, target="cpu")
    operators = [node.op for node in lower(desc, policy, None, "cpu").nodes]
    assert ("Scan" in operators) == (policy != "directml")


@pytest.mark.parametrize(
    ("values", "operators"),
    [
        ([2, 3, 4, 5], ["Slice"]),
        ([8, 6, 4, 2, 0], ["Slice"]),
        ([3, 3, 3, 3], ["Slice", "Expand"]),
        ([5, 6, 7, 8, 0, 1, 2, 3, 4], ["Slice", "Slice", "Concat"]),
        ([1, 2, 3, 1, 2, 3, 1, 2, 3], ["Slice", "Tile"]),
        ([-2, -1, 0, 1], ["Slice", "Slice", "Concat"]),
        ([7, 8, 9, 99], None),
        ([4, 0, 2, 7, 7], None),
    ],
)
def test_known_patterns_need_no_gather(values: list[int], operators: list[str] | None) -> None:
    desc = a_gather(T("FLOAT32", [3, 9]), "INT64", len(values), [3, len(values)])
    data = random_data(desc.input_tensor, np.random.default_rng(0))
    case = Case(desc, data, np.array([values]))
    check_model_against_reference(case, "clamp", 17, known=True, target="cpu")
    graph = lower(desc, "clamp", case.indices, "cpu")
    if operators is None:
        assert not graph.choice.startswith("pattern")
    else:
        assert [node.op for node in graph.nodes] == operators


LARGE = 4_000_000


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "kind", ["elements", "columns", "rows", "narrow", "tuples", "strided", "slices"]
)
def test_no_initializer_grows_with_the_output(kind: str, policy: OutOfRange) -> None:
    t, count = og.TensorDesc, LARGE
    desc: og.Descriptor = {
        "elements": og.GatherDesc(
            t("FLOAT32", [1000]), t("UINT32", [count]), t("FLOAT32", [count]), 0, 1
        ),
        "columns": og.GatherDesc(
            t("FLOAT32", [2000, 3000]),
            t("UINT32", [1, 2000]),
            t("FLOAT32", [2000, 2000]),
            1,
            1,
        ),
        "rows": og.GatherDesc(
            t("FLOAT32", [1000, 400]), t("INT64", [1, 10000]), t("FLOAT32", [10000, 400]), 0, 1
        ),
        "narrow": og.GatherDesc(
            t("FLOAT32", [1000, 3]), t("INT32", [1, count]), t("FLOAT32", [count, 3]), 0, 1
        ),
        "tuples": og.GatherNDDesc(
            t("FLOAT32", [1000, 1000]), t("UINT64", [count, 2]), t("FLOAT32", [1, count]), 2, 2
        ),
        "slices": og.GatherElementsDesc(
            t("FLOAT32", [4, 2**19, 2]),
            t("UINT32", [4, 2**19, 2]),
            t("FLOAT32", [4, 2**19, 2]),
            axis=2,
        ),
        "strided": og.GatherDesc(
            t("FLOAT32", [2000, 3000], [3001, 1]),
            t("UINT32", [1, 2000]),
            t("FLOAT32", [2000, 2000]),
            1,
            1,
        ),
    }[kind]
    model = og.to_onnx(desc, policy, "cpu")
    assert model.ByteSize() < 100_000
    assert math.prod(desc.output_tensor.sizes) >= LARGE


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("tuple_", [[3, -1], [0, 4]])
def test_one_known_tuple(tuple_: list[int], policy: OutOfRange) -> None:
    t = og.TensorDesc
    desc = og.GatherNDDesc(t("UINT8", [4, 5]), t("INT64", [1, 2]), t("UINT8", [1, 1]), 2, 1)
    data = random_data(desc.input_tensor, np.random.default_rng(0))
    case = Case(desc, data, np.array([tuple_]))
    check_model_against_reference(case, policy, 17, known=True, target="cpu")


def test_show_says_which_form_was_taken_and_why() -> None:
    desc = og.GatherDesc(
        og.TensorDesc("FLOAT32", [1000]),
        og.TensorDesc("UINT32", [5000]),
        og.TensorDesc("FLOAT32", [5000]),
        axis=0,
        index_dimensions=1,
    )
    assert lower(desc, "clamp", target="cpu").choice == (
        "elements: single elements of one table come fastest in one row of GatherElements; "
        "0.08 to 0.27"
    )
    assert lower(desc, "clamp").choice == ""


def test_run_takes_the_cpu_forms() -> None:
    rng = np.random.default_rng(0)
    desc = og.GatherNDDesc(
        og.TensorDesc("FLOAT32", [100, 200]),
        og.TensorDesc("INT64", [5000, 2]),
        og.TensorDesc("FLOAT32", [1, 5000]),
        2,
        2,
    )
    data = random_data(desc.input_tensor, rng)
    indices = random_indices(desc, rng, wild=0.1)
    assert same(og.run(desc, data, indices), og.reference(desc, data, indices))
