"""WebNN programs: run by an interpreter in numpy, within what the specification
requires, and written as modules that Node reads."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_cases import descriptor_cases
from hypothesis import given
from messages import message_of, rows_of
from rings import by_ring
from short_descriptors import ascending, descriptor
from strategies import Case, cases, random_data, random_indices
from webnn_interpreter import METHODS, RefusedStepError, interpret
from webnn_modules import as_base64, needs_node, recorded

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus import random_cases
from onnxgather.core.descriptors.arrays import Array, indices_outside
from onnxgather.core.descriptors.spelling import tensors
from onnxgather.core.lowering.webnn.program import WebnnProgram
from onnxgather.core.lowering.webnn.requirements import (
    REQUIRED_TYPES,
    beyond_required,
)
from onnxgather.core.lowering.webnn.steps import StepList
from onnxgather.core.options import POLICIES, OutOfRange

T = og.TensorDesc


def expected(
    desc: og.Descriptor, data: Array, indices: Array, policy: OutOfRange
) -> dict[str, Array]:
    """Return the outputs that a program must have, by the reference."""
    if policy != "error":
        return {"OutputTensor": og.reference(desc, data, indices, policy)}
    # The graph cannot fail: it clamps, and counts the indices out of range.
    count = np.array([indices_outside(desc, indices).sum()], np.int32)
    clamped = og.reference(desc, data, indices, "clamp")
    return {"OutputTensor": clamped, "Outside": count}


def as_bytes(outputs: Mapping[str, Array]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in outputs.items()}


def check_program(
    desc: og.Descriptor, data: Array, indices: Array, policy: OutOfRange
) -> None:
    """Compare a program with the reference, byte for byte."""
    program = og.to_webnn(desc, policy)
    assert list(beyond_required(program.graph.steps)) == []
    arrays = {"InputTensor": data, "IndicesTensor": indices}
    outputs = interpret(program.to_dict(), arrays)
    assert as_bytes(outputs) == as_bytes(expected(desc, data, indices, policy))


@pytest.mark.parametrize("policy", POLICIES)
def test_programs_compute_what_the_reference_does_on_the_corpus(
    policy: OutOfRange,
) -> None:
    sample = descriptor_cases()[:: by_ring(25, 3)]
    assert len(sample) >= 59
    for case in sample:
        check_program(case.descriptor, case.data, case.indices, policy)


@pytest.mark.parametrize("policy", POLICIES)
def test_programs_compute_what_the_reference_does_on_random_cases(
    policy: OutOfRange,
) -> None:
    count = by_ring(40, 1_000)
    drawn = list(random_cases(count, seed=41))
    assert len(drawn) == count
    for case in drawn:
        check_program(case.descriptor, case.data, case.indices, policy)


@given(cases())
def test_programs_compute_what_the_reference_does_on_any_descriptor(
    case: Case,
) -> None:
    for policy in POLICIES:
        check_program(case.desc, case.data, case.indices, policy)


def test_of_bytes_no_step_is_beyond_what_the_specification_requires() -> None:
    for case in descriptor_cases()[:: by_ring(40, 3)]:
        for policy in POLICIES:
            steps = og.to_webnn(case.descriptor, policy).graph.steps
            assert steps
            assert list(beyond_required(steps)) == []
            # The rank that prototypes were measured with.
            assert max(len(step.result.shape) for step in steps) <= 4
            gathers = [step for step in steps if step.method == "gather"]
            assert all(len(step.operands[1].shape) == 1 for step in gathers)


def test_what_is_beyond_the_specification_is_a_sentence() -> None:
    desc = descriptor("GATHER: INT8 4, UINT32 2, INT8 2, 0, 1")
    steps = og.to_webnn(desc, form="typed").graph.steps
    types = "float16, float32, int32, int8, uint8"
    assert list(beyond_required(steps)) == [
        f"indexRows: reshape must take {types}, got uint32",
        f"low: cast must take {types}, got uint32",
    ]


def test_a_rank_beyond_the_specification_is_a_sentence() -> None:
    steps = StepList()
    operand = steps.input("data", "int32", (1,) * 6)
    steps.reshape(operand, (1,), "flat", "fewer dimensions")
    assert list(beyond_required(steps.steps)) == [
        "flat: reshape must take ranks up to 5, got 6"
    ]


def test_the_interpreter_has_the_methods_of_the_table() -> None:
    assert METHODS.keys() == REQUIRED_TYPES.keys()


# Planted mistakes.

PLANTED = {
    "GATHER": descriptor("GATHER: FLOAT32 1x4x3, INT64 1x1x5, FLOAT32 1x4x5, 2, 1"),
    "GATHER of rows": descriptor(
        "GATHER: FLOAT16 1x4x3 bytes 40, UINT32 1x1x5, FLOAT16 1x5x3, 1, 1"
    ),
    "GATHER_ELEMENTS": descriptor(
        "GATHER_ELEMENTS: INT8 2x3x2, UINT64 2x4x2, INT8 2x4x2 strides 20x4x2, 1"
    ),
    "GATHER_ND1": descriptor(
        "GATHER_ND1: INT32 2x3x4x2, INT64 1x2x5x2 strides 0x10x2x1,"
        " INT32 1x2x5x2, 4, 3, 1"
    ),
    "GATHER_ND": descriptor("GATHER_ND: UINT16 3x4, INT32 6x2, UINT16 1x6, 2, 2"),
}

NEUTRAL = {
    tuple(mistake.split(" reads "))
    for mistakes, _ in rows_of("""
