"""What a model declares of its inputs in its metadata: ranges of values and of sizes.

They are read as exporters write them, and written in the same form:

- `winml.io.inputs` of Windows ML's tools: JSON, with the range of values of an input.
- `range_constraints` of torch: the ranges of symbols, which are open sizes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from onnx import ModelProto, StringStringEntryProto

from onnxgather.auditing.algebra.bounds import FLOATS, LIMITS
from onnxgather.auditing.algebra.sizes import MOST_OF_INPUT
from onnxgather.auditing.graph_audit import LARGEST
from onnxgather.auditing.proof.contract import (
    NUMPY_TYPES,
    Condition,
    Contract,
    NamedSizes,
    condition_on_size,
    expression_of,
    open_sizes,
    sizes_given,
)
from onnxgather.auditing.proof.given_ends import GivenRange
from onnxgather.core.checks import shown
from onnxgather.core.errors import FileFormatError
from onnxgather.core.json_files import decoding
from onnxgather.core.model.network import Network
from onnxgather.core.model.own import own_entry, renew_entry
from onnxgather.core.model.values import serialized_pieces
from onnxgather.core.model.wire import without_weights

VALUE_RANGES = "winml.io.inputs"
"""The property with the ranges of values."""

SIZE_RANGES = "pkg.torch.export.ExportedProgram.range_constraints"
"""The property with the ranges of sizes."""

TORCH_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
"""The property with the names of the inputs that torch exported."""

_RANGE = re.compile(
    r"([^:{}\[\]]+): VR\[(-?\d{1,30}|-?int_oo), (-?\d{1,30}|-?int_oo)\](?:, |$)"
)
"""The range of a symbol, such as `s46: VR[2, int_oo]`."""

Ends = tuple[int | None, int | None]
"""The least and the greatest number; None is an open end."""

Properties = Iterable[StringStringEntryProto]


class Declarations(Struct, frozen=True):
    """What a model declares of its inputs."""

    texts: dict[Condition, str] = {}
    """The conditions, each as a sentence that names its property."""
    ranges: list[GivenRange] = []
    notes: list[str] = []
    """Sentences: which property is left out, and why."""

    def add(self, key: str, condition: Condition) -> None:
        """Add a condition of a property."""
        self.texts[condition] = f"by the model's metadata {key}: {condition}"

    def leave_out(self, key: str, why: str) -> None:
        """Add the note that something of a property is left out."""
        self.notes.append(f"the metadata {key} are left out: {why}")


class _Input(Struct):
    """An input in the property of values."""

    name: str | None = None
    value_range: tuple[int | float, int | float] | None = None
    """The least number, and the one behind the greatest."""


def declared_in(
    network: Network,
    conditions: Sequence[Condition],
    shapes: Mapping[str, Sequence[int]],
) -> Declarations:
    """Return what a model declares of its inputs.

    What is given of an input or of a size counts in place of what is declared of it.

    Args:
        network: The model, with the sizes of its file.
        conditions: The conditions that are given.
        shapes: The shapes that are given.
    """
    declared = Declarations()
    inputs = {each.input for each in conditions if each.is_of_elements}
    _add_values(declared, network, inputs)
    named = open_sizes(network)
    given = [*conditions, *sizes_given(named, shapes)]
    sizes = {expression_of(each, named) for each in given if each.of == "size"}
    # What onnxgather wrote comes first. torch writes to the graph.
    model = network.proto
    for properties in (model.metadata_props, model.graph.metadata_props):
        _add_sizes(declared, network, properties, sizes)
    return declared


def _property(properties: Properties, key: str) -> str | None:
    """Return the first property with a key."""
    for each in properties:
        if each.key == key:
            return each.value
    return None


# Ranges of values.


def _add_values(
    declared: Declarations, network: Network, given: Collection[str | None]
) -> None:
    """Add the ranges of values of inputs of which nothing is given."""
    text = _property(network.proto.metadata_props, VALUE_RANGES)
    if text is None:
        return
    try:
        with decoding(f"the metadata {VALUE_RANGES} are left out", "docs/models.md"):
            inputs = msgspec.json.decode(text, type=list[_Input])
    except FileFormatError as error:
        declared.notes.append(str(error))
        return
    names = {*given}
    for number, entry in enumerate(inputs):
        if entry.value_range is None or entry.name is None or entry.name in names:
            continue
        names.add(entry.name)
        _add_range(declared, network, f"$[{number}]", entry.name, entry.value_range)


def _add_range(
    declared: Declarations,
    network: Network,
    place: str,
    name: str,
    value_range: tuple[float, float],
) -> None:
    """Add the range of an input's values; `place` is where it is in the property."""
    data_type = ""
    if name in network.main.inputs:
        data_type = network.main.types[name].data_type
    limits = _limits(data_type)
    if limits is None:
        rule = f"{place}.name must be an input of numbers"
        declared.leave_out(VALUE_RANGES, f"{rule}, got {shown(name)}")
        return
    start, end = value_range
    # The integers in the range. A float may be between two of them.
    least = math.ceil(start)
    greatest = math.ceil(end) - 1
    low = least
    high = greatest
    if data_type in FLOATS:
        low = math.floor(start)
        high = math.ceil(end)
    if start >= end or low > min(high, limits[1]) or high < limits[0]:
        rule = f"{place}.value_range must have a number of {data_type}"
        declared.leave_out(VALUE_RANGES, f"{rule}, got {shown([start, end])}")
        return
    condition = Condition(
        of="values",
        input=name,
        low=low if low > limits[0] else None,
        high=high if high < limits[1] else None,
    )
    # Case: each number of the type is in the range.
    if condition.low is None and condition.high is None:
        return
    declared.add(VALUE_RANGES, condition)
    if least <= greatest:
        declared.ranges.append(GivenRange("metadata", name, least, greatest))


