"""The folder that a repro is: a model, its inputs, the expected output, a script, an issue."""

from __future__ import annotations

import io
import json
import platform
from collections.abc import Callable
from importlib.resources import files
from string import Template

import numpy as np

from onnxgather.arrays import Array
from onnxgather.cases import DescriptorCase
from onnxgather.dxdispatch import write_program
from onnxgather.files import FolderKind
from onnxgather.repro.issue import Finding, issue_text
from onnxgather.repro.trial import Trial

REPRO = FolderKind(
    "repro",
    "the folder must be new, empty or an earlier repro, got {}",
    sometimes=("expected.npy", "program.json"),
    always=("model.onnx", "inputs.npz", "runtime.py", "repro.py", "ISSUE.md"),
)
"""There is an expected output where the case has one, a program where it has a descriptor."""


def write_folder(folder: str, finding: Finding, trial: Trial, printed: str | None = None) -> None:
    """Write a repro.

    Args:
        folder: Its path. The folder must be new, empty or an earlier repro.
        finding: The difference that the folder shows.
        trial: What repro.py runs.
        printed: What repro.py printed when it showed the difference, if it did.

    Raises:
        OnnxGatherError: The folder holds something else, or cannot be written. Its contents are
            then as they were.
    """
    contents = runnable(finding, trial)
    system = f"{platform.system()} {platform.machine()}"
    contents["ISSUE.md"] = issue_text(finding, trial, system, printed).encode()
    case = finding.case
    if isinstance(case, DescriptorCase):
        comment = f"{finding.title}."
        program = write_program(case.descriptor, case.data, case.indices, comment=comment)
        contents["program.json"] = program.encode()
    REPRO.write(folder, contents.items())


def runnable(finding: Finding, trial: Trial) -> dict[str, bytes]:
    """The files that repro.py needs, itself included."""
    rule, provider = finding.case.expected(), finding.info.provider
    package = files("onnxgather")
    script = Template((package / "repro" / "repro.py.template").read_text("utf-8")).substitute(
        title=finding.title,
        provider=provider,
        quoted=json.dumps(provider),
        library=repr(trial.library),
        threads=trial.threads,
        rule=repr(rule) if isinstance(rule, str) else None,
    )
    contents = {
        "model.onnx": trial.model,
        "inputs.npz": _saved(np.savez, **trial.inputs),
        "runtime.py": (package / "runtime.py").read_bytes(),
        "repro.py": script.encode(),
    }
    if trial.expected is not None:
        contents["expected.npy"] = _saved(np.save, trial.expected)
    return contents


def _saved(save: Callable[..., None], *array: Array, **arrays: Array) -> bytes:
    """What `numpy.save` or `numpy.savez` writes."""
    stream = io.BytesIO()
    save(stream, *array, **arrays)
    return stream.getvalue()
