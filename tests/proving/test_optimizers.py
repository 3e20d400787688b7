"""Our models as optimizers make them are still certified."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import onnx
import onnxruntime
import onnxslim
import pytest
from rings import by_ring

import onnxgather as og
from onnxgather.checking.corpus.sampling import random_cases
from onnxgather.proving.certify import certify

pytest.importorskip("z3")

CASES = list(random_cases(by_ring(2, 8), 3))


def slimmed(model: onnx.ModelProto, _: Path) -> Any:
    return cast("Any", onnxslim).slim(model)


def optimized_by_onnx_runtime(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    runtime = cast("Any", onnxruntime)
    options = runtime.SessionOptions()
    options.graph_optimization_level = (
        runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    )
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.log_severity_level = 3  # it warns that the file is for this machine alone
    runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return onnx.ModelProto.FromString((folder / "optimized.onnx").read_bytes())


@pytest.mark.parametrize("optimized", [slimmed, optimized_by_onnx_runtime])
def test_what_an_optimizer_makes_of_our_models_is_proved(
    optimized: Any, tmp_path: Path
) -> None:
    changed = 0
    for case in CASES:
        for target in ("portable", "cpu"):
            model = og.to_onnx(case.descriptor, case.out_of_range, target=target)
            other = optimized(
                onnx.ModelProto.FromString(model.SerializeToString()), tmp_path
            )
            changed += (
                other.graph.SerializeToString() != model.graph.SerializeToString()
            )
            found = certify(case.descriptor, case.out_of_range, model=other)
            assert (case.name, str(found)) == (case.name, "proved")
    assert changed
