"""What there is to say about a descriptor: its fields, its formula, its ONNX nodes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import msgspec

from onnxgather.descriptors import Descriptor
from onnxgather.dxdispatch.descriptor import to_dict
from onnxgather.feature_levels import feature_requirements, minimum_feature_level
from onnxgather.formula import Formula, write_formula
from onnxgather.lowering import lower
from onnxgather.lowering.graph import ONNX_TYPES, Graph, Value
from onnxgather.options import OutOfRange, Target

WIDTH = 80

LONGEST_SHOWN = 8
"""Elements of a constant that are written where a node reads it."""

_NO_BREAK = "\xa0"

_TYPE_NAMES = {number: name for name, number in ONNX_TYPES.items()}


class Requirement(msgspec.Struct, frozen=True):
    """A field and the feature level that it needs."""

    feature_level: str
    field: str


class ShownValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value of the graph: numpy's name of its data type, its shape, its elements if shown."""

    name: str
    data_type: str
    shape: tuple[int, ...]
    elements: Any = None

    def __str__(self) -> str:
        return f"{self.name}: {self.data_type}[{', '.join(map(str, self.shape))}]"


class ShownNode(msgspec.Struct, frozen=True):
    """An ONNX node and why it is there."""

    operator: str
    inputs: tuple[str, ...]
    attributes: dict[str, int | tuple[int, ...]]
    output: ShownValue
    why: str


class PassedOver(msgspec.Struct, frozen=True):
    """A form of the target's list that was tried before the chosen one, and why it does not fit."""

    form: str
    why: str


class Description(msgspec.Struct, frozen=True):
    """All that `describe` finds."""

    descriptor: dict[str, Any]
    """In DxDispatch's spelling."""
    feature_level: str
    needs: tuple[Requirement, ...]
    """What needs that level."""
    out_of_range: str
    formula: Formula
    target: str
    opset: int
    inputs: tuple[ShownValue, ...]
    constants: tuple[ShownValue, ...]
    nodes: tuple[ShownNode, ...]
    choice: str
    """The form that was chosen from the target's list, and why; empty where there is no list."""
    passed_over: tuple[PassedOver, ...]
    """The forms above it in the list."""


def describe(
    desc: Descriptor,
    out_of_range: OutOfRange,
    target: Target,
    opset: int,
    threads: int | None = None,
) -> Description:
    """Return what there is to say about a descriptor and the model that it becomes.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does.
        target: Whom the model is for.
        opset: The version of the ONNX operator set.
        threads: How many threads the model is for; None stands for 2.
    """
    graph = lower(desc, out_of_range, target=target, threads=threads)
    level = minimum_feature_level(desc)
    values = _values(graph)
    return Description(
        to_dict(desc),
        level,
        tuple(Requirement(*pair) for pair in feature_requirements(desc) if pair[0] == level),
        out_of_range,
        write_formula(desc, out_of_range),
        target,
        opset,
        tuple(_shown(value) for value in graph.inputs),
        tuple(_shown(values[name]) for name in graph.constants),
        tuple(_nodes(graph, values)),
        graph.choice,
        tuple(PassedOver(*pair) for pair in graph.passed_over),
    )


def render(description: Description) -> str:
    """Return a description as text of at most 80 columns."""
    operator = description.descriptor["type"].removeprefix("DML_OPERATOR_")
    lines = [f"DML_{operator}_OPERATOR_DESC", *_fields(description.descriptor["desc"]), ""]
    lines.append(f"Feature level {description.feature_level}, needed by")
    lines += [f"  {need.field}" for need in description.needs]
    lines += ["", "Formula", *_formula(description.formula), ""]
    options = f"opset {description.opset}, target {description.target}"
    lines.append(f"ONNX, {options}, out of range: {description.out_of_range}")
    if description.choice:
        lines += _paragraph(description.choice, "  ")
        lines += ["  passed over:"] if description.passed_over else []
        for each in description.passed_over:
            lines += _paragraph(f"{each.form}: {each.why}", "    ")
    constants = {value.name: value for value in description.constants}
    long = [f"{value}, a constant" for value in constants.values() if value.elements is None]
    for value in (*map(str, description.inputs), *long):
        lines += _filled([value], "  ")
    for number, node in enumerate(description.nodes, 1):
        lines += _node(number, node, constants)
    return "\n".join(lines)


