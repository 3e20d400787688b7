"""Cases as Web Platform Tests of WebNN's gather, gatherElements and gatherND.

Source of the shape of a test: webnn/conformance_tests and webnn/resources/utils.js of
the Web Platform Tests. Source of what WebNN takes: its specification as of 26 June
2026.
"""

from __future__ import annotations

import math
import textwrap
from typing import Any, NamedTuple

import numpy as np

from onnxgather.checking.cases import Case, DescriptorCase, NodeCase
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.files import script_filled_in
from onnxgather.core.gather import gather_of
from onnxgather.core.lowering.webnn.requirements import REQUIRED_RANK

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

LARGEST_TEST_TENSOR = 4_096
"""The most elements of a tensor of a test; a test has them in its text."""

WPT_FOLDER = "cases/webnn/conformance_tests"
"""The folder of the tests. Below `cases` it is that of the Web Platform Tests."""

_TEMPLATES = "checking/corpus/wpt_templates"
"""The folder of the templates of a test, and of the start and the end of a file."""

_LINE_LENGTH = 100
"""The length of the lines of numbers."""


class WptFile(NamedTuple):
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
    if max(map(len, shapes)) > REQUIRED_RANK:
        return f"has a rank above the {REQUIRED_RANK} that WebNN requires"
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
    text = script_filled_in(
        f"{_TEMPLATES}/{kind}.mjs", METHOD=method, LARGEST_RANK=REQUIRED_RANK
    )
    start, _, end = text.partition("  TESTS,\n")
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
    data_shape = list(gather.data)
    index_shape = list(gather.indices)
    operands = f"{data_type} {data_shape} and {index_type} {index_shape} indices"
    arguments = [f"{{input: '{method}Input'}}", f"{{indices: '{method}Indices'}}"]
    if not gather.has_tuples:
        arguments.append(f"{{options: {{axis: {gather.number}}}}}")
    outside = ""
    if not case.in_range:
        ones = np.ones_like(case.data)
        output = reference(case.descriptor, ones, case.indices, "zero")
        # The row-major positions of elements with an index out of range.
        numbers = np.flatnonzero(output == 0).astype(np.int32)
        positions = _numbers(numbers, indent=6)
        outside = f"      outOfRangePositions: {positions},\n"
    array = script_filled_in(
        f"{_TEMPLATES}/tests.mjs",
        NAME=f"{method} {operands}: {case.name}",
        METHOD=method,
        DATA=_numbers(case.data, indent=10),
        DATA_SHAPE=data_shape,
        DATA_TYPE=data_type,
        INDICES=_numbers(case.indices, indent=10),
        INDEX_SHAPE=index_shape,
        INDEX_TYPE=index_type,
        ARGUMENTS=f"[{', '.join(arguments)}]",
        OUTPUT=_numbers(expected, indent=10),
        OUTPUT_SHAPE=list(gather.output),
    )
    test = array.removeprefix("[\n").removesuffix("];\n")
    return test.replace("      OUTSIDE,\n", outside).encode()


def _numbers(array: Array, indent: int) -> str:
    """Return the elements of an array as an array of JavaScript.

    Args:
        array: The array.
        indent: How many spaces are in front of the line that it begins in.
    """
    written = [_number(value) for value in array.ravel().tolist()]
    if array.dtype.itemsize == 8 and array.dtype.kind in "iu":
        # The functions of the Web Platform Tests make 64-bit integers of BigInts.
        written = [f"{number}n" for number in written]
    joined = ", ".join(written)
    if len(joined) <= _LINE_LENGTH:
        return f"[{joined}]"
    spaces = " " * indent
    lines = textwrap.fill(
        joined,
        _LINE_LENGTH,
        initial_indent=f"{spaces}  ",
        subsequent_indent=f"{spaces}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"[\n{lines}\n{spaces}]"


def _number(value: Any) -> str:
    """Return a number as JavaScript writes it, with all its digits."""
    if value == math.inf:
        return "Infinity"
    if value == -math.inf:
        return "-Infinity"
    return repr(value).removesuffix(".0")
