"""The figures of bench.py as a table, as a page and as a picture."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from bench_workloads import KINDS, RIVALS_OWN, Workload

from onnxgather.core.lowering.cpu.forms import FORMS
from onnxgather.core.options import Target

HAND_WRITTEN = "hand-written"
"""The candidate that the others are compared with."""

TARGETS: tuple[Target, ...] = ("portable", "cpu", "native")
"""The targets of `to_onnx` that are for the CPU provider."""

DIRECT = "direct"
"""The candidate that runs the kernels without ONNX Runtime: og.Gather."""

OURS: str = TARGETS[-1]
"""The target that the summary speaks of: the one made for speed."""

LIBRARIES = ("numpy", "torch", "numba", "pyarrow", "polars", "jax")
"""The rivals: libraries that gather, each only where it is installed and has such a
gather."""

C_LOOP = "C loop"
"""The candidate that says what is left to be gained."""

SOURCE = Path(__file__).with_name("bench_loop.c")
COMPILER = "cc"
FLAGS = ("-O2", "-shared", "-fPIC")

FAR = 2.0
"""More than this many times another's time is far from it."""

LEVEL = 1.05
"""Up to this many times another's time is level with it."""

WORTH = 1.25
"""A form stays if the next one that fits takes so many times as long, with 1 thread or
with 2."""

Row = Sequence[str]


@dataclass(frozen=True, slots=True)
class Result:
    """The times of one workload with one number of threads."""

    workload: Workload
    threads: int
    clock: str
    samples: dict[str, list[float]]
    """By candidate, the seconds of one call in each round."""

    def microseconds(self, name: str) -> float:
        """Return the median of CPU time; of wall time the least, as noise adds to it.

        Raises:
            KeyError: The candidate was not run.
        """
        pick = statistics.median if self.clock == "cpu" else min
        return pick(self.samples[name]) * 1e6

    @property
    def best_rival(self) -> str:
        """The library that takes the least time."""
        return min(
            (name for name in LIBRARIES if name in self.samples), key=self.microseconds
        )

    def ratio(self, name: str, other: str = HAND_WRITTEN) -> float:
        """Return a candidate's time as a share of another's."""
        return self.microseconds(name) / self.microseconds(other)

    def as_dict(self) -> dict[str, Any]:
        """Everything, to be written as JSON."""
        found: dict[str, Any]
        workload, first = self.workload, next(iter(self.samples))
        found = {
            "workload": workload.name,
            "title": workload.title,
            "kind": workload.kind,
        }
        found |= {"threads": self.threads, "clock": self.clock, "candidates": {}}
        for name, seconds in self.samples.items():
            median, least = statistics.median(seconds) * 1e6, min(seconds) * 1e6
            times = {"median_us": round(median, 3), "minimum_us": round(least, 3)}
            found["candidates"][name] = times | {
                "ratio": round(self.ratio(name, first), 4)
            }
        return found


@dataclass(frozen=True, slots=True)
class FormResult(Result):
    """The times of the form that a workload takes, and of the next one that fits."""

    index_type: str

    @property
    def form(self) -> str:
        """The form that the workload takes."""
        return next(iter(self.samples))

    @property
    def next(self) -> str:
        """The next form that fits, or portable."""
        return list(self.samples)[1]

    @property
    def gain(self) -> float:
        """Return how many times as long the next form takes.

        Of CPU time it is the median over the rounds.
        """
        if self.clock == "wall":
            return self.ratio(self.next, self.form)
        pairs = zip(self.samples[self.next], self.samples[self.form], strict=True)
        return statistics.median(other / own for other, own in pairs)

    def as_dict(self) -> dict[str, Any]:
        """Everything, to be written as JSON."""
        return {
            "index_type": self.index_type,
            "gain": round(self.gain, 3),
        } | Result.as_dict(self)


def table(results: Sequence[Result]) -> list[str]:
    """Sections: the hand-written graph's time, the others' ratios, a summary."""
    lines: list[str] = []
    apart = {workload.name for workload in RIVALS_OWN}
    for threads, listed in _by_threads(results):
        group = [result for result in listed if result.workload.name not in apart]
        theirs = [result for result in listed if result.workload.name in apart]
        lines += ["", f"## {_heading(threads)}"]
        if group:
            lines += ["", *_grid(_rows(group))]
            lines += ["", *(f"- {line}" for line in _summary(group))]
            lines += _others_section(group, threads)
        if theirs:
            lines += _rivals_section(theirs, threads)
    return lines


