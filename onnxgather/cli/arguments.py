"""Options that several commands have, each declared once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import click
from click import BadParameter

from onnxgather.core.checks import check_choice, either, shown
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES
from onnxgather.core.execution.providers import (
    DIRECTML_DLL,
    NAMES,
    PROVIDERS,
    WEB_PROVIDERS,
    find_provider,
)
from onnxgather.core.options import (
    DEFAULT_OPSET,
    HARDENED,
    OPSETS,
    POLICIES,
    PROVED_TARGETS,
    TARGETS,
    WEBNN_FORMS,
    OutOfRange,
    Target,
)

if TYPE_CHECKING:
    from onnxgather.auditing.audit import Premises
    from onnxgather.checking.known_differences import Known
    from onnxgather.checking.lanes import OpenedLane


class _Path(click.Path):
    """A path that is not empty.

    Shells complete it; the commands say what is wrong with it.
    """

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        if not value:
            self.fail("must not be empty", param, ctx)
        return value


@contextmanager
def as_usage(
    kind: Callable[[str], click.UsageError] = BadParameter,
) -> Generator[None]:
    """Turn an error of the package into an error in the command line.

    The kind says how the message begins.
    """
    try:
        yield
    except OnnxGatherError as error:
        raise kind(str(error)) from None


FILE = _Path()
FOLDER = _Path(file_okay=False)
argument = partial(click.argument, type=FILE)
files = partial(argument, nargs=-1, required=True)
file = partial(click.option, type=FILE, metavar="FILE")
folder = partial(click.option, type=FOLDER, metavar="DIR")
flag = partial(click.option, is_flag=True)
name_option = partial(click.option, metavar="NAME")
force = flag(
    "--force",
    help=(
        "Also replace files that onnxgather did not write, or that somebody changed"
        " since; never an input, a folder or a link."
    ),
)


def number(*names: str, least: int = 1, most: int | None = None, **more: Any) -> Any:
    """Return an option whose value is an integer from `least` to `most`.

    `more` goes to click.
    """
    integer = click.IntRange(least, most)
    has_default = "default" in more
    return click.option(
        *names, type=integer, metavar="N", show_default=has_default, **more
    )


def _completing(*names: str) -> Any:
    """Return what completes the last of several comma-separated names."""

    def complete(
        _ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[str]:
        start, comma, last = incomplete.rpartition(",")
        return [start + comma + name for name in names if name.startswith(last)]

    return complete


def _level_names(text: str) -> tuple[str, ...]:
    """Return the names of levels; `none` stands for no level."""
    return () if text == "none" else tuple(_names(text))


def _names(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    names = [part for part in parts if part]
    if not names:
        raise BadParameter(f"must be names with commas, got {text!r}")
    for name in names:
        if "=" in name:
            raise BadParameter(f"must be names (--lane takes NAME=PATH), got {name!r}")
    return names


def provider(name: str) -> str:
    """Return a name that is that of a provider or of DirectML.dll.

    Raises:
        BadParameter: It is neither.
    """
    with as_usage():
        if name != DIRECTML_DLL:
            find_provider(name, DIRECTML_DLL)
    return name


def _shard(text: str) -> tuple[int, int]:
    from onnxgather.checking.merge import parse_shard

    with as_usage():
        return parse_shard("the shard", text)


def tool(name: str) -> str:
    """Return the name of a tool in whose format inputs are written.

    Raises:
        BadParameter: There is no such tool.
    """
    from onnxgather.auditing.inputs.formats import INPUT_FORMATS

    with as_usage():
        check_choice("the tool", name, INPUT_FORMATS)
    return name


def _pairs(
    *names: str,
    read: Callable[[str], object] = str,
    hint: str = "",
    alone: bool = False,
    **more: Any,
) -> Any:
    """Return an option of NAME=VALUE texts, which may come several times.

    Args:
        names: The names of the option.
        read: It reads a VALUE, and raises ValueError where the text breaks its rule.
        hint: What the message adds where a text is not NAME=VALUE.
        alone: Whether a text may be a VALUE alone, which is its own NAME.
        more: As of click.
    """

    def by_name(
        _ctx: click.Context, param: click.Parameter, values: Sequence[str]
    ) -> Any:
        texts: dict[str, str] = {}
        for text in values:
            name, equals_sign, value = text.partition("=")
            if alone and not equals_sign:
                value = name
            if not name or not value:
                raise BadParameter(f"must be {param.metavar}{hint}, got {text!r}")
            if name in texts:
                raise BadParameter(f"must differ, got {name!r} twice")
            texts[name] = value
        try:
            return {name: read(text) for name, text in texts.items()}
        except ValueError:
            raise BadParameter(f"must be {param.metavar}, got {values[-1]!r}") from None

    return click.option(*names, multiple=True, callback=by_name, **more)


def integers(text: str, mark: str = ",") -> tuple[int, ...]:
    """Return the integers of a text such as `2,16`, which a mark separates.

    Raises:
        ValueError: A part of the text is no integer.
    """
    parts = text.split(mark)
    return tuple(map(int, parts))


def _limits(text: str) -> tuple[int, int]:
    """Return the two integers of a text such as `0:9`."""
    low, high = integers(text, ":")
    return low, high


def _together(*options: Any) -> Any:
    """Return one decorator that adds several options, in the order of the help."""

    def add(command: Any) -> Any:
        # The decorator that is applied last comes first in the help.
        for option in reversed(options):
            command = option(command)
        return command

    return add


def in_records(values: dict[str, Any], records: Mapping[str, type]) -> None:
    """Put records in the place of the values of their fields.

    Args:
        values: The values of options, by the parameters of a command.
        records: As of `as_records`.
    """
    for name, record in records.items():
        fields = record.__annotations__.keys() & values.keys()
        values[name] = record(**{field: values.pop(field) for field in fields})


def as_records(**records: type) -> Any:
    """Return a decorator that gives a command records in the place of its options.

    Args:
        records: The class of each record, by the parameter of the command; a field has
            the name of its option.
    """

    def add(command: Callable[..., int]) -> Any:
        @wraps(command)
        def call(**values: Any) -> int:
            in_records(values, records)
            return command(**values)

        return call

    return add


# The options of models that are made.


def policy(
    default_in_help: str = (
        "clamp; of a model that onnxgather wrote: its own; of other models: error"
    ),
    **more: Any,
) -> Any:
    """Return the option --out-of-range of a command.

    Args:
        default_in_help: What the help calls the default.
        more: As of click.
    """
    rule = f"What an index out of range does: {either(POLICIES)}."
    return click.option(
        "--out-of-range",
        type=click.Choice(POLICIES),
        metavar="RULE",
        help=f"{rule}  [default: {default_in_help}]",
        **more,
    )


_target = partial(click.option, "--target", metavar="TARGET")


def target(default_in_help: str, **more: Any) -> Any:
    """Return the option --target of a command; the arguments are as of `policy`."""
    rule = f"Lowering to use: {either(TARGETS)}."
    words = f"{rule}  [default: {default_in_help}]"
    return _target(type=click.Choice(TARGETS), help=words, **more)


hardening = click.option(
    "--out-of-range",
    default="clamp",
    metavar="RULE",
    help=f"What an index out of range does: {either(HARDENED)}.  [default: clamp]",
)


class Lowering(TypedDict):
    """The values of the options that say how a model is made."""

    out_of_range: OutOfRange
    target: Target
    threads: int | None
    opset: int


_threads = number(
    "--threads",
    help="Threads that a model for the CPU provider is made for; default: 2.",
)
opset = number(
    "--opset",
    least=OPSETS[0],
    most=OPSETS[-1],
    default=DEFAULT_OPSET,
    help="Version of the ONNX operator set.",
)
_target_of_model = target(default_in_help="portable", default="portable")
model_options = _together(_target_of_model, _threads, opset)

_target_of_convert = _target(
    default="portable",
    type=click.Choice(PROVED_TARGETS),
    help=(
        f"Lowering to use: {either(PROVED_TARGETS)}, which writes JavaScript"
        " instead of ONNX.  [default: portable]"
    ),
)
proved_target = _target(
    multiple=True,
    type=click.Choice(PROVED_TARGETS),
    help=(
        f"Lowering to prove: {either(PROVED_TARGETS)}.  [default: portable; a model"
        " that onnxgather wrote is proved itself]"
    ),
)
form = partial(click.option, type=click.Choice(WEBNN_FORMS), metavar="FORM")
_webnn_form = form(
    "--form",
    help=(
        "With --target webnn: bytes, for every data type; or typed, for a gather inside"
        " a larger graph.  [default: bytes]"
    ),
)
webnn = form(
    "--webnn",
    help="Show the WebNN program too, in the form bytes or typed.",
)
conversion = _together(policy(), _target_of_convert, _webnn_form, _threads, opset)

# The options of programs and of ONNX models that are read.

run_on = name_option(
    "--provider",
    default="cpu",
    show_default=True,
    type=provider,
    shell_complete=_completing(*PROVIDERS, *WEB_PROVIDERS),
    help=(
        f"{NAMES}; {DIRECTML_DLL} is DirectML itself, with the program's own bindings;"
        " onnxgather runs ONNX models that onnxgather wrote, and no other program."
    ),
)
allow_outside = flag(
    "--allow-outside",
    help=(
        "Let the program name files outside its folder and the current one, and run"
        " write hidden files, through links and to devices."
    ),
)
node = name_option("--node", help="Which gather of an ONNX model.")
inputs = file(
    "--inputs", help="The inputs of an ONNX model or of a descriptor alone, as .npz."
)
shape = _pairs(
    "--shape",
    "shapes",
    read=integers,
    metavar="NAME=2,16",
    help="The sizes of an input of an ONNX model.",
)
_range = _pairs(
    "--range",
    "ranges",
    read=_limits,
    metavar="NAME=LO:HI",
    help="The least and the largest element of an input.",
)
_size = _pairs(
    "--size",
    "sizes",
    read=_limits,
    metavar="NAME=LOW:HIGH",
    help="The least and the largest number of an open size, by its name.",
)
_assume = file(
    "--assume",
    multiple=True,
    help=(
        "A contract of the model, whose conditions hold; or a folder of contracts of"
        " several models, *.contract.json."
    ),
)
_tokenizer = click.option(
    "--tokenizer",
    "tokenizers",
    multiple=True,
    metavar="[INPUT=]FILE",
    help="The tokenizer.json whose ids an input holds.",
)
_allow_empty = flag(
    "--allow-empty", help="Let open sizes of inputs be 0; else they are at least 1."
)
no_negative = flag(
    "--no-negative",
    help=(
        "Count an index below 0 that depends on an input as out of range; else it"
        " counts from the end, as ONNX lets it."
    ),
)
_levels = click.option(
    "--levels",
    type=_level_names,
    metavar="NAMES",
    help=(
        "The levels of ONNX Runtime's optimizations whose graphs are audited too:"
        " basic,extended,all or none. By default the level all, if onnxruntime is"
        " installed and the model has at most 1 GiB."
    ),
)
_runtime = file(
    "--runtime",
    "runtimes",
    multiple=True,
    metavar="PYTHON",
    help=(
        "The Python interpreter of another environment, whose ONNX Runtime makes these"
        " graphs in place of the installed one."
    ),
)
given = _together(
    shape, _range, _size, _assume, _tokenizer, _allow_empty, _levels, _runtime
)


class Given(NamedTuple):
    """The values of the options of `given`: what holds of the inputs of a model."""

    shapes: dict[str, tuple[int, ...]]
    ranges: dict[str, tuple[int, int]]
    assume: tuple[str, ...]
    tokenizers: tuple[str, ...]
    allow_empty: bool
    levels: tuple[str, ...] | None
    runtimes: tuple[str, ...]
    sizes: dict[str, tuple[int, int]]
    no_negative: bool = False

    @property
    def files(self) -> list[str]:
        """The files that are read."""
        # --help must not load what reads files.
        from onnxgather.cli.contracts import contracts_in

        tokenizer_files = [text.rpartition("=")[2] for text in self.tokenizers]
        contracts = [file for path in self.assume for file in contracts_in(path)]
        return [*contracts, *tokenizer_files]

    def read(self, model: str, declared: bool = False) -> Premises:
        """Return the model of a file, and what holds of its inputs.

        Args:
            model: The file.
            declared: As of `Premises`.
        """
        # --help must not load the audit, nor onnx.
        from onnxgather.auditing.audit import Premises, given_conditions, given_ranges
        from onnxgather.auditing.levels import Levels
        from onnxgather.auditing.proof.given_ends import given_ids
        from onnxgather.auditing.proof.tokenizer import token_condition
        from onnxgather.cli.contracts import contracts_of
        from onnxgather.core.model.network import read_network

        with as_usage(click.UsageError):
            levels = Levels(self.levels, self.runtimes)
        network = read_network(model)
        # The tokenizers are read first, so their errors come before those of contracts.
        of_tokenizers = [token_condition(text, network) for text in self.tokenizers]
        given = given_ranges(self.ranges)
        given += [given_ids(condition) for condition in of_tokenizers]
        contracts = list[str]()
        for path in self.assume:
            contracts += contracts_of(path, network)
        conditions = given_conditions(network, self.ranges, contracts, self.sizes)
        return Premises(
            network,
            self.shapes,
            conditions + of_tokenizers,
            self.allow_empty,
            levels,
            self.no_negative,
            given,
            declared,
        )


# The options of reports.


class _JsonOption(click.Option):
    """The option --json, whose FILE comes after an equals sign."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        if record is None:
            return None
        names, text = record
        # Click puts a space before an optional value.
        return names.replace(" [=", "[="), text


