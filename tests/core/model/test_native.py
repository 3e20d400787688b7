"""Models of target native: one node, the function that it calls, and what runs of the
two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from corpus_cases import descriptor_cases
from hypothesis import given
from hypothesis import strategies as st
from model_metadata import metadata_of
from msgspec.structs import asdict
from onnx import compose, helper
from onnx.reference import ReferenceEvaluator
from rings import one_quick_in
from short_descriptors import ascending, descriptor
from strategies import Case, cases

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus.sampling import random_cases
from onnxgather.core.descriptors.arrays import all_in_range, axis_sizes
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution import kernels
from onnxgather.core.execution.runtime import (
    CPU,
    FailedError,
    Opened,
    RefusedError,
    Setup,
)
from onnxgather.core.gather import gather_of
from onnxgather.core.loops import loops_of
from onnxgather.core.lowering.portable import node_of
from onnxgather.core.model.functions import add_function
from onnxgather.core.model.write import check_model
from onnxgather.core.options import OPSETS, POLICIES, OutOfRange

T = og.TensorDesc
DESC = descriptor("GATHER: FLOAT32 4x3, UINT32 1x2, FLOAT32 4x2, 1, 1")
DATA = ascending("FLOAT32 4x3")
INDICES = np.array([[2, 7]], np.uint32)
SAMPLE = [
    case
    for case in [*descriptor_cases(), *random_cases(100, 5)]
    if not case.name.startswith("large")
][::12]

REGISTERED = [
    pytest.param(False, id="not registered"),
    pytest.param(
        True,
        id="registered",
        marks=pytest.mark.skipif(
            kernels.operators_library() is None,
            reason="the native kernels are not built",
        ),
    ),
]
registered_or_not = pytest.mark.parametrize("registered", REGISTERED)


def opened(model: onnx.ModelProto, registered: bool) -> Opened:
    """Return a session on the CPU provider, with the library of operators or without
    it."""
    library = kernels.operators_library() if registered else None
    return Opened(model.SerializeToString(), Setup(CPU, 1, operators=library))


def named(attributes: Iterable[onnx.AttributeProto]) -> dict[str, Any]:
    """Return attributes by name; lists are tuples, and texts are no bytes."""
    found: dict[str, Any] = {
        one.name: helper.get_attribute_value(one) for one in attributes
    }
    plain: dict[str, Callable[[Any], Any]] = {
        "list": tuple,
        "bytes": bytes.decode,
        "int": int,
    }
    return {name: plain[type(value).__name__](value) for name, value in found.items()}


@pytest.mark.parametrize("case", one_quick_in(4, SAMPLE), ids=lambda case: case.name)
def test_a_model_is_one_node_and_a_function_with_the_portable_graph(
    case: DescriptorCase,
) -> None:
    desc, policy = case.descriptor, case.out_of_range
    model, portable = og.to_onnx(desc, policy, "native"), og.to_onnx(desc, policy)
    check_model(model)
    (node,), (function,) = model.graph.node, model.functions
    assert (node.domain, node.op_type) == ("org.onnxgather", desc.operator)
    assert (function.domain, function.name) == ("org.onnxgather", desc.operator)
    assert (*node.input, *node.output) == (
        "InputTensor",
        "IndicesTensor",
        "OutputTensor",
    )
    assert not model.graph.initializer
    assert (*model.graph.input, *model.graph.output) == (
        *portable.graph.input,
        *portable.graph.output,
    )
    constants = {n.output[0] for n in portable.graph.node} | {
        t.name for t in portable.graph.initializer
    }
    guard, *body = function.node
    assert constants == {n.output[0] for n in body}
    tensors = [n.attribute[0].t for n in body if n.op_type == "Constant"]
    assert tensors == [*portable.graph.initializer]
    assert [n for n in body if n.op_type != "Constant"] == [*portable.graph.node]
    digest = guard.attribute[0].ref_attr_name
    assert [*function.attribute] == [digest]
    assert digest.startswith("body_")
    assert named(node.attribute) == {
        **asdict(loops_of(desc, policy)),
        "output_shape": desc.output_tensor.array_shape,
        digest: 1,
    }


@pytest.mark.parametrize("opset", OPSETS)
def test_the_function_has_the_opset_of_the_model(opset: int) -> None:
    model = og.to_onnx(DESC, target="native", opset=opset)
    check_model(model)
    own = {one.domain: one.version for one in model.opset_import}
    assert own == {"": opset, "org.onnxgather": 1}
    assert [(one.domain, one.version) for one in model.functions[0].opset_import] == [
        ("", opset)
    ]


def test_metadata_are_as_of_other_targets() -> None:
    model = og.to_onnx(DESC, "zero", "native")
    metadata = metadata_of(model)
    assert metadata == {
        **metadata_of(og.to_onnx(DESC, "zero")),
        "target": "native",
        "digest": metadata["digest"],
    }
    assert model.doc_string == "DML_OPERATOR_GATHER; out_of_range=zero, target=native"


def test_the_reference_evaluator_of_onnx_runs_the_body() -> None:
    for case in SAMPLE[::6]:
        expected = case.expected()
        # it quiets signaling NaNs
        if isinstance(expected, str) or case.data.dtype.kind == "f":
            continue
        model = og.to_onnx(case.descriptor, case.out_of_range, "native")
        inputs = {"InputTensor": case.data, "IndicesTensor": case.indices}
        evaluator: Any = ReferenceEvaluator(model)
        (found,) = evaluator.run(None, inputs)
        assert found.tobytes() == expected.tobytes(), case.name


def check(case: DescriptorCase, model: onnx.ModelProto, registered: bool) -> None:
    """Check what a native model gives, and which nodes give it."""
    session = opened(model, registered)
    operators = {operator for _, operator in session.assignment}
    assert (operators == {case.operator}) is registered
    inputs = {"InputTensor": case.data, "IndicesTensor": case.indices}
    feeds = {value.name: inputs[value.name] for value in model.graph.input}
    expected = case.expected()
    if isinstance(expected, str):
        with pytest.raises(FailedError, match=expected if registered else ""):
            session.run(feeds)
    else:
        assert session.run(feeds).tobytes() == expected.tobytes()


@registered_or_not
@pytest.mark.parametrize("case", one_quick_in(4, SAMPLE), ids=lambda case: case.name)
def test_the_kernel_runs_where_it_is_registered_and_the_body_elsewhere(
    case: DescriptorCase, registered: bool
) -> None:
    check(case, og.to_onnx(case.descriptor, case.out_of_range, "native"), registered)


@given(cases(), st.sampled_from([*POLICIES]), st.booleans())
def test_known_indices_are_an_initializer_in_range(
    case: Case, policy: OutOfRange, registered: bool
) -> None:
    desc = case.desc
    try:
        expected = og.reference(desc, case.data, case.indices, policy)
    except og.IndexOutOfRangeError:
        with pytest.raises(og.IndexOutOfRangeError):
            og.to_onnx(desc, policy, "native", indices=case.indices)
        return
    model = og.to_onnx(desc, policy, "native", indices=case.indices)
    check_model(model)
    (node,), (tensor,) = model.graph.node, model.graph.initializer
    assert [value.name for value in model.graph.input] == ["InputTensor"]
    assert [*node.input] == ["InputTensor", tensor.name]
    known = onnx.numpy_helper.to_array(tensor)
    if policy == "clamp" or all_in_range(desc, case.indices):
        assert known.dtype in (np.int32, np.int64)
        assert known.shape == desc.indices_tensor.sizes
        assert known.min() >= 0
        assert (known < axis_sizes(desc)).all()
        if node_of(desc, gather_of(desc)) is not None:
            left = {each.op_type for each in model.functions[0].node}
            moves = {
                "Reshape",
                "Gather",
                "GatherElements",
                "GatherND",
                "Expand",
                "ScatterElements",
            }
            # Where long strided outputs have their offsets counted, which takes no
            # index.
            counted = (
                {"Range", "Add", "Mul", "Cast"}
                if desc.output_tensor.strides
                else set[str]()
            )
            assert left <= {"Constant", *moves, *counted}
    else:
        assert known.tobytes() == case.indices.tobytes()
    session = opened(model, registered and kernels.operators_library() is not None)
    assert session.run({"InputTensor": case.data}).tobytes() == expected.tobytes()


def several(
    cases: Sequence[DescriptorCase],
) -> tuple[onnx.ModelProto, dict[str, npt.NDArray[Any]]]:
    """Return the gathers of cases in one model, and its inputs; the k-th output is
    `output_k`."""
    graph, functions = onnx.GraphProto(name="several"), list[onnx.FunctionProto]()
    inputs: dict[str, npt.NDArray[Any]] = {}
    for k, case in enumerate(cases):
        model = og.to_onnx(case.descriptor, case.out_of_range, "native")
        (node,), (function,) = model.graph.node, model.functions
        add_function(node, function, functions)
        for value in (*model.graph.input, *model.graph.output):
            value.name += f"_{k}"
        node.name = f"gather_{k}"
        node.input[:], node.output[:] = (
            [f"{n}_{k}" for n in node.input],
            [f"OutputTensor_{k}"],
        )
        graph.node.append(node)
        graph.input.extend(model.graph.input)
        graph.output.extend(model.graph.output)
        inputs |= {f"InputTensor_{k}": case.data, f"IndicesTensor_{k}": case.indices}
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("org.onnxgather", 1)]
    return (
        helper.make_model(
            graph, functions=functions, opset_imports=opsets, ir_version=8
        ),
        inputs,
    )


@pytest.mark.parametrize("registered", one_quick_in(2, REGISTERED))
def test_several_gathers_in_one_model_are_right(registered: bool) -> None:
    calm = [case for case in SAMPLE if not isinstance(case.expected(), str)]
    for start in range(0, len(calm) - 6, 6):
        model, inputs = several(calm[start : start + 6])
        check_model(model)
        session = opened(model, registered)
        expected = [case.expected() for case in calm[start : start + 6]]
        for found, wanted in zip(session.run_all(inputs), expected, strict=True):
            assert found is not None
            assert found.tobytes() == np.asarray(wanted).tobytes()
        own = [operator for _, operator in session.assignment if operator.isupper()]
        assert len(own) == (6 if registered else 0)


def rows(
    count: int, policy: OutOfRange = "clamp", index: str = "UINT32"
) -> DescriptorCase:
    """Return a gather of one row from so many; each number of rows has a body of its
    own."""
    desc = descriptor(f"GATHER: INT32 {count}x2, {index} 1x1, INT32 1x2, 0, 1")
    data = np.arange(2 * count, dtype=np.int32).reshape(count, 2)
    return DescriptorCase(
        str(count), desc, data, np.array([[count - 1]], index.lower()), policy
    )


@registered_or_not
def test_eight_functions_of_an_operator_have_names_that_the_library_knows(
    registered: bool,
) -> None:
    model, inputs = several([rows(count) for count in range(2, 12)])
    names = ["GATHER", *(f"GATHER_{k}" for k in range(2, 11))]
    assert [function.name for function in model.functions] == names
    session = opened(model, registered)
    for k, found in enumerate(session.run_all(inputs)):
        assert found is not None
        assert found.tolist() == [[2 * k + 2, 2 * k + 3]]
    own = [operator for _, operator in session.assignment if operator.isupper()]
    assert own == (names[:8] if registered else [])


def test_equal_bodies_are_one_function() -> None:
    # Under "error" no node depends on the size of the axis.
    model, _ = several([rows(5, "error", "INT32"), rows(6, "error", "INT32"), rows(5)])
    assert [function.name for function in model.functions] == ["GATHER", "GATHER_2"]
    assert [node.op_type for node in model.graph.node] == [
        "GATHER",
        "GATHER",
        "GATHER_2",
    ]


def test_a_node_that_meets_another_body_is_refused() -> None:
    model = og.to_onnx(DESC, target="native")
    model.functions[0].CopyFrom(og.to_onnx(DESC, "zero", "native").functions[0])
    rule = (
        r"One and only one of .*value.* must be specified|[Oo]ne and only one of the"
        r" attributes"
    )
    with pytest.raises(OnnxGatherError, match="ONNX refuses the model"):
        check_model(model)
    with pytest.raises(RefusedError, match=rule):
        opened(model, registered=False)


@registered_or_not
def test_a_prefix_of_compose_renames_both_so_that_the_body_runs(
    registered: bool,
) -> None:
    model = compose.add_prefix(og.to_onnx(DESC, target="native"), "a_")
    check_model(model)
    assert (model.graph.node[0].op_type, model.functions[0].name) == (
        "a_GATHER",
        "a_GATHER",
    )
    session = opened(model, registered)
    assert "Gather" in {operator for _, operator in session.assignment}
    found = session.run({"a_InputTensor": DATA, "a_IndicesTensor": INDICES})
    assert found.tolist() == [[2, 2], [5, 5], [8, 8], [11, 11]]
