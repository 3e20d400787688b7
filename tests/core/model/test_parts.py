"""Gathers as parts of larger models: names of their own, added to models, packs of
functions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import message_of
from onnx import compose, helper
from onnx.reference import ReferenceEvaluator
from rings import by_ring
from short_descriptors import ascending, descriptor
from strategies import Case, cases
from whole_models import LIBRARIES, assert_as_alone, computed

import onnxgather as og
from onnxgather.core.execution.runtime import CPU, Opened, Setup
from onnxgather.core.lowering.graph import ONNX_TYPES
from onnxgather.core.model.write import check_model
from onnxgather.core.options import POLICIES, TARGETS, OutOfRange, Target

NO_ERROR: list[OutOfRange] = [name for name in POLICIES if name != "error"]
"""The policies under which a model runs with any index."""

T = og.TensorDesc
DESC = descriptor("GATHER: FLOAT32 4x3, UINT32 1x2, FLOAT32 4x2, 1, 1")
NEXT = descriptor("GATHER: FLOAT32 4x2, INT64 1x3, FLOAT32 3x2, 0, 1")
DATA = ascending("FLOAT32 4x3")
FIRST, SECOND = np.array([[2, 0]], np.uint32), np.array([[-1, 0, 9]])
CHAINED = DATA[:, [2, 0]][[3, 0, 3]]
ON_CPU: list[Target] = ["portable", "cpu", "native"]
"""ONNX Runtime 1.24.4 has no Where of UINT32 on the CPU, which the target webgpu
needs."""


def info(name: str, tensor: og.TensorDesc) -> onnx.ValueInfoProto:
    """Return what a graph declares of a value that stands for a tensor."""
    return helper.make_tensor_value_info(
        name, ONNX_TYPES[tensor.data_type.numpy], tensor.array_shape
    )


def empty(descs: Sequence[og.Descriptor], opset: int = 17) -> onnx.ModelProto:
    """Return a model without nodes, with the inputs x0, i0, … and the outputs y0, …."""
    inputs = [
        info(f"{name}{k}", tensor)
        for k, desc in enumerate(descs)
        for name, tensor in (("x", desc.input_tensor), ("i", desc.indices_tensor))
    ]
    outputs = [info(f"y{k}", desc.output_tensor) for k, desc in enumerate(descs)]
    graph = helper.make_graph([], "whole", inputs, outputs)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )


class TestNames:
    def test_a_prefix_stands_before_every_name(self) -> None:
        model = og.to_onnx(DESC, prefix="emb_")
        own = {
            name
            for node in model.graph.node
            for name in (node.name, *node.output, *node.input)
        }
        assert {name for name in own if not name.startswith("emb_")} == set()
        assert [value.name for value in model.graph.input] == [
            "emb_InputTensor",
            "emb_IndicesTensor",
        ]

    def test_the_values_of_the_tensors_have_the_names_that_are_given(self) -> None:
        given = {"InputTensor": "indices", "OutputTensor": "rows"}
        model = og.to_onnx(DESC, prefix="p_", names=given)
        check_model(model)
        assert [value.name for value in model.graph.input] == [
            "indices",
            "p_IndicesTensor",
        ]
        assert [value.name for value in model.graph.output] == ["rows"]

    def test_a_given_name_is_not_that_of_another_value(self) -> None:
        model = og.to_onnx(DESC, names={"InputTensor": "indices"})
        assert "indices_2" in {node.name for node in model.graph.node}
        inputs = {"indices": DATA, "IndicesTensor": FIRST}
        assert computed(model, inputs) == [DATA[:, [2, 0]].tobytes()]

    @pytest.mark.parametrize(
        ("names", "message"),
        [
            (
                {"Input": "x"},
                (
                    "names must be one of InputTensor, IndicesTensor, OutputTensor, got"
                    " 'Input'"
                ),
            ),
            (
                {"InputTensor": ""},
                (
                    "names must differ and not be empty, got '', 'IndicesTensor',"
                    " 'OutputTensor'"
                ),
            ),
            (
                {"InputTensor": "OutputTensor"},
                (
                    "names must differ and not be empty, got 'OutputTensor',"
                    " 'IndicesTensor', 'OutputTensor'"
                ),
            ),
        ],
    )
    def test_names_that_cannot_be_are_refused(
        self, names: dict[str, str], message: str
    ) -> None:
        assert message_of(og.OnnxGatherError, og.to_onnx, DESC, names=names) == (
            message
        )

    @settings(max_examples=by_ring(5, 20))
    @given(cases(), st.sampled_from([*TARGETS]), st.booleans())
    def test_names_change_no_byte_of_the_output(
        self, case: Case, target: Target, known: bool
    ) -> None:
        indices = case.indices if known else None
        model = og.to_onnx(
            case.desc, "clamp", target, indices=indices, prefix="indices"
        )
        inputs = {"indicesInputTensor": case.data, "indicesIndicesTensor": case.indices}
        feeds = {value.name: inputs[value.name] for value in model.graph.input}
        assert computed(model, feeds) == [
            og.reference(case.desc, case.data, case.indices).tobytes()
        ]


class TestMerging:
    @pytest.mark.parametrize("target", TARGETS)
    def test_models_with_prefixes_are_merged_by_onnx(self, target: Target) -> None:
        first = og.to_onnx(DESC, "clamp", target, prefix="a_")
        second = og.to_onnx(NEXT, "clamp", target, prefix="b_")
        # ONNX merges no functions of one name
        again = "b_" if target == "native" else None
        io = [("a_OutputTensor", "b_InputTensor")]
        merged = compose.merge_models(first, second, io, prefix2=again)
        names = [value.name for value in merged.graph.input]
        feeds = dict(zip(names, (DATA, FIRST, SECOND), strict=True))
        for library in LIBRARIES:
            assert computed(merged, feeds, library) == [CHAINED.tobytes()]
        told = [json.loads(entry.value) for entry in merged.metadata_props]
        assert [og.from_dict(one["descriptor"]) for one in told] == [DESC, NEXT]

    @pytest.mark.parametrize("second_target", TARGETS)
    @pytest.mark.parametrize("target", TARGETS)
    def test_onnx_s_own_prefixes_do_as_well(
        self, target: Target, second_target: Target
    ) -> None:
        first = compose.add_prefix(og.to_onnx(DESC, "clamp", target), "a/")
        second = compose.add_prefix(og.to_onnx(NEXT, "clamp", second_target), "b/")
        merged = compose.merge_models(
            first, second, [("a/OutputTensor", "b/InputTensor")]
        )
        names = [value.name for value in merged.graph.input]
        feeds = dict(zip(names, (DATA, FIRST, SECOND), strict=True))
        for library in LIBRARIES:
            assert computed(merged, feeds, library) == [CHAINED.tobytes()]


class TestAddTo:
    @pytest.mark.parametrize("target", TARGETS)
    def test_a_gather_reads_what_another_one_made(self, target: Target) -> None:
        model = empty([DESC, NEXT])
        model.graph.input.pop(2)
        model.graph.output.pop(0)
        og.add_to(model, DESC, input="x0", indices="i0", output="middle", target=target)
        og.add_to(model, NEXT, input="middle", indices="i1", output="y1", target=target)
        feeds = {"x0": DATA, "i0": FIRST, "i1": SECOND}
        for library in LIBRARIES:
            assert computed(model, feeds, library) == [CHAINED.tobytes()]
        assert model.graph.node[-1].output[0] == "y1"

    @settings(max_examples=by_ring(8, 30))
    @given(
        st.lists(
            st.tuples(
                cases(),
                st.sampled_from(NO_ERROR),
                st.sampled_from(ON_CPU),
                st.booleans(),
            ),
            min_size=2,
            max_size=3,
        )
    )
    def test_pairs_and_triples_give_what_each_gives_alone(
        self, parts: list[tuple[Case, OutOfRange, Target, bool]]
    ) -> None:
        model = empty([case.desc for case, *_ in parts])
        for k, (case, policy, target, known) in enumerate(parts):
            og.add_to(
                model,
                case.desc,
                input=f"x{k}",
                indices=case.indices if known else f"i{k}",
                output=f"y{k}",
                out_of_range=policy,
                target=target,
            )
        assert_as_alone(model, [(case, policy) for case, policy, *_ in parts])

    def test_a_graph_takes_nodes_too(self) -> None:
        model = empty([DESC], opset=13)
        graph = onnx.GraphProto()
        graph.CopyFrom(model.graph)
        og.add_to(graph, DESC, input="x0", indices=FIRST, output="y0", opset=13)
        model.graph.CopyFrom(graph)
        assert computed(model, {"x0": DATA, "i0": FIRST}) == [DATA[:, [2, 0]].tobytes()]

    def test_a_model_may_have_names_that_are_not_in_utf_8(self) -> None:
        model = empty([DESC])
        text = model.SerializeToString().replace(b"empty", b"empt\xff")
        text += (
            onnx.ModelProto(
                graph=onnx.GraphProto(
                    node=[onnx.NodeProto(op_type="Identity", output=["seven"])]
                )
            )
            .SerializeToString()
            .replace(b"seven", b"seve\xff")
        )
        other = onnx.ModelProto.FromString(text)
        og.add_to(other, DESC, input="x0", indices="i0", output="y0")
        assert [node.op_type for node in other.graph.node][-1] == "Gather"

    def test_the_names_of_inner_values_are_new(self) -> None:
        model = empty([DESC, DESC])
        model.graph.node.append(helper.make_node("Identity", ["i0"], ["y0/indices"]))
        for k in range(2):
            og.add_to(model, DESC, input="x0", indices="y0/indices", output=f"y{k}")
        names = [name for node in model.graph.node for name in node.output]
        assert len({*names}) == len(names)
        assert "y0_2/indices" in names
        feeds = {"x0": DATA, "i0": FIRST, "x1": DATA, "i1": FIRST}
        assert computed(model, feeds) == [DATA[:, [2, 0]].tobytes()] * 2

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"input": "x"}, "input must be a value of the graph, got 'x'"),
            ({"indices": "i"}, "indices must be a value of the graph, got 'i'"),
            ({"output": "x0"}, "output must be a new value, got 'x0'"),
            ({"input": "i0"}, "input 'i0' must be FLOAT [4, 3], got UINT32 [1, 2]"),
            ({"desc": NEXT}, "input 'x0' must be FLOAT [4, 2], got FLOAT [4, 3]"),
        ],
    )
    def test_values_that_do_not_fit_are_refused(
        self, change: dict[str, Any], message: str
    ) -> None:
        model = empty([DESC])
        given: dict[str, Any] = {
            "desc": DESC,
            "input": "x0",
            "indices": "i0",
            "output": "y0",
        }
        before = model.SerializeToString()
        assert message_of(og.OnnxGatherError, og.add_to, model, **given | change) == (
            message
        )
        assert model.SerializeToString() == before

    def test_a_function_is_not_added_to_a_graph(self) -> None:
        assert message_of(
            og.OnnxGatherError,
            og.add_to,
            empty([DESC]).graph,
            DESC,
            input="x0",
            indices="i0",
            output="y0",
            target="native",
        ) == ('target "native" must be added to a model, got a graph')


def packed(
    descs: Sequence[og.Descriptor], policy: OutOfRange = "clamp"
) -> onnx.ModelProto:
    """Return a model that calls the functions of a pack, each once."""
    protos, model = og.functions(descs, policy), empty(descs)
    for k, (_, proto) in enumerate(zip(descs, protos, strict=False)):
        node = helper.make_node(
            proto.name, [f"x{k}", f"i{k}"], [f"y{k}"], domain=proto.domain
        )
        model.graph.node.append(node)
    model.functions.extend(protos)
    domains = sorted({proto.domain for proto in protos})
    model.opset_import.extend(helper.make_opsetid(domain, 1) for domain in domains)
    return model


class TestFunctions:
    def test_there_is_one_for_each_descriptor_and_behind_them_what_they_call(
        self,
    ) -> None:
        protos = og.functions([DESC, NEXT, DESC])
        assert [(proto.domain, proto.name) for proto in protos] == [
            ("org.onnxgather.functions", "GATHER"),
            ("org.onnxgather.functions", "GATHER_2"),
            ("org.onnxgather.functions", "GATHER_3"),
            ("org.onnxgather", "GATHER"),
            ("org.onnxgather", "GATHER_2"),
        ]
        assert [*protos[0].input, *protos[0].output] == [
            "InputTensor",
            "IndicesTensor",
            "OutputTensor",
        ]
        assert (
            protos[0].doc_string
            == "DML_OPERATOR_GATHER; out_of_range=clamp, target=native"
        )
        assert not protos[0].attribute

    @settings(max_examples=by_ring(8, 30))
    @given(st.lists(cases(), min_size=2, max_size=3), st.sampled_from(NO_ERROR))
    def test_a_model_of_them_gives_what_each_gives_alone(
        self, parts: list[Case], policy: OutOfRange
    ) -> None:
        model = packed([case.desc for case in parts], policy)
        assert_as_alone(model, [(case, policy) for case in parts])

    @pytest.mark.skipif(len(LIBRARIES) < 2, reason="the native kernels are not built")
    def test_the_kernel_runs_in_each(self) -> None:
        model = packed([DESC, NEXT, DESC])
        session = Opened(
            model.SerializeToString(), Setup(CPU, 1, operators=LIBRARIES[-1])
        )
        assert [op for _, op in session.assignment] == ["GATHER", "GATHER_2", "GATHER"]

    def test_the_reference_evaluator_takes_them_in_reverse_order(self) -> None:
        model = packed([DESC, NEXT])
        reverse = [*reversed(model.functions)]
        del model.functions[:]
        model.functions.extend(reverse)
        evaluator: Any = ReferenceEvaluator(model)
        feeds = {"x0": DATA, "i0": FIRST, "x1": DATA[:, :2], "i1": SECOND}
        first, second = evaluator.run(None, feeds)
        assert first.tolist() == DATA[:, [2, 0]].tolist()
        assert second.tolist() == DATA[:, :2][[3, 0, 3]].tolist()
