"""Random gathers for record.py: valid ones with their arrays, and ones that break a single rule."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import numpy as np

import onnxgather as og
from onnxgather.arrays import Array, axis_sizes
from onnxgather.datatypes import INDEX_TYPES, TensorDataType
from onnxgather.descriptors import OPERATORS

Raw = dict[str, Any]
"""A descriptor as `to_dict` spells it."""


class Case(NamedTuple):
    """A valid descriptor with the arrays of its inputs."""

    desc: og.Descriptor
    data: Array
    indices: Array


class Rule(NamedTuple):
    """One way to break a descriptor."""

    breaks: Callable[[Raw, Random], object]
    """Changes the fields of a descriptor whose tensors are packed."""
    refusal: str
    """What the refusal of the broken descriptor holds."""
    says: str
    """The rule in the words of DirectML's documentation, or what it implies."""
    documented: bool = True
    operators: tuple[str, ...] = tuple(OPERATORS)


def valid_cases(seed: int, *, wild: bool) -> Iterator[Case]:
    """Yield random valid descriptors with their arrays, without end.

    Args:
        seed: The same seed yields the same cases.
        wild: Whether indices are anywhere, else all in range.
    """
    random, generator = Random(seed), np.random.default_rng(seed)
    while True:
        desc = _descriptor(random, packed=False)
        yield Case(desc, _data(desc, generator), _indices(desc, generator, random, wild=wild))


def broken_descriptors(seed: int) -> Iterator[tuple[str, Raw]]:
    """Yield the names of rules, in turn, each with a random descriptor that breaks it alone."""
    random = Random(seed)
    while True:
        for name, rule in RULES.items():
            yield name, _broken(rule, random)


def _broken(rule: Rule, random: Random) -> Raw:
    while True:
        desc = _descriptor(random, packed=True)
        raw = copy.deepcopy(og.to_dict(desc))
        if desc.operator not in rule.operators:
            continue
        try:
            rule.breaks(raw["desc"], random)
            og.from_dict(raw)
        except (IndexError, ValueError):
            continue  # a descriptor that has no place to break the rule at
        except og.DescriptorError as error:
            if rule.refusal in str(error):
                return raw


# --- Valid descriptors -----------------------------------------------------------------------


def _sizes(random: Random, count: int, largest: int = 4, product: int = 400) -> list[int]:
    while True:
        sizes = [random.randint(1, largest) for _ in range(count)]
        if math.prod(sizes) <= product:
            return sizes


