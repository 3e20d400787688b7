"""The lane on a provider of ONNX Runtime, in this Python environment or in another."""

from __future__ import annotations

import math
import sys
from typing import Any

import msgspec
import numpy as np

from onnxgather.cases import Case, DescriptorCase, NodeCase, smallest_case
from onnxgather.errors import OnnxGatherError
from onnxgather.lanes.child import NoAnswerError
from onnxgather.lanes.lane import TIMEOUT, Answer, AnswerKind, Breakdown, LaneInfo, NodeElsewhere
from onnxgather.lanes.worker import Worker
from onnxgather.model import bare_model, to_onnx, wrapped
from onnxgather.options import Target
from onnxgather.providers import Provider, target_of
from onnxgather.runtime import NotRunKind, packed, unpacked
from onnxgather.session import threads_for


class _About(msgspec.Struct, frozen=True):
    """What `runtime.about` says."""

    versions: dict[str, str] = {}
    devices: tuple[str, ...] = ()


class _Frame(msgspec.Struct, frozen=True, rename={"not_run": "not-run"}):
    """What `runtime.answer` answers."""

    not_run: tuple[NotRunKind, str] | None = None
    node: tuple[str, str, str] | None = None
    refused: str | None = None
    nodes: tuple[str, ...] = ()
    outputs: tuple[str | tuple[str, tuple[int, ...], int], ...] = ()


class ModelLane:
    """A provider of ONNX Runtime, run by a worker.

    Args:
        name: As the user named it, such as `cpu` or `openvino@old`.
        provider: The provider.
        python: The interpreter of the environment that has it.
        library: The plugin library that brings the provider, if one does.
        target: The target of the models; None is the one that suits the provider.
        timeout: Seconds that one case may take.
    """

    def __init__(
        self,
        name: str,
        provider: Provider,
        python: str = sys.executable,
        library: str | None = None,
        target: Target | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self.name = name
        self.provider = provider
        self._library = library
        self._target: Target = target_of(provider.name, target)
        self._worker = Worker(python, timeout)

    def start(self) -> LaneInfo:
        """Start a worker and have it run a gather that every provider takes."""
        about, why = _About(), None
        try:
            self._worker.start()
            about = msgspec.convert(self._worker.about, _About)
            probe = self.answer(_PROBE)
            if probe.kind is AnswerKind.REFUSED:
                why = f"{self.provider.name} cannot start: {probe.reason}"
            elif probe.how not in (None, "elsewhere", "folded"):
                why = probe.reason
            else:  # a plugin library has brought its devices with that model
                about = msgspec.convert(self._worker.ask({})[0], _About)
        except (NoAnswerError, msgspec.ValidationError) as error:
            why = str(error)
        prefix = f"{self.provider.name}: "
        devices = [name for name in about.devices if name.startswith(prefix)]
        return LaneInfo(
            self.name,
            self.provider.name,
            about.versions,
            tuple(name.removeprefix(prefix) for name in devices),
            self._worker.command[0],
            why,
            self._target,
        )

    def answer(self, case: Case) -> Answer:
        """Run a case by the worker."""
        feeds = [{"InputTensor": case.data, "IndicesTensor": case.indices}]
        if isinstance(case, DescriptorCase) and case.must_refuse:
            feeds.insert(0, {**feeds[0], "IndicesTensor": np.zeros_like(case.indices)})
        if case.wrapped:
            feeds = [{**feed, "One": np.ones((), case.data.dtype)} for feed in feeds]
        threads = threads_of(case)
        try:
            model = model_of(case, self._target, threads)
        except OnnxGatherError as error:
            return Answer(AnswerKind.BROKEN, str(error), how=Breakdown.NO_MODEL)
        blobs = bytearray(model)
        request = {
            "model": len(model),
            "provider": self.provider.name,
            "threads": threads,
            "library": self._library,
            "feeds": [{name: packed(feed[name], blobs) for name in feed} for feed in feeds],
        }
        try:
            return self._read(*self._worker.ask(request, blobs))
        except NoAnswerError as error:
            return error.answer
        except (msgspec.ValidationError, LookupError, TypeError, ValueError) as error:
            reason, detail = f"the worker answered what no worker answers: {error}", str(error)
            return Answer(AnswerKind.BROKEN, reason, how=Breakdown.NONSENSE, detail=detail)

    def _read(self, frame: dict[str, Any], blobs: bytes) -> Answer:
        answer = msgspec.convert(frame, _Frame)
        if answer.not_run is not None:
            kind, detail = answer.not_run
            reason = self.provider.why_not_run(kind, detail)
            node = NodeElsewhere(*answer.node) if answer.node else None
            return Answer(AnswerKind.NOT_RUN, reason, how=kind, detail=detail, elsewhere=node)
        if answer.refused is not None:
            return Answer(AnswerKind.REFUSED, answer.refused)
        if not answer.nodes:
            raise ValueError("outputs of no node")
        *proof, (output, error) = [
            (None, one) if isinstance(one, str) else (unpacked(one, blobs), None)
            for one in answer.outputs
        ]
        kind = AnswerKind.RAN if error is None else AnswerKind.FAILED
        return Answer(kind, error, answer.nodes, output, proof[0][0] if proof else None)

    def close(self) -> None:
        """End the worker."""
        self._worker.close()


def threads_of(case: Case) -> int:
    """How many threads a session has for a case."""
    node = isinstance(case, NodeCase)
    return threads_for(1 if node else math.prod(case.descriptor.output_tensor.sizes))


def model_of(case: Case, target: Target, threads: int) -> bytes:
    """The model that a lane runs for a case, serialized."""
    if isinstance(case, NodeCase):
        node = case.node
        model = bare_model(
            node.operator, node.attributes, case.data, case.indices, node.output_shape
        )
    else:
        target = "portable" if case.wrapped else target
        model = to_onnx(case.descriptor, case.out_of_range, target, threads=threads)
    return (wrapped(model) if case.wrapped else model).SerializeToString()


_PROBE = smallest_case("Gather", "FLOAT32").wrapped_in()
