"""A descriptor explained: its fields, its formula, its ONNX nodes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from html import escape
from typing import Any

import msgspec
from msgspec import Struct

from onnxgather.core.checks import check_choice, uint
from onnxgather.core.descriptors.arrays import Array, check_descriptor, check_policy
from onnxgather.core.descriptors.feature_levels import (
    feature_requirements,
    minimum_feature_level,
)
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.reference import directml_strides
from onnxgather.core.descriptors.spelling import to_dict
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.gather import Geometry, gather_of
from onnxgather.core.lowering import lower
from onnxgather.core.lowering.graph import ONNX_TYPES, Attribute, Graph, Value, constant
from onnxgather.core.lowering.webnn.program import to_webnn
from onnxgather.core.lowering.webnn.steps import ARGUMENT_NAMES, MLOperand
from onnxgather.core.options import (
    DEFAULT_OPSET,
    OPSETS,
    POLICIES,
    TARGETS,
    WEBNN_FORMS,
    OutOfRange,
    Target,
    WebnnForm,
)
from onnxgather.core.public import public

TEXT_WIDTH = 80
"""Columns of the text."""

_LONGEST_LIST = 8
"""The most elements of a constant that are written where a node reads it."""

_NO_BREAK = "\xa0"

_TYPE_NAMES = {number: name for name, number in ONNX_TYPES.items()}


class Requirement(Struct, frozen=True):
    """A field and the feature level that it needs."""

    feature_level: str
    field: str


class Formula(Struct, frozen=True):
    """A formula in DirectML's coordinates; every dimension of every tensor is written.

    Coordinates along InputTensor are called a, b, ...; those along IndicesTensor i, j,
    ...; those of an index tuple p, q, .... Along a dimension of size 1 the coordinate
    is 0.
    """

    equation: str
    """Such as `out[a, i, b] = in[a, idx[0, i, 0], b]`."""
    coordinates: str | None
    """Such as `p, q = idx[i, :]`; None where an index is a single number."""
    bounds: str
    """The sizes: `a < 4, i < 2, b < 3`; empty for a single element."""
    range: str
    """Which indices are in range, and what an index out of range does."""


class DescribedValue(Struct, frozen=True, omit_defaults=True):
    """A value of the graph."""

    name: str
    data_type: str
    """numpy's name."""
    shape: tuple[int, ...]
    elements: Any = None
    """The elements of a short constant."""

    def __str__(self) -> str:
        return f"{self.name}: {self.data_type}[{', '.join(map(str, self.shape))}]"


class DescribedNode(Struct, frozen=True):
    """An ONNX node and why it is there."""

    operator: str
    inputs: tuple[str, ...]
    attributes: dict[str, Attribute]
    output: DescribedValue
    why: str


class PassedOver(Struct, frozen=True):
    """A form that was tried before the chosen form, and why it does not fit."""

    form: str
    why: str


class DescribedWebnn(Struct, frozen=True):
    """The WebNN program of a descriptor; its nodes are calls of an MLGraphBuilder."""

    form: WebnnForm
    inputs: tuple[DescribedValue, ...]
    constants: tuple[DescribedValue, ...]
    nodes: tuple[DescribedNode, ...]


@public
class Description(Struct, frozen=True, omit_defaults=True):
    """A descriptor and its model, as `onnxgather show --json` prints them.

    Example:
        >>> desc = og.from_onnx("GatherElements", ("FLOAT32", [3]), ("INT64", [2]))
        >>> described = og.show(desc, out_of_range="zero")
        >>> described.formula.equation
        'out[i] = in[idx[i]]'
        >>> described.formula.range
        '-3 <= idx < 3, from the end where negative; an index out of range gives 0'
    """

    descriptor: dict[str, Any]
    """In DxDispatch's spelling."""
    feature_level: str
    needs: tuple[Requirement, ...]
    """The fields that need that level."""
    out_of_range: OutOfRange
    formula: Formula
    target: str
    opset: int
    inputs: tuple[DescribedValue, ...]
    constants: tuple[DescribedValue, ...]
    nodes: tuple[DescribedNode, ...]
    choice: str
    """The form that was chosen from the target's list, and why; empty where there is no
    list."""
    passed_over: tuple[PassedOver, ...]
    """The forms above it in the list."""
    webnn: DescribedWebnn | None = None
    """The WebNN program, where it is shown beside the ONNX graph."""

    def __str__(self) -> str:
        return description_text(self)

    def __repr__(self) -> str:
        return f"<Description of {self.descriptor['type']}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


