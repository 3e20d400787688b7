"""The graphs that ONNX Runtime makes of a model, one for each level of optimization.

ONNX Runtime does not run the graph of the file (`quirks.REWRITTEN_GRAPHS`). A gather is
proved only if it is proved in the file and in each of these graphs.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from google.protobuf.message import EncodeError
from msgspec import Struct
from msgspec.structs import force_setattr, replace
from onnx import GraphProto, TensorProto

from onnxgather.auditing.graph_audit import (
    AuditedGraph,
    OperationKey,
    audit_graph,
    badness,
    common_conditions,
)
from onnxgather.auditing.matches import FileNames, Matches
from onnxgather.auditing.proof.contract import Contract
from onnxgather.auditing.proof.given_ends import GivenRange
from onnxgather.auditing.proof.index_range import IndexRange
from onnxgather.auditing.records import (
    AskedRuntime,
    AuditedGather,
    Runtime,
    RuntimeLevel,
)
from onnxgather.core.checks import check_type, sequence, shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError, ProviderError
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.child import NoAnswerError
from onnxgather.core.execution.elsewhere.worker import shared_worker
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.model.network import (
    Network,
    external_paths,
    folder_of,
    read_network,
)
from onnxgather.core.model.protos import bodies_of, external_files
from onnxgather.core.model.quirks import OPTIMIZATION_LEVELS
from onnxgather.core.model.values import ModelProto, name_of, serialized_pieces

DISABLED = OPTIMIZATION_LEVELS["disabled"]
"""ONNX Runtime's number for no optimization."""

RUNTIME_LEVELS: Mapping[str, int] = {
    name: number for name, number in OPTIMIZATION_LEVELS.items() if number != DISABLED
}
"""The levels of optimization, with ONNX Runtime's own numbers."""

WRITING_TIMEOUT = 60.0
"""Seconds that ONNX Runtime may take to write the graph of a level."""

WRITING_MEMORY = 2**32
"""The bytes of memory that ONNX Runtime may have to write the graphs of a small
model."""

COPIES = 4
"""How often ONNX Runtime may hold a model beyond that."""

LEAST_WEIGHT = 2**19
"""The least bytes of a constant that is written to a file beside the graph. Constants
of floats are read up to `ranges.WEIGHTS` elements, which have fewer bytes."""

SMALL_MODEL = 2**26
"""The large constants of a model with at most as many bytes are written to disk."""

_CPU = PROVIDERS["cpu"]

_INDEX_WIDTHS = {"INT32": 4, "INT64": 8}
"""The bytes of the types of indices."""


class Levels(Struct, frozen=True):
    """Which graphs of ONNX Runtime are audited."""

    names: Sequence[str] | None = None
    """The levels; None for all of them, if onnxruntime is installed."""
    pythons: Sequence[str] = ()
    """The interpreters of the environments whose ONNX Runtime is asked; none for that
    of this environment."""

    def __post_init__(self) -> None:
        # Lists, as an array has no truth value, and an iterator ends.
        pythons = sequence("runtimes", self.pythons)
        force_setattr(self, "pythons", pythons)
        for python in pythons:
            check_type("runtimes", python, "a list of paths", str)
        if self.names is None:
            return
        names = sequence("levels", self.names)
        force_setattr(self, "names", names)
        for name in names:
            check_type("levels", name, "a list of names", str)
            if name not in RUNTIME_LEVELS:
                rule = f"levels must be some of {', '.join(RUNTIME_LEVELS)}"
                raise OnnxGatherError(f"{rule}, got {shown(name)}")


class RuntimeGraph(Struct, frozen=True):
    """A graph that ONNX Runtime makes of a model."""

    version: str
    """The version of ONNX Runtime."""
    level: str
    audited: AuditedGraph


class AuditedLevels(Struct, frozen=True):
    """The audits of the graphs that ONNX Runtime makes of a model."""

    graphs: list[RuntimeGraph] = []
    refused: list[tuple[str, str]] = []
    """The versions and the levels that make no session of the model, or a graph that
    cannot be audited."""
    notes: list[str] = []
    """Why a graph was not audited, a sentence each."""
    not_proved: dict[str, list[str]] = {}
    """The nodes that are not proved and that the file does not have, by the versions.
    """

    @property
    def runtimes(self) -> list[AskedRuntime]:
        """Return the versions with the levels whose graphs were audited."""
        levels_by_version: dict[str, list[str]] = {}
        for graph in self.graphs:
            levels_by_version.setdefault(graph.version, []).append(graph.level)
        runtimes: list[AskedRuntime] = []
        for version, levels in levels_by_version.items():
            not_proved = self.not_proved.get(version, [])
            runtimes.append(AskedRuntime(version, levels, not_proved=not_proved))
        return runtimes


