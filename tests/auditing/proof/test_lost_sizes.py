"""The node behind which a size is not known, and the shape that tells it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx_graphs import FLOAT, INT64, constant, info, model, node, nodes_of, written

import onnxgather as og
from onnxgather.auditing.proof.ranges import Lost

SMALLER = node("SpaceToDepth", ["x"], "a", "smaller", blocksize=2)
AGAIN = node("SpaceToDepth", ["a"], "b", "again", blocksize=2)
IMAGE = info("x", FLOAT, [1, 3, "h", "w"])
SIZES = info("sizes", INT64, [2])
IMAGE_SHAPE = "--shape x=1,3,12,12"
UNKNOWN_RANK = info("sizes", INT64, ["rank"])


def gathered(
    nodes: list[onnx.NodeProto], data: str, *inputs: Any, axis: int = 0
) -> onnx.ModelProto:
    """A model that gathers the third element of an axis of a value."""
    pick = node("Gather", [data, "two"], "y", "pick", axis=axis)
    return model([*nodes, pick], [*inputs], ["y"], [constant("two", np.array(2))])


MODELS = {
    "blocks": (
        gathered([SMALLER], "a", IMAGE, axis=2),
        "smaller",
        "SpaceToDepth",
        IMAGE_SHAPE,
    ),
    "the first of two blocks": (
        gathered([SMALLER, AGAIN], "b", IMAGE, axis=2),
        "smaller",
        "SpaceToDepth",
        IMAGE_SHAPE,
    ),
    "sizes that an input has": (
        gathered(
            nodes_of("""
                [into] a = Reshape (x, sizes)
                [turn] b = Transpose <perm = [1, 0]> (a)
            """),
            "b",
            info("x", FLOAT, ["n"]),
            SIZES,
        ),
        "into",
        "Reshape",
        None,
    ),
    "a rank that an input has": (
        gathered(
            nodes_of("""
                [into] a = Reshape (x, sizes)
                [negative] b = Neg (a)
            """),
            "b",
            info("x", FLOAT, ["n"]),
            UNKNOWN_RANK,
        ),
        "into",
        "Reshape",
        None,
    ),
    "the length of the shape of a rank that an input has": (
        gathered(
            nodes_of("""
                [into] a = Reshape (x, sizes)
                b = Shape (a)
            """),
            "b",
            info("x", FLOAT, ["n"]),
            UNKNOWN_RANK,
        ),
        "into",
        "Reshape",
        "--shape x=2 --shape sizes=2",
    ),
    "a count of elements behind blocks": (
        gathered([SMALLER, node("NonZero", ["a"], "b", "which")], "b", IMAGE, axis=1),
        "which",
        "NonZero",
        None,
    ),
    "a count of elements": (
        gathered(
            nodes_of("[which] a = NonZero (x)"), "a", info("x", FLOAT, ["n"]), axis=1
        ),
        "which",
        "NonZero",
        None,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_first_node_is_told_that_lost_a_size(name: str) -> None:
    made, lost_by, operator, told_by = MODELS[name]
    (gather,) = og.audit(made, levels=()).gathers
    assert gather.range.state == "not-proved"
    assert gather.range.lost == Lost(lost_by, operator, told_by)


@pytest.mark.parametrize(
    "name", [name for name, row in MODELS.items() if row[-1] == IMAGE_SHAPE]
)
def test_the_shape_that_is_told_proves_the_gather(name: str) -> None:
    made = MODELS[name][0]
    (gather,) = og.audit(made, shapes={"x": [1, 3, 12, 12]}, levels=()).gathers
    assert (gather.range.state, gather.range.lost) == ("proved", None)


def test_an_open_size_of_an_input_is_not_lost() -> None:
    (gather,) = og.audit(
        written("""
        (float[n] x, float[2] scale) => (y)
        {
            far = Exp (scale)
            which = Cast <to = 7> (far)
            y = Gather (x, which)
        }
    """),
        levels=(),
    ).gathers
    assert (gather.range.state, gather.range.lost) == ("not-proved", None)
