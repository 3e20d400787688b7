"""The contract of a model: what its conditions say, and how they are joined."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from folders import ROOT
from hypothesis import Phase, example, find, given, settings
from hypothesis import strategies as st
from network_draft import results, session
from onnx_graphs import INT64, constant, info, model, node, nodes_of, written
from rings import one_quick_in
from runtime_faults import IS_OLD

import onnxgather as og
from onnxgather.auditing.algebra.sizes import low_of, size_from
from onnxgather.auditing.proof.contract import (
    LARGEST_CONTRACT,
    MAY_BE_EMPTY,
    NOT_EMPTY,
    Condition,
    Contract,
    check_inputs,
    decoded,
    expression_of,
    open_sizes,
    read_contract,
    sizes_given,
    tightened,
)
from onnxgather.auditing.proof.contract_python import guard
from onnxgather.core.checks import shown
from onnxgather.core.model.network import read_network


def refusal(
    call: Callable[..., object],
    *given: Any,
    error: type[Exception] = og.OnnxGatherError,
) -> str:
    with pytest.raises(error) as caught:
        call(*given)
    return str(caught.value)


def values(
    low: int | None, high: int | None, *columns: int, of: str = "ids"
) -> Condition:
    return Condition(of="values", input=of, columns=columns or None, low=low, high=high)


def difference(low: int | None, high: int | None) -> Condition:
    return Condition(of="difference", input="bbox", columns=(3, 1), low=low, high=high)


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        (
            '{"of": "values", "input": "ids", "low": -1000, "high": 999}',
            "each value of ids is from -1000 to 999",
        ),
        (
            '{"of": "values", "input": "ids", "high": 999}',
            "each value of ids is at most 999",
        ),
        (
            '{"of": "values", "input": "ids", "low": 0}',
            "each value of ids is at least 0",
        ),
        (
            '{"of": "values", "input": "ids", "low": -1073741825, "high": 63}',
            "each value of ids is at most 63 and not far below 0",
        ),
        (
            '{"of": "values", "input": "ids", "low": -1073741824, "high": 63}',
            "each value of ids is from -1073741824 to 63",
        ),
        (
            '{"of": "values", "input": "ids", "low": -9223372036854775807}',
            "each value of ids is not far below 0",
        ),
        (
            '{"of": "values", "input": "ids", "low": -64, "high": 2147483647}',
            "each value of ids is at least -64 and not far above 0",
        ),
        (
            '{"of": "values", "input": "ids", "high": 1073741825}',
            "each value of ids is not far above 0",
        ),
        (
            '{"of": "values", "input": "ids", "low": -2147483648, "high": 2147483647}',
            "each value of ids is not far from 0",
        ),
        # Without 0 between the ends, the numbers are said.
        (
            '{"of": "values", "input": "ids", "low": 5, "high": 2147483647}',
            "each value of ids is from 5 to 2147483647",
        ),
        (
            '{"of": "values", "input": "ids", "low": -2147483648, "high": -5}',
            "each value of ids is from -2147483648 to -5",
        ),
        (
            '{"of": "values", "input": "ids", "low": 3, "high": 3}',
            "each value of ids is 3",
        ),
        ('{"of": "values", "input": "ids"}', "each value of ids is a number, not NaN"),
        (
            (
                '{"of": "values", "input": "ends", "low_expression": "-length", '
                '"high_expression": "length - 1"}'
            ),
            "each value of ends is at least -length and at most length - 1",
        ),
        (
            (
                '{"of": "values", "input": "ends", '
                '"low": 0, "high_expression": "length - 1"}'
            ),
            "each value of ends is at least 0 and at most length - 1",
        ),
        (
            '{"of": "values", "input": "ends", "columns": [1], "high_expression": "n"}',
            "each value of column 1 of the last axis of ends is at most n",
        ),
        (
            '{"of": "values", "input": "ends", "low_expression": "-2*a*b"}',
            "each value of ends is at least -2*a*b",
        ),
        (
            (
                '{"of": "difference", "input": "bbox", "columns": [3, 1], "low": '
                '-1024, "high": 1023}'
            ),
            "column 3 minus column 1 of the last axis of bbox is from -1024 to 1023",
        ),
        (
            '{"of": "values", "input": "ids", "columns": [0], "low": 0, "high": 15}',
            "each value of column 0 of the last axis of ids is from 0 to 15",
        ),
        (
            '{"of": "values", "input": "ids", "columns": [0, 2], "low": 0, "high": 15}',
            "each value of columns 0, 2 of the last axis of ids is from 0 to 15",
        ),
        (
            (
                '{"of": "size", "input": "ids", "dim": 1, "expression": "sequence", '
                '"high": 64}'
            ),
            "size 1 of ids (sequence) is at most 64",
        ),
        (
            '{"of": "size", "input": "ids", "dim": 0, "low": 2, "high": 2}',
            "size 0 of ids is 2",
        ),
        (
            '{"of": "values", "input": "ids", "low": -64, "high": 63, "also": [-100]}',
            "each value of ids is -100 or from -64 to 63",
        ),
        (
            '{"of": "values", "input": "ids", "high": 63, "also": [100, 200]}',
            "each value of ids is 100, 200 or at most 63",
        ),
        (
            '{"of": "sizes", "expression": "batch*sequence", "high": 512}',
            "batch*sequence is at most 512",
        ),
        ('{"of": "sizes", "expression": "p + s - t", "high": 0}', "p + s is at most t"),
        (
            '{"of": "sizes", "expression": "-t + 2*p", "high": -12}',
            "2*p + 12 is at most t",
        ),
        (
            '{"of": "sizes", "expression": "p - t - s", "high": 3}',
            "p is at most t + s + 3",
        ),
        ('{"of": "sizes", "expression": "-t", "high": -2}', "2 is at most t"),
        ('{"of": "sizes", "expression": "2*p - t", "low": 0}', "2*p - t is at least 0"),
    ],
)
def test_a_condition_is_a_sentence(condition: str, sentence: str) -> None:
    assert str(msgspec.json.decode(condition, type=Condition)) == sentence


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
    assert found == (
        values(0, 5),
        msgspec.structs.replace(size, high=8),
        values(0, 1, 0),
    )


def test_ends_that_are_expressions_stay_beside_numbers() -> None:
    by_size = Condition(of="values", input="ids", low=0, high_expression="n - 1")
    lower = msgspec.structs.replace(by_size, low=3)
    assert tightened([values(-4, 9), by_size, lower]) == (values(-4, 9), lower)


@pytest.mark.parametrize(
    ("first", "second", "exact"),
    [
        (((0, 9), True), ((0, 5), True), True),
        (((0, 9), True), ((0, 5), False), False),
        (((0, 9), False), ((0, 5), True), True),
        (((1, 9), False), ((0, 5), True), False),
        (((-1, 9), False), ((0, 5), True), True),
        (((0, 9), True), ((0, 9), False), True),
        (((0, 9), False), ((0, 9), False), False),
        (((0, None), False), ((0, 5), True), True),
        (((0, None), True), ((None, 5), True), True),
        (((0, None), True), ((None, 5), False), False),
    ],
)
def test_conditions_together_are_exact_where_both_of_their_ends_are(
    first: Any, second: Any, exact: bool
) -> None:
    both = [
        msgspec.structs.replace(values(*ends), exact=is_exact)
        for ends, is_exact in (first, second)
    ]
    (merged,) = tightened(both)
    (turned,) = tightened(reversed(both))
    assert merged == turned
    assert merged.exact == exact


def sized(*inputs: tuple[str, list[Any]]) -> onnx.ModelProto:
    return model(
        [node("Abs", [inputs[0][0]], "y")],
        [info(n, INT64, s) for n, s in inputs],
        ["y"],
    )


def test_open_sizes_have_the_names_of_the_model_or_names_made_for_them() -> None:
    network = read_network(
        sized(
            ("ids", ["batch", "n + 1", 3]),
            ("mask", ["batch", None]),
            ("a*b - c", ["class"]),
        )
    )
    assert open_sizes(network) == {
        "batch": [("ids", 0), ("mask", 0)],
        "ids.1": [("ids", 1)],
        "mask.1": [("mask", 1)],
        "class": [("a*b - c", 0)],
    }
    assert open_sizes(read_network(sized(("a*b - c", [None])))) == {
        "input#0.0": [("a*b - c", 0)]
    }


def test_the_digest_of_a_file_is_that_of_its_object(tmp_path: Path) -> None:
    proto, path = sized(("ids", ["batch"])), tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    found = read_network(path).digest
    assert found == read_network(proto).digest
    assert found.startswith("sha256:")
    assert len(found) == len("sha256:") + 64
    assert found != read_network(sized(("ids", ["n"]))).digest


class Broken(dict[str, object]):
    def __iter__(self) -> Iterator[str]:
        raise LookupError("no names")

    def keys(self) -> Any:
        return iter(self)


def test_a_contract_whose_class_is_broken_is_one_sentence() -> None:
    with pytest.raises(og.FileFormatError) as refused:
        og.check_inputs(Broken(), {})
    assert str(refused.value) == "the contract: $ must be plain: no names"


def test_a_contract_is_one_plain_dict() -> None:
    conditions = (values(0, 15, 0),)
    sizes = {"batch": [("ids", 0)]}
    contract = Contract(
        digest="sha256:0",
        assumes=NOT_EMPTY,
        sizes=sizes,
        types={"ids": "INT64"},
        shapes={"ids": [None]},
        conditions=conditions,
    )
    assert contract.plain == {
        "digest": "sha256:0",
        "assumes": "open sizes of inputs are at least 1",
        "sizes": {"batch": [["ids", 0]]},
        "types": {"ids": "INT64"},
        "shapes": {"ids": [None]},
        "conditions": [
            {
                "of": "values",
                "input": "ids",
                "columns": [0],
                "dim": None,
                "expression": None,
                "low": 0,
                "high": 15,
                "low_expression": None,
                "high_expression": None,
                "also": None,
                "exact": False,
            }
        ],
    }


NETWORK = read_network(sized(("ids", ["batch", "sequence"]), ("mask", ["batch", 3])))
SIZES = open_sizes(NETWORK)
LENGTH = Condition(of="size", input="ids", dim=1, expression="sequence", high=8)
AREA = Condition(of="sizes", expression="3*batch*sequence - sequence", low=0, high=40)
GOOD = {"ids": np.arange(6).reshape(2, 3), "mask": np.ones((2, 3), bool)}


def contract(*conditions: Condition, assumes: Any = NOT_EMPTY) -> dict[str, Any]:
    """A contract that checks no data types."""
    return Contract(
        digest=NETWORK.digest,
        assumes=assumes,
        sizes=SIZES,
        types={},
        shapes={"ids": [None, None], "mask": [None, 3]},
        conditions=conditions,
    ).plain


WHOLE = contract(values(-1, 9), values(0, 1, 2, of="mask"), LENGTH, AREA)
TYPED = WHOLE | {"types": {"ids": "INT64", "mask": "INT64"}}
"""The contract that an audit writes."""


def test_a_contract_is_the_same_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(TYPED), encoding="utf-8")
    assert decoded(path) == decoded(str(path)) == decoded(TYPED)
    assert decoded(path).plain == TYPED
    assert read_contract(path, NETWORK) == decoded(path)
    check_inputs(path, GOOD | {"mask": np.ones((2, 3), np.int64)})


def test_a_model_in_the_place_of_its_contract_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x08\x3a\x00")
    assert (
        refusal(og.check_inputs, path, {})
        == f"{path}: must be a contract of onnxgather audit, got an ONNX model, which"
        " onnxgather audit, certify, check, convert, explain, extract, harden, repro"
        " and show take"
    )


def test_fields_that_do_not_apply_may_be_left_out() -> None:
    short = WHOLE | {"conditions": [{"of": "values", "input": "ids", "high": 9}]}
    assert decoded(short).conditions == (values(None, 9),)


def test_given_shapes_are_conditions_on_open_sizes() -> None:
    assert [*map(str, sizes_given(SIZES, {"ids": [2, 3], "mask": [2, 3]}))] == [
        "size 0 of ids (batch) is 2",
        "size 1 of ids (sequence) is 3",
    ]


def of_size(dim: int, low: int | None, high: int | None) -> Condition:
    return Condition(of="size", input="ids", dim=dim, low=low, high=high)


def of_sizes(expression: str, low: int | None, high: int | None) -> Condition:
    return Condition(of="sizes", expression=expression, low=low, high=high)


def by_size(low: str | None, high: str | None) -> Condition:
    return Condition(of="values", input="ids", low_expression=low, high_expression=high)


def of_columns(low: int | None, high: int | None, first: int = 1) -> Condition:
    columns = (first, 1 - first)
    return Condition(of="difference", input="ids", columns=columns, low=low, high=high)


EXCLUDING: dict[str, list[Condition]] = {
    "values": [values(0, 5), values(6, None)],
    "values beside a column": [values(0, 5), values(6, None, 2)],
    "columns": [values(6, 9, 1, 2), values(0, 5, 0, 1)],
    "a size": [of_size(0, None, 2), of_size(0, 4, None)],
    "a size below the least": [of_size(1, None, 0)],
    "two sizes and their order": [
        of_size(0, 5, None),
        of_size(1, None, 4),
        of_sizes("batch - sequence", None, 0),
    ],
    "three orders": [
        of_sizes("batch - sequence", None, -1),
        of_sizes("sequence - batch", None, 0),
    ],
    "a product": [
        of_size(0, 3, None),
        of_size(1, 3, None),
        of_sizes("batch*sequence", None, 8),
    ],
    "a product of small sizes": [
        of_size(0, None, 4),
        of_size(1, None, 4),
        of_sizes("batch*sequence", 17, None),
    ],
    "values up to a size": [
        by_size(None, "batch - 1"),
        of_size(0, None, 10),
        values(10, None),
    ],
    "values between two sizes": [
        by_size("batch", "sequence"),
        of_sizes("batch - sequence", 1, None),
    ],
    "a difference": [of_columns(3, 9), values(2, None, 0), values(None, 4, 1)],
    "a difference of all values": [of_columns(3, 9), values(2, 4)],
    "two differences": [of_columns(3, 9), of_columns(-2, 9, first=0)],
}
"""Conditions that no input meets together, though some input meets all but the last."""


@pytest.mark.parametrize("name", EXCLUDING)
def test_a_contract_takes_no_conditions_that_exclude_its_own(name: str) -> None:
    *own, last = EXCLUDING[name]
    joined = decoded(contract()).joined(own)
    assert joined.conditions == (*own,)
    found = refusal(joined.joined, [last])
    assert found.startswith("some input must meet all conditions, but none meets '")
    # The condition that is named may be any of them, or two on one subject.
    assert any(str(condition) in found for condition in tightened(EXCLUDING[name]))


def test_the_condition_that_excludes_others_is_named() -> None:
    own = decoded(contract(values(0, 5)))
    assert (
        refusal(own.joined, [values(6, None)])
        == "some input must meet all conditions, but none meets 'each value of ids is"
        " at least 6 and at most 5' and the others"
    )


@pytest.mark.parametrize(
    "conditions",
    [
        [values(0, 5), values(5, None), values(0, 9, 1)],
        [
            of_size(0, None, 3),
            of_size(1, 4, None),
            of_sizes("batch - sequence", -9, -1),
        ],
        [of_size(0, 3, None), of_size(1, 3, None), of_sizes("batch*sequence", None, 9)],
        [by_size("-batch", "batch - 1"), of_size(0, None, 1), values(0, None)],
        [of_columns(-3, 2), of_columns(-2, 3, first=0), values(7, 9)],
        [values(-(2**63), -(2**63)), values(2**63 - 1, None, of="mask")],
        [msgspec.structs.replace(values(0, 5), also=(-100,)), values(None, -50, 0)],
    ],
)
def test_a_contract_takes_conditions_that_an_input_meets(
    conditions: list[Condition],
) -> None:
    joined = decoded(contract()).joined(conditions)
    assert joined.conditions == tightened(conditions)


def drawn_condition(random: Random) -> Condition:
    """A condition on small numbers: columns 0 and 1 of `ids`, and both sizes of it."""
    low, high = sorted([random.randint(-3, 4), random.randint(-3, 4)])
    ends = random.choice([(low, high), (low, None), (None, high)])
    first = random.randrange(2)
    by = random.choice(["batch - 1", "-sequence", "batch*sequence", "batch - sequence"])
    sides = random.choice([(by, None), (None, by)])
    subjects = [
        values(*ends, *random.choice([(), (0,), (1,)])),
        of_columns(*ends, first=first),
        of_sizes(random.choice(["batch - sequence", "batch*sequence"]), *ends),
        by_size(*sides),
    ]
    return random.choice(subjects)


def is_met(conditions: Sequence[Condition]) -> bool:
    """Whether an input of small sizes and values meets conditions."""
    for batch, sequence in product(range(1, 4), repeat=2):
        sizes = {"batch": batch, "sequence": sequence}
        plain = [condition.with_numbers(sizes) for condition in conditions]
        for row in product(range(-2, 4), repeat=2):
            numbers: list[list[int]] = []
            for condition in conditions:
                columns = condition.columns or (0, 1)
                own = [row[column] for column in columns]
                if condition.of == "difference":
                    own = [own[0] - own[1]]
                elif not condition.is_of_elements:
                    own = [low_of(size_from(expression_of(condition, SIZES), sizes))]
                numbers.append(own)
            pairs = zip(plain, numbers, strict=True)
            if all(condition.admits(n) for condition, own in pairs for n in own):
                return True
    return False


@pytest.mark.slow
def test_no_conditions_are_refused_that_a_small_input_meets() -> None:
    small = [values(-2, 3), of_size(0, None, 3), of_size(1, None, 3)]
    outcomes = Counter[tuple[bool, bool]]()
    for seed in range(300):
        random = Random(seed)
        conditions = [*small, *(drawn_condition(random) for _ in range(3))]
        try:
            decoded(contract()).joined(conditions)
            is_joined = True
        except og.OnnxGatherError:
            is_joined = False
        outcomes[is_joined, is_met(conditions)] += 1
    assert not outcomes[False, True]
    assert outcomes[False, False] > 30
    # The audit may miss a few products of sizes.
    assert outcomes[True, False] < 10


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ('{"sizes": 1}', "$.sizes must be `object`, got `int`"),
        ('{"more": 1}', "$ must not have more"),
        (
            '{"shapes": {"ids": [null], "mask": [null, 3]}}',
            (
                "$.shapes must have dimension 1 of 'ids', as $.sizes has it for"
                " 'sequence', got [None]"
            ),
        ),
        (
            '{"assumes": "nothing"}',
            "$.assumes must be a value that docs/proof.md lists, got 'nothing'",
        ),
        (
            '{"conditions": [{"of": "x"}]}',
            "$.conditions[0].of must be a value that docs/proof.md lists, got 'x'",
        ),
        (
            '{"conditions": [{"of": "size", "low": 1.5}]}',
            "$.conditions[0].low must be `int | null`, got `float`",
        ),
        (
            '{"conditions": [{"of": "size", "dim": -1}]}',
            "$.conditions[0].dim must be `int` >= 0",
        ),
        (
            (
                '{"conditions": [{"of": "values", "input": "ids", "high": '
                "9223372036854775808}]}"
            ),
            "$.conditions[0].high must be `int` <= 9223372036854775807",
        ),
        (
            '{"conditions": [{"of": "sizes", "expression": "%s", "high": 1}]}'
            % ("batch" * 201),
            "$.conditions[0].expression must be `str` of length <= 1000",
        ),
        (
            (
                '{"conditions": [{"of": "size", "input": "ids", '
                '"columns": [0], "high": 1}]}'
            ),
            (
                "$.conditions[0] must have input and dim where of is 'size', got input,"
                " columns"
            ),
        ),
        (
            (
                '{"conditions": [{"of": "difference", "input": "ids", '
                '"columns": [0, 1], "high": 1, "also": [9]}]}'
            ),
            (
                "$.conditions[0] must have input and columns where of is"
                " 'difference', got input, columns, also"
            ),
        ),
        (
            '{"conditions": [{"of": "values", "input": "ids", "low": 0, "also": []}]}',
            "$.conditions[0].also must be `array` of length >= 1",
        ),
        (
            '{"conditions": [{"of": "sizes", "high": 1}]}',
            "$.conditions[0] must have expression where of is 'sizes', got none",
        ),
        (
            '{"conditions": [{"of": "size", "input": "ids", "dim": 0}]}',
            (
                "$.conditions[0] must have low, high, or both in their order, got None"
                " and None"
            ),
        ),
        (
            '{"conditions": [{"of": "difference", "input": "ids", "columns": [0, 1]}]}',
            (
                "$.conditions[0] must have low, high, or both in their order, got None"
                " and None"
            ),
        ),
        (
            '{"conditions": [{"of": "difference", "input": "ids", "high": 1}]}',
            (
                "$.conditions[0] must have input and columns where of is"
                " 'difference', got input"
            ),
        ),
        (
            (
                '{"conditions": [{"of": "difference", "input": "ids", "columns": [0], '
                '"high": 1}]}'
            ),
            "$.conditions[0] must have two columns where of is 'difference', got [0]",
        ),
        (
            (
                '{"conditions": [{"of": "sizes", "expression": "batch", '
                '"high_expression": "9"}]}'
            ),
            (
                "$.conditions[0] must not have high_expression where of is 'sizes',"
                " got '9'"
            ),
        ),
        (
            (
                '{"conditions": [{"of": "values", "input": "ids", "low": 0, '
                '"low_expression": "-batch"}]}'
            ),
            (
                "$.conditions[0] must have low or low_expression, not both, got 0 and"
                " -batch"
            ),
        ),
        (
            (
                '{"conditions": [{"of": "values", "input": "ids", "high_expression": '
                '"batsh - 1"}]}'
            ),
            (
                "$.conditions[0] must be of open sizes in $.sizes, got 'batsh'; did"
                ' you mean "batch"?'
            ),
        ),
        (
            '{"types": {"ids": "int64"}}',
            "$.types[...] must be a value that docs/proof.md lists, got 'int64'",
        ),
        (
            '{"conditions": [{"of": "values", "input": "ids", "low": 3, "high": 2}]}',
            "$.conditions[0] must have low, high, or both in their order, got 3 and 2",
        ),
        (
            '{"conditions": [{"of": "size", "input": "mask", "dim": 1, "high": 2}]}',
            "$.conditions[0] must be of open sizes in $.sizes, got 'mask.1'",
        ),
        (
            (
                '{"conditions": [{"of": "sizes", "expression": "batch*sequenc", '
                '"high": 2}]}'
            ),
            (
                "$.conditions[0] must be of open sizes in $.sizes, got 'sequenc'; did"
                ' you mean "sequence"?'
            ),
        ),
    ],
)
def test_a_broken_contract_is_one_sentence(changes: str, sentence: str) -> None:
    changed = WHOLE | json.loads(changes)
    found = refusal(check_inputs, changed, GOOD, error=og.FileFormatError)
    assert found == f"the contract: {sentence}"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            '{"digest": "sha256:0"}',
            (f"$.digest must be that of the model, '{NETWORK.digest}', got 'sha256:0'"),
        ),
        (
            '{"sizes": {"batch": [["ids", 0]]}, "conditions": []}',
            (
                "$.sizes must be that of the model, {'batch': [('ids', 0), ('mask',"
                " 0)], 'sequence': [('ids', 1)]}, got {'batch': [('ids', 0)]}"
            ),
        ),
        (
            '{"conditions": [{"of": "values", "input": "idx", "high": 2}]}',
            (
                "$.conditions[0]: a condition must be of an input ('ids', 'mask'), got"
                " 'idx'"
            ),
        ),
        (
            (
                '{"conditions": [{"of": "values", "input": "mask", "columns": [0, 3], '
                '"high": 2}]}'
            ),
            "$.conditions[0].columns must be below 3, the last size of 'mask', got 3",
        ),
        (
            '{"types": {"ids": "INT32"}}',
            (
                "$.types must be that of the model, {'ids': 'INT64', 'mask': 'INT64'},"
                " got {'ids': 'INT32'}"
            ),
        ),
    ],
)
def test_a_contract_that_does_not_fit_the_model_is_refused(
    changes: str, sentence: str
) -> None:
    found = refusal(read_contract, TYPED | json.loads(changes), NETWORK)
    assert found == f"the contract: {sentence}"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "$ must be whole JSON, got an empty or cut file"),
        (b"[" * 100_000, "$ must be `object`, got `array`"),
        (b'{"x":' * 100_000, "$ must not have x"),
        (b'{"digest": "\xff"}', "$ must be UTF-8, got other bytes"),
        (b" " * (LARGEST_CONTRACT + 1), "must have at most 1,048,576 bytes, got more"),
    ],
)
def test_a_file_that_is_no_contract_is_one_sentence(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(content)
    found = refusal(decoded, path, error=og.FileFormatError)
    assert found == f"{path}: {sentence}"


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        (
            {"ids": GOOD["ids"]},
            "the contract needs input 'mask', which is not given, got ['ids']",
        ),
        (
            GOOD | {"ids": [[1]]},
            (
                "input 'ids' must be an array, got list, of which numpy.asarray makes"
                " an array"
            ),
        ),
        (
            GOOD | {"ids": np.zeros(2)},
            "input 'ids' must have the shape [batch, sequence], got the shape [2]",
        ),
        (
            GOOD | {"ids": np.zeros((3, 3))},
            (
                "the size 'batch' must be one number from 1 to 2^28, the"
                " largest that proofs assume (dimension 0 of 'ids', dimension 0 of"
                " 'mask'), got 3, 2"
            ),
        ),
        (
            GOOD | {"ids": np.zeros((2, 0))},
            (
                "the size 'sequence' must be one number from 1 to 2^28,"
                " the largest that proofs assume (dimension 1 of 'ids'), got 0"
            ),
        ),
        (
            GOOD | {"ids": np.broadcast_to(np.int64(1), (2, 2**28 + 1))},
            (
                "the size 'sequence' must be one number from 1 to 2^28,"
                " the largest that proofs assume (dimension 1 of 'ids'), got 268435457"
            ),
        ),
        (
            GOOD | {"ids": np.array([[0, 10, 2], [0, 11, -7]])},
            (
                "input 'ids' must meet 'each value of ids is from -1 to 9', got -7 at"
                " [1, 2]"
            ),
        ),
        (
            GOOD | {"ids": np.array([[0, 10, 2], [0, 11, 1]])},
            (
                "input 'ids' must meet 'each value of ids is from -1 to 9', got 11 at"
                " [1, 1]"
            ),
        ),
        (
            GOOD | {"ids": np.array([[0, np.nan], [0, 1]], np.float32)},
            (
                "input 'ids' must meet 'each value of ids is from -1 to 9', got nan at"
                " [0, 1]"
            ),
        ),
        (
            GOOD | {"ids": np.array([[0, 1], [0, 2**64 - 1]], np.uint64)},
            (
                "input 'ids' must meet 'each value of ids is from -1 to 9', got "
                "18446744073709551615 at [1, 1]"
            ),
        ),
        (
            GOOD | {"ids": np.array([["a"], ["b"]])},
            "input 'ids' must hold numbers, got <U1",
        ),
        (
            GOOD | {"mask": np.array([[0, 0, 0], [0, 0, 2]])},
            (
                "input 'mask' must meet 'each value of column 2 of the last axis of"
                " mask is from 0 to 1', got 2 at [1, 2]"
            ),
        ),
        (
            GOOD | {"mask": np.zeros((2, 2))},
            "input 'mask' must have the shape [batch, 3], got the shape [2, 2]",
        ),
        (
            GOOD | {"ids": np.zeros((2, 9))},
            (
                "the inputs must meet 'size 1 of ids (sequence) is at most 8', got"
                " sequence = 9"
            ),
        ),
        (
            GOOD | {"ids": np.zeros((3, 8)), "mask": np.zeros((3, 3))},
            (
                "the inputs must meet '3*batch*sequence - sequence is from 0 to 40',"
                " got 3*batch*sequence - sequence = 64"
            ),
        ),
    ],
)
def test_inputs_that_break_a_contract_are_one_sentence(
    inputs: dict[str, Any], sentence: str
) -> None:
    assert refusal(check_inputs, WHOLE, inputs) == sentence
    assert is_refused(WHOLE, inputs)


ENDS = Condition(
    of="values",
    input="ids",
    low_expression="-sequence",
    high_expression="batch*sequence - 1",
)
BOXES = Condition(of="difference", input="mask", columns=(2, 0), low=0, high=7)


@pytest.mark.parametrize(
    ("condition", "changes", "sentence"),
    [
        (
            ENDS,
            {"ids": np.array([[0, 1, 2], [3, 6, 0]])},
            (
                "input 'ids' must meet 'each value of ids is at least -sequence and at"
                " most batch*sequence - 1', got 6 at [1, 1]"
            ),
        ),
        (
            ENDS,
            {"ids": np.array([[0, -4, 2], [3, 5, 0]])},
            (
                "input 'ids' must meet 'each value of ids is at least -sequence and at"
                " most batch*sequence - 1', got -4 at [0, 1]"
            ),
        ),
        (
            BOXES,
            {"mask": np.array([[0, 9, 7], [1, 9, 9]])},
            (
                "input 'mask' must meet 'column 2 minus column 0 of the last axis of"
                " mask is from 0 to 7', got 8 at [1, 2 - 0]"
            ),
        ),
        (
            BOXES,
            {"mask": np.array([[-(2**63), 0, 2**63 - 1], [1, 9, 0]])},
            (
                "input 'mask' must meet 'column 2 minus column 0 of the last axis of"
                " mask is from 0 to 7', got -1 at [1, 2 - 0]"
            ),
        ),
        (
            BOXES,
            {"mask": np.array([[-(2**63), 0, 2**63 - 1], [1, 9, 1]])},
            (
                "input 'mask' must meet 'column 2 minus column 0 of the last axis of"
                " mask is from 0 to 7', got 18446744073709551615 at [0, 2 - 0]"
            ),
        ),
        (
            BOXES,
            {"mask": np.array([[0, 1, 2], [3, 4, 5]], np.float32)},
            "input 'mask' must hold integers, got float32",
        ),
        (
            msgspec.structs.replace(values(0, 5), also=(-100, 9)),
            {"ids": np.array([[-100, 9, 1], [2, -99, 10]])},
            (
                "input 'ids' must meet 'each value of ids is -100, 9 or from 0 to 5',"
                " got -99 at [1, 1]"
            ),
        ),
        (
            msgspec.structs.replace(values(0, 5), also=(-100,)),
            {"ids": np.array([[-100, 1], [2, 3]], np.float32)},
            "input 'ids' must hold integers, got float32",
        ),
        (
            values(None, None),
            {"ids": np.array([[0, np.nan, 1], [2, np.inf, 3]])},
            (
                "input 'ids' must meet 'each value of ids is a number, not NaN', got"
                " nan at [0, 1]"
            ),
        ),
    ],
)
def test_inputs_that_break_a_condition_are_one_sentence(
    condition: Condition, changes: dict[str, Any], sentence: str
) -> None:
    told = contract(condition)
    assert not is_refused(told, GOOD)
    assert refusal(check_inputs, told, GOOD | changes) == sentence
    assert is_refused(told, GOOD | changes)


@pytest.mark.parametrize("shape", [[], [2], [3, 2], [2, 0]])
def test_an_input_of_any_rank_has_the_columns_of_its_conditions(
    shape: list[int],
) -> None:
    of_rank = contract(BOXES) | {"shapes": {"ids": [None, None]}}
    of_rank["sizes"] = {"sequence": [["ids", 1]]}
    assert not is_refused(of_rank, GOOD | {"mask": np.zeros((4, 1, 3), np.int64)})
    wrong = GOOD | {"mask": np.zeros(shape, np.int64)}
    assert is_refused(of_rank, wrong)
    assert (
        refusal(check_inputs, of_rank, wrong)
        == f"input 'mask' must have a column 2 in its last axis, got the shape {shape}"
    )


def test_a_number_in_also_need_not_be_between_the_ends() -> None:
    also = msgspec.structs.replace(values(0, 5), also=(-100, 9))
    assert [n for n in (-101, -100, -99, 0, 5, 6, 9, 10) if also.admits(n)] == [
        *(-100, 0, 5, 9),
    ]
    everywhere = GOOD | {"ids": np.full((2, 3), -100)}
    assert not is_refused(contract(also), everywhere)
    assert not is_refused(contract(also), GOOD)


def test_infinity_is_a_number() -> None:
    infinite = {"ids": np.array([[0, np.inf, 1], [2, -np.inf, 3]])}
    assert not is_refused(contract(values(None, None)), GOOD | infinite)


def test_inputs_have_the_data_types_of_the_model() -> None:
    told = Contract.of(NETWORK, (), allow_empty=False).plain
    assert told["types"] == {"ids": "INT64", "mask": "INT64"}
    assert told["shapes"] == {"ids": [None, None], "mask": [None, 3]}
    fed = {"ids": np.zeros((2, 3), np.int64), "mask": np.zeros((2, 3), np.int64)}
    assert not is_refused(told, fed)
    wrong = fed | {"mask": np.zeros((2, 3))}
    assert is_refused(told, wrong)
    sentence = "input 'mask' must be of INT64 (int64), got float64"
    assert refusal(check_inputs, told, wrong) == sentence


def test_strings_are_of_strings_or_objects() -> None:
    made = written("(string[n] s) => (y) { y = Shape (s) }")
    told = Contract.of(read_network(made), (), allow_empty=False).plain
    for array in (np.array(["a"]), np.array(["a"], object)):
        assert not is_refused(told, {"s": array})
    # ONNX Runtime ends the process at strings in another order of bytes.
    for array in (np.array([1]), np.array([b"a"]), np.array(["a"], ">U1")):
        assert is_refused(told, {"s": array})
        assert (
            refusal(check_inputs, told, {"s": array})
            == f"input 's' must be of STRING (str), got {array.dtype}"
        )


def test_inputs_that_are_no_mapping_are_one_sentence() -> None:
    assert (
        refusal(check_inputs, WHOLE, None)
        == "inputs must be a mapping from names, got None"
    )
    assert is_refused(WHOLE, None)


def test_an_input_that_is_missing_has_any_type() -> None:
    told = contract() | {"types": {"other": "FLOAT16"}}
    assert not is_refused(told, GOOD)


@pytest.mark.parametrize("number", [3, 2**24, -1, 0])
@pytest.mark.parametrize("data_type", ["int64", "int32", "float16", "double"])
def test_a_number_is_what_onnx_runtime_reads_of_its_bytes(
    number: int, data_type: str
) -> None:
    made = written(f"({data_type}[n] x) => ({data_type}[n] y) {{ y = Neg (x) }}")
    array = np.array([number % 2**10]).astype(np.dtype(data_type).newbyteorder(">"))
    (y,) = session(made, 3).run(None, {"x": array})
    read = (-y).item()
    told = Contract.of(read_network(made), (), allow_empty=False).plain
    for high, refused in ((read, False), (read - 1, read != read - 1)):
        if abs(high) < 2**53 and high == int(high):
            condition = {"of": "values", "input": "x", "high": int(high)}
            assert (
                is_refused(told | {"conditions": [condition]}, {"x": array}) == refused
            )


def test_an_input_without_a_dimension_has_none() -> None:
    """ONNX Runtime takes an array of 5 elements for it, and the index is then 4."""
    made = written("""
        (int64 x) => (y)
        <int64 one = {1}, float[3] table = {0, 0, 0}>
        { n = Size (x)  i = Sub (n, one)  y = Gather (table, i) }
    """)
    audited = og.audit(made)
    assert audited.gathers[0].range.state == "proved"
    assert audited.contract["shapes"] == {"x": []}
    good, wrong = {"x": np.array(7)}, {"x": np.arange(5)}
    assert not is_refused(audited.contract, good)
    assert is_refused(audited.contract, wrong)
    assert (
        refusal(check_inputs, audited.contract, wrong)
        == "input 'x' must have no dimension, got the shape [5]"
    )
    assert (
        refusal(read_contract, audited.contract | {"shapes": {}}, read_network(made))
        == "the contract: $.shapes must be that of the model, {'x': []}, got {}"
    )


def test_a_shape_that_is_given_of_an_input_of_any_rank_is_in_the_contract() -> None:
    made = written("""
        (float[] x) => (y)
        <int64[1] last = {9}>
        {
            y = Gather (x, last)
        }
    """)
    audited = og.audit(made, shapes={"x": [10]})
    assert audited.gathers[0].range.state == "proved"
    assert audited.contract["shapes"] == {"x": [10]}
    good, wrong = ({"x": np.zeros(shape, np.float32)} for shape in ((10,), (10, 3)))
    assert not is_refused(audited.contract, good)
    assert is_refused(audited.contract, wrong)
    assert (
        refusal(check_inputs, audited.contract, wrong)
        == "input 'x' must have the shape [10], got the shape [10, 3]"
    )
    assert (
        refusal(
            read_contract, audited.contract | {"shapes": {"z": [3]}}, read_network(made)
        )
        == "the contract: $.shapes must be that of the model, {}, got {'z': [3]}"
    )


def test_a_contract_on_several_sizes_is_taken_beside_the_shape_of_an_input() -> None:
    made = written("""
        (float[a, b] x) => (y)
        <int64 zero = {0}, int64 one = {1}, double[8] table = {0, 0, 0, 0, 0, 0, 0, 0}>
        { n = Size (x)  all = Range (zero, n, one)  y = Gather (table, all) }
    """)
    contract = og.audit(made).contract
    assert [c["expression"] for c in contract["conditions"]] == ["a*b"]
    (gather,) = og.audit(made, shapes={"x": [2, 3]}, assume=contract).gathers
    assert (gather.range.state, gather.range.sizes_from) == ("proved", "file")
    (gather,) = og.audit(made, shapes={"x": [2, 3]}).gathers
    assert (gather.range.state, gather.range.sizes_from) == ("proved", "given")


NAMED = nodes_of("""
    rows = Relu (z)
    shape = Shape (rows)
    count = Gather (shape, zero)
    counts = Unsqueeze (count, axes)
    sizes = Concat <axis = 0> (counts, rest)
    made = Reshape (x, sizes)
    less = Neg (made)
    shape2 = Shape (less)
    count2 = Gather (shape2, zero)
    all = Range (zero, count2, one)
    y = Gather (z, all)
