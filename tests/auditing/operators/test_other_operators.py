"""Operators that the audit does not know are told, in every report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
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
        ("TorchEmbedding", ["x", "ids"], "com.microsoft", True),
        ("MultiHeadAttention", ["x", "", "", "", "ids"], "com.microsoft", False),
        ("MatMulNBits", ["x", "ids", "x"], "com.microsoft", False),
        ("MatMulNBits", ["x", "ids", "x", "", "ids"], "com.microsoft", True),
        ("Attention", ["x", "x", "x", "ids"], "com.microsoft", True),
        ("Attention", ["x", "x", "x"], "com.microsoft", False),
        ("NewOperator", ["x", "ids"], "com.microsoft", True),
        ("NewOperator", ["x"], "com.microsoft", False),
    ],
)
def test_integers_of_known_operators_are_told_where_they_may_be_indices(
    op: str, inputs: list[str], domain: str, is_told: bool
) -> None:
    made = model([node(op, inputs, "y", domain=domain)], INPUTS, ["y"])
    assert names(made) == [op] * is_told


def test_no_operator_is_both_known_and_unknown() -> None:
    facts: Any = other_operators.OTHER_OPERATORS
    groups = [facts.without_integers, facts.of_any_integer, [*facts.besides]]
    rows = [op for domain, op in other_operators.INDEX_OPERATORS if domain]
    listed = [name for group in groups for name in group]
    assert len({*listed, *rows}) == len(listed) + len({*rows})


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
