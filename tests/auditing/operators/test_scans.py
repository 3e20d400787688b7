"""What is known of the slices of Scan holds in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from network_draft import results, session
from onnx import numpy_helper
from onnx_graphs import constant, written

from onnxgather.auditing.algebra.bounds import Bounds
from onnxgather.auditing.proof.index_range import IndexRange, proof_of
from onnxgather.auditing.proof.ranges import ranges_of
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import read_network

LEVELS = range(4)
"""Of the optimizations of ONNX Runtime."""
Known = tuple[str, Any, int, int]
"""The data type, the sizes as text, the least and the greatest element."""


def run(model: onnx.ModelProto, level: int, feeds: dict[str, Any]) -> list[Array]:
    return [*results(session(model, level), feeds).values()]


def known(model: onnx.ModelProto, **feeds: Any) -> list[Bounds]:
    """What is known of the outputs; each level of ONNX Runtime computes what it
    allows."""
    network = read_network(model)
    found = ranges_of(network)
    values = [found.value(network.main, name) for name in network.main.outputs]
    for level in LEVELS:
        for value, array in zip(values, run(model, level, feeds), strict=True):
            if value.sizes is not None:
                assert len(value.sizes) == array.ndim
                pairs = zip(value.sizes, array.shape, strict=True)
                assert all(n == real for n, real in pairs if isinstance(n, int))
            assert (value.closed.low <= array[..., None]).all()
            assert (array[..., None] <= value.closed.high).all()
    return values


def told(value: Bounds) -> Known:
    low, high = value.closed.whole
    sizes = None if value.sizes is None else ", ".join(map(str, value.sizes))
    return value.data_type, sizes, low, high


X = constant("x", np.arange(12).reshape(6, 2))


def scan(attributes: str = "") -> str:
    """A Scan whose state is the row before, and which keeps each row plus this
    state."""
    return f"""
        end, all = Scan (start, x) <num_scan_inputs = 1, {attributes}
            body = g (int64[] state, int64[] row) => (int64[] next, int64[] kept)
            {{ next = Identity (row)  kept = Add (row, state) }} >
    """


@pytest.mark.parametrize(
    ("attributes", "start", "sizes", "high"),
    [
        ("", [0, 0], "6, 2", 20),
        (
            "scan_input_directions = [1], scan_output_directions = [1],",
            [0, 0],
            "6, 2",
            20,
        ),
        ("scan_input_axes = [1],", [0] * 6, "2, 6", 22),
        ("scan_input_axes = [-1], scan_output_axes = [1],", [0] * 6, "6, 2", 22),
        ("scan_output_axes = [-1],", [0, 0], "2, 6", 20),
    ],
)
def test_the_slices_of_a_scan_lie_along_the_axes_that_it_names(
    attributes: str, start: list[int], sizes: str, high: int
) -> None:
    text = f"() => (end, all) {{ {scan(attributes)} }}"
    model = written(text, X, constant("start", start))
    end, every = known(model)
    assert told(every)[:3] == ("INT64", sizes, 0)
    assert told(every)[3] >= high
    assert told(end) == ("INT64", str(len(start)), 0, 11)


def test_a_scan_over_an_open_size_keeps_as_many_slices() -> None:
    model = written(f"""
        (int64[N, 2] x) => (end, all)
        {{ start = ReduceMin <axes = [0], keepdims = 0> (x)  {scan()} }}
    """)
    end, every = known(model, x=numpy_helper.to_array(X))
    assert [str(end.sizes), str(every.sizes)] == ["(2,)", "(N, 2)"]


def test_nothing_is_known_of_a_scan_with_a_batch() -> None:
    model = written(
        """
        () => (end, all)
        <int64[2] lengths = {1, 1}, int64[2] start = {5, 7}>
        {
            end, all = Scan (lengths, start, x) <num_scan_inputs = 1,
                body = g (int64 state, int64[6] row) => (int64 next, int64 kept) {
                    b = Cast <to = 9> (state)
                    i = Cast <to = 7> (b)
                    kept = Gather (row, i)
                    next = Identity (state)
                } >
        }
        """,
        constant("x", np.arange(12).reshape(2, 1, 6)),
    )
    model.opset_import[0].version = 8
    assert [run(model, level, {})[1].tolist() for level in LEVELS] == [[[1], [7]]] * 4
    network = read_network(model)
    found = ranges_of(network)
    inside = network.main.operations[0].bodies["body"]
    assert proof_of(found, inside, inside.operations[2]) == IndexRange(
        "not-proved", (0,), (1,), (None,), "Cast", input="state"
    )
    for name in ("end", "all"):
        assert told(found.value(network.main, name))[1:] == (None, -np.inf, np.inf)
