"""The page of an audit: what it says, what it draws, and that it loads nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import CHROMIUM, probed
from html_page import HOSTILE, LOADING, Page
from onnx_graphs import FLOAT, INT64, constant, info, model, node

from onnxgather.networks.audit_page import audit_page
from onnxgather.networks.comparison import compare
from onnxgather.networks.contract import guard
from onnxgather.networks.gathers import audit_model, given_conditions
from onnxgather.networks.network import read_network
from onnxgather.parity.lanes import open_lanes

TABLE = constant("table", np.arange(12.0, dtype=np.float32).reshape(4, 3))
NAME = HOSTILE.replace("\udc80", "").replace("\x00", "")


def page(
    name: str = "tokens", rows: int = 1, inputs: Any = None, ranges: Any = None
) -> tuple[bytes, Any]:
    """Return the page of a model with some gathers, two of which compute shapes."""
    nodes = [
        node("Neg", ["table"], "turned", "negative"),
        *(node("Gather", ["turned", "ids"], f"y{k}", f"{name}{k}") for k in range(rows)),
        node("Shape", ["ids"], "shape"),
        node("Gather", ["shape", "one"], "count", "counted"),
        node("Gather", ["shape", "one"], "again", "counted too"),
        node("Abs", ["y0"], "z"),
    ]
    made = model(nodes, [info("ids", INT64, [2])], ["z"], [TABLE, constant("one", np.array(0))])
    network = read_network(made)
    audited = audit_model(network, inputs, None, given_conditions(network, ranges, []))
    lanes = open_lanes(["cpu"], target="portable") if inputs else []
    compared = compare(audited, lanes)
    for lane in lanes:
        lane.close()
    return audit_page(name, compared), compared.audit


def test_a_gather_has_its_graph_its_proof_and_its_picture() -> None:
    found = Page(page(inputs={"ids": np.array([3, 0])})[0])
    (detail,) = found.details
    assert [one["operator"] for one in detail["around"]["nodes"]] == [
        "Neg",
        "▸ Gather",
        "Abs",
    ]
    assert detail["around"]["inputs"] == [
        {"name": "table", "data_type": "FLOAT", "shape": [4, 3]},
        {"name": "ids", "data_type": "INT64", "shape": [2]},
    ]
    assert detail["picture"]["output"][0]["values"] == "-9 -10 -11 -0 -1 -2"
    assert (detail["type"], detail["indexType"], detail["level"]) == ("FLOAT32", "INT64", "3_0")
    assert found.texts["h1"] == ["3 gathers: 1 proved under conditions, 2 proved in range"]
    assert "lane          cpu: 3 PASS" in found.texts["li"]
    facts = dict([*zip(found.texts["dt"], found.texts["dd"], strict=True)][::-1])
    assert facts["indices are"] == "index unbounded; the axis has 4 elements"
    assert facts["in the run"] == "0..3"
    assert facts["proved-if"] == "each value of ids is from -4 to 3"
    assert found.texts["span"].count("cpu PASS") == 3


def test_a_gather_that_did_not_run_has_its_graph_alone() -> None:
    (detail,) = Page(page()[0]).details
    assert [*detail] == ["around"]


def test_gathers_of_shapes_are_one_line() -> None:
    found = Page(page()[0])
    assert "2 gathers compute shapes on the CPU, all proved" in found.texts["span"]
    states = [value for name, value in found.attributes if name == "data-state"]
    assert states == ["proved-if", "proved", "proved"]
    assert found.texts["label"] == [" proved-if 1", "Operator ", "Find "]


def test_a_gather_of_shapes_that_is_not_proved_stands_among_the_others() -> None:
    nodes = [node("Shape", ["x"], "shape"), node("Gather", ["shape", "five"], "y")]
    inputs = [info("x", FLOAT, ["n"])]
    audited = audit_model(model(nodes, inputs, ["y"], [constant("five", np.array(5))]))
    found = Page(audit_page("m", compare(audited, [])))
    assert "1 gather computes shapes on the CPU, 0 of them proved" in found.texts["span"]
    assert found.texts["label"][0] == " out-of-range 1"
    assert len(found.details) == 1


def test_an_index_out_of_range_is_told_with_what_each_provider_makes_of_it() -> None:
    found = Page(page(inputs={"ids": np.array([3, 4])})[0])
    facts = dict(zip(found.texts["dt"], found.texts["dd"], strict=True))
    assert facts["cpu"] == "The node fails."
    assert facts["out-of-range"] == "indices[1] is 4, by the given inputs, on an axis of 4"
    assert ("class", "bad") in found.attributes
    assert found.details[0]["picture"]["outside"] == [1]


def test_the_contract_and_its_guard_stand_once() -> None:
    text, told = page(rows=3)
    found = Page(text)
    conditions = " tokens0 (Gather, main graph) and 2 more: each value of ids is from -4 to 3"
    assert found.texts["li"].count(conditions) == 1
    assert (
        found.texts["p"].count("The proofs assume that open sizes of inputs are at least 1.") == 1
    )
    assert found.texts["pre"][-1] == guard(told.contract).rstrip("\n")


COMMANDS = [
    "onnxgather audit 'a model' --contract contract.json",
    "onnxgather audit 'a model' --assume contract.json --fail-on not-proved",
    "onnxgather harden 'a model' -o hardened.onnx",
]


def test_the_next_commands_are_whole() -> None:
    for ranges, commands in ((None, COMMANDS), ({"ids": (0, 3)}, [])):
        found = Page(page("a model", ranges=ranges)[0])
        assert found.texts["pre"][:-1] == commands


def test_the_worst_states_come_first() -> None:
    nodes = [
        node("Gather", ["table", "ids"], "y0"),
        node("Gather", ["table", "four"], "y1"),
        node("Gather", ["table", "zero"], "y2"),
        node("Exp", ["x"], "far"),
        node("Cast", ["far"], "which", to=INT64),
        node("Gather", ["table", "which"], "y3"),
    ]
    constants = [TABLE, constant("four", np.array(4)), constant("zero", np.array(0))]
    inputs = [info("ids", INT64, [2]), info("x", FLOAT, [2])]
    audited = audit_model(model(nodes, inputs, ["y0"], constants))
    found = Page(audit_page("m", compare(audited, [])))
    states = [value for name, value in found.attributes if name == "data-state"]
    assert states == ["out-of-range", "not-proved", "proved-if", "proved"]
    assert found.texts["label"][:4] == [f" {state} 1" for state in states]


FILTERED = """
const filters = document.getElementById("filters");
const shown = [];
const tell = () => shown.push(document.getElementById("shown").textContent);
const type = (name, value) => {
  filters.elements[name].value = value;
  filters.dispatchEvent(new Event("input"));
  tell();
};
tell();
filters.querySelector("[value=proved]").click();
tell();
type("operator", "GatherND");
type("text", "NO SUCH NAME");
filters.querySelector("[type=reset]").click();
await new Promise((done) => setTimeout(done, 50));
type("text", " 0..1 OF 4 ");
filters.reset();
const entries = [...document.querySelectorAll("#gathers > details")];
for (const entry of entries) entry.open = true;
for (let k = 0; k < 50 && entries.some((one) => !one.querySelector("svg")); k++)
  await new Promise((done) => setTimeout(done, 50));