def _limits(data_type: str) -> tuple[int, int] | None:
    """Return the ends of a range that limits no number of a type."""
    if data_type in FLOATS:
        return -LARGEST, LARGEST
    if data_type not in LIMITS:
        return None
    low, high = LIMITS[data_type]
    return low, min(high, LARGEST)


# Ranges of sizes.


def _add_sizes(
    declared: Declarations, network: Network, properties: Properties, given: set[str]
) -> None:
    """Add the ranges of the sizes of which nothing is given, and their names to it."""
    text = _property(properties, SIZE_RANGES)
    if text is None:
        return
    ranges = _ranges_in(text)
    if ranges is None:
        rule = "they must be ranges such as {batch: VR[1, 64]}"
        declared.leave_out(SIZE_RANGES, f"{rule}, got {shown(text)}")
        return
    named = open_sizes(network)
    by_size = _by_size(network, ranges, _property(properties, TORCH_SIGNATURE) or "")
    if by_size is None:
        names = ", ".join(map(shown, named))
        rule = f"their symbols must be the open sizes of the inputs ({names})"
        declared.leave_out(SIZE_RANGES, f"{rule}, got {', '.join(map(shown, ranges))}")
        return
    for name, (low, high) in by_size.items():
        if name in given:
            continue
        given.add(name)
        # Case: any size is in the range.
        if low is None and high is None:
            continue
        greatest = MOST_OF_INPUT if high is None else high
        if greatest < max(low or 0, 1):
            rule = f"{name} must have a size of 1 or more"
            declared.leave_out(SIZE_RANGES, f"{rule}, got VR[{low or 0}, {greatest}]")
            continue
        declared.add(SIZE_RANGES, condition_on_size(name, named[name][0], low, high))


def _ranges_in(text: str) -> dict[str, Ends] | None:
    """Return the ranges of a text of torch, by their symbols; None if it is another."""
    if not text.startswith("{") or not text.endswith("}"):
        return None
    ranges: dict[str, Ends] = {}
    end = len(text) - 1
    position = 1
    while position < end:
        match = _RANGE.match(text, position, end)
        if match is None:
            return None
        position = match.end()
        symbol, low, high = match.groups()
        least = None if "oo" in low else int(low)
        greatest = None if "oo" in high else int(high)
        # Each size is at least 0, and none is larger than proofs assume.
        if least is not None and least <= 0:
            least = None
        if greatest is not None and greatest >= MOST_OF_INPUT:
            greatest = None
        ranges[symbol] = (least, greatest)
    return ranges


def _by_size(
    network: Network, ranges: Mapping[str, Ends], signature: str
) -> dict[str, Ends] | None:
    """Return the ranges of open sizes, by the names of the sizes.

    None means that it is not known of which sizes the symbols are.
    """
    names = [*open_sizes(network)]
    by_size = {name: ranges[name] for name in names if name in ranges}
    # Case: no symbol has a limit, as of most exports.
    says_nothing = all(ends == (None, None) for ends in ranges.values())
    if by_size or not names or says_nothing:
        return by_size
    # Case: a user named the dimensions, but torch keeps its symbols here. First come
    # those of no input, such as u0, then the others in the order of the dimensions.
    symbols = [symbol for symbol in ranges if not re.fullmatch(r"u\d+", symbol)]
    # A tool may have changed the inputs since.
    inputs = re.findall(r"^(\S+): USER_INPUT$", signature, re.MULTILINE)
    if len(symbols) == len(names) and inputs == [*network.main.inputs]:
        ends = [ranges[symbol] for symbol in symbols]
        return dict(zip(names, ends, strict=True))
    return None


