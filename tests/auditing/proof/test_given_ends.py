"""A range that is given of an input, and leads to an index out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx_graphs import constant, written
from rings import one_quick_in

import onnxgather as og
from onnxgather.auditing.audit import Premises, audit_model, given_conditions
from onnxgather.auditing.graph_audit import joined_ranges
from onnxgather.auditing.levels import Levels
from onnxgather.auditing.proof.contract import Condition
from onnxgather.auditing.proof.given_ends import GivenRange
from onnxgather.auditing.proof.index_range import GivenEnd, IndexRange
from onnxgather.core.model.network import read_network

TABLE = constant("table", np.zeros((4, 3), np.float32))


def picked(nodes: str, inputs: str = "int64[n] ids") -> onnx.ModelProto:
    """A model that computes indices from ids, and gathers."""
    text = f"""
        ({inputs}) => (y)
        <int64 two = {{2}}, int64 four = {{4}}>
        {{ {nodes}  [pick] y = Gather (table, which) }}
    """
    return written(text, TABLE)


def index_range(
    made: onnx.ModelProto, given: tuple[int, int], **more: Any
) -> IndexRange:
    (gather,) = og.audit(made, ranges={"ids": given}, levels=(), **more).gathers
    return gather.range


DOUBLED = picked("which = Mul (ids, two)")


@pytest.mark.parametrize(
    ("given", "value", "index"),
    one_quick_in(
        4, [((0, 2), 2, 4), ((-3, 1), -3, -6), ((-9, 9), 9, 18), ((5, 6), 6, 12)]
    ),
)
def test_an_end_that_leads_out_of_the_axis_is_told_with_its_index(
    given: tuple[int, int], value: int, index: int
) -> None:
    found = index_range(DOUBLED, given)
    assert found.state == "out-of-range"
    assert found.given == GivenEnd("range", "ids", value, index, 0)
    data = {"ids": np.full(1, value)}
    (run,) = og.audit(DOUBLED, inputs=data, levels=()).gathers
    assert run.range.found is not None
    assert run.range.found.value == index


@pytest.mark.parametrize(
    ("given", "value", "index"),
    [((-2, 1), -2, -4), ((-1, 9), 9, 18), ((-9, 1), -9, -18)],
)
def test_an_end_below_0_leaves_the_axis_if_no_index_may_be_below_0(
    given: tuple[int, int], value: int, index: int
) -> None:
    found = index_range(DOUBLED, given, no_negative=True)
    assert found.state == "out-of-range"
    assert found.given == GivenEnd("range", "ids", value, index, 0)


def test_a_constant_below_0_leaves_no_axis_if_no_index_may_be_below_0() -> None:
    last = "which = Constant <value = int64[1] {-1}> ()"
    found = index_range(picked(last), (-9, 9), no_negative=True)
    assert (found.state, found.given) == ("proved", None)


def test_a_range_in_the_axis_is_proved() -> None:
    found = index_range(DOUBLED, (-2, 1))
    assert (found.state, found.given) == ("proved", None)


@pytest.mark.parametrize(
    "nodes",
    [
        # The remainder is in range, whatever the ids are.
        "rest = Mod (ids, four)  twice = Mul (rest, two)  which = Sub (twice, rest)",
        # The ids subtract themselves: the bounds do not see it.
        "none = Sub (ids, ids)  which = Add (none, two)",
        # No index is left of ids that are too large.
        "small = Less (ids, four)  which = Compress (ids, small)",
    ],
)
def test_no_end_is_told_that_leads_to_no_index_out_of_range(
    nodes: str,
) -> None:
    found = index_range(picked(nodes), (0, 9))
    assert (found.state in ("proved-if", "not-proved"), found.given) == (True, None)


def test_an_end_is_not_told_if_some_indices_may_be_in_range() -> None:
    nodes = "rest = Mod (free, four)  which = Add (ids, rest)"
    made = picked(nodes, "int64[n] ids, int64[n] free")
    # The rest is from 0 to 3: of 3 the index is 3 to 6, and of 4 it is 4 to 7.
    for high, given in ((3, None), (4, GivenEnd("range", "ids", 4, None, 0))):
        assert index_range(made, (0, high)).given == given


def test_the_conditions_are_those_of_all_calls() -> None:
    first = Condition(of="values", input="ids", high=3)
    other = Condition(of="values", input="words", high=5)
    leaving = IndexRange(
        "out-of-range",
        (0,),
        (9,),
        (4,),
        "",
        conditions=(first,),
        given=GivenEnd("range", "ids", 9, 9, 0),
    )
    kept = IndexRange("proved-if", (0,), (9,), (6,), "", conditions=(other,))
    unknown = IndexRange("not-proved", (0,), (9,), (6,), "")
    assert joined_ranges([kept, leaving]).given == leaving.given
    assert joined_ranges([kept, leaving]).conditions == (other, first)
    assert joined_ranges([unknown, leaving]).conditions == ()


def test_an_end_that_another_condition_excludes_is_not_told() -> None:
    network = read_network(DOUBLED)
    conditions = given_conditions(network, {"ids": (0, 9)}, [])
    conditions.append(Condition(of="values", input="ids", low=0, high=1))
    given = [GivenRange("range", "ids", 0, 9)]
    premises = Premises(network, None, conditions, levels=Levels(()), given=given)
    (gather,) = audit_model(premises).gathers.values()
    assert (gather.range.state, gather.range.given) == ("proved", None)

    columns = Condition(of="values", input="ids", columns=(0,), high=1)
    conditions = [*given_conditions(network, {"ids": (0, 9)}, []), columns]
    premises = Premises(network, None, conditions, levels=Levels(()), given=given)
    (gather,) = audit_model(premises).gathers.values()
    assert gather.range.given is None


def test_a_run_that_is_out_of_range_comes_first() -> None:
    found = index_range(DOUBLED, (0, 9), inputs={"ids": np.array([3])})
    assert (found.state, found.given) == ("out-of-range", None)
    assert found.found is not None
    assert found.found.value == 6


def test_a_float_is_an_end_only_if_each_type_has_it() -> None:
    made = picked("which = Cast <to = 7> (x)", "float[n] x")
    for high, state in ((9, "out-of-range"), (2**20, "proved-if")):
        (gather,) = og.audit(made, ranges={"x": (0, high)}, levels=()).gathers
        assert gather.range.state == state


def test_the_other_graphs_are_audited_under_the_conditions_which_stay() -> None:
    made = picked("which = Add (ids, two)")
    (gather,) = og.audit(made, ranges={"ids": (0, 9)}).gathers
    assert gather.range.state == "out-of-range"
    assert gather.range.conditions == (
        Condition(of="values", input="ids", low=-6, high=1, exact=True),
    )
    audit = og.audit(made, ranges={"ids": (0, 9)})
    # Under these conditions the graph that runs is proved.
    assert [graph.not_proved for graph in audit.graphs] == [[]]
    assert [one["high"] for one in audit.contract["conditions"]] == [1]
