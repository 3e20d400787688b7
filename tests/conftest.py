"""Options and Hypothesis settings of the test suite."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

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
    """Add `--slow`, `--long` and `--openvino`."""
    parser.addoption(
        "--slow",
        action="store_true",
        help="run the slow tests, too, and try 4 times as many random examples",
    )
    parser.addoption(
        "--long",
        action="store_true",
        help=(
            "run the slow tests, and try 4 times as many random examples of each law:"
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
    long, slow = config.getoption("--long"), config.getoption("--slow")
    settings.register_profile(
        "onnxgather",
        deadline=None,  # the first run of a session takes long
        max_examples=400 if long else 100 if slow else 25,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    settings.load_profile("onnxgather")


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave the slow tests out, and say so of each."""
    if config.getoption("--slow") or config.getoption("--long"):
        return
    left_out = pytest.mark.skip(reason="slow; --slow or --long runs it")
    rows = Counter[str]()
    for item in items:
        if few := item.get_closest_marker("one_quick_in"):
            function = item.nodeid.partition("[")[0]
            if rows[function] % few.args[0]:
                item.add_marker("slow")
            rows[function] += 1
        if item.get_closest_marker("slow"):
            item.add_marker(left_out)
