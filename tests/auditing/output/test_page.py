"""The page of an audit: what it says, what it draws, and that it loads nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from browser import AT_EACH_WIDTH, in_browser, probed
from html_page import HOSTILE, Page, addresses
from onnx_graphs import BOOL, FLOAT, INT64, constant, info, model, node

from onnxgather.auditing.audit import (
    AuditedModel,
    Premises,
    audit_model,
    given_conditions,
)
from onnxgather.auditing.levels import Levels
from onnxgather.auditing.output.findings import FinishedAudit
from onnxgather.auditing.output.guard_code import cpp_check, javascript_check
from onnxgather.auditing.output.page import audit_page
from onnxgather.auditing.output.picture_of_finding import pictures_of
from onnxgather.auditing.output.way_to_gather import ways_of
from onnxgather.auditing.proof.contract_python import guard
from onnxgather.core.checks import printable
from onnxgather.core.execution.kernels import operators_library
from onnxgather.core.model.network import read_network

TABLE = constant("table", np.arange(12.0, dtype=np.float32).reshape(4, 3))
NAME = HOSTILE.replace("\udc80", "").replace("\x00", "")


def finished(made: onnx.ModelProto, inputs: Any = None) -> FinishedAudit:
    """Return the audit of a model, with the pictures of its gathers."""
    return with_pictures(audit_model(Premises(read_network(made)), inputs))


def with_pictures(audited: AuditedModel) -> FinishedAudit:
    pictures = pictures_of(audited)
    return FinishedAudit(audited.audit, [], pictures, ways=ways_of(audited))


def page_of(made: onnx.ModelProto, path: str = "m") -> Page:
    return Page(audit_page({path: finished(made)}))


def named(found: Page, attribute: str) -> str:
    """Return the values of an attribute."""
    return " ".join(value for name, value in found.attributes if name == attribute)


def page(
    name: str = "tokens", rows: int = 1, inputs: Any = None, ranges: Any = None
) -> tuple[bytes, Any]:
    """Return the page of a model with some gathers, two of which compute shapes."""
    gathers = [
        node("Gather", ["turned", "ids"], f"y{k}", f"{name}{k}") for k in range(rows)
    ]
    nodes = [
        node("Neg", ["table"], "turned", "negative"),
        *gathers,
        node("Shape", ["ids"], "shape"),
        node("Gather", ["shape", "one"], "count", "counted"),
        node("Gather", ["shape", "one"], "again", "counted too"),
        node("Abs", ["y0"], "z"),
    ]
    ids, one = info("ids", INT64, [2]), constant("one", np.array(0))
    network = read_network(model(nodes, [ids], ["z"], [TABLE, one]))
    premises = Premises(network, None, given_conditions(network, ranges, []))
    audited = audit_model(premises, inputs)
    return audit_page({name: with_pictures(audited)}), audited.audit


def test_a_gather_has_its_proof_and_its_picture() -> None:
    found = Page(page(inputs={"ids": np.array([3, 0])})[0])
    first, *_ = found.details
    assert first["picture"]["output"][0]["values"] == "-9 -10 -11 -0 -1 -2"
    types = (first["type"], first["indexType"], first["level"])
    assert types == ("FLOAT32", "INT64", "3_0")
    assert len(found.details) == 3
    assert named(found, "data-detail") == "0 1 2"
    assert found.texts["h1"] == ["tokens: a wrong input can leave an axis"]
    census = "3 gathers: 1 proved under conditions, 2 proved in range"
    assert found.texts["p"][1] == census
    assert found.texts["h2"] == ["tokens", "What an index out of range of Gather does"]
    facts = dict([*zip(found.texts["dt"], found.texts["dd"], strict=True)][::-1])
    assert facts["indices"] == "index unbounded; the axis has 4 elements; seen 0..3"
    assert facts["proved-if"] == "each value of ids is from -4 to 3"


def test_without_a_run_the_page_holds_no_element() -> None:
    found = Page(page()[0])
    assert (found.details, named(found, "data-detail")) == ([], "")


EMBEDDED = """
const told = document.querySelector(".embedded");
return [told.textContent, getComputedStyle(told).display, await (async () => {
  document.querySelector(".entry").open = true;
  await new Promise((done) => setTimeout(done, 300));
  return document.querySelectorAll(".entry .panel").length;
})()];
"""


@in_browser
@pytest.mark.parametrize(
    ("inputs", "display", "panels"),
    [(None, "none", 0), ({"ids": np.array([3, 0])}, "block", 3)],
)
def test_the_page_says_that_it_holds_weights_where_it_does(
    tmp_path: Path, inputs: Any, display: str, panels: int
) -> None:
    said = (
        "This page holds elements of the weights and of the inputs, some hundred of"
        " each gather with a picture: look before you pass it on."
    )
    told = probed(tmp_path, page(inputs=inputs)[0], EMBEDDED, 390)
    assert told == [said, display, panels]


FINDING = """
await new Promise((done) => setTimeout(done, 300));
const [entry] = document.querySelectorAll(".entry");
const [first, ...others] = entry.querySelector(".body").children;
return {
  open: entry.open,
  first: first.querySelector("h3").textContent,
  wild: first.querySelector(".wild.on").textContent,
  arrows: first.querySelectorAll(".arrows polygon").length,
  status: first.querySelector(".status").textContent,
  answers: [...first.querySelectorAll(".answers dl > div")].map((row) => row.innerText),
  folded: entry.querySelector("details.folded").open,
  filters: document.getElementById("filters").checkVisibility(),
  above: entry.getBoundingClientRect().top < 330,
  fits: document.documentElement.scrollWidth <= innerWidth,
};
"""


@in_browser
@AT_EACH_WIDTH
def test_the_page_of_a_finding_begins_with_its_picture(
    tmp_path: Path, width: int
) -> None:
    text, _ = page(inputs={"ids": np.array([5, 0])})
    shown = probed(tmp_path, text, FINDING, width)
    assert shown == {
        "open": True,
        "first": "What DirectML reads",
        "wild": "5",
        "arrows": 2,
        "status": (
            "OutputTensor[0, 0] comes from InputTensor[3, 2] = -11, by"
            " IndicesTensor[0, 0] = 5."
        ),
        "answers": [
            "cpu\nThe node fails.",
            "directml\nNo error: returns another element of the tensor, here"
            " input[3,2]",
        ],
        "folded": False,
        "filters": False,
        "above": True,
        "fits": True,
    }


SEVERAL = """
const closed = [...document.querySelectorAll(".providers details")].map((one) => !one.open);
const shown = () => [...document.querySelectorAll(".model")].map((section) => section.hidden);
const opened = () => [...document.querySelectorAll(".model")].map((section) => section.open);
const texts = (found) => [...found].map((one) => one.textContent);
const bars = [...document.querySelectorAll(".model > summary .bar")].map((bar) =>
  [...bar.children].map((one) => [one.title, one.offsetWidth > 2]),
);
const before = [shown(), opened()];
location.hash = "#model=1";
await new Promise((done) => setTimeout(done, 50));
const after = [shown(), opened()];
const told = document.getElementById("shown").textContent;
location.hash = "#states=out-of-range";
await new Promise((done) => setTimeout(done, 50));
const narrow = [...document.querySelectorAll(".providers dd")]
  .filter((one) => (one.closest("details").open = true))
  .filter((one) => one.offsetWidth < 0.6 * one.parentElement.offsetWidth);
