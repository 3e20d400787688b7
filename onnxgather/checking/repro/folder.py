"""The folder of a repro: a model, its inputs, a script, and the text of an issue."""

from __future__ import annotations

import base64
import io
import json
import os
import platform
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onnxgather.checking.cases import Case, DescriptorCase, NodeCase
from onnxgather.checking.folders import FolderKind
from onnxgather.checking.foreign_memory import REPORT_PRIVATELY
from onnxgather.checking.lanes import base_of
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.lanes.python import (
    FIRST_CASE,
    Question,
    device_of_lane,
    question_of,
    question_of_gather,
    question_of_program,
)
from onnxgather.checking.repro.candidates import candidate_of
from onnxgather.checking.results import ArrayType, ForeignMemory, Result, ResultKind
from onnxgather.core.checks import printable
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import TENSORS
from onnxgather.core.descriptors.spelling import tensors
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.execution.providers import WEB_PROVIDERS, Provider
from onnxgather.core.files import filled_in, packaged_text
from onnxgather.core.gather import gather_of
from onnxgather.core.lowering.show import write_formula
from onnxgather.core.options import DEFAULT_OPSET, POLICIES, Target
from onnxgather.core.output.page import script_source
from onnxgather.core.programs.writer import program_files


def _holds_a_runnable(folder: str) -> bool:
    """Return whether a folder has a model or a program, and its script or its page."""
    names = {path.name for path in Path(folder).iterdir()}
    has_what_runs = bool(names & {"model.onnx", "gather.mjs"})
    return has_what_runs and bool(names & {"repro.py", "repro.html"})


REPRO = FolderKind(
    "repro",
    "the folder must be new, empty or an earlier repro, got {}",
    sometimes=(
        "model.onnx",
        "repro.py",
        "gather.mjs",
        "expected.npy",
        "data.npy",
        "indices.npy",
        "program.json",
        "runtime.py",
        "adapter.py",
        "repro.html",
    ),
    always=("inputs.npz", "ISSUE.md"),
    is_earlier=_holds_a_runnable,
)
"""The folder of a repro, with the files that only some repros have.

- That of a browser has repro.html in place of repro.py, and that of WebNN has
  gather.mjs in place of model.onnx.

- A case that must be refused has no expected output.
- A forbidden node has no program.
- Few programs have large arrays.
- A runtime that is no provider has adapter.py in place of runtime.py.
- Repros of earlier versions have no runtime.py.
"""

MOST_SHOWN = 64
"""The most elements of an array that an issue shows."""


class Trial(NamedTuple):
    """A question to ONNX Runtime with the expected answer."""

    question: Question
    """The model and its inputs."""
    expected: Array | None
    """The output of the reference; None if the provider must refuse the model."""
    library: str | None = None
    """The plugin library that brings the provider, if any."""
    operators: str | None = None
    """The library of onnxgather's own operators, if the session registers it."""
    adapter: str | None = None
    """The file of the adapter of the runtime, if the lane is on no provider."""
    is_program: bool = False
    """Whether the question has a WebNN program in place of an ONNX model."""


def trial_of_program(case: DescriptorCase) -> Trial:
    """Return what the lane `webnn` runs of a case.

    Raises:
        OnnxGatherError: There is no program of the descriptor.
    """
    question = question_of_program(case)
    answer = case.expected()
    expected = None if isinstance(answer, str) else answer
    return Trial(question, expected, is_program=True)


def trial_of_gather(case: Case, library: str | None, opset: int) -> Trial:
    """Return what the lane `onnxgather` runs of a case.

    Args:
        case: The case.
        library: The library of the provider.
        opset: The version of the ONNX operator set of the lane's models.
    """
    question = question_of_gather(case, opset)
    expected = case.expected()
    # Case: the provider must refuse the model.
    if isinstance(expected, str):
        return Trial(question, None, library)
    # A bare node has the sizes that count.
    if isinstance(case, DescriptorCase) and not case.runs_file:
        expected = expected.reshape(gather_of(case.descriptor).output)
    return Trial(question, expected, library)


