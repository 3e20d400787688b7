"""The figure of how many gathers of exported networks are proved, and those
networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_graphs import constant, written
from strength import main

TOLD = """\
small.kind.onnx: file: {'proved-if': 1, 'proved': 1, 'not-proved': 1}; \
contract: {'proved': 2, 'not-proved': 1}; \
shapes and ranges: {'proved': 2, 'not-proved': 1}
    not proved: wild: large
file: 1 of 3 proved (33.3%), 2 with conditions (66.7%)
contract: 2 of 3 proved (66.7%), 2 with conditions (66.7%)
shapes and ranges: 2 of 3 proved (66.7%), 2 with conditions (66.7%)
"""


def test_the_figure_counts_the_gathers_that_compute_no_shapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = """(int64[n] ids, int64[n] large) => (y, z, count) <int64 zero = {0}> {
        shape = Shape (ids)
        [size] count = Gather (shape, zero)
        [embedding] rows = Gather (table, ids)
        best = ArgMax <axis=1, keepdims=0> (rows)
        [chosen] y = Gather (table, best)
        other = BitwiseNot (large)
        [wild] z = Gather (table, other)
    }"""
    made = written(graph, constant("table", np.eye(4, dtype=np.float32)))
    tmp_path.joinpath("small.kind.onnx").write_bytes(made.SerializeToString())
    np.savez(tmp_path / "small.npz", ids=np.array([1, 3]), large=np.array([-1, -8]))
    main(tmp_path)
    assert capsys.readouterr().out == TOLD
