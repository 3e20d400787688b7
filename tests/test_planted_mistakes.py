"""The suite sees mistakes: each of these, planted into the lowering, makes a check
fail."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from recordings import IN_RANGE, OUT_OF_RANGE, recorded
from rings import one_quick_in
from runtime_faults import needs_compared_halves
from short_descriptors import descriptor, tensor_desc
from strategies import random_data, random_indices

import onnxgather as og
from onnxgather.core.descriptors.strides import Span
from onnxgather.core.errors import ProviderError
from onnxgather.core.execution.session import Session
from onnxgather.core.gather import Geometry, gather_of
from onnxgather.core.lowering import graph, offsets, portable, positions
from onnxgather.core.options import OutOfRange

Patch = Callable[[pytest.MonkeyPatch], None]


def differs(policy: OutOfRange, *, wild: bool = False) -> bool:
    """Return whether a model of every eighth recorded case gives other bytes than the
    reference."""
    for number, case in enumerate((OUT_OF_RANGE if wild else IN_RANGE)[::8]):
        desc, data, indices, _ = recorded(case)
        try:
            expected = og.reference(desc, data, indices, policy)
        except og.IndexOutOfRangeError:
            rng = np.random.default_rng(number)
            data = random_data(desc.input_tensor, rng)
            indices = random_indices(desc, rng, wild=0)
            expected = og.reference(desc, data, indices, policy)
        try:
            session = Session(og.to_onnx(desc, policy), threads=1)
            found = session.run({"InputTensor": data, "IndicesTensor": indices})
        except (ProviderError, ValueError):
            # refused, by ONNX Runtime or in the lowering
            return True
        if (found.shape, found.tobytes()) != (expected.shape, expected.tobytes()):
            return True
    return False


def change_node(change: Callable[[Geometry], Geometry]) -> Patch:
    """Return a patch that changes the node of the portable lowering."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        find = portable.node_of

        def changed(desc: og.Descriptor, gather: Geometry) -> Geometry | None:
            node = find(desc, gather)
            return node and change(node)

        monkeypatch.setattr(portable, "node_of", changed)

    return patch


def axis_off_by_one(node: Geometry) -> Geometry:
    """Gather along the dimension before."""
    return node if node.has_tuples else replace(node, number=max(0, node.number - 1))


def ignored_batch_count(node: Geometry) -> Geometry:
    """Read the batch dimensions as plain ones."""
    return replace(node, number=0) if node.has_tuples else node


def dropped_size(node: Geometry) -> Geometry:
    """Drop a leading one of the data, and leave the number of the indexed dimension as
    it is."""
    return (
        replace(node, data=node.data[1:])
        if node.data[0] == 1 < len(node.data)
        else node
    )


def merged_axis(node: Geometry) -> Geometry:
    """Merge the first indexed dimension with the one behind it."""
    front, both = node.data[: node.number], node.data[node.number : node.number + 2]
    return replace(node, data=(*front, math.prod(both), *node.data[node.number + 2 :]))


def change_gather(change: Callable[[Geometry, og.Descriptor], Geometry]) -> Patch:
    """Return a patch that changes what the lowering is told of a descriptor."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        def changed(desc: og.Descriptor) -> Geometry:
            return change(gather_of(desc), desc)

        monkeypatch.setattr(portable, "gather_of", changed)

    return patch


def batch_off_by_one(gather: Geometry, _: og.Descriptor) -> Geometry:
    """Count one batch dimension less."""
    batched = gather.has_tuples and gather.number
    return replace(gather, number=gather.number - 1) if batched else gather


def axis_not_shifted(gather: Geometry, desc: og.Descriptor) -> Geometry:
    """Leave Axis as it is where leading ones of the input are cropped."""
    if isinstance(desc, og.GatherDesc) and desc.axis < len(gather.data):
        return replace(gather, number=desc.axis)
    return gather


def tuples_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the last coordinate of a tuple choose from the first indexed dimension."""
    indexed = Geometry.indexed.fget
    assert indexed is not None
    monkeypatch.setattr(Geometry, "indexed", property(lambda self: indexed(self)[::-1]))


def limits_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clamp the coordinates of a tuple to one another's axes."""
    axes = Geometry.axes.fget
    assert axes is not None
    monkeypatch.setattr(Geometry, "axes", property(lambda self: axes(self)[::-1]))


def passed_one_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the position of each passed dimension from the one before it."""
    passed = Geometry.passed.fget
    assert passed is not None

    def moved(self: Geometry) -> list[tuple[int, int]]:
        rank = max(1, len(self.output))
        return [((o + rank - 1) % rank - rank, d) for o, d in passed(self)]

    monkeypatch.setattr(Geometry, "passed", property(moved))


def int32_cast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cast unsigned indices to INT32, where 2^32 - 1 is -1."""
    cast = graph.Graph.cast

    def narrow(
        self: graph.Graph, value: graph.Value, dtype: Any, name: str, why: str
    ) -> Any:
        if value.dtype.kind == "u" and np.dtype(dtype) == np.int64:
            value = cast(self, value, np.int32, f"{name}_narrow", why)
        return cast(self, value, dtype, name, why)

    monkeypatch.setattr(graph.Graph, "cast", narrow)


