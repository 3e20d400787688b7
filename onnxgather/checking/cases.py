"""Cases, the questions to the lanes: a gather with its arrays and its policy."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import msgspec
import numpy as np

from onnxgather.core.descriptors.arrays import (
    Array,
    all_in_range,
    check_arrays,
    check_policy,
    elements,
)
from onnxgather.core.descriptors.datatypes import (
    GATHERED_TYPES,
    TensorDataType,
    type_of,
)
from onnxgather.core.descriptors.drawn import (
    ALL_DRAWN,
    MAX_DRAWN_BYTES,
    bytes_of,
    draw_names,
    drawn,
)
from onnxgather.core.descriptors.explain import Explanation, explain, explain_node
from onnxgather.core.descriptors.onnx_reference import reference_onnx
from onnxgather.core.descriptors.operators import FACTS, Descriptor
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import DescriptorError, IndexOutOfRangeError
from onnxgather.core.gather import ATTRIBUTES, from_onnx, gather_of_node
from onnxgather.core.options import OutOfRange, Target
from onnxgather.core.programs.outside import told_outside
from onnxgather.core.programs.program import BARE, OwnModel, Program

GIVEN = "the given inputs"
"""What a case with the arrays of --inputs has in the place of a command."""

_NO_COMMANDS = (GIVEN, *ALL_DRAWN)
"""What has the place of a command where a gather has no data of its own."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The dispatch of a program that a case comes from."""

    file: str
    command: str
    """The path to the command in the file, such as `$.commands[0]`; of a gather that no
    command dispatches, which arrays it has, such as `random bits`."""
    dispatchable: str

    @property
    def name(self) -> str:
        """The name of the case."""
        # Case: the file is a model or one descriptor, so that the gather has no name.
        if self.dispatchable == BARE and self.command in _NO_COMMANDS:
            return f"{self.file}: {self.command}"
        return f"{self.file}: {self.command} ({self.dispatchable})"


@dataclass(frozen=True, slots=True)
class FileModel:
    """An ONNX model of a file, which lanes run in place of one that they make."""

    content: bytes
    """The serialized model."""
    inputs: tuple[str, ...]
    """The names of its inputs: that for InputTensor, and that for IndicesTensor."""
    output: str
    """The name of its output."""
    target: Target

    @classmethod
    def of(cls, model: OwnModel) -> FileModel:
        """Return the model of a program."""
        inputs = tuple(value.name for value in model.proto.graph.input)
        (output,) = model.proto.graph.output
        content = model.proto.SerializeToString()
        return cls(content, inputs, output.name, model.target)


class GatherNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """An ONNX node that gathers."""

    operator: str
    """Gather, GatherElements or GatherND."""
    attributes: Mapping[str, int]
    """The `axis` or `batch_dims` of the node, by its name."""
    output_shape: tuple[int, ...]
    """The shape that the model declares."""
    rule: str | None = None
    """The rule of ONNX that the node breaks, so that a provider must refuse it; None
    where ONNX allows the node."""


class _Arrays:
    """What descriptor cases and node cases derive from their arrays."""

    __slots__ = ()

    data: Array
    indices: Array

    @property
    def data_type(self) -> str:
        """The name of the data's type, such as FLOAT32."""
        # A check of many cases keeps each name only once.
        return sys.intern(type_of(self.data.dtype))

    @property
    def index_type(self) -> str:
        """The name of the indices' type, such as INT64."""
        return sys.intern(type_of(self.indices.dtype))

    def wrapped_in(self) -> Self:
        """Return the case with its gather between two multiplications by one.

        Some providers leave a lone node to the CPU but run it between other operators
        (measured: OpenVINO 2025.4 with GatherElements). The factor is a graph input, so
        that the multiplications cannot be folded.

        Multiplying by one keeps every normal number, zero and infinity. It does not
        keep the bits of a NaN, and some devices flush subnormal numbers: the case has
        ones in their place. Data that nothing multiplies, such as texts, stay between
        no operators.
        """
        if self.data_type not in TensorDataType.__members__:
            return self
        data = self.data
        if data.dtype.kind == "f":
            smallest = np.finfo(data.dtype).smallest_normal
            is_subnormal = (np.abs(data) < smallest) & (data != 0)
            is_replaced = np.isnan(data) | is_subnormal
            data = np.where(is_replaced, data.dtype.type(1), data)
        return replace(cast("Any", self), data=data, wrapped=True)


