"""The text of an issue: what a case says, what is expected, and what a provider does instead."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from importlib.resources import files
from string import Template

import numpy as np

from onnxgather.arrays import Array
from onnxgather.cases import Case, DescriptorCase, NodeCase
from onnxgather.datatypes import TensorDataType
from onnxgather.descriptors import TENSORS, header_names
from onnxgather.lanes.lane import LaneInfo
from onnxgather.parity.results import Result, ResultKind
from onnxgather.repro.candidates import candidate_of
from onnxgather.repro.trial import Trial
from onnxgather.show import write_formula

MOST_SHOWN = 64
"""Elements of an array that an issue shows."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A case, and the wrong result of a lane for it."""

    case: Case
    info: LaneInfo
    """The lane."""
    result: Result
    """The lane's result: DIFF or ERROR."""

    @property
    def title(self) -> str:
        """The title of an issue."""
        case, result = self.case, self.result
        provider = self.info.provider
        operator = candidate_of(case).gather.onnx
        gather = f"{operator} of {case.data_type} data by {case.index_type} indices"
        if result.state == "DIFF" and isinstance(case, NodeCase):
            what = f"runs a {operator} that ONNX forbids"
        elif result.state == "DIFF" and case.must_refuse:
            what = f"returns an output for {operator} with an index out of range"
        elif result.state == "DIFF" and result.kind is not ResultKind.ELEMENTS:
            what = f"returns an output of the wrong form for {gather}"
        elif result.state == "DIFF":
            what = f"returns wrong elements for {gather}"
        elif result.kind is ResultKind.NOT_TAKEN:
            what = f"refuses {gather}"
        elif result.kind is ResultKind.FAILED:
            what = f"fails in {gather}"
        else:
            what = f"takes the host down in {gather}"
        return f"{provider} {what}"


def issue_text(finding: Finding, trial: Trial, system: str, printed: str | None) -> str:
    """The text of an issue, in Markdown without links.

    Args:
        finding: The difference.
        trial: What repro.py runs.
        system: The operating system, such as `Linux x86_64`.
        printed: What repro.py printed when it showed the difference, if it did.
    """
    case, info, result = finding.case, finding.info, finding.result
    if trial.expected is None:
        expected = f"An error: {case.expected()}."
    else:
        expected = _array_text("OutputTensor", trial.expected)
    if result.first is not None and result.first.source is not None:
        expected += f"\n\nThe first element that differs: `{result.first.source}`."
    versions = [f"{name} {version}" for name, version in info.versions.items()]
    reason = result.reason or ""
    actual = f"{reason[:1].upper()}{reason[1:]}."
    if printed is not None:
        actual = "`repro.py` prints:\n\n" + textwrap.indent(printed.rstrip(), "    ")
    page = files("onnxgather.repro").joinpath("issue.md.template").read_text("utf-8")
    text = Template(page).substitute(
        title=finding.title,
        versions="\n".join(f"- {x}" for x in (info.provider, *versions, *info.devices, system)),
        meaning=_meaning(case),
        inputs="\n\n".join(_array_text(name, array) for name, array in trial.inputs.items()),
        expected=expected,
        actual=actual,
        provider=info.provider,
    )
    if isinstance(case, DescriptorCase):
        text += "\n`program.json` says the same to dxdispatch, for DirectML itself.\n"
    return "\n\n".join(map(_filled, text.rstrip().split("\n\n"))) + "\n"


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
    names = header_names(type(case.descriptor))
    odd = [
        f"{names[field]}.Strides {list(strides)}"
        for field in TENSORS
        if (strides := getattr(case.descriptor, field).strides) is not None
    ]
    strides = f", with {' and '.join(odd)} in elements" if odd else ""
    return (
        f"{node}{around}; in DirectML {operator}{strides}. It computes {' '.join(said)}; "
        f"in range is {formula.range}."
    )


def _array_text(name: str, array: Array) -> str:
    head = f"{name}: {array.dtype} {list(array.shape)}"
    if array.size > MOST_SHOWN:
        return head
    text = np.array2string(array, separator=", ", floatmode="unique")
    return head + "\n\n" + textwrap.indent(text, "    ")


def _filled(paragraph: str) -> str:
    """A paragraph in lines of 100 columns; a heading, a list and indented text as they are."""
    if paragraph.startswith(("#", "-", " ")):
        return paragraph
    return textwrap.fill(paragraph, 100, break_long_words=False, break_on_hyphens=False)
