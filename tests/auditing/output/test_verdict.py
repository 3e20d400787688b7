"""The verdict of models: whether a wrong input can leave an axis, in one line."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from msgspec.structs import replace

from onnxgather.auditing.output.verdict import (
    VERDICTS,
    badness_of,
    colour_of,
    not_judged_text,
    verdict_of_models,
    verdict_text,
)
from onnxgather.auditing.proof.contract import Condition
from onnxgather.auditing.proof.index_range import IndexRange
from onnxgather.auditing.records import (
    Audit,
    AuditedGather,
    GraphGather,
    ModelVerdict,
    NotJudged,
    RangeState,
    Runtime,
    RuntimeGraph,
    Tensor,
)

FLOATS = Tensor("FLOAT32", (4, 3))
SIZE = Condition(of="size", input="x", dim=0, expression="n", high=4)
EXACT = Condition(of="values", input="ids", low=0, high=3, exact=True)


def audit(text: str = "") -> Audit:
    """An audit of gathers in some states.

    Other words of the text: `exact` is proved-if with an exact condition; `refused` is
    for all gathers; `given` is a range; and each `look` is a node that was not judged.
    """
    words = text.split()
    gathers = list[AuditedGather]()
    for state in words:
        if state in ("refused", "given", "look"):
            continue
        record: dict[str, Any] = dict.fromkeys(AuditedGather.__struct_fields__, "")
        record |= {"data": FLOATS, "shape_computation": False, "rewritten_at": ()}
        record["refused"] = "rule" if "refused" in words else None
        record["range"] = replace(
            IndexRange("proved", (0,), (1,), (4,), ""),
            state=state.replace("exact", "proved-if"),
            conditions={"proved-if": (SIZE,), "exact": (SIZE, EXACT)}.get(state, ()),
        )
        gathers.append(AuditedGather(**record))
    not_judged = [NotJudged("n", "main graph", "Look", "my.domain")]
    return Audit(
        gathers,
        given=["each value of ids is from 0 to 3"] * words.count("given"),
        not_judged=not_judged * words.count("look"),
    )


def audits(texts: str) -> list[Audit]:
    return [audit(text) for text in texts.split(",")]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("", ""),
        ("look", "; 1 node was not judged"),
        ("look look", "; 2 nodes were not judged"),
    ],
)
def test_a_verdict_says_how_many_nodes_were_not_judged(words: str, text: str) -> None:
    assert not_judged_text([audit(f"proved {words}")]) == text


@pytest.mark.parametrize(
    ("states", "verdict"),
    [
        ("", "no-index"),
        ("proved proved", "never"),
        ("proved proved-if", "perhaps"),
        ("not-proved proved", "perhaps"),
        ("not-proved proved-if", "perhaps"),
        ("proved exact", "can-leave"),
        ("exact not-proved", "can-leave"),
        ("not-proved out-of-range", "can-leave"),
        ("out-of-range invalid", "invalid"),
    ],
)
def test_a_model_has_the_verdict_of_its_worst_gather(
    states: str, verdict: ModelVerdict
) -> None:
    assert audit(states).verdict == verdict


def with_graph(of_file: Audit, **fields: Any) -> Audit:
    """An audit with a graph that is proved, and another one."""
    proved = RuntimeGraph("1.24.4", ["all"], gathers=1)
    other = RuntimeGraph("1.32.0", ["basic", "all"], **fields)
    return replace(of_file, runtime=Runtime("1.24.4", [proved, other]))


@pytest.mark.parametrize(
    ("state", "in_file", "expected"),
    [
        ("proved-if", False, ["perhaps", "perhaps", "can-leave"]),
        ("not-proved", False, ["perhaps", "perhaps", "can-leave"]),
        ("not-proved", True, ["perhaps", "perhaps", "can-leave"]),
        ("out-of-range", False, ["can-leave", "can-leave", "can-leave"]),
    ],
)
def test_the_verdict_is_the_worst_of_the_file_and_of_the_graphs_that_run(
    state: RangeState, in_file: bool, expected: list[ModelVerdict]
) -> None:
    row = GraphGather("fused", "main graph", "Gather", ["all"], state, "", in_file)
    verdicts = [
        with_graph(audit(states), not_proved=[row]).verdict
        for states in ("proved", "proved not-proved", "exact")
    ]
    assert verdicts == expected


def test_a_graph_that_is_proved_leaves_the_verdict_and_one_that_is_not_known_not() -> (
    None
):
    assert with_graph(audit("proved")).verdict == "never"
    refused = with_graph(audit("proved"), refused="does not open the model: no")
    assert refused.verdict == "perhaps"


def test_each_verdict_has_a_sentence() -> None:
    sentences = {
        "a node is invalid": "invalid",
        "a wrong input can leave an axis": "exact",
        "perhaps a wrong input can leave an axis": "proved-if",
        "an input can never leave an axis": "proved",
        "no index": "",
    }
    audits = [*map(audit, sentences.values())]
    assert [*map(verdict_text, audits)] == [*sentences]
    assert [one.verdict for one in audits] == [*VERDICTS] == [*get_args(ModelVerdict)]


def test_a_proof_for_the_given_inputs_is_told_to_be_one_for_them_alone() -> None:
    sentence = "an input can never leave an axis, if inputs are as given"
    assert verdict_text(audit("proved given")) == sentence
    # A size that a run shows, and no option gives.
    proved = audit("proved").gathers[0]
    of_run = replace(proved, range=replace(proved.range, sizes_from="run"))
    assert verdict_text(Audit([of_run])) == sentence
    # What is found holds, whatever is given.
    for found in ("exact", "proved-if", "out-of-range"):
        assert verdict_text(audit(f"{found} given")) == verdict_text(audit(found))


@pytest.mark.parametrize(
    ("texts", "left_out", "colour"),
    [
        ("proved,", 0, "PASS"),
        ("proved,proved-if", 0, "NOT-RUN"),
        ("proved,exact", 0, "DIFF"),
        ("proved,out-of-range", 1, "DIFF"),
        ("proved", 1, "NOT-RUN"),
        ("proved look look", 0, "NOT-RUN"),
        ("proved refused,proved-if", 0, "ERROR"),
        ("exact refused", 0, "DIFF"),
        ("proved,invalid", 0, "DIFF"),
    ],
)
def test_only_a_proof_of_all_has_the_colour_of_one(
    texts: str, left_out: int, colour: str
) -> None:
    assert colour_of(audits(texts), left_out) == colour


@pytest.mark.parametrize(
    ("texts", "unusable", "sentence"),
    [
        ("proved", 0, "1 of 1: an input can never leave an axis"),
        (",", 0, "2 of 2: no index"),
        (
            "proved,proved,proved",
            1600,
            "3 of 1,603: an input can never leave an axis; 1,600 were not audited",
        ),
        (
            "proved,proved given,exact",
            0,
            "1 of 3: a wrong input can leave an axis; 2: never, if inputs are as given",
        ),
        (
            "proved given,",
            0,
            "1 of 2: an input can never leave an axis, if inputs are as given; 1: no"
            " index",
        ),
        (
            "proved look look,proved look look",
            1,
            "2 of 3: an input can never leave an axis; 1 was not audited; 4 nodes were"
            " not judged",
        ),
        (
            "proved,,proved-if,proved-if,not-proved,out-of-range,proved,"
            "exact not-proved,proved proved",
            1,
            "2 of 10: a wrong input can leave an axis; 3: perhaps; 3: never; 1: no"
            " index; 1 was not audited",
        ),
        (
            "proved,out-of-range,invalid proved",
            0,
            "1 of 3: a node is invalid; 1: can leave; 1: never",
        ),
        (
            "proved refused,not-proved",
            0,
            "1 of 2: perhaps a wrong input can leave an axis; 1: never; 1 has a gather"
            " that DirectML refuses",
        ),
    ],
)
def test_several_models_have_one_line(texts: str, unusable: int, sentence: str) -> None:
    assert verdict_of_models(audits(texts), unusable) == sentence


def test_models_that_were_not_audited_have_one_line() -> None:
    assert verdict_of_models([], 2) == "2 of 2 models were not audited"


def test_the_worst_model_has_the_most_gathers_with_the_worst_verdict() -> None:
    ranked = audits(
        "proved proved proved,proved-if proved,not-proved proved-if,exact,exact exact,"
        "out-of-range,out-of-range exact,out-of-range out-of-range,invalid"
    )
    assert sorted(ranked, key=badness_of) == ranked[::-1]
