"""The audit of small models: what each record says, and where its sizes come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from onnx_graphs import (
    INT64,
    constant,
    function,
    graph,
    info,
    model,
    node,
    nodes_of,
    written,
)

import onnxgather as og
from onnxgather.auditing import graph_audit
from onnxgather.auditing.algebra import sizes
from onnxgather.auditing.audit import audit as audit_of
from onnxgather.auditing.output.text import said as said_of
from onnxgather.auditing.proof import conditions
from onnxgather.auditing.proof.contract import Condition
from onnxgather.auditing.proof.index_range import Found, GivenEnd
from onnxgather.auditing.proof.ranges import ranges_of
from onnxgather.auditing.records import AuditedGather, Tensor

TABLE = constant("table", np.arange(12.0, dtype=np.float32).reshape(4, 3))
IDS = info("ids", INT64, ["n", 2])
GATHER = node("Gather", ["table", "ids"], "rows", "gather")
SHAPES = {"ids": [5, 2]}
KEPT = {"ids": (0, 3)}
IF_KEPT = "proved-if"
IN_TABLE = Condition(of="values", input="ids", low=-4, high=3, exact=True)


def one(*given: Any, **more: Any) -> AuditedGather:
    """The only gather of a model."""
    (found,) = og.audit(*given, **more).gathers
    return found


def embedding(sizes: str = "n, 2") -> onnx.ModelProto:
    return written(
        f"(int64[{sizes}] ids) => (rows) {{ [gather] rows = Gather (table, ids) }}",
        TABLE,
    )


def fixed(
    *indices: Any, op: str = "Gather", data: Any = TABLE, **attributes: Any
) -> Any:
    """A model of one gather with constant indices."""
    which = constant("which", np.array(indices))
    return model(
        [node(op, [data.name, "which"], "rows", **attributes)],
        [],
        ["rows"],
        [data, which],
    )


def test_audit_is_a_function_of_the_package() -> None:
    assert og.audit is audit_of
    assert "audit" in dir(og)


def test_a_gather_has_its_descriptor_and_what_stops_its_proof() -> None:
    found = one(embedding(), shapes=SHAPES, levels=())
    assert msgspec.to_builtins(found) == {
        "node": "gather",
        "output_name": "rows",
        "place": "main graph",
        "op": "Gather",
        "shape_computation": False,
        "data": {"type": "FLOAT32", "sizes": (4, 3)},
        "indices": {"type": "INT64", "sizes": (5, 2)},
        "output": {"type": "FLOAT32", "sizes": (5, 2, 3)},
        "constant_indices": False,
        "descriptor": og.to_dict(
            og.from_onnx("Gather", ("FLOAT32", [4, 3]), ("INT64", [5, 2]))
        ),
        "refused": None,
        "feature_level": "3_0",
        "range": {
            "state": "proved-if",
            "low": (None,),
            "high": (None,),
            "size": (4,),
            "why": found.range.why,
            "sizes_from": "given",
            "input": "ids",
            "found": None,
            "seen": None,
            "met": None,
            "conditions": (msgspec.to_builtins(IN_TABLE),),
            "excluded": (),
            "lost": None,
            "given": None,
            "limit": None,
            "reached": None,
            "unfit": (),
        },
        "domain": "",
        "rewritten_at": (),
    }


def test_sizes_that_are_not_known_leave_no_descriptor() -> None:
    found = og.audit(embedding())
    (gather,) = found.gathers
    assert gather.indices == Tensor("INT64", (None, 2))
    assert (gather.descriptor, gather.refused, gather.feature_level) == (
        None,
        None,
        None,
    )
    assert found.notes == []
    assert found.options == ["--shape ids=2,2", "--inputs FILE.npz"]


def last_of_cache(length: int | str) -> onnx.ModelProto:
    """A gather of the element past + seq - 1 of a mask, as a model with a cache has
    it."""
    return written(f"""
        (float[b, seq] x, float[b, past] cache, float[b, {length}] mask) => (y)
        <int64[1] one = {{1}}>
        {{
            seq_of_x = Shape <start = 1, end = 2> (x)
            past_of_cache = Shape <start = 1, end = 2> (cache)
            sum = Add (seq_of_x, past_of_cache)
            last = Sub (sum, one)
            y = Gather <axis = 1> (mask, last)
        }}
    """)


@pytest.mark.parametrize(
    ("length", "shapes", "told"),
    [
        ("total", {}, ["x=2,12", "cache=2,12", "mask=2,24"]),
        (16, {}, ["x=2,4", "cache=2,12", "mask=2,16"]),
        ("total", {"x": (3, 5)}, ["cache=3,7", "mask=3,12"]),
        ("total", {"cache": (3, 40)}, ["x=3,12", "mask=3,52"]),
        ("total", {"cache": (3, 400)}, ["x=3,12", "mask=3,12"]),
    ],
)
def test_the_shapes_that_a_hint_names_meet_the_conditions(
    length: Any, shapes: Any, told: list[str]
) -> None:
    found = og.audit(last_of_cache(length), shapes=shapes)
    assert [option for option in found.options if "=" in option] == [
        f"--shape {n}" for n in told
    ]


def test_a_range_proves_what_it_keeps_in_range() -> None:
    found = one(embedding(), ranges={"ids": (-4, 3)}).range
    assert (found.state, found.low, found.high, found.size) == (
        "proved",
        (-4,),
        (3,),
        (4,),
    )
    assert (found.sizes_from, found.input) == ("file", None)
    found = one(embedding(), ranges={"ids": (0, 4)}).range
    assert (found.state, found.high) == ("out-of-range", (4,))
    assert (found.conditions, found.found) == ((IN_TABLE,), None)
    assert found.given == GivenEnd("range", "ids", 4, 4, 0)


def test_constant_indices_are_proved_or_found_out_of_range() -> None:
    proved = one(fixed(0, -4, 3))
    assert (proved.range.state, proved.range.low, proved.range.high) == (
        "proved",
        (-4,),
        (3,),
    )
    assert proved.constant_indices
    assert "constant" in proved.range.why
    wild = one(fixed([0, 4], [-5, 3])).range
    assert (wild.state, wild.input) == ("out-of-range", None)
    assert wild.found is not None
    assert wild.found == Found("constant", (0, 1), 4, 2, wild.found.providers, low=-4)
    assert wild.found.providers == {
        "cpu": "The node fails.",
        "directml": (
            "No error: returns another element of the tensor, as DirectML checks no"
            " index."
        ),
        "openvino": "No error: Gather returns zeros.",
        "webgpu": (
            "No error, as its shaders check no index: it reads another element, or"
            " beside the tensor what depends on the device."
        ),
        "webnn": "The index is clamped to its own axis.",
    }


def test_a_constant_scalar_index_out_of_range_is_found() -> None:
    made = written("() => (row) <int64 far = {4}> { row = Gather (table, far) }", TABLE)
    found = one(made).range.found
    assert found is not None
    assert (found.at, found.value, found.count) == ((), 4, 1)


def test_a_tuple_has_a_range_per_coordinate() -> None:
    data = constant("d", np.zeros((4, 9), np.float32))
    found = one(fixed([0, 8], [3, 1], op="GatherND", data=data)).range
    assert (found.low, found.high, found.size) == ((0, 1), (3, 8), (4, 9))
    wild = one(fixed([0, 9], op="GatherND", data=data)).range.found
    assert wild is not None
    assert (wild.at, wild.value) == ((0, 1), 9)


@pytest.mark.parametrize(
    ("made", "refused"),
    [
        (
            fixed([0, 1], op="GatherElements", axis=1),
            (
                "IndicesTensor.Sizes[0] must be InputTensor.Sizes[0] (4), as it is not"
                " at Axis, got 1"
            ),
        ),
        (
            fixed(0, 1, op="GatherND"),
            (
                "OutputTensor of GatherND must have a dimension, as the provider"
                " refuses a scalar, got none"
            ),
        ),
        (
            fixed(0, data=constant("d", np.zeros(3, bool))),
            None,
        ),
        (
            fixed(0, data=constant("d", np.array(["a"], object))),
            (
                "InputTensor.DataType must be one of FLOAT64, FLOAT32, FLOAT16, INT64,"
                " INT32, INT16, INT8, UINT64, UINT32, UINT16, UINT8, got 'STRING'"
            ),
        ),
        (
            fixed([[[0]]], data=constant("d", np.zeros((2,) * 7, np.float32))),
            "InputTensor.DimensionCount must be 1 to 8, got 10",
        ),
    ],
)
def test_what_directml_refuses_has_the_rule(made: Any, refused: str | None) -> None:
    found = one(made)
    assert found.refused == refused
    assert (found.descriptor is None) == (refused is not None)


def test_of_empty_tensors_the_provider_does_nothing() -> None:
    none = constant("ids", np.zeros(0, np.int64))
    made = model([GATHER], [], ["rows"], [TABLE, none])
    found = one(made)
    assert (found.descriptor, found.refused, found.feature_level) == (None, None, None)
    assert found.range.why == "the DirectML provider does nothing, as a tensor is empty"
    assert (found.range.state, found.range.low, found.range.high) == (
        "proved",
        None,
        None,
    )


def test_a_node_without_a_name_of_its_own_is_called_by_its_output() -> None:
    made = written(
        """
        (int64[n, 2] ids) => (a)
        {
            [same] a = Gather (table, ids)
            [same] b = Gather (table, ids)
            c = Gather (table, ids)
            [own] d = Gather (table, ids)
        }
        """,
        TABLE,
    )
    found = og.audit(made)
    assert [g.node for g in found.gathers] == ["a", "b", "c", "own"]
    assert [g.output_name for g in found.gathers] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("made", "more", "walks"),
    [
        (fixed(0, 3), {}, 1),
        (embedding("5, 2"), {"ranges": KEPT}, 1),
        (embedding(), {"shapes": SHAPES, "ranges": KEPT}, 2),
        (embedding(), {"shapes": SHAPES}, 2),
        (
            embedding(),
            {"inputs": {"ids": np.zeros((5, 2), np.int64)}, "ranges": KEPT},
            2,
        ),
        (embedding(), {"inputs": {"ids": np.zeros((5, 2), np.int64)}}, 3),
    ],
)
def test_a_model_is_walked_again_only_where_a_gather_is_open(
    made: onnx.ModelProto, more: Any, walks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked = list[object]()

    def counted(*given: Any) -> Any:
        walked.append(given)
        return ranges_of(*given)

    monkeypatch.setattr(graph_audit, "ranges_of", counted)
    og.audit(made, **more, levels=())
    assert len(walked) == walks


def test_gathers_that_are_settled_keep_their_records_where_others_are_open() -> None:
    made = written(
        """
        (int64[n, 2] ids) => (rows, first)
        <int64[1] zero = {0}>
        {
            [gather] rows = Gather (table, ids)
            [settled] first = Gather (table, zero)
        }
        """,
        TABLE,
    )
    found = og.audit(made, shapes=SHAPES).gathers
    assert [(g.node, g.range.sizes_from) for g in found] == [
        ("gather", "given"),
        ("settled", "file"),
    ]


PICK = function("Pick", ["x", "w"], nodes_of("[inner] y = Gather (x, w)"))


class TestInside:
    def branches(self) -> onnx.ModelProto:
        return written(
            """
            (int64[n, 2] ids, bool on) => (out)
            <int64[1, 2] zero = {0, 0}>
            {
                [if_1] out = If (on) <
                    then_branch = g () => (y) { [inner] y = Gather (table, ids) },
                    else_branch = g () => (z) { [inner] z = Gather (table, zero) } >
            }
            """,
            TABLE,
        )

    def test_the_gathers_of_branches_are_found_in_their_places(self) -> None:
        found = og.audit(self.branches()).gathers
        assert {(g.place, g.node, g.range.state) for g in found} == {
            ("then_branch of if_1", "y", IF_KEPT),
            ("else_branch of if_1", "z", "proved"),
        }

    def test_a_gather_of_a_function_is_one_record_of_all_its_calls(self) -> None:
        made = written(
            """
            (int64[n, 2] ids) => (a, b)
            <int64[5, 2] zero = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}>
            {
                [one] a = own.Pick (table, zero)
                [two] b = own.Pick (table, ids)
            }
            """,
            TABLE,
            functions=[PICK],
        )
        found = one(made, shapes=SHAPES)
        assert (found.place, found.node) == ("function own.Pick", "inner")
        assert (found.range.state, found.range.low, found.range.input) == (
            IF_KEPT,
            (None,),
            "ids",
        )
        assert found.data == Tensor("FLOAT32", (4, 3))
        assert found.descriptor is not None
        assert not found.constant_indices
        (other,) = og.audit(made, shapes={"ids": [7, 2]}).gathers
        assert other.indices == Tensor("INT64", (None, 2))
        assert other.descriptor is None

    @pytest.mark.parametrize(
        ("of_both", "state"), [(True, "not-proved"), (False, IF_KEPT)]
    )
    def test_calls_that_no_inputs_prove_together_are_not_proved(
        self, of_both: bool, state: str
    ) -> None:
        made = written(
            f"""
            (int64[n, 2] ids) => (a, b)
            <int64 five = {{5}}, int64 kept = {{1}}>
            {{
                if_0 = Mul (ids, five)
                less = Sub (ids, kept)
                if_1 = Mul (less, five)
                [one] a = own.Pick (table, if_0)
                [two] b = own.Pick (table, {"if_1" if of_both else "if_0"})
            }}
            """,
            TABLE,
            functions=[PICK],
        )
        found = one(made).range
        assert (found.state, len(found.conditions)) == (state, int(not of_both))

    def test_a_body_whose_output_is_known_has_conditions_too(self) -> None:
        made = written(
            "(int64[n, 2] ids) => (a) { [one] a = own.Pick (table, ids) }",
            constant("table", np.zeros((4, 3), np.float32)),
            functions=[PICK],
        )
        found = one(made).range
        assert (found.state, found.conditions) == (IF_KEPT, (IN_TABLE,))

    def test_a_function_that_nothing_calls_has_gathers_too(self) -> None:
        found = og.audit(
            model([GATHER], [IDS], ["rows"], [TABLE], functions=[PICK])
        ).gathers
        assert [g.place for g in found] == ["main graph", "function Pick, not called"]

    def test_the_body_of_an_operator_that_is_not_known_has_gathers_too(self) -> None:
        made = written(
            """
            (int64[n, 2] ids) => (out)
            {
                [odd_1] out = own.Odd (ids) <
                    body = g (int64[] own) => (y) { [inner] y = Gather (table, own) } >
            }
            """,
            TABLE,
        )
        found = one(made)
        assert (found.place, found.node) == ("body of odd_1", "inner")
        assert (found.range.state, found.range.low) == ("not-proved", (None,))


class TestRuns:
    def test_given_inputs_show_an_index_out_of_range(self) -> None:
        inputs = {"ids": np.array([[0, 1], [7, 9]])}
        report = og.audit(embedding(), inputs)
        (found,) = report.gathers
        assert found.range.state == "out-of-range"
        assert found.range.sizes_from == "run"
        assert found.range.found is not None
        assert (found.range.found.source, found.range.found.at) == ("inputs", (1, 0))
        assert (found.range.found.value, found.range.found.count) == (7, 2)
        assert found.indices == Tensor("INT64", (2, 2))
        assert len(report.notes) == 1

    def test_inputs_in_range_prove_nothing_for_others(self) -> None:
        found = one(embedding(), {"ids": np.array([[0, 1]])})
        assert (found.range.state, found.range.low) == (IF_KEPT, (None,))
        assert found.range.conditions == (IN_TABLE,)

    def test_sizes_that_only_a_run_tells_come_from_it(self) -> None:
        made = written(
            """
            (bool[4, 3] mask) => (rows)
            {
                where = NonZero (mask)
                tuples = Transpose (where)
                [gather] rows = GatherND (table, tuples)
            }
        """,
            TABLE,
        )
        mask = np.zeros((4, 3), bool)
        mask[2, 1] = mask[0, 0] = True
        found = one(made, {"mask": mask})
        assert (found.indices.sizes, found.output.sizes) == ((2, 2), (2,))
        assert found.feature_level == "3_0"

    @pytest.mark.parametrize(
        ("inputs", "said"),
        [
            (
                {},
                (
                    "the inputs must hold an array for each input of the model, got"
                    " none for 'ids'; give --inputs FILE.npz"
                ),
            ),
            (
                {"ids": np.zeros((1, 2), np.int32)},
                "input 'ids' must be INT64 [?, 2], got int32 [1, 2]",
            ),
            (
                {"ids": np.zeros((1, 3), np.int64)},
                "input 'ids' must be INT64 [?, 2], got int64 [1, 3]",
            ),
            (
                {"id": np.zeros(3)},
                (
                    "the given inputs hold 'id', but the model's inputs are 'ids'; did"
                    ' you mean "ids"?'
                ),
            ),
            (
                {"ids": [1]},
                (
                    "input 'ids' must be an array, got list, of which numpy.asarray"
                    " makes an array"
                ),
            ),
        ],
    )
    def test_inputs_that_do_not_fit_are_refused(self, inputs: Any, said: str) -> None:
        with pytest.raises(og.OnnxGatherError) as caught:
            og.audit(embedding(), inputs)
        assert str(caught.value) == f"the model: {said}"

    def test_a_range_that_is_none_is_refused(self) -> None:
        for ranges, said in (
            (
                {"ids": (3, 2)},
                "the range of 'ids' must be from a low to a high number, got 3:2",
            ),
            ({"no": (0, 2)}, "a range must be of an input ('ids'), got 'no'"),
        ):
            with pytest.raises(og.OnnxGatherError) as caught:
                og.audit(embedding(), ranges=ranges)
            assert str(caught.value) == f"the model: {said}"


def looping(trips: int) -> list[str]:
    """The notes on a loop that goes round so often."""
    made = written(
        """
        (int64 trips) => (rows)
        {
            [loop_1] rows = Loop (trips, "") <
                body = g (int64 k, bool on) => (still, row)
                { still = Identity (on)  [inner] row = Gather (table, k) } >
        }
        """,
        constant("table", np.zeros((300, 1), np.float32)),
    )
    return og.audit(made, {"trips": np.array(trips)}).notes


@pytest.mark.slow
def test_iterations_that_are_not_seen_are_told() -> None:
    said = "the body of loop_1 has more iterations than are seen: 256"
    counted = f"{said}; indices out of range are counted in all"
    assert not any("iterations" in note for note in looping(256))
    assert looping(257)[-1] in (said, counted)
    assert not any("iterations" in note for note in looping(-1))


class TestNames:
    """Two operators of one name, each with a gather in its body."""

    def made(self) -> onnx.ModelProto:
        both = "\n".join(
            f"""
            [same] out_{name} = If (on) <
                then_branch = g () => (y_{name})
                {{ [inner] y_{name} = Gather (table, {name}) }},
                else_branch = g () => (y_{name})
                {{ [inner] y_{name} = Gather (table, {name}) }} >
            """
            for name in ("ids", "zero")
        )
        return written(
            f"""
            (int64[n, 2] ids, bool on) => (out_ids, out_zero)
            <int64[1, 2] zero = {{0, 0}}>
            {{ {both} }}
            """,
            TABLE,
        )

    def test_each_gather_has_its_own_record(self) -> None:
        states = [gather.range.state for gather in og.audit(self.made()).gathers]
        assert states == [IF_KEPT, IF_KEPT, "proved", "proved"]

    def test_those_that_are_proved_are_not_rewritten(self) -> None:
        one, other = (n for n in og.harden(self.made()).graph.node if n.op_type == "If")
        assert [len(n.attribute[0].g.node) > 1 for n in (one, other)] == [True, False]


@pytest.mark.parametrize(
    ("shapes", "state"),
    [(None, IF_KEPT), ({"ids": [2, 1]}, IF_KEPT), ({"ids": [2, 2]}, "proved")],
)
def test_a_condition_on_columns_counts_where_their_number_is_known(
    shapes: Any, state: str
) -> None:
    made = embedding("n, m")
    of_columns = {
        "of": "values",
        "input": "ids",
        "columns": [0, 1],
        "low": 0,
        "high": 1,
    }
    contract = og.audit(made).contract | {"conditions": [of_columns]}
    assert one(made, shapes=shapes, assume=contract).range.state == state


def test_trials_of_ranges_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trials of this gather compute one value anew each."""
    made = written(
        "(int64[n, 2] ids) => (rows) { i = Neg (ids)  rows = Gather (table, i) }", TABLE
    )
    found = one(made).range
    assert (found.state, found.limit) == ("proved-if", None)
    monkeypatch.setattr(conditions, "MOST_TRIED", 5)
    gather = one(made)
    limit = "the search for conditions ended after 5 computed values"
    assert (gather.range.state, gather.range.limit) == ("not-proved", limit)
    assert said_of(gather, {}) == f"index unbounded; the axis has 4 elements; {limit}"


