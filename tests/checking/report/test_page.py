"""The page of a report, as a browser without a network gets it."""

from __future__ import annotations

import json
import math
import re
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from browser import AT_EACH_WIDTH, in_browser, probed
from html_page import HOSTILE, Page, addresses
from msgspec.structs import replace
from report_samples import (
    CPU,
    DIFF,
    DIRECTML,
    ELSEWHERE,
    ERROR,
    FIXED,
    KNOWN,
    OPENVINO,
    absent,
    bare_case,
    entry,
    gather,
    gather_case,
    passed,
    report_of,
    small,
    spoiled,
)

import onnxgather as og
from onnxgather.checking.judge import with_beside
from onnxgather.checking.report import html
from onnxgather.checking.report.matrix import result_words
from onnxgather.checking.results import (
    Blob,
    CaseResult,
    Evidence,
    ForeignMemory,
    Invalid,
    Result,
    ResultKind,
    Returned,
)
from onnxgather.core.errors import FileFormatError
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.lowering.show import show
from onnxgather.core.output.page import CHUNK
from onnxgather.core.output.picture import Grid
from onnxgather.core.output.result_states import SEVERITIES, STATES, Severity


def test_everything_is_embedded_and_reads_back() -> None:
    page = Page(html(small()))
    data, cases = page.data, page.cases
    for number, (case, shown) in enumerate(zip(small().cases, cases, strict=True)):
        # The last case passed, and its report holds no arrays.
        assert shown["detail"] == (number if number < 5 else -1)
        assert shown["name"] == case.name
        for field in ("operator", "data_type"):
            assert shown[field] == getattr(case, field)
        for result, of_page in zip(case.results, shown["results"], strict=True):
            assert of_page["state"] == result.state
            assert of_page["runs"] == [{"inputs": "", **as_json(result)}]
    assert len(page.packed["results"]) == 2 + 1 + 5 + 1  # each different one once
    causes = [f"{cause['state']} {cause['lane']}" for cause in data["causes"]]
    told = "DIFF 1, ERROR 1, FIXED 1, KNOWN 1, NOT-RUN 1, NOT-RUN 2"
    assert ", ".join(causes) == told
    for lane, shown in zip(small().lanes, data["lanes"], strict=True):
        assert shown == {**shown, **as_json(lane)}
    assert data["severities"][:3] == [
        "ends-process",
        "foreign-memory",
        "wrong-elements",
    ]
    assert data["bad"] == ["DIFF", "ERROR", "FIXED"]


def test_a_finding_has_its_arrays_and_graphs() -> None:
    detail = Page(html(small())).details[0]
    assert detail["descriptor"] == og.to_dict(gather())
    formula = show(gather()).formula
    assert formula.equation == "out[a, i] = in[a, idx[0, i]]"
    assert detail["formula"] == msgspec.to_builtins(formula)
    (graph,) = detail["graphs"]
    assert (graph["target"], graph["opset"]) == ("webgpu", 17)
    assert [node["operator"] for node in graph["nodes"]][-1] == "Gather"
    assert detail["bytes"] == {
        "openvino": [["[1, 0]", "5", "00 00 a0 40", "0", "00 00 00 00"]]
    }
    assert detail["picture"] == {
        "input": [grid([2, 3], "0 1 2 3 4 5")],
        "indices": [grid([1, 2], "2 0")],
        "output": [grid([2, 2], "2 0 5 3")],
        "links": [[0, 2, [0]], [1, 0, [1]], [2, 5, [0]], [3, 3, [1]]],
        "lanes": {"openvino": {"count": 1, "total": 4, "got": {"2": "0"}}},
    }


def grid(sizes: list[int], values: str) -> dict[str, Any]:
    """A grid of a whole packed tensor, as the page gets it."""
    size = tuple(sizes)
    offsets = tuple(range(math.prod(sizes)))
    whole = Grid(size, (0,) * len(size), size, offsets, values)
    return as_json(whole)


