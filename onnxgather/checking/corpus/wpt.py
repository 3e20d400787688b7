"""Cases as Web Platform Tests of WebNN's gather, gatherElements and gatherND.

Source of the shape of a test: webnn/conformance_tests and webnn/resources/utils.js of
the Web Platform Tests. Source of what WebNN takes: its specification as of 26 June
2026.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxgather.checking.cases import Case, DescriptorCase, NodeCase
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.files import filled_in
from onnxgather.core.gather import gather_of

WEBNN_METHODS = {
    "Gather": "gather",
    "GatherElements": "gatherElements",
    "GatherND": "gatherND",
}
"""The method of MLGraphBuilder for each ONNX operator."""

WEBNN_DATA_TYPES = (
    "FLOAT32",
    "FLOAT16",
    "INT32",
    "UINT32",
    "INT64",
    "UINT64",
    "INT8",
    "UINT8",
)
"""The data types that DirectML and WebNN share."""

WEBNN_INDEX_TYPES = ("INT32", "UINT32", "INT64")
"""The data types of indices that WebNN's gathers take."""

LARGEST_TEST_RANK = 5
"""The largest rank that WebNN requires of every implementation."""

LARGEST_TEST_TENSOR = 4_096
"""The most elements of a tensor of a test; a test has them in its text."""

WPT_FOLDER = "cases/webnn/conformance_tests"
"""The folder of the tests. Below `cases` it is that of the Web Platform Tests."""

_LINE_LENGTH = 100
"""The length of the lines of numbers."""


@dataclass(frozen=True, slots=True)
class WptFile:
    """A file of tests, whose tests stand between its start and its end."""

    path: str
    start: bytes
    end: bytes


def why_not_wpt(case: Case) -> str | None:
    """Return why a case is no Web Platform Test; None where it is.

    The reason follows the words "as each".
    """
    if isinstance(case, NodeCase):
        return "is an ONNX node that no descriptor says"
    desc = case.descriptor
    gather = gather_of(desc)
    tensors = (desc.input_tensor, desc.indices_tensor, desc.output_tensor)
    if any(tensor.strides is not None for tensor in tensors):
        return "has Strides, which WebNN lacks"
    if case.data_type not in WEBNN_DATA_TYPES:
        return "has data of a type that WebNN lacks"
    if case.index_type not in WEBNN_INDEX_TYPES:
        return "has indices of a type that WebNN's gathers refuse"
    if gather.has_tuples and gather.number:
        return "has batch dimensions, which WebNN lacks"
    shapes = (gather.data, gather.indices, gather.output)
    if max(map(len, shapes)) > LARGEST_TEST_RANK:
        return f"has a rank above the {LARGEST_TEST_RANK} that WebNN requires"
    if max(map(math.prod, shapes)) > LARGEST_TEST_TENSOR:
        return f"has a tensor of more than {LARGEST_TEST_TENSOR:,} elements"
    if not case.in_range and case.out_of_range != "clamp":
        return "has an index out of range under a policy that WebNN lacks"
    if case.data.dtype.kind == "f" and np.isnan(case.data).any():
        return "has NaNs, whose bits the tests do not compare"
    return None


def wpt_file(case: DescriptorCase) -> WptFile:
    """Return the file that a case belongs to."""
    method = WEBNN_METHODS[gather_of(case.descriptor).onnx]
    kind = "run-time-indices" if case.in_range else "out-of-range-indices"
    start = filled_in(
        f"checking/corpus/wpt_frames/{kind}-start.js",
        method=method,
        largest=LARGEST_TEST_RANK,
    )
    end = filled_in(f"checking/corpus/wpt_frames/{kind}-end.js", method=method)
    path = f"{WPT_FOLDER}/{method}-{kind}.https.any.js"
    return WptFile(path, start.encode(), end.encode())


def wpt_test(case: DescriptorCase, expected: Array) -> bytes:
    """Return the test of a case, an element of the array of its file.

    Both inputs are bound when the graph runs: no operand is a constant. A case with an
    index out of range names the output elements that such an index selects.
    """
    gather = gather_of(case.descriptor)
    method = WEBNN_METHODS[gather.onnx]
    data_type = case.data_type.lower()
    index_type = case.index_type.lower()
    what = f"{method} {data_type} {list(gather.data)}"
    by = f"{index_type} {list(gather.indices)} indices"
    arguments = f"{{input: '{method}Input'}}, {{indices: '{method}Indices'}}"
    if not gather.has_tuples:
        arguments += f", {{options: {{axis: {gather.number}}}}}"
    outside = ""
    if not case.in_range:
        positions = _numbers(_positions_outside(case), "        ")
        outside = f"      outOfRangePositions: {positions},\n"
    lines = (
        "  {\n"
        f"    name: '{what} and {by}: {case.name}',\n"
        "    graph: {\n"
        "      inputs: {\n"
        f"        {method}Input: {_operand(case.data, data_type, gather.data)},\n"
        f"        {method}Indices:"
        f" {_operand(case.indices, index_type, gather.indices)}\n"
        "      },\n"
        "      operators: [{\n"
        f"        name: '{method}',\n"
        f"        arguments: [{arguments}],\n"
        f"        outputs: '{method}Output'\n"
        "      }],\n"
        f"{outside}"
        "      expectedOutputs: {\n"
        f"        {method}Output: {_operand(expected, data_type, gather.output)}\n"
        "      }\n"
        "    }\n"
        "  },\n"
    )
    return lines.encode()


def _positions_outside(case: DescriptorCase) -> Array:
    """Return the row-major positions of output elements with an index out of range."""
    ones = np.ones_like(case.data)
    output = reference(case.descriptor, ones, case.indices, "zero")
    return np.flatnonzero(output == 0).astype(np.int32)


def _operand(array: Array, data_type: str, shape: tuple[int, ...]) -> str:
    """Return an operand as JavaScript: its numbers and its descriptor."""
    descriptor = f"{{shape: {list(shape)}, dataType: '{data_type}'}}"
    indent = "          "
    numbers = _numbers(array, indent + "  ")
    return f"{{\n{indent}data: {numbers},\n{indent}descriptor: {descriptor}\n        }}"


def _numbers(array: Array, indent: str) -> str:
    """Return the elements of an array as an array of JavaScript."""
    written = [_number(value) for value in array.ravel().tolist()]
    if array.dtype.itemsize == 8 and array.dtype.kind in "iu":
        # The functions of the Web Platform Tests make 64-bit integers of BigInts.
        written = [f"{number}n" for number in written]
    joined = ", ".join(written)
    if len(joined) <= _LINE_LENGTH:
        return f"[{joined}]"
    lines = textwrap.fill(
        joined,
        _LINE_LENGTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"[\n{lines}\n{indent[:-2]}]"


def _number(value: Any) -> str:
    """Return a number as JavaScript writes it, with all its digits."""
    if value == math.inf:
        return "Infinity"
    if value == -math.inf:
        return "-Infinity"
    return repr(value).removesuffix(".0")
