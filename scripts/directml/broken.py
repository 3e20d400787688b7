"""The rules of descriptors, and random descriptors that break one of them, or several.

Each is made from a descriptor of `onnxgather.checking.corpus.random_cases`. Descriptor
N of a seed is the same on every machine, however many are asked for.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnxgather as og
from onnxgather.checking.corpus import random_cases
from onnxgather.core.descriptors.random_numbers import Stream, seed_of
from onnxgather.core.descriptors.strides import packed_strides

ROOT = Path(__file__).parents[2]

RULES: dict[str, dict[str, Any]] = json.loads(
    (ROOT / "tests/data/observed/rules.json").read_text(encoding="utf-8")
)
"""Of each rule the `messages` with which onnxgather refuses a descriptor, {} for their
values.

Where DirectML accepts some descriptors that break the rule, `accepted` says why it
holds anyway.
"""

_PATTERNS = [
    (name, re.compile(re.escape(message).replace(r"\{\}", "(.+)")))
    for name, rule in RULES.items()
    for message in rule["messages"]
]

Raw = dict[str, Any]
"""A descriptor as `to_dict` spells it, valid or not."""


def broken_rule(raw: Raw) -> str | None:
    """Name the first rule by which onnxgather refuses a descriptor, or None.

    Raises:
        DescriptorError: The descriptor breaks a rule that has no name.
    """
    try:
        og.from_dict(raw)
    except og.DescriptorError as error:
        for name, pattern in _PATTERNS:
            if pattern.fullmatch(str(error)):
                return name
        raise
    return None


Change = Callable[[Raw, Stream], object]
"""Changes the fields of a descriptor. Raises UnsuitableError if it does not apply."""

_DATA, _INDICES, _OUTPUT = "InputTensor", "IndicesTensor", "OutputTensor"
_TENSORS = (_DATA, _INDICES, _OUTPUT)
_TYPES = tuple(t.name for t in og.TensorDataType)
_UINT32_MAX = 2**32 - 1


class UnsuitableError(Exception):
    """A change does not apply to a descriptor."""


def broken_descriptors(seed: int) -> Iterator[tuple[str, Raw]]:
    """Yield names of rules, each with a random descriptor that breaks it alone."""
    for number, (name, change) in enumerate(itertools.cycle(BREAKS.items())):
        stream = Stream(seed_of(f"broken/{seed}/{number}"))
        while True:
            raw = _valid(stream, packed=True)
            try:
                change(raw["desc"], stream)
            except UnsuitableError:
                continue
            if broken_rule(raw) == name:
                break
        yield name, raw


def changed_descriptors(seed: int) -> Iterator[Raw]:
    """Random descriptors with up to two random changes. Many are still valid."""
    for number in itertools.count():
        stream = Stream(seed_of(f"changed/{seed}/{number}"))
        raw = _valid(stream, packed=stream.one_in(2))
        for _ in range(stream.of((0, 1, 1, 1, 2))):
            stream.of(_CHANGES)(raw["desc"], stream)
        yield raw


def _valid(stream: Stream, *, packed: bool) -> Raw:
    (case,) = random_cases(1, stream.number())
    raw = og.to_dict(case.descriptor)
    for name in _TENSORS if packed else ():
        raw["desc"][name].pop("Strides", None)
        raw["desc"][name].pop("TotalTensorSizeInBytes", None)
    return raw


def _require(condition: object) -> None:
    if not condition:
        raise UnsuitableError


def _any_tensor(desc: Raw, stream: Stream) -> Raw:
    return desc[stream.of(_TENSORS)]


def _put(field: str, values: Sequence[Any], *tensors: str) -> Change:
    """Give one of the values to the field of these tensors, or of a random one."""

    def change(desc: Raw, stream: Stream) -> None:
        names = tensors or (stream.of(_TENSORS),)
        value = stream.of(values)
        for name in names:
            desc[name][field] = value

    return change


# --- Changes that break a single rule -----------------------------------------------


def _too_large(field: str, *, more: int = 0, zero: bool = False) -> Change:
    """Give a field a value from DimensionCount + `more` on.

    The value may be zero if that breaks the rule too.
    """

    def change(desc: Raw, stream: Stream) -> None:
        _require(field in desc)
        value = len(desc[_DATA]["Sizes"]) + more + stream.between(0, 3)
        desc[field] = stream.of((value, value, _UINT32_MAX, 0 if zero else value))

    return change


def _larger_size(tensor: str, last: str | None = None) -> Change:
    """Enlarge one size of a tensor.

    It is not one of the last sizes, as many as the field `last` says.
    """

    def change(desc: Raw, stream: Stream) -> None:
        _require(last is None or last in desc)
        sizes = desc[tensor]["Sizes"]
        count = len(sizes) - (desc[last] if last else 0)
        _require(count)
        sizes[stream.between(0, count - 1)] += stream.between(1, 2)

    return change


def _nine_dimensions(desc: Raw, _: Stream) -> None:
    for name in _TENSORS:
        desc[name]["Sizes"][:0] = [1] * (9 - len(desc[name]["Sizes"]))


def _one_dimension_more(desc: Raw, stream: Stream) -> None:
    desc[stream.of((_INDICES, _OUTPUT))]["Sizes"].insert(0, 1)


def _size_zero(desc: Raw, stream: Stream) -> None:
    sizes = _any_tensor(desc, stream)["Sizes"]
    sizes[stream.between(0, len(sizes) - 1)] = 0


def _number_of_strides(desc: Raw, stream: Stream) -> None:
    tensor = _any_tensor(desc, stream)
    tensor["Strides"] = [1] * (len(tensor["Sizes"]) + stream.of((-1, 1)))


def _far_apart(desc: Raw, stream: Stream) -> None:
    tensor = desc[stream.of((_DATA, _INDICES))]
    tensor["Strides"] = [stream.of((_UINT32_MAX, 2**31)) for _ in tensor["Sizes"]]


def _too_few_bytes(desc: Raw, stream: Stream) -> None:
    tensor = _any_tensor(desc, stream)
    least = og.TensorDesc(
        tensor["DataType"], tensor["Sizes"]
    ).total_tensor_size_in_bytes
    tensor["TotalTensorSizeInBytes"] = least - stream.of((1, 2, 4))


def _too_many_bytes(desc: Raw, stream: Stream) -> None:
    tensor = _any_tensor(desc, stream)
    most = _UINT32_MAX * og.TensorDataType[tensor["DataType"]].size
    total = most + stream.of((1, 4, 8, 2**32))
    tensor["TotalTensorSizeInBytes"] = min(total, 8 * _UINT32_MAX)


def _output_stride_zero(desc: Raw, stream: Stream) -> None:
    sizes = desc[_OUTPUT]["Sizes"]
    desc[_OUTPUT]["Strides"] = list(packed_strides(sizes))
    desc[_OUTPUT]["Strides"][stream.between(0, len(sizes) - 1)] = 0


def _output_strides(desc: Raw, stream: Stream) -> None:
    sizes = desc[_OUTPUT]["Sizes"]
    desc[_OUTPUT]["Strides"] = [
        stream.between(1, stream.of((4, 12, 40))) for _ in sizes
    ]


def _cropped_size(desc: Raw, stream: Stream) -> None:
    _require("IndexDimensions" in desc)
    axis, count, rank = desc["Axis"], len(desc[_DATA]["Sizes"]), desc["IndexDimensions"]
    if stream.one_in(3):  # ones of the indices, with more than 8 dimensions in all
        fewest = max(axis + 2, 10 - count)
        _require(fewest <= count)
        desc["IndexDimensions"] = stream.between(fewest, count)
        return
    _require(rank > 1)
    cropped = stream.between(0, rank - 2)
    tensor, k = (
        (_DATA, cropped) if cropped < axis else (_INDICES, cropped - axis - rank)
    )
    desc[tensor]["Sizes"][k] += stream.between(1, 2)


def _too_many_batches(desc: Raw, stream: Stream) -> None:
    _require("BatchDimensionCount" in desc)
    least = min(desc["InputDimensionCount"], desc["IndicesDimensionCount"])
    most = len(desc[_DATA]["Sizes"]) - 1
    _require(least <= most)
    desc["BatchDimensionCount"] = stream.between(least, most)


def _long_tuples(desc: Raw, stream: Stream) -> None:
    _require("InputDimensionCount" in desc)
    most = desc["InputDimensionCount"] - desc.get("BatchDimensionCount", 0)
    desc[_INDICES]["Sizes"][-1] = most + stream.between(1, 2)


def _batches_of_indices(desc: Raw, stream: Stream) -> None:
    batches = desc.get("BatchDimensionCount", 0)
    _require(batches)
    batch, more = stream.between(0, batches - 1), stream.between(1, 2)
    indices, output = desc[_INDICES]["Sizes"], desc[_OUTPUT]["Sizes"]
    index_rank = desc["IndicesDimensionCount"]
    output_rank = index_rank - 1 + desc["InputDimensionCount"] - batches - indices[-1]
    indices[batch - index_rank] += more
    output[batch - output_rank] += more


def _dimensions_of_output(desc: Raw, stream: Stream) -> None:
    count = len(desc[_DATA]["Sizes"])
    _require("InputDimensionCount" in desc and count > 2)
    desc[_INDICES]["Sizes"][-1] = 1
    desc["InputDimensionCount"] = desc["IndicesDimensionCount"] = stream.between(
        3, count
    )


_WRONG_INDEX_TYPES = ("INT8", "INT16", "UINT8", "UINT16", "FLOAT32", "FLOAT64")
_WRONG_TOTALS = (8 * _UINT32_MAX + 1, 2**40, 2**63, 2**64 - 4)
_WRONG_ALIGNMENTS = (1, 2, 3, 4, 5, 8, 12, 17, 24, 100, 2**31 + 16, _UINT32_MAX)

BREAKS: dict[str, Change] = {
    "INPUT_DATA_TYPE": _put("DataType", ("UNKNOWN", "UINT4", "INT4"), _DATA, _OUTPUT),
    "INDICES_DATA_TYPE": _put("DataType", _WRONG_INDEX_TYPES, _INDICES),
    "OUTPUT_DATA_TYPE": _put("DataType", _TYPES, _OUTPUT),
    "DIMENSION_COUNT_RANGE": _nine_dimensions,
    "DIMENSION_COUNT_EQUAL": _one_dimension_more,
    "ZERO_SIZE": _size_zero,
    "STRIDES_COUNT": _number_of_strides,
    "MAX_ELEMENTS": _far_apart,
    "TOTAL_SIZE": _too_few_bytes,
    "SIZE_LIMIT": _too_many_bytes,
    "SIZE_RANGE": _put("TotalTensorSizeInBytes", _WRONG_TOTALS),
    "ALIGNMENT": _put("GuaranteedBaseOffsetAlignment", _WRONG_ALIGNMENTS),
    "OUTPUT_FLAGS": _put("Flags", ("OWNED_BY_DML",), _OUTPUT),
    "OUTPUT_STRIDE": _output_stride_zero,
    "OUTPUT_OVERLAP": _output_strides,
    "AXIS_RANGE": _too_large("Axis"),
    "INDEX_DIMENSIONS_RANGE": _too_large("IndexDimensions", more=1),
    "INDICES_LEADING_ONES": _larger_size(_INDICES, last="IndexDimensions"),
    "GATHER_OUTPUT_RANK": _cropped_size,
    "GATHER_OUTPUT_SIZES": _larger_size(_OUTPUT),
    "ELEMENTS_NON_AXIS_SIZES": _larger_size(_INDICES),
    "ELEMENTS_OUTPUT_SIZES": _larger_size(_OUTPUT),
    "ND_INPUT_DIMENSION_COUNT": _too_large("InputDimensionCount", more=1, zero=True),
    "ND_INDICES_DIMENSION_COUNT": _too_large(
        "IndicesDimensionCount", more=1, zero=True
    ),
    "ND_BATCH_RANGE": _too_large("BatchDimensionCount"),
    "ND_BATCH_COUNTS": _too_many_batches,
    "ND_TUPLE_SIZE": _long_tuples,
    "ND_INPUT_LEADING_ONES": _larger_size(_DATA, last="InputDimensionCount"),
    "ND_INDICES_LEADING_ONES": _larger_size(_INDICES, last="IndicesDimensionCount"),
    "ND_BATCH_SIZES": _batches_of_indices,
    "ND_OUTPUT_RANK": _dimensions_of_output,
    "ND_OUTPUT_SIZES": _larger_size(_OUTPUT),
}
"""How each rule is broken. A change that breaks another rule first is tried again."""

# --- Changes that may break any rule, several, or none ------------------------------


def _any_field(desc: Raw, stream: Stream) -> None:
    name = stream.of(list(desc)[len(_TENSORS) :])
    desc[name] = max(0, desc[name] + stream.of((-1, 1, 1, 2)))


def _any_size(desc: Raw, stream: Stream) -> None:
    sizes = _any_tensor(desc, stream)["Sizes"]
    k = stream.between(0, len(sizes) - 1)
    sizes[k] = max(0, sizes[k] + stream.of((-1, 1, 1, 2)))


def _any_order(desc: Raw, stream: Stream) -> None:
    tensor = _any_tensor(desc, stream)
    tensor["Sizes"] = [
        tensor["Sizes"][k] for k in stream.shuffled(len(tensor["Sizes"]))
    ]


def _any_strides(desc: Raw, stream: Stream) -> None:
    tensor = _any_tensor(desc, stream)
    most = stream.of((3, 12, 60))
    odd = (0, 1, 4, 30, 2**31, _UINT32_MAX)
    tensor["Strides"] = [
        stream.of(odd) if stream.one_in(6) else stream.between(1, most)
        for _ in tensor["Sizes"]
    ]


def _any_total(desc: Raw, stream: Stream) -> None:
    total = stream.of(
        (4, 8, 16, 64, 100, 101, 102, 103, 1000, 2**32, 2**34, 2**35 - 8, 2**40)
    )
    _any_tensor(desc, stream)["TotalTensorSizeInBytes"] = total


_ALIGNMENTS = (1, 2, 4, 8, 16, 32, 3, 12, 4096, 2**20, 2**31, _UINT32_MAX)

_CHANGES: tuple[Change, ...] = (
    _any_size,
    _any_size,
    _any_order,
    _any_strides,
    _any_strides,
    _any_field,
    _any_total,
    _put("GuaranteedBaseOffsetAlignment", _ALIGNMENTS),
    _put("DataType", _TYPES),
    _put("Flags", ("OWNED_BY_DML",)),
)
