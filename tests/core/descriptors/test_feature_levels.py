"""The table of feature levels against what DirectML.dll of those levels accepts."""

from __future__ import annotations

import json
import lzma
from itertools import product
from typing import Any

import pytest
from folders import OBSERVED
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.core.descriptors.datatypes import INDEX_TYPES
from onnxgather.core.descriptors.feature_levels import FEATURE_LEVELS

RECORDING = OBSERVED / "feature_levels.json.xz"
DLLS: list[dict[str, Any]] = json.loads(lzma.decompress(RECORDING.read_bytes()))

# DirectML 1.0.2006, a preview that reports 2_1, already takes all index types in 4
# dimensions; the documentation says UINT32 alone.
PREVIEW = "1.0.2006.1020"
EARLY = {
    (operator, data_type, index_type, 4)
    for operator in ("GATHER", "GATHER_ELEMENTS", "GATHER_ND")
    for data_type in (
        *("FLOAT32", "FLOAT16", "INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8"),
    )
    for index_type in ("INT64", "INT32", "UINT64")
}


NUMBERS = {"GATHER": "0, 0", "GATHER_ELEMENTS": "0", "GATHER_ND": "{0}, 1"}


def level_of(operator: str, data_type: str, index_type: str, count: int) -> str:
    """Return the level of a descriptor with these types and dimensions."""
    ones = "x".join("1" * count)
    numbers = NUMBERS.get(operator, "{0}, 1, 0").format(count)
    data = f"{data_type} {ones}"
    desc = descriptor(f"{operator}: {data}, {index_type} {ones}, {data}, {numbers}")
    return og.minimum_feature_level(desc)


def within(feature_level: str) -> set[tuple[str, str, str, int]]:
    """Return what the table says that a DLL of a level takes."""
    every = product(og.OPERATORS, og.TensorDataType, INDEX_TYPES, range(1, 9))
    most = FEATURE_LEVELS.index(feature_level)
    return {
        (operator, data_type.name, index_type.name, count)
        for operator, data_type, index_type, count in every
        if FEATURE_LEVELS.index(level_of(operator, data_type, index_type, count))
        <= most
    }


@pytest.mark.parametrize("dll", DLLS, ids=lambda dll: dll["version"])
def test_every_recorded_dll_accepts_what_the_table_says(dll: dict[str, Any]) -> None:
    accepted: set[tuple[str, str, str, int]] = {
        (*key.split(), count)
        for key, counts in dll["accepted"].items()
        for count in counts
    }
    early = EARLY if dll["version"] == PREVIEW else set[tuple[str, str, str, int]]()
    assert accepted == within(dll["feature_level"]) | early
    assert not within(dll["feature_level"]) & early


def test_the_dlls_span_the_levels_of_gathers() -> None:
    levels = {dll["version"]: dll["feature_level"] for dll in DLLS}
    assert levels == {
        PREVIEW: "2_1",
        "1.4.0.0": "3_0",
        "1.5.1.0": "3_1",
        "1.7.0.0": "4_1",
        "1.15.4.0": "6_4",
    }
    assert len(EARLY) == 72


def test_the_minimum_of_a_device_is_no_ceiling() -> None:
    # Devices of all these levels were asked, and accepted the same.
    for dll in DLLS:
        asked = FEATURE_LEVELS[: FEATURE_LEVELS.index(dll["feature_level"]) + 1]
        assert dll["devices"] == list(asked)