fromEnd reads low; fromEnd reads high; fromEnd reads lowColumn; fromEnd reads highColumn
where it counts, both have the same sign

fromEnd reads indices; fromEnd reads raised; fromEnd reads expectedHigh
where it counts, both have the same sign

wrapped reads isNegative; wrapped reads isLowNegative; isBeyond reads limited
where it counts, both have the same sign

counted reads raised; isAbove reads raised
where it counts, the index is not clamped

clamped reads zero; clamped reads isBeyond
what the index leads to becomes zero, and both are in range

column_2 reads clamped; column_2 reads wrapped
the stride of the last coordinate is 1

zeroed reads isOutside; zeroed reads isTupleOutside; rowsAndZero reads zeroed
the elements are the same, in another shape or type
""")
    for mistake in mistakes.split("; ")
}
"""Mistakes that change no result: the step, and what it reads by mistake."""

Mistake = tuple[str, str]


def mistakes(program: dict[str, Any]) -> Iterator[tuple[Mistake, dict[str, Any]]]:
    """Yield programs with a mistake each, and what it is.

    A step reads another operand of the same type and shape, or is left out; or a
    number of a constant is one more.
    """
    values = {**program["inputs"], **program["constants"]}
    kinds = {name: (row["dataType"], row["shape"]) for name, row in values.items()}
    for number, step in enumerate(program["steps"]):
        result = step["result"]
        kind = (step["dataType"], step["shape"])
        for place, operand in enumerate(step["operands"]):
            for other, other_kind in kinds.items():
                if other != operand and other_kind == kinds[operand]:
                    wrong = deepcopy(program)
                    wrong["steps"][number]["operands"][place] = other
                    yield (result, other), wrong
            if kinds[operand] == kind:
                yield (
                    (result, f"left out, {operand}"),
                    without(program, result, operand),
                )
        kinds[result] = kind
    for name, constant in program["constants"].items():
        for place in range(len(constant.get("data", []))):
            wrong = deepcopy(program)
            wrong["constants"][name]["data"][place] += 1
            yield (name, f"number {place}"), wrong


def without(program: dict[str, Any], result: str, operand: str) -> dict[str, Any]:
    """Return a program in which an operand stands for the result of a step."""
    wrong = deepcopy(program)
    for step in wrong["steps"]:
        if step["result"] != result:
            names = step["operands"]
            step["operands"] = [operand if name == result else name for name in names]
    for output, name in wrong["outputs"].items():
        if name == result:
            wrong["outputs"][output] = operand
    return wrong


def edge_arrays(desc: og.Descriptor, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return data, and indices near each edge of axes and words."""
    tensor = desc.indices_tensor
    limits = np.iinfo(tensor.data_type.numpy)
    values = [*range(-6, 7)] * 4
    for bits in (31, 32, 33, 63, 64):
        for near in range(-2, 3):
            values += [2**bits + near, -(2**bits) + near]
    held = [value for value in values if limits.min <= value <= limits.max]
    pool = np.array(held, tensor.data_type.numpy)
    indices = pool[rng.integers(0, len(pool), tensor.array_shape)]
    return random_data(desc.input_tensor, rng), indices


