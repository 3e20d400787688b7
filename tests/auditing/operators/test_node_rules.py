"""A node with indices that breaks a rule is invalid, and no run of it succeeds."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import onnx
import pytest
from index_models import IndexModel, index_models
from network_draft import session
from onnx_graphs import constant, written
from runtime_faults import IS_OLD

import onnxgather as og
from onnxgather.auditing.operators.index_operators import INDEX_OPERATORS, IndexInput
from onnxgather.core.descriptors.arrays import Array

MODELS = {made.name: made for made in index_models()}

TABLE = constant("table", np.zeros((4, 3), np.float32))

TENSORS = onnx.TensorProto.DataType


def index_input(made: IndexModel) -> IndexInput:
    """Return the row of the input whose index a model changes."""
    (node,) = [node for node in made.model.graph.node if node.op_type == made.op]
    position = [*node.input].index(made.which)
    (row,) = [row for row in made.row.inputs if row.position == position]
    return row


def declared(made: IndexModel, data_type: int, *sizes: None) -> onnx.ModelProto:
    """Return a model that declares another type of the input of its indices."""
    changed = onnx.ModelProto.FromString(made.model.SerializeToString())
    for value in changed.graph.input:
        if value.name == made.which:
            value.CopyFrom(
                onnx.helper.make_tensor_value_info(made.which, data_type, sizes)
            )
    return changed


def rule_of(model: onnx.ModelProto) -> str:
    """Return the rule that the only node with indices breaks."""
    (gather,) = og.audit(model, levels=()).gathers
    assert (gather.range.state, gather.verdict) == ("invalid", "invalid")
    assert (gather.range.conditions, gather.refused) == ((), None)
    return gather.range.why


def fails(model: onnx.ModelProto, inputs: dict[str, Any]) -> bool:
    """Return whether ONNX Runtime does not open a model, or fails to run it."""
    try:
        session(model).run(None, inputs)
    except Exception:  # ONNX Runtime has its own
        return True
    return False


@pytest.mark.parametrize("name", MODELS)
def test_an_index_input_of_a_type_that_onnx_forbids_makes_its_node_invalid(
    name: str,
) -> None:
    made = MODELS[name]
    row = index_input(made)
    array = made.inputs[made.which]
    changed = declared(made, TENSORS.BOOL, *[None] * array.ndim)
    types = " or ".join(row.types)
    assert rule_of(changed) == f"{row.name} must be {types}, got BOOL"
    assert fails(changed, {**made.inputs, made.which: array.astype(bool)})


OTHER_SIZES = {
    "ScatterND",
    "RotaryEmbedding",
    "EmbedLayerNormalization",
    "GroupQueryAttention",
}
"""Operators that take indices of one more rank, but with other sizes."""


ADDED_LATER = {("com.microsoft", "MRotaryEmbedding"), ("com.microsoft", "GatherPacked")}
"""The operators that ONNX Runtime 1.24.4 lacks."""


@pytest.mark.parametrize("name", MODELS)
def test_an_index_input_of_another_rank_makes_its_node_invalid(name: str) -> None:
    made = MODELS[name]
    row = index_input(made)
    array = made.inputs[made.which][None]
    data_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    changed = declared(made, data_type, *[None] * array.ndim)
    if made.row.shapes_of == "GatherElements":
        wanted = f"indices must have the rank of data (2), got {array.ndim}"
    elif row.below_data is not None:
        rule = f"the rank of {row.name} must be {array.ndim - 1}"
        wanted = f"{rule}, got {array.ndim}"
    elif row.ranks and array.ndim not in row.ranks:
        ranks = " or ".join(map(str, row.ranks))
        wanted = f"the rank of {row.name} must be {ranks}, got {array.ndim}"
    else:  # the operator takes indices of such a rank
        (gather,) = og.audit(changed, levels=()).gathers
        assert gather.range.state != "invalid"
        key = made.row.domain, made.op
        if IS_OLD and key in ADDED_LATER:
            assert key not in schema_types()
        elif not made.opens:  # these check no rank on other providers
            assert made.op in ("RemovePadding", "TorchEmbedding")
        elif made.op not in OTHER_SIZES:
            assert not fails(changed, {**made.inputs, made.which: array})
        return
    assert rule_of(changed) == wanted
    if IS_OLD and made.op == "Attention":  # it does not read the lengths
        return
    assert fails(changed, {**made.inputs, made.which: array})


NODES = {
    # The axis: of other operators, of an open size, from the end.
    "rows = Gather <axis = 5> (table, ids)": "axis must be in [-2, 2), got 5",
    "rows = Gather <axis = -3> (open, ids)": "axis must be in [-2, 2), got -3",
    "rows = GatherElements <axis = 2> (open, pairs)": "axis must be in [-2, 2), got 2",
    "rows = ScatterElements <axis = 2> (open, pairs, pairs_of_floats)": (
        "axis must be in [-2, 2), got 2"
    ),
    "rows = GatherND (open, scalar)": ("indices must have a dimension, got a scalar"),
    "rows = Gather (number, ids)": ("data must have a dimension, got a scalar"),
    "rows = ScatterND (open, number_of_row, values)": (
        "indices must have a dimension, got a scalar"
    ),
    # The rank of the indices is open.
    "s = Shape (ids)  i = Reshape (ids, ids)  rows = Gather <axis = 2> (table, i)": (
        "axis must be in [-2, 2), got 2"
    ),
    # The batches, and the coordinates of a tuple.
    "rows = GatherND <batch_dims = 2> (open, pairs)": (
        "batch_dims must be at least 0 and less than both ranks (2), got 2"
    ),
    "rows = GatherND <batch_dims = 1> (table, ids)": (
        "batch_dims must be at least 0 and less than both ranks (1), got 1"
    ),
    "rows = GatherND (open, triples)": (
        "the last size of indices must be 1 to rank(data) - batch_dims (2), got 3"
    ),
    "rows = GatherND <batch_dims = 1> (open, pairs)": (
        "the last size of indices must be 1 to rank(data) - batch_dims (1), got 2"
    ),
    "rows = ScatterND (open, triples, values)": (
        "the last size of indices must be 1 to rank(data) - batch_dims (2), got 3"
    ),
    # Sizes of which each is known.
    "rows = GatherElements <axis = 1> (table, longer)": (
        "size 0 of longer must be at most size 0 of table, got 5 and 4"
    ),
    "rows = GatherND <batch_dims = 1> (table, five)": (
        "size 0 of five must be size 0 of table, got 5 and 4"
    ),
    # What a node computes.
    "c = Cast <to = 6> (x)  d = Mul (x, x)  rows = Gather (table, d)": (
        "indices must be INT32 or INT64, got FLOAT"
    ),
}

OF_LATE_OPSETS = {
    "y = TensorScatter <axis = 3> (past, late, starts)": "axis must be in [-3, 3)",
    "y = TensorScatter <axis = -4> (past, late, starts)": "axis must be in [-3, 3)",
    "y = com.microsoft.GatherBlockQuantized <gather_axis = 2, quantize_axis = 1,"
    " block_size = 16> (codes, starts, scales)": "gather_axis must be in [-2, 2)",
}


@pytest.mark.skipif(IS_OLD, reason="1.24.4 has no TensorScatter")
@pytest.mark.parametrize("node", OF_LATE_OPSETS)
def test_an_axis_of_another_name_must_be_one_of_the_data(node: str) -> None:
    made = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 24, "com.microsoft" : 1]>
        g (float[2, 4, 3] past, float[2, 2, 3] late, int64[2] starts,
           uint8[4, 32] codes, float[4, 2] scales) => (y) {{ {node} }}"""
    )
    number = made.graph.node[0].attribute[0].i
    assert rule_of(made) == f"{OF_LATE_OPSETS[node]}, got {number}"
    feeds = {
        "past": np.zeros((2, 4, 3), np.float32),
        "late": np.zeros((2, 2, 3), np.float32),
        "starts": np.zeros(2, np.int64),
        "codes": np.zeros((4, 32), np.uint8),
        "scales": np.zeros((4, 2), np.float32),
    }
    assert fails(made, feeds)


