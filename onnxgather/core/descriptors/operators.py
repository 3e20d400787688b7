"""DirectML's gather descriptors, valid by construction.

One class per C struct, its fields in the struct's order and in snake_case;
`header_names` gives directml.h's spelling back. The rules come from Microsoft's
operator pages, corrected where their own examples contradict them
(docs/disagreements.md).
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from functools import cache
from typing import ClassVar

import msgspec
from msgspec import Struct

from onnxgather.core.checks import MAX_DIMENSIONS, html_table, require, shown, uint
from onnxgather.core.descriptors.argument_names import StructWithHelp
from onnxgather.core.descriptors.datatypes import INDEX_TYPES
from onnxgather.core.descriptors.errata import note
from onnxgather.core.descriptors.strides import overlapping, overlaps
from onnxgather.core.descriptors.tensors import TensorDesc, TensorFlags
from onnxgather.core.errors import DescriptorError
from onnxgather.core.public import public

_INDEX_RULE = f"IndicesTensor.DataType must be one of {', '.join(INDEX_TYPES)}"


class GatherFamilyDesc(
    Struct,
    metaclass=StructWithHelp,
    frozen=True,
    cache_hash=True,
    rename="pascal",
):
    """What the four gather descriptors share: three tensors of one `DimensionCount`."""

    operator: ClassVar[str]
    """The operator's name without DML_OPERATOR_."""

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc

    def __post_init__(self) -> None:
        """Check the rules in the order of the fields."""
        for field in TENSORS:
            tensor: object = getattr(self, field)
            if not isinstance(tensor, TensorDesc):
                rule = f"{header_names(type(self))[field]} must be a TensorDesc"
                raise DescriptorError(f"{rule}, got {shown(tensor)}")
        try:
            self._check_numbers()
            self._check_tensors()
            self._check()
        except DescriptorError as error:
            suggestion = self._suggestion()
            whole = DescriptorError(f"{error}{suggestion}")
            whole.suggestion = suggestion
            raise whole from None

    def __repr__(self) -> str:
        """Return the call that makes it."""
        arguments: list[str] = []
        for name in self.__struct_fields__:
            value: object = getattr(self, name)
            # The tensors explain themselves; a number needs its name to be read.
            arguments.append(f"{value!r}" if name in TENSORS else f"{name}={value}")
        return f"{type(self).__name__}({', '.join(arguments)})"

    def _repr_html_(self) -> str:
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return html_table(type(self).__name__, fields)

    def _check_numbers(self) -> None:
        for field, name in _number_names(type(self)).items():
            # numpy's integers become ints, so that equal descriptors print alike.
            number = uint(name, getattr(self, field))
            msgspec.structs.force_setattr(self, field, number)

    def _suggestion(self) -> str:
        """Return the end of a message: other numbers that make the descriptor valid.

        Each value of each number is tried. The text is empty if none of them, or more
        than two, make the descriptor valid.
        """
        with suppress(DescriptorError):
            self._check_tensors()
            valid = self._valid_numbers()
            if 1 <= len(valid) <= 2:
                return f"; did you mean {' or '.join(valid)}?"
        return ""

    def _valid_numbers(self) -> list[str]:
        """Return the numbers that alone make the descriptor valid, such as `Axis 1`."""
        valid: list[str] = []
        for field, name in _number_names(type(self)).items():
            for number in range(self.input_tensor.dimension_count + 1):
                other = copy(self)
                msgspec.structs.force_setattr(other, field, number)
                with suppress(DescriptorError):
                    other._check_numbers()
                    other._check()
                    valid.append(f"{name} {number}")
        return valid

    def _check_tensors(self) -> None:
        data = self.input_tensor
        indices = self.indices_tensor
        output = self.output_tensor
        require(indices.data_type in INDEX_TYPES, _INDEX_RULE, indices.data_type)
        if output.data_type != data.data_type:
            rule = "OutputTensor.DataType must be that of InputTensor"
            found = f"{output.data_type}{note('OutputTensor.DataType', self)}"
            raise DescriptorError(f"{rule} ({data.data_type}), got {found}")
        data_count = data.dimension_count
        for name, tensor in (("IndicesTensor", indices), ("OutputTensor", output)):
            count = tensor.dimension_count
            rule = f"{name}.DimensionCount must be that of InputTensor ({data_count})"
            require(count == data_count, rule, count)
        rule = "OutputTensor.Flags must be NONE, as only inputs can be OWNED_BY_DML"
        require(output.flags == TensorFlags.NONE, rule, output.flags.name)
        if output.strides is not None:
            # No two elements of the output are written to the same place.
            sizes = output.sizes
            strides = output.strides
            for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
                rule = f"OutputTensor.Strides[{axis}] must be at least 1"
                rule += f" where Sizes[{axis}] is {size}"
                # The stride of a size of 1 moves nothing.
                require(size == 1 or stride > 0, rule, stride)
            if overlaps(sizes, strides):
                rule = (
                    "OutputTensor.Strides must give each element of OutputTensor.Sizes"
                )
                rule += f" {list(sizes)} a place of its own"
                found = f"{list(strides)}{overlapping(sizes, strides)}"
                raise DescriptorError(f"{rule}, got {found}")

    def _check(self) -> None:
        raise NotImplementedError

    def _reason(self) -> str:
        """Return where the sizes of OutputTensor come from, as a message says it."""
        raise NotImplementedError

    def _check_output(self, sizes: tuple[int, ...]) -> None:
        """Check that OutputTensor.Sizes are `sizes` behind leading ones."""
        output = self.output_tensor.sizes
        count = self.output_tensor.dimension_count
        if len(sizes) > count:
            rule = f"OutputTensor.DimensionCount must be at least {len(sizes)}, for the"
            rule += f" sizes {list(sizes)}, {self._reason()}"
            found = f"{count}{note('OutputTensor.Sizes', self)}"
            raise DescriptorError(f"{rule}, got {found}")
        fitted = (1,) * (count - len(sizes)) + sizes
        if output != fitted:
            rule = f"OutputTensor.Sizes must be {list(fitted)}, {self._reason()}"
            found = f"{list(output)}{note('OutputTensor.Sizes', self)}"
            raise DescriptorError(f"{rule}, got {found}")