def is_caught(
    wrong: dict[str, Any],
    questions: list[tuple[Array, Array, dict[str, bytes]]],
) -> bool:
    for data, indices, right in questions:
        arrays = {"InputTensor": data, "IndicesTensor": indices}
        try:
            outputs = interpret(wrong, arrays)
        except (RefusedStepError, ValueError, IndexError):
            return True
        if as_bytes(outputs) != right:
            return True
    return False


def missed_mistakes(desc: og.Descriptor, policy: OutOfRange) -> set[Mistake]:
    """Plant each mistake in a program; return those that change no result."""
    rng = np.random.default_rng(41)
    questions: list[tuple[Array, Array, dict[str, bytes]]] = []
    for number in range(60):
        data, indices = edge_arrays(desc, rng)
        if number < 10:
            indices = random_indices(desc, rng, wild=0)
        right = as_bytes(expected(desc, data, indices, policy))
        questions.append((data, indices, right))
    program = og.to_webnn(desc, policy).to_dict()
    assert not is_caught(program, questions)
    planted = list(mistakes(program))
    assert len(planted) >= 10
    return {what for what, wrong in planted if not is_caught(wrong, questions)}


def test_a_mistake_in_a_step_is_caught() -> None:
    assert missed_mistakes(PLANTED["GATHER of rows"], "clamp") <= NEUTRAL


@pytest.mark.slow
def test_mistakes_in_all_steps_are_caught() -> None:
    missed: set[Mistake] = set()
    for desc in PLANTED.values():
        for policy in POLICIES:
            missed |= missed_mistakes(desc, policy)
    assert missed == NEUTRAL


# The form "typed".


def test_typed_programs_compute_what_the_reference_does() -> None:
    sample = descriptor_cases()[:: by_ring(25, 3)]
    refused = 0
    for case in sample:
        desc = case.descriptor
        arrays = {"InputTensor": case.data, "IndicesTensor": case.indices}
        for policy in POLICIES:
            try:
                program = og.to_webnn(desc, policy, "typed").to_dict()
            except og.OnnxGatherError:
                refused += 1
                continue
            for name, tensor in tensors(desc).items():
                if name != "OutputTensor":
                    operand = program["inputs"][name]
                    assert operand["dataType"] == tensor.data_type.numpy.name
                    if len(tensor.array_shape) <= 5:
                        assert operand["shape"] == list(tensor.array_shape)
            outputs = interpret(program, arrays, is_strict=False)
            right = expected(desc, case.data, case.indices, policy)
            assert as_bytes(outputs) == as_bytes(right)
            output = outputs["OutputTensor"]
            assert output.dtype == desc.output_tensor.data_type.numpy
    assert 0 < refused < 4 * len(sample) / 3


# Refusals.


@pytest.mark.parametrize(
    "data_type", ["FLOAT64", "INT16", "UINT16", "UINT32", "UINT64"]
)
def test_typed_refuses_data_types_that_webnn_lacks(data_type: str) -> None:
    desc = descriptor(f"GATHER: {data_type} 4, INT32 2, {data_type} 2, 0, 1")
    assert message_of(og.OnnxGatherError, og.to_webnn, desc, form="typed") == (
        "InputTensor.DataType must be one of FLOAT32, FLOAT16, INT64, INT32,"
        ' INT8, UINT8 in the form "typed", as WebNN has no others for it; the'
        f' form "bytes" has all, got {data_type}'
    )


