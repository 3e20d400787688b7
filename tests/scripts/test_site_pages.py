"""The site: its menu, and with the generator the whole of it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import site_pages
from folders import ROOT

import onnxgather as og
from onnxgather.core.version import SUMMARY

CONFIGURATION = (ROOT / "mkdocs.yml").read_text("utf-8")
SITE = ROOT / "site"

RESOURCE = re.compile(
    r'<(?:script|link|img|source|iframe)\b[^>]*?(?:src|href|srcset)="([^"]+)'
)
"""What a page loads."""

LINK = re.compile(r'<(?:a|img|source)\b[^>]*?(?:href|src|srcset)="([^"#]+)')
"""Where a page leads, without the place in that page."""


def test_the_menu_has_every_page_once_but_the_decisions() -> None:
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    pages = {path.relative_to(ROOT).as_posix() for path in paths}
    decisions = {page for page in pages if page.startswith("docs/decisions/")}
    assert decisions
    _, _, menu = CONFIGURATION.partition("\nnav:\n")
    listed = re.findall(r"- (?:[\w ]+: )?(\S+\.md)$", menu, re.MULTILINE)
    assert sorted(listed) == sorted(pages - decisions)


def test_the_configuration_has_the_sentence_of_the_package() -> None:
    assert f"\nsite_description: {SUMMARY}\n" in CONFIGURATION


def test_the_site_shows_the_signature_of_each_public_name() -> None:
    lines = site_pages.signatures().splitlines()
    assert lines == [f"::: onnxgather.{name}" for name in og.__all__]


@pytest.mark.slow
def test_the_site_is_built_and_loads_nothing_from_elsewhere() -> None:
    pytest.importorskip(
        "zensical", reason="the extra docs brings zensical, which is not installed"
    )
    site_pages.write_pages()
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run(command, cwd=ROOT, check=True)

    start = (SITE / "index.html").read_text("utf-8")
    assert SUMMARY.lower() in re.sub(r"<[^>]+>", "", start).lower()
    signatures = (SITE / "docs" / "signatures.html").read_text("utf-8")
    for name in og.__all__:
        assert f'id="onnxgather.{name}"' in signatures, name
    constructor = re.sub(r"<[^>]+>", "", signatures)
    assert "TensorDesc(\n    data_type: TensorDataType,\n    sizes: " in constructor

    examples = (SITE / "docs" / "examples.html").read_text("utf-8")
    written = re.findall(r'<a href="(\w+\.html)">\1</a>', examples)
    assert written == ["audit.html", "show.html", "check.html", "matrix.html"]
    matrix = (SITE / "docs" / "matrix.html").read_text("utf-8")
    assert '"name":"onnx-reference"' in matrix

    pages = [*SITE.rglob("*.html")]
    assert len(pages) > 50
    for page in pages:
        text = page.read_text("utf-8")
        for resource in RESOURCE.findall(text):
            assert not re.match("(https?:)?//", resource), (page, resource)
        # The links of that page begin at the root of a server.
        if page.name == "404.html":
            continue
        for link in LINK.findall(text):
            if not re.match("https?:|data:", link):
                assert (page.parent / link).is_file(), (page, link)
    for style in SITE.rglob("*.css"):
        assert not re.search(r"url\(.?(https?:)?//", style.read_text("utf-8")), style
