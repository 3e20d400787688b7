"""Random operations of the operators whose sizes are told, with inputs of random
sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = Any


@dataclass
class Drawn:
    """An operation: its operator, the version of ONNX's, its inputs (None: left out),
    and so on."""

    operator: str
    version: int
    inputs: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    outputs: int = 1


Drawer = Callable[["Draw", str], Drawn]
DRAWERS: list[tuple[str, Drawer, float]] = []
"""The operators, the functions that draw an operation of them, and how often."""


def draws(*names: str, weight: float = 1) -> Callable[[Drawer], Drawer]:
    """Enter a function as what draws an operation of some operators."""

    def enter(drawer: Drawer) -> Drawer:
        DRAWERS.extend((name, drawer, weight) for name in names)
        return drawer

    return enter


Inputs = Callable[["Draw"], list[Any]]
Attributes = Callable[["Draw"], dict[str, Any]]


def simple(
    names: Sequence[str],
    least: int,
    inputs: Inputs,
    attributes: Attributes = lambda r: {},
    outputs: int = 1,
    weight: float = 1,
) -> None:
    """Enter operators whose parts are drawn one after the other.

    Args:
        names: The operators.
        least: The first version of ONNX's operators that has them.
        inputs: What draws the inputs.
        attributes: What draws the attributes.
        outputs: How many outputs they have.
        weight: How often they are drawn.
    """

    def drawer(r: Draw, op: str) -> Drawn:
        return Drawn(op, r.v(least), inputs(r), attributes(r), outputs)

    DRAWERS.extend((name, drawer, weight) for name in names)


SIZES = [0, 1, 1, 2, 3, 4, 5, 7]


class Draw:
    """Random choices, each in one letter or word, as hundreds of them stand below."""

    def __init__(self, seed: int) -> None:
        self.g = np.random.default_rng(seed)

    def i(self, low: int, high: int) -> int:
        """Return an integer, both ends included."""
        return int(self.g.integers(low, high + 1))

    def b(self, chance: float = 0.5) -> bool:
        """Return whether something of this chance happens."""
        return bool(self.g.random() < chance)

    def c(self, choices: Sequence[Any]) -> Any:
        """Return one of the choices."""
        return choices[int(self.g.integers(len(choices)))]

    def v(self, low: int = 7, high: int = 24) -> int:
        """Return a version of ONNX's operators."""
        return self.i(low, high)

    def size(self) -> int:
        """Return a size, seldom 0."""
        return self.c(SIZES)

    def some(self) -> int:
        """Return a size of at least 1."""
        return self.i(1, 5)

    def shape(self, low: int = 0, high: int = 4) -> tuple[int, ...]:
        """Return sizes of some rank."""
        return tuple(self.size() for _ in range(self.i(low, high)))

    def pos(self, low: int = 1, high: int = 4) -> tuple[int, ...]:
        """Return sizes of at least 1."""
        return tuple(self.some() for _ in range(self.i(low, high)))

    def f(self, shape: Sequence[int]) -> Array:
        """Return floats."""
        return np.asarray(self.g.standard_normal(tuple(shape)), np.float32)

    def n(
        self, shape: Sequence[int], low: int = 0, high: int = 5, t: Any = np.int64
    ) -> Array:
        """Return integers."""
        return np.asarray(self.g.integers(low, high + 1, size=tuple(shape))).astype(t)

    def bo(self, shape: Sequence[int]) -> Array:
        """Return booleans."""
        return self.n(shape, 0, 1).astype(bool)

    def any(self, shape: Sequence[int]) -> Array:
        """Return floats, integers or booleans."""
        return self.c([self.f, self.n, self.bo])(shape)

    def num(self, shape: Sequence[int]) -> Array:
        """Return floats or integers."""
        return self.c([self.f, self.n])(shape)

    def axis(self, rank: int) -> int:
        """Return an axis, which may count from the end."""
        return self.i(-rank, rank - 1)

    def axes(self, rank: int) -> list[int]:
        """Return some axes, perhaps none."""
        chosen: list[int] = self.g.permutation(rank)[: self.i(0, rank)].tolist()
        return [axis - (rank if self.b(0.3) else 0) for axis in chosen]

    def bcast(self, count: int = 2, high: int = 4) -> list[tuple[int, ...]]:
        """Return the sizes of some values that mostly broadcast."""
        base = self.shape(0, high)
        out = list[tuple[int, ...]]()
        for _ in range(count):
            own = base[self.i(0, len(base)) if self.b(0.3) else 0 :]
            kept = (n if self.b(0.97) else self.size() for n in own)
            out.append(tuple(1 if self.b(0.3) else n for n in kept))
        return out

    def opt(self, chance: float, **attributes: Any) -> dict[str, Any]:
        """Return some of the attributes."""
        return {name: value for name, value in attributes.items() if self.b(chance)}


def i64(numbers: Any) -> Array:
    return np.array(numbers, np.int64)


UNARY = """
Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu
HardSigmoid HardSwish IsInf IsNaN LeakyRelu Log Mish Neg Reciprocal Relu Round
Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh
ThresholdedRelu Identity
"""


@draws(*UNARY.split(), weight=0.15)
def unary(r: Draw, op: str) -> Drawn:
    return Drawn(op, r.v(24 if op == "Swish" else 7), [r.f(r.shape())])


@draws("Not", "BitwiseNot", weight=0.3)
def nots(r: Draw, op: str) -> Drawn:
    return Drawn(
        op,
        r.v(18 if op[0] == "B" else 7),
        [r.bo(r.shape()) if op == "Not" else r.n(r.shape(), t=np.int32)],
    )


