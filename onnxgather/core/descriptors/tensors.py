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
    plain_text,
    require,
    sequence,
    shown_with_suggestion,
    uint,
    uints,
)
from onnxgather.core.descriptors.argument_names import StructWithHelp
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.errata import note
from onnxgather.core.descriptors.strides import in_order, packed_strides
from onnxgather.core.errors import DescriptorError
from onnxgather.core.public import public

FLAG_PREFIX = "DML_TENSOR_FLAG_"

LEAST_ALIGNMENT = 16
"""`DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT`; CreateOperator refuses a smaller one
(measured)."""


@public
class TensorFlags(enum.IntFlag, boundary=enum.STRICT):
    """`DML_TENSOR_FLAGS`.

    Example:
        >>> og.TensorDesc("FLOAT32", [4], flags=og.TensorFlags.OWNED_BY_DML)
        TensorDesc('FLOAT32', (4,), flags='OWNED_BY_DML')
    """

    NONE = 0
    OWNED_BY_DML = 1

    @classmethod
    def parse(cls, value: object) -> TensorFlags:
        """Return the flags with a name or a sequence of names, short or long.

        Raises:
            DescriptorError: A name is not a flag.
        """
        if isinstance(value, TensorFlags):
            return value
        value = plain_text(value)
        rule = "Flags must be NONE or OWNED_BY_DML"
        # A text is a sequence too, of characters. A number, as in C++, is no name.
        is_single = value is None or isinstance(value, str | int)
        names: list[Any] = [value] if is_single else sequence("Flags", value)
        flags = cls.NONE
        for name in map(plain_text, names):
            short = name.removeprefix(FLAG_PREFIX) if isinstance(name, str) else None
            if not isinstance(short, str) or short not in cls.__members__:
                text = shown_with_suggestion(name, cls.__members__, FLAG_PREFIX)
                raise DescriptorError(f"{rule}, got {text}")
            flags |= cls[short]
        return flags

    # So that `TensorFlags("OWNED_BY_DML")` accepts names too.
    _missing_ = parse


