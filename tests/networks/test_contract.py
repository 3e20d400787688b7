"""The contract of a model: what its conditions say, and how they are joined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import onnx
import pytest
from onnx_graphs import INT64, info, model, node

import onnxgather as og
from onnxgather.networks.contract import (
    NOT_EMPTY,
    Condition,
    Contract,
    digest_of,
    open_sizes,
    tightened,
)
from onnxgather.networks.network import read_network


def values(low: int | None, high: int | None, *columns: int, of: str = "ids") -> Condition:
    return Condition(of="values", input=of, columns=columns or None, low=low, high=high)


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        (values(-1000, 999), "ids: values from -1000 to 999"),
        (values(None, 999), "ids: values at most 999"),
        (values(0, None), "ids: values at least 0"),
        (values(3, 3), "ids: values equal to 3"),
        (values(0, 15, 0), "ids: column 0 of the last axis from 0 to 15"),
        (values(0, 15, 0, 2), "ids: columns 0, 2 of the last axis from 0 to 15"),
        (
            Condition(of="size", input="ids", dim=1, expression="sequence", high=64),
            "size 1 of ids (sequence) at most 64",
        ),
        (Condition(of="size", input="ids", dim=0, low=2, high=2), "size 0 of ids equal to 2"),
        (
            Condition(of="sizes", expression="batch*sequence", high=512),
            "batch*sequence at most 512",
        ),
    ],
)
def test_a_condition_is_a_sentence(condition: Condition, sentence: str) -> None:
    assert str(condition) == sentence


def test_conditions_are_joined_to_the_tightest_of_each_subject() -> None:
    size = Condition(of="size", input="ids", dim=1, high=64)
    found = tightened(
        [
            values(0, 9),
            values(None, 5),
            size,
            values(0, 1, 0),
            msgspec.structs.replace(size, high=8),
        ]
    )
    assert found == (values(0, 5), msgspec.structs.replace(size, high=8), values(0, 1, 0))


def test_conditions_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(og.OnnxGatherError) as caught:
        tightened([values(0, 5), values(6, None)])
    assert str(caught.value) == (
        "two conditions exclude each other: ids: values from 0 to 5, and ids: values at least 6"
    )


def sized(*inputs: tuple[str, list[Any]]) -> onnx.ModelProto:
    return model([node("Abs", [inputs[0][0]], "y")], [info(n, INT64, s) for n, s in inputs], ["y"])


def test_open_sizes_have_the_names_of_the_model_or_names_made_for_them() -> None:
    network = read_network(
        sized(("ids", ["batch", "n + 1", 3]), ("mask", ["batch", None]), ("a*b - c", ["class"]))
    )
    assert open_sizes(network) == {
        "batch": [("ids", 0), ("mask", 0)],
        "ids.1": [("ids", 1)],
        "mask.1": [("mask", 1)],
        "class": [("a*b - c", 0)],
    }
    assert open_sizes(read_network(sized(("a*b - c", [None])))) == {"input#0.0": [("a*b - c", 0)]}


def test_the_digest_of_a_file_is_that_of_its_object(tmp_path: Path) -> None:
    proto, path = sized(("ids", ["batch"])), tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    found = digest_of(read_network(path))
    assert found == digest_of(read_network(proto))
    assert found.startswith("sha256:")
    assert len(found) == len("sha256:") + 64
    assert found != digest_of(read_network(sized(("ids", ["n"]))))


def test_a_contract_is_one_plain_dict() -> None:
    conditions = (values(0, 15, 0),)
    sizes = {"batch": [("ids", 0)]}
    contract = Contract(digest="sha256:0", assumes=NOT_EMPTY, sizes=sizes, conditions=conditions)
    assert contract.plain == {
        "digest": "sha256:0",
        "assumes": "open sizes of inputs are at least 1",
        "sizes": {"batch": [["ids", 0]]},
        "conditions": [
            {
                "of": "values",
                "input": "ids",
                "columns": [0],
                "dim": None,
                "expression": None,
                "low": 0,
                "high": 15,
            }
        ],
    }
