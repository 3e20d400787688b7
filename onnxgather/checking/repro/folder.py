"""The folder of a repro: a model and its inputs, a script that runs it, the text of an issue."""

from __future__ import annotations

import base64
import io
import json
import platform
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from onnxgather.checking.cases import Case, DescriptorCase, NodeCase
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.lanes.python import Question, question_of
from onnxgather.checking.repro.candidates import candidate_of
from onnxgather.checking.results import Result, ResultKind
from onnxgather.core.checks import printable
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import TENSORS
from onnxgather.core.descriptors.spelling import tensors
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.execution.providers import WEB_PROVIDERS
from onnxgather.core.files import FolderKind, filled_in
from onnxgather.core.lowering.show import write_formula
from onnxgather.core.options import Target
from onnxgather.core.programs.writer import program_files

REPRO = FolderKind(
    "repro",
    "the folder must be new, empty or an earlier repro, got {}",
    sometimes=(
        "expected.npy",
        "data.npy",
        "indices.npy",
        "program.json",
        "runtime.py",
        "repro.html",
    ),
    always=("model.onnx", "inputs.npz", "repro.py", "ISSUE.md"),
)
"""A case that must be refused has no expected output, a forbidden node has no program,
few programs have large arrays, a browser's lane alone has repro.html, and repros of
earlier versions have no runtime.py."""

MOST_SHOWN = 64
"""The most elements of an array that an issue shows."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A question to ONNX Runtime with the expected answer."""

    question: Question
    """The model and its inputs."""
    expected: Array | None
    """The output of the reference; None where the provider must refuse the model."""
    library: str | None = None
    """The plugin library that brings the provider, if one does."""
    operators: str | None = None
    """The library of onnxgather's own operators, if the session takes them."""


def trials_of(
    case: Case, target: Target, library: str | None = None, operators: str | None = None
) -> Iterator[Trial]:
    """Yield the ways to run a case, the plainest first; the last is what the lane ran.

    If one ONNX node computes the case, the plainest model is that node alone, on the
    sizes that count. The model of the descriptor may need more nodes, as all its
    tensors have one rank.

    Args:
        case: The case.
        target: The target of the lane's models.
        library: The plugin library that brings the lane's provider, if one does.
        operators: The library of onnxgather's own operators, if the lane registers it.
    """
    rule = case.expected()
    expected = None if isinstance(rule, str) else rule
    asked = question_of(case, target)
    if isinstance(case, DescriptorCase) and _is_one_node(case):
        bare = candidate_of(case)
        node = bare.node("")
        plain = NodeCase(case.name, node, bare.data, bare.indices, case.wrapped)
        alone = question_of(plain, target)._replace(threads=asked.threads)
        output = None if expected is None else expected.reshape(node.output_shape)
        yield Trial(alone, output, library)
    yield Trial(asked, expected, library, operators)


def _is_one_node(case: DescriptorCase) -> bool:
    tensors = [getattr(case.descriptor, name) for name in TENSORS]
    return (
        case.out_of_range == "error"
        and case.indices.dtype.kind == "i"
        and all(tensor.strides is None for tensor in tensors)
    )


def runnable(case: Case, title: str, provider: str, trial: Trial) -> dict[str, bytes]:
    """The files that repro.py needs, itself included.

    Args:
        case: The case.
        title: What the script says it shows.
        provider: The full name of the provider that it runs.
        trial: What it runs.
    """
    rule = case.expected()
    script = filled_in(
        "checking/repro/repro.py.template",
        title=json.dumps(title)[1:-1],  # escaped, as it stands between quotes
        provider=json.dumps(provider)[1:-1],
        library=repr(trial.library),
        operators=repr(trial.operators),
        threads=trial.question.threads,
        rule=repr(printable(rule)) if isinstance(rule, str) else None,
    )
    inputs, expected = io.BytesIO(), io.BytesIO()
    np.savez(inputs, allow_pickle=False, **trial.question.inputs)
    contents = {
        "model.onnx": trial.question.model,
        "inputs.npz": inputs.getvalue(),
        "runtime.py": Path(runtime.__file__).read_bytes(),
        "repro.py": script.encode(),
    }
    if trial.expected is not None:
        np.save(expected, trial.expected)
        contents["expected.npy"] = expected.getvalue()
    return contents


