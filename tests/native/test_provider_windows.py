"""onnxgather's own provider in ONNX Runtime for Windows, in the host of the lane
`cpu@windows`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import ml_dtypes
import pytest
from messages import message_of
from provider_models import GATHERS
from random_nodes import RandomNode, random_nodes, wanted

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution.elsewhere.hosts import WINDOWS_OPERATORS, windows_host
from onnxgather.core.execution.elsewhere.worker import Worker
from onnxgather.core.execution.runtime import NotRunError, RefusedError
from onnxgather.core.options import POLICIES, OutOfRange

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.name == "nt" or not os.path.isfile(windows_host()),
        reason="scripts/directml/setup.sh --lanes cpu@windows has not run",
    ),
]


def nodes(count: int) -> list[RandomNode]:
    """Return random nodes of the data types that the host takes."""
    drawn = random_nodes(count + count // 5, 7)
    taken = [node for node in drawn if node.data.dtype != ml_dtypes.bfloat16]
    assert len(taken) >= count
    return taken[:count]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker("", 120, [windows_host()])
    yield worker
    worker.close()


def session(out_of_range: str, library: str = WINDOWS_OPERATORS) -> dict[str, object]:
    """Return the fields of a session on the provider."""
    settings = {"out_of_range": out_of_range}
    return {"provider": GATHERS, "threads": 1, "library": library, "settings": settings}


def answer(worker: Worker, node: RandomNode, policy: OutOfRange) -> Array | str:
    """Return what the provider makes of a node: its output, or why it fails."""
    feeds = [{"data": node.data, "indices": node.indices}]
    ran = worker.run(node.model.SerializeToString(), session(policy), feeds)
    assert ran.assignment == ((node.name, node.operator),)
    (output,) = ran.outputs
    if isinstance(output, str):
        return output.rpartition("Status Message: ")[2]
    return output


@pytest.mark.parametrize("policy", POLICIES)
def test_random_nodes_are_the_reference_s(worker: Worker, policy: OutOfRange) -> None:
    differing: list[str] = []
    ends = Counter[str]()
    for node in nodes(3000):
        expected, given = wanted(node, policy), answer(worker, node, policy)
        ends[type(expected).__name__] += 1
        if isinstance(expected, str) or isinstance(given, str):
            is_same = isinstance(given, str) and given == expected
        else:
            is_same = (given.dtype, given.shape) == (expected.dtype, expected.shape)
            is_same = is_same and given.tobytes() == expected.tobytes()
        if not is_same:
            differing.append(f"{node.name}: {given}, not {expected}")
    assert differing == []
    assert ends["ndarray"] > 0
    assert (ends["str"] > 0) == (policy == "error")


def test_a_policy_that_there_is_not_is_refused(worker: Worker) -> None:
    (node,) = nodes(1)
    model = node.model.SerializeToString()
    message = message_of(RefusedError, lambda: worker.run(model, session("wrap")))
    rule = "out_of_range must be clamp, error, zero or directml, got 'wrap'"
    assert message.strip().endswith(rule)


def test_a_library_that_is_not_there_is_not_run() -> None:
    (node,) = nodes(1)
    model = node.model.SerializeToString()
    absent = session("clamp", "Z:\\lane\\absent.dll")
    host = Worker("", 120, [windows_host()])
    with closing(host) as other, pytest.raises(NotRunError) as caught:
        other.run(model, absent)
    assert caught.value.kind == "library"