@public
class GatherDesc(GatherFamilyDesc, frozen=True, cache_hash=True, rename="pascal"):
    """`DML_GATHER_OPERATOR_DESC`: `out[a…, i…, b…] = in[a…, idx[i…], b…]`.

    Args:
        input_tensor: The data.
        indices_tensor: The indices: INT64, INT32, UINT64 or UINT32.
        output_tensor: The result.
        axis: The dimension of InputTensor that is indexed; leading ones are dimensions
            too.
        index_dimensions: How many of the last sizes of IndicesTensor count: 0 (a
            scalar) to DimensionCount.

    Raises:
        DescriptorError: A rule is broken, or the descriptor's meaning is undefined.

    Example:
        >>> desc = og.GatherDesc(
        ...     input_tensor=og.TensorDesc("FLOAT32", [3, 2]),
        ...     indices_tensor=og.TensorDesc("UINT32", [1, 2]),
        ...     output_tensor=og.TensorDesc("FLOAT32", [3, 2]),
        ...     axis=1, index_dimensions=1)
        >>> data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
        >>> og.reference(desc, data, np.array([[1, 0]], np.uint32))
        array([[2., 1.],
               [4., 3.],
               [6., 5.]], dtype=float32)
    """

    operator: ClassVar[str] = "GATHER"
    axis: int
    index_dimensions: int

    def _check(self) -> None:
        data = self.input_tensor.sizes
        indices = self.indices_tensor.sizes
        dimensions = self.index_dimensions
        _check_axis(self.axis, len(data))
        rule = "IndexDimensions must be 0 to IndicesTensor.DimensionCount"
        require(dimensions <= len(indices), f"{rule} ({len(indices)})", dimensions)
        _check_leading_ones("IndicesTensor", indices, "IndexDimensions", dimensions)
        kept = indices[len(indices) - dimensions :]
        sizes = data[: self.axis] + kept + data[self.axis + 1 :]
        # The output has DimensionCount dimensions too, so its first ones are cropped.
        cropped = max(0, dimensions - 1)
        count = self.output_tensor.dimension_count
        if not set(sizes[:cropped]) <= {1}:
            rule = f"OutputTensor.Sizes must be {list(sizes)}, {self._reason()}, as"
            rule += f" only leading ones are cropped to DimensionCount ({count})"
            output = list(self.output_tensor.sizes)
            found = f"{output}{note('OutputTensor.Sizes', self)}"
            raise DescriptorError(f"{rule}, got {found}")
        # Of more than 8 sizes, cropped sizes of the indices are undefined even if 1.
        if cropped > self.axis and len(sizes) > MAX_DIMENSIONS:
            rule = f"Axis must be at least IndexDimensions - 1 ({cropped}), as what the"
            rule += f" output crops of more than {MAX_DIMENSIONS} sizes ({len(sizes)})"
            raise DescriptorError(f"{rule} is undefined otherwise, got {self.axis}")
        self._check_output(sizes[cropped:])

    def _reason(self) -> str:
        numbers = f"Axis {self.axis} and IndexDimensions {self.index_dimensions}"
        return f"which {numbers} give"