def as_json(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


@pytest.mark.parametrize(
    ("failed", "wrapped", "targets"),
    [
        ("openvino", False, ["webgpu"]),
        ("cpu", False, ["cpu"]),
        ("cpu openvino", False, ["cpu", "webgpu"]),
        ("cpu", True, ["portable"]),
    ],
)
def test_graphs_are_those_of_the_lanes_that_failed(
    failed: str, wrapped: bool, targets: list[str]
) -> None:
    case = gather_case().wrapped_in() if wrapped else gather_case()
    results: list[Result] = []
    for lane in ("cpu", "openvino"):
        results.append(replace(ERROR, lane=lane) if lane in failed else passed(lane))
    report = report_of([CPU, OPENVINO, DIRECTML], entry(case, *results, absent()))
    (detail,) = Page(html(report)).details
    assert [graph["target"] for graph in detail["graphs"]] == targets


def test_a_lane_that_did_not_start_makes_no_details() -> None:
    cases = [entry(gather_case(f"case {k}"), passed("cpu"), absent()) for k in range(3)]
    assert Page(html(report_of([CPU, DIRECTML], *cases))).details == []
    one = entry(gather_case(), passed("cpu"), ELSEWHERE)
    assert len(Page(html(report_of([CPU, OPENVINO], one))).details) == 1


def test_a_forbidden_node_has_its_rule() -> None:
    array = np.ones((2, 2), "f4")
    case = entry(
        bare_case(), replace(DIFF, reason="must refuse"), got={"openvino": array}
    )
    (detail,) = Page(html(report_of([OPENVINO], case))).details
    assert detail["node"] == as_json(bare_case().node)
    assert detail["picture"]["output"] == []
    assert "links" not in detail["picture"]
    assert detail["picture"]["lanes"]["openvino"] == {
        "total": 4,
        "instead": [grid([2, 2], "1 1 1 1")],
        "note": "returned float32 [2, 2], but must refuse",
    }


def test_details_come_in_chunks_in_the_order_of_the_cases() -> None:
    cases = [
        entry(gather_case(f"case {k}", gather(sizes=(1, k + 1)), [0, k]), ERROR)
        for k in range(2 * CHUNK + 1)
    ]
    page = Page(html(report_of([OPENVINO], *cases)))
    assert len(page.data["details"]) == 3
    sizes = [
        found["descriptor"]["desc"]["InputTensor"]["Sizes"] for found in page.details
    ]
    assert sizes == [[1, k + 1] for k in range(2 * CHUNK + 1)]
    assert [case["detail"] for case in page.cases] == list(range(2 * CHUNK + 1))


def test_hostile_names_are_inert() -> None:
    lane = replace(OPENVINO, name=HOSTILE, versions={HOSTILE: HOSTILE})
    case = entry(gather_case(HOSTILE), replace(ERROR, lane=HOSTILE, reason=HOSTILE))
    broken = replace(DIRECTML, name=HOSTILE, not_run=HOSTILE, required=True)
    passing = entry(gather_case(HOSTILE), passed(HOSTILE), absent(broken))
    files = {"invalid": [Invalid(HOSTILE, HOSTILE)], "unusable": [HOSTILE]}
    for report in (
        report_of([lane], case, **files),
        report_of([lane, broken], passing),
    ):
        text = html(report)
        page = Page(text)
        shown = "".join(page.texts["h1"] + page.texts["title"])
        escaped = text.count(b"\\u003cscript>alert(1)")
        assert text.count(b"alert(1)") == escaped + shown.count("alert(1)")
        assert len(page.texts["script"]) == 2
        assert page.cases[0]["name"] == HOSTILE
        assert page.data["lanes"][0]["versions"] == {HOSTILE: HOSTILE}
        assert not any("alert" in value for _, value in page.attributes)


def test_the_page_loads_nothing() -> None:
    text = html(small()).decode()
    page = Page(html(small()))
    assert page.loads == []
    style, script = page.texts["style"][0], page.texts["script"][1]
    assert not re.search(r"url\(|@import|image-set|src\s*:", style)
    assert addresses(style + script) == {"http://www.w3.org/2000/svg"}
    rest = text.replace(style, "").replace(script, "")
    known = {"https://example.com/1", "https://example.com/2"}
    assert addresses(rest + json.dumps(page.packed)) == known


def test_every_identifier_that_the_script_asks_for_is_there() -> None:
    page = Page(html(small()))
    assert {"report", "matrix", "causes", "list", "filters", "lanes"} <= page.asked
    assert page.asked <= page.identifiers


def test_the_page_knows_every_state_and_severity() -> None:
    page = Page(html(small()))
    style, script = page.texts["style"][0], page.texts["script"][1]
    for table in re.findall(
        r"const (?:GLYPHS|MEANINGS) = \{(.*?)\};", script, re.DOTALL
    ):
        assert set(re.findall(r'"?([A-Z-]+)"?: "', table)) == set(STATES)
    assert script.count("GLYPHS = {") == script.count("MEANINGS = {") == 1
    coloured = re.findall(r"^((?:\.[a-zA-Z-]+,? )+)\{ --c:", style, re.MULTILINE)
    names = set(re.findall(r"[a-zA-Z-]+", "".join(coloured)))
    assert names == {*STATES, *Severity}


@pytest.mark.slow
def test_1000_findings_make_a_page_below_3_mb() -> None:
    case = gather_case("", gather(sizes=(4, 8), count=8), list(range(8)))
    bad = entry(case, passed("cpu"), DIFF, got={"openvino": spoiled(case, 7, 9)})
    names = [f"random/{k}" for k in range(1000)]
    page = html(report_of([CPU, OPENVINO], *[replace(bad, name=n) for n in names]))
    assert len(page) < 3_000_000
    found = Page(page)
    assert [case["name"] for case in found.cases] == names
    assert len(found.details) == 1000


def test_a_report_with_a_broken_descriptor_is_refused() -> None:
    blob = Blob.of(np.zeros(1, "f4"))
    evidence = Evidence(blob, blob, {"type": "DML_OPERATOR_GATHER", "desc": {}})
    case = replace(entry(gather_case(), FIXED), evidence=evidence)
    with pytest.raises(FileFormatError, match=r"^\$\.desc\.InputTensor is required$"):
        html(report_of([OPENVINO], case))


def test_the_page_of_an_empty_report() -> None:
    assert Page(html(report_of([]))).cases == []


def test_cases_that_passed_have_pictures_while_they_are_small_and_few() -> None:
    large = gather_case("large", gather(sizes=(16, 9), count=2), [0, 8])
    report = report_of(
        [CPU], entry(gather_case("small"), passed("cpu")), entry(large, passed("cpu"))
    )
    page = Page(html(report))
    assert [case["detail"] for case in page.cases] == [0, -1]
    (detail,) = page.details
    assert (detail["repro"], len(detail["graphs"])) == ([], 1)
    assert detail["picture"]["output"] == [grid([2, 2], "2 0 5 3")]
    assert "bytes" not in detail


FILTERED = """
const form = document.getElementById("filters");
const shown = [];
const wait = (time) => new Promise((done) => setTimeout(done, time));
const text = document.getElementById("shown");
const tell = () => shown.push(`${text.textContent} ${location.hash || "#"}`);
const type = (name, value) => {
  form.elements[name].value = value;
  form.dispatchEvent(new Event("input"));
  tell();
};
tell();
type("lane", "cpu");
document.querySelector("#shown button").click();
tell();
type("text", "No Such Name");
form.querySelector("[type=reset]").click();
await wait(50);
tell();
form.querySelector("[value=DIFF]").click();
form.querySelector("[value=ERROR]").click();
form.querySelector("[value=FIXED]").click();
tell();
location.hash = "#states=KNOWN+NOT-RUN&text=GATHER%2FC";
await wait(50);
tell();
document.querySelector("#causes button.NOT-RUN").click();
tell();
const [cause] = location.hash.match(/cause=[0-9]+/);
location.hash = "#states=PASS";
await wait(50);
location.hash = `#states=NOT-RUN&${cause}`;
await wait(50);
tell();
location.hash = "#lane=none&type=none";
await wait(50);
tell();
const chosen = [form.elements.lane.selectedOptions[0]?.value, form.elements.type.value];
return [shown.join("\\n"), chosen, document.documentElement.scrollWidth <= innerWidth];
"""


@in_browser
@AT_EACH_WIDTH
def test_a_list_without_results_says_why_and_the_address_has_the_filters(
    tmp_path: Path, width: int
) -> None:
    shown = """\
3 results in 3 cases #
Nothing is DIFF or ERROR or FIXED; left out: 6 PASS. Show them #lane=cpu
6 results in 6 cases #states=PASS&lane=cpu
Nothing fits these filters, whatever its state. #states=PASS&lane=cpu&text=No+Such+Name
3 results in 3 cases #
No state is chosen; left out: 7 PASS, 1 DIFF, 1 ERROR, 7 NOT-RUN, 1 KNOWN, 1 FIXED. Show them #states=
2 results in 1 case #states=NOT-RUN+KNOWN&text=GATHER%2FC
1 result in 1 case of the cause: onnxruntime has no DmlExecutionProvider #states=NOT-RUN&lane=directml&text=GATHER%2FC&cause=5
6 results in 6 cases of the cause: onnxruntime has no DmlExecutionProvider #states=NOT-RUN&cause=5
3 results in 3 cases #"""  # noqa: E501
    # The lane and the type of the last address are not in the report.
    found = probed(tmp_path, html(small()), FILTERED, width)
    assert found == [shown, ["", ""], True]


def test_a_large_report_has_the_smallest_cases_of_each_cause_in_detail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("onnxgather.checking.report.page.MOST_DETAILS", 5)
    entries: list[CaseResult] = []
    for name, size in product(("a", "b"), (5, 2, 9, 3)):
        case = gather_case(f"{name}/part/{size}", gather(sizes=(1, size)), [0, 1])
        entries.append(entry(case, passed("cpu"), DIFF))
    other = gather_case("c/part/1", gather(sizes=(1, 9)), [0, 1])
    entries.append(entry(other, passed("cpu"), ERROR))
    page = Page(html(report_of([CPU, OPENVINO], *entries)))
    detailed = [case["name"] for case in page.cases if case["detail"] >= 0]
    # The smallest of each group and cause come first, then the next of the smallest.
    assert detailed == ["a/part/2", "a/part/3", "b/part/2", "b/part/3", "c/part/1"]
    assert len(page.details) == 5


MATRIX = """
const textOf = (element) => element.innerText.trim().replace(/\\s*\\n\\s*/g, "; ");
const rows = () => [...document.querySelectorAll("#matrix tbody tr")].map((row) =>
  row.dataset.depth + " " + [...row.children].map(textOf).join(" | "));
const wait = (time) => new Promise((done) => setTimeout(done, time));
const opener = (name) => [...document.querySelectorAll("#matrix th [aria-expanded]")]
  .find((button) => button.textContent === name);
const resultsOf = (start) => [...document.querySelectorAll("#matrix td [aria-pressed]")]
  .find((button) => button.ariaLabel.startsWith(start));
const closed = rows();
opener("All lanes").click();
opener("gather").click();
const compared = rows();
opener("All lanes").click();
const isClosed = JSON.stringify(rows()) === JSON.stringify(closed);
opener("openvino").click();
opener("gather").click();
const opened = rows();
const chosen = [];
for (const name of ["All lanes, All cases", "openvino, gather:"]) {
  resultsOf(name).click();
  await wait(200);
  const pressed = [...document.querySelectorAll("#matrix [aria-pressed=true]")];
  const texts = [
    document.activeElement,
    document.querySelector("#causes .hint"),
    document.getElementById("shown"),
  ];
  chosen.push({
    told: texts.map((one) => one.textContent).join("\\n"),
    causes: [...document.querySelectorAll("#causes li > p")].map((p) => p.textContent),
    bytes: [...document.querySelectorAll("#causes .bytes tbody tr")].map((row) =>
      [...row.children].map((cell) => cell.textContent).join(" | ")).join("\\n"),
    pictures: document.querySelectorAll("#causes .picture").length,
    address: location.hash,
    pressed: pressed.map((button) => button.ariaLabel.split(":")[0]).join(),
  });
}
const told = resultsOf("openvino, gather:").ariaLabel;
document.querySelector("#matrix [aria-pressed=true]").click();
await wait(100);
const end = location.hash + document.getElementById("causes-title").textContent;
const fits = document.documentElement.scrollWidth <= innerWidth &&
  [...document.querySelectorAll("#matrix td")].every((td) =>
    td.scrollWidth <= td.clientWidth);
return { closed, compared, isClosed, opened, told, chosen, end, fits };
"""


@in_browser
@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, False)])
def test_a_planted_finding_of_each_severity_is_in_its_row(
    tmp_path: Path, width: int, dark: bool
) -> None:
    wrong = partial(replace, DIFF)
    unrefused = partial(wrong, kind=ResultKind.NOT_REFUSED)
    broken = partial(replace, ERROR, kind=ResultKind.BROKEN)
    known = partial(replace, KNOWN)
    # Findings come first, and of what is known the most severe.
    planted = {
        "! ended the process": broken(breakdown=Breakdown.DIED),
        "≠ had foreign memory": unrefused(returned=Returned.FOREIGN),
        "≠ had wrong elements": DIFF,
        "≠ did not refuse": unrefused(returned=Returned.ZEROS),
        "! failed": ERROR,
        "↑ passed, though known": FIXED,
        "≈ ended the process": known(
            kind=ResultKind.BROKEN, breakdown=Breakdown.DIED, found="ERROR"
        ),
        "≈ had wrong elements": KNOWN,
        "– declined": ELSEWHERE,
        "≈ declined": known(kind=ResultKind.NOT_RUN, found="NOT-RUN"),
    }
    entries: list[CaseResult] = []
    for line, result in planted.items():
        case = gather_case(f"gather/{line[2:]} {result.state}/1")
        got = {"openvino": spoiled(case, 2)} if result is DIFF else None
        if result.state == "ERROR":
            result = replace(result, reason=f"failed: {line}")
        entries.append(entry(case, passed("cpu"), result, absent(), got=got))
    right = gather_case("out-of-range/1")
    entries.append(entry(right, passed("cpu"), passed("openvino"), absent()))
    page = html(report_of([CPU, OPENVINO, DIRECTML], *entries))
    found = probed(tmp_path, page, MATRIX, width, dark)

    pills = [f"{line[0]} 1 {line[2:]}" for line in planted]
    every = "; ".join(pills)
    lanes = [
        "0 openvino; OpenVINOExecutionProvider, onnxruntime 1.24.1, openvino 2025.4"
        f" | {every}; ✓ 1/11; Picture",
        "0 cpu; CPUExecutionProvider, onnxruntime 1.31.1 | ✓ 11/11",
        "0 directml; DmlExecutionProvider | Did not start. "
        "onnxruntime has no DmlExecutionProvider",
    ]
    all_lanes = f"0 All lanes | {every}; ✓ 12/22; Picture"
    assert found["closed"] == [all_lanes, *lanes]
    assert found["compared"] == [
        all_lanes,
        f"1 gather | {every}; ✓ 10/20; Picture",
        f"2 openvino | {every}; ✓ 0/10; Picture",
        "2 cpu | ✓ 10/10",
        "1 out-of-range | ✓ 2/2",
        *lanes,
    ]
    parts = [
        f"2 {line[2:]} {result.state} | {pill}; ✓ 0/1; Picture"
        for pill, (line, result) in zip(pills, planted.items(), strict=True)
    ]
    assert found["opened"] == [
        all_lanes,
        lanes[0],
        f"1 gather | {every}; ✓ 0/10; Picture",
        *parts,
        "1 out-of-range | ✓ 1/1",
        *lanes[1:],
    ]
    told = "; ".join(f"{pill[2:]}{', known' * (pill[0] == '≈')}" for pill in pills)
    assert found["told"] == f"openvino, gather: 0 of 10 passed; {told}"
    assert (found["isClosed"], found["fits"]) == (True, True)
    assert found["end"] == "What is not PASS, by cause"
    every_lane, one = found["chosen"]
    assert every_lane["told"].startswith("What is not PASS, by cause\n")
    assert every_lane["pressed"] == ""
    stopped = "– NOT-RUN: did not start directml 11 cases"
    assert every_lane["causes"][::2] == [*one["causes"][::2], stopped]
    assert one["told"] == (
        "gather on openvino\n0 of 10 results passed.\n10 results in 10 cases"
    )
    assert one["causes"][0] == "! ERROR: ended the process openvino 1 case"
    assert one["causes"][4:6] == [
        "≠ DIFF: had wrong elements openvino 1 case",
        DIFF.reason,
    ]
    assert one["causes"][-2:] == [
        "≈ KNOWN: declined openvino 1 case",
        KNOWN.known,
    ]
    assert one["bytes"] == "openvino | [1, 0] | 5 | 00 00 a0 40 | 0 | 00 00 00 00"
    # Of five causes the smallest case can be seen at once.
    assert (one["pictures"], one["pressed"]) == (5, "openvino, gather")