class _Written(Struct, frozen=True):
    """The graphs of a model that an ONNX Runtime wrote."""

    version: str
    refused: Mapping[str, str | None]
    """The levels; each with what ONNX Runtime says if it makes no session."""
    opens: bool
    """Whether ONNX Runtime opens the model at any level, or without optimizations. If
    it does not, no level counts as refused."""


class _Answer(Struct, frozen=True):
    """What a worker answers that writes the graph of a level."""

    version: str = ""
    refused: dict[int, str] = {}
    not_run: tuple[runtime.NotRunKind, str, Any] | None = None


def audit_levels(
    network: Network,
    levels: Levels,
    shapes: Mapping[str, Sequence[int]],
    arrays: Mapping[str, Array],
    contract: Contract,
    file: AuditedGraph,
    given: Sequence[GivenRange] = (),
) -> AuditedLevels:
    """Audit the graphs that ONNX Runtime makes of a model on the CPU.

    Args:
        network: The model, with the sizes of its file.
        levels: Which graphs.
        shapes: The sizes of inputs that are given, by name.
        arrays: The inputs of a run, by name; no run where there are none.
        contract: What holds of the inputs.
        file: The audit of the file.
        given: The ranges that are given of inputs.

    Raises:
        ProviderError: An environment that must be asked has no ONNX Runtime, or does
            not start.
    """
    result = AuditedLevels()
    names = list(RUNTIME_LEVELS) if levels.names is None else list(levels.names)
    if not names:
        return result
    audit_one = partial(
        audit_graph,
        shapes=shapes,
        arrays=arrays,
        contract=contract,
        file=file,
        given=given,
    )
    for python in levels.pythons or [sys.executable]:
        with tempfile.TemporaryDirectory(prefix="onnxgather-") as folder:
            try:
                # A run needs the constants.
                writer = _Writer(network, python, folder, bool(arrays))
                answer = writer.answer([RUNTIME_LEVELS[name] for name in names])
            except OnnxGatherError as error:
                # What was asked for must be there.
                if levels.names or levels.pythons:
                    raise
                result.notes.append(f"ONNX Runtime was not asked: {error}")
                continue
            refused = {name: answer.refused.get(RUNTIME_LEVELS[name]) for name in names}
            opens = None in refused.values()
            if not opens:
                # A level may refuse what it changes (`quirks.FOLDED_FAILURE`).
                opens = writer.refusal(DISABLED) is None
            written = _Written(answer.version, refused, opens)
            _audit_written(written, folder, audit_one, result)
    return result


def _needs_weights(network: Network, size: int) -> bool:
    """Return whether an audit may read large constants of the graphs of a model.

    It reads integers. Those of a large model are few, if there are any.

    Args:
        network: The model.
        size: Its bytes.
    """
    if size <= SMALL_MODEL:
        return True
    for scope in network.scopes():
        for tensor in scope.stored.values():
            # Indices and sizes are integers of 32 or 64 bits.
            width = _INDEX_WIDTHS.get(name_of(tensor.data_type), 0)
            if width * math.prod(tensor.dims) >= LEAST_WEIGHT:
                return True
    return False


