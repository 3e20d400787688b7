"""What providers make of an index out of range is what the table of operators says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from index_models import (
    Asked,
    IndexModel,
    Outcome,
    bound_run,
    index_models,
    sparse_attention,
    tree_ensemble,
    without_positions,
)
from onnx_graphs import constant, written
from rings import one_quick_in

import onnxgather as og
from onnxgather.auditing.operators.index_operators import INDEX_OPERATORS
from onnxgather.core.execution.elsewhere.hosts import find_runtime
from onnxgather.core.execution.elsewhere.worker import Worker
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.execution.runtime import CPU, DIRECTML, RefusedError

MODELS = {made.name: made for made in index_models()}
TREES = {
    key
    for key, row in INDEX_OPERATORS.items()
    if any(given.is_attribute for given in row.inputs)
}
"""The operators whose indices are an attribute."""

FAILS_OR_FOREIGN = (
    "The node fails. 1.24.4 reads and writes outside of its memory, or does not end."
)
FEATURE_FAILS = (
    "The node fails, or the model does not open. 1.24.4 reads outside of its memory for"
    " a feature below 0."
)

FAILS, ELSEWHERE, REFUSED = {Outcome.FAILS}, {Outcome.ELSEWHERE}, {Outcome.REFUSED}
ZERO, DROPPED = {Outcome.ZERO}, {Outcome.DROPPED}
ANOTHER = {Outcome.FIRST, Outcome.LAST, Outcome.INSIDE, Outcome.OTHER}
FOREIGN = {*ANOTHER, Outcome.ZERO, Outcome.ENDS}
"""What comes of memory outside of the tensor: anything but an error."""

SAID: dict[str, tuple[set[Outcome], set[Outcome]]] = {
    "The node fails.": (FAILS, FAILS),
    "The node fails. 1.24.4 ends the process.": (FAILS, {*FAILS, Outcome.ENDS}),
    "The node fails. 1.24.4 has no such operator.": (FAILS, REFUSED),
    "The node fails. 1.24.4 reads outside of its memory.": (
        FAILS,
        {*FAILS, *FOREIGN},
    ),
    "The node fails. 1.24.4 reads outside of its memory, or does not end.": (
        FAILS,
        {*FAILS, *FOREIGN, Outcome.ENDLESS},
    ),
    "The node fails. 1.24.4 writes outside of its memory for an id below 0.": (
        FAILS,
        {*FAILS, *FOREIGN},
    ),
    "The node fails. 1.24.4 does not read the lengths.": (FAILS, ANOTHER),
    "The node fails. 1.24.4 reads outside of its memory for a position below 0.": (
        FAILS,
        {*FAILS, *FOREIGN},
    ),
    "No error: the output is 0 there; 1.24.4 fails instead.": (ZERO, FAILS),
    "No error: a row of zeros is read. 1.24.4 reads outside of its memory.": (
        {Outcome.OTHER},
        FOREIGN,
    ),
    "No error by design: the row is all off.": (DROPPED, DROPPED),
    "No error: row 0 is read. 1.24.4 has no such operator.": (
        {Outcome.FIRST},
        REFUSED,
    ),
    "The provider has no such operator; the model does not open.": (REFUSED, REFUSED),
}
"""The sentences on the CPU provider: the outcomes that each stands for, and those on
1.24.4."""

WRITES = {Outcome.OFFSET, Outcome.DROPPED}
SAID_OF_DIRECTML: dict[str, set[Outcome]] = {
    "The provider has no such operator; the node runs on the CPU provider.": ELSEWHERE,
    "The provider has no such operator; the model does not open.": REFUSED,
    "ONNX Runtime 1.24.4 has no such operator.": REFUSED,
    "Not known; the provider refuses the node on some devices.": FAILS,
    "No error: one below 0 counts from the end, else the output is 0 there.": {
        *ANOTHER,
        *ZERO,
    },
    "No error: the element is written at the offset that the index gives in the"
    " buffer, so in another row, or nowhere beyond the buffer. With a reduction, and"
    " from opset 18 on, the node runs on the CPU provider.": {
        *WRITES,
        *ELSEWHERE,
    },
    "No error: the element is dropped.": DROPPED,
    "No error: the last image of the batch is read.": {Outcome.LAST},
    "No error: the first or the last image is read.": {Outcome.FIRST, Outcome.LAST},
    "No error: some elements stand there twice.": {Outcome.OTHER},
    "No error by design: the row is all off.": DROPPED,
    "The node fails.": FAILS,
    "No error: returns the loss at another element of the tensor.": {
        *ANOTHER,
        Outcome.OTHER,
    },
    "No error: the node reads the whole sequence.": {Outcome.LAST},
    "No error: the node reads other elements of the cache or of the tables, or the"
    " index changes nothing. total_sequence_length out of range may fail.": {
        *ANOTHER,
        *FAILS,
        Outcome.OTHER,
    },
    "No error: the output is the same for each index.": {Outcome.FIRST, Outcome.LAST},
    "No error: returns another element of the tensor, as DirectML checks no index.": (
        ANOTHER
    ),
}
"""The sentences on the DirectML provider, and the outcomes that each stands for."""


def said(made: IndexModel, provider: str) -> str:
    """What the audit says that a provider does with an index out of range of a
    model."""
    fed = made.with_index(made.outside[-1])
    # The levels of ONNX Runtime change nothing in what the table says.
    (gather,) = og.audit(made.model, fed, levels=()).gathers
    if made.row.hardened == "nothing":  # there is no index out of range
        assert gather.range.state == "proved"
        return made.row.providers[provider]
    if made.op.startswith("Sequence"):  # of a length that is not known
        assert gather.range.state == "not-proved"
        return made.row.providers[provider]
    assert gather.range.state == "out-of-range"
    assert gather.range.found is not None
    return gather.range.found.providers[provider]


@pytest.fixture(scope="module")
def cpu() -> Iterator[Worker]:
    worker = Worker(sys.executable, 15)
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def directml() -> Iterator[Worker]:
    worker = Worker("", 120, find_runtime(PROVIDERS["directml"]))
    yield worker
    worker.close()


def test_each_operator_of_the_table_has_a_model() -> None:
    assert {
        (made.domain, made.op) for made in MODELS.values()
    } | TREES == INDEX_OPERATORS.keys()
    indexed = {(made.domain, made.op, made.which) for made in MODELS.values()}
    for (domain, op), row in INDEX_OPERATORS.items():
        if (domain, op) in TREES:
            continue
        # The positions of QEmbedLayerNormalization count themselves; no input holds
        # them.
        held = len(row.inputs) - (op == "QEmbedLayerNormalization")
        assert len({key for key in indexed if key[:2] == (domain, op)}) == held, op


@pytest.mark.parametrize(
    "name",
    one_quick_in(80, [name for name in MODELS if not name.startswith("Sparse")]),
)
def test_the_cpu_provider_does_what_is_said(name: str, cpu: Worker) -> None:
    made, is_oldest = MODELS[name], cpu.about().versions["onnxruntime"] == "1.24.4"
    wanted = SAID[said(made, "cpu")][is_oldest]
    asked = Asked(cpu, CPU, made)
    found = dict[int, Outcome]()
    for index in made.outside:
        # What an index overwrites in 1.24.4 must not meet the next one.
        if is_oldest:
            with closing(Worker(sys.executable, 15)) as alone:
                found[index] = asked.outcome(index, alone)
        else:
            found[index] = asked.outcome(index)
    assert wanted.issuperset(found.values()), found


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, made in MODELS.items()
        # a tensor is put in front of the place where it counts from the end
        if made.row.inputs[0].from_end and made.op != "SequenceInsert"
    ],
)
def test_an_index_below_0_counts_from_the_end_on_the_cpu_provider(
    name: str, cpu: Worker
) -> None:
    made = MODELS[name]
    asked = Asked(cpu, CPU, made)
    assert [asked.outcome(index) for index in (-1, -made.size)] == [
        Outcome.LAST,
        Outcome.FIRST,
    ]


@pytest.mark.parametrize("op", ["EmbedLayerNormalization", "QEmbedLayerNormalization"])
def test_more_ids_than_positions_fail_on_the_cpu_provider(op: str, cpu: Worker) -> None:
    asked = Asked(cpu, CPU, without_positions(op))

    def answer(length: int) -> object:
        ids = np.ones((1, length), np.int32)
        return asked.answer({"input_ids": ids, "segment_ids": ids})

    assert isinstance(answer(5), np.ndarray)
    assert [answer(6), answer(60)] == [Outcome.FAILS, Outcome.FAILS]


def test_a_character_beyond_the_table_of_words_is_a_row_of_zeros(cpu: Worker) -> None:
    made = MODELS["WordConvEmbedding"]
    table = made.inputs["table"]
    longer = {**made.inputs, "table": np.concatenate([table, np.zeros_like(table[:1])])}
    longer = replace(made, inputs=longer).with_index(made.size)
    asked = Asked(cpu, CPU, made)
    wanted, found = asked.answer(longer), asked.answer(made.with_index(made.size + 990))
    assert isinstance(wanted, np.ndarray)
    # ONNX Runtime 1.24.4 reads outside of its memory
    if cpu.about().versions["onnxruntime"] != "1.24.4":
        assert isinstance(found, np.ndarray)
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("which", ["ends", "blocks", "total", "tokens"])
def test_a_sparse_attention_runs_in_range_and_fails_out_of_range(which: str) -> None:
    # It runs only where the cache is the memory of its outputs, too.
    made = sparse_attention(which)
    assert said(made, "cpu") == FAILS_OR_FOREIGN
    assert made.row.inputs[0].name == "block_row_indices"
    # The ends of the blocks do not fall, and of all tokens there are at least 60.
    inside = {"ends": [8], "total": [60, 62]}
    for index in inside.get(which, [made.least, made.size - 1]):
        assert bound_run(made.model, made.with_index(index)).shape == (1, 1, 32)
    if onnxruntime.__version__ == "1.24.4":  # it reads and writes foreign memory
        return
    for index in made.outside:
        with pytest.raises(Exception, match=r"out of|exceed|no less than|must be 0"):
            bound_run(made.model, made.with_index(index))


BLOCKS = "0, 0, 1, 1, 2, 1, 2, 3"


@pytest.mark.parametrize(
    ("state", "runs", "blocks", "new", "total", "tokens", "rows"),
    [
        ("proved", True, BLOCKS, 1, 60, 60, 0),
        ("not-proved", True, f"{BLOCKS}, -1", 1, 60, 60, 0),
        ("not-proved", False, "0, 0, 1, 1, 2, 1, 2, -1", 1, 60, 60, 0),
        # all tokens of the blocks
        ("proved", True, BLOCKS, 1, 64, 64, 0),
        ("out-of-range", False, BLOCKS, 1, 65, 65, 0),
        # a later token
        ("proved", True, BLOCKS, 3, 60, 3, 0),
        ("out-of-range", False, BLOCKS, 3, 60, 2, 0),
        # the first prompt
        ("proved", True, BLOCKS, 20, 20, 1, 0),
        ("out-of-range", False, BLOCKS, 20, 20, 0, 0),
        ("out-of-range", False, BLOCKS, 20, 20, 21, 0),
        # rotary tables
        ("proved", True, BLOCKS, 1, 60, 60, 60),
        ("out-of-range", False, BLOCKS, 1, 60, 60, 59),
    ],
)
def test_a_sparse_attention_runs_where_it_is_proved(
    state: str, runs: bool, blocks: str, new: int, total: int, tokens: int, rows: int
) -> None:
    count = len(blocks.split(","))
    tables = ", tables, tables" if rows else ""
    made = written(
        f"""
        (float[1, {new}, 32] x, float[1, 2, 96, 16] past_k,
         float[1, 2, 96, 16] past_v) => (float[1, {new}, 32] y0)
        <int32[1, 5] ends = {{0, 1, 3, 5, 8}}, int32[1, {count}] blocks = {{{blocks}}},
         int32[1] total = {{{total}}}, int32[1] tokens = {{{tokens}}}>
        {{
            y0, y1, y2 = com.microsoft.SparseAttention <num_heads = 2,
                kv_num_heads = 2, sparse_block_size = 16, do_rotary = {int(rows > 0)}>
                (x, x, x, past_k, past_v, ends, blocks, total, tokens{tables})
        }}
        """,
        constant("tables", np.ones((rows, 8), np.float32)),
    )
    made.opset_import.add(domain="com.microsoft", version=1)
    (gather,) = og.audit(made, levels=()).gathers
    assert gather.range.state == state
    if onnxruntime.__version__ == "1.24.4":  # it reads and writes foreign memory
        return
    past = np.zeros((1, 2, 96, 16), np.float32)
    inputs = {"x": np.ones((1, new, 32), np.float32), "past_k": past, "past_v": past}
    if runs:
        assert bound_run(made, inputs).shape == (1, new, 32)
    else:
        with pytest.raises(Exception, match=r"out of|no less than"):
            bound_run(made, inputs)


@pytest.mark.parametrize("op", sorted(op for _, op in TREES))
def test_a_feature_out_of_range_is_what_the_table_says(op: str, cpu: Worker) -> None:
    is_oldest = cpu.about().versions["onnxruntime"] == "1.24.4"
    inputs = {"x": np.ones((2, 4), np.float32)}

    def outcome(feature: int) -> object:
        model = tree_ensemble(op, [feature])
        (gather,) = og.audit(model, levels=()).gathers
        record = gather.range
        if 0 <= feature < 4:
            assert record.state == "proved"
            return asked(model)
        assert record.found is not None
        assert (record.state, record.found.value) == ("out-of-range", feature)
        assert record.found.providers["cpu"] == FEATURE_FAILS
        return asked(model)

    def asked(model: onnx.ModelProto) -> object:
        session = {"provider": CPU, "threads": 1}
        try:
            (output,) = cpu.run(
                model.SerializeToString(), session, [inputs], keep=True
            ).outputs
        except RefusedError:
            return Outcome.REFUSED
        return Outcome.FAILS if isinstance(output, str) else output

    for feature in (0, 3):
        assert isinstance(outcome(feature), np.ndarray)
    assert [outcome(feature) for feature in (4, 1000)] == [Outcome.FAILS] * 2
    if not is_oldest:
        assert [outcome(feature) for feature in (-1, -1000)] == [Outcome.REFUSED] * 2


@pytest.mark.slow
@pytest.mark.skipif(
    not find_runtime(PROVIDERS["directml"]),
    reason="scripts/directml/setup.sh has not run",
)
@pytest.mark.parametrize("name", MODELS)
def test_the_directml_provider_does_what_is_said(name: str, directml: Worker) -> None:
    made = MODELS[name]
    asked = Asked(directml, DIRECTML, made)
    found = {index: asked.outcome(index) for index in made.outside}
    assert SAID_OF_DIRECTML[said(made, "directml")].issuperset(found.values()), found