def test_each_result_has_a_severity_and_its_words() -> None:
    wrong = partial(replace, DIFF)
    ended = partial(replace, ERROR, kind=ResultKind.BROKEN)
    found = {
        "ended the process": [
            ended(breakdown=Breakdown.DIED),
            ended(breakdown=Breakdown.EXITED),
            ended(breakdown=Breakdown.NO_ANSWER),
        ],
        "had foreign memory": [
            wrong(foreign_memory=ForeignMemory.VALUES),
            replace(KNOWN, foreign_memory=ForeignMemory.PATTERN),
            wrong(kind=ResultKind.NOT_REFUSED, returned=Returned.FOREIGN),
        ],
        "had wrong elements": [
            KNOWN,
            wrong(kind=ResultKind.DATA_TYPE),
            wrong(kind=ResultKind.SHAPE),
        ],
        "did not refuse": [wrong(kind=ResultKind.NOT_REFUSED, returned=Returned.ZEROS)],
        "failed": [
            ERROR,
            replace(ERROR, kind=ResultKind.NOT_TAKEN),
            ended(breakdown=Breakdown.LATE),
        ],
        "declined": [ELSEWHERE, replace(ELSEWHERE, kind=ResultKind.UNPROVED)],
        "passed": [passed("cpu"), replace(passed("cpu"), kind=ResultKind.REFUSED)],
        "did not start": [absent()],
        "passed, though known": [FIXED],
        "passed with DirectML's formula": [replace(passed("cpu"), by_directml=True)],
    }
    for words, results in found.items():
        assert [result_words(result) for result in results] == [words] * len(results)
    severities = {one.severity for results in found.values() for one in results}
    assert severities == {*Severity} == {*SEVERITIES}


