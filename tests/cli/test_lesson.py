"""The page of `show`: each gather drawn, and told for every element."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from browser import AT_EACH_WIDTH, in_browser, probed
from command_line import call
from corpus_cases import corpus
from folders import MODELS
from html_page import HOSTILE, Page
from report_samples import gather

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.cli.lesson import lesson, lesson_page
from onnxgather.core.lowering.show import describe
from onnxgather.core.options import POLICIES

PROBE = """
const told = {};
for (const stage of document.querySelectorAll(".picture"))
  for (const cell of stage.querySelectorAll(".panel td[aria-label]")) {
    cell.focus();
    told[cell.getAttribute("aria-label")] = stage.querySelector(".status").textContent;
  }
document.querySelector(".panel.output td[aria-label]").focus();
const lines = document.querySelectorAll(".arrows path").length;
const [first] = document.querySelectorAll(".panel.input td[aria-label]");
first.focus();
first.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
return {
  told,
  lines,
  next: document.activeElement.getAttribute("aria-label"),
  commands: [...document.querySelectorAll(".repro pre")].map((one) => one.textContent),
  sections: [...document.querySelectorAll("h2")].map((one) => one.textContent),
  fits: document.documentElement.scrollWidth <= innerWidth,
};
"""
"""Visits every element by the keyboard's way, and writes down what the page says."""


REMAP = str(MODELS / "image_remap.json")
PROGRAMS = len([*MODELS.glob("*.json")])
COMMANDS = {"onnxgather convert x.json -o models": "Writes the ONNX models."}


def page_of(desc: og.Descriptor, arrays: Any = None, name: str = "gather") -> bytes:
    description = describe(desc, "clamp", "portable", 17)
    return lesson_page("FILE", [lesson(name, desc, description, arrays)], COMMANDS)


DESC = gather("FLOAT16", (4, 3))


def shown(folder: Path, *arguments: str) -> Page:
    """The page that `show` writes."""
    path = folder / "page.html"
    ran = call("show", *arguments, "--html", str(path))
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, "", f"written: {path}\n")
    return Page(path.read_bytes())


def seen(folder: Path, arguments: list[str], script: str, width: int = 1280) -> Any:
    """What a script finds on the page that `show` writes."""
    shown(folder, *arguments)
    return probed(folder, (folder / "page.html").read_bytes(), script, width)


def test_the_page_holds_lesson_picture_and_graph_and_loads_nothing() -> None:
    data = np.arange(12, dtype=np.float16).reshape(4, 3)
    page = Page(page_of(DESC, (data, np.array([[2, -3]]))))
    (told,) = page.data["gathers"]
    start = "Each index chooses a slice of InputTensor along Axis."
    assert told["lesson"].startswith(start)
    assert told["formula"]["equation"] == "out[a, i] = in[a, idx[0, i]]"
    assert told["graphs"][0]["nodes"][-1]["operator"] == "Gather"
    assert told["picture"]["output"][0]["values"] == "2 0 5 3 8 6 11 9"
    assert told["is_example"] is False
    assert ("title", "1 gather of FILE") in page.attributes
    assert page.texts["span"] == ["1 gather of FILE"]
    assert page.loads == []


def test_no_name_becomes_markup() -> None:
    content = lesson_page(HOSTILE, [], {HOSTILE: HOSTILE})
    assert b"alert(1)</script>" not in content
    assert len(Page(page_of(DESC, name="</script><b>")).texts["script"]) == 2


@pytest.mark.parametrize("data_type", [kind.name for kind in og.TensorDataType])
def test_a_gather_without_data_is_drawn_with_elements_that_count_up(
    data_type: str,
) -> None:
    (told,) = Page(page_of(gather(data_type, (120, 30)))).data["gathers"]
    assert told["is_example"] is True
    grid = told["picture"]["input"][0]
    largest = 100 if og.TensorDataType[data_type].numpy.itemsize == 1 else 1000
    numbers = [offset % largest for offset in grid["offsets"]]
    assert [float(text) for text in grid["values"].split(" ")] == numbers
    assert "outside" not in told["picture"]


def test_a_large_tensor_has_no_picture() -> None:
    (told,) = Page(page_of(gather("UINT8", (1, 2**20 + 1)))).data["gathers"]
    assert told["picture"] is None


def test_every_gather_of_the_corpus_has_a_page() -> None:
    cases = (case for case in corpus() if isinstance(case, DescriptorCase))
    chosen = [*{str(case.descriptor): case for case in cases}.values()][::60]
    assert len(chosen) > 10
    for case in chosen:
        page = Page(page_of(case.descriptor, (case.data, case.indices)))
        assert page.data["gathers"][0]["picture"]["links"]


