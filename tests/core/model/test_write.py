"""Models as they are written: nodes, names, types, metadata, opsets and sizes."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import onnx
import pytest
from messages import message_of
from model_metadata import metadata_of
from short_descriptors import descriptor, tensor_desc

import onnxgather as og
from onnxgather.core.lowering import lower
from onnxgather.core.options import TARGETS, OutOfRange, Target

T = og.TensorDesc


def gather(index_type: str = "UINT32", **tensors: og.TensorDesc) -> og.GatherDesc:
    """Return a GATHER along the last of three dimensions, the first of them padding."""
    defaults = {
        "input_tensor": tensor_desc("FLOAT32 1x4x3"),
        "indices_tensor": T(index_type, [1, 2, 2]),
        "output_tensor": tensor_desc("FLOAT32 4x2x2"),
    }
    return og.GatherDesc(**defaults | tensors, axis=2, index_dimensions=2)


def listing(desc: og.Descriptor, policy: OutOfRange = "clamp") -> str:
    """Return the nodes of a lowered graph, constants written out where they are
    short."""
    graph = lower(desc, policy)
    shown = {
        name: (
            f"{array.dtype}{array.tolist()}".replace(" ", "")
            if array.ndim
            else f"{array.dtype}({array})"
        )
        for name, array in graph.constants.items()
    }
    lines: list[str] = []
    for node in graph.nodes:
        inputs = [shown.get(name, name) for name in node.inputs]
        attributes = [f"{key}={value}" for key, value in node.attributes.items()]
        lines.append(f"{node.output} = {node.op}({', '.join([*inputs, *attributes])})")
    return "\n".join(lines)


STRIDED = gather(
    input_tensor=tensor_desc("FLOAT32 1x4x3 strides 0x1x4"),
    indices_tensor=tensor_desc("INT32 1x2x2 strides 0x1x0"),
    output_tensor=tensor_desc("FLOAT32 4x2x2 strides 5x2x1"),
)
ELEMENTS = descriptor("GATHER_ELEMENTS: FLOAT16 3x4, INT32 2x4, FLOAT16 2x4, 0")
TUPLES = descriptor("GATHER_ND: INT8 3x4x2, INT64 1x5x2, INT8 1x5x2, 3, 2")
BATCHED = descriptor(
    "GATHER_ND1: FLOAT16 1x3x2x2, UINT32 1x3x2x2, FLOAT16 1x1x3x2, 3, 3, 1"
)
RANK_8 = descriptor(
    "GATHER: INT8 2x2x2x2x2x2x2x2, UINT32 1x1x1x1x1x1x1x1, INT8 1x2x2x2x2x2x2x2, 7, 0"
)
RANK_7 = descriptor(
    "GATHER: INT8 2x2x2x2x2x2x2, UINT32 1x1x1x1x1x1x1, INT8 1x2x2x2x2x2x2, 6, 0"
)

GOLDEN: list[tuple[og.Descriptor, OutOfRange, str]] = [
    (
        gather(),
        "clamp",
        """
        indices = Reshape(IndicesTensor, int64[2,2])
        indices_clamped = Min(indices, uint32(2))
        indices_int32 = Cast(indices_clamped, to=6)
        data = Reshape(InputTensor, int64[4,3])
        OutputTensor = Gather(data, indices_int32, axis=1)
        """,
    ),
    (
        gather("INT32"),
        "clamp",
        """
        indices = Reshape(IndicesTensor, int64[2,2])
        indices_clamped = Clip(indices, int32(-3), int32(2))
        data = Reshape(InputTensor, int64[4,3])
        OutputTensor = Gather(data, indices_clamped, axis=1)
        """,
    ),
    (
        gather("INT64"),
        "error",
        """
        indices = Reshape(IndicesTensor, int64[2,2])
        data = Reshape(InputTensor, int64[4,3])
        OutputTensor = Gather(data, indices, axis=1)
        """,
    ),
    (
        gather("UINT32"),
        "error",
        """
        indices = Reshape(IndicesTensor, int64[2,2])
        indices_int64 = Cast(indices, to=7)
        data = Reshape(InputTensor, int64[4,3])
        OutputTensor = Gather(data, indices_int64, axis=1)
        """,
    ),
    (
        gather("UINT64"),
        "error",
        """
        indices = Reshape(IndicesTensor, int64[2,2])
        indices_limited = Min(indices, uint64(3))
        indices_int64 = Cast(indices_limited, to=7)
        data = Reshape(InputTensor, int64[4,3])
        OutputTensor = Gather(data, indices_int64, axis=1)
        """,
    ),
    (
        gather(),
        "directml",
        """
        indices = Reshape(IndicesTensor, int64[2,2])
        index_offsets = Mul(indices, uint32(1))
        offsets_spread = Reshape(index_offsets, int64[1,2,2])
        offsets = Add(offsets_spread, uint32[[[0]],[[3]],[[6]],[[9]]])
        buffer = Reshape(InputTensor, int64[12])
        offsets_limited = Min(offsets, uint32(11))
        offsets_int64 = Cast(offsets_limited, to=7)
        OutputTensor = Gather(buffer, offsets_int64, axis=0)
        """,
    ),
    (
        ELEMENTS,
        "clamp",
        """
        indices_clamped = Clip(IndicesTensor, int32(-3), int32(2))
        OutputTensor = GatherElements(InputTensor, indices_clamped, axis=0)
        """,
    ),
    (
        TUPLES,
        "clamp",
        """
        indices_float32 = Cast(IndicesTensor, to=1)
        indices_limited = Min(indices_float32, float32[2.0,3.0])
        indices_clamped = Max(indices_limited, float32[-3.0,-4.0])
        indices_int64 = Cast(indices_clamped, to=7)
        OutputTensor = GatherND(InputTensor, indices_int64, batch_dims=0)
        """,
    ),
    (
        BATCHED,
        "clamp",
        """
        indices = Reshape(IndicesTensor, int64[1,1,3,2,2])
        indices_clamped = Min(indices, uint32(1))
        indices_int64 = Cast(indices_clamped, to=7)
        data = Reshape(InputTensor, int64[1,1,3,2,2])
        OutputTensor = GatherND(data, indices_int64, batch_dims=3)
        """,
    ),
    (
        RANK_7,
        "error",
        """
        indices = Reshape(IndicesTensor, int64[])
        indices_int64 = Cast(indices, to=7)
        data = Reshape(InputTensor, int64[1,2,2,2,2,2,2,2])
        OutputTensor = Gather(data, indices_int64, axis=7)
        """,
    ),
]


@pytest.mark.parametrize(("desc", "policy", "expected"), GOLDEN)
def test_the_nodes_of_every_operator_and_policy(
    desc: og.Descriptor, policy: OutOfRange, expected: str
) -> None:
    assert listing(desc, policy) == textwrap.dedent(expected).strip()


def test_zero_gathers_once_more_from_a_row_of_zeros() -> None:
    assert [node.op for node in lower(ELEMENTS, "zero").nodes] == [
        *("Clip", "Less", "Less", "Or", "GatherElements"),
        *("Reshape", "Concat", "Where", "Gather"),
    ]


def test_strided_tensors_are_read_and_written_at_their_offsets() -> None:
    assert [node.op for node in lower(STRIDED, "clamp").nodes] == [
        *("Reshape", "Clip", "Cast", "Less", "Add", "Where"),
        *("Mul", "Reshape", "Add", "Gather"),
        *("Expand", "Reshape", "ScatterElements"),
    ]
    model = og.to_onnx(STRIDED)
    shapes = [
        [d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    ]
    assert shapes == [[12], [2], [19]]


def test_eight_dimensions_with_a_scalar_index_stay_within_rank_8() -> None:
    model = onnx.shape_inference.infer_shapes(og.to_onnx(RANK_8), strict_mode=True)
    values: list[Any] = [*model.graph.value_info, *model.graph.output]
    assert {v.name for v in values} >= {"gathered", "OutputTensor"}
    assert max(len(v.type.tensor_type.shape.dim) for v in values) == 8


def test_boundary_has_the_descriptors_names_types_and_shapes() -> None:
    text = onnx.printer.to_text(og.to_onnx(gather("UINT64")).graph)
    assert (
        "(float[1,4,3] InputTensor, uint64[1,2,2] IndicesTensor)"
        " => (float[4,2,2] OutputTensor)" in text
    )


def test_model_says_where_it_comes_from() -> None:
    model = og.to_onnx(gather(), "zero", opset=21)
    assert (model.producer_name, model.producer_version) == (
        "onnxgather",
        og.__version__,
    )
    assert model.doc_string == "DML_OPERATOR_GATHER; out_of_range=zero, target=portable"
    assert model.graph.name == "DML_OPERATOR_GATHER"
    metadata = metadata_of(model)
    assert metadata.keys() == {
        "descriptor",
        "out_of_range",
        "target",
        "version",
        "digest",
    }
    assert metadata["version"] == og.__version__
    assert og.from_dict(metadata["descriptor"]) == gather()
    assert all(
        node.doc_string and node.name == node.output[0] for node in model.graph.node
    )


@pytest.mark.parametrize(
    ("opset", "ir_version"), [(13, 8), (17, 8), (18, 8), (21, 10), (25, 13)]
)
def test_each_opset_has_its_ir_version(opset: int, ir_version: int) -> None:
    model = og.to_onnx(gather(), opset=opset)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [
        ("", opset)
    ]
    assert model.ir_version == ir_version


@pytest.mark.parametrize("opset", [12, 26, True, "17", None, 17.0, 26 * 10**9])
def test_opset_must_be_supported(opset: Any) -> None:
    assert message_of(og.OnnxGatherError, og.to_onnx, gather(), opset=opset) == (
        f"opset must be an integer from 13 to 25, got {opset!r}"
    )


def test_opset_may_be_a_numpy_integer() -> None:
    opset: Any = np.int64(18)
    assert og.to_onnx(gather(), opset=opset).opset_import[0].version == 18


@pytest.mark.parametrize("threads", [0, -3, 1.5, True, "2", [1], 1025])
@pytest.mark.parametrize("target", ["portable", "cpu"])
def test_threads_must_be_a_number_of_threads(target: Any, threads: Any) -> None:
    assert (
        message_of(
            og.OnnxGatherError, og.to_onnx, gather(), target=target, threads=threads
        )
        == f"threads must be an integer from 1 to 1024, got {threads!r}"
    )


@pytest.mark.parametrize(
    "wrong", [None, "x", {"type": "GATHER"}, tensor_desc("INT8 1")]
)
def test_descriptor_must_be_one(wrong: Any) -> None:
    # Case: a text may be the path of a file that has descriptors.
    hint = ""
    if isinstance(wrong, str):
        hint = "; each of og.load(PATH).dispatches has a descriptor"
    calls: list[Any] = [og.to_onnx, og.minimum_feature_level, og.to_dict]
    for call in calls:
        assert message_of(og.DescriptorError, call, wrong) == (
            "desc must be one of GatherDesc, GatherElementsDesc, GatherNDDesc,"
            f" GatherND1Desc, got {wrong!r}{hint}"
        )


@pytest.mark.parametrize("array", [np.array("clamp"), np.array(["clamp", "zero"])])
def test_options_that_are_arrays_are_refused(array: Any) -> None:
    for options in ({"out_of_range": array}, {"target": array}):
        with pytest.raises(og.OnnxGatherError, match="must be one of"):
            og.to_onnx(gather(), **options)
    with pytest.raises(og.OnnxGatherError, match="must be one of"):
        og.run(
            gather(),
            np.zeros((1, 4, 3), np.float32),
            np.zeros((1, 2, 2), np.uint32),
            array,
        )


def test_cpu_model_names_its_form_and_threads() -> None:
    model = og.to_onnx(gather(), target="cpu", threads=1)
    metadata = metadata_of(model)
    assert metadata["threads"] == 1
    assert metadata["form"].startswith("portable: ")
    again = og.to_onnx(og.from_dict(metadata["descriptor"]), target="cpu", threads=1)
    assert again.SerializeToString() == model.SerializeToString()


def test_opset_is_limited_by_the_installed_onnx(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(onnx.defs, "onnx_opset_version", lambda: 20)
    assert message_of(og.OnnxGatherError, og.to_onnx, gather(), opset=21) == (
        "opset must be an integer from 13 to 20, got 21"
    )


@pytest.mark.parametrize("target", ["gpu", None, ["portable"]])
def test_target_must_be_known(target: Any) -> None:
    message = message_of(og.OnnxGatherError, og.to_onnx, gather(), target=target)
    assert message == f"target must be one of {', '.join(TARGETS)}, got {target!r}"


def test_known_indices_are_normalised_initializers() -> None:
    desc = gather("INT64")
    model = og.to_onnx(desc, indices=np.array([[[0, -1], [-3, 9]]]))
    assert [node.op_type for node in model.graph.node] == ["Reshape", "Gather"]
    stored = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
    }
    assert stored["indices"].dtype == np.int32
    assert stored["indices"].tolist() == [[0, 2], [0, 2]]


def test_known_indices_must_fit_and_be_in_range_where_that_is_asked_for() -> None:
    assert (
        message_of(
            og.DescriptorError,
            og.to_onnx,
            gather(),
            indices=np.zeros((2, 2), np.uint32),
        )
        == "IndicesTensor must be an array of uint32 (1, 2, 2), got uint32 (2, 2)"
    )
    assert (
        message_of(
            og.IndexOutOfRangeError,
            og.to_onnx,
            gather(),
            "error",
            indices=np.full((1, 2, 2), 3, np.uint32),
        )
        == "IndicesTensor[0,0,0] must be in [0, 3), got 3"
    )


def test_model_beyond_2_gib_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxgather.core.model.write.LARGEST_MODEL", 2**16 + 30)
    desc = gather("INT64")
    assert (
        message_of(
            og.OnnxGatherError, og.to_onnx, desc, indices=np.zeros((1, 2, 2), np.int64)
        )
        == "a model must be smaller than 2 GiB, got 32 bytes of normalised indices"
    )


@pytest.mark.parametrize("target", ["portable", "cpu"])
def test_a_billion_known_indices_are_refused_before_they_are_read(
    target: Target,
) -> None:
    desc = descriptor(f"GATHER: INT8 3, INT64 {10**9}, INT8 {10**9}, 0, 1")
    indices = np.broadcast_to(np.int64(1), 10**9)  # of 8 bytes
    assert message_of(
        og.OnnxGatherError, og.to_onnx, desc, target=target, indices=indices
    ) == (
        "a model must be smaller than 2 GiB, got at least 4000000000 bytes of"
        " normalised indices"
    )


def test_large_descriptors_make_small_models() -> None:
    """Offsets of many elements are counted by the model, not written into it."""
    wide = descriptor(
        "GATHER_ELEMENTS: FLOAT32 8x4096x4096 strides 1x8x32768, INT64 4x4096x4096,"
        " FLOAT32 4x4096x4096 strides 16777216x1x4096, 0"
    )
    policies: list[OutOfRange] = ["clamp", "error", "zero", "directml"]
    for policy in policies:
        assert og.to_onnx(wide, policy).ByteSize() < 100_000


@pytest.mark.parametrize("target", ["portable", "cpu"])
@pytest.mark.parametrize("operator", ["GATHER", "GATHER_ELEMENTS"])
def test_axes_beyond_2_31_never_take_int32_indices(operator: str, target: Any) -> None:
    """ONNX Runtime's Gather crashes on them, and known negative ones would overflow."""
    size = 3_000_000_000
    numbers = "0, 1" if operator == "GATHER" else "0"
    desc = descriptor(f"{operator}: UINT8 {size}, INT32 600, UINT8 600, {numbers}")
    for policy in ("clamp", "error"):
        graph = lower(desc, policy, target=target)
        last = [node for node in graph.nodes if "Gather" in node.op][-1]
        assert graph.values[last.inputs[1]].dtype == np.int64
    known = lower(desc, "clamp", np.full(600, -1, np.int32), target)
    (stored,) = [array for array in known.constants.values() if array.size == 600]
    assert stored.dtype == np.int64
    assert set(stored.tolist()) == {size - 1}


def test_the_same_arguments_make_the_same_bytes() -> None:
    first, second = (og.to_onnx(gather(), "zero").SerializeToString() for _ in range(2))
    assert first == second
