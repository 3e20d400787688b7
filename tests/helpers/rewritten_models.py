"""Models that ONNX Runtime rewrites into models with other results.

At level 0 a model runs as ONNX's specification says. From another level on, the
graph that runs is another: an operator refuses an index, or other rows come back
without an error. So an audit of the file alone cannot say what these models do.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime

# The levels of graph optimization in ONNX Runtime: disabled, basic, extended, and
# all (99), which is its default. Level 3 (layout) is all here: no model has a layout.
LEVELS = (0, 1, 2, 3, 99)

RUNS = "runs"
DIFFERS = "differs"
LOAD = "load"


@dataclass(frozen=True)
class RewrittenModel:
    """A model, the inputs it is run with, and what each level does.

    An outcome is `RUNS`, `DIFFERS` (it returns another result than level 0 does),
    `LOAD` (no session is made), or the operator that refuses. Where level 0 refuses,
    `RUNS` says that another level does not.
    """

    name: str
    text: str
    inputs: Mapping[str, "np.ndarray[Any, Any]"]
    disabled: str
    basic: str
    extended: str
    all: str
    before: Mapping[int, str] = field(default_factory=dict[int, str])
    """The outcomes that ONNX Runtime 1.24.4 has in their place, by level."""

    @property
    def outcomes(self) -> dict[int, str]:
        """Return the outcome at each level of `LEVELS`."""
        return {
            0: self.disabled,
            1: self.basic,
            2: self.extended,
            3: self.all,
            99: self.all,
        }

    def model(self) -> onnx.ModelProto:
        """Return the model that the text describes."""
        return onnx.parser.parse_model(self.text)


def session_at(model: onnx.ModelProto, level: int) -> Any:
    """Return a session of ONNX Runtime's CPU provider at a level of optimization."""
    runtime: Any = onnxruntime
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel(level)
    options.log_severity_level = 4  # fatal: a run that fails is no message
    options.intra_op_num_threads = 1
    content = model.SerializeToString()
    return runtime.InferenceSession(
        content, options, providers=["CPUExecutionProvider"]
    )


