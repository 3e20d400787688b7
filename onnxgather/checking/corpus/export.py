"""The export of cases as files that others can run without this package."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from onnxgather.checking.cases import (
    Case,
    DescriptorCase,
    NodeCase,
    case_beside,
    is_beside_nodes,
)
from onnxgather.checking.corpus.wpt import WptFile, why_not_wpt, wpt_file, wpt_test
from onnxgather.checking.folders import FolderKind
from onnxgather.core.checks import check_choice, shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import FACTS
from onnxgather.core.descriptors.spelling import to_dict
from onnxgather.core.errors import FAULTS, OnnxGatherError, pass_foreign
from onnxgather.core.files import filled_in
from onnxgather.core.lowering.webnn.requirements import REQUIRED_RANK
from onnxgather.core.options import FORMATS, POLICIES, FormatName, OutOfRange
from onnxgather.core.programs.writer import write_program
from onnxgather.core.version import __version__

MADE_BY = "onnxgather corpus export"

_NAME = re.compile(r"[a-z0-9-]+(/[a-z0-9-]+)*")

_README = "checking/corpus/readme"
"""The folder of the templates of README.md: one template for each format, and the
template of the part that all formats share."""


@dataclass
class Exported:
    """What an export wrote."""

    written: int = 0
    """How many cases were written."""
    beside: int = 0
    """How many valid cases were written beside those that must be refused."""
    left_out: Counter[str] = field(default_factory=Counter[str])
    """How many cases the format cannot hold, by the reason."""


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `index.json` says of a case."""

    name: str
    file: str
    """The file or folder of the case, below the export's folder."""
    policy: OutOfRange
    operator: str
    data_type: str
    index_type: str
    expected: Literal["output", "refused"]
    answer: str | None = None
    """The folder of the answer to the case, below the folder of the answers; None for
    Web Platform Tests, which compare their outputs themselves."""
    beside: str | None = None
    """Of a case that must be refused: the name of the valid case beside it."""


class Index(msgspec.Struct, frozen=True):
    """The `index.json` of an export."""

    made_by: str
    format: FormatName
    digest: str
    """What `digest_of` returns for the cases."""
    cases: tuple[Row, ...]
    left_out: tuple[dict[str, str], ...] = ()


def export(
    cases: Iterable[Case],
    format: FormatName,
    folder: str | os.PathLike[str],
    force: bool = False,
) -> Exported:
    """Write cases to a folder, with an `index.json` and a `README.md`.

    `index.json` lists the cases; `README.md` says how to use them. Beside a case that
    must be refused stands a valid case, as a refusal alone proves nothing.

    Args:
        cases: The cases. Their names, lower case with `/` between parts, become file
            names.
        format: "onnx", "dxdispatch", "json" or "wpt".
        folder: A folder that does not exist, is empty or holds an earlier export. The
            new export replaces an earlier one when it is whole.
        force: Whether files of an earlier export that were changed are replaced, and
            files that others put there are left; else either is an error.

    Raises:
        OnnxGatherError: The folder holds other files or cannot be written, the format
            is unknown, or a case's name cannot be a file's.
    """
    format = check_choice("format", format, FORMATS)
    exported = Exported()
    EXPORT.write(os.fspath(folder), _files(cases, format, exported), force)
    return exported


def index_of(made_by: str, **content: object) -> bytes:
    """Return the `index.json` that a command writes."""
    index = {"made_by": f"{made_by} {__version__}", **content}
    return msgspec.json.format(msgspec.json.encode(index), indent=1) + b"\n"


def is_export(folder: str, made_by: str = MADE_BY) -> bool:
    """Return whether a command wrote the `index.json` in a folder."""
    # The file may be absent, no JSON, nested too deeply, or of any other shape.
    try:
        index: Any = msgspec.json.decode(Path(folder, "index.json").read_bytes())
        return index["made_by"].startswith(made_by)
    except (*FAULTS, OSError) as error:
        pass_foreign(error)
        return False


EXPORT = FolderKind(
    "export",
    "the folder must be empty or an earlier export, got {} in it",
    ("cases", "refused", "cases.jsonl", "README.md"),
    ("index.json",),
    is_export,
)


