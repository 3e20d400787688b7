"""Draws the picture at the head of the README: a struct, its nodes, its elements."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import header_names
from onnxgather.core.descriptors.reference import source_map
from onnxgather.core.descriptors.spelling import tensors
from onnxgather.core.programs.program import read_program

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "translation.svg"
PROGRAM = ROOT / "models" / "gather_2_concatenate_rows.json"

WIDTH, HEIGHT = 640, 490
LINE = 21
CELL = 34
SPACE = 26
"""The height of a line, the side of a cell, the room between two nodes; in pixels."""

HEAD = f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}">
<style>
svg {{ color: #1f2328; background: #fff }}
text {{ fill: currentColor; font: 14px ui-monospace, Menlo, Consolas, \
'DejaVu Sans Mono', monospace }}
.title {{ font: bold 14px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif }}
.soft {{ fill: #656d76 }}
.box {{ fill: #ddf4ff; stroke: #0969da }}
.cell {{ fill: #f6f8fa; stroke: #d0d7de }}
.arrow {{ stroke: #0969da; stroke-width: 1.5; fill: none; marker-end: url(#head) }}
.edge {{ stroke: #656d76; fill: none; marker-end: url(#head) }}
.middle {{ text-anchor: middle }}
marker path {{ fill: #0969da }}
@media (prefers-color-scheme: dark) {{
svg {{ color: #e6edf3; background: #0d1117 }}
.soft {{ fill: #9198a1 }}
.box {{ fill: #0c2d4f; stroke: #4493f8 }}
.cell {{ fill: #151b23; stroke: #3d444d }}
.arrow {{ stroke: #4493f8 }}
.edge {{ stroke: #9198a1 }}
marker path {{ fill: #4493f8 }}
}}
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" \
markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>
"""


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Return a line of text; `kind` is a class of the style sheet."""
    words = escape(words).replace("  ", "\u00a0\u00a0")
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{words}</text>\n'


def line(kind: str, *points: tuple[float, float]) -> str:
    """Return a line through points, with an arrow at its end."""
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f'<polyline class="{kind}" points="{path}"/>\n'


def box(kind: str, x: float, y: float, width: float, height: float) -> str:
    """Return a rectangle."""
    size = f'width="{width:g}" height="{height:g}"'
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" {size} rx="4"/>\n'


def struct(desc: og.Descriptor, x: float, y: float) -> str:
    """Return a descriptor as C has it."""
    name = f"DML_{desc.operator}_OPERATOR_DESC"
    rows = [(f"{name} gather = {{", "")]
    header = header_names(type(desc))
    of_tensors = tensors(desc)
    for attribute, field in header.items():
        if field in of_tensors:
            tensor = of_tensors[field]
            sizes = ", ".join(map(str, tensor.sizes))
            name = field.removesuffix("Tensor").lower()
            rows.append((f"  &{name},", f"// {tensor.data_type} {{{sizes}}}"))
        else:
            rows.append((f"  {getattr(desc, attribute)},", f"// {field}"))
    rows.append(("};", ""))
    parts: list[str] = []
    for number, (code, comment) in enumerate(rows):
        parts.append(text(x, y + number * LINE, code))
        if comment:
            parts.append(text(x + 108, y + number * LINE, comment, "soft"))
    return "".join(parts)


def nodes(desc: og.Descriptor, x: float, y: float) -> str:
    """Return the nodes of the descriptor's model, the first at the top."""
    model = og.to_onnx(desc)
    parts: list[str] = []
    width, height = 168, 30
    left = x + 52
    middle = left + width / 2
    parts.append(text(middle, y, "IndicesTensor", "middle soft"))
    top = y + 8
    for node in model.graph.node:
        words = node.op_type
        for attribute in node.attribute:
            if attribute.name == "axis":
                words += f" axis={attribute.i}"
        parts.append(line("edge", (middle, top), (middle, top + SPACE - 8)))
        top += SPACE - 8
        parts.append(box("box", left, top, width, height))
        parts.append(text(middle, top + 20, words, "middle"))
        if "InputTensor" in node.input:
            y_of_input = top + height / 2
            parts.append(text(left - 128, y_of_input - 6, "InputTensor", "soft"))
            parts.append(line("edge", (left - 128, y_of_input), (left, y_of_input)))
        top += height
    parts.append(line("edge", (middle, top), (middle, top + SPACE - 8)))
    parts.append(text(middle, top + SPACE + 8, "OutputTensor", "middle soft"))
    return "".join(parts)


def grid(name: str, array: Array, x: float, y: float) -> str:
    """Return a matrix with its name."""
    parts = [text(x, y - 10, name, "soft")]
    for (row, column), value in np.ndenumerate(array):
        left = x + column * CELL
        top = y + row * CELL
        parts.append(box("cell", left, top, CELL, CELL))
        parts.append(text(left + CELL / 2, top + 22, f"{value:g}", "middle"))
    return "".join(parts)


def elements(desc: og.Descriptor, data: Array, indices: Array, y: float) -> str:
    """Return the tensors of a gather, with an arrow to each row of the output."""
    output = og.reference(desc, data, indices)
    x_of_data, x_of_indices, x_of_output = 20, 232, 500
    column = indices.reshape(-1, 1)
    parts = [
        grid("InputTensor", data, x_of_data, y),
        grid("IndicesTensor", column, x_of_indices, y),
        grid("OutputTensor", output, x_of_output, y),
    ]
    offsets = source_map(desc, indices)
    for row in range(len(output)):
        source = int(offsets[row, 0]) // data.shape[1]
        middle = y + row * CELL + CELL / 2
        from_row = y + source * CELL + CELL / 2
        start = (x_of_data + 2 * CELL, from_row)
        parts.append(line("arrow", start, (x_of_indices - 3, middle)))
        start = (x_of_indices + CELL, middle)
        parts.append(line("arrow", start, (x_of_output - 3, middle)))
    return "".join(parts)


def picture() -> str:
    """Return the picture as SVG."""
    (dispatch,) = read_program(str(PROGRAM)).dispatches
    assert dispatch.data is not None
    assert dispatch.indices is not None
    desc = dispatch.descriptor
    parts = [
        HEAD,
        text(20, 28, "The struct of DirectML", "title"),
        struct(desc, 20, 58),
        text(372, 28, "The ONNX model", "title"),
        nodes(desc, 376, 58),
        text(20, 298, "What both compute", "title"),
        elements(desc, dispatch.data, dispatch.indices, 336),
        "</svg>\n",
    ]
    return "".join(parts)


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
