"""The guard of a contract as an ONNX model: its answers are those of `check_inputs`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from guard_cases import (
    DIRECTED,
    GuardCase,
    agrees,
    guard_cases,
    minus,
    sizes,
    values,
    wild_arrays,
)
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from network_draft import results, session
from onnx import helper
from onnx_graphs import written
from rings import by_ring, one_quick_in

import onnxgather as og
from onnxgather.auditing.proof.contract import (
    NUMPY_TYPES,
    Condition,
    rule_of_size,
)
from onnxgather.auditing.proof.contract_model import GuardNodes, contract_model
from onnxgather.auditing.proof.contract_python import guard
from onnxgather.core.model.write import check_model

Add = Callable[..., str]
Mistake = Callable[[Add], Add]


def answer(case: GuardCase, level: int = 3) -> tuple[Any, Any]:
    """The outputs of the guard of a case."""
    made = contract_model(case.contract, case.model)
    outputs = results(session(made, level), case.inputs)
    return outputs["ok"], outputs["broken"]


def answered(cases: Iterable[GuardCase]) -> Iterator[tuple[GuardCase, Any]]:
    """Yield each case with the outputs of its guard; equal guards are made once."""
    sessions = dict[str, Any]()
    for case in cases:
        key = str(case.contract)
        if key not in sessions:
            made = contract_model(case.contract, case.model)
            if all(shape is not None for _, shape in case.types.values()):
                check_model(made)
            sessions[key] = session(made, 3)
        yield case, results(sessions[key], case.inputs)


@given(guard_cases(), st.integers(0, 3))
def test_the_guard_answers_what_check_inputs_answers(
    case: GuardCase, level: int
) -> None:
    ok, broken = answer(case, level)
    assert (ok.dtype, ok.shape) == (bool, ())
    assert (broken.dtype, broken.ndim) == (np.int64, 1)
    assert agrees(case, ok, broken), (ok, broken, case.broken(), case.meets())
    assert case.meets() == meets_in_python(case)


WILD = {
    "sizes alone": GuardCase(
        {"x": ("INT64", ["n", "m"]), "y": ("FLOAT", ["n", 3])}, (), {}
    ),
    "values": GuardCase(
        {"x": ("INT64", ["n", "m"]), "y": ("STRING", ["n"])}, (values(0, 2),), {}
    ),
    "columns": GuardCase(
        {"x": ("INT32", ["n", 3])}, (values(0, 1, columns=(2,)), minus(-1, 1)), {}
    ),
    "no dimension": GuardCase(
        {"x": ("FLOAT", []), "k": ("UINT8", [])}, (values(0, 2),), {}
    ),
    "any rank": GuardCase(
        {"x": ("UINT64", None), "y": ("BOOL", None)},
        (values(0, 2),),
        {},
        True,
        {"y": [2]},
    ),
    "columns of any rank": GuardCase(
        {"x": ("INT16", None), "n": ("FLOAT16", ["n"])},
        (values(None, None, columns=(1,), high_expression="n + 1"),),
        {},
        False,
    ),
    "a given number": GuardCase({"x": ("DOUBLE", [2, 3])}, (values(0, 2),), {}),
}
"""Contracts of each kind, whose inputs are drawn."""

WILD_INPUTS = by_ring(100, 300)
"""How many inputs are drawn for each."""


@pytest.mark.parametrize("name", WILD)
def test_three_checks_give_one_answer_on_wild_inputs(name: str) -> None:
    case = WILD[name]
    random = Random(name)
    guard_session = session(contract_model(case.contract, case.model), 3)
    answers = Counter[bool]()
    for _ in range(WILD_INPUTS):
        sizes_drawn = {"n": random.randint(1, 3), "m": random.randint(1, 3)}
        case.inputs = {}
        for input_name, (data_type, shape) in case.types.items():
            given_shape = case.shapes.get(input_name, shape)
            if given_shape is None:
                given_shape = [2] * random.randint(0, 3)
            numbers = [
                sizes_drawn[size] if isinstance(size, str) else size or 1
                for size in given_shape
            ]
            case.inputs[input_name] = wild_arrays(random, data_type, numbers)
        is_met = case.meets()
        assert is_met == meets_in_python(case), case
        assert is_met == meets_in_session(guard_session, case.inputs), case
        answers[is_met] += 1
    assert min(answers[True], answers[False]) > WILD_INPUTS // 10


def meets_in_session(guard_session: Any, inputs: Mapping[str, Any]) -> bool:
    """Whether the guard in a session takes inputs, which the session may refuse."""
    try:
        (ok,) = guard_session.run(["ok"], inputs)
    except Exception:  # onnxruntime has several classes of errors
        return False
    return bool(ok)


def meets_in_python(case: GuardCase) -> bool:
    """Whether the guard in Python takes the inputs of a case."""
    printed = dict[str, Any]()
    exec(guard(case.contract), printed)
    try:
        printed["check"](case.inputs)
    except (ValueError, IndexError):
        return False
    return True


@pytest.mark.slow
def test_numbers_at_the_ends_of_types_are_compared_exactly() -> None:
    for case, outputs in answered(DIRECTED):
        assert agrees(case, outputs["ok"], outputs["broken"]), case
        assert case.meets() == meets_in_python(case), case


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize(
    "data_type", one_quick_in(5, [*NUMPY_TYPES, "BFLOAT16", "STRING"])
)
def test_a_scalar_with_dimensions_is_refused_at_each_level(
    data_type: str, level: int
) -> None:
    """ONNX Runtime takes any shape for it, and its optimizations believe none."""
    case = GuardCase({"x": (data_type, [])}, (), {})
    tried = session(contract_model(case.contract, case.model), level)
    for shape in ([], [1], [5], [0], [2, 2]):
        if data_type == "BFLOAT16":
            array = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
                np.zeros(shape, np.uint16), onnx.TensorProto.BFLOAT16
            )
            ok, broken = tried.run_with_ort_values(["ok", "broken"], {"x": array})
            ok, broken = ok.numpy(), broken.numpy()
        else:
            dtype = NUMPY_TYPES.get(data_type, np.dtype(object))
            array = np.full(shape, "a" if data_type == "STRING" else 1, dtype)
            ok, broken = tried.run(None, {"x": array})
        assert (bool(ok), broken.tolist()) == (not shape, [0] if shape else [])


@pytest.mark.parametrize("allow_empty", [False, True])
def test_the_rules_that_are_no_conditions_come_after_these(allow_empty: bool) -> None:
    types: dict[str, Any] = {"x": ("INT64", ["n", "m"]), "y": ("FLOAT", ["n"])}
    types["z"] = ("INT8", [])
    types["w"] = ("INT32", None)
    conditions = (values(0, 9), sizes("n*m", None, 6))
    inputs: Any = {"x": np.full((2, 4), 10), "y": np.zeros(3, np.float32)}
    inputs |= {"z": np.zeros(1, np.int8), "w": np.zeros(5, np.int32)}
    case = GuardCase(types, conditions, inputs, allow_empty, {"w": [4]})
    made = contract_model(case.contract, case.model)
    least = 0 if allow_empty else 1
    properties = {each.key: each.value for each in made.metadata_props}
    assert properties == {
        "model": case.contract["digest"],
        "rule.0": "each value of x is from 0 to 9",
        "rule.1": "n*m is at most 6",
        "rule.2": rule_of_size("n", least),
        "rule.3": rule_of_size("m", least),
        "rule.4": "input 'z' must have no dimension",
        "rule.5": "input 'w' must have the shape [4]",
    }
    assert [each.name for each in made.graph.input] == ["x", "y", "z", "w"]
    ok, broken = answer(case)
    assert (bool(ok), broken.tolist()) == (False, [0, 1, 2, 4, 5])


def test_a_guard_is_standard_onnx_that_old_runtimes_read() -> None:
    case = DIRECTED[0]
    made = contract_model(case.contract, case.model)
    assert (made.ir_version, made.producer_name) == (8, "onnxgather")
    assert [(each.domain, each.version) for each in made.opset_import] == [("", 18)]
    assert not made.functions
    assert {each.domain for each in made.graph.node} == {""}
    (x,) = made.graph.input
    assert x.type.tensor_type.elem_type == onnx.TensorProto.INT64
    # No size is named: a runtime may believe that sizes of one name are one number.
    assert [each.WhichOneof("value") for each in x.type.tensor_type.shape.dim] == [None]
    ok, broken = made.graph.output
    assert ok == helper.make_tensor_value_info("ok", onnx.TensorProto.BOOL, [])
    assert broken == helper.make_tensor_value_info(
        "broken", onnx.TensorProto.INT64, [None]
    )


def test_a_contract_that_speaks_of_no_input_has_a_guard_too() -> None:
    case = GuardCase({"x": ("INT64", [3])}, (), {})
    made = contract_model(case.contract, case.model)
    assert not made.graph.input
    ok, broken = answer(case)
    assert (bool(ok), broken.tolist(), broken.dtype) == (True, [], np.int64)


def test_only_the_inputs_that_the_contract_speaks_of_are_there() -> None:
    types: Any = {"a": ("INT64", [3]), "b": ("INT64", ["n"]), "c": ("INT64", [2])}
    types["d"] = ("FLOAT", [1])
    case = GuardCase(types, (values(0, 2, input="c"),), {})
    made = contract_model(case.contract, case.model)
    assert [each.name for each in made.graph.input] == ["b", "c"]


def test_a_scalar_with_a_default_may_be_left_out() -> None:
    proto = written("""
        (float[3] table, int64 k) => (y)
        <int64 k = {1}>
        {
            y = Gather (table, k)
        }
    """)
    contract = og.audit(proto, levels=()).contract
    (condition,) = contract["conditions"]
    assert condition["input"] == "k"
    # `check_inputs` asks for an input that a condition is of.
    guard = contract_model(contract, proto)
    assert not [each for each in guard.graph.initializer if each.name == "k"]
    bare: dict[str, Any] = contract | {"conditions": []}
    og.check_inputs(bare, {})
    guard = contract_model(bare, proto)
    check_model(guard)
    tried = session(guard)
    assert [tried.run(["ok"], fed)[0] for fed in ({}, {"k": np.array([1, 2])})] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("data_type", "condition", "sentence"),
    [
        (
            "BFLOAT16",
            values(0, 2),
            "must be of an input of numbers, got BFLOAT16 'x'",
        ),
        ("STRING", values(0, 2), "must be of an input of numbers, got STRING 'x'"),
        ("FLOAT", minus(0, 2), "must be of an input of integers, got FLOAT 'x'"),
        (
            "UINT64",
            values(None, 2, low_expression="n*n*n"),
            "must have ends from -2^62 to 2^62 for UINT64, got n*n*n",
        ),
        (
            "FLOAT",
            values(None, None, high_expression="99*n*n"),
            "must have ends from -2^62 to 2^62 for FLOAT, got 99*n*n",
        ),
    ],
)
def test_a_condition_that_no_guard_computes_is_one_sentence(
    data_type: str, condition: Condition, sentence: str
) -> None:
    case = GuardCase({"x": (data_type, ["n", 2])}, (condition,), {})
    with pytest.raises(og.OnnxGatherError) as caught:
        contract_model(case.contract, case.model)
    assert str(caught.value) == f"the contract: $.conditions[0] {sentence}"


@pytest.mark.parametrize("name", ["ok", "broken"])
def test_an_input_with_the_name_of_an_output_is_refused(name: str) -> None:
    case = GuardCase({name: ("INT64", ["n"])}, (), {})
    with pytest.raises(og.OnnxGatherError) as caught:
        contract_model(case.contract, case.model)
    assert (
        str(caught.value)
        == "the model: an input must not have the name of an output of the guard, got"
        f" '{name}'"
    )


def test_an_input_without_a_data_type_has_no_guard() -> None:
    model = GuardCase({"x": ("INT64", ["n"])}, (), {}).model
    model.graph.input[0].type.tensor_type.elem_type = 99
    contract = og.audit(model, levels=()).contract
    with pytest.raises(og.OnnxGatherError) as caught:
        contract_model(contract, model)
    assert (
        str(caught.value)
        == "the model: input 'x' must have a data type of ONNX, got 'data type 99'"
    )


def test_a_guard_is_of_the_model_of_its_contract() -> None:
    one, other = (GuardCase({"x": (name, ["n"])}, (), {}) for name in ("INT8", "INT16"))
    with pytest.raises(
        og.FileFormatError, match=r"\$\.digest must be that of the model"
    ):
        contract_model(one.contract, other.model)


def other_operator(right: str, wrong: str) -> Mistake:
    """A guard has another operator in the place of one."""

    def mistake(add: Add) -> Add:
        def changed(nodes: Any, operator: str, *inputs: str, **attributes: Any) -> str:
            taken = wrong if operator == right else operator
            return add(nodes, taken, *inputs, **attributes)

        return changed

    return mistake


def first_input_alone(operator: str) -> Mistake:
    """A guard lacks an operator: its first input stands for its output."""

    def mistake(add: Add) -> Add:
        def changed(nodes: Any, name: str, *inputs: str, **attributes: Any) -> str:
            if name == operator:
                return inputs[0]
            return add(nodes, name, *inputs, **attributes)

        return changed

    return mistake


MISTAKES = {
    "an end is not included": other_operator("GreaterOrEqual", "Greater"),
    "the other end is not included": other_operator("LessOrEqual", "Less"),
    "one of all is enough": other_operator("And", "Or"),
    "NaN is a number": other_operator("IsNaN", "IsInf"),
    "a difference is a sum": other_operator("Sub", "Add"),
    "a difference wraps around": other_operator("Xor", "And"),
    "UINT64 is not moved": first_input_alone("Add"),
    "a product is its first factor": first_input_alone("Mul"),
    "a digit is not carried": first_input_alone("Mod"),
    "all columns": first_input_alone("Slice"),
    "no other numbers": first_input_alone("Or"),
}


@pytest.mark.parametrize("name", one_quick_in(4, MISTAKES))
def test_a_planted_mistake_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GuardNodes, "add", MISTAKES[name](GuardNodes.add))

    try:
        is_seen = any(
            not agrees(case, outputs["ok"], outputs["broken"])
            for case, outputs in answered(DIRECTED)
        )
    except Exception:  # ONNX refuses the guard
        is_seen = True
    assert is_seen


@pytest.mark.slow
@pytest.mark.parametrize("of", ["values", "difference", "size", "sizes"])
@pytest.mark.parametrize("holds", [True, False])
def test_both_answers_are_drawn_of_each_kind_of_condition(of: str, holds: bool) -> None:
    def is_such(case: GuardCase) -> bool:
        first = next(iter(case.conditions), None)
        broken = case.broken()
        return first is not None and first.of == of and (broken == []) == holds

    # The smallest case would take ten times as long.
    any_case = settings(phases=[Phase.generate], max_examples=5000)
    assert find(guard_cases(), is_such, settings=any_case).conditions