@dataclass(frozen=True, slots=True)
class DescriptorCase(_Arrays):
    """A descriptor with its inputs, and what an index out of range does."""

    name: str
    """Unique in a check, such as `gather/float32/int64/negative`."""
    descriptor: Descriptor
    data: Array
    indices: Array
    out_of_range: OutOfRange = "clamp"
    wrapped: bool = False
    """Whether the gather stands between two multiplications by one; see
    `wrapped_in`."""
    origin: Origin | None = None
    model: FileModel | None = None
    """The model that lanes run; None if they make a model of the descriptor."""
    asked_as_directml: bool = False
    """Whether another case of the corpus has these arrays under the policy "directml",
    so that DirectML itself answers that one alone."""

    def __post_init__(self) -> None:
        """Check the arrays, and keep them without what subclasses of numpy's array add.

        Raises:
            OnnxGatherError: As `reference`.
        """
        out_of_range = check_policy(self.out_of_range)
        data, indices = check_arrays(self.descriptor, self.data, self.indices)
        # The class is frozen, so that a plain assignment would raise.
        object.__setattr__(self, "out_of_range", out_of_range)
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "indices", indices)

    @property
    def operator(self) -> str:
        """GATHER, GATHER_ELEMENTS, GATHER_ND or GATHER_ND1."""
        return self.descriptor.operator

    @property
    def runs_file(self) -> bool:
        """Whether lanes run the file of a model."""
        return self.model is not None

    @property
    def dimension_count(self) -> int:
        """DimensionCount of all three tensors."""
        return self.descriptor.input_tensor.dimension_count

    @property
    def in_range(self) -> bool:
        """Whether every index is in range."""
        return all_in_range(self.descriptor, self.indices)

    @property
    def must_refuse(self) -> bool:
        """Whether the only right answer is a refusal."""
        return self.out_of_range == "error" and not self.in_range

    @property
    def output_sizes(self) -> tuple[int, ...]:
        """The sizes of the output."""
        return self.descriptor.output_tensor.sizes

    @property
    def elements(self) -> tuple[Array, Array]:
        """The elements of the data and of the indices, in the sizes of the tensors."""
        desc = self.descriptor
        return (
            elements(desc.input_tensor, self.data),
            elements(desc.indices_tensor, self.indices),
        )

    def explained(self, at: Sequence[int]) -> Explanation:
        """Return where an output element comes from; errors are as of `explain`."""
        return explain(self.descriptor, self.data, self.indices, at, self.out_of_range)

    @property
    def note(self) -> str | None:
        """What is out of range in data of a program or of a user; None if nothing is.

        It also says what another policy returns.
        """
        # Case: the indices that are drawn are no program's fault.
        if self.origin is None or self.origin.command in ALL_DRAWN or self.in_range:
            return None
        # Case: a model runs as it is, whatever policy an option names.
        return self.told(self.expected(), has_option=not self.runs_file)

    def told(self, output: Array | str, has_option: bool = True) -> str:
        """Return what is out of range, and where an output is not as DirectML's.

        Args:
            output: As of `told_outside`.
            has_option: As of `told_outside`.
        """
        return told_outside(
            self.descriptor,
            self.data,
            self.indices,
            self.out_of_range,
            output,
            has_option,
        )

    def expected(self) -> Array | str:
        """Return the reference's output, or why a provider must refuse the case."""
        try:
            return reference(
                self.descriptor, self.data, self.indices, self.out_of_range
            )
        except IndexOutOfRangeError as error:
            return str(error)


