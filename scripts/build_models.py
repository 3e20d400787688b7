"""Makes the folder models/ from the table of examples below.

    python scripts/build_models.py          rewrites the folder and says what changed
    python scripts/build_models.py --check  changes nothing; exit code 1 if a file differs

Each example becomes NAME.json, a DxDispatch program; NAME.txt, what its print command prints; and
NAME.onnx, the portable model of its descriptor. A changed version of onnxgather changes the .onnx
files too, as they name their producer.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import onnxgather as og
from onnxgather.arrays import Array
from onnxgather.dxdispatch import execute, parse_program

MODELS = Path(__file__).resolve().parent.parent / "models"

LONGEST_LINE = 8
"""Numbers that a line of initial values has room for."""

TENSORS = ("InputTensor", "IndicesTensor", "OutputTensor")


@dataclass(frozen=True)
class Example:
    """A program: its comment, its descriptor and the values of its two inputs."""

    comment: str
    resources: tuple[str, str, str]
    """The names of input, indices and output."""
    desc: og.Descriptor
    data: list[Any] | str
    """Nested lists like the tensor's sizes; a string stands for the UINT8 codes of its letters."""
    indices: list[Any]


FLOAT32, FLOAT16, UINT8 = "FLOAT32", "FLOAT16", "UINT8"
UINT32, UINT64, INT32, INT64 = "UINT32", "UINT64", "INT32", "INT64"

DATA = ("input", "indices", "output")

