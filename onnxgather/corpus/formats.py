"""What a case becomes in each format of the export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from onnxgather.arrays import Array
from onnxgather.cases import Case, DescriptorCase, NodeCase
from onnxgather.dxdispatch import to_dict, write_program


class Entry(NamedTuple):
    """A case in an export."""

    file: str
    """The file or folder that holds it, below the export's folder."""
    content: dict[str, bytes]
    """Its files; of a file that several cases share its part."""


def _onnx_test(case: Case, expected: Array | str) -> Entry | str:
    from onnxgather.model import tensor_bytes, to_onnx

    if isinstance(case, NodeCase) or isinstance(expected, str):
        return "must be refused, which an ONNX backend test cannot say"
    folder = "cases/test_" + case.name.replace("/", "_").replace("-", "_")
    model = to_onnx(case.descriptor, case.out_of_range)
    content = {f"{folder}/model.onnx": model.SerializeToString(deterministic=True)}
    for file, name, array in (
        ("input_0", "InputTensor", case.data),
        ("input_1", "IndicesTensor", case.indices),
        ("output_0", "OutputTensor", expected),
    ):
        content[f"{folder}/test_data_set_0/{file}.pb"] = tensor_bytes(name, array)
    return Entry(folder, content)


def _program(case: Case, _: Array | str) -> Entry | str:
    if isinstance(case, NodeCase):
        return "is an ONNX node that no descriptor says"
    file = f"cases/{case.name}.json"
    comment = f"{case.name}, out_of_range={case.out_of_range}"
    program = write_program(case.descriptor, case.data, case.indices, comment=comment)
    return Entry(file, {file: program.encode()})


def _line(case: Case, expected: Array | str) -> Entry:
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
    return Entry("cases.jsonl", {"cases.jsonl": msgspec.json.encode(line) + b"\n"})


def _array(array: Array) -> dict[str, Any]:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return {"type": array.dtype.name, "shape": array.shape, "hex": little.tobytes().hex()}


FORMATS: dict[str, Callable[[Case, Array | str], Entry | str]] = {
    "onnx": _onnx_test,
    "dxdispatch": _program,
    "json": _line,
}
"""By the names that the command line takes: what a case and what is expected of it become, or why
the case has no place in the format. `readme/` has a page of each."""
