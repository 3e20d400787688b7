"""Operators that the audit does not know are told, in every report."""

from __future__ import annotations

import importlib
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnxruntime
import pytest
from command_line import call, outcome
from onnx_graphs import FLOAT, INT64, constant, info, model, node, nodes_of

import onnxgather as og
from onnxgather.auditing.operators import other_operators
from onnxgather.auditing.records import NotJudged

INPUTS = [info("x", FLOAT, [4, 2]), info("ids", INT64, [3])]
TOLD = "not judged: 2 nodes of my.domain (Find, Look), whose integers may be indices"


def custom() -> onnx.ModelProto:
    """A model with two nodes of an unknown domain that read integers, and one that
    reads floats."""
    nodes = nodes_of("""
        [finding] found = my.domain.Find (x, ids)
        y = my.domain.Look (x, ids)
        scaled = my.domain.Scale (x)
    """)
    return model(nodes, INPUTS, ["found", "y", "scaled"])


def names(made: onnx.ModelProto) -> list[str]:
    return [told.op for told in og.audit(made, levels=()).not_judged]


def test_a_node_of_an_unknown_domain_is_told_in_the_record() -> None:
    found = og.audit(custom(), levels=())
    assert found.not_judged == [
        NotJudged("finding", "main graph", "Find", "my.domain"),
        NotJudged("y", "main graph", "Look", "my.domain"),
    ]
    assert TOLD in found.notes


def test_a_value_of_an_unknown_type_may_be_an_integer() -> None:
    nodes = nodes_of("""
        scaled = my.domain.Scale (x)
        y = my.domain.Look (scaled)
    """)
    assert names(model(nodes, INPUTS[:1], ["y"])) == ["Look"]


@pytest.mark.parametrize(
    ("op", "inputs", "domain", "is_told"),
    [
        ("LabelEncoder", ["ids"], "ai.onnx.ml", False),
        ("CumSum", ["x", "ids"], "", False),
        ("MurmurHash3", ["ids"], "com.microsoft", False),
        ("Gelu", ["x"], "com.microsoft", False),
        ("TorchEmbedding", ["x", "ids"], "com.microsoft", False),
        ("RMSNormRotary", ["x", "x", "ids"], "com.microsoft", True),
        ("PagedAttention", ["x", "", "", "x", "x", "ids"], "com.microsoft", True),
        ("PagedAttention", ["x", *[""] * 6, "ids"], "com.microsoft", False),
        ("MultiHeadAttention", ["x", "", "", "", "ids"], "com.microsoft", True),
        ("MultiHeadAttention", ["x", "", "", "", "mask"], "com.microsoft", False),
        ("MultiHeadAttention", ["x", "", "", "", "open"], "com.microsoft", True),
        ("MultiHeadAttention", ["x", *[""] * 7, "ids"], "com.microsoft", False),
        ("MatMulNBits", ["x", "ids", "x"], "com.microsoft", False),
        ("MatMulNBits", ["x", "ids", "x", "", "ids"], "com.microsoft", True),
        ("Attention", ["x", "x", "x", "ids"], "com.microsoft", True),
        ("Attention", ["x", "x", "x", "mask"], "com.microsoft", False),
        ("Attention", ["x", *[""] * 5, "mask"], "com.microsoft", True),
        ("Attention", ["x", "x", "x"], "com.microsoft", False),
        ("NewOperator", ["x", "ids"], "com.microsoft", True),
        ("NewOperator", ["x"], "com.microsoft", False),
    ],
)
def test_integers_of_known_operators_are_told_where_they_may_be_indices(
    op: str, inputs: list[str], domain: str, is_told: bool
) -> None:
    given = [*INPUTS, info("mask", INT64, [3, 4]), info("open", INT64)]
    made = model([node(op, inputs, "y", domain=domain)], given, ["y"])
    assert names(made) == [op] * is_told


FACTS = other_operators.OTHER_OPERATORS
ROWS = other_operators.INDEX_OPERATORS