@public
class TensorDesc(
    msgspec.Struct,
    metaclass=StructWithHelp,
    frozen=True,
    cache_hash=True,
    rename="pascal",
):
    """`DML_BUFFER_TENSOR_DESC`: the type, sizes and strides of a tensor in a buffer.

    Args:
        data_type: A `TensorDataType` or its name.
        sizes: 1 to 8 sizes, each at least 1.
        strides: In elements, one per size; None means packed. 0 repeats an element. The
            array that stands for a tensor with strides is its 1-D buffer of
            `element_count` elements; without strides it is an array of shape `sizes`.
        total_tensor_size_in_bytes: The bytes of the buffer; None or 0 means the
            smallest legal number, a multiple of 4.
        flags: A `TensorFlags`, a name or names.
        guaranteed_base_offset_alignment: 0, or a power of two of at least 16
            (measured).

    Raises:
        DescriptorError: A value breaks a rule; the message starts with the field's
            name.

    Example:
        >>> tensor = og.TensorDesc("FLOAT16", [2, 3], strides=[4, 1])
        >>> tensor
        TensorDesc('FLOAT16', (2, 3), strides=(4, 1))
        >>> tensor.element_count, tensor.total_tensor_size_in_bytes, tensor.array_shape
        (8, 16, (8,))
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
        """Convert every field to its own type and check the rules of a tensor."""
        # The struct is frozen from here on for everyone else.
        put = msgspec.structs.force_setattr
        put(self, "data_type", TensorDataType.parse(self.data_type))
        values = sequence("Sizes", self.sizes)
        count = len(values)
        require(1 <= count <= MAX_DIMENSIONS, "DimensionCount must be 1 to 8", count)
        sizes = uints("Sizes", values)
        if 0 in sizes:
            raise DescriptorError(f"Sizes[{sizes.index(0)}] must be at least 1, got 0")
        put(self, "sizes", sizes)
        if self.strides is not None:
            values = sequence("Strides", self.strides)
            rule = f"Strides must have as many elements as Sizes ({count})"
            require(len(values) == count, rule, len(values))
            put(self, "strides", uints("Strides", values))
        # A stride of 0 repeats elements, so there may be more of them than places.
        elements = max(math.prod(sizes), self.span)
        if elements > MAX_ELEMENTS:
            raise self._too_large(f"{MAX_ELEMENTS} elements", elements)
        self._check_buffer()

    def _too_large(self, most: str, found: int) -> DescriptorError:
        """Return the error of sizes and strides that describe too many elements."""
        fields = f"Sizes {list(self.sizes)}"
        if self.strides is not None:
            fields += f" and Strides {list(self.strides)}"
        return DescriptorError(f"{fields} must describe at most {most}, got {found}")

    def _check_buffer(self) -> None:
        """Check the fields of the buffer; those of the elements are checked."""
        put = msgspec.structs.force_setattr
        value = cast("object", self.total_tensor_size_in_bytes)
        if value is None:
            value = 0
        total = uint("TotalTensorSizeInBytes", value, MAX_ELEMENTS * 8)
        smallest = self.default_total_tensor_size_in_bytes
        element_size = self.data_type.size
        if smallest > MAX_ELEMENTS * element_size:
            # Case: the smallest buffer has more elements than the sizes describe.
            most = MAX_ELEMENTS * element_size // 4 * 4 // element_size
            limit = f"{most} elements of {self.data_type}"
            reason = "as a buffer is a multiple of 4 bytes"
            raise self._too_large(f"{limit}, {reason}", self.span)
        if total == 0:
            total = smallest
        if total < smallest:
            rule = f"TotalTensorSizeInBytes must be at least {smallest}"
            reason = f"{self.span} elements of {self.data_type}, rounded up to 4 bytes"
            raise DescriptorError(f"{rule} ({reason}), got {total}")
        put(self, "total_tensor_size_in_bytes", total)
        reachable_count = self.reachable_count
        if reachable_count > MAX_ELEMENTS:
            rule = f"TotalTensorSizeInBytes must hold at most {MAX_ELEMENTS} elements"
            raise DescriptorError(f"{rule}, got {reachable_count}")

        put(self, "flags", TensorFlags.parse(self.flags))
        field = "GuaranteedBaseOffsetAlignment"
        alignment = uint(field, self.guaranteed_base_offset_alignment)
        put(self, "guaranteed_base_offset_alignment", alignment)
        is_power_of_two = alignment.bit_count() == 1
        aligns = alignment >= LEAST_ALIGNMENT and is_power_of_two
        if alignment != 0 and not aligns:
            rule = f"{field} must be 0 or a power of two from {LEAST_ALIGNMENT}"
            raise DescriptorError(f"{rule}, got {alignment}{note(field, self)}")

    def arguments(self) -> dict[str, str | int | tuple[int, ...]]:
        """Return the fields that make it, without those that have their defaults."""
        total = self.total_tensor_size_in_bytes
        has_default_size = total == self.default_total_tensor_size_in_bytes
        fields = {
            "data_type": str(self.data_type),
            "sizes": self.sizes,
            "strides": self.strides,
            "total_tensor_size_in_bytes": 0 if has_default_size else total,
            "flags": self.flags.name if self.flags else None,
            "guaranteed_base_offset_alignment": self.guaranteed_base_offset_alignment,
        }
        # All defaults are false: None, 0 and no flags.
        return {name: value for name, value in fields.items() if value}

    def __repr__(self) -> str:
        """Return the call that makes it."""
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
        if self.strides is None:
            return math.prod(self.sizes)
        pairs = zip(self.sizes, self.strides, strict=True)
        return 1 + sum([(size - 1) * stride for size, stride in pairs])

    @property
    def element_count(self) -> int:
        """The number of whole elements in the buffer, padding included."""
        return self.total_tensor_size_in_bytes // self.data_type.size

    @property
    def reachable_count(self) -> int:
        """The number of elements in the buffer for DirectML.

        A last element of which the buffer holds only a part is included (measured).
        """
        return -(-self.total_tensor_size_in_bytes // self.data_type.size)

    @property
    def default_total_tensor_size_in_bytes(self) -> int:
        """The smallest legal size, rounded up to a multiple of 4."""
        return (self.span * self.data_type.size + 3) // 4 * 4

    @property
    def is_packed(self) -> bool:
        """Whether the elements lie row-major and without gaps, written out or not."""
        return self.strides is None or in_order(self.sizes, self.strides)

    @property
    def is_plain(self) -> bool:
        """Whether the array for the tensor holds its elements in order, without gaps.

        Strides of dimensions of size 1 play no part here, although DirectML uses them
        when an index passes the end of the axis.
        """
        return self.is_packed and math.prod(self.array_shape) == math.prod(self.sizes)

    @property
    def array_shape(self) -> tuple[int, ...]:
        """The shape of the array that stands for this tensor."""
        return self.sizes if self.strides is None else (self.element_count,)