def trials_of(
    case: Case,
    target: Target,
    library: str | None = None,
    operators: str | None = None,
    adapter: str | None = None,
    opset: int = DEFAULT_OPSET,
    for_webnn: bool = False,
) -> Iterator[Trial]:
    """Yield the ways to run a case, the plainest first; the last is what the lane ran.

    If one ONNX node computes the case, the plainest model is that node alone, on the
    significant sizes. The model of the descriptor may need more nodes, as all its
    tensors have one rank.

    Args:
        case: The case.
        target: The target of the lane's models.
        library: The plugin library that brings the lane's provider, if any.
        operators: The library of onnxgather's own operators, if the lane registers it.
        adapter: The file of the adapter of the lane's runtime, if it is on no provider.
        opset: The version of the ONNX operator set of the lane's models.
        for_webnn: Whether the lane's models are those of `to_onnx_for_webnn`.
    """
    answer = case.expected()
    # Case: a provider must refuse the model; the answer is the rule that it breaks.
    expected = None if isinstance(answer, str) else answer
    question = question_of(case, target, opset=opset, for_webnn=for_webnn)
    if isinstance(case, DescriptorCase) and _is_one_node(case):
        candidate = candidate_of(case)
        node = candidate.node("")
        node_case = NodeCase(
            case.name, node, candidate.data, candidate.indices, case.wrapped
        )
        node_question = question_of(node_case, target, opset=opset)
        node_question = node_question._replace(threads=question.threads)
        output = None
        if expected is not None:
            output = expected.reshape(node.output_shape)
        yield Trial(node_question, output, library, adapter=adapter)
    yield Trial(question, expected, library, operators, adapter)


def _is_one_node(case: DescriptorCase) -> bool:
    """Return whether an ONNX node computes a case as it is."""
    # The other policies, unsigned indices and strides take more nodes.
    if case.out_of_range != "error" or case.indices.dtype.kind != "i":
        return False
    if case.runs_file:
        return False
    tensors_of_case = [getattr(case.descriptor, name) for name in TENSORS]
    return all(tensor.strides is None for tensor in tensors_of_case)


def runnable(case: Case, title: str, info: LaneInfo, trial: Trial) -> dict[str, bytes]:
    """Return the files that repro.py needs, itself included.

    Args:
        case: The case.
        title: What the script says it shows.
        info: The lane whose provider or runtime it runs.
        trial: What it runs.
    """
    answer = case.expected()
    rule = printable(answer) if isinstance(answer, str) else None
    # Escaped, as they stand between quotes.
    title = json.dumps(title)[1:-1]
    provider = json.dumps(info.provider)[1:-1]
    import_types = ""
    if _needs_types(trial):
        import_types = "import ml_dtypes  # with it numpy knows the type of the data\n"
    common = {
        "title": title,
        "rule": repr(rule),
        "data_type": case.data.dtype.name,
        "packages": _packages(trial),
        "import_types": import_types,
        "comparison": filled_in("checking/repro/comparison.py.template"),
    }
    if trial.adapter is not None:
        module = "adapter.py"
        module_path = trial.adapter
        script = filled_in(
            "checking/repro/repro_adapter.py.template", runtime=provider, **common
        )
    else:
        module = "runtime.py"
        module_path = runtime.__file__
        script = filled_in(
            "checking/repro/repro.py.template",
            provider=provider,
            library=repr(trial.library),
            operators=repr(trial.operators),
            settings=repr({**info.provider_options, **trial.question.settings}),
            cpu_too=trial.question.cpu_too,
            device=repr(device_of_lane(info.name)),
            threads=trial.question.threads,
            **common,
        )
    return {
        **_arrays_of(trial),
        "model.onnx": trial.question.model,
        module: Path(module_path).read_bytes(),
        "repro.py": script.encode(),
    }


def _needs_types(trial: Trial) -> bool:
    """Return whether the data are of a type that ml_dtypes adds to numpy."""
    return any(array.dtype.kind == "V" for array in trial.question.inputs.values())


