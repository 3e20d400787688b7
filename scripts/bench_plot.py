"""The figures of bench.py as a picture.

A row per workload, the ratio to the right on a log scale, a mark per candidate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from bench_loop import C_LOOP
from bench_results import Result, by_threads, heading

ROW, TOP, LEFT, WIDTH, GAP = 22, 64, 290, 560, 46
LOWEST, HIGHEST = 0.005, 5.0
MARKS = {
    "memcpy": ("|", "#999999"),
    C_LOOP: ("tall |", "#111111"),
    "numpy": ("square", "#d08700"),
    "torch": ("diamond", "#c2410c"),
    "portable": ("ring", "#1d4ed8"),
    "cpu": ("disc", "#1d4ed8"),
}
"""The shape and the colour of each candidate's mark; later ones lie on top."""


def plot(results: Sequence[Result]) -> str:
    """Return an SVG of all ratios."""
    groups = by_threads(results)
    height = TOP + sum(GAP + ROW * len(group) for _, group in groups) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 30}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="14" y="24" font-size="15" font-weight="600">'
        "Time as a share of the hand-written graph's (log scale, left is faster)</text>",
        *_legend([name for name in MARKS if any(name in r.timings for r in results)]),
    ]
    top = TOP
    for threads, group in groups:
        bottom = top + GAP + ROW * len(group) - 14
        parts.append(_text(14, top + 22, heading(threads), 'font-weight="600"'))
        parts += _grid(top + 26, bottom)
        for k, result in enumerate(group):
            y = top + GAP + ROW * k - 4
            parts.append(_text(14, y + 4, f"{result.workload}  {result.title}"))
            ratios = {name: result.ratio(name) for name in MARKS if name in result.timings}
            parts += [_mark(name, _x(ratio), y) for name, ratio in ratios.items()]
        top += GAP + ROW * len(group)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(names: Sequence[str]) -> list[str]:
    parts: list[str] = []
    for k, name in enumerate(names):
        x = LEFT + 10 + 100 * k
        parts += [_mark(name, x, 48), _text(x + 10, 52, name)]
    return parts


def _grid(top: int, bottom: int) -> list[str]:
    parts: list[str] = []
    for ratio in (0.01, 0.03, 0.1, 0.3, 1, 3):
        x = _x(ratio)
        colour = "#444444" if ratio == 1 else "#dddddd"
        parts.append(f'<path d="M{x:.1f} {top}V{bottom}" stroke="{colour}"/>')
        parts.append(_text(round(x), top - 4, f"{ratio:g}", 'fill="#666666" text-anchor="middle"'))
    return parts


def _x(ratio: float) -> float:
    ratio = min(max(ratio, LOWEST), HIGHEST)
    return LEFT + WIDTH * math.log(ratio / LOWEST) / math.log(HIGHEST / LOWEST)


def _text(x: int, y: int, text: str, style: str = 'fill="#222222"') -> str:
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'


def _mark(name: str, x: float, y: int) -> str:
    shape, colour = MARKS[name]
    paint = f'fill="{colour}" stroke="white" stroke-width="0.7"'
    if shape == "disc":
        return f'<circle cx="{x:.1f}" cy="{y}" r="5.5" {paint}/>'
    if shape == "ring":
        return (
            f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
    outline = {
        "square": "m-4.5 -4.5h9v9h-9z",
        "diamond": "m0 -6l6 6l-6 6l-6 -6z",
        "|": "m-1.5 -7h3v14h-3z",
        "tall |": "m-1.2 -9.5h2.4v19h-2.4z",
    }[shape]
    return f'<path d="M{x:.1f} {y}{outline}" {paint}/>'