def test_a_report_cannot_say_another_severity_than_its_results_have() -> None:
    text = msgspec.json.encode(ERROR)
    assert b'"severity":"fails"' in text
    changed = text.replace(b'"fails"', b'"agrees"')
    assert msgspec.json.decode(changed, type=Result) == ERROR


HOSTILE_MATRIX = """
document.querySelector("#matrix [data-depth='1'] th [aria-expanded]").click();
for (const summary of document.querySelectorAll("details > summary")) summary.click();
document.querySelector("#matrix td button").click();
await new Promise((done) => setTimeout(done, 300));
return {
  rows: [...document.querySelectorAll("#matrix tbody th")].map((th) => th.textContent),
  head: document.querySelector("#matrix tbody small").textContent,
  title: document.getElementById("causes-title").textContent,
  listed: document.getElementById("shown").textContent,
  scripts: document.scripts.length,
  handlers: [...document.querySelectorAll("*")].filter((e) =>
    [...e.attributes].some((a) => a.name.startsWith("on"))).length,
};
"""


SMALLEST = """
const wait = (time) => new Promise((done) => setTimeout(done, time));
document.querySelector("#matrix th [aria-expanded]").click();
const buttons = [...document.querySelectorAll("#matrix .drawn")];
const place = document.getElementById("smallest");
const shown = [];
for (const button of [...buttons, buttons.at(-1)]) {
  button.click();
  // The browser's clock does not wait while the page unpacks the details.
  while (button.ariaExpanded === "true" && !place.querySelector(".picture"))
    await new Promise((done) =>
      new MutationObserver(done).observe(place, { childList: true, subtree: true }),
    );
  await wait(100);
  const isDrawn = place.querySelectorAll(".picture td").length > 0;
  const open = buttons.findIndex((one) => one.ariaExpanded === "true");
  shown.push(`${open} ${isDrawn} ${place.querySelector("h3")?.textContent}`);
}
const fits = document.documentElement.scrollWidth <= innerWidth;
return [buttons.map((one) => one.ariaLabel).join("\\n"), shown.join("\\n"), fits];
"""


