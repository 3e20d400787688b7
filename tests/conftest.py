"""Options and Hypothesis settings of the test suite."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "onnxgather",
    deadline=None,  # the first run of a session takes long
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("onnxgather")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--examples` and `--openvino`."""
    parser.addoption(
        "--examples",
        type=int,
        default=5000,
        help="random descriptors for which the model must equal the reference (default: 5000)",
    )
    parser.addoption(
        "--openvino",
        metavar="PYTHON",
        help="an environment with onnxruntime-openvino and numpy, to try a second provider in",
    )