def _packages(trial: Trial) -> str:
    """Return the packages that repro.py needs beside the runtime."""
    return "numpy and ml_dtypes" if _needs_types(trial) else "numpy"


def _arrays_of(trial: Trial) -> dict[str, bytes]:
    """Return the files of the inputs, and of the expected output if there is one."""
    arrays = {name: _in_file(array) for name, array in trial.question.inputs.items()}
    inputs = io.BytesIO()
    np.savez(inputs, allow_pickle=False, **arrays)
    contents = {"inputs.npz": inputs.getvalue()}
    if trial.expected is not None:
        expected = io.BytesIO()
        np.save(expected, _in_file(trial.expected), allow_pickle=False)
        contents["expected.npy"] = expected.getvalue()
    return contents


def _in_file(array: Array) -> Array:
    """Return an array as .npy files have it: texts as numpy's, not as objects."""
    return array.astype(str) if array.dtype.hasobject else array


class Difference(NamedTuple):
    """A case with the wrong result of a lane."""

    case: Case
    info: LaneInfo
    """The lane."""
    result: Result
    """The lane's result: DIFF or ERROR."""

    @property
    def title(self) -> str:
        """The title of an issue."""
        provider = self.info.provider
        # Case: the provider may be right, and the model of the file wrong.
        if self.case.runs_file and self.result.state == "DIFF":
            return f"A model {self._what_it_does()} on {provider}"
        return f"{provider} {self._what_it_does()}"

    def _what_it_does(self) -> str:
        """Return what the provider does wrong, as the end of a sentence."""
        case = self.case
        operator = candidate_of(case).gather.onnx
        gather = f"{operator} of {case.data_type} data by {case.index_type} indices"
        if self.result.state == "ERROR":
            return f"{self._how_it_fails()} {gather}"
        if isinstance(case, NodeCase) and case.node.rule is not None:
            return f"runs a {operator} that ONNX forbids"
        if case.must_refuse:
            return f"returns an output for {operator} with an index out of range"
        if self.result.kind is ResultKind.ELEMENTS:
            # Wrong values alone may come from a wrong computation, too.
            if self.result.foreign_memory not in (None, ForeignMemory.VALUES):
                return f"returns memory that is not the model's for {gather}"
            return f"returns wrong elements for {gather}"
        return f"returns an output of the wrong type or shape for {gather}"

    def _how_it_fails(self) -> str:
        """Return the words before the gather, for an ERROR."""
        if self.result.kind is ResultKind.NOT_TAKEN:
            return "refuses"
        if self.result.kind is ResultKind.FAILED:
            return "fails in"
        # Case: the program behind the lane gave no answer.
        if self.result.breakdown is Breakdown.LATE:
            return "hangs in"
        return "ends its process in"


def write_folder(
    folder: str,
    difference: Difference,
    trial: Trial,
    printed: str | None = None,
    force: bool = False,
) -> None:
    """Write a repro.

    Args:
        folder: The path of the folder, which must be new, empty or an earlier repro.
        difference: The difference that the folder shows.
        trial: What repro.py runs.
        printed: What repro.py printed when it showed the difference, if it did.
        force: As of `FolderKind.check`.

    Raises:
        OnnxGatherError: The folder holds other files, or cannot be written. Its content
            is then as it was.
    """
    case = difference.case
    title = difference.title
    web_provider = _web_provider(difference.info)
    if web_provider is None:
        contents = runnable(case, title, difference.info, trial)
    else:
        model = "gather.mjs" if trial.is_program else "model.onnx"
        contents = _arrays_of(trial)
        contents[model] = trial.question.model
        contents["repro.html"] = _page_of(difference, trial, web_provider)
    contents["ISSUE.md"] = issue_text(difference, trial, printed).encode()
    if isinstance(case, DescriptorCase):
        comment = f"{title}."
        contents |= program_files(case.descriptor, case.data, case.indices, comment)
    REPRO.write(folder, contents.items(), force)