""")
"""ONNX Runtime makes a Reshape to [0, -1] where `rows` and `x` have a size of one
name."""


@pytest.mark.parametrize("name", ["n", "past + n"])
@pytest.mark.parametrize("shapes", [None, {"x": [6, 6]}])
def test_a_name_of_sizes_that_is_no_identifier_is_one_size_as_others_are(
    name: str, shapes: dict[str, list[int]] | None
) -> None:
    constants = [constant("zero", 0), constant("one", 1)]
    constants += [constant("axes", np.array([0])), constant("rest", np.array([-1]))]
    fed = {"x": np.zeros((6, 6), np.float32), "z": np.zeros((3, 1), np.float32)}
    inputs = [info("x", shape=[name, 6]), info("z", shape=[name, 1])]
    shared = model(NAMED, inputs, ["y"], constants)
    audited = og.audit(shared, shapes=shapes)
    assert audited.gathers[-1].range.state == "proved"
    assert [*audited.contract["sizes"].values()] == [[["x", 0], ["z", 0]]]
    assert is_refused(audited.contract, fed)
    declared = model(NAMED, [inputs[0], info("z", shape=["c", 1])], ["y"], constants)
    declared.graph.value_info.append(info("rows", shape=[name, 1]))
    if not IS_OLD:
        with pytest.raises(Exception, match="out of data bounds, idx=3"):
            results(session(declared, 1), fed)
        # A level above puts a Slice in place of the Gather.
        levels = ("basic",)
        (row,) = og.audit(declared, shapes=shapes, levels=levels).graph_gathers
        assert (row.node, row.state) == ("y", "proved-if")


def test_open_sizes_may_be_0_where_the_contract_says_so() -> None:
    inputs = {"ids": np.zeros((0, 3), np.int64), "mask": np.zeros((0, 3), bool)}
    told = contract(values(-1, 9), assumes=MAY_BE_EMPTY)
    check_inputs(told, inputs)
    assert not is_refused(told, inputs)
    assert is_refused(contract(), inputs)


def test_numbers_that_a_float_rounds_are_compared_exactly() -> None:
    """As FLOAT32, 2^24 + 3 is 2^24 + 4."""
    inputs = GOOD | {"ids": np.array([[2**24 + 4]] * 2, np.float32)}
    assert is_refused(contract(values(0, 2**24 + 3)), inputs)
    assert not is_refused(contract(values(0, 2**24 + 4)), inputs)


def is_refused(told: dict[str, Any], inputs: Any) -> bool:
    """Whether the printed guard refuses inputs.

    `check_inputs` must then refuse them too, in a sentence that has the guard's."""
    printed: dict[str, Any] = {}
    exec(guard(told), printed)
    try:
        printed["check"](inputs)
    except ValueError as error:
        rule = str(error)
        with pytest.raises(og.OnnxGatherError) as caught:
            check_inputs(told, inputs)
        # The sentence quotes a condition, but not another rule.
        quoted = f" must meet {shown(rule)}, got "
        sentence = str(caught.value)
        starts = (f"{rule}, got ", f"{rule} (dimension ")
        assert quoted in sentence or sentence.startswith(starts)
        return True
    check_inputs(told, inputs)
    return False


