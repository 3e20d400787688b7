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

from onnxgather.auditing.algebra.bounds import (
    Bounds,
    Reason,
    bounds_of_array,
    interval,
    unknown,
)
from onnxgather.auditing.algebra.sizes import MOST, Size, Symbol
from onnxgather.auditing.operators import output_bounds_table as operator_bounds_table
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.auditing.operators.output_bounds import ELEMENTWISE, QUIET, TRANSFERS
from onnxgather.auditing.operators.output_bounds_order import (
    limited_below,
    met,
    where_compared,
)
from onnxgather.core.model.network import Operation

FIRST, LAST = -(2**63), 2**63 - 1
INF = math.inf
N = Size({(Symbol("n", 1, 100),): 1})
M = Size({(Symbol("m", 2, 50),): 1})
COUNT = Size({(Symbol("", 0, 100),): 1})


def v(*pairs: Any, of: str = "INT64", sizes: Any = 0, nan: bool = False) -> Bounds:
    """A value with one axis, and the bounds of each element; a number is both of
    them."""
    ends: list[Any] = [
        pair if isinstance(pair, tuple) else (pair, pair) for pair in pairs
    ]
    dtype = {"FLOAT": np.float32, "DOUBLE": np.float64, "FLOAT16": np.float16}.get(
        of, object
    )
    array = np.array(ends, dtype)
    return interval(
        of, (len(ends),) if sizes == 0 else sizes, array[:, :1], array[:, 1:], nan
    )


def r(*pairs: Any, nan: bool = False) -> Bounds:
    return v(*pairs, of="FLOAT", nan=nan)


def h(*pairs: Any) -> Bounds:
    return v(*pairs, of="FLOAT16")


def b(*pairs: Any) -> Bounds:
    return v(*pairs, of="BOOL")


def known(array: Any, of: str = "INT64") -> Bounds:
    return bounds_of_array(of, np.asarray(array))


def of_sizes(*sizes: Any, of: str = "INT64") -> Bounds:
    return unknown(of, sizes)


def computed(
    operator: str, *inputs: Bounds | None, **options: Any
) -> Sequence[Bounds] | None:
    """What the table tells of the outputs of an operation."""
    first, told = inputs[0], {"to", "sizes", "types"}
    kind = (
        options.get("to", first and first.data_type),
        options.get("sizes", first and first.sizes),
    )
    types = options.get("types", [OpenType(*kind)])
    options = {name: value for name, value in options.items() if name not in told}
    names = tuple(map(str, range(len(inputs))))
    operation = Operation("", operator, "", names, ("y",), options, {})
    with np.errstate(all="ignore"):
        found = TRANSFERS[operator](Call(operation, inputs, 17, types))
    return [found] if isinstance(found, Bounds) else found


def shown(found: Sequence[Bounds] | None) -> str:
    """The bounds of each output, of many elements their shape, and whether it may be
    NaN."""
    if found is None:
        return "nothing"
    texts = list[str]()
    for one in found:
        few = one.bounds.size <= 24
        text = (
            one.bounds.tolist() if few else f"{one.bounds.shape} {one.whole.tolist()}"
        )
        texts.append(f"{text}{' nan' * one.nan}")
    return " and ".join(texts)


Case = tuple[str, list[Bounds | None], dict[str, Any], str]