@public
def show(
    desc: Descriptor,
    out_of_range: OutOfRange = "clamp",
    target: Target = "portable",
    opset: int = DEFAULT_OPSET,
    webnn: WebnnForm | None = None,
) -> Description:
    """Return the fields, the formula and the ONNX nodes of a descriptor.

    `str()` of the result is their text.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does; see `OutOfRange`.
        target: Which model `to_onnx` makes of it; see `TARGETS`.
        opset: The version of the ONNX operator set.
        webnn: The form of the WebNN program that is shown beside the ONNX nodes; see
            `WEBNN_FORMS`. None shows none.

    Raises:
        OnnxGatherError: An argument is not as it must be, or `to_webnn` refuses the
            descriptor.

    Example:
        >>> desc = og.from_onnx("GatherElements", ("FLOAT32", [3]), ("INT64", [2]))
        >>> for node in og.show(desc).nodes:
        ...     print(node.operator, node.why, sep=": ")
        Cast: keeps the order and every bound, unlike Less, Min, Max and Clip of INT64
        Clip: clamps to the axis; negative indices stay and count from its end
        Cast: an index type that GatherElements takes
        GatherElements: DML_OPERATOR_GATHER_ELEMENTS
    """
    check_descriptor(desc)
    out_of_range = check_policy(out_of_range)
    target = check_choice("target", target, TARGETS)
    if webnn is not None:
        webnn = check_choice("webnn", webnn, WEBNN_FORMS)
    opset = uint("opset", opset, OPSETS[-1], OPSETS[0], OnnxGatherError)
    return describe(desc, out_of_range, target, opset, webnn=webnn)


def describe(
    desc: Descriptor,
    out_of_range: OutOfRange,
    target: Target,
    opset: int,
    threads: int | None = None,
    webnn: WebnnForm | None = None,
) -> Description:
    """Return the description of a descriptor and of the model that it becomes.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does.
        target: The provider or providers that the model is for.
        opset: The version of the ONNX operator set.
        threads: How many threads the model is for; None stands for 2.
        webnn: As of `show`.
    """
    graph = lower(desc, out_of_range, target=target, threads=threads)
    feature_level = minimum_feature_level(desc)
    needs: list[Requirement] = []
    for level, field in feature_requirements(desc):
        if level == feature_level:
            needs.append(Requirement(level, field))
    constants: list[DescribedValue] = []
    for name, array in _constants(graph).items():
        constants.append(_described(constant(name, array)))
    return Description(
        descriptor=to_dict(desc),
        feature_level=feature_level,
        needs=tuple(needs),
        out_of_range=out_of_range,
        formula=write_formula(desc, out_of_range),
        target=target,
        opset=opset,
        inputs=tuple(map(_described, graph.inputs)),
        constants=tuple(constants),
        nodes=tuple(_nodes(graph)),
        choice=graph.choice,
        passed_over=tuple(PassedOver(form, why) for form, why in graph.passed_over),
        webnn=_described_webnn(desc, out_of_range, webnn),
    )


def _described_webnn(
    desc: Descriptor, out_of_range: OutOfRange, form: WebnnForm | None
) -> DescribedWebnn | None:
    """Return the description of the WebNN program in a form; None of none."""
    if form is None:
        return None
    graph = to_webnn(desc, out_of_range, form).graph
    constants: list[DescribedValue] = []
    for stored in graph.constants:
        operand = _described_operand(stored.operand)
        if stored.array.size <= _LONGEST_LIST:
            elements = stored.array.tolist()
            operand = msgspec.structs.replace(operand, elements=elements)
        constants.append(operand)
    nodes: list[DescribedNode] = []
    for step in graph.steps:
        names = ARGUMENT_NAMES.get(step.method, ())
        attributes: dict[str, Attribute] = dict(zip(names, step.arguments, strict=True))
        attributes |= step.options
        inputs = tuple([operand.name for operand in step.operands])
        result = _described_operand(step.result)
        nodes.append(DescribedNode(step.method, inputs, attributes, result, step.why))
    operands = tuple(map(_described_operand, graph.inputs))
    return DescribedWebnn(form, operands, tuple(constants), tuple(nodes))


def _described_operand(operand: MLOperand) -> DescribedValue:
    return DescribedValue(operand.name, operand.data_type, operand.shape)


