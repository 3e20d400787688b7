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
from onnx_graphs import constant
from onnx_texts import model_of
from short_descriptors import ascending

import onnxgather as og
from onnxgather.auditing.proof.ranges import ranges_of
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.network import Network, Scope, read_network
from onnxgather.core.model.values import ValueType


def refusal(made: Any, **shapes: Sequence[int]) -> str:
    message = message_of(OnnxGatherError, read_network, made, shapes)
    assert message.startswith("the model: ")
    return message.removeprefix("the model: ")


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


TABLE = "float[4,3] table = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}"
IDS = "int64[n,2] ids"
GATHER = "[gather] rows = Gather <axis = 1> (table, ids)"


def rows(*functions: str, **fields: Any) -> onnx.ModelProto:
    """Return a model that gathers from a table."""
    text = f"g ({IDS}) => (rows) <{TABLE}> {{ {GATHER} }}"
    return model_of(text, *functions, **fields)


def either(branch: str, output: str = "out", name: str = "if_1") -> str:
    """Return an If with the same branch twice."""
    branches = f"else_branch = {branch}, then_branch = {branch}"
    return f"[{name}] {output} = If <{branches}> (on)"


def test_an_initializer_that_a_body_lists_among_its_inputs_is_a_constant() -> None:
    inner = """b (int64[1] five, int64[2] one) => (row) <int64[1] five = {5}> {
        row = Gather (table, five)
        same = Identity (one)
    }"""
    scan = f"rows = Scan <num_scan_inputs = 1, body = {inner}> (ids)"
    made = model_of(f"g ({IDS}) => (rows) <{TABLE}> {{ {scan} }}")
    assert body(read_network(made), "rows", "body").inputs == ("one",)
    (gather,) = og.audit(made, ranges={"ids": (0, 3)}).gathers
    assert gather.range.state == "out-of-range"


def test_a_graph_has_its_nodes_types_and_constants() -> None:
    found = sized(rows()).main
    (gather,) = found.operations
    assert (gather.name, gather.operator, gather.domain) == ("gather", "Gather", "")
    assert (gather.inputs, gather.outputs) == (("table", "ids"), ("rows",))
    assert gather.attributes == {"axis": 1}
    assert (found.opsets[""], found.where) == (17, "main graph")
    assert (found.inputs, found.outputs) == (("ids",), ("rows",))
    assert found.types == {
        "table": ValueType("FLOAT", (4, 3)),
        "ids": ValueType("INT64", (None, 2)),
        "rows": ValueType("FLOAT", (4, None, 2)),
    }
    assert values_of(found, "table") == np.arange(12).reshape(4, 3).tolist()
    assert (found.constant("ids"), found.constant("nothing")) == (None, None)


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ("value = int32[2] {1, 2}", np.array([1, 2], np.int32)),
        ("value_int = 7", np.int64(7)),
        ("value_ints = [7, 8]", np.array([7, 8], np.int64)),
        ("value_float = 0.5", np.float32(0.5)),
        ("value_floats = [0.5, 1.5]", np.array([0.5, 1.5], np.float32)),
        ('value_strings = ["a"]', np.array(["a"], object)),
    ],
)
def test_a_constant_node_is_a_constant(attribute: str, expected: Any) -> None:
    found = read_network(model_of(f"g () => (c) {{ c = Constant <{attribute}> () }}"))
    array = found.main.constant("c")
    assert array is not None
    assert (array.dtype, array.tolist()) == (expected.dtype, expected.tolist())
    assert found.main.operations[0].attributes == {}


def test_sparse_constants_have_a_type_but_no_array() -> None:
    values, where = constant("s", np.array([1], np.float32)), constant("where", [3])
    sparse = helper.make_sparse_tensor(values, where, [5])
    made = model_of("g () => () { c = Constant <value_int = 1> () y = Neg (s) }")
    given = helper.make_attribute("sparse_value", sparse)
    made.graph.node[0].attribute[0].CopyFrom(given)
    made.graph.sparse_initializer.append(sparse)
    found = sized(made).main
    assert (found.constant("c"), found.constant("s")) == (None, None)
    assert found.type_of("y") == found.type_of("s") == ValueType("FLOAT", (5,))


