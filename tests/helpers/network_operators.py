"""How to make a random node of each operator that the audit knows, and of some that it
does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
from network_draft import (
    FLOATS,
    FUNCTIONS,
    INTEGERS,
    TYPES,
    Draft,
    RefusedError,
    data_type,
    numbers,
    sizes,
)
from onnx import helper, numpy_helper

Made = tuple[str, list[str], int, dict[str, Any]]
Template = Callable[[Draft], "Made | None"]


def made(operator: str, *inputs: str, count: int = 1, **attributes: Any) -> Made:
    """Return the parts of a node with some outputs."""
    return operator, [*inputs], count, attributes


def elementwise(operator: str, dtypes: Sequence[str], **attributes: Any) -> Template:
    def template(d: Draft) -> Made:
        x = d.pick(*dtypes)
        return made(operator, x, d.like(x), **attributes)

    return template


def unary(operator: str, dtypes: Sequence[str], **attributes: Any) -> Template:
    return lambda d: made(operator, d.pick(*dtypes), **attributes)


SIGNED = ("int64", "int32", "float32", "float64", "float16", "int8")
BASIC = ("int64", "int32", "float32", "float64")


def cast(d: Draft) -> Made:
    target = d.choice(TYPES)
    return made("Cast", d.pick(), to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))


def clip(d: Draft) -> Made:
    x = d.pick(*BASIC, "int64", "int8", "uint64")
    dtype = str(d.values[x].dtype)
    wild = d.chance(0.2)
    low, high = (
        d.constant(numbers(d.random, dtype, (), "wild" if wild else "near"), dtype)
        for _ in range(2)
    )
    if d.chance(0.6):
        a, b = sorted([d.values[low], d.values[high]])
        low, high = d.constant(a, dtype), d.constant(b, dtype)
    left_out = d.random.random()
    return made(
        "Clip", x, "" if left_out < 0.15 else low, *([] if left_out > 0.85 else [high])
    )


def extreme(d: Draft) -> Made:
    x = d.pick(*BASIC, "int64", "uint64", "uint32", "float16")
    others = [d.like(x) for _ in range(d.choice([0, 1, 1, 2]))]
    return made(d.choice(["Max", "Min"]), x, *others)


def mod(d: Draft) -> Made:
    x = d.pick(*INTEGERS, *FLOATS)
    dtype = str(d.values[x].dtype)
    as_c = int(dtype in FLOATS or d.chance(0.3))
    y = d.like(x) if d.chance(0.3) else d.small(dtype)
    if dtype in INTEGERS and (
        y not in d.constants or np.isin(d.values[y], [0, -1]).any()
    ):
        y = d.constant(3, dtype)
    return made("Mod", x, y, fmod=as_c)


def div(d: Draft) -> Made:
    x = d.pick("int64", "int32", "float32", "float64")
    y = d.like(x)
    dtype = str(d.values[x].dtype)
    if dtype in INTEGERS and (
        y not in d.constants or np.isin(d.values[y], [0, -1]).any()
    ):
        y = d.constant(d.choice([2, 3, 7, -3]), dtype)
    return made("Div", x, y)


def arg_extreme(d: Draft) -> Made | None:
    x = d.pick("float32", "float64", "int32", "int64", rank=1)
    if not d.values[x].size:  # ONNX Runtime gives the result the rank of the input
        return None
    keep = d.randrange(2)
    return made(d.choice(["ArgMax", "ArgMin"]), x, axis=d.axis(x), keepdims=keep)


def non_zero(d: Draft) -> Made:
    # of a scalar ONNX has no row, the CPU one
    return made("NonZero", d.pick(*TYPES, rank=1))


def top_k(d: Draft) -> Made | None:
    x = d.pick("float32", "float64", "int64", "int32", rank=1)
    if not all(d.least_size(x, k) for k in range(d.values[x].ndim)):
        return None  # ONNX Runtime 1.24 ends the process where there is no element
    axis = d.axis(x)
    k = d.constant([d.randint(0, d.least_size(x, axis))])
    return made("TopK", x, k, count=2, axis=axis)


def range_(d: Draft) -> Made:
    if d.chance(0.3):
        ends = [d.constant(d.choice([0, 1, 2, 7.5]), "float32") for _ in range(3)]
        return "Range", ends, 1, {}
    scalars = [n for n in d.known(0) if abs(int(d.values[n])) < 90]
    start, limit = (
        d.choice(scalars) if scalars and d.chance(0.5) else d.small("int64")
        for _ in range(2)
    )
    return made("Range", start, limit, d.constant(d.choice([1, 1, 2, -1])))


def shape_of(d: Draft) -> Made:
    operator = d.choice(["Shape", "Shape", "Size"])
    attributes = (
        {} if operator == "Size" or d.chance(0.6) else {"start": d.randrange(-2, 3)}
    )
    if attributes and d.chance(0.5):
        attributes["end"] = d.randrange(-2, 3)
    return made(operator, d.pick(), **attributes)


def where(d: Draft) -> Made:
    x = d.pick(*BASIC, "int64", "uint8")
    y = d.like(x)
    condition = d.pick("bool")
    try:
        np.broadcast_shapes(*(d.values[n].shape for n in (x, y, condition)))
    except ValueError:
        condition = d.small("bool", [1])
    return made("Where", condition, x, y)


def reshape(d: Draft) -> Made:
    x = d.pick()
    shape: list[int] = list(d.values[x].shape)
    opens = d.open_axes(x)
    if opens:  # an open size is taken from the input or is what is left
        shape = [0 if axis in opens else n for axis, n in enumerate(shape)]
        first = d.randrange(len(shape))
        last = d.randint(first, len(shape) - 1)
        shape[first : last + 1] = [-1]
        if d.chance(0.3):
            shape[:first] = [
                d.values[x].shape[0] if 0 not in opens else 0 for _ in shape[:first]
            ]
    else:
        d.random.shuffle(shape)
        if len(shape) > 1 and d.chance(0.5):
            shape = [shape[0] * shape[1], *shape[2:]]
        if shape and d.chance(0.4):
            shape[d.randrange(len(shape))] = -1
    if d.chance(0.2):
        shape = [*shape, 1]
    shapes = [n for n in d.known(1) if len(d.values[n]) and (d.values[n] >= 0).all()]
    shapes = [n for n in shapes if d.values[n].prod() == d.values[x].size]
    name = d.choice(shapes) if shapes and d.chance(0.5) else d.constant(shape)
    return made("Reshape", x, name, **({"allowzero": 1} if d.chance(0.1) else {}))


def transpose(d: Draft) -> Made:
    x = d.pick(rank=1)
    order = list(range(d.values[x].ndim))
    d.random.shuffle(order)
    options: dict[str, Any] = {"perm": order} if d.chance(0.8) else {}
    return made("Transpose", x, **options)


def squeeze(d: Draft) -> Made:
    x = d.pick()
    ones = [k for k, n in enumerate(d.values[x].shape) if n == 1]
    axes = [k - d.values[x].ndim * d.randrange(2) for k in ones if d.chance(0.7)]
    return made("Squeeze", x, *([d.constant(axes)] if axes else []))


def unsqueeze(d: Draft) -> Made:
    x = d.pick()
    rank = d.values[x].ndim
    axes = (
        d.random.sample(range(rank + 2), 2)
        if d.chance(0.3)
        else [d.randrange(-rank - 1, rank + 1)]
    )
    return made("Unsqueeze", x, d.constant(axes))


def expand(d: Draft) -> Made:
    x = d.pick()
    opens = d.open_axes(x)
    shape = [
        1 if axis in opens else n if n != 1 else d.choice([1, 2, 3])
        for axis, n in enumerate(d.values[x].shape)
    ]
    return made("Expand", x, d.constant([*sizes(d.random, d.randrange(2)), *shape]))


def tile(d: Draft) -> Made:
    x = d.pick(*BASIC, "uint8", "bool", rank=1)
    return made(
        "Tile", x, d.constant([d.choice([0, 1, 1, 2, 3]) for _ in d.values[x].shape])
    )


def slice_(d: Draft) -> Made:
    x = d.pick(rank=1)
    axes = d.random.sample(range(d.values[x].ndim), d.randint(1, d.values[x].ndim))
    bounds = [-(2**63), -9, -3, -2, -1, 0, 1, 2, 3, 9, 2**31 - 1, 2**63 - 1]
    starts, ends = ([d.choice(bounds) for _ in axes] for _ in range(2))
    steps = [d.choice([1, 1, 2, -1, -2]) for _ in axes]
    signed = [axis - d.values[x].ndim * d.randrange(2) for axis in axes]
    names = [d.constant(v) for v in (starts, ends, signed, steps)]
    scalars = [n for n, a in d.values.items() if a.dtype == "int64" and a.shape == (1,)]
    if scalars and len(axes) == 1 and d.chance(0.5):
        names[d.randrange(2)] = d.choice(scalars)
    return made("Slice", x, *names)


def split(d: Draft) -> Made:
    x = d.pick(*BASIC, "uint8", rank=1)
    axis = d.axis(x)
    size = d.values[x].shape[axis]
    if size % 2 == 0 and d.chance(0.5):
        return made("Split", x, count=2, axis=axis)
    first = d.randint(0, size)
    return made("Split", x, d.constant([first, size - first]), count=2, axis=axis)


def concat(d: Draft) -> Made:
    x = d.pick(rank=1)
    axis = d.axis(x)
    array, fits = d.values[x], [x]
    for other, candidate in d.values.items():
        if candidate.dtype == array.dtype and candidate.ndim == array.ndim:
            shapes = [list(candidate.shape), list(array.shape)]
            for shape in shapes:
                shape[axis] = 0
            if shapes[0] == shapes[1]:
                fits.append(other)
    return (
        "Concat",
        [d.choice(fits) for _ in range(d.choice([1, 2, 2, 3]))],
        1,
        {"axis": axis},
    )


def indices(d: Draft, size: int, shape: Sequence[int]) -> str:
    """Indices in range, from what is there or a new constant."""
    fits = [
        n
        for n, a in d.values.items()
        if a.dtype in ("int64", "int32")
        and a.ndim == len(shape)
        and all(((-size <= world[n]) & (world[n] < size)).all() for world in d.worlds)
    ]
    if fits and d.chance(0.6):
        return d.choice(fits)
    if not size:
        shape = [0]
    array = [d.randrange(-size, size) for _ in range(int(np.prod(shape)))]
    return d.constant(np.reshape(np.array(array, np.int64), shape))


def gather(d: Draft) -> Made:
    x = d.pick(rank=1)
    axis = d.axis(x)
    return made(
        "Gather",
        x,
        indices(d, d.least_size(x, axis), sizes(d.random, d.choice([0, 1, 1, 2]))),
        axis=axis,
    )


def gather_elements(d: Draft) -> Made:
    x = d.pick(rank=1)
    axis = d.axis(x)
    return made(
        "GatherElements",
        x,
        indices(d, d.least_size(x, axis), d.values[x].shape),
        axis=axis,
    )


def gather_nd(d: Draft) -> Made | None:
    x = d.pick(*BASIC, "bool", rank=1)
    shape = d.values[x].shape
    batch = 1 if len(shape) > 1 and d.chance(0.3) else 0
    count = d.randint(1, len(shape) - batch)
    smallest = min(d.least_size(x, axis) for axis in range(batch, batch + count))
    before = [*shape[:batch], *sizes(d.random, 1)]
    if not smallest:
        return None
    array = [
        d.randrange(-smallest, smallest) for _ in range(int(np.prod(before)) * count)
    ]
    index = d.constant(np.reshape(np.array(array, np.int64), [*before, count]))
    return made("GatherND", x, index, batch_dims=batch)


def scatter_nd(d: Draft) -> Made | None:
    x = d.pick(*BASIC, rank=1)
    array = d.values[x]
    least = d.least_size(x, 0)
    if not least:
        return None
    count = d.randint(1, 3)
    index = d.constant([[d.randrange(least)] for _ in range(count)])
    updates = numbers(d.random, str(array.dtype), [count, *array.shape[1:]])
    return made("ScatterND", x, index, d.constant(updates, str(array.dtype)))


def scatter_elements(d: Draft) -> Made:
    x = d.pick(*BASIC, rank=1)
    axis = d.axis(x)
    index = indices(d, d.least_size(x, axis), d.values[x].shape)
    updates = numbers(d.random, str(d.values[x].dtype), d.values[index].shape)
    return made(
        "ScatterElements",
        x,
        index,
        d.constant(updates, str(d.values[x].dtype)),
        axis=axis,
    )


def pad(d: Draft) -> Made:
    x = d.pick(*BASIC, rank=1)
    pads = d.constant([d.choice([0, 0, 1, 2, -1]) for _ in range(2 * d.values[x].ndim)])
    dtype = str(d.values[x].dtype)
    mode = d.choice(["constant", "reflect", "edge"])
    more = [d.small(dtype)] if d.chance(0.5) and mode == "constant" else []
    return made("Pad", x, pads, *more, mode=mode)


def constant_of_shape(d: Draft) -> Made:
    shapes = [n for n in d.known(1) if len(d.values[n]) < 5]
    shapes = [n for n in shapes if ((d.values[n] >= 0) & (d.values[n] < 6)).all()]
    name = d.choice(shapes) if shapes and d.chance(0.7) else d.constant(sizes(d.random))
    value = numbers(d.random, d.choice(TYPES), [1])
    options: dict[str, Any] = {}
    if d.chance(0.8):
        options["value"] = numpy_helper.from_array(value)
    return made("ConstantOfShape", name, **options)


def reduced(d: Draft) -> Made:
    operator = d.choice(
        ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceSum", "ReduceProd"]
    )
    x = d.pick("int64", "int32", "int64", "float32")
    rank = d.values[x].ndim
    axes = d.random.sample(range(rank), d.randint(0, rank))
    attributes: dict[str, Any] = {"keepdims": d.randrange(2)}
    if operator == "ReduceSum":
        attributes["noop_with_empty_axes"] = d.randrange(2)
        return made(operator, x, *([d.constant(axes)] if axes else []), **attributes)
    if axes:
        attributes["axes"] = axes
    return made(operator, x, **attributes)


def cum_sum(d: Draft) -> Made:
    x = d.pick("int64", "int32", "int64", "float32", rank=1)
    attributes = {"exclusive": d.randrange(2), "reverse": d.randrange(2)}
    return made("CumSum", x, d.constant(d.axis(x)), **attributes)


def non_max_suppression(d: Draft) -> Made:
    boxes, classes = d.randint(1, 5), d.randint(1, 3)
    places = numbers(d.random, "float32", [2, boxes, 4], "near")
    scores = numbers(d.random, "float32", [2, classes, boxes], "near")
    names = [
        d.constant(places, "float32"),
        d.constant(scores, "float32"),
        d.constant([2]),
    ]
    return "NonMaxSuppression", names, 1, {}


def one_hot(d: Draft) -> Made:
    # ONNX Runtime 1.24 refuses a scalar, and ends the process where there is no index.
    some = d.pick("int64", "int32")
    one = d.constant([0], str(d.values[some].dtype))
    indices = d.op("Concat", d.op("Reshape", some, [-1]), one, axis=0)
    return made("OneHot", indices, d.constant(3), d.small("int64", [2]))


def image(d: Draft, channels: int) -> str:
    """An image, of open sizes where one is there."""
    fits = [
        n
        for n, a in d.values.items()
        if a.dtype == "float32" and a.ndim == 4 and a.shape[1] == channels
    ]
    if fits and d.chance(0.5):
        return d.choice(fits)
    opens = [*d.sizes[0]]
    places = [
        d.choice(opens) if opens and d.chance(0.5) else d.randint(2, 8)
        for _ in range(2)
    ]
    return d.input("float32", [1, channels, *places], "near")


def window(d: Draft) -> dict[str, Any]:
    """The attributes of a window that moves over an image."""
    attributes: dict[str, Any] = {
        "kernel_shape": [d.randint(1, 3) for _ in range(2)],
        "strides": [d.randint(1, 3) for _ in range(2)],
    }
    padding = d.choice(["", "", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if padding == "pads":
        attributes["pads"] = [d.randrange(k) for k in attributes["kernel_shape"] * 2]
    elif padding:
        attributes["auto_pad"] = padding
    if d.chance(0.3):
        attributes["dilations"] = [d.randint(1, 2) for _ in range(2)]
    return attributes


def max_pool(d: Draft) -> Made:
    attributes = window(d)
    if d.chance(0.5):
        attributes["ceil_mode"] = 1
    return made("MaxPool", image(d, 2), count=d.choice([1, 2]), **attributes)


def average_pool(d: Draft) -> Made:
    attributes = window(d)
    if d.chance(0.5):
        attributes["ceil_mode"] = 1
    if d.opset < 19:
        attributes.pop("dilations", None)
    return made("AveragePool", image(d, 2), **attributes)


def conv(d: Draft) -> Made:
    attributes = window(d)
    weights = d.small("float32", [3, 2, *attributes["kernel_shape"]])
    return made("Conv", image(d, 2), weights, **attributes)


def conv_transpose(d: Draft) -> Made:
    attributes = window(d)
    if d.chance(0.4):
        attributes["output_padding"] = [d.randrange(s) for s in attributes["strides"]]
    weights = d.small("float32", [2, 3, *attributes["kernel_shape"]])
    return made("ConvTranspose", image(d, 2), weights, **attributes)


def cast_like(d: Draft) -> Made:
    return made("CastLike", d.pick(), d.pick())


def compress(d: Draft) -> Made:
    x = d.pick(rank=1)
    condition = d.pick("bool", rank=1)
    if d.values[condition].ndim > 1:
        condition = d.small("bool", [d.randint(1, 4)])
    return made(
        "Compress", x, condition, **({"axis": d.axis(x)} if d.chance(0.7) else {})
    )


def reduce_mean(d: Draft) -> Made:
    x = d.pick("float32", "float64", "int32", rank=1)
    keep = d.randrange(2)
    return made("ReduceMean", x, axes=[d.axis(x)], keepdims=keep)


def picked(d: Draft) -> Made | None:
    table, index = d.pick(*BASIC, "bool", rank=1), d.pick("int64")
    # ONNX Runtime ends the process where it divides by 0
    if not d.least_size(table, 0):
        return None
    return made("Picked", table, index, d.constant([0]), d.constant([1]))


def trilu(d: Draft) -> Made:
    return made("Trilu", d.pick("int64", "float32", rank=2), upper=d.randrange(2))


def flatten(d: Draft) -> Made:
    x = d.pick(*BASIC)
    rank = d.values[x].ndim
    return made("Flatten", x, axis=d.randint(-rank, rank))


def power(d: Draft) -> Made:
    x = d.pick("float32", "int64", "int32", "float64")
    return made("Pow", x, d.constant(d.choice([0, 1, 2, 3]), str(d.values[x].dtype)))


def softmax(d: Draft) -> Made:
    x = d.pick("float32", "float64", rank=1)
    return made("Softmax", x, axis=d.axis(x))


def eye_like(d: Draft) -> Made | None:
    names = [
        n
        for n, a in d.values.items()
        if a.ndim == 2 and a.dtype in ("int64", "float32")
    ]
    return made("EyeLike", d.choice(names)) if names else None


def mat_mul(d: Draft) -> Made:
    x = d.pick("float32", "int64", rank=2)
    inner = d.values[x].shape[-1]
    return made("MatMul", x, d.small(str(d.values[x].dtype), [inner, 2]))


def resize(d: Draft) -> Made:
    """Sizes that are the input's times a scale, rounded down in FLOAT32."""
    scale = d.choice([2, 0.5, 0.9, 1.1, 0.3, 3.3, 2 / 3, 0.7])
    attributes: dict[str, Any] = {"mode": d.choice(["nearest", "linear"])}
    scales = d.constant([1, 1, scale, d.choice([1, scale])], "float32")
    if d.opset < 11:
        return made("Resize", image(d, 2), scales, **attributes)
    empty = d.constant([], "float32")
    return made(
        "Resize", image(d, 2), empty if d.opset < 13 else "", scales, **attributes
    )


