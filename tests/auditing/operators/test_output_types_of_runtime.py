"""The sizes of ONNX Runtime's own operators are those that it computes, and infers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from msgspec.structs import replace
from network_draft import Feeds, data_type, results, session
from onnx import helper, numpy_helper
from open_numbers import number_of
from rings import one_quick_in

from onnxgather.auditing.algebra.bounds import Bounds, unknown
from onnxgather.auditing.algebra.sizes import AnySize, Size, Symbol
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.auditing.operators.output_types_of_runtime import (
    TYPES_RULES,
    types_of_outputs,
)
from onnxgather.auditing.proof.ranges import ranges_of
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import Operation, read_network
from onnxgather.core.model.values import name_of

MS = "com.microsoft"
NCHWC = "com.microsoft.nchwc"


def f(*sizes: int) -> Array:
    return np.ones(sizes, np.float32)


def q(*sizes: int) -> Array:
    return np.ones(sizes, np.uint8)


def n(*sizes: int) -> Array:
    return np.zeros(sizes, np.int32)


S = f()
"""A scale."""
Z = q()
"""A zero point."""

Case = tuple[str, str, Sequence[Array | None], dict[str, Any], int]
"""A domain, an operator, its inputs, its attributes, how many outputs."""

ANY_RANK = [(3,), (2, 3), (0, 3), (2, 1, 3), (2, 3, 1, 4), (2, 0, 1, 4)]
"""Without a last axis of size 0, which ends the process of ONNX Runtime 1.24."""


def same_cases() -> Iterator[Case]:
    for sizes in ANY_RANK:
        last = f(sizes[-1])
        for operator in ("Gelu", "QuickGelu", "FastGelu"):
            yield MS, operator, [f(*sizes)], {}, 1
        yield MS, "FastGelu", [f(*sizes), last], {}, 1
        yield MS, "BiasGelu", [f(*sizes), last], {}, 1
        yield MS, "Trilu", [f(*sizes)], {}, 1
        for operator in ("QLinearLeakyRelu", "QLinearSigmoid"):
            yield MS, operator, [q(*sizes), S, Z, S, Z], {}, 1
        yield (
            MS,
            "QLinearSoftmax",
            [q(*sizes), S, Z, S, Z],
            {"axis": -1, "opset": 13},
            1,
        )
        yield MS, "QuantizeLinear", [f(*sizes), S, Z], {}, 1
        yield MS, "QuantizeLinear", [f(*sizes), S, Z.astype(np.int8)], {}, 1
        yield MS, "QuantizeLinear", [f(*sizes), S], {}, 1
        yield MS, "DequantizeLinear", [q(*sizes), S, Z], {}, 1
        yield "", "LayerNormalization", [f(*sizes), last, last], {"axis": -1}, 1
        yield "", "SimplifiedLayerNormalization", [f(*sizes), last], {"axis": -1}, 1
        inputs = [f(*sizes), f(*sizes), last, last, last]
        yield MS, "SkipLayerNormalization", inputs[:4], {}, 1
        yield MS, "SkipLayerNormalization", inputs, {}, 4
        inputs = [f(*sizes), f(*sizes), last, last]
        yield MS, "SkipSimplifiedLayerNormalization", inputs[:3], {}, 1
        yield MS, "SkipSimplifiedLayerNormalization", inputs, {}, 4
    for skip in ((1, 3, 4), (3, 4), (2, 3, 4)):
        inputs = [f(2, 3, 4), f(*skip), f(4), f(4)]
        yield MS, "SkipLayerNormalization", inputs, {}, 4
        yield MS, "SkipLayerNormalization", [f(*skip), f(2, 3, 4), f(4), f(4)], {}, 4
    positions = np.zeros((2, 3), np.int64)
    for sizes in ((2, 3, 8), (2, 2, 3, 4)):
        inputs = [f(*sizes), positions, f(5, 2), f(5, 2)]
        more = {"num_heads": 2} if len(sizes) == 3 else {}
        yield MS, "RotaryEmbedding", inputs, more, 1


def broadcast_cases() -> Iterator[Case]:
    pairs = [((2, 3), (3,)), ((3,), (2, 3)), ((2, 1, 4), (3, 1)), ((0, 3), (1, 3))]
    for a, b in [*pairs, ((2, 3), ()), ((1,), (0, 1))]:
        for operator in ("QLinearAdd", "QLinearMul"):
            yield MS, operator, [q(*a), S, Z, q(*b), S, Z, S, Z], {}, 1
        condition = np.ones(b, bool)
        inputs = [condition, q(*a), S, Z, q(*b), S, Z, S, Z]
        yield MS, "QLinearWhere", inputs, {}, 1


def product_cases() -> Iterator[Case]:
    pairs = [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4))]
    pairs += [((1, 5, 2, 3), (6, 1, 3, 4)), ((0, 2, 3), (3, 4)), ((2, 0), (0, 4))]
    pairs += [((2, 3), (5, 3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 0, 3), (3, 4))]
    pairs += [((5, 2, 0), (1, 0, 4)), ((0, 2, 3), (1, 3, 4)), ((5, 2, 0), (0, 4))]
    for a, b in pairs:
        for number in range(16):
            names = ("transA", "transB", "transBatchA", "transBatchB")
            bits = {name: number >> k & 1 for k, name in enumerate(names)}
            # These end the process of ONNX Runtime 1.24.
            if number >= 4 and a[-1] == 0:
                continue
            x = f(*a)
            y = f(*b)
            if bits["transA"] and x.ndim > 1:
                x = np.swapaxes(x, -1, -2)
            if bits["transB"] and y.ndim > 1:
                y = np.swapaxes(y, -1, -2)
            if bits["transBatchA"] and x.ndim > 2:
                x = np.moveaxis(x, -2, 0)
            if bits["transBatchB"] and y.ndim > 2:
                y = np.moveaxis(y, -2, 0)
            yield MS, "FusedMatMul", [x, y], bits, 1
            pair = {name: bits[name] for name in names[:2]}
            if number < 4:
                yield MS, "TransposeMatMul", [x, y], pair, 1
            if number < 4 and x.ndim == y.ndim == 2:
                gemm = {"activation": "Relu", **pair}
                yield MS, "FusedGemm", [x, y], gemm, 1
                yield MS, "FusedGemm", [x, y, f(4)], gemm, 1
            if number < 4 and x.ndim == y.ndim == 2:
                inputs = [x.astype(np.uint8), S, Z, y.astype(np.uint8), S, Z]
                bias = np.ones(4, np.int32)
                yield MS, "QGemm", [*inputs, bias, S, Z], pair, 1
                yield MS, "QGemm", [*inputs, None, S, Z], pair, 1
                yield MS, "QGemm", [*inputs, bias], pair, 1
        yield MS, "DynamicQuantizeMatMul", [f(*a), q(*b), S, Z], {}, 1
        inputs = [q(*a), q(*b), S, S, Z, Z]
        yield MS, "MatMulIntegerToFloat", inputs, {}, 1


def attention_cases() -> Iterator[Case]:
    for batch, length in ((2, 3), (1, 1), (2, 0), (0, 3)):
        ids = n(batch, length)
        tables = [f(7, 4), f(9, 4), f(2, 4), f(4), f(4)]
        inputs = [ids, ids, *tables, np.ones((batch, length), np.int32)]
        yield MS, "EmbedLayerNormalization", inputs, {}, 2
        yield MS, "EmbedLayerNormalization", inputs, {}, 3


def heads_cases() -> Iterator[Case]:
    two = {"num_heads": 2}
    for batch, length in ((2, 3), (1, 1), (3, 5)):
        x = f(batch, length, 4)
        yield MS, "Attention", [x, f(4, 12), f(12)], two, 1
        split = {**two, "qkv_hidden_sizes": [4, 4, 6]}
        yield MS, "Attention", [x, f(4, 14), f(14)], split, 1
        zero = q()
        inputs = [q(batch, length, 4), q(4, 12), f(12), S, S, None, zero, zero]
        yield MS, "QAttention", inputs, two, 1
        for keys in (length, 7):
            value = f(batch, keys, 6)
            inputs = [x, f(batch, keys, 4), value]
            yield MS, "MultiHeadAttention", inputs, two, 1
            inputs = [x, f(batch, 2, keys, 2), f(batch, 2, keys, 3)]
            yield MS, "MultiHeadAttention", inputs, two, 1
        yield MS, "MultiHeadAttention", [f(batch, length, 2, 3, 2)], two, 1
        ends = np.full(batch, length - 1, np.int32)
        total = np.array(length, np.int32)
        groups = {"num_heads": 2, "kv_num_heads": 1}
        key = f(batch, length, 8)
        past = f(batch, 1, 0, 8)
        query = f(batch, length, 16)
        inputs = [query, key, key, past, past, ends, total]
        yield MS, "GroupQueryAttention", inputs, groups, 3
        inputs = [f(batch, length, 32), None, None, past, past, ends, total]
        yield MS, "GroupQueryAttention", inputs, groups, 3


def concat_cases() -> Iterator[Case]:
    pairs = [((2, 3), (2, 4), 1), ((2, 3), (0, 3), 0), ((2, 3), (1, 3), -2)]
    for a, b, axis in [*pairs, ((2, 1, 3), (2, 5, 3), 1)]:
        inputs = [S, Z, q(*a), S, Z, q(*b), S, Z]
        yield MS, "QLinearConcat", inputs, {"axis": axis}, 1


def byte_image_cases() -> Iterator[Case]:
    window = {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 0, 0, 2]}
    for batch in (1, 2):
        for last in (0, 1):
            x = q(batch, 7, 5, 4) if last else q(batch, 4, 7, 5)
            more = {"channels_last": last}
            inputs = [x, S, Z, S, Z]
            for ceil_mode in (0, 1):
                attributes = {**window, **more, "ceil_mode": ceil_mode}
                yield MS, "QLinearAveragePool", inputs, attributes, 1
            yield MS, "QLinearGlobalAveragePool", inputs, more, 1
            inputs = [x, S, Z, q(6, 4, 3, 3), S, Z, S, Z]
            yield MS, "QLinearConv", inputs, {**window, **more}, 1
        for ceil_mode in (0, 1):
            attributes = {**window, "ceil_mode": ceil_mode}
            yield MS, "NhwcMaxPool", [q(batch, 7, 5, 4)], attributes, 1


def image_cases() -> Iterator[Case]:
    window = {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 0, 0, 2]}
    convolution = {"activation": "Relu", **window}
    for batch in (0, 1, 2):
        for channels in (16, 32):
            x = f(batch, channels, 7, 5)
            for operator in ("MaxPool", "AveragePool"):
                yield NCHWC, operator, [x], window, 1
                yield NCHWC, operator, [x], {**window, "ceil_mode": 1}, 1
                same = {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}
                yield NCHWC, operator, [x], same, 1
            for operator in ("GlobalMaxPool", "GlobalAveragePool"):
                yield NCHWC, operator, [x], {}, 1
            yield NCHWC, "ReorderInput", [x], {"channels_last": 0}, 1
            x_last = f(batch, 7, 5, channels)
            yield NCHWC, "ReorderInput", [x_last], {"channels_last": 1}, 1
            for last in (0, 1):
                more = {"channels": channels - 4, "channels_last": last}
                yield NCHWC, "ReorderOutput", [x], more, 1
            weights = f(32, channels, 3, 3)
            yield NCHWC, "Conv", [x, weights], convolution, 1
            yield MS, "FusedConv", [x, weights], convolution, 1
            yield MS, "FusedConv", [x, weights, f(32)], convolution, 1
            scales = {"scales": [1, 1, 2, 3]}
            yield NCHWC, "Upsample", [x], scales, 1
        yield MS, "FusedConv", [f(batch, 4, 9), f(6, 4, 3)], {"activation": "Relu"}, 1


CASES: list[Case] = [
    *same_cases(),
    *broadcast_cases(),
    *product_cases(),
    *attention_cases(),
    *heads_cases(),
    *concat_cases(),
    *byte_image_cases(),
    *image_cases(),
]


def node_of_case(case: Case) -> onnx.NodeProto:
    domain, operator, inputs, attributes, count = case
    names = ["" if array is None else f"x{k}" for k, array in enumerate(inputs)]
    outputs = [f"y{k}" for k in range(count)]
    if count == 4:  # the CPU provider has no mean and no deviation
        outputs[1] = outputs[2] = ""
    return helper.make_node(operator, names, outputs, domain=domain, **attributes)


def runs_of_case(case: Case) -> Iterator[list[tuple[Array | None, Array]]]:
    """Yield the outputs that are not left out, each with a Shape of it."""
    node = node_of_case(case)
    names = [name for name in node.output if name]
    shapes = [helper.make_node("Shape", [name], [f"{name} s"]) for name in names]
    wanted = [*names, *(f"{name} s" for name in names)]
    outputs = [helper.make_empty_tensor_value_info(name) for name in wanted]
    opsets = [("", 13), (MS, 1), (NCHWC, 1)]
    imports = [helper.make_opsetid(*opset) for opset in opsets]
    # Case by case: no size, and then a part of the sizes, is open in the model.
    for level, first_open in ((0, 99), (3, 99), (3, 1), (3, 0)):
        inputs: list[onnx.ValueInfoProto] = []
        feeds: Feeds = {}
        for k, array in enumerate(case[2]):
            if array is None:
                continue
            sizes = [
                f"d{k}_{axis}" if axis >= first_open else size
                for axis, size in enumerate(array.shape)
            ]
            inputs.append(
                helper.make_tensor_value_info(f"x{k}", data_type(array), sizes)
            )
            feeds[f"x{k}"] = array
        graph = helper.make_graph([node, *shapes], "g", inputs, outputs)
        model = helper.make_model(graph, opset_imports=imports, ir_version=8)
        try:
            made = results(session(model, level), feeds)
        except Exception:  # sizes that ONNX Runtime refuses
            continue
        yield [(made[name], made[f"{name} s"]) for name in names]


def open_inputs(
    case: Case, is_open: bool
) -> tuple[list[Bounds | None], dict[Symbol, int]]:
    """Return the inputs with a symbol for each size, and what the symbols are."""
    numbers: dict[Symbol, int] = {}
    inputs: list[Bounds | None] = []
    for array in case[2]:
        if array is None:
            inputs.append(None)
            continue
        sizes: list[AnySize] = []
        for size in array.shape:
            symbol = Symbol(f"n{size}", min(size, 1), 2**28)
            same = [known for known in numbers if known.name == symbol.name]
            symbol = same[0] if same else symbol
            numbers[symbol] = size
            sizes.append(Size({(symbol,): 1}) if is_open else size)
        name = name_of(data_type(array))
        inputs.append(unknown(name, tuple(sizes)))
    return inputs, numbers


def wrong_of(case: Case) -> Iterator[str]:
    """Yield "" or what is wrong, of each size of each output of each run."""
    node = node_of_case(case)
    operation = Operation(
        "", case[1], case[0], tuple(node.input), tuple(node.output), case[3], {}, [node]
    )
    for run in runs_of_case(case):
        for is_open in (False, True):
            inputs, numbers = open_inputs(case, is_open)
            told = types_of_outputs(Call(operation, tuple(inputs), 13))
            given = [a for a, name in zip(told, node.output, strict=True) if name]
            for own, (array, shape) in zip(given, run, strict=True):
                # ONNX Runtime 1.24 makes no value of an empty QLinearSoftmax.
                if array is None:
                    continue
                what = f"{case[1]} {inputs} {case[3]}: {own}, {array.shape}, {shape}"
                if own.data_type not in ("", name_of(data_type(array))):
                    yield f"data type of {what}"
                if own.sizes is None:
                    continue
                if len(own.sizes) != array.ndim:
                    yield f"rank of {what}"
                    continue
                for size, real, inferred in zip(
                    own.sizes, array.shape, shape, strict=True
                ):
                    number = None if size is None else number_of(size, numbers)
                    if number is not None:
                        yield "" if number == real == inferred else what


MEASURED_BELOW = {(MS, "GatherBlockQuantized"), (MS, "MatMulNBits")}
"""They read packed constants, which tests of their own write."""


@pytest.mark.parametrize(
    "rule",
    one_quick_in(11, [(rule,) for rule in sorted(TYPES_RULES.keys() - MEASURED_BELOW)]),
    ids=".".join,
)
def test_the_sizes_of_an_operator_of_onnx_runtime_are_those_of_its_runs(
    rule: tuple[str, str],
) -> None:
    found = [wrong for case in CASES if case[:2] == rule for wrong in wrong_of(case)]
    assert found, "no size that is known"
    assert not [wrong for wrong in found if wrong]


def test_a_size_that_is_not_that_of_a_run_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = (NCHWC, "ReorderOutput")
    rule = TYPES_RULES[key]

    def turned(call: Call) -> Sequence[OpenType]:
        (told,) = rule(call)
        return [OpenType(told.data_type, told.sizes and told.sizes[::-1])]

    monkeypatch.setitem(TYPES_RULES, key, turned)
    case = next(case for case in CASES if case[:2] == key)
    assert any(wrong_of(case))


def test_another_domain_tells_nothing() -> None:
    operation = Operation("", "Relu", "of.mine", ("x0",), ("y0",), {}, {})
    call = Call(operation, (unknown("FLOAT", (3,)),), 17)
    assert types_of_outputs(call) == [OpenType()]


def quantized(
    kind: int, bits: int, shape: tuple[int, ...], axes: tuple[int, int]
) -> Any:
    """The node of a GatherBlockQuantized, its data and its scales."""
    packed, scales, more = [*shape], [*shape], dict[str, int]()
    scales[axes[1]] //= 16
    if kind == onnx.TensorProto.UINT8:
        packed[-1], more = shape[-1] * bits // 8, {"bits": bits}
    data = helper.make_tensor(
        "data", kind, packed, [k % 8 for k in range(np.prod(packed))]
    )
    blocks: dict[str, Any] = dict(
        zip(("gather_axis", "quantize_axis"), axes, strict=True), block_size=16, **more
    )
    names = ["data", "indices", "scales"]
    node = helper.make_node(
        "GatherBlockQuantized", names, ["y"], domain="com.microsoft", **blocks
    )
    return node, [data, numpy_helper.from_array(np.ones(scales, np.float32), "scales")]


UINT8, INT4 = onnx.TensorProto.UINT8, onnx.TensorProto.INT4
BITS = (4, 8) if onnxruntime.__version__.startswith("1.24.") else (2, 4, 8)
"""Those of a number in bytes, as far as the version of ONNX Runtime has them."""
DOMAINS = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]


def check_type(node: onnx.NodeProto, tensors: Any, given: Feeds) -> None:
    """Check the type of the output of a node against its runs, and what a Shape of it
    is."""
    inputs = [
        helper.make_tensor_value_info(k, data_type(a), a.shape)
        for k, a in given.items()
    ]
    outputs = [
        helper.make_empty_tensor_value_info("y"),
        helper.make_empty_tensor_value_info("s"),
    ]
    shape = helper.make_node("Shape", ["y"], ["s"])
    graph = helper.make_graph([node, shape], "g", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=DOMAINS, ir_version=10)
    network = read_network(model)
    told = ranges_of(network).value(network.main, "y")
    for level in (0, 3):
        made = results(session(model, level), given)
        assert (told.data_type, told.sizes) == ("FLOAT", made["y"].shape)
        assert tuple(made["s"]) == made["y"].shape


@pytest.mark.parametrize(
    ("kind", "bits", "shape", "axes"),
    [
        *(
            (UINT8, bits, shape, (0, 1))
            for bits in BITS
            for shape in ((4, 32), (5, 16))
        ),
        (UINT8, 4, (4, 3, 32), (0, 2)),
        *((INT4, 4, shape, (0, 1)) for shape in ((4, 32), (4, 32, 5))),
        *((INT4, 4, (32, 4), axes) for axes in ((1, 0), (-1, 0), (-1, -2))),
        *((INT4, 4, (3, 4, 32), axes) for axes in ((1, 2), (-2, -1), (0, 2))),
    ],
)
def test_the_sizes_of_a_quantized_gather_are_those_of_its_runs(
    kind: int, bits: int, shape: tuple[int, ...], axes: tuple[int, int]
) -> None:
    for indices in ((), (2,), (2, 1)):
        node, tensors = quantized(kind, bits, shape, axes)
        check_type(node, tensors, {"indices": np.ones(indices, np.int64)})


@pytest.mark.parametrize("sizes", [(2, 16), (2, 3, 16), (1, 2, 3, 16)])
def test_the_sizes_of_a_product_with_quantized_weights_are_those_of_its_runs(
    sizes: tuple[int, ...],
) -> None:
    attributes: dict[str, Any] = {
        "K": 16,
        "N": 5,
        "bits": 4,
        "block_size": 16,
        "domain": "com.microsoft",
    }
    node = helper.make_node(
        "MatMulNBits", ["x", "weights", "scales"], ["y"], **attributes
    )
    weights = numpy_helper.from_array(np.ones((5, 1, 8), np.uint8), "weights")
    scales = numpy_helper.from_array(np.ones(5, np.float32), "scales")
    check_type(node, [weights, scales], {"x": np.ones(sizes, np.float32)})


def test_the_type_of_a_quantized_gather_is_open_where_it_is_not_known() -> None:
    node, _ = quantized(INT4, 4, (4, 32), (0, 1))
    operation = Operation("", node.op_type, node.domain, (), ("y",), {}, {}, [node])
    call = Call(
        operation,
        (unknown("INT4", None), unknown("INT64", (1,)), unknown("FLOAT", (4, 2))),
        21,
    )
    assert types_of_outputs(call) == [OpenType("FLOAT", None)]
    wrong = replace(call, operation=replace(operation, attributes={"gather_axis": 2}))
    wrong = replace(wrong, inputs=(unknown("INT4", (4, 32)), *call.inputs[1:]))
    assert types_of_outputs(wrong) == [OpenType("FLOAT", None)]
    assert types_of_outputs(replace(call, inputs=())) == [OpenType()]
