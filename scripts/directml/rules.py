"""The rules of onnxgather's descriptors, by the names that the recordings give them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import onnxgather as og

RECORDINGS = Path(__file__).parents[2] / "tests" / "data" / "observed"

Raw = dict[str, Any]
"""A descriptor as `to_dict` spells it, valid or not."""


class Rule(NamedTuple):
    """What is refused, in the words of onnxgather's own message."""

    message: str
    """{} stands for the names and the values of a descriptor."""
    accepted: str | None = None
    """Why the rule holds although DirectML accepts some descriptors that break it."""


def load_rules() -> dict[str, Rule]:
    """Return the rules by name, those of a tensor first."""
    text = (RECORDINGS / "rules.json").read_text(encoding="utf-8")
    return {name: Rule(**rule) for name, rule in json.loads(text).items()}


def broken_rule(raw: Raw) -> str | None:
    """Return which rule onnxgather says that a descriptor breaks; None where it accepts it.

    Raises:
        DescriptorError: It breaks a rule that has no name.
    """
    try:
        og.from_dict(raw)
    except og.DescriptorError as error:
        for name, pattern in _patterns().items():
            if pattern.fullmatch(str(error)):
                return name
        raise
    return None


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    def pattern(message: str) -> re.Pattern[str]:
        return re.compile(re.escape(message).replace(r"\{\}", "(.+)"))

    return {name: pattern(rule.message) for name, rule in load_rules().items()}
