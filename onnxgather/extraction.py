"""Gathers of a model taken out of it, each with what it gets in a run."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import msgspec

from onnxgather.arrays import Array
from onnxgather.audit.capture import Gathered, capture
from onnxgather.audit.gathers import EMPTY, TIMEOUT, audit
from onnxgather.cases import Case, DescriptorCase
from onnxgather.checks import listed, shown, suggestion
from onnxgather.corpus.export import is_export
from onnxgather.descriptors import Descriptor
from onnxgather.dxdispatch import from_dict, program_files, to_dict
from onnxgather.errors import DescriptorError, OnnxGatherError
from onnxgather.files import FolderKind
from onnxgather.gather import ATTRIBUTES
from onnxgather.model.network import Graph, Network, Node, read_network
from onnxgather.providers import PROVIDERS
from onnxgather.repro.folder import runnable
from onnxgather.repro.node import case_of_arrays, read_inputs
from onnxgather.repro.trial import trials_of

MADE_BY = "onnxgather extract"

_FOLDER = FolderKind(
    "extract",
    "the folder must be new, empty or an earlier extract, got {}",
    ("gathers",),
    ("index.json",),
    partial(is_export, made_by=MADE_BY),
)


class Extracted(msgspec.Struct, frozen=True):
    """A gather that was taken out of a model, or why it was not."""

    node: str
    place: str
    operator: str
    folder: str | None = None
    """Its folder, below that of the extract."""
    left_out: str | None = None
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
    every = audit(path, shapes=shapes).gathers
    found = [one for one in every if node in (None, one.node, one.output_name)]
    _check_found(path, node, found, [one.node for one in every])
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
            known = (f"{role} {'?' if n is None else [*n]}" for role, n in pairs)
            given = " and ".join(known).replace("None", "?")
            rule = "its sizes must be known, as --shape NAME=2,16 of an input may tell"
            yield name, OnnxGatherError(f"{rule}, got {given}")


def gather_cases(
    path: str, inputs: Mapping[str, Array], node: str | None = None
) -> Iterator[tuple[Extracted, Case | None]]:
    """Yield the gathers of a model, each with the case of its first execution.

    Args:
        path: The file of the model.
        inputs: Arrays for its graph inputs, by name.
        node: The name of a gather or of its output; None for all gathers.

    Raises:
        OnnxGatherError: The model, an input or the node is not as it must be.
        ProviderError: There is no CPU provider.
    """
    network = read_network(path)
    missing = [name for name in network.required if name not in inputs]
    if missing:
        rule = f"{path}: the inputs must hold an array for each input of the model"
        raise OnnxGatherError(f"{rule}, got none for {', '.join(map(shown, missing))}")
    network = read_network(network, {name: inputs[name].shape for name in network.required})
    found = list(_chosen(network, node))
    captured = capture(
        network, {k: v for k, v in inputs.items() if k in network.main.inputs}, TIMEOUT
    )
    for graph, one in found:
        seen = captured.gathers.get(one, [])
        yield taken_out(path, graph, one, seen)


def case_of_gather(path: str, inputs: str | None, node: str | None) -> DescriptorCase:
    """The case of the only gather of a model, or of one that is named.

    Args:
        path: The file of the model.
        inputs: The .npz file of its graph inputs; None where it needs none.
        node: As of `gather_cases`.

    Raises:
        OnnxGatherError: As `gather_cases`; or there are several gathers, or it did not run.
    """
    found = list(gather_cases(path, read_inputs(inputs) if inputs else {}, node))
    names = [*dict.fromkeys(shown(told.node) for told, _ in found)]
    if len(names) > 1:
        raise OnnxGatherError(f"{path}: --node must be one of {listed(names, 10)}")
    told, case = next((pair for pair in found if pair[1] is not None), found[0])
    if not isinstance(case, DescriptorCase):
        rule = told.left_out or (case.node.rule if case else "")
        raise OnnxGatherError(f"{path}: {told.place}: node {shown(told.node)}: {rule}")
    return case


def _chosen(network: Network, name: str | None) -> Iterator[tuple[Graph, Node]]:
    every = [(graph, one) for graph in network.graphs() for one in graph.nodes if one.is_gather]
    found = [(g, n) for g, n in every if name is None or name in (n.name, *n.outputs)]
    _check_found(network.path, name, found, [one.label for _, one in every])
    yield from found


def _check_found(path: str, name: str | None, found: Sequence[object], names: list[str]) -> None:
    if name is None and not names:
        raise OnnxGatherError(f"{path}: the model must have a gather, got none")
    if not found:
        rule = f"{path}: node {shown(name)} must be one of the model's {len(names)} gathers"
        raise OnnxGatherError(rule + suggestion(name or "", names))


def taken_out(
    path: str, graph: Graph, node: Node, seen: list[Gathered]
) -> tuple[Extracted, Case | None]:
    """A gather with the case of the first of its executions; without one, why it was left out."""
    told = Extracted(node.label, graph.where, node.operator, executions=len(seen))
    data = None
    if seen:
        data = graph.constant(node.inputs[0]) if seen[0].data is None else seen[0].data
    if data is None:
        return msgspec.structs.replace(told, left_out="it did not run with these inputs"), None
    number = node.attributes.get(ATTRIBUTES[node.operator], 0)
    where = f"{path}: {graph.where}: node {shown(node.label)}"
    try:
        case = case_of_arrays(where, node.operator, number, data, seen[0].indices)
    except OnnxGatherError as error:
        return msgspec.structs.replace(told, left_out=str(error).removeprefix(f"{where}: ")), None
    if isinstance(case, DescriptorCase):
        told = msgspec.structs.replace(told, descriptor=to_dict(case.descriptor))
    return told, case


def extract(
    path: str, inputs: Mapping[str, Array], folder: str, node: str | None = None
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
    _FOLDER.check(folder)
    done: list[Extracted] = []
    files: list[tuple[str, bytes]] = []
    for number, (told, case) in enumerate(gather_cases(path, inputs, node), 1):
        if case is not None:
            name = re.sub(r"[^A-Za-z0-9.]+", "_", told.node).strip("._")[:80]
            below = f"gathers/{number:03}_{name}"
            files += [(f"{below}/{file}", data) for file, data in _contents(path, told, case)]
            told = msgspec.structs.replace(told, folder=below)
        done.append(told)
    index = {
        "made_by": f"{MADE_BY} {version('onnxgather')}",
        "model": os.path.basename(path),
        "gathers": done,
    }
    content = msgspec.json.format(msgspec.json.encode(index), indent=1) + b"\n"
    _FOLDER.write(folder, [*files, ("index.json", content)])
    return done


def _contents(path: str, told: Extracted, case: Case) -> Iterator[tuple[str, bytes]]:
    title = f"{told.operator} {shown(told.node)} of {os.path.basename(path)}"
    trial = next(trials_of(case, "portable"))
    yield from runnable(case, title, PROVIDERS["cpu"].name, trial).items()
    if isinstance(case, DescriptorCase):
        yield from program_files(case.descriptor, case.data, case.indices, title).items()