class Entry(NamedTuple):
    """A case in an export."""

    file: str
    """The file or folder of the case, below the export's folder."""
    content: dict[str, bytes]
    """The content of its files, by path. Of a file that cases share, the content is the
    part of this case."""
    test_file: WptFile | None = None
    """Of a Web Platform Test: its file, which has a start and an end of its own."""


def digest_of(cases: Iterable[Case]) -> str:
    """Return the digest of cases and of their expected outputs, but of no sentence."""
    digest = sha256()
    for case in cases:
        digest.update(_identity(case, case.expected()))
    return digest.hexdigest()


def _identity(case: Case, expected: Array | str) -> bytes:
    """Return what a digest of cases is made of: the case as JSON."""
    line = _line(case, expected)
    # Another version may say in other words why a case must be refused.
    if isinstance(expected, str):
        line["expected"] = "refused"
    return msgspec.json.encode(line)


def _files(
    cases: Iterable[Case], format: FormatName, exported: Exported
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an export, and count its cases in `exported`."""
    entry_of = _ENTRIES[format]
    rows: list[Row] = []
    left_out: list[dict[str, str]] = []
    seen: set[str] = set()
    digest = sha256()
    all_beside: dict[str, Case] = {}
    test_files: dict[str, WptFile] = {}
    # The cases beside others come last, as they are known only then.
    for case in chain(cases, all_beside.values()):
        _check_name(case.name, seen)
        expected = case.expected()
        entry = entry_of(case, expected)
        if isinstance(entry, str):
            left_out.append({"name": case.name, "why": entry})
            continue
        test_file = entry.test_file
        if test_file is not None and test_file.path not in test_files:
            test_files[test_file.path] = test_file
            yield test_file.path, test_file.start
        yield from entry.content.items()
        beside = case_beside(case)
        if beside is not None:
            # Forbidden nodes of one operator share the case beside them.
            all_beside[beside.name] = beside
        row = Row(
            case.name,
            entry.file,
            case.out_of_range,
            case.operator,
            case.data_type,
            case.index_type,
            "refused" if isinstance(expected, str) else "output",
            # Web Platform Tests have no answers.
            None if format == "wpt" else answer_folder(case.name, format),
            None if beside is None else beside.name,
        )
        rows.append(row)
        digest.update(_identity(case, expected))

    for path, test_file in test_files.items():
        yield path, test_file.end
    exported.beside = len(all_beside)
    exported.written = len(rows) - exported.beside
    for reason in left_out:
        exported.left_out[reason["why"]] += 1
    yield "README.md", _readme(format, exported).encode()
    index = index_of(
        MADE_BY,
        format=format,
        digest=digest.hexdigest(),
        cases=rows,
        left_out=left_out,
    )
    yield "index.json", index


def _check_name(name: str, seen: set[str]) -> None:
    """Check that a name can be a file's and is no earlier case's; add it to `seen`."""
    if not _NAME.fullmatch(name):
        raise OnnxGatherError(
            "a case's name must be of a-z, 0-9 and -, with / between its parts, to be"
            " exported"
            f", got {shown(name)}"
        )
    # The ONNX format names the files of "a/b" and of "a-b" alike.
    file = name.replace("/", "-")
    if file in seen:
        raise OnnxGatherError(
            f"the files of a case must be its own, got {shown(name)} again"
        )
    seen.add(file)


def answer_folder(name: str, format: FormatName) -> str:
    """Return the folder of the answer to a case, below that of all answers.

    It is the name of the case, but for ONNX backend tests the name of the test.
    """
    if format != "onnx":
        return name
    return "test_" + name.replace("/", "_").replace("-", "_")


def _onnx_test(case: Case, expected: Array | str) -> Entry:
    """Return the files of a backend test, in the layout of ONNX's own tests.

    A case that must be refused has the same layout without an output. It stands in
    another folder, as ONNX's runners would fail it.
    """
    from onnxgather.checking.node_models import bare_model, tensor_bytes
    from onnxgather.core.model.write import descriptor_model

    if isinstance(case, NodeCase):
        node = case.node
        model = bare_model(
            node.operator, node.attributes, case.data, case.indices, node.output_shape
        )
    else:
        model = descriptor_model(case.descriptor, case.out_of_range)

    kind = "refused" if isinstance(expected, str) else "cases"
    folder = f"{kind}/{answer_folder(case.name, 'onnx')}"
    arrays = f"{folder}/test_data_set_0"
    content = {
        f"{folder}/model.onnx": model.SerializeToString(deterministic=True),
        f"{arrays}/input_0.pb": tensor_bytes("InputTensor", case.data),
        f"{arrays}/input_1.pb": tensor_bytes("IndicesTensor", case.indices),
    }
    if not isinstance(expected, str):
        content[f"{arrays}/output_0.pb"] = tensor_bytes("OutputTensor", expected)
    return Entry(folder, content)


def _program(case: Case, _: Array | str) -> Entry | str:
    """Return the DxDispatch program of a case."""
    if isinstance(case, NodeCase):
        return "is an ONNX node that no descriptor says"
    file = f"cases/{case.name}.json"
    comment = f"{case.name}, out_of_range={case.out_of_range}"
    program = write_program(case.descriptor, case.data, case.indices, comment=comment)
    return Entry(file, {file: program.encode()})


def _json_line(case: Case, expected: Array | str) -> Entry:
    """Return the line of a case in the one file of all cases."""
    line = msgspec.json.encode(_line(case, expected)) + b"\n"
    return Entry("cases.jsonl", {"cases.jsonl": line})


def _line(case: Case, expected: Array | str) -> dict[str, Any]:
    """Return a case as JSON."""
    line: dict[str, Any] = {"name": case.name, "out_of_range": case.out_of_range}
    if isinstance(case, DescriptorCase) and is_beside_nodes(case):
        # A program that runs descriptors alone refuses each node, and proves nothing.
        facts = FACTS[case.operator]
        line["node"] = {
            "operator": facts.onnx,
            "attributes": {facts.attribute: 0},  # axis 0, or no batch dimensions
            "output_shape": case.descriptor.output_tensor.sizes,
        }
    elif isinstance(case, DescriptorCase):
        line["descriptor"] = to_dict(case.descriptor)
    else:
        line["node"] = {
            "operator": case.node.operator,
            "attributes": dict(case.node.attributes),
            "output_shape": case.node.output_shape,
        }
    line["data"] = _array(case.data)
    line["indices"] = _array(case.indices)
    if isinstance(expected, str):
        line["expected"] = {"refused": expected}
    else:
        line["expected"] = {"output": _array(expected)}
    return line


def _array(array: Array) -> dict[str, Any]:
    """Return an array as JSON: its type, its shape, and its bytes in hexadecimal.

    Texts stand there as they are.
    """
    if array.dtype.hasobject:
        texts = array.ravel().tolist()
        return {"type": "string", "shape": array.shape, "texts": texts}
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return {
        "type": array.dtype.name,
        "shape": array.shape,
        "hex": little.tobytes().hex(),
    }


def _wpt_entry(case: Case, expected: Array | str) -> Entry | str:
    """Return the Web Platform Test of a case."""
    why_not = why_not_wpt(case)
    if why_not is not None:
        return why_not
    # Such a case is of a descriptor, and nothing refuses it.
    assert isinstance(case, DescriptorCase)
    assert not isinstance(expected, str)
    test_file = wpt_file(case)
    content = {test_file.path: wpt_test(case, expected)}
    return Entry(test_file.path, content, test_file)


_ENTRIES: dict[FormatName, Callable[[Case, Array | str], Entry | str]] = {
    "onnx": _onnx_test,
    "dxdispatch": _program,
    "json": _json_line,
    "wpt": _wpt_entry,
}
"""For each format, the function that makes an entry of a case.

Its arguments are the case and its expected output, or the rule that the case breaks. It
returns a reason if the format cannot hold the case.
"""


def _readme(format: FormatName, exported: Exported) -> str:
    policies = [f'- "{name}": it {policy.rule}.' for name, policy in POLICIES.items()]
    case = "the name of the case, such as `gather/rank-1/axis-0`"
    if format == "onnx":
        case = "the name of its folder, such as `test_gather_rank_1_axis_0`"
    common = filled_in(
        f"{_README}/common.md",
        policies="\n".join(policies),
        case=case,
        beside=exported.beside,
    )
    left_out = ""
    for reason, count in exported.left_out.items():
        left_out += f"\nLeft out: {count}, as each {reason}."
    return filled_in(
        f"{_README}/{format}.md",
        written=exported.written,
        left_out=left_out,
        common=common.rstrip(),
        largest=REQUIRED_RANK,
    )
