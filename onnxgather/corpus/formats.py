"""What a case becomes in each format of the export, and what its README says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from onnxgather.arrays import Array
from onnxgather.cases import Case, DescriptorCase, NodeCase
from onnxgather.dxdispatch import to_dict, write_program

Files = Iterator[tuple[str, bytes]]


class Format(NamedTuple):
    """One format: each case is some files, or else a line of one file."""

    title: str
    readme: str
    file: Callable[[Case], str]
    """The file or folder that holds a case, below the export's folder."""
    files: Callable[[Case, Array | str], Files]
    """Its files and their bytes, given what is expected of it."""
    leaves_out: Callable[[Case, Array | str], str | None]
    """Why a case has no place in the format."""
    is_lines: bool = False
    """Whether all cases are lines of one file."""


def _onnx_file(case: Case) -> str:
    return "cases/test_" + case.name.replace("/", "_").replace("-", "_")


def _onnx_files(case: Case, expected: Array | str) -> Files:
    from onnxgather.model import tensor_bytes, to_onnx

    assert isinstance(case, DescriptorCase)
    assert not isinstance(expected, str)
    folder = _onnx_file(case)
    model = to_onnx(case.descriptor, case.out_of_range)
    yield f"{folder}/model.onnx", model.SerializeToString(deterministic=True)
    tensors = {"input_0": case.data, "input_1": case.indices, "output_0": expected}
    names = ("InputTensor", "IndicesTensor", "OutputTensor")
    for name, (file, array) in zip(names, tensors.items(), strict=True):
        yield f"{folder}/test_data_set_0/{file}.pb", tensor_bytes(name, array)


def _onnx_leaves_out(_: Case, expected: Array | str) -> str | None:
    if isinstance(expected, str):
        return "must be refused, which an ONNX backend test cannot say"
    return None


def _program_file(case: Case) -> str:
    return f"cases/{case.name}.json"


def _program_files(case: Case, _: Array | str) -> Files:
    assert isinstance(case, DescriptorCase)
    comment = f"{case.name}, out_of_range={case.out_of_range}"
    program = write_program(case.descriptor, case.data, case.indices, comment=comment)
    yield _program_file(case), program.encode()


def _program_leaves_out(case: Case, _: Array | str) -> str | None:
    return "is an ONNX node that no descriptor says" if isinstance(case, NodeCase) else None


def _line_file(_: Case) -> str:
    return "cases.jsonl"


def _line(case: Case, expected: Array | str) -> Files:
    line: dict[str, Any] = {"name": case.name, "out_of_range": case.out_of_range}
    if isinstance(case, DescriptorCase):
        line["descriptor"] = to_dict(case.descriptor)
    else:
        line["node"] = {
            "operator": case.node.operator,
            "attributes": dict(case.node.attributes),
            "output_shape": case.node.output_shape,
        }
    line |= {"data": _array(case.data), "indices": _array(case.indices)}
    refused = isinstance(expected, str)
    line["expected"] = {"refused": expected} if refused else {"output": _array(expected)}
    yield "cases.jsonl", msgspec.json.encode(line) + b"\n"


def _nothing_left_out(_: Case, _expected: Array | str) -> None:
    return None


def _array(array: Array) -> dict[str, Any]:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return {"type": array.dtype.name, "shape": array.shape, "hex": little.tobytes().hex()}


_NAMES = """\
`index.json` lists the cases: `name`, `file`, `policy`, `operator`, `data_type`, `index_type` and
`expected`: "output", or "refused" where whoever runs the case must report an error.
"""

_POLICIES = """\
`policy` says what an index outside [0, n), or [-n, n) for a signed type, does: "clamp" moves it
to the nearest element of its axis (below -n: element 0), "error" is an error, "zero" makes the
output elements that it leads to 0, "directml" does what DirectML.dll 1.15.4 was measured to do.
Of the corpus only `out-of-range/...` has such indices; elsewhere all four give the same.
"""

_EXACT = """\
Gathers move bits. Compare data type, shape and bytes; a tolerance hides a changed NaN or -0.0.
"""

_ONNX = f"""\
Each folder `cases/test_*` is an ONNX backend test: `model.onnx` and, in `test_data_set_0`, its
inputs and its expected output.

{_NAMES}
{_POLICIES}
{_EXACT}
With ONNX Runtime:

```python
from pathlib import Path

import onnx
import onnxruntime

for folder in sorted(Path("cases").iterdir()):
    names = ("input_0", "input_1", "output_0")
    files = [folder / "test_data_set_0" / f"{{name}}.pb" for name in names]
    data, indices, expected = (onnx.numpy_helper.to_array(onnx.load_tensor(f)) for f in files)
    session = onnxruntime.InferenceSession(
        folder / "model.onnx", providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {{"InputTensor": data, "IndicesTensor": indices}})
    same = (found.dtype, found.shape) == (expected.dtype, expected.shape)
    print("ok" if same and found.tobytes() == expected.tobytes() else "WRONG", folder.name)
```

With ONNX's own runner: `onnx.backend.test.loader.load_model_tests(data_dir=FOLDER, kind="cases")`
loads them, where FOLDER is the one of this file. With ONNX Runtime's: `onnx_test_runner cases`.
"""

_PROGRAMS = f"""\
Each file `cases/**/*.json` is a DxDispatch program; its first line names the case and its policy.

{_NAMES}
{_POLICIES}
On Windows, with DirectML itself: `dxdispatch.exe cases\\gather\\rank-1\\axis-0.json` prints the
output. DirectML knows one policy, "directml", and refuses no index.

Anywhere: `onnxgather run cases/gather/rank-1/axis-0.json` prints the same from ONNX Runtime.
"""

_LINES = f"""\
Each line of `cases.jsonl` is a case, as a JSON object:

| field | what it is |
| --- | --- |
| `name` | unique; the part before the last `/` is its group |
| `out_of_range` | its policy |
| `descriptor` | the DirectML operator, as DxDispatch programs spell it |
| `node` | in its place, an ONNX node that ONNX's specification forbids |
| `data`, `indices` | the inputs |
| `expected` | `{{"output": ARRAY}}`, or `{{"refused": WHY}}` |

An array is `{{"type": "float32", "shape": [2, 3], "hex": "..."}}`: the bytes of its elements in
row-major order, little-endian. A tensor whose descriptor has Strides is its 1-D buffer.

{_NAMES}
{_POLICIES}
{_EXACT}
```python
import json

import numpy as np


def array(value):
    elements = np.frombuffer(bytes.fromhex(value["hex"]), np.dtype(value["type"]).newbyteorder("<"))
    return elements.reshape(value["shape"])


for line in open("cases.jsonl", encoding="utf-8"):
    case = json.loads(line)
    print(case["name"], array(case["data"]).shape, list(case["expected"]))
```
"""

FORMATS = {
    "onnx": Format("ONNX backend tests", _ONNX, _onnx_file, _onnx_files, _onnx_leaves_out),
    "dxdispatch": Format(
        "DxDispatch programs", _PROGRAMS, _program_file, _program_files, _program_leaves_out
    ),
    "json": Format("JSON", _LINES, _line_file, _line, _nothing_left_out, is_lines=True),
}
"""The formats by the names that the command line takes."""
