"""The options of a check that its command and the pytest plugin share, in one table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnxgather.core.checks import check_choice, shown
from onnxgather.core.errors import OnnxGatherError, located
from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES
from onnxgather.core.execution.providers import NAMES
from onnxgather.core.options import (
    DEFAULT_OPSET,
    OPSETS,
    POLICIES,
    TARGETS,
    OutOfRange,
    Target,
)

if TYPE_CHECKING:
    from onnxgather.checking.cases import Case
    from onnxgather.checking.known_differences import Known
    from onnxgather.checking.run import Team


@dataclass(frozen=True, slots=True)
class CheckOption:
    """An option of a check."""

    name: str
    """The name without dashes before it, such as `out-of-range`."""
    help: str
    """The help of the command."""
    metavar: str = ""
    """What the help calls the value; empty for a flag."""
    default: Any = None
    least: int | None = None
    """The least value of an option for an integer; None for other options."""
    most: int | None = None
    """The greatest value; None if there is no limit."""
    choices: Collection[str] = ()
    """The names that are the values of an option; empty for other options."""
    repeats: bool = False
    """Whether the option may be given several times."""
    help_in_pytest: str = ""
    """The help of the pytest plugin, if it is not that of the command."""

    @property
    def field(self) -> str:
        """The name as Python spells it, such as `out_of_range`."""
        return self.name.replace("-", "_")

    def read(self, given: Any) -> Any:
        """Return the value of the option.

        It is what a text says, or what is given if that is no text.

        Raises:
            OnnxGatherError: The option does not accept the text.
        """
        if "=" in self.metavar:
            return pairs(self.metavar, given or ())
        if not isinstance(given, str):
            return given
        if self.choices:
            check_choice(self.field, given, self.choices)
        if self.least is None:
            return given
        return self._integer(given, self.least)

    def _integer(self, text: str, least: int) -> int:
        """Return the integer that a text says, if it is within the limits."""
        if re.fullmatch("[0-9]{1,999}", text):
            number = int(text)
            if number >= least and (self.most is None or number <= self.most):
                return number
        limits = f"of at least {least}"
        if self.most is not None:
            limits = f"from {least} to {self.most}"
        raise OnnxGatherError(f"must be an integer {limits}, got {shown(text)}")


def either(names: Iterable[str]) -> str:
    """Return names as a sentence lists them, such as `a, b or c`."""
    *others, last = names
    return f"{', '.join(others)} or {last}"


def pairs(metavar: str, texts: Iterable[str]) -> dict[str, str]:
    """Return what texts such as NAME=PATH say: the paths by their names.

    Args:
        metavar: What the help calls a text.
        texts: The texts.

    Raises:
        OnnxGatherError: A text is not like that, or two texts have the same name.
    """
    paths: dict[str, str] = {}
    for text in texts:
        name, _, path = text.partition("=")
        if not name or not path:
            raise OnnxGatherError(f"must be {metavar}, got {text!r}")
        if name in paths:
            raise OnnxGatherError(f"must differ, got {name!r} twice")
        paths[name] = path
    return paths


_OPTIONS = (
    CheckOption(
        "lanes",
        f"Providers, with commas: {NAMES}; directml-dll is DirectML itself; cpu@windows"
        " is the CPU provider of ONNX Runtime for Windows; runtimes that are no"
        f" provider: {', '.join(OTHER_RUNTIMES)}.  [default: cpu]",
        "NAMES",
        help_in_pytest=(
            f"Providers, with commas: {NAMES}; runtimes that are no provider:"
            f" {', '.join(OTHER_RUNTIMES)}; NAME=PATH is one in another Python "
            "environment.  [default: cpu]"
        ),
    ),
    CheckOption(
        "plugin",
        "A lane whose provider comes from a plugin library. NAME is the provider's full"
        " name, such as MyExecutionProvider.",
        "NAME=LIBRARY",
        repeats=True,
    ),
    CheckOption(
        "adapter",
        "A lane on a runtime of your own, behind the adapter that docs/runtimes.md"
        " describes. NAME is the lane's, such as mine.",
        "NAME=FILE.py",
        repeats=True,
    ),
    CheckOption(
        "opset",
        "Version of the ONNX operator set of the models.",
        "N",
        default=DEFAULT_OPSET,
        least=OPSETS[0],
        most=OPSETS[-1],
    ),
    CheckOption(
        "timeout",
        "Seconds that a lane may take for a case.",
        "S",
        default=60,
        least=1,
        most=86_400,
    ),
    CheckOption(
        "require",
        "A lane where a case that did not run, unexplained, means exit code 3.",
        "NAME",
        repeats=True,
        help_in_pytest=(
            "A lane, or several with commas, where a case that did not run, "
            "unexplained, is a failure."
        ),
    ),
    CheckOption("corpus", "Check the built-in corpus."),
    CheckOption("random", "Check N random descriptors.", "N", least=1),
    CheckOption("seed", "Of --random.", "S", default=0, least=0),
    CheckOption("wrap", "Put each gather between two multiplications by one."),
    CheckOption(
        "out-of-range",
        f"What an index out of range does: {either(POLICIES)}.  [default: clamp; of"
        " the corpus, of --random and of ONNX models: each case's own]",
        "RULE",
        choices=tuple(POLICIES),
    ),
    CheckOption(
        "target",
        f"Lowering to use: {either(TARGETS)}.  [default: the one that run uses for the"
        " provider; the lanes directml-dll and webnn have none]",
        "TARGET",
        choices=tuple(TARGETS),
    ),
    CheckOption(
        "known",
        "A file of known differences, of the format that docs/report.md describes;"
        " beside ours.",
        "FILE",
        repeats=True,
    ),
    CheckOption("no-known", "Leave out the known differences of onnxgather."),
)

CHECK_OPTIONS = {option.name: option for option in _OPTIONS}
"""The one table of these options, by name."""


@dataclass(slots=True)
class Asked:
    """What the options of the pytest plugin ask for."""

    lanes: list[str]
    """NAME or NAME=PATH of each lane; an empty item and "reference" are no lanes."""
    plugin: dict[str, str]
    """The plugin libraries, by the names of lanes."""
    adapter: dict[str, str]
    """The files of adapters, by the names of lanes without labels."""
    opset: int
    timeout: float
    require: list[str]
    """The names of the lanes that must run every case."""
    corpus: bool
    random: int | None
    """How many random cases."""
    seed: int
    wrap: bool
    out_of_range: OutOfRange | None
    target: Target | None
    known: Sequence[Known] | None
    """The known differences; None means those that come with onnxgather."""

    opened: dict[str, Team] = field(default_factory=dict[str, "Team"])
    """The lanes that are open, each by its item of `lanes`."""

    def open(self, listed: str | None = None) -> list[Team]:
        """Open lanes, each only once; a lane that was opened before may be started.

        Args:
            listed: Items such as those of `lanes`, with commas; None means `lanes`.

        Raises:
            OnnxGatherError: As `open_lanes`, or an item is neither NAME nor NAME=PATH.
        """
        from onnxgather.checking.lanes import REFERENCE, open_lanes, parse_lane
        from onnxgather.checking.run import Team

        items = self.lanes if listed is None else listed.split(",")
        items = [item.strip() for item in items]
        items = [item for item in items if item not in ("", REFERENCE)]
        names: list[str] = []
        pythons: dict[str, str] = {}
        plugins: dict[str, str] = {}
        for item in items:
            name, path = parse_lane(item)
            names.append(name)
            if path is not None:
                pythons[name] = path
            if name in self.plugin:
                plugins[name] = self.plugin[name]
        # An adapter that no item names has no lane here.
        bases = {name.partition("@")[0] for name in names}
        adapters = {name: path for name, path in self.adapter.items() if name in bases}
        lanes = open_lanes(
            names, pythons, plugins, self.target, self.timeout, adapters, self.opset
        )
        teams: list[Team] = []
        for item, lane in zip(items, lanes, strict=True):
            # A lane that is open already wins, as it may be started.
            team = self.opened.setdefault(item, Team([lane]))
            teams.append(team)
        return teams

    def close(self) -> None:
        """End the lanes."""
        for team in self.opened.values():
            team.close()

    def cases(self) -> Iterator[Case]:
        """Yield the cases of the corpus and random cases, as the options ask."""
        if self.corpus:
            from onnxgather.checking.corpus import built_in_cases

            yield from built_in_cases(self.out_of_range)
        if self.random:
            from onnxgather.checking.corpus import random_cases

            yield from random_cases(self.random, self.seed, self.out_of_range)


def asked_for(given: Mapping[str, Any], prefix: str) -> Asked:
    """Return what the options of a check ask for.

    Args:
        given: What is given for each option, by its name: its text, or what is no text.
        prefix: What stands before the names of options in messages.

    Raises:
        OnnxGatherError: An option is not as it must be; the message starts with its
            name.
    """
    values: dict[str, Any] = {}
    for name, option in CHECK_OPTIONS.items():
        with located(prefix + name):
            value = given[name]
            if value is None:
                value = option.default
            values[option.field] = option.read(value)
    plugins = values["plugin"]
    adapters = values["adapter"]
    values["lanes"] = _lane_items(values["lanes"], plugins, adapters)
    values["require"] = _required_names(values["require"] or ())
    no_known = values.pop("no_known")
    values["known"] = _known_of(values["known"] or (), no_known, prefix)
    asked_options = Asked(**values)

    # Lanes that somebody names are opened, so that a wrong name fails at once.
    is_named = given["lanes"] is not None
    if asked_options.require or plugins or adapters or is_named:
        with located(f"{prefix}lanes"):
            opened_names = [team.name for team in asked_options.open()]
        with located(f"{prefix}require"):
            for name in asked_options.require:
                check_choice("a lane", name, opened_names)
    return asked_options


def _lane_items(
    text: str | None, plugins: Mapping[str, str], adapters: Mapping[str, str]
) -> list[str]:
    """Return the items of the option `lanes`, and the lanes that it lacks.

    These are the lanes of plugins and of adapters.
    """
    if text is None:
        text = "" if plugins or adapters else "cpu"
    items = [item.strip() for item in text.split(",")]
    names = {item.partition("=")[0] for item in items}
    bases = {name.partition("@")[0] for name in names}
    for name in plugins:
        if name not in names:
            items.append(name)
    for name in adapters:
        if name not in bases:
            items.append(name)
    return items


def _required_names(texts: Iterable[str]) -> list[str]:
    """Return the names of the option `require`, which may have commas."""
    names = [name.strip() for name in ",".join(texts).split(",")]
    return [name for name in names if name]


def _known_of(
    files: Iterable[Any], no_known: bool, prefix: str
) -> Sequence[Known] | None:
    """Return the known differences of a check; None means those of onnxgather."""
    if not files and not no_known:
        return None
    from onnxgather.checking.report_files import known_from

    with located(f"{prefix}known"):
        return known_from(map(str, files), ours=not no_known)