# The metadata that onnxgather writes.


def annotated(network: Network, contract: Contract) -> tuple[bytes, list[Condition]]:
    """Return a model that declares a contract, and what has no form in its metadata.

    Its graph has the same bytes.

    Raises:
        OnnxGatherError: protobuf cannot write the model.
    """
    model, weights = without_weights(network.proto, network.weights)
    without_form = declare(model, network, contract.sizes, contract.conditions)
    # The entry of a model that onnxgather wrote has a digest of the file.
    if own_entry(network.proto, network.weights) is not None:
        renew_entry(model, {}, weights)
    return b"".join(serialized_pieces(model, weights)), without_form


def declare(
    model: ModelProto,
    network: Network,
    named: NamedSizes,
    conditions: Iterable[Condition],
) -> list[Condition]:
    """Write conditions into the metadata of a model; return those that have no form.

    Args:
        model: The model.
        network: The same model as plain data.
        named: The places of its open sizes.
        conditions: The conditions. Each is in the place of what is declared of the same
            input or size; what else is declared stays.
    """
    properties = model.metadata_props
    entries = _entries_in(_property(properties, VALUE_RANGES) or "[]")
    ranges = _ranges_in(_property(properties, SIZE_RANGES) or "{}")
    without_form: list[Condition] = []
    keys: set[str] = set()
    for condition in conditions:
        value_range = _value_range(network, condition)
        if condition.of == "size" and ranges is not None:
            name = expression_of(condition, named)
            ranges[name] = (condition.low, condition.high)
            keys.add(SIZE_RANGES)
        elif value_range is not None and entries is not None:
            entry = _entry_of(entries, network, condition.input or "")
            entry["value_range"] = value_range
            keys.add(VALUE_RANGES)
        else:
            without_form.append(condition)
    if VALUE_RANGES in keys:
        _set_property(model, VALUE_RANGES, json.dumps(entries))
    if SIZE_RANGES in keys:
        texts = [
            f"{name}: VR[{low or 0}, {'int_oo' if high is None else high}]"
            for name, (low, high) in (ranges or {}).items()
        ]
        _set_property(model, SIZE_RANGES, f"{{{', '.join(texts)}}}")
    return without_form


def _entries_in(text: str) -> list[dict[str, Any]] | None:
    """Return the entries of the property of values; None if it is none of ours."""
    with suppress(msgspec.DecodeError, RecursionError):
        return msgspec.json.decode(text, type=list[dict[str, Any]])
    return None


def _entry_of(
    entries: list[dict[str, Any]], network: Network, name: str
) -> dict[str, Any]:
    """Return the first entry of an input, which is added if there is none."""
    for entry in entries:
        if entry.get("name") == name:
            return entry
    data_type = network.main.types[name].data_type
    entry: dict[str, Any] = {"name": name, "dtype": NUMPY_TYPES[data_type].name}
    if network.dimensions[name] is not None:
        entry["shape"] = network.dimensions[name]
    entries.append(entry)
    return entry


def _value_range(network: Network, condition: Condition) -> list[int] | None:
    """Return the range of a condition on all values of an input; None without it."""
    name = condition.input or ""
    plain = Condition(of="values", input=name, low=condition.low, high=condition.high)
    if replace(condition, exact=False) != plain:
        return None
    data_type = network.main.types[name].data_type
    limits = _limits(data_type)
    if limits is None:
        return None
    low = limits[0] if condition.low is None else condition.low
    high = limits[1] if condition.high is None else condition.high
    if data_type not in FLOATS:
        return [low, high + 1]
    # A float has no number behind the greatest, and is not infinite.
    if None in (condition.low, condition.high) or low == high:
        return None
    return [low, high]


def _set_property(model: ModelProto, key: str, text: str) -> None:
    """Give a property of a model's metadata a value, in its place if it is there."""
    for each in model.metadata_props:
        if each.key == key:
            each.value = text
            return
    model.metadata_props.add(key=key, value=text)
