"""One gather, told once: which sizes count, what is indexed, where the output comes from.

A descriptor and an ONNX node say the same in two ways. DirectML gives all tensors one
DimensionCount, and fills their sizes up with leading ones. The other sizes are those
that *count*: ONNX has them and nothing else. `Geometry` holds the sizes that count, and
makes a descriptor or a node of them.

`reference` and the rules of the descriptors do not use this module, so that they see
its mistakes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from onnxgather.core.checks import (
    MAX_DIMENSIONS,
    check_choice,
    integer,
    require,
    sequence,
    shown,
    uints,
)
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
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import DescriptorError

Sizes = tuple[int, ...]

ATTRIBUTES = {row.onnx: row.attribute for row in FACTS.values()}
"""The attribute of each ONNX operator: axis or batch_dims."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """The sizes of a gather, and what its operator does with them.

    Dimensions are numbered from the end, -1 being the last one. So the numbers are
    right however many leading ones a tensor has.

    Args:
        operator: DirectML's name: GATHER, GATHER_ELEMENTS, GATHER_ND or GATHER_ND1.
        data: The sizes of InputTensor that count.
        indices: The sizes of IndicesTensor that count; () is a single index. Of GATHER_ND and
            GATHER_ND1 the last one is the length of an index tuple.
        number: The `axis` or `batch_dims` of the ONNX operator. Of GATHER and GATHER_ELEMENTS it
            is the dimension of the data that is indexed, of GATHER_ND1 how many of the first
            sizes are batches, of GATHER_ND 0.
        dimension_count: The DimensionCount of the descriptor. A number too small for the sizes,
            such as 0, stands for the smallest that is large enough.
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
        """What the ONNX operator calls `number`: axis or batch_dims."""
        return FACTS[self.operator].attribute

    @property
    def has_tuples(self) -> bool:
        """Whether the last size of the indices counts the coordinates of a tuple."""
        return self.onnx == "GatherND"

    @property
    def tuple_size(self) -> int:
        """How many coordinates an index has."""
        return self.indices[-1] if self.has_tuples and self.indices else 1

    @property
    def indexed(self) -> range:
        """The dimensions of the data that are indexed, one per coordinate of an index."""
        first = self.number - len(self.data)
        return range(first, first + self.tuple_size)

    @property
    def axes(self) -> Sizes:
        """The sizes of the indexed dimensions."""
        return self.data[self.number : self.number + self.tuple_size]

    @property
    def behind(self) -> Sizes:
        """The sizes of the data behind the indexed dimensions; packed, these elements adjoin."""
        return self.data[self.number + self.tuple_size :]

    @property
    def per_index(self) -> Sizes:
        """The sizes of the indices without the length of a tuple: one element per index."""
        return self.indices[:-1] if self.has_tuples else self.indices

    @property
    def after(self) -> int:
        """How many dimensions of the output follow those of the indices."""
        return 0 if self.onnx == "GatherElements" else len(self.behind)

    @property
    def output(self) -> Sizes:
        """The sizes of the output that count; leading ones fill it up to DimensionCount."""
        if self.onnx == "GatherElements":
            return self.indices
        if self.has_tuples:
            return self.indices[:-1] + self.behind
        return self.data[: self.number] + self.indices + self.behind

    @property
    def passed(self) -> list[tuple[int, int]]:
        """The dimensions of the data that are not indexed, as pairs (output's, data's).

        The coordinate along such a dimension is the same in the output and in the data.
        The dimensions in front of the indexed ones come first, then those behind.
        """
        rank, count = len(self.data), len(self.output)
        behind = range(self.number + self.tuple_size, rank)
        # Dimensions in front of the indexed ones, batches included, come first in the
        # output.
        return [(k - count, k - rank) for k in range(self.number)] + [
            (k - rank, k - rank) for k in behind
        ]

    def spread(self, shape: Sizes, rank: int) -> Sizes:
        """A shape per index as one that broadcasts to the output.

        Args:
            shape: The shape, such as `per_index`.
            rank: How many dimensions the output has, leading ones included.
        """
        return (1,) * (rank - self.after - len(shape)) + shape + (1,) * self.after

    # The way to a descriptor.

    def tensor_sizes(self) -> tuple[Sizes, Sizes, Sizes]:
        """The sizes of InputTensor, IndicesTensor and OutputTensor, leading ones included."""
        counted = (self.data, self.indices, self.output)
        ones = (1,) * max(1, self.dimension_count, *map(len, counted))
        data, indices, output = (ones[len(sizes) :] + sizes for sizes in counted)
        return data, indices, output

    def descriptor(self, tensors: Sequence[TensorDesc]) -> Descriptor:
        """The descriptor of the gather, with three tensors that have `tensor_sizes`.

        With the smallest DimensionCount it is the descriptor that ONNX Runtime's
        DirectML provider makes of the ONNX node (source: its DmlOperatorGather.cpp).

        Args:
            tensors: InputTensor, IndicesTensor and OutputTensor.

        Raises:
            DescriptorError: The descriptor breaks a rule of DirectML.
        """
        axis, ranks = self.number - len(self.data), (len(self.data), len(self.indices))
        data, indices, output = tensors
        if self.operator == "GATHER":
            return GatherDesc(
                data, indices, output, axis + data.dimension_count, ranks[1]
            )
        if self.operator == "GATHER_ELEMENTS":
            return GatherElementsDesc(
                data, indices, output, axis + data.dimension_count
            )
        if self.operator == "GATHER_ND":
            return GatherNDDesc(data, indices, output, *ranks)
        return GatherND1Desc(data, indices, output, *ranks, self.number)

    # The way to an ONNX node.

    def node(self) -> Geometry:
        """The gather whose ONNX node computes this one, of ranks up to the 8 that DirectML takes.

        The node's shapes and attribute are the `data`, `indices` and `number` of that
        gather. Its output has all DimensionCount dimensions, or fewer leading ones
        where only that fits.
        """
        gathers = self._nodes()
        return next(
            g for g in gathers if max(len(g.data), len(g.indices)) <= MAX_DIMENSIONS
        )

    def _nodes(self) -> Iterator[Geometry]:
        """Yield gathers that take the leading ones of the output from data or indices.

        The last one takes none, but for an output that would be a scalar: DirectML has
        no such.
        """
        data, indices, number = self.data, self.indices, self.number
        output = self.tensor_sizes()[2]
        ones = output[: len(output) - len(self.output)]
        if not ones:
            yield self
        elif self.onnx == "GatherElements" or (self.has_tuples and number):
            yield replace(
                self,
                data=ones + data,
                indices=ones + indices,
                number=number + len(ones),
            )
        elif self.has_tuples:
            yield replace(self, indices=ones + indices)
        else:
            yield replace(self, data=ones + data, number=number + len(ones))
            if (
                math.prod(data[:number]) == 1
            ):  # then all sizes before those of the indices are ones
                yield replace(self, indices=ones + indices)
        if self.has_tuples and number and math.prod(data[:number]) == 1:
            merged = (1,) * number + ones + indices[number:]
            yield replace(self, data=data[number:], indices=merged, number=0)
        yield self if self.output else replace(self, indices=(1, *indices))

    def broken_rule(self, index_type: str = "INT64") -> str | None:
        """The rule of the ONNX operator that the sizes or the type of the indices break.

        Source: Gather-13, GatherElements-13 and GatherND-13. None where ONNX allows the
        node.
        """
        rule, types = self._broken_by_sizes(), FACTS[self.operator].onnx_index_types
        if rule is None and index_type not in types:
            rule = f"indices must be {' or '.join(types)}, got {index_type}"
        return rule

    def _broken_by_sizes(self) -> str | None:
        data, indices, number, rank = (
            self.data,
            self.indices,
            self.number,
            len(self.data),
        )
        if not rank or not (indices or not self.has_tuples):
            shapes = f"{list(data)} and {list(indices)}"
            return (
                f"what {self.onnx} takes must have a dimension, got the shapes {shapes}"
            )
        if self.has_tuples:
            return self._broken_by_tuples(min(rank, len(indices)))
        if not -rank <= number < rank:
            return f"axis must be in [{-rank}, {rank}), got {number}"
        if self.onnx == "Gather":
            return None
        if len(indices) != rank:
            return f"indices must have the rank of data ({rank}), got {len(indices)}"
        if any(k != number % rank and indices[k] > data[k] for k in range(rank)):
            rule = f"no size of indices but that at axis may exceed data's {list(data)}"
            return f"{rule}, got {list(indices)}"
        return None

    def _broken_by_tuples(self, least: int) -> str | None:
        data, indices, number = self.data, self.indices, self.number
        if not 0 <= number < least:
            return (
                f"batch_dims must be at least 0 and less than both ranks ({least}), got"
                f" {number}"
            )
        longest = len(data) - number
        if not 1 <= indices[-1] <= longest:
            rule = (
                "the last size of indices must be 1 to rank(data) - batch_dims"
                f" ({longest})"
            )
            return f"{rule}, got {indices[-1]}"
        if data[:number] != indices[:number]:
            rule = (
                f"the first batch_dims ({number}) sizes of indices must be those of"
                " data"
            )
            return f"{rule}, {list(data[:number])}, got {list(indices[:number])}"
        return None


