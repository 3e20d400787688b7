"""Workers asked without a lane: what they keep, what they prove, and frames that are
cut."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import message_of
from stub_runtime import environment

from onnxgather.core.execution.elsewhere.child import NoAnswerError
from onnxgather.core.execution.elsewhere.worker import NodeElsewhere, Worker
from onnxgather.core.execution.runtime import NotRunError, RefusedError

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="the stand-in interpreter is a shell script"
)
SESSION: dict[str, Any] = {"provider": "StubExecutionProvider"}
FEED = {
    "InputTensor": np.array([1, 2, 3], np.float32),
    "IndicesTensor": np.array([2, 0]),
}
NAMED = """
class InferenceSession(InferenceSession):
    made = 0
    def open(self): InferenceSession.made += 1
    def get_provider_graph_assignment_info(self):
        node = Any_(name=f"session {self.made}", op_type="Gather")
        return [Any_(ep_name=PLACE, get_nodes=lambda: [node])]
"""


@pytest.mark.parametrize("keep", [False, True])
def test_a_worker_keeps_the_last_model_open_where_it_is_asked_to(
    tmp_path: Path, keep: bool
) -> None:
    worker = Worker(environment(tmp_path, NAMED), 30)
    models = (b"a", b"a", b"b", b"b", b"a")
    ran = [worker.run(model, SESSION, [FEED], keep=keep) for model in models]
    worker.close()
    numbers = (1, 1, 2, 2, 3) if keep else (1, 2, 3, 4, 5)
    assert [one.assignment for one in ran] == [
        ((f"session {n}", "Gather"),) for n in numbers
    ]
    assert all(
        isinstance(x, np.ndarray) and x.tolist() == [3, 1]
        for y in ran
        for x in y.outputs
    )


def test_a_node_elsewhere_and_a_refusal_are_raised(tmp_path: Path) -> None:
    change = (
        "class InferenceSession(InferenceSession):\n    def open(self): 1 /"
        " len(self.model)"
    )
    worker = Worker(
        environment(tmp_path, f"PLACE = 'CPUExecutionProvider'\n{change}"), 30
    )
    with pytest.raises(NotRunError) as elsewhere:
        worker.run(b"a", SESSION)
    assert elsewhere.value.kind == "elsewhere"
    assert elsewhere.value.node == NodeElsewhere(
        "Gather", "Gather", "CPUExecutionProvider"
    )
    assert message_of(RefusedError, worker.run, b"", SESSION) == "division by zero"
    worker.close()


def test_a_model_without_its_gather_is_no_answer(tmp_path: Path) -> None:
    worker = Worker(environment(tmp_path, "NODES = ['Mul', 'Mul']"), 30)
    with pytest.raises(NoAnswerError) as caught:
        worker.run(b"a", SESSION, [FEED], Counter({"Gather": 1, "Mul": 2}))
    worker.close()
    assert (
        str(caught.value)
        == "the worker answered what no worker answers: fewer gathers than the model"
        " has: Gather"
    )


@pytest.mark.slow
def test_an_announced_frame_must_come_whole(tmp_path: Path) -> None:
    announced = "bytes([147]) + b'gather\\n' + (2**33).to_bytes(8, 'little')"
    worker = Worker(
        environment(tmp_path, banner=f"import os; os.write(1, {announced})"), 1
    )
    with pytest.raises(NoAnswerError) as caught:
        worker.about()
    worker.close()
    assert str(caught.value) in (
        "the worker announced more bytes than there can be",
        "the worker did not answer within 1 s and printed nothing",
        # reading on looks like a reader's end
        "the worker died of SIGIO and printed nothing",
    )
