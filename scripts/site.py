"""Builds a site with live examples: `python scripts/site.py [FOLDER]`.

It needs the extra `docs`. The pages keep their places beside one another, so that their
links hold; the first page is the site's own and stands in the place of the README. The
examples are what `show`, `check` and `audit` write, made anew.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

START = ROOT / "scripts" / "site_pages" / "start.md"
"""The first page."""

FIRST = {
    "Start": "README.md",
    "Examples": "docs/examples.md",
    "Matrix of lanes": "docs/observatory-sample.html",
}
"""What is in the first level of the menu."""

NAV = {
    "Guides": ["models", "migrate-directml", "provider-ci", "cluster"],
    "Use": [
        "install",
        "cli",
        "api",
        "targets",
        "parts",
        "hardening",
        "guards",
        "capture",
        "glossary",
    ],
    "Proof": [
        "proof",
        "certificates",
        "policies",
        "observatory",
        "disagreements",
        "report",
    ],
    "Inside": [
        "lowering",
        "native",
        "directml",
        "web",
        "runtimes",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
    ],
    "Decisions": [
        "docs/decisions/README.md",
        "docs/decisions/proof.md",
        "docs/decisions/lowering.md",
        "docs/decisions/native.md",
        "docs/decisions/directml.md",
        "docs/decisions/web.md",
        "docs/decisions/models.md",
    ],
}
"""The pages of docs/ by name, others by path; those that are not listed stand under
More."""

LINKED = [
    "LICENSE",
    "onnxgather/core/execution/known_differences.json",
]
"""Files that are no pages and that pages link to."""

CSS = """
table, p:has(> img) { display: block; overflow-x: auto; }
p > img { min-width: 45rem; }
code span { white-space: nowrap; }
[data-bs-theme] { --blue: 27, 94, 140; --bs-primary-rgb: var(--blue); }
[data-bs-theme=light] { --bs-link-color-rgb: var(--blue); --bs-link-hover-color-rgb: var(--blue); }
[data-bs-theme=light] ::placeholder { color: rgb(89, 95, 105); }
[data-bs-theme=light] .bs-sidebar .nav-link { color: rgb(var(--blue)); }
.navbar.bg-primary { background-image: none; }
.navbar.navbar-dark .nav-link { color: #fff; }
.landing picture img { max-width: 100%; border-radius: 10px; border: 1px solid var(--bs-border-color); }
.doors { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem), 1fr)); gap: 1rem; margin: 1.5rem 0; }
.doors > div { border: 1px solid var(--bs-border-color); border-radius: 10px; padding: 1rem; }
.doors h2 { font-size: 1.2rem; margin-top: 0; }
.doors pre code { white-space: pre-wrap; }
.container:has(.landing) .col-md-3 { display: none; }
.container:has(.landing) .col-md-9 { width: 100%; }
.dropdown-menu { --bs-dropdown-link-active-bg: rgb(var(--blue)); }
"""  # noqa: E501
"""A wide table or picture scrolls by itself, not the page; an option stays on one line.
The theme's own blue is too pale for text, and behind it, and so is its grey for hints
in fields."""

DARK = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const page = document.documentElement;
const follow = () => { page.dataset.bsTheme = dark.matches ? "dark" : "light"; };
dark.addEventListener("change", follow);
follow();
"""
"""Follows the system's colors; the theme's own script fails without a highlighter from
the net."""

OBSERVED = "docs/observatory-sample.json"
"""A part of the last run of scripts/observatory.py."""

PROGRAM, MODEL = "models/gather_3_swap_columns.json", "models/networks/keywords.onnx"

EXAMPLES = {
    "show": ["show", PROGRAM, "models/image_remap.json"],
    "check": [
        "check",
        "--corpus",
        "-k",
        "forbidden/gather-nd",
        "--no-known",
        "--lanes",
        "cpu",
    ],
    "audit": ["audit", MODEL, "--inputs", MODEL.replace(".onnx", ".npz")],
    # The page is made anew, from what the lanes of another machine answered.
    "observatory-sample": ["report", "merge", OBSERVED],
}
"""The commands that write the live pages."""