FEEDS: dict[str, Array] = {
    "ids": np.zeros(1, np.int64),
    "open": np.zeros((2, 5), np.float32),
    "pairs": np.zeros((2, 2), np.int64),
    "pairs_of_floats": np.zeros((2, 2), np.float32),
    "triples": np.zeros((2, 3), np.int64),
    "values": np.zeros(2, np.float32),
    "longer": np.zeros((5, 2), np.int64),
    "five": np.zeros((5, 1), np.int64),
    "scalar": np.zeros((), np.int64),
    "number": np.zeros((), np.float32),
    "x": np.zeros(2, np.float32),
}


def of_node(nodes: str) -> onnx.ModelProto:
    """Return a model of nodes that computes rows."""
    return written(
        f"""
        (int64[n] ids, float[a, b] open, int64[m, 2] pairs, float[m, 2] pairs_of_floats,
         int64[m, 3] triples, float[m] values, int64[5, 2] longer, int64[5, 1] five,
         int64 scalar, float number, float[k] x) => (rows) {{ {nodes} }}
        """,
        TABLE,
        constant("number_of_row", np.int64(1)),
    )


@pytest.mark.parametrize("nodes", NODES)
def test_a_node_that_onnx_forbids_is_invalid(nodes: str) -> None:
    model = of_node(nodes)
    assert rule_of(model) == NODES[nodes]
    assert fails(model, FEEDS)
    assert not fails(of_node("rows = Gather (table, ids)"), FEEDS)


