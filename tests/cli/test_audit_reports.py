"""The findings of several models as a table, JUnit, Markdown and SARIF, and the
baseline."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command_line import (
    POSIX,
    call,
    error_of,
    json_of,
    outcome,
    output_of,
    read_bytes,
    read_json,
    read_text,
    succeed,
    write_json,
    write_text,
)
from html_page import HOSTILE
from messages import rows_of
from onnx_graphs import constant, written
from runtime_faults import IS_OLD

import onnxgather
from onnxgather.core.checks import printable

pytestmark = pytest.mark.skipif(
    IS_OLD,
    reason="1.24.4 opens no model with a constant index out of range at any level",
)

OPEN = "[tokens] rows = Gather(table, ids) "
WRONG = "[fixed] row = Gather(table, far) "
ODD = "[odd] some = GatherElements(table, which) "
INDEX = "big = Exp(x) index = Cast<to = 7>(big) "
WILD = INDEX + "[wild] values = Gather(table, index) "


def network(nodes: str) -> onnx.ModelProto:
    """Return a model of nodes, each of whose values is an output, with two inputs."""
    outputs = ", ".join(re.findall(r"(\w+) =(?! \d)", nodes))
    return written(
        f"""(int64[b, 2] ids, float[n] x) => ({outputs})
        <int64[2] far = {{1, 9}}, int64[1, 2] which = {{0, 0}}> {{ {nodes} }}""",
        constant("table", np.zeros((4, 3), np.float32)),
        constant("small", np.zeros((2, 3), np.float32)),
    )


def save(path: str, nodes: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(network(nodes).SerializeToString())
    return path


@pytest.fixture
def models() -> None:
    """A folder with a finding of each state, in two models, and a file that is no
    model."""
    save("m/a b.onnx", OPEN + WILD)
    save("m/c.onnx", WRONG + ODD)
    Path("m/d.onnx").write_bytes(b"none")


STRICT = "--fail-on proved-if"
VERDICT = (
    "2 of 3: a wrong input can leave an axis; 1 has a gather that DirectML refuses"
)
BROKEN = "m/d.onnx: must be an ONNX model, got bytes that are cut short, or no model"
SAID = {
    "tokens": "each value of ids is from -4 to 3",
    "wild": "index unbounded; the axis has 4 elements; because of x",
    "fixed": "indices[1] is 9, a constant, on an axis of 4",
    "odd": (
        "IndicesTensor.Sizes[1] must be InputTensor.Sizes[1] (3), as it is not at Axis,"
        " got 2"
    ),
}


@pytest.mark.usefixtures("models")
def test_a_table_has_a_line_for_each_model_and_one_for_all() -> None:
    code, text, error = outcome("audit m")
    assert (code, error) == (2, f"Error: {BROKEN}\n")
    assert text.startswith(f"""\
{VERDICT}; 1 was not audited

model       operators  invalid  out of range  refused  not proved  proved if  proved
m/a b.onnx          2        0             0        0           1          1       0
m/c.onnx            2        0             1        1           0          0       1
2 models            4        0             1        1           1          1       1

OUT OF RANGE  m/c.onnx: fixed (Gather, main graph): {SAID["fixed"]}
    directml  No error: returns another element of the tensor, here `input[3,2]`
REFUSED       m/c.onnx: odd (GatherElements, main graph): {SAID["odd"]}
not proved    m/a b.onnx: wild (Gather, main graph): {SAID["wild"]}
proved if     1 gather of 1 model: --fail-on proved-if lists the conditions
runtime """)


def test_the_next_commands_are_for_all_models_and_the_worst() -> None:
    for name in ("a", "b", "d", "e", "f"):
        save(f"m/{name}.onnx", WRONG)
    save("m/c.onnx", ODD)
    code, text, _ = outcome("audit m")
    assert code == 1
    assert (
        text[text.index("next ") :]
        == """\
next          to make models in which each index stays in range, and to try them:
    onnxgather harden m -o hardened --verify
next          to see what is open in a model, and what would tell more; the worst first:
    onnxgather audit m/a.onnx
