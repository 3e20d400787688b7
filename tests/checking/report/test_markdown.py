"""A report as Markdown, for the summaries of build servers."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from report_samples import (
    CPU,
    DIFF,
    ERROR,
    HOSTILE,
    OPENVINO,
    entry,
    gather_case,
    passed,
    report_of,
    small,
)

from onnxgather.checking.report import markdown
from onnxgather.checking.results import Invalid
from onnxgather.core.output.markdown import MOST_BYTES


def test_the_markdown_of_a_report() -> None:
    report = replace(
        small(), invalid=[Invalid("a.json", "$.x: no")], unusable=["b.json: gone"]
    )
    assert markdown(report).decode() == MARKDOWN


MARKDOWN = """\
## 5 findings; directml did not start. Known: 1 had wrong elements

6 cases on 3 lanes: 7 agree bit for bit, 1 had wrong elements, 1 failed, 1 fixed known difference, \
1 invalid file, 1 unusable file, 1 known, 7 not run, which proves nothing.

| lane |  | PASS | DIFF | ERROR | NOT-RUN | KNOWN | FIXED |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
| cpu | CPUExecutionProvider, onnxruntime 1.31.1, python 3.11.7; CPU | 6 | 0 | 0 | 0 | 0 | 0 |
| openvino | OpenVINOExecutionProvider, onnxruntime 1.24.1, openvino 2025.4 | 1 | 1 | 1 | 1 \
| 1 | 1 |
| directml | did not start: onnxruntime has no DmlExecutionProvider | 0 | 0 | 0 | 6 | 0 | 0 |

- **DIFF** openvino: gather/a: 1 of 4 elements differ, first OutputTensor\\[1,0\\]: expected \
5.0 (00 00 a0 40), got 0.0 (00 00 00 00)
  - again: onnxgather check --case gather/a --lanes openvino
- **ERROR** openvino: gather/b: OpenVINOExecutionProvider failed: no such layout
  - again: onnxgather check --case gather/b --lanes openvino
- **FIXED** openvino: gather/d (wrapped): passes, although it is a known difference
  - again: onnxgather check --case gather/d --lanes openvino --wrap
- **KNOWN** openvino: gather/c: Zeros where an index is out of range (https://example.com/1)
- **NOT-RUN** openvino: gather/e: Gather went to CPUExecutionProvider
- **NOT-RUN** directml: 6 cases, such as gather/a: onnxruntime has no DmlExecutionProvider
- a.json: \\$.x: no
- b.json: gone
"""  # noqa: E501


@pytest.mark.slow
def test_findings_of_one_cause_are_one_line() -> None:
    other = replace(DIFF, reason="2 of 4 elements differ")
    cases = [entry(gather_case(f"c{k}"), [DIFF, other][k % 2]) for k in range(1200)]
    found = markdown(report_of([OPENVINO], *cases)).decode().splitlines()
    assert [line.partition(": 1 of")[0] for line in found if line.startswith("- ")] == [
        "- **DIFF** openvino: 1,200 cases, such as c0"
    ]


def test_texts_from_outside_have_no_meaning() -> None:
    name = HOSTILE + "`|<b>[x](y)*_~&lt;@me#1$\\\u202e"
    report = report_of(
        [replace(OPENVINO, name=name, versions={name: name})],
        entry(gather_case(name), replace(ERROR, lane=name, reason=name)),
        invalid=[Invalid(name, name)],
        unusable=[name],
    )
    text = markdown(report).decode()
    assert all(c.isprintable() or c == "\n" for c in text)
    lines = [line for line in text.splitlines() if "🦖" in line]
    assert len(lines) == 5  # the lane, the case, its command and the two files
    for line in lines:
        plain = re.sub(r"\\[\\`*_\[\]<>|&~#@$!]", "", line)
        assert not set(plain) & set("`<>[]_~&@#$"), plain
    assert re.sub(r"\\.", "", lines[0]).count("|") == 1 + 3


@pytest.mark.slow
def test_the_document_stays_below_the_limit_and_says_what_it_leaves_off() -> None:
    cases = [
        entry(gather_case(f"c{k}"), replace(ERROR, reason=f"{k} " + "🦖" * 400))
        for k in range(900)
    ]
    text = markdown(report_of([OPENVINO], *cases))
    assert MOST_BYTES - 4000 < len(text) <= MOST_BYTES
    kept = text.count(b"\n- ") + text.count(b"\n  - ")
    end = f"\n\n{1800 - kept} lines left off; --json or --html has them all.\n"
    assert text.decode().endswith(end)
    whole = markdown(report_of([OPENVINO], *cases[:300])).decode()
    assert "left off" not in whole


def test_a_long_text_is_cut() -> None:
    lane = replace(CPU, not_run="x" * 5_000_000)
    text = markdown(report_of([lane], entry(gather_case(), passed("cpu")))).decode()
    assert "x" * 400 in text
    assert len(text) < 5000