def test_trials_of_a_gather_leave_those_of_others_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The trials of each of these gathers compute 7 values anew."""
    names = ["a", "b", "c"]
    nodes = [f"i{name} = Neg (ids)  {name} = Gather (table, i{name})" for name in names]
    made = written(f"(int64[n, m] ids) => (a) {{ {' '.join(nodes)} }}", TABLE)
    monkeypatch.setattr(conditions, "MOST_TRIED", 6)
    found = [gather.range for gather in og.audit(made, levels=()).gathers]
    assert [each.state for each in found] == ["proved-if"] * 3
    monkeypatch.setattr(conditions, "MOST_TRIED_OF_ALL", 10)
    found = [gather.range for gather in og.audit(made, levels=()).gathers]
    assert [each.state for each in found] == ["proved-if", "not-proved", "not-proved"]
    limit = "the search for conditions of all gathers ended after 10 computed values"
    assert [each.limit for each in found] == [None, limit, limit]


def test_the_limit_of_comparisons_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison of the least with the others takes known inequalities."""
    made = written(
        """
        (float[n] x, float[m] y) => (rows)
        {
            a = Size (x)
            d = Size (y)
            product = Mul (a, d)
            less = Sub (product, five)
            least = Min (a, less)
            rows = Gather (x, least)
        }
        """,
        constant("five", np.array(5)),
    )
    found = one(made, levels=()).range
    assert (found.state, found.limit) == ("not-proved", None)
    monkeypatch.setattr(sizes, "MOST_TERMS_COMPARED", 5)
    limit = "the comparisons of open sizes ended after 5 terms"
    assert one(made, levels=()).range.limit == limit