return {
  lines: [...document.querySelectorAll(".model > summary")].map((line) => texts(line.children)),
  bars,
  before,
  after,
  told,
  filtered: shown(),
  names: texts(document.querySelectorAll("[name=model] option")),
  meanings: texts(document.querySelectorAll("#meanings > div")),
  closed: closed.every(Boolean),
  narrow: texts(narrow),
  fits: document.documentElement.scrollWidth <= innerWidth,
};
"""  # noqa: E501


def several() -> bytes:
    """The page of three models; the path of one of them is an attack."""
    far = constant("far", np.array([4]))
    gathers = [node("Gather", ["table", name], "y") for name in ("ids", "far")]
    ids = info("ids", INT64, ["n"])
    models = {
        "good": model([node("Neg", ["x"], "y")], [info("x", FLOAT, [2])], ["y"]),
        HOSTILE: model(gathers[:1], [ids], ["y"], [TABLE]),
        "bad": model(gathers[1:], [], ["y"], [TABLE, far]),
    }
    return audit_page({path: finished(made) for path, made in models.items()})


def test_several_models_have_a_section_each() -> None:
    found = Page(several())
    assert found.texts["h1"] == ["2 of 3: a wrong input can leave an axis"]
    assert found.texts["p"][1] == "1: no index"
    assert "2 gathers: 1 out of range, 1 proved under conditions" in found.texts["p"]
    providers = "What an index out of range of Gather does"
    assert found.texts["h2"] == ["bad", printable(HOSTILE), "good", providers]
    assert named(found, "data-verdict") == "can-leave can-leave no-index"
    assert not any("alert" in value for _, value in found.attributes)
    assert len(found.texts["script"]) == 2


CLOSED = """
const lines = [...document.querySelectorAll(".model > summary")];
return {
  models: lines.length,
  isShort: document.documentElement.scrollHeight <= 4000,
  open: document.querySelectorAll(".model[open]").length,
};
"""


PRINTED = """
const others = "details:not(.entry)";
const closed = () => document.querySelectorAll(`${others}:not([open])`).length;
const before = closed();
dispatchEvent(new Event("beforeprint"));
// A browser prints at once.
const lines = [...document.querySelectorAll(".entry > summary")];
return [
  before > 0,
  closed(),
  lines.filter((line) => !line.checkVisibility()).length,
  document.querySelectorAll(".picture").length,
];
"""


def pictured() -> bytes:
    """Return the page of three models; in two of them an index that a run had is out
    of range."""
    gather = node("Gather", ["table", "ids"], "y")
    made = model([gather], [info("ids", INT64, [2])], ["y"], [TABLE])
    runs = {"first": [5, 0], "good": [1, 0], "last": [0, 7]}
    finished_audits = {
        name: finished(made, {"ids": np.array(indices)})
        for name, indices in runs.items()
    }
    return audit_page(finished_audits)


@in_browser
def test_a_printed_page_has_every_line_and_the_picture_of_the_finding(
    tmp_path: Path,
) -> None:
    pages = [page(inputs={"ids": np.array([5, 0])})[0], several(), pictured()]
    # The index of the second page is a constant, so it needs no run.
    assert [probed(tmp_path, text, PRINTED, 1200) for text in pages] == [
        [True, 0, 0, 1],
        [True, 0, 0, 1],
        [True, 0, 0, 2],
    ]


@in_browser
@AT_EACH_WIDTH
def test_59_models_take_at_most_4000_pixels(tmp_path: Path, width: int) -> None:
    nodes = [node("Gather", ["table", "ids"], "y"), node("Gather", ["ids", "one"], "z")]
    constants = [TABLE, constant("one", np.array(1))]
    made = model(nodes, [info("ids", INT64, ["n"])], ["y", "z"], constants)
    finished_audit = finished(made)
    text = audit_page({f"exported/model_{k}.onnx": finished_audit for k in range(59)})
    shown = probed(tmp_path, text, CLOSED, width)
    assert shown == {"models": 59, "isShort": True, "open": 0}


@in_browser
@AT_EACH_WIDTH
def test_several_models_have_a_line_each_and_the_worst_is_first(
    tmp_path: Path, width: int
) -> None:
    assert probed(tmp_path, several(), SEVERAL, width) == {
        "lines": [
            ["can-leave", "bad", "", "1 out of range"],
            ["can-leave", printable(HOSTILE), "", "1 proved if"],
            ["no-index", "good", "", "no index"],
        ],
        "bars": [[["1 out-of-range", True]], [["1 proved-if", True]], []],
        "before": [[False, False, False], [False, False, False]],
        "after": [[True, False, True], [False, True, False]],
        "told": "1 of 2 shown",
        "filtered": [False, True, True],
        "names": ["all", "bad", printable(HOSTILE), "good"],
        "meanings": [
            "out-of-rangean index names no element of its axis",
            "proved-ifeach index names an element of its axis if the conditions hold",
        ],
        "closed": True,
        "narrow": [],
        "fits": True,
    }


def test_gathers_of_one_state_and_cause_stand_together_and_shapes_last() -> None:
    found = Page(page(rows=2)[0])
    assert [text for text in found.texts["summary"] if "gather" in text] == [
        " 2 gathers: each value of ids is from -4 to 3",
        " 2 gathers: shapes are computed on the CPU",
    ]
    assert named(found, "data-state") == "proved-if proved-if proved proved"
    # The model, its guard, what providers do, and the group that is none of shapes.
    assert [name for name, _ in found.attributes].count("open") == 4


def test_a_gather_of_shapes_that_is_not_proved_stands_among_the_others() -> None:
    nodes = [node("Shape", ["x"], "shape"), node("Gather", ["shape", "five"], "y")]
    five = constant("five", np.array(5))
    found = page_of(model(nodes, [info("x", FLOAT, ["n"])], ["y"], [five]))
    assert " 1 gather: the model has such an index" in found.texts["summary"]


def test_a_gather_that_directml_refuses_stands_under_the_rule() -> None:
    which = constant("which", np.zeros((1, 2), np.int64))
    gather = node("GatherElements", ["table", "which"], "y")
    found = page_of(model([gather], [], ["y"], [TABLE, which]))
    assert found.texts["summary"][0] == (
        " 1 gather: IndicesTensor.Sizes[1] must be InputTensor.Sizes[1] (3), as it is"
        " not at Axis, got 2"
    )


@pytest.mark.slow
def test_an_index_out_of_range_is_told_once_with_what_each_provider_does() -> None:
    found = Page(page(inputs={"ids": np.array([3, 4])}, rows=2)[0])
    told = [*zip(found.texts["dt"], found.texts["dd"], strict=True)]
    facts = dict(told)
    assert found.texts["h2"][-1] == "What an index out of range of Gather does"
    assert facts["cpu"] == "The node fails."
    reads = "No error: returns another element of the tensor,"
    assert [fact for name, fact in told if name == "directml"] == [
        *[f"{reads} here input[3,2]"] * 2,
        f"{reads} as DirectML checks no index.",
    ]
    # The untouched model stops at the first gather, where the provider counts it.
    under = " under clamp" if operators_library() else ""
    found_index = f"indices[1] is 4, by the given inputs{under}, on an axis of 4"
    # ONNX Runtime joins the second gather with the first.
    assert facts["out-of-range"] == f"{found_index}; folded or rewritten at level all"
    assert ("class", "bad") in found.attributes
    assert found.details[0]["picture"]["outside"] == [1]


def test_the_contract_and_its_guard_stand_once() -> None:
    text, told = page(rows=3)
    found = Page(text)
    assumed = (
        "A contract has the conditions on inputs under which the indices stay in range;"
        " the function raises an error where inputs break one. The proofs assume that"
        " open sizes of inputs are at least 1."
    )
    assert found.texts["p"].count(assumed) == 1
    assert "Contract" not in found.texts["h2"]
    title = "Contract, and a guard to paste in front of the model"
    assert found.texts["span"].count(title) == 1
    command = "onnxgather audit tokens --contract tokens.guard.onnx"
    assert found.texts["pre"][-5:] == [
        guard(told.contract).rstrip("\n"),
        command,
        f"// {command}\n{cpp_check('tokens.guard.onnx')}".rstrip("\n"),
        f"// {command}\n{javascript_check('tokens.guard.onnx')}".rstrip("\n"),
        "onnxgather audit tokens --contract tokens.contract.json",
    ]


def test_the_contract_says_what_is_given() -> None:
    text, _ = page(ranges={"ids": (0, 3)})
    given = "each value of ids is from 0 to 3; the contract is for such inputs alone."
    (told,) = [text for text in Page(text).texts["p"] if given in text]
    end = "open sizes of inputs are at least 1. Given: "
    assert told.endswith(end + given)


def test_the_next_commands_are_whole() -> None:
    audit, contract = "onnxgather audit 'a model'", "'a model.contract.json'"
    found = Page(page("a model")[0])
    assert found.texts["pre"][:-5] == [
        f"{audit} --contract {contract}",
        f"{audit} --assume {contract} --fail-on proved-if",
        "onnxgather harden 'a model' -o 'a model.hardened.onnx' --verify",
    ]
    given = Page(page("a model", ranges={"ids": (0, 3)})[0])
    assert len(given.texts["pre"]) == 5


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
    # A version that folds the constant index opens the model at no level.
    network = read_network(model(nodes, inputs, ["y0"], constants))
    audited = audit_model(Premises(network, levels=Levels(())))
    found = Page(audit_page({"m": with_pictures(audited)}))
    assert named(found, "data-state") == "out-of-range not-proved proved-if proved"


FILTERED = """
const form = document.getElementById("filters");
const labels = [...form.querySelectorAll("#states label")].map((one) => one.textContent);
const shown = [];
const text = document.getElementById("shown");
const tell = () => shown.push(`${text.textContent} ${location.hash || "#"}`);
const type = (name, value) => {
  form.elements[name].value = value;
  form.dispatchEvent(new Event("input"));
  tell();
};
const wait = (time) => new Promise((done) => setTimeout(done, time));
tell();
form.querySelector("[value=proved]").click();
tell();
type("operator", "GatherND");
const groups = [...document.querySelectorAll(".group")];
const isHidden = groups.every((group) => getComputedStyle(group).display === "none");
document.querySelector("#shown button").click();
const focused = document.activeElement.id;
tell();
type("text", "NO SUCH NAME");
form.querySelector("[type=reset]").click();
await wait(50);
type("text", " 0..1 OF 4 ");
location.hash = "#states=proved&text=Y2";
await wait(50);
tell();
const found = [...document.querySelectorAll(".entry:not([hidden]) .name")];
location.hash = "#states=&operator=none";
await wait(50);
tell();
const operators = form.elements.operator.selectedOptions[0].textContent;
location.hash = "#";
await wait(50);
const copied = [];
navigator.clipboard.writeText = async (text) => copied.push(text.split("\\n")[0]);
for (const one of document.querySelectorAll("details")) one.open = true;
const tabs = [...document.querySelectorAll(".tabs button")];
const forms = [...document.querySelectorAll("[data-form]")];
const seen = () => forms.filter((one) => !one.hidden).map((one) => one.dataset.form).join();
const chosen = [seen()];
const press = (copy) => {
  copy.focus();
  document.activeElement.click();
};
for (const copy of document.querySelectorAll("pre + button")) {
  if (copy.parentElement.hidden) continue;
  press(copy);
}
tabs[1].click();
chosen.push(seen());
press(forms[1].querySelector("button"));
await wait(50);
navigator.clipboard.writeText = () => Promise.reject(new Error("not allowed"));
document.querySelector("pre + button").click();
await wait(50);
return {
  labels: labels.join(),
  shown: shown.join("\\n"),
  told: [isHidden, focused, operators],
  found: found.map((one) => one.textContent),
  copied: copied.join("\\n"),
  chosen,
  tabs: tabs.map((one) => one.textContent).join(),
  selected: getSelection().toString(),
  fits: document.documentElement.scrollWidth <= innerWidth,
};
"""  # noqa: E501


@in_browser
@AT_EACH_WIDTH
def test_filters_in_a_browser_are_in_the_address(tmp_path: Path, width: int) -> None:
    nodes = [
        node("RandomUniform", [], "random", shape=[2]),
        node("Add", ["random", "x"], "sum"),
        node("Cast", ["sum"], "ids", to=INT64),
        node("Gather", ["table", "ids"], "y0", "a long name " * 40),
        node("Gather", ["table", "few"], "y1"),
        node("GatherND", ["table", "pair"], "y2"),
    ]
    few, pair = constant("few", np.array([0, 1])), constant("pair", np.array([[0, 2]]))
    made = model(nodes, [info("x", FLOAT, [2])], ["y0"], [TABLE, few, pair])
    audited = finished(made)
    digest = audited.audit.contract["digest"]
    harden = "onnxgather harden m -o m.hardened.onnx --verify"
    copied = f"""\
{harden}
def check(inputs):  # arrays by name, for the model {digest!r}
onnxgather audit m --contract m.guard.onnx"""
    shown = """\
