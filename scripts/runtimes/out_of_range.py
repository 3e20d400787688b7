"""Measures what runtimes do with an index out of range, and writes it as a table.

    python scripts/runtimes/out_of_range.py [LANE[=PYTHON]...]

It runs models of one node, with one index in range and one out of range, on the lanes
that are named, as `onnxgather check --lane` names them. Their rows in out_of_range.json
beside it become what was measured. Then the table of docs/policies.md becomes what that
file says; without a lane this is all that it does.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np

from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.lanes import open_lanes, parse_lane
from onnxgather.checking.lanes.lane import Answer, AnswerKind, Lane
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.files import write_whole
from onnxgather.core.gather import gather_of_node

MEASURED = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[2] / "docs" / "policies.md"
MARKS = ("<!-- out of range, by runtime -->", "<!-- end -->")

LENGTH = 48
"""The length of the axis."""

FAR = 2**24
"""How far past the ends an index is that is called far: 64 MiB of FLOAT32 or more."""

INDICES = {
    "just past": LENGTH,
    "far past": LENGTH + FAR,
    "just below": -LENGTH - 1,
    "far below": -LENGTH - FAR,
    "2^32": 2**32,
}
"""The indices, by the heads of their columns."""

INDEX_TYPES = {
    "Gather": ("INT64", "INT32"),
    "GatherElements": ("INT64", "INT32"),
    "GatherND": ("INT64",),
}
"""The operators with the types of indices that ONNX allows there."""

BEHAVIOURS = {
    "fails": "an error, as ONNX Runtime's CPU provider gives",
    "clamps": "the element at the nearest end of the axis",
    "zeros": "the number 0, by a rule or as the memory beside the data held it",
    "wraps": "the element at the index modulo the length of the axis",
    "low 32 bits": "the element at the number that the low 32 bits of the index are",
    "another element": "some other element of the data",
    "foreign memory": "a value that the data has not: memory that is not the model's",
    "ends the program": "the program that asked ends, by a signal or by itself",
    "hangs": "there is no answer within the time of a case",
    "is not asked": "the adapter cannot pass the index on",
    "does not run": "the runtime does not run the operator with valid indices either",
}
"""What a runtime may do, with what an output then holds."""


class Row(msgspec.Struct, frozen=True, order=True):
    """What a runtime does with one index out of range."""

    runtime: str
    version: str
    operator: str
    index_type: str
    index: str
    """The head of the index's column."""
    behaviour: str


SIZES = {
    "Gather": ((LENGTH,), (2,)),
    "GatherElements": ((LENGTH, 2), (2, 2)),
    "GatherND": ((LENGTH, 1), (2, 1)),
}
"""The sizes of the data and of the indices, with which a model has no other node."""