ARITHMETIC: list[Case] = [
    ("Add", [v((1, 5)), v((10, 20))], {}, "[[11, 25]]"),
    ("Sub", [v((1, 5)), v((10, 20))], {}, "[[-19, -5]]"),
    ("Add", [v(N), v((1, 2))], {}, "[[n + 1, n + 2]]"),
    ("Sub", [v(N), v((0, N))], {}, "[[0, n]]"),
    ("Sub", [v((1, 5), (2, 3)), v((0, 1))], {}, "[[0, 5], [1, 3]]"),
    ("Add", [r((1, INF)), r((-INF, 1))], {}, "[[-inf, inf]] nan"),
    ("Add", [r((1, INF)), r((1, 2))], {}, "[[2.0, inf]]"),
    ("Add", [r((1, 3)), r((1, 2))], {}, "[[2.0, 5.0]]"),
    ("Add", [r((1, 3), nan=True), r((1, 2))], {}, "[[2.0, 5.0]] nan"),
    ("Add", [r((1, 3)), r((1, 2), nan=True)], {}, "[[2.0, 5.0]] nan"),
    ("Add", [v((1, 2), of="STRING"), v((1, 2), of="STRING")], {}, "nothing"),
    ("Add", [h(2), h(4)], {}, "[[5.98828125, 6.01171875]]"),
    ("Sub", [h(-6), h(4)], {}, "[[-10.015625, -9.984375]]"),
    ("Add", [h(60000), h(60000)], {}, "[[65504.0, inf]]"),
    ("Add", [h(-60000), h(-60000)], {}, "[[-inf, -65504.0]]"),
    ("Add", [h(0), h(0)], {}, "[[-5.960464477539063e-08, 5.960464477539063e-08]]"),
    ("Mul", [v((-2, 3)), v((-5, 7))], {}, "[[-15, 21]]"),
    ("Mul", [v(N), v((2, 3))], {}, "[[2*n, 3*n]]"),
    ("Mul", [r((0, 1)), r((1, INF))], {}, "[[-inf, inf]] nan"),
    ("Mul", [r((-1, 1)), r((1, INF))], {}, "[[-inf, inf]] nan"),
    ("Mul", [r((1, INF)), r((-1, 1))], {}, "[[-inf, inf]] nan"),
    ("Mul", [r((1, 2)), r((1, INF))], {}, "[[1.0, inf]]"),
    ("Mul", [r((1, INF)), r((1, 2))], {}, "[[1.0, inf]]"),
    ("Mul", [r((-1, 1)), r((1, 2))], {}, "[[-2.0, 2.0]]"),
    ("Mul", [h(2), h(4)], {}, "[[7.984375, 8.015625]]"),
    ("Div", [v((-7, 7)), v((2, 3))], {}, "[[-3, 3]]"),
    ("Div", [v((-9, -7)), v((-3, -2))], {}, "[[2, 4]]"),
    ("Div", [v((2, 7)), v((-3, -2))], {}, "[[-3, 0]]"),
    ("Div", [v((0, 1)), v((2, 3))], {}, "[[0, 0]]"),
    ("Div", [v(1), v((-3, -2))], {}, "[[0, 0]]"),
    ("Div", [v((0, 1), (0, 1)), v((2, 3))], {}, "[[0, 0], [0, 0]]"),
    ("Div", [v(2), v(3)], {}, "[[0, 0]]"),
    ("Div", [v((-1, 0)), v(3)], {}, "[[0, 0]]"),
    ("Div", [v((1, 2)), v(3)], {}, "[[0, 0]]"),
    ("Div", [v((5, 9)), v((0, 2))], {}, "nothing"),
    ("Div", [v((5, 9)), v((-2, 0))], {}, "nothing"),
    ("Div", [v((5, 9), (5, 9)), v((-1, 2), (1, 2))], {}, "nothing"),
    ("Div", [v((0, N)), v((1, 2))], {}, "[[0, n]]"),
    ("Div", [v(6), v((1, N))], {}, "[[?, 6]]"),
    ("Div", [v((4 * N, 6 * N)), v(2)], {}, "[[2*n, 3*n]]"),
    ("Div", [v((N - 2, N)), v(2)], {}, "[[0, 50]]"),
    ("Div", [v((N, 2 * N)), v((0, 2))], {}, "nothing"),
    ("Div", [v((N, 2 * N)), v((-2, -1))], {}, "[[-200, 0]]"),
    ("Div", [r(6), r(3)], {}, "[[2.0, 2.0]]"),
    ("Div", [r((4, 8)), r(2)], {}, "[[2.0, 4.0]]"),
    ("Div", [r(1), r(3)], {}, "[[0.3333333432674408, 0.3333333432674408]]"),
    ("Div", [r(3), r(8)], {}, "[[0.375, 0.375]]"),
    ("Div", [r((3, 5)), r(3)], {}, "[[1.0, 1.6666666269302368]]"),
    ("Div", [r(5), r(-3)], {}, "[[-1.6666666269302368, -1.6666666269302368]]"),
    (
        "Div",
        [r((0, 1)), r((1, INF))],
        {},
        "[[0.0, 1.0]]",
    ),
    ("Div", [r((1, INF)), r((1, INF))], {}, "[[-inf, inf]] nan"),
    ("Div", [h(4), h(2)], {}, "[[1.99609375, 2.00390625]]"),
    ("Mod", [v((0, 3)), v((5, 9))], {}, "[[0, 3]]"),
    ("Mod", [v((2, 3)), v((5, 9))], {}, "[[2, 3]]"),
    ("Mod", [v((2, 5)), v((5, 9))], {}, "[[0, 5]]"),
    ("Mod", [v((2, 7)), v((5, 9))], {}, "[[0, 7]]"),
    ("Mod", [v((0, 20)), v((5, 9))], {}, "[[0, 8]]"),
    ("Mod", [v(7), v(5)], {}, "[[2, 2]]"),
    ("Mod", [v(-7), v(5)], {}, "[[3, 3]]"),
    ("Mod", [v(7), v((5, 6))], {}, "[[0, 5]]"),
    ("Mod", [v((-7, 7)), v(5)], {}, "[[0, 4]]"),
    ("Mod", [v((-7, 7)), v(-5)], {}, "[[-4, 0]]"),
    ("Mod", [v((-7, 7), (-7, 7)), v(-5, 4)], {}, "[[-4, 0], [0, 3]]"),
    ("Mod", [v((-1, 7), (1, 3)), v(5, 5)], {}, "[[0, 4], [1, 3]]"),
    ("Mod", [v((-1, 7), (1, 5)), v(5, 5)], {}, "[[0, 4], [0, 4]]"),
    ("Mod", [v((-7, 7)), v(5)], {"fmod": 1}, "[[-4, 4]]"),
    ("Mod", [v((1, 7)), v(5)], {"fmod": 1}, "[[0, 4]]"),
    ("Mod", [v(7), v(5)], {"fmod": 1}, "[[0, 4]]"),
    ("Mod", [v((-7, -6)), v(5)], {"fmod": 1}, "[[-4, 0]]"),
    ("Mod", [v((0, 2**53)), v(5)], {"fmod": 1}, "[[0, 4]]"),
    ("Mod", [v((0, 2**53 + 1)), v(5)], {"fmod": 1}, "nothing"),
    ("Mod", [v((0, 7)), v(2**53 + 1)], {"fmod": 1}, "nothing"),
    ("Mod", [v((0, 2**53 + 1)), v(5)], {}, "[[0, 4]]"),
    ("Mod", [r((1, 2.5)), r(4)], {"fmod": 1}, "[[1.0, 2.5]]"),
    ("Mod", [r((-1, 2.5)), r(4)], {"fmod": 1}, "[[-4.0, 4.0]]"),
    ("Mod", [r((1, 4)), r(4)], {"fmod": 1}, "[[0.0, 4.0]]"),
    ("Mod", [r((1, 2.5)), r(4)], {}, "nothing"),
    ("Mod", [r((1, 2.5), nan=True), r(4)], {"fmod": 1}, "nothing"),
    ("Mod", [r((1, 2.5)), r(4, nan=True)], {"fmod": 1}, "nothing"),
    ("Mod", [r((1, INF)), r(4)], {"fmod": 1}, "nothing"),
    ("Mod", [r((1, 2.5)), r((3, INF))], {"fmod": 1}, "[[1.0, 2.5]]"),
    ("Mod", [r((1, 2.5)), r((0, 4))], {"fmod": 1}, "nothing"),
    ("Mod", [v((1, 2)), v((0, 4))], {}, "nothing"),
    ("Mod", [v((0, N - 1)), v(N)], {}, "[[0, n - 1]]"),
    ("Mod", [v((1, N)), v(N + 1)], {}, "[[1, n]]"),
    ("Mod", [v((N - 1, 2 * N)), v(N)], {}, "[[0, n - 1]]"),
    ("Mod", [v(3), v(N)], {}, "[[0, -? + 3]]"),
    ("Mod", [v(N), v(N)], {}, "[[0, n - 1]]"),
    ("Mod", [v(N), v(3)], {}, "[[n - 3*?, n - 3*?]]"),
    ("Mod", [v((N - 2, N)), v(3)], {}, "[[0, 2]]"),
    ("Floor", [r((-1.5, 2.5))], {}, "[[-2.0, 2.0]]"),
    ("Ceil", [r((-1.5, 2.5))], {}, "[[-1.0, 3.0]]"),
    ("Round", [r((-1.5, 2.75))], {}, "[[-2.0, 3.0]]"),
    ("Sign", [r((-3, 5))], {}, "[[-1.0, 1.0]]"),
    ("Sign", [r((2, 5))], {}, "[[1.0, 1.0]]"),
    ("Sign", [r((2, 5), nan=True)], {}, "[[-1.0, 1.0]] nan"),
    ("Sign", [v((2, 5))], {}, "[[1, 1]]"),
    ("Sign", [v((2, 2**40))], {}, "[[-1, 1]]"),
    ("Sqrt", [r((4, 9))], {}, "[[2.0, 3.0]]"),
    ("Sqrt", [r((-4, 9))], {}, "[[-inf, inf]] nan"),
    ("Sqrt", [h(4)], {}, "[[1.96875, 2.03125]]"),
    ("Log", [r(1)], {}, "[[-1.401298464324817e-45, 1.401298464324817e-45]]"),
    ("Log", [r(0)], {}, "[[-inf, -3.4028234663852886e+38]]"),
    ("Log", [r((2, 4))], {}, "[[0.6931458711624146, 1.3862969875335693]]"),
    ("Relu", [r((-3, 5))], {}, "[[0.0, 5.0]]"),
    ("Relu", [v((N - 2, N))], {}, "[[0, 100]]"),
    ("Not", [b((0, 1))], {}, "[[0, 1]]"),
    ("Not", [b(0)], {}, "[[1, 1]]"),
    ("Not", [b(1)], {}, "[[0, 0]]"),
    ("Neg", [v((1, N))], {}, "[[-n, -1]]"),
    ("Abs", [v((1, N))], {}, "[[1, n]]"),
    ("Abs", [v((0, N))], {}, "[[0, n]]"),
    ("Abs", [v((-3, 2))], {}, "[[0, 3]]"),
    ("Abs", [v((-5, -2))], {}, "[[2, 5]]"),
    ("Abs", [v((-5, 0))], {}, "[[0, 5]]"),
    ("Abs", [v((-5, -2), (1, 3))], {}, "[[2, 5], [1, 3]]"),
    ("Abs", [r((-3, 2))], {}, "[[0.0, 3.0]]"),
    ("Abs", [r((1, 2))], {}, "[[1.0, 2.0]]"),
    ("Abs", [r((0, 2))], {}, "[[0.0, 2.0]]"),
    ("Abs", [v((N - 3, N))], {}, "[[0, 100]]"),
]