3 of 3 shown #
1 of 3 shown #states=not-proved
Nothing is not-proved; left out: 1 proved. Show them #states=not-proved&operator=GatherND
1 of 3 shown #states=proved&operator=GatherND
Nothing fits these filters, whatever its state. #states=proved&operator=GatherND&text=NO+SUCH+NAME
1 of 3 shown #text=+0..1+OF+4+
1 of 3 shown #states=proved&text=Y2
No state is chosen; left out: 1 not-proved, 2 proved. Show them #states="""  # noqa: E501
    assert probed(tmp_path, audit_page({"m": audited}), FILTERED, width) == {
        "labels": " not-proved 1, proved 2",
        "shown": shown,
        "told": [True, "shown", "all"],
        "found": ["y2"],
        "chosen": ["Python", "ONNX"],
        "tabs": "Python,ONNX,C++,JavaScript,JSON",
        "selected": harden,
        "copied": copied,
        "fits": True,
    }


def test_gathers_of_a_lost_size_have_the_command_that_tells_it() -> None:
    nodes = [
        node("SpaceToDepth", ["x"], "small", "blocks", blocksize=2),
        node("Gather", ["small", "two"], "y", axis=2),
        node("Gather", ["small", "two"], "z", axis=3),
    ]
    x = info("x", FLOAT, [1, 3, "h", "w"])
    made = model(nodes, [x], ["y", "z"], [constant("two", np.array(2))])
    found = page_of(made, "a b")
    cause = (
        "the size is unknown behind blocks (SpaceToDepth);"
        " `--shape x=1,3,12,12` tells it"
    )
    assert f" 2 gathers: {cause}" in found.texts["summary"]
    command = "onnxgather audit 'a b' --shape x=1,3,12,12"
    # It is there in the group, and among the commands to run next.
    assert found.texts["pre"].count(command) == 2
    assert found.texts["li"] == ["x", "SpaceToDepth ", "Gather "]


