"""A model at ONNX Runtime's four levels of graph optimizations: each level must return
what the lowest one returns, or fail as it does."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from ended_runs import keep
from network_draft import Feeds, leading, results, session

from onnxgather.core.descriptors.arrays import Array

KEPT = os.environ.get("ONNXGATHER_KEPT_RUN", "")
"""The folder for each model before it runs, with its inputs; "" for none."""

LEVELS = ("disabled", "basic", "extended", "all")
"""The names of the levels, by their numbers."""

OUT_OF_BOUNDS = re.compile(
    "out of (data )?bounds|out of range|invalid (ind|sequence length)|cache range"
    "|invalid value/s in sequence_lens"
    "|must be within the inclusive range"
    "|within bounds of 'data' shape|batch size|is greater than input dim"
    "|updates dimensions differs|updates tensor should have shape",
    re.IGNORECASE,
)
"""What the CPU provider says of an index out of range, and of indices whose sizes
beside the axis do not fit the data."""

_NODE = re.compile(r"running (\w+) node\. Name:'([^']*)'")


@dataclass(frozen=True)
class Failure:
    """What ONNX Runtime says where a model does not run."""

    text: str
    at_load: bool = False
    """Whether no session is made of the model, so nothing runs."""

    @property
    def node(self) -> str:
        """The name of the innermost node that fails; "" where none is named."""
        named = _NODE.findall(self.text)
        return named[-1][1] if named else ""

    @property
    def operator(self) -> str:
        """The operator of the innermost node that fails; "" where none is named."""
        named = _NODE.findall(self.text)
        return named[-1][0] if named else ""

    @property
    def is_index(self) -> bool:
        """Whether an index is out of range."""
        return OUT_OF_BOUNDS.search(self.text) is not None

    def is_like(self, other: Failure) -> bool:
        """Whether the same node fails, or the same operator in the same way."""
        # A rewritten node has the name of the node in a longer one.
        if self.node and self.node in other.node:
            return self.is_index == other.is_index
        both = (self.operator, self.is_index) == (other.operator, other.is_index)
        return both and bool(self.operator or self.text == other.text)


Outcome = Feeds | Failure


@dataclass(frozen=True)
class Difference:
    """What a level does otherwise than the lowest one."""

    level: int
    kind: str
    """fails, returns (where the lowest one fails), failure (another one), type, shape
    or bytes."""
    output: str
    """The first output that differs; "" where a run fails."""
    wanted: Any
    """What the lowest level has: an array, or a failure."""
    got: Any
    """What this level has."""

    def __str__(self) -> str:
        """Return the level, the kind, and both outcomes in a few words."""
        place = f" of {self.output}" if self.output else ""
        pair = f"{_words(self.wanted)}, but {_words(self.got)}"
        return f"{LEVELS[self.level]}: {self.kind}{place}: {pair}"


def four_sessions(model: onnx.ModelProto) -> list[Any]:
    """Sessions of a model at the four levels; a failure where there is none."""
    made = list[Any]()
    for level in range(len(LEVELS)):
        if KEPT:
            keep(Path(KEPT), model.SerializeToString(), level, {})
        try:
            made.append(session(model, level))
        except Exception as error:  # whatever ONNX Runtime raises
            made.append(Failure(str(error), at_load=True))
    return made


def four_outcomes(sessions: Sequence[Any], feeds: Feeds) -> list[Outcome]:
    """The outputs of each session, or its failure."""
    found = list[Outcome]()
    for level, each in enumerate(sessions):
        if isinstance(each, Failure):
            found.append(each)
            continue
        if KEPT:
            keep(Path(KEPT), each._model_bytes, level, feeds)
        try:
            found.append(results(each, feeds))
        except Exception as error:  # whatever ONNX Runtime raises
            found.append(Failure(str(error)))
    return found


def differences(outcomes: Sequence[Outcome]) -> Iterator[Difference]:
    """Yield the first difference of each level from the lowest one."""
    lowest = outcomes[0]
    for level, outcome in enumerate(outcomes[1:], 1):
        if isinstance(lowest, Failure) and isinstance(outcome, Failure):
            if not lowest.is_like(outcome):
                yield Difference(level, "failure", "", lowest, outcome)
        elif isinstance(lowest, Failure):
            yield Difference(level, "returns", "", lowest, outcome)
        elif isinstance(outcome, Failure):
            yield Difference(level, "fails", "", lowest, outcome)
        else:
            yield from _other_outputs(level, lowest, outcome)


def compared(model: onnx.ModelProto, feeds: Feeds) -> list[Difference]:
    """What the levels do otherwise than the lowest one, on some inputs."""
    return [*differences(four_outcomes(four_sessions(model), feeds))]


def differs(
    model: onnx.ModelProto, feeds: Feeds, level: int, off: Sequence[str]
) -> bool:
    """Whether a level differs from the lowest one, with some optimizers turned off.

    Args:
        model: The model.
        feeds: Its inputs.
        level: The level.
        off: The names of the optimizers.
    """
    made = list[Any]()
    for each, names in ((0, ()), (level, off)):
        try:
            made.append(session(model, each, names))
        except Exception as error:  # whatever ONNX Runtime raises
            made.append(Failure(str(error), at_load=True))
    return any(differences(four_outcomes(made, feeds)))


def reached(model: onnx.ModelProto, node: str) -> onnx.ModelProto | None:
    """A model of a node and those that lead to it; None where no node has this name.

    Args:
        model: The model.
        node: The name of the node.
    """
    # The layout of channels names its nodes by their outputs.
    output = node.removesuffix("_nchwc")
    named = [
        each
        for each in model.graph.node
        if each.name == node or (output != node and output in each.output)
    ]
    if not named:
        return None
    part = onnx.ModelProto()
    part.CopyFrom(model)
    wanted = [name for name in named[0].output if name][:1]
    kept = leading(model.graph.node, wanted)
    del part.graph.node[:], part.graph.output[:]
    part.graph.node.extend(kept)
    part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    return part


def _other_outputs(level: int, wanted: Feeds, got: Feeds) -> Iterator[Difference]:
    """Yield the first output of a level that differs: integers before floats."""
    found = list[Difference]()
    for name, array in wanted.items():
        kind = _kind(array, got[name])
        if kind:
            found.append(Difference(level, kind, name, array, got[name]))
    found.sort(key=lambda d: (d.kind == "bytes", is_float(d.wanted)))
    yield from found[:1]


def _kind(wanted: Any, got: Any) -> str:
    """How two outputs differ; "" where they do not."""
    if isinstance(wanted, list) and isinstance(got, list):
        pair = cast("list[Any]", wanted), cast("list[Any]", got)
        if len(pair[0]) != len(pair[1]):
            return "shape"
        kinds = [_kind(*both) for both in zip(*pair, strict=True)]
        return next((kind for kind in kinds if kind), "")
    if isinstance(wanted, list) or isinstance(got, list):
        return "type"
    if wanted is None or got is None:
        return "" if wanted is got else "type"
    if wanted.dtype != got.dtype:
        return "type"
    if wanted.shape != got.shape:
        return "shape"
    if wanted.dtype.kind in "OUS":
        return "" if wanted.tolist() == got.tolist() else "bytes"
    return "" if wanted.tobytes() == got.tobytes() else "bytes"


def is_float(value: Any) -> bool:
    """Whether a value is an array of floats."""
    return isinstance(value, np.ndarray) and cast("Array", value).dtype.kind == "f"


def _words(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, Failure):
        text = value.text.rpartition("Status Message: ")[2] or value.text
        place = f"{value.operator} {value.node}: " if value.operator else ""
        return f"fails: {place}{text[:160]}"
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        return f"{array.dtype}{[*array.shape]} {array.ravel()[:6].tolist()}"
    return str(value)[:160]
