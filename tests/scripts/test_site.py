"""The static site: its menu, and with the generator the whole of it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest
from folders import ROOT

from onnxgather.core.version import SUMMARY


@pytest.fixture
def site() -> Iterator[ModuleType]:
    """The script, which has the name of a module of Python's own."""
    spec = importlib.util.spec_from_file_location(
        "site_script", ROOT / "scripts" / "site.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("site_script", None)


def test_the_menu_has_every_page_once(site: ModuleType) -> None:
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    pages = {path.relative_to(ROOT).as_posix() for path in paths}
    pages.add("docs/examples.md")
    first = [path for path in site.FIRST.values() if path.endswith(".md")]
    listed = chain(first, *site.menu(pages).values())
    assert sorted(listed) == sorted(pages)


def test_the_menu_has_no_page_under_more(site: ModuleType) -> None:
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    pages = [path.relative_to(ROOT).as_posix() for path in paths]
    assert list(site.menu(pages)) == list(site.NAV)
    assert site.menu([*pages, "docs/new.md"])["More"] == ["docs/new.md"]


def test_help_builds_nothing_and_names_the_folder(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "site.py"), "--help"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "folder for the site (default: site)" in done.stdout
    assert "It needs the extras `docs` and `cpu`." in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_other_files_keeps_them(tmp_path: Path) -> None:
    pytest.importorskip(
        "mkdocs", reason="the extra docs brings mkdocs, which is not installed"
    )
    notes = tmp_path / "notes.txt"
    notes.write_text("mine", encoding="utf-8")
    command = [sys.executable, str(ROOT / "scripts" / "site.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    message = f"{tmp_path} must be new, empty or a site that this script wrote"
    assert done.stderr.endswith(f"site.py: error: {message}\n")
    assert notes.read_text("utf-8") == "mine"


@pytest.mark.parametrize("of", [r"--blue: ", r"light\] ::placeholder { color: rgb\("])
def test_links_the_bar_and_hints_are_dark_enough_beside_white(
    site: ModuleType, of: str
) -> None:
    (colour,) = re.findall(rf"{of}([0-9, ]+)", site.CSS)
    shares = [int(level) / 255 for level in colour.split(",")]
    linear = [
        s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    assert 1.05 / (luminance + 0.05) >= 4.5  # WCAG 2, level AA


@pytest.mark.slow
def test_the_site_is_built_and_loads_nothing(site: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip(
        "mkdocs", reason="the extra docs brings mkdocs, which is not installed"
    )
    site.build(tmp_path)
    for name, example in site.EXAMPLES.items():
        text = (tmp_path / "docs" / f"{name}.html").read_text("utf-8")
        assert f"onnxgather {example.words[0]}" in text
        assert site.NAVIGATION in text
    matrix = (tmp_path / "docs" / "matrix.html").read_text("utf-8")
    assert "Groups of cases by lanes" in matrix
    for lane in ("cpu", "onnx-reference"):
        assert f'"name":"{lane}"' in matrix
    for page in tmp_path.rglob("*.html"):
        text = page.read_text("utf-8")
        assert not re.search(
            r"<(script|link|img)[^>]+(src|href)=\"(https?:)?//", text
        ), page
        # The theme's script takes ids of headings as selectors, which begin with no
        # digit.
        assert page.name == "404.html" or not re.search(r"<h\d id=\"\d", text), page
        assert not re.search(r">[\w/-]+\.md</a>", text), page
        # The links of that page begin at the root of a server.
        if page.name == "404.html":
            continue
        for link in re.findall(
            r'<(?:a|img|source)[^>]+(?:href|src|srcset)="([^"]+)', text
        ):
            path = link.partition("#")[0]
            is_outside = path.startswith(("http:", "https:"))
            assert is_outside or not path or (page.parent / path).is_file(), (
                page,
                link,
            )
    start = (tmp_path / "index.html").read_text("utf-8")
    assert SUMMARY.lower() in re.sub(r"<[^>]+>", "", start).lower()
    for name in ("docs/examples.html", "docs/matrix.html"):
        assert f'<a href="{name}" class="nav-link">' in start
    guide = (tmp_path / "docs" / "provider-ci.html").read_text("utf-8")
    assert "<code>report merge</code>" in guide
    assert "<code><span>--random</span> N <span>--seed</span> S</code>" in guide
    assert "hljs" not in (tmp_path / "js" / "darkmode.js").read_text("utf-8")
