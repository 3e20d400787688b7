"""The bounds that the table of operators gives, number by number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from written_operations import Notation, operation_rows, type_of

from onnxgather.auditing.algebra.bounds import (
    Bounds,
    Reason,
    bounds_of_array,
    interval,
    unknown,
)
from onnxgather.auditing.algebra.sizes import Size, Symbol
from onnxgather.auditing.operators import output_bounds_table as operator_bounds_table
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.auditing.operators.output_bounds import (
    ELEMENTWISE,
    QUIET,
    TRANSFERS,
    bounds_by_table,
)
from onnxgather.auditing.operators.output_bounds_order import (
    limited_below,
    met,
    where_compared,
)
from onnxgather.core.model.network import Operation

N = Size({(Symbol("n", 1, 100),): 1})
NUMBERS = {
    "n": N,
    "m": Size({(Symbol("m", 2, 50),): 1}),
    "count": Size({(Symbol("", 0, 100),): 1}),
    "inf": math.inf,
    "np": np,
}
"""What the rows below name in sizes, bounds and attributes."""


def of_columns(count: int) -> Bounds:
    rows = np.arange(2 * count).reshape(2, count, 1)
    return interval("INT64", (N, count), rows, rows)


VALUES: dict[str, Bounds | None] = {
    "none": None,
    "CONSTANT": bounds_of_array("INT64", np.array(2)),
    "EMPTY": bounds_of_array("INT64", np.zeros(0)),
    "STOPPED": unknown("INT64", (1,), "x"),
    "COLUMNS_16": of_columns(16),
    "COLUMNS_17": of_columns(17),
}
"""The values that have a name in the rows below."""

NOTATION = Notation(NUMBERS, VALUES)


def v(text: str) -> Bounds:
    found = NOTATION.value(text)
    assert found
    return found


def computed(row: str) -> tuple[Sequence[Bounds] | None, str]:
    """Return what the table tells of the outputs of an operation, and what the row says
    behind `=>`.

    An output is written as an input. Its data type and its sizes are what the table of
    types tells of it, and those of the first input if the row has none.
    """
    written = NOTATION.operation(row)
    first = written.inputs[0]
    assert first
    types, expected = list[OpenType](), list[str]()
    for output in written.outputs.split(" and "):
        data_type, sizes, elements = type_of(output)
        own_sizes = NOTATION.sizes(sizes) if sizes else first.sizes
        types.append(OpenType(data_type or first.data_type, own_sizes))
        expected.append(elements)
    operator, options = written.operator, written.attributes
    names = tuple(map(str, range(len(written.inputs))))
    operation = Operation("", operator, "", names, ("y",), options, {})
    with np.errstate(all="ignore"):
        found = TRANSFERS[operator](Call(operation, written.inputs, 17, types))
    bounds = [found] if isinstance(found, Bounds) else found
    return bounds, " and ".join(expected)


def listed(ends: Any) -> str:
    """Return the bounds of each element as the rows have them."""
    if isinstance(ends[0], list):
        return f"[{', '.join(map(listed, ends))}]"
    low, high = ends
    return str(low) if low == high else f"{low}..{high}"


def shown(found: Sequence[Bounds] | None) -> str:
    """Return the bounds of each output, of many elements their shape, and whether it
    may be NaN."""
    if found is None:
        return "nothing"
    texts = list[str]()
    for one in found:
        text = listed(one.bounds.tolist())
        if one.bounds.size > 24:
            shape = ", ".join(map(str, one.bounds.shape[:-1]))
            text = f"{listed(list(one.whole))} of shape {shape}"
        texts.append(f"{text}{' nan' * one.nan}")
    return " and ".join(texts)


ROWS = """
# Arithmetic.
Add [1..5]; [10..20] => [11..25]
Sub [1..5]; [10..20] => [-19..-5]
Add [n]; [1..2] => [n + 1..n + 2]
Sub [n]; [0..n] => [0..n]
Sub [1..5, 2..3]; [0..1] => [0..5, 1..3]
Add FLOAT [1..inf]; FLOAT [-inf..1] => [-inf..inf] nan
Add FLOAT [1..inf]; FLOAT [1..2] => [2.0..inf]
Add FLOAT [1..3]; FLOAT [1..2] => [2.0..5.0]
Add FLOAT [1..3] nan; FLOAT [1..2] => [2.0..5.0] nan
Add FLOAT [1..3]; FLOAT [1..2] nan => [2.0..5.0] nan
Add STRING(1,); STRING(1,) => nothing
Add FLOAT16 [2]; FLOAT16 [4] => [5.98828125..6.01171875]
Sub FLOAT16 [-6]; FLOAT16 [4] => [-10.015625..-9.984375]
Add FLOAT16 [60000]; FLOAT16 [60000] => [65504.0..inf]
Add FLOAT16 [-60000]; FLOAT16 [-60000] => [-inf..-65504.0]
Add FLOAT16 [0]; FLOAT16 [0] => [-5.960464477539063e-08..5.960464477539063e-08]
Mul [-2..3]; [-5..7] => [-15..21]
Mul [n]; [2..3] => [2*n..3*n]
Mul FLOAT [0..1]; FLOAT [1..inf] => [-inf..inf] nan
Mul FLOAT [-1..1]; FLOAT [1..inf] => [-inf..inf] nan
Mul FLOAT [1..inf]; FLOAT [-1..1] => [-inf..inf] nan
Mul FLOAT [1..2]; FLOAT [1..inf] => [1.0..inf]
Mul FLOAT [1..inf]; FLOAT [1..2] => [1.0..inf]
Mul FLOAT [-1..1]; FLOAT [1..2] => [-2.0..2.0]
Mul FLOAT16 [2]; FLOAT16 [4] => [7.984375..8.015625]
Div [-7..7]; [2..3] => [-3..3]
Div [-9..-7]; [-3..-2] => [2..4]
Div [2..7]; [-3..-2] => [-3..0]
Div [0..1]; [2..3] => [0]
Div [1]; [-3..-2] => [0]
Div [0..1, 0..1]; [2..3] => [0, 0]
Div [2]; [3] => [0]
Div [-1..0]; [3] => [0]
Div [1..2]; [3] => [0]
Div [5..9]; [0..2] => nothing
Div [5..9]; [-2..0] => nothing
Div [5..9, 5..9]; [-1..2, 1..2] => nothing
Div [0..n]; [1..2] => [0..n]
Div [6]; [1..n] => [?..6]
Div [4*n..6*n]; [2] => [2*n..3*n]
Div [n - 2..n]; [2] => [0..50]
Div [n..2*n]; [0..2] => nothing
Div [n..2*n]; [-2..-1] => [-200..0]
Div FLOAT [6]; FLOAT [3] => [2.0]
Div FLOAT [4..8]; FLOAT [2] => [2.0..4.0]
Div FLOAT [1]; FLOAT [3] => [0.3333333432674408]
Div FLOAT [3]; FLOAT [8] => [0.375]
Div FLOAT [3..5]; FLOAT [3] => [1.0..1.6666666269302368]
Div FLOAT [5]; FLOAT [-3] => [-1.6666666269302368]
Div FLOAT [0..1]; FLOAT [1..inf] => [0.0..1.0]
Div FLOAT [1..inf]; FLOAT [1..inf] => [-inf..inf] nan
Div FLOAT16 [4]; FLOAT16 [2] => [1.99609375..2.00390625]
Mod [0..3]; [5..9] => [0..3]
Mod [2..3]; [5..9] => [2..3]
Mod [2..5]; [5..9] => [0..5]
Mod [2..7]; [5..9] => [0..7]
Mod [0..20]; [5..9] => [0..8]
Mod [7]; [5] => [2]
Mod [-7]; [5] => [3]
Mod [7]; [5..6] => [0..5]
Mod [-7..7]; [5] => [0..4]
Mod [-7..7]; [-5] => [-4..0]
Mod [-7..7, -7..7]; [-5, 4] => [-4..0, 0..3]
Mod [-1..7, 1..3]; [5, 5] => [0..4, 1..3]
Mod [-1..7, 1..5]; [5, 5] => [0..4, 0..4]
Mod {fmod=1} [-7..7]; [5] => [-4..4]
Mod {fmod=1} [1..7]; [5] => [0..4]
Mod {fmod=1} [7]; [5] => [0..4]
Mod {fmod=1} [-7..-6]; [5] => [-4..0]
Mod {fmod=1} [0..2**53]; [5] => [0..4]
Mod {fmod=1} [0..2**53 + 1]; [5] => nothing
Mod {fmod=1} [0..7]; [2**53 + 1] => nothing
Mod [0..2**53 + 1]; [5] => [0..4]
Mod {fmod=1} FLOAT [1..2.5]; FLOAT [4] => [1.0..2.5]
Mod {fmod=1} FLOAT [-1..2.5]; FLOAT [4] => [-4.0..4.0]
Mod {fmod=1} FLOAT [1..4]; FLOAT [4] => [0.0..4.0]
Mod FLOAT [1..2.5]; FLOAT [4] => nothing
Mod {fmod=1} FLOAT [1..2.5] nan; FLOAT [4] => nothing
Mod {fmod=1} FLOAT [1..2.5]; FLOAT [4] nan => nothing
Mod {fmod=1} FLOAT [1..inf]; FLOAT [4] => nothing
Mod {fmod=1} FLOAT [1..2.5]; FLOAT [3..inf] => [1.0..2.5]
Mod {fmod=1} FLOAT [1..2.5]; FLOAT [0..4] => nothing
Mod [1..2]; [0..4] => nothing
Mod [0..n - 1]; [n] => [0..n - 1]
Mod [1..n]; [n + 1] => [1..n]
Mod [n - 1..2*n]; [n] => [0..n - 1]
Mod [3]; [n] => [0..-? + 3]
Mod [n]; [n] => [0..n - 1]
Mod [n]; [3] => [n - 3*?]
Mod [n - 2..n]; [3] => [0..2]
Floor FLOAT [-1.5..2.5] => [-2.0..2.0]
Ceil FLOAT [-1.5..2.5] => [-1.0..3.0]
Round FLOAT [-1.5..2.75] => [-2.0..3.0]
Sign FLOAT [-3..5] => [-1.0..1.0]
Sign FLOAT [2..5] => [1.0]
Sign FLOAT [2..5] nan => [-1.0..1.0] nan
Sign [2..5] => [1]
Sign [2..2**40] => [-1..1]
Sqrt FLOAT [4..9] => [2.0..3.0]
Sqrt FLOAT [-4..9] => [-inf..inf] nan
Sqrt FLOAT16 [4] => [1.96875..2.03125]
Log FLOAT [1] => [-1.401298464324817e-45..1.401298464324817e-45]
Log FLOAT [0] => [-inf..-3.4028234663852886e+38]
Log FLOAT [2..4] => [0.6931458711624146..1.3862969875335693]
Relu FLOAT [-3..5] => [0.0..5.0]
Relu [n - 2..n] => [0..100]
Not BOOL [0..1] => [0..1]
Not BOOL [0] => [1]
Not BOOL [1] => [0]
Neg [1..n] => [-n..-1]
Abs [1..n] => [1..n]
Abs [0..n] => [0..n]
Abs [-3..2] => [0..3]
Abs [-5..-2] => [2..5]
Abs [-5..0] => [0..5]
Abs [-5..-2, 1..3] => [2..5, 1..3]
Abs FLOAT [-3..2] => [0.0..3.0]
Abs FLOAT [1..2] => [1.0..2.0]
Abs FLOAT [0..2] => [0.0..2.0]
Abs [n - 3..n] => [0..100]
# Choices, comparisons and casts.
Max [1..5]; [3..4] => [3..5]
Min [1..5]; [3..4] => [1..4]
Max [1..5]; [3..4]; [2..9] => [3..9]
And BOOL [0..1]; BOOL [1] => [0..1]
And BOOL [0..1]; BOOL [0] => [0]
Or BOOL [0..1]; BOOL [1] => [1]
Or BOOL [0..1]; BOOL [0] => [0..1]
Max FLOAT [1..5] nan; FLOAT [3..9] => [1.0..9.0] nan
Min FLOAT [1..5]; FLOAT [3..4] nan => [1.0..5.0] nan
Max [0..2**40]; [5..6] => [0..1099511627776]
Max [1..2**40]; [2**33 + 9..2**40] => [8589934592..1099511627776]
Min [0..2**40 + 5]; [1..2**33 + 9] => [0..12884901887]
Max [1..5, 1..2**40]; [3..4, 2**33 + 9..2**40] => [3..5, 8589934592..1099511627776]
Min [1..5, 0..2**40]; [3..4, 0..2**33 + 9] => [1..4, 0..12884901887]
Max [n]; [1] => [n]
Min [n]; [0..100] => [0..n]
Max [0..2**48]; [n] => [0..281474976710656]
Max [n..2**48]; [5] => [-? + 5..281474976710656]
Clip [-5..50]; 0; 9 => [0..9]
Clip [2..5]; 0; 9 => [2..5]
Clip [-5..50]; 0 => [0..50]
Clip [-5..50]; none; 9 => [-5..9]
Clip [-5..50] => [-5..50]
Clip FLOAT [-5..50] => [-5.0..50.0]
Clip FLOAT [-inf..inf] => [-inf..inf]
Clip FLOAT [inf] => [3.4028234663852886e+38..inf]
Clip FLOAT [-inf] => [-inf..-3.4028234663852886e+38]
Clip {min=0.0, max=6.0} FLOAT [-5..50] => [0.0..6.0]
Clip {max=6.0} FLOAT [-5..50] => [-5.0..6.0]
Clip FLOAT [-5..50] nan; FLOAT [0]; FLOAT [9] => [0.0..9.0] nan
Clip FLOAT [-5..50]; FLOAT [0] nan; FLOAT [9] => nothing
Clip FLOAT [-5..50]; FLOAT [0]; FLOAT [9] nan => nothing
Clip INT64(1,); [2..4]; [3..9] => [2..9]
Clip INT64(1,); [0..4]; [-1..9] => [-1..9]
Clip INT64(1,); [-2..4]; [3..9] => [-4294967296..4294967295]
Clip INT64(1,); 2; 2**40 => [0..1103806595071]
Clip [n..2*n]; 0; 300 => [n..2*n]
Less [1..2]; [3..4] => BOOL [1]
Less [1..3]; [3..4] => BOOL [0..1]
Less [3..4]; [1..3] => BOOL [0]
Less [2..4]; [1..3] => BOOL [0..1]
LessOrEqual [1..3]; [3..4] => BOOL [1]
LessOrEqual [3..5]; [1..3] => BOOL [0..1]
LessOrEqual [4..5]; [1..3] => BOOL [0]
Greater [3..4]; [1..2] => BOOL [1]
Greater [3..4]; [1..3] => BOOL [0..1]
Greater [1..3]; [3..4] => BOOL [0]
GreaterOrEqual [3..4]; [1..3] => BOOL [1]
GreaterOrEqual [1..3]; [3..5] => BOOL [0..1]
GreaterOrEqual [1..3]; [4..5] => BOOL [0]
Equal [3]; [3] => BOOL [1]
Equal [1..2]; [3..4] => BOOL [0]
Equal [3..4]; [1..2] => BOOL [0]
Equal [1..3]; [3..4] => BOOL [0..1]
Equal [3..4]; [1..3] => BOOL [0..1]
Equal [3..4]; [3] => BOOL [0..1]
Equal [3]; [3..4] => BOOL [0..1]
Equal [3..4]; [3..4] => BOOL [0..1]
Equal [2**40]; [2**40] => BOOL [1]
Equal FLOAT [3] nan; FLOAT [3] => BOOL [0..1]
Equal FLOAT [3]; FLOAT [3] nan => BOOL [0..1]
Less FLOAT [3] nan; FLOAT [4] => BOOL [0..1]
Less FLOAT [3]; FLOAT [4] => BOOL [1]
Less [0..1]; [2..2**40] => BOOL [0..1]
Less [0..n - 1, n]; [n] => BOOL [1, 0]
Equal [n]; [n] => BOOL [1]
Where BOOL [1]; [1..2]; [5..6] => INT64 [1..2]
Where BOOL [0]; [1..2]; [5..6] => INT64 [5..6]
Where BOOL [0..1]; [5..9]; [1..6] => INT64 [1..9]
Where BOOL [0..1]; [1..6]; [5..9] => INT64 [1..9]
Where BOOL [1, 0]; [1..2]; [5..6] => INT64 [1..2, 5..6]
Where BOOL [1]; FLOAT [1..2] nan; FLOAT [5..6] => FLOAT [1.0..2.0] nan
Where BOOL [1]; FLOAT [1..2]; FLOAT [5..6] nan => FLOAT [1.0..2.0]
Where BOOL [0]; FLOAT [1..2] nan; FLOAT [5..6] => FLOAT [5.0..6.0]
Where BOOL [0]; FLOAT [1..2]; FLOAT [5..6] nan => FLOAT [5.0..6.0] nan
Where BOOL [1, 0]; FLOAT [1..2]; FLOAT [5..6] nan => FLOAT [1.0..2.0, 5.0..6.0] nan
Where BOOL [1, 0]; FLOAT [1..2] nan; FLOAT [5..6] => FLOAT [1.0..2.0, 5.0..6.0] nan
Cast FLOAT [1.5..2.5] => INT64 [1..2]
Cast FLOAT [-1.5..2.5] => INT64 [-1..2]
Cast FLOAT [-0.5..0.5] => INT64 [0..1]
Cast FLOAT [0..0.5] => INT64 [0..1]
Cast FLOAT [-0.5..0] => INT64 [0..1]
Cast FLOAT [0] => INT64 [0]
Cast FLOAT [1e20] => INT64 [-9223372036854775808..9223372036854775807] nan
Cast FLOAT [1..2, 1..1e20] => \
INT64 [1..2, -9223372036854775808..9223372036854775807] nan
Cast FLOAT [1..2] nan => INT64 [-9223372036854775808..9223372036854775807] nan
Cast FLOAT [-128.5..127.5] => INT8 [-128..127]
Cast FLOAT [-129..127.5] => INT8 [-128..127] nan
Cast FLOAT [-128.5..128] => INT8 [-128..127] nan
Cast FLOAT [0.5..2] => BOOL [1]
Cast FLOAT [0..2] => BOOL [0..1]
Cast FLOAT [-2..0] => BOOL [0..1]
Cast FLOAT [-2..-1] => BOOL [1]
Cast FLOAT [0] => BOOL [0]
Cast FLOAT [0] nan => BOOL [0..1]
Cast FLOAT [1..2] nan => BOOL [0..1]
Cast [n] => BOOL [1]
Cast [count] => BOOL [0..1]
Cast [1..n] => INT32 [1..n]
Cast [0..255] => UINT8 [0..255]
Cast [1..256] => UINT8 [0..255] nan
Cast [-1..3] => UINT8 [0..255] nan
Cast [1..3, 1..300] => UINT8 [0..255] nan
Cast [1..3] nan => INT8 [-128..127] nan
Cast [1..3] nan => FLOAT [-9.223372036854776e+18..1.8446744073709552e+19]
Cast [1..3] => FLOAT [1.0..3.0]
Cast [n] => FLOAT [1.0..100.0]
Cast [16777217] => FLOAT [16777216.0..16777218.0]
Cast FLOAT [1..2.5] => DOUBLE [1.0..2.5]
Cast FLOAT [1..2.5] nan => DOUBLE [1.0..2.5] nan
Cast STRING(1,) => INT64 nothing
Cast [1..2] => STRING [-inf..inf] nan
CastLike [1..2]; FLOAT [0] => FLOAT [1.0..2.0]
# Positions and sizes.
ArgMax INT64(5, 7) => (1, 7) [[0..4]]
ArgMin {axis=-1} INT64(5, 7) => (5, 1) [[0..6]]
ArgMax {axis=1} INT64(5, n) => (5, 1) [[0..n - 1]]
ArgMax INT64(0, 7) => (1, 7) [[0]]
ArgMax INT64(1, 7) => [[0]]
ArgMax INT64(None, 7) => (1, 7) [[0..281474976710656]]
ArgMax INT64(...) => 0..281474976710656
TopK [1..5, 2..9, 0..3]; [2] => INT64(2,) [0..9] and INT64(2,) [0..2]
TopK {axis=0} INT8(5, 3); [2] => INT8(2, 3) [[-128..127]] and INT64(2, 3) [[0..4]]
NonZero [0, 3, 0, 5] => (1, None) [[1, 3]]
NonZero [0, 3, 1..2] => (1, None) [[0..2]]
NonZero [1..2, -4..-3] => (1, 2) [[0, 1]]
NonZero [1..2, -4..0] => (1, None) [[0..1]]
NonZero [count, 5] => (1, None) [[0..1]]
NonZero [n, 5] => (1, 2) [[0, 1]]
NonZero 7 => (0, 1) [[0]]
NonZero 0 => (0, 0) [[0]]
NonZero 0..1 => (1, None) [[0]]
NonZero [[0, 1], [1, 0]] => [[0, 1], [1, 0]]
NonZero INT64(4, n, None) => (3, None) [[0..3], [0..n - 1], [0..281474976710656]]
NonZero INT64(...) => 0..281474976710656
NonMaxSuppression FLOAT(2, n, 4); FLOAT(2, 3, n) => \
INT64(None, 3) [[0..1, 0..2, 0..n - 1]]
NonMaxSuppression FLOAT(...); FLOAT(2, 3, 9) => \
INT64(None, 3) [[0..1, 0..2, 0..281474976710656]]
Shape INT64(5, n, None) => (3,) [5, n, 0..9223372036854775807]
Shape {start=1} INT64(5, n, 7) => (2,) [n, 7]
Shape {end=-1} INT64(5, n, 7) => (2,) [5, n]
Shape INT64(...) => (None,) [0..9223372036854775807]
Size INT64(5, n) => () 5*n
Size INT64(...) => () 0..9223372036854775807
Range 0; 5; 2 => (3,) [0, 2, 4]
Range 5; 0; -2 => (3,) [5, 3, 1]
Range 0; n; 2 => (n,) [0..n - 1]
Range 3..4; 8..9; 1 => (None,) [3..8]
Range 8..9; 3..4; -1 => (None,) [4..9]
Range 0; 5; 0..1 => (None,) nothing
Range 0; 5; -1..0 => (None,) nothing
Range FLOAT 0; FLOAT 5; FLOAT 1 => (5,) nothing
Range FLOAT 0; FLOAT 0; FLOAT 1 => nothing
Range 0; 2**52; 1 => (2**52,) [0..4503599627370495]
Range 0; 2**52 + 1; 1 => (2**52 + 1,) nothing
Range -(2**52) - 1; 0; 1 => (2**52 + 1,) nothing
Range INT8 0; INT8 63; INT8 60 => (2,) [0, 60]
Range INT8 0; INT8 64; INT8 60 => (2,) nothing
Range 0; 2**14 + 1; 1 => (2**14 + 1,) [0..16384]
# Sums.
ReduceSum [1..2, 3..5]; [0] => (1,) [4..7]
ReduceSum {keepdims=0} [1..2, 3..5] => () 4..7
ReduceSum {noop_with_empty_axes=1} [1..2, 3..5]; EMPTY => [1..2, 3..5]
ReduceMax {noop_with_empty_axes=1} INT64(n,) [1..5] => (n,) [1..5]
ReduceMax {noop_with_empty_axes=1} INT64(n, count) [[1..5]] => (n, count) nothing
ReduceMax {noop_with_empty_axes=1} INT64(None,) [1..5] => (None,) nothing
ReduceSum INT64(4,) [1..2]; [0] => (1,) [4..8]
ReduceSum [[1, 2, 3], [4, 5, 6]]; [0] => (1, 3) [[5, 7, 9]]
ReduceSum {keepdims=0} [[1, 2, 3], [4, 5, 6]]; [-1] => (2,) [6, 15]
ReduceSum {axes=(1, -1)} [[1, 2, 3], [4, 5, 6]] => (2, 1) [[6], [15]]
ReduceSum [[1, 2, 3], [4, 5, 6]] => (1, 1) [[21]]
ReduceSum [[1, 2, 3], [4, 5, 6]]; INT64(1,) => (...) nothing
ReduceSum INT64(...); [0] => nothing
ReduceSum INT64(n,) [1..2]; [0] => (1,) [n..2*n]
ReduceSum INT64(n, m) [[-3..2]]; [1] => (n, 1) [[-3*m..2*m]]
ReduceSum INT64(count,) [1..2]; [0] => (1,) [?..2*?]
ReduceSum INT64(None,) [1..2]; [0] => (1,) nothing
ReduceSum INT64(0,) [1..2]; [0] => (1,) nothing
ReduceSum FLOAT [1..2]; [0] => [1.0..2.0]
ReduceSum INT8(9,) [0..14]; [0] => (1,) [0..126]
ReduceSum INT8 [0..127]; [0] => nothing
ReduceSum INT64(2,) [0..2**52]; [0] => (1,) nothing
ReduceSum INT64(2,) [-(2**52) + 1..0]; [0] => (1,) [-9007199254740990..0]
ReduceMax [1..2, 3..5]; [0] => (1,) [1..5]
ReduceMin {axes=(0,), keepdims=0} [[1, 2, 3], [4, 5, 6]] => (3,) [1..4, 2..5, 3..6]
ReduceMax INT64(n,) [1..2]; [0] => (1,) [1..2]
ReduceMax INT64(count,) [1..2]; [0] => (1,) nothing
ReduceMax INT64(None,) [1..2]; [0] => (1,) nothing
CumSum INT64(3,) [1..2]; 0 => [1..2, 2..4, 3..6]
CumSum INT64(2,) [-2..1]; 0 => [-2..1, -4..2]
CumSum {exclusive=1} INT64(2,) [1..2]; 0 => [0, 1..2]
CumSum {reverse=1} INT64(2,) [1..2]; 0 => [2..4, 1..2]
CumSum {exclusive=1, reverse=1} INT64(2, 1) [[1..2]]; -2 => [[1..2], [0]]
CumSum INT64(2**12 + 1,) [1..2]; 0 => [1..8194]
CumSum INT64(n,) [-1..2]; 0 => [-n..2*n]
CumSum [0..1, 0..5]; 0 => [0..5, 0..10]
CumSum INT64(None,) [1..2]; 0 => nothing
CumSum FLOAT [1..2]; 0 => [1.0..2.0]
CumSum INT64(...); 0 => nothing
CumSum [[1, 2, 3], [4, 5, 6]]; INT64() => nothing
# Elements that are selected and moved.
Compress [1..5, 2..9]; BOOL [1] => (None,) [1..9]
OneHot [1, 7]; 3; [4, 6] => (2, 3) [[4..6]]
GatherElements [1..5, 2..9]; [0] => (1,) [1..9]
GatherND [1..5, 2..9]; [0] => () 1..9
Pad [3..5]; [1, 1] => (3,) [0..5]
Pad [3..5]; [1, 1]; -7 => (3,) [-7..5]
Pad {value=9.0} FLOAT [3..5] => (3,) [3.0..9.0]
Pad {mode='edge'} [3..5]; [9, 9] => (19,) [0..5]
Pad {mode='reflect'} INT64(4,) [3..5]; [3, 3] => (10,) [0..5]
Pad {mode='reflect'} INT64(4,) [3..5]; [4, 0] => (8,) nothing
Pad {mode='reflect'} INT64(4,) [3..5]; [0, 4] => (8,) nothing
Pad {mode='reflect'} INT64(4,) [3..5]; [2, -1] => (5,) nothing
Pad {mode='reflect'} INT64(4,) [3..5]; [-1, 2] => (5,) nothing
Pad {mode='reflect'} INT64(4,) [3..5]; [0..3, 0] => (None,) [0..5]
Pad {mode='reflect'} INT64(4,) [3..5]; [0..4, 0] => (None,) nothing
Pad {mode='reflect'} INT64(4,) [3..5]; [-1..3, 0] => (None,) nothing
Pad {mode='reflect'} INT64(4,) [3..5]; INT64(2,) => (None,) nothing
Pad {mode='reflect'} INT64(n,) [3..5]; [0, 0] => (n,) [0..5]
Pad {mode='reflect'} INT64(n,) [3..5]; [1, 0] => (n + 1,) nothing
Pad {mode='reflect'} INT64(n, 4) [[3..5]]; [0, 3, 0, 3] => (n, 10) [[0..5]]
Pad {mode='reflect'} INT64(n, 4) [[3..5]]; [3, 3]; none; [1] => (n, 10) [[0..5]]
Pad {mode='reflect'} INT64(n, 4) [[3..5]]; [3, 3]; none; [0] => (n + 6, 4) nothing
Pad {mode='reflect'} INT64(n, 4) [[3..5]]; [3, 3]; none; INT64(1,) => (...) nothing
Pad {mode='reflect'} INT64(None,) [3..5]; [1, 0] => (None,) nothing
Pad {mode='reflect'} INT64(...) 3..5; [1, 0] => (...) nothing
Pad {mode='wrap'} INT64(4,) [3..5]; [3, 40] => (47,) [0..5]
Pad {mode='wrap'} INT64(4,) [3..5]; [4, 0] => (8,) nothing
Pad {mode='wrap'} INT64(4,) [3..5]; [3, -2] => (5,) nothing
ScatterElements [3..5]; [0]; [-2..4] => [-2..5]
ScatterElements {reduction='add'} [3..5]; [0]; [-2..4] => nothing
ScatterND {reduction='none'} [3..5]; [0]; [4..7] => [3..7]
ScatterND FLOAT [3..5]; [0]; FLOAT [4..7] nan => [3.0..7.0] nan
Trilu [[1, 2, 3], [4, 5, 6]] => [[0..6]]
Reshape [[1, 2, 3], [4, 5, 6]]; none => (3, 2) [[1, 2], [3, 4], [5, 6]]
Flatten [[1, 2, 3], [4, 5, 6]] => (6,) [1, 2, 3, 4, 5, 6]
Squeeze [1..5, 2..9] => [1..5, 2..9]
Identity FLOAT [1..5] nan => [1.0..5.0] nan
Unsqueeze [[1, 2, 3], [4, 5, 6]] => (1, 2, 3) [[[1, 2, 3], [4, 5, 6]]]
Unsqueeze INT64(n, 2) [[1..5, 2..9]] => (1, n, 2) [[[1..5, 2..9]]]
Reshape INT64(n, 2) [[1..5, 2..9]] => (None, 2) [[1..5, 2..9]]
Reshape INT64(n, 2) [[1..5, 2..9]] => (2*n,) [1..9]
Reshape INT64(n, 2) [[1..5, 2..9]] => (...) 1..9
Reshape [[1, 2, 3], [4, 5, 6]] => (2, 2) [[1..6]]
Reshape COLUMNS_17 => (1, n, 17) [[[0..33]]]
Reshape COLUMNS_16 => (1, n, 16) 0..31 of shape 1, 1, 16
Transpose [[1, 2, 3], [4, 5, 6]] => (3, 2) [[1, 4], [2, 5], [3, 6]]
Transpose {perm=(1, 0, 2)} [[[1, 2]], [[3, 4]]] => (1, 2, 2) [[[1, 2], [3, 4]]]
Transpose INT8(...) => -128..127
Expand [1..5, 2..9]; none => (3, 2) [[1..5, 2..9]]
Expand [1..5, 2..9]; none => (...) 1..9
Tile [1..5, 2..9]; [2] => (4,) [1..5, 2..9, 1..5, 2..9]
Tile [1..5, 2..9]; INT64(1,) => (None,) [1..9]
Tile [1..5, 2..9]; [2**13] => (2**14,) 1..9 of shape 16384
Tile [1..5, 2..9]; [2**13 + 1] => (2**14 + 2,) [1..9]
Slice [0, 1, 2, 3, 4]; [1]; [3] => (2,) [1, 2]
Slice [0, 1, 2, 3, 4]; [-2]; [2**63 - 1] => (2,) [3, 4]
Slice [0, 1, 2, 3, 4]; [3]; [2**31 - 1] => (2,) [3, 4]
Slice [0, 1, 2, 3, 4]; [2**63 - 1]; [-9]; [0]; [-2] => (3,) [4, 2, 0]
Slice [0, 1, 2, 3, 4]; [-9]; [-10]; [0]; [-1] => (1,) [0]
Slice [[1, 2, 3], [4, 5, 6]]; [0]; [2]; [-1] => (2, 2) [[1, 2], [4, 5]]
Slice [[1, 2, 3], [4, 5, 6]]; [1]; [2] => (1, 3) [[4, 5, 6]]
Slice [[1, 2, 3], [4, 5, 6]]; [1, 1]; [2, 3] => (1, 2) [[5, 6]]
Slice {starts=(1,), ends=(2,), axes=(1,)} [[1, 2, 3], [4, 5, 6]] => (2, 1) [[2], [5]]
Slice [[1, 2, 3], [4, 5, 6]]; INT64(1,); [2] => (None, 3) [[1..4, 2..5, 3..6]]
Slice [[1, 2, 3], [4, 5, 6]]; [0]; [2]; INT64(1,) => (None, None) [[1..6]]
Slice [[1, 2, 3], [4, 5, 6]]; [0]; [2]; [0]; INT64(1,) => (None, 3) [[1..4, 2..5, 3..6]]
Slice INT8(...); [0]; [2] => -128..127
Slice INT64(n, 2) [[1..5, 2..9]]; [0]; [2] => (2, 2) [[1..5, 2..9]]
Split [0, 1, 2, 3, 4]; [2, 3] => INT64(2,) [0, 1] and INT64(3,) [2, 3, 4]
Split {axis=1} [[1, 2, 3], [4, 5, 6]]; [1, 2] => \
INT64(2, 1) [[1], [4]] and INT64(2, 2) [[2, 3], [5, 6]]
Split [0, 1, 2, 3, 4]; INT64(2,) => INT64(None,) [0..4] and INT64(...) 0..4
Concat {axis=0} [1..5]; [2..9, 4] => (3,) [1..5, 2..9, 4]
Concat {axis=-1} [[1, 2, 3], [4, 5, 6]]; [[7], [8]] => \
(2, 4) [[1, 2, 3, 7], [4, 5, 6, 8]]
Concat {axis=0} [[1, 2, 3], [4, 5, 6]]; INT64(1, 3) [[9]] => \
(3, 3) [[1, 2, 3], [4, 5, 6], [9, 9, 9]]
Concat {axis=0} FLOAT [1..5]; FLOAT [2..9] nan => (2,) [1.0..5.0, 2.0..9.0] nan
Concat {axis=0} FLOAT [1..5]; FLOAT(None,) [2..9] => (None,) [1.0..9.0]
Concat {axis=0} [1..5]; INT64(...) 2..9 => (2,) nothing
Concat {axis=1} INT64(n, 1) [[1]]; INT64(m, 5) [[2]] => [[1..2]]
Concat {axis=1} INT64(count, 1) [[1]]; INT64(m, 5) [[2]] => nothing
Concat {axis=1} INT64(count, 1) [[1]]; INT64(count, 5) [[2]] => [[1..2]]
Concat {axis=1} INT64(count, 0) [[1]]; INT64(m, 5) [[2]] => [[2]]
Concat {axis=0} [1..5]; [2..9] => (...) 1..9
Concat {axis=0} INT64(2**13,) [1]; INT64(2**13,) [2] => (2**14,) 1..2 of shape 16384
Concat {axis=0} [1]; INT64(2**14,) [2] => (2**14 + 1,) [1..2]
Gather [1..5, 2..9, 4]; [2, 0] => (2,) [4, 1..5]
Gather [1..5, 2..9, 4]; [-3, -1] => (2,) [1..5, 4]
Gather [1..5, 2..9, 4]; 3 => () 1..9
Gather [1..5, 2..9, 4]; -4 => () 1..9
Gather {axis=1} [[1, 2, 3], [4, 5, 6]]; 1 => (2,) [2, 5]
Gather {axis=-1} [[1, 2, 3], [4, 5, 6]]; [[1]] => (2, 1, 1) [[[2]], [[5]]]
Gather [[1, 2, 3], [4, 5, 6]]; INT64(4,) => (4, 3) [[1..4, 2..5, 3..6]]
Gather {axis=1} [[1, 2, 3], [4, 5, 6]]; INT64(4,) => (2, 4) [[1..3], [4..6]]
Gather [[1, 2, 3], [4, 5, 6]]; INT64(...) => (...) 1..6
Gather INT64(9,) [1..5]; [8] => (1,) [1..5]
ConstantOfShape [2] => FLOAT(2,) [0.0]
ConstantOfShape {value=np.array([7])} [2] => (2,) [7]
"""


def test_the_bounds_of_operations() -> None:
    found = [(row, *computed(row)) for row in operation_rows(ROWS)]
    assert not [
        (row, shown(bounds)) for row, bounds, own in found if shown(bounds) != own
    ]


@pytest.mark.parametrize(
    ("name", "holds", "expected"),
    [
        ("Less", True, "[0..4] and [3..5]"),
        ("Less", False, "[3..9] and [3..5]"),
        ("LessOrEqual", True, "[0..5] and [3..5]"),
        ("LessOrEqual", False, "[4..9] and [3..5]"),
        ("Greater", True, "[4..9] and [3..5]"),
        ("Greater", False, "[0..5] and [3..5]"),
        ("GreaterOrEqual", True, "[3..9] and [3..5]"),
        ("GreaterOrEqual", False, "[0..4] and [3..5]"),
        ("Equal", True, "[3..5] and [3..5]"),
        ("Equal", False, "[0..9] and [3..5]"),
    ],
)
def test_operands_of_a_comparison_that_is_true_or_false(
    name: str, holds: bool, expected: str
) -> None:
    assert shown(where_compared(name, holds, v("[0..9]"), v("[3..5]"))) == expected


def test_a_comparison_tells_nothing_of_numbers_that_providers_order_otherwise() -> None:
    a, other = v("[0..9]"), v("[3..2**40]")
    assert where_compared("Less", True, a, other) == (a, other)
    assert shown(where_compared("Equal", True, a, other)) == "[3..9] and [3..9]"
    for texts in (
        ("FLOAT [0..9] nan", "FLOAT [3]"),
        ("FLOAT [0..9]", "FLOAT [3] nan"),
    ):
        a, other = map(v, texts)
        assert where_compared("Less", False, a, other) == (a, other)
        assert shown(where_compared("Less", True, a, other)) == "[0.0..3.0] and [3.0]"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("[0..9]", "[9]", "[0..8] and [9]"),
        ("[0..9]", "[0]", "[1..9] and [0]"),
        ("[9]", "[0..9]", "[9] and [0..8]"),
        ("[0..9, 9..12]", "[9]", "[0..8, 10..12] and [9]"),
        ("[0..9]", "[5]", "[0..9] and [5]"),
        # Each element of the first may be beside any element of the second.
        ("[0..9]", "[0, 9]", "[0..9] and [0, 9]"),
        ("FLOAT [0..9]", "FLOAT [9]", "[0.0..9.0] and [9.0]"),
        ("INT64 [0..9]", "INT64 [9] nan", "[0..9] and [9] nan"),
    ],
)
def test_a_value_that_equals_no_number_at_its_end_ends_beside_it(
    first: str, second: str, expected: str
) -> None:
    assert shown(where_compared("Equal", False, v(first), v(second))) == expected


@pytest.mark.parametrize(
    ("larger", "smaller", "is_strict", "expected"),
    [
        ("[2..9]", "[1..5]", True, "[2..4] and [3..5]"),
        ("[2..9]", "[1..5]", False, "[2..5] and [2..5]"),
        ("FLOAT [2..9]", "FLOAT [1..5]", True, "[2.0..5.0] and [2.0..5.0]"),
        ("[2..9, 0..9]", "[1..5, 1..7]", True, "[2..4, 0..6] and [3..5, 1..7]"),
        # One number beside two.
        ("[2..9]", "[1..5, 1..7]", True, "[2..6] and [3..5, 3..7]"),
    ],
)
def test_both_operands_of_a_comparison_are_limited(
    larger: str, smaller: str, is_strict: bool, expected: str
) -> None:
    assert shown(limited_below(v(larger), v(smaller), is_strict)) == expected


def test_two_bounds_of_one_value_meet() -> None:
    assert shown([met(v("[0..9, 2..9]"), v("[1..5, 3..4]"))]) == "[1..5, 2..5]"
    assert shown([met(v("[0..9] nan"), v("[1..5]"))]) == "[1..5] nan"
    told = met(replace(v("[0..9]"), why=(Reason("a"),), stops=("b",)), v("[1]"))
    assert (told.why, told.stops) == ((Reason("a"),), ("b",))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("ArgMax INT64(5,)", ("ArgMax over axis of 5",)),
        ("ArgMax INT64(n,)", ("ArgMax",)),
        (
            "NonZero INT64(5, n, None) => (3, None)",
            ("NonZero over axes of 5, n, ?",),
        ),
        (
            "NonMaxSuppression INT64(1, 9, 4); INT64(1, 2, 9) => (None, 3)",
            ("NonMaxSuppression of 9 boxes",),
        ),
        (
            "NonMaxSuppression INT64(1, None, 4); INT64(1, 2, 9) => (None, 3)",
            ("NonMaxSuppression of ? boxes",),
        ),
        ("Where BOOL [1]; CONSTANT; INT64() => ()", ("constant",)),
        ("Where BOOL [0]; CONSTANT; INT64() => ()", ()),
    ],
)
def test_bounds_say_what_they_come_from(row: str, expected: tuple[str, ...]) -> None:
    found, _ = computed(row)
    assert found
    texts = [tuple(reason.text for reason in one.why) for one in found]
    assert texts == [expected]


@pytest.mark.parametrize(
    ("condition", "expected"), [("1", ()), ("0", ("x",)), ("0..1", ("x",))]
)
def test_a_choice_is_stopped_by_what_may_be_chosen(
    condition: str, expected: tuple[str, ...]
) -> None:
    found, _ = computed(f"Where BOOL [{condition}]; [0..1]; STOPPED")
    assert found
    assert [one.stops for one in found] == [expected]


def test_a_wrapped_integer_is_as_it_was_for_a_cast_behind_a_skip_or_choice() -> None:
    for operator in (
        *("Add", "Sub", "Mul", "Div", "Identity", "Trilu", "Tile"),
        *("Neg", "Abs", "Relu", "Clip"),
    ):
        is_unary = operator in ("Neg", "Abs", "Relu", "Clip")
        found, _ = computed(f"{operator} [1..5] nan{'' if is_unary else '; [1]'}")
        assert found
        assert found[0].nan is not is_unary


def test_an_operation_with_a_flag_of_another_number_has_no_bounds() -> None:
    written = NOTATION.operation("CumSum INT64(2,) [1..2]; 0")
    for number, bounds in ((0, 1), (1, 1), (2, 0)):
        options = {"reverse": number}
        operation = Operation("", "CumSum", "", ("x", "axis"), ("y",), options, {})
        types = [OpenType("INT64", (2,))]
        call = Call(operation, written.inputs, 17, types)
        assert len(bounds_by_table(call)) == bounds


def test_the_tables_name_operators_of_onnx() -> None:
    assert all(map(onnx.defs.has, TRANSFERS))
    assert TRANSFERS.keys() >= ELEMENTWISE | QUIET
    quiet = "Where Cast Compress Reshape Transpose Expand Tile Slice Split Concat"
    assert {*quiet.split(), "Gather", "ConstantOfShape"} <= QUIET
    loud = "Add Mul Mod Floor Neg Max Clip Less ArgMax TopK NonZero Shape Range CumSum"
    assert not QUIET & {*loud.split(), "NonMaxSuppression"}


def test_operators_that_broadcast_keep_no_more_bounds_than_a_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called, found = list[str](), set[str]()

    def broadcast(values: Sequence[Bounds | None]) -> tuple[Bounds | None, ...]:
        called.append("broadcast")
        return tuple(values)

    monkeypatch.setattr(operator_bounds_table, "broadcast", broadcast)
    for operator in TRANSFERS:
        called.clear()
        with suppress(Exception):  # the inputs are not those of each operator
            computed(f"{operator} [1]; [1]")
        found |= {operator} if called else set()
    comparisons = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}
    others = "Add And Div Max Min Mod Mul Or Sub Where"
    assert found == comparisons | set(others.split())


@pytest.mark.parametrize(
    "row",
    [
        "Where BOOL [0..1]; [0..n]; [0] => INT64",
        "Compress [0..n, 0]; BOOL [1] => (None,)",
        "Pad [0..n, 0]; [1, 1]",
        "ScatterND [0..n, 0]; [0]; [0]",
        "Reshape [0..n, 0]; none => (2, 1)",
        "Transpose [0..n, 0]",
        "Expand [0..n, 0]; none",
        "Tile [0..n, 0]; [2]",
        "Slice [0..n, 0]; [0]; [1]",
        "Split [0..n, 0]; [1]",
        "Concat {axis=0} [0..n, 0]; [0] => (3,)",
        "Gather [0..n, 0]; [0] => (1,)",
        "TopK [0..n, 0]; [1] => INT64(1,) and INT64(1,)",
        "ReduceMax [0..n, 0]; [0] => (1,)",
        "CumSum {exclusive=1} [0..n, 0]; 0 => (1,)",
        "Range 0; n + 1; 1 => (None,)",
        "Identity [0..n, 0]",
        "Max [0..n, 0]; [0]",
        "Clip [0..n, 0]",
    ],
)
def test_open_sizes_are_kept(row: str) -> None:
    found, _ = computed(row)
    assert found is not None
    assert tuple(found[0].whole) == (0, N)
