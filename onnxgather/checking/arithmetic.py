"""How runtimes compute where they do not compute what ONNX says, in one table.

A known difference names a row of the table. The model of a case, computed as the row
says, gives the exact output that the known difference explains. Any other output is a
finding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import onnx
from onnx import numpy_helper

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.strides import packed_strides

Conversion = Literal["low-bits", "nearest", "bytes"]
"""What becomes of numbers in a narrower type.

low-bits: of a number that the type does not hold, its low bits. nearest: the nearest
number that the type holds. bytes: the bytes of all numbers are read as numbers of the
type, as many as there are.
"""

Outside = Literal[
    "zero",
    "address",
    "modulo",
    "modulo-of-sum",
    "remainder-of-sum",
    "clamp",
    "refused",
]
"""What a gather returns for an index that is not in the range of its axis.

zero: zeros. address: what stands at the address that the index gives without a check,
which may be outside the tensor. modulo: the element at the index modulo the size.
modulo-of-sum: the element at the sum of the index and the size, modulo the size; the
sum has the type of the indices and may overflow. remainder-of-sum: what stands at the
address of the remainder of that sum, which has the sign of the sum, as in C. clamp: the
element at the nearest index. refused: nothing, as the run fails.
"""


class GatherRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a gather of a runtime does with an index."""

    outside: Outside
    """What an index out of range gives."""
    negative: Outside | Literal["from-the-end"] = "from-the-end"
    """What an index gives that is negative and in range. ONNX counts it from the
    end."""
    beyond: Literal["anything", "zero"] = "anything"
    """What is read at an address that is outside the tensor."""
    outside_short: Outside | None = None
    """What an index out of range gives where data and indices have at most one
    dimension and 64 elements, and data are integers of 16 or 32 bits; None means as
    elsewhere."""
    index_type: str | None = None
    """The type in which it reads the indices, by numpy's name; None is their own."""
    batches_by_indices: bool = False
    """Whether GatherND numbers batches by the sizes of the indices, and not by those of
    the data. ONNX forbids that these differ."""
    adds_batch_to_each: bool = False
    """Whether GatherND adds the number of the batch, times the elements that a tuple
    chooses from, to each index of the tuple. That is right for tuples of one index."""


