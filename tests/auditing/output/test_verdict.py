"""The verdict of models: whether a wrong input can leave an axis, in one line."""

from __future__ import annotations

from typing import Any, Literal, get_args

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
    AskedRuntime,
    Audit,
    AuditedGather,
    ModelVerdict,
    NotJudged,
    Tensor,
)

RangeState = Literal["proved", "proved-if", "not-proved", "out-of-range"]
State = RangeState | Literal["exact"]

FLOATS = Tensor("FLOAT32", (4, 3))
SIZE = Condition(of="size", input="x", dim=0, expression="n", high=4)
EXACT = Condition(of="values", input="ids", low=0, high=3, exact=True)


def audit(*states: State, refused: str | None = None) -> Audit:
    """An audit of gathers in some states; exact is proved-if with an exact one."""
    gathers = list[AuditedGather]()
    for state in states:
        index_range = IndexRange("proved", (0,), (1,), (4,), "")
        if state == "exact":
            conditions = (SIZE, EXACT)
            index_range = replace(index_range, state="proved-if", conditions=conditions)
        else:
            conditions = (SIZE,) if state == "proved-if" else ()
            index_range = replace(index_range, state=state, conditions=conditions)
        record: dict[str, Any] = {
            "node": "n",
            "output_name": "n",
            "place": "main graph",
            "op": "Gather",
            "shape_computation": False,
            "data": FLOATS,
            "indices": FLOATS,
            "output": FLOATS,
            "constant_indices": False,
            "descriptor": None,
            "refused": refused,
            "feature_level": None,
            "range": index_range,
        }
        gathers.append(AuditedGather(**record))
    return Audit(gathers)


NODE = NotJudged("n", "main graph", "Look", "my.domain")
NOT_JUDGED = replace(audit("proved"), not_judged=[NODE, NODE])
NOT_JUDGED_LINE = (
    "2 of 3: an input can never leave an axis; 1 was not audited; 4 nodes were not"
    " judged"
)
GIVEN = replace(audit("proved"), given=["each value of ids is from 0 to 3"])


def test_a_verdict_says_how_many_nodes_were_not_judged() -> None:
    assert not_judged_text([audit("proved")]) == ""
    assert not_judged_text([NOT_JUDGED]) == "; 2 nodes were not judged"
    single = replace(NOT_JUDGED, not_judged=[NODE])
    assert not_judged_text([single]) == "; 1 node was not judged"


@pytest.mark.parametrize(
    ("states", "verdict"),
    [
        ((), "no-index"),
        (("proved", "proved"), "never"),
        (("proved", "proved-if"), "perhaps"),
        (("not-proved", "proved"), "perhaps"),
        (("not-proved", "proved-if"), "perhaps"),
        (("proved", "exact"), "can-leave"),
        (("exact", "not-proved"), "can-leave"),
        (("not-proved", "out-of-range"), "can-leave"),
    ],
)
def test_a_model_has_the_verdict_of_its_worst_gather(
    states: tuple[State, ...], verdict: ModelVerdict
) -> None:
    assert audit(*states).verdict == verdict


def test_a_node_of_a_graph_that_runs_is_among_those_of_the_verdict() -> None:
    asked = AskedRuntime("1.32.0", ["basic", "all"], not_proved=["fused"])
    proved = AskedRuntime("1.24.4", ["all"])
    for of_file, verdict in (
        (audit("proved"), "perhaps"),
        (audit("proved", "not-proved"), "perhaps"),
        (audit("exact"), "can-leave"),
    ):
        assert replace(of_file, runtimes=[proved, asked]).verdict == verdict
    assert replace(audit("proved"), runtimes=[proved]).verdict == "never"


def test_each_verdict_has_a_sentence() -> None:
    sentences = {
        "a wrong input can leave an axis": audit("exact"),
        "perhaps a wrong input can leave an axis": audit("proved-if"),
        "an input can never leave an axis": audit("proved"),
        "no index": audit(),
    }
    assert [*map(verdict_text, sentences.values())] == [*sentences]
    assert [one.verdict for one in sentences.values()] == [*VERDICTS]
    assert list(VERDICTS) == [*get_args(ModelVerdict)]


