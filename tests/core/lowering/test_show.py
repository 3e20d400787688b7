"""What `show` says: formulas that agree with the reference, and text of 80 columns."""

from __future__ import annotations

import itertools
import re

import msgspec
import numpy as np
import pytest
from hypothesis import given
from short_descriptors import descriptor
from strategies import Case, cases, descriptors

import onnxgather as og
from onnxgather.core.descriptors.arrays import elements
from onnxgather.core.lowering.show import (
    DescribedNode,
    DescribedValue,
    Formula,
    describe,
    description_text,
    write_formula,
)
from onnxgather.core.options import OutOfRange


def tensor(*sizes: int, data_type: str = "FLOAT32") -> og.TensorDesc:
    return og.TensorDesc(data_type, sizes)


GATHER = descriptor("GATHER: FLOAT32 1x4x5x3, INT32 1x1x2x6, FLOAT32 4x2x6x3, 2, 2")
SCALAR = descriptor("GATHER: FLOAT32 5, UINT32 1, FLOAT32 1, 0, 0")
ELEMENTS = descriptor("GATHER_ELEMENTS: FLOAT32 1x3x7, UINT64 1x2x7, FLOAT32 1x2x7, 1")
ND = descriptor("GATHER_ND: FLOAT32 1x2x3x4, INT64 1x1x5x2, FLOAT32 1x1x5x4, 3, 2")
ND_SINGLE = descriptor("GATHER_ND: FLOAT32 3x4, UINT32 5x1, FLOAT32 5x4, 2, 2")
ND1 = descriptor(
    "GATHER_ND1: FLOAT32 1x3x2x9, UINT32 1x3x4x2, FLOAT32 1x1x3x4, 3, 3, 1"
)


@pytest.mark.parametrize(
    ("desc", "out_of_range", "formula"),
    [
        (
            GATHER,
            "clamp",
            Formula(
                "out[a, i, j, b] = in[0, a, idx[0, 0, i, j], b]",
                None,
                "a < 4, i < 2, j < 6, b < 3",
                "-5 <= idx < 5, from the end where negative; an index out of range is"
                " clamped",
            ),
        ),
        (
            SCALAR,
            "error",
            Formula(
                "out[0] = in[idx[0]]",
                None,
                "",
                "0 <= idx < 5; an index out of range is an error",
            ),
        ),
        (
            ELEMENTS,
            "zero",
            Formula(
                "out[0, i, a] = in[0, idx[0, i, a], a]",
                None,
                "i < 2, a < 7",
                "0 <= idx < 3; an index out of range gives 0",
            ),
        ),
        (
            ND,
            "clamp",
            Formula(
                "out[0, 0, i, a] = in[0, p, q, a]",
                "p, q = idx[0, 0, i, :]",
                "i < 5, a < 4",
                "-2 <= p < 2, -3 <= q < 3, from the end where negative; an index out of"
                " range is clamped",
            ),
        ),
        (
            ND_SINGLE,
            "clamp",
            Formula(
                "out[i, a] = in[idx[i, 0], a]",
                None,
                "i < 5, a < 4",
                "0 <= idx < 3; an index out of range is clamped",
            ),
        ),
        (
            ND1,
            "clamp",
            Formula(
                "out[0, 0, a, i] = in[0, a, p, q]",
                "p, q = idx[0, a, i, :]",
                "a < 3, i < 4",
                "0 <= p < 2, 0 <= q < 9; an index out of range is clamped",
            ),
        ),
        (
            ELEMENTS,
            "directml",
            Formula(
                "out[0, i, a] = in[0, idx[0, i, a], a]",
                None,
                "i < 2, a < 7",
                "as DirectML does, whatever the index: the element of the buffer at"
                " min(offset mod 2^32, 20), where offset is the sum of coordinate x"
                " stride, strides [0, 7, 1]. A negative index (UINT64 is read as INT64)"
                " has its axis size added first.",
            ),
        ),
        (
            ND_SINGLE,
            "directml",
            Formula(
                "out[i, a] = in[idx[i, 0], a]",
                None,
                "i < 5, a < 4",
                "as DirectML does, whatever the index: the element of the buffer at"
                " min(offset mod 2^32, 11), where offset is the sum of coordinate x"
                " stride, strides [4, 1].",
            ),
        ),
    ],
)
def test_write_formula(
    desc: og.Descriptor, out_of_range: OutOfRange, formula: Formula
) -> None:
    assert write_formula(desc, out_of_range) == formula


@given(cases(wild=False))
def test_evaluating_the_formula_gives_the_reference(case: Case) -> None:
    desc = case.desc
    wanted = og.reference(desc, case.data, case.indices, "error")
    formula = write_formula(desc, "error")
    left, right = (
        formula.equation.removeprefix("out[").replace("in[", "data[").split("] = ")
    )
    bounds = dict(bound.split(" < ") for bound in formula.bounds.split(", ") if bound)
    arrays = {
        "data": elements(desc.input_tensor, case.data),
        "idx": elements(desc.indices_tensor, case.indices),
    }
    place, source = compile(f"({left},)", "", "eval"), compile(right, "", "eval")
    names, tuples = "", compile("()", "", "eval")
    if formula.coordinates:
        names, coordinates = formula.coordinates.split(" = ")
        tuples = compile(coordinates, "", "eval")
    output = np.zeros(desc.output_tensor.sizes, desc.output_tensor.data_type.numpy)
    for position in itertools.product(*(range(int(n)) for n in bounds.values())):
        scope = {**arrays, **dict(zip(bounds, position, strict=True))}
        values = eval(tuples, scope)
        scope.update(zip(names.split(", ") if names else [], values, strict=True))
        output[eval(place, scope)] = eval(source, scope)
    assert elements(desc.output_tensor, wanted).tobytes() == output.tobytes()


@given(descriptors())
def test_the_text_fits_80_columns_and_holds_every_node(desc: og.Descriptor) -> None:
    for out_of_range in ("clamp", "error", "zero", "directml"):
        description = describe(desc, out_of_range, "portable", 17)
        text = description_text(description)
        assert max(map(len, text.splitlines())) <= 80
        assert not re.search(r"[ \t\xa0]$|\xa0", text, re.MULTILINE)
        plain = " ".join(text.split())
        for node in description.nodes:
            assert f"{node.operator}(" in plain
            assert " ".join(str(node.output).split()) in plain
            assert node.why in plain


def test_the_text_of_a_node_with_a_list_and_an_input_left_out() -> None:
    description = describe(SCALAR, "clamp", "portable", 17)
    output = DescribedValue("y", "int32", (2, 3))
    odd = DescribedNode(
        "Odd", ("x", "", "y"), {"axis": 0, "perm": (1, 0)}, output, "because"
    )
    text = description_text(msgspec.structs.replace(description, nodes=(odd,)))
    assert text.endswith(
        "  1.  Odd(x, -, y, axis=0, perm=[1, 0]) -> y: int32[2, 3]\n      because"
    )
