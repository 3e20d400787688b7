"""Builds a site with live examples: `python scripts/site.py [FOLDER]`.

It needs the extras `docs` and `cpu`. The pages keep their places beside one another, so
that their links hold. The first page is the README. The examples and the matrix are
what `audit`, `show` and `check` write while the site is built. Open index.html of the
folder.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]

FIRST = {
    "Start": "README.md",
    "Examples": "docs/examples.md",
    "Matrix of lanes": "docs/matrix.html",
}
"""What is in the first level of the menu."""

NAV = {
    "Guides": [
        "docs/README.md",
        "install",
        "migrate-directml",
        "directml-provider",
        "parity-tests",
        "capture",
        "models",
        "hardening",
        "guards",
        "webnn",
        "provider-ci",
        "runtimes",
        "web",
        "parts",
        "cluster",
    ],
    "Reference": [
        "cli",
        "api",
        "targets",
        "report",
        "stability",
        "glossary",
        "CHANGELOG.md",
    ],
    "Proof": [
        "proof",
        "certificates",
        "policies",
        "observatory",
        "disagreements",
        "wpt",
        "BENCHMARKS.md",
    ],
    "Inside": [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "lowering",
        "native",
        "directml",
        "docs/upstream/README.md",
        "docs/upstream/gather-to-slice.md",
        "docs/upstream/reshape-fusion.md",
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
"""The pages of docs/ by name, others by path. Pages that are not listed stand under
More."""

LINKED = [
    "LICENSE",
    "onnxgather/core/execution/known_differences.json",
]
"""Files that are no pages and that pages link to."""

STYLE = "site.css"
"""The file of the site's own styles."""

CSS = """
body::before { display: none; }
table { display: block; overflow-x: auto; }
code { box-decoration-break: clone; -webkit-box-decoration-break: clone; }
code span { white-space: nowrap; }
pre code { font-size: .85rem; }
pre code.language-sh { white-space: pre-wrap; }
h1, h2, h3, h4, h5, h6 { font-weight: 600; overflow-wrap: anywhere; }
h1 { font-size: 2.25rem; text-wrap: balance; }
h2 { font-size: 1.6rem; margin-top: 2rem; }
h3 { font-size: 1.25rem; margin-top: 1.5rem; }
h1 code, h2 code, h3 code, h4 code { border: 0; padding: 0; }
footer { font-weight: 400; }
[data-bs-theme] { --blue: 27, 94, 140; --bs-primary-rgb: var(--blue); }
[data-bs-theme=light] { --bs-body-color: #212529; --bs-link-color-rgb: var(--blue); --bs-link-hover-color-rgb: var(--blue); }
[data-bs-theme=light] ::placeholder { color: rgb(89, 95, 105); }
[data-bs-theme=light] .bs-sidebar .nav-link { color: rgb(var(--blue)); }
.bs-sidebar .navbar-toggler::before { content: "On this page "; font-size: 1rem; }
.bs-sidebar .navbar-header { margin-bottom: .5rem; }
.bs-sidebar #toc-collapse { margin-bottom: 1rem; }
.container > .row > .col-md-3:not(:has([data-bs-level="2"])) { display: none; }
.navbar.bg-primary { background-image: none; }
.navbar.navbar-dark .nav-link { color: #fff; }
.navbar li:has(> [rel=prev]), .navbar li:has(> [rel=next]) { display: none; }
.dropdown-menu { --bs-dropdown-link-active-bg: rgb(var(--blue)); }
.dropdown-item { white-space: normal; }
@media (min-width: 992px) { .dropdown-item { max-width: 24rem; min-width: 100%; width: max-content; } }
"""  # noqa: E501
"""A wide table scrolls by itself, and the page does not. A command is
broken into lines, and an option stays on its line. The theme's own blue is too pale for
text, and behind text, and so are its greys. Its headings are too thin, and its code is
too small."""