def test_an_operator_of_another_domain_is_not_that_of_a_table() -> None:
    for op, domain in (("Gelu", "my.domain"), ("Scatter", "com.microsoft")):
        made = node(op, ["x", "ids"], "y", domain=domain)
        assert names(model([made], INPUTS)) == [op]


def test_no_operator_is_in_two_tables() -> None:
    rows = [op for domain, op in ROWS if domain == "com.microsoft"]
    harmless = [*chain(*FACTS.without_indices.values())]
    assert len({*harmless, *rows}) == len(harmless) + len(rows)
    assert not FACTS.not_judged.keys() & {*harmless}
    # Of an operator in both tables, an input is in one.
    for op in FACTS.not_judged.keys() & {*rows}:
        judged = {given.position for given in ROWS["com.microsoft", op].inputs}
        assert not judged & {*FACTS.not_judged[op]}, op
    for op, position in FACTS.lengths_or_mask.items():
        assert position in FACTS.not_judged[op], op


NO_INDICES = {
    "a number, such as a quantized one": """
        A B Q_weight K_weight V_weight R W X Y a b *data *_quant *zero_point*
        segment_embedding encoded_stream input past w weight x
    """,
    "a size or a count": """
        K M T block_shape crop_size dft_length frame_length frame_step image_shape
        *capture_count max_length max_output_boxes_per_class min_length num_beams
        num_mel_bins num_return_sequences output_shape pads repeats sample_rate shape
        size sizes split
    """,
    "an axis": "axes axis",
    "an end that is cut to the axis": "ends k starts steps",
    "a mask or a switch": """
        *mask attention_metadata indexshare_mode logits_processor mask_index
        merged_status prefill_numerics state_update_active
    """,
    "a seed": "seed",
    "the gradient's alone": "TorchEmbedding.padding_idx",
    "tokens that are compared or hashed": """
        BifurcationDetector.*_tokens VarlenNGramHashMapping.[!c]*
    """,
    "lengths that a Scan before ONNX 9 checks": "Scan.sequence_lens",
}
"""The integer inputs that are no indices, by what they hold: patterns of their names,
with the operator where others have another input of the name."""


def schemas() -> list[Any]:
    """The definitions of all operators of the installed ONNX Runtime and ONNX."""
    runtime: Any = importlib.import_module(
        "onnxruntime.capi.onnxruntime_pybind11_state"
    )
    return [
        *runtime.get_all_operator_schema(),
        *onnx.defs.get_all_schemas_with_history(),
    ]


def test_each_operator_of_microsoft_is_in_a_table_but_those_of_other_programs() -> None:
    operators = {each.name for each in schemas() if each.domain == "com.microsoft"}
    tables = [FACTS.not_judged, *FACTS.without_indices.values()]
    listed = {*chain(*tables), *(op for _, op in ROWS)}
    assert operators - listed == {"EPContext", "Snpe"}


def integer_inputs(or_floats: bool = False) -> set[tuple[str, str, int, str]]:
    """The inputs of all operators that hold integers: domain, operator, position, name.

    Args:
        or_floats: Whether inputs count that may hold floats instead, as data.
    """
    found = set[tuple[str, str, int, str]]()
    for schema in schemas():
        types_by_name = {
            constraint.type_param_str: " ".join(constraint.allowed_type_strs)
            for constraint in schema.type_constraints
        }
        # Its operators are ONNX's own with other layouts.
        domain = schema.domain.replace("com.ms.internal.nhwc", "")
        for position, given in enumerate(schema.inputs):
            name = str(getattr(given, "typeStr", "") or given.type_str)
            types = types_by_name.get(name, name)
            if "tensor(int" not in types and "tensor(uint" not in types:
                continue
            may_be_floats = "float" in types or "double" in types
            if or_floats or not may_be_floats:
                found.add((domain, schema.name, position, given.name))
    return found


