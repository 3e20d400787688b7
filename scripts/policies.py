"""Prints a page from reports: `python scripts/policies.py REPORT... > PAGE.md`.

docs/policies.md is such a page. Its last part is of runtimes/out_of_range.py.

A report is the file that `onnxgather check --corpus --lanes LANES --json` prints or
writes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from runtimes import out_of_range

from onnxgather.checking.report_files import open_report
from onnxgather.checking.results import CaseResult, Report, Result, ResultKind, Returned
from onnxgather.core.options import POLICIES

HEAD = """\
# What each lane does, by policy, rank and data type

This page says what each lane does with an index out of range, and which ranks and data types it
runs. These commands print such a page for lanes of yours:

<!-- not run: the corpus needs minutes -->
```sh
onnxgather check --corpus --lanes cpu --lane openvino=../openvino/bin/python --json=report.json
python scripts/policies.py report.json
```

| a cell counts | cases |
| --- | --- |
| right | the output has the bytes of the reference |
| refused | the policy is `error`, and the lane reports an error |
| zeros, clamped, DirectML's, another | the policy is `error`, and the lane returns an output: zeros, the element at the clamped index, the element that DirectML reads, another element |
| not of the data | the policy is `error`, and the lane returns a value that the data does not have |
| wrong, failed | the output has other bytes; the lane crashes, or reports an error where an output is right |
| not run | another provider would run a node, or the lane cannot express the case; this proves nothing |

If a cell is empty, its cases were not counted on the lane. The last table is about runtimes that are
no providers.
"""  # noqa: E501

RETURNED = {
    Returned.ZEROS: "zeros",
    Returned.CLAMPED: "clamped",
    Returned.DIRECTML: "DirectML's",
    Returned.OTHER: "another",
    Returned.FOREIGN: "not of the data",
}

VERSIONS = ("onnxruntime", "DirectML", "chromium")
OPERATORS = ("GATHER", "GATHER_ELEMENTS", "GATHER_ND", "GATHER_ND1")


def word(result: Result) -> str:
    """Return what became of a case, in a word or two."""
    state = result.found or result.state
    if state in ("PASS", "FIXED"):
        # Case: DirectML itself, which was not asked for the policy.
        if result.by_directml:
            return RETURNED[Returned.DIRECTML]
        return "refused" if result.kind is ResultKind.REFUSED else "right"
    if result.kind is ResultKind.NOT_REFUSED:
        return RETURNED.get(result.returned or Returned.UNKNOWN, "an output")
    return {"NOT-RUN": "not run", "DIFF": "wrong", "ERROR": "failed"}[state]


def table(
    head: str,
    rows: Sequence[object],
    is_in: Callable[[CaseResult, object], bool],
    reports: Sequence[Report],
) -> Iterator[str]:
    """Yield the lines of a table: a row for each value, and a column for each lane."""
    lanes = [(report, k) for report in reports for k in range(len(report.lanes))]
    yield (
        f"| {head} | {' | '.join(f'`{report.lanes[k].name}`' for report, k in lanes)} |"
    )
    yield f"| --- {'| --- ' * len(lanes)}|"
    for row in rows:
        cells: list[str] = []
        for report, k in lanes:
            cases = (case for case in report.cases if case.operator in OPERATORS)
            counts = Counter(
                word(case.results[k]) for case in cases if is_in(case, row)
            )
            cells.append(
                ", ".join(f"{name} {count}" for name, count in counts.most_common())
            )
        yield f"| {row} | {' | '.join(cells)} |"


def page(reports: Sequence[Report]) -> str:
    """Return the page that reports make."""
    lines = [HEAD, "## The lanes", ""]
    for report in reports:
        part = ""
        # Case: the report has a part of the corpus, as `check -k` chooses it.
        if not any(case.in_range for case in report.cases):
            part = "; only cases with an index out of range are counted"
        for lane in report.lanes:
            versions = [
                f"{name} {lane.versions[name]}"
                for name in VERSIONS
                if name in lane.versions
            ]
            facts = ", ".join([lane.provider, *versions, *lane.devices])
            lines.append(f"- `{lane.name}`: {facts}{part}")
    lines += ["", "## An index out of range", ""]
    lines += table(
        "policy",
        [*POLICIES],
        lambda case, row: not case.in_range and case.out_of_range == row,
        reports,
    )
    lines += ["", "## Ranks 5 to 8, indices in range", ""]
    ranked = [
        f"{operator}, rank {rank}" for operator in OPERATORS for rank in range(5, 9)
    ]
    lines += table(
        "gather",
        ranked,
        lambda case, row: (
            case.in_range and f"{case.operator}, rank {case.dimension_count}" == row
        ),
        reports,
    )
    lines += ["", "## Data types, indices in range", ""]
    types = sorted({case.data_type for report in reports for case in report.cases})
    lines += table(
        "data",
        types,
        lambda case, row: case.in_range and case.data_type == row,
        reports,
    )
    measured = out_of_range.section(out_of_range.read_rows())
    return "\n".join([*lines, "", measured])


if __name__ == "__main__":
    sys.stdout.buffer.write(page([*map(open_report, sys.argv[1:])]).encode())