@public
class GatherElementsDesc(
    GatherFamilyDesc, frozen=True, cache_hash=True, rename="pascal"
):
    """`DML_GATHER_ELEMENTS_OPERATOR_DESC`: `out[p] = in[p with p[Axis] := idx[p]]`.

    Args:
        input_tensor: The data.
        indices_tensor: The indices: InputTensor's sizes everywhere but at `axis`.
        output_tensor: The result, with the sizes of IndicesTensor.
        axis: The dimension that is indexed.

    Raises:
        DescriptorError: A rule is broken.

    Example:
        >>> desc = og.GatherElementsDesc(
        ...     input_tensor=og.TensorDesc("FLOAT32", [3, 2]),
        ...     indices_tensor=og.TensorDesc("UINT32", [1, 2]),
        ...     output_tensor=og.TensorDesc("FLOAT32", [1, 2]),
        ...     axis=0)
        >>> data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
        >>> og.reference(desc, data, np.array([[2, 0]], np.uint32))
        array([[5., 2.]], dtype=float32)
    """

    operator: ClassVar[str] = "GATHER_ELEMENTS"
    axis: int

    def _check(self) -> None:
        data = self.input_tensor.sizes
        indices = self.indices_tensor.sizes
        _check_axis(self.axis, len(data))
        pairs = zip(indices, data, strict=True)
        for axis, (index_size, size) in enumerate(pairs):
            if axis != self.axis and index_size != size:
                rule = f"IndicesTensor.Sizes[{axis}] must be InputTensor.Sizes[{axis}]"
                rule += f" ({size}), as it is not at Axis"
                raise DescriptorError(f"{rule}, got {index_size}")
        self._check_output(indices)

    def _reason(self) -> str:
        return "those of IndicesTensor"