@dataclass(frozen=True, slots=True)
class NodeCase(_Arrays):
    """A node of ONNX with its inputs, which no descriptor need say."""

    name: str
    """Unique in a check, such as `forbidden/gather/axis/rank`."""
    node: GatherNode
    data: Array
    """The array of the data; texts are objects."""
    indices: Array
    wrapped: bool = False
    """Whether the node stands between two multiplications by one; see `wrapped_in`."""
    origin: Origin | None = None
    model: FileModel | None = None
    """The model that lanes run; None if they make a model of the node."""

    out_of_range: ClassVar[OutOfRange] = "error"

    @property
    def runs_file(self) -> bool:
        """Whether lanes run the file of a model."""
        return self.model is not None

    @property
    def operator(self) -> str:
        """ONNX's name: Gather, GatherElements or GatherND."""
        return self.node.operator

    @property
    def dimension_count(self) -> int:
        """The rank of the data."""
        return self.data.ndim

    @property
    def output_sizes(self) -> tuple[int, ...]:
        """The sizes of the output."""
        return self.node.output_shape

    @property
    def elements(self) -> tuple[Array, Array]:
        """The elements of the data and of the indices."""
        return self.data, self.indices

    def explained(self, at: Sequence[int]) -> Explanation:
        """Return where an output element comes from; errors are as of `explain`."""
        node = self.node
        return explain_node(
            node.operator,
            node.attributes,
            self.data,
            self.indices,
            node.output_shape,
            at,
        )

    @property
    def why_no_descriptor(self) -> str:
        """Why no descriptor of DirectML says the node: the end of a sentence."""
        if self.node.rule is not None:
            return f"ONNX forbids it: {self.node.rule}"
        data_type = self.data_type
        if data_type not in TensorDataType.__members__:
            return f"DirectML gathers no {data_type}"
        data = (data_type, self.data.shape)
        indices = (self.index_type, self.indices.shape)
        attributes: dict[str, Any] = dict(self.node.attributes)
        try:
            from_onnx(self.operator, data, indices, **attributes)
        except DescriptorError as error:
            return str(error)
        return "it is a node of ONNX"

    @property
    def told_as_node(self) -> str:
        """What is said of a node of a model of others, as no policy is its own."""
        return (
            f"no descriptor of DirectML says it, as {self.why_no_descriptor}; so the"
            " formula of ONNX counts, in which an index out of range is an error"
        )

    @property
    def in_range(self) -> bool:
        """Whether every index is in range.

        It is True of a node that ONNX forbids, whose axis need not exist.
        """
        return self.node.rule is not None or not self.must_refuse

    @property
    def must_refuse(self) -> bool:
        """Whether the only right answer is a refusal."""
        return isinstance(self.expected(), str)

    def expected(self) -> Array | str:
        """Return the output by ONNX's formula, or why a provider must refuse it."""
        if self.node.rule is not None:
            return self.node.rule
        attributes = self.node.attributes
        try:
            return reference_onnx(self.operator, self.data, self.indices, **attributes)
        except IndexOutOfRangeError as error:
            return str(error)


Case = DescriptorCase | NodeCase
"""One question to every lane."""


def policy_of(program: Program, out_of_range: OutOfRange | None) -> OutOfRange:
    """Return the policy of a program's cases.

    Args:
        program: The program.
        out_of_range: The policy that the user names; None means that of a model of
            onnxgather, or "clamp".
    """
    if out_of_range is not None:
        return out_of_range
    return "clamp" if program.model is None else program.model.out_of_range


def program_cases(
    program: Program, out_of_range: OutOfRange | None
) -> Iterator[DescriptorCase]:
    """Yield a case for each dispatch of a program.

    A dispatch may read the output of an earlier dispatch. It reads what the reference
    computed, or zeros if the reference refused an index.

    Args:
        program: The program.
        out_of_range: As of `policy_of`.

    Raises:
        OnnxGatherError: The program cannot run, not even with the reference.
    """
    policy = policy_of(program, out_of_range)

    def computed(desc: Descriptor, data: Array, indices: Array) -> Array:
        try:
            return reference(desc, data, indices, policy)
        except IndexOutOfRangeError:
            output = desc.output_tensor
            return np.zeros(output.array_shape, output.data_type.numpy)

    for dispatch in program.dispatched(computed):
        origin = Origin(program.path, dispatch.path, dispatch.dispatchable)
        yield DescriptorCase(
            origin.name,
            dispatch.descriptor,
            dispatch.data,
            dispatch.indices,
            policy,
            origin=origin,
        )


def drawn_cases(
    program: Program, out_of_range: OutOfRange | None
) -> Iterator[DescriptorCase]:
    """Yield the cases that `drawn` draws for each gather that no command dispatches.

    Args:
        program: The program.
        out_of_range: As of `policy_of`.
    """
    policy = policy_of(program, out_of_range)
    for name, dispatchable in program.without_data.items():
        for arrays in drawn(dispatchable.descriptor, policy):
            origin = Origin(program.path, arrays.name, name)
            yield case_of_arrays(program, origin, policy, arrays.data, arrays.indices)