def json_file(what: str, *names: str) -> Any:
    """Return the option --json of a `JsonCommand`, which prints where it has no FILE.

    Args:
        what: What the command writes.
        names: Further names of the option.
    """
    return file(
        *names,
        "--json",
        "json_file",
        cls=_JsonOption,
        is_flag=False,
        flag_value="-",
        metavar="[=FILE]",
        help=f"Print the {what} as JSON; --json=FILE writes FILE instead.",
    )


NOT_JUDGED = "not-judged"
"""The name for nodes of operators that are not known; no gather has this state."""

FAIL_ON_STATES = {
    "not-proved": ("not-proved",),
    # Who wants no condition wants no gap in a proof either.
    "proved-if": ("not-proved", "proved-if"),
    NOT_JUDGED: (NOT_JUDGED,),
}
"""The names that --fail-on of an audit accepts: which states each makes findings."""


def _states_of_names(text: str) -> tuple[str, ...]:
    """Return the states that names of `FAIL_ON_STATES` make findings."""
    states = list[str]()
    for name in _names(text):
        if name not in FAIL_ON_STATES:
            raise BadParameter(
                f"must be some of {', '.join(FAIL_ON_STATES)}, got {shown(name)}"
            )
        states += FAIL_ON_STATES[name]
    return tuple(states)


