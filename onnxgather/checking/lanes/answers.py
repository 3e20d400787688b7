"""The lane on a folder of answers, which a runtime in any language gave to an export.

The README of an export describes the folder.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.lib import format as npy

from onnxgather.checking.cases import Case
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo, RuntimeName
from onnxgather.checking.lanes.python import question_of
from onnxgather.core.checks import LONGEST_SHOWN, listed, shown
from onnxgather.core.descriptors.arrays import FAULTS_OF_NPY, Array
from onnxgather.core.errors import FileFormatError
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.files import reason
from onnxgather.core.json_files import decoding, whole
from onnxgather.core.model.given_inputs import stored_type

OUTPUT_FILE = "output.npy"
"""The file of an output in the folder of a case."""

ERROR_FILE = "error.txt"
"""The file of a message in the folder of a case that was refused or failed."""

NOT_RUN_FILE = "not-run.txt"
"""The file of a reason in the folder of a case that the runtime was not given."""

_FILES = (OUTPUT_FILE, ERROR_FILE, NOT_RUN_FILE)

RUNTIME_FILE = "runtime.json"
"""The file that names the runtime in the folder of all answers."""

LARGEST_ANSWER_FILE = 2**26
"""The most bytes of a file of an answer that is read."""

LONGEST_ERROR_TEXT = 2**12
"""The most characters of a message that are kept."""

MOST_FOLDERS_LISTED = 3
"""A message lists at most this many folders."""

_EXAMPLE = '{"name": "my-runtime", "version": "1.2.0"}'


class AnsweringRuntime(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The runtime that gave answers, as `runtime.json` tells it."""

    name: RuntimeName
    version: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_SHOWN)]


class AnswersLane:
    """A folder of answers to the cases of an export.

    Args:
        folder: The folder.
        folder_of_case: The folder of the answer to each case, below `folder`, by the
            names of the cases.

    Raises:
        FileFormatError: The folder does not name its runtime, has no answer, or has an
            answer to no case.
    """

    def __init__(self, folder: str, folder_of_case: Mapping[str, str]) -> None:
        self._folder = Path(folder)
        self._folder_of_case = folder_of_case
        runtime = _runtime_of(folder)
        self.name = runtime.name
        self._versions = {runtime.name: runtime.version}
        _check_folders(folder, {*folder_of_case.values()})

    def start(self) -> LaneInfo:
        """Describe the lane."""
        return LaneInfo(self.name, self.name, self._versions, has_answers=True)

    def answer(self, case: Case) -> Answer:
        """Return the answer to a case."""
        folder = self._folder / self._folder_of_case[case.name]
        gathers = question_of(case, "portable").gathers
        try:
            answer = _answer_in(folder, case.data.dtype)
            return replace(answer, gathers=gathers)
        except NoAnswerError as error:
            return Answer.none(error)
        except OSError as error:
            return Answer(AnswerKind.BROKEN, reason(error), how=Breakdown.NONSENSE)

    def close(self) -> None:
        """Do nothing, as nothing runs."""


def _runtime_of(folder: str) -> AnsweringRuntime:
    """Return the runtime that a folder of answers names."""
    if not os.path.isdir(folder):
        raise FileFormatError(f"{folder}: must be a folder of answers, got no folder")
    path = os.path.join(folder, RUNTIME_FILE)
    if not os.path.isfile(path):
        raise FileFormatError(
            f"{folder}: must have a {RUNTIME_FILE} such as {_EXAMPLE}, got none"
        )
    with decoding(path, "docs/provider-ci.md"), open(path, "rb") as file:
        content = whole(file, LARGEST_ANSWER_FILE)
        return msgspec.json.decode(content, type=AnsweringRuntime)


def _check_folders(folder: str, cases: AbstractSet[str]) -> None:
    """Check that there is an answer, and that each folder is that of a case."""
    # A program may make the folders of a group before those of its cases.
    groups: set[str] = set()
    for case in cases:
        groups.update(parent.as_posix() for parent in PurePosixPath(case).parents)
    answers = 0
    others: list[str] = []
    for path, folders, files in os.walk(folder):
        name = Path(path).relative_to(folder).as_posix()
        has_answer = not {*_FILES}.isdisjoint(files)
        # The folder of a case that ended its process is empty.
        is_other = not folders and name not in groups
        if name not in cases and (has_answer or is_other):
            others.append(name)
        answers += has_answer
    if others:
        rule = f"{folder}: each folder must be that of a case of the export"
        names = listed([*map(shown, sorted(others))], MOST_FOLDERS_LISTED)
        raise FileFormatError(f"{rule}, got {names}")
    if not answers:
        raise FileFormatError(
            f"{folder}: must have an answer, CASE/{OUTPUT_FILE} or CASE/{ERROR_FILE}"
            ", got none, so that no case can be judged"
        )


