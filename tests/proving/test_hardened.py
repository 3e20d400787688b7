"""The nodes that `harden` adds keep each index in range, for all sizes from 1 to 2^31 -
1."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from rings import one_quick_in

import onnxgather as og
from onnxgather.core.model.network import read_network
from onnxgather.core.model.values import ModelProto
from onnxgather.proving.claims import walk
from onnxgather.proving.solvers import solve
from onnxgather.proving.tensors import LazyTensor, Moved, Run, lazy, unrounded
from onnxgather.proving.terms import (
    Int,
    Truth,
    all_of,
    choose,
    is_equal,
    no,
    read,
    script,
    variable,
    weighted,
)

pytest.importorskip("z3")

GATHERS = {
    "Gather": ("N", "3", "3"),
    "GatherElements": ("N", "3", "3"),
    "GatherND": ("N, M", "3, 2", "3"),
}
RULES = ("clamp", "zero", "index=0")
BITS = {"int32": 32, "int64": 64}


def gather(operator: str, dtype: str) -> ModelProto:
    """A model of one node whose data have open sizes."""
    data, indices, output = GATHERS[operator]
    axis = "" if operator == "GatherND" else "<axis = 0>"
    return onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        gather (float[{data}] data, {dtype}[{indices}] ids) => (float[{output}] out) {{
            out = {operator} {axis} (data, ids)
        }}
    """)


def walked(
    model: ModelProto, dtype: str
) -> tuple[LazyTensor, list[Truth], list[Int], list[Int]]:
    """The output, where the model fails, the indices of the first element, and their
    sizes."""
    main, run = read_network(model).main, Run()
    sizes = main.types["data"].sizes, main.types["ids"].sizes
    rank, shape = len(sizes[0] or ()), tuple(n or 1 for n in sizes[1] or ())
    open_sizes = list[Int](variable(f"size{k}", 1, 2**31 - 1) for k in range(rank))
    steps = [2**32, 1][-rank:]  # positions differ where coordinates do

    def index(k: Int) -> Int:
        return read("ids", k, -(2 ** (BITS[dtype] - 1)), 2 ** (BITS[dtype] - 1) - 1)

    data = lazy(
        np.float32,
        open_sizes,
        lambda at: Moved(True, weighted(zip(at, steps, strict=True)), 0),
    )
    ids = lazy(
        dtype, shape, lambda at: index(weighted(zip(at, (rank, 1), strict=False)))
    )
    out = walk(main, [data, ids], run)[0]
    fails = [
        unrounded(one.at(at))
        for one, _ in run.failures
        for at in np.ndindex(*(size for size in one.shape if isinstance(size, int)))
    ]
    return out, fails, [index(k) for k in range(rank)], open_sizes


def verdict(given: Truth, conclusion: Truth) -> str:
    return solve(script([given], conclusion)[0], 30).verdict


CASES = [
    (name, dtype, rule)
    for name in GATHERS
    for dtype in BITS
    for rule in RULES
    # ONNX forbids other indices of GatherND, so that harden leaves the node.
    if (name, dtype) != ("GatherND", "int32")
]


@pytest.mark.parametrize(("operator", "dtype", "rule"), one_quick_in(12, CASES))
def test_hardened_indices_are_in_range_for_every_size(
    operator: str, dtype: str, rule: str
) -> None:
    out, fails, indices, sizes = walked(og.harden(gather(operator, dtype), rule), dtype)
    assert fails
    for truth in fails:
        assert verdict(True, no(truth)) == "unsat"
    pairs = [*zip(indices, sizes, strict=True)]
    in_range = all_of(*(all_of(i < n, no(i < -n)) for i, n in pairs))
    assert verdict(in_range, False) == "sat"
    element = out.at((0,))
    assert isinstance(element, Moved)
    steps = [2**32, 1][-len(pairs) :]
    counted = [
        (choose(i < 0, i + n, i), step)
        for (i, n), step in zip(pairs, steps, strict=True)
    ]
    same = all_of(element.is_input, is_equal(element.position, weighted(counted)))
    assert verdict(in_range, same) == "unsat"
    zero = all_of(no(element.is_input), is_equal(element.bits, 0))
    is_zero = verdict(no(in_range), zero) == "unsat"
    assert is_zero == (rule == "zero")


@pytest.mark.parametrize("operator", GATHERS)
def test_without_harden_indices_may_be_out_of_range(operator: str) -> None:
    _, fails, _, _ = walked(gather(operator, "int64"), "int64")
    assert {verdict(True, no(truth)) for truth in fails} == {"sat"}