def test_batches_that_count_from_the_end_are_forbidden() -> None:
    model = of_node("rows = GatherND <batch_dims = -1> (open, pairs)")
    rule = "batch_dims must be at least 0 and less than both ranks (2), got -1"
    assert rule_of(model) == rule


@pytest.mark.parametrize(
    "nodes",
    [
        "rows = Gather <axis = -2> (open, ids)",
        "rows = GatherElements <axis = 1> (open, longer)",
        "rows = GatherND <batch_dims = 0> (open, pairs)",
        # ONNX Runtime runs tuples without a coordinate.
        "s = Shape <start = 2> (open)  rows = GatherND (open, s)",
        "s = Shape <start = 2> (table)  rows = GatherND (table, s)",
        # Nothing is known of the rank of the indices.
        "i = Reshape (ids, ids)  rows = GatherND <batch_dims = 1> (open, i)",
    ],
)
def test_a_node_that_may_meet_the_rules_is_not_invalid(nodes: str) -> None:
    (gather,) = og.audit(of_node(nodes), levels=()).gathers
    assert gather.range.state != "invalid"


def test_a_node_of_which_no_rule_is_known_is_forbidden_alone() -> None:
    made = of_node("rows = Gather (table, ids)  more = ArrayFeature (rows)")
    node = made.graph.node[1]
    node.op_type = "ReverseSequence"
    node.input[:] = ["", "ids"]
    first, second = og.audit(made, levels=()).gathers
    assert first.range.state == "proved-if"
    assert (second.range.state, second.range.why) == (
        "invalid",
        "the node must be one that ONNX allows",
    )


def schema_types() -> dict[tuple[str, str], list[Any]]:
    """Return ONNX Runtime's definitions of operators, by domain and name."""
    runtime: Any = import_module("onnxruntime.capi._pybind_state")
    schemas = dict[tuple[str, str], list[Any]]()
    for schema in runtime.get_all_operator_schema():
        domain = "" if schema.domain == "ai.onnx" else schema.domain
        schemas.setdefault((domain, schema.name), []).append(schema)
    return schemas


def test_the_types_of_index_inputs_are_those_of_the_definitions() -> None:
    schemas = schema_types()
    for key, row in INDEX_OPERATORS.items():
        if IS_OLD and key in ADDED_LATER:
            assert key not in schemas
            continue
        for given in row.inputs:
            if given.is_attribute:
                continue
            types = set[str]()
            for schema in schemas[key]:
                if given.position >= len(schema.inputs):
                    continue
                formal = schema.inputs[given.position]
                allowed = {
                    constraint.type_param_str: constraint.allowed_type_strs
                    for constraint in schema.type_constraints
                }
                types.update(allowed.get(formal.typeStr, [formal.typeStr]))
            names = {
                name.removeprefix("tensor(").removesuffix(")").upper() for name in types
            }
            # The definition has no such input, which models have all the same; or it
            # was added later.
            is_later = IS_OLD and given.name == "slot_mapping"
            is_undefined = given.name == "position_ids" and key[1].startswith("QEmbed")
            if is_later or is_undefined:
                assert not names
                continue
            assert names == {*given.types}, (key, given.name)
