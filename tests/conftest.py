"""Options and Hypothesis settings of the test suite."""

from __future__ import annotations

import os
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings

# A host that a test starts ends with the test.
os.environ.setdefault("ONNXGATHER_WARM_SECONDS", "0")
# Importing numpy starts OpenBLAS's threads, which doubles the cost of each process a
# test starts.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Each process that a test starts would compile the package anew; so bytecode is kept
# apart from it.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    bytecode = Path(__file__).parents[1] / ".pytest_cache" / "bytecode"
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(bytecode))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--slow`, `--one-slow-in`, `--turn`, `--long` and `--openvino`."""
    parser.addoption(
        "--slow",
        action="store_true",
        help="run the slow tests, too, and try 4 times as many random examples",
    )
    parser.addoption(
        "--one-slow-in",
        type=int,
        metavar="COUNT",
        help=(
            "as --slow, but slow tests of one function take turns: each turn runs"
            " every COUNT-th of them, and COUNT turns run all"
        ),
    )
    parser.addoption(
        "--turn",
        type=int,
        # The workers of -n inherit the day on which the run began.
        default=os.environ.setdefault("PYTEST_TURN", str(date.today().toordinal())),
        help="the turn that --one-slow-in runs (default: the number of today)",
    )
    parser.addoption(
        "--long",
        action="store_true",
        help=(
            "run the slow tests, and try 8 times as many random examples of each law:"
            " 2000 of those of the lowerings, 400 of the others; 2000 mutated inputs of"
            " each kind; 40,000 intervals of networks"
        ),
    )
    parser.addoption(
        "--openvino",
        metavar="PYTHON",
        help=(
            "an environment with onnxruntime-openvino and numpy, to try a second"
            " provider in"
        ),
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the number of examples, before any test module reads it."""
    long = config.getoption("--long")
    # A slow test may need the larger sample.
    slow = config.getoption("--slow") or config.getoption("--one-slow-in")
    settings.register_profile(
        "onnxgather",
        deadline=None,  # the first run of a session takes long
        max_examples=400 if long else 50 if slow else 12,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    settings.load_profile("onnxgather")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Print the turn, so that a run can be repeated on another day."""
    count = config.getoption("--one-slow-in")
    if not count:
        return []
    turn = config.getoption("--turn") % count
    return [f"slow tests in turns: --one-slow-in {count} --turn {turn}"]


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave the slow tests out, and say so of each."""
    if config.getoption("--slow") or config.getoption("--long"):
        return
    left_out = pytest.mark.skip(reason="slow; --slow or --long runs it")
    later = pytest.mark.skip(reason="slow; runs in another turn of --one-slow-in")
    count = config.getoption("--one-slow-in")
    tests_of = Counter(_function(item) for item in items)
    rows = Counter[str]()
    position = cast("int", config.getoption("--turn"))
    for item in items:
        function = _function(item)
        if few := item.get_closest_marker("one_quick_in"):
            if rows[function] % few.args[0]:
                item.add_marker("slow")
            rows[function] += 1
        if not item.get_closest_marker("slow"):
            continue
        if not count:
            item.add_marker(left_out)
            continue
        # No other test does what a function with one test does.
        if tests_of[function] > 1:
            if position % count:
                item.add_marker(later)
            position += 1


def _function(item: pytest.Item) -> str:
    """Return what the tests of one function have in common."""
    return item.nodeid.partition("[")[0]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the controller how long the processors worked for this worker."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["seconds"] = _seconds_of_processors()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep what a worker of `-n` told."""
    _SECONDS_OF_WORKERS.append(getattr(node, "workeroutput", {}).get("seconds", 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how long the processors worked, which other programs do not change."""
    seconds = sum(_SECONDS_OF_WORKERS) or _seconds_of_processors()
    terminalreporter.write_line(
        f"{seconds:.0f} s of processors for the tests and what they started"
        " (quick tests: about 250 at most)"
    )


_SECONDS_OF_WORKERS: list[float] = []


def _seconds_of_processors() -> float:
    """Return the seconds of this process and of the programs that it waited for."""
    user, system, of_user, of_system, _ = os.times()
    return user + system + of_user + of_system
