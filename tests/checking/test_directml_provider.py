"""What ONNX Runtime's DirectML provider makes of the models: the descriptors they came
from.

The provider's rule for bringing ONNX's operators in is restated here and applied to the
shapes found in the models, together with what a model must keep to for every provider.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st
from short_descriptors import descriptor
from strategies import descriptors, random_data, random_indices

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.options import OutOfRange

POLICIES: list[OutOfRange] = ["clamp", "error", "zero", "directml"]
GATHERS = ("Gather", "GatherElements", "GatherND")
MOVERS = {
    "Reshape": (0,),
    "Expand": (0,),
    "Concat": None,
    "Gather": (0,),
    "GatherElements": (0,),
    "GatherND": (0,),
    "ScatterElements": (0, 2),
}
"""Operators that move elements and change none, and the inputs that they move; None is
all."""

Sizes = tuple[int, ...]
ND_FIELDS = [
    "input_dimension_count",
    "indices_dimension_count",
    "batch_dimension_count",
]


@dataclass(frozen=True)
class Described:
    """A model with the element type and the shape of each of its values."""

    model: onnx.ModelProto
    types: Mapping[str, int]
    shapes: Mapping[str, Sizes]

    @property
    def gather(self) -> onnx.NodeProto:
        """The first node of the gather family: the only one, but for the zeros of
        "zero"."""
        return next(node for node in self.model.graph.node if node.op_type in GATHERS)


def describe(model: onnx.ModelProto) -> Described:
    """Return a model with what ONNX's own shape inference finds."""
    inference: Any = onnx.shape_inference
    graph = inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    types = {constant.name: constant.data_type for constant in graph.initializer}
    shapes = {constant.name: tuple(constant.dims) for constant in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        tensor = value.type.tensor_type
        assert all(dim.HasField("dim_value") for dim in tensor.shape.dim)
        types[value.name] = tensor.elem_type
        shapes[value.name] = tuple(dim.dim_value for dim in tensor.shape.dim)
    assert all(output in shapes for node in model.graph.node for output in node.output)
    return Described(model, types, shapes)


@dataclass(frozen=True)
class Rebuilt:
    """The fields of a DirectML descriptor."""

    operator: str
    data: Sizes
    indices: Sizes
    output: Sizes
    fields: Mapping[str, int]


def rebuild(described: Described) -> Rebuilt:
    """Return what the provider makes of the gather in a model.

    All tensors get leading ones up to the largest of their ranks. Gather counts the
    dimensions that the indices had, GatherND those that both had; an axis moves along.
    """
    node = described.gather
    data, indices = (described.shapes[name] for name in node.input)
    (output,) = (described.shapes[name] for name in node.output)
    count = max(len(data), len(indices), len(output))
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    axis = attributes.get("axis", 0)
    axis += (len(data) if axis < 0 else 0) + count - len(data)
    operator, fields = {
        "Gather": ("GATHER", {"axis": axis, "index_dimensions": len(indices)}),
        "GatherElements": ("GATHER_ELEMENTS", {"axis": axis}),
        "GatherND": (
            "GATHER_ND1",
            dict(
                zip(
                    ND_FIELDS,
                    (len(data), len(indices), attributes.get("batch_dims", 0)),
                    strict=True,
                )
            ),
        ),
    }[node.op_type]
    data, indices, output = (
        (1,) * (count - len(s)) + s for s in (data, indices, output)
    )
    return Rebuilt(operator, data, indices, output, fields)


def fields_of(desc: og.Descriptor) -> Rebuilt:
    """Return the fields of a descriptor; GATHER_ND counts as GATHER_ND1 without
    batches.

    Ones of the indices that a GATHER crops are not among its IndexDimensions.
    """
    operator, fields = desc.operator, {}
    if isinstance(desc, og.GatherDesc):
        rank = min(desc.index_dimensions, desc.axis + 1)
        fields = {"axis": desc.axis, "index_dimensions": rank}
    elif isinstance(desc, og.GatherElementsDesc):
        fields = {"axis": desc.axis}
    else:
        operator = "GATHER_ND1"
        ranks = desc.input_dimension_count, desc.indices_dimension_count
        fields = dict(zip(ND_FIELDS, (*ranks, desc.batches), strict=True))
    data, indices, output = desc.input_tensor, desc.indices_tensor, desc.output_tensor
    return Rebuilt(operator, data.sizes, indices.sizes, output.sizes, fields)


def check_same_meaning(desc: og.Descriptor, rebuilt: Rebuilt, seed: int) -> None:
    """Check that the rebuilt descriptor is valid and computes the same elements in
    order."""
    cls: Any = og.OPERATORS[rebuilt.operator]
    other: og.Descriptor = cls(
        og.TensorDesc(desc.input_tensor.data_type, rebuilt.data),
        og.TensorDesc(desc.indices_tensor.data_type, rebuilt.indices),
        og.TensorDesc(desc.output_tensor.data_type, rebuilt.output),
        **rebuilt.fields,
    )
    rng = np.random.default_rng(seed)
    data = random_data(desc.input_tensor, rng)
    indices = random_indices(desc, rng, wild=0.3)
    for policy in ("clamp", "zero"):
        expected = og.reference(desc, data, indices, policy)
        found = og.reference(
            other, data.reshape(rebuilt.data), indices.reshape(rebuilt.indices), policy
        )
        count = min(found.ndim, expected.ndim)  # they differ in leading ones alone
        assert found.shape[-count:] == expected.shape[-count:]
        assert found.tobytes() == expected.tobytes()


def check_offset_form(described: Described) -> None:
    """Check that a gather reads single elements of the flat buffer, which every rank
    allows."""
    rebuilt = rebuild(described)
    rank = len(rebuilt.output)
    assert rebuilt.operator == "GATHER"
    assert rebuilt.data == (1,) * (rank - 1) + (math.prod(rebuilt.data),)
    assert rebuilt.fields == {"axis": rank - 1, "index_dimensions": rank}


packed = descriptors(packed=True)
seeds = st.integers(0, 2**32 - 1)


def of(*operators: str) -> st.SearchStrategy[Any]:
    """Packed descriptors of some of the operators."""
    return descriptors(packed=True, operators=operators)


def without_clamp(desc: og.Descriptor) -> Described:
    """Return the model in which nothing but the gather computes elements."""
    return describe(og.to_onnx(desc, out_of_range="error"))


@given(of("GATHER").filter(lambda desc: desc.index_dimensions > 0))
def test_gather_comes_back_exactly(desc: og.GatherDesc) -> None:
    assert rebuild(without_clamp(desc)) == fields_of(desc)


@given(of("GATHER_ELEMENTS"))
def test_gather_elements_comes_back_exactly(desc: og.GatherElementsDesc) -> None:
    assert rebuild(without_clamp(desc)) == fields_of(desc)


SCALARS = (
    descriptor(
        "GATHER: FLOAT32 1x1x1x1x1x1x3x4, INT64 1x1x1x1x1x1x1x1, FLOAT32"
        " 1x1x1x1x1x1x1x4, 6, 0"
    ),
    descriptor(
        "GATHER: FLOAT32 1x1x1x1x1x1x3x4, INT64 1x1x1x1x1x1x1x1, FLOAT32"
        " 1x1x1x1x1x1x1x3, 7, 0"
    ),
)
"""GATHERs of a scalar in 8 dimensions."""


@given(of("GATHER").filter(lambda desc: desc.index_dimensions == 0), seeds)
@example(SCALARS[0], 0)
@example(SCALARS[1], 0)
def test_gather_of_a_scalar_comes_back_with_one_more_leading_one(
    desc: og.GatherDesc, seed: int
) -> None:
    # Gather drops the indexed dimension, and the output has DimensionCount dimensions:
    # so the data has one more. With 8 dimensions there is no room for it: a Reshape
    # adds the leading one.
    described = without_clamp(desc)
    rebuilt, original = rebuild(described), fields_of(desc)
    count = len(original.output)
    if count < 8:
        event("one more")
        assert rebuilt == Rebuilt(
            "GATHER",
            (1, *original.data),
            (1, *original.indices),
            (1, *original.output),
            {"axis": desc.axis + 1, "index_dimensions": 0},
        )
    elif math.prod(original.data[: desc.axis]) == 1:
        event("an index of one dimension")
        fields = {"axis": desc.axis, "index_dimensions": 1}
        assert rebuilt == Rebuilt(
            "GATHER", original.data, original.indices, original.output, fields
        )
    else:
        event("exactly")
        assert rebuilt == original
    check_same_meaning(desc, rebuilt, seed)


def added_ones(desc: og.GatherNDDesc | og.GatherND1Desc) -> int:
    """Return how many leading ones the output has beside the dimensions of the
    operator's own."""
    from_indices = desc.indices_dimension_count - 1
    from_data = desc.input_dimension_count - desc.batches - desc.tuple_size
    return desc.output_tensor.dimension_count - from_indices - from_data


def batched(batch: int) -> og.GatherND1Desc:
    """A GATHER_ND1 in 7 dimensions, where the output's ones would take ONNX's form to
    9."""
    return descriptor(
        f"GATHER_ND1: FLOAT32 1x1x1x1x{batch}x4x5, INT64 1x1x1x1x1x{batch}x2, FLOAT32"
        f" 1x1x1x1x1x1x{batch}, 3, 2, 1"
    )


@given(of("GATHER_ND", "GATHER_ND1"), seeds)
@example(batched(1), 0)
@example(batched(2), 0)
def test_gather_nd_comes_back_exactly_unless_its_output_has_leading_ones(
    desc: og.GatherNDDesc | og.GatherND1Desc, seed: int
) -> None:
    described = without_clamp(desc)
    rebuilt, original = rebuild(described), fields_of(desc)
    ones = added_ones(desc)
    if ones == 0:
        event("exactly")
        assert rebuilt == original
        return
    # The leading ones of the output come from the indices, in front of their own
    # dimensions, and with batches from the data too, as batches of one. That can take
    # more dimensions than DimensionCount, but no more than 8: one batch is then none,
    # or a Reshape adds them behind.
    data_rank = desc.input_dimension_count + (ones if desc.batches else 0)
    indices_rank = desc.indices_dimension_count + ones
    one_batch = (
        desc.batches > 0
        and math.prod(
            desc.input_tensor.sizes[-desc.input_dimension_count :][: desc.batches]
        )
        == 1
    )
    batches = desc.batches
    if max(data_rank, indices_rank) <= 8:
        event("ones in front")
        expected = data_rank, indices_rank, batches + ones if batches else 0
    elif one_batch and indices_rank <= 8:
        event("no batches")
        expected = desc.input_dimension_count - batches, indices_rank, 0
    else:
        event("ones behind")
        # DirectML's tensors cannot be scalars
        scalar = ones == desc.output_tensor.dimension_count
        index_rank = desc.indices_dimension_count + scalar
        expected = desc.input_dimension_count, index_rank, batches
    assert rebuilt.operator == "GATHER_ND1"
    assert [*rebuilt.fields] == ND_FIELDS
    assert (*rebuilt.fields.values(),) == expected
    shape = described.shapes[described.gather.output[0]]
    assert len(rebuilt.output) == max(len(shape), *expected[:2])
    check_same_meaning(desc, rebuilt, seed)


@given(packed)
def test_every_policy_has_the_same_gather_but_directmls_own_rule(
    desc: og.Descriptor,
) -> None:
    expected = rebuild(without_clamp(desc))
    for policy in ("clamp", "zero"):
        assert rebuild(describe(og.to_onnx(desc, policy))) == expected
    check_offset_form(describe(og.to_onnx(desc, "directml")))


@st.composite
def models(draw: st.DrawFn) -> Described:
    """The model of any descriptor under any policy, its indices sometimes known."""
    desc = draw(descriptors())
    policy = draw(st.sampled_from(POLICIES))
    indices: Array | None = None
    if draw(st.booleans()):
        rng = np.random.default_rng(draw(seeds))
        indices = random_indices(desc, rng, wild=0.0 if policy == "error" else 0.3)
    return describe(og.to_onnx(desc, policy, indices=indices))


@given(models())
def test_output_comes_from_an_operator_that_computes_it(described: Described) -> None:
    """Or from a Reshape, where the operator would have more than 8 dimensions."""
    (output,) = described.model.graph.output
    (node,) = (
        node for node in described.model.graph.node if output.name in node.output
    )
    assert node is described.model.graph.node[-1]
    if node.op_type == "Reshape":
        gather = described.model.graph.node[-2]
        assert gather.op_type in ("Gather", "GatherND")
        before, after = (
            len(described.shapes[n]) for n in (gather.output[0], output.name)
        )
        rank = max(len(described.shapes[name]) for name in gather.input)
        assert rank + after - before > 8
    else:
        assert node.op_type in (*GATHERS, "Expand", "ScatterElements")


@given(models())
def test_no_reshape_cast_or_expand_changes_nothing(described: Described) -> None:
    for node in described.model.graph.node:
        assert node.op_type not in ("Identity", "Squeeze", "Unsqueeze")
        before, after = node.input[0], node.output[0]
        if node.op_type in ("Reshape", "Expand"):
            assert described.shapes[before] != described.shapes[after], node.name
        if node.op_type == "Cast":
            assert described.types[before] != described.types[after], node.name


@given(models())
def test_no_value_has_more_than_eight_dimensions(described: Described) -> None:
    assert {name for name, shape in described.shapes.items() if len(shape) > 8} == set()


@given(models())
def test_data_passes_only_through_operators_that_move_elements(
    described: Described,
) -> None:
    # ONNX Runtime's CPU kernel of Where makes -0.0 positive and quiets the NaNs of
    # FLOAT16.
    moved = {"InputTensor"}
    for node in described.model.graph.node:
        places = [i for i, name in enumerate(node.input) if name in moved]
        if places:
            assert node.op_type in MOVERS
            allowed = MOVERS[node.op_type]
            assert allowed is None or set(places) <= set(allowed)
            moved.update(node.output)
    assert "OutputTensor" in moved


@pytest.mark.slow
@given(models())
def test_no_min_max_or_clip_of_int64(described: Described) -> None:
    # ONNX Runtime's CPU kernels compare the low halves of INT64 as signed: 2^31 passes
    # for small.
    for node in described.model.graph.node:
        if node.op_type in ("Min", "Max", "Clip"):
            types = {described.types[name] for name in node.input}
            assert onnx.TensorProto.INT64 not in types


DIRECTML_OPERATORS = {
    *MOVERS,
    *(
        "Add",
        "Cast",
        "Clip",
        "Equal",
        "Less",
        "Max",
        "Min",
        "Mul",
        "Not",
        "Or",
        "Range",
    ),
    *("ReduceSum", "Where"),
}
"""What a model may be made of; each is registered by the DirectML provider for opset
17."""


@pytest.mark.slow
@given(models())
def test_nodes_are_among_those_that_the_directml_provider_registers(
    described: Described,
) -> None:
    for node in described.model.graph.node:
        assert node.domain == ""
        assert node.op_type in DIRECTML_OPERATORS