CHOICES: list[Case] = [
    ("Max", [v((1, 5)), v((3, 4))], {}, "[[3, 5]]"),
    ("Min", [v((1, 5)), v((3, 4))], {}, "[[1, 4]]"),
    ("Max", [v((1, 5)), v((3, 4)), v((2, 9))], {}, "[[3, 9]]"),
    ("And", [b((0, 1)), b(1)], {}, "[[0, 1]]"),
    ("And", [b((0, 1)), b(0)], {}, "[[0, 0]]"),
    ("Or", [b((0, 1)), b(1)], {}, "[[1, 1]]"),
    ("Or", [b((0, 1)), b(0)], {}, "[[0, 1]]"),
    ("Max", [r((1, 5), nan=True), r((3, 9))], {}, "[[1.0, 9.0]] nan"),
    ("Min", [r((1, 5)), r((3, 4), nan=True)], {}, "[[1.0, 5.0]] nan"),
    ("Max", [v((0, 2**40)), v((5, 6))], {}, "[[0, 1099511627776]]"),
    (
        "Max",
        [v((1, 2**40)), v((2**33 + 9, 2**40))],
        {},
        "[[8589934592, 1099511627776]]",
    ),
    ("Min", [v((0, 2**40 + 5)), v((1, 2**33 + 9))], {}, "[[0, 12884901887]]"),
    (
        "Max",
        [v((1, 5), (1, 2**40)), v((3, 4), (2**33 + 9, 2**40))],
        {},
        "[[3, 5], [8589934592, 1099511627776]]",
    ),
    (
        "Min",
        [v((1, 5), (0, 2**40)), v((3, 4), (0, 2**33 + 9))],
        {},
        "[[1, 4], [0, 12884901887]]",
    ),
    ("Max", [v(N), v(1)], {}, "[[n, n]]"),
    ("Min", [v(N), v((0, 100))], {}, "[[0, n]]"),
    ("Max", [v((0, MOST)), v(N)], {}, "[[0, 281474976710656]]"),
    ("Max", [v((N, MOST)), v(5)], {}, "[[-? + 5, 281474976710656]]"),
    ("Clip", [v((-5, 50)), known(0), known(9)], {}, "[[0, 9]]"),
    ("Clip", [v((2, 5)), known(0), known(9)], {}, "[[2, 5]]"),
    ("Clip", [v((-5, 50)), known(0)], {}, "[[0, 50]]"),
    ("Clip", [v((-5, 50)), None, known(9)], {}, "[[-5, 9]]"),
    ("Clip", [v((-5, 50))], {}, "[[-5, 50]]"),
    ("Clip", [r((-5, 50))], {}, "[[-5.0, 50.0]]"),
    ("Clip", [r((-INF, INF))], {}, "[[-inf, inf]]"),
    ("Clip", [r(INF)], {}, "[[3.4028234663852886e+38, inf]]"),
    ("Clip", [r(-INF)], {}, "[[-inf, -3.4028234663852886e+38]]"),
    ("Clip", [r((-5, 50))], {"min": 0.0, "max": 6.0}, "[[0.0, 6.0]]"),
    ("Clip", [r((-5, 50))], {"max": 6.0}, "[[-5.0, 6.0]]"),
    ("Clip", [r((-5, 50), nan=True), r(0), r(9)], {}, "[[0.0, 9.0]] nan"),
    ("Clip", [r((-5, 50)), r(0, nan=True), r(9)], {}, "nothing"),
    ("Clip", [r((-5, 50)), r(0), r(9, nan=True)], {}, "nothing"),
    ("Clip", [v((FIRST, LAST)), v((2, 4)), v((3, 9))], {}, "[[2, 9]]"),
    ("Clip", [v((FIRST, LAST)), v((0, 4)), v((-1, 9))], {}, "[[-1, 9]]"),
    (
        "Clip",
        [v((FIRST, LAST)), v((-2, 4)), v((3, 9))],
        {},
        "[[-4294967296, 4294967295]]",
    ),
    ("Clip", [v((FIRST, LAST)), known(2), known(2**40)], {}, "[[0, 1103806595071]]"),
    ("Clip", [v((N, 2 * N)), known(0), known(300)], {}, "[[n, 2*n]]"),
    ("Less", [v((1, 2)), v((3, 4))], {"to": "BOOL"}, "[[1, 1]]"),
    ("Less", [v((1, 3)), v((3, 4))], {"to": "BOOL"}, "[[0, 1]]"),
    ("Less", [v((3, 4)), v((1, 3))], {"to": "BOOL"}, "[[0, 0]]"),
    ("Less", [v((2, 4)), v((1, 3))], {"to": "BOOL"}, "[[0, 1]]"),
    ("LessOrEqual", [v((1, 3)), v((3, 4))], {"to": "BOOL"}, "[[1, 1]]"),
    ("LessOrEqual", [v((3, 5)), v((1, 3))], {"to": "BOOL"}, "[[0, 1]]"),
    ("LessOrEqual", [v((4, 5)), v((1, 3))], {"to": "BOOL"}, "[[0, 0]]"),
    ("Greater", [v((3, 4)), v((1, 2))], {"to": "BOOL"}, "[[1, 1]]"),
    ("Greater", [v((3, 4)), v((1, 3))], {"to": "BOOL"}, "[[0, 1]]"),
    ("Greater", [v((1, 3)), v((3, 4))], {"to": "BOOL"}, "[[0, 0]]"),
    ("GreaterOrEqual", [v((3, 4)), v((1, 3))], {"to": "BOOL"}, "[[1, 1]]"),
    ("GreaterOrEqual", [v((1, 3)), v((3, 5))], {"to": "BOOL"}, "[[0, 1]]"),
    ("GreaterOrEqual", [v((1, 3)), v((4, 5))], {"to": "BOOL"}, "[[0, 0]]"),
    ("Equal", [v(3), v(3)], {"to": "BOOL"}, "[[1, 1]]"),
    ("Equal", [v((1, 2)), v((3, 4))], {"to": "BOOL"}, "[[0, 0]]"),
    ("Equal", [v((3, 4)), v((1, 2))], {"to": "BOOL"}, "[[0, 0]]"),
    ("Equal", [v((1, 3)), v((3, 4))], {"to": "BOOL"}, "[[0, 1]]"),
    ("Equal", [v((3, 4)), v((1, 3))], {"to": "BOOL"}, "[[0, 1]]"),
    ("Equal", [v((3, 4)), v(3)], {"to": "BOOL"}, "[[0, 1]]"),
    ("Equal", [v(3), v((3, 4))], {"to": "BOOL"}, "[[0, 1]]"),
    ("Equal", [v((3, 4)), v((3, 4))], {"to": "BOOL"}, "[[0, 1]]"),
    ("Equal", [v(2**40), v(2**40)], {"to": "BOOL"}, "[[1, 1]]"),
    ("Equal", [r(3, nan=True), r(3)], {"to": "BOOL"}, "[[0, 1]]"),
    ("Equal", [r(3), r(3, nan=True)], {"to": "BOOL"}, "[[0, 1]]"),
    ("Less", [r(3, nan=True), r(4)], {"to": "BOOL"}, "[[0, 1]]"),
    ("Less", [r(3), r(4)], {"to": "BOOL"}, "[[1, 1]]"),
    ("Less", [v((0, 1)), v((2, 2**40))], {"to": "BOOL"}, "[[0, 1]]"),
    ("Less", [v((0, N - 1), N), v(N)], {"to": "BOOL"}, "[[1, 1], [0, 0]]"),
    ("Equal", [v(N), v(N)], {"to": "BOOL"}, "[[1, 1]]"),
    ("Where", [b(1), v((1, 2)), v((5, 6))], {"to": "INT64"}, "[[1, 2]]"),
    ("Where", [b(0), v((1, 2)), v((5, 6))], {"to": "INT64"}, "[[5, 6]]"),
    ("Where", [b((0, 1)), v((5, 9)), v((1, 6))], {"to": "INT64"}, "[[1, 9]]"),
    ("Where", [b((0, 1)), v((1, 6)), v((5, 9))], {"to": "INT64"}, "[[1, 9]]"),
    ("Where", [b(1, 0), v((1, 2)), v((5, 6))], {"to": "INT64"}, "[[1, 2], [5, 6]]"),
    (
        "Where",
        [b(1), r((1, 2), nan=True), r((5, 6))],
        {"to": "FLOAT"},
        "[[1.0, 2.0]] nan",
    ),
    ("Where", [b(1), r((1, 2)), r((5, 6), nan=True)], {"to": "FLOAT"}, "[[1.0, 2.0]]"),
    ("Where", [b(0), r((1, 2), nan=True), r((5, 6))], {"to": "FLOAT"}, "[[5.0, 6.0]]"),
    (
        "Where",
        [b(0), r((1, 2)), r((5, 6), nan=True)],
        {"to": "FLOAT"},
        "[[5.0, 6.0]] nan",
    ),
    (
        "Where",
        [b(1, 0), r((1, 2)), r((5, 6), nan=True)],
        {"to": "FLOAT"},
        "[[1.0, 2.0], [5.0, 6.0]] nan",
    ),
    (
        "Where",
        [b(1, 0), r((1, 2), nan=True), r((5, 6))],
        {"to": "FLOAT"},
        "[[1.0, 2.0], [5.0, 6.0]] nan",
    ),
    ("Cast", [r((1.5, 2.5))], {"to": "INT64"}, "[[1, 2]]"),
    ("Cast", [r((-1.5, 2.5))], {"to": "INT64"}, "[[-1, 2]]"),
    ("Cast", [r((-0.5, 0.5))], {"to": "INT64"}, "[[0, 1]]"),
    ("Cast", [r((0, 0.5))], {"to": "INT64"}, "[[0, 1]]"),
    ("Cast", [r((-0.5, 0))], {"to": "INT64"}, "[[0, 1]]"),
    ("Cast", [r(0)], {"to": "INT64"}, "[[0, 0]]"),
    (
        "Cast",
        [r(1e20)],
        {"to": "INT64"},
        "[[-9223372036854775808, 9223372036854775807]] nan",
    ),
    (
        "Cast",
        [r((1, 2), (1, 1e20))],
        {"to": "INT64"},
        "[[1, 2], [-9223372036854775808, 9223372036854775807]] nan",
    ),
    (
        "Cast",
        [r((1, 2), nan=True)],
        {"to": "INT64"},
        "[[-9223372036854775808, 9223372036854775807]] nan",
    ),
    ("Cast", [r((-128.5, 127.5))], {"to": "INT8"}, "[[-128, 127]]"),
    ("Cast", [r((-129, 127.5))], {"to": "INT8"}, "[[-128, 127]] nan"),
    ("Cast", [r((-128.5, 128))], {"to": "INT8"}, "[[-128, 127]] nan"),
    ("Cast", [r((0.5, 2))], {"to": "BOOL"}, "[[1, 1]]"),
    ("Cast", [r((0, 2))], {"to": "BOOL"}, "[[0, 1]]"),
    ("Cast", [r((-2, 0))], {"to": "BOOL"}, "[[0, 1]]"),
    ("Cast", [r((-2, -1))], {"to": "BOOL"}, "[[1, 1]]"),
    ("Cast", [r(0)], {"to": "BOOL"}, "[[0, 0]]"),
    ("Cast", [r(0, nan=True)], {"to": "BOOL"}, "[[0, 1]]"),
    ("Cast", [r((1, 2), nan=True)], {"to": "BOOL"}, "[[0, 1]]"),
    ("Cast", [v(N)], {"to": "BOOL"}, "[[1, 1]]"),
    ("Cast", [v(COUNT)], {"to": "BOOL"}, "[[0, 1]]"),
    ("Cast", [v((1, N))], {"to": "INT32"}, "[[1, n]]"),
    ("Cast", [v((0, 255))], {"to": "UINT8"}, "[[0, 255]]"),
    ("Cast", [v((1, 256))], {"to": "UINT8"}, "[[0, 255]] nan"),
    ("Cast", [v((-1, 3))], {"to": "UINT8"}, "[[0, 255]] nan"),
    ("Cast", [v((1, 3), (1, 300))], {"to": "UINT8"}, "[[0, 255]] nan"),
    ("Cast", [v((1, 3), nan=True)], {"to": "INT8"}, "[[-128, 127]] nan"),
    (
        "Cast",
        [v((1, 3), nan=True)],
        {"to": "FLOAT"},
        "[[-9.223372036854776e+18, 1.8446744073709552e+19]]",
    ),
    ("Cast", [v((1, 3))], {"to": "FLOAT"}, "[[1.0, 3.0]]"),
    ("Cast", [v(N)], {"to": "FLOAT"}, "[[1.0, 100.0]]"),
    ("Cast", [v(2**24 + 1)], {"to": "FLOAT"}, "[[16777216.0, 16777218.0]]"),
    ("Cast", [r((1, 2.5))], {"to": "DOUBLE"}, "[[1.0, 2.5]]"),
    ("Cast", [r((1, 2.5), nan=True)], {"to": "DOUBLE"}, "[[1.0, 2.5]] nan"),
    ("Cast", [v((1, 2), of="STRING")], {"to": "INT64"}, "nothing"),
    ("Cast", [v((1, 2))], {"to": "STRING"}, "[[-inf, inf]] nan"),
    ("CastLike", [v((1, 2)), r(0)], {"to": "FLOAT"}, "[[1.0, 2.0]]"),
]