def markdown(
    results: Sequence[Result],
    forms: Sequence[FormResult],
    facts: dict[str, str],
    picture: str | None,
) -> str:
    """BENCHMARKS.md."""
    lines = [
        "# Benchmarks",
        "",
        (
            "Gathers that users run, on ONNX Runtime's CPU provider: onnxgather's"
            " models against the"
        ),
        (
            "graph that a competent user writes by hand (Cast to INT64, Max, Min, the"
            " gather,"
        ),
        (
            "Reshape), against the libraries of the extra `bench`, against copying the"
            " output (memcpy)"
        ),
        (
            "as the limit, and with one thread against a plain C loop"
            f" (`scripts/{SOURCE.name}`, {FLAGS[0]})."
        ),
        (
            "Columns are times as a share of the hand-written graph's, less is better;"
            f" `{OURS}` is our operator in ONNX Runtime, `{DIRECT}` the same kernels by"
            " og.Gather."
        ),
        "",
        (
            "Indices are UINT32 and clamped. All candidates gave the same bytes, from"
            " the same arrays;"
        ),
        (
            "pyarrow, polars and jax return new arrays, the others write into the same"
            " memory. A"
        ),
        "library that has no such gather has an empty place.",
        (
            "They take turns, in reversed order every other round, "
            f"{facts['rounds']} rounds; the process may run on as many"
        ),
        (
            "cores as it has threads. With one thread the median of the process' CPU"
            " time counts, with"
        ),
        (
            "more the minimum of wall clock. `python scripts/bench.py --write-markdown"
            " BENCHMARKS.md`"
        ),
        "makes this page.",
        "",
        *_grid([["", ""], *([key, value] for key, value in facts.items())], titles=2),
    ]
    lines += [*table(results), *forms_section(forms)]
    if picture:
        text = "Time of each candidate as a share of the hand-written graph's"
        lines += ["", f"![{text}]({picture})"]
    return "\n".join(lines) + "\n"


def forms_section(results: Sequence[FormResult]) -> list[str]:
    """Return the section on the forms of the CPU lowering."""
    return [
        "",
        "## The forms and what each is worth",
        "",
        (
            "How many times as long the next form that fits takes, or the portable"
            " lowering, for each"
        ),
        (
            "workload that takes a form (`onnxgather show --target cpu` says which one"
            " does, and why"
        ),
        (
            f"not those above it). A form stays if its geometric mean reaches {WORTH}"
            " with 1 thread or"
        ),
        (
            "with 2. Workloads from 13 on are there for a form that none of the others"
            " takes."
        ),
        "`python scripts/bench.py --forms` measures this table.",
        "",
        *_grid(_form_rows(results), titles=4),
    ]


def _form_rows(results: Sequence[FormResult]) -> list[Row]:
    """Return the rows of the workloads that take a form, and one for their mean.

    There is a row for each workload and type of indices.
    """
    counts = [threads for threads, _ in _by_threads(results)]
    rows: list[Row] = [["form", "workload", "indices", "next", *map(_heading, counts)]]
    for name in [form.name for form in FORMS]:
        own = [result for result in results if result.form == name]
        if not own:
            rows.append([name, "none", "", "", *("" for _ in counts)])
            continue
        means = [
            _mean(r.gain for r in own if r.threads == threads) for threads in counts
        ]
        verdict = "stays" if max(means) >= WORTH else "goes"
        rows.append([name, "geometric mean", "", verdict, *map(_times, means)])
        for key in dict.fromkeys((r.workload.name, r.index_type, r.next) for r in own):
            alike = [r for r in own if (r.workload.name, r.index_type, r.next) == key]
            gains = {r.threads: r.gain for r in alike}
            rows.append(
                ["", *key, *(_times(gains.get(threads, 0.0)) for threads in counts)]
            )
    return rows


def _times(gain: float) -> str:
    return f"{gain:.2f}" if gain else ""