def test_gathers_behind_a_size_of_the_data_have_the_command_that_may_tell_it() -> None:
    found = page_of(behind_nonzero("mask"))
    command = "onnxgather audit m --inputs FILE.npz"
    assert found.texts["pre"].count(command) == 2


def behind_nonzero(name: str) -> onnx.ModelProto:
    """Return a model whose gather needs a size of the data of an input."""
    nodes = [
        node("NonZero", [name], "places", name),
        node("Gather", ["places", "zero"], "y", axis=1),
    ]
    mask = info(name, BOOL, ["h", "w"])
    return model(nodes, [mask], ["y"], [constant("zero", np.array(0))])


def test_the_guard_of_hostile_names_is_inert() -> None:
    ids = info(NAME, INT64, ["n"])
    made = model([node("Gather", ["table", NAME], "y")], [ids], ["y"], [TABLE])
    text = audit_page({"hostile": finished(made)})
    found, printed = Page(text), dict[str, Any]()
    assert b"<script>alert" not in text
    exec(found.texts["pre"][-5], printed)
    assert printed["check"]({NAME: np.array([3])}) == {NAME: np.array([3])}
    with pytest.raises(ValueError, match="is from -4 to 3"):
        printed["check"]({NAME: np.array([4])})


def test_a_hostile_name_on_the_way_to_a_gather_is_inert() -> None:
    text = audit_page({f"{NAME}.onnx": finished(behind_nonzero(NAME))})
    found = Page(text)
    assert b"<script>alert" not in text
    assert found.texts["li"][0] == printable(NAME)
    assert found.texts["small"][0] == printable(NAME)
    # The code for C++ and JavaScript names the file.
    assert sum("alert(1)" in code for code in found.texts["pre"]) >= 2


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029", "\x0b", "\n", '"'])
def test_a_name_ends_no_line_of_the_code(character: str) -> None:
    """Python, C++ and JavaScript count other characters as the end of a line."""
    name = f"x{character}system(1); //.onnx"
    for check in (cpp_check, javascript_check):
        lines = check(name).splitlines()
        assert len(lines) == len(check("x.onnx").splitlines())
        (line,) = [line for line in lines if "system(1)" in line]
        assert re.search(r'"x\\.+system\(1\); //\.onnx"', line)