ROWS = known([[1, 2, 3], [4, 5, 6]])


def of_columns(count: int) -> Bounds:
    rows = np.arange(2 * count).reshape(2, count, 1)
    return interval("INT64", (N, count), rows, rows)


POSITIONS: list[Case] = [
    ("ArgMax", [of_sizes(5, 7)], {"to": "INT64", "sizes": (1, 7)}, "[[[0, 4]]]"),
    ("ArgMin", [of_sizes(5, 7)], {"axis": -1, "sizes": (5, 1)}, "[[[0, 6]]]"),
    ("ArgMax", [of_sizes(5, N)], {"axis": 1, "sizes": (5, 1)}, "[[[0, n - 1]]]"),
    ("ArgMax", [of_sizes(0, 7)], {"sizes": (1, 7)}, "[[[0, 0]]]"),
    ("ArgMax", [of_sizes(1, 7)], {"sizes": (1, 7)}, "[[[0, 0]]]"),
    ("ArgMax", [of_sizes(None, 7)], {"sizes": (1, 7)}, "[[[0, 281474976710656]]]"),
    ("ArgMax", [unknown("INT64", None)], {}, "[0, 281474976710656]"),
    (
        "TopK",
        [v((1, 5), (2, 9), (0, 3)), known([2])],
        {"types": [OpenType("INT64", (2,)), OpenType("INT64", (2,))]},
        "[[0, 9]] and [[0, 2]]",
    ),
    (
        "TopK",
        [of_sizes(5, 3, of="INT8"), known([2])],
        {"axis": 0, "types": [OpenType("INT8", (2, 3)), OpenType("INT64", (2, 3))]},
        "[[[-128, 127]]] and [[[0, 4]]]",
    ),
    ("NonZero", [v(0, 3, 0, 5)], {"sizes": (1, None)}, "[[[1, 1], [3, 3]]]"),
    ("NonZero", [v(0, 3, (1, 2))], {"sizes": (1, None)}, "[[[0, 2]]]"),
    ("NonZero", [v((1, 2), (-4, -3))], {"sizes": (1, 2)}, "[[[0, 0], [1, 1]]]"),
    ("NonZero", [v((1, 2), (-4, 0))], {"sizes": (1, None)}, "[[[0, 1]]]"),
    ("NonZero", [v(COUNT, 5)], {"sizes": (1, None)}, "[[[0, 1]]]"),
    ("NonZero", [v(N, 5)], {"sizes": (1, 2)}, "[[[0, 0], [1, 1]]]"),
    ("NonZero", [known(7)], {"sizes": (0, 1)}, "[[[0, 0]]]"),
    ("NonZero", [known(0)], {"sizes": (0, 0)}, "[[[0, 0]]]"),
    ("NonZero", [v((0, 1), sizes=())], {"sizes": (1, None)}, "[[[0, 0]]]"),
    (
        "NonZero",
        [known([[0, 1], [1, 0]])],
        {"sizes": (2, 2)},
        "[[[0, 0], [1, 1]], [[1, 1], [0, 0]]]",
    ),
    (
        "NonZero",
        [of_sizes(4, N, None)],
        {"sizes": (3, None)},
        "[[[0, 3]], [[0, n - 1]], [[0, 281474976710656]]]",
    ),
    ("NonZero", [unknown("INT64", None)], {}, "[0, 281474976710656]"),
    (
        "NonMaxSuppression",
        [of_sizes(2, N, 4, of="FLOAT"), of_sizes(2, 3, N, of="FLOAT")],
        {"to": "INT64", "sizes": (None, 3)},
        "[[[0, 1], [0, 2], [0, n - 1]]]",
    ),
    (
        "NonMaxSuppression",
        [unknown("FLOAT", None), of_sizes(2, 3, 9, of="FLOAT")],
        {"to": "INT64", "sizes": (None, 3)},
        "[[[0, 1], [0, 2], [0, 281474976710656]]]",
    ),
    (
        "Shape",
        [of_sizes(5, N, None)],
        {"sizes": (3,)},
        "[[5, 5], [n, n], [0, 9223372036854775807]]",
    ),
    ("Shape", [of_sizes(5, N, 7)], {"sizes": (2,), "start": 1}, "[[n, n], [7, 7]]"),
    ("Shape", [of_sizes(5, N, 7)], {"sizes": (2,), "end": -1}, "[[5, 5], [n, n]]"),
    (
        "Shape",
        [unknown("INT64", None)],
        {"sizes": (None,)},
        "[[0, 9223372036854775807]]",
    ),
    ("Size", [of_sizes(5, N)], {"sizes": ()}, "[5*n, 5*n]"),
    ("Size", [unknown("INT64", None)], {"sizes": ()}, "[0, 9223372036854775807]"),
    (
        "Range",
        [known(0), known(5), known(2)],
        {"sizes": (3,)},
        "[[0, 0], [2, 2], [4, 4]]",
    ),
    (
        "Range",
        [known(5), known(0), known(-2)],
        {"sizes": (3,)},
        "[[5, 5], [3, 3], [1, 1]]",
    ),
    ("Range", [known(0), v(N, sizes=()), known(2)], {"sizes": (N,)}, "[[0, n - 1]]"),
    (
        "Range",
        [v((3, 4), sizes=()), v((8, 9), sizes=()), known(1)],
        {"sizes": (None,)},
        "[[3, 8]]",
    ),
    (
        "Range",
        [v((8, 9), sizes=()), v((3, 4), sizes=()), known(-1)],
        {"sizes": (None,)},
        "[[4, 9]]",
    ),
    ("Range", [known(0), known(5), v((0, 1), sizes=())], {"sizes": (None,)}, "nothing"),
    (
        "Range",
        [known(0), known(5), v((-1, 0), sizes=())],
        {"sizes": (None,)},
        "nothing",
    ),
    (
        "Range",
        [known(0, "FLOAT"), known(5, "FLOAT"), known(1, "FLOAT")],
        {"sizes": (5,)},
        "nothing",
    ),
    ("Range", [known(0, "FLOAT"), known(0, "FLOAT"), known(1, "FLOAT")], {}, "nothing"),
    (
        "Range",
        [known(0), known(2**52), known(1)],
        {"sizes": (2**52,)},
        "[[0, 4503599627370495]]",
    ),
    (
        "Range",
        [known(0), known(2**52 + 1), known(1)],
        {"sizes": (2**52 + 1,)},
        "nothing",
    ),
    (
        "Range",
        [known(-(2**52) - 1), known(0), known(1)],
        {"sizes": (2**52 + 1,)},
        "nothing",
    ),
    (
        "Range",
        [known(0, "INT8"), known(63, "INT8"), known(60, "INT8")],
        {"sizes": (2,)},
        "[[0, 0], [60, 60]]",
    ),
    (
        "Range",
        [known(0, "INT8"), known(64, "INT8"), known(60, "INT8")],
        {"sizes": (2,)},
        "nothing",
    ),
    (
        "Range",
        [known(0), known(2**14 + 1), known(1)],
        {"sizes": (2**14 + 1,)},
        "[[0, 16384]]",
    ),
]