@dataclass(frozen=True, slots=True)
class Difference:
    """A case with the wrong result of a lane."""

    case: Case
    info: LaneInfo
    """The lane."""
    result: Result
    """The lane's result: DIFF or ERROR."""

    @property
    def title(self) -> str:
        """The title of an issue."""
        case, result = self.case, self.result
        operator = candidate_of(case).gather.onnx
        gather = f"{operator} of {case.data_type} data by {case.index_type} indices"
        if result.state == "ERROR":
            verbs = {ResultKind.NOT_TAKEN: "refuses", ResultKind.FAILED: "fails in"}
            down = (
                "hangs in"
                if result.breakdown is Breakdown.LATE
                else "takes the worker down in"
            )
            what = f"{verbs.get(result.kind, down)} {gather}"
        elif isinstance(case, NodeCase):
            what = f"runs a {operator} that ONNX forbids"
        elif case.must_refuse:
            what = f"returns an output for {operator} with an index out of range"
        elif result.kind is ResultKind.ELEMENTS:
            what = f"returns wrong elements for {gather}"
        else:
            what = f"returns an output of the wrong type or shape for {gather}"
        return f"{self.info.provider} {what}"


def write_folder(
    folder: str, difference: Difference, trial: Trial, printed: str | None = None
) -> None:
    """Write a repro.

    Args:
        folder: The path of the folder, which must be new, empty or an earlier repro.
        difference: The difference that the folder shows.
        trial: What repro.py runs.
        printed: What repro.py printed when it showed the difference, if it did.

    Raises:
        OnnxGatherError: The folder holds other files, or cannot be written. Its content is then
            as it was.
    """
    contents = runnable(
        difference.case, difference.title, difference.info.provider, trial
    )
    if library := _web_library(difference.info):
        contents["repro.html"] = _page(difference, trial, library)
    contents["ISSUE.md"] = issue_text(difference, trial, printed).encode()
    case = difference.case
    if isinstance(case, DescriptorCase):
        comment = f"{difference.title}."
        contents |= program_files(case.descriptor, case.data, case.indices, comment)
    REPRO.write(folder, contents.items())


def _web_library(info: LaneInfo) -> str:
    """The module of onnxruntime-web that a lane ran; empty if it ran no browser."""
    provider = WEB_PROVIDERS.get(info.name.partition("@")[0])
    return provider.library if provider else ""


def _page(difference: Difference, trial: Trial, library: str) -> bytes:
    """A page that runs a model by onnxruntime-web, from a folder that its reader names."""

    def described(name: str, array: Array) -> list[object]:
        content = base64.b64encode(array.tobytes()).decode()
        return [name, _typed_array(array.dtype), array.dtype.name, content, array.shape]

    rule = difference.case.expected()
    data = {
        "model": base64.b64encode(trial.question.model).decode(),
        "inputs": [described(*each) for each in trial.question.inputs.items()],
        "expected": None if trial.expected is None else described("", trial.expected),
        "rule": rule if isinstance(rule, str) else None,
        "library": library,
        "provider": "wasm" if difference.info.provider == runtime.CPU else "webgpu",
    }
    values = {
        "title": escape(difference.title),
        "version": escape(difference.info.versions.get("onnxruntime", "")),
        "data": json.dumps(data).replace("<", "\\u003c"),
    }
    page = filled_in("checking/repro/repro.html.template", **values, digest="DIGEST")
    script = page.partition('<script type="module">')[2].partition("</script>")[0]
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    return page.replace("'DIGEST'", f"'sha256-{digest}'", 1).encode()


def _typed_array(data_type: np.dtype[Any]) -> str:
    """The name of JavaScript's array of a data type."""
    number = {"f": "Float", "i": "Int"}.get(data_type.kind, "Uint")
    big = "Big" if data_type.name in ("int64", "uint64") else ""
    return f"{big}{number}{8 * data_type.itemsize}Array"


