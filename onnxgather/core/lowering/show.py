"""A descriptor explained: its fields, its formula, its ONNX nodes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from html import escape
from typing import Any

import msgspec

from onnxgather.core.checks import check_choice, uint
from onnxgather.core.descriptors.arrays import Array, check_descriptor
from onnxgather.core.descriptors.feature_levels import (
    feature_requirements,
    minimum_feature_level,
)
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.reference import directml_strides
from onnxgather.core.descriptors.spelling import to_dict
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.gather import gather_of
from onnxgather.core.lowering import lower
from onnxgather.core.lowering.graph import ONNX_TYPES, Attribute, Graph, Value, constant
from onnxgather.core.options import (
    DEFAULT_OPSET,
    OPSETS,
    POLICIES,
    TARGETS,
    OutOfRange,
    Target,
)

TEXT_WIDTH = 80
"""Columns of the text."""

_LONGEST_LIST = 8
"""The most elements of a constant that are written where a node reads it."""

_NO_BREAK = "\xa0"

_TYPE_NAMES = {number: name for name, number in ONNX_TYPES.items()}


class Requirement(msgspec.Struct, frozen=True):
    """A field and the feature level that it needs."""

    feature_level: str
    field: str


class Formula(msgspec.Struct, frozen=True):
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


class DescribedValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value of the graph: numpy's name of its data type, its shape, and its elements if few."""

    name: str
    data_type: str
    shape: tuple[int, ...]
    elements: Any = None

    def __str__(self) -> str:
        return f"{self.name}: {self.data_type}[{', '.join(map(str, self.shape))}]"


class DescribedNode(msgspec.Struct, frozen=True):
    """An ONNX node and why it is there."""

    operator: str
    inputs: tuple[str, ...]
    attributes: dict[str, Attribute]
    output: DescribedValue
    why: str


class PassedOver(msgspec.Struct, frozen=True):
    """A form of the target's list that was tried before the chosen one, and why it does not fit."""

    form: str
    why: str


class Description(msgspec.Struct, frozen=True):
    """A descriptor and the model that it becomes, as `onnxgather show --json` prints them."""

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

    def __str__(self) -> str:
        return description_text(self)

    def __repr__(self) -> str:
        return f"<Description of {self.descriptor['type']}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def show(
    desc: Descriptor,
    out_of_range: OutOfRange = "clamp",
    target: Target = "portable",
    opset: int = DEFAULT_OPSET,
) -> Description:
    """The fields, the formula and the ONNX nodes of a descriptor; str() is their text.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does; see `OutOfRange`.
        target: Which model `to_onnx` makes of it; see `TARGETS`.
        opset: The version of the ONNX operator set.

    Raises:
        OnnxGatherError: An argument is not as it must be.
    """
    check_descriptor(desc)
    check_choice("out_of_range", out_of_range, POLICIES)
    check_choice("target", target, TARGETS)
    opset = uint("opset", opset, OPSETS[-1], OPSETS[0], OnnxGatherError)
    return describe(desc, out_of_range, target, opset)


def describe(
    desc: Descriptor,
    out_of_range: OutOfRange,
    target: Target,
    opset: int,
    threads: int | None = None,
) -> Description:
    """The description of a descriptor and of the model that it becomes.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does.
        target: The provider or providers that the model is for.
        opset: The version of the ONNX operator set.
        threads: How many threads the model is for; None stands for 2.
    """
    graph = lower(desc, out_of_range, target=target, threads=threads)
    level = minimum_feature_level(desc)
    return Description(
        to_dict(desc),
        level,
        tuple(
            Requirement(*pair)
            for pair in feature_requirements(desc)
            if pair[0] == level
        ),
        out_of_range,
        write_formula(desc, out_of_range),
        target,
        opset,
        tuple(map(_described, graph.inputs)),
        tuple(_described(constant(*each)) for each in _constants(graph).items()),
        tuple(_nodes(graph)),
        graph.choice,
        tuple(PassedOver(*pair) for pair in graph.passed_over),
    )


def write_formula(desc: Descriptor, out_of_range: OutOfRange) -> Formula:
    """The formula that a descriptor computes.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does.
    """
    gather, count = gather_of(desc), desc.input_tensor.dimension_count
    of_data, of_indices, sizes = (
        iter("abcdefgh"),
        iter("ijklmnop"),
        desc.output_tensor.sizes,
    )
    passed = {count + output: dimension for output, dimension in gather.passed}
    output = [
        "0" if n == 1 else next(of_data if k in passed else of_indices)
        for k, n in enumerate(sizes)
    ]
    index = ["0"] * (count - len(gather.indices))
    index += output[count - gather.after - len(gather.per_index) : count - gather.after]
    if gather.has_tuples:
        index.append("0" if gather.tuple_size == 1 else ":")
    element, coordinates = f"idx[{', '.join(index)}]", None
    names, bounded = [element], ["idx"]
    if gather.tuple_size > 1:
        # The tuple takes one dimension of the indices, so at most i to o name the
        # others.
        names = bounded = list("pqrstuvw"[: gather.tuple_size])
        coordinates = f"{', '.join(names)} = {element}"
    data = ["0"] * count
    for k, dimension in passed.items():
        data[dimension] = output[k]
    for name, dimension in zip(names, gather.indexed, strict=True):
        data[dimension] = name
    return Formula(
        f"out[{', '.join(output)}] = in[{', '.join(data)}]",
        coordinates,
        ", ".join(
            f"{name} < {n}" for name, n in zip(output, sizes, strict=True) if n > 1
        ),
        _range(desc, bounded, out_of_range),
    )