SUMS: list[Case] = [
    ("ReduceSum", [v((1, 2), (3, 5)), known([0])], {"sizes": (1,)}, "[[4, 7]]"),
    ("ReduceSum", [v((1, 2), (3, 5))], {"sizes": (), "keepdims": 0}, "[4, 7]"),
    (
        "ReduceSum",
        [v((1, 2), (3, 5)), known(np.zeros(0))],
        {"noop_with_empty_axes": 1},
        "[[1, 2], [3, 5]]",
    ),
    ("ReduceSum", [v((1, 2), sizes=(4,)), known([0])], {"sizes": (1,)}, "[[4, 8]]"),
    ("ReduceSum", [ROWS, known([0])], {"sizes": (1, 3)}, "[[[5, 5], [7, 7], [9, 9]]]"),
    (
        "ReduceSum",
        [ROWS, known([-1])],
        {"sizes": (2,), "keepdims": 0},
        "[[6, 6], [15, 15]]",
    ),
    ("ReduceSum", [ROWS], {"axes": (1, -1), "sizes": (2, 1)}, "[[[6, 6]], [[15, 15]]]"),
    ("ReduceSum", [ROWS], {"sizes": (1, 1)}, "[[[21, 21]]]"),
    ("ReduceSum", [ROWS, of_sizes(1)], {"sizes": None}, "nothing"),
    ("ReduceSum", [unknown("INT64", None), known([0])], {"sizes": None}, "nothing"),
    ("ReduceSum", [v((1, 2), sizes=(N,)), known([0])], {"sizes": (1,)}, "[[n, 2*n]]"),
    (
        "ReduceSum",
        [v((-3, 2), sizes=(N, M)), known([1])],
        {"sizes": (N, 1)},
        "[[[-3*m, 2*m]]]",
    ),
    (
        "ReduceSum",
        [v((1, 2), sizes=(COUNT,)), known([0])],
        {"sizes": (1,)},
        "[[?, 2*?]]",
    ),
    ("ReduceSum", [v((1, 2), sizes=(None,)), known([0])], {"sizes": (1,)}, "nothing"),
    ("ReduceSum", [v((1, 2), sizes=(0,)), known([0])], {"sizes": (1,)}, "nothing"),
    ("ReduceSum", [r((1, 2)), known([0])], {"sizes": (1,)}, "[[1.0, 2.0]]"),
    (
        "ReduceSum",
        [v((0, 14), sizes=(9,), of="INT8"), known([0])],
        {"sizes": (1,)},
        "[[0, 126]]",
    ),
    (
        "ReduceSum",
        [v((0, 127), sizes=(1,), of="INT8"), known([0])],
        {"sizes": (1,)},
        "nothing",
    ),
    ("ReduceSum", [v((0, 2**52), sizes=(2,)), known([0])], {"sizes": (1,)}, "nothing"),
    (
        "ReduceSum",
        [v((-(2**52) + 1, 0), sizes=(2,)), known([0])],
        {"sizes": (1,)},
        "[[-9007199254740990, 0]]",
    ),
    ("ReduceMax", [v((1, 2), (3, 5)), known([0])], {"sizes": (1,)}, "[[1, 5]]"),
    (
        "ReduceMin",
        [ROWS],
        {"axes": (0,), "sizes": (3,), "keepdims": 0},
        "[[1, 4], [2, 5], [3, 6]]",
    ),
    ("ReduceMax", [v((1, 2), sizes=(N,)), known([0])], {"sizes": (1,)}, "[[1, 2]]"),
    ("ReduceMax", [v((1, 2), sizes=(COUNT,)), known([0])], {"sizes": (1,)}, "nothing"),
    ("ReduceMax", [v((1, 2), sizes=(None,)), known([0])], {"sizes": (1,)}, "nothing"),
    ("CumSum", [v((1, 2), sizes=(3,)), known(0)], {}, "[[1, 2], [2, 4], [3, 6]]"),
    ("CumSum", [v((-2, 1), sizes=(2,)), known(0)], {}, "[[-2, 1], [-4, 2]]"),
    ("CumSum", [v((1, 2), sizes=(2,)), known(0)], {"exclusive": 1}, "[[0, 0], [1, 2]]"),
    ("CumSum", [v((1, 2), sizes=(2,)), known(0)], {"reverse": 1}, "[[2, 4], [1, 2]]"),
    (
        "CumSum",
        [v((1, 2), sizes=(2, 1)), known(-2)],
        {"exclusive": 1, "reverse": 1},
        "[[[1, 2]], [[0, 0]]]",
    ),
    ("CumSum", [v((1, 2), sizes=(2**12 + 1,)), known(0)], {}, "[[1, 8194]]"),
    ("CumSum", [v((-1, 2), sizes=(N,)), known(0)], {}, "[[-n, 2*n]]"),
    ("CumSum", [v((0, 1), (0, 5), sizes=(2,)), known(0)], {}, "[[0, 5], [0, 10]]"),
    ("CumSum", [v((1, 2), sizes=(None,)), known(0)], {}, "nothing"),
    ("CumSum", [r((1, 2)), known(0)], {}, "[[1.0, 2.0]]"),
    ("CumSum", [unknown("INT64", None), known(0)], {}, "nothing"),
    ("CumSum", [ROWS, of_sizes()], {}, "nothing"),
]