def test_a_proof_for_the_given_inputs_is_told_to_be_one_for_them_alone() -> None:
    sentence = "an input can never leave an axis, if inputs are as given"
    assert verdict_text(GIVEN) == sentence
    # A size that a run shows, and no option gives.
    proved = audit("proved").gathers[0]
    of_run = replace(proved, range=replace(proved.range, sizes_from="run"))
    assert verdict_text(Audit([of_run])) == sentence
    # What is found holds, whatever is given.
    for found in (audit("exact"), audit("proved-if"), audit("out-of-range")):
        is_given = replace(found, given=GIVEN.given)
        assert verdict_text(is_given) == verdict_text(found)


@pytest.mark.parametrize(
    ("audits", "left_out", "colour"),
    [
        ([audit("proved"), audit()], 0, "PASS"),
        ([audit("proved"), audit("proved-if")], 0, "NOT-RUN"),
        ([audit("proved"), audit("exact")], 0, "DIFF"),
        ([audit("proved"), audit("out-of-range")], 1, "DIFF"),
        ([audit("proved")], 1, "NOT-RUN"),
        ([NOT_JUDGED], 0, "NOT-RUN"),
        ([audit("proved", refused="rule"), audit("proved-if")], 0, "ERROR"),
        ([audit("exact", refused="rule")], 0, "DIFF"),
    ],
)
def test_only_a_proof_of_all_has_the_colour_of_one(
    audits: list[Audit], left_out: int, colour: str
) -> None:
    assert colour_of(audits, left_out) == colour


@pytest.mark.parametrize(
    ("audits", "unusable", "sentence"),
    [
        ([], 2, "2 of 2 models were not audited"),
        ([audit("proved")], 0, "1 of 1: an input can never leave an axis"),
        ([audit()] * 2, 0, "2 of 2: no index"),
        (
            [audit("proved")] * 6,
            1600,
            "6 of 1,606: an input can never leave an axis; 1,600 were not audited",
        ),
        (
            [audit("proved"), GIVEN, audit("exact")],
            0,
            "1 of 3: a wrong input can leave an axis; 2: never, if inputs are as given",
        ),
        (
            [GIVEN, audit()],
            0,
            (
                "1 of 2: an input can never leave an axis, if inputs are as given; 1:"
                " no index"
            ),
        ),
        ([NOT_JUDGED] * 2, 1, NOT_JUDGED_LINE),
        (
            [
                *[audit("proved"), audit(), audit("proved-if"), audit("proved-if")],
                *[audit("not-proved"), audit("out-of-range"), audit("proved")],
                *[audit("exact", "not-proved"), audit("proved", "proved")],
            ],
            1,
            (
                "2 of 10: a wrong input can leave an axis; 3: perhaps; 3: never; 1: no"
                " index; 1 was not audited"
            ),
        ),
        (
            [audit("proved", refused="rule"), audit("not-proved")],
            0,
            (
                "1 of 2: perhaps a wrong input can leave an axis; 1: never; 1 has a"
                " gather that DirectML refuses"
            ),
        ),
    ],
)
def test_several_models_have_one_line(
    audits: list[Audit], unusable: int, sentence: str
) -> None:
    assert verdict_of_models(audits, unusable) == sentence


def test_the_worst_model_has_the_most_gathers_with_the_worst_verdict() -> None:
    audits = [
        audit("proved", "proved", "proved"),
        audit("proved-if", "proved"),
        audit("not-proved", "proved-if"),
        audit("exact"),
        audit("exact", "exact"),
        audit("out-of-range"),
        audit("out-of-range", "exact"),
        audit("out-of-range", "out-of-range"),
    ]
    assert sorted(audits, key=badness_of) == audits[::-1]