def test_external_data_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    made = rows()
    table = constant("table", ascending("FLOAT32 4x3"))
    made.graph.initializer[0].CopyFrom(table)
    path = tmp_path / "m.onnx"
    library: Any = onnx  # the signature is only partly typed
    library.save_model(
        made, path, save_as_external_data=True, location="m.data", size_threshold=0
    )
    assert values_of(read_network(path).main, "table")[3] == [9, 10, 11]
    tmp_path.joinpath("m.data").unlink()
    found = sized(path).main
    assert found.type_of("rows") == ValueType("FLOAT", (4, None, 2))
    with pytest.raises(OnnxGatherError, match="what leads to 'table' cannot be read: "):
        found.constant("table")


def test_an_initializer_that_is_an_input_is_a_default_since_ir_version_4() -> None:
    made = model_of(f"g ({IDS}, float[4,3] table) => (rows) <{TABLE}> {{ {GATHER} }}")
    found = read_network(made).main
    assert (found.is_constant("table"), found.inputs) == (False, ("ids", "table"))
    made.ir_version = 3
    found = read_network(made).main
    assert (found.is_constant("table"), found.inputs) == (True, ("ids",))


class TestSizes:
    def test_given_sizes_are_put_in_before_sizes_are_computed(self) -> None:
        made = model_of(
            f"g ({IDS}) => (rows) <float[4,n,2] rows, {TABLE}> {{ {GATHER} }}"
        )
        assert read_network(made).main.type_of("rows").sizes is None
        assert sized(made).main.type_of("rows") == ValueType("FLOAT", (4, None, 2))
        found = sized(made, {"ids": [5, 2]})
        assert found.main.type_of("rows") == ValueType("FLOAT", (4, 5, 2))
        assert made.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"

    def test_sizes_are_followed_through_constants(self) -> None:
        nodes = """
            shape = Shape (ids)
            two = Gather (shape, second)
            zeros = ConstantOfShape (two)
        """
        made = model_of(f"g ({IDS}) => (zeros) <int64[1] second = {{1}}> {{ {nodes} }}")
        assert sized(made).main.type_of("zeros").sizes == (2,)

    @pytest.mark.parametrize("declared", ["5,2", "n,2", "n,n", "6,2", "5,2,1"])
    def test_a_size_that_a_model_declares_is_not_read(self, declared: str) -> None:
        nodes = "{ y = Neg (ids) z = own.Odd (ids) }"
        y, z = f"int64[{declared}] y", "int64[7,7] z"
        for head in (f"g ({IDS}) => () <{y}, {z}>", f"g ({IDS}) => ({y}) <{z}>"):
            found = sized(model_of(f"{head} {nodes}"), {"ids": [5, 2]}).main
            assert found.type_of("y") == ValueType("INT64", (5, 2))
            assert found.type_of("z") == ValueType("INT64")  # nothing checks the sizes

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
        assert refusal(rows(), **shapes) == message


