"""The pages of `show`, `check` and `audit` as readers see them: dark or light, narrow,
enlarged."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import NEEDS_CHROMIUM, probed
from command_line import call
from folders import MODELS
from report_samples import small

from onnxgather.checking.report import html

pytestmark = [pytest.mark.slow, NEEDS_CHROMIUM]

NETWORK = MODELS / "networks" / "keywords.onnx"
COMMANDS = {
    "show": ["show", str(MODELS / "image_remap.json")],
    "audit": ["audit", str(NETWORK), "--inputs", str(NETWORK.with_suffix(".npz"))],
}


def page_of(kind: str, folder: Path) -> bytes:
    """A page of a command: of `check` one with each state, of `audit` one with
    pictures."""
    if kind == "check":
        return html(small())
    path = folder / "made.html"
    assert call(*COMMANDS[kind], "--html", str(path)).exit_code in (0, 1)
    return path.read_bytes()


OPENED = """
for (const one of document.querySelectorAll("details")) one.open = true;
await new Promise((done) => setTimeout(done, 300));
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const texts = [];
while (walker.nextNode()) {
  const [node, element] = [walker.currentNode, walker.currentNode.parentElement];
  const isSeen = !element.matches("legend") && element.checkVisibility();
  if (node.data.trim() && isSeen) texts.push(node);
}
"""
"""Opens all entries and finds the texts that are seen; a legend is read aloud alone."""

CONTRAST = """
const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
const over = (colour, ground) => {
  for (const each of [ground, colour]) {
    pixel.fillStyle = each;
    pixel.fillRect(0, 0, 1, 1);
  }
  const [r, g, b] = pixel.getImageData(0, 0, 1, 1).data;
  return `rgb(${r}, ${g}, ${b})`;
};
const light = (colour) => {
  const [r, g, b] = colour.match(/\\d+/g).map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const colours = /(?:rgba?|color|oklab|oklch)\\([^()]*\\)/g;
const grounds = (element) => {
  if (!element) return ["rgb(255, 255, 255)"];
  const { backgroundColor, backgroundImage } = getComputedStyle(element);
  const below = grounds(element.parentElement).map((one) => over(backgroundColor, one));
  const stripes = backgroundImage.match(colours) ?? [];
  return [...below, ...stripes.flatMap((each) => below.map((one) => over(each, one)))];
};
const faint = new Set();
const judge = (element, colour, text, drawn) => {
  for (const ground of grounds(element).map((one) => (drawn ? over(drawn, one) : one))) {
    const [more, less] = [light(over(colour, ground)), light(ground)].sort((a, b) => b - a);
    const ratio = (more + 0.05) / (less + 0.05);
    if (!(ratio >= 4.5)) faint.add(`${text}: ${ratio.toFixed(2)}`);
  }
};
for (const node of texts) {
  const element = node.parentElement;
  const box = element.closest("g")?.querySelector("rect");
  const style = getComputedStyle(element);
  if (box) judge(element, style.fill, node.data, getComputedStyle(box).fill);
  else judge(element, style.color, node.data);
}
for (const input of document.querySelectorAll("[placeholder]"))
  judge(input, getComputedStyle(input, "::placeholder").color, input.placeholder);
return [texts.length > 50, [...faint]];
"""  # noqa: E501


@pytest.mark.parametrize(
    ("kind", "dark"),
    [(k, d) for k in ("check", "show", "audit") for d in (True, False)],
)
def test_each_text_has_a_contrast_of_4_5(tmp_path: Path, kind: str, dark: bool) -> None:
    found = probed(tmp_path, page_of(kind, tmp_path), OPENED + CONTRAST, 1200, dark)
    assert found == [True, []]


ENLARGED = """
const page = document.documentElement;
const size = (node) => Number.parseFloat(getComputedStyle(node.parentElement).fontSize);
const drawn = (node) => node.parentElement.closest("svg");
const before = texts.map(size);
page.style.fontSize = "200%";
await new Promise((done) => setTimeout(done, 100));
const range = document.createRange();
const lines = (node) => {
  range.selectNodeContents(node);
  return range.getClientRects().length;
};
const told = (found) => [...new Set(found.map((node) => node.data))];
return {
  same: told(texts.filter((node, k) => !drawn(node) && size(node) < 1.99 * before[k])),
  squeezed: told(texts.filter((node) => lines(node) > 1 + node.data.trim().length / 3)),
  fits: page.scrollWidth <= innerWidth,
};
"""


@pytest.mark.parametrize("kind", ["check", "show", "audit"])
def test_a_page_with_texts_twice_as_large_fits_a_narrow_window(
    tmp_path: Path, kind: str
) -> None:
    found = probed(tmp_path, page_of(kind, tmp_path), OPENED + ENLARGED, 390)
    assert found == {"same": [], "squeezed": [], "fits": True}
