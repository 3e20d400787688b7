"""Options that several commands have, each declared once."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from shutil import which
from typing import TYPE_CHECKING, Any, TypedDict

import click

from onnxgather.checking.check_options import CHECK_OPTIONS, either, pairs
from onnxgather.core.checks import shown
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution.providers import (
    DIRECTML_DLL,
    NAMES,
    PROVIDERS,
    WEB_PROVIDERS,
    find_provider,
)
from onnxgather.core.options import DEFAULT_OPSET, HARDENED, OPSETS, OutOfRange, Target

if TYPE_CHECKING:
    from onnxgather.auditing.audit import Premises
    from onnxgather.checking.lanes.lane import Lane


class _Path(click.Path):
    """A path that is not empty. Shells complete it; the commands say what is wrong with it."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        return value or self.fail("must not be empty", param, ctx)


@contextmanager
def as_usage(kind: type[click.UsageError] = click.BadParameter) -> Generator[None]:
    """Turn an error of the package into one in the command line; the kind says how it begins."""
    try:
        yield
    except OnnxGatherError as error:
        raise kind(str(error)) from None


FILE, FOLDER = _Path(), _Path(file_okay=False)
file = partial(click.option, type=FILE, metavar="FILE")
folder = partial(click.option, type=FOLDER, metavar="DIR")
flag = partial(click.option, is_flag=True)


def number(*names: str, least: int = 1, most: int | None = None, **more: Any) -> Any:
    """An option whose value is an integer from `least` to `most`; `more` goes to click."""
    kind, has_default = click.IntRange(least, most), "default" in more
    return click.option(
        *names, type=kind, metavar="N", show_default=has_default, **more
    )


def of_check(name: str, *names: str, told: str = "", **more: Any) -> Any:
    """An option of the table of a check's.

    Args:
        name: Its name there.
        names: As of click.
        told: What the help says of the default where it is not that of a check.
        more: As of click.
    """
    option = CHECK_OPTIONS[name]
    kind: Any = click.Choice(list(option.choices)) if option.choices else None
    if option.least is not None:
        kind = click.IntRange(option.least, option.most)
    more = {"multiple": option.repeats, "default": option.default, **more}
    text = (
        f"{option.help.partition('  [')[0]}  [default: {told}]" if told else option.help
    )
    return click.option(
        f"--{name}",
        *names,
        type=FILE if option.metavar == "FILE" else kind,
        is_flag=not option.metavar,
        metavar=option.metavar or None,
        help=text,
        **more,
    )