def _web_provider(info: LaneInfo) -> Provider | None:
    """Return the provider of a lane in a browser; None for any other lane."""
    return WEB_PROVIDERS.get(base_of(info.name))


def _page(
    name: str, difference: Difference, data: Mapping[str, object], **texts: str
) -> bytes:
    """Return a page with data and a script that reads them.

    Args:
        name: The name of the template and of the script.
        difference: The difference that the page shows.
        data: What the script reads.
        texts: What else the template has.
    """
    script = packaged_text(f"checking/repro/{name}.mjs")
    page = filled_in(
        f"checking/repro/{name}.html.template",
        title=escape(difference.title),
        # No text in the data ends the element that holds it.
        data=json.dumps(data).replace("<", "\\u003c"),
        script=script,
        allowed=script_source(script),
        **texts,
    )
    return page.encode()


def _page_of(difference: Difference, trial: Trial, provider: Provider) -> bytes:
    """Return a page that runs a WebNN program, or a model by onnxruntime-web.

    The reader of the page names the folder of onnxruntime-web.
    """
    info = difference.info
    answer = difference.case.expected()
    expected = None
    if trial.expected is not None:
        expected = _javascript_array("", trial.expected)
    data: dict[str, object] = {
        "inputs": _javascript_arrays(trial.question),
        "expected": expected,
        "rule": answer if isinstance(answer, str) else None,
    }
    if trial.is_program:
        data["module"] = trial.question.model.decode()
        return _page("repro_webnn", difference, data)
    data["model"] = _base64(trial.question.model)
    # The gather that starts a lane.
    first = question_of(
        FIRST_CASE, info.target or "portable", for_webnn=provider.needs_webnn
    )
    data["first"] = {"model": _base64(first.model), "inputs": _javascript_arrays(first)}
    data["library"] = provider.library
    # onnxruntime-web calls its providers as the lanes are called.
    data["provider"] = base_of(info.name).removeprefix("web-")
    # The WebNN provider of onnxruntime-web evaluates texts.
    evaluates = " 'unsafe-eval'" if provider.needs_webnn else ""
    version = escape(info.versions.get("onnxruntime", ""))
    return _page("repro", difference, data, version=version, evaluates=evaluates)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _javascript_arrays(question: Question) -> list[list[object]]:
    """Return what the script needs to make tensors of the inputs."""
    return [_javascript_array(*item) for item in question.inputs.items()]


def _javascript_array(name: str, array: Array) -> list[object]:
    """Return what the script needs to make a tensor of an array."""
    content = _base64(array.tobytes())
    return [name, _typed_array(array.dtype), array.dtype.name, content, array.shape]


def _typed_array(data_type: np.dtype[Any]) -> str:
    """Return the name of JavaScript's array of a data type, such as BigInt64Array."""
    number = {"f": "Float", "i": "Int"}.get(data_type.kind, "Uint")
    big = "Big" if data_type.name in ("int64", "uint64") else ""
    return f"{big}{number}{8 * data_type.itemsize}Array"


def issue_text(difference: Difference, trial: Trial, printed: str | None) -> str:
    """Return the text of an issue, in Markdown without links.

    Args:
        difference: The difference.
        trial: What repro.py runs.
        printed: What repro.py printed when it showed the difference, if it did.
    """
    info = difference.info
    result = difference.result
    meaning = _meaning(difference.case)
    if result.given_as:
        meaning += (
            "\n\n`model.onnx` has, for types that the provider lacks,"
            f" {result.given_as}."
        )
    actual = _block(result.reason or "")
    if printed is not None:
        actual = f"`repro.py` prints:\n\n{_block(printed)}"
    inputs = [_array_text(name, array) for name, array in trial.question.inputs.items()]
    text = filled_in(
        "checking/repro/issue.md.template",
        title=difference.title,
        versions=_version_list(info),
        meaning=meaning,
        inputs="\n\n".join(inputs),
        expected=_expected_text(difference, trial),
        actual=actual,
        private=_private_text(difference, trial),
        right=_right_text(difference.case, trial),
        how=_how_to_run(info, trial),
    )
    text += _notes_on_files(difference)
    paragraphs = text.rstrip().split("\n\n")
    return "\n\n".join(map(_filled, paragraphs)) + "\n"