"""
    )
    # The models that a shell finds are many.
    paths = [f"m/{name}.onnx" for name in "abdef"]
    text = outcome("audit", *paths)[1]
    assert "\n    onnxgather harden MODEL... -o hardened --verify\n" in text
    text = outcome("audit ./ m/a.onnx")[1]
    hardened = "onnxgather harden ./ m/a.onnx -o ../hardened --verify"
    assert f"\n    {hardened}\n" in text


CONDITIONS = """\
next          to write the conditions to files, and to take them as given:
    onnxgather audit m --contract contracts
    onnxgather audit m --assume contracts --fail-on proved-if
"""
WRITTEN = """\
next          to take the conditions that were written as given:
    onnxgather audit {0} --assume {1} --fail-on proved-if
"""


def test_what_a_command_has_done_is_not_among_the_next_commands() -> None:
    for name in ("a", "b"):
        save(f"m/{name}.onnx", OPEN)
    options = "audit m --levels none"
    assert CONDITIONS in output_of(options)
    text = succeed(f"{options} --contract c")
    assert text.count(WRITTEN.format("m", "c")) == 1
    assert "--contract" not in text
    # The gathers of one contract are proved, and those of another stay open.
    Path("c/b.onnx.contract.json").unlink()
    for name in ("b", "d"):
        save(f"m/{name}.onnx", OPEN + WILD)
    text = output_of(f"{options} --assume c")
    assert "next          to make models" in text
    assert "--contract" not in text
    assert "--assume" not in text
    # One model is as a list.
    options = "audit m/a.onnx --levels none"
    text = succeed(f"{options} --contract a.json")
    assert text.count(WRITTEN.format("m/a.onnx", "a.json")) == 1
    assert "--contract" not in text
    text = succeed(f"{options} --contract a.py")
    assert "--contract m/a.contract.json" in text


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("strict", [False, True])
def test_junit_has_a_testcase_for_each_gather_and_each_file_that_is_none(
    strict: bool,
) -> None:
    code, text, _ = outcome(f"audit m --junit - {STRICT if strict else ''}")
    assert code == 2
    root = ET.fromstring(text)
    told = {
        (case.get("classname"), case.get("name")): [
            (one.tag, one.get("type"), one.get("message"), one.text) for one in case
        ]
        for case in root.iter("testcase")
    }

    def failure(state: str, name: str) -> list[Any]:
        return [("failure", state, f"{state}: {SAID[name]}", SAID[name])]

    assert told == {
        ("m/a b.onnx", "tokens (Gather, main graph)"): (
            failure("proved-if", "tokens") if strict else []
        ),
        ("m/a b.onnx", "wild (Gather, main graph)"): (
            failure("not-proved", "wild") if strict else []
        ),
        ("m/c.onnx", "fixed (Gather, main graph)"): failure("out-of-range", "fixed"),
        ("m/c.onnx", "odd (GatherElements, main graph)"): failure("refused", "odd"),
        ("files", BROKEN): [("error", "unusable", f"unusable: {BROKEN}", BROKEN)],
    }
    verdicts = [one.attrib for one in root.iter("property")]
    assert verdicts == [{"name": "verdict", "value": "can-leave"}] * 2
    assert root.attrib == {
        "name": "onnxgather audit",
        "tests": "5",
        "failures": "4" if strict else "2",
        "errors": "1",
    }


def test_each_report_has_the_verdict_of_each_model() -> None:
    verdicts = {
        save("m/exact.onnx", OPEN): "can-leave",
        save("m/far.onnx", WRONG): "can-leave",
        save("m/none.onnx", "y = Neg(x)"): "no-index",
        save("m/proved.onnx", "first = Gather(table, which)"): "never",
        save("m/wild.onnx", WILD): "perhaps",
    }
    line = "2 of 5: a wrong input can leave an axis; 1: perhaps; 1: never; 1: no index"
    files = "--json=a.json --junit a.xml --sarif a.sarif"
    pages = "--markdown a.md --html a.html"
    code, text, _ = outcome(f"audit m --levels none {files} {pages}")
    assert (code, text.splitlines()[0]) == (1, line)
    record = read_json("a.json")
    assert (record["schema"], record["verdict"]) == (3, line)
    assert {one["model"]: one["verdict"] for one in record["models"]} == verdicts
    assert {one["schema"] for one in record["models"]} == {3}
    suites = ET.parse("a.xml").getroot().iter("testsuite")
    properties = {
        suite.get("name"): suite.find("properties/property") for suite in suites
    }
    assert {
        name: one.attrib for name, one in properties.items() if one is not None
    } == {
        name: {"name": "verdict", "value": verdict}
        for name, verdict in verdicts.items()
    }
    (run,) = read_json("a.sarif")["runs"]
    assert run["properties"] == {"verdict": line}
    assert read_text("a.md").startswith(f"## {line}\n")
    page = read_text("a.html")
    headline, rest = line.split("; ", 1)
    assert f"<h1>{headline}</h1>" in page
    assert f'<p class="more">{rest}</p>' in page
    # The worst first, each in the colour of its verdict.
    badges = re.findall(
        r'data-verdict="([\w-]+)">\s*<summary><span class="badges">'
        r'<span class="badge ([A-Z-]+)">([\w-]+)<',
        page,
    )
    assert badges == [
        *[("can-leave", "DIFF", "can-leave")] * 2,
        ("perhaps", "NOT-RUN", "perhaps"),
        ("never", "PASS", "never"),
        ("no-index", "PASS", "no-index"),
    ]
    assert '<header class="bad">' in page
    for path, verdict in verdicts.items():
        assert onnxgather.audit(path, levels=()).verdict == verdict


@pytest.mark.usefixtures("models")
def test_markdown_has_the_table_and_what_is_alike_once_the_worst_first() -> None:
    save("m/c.onnx", WRONG + ODD + "y0 = Gather(table, far) y1 = Gather(table, far)")
    text = outcome("audit m --markdown -")[1]
    assert (
        text
        == f"""\
