"""The files of contracts: what `--contract` writes, and the folders of `--assume`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import click

from onnxgather.cli.outputs import Folder
from onnxgather.cli.sources import STANDARD, Source, find_sources
from onnxgather.cli.terminal import json_bytes
from onnxgather.core.checks import either, number_of
from onnxgather.core.errors import FileFormatError
from onnxgather.core.files import check_apart, check_writable, reason
from onnxgather.core.replacing import with_field

if TYPE_CHECKING:
    from onnxgather.auditing.output.findings import FinishedAudit
    from onnxgather.core.model.network import Network

CONTRACT_ENDING = ".contract.json"
"""How the names of the contracts in a folder end."""

GUARD_ENDING = ".onnx"
"""How the name of a contract that is an ONNX model ends."""


def check_contract_file(path: str) -> None:
    """Check that a path is one of a contract in a known format.

    Raises:
        UsageError: It is not.
    """
    # The standard output has no ending, and gets JSON.
    if path == STANDARD or _ending(path) in _CONTENTS:
        return
    raise click.UsageError(
        f"--contract must end in {either(_CONTENTS)} for a model, got {path}"
    )


def is_guard(path: str | None) -> bool:
    """Return whether a contract is written as an ONNX model."""
    # A folder of contracts may have such a name.
    if path is None or os.path.isdir(path):
        return False
    return _ending(path) == GUARD_ENDING


def contract_content(path: str, finished_audit: FinishedAudit) -> bytes:
    """Return a contract in the format that the name of its file has.

    Args:
        path: The file; the standard output gets JSON.
        finished_audit: The audit of the model, which a guard needs with the model.
    """
    ending = ".json" if path == STANDARD else _ending(path)
    return _CONTENTS[ending](finished_audit)


def contract_names(folder: str, models: Sequence[Source]) -> dict[str, str]:
    """Return the path in a folder of the contract of each model, by the models.

    The files have the paths of the models, from the folder on that is around all that
    the user named.

    Raises:
        UsageError: The folder has the name of a file.
    """
    # Case: the name of a file, though several contracts are written. A folder that is
    # there may have any name.
    is_folder = os.path.isdir(folder)
    if folder == STANDARD or (_ending(folder) in _CONTENTS and not is_folder):
        raise click.UsageError(
            f"--contract must be a folder for {len(models)} models, got {folder}"
        )
    names = {model.path: model.inside for model in models}
    # Folders on several drives of Windows have no folder around them.
    with suppress(ValueError):
        root = os.path.commonpath(list(map(_named_folder, models)))
        names = {model.path: os.path.relpath(model.path, root) for model in models}
    return {model: f"{name}{CONTRACT_ENDING}" for model, name in names.items()}


def _named_folder(model: Source) -> str:
    """Return the folder that the user named of a model, or that of its file."""
    path = os.path.abspath(model.path)
    # Case: the model is below a folder of the user, or is the file that was named.
    if path.endswith(os.sep + model.inside):
        return path.removesuffix(os.sep + model.inside) or os.sep
    # Case: the standard input, which the user names without a folder.
    return os.path.dirname(path)


def check_contract_folder(
    folder: str, names: Iterable[str], others: Iterable[str]
) -> None:
    """Check that contracts can be written to a folder, which may have others already.

    Args:
        folder: The folder.
        names: The paths of the contracts in it.
        others: The files that are read, and the other files to write.

    Raises:
        OnnxGatherError: A contract cannot be written, or is one of the other files.
    """
    # A contract of an earlier run may be read by --assume in this run.
    files = [os.path.join(folder, name) for name in names]
    check_apart([(file, "--contract") for file in files], others)
    for file in files:
        # What stands in the place of a file fails that file alone, when it is written.
        if not os.path.lexists(file):
            check_writable(file)


def contracts_folder(
    names: Mapping[str, str], audits: Mapping[str, FinishedAudit]
) -> Folder:
    """Return the contracts of a folder, each with a field that says who wrote it.

    Args:
        names: Their paths in it, by the models.
        audits: The audits, by the models; a model without an audit has no contract.
    """
    return {
        names[model]: with_field(_as_json(finished_audit))
        for model, finished_audit in audits.items()
    }


def contracts_in(path: str) -> list[str]:
    """Return the contracts that a path of --assume names: a file, or those of a folder.

    Raises:
        FileFormatError: A folder has no contract, or cannot be read.
    """
    if not os.path.isdir(path):
        return [path]
    return [source.path for source in find_sources(path, CONTRACT_ENDING)]


def contracts_of(path: str, network: Network) -> list[str]:
    """Return the contracts that a path of --assume names for a model.

    Args:
        path: A file, which must be of the model, or a folder, whose other contracts are
            left out.
        network: The model.

    Raises:
        FileFormatError: A file cannot be read, or is no contract.
    """
    files = contracts_in(path)
    # Case: a file. If it is of another model, reading it is an error.
    if not os.path.isdir(path):
        return files
    digest = network.digest
    return [file for file in files if _digest(file) == digest]


def without_model(paths: Iterable[str], digests: Collection[str]) -> Iterator[str]:
    """Yield how many contracts of each folder of --assume are of none of some models.

    A folder whose contracts are all of these models has no sentence.

    Args:
        paths: The paths of --assume.
        digests: The digests of the models.
    """
    # The contract of a file must be that of the model, so only folders have others.
    for folder in filter(os.path.isdir, paths):
        files = contracts_in(folder)
        count = sum(_digest(file) not in digests for file in files)
        if count:
            verb = "fits" if count == 1 else "fit"
            of_all = f"{count:,} of {number_of(len(files), 'contract')}"
            yield f"{folder}: {of_all} {verb} no model of this audit"


def _digest(path: str) -> str:
    """Return the digest of the model of a contract.

    Raises:
        FileFormatError: The file cannot be read, or is no contract.
    """
    # Each contract is compared with each model.
    try:
        changed = os.stat(path).st_mtime_ns
    except OSError as error:
        raise FileFormatError(f"{path}: {reason(error)}") from None
    return _digest_of_file(os.path.abspath(path), path, changed)


@cache
def _digest_of_file(full_path: str, path: str, changed: int) -> str:
    """Return the digest of a contract, which is read once until it changes."""
    from onnxgather.auditing.proof.contract import decoded

    return decoded(path).digest


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def _as_json(finished_audit: FinishedAudit) -> bytes:
    return json_bytes(finished_audit.audit.contract)


def _as_python(finished_audit: FinishedAudit) -> bytes:
    from onnxgather.auditing.proof.contract_python import guard

    return guard(finished_audit.audit.contract).encode()


def _as_onnx(finished_audit: FinishedAudit) -> bytes:
    from onnxgather.auditing.proof.contract_model import guard_model

    audited = finished_audit.audited
    # The audit keeps the model where `is_guard` says that it is needed.
    assert audited is not None
    model = guard_model(finished_audit.audit.contract, audited.network)
    return model.SerializeToString(deterministic=True)


_CONTENTS: dict[str, Callable[[FinishedAudit], bytes]] = {
    ".json": _as_json,
    GUARD_ENDING: _as_onnx,
    ".py": _as_python,
}
"""What makes the content of the file of a contract, by the ending of its name."""