class _Writer:
    """The ONNX Runtime of an environment, which writes graphs of a model to a folder.

    Args:
        network: The model.
        python: The interpreter of the environment.
        folder: The folder.
        keeps_weights: Whether large constants are written, too. They are also written
            if an audit may read them.

    Raises:
        OnnxGatherError: The model is an object that protobuf cannot write.
    """

    def __init__(
        self, network: Network, python: str, folder: str, keeps_weights: bool
    ) -> None:
        self._worker = shared_worker(python, WRITING_TIMEOUT)
        self._content = b""
        path: str | None = network.path
        if not network.is_file:
            path = _file_of(network, folder)
        # Its external data is in a folder that the model does not name.
        if path is None:
            pieces = serialized_pieces(network.proto, network.weights)
            self._content = b"".join(pieces)
        size = _size_of(network, path, len(self._content))
        self._is_small = size <= SMALL_MODEL
        self._arguments = {
            "target": folder,
            "path": path and os.path.abspath(path),
            "folder": folder_of(network.path),
            "keeps_weights": keeps_weights or _needs_weights(network, size),
            "least_weight": LEAST_WEIGHT,
            "memory": WRITING_MEMORY + COPIES * size,
        }

    def answer(self, levels: Sequence[int]) -> _Answer:
        """Write the graphs of levels.

        Raises:
            ProviderError: The program does not start, or has no ONNX Runtime with the
                CPU provider.
        """
        # Case 1: a small model, whose graphs are written in one go.
        if self._is_small:
            with suppress(NoAnswerError):
                return self._checked(levels, self._content)
        # Case 2: a large model, or one that ends the program at some level.
        answer = self._checked([], b"")
        refused: dict[int, str] = {}
        for level in levels:
            refusal = self.refusal(level)
            if refusal is not None:
                refused[level] = refusal
        return replace(answer, refused=refused)

    def _checked(self, levels: Sequence[int], content: bytes) -> _Answer:
        answer = self._ask(levels, content)
        if answer.not_run is not None:
            kind, detail, _ = answer.not_run
            raise ProviderError(_CPU.why_not_run(kind, detail))
        return answer

    def refusal(self, level: int) -> str | None:
        """Write the graph of a level; return why there is none, or None."""
        try:
            answer = self._ask([level], self._content)
        except NoAnswerError as error:  # the model ends the program, or takes too long
            return str(error)
        return answer.refused.get(level)

    def _ask(self, levels: Sequence[int], content: bytes) -> _Answer:
        arguments = {"levels": levels, **self._arguments}
        return self._worker.exchange(_decoded, {"graphs": arguments}, content)


def _decoded(header: bytes, _: bytes) -> _Answer:
    return msgspec.json.decode(header, type=_Answer)


def _file_of(network: Network, folder: str) -> str | None:
    """Write a model to a folder; return its path, or None if it has external data.

    Raises:
        OnnxGatherError: protobuf cannot write it.
    """
    if external_files(network.proto):
        return None
    path = os.path.join(folder, "model.onnx")
    try:
        # A copy of a large model in memory would be as large.
        with open(path, "wb") as file:
            file.writelines(network.pieces())
    except (EncodeError, ValueError) as error:
        rule = "the model must be an object that protobuf can write"
        raise OnnxGatherError(f"{rule}, but it cannot: {error}") from None
    return path


def _size_of(network: Network, path: str | None, size: int) -> int:
    """Return the bytes of a model, with those of its external data.

    Args:
        network: The model.
        path: Its file, if there is one.
        size: The bytes of the model without a file.
    """
    paths = external_paths(network.path, network.proto)
    if path is not None:
        paths.append(path)
    for data_path in paths:
        # ONNX Runtime says what is wrong with a file that is not there.
        with suppress(OSError, ValueError):
            size += os.path.getsize(data_path)
    return size


def _audit_written(
    written: _Written,
    folder: str,
    audit_one: Callable[[Network], AuditedGraph],
    result: AuditedLevels,
) -> None:
    """Audit the graphs in a folder, and add them to a result."""
    audited_by_digest: dict[bytes, AuditedGraph] = {}
    failed: dict[str, list[str]] = {}
    for name, refusal in written.refused.items():
        if refusal is not None:
            sentence = f"does not open the model: {refusal}"
            failed.setdefault(sentence, []).append(name)
            continue
        path = os.path.join(folder, f"{RUNTIME_LEVELS[name]}.onnx")
        content = Path(path).read_bytes()
        # Two levels often lead to the same graph.
        digest = hashlib.sha256(content).digest()
        if digest not in audited_by_digest:
            try:
                model = ModelProto.FromString(content)
                _drop_repeated(model.graph)
                network = read_network(model, place=path)
                audited_by_digest[digest] = audit_one(network)
            except OnnxGatherError as error:
                reason = str(error).replace(path, "the graph")
                sentence = f"runs a graph that cannot be audited: {reason}"
                failed.setdefault(sentence, []).append(name)
                continue
        graph = RuntimeGraph(written.version, name, audited_by_digest[digest])
        result.graphs.append(graph)
    for sentence, failed_names in failed.items():
        if written.opens:
            result.refused.extend((written.version, name) for name in failed_names)
        where = f"ONNX Runtime {written.version}"
        # Where all levels are alike, none is named.
        if len(failed_names) < len(written.refused):
            where = f"{where} at level {', '.join(failed_names)}"
        result.notes.append(f"{where} {sentence}")