## {VERDICT}; 1 was not audited

4 findings in 2 models.

| model | operators | invalid | out of range | refused | not proved | proved if | proved |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| m/a b.onnx | 2 | 0 | 0 | 0 | 1 | 1 | 0 |
| m/c.onnx | 4 | 0 | 3 | 1 | 0 | 0 | 1 |
| 2 models | 6 | 0 | 3 | 1 | 1 | 1 | 1 |

- **out-of-range** m/c.onnx: fixed (Gather, main graph) and 2 more: indices\\[1\\] is 9, a \
constant, on an axis of 4
- **refused** m/c.onnx: odd (GatherElements, main graph): IndicesTensor.Sizes\\[1\\] must be \
InputTensor.Sizes\\[1\\] (3), as it is not at Axis, got 2
- **not-proved** m/a b.onnx: wild (Gather, main graph): {SAID["wild"]}
- **proved-if** m/a b.onnx: tokens (Gather, main graph): {SAID["tokens"]}
- {BROKEN}
- next: to write the conditions to files, and to take them as given:
  - onnxgather audit m --contract contracts
  - onnxgather audit m --assume contracts --fail-on proved-if
- next: to make models in which each index stays in range, and to try them:
  - onnxgather harden m -o hardened --verify
- next: to see what is open in a model, and what would tell more; the worst first:
  - onnxgather audit m/c.onnx
