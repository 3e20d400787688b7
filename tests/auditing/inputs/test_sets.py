"""Sets of inputs at the ends of a contract: each meets it, and has the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from exported_networks import NETWORKS, NO_KERNEL
from onnx_graphs import written
from rings import one_quick_in

from onnxgather.auditing.audit import AuditedModel, Premises, audit_model
from onnxgather.auditing.hardening.verify import failure_text
from onnxgather.auditing.inputs.sets import RANDOM, InputSet, input_sets, meanings
from onnxgather.auditing.levels import Levels
from onnxgather.auditing.proof.contract import Condition, check_inputs
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.network import read_network


def audited(made: onnx.ModelProto, *conditions: Condition) -> AuditedModel:
    """Return the audit of a model with conditions that are given."""
    premises = Premises(read_network(made), None, conditions, levels=Levels(()))
    return audit_model(premises)


BOXES = written(
    "(int64[n, 4] box, float[n] x, int32[n, s] ids, float[s] w) => (y) "
    "{ y = Identity (x)  a = Identity (box)  b = Identity (ids)  c = Identity (w) }"
)

CONDITIONS = [
    Condition(of="values", input="box", low=0, high=1023),
    Condition(of="values", input="box", columns=(1, 3), low=5, high=900),
    Condition(of="difference", input="box", columns=(2, 0), low=0, high=1023),
    Condition(
        of="difference", input="box", columns=(3, 1), low=1, high_expression="2*n"
    ),
    Condition(of="values", input="ids", low_expression="-s", high_expression="s - 1"),
    Condition(of="sizes", expression="n + s", high=100),
    Condition(of="size", input="w", dim=0, expression="s", low=2, high=90),
    Condition(of="values", input="x", low=-1, high=2**24 + 1),
]


def values_of(condition: Condition, made: InputSet) -> tuple[list[float], Condition]:
    """Return the numbers that a condition is about, and it with numbers as ends."""
    arrays = made.arrays
    sizes = {"n": len(arrays["x"]), "s": len(arrays["w"])}
    plain = condition.with_numbers(sizes)
    if condition.of == "size":
        return [sizes["s"]], plain
    if condition.of == "sizes":
        return [sizes["n"] + sizes["s"]], plain
    array = arrays[condition.input or ""]
    if condition.of == "difference":
        first, second = condition.columns or (0, 0)
        return (array[:, first] - array[:, second]).tolist(), plain
    if condition.columns:
        array = array[:, [*condition.columns]]
    return array.ravel().tolist(), plain


def test_each_set_has_its_end_and_meets_the_contract() -> None:
    made = audited(BOXES, *CONDITIONS)
    sets, missing = input_sets(made, at_ends=True)
    assert missing == []
    assert sets[0].meaning == RANDOM
    expected: list[tuple[Condition, str]] = []
    for condition in made.contract.conditions:
        for side in ("low", "high"):
            expression = getattr(condition, f"{side}_expression")
            if expression is not None or getattr(condition, side) is not None:
                expected.append((condition, side))
    assert len(expected) == 15
    for (condition, side), made_set in zip(expected, sets[1:], strict=True):
        check_inputs(made.contract.plain, made_set.arrays)
        assert made_set.meaning.startswith(f"{condition}: {side} end, ")
        numbers, plain = values_of(condition, made_set)
        end = getattr(plain, side)
        # No float is 2^24 + 1.
        assert (end if end != 2**24 + 1 else 2**24) in numbers


def test_an_end_that_a_data_type_does_not_have_is_told() -> None:
    beyond = Condition(of="values", input="ids", low=-3, high=2**40)
    sets, missing = input_sets(audited(BOXES, beyond), at_ends=True)
    assert meanings(sets, missing) == [
        "set 0: random, in range",
        "set 1: each value of ids is at least -3 and not far above 0: low end, -3",
        "no set: each value of ids is at least -3 and not far above 0: high end,"
        " 1099511627776: no such inputs were found",
    ]


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        (
            Condition(of="size", input="w", dim=0, expression="s", low=2, high=5000),
            "a size is more than 4,096",
        ),
        (
            Condition(of="sizes", expression="2*n + 2*s", low=4, high=41),
            "no sizes were found that give it",
        ),
    ],
)
def test_a_size_that_is_too_large_or_does_not_exist_is_told(
    condition: Condition, why: str
) -> None:
    sets, missing = input_sets(audited(BOXES, condition), at_ends=True)
    assert [made.meaning for made in sets[1:]] == [
        f"{condition}: low end, {condition.low}"
    ]
    assert [*map(str, missing)] == [f"{condition}: high end, {condition.high}: {why}"]


def test_a_size_whose_inputs_are_too_large_together_is_told() -> None:
    made = written("(float[s, 8192] w) => (y) { y = Identity (w) }")
    condition = Condition(of="size", input="w", dim=0, expression="s", low=1, high=4096)
    _, missing = input_sets(audited(made, condition), at_ends=True)
    assert [*map(str, missing)] == [
        f"{condition}: high end, 4096: more than 16,777,216 elements"
    ]


def test_an_end_with_which_the_model_does_not_run_is_told() -> None:
    made = written(
        "(int64[1] length) => (y) <float[4] x = {0, 1, 2, 3}> "
        "{ y = Reshape (x, length) }"
    )
    condition = Condition(of="values", input="length", low=3, high=4)
    sets, missing = input_sets(audited(made, condition), at_ends=True)
    assert [made_set.meaning for made_set in sets] == [
        RANDOM,
        f"{condition}: high end, 4",
    ]
    (text,) = map(str, missing)
    assert text == (
        f"{condition}: low end, 3: the model does not run: Reshape fails: The input"
        " tensor cannot be reshaped to the requested shape. Input shape:{4}, requested"
        " shape:{3}"
    )


NODE = "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running "


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            f"{NODE}Add node. Name:'sum' Status Message: C:\\a\\element_wise_ops.h:563"
            " void onnxruntime::Init(ptrdiff_t) axis == 1 was false. Attempting to"
            " broadcast an axis by a dimension other than 1. 3 by 4",
            "sum (Add) fails: Attempting to broadcast an axis by a dimension other than"
            " 1. 3 by 4",
        ),
        (
            f"{NODE}MatMul node. Name:'' Status Message: matmul_helper.h:174 Compute"
            " MatMul dimension mismatch.",
            "MatMul fails: MatMul dimension mismatch",
        ),
        (
            f"{NODE}Gather node. Name:'' Status Message: indices element out of data"
            " bounds, idx=9",
            "Gather fails: indices element out of data bounds, idx=9",
        ),
        (
            "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid rank for input: i",
            "Invalid rank for input: i",
        ),
    ],
)
def test_a_message_of_onnx_runtime_is_cut_to_its_useful_part(
    message: str, text: str
) -> None:
    assert failure_text(message) == text


def test_both_ends_that_are_one_number_are_one_set() -> None:
    condition = Condition(of="values", input="ids", low=1, high=1)
    sets, missing = input_sets(audited(BOXES, condition), at_ends=True)
    assert meanings(sets, missing) == [
        "set 0: random, in range",
        "set 1: each value of ids is 1: low end, 1",
    ]


def test_defaults_are_kept_where_they_are_not_in_the_sets() -> None:
    made = written(
        "(int64[n] ids, float[1] x) => (y) <float[3] table = {0, 1, 2}> "
        "{ z = Gather (table, ids)  y = Add (z, x) }"
    )
    made.graph.initializer.append(
        onnx.numpy_helper.from_array(np.array([5], np.float32), "x")
    )
    sets, _ = input_sets(audited(made), at_ends=True, defaults=False)
    assert [[*made_set.arrays] for made_set in sets] == [["ids"]] * 3
    sets, _ = input_sets(audited(made))
    assert [*sets[0].arrays] == ["ids", "x"]


def test_no_random_inputs_beside_defaults_are_one_sentence() -> None:
    made = written("(int64[n] ids, int64[1] k) => (y) { y = Identity (ids) }")
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array([5]), "k"))
    condition = Condition(of="values", input="k", low=7, high=9)
    with pytest.raises(OnnxGatherError) as raised:
        input_sets(audited(made, condition), defaults=False)
    assert str(raised.value) == (
        "the model: no inputs can be made: no such inputs were found; give"
        " --inputs FILE"
    )


def test_a_model_that_needs_larger_sizes_runs_with_larger_ones() -> None:
    made = written(
        "(float[b, 1, n] x) => (y) { "
        "w = Constant <value = float[1, 1, 9] {1, 1, 1, 1, 1, 1, 1, 1, 1}> () "
        "y = Conv (x, w) }"
    )
    sets, _ = input_sets(audited(made))
    assert sets[0].arrays["x"].shape[2] >= 9


def test_the_least_size_is_an_end_of_a_size() -> None:
    condition = Condition(of="size", input="w", dim=0, expression="s", high=9)
    sets, missing = input_sets(audited(BOXES, condition), at_ends=True)
    assert [made.arrays["w"].shape for made in sets[1:]] == [(1,), (9,)]
    assert sets[1].meaning == "size 0 of w (s) is at most 9: low end, 1"
    assert missing == []


def test_a_size_that_must_be_large_has_no_other_end() -> None:
    condition = Condition(of="size", input="w", dim=0, expression="s", low=20)
    sets, missing = input_sets(audited(BOXES, condition), at_ends=True)
    assert [made.arrays["w"].shape for made in sets] == [(20,), (20,)]
    assert missing == []


NOT_MADE = {"mistral_kv.dyn.onnx"}
"""Networks whose sizes depend on one another under several names, so that they run with
no sizes that are drawn."""


@pytest.mark.parametrize(
    "name", one_quick_in(15, sorted({*NETWORKS} - NOT_MADE - NO_KERNEL))
)
def test_exported_networks_run_at_the_ends_of_their_contracts(name: str) -> None:
    network, _ = NETWORKS[name]
    plain: Any = network
    made = audit_model(Premises(read_network(plain), levels=Levels(())))
    sets, missing = input_sets(made, at_ends=True)
    for made_set in sets:
        check_inputs(made.contract.plain, made_set.arrays)
    ends = 0
    for condition in made.contract.conditions:
        low, high = condition.low, condition.high
        if condition.of == "size" and low is None:
            low = 1
        ends += (low is not None) + (high is not None and high != low)
        ends += condition.low_expression is not None
        ends += condition.high_expression is not None
    assert len(sets) + len(missing) == 1 + ends
    assert missing == []
