"""ONNX's own node tests of the gather family, brought in as DirectML descriptors.

ONNX Runtime's DirectML provider brings these operators in by one rule, restated here:
every tensor gets leading ones up to the largest rank of the three, the axis moves
along, and the ranks that the operator had are what the descriptor counts.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array

OPERATORS = {
    "Gather": "gather",
    "GatherElements": "gatherelements",
    "GatherND": "gathernd",
}
"""ONNX's operators and the modules of `onnx.backend.test.case.node` that hold their
cases."""

OUTSIDE_DIRECTML: dict[str, str] = {}
"""Cases that DirectML cannot take, with the reason."""


@dataclass(frozen=True)
class BackendCase:
    """One node with its inputs and what it must give."""

    operator: str
    attributes: dict[str, int]
    data: Array
    indices: Array
    expected: Array


def collect() -> dict[str, BackendCase]:
    """Return the cases by their names."""
    package: Any = importlib.import_module("onnx.backend.test.case.node")
    for module in OPERATORS.values():
        # the module adds its cases to the package's
        importlib.import_module(f"{package.__name__}.{module}")
    found: dict[str, BackendCase] = {}
    for case in package._NodeTestCases:
        nodes = case.model.graph.node
        if len(nodes) == 1 and nodes[0].op_type in OPERATORS:
            attributes = {
                attribute.name: attribute.i for attribute in nodes[0].attribute
            }
            for (data, indices), (expected,) in case.data_sets:
                assert case.name not in found
                found[case.name] = BackendCase(
                    nodes[0].op_type, attributes, data, indices, expected
                )
    return found


CASES = collect()


def described(array: Array, count: int) -> og.TensorDesc:
    """Return an array's tensor, with leading ones up to `count` dimensions."""
    sizes = [1] * (count - array.ndim) + list(array.shape)
    return og.TensorDesc(array.dtype.name.upper(), sizes)


def descriptor(case: BackendCase) -> og.Descriptor:
    """Return the descriptor that ONNX Runtime's DirectML provider makes of a node."""
    count = max(case.data.ndim, case.indices.ndim, case.expected.ndim)
    data, indices, output = (
        described(a, count) for a in (case.data, case.indices, case.expected)
    )
    if case.operator == "GatherND":
        return og.GatherND1Desc(
            data,
            indices,
            output,
            input_dimension_count=case.data.ndim,
            indices_dimension_count=case.indices.ndim,
            batch_dimension_count=case.attributes.get("batch_dims", 0),
        )
    axis = case.attributes.get("axis", 0)
    axis += case.data.ndim if axis < 0 else 0
    axis += count - case.data.ndim
    if case.operator == "GatherElements":
        return og.GatherElementsDesc(data, indices, output, axis=axis)
    return og.GatherDesc(
        data, indices, output, axis=axis, index_dimensions=case.indices.ndim
    )


def test_the_installed_onnx_has_ten_cases_and_directml_takes_all() -> None:
    assert sorted(CASES) == [
        "test_gather_0",
        "test_gather_1",
        "test_gather_2d_indices",
        "test_gather_elements_0",
        "test_gather_elements_1",
        "test_gather_elements_negative_indices",
        "test_gather_negative_indices",
        "test_gathernd_example_float32",
        "test_gathernd_example_int32",
        "test_gathernd_example_int32_batch_dim1",
    ]
    operators = [case.operator for case in CASES.values()]
    assert {name: operators.count(name) for name in OPERATORS} == {
        "Gather": 4,
        "GatherElements": 3,
        "GatherND": 3,
    }
    assert OUTSIDE_DIRECTML == {}


@pytest.mark.parametrize("name", sorted(CASES.keys() - OUTSIDE_DIRECTML.keys()))
@pytest.mark.parametrize("policy", ["clamp", "error", "zero", "directml"])
@pytest.mark.parametrize("compute", [og.reference, og.run])
def test_a_backend_case_gives_its_expected_output(
    name: str, policy: Any, compute: Any
) -> None:
    case = CASES[name]
    desc = descriptor(case)
    data = np.ascontiguousarray(case.data).reshape(desc.input_tensor.sizes)
    indices = np.ascontiguousarray(case.indices).reshape(desc.indices_tensor.sizes)
    expected = np.ascontiguousarray(case.expected).reshape(desc.output_tensor.sizes)
    found = compute(desc, data, indices, policy)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()