DOCUMENTED = {
    "gather_1_remap_1d": Example(
        """\
DML_GATHER_OPERATOR_DESC, example 1: 1D remapping.
output[x] = input[indices[x]]
Erratum: the page's range for IndexDimensions leaves out DimensionCount, 1, that it has here.
""",
        DATA,
        og.GatherDesc(
            og.TensorDesc(FLOAT32, [4]),
            og.TensorDesc(UINT32, [5]),
            og.TensorDesc(FLOAT32, [5]),
            axis=0,
            index_dimensions=1,
        ),
        data=[11, 12, 13, 14],
        indices=[3, 1, 3, 0, 2],
    ),
    "gather_2_concatenate_rows": Example(
        """\
DML_GATHER_OPERATOR_DESC, example 2: 2D output, 1D indices, axis 0, concatenate rows.
output[y, x] = input[indices[y], x]
""",
        DATA,
        og.GatherDesc(
            og.TensorDesc(FLOAT32, [3, 2]),
            og.TensorDesc(UINT32, [1, 4]),
            og.TensorDesc(FLOAT32, [4, 2]),
            axis=0,
            index_dimensions=1,
        ),
        data=[[1, 2], [3, 4], [5, 6]],
        indices=[[0, 1, 1, 2]],
    ),
    "gather_3_swap_columns": Example(
        """\
DML_GATHER_OPERATOR_DESC, example 3: 2D, axis 1, swap columns.
output[y, x] = input[y, indices[x]]
Erratum: the page prints IndexDimensions 2, whose output would be {3,1,2}; its output needs 1.
""",
        DATA,
        og.GatherDesc(
            og.TensorDesc(FLOAT32, [3, 2]),
            og.TensorDesc(UINT32, [1, 2]),
            og.TensorDesc(FLOAT32, [3, 2]),
            axis=1,
            index_dimensions=1,
        ),
        data=[[1, 2], [3, 4], [5, 6]],
        indices=[[1, 0]],
    ),
    "gather_4_nested_indices_axis_1": Example(
        """\
DML_GATHER_OPERATOR_DESC, example 4: 2D, axis 1, nested indices.
output[z, y, x] = input[z, indices[y, x]]
Erratum: the title counts the axis without the leading 1 of InputTensor; the field is 2.
""",
        DATA,
        og.GatherDesc(
            og.TensorDesc(FLOAT32, [1, 3, 3]),
            og.TensorDesc(UINT32, [1, 1, 2]),
            og.TensorDesc(FLOAT32, [3, 1, 2]),
            axis=2,
            index_dimensions=2,
        ),
        data=[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]],
        indices=[[[0, 2]]],
    ),
    "gather_5_nested_indices_axis_0": Example(
        """\
DML_GATHER_OPERATOR_DESC, example 5: 2D, axis 0, nested indices.
output[z, y, x] = input[indices[z, y], x]
Erratum: the title counts the axis without the leading 1 of InputTensor; the field is 1.
""",
        DATA,
        og.GatherDesc(
            og.TensorDesc(FLOAT32, [1, 3, 2]),
            og.TensorDesc(UINT32, [1, 2, 2]),
            og.TensorDesc(FLOAT32, [2, 2, 2]),
            axis=1,
            index_dimensions=2,
        ),
        data=[[[1, 2], [3, 4], [5, 6]]],
        indices=[[[0, 1], [1, 2]]],
    ),
    "gather_elements_1_select_vertically": Example(
        """\
DML_GATHER_ELEMENTS_OPERATOR_DESC, the example: select elements vertically.
output[y, x] = input[indices[y, x], x]
Erratum: the page prints OutputTensor as UINT32; it must have the type of InputTensor.
""",
        DATA,
        og.GatherElementsDesc(
            og.TensorDesc(FLOAT32, [3, 3]),
            og.TensorDesc(UINT32, [2, 3]),
            og.TensorDesc(FLOAT32, [2, 3]),
            axis=0,
        ),
        data=[[1, 2, 3], [4, 5, 6], [7, 8, 9]],
        indices=[[1, 2, 0], [2, 0, 0]],
    ),
    "gather_nd_1_remap_1d": Example(
        """\
DML_GATHER_ND_OPERATOR_DESC, example 1: 1D remapping.
output[y, x] = input[indices[y], x]
""",
        DATA,
        og.GatherNDDesc(
            og.TensorDesc(FLOAT32, [2, 2]),
            og.TensorDesc(UINT32, [2, 1]),
            og.TensorDesc(FLOAT32, [2, 2]),
            input_dimension_count=2,
            indices_dimension_count=2,
        ),
        data=[[0, 1], [2, 3]],
        indices=[[1], [0]],
    ),
    "gather_nd_2_remap_2d": Example(
        """\
DML_GATHER_ND_OPERATOR_DESC, example 2: 2D remapping.
output[y, x] = input[indices[y, 0], indices[y, 1], x]
Erratum: the page's formula for OutputTensor.Sizes gives {1,2,2,2}; its example is right.
""",
        DATA,
        og.GatherNDDesc(
            og.TensorDesc(FLOAT32, [1, 2, 2, 2]),
            og.TensorDesc(UINT32, [1, 1, 2, 2]),
            og.TensorDesc(FLOAT32, [1, 1, 2, 2]),
            input_dimension_count=3,
            indices_dimension_count=2,
        ),
        data=[[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]],
        indices=[[[[0, 1], [1, 0]]]],
    ),
    "gather_nd1_1_remap_1d": Example(
        """\
DML_GATHER_ND1_OPERATOR_DESC, example 1: 1D remapping.
output[y, x] = input[indices[y], x]
""",
        DATA,
        og.GatherND1Desc(
            og.TensorDesc(FLOAT32, [2, 2]),
            og.TensorDesc(UINT32, [2, 1]),
            og.TensorDesc(FLOAT32, [2, 2]),
            input_dimension_count=2,
            indices_dimension_count=2,
            batch_dimension_count=0,
        ),
        data=[[0, 1], [2, 3]],
        indices=[[1], [0]],
    ),
    "gather_nd1_2_remap_2d_batched": Example(
        """\
DML_GATHER_ND1_OPERATOR_DESC, example 2: 2D remapping with batch count.
output[batch, x] = input[batch, indices[batch, x, 0], indices[batch, x, 1]]
Erratum: the page's formula for OutputTensor.Sizes gives {3,2,2,2}; its example is right.
""",
        DATA,
        og.GatherND1Desc(
            og.TensorDesc(FLOAT32, [1, 3, 2, 2]),
            og.TensorDesc(UINT32, [1, 3, 2, 2]),
            og.TensorDesc(FLOAT32, [1, 1, 3, 2]),
            input_dimension_count=3,
            indices_dimension_count=3,
            batch_dimension_count=1,
        ),
        data=[[[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]]],
        indices=[[[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]]],
    ),
}
"""Every example with data on Microsoft's pages of the four operators, errata corrected."""

