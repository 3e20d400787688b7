"""The graphs that ONNX Runtime makes of a model, each audited as a model of its own.

ONNX Runtime does not run the graph of the file (`quirks.REWRITTEN_GRAPHS`). A gather of
such a graph must be proved under the contract of the file.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr, replace
from onnx import GraphProto, TensorProto

from onnxgather.auditing.graph_audit import AuditedGraph, OperationKey, badness
from onnxgather.auditing.output.text import sentence_of
from onnxgather.auditing.proof.contract import NamedSizes
from onnxgather.auditing.records import (
    RANGE_STATES,
    AuditedGather,
    GraphGather,
    Runtime,
    RuntimeGraph,
)
from onnxgather.core.checks import check_type, plain_text, sequence, shown
from onnxgather.core.errors import OnnxGatherError, ProviderError, pass_foreign
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
from onnxgather.core.model.values import name_of
from onnxgather.core.model.wire import parsed_in_pieces

DISABLED = OPTIMIZATION_LEVELS["disabled"]
"""ONNX Runtime's number for no optimization."""

RUNTIME_LEVELS: Mapping[str, int] = {
    name: number for name, number in OPTIMIZATION_LEVELS.items() if number != DISABLED
}
"""The levels of optimization, with ONNX Runtime's own numbers."""

DEFAULT_LEVEL = "all"
"""The level that a session has by default."""

MOST_UNASKED = 2**30
"""ONNX Runtime is asked for the graphs of a model with more bytes only if a level is
named."""

TOO_LARGE = (
    f"the model has more than {MOST_UNASKED // 2**30} GiB, and no level is named"
)
"""Why ONNX Runtime is not asked for the graphs of a large model."""

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
    """The levels; None for that of a session, if onnxruntime is installed."""
    pythons: Sequence[str] = ()
    """The interpreters of the environments whose ONNX Runtime is asked; none for that
    of this environment."""

    def __post_init__(self) -> None:
        # Lists, as an array has no truth value, and an iterator ends.
        pythons = [plain_text(item) for item in sequence("runtimes", self.pythons)]
        force_setattr(self, "pythons", pythons)
        for python in pythons:
            check_type("runtimes", python, "a list of paths", str)
        if self.names is None:
            return
        names = [plain_text(item) for item in sequence("levels", self.names)]
        force_setattr(self, "names", names)
        for name in names:
            check_type("levels", name, "a list of names", str)
            if name not in RUNTIME_LEVELS:
                rule = f"levels must be some of {', '.join(RUNTIME_LEVELS)}"
                raise OnnxGatherError(f"{rule}, got {shown(name)}")


class AuditedRuntimes(Struct, frozen=True):
    """The audits of the graphs that ONNX Runtime makes of a model."""

    rows: list[RuntimeGraph] = []
    """What is reported of each graph."""
    audited: list[tuple[list[str], AuditedGraph]] = []
    """The levels and the audits of the graphs that could be audited."""
    unasked: list[str] = []
    """Why graphs of an ONNX Runtime are not known, a sentence each."""

    @property
    def record(self) -> Runtime | None:
        """The record of all graphs; None if there is none."""
        return Runtime(self.rows[0].version, self.rows) if self.rows else None

    @property
    def reason(self) -> str | None:
        """Why there is no graph; None if there is one."""
        return None if self.rows else "; ".join(self.unasked)

    @property
    def notes(self) -> Iterator[str]:
        """A sentence for each graph that is not known, if others are."""
        if not self.rows:
            return
        yield from self.unasked
        for row in self.rows:
            if row.refused is not None:
                levels = ", ".join(row.levels)
                yield f"ONNX Runtime {row.version} at level {levels} {row.refused}"

    @property
    def operators(self) -> set[tuple[str, str]]:
        """The domains and the names of the operators with indices of all graphs."""
        return {
            (gather.domain, gather.op)
            for _, graph in self.audited
            for gather in graph.gathers.values()
        }


