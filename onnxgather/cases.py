"""What is put to the lanes: a descriptor, or a bare ONNX node, with arrays and a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from onnxgather.arrays import Array, OutOfRange, check_indices
from onnxgather.descriptors import Descriptor, GatherDesc, GatherElementsDesc, GatherNDDesc
from onnxgather.dxdispatch import Program, dispatches
from onnxgather.errors import IndexOutOfRangeError
from onnxgather.reference import reference
from onnxgather.tensors import TensorDesc


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a program a case stands."""

    file: str
    command: str
    """Such as `$.commands[0]`."""
    dispatchable: str


@dataclass(frozen=True, slots=True)
class BareNode:
    """An ONNX node that no descriptor says, because ONNX's own specification forbids it."""

    operator: str
    """Gather, GatherElements or GatherND."""
    attributes: Mapping[str, int]
    output_shape: tuple[int, ...]
    """What the model declares."""
    rule: str
    """What it breaks; a provider must refuse it."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question to every lane; exactly one of `descriptor` and `bare` is there."""

    name: str
    """Unique in a run, such as `gather/float32/int64/negative`."""
    descriptor: Descriptor | None
    data: Array
    indices: Array
    out_of_range: OutOfRange = "clamp"
    wrapped: bool = False
    """Whether the gather stands between two multiplications by one; see `wrapped_in`."""
    bare: BareNode | None = None
    place: Place | None = None

    @property
    def operator(self) -> str:
        """GATHER, GATHER_ELEMENTS, GATHER_ND or GATHER_ND1; of a bare node ONNX's name."""
        if self.descriptor is not None:
            return self.descriptor.operator
        assert self.bare is not None
        return self.bare.operator

    @property
    def data_type(self) -> str:
        """The name of the data's type, such as FLOAT32."""
        return self.data.dtype.name.upper()

    @property
    def index_type(self) -> str:
        """The name of the indices' type, such as INT64."""
        return self.indices.dtype.name.upper()

    @property
    def dimension_count(self) -> int:
        """DimensionCount; of a bare node the rank of its data."""
        return self.descriptor.input_tensor.dimension_count if self.descriptor else self.data.ndim

    @property
    def in_range(self) -> bool:
        """Whether every index is in range; those of a bare node are not looked at."""
        if self.descriptor is None:
            return True
        try:
            check_indices(self.descriptor, self.indices)
        except IndexOutOfRangeError:
            return False
        return True

    @property
    def must_refuse(self) -> bool:
        """Whether there is no right answer but a refusal."""
        return self.bare is not None or (self.out_of_range == "error" and not self.in_range)

    def expected(self) -> Array | str:
        """Return what the reference computes, or why a provider must refuse the case."""
        if self.descriptor is None:
            assert self.bare is not None
            return self.bare.rule
        try:
            return reference(self.descriptor, self.data, self.indices, self.out_of_range)
        except IndexOutOfRangeError as error:
            return str(error)

    def wrapped_in(self) -> Case:
        """Return the case with its gather between two multiplications by one.

        Some providers leave a lone node to the CPU but take it between operators that they like
        (measured: OpenVINO 2025.4 with GatherElements). The one is a graph input, so that nothing
        folds it away. Multiplying keeps every normal number, zero and infinity but not the bits
        of a NaN, and some devices flush subnormal numbers; both become one in the data.
        """
        data = self.data
        if data.dtype.kind == "f":
            smallest = np.finfo(data.dtype).smallest_normal
            odd = np.isnan(data) | ((np.abs(data) < smallest) & (data != 0))
            data = np.where(odd, data.dtype.type(1), data)
        return replace(self, data=data, wrapped=True)


def program_cases(program: Program, out_of_range: OutOfRange) -> Iterator[Case]:
    """Yield a case for each dispatch of a program.

    A dispatch takes its inputs from what the reference computed before; where the reference
    refused an index, from zeros.

    Raises:
        OnnxGatherError: The program cannot run, whatever computes its outputs.
    """

    def expected(desc: Descriptor, data: Array, indices: Array) -> Array:
        try:
            return reference(desc, data, indices, out_of_range)
        except IndexOutOfRangeError:
            return np.zeros(desc.output_tensor.array_shape, desc.output_tensor.data_type.numpy)

    for found in dispatches(program, expected):
        place = Place(program.path, found.path, found.dispatchable)
        name = f"{place.file}: {place.command} ({place.dispatchable})"
        yield Case(name, found.descriptor, found.data, found.indices, out_of_range, place=place)


def allowed_beside(case: Case) -> Case:
    """Return the smallest case of a bare node's operator that ONNX allows, as the lane's proof."""
    assert case.bare is not None
    data = np.arange(3).astype(case.data.dtype)
    value, index = TensorDesc(case.data_type, [3]), TensorDesc("INT64", [3])
    desc: Descriptor
    if case.bare.operator == "Gather":
        desc = GatherDesc(value, index, value, axis=0, index_dimensions=1)
    elif case.bare.operator == "GatherElements":
        desc = GatherElementsDesc(value, index, value, axis=0)
    else:
        value, index = TensorDesc(case.data_type, [3, 1]), TensorDesc("INT64", [3, 1])
        desc = GatherNDDesc(value, index, value, input_dimension_count=2, indices_dimension_count=2)
    indices = np.array([2, 0, 1]).reshape(desc.indices_tensor.sizes)
    allowed = Case("allowed", desc, data.reshape(value.sizes), indices, "error")
    return allowed.wrapped_in() if case.wrapped else allowed