fail_on_states = click.option(
    "--fail-on",
    "fail_on",
    type=_states_of_names,
    multiple=True,
    metavar="NAMES",
    help=(
        "Let more gathers be findings: not-proved for those that are not proved,"
        " proved-if for these and for those that are proved under conditions;"
        " not-judged for nodes of unknown operators with integer inputs."
    ),
)


as_html = file("--html", "html_file", help="Write it as one page to read.")
_as_junit = file("--junit", "junit_file", help="Write it for test reporters.")
_as_markdown = file("--markdown", "markdown_file", help="Write it as a CI summary.")
reports = _together(_as_junit, as_html, _as_markdown)

with_paths = flag(
    "--with-paths",
    help="Let reports name interpreters, plugins and the home folder by their paths.",
)
known_files = file(
    "--known",
    "known_files",
    multiple=True,
    help=(
        "A file of known differences, as docs/provider-ci.md describes it; beside ours."
    ),
)
_no_known = flag("--no-known", help="Leave out the known differences of onnxgather.")
_write_known = file(
    "--write-known",
    "write_known_file",
    help=(
        "Write the findings, and what lanes of --require did not run, as known"
        " differences; what FILE lists is known, and stays there."
    ),
)
known = _together(known_files, _no_known, _write_known)


class KnownFiles(NamedTuple):
    """The values of the options that say which differences are known."""

    known_files: tuple[str, ...]
    no_known: bool | None

    def read(self) -> list[Known]:
        """Return the known differences, those of the files first.

        Raises:
            FileFormatError: As `known_from`.
        """
        from onnxgather.checking.report_files import known_from

        return known_from(self.known_files, ours=not self.no_known)