def test_the_guard_is_a_few_lines_without_an_import() -> None:
    assert (
        guard(WHOLE)
        == f"""\
def check(inputs):  # arrays by name, for the model '{NETWORK.digest}'
    def array(name):
        if name not in inputs:
            raise ValueError(f"the contract needs input {{name!r}}, which is not given")
        x = inputs[name]
        # A scalar of numpy has no ctypes.
        if not hasattr(x, "ctypes") or hasattr(x, "mask"):
            raise ValueError(f"input {{name!r}} must be an array")
        # ONNX Runtime reads the bytes of numbers in the order of the machine.
        return x.view(x.dtype.newbyteorder("=")) if x.dtype.kind in "biuf" else x

    if not hasattr(inputs, "keys"):
        raise ValueError("inputs must be a mapping from names")
    if not (array('ids').ndim == 2):
        raise ValueError("input 'ids' must have the shape [batch, sequence]")
    if not (array('mask').ndim == 2 and array('mask').shape[1] == 3):
        raise ValueError("input 'mask' must have the shape [batch, 3]")
    largest = 2**28  # of an open size, as proofs assume
    x = [array('ids').shape[0], array('mask').shape[0]]
    if not (1 <= min(x) == max(x) <= largest):
        raise ValueError("the size 'batch' must be one number from 1 to 2^28, the largest that proofs assume")
    x = [array('ids').shape[1]]
    if not (1 <= min(x) == max(x) <= largest):
        raise ValueError("the size 'sequence' must be one number from 1 to 2^28, the largest that proofs assume")
    x = array('ids')
    if not (x.dtype.kind in 'biuf'):
        raise ValueError("input 'ids' must hold numbers")
    if not (x.size == 0 or -1 <= x.min().item() <= x.max().item() <= 9):
        raise ValueError("input 'ids' must meet 'each value of ids is from -1 to 9'")
    x = array('mask')
    if not (x.dtype.kind in 'biuf'):
        raise ValueError("input 'mask' must hold numbers")
    if not (x.ndim and x.shape[-1] > 2):
        raise ValueError("input 'mask' must have a column 2 in its last axis")
    x = x[..., [2]]
    if not (x.size == 0 or 0 <= x.min().item() <= x.max().item() <= 1):
        raise ValueError("input 'mask' must meet 'each value of column 2 of the last axis of mask is from 0 to 1'")
    if not (inputs['ids'].shape[1] <= 8):
        raise ValueError("the inputs must meet 'size 1 of ids (sequence) is at most 8'")
    if not (0 <= 3*inputs['ids'].shape[0]*inputs['ids'].shape[1] - inputs['ids'].shape[1] <= 40):
        raise ValueError("the inputs must meet '3*batch*sequence - sequence is from 0 to 40'")
    return inputs
"""  # noqa: E501
    )
    assert not is_refused(WHOLE, GOOD)


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"ids": GOOD["ids"]}, "the contract needs input 'mask', which is not given"),
        (GOOD | {"ids": [[1]]}, "input 'ids' must be an array"),
        (GOOD | {"ids": np.ma.masked_equal([[1]], 1)}, "input 'ids' must be an array"),
        (GOOD | {"ids": np.int64(3)}, "input 'ids' must be an array"),
        (
            GOOD | {"ids": np.zeros(2)},
            "input 'ids' must have the shape [batch, sequence]",
        ),
        (GOOD | {"ids": np.array([["a"], ["b"]])}, "input 'ids' must hold numbers"),
        (
            GOOD | {"mask": np.zeros((2, 2))},
            "input 'mask' must have the shape [batch, 3]",
        ),
        (None, "inputs must be a mapping from names"),
    ],
)
def test_the_guard_says_what_is_wrong_with_an_input(inputs: Any, sentence: str) -> None:
    printed: dict[str, Any] = {}
    exec(guard(WHOLE), printed)
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        printed["check"](inputs)


