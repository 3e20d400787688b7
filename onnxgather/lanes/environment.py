"""Lanes on ONNX Runtime: a provider, in this Python environment or in another."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from onnxgather.arrays import Array
from onnxgather.cases import Case, DescriptorCase, NodeCase
from onnxgather.checks import shown
from onnxgather.descriptors import GatherDesc
from onnxgather.errors import OnnxGatherError
from onnxgather.lanes.directml import DIRECTML_DLL, DirectMLLane
from onnxgather.lanes.lane import Answer, AnswerKind, Breakdown, Lane, LaneInfo
from onnxgather.lanes.worker import Worker, WorkerError
from onnxgather.model import bare_model, to_onnx, wrapped
from onnxgather.options import Target
from onnxgather.providers import Provider, find_provider
from onnxgather.runtime import NotRunKind
from onnxgather.session import target_of, threads_for
from onnxgather.tensors import TensorDesc

REFERENCE = "reference"
"""The lane that all others are compared with; naming it is allowed and changes nothing."""

TIMEOUT = 60.0
"""Seconds that one case may take."""


class _About(msgspec.Struct, frozen=True):
    """What `runtime.about` says."""

    versions: dict[str, str] = {}
    devices: tuple[str, ...] = ()


class _Frame(msgspec.Struct, frozen=True, rename={"not_run": "not-run"}):
    """What `runtime.answer` answers."""

    not_run: tuple[NotRunKind, str] | None = None
    refused: str | None = None
    nodes: tuple[str, ...] = ()
    outputs: tuple[str | tuple[str, tuple[int, ...], int], ...] = ()


class ModelLane:
    """A provider of ONNX Runtime, run by a worker.

    Args:
        name: As the user named it, such as `cpu` or `openvino@old`.
        provider: The provider.
        python: The interpreter of the environment that has it.
        library: The plugin library that brings it, if one does.
        target: Whom the models are for; None is the target that suits the provider.
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
        self._target: Target = target or target_of(provider)
        self._worker = Worker(python, timeout)

    def start(self) -> LaneInfo:
        """Start a worker and have it run a gather that every provider takes."""
        why: str | None = None
        try:
            self._worker.start()
        except WorkerError as error:
            why = str(error)
        else:
            probe = self.answer(_PROBE)
            if probe.kind is AnswerKind.REFUSED:
                why = f"{self.provider.name} cannot start: {probe.reason}"
            elif probe.how not in (None, "elsewhere", "folded"):
                why = probe.reason
        about = _About()
        try:
            if self._library is not None and why is None:
                self._worker.about, _ = self._worker.ask({}, b"")
            about = msgspec.convert(self._worker.about, _About)
        except (WorkerError, msgspec.ValidationError) as error:
            why = why or str(error)
        prefix = f"{self.provider.name}: "
        devices = [name for name in about.devices if name.startswith(prefix)]
        return LaneInfo(
            self.name,
            self.provider.name,
            about.versions,
            tuple(name.removeprefix(prefix) for name in devices),
            self._worker.python,
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
        node = isinstance(case, NodeCase)
        size = 1 if node else math.prod(case.descriptor.output_tensor.sizes)
        threads = threads_for(size)
        try:
            model = model_of(case, self._target, threads)
        except OnnxGatherError as error:
            return Answer(AnswerKind.BROKEN, str(error), how=Breakdown.NO_MODEL)
        request, blobs = _request(model, feeds)
        request |= {"provider": self.provider.name, "threads": threads, "library": self._library}
        try:
            return self._read(*self._worker.ask(request, blobs))
        except WorkerError as error:
            return Answer(AnswerKind.BROKEN, str(error), how=error.how, detail=error.detail)
        except (msgspec.ValidationError, LookupError, TypeError, ValueError) as error:
            reason, detail = f"the worker answered what no worker answers: {error}", str(error)
            return Answer(AnswerKind.BROKEN, reason, how=Breakdown.NONSENSE, detail=detail)

    def _read(self, frame: dict[str, Any], blobs: bytes) -> Answer:
        answer = msgspec.convert(frame, _Frame)
        if answer.not_run is not None:
            kind, detail = answer.not_run
            reason = self.provider.why_not_run(kind, detail)
            return Answer(AnswerKind.NOT_RUN, reason, how=kind, detail=detail)
        if answer.refused is not None:
            return Answer(AnswerKind.REFUSED, answer.refused)
        if not answer.nodes:
            raise ValueError("outputs of no node")
        *proof, (output, error) = [
            (None, one) if isinstance(one, str) else (_array(one, blobs), None)
            for one in answer.outputs
        ]
        kind = AnswerKind.RAN if error is None else AnswerKind.FAILED
        return Answer(kind, error, answer.nodes, output, proof[0][0] if proof else None)

    def close(self) -> None:
        """End the worker."""
        self._worker.close()


def open_lanes(
    names: Sequence[str],
    pythons: Mapping[str, str] | None = None,
    plugins: Mapping[str, str] | None = None,
    target: Target | None = None,
    timeout: float = TIMEOUT,
) -> list[Lane]:
    """Return lanes, not started.

    Args:
        names: A provider's short or full name each, with `@` and a label of one's own where a
            provider has several lanes: `cpu@1.24.4`. "directml-dll" is DirectML itself,
            "reference" stands for no lane.
        pythons: Lanes that run in another environment, and its interpreter; of DirectML itself
            the folder of its program.
        plugins: Lanes whose provider comes from a plugin library, and its path.
        target: Whom the models are for; None is the target that suits the provider.
        timeout: Seconds that one case may take.

    Raises:
        ProviderError: A name is no provider's.
        OnnxGatherError: A lane is named twice, or there is none beside the reference.
    """
    pythons, plugins = pythons or {}, plugins or {}
    wanted = [*names, *(name for name in {**pythons, **plugins} if name not in names)]
    wanted = [name for name in wanted if name != REFERENCE]
    if not wanted:
        raise OnnxGatherError("lanes must name one beside the reference, got none")
    for name in wanted:
        if wanted.count(name) > 1:
            raise OnnxGatherError(f"lanes must differ, got {shown(name)} twice")
    return [
        DirectMLLane(name, pythons.get(name), timeout)
        if name.partition("@")[0] == DIRECTML_DLL
        else ModelLane(
            name,
            find_provider(name.partition("@")[0]),
            _interpreter(pythons.get(name, sys.executable)),
            os.path.abspath(plugins[name]) if name in plugins else None,
            target,
            timeout,
        )
        for name in wanted
    ]


def model_of(case: Case, target: Target, threads: int) -> bytes:
    """Return the model that a lane runs for a case, serialized."""
    if isinstance(case, NodeCase):
        node = case.node
        model = bare_model(
            node.operator, node.attributes, case.data, case.indices, node.output_shape
        )
    else:
        target = "portable" if case.wrapped else target
        model = to_onnx(case.descriptor, case.out_of_range, target, threads=threads)
    return (wrapped(model) if case.wrapped else model).SerializeToString()


def _interpreter(path: str) -> str:
    """Return an interpreter as an absolute path, or as a command that the PATH leads to."""
    path = os.path.expanduser(path)
    return os.path.abspath(path) if os.path.dirname(path) else path


def _request(model: bytes, feeds: list[dict[str, Array]]) -> tuple[dict[str, object], bytes]:
    """Return a model and its inputs as `runtime.answer` takes them."""
    blobs = [model]
    described: list[dict[str, object]] = []
    for feed in feeds:
        described.append({})
        for name, array in feed.items():
            place = sum(map(len, blobs))
            described[-1][name] = [array.dtype.name, array.shape, place]
            blobs.append(array.tobytes())
    return {"model": len(model), "feeds": described}, b"".join(blobs)


def _array(described: tuple[str, tuple[int, ...], int], blobs: bytes) -> Array:
    dtype, shape, offset = described
    return np.frombuffer(blobs, dtype, math.prod(shape), offset).reshape(shape)


_PROBE = DescriptorCase(
    "probe",
    GatherDesc(
        TensorDesc("FLOAT32", [4]),
        TensorDesc("INT64", [2]),
        TensorDesc("FLOAT32", [2]),
        axis=0,
        index_dimensions=1,
    ),
    np.arange(4, dtype=np.float32),
    np.array([3, 1]),
    "error",
).wrapped_in()