@draws(
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Pow",
    "Equal",
    "Less",
    "Greater",
    "GreaterOrEqual",
    "LessOrEqual",
    "Mod",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
)
def binary(r: Draw, op: str) -> Drawn:
    a, b = r.bcast()
    t = r.c([np.float32, np.int64, np.int32]) if op not in ("Mod",) else np.int64
    if op.startswith("Bit"):
        t = np.int32
    made = [r.f(s) if t == np.float32 else r.n(s, 1, 5, t) for s in (a, b)]
    return Drawn(op, r.v(18 if op.startswith("Bit") else 7), made)


@draws("And", "Or", "Xor")
def logic(r: Draw, op: str) -> Drawn:
    a, b = r.bcast()
    return Drawn(op, r.v(), [r.bo(a), r.bo(b)])


@draws("BitShift")
def shift(r: Draw, op: str) -> Drawn:
    a, b = r.bcast()
    return Drawn(
        op, r.v(11), [r.n(a, t=np.uint32), r.n(b, t=np.uint32)], {"direction": "LEFT"}
    )


@draws("PRelu")
def prelu(r: Draw, op: str) -> Drawn:
    a, b = r.bcast()
    return Drawn(op, r.v(), [r.f(a), r.f(b)])


simple(["Max", "Min", "Sum", "Mean"], 7, lambda r: [r.f(s) for s in r.bcast(r.i(1, 3))])


@draws("Where")
def where(r: Draw, op: str) -> Drawn:
    a, b, c = r.bcast(3)
    return Drawn(op, r.v(9), [r.bo(a), r.f(b), r.f(c)])


@draws("Expand", weight=3)
def expand(r: Draw, op: str) -> Drawn:
    a, b = r.bcast()
    return Drawn(op, r.v(8), [r.f(a), i64(b)])


simple(
    ["Cast"],
    7,
    lambda r: [r.num(r.shape())],
    lambda r: {"to": r.c([1, 6, 7, 9, 10, 11, 8, 2, 3])},
)


simple(["CastLike"], 15, lambda r: [r.num(r.shape()), r.any(r.shape())])


@draws("Clip")
def clip(r: Draw, op: str) -> Drawn:
    v = r.v()
    x = r.f(r.shape())
    if v < 11:
        return Drawn(op, v, [x], r.opt(0.5, min=0.0, max=1.0))
    return Drawn(op, v, [x, r.f(()) if r.b() else None, r.f(()) if r.b() else None])


@draws("Dropout")
def dropout(r: Draw, op: str) -> Drawn:
    v = r.v()
    ins = [r.f(r.shape())]
    if v >= 12 and r.b():
        ins.append(np.float32(0.3) + np.zeros((), np.float32))
        if r.b():
            ins.append(np.array(r.b()))
    return Drawn(op, v, ins, outputs=r.i(1, 2))


REDUCE = """
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
ReduceProd ReduceSum ReduceSumSquare
"""


@draws(*REDUCE.split())
def reduce(r: Draw, op: str) -> Drawn:
    v = r.v()
    x = r.f(r.shape())
    at = r.opt(0.5, keepdims=r.i(0, 1))
    ins = [x]
    if v >= (13 if op == "ReduceSum" else 18):
        if r.b(0.8):
            ins.append(i64(r.axes(x.ndim)))
        at |= r.opt(0.5, noop_with_empty_axes=r.i(0, 1))
    elif r.b(0.8):
        at["axes"] = r.axes(x.ndim)
    if at.get("axes") == []:
        del at["axes"]
    return Drawn(op, v, ins, at)


@draws("ArgMax", "ArgMin", weight=2)
def arg(r: Draw, op: str) -> Drawn:
    x = r.f(r.shape(0 if r.b(0.1) else 1))
    at = r.opt(
        0.5,
        keepdims=r.i(0, 1),
        axis=r.axis(max(x.ndim, 1)),
        select_last_index=r.i(0, 1),
    )
    v = r.v()
    if v < 12:
        at.pop("select_last_index", 0)
    return Drawn(op, v, [x], at)


@draws("Softmax", "LogSoftmax", "Hardmax")
def softmax(r: Draw, op: str) -> Drawn:
    x = r.f(r.shape(1))
    return Drawn(op, r.v(), [x], r.opt(0.7, axis=r.axis(x.ndim)))


@draws("LpNormalization")
def lpn(r: Draw, op: str) -> Drawn:
    x = r.f(r.shape(1))
    return Drawn(op, r.v(), [x], r.opt(0.7, axis=r.axis(x.ndim)))


@draws("LayerNormalization", "RMSNormalization", weight=2)
def layernorm(r: Draw, op: str) -> Drawn:
    s = r.shape(1)
    a = r.axis(len(s))
    x = r.f(s)
    long = op[0] == "L"
    rest = s[a:] if r.b(0.9) else r.bcast(1)[0]
    rest = tuple(1 if r.b(0.1) else n for n in rest)
    ins = [x, r.f(rest)] + ([r.f(rest)] if long and r.b() else [])
    return Drawn(
        op, r.v(17 if long else 23), ins, {"axis": a}, r.i(1, 3) if long else 1
    )


@draws("InstanceNormalization")
def instn(r: Draw, op: str) -> Drawn:
    s = r.shape(2, 5)
    return Drawn(op, r.v(), [r.f(s), r.f(s[1:2]), r.f(s[1:2])])


