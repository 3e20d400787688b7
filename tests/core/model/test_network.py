"""A model as plain data: every graph, with the types, sizes and constants of its
values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from messages import message_of
from onnx import helper
from onnx_graphs import BOOL, FLOAT, INT64, constant, function, graph, info, model, node

import onnxgather as og
from onnxgather.auditing.proof.ranges import ranges_of
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.network import Network, Scope, read_network
from onnxgather.core.model.values import ValueType


def refusal(made: Any, **shapes: Sequence[int]) -> str:
    return message_of(OnnxGatherError, read_network, made, shapes)


def sized(made: Any, shapes: dict[str, list[int]] | None = None) -> Network:
    """A model, after the walk has told the types and sizes of its values."""
    found = read_network(made, shapes)
    ranges_of(found)
    return found


def body(found: Network | Scope, label: str, attribute: str) -> Scope:
    """Return the body of a node of a graph."""
    outer = found.main if isinstance(found, Network) else found
    return next(n for n in outer.operations if n.label == label).bodies[attribute]


def values_of(scope: Scope, name: str) -> Any:
    """Return the elements of a constant of a graph."""
    array = scope.constant(name)
    assert array is not None
    return array.tolist()


TABLE = constant("table", np.arange(12.0, dtype=np.float32).reshape(4, 3))
GATHER = node("Gather", ["table", "ids"], "rows", "gather", axis=1)
IDS = info("ids", INT64, ["n", 2])
ON = info("on", BOOL, [])


def rows(**more: Any) -> onnx.ModelProto:
    """Return a model that gathers from a table, with some fields of its own."""
    return model([GATHER], [IDS], ["rows"], [TABLE], **more)


def either(branch: onnx.GraphProto, output: str = "out") -> onnx.NodeProto:
    """Return an If with the same branch twice."""
    return node("If", ["on"], output, "if_1", then_branch=branch, else_branch=branch)


def call(name: str, output: str, value: str = "ids", **more: Any) -> onnx.NodeProto:
    """Return a call of a function of one input."""
    return node(name, [value], output, domain="own", **more)


def test_an_initializer_that_a_body_lists_among_its_inputs_is_a_constant() -> None:
    five = constant("five", np.array([5]))
    nodes = [
        node("Gather", ["table", "five"], "row"),
        node("Identity", ["one"], "same"),
    ]
    inner = graph(
        nodes, [info("five", INT64, [1]), info("one", INT64, [2])], ["row"], [five]
    )
    scan = node("Scan", ["ids"], "rows", body=inner, num_scan_inputs=1)
    made = model([scan], [IDS], ["rows"], [TABLE])
    assert body(read_network(made), "rows", "body").inputs == ("one",)
    (gather,) = og.audit(made, ranges={"ids": (0, 3)}).gathers
    assert gather.range.state == "out-of-range"


def test_a_graph_has_its_nodes_types_and_constants() -> None:
    found = sized(rows())
    (gather,) = found.main.operations
    assert (gather.name, gather.operator, gather.domain) == ("gather", "Gather", "")
    assert (gather.inputs, gather.outputs) == (("table", "ids"), ("rows",))
    assert gather.attributes == {"axis": 1}
    assert (found.main.opsets[""], found.main.where) == (17, "main graph")
    assert (found.main.inputs, found.main.outputs) == (("ids",), ("rows",))
    assert found.main.types == {
        "table": ValueType("FLOAT", (4, 3)),
        "ids": ValueType("INT64", (None, 2)),
        "rows": ValueType("FLOAT", (4, None, 2)),
    }
    assert values_of(found.main, "table") == np.arange(12).reshape(4, 3).tolist()
    assert found.main.constant("ids") is None
    assert found.main.constant("nothing") is None


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        (
            {"value": constant("v", np.array([1, 2], np.int32))},
            np.array([1, 2], np.int32),
        ),
        ({"value_int": 7}, np.int64(7)),
        ({"value_ints": [7, 8]}, np.array([7, 8], np.int64)),
        ({"value_float": 0.5}, np.float32(0.5)),
        ({"value_floats": [0.5, 1.5]}, np.array([0.5, 1.5], np.float32)),
        ({"value_strings": ["a"]}, np.array(["a"], object)),
    ],
)
def test_a_constant_node_is_a_constant(attribute: Any, expected: Any) -> None:
    found = read_network(model([node("Constant", [], "c", **attribute)], [], ["c"]))
    array = found.main.constant("c")
    assert array is not None
    assert (array.dtype, array.tolist()) == (expected.dtype, expected.tolist())
    assert found.main.operations[0].attributes == {}


def test_sparse_constants_have_a_type_but_no_array() -> None:
    values, where = (
        constant("s", np.array([1], np.float32)),
        constant("where", np.array([3], np.int64)),
    )
    sparse = helper.make_sparse_tensor(values, where, [5])
    made = model(
        [node("Constant", [], "c", sparse_value=sparse), node("Neg", ["s"], "y")]
    )
    made.graph.sparse_initializer.append(sparse)
    found = sized(made)
    assert (found.main.constant("c"), found.main.constant("s")) == (None, None)
    assert (
        found.main.type_of("y") == found.main.type_of("s") == ValueType("FLOAT", (5,))
    )


def test_external_data_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    made = rows()
    path = tmp_path / "m.onnx"
    library: Any = onnx  # the signature is only partly typed
    library.save_model(
        made, path, save_as_external_data=True, location="m.data", size_threshold=0
    )
    table = read_network(path).main.constant("table")
    assert table is not None
    assert table[3].tolist() == [9, 10, 11]
    tmp_path.joinpath("m.data").unlink()
    found = sized(path).main
    assert found.type_of("rows") == ValueType("FLOAT", (4, None, 2))
    with pytest.raises(OnnxGatherError, match="what leads to 'table' cannot be read: "):
        found.constant("table")


def test_an_initializer_that_is_an_input_is_a_default_since_ir_version_4() -> None:
    made = model([GATHER], [IDS, info("table", FLOAT, [4, 3])], ["rows"], [TABLE])
    assert not read_network(made).main.is_constant("table")
    assert read_network(made).main.inputs == ("ids", "table")
    made.ir_version = 3
    assert read_network(made).main.is_constant("table")
    assert read_network(made).main.inputs == ("ids",)


class TestSizes:
    def test_given_sizes_are_put_in_before_sizes_are_computed(self) -> None:
        made = rows()
        made.graph.value_info.append(info("rows", FLOAT, [4, "n", 2]))
        assert read_network(made).main.type_of("rows").sizes is None
        assert sized(made).main.type_of("rows") == ValueType("FLOAT", (4, None, 2))
        found = sized(made, {"ids": [5, 2]})
        assert found.main.type_of("rows") == ValueType("FLOAT", (4, 5, 2))
        assert made.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"

    def test_sizes_are_followed_through_constants(self) -> None:
        nodes = [
            node("Shape", ["ids"], "shape"),
            node("Gather", ["shape", "second"], "two"),
            node("ConstantOfShape", ["two"], "zeros"),
        ]
        found = sized(
            model(
                nodes, [IDS], ["zeros"], [constant("second", np.array([1], np.int64))]
            )
        )
        assert found.main.type_of("zeros").sizes == (2,)

    @pytest.mark.parametrize(
        "declared", [[5, 2], ["n", 2], ["n", "n"], [6, 2], [5, 2, 1]]
    )
    def test_a_size_that_a_model_declares_is_not_read(
        self, declared: list[int | str]
    ) -> None:
        nodes = [node("Neg", ["ids"], "y"), call("Odd", "z")]
        made = model(nodes, [IDS])
        made.graph.value_info.extend(
            [info("y", INT64, declared), info("z", INT64, [7, 7])]
        )
        found = sized(made, {"ids": [5, 2]}).main
        assert found.type_of("y") == ValueType("INT64", (5, 2))
        assert found.type_of("z") == ValueType("INT64")  # nothing checks the sizes
        del made.graph.value_info[0]
        made.graph.output.append(info("y", INT64, declared))
        declared_output = sized(made, {"ids": [5, 2]}).main.type_of("y")
        assert declared_output == ValueType("INT64", (5, 2))

    @pytest.mark.parametrize(
        ("shapes", "message"),
        [
            ({"ids": [5, 3]}, "input 'ids' must be INT64 [?, 2], got [5, 3]"),
            ({"ids": [5]}, "input 'ids' must be INT64 [?, 2], got [5]"),
            (
                {"id": [5]},
                "a shape must be of an input ('ids'), got 'id'; did you mean \"ids\"?",
            ),
        ],
    )
    def test_sizes_that_an_input_cannot_have_are_refused(
        self, shapes: dict[str, list[int]], message: str
    ) -> None:
        assert refusal(rows(), **shapes) == f"the model: {message}"


class TestSubgraphs:
    def test_a_branch_sees_the_values_outside_it(self) -> None:
        deeper = graph([node("Gather", ["table", "own"], "z")], (), ["z"])
        then = graph(
            [
                node("Add", ["ids", "ids"], "own"),
                node("If", ["on"], "y", "if_2", then_branch=deeper, else_branch=deeper),
            ],
            (),
            ["y"],
        )
        other = graph([node("Gather", ["table", "ids"], "w")], (), ["w"])
        outer = node("If", ["on"], "out", "if_1", then_branch=then, else_branch=other)
        made = model([outer], [IDS, ON], ["out"], [TABLE])
        found = sized(made, {"ids": [5, 2]})
        where = [each.where for each in found.main.scopes()]
        assert where == [
            "main graph",
            "else_branch of if_1",
            "then_branch of if_1",
            "else_branch of if_2 in then_branch of if_1",
            "then_branch of if_2 in then_branch of if_1",
        ]
        inner = body(body(found, "if_1", "then_branch"), "if_2", "then_branch")
        assert inner.type_of("own") == ValueType("INT64", (5, 2))
        assert inner.type_of("z") == ValueType("FLOAT", (5, 2, 3))
        table = inner.constant("table")
        assert table is not None
        assert table.shape == (4, 3)

    def test_a_name_inside_hides_the_one_outside(self) -> None:
        inside = graph(
            [node("Neg", ["table"], "y")], (), ["y"], [constant("table", [1, 2, 3])]
        )
        only = either(inside)
        found = read_network(model([only], [ON], ["out"], [TABLE]))
        branch = body(found, "if_1", "then_branch")
        assert values_of(branch, "table") == [1, 2, 3]

    def test_a_loop_and_a_scan_have_bodies(self) -> None:
        inputs = [
            info("k", INT64, []),
            ON,
            info("state", INT64, [5, "m"]),
        ]
        inputs.append(info("grows", INT64, ["grown", "m"]))
        nodes = [node("Identity", ["on"], "still"), node("Neg", ["state"], "next")]
        nodes.append(node("Concat", ["grows", "state"], "grown", axis=0))
        loop_body = graph(nodes, inputs, ["still", "next", "grown"])
        scan_body = graph(
            [node("Neg", ["row"], "turned")], [info("row", INT64, [2])], ["turned"]
        )
        looped = ["last", "more"]
        made = model(
            [
                helper.make_node(
                    "Loop", ["", "", "ids", "ids"], looped, "loop_1", body=loop_body
                ),
                node(
                    "Scan", ["ids"], "all", "scan_1", body=scan_body, num_scan_inputs=1
                ),
            ],
            [IDS],
            ["last", "all"],
        )
        found = sized(made, {"ids": [5, 2]})
        loop, scan = body(found, "loop_1", "body"), body(found, "scan_1", "body")
        assert (loop.where, loop.inputs) == (
            "body of loop_1",
            ("k", "on", "state", "grows"),
        )
        # One state grows in each iteration.
        assert loop.type_of("state").sizes == found.main.type_of("last").sizes == (5, 2)
        assert (
            loop.type_of("grows").sizes == found.main.type_of("more").sizes == (None, 2)
        )
        assert (scan.where, scan.type_of("turned")) == (
            "body of scan_1",
            ValueType("INT64", (2,)),
        )


class TestFunctions:
    def test_each_call_is_a_copy_with_its_own_sizes_attributes_and_constants(
        self,
    ) -> None:
        gather = node("Gather", ["data", "which"], "found", "inner")
        gather.attribute.append(
            onnx.AttributeProto(
                name="axis", type=onnx.AttributeProto.INT, ref_attr_name="along"
            )
        )
        pick = function("Pick", ["data", "which"], [gather], attributes=["along"])
        nodes = [
            node("Pick", ["table", "ids"], "a", "call_1", domain="own", along=1),
            node("Pick", ["ids", "zero"], "b", "call_2", domain="own"),
        ]
        made = model(
            nodes, [IDS], ["a", "b"], [TABLE, constant("zero", [0])], functions=[pick]
        )
        found = sized(made, {"ids": [5, 2]})
        one, two = body(found, "call_1", "function"), body(found, "call_2", "function")
        assert (one.where, one.inputs) == (
            "function Pick, called by call_1",
            ("data", "which"),
        )
        assert (one.outputs, one.outer) == (("found",), None)
        assert (one.operations[0].attributes, two.operations[0].attributes) == (
            {"axis": 1},
            {},
        )
        assert one.type_of("found") == ValueType("FLOAT", (4, 5, 2))
        assert two.type_of("found") == ValueType("INT64", (1, 2))
        assert values_of(two, "which") == [0]
        assert one.constant("which") is None
        assert found.main.type_of("a") == ValueType("FLOAT", (4, 5, 2))

    def test_names_in_a_function_are_its_own(self) -> None:
        hidden = function("F", ["x"], [node("Gather", ["table", "x"], "y")])
        made = model(
            [call("F", "out")],
            [IDS],
            ["out"],
            [TABLE],
            functions=[hidden],
        )
        assert (
            refusal(made)
            == "the model: function F, called by out: node 'y' must take values of its"
            " graph or of a graph around it, got 'table'"
        )

    def test_functions_call_functions_from_subgraphs_too(self) -> None:
        inner = function("Inner", ["x"], [node("Gather", ["x", "x"], "y", "g")])
        branch = graph([node("Inner", ["x"], "b", "call", domain="own")], (), ["b"])
        only = either(branch)
        outer = function("Outer", ["x", "on"], [only])
        made = model(
            [node("Outer", ["ids", "on"], "r", "top", domain="own")],
            [IDS, ON],
            ["r"],
            functions=[outer, inner],
        )
        where = [each.where for each in read_network(made).main.scopes()]
        assert len(where) == 6
        assert (
            where[-1]
            == "function Inner, called by call in then_branch of if_1 in function"
            " Outer, called by top"
        )

    def test_a_function_that_leads_to_itself_is_refused(self) -> None:
        a = function("A", ["x"], [call("B", "y", "x")])
        b = function("B", ["x"], [call("A", "y", "x")])
        made = model([call("A", "r")], [IDS], ["r"], functions=[a, b])
        said = refusal(made)
        assert (
            said
            == "the model: function 'A' must not call itself, nor stand behind 50 calls"
        )

    def test_functions_that_multiply_are_refused(self) -> None:
        def twice(name: str, called: str) -> Any:
            calls = [call(called, each, "x") for each in ("y", "z")]
            return function(name, ["x"], calls)

        chain = [twice(f"F{k}", f"F{k + 1}") for k in range(30)]
        last = function("F30", ["x"], [node("Neg", ["x"], "y")])
        assert (
            refusal(model([call("F0", "r")], [IDS], ["r"], functions=[*chain, last]))
            == "the model: the model must have at most 20,000 copies of nodes, as each"
            " call copies its function, got 3,221,225,409"
        )

    @pytest.mark.slow
    def test_nodes_count_once_and_their_copies_by_calls_apart(self) -> None:
        """So 20,001 nodes may stand in functions, but not come from calls."""

        def called(nodes: int, calls: int) -> onnx.ModelProto:
            many = function(
                "F", ["x"], [node("Neg", ["x"], f"y{k}") for k in range(nodes)]
            )
            each = [node("F", ["ids"], f"r{k}", domain="own") for k in range(calls)]
            return model(each, [IDS], ["r0"], functions=[many])

        assert len(read_network(called(20_001, 1)).main.operations) == 1
        assert (
            refusal(called(10_001, 3))
            == "the model: the model must have at most 20,000 copies of nodes, as each"
            " call copies its function, got 20,002"
        )
        many = [node("Neg", ["ids"], "r0")] * 300_001
        assert (
            refusal(model(many, [IDS], ["r0"]))
            == "the model: the model must have at most 300,000 nodes, got 300,001"
        )


def test_a_name_of_two_values_in_a_subgraph_is_refused() -> None:
    twice = graph([node("Neg", ["ids"], "y"), node("Neg", ["ids"], "y")], (), ["y"])
    only = either(twice)
    made = model([only], [IDS, ON], ["out"])
    assert refusal(made) == "the model: name 'y' must be of one value, got 2"


def test_without_the_operators_of_onnx_the_declared_types_alone_are_known() -> None:
    made = model([node("Odd", ["ids"], "y", domain="com.odd")], [IDS], ["y"])
    del made.opset_import[:]
    made.opset_import.append(helper.make_opsetid("com.odd", 1))
    found = sized(made)
    assert found.main.type_of("y") == ValueType()
    assert found.main.type_of("ids") == ValueType("INT64", (None, 2))
    assert found.main.opsets == {"com.odd": 1}


@pytest.mark.parametrize("version", [0, 3, 14])
def test_the_versions_of_the_format_that_onnx_runtime_runs_are_read(
    version: int,
) -> None:
    found = read_network(rows(ir_version=version))
    assert found.main.operations[0].label == "gather"


@pytest.mark.parametrize("version", [-5, 15, 2**62])
def test_a_version_of_the_format_that_nothing_runs_is_refused(version: int) -> None:
    assert (
        refusal(rows(ir_version=version))
        == f"the model: ir_version must be an integer from 0 to 14, got {version}"
    )


@pytest.mark.parametrize("version", [-1, 0, 29, 2**32 + 17, 2**62])
def test_a_version_of_onnx_that_nothing_runs_is_refused(version: int) -> None:
    made = rows()
    made.opset_import[0].version = version
    rule = f"the opset of ai.onnx must be an integer from 1 to 28, got {version}"
    assert refusal(made) == f"the model: {rule}"
    hidden = function("F", ["x"], [node("Neg", ["x"], "y")])
    hidden.opset_import[0].version = version
    with_function = rows(functions=[hidden])
    assert refusal(with_function) == f"the model: function 'F': {rule}"


ONE_VERSION = "opset_import must name one version of ai.onnx, got 13, 17"


@pytest.mark.parametrize(
    ("first", "second"), [("", "ai.onnx"), ("ai.onnx", ""), ("",) * 2]
)
def test_two_versions_of_onnx_are_refused(first: str, second: str) -> None:
    # ONNX Runtime takes the last, and onnx that of the name that a node has.
    versions = [helper.make_opsetid(first, 13), helper.make_opsetid(second, 17)]
    made = rows()
    del made.opset_import[:]
    made.opset_import.extend(versions)
    assert refusal(made) == f"the model: {ONE_VERSION}"
    twice = function("F", ["x"], [node("Neg", ["x"], "y")])
    del twice.opset_import[:]
    twice.opset_import.extend(versions)
    made = rows(functions=[twice])
    assert refusal(made) == f"the model: function 'F': {ONE_VERSION}"


def test_a_version_may_be_named_twice_and_the_newest_holds_for_none() -> None:
    made = rows()
    version = made.opset_import[0].version
    made.opset_import.append(helper.make_opsetid("ai.onnx", version))
    assert read_network(made).main.version == version
    del made.opset_import[:]
    made.opset_import.append(helper.make_opsetid("own", 1))
    assert read_network(made).main.version == 28
    del made.opset_import[:]
    assert (
        refusal(made)
        == "the model: opset_import must name the version of ai.onnx, got none"
    )


def test_a_value_that_leads_to_itself_is_refused() -> None:
    moved = node("Add", ["rows", "ids"], "moved")
    gather = node("Gather", ["table", "moved"], "rows", "gather")
    assert (
        refusal(model([moved, gather], [IDS], ["rows"], [TABLE]))
        == "the model: main graph: a value must not lead to itself, got 'moved',"
        " 'rows', 'moved'"
    )
    branch = graph([node("Neg", ["rows"], "b")], (), ["b"])
    only = either(branch, "moved")
    assert (
        refusal(model([only, gather], [ON], ["rows"], [TABLE]))
        == "the model: main graph: a value must not lead to itself, got 'moved',"
        " 'rows', 'moved'"
    )
    same = graph([node("Neg", ["ids"], "moved")], (), ["moved"])
    only = either(same, "moved")
    inputs = [IDS, ON]
    assert (
        len(
            read_network(
                model([gather, only], inputs, ["rows"], [TABLE])
            ).main.operations
        )
        == 2
    )


def test_a_value_that_there_is_not_is_refused() -> None:
    branch = graph([node("Neg", ["nowhere"], "b", "neg")], (), ["b"])
    only = either(branch)
    assert (
        refusal(model([only], [ON], ["out"]))
        == "the model: else_branch of if_1: node 'neg' must take values of its graph or"
        " of a graph around it, got 'nowhere'"
    )


@pytest.mark.parametrize(
    "broken",
    [
        helper.make_node("Gather", ["x", "i"], ["y"], axis=[0]),
        helper.make_node("If", ["c"], ["y"], then_branch=graph([], [], ["x"])),
        helper.make_node("Loop", ["", "", "x"], ["y"]),
    ],
)
def test_a_node_without_what_onnx_asks_of_it_is_one_sentence(broken: Any) -> None:
    inputs = [info("x", FLOAT, [3]), info("i", INT64, [2]), info("c", BOOL, [])]
    assert (
        message_of(OnnxGatherError, read_network, model([broken], inputs, ["y"]))
        == "the model: node 'y' must be one that ONNX allows"
    )


def test_a_negative_size_is_one_that_is_not_known() -> None:
    gather = helper.make_node("GatherND", ["x", "i"], ["y"])
    inputs = [info("x", FLOAT, [4, 3]), info("i", INT64, [2, -2147483647])]
    network = read_network(model([gather], inputs, ["y"]))
    assert network.main.type_of("i").sizes == (2, None)


@pytest.mark.parametrize(
    "domain", ["", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.ms.internal.nhwc"]
)
def test_a_function_is_not_followed_where_onnx_runtime_may_have_the_operator(
    domain: str,
) -> None:
    own = function("ArgMax", ["s"], [node("Sub", ["s", "s"], "zeros")])
    own.domain = domain
    nodes = [node("ArgMax", ["ids"], "last", "last", domain=domain)]
    found = read_network(model(nodes, [IDS], ["last"], functions=[own]))
    assert not found.main.operations[0].bodies
    assert [scope.where for scope in found.uncalled.values()] == [
        "function ArgMax, not called"
    ]
