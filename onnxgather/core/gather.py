"""A gather: which sizes count, what is indexed, where the output comes from.

A descriptor and an ONNX node are two ways to write a gather. DirectML gives all tensors
the same DimensionCount, and fills their sizes up with leading ones. The other sizes are
those that *count*: ONNX has these sizes and no others. `Geometry` holds the sizes that
count, and makes a descriptor or a node of them.

`reference` and the rules of the descriptors do not use this module, so that they see
its mistakes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from onnxgather.core.checks import (
    MAX_DIMENSIONS,
    check_choice,
    integer,
    plain_text,
    require,
    sequence,
    shown,
    uints,
)
from onnxgather.core.descriptors.datatypes import GATHERED_TYPES
from onnxgather.core.descriptors.operators import (
    FACTS,
    TENSORS,
    Descriptor,
    GatherDesc,
    GatherElementsDesc,
    GatherND1Desc,
    GatherNDDesc,
    header_names,
)
from onnxgather.core.descriptors.strides import without_ones
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import DescriptorError
from onnxgather.core.public import public

Sizes = tuple[int, ...]

ATTRIBUTES = {row.onnx: row.attribute for row in FACTS.values()}
"""The attribute of each ONNX operator: axis or batch_dims."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """The sizes of a gather, and what its operator does with them.

    Dimensions are numbered from the end: -1 is the last. So the numbers are right
    however many leading ones a tensor has.

    Args:
        operator: DirectML's name: GATHER, GATHER_ELEMENTS, GATHER_ND or GATHER_ND1.
        data: The sizes of InputTensor that count.
        indices: The sizes of IndicesTensor that count; () is a single index. Of
            GATHER_ND and GATHER_ND1 the last is the length of an index tuple.
        number: The `axis` or `batch_dims` of the ONNX operator. Of GATHER and
            GATHER_ELEMENTS it is the dimension of the data that is indexed, of
            GATHER_ND1 how many of the first sizes are batches, of GATHER_ND 0.
        dimension_count: The DimensionCount of the descriptor. A number too small for
            the sizes, such as 0, stands for the smallest that is large enough.
    """

    operator: str
    data: Sizes
    indices: Sizes
    number: int = 0
    dimension_count: int = 0

    @property
    def onnx(self) -> str:
        """The name of the ONNX operator."""
        return FACTS[self.operator].onnx

    @property
    def attribute(self) -> str:
        """The ONNX operator's name for `number`: axis or batch_dims."""
        return FACTS[self.operator].attribute

    @property
    def has_tuples(self) -> bool:
        """Whether the last size of the indices counts the coordinates of a tuple."""
        return self.onnx == "GatherND"

    @property
    def tuple_size(self) -> int:
        """The number of coordinates of an index."""
        # A node that ONNX forbids may have tuples and no sizes.
        return self.indices[-1] if self.has_tuples and self.indices else 1

    @property
    def indexed(self) -> range:
        """The indexed dimensions of the data, as many as an index has coordinates."""
        first = self.number - len(self.data)
        return range(first, first + self.tuple_size)

    @property
    def axes(self) -> Sizes:
        """The sizes of the indexed dimensions."""
        return self.data[self.number : self.number + self.tuple_size]

    @property
    def behind(self) -> Sizes:
        """The sizes of the data behind the indexed dimensions.

        In a packed tensor, the elements along them adjoin.
        """
        return self.data[self.number + self.tuple_size :]

    @property
    def per_index(self) -> Sizes:
        """The sizes of the indices without the length of a tuple."""
        return self.indices[:-1] if self.has_tuples else self.indices

    @property
    def after(self) -> int:
        """The number of dimensions of the output that follow those of the indices."""
        return 0 if self.onnx == "GatherElements" else len(self.behind)

    @property
    def output(self) -> Sizes:
        """The sizes of the output that count, without leading ones."""
        if self.onnx == "GatherElements":
            return self.indices
        if self.has_tuples:
            return self.indices[:-1] + self.behind
        return self.data[: self.number] + self.indices + self.behind

    @property
    def passed(self) -> list[tuple[int, int]]:
        """The dimensions of the data that are not indexed, as pairs (output's, data's).

        The coordinate along a dimension that is not indexed is the same in the output
        and in the data. The dimensions in front of the indexed dimensions come first,
        then those behind.
        """
        rank = len(self.data)
        output_rank = len(self.output)
        # The dimensions in front, batches included, are the first of the output, and
        # those behind are the last.
        in_front = [(axis - output_rank, axis - rank) for axis in range(self.number)]
        first_behind = self.number + self.tuple_size - rank
        behind = [(from_end, from_end) for from_end in range(first_behind, 0)]
        return in_front + behind

    def spread(self, shape: Sizes, rank: int) -> Sizes:
        """Return a shape per index as a shape that broadcasts to the output.

        Args:
            shape: The shape, such as `per_index`.
            rank: The number of dimensions of the output, leading ones included.
        """
        after = self.after
        return (1,) * (rank - after - len(shape)) + shape + (1,) * after

    # The way to a descriptor.

    def tensor_sizes(self) -> tuple[Sizes, Sizes, Sizes]:
        """Return the sizes of InputTensor, IndicesTensor and OutputTensor.

        Leading ones are included.
        """
        data = self.data
        indices = self.indices
        output = self.output
        longest = max(len(data), len(indices), len(output))
        ones = (1,) * max(1, self.dimension_count, longest)
        return (
            ones[len(data) :] + data,
            ones[len(indices) :] + indices,
            ones[len(output) :] + output,
        )

    def descriptor(self, tensors: Sequence[TensorDesc]) -> Descriptor:
        """Return the descriptor of the gather, with three tensors of `tensor_sizes`.

        With the smallest DimensionCount it is the descriptor that ONNX Runtime's
        DirectML provider makes of the ONNX node (source: its DmlOperatorGather.cpp).

        Args:
            tensors: InputTensor, IndicesTensor and OutputTensor.

        Raises:
            DescriptorError: The descriptor breaks a rule of DirectML.
        """
        data, indices, output = tensors
        rank = len(self.data)
        index_rank = len(self.indices)
        axis = self.number + data.dimension_count - rank
        if self.operator == "GATHER":
            return GatherDesc(data, indices, output, axis, index_rank)
        if self.operator == "GATHER_ELEMENTS":
            return GatherElementsDesc(data, indices, output, axis)
        if self.operator == "GATHER_ND":
            return GatherNDDesc(data, indices, output, rank, index_rank)
        return GatherND1Desc(data, indices, output, rank, index_rank, self.number)

    # The way to an ONNX node.

    def node(self) -> Geometry:
        """Return the gather whose ONNX node computes this gather.

        The node's ranks are at most the 8 that DirectML accepts. Its shapes and
        attribute are the `data`, `indices` and `number` of the result. Its output has
        all DimensionCount dimensions, or fewer leading ones where only that fits.
        """
        gathers = self._nodes()
        return next(
            gather
            for gather in gathers
            if max(len(gather.data), len(gather.indices)) <= MAX_DIMENSIONS
        )

    def _nodes(self) -> Iterator[Geometry]:
        """Yield gathers that have the leading ones of the output in data or indices.

        The last gather adds none, except where the output would be a scalar, which
        DirectML does not have.
        """
        data = self.data
        indices = self.indices
        number = self.number
        output = self.tensor_sizes()[2]
        ones = output[: len(output) - len(self.output)]

        # Case 1: the output has no leading ones.
        if not ones:
            yield self
        # Case 2: the first dimensions are those of both, so both get the ones.
        elif self.onnx == "GatherElements" or (self.has_tuples and number):
            yield replace(
                self,
                data=ones + data,
                indices=ones + indices,
                number=number + len(ones),
            )
        # Case 3: tuples without batches: the first dimensions are those of the indices.
        elif self.has_tuples:
            yield replace(self, indices=ones + indices)
        # Case 4: Gather: the first dimensions are those of the data in front of the
        # axis.
        else:
            yield replace(self, data=ones + data, number=number + len(ones))
            # Only ones are in front of the indices, so these may have further ones.
            if math.prod(data[:number]) == 1:
                yield replace(self, indices=ones + indices)

        # Batches of a single element need not be batches.
        if self.has_tuples and number and math.prod(data[:number]) == 1:
            merged = (1,) * number + ones + indices[number:]
            yield replace(self, data=data[number:], indices=merged, number=0)
        yield self if self.output else replace(self, indices=(1, *indices))

    def broken_rule(
        self, index_type: str = "INT64", data_type: str = "FLOAT32"
    ) -> str | None:
        """Return the rule of the ONNX operator that the gather breaks.

        It is broken by the sizes or by a data type. None means that ONNX allows the
        node. Source: Gather-13, GatherElements-13 and GatherND-13.
        """
        rule = self._broken_by_sizes()
        if rule is not None:
            return rule
        types = FACTS[self.operator].onnx_index_types
        if index_type not in types:
            return f"indices must be {' or '.join(types)}, got {index_type}"
        if data_type not in GATHERED_TYPES:
            return f"data must be {', '.join(GATHERED_TYPES)}, got {data_type}"
        return None

    def _broken_by_sizes(self) -> str | None:
        data = self.data
        indices = self.indices
        rank = len(data)
        if not data or (self.has_tuples and not indices):
            scalar = "indices" if data else "data"
            return f"{scalar} must have a dimension, got a scalar"
        if self.has_tuples:
            return self._broken_by_tuples()
        number = self.number
        if not -rank <= number < rank:
            return f"axis must be in [{-rank}, {rank}), got {number}"
        if self.onnx == "Gather":
            return None

        # GatherElements: the indices may be cut short, but at the axis alone longer.
        if len(indices) != rank:
            return f"indices must have the rank of data ({rank}), got {len(indices)}"
        for axis in range(rank):
            if axis != number % rank and indices[axis] > data[axis]:
                rule = "no size of indices but that at axis may exceed data's"
                return f"{rule} {list(data)}, got {list(indices)}"
        return None

    def _broken_by_tuples(self) -> str | None:
        data = self.data
        indices = self.indices
        number = self.number
        lower_rank = min(len(data), len(indices))
        if not 0 <= number < lower_rank:
            rule = "batch_dims must be at least 0 and less than both ranks"
            return f"{rule} ({lower_rank}), got {number}"
        longest = len(data) - number
        if not 1 <= indices[-1] <= longest:
            rule = "the last size of indices must be 1 to rank(data) - batch_dims"
            return f"{rule} ({longest}), got {indices[-1]}"
        batches = data[:number]
        index_batches = indices[:number]
        if batches != index_batches:
            rule = f"the first batch_dims ({number}) sizes of indices must be those of"
            return f"{rule} data, {list(batches)}, got {list(index_batches)}"
        return None


