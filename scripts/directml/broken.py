"""Random descriptors that break a single rule, and ones that are changed anyhow.

Each is made of a descriptor of `onnxgather.corpus.random_cases`; number N of a seed is the same
everywhere and however many are asked for.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from rules import Raw, broken_rule

import onnxgather as og
from onnxgather.corpus import random_cases
from onnxgather.corpus.words import Stream, seed_of
from onnxgather.strides import packed_strides

Change = Callable[[Raw, Stream], object]
"""Changes the fields of a descriptor; a ValueError where it has no place for that."""

_DATA, _INDICES, _OUTPUT = "InputTensor", "IndicesTensor", "OutputTensor"
_TENSORS = (_DATA, _INDICES, _OUTPUT)
_TYPES = tuple(t.name for t in og.TensorDataType)
_FAR = 2**32 - 1


def broken_descriptors(seed: int) -> Iterator[tuple[str, Raw]]:
    """Yield the names of rules, in turn, each with a random descriptor that breaks it alone."""
    for number in itertools.count():
        names = list(BREAKS)
        name = names[number % len(names)]
        yield name, _broken(name, Stream(seed_of(f"broken/{seed}/{number}")))


def changed_descriptors(seed: int) -> Iterator[Raw]:
    """Yield random descriptors with up to two random changes: many are still valid."""
    for number in itertools.count():
        stream = Stream(seed_of(f"changed/{seed}/{number}"))
        raw = _valid(stream, packed=stream.one_in(2))
        for _ in range(stream.of((0, 1, 1, 1, 2))):
            stream.of(_ANYHOW)(raw["desc"], stream)
        yield raw


def _broken(name: str, stream: Stream) -> Raw:
    while True:
        raw = _valid(stream, packed=True)
        try:
            BREAKS[name](raw["desc"], stream)
        except ValueError:
            continue
        if broken_rule(raw) == name:
            return raw


def _valid(stream: Stream, *, packed: bool) -> Raw:
    (case,) = random_cases(1, stream.word())
    raw = copy.deepcopy(og.to_dict(case.descriptor))
    for name in _TENSORS if packed else ():
        raw["desc"][name].pop("Strides", None)
        raw["desc"][name].pop("TotalTensorSizeInBytes", None)
    return raw


def _needs(holds: object) -> None:
    if not holds:
        raise ValueError


# --- A single rule ---------------------------------------------------------------------------


def _put(tensors: tuple[str, ...], field: str, *values: Any) -> Change:
    """Give the tensors one value."""

    def change(desc: Raw, stream: Stream) -> None:
        value = stream.of(values)
        for name in tensors:
            desc[name][field] = value

    return change


def _put_one(field: str, *values: Any) -> Change:
    """Give one of the three tensors a value."""
    return lambda desc, stream: desc[stream.of(_TENSORS)].update({field: stream.of(values)})


def _field(name: str, *, more: int = 0, zero: bool = False) -> Change:
    """Give a field DimensionCount and so much more, or zero."""

    def change(desc: Raw, stream: Stream) -> None:
        _needs(name in desc)
        above = len(desc[_DATA]["Sizes"]) + more + stream.between(0, 3)
        desc[name] = stream.of([above, above, _FAR, 0 if zero else above])

    return change


def _size(tensor: str, before: str | None = None) -> Change:
    """Make one size of a tensor larger, one that stands before as many as a field says."""

    def change(desc: Raw, stream: Stream) -> None:
        _needs(before is None or before in desc)
        sizes = desc[tensor]["Sizes"]
        count = len(sizes) - (desc[before] if before else 0)
        _needs(count)
        sizes[stream.between(0, count - 1)] += stream.between(1, 2)

    return change


def _more_dimensions(desc: Raw, _: Stream) -> None:
    for name in _TENSORS:
        desc[name]["Sizes"][:0] = [1] * (9 - len(desc[name]["Sizes"]))


def _unequal_dimensions(desc: Raw, stream: Stream) -> None:
    desc[stream.of((_INDICES, _OUTPUT))]["Sizes"].insert(0, 1)


def _zero(desc: Raw, stream: Stream) -> None:
    sizes = desc[stream.of(_TENSORS)]["Sizes"]
    sizes[stream.between(0, len(sizes) - 1)] = 0


def _strides_count(desc: Raw, stream: Stream) -> None:
    tensor = desc[stream.of(_TENSORS)]
    tensor["Strides"] = [1] * (len(tensor["Sizes"]) + stream.of((-1, 1)))


def _too_far(desc: Raw, stream: Stream) -> None:
    tensor = desc[stream.of((_DATA, _INDICES))]
    tensor["Strides"] = [stream.of((_FAR, 2**31)) for _ in tensor["Sizes"]]


def _least(tensor: Raw) -> og.TensorDesc:
    return og.TensorDesc(tensor["DataType"], tensor["Sizes"], tensor.get("Strides"))


def _too_short(desc: Raw, stream: Stream) -> None:
    tensor = desc[stream.of(_TENSORS)]
    least = _least(tensor).total_tensor_size_in_bytes
    tensor["TotalTensorSizeInBytes"] = least - stream.of((1, 2, 4))


def _too_long(desc: Raw, stream: Stream) -> None:
    tensor = desc[stream.of(_TENSORS)]
    most = _FAR * _least(tensor).data_type.size
    tensor["TotalTensorSizeInBytes"] = min(most + stream.of((1, 4, 8, 2**32)), 8 * _FAR)


def _output_stride(desc: Raw, stream: Stream) -> None:
    sizes = desc[_OUTPUT]["Sizes"]
    strides = list(packed_strides(sizes))
    strides[stream.between(0, len(sizes) - 1)] = 0
    desc[_OUTPUT]["Strides"] = strides


def _output_overlap(desc: Raw, stream: Stream) -> None:
    sizes = desc[_OUTPUT]["Sizes"]
    desc[_OUTPUT]["Strides"] = [stream.between(1, stream.of((4, 12, 40))) for _ in sizes]


def _cropped(desc: Raw, stream: Stream) -> None:
    _needs(desc.get("IndexDimensions", 0) > 1)
    sizes = desc[_DATA]["Sizes"]
    sizes[stream.between(0, desc["IndexDimensions"] - 2)] += stream.between(1, 2)
    if stream.one_in(2):  # the last sizes of the concatenation, which DirectML asks for
        axis, kept = desc["Axis"], desc[_INDICES]["Sizes"][-desc["IndexDimensions"] :]
        desc[_OUTPUT]["Sizes"] = (sizes[:axis] + kept + sizes[axis + 1 :])[-len(sizes) :]


def _batch_counts(desc: Raw, stream: Stream) -> None:
    _needs("BatchDimensionCount" in desc)
    least = min(desc["InputDimensionCount"], desc["IndicesDimensionCount"])
    most = len(desc[_DATA]["Sizes"]) - 1
    _needs(least <= most)
    desc["BatchDimensionCount"] = stream.between(least, most)


def _tuple_size(desc: Raw, stream: Stream) -> None:
    _needs("InputDimensionCount" in desc)
    most = desc["InputDimensionCount"] - desc.get("BatchDimensionCount", 0)
    desc[_INDICES]["Sizes"][-1] = most + stream.between(1, 2)


def _batch_sizes(desc: Raw, stream: Stream) -> None:
    _needs(desc.get("BatchDimensionCount"))
    count, indices = len(desc[_DATA]["Sizes"]), desc[_INDICES]["Sizes"]
    rank, index_rank, batches = list(desc.values())[3:]
    indices[count - index_rank + stream.between(0, batches - 1)] += stream.between(1, 2)
    rest = desc[_DATA]["Sizes"][count - rank + batches + indices[-1] :]
    output = indices[count - index_rank : -1] + rest
    desc[_OUTPUT]["Sizes"] = [1] * (count - len(output)) + output


def _output_rank(desc: Raw, stream: Stream) -> None:
    count = len(desc[_DATA]["Sizes"])
    _needs("InputDimensionCount" in desc and count > 2)
    desc[_INDICES]["Sizes"][-1] = 1
    desc["InputDimensionCount"] = desc["IndicesDimensionCount"] = stream.between(3, count)


BREAKS: dict[str, Change] = {
    "INPUT_DATA_TYPE": _put((_DATA, _OUTPUT), "DataType", "UNKNOWN", "UINT4", "INT4"),
    "INDICES_DATA_TYPE": _put(
        (_INDICES,), "DataType", "INT8", "INT16", "UINT8", "UINT16", "FLOAT32", "FLOAT64"
    ),
    "OUTPUT_DATA_TYPE": _put((_OUTPUT,), "DataType", *_TYPES),
    "DIMENSION_COUNT_RANGE": _more_dimensions,
    "DIMENSION_COUNT_EQUAL": _unequal_dimensions,
    "ZERO_SIZE": _zero,
    "STRIDES_COUNT": _strides_count,
    "MAX_ELEMENTS": _too_far,
    "TOTAL_SIZE": _too_short,
    "SIZE_LIMIT": _too_long,
    "SIZE_RANGE": _put_one("TotalTensorSizeInBytes", 8 * _FAR + 1, 2**40, 2**63, 2**64 - 4),
    "ALIGNMENT": _put_one(
        "GuaranteedBaseOffsetAlignment", 1, 2, 3, 4, 5, 8, 12, 17, 24, 100, 2**31 + 16, _FAR
    ),
    "OUTPUT_FLAGS": _put((_OUTPUT,), "Flags", "OWNED_BY_DML"),
    "OUTPUT_STRIDE": _output_stride,
    "OUTPUT_OVERLAP": _output_overlap,
    "AXIS_RANGE": _field("Axis"),
    "INDEX_DIMENSIONS_RANGE": _field("IndexDimensions", more=1),
    "INDICES_LEADING_ONES": _size(_INDICES, before="IndexDimensions"),
    "GATHER_OUTPUT_RANK": _cropped,
    "GATHER_OUTPUT_SIZES": _size(_OUTPUT),
    "ELEMENTS_NON_AXIS_SIZES": _size(_INDICES),
    "ELEMENTS_OUTPUT_SIZES": _size(_OUTPUT),
    "ND_INPUT_DIMENSION_COUNT": _field("InputDimensionCount", more=1, zero=True),
    "ND_INDICES_DIMENSION_COUNT": _field("IndicesDimensionCount", more=1, zero=True),
    "ND_BATCH_RANGE": _field("BatchDimensionCount"),
    "ND_BATCH_COUNTS": _batch_counts,
    "ND_TUPLE_SIZE": _tuple_size,
    "ND_INPUT_LEADING_ONES": _size(_DATA, before="InputDimensionCount"),
    "ND_INDICES_LEADING_ONES": _size(_INDICES, before="IndicesDimensionCount"),
    "ND_BATCH_SIZES": _batch_sizes,
    "ND_OUTPUT_RANK": _output_rank,
    "ND_OUTPUT_SIZES": _size(_OUTPUT),
}
"""How each rule is broken; a change that breaks another one instead is tried again."""

# --- Anyhow ----------------------------------------------------------------------------------


def _any_field(desc: Raw, stream: Stream) -> None:
    names = list(desc)[len(_TENSORS) :]
    name = stream.of(names)
    desc[name] = max(0, desc[name] + stream.of((-1, 1, 1, 2)))


def _any_size(desc: Raw, stream: Stream) -> None:
    sizes = desc[stream.of(_TENSORS)]["Sizes"]
    k = stream.between(0, len(sizes) - 1)
    sizes[k] = max(0, sizes[k] + stream.of((-1, 1, 1, 2)))


def _any_order(desc: Raw, stream: Stream) -> None:
    tensor = desc[stream.of(_TENSORS)]
    tensor["Sizes"] = [tensor["Sizes"][k] for k in stream.shuffled(len(tensor["Sizes"]))]


def _any_strides(desc: Raw, stream: Stream) -> None:
    tensor = desc[stream.of(_TENSORS)]
    most = stream.of((3, 12, 60))
    odd = (0, 1, 4, 30, 2**31, _FAR)
    tensor["Strides"] = [
        stream.of(odd) if stream.one_in(6) else stream.between(1, most) for _ in tensor["Sizes"]
    ]


def _any_total(desc: Raw, stream: Stream) -> None:
    totals = (4, 8, 16, 64, 100, 101, 102, 103, 1000, 2**32, 2**34, 2**35 - 8, 2**40)
    desc[stream.of(_TENSORS)]["TotalTensorSizeInBytes"] = stream.of(totals)


_ANYHOW: tuple[Change, ...] = (
    *(_any_size, _any_size, _any_order, _any_strides, _any_strides, _any_field, _any_total),
    _put_one("GuaranteedBaseOffsetAlignment", 1, 2, 4, 8, 16, 32, 3, 12, 4096, 2**20, 2**31, _FAR),
    _put_one("DataType", *_TYPES),
    _put_one("Flags", "OWNED_BY_DML"),
)
