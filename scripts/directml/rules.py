"""The rules of onnxgather's descriptors, by the names that the recordings give them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import onnxgather as og

RECORDINGS = Path(__file__).parents[2] / "tests" / "data" / "observed"

RULES: dict[str, dict[str, Any]] = json.loads(
    (RECORDINGS / "rules.json").read_text(encoding="utf-8")
)
"""Of each rule the `messages` with which onnxgather refuses a descriptor, {} for their
values.

Where DirectML accepts some descriptors that break the rule, `accepted` says why it
holds anyway.
"""

_PATTERNS = [
    (name, re.compile(re.escape(message).replace(r"\{\}", "(.+)")))
    for name, rule in RULES.items()
    for message in rule["messages"]
]

Raw = dict[str, Any]
"""A descriptor as `to_dict` spells it, valid or not."""


def broken_rule(raw: Raw) -> str | None:
    """Name the first rule by which onnxgather refuses a descriptor, or None.

    Raises:
        DescriptorError: The descriptor breaks a rule that has no name.
    """
    try:
        og.from_dict(raw)
    except og.DescriptorError as error:
        for name, pattern in _PATTERNS:
            if pattern.fullmatch(str(error)):
                return name
        raise
    return None