SELECTED: list[Case] = [
    ("Compress", [v((1, 5), (2, 9)), b(1)], {"sizes": (None,)}, "[[1, 9]]"),
    ("OneHot", [v(1, 7), known(3), known([4, 6])], {"sizes": (2, 3)}, "[[[4, 6]]]"),
    ("GatherElements", [v((1, 5), (2, 9)), v(0)], {"sizes": (1,)}, "[[1, 9]]"),
    ("GatherND", [v((1, 5), (2, 9)), v(0)], {"sizes": ()}, "[1, 9]"),
    ("Pad", [v((3, 5)), known([1, 1])], {"sizes": (3,)}, "[[0, 5]]"),
    ("Pad", [v((3, 5)), known([1, 1]), known(-7)], {"sizes": (3,)}, "[[-7, 5]]"),
    ("Pad", [r((3, 5))], {"sizes": (3,), "value": 9.0}, "[[3.0, 9.0]]"),
    ("ScatterElements", [v((3, 5)), v(0), v((-2, 4))], {}, "[[-2, 5]]"),
    ("ScatterElements", [v((3, 5)), v(0), v((-2, 4))], {"reduction": "add"}, "nothing"),
    ("ScatterND", [v((3, 5)), v(0), v((4, 7))], {"reduction": "none"}, "[[3, 7]]"),
    ("ScatterND", [r((3, 5)), v(0), r((4, 7), nan=True)], {}, "[[3.0, 7.0]] nan"),
    ("Trilu", [ROWS], {}, "[[[0, 6]]]"),
    (
        "Reshape",
        [ROWS, None],
        {"sizes": (3, 2)},
        "[[[1, 1], [2, 2]], [[3, 3], [4, 4]], [[5, 5], [6, 6]]]",
    ),
    (
        "Flatten",
        [ROWS],
        {"sizes": (6,)},
        "[[1, 1], [2, 2], [3, 3], [4, 4], [5, 5], [6, 6]]",
    ),
    ("Squeeze", [v((1, 5), (2, 9), sizes=(2,))], {"sizes": (2,)}, "[[1, 5], [2, 9]]"),
    ("Identity", [r((1, 5), nan=True)], {}, "[[1.0, 5.0]] nan"),
    (
        "Unsqueeze",
        [ROWS],
        {"sizes": (1, 2, 3)},
        "[[[[1, 1], [2, 2], [3, 3]], [[4, 4], [5, 5], [6, 6]]]]",
    ),
    (
        "Unsqueeze",
        [v((1, 5), (2, 9), sizes=(N, 2))],
        {"sizes": (1, N, 2)},
        "[[[[1, 5], [2, 9]]]]",
    ),
    (
        "Reshape",
        [v((1, 5), (2, 9), sizes=(N, 2))],
        {"sizes": (None, 2)},
        "[[[1, 5], [2, 9]]]",
    ),
    ("Reshape", [v((1, 5), (2, 9), sizes=(N, 2))], {"sizes": (2 * N,)}, "[[1, 9]]"),
    ("Reshape", [v((1, 5), (2, 9), sizes=(N, 2))], {"sizes": None}, "[1, 9]"),
    ("Reshape", [ROWS], {"sizes": (2, 2)}, "[[[1, 6]]]"),
    ("Reshape", [of_columns(17)], {"sizes": (1, N, 17)}, "[[[[0, 33]]]]"),
    ("Reshape", [of_columns(16)], {"sizes": (1, N, 16)}, "(1, 1, 16, 2) [0, 31]"),
    (
        "Transpose",
        [ROWS],
        {"sizes": (3, 2)},
        "[[[1, 1], [4, 4]], [[2, 2], [5, 5]], [[3, 3], [6, 6]]]",
    ),
    (
        "Transpose",
        [known([[[1, 2]], [[3, 4]]])],
        {"perm": (1, 0, 2), "sizes": (1, 2, 2)},
        "[[[[1, 1], [2, 2]], [[3, 3], [4, 4]]]]",
    ),
    ("Transpose", [unknown("INT8", None)], {}, "[-128, 127]"),
    ("Expand", [v((1, 5), (2, 9)), None], {"sizes": (3, 2)}, "[[[1, 5], [2, 9]]]"),
    ("Expand", [v((1, 5), (2, 9)), None], {"sizes": None}, "[1, 9]"),
    (
        "Tile",
        [v((1, 5), (2, 9)), known([2])],
        {"sizes": (4,)},
        "[[1, 5], [2, 9], [1, 5], [2, 9]]",
    ),
    ("Tile", [v((1, 5), (2, 9)), of_sizes(1)], {"sizes": (None,)}, "[[1, 9]]"),
    (
        "Tile",
        [v((1, 5), (2, 9)), known([2**13])],
        {"sizes": (2**14,)},
        "(16384, 2) [1, 9]",
    ),
    (
        "Tile",
        [v((1, 5), (2, 9)), known([2**13 + 1])],
        {"sizes": (2**14 + 2,)},
        "[[1, 9]]",
    ),
    (
        "Slice",
        [v(0, 1, 2, 3, 4), known([1]), known([3])],
        {"sizes": (2,)},
        "[[1, 1], [2, 2]]",
    ),
    (
        "Slice",
        [v(0, 1, 2, 3, 4), known([-2]), known([LAST])],
        {"sizes": (2,)},
        "[[3, 3], [4, 4]]",
    ),
    (
        "Slice",
        [v(0, 1, 2, 3, 4), known([3]), known([2**31 - 1])],
        {"sizes": (2,)},
        "[[3, 3], [4, 4]]",
    ),
    (
        "Slice",
        [v(0, 1, 2, 3, 4), known([LAST]), known([-9]), known([0]), known([-2])],
        {"sizes": (3,)},
        "[[4, 4], [2, 2], [0, 0]]",
    ),
    (
        "Slice",
        [v(0, 1, 2, 3, 4), known([-9]), known([-10]), known([0]), known([-1])],
        {"sizes": (1,)},
        "[[0, 0]]",
    ),
    (
        "Slice",
        [ROWS, known([0]), known([2]), known([-1])],
        {"sizes": (2, 2)},
        "[[[1, 1], [2, 2]], [[4, 4], [5, 5]]]",
    ),
    (
        "Slice",
        [ROWS, known([1]), known([2])],
        {"sizes": (1, 3)},
        "[[[4, 4], [5, 5], [6, 6]]]",
    ),
    (
        "Slice",
        [ROWS, known([1, 1]), known([2, 3])],
        {"sizes": (1, 2)},
        "[[[5, 5], [6, 6]]]",
    ),
    (
        "Slice",
        [ROWS],
        {"starts": (1,), "ends": (2,), "axes": (1,), "sizes": (2, 1)},
        "[[[2, 2]], [[5, 5]]]",
    ),
    (
        "Slice",
        [ROWS, of_sizes(1), known([2])],
        {"sizes": (None, 3)},
        "[[[1, 4], [2, 5], [3, 6]]]",
    ),
    (
        "Slice",
        [ROWS, known([0]), known([2]), of_sizes(1)],
        {"sizes": (None, None)},
        "[[[1, 6]]]",
    ),
    (
        "Slice",
        [ROWS, known([0]), known([2]), known([0]), of_sizes(1)],
        {"sizes": (None, 3)},
        "[[[1, 4], [2, 5], [3, 6]]]",
    ),
    ("Slice", [unknown("INT8", None), known([0]), known([2])], {}, "[-128, 127]"),
    (
        "Slice",
        [v((1, 5), (2, 9), sizes=(N, 2)), known([0]), known([2])],
        {"sizes": (2, 2)},
        "[[[1, 5], [2, 9]]]",
    ),
    (
        "Split",
        [v(0, 1, 2, 3, 4), known([2, 3])],
        {"types": [OpenType("INT64", (2,)), OpenType("INT64", (3,))]},
        "[[0, 0], [1, 1]] and [[2, 2], [3, 3], [4, 4]]",
    ),
    (
        "Split",
        [ROWS, known([1, 2])],
        {"axis": 1, "types": [OpenType("INT64", (2, 1)), OpenType("INT64", (2, 2))]},
        "[[[1, 1]], [[4, 4]]] and [[[2, 2], [3, 3]], [[5, 5], [6, 6]]]",
    ),
    (
        "Split",
        [v(0, 1, 2, 3, 4), of_sizes(2)],
        {"types": [OpenType("INT64", (None,)), OpenType("INT64", None)]},
        "[[0, 4]] and [0, 4]",
    ),
    (
        "Concat",
        [v((1, 5)), v((2, 9), 4)],
        {"axis": 0, "sizes": (3,)},
        "[[1, 5], [2, 9], [4, 4]]",
    ),
    (
        "Concat",
        [ROWS, known([[7], [8]])],
        {"axis": -1, "sizes": (2, 4)},
        "[[[1, 1], [2, 2], [3, 3], [7, 7]], [[4, 4], [5, 5], [6, 6], [8, 8]]]",
    ),
    (
        "Concat",
        [ROWS, v(9, sizes=(1, 3))],
        {"axis": 0, "sizes": (3, 3)},
        (
            "[[[1, 1], [2, 2], [3, 3]], [[4, 4], [5, 5], [6, 6]], [[9, 9], [9, 9], [9,"
            " 9]]]"
        ),
    ),
    (
        "Concat",
        [r((1, 5)), r((2, 9), nan=True)],
        {"axis": 0, "sizes": (2,)},
        "[[1.0, 5.0], [2.0, 9.0]] nan",
    ),
    (
        "Concat",
        [r((1, 5)), v((2, 9), sizes=(None,), of="FLOAT")],
        {"axis": 0, "sizes": (None,)},
        "[[1.0, 9.0]]",
    ),
    (
        "Concat",
        [v((1, 5)), v((2, 9), sizes=None)],
        {"axis": 0, "sizes": (2,)},
        "nothing",
    ),
    ("Concat", [v(1, sizes=(N, 1)), v(2, sizes=(M, 5))], {"axis": 1}, "[[[1, 2]]]"),
    ("Concat", [v(1, sizes=(COUNT, 1)), v(2, sizes=(M, 5))], {"axis": 1}, "nothing"),
    (
        "Concat",
        [v(1, sizes=(COUNT, 1)), v(2, sizes=(COUNT, 5))],
        {"axis": 1},
        "[[[1, 2]]]",
    ),
    ("Concat", [v(1, sizes=(COUNT, 0)), v(2, sizes=(M, 5))], {"axis": 1}, "[[[2, 2]]]"),
    ("Concat", [v((1, 5)), v((2, 9))], {"axis": 0, "sizes": None}, "[1, 9]"),
    (
        "Concat",
        [v(1, sizes=(2**13,)), v(2, sizes=(2**13,))],
        {"axis": 0, "sizes": (2**14,)},
        "(16384, 2) [1, 2]",
    ),
    (
        "Concat",
        [v(1, sizes=(1,)), v(2, sizes=(2**14,))],
        {"axis": 0, "sizes": (2**14 + 1,)},
        "[[1, 2]]",
    ),
    (
        "Gather",
        [v((1, 5), (2, 9), 4), known([2, 0])],
        {"sizes": (2,)},
        "[[4, 4], [1, 5]]",
    ),
    (
        "Gather",
        [v((1, 5), (2, 9), 4), known([-3, -1])],
        {"sizes": (2,)},
        "[[1, 5], [4, 4]]",
    ),
    ("Gather", [v((1, 5), (2, 9), 4), known(3)], {"sizes": ()}, "[1, 9]"),
    ("Gather", [v((1, 5), (2, 9), 4), known(-4)], {"sizes": ()}, "[1, 9]"),
    ("Gather", [ROWS, known(1)], {"axis": 1, "sizes": (2,)}, "[[2, 2], [5, 5]]"),
    (
        "Gather",
        [ROWS, known([[1]])],
        {"axis": -1, "sizes": (2, 1, 1)},
        "[[[[2, 2]]], [[[5, 5]]]]",
    ),
    ("Gather", [ROWS, of_sizes(4)], {"sizes": (4, 3)}, "[[[1, 4], [2, 5], [3, 6]]]"),
    (
        "Gather",
        [ROWS, of_sizes(4)],
        {"axis": 1, "sizes": (2, 4)},
        "[[[1, 3]], [[4, 6]]]",
    ),
    ("Gather", [ROWS, unknown("INT64", None)], {"sizes": None}, "[1, 6]"),
    ("Gather", [v((1, 5), sizes=(9,)), known([8])], {"sizes": (1,)}, "[[1, 5]]"),
    ("ConstantOfShape", [known([2])], {"to": "FLOAT", "sizes": (2,)}, "[[0.0, 0.0]]"),
    (
        "ConstantOfShape",
        [known([2])],
        {"value": np.array([7]), "sizes": (2,)},
        "[[7, 7]]",
    ),
]


