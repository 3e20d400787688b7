"""The words of a check that choose cases and lanes, as the pytest plugin takes them."""

from __future__ import annotations

import contextlib
import shlex
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
from click import UsageError
from click.core import ParameterSource

from onnxgather.checking.cases import Case
from onnxgather.checking.known_differences import Known
from onnxgather.checking.lanes import base_of, open_lanes, parse_lane
from onnxgather.checking.run import Team
from onnxgather.cli.check import (
    CheckOptions,
    Selection,
    check_command,
    options_of,
    selected,
    teams_of,
)
from onnxgather.cli.sources import STANDARD, Batch
from onnxgather.cli.terminal import Progress
from onnxgather.core.checks import shown
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.files import path_from

REFUSED = {
    "--json": "use pytest's own --junit-xml",
    "--junit": "use pytest's own --junit-xml",
    "--html": "use --html of pytest-html",
    "--markdown": "use pytest's own --junit-xml",
    "--with-paths": "leave it out, as pytest's own --junit-xml names paths",
    "--write-known": "use onnxgather check --write-known FILE, then --known FILE here",
    "--list": "use pytest's own --collect-only",
    "--maxfail": "use pytest's own --maxfail",
    "--jobs": "use -n of pytest-xdist",
    **dict.fromkeys(["--help", "-h"], "use onnxgather check --help"),
}
"""The options of `onnxgather check` that choose no cases and no lanes, and what to use
instead."""


class _SilentBatch(Batch):
    """A batch that prints nothing, as the files are read while pytest prints."""

    def __init__(self) -> None:
        super().__init__()
        self.progress = Progress(hidden=True)
        self.notes: list[str] = []
        """Sentences about what the files hold beside cases."""

    def tell(self, text: str) -> None:
        self.notes.append(text)

    def _say_error(self, error: OnnxGatherError) -> None:
        """Do nothing: the error is one of `failures`."""


@dataclass(frozen=True)
class Asked:
    """What words ask for."""

    options: CheckOptions
    known: Sequence[Known]
    """The known differences."""
    lanes: Sequence[Team]
    """The lanes of the words, not started."""
    _batch: _SilentBatch
    _selection: Selection
    _others: dict[str, Team] = field(default_factory=dict[str, Team])
    """The lanes that are none of the words, by the texts that name them."""

    def cases(self) -> list[Case]:
        """Return the cases of the words; they can be made only once."""
        return list(self._selection.cases)

    @property
    def unusable(self) -> dict[str, str]:
        """The files that cannot be used, or that DirectML refuses: why, by file.

        All are known when the cases are made.
        """
        sentences = defaultdict[str, list[str]](list)
        for invalid in self._selection.invalid:
            sentences[invalid.file].append(f"{invalid.file}: {invalid.reason}")
        for file, error in self._batch.failures:
            sentences[file].append(str(error))
        return {file: "\n".join(lines) for file, lines in sorted(sentences.items())}

    @property
    def notes(self) -> list[str]:
        """Sentences about what the files hold beside cases."""
        return self._batch.notes

    def lane(self, text: str) -> Team:
        """Return a lane, which is opened only once.

        Args:
            text: NAME or NAME=PATH; the NAME of a lane of the words is that lane.

        Raises:
            OnnxGatherError: As `parse_lane` and `open_lanes`.
        """
        for team in self.lanes:
            if team.name == text:
                return team
        if text not in self._others:
            name, path = parse_lane(text)
            pythons = {} if path is None else {name: path}
            own = self.options.lanes
            # Each other name would be one more lane.
            base = base_of(name)
            plugins = {key: own.plugins[key] for key in own.plugins if key == name}
            adapters = {key: own.adapters[key] for key in own.adapters if key == base}
            settings = own.provider_options
            lanes = open_lanes(
                [name],
                pythons,
                plugins,
                self.options.target,
                own.timeout,
                adapters,
                own.opset,
                {key: settings[key] for key in settings if key == name},
            )
            self._others[text] = Team(lanes)
        return self._others[text]

    def close(self) -> None:
        """End the lanes."""
        for team in (*self.lanes, *self._others.values()):
            team.close()


def asked_for(words: str, folder: Path, root: Path, *, adds_tests: bool) -> Asked:
    """Return what words ask for.

    Args:
        words: As in a command line of `onnxgather check`; a backslash is a backslash.
        folder: The folder of the words, from which their paths are.
        root: The folder from which the cases are named.
        adds_tests: Whether the cases count, or the lanes alone.

    Raises:
        OnnxGatherError: `onnxgather check` does not accept the words, or they are of
            `REFUSED`.
    """
    batch = _SilentBatch()
    selection = Selection()
    try:
        # The paths of lanes are absolute as soon as the lanes are opened.
        with contextlib.chdir(folder):
            options = _options(words)
            known = options.known.read()
            lanes = teams_of(options)
        options = _from_root(options, folder, root)
        if adds_tests and options.has_source:
            with contextlib.chdir(root):
                selection = selected(options, batch)
    except click.ClickException as error:
        raise OnnxGatherError(error.format_message()) from None
    return Asked(options, known, lanes, batch, selection)


def _options(words: str) -> CheckOptions:
    """Return what the command reads in the words.

    Raises:
        UsageError: As `asked_for`.
    """
    parts = _split(words)
    try:
        # An option for help would print the help, and end pytest.
        context = check_command.make_context("check", parts, help_option_names=[])
    except click.NoSuchOption as error:
        _check_accepted(error.option_name)
        raise
    for parameter in check_command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is ParameterSource.COMMANDLINE:
            _check_accepted(parameter.opts[0])

    options = options_of(context.params)
    if STANDARD in options.paths:
        raise UsageError("a PATH must be a file or a folder, got -")
    if not options.has_source and (options.choice.text or options.choice.shard):
        raise UsageError(
            "-k and --shard must come with a PATH, --corpus or --random N"
            f", got {shown(words)}"
        )
    return options


def _check_accepted(option: str) -> None:
    """Check that an option is none of `REFUSED`.

    Raises:
        UsageError: It is.
    """
    if option in REFUSED:
        raise UsageError(
            "the words must choose cases and lanes alone"
            f", got {option}; {REFUSED[option]}"
        )


def _split(words: str) -> list[str]:
    """Return the words of a text, of which one with a blank is in quotes.

    Raises:
        UsageError: A quote is open.
    """
    lexer = shlex.shlex(words, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    # The paths of Windows have backslashes.
    lexer.escape = ""
    try:
        return list(lexer)
    except ValueError:
        raise UsageError(f"a quote must be closed, got {shown(words)}") from None


def _from_root(options: CheckOptions, folder: Path, root: Path) -> CheckOptions:
    """Return options whose paths, read from a folder, are read from the root folder.

    So a case has one name, wherever pytest was started.
    """

    def moved(path: str) -> str:
        return path_from(str(root), str(folder / path))

    paths = tuple(map(moved, options.paths))
    reading = options.reading
    if reading.inputs is not None:
        reading = reading._replace(inputs=moved(reading.inputs))
    choice = options.choice
    # Case: the only case is `PATH: DISPATCH`, one of a file.
    path, colon, dispatch = (choice.name or "").partition(": ")
    if colon:
        choice = choice._replace(name=f"{moved(path)}: {dispatch}")
    return replace(options, paths=paths, reading=reading, choice=choice)