def test_typed_refuses_indices_that_webnn_lacks() -> None:
    desc = descriptor("GATHER: FLOAT32 4, UINT64 2, FLOAT32 2, 0, 1")
    assert message_of(og.OnnxGatherError, og.to_webnn, desc, form="typed") == (
        "IndicesTensor.DataType must be one of INT64, INT32, UINT32 in the form"
        ' "typed", as WebNN has no others for it; the form "bytes" has all, got'
        " UINT64"
    )


def test_elements_that_int32_does_not_count_are_refused() -> None:
    desc = descriptor(f"GATHER: INT8 {2**31}, INT32 2, INT8 2, 0, 1")
    assert message_of(og.OnnxGatherError, og.to_webnn, desc) == (
        "InputTensor must have elements that int32 counts for WebNN, got 2147483648"
        " elements"
    )


def test_data_that_no_module_can_hold_are_refused() -> None:
    count = 2**28 + 1
    desc = descriptor(f"GATHER: INT8 {count}, INT32 2, INT8 2, 0, 1")
    data = np.broadcast_to(np.zeros(1, np.int8), count)
    assert message_of(og.OnnxGatherError, og.to_webnn, desc, data=data) == (
        "data must have at most 268435456 bytes as a constant, got 268435457; build of"
        " the module takes InputTensor too"
    )


SMALL = descriptor("GATHER: FLOAT16 4x3, INT64 1x2, FLOAT16 4x2, 1, 1")


DATA = ascending("FLOAT16 4x3")
INDICES = np.array([[2, -1]], np.int64)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"form": "words"},
            "form must be one of bytes, typed, got 'words'",
        ),
        (
            {"out_of_range": "wrap"},
            "out_of_range must be one of clamp, error, zero, directml, got 'wrap'",
        ),
        (
            {"data": np.zeros(3)},
            "InputTensor must be an array of float16 (4, 3), got float64 (3,)",
        ),
    ],
)
def test_a_wrong_option_is_a_sentence(options: dict[str, Any], message: str) -> None:
    assert message_of(og.OnnxGatherError, og.to_webnn, SMALL, **options) == message


# The program as data.


def test_the_data_may_be_a_constant() -> None:
    for case in descriptor_cases()[:: by_ring(60, 5)]:
        program = og.to_webnn(case.descriptor, data=case.data).to_dict()
        assert list(program["inputs"]) == ["IndicesTensor"]
        outputs = interpret(program, {"IndicesTensor": case.indices})
        right = og.reference(case.descriptor, case.data, case.indices)
        assert outputs["OutputTensor"].tobytes() == right.tobytes()
    shown = repr(og.to_webnn(SMALL, data=DATA))
    assert shown == "<WebnnProgram of DML_OPERATOR_GATHER, 17 steps>"


def test_json_has_the_whole_program() -> None:
    for case in descriptor_cases()[:: by_ring(60, 5)]:
        program = og.to_webnn(case.descriptor, "zero")
        assert json.loads(program.to_json()) == json.loads(
            json.dumps(program.to_dict())
        )
        assert og.from_dict(program.to_dict()["descriptor"]) == case.descriptor


# The program as a module.


def module_question(
    folder: Path, number: int, program: WebnnProgram, data: Array, indices: Array
) -> dict[str, Any]:
    """Write the module of a program; return what the recorder is asked about it."""
    file = folder / f"gather_{number}.mjs"
    file.write_text(program.to_javascript(), encoding="utf-8")
    desc = program.descriptor
    outputs = expected(desc, data, indices, program.out_of_range)
    arrays = {"InputTensor": data, "IndicesTensor": indices}
    return {
        "file": str(file),
        "arrays": {name: as_base64(array) for name, array in arrays.items()},
        "constants": {},
        "outputs": {name: as_base64(array) for name, array in outputs.items()},
    }


