"""The exported Web Platform Tests say what numpy says of their own numbers."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_cases import corpus
from messages import rows_of
from rings import by_ring
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus import export
from onnxgather.checking.corpus.wpt import WPT_FOLDER, why_not_wpt
from onnxgather.core.descriptors.arrays import Array

STEP = by_ring(6, 2)

METHODS = ("gather", "gatherElements", "gatherND")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an export of a part of the corpus."""
    folder = tmp_path_factory.mktemp("wpt")
    cases = [
        case
        for number, case in enumerate(corpus())
        if number % STEP == 0 or case.name.startswith("out-of-range/")
    ]
    export(cases, "wpt", folder)
    return folder


def read_tests(path: Path) -> list[dict[str, Any]]:
    """Return the tests of a file, read as the JavaScript that they are."""
    text = path.read_text("utf-8")
    ((rows),) = re.findall(r"^const \w+Tests = (\[\n.*?^\]);", text, re.DOTALL | re.M)
    names = re.findall(r"^    name: '(.*)',$", rows, re.M)
    rows = re.sub(r"^    name: '.*',$", '    name: "",', rows, flags=re.M)
    rows = re.sub(r"(\w+): ", r'"\1": ', rows).replace("'", '"')
    rows = re.sub(r"(-?\d+n)\b", r'"\1"', rows)
    rows = re.sub(r",(\s*[\]}])", r"\1", rows)
    # Python would read -0 as an integer, which has no sign.
    tests = json.loads(rows, parse_int=lambda text: -0.0 if text == "-0" else int(text))
    for test, name in zip(tests, names, strict=True):
        test["name"] = name
    return tests


def array_of(operand: dict[str, Any]) -> Array:
    """Return the array of an operand of a test."""
    dtype = np.dtype(operand["descriptor"]["dataType"])
    numbers = operand["data"]
    # 64-bit integers are BigInts, and no other numbers are.
    if dtype.kind in "iu" and dtype.itemsize == 8:
        numbers = [int(number.removesuffix("n")) for number in numbers]
    else:
        assert not any(isinstance(number, str) for number in numbers)
    return np.array(numbers, dtype).reshape(operand["descriptor"]["shape"])


def numpy_of(
    method: str, data: Array, indices: Array, options: dict[str, int]
) -> tuple[Array, Array]:
    """Return what numpy gathers with clamped indices, and which elements had an index
    out of range."""
    axes = [*range(indices.shape[-1])] if method == "gatherND" else [options["axis"]]
    sizes = np.array([data.shape[axis] for axis in axes], object)
    wide = indices.astype(object)
    outside = (wide < -sizes) | (wide >= sizes)
    counted = np.where(wide < 0, wide + sizes, wide)
    clamped = np.minimum(np.maximum(counted, 0), sizes - 1).astype(np.int64)
    # An index of no dimensions has one now.
    outside = outside.reshape(indices.shape)
    clamped = clamped.reshape(indices.shape)
    if method == "gather":
        output = np.take(data, clamped, axis=options["axis"])
        mask_shape = [1] * options["axis"] + [*indices.shape]
        mask_shape += [1] * (data.ndim - options["axis"] - 1)
        return output, np.broadcast_to(outside.reshape(mask_shape), output.shape)
    if method == "gatherElements":
        return np.take_along_axis(data, clamped, options["axis"]), outside
    output = np.asarray(data[tuple(np.moveaxis(clamped, -1, 0))])
    any_outside = outside.any(axis=-1)
    mask_shape = [*any_outside.shape] + [1] * (output.ndim - any_outside.ndim)
    return output, np.broadcast_to(any_outside.reshape(mask_shape), output.shape)


@pytest.mark.parametrize("kind", ["run-time-indices", "out-of-range-indices"])
@pytest.mark.parametrize("method", METHODS)
def test_numpy_gathers_what_a_test_expects(
    exported: Path, method: str, kind: str
) -> None:
    cases = {case.name: case for case in corpus()}
    tests = read_tests(exported / WPT_FOLDER / f"{method}-{kind}.https.any.js")
    assert len(tests) > 10
    for test in tests:
        graph = test["graph"]
        (operator,) = graph["operators"]
        assert (operator["name"], operator["outputs"]) == (method, f"{method}Output")
        arguments: dict[str, Any] = {}
        for argument in operator["arguments"]:
            arguments.update(argument)
        options = arguments.pop("options", {})
        assert [*options] == ([] if method == "gatherND" else ["axis"])
        operands = graph["inputs"]
        assert arguments == {"input": f"{method}Input", "indices": f"{method}Indices"}
        assert {*operands} == {*arguments.values()}
        # No operand is a constant.
        keys = {key for operand in operands.values() for key in operand}
        assert keys == {"data", "descriptor"}
        data, indices = (array_of(operands[name]) for name in arguments.values())
        output = array_of(graph["expectedOutputs"][f"{method}Output"])
        expected, outside = numpy_of(method, data, indices, options)
        assert (output.dtype, output.shape) == (expected.dtype, expected.shape)
        assert output.tobytes() == expected.tobytes(), test["name"]
        positions = np.flatnonzero(outside).tolist()
        assert graph.get("outOfRangePositions", []) == positions
        assert (kind == "out-of-range-indices") == (positions != [])
        case = cases[test["name"].rpartition(": ")[2]]
        assert data.tobytes() == case.data.tobytes()
        assert indices.tobytes() == case.indices.tobytes()