RECOGNISABLE = {
    "token_embedding": Example(
        """\
Token embedding, the first operator of a language model: one row of a table for each token.
embeddings[sentence, place] = table[token_ids[sentence, place]]
Row 3 of the table begins with 3, row 4 with 4, and so on.
""",
        ("table", "token_ids", "embeddings"),
        og.GatherDesc(
            og.TensorDesc(FLOAT16, [1, 6, 4]),
            og.TensorDesc(INT64, [1, 2, 3]),
            og.TensorDesc(FLOAT16, [2, 3, 4]),
            axis=1,
            index_dimensions=2,
        ),
        data=[[[row, row + 0.25, row + 0.5, row + 0.75] for row in range(6)]],
        indices=[[[1, 4, 2], [3, 5, 0]]],
    ),
    "kv_cache_beam_reorder": Example(
        """\
Beam search: after each step the key cache of the beams that live on is put in their order.
reordered[beam, head, position] = cache[parents[beam], head, position]
A number 213 is beam 2, head 1, and the 3rd of the head's 2 x 2 numbers, counted from 0.
""",
        ("cache", "parents", "reordered"),
        og.GatherDesc(
            og.TensorDesc(FLOAT16, [3, 2, 2, 2]),
            og.TensorDesc(INT32, [1, 1, 1, 3]),
            og.TensorDesc(FLOAT16, [3, 2, 2, 2]),
            axis=0,
            index_dimensions=1,
        ),
        data=[
            [
                [
                    [100 * beam + 10 * head + 2 * position + k for k in range(2)]
                    for position in (0, 1)
                ]
                for head in range(2)
            ]
            for beam in range(3)
        ],
        indices=[[[[2, 0, 0]]]],
    ),
    "detector_topk_boxes": Example(
        """\
Object detection: the boxes (left, top, right, bottom) of the three best scores.
best[image, k, side] = boxes[image, top_k[image, k, side], side]
The same index counts for all four sides of a box, so its stride there is 0: three numbers do.
""",
        ("boxes", "top_k", "best"),
        og.GatherElementsDesc(
            og.TensorDesc(FLOAT32, [1, 6, 4]),
            og.TensorDesc(INT64, [1, 3, 4], strides=[3, 1, 0]),
            og.TensorDesc(FLOAT32, [1, 3, 4]),
            axis=1,
        ),
        data=[
            [
                [12, 20, 64, 80],
                [15.5, 22, 66, 84.5],
                [100, 40, 180, 120],
                [101, 38.5, 178, 122],
                [300, 10, 340, 50],
                [302, 12, 344, 48.5],
            ]
        ],
        indices=[4, 0, 3],
    ),
    "bilinear_corners": Example(
        """\
Bilinear sampling: the four pixels around the points (y, x) = (0.5, 1.5) and (2.25, 3.5).
pixels[point, corner] = image[corners[point, corner, 0], corners[point, corner, 1]]
A pixel of value 23 stands in row 2, column 3.
""",
        ("image", "corners", "pixels"),
        og.GatherNDDesc(
            og.TensorDesc(FLOAT32, [1, 4, 5]),
            og.TensorDesc(INT32, [2, 4, 2]),
            og.TensorDesc(FLOAT32, [1, 2, 4]),
            input_dimension_count=2,
            indices_dimension_count=3,
        ),
        data=[[[10 * row + column for column in range(5)] for row in range(4)]],
        indices=[
            [[0, 1], [0, 2], [1, 1], [1, 2]],
            [[2, 3], [2, 4], [3, 3], [3, 4]],
        ],
    ),
    "keypoint_lookup": Example(
        """\
Pose estimation: the (dy, dx) offsets at the two keypoints found in each of two images.
found[image, keypoint] = offsets[image, keypoints[image, keypoint, 0], keypoints[..., 1]]
An offset 121 is image 1, row 2, column 1; its dx has .5 added.
""",
        ("offsets", "keypoints", "found"),
        og.GatherND1Desc(
            og.TensorDesc(FLOAT32, [2, 3, 2, 2]),
            og.TensorDesc(UINT64, [1, 2, 2, 2]),
            og.TensorDesc(FLOAT32, [1, 2, 2, 2]),
            input_dimension_count=4,
            indices_dimension_count=3,
            batch_dimension_count=1,
        ),
        data=[
            [
                [[100 * image + 10 * row + column + d for d in (0, 0.5)] for column in range(2)]
                for row in range(3)
            ]
            for image in range(2)
        ],
        indices=[[[[0, 1], [2, 0]], [[2, 1], [1, 1]]]],
    ),
    "image_remap": Example(
        """\
A remap of an 8-bit image: each pixel comes from where a map says, here turned a quarter right.
turned[y, x] = image[map[y, x, 0], map[y, x, 1]]
The pixels are the letters A to L, and dxdispatch prints UINT8 as letters.
""",
        ("image", "map", "turned"),
        og.GatherNDDesc(
            og.TensorDesc(UINT8, [1, 3, 4]),
            og.TensorDesc(UINT32, [4, 3, 2]),
            og.TensorDesc(UINT8, [1, 4, 3]),
            input_dimension_count=2,
            indices_dimension_count=3,
        ),
        data="ABCDEFGHIJKL",
        indices=[[[2 - x, y] for x in range(3)] for y in range(4)],
    ),
}
"""Gathers as they stand in real models, at sizes that can be read."""

