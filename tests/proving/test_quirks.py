"""Each row that certificates know is what the installed ONNX Runtime does.

The model of a row means its descriptor by ONNX's specification, and not on the CPU
provider at the levels of the row. A certificate proves it only if the rule of the row
is switched off.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from folders import ROOT
from onnx import TensorProto, helper
from quirk_rows import NAMES, Outcome, check_shown
from rings import one_quick_in
from short_descriptors import descriptor

from onnxgather.core.execution.runtime import CPU, FailedError, Opened, Setup
from onnxgather.core.model import quirks
from onnxgather.core.model.quirks import OPTIMIZATION_LEVELS, Quirk
from onnxgather.core.options import OutOfRange
from onnxgather.proving import counterexamples, operators
from onnxgather.proving import quirks as rules
from onnxgather.proving.certify import certify

pytest.importorskip("z3")

DESC = descriptor("GATHER: FLOAT32 5, INT64 3, FLOAT32 3, 0, 1")
LARGEST = 2**63 - 1


@dataclass
class Exhibit:
    """A model that means `DESC` by ONNX's specification."""

    quirk: Quirk
    nodes: str
    by_onnx: Outcome
    """The elements of the output, "fails", or "stops" if the process stops."""
    by_runtime: Outcome
    indices: Sequence[int] = (0, 1, 2)
    data: Sequence[float] = (1, 2, 3, 4, 5)
    policy: OutOfRange = "clamp"
    open_sizes: Sequence[str] = ("5", "3")
    """The sizes of InputTensor and IndicesTensor as the model declares them."""
    declared: Sequence[tuple[str, int]] = ()
    """Values with the sizes that are declared for them."""
    low_halves: bool = False

    @property
    def model(self) -> onnx.ModelProto:
        """The model."""
        data, indices = self.open_sizes
        constants = {
            "int64 zero": "0",
            "int64 one": "1",
            "int64 three": "3",
            "int64 low": "-5",
            "int64 high": "4",
            "int64 most_exact": str(2**53),
            "int64[0] none": "",
            "int64[1] at0": "0",
            "int64[1] at1": "1",
            "int64[1] at2": "2",
            "int64[1] at3": "3",
            "int64[1] minus": "-1",
            "int64[1] largest": str(LARGEST),
            "int64[3] first3": "0, 1, 2",
            "int64[3] last3": "3, 4, 5",
            "int64[5] ones": "1, 1, 1, 1, 1",
        }
        written = ", ".join(f"{name} = {{{row}}}" for name, row in constants.items())
        model = onnx.parser.parse_model(f"""
            <ir_version: 8, opset_import: ["" : 17]>
            g (float[{data}] InputTensor, int64[{indices}] IndicesTensor)
                => (float[3] OutputTensor)
            <{written}> {{
                near = Clip(IndicesTensor, low, high)
                right = Gather(InputTensor, near)
                {self.nodes}
            }}""")
        for name, size in self.declared:
            value = helper.make_tensor_value_info(name, TensorProto.INT64, [size])
            model.graph.value_info.append(value)
        return model

    def outcome(self, level: int) -> Outcome:
        """What the CPU provider makes of the model at a level of optimization."""
        content = self.model.SerializeToString()
        opened = Opened(content, Setup(CPU, threads=1, level=level))
        feeds = {
            "InputTensor": np.array(self.data, np.float32),
            "IndicesTensor": np.array(self.indices, np.int64),
        }
        try:
            return opened.run(feeds).reshape(-1).tolist()
        except FailedError:
            return "fails"