class _TupleDesc(GatherFamilyDesc, frozen=True, cache_hash=True, rename="pascal"):
    """What GATHER_ND and GATHER_ND1 share; a GATHER_ND has no batches."""

    input_dimension_count: int
    indices_dimension_count: int

    @property
    def batches(self) -> int:
        """BatchDimensionCount, 0 where the descriptor has none."""
        return 0

    @property
    def tuple_size(self) -> int:
        """How many coordinates an index tuple has: the last size of IndicesTensor."""
        return self.indices_tensor.sizes[-1]

    def _check(self) -> None:
        data = self.input_tensor.sizes
        indices = self.indices_tensor.sizes
        self._check_counts(len(data))

        rank = self.input_dimension_count
        index_rank = self.indices_dimension_count
        _check_leading_ones("InputTensor", data, "InputDimensionCount", rank)
        _check_leading_ones(
            "IndicesTensor", indices, "IndicesDimensionCount", index_rank
        )
        # From here on only the sizes that count.
        data = data[len(data) - rank :]
        indices = indices[len(indices) - index_rank :]
        self._check_tuples_and_batches(data, indices)

        behind = data[self.batches + self.tuple_size :]
        self._check_output(indices[:-1] + behind)

    def _reason(self) -> str:
        names = _number_names(type(self))
        texts = [f"{name} {getattr(self, field)}" for field, name in names.items()]
        numbers = ", ".join(texts)
        return f"which {numbers} and index tuples of {self.tuple_size} give"

    def _check_counts(self, count: int) -> None:
        """Check the three counts; `count` is the DimensionCount of the tensors."""
        batches = self.batches
        rank = self.input_dimension_count
        index_rank = self.indices_dimension_count
        for name, value in (("Input", rank), ("Indices", index_rank)):
            rule = f"{name}DimensionCount must be 1 to {name}Tensor.DimensionCount"
            require(1 <= value <= count, f"{rule} ({count})", value)
        rule = f"BatchDimensionCount must be less than DimensionCount ({count})"
        require(batches < count, rule, batches)
        if batches >= min(rank, index_rank):
            rule = f"BatchDimensionCount must be less than InputDimensionCount ({rank})"
            rule += f" and IndicesDimensionCount ({index_rank})"
            found = f"{batches}{note('BatchDimensionCount', self)}"
            raise DescriptorError(f"{rule}, got {found}")

    def _check_tuples_and_batches(
        self, data: tuple[int, ...], indices: tuple[int, ...]
    ) -> None:
        """Check the sizes that count: those of tuples and those of batches."""
        batches = self.batches
        tuple_size = self.tuple_size
        longest = len(data) - batches
        if tuple_size > longest:
            last = self.indices_tensor.dimension_count - 1
            limit = "InputDimensionCount"
            if batches:
                limit += " - BatchDimensionCount"
            rule = f"IndicesTensor.Sizes[{last}], the size of an index tuple, must be"
            rule += f" at most {limit} ({longest})"
            found = f"{tuple_size}{note('IndicesTensor.Sizes', self)}"
            raise DescriptorError(f"{rule}, got {found}")
        if data[:batches] != indices[:batches]:
            rule = f"The BatchDimensionCount ({batches}) batch sizes of IndicesTensor"
            rule += f" must be those of InputTensor, {list(data[:batches])}, as what"
            rule += " others mean is undefined"
            raise DescriptorError(f"{rule}, got {list(indices[:batches])}")


@public
class GatherNDDesc(_TupleDesc, frozen=True, cache_hash=True, rename="pascal"):
    """`DML_GATHER_ND_OPERATOR_DESC`: an index is a tuple of coordinates.

    `out[i…, s…] = in[idx[i…, 0], …, idx[i…, t-1], s…]`

    Args:
        input_tensor: The data.
        indices_tensor: Tuples of t coordinates along the last dimension.
        output_tensor: The result.
        input_dimension_count: How many of the last sizes of InputTensor count.
        indices_dimension_count: How many of the last sizes of IndicesTensor count.

    Raises:
        DescriptorError: A rule is broken.

    Example:
        >>> desc = og.GatherNDDesc(
        ...     input_tensor=og.TensorDesc("FLOAT32", [3, 2]),
        ...     indices_tensor=og.TensorDesc("UINT32", [2, 2]),
        ...     output_tensor=og.TensorDesc("FLOAT32", [1, 2]),
        ...     input_dimension_count=2, indices_dimension_count=2)
        >>> data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
        >>> og.reference(desc, data, np.array([[0, 1], [2, 0]], np.uint32))
        array([[2., 5.]], dtype=float32)
    """

    operator: ClassVar[str] = "GATHER_ND"


