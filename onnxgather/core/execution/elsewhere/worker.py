"""Workers: `runtime` in any Python environment, or a host that speaks its protocol."""

from __future__ import annotations

import atexit
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated

import msgspec

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.datatypes import ONNX_NAMES, TensorDataType
from onnxgather.core.descriptors.operators import OPERATORS, Descriptor
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.child import Child, StartedProgram
from onnxgather.core.execution.elsewhere.hosts import (
    BROWSER,
    find_runtime,
    startable,
    web_host,
)
from onnxgather.core.execution.providers import Provider

HOST_RUNS = 300
"""After how many models a host starts anew, as DirectML and browsers keep memory."""

REQUEST_TIMEOUT = 600.0
"""Seconds that a host may take for one request of a session."""

_Natural = Annotated[int, msgspec.Meta(ge=0)]
_TYPES = {*ONNX_NAMES, *(row.numpy.name for row in TensorDataType)}


class NodeElsewhere(msgspec.Struct, frozen=True):
    """A node that went to another provider than the requested one."""

    name: str
    """The name of the node."""
    operator: str
    """ONNX's name, such as Reshape."""
    provider: str
    """The full name of the provider that it went to."""


class About(msgspec.Struct, frozen=True):
    """What `runtime.environment` says of an environment."""

    versions: dict[str, str]
    providers: tuple[str, ...] = ()
    devices: dict[str, tuple[str, ...]] = {}
    provider_versions: dict[str, str] = {}
    records_nodes: bool = True
    takes_plugins: bool = False
    fault: str | None = None
    installed: bool = True


class _Answered(msgspec.Struct, frozen=True):
    """What `runtime.answer` says of a model."""

    not_run: tuple[runtime.NotRunKind, str, NodeElsewhere | None] | None = None
    refused: str | None = None
    nodes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    placed: _Natural = 0
    """How many nodes the provider runs: all of them, where the runtime names none."""
    outputs: tuple[str | tuple[str, tuple[_Natural, ...], _Natural], ...] = ()


@dataclass(frozen=True)
class Ran:
    """A model that ran on a provider."""

    assignment: tuple[tuple[str, str], ...]
    """The name and the operator of each node."""
    outputs: tuple[Array | str, ...]
    """The output of each run, or the provider's own message if that failed, on one
    line."""


class Worker(Child):
    """`runtime` as a program in any Python environment, or a host with its protocol.

    It starts with the first request.

    Args:
        python: The interpreter that runs it; it needs onnxruntime and numpy.
        timeout: Seconds that an answer may take.
        host: The command of the host, which needs no interpreter; or the path of a
            shared library, whose host is compiled first.
    """

    name = "worker"

    def __init__(self, python: str, timeout: float, host: Sequence[str] = ()) -> None:
        # Not -I: a user may make an environment by PYTHONPATH.
        super().__init__(host or [python, "-u", runtime.__file__], timeout)
        self._is_host = bool(host)
        self._models = 0
        self._kept: object = None
        """The model and the session that the worker keeps, if any."""

    def about(self) -> About:
        """Return what the environment offers.

        A plugin's devices are there after its first model.

        Raises:
            NoAnswerError: The worker gives no answer.
        """

        def read(header: bytes, _: bytes) -> About:
            return msgspec.json.decode(header, type=About)

        return self.exchange(read, {})

    def run(
        self,
        model: bytes,
        session: Mapping[str, object],
        feeds: Sequence[Mapping[str, Array]] = (),
        sent: Counter[str] | None = None,
        keep: bool = False,
    ) -> Ran:
        """Run a serialized model with one output on several sets of inputs.

        Args:
            model: The model.
            session: The fields of `runtime.Setup`.
            feeds: The sets of inputs.
            sent: How often each operator stands in the model; None where any may have
                run.
            keep: Whether the worker keeps the opened model for the next request.

        Raises:
            NotRunError: The provider is missing, or did not get every node.
            RefusedError: ONNX Runtime made no session.
            NoAnswerError: The worker gives no answer.
        """
        blobs = bytearray(model)
        packed_feeds: list[dict[str, list[object]]] = []
        for feed in feeds:
            packed = {
                name: runtime.append_array(array, blobs) for name, array in feed.items()
            }
            packed_feeds.append(packed)
        request = {
            "model": len(model),
            "session": session,
            "feeds": packed_feeds,
            "keep": int(keep),
        }
        kept = (model, session) if keep else None
        if kept is None or kept != self._kept:  # the worker opens a model
            self._kept = kept
            self._models += 1
            grows = session["provider"] == runtime.DIRECTML or BROWSER in self.command
            if self._is_host and grows and self._models % HOST_RUNS == 0:
                self.restart()
        read = partial(_read, model, sent, len(feeds))
        result = self.exchange(read, request, blobs)
        if isinstance(result, Exception):
            raise result
        return result

    def _start(self) -> StartedProgram:
        self.command = startable(self.command)
        return super()._start()


def _read(
    model: bytes, sent: Counter[str] | None, runs: int, header: bytes, blobs: bytes
) -> Ran | runtime.NotRunError | runtime.RefusedError:
    """Decode an answer.

    Args:
        model: The model of the request.
        sent: How often each operator stands in it; None where any may have run.
        runs: How many sets of inputs the request has.
        header: The JSON of the answer.
        blobs: The bytes of the answer.

    Raises:
        ValueError: The answer is not one to the request.
    """
    answered = msgspec.json.decode(header, type=_Answered)
    if answered.not_run is not None:
        return runtime.NotRunError(*answered.not_run)
    if answered.refused is not None:
        return runtime.RefusedError(answered.refused)
    nodes = answered.nodes
    if answered.placed and not nodes:
        nodes = _nodes_of_model(model, sent)
    if not nodes:
        raise ValueError("outputs of no node")
    if sent is not None and not answered.placed:
        _check_nodes(Counter(nodes), sent)
    if len(answered.outputs) != runs:
        raise ValueError(f"{len(answered.outputs)} outputs of {runs} runs")
    outputs: list[Array | str] = []
    for output in answered.outputs:
        if isinstance(output, str):  # the run failed
            outputs.append(output)
        elif output[0] not in _TYPES:
            raise ValueError(f"an array of {output[0]}")
        else:
            outputs.append(runtime.array_at(output, blobs))
    assignment = zip(answered.names or nodes, nodes, strict=True)
    return Ran(tuple(assignment), tuple(outputs))