def cases_of_file(
    program: Program, out_of_range: OutOfRange | None
) -> Iterator[DescriptorCase]:
    """Yield all cases of a program, in the order of `program_names`.

    Args:
        program: The program.
        out_of_range: As of `policy_of`.

    Raises:
        OnnxGatherError: As `program_cases`.
    """
    yield from program_cases(program, out_of_range)
    yield from drawn_cases(program, out_of_range)


def case_of_arrays(
    program: Program, origin: Origin, policy: OutOfRange, data: Array, indices: Array
) -> DescriptorCase:
    """Return the case of a gather that no command dispatches, with arrays for it."""
    return DescriptorCase(
        origin.name,
        program.dispatchables[origin.dispatchable].descriptor,
        data,
        indices,
        policy,
        origin=origin,
        model=None if program.model is None else FileModel.of(program.model),
    )


def program_names(program: Program, out_of_range: OutOfRange | None) -> Iterator[str]:
    """Yield the names of the cases of a program, without running it."""
    for command in program.dispatch_commands:
        yield Origin(program.path, command.path, command.dispatchable).name
    names = draw_names(policy_of(program, out_of_range))
    for dispatchable, gather in program.without_data.items():
        if bytes_of(gather.descriptor) > MAX_DRAWN_BYTES:
            continue
        for name in names:
            yield Origin(program.path, name, dispatchable).name


GATHER_NODES = tuple(dict.fromkeys(facts.onnx for facts in FACTS.values()))
"""ONNX's operators that gather."""


def smallest_case(operator: str, data_type: str) -> DescriptorCase:
    """Return a case whose model is one node of an ONNX operator.

    The case has three elements and three indices.
    """
    # The tuples of a GatherND stand along the last axis of its indices.
    sizes = (3, 1) if operator == "GatherND" else (3,)
    gather = gather_of_node(operator, sizes, sizes, 0)
    data_sizes, index_sizes, output_sizes = gather.tensor_sizes()
    desc = gather.descriptor(
        [
            TensorDesc(data_type, data_sizes),
            TensorDesc("INT64", index_sizes),
            TensorDesc(data_type, output_sizes),
        ]
    )
    dtype = desc.input_tensor.data_type.numpy
    data = np.arange(3).astype(dtype).reshape(sizes)
    indices = np.array([2, 0, 1]).reshape(sizes)
    return DescriptorCase(operator, desc, data, indices, "error")


def _allowed_beside(case: NodeCase) -> Case:
    """Return the smallest allowed case with a node's operator and data type.

    A provider that runs it proves that it refuses the node for its broken rule, or as
    an axis without elements has no index in range.
    """
    data_type = case.data_type
    if data_type not in GATHERED_TYPES:  # which is the broken rule
        data_type = "FLOAT32"
    allowed: Case
    if data_type in TensorDataType.__members__:
        allowed = smallest_case(case.operator, data_type)
    else:
        numbers = smallest_case(case.operator, "INT8")
        data = numbers.data
        if data_type == "STRING":
            data = data.astype(str)
        data = data.astype(case.data.dtype)
        node = GatherNode(case.operator, {ATTRIBUTES[case.operator]: 0}, data.shape)
        allowed = NodeCase("", node, data, numbers.indices)
    allowed = replace(allowed, name=name_beside(case.operator, data_type))
    if case.wrapped:
        return allowed.wrapped_in()
    return allowed


def name_beside(operator: str, data_type: str) -> str:
    """Return the name of the allowed case beside forbidden nodes."""
    return f"beside/{operator}/{data_type}".lower()


def is_beside_nodes(case: DescriptorCase) -> bool:
    """Return whether a case is the allowed node beside forbidden nodes."""
    operator = FACTS[case.operator].onnx
    return case.name == name_beside(operator, case.data_type)


def case_beside(case: Case) -> Case | None:
    """Return the valid case beside a case that must be refused; None for other cases.

    It is the same gather with indices of zero, or else an allowed node of the operator.
    A refusal counts only if the provider gives the right answer to this case.
    """
    if not case.must_refuse:
        return None
    zeros = np.zeros_like(case.indices)
    beside = replace(case, name=f"beside/{case.name}", indices=zeros)
    # Case: ONNX forbids the node, or its axis has no element.
    if isinstance(case, NodeCase) and beside.must_refuse:
        return _allowed_beside(case)
    return beside
