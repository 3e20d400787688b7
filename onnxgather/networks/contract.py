"""The contract of a model: the conditions on its inputs under which its gathers are proved."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from onnxgather.errors import OnnxGatherError
from onnxgather.networks.network import Network

ASSUMES = {
    False: "open sizes of inputs are at least 1",
    True: "open sizes of inputs are at least 0",
}
"""What every proof assumes, by whether open sizes may be 0."""

NamedSizes = Mapping[str, list[tuple[str, int]]]
"""The dimensions of inputs, each an input and a number from 0, by the names of open sizes."""


class Condition(msgspec.Struct, frozen=True, kw_only=True, order=True, forbid_unknown_fields=True):
    """One condition on the inputs of a model; at least one of its ends is given."""

    of: Literal["values", "size", "sizes"]
    """The values of an input, a size of an input, or an expression of several sizes."""
    input: str | None = None
    """None for an expression."""
    columns: tuple[int, ...] | None = None
    """Of values: which numbers of the last axis the condition is for; None means all values."""
    dim: int | None = None
    """Of a size: which dimension, from 0."""
    expression: str | None = None
    """A sum of products of names of open sizes, such as `12*batch*sequence - past`. Of one size it
    is the name alone."""
    low: int | None = None
    """The least number; None is an open end."""
    high: int | None = None
    """The greatest number; None is an open end."""

    def __str__(self) -> str:
        named = f" ({self.expression})" if self.expression else ""
        columns = ", ".join(map(str, self.columns or ()))
        subject = {
            "values": f"{self.input}: values",
            "size": f"size {self.dim} of {self.input}{named}",
            "sizes": f"{self.expression}",
        }[self.of]
        if self.columns is not None:
            number = "column" if len(self.columns) == 1 else "columns"
            subject = f"{self.input}: {number} {columns} of the last axis"
        if self.low is None or self.high is None:
            end = f"at most {self.high}" if self.low is None else f"at least {self.low}"
            return f"{subject} {end}"
        ends = f"from {self.low} to {self.high}"
        return f"{subject} equal to {self.low}" if self.low == self.high else f"{subject} {ends}"


class Contract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the inputs of a model must be, so that what an audit proves holds."""

    digest: str
    """Of the model, such as `sha256:...`."""
    assumes: str
    """What every proof assumes, one of `ASSUMES`."""
    sizes: NamedSizes
    conditions: tuple[Condition, ...]

    @property
    def plain(self) -> dict[str, Any]:
        """The contract as JSON has it, which `audit.contract` is."""
        return msgspec.json.decode(msgspec.json.encode(self))


def tightened(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """The tightest ends of each subject, in the order of the subjects.

    Raises:
        OnnxGatherError: Nothing meets the conditions on one subject.
    """
    tightest = dict[Condition, Condition]()
    for one in conditions:
        subject = replace(one, low=None, high=None)
        other = tightest.get(subject, subject)
        lows, highs = ([n for n in ends if n is not None] for ends in _ends(one, other))
        found = replace(one, low=max(lows, default=None), high=min(highs, default=None))
        if found.low is not None and found.high is not None and found.low > found.high:
            raise OnnxGatherError(f"two conditions exclude each other: {other}, and {one}")
        tightest[subject] = found
    return tuple(tightest.values())


def _ends(*conditions: Condition) -> tuple[list[int | None], list[int | None]]:
    return [one.low for one in conditions], [one.high for one in conditions]


def open_sizes(network: Network) -> NamedSizes:
    """The dimensions of the inputs that the model leaves open, by the names of their sizes.

    A size has the name that the model gives it where that is an identifier, and is one size
    wherever the name stands. Each other dimension has a name made of the input and the number of
    the dimension, such as `ids.0`; characters that an expression has a meaning for are escaped.
    """
    sizes = dict[str, list[tuple[str, int]]]()
    for value in network.proto.graph.input:
        if value.name in network.main.inputs:
            for k, dim in enumerate(value.type.tensor_type.shape.dim):
                made = f"{quote(value.name, safe='/:').replace('-', '%2D')}.{k}"
                name = dim.dim_param if dim.dim_param.isidentifier() else made
                if not dim.HasField("dim_value") or dim.dim_value < 0:
                    sizes.setdefault(name, []).append((value.name, k))
    return sizes


def digest_of(network: Network) -> str:
    """The digest of a model as it was given, the same for a file and for the object."""
    content = network.proto.SerializeToString(deterministic=True)
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
