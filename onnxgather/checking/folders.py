"""Folders written whole or not at all, in the place of an earlier one.

A folder lists the digests of its files. So files that somebody put into it or changed
are told from those that onnxgather wrote, and no other files are deleted.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Literal

from onnxgather.core.checks import shown
from onnxgather.core.errors import OnnxGatherError, pass_foreign
from onnxgather.core.files import UNFINISHED, partial_path, reason, sentence_on
from onnxgather.core.replacing import CHANGED, check_replaceable, with_line

SUMS = "SHA256SUMS"
"""The file of a folder that lists the digests of the others, as sha256sum reads it."""


Change = Literal["new", "changed", "missing"]
"""What became of a file of a folder since the folder was written."""


class FilesDigest:
    """The digests of files, which may come in parts and in any order."""

    def __init__(self) -> None:
        self._by_path: dict[str, Any] = {}

    def add(self, path: str, content: bytes) -> None:
        """Add a part of a file.

        Args:
            path: The path of the file, with `/` between its parts.
            content: The bytes behind those that were added before.
        """
        self._by_path.setdefault(path, sha256()).update(content)

    @property
    def lines(self) -> bytes:
        """A line for each file, as sha256sum writes it, sorted by the paths."""
        lines = [
            f"{digest.hexdigest()}  {path}\n"
            for path, digest in sorted(self._by_path.items())
        ]
        return "".join(lines).encode()


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder that is written whole, with how to recognise an earlier one."""

    name: str
    """Such as `export`."""
    rule: str
    """The error if the folder holds other files; `{}` becomes the name of a file."""
    sometimes: Sequence[str]
    """The names of files and folders that a folder of the kind may hold."""
    always: Sequence[str]
    """The names of files that a folder of the kind must hold, beside `SUMS`.

    The last is written last.
    """
    is_earlier: Callable[[str], bool] = lambda _: True
    """Whether a folder that holds all of `always` is really of the kind."""

    @property
    def names(self) -> Sequence[str]:
        """The names that a folder of the kind may hold."""
        return (*self.sometimes, SUMS, *self.always)

    def check(self, folder: str, force: bool = False) -> None:
        """Check that a folder may be written.

        It may if it is new or empty, or an earlier folder of the kind in which nobody
        put or changed a file.

        Args:
            folder: The folder.
            force: Whether files of an earlier folder may have been changed, and whether
                there may be others in it.

        Raises:
            OnnxGatherError: The folder holds other files, or cannot be read.
        """
        try:
            # pathlib reads an empty path as the current folder, which os does not.
            entries = os.listdir(Path(folder))
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise sentence_on(folder, error, "the folder") from None
        names = {entry for entry in entries if not UNFINISHED.fullmatch(entry)}
        if not names:
            return
        others = names.difference(self.names)
        has_all = names.issuperset((SUMS, *self.always))
        if others or not has_all or not self.is_earlier(folder):
            named = shown(min(others or names))
            raise OnnxGatherError(f"{folder or os.curdir}: {self.rule.format(named)}")
        self._others(folder, force)

    def write(
        self, folder: str, files: Iterable[tuple[str, bytes]], force: bool = False
    ) -> None:
        """Write a folder whole or not at all.

        It replaces an earlier folder of the kind. Files of others in it stay.

        Args:
            folder: The folder.
            files: Paths below the folder, and their content. If a path comes again, the
                content is appended to the file.
            force: As of `check`.

        Raises:
            OnnxGatherError: The folder holds other files, or cannot be written. An
                earlier folder is as it was, or the error says where it is.
        """
        self.check(folder, force)
        target = Path(folder)
        try:
            with ExitStack() as undo:
                if not target.exists():
                    # An undoing comes first, as an interruption may come in between.
                    undo.callback(_remove_empty, target)
                    target.mkdir(parents=True)
                partial = partial_path(target)
                undo.callback(shutil.rmtree, partial, ignore_errors=True)
                partial.mkdir()
                digests = FilesDigest()
                for path, content in files:
                    file = partial / path
                    file.parent.mkdir(parents=True, exist_ok=True)
                    with open(file, "ab") as stream:
                        stream.write(content)
                    digests.add(path, content)
                (partial / SUMS).write_bytes(with_line(digests.lines, "#"))
                # Somebody may have put or changed a file since the check.
                others = self._others(folder, force)
                self._exchange(target, partial, others)
        except OSError as error:
            raise sentence_on(folder, error, "the folder") from None

    def _others(self, folder: str, force: bool) -> list[str]:
        """Return the paths of the files that others put into an earlier folder.

        Raises:
            OnnxGatherError: There is one, or one of ours was changed; with `force`: the
                folder cannot be read.
        """
        check_replaceable(os.path.join(folder, SUMS), force)
        others: list[str] = []
        try:
            for path, change in self.changes(folder):
                full_path = os.path.join(folder, path)
                if change == "new":
                    others.append(path)
                    if not force:
                        rule = f"{full_path} must not be in an earlier {self.name}"
                        raise OnnxGatherError(
                            f"{rule}, as the {self.name} did not write it; --force"
                            " leaves it there"
                        )
                elif change == "changed" and not force:
                    raise OnnxGatherError(
                        f"{full_path} must not be replaced"
                        f", as {CHANGED}; --force replaces it"
                    )
        except OSError as error:
            raise sentence_on(folder, error, "the folder") from None
        return others

    def changes(self, folder: str) -> Iterator[tuple[str, Change]]:
        """Yield the files of a folder that are not as they were written.

        Each is a path below the folder, with what became of the file.

        Raises:
            OSError: A file cannot be read.
        """
        digests = _listed(os.path.join(folder, SUMS))
        files = {*self._files_in(folder)}
        for path in sorted(files.union(digests)):
            full_path = os.path.join(folder, path)
            if path not in files:
                yield path, "missing"
            elif path not in digests or not _is_plain(full_path):
                yield path, "new"
            elif _digest(full_path) != digests[path]:
                yield path, "changed"

    def _files_in(self, folder: str) -> Iterator[str]:
        """Yield the paths of all files and links of a folder, but for `SUMS`."""

        def fail(error: OSError) -> None:
            raise error

        for name in self.names:
            top = os.path.join(folder, name)
            if os.path.islink(top) or not os.path.isdir(top):
                if os.path.lexists(top) and name != SUMS:
                    yield name
                continue
            for below, folders, files in os.walk(top, onerror=fail):
                links = [
                    name
                    for name in folders
                    if os.path.islink(os.path.join(below, name))
                ]
                for file in (*files, *links):
                    path = os.path.relpath(os.path.join(below, file), folder or ".")
                    yield path.replace(os.sep, "/")

    def _exchange(self, folder: Path, partial: Path, others: Sequence[str]) -> None:
        """Move earlier files of a folder aside, and those of `partial` into it.

        Files of others go where they were.
        """
        for path in others:
            try:
                (partial / path).parent.mkdir(parents=True, exist_ok=True)
                is_free = not os.path.lexists(partial / path)
            except (FileExistsError, NotADirectoryError):
                is_free = False
            if not is_free:
                raise OnnxGatherError(
                    f"{folder / path} must not be replaced"
                    f", as the {self.name} did not write it"
                )
        aside = partial_path(folder)
        # The last name is moved away first and written last: a folder that lacks the
        # file was left by an interruption.
        moves = [(folder / name, aside / name) for name in reversed(self.names)]
        moves += [(partial / name, folder / name) for name in self.names]
        moves += [(aside / path, folder / path) for path in others]
        try:
            aside.mkdir()
            with ExitStack() as undo:
                for source, target in moves:
                    if os.path.lexists(source):
                        undo.callback(_move_back, target, source)
                        os.replace(source, target)
                undo.pop_all()
            shutil.rmtree(aside, ignore_errors=True)
        except OSError as error:
            # Each move was undone, but an undoing may fail too.
            if aside.exists() and any(aside.iterdir()):
                place = f"the earlier {self.name} is in {aside}"
                raise OnnxGatherError(
                    f"{folder}: {place}, as it cannot be moved back: {reason(error)}"
                ) from None
            raise
        finally:
            _remove_empty(aside)


def _listed(sums: str) -> dict[str, str]:
    """Return the digests that a file of digests lists, by the paths.

    They are none if there is no such file, as in a new folder.
    """
    digests: dict[str, str] = {}
    try:
        text = Path(sums).read_text("utf-8", "replace")
    except FileNotFoundError:
        return digests
    for line in text.splitlines():
        found = re.fullmatch("([0-9a-f]{64})  (.+)", line)
        if found:
            digests[found[2]] = found[1]
    return digests


def _is_plain(path: str) -> bool:
    """Return whether a path is that of a file, and of no link."""
    return os.path.isfile(path) and not os.path.islink(path)


def _digest(path: str) -> str:
    """Return the digest of a file, as `SUMS` lists it."""
    with open(path, "rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def _move_back(moved: Path, place: Path) -> None:
    """Move a file or a folder back; it may not have been moved yet."""
    if not os.path.lexists(place):
        os.replace(moved, place)


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError as error:
        pass_foreign(error)