def issue_text(difference: Difference, trial: Trial, printed: str | None) -> str:
    """The text of an issue, in Markdown without links.

    Args:
        difference: The difference.
        trial: What repro.py runs.
        printed: What repro.py printed when it showed the difference, if it did.
    """
    case, info, result = difference.case, difference.info, difference.result
    if trial.expected is None:
        expected = f"An error, as:\n\n{_block(str(case.expected()))}"
    else:
        expected = _array_text("OutputTensor", trial.expected)
    if result.first is not None and result.first.source is not None:
        expected += f"\n\nThe first element that differs: `{result.first.source}`."
    versions = [info.provider, *map(" ".join, info.versions.items())]
    versions += [f"device {x}" for x in info.devices]
    versions.append(f"{platform.system()} {platform.machine()}")
    actual = _block(result.reason or "")
    meaning = _meaning(case)
    if result.given_as:
        meaning += (
            "\n\n`model.onnx` has, for types that the provider lacks,"
            f" {result.given_as}."
        )
    if printed is not None:
        actual = f"`repro.py` prints:\n\n{_block(printed)}"
    text = filled_in(
        "checking/repro/issue.md.template",
        title=difference.title,
        versions="\n".join(
            f"- `{printable(x).replace('`', chr(39))}`" for x in versions
        ),
        meaning=meaning,
        inputs="\n\n".join(
            _array_text(name, array) for name, array in trial.question.inputs.items()
        ),
        expected=expected,
        actual=actual,
        provider=info.provider,
    )
    if _web_library(info):
        text += (
            "\n`repro.html` runs it in a browser, by the onnxruntime-web that you name"
            " there.\n"
        )
    elif info.python is None:
        text += "\nThe lane itself ran `model.onnx`; `repro.py` was not tried.\n"
    if isinstance(case, DescriptorCase):
        text += "\n`program.json` says the same to dxdispatch, for DirectML itself.\n"
    return "\n\n".join(map(_filled, text.rstrip().split("\n\n"))) + "\n"


def _meaning(case: Case) -> str:
    candidate = candidate_of(case)
    gather = candidate.gather
    around = ", between two multiplications by one" if case.wrapped else ""
    node = (
        f"ONNX's `{gather.onnx}` with `{gather.attribute}={gather.number}`, on data "
        f"{case.data_type} {list(candidate.data.shape)} and indices {case.index_type} "
        f"{list(candidate.indices.shape)}{around}"
    )
    if isinstance(case, NodeCase):
        return f"{node}. ONNX does not allow it, as:\n\n{_block(case.node.rule)}"
    odd = [
        f"{name}.Strides {list(tensor.strides)}"
        for name, tensor in tensors(case.descriptor).items()
        if tensor.strides is not None
    ]
    strides = f", with {' and '.join(odd)} in elements" if odd else ""
    formula = write_formula(case.descriptor, case.out_of_range)
    coordinates = f" with `{formula.coordinates}`" if formula.coordinates else ""
    bounds = f" for `{formula.bounds}`" if formula.bounds else ""
    return (
        f"{node}; in DirectML `DML_OPERATOR_{case.operator}`{strides}. It computes "
        f"`{formula.equation}`{coordinates}{bounds}; in range is {formula.range}."
    )


def _array_text(name: str, array: Array) -> str:
    head = f"{name}: {array.dtype} {list(array.shape)}"
    if array.size > MOST_SHOWN:
        return head
    text = np.array2string(array, separator=", ", floatmode="unique")
    return f"{head}\n\n{_block(text)}"


def _block(text: str) -> str:
    """Text of others as Markdown's indented code, where nothing in it is Markdown."""
    return textwrap.indent(
        "\n".join(map(printable, text.rstrip().splitlines())), "    "
    )


def _filled(paragraph: str) -> str:
    """A paragraph in lines of 100 columns; headings, lists and indented text stay as they are."""
    if paragraph.startswith(("#", "-", " ")):
        return paragraph
    return textwrap.fill(paragraph, 100, break_long_words=False, break_on_hyphens=False)
