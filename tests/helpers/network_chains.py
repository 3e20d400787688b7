"""Chains of nodes that lead to a gather, as exporters write them, with random
parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from network_draft import Draft, RefusedError
from onnx import helper

INT64, FLOAT, BOOL = (
    onnx.TensorProto.INT64,
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.BOOL,
)


# Parts of chains.


def open_name(d: Draft) -> str:
    """The name of an open size."""
    return d.choice([*d.sizes[0]])


def two_names(d: Draft) -> list[str]:
    """The names of two open sizes, which may be the same."""
    return [open_name(d), open_name(d)]


def ids(d: Draft, rank: int = 2, dtype: str = "int64") -> str:
    """An input of open sizes, such as the numbers of tokens."""
    fits = [n for n, a in d.values.items() if a.dtype == dtype and a.ndim == rank]
    fits = [n for n in fits if len(d.open_axes(n)) == rank]
    if fits and d.chance(0.5):
        return d.choice(fits)
    return d.input(dtype, [open_name(d) for _ in range(rank)])


def hidden(d: Draft, *dims: int | str) -> str:
    """A FLOAT input."""
    return d.input("float32", dims)


def table(d: Draft, rows: int, dtype: str = "float32") -> str:
    """A constant with some rows."""
    return d.constant(np.zeros([max(rows, 1), 1], dtype), dtype)


def some_rows(d: Draft, least: int) -> int:
    """How many rows a table has: about as many as needed, or more."""
    return max(1, least + d.choice([-1, 0, 0, 0, 1, 8, 60]))


def size_of(d: Draft, x: str, axis: int, rank: int = 0) -> str:
    """A size of a value, through Shape, as a scalar or as a vector."""
    way = d.randrange(3)
    if way == 0 and d.opset >= 15:
        found = d.op("Shape", x, start=axis, end=axis + 1)
        return found if rank else d.op("Squeeze", found, [0])
    shape = d.op("Shape", x)
    if way == 1:
        found = d.op("Slice", shape, [axis], [axis + 1], [0])
        return found if rank else d.op("Squeeze", found, [0])
    found = d.op("Gather", shape, [axis] if rank else axis, axis=0)
    if d.chance(0.2):  # a way around that changes nothing
        found = d.op("Cast", d.op("Cast", found, to=onnx.TensorProto.INT32), to=INT64)
    return found


def arange(d: Draft, n: str, step: int = 1) -> str:
    """0 … n - 1 for a scalar n: by Range, or as the oldest exporters write it."""
    if d.opset < 11 or (step == 1 and d.chance(0.25)):
        vector = d.op("Unsqueeze", n, [0])
        ones = d.op("ConstantOfShape", vector, value=ones_proto())
        places = d.op("NonZero", ones)
        if d.chance(0.5):
            return d.op("Squeeze", places, [0])
        turned = d.op("Transpose", places, perm=[1, 0])
        return d.op("Squeeze", turned, [1])
    return d.op("Range", 0, n, step)


def ones_proto() -> onnx.TensorProto:
    """The value of ConstantOfShape: 1."""
    return helper.make_tensor("", INT64, [1], [1])


def gather(d: Draft, data: str, index: str, axis: int = 0) -> None:
    """End a chain: a gather which may fail, so its values are not seen."""
    d.end(d.node("Gather", [data, index], axis=axis))


def gather_elements(d: Draft, data: str, index: str, axis: int = 0) -> None:
    """End a chain with GatherElements."""
    d.end(d.node("GatherElements", [data, index], axis=axis))


def gather_nd(d: Draft, data: str, index: str, batch_dims: int = 0) -> None:
    """End a chain with GatherND."""
    more: dict[str, Any] = {"batch_dims": batch_dims} if batch_dims else {}
    d.end(d.node("GatherND", [data, index], **more))


def most(d: Draft, name: str) -> int:
    """The greatest element of a value in the worlds."""
    return max(
        [int(world[name].max()) for world in d.worlds if world[name].size] or [0]
    )


def near_table(d: Draft, index: str) -> str:
    """A table of about as many rows as the indices need in the worlds."""
    return table(d, min(some_rows(d, most(d, index) + 1), 200))


# The chains.


def positions(d: Draft) -> None:
    """Positions on an axis, in a table of positions or along the axis itself."""
    x = ids(d)
    axis = d.randrange(2)
    n = size_of(d, x, axis)
    where = arange(d, n)
    if d.chance(0.3):
        where = (
            d.op("Expand", d.op("Unsqueeze", where, [0]), d.op("Shape", x))
            if axis
            else where
        )
    if d.chance(0.3):
        where = d.op("Add", where, d.choice([-1, 1, 2]))
    if d.chance(0.4):
        return gather(d, x, where, axis)
    return gather(d, near_table(d, where), where)


def past_and_current(d: Draft) -> None:
    """Positions after those of earlier steps."""
    name, past_name = two_names(d)
    x = d.input("int64", [open_name(d), name])
    past = hidden(d, 1, past_name)
    before, n = size_of(d, past, 1), size_of(d, x, 1)
    total = d.op("Add", before, n) if d.chance(0.7) else d.op("Add", n, before)
    where = d.op("Range", before if d.chance(0.8) else 0, total, 1)
    if d.chance(0.5):
        whole = d.op("Concat", past, hidden(d, 1, name), axis=1)
        return gather(d, whole, where, 1)
    return gather(d, near_table(d, where), where)


def flat_mask(d: Draft) -> None:
    """arange(b) * s + arange(s), over a flattened mask."""
    x = ids(d)
    b, s = size_of(d, x, 0), size_of(d, x, 1)
    factor = s if d.chance(0.85) else b
    rows = d.op("Mul", arange(d, b), factor)
    where = d.op("Add", d.op("Unsqueeze", rows, [1]), arange(d, s))
    if d.chance(0.2):
        where = d.op("Add", where, [1])
    flat = d.op("Reshape", x, [-1])
    if d.chance(0.3):
        where = d.op("Reshape", where, [-1])
    gather(d, flat, where)


def mask_of_pairs(d: Draft) -> None:
    """GatherND of mask[b, s], with tuples of two grids."""
    x = ids(d, dtype=d.choice(["int64", "bool"]))
    b, s = size_of(d, x, 0), size_of(d, x, 1)
    both = d.op("Concat", *(d.op("Unsqueeze", n, [0]) for n in (b, s)), axis=0)
    rows = d.op("Expand", d.op("Unsqueeze", arange(d, b), [1]), both)
    columns = d.op("Expand", d.op("Unsqueeze", arange(d, s), [0]), both)
    pair = [rows, columns] if d.chance(0.85) else [columns, rows]
    where = d.op(
        "Concat",
        *(d.op("Unsqueeze", n, [-1 if d.opset > 12 else 2]) for n in pair),
        axis=-1,
    )
    gather_nd(d, x, where)


def selected(d: Draft) -> None:
    """The elements of a mask that are not 0, as tuples or in a flat value."""
    x = ids(d, dtype=d.choice(["int64", "bool", "float32"]))
    if d.chance(0.4):
        where = d.op("NonZero", d.op("Reshape", x, [-1]))
        where = d.op("Squeeze", where, [0])
        flat = d.op("Reshape", x, [-1]) if d.chance(0.6) else x
        return gather(d, flat, where)
    found = d.op("NonZero", x)
    if d.chance(0.5):
        row = d.randrange(2)
        where = d.op("Gather", found, row, axis=0)
        return gather(d, x, where, row if d.chance(0.8) else 1 - row)
    return gather_nd(d, x, d.op("Transpose", found, perm=[1, 0]))


def counted_mask(d: Draft) -> None:
    """CumSum(mask) * mask + padding, as positions in a table."""
    x = ids(d)
    kept = d.op("Not", d.op("Equal", x, d.choice([0, 1])))
    dtype = d.choice([INT64, onnx.TensorProto.INT32])
    mask = d.op("Cast", kept, to=dtype)
    axis = d.choice([1, -1, 0])
    counts = d.op("CumSum", mask, axis, exclusive=int(d.chance(0.2)))
    where = d.op("Cast", d.op("Mul", counts, mask), to=INT64)
    shift = d.choice([-1, 0, 1, 1, 2])
    where = d.op("Add", where, shift)
    if d.chance(0.3):
        return gather(d, x, where, axis)
    return gather(d, near_table(d, where), where)


def float_counts(d: Draft) -> None:
    """CumSum or ReduceSum of a mask of floats, as positions in a table."""
    x = ids(d)
    mask = d.op("Cast", x, to=d.choice([FLOAT, onnx.TensorProto.DOUBLE]))
    if d.chance(0.5):
        mask = d.op("Cast", d.op("Cast", x, to=BOOL), to=FLOAT)
    if d.chance(0.5):
        factor = d.choice([0.25, 0.3, -1, 2])
        dtype = str(d.values[mask].dtype)
        mask = d.op("Mul", mask, d.constant(factor, dtype))
    if d.chance(0.6):
        axis = np.array(d.choice([1, -1, 0]))
        flags: dict[str, Any] = {
            "exclusive": int(d.chance(0.3)),
            "reverse": int(d.chance(0.3)),
        }
        counts = d.op("CumSum", mask, axis, **flags)
    else:
        counts = d.op("ReduceSum", mask, [1], keepdims=1)
    if d.chance(0.5):
        counts = d.op("Floor", counts)
    where = d.op("Cast", counts, to=INT64)
    gather(d, near_table(d, where), where)


def last_token(d: Draft) -> None:
    """ReduceSum(mask) - 1: where each text ends."""
    name, batch = two_names(d)
    mask = d.input("bool", [batch, name])
    if d.chance(0.5):
        mask = d.op("Equal", d.input("int64", [batch, name]), 0)
    count = d.op("ReduceSum", d.op("Cast", mask, to=INT64), [1], keepdims=1)
    where = d.op("Sub", count, [1])
    if d.chance(0.3):
        where = d.op("Max", where, [0])
    data = d.input("int64", [batch, name])
    if d.chance(0.5):
        return gather_elements(d, data, where, 1)
    return gather(d, data, d.op("Squeeze", where, [1]), 1)


def wrapped(d: Draft) -> None:
    """Where(i < 0, i + n, i), as exporters write a negative index."""
    x = ids(d, 1)
    n = size_of(d, x, 0)
    index = d.input("int64", [open_name(d)], "near")
    way = d.randrange(3)
    if way == 0:
        index = d.op(
            "Clip",
            index,
            -d.randint(0, 3),
            d.randint(0, 3),
        )
    elif way == 1:
        index = d.op("Mod", index, d.op("Max", n, 1))
    if d.chance(0.3):
        index = d.op("Sub", d.op("Neg", arange(d, n)), 1)
    below = d.op("Less", index, 0)
    gather(d, x, d.op("Where", below, d.op("Add", index, n), index))


def limited(d: Draft) -> None:
    """Indices that the sizes of the data limit: Clip, Min and Max, or Mod."""
    x = ids(d, 2)
    axis = d.randrange(2)
    n = size_of(d, x, axis)
    index = d.input(d.choice(["int64", "int32"]), None)
    dtype = str(d.values[index].dtype)
    if dtype == "int32":
        n = d.op("Cast", n, to=onnx.TensorProto.INT32)
    one, zero = (d.constant(k, dtype) for k in (1, 0))
    last = d.op("Sub", n, one) if d.chance(0.9) else n
    way = d.randrange(4)
    if way == 0:
        index = d.op("Clip", index, zero, last)
    elif way == 1:
        index = d.op("Max", d.op("Min", index, last), zero)
    elif way == 2:
        index = d.op("Min", d.op("Max", index, zero), last)
    else:
        index = d.op("Mod", index, n)
    gather(d, x, index, axis)


def wide_clamp(d: Draft) -> None:
    """A clamp in UINT64, above which nothing remains of a negative number."""
    x = ids(d, 2)
    axis = d.randrange(2)
    n = size_of(d, x, axis, rank=d.randrange(2))
    index = d.input("int64", None)
    below = d.op("Less", index, 0)
    index = d.op("Where", below, d.op("Add", index, n), index)
    uint64 = onnx.TensorProto.UINT64
    last = d.op("Cast", d.op("Sub", n, 1), to=uint64)
    index = d.op("Cast", d.op("Min", d.op("Cast", index, to=uint64), last), to=INT64)
    gather(d, x, index, axis)


def buckets(d: Draft) -> None:
    """torch.bucketize by comparisons: each boundary that is passed moves the index by
    one."""
    x = d.input(d.choice(["int64", "float32", "int32"]), [open_name(d)])
    dtype = str(d.values[x].dtype)
    boundaries = sorted(d.random.sample(range(-5, 12), d.randint(1, 4)))
    if d.chance(0.5):
        column = d.op("Unsqueeze", x, [1])
        passed = d.op(
            d.choice(["Greater", "Less"]), column, d.constant(boundaries, dtype)
        )
        index = d.op("ReduceSum", d.op("Cast", passed, to=INT64), [1], keepdims=0)
    else:
        index = d.op("Mul", d.op("Cast", d.op("Equal", x, x), to=INT64), 0)
        for k, boundary in enumerate(boundaries):
            edge = d.constant(boundary, dtype)
            below = d.op("Less", x, edge) if d.chance(0.5) else d.op("Greater", edge, x)
            passed = d.op("Not", below)
            if k and d.chance(0.5):
                passed = d.op("And", passed, d.op("Not", d.op("Equal", x, edge)))
            index = d.op("Where", passed, k + 1, index)
    gather(d, table(d, len(boundaries) + d.choice([0, 1, 1, 1, 2])), index)


def guarded(d: Draft) -> None:
    """Where, with a condition on the value itself: what is not in range becomes a
    padding."""
    x = d.input(d.choice(["int64", "int64", "int32", "float32"]), [open_name(d)])
    dtype = str(d.values[x].dtype)
    low, high = d.randint(-3, 1), d.randint(0, 9)
    ends = [d.constant(k, dtype) for k in (low, high)]
    above = (
        d.op("GreaterOrEqual", x, ends[0])
        if d.chance(0.5)
        else d.op("Not", d.op("Less", x, ends[0]))
    )
    below = (
        d.op("LessOrEqual", x, ends[1])
        if d.chance(0.5)
        else d.op("Not", d.op("Greater", x, ends[1]))
    )
    kept = d.op(d.choice(["And", "And", "And", "Or"]), above, below)
    if d.chance(0.3):
        index = d.op("Where", d.op("Not", kept), d.constant(0, dtype), x)
    else:
        index = d.op("Where", kept, x, d.constant(d.choice([0, 0, -1, 1]), dtype))
    if dtype == "float32":
        index = d.op("Cast", index, to=INT64)
    gather(d, table(d, some_rows(d, high + 1)), index)


def relative_buckets(d: Draft) -> None:
    """Distances in buckets, as T5 has them."""
    x = ids(d)
    s = size_of(d, x, 1)
    row = arange(d, s)
    distance = d.op("Sub", d.op("Unsqueeze", row, [1]), row)
    way = d.randrange(3)
    if way == 0:
        k = d.randint(1, 4)
        near = d.op("Clip", distance, -k, k)
        return gather(d, table(d, some_rows(d, 2 * k + 1)), d.op("Add", near, k))
    if way == 1:
        shifted = d.op("Sub", d.op("Add", distance, s), 1)
        both = d.op("Add", s, s)
        rows = d.op("Sub", both, 1) if d.chance(0.7) else both
        data = d.op("ConstantOfShape", d.op("Unsqueeze", rows, [0]))
        return gather(d, data, shifted)
    near = d.op("Abs", distance)
    is_small = d.op("Less", near, 4)
    logs = d.op("Log", d.op("Div", d.op("Cast", near, to=FLOAT), np.float32(4)))
    large = d.op("Add", d.op("Cast", d.op("Mul", logs, np.float32(2)), to=INT64), 4)
    large = d.op("Min", large, 7)
    index = d.op("Where", is_small, near, large)
    if d.chance(0.5):
        side = d.op(
            "Mul",
            d.op("Cast", d.op("Greater", distance, 0), to=INT64),
            8,
        )
        return gather(d, table(d, some_rows(d, 16)), d.op("Add", index, side))
    return gather(d, table(d, some_rows(d, 8)), index)


def windows(d: Draft) -> None:
    """Windows over an axis: starts of windows and places in them."""
    x = ids(d, 1)
    n = size_of(d, x, 0)
    width = d.randint(1, 4)
    count = d.op("Sub", n, width - d.choice([1, 1, 1, 0]))
    if d.chance(0.5):
        count = d.op("Max", count, 0)
    starts = d.op(
        "Unsqueeze",
        d.op("Range", 0, count, d.randint(1, 2)),
        [1],
    )
    where = d.op("Add", starts, np.arange(width))
    gather(d, x, where)


def halves(d: Draft) -> None:
    """Blocks of an axis: a size divided, and rounded up by a padding."""
    x = ids(d, 1)
    n = size_of(d, x, 0)
    w = d.randint(1, 4)
    blocks = d.op("Div", d.op("Add", n, w - 1) if d.chance(0.4) else n, w)
    way = d.randrange(3)
    if way == 0:
        where = d.op("Mul", arange(d, blocks), w)
    elif way == 1:
        where = d.op("Div", arange(d, n), w)
    else:
        where = d.op("Mod", arange(d, n), w)
    data = x
    if way and d.chance(0.7):
        data = d.op("ConstantOfShape", d.op("Unsqueeze", blocks, [0]))
    gather(d, data, where)


def repeated(d: Draft) -> None:
    """Each row of a batch several times."""
    x = ids(d, 2)
    b = size_of(d, x, 0)
    times = d.randint(1, 3)
    column = d.op("Unsqueeze", arange(d, b), [1])
    more = d.op("Concat", d.op("Unsqueeze", b, [0]), [times], axis=0)
    grid = (
        d.op("Expand", column, more)
        if d.chance(0.6)
        else d.op("Tile", column, [1, times])
    )
    where = d.op("Reshape", grid, [-1])
    if d.chance(0.5):
        rows = d.op("Mul", b, times)
        where = arange(d, rows)
        data = d.op("Tile", x, [times, 1])
        return gather(d, data, where)
    return gather(d, x, where)


def turned(d: Draft) -> None:
    """An axis from its end: n - 1 - i, a Range down, or a Slice with a step of -1."""
    x = ids(d, 1)
    n = size_of(d, x, 0)
    last = d.op("Sub", n, 1)
    way = d.randrange(3)
    if way == 0:
        where = d.op("Sub", last, arange(d, n))
    elif way == 1:
        where = d.op("Range", last, d.choice([-1, -1, -2]), -1)
    else:
        where = d.op(
            "Slice",
            arange(d, n),
            [-1],
            [-(2**63)],
            [0],
            [-1],
        )
    gather(d, x, where)


def buffered(d: Draft) -> None:
    """A part of a stored vector of positions, as long as an axis."""
    x = ids(d, 2)
    stored = d.choice([8, 16, 40])
    buffer = d.constant(np.arange(stored)[None])
    n = size_of(d, x, 1, rank=1)
    start = np.array([0])
    end = n
    if d.chance(0.3):
        start = np.array([d.randint(1, 3)])
        end = d.op("Add", n, start)
    where = d.op("Slice", buffer, start, end, [1])
    if d.chance(0.3):
        return gather(d, x, where, 1)
    return gather(
        d, table(d, d.choice([stored - 1, stored, stored, stored + 2])), where
    )


def cut(d: Draft) -> None:
    """Parts of an axis by Slice or Split, with sizes that are computed."""
    x = ids(d, 1)
    n = size_of(d, x, 0, rank=1)
    k = d.randint(1, 2)
    way = d.randrange(4)
    if way == 0:
        part = d.op("Slice", x, [k], n, [0])
        where = arange(d, d.op("Squeeze", d.op("Sub", n, [k]), [0]))
    elif way == 1:
        half = d.op("Div", n, [2])
        part = d.op("Slice", x, [0], half, [0])
        where = arange(d, size_of(d, part, 0))
    elif way == 2 and d.opset >= 13:
        rest = d.op("Sub", n, [k])
        parts = d.ops("Split", 2, x, d.op("Concat", [k], rest, axis=0), axis=0)
        which = d.randrange(2)
        part = parts[which]
        where = (
            d.constant(np.arange(k))
            if which == 0
            else arange(d, size_of(d, parts[1 - which if d.chance(0.2) else 1], 0))
        )
    else:
        part = d.op("Slice", x, [-k], [2**63 - 1], [0])
        where = arange(d, size_of(d, part, 0)) if d.chance(0.5) else d.constant([0])
    gather(d, part, where)


def best(d: Draft) -> None:
    """TopK with as many as there are, and what it chooses."""
    batch, name = two_names(d)
    scores = d.input(d.choice(["float32", "int64"]), [batch, name])
    n = size_of(d, scores, 1, rank=1)
    k = d.op("Min", n, [d.randint(1, 6)]) if d.chance(0.7) else d.constant([1])
    _, index = d.ops("TopK", 2, scores, k, axis=-1)
    way = d.randrange(3)
    if way == 0:
        return gather_elements(d, scores, index, 1)
    if way == 1:
        width = d.randint(1, 3)
        return gather(d, scores, d.op("Div", index, width), 1)
    return gather(d, scores, index, d.choice([1, 1, 1, 0]))


def best_one(d: Draft) -> None:
    """ArgMax, over an axis or over a flattened value."""
    x = ids(d, 2, d.choice(["int64", "float32"]))
    axis = d.randrange(2)
    if d.chance(0.4):
        flat = d.op("Reshape", x, [-1] if d.chance(0.5) else [1, -1])
        rank = d.values[flat].ndim
        index = d.op("ArgMax", flat, axis=rank - 1, keepdims=0)
        n = size_of(d, x, 1)
        index = d.op(d.choice(["Div", "Mod"]), index, n)
        return gather(d, x, index, d.randrange(2))
    keep = d.randrange(2)
    index = d.op(d.choice(["ArgMax", "ArgMin"]), x, axis=axis, keepdims=keep)
    if keep and d.chance(0.7):
        return gather_elements(d, x, index, axis)
    return gather(d, x, index, axis if d.chance(0.85) else 1 - axis)


def reshaped(d: Draft) -> None:
    """Heads: a value in four sizes, and its axes in another order."""
    width = d.randint(1, 3)
    x = hidden(d, *two_names(d), 2 * width)
    shape = d.op("Shape", x)
    b, s = (d.op("Gather", shape, [k], axis=0) for k in (0, 1))
    parts = d.choice(
        [[b, s], [s, b], [np.array([0]), np.array([0])], [b, np.array([-1])]]
    )
    both = d.op("Concat", *parts, [2], [width], axis=0)
    y = d.op("Reshape", x, both)
    y = d.op("Transpose", y, perm=d.choice([[0, 2, 1, 3], [0, 1, 2, 3], [2, 0, 1, 3]]))
    if d.chance(0.4):
        last = np.array([0, 0, -1]) if d.chance(0.5) else np.array([-1, width])
        y = d.op("Reshape", y, last)
    axis = d.randrange(d.values[y].ndim)
    source, other = d.choice([(y, axis), (y, axis), (x, d.randrange(3))])
    gather(d, y, arange(d, size_of(d, source, other)), axis)


def element_of_each(d: Draft) -> None:
    """A batch of rows, each with an index of its own."""
    batch, name = two_names(d)
    x = d.input("float32", [batch, name, 2])
    index = d.op("ArgMax", d.op("ReduceSum", x, [2], keepdims=0), axis=1, keepdims=0)
    b = size_of(d, x, 0)
    rows = arange(d, b)
    columns = [d.op("Unsqueeze", n, [1]) for n in (rows, index)]
    if d.chance(0.5):
        return gather_nd(d, x, d.op("Concat", *columns, axis=1))
    if d.chance(0.5) and d.opset >= 12:
        return gather_nd(d, x, columns[1], 1)
    flat = d.op("Reshape", x, [-1, 2])
    where = d.op("Add", d.op("Mul", rows, size_of(d, x, 1)), index)
    return gather(d, flat, where)


def padded(d: Draft) -> None:
    """An axis with a padding, and indices that reach into it."""
    x = ids(d, 1)
    n = size_of(d, x, 0)
    before, after = d.randrange(3), d.randrange(3)
    y = d.op("Pad", x, [before, after], mode="constant") if d.chance(0.5) else x
    where = d.op("Add", arange(d, n), d.choice([0, before, before + after]))
    if d.chance(0.4):
        shift = d.choice([-1, 0, before, after])
        where = d.op("Pad", arange(d, n), [before, after], shift)
    gather(d, y, where)


def picture(d: Draft) -> str:
    """An image of open sizes."""
    sides = [open_name(d) if d.chance(0.7) else d.randint(1, 9) for _ in "hw"]
    batch = open_name(d) if d.chance(0.7) else 1
    return d.input("float32", [batch, 1, *sides], "near")


def stretched(d: Draft) -> None:
    """Places in an image that a Resize makes: its batch stays, its sides may grow."""
    x = picture(d)
    factor = d.choice([2, 2, 1, 0.5, 3, 1.5, 0.25, 0.9])
    side = d.choice([1, factor])
    if d.opset >= 18 and d.chance(0.4):
        scales = d.constant([factor], "float32")
        y = d.op("Resize", x, "", scales, axes=[d.choice([2, 3, -1])])
    elif d.chance(0.25) and d.opset >= 13:
        shape = d.op("Shape", x)
        front = d.op("Slice", shape, [0], [2], [0])
        sizes = d.op("Concat", front, [4, 6], axis=0)
        y = d.op("Resize", x, "", "", sizes)
    elif d.opset >= 13:
        y = d.op("Resize", x, "", d.constant([1, 1, factor, side], "float32"))
    else:
        y = d.op("Upsample", x, scales=[1.0, 1.0, max(1.0, factor), max(1.0, side)])
    if d.chance(0.3) and d.values[y].shape == d.values[x].shape:
        y = d.op(d.choice(["Add", "Mul"]), y, x)
    if d.chance(0.3) and d.values[y].shape[2:] == d.values[x].shape[2:]:
        y = d.op("Concat", y, x, axis=1)
    axis = d.choice([0, 0, 2, 3])
    of_places(d, x, y, axis)


def of_places(d: Draft, x: str, y: str, axis: int) -> None:
    """A gather of the places on an axis of an image, in the image or in another one."""
    way = d.randrange(4)
    # ONNX Runtime may end the process where there is no element to reduce.
    is_full = all(d.least_size(y, k) for k in range(d.values[y].ndim))
    if way == 0 or not is_full:
        return gather(d, y, arange(d, size_of(d, x, axis)), axis)
    if way == 1:
        return gather(d, y, arange(d, size_of(d, y, axis)), axis)
    if way == 2:
        index = d.op("ArgMax", y, axis=axis, keepdims=0)
        rank = d.values[index].ndim
        return gather(d, y, d.op("Unsqueeze", index, [rank]), axis)
    flat = d.op("Flatten", y, axis=1)
    index = d.op("ArgMax", flat, axis=1, keepdims=d.randrange(2))
    return gather(d, flat, index, 1)


def pooled(d: Draft) -> None:
    """Places in an image after windows with a stride, whose counts are computed."""
    x = picture(d)
    width = d.randint(1, 4)
    stride = d.randint(1, 3)
    options: dict[str, Any] = {
        "kernel_shape": [width, width],
        "strides": [stride, stride],
    }
    if d.chance(0.4):
        options["pads"] = [d.randrange(width) for _ in range(4)]
    if d.chance(0.5):
        weights = d.constant(np.ones([2, 1, width, width], np.float32), "float32")
        y = d.op("Conv", x, weights, **options)
    else:
        operator = d.choice(["MaxPool", "AveragePool"])
        if d.chance(0.3):
            options["ceil_mode"] = 1
        y = d.op(operator, x, **options)
    axis = d.choice([2, 3])
    if d.chance(0.4):
        # The count, as a model computes it.
        pads = options.get("pads", [0, 0, 0, 0])
        room = pads[axis - 2] + pads[axis] - width + d.choice([0, 0, 0, 1])
        steps = d.op("Add", size_of(d, x, axis), room)
        count = d.op("Add", d.op("Div", steps, stride), 1)
        return gather(d, y, arange(d, count), axis)
    is_full = all(d.least_size(y, k) for k in range(4))
    if d.chance(0.3) and is_full:
        y = d.op("ReduceMax", y, axes=[5 - axis], keepdims=0) if d.opset < 18 else y
        return gather(d, y, d.constant(d.choice([0, -1, 1])), 2)
    return of_places(d, x, y, axis)


def blocks(d: Draft) -> None:
    """An axis that is filled up to whole blocks, and cut into them."""
    x = hidden(d, *two_names(d), 3)
    width = d.randint(2, 4)
    n = size_of(d, x, 1, rank=1)
    rest = d.op("Mod", n, [width])
    missing = d.op("Sub", [width], rest)
    if d.chance(0.8):
        missing = d.op("Mod", missing, [width])
    front = np.array([0, 0, 0, 0])
    pads = d.op("Concat", front, missing, [0], axis=0)
    y = d.op("Pad", x, pads)
    count = d.op("Div", size_of(d, y, 1, rank=1), [width])
    if d.chance(0.2):
        count = d.op("Div", n, [width])
    batch = d.choice([size_of(d, x, 0, rank=1), np.array([-1]), np.array([0])])
    shape = d.op("Concat", batch, count, [width, 3], axis=0)
    z = d.op("Reshape", y, shape)
    whole = size_of(d, z, 1)
    if d.chance(0.4):
        return gather(d, z, arange(d, whole), 1)
    if d.chance(0.5):
        blocks_of = d.op("Div", arange(d, size_of(d, y, 1)), width)
        return gather(d, z, blocks_of, 1)
    return gather(d, z, d.constant(d.choice([0, -1, 1])), d.choice([1, 2]))


def of_boxes(d: Draft) -> None:
    """The boxes that NonMaxSuppression chooses."""
    name = open_name(d)
    boxes = d.input("float32", [1, name, 4])
    scores = d.input("float32", [1, d.randint(1, 2), name])
    found = d.op("NonMaxSuppression", boxes, scores, [d.randint(0, 5)])
    column = d.choice([2, 2, 2, 0, 1])
    way = d.randrange(3)
    if way == 0:
        where = d.op("Gather", found, column, axis=1)
    elif way == 1:
        part = d.op("Slice", found, [column], [column + 1], [1])
        where = d.op("Squeeze", part, [1])
    else:
        pair = d.op("Gather", found, [0, column], axis=1)
        return gather_nd(d, boxes, pair)
    return gather(d, boxes, where, 1)


def same_or_squeezed(d: Draft) -> None:
    """If, on a size: what an exporter writes for squeeze of an axis that may be 1."""
    x = ids(d, 2)
    n = size_of(d, x, 1)
    condition = d.op("Equal", n, 1) if d.opset >= 7 else d.constant(True, "bool")
    branches = dict[str, Any]()
    kept = d.choice(["Neg", "Abs", "Identity"])
    for branch, operator in (("then_branch", "Identity"), ("else_branch", kept)):
        out = next(d.names)
        nodes = [
            helper.make_node(operator, [x], [out], name=f"{d.label}.{operator}.{out}")
        ]
        if d.chance(0.5):
            limit = d.constant(d.randint(1, 5))
            inner = next(d.names)
            nodes.append(helper.make_node("Mod", [out, limit], [inner]))
            out = inner
        info = helper.make_tensor_value_info(out, INT64, None)
        branches[branch] = helper.make_graph(nodes, branch, [], [info])
    index = d.op("If", condition, **branches)
    if d.chance(0.6):
        index = d.op("Mod", index, d.randint(1, 5))
    gather(d, near_table(d, index), index)


def gather_in_if(d: Draft) -> None:
    """A gather in a branch, of values around it."""
    x = ids(d, 1)
    n = size_of(d, x, 0)
    last = d.op("Sub", n, d.constant(d.choice([1, 1, 0])))
    first = d.constant(d.choice([0, 0, 1]))
    branches = dict[str, Any]()
    for branch, index in (("then_branch", last), ("else_branch", first)):
        out = next(d.names)
        node = d.node("Gather", [x, index], axis=0)
        out = node.output[0]
        info = helper.make_tensor_value_info(out, INT64, None)
        branches[branch] = helper.make_graph([node], branch, [], [info])
    condition = d.op("Greater", n, d.constant(d.choice([0, 1, 2])))
    d.end(d.node("If", [condition], **branches))


def gather_in_loop(d: Draft) -> None:
    """A Loop over an axis: the number of the iteration is the index; a state moves,
    too."""
    x = ids(d, 1)
    n = size_of(d, x, 0)
    names = [next(d.names) for _ in range(7)]
    counter, keep, state, kept, index, after, seen = names
    infos = [
        helper.make_tensor_value_info(counter, INT64, []),
        helper.make_tensor_value_info(keep, BOOL, []),
        helper.make_tensor_value_info(state, INT64, []),
    ]
    change = d.choice(["Add", "Max", "Min", "Mod"])
    number = d.constant(d.choice([1, 1, 2]))
    way = d.randrange(3)
    nodes = [
        helper.make_node("Identity", [keep], [kept]),
        helper.make_node(change, [state, number], [after]),
        helper.make_node("Identity", [(counter, state, after)[way]], [index]),
    ]
    picked = d.node("Gather", [x, index], axis=0)
    nodes += [picked, helper.make_node("Identity", [index], [seen])]
    outputs = [
        helper.make_tensor_value_info(kept, BOOL, []),
        helper.make_tensor_value_info(after, INT64, []),
        helper.make_tensor_value_info(picked.output[0], INT64, None),
        helper.make_tensor_value_info(seen, INT64, None),
    ]
    body = helper.make_graph(nodes, "body", infos, outputs)
    trips = n if d.chance(0.7) else d.constant(d.randint(0, 3))
    if d.chance(0.3):
        trips = d.op("Sub", trips, d.constant(1))
    start = d.constant(d.choice([0, 0, 1]))
    node = d.node("Loop", [trips, "", start], 3, body=body)
    d.end(node)
    if d.chance(0.7):
        gather(
            d,
            table(d, some_rows(d, 8)) if d.chance(0.5) else x,
            node.output[d.choice([0, 2])],
        )


def gather_in_scan(d: Draft) -> None:
    """A Scan over the rows of a value, with a gather in its body and its states behind
    it."""
    x = ids(d, 2)
    rank_one = d.op("ReduceMax", x, axes=[0], keepdims=0)
    state, row, after, index = (next(d.names) for _ in range(4))
    limit = d.constant(d.randint(1, 4))
    stored = table(d, some_rows(d, 4), "int64")
    infos = [helper.make_tensor_value_info(n, INT64, None) for n in (state, row)]
    if d.opset < 9:  # a batch, with states and rows of one element
        rank_one = d.op("Unsqueeze", d.op("ReduceMax", rank_one, axes=[0]), [1])
        x = d.op("Unsqueeze", d.op("Unsqueeze", x, [0]), [3])
    nodes = [
        helper.make_node(d.choice(["Add", "Max", "Min"]), [state, row], [after]),
        helper.make_node("Mod", [d.choice([state, row, after]), limit], [index]),
    ]
    picked = d.node("Gather", [stored, index], axis=0)
    nodes.append(picked)
    outputs = [
        helper.make_tensor_value_info(n, INT64, None)
        for n in (after, index, picked.output[0])
    ]
    body = helper.make_graph(nodes, "body", infos, outputs)
    attributes: dict[str, Any] = {"num_scan_inputs": 1}
    if d.opset < 9:
        attributes["directions"] = [d.randrange(2)]
        node = d.node("Scan", ["", rank_one, x], 3, body=body, **attributes)
    else:
        if d.chance(0.3):
            attributes["scan_input_directions"] = [1]
            attributes["scan_output_directions"] = [d.randrange(2), 1]
        # of other axes than the first none is empty: that ends the process
        if d.chance(0.4):
            x = d.input("int64", [d.randint(1, 4) for _ in range(2)])
            rank_one = d.op("ReduceMax", x, axes=[1], keepdims=0)
            attributes["scan_input_axes"] = [1]
            attributes["scan_output_axes"] = [d.randrange(2), 0]
        node = d.node("Scan", [rank_one, x], 3, body=body, **attributes)
    d.end(node)
    gather(d, table(d, some_rows(d, 4)), node.output[1])


def through_shape(d: Draft) -> None:
    """A position counted from the size of any value, along this value."""
    y = d.choice([n for n, a in d.values.items() if a.ndim] or [ids(d)])
    axis = d.randrange(d.values[y].ndim)
    n = size_of(d, y, axis)
    way = d.randrange(3)
    if way == 0:
        where = d.op("Sub", n, d.constant(d.choice([1, 1, 1, 0])))
    elif way == 1:
        where = arange(d, n)
    else:
        where = d.op("Neg", n)
    gather(d, y, where, axis)


def shapes_multiplied(d: Draft) -> None:
    """Size, ReduceProd of a shape, and a Reshape to one axis."""
    x = ids(d, 2)
    way = d.randrange(3)
    if way == 0:
        count = d.op("Size", x)
    elif way == 1:
        count = d.op("ReduceProd", d.op("Shape", x), axes=[0], keepdims=0)
    else:
        count = d.op("Mul", size_of(d, x, 0), size_of(d, x, 1))
    flat = d.op("Reshape", x, [-1]) if d.chance(0.7) else d.op("Flatten", x, axis=0)
    axis = d.values[flat].ndim - 1
    gather(d, flat, arange(d, count), axis)


def joined(d: Draft) -> None:
    """Two values side by side, and positions in both."""
    first, other = ids(d, 1), d.input("int64", [open_name(d)])
    both = d.op("Concat", first, other, axis=0)
    n, m = size_of(d, first, 0), size_of(d, other, 0)
    way = d.randrange(3)
    if way == 0:
        where = d.op("Add", arange(d, m), n)
    elif way == 1:
        where = arange(d, d.op("Add", n, m))
    else:
        where = d.op("Concat", arange(d, n), arange(d, m), axis=0)
        both = first if d.chance(0.3) else both
    gather(d, both, where)


def scattered(d: Draft) -> None:
    """Indices that were written over: ScatterND or ScatterElements of positions."""
    x = ids(d, 1)
    n = size_of(d, x, 0)
    where = arange(d, n)
    new = d.constant([d.choice([0, 0, -1, 1])])
    if d.chance(0.5):
        where = d.op("ScatterND", where, [[0]], new)
    else:
        where = d.op("ScatterElements", where, [0], new, axis=0)
    gather(d, x, where)


def given_positions(d: Draft) -> None:
    """Indices that are an input, of the size of the data or of a table."""
    x = ids(d, 2)
    index = ids(d, d.randint(1, 2), d.choice(["int64", "int32"]))
    if d.chance(0.3):
        dtype = str(d.values[index].dtype)
        index = d.op("Add", index, d.constant(d.choice([1, 2, -1]), dtype))
    if d.chance(0.5):
        return gather(d, x, index, d.randrange(2))
    return gather(d, table(d, d.choice([2, 8, 64])), index)


def beside_the_axis(d: Draft) -> None:
    """Indices in range, whose other sizes are their own, and may not be those of the
    data."""

    def size() -> int | str:
        return open_name(d) if d.chance(0.7) else d.randint(1, 4)

    def in_range(*sizes: int | str) -> str:
        return d.op("Clip", d.input("int64", sizes), d.choice([0, -2]), 1)

    rows, width, count = size(), d.randint(2, 5), d.randint(1, 3)
    way = d.randrange(6)
    if way == 0:
        data = hidden(d, rows, width)
        return gather_elements(d, data, in_range(size(), count), d.choice([1, -1]))
    if way == 1:
        data = hidden(d, width, rows, size())
        return gather_elements(d, data, in_range(count, size(), d.choice([1, rows])))
    if way == 2:
        data = hidden(d, rows, width)
        other = rows if d.chance(0.3) else size()
        return gather_nd(d, data, in_range(other, count, 1), 1)
    if way == 3:
        # The anchors of a detector: a constant, and places that a batch of scores has.
        scores = hidden(d, size(), 4)
        _, best_places = d.ops("TopK", 2, scores, [count], axis=1)
        anchors = d.constant(np.zeros([d.randint(1, 2), 4]), "float32")
        return gather_elements(d, anchors, best_places, 1)
    if way == 4:
        other = size()
        names = [hidden(d, rows, width), in_range(other, count)]
        names.append(hidden(d, other if d.chance(0.7) else size(), count))
        return d.end(d.node("ScatterElements", names, axis=1))
    names = [hidden(d, width, rows), in_range(count, 1)]
    names.append(hidden(d, count, rows if d.chance(0.7) else size()))
    return d.end(d.node("ScatterND", names))


def columns(d: Draft) -> None:
    """Each column of an input in a table of its own."""
    name = open_name(d)
    count = d.randint(2, 4)
    x = d.input("int64", [open_name(d), name, count])
    for column in d.random.sample(range(count), 2):
        one = d.op("Gather", x, column, axis=2)
        if d.chance(0.3):
            other = d.op("Gather", x, (column + 1) % count, axis=2)
            one = d.op("Sub", other, one)
        gather(d, table(d, d.choice([2, 8, 64])), one)


def in_function(d: Draft) -> None:
    """A gather in a function of the model."""
    x = ids(d, 1)
    index = d.input("int64", [open_name(d)], "near")
    node = d.node(
        "Picked", [x, index, d.constant([0]), d.constant([1])], domain="local"
    )
    d.end(node)


Chain = Callable[[Draft], None]
CHAINS: dict[str, Chain] = {
    chain.__name__: chain
    for chain in (
        positions,
        past_and_current,
        flat_mask,
        mask_of_pairs,
        selected,
        counted_mask,
        float_counts,
        last_token,
        wrapped,
        limited,
        wide_clamp,
        buckets,
        guarded,
        relative_buckets,
        windows,
        halves,
        repeated,
        turned,
        buffered,
        cut,
        best,
        best_one,
        reshaped,
        element_of_each,
        padded,
        stretched,
        pooled,
        blocks,
        of_boxes,
        same_or_squeezed,
        gather_in_if,
        gather_in_loop,
        gather_in_scan,
        through_shape,
        shapes_multiplied,
        joined,
        scattered,
        given_positions,
        beside_the_axis,
        columns,
        in_function,
    )
}
"""The chains by name."""


def add_chain(d: Draft, name: str, chain: Chain) -> bool:
    """Add a chain; whether ONNX Runtime takes each of its nodes."""
    d.label = name
    try:
        chain(d)
    except (RefusedError, IndexError):  # where the worlds have different ranks
        return False
    finally:
        d.label = "random"
    return True