def test_hostile_names_are_inert() -> None:
    text, told = page(NAME, inputs={"ids": np.array([3, 0])})
    found = Page(text)
    assert told.gathers[0].node == f"{NAME}0"
    assert len(found.texts["script"]) == 2
    assert b"<script>alert" not in text
    assert not any("alert" in value for _, value in found.attributes)
    assert "{{data}}" in found.texts["title"][0]
    assert all(c.isprintable() for told in found.texts["dd"] for c in told)


IMAGE = '</script></pre></details><img src=x onerror="document.title=1">'

INERT = """
for (const one of document.querySelectorAll("details")) one.open = true;
await new Promise((done) => setTimeout(done, 300));
const named = [...document.querySelectorAll(".entry .name")].map((one) => one.textContent);
return [document.images.length, document.title, ...named];
"""  # noqa: E501


@in_browser
def test_names_with_elements_in_them_add_none_to_the_page(tmp_path: Path) -> None:
    """The names of the model, of a node, of an input, of a size and of a value."""
    nodes = [
        node("Reshape", [IMAGE, "sizes"], f"made {IMAGE}"),
        node("Gather", ["table", f"made {IMAGE}"], f"y {IMAGE}", f"node {IMAGE}"),
        node("Gather", ["table", IMAGE], f"z {IMAGE}", f"other {IMAGE}"),
    ]
    inputs = [info(IMAGE, INT64, [f"size {IMAGE}"])]
    constants = [TABLE, constant("sizes", np.array([1, -1]))]
    made = model(nodes, inputs, [f"y {IMAGE}"], constants)
    one = finished(made, {IMAGE: np.array([3, 9])})
    text = audit_page({IMAGE: one, f"second {IMAGE}": one})
    assert probed(tmp_path, text, INERT, 1200) == [
        0,
        "2 models · onnxgather audit",
        *[f"node {IMAGE}", f"other {IMAGE}"] * 2,
    ]


