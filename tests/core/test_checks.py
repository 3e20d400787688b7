"""What a message shows of a value; the arguments of descriptors, and sequences of any
kind."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from command_line import DESC
from messages import message_of
from short_descriptors import tensor_desc

import onnxgather as og
from onnxgather.core.checks import printable


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("größe 表 🎲", "größe 表 🎲"),
        ("\x1b[31m\r\n\t\x7f", r"\x1b[31m\r\n\t\x7f"),
        ("\x9b2J", r"\x9b2J"),
        ("\u202egpj.exe\u2066", r"\u202egpj.exe\u2066"),
        ("a\u2028b\xa0\u3000", r"a\u2028b\xa0\u3000"),
        ("caf\udce9", r"caf\udce9"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_characters_that_are_not_plain_to_see_are_escaped(
    text: str, written: str
) -> None:
    assert printable(text) == written


@pytest.mark.parametrize(
    ("kind", "values", "named", "word"),
    [
        (og.TensorDesc, ("FLOAT32", [1]), {"stride": [1]}, 'did you mean "strides"'),
        (og.TensorDesc, ("FLOAT32",), {}, "'sizes'"),
        (og.TensorDesc, ("FLOAT32", [1]), {"sizes": [1]}, "'sizes'"),
        (og.TensorDesc, range(7), {}, "positional"),
        (og.GatherDesc, range(5), {"input": 1}, 'did you mean "input_tensor"'),
        (og.GatherNDDesc, range(4), {}, "'indices_dimension_count'"),
    ],
)
def test_wrong_arguments_of_a_descriptor_are_a_type_error(
    kind: Callable[..., object], values: Any, named: dict[str, Any], word: str
) -> None:
    with pytest.raises(TypeError, match=word):
        kind(*values, **named)


class Liar(list[int]):
    """A sequence that is wrong about its length."""

    def __len__(self) -> int:
        return 10**18


@pytest.mark.parametrize(
    "sizes", [Liar([4, 3]), iter([4, 3]), np.array([4, 3]), range(4, 2, -1)]
)
def test_sizes_may_be_any_sequence(sizes: Any) -> None:
    assert og.TensorDesc("INT8", sizes) == tensor_desc("INT8 4x3")


@pytest.mark.parametrize(
    "sizes", [itertools.count(1), itertools.repeat(1), range(1, 10**12)]
)
def test_a_sequence_without_an_end_is_not_read_on(sizes: Any) -> None:
    assert message_of(og.DescriptorError, og.TensorDesc, "INT8", sizes) == (
        "DimensionCount must be 1 to 8, got 10000"
    )


@pytest.mark.parametrize(
    "size", [1.0, "1", Fraction(1), np.bool_(True), None, [1], 10**30, -1]
)
def test_a_size_must_be_an_integer_whatever_equals_it(size: Any) -> None:
    assert message_of(og.DescriptorError, og.TensorDesc, "INT8", [size]) == (
        f"Sizes[0] must be an integer from 0 to 4294967295, got {size!r}"
    )


DICTS: list[Callable[[Any], Any]] = [dict, OrderedDict, partial(defaultdict, list)]


def test_a_value_is_shown_on_one_line() -> None:
    flat: Any = np.zeros((2, 2))
    assert message_of(og.DescriptorError, og.TensorDesc, "INT8", flat) == (
        "Sizes[0] must be an integer from 0 to 4294967295, got array([0., 0.])"
    )
    deep: Any = np.zeros((1, 2, 2))
    assert message_of(og.DescriptorError, og.TensorDesc, "INT8", deep) == (
        "Sizes[0] must be an integer from 0 to 4294967295, "
        r"got array([[0., 0.],\n       [0., 0.]])"
    )


@pytest.mark.parametrize("kind", DICTS)
def test_a_descriptor_is_read_from_a_dict_of_any_class(
    kind: Callable[[Any], Any],
) -> None:
    raw = og.to_dict(DESC)
    desc = {
        name: kind(v) if isinstance(v, dict) else v for name, v in raw["desc"].items()
    }
    assert og.from_dict(kind(raw | {"desc": kind(desc)})) == DESC


GATHER = {"type": "DML_OPERATOR_GATHER"}


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (UserDict(og.to_dict(DESC)), "$ must be an object, got a Python UserDict"),
        (None, "$ must be an object, got null"),
        ([], "$ must be an object, got an array"),
        (3, "$ must be an object, got 3"),
        (b"{}", "$ must be an object, got a Python bytes"),
        ({}, "$.type is required"),
        ({2: {}}, "$ must have strings as keys, got 2"),
        ({10**5000: {}}, "$ must have strings as keys, got a larger integer"),
        ({b"type": "GATHER"}, "$ must have strings as keys, got a Python bytes"),
        (GATHER | {"desc": {None: 1}}, "$.desc must have strings as keys, got null"),
        (
            GATHER | {"desc": {"InputTensor": {(1,): 2}}},
            "$.desc.InputTensor must have strings as keys, got an array",
        ),
        (GATHER | {"desc": None}, "$.desc must be an object, got null"),
        (
            GATHER | {"desc": {"InputTensor": 4}},
            "$.desc.InputTensor must be an object, got 4",
        ),
    ],
)
def test_from_dict_says_what_a_document_must_be(value: object, sentence: str) -> None:
    assert message_of(og.FileFormatError, og.from_dict, value) == sentence


def test_the_text_of_a_descriptor_is_the_call_that_makes_it() -> None:
    assert repr(DESC.input_tensor) == "TensorDesc('FLOAT32', (4, 3))"
    tensor = og.TensorDesc("FLOAT16", [2, 3], [4, 1], 32, "OWNED_BY_DML", 256)
    assert repr(tensor) == (
        "TensorDesc('FLOAT16', (2, 3), strides=(4, 1), total_tensor_size_in_bytes=32, "
        "flags='OWNED_BY_DML', guaranteed_base_offset_alignment=256)"
    )
    assert eval(repr(tensor), {"TensorDesc": og.TensorDesc}) == tensor
    assert repr(DESC) == (
        "GatherDesc(TensorDesc('FLOAT32', (4, 3)), TensorDesc('UINT32', (1, 2)), "
        "TensorDesc('FLOAT32', (4, 2)), axis=1, index_dimensions=1)"
    )


COPIES: list[Callable[[Any], Any]] = [
    *(copy.copy, copy.deepcopy, msgspec.structs.replace),
    lambda desc: pickle.loads(pickle.dumps(desc)),
]


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("desc", [DESC, DESC.input_tensor])
def test_a_copy_is_equal(desc: Any, copied: Callable[[Any], Any]) -> None:
    other = copied(desc)
    assert (other, hash(other), repr(other)) == (desc, hash(desc), repr(desc))


class Forged:
    """What unpickles as a tensor without a size."""

    def __reduce__(self) -> Any:
        return og.TensorDesc, ("FLOAT32", (0,))


@pytest.mark.parametrize(
    "make",
    [
        lambda: pickle.loads(pickle.dumps(Forged())),
        lambda: msgspec.structs.replace(DESC.input_tensor, sizes=(0,)),
        lambda: msgspec.convert({"DataType": "FLOAT32", "Sizes": [0]}, og.TensorDesc),
    ],
)
def test_no_way_to_make_a_descriptor_passes_the_rules(
    make: Callable[[], object],
) -> None:
    assert message_of(og.DescriptorError, make) == (
        "Sizes[0] must be at least 1, got 0"
    )
