"""The pool of threads by itself, compiled here: callers, forks, and mistakes planted
in C."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from shutil import which

import pytest
from sanitize import NATIVE, SHARED

Change = tuple[str, str]
"""What stands once in threads.c, and what stands there instead."""

CALLERS = Path(__file__).parent / "callers.c"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        which("cc") is None or not hasattr(os, "fork"),
        reason="there is no C compiler, or no fork",
    ),
]


def compiled(folder: Path, *flags: str, change: Change | None = None) -> Path:
    """Compile the callers with the pool, with some text of the pool replaced."""
    folder.mkdir(exist_ok=True)
    text = (NATIVE / "threads.c").read_text()
    if change is not None:
        assert text.count(change[0]) == 1, f"threads.c must hold once: {change[0]}"
        text = text.replace(*change)
    (folder / "threads.c").write_text(text)
    made = folder / "callers"
    sources = [str(CALLERS), *(str(NATIVE / name) for name in SHARED)]
    options = [
        "-std=c11",
        "-D_DEFAULT_SOURCE",
        "-pthread",
        f"-I{folder}",
        f"-I{NATIVE}",
    ]
    subprocess.run(["cc", *options, *flags, *sources, "-o", str(made)], check=True)
    return made


def ending(made: Path, callers: int, calls: int, forks: int, seconds: int = 60) -> int:
    """Return how the callers end; a signal ends those that wait for ever."""
    words = [str(number) for number in (callers, calls, forks, seconds)]
    return subprocess.run([made, *words], capture_output=True).returncode


def test_callers_share_the_threads_and_children_have_their_own(tmp_path: Path) -> None:
    strict = ["-O1", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    made = compiled(tmp_path, *strict)
    assert ending(made, 4, 1000, 50) == 0


def test_no_thread_races_with_another(tmp_path: Path) -> None:
    """ThreadSanitizer ends a child of a fork that starts threads, so nothing forks."""
    assert ending(compiled(tmp_path, "-O1", "-fsanitize=thread"), 4, 200, 0) == 0


def test_no_thread_reads_or_writes_outside(tmp_path: Path) -> None:
    """No thread allocates during a fork, as the sanitizer's allocator has a lock."""
    made = compiled(tmp_path, "-O1", "-fsanitize=address,undefined")
    assert ending(made, 4, 200, 0) == 0
    assert ending(made, 0, 1, 20) == 0


MISTAKES: list[Change] = [
    ("pool = (struct pool){.lock =", "struct pool fresh = {.lock ="),
    ("pool.forks++;", ""),
    ("memcpy(ending, workers, sizeof ending);\n    pool.workers = 0;", ""),
    ("pool.workers = 0;\n    pool.forks++;", "pool.forks++;"),
    ("WAKE_ALL(&pool.work);\n    UNLOCK", "UNLOCK"),
    ("if (call && !call->running) WAKE_ALL(&pool.end);", ""),
    ("call->running--;", ""),
    ("call->fine &= end != GATHER_STOPPED;", ""),
    ("call->next == call->count ||", ""),
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_planted_in_the_pool_are_seen(tmp_path: Path, mistake: Change) -> None:
    made = compiled(tmp_path, "-O1", "-w", change=mistake)
    # On a busy machine a run may meet no bad moment.
    assert any(ending(made, 4, 100, 10, seconds=5) for _ in range(20))


RACES: list[Change] = [
    ("while (call.running) WAIT(&pool.end, &pool.lock);", ""),
    (
        "call->running++;\n    UNLOCK(&pool.lock);",
        "UNLOCK(&pool.lock);\n    call->running++;",
    ),
]
"""Mistakes that seldom have an effect."""


@pytest.mark.parametrize("mistake", RACES)
def test_races_planted_in_the_pool_are_seen(tmp_path: Path, mistake: Change) -> None:
    made = compiled(tmp_path, "-O1", "-w", "-fsanitize=thread", change=mistake)
    assert any(ending(made, 4, 50, 0, seconds=30) for _ in range(5))