EXAMPLES = DOCUMENTED | RECOGNISABLE


def build() -> dict[str, bytes]:
    """Return every file of models/ by its name."""
    files: dict[str, bytes] = {}
    for name, example in EXAMPLES.items():
        source = _program(example, None)
        program = parse_program(source, f"{name}.json")
        (line,) = execute(program, og.reference, output_folder=os.devnull)
        (dispatchable,) = program.dispatchables.values()
        assert dispatchable.descriptor == example.desc
        model = og.to_onnx(dispatchable.descriptor, "clamp", "portable", opset=17)
        files[f"{name}.json"] = _program(example, line).encode()
        files[f"{name}.txt"] = line.encode("latin-1") + b"\n"
        files[f"{name}.onnx"] = model.SerializeToString(deterministic=True)
    return files


def differences(folder: Path, files: Mapping[str, bytes]) -> dict[str, str]:
    """Return what is wrong with a folder: "added", "changed" or "removed", by the file's name."""
    found = {path.name: path for path in folder.iterdir()} if folder.is_dir() else {}
    wrong = {name: "added" for name in files if name not in found}
    wrong |= {name: "removed" for name in found if name not in files}
    wrong |= {n: "changed" for n, b in files.items() if n in found and found[n].read_bytes() != b}
    return dict(sorted(wrong.items()))


def update(folder: Path, files: Mapping[str, bytes]) -> dict[str, str]:
    """Make a folder hold these files and no others, each replaced whole; return what changed."""
    folder.mkdir(parents=True, exist_ok=True)
    changes = differences(folder, files)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as made:
        for name, change in changes.items():
            if change != "removed":
                Path(made, name).write_bytes(files[name])
        for name, change in changes.items():
            if change == "removed":
                (folder / name).unlink()
            else:
                Path(made, name).replace(folder / name)
    return changes


def main(arguments: list[str] | None = None) -> int:
    """Rewrite or check the folder; return the exit code."""
    parser = argparse.ArgumentParser(description="Makes the folder models/.")
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--folder", type=Path, default=MODELS, help="instead of models/")
    options = parser.parse_args(arguments)
    files = build()
    changes = (differences if options.check else update)(options.folder, files)
    say = {"added": "is missing", "changed": "differs", "removed": "is not one of the examples"}
    for name, change in changes.items():
        print(f"{name} {say[change]}" if options.check else f"{change} {name}")
    if not changes:
        print(f"{len(files)} files, none differs")
    return 1 if options.check and changes else 0