# The options of lanes and their cases.

_corpus = flag("--corpus", help="Check the built-in corpus.")
_random = number("--random", "count", help="Check N random descriptors.")
_seed = click.option(
    "--seed", type=click.IntRange(0), default=0, metavar="S", help="Of --random."
)
built_in = _together(_corpus, _random, _seed)
_text = click.option(
    "-k", "text", default="", metavar="TEXT", help="Only cases whose name has TEXT."
)
_shard_option = click.option(
    "--shard",
    type=_shard,
    metavar="K/N",
    help=(
        "Only the K-th of N parts of the cases, such as 2/8; each case is in one part."
    ),
)


def choice(about_name: str = "") -> Any:
    """Return the options of a `Choice` of cases.

    Args:
        about_name: What the help adds about the name of a case.
    """
    case = name_option(
        "--case",
        "name",
        help=f"Only the case of this name, which a report tells{about_name}.",
    )
    return _together(_text, case, _shard_option)


lane_names = click.option(
    "--lanes",
    type=_names,
    shell_complete=_completing(*PROVIDERS, *WEB_PROVIDERS, *OTHER_RUNTIMES),
    metavar="NAMES",
    help=(
        f"Providers, with commas: {NAMES}; directml-dll is DirectML itself; cpu@windows"
        " is the CPU provider of ONNX Runtime for Windows; runtimes that are no"
        f" provider: {', '.join(OTHER_RUNTIMES)}. `onnxgather doctor` lists those that"
        " this machine has.  [default: cpu]"
    ),
)
required = name_option(
    "--require",
    "required",
    multiple=True,
    help="A lane where a case that did not run, unexplained, means exit code 3.",
)
timeout = click.option(
    "--timeout",
    type=click.IntRange(1, 86_400),
    default=60,
    show_default=True,
    metavar="S",
    help="Seconds that a lane may take for a case.",
)
_lane = _pairs(
    "--lane",
    "pythons",
    hint=" (--lanes takes a NAME alone)",
    metavar="NAME=PATH",
    help="A lane that runs elsewhere; `check --help` lists the forms at its end.",
)
_plugin = _pairs(
    "--plugin",
    "plugins",
    alone=True,
    metavar="NAME=LIBRARY",
    help=(
        "A lane whose provider comes from a plugin library, or from the Python package"
        " that has the library. NAME is the provider's, such as MyExecutionProvider; a"
        " PACKAGE alone tells it."
    ),
)