@public
class GatherND1Desc(_TupleDesc, frozen=True, cache_hash=True, rename="pascal"):
    """`DML_GATHER_ND1_OPERATOR_DESC`: GATHER_ND in each of the batches.

    `out[n…, i…, s…] = in[n…, idx[n…, i…, 0], …, idx[n…, i…, t-1], s…]`

    Args:
        input_tensor: The data.
        indices_tensor: Tuples of t coordinates along the last dimension.
        output_tensor: The result.
        input_dimension_count: How many of the last sizes of InputTensor count.
        indices_dimension_count: How many of the last sizes of IndicesTensor count.
        batch_dimension_count: How many of the sizes that count, the first ones, are
            batches.

    Raises:
        DescriptorError: A rule is broken, or the descriptor's meaning is undefined.

    Example:
        >>> desc = og.GatherND1Desc(
        ...     input_tensor=og.TensorDesc("FLOAT32", [3, 2]),
        ...     indices_tensor=og.TensorDesc("UINT32", [3, 1]),
        ...     output_tensor=og.TensorDesc("FLOAT32", [1, 3]),
        ...     input_dimension_count=2, indices_dimension_count=2,
        ...     batch_dimension_count=1)
        >>> data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
        >>> og.reference(desc, data, np.array([[1], [0], [1]], np.uint32))
        array([[2., 3., 6.]], dtype=float32)
    """

    operator: ClassVar[str] = "GATHER_ND1"
    batch_dimension_count: int

    @property
    def batches(self) -> int:
        """BatchDimensionCount."""
        return self.batch_dimension_count


Descriptor = GatherDesc | GatherElementsDesc | GatherNDDesc | GatherND1Desc
"""Any of the four gather descriptors."""

TENSORS = ("input_tensor", "indices_tensor", "output_tensor")


class Operator(Struct, frozen=True):
    """A DirectML operator."""

    descriptor: type[Descriptor]
    """The class of its descriptor."""
    number: int
    """Its DML_OPERATOR_TYPE in DirectML.h."""
    feature_level: str
    """The lowest DirectML feature level that has the operator."""
    onnx: str
    """The ONNX operator that computes the same."""
    attribute: str
    """The attribute of the ONNX operator: axis or batch_dims."""
    onnx_index_types: tuple[str, ...]
    """The types of indices that the ONNX operator accepts, since opset 13."""


_BOTH = ("INT32", "INT64")
_INT64 = ("INT64",)

FACTS = {
    "GATHER": Operator(GatherDesc, 67, "1_0", "Gather", "axis", _BOTH),
    "GATHER_ELEMENTS": Operator(
        GatherElementsDesc, 107, "2_1", "GatherElements", "axis", _BOTH
    ),
    "GATHER_ND": Operator(GatherNDDesc, 108, "2_1", "GatherND", "batch_dims", _INT64),
    "GATHER_ND1": Operator(GatherND1Desc, 140, "3_0", "GatherND", "batch_dims", _INT64),
}
"""The facts of each operator, by its name without DML_OPERATOR_."""

OPERATORS: dict[str, type[Descriptor]] = {
    name: row.descriptor for name, row in FACTS.items()
}
"""The descriptor class of each operator."""


@cache
def header_names(struct: type[Struct]) -> dict[str, str]:
    """Return the names of a class's fields with their spelling in directml.h.

    They are in the header's order.
    """
    return {field.name: field.encode_name for field in msgspec.structs.fields(struct)}


@cache
def _number_names(struct: type[Struct]) -> dict[str, str]:
    """Return the `header_names` of the fields that are numbers."""
    names = header_names(struct)
    return {field: name for field, name in names.items() if field not in TENSORS}


def _check_axis(axis: int, count: int) -> None:
    rule = f"Axis must be less than InputTensor.DimensionCount ({count})"
    require(axis < count, rule, axis)


def _check_leading_ones(
    tensor: str, sizes: tuple[int, ...], count_name: str, count: int
) -> None:
    leading = sizes[: len(sizes) - count]
    rule = f"{tensor}.Sizes before the last {count_name} ({count}) must be 1,"
    rule += " as what others mean is undefined"
    require(set(leading) <= {1}, rule, list(sizes))
