"""One tensor of a descriptor: `DML_BUFFER_TENSOR_DESC`, valid by construction."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from onnxgather.core.checks import (
    MAX_DIMENSIONS,
    MAX_ELEMENTS,
    require,
    sequence,
    shown_with_suggestion,
    uint,
    uints,
)
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.strides import in_order, packed_strides
from onnxgather.core.errors import DescriptorError

FLAG_PREFIX = "DML_TENSOR_FLAG_"

LEAST_ALIGNMENT = 16
"""`DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT`; CreateOperator refuses a smaller one
(measured)."""


class TensorFlags(enum.IntFlag, boundary=enum.STRICT):
    """`DML_TENSOR_FLAGS`."""

    NONE = 0
    OWNED_BY_DML = 1

    @classmethod
    def parse(cls, value: object) -> TensorFlags:
        """The flags with a name or a sequence of names in the short or long spelling.

        Raises:
            DescriptorError: A name is not a flag.
        """
        if isinstance(value, TensorFlags):
            return value
        flags = cls.NONE
        names: list[Any] = (
            [value] if isinstance(value, str) else sequence("Flags", value)
        )
        for name in names:
            short = name.removeprefix(FLAG_PREFIX) if isinstance(name, str) else None
            if not isinstance(short, str) or short not in cls.__members__:
                found = shown_with_suggestion(name, cls.__members__, FLAG_PREFIX)
                raise DescriptorError(
                    f"Flags must be NONE or OWNED_BY_DML, got {found}"
                )
            flags |= cls[short]
        return flags

    _missing_ = parse


class TensorDesc(msgspec.Struct, frozen=True, cache_hash=True, rename="pascal"):
    """`DML_BUFFER_TENSOR_DESC`: the data type, sizes and strides of a tensor in a buffer.

    Args:
        data_type: A `TensorDataType` or its name.
        sizes: 1 to 8 sizes, each at least 1.
        strides: In elements, one per size; None means packed. 0 repeats an element. The array
            that stands for a tensor with strides is its 1-D buffer of `element_count` elements;
            without strides it is an array of shape `sizes`.
        total_tensor_size_in_bytes: The bytes of the buffer; None or 0 means the smallest legal
            number, a multiple of 4.
        flags: A `TensorFlags`, a name or names.
        guaranteed_base_offset_alignment: 0, or a power of two of at least 16 (measured).

    Raises:
        DescriptorError: A value breaks a rule; the message starts with the field's name.
    """

    data_type: TensorDataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    total_tensor_size_in_bytes: int = 0
    flags: TensorFlags = TensorFlags.NONE
    guaranteed_base_offset_alignment: int = 0

    if TYPE_CHECKING:

        def __init__(
            self,
            data_type: TensorDataType | str,
            sizes: Sequence[int],
            strides: Sequence[int] | None = None,
            total_tensor_size_in_bytes: int | None = None,
            flags: TensorFlags | str | Sequence[str] = TensorFlags.NONE,
            guaranteed_base_offset_alignment: int = 0,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Convert every field to its own type and check the rules of a single tensor."""
        put = msgspec.structs.force_setattr
        put(self, "data_type", TensorDataType.parse(self.data_type))
        given = sequence("Sizes", self.sizes)
        count = len(given)
        require(1 <= count <= MAX_DIMENSIONS, "DimensionCount must be 1 to 8", count)
        sizes = uints("Sizes", given)
        if 0 in sizes:
            raise DescriptorError(f"Sizes[{sizes.index(0)}] must be at least 1, got 0")
        put(self, "sizes", sizes)
        if self.strides is not None:
            values = sequence("Strides", self.strides)
            rule = f"Strides must have as many elements as Sizes ({count})"
            require(len(values) == count, rule, len(values))
            put(self, "strides", uints("Strides", values))
        elements = max(math.prod(sizes), self.span)
        rule = f"Sizes and Strides must describe at most {MAX_ELEMENTS} elements"
        require(elements <= MAX_ELEMENTS, rule, elements)
        self._check_buffer()

    def _check_buffer(self) -> None:
        put = msgspec.structs.force_setattr
        given = cast("object", self.total_tensor_size_in_bytes)
        total = uint(
            "TotalTensorSizeInBytes", 0 if given is None else given, MAX_ELEMENTS * 8
        )
        smallest = self.default_total_tensor_size_in_bytes
        total = total or smallest
        require(
            total >= smallest,
            f"TotalTensorSizeInBytes must be at least {smallest}",
            total,
        )
        put(self, "total_tensor_size_in_bytes", total)
        rule = f"TotalTensorSizeInBytes must hold at most {MAX_ELEMENTS} elements"
        require(self.reachable_count <= MAX_ELEMENTS, rule, self.reachable_count)
        put(self, "flags", TensorFlags.parse(self.flags))
        alignment = uint(
            "GuaranteedBaseOffsetAlignment", self.guaranteed_base_offset_alignment
        )
        put(self, "guaranteed_base_offset_alignment", alignment)
        rule = (
            "GuaranteedBaseOffsetAlignment must be 0 or a power of two from"
            f" {LEAST_ALIGNMENT}"
        )
        aligns = alignment >= LEAST_ALIGNMENT and alignment.bit_count() == 1
        require(alignment == 0 or aligns, rule, alignment)

    def arguments(self) -> dict[str, str | int | tuple[int, ...]]:
        """The fields that make it, without those that have their defaults."""
        total = self.total_tensor_size_in_bytes
        fields = {
            "data_type": str(self.data_type),
            "sizes": self.sizes,
            "strides": self.strides,
            "total_tensor_size_in_bytes": (
                total - self.default_total_tensor_size_in_bytes and total
            ),
            "flags": self.flags.name if self.flags else None,
            "guaranteed_base_offset_alignment": self.guaranteed_base_offset_alignment,
        }
        return {name: value for name, value in fields.items() if value}

    def __repr__(self) -> str:
        """The call that makes it."""
        fields = self.arguments()
        unnamed = f"{fields.pop('data_type')!r}, {fields.pop('sizes')}"
        named = "".join(f", {name}={value!r}" for name, value in fields.items())
        return f"TensorDesc({unnamed}{named})"

    @property
    def dimension_count(self) -> int:
        """`DimensionCount`: the number of sizes."""
        return len(self.sizes)

    @property
    def element_strides(self) -> tuple[int, ...]:
        """The strides in elements, written out for a packed tensor."""
        return packed_strides(self.sizes) if self.strides is None else self.strides

    @property
    def span(self) -> int:
        """The offset of the last element plus one, in elements."""
        return 1 + sum(
            (n - 1) * s for n, s in zip(self.sizes, self.element_strides, strict=True)
        )

    @property
    def element_count(self) -> int:
        """How many whole elements fit into `TotalTensorSizeInBytes`, padding included."""
        return self.total_tensor_size_in_bytes // self.data_type.size

    @property
    def reachable_count(self) -> int:
        """How many elements the buffer has for DirectML, which counts a partial last one."""
        return -(-self.total_tensor_size_in_bytes // self.data_type.size)

    @property
    def default_total_tensor_size_in_bytes(self) -> int:
        """The smallest legal size: up to the last element, rounded up to a multiple of 4."""
        return (self.span * self.data_type.size + 3) // 4 * 4

    @property
    def is_packed(self) -> bool:
        """Whether the elements lie row-major and without gaps, written out or not."""
        return self.strides is None or in_order(self.sizes, self.strides)

    @property
    def is_plain(self) -> bool:
        """Whether the array that stands for the tensor holds its elements in order, without gaps.

        Strides of dimensions of size 1 play no part here, although DirectML uses them
        when an index passes the end of such an axis.
        """
        return self.is_packed and math.prod(self.array_shape) == math.prod(self.sizes)

    @property
    def array_shape(self) -> tuple[int, ...]:
        """The shape of the array that stands for this tensor."""
        return self.sizes if self.strides is None else (self.element_count,)
