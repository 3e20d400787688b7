"""The figure of how many gathers of exported networks are proved, and those
networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_graphs import INT64, constant, info, model, node
from strength import main


def test_the_figure_counts_the_gathers_that_compute_no_shapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        node("Shape", ["ids"], "shape"),
        node("Gather", ["shape", "zero"], "count", "size"),
        node("Gather", ["table", "ids"], "rows", "embedding"),
        node("ArgMax", ["rows"], "best", axis=1, keepdims=0),
        node("Gather", ["table", "best"], "y", "chosen"),
        node("Gather", ["table", "other"], "z", "wild"),
    ]
    constants = [
        constant("table", np.eye(4, dtype=np.float32)),
        constant("zero", np.int64(0)),
    ]
    inputs = [info("ids", INT64, ["n"]), info("large", INT64, ["n"])]
    nodes.insert(5, node("BitwiseNot", ["large"], "other"))
    made = model(nodes, inputs, ["y", "z", "count"], constants)
    tmp_path.joinpath("small.kind.onnx").write_bytes(made.SerializeToString())
    np.savez(tmp_path / "small.npz", ids=np.array([1, 3]), large=np.array([-1, -8]))
    main(tmp_path)
    assert capsys.readouterr().out.splitlines() == [
        "small.kind.onnx: file: {'proved-if': 1, 'proved': 1, 'not-proved': 1}; "
        "contract: {'proved': 2, 'not-proved': 1}; "
        "shapes and ranges: {'proved': 2, 'not-proved': 1}",
        "    not proved: wild: large",
        "file: 1 of 3 proved (33.3%), 2 with conditions (66.7%)",
        "contract: 2 of 3 proved (66.7%), 2 with conditions (66.7%)",
        "shapes and ranges: 2 of 3 proved (66.7%), 2 with conditions (66.7%)",
    ]
