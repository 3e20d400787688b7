"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

import click

from onnxgather.errors import ProviderError
from onnxgather.options import DEFAULT_OPSET, OPSETS, POLICIES, TARGETS, OutOfRange, Target
from onnxgather.providers import NAMES, find_provider


def _either(names: Iterable[str]) -> str:
    """Names as a sentence lists them: `a, b or c`."""
    *others, last = names
    return f"{', '.join(others)} or {last}"


def provider(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Check the name of a provider."""
    try:
        if value is not None:
            find_provider(value)
    except ProviderError as error:
        raise click.BadParameter(str(error)) from None
    return value


out_of_range = click.option(
    "--out-of-range",
    type=click.Choice(list(POLICIES)),
    default="clamp",
    show_default=True,
    metavar="RULE",
    help=f"What an index out of range does: {_either(POLICIES)}.",
)


class Lowering(TypedDict):
    """What the options of `lowering` give a command."""

    out_of_range: OutOfRange
    target: Target
    threads: int | None
    opset: int


def lowering(command: Any) -> Any:
    """Add the options that say how a model is made."""
    for option in (
        click.option(
            "--opset",
            type=click.IntRange(OPSETS[0], OPSETS[-1]),
            default=DEFAULT_OPSET,
            show_default=True,
            metavar="N",
            help="Version of the ONNX operator set.",
        ),
        click.option(
            "--threads",
            type=click.IntRange(1),
            metavar="N",
            help="Threads that a model for the CPU provider is made for; default: 2.",
        ),
        click.option(
            "--target",
            type=click.Choice(list(TARGETS)),
            default="portable",
            show_default=True,
            metavar="TARGET",
            help=f"Whom the model is for: {_either(TARGETS)}.",
        ),
        out_of_range,
    ):
        command = option(command)
    return command


run_on = click.option(
    "--provider",
    default="cpu",
    show_default=True,
    callback=provider,
    metavar="NAME",
    help=f"{NAMES}.",
)
allow_outside = click.option(
    "--allow-outside",
    is_flag=True,
    help="Let the program name files outside its folder and the current one.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def _pairs(_ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Return NAME=VALUE options as a dict."""
    pairs: dict[str, str] = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not (name and equals and rest):
            raise click.BadParameter(f"must be {param.metavar}, got {value!r}")
        if name in pairs:
            raise click.BadParameter(f"must differ, got {name!r} twice")
        pairs[name] = rest
    return pairs


def rule(default: str) -> Any:
    """Return `--out-of-range` where the default is not one rule, but what the text says."""
    return click.option(
        "--out-of-range",
        type=click.Choice(list(POLICIES)),
        metavar="RULE",
        help=f"What an index out of range does: {_either(POLICIES)}.  [default: {default}]",
    )


def models(text: str) -> Any:
    """Return `--target` where the default suits the lane."""
    return click.option("--target", type=click.Choice(list(TARGETS)), metavar="TARGET", help=text)


timeout = click.option(
    "--timeout",
    type=click.IntRange(1, 86_400),
    default=60,
    show_default=True,
    metavar="S",
    help="Seconds that a lane may take for a case.",
)


def lanes(command: Any) -> Any:
    """Add the options that say which lanes there are."""
    for option in (
        timeout,
        click.option(
            "--plugin",
            "plugins",
            multiple=True,
            callback=_pairs,
            metavar="NAME=LIBRARY",
            help="A lane whose provider comes from a plugin library.",
        ),
        click.option(
            "--lane",
            "pythons",
            multiple=True,
            callback=_pairs,
            metavar="NAME=PYTHON",
            help="A lane that runs in another Python environment, which needs onnxruntime and "
            "numpy only; NAME may have a label: cpu@old. Of directml-dll the folder of its "
            "program.",
        ),
    ):
        command = option(command)
    return command
