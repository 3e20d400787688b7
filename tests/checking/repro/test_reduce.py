"""A planted fault comes down to a handful of elements, and stays the same fault."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lane_cases import vector_gather
from rings import one_quick_in
from short_descriptors import descriptor, tensor_desc
from strategies import cases

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase, ForbiddenNode, NodeCase
from onnxgather.checking.corpus.built_in import forbidden_cases
from onnxgather.checking.descriptor_layouts import STRIDES
from onnxgather.checking.judge import KINDS, judge
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.checking.repro.candidates import Candidate, candidate_of, case_of
from onnxgather.checking.repro.reduce import (
    Fault,
    fewer_dimensions,
    reduce_case,
    shorter_axes,
)
from onnxgather.checking.results import Result, ResultKind
from onnxgather.core.descriptors.arrays import Array, axis_sizes, elements

WRONG = Fault(ResultKind.ELEMENTS)
NO_FAULT = ("PASS", "NOT-RUN")
INFO = LaneInfo("fake", "FakeExecutionProvider", {"onnxruntime": "9.9.9"})


@dataclass
class FakeLane:
    """A lane that computes with the reference, but where a fault is planted."""

    fault: Callable[[Case], bool]
    name: str = "fake"
    asked: int = 0

    def start(self) -> LaneInfo:
        return INFO

    def answer(self, case: Case) -> Answer:
        self.asked += 1
        expected = case.expected()
        if isinstance(expected, str):
            return Answer(AnswerKind.FAILED, "out of range", ("Gather",))
        if self.fault(case):
            expected = expected.copy()
            expected.view(f"u{expected.itemsize}")[...] ^= 1
        return Answer(AnswerKind.RAN, None, ("Gather",), expected)

    def close(self) -> None:
        pass


def shows(fault: Fault, lane: FakeLane) -> Callable[[Case], bool]:
    """Return what tells whether a case shows a fault on a lane."""
    return lambda case: Fault.of(judge(case, INFO, lane.answer(case))) == fault


def reduced(case: Case, fault: Callable[[Case], bool]) -> Case:
    """Return a case reduced on a lane with a fault."""
    lane = FakeLane(fault)
    assert Fault.of(judge(case, INFO, lane.answer(case))) == WRONG
    return reduce_case(case, shows(WRONG, lane))


def descriptor_of(case: Case) -> Any:
    assert isinstance(case, DescriptorCase)
    return case.descriptor


def counts(case: Case) -> tuple[int, int, int]:
    """Return how many elements the three tensors of a case have."""
    desc = descriptor_of(case)
    three = (desc.input_tensor, desc.indices_tensor, desc.output_tensor)
    return tuple(math.prod(tensor.sizes) for tensor in three)  # type: ignore[return-value]


SEVEN = """
GATHER: DATA 1x2x3x4x3x3x2, INT32 1x1x1x1x1x5x2, DATA 2x3x4x5x2x3x2, 4, 2
GATHER_ELEMENTS: DATA 2x3x4x3x2x3x2, INT32 2x3x4x3x5x3x2, DATA 2x3x4x3x5x3x2, 4
GATHER_ND: DATA 2x3x4x3x2x3x2, INT32 1x1x1x1x5x4x3, DATA 1x5x4x3x2x3x2, 7, 3
GATHER_ND1: DATA 2x3x4x3x2x3x2, INT32 1x1x2x3x5x4x2, DATA 2x3x5x4x2x3x2, 7, 5, 2
"""


def seven(operator: str, data_type: str = "FLOAT16") -> Case:
    """A case in 7 dimensions, with indices of every kind in range."""
    (line,) = [one for one in SEVEN.splitlines() if one.startswith(f"{operator}:")]
    desc: og.Descriptor = descriptor(line.replace("DATA", data_type))
    rng = np.random.default_rng(7)
    sizes = np.array(axis_sizes(desc))
    values = rng.integers(-sizes, sizes, desc.indices_tensor.sizes)
    values[..., 0, :], values[..., 1, :] = sizes - 1, -1
    data = rng.integers(1, 100, desc.input_tensor.sizes)
    data = data.astype(desc.input_tensor.data_type.numpy)
    return DescriptorCase("seven", desc, data, values.astype(np.int32))


def has_negative(case: Case) -> bool:
    return bool((case.indices < 0).any())


def has_last(case: Case) -> bool:
    desc = descriptor_of(case)
    last = np.array(axis_sizes(desc)) - 1
    values = elements(desc.indices_tensor, case.indices)
    return bool(((values == last) & (last > 0)).any())


def has_batches(case: Case) -> bool:
    return getattr(descriptor_of(case), "batches", 0) >= 2 and case.indices.max() > 0


def has_dimension_behind(case: Case) -> bool:
    return math.prod(candidate_of(case).gather.behind) > 1


FAULTS = [has_negative, has_last, has_dimension_behind]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operator", one_quick_in(4, og.OPERATORS))
def test_a_fault_in_seven_dimensions_comes_down_to_eight_elements(
    operator: str, fault: Callable[[Case], bool]
) -> None:
    case = seven(operator)
    assert descriptor_of(case).input_tensor.dimension_count == 7
    assert min(counts(case)) > 4
    result = reduced(case, fault)
    assert fault(result)
    assert max(counts(result)) <= 8
    assert descriptor_of(result).input_tensor.dimension_count <= 3
    assert (result.data_type, result.index_type) == ("FLOAT32", "INT64")
    assert result.out_of_range == "error"


def test_two_batches_stay_two() -> None:
    result = reduced(seven("GATHER_ND1"), has_batches)
    assert descriptor_of(result) == descriptor(
        "GATHER_ND1: FLOAT32 1x1x2, INT64 1x1x1, FLOAT32 1x1x1, 3, 3, 2"
    )
    assert (result.data.tolist(), result.indices.tolist()) == ([[[1, 2]]], [[[1]]])


def test_without_batches_gather_nd_is_enough() -> None:
    result = reduced(seven("GATHER_ND1"), has_negative)
    assert descriptor_of(result).operator == "GATHER_ND"
    assert result.indices.reshape(-1).tolist() == [-1]


def test_the_same_case_gives_the_same_result() -> None:
    one, two = (reduced(seven("GATHER_ND1"), has_last) for _ in range(2))
    assert descriptor_of(one) == descriptor_of(two)
    assert one.data.tobytes() == two.data.tobytes()
    assert one.indices.tobytes() == two.indices.tobytes()


def test_tries_are_counted() -> None:
    lane = FakeLane(has_last)
    shown = shows(WRONG, lane)
    for most in (0, 1, 10):
        lane.asked = 0
        reduce_case(seven("GATHER_ND1"), shown, most)
        assert lane.asked == most
    lane.asked = 0
    reduce_case(seven("GATHER_ND1"), shown)
    assert lane.asked < 300


def test_the_first_steps_are_the_big_ones() -> None:
    lane = FakeLane(has_last)
    shown = shows(WRONG, lane)
    few = reduce_case(seven("GATHER_ELEMENTS"), shown, 12)
    assert max(counts(few)) * 8 < max(counts(seven("GATHER_ELEMENTS")))


class TestWhatTheFaultNeedsStays:
    def case(self) -> Case:
        """A case with everything odd about it."""
        desc = descriptor(
            "GATHER: UINT8 1x4x3 strides 0x1x5 bytes 40 flags OWNED_BY_DML,"
            " UINT64 1x1x3 strides 9x9x2 bytes 64 alignment 16,"
            " UINT8 1x4x3 strides 40x9x2, 2, 1"
        )
        data = np.arange(40, dtype=np.uint8)
        indices = np.array([0, 5, 1, 5, 2**63, 5, 5, 5], np.uint64)
        return DescriptorCase("odd", desc, data, indices, "zero")

    def test_nothing_stays_that_the_fault_does_not_need(self) -> None:
        result = reduced(self.case(), lambda case: True)
        assert descriptor_of(result) == vector_gather(1)
        assert (result.data.tolist(), result.indices.tolist()) == ([1], [0])
        assert result.out_of_range == "error"

    NEEDS: dict[str, Callable[[Any], bool]] = {
        "input_strides": lambda desc: desc.input_tensor.strides is not None,
        "indices_strides": lambda desc: desc.indices_tensor.strides is not None,
        "output_strides": lambda desc: desc.output_tensor.strides is not None,
        "column_major": lambda desc: (
            not desc.input_tensor.is_packed and 0 not in desc.input_tensor.strides[1:]
        ),
        "output_gaps": lambda desc: not desc.output_tensor.is_plain,
        "owned": lambda desc: desc.input_tensor.flags != 0,
        "alignment": lambda desc: (
            desc.indices_tensor.guaranteed_base_offset_alignment > 0
        ),
        "padding": lambda desc: (
            desc.input_tensor.total_tensor_size_in_bytes
            > desc.input_tensor.default_total_tensor_size_in_bytes
        ),
        "index_type": lambda desc: desc.indices_tensor.data_type == "UINT64",
        "data_type": lambda desc: desc.input_tensor.data_type == "UINT8",
    }

    @pytest.mark.parametrize("need", one_quick_in(3, NEEDS))
    def test_what_the_fault_needs_stays(self, need: str) -> None:
        fault = self.NEEDS[need]
        result = reduced(self.case(), lambda case: fault(descriptor_of(case)))
        assert fault(descriptor_of(result))
        assert max(counts(result)) <= 4

    def test_a_policy_that_the_fault_needs_stays(self) -> None:
        result = reduced(self.case(), lambda case: case.out_of_range == "zero")
        assert result.out_of_range == "zero"

    def test_zero_becomes_clamp_where_indices_must_be_out_of_range(self) -> None:
        result = reduced(self.case(), lambda case: not case.in_range)
        assert result.out_of_range == "clamp"
        assert result.indices.tolist() == [1]
        assert max(counts(result)) == 1

    def test_a_far_index_comes_as_near_as_the_fault_allows(self) -> None:
        result = reduced(self.case(), lambda case: bool((case.indices >= 2**40).any()))
        assert result.indices.tolist() == [2**40]

    def test_other_bits_of_the_data_stay(self) -> None:
        case = seven("GATHER", "FLOAT32")
        case.data[0, 1, 2, 3, 2, 1, 1] = np.nan
        result = reduced(case, lambda case: bool(np.isnan(case.data).any()))
        assert result.data.size == 1

    def test_operators_around_the_gather_go_unless_they_matter(self) -> None:
        case = seven("GATHER").wrapped_in()
        assert not reduced(case, has_negative).wrapped
        assert reduced(case, lambda case: case.wrapped).wrapped

    def test_a_huge_tensor_of_one_element_is_never_written_out(self) -> None:
        desc = og.GatherDesc(
            og.TensorDesc("FLOAT32", [2**31, 1], [0, 1]),
            tensor_desc("INT64 1x2"),
            tensor_desc("FLOAT32 2x1"),
            axis=0,
            index_dimensions=1,
        )
        case = DescriptorCase(
            "huge", desc, np.ones(1, np.float32), np.array([[2**31 - 1, -5]])
        )
        result = reduced(case, has_negative)
        assert (result.data.tolist(), result.indices.tolist()) == ([1], [-1])
        stays = reduced(
            case, lambda case: descriptor_of(case).input_tensor.sizes[0] > 2**30
        )
        assert descriptor_of(stays) == desc

    def test_names_and_places_stay(self) -> None:
        assert reduced(seven("GATHER"), has_negative).name == "seven"


class TestMoves:
    """Candidates, whatever shows the fault."""

    def candidate(self) -> Candidate:
        indices = np.array([0, 3, -1, -4, 4, 9, -5, -9])
        return Candidate(
            "GATHER", 1, np.arange(8, dtype=np.float32).reshape(2, 4), indices
        )

    def test_shorter_axes_bring_the_indices_along(self) -> None:
        found = [
            candidate
            for candidate in shorter_axes(self.candidate())
            if candidate.data.shape[1] == 2
        ]
        clamped = [0, 1, -1, -2, 2, 7, -3, -7]
        assert [candidate.indices.tolist() for candidate in found] == [clamped] * 2
        first, last = [[0, 1], [4, 5]], [[2, 3], [6, 7]]
        assert [candidate.data.tolist() for candidate in found] == [first, last]
        three = [
            candidate.indices.tolist() for candidate in shorter_axes(self.candidate())
        ][-2:]
        assert three == [[0, 2, -1, -3, 3, 8, -4, -8]] * 2

    def test_shorter_axes_bring_unsigned_indices_along_too(self) -> None:
        indices = np.array([0, 3, 4, 2**64 - 1], np.uint64)
        candidate = replace(self.candidate(), indices=indices)
        found = [candidate.indices.tolist() for candidate in shorter_axes(candidate)]
        assert found[:2] == [[0, 0, 1, 2**64 - 4]] * 2

    def test_dimensions_go_with_their_first_or_last_element(self) -> None:
        found = [
            (candidate.number, candidate.data.tolist())
            for candidate in fewer_dimensions(self.candidate())
        ]
        assert found[:2] == [(0, [0, 1, 2, 3]), (0, [4, 5, 6, 7])]
        indices = [
            candidate.indices.tolist()
            for candidate in fewer_dimensions(self.candidate())
        ]
        assert indices[2:] == [0, -9]

    def test_strides_of_every_kind_follow_from_the_sizes(self) -> None:
        found = {name: strides((2, 3, 4)) for name, strides in STRIDES.items()}
        assert found == {
            "written-out": (12, 4, 1),
            "permuted": (1, 2, 6),
            "spaced": (24, 8, 2),
            "repeated": (0, 0, 0),
            "padded": (24, 7, 1),
            "broadcast": (0, 4, 1),
            "overlapping": (1, 1, 1),
        }


MISMATCHED = NodeCase(
    "mismatched",
    ForbiddenNode(
        "GatherND", {"batch_dims": 1}, (2, 6, 5), "batch sizes must not differ"
    ),
    np.arange(60, dtype=np.float32).reshape(3, 4, 5),
    np.arange(12).reshape(2, 6, 1) % 4,
)


class TestForbiddenNodes:
    def still(self, case: Case) -> bool:
        """The fault of a provider that runs whatever it is given."""
        result = judge(
            case,
            INFO,
            Answer(AnswerKind.RAN, None, ("GatherND",), np.zeros(3, np.float32)),
        )
        return Fault.of(result) == Fault(ResultKind.NOT_REFUSED, "unknown")

    def test_a_forbidden_node_stays_forbidden(self) -> None:
        result = reduce_case(MISMATCHED, self.still)
        assert isinstance(result, NodeCase)
        assert result.node == ForbiddenNode(
            "GatherND",
            {"batch_dims": 1},
            (2,),
            "batch sizes must not differ",
        )
        assert (result.data.tolist(), result.indices.tolist()) == ([[1]], [[0], [0]])

    def test_a_scalar_comes_from_a_scalar_only(self) -> None:
        assert reduced(seven("GATHER"), lambda case: True).indices.shape == (1,)
        desc = vector_gather(4, index_dimensions=0)
        case = DescriptorCase(
            "scalar", desc, np.arange(4, dtype=np.float32), np.array([3])
        )
        assert descriptor_of(reduced(case, lambda case: True)).index_dimensions == 0

    def test_no_candidate_has_a_bigger_output(self) -> None:
        node = ForbiddenNode(
            "GatherND", {"batch_dims": 1}, (2, 6), "batch sizes must not differ"
        )
        indices = np.zeros((2, 6, 2), np.int64)
        asked: list[int] = []

        def still(case: Case) -> bool:
            assert isinstance(case, NodeCase)
            asked.append(math.prod(case.node.output_shape))
            return False

        reduce_case(replace(MISMATCHED, indices=indices, node=node), still)
        assert max(asked) == 12

    def test_of_a_rule_that_is_not_known_only_values_change(self) -> None:
        node = ForbiddenNode("Gather", {"axis": 0}, (2, 4, 5), "a rule of tomorrow")
        data, indices = MISMATCHED.data, np.array([1, 2])
        case = replace(MISMATCHED, data=data, indices=indices, node=node)
        result = reduce_case(case, self.still)
        assert isinstance(result, NodeCase)
        assert result.node == node
        assert result.indices.tolist() == [0, 0]


@pytest.mark.parametrize("case", [*forbidden_cases()], ids=lambda case: case.name)
def test_forbidden_nodes_of_the_corpus_stay_forbidden(case: NodeCase) -> None:
    result = reduce_case(case, TestForbiddenNodes().still)
    assert isinstance(result, NodeCase)
    before, after = (re.sub(r"[\W\d]+", " ", each.node.rule) for each in (case, result))
    assert before == after
    for each in (case, result):
        candidate = candidate_of(each)
        assert each.node.rule == candidate.gather.broken_rule(candidate.index_type)
    assert result.data.size <= 4


FAULTS_OF_RESULTS = """\
elements {"differing": 3, "compared": 4}:
shape {"got": {"data_type": "int8", "shape": [3]}}:
not-refused {"returned": "zeros", "rule": "no"}: zeros
broken {"breakdown": "died", "detail": "SIGSEGV"}: died sigsegv
broken {"breakdown": "exited", "detail": "3"}: exited
broken {"breakdown": "stray", "detail": "oh"}: stray
failed {"message": "size 3 of {2,3} is not 4"}: size of is not
not-taken {"message": "no type 12"}: no type
"""


@pytest.mark.parametrize("row", FAULTS_OF_RESULTS.splitlines())
def test_kinds_of_faults(row: str) -> None:
    found, _, what = row.rpartition(":")
    kind, _, facts = found.partition(" ")
    fields = {"lane": "fake", "state": KINDS[ResultKind(kind)][0], "kind": kind}
    result = msgspec.convert(fields | json.loads(facts), Result)
    assert Fault.of(result) == Fault(ResultKind(kind), what.strip())


@pytest.mark.parametrize(
    "kind", [kind for kind in ResultKind if KINDS[kind][0] in NO_FAULT]
)
def test_these_kinds_of_results_are_no_fault(kind: ResultKind) -> None:
    assert Fault.of(Result("fake", KINDS[kind][0], kind, "whatever")) is None


def test_one_fault_does_not_become_another() -> None:
    class Lane(FakeLane):
        def answer(self, case: Case) -> Answer:
            if case.data.size < 20:  # a second fault, which small cases show
                return Answer(
                    AnswerKind.RAN, None, ("Gather",), np.zeros(1, np.float64)
                )
            return super().answer(case)

    lane = Lane(has_negative)
    shown = shows(WRONG, lane)
    result = reduce_case(seven("GATHER"), shown)
    assert shown(result)
    assert 20 <= result.data.size < 40


@given(cases(), st.sampled_from(["clamp", "zero", "directml"]))
def test_a_case_taken_apart_and_put_together_is_the_same(
    case: Any, policy: Any
) -> None:
    original = DescriptorCase("law", case.desc, case.data, case.indices, policy)
    rebuilt = case_of(candidate_of(original), "law", policy)
    assert descriptor_of(rebuilt) == without_cropped_ones(case.desc)
    if policy != "directml":  # which may read what lies between the elements
        assert expected(rebuilt).tobytes() == expected(original).tobytes()


def without_cropped_ones(desc: og.Descriptor) -> og.Descriptor:
    """A descriptor without the ones of the indices that the output of a GATHER
    crops."""
    if not isinstance(desc, og.GatherDesc):
        return desc
    return msgspec.structs.replace(
        desc, index_dimensions=min(desc.index_dimensions, desc.axis + 1)
    )


def expected(case: Case) -> Array:
    found = case.expected()
    assert not isinstance(found, str)
    return found


PREDICATES: dict[str, Callable[[Case], bool]] = {
    "any": lambda case: True,
    "output": lambda case: expected(case).size > 2,
    "index": lambda case: bool((case.indices != 0).any()),
    "outside": lambda case: not case.in_range,
    "rank": lambda case: case.dimension_count > 2,
    "strides": lambda case: descriptor_of(case).input_tensor.strides is not None,
    "axis": lambda case: max(axis_sizes(descriptor_of(case))) > 2,
}


@pytest.mark.slow
@given(
    cases(),
    st.sampled_from(sorted(PREDICATES)),
    st.sampled_from(["clamp", "zero", "directml"]),
)
def test_a_reduced_case_still_shows_the_fault_and_is_never_bigger(
    case: Any, name: str, policy: Any
) -> None:
    original = DescriptorCase("law", case.desc, case.data, case.indices, policy)
    fault = PREDICATES[name]
    if not fault(original):
        return
    result = reduced(original, fault)
    assert fault(result)
    pairs = zip(counts(result), counts(original), strict=True)
    assert all(after <= before for after, before in pairs)
    assert result.dimension_count <= original.dimension_count
    again = reduced(result, fault)
    assert counts(again) == counts(result)