"""  # noqa: E501
    )


RULE = "axis must be in [-2, 2), got 7"
FORBIDDEN = "[wrong] row = Gather <axis = 7> (table, which) "


def test_an_invalid_node_is_a_finding_of_each_output() -> None:
    save("m.onnx", FORBIDDEN + WILD)
    line = f"INVALID       wrong (Gather, main graph): {RULE}"
    code, text, _ = outcome("audit m.onnx --levels none")
    first, second, *_ = text.splitlines()
    counts = "2 gathers: 1 invalid, 1 not proved in range"
    assert (code, first, second) == (1, f"m.onnx: a node is invalid; {counts}", line)
    # What an index out of range does is said of the other gather.
    assert text.count("providers     ") == 1

    Path("n.onnx").write_bytes(read_bytes("m.onnx"))
    text = outcome("audit m.onnx n.onnx --levels none")[1]
    of_two = "INVALID       m.onnx: wrong (Gather, main graph) and 1 more in 2 models"
    assert text.startswith("2 of 2: a node is invalid\n")
    assert f"{of_two}: {RULE}" in text.splitlines()

    record = json_of("audit m.onnx --levels none --json")
    gather = record["gathers"][0]
    assert record["verdict"] == "invalid"
    assert (gather["range"]["state"], gather["range"]["why"]) == ("invalid", RULE)
    assert (gather["refused"], gather["descriptor"]) == (None, None)

    text = outcome("audit m.onnx --levels none --markdown -")[1]
    escaped = RULE.replace("[", "\\[")
    assert f"- **invalid** m.onnx: wrong (Gather, main graph): {escaped}" in text
    (run,) = json_of("audit m.onnx --levels none --sarif -")["runs"]
    results = {result["ruleId"]: result["level"] for result in run["results"]}
    assert results == {"invalid": "error", "not-proved": "warning"}
    root = ET.fromstring(outcome("audit m.onnx --levels none --junit -")[1])
    failures = [element.get("type") for element in root.iter("failure")]
    assert failures == ["invalid"]
    page = outcome("audit m.onnx --levels none --html -")[1]
    assert '<header class="bad">' in page
    assert '<span class="badge DIFF">invalid</span>' in page
    assert '<summary><span class="badges"><span class="badge DIFF">invalid' in page
    assert page.count(RULE) >= 2


def test_an_invalid_node_of_a_baseline_is_known() -> None:
    save("m.onnx", FORBIDDEN)
    command = "audit m.onnx --levels none --fail-on proved-if"
    succeed(f"{command} --write-baseline known.json")
    assert read_json("known.json")["findings"][0]["state"] == "invalid"
    assert outcome(f"{command} --baseline known.json")[0] == 0
    # A node that was not proved and is invalid now is worse.
    write_text("known.json", read_text("known.json").replace("invalid", "not-proved"))
    assert outcome(f"{command} --baseline known.json")[0] == 1


def test_nothing_is_hardened_in_a_model_whose_nodes_are_invalid() -> None:
    save("m.onnx", FORBIDDEN)
    text = outcome("audit m.onnx --levels none")[1]
    assert "next " not in text
    assert "providers" not in text


def test_nothing_is_hardened_where_harden_leaves_each_node() -> None:
    """Harden has no limit for sizes beside an axis, nor for features of trees."""
    sizes = """(float[n, 5] d, int64[m, 3, 1] i) => (y)
        { y = GatherND<batch_dims = 1>(d, i) }"""
    Path("a.onnx").write_bytes(written(sizes).SerializeToString())
    regions = """(float[1, 1, 4, 4] x, float[n, 4] boxes, int64[n] which) => (y)
        { y = RoiAlign(x, boxes, which) }"""
    Path("b.onnx").write_bytes(written(regions).SerializeToString())
    for command in ("audit a.onnx", "audit b.onnx", "audit a.onnx b.onnx"):
        text = outcome(f"{command} --levels none")[1]
        assert "proved under conditions" in text or "proved if" in text
        assert "onnxgather harden" not in text
        assert f"{command} --contract" in text


@pytest.mark.usefixtures("models")
def test_sarif_has_rules_results_by_node_and_what_was_not_audited() -> None:
    code, text, _ = outcome("audit m --sarif -")
    found = json.loads(text)
    assert (code, found["version"]) == (2, "2.1.0")
    assert found["$schema"] == "https://json.schemastore.org/sarif-2.1.0.json"
    (run,) = found["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("onnxgather", onnxgather.__version__)
    rules = [rule["id"] for rule in driver["rules"]]
    assert rules == ["invalid", "out-of-range", "refused", "not-proved", "proved-if"]
    assert run["properties"] == {"verdict": f"{VERDICT}; 1 was not audited"}
    assert run["invocations"] == [
        {
            "executionSuccessful": False,
            "toolExecutionNotifications": [
                {"level": "error", "message": {"text": BROKEN}}
            ],
        }
    ]
    told = [(one["ruleId"], one["level"]) for one in run["results"]]
    assert told == [
        ("proved-if", "note"),
        ("not-proved", "warning"),
        ("out-of-range", "error"),
        ("refused", "error"),
    ]
    assert run["results"][0] == {
        "ruleId": "proved-if",
        "level": "note",
        "message": {"text": f"tokens (Gather, main graph): {SAID['tokens']}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "m/a%20b.onnx"},
                    "region": {"startLine": 1},
                },
                "logicalLocations": [
                    {"name": "tokens", "fullyQualifiedName": "main graph/tokens"}
                ],
            }
        ],
        "partialFingerprints": {"gather/v1": "main graph/tokens: Gather: proved-if"},
    }
    strict = json_of("audit m --sarif - --fail-on proved-if")
    assert {one["level"] for one in strict["runs"][0]["results"]} == {"error"}


def test_the_uri_of_sarif_is_relative_and_encoded() -> None:
    path = save("a#b?%:c[é].onnx", WRONG)
    for given in (path, str(Path(path).absolute())):
        (one,) = json_of("audit --sarif -", given)["runs"][0]["results"]
        place = one["locations"][0]["physicalLocation"]["artifactLocation"]
        assert place == {"uri": "a%23b%3F%25%3Ac%5B%C3%A9%5D.onnx"}


def test_the_message_of_sarif_has_no_placeholder_and_no_link() -> None:
    save("m.onnx", '["{0} [see](https://example.org) [a]"] row = Gather(table, far)')
    (one,) = json_of("audit m.onnx --sarif -")["runs"][0]["results"]
    name = "{{0}} \\[see](https://example.org) [a]"
    text = one["message"]["text"]
    assert text.startswith(f"{name} (Gather, main graph): indices[1] is 9")


NAME = (
    HOSTILE.replace("\udc80", "").replace("\x00", "")
    + " | `x` [l](http://x) \n# $(rm) 'q' \x7f"
)


@POSIX
@pytest.mark.parametrize(
    "option", ["--junit=-", "--markdown=-", "--sarif=-", "--json=-", "--html=-", ""]
)
def test_names_from_models_are_escaped_in_every_output(option: str) -> None:
    made = network(WRONG + "y = Gather(table, ids)")
    first, second = made.graph.node
    first.name = second.input[1] = made.graph.input[0].name = NAME
    file = "a\x1b[31m|`<b>\n.onnx"
    Path(file).write_bytes(made.SerializeToString())
    result = call(f"audit {option}", file)
    text = result.stdout_bytes.decode()
    assert result.exit_code == 1
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]", text)
    if option == "--junit=-":
        root = ET.fromstring(text)
        assert printable(file) in {suite.get("name") for suite in root}
    elif option == "--sarif=-":
        assert not re.search(
            r"(?<!\\)\\[^\\\"]", json.dumps(json.loads(text), ensure_ascii=False)
        )
    elif option == "--json=-":
        assert [one["node"] for one in json.loads(text)["gathers"]] == [NAME, "y"]
    elif option == "--markdown=-":
        assert not re.search(r"(?<!\\)[<`\[]", text)
        assert all(
            line.count("|") - line.count("\\|") in (0, 9) for line in text.splitlines()
        )
    elif option == "--html=-":
        assert "<script>alert" not in text
    else:
        assert all(
            line.startswith((" ", "a\\x1b", *STARTS)) for line in text.splitlines()
        )


@POSIX
def test_the_columns_of_a_table_stand_below_one_another() -> None:
    text = outcome("audit", save("a\x1b.onnx", WRONG), save("b" * 30, ODD))[1]
    lines = text.splitlines()[2:6]
    assert lines[1].startswith("a\\x1b.onnx ")
    assert len({*map(len, lines)}) == 1


def test_a_gather_that_computes_shapes_is_not_refused() -> None:
    nodes = """shape = Shape(ids) odd = Cast<to = 8>(shape)
        [of_odd] one = Gather(odd, zero)
        count = Cast<to = 7>(one) y = Expand(table, count)"""
    made = written(
        f"(int64[b, 2] ids) => (y) <int64[1] zero = {{0}}> {{ {nodes} }}",
        constant("table", np.zeros((4, 3), np.float32)),
    )
    Path("m.onnx").write_bytes(made.SerializeToString())
    (told,) = json_of("audit m.onnx --json")["gathers"]
    assert told["shape_computation"]
    assert "DataType must be one of" in told["refused"]
    text = output_of("audit m.onnx --sarif -")
    assert json.loads(text)["runs"][0]["results"] == []


STARTS = ("OUT", "not", "providers", "proved", "assumes", "runtime", "note", "next")


def baseline(path: str = "b.json") -> list[tuple[str, str, str, str]]:
    """The model, the node, the state and the reason of each finding in a baseline."""
    found = read_json(path)
    assert [*found] == ["schema", "findings"]
    assert found["schema"] == 1
    fields = ["model", "place", "node", "op", "state", "reason"]
    for entry in found["findings"]:
        conditions = ["conditions"] * (entry["state"] == "proved-if")
        assert [*entry] == fields + conditions
    return [
        (one["model"], one["node"], one["state"], one["reason"])
        for one in found["findings"]
    ]


KNOWN = [
    ("../m/a b.onnx", "tokens", "proved-if", ""),
    ("../m/a b.onnx", "wild", "not-proved", ""),
    ("../m/c.onnx", "fixed", "out-of-range", ""),
    ("../m/c.onnx", "odd", "refused", ""),
]


COMPARED = f"audit m {STRICT} --baseline b.json"


def write_baseline(models: str = "m", path: str = "b.json") -> None:
    """Write all findings of models to a baseline."""
    succeed(f"audit {models} {STRICT} --write-baseline {path}")


@pytest.mark.usefixtures("models")
class TestBaseline:
    @pytest.fixture(autouse=True)
    def readable(self, models: None) -> None:
        Path("m/d.onnx").unlink()

    def test_it_is_sorted_and_has_what_counts(self) -> None:
        succeed("audit m --write-baseline ci/b.json")
        assert baseline("ci/b.json") == KNOWN[2:]
        write_baseline("m/c.onnx m", "ci/b.json")
        assert baseline("ci/b.json") == KNOWN
        content = read_bytes("ci/b.json")
        assert content.startswith(
            b'{\n  "schema": 1,\n  "findings": [\n    {\n      "model": "../m/a b'
        )
        assert content.endswith(b"}\n  ]\n}\n")
        write_baseline(path="ci/b.json")
        assert read_bytes("ci/b.json") == content

    def test_a_finding_with_another_condition_is_new(self) -> None:
        write_baseline()
        content = read_json("b.json")
        (entry,) = [
            entry for entry in content["findings"] if entry["state"] == "proved-if"
        ]
        assert entry["conditions"] == ["each value of ids is from -4 to 3"]
        # The table had five rows when the baseline was written.
        entry["conditions"] = ["each value of ids is from -5 to 4"]
        write_json("b.json", content)
        code, text, _ = outcome(COMPARED)
        assert code == 1
        assert text.endswith(
            "NEW           m/a b.onnx: tokens (Gather, main graph): proved-if: each"
            " value of ids is from -4 to 3\n"
            "baseline      b.json: 3 known findings, 1 new, 0 gone\n"
        )
        # An entry that a person writes may leave the conditions out.
        del entry["conditions"]
        write_json("b.json", content)
        succeed(COMPARED)
        write_baseline()
        findings = read_json("b.json")["findings"]
        assert ["each value of ids is from -4 to 3"] in [
            entry.get("conditions") for entry in findings
        ]

    def test_nodes_of_one_name_have_an_entry_each(self) -> None:
        """A node without a name has that of its output, which another may have."""
        save(
            "m/same.onnx",
            "[same] rows = Gather(table, ids) same = Gather(small, ids)"
            f" {INDEX} [same_too] values = Gather(table, index)"
            " same_too = Gather(small, ids)",
        )
        write_baseline("m/same.onnx")
        entries = read_json("b.json")["findings"]
        assert [
            (entry["node"], entry["state"], entry.get("conditions"))
            for entry in entries
        ] == [
            ("same", "proved-if", ["each value of ids is from -2 to 1"]),
            ("same", "proved-if", ["each value of ids is from -4 to 3"]),
            ("same_too", "not-proved", None),
            ("same_too", "proved-if", ["each value of ids is from -2 to 1"]),
        ]
        text = output_of(f"audit m/same.onnx {STRICT} --baseline b.json")
        assert text.endswith("baseline      b.json: 4 known findings, 0 new, 0 gone\n")

    def test_known_findings_are_good_and_new_ones_are_told(self) -> None:
        write_baseline()
        last = "baseline      b.json: 4 known findings, 0 new, 0 gone\n"
        assert output_of(COMPARED).endswith(last)
        save("m/c.onnx", "[renamed] row = Gather(table, far)" + ODD)
        code, text, _ = outcome(COMPARED)
        assert code == 1
        assert text.endswith(f"""\