def test_a_condition_that_excludes_others_leaves_these_as_they_are() -> None:
    made = written(
        """
        (float[n] x, int64[m] ids) => (a)
        {
            s = Shape (x)
            a = Gather (pair, s)
            b = Gather (x, three)
            c = Gather (table, ids)
        }
        """,
        constant("pair", np.ones(3)),
        constant("three", np.array(3)),
        TABLE,
    )
    found = og.audit(made, levels=())
    states = [gather.range.state for gather in found.gathers]
    assert states == [IF_KEPT, "not-proved", IF_KEPT]
    limits = [(each["of"], each["high"]) for each in found.contract["conditions"]]
    assert limits == [("size", 2), ("values", 3)]


def nested_ifs(depth: int) -> str:
    """Gathers in front of, in, and around branches one inside the other."""
    if depth == 0:
        return "y0 = Gather (table, ids)"
    return f"""
        before{depth} = Gather (table, ids)
        y{depth} = If (flag) <
            then_branch = g () => (y{depth - 1}) {{ {nested_ifs(depth - 1)} }},
            else_branch = g () => (e{depth}) {{ e{depth} = Gather (table, ids) }} >
    """


def nested_loops(depth: int) -> str:
    """Gathers in front of and in loops one inside the other."""
    if depth == 0:
        return "y0 = Gather (table, ids)"
    return f"""
        before{depth} = Gather (table, ids)
        y{depth} = Loop (trips, flag) <
            body = g (int64 i{depth}, bool c{depth}) => (k{depth}, y{depth - 1})
            {{ k{depth} = Identity (c{depth})  {nested_loops(depth - 1)} }} >
    """


