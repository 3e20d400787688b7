"""Public calls with arguments of wrong types: each is one sentence, never an error of
Python's."""

from __future__ import annotations

import inspect
import itertools
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from command_line import SIGNED_DESC as DESC
from messages import message_of, rows_of
from mutants import RIGHT
from public_names import CALLED as CALLED_NAMES
from short_descriptors import descriptor

import onnxgather as og

MODEL = og.to_onnx(DESC)
INPUTS = {
    "InputTensor": np.zeros((4, 3), np.float32),
    "IndicesTensor": np.zeros((1, 2), np.int64),
}

GIVEN: dict[str, Any] = {name: values[0] for name, values in RIGHT.items()}
"""An argument that is right, by the name of each parameter."""

LARGE = descriptor(f"GATHER_ELEMENTS: UINT8 {2**31}, UINT32 2, UINT8 2, 0")


class PathOf:
    """An object whose path is not as it must be."""

    def __init__(self, path: Any) -> None:
        self._path = path

    def __fspath__(self) -> Any:
        if isinstance(self._path, Exception):
            raise self._path
        return self._path

    def __repr__(self) -> str:
        return "PathOf"


class Text(str):
    """A text whose own methods raise, whatever is asked of it."""

    __slots__ = ()

    def _raise(self, *_: Any) -> Any:
        raise ValueError("asked")

    __eq__ = __hash__ = __str__ = __repr__ = _raise


def with_no_memory(call: Any, *arguments: Any) -> None:
    """Call something where numpy has no memory for another array."""
    with patch.object(np, "empty", side_effect=MemoryError):
        call(*arguments)


OF_PYTHON = ("TensorDataType", "TensorFlags")
"""Enums, where Python says what a wrong value is."""

WRONG: list[Any] = [
    None,
    5,
    "x",
    [],
    {},
    {5: 5},
    {"InputTensor": 5},
    {"InputTensor": "\ud800"},
]

CALLS = [
    (name, parameter)
    for name in CALLED_NAMES
    if name not in OF_PYTHON
    for parameter in inspect.signature(getattr(og, name)).parameters
]


@pytest.mark.parametrize(("name", "parameter"), CALLS)
def test_a_wrong_argument_is_one_sentence(name: str, parameter: str) -> None:
    call = getattr(og, name)
    needed = {
        each.name: GIVEN[each.name]
        for each in inspect.signature(call).parameters.values()
        if each.default is each.empty
    }
    for wrong in WRONG:
        # a copy, as add_to changes the model
        model = onnx.ModelProto.FromString(MODEL.SerializeToString())
        given = {
            **needed,
            **({"model": model} if "model" in needed else {}),
            parameter: wrong,
        }
        said = ""
        try:
            call(**given)
        except og.OnnxGatherError as error:
            said = str(error)
        assert said.isprintable()


REFUSED = r"""
audit(None)
model must be a file, or an onnx.ModelProto, got None

harden(5)
model must be a file, or an onnx.ModelProto, got 5

to_onnx(DESC, prefix=5)
prefix must be a text in UTF-8, got 5

to_onnx(DESC, names={"InputTensor": 5})
the name of InputTensor must be a text in UTF-8, got 5

harden(MODEL, shapes=1)
shapes must be a mapping from names, got 1

audit(MODEL, shapes=[1])
shapes must be a mapping from names, got [1]

audit(MODEL, shapes={"InputTensor": 5})
shapes['InputTensor'] must be a sequence, got 5

audit(MODEL, inputs=5)
inputs must be a mapping from names, got 5

audit(MODEL, ranges=5)
ranges must be a mapping from names, got 5

audit(MODEL, ranges={"InputTensor": 5})
the model: the range of 'InputTensor' must be a sequence, got 5

audit(MODEL, ranges={"InputTensor": (5, 4)})
the model: the range of 'InputTensor' must be from a low to a high number, got 5:4

audit(MODEL, assume=5)
contract must be a file or a plain dict, got 5

run(DESC, None, None)
InputTensor must be an array of float32 (4, 3), got None

Session(5)
source must be a descriptor, an onnx.ModelProto, its bytes, or the path of its file,
got 5

from_onnx(5, ("FLOAT32", [4]), ("INT64", [2]))
op_type must be one of Gather, GatherElements, GatherND, got 5

add_to(5, DESC, input="a", indices="b", output="c")
model must be an onnx.ModelProto or an onnx.GraphProto, got 5

functions(5)
descs must be a sequence, got 5

functions(itertools.repeat(DESC, 10000))
descs must be fewer than 10,000, got more

functions([5])
desc must be one of GatherDesc, GatherElementsDesc, GatherNDDesc, GatherND1Desc, got 5

from_dict({2: {}})
$ must have strings as keys, got 2

TensorDataType(5)
DataType must be one of FLOAT64, FLOAT32, FLOAT16, INT64, INT32, INT16, INT8, UINT64,
UINT32, UINT16, UINT8, got 5

TensorFlags(5)
Flags must be NONE or OWNED_BY_DML, got 5

TensorFlags("NO")
Flags must be NONE or OWNED_BY_DML, got 'NO'

audit(MODEL, allow_empty=[])
allow_empty must be True or False, got []

harden(MODEL, allow_empty=None)
allow_empty must be True or False, got None

certify(DESC, low_halves=1)
low_halves must be True or False, got 1

audit(MODEL, ranges={"InputTensor": range(10 ** 12)})
the model: the range of 'InputTensor' must be from a low to a high number, got
0:1:2:3:4:5:6:7:8

run(DESC, *INPUTS.values(), target=np.zeros(2))
target must be one of portable, cpu, webgpu, native, got array([0., 0.])

add_to(MODEL, DESC, input="a", indices="b", output="c", target=[])
target must be one of portable, cpu, webgpu, native, got []

check_inputs({"sizes": itertools.count()}, INPUTS)
the contract: $ must be plain: Encoding objects of type itertools.count is unsupported

to_onnx(LARGE, "error", "webgpu")
target "webgpu" must have tensors whose elements INT32 counts, got 2147483648 elements

with_no_memory(Gather(DESC), *INPUTS.values())
memory must hold another OutputTensor, got one of 32 bytes

audit("\u202e.onnx")
\u202e.onnx: no such file or directory

add_provider(5)
session_options must be an onnxruntime.SessionOptions, got int

add_provider(GIVEN["session_options"], "clmap")
out_of_range must be one of clamp, error, zero, directml, got 'clmap'; did you mean
"clamp"?

add_provider(GIVEN["session_options"], report=1)
report must be True or False, got 1

provider_report(1)
reset must be True or False, got 1

program_to_onnx(5)
program must be a program or the path of its file, got 5

program_to_onnx(GIVEN["program"], inputs=5)
inputs must be names of resources, got 5

program_to_onnx(GIVEN["program"], inputs=[["a"]])
inputs must be names of resources, got [['a']]

certify(DESC, timeout=0)
timeout must be a number of seconds above 0, up to 86400, got 0

certify(DESC, timeout=float("nan"))
timeout must be a number of seconds above 0, up to 86400, got nan

check(DESC, *INPUTS.values(), timeout="1")
timeout must be a number of seconds above 0, up to 86400, got '1'

check(DESC, *INPUTS.values(), timeout=True)
timeout must be a number of seconds above 0, up to 86400, got True

load(b"a.json")
source must be a path, a dict or an onnx.ModelProto, got b'a.json'

audit(PathOf(5))
model must be a file, or an onnx.ModelProto, got PathOf

audit(MODEL, assume=PathOf(None))
contract must be a file or a plain dict, got PathOf

Session(PathOf(OSError("no")))
source must be the path of a model, got PathOf

program_to_onnx(PathOf(b"a"))
program must be a program or the path of its file, got PathOf

extract(PathOf(5), INPUTS, "folder")
path must be a path, got PathOf

Session(DESC, provider_options={"a": 5})
provider_options['a'] must be a text in UTF-8, got 5
"""
"""Calls, each with its sentence."""