def gather_of(desc: Descriptor) -> Geometry:
    """Return the gather of a descriptor."""
    data = desc.input_tensor.sizes
    indices = desc.indices_tensor.sizes
    count = len(data)
    if isinstance(desc, GatherElementsDesc):
        return Geometry(desc.operator, data, indices, desc.axis, count)
    if isinstance(desc, GatherDesc):
        # The output has DimensionCount dimensions too, so it crops as many leading ones
        # as the indices add dimensions: those of the input before Axis, and then those
        # of the indices.
        counted = min(desc.index_dimensions, desc.axis + 1)
        cropped = max(0, counted - 1)
        indices = indices[count - counted :]
        axis = desc.axis - cropped
        return Geometry(desc.operator, data[cropped:], indices, axis, count)
    data = data[count - desc.input_dimension_count :]
    indices = indices[count - desc.indices_dimension_count :]
    return Geometry(desc.operator, data, indices, desc.batches, count)


def in_static_graph(desc: Descriptor) -> Descriptor:
    """Return the descriptor of packed data with the strides of a compiled graph.

    ONNX Runtime's DirectML provider has DirectML compile a graph of nodes whose shapes
    are static. The graph gives each size of 1 the stride 0, so that every index on such
    an axis reads the same element (measured with ONNX Runtime 1.24.4).
    """
    # Of a size that is not indexed, the coordinate is 0.
    if 1 not in gather_of(desc).axes:
        return desc
    tensor = desc.input_tensor
    strides = without_ones(tensor.sizes, tensor.element_strides)
    strided = msgspec.structs.replace(tensor, strides=strides)
    return msgspec.structs.replace(desc, input_tensor=strided)