def call(d: Draft) -> Made:
    x = d.pick("int64", "int32", "float32")
    return made("Shifted", x, d.like(x))


def body_node(d: Draft, x: str, dtype: str, out: str) -> onnx.NodeProto:
    operators = ["Add", "Mul", "Sub", "Max", "Min"]
    shape = d.values[x].shape if x in d.values else ()
    style = "wild" if d.chance(0.2) else "near"
    other = d.constant(numbers(d.random, dtype, [1 for _ in shape], style), dtype)
    return helper.make_node(d.choice(operators), [x, other], [out])


def if_(d: Draft) -> Made:
    x = d.pick("int64", "float32", "int32")
    dtype = str(d.values[x].dtype)
    branches = dict[str, Any]()
    for branch in ("then_branch", "else_branch"):
        out = next(d.names)
        info = helper.make_tensor_value_info(out, data_type(d.values[x]), None)
        branches[branch] = helper.make_graph(
            [body_node(d, x, dtype, out)], branch, [], [info]
        )
    scalars = [n for n, a in d.values.items() if a.dtype == "bool" and a.size == 1]
    condition = d.choice(scalars) if scalars else d.small("bool")
    return made("If", condition, **branches)


def loop(d: Draft) -> Made:
    x = d.pick("int64", "float32", "int32")
    dtype, kind = str(d.values[x].dtype), data_type(d.values[x])
    names = [next(d.names) for _ in range(6)]
    counter, keep, state, kept, after, seen = names
    infos = [
        helper.make_tensor_value_info(counter, 7, []),
        helper.make_tensor_value_info(keep, 9, []),
        helper.make_tensor_value_info(state, kind, None),
    ]
    d.values[state] = d.values[x]
    change = body_node(d, state, dtype, after)
    del d.values[state]
    nodes = [helper.make_node("Identity", [keep], [kept]), change]
    nodes.append(
        helper.make_node("Identity", [d.choice([counter, state, after])], [seen])
    )
    outputs = [
        helper.make_tensor_value_info(kept, 9, []),
        helper.make_tensor_value_info(after, kind, None),
    ]
    outputs.append(onnx.ValueInfoProto(name=seen))
    outputs[-1].type.tensor_type.elem_type = (
        7 if nodes[-1].input[0] == counter else kind
    )
    trips = d.constant(d.choice([0, 1, 2, 9]))
    scalars = [n for n in d.known(0) if 0 <= d.values[n] < 20]
    if scalars and d.chance(0.4):
        trips = d.choice(scalars)
    body = helper.make_graph(nodes, "body", infos, outputs)
    return made("Loop", trips, "", x, count=2, body=body)


