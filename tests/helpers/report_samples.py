"""Reports made by hand: real cases and expected arrays, with planted wrong outputs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import numpy.typing as npt

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase, GatherNode, NodeCase
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.results import CaseResult, Element, Report, Result, ResultKind
from onnxgather.core.options import OutOfRange

Array = npt.NDArray[Any]

MADE = "2026-11-21T12:00:00Z"
MACHINE = "Linux 6.1 x86_64, 2 cores"

CPU = LaneInfo(
    "cpu",
    "CPUExecutionProvider",
    {"onnxruntime": "1.31.1", "python": "3.11.7"},
    ("CPU",),
    "/usr/bin/python3",
)
OPENVINO = LaneInfo(
    "openvino",
    "OpenVINOExecutionProvider",
    {"onnxruntime": "1.24.1", "openvino": "2025.4"},
)
DIRECTML = LaneInfo(
    "directml",
    "DmlExecutionProvider",
    not_run="onnxruntime has no DmlExecutionProvider",
)

DIFF = Result(
    "openvino",
    "DIFF",
    ResultKind.ELEMENTS,
    "1 of 4 elements differ, first OutputTensor[1,0]: expected 5.0 (00 00 a0 40), got"
    " 0.0 (00 00 00 00)",
    ("Clip", "Gather"),
    1,
    4,
    Element(
        (1, 0),
        "5.0",
        "00 00 a0 40",
        "0.0",
        "00 00 00 00",
        "output[1,0] = input[1, 2] = 5",
    ),
)
ERROR = Result(
    "openvino",
    "ERROR",
    ResultKind.FAILED,
    "OpenVINOExecutionProvider failed: no such layout",
    message="no such layout",
)
ELSEWHERE = Result(
    "openvino", "NOT-RUN", ResultKind.NOT_RUN, "Gather went to CPUExecutionProvider"
)
KNOWN = Result(
    "openvino",
    "KNOWN",
    ResultKind.ELEMENTS,
    "2 of 4 elements differ",
    ("Gather",),
    found="DIFF",
    known="Zeros where an index is out of range (https://example.com/1)",
)
FIXED = Result(
    "openvino",
    "FIXED",
    ResultKind.SAME,
    "passes, although it is a known difference",
    ("Gather",),
    known="Crashes below 1.25 (https://example.com/2)",
)


def passed(lane: str, *nodes: str) -> Result:
    """A result that passed."""
    return Result(lane, "PASS", ResultKind.SAME, nodes=nodes)


def absent(lane: LaneInfo = DIRECTML) -> Result:
    """A result of a lane that did not start."""
    return Result(lane.name, "NOT-RUN", ResultKind.NOT_STARTED, lane.not_run)


def gather(
    data_type: str = "FLOAT32",
    sizes: tuple[int, int] = (2, 3),
    count: int = 2,
    strides: tuple[int, int] | None = None,
    output_strides: tuple[int, int] | None = None,
) -> og.GatherDesc:
    """A gather of `count` columns of a matrix."""
    return og.GatherDesc(
        og.TensorDesc(data_type, sizes, strides),
        og.TensorDesc("INT64", [1, count]),
        og.TensorDesc(data_type, [sizes[0], count], output_strides),
        axis=1,
        index_dimensions=1,
    )


def gather_case(
    name: str = "gather/float32/int64",
    desc: og.Descriptor | None = None,
    indices: list[Any] | None = None,
    out_of_range: OutOfRange = "clamp",
) -> DescriptorCase:
    """A case whose data counts up from 0."""
    desc = desc or gather()
    tensor = desc.input_tensor
    data = np.arange(np.prod(tensor.array_shape)).astype(tensor.data_type.numpy)
    index = np.array([2, 0] if indices is None else indices)
    index = index.astype(desc.indices_tensor.data_type.numpy)
    index = index.reshape(desc.indices_tensor.array_shape)
    return DescriptorCase(
        name, desc, data.reshape(tensor.array_shape), index, out_of_range
    )


def bare_case() -> NodeCase:
    """A node that ONNX forbids."""
    rule = "batch sizes must be equal, got 2 and 1"
    node = GatherNode("GatherND", {"batch_dims": 1}, (2, 2), rule)
    return NodeCase(
        "bare/batches", node, np.zeros((2, 3), "f4"), np.zeros((1, 1), "i8")
    )


def entry(
    case: Case, *results: Result, got: dict[str, Array] | None = None
) -> CaseResult:
    """A case on all lanes, with the evidence that a check keeps."""
    return CaseResult.of(case, results, got or {})


def spoiled(case: Case, *places: int) -> Array:
    """The expected array of a case with zeros at some places of its buffer."""
    expected = case.expected()
    assert not isinstance(expected, str)
    expected.reshape(-1)[list(places)] = 0
    return expected


def properties(suite: ET.Element) -> dict[str | None, str | None]:
    """The properties of suites of a JUnit report, by their names."""
    return {one.get("name"): one.get("value") for one in suite.iter("property")}


def report_of(lanes: list[LaneInfo], *cases: CaseResult, **more: Any) -> Report:
    """A report of some lanes and cases."""
    return Report("0.1.0", MADE, MACHINE, tuple(lanes), list(cases), **more)


def small() -> Report:
    """A report with every state, of 3 lanes."""
    case = gather_case("gather/a")
    return report_of(
        [CPU, OPENVINO, DIRECTML],
        entry(
            case,
            passed("cpu", "Gather"),
            DIFF,
            absent(),
            got={"openvino": spoiled(case, 2)},
        ),
        entry(gather_case("gather/b"), passed("cpu"), ERROR, absent()),
        entry(gather_case("gather/c"), passed("cpu"), KNOWN, absent()),
        entry(gather_case("gather/d").wrapped_in(), passed("cpu"), FIXED, absent()),
        entry(gather_case("gather/e"), passed("cpu"), ELSEWHERE, absent()),
        entry(gather_case("gather/f"), passed("cpu"), passed("openvino"), absent()),
    )


HOSTILE = "a\x1b[31m\x00b\udc80\u202e</name>\"'&\n🦖"