def _mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean; 0 of nothing."""
    return statistics.geometric_mean(found) if (found := list(ratios)) else 0.0


def _others_section(group: Sequence[Result], threads: int) -> list[str]:
    """Return the section on what the rivals and a C loop do faster, and why."""
    others = [name for name in ("numpy", "torch", C_LOOP) if name in group[0].samples]
    rows = [
        ["", "workload", *(f"{OURS} / {other}" for other in others), *_BEST, "kind"]
    ]
    for result in group:
        factors = [_rounded(result.ratio(OURS, other)) for other in others]
        best = _best(result)
        rows.append(
            [
                result.workload.name,
                result.workload.title,
                *factors,
                *best,
                result.workload.kind,
            ]
        )
    lines = ["", f"### How far from the rivals with {_heading(threads)}", ""]
    if threads == 1:
        lines += [
            (
                "The C loop clamps each index and copies its row, in one pass; the call"
                " from Python"
            ),
            (
                "counts. What is left of a tiny call is the start of ONNX Runtime's"
                f" run; `{DIRECT}`"
            ),
            "has none. Where the time of `cpu` goes:",
            "",
            *(f"- {kind}: {reason}" for kind, reason in KINDS.items()),
            "",
        ]
    return [*lines, *_grid(rows, words=2)]


def _rivals_section(group: Sequence[Result], threads: int) -> list[str]:
    """Return the section on the workloads that are the rivals' own."""
    rows = [
        [*row, *_best(result)]
        for row, result in zip(_rows(group)[1:], group, strict=True)
    ]
    return [
        "",
        f"### The rivals' own workloads with {_heading(threads)}",
        "",
        "These are in no mean.",
        "",
        *_grid([[*_rows(group)[0], *_BEST], *rows], words=1),
    ]


_BEST = f"{DIRECT} / best rival", "best rival"


def _best(result: Result) -> Row:
    """Return how far og.Gather is from the fastest library, and which that is."""
    best = result.best_rival
    return (
        _rounded(result.ratio(DIRECT, best)) if DIRECT in result.samples else ""
    ), best


def _grid(rows: Sequence[Row], titles: int = 2, words: int = 0) -> list[str]:
    """Return a table of Markdown: titles, numbers, then so many columns of words."""
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    sides = ["<"] * titles + [">"] * (len(widths) - titles - words) + ["<"] * words
    rule = [
        "-" * (n - 1) + {"<": "-", ">": ":"}[side]
        for n, side in zip(widths, sides, strict=True)
    ]
    lines: list[str] = []
    for row in (rows[0], rule, *rows[1:]):
        cells = zip(row, sides, widths, strict=True)
        lines.append(
            f"| {' | '.join(f'{cell:{side}{width}}' for cell, side, width in cells)} |"
        )
    return lines


def _rows(group: Sequence[Result]) -> list[Row]:
    names = dict.fromkeys(name for result in group for name in result.samples)
    others = [name for name in names if name != HAND_WRITTEN]
    rows: list[Row] = [["", "workload", HAND_WRITTEN, *others]]
    for result in group:
        ratios = [
            _rounded(result.ratio(o)) if o in result.samples else "" for o in others
        ]
        time = _duration(result.microseconds(HAND_WRITTEN))
        rows.append([result.workload.name, result.workload.title, time, *ratios])
    return rows


def _rounded(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}"


def _duration(microseconds: float) -> str:
    if microseconds < 1000:
        return f"{microseconds:.1f} µs"
    return f"{microseconds / 1000:.2f} ms"


def _summary(group: Sequence[Result]) -> list[str]:
    return [
        line
        for name in (OURS, DIRECT)
        if name in group[0].samples
        for line in _of(name, group)
    ]


def _of(name: str, group: Sequence[Result]) -> list[str]:
    """Return what a candidate takes as a share of the others."""
    lines: list[str] = []
    for other in (HAND_WRITTEN, "cpu", *LIBRARIES, C_LOOP, "best rival"):
        ratios = {
            result.workload.name: result.ratio(
                name, result.best_rival if other == "best rival" else other
            )
            for result in group
            if other == "best rival" or other in result.samples
        }
        if not ratios:
            continue
        worst = max(ratios, key=lambda workload: ratios[workload])
        level = sum(ratio <= LEVEL for ratio in ratios.values())
        lines.append(
            f"{name} / {other}: geometric mean {_mean(ratios.values()):.3f}, at most"
            f" {LEVEL:g} in {level} of {len(ratios)}, worst {ratios[worst]:.2f}"
            f" (workload {worst})"
        )
    return lines


