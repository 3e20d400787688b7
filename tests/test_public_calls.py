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