class Arithmetic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a runtime computes; what a field leaves out is as ONNX says."""

    gathers: Mapping[str, GatherRule] = {}
    """The rules of Gather, GatherElements and GatherND."""
    holds: Mapping[str, str] = {}
    """Data types, and those in which the runtime holds them, by numpy's names."""
    inputs_through: Mapping[str, str] = {}
    """Data types of inputs, and those through which their numbers pass: they become its
    low bits, and then the nearest number of their own type."""
    inputs: Conversion = "low-bits"
    """What becomes of the numbers of an input."""
    holds_data: bool = True
    """Whether the data of a gather are held so, too, and not the indices alone."""
    floats: Conversion | None = None
    """nearest: a float that the type does not hold becomes the nearest finite one, and
    so does infinity. None: it becomes infinity, as IEEE 754 says."""
    casts_inputs_whole: bool = False
    """Whether a Cast of an input of the model reads it before it is held in another
    type."""
    converts_indices: bool = False
    """Whether the adapter converts the indices, so that their low bits are held."""
    casts: Conversion = "low-bits"
    """What becomes of the numbers in a Cast."""
    returns: Mapping[str, str] = {}
    """Types of outputs, and those in which they come."""
    in_float32: frozenset[str] = frozenset()
    """The operators that compute integers in FLOAT32. A number that INT32 does not hold
    becomes its least. `Mul` is that of addresses, too, whose sum then is INT32."""
    joins_where: bool = False
    """Whether Where computes integers in FLOAT32 where its condition compares an input
    of the model that is cast to FLOAT32, as it is joined with the comparison."""
    where_reads_on: bool = False
    """Whether Where reads an operand of another shape than its output from the start
    on, and memory outside after its end, and does not broadcast it."""
    copies_first_text: bool = False
    """Whether Gather copies the first text of each slice alone, and leaves the others
    empty."""
    quiets_nans: bool = False
    """Whether a signaling NaN becomes a quiet one where its type is held in another."""

    def held(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the type in which a type is held."""
        return np.dtype(self.holds.get(dtype.name, dtype.name))


AS_ONNX_SAYS = GatherRule("zero")
"""The rule of a gather that the table does not name; ONNX forbids an index out of
range."""

_PATTERNS = (0x5A, 0xA5, 0x00)
"""The bytes that stand for memory outside the tensor, in each of three computations:
what such memory decides differs between them."""


@cache
def arithmetics() -> Mapping[str, Arithmetic]:
    """Return the table of how runtimes compute, by the names of its rows."""
    path = files("onnxgather.checking").joinpath("arithmetic.json")
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Arithmetic])


class Computed(NamedTuple):
    """The output that a model has as a row of the table computes it."""

    output: Array
    is_unknown: Array
    """Which elements are memory outside the tensor, and may be anything."""

    def is_that_of(self, output: Array) -> bool:
        """Return whether a lane's output is this one, where it is known."""
        if output.dtype.kind == "U":
            output = output.astype(object)
        if (output.dtype, output.shape) != (self.output.dtype, self.output.shape):
            return False
        bits = f"V{output.itemsize}"
        is_equal = _bits(output, bits) == _bits(self.output, bits)
        return bool((is_equal | self.is_unknown).all())


def _bits(array: Array, bits: str) -> Array:
    # Case: texts.
    if array.dtype.kind == "O":
        return array
    return np.ascontiguousarray(array).view(bits).reshape(array.shape)


def computed(
    model: bytes, inputs: Mapping[str, Array], arithmetic: Arithmetic
) -> Computed:
    """Return the output of a model, computed as a row of the table says.

    Args:
        model: The serialized model of a lane.
        inputs: Its inputs, by name.
        arithmetic: The row.

    Raises:
        KeyError: The model has an operator that no lowering emits.
        IndexError: The runtime refuses an index.
    """
    graph = onnx.load_model_from_string(model).graph
    first, *others = [
        _output(graph, inputs, _Machine(arithmetic, pattern, set()))
        for pattern in _PATTERNS
    ]
    bits = f"V{first.itemsize}"
    is_unknown = np.zeros(first.shape, bool)
    for other in others:
        is_unknown |= _bits(first, bits) != _bits(other, bits)
    return Computed(first, is_unknown)


class _Machine(NamedTuple):
    """A runtime of the table, with a byte that fills the memory around tensors."""

    arithmetic: Arithmetic
    pattern: int
    compared: set[str]
    """The names of inputs that are cast to FLOAT32, and of their comparisons."""

    def memory(self, dtype: np.dtype[Any]) -> Array:
        """Return an element of memory outside a tensor; of texts, a sign."""
        if dtype.kind == "O":
            return np.array([chr(self.pattern)], dtype)
        return np.frombuffer(bytes([self.pattern] * dtype.itemsize), dtype)

    def input(self, array: Array, *, are_indices: bool) -> Array:
        """Return an input as the machine holds it."""
        arithmetic = self.arithmetic
        if not are_indices and not arithmetic.holds_data:
            return array
        if array.dtype.name in arithmetic.inputs_through:
            narrow = array.astype(arithmetic.inputs_through[array.dtype.name])
            return _nearest(narrow, array.dtype)
        how = arithmetic.inputs
        if are_indices and arithmetic.converts_indices:
            how = "low-bits"
        return self.held(array, array.dtype, how)

    def computed(
        self, operator: str, function: Callable[..., Any], *operands: Array
    ) -> Array:
        """Return what a function computes of operands in place of an operator."""
        with np.errstate(all="ignore"):
            if operator not in self.arithmetic.in_float32:
                return function(*operands)
            return self.in_float32(function, *operands)

    def in_float32(self, function: Callable[..., Any], *operands: Array) -> Array:
        """Return what a function computes, which computes integers in FLOAT32."""
        dtype = operands[-1].dtype
        if dtype.kind not in "iu":
            return function(*operands)
        floats = function(*[operand.astype(np.float32) for operand in operands])
        least = np.iinfo(np.int32).min
        is_held = (floats >= least) & (floats < -float(least))
        return np.where(is_held, floats, least).astype(dtype)

    def held(self, array: Array, dtype: np.dtype[Any], how: Conversion) -> Array:
        """Return an array in the type in which a type is held.

        Args:
            array: The array.
            dtype: The type that the array is to have.
            how: What becomes of the numbers.
        """
        held = self.arithmetic.held(dtype)
        if held == array.dtype:
            return array
        if how == "nearest" and held.kind in "iu":
            return _nearest(array, held)
        if how == "bytes":
            numbers = np.frombuffer(array.tobytes(), held, array.size)
            return numbers.reshape(array.shape)
        if self.arithmetic.floats == "nearest" and held.kind == "f":
            ends = np.finfo(held)
            array = np.clip(array, ends.min, ends.max)
        with np.errstate(all="ignore"):
            converted = array.astype(held)
        if self.arithmetic.quiets_nans and held.kind == "f":
            return _quiet(converted)
        return converted


def _nearest(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return integers in another type; one that it lacks becomes its nearest."""
    ends = np.iinfo(dtype)
    numbers = array.astype(object)
    clipped = np.clip(numbers, ends.min, ends.max)
    return np.asarray(clipped).astype(dtype)  # of a scalar it is a number


def _quiet(array: Array) -> Array:
    """Return floats whose NaNs are quiet: the first bit of the fraction is set."""
    bits = f"u{array.itemsize}"
    fraction = np.finfo(array.dtype).nmant
    quiet = array.view(bits) | np.array(1 << (fraction - 1), bits)
    return np.where(np.isnan(array), quiet.view(array.dtype), array)


def _output(
    graph: onnx.GraphProto, inputs: Mapping[str, Array], machine: _Machine
) -> Array:
    """Return the output of a graph on a machine."""
    values: dict[str, Array] = {"": np.empty(0)}
    for place, (name, array) in enumerate(inputs.items()):
        # Case: texts of numpy's own type, as a file may have them.
        if array.dtype.kind == "U":
            array = array.astype(object)
        values[name] = machine.input(array, are_indices=place == 1)
    for initializer in graph.initializer:
        array = numpy_helper.to_array(initializer)
        how = machine.arithmetic.casts
        values[initializer.name] = machine.held(array, array.dtype, how)
    for node in graph.node:
        operands = [values[name] for name in node.input]
        # Case: an input that is converted before it is held in another type.
        if machine.arithmetic.casts_inputs_whole and node.op_type == "Cast":
            operands = [inputs.get(node.input[0], operands[0])]
        # Case: the comparison of an input in FLOAT32.
        is_of_input = node.op_type == "Cast" and node.input[0] in inputs
        if is_of_input and _number(node, "to", 0) == onnx.TensorProto.FLOAT:
            machine.compared.add(node.output[0])
        values[node.output[0]] = _OPERATORS[node.op_type](machine, node, operands)
    (output,) = graph.output
    array = values[output.name]
    declared = onnx.helper.tensor_dtype_to_np_dtype(output.type.tensor_type.elem_type)
    returned = machine.arithmetic.returns.get(declared.name, declared.name)
    with np.errstate(all="ignore"):
        return array.astype(returned)


_Operator = Callable[[_Machine, onnx.NodeProto, Sequence[Array]], Array]


def _elementwise(
    machine: _Machine, node: onnx.NodeProto, operands: Sequence[Array]
) -> Array:
    operator = node.op_type
    function = _ELEMENTWISE[operator]
    # Case 1: any number of operands.
    if operator in ("Max", "Min"):
        result = operands[0]
        for operand in operands[1:]:
            result = machine.computed(operator, function, result, operand)
        return result
    # Case 2: a product with the constant one is left out.
    if operator == "Mul" and operands[1].ndim == 0 and operands[1] == 1:
        return operands[0]
    # Case 3: operands that Where does not broadcast.
    if operator == "Where" and machine.arithmetic.where_reads_on:
        sizes = np.broadcast_shapes(*[operand.shape for operand in operands])
        condition, *others = operands
        operands = [condition, *[_read_on(machine, each, sizes) for each in others]]
    # Case 4: a Where that is computed in one with the comparison before it.
    is_compared = node.input[0] in machine.compared
    if operator == "Less" and is_compared:
        machine.compared.add(node.output[0])
    if operator == "Where" and is_compared and machine.arithmetic.joins_where:
        return machine.in_float32(function, *operands)
    return machine.computed(operator, function, *operands)


def _read_on(machine: _Machine, array: Array, sizes: Sequence[int]) -> Array:
    """Return an array in other sizes, with memory outside it after its end."""
    count = math.prod(sizes)
    if array.size in (1, count):
        return array
    padding = np.repeat(machine.memory(array.dtype), count - array.size)
    return np.concatenate([array.ravel(), padding]).reshape(sizes)


def _number(node: onnx.NodeProto, name: str, default: int) -> int:
    """Return an attribute of a node that is an integer."""
    for attribute in node.attribute:
        if attribute.name == name:
            return attribute.i
    return default


def _cast(machine: _Machine, node: onnx.NodeProto, operands: Sequence[Array]) -> Array:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(_number(node, "to", 0))
    return machine.held(operands[0], dtype, machine.arithmetic.casts)


def _clip(machine: _Machine, _: onnx.NodeProto, operands: Sequence[Array]) -> Array:
    array, *ends = operands
    for operator, end in zip(("Max", "Min"), ends, strict=False):
        if end.size:
            array = machine.computed(operator, _ELEMENTWISE[operator], array, end)
    return array


def _reshape(_: _Machine, __: onnx.NodeProto, operands: Sequence[Array]) -> Array:
    array, sizes = operands
    return array.reshape([int(size) for size in sizes])


def _expand(_: _Machine, __: onnx.NodeProto, operands: Sequence[Array]) -> Array:
    array, sizes = operands
    wanted = [int(size) for size in sizes]
    return np.broadcast_to(array, np.broadcast_shapes(array.shape, wanted))


def _concat(_: _Machine, node: onnx.NodeProto, operands: Sequence[Array]) -> Array:
    # Case: padding, held in another type than the data.
    dtype = operands[0].dtype
    return np.concatenate(
        operands, _number(node, "axis", 0), dtype=dtype, casting="unsafe"
    )


def _reduce_sum(
    machine: _Machine, node: onnx.NodeProto, operands: Sequence[Array]
) -> Array:
    array, axes = operands
    keeps = bool(_number(node, "keepdims", 1))
    along = tuple(int(axis) for axis in axes)

    def total(terms: Array) -> Array:
        return terms.sum(axis=along, keepdims=keeps, dtype=terms.dtype)

    return machine.computed("ReduceSum", total, array)


def _scatter(_: _Machine, node: onnx.NodeProto, operands: Sequence[Array]) -> Array:
    array, indices, updates = operands
    result = array.astype(updates.dtype)
    axis = _number(node, "axis", 0)
    np.put_along_axis(result, indices.astype(np.int64), updates, axis)
    return result


def _gather(
    machine: _Machine, node: onnx.NodeProto, operands: Sequence[Array]
) -> Array:
    data, indices = operands
    axis = _number(node, "axis", 0) % data.ndim
    # The output has the sizes of the indices in place of the axis.
    sizes = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    strides = packed_strides(data.shape)
    before = strides[:axis]
    behind = strides[axis + 1 :]
    of_indices = [0] * indices.ndim
    base = _offsets(sizes, [*before, *of_indices, *behind])
    coordinates = indices.reshape(indices.shape + (1,) * len(behind))
    output = _read(machine, node, data, base, [(coordinates, axis)])
    if machine.arithmetic.copies_first_text and data.dtype.kind == "O":
        # The elements of a slice stand behind the axis.
        place = _offsets(sizes, [*[0] * axis, *of_indices, *behind])
        return np.where(place == 0, output, np.array("", object))
    return output


def _gather_elements(
    machine: _Machine, node: onnx.NodeProto, operands: Sequence[Array]
) -> Array:
    data, indices = operands
    axis = _number(node, "axis", 0) % data.ndim
    strides = packed_strides(data.shape)
    base = _offsets(indices.shape, [*strides[:axis], 0, *strides[axis + 1 :]])
    return _read(machine, node, data, base, [(indices, axis)])


def _gather_nd(
    machine: _Machine, node: onnx.NodeProto, operands: Sequence[Array]
) -> Array:
    data, indices = operands
    batches = _number(node, "batch_dims", 0)
    length = indices.shape[-1]
    rows = indices.shape[:-1]
    sizes = (*rows, *data.shape[batches + length :])
    rule = machine.arithmetic.gathers.get(node.op_type, AS_ONNX_SAYS)
    strides = packed_strides(data.shape)
    behind = strides[batches + length :]
    base = _offsets(sizes, [*[0] * len(rows), *behind])
    counted = rows if rule.batches_by_indices else data.shape
    of_batches = packed_strides(counted[:batches])[:batches]
    batch = _offsets(sizes, [*of_batches, *[0] * (len(sizes) - batches)])
    each = np.zeros(sizes, indices.dtype)
    if rule.adds_batch_to_each:
        chosen = math.prod(data.shape[batches : batches + length])
        each = (batch * chosen).astype(indices.dtype)
    else:
        base += batch * math.prod(data.shape[batches:])
    coordinates: list[tuple[Array, int]] = []
    for place in range(length):
        coordinate = indices[..., place].reshape(rows + (1,) * len(behind))
        coordinates.append((coordinate + each, batches + place))
    return _read(machine, node, data, base, coordinates)


def _offsets(sizes: Sequence[int], strides: Sequence[int]) -> Array:
    """Return the offsets of the elements of an output, but for those of the indices."""
    offsets = np.zeros(sizes, np.int64)
    for along, stride in zip(np.indices(sizes), strides, strict=True):
        offsets += along * stride
    return offsets


def _read(
    machine: _Machine,
    node: onnx.NodeProto,
    data: Array,
    base: Array,
    coordinates: Sequence[tuple[Array, int]],
) -> Array:
    """Return the elements that a gather of the machine reads.

    Args:
        machine: The machine.
        node: The gather.
        data: The data.
        base: The offset of each element of the output, without the indices.
        coordinates: The indices of each element, each with the axis that it counts.
    """
    rule = machine.arithmetic.gathers.get(node.op_type, AS_ONNX_SAYS)
    strides = packed_strides(data.shape)
    offsets = base.copy()
    is_zero = np.zeros(base.shape, bool)
    for values, axis in coordinates:
        size = data.shape[axis]
        if rule.index_type is not None:
            values = values.astype(rule.index_type)
        index = values.astype(np.int64)
        is_negative = (index < 0) & (index >= -size)
        if rule.negative == "from-the-end":
            index = np.where(index < 0, index + size, index)
            is_negative = np.zeros(index.shape, bool)
        is_outside = ((index < 0) | (index >= size)) & ~is_negative
        outside = rule.outside
        if rule.outside_short is not None and _is_short(data, values):
            outside = rule.outside_short
        for chosen, how in ((is_negative, rule.negative), (is_outside, outside)):
            if how == "refused" and chosen.any():
                raise IndexError("the runtime refuses the index")
            if how == "zero":
                is_zero |= chosen
            elif how in _MEANT:
                read = _MEANT[how](values, size).astype(np.int64)
                index = np.where(chosen, read, index)
        stride = np.array(strides[axis])
        offsets += machine.computed("Mul", np.multiply, index, stride)
    if "Mul" in machine.arithmetic.in_float32:
        offsets = offsets.astype(np.int32)
    is_beyond = (offsets < 0) | (offsets >= data.size)
    if rule.beyond == "zero":
        is_zero |= is_beyond
    # Two elements behind the data are for what lies outside, and for zero.
    zero = np.array("" if data.dtype.kind == "O" else 0, data.dtype)
    source = [data.ravel(), machine.memory(data.dtype), zero.reshape(1)]
    offsets = np.where(is_beyond, data.size, offsets)
    offsets = np.where(is_zero, data.size + 1, offsets)
    # numpy makes the text of a scalar no array.
    return np.asarray(np.concatenate(source)[offsets], data.dtype)


def _is_short(data: Array, indices: Array) -> bool:
    """Return whether `GatherRule.outside_short` is about data and indices."""
    is_of_integers = data.dtype.kind in "iu" and data.itemsize > 1
    are_vectors = all(each.ndim <= 1 and each.size <= 64 for each in (data, indices))
    return is_of_integers and are_vectors


def _modulo(index: Array, size: int) -> Array:
    return index % max(size, 1)


def _modulo_of_sum(index: Array, size: int) -> Array:
    return _sum(index, size) % max(size, 1)


def _remainder_of_sum(index: Array, size: int) -> Array:
    return np.fmod(_sum(index, size), max(size, 1))


def _sum(index: Array, size: int) -> Array:
    """Return the sum of indices and a size, in the type of the indices."""
    return (index + np.array(size, index.dtype)).astype(np.int64)


def _clamp(index: Array, size: int) -> Array:
    return np.clip(index, 0, max(size - 1, 0))


_MEANT: Mapping[str, Callable[[Array, int], Array]] = {
    "modulo": _modulo,
    "modulo-of-sum": _modulo_of_sum,
    "remainder-of-sum": _remainder_of_sum,
    "clamp": _clamp,
}
"""The index that a runtime reads in place of one that is negative or out of range."""

_ELEMENTWISE: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Equal": np.equal,
    "Less": np.less,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Where": np.where,
}
"""The operators that compute each element alone."""

_OPERATORS: Mapping[str, _Operator] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Expand": _expand,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ReduceSum": _reduce_sum,
    "Reshape": _reshape,
    "ScatterElements": _scatter,
}
"""The operators that a lowering emits."""