SHIFTED = "moved = Add(near, shift) OutputTensor = Gather(InputTensor, moved)"
EXHIBITS = [
    Exhibit(
        quirks.SHAPE_OF_FAILING,
        "f = Gather(InputTensor, IndicesTensor) s = Shape(f)\n"
        "OutputTensor = Reshape(right, s)",
        by_onnx="fails",
        by_runtime=[5, 1, 1],
        indices=(20, 0, -20),
        policy="error",
    ),
    Exhibit(
        quirks.RESHAPE_OF_FAILING,
        "f = Gather(ones, IndicesTensor) sum = ReduceSum(f)\n"
        "sizes = Concat<axis = 0>(sum, at1) r = Reshape(right, sizes)\n"
        "OutputTensor = Squeeze(r, at1)",
        by_onnx="fails",
        by_runtime=[5, 1, 1],
        indices=(20, 0, -20),
        policy="error",
    ),
    Exhibit(
        quirks.DECLARED_SIZES,
        "a = Add(IndicesTensor, one) s = Shape(a)\nOutputTensor = Slice(right, at0, s)",
        by_onnx=[1, 2, 3],
        by_runtime=[1, 2],
        open_sizes=("5", "M"),
        declared=[("a", 2)],
    ),
    Exhibit(
        quirks.SIZES_OF_ONE_NAME,
        "u = Unsqueeze(InputTensor, at1) five3 = Concat<axis = 1>(u, u, u)\n"
        "s = Shape(IndicesTensor) n = Gather(s, zero) first = Unsqueeze(n, at0)\n"
        "sizes = Concat<axis = 0>(first, minus) r = Reshape(five3, sizes)\n"
        "rs = Shape(r) r0 = Gather(rs, zero) shift = Sub(r0, three)\n" + SHIFTED,
        by_onnx=[1, 2, 3],
        by_runtime=[3, 4, 5],
        open_sizes=("N", "N"),
    ),
    Exhibit(
        quirks.CAST_OF_SIZES,
        "u = Slice(IndicesTensor, at0, at1) s = Shape(IndicesTensor)\n"
        "truth = Cast<to = 9>(s) one_size = Cast<to = 7>(truth)\n"
        "e = Expand(u, one_size) es = Shape(e)\n"
        "n = Gather(es, zero) shift = Sub(n, one)\n" + SHIFTED,
        by_onnx=[1, 2, 3],
        by_runtime="fails",
    ),
    Exhibit(
        quirks.QUOTIENT_OF_ONE,
        "q = Div(one, three) shift = Mul(q, IndicesTensor)\n" + SHIFTED,
        by_onnx=[2, 1, 4],
        by_runtime=[1, 1, 5],
        indices=(-4, 0, 3),
    ),
    Exhibit(
        quirks.GATHER_OF_RANGE,
        "d = Sub(IndicesTensor, IndicesTensor) n = Gather(d, zero)\n"
        "begin = Sub(n, one) end = Add(begin, three) r = Range(begin, end, one)\n"
        "c = Gather(InputTensor, r) six = Concat<axis = 0>(c, right)\n"
        "OutputTensor = Gather(six, last3)",
        by_onnx=[1, 2, 3],
        by_runtime="fails",
    ),
    Exhibit(
        quirks.SLICE_BACKWARDS,
        "empty = Slice(InputTensor, at1, largest, at0, minus)\n"
        "all = Concat<axis = 0>(empty, right) OutputTensor = Gather(all, first3)",
        by_onnx=[1, 2, 3],
        by_runtime=[2, 1, 1],
    ),
    Exhibit(
        quirks.SQUEEZE_OF_NO_AXES,
        "u = Unsqueeze(near, at0) q = Squeeze(u, none)\n"
        "sum = ReduceSum<keepdims = 0>(q, at0) OutputTensor = Gather(InputTensor, sum)",
        by_onnx=[1, 2, 3],
        by_runtime=[4],
    ),
    Exhibit(
        quirks.WHERE_OF_FLOATS,
        "w = Less(IndicesTensor, one) OutputTensor = Where(w, right, right)",
        by_onnx=[-0.0, 2, 3],
        by_runtime=[0.0, 2, 3],
        data=(-0.0, 2, 3, 4, 5),
    ),
    Exhibit(
        quirks.SUM_IN_FLOATS,
        "c = Clip(IndicesTensor, zero, most_exact) sum = ReduceSum<keepdims = 0>(c)\n"
        "c0 = Gather(c, at0) c1 = Gather(c, at1) c2 = Gather(c, at2)\n"
        "d = Sub(sum, c0) e = Sub(d, c1) shift = Sub(e, c2)\n" + SHIFTED,
        by_onnx=[5, 2, 1],
        by_runtime=[4, 1, 5],
        indices=(2**53, 1, 0),
    ),
    Exhibit(
        quirks.DIVISION_THAT_STOPS,
        "unused = Div(IndicesTensor, minus) OutputTensor = Identity(right)",
        by_onnx=[1, 1, 1],
        by_runtime="stops",
        indices=(-(2**63), 0, 0),
    ),
    Exhibit(
        quirks.LOW_HALVES_AS_SIGNED,
        "OutputTensor = Identity(right)",
        by_onnx=[5, 1, 1],
        by_runtime="fails",
        indices=(2**31, 0, 0),
        low_halves=True,
    ),
]
EXHIBIT_NAMES = [exhibit.quirk.name for exhibit in EXHIBITS]

