"""The lane on a provider of ONNX Runtime, in this Python environment or in another."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from onnxgather import runtime
from onnxgather.arrays import Array
from onnxgather.cases import Case, DescriptorCase, NodeCase, smallest_case
from onnxgather.errors import OnnxGatherError
from onnxgather.lanes.lane import TIMEOUT, Answer, AnswerKind, LaneInfo
from onnxgather.model import bare_model, operators, to_onnx, wrapped
from onnxgather.options import Target
from onnxgather.providers import Provider, target_of
from onnxgather.session import threads_for
from onnxgather.workers.child import Breakdown, NoAnswerError
from onnxgather.workers.worker import About, Answered, Worker

HOST_RUNS = 300
"""After how many models a host starts anew, as DirectML keeps memory of each."""


@dataclass
class ModelLane:
    """A provider of ONNX Runtime, run by a worker."""

    name: str
    """As the user named it, such as `cpu` or `openvino@old`."""
    provider: Provider
    python: str = sys.executable
    """The interpreter of the environment that has the provider."""
    library: str | None = None
    """The plugin library that brings the provider, if one does."""
    target: Target | None = None
    """The target of the models; None is the one that suits the provider."""
    timeout: float = TIMEOUT
    """Seconds that one case may take."""
    host: Sequence[str] = ()
    """The command of the host that runs the provider, if no interpreter does."""

    def __post_init__(self) -> None:
        """Make the worker, which starts with its first request."""
        self._target: Target = target_of(self.provider.name, self.target)
        self._worker = Worker(self.python, self.timeout, self.host)
        self._ran = 0

    def start(self) -> LaneInfo:
        """Start the worker and run a gather that every provider takes."""
        about, why = About({}), None
        try:
            about = self._worker.about()
            probe = self.answer(_PROBE)
            if probe.kind is AnswerKind.REFUSED:
                why = f"{self.provider.name} cannot start: {probe.reason}"
            elif probe.how not in (None, "elsewhere", "folded"):
                why = probe.reason
            else:  # now the devices of a plugin library are there too
                about = self._worker.about()
        except NoAnswerError as error:
            why = str(error)
        full = self.provider.name
        devices, python = about.devices.get(full, ()), None if self.host else self.python
        return LaneInfo(self.name, full, about.versions, devices, python, why, self._target)

    def answer(self, case: Case) -> Answer:
        """Have the worker run a case."""
        try:
            model, inputs, threads, sent = question_of(case, self._target)
        except OnnxGatherError as error:
            return Answer(AnswerKind.BROKEN, str(error), how=Breakdown.NO_MODEL)
        feeds = [inputs]
        if isinstance(case, DescriptorCase) and case.must_refuse:
            feeds.insert(0, {**inputs, "IndicesTensor": np.zeros_like(case.indices)})
        return self.run(model, feeds, threads, sent)

    def run(
        self,
        model: bytes,
        feeds: Sequence[Mapping[str, Array]],
        threads: int = 0,
        sent: Counter[str] | None = None,
    ) -> Answer:
        """Have the worker run a serialized model on each of several sets of inputs.

        Args:
            model: The model, which has one output.
            feeds: The sets of inputs; the answer's output is that of the last.
            threads: How many threads ONNX Runtime may use; 0 means one per core.
            sent: How often each operator stands in the model; None where any may have run.
        """
        blobs = bytearray(model)
        packed = [{name: runtime.packed(feed[name], blobs) for name in feed} for feed in feeds]
        session = {"provider": self.provider.name, "threads": threads, "library": self.library}
        request = {"model": len(model), "session": session, "feeds": packed}
        self._ran += 1
        if self.host and self._ran % HOST_RUNS == 0:
            self._worker.restart()
        try:
            return self._worker.ask(partial(self._read, sent, len(feeds)), request, blobs)
        except NoAnswerError as error:
            return Answer.none(error)

    def _read(self, sent: Counter[str] | None, runs: int, header: bytes, blobs: bytes) -> Answer:
        answered = msgspec.json.decode(header, type=Answered)
        if answered.not_run is not None:
            kind, detail, node = answered.not_run
            reason = self.provider.why_not_run(kind, detail)
            return Answer(AnswerKind.NOT_RUN, reason, how=kind, detail=detail, elsewhere=node)
        if answered.refused is not None:
            return Answer(AnswerKind.REFUSED, answered.refused)
        if not answered.nodes:
            raise ValueError("outputs of no node")
        if sent is not None:
            _check_nodes(Counter(answered.nodes), sent)
        if len(answered.outputs) != runs:
            raise ValueError(f"{len(answered.outputs)} outputs of {runs} runs")
        *proof, (output, error) = [
            (None, one) if isinstance(one, str) else (runtime.unpacked(one, blobs), None)
            for one in answered.outputs
        ]
        kind = AnswerKind.RAN if error is None else AnswerKind.FAILED
        return Answer(kind, error, answered.nodes, output, proof[0][0] if proof else None)

    def close(self) -> None:
        """End the worker."""
        self._worker.close()


class Question(NamedTuple):
    """What ONNX Runtime is given for a case."""

    model: bytes
    """The serialized model."""
    inputs: dict[str, Array]
    """The arrays by the names of the model's inputs."""
    threads: int
    """How many threads ONNX Runtime may use."""
    operators: Counter[str]
    """How often each operator stands in the model."""


def question_of(case: Case, target: Target) -> Question:
    """The question of a case: its model, made for `target`, and the inputs.

    Raises:
        OnnxGatherError: The model cannot be made.
    """
    inputs = {"InputTensor": case.data, "IndicesTensor": case.indices}
    if isinstance(case, NodeCase):
        node, threads = case.node, 1
        arrays = case.data, case.indices
        model = bare_model(node.operator, node.attributes, *arrays, node.output_shape)
    else:
        desc, threads = case.descriptor, threads_for(case.descriptor)
        target = "portable" if case.wrapped else target
        model = to_onnx(desc, case.out_of_range, target, threads=threads)
    if case.wrapped:
        model = wrapped(model)
        inputs["One"] = np.ones((), case.data.dtype)
    return Question(model.SerializeToString(), inputs, threads, operators(model))


def _check_nodes(ran: Counter[str], sent: Counter[str]) -> None:
    """Check that nodes are those of a model.

    ONNX Runtime may drop nodes and change their names, but it drops no gather and, before it
    assigns the nodes to providers, adds no operator.
    """
    if more := [*(ran - sent)]:
        raise ValueError(f"more nodes than the model has: {', '.join(more)}")
    if fewer := [name for name in sent - ran if name.startswith("Gather")]:
        raise ValueError(f"fewer gathers than the model has: {', '.join(fewer)}")


_PROBE = smallest_case("Gather", "FLOAT32").wrapped_in()
