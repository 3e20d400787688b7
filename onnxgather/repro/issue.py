"""The text of an issue: what a case says, what is expected, and what a provider does instead."""

from __future__ import annotations

import textwrap

import numpy as np

from onnxgather.arrays import Array
from onnxgather.cases import Case, DescriptorCase, NodeCase
from onnxgather.datatypes import TensorDataType
from onnxgather.formula import write_formula
from onnxgather.lanes.lane import LaneInfo
from onnxgather.parity.results import Result
from onnxgather.repro.candidates import candidate_of
from onnxgather.repro.run import Run

MOST_SHOWN = 64
"""Elements of an array that an issue shows."""

_FORBIDDEN = "runs a {operator} that ONNX forbids"
_OUTSIDE = "returns an output for {operator} with an index out of range"


def title(case: Case, info: LaneInfo, result: Result) -> str:
    """Return the title of an issue."""
    operator = candidate_of(case).gather.onnx
    types = f"{case.data_type} data by {case.index_type} indices"
    reason = result.reason or ""
    if isinstance(case.expected(), str) and result.state == "DIFF":
        what = (_FORBIDDEN if isinstance(case, NodeCase) else _OUTSIDE).format(operator=operator)
    elif result.state == "DIFF":
        what = f"returns wrong elements for {operator} of {types}"
        if result.first is None:
            what = f"returns an output of the wrong form for {operator} of {types}"
    elif reason.startswith(f"{info.provider} cannot run the model"):
        what = f"refuses {operator} of {types}"
    elif reason.startswith(f"{info.provider} failed"):
        what = f"fails in {operator} of {types}"
    else:
        what = f"takes the host down in {operator} of {types}"
    return f"{info.provider} {what}"


def issue_text(
    case: Case, info: LaneInfo, result: Result, run: Run, system: str, printed: str | None
) -> str:
    """Return an issue in Markdown, without links.

    Args:
        case: The case.
        info: Who answered.
        result: What was made of the answer; not PASS.
        run: What repro.py runs.
        system: The operating system, such as `Linux x86_64`.
        printed: What repro.py printed when it showed the difference, if it did.
    """
    expected, wanted = case.expected(), list[str]()
    if isinstance(expected, str) or run.expected is None:
        wanted.append(f"An error: {expected}.")
    else:
        wanted.append(_shown("OutputTensor", run.expected))
        if result.first is not None and result.first.source is not None:
            wanted.append(f"The first element that differs: `{result.first.source}`.")
    versions = [f"- {name} {version}" for name, version in info.versions.items()]
    devices = [f"- {device}" for device in info.devices]
    provider = f"- {info.provider}"
    reason = result.reason or ""
    actual = f"{reason[:1].upper()}{reason[1:]}."
    if printed is not None:
        actual = "`repro.py` prints:\n\n" + textwrap.indent(printed.rstrip(), "    ")
    parts = [
        f"# {title(case, info, result)}",
        "## Versions",
        "\n".join([provider, *versions, *devices, f"- {system}"]),
        "## The model",
        _meaning(case),
        *(_shown(name, array) for name, array in run.inputs.items()),
        "## Expected",
        *wanted,
        "## Actual",
        actual,
        "## How to run it",
        "`python repro.py`, where onnxruntime and numpy are installed, runs `model.onnx` on "
        f"`inputs.npz` with {info.provider} alone. Its exit code is 1 where it differs, 0 where "
        "it does not, and 3 where the provider did not run the model.",
    ]
    if isinstance(case, DescriptorCase):
        parts.append("`program.json` says the same to dxdispatch, for DirectML itself.")
    return "\n\n".join(map(_wrapped, parts)) + "\n"


def _meaning(case: Case) -> str:
    candidate = candidate_of(case)
    gather = candidate.gather
    number = f"{gather.attribute}={gather.number}"
    data, indices = (
        f"{TensorDataType.parse(array.dtype.name.upper())} {list(array.shape)}"
        for array in (candidate.data, candidate.indices)
    )
    node = f"ONNX's `{gather.onnx}` with `{number}`, on data {data} and indices {indices}"
    around = ", between two multiplications by one" if case.wrapped else ""
    if isinstance(case, NodeCase):
        return f"{node}{around}. ONNX does not allow it: {case.node.rule}."
    formula = write_formula(case.descriptor, case.out_of_range)
    said = [f"`{formula.equation}`"]
    if formula.coordinates:
        said.append(f"with `{formula.coordinates}`")
    if formula.bounds:
        said.append(f"for `{formula.bounds}`")
    operator = f"`DML_OPERATOR_{case.descriptor.operator}`"
    odd = [
        f"{name}.Strides {list(tensor.strides)}"
        for name, tensor in (
            ("InputTensor", case.descriptor.input_tensor),
            ("IndicesTensor", case.descriptor.indices_tensor),
            ("OutputTensor", case.descriptor.output_tensor),
        )
        if tensor.strides is not None
    ]
    strides = f", with {' and '.join(odd)} in elements" if odd else ""
    return (
        f"{node}{around}; in DirectML {operator}{strides}. It computes {' '.join(said)}; "
        f"in range is {formula.range}."
    )


def _shown(name: str, array: Array) -> str:
    head = f"{name}: {array.dtype} {list(array.shape)}"
    if array.size > MOST_SHOWN:
        return head
    text = np.array2string(array, separator=", ", floatmode="unique")
    return head + "\n\n" + textwrap.indent(text, "    ")


def _wrapped(part: str) -> str:
    if part.startswith(("#", "-")) or "\n" in part:
        return part
    return textwrap.fill(part, 100, break_long_words=False, break_on_hyphens=False)