by_row = pytest.mark.parametrize("exhibit", EXHIBITS, ids=EXHIBIT_NAMES)
some_rows_quick = pytest.mark.parametrize(
    "exhibit", one_quick_in(12, EXHIBITS), ids=EXHIBIT_NAMES
)


def test_a_row_knows_from_which_version_onnx_runtime_is_right() -> None:
    assert quirks.LOW_HALVES_AS_SIGNED.right_from == "1.32.0"
    # The newest version shows these.
    assert quirks.SUM_IN_FLOATS.right_from == ""
    assert quirks.SLICE_BACKWARDS.right_from == ""


def test_a_row_that_newer_versions_lack_is_a_precondition_of_certificates() -> None:
    source = Path(operators.__file__).read_text("utf-8")
    for row, name in NAMES.items():
        is_of_certificates = any(code.startswith("proving.") for code in row.code)
        if is_of_certificates and row.right_from:
            assert f"run.quirks.add(quirks.{name})" in source


def test_each_row_of_certificates_has_a_model() -> None:
    shown = {exhibit.quirk for exhibit in EXHIBITS}
    assert len(shown) == len(EXHIBITS)
    assert shown == {
        row for row in NAMES if any(code.startswith("proving.") for code in row.code)
    }


def outcome(exhibit: Exhibit, level: int) -> Outcome:
    """The outcome of a model, in another process if it may stop the process."""
    if exhibit.by_runtime != "stops":
        return exhibit.outcome(level)
    number = EXHIBITS.index(exhibit)
    code = f"import test_quirks; print(test_quirks.EXHIBITS[{number}].outcome({level}))"
    paths = [str(ROOT), str(ROOT / "tests" / "helpers"), str(Path(__file__).parent)]
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {paths}; {code}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode < 0 or not done.returncode, done.stderr
    return "stops" if done.returncode else eval(done.stdout)  # the list it printed


@some_rows_quick
def test_onnx_runtime_does_what_the_row_says(exhibit: Exhibit) -> None:
    outcomes = {
        level: outcome(exhibit, number) for level, number in OPTIMIZATION_LEVELS.items()
    }
    check_shown(exhibit.quirk, outcomes, exhibit.by_onnx, exhibit.by_runtime)


def state(exhibit: Exhibit, low_halves: bool) -> str:
    """The state of the certificate of a model."""
    model = exhibit.model
    return certify(DESC, exhibit.policy, model=model, low_halves=low_halves).state


@by_row
def test_a_model_that_onnx_runtime_changes_is_not_proved(exhibit: Exhibit) -> None:
    assert state(exhibit, exhibit.low_halves) != "proved"


@some_rows_quick
def test_without_the_rule_of_a_row_its_model_is_proved(
    exhibit: Exhibit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object, **__: object) -> None:
        pass

    if exhibit.quirk == quirks.SHAPE_OF_FAILING:
        monkeypatch.setattr(rules, "SIZE_INPUTS", {})
    elif exhibit.quirk == quirks.RESHAPE_OF_FAILING:
        monkeypatch.setattr(rules, "SIZE_INPUTS", {"Shape": (0,)})
    elif exhibit.quirk == quirks.SUM_IN_FLOATS:
        monkeypatch.setattr(operators, "_rely", nothing)
    else:
        for module in (counterexamples, operators, rules):
            monkeypatch.setattr(module, "avoid", nothing)
    assert state(exhibit, low_halves=False) == "proved"


