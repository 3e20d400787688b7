"""The options of a check that its command and the pytest plugin share, in one table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnxgather.core.checks import check_choice, shown
from onnxgather.core.errors import OnnxGatherError, located
from onnxgather.core.execution.providers import NAMES
from onnxgather.core.options import POLICIES, TARGETS, OutOfRange, Target

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
    """The least value of an option that takes an integer; None for other options."""
    most: int | None = None
    """The greatest value; None if there is no limit."""
    choices: Collection[str] = ()
    """The values of an option that takes one of a few names."""
    repeats: bool = False
    """Whether the option may be given several times."""
    help_in_pytest: str = ""
    """The help of the plugin, where it is not that of the command."""

    @property
    def field(self) -> str:
        """The name as Python spells it, such as `out_of_range`."""
        return self.name.replace("-", "_")

    def read(self, given: Any) -> Any:
        """The value of the option: what is given, if that is no text; else what the text says.

        Raises:
            OnnxGatherError: The option does not take the text.
        """
        if "=" in self.metavar:
            return pairs(self.metavar, given or ())
        if not isinstance(given, str):
            return given
        if self.choices:
            check_choice(self.field, given, self.choices)
        if self.least is None:
            return given
        number = int(given) if re.fullmatch("[0-9]{1,999}", given) else -1
        if number < self.least or (self.most is not None and number > self.most):
            limits = f"of at least {self.least}"
            if self.most is not None:
                limits = f"from {self.least} to {self.most}"
            raise OnnxGatherError(f"must be an integer {limits}, got {shown(given)}")
        return number


def either(names: Iterable[str]) -> str:
    """Names as a sentence lists them, such as `a, b or c`."""
    *others, last = names
    return f"{', '.join(others)} or {last}"


def pairs(metavar: str, texts: Iterable[str]) -> dict[str, str]:
    """What texts such as NAME=PATH say, as the paths by their names.

    Args:
        metavar: What the help calls a text.
        texts: The texts.

    Raises:
        OnnxGatherError: A text is not like that, or two texts have the same name.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, rest = text.partition("=")
        if not (name and rest):
            raise OnnxGatherError(f"must be {metavar}, got {text!r}")
        if name in found:
            raise OnnxGatherError(f"must differ, got {name!r} twice")
        found[name] = rest
    return found


_OPTIONS = (
    CheckOption(
        "lanes",
        f"Providers, with commas: {NAMES}; directml-dll is DirectML itself; cpu@windows"
        " is the CPU provider of ONNX Runtime for Windows.  [default: cpu]",
        "NAMES",
        help_in_pytest=(
            f"Providers, with commas: {NAMES}; NAME=PATH is one in another Python "
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
        f"What an index out of range does: {either(POLICIES)}.  [default: directml; of"
        " the corpus, of --random and of ONNX models: each case's own]",
        "RULE",
        choices=tuple(POLICIES),
    ),
    CheckOption(
        "target",
        f"Lowering to use: {either(TARGETS)}.  [default: the one that run uses for the"
        " provider]",
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
    """What the options ask for, where they are read from texts."""

    lanes: list[str]
    """NAME or NAME=PATH of each lane; an item that is empty or "reference" is no
    lane."""
    plugin: dict[str, str]
    """The plugin libraries, by the names of lanes."""
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
        """Lanes, not started unless they were opened before: each is opened once.

        Args:
            listed: Items such as those of `lanes`, with commas; None means `lanes`.

        Raises:
            OnnxGatherError: As `open_lanes`, or an item is neither NAME nor NAME=PATH.
        """
        from onnxgather.checking.lanes import REFERENCE, open_lanes, parse_lane
        from onnxgather.checking.run import Team

        wanted = [
            item.strip()
            for item in (self.lanes if listed is None else listed.split(","))
        ]
        wanted = [item for item in wanted if item not in ("", REFERENCE)]
        paths = [parse_lane(item) for item in wanted]
        names = [name for name, _ in paths]
        pythons = {name: path for name, path in paths if path is not None}
        plugins = {name: self.plugin[name] for name in names if name in self.plugin}
        lanes = open_lanes(names, pythons, plugins, self.target, self.timeout)
        found = zip(wanted, lanes, strict=True)
        return [self.opened.setdefault(item, Team([lane])) for item, lane in found]

    def close(self) -> None:
        """End the lanes."""
        for team in self.opened.values():
            team.close()

    def cases(self) -> Iterator[Case]:
        """Yield the cases of the corpus and random ones, as far as they are asked for."""
        if self.corpus:
            from onnxgather.checking.corpus import built_in_cases

            yield from built_in_cases(self.out_of_range)
        if self.random:
            from onnxgather.checking.corpus import random_cases

            yield from random_cases(self.random, self.seed, self.out_of_range)


def asked_for(given: Mapping[str, Any], prefix: str) -> Asked:
    """What the options of a check ask for.

    Args:
        given: What is given for each option, by its name: its text, or what is no text.
        prefix: What stands before the names of options in messages.

    Raises:
        OnnxGatherError: An option is not as it must be; the message starts with its name.
    """
    values: dict[str, Any] = {}
    for name, option in CHECK_OPTIONS.items():
        with located(prefix + name):
            found = given[name]
            values[option.field] = option.read(
                option.default if found is None else found
            )
    lanes, plugins = values["lanes"], values["plugin"]
    if lanes is None:
        lanes = "" if plugins else "cpu"
    items = [item.strip() for item in lanes.split(",")]
    names = {item.partition("=")[0] for item in items}
    values["lanes"] = [*items, *(name for name in plugins if name not in names)]
    required = ",".join(values["require"] or ()).split(",")
    values["require"] = [name.strip() for name in required if name.strip()]
    files, no_known = values["known"] or (), values.pop("no_known")
    values["known"] = None
    if files or no_known:
        from onnxgather.checking.report_files import known_from

        with located(f"{prefix}known"):
            values["known"] = known_from(map(str, files), ours=not no_known)
    asked = Asked(**values)
    if asked.require or plugins or given["lanes"] is not None:
        with located(f"{prefix}lanes"):
            lanes = [lane.name for lane in asked.open()]
        with located(f"{prefix}require"):
            for name in asked.require:
                check_choice("a lane", name, lanes)
    return asked
