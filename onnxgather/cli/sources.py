"""Which programs a path stands for, and which models they become."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from onnxgather.descriptors import Descriptor
from onnxgather.dxdispatch import Program
from onnxgather.dxdispatch.document import Field
from onnxgather.errors import FileFormatError, OnnxGatherError
from onnxgather.files import reason

_UNSAFE = frozenset('%/\\:*?"<>|') | {chr(c) for c in range(32)}
"""What some file system does not take in a name, and the character that stands for them."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file with a program."""

    path: str
    inside: str
    """The path of the file in the folder that was named; of a file that was named its name."""


@dataclass(frozen=True, slots=True)
class Job:
    """A dispatchable and the file that its model becomes."""

    source: str
    dispatchable: str
    descriptor: Descriptor
    output: str

    def __str__(self) -> str:
        return f"{dispatchable_path(self.dispatchable)} of {self.source}"


def find_sources(path: str) -> list[Source]:
    """The programs that a path stands for: the file itself, or all *.json files of a folder.

    Raises:
        FileFormatError: A folder has none, or one of its folders cannot be read.
    """
    if not os.path.isdir(path):
        return [Source(path, os.path.basename(path))]
    found: list[str] = []
    try:
        for folder, folders, names in os.walk(path, onerror=_stop):
            folders.sort()
            found += [os.path.join(folder, name) for name in sorted(names)]
    except OSError as error:
        raise FileFormatError(f"{error.filename}: {reason(error)}") from None
    found = [file for file in found if file.lower().endswith(".json")]
    if not found:
        raise FileFormatError(f"{path}: the folder must have a *.json file, got none")
    return [Source(file, os.path.relpath(file, path)) for file in found]


def plan(
    programs: Sequence[tuple[Source, Program]], output: str | None, unread: Sequence[str] = ()
) -> list[Job]:
    """The models to write: one per dispatchable, each to a file of its own.

    Args:
        programs: The programs and where they come from.
        output: A file where there is one model and the name ends in .onnx, else a folder; None
            means beside each program.
        unread: The inputs that are no programs: each counts as a model, none is written to.

    Raises:
        OnnxGatherError: Two models would be one file, or a model would replace an input.
    """
    models = len(unread) + sum(len(program.dispatchables) for _, program in programs)
    one_file = (
        output is not None
        and models == 1
        and output.lower().endswith(".onnx")
        and not os.path.isdir(output)
    )
    inputs = [*unread, *(file for _, program in programs for file in _files(program))]
    taken = {_identity(file): file for file in inputs}
    jobs: dict[str, Job] = {}
    for source, program in programs:
        for name, dispatchable in program.dispatchables.items():
            target = output if output and one_file else _target(source, program, name, output)
            job = Job(source.path, name, dispatchable.descriptor, target)
            identity = _identity(target)
            if identity in taken:
                raise OnnxGatherError(
                    f"{target} must not be written, as it is an input: {taken[identity]}"
                )
            if identity in jobs:
                raise OnnxGatherError(
                    f"{target} must not be written twice, for {jobs[identity]} and {job}"
                )
            jobs[identity] = job
    return list(jobs.values())


def dispatchable_path(name: str) -> str:
    """The path to a dispatchable in its file, such as `$.dispatchables.gather`."""
    return Field({name: None}, "$.dispatchables").member(name).path


def _stop(error: OSError) -> None:
    raise error


def _target(source: Source, program: Program, dispatchable: str, output: str | None) -> str:
    path = source.path if output is None else os.path.join(output, source.inside)
    stem = os.path.splitext(path)[0]
    if len(program.dispatchables) > 1:
        stem += "." + "".join(f"%{ord(c):02X}" if c in _UNSAFE else c for c in dispatchable)
    return stem + ".onnx"


def _files(program: Program) -> list[str]:
    files = [resource.values.file for resource in program.resources.values()]
    return [program.path, *(file for file in files if file is not None)]


def _identity(path: str) -> str:
    return os.path.normcase(os.path.realpath(path))
