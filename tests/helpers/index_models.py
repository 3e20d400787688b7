"""Small models of the operators that carry indices, and what a provider makes of an
index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import onnx
import onnxruntime
from network_draft import Feeds, data_type, session
from onnx import helper, numpy_helper
from onnx_graphs import written

from onnxgather.auditing.operators.index_operators import INDEX_OPERATORS, IndexOperator
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.execution.elsewhere.worker import Worker
from onnxgather.core.execution.runtime import NotRunError, RefusedError

MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class IndexModel:
    """A model of one node, one of whose inputs holds indices."""

    name: str
    """The operator, with what else tells the model from others."""
    op: str
    domain: str
    which: str
    """The input whose index is changed."""
    place: tuple[int | slice, ...]
    """Where it stands there."""
    size: int
    """How many indices from 0 on are in range."""
    inputs: Feeds
    """Inputs with all indices in range."""
    model: onnx.ModelProto
    wraps: bool = False
    """Whether indices beyond the last start again at the first."""
    least: int = 0
    """The least index in range that does not count from the end."""

    @property
    def row(self) -> IndexOperator:
        """The row of the operator in the package's table."""
        return INDEX_OPERATORS[self.domain, self.op]

    @property
    def opens(self) -> bool:
        """Whether the CPU provider has the operator, in a version that has it."""
        return "the model does not open" not in self.row.providers.get("cpu", "")

    @property
    def outside(self) -> list[int]:
        """Indices out of range, near and far."""
        from_end = next(one.from_end for one in self.row.inputs)
        least = self.least
        below = [least - 1, least - self.size, least - 1000]
        if from_end:
            below = [-self.size - 1, -1000]
        if any(given.padding in below for given in self.row.inputs):
            below = below[1:]
        return below if self.wraps else [*below, self.size, self.size + 1, 1000]

    def with_index(self, index: int) -> Feeds:
        """The inputs with another index."""
        changed = self.inputs[self.which].copy()
        changed[self.place] = index
        return {**self.inputs, self.which: changed}


def made(
    op: str,
    inputs: Mapping[str, Any],
    which: str,
    size: int,
    *,
    name: str = "",
    domain: str = "",
    opset: int = 17,
    place: tuple[int | slice, ...] = (0,),
    constants: Mapping[str, Any] | None = None,
    outputs: int = 1,
    wraps: bool = False,
    least: int = 0,
    sequence: bool = False,
    fixed: bool = False,
    **attributes: Any,
) -> IndexModel:
    """A model of one node. Inputs None are left out; constants are the model's own.

    The first input may be a sequence of the first three ones. Sizes are open unless
    they are fixed.
    """
    feeds: Feeds = {k: np.asarray(v) for k, v in inputs.items() if v is not None}
    kept = dict(constants or {})
    graph_inputs = [
        helper.make_tensor_value_info(
            k, data_type(v), v.shape if fixed else [None] * v.ndim
        )
        for k, v in feeds.items()
        if k not in kept
    ]
    tensors = [
        (
            v
            if isinstance(v, onnx.TensorProto)
            else numpy_helper.from_array(np.asarray(v), k)
        )
        for k, v in kept.items()
    ]
    names = [("" if v is None else k) for k, v in inputs.items()]
    out = [f"y{k}" for k in range(outputs)]
    nodes = [helper.make_node(op, names, out, name=op, domain=domain, **attributes)]
    value = helper.make_tensor_value_info("y0", onnx.TensorProto.FLOAT, None)
    if sequence:
        nodes = _in_sequence(nodes[0], list(feeds))
    graph = helper.make_graph(nodes, "index", graph_inputs, [value], tensors)
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, 1)] if domain else []
    model = helper.make_model(
        graph, opset_imports=opsets, ir_version=8 if opset < 18 else 10
    )
    fed = {k: v for k, v in feeds.items() if k not in kept}
    named = name or op
    return IndexModel(named, op, domain, which, place, size, fed, model, wraps, least)


def _in_sequence(node: onnx.NodeProto, tensors: list[str]) -> list[onnx.NodeProto]:
    """Let a node read a sequence of three tensors; in the end there is one tensor."""
    taken = ["three", *node.input[3:]]
    if node.op_type == "SequenceInsert":
        taken.insert(1, tensors[0])
    del node.input[:]
    node.input.extend(taken)
    made_of = helper.make_node("SequenceConstruct", tensors[:3], ["three"])
    if node.op_type == "SequenceAt":
        return [made_of, node]
    node.output[0] = "other"
    joined = helper.make_node("ConcatFromSequence", ["other"], ["y0"], axis=0)
    return [made_of, node, joined]