def test_an_operator_listed_without_integers_has_no_input_of_integers() -> None:
    inputs = integer_inputs(or_floats=True)
    operators = {op for domain, op, _, _ in inputs if domain == "com.microsoft"}
    assert not operators & {*FACTS.without_indices["none"]}


def test_each_integer_input_is_in_a_table() -> None:
    patterns = {
        name if "." in name else f"*.{name}"
        for names in NO_INDICES.values()
        for name in names.split()
    }
    harmless = {*chain(*FACTS.without_indices.values())}
    missing: list[str] = []
    used = set[str]()
    for domain, op, position, name in sorted(integer_inputs()):
        row = ROWS.get((domain, op))
        judged = {given.name for given in row.inputs} if row else set[str]()
        told = FACTS.not_judged.get(op, ())
        if domain == "com.microsoft" and (op in harmless or position in told):
            continue
        if name in judged:
            continue
        matched = {each for each in patterns if fnmatchcase(f"{op}.{name}", each)}
        used |= matched
        if not matched:
            missing.append(f"{domain}.{op}: {name}")
    assert missing == []
    if onnxruntime.__version__ != "1.24.4":  # which has fewer operators
        assert used == patterns


NO_FEATURES = {
    "a node, a tree or a target, which ONNX Runtime checks as it opens a model": """
        class_ids class_nodeids class_treeids leaf_targetids nodes_falsenodeids
        nodes_nodeids nodes_treeids nodes_truenodeids target_ids target_nodeids
        target_treeids tree_roots
    """,
    "labels": """
        cats_int64s classlabels_int64s classlabels_ints imputed_value_int64s
        int64_vocabulary keys_int64s values_int64s
    """,
    "a size or a count": "inputdimensions vectors_per_class",
    "a switch": """
        nodes_falseleafs nodes_missing_value_tracks_true nodes_trueleafs
    """,
}
"""The attributes of integers of ai.onnx.ml that are no indices of an input."""


def test_each_attribute_of_integers_of_machine_learning_is_in_a_table() -> None:
    harmless = {name for names in NO_FEATURES.values() for name in names.split()}
    attributes = {
        (schema.name, name)
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.domain == "ai.onnx.ml"
        for name, attribute in schema.attributes.items()
        if attribute.type == onnx.defs.OpSchema.AttrType.INTS
    }
    indices = {
        (op, given.name)
        for (_, op), row in ROWS.items()
        for given in row.inputs
        if given.is_attribute
    }
    assert {pair for pair in attributes if pair[1] not in harmless} == indices
    assert {name for _, name in attributes - indices} == harmless


def test_every_report_tells_nodes_that_are_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.onnx").write_bytes(custom().SerializeToString())
    given = ("audit", "m.onnx", "--levels", "none")
    files = ("--markdown", "m.md", "--html", "m.html")
    code, text, _ = outcome(*given)
    assert code == 0
    assert f"note          {TOLD}" in text
    line = "no gather, and no other operator with indices; 2 nodes were not judged"
    assert text.splitlines()[0] == f"m.onnx: {line}"
    code, text, _ = outcome("audit .", *given[2:])
    line = "1 of 1: no index; 2 nodes were not judged"
    assert (code, text.splitlines()[0]) == (0, line)
    assert call(*given, *files).exit_code == 0
    assert "2 nodes of my.domain" in Path("m.html").read_text(encoding="utf-8")
    assert "2 nodes of my.domain" in Path("m.md").read_text(encoding="utf-8")
    assert call(*given, "--fail-on", "not-judged").exit_code == 1
    assert call(*given, "--fail-on", "proved-if").exit_code == 0


def test_a_constant_index_of_an_extractor_that_is_out_of_range_is_a_finding(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.onnx"
    for last, code in ((1, 0), (2, 1)):
        columns = constant("columns", np.array([0, last]))
        pick = node("ArrayFeatureExtractor", ["x", "columns"], "y", domain="ai.onnx.ml")
        made = model([pick], INPUTS[:1], ["y"], [columns])
        path.write_bytes(made.SerializeToString())
        assert call("audit", str(path)).exit_code == code