def scan(d: Draft) -> Made:
    x = d.small(d.choice(["int64", "float32"]), [2, d.randint(1, 3)])
    fits = [n for n in d.inputs if d.values[n].size and d.values[n].ndim]
    fits = [n for n in fits if d.values[n].dtype in ("int64", "float32")]
    # ONNX Runtime ends the process where a Scan has no slice
    x = d.choice([*fits, x])
    axis = d.axis(x)
    kind, dtype = data_type(d.values[x]), str(d.values[x].dtype)
    state, row, after, seen = (next(d.names) for _ in range(4))
    opens = d.open_axes(x)
    rest = [1 if k in opens else n for k, n in enumerate(d.values[x].shape)]
    rest.pop(axis)
    start = d.constant(numbers(d.random, dtype, rest), dtype)
    infos = [helper.make_tensor_value_info(n, kind, None) for n in (state, row)]
    nodes = [helper.make_node(d.choice(["Add", "Max", "Min"]), [state, row], [after])]
    nodes.append(helper.make_node("Identity", [d.choice([state, row, after])], [seen]))
    outputs = [helper.make_tensor_value_info(n, kind, None) for n in (after, seen)]
    body = helper.make_graph(nodes, "body", infos, outputs)
    attributes = {"body": body, "num_scan_inputs": 1, "scan_input_axes": [axis]}
    if d.chance(0.5):
        attributes["scan_output_axes"] = [d.randint(0, len(rest))]
    return made("Scan", start, x, count=2, **attributes)


