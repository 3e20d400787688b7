"""Random ONNX models with open sizes, of the operators that the audit knows, with wild
inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime
from network_chains import CHAINS, add_chain
from network_draft import (
    OPSETS,
    Draft,
    Feeds,
    RefusedError,
    Style,
    data_type,
    leading,
    numbers,
    run,
)
from network_operators import TEMPLATES, add
from network_traps import TRAPS
from onnx import TensorProto, helper
from runtime_faults import IS_OLD

__all__ = ["CHAINS", "TEMPLATES", "TRAPS", "Graph", "Sample", "graph", "sample"]

SIZE_NAMES = ("batch", "sequence", "n")
INDEX_TYPES = ("int64", "int32")


@dataclass
class Sample:
    """A random model, and the values of its runs."""

    model: onnx.ModelProto
    runs: list[Feeds]


def sample(seed: int, operator: str = "") -> Sample:
    """A random model with up to 16 nodes; the sizes of its inputs are told in half of
    them.

    Every second node is of an operator if it is given.
    """
    d = Draft(Random(seed))
    for _ in range(d.randint(1, 3)):
        d.input()
    for k in range(24):
        if len(d.nodes) < 16:
            add(d, operator if k % 2 else "")
    outputs = [name for node in d.nodes for name in node.output]
    told = d.chance(0.5)
    declared = {
        name: [*i.dims] if told else [None] * len(i.dims)
        for name, i in d.inputs.items()
    }
    model = d.model(d.nodes, outputs, declared)
    runs = [{**d.values}]
    for _ in range(2):
        style: Style = "wild" if d.chance(0.7) else "near"
        fed = {
            name: numbers(d.random, i.dtype, i.shape({}), style)
            for name, i in d.inputs.items()
        }
        try:
            runs.append(fed | run(model, fed))
        except Exception:
            # an index out of range, a size that does not fit: this run tells nothing
            continue
    return Sample(model, runs)


@dataclass
class Graph:
    """A random model whose gathers are audited."""

    draft: Draft
    gathers: list[onnx.NodeProto]
    """The gathers of the main graph."""

    @property
    def declared(self) -> dict[str, Any]:
        """The sizes of the graph inputs as the model declares them."""
        return {name: value.declared for name, value in self.draft.inputs.items()}

    @property
    def divides(self) -> bool:
        """Whether a node divides by what may be 0, at which ONNX Runtime ends the
        process.

        The TopK of ONNX Runtime 1.24 divides by the number of rows.
        """
        nodes = [
            node
            for node in self.draft.nodes
            if node.op_type in ("Div", "Mod", "Picked")
        ]
        if any(node.input[1] not in self.draft.constants for node in nodes):
            return True
        is_old = onnxruntime.__version__.startswith("1.24.")
        return is_old and any(node.op_type == "TopK" for node in self.draft.nodes)

    def part(
        self, outputs: Sequence[str], sizes: dict[str, Any] | None = None
    ) -> onnx.ModelProto:
        """A model of the nodes that lead to some values.

        Args:
            outputs: The names of the values.
            sizes: Those of graph inputs, where they are others than the declared ones.
        """
        nodes = leading(self.draft.nodes, outputs)
        return self.draft.model(nodes, outputs, self.declared | (sizes or {}))

    @property
    def model(self) -> onnx.ModelProto:
        """The model with all its nodes."""
        nodes = self.draft.nodes
        read = {name for node in nodes for name in node.input}
        outputs = [
            node.output[0] for node in nodes if not read.intersection(node.output)
        ]
        outputs += [
            node.output[0] for node in self.gathers if node.output[0] not in outputs
        ]
        return self.draft.model(nodes, outputs, self.declared)

    def sizes(self, random: Random, least: int) -> dict[str, int]:
        """A draw of the open sizes.

        Args:
            random: The random numbers.
            least: 0 or 1, the least size.
        """
        choices = [1, 1, 2, 2, 3, 4, 5, 6, 7, 9, 12, *[0, 0] * (1 - least)]
        if len(self.draft.sizes[0]) < 3:
            choices += [17, 41]
        return {name: random.choice(choices) for name in self.draft.sizes[0]}

    def feeds(
        self, random: Random, sizes: dict[str, int], ranges: dict[str, tuple[int, int]]
    ) -> Feeds:
        """A draw of the inputs, inside given ranges."""
        found: dict[str, Any] = {
            n: list(e) for n, (_, e) in self.draft.sequences.items()
        }
        styles: list[Style] = ["calm", "near", "near", "wild", "wild"]
        style = random.choice(styles)
        for name, value in self.draft.inputs.items():
            mixed = random.choice(styles) if random.random() < 0.3 else style
            array = numbers(random, value.dtype, value.shape(sizes), mixed)
            if name in ranges:
                low, high = ranges[name]
                ends = [low, high, *(random.randint(low, high) for _ in range(4))]
                array = np.array(random.choices(ends, k=array.size)).reshape(
                    array.shape
                )
                array = array.astype(value.dtype)
            found[name] = array
        return found


def graph(seed: int, trap: str = "", chain: str = "", operator: str = "") -> Graph:
    """A random model: chains, sometimes a trap, nodes of random operators, and gathers
    behind them.

    Args:
        seed: Of the random numbers.
        trap: The trap that it has.
        chain: The chain that it has.
        operator: The operator of every second random node.
    """
    random = Random(seed)
    d = Draft(random, opset=random.choice(OPSETS), worlds=[{}, {}], sizes=[{}, {}])
    count = random.choice([1, 2, 2, 3])
    for name, pair in zip(SIZE_NAMES[:count], random.sample(PAIRS, count), strict=True):
        d.open_size(name, pair)
    for _ in range(random.randint(0, 2) if not operator else 2):
        d.input()
    chosen = random.random()
    if trap or (chosen < 0.12 and not chain and not operator):
        name = trap or random.choice([*TRAPS])
        add_chain(d, name, TRAPS[name])
    if chosen < 0.5 or operator:
        for k in range(random.randint(2, 14)):
            add(d, operator if k % 2 == 0 else "")
    for _ in range(1 if chain or trap or operator else random.choice([1, 1, 2])):
        if not operator:
            name = chain or random.choice([*CHAINS])
            add_chain(d, name, CHAINS[name])
    if random.random() < 0.3:
        for _ in range(random.randint(1, 6)):
            add(d)
    d.label = "probe"
    for _ in range(random.randint(1, 4)):
        probe(d)
    gathers = [
        n
        for n in d.nodes
        if n.op_type in ("Gather", "GatherElements", "GatherND", *OTHERS)
    ]
    if random.random() < DECLARING:
        declare(d)
    return Graph(d, gathers)


DECLARING = 0.2
"""The share of the models that declare sizes of what they compute."""


def declare(d: Draft) -> None:
    """Declare sizes of some values: their own ones, wrong ones, and names that they
    share."""
    random = d.random
    made = [name for node in d.nodes for name in node.output if name in d.values]
    for name in random.sample(made, min(len(made), random.randint(1, 4))):
        dims, opened = list[int | str | None](), d.open_axes(name)
        for axis, n in enumerate(d.values[name].shape):
            numbers = [world[name].shape[axis] for world in d.worlds]
            own = [s for s in d.sizes[0] if [w[s] for w in d.sizes] == numbers]
            right = [*own, None] if axis in opened else [n, n, n, None]
            wrong = [n + 1, max(n - 1, 0), 1, "shared", "shared", *d.sizes[0]]
            dims.append(random.choice(wrong if random.random() < 0.15 else right))
        if random.random() < 0.05:
            dims = [*dims, 1] if random.random() < 0.5 else dims[1:]
        d.value_infos.append(
            helper.make_tensor_value_info(name, data_type(d.values[name]), dims)
        )


PAIRS = [(3, 5), (4, 7), (5, 4), (6, 3), (2, 6), (7, 2)]
"""An open size in both worlds."""


def probe(d: Draft) -> None:
    """End a graph with a gather whose indices are any of its values."""
    random = d.random
    made = {name for node in d.nodes for name in node.output} & d.values.keys()
    index = (
        random.choice(sorted(made, key=lambda n: int(n[1:]))[-12:])
        if made
        else d.pick("int64")
    )
    array = d.values[index]
    try:
        if str(array.dtype) not in INDEX_TYPES:
            if array.dtype.kind == "f" and random.random() < 0.5:
                index = d.op(
                    "Mul",
                    index,
                    d.constant(random.choice([2, 16, 0.5]), str(array.dtype)),
                )
            index = d.op("Cast", index, to=TensorProto.INT64)
        if random.random() < 0.2:
            index = d.op(
                "Mod",
                index,
                d.constant(random.randint(1, 6), str(d.values[index].dtype)),
            )
        _end(d, index)
    except (RefusedError, IndexError):
        return


def _end(d: Draft, index: str) -> None:
    """Add a gather with some indices: of a table about as large as they need, or of a
    value."""
    random, arrays = d.random, [world[index] for world in d.worlds]
    found = [int(a.max()) for a in arrays if a.size] + [
        -int(a.min()) - 1 for a in arrays if a.size
    ]
    most = min(max([0, *found]), 100)
    rows = max(1, most + random.choice([0, 1, 1, 1, 2, 40]))
    tuples = arrays[0].ndim and d.open_axes(index)[-1:] != [arrays[0].ndim - 1]
    way = random.random()
    if way < 0.4 and random.random() < 0.7:
        other_end(d, index, rows)
    elif (
        way < 0.1
        and tuples
        and 0 < arrays[0].shape[-1] < 5
        and arrays[0].dtype == np.int64
    ):
        columns = arrays[0].shape[-1]
        sizes = list[int]()
        for k in range(columns):
            ends = [int(abs(a[..., k]).max()) for a in arrays if a.size]
            sizes.append(min(max([0, *ends]), 6) + random.choice([0, 1, 1, 1, 2]))
        data = d.constant(np.zeros([max(n, 1) for n in sizes]), "float32")
        d.end(d.node("GatherND", [data, index]))
    elif way < 0.25 and arrays[0].ndim:
        d.end(d.node("GatherElements", [index, index], axis=d.axis(index)))
    elif way < 0.5:
        data = d.pick(rank=1)
        d.end(d.node("Gather", [data, index], axis=d.axis(data)))
    else:
        data = d.constant(np.zeros([rows, 1]), "float32")
        d.end(d.node("Gather", [data, index], axis=0))


REDUCTIONS = ("none", "sum", "mean")

OTHERS = {
    **dict.fromkeys(
        ["Scatter", "ScatterElements", "ScatterND", "GatherBlockQuantized"], (0, 1)
    ),
    "EmbedLayerNormalization": (2, 0),
    "RotaryEmbedding": (2, 1),
    "ReverseSequence": (0, 1),
    "RoiAlign": (0, 2),
    "ArrayFeatureExtractor": (0, 1),
    "CropAndResize": (0, 2),
    "SoftmaxCrossEntropyLoss": (0, 1),
    "GRU": (0, 4),
    "NGramRepeatBlock": (1, 0),
    "GroupQueryAttention": (3, 5),
}
"""The operators other than ONNX's gathers whose indices are seen: where the data is
that they index first, and where these indices are."""


def other_end(d: Draft, index: str, rows: int) -> None:
    """Add another operator with some indices, over about as many rows as they need."""
    random, microsoft = d.random, "com.microsoft"
    flat = d.op("Reshape", index, [-1])
    flat = d.op("Cast", flat, to=TensorProto.INT64)
    count, row = d.op("Shape", flat), d.op("Reshape", flat, [1, -1])

    def zeros(*sizes: Any) -> str:
        return d.op("ConstantOfShape", d.op("Concat", *sizes, axis=0))

    def table(*sizes: int, dtype: str = "float32") -> str:
        return d.constant(np.zeros(sizes), dtype)

    operator = random.choice([*OTHERS])
    # ONNX Runtime 1.24.4 reads and writes outside of its memory.
    if IS_OLD and operator in ("NGramRepeatBlock", "GroupQueryAttention"):
        operator = "CropAndResize"
    if d.opset < 12 and operator == "SoftmaxCrossEntropyLoss":
        operator = "GRU"
    if operator in ("Scatter", "ScatterElements"):
        operator = "ScatterElements" if d.opset >= 11 else "Scatter"
        d.end(d.node(operator, [table(rows), flat, d.op("ConstantOfShape", count)]))
    elif operator == "ScatterND":
        places = d.op("Reshape", flat, [-1, 1])
        d.end(d.node(operator, [table(rows), places, d.op("ConstantOfShape", count)]))
    elif operator == "GatherBlockQuantized":
        names = [table(rows, 8, dtype="uint8"), index, table(rows, 1)]
        d.end(d.node(operator, names, domain=microsoft, bits=4, block_size=16))
    elif operator == "EmbedLayerNormalization":
        ids, places = (
            d.op("Cast", row, to=TensorProto.INT32),
            table(random.choice([5, 9, 40]), 4),
        )
        names = [ids, "", table(rows, 4), places, "", *[table(4)] * 2]
        d.end(d.node(operator, names, 2, domain=microsoft))
    elif operator == "RotaryEmbedding" and random.random() < 0.5:
        first = d.op("Slice", flat, [0], [1], [0])
        x = table(1, random.randint(1, 3), 4)
        d.end(d.node(operator, [x, first, *[table(rows, 2)] * 2], domain=microsoft))
    elif operator == "RotaryEmbedding":
        x = zeros(np.array([1]), count, np.array([4]))
        d.end(d.node(operator, [x, row, *[table(rows, 2)] * 2], domain=microsoft))
    elif operator == "ReverseSequence":
        x = zeros(np.array([rows]), count)
        d.end(d.node(operator, [x, flat], time_axis=0, batch_axis=1))
    elif operator == "ArrayFeatureExtractor":
        d.end(d.node(operator, [table(1, rows), flat], domain="ai.onnx.ml"))
    elif operator == "CropAndResize":
        x, boxes = table(rows, 1, 2, 2), zeros(count, np.array([4]))
        names = [x, boxes, d.op("Cast", flat, to=TensorProto.INT32)]
        names.append(d.constant(np.array([1, 1]), "int32"))
        d.end(d.node(operator, names, domain=microsoft))
    elif operator == "SoftmaxCrossEntropyLoss":
        scores = zeros(count, np.array([rows]))
        d.end(d.node(operator, [scores, flat], reduction=random.choice(REDUCTIONS)))
    elif operator == "GRU":
        # Without a batch, ONNX Runtime ends the program.
        flat = d.op("Concat", flat, [0], axis=0)
        x = zeros(np.array([rows]), d.op("Shape", flat), np.array([4]))
        lengths = d.op("Cast", flat, to=TensorProto.INT32)
        names = [x, table(1, 6, 4), table(1, 6, 2), "", lengths]
        d.end(d.node(operator, names, hidden_size=2))
    elif operator == "NGramRepeatBlock":
        names = [row, table(1, rows)]
        d.end(d.node(operator, names, domain=microsoft, ngram_size=1))
    elif operator == "GroupQueryAttention":
        # Without a batch, ONNX Runtime ends the program.
        flat = d.op("Concat", flat, [0], axis=0)
        batch = d.op("Shape", flat)
        new = zeros(batch, np.array([1]), np.array([16]))
        past = zeros(batch, np.array([1]), np.array([rows]), np.array([16]))
        last = d.op("Cast", flat, to=TensorProto.INT32)
        total = d.constant(np.array(random.choice([rows, max(rows - 1, 1)])), "int32")
        names = [new, new, new, past, past, last, total]
        d.end(d.node(operator, names, 3, domain=microsoft, num_heads=1, kv_num_heads=1))
    else:
        x, boxes = table(rows, 1, 2, 2), zeros(count, np.array([4]))
        d.end(d.node(operator, [x, boxes, flat]))
