"""The ids of a tokenizer: the highest of its vocabulary and of the tokens that are
added."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from onnx_graphs import FLOAT, INT64, info, model, node

import onnxgather as og
from onnxgather.auditing.proof.tokenizer import (
    LARGEST_TOKENIZER,
    token_condition,
    token_range,
)
from onnxgather.core.model.network import Network, read_network


def tokenizer(folder: Path, vocab: Any, *added: int, **more: Any) -> str:
    path = folder / "tokenizer.json"
    tokens = [{"id": n, "content": f"[{n}]", "special": True} for n in added]
    told = {"version": "1.0", "model": {"vocab": vocab, **more}, "added_tokens": tokens}
    path.write_text(json.dumps(told), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("vocab", "added", "highest"),
    [
        ({"a": 0, "b": 7, "c": 3}, [], 7),
        ({"a": 0}, [30521, 2], 30521),
        ([["a", -1.5], ["b", 0], ["c", -2]], [], 2),
        ([["a", -1.5]], [5], 5),
        ({}, [0], 0),
    ],
)
def test_the_range_ends_at_the_highest_id(
    tmp_path: Path, vocab: Any, added: list[int], highest: int
) -> None:
    assert token_range(tokenizer(tmp_path, vocab, *added)) == (0, highest)


@pytest.mark.parametrize(
    ("more", "highest"),
    [
        ({"padding": None, "post_processor": None}, 7),
        ({"padding": {"strategy": "BatchLongest", "pad_id": 9, "pad_type_id": 20}}, 9),
        (
            {
                "post_processor": {
                    "type": "BertProcessing",
                    "sep": ["[S]", 11],
                    "cls": ["[C]", 2],
                }
            },
            11,
        ),
        (
            {
                "post_processor": {
                    "type": "RobertaProcessing",
                    "sep": ["s", 1],
                    "cls": ["c", 12],
                }
            },
            12,
        ),
        (
            {
                "post_processor": {
                    "type": "Sequence",
                    "processors": [
                        {"type": "ByteLevel", "trim_offsets": True},
                        {
                            "type": "TemplateProcessing",
                            "single": [{"Sequence": {"id": "A", "type_id": 0}}],
                            "special_tokens": {"[C]": {"id": "[C]", "ids": [13, 1]}},
                        },
                    ],
                }
            },
            13,
        ),
    ],
)
def test_ids_that_are_put_around_a_text_and_behind_it_count(
    tmp_path: Path, more: dict[str, Any], highest: int
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(
        json.dumps({"model": {"vocab": {"a": 7}}, **more}), encoding="utf-8"
    )
    assert token_range(str(path)) == (0, highest)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{}", "$ must have model"),
        (b'{"model": {}}', "$.model must have vocab"),
        (
            b'{"model": {"vocab": 1}}',
            "$.model.vocab must be `object | array`, got `int`",
        ),
        (
            b'{"model": {"vocab": {"a": "0"}}}',
            "$.model.vocab[...] must be `int`, got `str`",
        ),
        (b'{"model": {"vocab": {"a": -1}}}', "$.model.vocab[...] must be `int` >= 0"),
        (b'{"model": {"vocab": {}}}', "$.model.vocab must have a token, got none"),
        (b'{"x":' * 100_000, "$ must not be nested so deeply"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_one_sentence(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(og.OnnxGatherError) as caught:
        token_range(str(path))
    assert str(caught.value) == f"{path}: {sentence}"


def test_a_file_above_64_mib_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with path.open("wb") as file:
        file.truncate(LARGEST_TOKENIZER + 1)
    with pytest.raises(og.FileFormatError) as caught:
        token_range(str(path))
    assert str(caught.value) == f"{path}: must have at most 67,108,864 bytes, got more"


def network(*inputs: tuple[str, int]) -> Network:
    values = [info(name, data_type, ["n"]) for name, data_type in inputs]
    return read_network(model([node("Abs", [inputs[0][0]], "y")], values, ["y"]))


def test_the_only_input_of_integers_holds_the_ids(tmp_path: Path) -> None:
    path = tokenizer(tmp_path, {"a": 4})
    one = network(("ids", INT64), ("x", FLOAT))
    assert str(token_condition(path, one)) == "each value of ids is from 0 to 4"
    assert token_condition(f"ids={path}", one) == token_condition(path, one)


def test_of_several_inputs_of_integers_one_must_be_named(tmp_path: Path) -> None:
    path = tokenizer(tmp_path, {"a": 4})
    two = network(("ids", INT64), ("mask", INT64))
    assert (
        str(token_condition(f"mask={path}", two)) == "each value of mask is from 0 to 4"
    )
    for made, names in ((two, "'ids', 'mask'"), (network(("x", FLOAT)), "none")):
        with pytest.raises(og.OnnxGatherError) as caught:
            token_condition("t.json", made)
        assert str(caught.value) == (
            "the model: a tokenizer must come as INPUT=FILE with an input of integers "
            f"({names}), got 't.json'"
        )