class TestSubgraphs:
    def test_a_branch_sees_the_values_outside_it(self) -> None:
        deeper = either("d () => (z) { z = Gather (table, own) }", "y", "if_2")
        then = f"t () => (y) {{ own = Add (ids, ids) {deeper} }}"
        other = "o () => (w) { w = Gather (table, ids) }"
        branches = f"else_branch = {other}, then_branch = {then}"
        made = model_of(
            f"g ({IDS}, bool on) => (out) <{TABLE}>"
            f" {{ [if_1] out = If <{branches}> (on) }}"
        )
        found = sized(made, {"ids": [5, 2]})
        assert [each.where for each in found.main.scopes()] == [
            "main graph",
            "else_branch of if_1",
            "then_branch of if_1",
            "else_branch of if_2 in then_branch of if_1",
            "then_branch of if_2 in then_branch of if_1",
        ]
        inner = body(body(found, "if_1", "then_branch"), "if_2", "then_branch")
        assert inner.type_of("own") == ValueType("INT64", (5, 2))
        assert inner.type_of("z") == ValueType("FLOAT", (5, 2, 3))
        assert np.shape(values_of(inner, "table")) == (4, 3)

    def test_a_name_inside_hides_the_one_outside(self) -> None:
        inside = either("t () => (y) <int64[3] table = {1, 2, 3}> { y = Neg (table) }")
        found = read_network(model_of(f"g (bool on) => (out) <{TABLE}> {{ {inside} }}"))
        assert values_of(body(found, "if_1", "then_branch"), "table") == [1, 2, 3]

    def test_a_loop_and_a_scan_have_bodies(self) -> None:
        looped = """b (int64 k, bool on, int64[5,m] state, int64[grown,m] grows)
            => (still, next, grown) {
            still = Identity (on)
            next = Neg (state)
            grown = Concat <axis = 0> (grows, state)
        }"""
        scanned = "b (int64[2] row) => (turned) { turned = Neg (row) }"
        made = model_of(f"""g ({IDS}) => (last, all) {{
            [loop_1] last, more = Loop <body = {looped}> (, , ids, ids)
            [scan_1] all = Scan <num_scan_inputs = 1, body = {scanned}> (ids)
        }}""")
        found = sized(made, {"ids": [5, 2]})
        loop, scan = body(found, "loop_1", "body"), body(found, "scan_1", "body")
        inputs = ("k", "on", "state", "grows")
        assert (loop.where, loop.inputs) == ("body of loop_1", inputs)
        # One state grows in each iteration.
        for state, output, sizes in (
            ("state", "last", (5, 2)),
            ("grows", "more", (None, 2)),
        ):
            assert loop.type_of(state).sizes == sizes
            assert found.main.type_of(output).sizes == sizes
        assert scan.where == "body of scan_1"
        assert scan.type_of("turned") == ValueType("INT64", (2,))