def calls_of(program: WebnnProgram) -> dict[str, Any]:
    """Return the calls of a program as the recorder writes them."""
    names = {operand.name: operand.name for operand in program.graph.inputs}
    constants: list[dict[str, Any]] = []
    for number, constant in enumerate(program.graph.constants):
        operand = constant.operand
        names[operand.name] = f"constant {number}"
        row = {"dataType": operand.data_type, "shape": list(operand.shape)}
        constants.append({**row, "base64": as_base64(constant.array)})
    steps: list[dict[str, Any]] = []
    for number, step in enumerate(program.to_dict()["steps"]):
        names[step["result"]] = f"step {number}"
        row = {key: step[key] for key in ("method", "arguments", "options")}
        operands = [names[operand] for operand in step["operands"]]
        steps.append({**row, "operands": operands})
    as_data = json.loads(json.dumps(program.to_dict()))
    return {
        "inputs": as_data["inputs"],
        "constants": constants,
        "steps": json.loads(json.dumps(steps)),
        "outputs": {name: names[of] for name, of in as_data["outputs"].items()},
    }


@needs_node
def test_a_module_makes_the_calls_of_its_program(tmp_path: Path) -> None:
    programs: list[WebnnProgram] = []
    questions: list[dict[str, Any]] = []
    sample = descriptor_cases()[:: by_ring(50, 3)]
    for number, case in enumerate(sample):
        form = "typed" if is_typed(case.descriptor) and number % 4 == 0 else "bytes"
        program = og.to_webnn(case.descriptor, case.out_of_range, form)
        programs.append(program)
        question = module_question(tmp_path, number, program, case.data, case.indices)
        questions.append(question)
    answers = recorded(tmp_path, questions)
    rows = zip(sample, programs, questions, answers, strict=True)
    for case, program, question, answer in rows:
        assert answer["calls"] == calls_of(program)
        arrays = question["arrays"]
        assert answer["written"][:2] == [arrays["InputTensor"], arrays["IndicesTensor"]]
        if case.out_of_range == "error" and outside_count(case):
            with pytest.raises(og.IndexOutOfRangeError) as caught:
                og.reference(case.descriptor, case.data, case.indices, "error")
            assert answer["error"] == f"RangeError: {caught.value}"
            continue
        # The second run writes nothing, as all inputs are left out.
        assert len(answer["written"]) == 2
        assert answer["dispatched"] == 2
        right = question["outputs"]["OutputTensor"]
        assert [answer["result"], answer["again"]] == [right, right]


def outside_count(case: DescriptorCase) -> int:
    return int(indices_outside(case.descriptor, case.indices).sum())


def is_typed(desc: og.Descriptor) -> bool:
    try:
        og.to_webnn(desc, form="typed")
    except og.OnnxGatherError:
        return False
    return True


@needs_node
def test_a_module_takes_the_data_as_a_constant(tmp_path: Path) -> None:
    at_build = module_question(tmp_path, 0, og.to_webnn(SMALL), DATA, INDICES)
    at_build["constants"] = {"InputTensor": at_build["arrays"].pop("InputTensor")}
    program = og.to_webnn(SMALL, data=DATA)
    inside = module_question(tmp_path, 1, program, DATA, INDICES)
    del inside["arrays"]["InputTensor"]
    given_at_build, embedded = recorded(tmp_path, [at_build, inside])
    right = at_build["outputs"]["OutputTensor"]
    for answer in (given_at_build, embedded):
        assert answer["result"] == right
        assert answer["written"] == [as_base64(INDICES)]
        assert list(answer["calls"]["inputs"]) == ["IndicesTensor"]
        (constant, *_) = answer["calls"]["constants"]
        assert constant == {
            "dataType": "int8",
            "shape": [12, 2],
            "base64": as_base64(DATA),
        }
    assert embedded["calls"] == calls_of(program)


@needs_node
@pytest.mark.parametrize(
    ("array", "got"),
    [(np.zeros(3, np.uint8), "3"), (None, "undefined")],
)
def test_a_module_refuses_an_array_of_another_length(
    tmp_path: Path, array: Array | None, got: str
) -> None:
    question = module_question(tmp_path, 0, og.to_webnn(SMALL), DATA, INDICES)
    del question["arrays"]["IndicesTensor"]
    if array is not None:
        question["arrays"]["IndicesTensor"] = as_base64(array)
    (answer,) = recorded(tmp_path, [question])
    assert answer["error"] == (
        "RangeError: IndicesTensor must be a typed array or an ArrayBuffer of 16 bytes,"
        f" got {got}"
    )