def _shapes(random: Random, operator: str) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return the sizes of the three tensors, leading ones missing, and the other fields."""
    count = random.randint(1, 8)
    if operator == "GATHER":
        rank = random.randint(0, count)
        cropped = max(0, rank - 1)
        axis = random.randint(cropped, count - 1)
        data, kept = (
            [1] * cropped + _sizes(random, count - cropped),
            _sizes(random, rank, product=60),
        )
        return data, kept, data[cropped:axis] + kept + data[axis + 1 :], [axis, rank]
    if operator == "GATHER_ELEMENTS":
        axis, data = random.randrange(count), _sizes(random, count)
        kept = [*data[:axis], random.randint(1, 5), *data[axis + 1 :]]
        return data, kept, kept, [axis]
    rank, index_rank = random.randint(1, count), random.randint(1, count)
    batches = random.randrange(min(rank, index_rank)) if operator == "GATHER_ND1" else 0
    least = max(1, index_rank - 1 + rank - batches - count)  # the output has to fit
    if least > rank - batches:
        index_rank, least = batches + 1, 1
    size = random.randint(least, rank - batches)
    counted = _sizes(random, rank, 3 if rank > 5 else 4)
    middle = _sizes(random, index_rank - 1 - batches, product=60)
    kept = [*counted[:batches], *middle, size]
    fields = [rank, index_rank, batches] if operator == "GATHER_ND1" else [rank, index_rank]
    data = [1] * (count - rank) + counted
    return data, kept, kept[:-1] + counted[batches + size :], fields


def _descriptor(random: Random, *, packed: bool) -> og.Descriptor:
    operator = random.choice(list(OPERATORS))
    data, indices, output, fields = _shapes(random, operator)
    data_type, index_type = random.choice(list(TensorDataType)), random.choice(INDEX_TYPES)
    three = (
        _tensor(random, data_type, data, packed=packed),
        _tensor(random, index_type, _padded(indices, len(data)), packed=packed),
        _tensor(random, data_type, _padded(output, len(data)), packed=packed, output=True),
    )
    cls: Any = OPERATORS[operator]
    return cls(*three, *fields)


def _padded(sizes: list[int], count: int) -> list[int]:
    return [1] * (count - len(sizes)) + sizes


def _tensor(
    random: Random, data_type: str, sizes: list[int], *, packed: bool, output: bool = False
) -> og.TensorDesc:
    if packed or random.random() < 0.6:
        return og.TensorDesc(data_type, sizes)
    order = list(range(len(sizes)))
    if random.random() < 0.5:
        random.shuffle(order)
    strides, step = [0] * len(sizes), 1
    for k in reversed(order):
        if output or random.random() < 0.8:  # else the elements repeat
            strides[k] = step
            step = step * sizes[k] + random.choice([0, 0, 0, 1, 3])
    least = og.TensorDesc(data_type, sizes, strides).total_tensor_size_in_bytes
    return og.TensorDesc(data_type, sizes, strides, least + random.choice([0, 0, 0, 4, 20]))


def _data(desc: og.Descriptor, generator: np.random.Generator) -> Array:
    tensor = desc.input_tensor
    count = math.prod(tensor.array_shape) * tensor.data_type.size
    return np.frombuffer(generator.bytes(count), tensor.data_type.numpy).reshape(tensor.array_shape)


def _indices(
    desc: og.Descriptor, generator: np.random.Generator, random: Random, *, wild: bool
) -> Array:
    tensor, sizes = desc.indices_tensor, axis_sizes(desc)
    dtype, shape = tensor.data_type.numpy, tensor.array_shape
    # A strided tensor's buffer mixes the coordinates of tuples: the smallest axis holds for all.
    n = np.array(sizes) if tensor.strides is None and len(sizes) > 1 else min(sizes)
    low = -n if tensor.data_type.is_signed else 0 * n
    values = generator.integers(np.broadcast_to(low, shape), n, shape).astype(dtype)
    if not wild:
        return values
    limits, size = np.iinfo(dtype), max(sizes)
    pool = [size, size + 1, 2 * size, -size - 1, 2**64 - size, -(2**31), -(2**63)]
    pool += [2**k + d for k in (31, 32, 33, 63, 64) for d in (-1, 0, 1)]
    pool = [value for value in pool if limits.min <= value <= limits.max]
    pool += generator.integers(limits.min, limits.max, 4, dtype, endpoint=True).tolist()
    chosen = np.array(pool, dtype)[generator.integers(0, len(pool), shape)]
    return np.where(generator.random(shape) < random.choice([0.3, 1.0]), chosen, values)


# --- Broken ones -----------------------------------------------------------------------------

_NAMES = ("InputTensor", "IndicesTensor", "OutputTensor")
_ND = ("GATHER_ND", "GATHER_ND1")


def _put(tensors: tuple[str, ...], field: str, *values: Any) -> Callable[[Raw, Random], object]:
    """Give the tensors one value."""

    def change(desc: Raw, random: Random) -> None:
        value = random.choice(values)
        for name in tensors:
            desc[name][field] = value

    return change


def _put_one(field: str, *values: Any) -> Callable[[Raw, Random], object]:
    """Give one of the three tensors a value."""
    return lambda desc, random: desc[random.choice(_NAMES)].update({field: random.choice(values)})


def _field(name: str, *, more: int = 0, zero: bool = False) -> Callable[[Raw, Random], object]:
    """Give a field DimensionCount and so much more, or zero."""

    def change(desc: Raw, random: Random) -> None:
        above = len(desc["InputTensor"]["Sizes"]) + more + random.randint(0, 3)
        desc[name] = random.choice([above, above, 2**32 - 1, 0 if zero else above])

    return change


def _size(tensor: str) -> Callable[[Raw, Random], object]:
    """Make one size of a tensor larger."""

    def change(desc: Raw, random: Random) -> None:
        sizes = desc[tensor]["Sizes"]
        sizes[random.randrange(len(sizes))] += random.randint(1, 2)

    return change


def _leading(tensor: str, count: str) -> Callable[[Raw, Random], object]:
    """Make a size larger that stands before the last `count` sizes."""

    def change(desc: Raw, random: Random) -> None:
        sizes = desc[tensor]["Sizes"]
        sizes[random.randrange(len(sizes) - desc[count])] += random.randint(1, 2)

    return change


def _more_dimensions(desc: Raw, random: Random) -> None:
    for name in _NAMES:
        desc[name]["Sizes"][:0] = [1] * (9 - len(desc[name]["Sizes"]))


def _unequal_dimensions(desc: Raw, random: Random) -> None:
    desc[random.choice(_NAMES[1:])]["Sizes"].insert(0, 1)


def _zero(desc: Raw, random: Random) -> None:
    sizes = desc[random.choice(_NAMES)]["Sizes"]
    sizes[random.randrange(len(sizes))] = 0


def _strides_count(desc: Raw, random: Random) -> None:
    tensor = desc[random.choice(_NAMES)]
    tensor["Strides"] = [1] * (len(tensor["Sizes"]) + random.choice([-1, 1]))


def _too_far(desc: Raw, random: Random) -> None:
    tensor = desc[random.choice(_NAMES[:2])]
    tensor["Strides"] = [random.choice([2**32 - 1, 2**31]) for _ in tensor["Sizes"]]


def _too_short(desc: Raw, random: Random) -> None:
    tensor = desc[random.choice(_NAMES)]
    least = og.TensorDesc(tensor["DataType"], tensor["Sizes"]).total_tensor_size_in_bytes
    tensor["TotalTensorSizeInBytes"] = least - random.choice([1, 2, 4])


def _cropped(desc: Raw, random: Random) -> None:
    sizes = desc["InputTensor"]["Sizes"]
    sizes[random.randrange(desc["IndexDimensions"] - 1)] += random.randint(1, 2)


def _batch_counts(desc: Raw, random: Random) -> None:
    ranks = desc["InputDimensionCount"], desc["IndicesDimensionCount"]
    desc["BatchDimensionCount"] = random.randrange(min(ranks), len(desc["InputTensor"]["Sizes"]))


def _tuple_size(desc: Raw, random: Random) -> None:
    most = desc["InputDimensionCount"] - desc.get("BatchDimensionCount", 0)
    desc["IndicesTensor"]["Sizes"][-1] = most + random.randint(1, 2)


def _batch_sizes(desc: Raw, random: Random) -> None:
    count, indices = len(desc["InputTensor"]["Sizes"]), desc["IndicesTensor"]["Sizes"]
    rank, index_rank, batches = list(desc.values())[3:]
    indices[count - index_rank + random.randrange(batches)] += random.randint(1, 2)
    rest = desc["InputTensor"]["Sizes"][count - rank + batches + indices[-1] :]
    desc["OutputTensor"]["Sizes"] = _padded(indices[count - index_rank : -1] + rest, count)


def _output_rank(desc: Raw, random: Random) -> None:
    count = len(desc["InputTensor"]["Sizes"])
    desc["IndicesTensor"]["Sizes"][-1] = 1
    desc["InputDimensionCount"] = desc["IndicesDimensionCount"] = random.randint(3, count)


RULES = {
    "INPUT_DATA_TYPE": Rule(
        _put(("InputTensor", "OutputTensor"), "DataType", "UNKNOWN", "UINT4", "INT4"),
        "InputTensor.DataType must be one of",
        "InputTensor supported data types: the eleven of feature level 4_1",
    ),
    "INDICES_DATA_TYPE": Rule(
        _put(
            ("IndicesTensor",), "DataType", "INT8", "INT16", "UINT8", "UINT16", "FLOAT32", "FLOAT64"
        ),
        "IndicesTensor.DataType must be one of",
        "IndicesTensor supported data types: INT64, INT32, UINT64, UINT32",
    ),
    "OUTPUT_DATA_TYPE": Rule(
        _put(("OutputTensor",), "DataType", *TensorDataType.__members__),
        "OutputTensor.DataType must be that",
        "InputTensor and OutputTensor have the same DataType",
    ),
    "DIMENSION_COUNT_RANGE": Rule(
        _more_dimensions, "DimensionCount must be 1 to 8", "Dimension counts: 1 to 8"
    ),
    "DIMENSION_COUNT_EQUAL": Rule(
        _unequal_dimensions,
        "DimensionCount must be that of InputTensor",
        "The three tensors have the same DimensionCount",
    ),
    "ZERO_SIZE": Rule(_zero, "must be at least 1, got 0", "A size of zero is invalid"),
    "STRIDES_COUNT": Rule(
        _strides_count,
        "Strides must have as many elements as Sizes",
        "DimensionCount is the size of the arrays Sizes and Strides",
    ),
    "MAX_ELEMENTS": Rule(
        _too_far, "must describe at most 4294967295", "A tensor has at most 2^32 - 1 elements"
    ),
    "TOTAL_SIZE": Rule(
        _too_short,
        "TotalTensorSizeInBytes must be at least",
        "TotalTensorSizeInBytes is at least the minimum implied size",
    ),
    "ALIGNMENT": Rule(
        _put_one("GuaranteedBaseOffsetAlignment", 1, 2, 3, 5, 12, 24, 100),
        "GuaranteedBaseOffsetAlignment must be",
        "GuaranteedBaseOffsetAlignment: a power of two of at least the element size",
    ),
    "AXIS_RANGE": Rule(
        _field("Axis"),
        "Axis must be less",
        "Axis is in [0, InputTensor.DimensionCount)",
        operators=("GATHER", "GATHER_ELEMENTS"),
    ),
    "INDEX_DIMENSIONS_RANGE": Rule(
        _field("IndexDimensions", more=1),
        "IndexDimensions must be 0 to",
        "IndexDimensions is at most IndicesTensor.DimensionCount",
        operators=("GATHER",),
    ),
    "INDICES_LEADING_ONES": Rule(
        _leading("IndicesTensor", "IndexDimensions"),
        "IndicesTensor.Sizes before the last IndexDimensions",
        "Leading sizes of IndicesTensor that are ignored are 1",
        operators=("GATHER",),
    ),
    "GATHER_OUTPUT_RANK": Rule(
        _cropped,
        "The first IndexDimensions - 1",
        "Rank of InputTensor + IndexDimensions - 1 is at most DimensionCount",
        operators=("GATHER",),
    ),
    "GATHER_OUTPUT_SIZES": Rule(
        _size("OutputTensor"),
        "OutputTensor.Sizes must be",
        "OutputTensor.Sizes are those of InputTensor with those of IndicesTensor at Axis",
        operators=("GATHER",),
    ),
    "ELEMENTS_NON_AXIS_SIZES": Rule(
        _size("IndicesTensor"),
        "as it is not at Axis",
        "Sizes of IndicesTensor match those of InputTensor but at Axis",
        operators=("GATHER_ELEMENTS",),
    ),
    "ELEMENTS_OUTPUT_SIZES": Rule(
        _size("OutputTensor"),
        "OutputTensor.Sizes must be IndicesTensor.Sizes",
        "Sizes of OutputTensor match those of IndicesTensor",
        operators=("GATHER_ELEMENTS",),
    ),
    "ND_INPUT_DIMENSION_COUNT": Rule(
        _field("InputDimensionCount", more=1, zero=True),
        "InputDimensionCount must be 1 to",
        "InputDimensionCount is in [1, InputTensor.DimensionCount]",
        operators=_ND,
    ),
    "ND_INDICES_DIMENSION_COUNT": Rule(
        _field("IndicesDimensionCount", more=1, zero=True),
        "IndicesDimensionCount must be 1 to",
        "IndicesDimensionCount is in [1, IndicesTensor.DimensionCount]",
        operators=_ND,
    ),
    "ND_BATCH_RANGE": Rule(
        _field("BatchDimensionCount"),
        "BatchDimensionCount must be less than DimensionCount",
        "BatchDimensionCount is less than DimensionCount",
        operators=("GATHER_ND1",),
    ),
    "ND_BATCH_COUNTS": Rule(
        _batch_counts,
        "BatchDimensionCount must be less than InputDimensionCount",
        "implied: BatchDimensionCount is less than both other counts",
        documented=False,
        operators=("GATHER_ND1",),
    ),
    "ND_TUPLE_SIZE": Rule(
        _tuple_size,
        "the size of an index tuple, must be at most",
        "The last size of IndicesTensor is at most InputDimensionCount - BatchDimensionCount",
        operators=_ND,
    ),
    "ND_INPUT_LEADING_ONES": Rule(
        _leading("InputTensor", "InputDimensionCount"),
        "InputTensor.Sizes before the last InputDimensionCount",
        "Leading sizes of InputTensor that are ignored are 1",
        operators=_ND,
    ),
    "ND_INDICES_LEADING_ONES": Rule(
        _leading("IndicesTensor", "IndicesDimensionCount"),
        "IndicesTensor.Sizes before the last IndicesDimensionCount",
        "Leading sizes of IndicesTensor that are ignored are 1",
        operators=_ND,
    ),
    "ND_BATCH_SIZES": Rule(
        _batch_sizes,
        "what other batch sizes mean is undefined",
        "implied: InputTensor and IndicesTensor have the same batch sizes",
        documented=False,
        operators=("GATHER_ND1",),
    ),
    "ND_OUTPUT_RANK": Rule(
        _output_rank,
        "OutputTensor.DimensionCount (",
        "implied: the output's dimensions fit DimensionCount",
        documented=False,
        operators=_ND,
    ),
    "ND_OUTPUT_SIZES": Rule(
        _size("OutputTensor"),
        "OutputTensor.Sizes must be the sizes of IndicesTensor before the tuples",
        "OutputTensor.Sizes are those of IndicesTensor before the tuples and InputTensor's rest",
        operators=_ND,
    ),
}
"""The rules of `onnxgather`'s descriptors by name."""