@draws("BatchNormalization")
def batchn(r: Draw, op: str) -> Drawn:
    s = r.shape(1, 4)
    c = s[1:2] if len(s) > 1 else (1,)
    v = r.v()
    at = dict[str, Any]()
    if v >= 14 and r.b(0.2):
        at["training_mode"] = 1
    return Drawn(
        op, v, [r.f(s)] + [r.f(c) for _ in range(3)] + [abs(r.f(c))], at, 3 if at else 1
    )


simple(["LRN"], 7, lambda r: [r.f(r.shape(3, 4))], lambda r: {"size": r.c([1, 3])})


def matshapes(r: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    k = r.size()
    a, b = r.bcast(2, 2)
    a, b = (*a, r.size(), k), (*b, k, r.size())
    if r.b(0.2):
        a = (k,)
    if r.b(0.2):
        b = (k,)
    return a, b


@draws("MatMul", "MatMulInteger", "QLinearMatMul", weight=2)
def matmul(r: Draw, op: str) -> Drawn:
    a, b = matshapes(r)
    if op == "MatMul":
        return Drawn(op, r.v(), [r.f(a), r.f(b)])
    left, right = r.n(a, t=np.uint8), r.n(b, t=np.uint8)
    if op == "MatMulInteger":
        z = [[], [np.uint8(3) + np.zeros((), np.uint8)]][r.i(0, 1)]
        return Drawn(op, r.v(10), [left, right, *z])
    sc, z = np.array(0.1, np.float32), np.array(2, np.uint8)
    return Drawn(op, r.v(10), [left, sc, z, right, sc, z, sc, z])


@draws("Gemm", weight=2)
def gemm(r: Draw, op: str) -> Drawn:
    m, k, n = r.size(), r.size(), r.size()
    ta, tb = r.i(0, 1), r.i(0, 1)
    third = r.c([(), (1,), (n,), (m, 1), (1, n), (m, n), (1, 1)])
    v = r.v()
    ins = [r.f((k, m) if ta else (m, k)), r.f((n, k) if tb else (k, n))]
    if v < 11 or r.b(0.7):
        ins.append(r.f(third))
    return Drawn(op, v, ins, {"transA": ta, "transB": tb})


@draws("Einsum", weight=2)
def einsum(r: Draw, op: str) -> Drawn:
    d = {k: r.size() for k in "ijkbn"}
    eq = r.c(
        [
            "ij,jk->ik",
            "bij,bjk->bik",
            "ij,ij->",
            "ii->i",
            "ij->ji",
            "i,j->ij",
            "bij,bjk",
            "ij,jk",
            "bn,bnk->bk",
            "...ij,...jk->...ik",
            "i...,j->ij...",
            "ijk->",
            "ij->i",
            " i j , j k -> i k",
        ]
    )
    ins = list[Any]()
    for t in eq.split("->")[0].split(","):
        t = t.replace(" ", "")
        s = ()
        for ch in t.replace("...", "."):
            if ch == ".":
                s += tuple(r.c([1, d["b"]]) for _ in range(r.i(0, 2)))
            else:
                s += (d[ch] if r.b(0.95) else 1,)
        ins.append(r.f(s))
    return Drawn(op, r.v(12), ins, {"equation": eq})


def convattrs(
    r: Draw, k: int, kernel: Sequence[int], attr: bool = True, more: bool = True
) -> dict[str, Any]:
    at = dict[str, Any]()
    if attr or r.b(0.5):
        at["kernel_shape"] = list(kernel)
    at |= r.opt(0.5, strides=[r.i(1, 3) for _ in range(k)])
    if more:
        at |= r.opt(0.3, dilations=[r.i(1, 2) for _ in range(k)])
    if r.b(0.4):
        at["auto_pad"] = r.c(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if at.get("auto_pad", "NOTSET") == "NOTSET" and r.b(0.6):
        at["pads"] = [r.i(0, 2) for _ in range(2 * k)]
    return at


def spatial(r: Draw, k: int) -> tuple[int, ...]:
    return tuple(r.i(1, 9) if r.b(0.95) else 0 for _ in range(k))


@draws("MaxPool", "AveragePool", "LpPool", weight=4)
def pool(r: Draw, op: str) -> Drawn:
    k = r.i(1, 3)
    v = r.v()
    kernel = tuple(r.i(1, 3) for _ in range(k))
    at = convattrs(
        r, k, kernel, True, v >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op]
    )
    if v >= {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[op] and r.b():
        at["ceil_mode"] = r.i(0, 1)
    if op == "AveragePool":
        at |= r.opt(0.3, count_include_pad=1)
    if op == "MaxPool":
        at |= r.opt(0.1, storage_order=1)
    return Drawn(
        op,
        v,
        [r.f((r.size(), r.size(), *spatial(r, k)))],
        at,
        r.i(1, 2) if op == "MaxPool" else 1,
    )


@draws("Conv", "ConvInteger", "QLinearConv", weight=3)
def conv(r: Draw, op: str) -> Drawn:
    k = r.i(1, 3)
    kernel = tuple(r.i(1, 3) for _ in range(k))
    g = r.c([1, 1, 2])
    ci = g * r.i(1, 2)
    co = g * r.i(1, 2)
    at = convattrs(r, k, kernel, False) | ({"group": g} if g > 1 else {})
    xs, ws = (r.size(), ci, *spatial(r, k)), (co, ci // g, *kernel)
    if op == "Conv":
        return Drawn(
            op, r.v(), [r.f(xs), r.f(ws)] + ([r.f((co,))] if r.b() else []), at
        )
    left, right = r.n(xs, t=np.uint8), r.n(ws, t=np.uint8)
    if op == "ConvInteger":
        return Drawn(op, r.v(10), [left, right], at)
    sc, z = np.array(0.1, np.float32), np.array(2, np.uint8)
    return Drawn(op, r.v(10), [left, sc, z, right, sc, z, sc, z], at)


@draws("ConvTranspose", weight=3)
def convt(r: Draw, op: str) -> Drawn:
    k = r.i(1, 3)
    kernel = tuple(r.i(1, 3) for _ in range(k))
    g = r.c([1, 1, 2])
    ci = g * r.i(1, 2)
    co = r.i(1, 2)
    at = convattrs(r, k, kernel, False) | ({"group": g} if g > 1 else {})
    at |= r.opt(0.3, output_padding=[r.i(0, 1) for _ in range(k)])
    if r.b(0.15):
        at["output_shape"] = [r.i(1, 9) for _ in range(k)]
        at.pop("pads", 0)
    return Drawn(
        op, r.v(), [r.f((r.size(), ci, *spatial(r, k))), r.f((ci, co, *kernel))], at
    )


simple(
    ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"],
    7,
    lambda r: [r.f((r.size(), r.size(), *spatial(r, r.i(1, 3))))],
)


@draws("MaxRoiPool")
def maxroi(r: Draw, op: str) -> Drawn:
    rois = np.abs(r.f((r.size(), 5)))
    rois[:, 0] = 0
    return Drawn(
        op,
        r.v(),
        [r.f((r.some(), r.some(), 5, 6)), rois],
        {"pooled_shape": [r.i(1, 3), r.i(1, 3)]},
    )


@draws("RoiAlign")
def roi(r: Draw, op: str) -> Drawn:
    n = r.size()
    return Drawn(
        op,
        r.v(10),
        [r.f((r.some(), r.size(), 5, 6)), abs(r.f((n, 4))), np.zeros(n, np.int64)],
        r.opt(0.6, output_height=r.i(1, 3), output_width=r.i(1, 3)),
    )


@draws("DeformConv")
def deform(r: Draw, op: str) -> Drawn:
    n, ci, co, h, w, kh, kw = (
        r.some(),
        r.i(1, 2),
        r.i(1, 3),
        r.i(3, 6),
        r.i(3, 6),
        r.i(1, 3),
        r.i(1, 3),
    )
    at = r.opt(0.4, pads=[r.i(0, 1) for _ in range(4)], strides=[r.i(1, 2), r.i(1, 2)])
    p, s = at.get("pads", [0] * 4), at.get("strides", [1, 1])
    oh, ow = (h + p[0] + p[2] - kh) // s[0] + 1, (w + p[1] + p[3] - kw) // s[1] + 1
    return Drawn(
        op,
        r.v(19),
        [
            r.f((n, ci, h, w)),
            r.f((co, ci, kh, kw)),
            r.f((n, 2 * kh * kw, max(oh, 0), max(ow, 0))),
        ],
        at,
    )


@draws("Col2Im")
def col2im(r: Draw, op: str) -> Drawn:
    bh, bw, h, w = r.i(1, 2), r.i(1, 2), r.i(2, 4), r.i(2, 4)
    long = (h - bh + 1) * (w - bw + 1)
    return Drawn(
        op,
        r.v(18),
        [
            r.f((r.some(), r.i(1, 3) * bh * bw, long)),
            i64([h, w]),
            i64([bh, bw]),
        ],
    )


@draws("AffineGrid")
def affine(r: Draw, op: str) -> Drawn:
    n = r.size()
    if r.b():
        return Drawn(
            op,
            r.v(20),
            [r.f((n, 2, 3)), i64([n, r.some(), r.some(), r.some()])],
        )
    return Drawn(
        op,
        r.v(20),
        [
            r.f((n, 3, 4)),
            i64([n, r.some(), r.some(), r.some(), r.some()]),
        ],
    )


@draws("GridSample")
def grid(r: Draw, op: str) -> Drawn:
    n = r.size()
    v = r.v(16)
    k = 2 if v < 20 or r.b() else 3
    return Drawn(op, v, [r.f((n, r.size(), *r.pos(k, k))), r.f((n, *r.shape(k, k), k))])


@draws("Resize", "Upsample", weight=3)
def resize(r: Draw, op: str) -> Drawn:
    s = r.pos(2, 4) if r.b(0.7) else (1, 1, *r.pos(2, 2))
    if r.b(0.1):
        s = (0, *s[1:])
    x = r.f(s)
    sc = np.array(
        [
            r.c([1, 2, 3, 0.5, 0.9, 0.6, 1.1, 1.0, 0.1, 0.7]) if k >= len(s) - 2 else 1
            for k in range(len(s))
        ],
        np.float32,
    )
    if op == "Upsample":
        sc = np.ceil(sc) if r.b(0.5) else np.maximum(sc, 1)
        v = r.v(7, 9)
        return (
            Drawn(op, v, [x], {"scales": sc.tolist()})
            if v < 9
            else Drawn(op, v, [x, sc])
        )
    v = r.v(10)
    if v == 10:
        return Drawn(op, v, [x, sc])
    to = i64([r.i(1, 8) if k >= len(s) - 2 else s[k] for k in range(len(s))])
    at = dict[str, Any]()
    roi = r.c([None, np.zeros(0, np.float32)]) if v >= 13 else np.zeros(0, np.float32)
    if v >= 18 and r.b(0.5) and len(s) > 2:
        ax = [len(s) - 2, len(s) - 1]
        at["axes"] = ax
        sc, to = sc[ax], to[ax]
        if r.b(0.4):
            at["keep_aspect_ratio_policy"] = r.c(
                ["stretch", "not_larger", "not_smaller"]
            )
    at |= r.opt(
        0.5,
        mode=r.c(["nearest", "linear"]),
        coordinate_transformation_mode=r.c(
            ["half_pixel", "asymmetric", "align_corners"]
        ),
    )
    if r.b():
        at.pop("keep_aspect_ratio_policy", 0)
        return Drawn(op, v, [x, roi, sc], at)
    return Drawn(op, v, [x, roi, None if v >= 13 else np.zeros(0, np.float32), to], at)


@draws("DepthToSpace", "SpaceToDepth")
def d2s(r: Draw, op: str) -> Drawn:
    b = r.i(1, 3)
    c, h, w = r.size(), r.size(), r.size()
    s = (r.size(), c * b * b, h, w) if op[0] == "D" else (r.size(), c, h * b, w * b)
    at = {"blocksize": b}
    v = r.v()
    if op[0] == "D" and v >= 11:
        at |= r.opt(0.5, mode="CRD")
    return Drawn(op, v, [r.f(s)], at)


def idx(r: Draw, shape: Sequence[int], size: int) -> Array:
    return (
        r.n(
            shape, -size if r.b(0.3) else 0, max(size - 1, 0), r.c([np.int64, np.int32])
        )
        if size
        else r.n(shape, 0, 0)
    )


@draws("Gather", weight=3)
def gather(r: Draw, op: str) -> Drawn:
    s = r.shape(1)
    a = r.axis(len(s))
    v = r.v()
    i = idx(r, r.shape(0, 3), s[a])
    if v < 11:
        i = abs(i) % max(s[a], 1)
    return Drawn(op, v, [r.any(s), i.astype(np.int64)], {"axis": a} if a else {})


@draws("GatherElements", weight=2)
def gatherel(r: Draw, op: str) -> Drawn:
    s = r.shape(1)
    a = r.axis(len(s))
    t = [r.i(0, n) for n in s]
    t[a] = r.size()
    return Drawn(op, r.v(11), [r.f(s), idx(r, t, s[a])], {"axis": a})


@draws("GatherND", weight=2)
def gathernd(r: Draw, op: str) -> Drawn:
    s = r.shape(1)
    v = r.v(11)
    b = r.i(0, len(s) - 1) if v >= 12 and r.b() else 0
    q = r.i(1, len(s) - b)
    ok = list(s[b : b + q])
    mid = r.shape(0, 2)
    if min(ok) == 0:
        mid = (0, *mid)
    i = np.stack([r.n((*s[:b], *mid), 0, max(n - 1, 0)) for n in ok], -1)
    return Drawn(op, v, [r.f(s), i], {"batch_dims": b} if b else {})


@draws("ScatterElements", "Scatter")
def scatterel(r: Draw, op: str) -> Drawn:
    s = r.shape(1)
    a = r.axis(len(s))
    t = [r.i(0, n) for n in s]
    return Drawn(
        op,
        r.v(9, 10) if op == "Scatter" else r.v(11),
        [r.f(s), r.n(t, 0, max(s[a] - 1, 0)), r.f(t)],
        {"axis": a},
    )


@draws("ScatterND")
def scatternd(r: Draw, op: str) -> Drawn:
    s = r.shape(1)
    q = r.i(1, len(s))
    mid = r.shape(0, 2)
    if min(s[:q]) == 0:
        mid = (0, *mid)
    i = np.stack([r.n(mid, 0, max(n - 1, 0)) for n in s[:q]], -1)
    return Drawn(op, r.v(11), [r.f(s), i, r.f((*mid, *s[q:]))])


BIG = [2**31 - 1, 2**63 - 1, -(2**31), -(2**63), 2**62, 100, -100]


@draws("Slice", weight=5)
def slice_(r: Draw, op: str) -> Drawn:
    s = r.shape(1)
    v = r.v()
    n = r.i(1, len(s))
    axes = [int(a) for a in r.g.permutation(len(s))[:n]]

    def e(a: int) -> int:
        return r.c(BIG) if r.b(0.3) else r.i(-s[a] - 2, s[a] + 2)

    st, en = [e(a) for a in axes], [e(a) for a in axes]
    if v < 10:
        return Drawn(
            op,
            v,
            [r.any(s)],
            {"starts": st, "ends": en} | ({"axes": axes} if r.b(0.7) else {}),
        )
    if r.b(0.3):
        axes = [a - len(s) for a in axes]
    ins = [r.any(s), i64(st), i64(en)]
    i32 = r.b(0.2)
    if r.b(0.7):
        ins.append(i64(axes))
        if r.b(0.6):
            ins.append(
                i64(
                    [
                        r.c([1, 1, 2, 3, -1, -2, -5, 2**63 - 1, -(2**63), 2**31 - 1])
                        for _ in axes
                    ]
                )
            )
    elif r.b(0.4):
        ins += [None, i64([r.c([1, 1, 2, -1]) for _ in axes])]
    if i32:
        ins = [ins[0]] + [
            k if k is None else np.clip(k, -(2**31), 2**31 - 1).astype(np.int32)
            for k in ins[1:]
        ]
    return Drawn(op, v, ins)


@draws("Pad", weight=3)
def pad(r: Draw, op: str) -> Drawn:
    s = r.shape(1)
    v = r.v()
    k = len(s)
    mode = r.c(["constant", "constant", "edge", "reflect", "wrap"])
    if mode == "wrap" and v < 19:
        mode = "constant"
    p = [r.i(-2, 3) if r.b() else r.i(0, 2) for _ in range(2 * k)]
    at = {"mode": mode} if mode != "constant" or r.b() else {}
    if v < 11:
        return Drawn(op, v, [r.f(s)], at | {"pads": p})
    ins = [r.f(s), i64(p)]
    if r.b() and mode == "constant":
        ins.append(r.f(()))
    if v >= 18 and r.b(0.5) and mode in ("constant",):
        axes = [int(a) for a in r.g.permutation(k)[: r.i(1, k)]]
        if len(ins) == 2:
            ins.append(r.c([None, r.f(())]))
        ins[1] = i64([p[0]] * len(axes) + [p[1]] * len(axes))
        ins.append(i64([a - (k if r.b(0.3) else 0) for a in axes]))
    return Drawn(op, v, ins, at)


@draws("Concat", weight=3)
def concat(r: Draw, op: str) -> Drawn:
    s = r.shape(1)
    a = r.axis(len(s))
    m = r.c([r.f, r.n])

    def one():
        t = list(s)
        t[a] = r.size()
        return (0,) if r.b(0.05) else t

    return Drawn(op, r.v(), [m(one()) for _ in range(r.i(1, 4))], {"axis": a})


@draws("Split", weight=4)
def split(r: Draw, op: str) -> Drawn:
    s = list(r.shape(1))
    a = r.axis(len(s))
    v = r.v()
    n = r.i(1, 4)
    how = r.i(0, 2)
    at = {"axis": a} if a or r.b() else {}
    if how == 0:
        parts = [r.i(0, 3) for _ in range(n)]
        s[a] = sum(parts)
        if v < 13:
            return Drawn(op, v, [r.f(s)], at | {"split": parts}, n)
        return Drawn(op, v, [r.f(s), i64(parts)], at, n)
    if how == 1:
        s[a] = n * r.i(0, 3)
    if v >= 18:
        at["num_outputs"] = n
    return Drawn(op, v, [r.f(s)], at, n)


@draws("Reshape", weight=6)
def reshape(r: Draw, op: str) -> Drawn:
    s = list(r.shape(0, 4))
    n = int(np.prod(s))
    v = r.v()
    at = dict[str, Any]()
    if v >= 14 and r.b(0.3):
        at["allowzero"] = r.i(0, 1)
    t = list[Any]()
    left = n
    for k in range(r.i(0, 4)):
        f = [d for d in range(1, left + 1) if left % d == 0] if left else [0, 1, 2, 3]
        t.append(r.c(f))
        left = left // t[-1] if t[-1] else left
        if k < len(s) and s[k] == t[-1] and r.b(0.5) and not at.get("allowzero"):
            t[-1] = 0
    if t and r.b(0.6):
        t[r.i(0, len(t) - 1)] = -1
    elif r.b(0.7):
        t.append(left)
    elif r.b(0.2):
        t = [-1, *t]
    return Drawn(op, v, [r.any(s), i64(t)], at)


@draws("Flatten")
def flatten(r: Draw, op: str) -> Drawn:
    s = r.shape()
    return Drawn(op, r.v(9), [r.f(s)], r.opt(0.8, axis=r.i(-len(s), len(s))))


@draws("Squeeze", "Unsqueeze", weight=3)
def squeeze(r: Draw, op: str) -> Drawn:
    v = r.v()
    if op == "Squeeze":
        s = list(r.shape(0, 5))
        ones = [k for k, n in enumerate(s) if n == 1]
        axes = [k - (len(s) if v >= 11 and r.b(0.3) else 0) for k in ones if r.b(0.7)]
        if r.b(0.2):
            axes = None
    else:
        s = list(r.shape(0, 3))
        n = r.i(1, 3)
        axes = [
            int(k) - (len(s) + n if v >= 11 and r.b(0.3) else 0)
            for k in r.g.permutation(len(s) + n)[:n]
        ]
    x = r.any(s)
    if axes is None or (axes == [] and r.b()):
        return Drawn(op, v, [x])
    if v < 13:
        return Drawn(op, v, [x], {"axes": axes} if axes else {})
    return Drawn(op, v, [x, i64(axes)])


@draws("Transpose", weight=2)
def transpose(r: Draw, op: str) -> Drawn:
    s = r.shape()
    return Drawn(
        op,
        r.v(),
        [r.any(s)],
        r.opt(0.7, perm=[int(k) for k in r.g.permutation(len(s))]) if s else {},
    )


@draws("Tile", weight=2)
def tile(r: Draw, op: str) -> Drawn:
    s = r.shape(0 if r.b(0.1) else 1)
    return Drawn(op, r.v(), [r.f(s), i64([r.i(0, 3) for _ in s])])


@draws("Shape", weight=2)
def shape_(r: Draw, op: str) -> Drawn:
    s = r.shape()
    v = r.v()
    at = r.opt(0.5, start=r.i(-5, 5), end=r.i(-5, 5)) if v >= 15 else {}
    return Drawn(op, v, [r.any(s)], at)


simple(["Size"], 7, lambda r: [r.any(r.shape())])


simple(["NonZero"], 9, lambda r: [r.any(r.shape())])


@draws("Compress")
def compress(r: Draw, op: str) -> Drawn:
    s = r.shape(1)
    if r.b():
        a = r.axis(len(s))
        return Drawn(op, r.v(9), [r.f(s), r.bo((r.i(0, s[a]),))], {"axis": a})
    return Drawn(op, r.v(9), [r.f(s), r.bo((r.i(0, int(np.prod(s))),))])


@draws("TopK", weight=2)
def topk(r: Draw, op: str) -> Drawn:
    s = r.shape(1)
    a = r.axis(len(s))
    k = r.i(0, s[a])
    v = r.v()
    at = {"axis": a} if a != len(s) - 1 or r.b() else {}
    if not at:
        k = r.i(0, s[-1])
    if v < 10:
        return Drawn(op, v, [r.f(s)], at | {"k": k, "axis": a}, 2)
    if v < 11 and at:
        at["axis"] = a % len(s)
    return Drawn(op, v, [r.f(s), i64([k])], at, 2)


@draws("Unique")
def unique(r: Draw, op: str) -> Drawn:
    s = r.shape(0)
    at = r.opt(0.5, axis=r.axis(len(s))) if s else {}
    return Drawn(
        op, r.v(11), [r.n(s).astype(r.c([np.float32, np.int64]))], at, r.i(1, 4)
    )


@draws("OneHot")
def onehot(r: Draw, op: str) -> Drawn:
    s = r.shape(0, 3)
    a = r.axis(len(s) + 1)
    d = i64(r.i(1, 5))
    if r.b():
        d = d.reshape(1)
    if r.b(0.3):
        d = d.astype(r.c([np.float32, np.int32]))
    i = r.n(s, 0, 4)
    if d.dtype == np.float32:
        i = i.astype(r.c([np.float32, np.int64]))
    if d.dtype == np.int32:
        i = i.astype(np.int32)
    return Drawn(
        op,
        r.v(9),
        [i, d, r.c([np.array([0, 1], np.float32), i64([0, 1])])],
        {"axis": a},
    )


@draws("CumSum")
def cumsum(r: Draw, op: str) -> Drawn:
    s = r.shape(1)
    a = i64(r.axis(len(s)))
    a = a.reshape(1) if r.b(0.2) else a
    return Drawn(op, r.v(11), [r.f(s), a], r.opt(0.3, exclusive=1, reverse=1))


@draws("ReverseSequence")
def revseq(r: Draw, op: str) -> Drawn:
    s = r.shape(2)
    return Drawn(op, r.v(10), [r.f(s), r.n((s[1],), min(s[0], 1), max(s[0], 0))], {})


simple(
    ["Trilu"],
    14,
    lambda r: [r.f(r.shape(2))] + ([i64(r.i(-2, 2))] if r.b() else []),
    lambda r: {"upper": r.i(0, 1)},
)


simple(
    ["EyeLike"],
    9,
    lambda r: [r.num(r.shape(2, 2))],
    lambda r: r.opt(0.5, dtype=r.c([1, 7]), k=1),
)


@draws("Range", weight=4)
def range_(r: Draw, op: str) -> Drawn:
    if r.b(0.6):
        t = r.c([np.int64, np.int32])
        a = [r.i(-3, 6), r.i(-3, 9), r.c([1, 1, 2, -1, 3])]
        a = [np.array(k, t) for k in a]
    else:
        a = [
            np.array(k, np.float32)
            for k in (r.c([0, 0.1, 1]), r.c([1, 2.4, 5, 2.5]), r.c([0.1, 0.3, 1, 0.5]))
        ]
    return Drawn(op, r.v(11), a)


simple(
    ["ConstantOfShape"],
    9,
    lambda r: [i64(r.shape())],
    lambda r: (
        {"value": np.array([r.i(0, 3)], r.c([np.int64, np.float32, bool]))}
        if r.b()
        else {}
    ),
    weight=2,
)


@draws("CenterCropPad")
def ccp(r: Draw, op: str) -> Drawn:
    s = r.shape(1)
    return Drawn(op, r.v(18), [r.f(s), i64([r.i(0, 5) for _ in s])])


@draws("RNN", "GRU", "LSTM", weight=2)
def rnn(r: Draw, op: str) -> Drawn:
    g = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    v = r.v()
    steps, right, wide, heads = r.size(), r.size(), r.some(), r.some()
    d = r.c(["forward", "reverse", "bidirectional"])
    depth = 2 if d[0] == "b" else 1
    at = {"hidden_size": heads, "direction": d}
    lay = 0
    if v >= 14 and r.b(0.3):
        lay = at["layout"] = 1
    ins = [
        r.f((right, steps, wide) if lay else (steps, right, wide)),
        r.f((depth, g * heads, wide)),
        r.f((depth, g * heads, heads)),
    ]
    if r.b(0.3):
        ins += [r.f((depth, 2 * g * heads))]
    if d == "reverse" and r.b(0.5):
        at.pop("direction")
    return Drawn(op, v, ins, at, r.i(1, 3 if op == "LSTM" else 2))


@draws("RotaryEmbedding")
def rotary(r: Draw, op: str) -> Drawn:
    right, heads, steps, depth = r.some(), r.some(), r.some(), 2 * r.i(1, 3)
    c = (right, steps, depth // 2)
    if r.b():
        return Drawn(op, r.v(23), [r.f((right, heads, steps, depth)), r.f(c), r.f(c)])
    return Drawn(
        op,
        r.v(23),
        [r.f((right, steps, heads * depth)), r.f(c), r.f(c)],
        {"num_heads": heads},
    )


@draws("TensorScatter")
def tscatter(r: Draw, op: str) -> Drawn:
    right, most, steps, depth = r.some(), 5, r.i(1, 5), r.some()
    return Drawn(
        op,
        r.v(24),
        [r.f((right, most, depth)), r.f((right, steps, depth))]
        + ([np.zeros(right, np.int64)] if r.b() else []),
        {"axis": 1},
    )


@draws("QuantizeLinear", "DequantizeLinear", weight=1.5)
def quant(r: Draw, op: str) -> Drawn:
    s = r.shape(0, 3)
    v = r.v(10)
    at = dict[str, Any]()
    sc = r.f(()) ** 2
    if v >= 13 and s and r.b(0.5):
        a = r.axis(len(s))
        at["axis"] = a
        sc = r.f((s[a],)) ** 2
    z = r.n(sc.shape, 0, 3, r.c([np.uint8, np.int8]))
    ins = [r.f(s) if op[0] == "Q" else r.n(s, t=z.dtype), sc] + (
        [z] if r.b(0.7) else []
    )
    if v >= 21 and len(ins) == 2 and r.b() and op[0] == "Q":
        at["output_dtype"] = r.c([2, 3, 4, 5])
    return Drawn(op, v, ins, at)


simple(["DynamicQuantizeLinear"], 11, lambda r: [r.f(r.shape())], outputs=3)


@draws("RandomNormalLike", "RandomUniformLike", "Bernoulli")
def rlike(r: Draw, op: str) -> Drawn:
    x = r.f(r.shape())
    x = np.asarray(r.g.random(x.shape), np.float32) if op[0] == "B" else x
    return Drawn(
        op, r.v(15 if op[0] == "B" else 7), [x], r.opt(0.5, dtype=r.c([1, 11]))
    )


simple(
    ["RandomNormal", "RandomUniform"],
    7,
    lambda r: [],
    lambda r: {"shape": list(r.shape(1))} | r.opt(0.5, dtype=11),
)


simple(
    ["Multinomial"],
    7,
    lambda r: [r.f((r.some(), r.some()))],
    lambda r: r.opt(0.5, sample_size=r.i(1, 4), dtype=r.c([6, 7])),
)


simple(
    ["HannWindow", "HammingWindow", "BlackmanWindow"],
    17,
    lambda r: [i64(r.i(0, 6))],
    lambda r: r.opt(0.3, periodic=0, output_datatype=11),
)


simple(
    ["MelWeightMatrix"],
    17,
    lambda r: [
        np.array(k, t)
        for k, t in (
            (r.i(1, 4), np.int64),
            (r.i(4, 16), np.int64),
            (8000, np.int64),
            (0.0, np.float32),
            (4000.0, np.float32),
        )
    ],
)


@draws("STFT")
def stft(r: Draw, op: str) -> Drawn:
    n = r.i(4, 12)
    f = r.i(2, 4)
    at = {"onesided": r.i(0, 1)}
    ins = [r.f((r.some(), n, 1)), i64(r.i(1, 3))]
    k = r.i(0, 2)
    ins += [
        [None, i64(f)],
        [r.f((f,))],
        [r.f((f,)), i64(f)],
    ][k]
    return Drawn(op, r.v(17), ins, at)


@draws("Det")
def det(r: Draw, op: str) -> Drawn:
    n = r.some()
    return Drawn(op, r.v(11), [r.f((*r.shape(0, 2), n, n))])


@draws("NonMaxSuppression")
def nms(r: Draw, op: str) -> Drawn:
    right, third, many = r.some(), r.some(), r.some()
    return Drawn(
        op,
        r.v(10),
        [r.f((right, many, 4)), r.f((right, third, many)), i64([2])],
    )


@draws("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def nll(r: Draw, op: str) -> Drawn:
    n, c, rest = r.some(), r.some(), r.pos(0, 2)
    ins = [r.f((n, c, *rest)), r.n((n, *rest), 0, c - 1)] + (
        [r.f((c,))] if r.b(0.4) else []
    )
    return Drawn(
        op,
        r.v(12),
        ins,
        r.opt(0.8, reduction=r.c(["none", "mean", "sum"])),
        r.i(1, 2) if op[0] == "S" else 1,
    )


def strings(r: Draw, shape: Sequence[int]) -> Array:
    return r.g.choice(np.array(["a", "b c", "the", ""], object), size=shape)


simple(
    ["StringNormalizer"],
    10,
    lambda r: [strings(r, r.c([(r.some(),), (1, r.some())]))],
    lambda r: r.opt(0.5, stopwords=["a"], case_change_action="UPPER"),
)


@draws("StringConcat")
def sc(r: Draw, op: str) -> Drawn:
    a, b = r.bcast()
    return Drawn(op, r.v(20), [strings(r, a), strings(r, b)])


simple(
    ["StringSplit"],
    20,
    lambda r: [strings(r, r.shape(0, 2))],
    lambda r: {"delimiter": " "},
    outputs=2,
)


simple(
    ["RegexFullMatch"],
    20,
    lambda r: [strings(r, r.shape(0, 3))],
    lambda r: {"pattern": "a.*"},
)


simple(
    ["TfIdfVectorizer"],
    9,
    lambda r: [r.n(r.c([(r.some(),), (r.some(), r.some())]))],
    lambda r: {
        "mode": "TF",
        "min_gram_length": 1,
        "max_gram_length": 1,
        "max_skip_count": 0,
        "ngram_counts": [0],
        "ngram_indexes": [0, 1, 2],
        "pool_int64s": [1, 2, 3],
    },
)


def drawn(seed: int, operator: str = "") -> Drawn:
    """Return a random operation, perhaps of one operator."""
    random = Draw(seed)
    rows = [row for row in DRAWERS if operator in ("", row[0])]
    weights = np.array([weight for _, _, weight in rows])
    name, drawer, _ = rows[int(random.g.choice(len(rows), p=weights / weights.sum()))]
    return drawer(random, name)