NEW           m/c.onnx: renamed (Gather, main graph): out-of-range: {SAID["fixed"]}
gone          m/c.onnx: fixed (Gather, main graph): out-of-range
baseline      b.json: 3 known findings, 1 new, 1 gone
""")
        found = json_of(f"{COMPARED} --json")["baseline"]
        entry = {
            "model": "m/c.onnx",
            "place": "main graph",
            "op": "Gather",
            "reason": "",
        }
        assert found == {
            "known": 3,
            "new": [{**entry, "node": "renamed", "state": "out-of-range"}],
            "gone": [{**entry, "node": "fixed", "state": "out-of-range"}],
        }

    def test_a_model_is_the_same_by_whatever_path(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_baseline("m ./m/c.onnx")
        assert [one[:2] for one in baseline()] == [
            ("m/a b.onnx", "tokens"),
            ("m/a b.onnx", "wild"),
            ("m/c.onnx", "fixed"),
            ("m/c.onnx", "odd"),
        ]
        Path("other").mkdir()
        monkeypatch.chdir("other")
        for path in ("../m", str(Path("../m").resolve())):
            text = output_of(f"audit {STRICT} --baseline ../b.json", path)
            last = "baseline      ../b.json: 4 known findings, 0 new, 0 gone"
            assert text.splitlines()[-1] == last

    def test_a_worse_state_is_new_and_a_better_one_is_known(self) -> None:
        text = output_of("audit m/c.onnx --write-baseline -")
        for state, code in (("proved-if", 1), ("not-proved", 1), ("out-of-range", 0)):
            write_text("b.json", text.replace("out-of-range", state))
            told = outcome("audit m/c.onnx --baseline b.json")
            assert (told[0], "0 gone" in told[1]) == (code, True)
        save("m/c.onnx", ODD + "[fixed] row = Gather(table, ids)")
        succeed(f"audit m/c.onnx {STRICT} --baseline b.json")
        refused = text.replace("out-of-range", "refused")
        write_text("b.json", refused)
        assert outcome(f"audit m/c.onnx {STRICT} --baseline b.json")[0] == 1

    def test_reasons_stay_where_the_finding_does(self) -> None:
        write_baseline()
        found = read_json("b.json")
        for one in found["findings"]:
            one["reason"] = f"why {one['node']}"
        write_json("b.json", found)
        save("m/a b.onnx", OPEN + "[wild] row = Gather(table, far)")
        write_baseline()
        assert baseline() == [
            ("m/a b.onnx", "tokens", "proved-if", "why tokens"),
            ("m/a b.onnx", "wild", "out-of-range", ""),
            ("m/c.onnx", "fixed", "out-of-range", "why fixed"),
            ("m/c.onnx", "odd", "refused", "why odd"),
        ]

    def test_a_model_that_was_not_audited_keeps_its_entries(self) -> None:
        write_baseline()
        before = baseline()
        Path("m/c.onnx").write_bytes(b"none")
        code, _, error = outcome(f"audit m {STRICT} --write-baseline b.json")
        assert (code, baseline()) == (2, before)
        assert (
            error
            == "Error: m/c.onnx: must be an ONNX model, got bytes that are cut short,"
            " or no model\nwritten: b.json\n"
        )
        given = (f"audit {STRICT} --baseline b.json", "m/a b.onnx")
        assert output_of(*given).endswith("b.json: 2 known findings, 0 new, 0 gone\n")
        Path("m/c.onnx").unlink()
        assert output_of(*given).endswith("b.json: 2 known findings, 0 new, 2 gone\n")
        write_baseline()
        assert baseline() == before[:2]

    def test_reports_tell_known_findings_from_new_ones(self) -> None:
        call("audit m/c.onnx --write-baseline b.json")
        found = read_json("b.json")
        found["findings"] = [one | {"reason": "old"} for one in found["findings"][:1]]
        write_json("b.json", found)
        given = "audit m/c.onnx --baseline b.json"
        root = ET.fromstring(outcome(f"{given} --junit -")[1])
        texts = [(one.tag, one.text) for case in root.iter("testcase") for one in case]
        assert texts == [
            ("skipped", f"known: {SAID['fixed']} (old)"),
            ("failure", SAID["odd"]),
        ]
        text = outcome(f"{given} --markdown -")[1]
        assert text.startswith(
            "## 1 of 1: a wrong input can leave an axis; 1 has a gather "
        )
        assert "\n\n1 new finding in 1 model.\n\n" in text
        assert "- **known out-of-range** m/c.onnx: fixed " in text
        assert "- **new refused** m/c.onnx: odd " in text
        (run,) = json_of(f"{given} --sarif -")["runs"]
        told = [
            (one["baselineState"], one.get("suppressions")) for one in run["results"]
        ]
        known = [{"kind": "external", "justification": "old"}]
        assert told == [("unchanged", known), ("new", None)]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        *rows_of("""