def _answer_in(folder: Path, dtype: np.dtype[Any]) -> Answer:
    """Return the answer in the folder of a case.

    Args:
        folder: The folder.
        dtype: The type of the case's data.

    Raises:
        NoAnswerError: There is no answer, or it cannot be read.
        OSError: A file cannot be read.
    """
    files = [folder / name for name in _FILES if (folder / name).exists()]
    if len(files) > 1:
        names = " and ".join(path.name for path in files)
        rule = f"must have one of {', '.join(_FILES)}, got {names}"
        raise NoAnswerError(Breakdown.NONSENSE, rule)
    for path in files:
        content = _content(path)
        if path.name == OUTPUT_FILE:
            return Answer(AnswerKind.RAN, output=_array_of(content, dtype))
        words = content.decode(errors="replace").split()
        message = " ".join(words)[:LONGEST_ERROR_TEXT]
        kind = AnswerKind.FAILED
        if path.name == NOT_RUN_FILE:
            kind = AnswerKind.NOT_RUN
        return Answer(kind, message or "it gave no message")
    # Case: a program makes the folder of a case before it runs the case.
    if folder.is_dir():
        raise NoAnswerError(
            Breakdown.NO_ANSWER, f"ended its process: its folder has no {OUTPUT_FILE}"
        )
    raise NoAnswerError(
        Breakdown.NO_ANSWER, "ended its process, or never ran: it has no folder"
    )


def _content(path: Path) -> bytes:
    """Return the content of a file of an answer."""
    if not path.is_file():
        rule = f"{path.name} must be a file, got something else"
        raise NoAnswerError(Breakdown.NONSENSE, rule)
    with open(path, "rb") as file:
        try:
            return whole(file, LARGEST_ANSWER_FILE)
        except FileFormatError:
            rule = (
                f"{path.name} must have at most {LARGEST_ANSWER_FILE:,} bytes, got more"
            )
            raise NoAnswerError(Breakdown.NONSENSE, rule) from None


def _array_of(content: bytes, data_type: np.dtype[Any]) -> Array:
    """Return the array of an .npy file, in this machine's byte order.

    Args:
        content: The file.
        data_type: The type of the case's data, which the bytes of a type that .npy does
            not name are taken for.

    Raises:
        NoAnswerError: The file is no .npy file of numbers or texts.
    """
    rule = f"{OUTPUT_FILE} must be a whole .npy file of numbers or texts"
    stream = io.BytesIO(content)
    try:
        dtype, shape = stored_type(stream)
        array_size = math.prod(shape) * dtype.itemsize
        size = len(content) - stream.tell()
        bare = np.dtype(f"V{data_type.itemsize}")
        is_bare = data_type.kind == "V" and dtype == bare
        # ONNX lacks numpy's longdouble, whose signs are g and G.
        is_element = dtype.kind in "biufcU" and dtype.char not in "gG"
        is_known = is_bare or is_element
        if not is_known or min(shape, default=0) < 0:
            raise ValueError(f"its type is {dtype} {[*shape]}")
        # numpy would make the array of a header before it reads the elements.
        if size != array_size:
            raise ValueError(f"it has {size:,} bytes for {dtype} {[*shape]}")
        stream.seek(0)
        array = npy.read_array(stream, allow_pickle=False)
    except FAULTS_OF_NPY as error:
        why = " ".join(str(error).split()) or type(error).__name__
        sentence = f"{rule} ({why[:LONGEST_SHOWN]})"
        raise NoAnswerError(Breakdown.NONSENSE, sentence, why[:LONGEST_SHOWN]) from None
    if is_bare:
        return array.view(data_type)
    # Case: texts. Those of a case are objects.
    if array.dtype.kind == "U":
        return array.astype(object)
    return array.astype(array.dtype.newbyteorder("="))