def test_the_page_loads_nothing() -> None:
    text = page(inputs={"ids": np.array([3, 0])})[0]
    found = Page(text)
    assert found.loads == []
    assert addresses(text.decode()) == {"http://www.w3.org/2000/svg"}
    assert found.asked <= found.identifiers


FILTERED_OFTEN = """
const form = document.getElementById("filters");
for (let k = 0; k < ROUNDS; k++) {
  form.elements.text.value = ["tokens499", "no such", "gather", ""][k % 4];
  form.dispatchEvent(new Event("input"));
  document.body.getBoundingClientRect();
}
return document.getElementById("shown").textContent;
"""


def seconds_of_children() -> float:
    """Return how long processors worked for programs that have ended."""
    times = os.times()
    return times.children_user + times.children_system


@in_browser
def test_hundreds_of_gathers_make_a_small_page_that_is_filtered_at_once(
    tmp_path: Path,
) -> None:
    """A person notices a tenth of a second, which is three times what a filter takes.

    The processors' seconds do not depend on other programs.
    """
    text, seconds = page(rows=500)[0], dict[int, float]()
    assert len(text) < 500_000
    for rounds in (4, 84):
        start = seconds_of_children()
        script = FILTERED_OFTEN.replace("ROUNDS", str(rounds))
        assert probed(tmp_path, text, script, 1200) == "502 of 502 shown"
        seconds[rounds] = seconds_of_children() - start
    assert (seconds[84] - seconds[4]) / 80 < 0.1
