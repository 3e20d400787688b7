"""What is known of the inputs of a network: open sizes, and what conditions say.

A condition gives the ends of a size, of several sizes, of the elements of an input, or
of the difference of two of its columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from onnxgather.auditing.algebra.bounds import (
    ELEMENTS,
    FLOATS,
    Bounds,
    Reason,
    greatest,
    interval,
    least,
    unknown,
)
from onnxgather.auditing.algebra.sizes import (
    MOST_OF_INPUT,
    AnySize,
    AnySizes,
    Size,
    Symbol,
    assume,
    high_of,
    larger,
    lesser,
    low_of,
    size_from,
)
from onnxgather.auditing.proof.columns import ColumnDifference
from onnxgather.auditing.proof.contract import (
    Condition,
    NamedSizes,
    expression_of,
    open_sizes,
)
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import Dimensions, Network


def symbolic_sizes(
    network: Network, conditions: Sequence[Condition], allow_empty: bool
) -> dict[str, Size]:
    """Return the open sizes of the inputs, with what the conditions say of them."""
    symbols = _symbols(network, allow_empty)
    sizes: dict[str, Size] = {}
    for name, symbol in symbols.items():
        sizes[name] = Size({(symbol,): 1})
    named = open_sizes(network)
    for condition in conditions:
        if condition.is_of_elements:
            continue
        try:
            size = size_from(expression_of(condition, named), sizes)
        except KeyError:  # a size in it is given, so it is not open
            continue
        if condition.low is not None:
            assume(size - condition.low)
        if condition.high is not None:
            assume(condition.high - size)
    return sizes


def _symbols(network: Network, allow_empty: bool) -> dict[str, Symbol]:
    """Return a symbol for each open size of the inputs, by its name."""
    # The number of elements limits a product of sizes. An input without elements may
    # have any sizes.
    with_elements: set[str] = set()
    for name, dimensions in network.dimensions.items():
        if not allow_empty and 0 not in (dimensions or ()):
            with_elements.add(name)

    symbols: dict[str, Symbol] = {}
    lowest = 0 if allow_empty else 1
    for name, places in open_sizes(network).items():
        tensors = {input_name for input_name, _ in places} & with_elements
        symbols[name] = Symbol(name, lowest, MOST_OF_INPUT, tensors=tensors)
    return symbols


def sizes_by_name(network: Network, named: NamedSizes) -> dict[str, int]:
    """Return the sizes by their names that are numbers in a network."""
    numbers: dict[str, int] = {}
    for name, places in named.items():
        for input_name, dim in places:
            dimensions = network.dimensions.get(input_name) or ()
            size = dimensions[dim] if dim < len(dimensions) else name
            if isinstance(size, int):
                numbers[name] = size
    return numbers


def limited_differences(
    conditions: Iterable[Condition], sizes: Mapping[str, AnySize]
) -> dict[ColumnDifference, tuple[AnySize, AnySize]]:
    """Return the ends of the differences of columns that conditions are on.

    A difference without one of its ends may be beyond its data type, so it says
    nothing.
    """
    differences: dict[ColumnDifference, tuple[AnySize, AnySize]] = {}
    for condition in conditions:
        columns = condition.columns or ()
        if condition.of != "difference" or len(columns) != 2:
            continue
        low, high = condition.ends_of_all(sizes)
        if low is None or high is None:
            continue
        difference = ColumnDifference(condition.input or "", *columns)
        if difference in differences:
            other_low, other_high = differences[difference]
            low = larger(low, other_low)
            high = lesser(high, other_high)
        differences[difference] = (low, high)
    return differences


def input_bounds(
    network: Network,
    name: str,
    sizes: Mapping[str, AnySize],
    conditions: Sequence[Condition] = (),
) -> Bounds:
    """Return the bounds of a graph input.

    Args:
        network: The network.
        name: The name of the input.
        sizes: The open sizes, and those that are given, by their names.
        conditions: What is true of the inputs.
    """
    dimensions = network.dimensions[name]
    data_type = network.main.types[name].data_type
    shape: AnySizes | None = None
    if dimensions is not None:
        shape = tuple(sizes[n] if isinstance(n, str) else n for n in dimensions)
    value = unknown(data_type, shape, name)

    own_conditions = [
        condition
        for condition in conditions
        if condition.of == "values" and condition.input == name
    ]
    if not own_conditions:
        return value
    column_count = _column_count(dimensions, own_conditions)
    ends = np.repeat(value.whole.reshape(1, 2), column_count or 1, axis=0)
    is_covered = np.zeros(len(ends), bool)
    for condition in own_conditions:
        columns = condition.columns
        # The input lacks these columns; 0 columns stand for an unknown number, or too
        # many. Without the condition the range is wider, so nothing false is proved.
        if columns and max(columns) >= column_count:
            continue
        rows = slice(None) if columns is None else list(columns)
        is_covered[rows] = True
        low_end, high_end = condition.ends_of_all(sizes)
        # A float has no open size as a bound.
        if data_type in FLOATS:
            low_end = None if low_end is None else low_of(low_end)
            high_end = None if high_end is None else high_of(high_end)
        if low_end is not None:
            ends[rows, :1] = greatest(ends[rows, :1], _array_of(low_end, ends))
        if high_end is not None:
            ends[rows, 1:] = least(ends[rows, 1:], _array_of(high_end, ends))

    # NaN is in no range: it is only where no condition is.
    nan = value.nan and not is_covered.all()
    low = ends[:, :1]
    high = ends[:, 1:]
    why = Reason(f"the range given of {name}", "given")
    return interval(data_type, shape, low, high, nan, why=(why,))


def _array_of(end: AnySize, like: Array) -> Array:
    """Return an end as an array of the type of others."""
    array = np.empty((1, 1), like.dtype)
    array[0, 0] = end
    return array


def _column_count(
    dimensions: Dimensions | None, conditions: Sequence[Condition]
) -> int:
    """Return the number of columns to keep bounds of; 0 if it is open or too large."""
    if not dimensions or not any(condition.columns for condition in conditions):
        return 1
    count = dimensions[-1]
    if isinstance(count, str) or count > ELEMENTS:
        return 0
    return count