_HOW_ON_A_PROVIDER = (
    "`python repro.py`, where onnxruntime and {packages} are installed, runs"
    " `model.onnx` on `inputs.npz` with {provider} alone, by `runtime.py` beside it."
    " Its exit code is 1 where it differs, 0 where it does not, and 3 where the"
    " provider did not run the model."
)
_HOW_ON_A_PLUGIN = (
    " {provider} is in a plugin library: `python repro.py LIBRARY` names yours."
)
_HOW_ON_A_RUNTIME = (
    "`python repro.py`, where {provider} and {packages} are installed, runs"
    " `model.onnx` on `inputs.npz`, by `adapter.py` beside it. Its exit code is 1 where"
    " it differs, 0 where it does not, and 3 where {provider} is not installed. If"
    " {provider} ends its process, the script ends with it."
)


_VERDICTS = " Its last line says whether it differs, or that it did not run."
_HOW_ON_WEBNN = (
    "`repro.html` runs `gather.mjs`, a WebNN program, on the inputs in any browser that"
    f" has WebNN.{_VERDICTS}"
)
_HOW_BY_ONNXRUNTIME_WEB = (
    "`repro.html` runs `model.onnx` on the inputs in a browser, by the onnxruntime-web"
    f" that you name there.{_VERDICTS} A browser opens it over HTTP: `python3 -m"
    " http.server --bind 127.0.0.1` serves the folder to this machine alone."
)


def _how_to_run(info: LaneInfo, trial: Trial) -> str:
    """Return the sentences on repro.py, or on the page."""
    text = _HOW_ON_A_PROVIDER
    if trial.is_program:
        text = _HOW_ON_WEBNN
    elif _web_provider(info):
        text = _HOW_BY_ONNXRUNTIME_WEB
    elif trial.adapter is not None:
        text = _HOW_ON_A_RUNTIME
    elif trial.library is not None:
        text += _HOW_ON_A_PLUGIN
    return text.format(provider=info.provider, packages=_packages(trial))


def _private_text(difference: Difference, trial: Trial) -> str:
    """Return the first paragraph where an output holds foreign memory, else nothing."""
    if trial.adapter is None or difference.result.foreign_memory is None:
        return ""
    return f"**Not for a public issue yet.** {REPORT_PRIVATELY}\n\n"


SPECIFICATION = (
    "All index values are expected to be within bounds [-s, s-1] along axis of size s."
    " It is an error if any of the index values are out of bounds."
)
"""What ONNX says of the indices of Gather, GatherElements and GatherND."""


def _right_text(case: Case, trial: Trial) -> str:
    """Return what ONNX says of indices, and what is right under two policies.

    It is empty for a provider, and for a node that ONNX forbids.
    """
    if trial.adapter is None or isinstance(case, NodeCase):
        return ""
    gather = candidate_of(case).gather
    operator = gather.onnx
    text = f'## What is right\n\nONNX says of the indices of {operator}: "'
    text += f'{SPECIFICATION}"\n\n'
    if case.in_range:
        return f"{text}All indices are in range, so every policy gives the same.\n\n"
    if not case.must_refuse:
        rule = POLICIES[case.out_of_range].rule
        return (
            f"{text}The nodes of `model.onnx` see to it that no index of the"
            f" {operator} is out of range: an index out of range {rule}.\n\n"
        )
    clamped = replace(case, out_of_range="clamp").expected()
    assert not isinstance(clamped, str), "a clamped index is in range"
    if _is_one_node(case):
        clamped = clamped.reshape(gather.output)
    return (
        f"{text}Two answers are safe. The first is an error, as ONNX Runtime's CPU"
        " provider gives. The second is what WebNN asks for: an index out of range"
        f" {POLICIES['clamp'].rule}, and the output is\n\n"
        f"{_array_text('OutputTensor', clamped)}\n\n"
    )


