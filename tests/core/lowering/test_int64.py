"""What the providers compute wrongly with INT64, on all pairs of 25 values at edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx_texts import model_of as written
from runtime_faults import CPU_COMPARES_HALVES

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution.elsewhere.hosts import find_runtime
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.execution.session import Session

_NEAR = [2**bits + k for bits in (31, 32) for k in (-1, 0, 1)]
_ABOVE = [0, 1, 2, 5, 100, *_NEAR, 2**40, 2**53, 2**63 - 1]
_BELOW = [-1, -2, -5, *(-n for n in _NEAR), -(2**40), -(2**63)]
EDGES = np.array([*_ABOVE, *_BELOW], np.int64)
FIRST, SECOND = np.repeat(EDGES, EDGES.size), np.tile(EDGES, EDGES.size)
Operation = Callable[..., Any]

OPERATORS: dict[str, tuple[Operation, dict[str, Any], tuple[int, ...], int, int]] = {
    "Less": (np.less, {}, (), 0, 66),
    "Greater": (np.greater, {}, (), 0, 66),
    "Equal": (np.equal, {}, (), 0, 0),
    "Min": (np.minimum, {}, (), 66, 66),
    "Max": (np.maximum, {}, (), 66, 66),
    "Add": (np.add, {}, (), 0, 0),
    "Mul": (np.multiply, {}, (), 0, 0),
    "Clip": (np.clip, {}, (-5, 4), 150, 150),
    "Cast": (np.bool_, {"to": TensorProto.BOOL}, (), 0, 150),
}
"""The operation in numpy, attributes, bounds, and how many of 625 are wrong on the CPU
provider before ONNX Runtime 1.32, which gets all of them right, and how many on
DirectML's."""


def model_of(operator: str) -> tuple[bytes, dict[str, Array]]:
    """A model of an operator, whose output is INT64, and its inputs."""
    _, attributes, bounds, *_ = OPERATORS[operator]
    inputs = {"a": FIRST} if attributes or bounds else {"a": FIRST, "b": SECOND}
    constants = [f"int64 bound{k} = {{{n}}}" for k, n in enumerate(bounds)]
    names = [*inputs, *(f"bound{k}" for k in range(len(bounds)))]
    options = "".join(f" <{name} = {number}>" for name, number in attributes.items())
    size = FIRST.size
    typed = ", ".join(f"int64[{size}] {name}" for name in inputs)
    model = written(f"""g ({typed}) => (int64[{size}] y) <{", ".join(constants)}> {{
        result = {operator}{options} ({", ".join(names)})
        y = Cast <to = {TensorProto.INT64}> (result)
    }}""")
    return model.SerializeToString(), inputs


def wrong(operator: str, provider: str) -> int:
    """How many elements of the output are wrong."""
    model, inputs = model_of(operator)
    expected = OPERATORS[operator][0](*inputs.values(), *OPERATORS[operator][2])
    found = Session(model, provider, threads=1).run(inputs)
    return int((found != expected.astype(np.int64)).sum())


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("operator", OPERATORS)
def test_the_cpu_provider_is_wrong_in_so_many_pairs(operator: str) -> None:
    assert wrong(operator, "cpu") == (
        OPERATORS[operator][3] if CPU_COMPARES_HALVES else 0
    )


@pytest.mark.slow
@pytest.mark.skipif(
    not find_runtime(PROVIDERS["directml"]),
    reason="scripts/directml/setup.sh has not run",
)
@pytest.mark.parametrize("operator", OPERATORS)
def test_the_directml_provider_is_wrong_in_so_many_pairs(operator: str) -> None:
    assert wrong(operator, "directml") == OPERATORS[operator][4]
