"""Certificates of WebNN programs: ours are proved, changed ones are not."""

from __future__ import annotations

import time
from copy import deepcopy
from typing import Any

import pytest
from corpus_cases import corpus
from rings import by_ring
from short_descriptors import descriptor
from webnn_mistakes import changed_programs, differing_arrays

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.core.lowering.webnn.steps import MLOperand, Step
from onnxgather.core.options import POLICIES, OutOfRange
from onnxgather.proving.certify import WEBNN_DIFFERS, Certified, certify, webnn_verdict
from onnxgather.proving.formula import formula_of

SMALL = {
    "GATHER": descriptor("GATHER: FLOAT16 3x2, INT64 1x2, FLOAT16 2x2, 0, 1"),
    "GATHER_ELEMENTS with strides": descriptor(
        "GATHER_ELEMENTS: INT8 2x2, UINT32 2x2, INT8 2x2 strides 3x1, 1"
    ),
    "GATHER_ND1": descriptor(
        "GATHER_ND1: UINT64 2x2x2, UINT64 1x2x2, UINT64 1x1x2, 3, 2, 1"
    ),
    "GATHER_ND": descriptor("GATHER_ND: FLOAT32 2x3, INT32 2x2, FLOAT32 1x2, 2, 2"),
}


def judged(
    program: og.WebnnProgram, desc: og.Descriptor, policy: OutOfRange = "clamp"
) -> tuple[str, str]:
    """Return the state of a program that should mean a descriptor, and why."""
    formula, _ = formula_of(desc, policy)
    verdict = webnn_verdict(program, formula, time.monotonic() + 20)
    return verdict.state, verdict.why


DIFFERS = ("undecided", WEBNN_DIFFERS)


@pytest.mark.parametrize("name", SMALL)
def test_programs_are_proved_under_each_policy(name: str) -> None:
    for policy in POLICIES:
        certified = certify(SMALL[name], policy, "webnn")
        assert str(certified) == "proved", policy
        assert certified.target == "webnn"
        assert certified.digest.startswith("sha256:")


@pytest.mark.slow
def test_programs_of_the_corpus_are_proved() -> None:
    cases = [case for case in corpus() if isinstance(case, DescriptorCase)]
    descriptors = [*dict.fromkeys(case.descriptor for case in cases)]
    step = by_ring(200, 60)
    for desc in descriptors[3::step]:
        for policy in POLICIES:
            assert str(certify(desc, policy, "webnn")) == "proved", (desc, policy)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["clamp", "zero", "directml"])
def test_a_changed_program_is_not_proved(policy: OutOfRange) -> None:
    compared = 0
    for desc in SMALL.values():
        for what, changed in changed_programs(og.to_webnn(desc, policy)):
            if differing_arrays(changed) is None:
                continue
            assert judged(changed, desc, policy)[0] == "undecided", what
            compared += 1
    assert compared > 40


def test_an_index_that_is_clamped_elsewhere_is_found() -> None:
    desc = SMALL["GATHER"]
    program = og.to_webnn(desc)
    (last,) = [c for c in program.graph.constants if c.operand.name == "lastIndex"]
    changed = deepcopy(program)
    number = program.graph.constants.index(last)
    constant = last._replace(array=last.array - 1)
    changed.graph.constants[number] = constant
    assert judged(changed, desc) == DIFFERS


def test_a_cast_that_loses_bits_of_the_data_is_not_proved() -> None:
    desc = SMALL["GATHER_ND"]
    program = deepcopy(og.to_webnn(desc))
    steps = program.graph.steps
    (number,) = [n for n, step in enumerate(steps) if step.result.name == "rows"]
    rows = steps[number].operands[0]
    narrow = rows._replace(name="narrow", data_type="int8")
    wide = rows._replace(name="wide")
    operands = (wide, *steps[number].operands[1:])
    steps[number : number + 1] = [
        Step(narrow, "cast", (rows,), ("int8",), {}, "loses bits"),
        Step(wide, "cast", (narrow,), ("int32",), {}, "has as many bits again"),
        steps[number]._replace(operands=operands),
    ]
    why = "a cast of data of int32 to int8"
    assert judged(program, desc) == ("undecided", why)


def verdict_of_changed(
    desc: og.Descriptor, name: str, policy: OutOfRange = "clamp", **fields: Any
) -> tuple[str, str]:
    """Return the verdict on a program with other fields of the step of a name."""
    program = deepcopy(og.to_webnn(desc, policy))
    steps = program.graph.steps
    (number,) = [n for n, step in enumerate(steps) if step.result.name == name]
    steps[number] = steps[number]._replace(**fields)
    return judged(program, desc, policy)


def test_other_axes_and_slices_are_not_proved() -> None:
    square = descriptor("GATHER: FLOAT32 2x2, INT32 1x2, FLOAT32 2x2, 0, 1")
    verdict = verdict_of_changed(square, "rows", options={"axis": 1})
    assert verdict == ("undecided", "a gather along another axis")
    desc = SMALL["GATHER"]
    (part,) = [
        step.arguments[1]
        for step in og.to_webnn(desc).graph.steps
        if step.result.name == "lowColumn"
    ]
    verdict = verdict_of_changed(desc, "lowColumn", arguments=((1, 0), part))
    assert verdict == ("undecided", "a slice that ends outside its operand")
    rows = {"axes": (0,), "keepDimensions": True}
    verdict = verdict_of_changed(SMALL["GATHER_ND"], "anyOutside", "zero", options=rows)
    assert verdict == ("undecided", "a reduceMax of anything but rows")


def test_an_output_of_another_type_than_the_data_is_not_proved() -> None:
    desc = descriptor("GATHER: UINT8 1x4, INT32 1x4, UINT8 1x4, 1, 1")
    program = deepcopy(og.to_webnn(desc))
    graph = program.graph
    assert judged(program, desc)[0] == "proved"
    data = graph.inputs[0]
    byte = data._replace(name="byte", shape=(1, 1))
    word = MLOperand("word", "int32", (1, 1))
    graph.steps += [
        Step(byte, "slice", (data,), ((0, 0), (1, 1)), {}, "the first byte"),
        Step(word, "cast", (byte,), ("int32",), {}, "as a word"),
    ]
    graph.outputs["OutputTensor"] = word
    assert judged(program, desc) == DIFFERS


def test_what_is_not_counted_is_found() -> None:
    desc = SMALL["GATHER_ND"]
    program = og.to_webnn(desc, "error")
    assert judged(program, desc, "error")[0] == "proved"
    changed = deepcopy(program)
    for number, step in enumerate(program.graph.steps):
        if step.result.name == "isOutside":
            one_side = (step.operands[0], step.operands[0])
            changed.graph.steps[number] = step._replace(operands=one_side)
    assert judged(changed, desc, "error") == DIFFERS


@pytest.mark.parametrize("options", [{"low_halves": True}, {"model": "x.onnx"}])
def test_options_of_models_are_refused(options: dict[str, object]) -> None:
    (name,) = options
    certified: Certified | None = None
    with pytest.raises(og.OnnxGatherError) as caught:
        certified = certify(SMALL["GATHER"], "clamp", "webnn", **options)  # pyright: ignore[reportArgumentType]
    assert certified is None
    assert str(caught.value) == (
        f'{name} must not come with the target "webnn", as its programs are no ONNX'
        " models"
    )