HEADER = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
"""

Outcomes = tuple[str, str, str, str]

# The levels from which on an operator refuses.
FROM_BASIC = 1
FROM_EXTENDED = 2


def _since(level: int, outcome: str, disabled: str = RUNS) -> Outcomes:
    """Return the outcomes of a model that is rewritten from a level on."""
    basic = outcome if level == FROM_BASIC else disabled
    return disabled, basic, outcome, outcome


def _floats(*sizes: int) -> "np.ndarray[Any, Any]":
    count = int(np.prod(sizes))
    return np.arange(1, count + 1, dtype=np.float32).reshape(sizes)


def _integers(*values: int) -> "np.ndarray[Any, Any]":
    return np.array(values, np.int64)


def _scalar(value: int) -> "np.ndarray[Any, Any]":
    return np.array(value, np.int64)


def _digits(count: int) -> str:
    """Return the elements of a table as text."""
    return ", ".join(str(number % 7) for number in range(count))


def _row(
    name: str,
    outcomes: Outcomes,
    text: str,
    before: Mapping[int, str] | None = None,
    **inputs: "np.ndarray[Any, Any]",
) -> RewrittenModel:
    return RewrittenModel(name, HEADER + text, inputs, *outcomes, before or {})


ONE = np.ones((), np.float32)

# The rank of a constant of one element is lost.


def _of_divided(end: str, output: str, at: str, size: str = "N") -> str:
    """Return `c / x * y`, which becomes `y / x`, and what gathers from it."""
    return f"""divided (float[{size}] x, float[{size}] y) => ({output} z)
        <float[1, 1] c = {{1.0}}, {at}> {{
          d = Div(c, x)
          r = Mul(d, y)
          {end}
        }}"""


SHAPE_OF_R = "s = Shape(r) z = Gather(s, at)"

DIVIDED = [
    _row(
        "divided: the shape",
        _since(FROM_BASIC, "Gather"),
        _of_divided(SHAPE_OF_R, "int64", "int64 at = {1}"),
        x=_floats(3),
        y=_floats(3),
    ),
    _row(
        "divided: the rows",
        _since(FROM_BASIC, DIFFERS),
        _of_divided("z = Gather(r, at)", "float[M]", "int64 at = {0}"),
        x=_floats(3),
        y=_floats(3),
    ),
    _row(
        "divided: a tuple",
        _since(FROM_BASIC, "GatherND"),
        _of_divided("z = GatherND(r, at)", "float", "int64[2] at = {0, 1}"),
        x=_floats(3),
        y=_floats(3),
    ),
    _row(
        "divided: scalars",
        _since(FROM_BASIC, "Gather"),
        """divided (float x, float y) => (int64 z)
        <float[1] c = {1.0}, int64 at = {0}> {
          d = Div(c, x)
          r = Mul(d, y)
          s = Shape(r)
          z = Gather(s, at)
        }""",
        x=ONE,
        y=ONE,
    ),
]

QUANTIZED = [
    _row(
        "quantized: the shape",
        _since(FROM_EXTENDED, "Gather"),
        """quantized (float[N, 4] x) => (int64 z)
        <uint8[4, 2] b = {1, 2, 3, 4, 5, 6, 7, 8}, float[1, 1, 1] bs = {0.5},
         int64 at = {2}> {
          q, s, zp = DynamicQuantizeLinear(x)
          m = MatMulInteger(q, b, zp)
          mf = Cast<to = 1>(m)
          sc = Mul(s, bs)
          r = Mul(mf, sc)
          t = Shape(r)
          z = Gather(t, at)
        }""",
        x=_floats(2, 4),
    ),
    _row(
        "quantized: the columns",
        _since(FROM_EXTENDED, LOAD),
        """quantized (float[K] x) => (float[M] z)
        <int8[4, 2] b = {1, 2, 3, 4, 5, 6, 7, 8}, float[1, 1] bs = {0.5},
         int64 at = {1}> {
          q, s, zp = DynamicQuantizeLinear(x)
          m = MatMulInteger(q, b, zp)
          mf = Cast<to = 1>(m)
          sc = Mul(s, bs)
          r = Mul(mf, sc)
          z = Gather<axis = 1>(r, at)
        }""",
        x=_floats(4),
    ),
]

ACTIVATIONS = [
    _row(
        "gelu of a scalar",
        _since(FROM_EXTENDED, "Gather"),
        """gelu (float x) => (float z)
        <float[1] s = {1.41421356}, float[1] one = {1.0}, float[1] half = {0.5},
         int64 at = {0}> {
          d = Div(x, s)
          e = Erf(d)
          a = Add(e, one)
          m = Mul(x, a)
          r = Mul(m, half)
          z = Gather(r, at)
        }""",
        x=ONE,
    ),
    _row(
        "quick gelu of a scalar",
        _since(FROM_EXTENDED, "Gather"),
        """quick_gelu (float x) => (float z)
        <float[1] s = {1.702}, int64 at = {0}> {
          m = Mul(x, s)
          e = Sigmoid(m)
          r = Mul(x, e)
          z = Gather(r, at)
        }""",
        x=ONE,
    ),
    _row(
        "fast gelu of a scalar",
        _since(FROM_EXTENDED, "FastGelu"),
        """fast_gelu (float x) => (float z)
        <float[1] a = {0.7978845608}, float[1] b = {0.044715}, float[1] one = {1.0},
         float[1] half = {0.5}, float[1] three = {3.0}, int64 at = {0}> {
          p = Pow(x, three)
          m = Mul(p, b)
          s = Add(x, m)
          t = Mul(s, a)
          u = Tanh(t)
          v = Add(u, one)
          h = Mul(x, half)
          r = Mul(h, v)
          z = Gather(r, at)
        }""",
        x=ONE,
    ),
]


def _normalized(two: str, epsilon: str, scale: str) -> str:
    return f"""normalized (float[N] x) => (float[M] z)
        <int64 at = {{0}}, {two} two = {{2.0}}, {epsilon} ep = {{0.00001}},
         {scale} ga = {{1, 1, 1, 1}}, {scale} be = {{0, 0, 0, 0}}> {{
          m = ReduceMean<axes = [-1]>(x)
          d = Sub(x, m)
          p = Pow(d, two)
          v = ReduceMean<axes = [-1]>(p)
          va = Add(v, ep)
          s = Sqrt(va)
          n = Div(d, s)
          g = Mul(n, ga)
          r = Add(g, be)
          z = Gather(r, at)
        }}"""


NORMALIZED = [
    _row(
        "normalized: the epsilon",
        _since(FROM_BASIC, DIFFERS),
        _normalized("float", "float[1, 1]", "float[4]"),
        x=_floats(4),
    ),
    _row(
        "normalized: the exponent",
        _since(FROM_BASIC, DIFFERS),
        _normalized("float[1, 1]", "float", "float[4]"),
        x=_floats(4),
    ),
    _row(
        "normalized: the scale",
        _since(FROM_EXTENDED, LOAD),
        _normalized("float", "float", "float[1, 4]"),
        x=_floats(4),
    ),
    _row(
        "normalized without a mean",
        _since(FROM_EXTENDED, DIFFERS),
        """normalized (float[4] x) => (float[M] z)
        <int64 at = {0}, float two = {2.0}, float[1, 1] ep = {0.00001},
         float[4] ga = {1, 1, 1, 1}> {
          p = Pow(x, two)
          v = ReduceMean<axes = [-1]>(p)
          va = Add(v, ep)
          s = Sqrt(va)
          n = Div(x, s)
          r = Mul(n, ga)
          z = Gather(r, at)
        }""",
        x=_floats(4),
    ),
]

# A size that only the check of a Reshape guarantees.


def _reshaped(end: str, output: str) -> str:
    """Return a Reshape to [B, P, 4], which becomes a Reshape to [0, -1, 4]."""
    return f"""reshaped (float[B, 12] x, float[P] y, float[P] w) => ({output} z)
        <int64 zero = {{0}}, int64[1] first = {{0}}, int64[1] four = {{4}},
         int64 one = {{1}}> {{
          sx = Shape(x)
          sy = Shape(y)
          b = Gather(sx, zero)
          p = Gather(sy, zero)
          b1 = Unsqueeze(b, first)
          p1 = Unsqueeze(p, first)
          t = Concat<axis = 0>(b1, p1, four)
          r = Reshape(x, t)
          {end}
        }}"""


LAST_OF_R = "i = Sub(p, one) z = Gather<axis = 1>(r, i)"
LAST_OF_W = "sr = Shape(r) k = Gather(sr, one) i = Sub(k, one) z = Gather(w, i)"

RESHAPED = [
    _row(
        "reshaped: more rows",
        _since(FROM_BASIC, "Gather", "Reshape"),
        _reshaped(LAST_OF_R, "float[B, 4]"),
        x=_floats(2, 12),
        y=_floats(4),
        w=_floats(4),
    ),
    _row(
        "reshaped: fewer rows",
        _since(FROM_BASIC, RUNS, "Reshape"),
        _reshaped(LAST_OF_R, "float[B, 4]"),
        x=_floats(2, 12),
        y=_floats(2),
        w=_floats(2),
    ),
    _row(
        "reshaped: a size as index",
        _since(FROM_BASIC, "Gather", "Reshape"),
        _reshaped(LAST_OF_W, "float"),
        x=_floats(2, 12),
        y=_floats(2),
        w=_floats(2),
    ),
]

# What a size was cast to.


def _cast(data_type: int, size: int, rows: int, use: str = "e = Expand(v, n)") -> str:
    return f"""cast (float[{size}] x, float[{rows}] w, float v) => (float z)
        <int64 one = {{1}}, int64 zero = {{0}}, int64[1] one1 = {{1}}> {{
          s = Shape(x)
          c = Cast<to = {data_type}>(s)
          n = Cast<to = 7>(c)
          {use}
          r = Abs(e)
          sr = Shape(r)
          k = Squeeze(sr)
          i = Sub(k, one)
          z = Gather(w, i)
        }}"""


CAST = [
    _row(
        "cast to BOOL",
        _since(FROM_BASIC, "Gather"),
        _cast(9, 3, 1),
        x=_floats(3),
        w=_floats(1),
        v=ONE,
    ),
    _row(
        "cast to BOOL for a Tile",
        _since(FROM_BASIC, "Gather"),
        _cast(9, 3, 1, "u = Reshape(v, one1) e = Tile(u, n)"),
        x=_floats(3),
        w=_floats(1),
        v=ONE,
    ),
    _row(
        "cast to BOOL for a Range",
        _since(FROM_BASIC, "Gather"),
        _cast(
            9,
            3,
            1,
            "m = Squeeze(n) q = Range(zero, m, one) f = Cast<to = 1>(q) e = Add(f, v)",
        ),
        x=_floats(3),
        w=_floats(1),
        v=np.zeros((), np.float32),
    ),
    _row(
        "cast to BOOL for a ConstantOfShape",
        _since(FROM_BASIC, "Gather"),
        _cast(9, 3, 1, "c0 = ConstantOfShape(n) e = Add(c0, v)"),
        x=_floats(3),
        w=_floats(1),
        v=ONE,
    ),
    _row(
        "cast to INT8",
        _since(FROM_BASIC, "Gather"),
        _cast(3, 300, 44),
        x=_floats(300),
        w=_floats(44),
        v=ONE,
    ),
]

# A range of rows becomes a Slice.

RANGE = """ranged (int64 a, int64 b, float[8, 2] t) => (float[M, 2] z)
        <int64 one = {1}> {
          r = Range(a, b, one)
          z = Gather(t, r)
        }"""


def _ranged(name: str, outcome: str, start: int, stop: int) -> RewrittenModel:
    disabled = "Gather" if outcome == RUNS else RUNS
    return _row(
        f"ranged: {name}",
        _since(FROM_EXTENDED, outcome, disabled),
        RANGE,
        a=_scalar(start),
        b=_scalar(stop),
        t=_floats(8, 2),
    )


RANGED = [
    _ranged("beyond the end", RUNS, 6, 10),
    _ranged("after the end", RUNS, 20, 22),
    _ranged("before the start", RUNS, -10, 2),
    _ranged("below 0", DIFFERS, -2, 0),
    _ranged("through 0", DIFFERS, -2, 2),
]

# A gather of which only the shape counts.

FOLDED = [
    _row(
        "folded",
        _since(FROM_BASIC, RUNS, "Gather"),
        """folded (float[8, 2] t, int64[1] i) => (int64[2] z) {
          r = Gather(t, i)
          z = Shape(r)
        }""",
        t=_floats(8, 2),
        i=_integers(9),
    ),
    _row(
        "folded after a Cast",
        _since(FROM_BASIC, RUNS, "Gather"),
        """folded (float[8, 2] t, int64[1] i) => (int64[2] z) {
          r = Gather(t, i)
          c = Cast<to = 11>(r)
          z = Shape(c)
        }""",
        t=_floats(8, 2),
        i=_integers(9),
    ),
]

# A size that the file declares, and that the value does not have.

DECLARED = [
    _row(
        "declared",
        _since(FROM_BASIC, "Gather"),
        """declared (float[N] x) => (float z) <int64 one = {1}, float[4] y> {
          y = Abs(x)
          s = Shape(y)
          k = Squeeze(s)
          i = Sub(k, one)
          z = Gather(x, i)
        }""",
        x=_floats(3),
    ),
]

# Embeddings, which become a node that refuses indices below 0.


def _embedded(name: str, row: int, segment: int) -> RewrittenModel:
    text = f"""embedded (int64[1, 3] ids, int64[1, 3] seg) => (float[1, 3, 4] z)
        <float[6, 4] w = {{{_digits(24)}}}, float[8, 4] p = {{{_digits(32)}}},
         float[2, 4] sg = {{{_digits(8)}}}, float[4] ga = {{1, 1, 1, 1}},
         float[4] be = {{0, 0, 0, 0}}, int64[1, 3] pid = {{0, 1, 2}},
         float[4, 12] aw = {{{_digits(48)}}}, float[12] ab = {{{_digits(12)}}}> {{
          a = Gather(w, ids)
          b = Gather(p, pid)
          c = Gather(sg, seg)
          d = Add(a, b)
          e = Add(d, c)
          l = LayerNormalization<axis = -1, epsilon = 0.00001>(e, ga, be)
          z = com.microsoft.Attention<num_heads = 2>(l, aw, ab)
        }}"""
    return _row(
        f"embedded: {name}",
        _since(FROM_EXTENDED, "EmbedLayerNormalization"),
        text,
        before={2: RUNS, 3: RUNS, 99: RUNS},
        ids=np.array([[row, 2, 3]], np.int64),
        seg=np.array([[0, segment, 0]], np.int64),
    )


EMBEDDED = [
    _embedded("a word below 0", -1, 1),
    _embedded("a segment below 0", 1, -1),
]

REWRITTEN_MODELS = (
    *DIVIDED,
    *QUANTIZED,
    *ACTIVATIONS,
    *NORMALIZED,
    *RESHAPED,
    *CAST,
    *RANGED,
    *FOLDED,
    *DECLARED,
    *EMBEDDED,
)