class TestFunctions:
    def test_each_call_is_a_copy_with_its_own_sizes_attributes_and_constants(
        self,
    ) -> None:
        made = model_of(
            f"""g ({IDS}) => (a, b) <{TABLE}, int64[1] zero = {{0}}> {{
                [call_1] a = own.Pick <along = 1> (table, ids)
                [call_2] b = own.Pick (ids, zero)
            }}""",
            """Pick <along> (data, which) => (found) {
                found = Gather <axis: int = @along> (data, which)
            }""",
        )
        found = sized(made, {"ids": [5, 2]})
        one, two = body(found, "call_1", "function"), body(found, "call_2", "function")
        assert one.where == "function Pick, called by call_1"
        assert one.inputs == ("data", "which")
        assert (one.outputs, one.outer) == (("found",), None)
        assert one.operations[0].attributes == {"axis": 1}
        assert two.operations[0].attributes == {}
        assert one.type_of("found") == ValueType("FLOAT", (4, 5, 2))
        assert two.type_of("found") == ValueType("INT64", (1, 2))
        assert values_of(two, "which") == [0]
        assert one.constant("which") is None
        assert found.main.type_of("a") == ValueType("FLOAT", (4, 5, 2))

    def test_names_in_a_function_are_its_own(self) -> None:
        made = model_of(
            f"g ({IDS}) => (out) <{TABLE}> {{ out = own.F (ids) }}",
            "F (x) => (y) { y = Gather (table, x) }",
        )
        assert (
            refusal(made)
            == "function F, called by out: node 'y' must take values of its graph or of"
            " a graph around it, got 'table'"
        )

    def test_functions_call_functions_from_subgraphs_too(self) -> None:
        branch = either("t () => (b) { [call] b = own.Inner (x) }")
        made = model_of(
            f"g ({IDS}, bool on) => (r) {{ [top] r = own.Outer (ids, on) }}",
            f"Outer (x, on) => (out) {{ {branch} }}",
            "Inner (x) => (y) { [g] y = Gather (x, x) }",
        )
        where = [each.where for each in read_network(made).main.scopes()]
        assert len(where) == 6
        assert (
            where[-1]
            == "function Inner, called by call in then_branch of if_1 in function"
            " Outer, called by top"
        )

    def test_a_function_that_leads_to_itself_is_refused(self) -> None:
        made = model_of(
            f"g ({IDS}) => (r) {{ r = own.A (ids) }}",
            "A (x) => (y) { y = own.B (x) }",
            "B (x) => (y) { y = own.A (x) }",
        )
        rule = "function 'A' must not call itself, nor stand behind 50 calls"
        assert refusal(made) == rule

    def test_functions_that_multiply_are_refused(self) -> None:
        twice = "F{} (x) => (z) {{ y = own.F{} (x) z = own.F{} (x) }}"
        chain = [twice.format(k, k + 1, k + 1) for k in range(30)]
        chain.append("F30 (x) => (y) { y = Neg (x) }")
        assert (
            refusal(model_of(f"g ({IDS}) => (r) {{ r = own.F0 (ids) }}", *chain))
            == "the model must have at most 20,000 copies of nodes, as each call copies"
            " its function, got 3,221,225,409"
        )

    @pytest.mark.slow
    def test_nodes_count_once_and_their_copies_by_calls_apart(self) -> None:
        """So 20,001 nodes may stand in functions, but not come from calls."""

        def called(nodes: int, calls: int) -> onnx.ModelProto:
            negated = " ".join(f"y{k} = Neg (x)" for k in range(nodes))
            each = " ".join(f"r{k} = own.F (ids)" for k in range(calls))
            graph = f"g ({IDS}) => (r0) {{ {each} }}"
            return model_of(graph, f"F (x) => (y{nodes - 1}) {{ {negated} }}")

        assert len(read_network(called(20_001, 1)).main.operations) == 1
        assert (
            refusal(called(10_001, 3))
            == "the model must have at most 20,000 copies of nodes, as each call copies"
            " its function, got 20,002"
        )
        many = model_of(f"g ({IDS}) => (r0) {{ r0 = Neg (ids) }}")
        many.graph.node.extend([many.graph.node[0]] * 300_000)
        rule = "the model must have at most 300,000 nodes, got 300,001"
        assert refusal(many) == rule


def test_a_name_of_two_values_in_a_subgraph_is_refused() -> None:
    twice = either("t () => (y) { y = Neg (ids) y = Neg (ids) }")
    made = model_of(f"g ({IDS}, bool on) => (out) {{ {twice} }}")
    assert refusal(made) == "name 'y' must be of one value, got 2"


def test_without_the_operators_of_onnx_the_declared_types_alone_are_known() -> None:
    made = model_of(f"g ({IDS}) => (y) {{ y = com.odd.Odd (ids) }}")
    del made.opset_import[:]
    made.opset_import.append(helper.make_opsetid("com.odd", 1))
    found = sized(made).main
    assert found.type_of("y") == ValueType()
    assert found.type_of("ids") == ValueType("INT64", (None, 2))
    assert found.opsets == {"com.odd": 1}


@pytest.mark.parametrize("version", [0, 3, 14])
def test_the_versions_of_the_format_that_onnx_runtime_runs_are_read(
    version: int,
) -> None:
    found = read_network(rows(ir_version=version))
    assert found.main.operations[0].label == "gather"


@pytest.mark.parametrize("version", [-5, 15, 2**62])
def test_a_version_of_the_format_that_nothing_runs_is_refused(version: int) -> None:
    rule = f"ir_version must be an integer from 0 to 14, got {version}"
    assert refusal(rows(ir_version=version)) == rule


FUNCTION = "F (x) => (y) { y = Neg (x) }"


@pytest.mark.parametrize("version", [-1, 0, 29, 2**32 + 17, 2**62])
def test_a_version_of_onnx_that_nothing_runs_is_refused(version: int) -> None:
    made = rows(FUNCTION)
    made.functions[0].opset_import[0].version = version
    rule = f"the opset of ai.onnx must be an integer from 1 to 28, got {version}"
    assert refusal(made) == f"function 'F': {rule}"
    made.opset_import[0].version = version
    assert refusal(made) == rule


