from __future__ import annotations

import numpy as np
import pytest

import onnxgather as og
from onnxgather.certificates.certify import certify

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
