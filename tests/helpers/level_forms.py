"""Small graphs around the rewrites of ONNX Runtime's CPU provider, in which a size, a
rank or an element that a gather uses goes through a rewrite."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from network_draft import Feeds, Style, captured, leading, numbers
from onnx import numpy_helper, parser

_DTYPES = {
    "i": "int64",
    "j": "int32",
    "f": "float32",
    "h": "float16",
    "d": "float64",
    "u": "uint8",
    "b": "bool",
}
"""The letters of literals: i(3) is a scalar, f[1,2] has the rank 1."""

_LITERAL = re.compile(r"\b([ijfhdub])(\(-?[\d.]+(?:e-?\d+)?\)|\[[\[\]\d\s,.\-e]*\])")
_CHOICE = re.compile(r"\{([^{}]*\|[^{}]*)\}")

_SIZES = (1, 1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Form:
    """A family of graphs."""

    inputs: str
    """As ONNX's parser reads them: "float[N,4] x, int64[M] i"."""
    nodes: str
    """As ONNX's parser reads them, but for literals, and {this|that}: one of some
    texts."""
    outputs: str
    values: Mapping[str, Sequence[float]] = field(default_factory=dict[str, Any])
    """The elements that are drawn for inputs; others are drawn of all numbers."""
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Any])
    """The open sizes that are drawn, where not all will do."""
    declared: str = ""
    """Types of values that the graph declares: "float[4] y"."""
    is_loose: bool = False
    """Whether a name of a size is another number in each input."""
    opset: tuple[int, ...] = (17, 17, 13, 21)


