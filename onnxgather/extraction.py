"""Gathers of a model taken out of it, each with what it gets in a run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any

import msgspec

from onnxgather.arrays import Array
from onnxgather.audit.capture import Gathered, capture, is_gather
from onnxgather.audit.gathers import TIMEOUT
from onnxgather.cases import Case, DescriptorCase
from onnxgather.checks import shown, suggestion
from onnxgather.corpus.export import is_export
from onnxgather.dxdispatch import to_dict, write_program
from onnxgather.errors import OnnxGatherError
from onnxgather.files import FolderKind
from onnxgather.gather import ATTRIBUTES
from onnxgather.model.network import Graph, Network, Node, read_network
from onnxgather.providers import PROVIDERS
from onnxgather.repro.folder import runnable
from onnxgather.repro.node import case_of_arrays
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
        yield _case(path, graph, one, seen)


def _chosen(network: Network, name: str | None) -> Iterator[tuple[Graph, Node]]:
    every = [(graph, one) for graph in network.graphs() for one in graph.nodes if is_gather(one)]
    found = [(g, n) for g, n in every if name is None or name in (n.name, *n.outputs)]
    names = [one.label for _, one in every]
    if not found:
        rule = f"{network.path}: node {shown(name)} must be one of the model's {len(every)} gathers"
        raise OnnxGatherError(rule + suggestion(name or "", names))
    yield from found


def _case(
    path: str, graph: Graph, node: Node, seen: list[Gathered]
) -> tuple[Extracted, Case | None]:
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
        program = write_program(case.descriptor, case.data, case.indices, comment=title)
        yield "program.json", program.encode()
