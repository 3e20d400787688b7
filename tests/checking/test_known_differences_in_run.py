"""What check knows to be wrong on a provider, `run` never returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest
from corpus_cases import descriptor_cases

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus.sampling import random_cases
from onnxgather.core.errors import IndexOutOfRangeError, ProviderError
from onnxgather.core.execution.elsewhere.hosts import find_runtime
from onnxgather.core.execution.elsewhere.worker import OpenedThere, Worker
from onnxgather.core.execution.providers import PROVIDERS, Provider
from onnxgather.core.execution.runtime import Setup

CASES = [*descriptor_cases(), *random_cases(300, 5)]
PARTS = 7

SENTENCES = (
    "must run every node, but",
    "has no UINT32, so that IndicesTensor[",
    "the graph is not acyclic",
)
"""What errors of providers say: a node went to another provider; an index needs UINT32;
OpenVINO's provider made a graph with a cycle."""


@pytest.fixture(params=["openvino", "webgpu"])
def provider(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A provider that has known differences, in another program if it is not here."""
    name: str = request.param
    found = PROVIDERS[name]
    python: str | None = request.config.getoption("--openvino")
    if name == "openvino" and python is None:
        pytest.skip("needs --openvino PYTHON, an environment with onnxruntime-openvino")
    if name == "webgpu" and not find_runtime(found):
        pytest.skip(f"needs {found.source}")
    if name == "webgpu":
        yield name
        return
    with closing(Worker(str(python), 60)) as worker:

        def opened(model: bytes, _: Provider, setup: Setup) -> OpenedThere:
            return OpenedThere(worker, model, setup)

        monkeypatch.setattr("onnxgather.core.execution.session.open_model", opened)
        yield name


def outcome(case: DescriptorCase, provider: str) -> str:
    """Return what `run` does with a case: `right`, `refused` or the error's sentence.

    Any other outcome fails.
    """
    policy = case.out_of_range
    try:
        with og.Session(case.descriptor, provider, out_of_range=policy) as session:
            output = session.run(case.data, case.indices)
    except IndexOutOfRangeError:
        return "refused" if case.must_refuse else pytest.fail(case.name)
    except ProviderError as error:
        for sentence in SENTENCES:
            if sentence in str(error):
                return sentence
        raise
    expected = case.expected()
    assert isinstance(expected, np.ndarray), case.name
    assert output.dtype == expected.dtype, case.name
    assert output.tobytes() == expected.tobytes(), case.name
    return "right"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_run_returns_the_right_bytes_or_says_why_not(provider: str, part: int) -> None:
    cases = CASES[part::PARTS]
    outcomes = Counter(outcome(case, provider) for case in cases)
    assert outcomes["right"] > len(cases) / 2
    assert outcomes["refused"] > 0
