"""Traps: ONNX Runtime computes something else than one would think, and an index leaves
an axis.

Each adds a gather that an analysis which falls into the trap takes to be in range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from network_chains import (
    INT64,
    Chain,
    gather,
    gather_nd,
    open_name,
    size_of,
    table,
)
from network_draft import Draft
from network_operators import average_pool, conv_transpose, max_pool
from onnx import helper

FLOAT, FLOAT16, BOOL = (
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.BOOL,
)


def nan_to_bool(d: Draft) -> None:
    """NaN becomes True: a value clipped to 0..0 is 1 as BOOL."""
    x = d.input("float32", [open_name(d)], "wild")
    zero = np.float32(0)
    clipped = (
        d.op("Clip", x, zero, zero)
        if d.chance(0.7)
        else d.op("Min", d.op("Max", x, zero), zero)
    )
    index = d.op("Cast", d.op("Cast", clipped, to=BOOL), to=INT64)
    gather(d, table(d, 1), index)


def rounded_twice(d: Draft) -> None:
    """An integer becomes FLOAT with one rounding; through a double it is rounded
    twice."""
    power = d.randint(55, 61)
    number = 2**power + 2 ** (power - 24) + 1
    number = d.choice([number, number, -number])
    whole = d.op("Clip", d.input("int64", [open_name(d)]), number, number)
    back = d.op("Cast", d.op("Cast", whole, to=FLOAT), to=INT64)
    base = 2**power if number > 0 else -(2**power)
    gather(d, table(d, 1), d.op("Sub", back, base))


def double_to_half(d: Draft) -> None:
    """ONNX Runtime takes DOUBLE to FLOAT16 through FLOAT, with two roundings."""
    number = d.choice([2049, 2051, 4098, 1024.5]) * (1 + 1e-10)
    right = int(np.float16(np.float64(number)))
    x = d.input("float64", [open_name(d)])
    same = (
        d.op("Clip", x, np.float64(number), np.float64(number))
        if d.opset > 11
        else d.op(
            "Add",
            d.op("Mul", d.op("Cast", d.op("Shape", x), to=11), np.float64(0)),
            np.float64(number),
        )
    )
    if d.opset > 11:  # NaN passes Clip, but not the comparison
        same = d.op("Where", d.op("Equal", same, same), same, np.float64(number))
    half = d.op("Cast", d.op("Cast", same, to=FLOAT16), to=INT64)
    gather(d, table(d, 1), d.op("Sub", half, right))


def exchanged_axes(d: Draft) -> None:
    """A Reshape to sizes of the same known numbers, whose open sizes are exchanged."""
    first, last = (
        d.random.sample([*d.sizes[0]], 2) if len(d.sizes[0]) > 1 else [open_name(d)] * 2
    )
    x = d.input("int64", [first, d.choice([1, 1, 2]), last])
    zero = d.op(
        "Mul",
        d.op("Slice", x, [0], [1], [1]),
        0,
    )
    numbers = d.random.sample(range(9), 3)
    parts = [d.op("Add", zero, k) for k in numbers]
    three = d.op("Concat", *parts, axis=1)
    sizes = d.op("Shape", three)
    order = np.array([2, 1, 0])
    other = d.op("Reshape", three, d.op("Gather", sizes, order, axis=0))
    row = d.randrange(3)
    index = d.op("Gather", other, row, axis=1)
    gather(d, table(d, numbers[row] + 1), index)


def window_sizes(d: Draft) -> None:
    """The sizes of pools and transposed convolutions, which ONNX's inference has
    otherwise."""
    template = d.choice([max_pool, average_pool, conv_transpose])
    made = template(d)
    operator, inputs, _, attributes = made
    y = d.op(operator, *inputs, **attributes)
    near_its_end(d, y, d.choice([2, 3]))


def near_its_end(d: Draft, y: str, axis: int) -> None:
    """Gather about the last position of an axis, by a constant."""
    size = d.values[y].shape[axis]
    gather(d, y, d.constant([max(size + d.choice([-2, -1, 0, 0, 1]), 0)]), axis)


def scaled_sizes(d: Draft) -> None:
    """The sizes of Resize, and of a Range of floats, which are computed in FLOAT."""
    if d.chance(0.5) and d.opset >= 11:
        step = d.choice([0.1, 0.2, 0.3, 0.7, 1 / 3])
        start = d.choice([0, 0.1, 0.3, 1 / 3, 0.7, 1.1, 16.7])
        limit = start + step * d.randint(2, 40)
        y = d.op("Range", np.float32(start), np.float32(limit), np.float32(step))
        return near_its_end(d, y, 0)
    scale = d.choice([0.9, 0.7, 0.6, 1.1, 1.2, 1.7, 0.3])
    x = d.input("float32", [1, 1, d.randint(2, 40), 2])
    scales = d.constant([1, 1, scale, 1], "float32")
    given = [scales] if d.opset < 11 else [d.constant([], "float32"), scales]
    return near_its_end(d, d.op("Resize", x, *given, mode="nearest"), 2)


def position_of_a_scalar(d: Draft) -> None:
    """NonZero of a scalar: ONNX says no row, the CPU provider has one."""
    x = d.op("ReduceSum", d.input("int64", [open_name(d)], "near"), [0], keepdims=0)
    found = d.op("NonZero", x)
    if d.chance(0.5):
        return gather(d, d.constant(np.zeros((0, 2)), "float32"), found)
    # Data without a row would do too, but ONNX Runtime 1.24 reads beyond it, or
    # crashes.
    beyond = d.op("Add", d.op("Transpose", found), 1)
    return gather_nd(d, d.constant(np.zeros((1, 2)), "float32"), beyond)


def position_on_an_empty_axis(d: Draft) -> None:
    """Reductions over an axis that may be empty: their sizes, and the elements of
    integers."""
    dims = [open_name(d), open_name(d)]
    axis, keep = d.randrange(2), d.randrange(2)
    operator = d.choice(["ArgMax", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"])
    if operator == "ArgMax":
        y = d.op(operator, d.input("float32", dims), axis=axis, keepdims=keep)
    else:
        x = d.op("Mod", d.input("int64", dims), d.randint(1, 4))
        sums = operator == "ReduceSum"
        more = [np.array([axis])] if sums else []
        options: dict[str, Any] = {} if sums else {"axes": [axis]}
        y = d.op(operator, x, *more, **options, keepdims=keep)
        gather(d, table(d, d.randint(1, 5)), y)
    other = 1 - axis if keep else 0
    gather(d, y, d.op("Sub", size_of(d, y, other), 1), other)


def declared_by_the_model(d: Draft) -> None:
    """Sizes that a model declares for a value of another domain, though it has
    others."""
    x = d.input("float32", [d.randint(1, 3)])
    y = d.op("Gelu", x, domain="com.microsoft")
    said = d.randint(4, 8)
    d.value_infos.append(helper.make_tensor_value_info(y, FLOAT, [said]))
    gather(d, y, d.constant(d.randrange(said)))


def declared_of_an_operator(d: Draft) -> None:
    """A size that a model declares for what ONNX's own operator makes: Shape then tells
    it."""
    x = d.input("float32", [open_name(d)])
    y = d.op(d.choice(["Abs", "Neg", "Relu"]), x)
    d.value_infos.append(helper.make_tensor_value_info(y, FLOAT, [d.randint(4, 8)]))
    gather(d, x, d.op("Sub", size_of(d, y, 0), 1))


def sequence_state(d: Draft) -> None:
    """A Loop whose state is a sequence, with a shape in its type that nothing
    checks."""
    x = ids = d.input("int64", [d.randint(1, 3)], "near")
    said = d.randint(4, 8)
    names = [next(d.names) for _ in range(6)]
    counter, keep, state, kept, after, taken = names
    sequence = helper.make_sequence_type_proto(
        helper.make_tensor_type_proto(INT64, [said])
    )
    infos = [
        helper.make_tensor_value_info(counter, INT64, []),
        helper.make_tensor_value_info(keep, BOOL, []),
        helper.make_value_info(state, sequence),
    ]
    picked = d.constant(d.randrange(said))
    zero = d.constant(0)
    nodes = [
        helper.make_node("Identity", [keep], [kept]),
        helper.make_node("SequenceInsert", [state, x], [after]),
        helper.make_node("SequenceAt", [state, zero], [taken]),
    ]
    inner = d.node("Gather", [taken, picked], axis=0)
    nodes.append(inner)
    outputs = [
        helper.make_tensor_value_info(kept, BOOL, []),
        helper.make_value_info(after, sequence),
        helper.make_tensor_value_info(inner.output[0], INT64, None),
    ]
    body = helper.make_graph(nodes, "body", infos, outputs)
    start = d.node("SequenceConstruct", [ids])
    loop = d.node("Loop", [d.constant(2), "", start.output[0]], 2, body=body)
    d.end(start)
    d.end(loop)


def own_function(d: Draft) -> None:
    """A function of the model in ONNX's own domain, which ONNX Runtime ignores."""
    operator = d.choice(["ArgMax", "ArgMin", "Abs"])
    if operator == "Abs":
        body = helper.make_node("Sign", ["s"], ["z"])
        x = d.op("Mod", d.input("int64", [open_name(d)]), d.randint(3, 9))
    else:
        body = helper.make_node("Sub", ["s", "s"], ["z"])
        x = d.constant(d.random.sample(range(9), d.randint(2, 5)))
    opsets = [helper.make_opsetid("", d.opset)]
    d.functions.append(helper.make_function("", operator, ["s"], ["z"], [body], opsets))
    index = d.op(operator, x)
    gather(d, table(d, 2 if operator == "Abs" else 1), index)