FORMS: dict[str, Form] = {
    "gather_of_range": Form(
        "float[N,2] x, int64 a, int64 b",
        """r = Range(a, b, i(1))
        y = Gather<axis=0>(x, r)""",
        "y",
        values={"a": [-3, -1, 0, 0, 1, 2], "b": [-1, 0, 1, 2, 3, 6]},
        sizes={"N": [1, 2, 3, 5]},
    ),
    "gather_of_positions": Form(
        "int64[B,S] ids, float[B,P] past",
        """s = Shape(ids)
        n = Gather(s, i(1))
        t = Shape(past)
        p = Gather(t, i(1))
        e = Add(p, n)
        r = Range({p|i(0)|n}, e, i(1))
        y = Gather(f[[0],[1],[2],[3]], r)""",
        "y",
    ),
    "gather_to_slice_of_constant": Form(
        "int64[N] x",
        """s = Shape(x)
        n = {Squeeze|ReduceMax<keepdims=0>}(s)
        r = Range(i(0), n, i(1))
        y = Gather(x, r)
        q = Gather(i[5,6,7], r)
        z = Shape(q)""",
        "y z",
    ),
    "gathers_to_split": Form(
        "float[N,3] x, int64 k",
        """a = Gather<axis={1|-1}>(x, i(0))
        b = Gather<axis=1>(x, i(1))
        c = Gather<axis=1>(x, {i(2)|i(-1)})
        d0 = Mul(a, b)
        s = Shape(d0)
        e = Add(d0, c)
        y = Gather<axis=0>(e, k)""",
        "y s",
        values={"k": [-2, -1, 0, 1, 2]},
    ),
    "gather_slice_to_split": Form(
        "float[B,3,4] x, int64 k",
        """a = Gather<axis=1>(x, {i(0)|i[0]})
        b = Slice(x, i[1], i[{3|4|99}], i[1])
        s = Shape(a)
        t = Shape(b)
        n = Size(s)
        y = Gather<axis=1>(b, k)""",
        "a n t y",
        values={"k": [-3, -1, 0, 1, 2]},
    ),
    "slices_to_split": Form(
        "float[B,4] x, int64 k",
        """a = Slice(x, i[0], i[2], i[1])
        b = Slice(x, i[2], i[{4|9}], i[1])
        n = Neg(a)
        c = Concat<axis=1>(b, n)
        y = Gather<axis=1>(c, k)""",
        "y",
        values={"k": [-5, -1, 0, 3, 4]},
    ),
    "division_then_product": Form(
        "float[N] x, float[N] y, int64 k",
        """q = Div({f[[1]]|f[1]|f(1)}, x)
        p = {Mul(q, y)|Mul(y, q)}
        s = Shape(p)
        g = Gather(s, k)
        i1 = Cast<to=7>(p)
        z = Gather(f[0,1,2,3], i1)""",
        "{g|z}",
        values={"x": [1, 41, 47, 55, 82], "y": [0, 1, 41, 47, 55], "k": [-1, 0, 1]},
    ),
    "quantized_product": Form(
        "float[M,4] x, int64 k",
        """q, scale, zero = DynamicQuantizeLinear(x)
        m = MatMulInteger(q, u[[1],[2],[3],[4]], zero)
        c = Cast<to=1>(m)
        w = Mul(scale, {f[[0.5]]|f[0.5]|f(0.5)|f[[[0.5]]]})
        y = Mul(c, w)
        s = Shape(y)
        g = Gather(s, k)""",
        "g y",
        values={"k": [-3, -2, 0, 1, 2]},
    ),
    "gelu": Form(
        "float{|[]|[N]} x, int64 k",
        """a = Div(x, {f(1.4142135)|f[1.4142135]})
        e = Erf(a)
        b = Add(e, {f(1)|f[1]})
        c = Mul(x, b)
        y = Mul(c, {f(0.5)|f[0.5]})
        s = Shape(y)
        n = Size(s)
        g = Gather(i[0], n)
        h = Gather(s, k)""",
        "y {g|h}",
        values={"k": [-1, 0]},
    ),
    "rank_of_a_quotient": Form(
        "float[N] x, float[N] y",
        """q = Div({f[[1]]|f[[[1]]]|f[1]}, x)
        p = {Mul(q, y)|Mul(y, q)}
        s = Shape(p)
        g = Gather(s, {i(1)|i(0)|i(-2)})""",
        "g",
    ),
    "rank_of_a_scaled_product": Form(
        "float[M,4] x",
        """q, scale, zero = DynamicQuantizeLinear(x)
        m = MatMulInteger(q, u[[1],[2],[3],[4]], zero)
        c = Cast<to=1>(m)
        w = Mul(scale, {f[[0.5]]|f[[[0.5]]]})
        y = Mul(c, w)
        s = Shape(y)
        g = Gather(s, {i(2)|i(1)|i(-3)})""",
        "g",
    ),
    "rank_of_an_activation": Form(
        "float{[]|} x",
        """a = Div(x, {f(1.4142135)|f[1.4142135]})
        e = Erf(a)
        b = Add(e, f[1])
        c = Mul(x, b)
        h0 = Mul(c, f(0.5))
        t = Mul(x, f[1.702])
        u0 = Sigmoid(t)
        v0 = Mul(x, u0)
        s = Shape({h0|v0})
        g = Gather(s, i(0))""",
        "g",
    ),
    "places_of_a_resize": Form(
        "float[B,1,H,W] x, int64 k",
        """w = ConstantOfShape<value = float[1] {1}>(i[16,1,1,1])
        c = Conv<kernel_shape=[1,1]>(x, w)
        r = Resize<mode="nearest",coordinate_transformation_mode="asymmetric",
                   nearest_mode="floor">(
                c, f[], {f[1,1,2,2]|f[1,1,0.5,3]|f[1,1,1,2]})
        s = Shape({c|r})
        n = Gather(s, i({0|2|3}))
        l = Sub(n, i(1))
        t = Relu(r)
        g = Gather<axis={0|2|3}>(t, {l|k})
        z = Shape(r)""",
        "g z",
        values={"k": [-2, -1, 0, 1, 3]},
    ),
    "places_of_windows": Form(
        "float[B,1,H,W] x, int64 k",
        """w = ConstantOfShape<value = float[1] {1}>(i[16,1,2,2])
        c = Conv<kernel_shape=[2,2],strides={[1,1]|[2,2]},pads=[1,1,0,0]>(x, w)
        p = {MaxPool|AveragePool}<kernel_shape={[2,2]|[3,3]},
                                  strides=[2,2]{|,ceil_mode=1}>(c)
        m = {ReduceMax<axes=[1,3],keepdims=0>(p)|ArgMax<axis=3,keepdims=0>(p)}
        s = Shape(p)
        n = Gather(s, i(2))
        l = Sub(n, i(1))
        g = Gather<axis={1|2}>(m, {l|k})""",
        "g s",
        values={"k": [-2, -1, 0, 1]},
        sizes={"H": [5, 6, 7, 8, 9], "W": [5, 6, 7, 8, 9]},
    ),
    "whole_blocks": Form(
        "float[B,S,2] x, int64 k",
        """s = Shape(x)
        n = Gather(s, i[1])
        a = Mod(n, i[3])
        d = Sub(i[3], a)
        m = Mod(d, i[3])
        p = Concat<axis=0>(i[0,0,0,0], m, i[0])
        y = Pad(x, p)
        t = Shape(y)
        e = Gather(t, i[1])
        c = Div(e, i[3])
        b = Gather(s, i[0])
        u = Concat<axis=0>({b|i[-1]|i[0]}, c, i[3,2])
        z = Reshape(y, u)
        l = Sub(c, i[1])
        g = Gather<axis={1|2}>(z, {l|k|i(0)})""",
        "g",
        values={"k": [-2, -1, 0, 1, 2]},
    ),
    "two_sizes_of_a_check": Form(
        "float[B,12] x, float[P] y, float[Q] w",
        """s = Shape(x)
        b = {Gather(s, i[0])|Shape(y)}
        p = Shape(y)
        q = Shape(w)
        c = Concat<axis=0>(b, p, q)
        r = Reshape(x, c)
        l = Sub({p|q}, i[1])
        g = Gather<axis={1|2}>(r, l)""",
        "g",
        sizes={"B": [1, 2, 3], "P": [2, 2, 3], "Q": [6, 6, 4]},
    ),
    "a_size_of_a_check": Form(
        "float[B,12] x, float[P] y",
        """s = Shape(x)
        b = Gather(s, i(0))
        t = Shape(y)
        p = Gather(t, i(0))
        b1 = Unsqueeze(b, i[0])
        p1 = Unsqueeze(p, i[0])
        c = Concat<axis=0>(b1, p1, i[4])
        r = Reshape(x, c)
        l = Sub(p, i(1))
        g = Gather<axis=1>(r, l)
        u0 = Shape(r)
        n = Gather(u0, i(1))
        e = Sub(n, i(1))
        h0 = Gather(y, e)""",
        "{g|h0}",
        sizes={"P": [1, 2, 3, 4, 5]},
    ),
    "fast_gelu": Form(
        "float{|[]|[N]} x, int64 k",
        """p = Pow(x, f(3))
        a = Mul(p, {f(0.044715)|f[0.044715]})
        b = Add(x, a)
        c = Mul(b, {f(0.7978846)|f[0.7978846]})
        t = Tanh(c)
        e = Add(t, {f(1)|f[1]})
        m = Mul(x, e)
        y = Mul(m, {f(0.5)|f[0.5]})
        s = Shape(y)
        h = Gather(s, k)""",
        "y h",
        values={"k": [-1, 0]},
    ),
    "quick_gelu": Form(
        "float{|[]|[N]} x, int64 k",
        """a = Mul(x, {f[1.702]|f(1.702)})
        b = Sigmoid(a)
        y = Mul(x, b)
        s = Shape(y)
        h = Gather(s, k)""",
        "y h",
        values={"k": [-1, 0]},
    ),
    "bias_gelu": Form(
        "float[N,2] x, float{[2]|[1,2]|[1,1,2]} bias, int64 k",
        """z = Add(x, bias)
        a = Div(z, f(1.4142135))
        e = Erf(a)
        b = Add(e, f(1))
        c = Mul(z, b)
        y = Mul(c, f(0.5))
        s = Shape(y)
        h = Gather(s, k)""",
        "y h",
        values={"k": [-2, 1, 2]},
    ),
    "reshape_of_sizes": Form(
        "float[B,12] x, float[P] y, int64 k",
        """s = Shape(x)
        b = Gather(s, i(0))
        t = Shape(y)
        p = Gather(t, i(0))
        b1 = Unsqueeze(b, i[0])
        p1 = Unsqueeze(p, i[0])
        c = Concat<axis=0>({b1, p1, i[4]|i[-1], p1, i[4]|p1, i[-1], i[4]})
        r = Reshape(x, c)
        last = Sub(p, i(1))
        g = Gather<axis=1>(r, last)
        u0 = Shape(r)
        v0 = Gather(u0, i(1))
        w = Gather(i[0,1,2,3], v0)""",
        "{g|w}",
    ),
    "reshape_of_own_sizes": Form(
        "float[B,S,H] x, int64 k",
        """s = Shape(x)
        a = Gather(s, {i(0)|i(1)|i(-3)})
        b = Gather(s, {i(1)|i(0)|i(2)})
        a1 = Unsqueeze(a, i[0])
        b1 = Unsqueeze(b, i[0])
        c = Concat<axis=0>(a1, b1, {i[-1]|i[1]|a1})
        r = Reshape(x, c)
        y = Gather<axis=1>(r, k)""",
        "y",
        values={"k": [-2, -1, 0, 1, 2]},
    ),
    "reshape_of_slices": Form(
        "float[B,S,4] x, int64 k",
        """s = Shape(x)
        a = Slice(s, i[0], i[{1|2}])
        c = Concat<axis=0>(a, i[2], i[-1])
        r = Reshape(x, c)
        y = Gather<axis=-1>(r, k)
        t = Shape(r)""",
        "y t",
        values={"k": [-2, -1, 0, 1, 2]},
    ),
    "reshape_to_a_constant": Form(
        "float[N,6] x, int64 k",
        """r = Reshape(x, i[-1,{2|3}])
        q = Reshape(r, i[{0|2|3},{-1|2|6}])
        y = Gather<axis=1>(q, k)
        s = Shape(q)""",
        "y s",
        values={"k": [-2, -1, 0, 1, 2]},
    ),
    "cast_of_a_size": Form(
        "float[N,{M|3|260}] x, int64[1,1] z, int64 k",
        """s = Shape(x)
        a = Cast<to={9|2|3|6|10|1}>(s)
        c = Cast<to=7>(a)
        e = {Expand(z, c)|Tile(z, c)|ConstantOfShape(c)}
        y = {Shape<start=1>(e)|Shape(e)}
        l = Sub(y, i[1])
        g = Gather<axis=1>(e, l)
        w = Gather(y, k)""",
        "y {w|g}",
        values={"k": [0]},
        sizes={"N": [1, 2, 3], "M": [1, 3, 260]},
        opset=(17, 21),
    ),
    "cast_of_a_size_in_range": Form(
        "float[{N|3|260}] x",
        """s = Shape(x)
        a = Cast<to={9|2|3}>(s)
        c = Cast<to=7>(a)
        n = Squeeze(c)
        e = Range(i(0), n, i(1))
        y = Shape(e)
        last = Sub(y, i[1])
        g = Gather(x, last)""",
        "g",
        sizes={"N": [1, 2, 3, 5, 130, 260]},
    ),
    "chain_of_casts": Form(
        "{int64|float|int32|double}[N] x",
        """a = Cast<to={1|6|7|10|9|2|11}>(x)
        b = Cast<to={1|6|7|10|9|2|11}>(a)
        c = Cast<to=7>(b)
        y = Gather(f[0,1,2,3], c)""",
        "y",
    ),
    "cast_and_arithmetic": Form(
        "{float16|float}[N] x",
        """a = Cast<to=1>(x)
        b = {Add(a, f(1))|Mul(a, f(3))|Relu(a)|Neg(a)}
        c = Cast<to=10>(b)
        e = Cast<to=1>(c)
        g = {Add(e, f(0.3))|Mul(e, f(0.7))|Relu(e)}
        h0 = Cast<to=7>(g)
        y = Gather(f[0,1,2,3], h0)""",
        "y",
        values={"x": [0, 1, -1, 0.3, 0.1]},
    ),
    "sums_that_change_nothing": Form(
        "{float|int64|int32}[N] x",
        """z = CastLike({f(0)|f[0]|f[[0]]|f[]}, x)
        one = CastLike({f(1)|f[1]|f[[1]]}, x)
        a = {Add(x, z)|Sub(x, z)|Add(z, x)}
        b = {Mul(a, one)|Div(a, one)|Mul(one, a)}
        s = Shape(b)
        n = Size(s)
        y = Gather(i[0,1], n)
        i0 = Cast<to=7>(b)
        w = Gather(i[0,1], i0)""",
        "{y|s|w}",
        values={"x": [0, 1]},
        opset=(17, 21),
    ),
    "constants_that_change_nothing": Form(
        "float[N] x, int64 k",
        """a = {Add(x, f[[0]])|Sub(x, f[0])|Mul(x, f[[1]])|Div(x, f[[1]])|Add(f(0), x)}
        s = Shape(a)
        y = Gather(s, k)""",
        "a y",
        values={"k": [-2, -1, 0, 1]},
    ),
    "integers_that_change_nothing": Form(
        "int64[N] x, int64 k",
        """a = {Add(x, i[[0]])|Sub(x, i[0])|Mul(x, i[[1]])|Div(x, i[[1]])|Add(i(0), x)}
        s = Shape(a)
        y = Gather(s, k)
        g = Gather(f[0,1,2], a)""",
        "y {a|g}",
        values={"k": [-2, -1, 0, 1], "x": [-3, 0, 2, 3]},
    ),
    "product_and_sum": Form(
        "float{[N,3]|[B,N,3]|[3]} x, float{[2]|[1,2]|[1]|[]} bias, int64 k",
        """m = MatMul(x, f[[1,2],[3,4],[5,6]])
        y = Add({m, bias|bias, m|m, f[1,2]|m, f[[1,2]]|m, f[[[1,2]]]|m, f[3]|m, f(3)})
        s = Shape(y)
        g = Gather(s, k)
        h0 = Cast<to=7>(y)
        z = Gather(f[0,1,2,3], h0)""",
        "g {s|z|y}",
        values={"k": [-3, -2, -1, 0, 1, 2], "x": [0, 0, 1], "bias": [-3, 0, 1, 0.1]},
    ),
    "scaled_product": Form(
        "float[N,3] x, int64 k",
        """a = {Mul(x, f(0.5))|Div(x, f[3])|Mul(x, f[[[0.1]]])}
        t = Transpose<perm=[1,0]>(x)
        m = MatMul(a, t)
        y = {Mul(m, f(2))|Div(m, f[7])|Mul(m, f[[[3]]])}
        s = Shape(y)
        g = Gather(s, k)""",
        "g y",
        values={"k": [-3, -2, 0, 1, 2], "x": [0, 1, 2, 0.1]},
    ),
    "product_of_turned": Form(
        "float[B,N,3] x, float[B,M,3] y, int64 k",
        """t = Transpose<perm=[0,2,1]>(y)
        m = MatMul(x, t)
        p = Softmax<axis=-1>(m)
        q = MatMul(p, y)
        g = Gather<axis={1|2}>(q, k)
        s = Shape(m)""",
        "g s",
        values={"k": [-3, -1, 0, 2, 3], "x": [0, 1], "y": [0, 1]},
        sizes={"B": [2, 2, 3]},
    ),
    "layer_norm": Form(
        "float[B,N,4] x, int64 k",
        """m = ReduceMean<axes=[-1]>(x)
        c = Sub(x, m)
        p = Pow(c, f(2))
        v = ReduceMean<axes=[-1]>(p)
        e = Add(v, f(0.00001))
        q = Sqrt(e)
        n = Div(c, q)
        w = Mul(n, {f[1,2,3,4]|f[[1,2,3,4]]|f[2]|f[[[1,1,1,1]]]})
        y = Add(w, {f[0,0,0,1]|f[[0,0,0,1]]|f[1]})
        s = Shape(y)
        g = Gather(s, k)""",
        "y g",
        values={"k": [-4, -3, 2, 3], "x": [0, 1, 2]},
        opset=(17, 13),
    ),
    "skip_layer_norm": Form(
        "float[B,N,4] x, float{[B,N,4]|[N,4]|[1,N,4]} z, int64 k",
        """a = Add(x, z)
        b = {Add(a, f[1,1,1,2])|Identity(a)}
        y = LayerNormalization<axis=-1>(b, f[1,1,1,1], f[0,0,0,0])
        s = Shape(y)
        g = Gather(s, k)
        t = Shape(b)
        n = Size(t)""",
        "y g n",
        values={"k": [-4, -3, 2, 3], "x": [0, 1, 2], "z": [0, 1, 2]},
        opset=(17, 21),
    ),
    "simplified_layer_norm": Form(
        "float[N,4] x, int64 k",
        """p = Pow(x, f(2))
        v = ReduceMean<axes=[-1]>(p)
        e = Add(v, f(0.00001))
        q = Sqrt(e)
        n = Div(x, q)
        y = Mul(n, {f[1,2,3,4]|f[[1,2,3,4]]|f[[[1,1,1,1]]]})
        s = Shape(y)
        g = Gather(s, k)""",
        "y g",
        values={"k": [-3, -2, 1, 2], "x": [0, 1, 2]},
        opset=(17, 13),
    ),
    "embeddings": Form(
        "int64[B,S] ids, {int64[B,S]|int64[B,Q]} types",
        """s = Shape(ids)
        n = Gather(s, i(1))
        n1 = Unsqueeze(n, i[0])
        pos = Slice(i[[0,1,2,3,4,5]], i[0], n1, i[1])
        w = Gather(f[[1,2,3,4],[5,6,7,8],[1,1,2,2]], ids)
        p = Gather(f[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]], pos)
        a = Add(w, p)
        t = Gather(f[[0,0,0,0],[1,1,1,1]], types)
        b = Add(a, t)
        y = LayerNormalization<axis=-1>(b, f[1,1,1,1], f[0,0,0,0])""",
        "y",
        values={"ids": [0, 0, 0, 1, 1, 1, 2, 2, 2, -1], "types": [0, 1]},
    ),
    "turned_then_cut": Form(
        "float[A,B,3] x, int64 k",
        """t = Transpose<perm={[1,0,2]|[2,0,1]|[0,2,1]}>(x)
        a = {Pad(t, i[0,1,0,0,0,2])|Slice(t, i[0], i[2], i[{0|1|-1}])}
        b = {Relu(a)|Neg(a)|Unsqueeze(a, i[0])|Squeeze(a)}
        c = Shape(b)
        y = Gather<axis={0|1|-1}>(b, k)
        u0 = Transpose<perm=[1,0,2]>(a)
        v0 = Gather<axis=1>(u0, k)""",
        "{y c|v0|y v0}",
        values={"k": [-3, -2, -1, 0, 1, 2]},
    ),
    "turned_then_gathered": Form(
        "float[A,B,3] x, int64{|[2]|[1,2]} k",
        """t = Transpose<perm={[1,0,2]|[2,0,1]|[1,2,0]}>(x)
        y = Gather<axis={0|1|-1}>(t, k)
        z = Shape(y)
        n = Neg(y)""",
        "n z",
        values={"k": [-3, -2, -1, 0, 1, 2, 3]},
    ),
    "turned_then_reduced": Form(
        "float[A,B,3] x",
        """t = Transpose<perm={[1,0,2]|[2,0,1]|[1,2,0]}>(x)
        y = {ArgMax<axis=1,keepdims={0|1}>(t)|ArgMin<axis=-1>(t)}
        g = Gather<axis={0|1|2}>(x, y)
        m = {ReduceMax<axes=[0],keepdims=0>(t)|ReduceSum<keepdims=0>(t, i[1])}
        s = Shape(m)""",
        "g s",
        values={"x": [0, 1, 2, -1]},
        opset=(17, 13),
    ),
    "turned_then_expanded": Form(
        "float[A,B] x, int64 k, float[B,A] z",
        """t = Transpose<perm=[1,0]>(x)
        e = {Expand(t, i[2,1,1])|Tile(t, i[1,2])|Concat<axis=0>(t, z)|Add(t, z)}
        u0 = Transpose<perm=[{1,0|1,0}]>(t)
        s = Shape(e)
        y = Gather<axis=0>(e, k)
        w = Gather<axis=1>(u0, k)""",
        "y s w",
        values={"k": [-3, -2, -1, 0, 1, 2]},
    ),
    "turned_then_resized": Form(
        "float[1,A,B,3] x, int64 k",
        """t = Transpose<perm=[0,3,1,2]>(x)
        e = Resize<mode="nearest">(t, , f[1,1,{2|0.5|1.7},{1|0.7}])
        u0 = Transpose<perm=[0,2,3,1]>(e)
        s = Shape(u0)
        y = Gather<axis=1>(u0, k)""",
        "y s",
        values={"k": [-3, -2, -1, 0, 1, 2]},
        sizes={"A": [2, 3, 5], "B": [2, 3, 5]},
    ),
    "turned_then_split": Form(
        "float[A,4] x, int64 k",
        """t = Transpose<perm=[1,0]>(x)
        a, b = Split<axis=0>(t, i[{1,3|2,2}])
        y = Gather<axis=0>(b, k)
        z = Transpose<perm=[1,0]>(a)
        s = Shape(z)""",
        "y s",
        values={"k": [-3, -2, -1, 0, 1, 2]},
        opset=(17, 13),
    ),
    "turned_and_reshaped": Form(
        "float[A,1,B] x, int64 k",
        """t = Transpose<perm={[1,0,2]|[0,2,1]|[2,1,0]}>(x)
        r = Reshape(t, i[{0,-1|-1,1|-1,0|0,0}])
        s = Shape(r)
        y = Gather<axis=1>(r, k)""",
        "y s",
        values={"k": [-3, -2, -1, 0, 1, 2]},
    ),
    "dropout": Form(
        "float[N] x, int64 k",
        """a, m = Dropout(x, {f(0.5)|f(0)})
        c = Cast<to=7>(m)
        s = Shape(a)
        y = Gather(i[6,7], c)
        g = Gather(s, k)
        i0 = Cast<to=7>(a)
        h0 = Gather(i[7,8,9,10], i0)""",
        "{y|g} h0",
        values={"k": [-1, 0], "x": [0, 1, 2, 3]},
    ),
    "quantized_twice": Form(
        "float[N] x",
        """a = QuantizeLinear(x, f({0.5|1}), u(0))
        b = DequantizeLinear(a, f({0.5|1}), u(0))
        c = QuantizeLinear(b, f({2|1}), u({0|10}))
        e = DequantizeLinear(c, f({2|1}), u({0|10}))
        g = Cast<to=7>(e)
        y = Gather(f[0,1,2,3], g)""",
        "y",
        values={"x": [0, 1, 2, 3, 0.5, 300, 1.5]},
    ),
    "quantized_table": Form(
        "int64{[N]|} k",
        """t = DequantizeLinear(u[[1,2],[3,4],[5,6]], f(0.5), u(1))
        g = Gather<axis={0|1}>(t, k)
        q = QuantizeLinear(g, f({0.5|1}), u(1))
        y = DequantizeLinear(q, f({0.5|1}), u(1))
        s = Shape(y)""",
        "y s",
        values={"k": [-4, -3, -1, 0, 1, 2, 3]},
    ),
    "quantized_reshape": Form(
        "float[N,4] x, int64 k",
        """a = QuantizeLinear(x, f(1), u(0))
        b = DequantizeLinear(a, f(1), u(0))
        r = {Reshape(b, i[-1,2])|Transpose(b)|Unsqueeze(b, i[1])|Squeeze(b)}
        c = QuantizeLinear(r, f(1), u(0))
        e = DequantizeLinear(c, f(1), u(0))
        y = Gather<axis={0|1}>(e, k)
        s = Shape(e)""",
        "y s",
        values={"k": [-3, -2, -1, 0, 1, 2], "x": [0, 1, 2]},
    ),
    "quantized_alike": Form(
        "uint8[N] x, int64 k",
        """a = DequantizeLinear(x, f(0.5), u(0))
        b = DequantizeLinear(x, f(0.5), u(0))
        c = Add(a, b)
        e = Cast<to=7>(c)
        y = Gather(f[0,1,2,3], e)
        z = Gather(a, k)""",
        "y z",
        values={"k": [-2, -1, 0, 1], "x": [0, 1, 2, 3, 4]},
    ),
    "unsqueezed_and_joined": Form(
        "int64[N] x, int64 k",
        """s = Shape(x)
        n = Gather(s, i(0))
        a = Unsqueeze(n, i[0])
        b = Unsqueeze(n, i[{0|-1}])
        c = Concat<axis={0|-1}>(a, b, i[1])
        e = {ConstantOfShape(c)|Expand(f(1), c)}
        y = Gather<axis={1|2}>(e, k)
        u0 = Unsqueeze(x, i[0])
        v0 = Unsqueeze(u0, i[{1|2|0|-1}])
        w = Shape(v0)
        z = Gather(w, k)""",
        "y z",
        values={"k": [-3, -2, -1, 0, 1, 2]},
    ),
    "squeezed_again": Form(
        "float[1,N,1] x, int64 k",
        """a = Squeeze(x, i[{0|2}])
        b = Squeeze(a, i[{0|1|-1}])
        c = Unsqueeze(b, i[0])
        s = Shape(c)
        y = Gather(s, k)""",
        "y",
        values={"k": [-3, -2, -1, 0, 1, 2]},
    ),
    "expanded_to_itself": Form(
        "float[N,{3|1}] x, int64 k",
        """e = {Expand(x, i[1,3])|Expand(x, i[1])|Expand(x, i[1,1])|Expand(x, i[3])}
        s = Shape(e)
        y = Gather(s, k)
        g = Gather<axis=1>(e, k)""",
        "y g",
        values={"k": [-3, -2, -1, 0, 1, 2]},
    ),
    "expanded_by_sizes": Form(
        "float[N,M] x, float[N,{M|K}] z, int64 k",
        """s = Shape(z)
        e = Expand(x, s)
        y = Gather<axis=1>(e, k)
        t = Shape(e)""",
        "y t",
        values={"k": [-2, -1, 0, 1, 2]},
    ),
    "cut_to_itself": Form(
        "float[N,3] x, int64 k",
        """c = Slice(x, i[0], i[{9223372036854775807|2147483647|3|2}], i[{0|1}])
        e = Slice(c, i[{0|-99}], i[{3|99}], i[1], i[1])
        s = Shape(e)
        y = Gather<axis={0|1}>(e, k)""",
        "y s",
        values={"k": [-3, -2, -1, 0, 1, 2]},
    ),
    "joined_and_cut": Form(
        "float[2,3] a, float[2,3] b, int64 k",
        """c = Concat<axis={0|1}>(a, b)
        e = Slice(c, i[{0|2|3}], i[{2|4|6|3}], i[{0|1}])
        s = Shape(e)
        y = Gather<axis=0>(e, k)""",
        "y s",
        values={"k": [-3, -2, -1, 0, 1, 2]},
    ),
    "where_of_quantized": Form(
        "bool[N] c, uint8[N] x, int64 k",
        """a = DequantizeLinear(x, f(0.5), u(0))
        w = {Where(c, a, f(3))|Where(c, f(0), a)|Where(c, f[[1]], a)}
        q = QuantizeLinear(w, f(0.5), u(0))
        e = DequantizeLinear(q, f(0.5), u(0))
        i0 = Cast<to=7>(e)
        y = Gather(f[0,1,2,3], i0)
        s = Shape(e)
        z = Gather(s, k)""",
        "y z",
        values={"k": [-2, -1, 0, 1], "x": [0, 1, 2, 3, 4]},
    ),
    "infinite_and_counted": Form(
        "float[N] x, int64 k",
        """a = IsInf{|<detect_negative=0>}(x)
        c = Cast<to={1|7|6|11}>(a)
        r = ReduceSum<keepdims={0|1}>(c)
        n = Cast<to=7>(r)
        m = Min(n, i(3))
        y = Gather(f[0,1,2], m)
        b = Greater(r, r)
        s = Shape(r)
        z = Size(s)
        g = Gather(i[0,1], z)""",
        "y g",
        values={"x": [0, 1, np.inf, -np.inf, np.nan]},
        opset=(17, 13, 20),
    ),
    "padded_then_pooled": Form(
        "float[1,1,A,A] x, int64 k",
        """p = Pad{|<mode="constant">}(x, i[0,0,{1|0},1,0,0,{1|2},1])
        c = {Conv<kernel_shape=[2,2]>(p, f[[[[1,0],[0,1]]]])
            |{Max|Average}Pool<kernel_shape=[2,2]>(p)}
        s = Shape(c)
        y = Gather<axis=2>(c, k)
        m = ReduceMin<keepdims=0>(c)
        i0 = Cast<to=7>(m)
        z = Gather(i[0,1,2], i0)""",
        "y s {z|m}",
        values={"k": [-3, -2, 0, 1, 2, 3], "x": [-3, -1, 1, 2, 3]},
        opset=(17, 13),
    ),
    "convolved": Form(
        "float[1,4,A,A] x, int64 k",
        """w = ConstantOfShape<value=float[1]{0.5}>(i[4,4,1,1])
        c = Conv(x, w)
        m = {Mul(c, f[[[[2]],[[1]],[[1]],[[3]]]])|Add(c, f[[[1]]])|Relu(c)|Mul(c, f[2])}
        n = {BatchNormalization(m, f[1,2,3,4], f[1,1,1,1], f[0,0,0,0], f[1,1,1,1])
            |Sigmoid(m)|Add(m, c)|Clip(m)}
        g = GlobalAveragePool(n)
        f0 = Flatten(g)
        i0 = ArgMax<axis=1>(f0)
        y = Gather<axis=1>(n, k)
        s = Shape(n)
        z = Gather<axis=1>(n, i0)""",
        "{y|s|z} s",
        values={"k": [-5, -4, 0, 3, 4], "x": [-3, -1, 0, 1, 2]},
        opset=(17, 13),
    ),
    "two_that_fail": Form(
        "float[] x, int64[N] i",
        """w = ConstantOfShape<value=float[1]{1}>(i[8,4,1,1])
        c = Conv(x, w)
        p = {Relu(c)|MaxPool<kernel_shape=[1,1]>(c)}
        g = Gather(f[1,2], i)
        e = Neg(g)
        y = GatherElements(f[1,2], i)""",
        "{e p|p e y|y p|g p|p g}",
        values={"i": [0, 1, 0, 1, 2]},
    ),
    "convolved_then_turned": Form(
        "float[1,A,A,4] x, int64 k",
        """t = Transpose<perm=[0,3,1,2]>(x)
        w = ConstantOfShape<value=float[1]{1}>(i[8,4,1,1])
        c = Conv(t, w)
        p = MaxPool<kernel_shape=[2,2], pads=[0,0,1,1], ceil_mode={0|1},
            strides=[{1|2},1]>(c)
        u0 = Transpose<perm=[0,2,3,1]>(p)
        s = Shape(u0)
        y = Gather<axis=1>(u0, k)""",
        "y s",
        values={"k": [-3, -2, 0, 1, 2], "x": [0, 1, 2]},
        opset=(17, 13),
    ),
    "not_where": Form(
        "bool[N] c, int64[N] x",
        """n = Not(c)
        w = Where({n|c}, x, i{(0)|[1]|[[2]]})
        y = Gather(f[0,1,2,3], w)
        s = Shape(w)
        z = Where(n, i(1), i(2))
        q = Gather(i[0,1], z)""",
        "y {s|q}",
        values={"x": [-4, -1, 0, 3, 4]},
    ),
    "not_compared": Form(
        "float[N] x",
        """l = {Less(x, f(1))|Greater(x, f(1))|LessOrEqual(x, f(1))|Equal(x, x)}
        n = Not(l)
        w = Where(n, x, f(0))
        i0 = Cast<to=7>(w)
        y = Gather(f[0,1,2,3], i0)""",
        "y",
    ),
    "shape_behind_a_node": Form(
        "float[N,2] x, int64 k",
        """c = {Cast<to=7>(x)|Cast<to=10>(x)|Identity(x)|Relu(x)|Abs(x)}
        s = Shape(c)
        n = Gather(s, k)
        t = Transpose(x)
        v = Shape{|<start=-1>|<start=1,end=9>}(t)
        y = Gather(v, k)""",
        "n y",
        values={"k": [-2, -1, 0, 1, 2]},
        opset=(17, 21),
    ),
    "shape_of_a_gather": Form(
        "float[N,2] x, int64[M] k",
        """g = Gather<axis={0|1}>(x, k)
        c = {Cast<to=7>(g)|Relu(g)|Identity(g)|Neg(g)}
        s = Shape(c)
        y = Gather(s, i(1))""",
        "y",
        values={"k": [-3, -1, 0, 1, 3]},
    ),
    "size_of_a_gather": Form(
        "float[N,2] x, int64[M,1] k",
        """g = {GatherND(x, k)|GatherElements<axis=1>(x, k)}
        s = Shape(g)
        n = Gather(s, i(0))
        y = Gather(i[0,1,2,3,4], n)""",
        "y",
        values={"k": [-3, -1, 0, 1, 3]},
    ),
    "a_constant_out_of_range": Form(
        "float[N] x, int64 k",
        """c = Gather(i[{1,2|3,4}], i({2|-3|1}))
        s = Shape(x)
        d0 = Add(s, c)
        y = Sub(d0, s)""",
        "y",
    ),
    "a_folded_constant_that_is_refused": Form(
        "int64 k",
        """n = Neg(i[1,0])
        o = OneHot({n|i[1,0]}, i(3), f[0,1])
        y = Gather<axis=1>(o, k)
        s = Shape(o)""",
        "y s",
        values={"k": [-4, -3, 0, 2, 3]},
        opset=(9, 10),
    ),
    "sizes_that_are_fixed": Form(
        "float[N,3] x, float[2,3] z, int64 k",
        """s = Shape({x|z})
        a = Gather(s, {i(1)|i[1]|i(0)})
        b = Mul(a, i(2))
        m = Min(b, i(5))
        y = Gather(i[0,1,2,3,4], m)
        r = Size(z)
        q = Gather(s, k)""",
        "y r q",
        values={"k": [-2, -1, 0, 1, 2]},
    ),
    "a_name_for_two_sizes": Form(
        "float[N] x, float[N] z, int64 k",
        """s = Shape(x)
        t = Shape(z)
        d0 = Sub(s, i[1])
        e = Sub(t, i[1])
        y = Gather(x, d0)
        w = Gather(z, e)
        p = Concat<axis=0>(s, t)
        q = Reshape(z, s)""",
        "{y w|w|p|q|y w p}",
        is_loose=True,
    ),
    "a_declared_size": Form(
        "float[N] x, int64 k",
        """a = {Abs|Relu|com.microsoft.Gelu}(x)
        s = Shape(a)
        d0 = Sub(s, i[1])
        y = Gather(x, d0)""",
        "y",
        declared="float[4] a",
    ),
    "a_declared_name": Form(
        "float[N] x, float[M] z",
        """a = {Abs|Relu}(x)
        s = Shape(a)
        t = Shape(z)
        d0 = Sub(s, i[1])
        y = Gather(z, d0)
        r = Reshape(x, {t|s})""",
        "{y|y r|r}",
        declared="float[M] a",
    ),
    "clipped": Form(
        "float[N] x",
        """a = {Relu(x)|Clip(x, f(0), f(3))|Max(x, f(0))|Min(x, f(2))}
        b = {Clip(a, f(-1), f(2))|Relu(a)|Min(a, f(3))|Clip(a, , f(3))|Max(a, f(-1))}
        c = Cast<to=7>(b)
        y = Gather(f[0,1,2,3], c)""",
        "y",
    ),
    "same_twice": Form(
        "int64[N] x, int64 k",
        """a = {Add(x, i(1))|Mod(x, i(3))|Neg(x)}
        b = {Add(x, i(1))|Mod(x, i(3))|Neg(x)}
        c = Sub(a, b)
        y = Gather(i[7], c)
        s = Shape(a)
        t = Shape(b)
        u0 = Gather(s, k)
        v0 = Gather(t, k)
        w = RandomUniformLike<dtype=1>(y)
        z = RandomUniformLike<dtype=1>(y)
        q = Shape(w)""",
        "y u0 v0 q",
        values={"k": [-2, -1, 0, 1]},
    ),
    "gathers_alike": Form(
        "float[N] x, int64[M] k",
        """a = Gather(x, k)
        b = Gather(x, k)
        c = Sub(a, b)
        e = Cast<to=7>(c)
        y = Gather(i[7], e)
        z = GatherElements(x, k)""",
        "y z",
        values={"k": [-3, -1, 0, 1, 3], "x": [0, 1, 2]},
    ),
    "biased_softmax": Form(
        "float[B,1,N] x, float{[B,1,N]|[N]|[B,1,1]|[1,N]} z, int64 k",
        """a = Add(x, z)
        b = Softmax<axis={-1|2|1|0}>(a)
        s = Shape(b)
        m = ArgMax<axis=2>(b)
        y = Gather<axis=2>(x, m)
        g = Gather(s, k)""",
        "g {y|b}",
        values={"k": [-4, -1, 0, 2, 3], "x": [0, 1, 2], "z": [0, 1, 2]},
    ),
    "gemm": Form(
        "float[N,3] x, float{[2]|[1,2]|[N,2]|[1]|[]} c, int64 k",
        """t = Transpose(x)
        m = Gemm{|<transA=1>}({x|t}, f[[1,2],[3,4],[5,6]]{, c|, f[1,2]|})
        a = {Add(m, c)|Relu(m)|LeakyRelu(m)|Sigmoid(m)|Add(m, f[[[1,1]]])}
        s = Shape(a)
        g = Gather(s, k)
        y = Gather<axis=-1>(a, k)""",
        "g {y|s}",
        values={"k": [-3, -2, -1, 0, 1, 2], "x": [0, 1], "c": [0, 1, 2]},
    ),
    "positions_of_ones": Form(
        "int64[B,S] x, int64 k",
        """s = Shape(x)
        n = Gather(s, i[{1|0}])
        o = ConstantOfShape<value=int64[1]{1}>(n)
        z = NonZero(o)
        t = Transpose(z)
        p = Squeeze(t, i[1])
        y = Gather<axis=1>(x, p)
        c = ConstantOfShape<value=int64[1]{{1|0}}>(i[{3|0}])
        m = NonZero(c)
        w = Squeeze(m, i[0])
        q = Gather(i[5,6], w)""",
        "y q",
    ),
    "a_constant_condition": Form(
        "int64[N] x, int64 k",
        """n = Greater(i({1|0}), i(0))
        y = If(n) <
          then_branch = then () => (int64[] a) { a = Gather(x, k) },
          else_branch = other () => (int64[] b) { e = Sub(k, i(2)) b = Gather(x, e) }
        >
        z = Gather(i[0,1,2], {y|k})""",
        "{y|z}",
        values={"k": [-2, -1, 0, 1], "x": [0, 1, 2, 3]},
    ),
    "turned_twice": Form(
        "float[A,B,2] x, int64 k",
        """t = Transpose<perm={[1,0,2]|[2,1,0]}>(x)
        s = Shape(t)
        u0 = Transpose<perm={[1,0,2]|[2,1,0]}>(t)
        a = Gather(s, k)
        y = Gather<axis=0>(u0, k)
        r = Reshape(u0, s)
        w = Gather<axis=0>(r, k)""",
        "a {y|w}",
        values={"k": [-4, -2, -1, 0, 1, 2, 3]},
    ),
    "attention": Form(
        "float[B,S,4] x, int64 k",
        """q = MatMul(x, f[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]])
        s = Shape(x)
        b = Gather(s, i(0))
        n = Gather(s, i(1))
        b1 = Unsqueeze(b, i[0])
        n1 = Unsqueeze(n, i[0])
        c = Concat<axis=0>(b1, n1, i[2], i[2])
        r = Reshape(q, c)
        t = Transpose<perm=[0,2,1,3]>(r)
        u0 = Transpose<perm=[0,2,3,1]>(r)
        m = MatMul(t, u0)
        v = {Div(m, f(1.4142135))|Mul(m, f[0.7])}
        p = Softmax<axis=-1>(v)
        o = MatMul(p, t)
        w = Transpose<perm=[0,2,1,3]>(o)
        e = Concat<axis=0>(b1, n1, i[{4|-1}])
        y = Reshape(w, e)
        g = Gather<axis={1|2}>(y, k)
        h0 = Shape(y)""",
        "g h0",
        values={"k": [-4, -2, -1, 0, 1, 2, 3], "x": [0, 1]},
    ),
    "reduced_over_nothing": Form(
        "float[N,2] x, int64 k",
        """a = {ReduceSum<noop_with_empty_axes=1>(x, i[])|ReduceSum<keepdims=0>(x, i[])}
        b = {ReduceMax<axes=[0]>(x)|ReduceMean<axes=[1],keepdims=0>(x)}
        s = Shape(a)
        t = Shape(b)
        y = Gather(s, k)
        z = Gather(t, k)
        m = Cast<to=7>(b)
        g = Gather<axis=0>(x, m)""",
        "{y|z|g}",
        values={"k": [-2, -1, 0, 1], "x": [0, 1, 2]},
        opset=(17, 13),
    ),
    "sizes_multiplied": Form(
        "float[A,B] x, int64 k",
        """s = Shape(x)
        p = ReduceProd<keepdims={0|1}>(s)
        f0 = Reshape(x, i[-1])
        l = Sub(p, i(1))
        y = Gather(f0, l)
        q = Div(p, {i(2)|i(3)})
        w = Gather(f0, q)""",
        "y w",
        opset=(17, 13),
    ),
    "halves_of_a_float": Form(
        "float16[N] x, int64 k",
        """a = {Add(x, h(0.1))|Mul(x, h(3))|Sqrt(x)}
        b = {Mul(a, h(0.1))|Sub(a, h(1))|Add(a, a)}
        c = {Exp(b)|Relu(b)|Floor(b)}
        i0 = Cast<to=7>(c)
        y = Gather(f[0,1,2,3], i0)
        s = Shape(c)
        z = Gather(s, k)""",
        "y z",
        values={"k": [-1, 0], "x": [0, 1, 2, 3, 0.1]},
    ),
    "halves_turned_to_floats": Form(
        "float16[N,2] x",
        """m = MatMul(x, h[[1,2],[0.1,3]])
        a = Add(m, h[0.1,0.3])
        c = Cast<to=1>(a)
        e = Mul(c, f(1.1))
        g = Cast<to=10>(e)
        i0 = Cast<to=7>(g)
        y = Gather(f[0,1,2,3,4,5,6,7,8,9], i0)""",
        "y",
        values={"x": [0, 1, 2, 0.1, 3]},
    ),
}
"""The forms by name."""


