"""Gathers of a model taken out of it, each with its data and indices in a run."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from onnxgather.auditing.audit import EMPTY, RUN_TIMEOUT, audit
from onnxgather.auditing.capture import Gathered, capture, part_of
from onnxgather.checking.cases import Case, DescriptorCase
from onnxgather.checking.corpus.export import index_of, is_export
from onnxgather.checking.repro.candidates import Candidate, case_of
from onnxgather.checking.repro.folder import runnable, trials_of
from onnxgather.core.checks import (
    check_name,
    check_type,
    listed,
    mapping,
    shown,
    suggestion,
)
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.spelling import from_dict, to_dict
from onnxgather.core.errors import DescriptorError, OnnxGatherError
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.files import FolderKind
from onnxgather.core.gather import gather_of_node
from onnxgather.core.model.cropping import constant_data
from onnxgather.core.model.given_inputs import checked
from onnxgather.core.model.network import Network, Operation, Scope, read_network
from onnxgather.core.model.values import DIRECTML_NAMES, sizes_text, type_name
from onnxgather.core.programs.writer import program_files

_MADE_BY = "onnxgather extract"

_FOLDER = FolderKind(
    "extract",
    "the folder must be new, empty or an earlier extract, got {}",
    ("gathers",),
    ("index.json",),
    partial(is_export, made_by=_MADE_BY),
)


class Extracted(msgspec.Struct, frozen=True):
    """A gather that was taken out of a model, or why it was not."""

    node: str
    place: str
    operator: str
    folder: str | None = None
    """Its folder, below that of the extract."""
    left_out: str | None = None
    cropped: str | None = None
    """How its data was cropped, as it is a large constant."""
    descriptor: dict[str, Any] | None = None
    executions: int = 0
    """How often it ran, as in a loop; its folder holds the first."""


def gather_descriptors(
    path: str, shapes: Mapping[str, Sequence[int]], node: str | None = None
) -> Iterator[tuple[str, Descriptor | OnnxGatherError]]:
    """Yield the gathers of a model by name, each with its descriptor or why it has none.

    A name is the node's, with the way to it where several have that name.

    Args:
        path: The file of the model.
        shapes: The sizes of graph inputs, by name.
        node: As of `gather_cases`.

    Raises:
        OnnxGatherError: The model, a size or the node is not as it must be.
    """
    audited = audit(path, shapes=shapes)
    found = [
        one for one in audited.gathers if node in (None, one.node, one.output_name)
    ]
    _check_found(path, node, found, [one.node for one in audited.gathers])
    tell = " ".join(
        option for option in audited.options if option.startswith("--shape ")
    )
    tell = tell or "a run by onnxgather extract --inputs FILE.npz"
    names, taken = Counter(one.node for one in found), set[str]()
    for number, one in enumerate(found, 1):
        name = one.node if names[one.node] == 1 else f"{one.node} in {one.place}"
        name += f" ({number})" if name in taken else ""
        taken.add(name)
        if one.descriptor is not None:
            yield name, from_dict(one.descriptor)
        elif one.refused is not None:
            yield name, DescriptorError(f"DirectML refuses it: {one.refused}")
        elif one.range.why == EMPTY:
            yield name, DescriptorError(EMPTY)
        else:
            pairs = [("data", one.data.sizes), ("indices", one.indices.sizes)]
            known = (
                f"{role} {'?' if n is None else sizes_text(n)}" for role, n in pairs
            )
            given = " and ".join(known)
            rule = f"its sizes must be known, as {tell} may tell"
            yield name, OnnxGatherError(f"{rule}, got {given}")


def gather_cases(
    path: str,
    inputs: Mapping[str, Array],
    node: str | None = None,
    timeout: float = RUN_TIMEOUT,
) -> Iterator[tuple[Extracted, Case | None]]:
    """Yield the gathers of a model, each with the case of its first execution.

    Args:
        path: The file of the model.
        inputs: Arrays for its graph inputs, by name. For a node these may be its part of them, and
            other values of the main graph, which are then not computed.
        node: The name of a gather or of its output; None for all gathers.
        timeout: Seconds that the run may take.

    Raises:
        OnnxGatherError: The model, an input or the node is not as it must be.
        ProviderError: There is no CPU provider.
    """
    network = read_network(path)
    found = _chosen(network, node)
    if node is not None:
        inputs = checked(network, inputs, inner=True)
        holders = (
            n for n in network.main.operations if _holds(n, {one for _, one in found})
        )
        wanted = [name for holder in holders for name in holder.outputs]
        network = part_of(network, wanted, inputs)
    captured = capture(network, checked(network, inputs), timeout)
    names = Counter(
        label for label, _ in {(one.label, one.outputs) for _, one in found}
    )
    stop = captured.stop if node is not None else None
    for scope, one in found:
        told, case = _taken_out(path, scope, one, captured.gathers.get(one, []), stop)
        if names[one.label] > 1:
            told = msgspec.structs.replace(told, node=one.outputs[0])
        yield told, case


def case_of_node(
    path: str,
    inputs: Mapping[str, Array],
    node: str | None,
    timeout: float = RUN_TIMEOUT,
) -> Case:
    """The case of the only gather of a model, or of one that is named.

    Args:
        path: The file of the model.
        inputs: As of `gather_cases`.
        node: As of `gather_cases`.
        timeout: As of `gather_cases`.

    Raises:
        OnnxGatherError: As `gather_cases`; or there are several gathers, or it did not run.
        ProviderError: There is no CPU provider.
    """
    found = list(gather_cases(path, inputs, node, timeout))
    names = [*dict.fromkeys(shown(told.node) for told, _ in found)]
    if len(names) > 1:
        raise OnnxGatherError(f"{path}: --node must be one of {listed(names, 10)}")
    told, case = next((pair for pair in found if pair[1] is not None), found[0])
    if case is None:
        raise OnnxGatherError(
            f"{path}: {told.place}: node {shown(told.node)}: {told.left_out}"
        )
    return case


def _chosen(network: Network, name: str | None) -> list[tuple[Scope, Operation]]:
    every = [
        (s, one) for s in network.scopes() for one in s.operations if one.is_gather
    ]
    found = [(g, n) for g, n in every if name is None or name in (n.name, *n.outputs)]
    _check_found(network.path, name, found, [one.label for _, one in every])
    return found


def _holds(operation: Operation, chosen: Collection[Operation]) -> bool:
    """Whether an operation is one of those chosen, or has one of them in its bodies."""
    inner = (one for body in operation.bodies.values() for one in body.operations)
    return operation in chosen or any(_holds(one, chosen) for one in inner)


def _check_found(
    path: str, name: str | None, found: Sequence[object], names: list[str]
) -> None:
    if not names:
        raise OnnxGatherError(f"{path}: the model must have a gather, got none")
    if not found:
        rule = (
            f"{path}: node {shown(name)} must be one of the model's {len(names)}"
            " gathers"
        )
        raise OnnxGatherError(rule + suggestion(name or "", names))


def _taken_out(
    path: str,
    scope: Scope,
    operation: Operation,
    seen: Sequence[Gathered],
    stop: str | None = None,
) -> tuple[Extracted, Case | None]:
    """A gather with the case of the first of its executions; without one, why it was left out.

    Args:
        path: The file of the model.
        scope: The graph of the gather.
        operation: The gather; an index out of range is an error, as in ONNX.
        seen: Its executions.
        stop: Why it did not run, if that is known.
    """
    told = Extracted(
        operation.label, scope.where, operation.operator, executions=len(seen)
    )
    if not seen:
        left_out = stop or "it did not run with these inputs"
        return msgspec.structs.replace(told, left_out=left_out), None
    data, indices = seen[0].inputs
    if data is None:
        data, indices = constant_data(scope, operation, indices)
        whole = scope.type_of(operation.inputs[0]).sizes
        if data.shape != whole:
            cropped = (
                f"data {sizes_text(whole or ())} is cropped to {sizes_text(data.shape)}"
            )
            told = msgspec.structs.replace(
                told, cropped=f"{cropped}, as no more is read"
            )
    where = f"{path}: {scope.where}: node {shown(operation.label)}"
    try:
        _check_type("data", data)
        _check_type("indices", indices)
        gather = gather_of_node(
            operation.operator, data.shape, indices.shape, operation.number
        )
        candidate = Candidate(gather.operator, gather.number, data, indices)
        case = case_of(candidate, where, "error")
    except OnnxGatherError as error:
        return msgspec.structs.replace(told, left_out=str(error)), None
    if isinstance(case, DescriptorCase):
        told = msgspec.structs.replace(told, descriptor=to_dict(case.descriptor))
    return told, case


def _check_type(role: str, array: Array) -> None:
    if type_name(array) not in DIRECTML_NAMES:
        types = ", ".join(TensorDataType.__members__)
        rule = f"{role} must be of a type that DirectML gathers ({types})"
        raise OnnxGatherError(f"{rule}, got {type_name(array)}")


def extract(
    path: str | Path,
    inputs: Mapping[str, Array],
    folder: str | Path,
    node: str | None = None,
) -> list[Extracted]:
    """Write a folder for each gather of a model: a program, a model, its data and a script.

    Args:
        path: The file of the model.
        inputs: Arrays for its graph inputs, by name.
        folder: The folder to write, which must be new, empty or an earlier extract.
        node: As of `gather_cases`.

    Raises:
        OnnxGatherError: As `gather_cases`; or the folder holds other files.
        ProviderError: There is no CPU provider.
    """
    for name, value in (("path", path), ("folder", folder)):
        check_type(name, value, "a path", str, Path)
        check_name(name, str(value))
    check_type("node", node, "the name of a node", str, type(None))
    path, folder, inputs = str(path), str(folder), mapping("inputs", inputs)
    _FOLDER.check(folder)
    done: list[Extracted] = []

    def files() -> Iterator[tuple[str, bytes]]:
        for number, (told, case) in enumerate(gather_cases(path, inputs, node), 1):
            if case is not None:
                below = f"gathers/{file_stem(number, told.node)}"
                yield from (
                    (f"{below}/{file}", data)
                    for file, data in _contents(path, told, case)
                )
                told = msgspec.structs.replace(told, folder=below)
            done.append(told)
        yield (
            "index.json",
            index_of(_MADE_BY, model=os.path.basename(path), gathers=done),
        )

    _FOLDER.write(folder, files())
    return done


def file_stem(number: int, name: str) -> str:
    """How a file or a folder of a gather is named, such as `002_word_Gather`."""
    plain = re.sub(r"[^A-Za-z0-9.]+", "_", name).strip("._")[:80]
    return f"{number:03}_{plain}"


def _contents(path: str, told: Extracted, case: Case) -> Iterator[tuple[str, bytes]]:
    title = f"{told.operator} {shown(told.node)} of {os.path.basename(path)}"
    title += f": {told.cropped}" if told.cropped else ""
    trial = next(trials_of(case, "portable"))
    yield from runnable(case, title, PROVIDERS["cpu"].name, trial).items()
    if isinstance(case, DescriptorCase):
        yield from program_files(
            case.descriptor, case.data, case.indices, title
        ).items()