def clamp_per_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clamp each index to its axis where DirectML reads on."""

    def clamped(g: graph.Graph, index: graph.Value, sizes: Any) -> graph.Value:
        value = offsets.clamp(g, index, sizes)
        value = g.cast(value, np.int64, "clamped_int64", "")
        return g.cast(
            offsets.non_negative(g, value, sizes), np.uint32, "clamped_uint32", ""
        )

    monkeypatch.setattr(offsets, "wrapped_word", clamped)


def dropped_stride(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count a passed dimension as if it were packed."""
    counted = positions.span_offsets

    def packed(g: graph.Graph, span: Span, rank: int, dtype: Any) -> graph.Value:
        return counted(g, Span(span.first, span.sizes, (1,)), rank, dtype)

    monkeypatch.setattr(offsets, "span_offsets", packed)
    monkeypatch.setattr(positions, "span_offsets", packed)


def unclamped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the clamp out."""

    def as_they_are(_: graph.Graph, index: graph.Value, __: Any) -> graph.Value:
        return index

    monkeypatch.setattr(portable, "clamp", as_they_are)
    monkeypatch.setattr(offsets, "clamp", as_they_are)


def clip_int64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clamp INT64 with Clip, which ONNX Runtime's CPU kernel gets wrong."""

    def clip(g: graph.Graph, index: graph.Value, sizes: Any) -> graph.Value:
        low = graph.constant("low", np.min(-sizes).astype(index.dtype))
        high = graph.constant("high", np.min(sizes - 1).astype(index.dtype))
        return g.add("Clip", "clipped", index, low, high, why="")

    monkeypatch.setattr(portable, "clamp", clip)
    monkeypatch.setattr(offsets, "clamp", clip)


MISTAKES: dict[str, tuple[Patch, OutOfRange, bool]] = {
    "axis off by one": (change_node(axis_off_by_one), "clamp", False),
    "ignored batch count": (change_node(ignored_batch_count), "clamp", False),
    "dropped size": (change_node(dropped_size), "clamp", False),
    "merged axis": (change_node(merged_axis), "clamp", False),
    "batch dimension off by one": (change_gather(batch_off_by_one), "clamp", False),
    "axis not shifted": (change_gather(axis_not_shifted), "clamp", False),
    "tuple coordinates backwards": (tuples_backwards, "clamp", False),
    "limits of coordinates backwards": (limits_backwards, "clamp", True),
    "passed dimension off by one": (passed_one_too_far, "clamp", False),
    "clamp per axis": (clamp_per_axis, "directml", True),
    "dropped stride": (dropped_stride, "clamp", False),
    "no clamp": (unclamped, "clamp", True),
}


@pytest.mark.parametrize("policy", one_quick_in(3, ["clamp", "zero", "directml"]))
def test_without_a_mistake_nothing_differs(policy: OutOfRange) -> None:
    assert not differs(policy)
    assert not differs(policy, wild=True)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, policy, wild = MISTAKES[name]
    patch(monkeypatch)
    assert differs(policy, wild=wild)


def one_index(index_type: str, index: int) -> tuple[og.Descriptor, Any, Any]:
    """Return a GATHER of one element of three, with its arrays."""
    desc = descriptor(f"GATHER: FLOAT32 3, {index_type} 1, FLOAT32 1, 0, 1")
    indices = np.array([index], desc.indices_tensor.data_type.numpy)
    return desc, np.array([1, 2, 3], np.float32), indices


def refuses(index_type: str, index: int) -> bool:
    """Return whether the model of policy "error" refuses an index, alone, without
    `run`."""
    desc, data, indices = one_index(index_type, index)
    session = Session(og.to_onnx(desc, "error"), threads=1)
    try:
        session.run({"InputTensor": data, "IndicesTensor": indices})
    except ProviderError:
        return True
    return False


WRAPPING = [
    ("UINT32", 2**32 - 1),
    ("UINT32", 2**32 - 3),
    ("UINT64", 2**64 - 1),
    ("UINT64", 2**63),
]


@pytest.mark.parametrize(
    ("index_type", "index"), [*WRAPPING, ("INT64", 3), ("INT32", -4)]
)
def test_model_refuses_indices_that_a_cast_could_wrap(
    index_type: str, index: int
) -> None:
    assert refuses(index_type, index)


def test_int32_cast_of_unsigned_indices_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    int32_cast(monkeypatch)
    assert not refuses("UINT32", 2**32 - 1)


def clamps(index: int) -> bool:
    """Return whether the model of policy "clamp" moves an INT64 index to the last
    element."""
    desc, data, indices = one_index("INT64", index)
    wide = msgspec.structs.replace(
        desc,
        indices_tensor=tensor_desc("INT64 8"),
        output_tensor=tensor_desc("FLOAT32 8"),
    )
    session = Session(og.to_onnx(wide), threads=1)
    try:
        found = session.run({"InputTensor": data, "IndicesTensor": indices.repeat(8)})
    except ProviderError:
        return False
    return found.tolist() == [3] * 8


@pytest.mark.parametrize("index", [3, 2**31, 2**32 - 1, 2**32, 2**63 - 1])
def test_int64_indices_are_clamped_whatever_their_low_half(index: int) -> None:
    assert clamps(index)


@needs_compared_halves
def test_clip_of_int64_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    clip_int64(monkeypatch)
    assert not clamps(2**32 - 1)