def write_formula(desc: Descriptor, out_of_range: OutOfRange) -> Formula:
    """Return the formula that a descriptor computes.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does.
    """
    gather = gather_of(desc)
    sizes = desc.output_tensor.sizes
    # DirectML's dimensions of the data, by those of the output that pass them on.
    rank = desc.input_tensor.dimension_count
    passed = {rank + output: dimension for output, dimension in gather.passed}
    of_data = iter("abcdefgh")
    of_indices = iter("ijklmnop")
    output = list[str]()
    for number, size in enumerate(sizes):
        if size == 1:
            output.append("0")
        elif number in passed:
            output.append(next(of_data))
        else:
            output.append(next(of_indices))
    element = _index_element(gather, output)
    names = [element]
    bounded = ["idx"]
    coordinates = None
    if gather.tuple_size > 1:
        # The tuple takes one dimension of the indices, so at most i to o name the
        # others.
        names = list("pqrstuvw"[: gather.tuple_size])
        bounded = names
        coordinates = f"{', '.join(names)} = {element}"

    data = ["0"] * rank
    for number, dimension in passed.items():
        data[dimension] = output[number]
    for name, dimension in zip(names, gather.indexed, strict=True):
        data[dimension] = name
    bounds: list[str] = []
    for name, size in zip(output, sizes, strict=True):
        if size > 1:
            bounds.append(f"{name} < {size}")
    return Formula(
        equation=f"out[{', '.join(output)}] = in[{', '.join(data)}]",
        coordinates=coordinates,
        bounds=", ".join(bounds),
        range=_range(desc, bounded, out_of_range),
    )


def _index_element(gather: Geometry, output: list[str]) -> str:
    """Return the element or the tuple of the indices that an output element reads."""
    rank = len(output)
    end = rank - gather.after
    first = end - len(gather.per_index)
    leading = ["0"] * (rank - len(gather.indices))
    index = leading + output[first:end]
    if gather.has_tuples:
        index.append("0" if gather.tuple_size == 1 else ":")
    return f"idx[{', '.join(index)}]"


def _range(desc: Descriptor, names: list[str], out_of_range: OutOfRange) -> str:
    """Return the sentence on which indices are in range, and on those that are not."""
    data_type = desc.indices_tensor.data_type
    if out_of_range == "directml":
        added = ""
        if data_type != "UINT32":
            added = (
                " A negative index (UINT64 is read as INT64) has its axis size added"
                " first."
            )
        return (
            "as DirectML does, whatever the index: the element of the buffer at"
            f" min(offset mod 2^32, {desc.input_tensor.reachable_count - 1}), where"
            " offset is the sum of coordinate x stride, strides"
            f" {list(directml_strides(desc))}.{added}"
        )
    limits: list[str] = []
    for name, size in zip(names, gather_of(desc).axes, strict=True):
        lowest = -size if data_type.is_signed else 0
        limits.append(f"{lowest} <= {name} < {size}")
    negative = ", from the end where negative" if data_type.is_signed else ""
    effect = POLICIES[out_of_range].brief
    return f"{', '.join(limits)}{negative}; an index out of range {effect}"


def _nodes(graph: Graph, within: str = "") -> Iterator[DescribedNode]:
    """Yield the nodes of a graph, each followed by those of its subgraphs."""
    for node in graph.nodes:
        output = _described(graph.values[node.output])
        attributes = dict(node.attributes)
        why = within + node.why
        yield DescribedNode(node.op, node.inputs, attributes, output, why)
        for name, body in node.bodies.items():
            yield from _nodes(body, f"{name} of {node.output}: ")


def _constants(graph: Graph) -> dict[str, Array]:
    """Return the constants of a graph and of the functions that it calls."""
    constants = dict(graph.constants)
    for node in graph.nodes:
        for body in node.bodies.values():
            constants |= body.constants
    return constants


def _described(value: Value) -> DescribedValue:
    array = value.constant
    elements = None
    if array is not None and array.size <= _LONGEST_LIST:
        elements = array.tolist()
    return DescribedValue(value.name, value.dtype.name, value.shape, elements)