def _drop_repeated(graph: GraphProto) -> None:
    """Drop constants of a graph and of its bodies that are there twice.

    See `quirks.REPEATED_CONSTANTS`.
    """
    first_by_name: dict[str, TensorProto] = {}
    repeated: list[int] = []
    for position, tensor in enumerate(graph.initializer):
        first = first_by_name.setdefault(tensor.name, tensor)
        if first is not tensor and first == tensor:
            repeated.append(position)
    # From the end on, as the positions behind a constant change with it.
    for position in reversed(repeated):
        del graph.initializer[position]
    for node in graph.node:
        for _, body in bodies_of(node):
            _drop_repeated(body)


def with_levels(file: AuditedGraph, levels: AuditedLevels) -> AuditedGraph:
    """Return the audit of a file, in which each state is the worst of all graphs.

    Args:
        file: The audit of the graph of the file.
        levels: The audits of the other graphs. Each of their gathers that is not
            proved and that the file does not have is added, with a note.
    """
    if not levels.graphs and not levels.refused:
        return file
    names = FileNames(file.network)
    rows_by_key: dict[OperationKey, list[tuple[RuntimeLevel, IndexRange]]] = {}
    for graph in levels.graphs:
        matches = Matches(file, names, graph.audited)
        for operation in matches.new:
            where = f"ONNX Runtime {graph.version} at level {graph.level}"
            node = f"{operation.operator} {shown(operation.label)}"
            levels.notes.append(
                f"{where} runs {node}, which the file does not have, and which is not"
                " proved in range"
            )
            nodes = levels.not_proved.setdefault(graph.version, [])
            # Most graphs have a node again that a lower level has.
            if operation.label not in nodes:
                nodes.append(operation.label)
        for key in file.gathers:
            match = matches.of(key)
            row = RuntimeLevel(
                graph.level,
                match.range.state,
                match.operator,
                graph.version,
                match.out_of_range,
            )
            rows_by_key.setdefault(key, []).append((row, match.range))
    # If one level opens the model and another does not, the other one is open.
    for key, gather in file.gathers.items():
        rows_by_key.setdefault(key, []).extend(
            _refused_row(version, level, gather) for version, level in levels.refused
        )
    gathers: dict[OperationKey, AuditedGather] = {}
    versions = [graph.version for graph in levels.graphs]
    versions += [version for version, _ in levels.refused]
    for key, gather in file.gathers.items():
        rows = [row for row, _ in rows_by_key[key]]
        index_range = _worst(gather.range, rows_by_key[key])
        runtime_record = Runtime(versions[0], rows)
        gathers[key] = replace(gather, range=index_range, runtime=runtime_record)
    return replace(file, gathers=gathers)


def _refused_row(
    version: str, level: str, gather: AuditedGather
) -> tuple[RuntimeLevel, IndexRange]:
    """Return the row of a level that does not open the model, or has no audit."""
    index_range = gather.range
    if index_range.state in ("proved", "proved-if"):
        stop = f"ONNX Runtime {version}, whose level {level} was not audited"
        index_range = replace(
            index_range, state="not-proved", conditions=(), input=stop
        )
    return RuntimeLevel(level, index_range.state, None, version), index_range


def _worst(
    own: IndexRange, others: Iterable[tuple[RuntimeLevel, IndexRange]]
) -> IndexRange:
    """Return the worst of the range in the file and those in other graphs.

    It has the conditions of all of them.
    """
    worst = own
    ranges: list[IndexRange] = [own]
    for row, index_range in others:
        # It is not always sure which gather of such a graph stands for this one, so
        # its conditions are exact only where they are those of the file.
        conditions = tuple(
            replace(condition, exact=condition.exact and condition in own.conditions)
            for condition in index_range.conditions
        )
        ranges.append(replace(index_range, conditions=conditions))
        if badness(index_range) > badness(worst):
            worst = replace(index_range, level=row.level, seen=own.seen)
    # Without an end that is given, no conditions prove an index out of range.
    if worst.state != "proved-if" and worst.given is None:
        return worst
    return replace(worst, conditions=common_conditions(ranges))
