"""The figure of how many gathers of a folder of models are proved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_graphs import INT64, constant, info, model, node
from strength import main


def test_the_figure_counts_the_gathers_that_level_1_leaves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        node("Shape", ["ids"], "shape"),
        node("Gather", ["shape", "zero"], "count", "folded"),
        node("Gather", ["table", "ids"], "rows", "embedding"),
        node("ArgMax", ["rows"], "best", axis=1, keepdims=0),
        node("Gather", ["table", "best"], "y", "chosen"),
    ]
    constants = [constant("table", np.eye(4, dtype=np.float32)), constant("zero", np.int64(0))]
    made = model(nodes, [info("ids", INT64, ["n"])], ["y", "count"], constants)
    tmp_path.joinpath("small.kind.onnx").write_bytes(made.SerializeToString())
    np.savez(tmp_path / "small.npz", ids=np.array([1, 3]))
    main(str(tmp_path))
    assert capsys.readouterr().out.splitlines() == [
        "small.kind.onnx not proved: embedding: ids",
        "{'gathers': 2, 'proved': 1, 'proved with ranges': 2}",
    ]