def _program(example: Example, line: str | None) -> str:
    """Return a program's text; `line` is what it prints, where that is known."""
    names = dict(zip(TENSORS, example.resources, strict=True))
    spelled = og.to_dict(example.desc)
    fields: dict[str, Any] = spelled["desc"]
    tensors = {name: fields.pop(name) for name in TENSORS}
    comment = example.comment.splitlines()
    if line is not None:
        comment += _result(line, example.desc.output_tensor.sizes)
    return "\n".join(
        [
            *(f"// {text}" for text in comment),
            "{",
            '    "resources": {',
            *_resources(example),
            "    },",
            '    "dispatchables": {',
            '        "gather": {',
            f'            "type": "{spelled["type"]}",',
            '            "desc": {',
            *(f"                {_key(name)} {_tensor(t)}," for name, t in tensors.items()),
            ",\n".join(f'                "{name}": {n}' for name, n in fields.items()),
            "            }",
            "        }",
            "    },",
            '    "commands": [',
            "        {",
            '            "type": "dispatch",',
            '            "dispatchable": "gather",',
            '            "bindings": {',
            ",\n".join(f'                {_key(name)} "{r}"' for name, r in names.items()),
            "            }",
            "        },",
            f'        {{ "type": "print", "resource": "{names["OutputTensor"]}" }}',
            "    ]",
            "}",
            "",
        ]
    )


def _resources(example: Example) -> list[str]:
    """Return the lines of the three resources."""
    desc = example.desc
    blank = f'{{ "value": 0, "valueCount": {math.prod(desc.output_tensor.array_shape)} }}'
    values = (
        _list(_array(desc.input_tensor, example.data)),
        _list(_array(desc.indices_tensor, example.indices)),
        blank,
    )
    tensors = (desc.input_tensor, desc.indices_tensor, desc.output_tensor)
    parts = [
        f'        "{name}": {{\n'
        f'            "initialValuesDataType": "{tensor.data_type}",\n'
        f'            "initialValues": {value}\n'
        "        }"
        for name, tensor, value in zip(example.resources, tensors, values, strict=True)
    ]
    return [",\n".join(parts)]


def _result(line: str, sizes: tuple[int, ...]) -> list[str]:
    """Return the lines of a comment that lays a printed line out in rows."""
    rows = _rows(line.partition(": ")[2].split(", "), sizes, " ")
    start = f"Result {{{','.join(map(str, sizes))}}}:"
    return [f"{start} {rows[0]}"] if len(rows) == 1 else [start, *(f"    {row}" for row in rows)]


def _list(array: Array) -> str:
    """Return the numbers of an array as JSON, on lines of their own where there are many."""
    numbers = [json.dumps(int(n) if n == int(n) else n) for n in array.reshape(-1).tolist()]
    rows = _rows(numbers, array.shape, ", ")
    if len(rows) == 1:
        return f"[{rows[0]}]"
    return "[\n" + ",\n".join(" " * 16 + row for row in rows) + "\n            ]"


def _rows(items: list[str], sizes: tuple[int, ...], separator: str) -> list[str]:
    """Return items in lines of whole dimensions, the rows in a line set a little apart."""
    length = row = sizes[-1]
    for size in reversed(sizes[:-1]):
        if length * size > LONGEST_LINE:
            break
        length *= size
    rows = [separator.join(items[i : i + row]) for i in range(0, len(items), row)]
    count = length // row
    return [f"{separator} ".join(rows[i : i + count]) for i in range(0, len(rows), count)]


def _array(tensor: og.TensorDesc, values: list[Any] | str) -> Array:
    if isinstance(values, str):
        return np.frombuffer(values.encode(), np.uint8).reshape(tensor.sizes)
    array = np.array(values, tensor.data_type.numpy)
    assert array.shape == tensor.array_shape
    return array


def _tensor(fields: dict[str, Any]) -> str:
    """Return a tensor on one line, its sizes below those of the tensors beside it."""
    data_type = json.dumps(fields.pop("DataType")) + ","
    rest = ", ".join(f'"{name}": {json.dumps(value)}' for name, value in fields.items())
    return f'{{ "DataType": {data_type:<10} {rest} }}'


def _key(tensor: str) -> str:
    return f"{f'{chr(34)}{tensor}{chr(34)}:':<16}"


if __name__ == "__main__":
    sys.exit(main())
