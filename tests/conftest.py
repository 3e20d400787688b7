"""Options and Hypothesis settings of the test suite."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

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
    """Add `--slow` and `--openvino`."""
    parser.addoption(
        "--slow",
        action="store_true",
        help="run the slow tests, too, and try 4 times as many random examples",
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
    settings.register_profile(
        "onnxgather",
        deadline=None,  # the first run of a session takes long
        max_examples=50 if config.getoption("--slow") else 12,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    settings.load_profile("onnxgather")


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave the slow tests out. A skip of each would take a tenth of the time."""
    if config.getoption("--slow"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    quick = [item for item in items if not item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    config.stash[_LEFT_OUT] = len(slow)
    items[:] = quick


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the controller how long the processors worked for this worker, and how many
    tests it left out."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["seconds"] = _seconds_of_processors()
        output["left out"] = session.config.stash.get(_LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep what a worker of `-n` told. Each worker leaves the same tests out."""
    told = getattr(node, "workeroutput", {})
    _SECONDS_OF_WORKERS.append(told.get("seconds", 0))
    node.config.stash[_LEFT_OUT] = told.get("left out", 0)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print how many tests were left out, and how long the processors worked, which
    other programs do not change."""
    left_out = config.stash.get(_LEFT_OUT, 0)
    if left_out:
        terminalreporter.write_line(
            f"slow tests that were left out: {left_out:,}; --slow runs them"
        )
    seconds = sum(_SECONDS_OF_WORKERS) or _seconds_of_processors()
    terminalreporter.write_line(
        f"{seconds:.0f} s of processors for the tests and what they started"
        " (quick tests: about 200 at most)"
    )


_LEFT_OUT = pytest.StashKey[int]()

_SECONDS_OF_WORKERS: list[float] = []


def _seconds_of_processors() -> float:
    """Return the seconds of this process and of the programs that it waited for."""
    user, system, of_user, of_system, _ = os.times()
    return user + system + of_user + of_system