def description_text(description: Description) -> str:
    """Return a description as text of at most 80 columns."""
    operator = description.descriptor["type"].removeprefix("DML_OPERATOR_")
    lines = [f"DML_{operator}_OPERATOR_DESC"]
    lines += _fields(description.descriptor["desc"])
    lines += ["", f"Feature level {description.feature_level}, needed by"]
    lines += [f"  {need.field}" for need in description.needs]
    lines += ["", "Formula", *_formula(description.formula), ""]
    lines += _model(description)
    webnn = description.webnn
    if webnn is not None:
        options = f"form {webnn.form}, out of range: {description.out_of_range}"
        lines += ["", f"WebNN, {options}", *_graph(webnn)]
    return "\n".join(lines)


def _model(description: Description) -> list[str]:
    """Return the lines on the options, the values and the nodes of the model."""
    options = f"opset {description.opset}, target {description.target}"
    lines = [f"ONNX, {options}, out of range: {description.out_of_range}"]
    if description.choice:  # only some targets have a list of forms
        lines += _filled("  ", description.choice)
        if description.passed_over:
            lines.append("  passed over:")
        for passed_over in description.passed_over:
            lines += _filled("    ", f"{passed_over.form}: {passed_over.why}")
    return lines + _graph(description)


def _graph(described: Description | DescribedWebnn) -> list[str]:
    """Return the lines on the values and the nodes of a graph."""
    lines: list[str] = []
    for value in described.inputs:
        lines += _filled("  ", str(value))
    for value in described.constants:
        if value.elements is None:  # the elements of others are where a node reads them
            lines += _filled("  ", f"{value}, a constant")
    constants = {value.name: value for value in described.constants}
    for number, node in enumerate(described.nodes, 1):
        lines += _node(f"  {number}. ".ljust(6), node, constants)
    return lines


def _fields(desc: dict[str, Any]) -> list[str]:
    """Return a line for each field, the values in a column."""
    width = max(map(len, desc)) + 4
    lines: list[str] = []
    for name, value in desc.items():
        parts = [str(value)]
        if isinstance(value, dict):  # a tensor
            fields: dict[str, Any] = {**value}
            parts = [f"{fields.pop('DataType')} {fields.pop('Sizes')}"]
            for field, content in fields.items():
                parts.append(f"{field} {content}")
        lines += _filled(f"  {name}".ljust(width), *parts)
    return lines


def _formula(formula: Formula) -> list[str]:
    lines = [f"  {formula.equation}"]
    # A long equation is broken at its equals sign.
    if len(lines[0]) > TEXT_WIDTH:
        left, right = formula.equation.split(" = ")
        lines = [f"  {left}", f"    = {right}"]
    if formula.coordinates:
        lines.append(f"  {formula.coordinates}")
    if formula.bounds:
        lines += _filled("  ", *formula.bounds.split(", "))
    lines += _filled("  ", formula.range)
    return lines


def _node(
    start: str, node: DescribedNode, constants: dict[str, DescribedValue]
) -> list[str]:
    """Return the lines on a node: its call, its output, and why it is there."""
    arguments = [_argument(name, constants) for name in node.inputs]
    for name, value in node.attributes.items():
        text = list(value) if isinstance(value, tuple) else value
        if node.operator == "Cast" and isinstance(value, int):
            text = _TYPE_NAMES[value]
        arguments.append(f"{name}={text}")
    call = f"{node.operator}({', '.join(arguments)})"
    output = f"-> {node.output}"
    indent = " " * len(start)
    lines = [f"{start}{call} {output}"]
    if len(lines[0]) > TEXT_WIDTH:  # a long call is broken before its output
        lines = _filled(start, call) + _filled(indent, output)
    return lines + _filled(indent, node.why)


def _argument(name: str, constants: dict[str, DescribedValue]) -> str:
    """Return the text of a node's input.

    It is the elements of a short constant, the name, or a dash if it is left out.
    """
    if name in constants and constants[name].elements is not None:
        return str(constants[name].elements)
    return name or "-"


def _filled(start: str, *parts: str) -> list[str]:
    """Return lines that begin with `start` and hold the parts with commas between them.

    A part is broken only if it does not fit on a line.
    """
    room = TEXT_WIDTH - len(start) - 1
    unbroken: list[str] = []
    for part in parts:
        fits = len(part) <= room
        unbroken.append(part.replace(" ", _NO_BREAK) if fits else part)
    text = ", ".join(unbroken)
    indent = " " * len(start)
    lines = textwrap.wrap(
        text, TEXT_WIDTH, initial_indent=start, subsequent_indent=indent
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]
