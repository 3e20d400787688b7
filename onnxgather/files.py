"""Files and folders out, written whole or not at all, and the package's templates for them.

What is written stands under a random name until it is whole, in the folder where it belongs. That
name must be free: nothing that stands there is opened, and no link is followed. The rest is a
rename.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template

from onnxgather.checks import shown
from onnxgather.errors import OnnxGatherError

_REPORT = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*("schema"\s*:\s*\d+\s*,\s*)?"onnxgather"\s*:')
"""How a report starts, whoever formatted it; those of earlier versions have no schema."""

_UNFINISHED = re.compile(r"\.onnxgather\..*\.partial")
"""The names of what an interruption may leave."""


def write_whole(path: str, *content: bytes | memoryview) -> None:
    """Write a file as `replace_file` does.

    Raises:
        OnnxGatherError: It cannot be written; a file that was there is as it was.
    """
    try:
        replace_file(path, *content)
    except OSError as error:
        raise _sentence(path, error, "its folder") from None


def replace_file(path: str, *content: bytes | memoryview) -> None:
    """Write a file whole or not at all, and make its folder where there is none.

    An earlier file's permissions are kept; a new file gets those that `open` gives. A device or a
    pipe is written to instead of replaced.

    Args:
        path: The file; of a link the file that it leads to.
        content: The parts of its content, in order.

    Raises:
        OSError: It cannot be written; a file that was there is as it was.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as stream:
            stream.writelines(content)
        return
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(target.parent)
    with ExitStack() as undo:
        with open(partial, "xb") as stream:
            undo.callback(partial.unlink, missing_ok=True)
            if target.exists():
                partial.chmod(target.stat().st_mode & 0o777)
            stream.writelines(content)
        os.replace(partial, target)


@dataclass(frozen=True, slots=True)
class FolderKind:
    """A kind of folder that is written whole, and what tells an earlier one from others' files."""

    name: str
    """Such as `export`."""
    rule: str
    """The error where the folder holds something else; `{}` stands for what it holds."""
    sometimes: Sequence[str]
    """The files and folders that it may hold."""
    always: Sequence[str]
    """Those that it must hold; the last is the last to be put there."""
    is_earlier: Callable[[str], bool] = lambda _: True
    """Whether a folder that holds these is really of the kind."""

    def check(self, folder: str) -> None:
        """Check that a folder may be written: it is new, empty, or an earlier one of the kind.

        Raises:
            OnnxGatherError: It holds something else, or cannot be read.
        """
        try:
            # of the path, as pathlib takes an empty one for the current folder
            names = os.listdir(Path(folder))
        except FileNotFoundError:
            return
        except OSError as error:
            raise _sentence(folder, error, "the folder") from None
        found = {name for name in names if not _UNFINISHED.fullmatch(name)}
        other = found - {*self.sometimes, *self.always}
        if other or (found and not (found.issuperset(self.always) and self.is_earlier(folder))):
            where = folder or os.curdir
            raise OnnxGatherError(f"{where}: {self.rule.format(shown(min(other or found)))}")

    def write(self, folder: str, files: Iterable[tuple[str, bytes]]) -> None:
        """Write a folder whole or not at all; it replaces an earlier one of the kind.

        Args:
            folder: The folder.
            files: Paths below it, and their content. Where a path comes again, the content is
                added to its file.

        Raises:
            OnnxGatherError: The folder holds something else, or cannot be written. An earlier
                folder is as it was, or the error says where it is.
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
        """Move what a folder holds aside, and what `partial` holds into the folder."""
        names = [*self.sometimes, *self.always]
        aside = _partial(folder)
        aside.mkdir()
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
            if any(aside.iterdir()):
                raise OnnxGatherError(
                    f"{folder}: the earlier {self.name} is in {aside}, as it cannot be moved back: "
                    f"{reason(error)}"
                ) from None
            raise
        finally:
            _remove_empty(aside)


def filled_in(template: str, **values: object) -> str:
    """A template of the package, such as `repro/issue.md.template`, with its $names filled in."""
    text = resources.files("onnxgather").joinpath(template).read_text("utf-8")
    return Template(text).substitute(values)


def is_report(start: bytes) -> bool:
    """Whether a file is a report of `onnxgather check --json`, by its first 40 bytes."""
    return _REPORT.match(start) is not None


def reason(error: OSError | ValueError) -> str:
    """What an error of opening a file says, without its number and its path.

    It is a ValueError where the path holds a NUL.
    """
    strerror: str | None = getattr(error, "strerror", None)
    return (strerror or str(error) or type(error).__name__).lower()


def _partial(folder: Path) -> Path:
    """A path in a folder that nobody can foresee, for what is not yet whole."""
    return folder / f".onnxgather.{secrets.token_hex(16)}.partial"


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _sentence(path: str, error: OSError, folder: str) -> OnnxGatherError:
    what = reason(error)
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        what = f"a file stands where {folder} should be"
    return OnnxGatherError(f"{path}: {what}")
