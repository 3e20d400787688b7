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
from folders import MODELS
from public_names import CALLED as CALLED_NAMES
from short_descriptors import descriptor

import onnxgather as og

CALLED: Any = og
"""The package, for calls that its types forbid."""

MODEL = og.to_onnx(DESC)
INPUTS = {
    "InputTensor": np.zeros((4, 3), np.float32),
    "IndicesTensor": np.zeros((1, 2), np.int64),
}

GIVEN: dict[str, Any] = {
    "at": (0, 0),
    "axis": 1,
    "batch_dimension_count": 0,
    "contract": og.audit(MODEL).contract,
    "data": INPUTS["InputTensor"],
    "data_type": "FLOAT32",
    "desc": DESC,
    "descs": [DESC],
    "indices": INPUTS["IndicesTensor"],
    "folder": "out",
    "index_dimensions": 1,
    "indices_dimension_count": 2,
    "indices_tensor": DESC.indices_tensor,
    "input": "InputTensor",
    "input_dimension_count": 2,
    "input_tensor": DESC.input_tensor,
    "inputs": INPUTS,
    "model": MODEL,
    "op_type": "Gather",
    "output": "rows",
    "output_tensor": DESC.output_tensor,
    "path": "none.onnx",
    "program": str(MODELS / "bilinear_corners.json"),
    "sizes": [4, 3],
    "source": DESC,
    "value": og.to_dict(DESC),
}
"""An argument that is right, by the name of each parameter without a default."""

DESCRIPTORS = [each.__name__ for each in og.OPERATORS.values()]
MANY = "descs must be fewer than 10,000, got more"

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


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: CALLED.audit(None),
            "model must be a file, or an onnx.ModelProto, got None",
        ),
        (
            lambda: CALLED.harden(5),
            "model must be a file, or an onnx.ModelProto, got 5",
        ),
        (
            lambda: CALLED.to_onnx(DESC, prefix=5),
            "prefix must be a text in UTF-8, got 5",
        ),
        (
            lambda: CALLED.to_onnx(DESC, names={"InputTensor": 5}),
            "the name of InputTensor must be a text in UTF-8, got 5",
        ),
        (
            lambda: CALLED.harden(MODEL, shapes=1),
            "shapes must be a mapping from names, got 1",
        ),
        (
            lambda: CALLED.audit(MODEL, shapes=[1]),
            "shapes must be a mapping from names, got [1]",
        ),
        (
            lambda: CALLED.audit(MODEL, shapes={"InputTensor": 5}),
            "shapes['InputTensor'] must be a sequence, got 5",
        ),
        (
            lambda: CALLED.audit(MODEL, inputs=5),
            "inputs must be a mapping from names, got 5",
        ),
        (
            lambda: CALLED.audit(MODEL, ranges=5),
            "ranges must be a mapping from names, got 5",
        ),
        (
            lambda: CALLED.audit(MODEL, ranges={"InputTensor": 5}),
            "the model: the range of 'InputTensor' must be a sequence, got 5",
        ),
        (
            lambda: CALLED.audit(MODEL, ranges={"InputTensor": (5, 4)}),
            (
                "the model: the range of 'InputTensor' must be from a low to a high"
                " number, got 5:4"
            ),
        ),
        (
            lambda: CALLED.audit(MODEL, assume=5),
            "contract must be a file or a plain dict, got 5",
        ),
        (
            lambda: CALLED.run(DESC, None, None),
            "InputTensor must be an array of float32 (4, 3), got None",
        ),
        (
            lambda: CALLED.Session(5),
            (
                "source must be a descriptor, an onnx.ModelProto, its bytes, or the"
                " path of its file, got 5"
            ),
        ),
        (
            lambda: CALLED.from_onnx(5, ("FLOAT32", [4]), ("INT64", [2])),
            "op_type must be one of Gather, GatherElements, GatherND, got 5",
        ),
        (
            lambda: CALLED.add_to(5, DESC, input="a", indices="b", output="c"),
            "model must be an onnx.ModelProto or an onnx.GraphProto, got 5",
        ),
        (lambda: CALLED.functions(5), "descs must be a sequence, got 5"),
        (lambda: CALLED.functions(itertools.repeat(DESC, 10_000)), MANY),
        (
            lambda: CALLED.functions([5]),
            f"desc must be one of {', '.join(DESCRIPTORS)}, got 5",
        ),
        (
            lambda: CALLED.from_dict({2: {}}),
            "$ must have strings as keys, got 2",
        ),
        (
            lambda: CALLED.TensorDataType(5),
            f"DataType must be one of {', '.join(og.TensorDataType)}, got 5",
        ),
        (lambda: CALLED.TensorFlags(5), "Flags must be a sequence, got 5"),
        (
            lambda: CALLED.TensorFlags("NO"),
            "Flags must be NONE or OWNED_BY_DML, got 'NO'",
        ),
        (
            lambda: CALLED.audit(MODEL, allow_empty=[]),
            "allow_empty must be True or False, got []",
        ),
        (
            lambda: CALLED.harden(MODEL, allow_empty=None),
            "allow_empty must be True or False, got None",
        ),
        (
            lambda: CALLED.certify(DESC, low_halves=1),
            "low_halves must be True or False, got 1",
        ),
        (
            lambda: CALLED.audit(MODEL, ranges={"InputTensor": range(10**12)}),
            (
                "the model: the range of 'InputTensor' must be from a low to a high"
                " number, got 0:1:2:3:4:5:6:7:8"
            ),
        ),
        (
            lambda: CALLED.run(DESC, *INPUTS.values(), target=np.zeros(2)),
            "target must be one of portable, cpu, webgpu, native, got array([0., 0.])",
        ),
        (
            lambda: CALLED.add_to(
                MODEL, DESC, input="a", indices="b", output="c", target=[]
            ),
            "target must be one of portable, cpu, webgpu, native, got []",
        ),
        (
            lambda: CALLED.check_inputs({"sizes": itertools.count()}, INPUTS),
            (
                "the contract: $ must be plain: Encoding objects of type"
                " itertools.count is unsupported"
            ),
        ),
        (
            lambda: CALLED.to_onnx(LARGE, "error", "webgpu"),
            (
                'target "webgpu" must have tensors whose elements INT32 counts, '
                "got 2147483648 elements"
            ),
        ),
        (
            lambda: with_no_memory(og.Gather(DESC), *INPUTS.values()),
            "memory must hold another OutputTensor, got one of 32 bytes",
        ),
        (
            lambda: CALLED.audit("\u202e.onnx"),
            "\\u202e.onnx: no such file or directory",
        ),
        (
            lambda: CALLED.program_to_onnx(5),
            "program must be a program or the path of its file, got 5",
        ),
        (
            lambda: CALLED.program_to_onnx(GIVEN["program"], inputs=5),
            "inputs must be names of resources, got 5",
        ),
        (
            lambda: CALLED.program_to_onnx(GIVEN["program"], inputs=[["a"]]),
            "inputs must be names of resources, got [['a']]",
        ),
    ],
)
def test_the_sentences_name_the_argument_and_the_rule(call: Any, said: str) -> None:
    with pytest.raises(og.OnnxGatherError) as caught:
        call()
    assert str(caught.value) == said
