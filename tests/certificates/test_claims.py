from __future__ import annotations

import numpy as np
import pytest

import onnxgather as og
from onnxgather.certificates.certify import certify
from onnxgather.options import POLICIES, TARGETS

pytest.importorskip("z3")


def gather(index_type: str, size: int = 5, count: int = 3) -> og.GatherDesc:
    """A GATHER of single elements."""
    return og.GatherDesc(
        og.TensorDesc("FLOAT32", [size]),
        og.TensorDesc(index_type, [count]),
        og.TensorDesc("FLOAT32", [count]),
        axis=0,
        index_dimensions=1,
    )


UNCHECKED = "no index is out of range on WebGPU's provider, which does not check it"
WIDE = "each index is from -2,147,483,648 to 2,147,483,583, so FLOAT32 of it fits INT32"
HALVED = "each index fits INT32 on WebGPU's provider, which reads the low half"


@pytest.mark.parametrize(
    ("index_type", "policy", "preconditions"),
    [
        ("INT64", "error", (WIDE, UNCHECKED)),
        ("UINT32", "error", (WIDE, UNCHECKED)),
        ("INT32", "error", (UNCHECKED,)),
        ("INT64", "clamp", (HALVED,)),
        ("INT32", "clamp", ()),
    ],
)
def test_a_certificate_for_webgpu_names_what_its_provider_needs(
    index_type: str, policy: og.OutOfRange, preconditions: tuple[str, ...]
) -> None:
    found = certify(gather(index_type), policy, "webgpu")
    assert found.state == "proved"
    assert found.preconditions == preconditions
    assert certify(gather(index_type), policy).preconditions == ()


def test_float32_rounds_the_bounds_of_the_precondition_to_what_int32_holds() -> None:
    assert np.float32(-(2**31)) == -(2**31)
    assert np.float32(2**31 - 65) < 2**31
    assert np.float32(2**31 - 64) == 2**31


def test_a_tuple_of_eight_coordinates_is_proved() -> None:
    sizes = [3, 2, 4, 2, 3, 1, 2, 2]
    desc = og.GatherNDDesc(
        og.TensorDesc("FLOAT32", sizes),
        og.TensorDesc("INT64", [2, 1, 3, 1, 1, 2, 1, 8]),
        og.TensorDesc("FLOAT32", [1, 2, 1, 3, 1, 1, 2, 1]),
        input_dimension_count=8,
        indices_dimension_count=8,
    )
    assert certify(desc, "clamp").state == "proved"


LARGE = [
    og.GatherDesc(
        og.TensorDesc("FLOAT32", [1000, 1000]),
        og.TensorDesc("INT64", [1, 100_000]),
        og.TensorDesc("FLOAT32", [100_000, 1000]),
        axis=0,
        index_dimensions=1,
    ),
    og.GatherElementsDesc(
        og.TensorDesc("FLOAT32", [100, 100, 10]),
        og.TensorDesc("INT64", [100, 100_000, 10]),
        og.TensorDesc("FLOAT32", [100, 100_000, 10]),
        axis=1,
    ),
    og.GatherNDDesc(
        og.TensorDesc("FLOAT32", [50, 60, 10]),
        og.TensorDesc("INT64", [1, 10_000_000, 2]),
        og.TensorDesc("FLOAT32", [1, 10_000_000, 10]),
        input_dimension_count=3,
        indices_dimension_count=2,
    ),
    og.GatherND1Desc(
        og.TensorDesc("FLOAT32", [10, 50, 60, 10]),
        og.TensorDesc("INT64", [1, 10, 1_000_000, 2]),
        og.TensorDesc("FLOAT32", [1, 10, 1_000_000, 10]),
        input_dimension_count=4,
        indices_dimension_count=3,
        batch_dimension_count=1,
    ),
]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("desc", LARGE, ids=lambda desc: desc.operator)
def test_outputs_of_100_000_000_elements_are_proved(
    desc: og.Descriptor, policy: og.OutOfRange
) -> None:
    for target in TARGETS:
        found = certify(desc, policy, target)
        assert found.state == "proved", (target, found)


def test_a_large_output_with_strides_is_undecided() -> None:
    desc = og.GatherDesc(
        og.TensorDesc("FLOAT32", [5]),
        og.TensorDesc("INT64", [5000]),
        og.TensorDesc("FLOAT32", [5000], strides=[2]),
        axis=0,
        index_dimensions=1,
    )
    why = "a coordinate behind ScatterElements that the model computes must be a constant"
    assert str(certify(desc)) == f"undecided: {why}"