def _f(*shape: int) -> Any:
    """Distinct floats from 1 on."""
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def _i(*values: Any) -> Any:
    return np.array(values, np.int64)


def _i32(*values: Any) -> Any:
    return np.array(values, np.int32)


def _f32(*values: Any) -> Any:
    return np.array(values, np.float32)


def _quantized(kind: int, name: str) -> IndexModel:
    rows, columns = 4, 32
    codes = [(3 * k + 1) % 16 for k in range(rows * columns)]
    if kind == onnx.TensorProto.UINT8:  # two codes a byte
        packed = [a | b << 4 for a, b in zip(codes[::2], codes[1::2], strict=True)]
        data = numpy_helper.from_array(
            np.array(packed, np.uint8).reshape(rows, -1), "data"
        )
        more: dict[str, Any] = {"bits": 4}
    else:
        data, more = helper.make_tensor("data", kind, [rows, columns], codes), {}
    inputs = {"data": np.zeros(1, np.uint8), "indices": _i(1, 2), "scales": _f(rows, 2)}
    constants = {"data": data, "scales": _f(rows, 2)}
    return made(
        "GatherBlockQuantized",
        inputs,
        "indices",
        rows,
        name=name,
        domain=MICROSOFT,
        opset=21,
        constants=constants,
        block_size=16,
        gather_axis=0,
        quantize_axis=1,
        **more,
    )


def _embed(which: str, quantized: bool = False, positions: bool = True) -> IndexModel:
    hidden, tokens, places, kinds = 8, 6, 5, 3
    op = "QEmbedLayerNormalization" if quantized else "EmbedLayerNormalization"
    random = np.random.default_rng(0)

    def table(*shape: int) -> Any:
        values = random.integers(0, 255, shape)
        return values.astype(np.uint8 if quantized else np.float32)

    ids = {
        "input_ids": _i32([1, 2, 3]),
        "segment_ids": _i32([0, 1, 0]),
    }
    inputs: dict[str, Any] = {
        **ids,
        "word": table(tokens, hidden),
        "position": table(places, hidden),
        "segment": table(kinds, hidden),
        "gamma": table(hidden),
        "beta": table(hidden),
    }
    inputs["mask"] = None
    if quantized:
        parts = ("word", "position", "segment", "gamma", "beta")
        inputs |= {f"{part}_scale": np.float32(0.1) for part in parts}
        inputs |= {f"{part}_zero": np.uint8(3) for part in parts}
    elif positions:
        inputs["position_ids"] = _i32([0, 1, 2])
    size = {"input_ids": tokens, "segment_ids": kinds}.get(which, places)
    constants = {
        k: v for k, v in inputs.items() if not k.endswith("_ids") and v is not None
    }
    return made(
        op,
        inputs,
        which,
        size,
        name=f"{op} {which}",
        domain=MICROSOFT,
        place=(0, 1),
        constants=constants,
        outputs=2,
    )