def _range(desc: Descriptor, names: list[str], out_of_range: OutOfRange) -> str:
    signed = desc.indices_tensor.data_type.is_signed
    if out_of_range == "directml":
        added = ""
        if desc.indices_tensor.data_type != "UINT32":
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
    limits = ", ".join(
        f"{-n if signed else 0} <= {name} < {n}"
        for name, n in zip(names, gather_of(desc).axes, strict=True)
    )
    negative = ", from the end where negative" if signed else ""
    return f"{limits}{negative}; an index out of range {POLICIES[out_of_range].brief}"


def _nodes(graph: Graph, within: str = "") -> Iterator[DescribedNode]:
    """Yield the nodes of a graph, each followed by those of its subgraphs."""
    for node in graph.nodes:
        output = _described(graph.values[node.output])
        yield DescribedNode(
            node.op, node.inputs, dict(node.attributes), output, within + node.why
        )
        for name, body in node.bodies.items():
            yield from _nodes(body, f"{name} of {node.output}: ")


def _constants(graph: Graph) -> dict[str, Array]:
    """The constants of a graph and of the functions that it calls."""
    bodies = (body for node in graph.nodes for body in node.bodies.values())
    return {
        name: array
        for each in (graph, *bodies)
        for name, array in each.constants.items()
    }


def _described(value: Value) -> DescribedValue:
    array = value.constant
    elements = (
        array.tolist() if array is not None and array.size <= _LONGEST_LIST else None
    )
    return DescribedValue(value.name, value.dtype.name, value.shape, elements)


def description_text(description: Description) -> str:
    """A description as text of at most 80 columns."""
    operator = description.descriptor["type"].removeprefix("DML_OPERATOR_")
    lines = [
        f"DML_{operator}_OPERATOR_DESC",
        *_fields(description.descriptor["desc"]),
        "",
    ]
    lines.append(f"Feature level {description.feature_level}, needed by")
    lines += [f"  {need.field}" for need in description.needs]
    lines += ["", "Formula", *_formula(description.formula), ""]
    options = f"opset {description.opset}, target {description.target}"
    lines.append(f"ONNX, {options}, out of range: {description.out_of_range}")
    if description.choice:
        lines += _filled("  ", description.choice)
        lines += ["  passed over:"] if description.passed_over else []
        for each in description.passed_over:
            lines += _filled("    ", f"{each.form}: {each.why}")
    constants = {value.name: value for value in description.constants}
    for value in description.inputs:
        lines += _filled("  ", str(value))
    for value in description.constants:
        if value.elements is None:
            lines += _filled("  ", f"{value}, a constant")
    for number, node in enumerate(description.nodes, 1):
        lines += _node(f"  {number}. ".ljust(6), node, constants)
    return "\n".join(lines)


def _fields(desc: dict[str, Any]) -> list[str]:
    """One line per field, the values in a column."""
    width = max(map(len, desc)) + 4
    lines: list[str] = []
    for name, value in desc.items():
        parts = [str(value)]
        if isinstance(value, dict):
            fields: dict[str, Any] = {**value}
            parts = [f"{fields.pop('DataType')} {fields.pop('Sizes')}"]
            parts += [f"{field} {found}" for field, found in fields.items()]
        lines += _filled(f"  {name}".ljust(width), *parts)
    return lines


def _formula(formula: Formula) -> list[str]:
    lines = [f"  {formula.equation}"]
    if len(lines[0]) > TEXT_WIDTH:
        left, right = formula.equation.split(" = ")
        lines = [f"  {left}", f"    = {right}"]
    if formula.coordinates:
        lines.append(f"  {formula.coordinates}")
    bounds = _filled("  ", *formula.bounds.split(", ")) if formula.bounds else []
    return [*lines, *bounds, *_filled("  ", formula.range)]


def _node(
    start: str, node: DescribedNode, constants: dict[str, DescribedValue]
) -> list[str]:
    arguments = [_argument(name, constants) for name in node.inputs]
    for name, value in node.attributes.items():
        text = list(value) if isinstance(value, tuple) else value
        if node.operator == "Cast" and isinstance(value, int):
            text = _TYPE_NAMES[value]
        arguments.append(f"{name}={text}")
    call, output = f"{node.operator}({', '.join(arguments)})", f"-> {node.output}"
    lines, indent = [f"{start}{call} {output}"], " " * len(start)
    if len(lines[0]) > TEXT_WIDTH:
        lines = [*_filled(start, call), *_filled(indent, output)]
    return [*lines, *_filled(indent, node.why)]


def _argument(name: str, constants: dict[str, DescribedValue]) -> str:
    """An input of a node: the elements of a short constant, the name, or a dash if left out."""
    if name in constants and constants[name].elements is not None:
        return str(constants[name].elements)
    return name or "-"


def _filled(start: str, *parts: str) -> list[str]:
    """Lines that begin with `start` and hold the parts with commas between them.

    A part is broken only if it does not fit on a line.
    """
    room = TEXT_WIDTH - len(start) - 1
    whole = [
        part.replace(" ", _NO_BREAK) if len(part) <= room else part for part in parts
    ]
    lines = textwrap.wrap(
        ", ".join(whole),
        TEXT_WIDTH,
        initial_indent=start,
        subsequent_indent=" " * len(start),
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]