def _options_by_name(
    _ctx: click.Context, param: click.Parameter, texts: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Return the options of each NAME, which may have colons itself."""
    options: dict[str, dict[str, str]] = {}
    for text in texts:
        place, _, value = text.partition("=")
        name, _, key = place.rpartition(":")
        if not name or not key or not value:
            raise BadParameter(f"must be {param.metavar}, got {text!r}")
        options.setdefault(name, {})[key] = value
    return options


provider_option = click.option(
    "--provider-option",
    "provider_options",
    multiple=True,
    callback=_options_by_name,
    metavar="NAME:KEY=VALUE",
    help="An option of a provider, as its maker documents it; NAME is the lane's.",
)
adapter = _pairs(
    "--adapter",
    "adapters",
    metavar="NAME=FILE.py",
    help=(
        "A lane on a runtime of your own, behind the adapter that docs/runtimes.md"
        " describes. NAME is the lane's, such as mine."
    ),
)
lanes = _together(_lane, _plugin, provider_option, adapter, timeout)


class Lanes(NamedTuple):
    """The values of the options of `lanes`, and of --lanes."""

    pythons: dict[str, str]
    plugins: dict[str, str]
    adapters: dict[str, str]
    timeout: float
    lanes: Sequence[str] | None = None
    """The names of lanes; --lane, --plugin and --adapter may name others."""
    opset: int = DEFAULT_OPSET
    provider_options: Mapping[str, Mapping[str, str]] = {}

    @property
    def are_named(self) -> bool:
        """Whether an option names a lane."""
        return bool(self.lanes or self.pythons or self.plugins or self.adapters)

    def check_paths(self) -> None:
        """Check that the paths of lanes exist.

        That of --lane may also be the name of a command.

        Raises:
            BadParameter: A path does not exist.
        """
        from onnxgather.checking.lanes import check_paths

        given = {"lane": self.pythons, "plugin": self.plugins, "adapter": self.adapters}
        for kind, paths in given.items():
            with as_usage(partial(BadParameter, param_hint=f"'--{kind}'")):
                check_paths(kind, paths.values())

    def open(self, target: Target | None) -> list[OpenedLane]:
        """Return the lanes, not started.

        Args:
            target: As of `open_lanes`.

        Raises:
            BadParameter: As `check_paths`.
            OnnxGatherError: As `open_lanes`.
        """
        from onnxgather.checking.lanes import open_lanes

        self.check_paths()
        return open_lanes(
            self.lanes or (),
            self.pythons,
            self.plugins,
            target,
            self.timeout,
            self.adapters,
            self.opset,
            self.provider_options,
        )