class _Answer(Struct, frozen=True):
    """What a worker answers that writes the graph of a level."""

    version: str = ""
    refused: dict[int, str] = {}
    not_run: tuple[runtime.NotRunKind, str, Any] | None = None


def audit_levels(
    network: Network,
    levels: Levels,
    is_run: bool,
    audit_one: Callable[[Network], AuditedGraph],
    file: AuditedGraph,
    sizes: NamedSizes,
) -> AuditedRuntimes:
    """Audit the graphs that ONNX Runtime makes of a model on the CPU.

    Args:
        network: The model, with the sizes of its file.
        levels: Which graphs.
        is_run: Whether the graphs run: a run needs the constants.
        audit_one: Audits a graph under the contract of the file.
        file: The audit of the file.
        sizes: The places of the open sizes, as of the contract.

    Raises:
        ProviderError: An environment that must be asked has no ONNX Runtime, or does
            not start.
    """
    names = [DEFAULT_LEVEL] if levels.names is None else list(levels.names)
    result = AuditedRuntimes()
    if not names:
        result.unasked.append("no level is asked for")
        return result
    # A model without gathers needs no other graph.
    if not file.gathers:
        result.unasked.append("the model has no operator with indices")
        return result
    for python in levels.pythons or [sys.executable]:
        with tempfile.TemporaryDirectory(prefix="onnxgather-") as folder:
            try:
                writer = _Writer(network, python, folder, is_run)
                if levels.names is None and writer.size > MOST_UNASKED:
                    result.unasked.append(TOO_LARGE)
                    return result
                version = writer.version()
            except OnnxGatherError as error:
                # What was asked for must be there.
                if levels.names or levels.pythons:
                    raise
                result.unasked.append(f"ONNX Runtime was not asked: {error}")
                continue
            levels_by_path, levels_by_refusal = writer.write(names)
            # A level may refuse what it changes (`quirks.FOLDED_FAILURE`).
            if not levels_by_path and writer.refusal(DISABLED) is not None:
                where = f"ONNX Runtime {version}"
                why = next(iter(levels_by_refusal))
                result.unasked.append(f"{where} {why}")
                continue
            for path, level_names in levels_by_path.items():
                row = RuntimeGraph(version, level_names)
                try:
                    audited = audit_one(_read_graph(path))
                except OnnxGatherError as error:
                    why = str(error).replace(path, "the graph")
                    refused = f"runs a graph that cannot be audited: {why}"
                    result.rows.append(replace(row, refused=refused))
                    continue
                open_gathers = list(_not_proved(audited, row, file, sizes))
                count = len(audited.gathers)
                row = replace(row, gathers=count, not_proved=open_gathers)
                result.rows.append(row)
                result.audited.append((level_names, audited))
            for refused, level_names in levels_by_refusal.items():
                row = RuntimeGraph(version, level_names, refused=refused)
                result.rows.append(row)
    return result


def _not_proved(
    audited: AuditedGraph, row: RuntimeGraph, file: AuditedGraph, sizes: NamedSizes
) -> Iterator[GraphGather]:
    """Yield the gathers of a graph that are not proved.

    Args:
        audited: The audit of the graph.
        row: What is reported of the graph.
        file: The audit of the file.
        sizes: The places of the open sizes.
    """
    badness_in_file: dict[tuple[str, str], int] = {}
    excluded_in_file: set[tuple[str, str]] = set()
    for own in file.gathers.values():
        name = (own.node, own.op)
        worst = max(badness(own.range), badness_in_file.get(name, 0))
        badness_in_file[name] = worst
        if own.range.excluded:
            excluded_in_file.add(name)
    for gather in audited.gathers.values():
        if gather.range.state == "proved":
            continue
        index_range = gather.range
        # The graph may not be run as it is written, so no run is known to fail. And a
        # gather that the contract excludes fails under the contract alone.
        is_excluded = (gather.node, gather.op) in excluded_in_file
        if index_range.state == "invalid" or is_excluded:
            index_range = replace(index_range, state="not-proved")
        # What needs conditions beyond those of the contract is not proved.
        worst = max(badness(index_range), RANGE_STATES.index("not-proved"))
        in_file = badness_in_file.get((gather.node, gather.op), 0)
        yield GraphGather(
            gather.node,
            gather.place,
            gather.op,
            row.levels,
            index_range.state,
            sentence_of(gather, sizes),
            worst <= in_file,
        )