def _nodes_of_model(model: bytes, sent: Counter[str] | None) -> tuple[str, ...]:
    """Return the operators of a model's nodes; a body runs for our operators."""
    from onnxgather.core.model.protos import operators
    from onnxgather.core.model.values import loaded

    if sent is None:
        _, proto = loaded(model)
        sent = operators(proto)
    return tuple(name for name in sent.elements() if name not in OPERATORS)


def _check_nodes(ran: Counter[str], sent: Counter[str]) -> None:
    """Check that nodes are those of a model.

    ONNX Runtime may drop nodes and change their names, but it drops no gather and,
    before it assigns the nodes to providers, adds no operator. A node of a function
    runs as it is or as the nodes of its body.
    """
    added = list(ran - sent)
    if added:
        raise ValueError(f"more nodes than the model has: {', '.join(added)}")
    if OPERATORS.keys() & ran.keys():  # a node of a function runs as it is
        return
    dropped = [name for name in sent - ran if name.startswith("Gather")]
    if dropped:
        raise ValueError(f"fewer gathers than the model has: {', '.join(dropped)}")


class OpenedThere:
    """A model on a provider, in a worker: `Opened` of another program.

    Args:
        worker: The worker.
        model: The serialized model.
        setup: The provider and the number of threads; a host accepts nothing else.

    Raises:
        NotRunError: The provider is missing, or did not get every node.
        RefusedError: ONNX Runtime made no session, for any other reason.
        NoAnswerError: The worker gives no answer.
    """

    def __init__(self, worker: Worker, model: bytes, setup: runtime.Setup) -> None:
        session = {"provider": setup.provider, "threads": setup.threads}
        self._ran = partial(worker.run, model, session, keep=True)
        self.assignment = self._ran().assignment

    def run_all(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Return the model's only output.

        Raises:
            FailedError: The provider failed.
            NotRunError, RefusedError, NoAnswerError: As when the model was opened; the
                worker opens it again where it ran another model since.
        """
        (output,) = self._ran([inputs]).outputs
        if isinstance(output, str):
            raise runtime.FailedError(output)
        return [output.copy()]  # a frame's bytes are read-only


def output_of_bytes(output: Array, tensor: TensorDesc) -> Array:
    """Return OutputTensor whose bytes a WebNN program returned.

    Bytes of another number stay as they are.
    """
    dtype = tensor.data_type.numpy
    if output.nbytes != dtype.itemsize * math.prod(tensor.array_shape):
        return output
    return output.view(dtype).reshape(tensor.array_shape)


class OpenedProgram:
    """The WebNN program of a descriptor, in a browser: `Opened` of another program.

    Args:
        desc: The descriptor.
        module: The text of the program's module.
        provider: The provider of WebNN.

    Raises:
        RefusedError: The browser refused the program, or has no WebNN.
        NoAnswerError: There is no answer of the browser.
    """

    def __init__(self, desc: Descriptor, module: str, provider: Provider) -> None:
        worker = _shared(*web_host(provider))
        session = {"provider": provider.name}
        self._ran = partial(worker.run, module.encode(), session, keep=True)
        self._output_tensor = desc.output_tensor
        self.assignment = self._ran().assignment

    def run_all(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Return the program's only output.

        Raises:
            FailedError: The browser failed, or an index is out of range.
            RefusedError, NoAnswerError: As when the program was opened.
        """
        (output,) = self._ran([inputs]).outputs
        if isinstance(output, str):
            raise runtime.FailedError(output)
        return [output_of_bytes(output.copy(), self._output_tensor)]


def open_model(
    model: bytes | str, provider: Provider, setup: runtime.Setup
) -> runtime.Opened | OpenedThere:
    """Open a model on a provider of this environment, or else of its host.

    Args:
        model: The serialized model, or the path of its file.
        provider: The only provider that may run its nodes.
        setup: How the model is opened.

    Raises:
        NotRunError, RefusedError, NoAnswerError: As `Opened` and `OpenedThere`.
        OnnxGatherError: As `find_runtime`.
    """
    if provider.in_browser:
        host = web_host(provider)
        is_here = False
    else:
        host = find_runtime(provider, warm=True)
        is_here = provider.name in runtime.available_providers()
    if not host or is_here:
        return runtime.Opened(model, setup)
    if setup.settings:
        raise runtime.RefusedError(
            "the program that runs it here takes no options of the provider"
        )
    content = Path(model).read_bytes() if isinstance(model, str) else model
    return OpenedThere(_shared(*host), content, setup)


@lru_cache
def shared_worker(python: str, timeout: float) -> Worker:
    """Return the worker of an interpreter, which this program shares.

    Args:
        python: The interpreter.
        timeout: Seconds that an answer may take.
    """
    worker = Worker(python, timeout)
    atexit.register(worker.close)
    return worker


@lru_cache
def _shared(*command: str) -> Worker:
    """Return the worker of a host, which all sessions of this program share."""
    worker = Worker("", REQUEST_TIMEOUT, command)
    atexit.register(worker.close)
    return worker
