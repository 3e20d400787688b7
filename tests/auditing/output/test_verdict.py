"""The verdict of models: the worst state of each, and one line for all."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from msgspec.structs import replace

from onnxgather.auditing.output.verdict import (
    badness_of,
    not_judged_text,
    verdict_of,
    verdict_of_models,
)
from onnxgather.auditing.proof.ranges import IndexRange
from onnxgather.auditing.records import Audit, AuditedGather, NotJudged, Tensor

State = Literal["proved", "proved-if", "not-proved", "out-of-range"]

FLOATS = Tensor("FLOAT32", (4, 3))


def audit(*states: State, refused: str | None = None) -> Audit:
    """An audit of gathers in some states."""
    gathers = list[AuditedGather]()
    for state in states:
        index_range = IndexRange(state, (0,), (1,), (4,), "")
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
    "2 of 3 models are in range; 1 was not audited; 4 nodes were not judged"
)


def test_a_verdict_says_how_many_nodes_were_not_judged() -> None:
    assert not_judged_text([audit("proved")]) == ""
    assert not_judged_text([NOT_JUDGED]) == "; 2 nodes were not judged"
    single = replace(NOT_JUDGED, not_judged=[NODE])
    assert not_judged_text([single]) == "; 1 node was not judged"


def test_a_model_has_the_verdict_of_its_worst_gather() -> None:
    assert verdict_of(audit()) == "no-index"
    assert verdict_of(audit("proved", "proved-if")) == "proved-if"
    assert verdict_of(audit("not-proved", "proved-if")) == "not-proved"
    assert verdict_of(audit("not-proved", "out-of-range")) == "out-of-range"


@pytest.mark.parametrize(
    ("audits", "unusable", "sentence"),
    [
        ([], 2, "2 of 2 models were not audited"),
        ([audit("proved")], 0, "1 of 1 model is in range"),
        ([audit("proved")] * 2, 0, "2 of 2 models are in range"),
        ([audit("proved")] * 6, 16, "6 of 22 models are in range; 16 were not audited"),
        ([NOT_JUDGED] * 2, 1, NOT_JUDGED_LINE),
        (
            [
                *[audit("proved"), audit(), audit("proved-if"), audit("proved-if")],
                *[audit("not-proved"), audit("out-of-range"), audit("proved")],
            ],
            1,
            (
                "1 of 8 models can leave an axis; 1 is not proved in range; 2 are in"
                " range under conditions; 2 are in range; 1 has no index; 1 was not"
                " audited"
            ),
        ),
        (
            [audit("proved", refused="rule"), audit("not-proved")],
            0,
            (
                "1 of 2 models is not proved in range; 1 is in range; 1 has a gather"
                " that DirectML refuses"
            ),
        ),
    ],
)
def test_several_models_have_one_line(
    audits: list[Audit], unusable: int, sentence: str
) -> None:
    assert verdict_of_models(audits, unusable) == sentence


def test_the_worst_model_has_the_most_gathers_in_the_worst_state() -> None:
    audits = [
        audit("proved-if", "proved"),
        audit("not-proved", "not-proved"),
        audit("out-of-range"),
        audit("out-of-range", "out-of-range"),
    ]
    assert sorted(audits, key=badness_of) == [audits[3], audits[2], *audits[1::-1]]