def test_the_page_has_the_data_of_the_program(tmp_path: Path) -> None:
    path = MODELS / "token_embedding.json"
    data = shown(tmp_path, str(path)).data
    assert [*data["commands"]] == [f"onnxgather convert {path} -o models"]
    (told,) = data["gathers"]
    assert told["picture"]["indices"][0]["values"] == "1 4 2 3 5 0"
    assert told["name"] == f"{path}: $.dispatchables.gather"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A model without the metadata that say who wrote it."""
    path = tmp_path / "foreign.onnx"
    model = onnx.ModelProto.FromString((MODELS / "token_embedding.onnx").read_bytes())
    del model.metadata_props[:]
    path.write_bytes(model.SerializeToString())
    return path


def test_a_model_is_drawn_with_examples(tmp_path: Path, foreign: Path) -> None:
    own = MODELS / "token_embedding.onnx"
    for model, command in ((own, "certify"), (foreign, "audit")):
        data = shown(tmp_path, str(model)).data
        assert {told["is_example"] for told in data["gathers"]} == {True}
        assert [*data["commands"]] == [f"onnxgather {command} {model}"]


def test_several_files_have_one_command_for_each_kind(
    tmp_path: Path, foreign: Path
) -> None:
    names = ("token_embedding.json", "image_remap.json", "token_embedding.onnx")
    files = [str(MODELS / name) for name in names]
    proves = "Proves that the models mean their descriptors."
    assert shown(tmp_path, *files, str(foreign)).data["commands"] == {
        f"onnxgather convert {' '.join(files[:2])} -o models": (
            "Writes the ONNX models."
        ),
        f"onnxgather certify {files[2]}": proves,
        f"onnxgather audit {foreign}": "Says whether the indices stay in range.",
    }


@in_browser
def test_the_page_says_which_gathers_are_left_out(tmp_path: Path) -> None:
    model, page = MODELS / "networks" / "keywords.onnx", tmp_path / "page.html"
    ran = call("show", str(model), "--html", str(page))
    assert ran.exit_code == 2
    script = """
    return [...document.querySelectorAll("h2, .notes li")].map((e) => e.innerText);
    """
    *errors, _ = [line.removeprefix("Error: ") for line in ran.stderr.splitlines()]
    assert len(errors) == 3
    told = ["Left out", *errors, "node 'length'", "What to do next"]
    assert probed(tmp_path, page.read_bytes(), script, 390) == told


def test_the_page_is_not_written_over_what_is_read(tmp_path: Path) -> None:
    program = tmp_path / "program.json"
    shutil.copy(MODELS / "token_embedding.json", program)
    before = program.read_bytes()
    ran = call("show", str(program), "--html", str(program))
    assert (ran.exit_code, program.read_bytes()) == (2, before)
    assert ran.stderr == f"Error: {program} must not be written, as it is an input\n"


WALK = """
const found = [];
for (const tensor of document.querySelectorAll(".tensor")) {
  const [first, ...others] = tensor.querySelectorAll("[tabindex='0']");
  const way = [first];
  for (const key of ["ArrowDown", "ArrowUp"])
    for (let last = null; last !== document.activeElement; way.push(document.activeElement)) {
      last = way.at(-1);
      last.focus();
      last.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    }
  const columns = new Set(way.map((cell) => cell.getAttribute("aria-label").split(":")[0]));
  found.push([others.length, [...columns], way.at(-1) === first]);
}
return found;
"""  # noqa: E501


@in_browser
def test_arrow_keys_lead_through_every_table_of_a_tensor(tmp_path: Path) -> None:
    desc = og.GatherDesc(
        og.TensorDesc("FLOAT32", [2, 2, 3]),
        og.TensorDesc("INT32", [1, 1, 2]),
        og.TensorDesc("FLOAT32", [2, 2, 2]),
        axis=2,
        index_dimensions=1,
    )
    rows = [f"[{a}, {b}, 0]" for a in range(2) for b in range(2)]
    assert probed(tmp_path, page_of(desc), WALK, 1280) == [
        [0, ["IndicesTensor[0, 0, 0]"], True],
        [0, [f"InputTensor{at}" for at in rows], True],
        [0, [f"OutputTensor{at}" for at in rows], True],
    ]


@in_browser
@AT_EACH_WIDTH
def test_each_element_is_told_by_keyboard_in_a_browser_and_the_page_fits(
    tmp_path: Path, width: int
) -> None:
    data = np.arange(12, dtype=np.float16).reshape(4, 3)
    indices = np.array([[2, -3]])
    found = probed(tmp_path, page_of(DESC, (data, indices)), PROBE, width)
    told = found.pop("told")
    expected = og.reference(DESC, data, indices)
    for (a, i), value in np.ndenumerate(expected):
        index = indices[0, i]
        assert told[f"OutputTensor[{a}, {i}]: {value:g}"] == (
            f"OutputTensor[{a}, {i}] comes from InputTensor[{a}, {index % 3}] ="
            f" {data[a, index]:g}, by IndicesTensor[0, {i}] = {index}."
        )
    assert len(told) == 12 + 2 + 8
    unread = "InputTensor[0, 1]"
    assert told[f"{unread}: 1"] == f"{unread} = 1 goes to no element that is shown."
    assert found == {
        "lines": 2,
        "next": f"{unread}: 1",
        "commands": [*COMMANDS],
        "sections": ["gather", "What to do next"],
        "fits": True,
    }


COVERED = """
const cells = [...document.querySelectorAll(".panel td[aria-label]")];
const covered = [];
for (const chosen of document.querySelectorAll(".panel.output td[aria-label]")) {
  chosen.focus();
  for (const path of document.querySelectorAll(".arrows path")) {
    const origin = path.ownerSVGElement.getBoundingClientRect();
    for (let at = 0; at <= path.getTotalLength(); at += 1) {
      const point = path.getPointAtLength(at);
      const [x, y] = [point.x + origin.left, point.y + origin.top];
      for (const cell of cells) {
        const range = document.createRange();
        range.selectNodeContents(cell);
        const { left, right, top, bottom } = range.getBoundingClientRect();
        // A number is lower than the line of its text.
        if (x > left && x < right && y > top + 3 && y < bottom - 3)
          covered.push(cell.getAttribute("aria-label"));
      }
    }
  }
}
return [document.querySelectorAll(".arrows polygon").length, [...new Set(covered)]];
"""


@in_browser
@AT_EACH_WIDTH
def test_no_arrow_covers_a_number(tmp_path: Path, width: int) -> None:
    # Two indices choose an element, and the element goes to the output.
    assert seen(tmp_path, [REMAP], COVERED, width) == [3, []]


@in_browser
def test_the_page_draws_the_webnn_program_beside_the_graph(tmp_path: Path) -> None:
    script = """
    return [...document.querySelectorAll("section.graph")].map((section) => [
      section.querySelector("h3").textContent,
      section.querySelectorAll("ol.nodes > li").length,
      section.querySelectorAll("svg g.operator").length,
    ]);
    """
    onnx_graph, webnn_graph = seen(tmp_path, [REMAP, "--webnn", "bytes"], script)
    (dispatch,) = og.load(REMAP).dispatches
    count = len(og.to_webnn(dispatch.descriptor).graph.steps)
    assert onnx_graph[0] == "ONNX graph opset 17, target portable"
    assert webnn_graph == ["WebNN graph form bytes", count, count]


CROSSED = """
for (const item of document.querySelectorAll(".entry")) item.open = true;
await new Promise((done) => setTimeout(done, 500));
const drawings = [...document.querySelectorAll(".graph svg")];
const crossed = [];
for (const drawing of drawings) {
  const boxes = [...drawing.querySelectorAll("rect")].map((box) => box.getBBox());
  for (const line of drawing.querySelectorAll("path"))
    for (let at = 0; at <= line.getTotalLength(); at += 1) {
      const point = line.getPointAtLength(at);
      const isIn = ({ x, y, width, height }) =>
        point.x > x + 1 && point.x < x + width - 1 &&
        point.y > y + 1 && point.y < y + height - 1;
      if (boxes.some(isIn)) crossed.push(drawing.ariaLabel);
    }
}
return [drawings.length, crossed];
"""


@in_browser
@pytest.mark.parametrize("policy", POLICIES)
def test_no_line_of_a_graph_crosses_a_box(tmp_path: Path, policy: str) -> None:
    options = ["--out-of-range", policy, "--webnn", "bytes"]
    assert seen(tmp_path, [str(MODELS), *options], CROSSED) == [2 * PROGRAMS, []]


LISTED = """
const filters = document.getElementById("filters");
const [operator] = filters.querySelectorAll("select");
const [find] = filters.querySelectorAll("input");
const found = [];
for (const [wanted, text] of [["", ""], ["GATHER_ND", ""], ["GATHER_ND", "Remap_2D"]]) {
  Object.assign(operator, { value: wanted });
  Object.assign(find, { value: text });
  find.dispatchEvent(new Event("input", { bubbles: true }));
  const shown = [...document.querySelectorAll(".entry:not([hidden])")];
  shown.at(-1).open = true;
  await new Promise((done) => setTimeout(done, 200));
  const drawn = shown.at(-1).querySelectorAll(".picture, .graph").length;
  found.push([document.getElementById("shown").textContent, shown.length, drawn]);
}
return { found, fits: document.documentElement.scrollWidth <= innerWidth };
"""


@in_browser
@AT_EACH_WIDTH
def test_many_gathers_are_a_list_with_filters(tmp_path: Path, width: int) -> None:
    told = seen(tmp_path, [str(MODELS)], LISTED, width)
    counts = [count for _, count, _ in told["found"]]
    assert (counts[0], counts[2]) == (PROGRAMS, 1)
    assert told["found"] == [
        [f"{count} of {PROGRAMS} gathers shown", count, 2] for count in counts
    ]
    assert told["fits"]


@in_browser
def test_a_heading_is_one_line_however_long_the_name_is(tmp_path: Path) -> None:
    script = 'return document.querySelector("h1").getBoundingClientRect().height;'
    page = lesson_page(60 * "long_name_", [], {})
    short = lesson_page("x", [], {})
    assert probed(tmp_path, page, script, 390) == probed(tmp_path, short, script, 390)
