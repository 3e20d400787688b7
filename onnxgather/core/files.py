"""Files and folders written whole or not at all, and the package's templates for them.

A file or folder is written under a random name, in the folder where it belongs, and
renamed when it is whole. Nothing may have that random name: no existing file is opened,
and no link is followed.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template

from onnxgather.core.checks import shown
from onnxgather.core.errors import OnnxGatherError

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
        "an ONNX model, which onnxgather audit, check, convert, "
        "explain, extract, harden, repro and show take"
    ),
    rb"\xff\xfe|\xfe\xff|\0.|.\0": "UTF-16, which must be UTF-8",
    rb"\x1f\x8b": "a gzip file, which must be unpacked",
    rb"PK\x03\x04|PK\x05\x06": (
        "an .npz or zip file, which onnxgather audit, check, explain, "
        "extract and repro take with --inputs"
    ),
    rb"version https://git-lfs": (
        "a pointer of Git LFS, which git lfs pull replaces by the file"
    ),
    rb"\x93NUMPY": "an .npy file, which a DxDispatch program names by sourcePath",
    _REPORT.pattern: "a report, which onnxgather repro and report merge take",
    _CPP: "C or C++, which onnxgather does not read",
    rb'[^\x00-\x08]*"(resources|dispatchables)"\s*:': (
        "a DxDispatch program, which onnxgather "
        "check, convert, explain, repro, run and show take"
    ),
}
"""How files start, what they are, and which commands accept them."""

_CASELESS = sys.platform in ("darwin", "win32")
"""Whether names of files that differ only in case are usually one file."""

_UNFINISHED = re.compile(r"\.onnxgather\..*\.partial")
"""The random names of unfinished files, which an interruption may leave."""


def check_apart(written: Iterable[tuple[str, str]], inputs: Iterable[str]) -> None:
    """Check that no file to write is an input, and that each is written once.

    Args:
        written: The files to write, each with what it is for, as the error names it.
        inputs: The files that are read.

    Raises:
        OnnxGatherError: A file to write is an input, or another file to write.
    """
    read = {_identity(path): path for path in inputs}
    purposes: dict[str, str] = {}
    for path, purpose in written:
        identity = _identity(path)
        rule = f"{path} must not be written"
        if identity in read:
            source = read[identity]
            other_name = "" if source == path else f": {source}"
            raise OnnxGatherError(f"{rule}, as it is an input{other_name}")
        if identity in purposes:
            both = f"{purposes[identity]} and {purpose}"
            raise OnnxGatherError(f"{rule} twice, for {both}")
        purposes[identity] = purpose


def write_whole(path: str, *content: bytes | memoryview, follow: bool = True) -> None:
    """Write a file as `replace_file` does.

    Raises:
        OnnxGatherError: The file cannot be written; an earlier file is as it was.
    """
    write_pieces(path, content, follow=follow)


def write_pieces(
    path: str, content: Iterable[bytes | memoryview], *, follow: bool = True
) -> None:
    """Write a file as `write_whole` does, from parts of which each is made in turn.

    Raises:
        OnnxGatherError: As `write_whole`.
    """
    try:
        _replace(path, content, follow)
    except OSError as error:
        raise _sentence(path, error, "its folder") from None


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
        raise _sentence(path, error, "its folder") from None


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
        raise _sentence(path, error, "it") from None


def replace_file(path: str, *content: bytes | memoryview, follow: bool = True) -> None:
    """Write a file whole or not at all, and make its folder if the folder is missing.

    An earlier file's permissions are kept; a new file gets those that `open` gives.

    Args:
        path: The file.
        content: The parts of the content, in order.
        follow: Whether a link leads to the file that is written, and a device or a pipe
            is written to; if not, all of them are replaced.

    Raises:
        OSError: The file cannot be written; an earlier file is as it was.
    """
    _replace(path, content, follow)


def _replace(path: str, content: Iterable[bytes | memoryview], follow: bool) -> None:
    """Write a file from the parts of its content, as `replace_file` does."""
    # A device or a pipe cannot be replaced by a file that is whole.
    if follow and os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as stream:
            stream.writelines(content)
        return
    target = Path(os.path.realpath(path) if follow else os.path.abspath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(target.parent)
    with ExitStack() as undo:
        with open(partial, "xb") as stream:
            undo.callback(partial.unlink, missing_ok=True)
            if target.is_file() and not target.is_symlink():
                partial.chmod(target.stat().st_mode & 0o777)
            stream.writelines(content)
        os.replace(partial, target)


@dataclass(frozen=True, slots=True)
class FolderKind:
    """A kind of folder that is written whole, with how to recognise an earlier one."""

    name: str
    """Such as `export`."""
    rule: str
    """The error if the folder holds other files; `{}` becomes the name of a file."""
    sometimes: Sequence[str]
    """The names of files and folders that a folder of the kind may hold."""
    always: Sequence[str]
    """The names of files that a folder of the kind must hold.

    The last is written last.
    """
    is_earlier: Callable[[str], bool] = lambda _: True
    """Whether a folder that holds all of `always` is really of the kind."""

    def check(self, folder: str) -> None:
        """Check that a folder may be written.

        It may if it is new or empty, or an earlier folder of the kind.

        Raises:
            OnnxGatherError: The folder holds other files, or cannot be read.
        """
        try:
            # pathlib reads an empty path as the current folder, which os does not.
            entries = os.listdir(Path(folder))
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise _sentence(folder, error, "the folder") from None
        names = {entry for entry in entries if not _UNFINISHED.fullmatch(entry)}
        others = names - {*self.sometimes, *self.always}
        if not names:
            return
        if not others and names.issuperset(self.always) and self.is_earlier(folder):
            return
        named = shown(min(others or names))
        raise OnnxGatherError(f"{folder or os.curdir}: {self.rule.format(named)}")

    def write(self, folder: str, files: Iterable[tuple[str, bytes]]) -> None:
        """Write a folder whole or not at all.

        It replaces an earlier folder of the kind.

        Args:
            folder: The folder.
            files: Paths below the folder, and their content. If a path comes again, the
                content is appended to the file.

        Raises:
            OnnxGatherError: The folder holds other files, or cannot be written. An
                earlier folder is as it was, or the error says where it is.
        """
        self.check(folder)
        target = Path(folder)
        try:
            with ExitStack() as undo:
                if not target.exists():
                    target.mkdir(parents=True)
                    undo.callback(_remove_empty, target)
                partial = _partial(target)
                partial.mkdir()
                undo.callback(shutil.rmtree, partial, ignore_errors=True)
                for path, content in files:
                    file = partial / path
                    file.parent.mkdir(parents=True, exist_ok=True)
                    with open(file, "ab") as stream:
                        stream.write(content)
                self._exchange(target, partial)
        except OSError as error:
            raise _sentence(folder, error, "the folder") from None

    def _exchange(self, folder: Path, partial: Path) -> None:
        """Move earlier files of a folder aside, and those of `partial` into it."""
        names = [*self.sometimes, *self.always]
        aside = _partial(folder)
        aside.mkdir()
        # The last name is moved away first and written last: a folder that lacks the
        # file was left by an interruption.
        moves = [(folder / name, aside / name) for name in reversed(names)]
        moves += [(partial / name, folder / name) for name in names]
        try:
            with ExitStack() as undo:
                for source, target in moves:
                    if source.exists():
                        os.replace(source, target)
                        undo.callback(os.replace, target, source)
                undo.pop_all()
            shutil.rmtree(aside, ignore_errors=True)
        except OSError as error:
            # Each move was undone, but an undoing may fail too.
            if any(aside.iterdir()):
                place = f"the earlier {self.name} is in {aside}"
                why = f"as it cannot be moved back: {reason(error)}"
                raise OnnxGatherError(f"{folder}: {place}, {why}") from None
            raise
        finally:
            _remove_empty(aside)


def filled_in(template: str, **values: object) -> str:
    """Return a template of the package with its $names filled in.

    A template is, for example, `checking/repro/issue.md.template`.
    """
    text = resources.files("onnxgather").joinpath(template).read_text("utf-8")
    return Template(text).substitute(values)


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
    except OSError:
        return is_named
    starts_like_program = start[:1] in (b"{", b"/")
    if is_named and not starts_like_program:
        return True
    return "an ONNX model" in got(start, "a program")


def reason(error: OSError | ValueError) -> str:
    """Return the message of an error of opening a file, without number and path.

    The error is a ValueError if the path contains a NUL.
    """
    # A ValueError has no strerror, and some errors of Python have no message at all.
    strerror: str | None = getattr(error, "strerror", None)
    text = strerror or str(error) or type(error).__name__
    return text.lower()


def _partial(folder: Path) -> Path:
    """Return a path with a random name, for an unfinished file or folder."""
    return folder / f".onnxgather.{secrets.token_hex(16)}.partial"


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _identity(path: str) -> str:
    """Return the text that all paths of a file have in common."""
    path = os.path.normcase(os.path.realpath(path))
    return path.casefold() if _CASELESS else path


def _sentence(path: str, error: OSError | ValueError, folder: str) -> OnnxGatherError:
    text = reason(error)
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        text = f"a file stands where {folder} should be"
    return OnnxGatherError(f"{path}: {text}")