@dataclass(frozen=True)
class Drawn:
    """A graph of a form."""

    model: onnx.ModelProto
    form: Form

    def feeds(self, random: Random) -> Feeds:
        """A draw of the inputs.

        Args:
            random: The random numbers.
        """
        sizes, found = dict[str, int](), Feeds()
        styles: list[Style] = ["calm", "near", "near", "wild"]
        style = random.choice(styles)
        for value in self.model.graph.input:
            kind, shape = value.type.tensor_type, list[int]()
            for dim in kind.shape.dim:
                name = dim.dim_param
                if name and (name not in sizes or self.form.is_loose):
                    sizes[name] = random.choice(self.form.sizes.get(name, _SIZES))
                shape.append(sizes[name] if name else dim.dim_value)
            dtype = str(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
            chosen = self.form.values.get(value.name)
            if chosen is None:
                found[value.name] = numbers(random, dtype, shape, style)
            else:
                elements = random.choices(chosen, k=int(np.prod(shape)))
                found[value.name] = np.array(elements, dtype).reshape(shape)
        return found


def drawn(name: str, random: Random) -> Drawn:
    """A graph of a form.

    Args:
        name: The name of the form.
        random: The random numbers of its choices.

    Raises:
        onnx.parser.ParseError: The form is no text of a graph.
    """
    form = FORMS[name]

    def choose(text: str) -> str:
        while _CHOICE.search(text):
            text = _CHOICE.sub(
                lambda found: random.choice(found[1].split("|")), text, count=1
            )
        return text

    constants = dict[str, onnx.TensorProto]()

    def constant(found: re.Match[str]) -> str:
        letter, text = found.groups()
        array = np.array(json.loads(text.strip("()")), _DTYPES[letter])
        named = f"c{len(constants)}"
        constants[named] = numpy_helper.from_array(array, named)
        return named

    outputs = [*dict.fromkeys(choose(form.outputs).split())]
    nodes = _LITERAL.sub(constant, choose(form.nodes))
    opset = random.choice(form.opset)
    head = f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
    ends = ", ".join(f"int64 {name}" for name in outputs)
    inputs = choose(form.inputs)
    model = parser.parse_model(f"{head} {name} ({inputs}) => ({ends}) {{ {nodes} }}")
    graph = model.graph
    for k, node in enumerate(graph.node):
        node.name = f"{node.op_type}_{k}"
    del graph.output[:]
    kept = leading(graph.node, outputs)
    del graph.node[:]
    graph.node.extend(kept)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    used = {name for node in graph.node for name in captured(node)}
    graph.initializer.extend(t for n, t in constants.items() if n in used)
    if form.declared:
        text = f"{head} g ({form.declared}) => ({ends}) {{ }}"
        graph.value_info.extend(parser.parse_model(text).graph.input)
    return Drawn(model, form)
