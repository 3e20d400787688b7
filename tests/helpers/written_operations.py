"""Operations and the bounds of their inputs, written as one line of text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from onnxgather.auditing.algebra.bounds import Bounds, interval, unknown

DTYPES = {"FLOAT": np.float32, "DOUBLE": np.float64, "FLOAT16": np.float16}

VALUE = re.compile(r"([A-Z]{3,}\d*)?(\([^)]*\))? ?(.*?)( nan)?")
OPERATION = re.compile(r"(\w+)(?:-(\d+))?(?: {([^}]*)})?(?: (.*?))?(?: => (.*))?")


class WrittenType(NamedTuple):
    """The parts of a value before its elements, each "" where it is left out."""

    data_type: str
    sizes: str
    elements: str
    """The bounds of the elements, and whether one may be NaN."""


class WrittenOperation(NamedTuple):
    """An operation: `operator-version <attributes> input; input => output and output`.

    The version, the attributes and the outputs may be left out.
    """

    operator: str
    version: int
    attributes: dict[str, Any]
    inputs: tuple[Bounds | None, ...]
    outputs: str


def type_of(text: str) -> WrittenType:
    match = VALUE.fullmatch(text)
    assert match, text
    data_type, sizes, elements, nan = match.groups("")
    return WrittenType(data_type, sizes, elements + nan)


def ends_of(text: str) -> str:
    """Return `1..5` as a pair; a number is both ends."""
    low, _, high = text.partition("..")
    return f"({low}, {high or low})"


@dataclass
class Notation:
    """What the texts of operations name: numbers, such as open sizes, and values."""

    numbers: Mapping[str, Any]
    values: Mapping[str, Bounds | None]

    def evaluated(self, text: str) -> Any:
        return eval(text, dict(self.numbers))

    def sizes(self, text: str) -> Any:
        """Return the sizes in parentheses; `(...)` is any rank."""
        return None if text == "(...)" else self.evaluated(text)

    def value(self, text: str) -> Bounds | None:
        """Return the value of a text such as `FLOAT(n, 2) [[0..1, 3]] nan`.

        These may be left out: the data type, if it is INT64; the sizes, if they are
        those of the elements; the elements, if nothing is known of them.
        """
        if text in self.values:
            return self.values[text]
        data_type, sizes, elements = type_of(text)
        data_type = data_type or "INT64"
        if not elements:
            return unknown(data_type, self.sizes(sizes))
        numbers = elements.removesuffix(" nan")
        pairs = re.sub(r"[^][,\s][^][,]*", lambda leaf: ends_of(leaf[0]), numbers)
        ends = np.array(self.evaluated(pairs), DTYPES.get(data_type, object))
        shape = self.sizes(sizes) if sizes else ends.shape[:-1]
        has_nan = elements != numbers
        return interval(data_type, shape, ends[..., :1], ends[..., 1:], has_nan)

    def operation(self, text: str) -> WrittenOperation:
        match = OPERATION.fullmatch(text)
        assert match, text
        operator, version, attributes, inputs, outputs = match.groups("")
        return WrittenOperation(
            operator,
            int(version or 17),
            self.evaluated(f"dict({attributes})"),
            tuple(map(self.value, inputs.split("; "))),
            outputs,
        )


def operation_rows(text: str) -> Sequence[str]:
    """Return the lines of a table that are no comment."""
    rows = text.strip().splitlines()
    return [row for row in rows if not row.startswith("#")]
