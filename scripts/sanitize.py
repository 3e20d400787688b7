"""Runs the native kernels under C sanitizers, and sees planted mistakes.

Hostile numbers in plain C first, in buffers of exactly their size; then hostile nodes
of ONNX, each element against the formula; then threads, of a gather and of the
provider's report; then the operator of ONNX Runtime and the Python module, under a
sample of their tests. Each mistake of the lists below must be seen by its harness.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from build_hook import KERNELS, ROOT, load_build_hook

NATIVE = ROOT / KERNELS
SHARED: tuple[str, ...] = load_build_hook().SHARED
"""The sources of both libraries."""

HARNESSES = {
    "fuzz": SHARED,
    "fuzz_nodes": (*SHARED, "onnx_node.c"),
    "fuzz_report": ("report.c",),
}
"""The programs of tests/native, and the sources that each one runs."""

INSTALL = "-m pip install -q --no-deps --no-build-isolation --target"
TESTS = (
    "-m pytest -q --slow tests/native/test_operator.py"
    " tests/native/test_python_entry.py tests/core/execution/test_prepared.py"
    " -p no:cacheprovider -k"
)

CC = os.environ.get("CC", "cc")
MEMORY = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
THREADS = ("-fsanitize=thread",)

SMALL_PARTS = (
    "thresholds.h",
    "LEAST_PART_BYTES = 1 << 16",
    "LEAST_PART_BYTES = 1 << 4",
)
"""The change by which small gathers are run in parts, too."""
SMALL_EIGHTS = ("loops.c", "return bytes > NEAREST_BYTES &&", "return bytes > 7 &&")
"""The change by which elements of small data are loaded eight at a time, too."""
STREAMED = ("loops.c", "used > STREAMED_BYTES", "1")
"""The change by which small outputs pass the caches by, too."""

MISTAKES = [
    ("check.c", *change)
    for change in (
        ("sizes[k] > GATHER_LARGEST / *result", "0"),
        ("sizes[k] < 1 || sizes[k] >", "sizes[k] >"),
        (
            "if (strides[k] && sizes[k] - 1 > (count - 1) / strides[k]) return 0;",
            "",
        ),
        ("return *offset < count;", "return *offset <= count;"),
        ("g->loop_count > GATHER_MOST_LOOPS", "0"),
        ("g->tuple_size > GATHER_MOST_LOOPS", "0"),
        ("if (g->indices_rank > GATHER_MOST_LOOPS)", "if (0)"),
        ("indices > elements * g->tuple_size", "0"),
        ("g->indices_sizes[g->indices_rank - 1] != g->tuple_size)", "0)"),
        ("if (!reaches(g->axis_sizes,", "if (0 && !reaches(g->axis_sizes,"),
        (
            "if (!reaches(g->sizes, g->data_strides,",
            "if (0 && !reaches(g->sizes, g->data_strides,",
        ),
        ("if (!reaches(tuple,", "if (0 && !reaches(tuple,"),
        (
            "if (!reaches(g->sizes, g->index_strides,",
            "if (0 && !reaches(g->sizes, g->index_strides,",
        ),
        (
            "if (!reaches(g->indices_sizes,",
            "if (0 && !reaches(g->indices_sizes,",
        ),
        (
            "if (!reaches(g->sizes, g->output_strides,",
            "if (0 && !reaches(g->sizes, g->output_strides,",
        ),
        ("elements > g->output_count ||", ""),
        ("(elements == g->output_count && !fills(g))", "0"),
    )
]
"""Mistakes: the source, what stands there once, and what stands there instead."""

NODE_MISTAKES = [
    ("onnx_node.c", *change)
    for change in (
        ("if (!size) return 0;", ""),
        ("count > 1 && size >= GATHER_LARGEST", "0"),
        ("if (count <= GATHER_LARGEST) continue;", "continue;"),
        ("node->attribute < -rank || ", ""),
        ("k != axis && indices.sizes[k] > data.sizes[k]", "0"),
        ("length < 1 || length > longest", "length < 1"),
        ("length > GATHER_MOST_LOOPS", "0"),
        ("indices.sizes[k] != data.sizes[k]", "0"),
        ("node->ones_repeat || node->op == ONNX_GATHER_ELEMENTS", "node->ones_repeat"),
        ("if (k == GATHER_MOST_LOOPS) return;", ""),
        ("if (g->loop_count > GATHER_MOST_LOOPS)", "if (0)"),
        ("if (g->output_count > GATHER_LARGEST)", "if (0)"),
        ("g->tuple_stride = 1;", "g->tuple_stride = 0;"),
        ("g->element_size + 3) / 4;", "g->element_size) / 4;"),
        ("index >= -size && index < size", "index > -size && index < size"),
        ("if (index < outside->least)", "if (0)"),
        ("node->data.rank > ONNX_MOST_RANK ||", ""),
    )
]
"""Mistakes that the harness of nodes sees."""

THREAD_MISTAKES = [("loops.c", "if (!nests(&run)) return 1;", "")]
"""Mistakes by which two threads write one element."""

REPORT_MISTAKES = [
    ("report.c", *change)
    for change in (
        (
            "atomic_fetch_sub(&row->runs, row->written_runs);",
            "atomic_store(&row->runs, 0);",
        ),
        ("if (reset && rows.used <= room)", "if (reset)"),
        (
            "atomic_fetch_add_explicit(&row->runs, 1, memory_order_relaxed);",
            "row->runs = row->runs + 1;",
        ),
        ("if (!bytes) {", "if (0) {"),
        ("all->count += outside->count;", ""),
    )
]
"""Mistakes by which the report loses a count, or is no JSON."""


def build(
    folder: Path,
    harness: str,
    flags: Sequence[str],
    changes: Sequence[tuple[str, str, str]] = (),
) -> Path:
    """Compile a harness with changed sources, in a folder of its own.

    A source that the folder has already is not compiled again: a folder has one list of
    flags and one text of each header.
    """
    folder.mkdir(exist_ok=True)
    tests = ROOT / "tests" / "native"
    compiled = [*(NATIVE / name for name in HARNESSES[harness])]
    compiled.append(tests / f"{harness}.c")
    options = ["-std=c11", "-O1", "-g", "-D_POSIX_C_SOURCE=200809L", "-pthread", *flags]
    headers = [*NATIVE.glob("*.h"), tests / "random_numbers.h"]
    for path in (*headers, *compiled):
        text, copy = path.read_text(encoding="utf-8"), folder / path.name
        for name, old, new in changes:
            if name == path.name:
                if text.count(old) != 1:
                    sys.exit(f"{name} must have {old!r} once")
                text = text.replace(old, new)
        if copy.exists() and copy.read_text(encoding="utf-8") == text:
            continue
        copy.write_text(text, encoding="utf-8")
        if path in compiled:
            command = [CC, *options, "-c", "-o", copy.with_suffix(".o"), copy]
            subprocess.run(command, check=True)
    program = folder / harness
    subprocess.run([CC, *options, "-o", program, *folder.glob("*.o")], check=True)
    return program


def fails(program: Path, *arguments: str) -> bool:
    """Return whether a harness fails, or takes ten times as long."""
    limited = ["sh", "-c", f"ulimit -t 30; exec {program} {' '.join(arguments)}"]
    return subprocess.run(limited, capture_output=True).returncode != 0


def seen(folder: Path, mistake: tuple[str, str, str]) -> bool:
    """Return whether the harness of numbers sees a mistake."""
    return fails(build(folder, "fuzz", MEMORY, [mistake]), "1000000", "5")


def seen_by_nodes(folder: Path, mistake: tuple[str, str, str]) -> bool:
    """Return whether the harness of nodes sees a mistake."""
    return fails(build(folder, "fuzz_nodes", MEMORY, [mistake]), "200000", "5")


def seen_by_report(folder: Path, mistake: tuple[str, str, str]) -> bool:
    """Return whether the harness of the report sees a mistake."""
    return fails(build(folder, "fuzz_report", THREADS, [mistake]), "200000", "4")


def seen_by_threads(folder: Path, mistake: tuple[str, str, str]) -> bool:
    """Return whether ThreadSanitizer finds the race that a mistake makes."""
    program = build(folder, "fuzz", THREADS, [SMALL_PARTS, SMALL_EIGHTS, mistake])
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1"}
    run = subprocess.run(
        [program, "3000", "7", "4"], env=environment, capture_output=True, text=True
    )
    return "data race" in run.stderr


PLANTED = (
    (seen, MISTAKES),
    (seen_by_nodes, NODE_MISTAKES),
    (seen_by_threads, THREAD_MISTAKES),
    (seen_by_report, REPORT_MISTAKES),
)
"""Who must see which mistakes."""


def entries(folder: Path) -> None:
    """Run a sample of the tests of both libraries, built with the sanitizers."""
    flags = " ".join([*MEMORY, "-g", "-O1"])
    made = {**os.environ, "ONNXGATHER_NATIVE": "1", "CFLAGS": flags, "CC": CC}
    install = [sys.executable, *INSTALL.split(), str(folder), str(ROOT)]
    subprocess.run(install, env=made, check=True)
    libraries = [
        subprocess.check_output([CC, f"-print-file-name={name}.so"], text=True).strip()
        for name in ("libasan", "libubsan")
    ]
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python keeps memory until its end
        "PYTHONPATH": str(folder),
        "PYTHONSAFEPATH": "1",  # else this folder would come first
        "PYTHONMALLOC": "malloc",  # so that arrays lie apart
    }
    # Numpy runs without kernels. A child of a fork waits for ever for the sanitizer's
    # allocator where another thread allocates meanwhile.
    chosen = "not numpy and not forks_while"
    tests = [sys.executable, *TESTS.split(), chosen]
    subprocess.run(tests, cwd=ROOT, env=environment, check=True)


def main() -> int:
    """Run all; the exit code is 1 if a mistake is not seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--count", type=int, default=1_000_000, help="hostile descriptions")
    add("--threaded", type=int, default=15_000, help="gathers on four threads")
    add("--mistakes", action="store_true", help="plant the mistakes, too")
    options = parser.parse_args()
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:5.0f} s  {text}", flush=True)

    unseen = 0
    with TemporaryDirectory() as name:
        folder = Path(name)
        for kind, changes in (
            ("", ()),
            (", in parts", (SMALL_PARTS, SMALL_EIGHTS, STREAMED)),
        ):
            numbers = build(folder / f"hostile{kind}", "fuzz", MEMORY, changes)
            say(f"hostile numbers{kind}")
            subprocess.run([numbers, str(options.count), "7"], check=True)
            nodes = build(folder / f"nodes{kind}", "fuzz_nodes", MEMORY, changes)
            say(f"hostile nodes{kind}")
            subprocess.run([nodes, str(options.count), "7"], check=True)
        planted = [(see, mistake) for see, mistakes in PLANTED for mistake in mistakes]
        for see, mistake in planted if options.mistakes else ():
            is_seen = see(folder / see.__name__, mistake)
            unseen += not is_seen
            verdict = "seen" if is_seen else "NOT SEEN"
            say(f"{verdict}: {mistake}")
        if options.mistakes:
            say(f"{len(planted) - unseen} of {len(planted)} mistakes seen")
        threads = build(
            folder / "threads", "fuzz", THREADS, [SMALL_PARTS, SMALL_EIGHTS]
        )
        say("threads")
        subprocess.run([threads, str(options.threaded), "7", "4"], check=True)
        report = build(folder / "report", "fuzz_report", THREADS)
        say("the report")
        subprocess.run([report, str(options.threaded), "4"], check=True)
        say("the operator and the Python module")
        entries(folder / "entries")
    say("done")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
