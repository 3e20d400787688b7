"""Portable graphs: ONNX's own operator wherever the data is packed, and no rank above
8."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from agreement import POLICIES, check_model_against_reference
from corpus_cases import descriptor_cases
from messages import rows_of
from rings import by_ring, one_quick_in
from short_descriptors import descriptor
from strategies import random_case

import onnxgather as og
from onnxgather.checking.corpus import random_cases
from onnxgather.core.descriptors.operators import FACTS
from onnxgather.core.descriptors.spelling import tensors
from onnxgather.core.execution.runtime import CPU, Opened, Setup
from onnxgather.core.gather import gather_of
from onnxgather.core.lowering import lower
from onnxgather.core.options import OutOfRange, Target

T = og.TensorDesc
RANDOM = by_ring(200, 1_000)


HIGH_RANKS = {
    name: descriptor(text)
    for name, text in rows_of("""
GATHER of one index
GATHER: FLOAT32 3x3x3x2x1x3x2x1, INT64 1x1x1x1x1x1x1x1, FLOAT32 1x3x3x3x2x1x3x2, 7, 0

GATHER of one index in the middle
GATHER: FLOAT32 1x2x1x3x4x3x1x2, INT64 1x1x1x1x1x1x1x1, FLOAT32 1x1x2x1x3x3x1x2, 4, 0

GATHER_ND1 of three batches
GATHER_ND1: FLOAT32 1x1x3x2x3x3x1x2, INT64 1x1x1x1x1x3x2x3,
FLOAT32 1x1x1x1x1x3x2x2, 7, 4, 3

GATHER_ND of elements
GATHER_ND: FLOAT32 1x1x1x1x1x3x4x5, INT64 1x1x1x1x2x2x2x3, FLOAT32 1x1x1x1x1x2x2x2, 3, 4

GATHER_ND of one element
GATHER_ND: FLOAT32 1x2x1x1x3x1x1x2, INT64 1x1x1x1x1x1x1x8, FLOAT32 1x1x1x1x1x1x1x1, 8, 1

GATHER_ND1 of one element
GATHER_ND1: FLOAT32 1x1x1x1x1x1x4x3, INT64 1x1x1x1x1x1x1x2,
FLOAT32 1x1x1x1x1x1x1x1, 2, 1, 0
""")
}
"""Descriptors whose node would have 9 dimensions or more if it had the output's leading
ones."""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", one_quick_in(6, HIGH_RANKS))
def test_a_node_of_high_rank_equals_the_reference(
    name: str, policy: OutOfRange
) -> None:
    desc = HIGH_RANKS[name]
    for seed, wild in ((0, 0.0), (1, 0.3), (2, 1.0)):
        case = random_case(desc, seed, wild)
        # Under "directml" WebGPU's model limits offsets as UINT32, which the CPU
        # provider of ONNX Runtime 1.24 has no Where for.
        targets: list[Target] = [
            "portable",
            "cpu",
            *(["webgpu"] if policy != "directml" else []),
        ]
        for target, known in product(targets, (False, True)):
            check_model_against_reference(case, policy, 17, known=known, target=target)


@pytest.mark.parametrize("index_type", ["INT32", "INT64"])
@pytest.mark.parametrize("size", [2**24 - 1, 2**24, 2**24 + 1])
def test_webgpu_s_model_sees_the_first_index_before_an_axis_at_the_limit_of_float32(
    size: int, index_type: str
) -> None:
    desc = descriptor(
        f"GATHER: FLOAT32 {size} strides 0, {index_type} 5, FLOAT32 5, 0, 1"
    )
    data = np.array([7], np.float32)
    indices = np.array(
        [-size - 2, -size - 1, -size, size - 1, size], index_type.lower()
    )
    zeroed = og.run(desc, data, indices, "zero", target="webgpu")
    assert zeroed.tolist() == [0, 0, 7, 7, 0]
    model = og.to_onnx(desc, "error", "webgpu").SerializeToString()
    runs = Opened(model, Setup(CPU, 1)).run
    for index, is_inside in zip(
        indices, (False, False, True, True, False), strict=True
    ):
        feed = {"InputTensor": data, "IndicesTensor": np.full(5, index)}
        if is_inside:
            assert runs(feed).tolist() == [7] * 5
            continue
        with pytest.raises(Exception, match="out of data bounds"):
            runs(feed)


@pytest.mark.parametrize("name", HIGH_RANKS)
def test_a_node_of_high_rank_stands_between_reshapes(name: str) -> None:
    desc = HIGH_RANKS[name]
    *before, node, last = [node.op for node in lower(desc, "error").nodes]
    assert (node, last) == (FACTS[desc.operator].onnx, "Reshape")
    assert {*before} == {"Reshape"}


@pytest.mark.parametrize("name", HIGH_RANKS)
def test_the_provider_rebuilds_a_descriptor_of_high_rank_but_for_leading_ones(
    name: str,
) -> None:
    desc = HIGH_RANKS[name]
    node = gather_of(desc).node()
    data, indices = ("FLOAT32", node.data), ("INT64", node.indices)
    found = og.from_onnx(node.onnx, data, indices, node.number, node.number)
    pairs = zip(tensors(desc).values(), tensors(found).values(), strict=True)
    for one, other in pairs:
        count = min(len(one.sizes), len(other.sizes))
        assert one.sizes[-count:] == other.sizes[-count:]
        assert {*one.sizes[:-count], *other.sizes[:-count]} <= {1}


def test_packed_data_is_gathered_by_onnx_s_own_operator() -> None:
    found: Counter[tuple[str, str]] = Counter()
    for case in (*descriptor_cases(), *random_cases(RANDOM, 23)):
        if case.out_of_range == "directml":
            continue
        desc, node = case.descriptor, gather_of(case.descriptor).node()
        graph = lower(desc, case.out_of_range)
        assert max(len(value.shape) for value in graph.values.values()) <= 8, case.name
        assert ("index_offsets" in graph.values) != desc.input_tensor.is_plain, (
            case.name
        )
        if desc.input_tensor.is_plain:
            asked = (node.onnx, node.number)
            numbers = [
                (each.op, each.attributes.get(node.attribute)) for each in graph.nodes
            ]
            assert asked in numbers, case.name
            found[desc.operator, graph.nodes[-1].op] += 1
    reshaped = {operator for operator, last in found if last == "Reshape"}
    assert reshaped == {"GATHER", "GATHER_ND", "GATHER_ND1"}