def reciprocal(d: Draft) -> None:
    """(1 / f) * f: the level-1 rewriting makes a division of it, which rounds once."""
    number = np.float32(d.choice([41, 47, 55, 61, 82, 83, 94, 97]))
    x = d.input("float32", [open_name(d)], "near")
    f = d.op("Where", d.op("Equal", x, x), number, number)
    f = (
        d.op("Clip", f, number, number)
        if d.chance(0.5)
        else d.op("Min", d.op("Max", f, number), number)
    )
    one = d.op("Div", np.float32(1), f)
    if d.chance(0.3):
        one = d.op("Reciprocal", f)
    index = d.op("Cast", d.op("Mul", one, f), to=INT64)
    gather(d, table(d, 1), index)


def sequence_input(d: Draft) -> None:
    """A sequence as a graph input, with a shape of its elements that nothing checks."""
    said, real = d.randint(4, 8), d.randint(1, 3)
    sequence = helper.make_sequence_type_proto(
        helper.make_tensor_type_proto(INT64, [said])
    )
    name = d.sequence_input(sequence, [np.arange(real)])
    taken = d.node("SequenceAt", [name, d.constant(0)])
    d.end(taken)
    picked = d.constant(d.randrange(said))
    d.end(d.node("Gather", [taken.output[0], picked], axis=0))


def declared_of_a_sequence(d: Draft) -> None:
    """Sizes that a model declares for the tensors of a sequence, though they have
    others."""
    x = d.input("int64", [open_name(d)])
    said = d.randint(20, 40)
    node = d.node("SequenceConstruct", [x, x])
    d.value_infos.append(
        helper.make_tensor_sequence_value_info(node.output[0], INT64, [said])
    )
    taken = d.node("SequenceAt", [*node.output, d.constant(0)])
    shape = d.node("Shape", [*taken.output])
    last = d.node("Sub", [*shape.output, d.constant([1])])
    for each in (node, taken, shape, last):
        d.end(each)
    gather(d, x, last.output[0])


TRAPS: dict[str, Chain] = {
    trap.__name__: trap
    for trap in (
        nan_to_bool,
        rounded_twice,
        double_to_half,
        exchanged_axes,
        window_sizes,
        scaled_sizes,
        position_of_a_scalar,
        position_on_an_empty_axis,
        declared_by_the_model,
        sequence_input,
        declared_of_an_operator,
        sequence_state,
        own_function,
        reciprocal,
        declared_of_a_sequence,
    )
}
"""The traps by name."""