def complete_names(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[str]:
    """The ways to complete the last of some names of providers with commas."""
    start, comma, last = incomplete.rpartition(",")
    return [
        start + comma + name
        for name in (*PROVIDERS, *WEB_PROVIDERS)
        if name.startswith(last)
    ]


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise click.BadParameter(f"must be names with commas, got {text!r}")
    for name in names:
        if "=" in name:
            raise click.BadParameter(
                f"must be names (--lane takes NAME=PATH), got {name!r}"
            )
    return names


def provider(name: str) -> str:
    """The name of a provider, or of DirectML.dll, if it is one."""
    with as_usage():
        if name != DIRECTML_DLL:
            find_provider(name, DIRECTML_DLL)
    return name


def _shard(text: str) -> tuple[int, int]:
    from onnxgather.checking.merge import parse_shard

    with as_usage():
        return parse_shard("the shard", text)


def _pairs(read: Callable[[str], object], hint: str = "") -> Any:
    """What reads the NAME=VALUE of an option that may come several times.

    Args:
        read: What reads a VALUE; it raises ValueError where the text is not as it must be.
        hint: What the message of a text that is not NAME=VALUE says beside this.
    """

    def by_name(
        _ctx: click.Context, param: click.Parameter, values: Sequence[str]
    ) -> Any:
        with as_usage():
            texts = pairs((param.metavar or "") + hint, values)
        try:
            return {name: read(text) for name, text in texts.items()}
        except ValueError:
            raise click.BadParameter(
                f"must be {param.metavar}, got {values[-1]!r}"
            ) from None

    return by_name


def integers(text: str, mark: str = ",") -> tuple[int, ...]:
    """The integers of a text such as `2,16`, with a mark between them.

    Raises:
        ValueError: A part of the text is no integer.
    """
    return tuple(map(int, text.split(mark)))


def _limits(text: str) -> tuple[int, int]:
    """The two integers of a text such as `0:9`."""
    low, high = integers(text, ":")
    return low, high


def _together(*options: Any) -> Any:
    """One decorator that adds several options, in the order of the help."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def as_records(**records: type) -> Any:
    """A decorator that gives a command records in the place of its options.

    Args:
        records: The class of each record, by the parameter of the command; a field has the name
            of its option.
    """

    def add(command: Callable[..., int]) -> Any:
        @wraps(command)
        def call(**given: Any) -> int:
            for name, record in records.items():
                fields = [field for field in record.__annotations__ if field in given]
                given[name] = record(**{field: given.pop(field) for field in fields})
            return command(**given)

        return call

    return add


policy, target = partial(of_check, "out-of-range"), partial(of_check, "target")
hardening = click.option(
    "--out-of-range",
    default="clamp",
    metavar="RULE",
    help=f"What an index out of range does: {either(HARDENED)}.  [default: clamp]",
)


class Lowering(TypedDict):
    """The values of the options that `lowering` adds to a command."""

    out_of_range: OutOfRange
    target: Target
    threads: int | None
    opset: int


model_options = _together(
    target(told="portable", default="portable"),
    number(
        "--threads",
        help="Threads that a model for the CPU provider is made for; default: 2.",
    ),
    number(
        "--opset",
        least=OPSETS[0],
        most=OPSETS[-1],
        default=DEFAULT_OPSET,
        help="Version of the ONNX operator set.",
    ),
)
lowering = _together(policy(told="clamp", default="clamp"), model_options)
run_on = click.option(
    "--provider",
    default="cpu",
    show_default=True,
    type=provider,
    shell_complete=complete_names,
    metavar="NAME",
    help=(
        f"{NAMES}; {DIRECTML_DLL} is DirectML itself, with the program's own bindings."
    ),
)
allow_outside = flag(
    "--allow-outside",
    help=(
        "Let the program name files outside its folder and the current one, and run"
        " write hidden files, through links and to devices."
    ),
)
node = click.option("--node", metavar="NAME", help="Which gather of an ONNX model.")
inputs = file("--inputs", help="The inputs of an ONNX model, as .npz.")
shape = click.option(
    "--shape",
    "shapes",
    multiple=True,
    callback=_pairs(integers),
    metavar="NAME=2,16",
    help="The sizes of an input of an ONNX model.",
)
given = _together(
    shape,
    click.option(
        "--range",
        "ranges",
        multiple=True,
        callback=_pairs(_limits),
        metavar="NAME=LO:HI",
        help="The least and the largest element of an input.",
    ),
    file(
        "--assume",
        multiple=True,
        help="A contract of the model, whose conditions hold.",
    ),
    click.option(
        "--tokenizer",
        "tokenizers",
        multiple=True,
        metavar="[INPUT=]FILE",
        help="The tokenizer.json whose ids an input holds.",
    ),
    flag(
        "--allow-empty", help="Let open sizes of inputs be 0; else they are at least 1."
    ),
)


@dataclass(frozen=True, slots=True)
class Given:
    """What the options of `given` tell of the inputs of a model."""

    shapes: dict[str, tuple[int, ...]]
    ranges: dict[str, tuple[int, int]]
    assume: tuple[str, ...]
    tokenizers: tuple[str, ...]
    allow_empty: bool

    @property
    def files(self) -> list[str]:
        """The files that are read."""
        return [*self.assume, *(text.rpartition("=")[2] for text in self.tokenizers)]

    def read(self, model: str) -> Premises:
        """The model of a file, and what holds of its inputs."""
        from onnxgather.auditing.audit import Premises, given_conditions
        from onnxgather.auditing.proof.tokenizer import token_condition
        from onnxgather.core.model.network import read_network

        network = read_network(model)
        tokens = [token_condition(text, network) for text in self.tokenizers]
        conditions = given_conditions(network, self.ranges, self.assume) + tokens
        return Premises(network, self.shapes, conditions, self.allow_empty)


class _JsonOption(click.Option):
    """The option --json, whose FILE comes after an equals sign."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        if record is None:
            return None
        names, text = record
        return names.replace(" [=", "[="), text


def json_file(what: str, *names: str) -> Any:
    """The option --json of a `JsonCommand`, which prints where it has no FILE.

    Args:
        what: What the command found.
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


def fail_on(state: str, told: str) -> Any:
    """The option --fail-on, which makes a state a finding."""
    return click.option(
        "--fail-on", type=click.Choice([state]), metavar=state, help=told
    )


as_html = file("--html", "html_file", help="Write it as one page to read.")
reports = _together(
    file("--junit", "junit_file", help="Write it for test reporters."),
    as_html,
    file("--markdown", "markdown_file", help="Write it as a CI summary."),
)
shard = click.option(
    "--shard",
    type=_shard,
    metavar="K/N",
    help=(
        "Only the K-th of N parts of the cases, such as 2/8; each case is in one part."
    ),
)
lane_names = partial(
    click.option, "--lanes", type=_names, shell_complete=complete_names, metavar="NAMES"
)
timeout = of_check("timeout", show_default=True)
lanes = _together(
    click.option(
        "--lane",
        "pythons",
        multiple=True,
        callback=_pairs(str, " (--lanes takes a NAME alone)"),
        metavar="NAME=PATH",
        help=(
            "A lane that runs in another Python environment, which needs onnxruntime"
            " and numpy only, or on a shared library of ONNX Runtime. PATH is the"
            " interpreter, or ends in .so, .so.1, .dll or .dylib; for directml-dll and"
            " cpu@windows, the folder of its program; for web-wasm and the like, that"
            " of onnxruntime-web. NAME may have a label: cpu@old; a last label that is"
            " a target, as in cpu@native, is that of its models."
        ),
    ),
    of_check("plugin", "plugins", callback=_pairs(str)),
    timeout,
)


@dataclass(frozen=True, slots=True)
class Lanes:
    """What the options of `lanes`, and --lanes, tell of the lanes of a command."""

    pythons: dict[str, str]
    plugins: dict[str, str]
    timeout: float
    lanes: Sequence[str] | None = None
    """The names of lanes; --lane and --plugin may name others."""

    @property
    def are_named(self) -> bool:
        """Whether there is one."""
        return bool(self.lanes or self.pythons or self.plugins)

    def check_paths(self) -> None:
        """Check that the paths of lanes are there; that of --lane may be a command's name.

        Raises:
            BadParameter: A path is not there.
        """
        for option, paths in (("'--lane'", self.pythons), ("'--plugin'", self.plugins)):
            for path in paths.values():
                is_lane, full = paths is self.pythons, os.path.expanduser(path)
                if not (os.path.exists(full) or (is_lane and which(path))):
                    sentence = f"{shown(path)}: no such file or directory"
                    raise click.BadParameter(sentence, param_hint=option)
                if is_lane and os.path.exists(os.path.join(full, "pyvenv.cfg")):
                    sentence = (
                        "must be the interpreter of an environment, got its folder"
                        f" {path!r}"
                    )
                    raise click.BadParameter(sentence, param_hint=option)

    def open(self, target: Target | None) -> list[Lane]:
        """The lanes, not started.

        Args:
            target: As of `open_lanes`.

        Raises:
            BadParameter: As `check_paths`.
            OnnxGatherError: As `open_lanes`.
        """
        from onnxgather.checking.lanes import open_lanes

        self.check_paths()
        return open_lanes(
            self.lanes or (), self.pythons, self.plugins, target, self.timeout
        )