[]
b.json: $ must be `object`, got `array`

{"schema": 2, "findings": []}
b.json: $.schema must be a value that docs/models.md lists, got 2

{"schema": 1}
b.json: $ must have findings

{"schema": 1, "findings": [{}]}
b.json: $.findings[0] must have model

{"schema": 1, "findings": [{"model": 1}]}
b.json: $.findings[0].model must be `str`, got `int`
"""),
        ("", "b.json: $ must be whole JSON, got an empty or cut file"),
        (
            (
                '{"schema": 1, "findings": [{"model": "m", "place": "p", "node": "n",'
                ' "op": "o", "state": "bad"}]}'
            ),
            (
                "b.json: $.findings[0].state must be a value that docs/models.md lists,"
                " got 'bad'"
            ),
        ),
        (
            (
                '{"schema": 1, "findings": [{"model": "m", "place": "p", "node": "n",'
                ' "op": "o", "state": "refused", "why": ""}]}'
            ),
            "b.json: $.findings[0] must not have why",
        ),
    ],
)
@pytest.mark.parametrize("option", ["--baseline", "--write-baseline"])
def test_a_broken_baseline_is_one_sentence(
    option: str, content: str, sentence: str
) -> None:
    path = save("m.onnx", WRONG)
    write_text("b.json", content)
    assert error_of(f"audit {path} {option} b.json") == sentence
    assert read_text("b.json") == content


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    rows_of("""
--baseline none.json
none.json: no such file or directory

--write-baseline m.onnx
m.onnx must not be written, as it is an input

--baseline b.json --json=b.json
b.json must not be written, as it is an input

--sarif ./m.onnx
./m.onnx must not be written, as it is an input: m.onnx

--sarif x --write-baseline x
x must not be written twice, for --sarif and --write-baseline
"""),
)
def test_what_cannot_be_read_or_written_is_one_sentence(
    arguments: str, sentence: str
) -> None:
    path = save("m.onnx", WRONG)
    content = read_bytes(path)
    assert error_of(f"audit {path} {arguments}") == sentence
    assert read_bytes(path) == content


def test_a_baseline_is_compared_or_written() -> None:
    save("m.onnx", WRONG)
    error = error_of("audit m.onnx --baseline b.json --write-baseline c.json")
    said = "--baseline must come without --write-baseline, which compares with FILE too"
    assert error == said