def _read_graph(path: str) -> Network:
    """Return a graph that ONNX Runtime wrote to a file.

    Raises:
        OnnxGatherError: It cannot be read.
    """
    with open(path, "rb") as stream:
        model = parsed_in_pieces(stream)
    _drop_repeated(model.graph)
    return read_network(model, place=path)


def with_rewritten(
    gathers: Mapping[OperationKey, AuditedGather], runtimes: AuditedRuntimes
) -> dict[OperationKey, AuditedGather]:
    """Return the records of a file, with the levels whose graphs lack their nodes."""
    levels_by_key: dict[OperationKey, dict[str, None]] = {key: {} for key in gathers}
    for levels, audited in runtimes.audited:
        names = {(gather.node, gather.op) for gather in audited.gathers.values()}
        for key, gather in gathers.items():
            if (gather.node, gather.op) not in names:
                levels_by_key[key].update(dict.fromkeys(levels))
    return {
        key: replace(gather, rewritten_at=tuple(levels_by_key[key]))
        for key, gather in gathers.items()
    }


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
        OnnxGatherError: As `Network.write`.
    """

    def __init__(
        self, network: Network, python: str, folder: str, keeps_weights: bool
    ) -> None:
        self._worker = shared_worker(python, WRITING_TIMEOUT)
        self._folder = folder
        self._content = b""
        path = network.runtime_path
        # The external data of an object is in a folder that the model does not name.
        if path is None and external_files(network.proto):
            self._content = network.content
        elif path is None:
            path = os.path.join(folder, "model.onnx")
            network.write(path)
        self.size = _size_of(network, path, len(self._content))
        """The bytes of the model, with those of its external data."""
        self._arguments = {
            "target": folder,
            "path": path and os.path.abspath(path),
            "folder": folder_of(network.path),
            "keeps_weights": keeps_weights or _needs_weights(network, self.size),
            "least_weight": LEAST_WEIGHT,
            "memory": WRITING_MEMORY + COPIES * self.size,
        }

    def version(self) -> str:
        """Return the version of the ONNX Runtime.

        Raises:
            ProviderError: The program does not start, or has no ONNX Runtime with the
                CPU provider.
        """
        answer = self._ask([], b"")
        if answer.not_run is not None:
            kind, detail, _ = answer.not_run
            raise ProviderError(_CPU.why_not_run(kind, detail))
        return answer.version

    def write(
        self, names: Sequence[str]
    ) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Write the graphs of levels.

        Returns:
            The levels by the path of their graph, as two levels often lead to the same
            one; and the levels without a graph, by what ONNX Runtime does.
        """
        levels_by_path: dict[str, list[str]] = {}
        levels_by_refusal: dict[str, list[str]] = {}
        path_by_digest: dict[bytes, str] = {}
        for name in names:
            refusal = self.refusal(RUNTIME_LEVELS[name])
            if refusal is not None:
                sentence = f"does not open the model: {refusal}"
                levels_by_refusal.setdefault(sentence, []).append(name)
                continue
            path = os.path.join(self._folder, f"{RUNTIME_LEVELS[name]}.onnx")
            digest = hashlib.sha256(Path(path).read_bytes()).digest()
            path = path_by_digest.setdefault(digest, path)
            levels_by_path.setdefault(path, []).append(name)
        return levels_by_path, levels_by_refusal

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
        try:
            size += os.path.getsize(data_path)
        except (OSError, ValueError) as error:
            pass_foreign(error)
    return size


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
