"""Makes the picture of a terminal in the README from what the command prints.

It needs the extra `docs`: `python scripts/terminal_picture.py`. The colours are those
that a terminal gets. The picture ends after the first lines of the output.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]

PICTURE = ROOT / "docs" / "audit.svg"

COMMAND = (
    "onnxgather",
    "audit",
    "models/networks/keywords.onnx",
    "--inputs",
    "models/networks/keywords.npz",
)

LINES = 5
"""How many lines of the output the picture has."""

WIDTH = 112
"""The width of the terminal in characters."""

FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

FORMAT = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: FONT; font-size: {char_height}px; \
line-height: {line_height}px; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" \
clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
""".replace("FONT", FONT)
"""A picture that loads no font: that of rich loads its font from a host."""


def printed() -> str:
    """Return what the command prints on a terminal with colours."""
    environment = {**os.environ, "FORCE_COLOR": "1"}
    environment.pop("NO_COLOR", None)
    arguments = [sys.executable, "-m", *COMMAND]
    run = subprocess.run(
        arguments, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    # The exit code 1 says that an index is out of range.
    if run.returncode != 1:
        raise SystemExit(f"{' '.join(COMMAND)} ended with {run.returncode}")
    return run.stdout


def picture() -> str:
    """Return the picture as SVG."""
    lines = printed().splitlines()[:LINES]
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    console.print(Text(f"$ {' '.join(COMMAND)}", style="bold"))
    for line in lines:
        console.print(Text.from_ansi(line))
    console.print(Text("..."))
    return console.export_svg(title="", code_format=FORMAT, unique_id="audit")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"written: {PICTURE}")
