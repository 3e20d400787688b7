"""Collects the pages of the site in build/pages, where mkdocs.yml reads them.

`python scripts/site_pages.py && zensical build --strict` builds the site, with the
extras `docs` and `cpu`. The pages keep their places beside one another, so that their
links hold. The script runs the commands of docs/examples.md, which write the examples
beside that page.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import onnxgather

ROOT = Path(__file__).resolve().parents[1]

PAGES = ROOT / "build" / "pages"

LINK = re.compile(r"\]\((?!http)([^)#]+)")
"""A link to another file."""

EXAMPLE = re.compile(r"```sh\nonnxgather (.+ --html (\w+\.html))\n```\n")
"""The command of an example, and the file that it writes."""


def write_pages() -> None:
    """Write all pages anew, with the files that they link to."""
    shutil.rmtree(PAGES, ignore_errors=True)
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        linked = LINK.findall(page.read_text("utf-8"))
        for path in [page, *(page.parent / name for name in linked)]:
            copy = PAGES / path.resolve().relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    shutil.copyfile(ROOT / "docs" / "site.css", PAGES / "docs" / "site.css")
    _replace("signatures.md", "::: onnxgather", signatures())
    examples = PAGES / "docs" / "examples.md"
    for words, name in EXAMPLE.findall(examples.read_text("utf-8")):
        write_example(words, name)
        command = f"onnxgather {words}\n```\n"
        _replace("examples.md", command, f"{command}\n[{name}]({name})\n")


def signatures() -> str:
    """Return what mkdocstrings reads: a line for each public name."""
    return "\n".join(f"::: onnxgather.{name}" for name in onnxgather.__all__)


def write_example(words: str, name: str) -> None:
    """Run the command of an example, which writes a page."""
    command = [sys.executable, "-m", "onnxgather", *shlex.split(words)]
    command[-1] = str(PAGES / "docs" / name)
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    # The exit code 1 says that the page has findings.
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)


def _replace(page: str, before: str, after: str) -> None:
    path = PAGES / "docs" / page
    text = path.read_text("utf-8")
    path.write_text(text.replace(before, after), "utf-8")


if __name__ == "__main__":
    write_pages()
