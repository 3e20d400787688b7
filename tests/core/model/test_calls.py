"""How many calls of Python a translation takes: a number that no machine changes."""

from __future__ import annotations

import cProfile
import pstats
from typing import Any

from different_descriptors import different_descriptors

import onnxgather as og
from onnxgather.core.options import POLICIES, OutOfRange

MOST_CALLS = 900
"""Calls for each descriptor in the mean, those of functions in C included."""


def translate(documents: list[dict[str, Any]]) -> None:
    """Translate descriptors from dicts to the bytes of models."""
    policies: list[OutOfRange] = [*POLICIES]
    for number, document in enumerate(documents):
        policy = policies[number % len(policies)]
        model = og.to_onnx(og.from_dict(document), policy)
        model.SerializeToString()


def test_a_translation_takes_at_most_900_calls() -> None:
    """From a dict to a serialized model, over all operators, types and policies."""
    documents = [og.to_dict(desc) for desc in different_descriptors(264)]
    translate(documents[:8])  # what is imported late is imported now
    profile = cProfile.Profile()
    profile.enable()
    translate(documents)
    profile.disable()
    calls: int = vars(pstats.Stats(profile))["total_calls"]
    assert 200 < calls / len(documents) <= MOST_CALLS