def _paragraph(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent)


def _values(graph: Graph) -> dict[str, Value]:
    """Return every value of a graph by its name."""
    made = graph.values.values()
    values = {value.name: value for value in (*graph.inputs, *made)}
    for name, array in graph.constants.items():
        values[name] = Value(name, array.dtype, array.shape, array)
    assert graph.output is not None
    values[graph.output.name] = graph.output
    return values


def _nodes(graph: Graph, values: dict[str, Value], within: str = "") -> Iterator[ShownNode]:
    """Return the nodes of a graph, each followed by those of its subgraphs."""
    for node in graph.nodes:
        output = _shown(values[node.output])
        yield ShownNode(node.op, node.inputs, dict(node.attributes), output, within + node.why)
        for name, body in node.bodies.items():
            yield from _nodes(body, values, f"{name} of {node.output}: ")


def _shown(value: Value) -> ShownValue:
    array = value.constant
    elements = array.tolist() if array is not None and array.size <= LONGEST_SHOWN else None
    return ShownValue(value.name, value.dtype.name, value.shape, elements)


def _fields(desc: dict[str, Any]) -> list[str]:
    """Return one line per field, the values in a column."""
    width = max(map(len, desc)) + 4
    lines: list[str] = []
    for name, value in desc.items():
        parts = [str(value)]
        if isinstance(value, dict):
            fields: dict[str, Any] = {**value}
            parts = [f"{fields.pop('DataType')} {fields.pop('Sizes')}"]
            parts += [f"{field} {found}" for field, found in fields.items()]
        lines += _filled(parts, f"  {name}".ljust(width))
    return lines


def _formula(formula: Formula) -> list[str]:
    lines = [f"  {formula.equation}"]
    if len(lines[0]) > WIDTH:
        left, right = formula.equation.split(" = ")
        lines = [f"  {left}", f"    = {right}"]
    if formula.coordinates:
        lines.append(f"  {formula.coordinates}")
    bounds = _filled(formula.bounds.split(", "), "  ") if formula.bounds else []
    return [*lines, *bounds, *_filled([formula.range], "  ")]


def _node(number: int, node: ShownNode, constants: dict[str, ShownValue]) -> list[str]:
    start = f"  {number}. ".ljust(6)
    indent = " " * len(start)
    arguments = [_argument(name, constants) for name in node.inputs]
    for name, value in node.attributes.items():
        shown = list(value) if isinstance(value, tuple) else value
        if node.operator == "Cast" and isinstance(value, int):
            shown = _TYPE_NAMES[value]
        arguments.append(f"{name}={shown}")
    call, output = f"{node.operator}({', '.join(arguments)})", f"-> {node.output}"
    lines = [f"{start}{call} {output}"]
    if len(lines[0]) > WIDTH:
        lines = [*_filled([call], start), *_filled([output], indent)]
    return [*lines, *_filled([node.why], indent)]


def _argument(name: str, constants: dict[str, ShownValue]) -> str:
    """Return an input of a node: the elements of a short constant, the name, or a dash for none."""
    if name in constants and constants[name].elements is not None:
        return str(constants[name].elements)
    return name or "-"


def _filled(parts: list[str], start: str) -> list[str]:
    """Return lines with commas between the parts, which stay whole where they fit."""
    room = WIDTH - len(start) - 1
    whole = [part.replace(" ", _NO_BREAK) if len(part) <= room else part for part in parts]
    lines = textwrap.wrap(
        ", ".join(whole), WIDTH, initial_indent=start, subsequent_indent=" " * len(start)
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]