@pytest.mark.parametrize(
    ("nodes", "output", "count"),
    [(nested_ifs(12), "y12", 25), (nested_loops(6), "y6", 7)],
)
def test_gathers_in_nested_bodies_have_the_conditions_of_those_outside(
    nodes: str, output: str, count: int
) -> None:
    inputs = "int64[n] ids, bool flag, int64 trips"
    made = written(f"({inputs}) => ({output}) {{ {nodes} }}", TABLE)
    found = [gather.range for gather in og.audit(made, levels=()).gathers]
    assert [each.state for each in found] == ["proved-if"] * count
    # Whether a gather in a body runs is not known.
    assert found[0].conditions == (IN_TABLE,)
    inside = replace(IN_TABLE, exact=False)
    assert [each.conditions for each in found[1:]] == [(inside,)] * (count - 1)


def test_a_trial_in_a_body_computes_what_leads_to_the_gather_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The state of both loops leads to the gather, and a branch computes it."""
    others = " ".join(f"o{n} = Neg (s)" for n in range(100))
    made = written(
        f"""
        (int64 start, int64 trips, bool flag) => (last)
        {{
            last = Loop (trips, flag, start) <
                body = g (int64 i, bool c, int64 s) => (k, t)
                {{
                    k = Identity (c)
                    t = If (flag) <
                        then_branch = g () => (a) {{ a = Abs (s) }},
                        else_branch = g () => (b) {{ b = Identity (s) }} >
                    {others}
                    u = Neg (s)
                    again = Loop (trips, flag, u) <
                        body = g (int64 j, bool d, int64 v) => (l, w)
                        {{
                            l = Identity (d)
                            w = Identity (v)
                            rows = Gather (table, v)
                        }} >
                }} >
        }}
        """,
        TABLE,
    )
    monkeypatch.setattr(conditions, "MOST_TRIED", 500)
    found = one(made, levels=()).range
    in_table = replace(IN_TABLE, input="start", low=-3, high=4, exact=False)
    assert (found.conditions, found.limit) == ((in_table,), None)


def test_a_loop_inside_two_loops_is_named_where_it_stops_a_proof() -> None:
    nodes = "rows = Gather (table, s0)  t0 = Identity (s0)"
    for n in range(3):
        nodes = f"""
            t{n + 1} = Loop (trips, flag, s{n + 1}) <
                body = g (int64 i{n}, bool c{n}, int64 s{n}) => (k{n}, t{n})
                {{ k{n} = Identity (c{n})  {nodes} }} >
        """
    start = constant("s3", np.array(2))
    made = written(f"(int64 trips, bool flag) => (t3) {{ {nodes} }}", TABLE, start)
    found = one(made, levels=()).range
    assert (found.state, found.input) == ("not-proved", "a loop inside 2 other loops")


def test_sizes_are_computed_through_floats() -> None:
    made = written(
        """
        (int64[n, m] ids) => (rows)
        {
            shape = Shape (ids)
            floats = Cast <to = 1> (shape)
            roots = Sqrt (floats)
            sizes = Cast <to = 7> (roots)
            which = ConstantOfShape <value = int64[1] {3}> (sizes)
            [gather] rows = Gather (table, which)
        }
    """,
        TABLE,
    )
    found = [
        g for g in og.audit(made, shapes={"ids": [16, 4]}).gathers if g.node == "gather"
    ]
    assert [(g.indices.sizes, g.range.sizes_from) for g in found] == [((4, 2), "file")]


def test_an_attribute_that_onnx_does_not_allow_is_no_traceback() -> None:
    sparse = onnx.SparseTensorProto(dims=[1])
    made = written(
        "(int64[1] ids) => (y) { i = ConstantOfShape (ids)  y = Gather (table, i) }",
        TABLE,
    )
    value = onnx.helper.make_attribute("value", sparse)
    made.graph.node[0].attribute.append(value)
    assert one(made).range.state == "not-proved"


def test_a_body_that_onnx_does_not_allow_is_no_traceback() -> None:
    broken = node("Loop", ["ids"], "rows", body=graph([GATHER], (), ["rows"]))
    assert one(model([broken], [IDS], ["rows"], [TABLE])).range.state == IF_KEPT


def test_a_body_that_is_not_there_is_one_sentence() -> None:
    broken = node("If", ["ids"], "rows", then_branch=graph([GATHER], (), ["rows"]))
    with pytest.raises(og.OnnxGatherError) as caught:
        og.audit(model([broken], [IDS], ["rows"], [TABLE]))
    assert str(caught.value) == "the model: node 'rows' must be one that ONNX allows"


def test_indices_that_are_no_integers_are_no_traceback() -> None:
    assert one(fixed(float("nan"), 9.5)).range.found is None


def test_a_broken_gather_is_one_sentence() -> None:
    with pytest.raises(og.OnnxGatherError) as caught:
        og.audit(written("() => (rows) { rows = Gather (table) }", TABLE))
    assert (
        str(caught.value)
        == "the model: node 'rows' must have two inputs and one output"
    )


def saved_in_two_files(folder: Path) -> Path:
    """Save the model with its weights in a file of their own; return its path."""
    library: Any = onnx
    path = folder / "m.onnx"
    library.save_model(
        embedding(), path, save_as_external_data=True, location="data", size_threshold=0
    )
    return path


def test_external_data_is_not_needed_for_what_shapes_tell(tmp_path: Path) -> None:
    path = saved_in_two_files(tmp_path)
    tmp_path.joinpath("data").unlink()
    found = one(path, shapes=SHAPES)
    assert found.descriptor is not None
    assert (found.range.state, found.range.input) == (IF_KEPT, "ids")


def test_external_data_is_found_by_a_run(tmp_path: Path) -> None:
    report = og.audit(saved_in_two_files(tmp_path), {"ids": np.array([[0, 3]])})
    assert report.gathers[0].output.sizes == (1, 2, 3)
    assert not [note for note in report.notes if "early" in note]


def test_a_proof_tells_the_open_size_unless_only_a_run_would_tell_it() -> None:
    found = og.audit(
        written("""
        (float[n] x, bool[n] kept) => (y, z)
        <int64 zero = {0}, int64 single = {1}>
        {
            count = Size (x)
            every = Range (zero, count, single)
            [named] y = Gather (x, every)
            some = Compress (x, kept)
            fewer = Size (some)
            all_of_some = Range (zero, fewer, single)
            [made] z = Gather (some, all_of_some)
        }
    """)
    )
    assert [(one.node, one.range.why) for one in found.gathers] == [
        ("named", "Range, at most n - 1 of n"),
        ("made", "Range"),
    ]


def test_conditions_that_exclude_what_is_known_prove_nothing() -> None:
    found = one(embedding(), ranges={"ids": (3, 64)}).range
    assert (found.state, found.conditions) == ("out-of-range", (IN_TABLE,))
    found = one(embedding(), ranges={"ids": (5, 64)}).range
    assert (found.state, found.conditions) == ("out-of-range", ())


NO_INPUT = "no input meets these and the others"
EXCLUDED = {
    "a size": (
        """(float[n] x) => (y, z)
        <int64 zero={0}, int64 one={1}, int64[2] table={0,0}, int64[1] last={3}>
        {
            count = Size(x)  all = Range(zero, count, one)  y = Gather(table, all)
            z = Gather(x, last)
        }""",
        "size 0 of x (n) is at least 4",
    ),
    "a size, the gathers the other way round": (
        """(float[n] x) => (y, z)
        <int64 zero={0}, int64 one={1}, int64[2] table={0,0}, int64[1] last={3}>
        {
            z = Gather(x, last)
            count = Size(x)  all = Range(zero, count, one)  y = Gather(table, all)
        }""",
        "size 0 of x (n) is at most 2",
    ),
    "three conditions on sizes": (
        """(float[p] x, float[s] w) => (y, z, v)
        <int64 zero={0}, int64 one={1}, int64[4] table={0,0,0,0}, int64[1] last={4}>
        {
            y = Gather(x, last)
            count = Size(w)  all = Range(zero, count, one)  z = Gather(table, all)
            of_x = Size(x)  all_of_x = Range(zero, of_x, one)  v = Gather(w, all_of_x)
        }""",
        "p is at most s",
    ),
    "a product of sizes": (
        """(float[a, b] x, float[a] u, float[b] w) => (y, z, v)
        <int64 zero={0}, int64 one={1}, int64[8] table={0,0,0,0,0,0,0,0},
            int64[1] last={2}>
        {
            count = Size(x)  all = Range(zero, count, one)  y = Gather(table, all)
            z = Gather(u, last)  v = Gather(w, last)
        }""",
        "size 1 of x (b) is at least 3",
    ),
    "values": (
        """(int64[n] ids) => (y, z) <int64 one={1}, int64 nine={9}, float[1] table={0}>
        {
            zeros = Mul(ids, nine)  y = Gather(table, zeros)
            less = Sub(ids, one)  ones = Mul(less, nine)  z = Gather(table, ones)
        }""",
        "each value of ids is 1",
    ),
    "a column": (
        """(int64[n, 2] ids) => (y, z)
        <int64 one={1}, int64 nine={9}, int64[1] zero={0}, float[1] table={0}>
        {
            first = Gather<axis=1>(ids, zero)
            zeros = Mul(first, nine)  y = Gather(table, zeros)
            less = Sub(ids, one)  ones = Mul(less, nine)  z = Gather(table, ones)
        }""",
        "each value of ids is 1",
    ),
    "values up to a size, the size and values": (
        """(float[n] x, int64[m] ids) => (y, z, v)
        <int64 zero={0}, int64 one={1}, int64 nine={9}, int64[1] table={0}>
        {
            y = Gather(x, ids)
            count = Size(x)  all = Range(zero, count, one)  z = Gather(table, all)
            less = Sub(ids, one)  ones = Mul(less, nine)  v = Gather(table, ones)
        }""",
        "each value of ids is 1",
    ),
    "a difference and both of its columns": (
        """(int64[n, 2] ids) => (y, z, v)
        <int64[1] one={1}, int64 nine={9}, int64[1] zero={0}, float[1] table={0}>
        {
            a = Gather<axis=1>(ids, zero)  b = Gather<axis=1>(ids, one)
            d = Sub(b, a)  zeros = Mul(d, nine)  y = Gather(table, zeros)
            more = Mul(a, nine)  z = Gather(table, more)
            less = Sub(b, one)  ones = Mul(less, nine)  v = Gather(table, ones)
        }""",
        "each value of column 1 of the last axis of ids is 1",
    ),
}
"""Models whose last gather needs what no input meets beside the conditions of the
others, and what it needs."""


@pytest.mark.parametrize("name", EXCLUDED)
def test_a_gather_whose_conditions_no_input_meets_beside_the_others_is_not_proved(
    name: str,
) -> None:
    text, condition = EXCLUDED[name]
    audited = og.audit(written(text), levels=())
    *others, last = (g for g in audited.gathers if g.range.state != "proved")
    assert {gather.range.state for gather in others} == {"proved-if"}
    index_range = last.range
    assert (index_range.state, index_range.conditions) == ("not-proved", ())
    assert index_range.why == f"{condition}: {NO_INPUT}"
    assert [*map(str, index_range.excluded)] == [condition]
    # The contract has the conditions of the others alone.
    texts = [str(og.Condition(**fields)) for fields in audited.contract["conditions"]]
    assert texts == [str(c) for gather in others for c in gather.range.conditions]
    # The operator or the input that stops the proof is there as before.
    alone = og.audit(written(text), levels=(), assume=audited.contract)
    assert index_range.input
    assert alone.gathers[-1].range.state != "proved"


def test_a_function_whose_calls_need_what_no_input_meets_is_not_proved() -> None:
    called = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 18, "own": 1]>
        g (int64[n] ids) => (y, z)
        <float[1] table={0}, int64 one={1}, int64 nine={9}>
        {
            zeros = Mul(ids, nine)  y = own.Pick(table, zeros)
            less = Sub(ids, one)  ones = Mul(less, nine)  z = own.Pick(table, ones)
        }
        <domain: "own", opset_import: ["": 18]>
        Pick (t, i) => (o) { o = Gather(t, i) }
    """)
    audited = og.audit(called, levels=())
    index_range = audited.gathers[0].range
    condition = "each value of ids is at least 1 and at most 0"
    assert (index_range.state, index_range.conditions) == ("not-proved", ())
    assert index_range.why == f"{condition}: {NO_INPUT}"
    assert audited.contract["conditions"] == []