OVERLAPPING = """
import {build, run} from "./overlapping.mjs";

const operand = () => new Proxy({}, {get: () => undefined});
globalThis.MLGraphBuilder = class {
  constructor() {
    const method = (name) => (name === "build" ? async () => "" : operand);
    return new Proxy(this, {get: (_, name) => method(name)});
  }
};
const context = {
  createTensor: async () => ({bytes: new Uint8Array(4)}),
  writeTensor: (tensor, bytes) => (tensor.bytes = bytes.slice()),
  // OutputTensor is the indices; none of them is out of range.
  dispatch: (_, {IndicesTensor}, {OutputTensor}) => {
    OutputTensor.bytes = IndicesTensor.bytes;
  },
  // As WebNN reads: what the tensor has when it is called.
  readTensor: (tensor) => Promise.resolve(tensor.bytes.slice().buffer),
};
const built = await build(context);
const InputTensor = new Int32Array(4);
const runs = [[1, 2], [2, 2]].map((indices) =>
  run(built, {InputTensor, IndicesTensor: new Int32Array(indices)}));
const results = await Promise.all(runs);
console.log(results.map((bytes) => [...new Int32Array(bytes.buffer)].join()).join(" "));
"""
"""Two runs of a module at once, on a stand-in for WebNN that copies the indices."""


@needs_node
def test_runs_that_overlap_have_their_own_results(tmp_path: Path) -> None:
    desc = descriptor("GATHER: INT32 1x4, INT32 1x2, INT32 1x2, 1, 1")
    module = og.to_webnn(desc, "error").to_javascript()
    (tmp_path / "overlapping.mjs").write_text(module, encoding="utf-8")
    (tmp_path / "two.mjs").write_text(OVERLAPPING, encoding="utf-8")
    command = ["node", str(tmp_path / "two.mjs")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (result.stdout, result.stderr) == ("1,2 2,2\n", "")


@needs_node
def test_an_array_of_no_input_is_refused(tmp_path: Path) -> None:
    question = module_question(tmp_path, 0, og.to_webnn(SMALL), DATA, INDICES)
    question["arrays"]["Indices"] = question["arrays"]["IndicesTensor"]
    (answer,) = recorded(tmp_path, [question])
    assert answer["error"] == "RangeError: Indices is no input of the graph"


def test_a_module_is_short_and_evaluates_no_text() -> None:
    lengths: list[int] = []
    for case in descriptor_cases()[:: by_ring(10, 3)]:
        text = og.to_webnn(case.descriptor, case.out_of_range).to_javascript()
        lengths.append(len(text.splitlines()))
        assert not re.search(r"\b(eval|Function|import)\b", text)
        exports = re.findall(r"^export (?:async )?(?:const|function) (\w+)", text, re.M)
        assert exports == ["tensors", "add", "build", "run"]
    assert np.median(lengths) <= 110


def test_a_module_says_why_of_each_step() -> None:
    program = og.to_webnn(SMALL, "zero")
    text = program.to_javascript()
    for step in program.graph.steps:
        call = rf"  const {step.result.name} = builder\.{step.method}\(.*\);"
        comment = re.escape(f"// {step.why}")
        assert re.search(rf"^{call}  {comment}$|^  {comment}\n{call}$", text, re.M)


def test_constants_are_written_as_what_they_are() -> None:
    desc = descriptor(
        "GATHER: FLOAT32 2x40 strides 50x1, INT32 1x40 strides 0x3,"
        " FLOAT32 40x40 strides 41x1, 0, 1"
    )
    text = og.to_webnn(desc).to_javascript()
    steps = "Int32Array.from({length: 40}, (_, k) => 3 * k)"
    assert f'const positions = constant("int32", [40], {steps});' in text
    assert "Int32Array.from({length: 40}, (_, k) => k)" in text
    assert re.search(r'const outputRows = .*fromBase64\("[\w+/=]+", Int32Array\)', text)
    assert text.count("function fromBase64(") == 1
    first = "Int32Array.from({length: 3}"
    assert first not in text