def case_of(operator: str, index_type: str, index: int) -> DescriptorCase:
    """Return a case whose model is one node, with the indices 1 and `index`."""
    gather = gather_of_node(operator, *SIZES[operator], 0)
    data_sizes, index_sizes, output_sizes = gather.tensor_sizes()
    desc = gather.descriptor(
        [
            TensorDesc("FLOAT32", data_sizes),
            TensorDesc(index_type, index_sizes),
            TensorDesc("FLOAT32", output_sizes),
        ]
    )
    data = np.arange(math.prod(data_sizes), dtype=np.float32) + 101
    indices = np.empty((2, math.prod(index_sizes) // 2), index_type.lower())
    indices[0] = 1
    indices[1] = index
    return DescriptorCase(
        f"{operator}/{index_type}",
        desc,
        data.reshape(data_sizes),
        indices.reshape(index_sizes),
        "error",
    )


def behaviour_of(case: DescriptorCase, index: int, answer: Answer) -> str:
    """Return what an answer says of the case's index out of range.

    Raises:
        SystemExit: The answer is none of a runtime.
    """
    if answer.kind is AnswerKind.BROKEN:
        if answer.how in (Breakdown.DIED, Breakdown.EXITED):
            return "ends the program"
        if answer.how is Breakdown.LATE:
            return "hangs"
        sys.exit(f"{case.name}, index {index}: {answer.reason}")
    # Case: the adapter cannot pass the index on, which is no answer of the runtime.
    if answer.kind is AnswerKind.NOT_RUN:
        return "is not asked"
    # What the last index chooses from.
    axis = case.data.reshape(LENGTH, -1)[:, -1]
    # An error counts only beside the right output for valid indices.
    in_range = answer.answers_in_range
    if in_range is None or in_range.reshape(-1)[-1] != axis[0]:
        return "does not run"
    if answer.output is None:
        return "fails"
    outputs = [answer.output]
    if answer.again is not None:
        outputs.append(answer.again)
    elements = {output.reshape(-1)[-1].tobytes() for output in outputs}
    # Case: the output depends on memory that nobody wrote.
    if len(elements) > 1:
        return "foreign memory"
    low = index % 2**32
    if low < LENGTH and axis[low].tobytes() in elements:
        return "low 32 bits"
    expected = {
        "clamps": axis[0 if index < 0 else -1],
        "zeros": np.float32(0),
        "wraps": axis[index % LENGTH],
    }
    (element,) = elements
    for behaviour, value in expected.items():
        if value.tobytes() == element:
            return behaviour
    if element in {value.tobytes() for value in case.data.reshape(-1)}:
        return "another element"
    return "foreign memory"


def measure(lane: Lane) -> Iterator[Row]:
    """Yield the rows of a lane.

    Raises:
        SystemExit: The lane does not start.
    """
    info = lane.start()
    if info.not_run is not None:
        sys.exit(f"lane {info.name}: {info.not_run}")
    versions = info.versions
    version = versions.get(info.provider) or versions.get("onnxruntime", "")
    for operator, index_types in INDEX_TYPES.items():
        for index_type in index_types:
            for head, index in INDICES.items():
                if not -(2**31) <= index < 2**31 and index_type == "INT32":
                    continue
                case = case_of(operator, index_type, index)
                behaviour = behaviour_of(case, index, lane.answer(case))
                yield Row(info.provider, version, operator, index_type, head, behaviour)


def section(rows: Sequence[Row]) -> str:
    """Return the part of the page that rows make, with its marks."""
    lines = [
        MARKS[0],
        "",
        "## An index out of range, by runtime",
        "",
        "`python scripts/runtimes/out_of_range.py` measures this table: models of one"
        " Gather, GatherElements",
        f"or GatherND, on an axis of {LENGTH} numbers of FLOAT32. *Far* is {FAR:,}"
        " further. ONNX calls such an index",
        "an error, and does not say what a runtime then does. mnn has indices of INT32"
        " alone, so its adapter",
        "cannot pass 2^32 on.",
        "",
    ]
    used = {row.behaviour for row in rows}
    for behaviour, meaning in BEHAVIOURS.items():
        if behaviour in used:
            lines.append(f"- *{behaviour}*: {meaning}")
    lines += [
        "",
        f"| runtime | operator | indices | {' | '.join(INDICES)} |",
        f"| --- | --- | --- {'| --- ' * len(INDICES)}|",
    ]
    lines += _table_rows(rows)
    return "\n".join([*lines, "", MARKS[1], ""])


def _table_rows(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line per runtime, operator and index type; equal lines are joined."""
    behaviours: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for row in rows:
        key = (f"{row.runtime} {row.version}", row.operator)
        of_types = behaviours.setdefault(key, {})
        of_types.setdefault(row.index_type, {})[row.index] = row.behaviour
    for (runtime, operator), of_types in behaviours.items():
        first, *others = of_types
        for index_type in others:
            # INT32 has no 2^32.
            if of_types[index_type].items() <= of_types[first].items():
                of_types[f"{first}, {index_type}"] = of_types.pop(first)
                del of_types[index_type]
        for index_types, of_indices in of_types.items():
            cells = " | ".join(of_indices.get(head, "") for head in INDICES)
            yield f"| {runtime} | {operator} | {index_types} | {cells} |"


def read_rows() -> list[Row]:
    """Return the rows that the repository has."""
    return msgspec.json.decode(MEASURED.read_bytes(), type=list[Row])


def with_section(page: str, part: str) -> str:
    """Return a page with a part in the place of what is between its marks."""
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(f"{MARKS[1]}\n")
    return before + part + after


def main(arguments: Sequence[str]) -> None:
    """Measure lanes, and write the data and the page."""
    rows = read_rows()
    names_and_paths = [parse_lane(argument) for argument in arguments]
    names = [name for name, _ in names_and_paths]
    pythons = {name: path for name, path in names_and_paths if path}
    lanes = open_lanes(names, pythons) if names else []
    for lane in lanes:
        with closing(lane):
            measured = list(measure(lane))
        runtimes = {row.runtime for row in measured}
        rows = [row for row in rows if row.runtime not in runtimes] + measured
        rows.sort(key=lambda row: row.runtime)  # stable: the order of a runtime stays
        content = ",\n".join(msgspec.json.encode(row).decode() for row in rows)
        write_whole(str(MEASURED), f"[\n{content}\n]\n".encode())
    page = PAGE.read_text(encoding="utf-8")
    write_whole(str(PAGE), with_section(page, section(rows)).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
