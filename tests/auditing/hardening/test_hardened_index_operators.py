"""Operators with indices other than ONNX's own gathers, hardened: each index out of
range does what the policy says, or the node is left and named."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from index_models import IndexModel, index_models
from network_draft import results, session
from rings import one_quick_in

from onnxgather.auditing.audit import Premises
from onnxgather.auditing.hardening.harden import HardenedModel, hardened
from onnxgather.auditing.hardening.verify import verify
from onnxgather.core.model.network import read_network
from onnxgather.core.model.own import drop_entries

MODELS = {made.name: made for made in index_models()}

NEW = (
    () if onnxruntime.__version__ == "1.24.4" else ("GatherPacked", "MRotaryEmbedding")
)
"""The operators that the oldest ONNX Runtime has not."""

CLAMPED = [
    name
    for name, made in MODELS.items()
    if made.op in ("ArrayFeatureExtractor", "CropAndResize", *NEW)
    or name == "GatherND Microsoft"
]

LEFT = {made.op: name for name, made in MODELS.items() if made.row.hardened == "leave"}
"""A model of each operator that is left, by the operator."""

RUNNING = [
    op
    for op, name in LEFT.items()
    if MODELS[name].opens
    and op not in ("TensorScatter", "Attention", "SparseAttention")
]
"""Those that run on each version, and of which inputs can be made."""


def done(made: IndexModel, policy: str = "clamp") -> HardenedModel:
    return hardened(Premises(read_network(made.model)), policy)


@pytest.mark.parametrize("policy", ["clamp", "zero", "index=1"])
@pytest.mark.parametrize("name", CLAMPED)
def test_an_index_out_of_range_does_what_the_policy_says(
    name: str, policy: str
) -> None:
    made = MODELS[name]
    result = done(made, policy)
    assert result.left == []
    assert [each.operator for each in result.rewritten] == [made.op]
    own, new = session(made.model), session(result.model)
    inside = [results(own, made.with_index(index))["y0"] for index in range(made.size)]
    for index, wanted in enumerate(inside):
        got = results(new, made.with_index(index))["y0"]
        assert got.tobytes() == wanted.tobytes()
    for index in made.outside:
        wanted = inside[0 if index < 0 else -1]
        # A position is clamped under each policy.
        if policy == "index=1" and made.op != "MRotaryEmbedding":
            wanted = inside[1]
            if made.op == "GatherND":  # the other coordinate is 0
                wanted = made.inputs["data"][1, :1]
        got = results(new, made.with_index(index))["y0"]
        assert got.tobytes() == np.asarray(wanted).tobytes(), index


@pytest.mark.parametrize("name", CLAMPED)
def test_a_hardened_operator_is_verified(name: str) -> None:
    made = MODELS[name]
    premises = Premises(read_network(made.model))
    inputs = made.inputs
    checks = [*verify(premises, hardened(premises), inputs=inputs)]
    assert [check.check for check in checks if not check.holds] == []


@pytest.mark.parametrize("op", one_quick_in(4, LEFT))
def test_a_node_that_is_not_limited_is_left_and_named(op: str) -> None:
    made = MODELS[LEFT[op]]
    result = done(made)
    assert result.rewritten == []
    assert [(left.operator, left.why) for left in result.left] == [
        (op, "its indices are not limited")
    ]
    drop_entries(result.light)
    assert result.model.SerializeToString() == made.model.SerializeToString()


@pytest.mark.parametrize("op", one_quick_in(5, RUNNING))
def test_a_model_with_a_node_left_is_verified(op: str) -> None:
    made = MODELS[LEFT[op]]
    premises = Premises(read_network(made.model))
    checks = [*verify(premises, hardened(premises), inputs=made.inputs)]
    assert [check.check for check in checks if not check.holds] == []