DARK = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const page = document.documentElement;
const follow = () => { page.dataset.bsTheme = dark.matches ? "dark" : "light"; };
dark.addEventListener("change", follow);
follow();
"""
"""Follows the system's colors; the theme's own script fails without a highlighter from
the net."""

PROGRAM, MODEL = "models/gather_3_swap_columns.json", "models/networks/keywords.onnx"

NAVIGATION = """\
<nav style="max-width: 78rem; margin: auto; padding: 1rem clamp(1rem, 3vw, 1.5rem) 0">
<a href="../index.html">onnxgather</a> / <a href="examples.html">Examples</a>
</nav>
"""
"""Leads from an example, which has no menu, back to the site. The widths are those of
the page."""


class Example(NamedTuple):
    """A page that a command writes."""

    title: str
    sentence: str
    words: list[str]
    """The arguments of onnxgather, but `--html`."""


EXAMPLES = {
    "audit": Example(
        "An audit",
        "A network reads outside its table of words. The page shows the index, the "
        "element that DirectML reads instead, and a guard for the inputs.",
        ["audit", MODEL, "--inputs", MODEL.replace(".onnx", ".npz")],
    ),
    "show": Example(
        "Two gathers as pictures",
        "Point at an element of a tensor to see from which element it comes.",
        ["show", PROGRAM, "models/image_remap.json"],
    ),
    "check": Example(
        "A check",
        "ONNX forbids these nodes. The page says what ONNX Runtime's CPU provider "
        "does with each.",
        ["check", "--corpus", "-k", "gather-nd/batch", "--no-known", "--lanes", "cpu"],
    ),
    "matrix": Example(
        "Matrix of lanes",
        "A part of the corpus on ONNX Runtime's CPU provider and on ONNX's own "
        "evaluator. [The observatory](observatory.md) makes this page for all lanes "
        "of a machine.",
        ["check", "--corpus", "--shard", "1/20", "--lanes", "cpu,onnx-reference"],
    ),
}
"""The pages that are made with the site, by the names of their files."""


def write_example(name: str, folder: Path) -> None:
    """Run the command of an example, which writes a page into the folder."""
    page = folder / f"{name}.html"
    words = [*EXAMPLES[name].words, "--html", str(page)]
    command = [sys.executable, "-m", "onnxgather", *words]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    # The exit code 1 says that the page has findings.
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    text = page.read_text("utf-8")
    text = text.replace("<body>\n", f"<body>\n{NAVIGATION}", 1)
    page.write_text(text, encoding="utf-8")


def examples_page() -> str:
    """Return the page that lists the examples with their commands."""
    blocks = [
        "# Examples",
        "Each page below was made with this site by the command under its title. A "
        "page is a single file that loads nothing.",
    ]
    for name, example in EXAMPLES.items():
        command = " ".join(["onnxgather", *example.words, "--html", f"{name}.html"])
        blocks.append(f"## [{example.title}]({name}.html)")
        blocks.append(example.sentence)
        blocks.append(f"```sh\n{command}\n```")
    return "\n\n".join(blocks) + "\n"


def write_sources(folder: Path) -> None:
    """Write what the generator reads: the pages, the examples, its configuration."""
    pages = folder / "pages"
    shutil.copytree(ROOT / "docs", pages / "docs")
    for path in [*ROOT.glob("*.md"), *(ROOT / name for name in LINKED)]:
        copy = pages / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(write_example, name, pages / "docs") for name in EXAMPLES]
    for run in runs:
        run.result()
    (pages / "docs" / "examples.md").write_text(examples_page(), encoding="utf-8")
    (pages / STYLE).write_text(CSS, encoding="utf-8")
    (pages / "js").mkdir()
    (pages / "js" / "darkmode.js").write_text(DARK, encoding="utf-8")
    paths = [path.relative_to(pages).as_posix() for path in pages.rglob("*.md")]
    configuration = {
        "site_name": "onnxgather",
        "docs_dir": str(pages),
        "theme": {"name": "mkdocs", "color_mode": "auto", "highlightjs": False},
        "extra_css": [STYLE],
        "hooks": [__file__],
        "markdown_extensions": ["md_in_html"],
        "validation": {"anchors": "warn"},
        "use_directory_urls": False,
        "nav": [
            *({title: path} for title, path in FIRST.items()),
            *({title: paths} for title, paths in menu(paths).items()),
        ],
    }
    # JSON is YAML
    (folder / "mkdocs.yml").write_text(json.dumps(configuration), encoding="utf-8")


def menu(pages: Iterable[str]) -> dict[str, list[str]]:
    """Return the menu, with every page once but those of the first level."""
    listed = {
        title: [name if name.endswith(".md") else f"docs/{name}.md" for name in names]
        for title, names in NAV.items()
    }
    more = {*pages} - {*FIRST.values()} - {*chain(*listed.values())}
    if more:
        listed["More"] = sorted(more)
    return listed


def on_config(config: Any) -> None:
    """Let the ids of headings begin with a letter: the theme selects by them."""
    config["mdx_configs"]["toc"] = {"slugify": slug}


def slug(heading: str, dash: str) -> str:
    """Return the id of a heading."""
    words = re.sub(r"[\s-]+", dash, re.sub(r"[^\w\s-]", "", heading).strip().lower())
    return words if words[:1].isalpha() else f"s{dash}{words}"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Name pages in links without the end of their files, and link to no folder."""
    named = re.sub(r"\[(?:docs/)?([\w-]+)\.md\]\(", r"[\1](", markdown)
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)*([\w/]+)\)", without_folder, named)


def without_folder(link: re.Match[str]) -> str:
    """Return a link, or its text if it leads to a folder, which has no page."""
    text, path = link.groups()
    return text if (ROOT / path).is_dir() else link[0]


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


def is_free(folder: Path) -> bool:
    """Return whether a folder is empty or contains a site."""
    if not folder.is_dir():
        return False
    return (folder / STYLE).is_file() or not any(folder.iterdir())


def main() -> None:
    """Build the site in the folder that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path("site"),
        help="folder for the site (default: %(default)s); the site replaces its files",
    )
    folder = parser.parse_args().folder.resolve()
    if importlib.util.find_spec("mkdocs") is None:
        parser.error("mkdocs is not installed; pip install -e '.[docs,cpu]'")
    # The generator deletes what the folder contains.
    if folder.exists() and not is_free(folder):
        parser.error(f"{folder} must be new, empty or a site that this script wrote")
    build(folder)
    print(f"written: {folder / 'index.html'}")


if __name__ == "__main__":
    main()