def test_each_test_of_the_index_is_in_its_file(exported: Path) -> None:
    index = json.loads((exported / "index.json").read_text("utf-8"))
    by_file: dict[str, list[str]] = {}
    for row in index["cases"]:
        by_file.setdefault(row["file"], []).append(row["name"])
    assert len(by_file) == 6
    for file, names in by_file.items():
        tests = read_tests(exported / file)
        assert [test["name"].rpartition(": ")[2] for test in tests] == names


def test_a_file_begins_and_ends_as_web_platform_tests_do(exported: Path) -> None:
    path = exported / WPT_FOLDER / "gatherND-run-time-indices.https.any.js"
    text = path.read_text("utf-8")
    assert text.startswith(
        "// META: title=test WebNN API gatherND operation with indices bound at run"
        " time\n// META: global=window\n// META: variant=?cpu\n"
        "// META: variant=?gpu\n// META: variant=?npu\n"
        "// META: script=../resources/utils.js\n// META: timeout=long\n\n"
        "'use strict';\n"
    )
    assert text.endswith(
        "webnn_conformance_test(\n"
        "    gatherNDRunTimeTests, buildAndExecuteGraph, getZeroULPTolerance);\n"
    )


def test_no_test_is_longer_than_a_reader_can_stand(exported: Path) -> None:
    for path in (exported / WPT_FOLDER).iterdir():
        lines = path.read_text("utf-8").splitlines()
        assert max(map(len, lines)) <= 130, path.name


def reason_of(changed: og.Descriptor | None = None, **more: Any) -> str | None:
    """Return why a small case is no Web Platform Test, after changes."""
    case = next(
        case for case in corpus() if case.name == "gather/float32/int64/forward"
    )
    assert isinstance(case, DescriptorCase)
    if changed is None:
        return why_not_wpt(replace(case, **more))
    shapes = [
        tensor.array_shape for tensor in (changed.input_tensor, changed.indices_tensor)
    ]
    data = np.zeros(shapes[0], changed.input_tensor.data_type.numpy)
    indices = np.zeros(shapes[1], changed.indices_tensor.data_type.numpy)
    return why_not_wpt(replace(case, descriptor=changed, data=data, indices=indices))


REASONS = """
GATHER: UINT64 3, UINT32 2, UINT64 2, 0, 1
None

GATHER: FLOAT64 3, INT32 2, FLOAT64 2, 0, 1
has data of a type that WebNN lacks

GATHER: INT8 3, UINT64 2, INT8 2, 0, 1
has indices of a type that WebNN's gathers refuse

GATHER: INT8 3 strides 2 bytes 8, INT32 2, INT8 2 strides 2 bytes 8, 0, 1
has Strides, which WebNN lacks

GATHER_ND1: INT8 2x3, INT32 2x1, INT8 1x2, 2, 2, 1
has batch dimensions, which WebNN lacks

GATHER_ELEMENTS: INT8 2x2x2x2x2x2, INT32 2x2x2x2x2x2, INT8 2x2x2x2x2x2, 1
has a rank above the 5 that WebNN requires

GATHER_ELEMENTS: INT8 4097, INT32 4097, INT8 4097, 0
has a tensor of more than 4,096 elements
"""


@pytest.mark.parametrize(("desc", "reason"), rows_of(REASONS))
def test_each_reason_names_what_webnn_or_the_tests_lack(desc: str, reason: str) -> None:
    assert str(reason_of(descriptor(desc))) == reason


def test_the_reasons_of_indices_and_data_name_what_webnn_or_the_tests_lack() -> None:
    assert reason_of() is None
    indices = np.full((1, 1, 2, 3), 9)
    assert reason_of(indices=indices, out_of_range="clamp") is None
    assert reason_of(indices=indices, out_of_range="zero") == (
        "has an index out of range under a policy that WebNN lacks"
    )
    nan = np.full((1, 3, 5, 2), np.nan, np.float32)
    assert reason_of(data=nan) == "has NaNs, whose bits the tests do not compare"


def test_the_readme_counts_what_was_written_and_left_out(exported: Path) -> None:
    index = json.loads((exported / "index.json").read_text("utf-8"))
    readme = (exported / "README.md").read_text("utf-8")
    assert f"\n{len(index['cases'])} tests of WebNN's gather, gatherElements" in readme
    reasons = Counter(row["why"] for row in index["left_out"])
    assert len(reasons) == 9
    for why, count in reasons.items():
        assert f"\nLeft out: {count}, as each {why}." in readme
    assert "$" not in readme