def test_a_gather_stays_out_of_range_where_no_input_meets_its_conditions() -> None:
    index_range = one(embedding(), ranges={"ids": (5, 64)}).range
    assert (index_range.state, index_range.excluded) == ("out-of-range", (IN_TABLE,))


def test_exact_conditions_show_a_wrong_index_if_no_input_meets_the_others() -> None:
    """An input beyond them takes an index out of range, too."""
    text, _ = EXCLUDED["values"]
    audited = og.audit(written(text), levels=())
    last = audited.gathers[-1]
    assert [condition.exact for condition in last.range.excluded] == [True]
    assert last.verdict == "can-leave"


def test_conditions_that_are_given_must_be_met_by_some_input() -> None:
    text, _ = EXCLUDED["a size"]
    made = written(text)
    contract = og.audit(made, levels=()).contract
    (at_most_2,) = contract["conditions"]
    both = [at_most_2, at_most_2 | {"low": 4, "high": None}]
    with pytest.raises(og.OnnxGatherError) as caught:
        og.audit(made, levels=(), assume=contract | {"conditions": both})
    rule = "some input must meet all conditions, but none meets 'size 0 of x (n) is"
    assert str(caught.value) == f"{rule} at least 4 and at most 2' and the others"
    with pytest.raises(og.OnnxGatherError) as caught:
        og.audit(made, levels=(), assume=contract, shapes={"x": [3]})
    assert str(caught.value) == f"{rule} at least 3 and at most 2' and the others"