@in_browser
@AT_EACH_WIDTH
def test_a_row_that_did_not_pass_shows_its_smallest_case(
    tmp_path: Path, width: int
) -> None:
    entries: list[CaseResult] = []
    # The smallest case of a group is known, and a known difference is no finding.
    for name, result in [("a/9", DIFF), ("a/5", DIFF), ("a/2", KNOWN), ("b/3", KNOWN)]:
        case = gather_case(name, gather(sizes=(1, int(name[2:]))), [0, 1])
        got = {"openvino": spoiled(case, 0)}
        entries.append(entry(case, passed("cpu"), result, got=got))
    entries.append(entry(gather_case("c/1"), passed("cpu"), passed("openvino")))
    page = html(report_of([CPU, OPENVINO], *entries))
    names = """\
Picture of a/5 on openvino
Picture of a/5 on openvino
Picture of b/3 on openvino
Picture of a/5 on openvino"""
    shown = """\
0 true All lanes: the smallest case that had wrong elements, on openvino
1 true a: the smallest case that had wrong elements, on openvino
2 true b: the smallest case that had wrong elements, on openvino
3 true openvino: the smallest case that had wrong elements, on openvino
-1 false undefined"""
    assert probed(tmp_path, page, SMALLEST, width) == [names, shown, True]


