"""The audit of every operator that carries indices: proved, proved under conditions,
out of range.

What providers do with an index out of range is in `test_index_outcomes.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from index_models import IndexModel, index_models, tree_ensemble, without_positions
from network_draft import results, session
from onnx_graphs import constant, written
from rings import one_quick_in

import onnxgather as og
from onnxgather.auditing.algebra.bounds import ELEMENTS
from onnxgather.auditing.audit import Premises
from onnxgather.auditing.hardening.harden import hardened
from onnxgather.auditing.operators import index_operators
from onnxgather.auditing.output.text import lines, provider_lines, said, summary
from onnxgather.auditing.proof.index_range import Reached
from onnxgather.auditing.records import Audit, AuditedGather
from onnxgather.core.model.network import read_network

MODELS = {made.name: made for made in index_models()}
UNSIZED = [name for name in MODELS if name.startswith("Sequence")]
"""The models whose sequences have a length that is not known."""
JUDGED = {
    name: made
    for name, made in MODELS.items()
    if made.op != "OneHot" and name not in UNSIZED
}
HIGHEST = {"TensorScatter circular": None}
"""The end of the indices of a model, where it is not its own last index."""


def only(audit: Audit) -> AuditedGather:
    (found,) = audit.gathers
    return found


def shapes(made: IndexModel) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in made.inputs.items()}


def ends(made: IndexModel) -> tuple[int | None, int | None]:
    """The ends of the indices under which an operator is proved."""
    contract = og.audit(made.model, shapes=shapes(made)).contract
    told = [
        c
        for c in contract["conditions"]
        if (c["of"], c["input"]) == ("values", made.which)
    ]
    # Each coordinate of a tuple has ends of its own.
    told = [c for c in told if not c["columns"] or made.place[-1] in c["columns"]]
    return (told[0]["low"], told[0]["high"]) if len(told) == 1 else (None, None)


def wanted(made: IndexModel) -> tuple[int | None, int | None]:
    # The other numbers in range are those of the tokens in the cache.
    if made.name == "GroupQueryAttention total in a long cache":
        return 11, 11
    high = HIGHEST.get(made.name, made.size - 1)
    is_from_end = made.row.inputs[0].from_end
    if not is_from_end:
        return made.least, high
    return (
        -made.size if high is None or high == made.size - 1 else -3
    ) * is_from_end, high


@pytest.mark.parametrize("name", one_quick_in(12, JUDGED))
def test_an_operator_is_proved_for_the_indices_in_range_and_no_others(
    name: str,
) -> None:
    made = JUDGED[name]
    assert only(og.audit(made.model)).range.state == "proved-if"
    assert ends(made) == wanted(made)


@pytest.mark.parametrize("name", one_quick_in(12, JUDGED))
def test_a_mistake_in_the_size_of_an_axis_is_caught(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, right = JUDGED[name], index_operators.room_of

    def wrong(*given: Any) -> Any:
        size = right(*given)
        return None if size is None else size - 1

    monkeypatch.setattr(index_operators, "room_of", wrong)
    assert ends(made) != wanted(made)


@pytest.mark.parametrize(
    "name", one_quick_in(12, [name for name in JUDGED if "circular" not in name])
)
def test_under_its_contract_an_operator_is_proved_and_runs(name: str) -> None:
    made = JUDGED[name]
    contract = og.audit(made.model, shapes=shapes(made)).contract
    under = only(og.audit(made.model, shapes=shapes(made), assume=contract)).range
    assert (under.state, under.found, under.input) == ("proved", None, None)
    is_new = "1.24.4 has no such operator" in made.row.providers.get("cpu", "")
    if not made.opens or (is_new and onnxruntime.__version__ == "1.24.4"):
        with pytest.raises(
            Exception,
            match=r"not find an implementation|not a registered|has input size 11",
        ):
            session(made.model)
        return
    if made.op == "SparseAttention":  # see test_index_outcomes.py
        return
    whole = session(made.model)
    for k in range(2):
        fed = dict(made.inputs)
        for one in contract["conditions"]:
            if one["of"] == "values":
                fed[one["input"]] = fed[one["input"]].copy()
                columns = (..., one["columns"]) if one["columns"] else ...
                fed[one["input"]][columns] = one[("low", "high")[k]]
        og.check_inputs(contract, fed)
        assert results(whole, fed)


# Each run has a process of its own.
@pytest.mark.parametrize("name", one_quick_in(240, JUDGED))
def test_an_index_out_of_range_in_a_run_is_found(name: str) -> None:
    made = JUDGED[name]
    # A run of the graph of each level would take a process more.
    inside = only(og.audit(made.model, inputs=made.inputs, levels=())).range
    assert (inside.state, inside.found) == ("proved-if", None)
    for index in (made.outside[0], made.outside[-1]):
        audit = og.audit(made.model, inputs=made.with_index(index), levels=())
        found = only(audit).range.found
        assert found is not None
        assert (found.source, found.value, found.count) == ("inputs", index, 1)
        assert found.providers == (made.row.providers or found.providers)
        # A total that is too small leaves no room for the last token either.
        is_of_last = found.name == "seqlens_k"
        assert found.at == ((0,) if is_of_last else made.place)


@pytest.mark.parametrize(
    "op", one_quick_in(2, ["EmbedLayerNormalization", "QEmbedLayerNormalization"])
)
def test_positions_that_count_themselves_are_as_many_as_the_ids(op: str) -> None:
    made = without_positions(op)
    kept = {"input_ids": (0, 5), "segment_ids": (0, 2)}
    found = only(og.audit(made.model, ranges=kept))
    assert (
        said(found, og.audit(made.model).contract["sizes"])
        == "size 1 of input_ids (input_ids.1) is at most 5 and segment_ids.0 is"
        " input_ids.0 and segment_ids.1 is input_ids.1, where segment_ids.0 is size 0"
        " of segment_ids, input_ids.0 is size 0 of input_ids, segment_ids.1 is size 1"
        " of segment_ids, input_ids.1 is size 1 of input_ids"
    )
    assert only(og.audit(made.model, shapes=of(5), ranges=kept)).range.state == "proved"
    # Each run with these sizes has the position 5.
    too_long = only(og.audit(made.model, shapes=of(6), ranges=kept)).range
    assert (too_long.state, too_long.reached) == (
        "out-of-range",
        Reached("each run", 2, 5),
    )
    ids = np.ones((1, 6), np.int32)
    beyond = only(
        og.audit(made.model, {"input_ids": ids, "segment_ids": ids})
    ).range.found
    assert beyond is not None
    assert (beyond.name, beyond.at, beyond.value) == ("position_ids", (5,), 5)


@pytest.mark.parametrize("name", UNSIZED)
def test_a_position_in_a_sequence_is_listed_and_not_proved(name: str) -> None:
    made = MODELS[name]
    listed = only(og.audit(made.model, ranges={"position": (0, 0)}))
    record = listed.range
    assert (listed.op, record.state, record.low, record.size) == (
        *(made.op, "not-proved"),
        *((0,), (None,)),
    )
    assert record.input == "the size of three"


def of(count: int) -> dict[str, tuple[int, int]]:
    return {"input_ids": (1, count), "segment_ids": (1, count)}


TABLE = constant("table", np.zeros((4, 3), np.float32))


def embedding(ids: str = "ids", kinds: str = "") -> onnx.ModelProto:
    names = sorted({ids, kinds} - {"", "fixed"})
    inputs = ", ".join(f"int32[?, 2] {name}" for name in names)
    return written(
        f"""
        ({inputs}) => (y)
        <float[2, 3] kinds = {{0, 0, 0, 0, 0, 0}}, float[3] row = {{0, 0, 0}},
         int32[1, 2] fixed = {{1, 5}}>
        {{
            [embed] y = com.microsoft.EmbedLayerNormalization
                ({ids}, {kinds or '""'}, table, table, kinds, row, row)
        }}
        """,
        TABLE,
    )


def told(*given: Any, **more: Any) -> list[str]:
    found = og.audit(*given, **more, levels=())
    return [*lines("m", found), *provider_lines(found.gathers)]


def test_every_input_that_holds_indices_has_its_coordinate() -> None:
    found = only(og.audit(embedding(kinds="types"), ranges={"ids": (0, 3)}))
    record = found.range
    assert (record.low, record.high, record.size) == (
        (0, None, 0),
        (3, None, 1),
        (4, 2, 4),
    )
    assert (found.data.sizes, found.indices.sizes) == ((4, 3), (None, 2))
    assert (found.op, found.domain, found.descriptor, found.refused) == (
        *("EmbedLayerNormalization", "com.microsoft"),
        *(None, None),
    )
    assert told(embedding(kinds="types"), ranges={"ids": (0, 3)}) == [
        "m: a wrong input can leave an axis; 1 operator with indices: 1 proved under"
        " conditions",
        (
            "proved if     embed (EmbedLayerNormalization, main graph): each value of"
            " types is from 0 to 1 and types.0 is ids.0, where types.0 is size 0 of"
            " types, ids.0 is size 0 of ids"
        ),
        (
            "runtime       the file was audited by ONNX's specification alone: no level"
            " is asked for"
        ),
        "assumes       open sizes of inputs are at least 1",
        (
            "given         each value of ids is from 0 to 3; the contract is for such"
            " inputs alone"
        ),
        "providers     what an index out of range of EmbedLayerNormalization does:",
        (
            "    cpu       The node fails. 1.24.4 reads outside of its memory for a"
            " position below 0."
        ),
        "    directml  Not known; the provider refuses the node on some devices.",
    ]


def test_a_constant_out_of_range_is_told_with_the_input_that_holds_it() -> None:
    assert told(embedding("fixed")) == [
        "m: a wrong input can leave an axis; 1 operator with indices: 1 out of range",
        (
            "OUT OF RANGE  embed (EmbedLayerNormalization, main graph): input_ids[0,1]"
            " is 5, a constant, not from 0 to 3"
        ),
        (
            "runtime       the file was audited by ONNX's specification alone: no level"
            " is asked for"
        ),
        "providers     what an index out of range of EmbedLayerNormalization does:",
        (
            "    cpu       The node fails. 1.24.4 reads outside of its memory for a"
            " position below 0."
        ),
        "    directml  Not known; the provider refuses the node on some devices.",
    ]
    assert (
        told(embedding("fixed", "types"), {"types": np.full((1, 2), 2, np.int32)})[1]
        == "OUT OF RANGE  embed (EmbedLayerNormalization, main graph): input_ids[0,1]"
        " is 5, a constant, not from 0 to 3"
    )


def mixed() -> onnx.ModelProto:
    """A Gather, a ScatterND and two others, of whose indices nothing is known."""
    return written(
        """
        (int64[3] ids, int64[1, 1] places, int64[3] lengths) => (turned, written, hot)
        <float[1, 3] update = {0, 0, 0}, int64 depth = {4}, float[2] values = {0, 1}>
        {
            [gather] rows = Gather (table, ids)
            [scatter] written = ScatterND (table, places, update)
            [turn] turned = ReverseSequence (rows, lengths)
            [hot] hot = OneHot (ids, depth, values)
        }
        """,
        TABLE,
    )


def test_all_operators_are_counted() -> None:
    bare = og.audit(mixed())
    assert (
        summary(bare)
        == "1 gather and 3 other operators with indices: 3 proved under conditions, 1"
        " proved in range"
    )
    kept = {"ids": (0, 3), "places": (-4, 3), "lengths": (0, 3)}
    assert (
        summary(og.audit(mixed(), ranges=kept))
        == "1 gather and 3 other operators with indices: 4 proved in range"
    )


def test_a_hot_row_is_proved_by_design() -> None:
    _, _, _, hot = og.audit(mixed()).gathers
    assert hot.range.why == "any index is in range by design"
    assert (hot.op, hot.range.state, hot.range.size) == ("OneHot", "proved", (4,))


def test_an_operator_without_indices_is_not_listed() -> None:
    made = written("""
        (float[2, 1, 3, 4] x, float[2, 3, 2] cos, float[2, 3, 2] sin) => (y)
        { y = RotaryEmbedding (x, cos, sin) }
    """)
    assert not og.audit(made).gathers


@pytest.mark.parametrize("name", one_quick_in(12, JUDGED))
def test_of_unknown_ranks_nothing_is_proved(name: str) -> None:
    made = onnx.ModelProto.FromString(JUDGED[name].model.SerializeToString())
    for value in made.graph.input:
        value.type.tensor_type.ClearField("shape")
    assert only(og.audit(made)).range.state != "proved"
    given = {
        name: array.ravel()[:2].shape for name, array in JUDGED[name].inputs.items()
    }
    # Sizes that do not fit may make the node invalid.
    assert only(og.audit(made, shapes=given)).range.state != "proved"


@pytest.mark.parametrize("count", [2, 16, 17, 18])
def test_each_coordinate_of_a_long_tuple_is_judged(count: int) -> None:
    sizes = [3, *[1] * (count - 2), 2]
    data = constant("data", np.zeros(sizes, np.float32))
    for last, state in ((1, "proved"), (2, "out-of-range")):
        tuples = np.zeros((1, count), np.int64)
        tuples[0, [0, -1]] = 2, last
        made = written(
            """
            () => (y) <float[1] update = {0}>
            { y = ScatterND (data, tuples, update) }
            """,
            data,
            constant("tuples", tuples),
        )
        found = only(og.audit(made))
        assert found.range.state == state
        assert found.range.size == tuple(sizes)


def test_the_output_of_a_max_unpool_tells_its_indices() -> None:
    def unpooled(
        attributes: str, kernel: str = "2, 2", sizes: str = ""
    ) -> AuditedGather:
        more = ", int64[4] sizes" if sizes == "sizes" else ""
        text = f"""
            (float[1, 1, 2, 2] x, int64[1, 1, 2, 2] places{more}) => (y)
            <int64[4] fixed = {{1, 1, 5, 5}}>
            {{
                y = MaxUnpool <kernel_shape = [{kernel}]{attributes}>
                    (x, places{", " * bool(sizes)}{sizes})
            }}
        """
        return only(og.audit(written(text)))

    doubled = ", strides = [2, 2]"
    for attributes, last in (
        (doubled, 15),
        ("", 8),
        (f"{doubled}, pads = [1, 1, 1, 1]", 3),
        (", strides = [3, 1], pads = [0, 1, 0, 0]", 9),
    ):
        assert unpooled(attributes).range.conditions[0].high == last
    assert unpooled(doubled, sizes="fixed").range.size == (25,)
    found = unpooled(doubled, sizes="sizes").range
    assert (found.state, found.size) == ("not-proved", (None,))
    assert unpooled("", kernel="2").range.state == "not-proved"


def test_the_first_column_of_the_boxes_of_a_max_roi_pool_is_its_index() -> None:
    def state(rois: str) -> str:
        made = written(f"""
            (float[3, 1, 4, 4] x, float[1, 5] free) => (y)
            {{ rois = {rois}  y = MaxRoiPool <pooled_shape = [1, 1]> (x, rois) }}
        """)
        return only(og.audit(made)).range.state

    def state_of_first(first: float) -> str:
        box = f"float[1, 5] {{{first}, 50, 50, 90, 90}}"
        return state(f"Constant <value = {box}> ()")

    assert [state_of_first(first) for first in (-0.5, 0, 2, 2.9)] == ["proved"] * 4
    assert [state_of_first(first) for first in (-1, 3)] == ["out-of-range"] * 2
    for operator in ("Relu", "Neg", "Abs"):  # of any float, and of NaN
        assert state(f"{operator} (free)") != "proved"
    # The boxes are from 0 to infinity.
    made = written("""
        (float[3, 1, 4, 4] x, int64[1, 5] whole) => (y)
        <float far = {1e30}>
        {
            free = Cast <to = 1> (whole)
            rois = Mul (free, far)
            y = MaxRoiPool <pooled_shape = [1, 1]> (x, rois)
        }
    """)
    found = only(og.audit(made, ranges={"whole": (0, 2**62)})).range
    assert (found.state, found.low, found.high) == ("proved-if", (0,), (None,))


TREES = ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")


@pytest.mark.parametrize("op", TREES)
def test_a_feature_of_a_tree_ensemble_is_a_column_of_its_input(op: str) -> None:
    def state(feature: int) -> str:
        return only(og.audit(tree_ensemble(op, [feature]), levels=())).range.state

    states = [state(feature) for feature in (-1, 0, 3, 4)]
    assert states == ["out-of-range", "proved", "proved", "out-of-range"]
    assert told(tree_ensemble(op, [9]))[:2] == [
        "m: a wrong input can leave an axis; 1 operator with indices: 1 out of range",
        f"OUT OF RANGE  trees ({op}, main graph): nodes_featureids[0] is 9, a constant,"
        " not from 0 to 3",
    ]


@pytest.mark.parametrize("op", one_quick_in(3, TREES))
def test_a_tree_ensemble_needs_as_many_columns_as_its_features(op: str) -> None:
    made = tree_ensemble(op, [3], "columns")
    record = only(og.audit(made, levels=()))
    assert said(record, og.audit(made).contract["sizes"]).startswith(
        "size 1 of x (columns) is at least 4; without this"
    )
    for columns, wanted in ((3, "out-of-range"), (4, "proved")):
        audit = og.audit(made, {"x": np.zeros((2, columns), np.float32)}, levels=())
        assert only(audit).range.state == wanted


def test_a_leaf_of_a_tree_reads_no_feature() -> None:
    def state(*features: int, columns: str = "4") -> str:
        made = tree_ensemble("TreeEnsembleRegressor", features, columns)
        return only(og.audit(made, levels=())).range.state

    assert state(3, -2, -2) == "proved"
    assert state(-2, 0, 0) == "out-of-range"
    # ONNX Runtime 1.24.4 refuses the feature of a leaf, too, so nothing is sure.
    assert state(3, 0, 4) == "not-proved"
    assert state(3, 0, 4, columns="columns") == "proved-if"


def test_a_feature_of_a_large_tree_ensemble_is_found() -> None:
    made = tree_ensemble("TreeEnsemble", [0])
    attribute = next(
        each for each in made.graph.node[0].attribute if each.name == "nodes_featureids"
    )
    attribute.ints.extend([1] * ELEMENTS + [4])
    found = only(og.audit(made, levels=())).range.found
    assert found is not None
    assert (found.value, found.at, found.count) == (4, (ELEMENTS + 1,), 1)


def test_a_row_has_at_most_as_many_tokens_as_there_surely_are_in_all() -> None:
    made = MODELS["SparseAttention total"].model

    def is_proved(most: int) -> bool:
        ranges = {"total": (40, 60), "tokens": (1, most)}
        return only(og.audit(made, ranges=ranges, levels=())).range.state == "proved"

    assert [is_proved(40), is_proved(41)] == [True, False]


def test_the_unmapped_page_of_a_cache_is_no_index_from_the_end() -> None:
    made = MODELS["PagedAttention table"].model
    assert "assumes       an index below 0 counts from the end" not in told(made)
    assert told(made)[1:3] == [
        "proved if     PagedAttention (PagedAttention, main graph): each value of table"
        " is from -1 to 3",
        "runtime       the file was audited by ONNX's specification alone: no level is"
        " asked for",
    ]


def test_a_tree_ensemble_is_left_by_harden() -> None:
    result = hardened(Premises(read_network(tree_ensemble(TREES[0], [9]))), "clamp")
    assert [left.why for left in result.left] == ["its indices are not limited"]


LABELS = np.array([[0, -100], [3, -4]])


@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_a_label_that_is_ignored_is_in_range(op: str) -> None:
    def state(labels: Any, attributes: str = "") -> str:
        text = f"(float[2, 4, 2] x) => (y) {{ y = {op} {attributes} (x, labels) }}"
        made = written(text, constant("labels", labels))
        return only(og.audit(made)).range.state

    assert state(LABELS) == "out-of-range"
    assert state(LABELS, "<ignore_index = -100>") == "proved"
    assert state(np.full_like(LABELS, -100), "<ignore_index = -100>") == "proved"
    assert state(LABELS, "<ignore_index = 3>") == "out-of-range"
    assert state(LABELS + 1, "<ignore_index = -99>") == "out-of-range"


@pytest.mark.slow
def test_a_label_of_a_run_that_is_ignored_is_no_finding() -> None:
    made = written("""
        (float[2, 4, 2] x, int64[2, 2] labels) => (y)
        { y = SoftmaxCrossEntropyLoss <ignore_index = -100> (x, labels) }
    """)
    fed = {"x": np.zeros((2, 4, 2), np.float32), "labels": LABELS}
    assert only(og.audit(made, fed)).range.found is None
    wrong = {**fed, "labels": LABELS + (LABELS == 3)}
    found = only(og.audit(made, wrong)).range.found
    assert found is not None
    assert (found.name, found.at, found.value, found.count) == ("labels", (1, 0), 4, 1)


def test_a_length_that_is_not_in_the_cache_is_told_with_its_ends() -> None:
    made = MODELS["GroupQueryAttention last of more"]
    assert told(made.model, made.with_index(1))[1] == (
        "OUT OF RANGE  GroupQueryAttention (GroupQueryAttention, main graph):"
        " seqlens_k[0] is 1, by the given inputs, not from 2 to 6"
    )


@pytest.mark.slow
def test_a_beam_that_is_not_read_is_no_finding() -> None:
    made = MODELS["DecoderMaskedMultiHeadAttention cache"]
    for last, state in ((2, "out-of-range"), (3, "proved-if"), (5, "proved-if")):
        fed = {name: array.copy() for name, array in made.inputs.items()}
        fed["cache"][0, 1, last] = 7
        assert only(og.audit(made.model, fed)).range.state == state


@pytest.mark.parametrize(
    "more", [{"sliding_window_cache": 1}, {"kv_cache_bit_width": 8}]
)
def test_of_a_cache_with_other_rules_nothing_is_proved(more: dict[str, int]) -> None:
    right = MODELS["GroupQueryAttention last"].model
    made = onnx.ModelProto.FromString(right.SerializeToString())
    ends = {"seqlens_k": (0, 4)}
    assert only(og.audit(made, ranges=ends, levels=())).range.state == "proved"
    for name, number in more.items():
        made.graph.node[0].attribute.append(onnx.helper.make_attribute(name, number))
    found = og.audit(made, ranges=ends, levels=())
    assert only(found).range.state == "not-proved"


def test_the_page_counts_the_operators() -> None:
    page = Path(__file__).parents[3] / "docs/models.md"
    counted = f"{len(index_operators.INDEX_OPERATORS)} operators in all"
    assert counted in page.read_text(encoding="utf-8")


def test_positions_of_an_unknown_rank_are_not_proved() -> None:
    cache = np.zeros((6, 2), np.float32)
    made = written(
        """
        (float[1, 3, 4] x, int64[] at) => (y)
        { y = com.microsoft.RotaryEmbedding (x, at, cos, sin) }
        """,
        constant("cos", cache),
        constant("sin", cache),
    )
    found = only(og.audit(made, ranges={"at": (0, 0)})).range
    assert (found.state, found.size) == ("not-proved", (None,))
