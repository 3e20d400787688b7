"""What models declare of their inputs in their metadata: read, and written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_graphs import constant, written

import onnxgather as og
from onnxgather.auditing.declared import (
    SIZE_RANGES,
    TORCH_SIGNATURE,
    VALUE_RANGES,
    annotated,
)
from onnxgather.auditing.proof.contract import decoded
from onnxgather.auditing.proof.index_range import GivenEnd
from onnxgather.core.model.network import read_network
from onnxgather.core.model.own import is_as_written

WORDS = "(int64[batch, length] words) => (y)"

GATHERS = """
{ one = Constant <value_int: int = 1> ()
  zero = Constant <value_int: int = 0> ()
  sizes = Shape (words)
  length = Gather (sizes, one)
  numbers = Range (zero, length, one)
  place = Gather (places, numbers)
  word = Gather (table, words)
  y = Add (place, word) }"""

SIGNATURE = """
# inputs
p_words_weight: PARAMETER target='words.weight'
p_positions_weight: PARAMETER target='positions.weight'
words: USER_INPUT

# outputs
add_9: USER_OUTPUT
"""
"""What torch 2.13.0 wrote of an embedding of words and of their positions."""

NAMED = "{s46: VR[2, 64], s4: VR[1, 16]}"
"""The ranges of that model, where Dim("batch", min=2, max=64) and Dim("length", min=1,
max=16) name its dimensions. The names are those of the file, and no symbol is."""

NOT_NAMED = "{s46: VR[2, 64], s4: VR[3, 9]}"
"""The same with Dim.DYNAMIC(min=2, max=64) and Dim.DYNAMIC(min=3, max=9)."""

BY_TORCH = f"by the model's metadata {SIZE_RANGES}: "
BY_WINML = f"by the model's metadata {VALUE_RANGES}: "
LEFT_OUT = "are left out: "


def model(
    metadata: dict[str, str] | None = None,
    graph_metadata: dict[str, str] | None = None,
    inputs: str = WORDS,
    nodes: str = GATHERS,
) -> onnx.ModelProto:
    """Return a model of 16 positions and 32 words, with metadata."""
    tables = [
        constant("places", np.zeros((16, 2), np.float32)),
        constant("table", np.zeros((32, 2), np.float32)),
    ]
    made = written(inputs + nodes, *tables)
    for key, value in (metadata or {}).items():
        made.metadata_props.add(key=key, value=value)
    for key, value in (graph_metadata or {}).items():
        made.graph.metadata_props.add(key=key, value=value)
    return made


def with_values(*entries: Any, **more: Any) -> onnx.ModelProto:
    return model({VALUE_RANGES: json.dumps(entries)}, **more)


def with_sizes(text: str, signature: str = SIGNATURE, **more: Any) -> onnx.ModelProto:
    return model(None, {SIZE_RANGES: text, TORCH_SIGNATURE: signature}, **more)


def words_of(low: Any, high: Any) -> dict[str, Any]:
    return {"name": "words", "dtype": "int64", "value_range": [low, high]}


def audit(made: onnx.ModelProto, **more: Any) -> og.Audit:
    return og.audit(made, levels=[], **more)


def states_of(made: onnx.ModelProto, **more: Any) -> dict[str, str]:
    return {each.output_name: each.range.state for each in audit(made, **more).gathers}


# Ranges of values.


@pytest.mark.parametrize(
    ("ends", "sentence", "state"),
    [
        ((0, 32), "each value of words is from 0 to 31", "proved"),
        ((-32, 1), "each value of words is from -32 to 0", "proved"),
        ((0.0, 31.5), "each value of words is from 0 to 31", "proved"),
        ((5, 6), "each value of words is 5", "proved"),
        ((0, 33), "each value of words is from 0 to 32", "out-of-range"),
        ((-33, 32), "each value of words is from -33 to 31", "out-of-range"),
        ((0, 2**63), "each value of words is at least 0", "out-of-range"),
    ],
)
def test_the_end_of_a_declared_range_is_no_value(
    ends: tuple[float, float], sentence: str, state: str
) -> None:
    result = audit(with_values(words_of(*ends)))
    assert result.given == [BY_WINML + sentence]
    assert result.notes == []
    assert {each.output_name: each.range.state for each in result.gathers}[
        "word"
    ] == state


def test_a_declared_range_that_leaves_the_axis_is_a_finding() -> None:
    result = audit(with_values(words_of(0, 40)))
    (found,) = result.out_of_range
    assert found.range.given == GivenEnd("metadata", "words", 39, 39, 0)
    assert result.verdict == "can-leave"


def test_each_value_of_a_type_says_nothing() -> None:
    assert audit(with_values(words_of(-(2**63), 2**63))).given == []


FLOAT = "(float[n] x) => (y)"
CAST = "{ ids = Cast <to = 7> (x)  y = Gather (table, ids) }"


@pytest.mark.parametrize(
    ("ends", "sentence", "state"),
    [
        # 31.5 is in the range, and becomes 31; the condition contains 32 itself.
        ((0.5, 31.5), "each value of x is from 0 to 32", "proved-if"),
        ((0.0, 31.0), "each value of x is from 0 to 31", "proved"),
        ((0.0, 40.0), "each value of x is from 0 to 40", "out-of-range"),
        ((0.2, 0.8), "each value of x is from 0 to 1", "proved"),
    ],
)
def test_a_declared_range_of_floats_is_in_the_condition(
    ends: tuple[float, float], sentence: str, state: str
) -> None:
    entry = {"name": "x", "value_range": ends}
    result = audit(with_values(entry, inputs=FLOAT, nodes=CAST))
    assert result.given == [BY_WINML + sentence]
    assert [each.range.state for each in result.gathers] == [state]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "$ must be whole JSON, got an empty or cut file"),
        ("[", "$ must be whole JSON, got an empty or cut file"),
        ("{}", "$ must be `array`, got `object`"),
        ("[1]", "$[0] must be `object`, got `int`"),
        ('[{"name": 7}]', "$[0].name must be `str | null`, got `int`"),
        (
            '[{"name": "words", "value_range": [0]}]',
            "$[0].value_range must be `array` of length 2",
        ),
        (
            '[{"name": "words", "value_range": [0, "9"]}]',
            "$[0].value_range[1] must be `int | float`, got `str`",
        ),
        (
            '[{"name": "words", "value_range": [9, 9]}]',
            "$[0].value_range must have a number of INT64, got [9, 9]",
        ),
        (
            '[{"name": "words", "value_range": [0.1, 0.9]}]',
            "$[0].value_range must have a number of INT64, got [0.1, 0.9]",
        ),
        (
            '[{"name": "words", "value_range": [1e20, 1e21]}]',
            "$[0].value_range must have a number of INT64, got [1e+20, 1e+21]",
        ),
        (
            '[{"name": "words", "value_range": [-2e20, -1e20]}]',
            "$[0].value_range must have a number of INT64, got [-2e+20, -1e+20]",
        ),
        (
            '[{"name": "word", "value_range": [0, 9]}]',
            "$[0].name must be an input of numbers, got 'word'",
        ),
    ],
)
def test_ranges_of_values_that_are_none_are_left_out_with_a_note(
    text: str, why: str
) -> None:
    result = audit(model({VALUE_RANGES: text}))
    assert result.notes == [f"the metadata {VALUE_RANGES} {LEFT_OUT}{why}"]
    assert result.given == []


@pytest.mark.parametrize(
    "text",
    [
        '[{"name": "words", "value_range": [0, NaN]}]',
        '[{"name": "words", "value_range": [0, 1e999]}]',
        "[" * 100_000,
    ],
)
def test_numbers_and_depths_that_json_does_not_have_are_left_out(text: str) -> None:
    result = audit(model({VALUE_RANGES: text}))
    (note,) = result.notes
    assert note.startswith(f"the metadata {VALUE_RANGES} {LEFT_OUT}$")
    assert result.given == []


def test_entries_without_a_range_say_nothing() -> None:
    plain = {"name": "words", "dtype": "int64", "shape": [1, 128]}
    result = audit(with_values(plain, {"value_range": [0, 5]}, {}))
    assert (result.given, result.notes) == ([], [])


def test_the_first_entry_of_an_input_counts() -> None:
    result = audit(with_values(words_of(0, 9), words_of(20, 40)))
    assert result.given == [f"{BY_WINML}each value of words is from 0 to 8"]


# Ranges of sizes.


@pytest.mark.parametrize(
    ("text", "inputs", "given"),
    [
        (
            NAMED,
            WORDS,
            [
                "0 of words (batch) is from 2 to 64",
                "1 of words (length) is from 1 to 16",
            ],
        ),
        (
            NOT_NAMED,
            WORDS.replace("batch", "s46").replace("length", "s4"),
            ["0 of words (s46) is from 2 to 64", "1 of words (s4) is from 3 to 9"],
        ),
        # A symbol of no input comes first, and a dimension without limits has a place.
        (
            "{u0: VR[0, 7], s46: VR[0, int_oo], s4: VR[0, 16]}",
            WORDS,
            ["1 of words (length) is at most 16"],
        ),
        (
            "{s46: VR[2, 9223372036854775806], s4: VR[-int_oo, 16]}",
            WORDS,
            ["0 of words (batch) is at least 2", "1 of words (length) is at most 16"],
        ),
        ("{length: VR[0, 16]}", WORDS, ["1 of words (length) is at most 16"]),
        ("{}", WORDS, []),
        ("{s46: VR[0, int_oo], s44: VR[0, int_oo], s4: VR[0, int_oo]}", WORDS, []),
        ("{s46: VR[0, int_oo], s4: VR[0, int_oo]}", WORDS, []),
    ],
)
def test_torch_declares_ranges_of_sizes(
    text: str, inputs: str, given: list[str]
) -> None:
    result = audit(with_sizes(text, inputs=inputs))
    assert result.given == [f"{BY_TORCH}size {sentence}" for sentence in given]
    assert result.notes == []


def test_a_declared_range_of_a_size_proves() -> None:
    assert states_of(model())["place"] == "proved-if"
    assert states_of(with_sizes(NAMED))["place"] == "proved"
    wide = NAMED.replace("16", "17")
    assert states_of(with_sizes(wide))["place"] == "proved-if"


OTHER_SYMBOLS = "their symbols must be the open sizes of the inputs ('batch', 'length')"


@pytest.mark.parametrize(
    ("text", "signature", "why"),
    [
        ("", SIGNATURE, "they must be ranges such as {batch: VR[1, 64]}, got ''"),
        (
            "{s46}",
            SIGNATURE,
            "they must be ranges such as {batch: VR[1, 64]}, got '{s46}'",
        ),
        (
            "{s46: VR[2, x]}",
            SIGNATURE,
            "they must be ranges such as {batch: VR[1, 64]}, got '{s46: VR[2, x]}'",
        ),
        # One symbol is part of the expression of a dimension.
        (
            "{s46: VR[2, 64], 2*s44: VR[2, 16], s44: VR[2, 8]}",
            SIGNATURE,
            f"{OTHER_SYMBOLS}, got 's46', '2*s44', 's44'",
        ),
        # The order of the inputs is not that of torch.
        (
            NAMED,
            "mask: USER_INPUT\nwords: USER_INPUT\n",
            f"{OTHER_SYMBOLS}, got 's46', 's4'",
        ),
        (NAMED, "", f"{OTHER_SYMBOLS}, got 's46', 's4'"),
        (
            "{length: VR[9, 8]}",
            "",
            "length must have a size of 1 or more, got VR[9, 8]",
        ),
        (
            "{length: VR[0, 0]}",
            "",
            "length must have a size of 1 or more, got VR[0, 0]",
        ),
    ],
)
def test_ranges_of_sizes_that_are_none_are_left_out_with_a_note(
    text: str, signature: str, why: str
) -> None:
    result = audit(with_sizes(text, signature))
    assert result.notes == [f"the metadata {SIZE_RANGES} {LEFT_OUT}{why}"]
    assert result.given == []


def test_symbols_of_a_model_without_open_sizes_say_nothing() -> None:
    result = audit(with_sizes(NAMED, inputs="(int64[2, 4] words) => (y)"))
    assert (result.given, result.notes) == ([], [])


# What is given counts in place of what is declared.


def test_what_is_given_counts_in_place_of_what_is_declared() -> None:
    declared = with_values(words_of(0, 40))
    assert audit(declared, ranges={"words": (0, 31)}).given == [
        "each value of words is from 0 to 31"
    ]
    # A wider range counts, too.
    wide = audit(with_values(words_of(0, 9)), ranges={"words": (0, 50)})
    assert wide.given == ["each value of words is from 0 to 50"]
    assert len(wide.out_of_range) == 1
    contract = audit(model(), ranges={"words": (0, 20)}).contract
    declared = with_values(words_of(0, 40))
    contract["digest"] = audit(declared).contract["digest"]
    assert audit(declared, assume=contract).out_of_range == []


def test_a_size_that_is_given_counts_in_place_of_one_that_is_declared() -> None:
    declared = with_sizes(NAMED)
    length = f"{BY_TORCH}size 1 of words (length) is from 1 to 16"
    sizes = audit(declared, sizes={"batch": (1, 80)})
    assert sizes.given == ["size 0 of words (batch) is from 1 to 80", length]
    # The shape gives both sizes, one of which is not in its declared range.
    shape = audit(declared, shapes={"words": (1, 5)})
    assert shape.notes == []
    assert not any("metadata" in text for text in shape.given)
    inputs = {"words": np.zeros((1, 5), np.int64)}
    assert not any("metadata" in text for text in audit(declared, inputs=inputs).given)


def test_harden_does_not_trust_what_is_declared() -> None:
    declared = with_values(words_of(0, 32))
    assert states_of(declared)["word"] == "proved"
    hardened = og.harden(declared, levels=[])
    plain = og.harden(model(), levels=[])
    assert len(hardened.graph.node) == len(plain.graph.node) > len(model().graph.node)


# Sizes that are given.


@pytest.mark.parametrize(
    ("ends", "state"),
    [((1, 16), "proved"), ((0, 16), "proved"), ((1, 17), "proved-if")],
)
def test_a_given_range_of_a_size_is_a_condition(
    ends: tuple[int, int], state: str
) -> None:
    result = audit(model(), sizes={"length": ends})
    (place,) = [each for each in result.gathers if each.output_name == "place"]
    assert place.range.state == state
    low, high = ends
    sentence = f"size 1 of words (length) is from {low} to {high}"
    assert result.given == [sentence]
    condition = result.contract["conditions"][0]
    assert (condition["of"], condition["low"]) == ("size", low)
    if state == "proved":
        assert condition["high"] == high


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (
            {"lenght": (1, 16)},
            "a size must be an open size of the inputs ('batch', 'length'), got"
            " 'lenght'; did you mean \"length\"?",
        ),
        (
            {"words": (1, 16)},
            "a size must be an open size of the inputs ('batch', 'length'), got"
            " 'words'",
        ),
        (
            {"length": (16, 1)},
            "the size of 'length' must be from a low to a high number, got 16:1",
        ),
        (
            {"length": (1, 2, 3)},
            "the size of 'length' must be from a low to a high number, got 1:2:3",
        ),
        (
            {"length": (-1, 16)},
            "the size of 'length' must be from a number of 0 or more to one of 1"
            " to 268,435,456, got -1:16",
        ),
        (
            {"length": (0, 0)},
            "the size of 'length' must be from a number of 0 or more to one of 1"
            " to 268,435,456, got 0:0",
        ),
        (
            {"length": (1, 2**28 + 1)},
            "the size of 'length' must be from a number of 0 or more to one of 1"
            " to 268,435,456, got 1:268435457",
        ),
    ],
)
def test_sizes_that_are_no_range_are_an_error(
    sizes: dict[str, Any], message: str
) -> None:
    with pytest.raises(og.OnnxGatherError) as caught:
        og.audit(model(), sizes=sizes)
    assert str(caught.value) == f"the model: {message}"
    with pytest.raises(og.OnnxGatherError) as caught:
        og.harden(model(), sizes=sizes)
    assert str(caught.value) == f"the model: {message}"


def test_a_model_without_open_sizes_has_no_range_of_a_size() -> None:
    static = model(inputs="(int64[2, 4] words) => (y)")
    with pytest.raises(og.OnnxGatherError) as caught:
        og.audit(static, sizes={"length": (1, 16)})
    rule = "a size must be an open size of the inputs (none), got 'length'"
    assert str(caught.value) == f"the model: {rule}"


# What is written.


def read_back(made: onnx.ModelProto, **more: Any) -> tuple[onnx.ModelProto, list[str]]:
    """Return a model that declares its contract, and what has no form."""
    contract = decoded(audit(made, **more).contract)
    content, without_form = annotated(read_network(made), contract)
    return onnx.ModelProto.FromString(content), [*map(str, without_form)]


def conditions_of(made: onnx.ModelProto, **more: Any) -> list[dict[str, Any]]:
    """Return the conditions of a contract, whether their ends are exact or not."""
    conditions = audit(made, **more).contract["conditions"]
    return sorted(
        (condition | {"exact": False} for condition in conditions),
        key=lambda condition: json.dumps(condition),
    )


FLOATS_AND_SMALL = "(float[n] x, int32[n] near, uint8[n] small) => (y)"
THREE = """
{ of_x = Cast <to = 7> (x)  a = Gather (table, of_x)  b = Gather (table, near)
  ids = Cast <to = 7> (small)  c = Gather (table, ids)
  d = Add (a, b)  y = Add (d, c) }"""


@pytest.mark.parametrize(
    ("made", "given"),
    [
        (model(), {}),
        (model(), {"ranges": {"words": (-1, 5)}, "sizes": {"batch": (2, 9)}}),
        (model(), {"ranges": {"words": (7, 7)}, "sizes": {"batch": (3, 3)}}),
        (model(), {"ranges": {"words": (0, 2**63 - 1)}}),
        (model(inputs=FLOATS_AND_SMALL, nodes=THREE), {}),
        (model(inputs="(int64[?, ?] words) => (y)"), {}),
        (model(inputs="(int64[batch_size, n] words) => (y)"), {}),
        (with_values(words_of(0, 40)), {}),
        (with_sizes(NAMED), {"sizes": {"length": (2, 4)}}),
    ],
)
def test_what_is_written_is_read_as_the_same_conditions(
    made: onnx.ModelProto, given: dict[str, Any]
) -> None:
    before = conditions_of(made, **given)
    annotated_model, without_form = read_back(made, **given)
    assert without_form == []
    graph = made.graph.SerializeToString(deterministic=True)
    assert annotated_model.graph.SerializeToString(deterministic=True) == graph
    assert conditions_of(annotated_model) == before
    result = audit(annotated_model)
    assert result.notes == []
    # An index of any INT64 stays out of range.
    if given.get("ranges") != {"words": (0, 2**63 - 1)}:
        assert [each.range.state for each in result.open] == []
    again, _ = read_back(annotated_model)
    assert again == annotated_model


def test_a_written_range_has_the_form_of_its_tool() -> None:
    made, _ = read_back(model())
    values = {each.key: each.value for each in made.metadata_props}
    assert json.loads(values[VALUE_RANGES]) == [
        {
            "name": "words",
            "dtype": "int64",
            "shape": ["batch", "length"],
            "value_range": [-32, 32],
        }
    ]
    assert values[SIZE_RANGES] == "{length: VR[0, 16]}"


def test_what_is_there_already_stays() -> None:
    other = {"name": "other", "note": "of another tool"}
    words = {"name": "words", "dtype": "int64", "value_range": [0, 40], "note": "a"}
    metadata = {
        "author": "somebody",
        VALUE_RANGES: json.dumps([other, words]),
        SIZE_RANGES: "{batch: VR[2, 64], u0: VR[0, 3]}",
    }
    made, without_form = read_back(model(metadata))
    assert without_form == []
    values = {each.key: each.value for each in made.metadata_props}
    assert [*values] == [*metadata]
    assert values["author"] == "somebody"
    assert json.loads(values[VALUE_RANGES]) == [other, words | {"value_range": [0, 32]}]
    assert values[SIZE_RANGES] == (
        "{batch: VR[2, 64], u0: VR[0, 3], length: VR[0, 16]}"
    )


def test_conditions_without_a_form_are_told() -> None:
    columns = "(int64[n, 2] words) => (y)"
    nodes = "{ y = GatherND (table, words) }"
    made = model(inputs=columns, nodes=nodes)
    _, without_form = read_back(made)
    assert without_form == [
        "each value of column 0 of the last axis of words is from -32 to 31",
        "each value of column 1 of the last axis of words is from -2 to 1",
    ]
    # A range of floats has a least number, and one that is more.
    made = model(inputs=FLOAT, nodes=CAST)
    for ends, count in (((5, 5), 1), ((0, 2**63), 0), ((0, 31), 0)):
        _, without_form = read_back(made, ranges={"x": ends})
        assert len(without_form) == count
    # Nobody writes to metadata that are not understood.
    made = model({VALUE_RANGES: "{}", SIZE_RANGES: "?"})
    annotated_model, without_form = read_back(made)
    assert sorted(without_form) == [
        "each value of words is from -32 to 31",
        "size 1 of words (length) is at most 16",
    ]
    assert annotated_model == made


def test_a_model_of_onnxgather_stays_one(tmp_path: Path) -> None:
    hardened = og.harden(model(), levels=[])
    made, _ = read_back(hardened, ranges={"words": (0, 31)})
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString(deterministic=True))
    with path.open("rb") as stream:
        assert is_as_written(stream)
    assert len(made.metadata_props) == 2


def test_a_hardened_model_declares_what_is_given() -> None:
    given: dict[str, Any] = {"ranges": {"words": (0, 31)}, "sizes": {"length": (1, 16)}}
    made = og.harden(model(), levels=[], **given)
    assert audit(made).given == [
        f"{BY_WINML}each value of words is from 0 to 31",
        f"{BY_TORCH}size 1 of words (length) is from 1 to 16",
    ]
    assert audit(made).open == []
    # Nothing is given, and no condition that the audit found is declared.
    assert audit(og.harden(model(), levels=[])).given == []
