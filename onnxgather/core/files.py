"""Files written whole or not at all, and the package's templates for them.

A file is written under a random name, in the folder where it belongs, and
renamed when it is whole. Nothing may have that random name: no existing file is opened,
and no link is followed.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import cache
from importlib import resources
from pathlib import Path
from string import Template

from onnxgather.core.errors import OnnxGatherError, pass_foreign

_REPORT = re.compile(
    rb'(\xef\xbb\xbf)?\s*\{\s*("schema"\s*:\s*\d+\s*,\s*)?"onnxgather"\s*:'
)
"""How a report starts, however it is formatted.

Reports of earlier versions have no schema.
"""

_CPP = (
    rb"(\s|//[^\n]*+|/\*.*?\*/)*+"
    rb"(#\s*(include|pragma|define|if)|(const|using|namespace)\s)"
)
"""How C and C++ start, behind comments."""

_KINDS = {
    rb"\Z": "an empty file",
    rb"\x08[\x01-\x1f][\x12-\x7a]": (
        "an ONNX model, which onnxgather audit, certify, check, convert, "
        "explain, extract, harden, repro and show take"
    ),
    rb"\xff\xfe|\xfe\xff|\0.|.\0": "UTF-16, which must be UTF-8",
    rb"\x1f\x8b": "a gzip file, which must be unpacked",
    rb"PK\x03\x04|PK\x05\x06": (
        "an .npz or zip file, which onnxgather audit, check, explain, "
        "extract, harden, repro and run take with --inputs"
    ),
    rb"version https://git-lfs": (
        "a pointer of Git LFS, which git lfs pull replaces by the file"
    ),
    rb"\x93NUMPY": "an .npy file, which a DxDispatch program names by sourcePath",
    _REPORT.pattern: "a report, which onnxgather repro and report merge take",
    _CPP: "C or C++, which onnxgather does not read",
    rb'[^\x00-\x08]*"(resources|dispatchables)"\s*:': (
        "a DxDispatch program, which onnxgather "
        "certify, check, convert, explain, repro, run and show take"
    ),
}
"""How files start, what they are, and which commands accept them."""

_CASELESS = sys.platform in ("darwin", "win32")
"""Whether names of files that differ only in case are usually one file."""

UNFINISHED = re.compile(r"\.onnxgather\..*\.partial")
"""The random names of unfinished files, which an interruption may leave."""


def clashes(
    written: Sequence[tuple[str, str]], inputs: Iterable[str]
) -> list[str | None]:
    """Return for each file to write why it must not be written; None if it may be.

    Args:
        written: The files to write, each with what it is for, as the sentence names it.
        inputs: The files that are read, none of which may be written.
    """
    read = {_identity(path): path for path in inputs}
    purposes: dict[str, list[str]] = {}
    for path, purpose in written:
        purposes.setdefault(_identity(path), []).append(purpose)
    sentences: list[str | None] = []
    for path, _ in written:
        identity = _identity(path)
        rule = f"{path} must not be written"
        sentence = None
        if identity in read:
            source = read[identity]
            other_name = "" if source == path else f": {source}"
            sentence = f"{rule}, as it is an input{other_name}"
        elif len(purposes[identity]) > 1:
            sentence = f"{rule} twice, for {' and '.join(purposes[identity])}"
        sentences.append(sentence)
    return sentences


def check_apart(written: Sequence[tuple[str, str]], inputs: Iterable[str]) -> None:
    """Check that no file to write is an input, and that each is written once.

    The arguments are those of `clashes`.

    Raises:
        OnnxGatherError: A file to write is an input, or another file to write.
    """
    for sentence in clashes(written, inputs):
        if sentence is not None:
            raise OnnxGatherError(sentence)


def write_whole(path: str, content: bytes) -> None:
    """Write a file as `write_pieces` does.

    Raises:
        OnnxGatherError: As `write_pieces`.
    """
    write_pieces(path, [content])


def write_pieces(
    path: str, content: Iterable[bytes | memoryview], *, follow: bool = True
) -> None:
    """Write a file as `replace_file` does.

    Raises:
        OnnxGatherError: The file cannot be written; an earlier file is as it was.
    """
    try:
        replace_file(path, content, follow)
    except OSError as error:
        raise sentence_on(path, error, "its folder") from None


def check_writable(path: str) -> None:
    """Check that a file can be written, and make its folder if the folder is missing.

    Raises:
        OnnxGatherError: The file cannot be written.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise OnnxGatherError(f"{path or os.curdir}: is a directory")
    try:
        # A device or a pipe needs no folder: it is written to as it is.
        if target.is_file() or not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise sentence_on(path, error, "its folder") from None


def first_missing_folder(path: str) -> str:
    """Return the first folder on the way to a file that is not there.

    It is empty if the folder of the file is there.
    """
    missing = ""
    folder = os.path.dirname(path)
    while folder and not os.path.exists(folder):
        missing = folder
        folder = os.path.dirname(folder)
    return missing


def check_new_folder(path: str) -> None:
    """Check that files can be written to a new or empty folder; make it if it is new.

    Raises:
        OnnxGatherError: It has files, or is none, or cannot be made.
    """
    folder = Path(path)
    try:
        if folder.exists() and not folder.is_dir():
            raise OnnxGatherError(f"{path}: must be a folder, got a file")
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise OnnxGatherError(f"{path}: must be a new or an empty folder")
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise sentence_on(path, error, "it") from None