@in_browser
def test_hostile_names_are_text_in_the_matrix(tmp_path: Path) -> None:
    # Chromium prints no page that has half a surrogate pair.
    hostile = HOSTILE.replace("\udc80", "")
    lane = replace(OPENVINO, name=hostile, versions={hostile: hostile})
    result = replace(DIFF, lane=hostile, reason=hostile)
    case = gather_case(f"{hostile}<img src=x onerror=alert(1)>/part/1")
    report = report_of([lane], entry(case, result, got={hostile: spoiled(case, 2)}))
    found = probed(tmp_path, html(report), HOSTILE_MATRIX, 1400)
    assert found["rows"][0].startswith("</script>")
    assert found["rows"][1:] == ["<", "script><script>alert(1)<"]
    assert "\\x00\\x1b\\u202e" in found["head"]
    assert found["title"].startswith("All cases on </script>")
    assert found["listed"] == "1 result in 1 case"
    assert (found["scripts"], found["handlers"]) == (3, 0)  # one is the test's own


HINTS = """
for (const summary of document.querySelectorAll("details > summary")) summary.click();
await new Promise((done) => setTimeout(done, 300));
return [...document.querySelectorAll("p")].map((p) => p.textContent);
"""


@in_browser
@pytest.mark.parametrize(
    ("field", "value", "more"),
    [
        ("target", None, ""),
        ("python", "python3", " PYTHON is the interpreter of the lane's environment."),
        ("name", "OpenVINOExecutionProvider", ""),
    ],
)
def test_a_command_has_the_hints_that_apply_to_it(
    tmp_path: Path, field: str, value: str | None, more: str
) -> None:
    lane = replace(OPENVINO, **{field: value})
    report = report_of([lane], entry(gather_case(), replace(DIFF, lane=lane.name)))
    found = probed(tmp_path, html(report), HINTS, 1200)
    assert f"Checks this case alone, with the lane.{more}" in found
    assert ("interpreter python3" in found) == (field == "python")


