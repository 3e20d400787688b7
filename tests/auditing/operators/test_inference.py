"""Operations that are alike share what ONNX infers of them, and no others do."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pytest
import random_operations
from msgspec.structs import replace
from onnx import helper
from rings import one_quick_in

from onnxgather.auditing.algebra.bounds import (
    FLOATS,
    Bounds,
    bounds_of_array,
    unknown,
)
from onnxgather.auditing.algebra.sizes import AnySize, Size, Symbol
from onnxgather.auditing.operators import inference
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.auditing.operators.inference import (
    FIRST_UNREAD,
    FLOATS_READ,
    NUMBERS_UNREAD,
    inferred_types,
)
from onnxgather.auditing.operators.output_types import RULES, output_types
from onnxgather.core.model.network import Operation
from onnxgather.core.model.values import NUMBERS, type_name


def call_of_node(
    operator: str,
    names: list[str],
    outputs: list[str],
    values: list[Bounds | None],
    version: int = 18,
    **attributes: Any,
) -> Call:
    """Return an operation with what is known of its inputs."""
    node = helper.make_node(operator, names, outputs, name=operator, **attributes)
    operation = Operation(
        name=node.name,
        operator=operator,
        domain="",
        inputs=tuple(names),
        outputs=tuple(outputs),
        attributes={},
        bodies={},
        nodes=[node],
    )
    return Call(operation, tuple(values), version)


def answers_kept() -> int:
    return inference.inferred_outputs.cache_info().currsize


def open_size(name: str) -> Size:
    return Size({(Symbol(name),): 1})


def test_operations_that_differ_in_names_share_an_answer() -> None:
    inference.inferred_outputs.cache_clear()
    for name in ("first", "second"):
        n = open_size(name)
        value = unknown("FLOAT", (n, 3, n))
        call = call_of_node("Transpose", [name], ["y" + name], [value], perm=[2, 1, 0])
        assert inferred_types(call) == [OpenType("FLOAT", (n, 3, n))]
    assert answers_kept() == 1


def test_weights_of_two_layers_share_an_answer() -> None:
    inference.inferred_outputs.cache_clear()
    for number in (1, 2):
        weights = bounds_of_array("FLOAT", np.full((4, 5), number, np.float32))
        value = unknown("FLOAT", (2, 4))
        call = call_of_node("MatMul", ["x", "w"], ["y"], [value, weights])
        assert inferred_types(call) == [OpenType("FLOAT", (2, 5))]
    assert answers_kept() == 1


def shaped(*sizes: AnySize) -> Bounds:
    return unknown("FLOAT", sizes)


def test_operations_that_onnx_sees_as_others_share_nothing() -> None:
    """They differ in one thing each: an attribute, an element, a size, and so on."""
    n = open_size("n")
    m = open_size("m")
    six = shaped(6)
    to_2_3 = bounds_of_array("INT64", np.array([2, 3]))
    to_3_2 = bounds_of_array("INT64", np.array([3, 2]))
    doubles = unknown("DOUBLE", (6,))
    square = shaped(n, n)
    calls = [
        (call_of_node("Reshape", ["x", "s"], ["y"], [six, to_2_3]), "FLOAT", (2, 3)),
        (call_of_node("Reshape", ["x", "s"], ["y"], [six, to_3_2]), "FLOAT", (3, 2)),
        (call_of_node("Softmax", ["x"], ["y"], [six]), "FLOAT", (6,)),
        (call_of_node("Softmax", ["x"], ["y"], [doubles]), "DOUBLE", (6,)),
        (call_of_node("Flatten", ["x"], ["y"], [shaped(2, 3)]), "FLOAT", (2, 3)),
        (
            call_of_node("Flatten", ["x"], ["y"], [shaped(2, 3)], axis=0),
            "FLOAT",
            (1, 6),
        ),
        (call_of_node("Add", ["x", "z"], ["y"], [square, six]), "FLOAT", (n, 6)),
        (
            call_of_node("Add", ["x", "z"], ["y"], [shaped(n, m), shaped(1)]),
            "FLOAT",
            (n, m),
        ),
        (
            call_of_node("Add", ["x", "z"], ["y"], [square, shaped(1)]),
            "FLOAT",
            (n, n),
        ),
    ]
    for _ in range(2):
        for call, data_type, sizes in calls:
            assert inferred_types(call) == [OpenType(data_type, sizes)]


def operations(operator: str) -> Iterator[Call]:
    """Yield random operations of an operator, whose inputs are known."""
    for seed in range(6):
        drawn = random_operations.drawn(seed, operator)
        names: list[str] = []
        values: list[Bounds | None] = []
        for position, array in enumerate(drawn.inputs):
            names.append("" if array is None else f"x{position}")
            known = None
            if array is not None:
                known = bounds_of_array(type_name(array), array)
            values.append(known)
        outputs = [f"y{k}" for k in range(drawn.outputs)]
        yield call_of_node(
            operator, names, outputs, values, drawn.version, **drawn.attributes
        )


def forgotten(call: Call, positions: Collection[int], types: Collection[str]) -> Call:
    """Return an operation of some of whose inputs the types are known alone.

    Args:
        call: The operation.
        positions: The numbers of these inputs.
        types: Their data types; others stay as they are.
    """
    inputs: list[Bounds | None] = []
    for position, value in enumerate(call.inputs):
        if value and position in positions and value.data_type in types:
            value = unknown(value.data_type, value.sizes)
        inputs.append(value)
    return replace(call, inputs=tuple(inputs))


def types_told(call: Call) -> list[tuple[str, object]]:
    """Return the types of outputs; an open size, which is always new, is a "?"."""
    told: list[tuple[str, object]] = []
    for data_type, sizes in output_types(call):
        shown = sizes and ["?" if isinstance(size, Size) else size for size in sizes]
        told.append((data_type, shown))
    return told


def reads(
    operator: str,
    monkeypatch: pytest.MonkeyPatch,
    positions: Collection[int] = range(99),
    types: Collection[str] = NUMBERS,
) -> bool:
    """Return whether the types of random operations depend on elements of inputs."""
    monkeypatch.setattr(inference, "NUMBERS_UNREAD", frozenset[str]())
    monkeypatch.setattr(inference, "FIRST_UNREAD", frozenset[str]())
    monkeypatch.setattr(inference, "FLOATS_READ", frozenset(RULES))
    for call in operations(operator):
        known_less = forgotten(call, positions, types)
        if inferred_types(call) != inferred_types(known_less):
            return True
        if types_told(call) != types_told(known_less):
            return True
    return False


@pytest.mark.parametrize("operator", one_quick_in(5, sorted(NUMBERS_UNREAD)))
def test_no_elements_of_these_operators_are_read(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not reads(operator, monkeypatch)


@pytest.mark.parametrize("operator", sorted(FIRST_UNREAD))
def test_no_elements_of_the_first_input_of_these_operators_are_read(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not reads(operator, monkeypatch, positions=[0])


@pytest.mark.parametrize(
    "operator", one_quick_in(5, sorted(RULES.keys() - NUMBERS_UNREAD - FLOATS_READ))
)
def test_no_elements_of_floats_are_read(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not reads(operator, monkeypatch, types=FLOATS)


@pytest.mark.parametrize(
    "operator", ["ConstantOfShape", "Expand", "Range", "Reshape", "Slice", "Tile"]
)
def test_an_operator_whose_elements_are_read_is_seen(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reads(operator, monkeypatch)
    first_counts = operator in ("ConstantOfShape", "Range")
    assert reads(operator, monkeypatch, positions=[0]) is first_counts


@pytest.mark.parametrize("operator", ["NonZero", "Resize"])
def test_floats_whose_elements_are_read_are_seen(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reads(operator, monkeypatch, types=FLOATS)
