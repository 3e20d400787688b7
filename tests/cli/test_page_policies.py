"""Each page that a command writes allows its own script, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import in_browser, probed
from command_line import call
from folders import MODELS
from html_page import Page
from report_samples import small
from repro_cases import CASE

from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.report import html
from onnxgather.checking.repro.folder import (
    Difference,
    trial_of_program,
    trials_of,
    write_folder,
)
from onnxgather.checking.results import Result, ResultKind

COMMANDS = {
    "show": ["show", str(MODELS / "image_remap.json")],
    "audit": ["audit", str(MODELS / "networks" / "keywords.onnx")],
}
LIBRARY = ["'self'", "'wasm-unsafe-eval'", "https:", "http://127.0.0.1:*"]
ALLOWED: dict[str, list[str]] = {
    "check": [],
    "show": [],
    "audit": [],
    "web-wasm": LIBRARY,
    "web-webnn": [*LIBRARY, "'unsafe-eval'"],
    "webnn": ["blob:"],
}
"""The pages, each with what it allows beside its own script.

Those with the name of a lane are of repros. A reader names the folder of
onnxruntime-web, which such a page imports. Its WebNN provider evaluates texts.
"""

MADE = {"check": "#list > *", "show": ".panel td", "audit": "#states label"}
"""The pages, each with elements that its script makes; a repro says something."""


def page_of(kind: str, folder: Path) -> bytes:
    """The page of a command, or of the repro of a lane."""
    if kind == "check":
        return html(small())
    if kind in COMMANDS:
        path = folder / "made.html"
        assert call(*COMMANDS[kind], "--html", str(path)).exit_code in (0, 1)
        return path.read_bytes()
    *_, trial = trials_of(CASE, "cpu")
    if kind == "webnn":
        trial = trial_of_program(CASE)
    info = LaneInfo(kind, "CPUExecutionProvider", {"onnxruntime": "1.30.0"})
    result = Result(kind, "DIFF", ResultKind.SHAPE, "expected shape [3, 4]")
    write_folder(str(folder / "repro"), Difference(CASE, info, result), trial)
    return (folder / "repro" / "repro.html").read_bytes()


@pytest.mark.parametrize("kind", ALLOWED)
def test_a_page_allows_its_own_script_alone(kind: str, tmp_path: Path) -> None:
    page = Page(page_of(kind, tmp_path))
    policy = page.policy
    sources = policy.pop("script-src")
    assert sorted(sources) == sorted([*page.digests, *ALLOWED[kind]])
    if "https:" in sources:
        assert policy.pop("connect-src") == ["'self'", "https:", "http://127.0.0.1:*"]
    assert policy == {
        "default-src": ["'none'"],
        "style-src": ["'unsafe-inline'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    assert [name for name, _ in page.attributes if name.startswith("on")] == []


COUNTED = """
const folder = document.getElementById("folder");
if (folder) {
  folder.value = "/none/";
  document.getElementById("run").click();
  await new Promise((done) => setTimeout(done, 300));
}
return document.querySelectorAll("SELECTOR").length > 0;
"""


@in_browser
@pytest.mark.parametrize("kind", ALLOWED)
def test_a_browser_runs_the_script_of_a_page(kind: str, tmp_path: Path) -> None:
    script = COUNTED.replace("SELECTOR", MADE.get(kind, "#said:not(:empty)"))
    assert probed(tmp_path, page_of(kind, tmp_path), script, 1200)


@in_browser
def test_a_browser_runs_no_other_script(tmp_path: Path) -> None:
    page = html(small())
    other = page.replace(b'<script type="module">', b'<script type="module">;')
    assert other != page
    forbidden = "forbidden: script-src-elem: inline"
    with pytest.raises(pytest.fail.Exception, match=forbidden):
        probed(tmp_path, other, "return 0", 1200)