return {
  shown,
  drawn: entries.map((one) => one.querySelectorAll("svg rect").length),
  fits: document.documentElement.scrollWidth <= innerWidth,
};
"""


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [400, 1280])
def test_filters_and_drawings_in_a_browser(tmp_path: Path, width: int) -> None:
    """Nothing feeds the first operation, so that no value is above the others in the drawing."""
    nodes = [
        node("RandomUniform", [], "random", shape=[2]),
        node("Add", ["random", "x"], "sum"),
        node("Cast", ["sum"], "ids", to=INT64),
        node("Gather", ["table", "ids"], "y0"),
        node("Gather", ["table", "few"], "y1"),
        node("GatherND", ["table", "pair"], "y2"),
    ]
    constants = [TABLE, constant("few", np.array([0, 1])), constant("pair", np.array([[0, 2]]))]
    audited = audit_model(model(nodes, [info("x", FLOAT, [2])], ["y0"], constants))
    text = audit_page("m", compare(audited, []))
    assert probed(tmp_path, text, FILTERED, width) == {
        "shown": [f"{count} of 3 gathers" for count in (3, 1, 0, 0, 1)],
        "drawn": [6, 3, 3],
        "fits": True,
    }


def test_the_guard_of_hostile_names_is_inert() -> None:
    ids = info(NAME, INT64, ["n"])
    made = model([node("Gather", ["table", NAME], "y")], [ids], ["y"], [TABLE])
    audited = audit_model(made)
    text = audit_page("hostile", compare(audited, []))
    found, printed = Page(text), dict[str, Any]()
    assert b"<script>alert" not in text
    exec(found.texts["pre"][-1], printed)
    assert printed["check"]({NAME: np.array([3])}) == {NAME: np.array([3])}
    with pytest.raises(ValueError, match="is from -4 to 3"):
        printed["check"]({NAME: np.array([4])})


def test_hostile_names_are_inert() -> None:
    text, told = page(NAME, inputs={"ids": np.array([3, 0])})
    found = Page(text)
    assert told.gathers[0].node == f"{NAME}0"
    assert len(found.texts["script"]) == 2
    assert b"<script>alert" not in text
    assert not any("alert" in value for _, value in found.attributes)
    assert "{{data}}" in found.texts["title"][0]
    assert all(c.isprintable() for told in found.texts["dd"] for c in told)


def test_the_page_loads_nothing() -> None:
    text = page(inputs={"ids": np.array([3, 0])})[0]
    found = Page(text)
    assert not LOADING & {name for name, _ in found.attributes}
    script = found.texts["script"][1]
    assert not re.search(r"fetch\(|XMLHttp|WebSocket|import\s*\(|sendBeacon|innerHTML", script)
    assert set(re.findall(r"https?://[\w./]+", text.decode())) == {"http://www.w3.org/2000/svg"}
    asked = set(re.findall(r'getElementById\("(\w+)"\)', script))
    assert asked <= {value for name, value in found.attributes if name == "id"}


def test_hundreds_of_gathers_make_a_small_page() -> None:
    text, _ = page(rows=300)
    assert len(text) < 500_000
    assert len(Page(text).details) == 300