HOSTILE = ["a", "b'\"", "c\n)]", "{0}\\", "inputs['a']"]
NUMBERS: list[tuple[str, float]] = [
    *((dtype, n) for dtype in ("i8", "u1", "f4", "?", "f2") for n in (0, 1, 2, 100)),
    *(("i8", -1), ("f4", -1), ("f4", np.nan), ("f8", 1e300)),
]


def filled(kind: tuple[str, float], shape: list[int]) -> Any:
    return np.full(shape, kind[1], kind[0])


ARRAYS = st.builds(
    filled,
    st.sampled_from(NUMBERS),
    st.lists(st.integers(0, 3), min_size=1, max_size=2),
)


@st.composite
def cases(draw: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw a contract with inputs, which may meet it."""
    names = draw(
        st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=3, unique=True)
    )
    named = [names[0], draw(st.sampled_from(names))]
    sizes = {"n": [(named[0], 0)], "input#0.1": [(named[1], 0)]}
    conditions = list[Condition]()
    for _ in range(draw(st.integers(0, 3))):
        first, second = sorted([draw(st.integers(-2, 4)), draw(st.integers(-2, 4))])
        low, high = draw(
            st.sampled_from([(first, second), (first, None), (None, second)])
        )
        name = draw(st.sampled_from(names))
        subjects: list[dict[str, Any]] = [
            {"of": "values", "input": name},
            {"of": "values", "input": name, "columns": (0, 2)},
            {"of": "difference", "input": name, "columns": (2, 0)},
            {"of": "size", "input": names[0], "dim": 0},
            {"of": "sizes", "expression": "-2*n*input#0.1 + 3*n + 1"},
        ]
        condition = Condition(**draw(st.sampled_from(subjects)), low=low, high=high)
        if condition.is_of_elements and draw(st.booleans()):
            end = draw(st.sampled_from(["low", "high"]))
            expression = draw(st.sampled_from(["-n", "2*n*input#0.1 - 1", "n + 1"]))
            ends = {end: None, f"{end}_expression": expression}
            condition = msgspec.structs.replace(condition, **ends)
        conditions.append(condition)
    told = Contract(
        digest="sha256:0'\n",
        assumes=draw(st.sampled_from([NOT_EMPTY, MAY_BE_EMPTY])),
        sizes=sizes,
        types={},
        shapes={name: [None] * draw(st.integers(1, 2)) for name in named},
        conditions=tuple(conditions),
    )
    return told.plain, {name: draw(ARRAYS) for name in names if draw(st.integers(0, 9))}


@given(cases())
@example((WHOLE, GOOD))
def test_the_guard_refuses_what_check_inputs_refuses(case: Any) -> None:
    is_refused(*case)


@pytest.mark.parametrize("outcome", one_quick_in(2, [True, False]))
def test_both_outcomes_are_drawn(outcome: bool) -> None:
    case = find(
        cases(),
        lambda case: len(case[0]["conditions"]) > 1 and is_refused(*case) == outcome,
        # Not the smallest case, which would take much longer.
        settings=settings(phases=[Phase.generate], max_examples=5000),
    )
    assert len(case[0]["conditions"]) > 1


def field_table(name: str) -> str:
    """The fields of a class with their docstrings, as a table of a page."""
    file = ROOT / "onnxgather/auditing/proof/contract.py"
    nodes = ast.parse(file.read_text(encoding="utf-8")).body
    classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
    lines = ["| field | meaning |", "| --- | --- |"]
    for one, after in pairwise(classes[name].body):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            assert isinstance(after, ast.Expr), one.target.id
            assert isinstance(after.value, ast.Constant), one.target.id
            lines.append(
                f"| `{one.target.id}` | {' '.join(str(after.value.value).split())} |"
            )
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", ["Contract", "Condition"])
def test_the_page_has_the_fields_in_the_words_of_the_classes(name: str) -> None:
    assert field_table(name) in (ROOT / "docs/proof.md").read_text(encoding="utf-8")


def test_the_page_has_the_fields_that_each_kind_of_condition_needs() -> None:
    page = (ROOT / "docs/proof.md").read_text(encoding="utf-8")
    for of, optional in (
        ("values", ["columns", "also"]),
        ("difference", []),
        ("size", ["expression"]),
        ("sizes", []),
    ):
        *_, told = (
            line for line in page.splitlines() if line.startswith(f"| `{of}` |")
        )
        needs, may = (re.findall(r"`(\w+)`", part) for part in told.split("|")[2:4])
        ends = {"of": of, "high": 3}
        good = {"input": "ids", "columns": [0, 1], "dim": 1, "expression": "sequence"}
        good |= {"also": [-100]}
        for more in (needs, needs + may):
            condition = ends | {name: good[name] for name in more}
            assert str(decoded(WHOLE | {"conditions": [condition]}).conditions[0])
        assert may == optional
        for name in needs:
            condition = ends | {other: good[other] for other in needs if other != name}
            with pytest.raises(og.FileFormatError, match="must have"):
                decoded(WHOLE | {"conditions": [condition]})


def test_checking_inputs_imports_no_onnx() -> None:
    code = "import sys, onnxgather as og; og.check_inputs; print('onnx' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout == "False\n"
    assert og.check_inputs is check_inputs
