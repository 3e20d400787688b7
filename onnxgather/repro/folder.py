"""The folder that a repro is: a model, its inputs, the expected output, a script, an issue."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np

from onnxgather import runtime
from onnxgather.cases import Case, DescriptorCase
from onnxgather.checks import printable
from onnxgather.dxdispatch import program_files
from onnxgather.files import FolderKind, filled_in
from onnxgather.repro.issue import Difference, issue_text
from onnxgather.repro.trial import Trial

REPRO = FolderKind(
    "repro",
    "the folder must be new, empty or an earlier repro, got {}",
    sometimes=("expected.npy", "data.npy", "indices.npy", "program.json", "runtime.py"),
    always=("model.onnx", "inputs.npz", "repro.py", "ISSUE.md"),
)
"""A case that must be refused has no expected output, a forbidden node has no program, few programs
have large arrays, and repros of earlier versions have no runtime.py."""


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
    contents = runnable(difference.case, difference.title, difference.info.provider, trial)
    contents["ISSUE.md"] = issue_text(difference, trial, printed).encode()
    case = difference.case
    if isinstance(case, DescriptorCase):
        comment = f"{difference.title}."
        contents |= program_files(case.descriptor, case.data, case.indices, comment)
    REPRO.write(folder, contents.items())


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
        "repro/repro.py.template",
        title=json.dumps(title)[1:-1],  # escaped, as it stands between quotes
        provider=json.dumps(provider)[1:-1],
        library=repr(trial.library),
        operators=repr(trial.operators),
        threads=trial.threads,
        rule=repr(printable(rule)) if isinstance(rule, str) else None,
    )
    inputs, expected = io.BytesIO(), io.BytesIO()
    np.savez(inputs, allow_pickle=False, **trial.inputs)
    contents = {
        "model.onnx": trial.model,
        "inputs.npz": inputs.getvalue(),
        "runtime.py": Path(runtime.__file__).read_bytes(),
        "repro.py": script.encode(),
    }
    if trial.expected is not None:
        np.save(expected, trial.expected)
        contents["expected.npy"] = expected.getvalue()
    return contents