def replace_file(
    path: str, content: Iterable[bytes | memoryview], follow: bool = True
) -> None:
    """Write a file whole or not at all, and make its folder if the folder is missing.

    An earlier file's permissions are kept; a new file gets those that `open` gives.

    Args:
        path: The file.
        content: The parts of the content, in order; each is made in turn.
        follow: Whether a link leads to the file that is written, and a device or a pipe
            is written to; if not, all of them are replaced.

    Raises:
        OSError: The file cannot be written; an earlier file is as it was.
    """
    # A device or a pipe cannot be replaced by a file that is whole.
    if follow and os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as stream:
            stream.writelines(content)
        return
    target = Path(os.path.realpath(path) if follow else os.path.abspath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_path(target.parent)
    with ExitStack() as undo:
        # Before it is there, as an interruption may come in between.
        undo.callback(partial.unlink, missing_ok=True)
        try:
            stream = open(partial, "xb")  # noqa: SIM115
        except FileExistsError:
            undo.pop_all()  # it is another's
            raise
        with stream:
            if target.is_file() and not target.is_symlink():
                partial.chmod(target.stat().st_mode & 0o777)
            stream.writelines(content)
        os.replace(partial, target)


def filled_in(template: str, **values: object) -> str:
    """Return a template of the package with its $names filled in.

    A template is, for example, `checking/repro/issue.md.template`.
    """
    return Template(packaged_text(template)).substitute(values)


def script_filled_in(script: str, **places: object) -> str:
    """Return a file of JavaScript of the package with its places filled in.

    A place is a word in capitals, so that the file is JavaScript as it is.
    """
    text = packaged_text(script)
    if not places:
        return text
    # A name may begin with another, so the longest comes first.
    names = sorted(places, key=len, reverse=True)
    return re.sub("|".join(names), lambda match: str(places[match[0]]), text)


@cache
def packaged_text(path: str) -> str:
    """Return the text of a file of the package."""
    return resources.files("onnxgather").joinpath(path).read_text("utf-8")


def is_report(start: bytes) -> bool:
    """Return whether a file that starts like this is a report of `check --json`.

    The start must have at least 40 bytes, if the file has.
    """
    return _REPORT.match(start) is not None


def got(content: bytes, wanted: str) -> str:
    """Return the end of a message about a file of the wrong kind.

    It is, for example, `, got an ONNX model, which ... take`.

    Args:
        content: The file, or how it starts.
        wanted: How the name of the right kind starts, such as "an ONNX model".

    Returns:
        An empty text where the file is of the right kind, or of no known kind.
    """
    for start, kind in _KINDS.items():
        if not re.match(start, content, re.DOTALL):
            continue
        # A file may start like several kinds; the first in the table decides.
        return "" if kind.startswith(wanted) else f", got {kind}"
    return ""


def path_from(folder: str, path: str) -> str:
    """Return the path of a file from a folder, with forward slashes."""
    try:
        path = os.path.relpath(path, folder or os.curdir)
    except ValueError:  # on another drive
        path = os.path.abspath(path)
    return path.replace(os.sep, "/")


def is_model(path: str) -> bool:
    """Return whether a file is an ONNX model, by its name or by how it starts."""
    is_named = path.lower().endswith(".onnx")
    if not os.path.isfile(path):
        return is_named
    try:
        with open(path, "rb") as stream:
            start = stream.read(100)
    except OSError as error:
        pass_foreign(error)
        return is_named
    starts_like_program = start[:1] in (b"{", b"/")
    if is_named and not starts_like_program:
        return True
    return "an ONNX model" in got(start, "a program")


def reason(error: OSError | ValueError) -> str:
    """Return the message of an error of opening a file, without number and path.

    The error is a ValueError if the path contains a NUL.

    Raises:
        OSError: The error itself, where `pass_foreign` raises it.
    """
    pass_foreign(error)
    # A ValueError has no strerror, and some errors of Python have no message at all.
    strerror: str | None = getattr(error, "strerror", None)
    text = strerror or str(error) or type(error).__name__
    return text.lower()


def partial_path(folder: Path) -> Path:
    """Return a path with a random name, for an unfinished file or folder."""
    return folder / f".onnxgather.{secrets.token_hex(16)}.partial"


def is_in(path: str, folder: str) -> bool:
    """Return whether a path is a folder, or is in it or below it."""
    try:
        path = os.path.normcase(os.path.realpath(path))
        folder = os.path.normcase(os.path.realpath(folder))
        return os.path.commonpath([path, folder]) == folder
    except ValueError:  # on another drive, or a NUL in the path
        return False


def check_outside(inputs: Iterable[str | None], folder: str) -> None:
    """Check that no input is in a folder that is written; None is no input.

    Raises:
        OnnxGatherError: One is.
    """
    for path in inputs:
        if path is not None and is_in(path, folder):
            rule = f"{path} must be outside of {folder}, whose files are replaced"
            raise OnnxGatherError(rule)


def _identity(path: str) -> str:
    """Return the text that all paths of a file have in common."""
    path = os.path.normcase(os.path.realpath(path))
    return path.casefold() if _CASELESS else path


def sentence_on(path: str, error: OSError | ValueError, folder: str) -> OnnxGatherError:
    """Return the error of a file or a folder that cannot be written or read.

    Args:
        path: The file or the folder.
        error: What went wrong.
        folder: How the message names the folder in whose place a file stands.
    """
    text = reason(error)
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        text = f"a file stands where {folder} should be"
    return OnnxGatherError(f"{path}: {text}")