PRINTED = """
const rows = () => document.getElementById("list").childElementCount;
const before = rows();
const lanes = document.querySelector("#lanes details");
const wasOpen = lanes.open;
dispatchEvent(new Event("beforeprint"));
return [before, rows(), document.getElementById("further").hidden, wasOpen, lanes.open];
"""


@in_browser
def test_a_printed_list_is_whole(tmp_path: Path) -> None:
    cases = [
        entry(gather_case(f"case {k}"), replace(DIFF, lane="cpu")) for k in range(350)
    ]
    found = probed(tmp_path, html(report_of([CPU], *cases)), PRINTED, 1200)
    assert found == [100, 350, True, False, True]


@in_browser
def test_a_page_of_cases_that_all_pass_says_what_there_is(tmp_path: Path) -> None:
    report = report_of([CPU], entry(gather_case(), passed("cpu")))
    told = (
        'return ["meanings", "shown"].map((id) =>'
        " document.getElementById(id).textContent);"
    )
    assert probed(tmp_path, html(report), told, 390) == [
        "✓ PASSthe reference's data type, shape and bytes, or both refuse",
        "Nothing is DIFF or ERROR or FIXED; left out: 1 PASS. Show them",
    ]


RUNS_SHOWN = """
for (const summary of document.querySelectorAll("details > summary")) summary.click();
await new Promise((done) => setTimeout(done, 300));
const [shown] = document.querySelectorAll(".results li div");
return [...shown.querySelectorAll("p")].map((p) => p.textContent);
"""


@in_browser
def test_an_opened_case_says_of_which_of_two_runs_it_speaks(tmp_path: Path) -> None:
    case = gather_case(indices=[7, 0], out_of_range="error")
    crashed = replace(ERROR, reason="it ended")
    report = report_of([OPENVINO], entry(case, with_beside(crashed, KNOWN)))
    assert probed(tmp_path, html(report), RUNS_SHOWN, 1200) == [
        "with the index out of range: it ended",
        "with indices of zero: DIFF: 2 of 4 elements differ",
        "Zeros where an index is out of range (https://example.com/1)",
        "Ran: Gather",
    ]