def _version_list(info: LaneInfo) -> str:
    """Return the provider, versions, devices and system as a list."""
    items = info.software
    if info.plugin is not None:
        items.append(f"plugin library {os.path.basename(info.plugin)}")
    items += [f"device {device}" for device in info.devices]
    items.append(f"{platform.system()} {platform.machine()}")
    lines: list[str] = []
    for item in items:
        # Between backticks nothing is Markdown, except for another backtick.
        code = printable(item).replace("`", "'")
        lines.append(f"- `{code}`")
    return "\n".join(lines)


def _expected_text(difference: Difference, trial: Trial) -> str:
    """Return what the provider must return, or the error that it must raise."""
    if trial.expected is None:
        rule = str(difference.case.expected())
        text = f"An error, as:\n\n{_block(rule)}"
    else:
        text = _array_text("OutputTensor", trial.expected)
    first = difference.result.first
    if first is not None and first.source is not None:
        text += f"\n\nThe first element that differs: `{first.source}`."
    return text


def _notes_on_files(difference: Difference) -> str:
    """Return the paragraphs about files that only some repros have."""
    notes = ""
    # A lane in a browser has no repro.py.
    if difference.info.python is None and not _web_provider(difference.info):
        notes += "\nThe lane itself ran `model.onnx`; `repro.py` was not tried.\n"
    if isinstance(difference.case, DescriptorCase):
        notes += "\n`program.json` says the same to dxdispatch, for DirectML itself.\n"
    return notes


def _meaning(case: Case) -> str:
    """Return the node and the descriptor of a case in words, and what it computes."""
    candidate = candidate_of(case)
    gather = candidate.gather
    around = ", between two multiplications by one" if case.wrapped else ""
    node = (
        f"ONNX's `{gather.onnx}` with `{gather.attribute}={gather.number}`, on data "
        f"{case.data_type} {list(candidate.data.shape)} and indices {case.index_type} "
        f"{list(candidate.indices.shape)}{around}"
    )
    if isinstance(case, NodeCase):
        rule = case.node.rule
        if rule is None:
            return f"{node}."
        return f"{node}. ONNX does not allow it, as:\n\n{_block(rule)}"
    strides = [
        f"{name}.Strides {list(tensor.strides)}"
        for name, tensor in tensors(case.descriptor).items()
        if tensor.strides is not None
    ]
    with_strides = f", with {' and '.join(strides)} in elements" if strides else ""
    formula = write_formula(case.descriptor, case.out_of_range)
    coordinates = f" with `{formula.coordinates}`" if formula.coordinates else ""
    bounds = f" for `{formula.bounds}`" if formula.bounds else ""
    meaning = (
        f"{node}; in DirectML `DML_OPERATOR_{case.operator}`{with_strides}. It "
        f"computes `{formula.equation}`{coordinates}{bounds}; in range is "
        f"{formula.range}."
    )
    if case.runs_file:
        return (
            "`model.onnx` is a file as it was given. Its metadata say that it was made"
            f" from this: {meaning}\n\nThe model is wrong, or the provider is:"
            " `onnxgather certify model.onnx` says whether the model is right."
        )
    return meaning


def _array_text(name: str, array: Array) -> str:
    """Return the type and shape of an array, and its elements if they are few."""
    head = f"{name}: {ArrayType.of(array).data_type} {list(array.shape)}"
    if array.size > MOST_SHOWN:
        return head
    elements = np.array2string(array, separator=", ", floatmode="unique")
    return f"{head}\n\n{_block(elements)}"


def _block(text: str) -> str:
    """Return text of others as indented code, in which nothing is Markdown."""
    lines = [printable(line) for line in text.rstrip().splitlines()]
    return textwrap.indent("\n".join(lines), "    ")


def _filled(paragraph: str) -> str:
    """Return a paragraph in lines of 100 columns."""
    # Headings, lists and indented code keep their lines.
    if paragraph.startswith(("#", "-", " ")):
        return paragraph
    return textwrap.fill(paragraph, 100, break_long_words=False, break_on_hyphens=False)