def test_a_shape_with_too_few_sizes_is_refused() -> None:
    with pytest.raises(og.OnnxGatherError) as caught:
        og.audit(embedding("2, n"), shapes={"ids": [2]})
    assert str(caught.value) == "the model: input 'ids' must be INT64 [2, ?], got [2]"


def test_a_gather_of_what_a_range_becomes_may_have_more_indices_than_the_axis() -> None:
    text = """
        (float[n] x) => (y, z)
        <float[1] row = {0}, int64 less = {-1}, int64 zero = {0}, int64 single = {1}>
        {
            count = Size (x)
            every = Range (zero, count, single)
            below = Add (every, less)
            [gather] y = Gather (row, below)
            [own] z = Gather (row, every)
        }
    """
    made = written(text)
    audited = og.audit(made)
    assert [each.output.sizes for each in audited.gathers] == [(None,), (None,)]
    assert [each.range.state for each in audited.gathers] == ["proved-if", "proved-if"]
    made = written(
        text.replace("(y, z)", "(y)").replace("[own] z = Gather (row, every)", "")
    )
    assert og.Session(made).run(np.zeros(2, np.float32)).shape == (2,)


def test_an_index_below_0_counts_from_the_end_unless_none_may() -> None:
    """The constant -1 stays what it is."""
    made = written(
        """
        (int64[n, 2] ids) => (rows, one)
        <int64[1] last = {-1}>
        {
            [rows] rows = Gather (table, ids)
            [one] one = Gather (table, last)
        }
        """,
        TABLE,
    )
    audited = og.audit(made)
    assert [g.range.conditions for g in audited.gathers] == [(IN_TABLE,), ()]
    assert "no_negative" not in audited.contract
    strict = og.audit(made, no_negative=True)
    natural = msgspec.structs.replace(IN_TABLE, low=0)
    assert [g.range.conditions for g in strict.gathers] == [(natural,), ()]
    assert [g.range.state for g in strict.gathers] == [IF_KEPT, "proved"]
    assert strict.contract["no_negative"]
    given = og.audit(made, ranges={"ids": (-1, -1)}, no_negative=True)
    assert given.gathers[0].range.state == "out-of-range"
    assert og.audit(made, ranges={"ids": (-1, -1)}).gathers[0].range.state == "proved"


def test_an_index_below_0_in_a_run_is_found_if_none_may() -> None:
    made = embedding()
    fed = {"ids": np.array([[3, -2]])}
    assert one(made, inputs=fed).range.found is None
    found = one(made, inputs=fed, no_negative=True).range.found
    assert found is not None
    assert (found.value, found.at, found.count) == (-2, (0, 1), 1)
    assert {*found.providers.values()} == {"The index counts from the end."}
    beyond = one(made, inputs={"ids": np.array([[3, -9]])}, no_negative=True)
    assert beyond.range.found is not None
    assert beyond.range.found.providers["cpu"] == "The node fails."
