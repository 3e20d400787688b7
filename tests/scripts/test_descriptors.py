"""The descriptors that the DirectML provider writes down, and those of onnxgather."""

from __future__ import annotations

import json
import lzma
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from folders import OBSERVED
from messages import message_of
from provider_descriptors import (
    LEADING_ONES,
    SAME,
    GraphHost,
    OnnxGather,
    Question,
    Verdict,
    ask,
    descriptor_questions,
    judge_descriptor,
    judge_node,
    named,
    node_questions,
    verdicts,
)
from serialized_graph import (
    SerializedGraphError,
    SerializedOperator,
    SerializedTensor,
    read_operators,
)
from short_descriptors import tensor_desc

import onnxgather as og
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.execution.elsewhere.hosts import find_runtime
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.execution.runtime import RefusedError

live = pytest.mark.skipif(
    not find_runtime(PROVIDERS["directml"]),
    reason="scripts/directml/setup.sh has not run",
)


@cache
def recorded() -> list[tuple[OnnxGather, list[bytes] | None]]:
    """The recorded nodes, each with the provider's graphs, or None where it refused the
    node."""
    text = lzma.decompress((OBSERVED / "graphs.json.xz").read_bytes())
    found: list[tuple[OnnxGather, list[bytes] | None]] = []
    for line in json.loads(text):
        graphs = line.pop("graphs_hex", None)
        line.pop("refused", None)
        made = OnnxGather(
            **line | {name: tuple(line[name]) for name in ("data", "indices")}
        )
        found.append((made, graphs and [bytes.fromhex(graph) for graph in graphs]))
    return found


def asked(graphs: list[bytes] | None) -> list[SerializedOperator] | RefusedError:
    if graphs is None:
        return RefusedError("refused")
    return [operator for graph in graphs for operator in read_operators(graph)]


def first(operator: str) -> tuple[OnnxGather, bytes]:
    """The first recorded node of an operator that the provider took, and its graph."""
    made, graphs = next(
        pair for pair in recorded() if pair[1] and pair[0].operator == operator
    )
    assert graphs is not None
    return made, graphs[0]


def table(*fields: int, more: bytes = b"") -> bytes:
    """A flatbuffer whose root is a table; each field has its offset in the table, 0 for
    none."""
    entries = struct.pack(f"<HH{len(fields)}H", 4 + 2 * len(fields), 4, *fields)
    return (
        struct.pack("<I", 4 + len(entries))
        + entries
        + struct.pack("<i", len(entries))
        + more
    )


def strides_at(place: int) -> bytes:
    """The list of the fields of a tensor of 8-byte alignment, with the place of the
    strides."""
    return struct.pack("<HHHHHH", 12, 24, 4, 8, place, 12)


GATHER_ND, STRIDES = first("GatherND")[1], strides_at(0)


def test_a_graph_has_the_operators_with_their_fields() -> None:
    made, graph = first("GatherElements")
    assert made == OnnxGather(
        "GatherElements", (1, 3, 1), (1, 3, 5), 2, "UINT32", "INT32", opset=19
    )
    data = SerializedTensor("UINT32", (1, 3, 1), None, 12)
    indices = SerializedTensor("INT32", (1, 3, 5), None, 60)
    output = SerializedTensor("UINT32", (1, 3, 5), None, 60)
    assert read_operators(graph) == [
        SerializedOperator(
            "0/output_dmlEp_0",
            "DML_OPERATOR_GATHER_ELEMENTS",
            (data, indices),
            (output,),
            {"Axis": 2},
            ("0/data", "0/indices"),
            ("0/output",),
        )
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file has 0 bytes, but a number must stand at byte 0"),
        (
            b"\xff\0\0\0",
            "the file has 4 bytes, but a number must stand at byte 255",
        ),
        (table(), "a graph must have the field nodes"),
        (
            table(4, more=struct.pack("<II", 4, 2**31)),
            (
                "the file must use each byte about once, got 22 bytes used more"
                " than 4 times on average"
            ),
        ),
        (
            table(4, more=struct.pack("<IIIi", 4, 1, 4, 14)),
            "a node must be an operator or a constant, got 0",
        ),
        (
            GATHER_ND.replace(b"DML_TENSOR_DATA_TYPE_", b"XXX_TENSOR_DATA_TYPE_"),
            (
                "dataType must start with DML_TENSOR_DATA_TYPE_, got"
                " 'XXX_TENSOR_DATA_TYPE_INT16'"
            ),
        ),
        (
            GATHER_ND.replace(
                b"DML_OPERATOR_GATHER_ND1\0", b"DML_OPERATOR_GATHER_ND1X"
            ),
            "the text at byte 148 must end with a zero",
        ),
        (
            GATHER_ND.replace(
                b"DML_OPERATOR_GATHER_ND1", b"DML_OPERATOR_GATHER_ND\xff"
            ),
            "the text at byte 148 must be UTF-8",
        ),
    ],
)
def test_bytes_that_are_no_graph_are_refused(content: bytes, said: str) -> None:
    assert message_of(SerializedGraphError, read_operators, content) == said


