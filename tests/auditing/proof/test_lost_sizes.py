"""The node behind which a size is not known, and the shape that tells it."""

from __future__ import annotations

import onnx
import pytest
from onnx_graphs import written

import onnxgather as og
from onnxgather.auditing.proof.index_range import Lost

IMAGE = "float[1, 3, h, w] x"
VECTOR = "float[n] x"
SMALLER = "[smaller] a = SpaceToDepth <blocksize = 2> (x)"
INTO = "[into] a = Reshape (x, sizes)"
IMAGE_SHAPE = "--shape x=1,3,12,12"

MODELS = {
    "blocks": (IMAGE, SMALLER, "a", 2, ("smaller", "SpaceToDepth", IMAGE_SHAPE)),
    "the first of two blocks": (
        IMAGE,
        f"{SMALLER}  [again] b = SpaceToDepth <blocksize = 2> (a)",
        "b",
        2,
        ("smaller", "SpaceToDepth", IMAGE_SHAPE),
    ),
    "sizes that an input has": (
        f"{VECTOR}, int64[2] sizes",
        f"{INTO}  [turn] b = Transpose <perm = [1, 0]> (a)",
        "b",
        0,
        ("into", "Reshape", None),
    ),
    "a rank that an input has": (
        f"{VECTOR}, int64[rank] sizes",
        f"{INTO}  [negative] b = Neg (a)",
        "b",
        0,
        ("into", "Reshape", None),
    ),
    "the length of the shape of a rank that an input has": (
        f"{VECTOR}, int64[rank] sizes",
        f"{INTO}  b = Shape (a)",
        "b",
        0,
        ("into", "Reshape", "--shape x=2 --shape sizes=2"),
    ),
    "a count of elements behind blocks": (
        IMAGE,
        f"{SMALLER}  [which] b = NonZero (a)",
        "b",
        1,
        ("which", "NonZero", None),
    ),
    "a count of elements": (
        VECTOR,
        "[which] a = NonZero (x)",
        "a",
        1,
        ("which", "NonZero", None),
    ),
}
"""Inputs and nodes, the value and the axis of which the third element is gathered, and
what is told of its size."""


def gathered(name: str) -> onnx.ModelProto:
    inputs, nodes, data, axis, _ = MODELS[name]
    return written(f"""
        ({inputs}) => (y)
        <int64 two = {{2}}>
        {{ {nodes}  [pick] y = Gather <axis = {axis}> ({data}, two) }}
    """)


@pytest.mark.parametrize("name", MODELS)
def test_the_first_node_is_told_that_lost_a_size(name: str) -> None:
    (gather,) = og.audit(gathered(name), levels=()).gathers
    assert gather.range.state == "not-proved"
    assert gather.range.lost == Lost(*MODELS[name][-1])


@pytest.mark.parametrize(
    "name", [name for name, row in MODELS.items() if row[-1][-1] == IMAGE_SHAPE]
)
def test_the_shape_that_is_told_proves_the_gather(name: str) -> None:
    shapes = {"x": [1, 3, 12, 12]}
    (gather,) = og.audit(gathered(name), shapes=shapes, levels=()).gathers
    assert (gather.range.state, gather.range.lost) == ("proved", None)


def test_an_open_size_of_an_input_is_not_lost() -> None:
    made = written("""
        (float[n] x, float[2] scale) => (y)
        {
            far = Exp (scale)
            which = Cast <to = 7> (far)
            y = Gather (x, which)
        }
    """)
    (gather,) = og.audit(made, levels=()).gathers
    assert (gather.range.state, gather.range.lost) == ("not-proved", None)


def test_a_rank_may_be_lost_farther_away_than_calls_can_be_deep() -> None:
    count = 5_000
    chain = " ".join(f"a{k + 1} = Neg (a{k})" for k in range(count))
    made = written(f"""
        ({VECTOR}, int64[k] sizes, int64[2] ids) => (y) {{
            [into] a0 = Reshape (x, sizes)
            {chain}
            [picked] y = Gather (a{count}, ids)
        }}
    """)
    *_, picked = og.audit(made, levels=()).gathers
    assert picked.range.lost == Lost("into", "Reshape")