@pytest.mark.parametrize(("call", "said"), rows_of(REFUSED))
def test_the_sentences_name_the_argument_and_the_rule(call: str, said: str) -> None:
    public = {name: getattr(og, name) for name in og.__all__}
    assert (
        message_of(
            og.OnnxGatherError,
            eval,
            call,
            {**globals(), **public, "itertools": itertools},
        )
        == said
    )


@pytest.mark.parametrize("kind", [np.str_, Text])
def test_a_text_of_a_subclass_counts_as_its_characters(kind: Any) -> None:
    plain = og.to_onnx(DESC, "zero", "cpu", prefix="a/", names={"InputTensor": "b"})
    policy, target, prefix, name = [kind(text) for text in ("zero", "cpu", "a/", "b")]
    names = {"InputTensor": name}
    assert og.to_onnx(DESC, policy, target, prefix=prefix, names=names) == plain
    data, indices = INPUTS.values()
    found = og.run(
        DESC, data, indices, out_of_range=policy, target=target, provider=kind("cpu")
    )
    expected = og.reference(DESC, data, indices, out_of_range=policy)
    assert found.tobytes() == expected.tobytes()
    assert og.TensorDesc(kind("FLOAT32"), [1]) == og.TensorDesc("FLOAT32", [1])
    assert og.harden(MODEL, kind("index=1")) == og.harden(MODEL, "index=1")
    assert type(og.certify(DESC, policy, target).out_of_range) is str


def test_a_generator_is_read_once() -> None:
    def generated(*items: Any) -> Any:
        return (item for item in items)

    (gather,) = og.audit(MODEL, ranges={"IndicesTensor": generated(0, 1)}).gathers
    assert gather.range.state == "proved"
    assert og.TensorDesc("FLOAT32", generated(4, 3)).sizes == (4, 3)
    pack = og.functions(generated(DESC, DESC))
    assert [function.name for function in pack[:2]] == ["GATHER", "GATHER_2"]
    said = message_of(
        og.OnnxGatherError, og.program_to_onnx, GIVEN["program"], inputs=generated("x")
    )
    assert said.endswith("got 'x'")


def test_a_long_name_is_shown_without_its_middle() -> None:
    name = "n" * 10**6
    said = message_of(
        og.OnnxGatherError, og.audit, MODEL, inputs={name: INPUTS["InputTensor"]}
    )
    assert said.startswith("the model: the given inputs hold 'nnn")
    assert len(said) < 400
    long = message_of(og.OnnxGatherError, og.audit, f"{name}.onnx")
    shown = f"{'n' * 150}…{'n' * 144}.onnx"
    assert long == f"{shown}: file name too long"
    words = message_of(og.OnnxGatherError, og.audit, "a " * 10**6)
    assert words == f"{'a ' * 250}…{words[501:]}"
    assert len(words) == 1001
