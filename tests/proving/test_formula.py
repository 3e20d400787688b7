"""The formula names the elements that `reference`, `gather` and DirectML.dll name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from recordings import CROPPED, IN_RANGE, OUT_OF_RANGE, POLICIES, Recorded, recorded
from rings import by_ring

import onnxgather as og
from onnxgather.checking.corpus.sampling import random_cases
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.reference import source_map
from onnxgather.core.gather import Geometry, gather_of
from onnxgather.core.options import OutOfRange
from onnxgather.proving.formula import GatherFormula, Provenance, index_reader
from onnxgather.proving.terms import Int, Term, evaluate, inside, variable

Place = tuple[int, ...]

CASES = [*random_cases(by_ring(100, 600), 23112026)]


def formula_of(
    desc: og.Descriptor, policy: OutOfRange, indices: Array
) -> GatherFormula:
    """The formula, told of the indices."""
    known: list[int] = indices.reshape(-1).tolist()

    def index(position: Int) -> int:
        return known[evaluate(position, {})]

    return GatherFormula(desc, policy, index)


def places(tensor: og.TensorDesc) -> Iterator[Place]:
    """The coordinates of all elements of a tensor."""
    return itertools.product(*map(range, tensor.sizes))


def read_at(
    gather: Geometry, indices: Array, place: Place
) -> dict[int, tuple[int, bool]]:
    """The coordinates of the data as `gather` tells them, and whether each is an
    index."""
    found = {own: (place[output], False) for output, own in gather.passed}
    rank = len(gather.per_index)
    own = place[len(place) - gather.after - rank : len(place) - gather.after]
    if gather.onnx == "GatherElements":
        own = place[len(place) - rank :]
    for number, dimension in enumerate(gather.indexed):
        last = (number,) if gather.has_tuples else ()
        found[dimension] = int(indices[own + last]), True
    return found


def elements_of(tensor: og.TensorDesc, array: Array) -> Array:
    """The elements of a tensor with its sizes."""
    step = array.itemsize
    strides = [stride * step for stride in tensor.element_strides]
    return np.lib.stride_tricks.as_strided(array.reshape(-1), tensor.sizes, strides)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_formula_names_the_elements_of_the_reference(policy: OutOfRange) -> None:
    outside = 0
    for case in CASES:
        desc, count = (
            case.descriptor,
            math.prod(case.descriptor.input_tensor.array_shape),
        )
        formula = formula_of(desc, policy, case.indices)
        found = [formula.source(place) for place in places(desc.output_tensor)]
        if policy == "error" and any(one.outside for one in found):
            outside += 1
            with pytest.raises(og.IndexOutOfRangeError):
                og.reference(desc, case.data, case.indices, policy)
            continue
        wanted = source_map(desc, case.indices, policy).reshape(-1)
        is_input = (wanted >= 0) & (wanted < count)
        assert [bool(one.is_input) for one in found] == is_input.tolist(), case
        positions = [
            one.position for one, counts in zip(found, is_input, strict=True) if counts
        ]
        assert positions == wanted[is_input].tolist(), case
    assert (outside > len(CASES) // 5) == (policy == "error")


def test_the_formula_names_the_indices_out_of_range() -> None:
    for case in CASES:
        desc = case.descriptor
        formula = formula_of(desc, "error", case.indices)
        outside = [formula.is_outside(place) for place in places(desc.indices_tensor)]
        assert any(outside) == (not case.in_range), case
        zeroed = source_map(desc, case.indices, "zero") < 0
        found = [
            bool(formula.source(place).outside) for place in places(desc.output_tensor)
        ]
        assert found == zeroed.reshape(-1).tolist(), case


def test_the_formula_reads_what_the_geometry_of_the_gather_reads() -> None:
    for case in CASES:
        desc = case.descriptor
        gather, tensor = gather_of(desc), desc.input_tensor
        indices = elements_of(desc.indices_tensor, case.indices).reshape(gather.indices)
        formula = formula_of(desc, "clamp", case.indices)
        for place in places(desc.output_tensor):
            position = 0
            for dimension, (at, is_index) in read_at(gather, indices, place).items():
                size = tensor.sizes[dimension]
                if is_index:
                    at = min(max(at + size * (at < 0), 0), size - 1)
                position += at * tensor.element_strides[dimension]
            source = formula.source(place)
            assert (source.is_input, source.position) == (True, position), case


def valued(term: Int, coordinates: dict[Term, int], indices: list[int]) -> int:
    """The value of a term that reads the indices at known or unknown positions."""
    values = dict[Term, int](coordinates)
    for one in inside(term) if isinstance(term, Term) else ():
        if one.kind == "read":  # what it is made of has come before it
            values[one] = indices[evaluate(one.args[1], values)]
    return evaluate(term, values)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_formula_of_coordinates_that_are_not_known_is_that_of_each(
    policy: OutOfRange,
) -> None:
    for case in CASES[::8]:
        desc, indices = case.descriptor, case.indices.reshape(-1).tolist()
        known = formula_of(desc, policy, case.indices)
        sizes = desc.output_tensor.sizes
        own = [variable(f"o{k}", 0, size - 1) for k, size in enumerate(sizes)]
        source = GatherFormula(desc, policy, index_reader(desc.indices_tensor)).source(
            own
        )
        terms = source.is_input, source.position, source.outside
        for place in [*places(desc.output_tensor)][::7]:
            values = dict(zip(own, place, strict=True))
            found = Provenance(*(valued(term, values, indices) for term in terms))
            assert found == known.source(place), case
        sizes = desc.indices_tensor.sizes
        own = [variable(f"i{k}", 0, size - 1) for k, size in enumerate(sizes)]
        outside = GatherFormula(
            desc, policy, index_reader(desc.indices_tensor)
        ).is_outside(own)
        for place in [*places(desc.indices_tensor)][::7]:
            values = dict(zip(own, place, strict=True))
            assert known.is_outside(place) == valued(outside, values, indices)


def output_of(case: Recorded, policy: OutOfRange) -> bytes:
    """The elements of OutputTensor that the formula names."""
    formula = formula_of(case.desc, policy, case.indices)
    data = case.data.reshape(-1)
    found = np.zeros(math.prod(case.desc.output_tensor.sizes), data.dtype)
    for k, place in enumerate(places(case.desc.output_tensor)):
        source = formula.source(place)
        if source.is_input:
            found[k] = data[evaluate(source.position, {})]
    return found.tobytes()


@pytest.mark.parametrize("policy", POLICIES)
def test_the_formula_gives_what_directml_gave_for_indices_in_range(
    policy: OutOfRange,
) -> None:
    for case in map(recorded, IN_RANGE[:: by_ring(8, 1)]):
        assert output_of(case, policy) == case.output


def test_the_formula_gives_what_directml_gave_for_indices_out_of_range() -> None:
    for case in map(recorded, (OUT_OF_RANGE + CROPPED)[:: by_ring(8, 1)]):
        assert output_of(case, "directml") == case.output
