"""The pictures of an audit: which gathers have a picture, and of which execution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_graphs import BOOL, FLOAT, INT64, constant, graph, info, model, node
from rings import one_quick_in

from onnxgather.auditing import cropping
from onnxgather.auditing.audit import Premises, audit_model
from onnxgather.auditing.output.picture_of_finding import pictures_of
from onnxgather.core.execution.kernels import operators_library
from onnxgather.core.model.network import read_network

TABLE = constant("table", np.arange(12.0, dtype=np.float32).reshape(4, 3))
IDS = info("ids", INT64, [2])
TWO = [
    node("Gather", ["table", "ids"], "rows", "first"),
    node("Gather", ["rows", "ids"], "again", "second"),
]


def pictures(made: Any, inputs: Any = None) -> list[dict[str, Any]]:
    return pictures_of(audit_model(Premises(read_network(made)), inputs))


def chain() -> Any:
    return model(TWO, [IDS], ["again"], [TABLE])


def values(picture: dict[str, Any]) -> list[str]:
    """Return the elements of the first grid of each tensor."""
    drawn = picture["picture"]
    return [drawn[name][0]["values"] for name in ("input", "indices", "output")]


def test_each_gather_has_a_picture_of_what_it_got_in_the_run() -> None:
    first, second = pictures(chain(), {"ids": np.array([1, 0])})
    assert values(first)[1:] == ["1 0", "3 4 5 0 1 2"]
    assert values(second) == ["3 4 5 0 1 2", "1 0", "0 1 2 3 4 5"]
    assert (second["type"], second["indexType"]) == ("FLOAT32", "INT64")
    assert (second["level"], second["graphs"]) == ("3_0", [])
    assert "answers" not in first


def test_a_gather_that_did_not_run_has_no_picture() -> None:
    assert pictures(chain()) == [{}, {}]


def test_behind_an_index_out_of_range_a_picture_is_of_a_run_under_clamp(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = pictures(chain(), {"ids": np.array([9, 0])})
    assert first["picture"]["outside"] == [0]
    if operators_library() is not None:
        assert "note" not in first
        assert second["picture"]["outside"] == [0]
        assert second["note"] == (
            "The untouched model stops at another gather. The elements are those of a"
            " run in which each index out of range is clamped to its axis."
        )
    monkeypatch.setenv("ONNXGATHER_NATIVE", "0")
    assert pictures(chain(), {"ids": np.array([9, 0])}) == [first, {}]


def test_an_index_out_of_range_is_drawn_with_what_directml_reads() -> None:
    table = constant("table", np.arange(40.0, dtype=np.float32).reshape(10, 4))
    made = model(TWO[:1], [info("ids", INT64, [6])], ["rows"], [table])
    (picture,) = pictures(made, {"ids": np.array([0, 1, 2, 3, 12, 5])})
    # Three of each dimension, about the index, what it reads, and where that goes.
    assert values(picture) == [
        "29 30 31 33 34 35 37 38 39",
        "3 12 5",
        "12 13 14 39 39 39 20 21 22",
    ]
    assert picture["picture"]["outside"] == [4]
    assert picture["picture"]["links"][3] == [16, 39, (4,)]
    read = "No error: returns another element of the tensor, here `input[9,3]`"
    assert picture["answers"] == {"cpu": "The node fails.", "directml": read}


def test_an_index_along_a_size_of_1_is_not_drawn_with_what_directml_reads() -> None:
    table = constant("table", np.array([[1, 2, 3]], np.float32))
    made = model(TWO[:1], [info("ids", INT64, [2])], ["rows"], [table])
    (picture,) = pictures(made, {"ids": np.array([0, 2])})
    assert picture["picture"]["outside"] == [1]
    assert picture["picture"]["output"] == []
    assert "answers" not in picture


@pytest.mark.parametrize(
    ("trips", "outside", "indices"),
    one_quick_in(2, [(9, [1], "-4 -5"), (3, None, "3 2")]),
)
def test_of_a_loop_the_first_execution_with_an_index_out_of_range_is_drawn(
    trips: int, outside: list[int] | None, indices: str
) -> None:
    (picture,) = pictures(looped(), {"ids": np.array([3, 2]), "trips": np.array(trips)})
    assert picture["picture"].get("outside") == outside
    assert values(picture)[1] == indices


def test_a_cropped_table_is_not_drawn_with_what_directml_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cropping, "LARGEST_WHOLE", 0)
    (picture, _) = pictures(chain(), {"ids": np.array([9, 0])})
    assert "answers" not in picture
    assert picture["picture"]["output"] == []


WORDS = constant("words", np.array(["a", "b"], dtype=object))
NARROW = constant("narrow", np.zeros((1, 2), np.int64))
AT = constant("at", np.zeros((4, 3), np.int64))


@pytest.mark.parametrize(
    ("other", "stored"),
    one_quick_in(
        3,
        [
            # No gather, no type of DirectML, and sizes that it refuses.
            (node("ScatterElements", ["table", "at", "table"], "other"), AT),
            (node("Gather", ["words", "ids"], "other"), WORDS),
            (node("GatherElements", ["table", "narrow"], "other"), NARROW),
        ],
    ),
)
def test_what_directml_does_not_gather_has_no_picture(other: Any, stored: Any) -> None:
    made = model([other, *TWO], [IDS], ["other", "again"], [TABLE, stored])
    nothing, *others = pictures(made, {"ids": np.array([1, 0])})
    assert nothing == {}
    assert all(others)


@pytest.mark.slow
def test_a_node_that_onnx_forbids_has_a_picture_without_an_output() -> None:
    inputs = [info("x", FLOAT, ["n", "m"]), info("ids", INT64, ["a", "b"])]
    gather = node("GatherElements", ["x", "ids"], "y", axis=1)
    made = model([gather], inputs, ["y"])
    given = {"x": np.ones((2, 3), np.float32), "ids": np.zeros((5, 2), np.int64)}
    (picture,) = pictures(made, given)
    assert picture["picture"]["output"] == []
    assert picture["node"] == {
        "operator": "GatherElements",
        "attributes": {"axis": 1},
        "output_shape": [5, 2],
        "rule": (
            "no size of indices but that at axis may exceed data's [2, 3], got [5, 2]"
        ),
    }


def looped() -> Any:
    """Return a model whose loop gathers rows, with indices that fall by one."""
    state = [info("k", INT64, []), info("on", BOOL, []), info("at", INT64, [2])]
    inner = [
        node("Identity", ["on"], "still"),
        node("Gather", ["table", "at"], "row", "inner"),
        node("Sub", ["at", "one"], "next"),
    ]
    body = graph(inner, state, ["still", "next", "row"], [constant("one", np.array(1))])
    loop = node("Loop", ["trips", "", "ids"], "end", "loop_1", body=body)
    loop.output.append("rows")
    return model([loop], [IDS, info("trips", INT64, [])], ["rows"], [TABLE])


WILD = constant("ids", np.array([0, 7, 1]))


@pytest.mark.parametrize(
    ("has_data", "data", "output"),
    [
        (True, "3 4 5 6 7 8 9 10 11", "0 1 2 11 11 11 3 4 5"),
        # Only a run has these elements.
        (False, "? ? ? ? ? ? ? ? ?", "? ? ? ? ? ? ? ? ?"),
    ],
)
def test_a_constant_out_of_range_has_a_picture_without_a_run(
    has_data: bool, data: str, output: str
) -> None:
    inputs = [] if has_data else [info("table", FLOAT, [4, 3])]
    stored = [TABLE, WILD] if has_data else [WILD]
    (picture,) = pictures(model(TWO[:1], inputs, ["rows"], stored))
    assert values(picture) == [data, "0 7 1", output]
    assert picture["picture"]["outside"] == [1]
    assert picture["picture"]["links"][3] == [3, 11, (1,)]
    assert picture["answers"]["directml"] == (
        "No error: returns another element of the tensor, here `input[3,2]`"
    )
    note = (
        "The audit ran no inputs. Each question mark is an element that a run computes."
    )
    assert picture.get("note") == (None if has_data else note)


@pytest.mark.parametrize(
    ("sizes", "indices"), [([4, "n"], [9]), ([2**20, 3], [2**21]), ([4, 3], [0, 3, 1])]
)
def test_data_of_open_or_large_sizes_or_indices_in_range_make_no_picture(
    sizes: Any, indices: list[int]
) -> None:
    ids = constant("ids", np.array(indices))
    made = model(TWO[:1], [info("table", FLOAT, sizes)], ["rows"], [ids])
    assert pictures(made) == [{}]
