"""Each row of the table of quirks that audits know is what the installed ONNX Runtime
does, and what names a row is in the table."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from folders import ROOT
from quirk_rows import NAMES, Outcome, check_shown

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model import quirks
from onnxgather.core.model.protos import bodies_of
from onnxgather.core.model.quirks import OPTIMIZATION_LEVELS, Quirk

HALF, FLOAT = np.float16, np.float32
LARGEST = 2**31 - 1
PACKAGE = ROOT / "onnxgather"


def attributes(graph: onnx.GraphProto) -> str:
    """The attributes of the nodes of a graph."""
    return " ".join(a.name for node in graph.node for a in node.attribute)


def operators(graph: onnx.GraphProto) -> str:
    """The operators of a graph."""
    return " ".join(node.op_type for node in graph.node)


def values(graph: onnx.GraphProto) -> str:
    """The values that the nodes of a graph compute."""
    return " ".join(name for node in graph.node for name in node.output)


def constants_of_bodies(graph: onnx.GraphProto) -> str:
    """The constants in the bodies of a graph."""
    bodies = [body for node in graph.node for _, body in bodies_of(node)]
    return " ".join(tensor.name for body in bodies for tensor in body.initializer)


@dataclass
class Exhibit:
    """A model, and what it gives."""

    quirk: Quirk
    inputs: str
    output: str
    nodes: str
    by_onnx: Outcome
    """The elements of the output; "fails", or "is refused" if no session is made; or
    what is seen of the graph that runs."""
    by_runtime: Outcome
    feeds: dict[str, Array] = field(default_factory=dict[str, Any])
    constants: str = ""
    opset: int = 17
    seen: Callable[[onnx.GraphProto], str] | None = None
    """What is seen of the graph that runs; None if the model runs."""
    functions: str = ""

    def outcome(self, level: int, folder: Path) -> Outcome:
        """What the CPU provider makes of the model at a level of optimization."""
        model = onnx.parser.parse_model(f"""
            <ir_version: 8, opset_import: ["" : {self.opset}, "com.microsoft" : 1,
             "ai.onnx.ml" : 3, "own" : 1]>
            g ({self.inputs}) => ({self.output}) <{self.constants}> {{ {self.nodes} }}
            {self.functions}""")
        runtime: Any = onnxruntime
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel(level)
        options.log_severity_level = 4  # fatal: a run that fails is no message
        written = folder / "written.onnx"
        options.optimized_model_filepath = str(written)
        # As an audit asks for it, though nothing is large enough to be written there.
        start = "session.optimized_model_external_initializers_"
        options.add_session_config_entry(f"{start}file_name", "large.bin")
        options.add_session_config_entry(f"{start}min_size_in_bytes", "1000000")
        content = model.SerializeToString()
        cpu = ["CPUExecutionProvider"]
        try:
            session = runtime.InferenceSession(content, options, providers=cpu)
        except Exception:  # ONNX Runtime has its own
            return "is refused"
        if self.seen is not None:
            return self.seen(onnx.ModelProto.FromString(written.read_bytes()).graph)
        try:
            *_, found = session.run(None, self.feeds)
        except Exception:
            return "fails"
        return "nothing" if found is None else found.tolist()


EXHIBITS = [
    Exhibit(
        quirks.INLINED_BODIES,
        "float[2] x",
        "float[2] y",
        "y = own.f(x)",
        "y",
        "_inlfunc_f_c y",
        functions="""<domain: "own", opset_import: ["" : 17]>
            f (a) => (b) { c = Neg(a)  b = Abs(c) }""",
        seen=values,
    ),
    Exhibit(
        quirks.MERGED_NODES,
        "float[3] x, int64[2] t",
        "float[2] y",
        "a = Gather(x, t)  b = Gather(x, t)  y = Add(a, b)",
        "Gather Gather Add",
        "Gather Add",
        seen=operators,
    ),
    Exhibit(
        quirks.MOVED_TRANSPOSE,
        "float[2, 3, 4] x",
        "float[M, N] y",
        "t = Transpose<perm = [2, 1, 0]>(x)  y = Gather(t, one)",
        "Transpose Gather",
        "Gather Transpose",
        constants="int64 one = {1}",
        seen=operators,
    ),
    Exhibit(
        quirks.GATHERS_TO_SPLIT,
        "float[2, 3] x",
        "float[N] y",
        "a = Gather(x, zero)  b = Gather(x, one)  y = Add(a, b)",
        "Gather Gather Add",
        "Split Squeeze Squeeze Add",
        constants="int64 zero = {0}, int64 one = {1}",
        seen=operators,
    ),
    Exhibit(
        quirks.EARLY_NORMALIZATION,
        "float[1, 2] x",
        "float[1, 2] y",
        "y = LayerNormalization(x, scale)",
        "is refused",
        [[0, 0]],
        {"x": np.ones((1, 2), FLOAT)},
        constants="float[2] scale = {1, 1}",
        opset=13,
    ),
    Exhibit(
        quirks.WRITTEN_DEFAULTS,
        "float[3] x, int64[2] t",
        "float[2] y",
        "y = Gather(x, t)",
        "",
        "axis",
        seen=attributes,
    ),
    Exhibit(
        quirks.REPEATED_CONSTANTS,
        "float[2] x, int64 n",
        "float[2] y",
        """y = Loop<body = b (int64 i, bool c, float[2] s) => (bool d, float[2] u)
            <float[2] k = {5, 6}> { d = Identity(c)  u = Add(s, k) }>(n, true, x)""",
        "k",
        "k k",
        constants="bool true = {1}",
        seen=constants_of_bodies,
    ),
    Exhibit(
        quirks.FOLDED_FAILURE,
        "float x",
        "float y",
        "a = Gather(row, five)  y = Add(x, a)",
        "fails",
        "is refused",
        {"x": np.ones((), FLOAT)},
        constants="float[2] row = {1, 2}, int64 five = {5}",
    ),
    Exhibit(
        quirks.CASTS_IN_A_ROW,
        "float[2] x",
        "int32[2] y",
        "a = Cast<to = 7>(x)  y = Cast<to = 6>(a)",
        [3 * 10**9 - 2**32, 512],
        [-(2**31), -(2**31)],
        {"x": np.array([3e9, 2.0**32 + 512], FLOAT)},
    ),
    Exhibit(
        quirks.CAST_OF_FRACTION,
        "float[2] x",
        "bool[2] y",
        "a = Cast<to = 7>(x)  y = Cast<to = 9>(a)",
        [0, 0],
        [1, 1],
        {"x": np.array([0.5, -0.5], FLOAT)},
    ),
    Exhibit(
        quirks.ROUNDED_TWICE,
        "double x",
        "float16 y",
        "y = Cast<to = 10>(x)",
        2050,
        2048,
        {"x": np.array(2049.0000001)},
    ),
    Exhibit(
        quirks.HALVES_AS_FLOATS,
        "float16[2] x",
        "float[2] y",
        "a = Add(x, x)  b = Sub(a, x)  c = Sqrt(b)  y = Cast<to = 1>(c)",
        [np.inf, float(np.sqrt(HALF(2)))],
        [float(np.sqrt(FLOAT(60000))), float(np.sqrt(FLOAT(2)))],
        {"x": np.array([60000, 2], HALF)},
    ),
    Exhibit(
        quirks.SIGN_OF_NAN,
        "float16 x",
        "float16 y",
        "y = Sign(x)",
        np.nan,
        0,
        {"x": np.array(np.nan, HALF)},
    ),
    Exhibit(
        quirks.RESIZE_IN_FLOAT,
        "float[N] x",
        "int64[1] y",
        """a = Resize<mode = "nearest">(x, , factor)  y = Shape(a)""",
        [12],
        [13],
        {"x": np.zeros(10, FLOAT)},
        constants="float[1] factor = {1.3}",
    ),
    Exhibit(
        quirks.FMOD_AS_DOUBLE,
        "int64 x",
        "int64 y",
        "y = Mod<fmod = 1>(x, divisor)",
        2**60 + 1,
        0,
        {"x": np.array(2**60 + 1)},
        constants=f"int64 divisor = {{{2**60 + 3}}}",
    ),
    Exhibit(
        quirks.RANGE_IN_TYPE,
        "int32 x",
        "int32[N] y",
        "y = Range(x, low, one)",
        [],
        [LARGEST],
        {"x": np.array(LARGEST, np.int32)},
        constants=f"int32 low = {{{-(2**31)}}}, int32 one = {{1}}",
    ),
    Exhibit(
        quirks.AXES_FROM_END,
        "float[1, 2] x",
        "float[2] y",
        "y = Squeeze<axes = [-2]>(x)",
        "is refused",
        [1, 1],
        {"x": np.ones((1, 2), FLOAT)},
        opset=7,
    ),
    Exhibit(
        quirks.CONCAT_OF_NOTHING,
        "float[M, N] x, float[K, L] z",
        "float[1, L] y",
        "a = Concat<axis = 0>(x, z)  y = Slice(a, zero, one)",
        "fails",
        [[1, 1]],
        {"x": np.ones((1, 0), FLOAT), "z": np.ones((1, 2), FLOAT)},
        constants="int64[1] zero = {0}, int64[1] one = {1}",
    ),
    Exhibit(
        quirks.PRODUCT_OF_NOTHING,
        "float[A, 2, B] x, float[C, D, 2] z",
        "int64[3] y",
        "a = MatMul(x, z)  y = Shape(a)",
        [3, 2, 2],
        [1, 2, 2],
        {"x": np.ones((1, 2, 0), FLOAT), "z": np.ones((3, 0, 2), FLOAT)},
    ),
    Exhibit(
        quirks.REDUCTION_OF_NOTHING,
        "float[M, N] x",
        "float[K] y",
        "y = ReduceSum<keepdims = 0>(x, last)",
        [0, 0],
        [[], []],
        {"x": np.ones((2, 0), FLOAT)},
        constants="int64[1] last = {-1}",
    ),
    Exhibit(
        quirks.NOOP_OF_NOTHING,
        "int64[N] x",
        "int64[M] y",
        "y = ReduceMax<noop_with_empty_axes = 1>(x)",
        [],
        [0],
        {"x": np.zeros(0, int)},
        opset=18,
    ),
    Exhibit(
        quirks.CONVOLUTION_OF_NOTHING,
        "float[1, 1, N] x",
        "float[1, 1, M] y",
        "y = Conv(x, weights)",
        [[[]]],
        "fails",
        {"x": np.ones((1, 1, 2), FLOAT)},
        constants="float[1, 1, 3] weights = {1, 1, 1}",
    ),
    Exhibit(
        quirks.SKIPPED_STATISTICS,
        "float[1, 1, 2] x",
        "float[1, 1, 1] mean",
        "y, mean = com.microsoft.SkipLayerNormalization(x, x, scale)",
        [[[2]]],
        "nothing",
        {"x": np.ones((1, 1, 2), FLOAT)},
        constants="float[2] scale = {1, 1}",
    ),
    Exhibit(
        quirks.FEATURES_OF_LEAVES,
        "float[N, 1] x",
        "float[N, 1] y",
        """y = ai.onnx.ml.TreeEnsembleRegressor<
            nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2],
            nodes_featureids = [0, 0, 1], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],
            nodes_values = [0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0],
            nodes_falsenodeids = [2, 0, 0], n_targets = 1, target_treeids = [0, 0],
            target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, 2.0]
        >(x)""",
        [[2]],
        "fails",
        {"x": np.ones((1, 1), FLOAT)},
    ),
    Exhibit(
        quirks.SCALARS_OF_ANY_SHAPE,
        "float x",
        "float[N] y",
        "y = Neg(x)",
        "fails",
        [-1, -1],
        {"x": np.ones(2, FLOAT)},
    ),
    Exhibit(
        quirks.WHERE_OF_TRUTHS,
        "bool x",
        "bool y",
        "y = Where(x, x, x)",
        True,
        "is refused",
        {"x": np.array(True)},
    ),
]


@pytest.mark.parametrize(
    "exhibit", EXHIBITS, ids=[exhibit.quirk.name for exhibit in EXHIBITS]
)
def test_onnx_runtime_does_what_the_row_says(exhibit: Exhibit, tmp_path: Path) -> None:
    outcomes = {
        level: exhibit.outcome(number, tmp_path)
        for level, number in OPTIMIZATION_LEVELS.items()
    }
    check_shown(exhibit.quirk, outcomes, exhibit.by_onnx, exhibit.by_runtime)


def test_each_row_has_a_model_here_or_with_certificates_or_a_test_elsewhere() -> None:
    shown = {exhibit.quirk for exhibit in EXHIBITS}
    assert len(shown) == len(EXHIBITS)
    for row in NAMES:
        is_of_certificates = any(code.startswith("proving.") for code in row.code)
        assert [row in shown, is_of_certificates, bool(row.test)].count(True) == 1, row


@pytest.mark.parametrize("row", [row for row in NAMES if row.test], ids=NAMES.get)
def test_the_test_that_a_row_names_exists(row: Quirk) -> None:
    file, _, name = row.test.partition("::")
    text = (ROOT / "tests" / file).read_text("utf-8")
    assert f"\ndef {name}(" in text


@pytest.mark.parametrize("row", NAMES, ids=NAMES.get)
def test_the_code_of_a_row_names_the_row(row: Quirk) -> None:
    for code in row.code:
        assert re.search(rf"\b{NAMES[row]}\b", source_of(code)), code


def source_of(code: str) -> str:
    """The source of a module, a class or a function of the package."""
    names = code.split(".")
    module_names = [name for name in names if name.islower() and name[0] != "_"]
    while not PACKAGE.joinpath(*module_names).with_suffix(".py").exists():
        module_names.pop()
    found = importlib.import_module(".".join(["onnxgather", *module_names]))
    for name in names[len(module_names) :]:
        found = getattr(found, name)
    return inspect.getsource(found)


def test_a_row_that_an_audit_names_has_the_place_as_its_code() -> None:
    for path in (PACKAGE / "auditing").rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        place = ".".join(parts)
        for name in re.findall(r"quirks\.([A-Z_]+)", path.read_text("utf-8")):
            codes = getattr(quirks, name).code
            assert any(code.startswith(place) for code in codes), (place, name)
