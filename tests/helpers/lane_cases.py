"""Small gathers, and what becomes of them on one lane."""

from __future__ import annotations

import numpy as np
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase
from onnxgather.checking.lanes.lane import Lane
from onnxgather.checking.results import CaseResult
from onnxgather.checking.run import check_cases


def vector_gather(
    size: int,
    count: int = 1,
    data_type: str = "FLOAT32",
    index_type: str = "INT64",
    index_dimensions: int = 1,
) -> og.GatherDesc:
    """Return a gather of some elements of a vector."""
    text = f"{data_type} {size}, {index_type} {count}, {data_type} {count}"
    return descriptor(f"GATHER: {text}, 0, {index_dimensions}")


PAIR = vector_gather(4, 2)
DATA = np.array([1, 2, 3, 4], np.float32)


def pair(
    *indices: int, name: str = "case", out_of_range: og.OutOfRange = "error"
) -> DescriptorCase:
    """Return a gather of two elements of DATA."""
    array = np.array(indices or (3, 0))
    return DescriptorCase(name, PAIR, DATA, array, out_of_range)


def results(lane: Lane, *cases: Case) -> list[CaseResult]:
    """Return what becomes of cases on one lane, which is closed after it."""
    try:
        return list(check_cases(cases, [lane], [lane.start()], ()))
    finally:
        lane.close()


def told(lane: Lane, *cases: Case) -> list[tuple[str, str | None]]:
    """Return states and reasons; without cases those of a pair."""
    found = [result.results[0] for result in results(lane, *cases or (pair(),))]
    return [(result.state, result.reason) for result in found]