@pytest.mark.parametrize("cases", [ARITHMETIC, CHOICES, POSITIONS, SUMS, SELECTED])
def test_the_bounds_of_operations(cases: list[Case]) -> None:
    found = [
        shown(computed(operator, *inputs, **options))
        for operator, inputs, options, _ in cases
    ]
    pairs = zip(found, cases, strict=True)
    assert not [(case, own) for own, case in pairs if own != case[-1]]


@pytest.mark.parametrize(
    ("name", "holds", "expected"),
    [
        ("Less", True, "[[0, 4]] and [[3, 5]]"),
        ("Less", False, "[[3, 9]] and [[3, 5]]"),
        ("LessOrEqual", True, "[[0, 5]] and [[3, 5]]"),
        ("LessOrEqual", False, "[[4, 9]] and [[3, 5]]"),
        ("Greater", True, "[[4, 9]] and [[3, 5]]"),
        ("Greater", False, "[[0, 5]] and [[3, 5]]"),
        ("GreaterOrEqual", True, "[[3, 9]] and [[3, 5]]"),
        ("GreaterOrEqual", False, "[[0, 4]] and [[3, 5]]"),
        ("Equal", True, "[[3, 5]] and [[3, 5]]"),
        ("Equal", False, "[[0, 9]] and [[3, 5]]"),
    ],
)
def test_operands_of_a_comparison_that_is_true_or_false(
    name: str, holds: bool, expected: str
) -> None:
    assert shown(where_compared(name, holds, v((0, 9)), v((3, 5)))) == expected


