"""The folder that a repro is: written whole or not at all."""

from __future__ import annotations

import io
import json
import os
import platform
import shutil
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template

import numpy as np

from onnxgather.arrays import Array
from onnxgather.cases import Case, DescriptorCase
from onnxgather.checks import shown
from onnxgather.dxdispatch import write_program
from onnxgather.errors import OnnxGatherError
from onnxgather.files import reason, write_whole
from onnxgather.lanes.lane import LaneInfo
from onnxgather.parity.results import Result
from onnxgather.repro.issue import issue_text, title
from onnxgather.repro.run import Run

ALWAYS = ("model.onnx", "inputs.npz", "repro.py", "ISSUE.md")
"""What every repro holds."""

SOMETIMES = ("expected.npy", "program.json")
"""What one holds that has an expected output, and one that has a descriptor."""


def write_folder(
    case: Case, info: LaneInfo, result: Result, folder: str, run: Run, printed: str | None = None
) -> None:
    """Write a repro: a model, its inputs, the expected output, a script, and the text of an issue.

    Args:
        case: The case, reduced or not.
        info: The lane that showed the difference.
        result: The difference.
        folder: Where; it must not be there yet, or be empty or an earlier repro.
        run: What the script runs.
        printed: What the script printed when it showed the difference, if it did.

    Raises:
        OnnxGatherError: Something else is in the folder, or it cannot be written; what was there
            is as it was.
    """
    check_folder(folder)
    contents = runnable(case, info, result, run)
    system = f"{platform.system()} {platform.machine()}"
    contents["ISSUE.md"] = issue_text(case, info, result, run, system, printed).encode()
    if isinstance(case, DescriptorCase):
        comment = f"{title(case, info, result)}."
        program = write_program(case.descriptor, case.data, case.indices, comment=comment)
        contents["program.json"] = program.encode()
    target = Path(os.path.realpath(folder))
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    earlier = target.with_name(f"{target.name}.{os.getpid()}.earlier")
    try:
        for name, content in contents.items():
            write_whole(str(partial / name), content)
        if target.exists():
            target.rename(earlier)
        try:
            partial.rename(target)
        except OSError:
            if earlier.exists():
                earlier.rename(target)
            raise
        shutil.rmtree(earlier, ignore_errors=True)
    except OSError as error:
        raise OnnxGatherError(f"{folder}: {reason(error)}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_folder(folder: str) -> None:
    """Check that a repro may be written to a folder.

    Raises:
        OnnxGatherError: It may not: something else is there.
    """
    try:
        there = set(os.listdir(folder))
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise OnnxGatherError(f"{folder}: a file stands where the folder should be") from None
    except OSError as error:
        raise OnnxGatherError(f"{folder}: {reason(error)}") from None
    other = sorted(there - {*ALWAYS, *SOMETIMES}) or sorted(there)
    if there and not (set(ALWAYS) <= there <= {*ALWAYS, *SOMETIMES}):
        raise OnnxGatherError(
            f"{folder}: the folder must be new, empty or an earlier repro, got {shown(other[0])}"
        )


def runnable(case: Case, info: LaneInfo, result: Result, run: Run) -> dict[str, bytes]:
    """Return the files that repro.py needs, itself included."""
    rule = case.expected()
    script = Template(files("onnxgather.repro").joinpath("repro.py.template").read_text("utf-8"))
    text = script.substitute(
        title=title(case, info, result),
        provider=info.provider,
        quoted=json.dumps(info.provider),
        library=repr(run.library),
        threads=run.threads,
        rule=repr(rule) if isinstance(rule, str) else None,
    )
    contents = {
        "model.onnx": run.model,
        "inputs.npz": _npz(run.inputs),
        "repro.py": text.encode(),
    }
    if run.expected is not None:
        contents["expected.npy"] = _npy(run.expected)
    return contents


def _npz(arrays: Mapping[str, Array]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # pyright: ignore[reportArgumentType]
    return stream.getvalue()


def _npy(array: Array) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()