ARITHMETIC = (*BASIC, "int64", "uint64", "int8", "float16", "uint32")
TEMPLATES: dict[str, Template] = {
    **{o: elementwise(o, ARITHMETIC) for o in ("Add", "Sub", "Mul")},
    **{
        o: elementwise(o, BASIC)
        for o in ("Less", "Greater", "LessOrEqual", "GreaterOrEqual")
    },
    **{o: elementwise(o, ("bool",)) for o in ("And", "Or", "Xor")},
    **{o: unary(o, SIGNED) for o in ("Neg", "Abs", "Sign")},
    **{
        o: unary(o, FLOATS[:2])
        for o in ("Floor", "Ceil", "Round", "Sqrt", "Exp", "Log")
    },
    **{o: unary(o, FLOATS[:2]) for o in ("Sigmoid", "Tanh", "IsNaN", "Reciprocal")},
    **{
        o: unary(o, FLOATS[:1])
        for o in ("Erf", "Sin", "Cos", "Relu", "Softsign", "HardSigmoid")
    },
    "Equal": elementwise("Equal", (*BASIC, "bool")),
    "Not": unary("Not", ("bool",)),
    "Identity": unary("Identity", TYPES),
    "Dropout": unary("Dropout", FLOATS),
    **dict.fromkeys(("Max", "Min"), extreme),
    **dict.fromkeys(("ArgMax", "ArgMin"), arg_extreme),
    **dict.fromkeys(("Shape", "Size"), shape_of),
    **dict.fromkeys(("ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd"), reduced),
    "AveragePool": average_pool,
    "Cast": cast,
    "CastLike": cast_like,
    "Compress": compress,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Clip": clip,
    "ConstantOfShape": constant_of_shape,
    "Concat": concat,
    "CumSum": cum_sum,
    "Div": div,
    "Expand": expand,
    "EyeLike": eye_like,
    "Flatten": flatten,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "If": if_,
    "Loop": loop,
    "MatMul": mat_mul,
    "MaxPool": max_pool,
    "Mod": mod,
    "NonMaxSuppression": non_max_suppression,
    "NonZero": non_zero,
    "OneHot": one_hot,
    "Pad": pad,
    "Pow": power,
    "Range": range_,
    "ReduceMean": reduce_mean,
    "Reshape": reshape,
    "Resize": resize,
    "Scan": scan,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "Picked": picked,
    "Shifted": call,
    "Slice": slice_,
    "Softmax": softmax,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "TopK": top_k,
    "Transpose": transpose,
    "Trilu": trilu,
    "Unsqueeze": unsqueeze,
    "Where": where,
}
"""How to make a random node of each operator; "Shifted" is a function of the model."""


def add(d: Draft, operator: str = "") -> None:
    """Add a random node, of an operator if it is given, where ONNX Runtime takes it."""
    with suppress(RefusedError, IndexError, ValueError):
        made = TEMPLATES[operator or d.choice([*TEMPLATES])](d)
        if made is not None:
            operator, inputs, count, attributes = made
            domain = "local" if operator in FUNCTIONS else ""
            node = d.node(operator, inputs, count, domain, **attributes)
            d.append([node], node.output)