def _rotary(domain: str, *, offset: bool = False, rank: int = 4) -> IndexModel:
    longest, heads, length, width = 6, 2, 3, 4
    angles = (
        np.random.default_rng(1)
        .uniform(0.1, 1, (longest, width // 2))
        .astype(np.float32)
    )
    x = _f(1, heads, length, width) if rank == 4 else _f(1, length, heads * width)
    positions = _i(1) if offset else _i([0, 1, 2])
    tables = {"cos": np.cos(angles), "sin": np.sin(angles)}
    if domain:
        inputs = {"x": x, "positions": positions, **tables}
    else:
        inputs = {"x": x, **tables, "positions": positions}
    more: dict[str, Any] = {"num_heads": heads} if rank == 3 else {}
    # As an offset the last of the positions is index + length - 1.
    size = longest - length + 1 if offset else longest
    return made(
        "RotaryEmbedding",
        inputs,
        "positions",
        size,
        name=(
            f"RotaryEmbedding {domain or 'ONNX'}"
            f" {'offset' if offset else f'rank {rank}'}"
        ),
        domain=domain,
        opset=17 if domain else 23,
        place=(0,) if offset else (0, 1),
        constants=tables,
        **more,
    )


def _scatter(op: str, opset: int, **attributes: Any) -> IndexModel:
    reduction = attributes.get("reduction", "")
    axis = attributes.get("axis", 0)
    indices = _i([0, 1, 2], [1, 2, 0])
    indices = indices.T if axis else indices  # DirectML takes no other sizes
    inputs = {"data": _f(3, 3), "indices": indices, "updates": -_f(*indices.shape)}
    return made(
        op,
        inputs,
        "indices",
        3,
        name=(
            f"{op}"
            f" {opset}{f' axis {axis}' * bool(axis)}{f' {reduction}' * bool(reduction)}"
        ),
        opset=opset,
        place=(1, 1),
        **attributes,
    )


def _scatter_nd(opset: int, reduction: str = "") -> IndexModel:
    more: dict[str, Any] = {"reduction": reduction} if reduction else {}
    inputs = {"data": _f(3, 3), "indices": _i([0, 1]), "updates": -_f(1)}
    return made(
        "ScatterND",
        inputs,
        "indices",
        3,
        name=f"ScatterND {opset}{f' {reduction}' * bool(reduction)}",
        opset=opset,
        place=(0, 1),
        fixed=True,  # the length of the tuples decides the shape of the updates
        **more,
    )


def _loss(op: str, *more_axes: int, **attributes: Any) -> IndexModel:
    labels = _i([1, 2], [0, 0])[:, : 2 if more_axes else 1]
    inputs = {
        "scores": _f(2, 4, *more_axes),
        "labels": labels if more_axes else labels[:, 0],
    }
    return made(
        op,
        inputs,
        "labels",
        4,
        name=f"{op} {'of rows' if more_axes else 'of classes'}",
        place=(0, 1) if more_axes else (0,),
        **attributes,
    )


def _of_sequence(op: str, size: int) -> IndexModel:
    tensors = {"a": _f(2), "b": _f(2) + 2, "c": _f(2) + 4}
    inputs = {**tensors, "position": np.array(1)}
    return made(op, inputs, "position", size, place=(), sequence=True)


def _recurrent(op: str, gates: int) -> IndexModel:
    weights = {"w": _f(1, 2 * gates, 4) / 99, "r": _f(1, 2 * gates, 2) / 99}
    inputs = {"x": _f(3, 2, 4), **weights, "bias": None, "lengths": _i32(2, 3)}
    return made(op, inputs, "lengths", 4, constants=weights, hidden_size=2)


def _rotary_of_images(place: tuple[int, ...], **attributes: Any) -> IndexModel:
    longest, heads, length, width = 6, 2, 4, 8
    angles = np.random.default_rng(6).uniform(0.1, 1, (longest, width // 2))
    tables = {
        "cos": np.cos(angles).astype(np.float32),
        "sin": np.sin(angles).astype(np.float32),
    }
    positions = np.arange(length) * np.ones((3, 1, 1), np.int64)
    inputs = {"x": _f(1, length, heads * width), "positions": positions, **tables}
    stream = ("time", "height", "width")[place[0]]
    return made(
        "MRotaryEmbedding",
        inputs,
        "positions",
        longest,
        name=f"MRotaryEmbedding {stream}",
        domain=MICROSOFT,
        place=place,
        constants=tables,
        fixed=True,
        mrope_section=[2, 1, 1],
        num_heads=heads,
        rotary_embedding_dim=width,
        **attributes,
    )


def _quantized_recurrent() -> IndexModel:
    size, hidden = 4, 2
    random = np.random.default_rng(7)
    scales = {"w_scale": _f32(0.1), "w_zero": np.zeros(1, np.uint8)}
    scales |= {"r_scale": _f32(0.1), "r_zero": np.zeros(1, np.uint8)}
    weights = {
        "w": random.integers(0, 9, (1, size, 4 * hidden)).astype(np.uint8),
        "r": random.integers(0, 9, (1, hidden, 4 * hidden)).astype(np.uint8),
    }
    inputs = {"x": _f(3, 2, size) / 9, **weights, "bias": None, "lengths": _i32(2, 3)}
    return made(
        "DynamicQuantizeLSTM",
        {**inputs, "h": None, "c": None, "peephole": None, **scales},
        "lengths",
        4,
        domain=MICROSOFT,
        constants=weights | scales,
        hidden_size=hidden,
    )


def _recurrent_with_attention(which: str) -> IndexModel:
    hidden, size, width, depth = 2, 4, 3, 3
    weights = {
        "w": _f(1, 4 * hidden, size + width) / 99,
        "r": _f(1, 4 * hidden, hidden) / 99,
        "of_query": _f(1, hidden, width) / 9,
        "of_memory": _f(1, depth, width) / 9,
        "attention": _f(1, width) / 9,
        "of_layer": _f(1, depth + hidden, width) / 9,
    }
    left_out = dict.fromkeys(["h", "c", "peephole"])
    inputs = {
        "x": _f(3, 2, size) / 9,
        "w": weights["w"],
        "r": weights["r"],
        "bias": None,
        "lengths": _i32(2, 3),
        **left_out,
        "of_query": weights["of_query"],
        "of_memory": weights["of_memory"],
        "attention": weights["attention"],
        "memory": _f(2, 5, depth) / 9,
        "memory_lengths": _i32(2, 5),
        "of_layer": weights["of_layer"],
    }
    others = {"lengths", "memory_lengths"} - {which}
    return made(
        "AttnLSTM",
        inputs,
        which,
        {"lengths": 4, "memory_lengths": 6}[which],
        name=f"AttnLSTM {which}",
        domain=MICROSOFT,
        constants=weights | {name: inputs[name] for name in others},
        least=1,
        hidden_size=hidden,
    )


def sparse_attention(which: str, new: int = 1) -> IndexModel:
    """A model of SparseAttention, whose cache is the memory of its outputs, too."""
    block, room, total = 16, 62, 60
    random = np.random.default_rng(8)

    def values(*shape: int) -> Any:
        return random.normal(size=shape).astype(np.float32)

    inputs: dict[str, Any] = {name: values(1, new, 32) for name in ("q", "k", "v")}
    inputs |= {"past_k": values(1, 2, room, 16), "past_v": values(1, 2, room, 16)}
    inputs["ends"] = _i32([0, 1, 3, 5, 8])
    inputs["blocks"] = _i32([0, 0, 1, 1, 2, 1, 2, 3])
    inputs |= {"total": _i32(total), "tokens": _i32(total)}
    sizes = {"ends": 9, "blocks": 4, "total": room + 1, "tokens": total + 1}
    # Of all tokens there are at least as many as in the row.
    others = sizes.keys() - {which, "tokens"}
    return made(
        "SparseAttention",
        inputs,
        which,
        sizes[which],
        name=f"SparseAttention {which}",
        domain=MICROSOFT,
        place={"ends": (0, 4), "blocks": (0, 6)}.get(which, (0,)),
        constants={name: inputs[name] for name in others},
        outputs=3,
        least=new if which in ("total", "tokens") else 0,
        fixed=True,
        num_heads=2,
        kv_num_heads=2,
        sparse_block_size=block,
    )


def _paged(which: str) -> IndexModel:
    cache = _f(4, 8, 1, 16).astype(np.float16)
    inputs: dict[str, Any] = dict.fromkeys(("q", "k", "v"), cache[0, :5, 0])
    inputs |= {"past_k": cache, "past_v": cache, "ends": _i32(0, 2, 5)}
    inputs |= {"past": _i32(3, 4), "table": _i32([0, 1], [2, -1])}
    inputs |= dict.fromkeys(["cos", "sin"])
    inputs["slots"] = _i32(3, 4, 20, 21, -1)
    others = {"ends", "past", "table", "slots"} - {which}
    paged = made(
        "PagedAttention",
        inputs,
        which,
        {"table": 4, "slots": 32}[which],
        name=f"PagedAttention {which}",
        domain=MICROSOFT,
        place=(0, 1) if which == "table" else (1,),
        constants={name: inputs[name] for name in others},
        least=-1,
        fixed=True,
        num_heads=1,
        kv_num_heads=1,
    )
    (output,) = paged.model.graph.output
    output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    return paged


def _lengths_of_keys(*shape: int) -> IndexModel:
    random = np.random.default_rng(3)
    queries = random.normal(size=(*shape[:-2], 2, shape[-1])).astype(np.float32)
    keys = random.normal(size=shape).astype(np.float32)
    inputs = {"q": queries, "k": keys, "v": keys[..., ::-1].copy()}
    inputs |= {"mask": None, "past_k": None, "past_v": None, "lengths": _i(3)}
    more: dict[str, Any] = {}
    if len(shape) == 3:
        more = {"q_num_heads": 2, "kv_num_heads": 2}
    return made(
        "Attention",
        inputs,
        "lengths",
        shape[-2] + 1,
        name=f"Attention rank {len(shape)}",
        opset=24,
        **more,
    )


def grouped(
    which: str,
    size: int,
    name: str,
    *,
    new: int = 1,
    past: int = 4,
    total: int = 5,
    last: int | None = None,
    rows: int = 0,
    positions: bool = False,
    **more: Any,
) -> IndexModel:
    """A model of GroupQueryAttention.

    Args:
        which: The input whose index is changed.
        size: As of `IndexModel`.
        name: What tells it from others.
        new: How many tokens are new.
        past: How many the cache has room for; 0 for no cache.
        total: `total_sequence_length`.
        last: `seqlens_k`; None for the last token of all.
        rows: The rows of the rotary tables; 0 for none.
        positions: Whether positions are given.
        more: More of `made`.
    """
    heads, width = 2, 16
    random = np.random.default_rng(4)

    def values(*shape: int) -> Any:
        return random.normal(size=shape).astype(np.float32)

    inputs: dict[str, Any] = {
        "q": values(1, new, heads * width),
        "k": values(1, new, width),
        "v": values(1, new, width),
        "past_k": values(1, 1, past, width) if past else None,
        "past_v": values(1, 1, past, width) if past else None,
        "seqlens_k": _i32(total - 1 if last is None else last),
        "total": np.array(total, np.int32),
        "cos": values(rows, width // 2) if rows else None,
        "sin": values(rows, width // 2) if rows else None,
        "positions": _i([*range(total - new, total)]) if positions else None,
    }
    constants = {
        name: inputs[name]
        for name in ("seqlens_k", "total", "cos", "sin")
        if name != which and inputs[name] is not None
    }
    return made(
        "GroupQueryAttention",
        inputs,
        which,
        size,
        name=f"GroupQueryAttention {name}",
        domain=MICROSOFT,
        place={"total": (), "positions": (0, 0)}.get(which, (0,)),
        constants=constants,
        outputs=3,
        fixed=True,
        num_heads=heads,
        kv_num_heads=1,
        do_rotary=int(bool(rows)),
        **more,
    )


def _decoder(op: str, which: str) -> IndexModel:
    beams, longest, heads, width = 2, 6, 2, 8
    random = np.random.default_rng(5)

    def values(*shape: int) -> Any:
        return random.normal(size=shape).astype(np.float32)

    is_masked = op == "DecoderMaskedMultiHeadAttention"
    inputs: dict[str, Any] = {
        name: values(beams, 1, heads * width) for name in ("q", "k", "v")
    }
    inputs |= dict.fromkeys(["mask", "scores"] if is_masked else ["b", "m", "scores"])
    for name in ("past_k", "past_v"):
        inputs[name] = values(beams, heads, longest, width)
    inputs["past"] = _i32(3)
    if is_masked:
        inputs["beams"] = _i32(beams)
    shape = (1, beams, longest) if is_masked else (beams, 1, longest)
    inputs["cache"] = np.zeros(shape, np.int32)
    place, size, least = (0,), longest, 0
    if which == "cache":
        place, size = (0, 0, 0), shape[1]
    elif which == "beams":
        size, least = beams + 1, beams
    others = {"past": inputs["past"]} if which != "past" else {}
    if which != "cache":
        others["cache"] = inputs["cache"]
    if is_masked and which != "beams":
        others["beams"] = inputs["beams"]
    more: dict[str, Any] = {"past_present_share_buffer": 1} if is_masked else {}
    return made(
        op,
        inputs,
        which,
        size,
        name=f"{op} {which}",
        domain=MICROSOFT,
        place=place,
        constants=others,
        outputs=3,
        least=least,
        num_heads=heads,
        **more,
    )


def index_models() -> list[IndexModel]:
    """The models, in the order of the package's table."""
    image = _f(3, 1, 4, 4)
    cache = {"cache": _f(2, 4, 3), "update": -_f(2, 2, 3), "starts": _i(0, 0)}
    words = {
        "sequence": _i32([1, 2, 3], [3, 2, 1]),
        "kernel": _f(2, 1, 2, 4) / 1000,
        "bias": _f(2) / 10,
        "table": _f(10, 4) / 50,
    }
    return [
        made("Gather", {"data": _f(4, 3), "indices": _i(1, 2)}, "indices", 4),
        made(
            "GatherElements",
            {"data": _f(4, 3), "indices": _i([1, 2, 0])},
            "indices",
            4,
            place=(0, 1),
        ),
        made(
            "GatherND",
            {"data": _f(4, 3), "indices": _i([1, 2])},
            "indices",
            4,
            place=(0, 0),
        ),
        made(
            "GatherND",
            {"data": _f(4, 3), "indices": _i([1, 2])},
            "indices",
            3,
            name="GatherND column",
            place=(0, 1),
        ),
        _quantized(onnx.TensorProto.UINT4, "GatherBlockQuantized UINT4"),
        _quantized(onnx.TensorProto.INT4, "GatherBlockQuantized INT4"),
        _quantized(onnx.TensorProto.UINT8, "GatherBlockQuantized UINT8"),
        *(_embed(which) for which in ("input_ids", "segment_ids", "position_ids")),
        *(_embed(which, quantized=True) for which in ("input_ids", "segment_ids")),
        _rotary(MICROSOFT),
        _rotary(MICROSOFT, rank=3),
        _rotary(MICROSOFT, offset=True),
        _rotary(""),
        _rotary("", rank=3),
        made(
            "WordConvEmbedding",
            words,
            "sequence",
            10,
            domain=MICROSOFT,
            place=(0, 1),
            embedding_size=2,
            conv_window_size=2,
            char_embedding_size=4,
        ),
        _scatter("ScatterElements", 13),
        _scatter("ScatterElements", 13, axis=1),
        _scatter("ScatterElements", 16, axis=1),
        _scatter("ScatterElements", 18, axis=1),
        _scatter("ScatterElements", 16, axis=1, reduction="add"),
        _scatter("ScatterElements", 18, axis=1, reduction="add"),
        _scatter_nd(13),
        _scatter_nd(16),
        _scatter_nd(18),
        _scatter_nd(16, "add"),
        _scatter_nd(18, "add"),
        _scatter("Scatter", 10),
        _scatter("Scatter", 10, axis=1),
        made(
            "MaxUnpool",
            {"x": _f(1, 1, 1, 2), "indices": _i([[[0, 2]]])},
            "indices",
            8,
            place=(0, 0, 0, 1),
            kernel_shape=[2, 2],
            strides=[2, 2],
        ),
        made(
            "RoiAlign",
            {"x": image, "rois": _f32([0, 0, 3, 3]), "batches": _i(1)},
            "batches",
            3,
        ),
        made(
            "MaxRoiPool",
            {"x": image, "rois": _f32([1, 0, 0, 3, 3])},
            "rois",
            3,
            place=(0, 0),
            pooled_shape=[1, 1],
        ),
        made(
            "ReverseSequence",
            {"x": _f(4, 2), "lengths": _i(2, 3)},
            "lengths",
            5,
            batch_axis=1,
            time_axis=0,
        ),
        made(
            "TensorScatter",
            cache,
            "starts",
            3,
            name="TensorScatter linear",
            opset=24,
            axis=1,
        ),
        made(
            "TensorScatter",
            cache,
            "starts",
            4,
            name="TensorScatter circular",
            opset=24,
            axis=1,
            mode="circular",
            wraps=True,
        ),
        made(
            "GatherND",
            {"data": _f(4, 3), "indices": _i([1, 2])},
            "indices",
            4,
            name="GatherND Microsoft",
            domain=MICROSOFT,
            place=(0, 0),
            fixed=True,
        ),
        made(
            "ArrayFeatureExtractor",
            {"x": _f(2, 4), "y": _i(1, 2)},
            "y",
            4,
            domain="ai.onnx.ml",
        ),
        made(
            "CropAndResize",
            {"x": image, "rois": _f32([0, 0, 1, 1]), "at": _i32(1), "to": _i32(2, 2)},
            "at",
            3,
            domain=MICROSOFT,
            constants={"to": _i32(2, 2)},
            fixed=True,
        ),
        _loss("NegativeLogLikelihoodLoss", reduction="sum"),
        _loss("NegativeLogLikelihoodLoss", 2, reduction="none"),
        _loss("SoftmaxCrossEntropyLoss"),
        _loss("SoftmaxCrossEntropyLoss", 2, reduction="none"),
        made(
            "NGramRepeatBlock",
            {"ids": _i([1, 2, 1, 2, 1, 3, 1]), "scores": _f(1, 5)},
            "ids",
            5,
            domain=MICROSOFT,
            place=(0, 1),
            ngram_size=2,
        ),
        _of_sequence("SequenceAt", 3),
        _of_sequence("SequenceErase", 3),
        _of_sequence("SequenceInsert", 4),
        _recurrent("GRU", 3),
        _recurrent("LSTM", 4),
        _recurrent("RNN", 1),
        _lengths_of_keys(1, 2, 4, 8),
        _lengths_of_keys(1, 4, 16),
        grouped("seqlens_k", 5, "last"),
        grouped("seqlens_k", 6, "last in a long cache", past=6),
        grouped("seqlens_k", 3, "last of a prompt", new=3, past=0, total=3),
        grouped("seqlens_k", 7, "last of more", new=3, total=7, least=2),
        grouped("seqlens_k", 8, "last in tables", past=10, total=8, rows=8),
        grouped("total", 6, "total", last=0, least=1),
        grouped("total", 8, "total of more", new=3, total=7, least=7),
        grouped("total", 4, "total of a prompt", new=3, past=0, total=3, least=3),
        grouped("total", 9, "total in a long cache", new=3, past=8, least=3),
        grouped("positions", 8, "positions", rows=8, positions=True),
        grouped(
            "positions",
            8,
            "positions of more",
            new=3,
            total=7,
            rows=8,
            positions=True,
        ),
        *(
            _decoder("DecoderMaskedMultiHeadAttention", which)
            for which in ("past", "beams", "cache")
        ),
        *(_decoder("MultiHeadAttention", which) for which in ("past", "cache")),
        _rotary_of_images((0, 0, 1)),
        _rotary_of_images((2, 0, 3), mrope_layout=1),
        made(
            "GatherPacked",
            {"data": _f(4, 32).view(np.uint8), "indices": _i(1, 2)},
            "indices",
            4,
            domain=MICROSOFT,
            packed_type=0,
            output_dtype=1,
            K=32,
        ),
        made(
            "TorchEmbedding",
            {"table": _f(4, 3), "indices": _i(1, 2)},
            "indices",
            4,
            domain=MICROSOFT,
        ),
        made(
            "RemovePadding",
            {"x": _f(2, 3, 4), "counts": _i32(1, 3)},
            "counts",
            4,
            domain=MICROSOFT,
            outputs=4,
        ),
        made(
            "RestorePadding",
            {"x": _f(4, 4), "offsets": _i32([0, 3, 4], [5, 1, 2])},
            "offsets",
            6,
            domain=MICROSOFT,
            place=(0, 1),
        ),
        *(_paged(which) for which in ("table", "slots")),
        *(sparse_attention(which) for which in ("ends", "blocks", "total", "tokens")),
        _quantized_recurrent(),
        *(_recurrent_with_attention(which) for which in ("lengths", "memory_lengths")),
        made(
            "OneHot",
            {"indices": _i(1, 2), "depth": _i(4)[0], "values": _f32(0, 1)},
            "indices",
            4,
            constants={"depth": _i(4)[0]},
        ),
    ]


def without_positions(op: str) -> IndexModel:
    """A model of (Q)EmbedLayerNormalization without position_ids, whose table has 5
    positions."""
    return _embed("input_ids", quantized=op.startswith("Q"), positions=False)


def bound_run(model: onnx.ModelProto, inputs: Feeds) -> Array:
    """The first output of a model whose inputs past_k and past_v are the memory of its
    other outputs, too."""
    runtime: Any = onnxruntime
    bound = onnx.ModelProto.FromString(model.SerializeToString())
    for name in ("y1", "y2"):
        bound.graph.output.add(name=name)
    whole = session(bound)
    binding = whole.io_binding()
    values = {k: runtime.OrtValue.ortvalue_from_numpy(v) for k, v in inputs.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y0")
    binding.bind_ortvalue_output("y1", values["past_k"])
    binding.bind_ortvalue_output("y2", values["past_v"])
    whole.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()[0]


def tree_ensemble(
    op: str, features: Sequence[int], columns: str = "4"
) -> onnx.ModelProto:
    """A model of a tree ensemble on rows of a matrix.

    Args:
        op: The operator.
        features: The feature of the root, and of its two leaves if they have one.
        columns: The size of the rows.
    """
    root, *leaves = features
    if op == "TreeEnsemble":
        version, outputs = 5, "y"
        attributes = f"""
            n_targets = 1, tree_roots = [0], nodes_featureids = [{root}],
            nodes_modes = uint8[1] {{0}}, nodes_splits = float[1] {{0.5}},
            nodes_truenodeids = [0], nodes_trueleafs = [1],
            nodes_falsenodeids = [1], nodes_falseleafs = [1],
            leaf_targetids = [0, 0], leaf_weights = float[2] {{1, 2}}
        """
    else:
        is_classifier = op == "TreeEnsembleClassifier"
        version, outputs = 3, "label, y" if is_classifier else "y"
        of_leaf = "class" if is_classifier else "target"
        last = "classlabels_int64s = [0, 1]" if is_classifier else "n_targets = 1"
        numbers = ", ".join(map(str, [root, *(leaves or [0, 0])]))
        attributes = f"""
            nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2],
            nodes_featureids = [{numbers}],
            nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],
            nodes_values = [0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0],
            nodes_falsenodeids = [2, 0, 0], {of_leaf}_treeids = [0, 0],
            {of_leaf}_nodeids = [1, 2], {of_leaf}_ids = [0, 0],
            {of_leaf}_weights = [1.0, 2.0], {last}
        """
    text = f"""
        (float[rows, {columns}] x) => (float[rows, targets] y)
        {{ [trees] {outputs} = ai.onnx.ml.{op} <{attributes}> (x) }}
    """
    model = written(text)
    model.opset_import.add(domain="ai.onnx.ml", version=version)
    return model


class Outcome(StrEnum):
    """What a provider makes of an index."""

    FAILS = "the run fails"
    ENDS = "the process ends"
    ENDLESS = "the run does not end"
    ELSEWHERE = "the node runs on another provider"
    REFUSED = "the model does not load"
    ZERO = "the elements that depend on the index are 0"
    DROPPED = "nothing is written"
    OFFSET = "the element at the index's offset in the buffer is written"
    FIRST = "as the first index"
    LAST = "as the last index"
    INSIDE = "as another index in range"
    OTHER = "another value"


class Asked:
    """A model on a provider in another program, whose end is an answer too.

    Args:
        worker: The program.
        provider: The full name of the provider.
        made: The model.
    """

    def __init__(self, worker: Worker, provider: str, made: IndexModel) -> None:
        self._made, self._worker, self._provider = made, worker, provider
        self.inside = [
            self.answer(made.with_index(k)) for k in range(made.least, made.size)
        ]
        """The output for each index in range, or what the provider makes of it."""

    def answer(self, feeds: Feeds, worker: Worker | None = None) -> Array | Outcome:
        """The output for inputs, or what the provider makes of them."""
        worker = worker or self._worker
        session = {"provider": self._provider, "threads": 1}
        model = self._made.model.SerializeToString()
        try:
            (output,) = worker.run(model, session, [feeds], keep=True).outputs
        except NotRunError as error:
            if error.kind != "elsewhere":
                raise
            return Outcome.ELSEWHERE
        except RefusedError:
            return Outcome.REFUSED
        except NoAnswerError as error:
            if error.how is Breakdown.LATE:
                return Outcome.ENDLESS
            if error.how not in (Breakdown.DIED, Breakdown.EXITED):
                raise
            return Outcome.ENDS
        return Outcome.FAILS if isinstance(output, str) else output

    def outcome(self, index: int, worker: Worker | None = None) -> Outcome:
        """What the provider makes of an index, in another program if one is given."""
        answer = self.answer(self._made.with_index(index), worker)
        if isinstance(answer, Outcome):
            return answer
        inside = [each for each in self.inside if not isinstance(each, Outcome)]
        # The provider fails for an index in range too, so nothing shows which index
        # in range this one stands for.
        if len(inside) < self._made.size - self._made.least:
            return Outcome.OTHER
        flat, got = np.stack([each.ravel() for each in inside]), answer.ravel()
        # An index in range writes one element; in most of the others that element is
        # not written.
        nothing = np.median(flat, axis=0)
        places = [np.flatnonzero(each != nothing) for each in flat]
        same = [k for k, each in enumerate(flat) if each.tobytes() == got.tobytes()]
        if same:
            last = self._made.size - 1
            return {0: Outcome.FIRST, last: Outcome.LAST}.get(same[0], Outcome.INSIDE)
        if len({*map(tuple, places)}) == len(flat) and {*map(len, places)} == {1}:
            if (got == nothing).all():
                return Outcome.DROPPED
            place = int(places[0][0])  # of index 0; one below 0 counts from the end
            step = int(places[1][0]) - place
            written = place + step * (index + len(flat) * (index < 0))
            if 0 <= written < nothing.size:
                nothing[written] = flat[0][place]
            return Outcome.OFFSET if (got == nothing).all() else Outcome.OTHER
        depends = (flat != flat[0]).any(0)
        is_zero = not got[depends].any() and (got == flat[0])[~depends].all()
        return Outcome.ZERO if is_zero else Outcome.OTHER
