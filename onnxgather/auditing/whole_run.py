"""A run of a whole model on onnxgather's provider, and what each gather met in it.

If the model stops at an index out of range, it runs once more under clamp. Each gather
has a number as its name there, as several may have one name.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import onnx
from msgspec import Struct
from msgspec.structs import replace

from onnxgather.auditing.met import Met, met_of
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import ProviderError
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.execution.elsewhere.worker import Worker
from onnxgather.core.execution.gather_provider import GatherCounts
from onnxgather.core.execution.kernels import operators_library, why_not
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.model.network import Network, Operation, Scope, folder_of
from onnxgather.core.model.protos import bodies_of, external_files, key_of
from onnxgather.core.model.wire import LARGE, written_size

_NO_CRASH = (Breakdown.NOT_STARTED, Breakdown.LATE, Breakdown.EXITED)
"""How a worker breaks down without a fault of the node that it runs."""

_MARK = re.compile(r"#(\d+)#$")
"""The number that is the name of a gather. ONNX Runtime puts the name of a function
before that of a node in it."""

_NO_END = "a run under clamp takes too long or too much memory"
"""Why nothing behind the first index out of range is met, though a run starts."""

MOST_FILES = 4
"""The files of large models that wait for their next run, beside the newest."""

_CRASH = "a node ends the program that runs the model"
"""Why nothing is known of what the gathers met."""

_Place = tuple[str, tuple[int, ...], int]
"""An output, as `runtime.append_array` describes it."""


class Answered(Struct):
    """What a worker says of a model and a set of inputs."""

    not_run: tuple[runtime.NotRunKind, str, Any] | None = None
    refused: str | None = None
    outputs: tuple[str | tuple[_Place | None, ...], ...] = ()
    rows: tuple[int, int] | None = None
    """The offset and the number of the bytes of what gathers met."""

    @property
    def places(self) -> tuple[_Place | None, ...]:
        """The outputs; None for one that is no tensor of numbers."""
        (outputs,) = self.outputs
        return () if isinstance(outputs, str) else outputs

    @property
    def failure(self) -> str | None:
        """Why the model did not run; None if it ran."""
        if self.refused is not None:
            return self.refused
        (outputs,) = self.outputs
        return outputs if isinstance(outputs, str) else None


class WholeRun(Struct, eq=False):
    """What gathers met in a run of a whole model."""

    session: Mapping[str, object] = {}
    """How the worker opens a model so that no gather stops it: the fields of
    `runtime.Setup`."""
    why_not: str | None = None
    """Why there is no such run, and a gather may stop the session; None if there is."""
    counts: dict[Operation, Met] = {}
    """What each gather met; of a function, in all calls, under its first one. Gathers
    that stay on the CPU provider are not there."""
    first_outside: str | None = None
    """The gather at which the untouched model stops, and its index out of range."""
    added: list[GatherCounts] = []
    """What gathers met that ONNX Runtime makes of other operators."""


def cpu_run(network: Network, why_not: str | None = None) -> WholeRun:
    """Return what there is without a run of the whole model: the CPU provider.

    Args:
        network: The model.
        why_not: Why there is no run.
    """
    folder = folder_of(network.path)
    session = {"provider": PROVIDERS["cpu"].name, "level": 0, "folder": folder}
    return WholeRun(session, why_not)


def run_whole(
    network: Network, inputs: Mapping[str, Array], worker: Worker, folder: str
) -> WholeRun:
    """Run a whole model on onnxgather's provider, if it is there.

    Args:
        network: The model.
        inputs: The arrays of its graph inputs, by name.
        worker: The worker that runs it.
        folder: As of `answer_of`.

    Raises:
        ProviderError: The run of the untouched model takes too long.
    """
    library = operators_library()
    if library is None:
        rule = "onnxgather's provider must have the native kernels"
        return cpu_run(network, f"{rule}, but {why_not()}")
    gathers = PROVIDERS["onnxgather"]
    session = {
        **cpu_run(network).session,
        "provider": gathers.name,
        "library": library,
        "cpu_too": True,
    }
    under_error = {**session, "settings": {"out_of_range": "error"}}
    run = WholeRun({**session, "settings": {"out_of_range": "clamp"}})
    model = onnx.ModelProto()
    model.CopyFrom(network.proto)
    marked = _marked(model, network)
    try:
        answer, content = answer_of(
            worker, network, model, inputs, under_error, folder, report=True
        )
        # Case: ONNX Runtime refuses the library.
        if answer.not_run is not None:
            kind, detail, _ = answer.not_run
            return cpu_run(network, gathers.why_not_run(kind, detail))
        rows = _rows_of(answer, content)
        stop = next((row for row in rows if row.error is not None), None)
        if stop is not None:
            run.first_outside = _outside_text(stop, marked)
            try:
                answer, content = answer_of(
                    worker, network, model, inputs, run.session, folder, report=True
                )
                rows = _rows_of(answer, content)
            # Case: a loop that an error ends goes on under clamp, or values grow.
            except ProviderError:
                on_cpu = cpu_run(network, _NO_END)
                on_cpu.first_outside = run.first_outside
                return on_cpu
    except runtime.FailedError:  # a node crashes the worker
        on_cpu = cpu_run(network, _CRASH)
        on_cpu.first_outside = run.first_outside
        return on_cpu
    for row in rows:
        _, operation = _gather_of(row, marked)
        if operation is None:
            run.added.append(row)
            continue
        under_clamp = stop is not None and stop.node != row.node
        met = met_of(row, under_clamp)
        if operation in run.counts:  # another call of the function
            met = run.counts[operation].joined(met)
        run.counts[operation] = met
    return run


def answer_of(
    worker: Worker,
    network: Network,
    model: onnx.ModelProto,
    inputs: Mapping[str, Array],
    session: Mapping[str, object],
    folder: str,
    keep: bool = False,
    report: bool = False,
) -> tuple[Answered, bytes]:
    """Return the answer of a worker that runs a model once, and its bytes.

    Args:
        worker: The worker.
        network: The model that the model is made of.
        model: The model, without the bytes of large constants of `network`.
        inputs: The arrays of its inputs, by name.
        session: The fields of `runtime.Setup`.
        folder: An empty folder, or that of an earlier answer, for a large model.
        keep: Whether the worker keeps the model for the next request.
        report: Whether the answer has what gathers met.

    Raises:
        FailedError: A node crashes the worker.
        ProviderError: The worker does not start, or the run takes too long.
    """
    whole = replace(network, proto=model)
    blobs = bytearray()
    path = _file_of(whole, folder)
    if path is None:
        blobs += whole.content
    request = {
        "model": path or len(blobs),
        "session": session,
        "feeds": [
            {name: runtime.append_array(array, blobs) for name, array in inputs.items()}
        ],
        "every": True,
        "keep": keep,
        "report": report,
    }
    try:
        return worker.exchange(_read, request, blobs)
    except NoAnswerError as error:
        if error.how in _NO_CRASH or error.detail == "SIGKILL":
            rule = f"{network.path}: the model must run with the given inputs"
            raise ProviderError(f"{rule}, but {error}") from None
        raise runtime.FailedError(str(error)) from None


def _file_of(network: Network, folder: str) -> str | None:
    """Write a large model to a folder; return its path, the same for a model again.

    None for a small model, and for one whose external data would be elsewhere.
    """
    has_many_bytes = written_size(network.proto, network.weights) > LARGE
    if not has_many_bytes or external_files(network.proto):
        return None
    digest = hashlib.sha256(network.proto.SerializeToString(deterministic=True))
    path = os.path.join(folder, f"{digest.hexdigest()}.onnx")
    if not os.path.exists(path):
        # Bodies within bodies run in turns; the disk need not hold all others.
        written = [os.path.join(folder, name) for name in os.listdir(folder)]
        written.sort(key=os.path.getmtime)
        for other in written[:-MOST_FILES]:
            os.remove(other)
        network.write(path)
    return path


def _rows_of(answer: Answered, content: bytes) -> list[GatherCounts]:
    """Return what gathers met; nothing of a model that does not open."""
    if answer.rows is None:
        return []
    offset, count = answer.rows
    return msgspec.json.decode(
        content[offset : offset + count], type=list[GatherCounts]
    )


def _read(header: bytes, blobs: bytes) -> tuple[Answered, bytes]:
    return msgspec.json.decode(header, type=Answered), blobs


_Marked = list[tuple[Scope, Operation]]
"""Gathers by the numbers in their names, each with its scope."""


def _marked(model: onnx.ModelProto, network: Network) -> _Marked:
    """Name the gathers of a copy of a model by numbers; return these gathers."""
    marked: _Marked = []
    scopes = [*network.main.scopes()]
    bodies = {
        key_of(operation.proto): operation.bodies["function"]
        for scope in reversed(scopes)  # of several calls the first one counts
        for operation in reversed(scope.operations)
        if "function" in operation.bodies
    }
    _mark(model.graph.node, network.main, marked)
    for function in model.functions:
        if key_of(function) in bodies:
            _mark(function.node, bodies[key_of(function)], marked)
    return marked


def _mark(nodes: Iterable[onnx.NodeProto], scope: Scope, marked: _Marked) -> None:
    for node, operation in zip(nodes, scope.operations, strict=True):
        if operation.is_gather:
            node.name = f"#{len(marked)}#"
            marked.append((scope, operation))
        for name, graph in bodies_of(node):
            _mark(graph.node, operation.bodies[name], marked)


def _gather_of(
    row: GatherCounts, marked: _Marked
) -> tuple[Scope, Operation] | tuple[None, None]:
    """Return the gather of a row; none where ONNX Runtime makes it of another node."""
    number = _MARK.search(row.node)
    return marked[int(number[1])] if number else (None, None)


def _outside_text(row: GatherCounts, marked: _Marked) -> str:
    """Return the gather of a row, and the first index out of range that it met."""
    scope, operation = _gather_of(row, marked)
    if scope and operation:
        gather = f"{operation.label} ({operation.operator}, {scope.place})"
    else:
        gather = f"{row.node} ({row.operator}, made by ONNX Runtime)"
    return f"{gather}: {row.outside_text}"