def _by_threads(results: Sequence[Result]) -> list[tuple[int, list[Result]]]:
    counts = dict.fromkeys(result.threads for result in results)
    return [(n, [result for result in results if result.threads == n]) for n in counts]


def _heading(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"


# The picture: a row per workload, the ratio to the right on a log scale, a mark per
# candidate.

ROW, TOP, LEFT, WIDTH, GAP = 22, 64, 290, 560, 46
LOWEST, HIGHEST = 0.005, 5.0

MARKS = {
    "memcpy": ("m-1.5 -7h3v14h-3z", "#999999"),
    C_LOOP: ("m-1.2 -9.5h2.4v19h-2.4z", "#111111"),
    "numpy": ("m-4.5 -4.5h9v9h-9z", "#d08700"),
    "torch": ("m0 -6l6 6l-6 6l-6 -6z", "#c2410c"),
    "numba": ("m0 -6l6 10h-12z", "#7c3aed"),
    "pyarrow": ("m0 6l-6 -10h12z", "#be185d"),
    "polars": ("m-6 -1.5h12v3h-12z", "#0e7490"),
    "jax": ("m-4.5 -4.5h9v9h-9zm2 2v5h5v-5z", "#4d7c0f"),
    "portable": ("m0 -6a6 6 0 1 0 .1 0zm0 2.4a3.6 3.6 0 1 1 -.1 0z", "#1d4ed8"),
    "cpu": ("m0 -6a6 6 0 1 0 .1 0z", "#1d4ed8"),
    "native": ("m0 -6a6 6 0 1 0 .1 0z", "#15803d"),
    DIRECT: ("m0 -6a6 6 0 1 0 .1 0zm0 2.4a3.6 3.6 0 1 1 -.1 0z", "#15803d"),
}
"""The outline and the colour of each candidate's mark; later ones lie on top."""


def plot(results: Sequence[Result]) -> str:
    """Return an SVG of all ratios."""
    groups = _by_threads(results)
    height = TOP + sum(GAP + ROW * len(group) for _, group in groups) + 10
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 30}"'
            f' height="{height}" font-family="system-ui, sans-serif" font-size="12">'
        ),
        '<rect width="100%" height="100%" fill="white"/>',
        (
            '<text x="14" y="24" font-size="15" font-weight="600">Time as a share of'
            " the hand-written graph's (log scale, left is faster)</text>"
        ),
    ]
    for k, name in enumerate(MARKS):
        x = LEFT + 10 + 72 * k
        parts += [_mark(name, x, 48), _text(x + 10, 52, name)]
    top = TOP
    for threads, group in groups:
        parts.append(_text(14, top + 22, _heading(threads), 'font-weight="600"'))
        bottom = top + GAP + ROW * len(group) - 14
        for ratio in (0.01, 0.03, 0.1, 0.3, 1, 3):
            x, colour = _x(ratio), "#444444" if ratio == 1 else "#dddddd"
            parts.append(f'<path d="M{x:.1f} {top + 26}V{bottom}" stroke="{colour}"/>')
            style = 'fill="#666666" text-anchor="middle"'
            parts.append(_text(round(x), top + 22, f"{ratio:g}", style))
        for k, result in enumerate(group):
            y = top + GAP + ROW * k - 4
            parts.append(
                _text(14, y + 4, f"{result.workload.name}  {result.workload.title}")
            )
            names = [name for name in MARKS if name in result.samples]
            parts += [_mark(name, _x(result.ratio(name)), y) for name in names]
        top += GAP + ROW * len(group)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(ratio: float) -> float:
    ratio = min(max(ratio, LOWEST), HIGHEST)
    return LEFT + WIDTH * math.log(ratio / LOWEST) / math.log(HIGHEST / LOWEST)


def _text(x: int, y: int, text: str, style: str = 'fill="#222222"') -> str:
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'


def _mark(name: str, x: float, y: int) -> str:
    outline, colour = MARKS[name]
    paint = f'fill="{colour}" fill-rule="evenodd" stroke="white" stroke-width="0.7"'
    return f'<path d="M{x:.1f} {y}{outline}" {paint}/>'