def test_all_bytes_of_a_number_are_read() -> None:
    graph = first("GatherElements")[1]
    name, axis = b"Axis\0\0\0\0", 2 + 3 * 256**3
    changed = graph.replace(name + struct.pack("<I", 2), name + struct.pack("<I", axis))
    assert read_operators(changed)[0].fields == {"Axis": axis}


def test_strides_are_read() -> None:
    # The provider gives gathers none, so the field of the strides leads to the
    # sizes here.
    assert STRIDES in GATHER_ND
    (found,) = read_operators(GATHER_ND.replace(STRIDES, strides_at(8)))
    assert found.inputs[0].strides == found.inputs[0].sizes
    # and to the name of the type
    assert (
        message_of(
            SerializedGraphError,
            read_operators,
            GATHER_ND.replace(STRIDES, strides_at(4)),
        )
        == "a tensor must have as many strides as sizes (8), got 26"
    )


def test_changed_bytes_are_read_or_refused() -> None:
    rng, refused = random.Random(1), 0
    for k in range(len(GATHER_ND)):
        for changed in (
            b"",
            b"\0",
            b"\1",
            b"\x7f",
            b"\xff",
            bytes([rng.randrange(256)]),
        ):
            rest = GATHER_ND[k + 1 :] if changed else b""
            try:
                read_operators(GATHER_ND[:k] + changed + rest)
            except SerializedGraphError:
                refused += 1
    assert refused > len(GATHER_ND)


@pytest.mark.slow
def test_a_file_that_uses_one_table_for_all_nodes_is_refused_at_once() -> None:
    count = 50_000
    places = [4 * (count - k) for k in range(count)]
    more = struct.pack(f"<II{count}Ii", 4, count, *places, 10)
    with pytest.raises(SerializedGraphError):
        read_operators(table(4, more=more))


def test_the_recorded_descriptors_are_those_of_from_onnx() -> None:
    found = Counter(
        judge_node(made, made.model(named(0)), asked(graphs))
        for made, graphs in recorded()
    )
    empty = "refused here, where the provider takes it and gives DirectML no gather"
    assert found == {
        Verdict(SAME): 56,
        Verdict("refused by both"): 40,
        Verdict(empty): 4,
    }


def test_another_field_is_a_finding() -> None:
    made, graph = first("GatherElements")
    model, operators = made.model(named(0)), read_operators(graph)
    other = replace(operators[0], fields={"Axis": 1})
    found = judge_node(made, model, [other])
    assert found == Verdict("different", f"{made}: Axis is 2 here and 1 there")
    longer = replace(operators[0].outputs[0], total_tensor_size_in_bytes=64)
    found = judge_node(made, model, [replace(operators[0], outputs=(longer,))])
    said = "OutputTensor.TotalTensorSizeInBytes is 60 here and 64 there"
    assert found == Verdict("different", f"{made}: {said}")


def test_a_refusal_of_one_side_is_a_finding() -> None:
    made, graph = first("GatherElements")
    model, refused = made.model(named(0)), RefusedError("no")
    found = judge_node(made, model, refused)
    assert found == Verdict("refused by the provider alone", f"{made}: got no")
    wrong = replace(made, number=3)
    found = judge_node(wrong, model, read_operators(graph))
    assert found.group == "refused here alone"
    assert judge_node(wrong, model, refused) == Verdict("refused by both")


def test_no_answer_is_no_refusal() -> None:
    made = OnnxGather("GatherND", (3,), (3, 1), -3)
    model, ended = (
        made.model(named(0)),
        NoAnswerError(Breakdown.EXITED, "the host ended"),
    )
    assert judge_node(made, model, ended) == Verdict(
        "refused here, where ONNX Runtime crashes: batch_dims is below 0"
    )
    made = replace(made, operator="GatherElements")
    said = f"the host ended, for {made}"
    assert judge_node(made, model, ended) == Verdict("no answer", said)
    made = replace(made, operator="GatherND", number=2)
    said = f"the host ended, for {made}"
    assert judge_node(made, model, ended) == Verdict("no answer", said)