def test_a_comparison_tells_nothing_of_numbers_that_providers_order_otherwise() -> None:
    a, other = v((0, 9)), v((3, 2**40))
    assert where_compared("Less", True, a, other) == (a, other)
    assert shown(where_compared("Equal", True, a, other)) == "[[3, 9]] and [[3, 9]]"
    for a, other in ((r((0, 9), nan=True), r(3)), (r((0, 9)), r(3, nan=True))):
        assert where_compared("Less", False, a, other) == (a, other)
        assert (
            shown(where_compared("Less", True, a, other))
            == "[[0.0, 3.0]] and [[3.0, 3.0]]"
        )


def test_both_operands_of_a_comparison_are_limited() -> None:
    assert shown(limited_below(v((2, 9)), v((1, 5)), True)) == "[[2, 4]] and [[3, 5]]"
    assert shown(limited_below(v((2, 9)), v((1, 5)), False)) == "[[2, 5]] and [[2, 5]]"
    assert (
        shown(limited_below(r((2, 9)), r((1, 5)), True))
        == "[[2.0, 5.0]] and [[2.0, 5.0]]"
    )
    apart = limited_below(v((2, 9), (0, 9)), v((1, 5), (1, 7)), True)
    assert shown(apart) == "[[2, 4], [0, 6]] and [[3, 5], [1, 7]]"
    whole = limited_below(v((2, 9)), v((1, 5), (1, 7)), True)  # one number beside two
    assert shown(whole) == "[[2, 6]] and [[3, 5], [3, 7]]"
    assert shown([met(v((0, 9), (2, 9)), v((1, 5), (3, 4)))]) == "[[1, 5], [2, 5]]"
    wrapped = met(v((0, 9), nan=True), v((1, 5)))
    assert shown([wrapped]) == "[[1, 5]] nan"
    told = replace(v((0, 9)), why=(Reason("a"),), stops=("b",))
    assert (met(told, v(1)).why, met(told, v(1)).stops) == ((Reason("a"),), ("b",))


@pytest.mark.parametrize(
    ("operator", "inputs", "options", "expected"),
    [
        ("ArgMax", [of_sizes(5)], {}, ("ArgMax over axis of 5",)),
        ("ArgMax", [of_sizes(N)], {}, ("ArgMax",)),
        (
            "NonZero",
            [of_sizes(5, N, None)],
            {"sizes": (3, None)},
            ("NonZero over axes of 5, n, ?",),
        ),
        (
            "NonMaxSuppression",
            [of_sizes(1, 9, 4), of_sizes(1, 2, 9)],
            {"sizes": (None, 3)},
            ("NonMaxSuppression of 9 boxes",),
        ),
        (
            "NonMaxSuppression",
            [of_sizes(1, None, 4), of_sizes(1, 2, 9)],
            {"sizes": (None, 3)},
            ("NonMaxSuppression of ? boxes",),
        ),
        ("Where", [b(1), known(2), of_sizes()], {"sizes": ()}, ("constant",)),
        ("Where", [b(0), known(2), of_sizes()], {"sizes": ()}, ()),
    ],
)
def test_bounds_say_what_they_come_from(
    operator: str,
    inputs: list[Bounds],
    options: dict[str, Any],
    expected: tuple[str, ...],
) -> None:
    values = computed(operator, *inputs, **options) or ()
    texts = [tuple(reason.text for reason in value.why) for value in values]
    assert texts == [expected]


def test_a_choice_is_stopped_by_what_may_be_chosen() -> None:
    for condition, expected in ((b(1), ()), (b(0), ("x",)), (b((0, 1)), ("x",))):
        found = computed("Where", condition, v((0, 1)), unknown("INT64", (1,), "x"))
        assert [one.stops for one in found or ()] == [expected]


def test_a_wrapped_integer_is_as_it_was_for_a_cast_behind_a_skip_or_choice() -> None:
    wrapped = v((1, 5), nan=True)
    for operator in ("Add", "Sub", "Mul", "Div"):
        assert shown(computed(operator, wrapped, v(1)))[-3:] == "nan"
    for operator in ("Neg", "Abs", "Relu", "Clip"):
        assert shown(computed(operator, wrapped))[-3:] != "nan"
    for operator in ("Identity", "Trilu", "Tile"):
        assert shown(computed(operator, wrapped, known([1])))[-3:] == "nan"


def test_the_tables_name_operators_of_onnx() -> None:
    assert all(map(onnx.defs.has, TRANSFERS))
    assert TRANSFERS.keys() >= ELEMENTWISE | QUIET
    assert {
        "Where",
        "Cast",
        "Compress",
        "Reshape",
        "Transpose",
        "Expand",
        "Tile",
        "Slice",
    } <= QUIET
    assert {"Split", "Concat", "Gather", "ConstantOfShape"} <= QUIET
    assert not QUIET & {
        "Add",
        "Mul",
        "Mod",
        "Floor",
        "Neg",
        "Max",
        "Clip",
        "Less",
        "ArgMax",
    }
    assert not QUIET & {
        "TopK",
        "NonZero",
        "NonMaxSuppression",
        "Shape",
        "Range",
        "CumSum",
    }


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
            computed(operator, v(1), v(1))
        found |= {operator} if called else set()
    assert found == {
        *(
            "Add",
            "And",
            "Div",
            "Equal",
            "Greater",
            "GreaterOrEqual",
            "Less",
            "LessOrEqual",
            "Max",
        ),
        *("Min", "Mod", "Mul", "Or", "Sub", "Where"),
    }


@pytest.mark.parametrize(
    ("operator", "others", "options"),
    [
        ("Where", [v((0, N)), v(0)], {"to": "INT64"}),
        ("Compress", [b(1)], {"sizes": (None,)}),
        ("Pad", [known([1, 1])], {}),
        ("ScatterND", [v(0), v(0)], {}),
        ("Reshape", [None], {"sizes": (2, 1)}),
        ("Transpose", [], {}),
        ("Expand", [None], {}),
        ("Tile", [known([2])], {}),
        ("Slice", [known([0]), known([1])], {}),
        ("Split", [known([1])], {}),
        ("Concat", [v(0)], {"axis": 0, "sizes": (3,)}),
        ("Gather", [v(0)], {"sizes": (1,)}),
        (
            "TopK",
            [known([1])],
            {"types": [OpenType("INT64", (1,)), OpenType("INT64", (1,))]},
        ),
        ("ReduceMax", [known([0])], {"sizes": (1,)}),
        ("CumSum", [known(0)], {"exclusive": 1, "sizes": (1,)}),
        ("Range", [v(N + 1, sizes=()), known(1)], {"sizes": (None,)}),
        ("Identity", [], {}),
        ("Max", [v(0)], {}),
        ("Clip", [], {}),
    ],
)
def test_open_sizes_are_kept(
    operator: str, others: list[Bounds | None], options: dict[str, Any]
) -> None:
    x = (
        b((0, 1))
        if operator == "Where"
        else known(0)
        if operator == "Range"
        else v((0, N), 0)
    )
    found = computed(operator, x, *others, **options)
    assert found is not None
    least, most = found[0].whole
    assert (least, most) == (0, N)