def gather_of_node(operator: str, data: Sizes, indices: Sizes, number: int) -> Geometry:
    """Return the gather of an ONNX node, as ONNX Runtime's DirectML provider reads it.

    Args:
        operator: Gather, GatherElements or GatherND.
        data: The shape of its data.
        indices: The shape of its indices.
        number: `axis`, which may count from the end, or `batch_dims`.
    """
    # Of GatherND the provider makes GATHER_ND1, the last row of the table with that
    # ONNX operator.
    directml = {row.onnx: name for name, row in FACTS.items()}[operator]
    if operator != "GatherND" and -len(data) <= number < 0:
        number += len(data)
    return Geometry(directml, data, indices, number)


@public
def from_onnx(
    op_type: str,
    data: TensorDesc | tuple[str, Sequence[int]],
    indices: TensorDesc | tuple[str, Sequence[int]],
    axis: int = 0,
    batch_dims: int = 0,
    static: bool = False,
) -> Descriptor:
    """Return the descriptor that ONNX Runtime's DirectML provider makes of a node.

    Args:
        op_type: Gather, GatherElements or GatherND.
        data: The type and the shape of the data: a packed `TensorDesc`, or a name such
            as FLOAT32 and sizes. BOOL becomes UINT8.
        indices: Likewise for the indices; the sizes of a scalar are ().
        axis: The attribute of Gather and GatherElements; it may count from the end.
        batch_dims: The attribute of GatherND.
        static: Whether the sizes stand in the model. DirectML then compiles a graph,
            which reads a size of 1 that is indexed by the stride 0. InputTensor has
            these strides, so that its array is the 1-D buffer.

    Raises:
        DescriptorError: The provider refuses the node, or ONNX does; the message has
            the rule. A node with an empty tensor has no descriptor, as the provider
            does nothing there.
        OnnxGatherError: There is no operator of that name.

    Example:
        >>> og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [2]), axis=-1)
        GatherDesc(TensorDesc('FLOAT32', (3, 2)), TensorDesc('INT64', (1, 2)),
        TensorDesc('FLOAT32', (3, 2)), axis=1, index_dimensions=1)
    """
    op_type = check_choice("op_type", op_type, ATTRIBUTES)
    data_type, data_sizes = _type_and_sizes("InputTensor", data)
    index_type, index_sizes = _type_and_sizes("IndicesTensor", indices)
    attribute = ATTRIBUTES[op_type]
    value = axis if attribute == "axis" else batch_dims
    number = integer(value)
    if number is None:
        raise DescriptorError(f"{attribute} must be an integer, got {shown(value)}")
    gather = gather_of_node(op_type, data_sizes, index_sizes, number)
    broken_rule = gather.broken_rule(index_type)
    if broken_rule is not None:
        raise DescriptorError(broken_rule)
    rule = "OutputTensor of GatherND must have a dimension,"
    rule += " as the provider refuses a scalar"
    require(op_type != "GatherND" or gather.output != (), rule, "none")
    header = header_names(GatherDesc)
    types = (data_type, index_type, data_type)
    tensors: list[TensorDesc] = []
    rows = zip(TENSORS, types, gather.tensor_sizes(), strict=True)
    for field, tensor_type, sizes in rows:
        try:
            tensors.append(TensorDesc(tensor_type, sizes))
        except DescriptorError as error:
            raise DescriptorError(f"{header[field]}.{error}") from None
    try:
        desc = gather.descriptor(tensors)
        return in_static_graph(desc) if static else desc
    except DescriptorError as error:
        # The numbers of the descriptor are those of the node, which is as it is.
        message = str(error).removesuffix(error.suggestion)
        raise DescriptorError(message) from None


def _type_and_sizes(name: str, value: object) -> tuple[str, Sizes]:
    if isinstance(value, TensorDesc):
        rule = f"{name}.Strides must be none, as an ONNX value is packed"
        require(value.strides is None, rule, list(value.strides or ()))
        return value.data_type, value.sizes
    pair = sequence(name, value)
    rule = f"{name} must be a TensorDesc, or a type and sizes"
    require(len(pair) == 2, rule, shown(value))
    sizes = uints(f"{name}.Sizes", sequence(f"{name}.Sizes", pair[1]))
    data_type = plain_text(pair[0])
    if not isinstance(data_type, str):
        data_type = shown(data_type)
    if data_type == "BOOL":  # DirectML has no truth values; the provider reads bytes
        data_type = "UINT8"
    return data_type, sizes