def judge(desc: og.Descriptor, fields: dict[str, float] | None = None) -> Verdict:
    """Judge a descriptor that the provider makes (1, 3, 1) at (1, 3, 5) along 2
    of."""
    (operator,) = read_operators(first("GatherElements")[1])
    operator = replace(operator, output_names=("OutputTensor",))
    operator = replace(operator, fields=fields or operator.fields)
    return judge_descriptor(desc, og.to_onnx(desc, "error"), [operator])


def test_a_descriptor_comes_back_the_same_but_for_leading_ones() -> None:
    def elements(*ones: int, **more: Any) -> og.Descriptor:
        data, indices = (og.TensorDesc("UINT32", [*ones, 3, 1]), [*ones, 3, 5])
        output = og.TensorDesc("UINT32", indices, **more)
        index = og.TensorDesc("INT32", indices)
        return og.GatherElementsDesc(data, index, output, len(ones) + 1)

    assert judge(elements(1)) == Verdict(SAME)
    assert judge(elements(1, 1)) == judge(elements()) == Verdict(LEADING_ONES)
    lost = ("strides, flags or bytes beyond the elements",)
    assert judge(elements(1, total_tensor_size_in_bytes=64)) == Verdict(SAME, lost=lost)
    found = judge(elements(1), {"Axis": 1})
    assert found.group == "different"
    assert found.finding.endswith(": Axis is 2 here and 1 there")


def test_a_descriptor_that_no_node_computes_becomes_a_gather_by_offsets() -> None:
    three = [og.TensorDesc(kind, [3, 4]) for kind in ("FLOAT32", "INT64", "FLOAT32")]
    three[0] = tensor_desc("FLOAT32 3x4 strides 1x3")
    desc = og.GatherElementsDesc(three[0], three[1], three[2], 1)
    model, (other,) = (
        og.to_onnx(desc, "error"),
        read_operators(first("GatherElements")[1]),
    )
    flat = SerializedTensor("FLOAT32", (1, 12), None, 48)
    gather = replace(other, type="DML_OPERATOR_GATHER", inputs=(flat, other.inputs[1]))
    group = "a GATHER by offsets, as InputTensor has strides"
    assert judge_descriptor(desc, model, [other, gather]) == Verdict(group)
    said = f"got ['DML_OPERATOR_GATHER', 'DML_OPERATOR_GATHER_ELEMENTS'] for {desc}"
    assert judge_descriptor(desc, model, [gather, other]) == Verdict(group, said)
    assert judge_descriptor(desc, model, []) == Verdict(group, f"got [] for {desc}")
    refused = judge_descriptor(desc, model, RefusedError("no"))
    assert refused == Verdict(group, f"got no for {desc}")


def test_models_that_the_provider_refuses_together_are_asked_about_alone() -> None:
    class Host(GraphHost):
        def graphs(self, model: bytes) -> list[bytes]:
            if model.count(b"Gather") > 1:
                raise RefusedError("more than one")
            return [GATHER_ND]

    models = [OnnxGather("Gather", (2,), (2,), 0).model(named(k)) for k in range(3)]
    assert ask(Host([]), models) == [read_operators(GATHER_ND)] * 3


def test_a_host_of_older_sources_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def exchange(read: Callable[[bytes, bytes], object], *_: object) -> object:
        return read(b'{"names": []}', b"")

    host = GraphHost([])
    monkeypatch.setattr(host, "exchange", exchange)
    assert message_of(NoAnswerError, host.graphs, b"") == (
        "the host is of older sources, which tell no graphs;"
        " scripts/directml/setup.sh makes it anew"
    )


@pytest.mark.slow
@live
@pytest.mark.parametrize("count", [40])
@pytest.mark.parametrize("questions", [node_questions, descriptor_questions])
def test_the_provider_makes_the_descriptors_of_from_onnx(
    questions: Callable[[int, int], Iterator[Question]], count: int
) -> None:
    with closing(GraphHost(find_runtime(PROVIDERS["directml"]))) as host:
        found = list(verdicts(host, questions(count, 7)))
    assert len(found) == count
    assert [verdict.finding for verdict in found if verdict.finding] == []
    same = [verdict for verdict in found if verdict.group == SAME]
    assert len(same) > count // 4