def write_sources(folder: Path) -> None:
    """Write what the generator reads: the pages, the examples, its configuration."""
    pages = folder / "pages"
    shutil.copytree(ROOT / "docs", pages / "docs")
    for path in [*ROOT.glob("*.md"), *(ROOT / name for name in LINKED)]:
        copy = pages / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    # Links to the README lead to the first page.
    shutil.copyfile(START, pages / "README.md")
    lines = [
        "# Examples",
        "These pages were made with this site. Each loads nothing, and works alone. "
        "[The observatory](observatory.md) says when its sample ran.",
    ]
    for name, words in EXAMPLES.items():
        page = pages / "docs" / f"{name}.html"
        command = [sys.executable, "-m", "onnxgather", *words, "--html", str(page)]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 1):  # 1: the page has findings
            raise RuntimeError(done.stderr)
        lines.append(
            f"- [{name}]({name}.html): `onnxgather {' '.join(words)} --html"
            f" {name}.html`"
        )
    (pages / "docs" / "examples.md").write_text(
        "\n\n".join(lines) + "\n", encoding="utf-8"
    )
    (pages / "site.css").write_text(CSS, encoding="utf-8")
    (pages / "js").mkdir()
    (pages / "js" / "darkmode.js").write_text(DARK, encoding="utf-8")
    found = [path.relative_to(pages).as_posix() for path in pages.rglob("*.md")]
    told = {
        "site_name": "onnxgather",
        "docs_dir": str(pages),
        "theme": {"name": "mkdocs", "color_mode": "auto", "highlightjs": False},
        "extra_css": ["site.css"],
        "hooks": [__file__],
        "markdown_extensions": ["md_in_html"],
        "validation": {"anchors": "warn"},
        "use_directory_urls": False,
        "nav": [
            *({title: path} for title, path in FIRST.items()),
            *({title: paths} for title, paths in menu(found).items()),
        ],
    }
    # JSON is YAML
    (folder / "mkdocs.yml").write_text(json.dumps(told), encoding="utf-8")


def menu(pages: Iterable[str]) -> dict[str, list[str]]:
    """Return the menu, with every page once but those of the first level."""
    told = {
        title: [name if name.endswith(".md") else f"docs/{name}.md" for name in names]
        for title, names in NAV.items()
    }
    return told | {
        "More": sorted({*pages} - {*FIRST.values()} - {*chain(*told.values())})
    }


def on_config(config: Any) -> None:
    """Let the ids of headings begin with a letter: the theme selects by them."""
    config["mdx_configs"]["toc"] = {"slugify": slug}


def slug(heading: str, dash: str) -> str:
    """Return the id of a heading."""
    words = re.sub(r"[\s-]+", dash, re.sub(r"[^\w\s-]", "", heading).strip().lower())
    return words if words[:1].isalpha() else f"s{dash}{words}"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Name pages in links without the end of their files."""
    return re.sub(r"\[(?:docs/)?([\w-]+)\.md\]\(", r"[\1](", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Put each option in code into a span, which keeps it on one line."""
    return re.sub(
        r"(?<!<pre>)<code>[^<]*</code>",
        lambda code: re.sub(r"(?<![\w-])--?\w[\w-]*", r"<span>\g<0></span>", code[0]),
        html,
    )


def build(site: Path) -> None:
    """Build the site; a link that leads nowhere is an error."""
    with tempfile.TemporaryDirectory() as folder:
        write_sources(Path(folder))
        command = [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--quiet",
            "--strict",
            "--site-dir",
            site,
        ]
        subprocess.run(
            [*command, "--config-file", Path(folder) / "mkdocs.yml"], check=True
        )


def main() -> None:
    """Build the site in the folder that the command line names."""
    description = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path("site"),
        help="folder for the site (default: %(default)s)",
    )
    build(parser.parse_args().folder.resolve())


if __name__ == "__main__":
    main()