ONE_VERSION = "opset_import must name one version of ai.onnx, got 13, 17"


@pytest.mark.parametrize(
    ("first", "second"), [("", "ai.onnx"), ("ai.onnx", ""), ("",) * 2]
)
def test_two_versions_of_onnx_are_refused(first: str, second: str) -> None:
    # ONNX Runtime takes the last, and onnx that of the name that a node has.
    versions = [helper.make_opsetid(first, 13), helper.make_opsetid(second, 17)]
    made = rows(FUNCTION)
    for part, where in ((made.functions[0], "function 'F': "), (made, "")):
        del part.opset_import[:]
        part.opset_import.extend(versions)
        assert refusal(made) == where + ONE_VERSION


def test_a_version_may_be_named_twice_and_the_newest_holds_for_none() -> None:
    made = rows()
    made.opset_import.append(helper.make_opsetid("ai.onnx", 17))
    assert read_network(made).main.version == 17
    del made.opset_import[:]
    made.opset_import.append(helper.make_opsetid("own", 1))
    assert read_network(made).main.version == 28
    del made.opset_import[:]
    rule = "opset_import must name the version of ai.onnx, got none"
    assert refusal(made) == rule


def test_a_value_that_leads_to_itself_is_refused() -> None:
    gather = "[gather] rows = Gather (table, moved)"
    head = f"g ({IDS}, bool on) => (rows) <{TABLE}>"
    circle = either("b () => (b) { b = Neg (rows) }", "moved")
    for moved in ("moved = Add (rows, ids)", circle):
        assert (
            refusal(model_of(f"{head} {{ {moved} {gather} }}"))
            == "main graph: a value must not lead to itself, got 'moved', 'rows',"
            " 'moved'"
        )
    same = either("b () => (moved) { moved = Neg (ids) }", "moved")
    found = read_network(model_of(f"{head} {{ {gather} {same} }}"))
    assert len(found.main.operations) == 2


def test_a_value_that_there_is_not_is_refused() -> None:
    branch = either("b () => (b) { [neg] b = Neg (nowhere) }")
    assert (
        refusal(model_of(f"g (bool on) => (out) {{ {branch} }}"))
        == "else_branch of if_1: node 'neg' must take values of its graph or of a graph"
        " around it, got 'nowhere'"
    )


@pytest.mark.parametrize(
    "broken",
    [
        "y = Gather <axis = [0]> (x, i)",
        "y = If <then_branch = t () => (x) {}> (c)",
        "y = Loop (, , x)",
    ],
)
def test_a_node_without_what_onnx_asks_of_it_is_one_sentence(broken: str) -> None:
    made = model_of(f"g (float[3] x, int64[2] i, bool c) => (y) {{ {broken} }}")
    assert refusal(made) == "node 'y' must be one that ONNX allows"


def test_a_negative_size_is_one_that_is_not_known() -> None:
    made = model_of("g (float[4,3] x, int64[2,1] i) => (y) { y = GatherND (x, i) }")
    made.graph.input[1].type.tensor_type.shape.dim[1].dim_value = -2147483647
    assert read_network(made).main.type_of("i").sizes == (2, None)


@pytest.mark.parametrize(
    "domain", ["", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.ms.internal.nhwc"]
)
def test_a_function_is_not_followed_where_onnx_runtime_may_have_the_operator(
    domain: str,
) -> None:
    made = model_of(
        f"g ({IDS}) => (last) {{ [last] last = ArgMax (ids) }}",
        "ArgMax (s) => (zeros) { zeros = Sub (s, s) }",
    )
    made.graph.node[0].domain = made.functions[0].domain = domain
    found = read_network(made)
    assert not found.main.operations[0].bodies
    assert [scope.where for scope in found.uncalled.values()] == [
        "function ArgMax, not called"
    ]