def gather_of(desc: Descriptor) -> Geometry:
    """The gather of a descriptor."""
    data, indices = desc.input_tensor.sizes, desc.indices_tensor.sizes
    count = len(data)
    if isinstance(desc, GatherElementsDesc):
        return Geometry(desc.operator, data, indices, desc.axis, count)
    if isinstance(desc, GatherDesc):
        # The output has DimensionCount dimensions too, so it crops as many leading ones
        # as the indices add dimensions: those of the input before Axis, and then those
        # of the indices.
        counted = min(desc.index_dimensions, desc.axis + 1)
        cropped, kept = max(0, counted - 1), count - counted
        return Geometry(
            desc.operator, data[cropped:], indices[kept:], desc.axis - cropped, count
        )
    data = data[count - desc.input_dimension_count :]
    indices = indices[count - desc.indices_dimension_count :]
    return Geometry(desc.operator, data, indices, desc.batches, count)


def gather_of_node(operator: str, data: Sizes, indices: Sizes, number: int) -> Geometry:
    """The gather of an ONNX node, as ONNX Runtime's DirectML provider reads it.

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


def from_onnx(
    op_type: str,
    data: TensorDesc | tuple[str, Sequence[int]],
    indices: TensorDesc | tuple[str, Sequence[int]],
    axis: int = 0,
    batch_dims: int = 0,
) -> Descriptor:
    """The descriptor that ONNX Runtime's DirectML provider makes of an ONNX node.

    Args:
        op_type: Gather, GatherElements or GatherND.
        data: The type and the shape of the data: a packed `TensorDesc`, or a name such as FLOAT32
            and sizes. BOOL becomes UINT8.
        indices: Likewise for the indices; the sizes of a scalar are ().
        axis: The attribute of Gather and GatherElements; it may count from the end.
        batch_dims: The attribute of GatherND.

    Raises:
        DescriptorError: The provider refuses the node, or ONNX does; the message has the rule. A
            node with an empty tensor has no descriptor, as the provider does nothing there.
        OnnxGatherError: There is no such operator.
    """
    check_choice("op_type", op_type, ATTRIBUTES)
    data_type, data_sizes = _type_and_sizes("InputTensor", data)
    index_type, index_sizes = _type_and_sizes("IndicesTensor", indices)
    name = ATTRIBUTES[op_type]
    number = integer(given := axis if name == "axis" else batch_dims)
    if number is None:
        raise DescriptorError(f"{name} must be an integer, got {shown(given)}")
    gather = gather_of_node(op_type, data_sizes, index_sizes, number)
    if (rule := gather.broken_rule(index_type)) is not None:
        raise DescriptorError(rule)
    rule = (
        "OutputTensor of GatherND must have a dimension, as the provider refuses a"
        " scalar"
    )
    require(op_type != "GatherND" or gather.output != (), rule, "none")
    tensors: list[TensorDesc] = []
    types = (data_type, index_type, data_type)
    for field, kind, sizes in zip(TENSORS, types, gather.tensor_sizes(), strict=True):
        try:
            tensors.append(TensorDesc(kind, sizes))
        except DescriptorError as error:
            raise DescriptorError(
                f"{header_names(GatherDesc)[field]}.{error}"
            ) from None
    return gather.descriptor(tensors)


def _type_and_sizes(name: str, given: object) -> tuple[str, Sizes]:
    if isinstance(given, TensorDesc):
        rule = f"{name}.Strides must be none, as an ONNX value is packed"
        require(given.strides is None, rule, list(given.strides or ()))
        return given.data_type, given.sizes
    pair = sequence(name, given)
    require(
        len(pair) == 2,
        f"{name} must be a TensorDesc, or a type and sizes",
        shown(given),
    )
    sizes = uints(f"{name}.Sizes", sequence(f"{name}.Sizes", pair[1]))
    kind = pair[0] if isinstance(pair[0], str) else shown(pair[0])
    return "UINT8" if kind == "BOOL" else kind, sizes