DROPPED = {
    "Shape": "f = Gather(InputTensor, IndicesTensor) s = Shape(f)",
    "Shape of Cast": "f = Gather(InputTensor, IndicesTensor)\n"
    "c = Cast<to = 7>(f) s = Shape(c)",
    "Shape of Identity": "f = Gather(InputTensor, IndicesTensor)\n"
    "c = Identity(f) s = Shape(c)",
    "Shape of GatherElements": "f = GatherElements(InputTensor, IndicesTensor)\n"
    "s = Shape(f)",
    "Shape of GatherND": "u = Unsqueeze(IndicesTensor, at1)\n"
    "f = GatherND(InputTensor, u) s = Shape(f)",
    "Shape in a Scan": """
    s3 = Scan<num_scan_inputs = 1, body = b (int64 i) => (int64 k) {
        f = Gather(InputTensor, i)
        v = Unsqueeze(f, at0)
        s1 = Shape(v)
        k = Squeeze(s1, at0)
    }>(IndicesTensor) s = Shape(s3)""",
    "Shape of a Scan": """
    f = Scan<num_scan_inputs = 1, body = b (int64 i) => (float k) {
        k = Gather(InputTensor, i)
    }>(IndicesTensor) s = Shape(f)""",
}
"""Nodes that fail where an index is out of range, with a Shape `s` of what they
give."""
KEPT = {
    "Size": "f = Gather(InputTensor, IndicesTensor)\nn = Size(f) s = Unsqueeze(n, at0)",
    "no use": "f = Gather(InputTensor, IndicesTensor) s = Shape(near)",
}
"""Likewise, but ONNX Runtime 1.24.4 and 1.32.0 drop no node."""


@pytest.mark.parametrize("policy", ["clamp", "error"])
@pytest.mark.parametrize("name", one_quick_in(12, [*DROPPED, *KEPT]))
def test_a_node_of_which_only_sizes_follow_proves_no_failure(
    name: str, policy: OutOfRange
) -> None:
    nodes = {**DROPPED, **KEPT}[name]
    exhibit = Exhibit(
        quirks.SHAPE_OF_FAILING,
        f"{nodes}\n OutputTensor = Reshape(right, s)",
        by_onnx="fails",
        by_runtime=[5, 1, 1],
        indices=(20, 0, -20),
        policy=policy,
    )
    outcomes = [exhibit.outcome(level) for level in OPTIMIZATION_LEVELS.values()]
    dropped = name in DROPPED
    assert outcomes == ["fails", *[[5, 1, 1] if dropped else "fails"] * 3]
    found = certify(DESC, policy, model=exhibit.model)
    if not dropped and policy == "error":
        # Nothing differs here, but a later version may drop more nodes.
        why = "the model does not differ on the CPU provider where it is refuted"
        assert found.why == why
        return
    assert found.counterexample
    wanted = "an error" if policy == "error" else "float32 [3]"
    assert found.counterexample.expected == wanted
    level = "disabled" if dropped and policy == "clamp" else "all"
    assert found.counterexample.level == level


def test_a_node_that_fails_and_gives_the_elements_is_proved_beside_its_shape() -> None:
    exhibit = Exhibit(
        quirks.SHAPE_OF_FAILING,
        "f = Gather(InputTensor, IndicesTensor) s = Shape(f)\n"
        "OutputTensor = Reshape(f, s)",
        by_onnx="fails",
        by_runtime="fails",
        indices=(20, 0, -20),
        policy="error",
    )
    outcomes = [exhibit.outcome(level) for level in OPTIMIZATION_LEVELS.values()]
    assert outcomes == ["fails"] * 4
    assert state(exhibit, low_halves=False) == "proved"
