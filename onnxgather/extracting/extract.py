"""The gathers of a model, each with its data and indices in a run."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from onnxgather.auditing.audit import audit
from onnxgather.auditing.capture import Gathered, capture, part_of
from onnxgather.auditing.cropping import constant_data
from onnxgather.auditing.graph_audit import EMPTY, RUN_TIMEOUT
from onnxgather.auditing.records import Audit, AuditedGather
from onnxgather.checking.cases import Case, DescriptorCase
from onnxgather.checking.corpus.export import index_of, is_export
from onnxgather.checking.folders import FolderKind
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.repro.candidates import Candidate, case_of
from onnxgather.checking.repro.folder import runnable, trials_of
from onnxgather.core.checks import (
    check_name,
    check_type,
    listed,
    mapping,
    path_text,
    plain_text,
    shown,
    suggestion,
)
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.spelling import from_dict, to_dict
from onnxgather.core.errors import DescriptorError, OnnxGatherError
from onnxgather.core.execution.runtime import CPU
from onnxgather.core.files import check_outside
from onnxgather.core.gather import gather_of_node
from onnxgather.core.model.given_inputs import GivenArray, checked
from onnxgather.core.model.network import Network, Operation, Scope, read_network
from onnxgather.core.model.values import sizes_text
from onnxgather.core.programs.writer import program_files
from onnxgather.core.public import public

_MADE_BY = "onnxgather extract"

_FOLDER = FolderKind(
    "extract",
    "the folder must be new, empty or an earlier extract, got {}",
    ("gathers",),
    ("index.json",),
    partial(is_export, made_by=_MADE_BY),
)


@public
class Extracted(msgspec.Struct, frozen=True):
    """A gather that was taken out of a model, or why it was not.

    Example:
        >>> path = "models/networks/keywords.onnx"
        >>> inputs = np.load("models/networks/keywords.npz")
        >>> (word,) = og.extract(path, inputs, "gathers", node="word_embedding")
        >>> word.folder, word.executions, word.descriptor["type"]
        ('gathers/001_word_embedding', 1, 'DML_OPERATOR_GATHER')
    """

    node: str
    place: str
    operator: str
    folder: str | None = None
    """Its folder, below that of the extract."""
    left_out: str | None = None
    cropped: str | None = None
    """How its data was cropped, as it is a large constant."""
    descriptor: dict[str, Any] | None = None
    no_descriptor: str | None = None
    """Why no descriptor of DirectML says it, so that its folder has no program."""
    executions: int = 0
    """How often it ran, as in a loop; its folder holds the first."""


def gather_descriptors(
    path: str, shapes: Mapping[str, Sequence[int]], node: str | None
) -> Iterator[tuple[str, Descriptor | OnnxGatherError]]:
    """Yield the gathers of a model by name, each with its descriptor or an error.

    A name is the node's, with the path to it where several nodes have that name.

    Args:
        path: The file of the model.
        shapes: The sizes of graph inputs, by name.
        node: As of `gather_cases`.

    Raises:
        OnnxGatherError: The model, a size or the node is not as it must be.
    """
    # Only the sizes count, which the file has: ONNX Runtime need not be asked.
    audited = audit(path, shapes=shapes, levels=())
    gathers = [
        gather
        for gather in audited.gathers
        if node in (None, gather.node, gather.output_name)
    ]
    _check_found(path, node, gathers, [gather.node for gather in audited.gathers])

    counts = Counter(gather.node for gather in gathers)
    used_names = set[str]()
    for number, gather in enumerate(gathers, 1):
        name = gather.node
        if counts[name] > 1:
            name = f"{name} in {gather.place}"
        # Nodes of one graph may have the same name, too.
        if name in used_names:
            name += f" ({number})"
        used_names.add(name)
        yield name, _descriptor_of(gather, audited)


def _descriptor_of(
    gather: AuditedGather, audited: Audit
) -> Descriptor | OnnxGatherError:
    """Return the descriptor of a gather, or why there is none."""
    if gather.descriptor is not None:
        return from_dict(gather.descriptor)
    if gather.range.state == "invalid":
        return DescriptorError(f"the node is invalid: {gather.range.why}")
    if gather.refused is not None:
        return DescriptorError(f"DirectML refuses it: {gather.refused}")
    if gather.range.why == EMPTY:
        return DescriptorError(EMPTY)

    # Only known sizes make a descriptor.
    options = [option for option in audited.options if option.startswith("--shape ")]
    advice = " ".join(options) or "a run by onnxgather extract --inputs FILE.npz"
    data, indices = [
        "?" if value.sizes is None else sizes_text(value.sizes)
        for value in (gather.data, gather.indices)
    ]
    rule = f"its sizes must be known, as {advice} may tell"
    return OnnxGatherError(f"{rule}, got data {data} and indices {indices}")


def gather_cases(
    path: str,
    inputs: Mapping[str, GivenArray],
    node: str | None,
    timeout: float = RUN_TIMEOUT,
) -> Iterator[tuple[Extracted, Case | None]]:
    """Yield the gathers of a model, each with the case of its first execution.

    Args:
        path: The file of the model.
        inputs: Arrays for its graph inputs, by name. For a node these may be only the
            inputs that it needs, and other values of the main graph, which are then not
            computed.
        node: The name of a gather or of its output; None for all gathers.
        timeout: Seconds that the run may take.

    Raises:
        OnnxGatherError: The model, an input or the node is not as it must be.
        ProviderError: There is no CPU provider.
    """
    network = read_network(path)
    gathers = _chosen(network, node)
    if node is not None:
        # Only the part of the model that leads to the node runs.
        inputs = checked(network, inputs, inner=True)
        chosen = {gather for _, gather in gathers}
        wanted = list[str]()
        for operation in network.main.operations:
            if _contains(operation, chosen):
                wanted += operation.outputs
        network = part_of(network, wanted, inputs)
    captured = capture(network, checked(network, inputs), timeout)
    stop = captured.stop if node is not None else None

    # A gather of several scopes, which has the same outputs there, counts once.
    names = Counter(label for label, _ in {(g.label, g.outputs) for _, g in gathers})
    for scope, gather in gathers:
        executions = captured.gathers.get(gather, [])
        extracted, case = _extracted(path, scope, gather, executions, stop)
        if names[gather.label] > 1:
            extracted = replace(extracted, node=gather.outputs[0])
        yield extracted, case


def case_of_node(
    path: str,
    inputs: Mapping[str, GivenArray],
    node: str | None,
    timeout: float = RUN_TIMEOUT,
) -> Case:
    """Return the case of the only gather of a model, or of the gather with a name.

    Args:
        path: The file of the model.
        inputs: As of `gather_cases`.
        node: As of `gather_cases`.
        timeout: As of `gather_cases`.

    Raises:
        OnnxGatherError: As `gather_cases`; or there are several gathers, or the gather
            did not run.
        ProviderError: There is no CPU provider.
    """
    gathers = list(gather_cases(path, inputs, node, timeout))
    names = [*dict.fromkeys(shown(extracted.node) for extracted, _ in gathers)]
    if len(names) > 1:
        raise OnnxGatherError(f"{path}: --node must be one of {listed(names, 10)}")
    for _, case in gathers:
        if case is not None:
            return case
    extracted, _ = gathers[0]
    raise OnnxGatherError(
        f"{path}: {extracted.place}: node {shown(extracted.node)}: {extracted.left_out}"
    )


def _chosen(network: Network, name: str | None) -> list[tuple[Scope, Operation]]:
    """Return the gathers with a name or an output of that name; all for None.

    Raises:
        OnnxGatherError: There is no such gather.
    """
    labels = list[str]()
    chosen = list[tuple[Scope, Operation]]()
    for scope in network.scopes():
        for operation in scope.operations:
            if not operation.is_gather:
                continue
            labels.append(operation.label)
            if name is None or name in (operation.name, *operation.outputs):
                chosen.append((scope, operation))
    _check_found(network.path, name, chosen, labels)
    return chosen


def _contains(operation: Operation, chosen: Collection[Operation]) -> bool:
    """Return whether an operation is chosen, or a chosen operation is in its bodies."""
    if operation in chosen:
        return True
    for body in operation.bodies.values():
        if any(_contains(inner, chosen) for inner in body.operations):
            return True
    return False


def _check_found(
    path: str, name: str | None, found: Sequence[object], names: list[str]
) -> None:
    """Check that a search found a gather.

    Raises:
        OnnxGatherError: It found none; the message suggests a name that is like it.
    """
    if not names:
        raise OnnxGatherError(f"{path}: the model must have a gather, got none")
    if not found:
        node = f"node {shown(name)}"
        rule = f"{path}: {node} must be one of the model's {len(names)} gathers"
        raise OnnxGatherError(rule + suggestion(name or "", names))


def _extracted(
    path: str,
    scope: Scope,
    operation: Operation,
    executions: Sequence[Gathered],
    stop: str | None,
) -> tuple[Extracted, Case | None]:
    """Return a gather with the case of its first execution, or why it was left out.

    Args:
        path: The file of the model.
        scope: The graph of the gather.
        operation: The gather; an index out of range is an error, as in ONNX.
        executions: Its executions.
        stop: Why it did not run, if that is known.
    """
    extracted = Extracted(
        operation.label, scope.where, operation.operator, executions=len(executions)
    )
    if not executions:
        left_out = stop or "it did not run with these inputs"
        return replace(extracted, left_out=left_out), None

    data, indices = executions[0].inputs
    # A run returns no constant, as it may be large; only its rows that are read count.
    if data is None:
        data, indices = constant_data(scope, operation, indices)
        whole = scope.type_of(operation.inputs[0]).sizes
        if data.shape != whole:
            before = sizes_text(whole or ())
            cropped = f"data {before} is cropped to {sizes_text(data.shape)}"
            extracted = replace(extracted, cropped=f"{cropped}, as no more is read")

    # Case: texts of an .npz file. Those of a case are objects.
    if data.dtype.kind == "U":
        data = data.astype(object)
    place = f"{path}: {scope.where}: node {shown(operation.label)}"
    gather = gather_of_node(
        operation.operator, data.shape, indices.shape, operation.number
    )
    candidate = Candidate(gather.operator, gather.number, data, indices)
    case = case_of(candidate, place, "error")
    if isinstance(case, DescriptorCase):
        return replace(extracted, descriptor=to_dict(case.descriptor)), case
    return replace(extracted, no_descriptor=case.why_no_descriptor), case


@public
def extract(
    path: str | Path,
    inputs: Mapping[str, GivenArray],
    folder: str | Path,
    node: str | None = None,
    force: bool = False,
) -> list[Extracted]:
    """Write a folder for each gather of a model.

    It contains a program, a model, its data and a script.

    Args:
        path: The file of the model.
        inputs: Arrays for its graph inputs, by name.
        folder: The folder to write, which must be new, empty or an earlier extract.
        node: As of `gather_cases`.
        force: Whether files of an earlier extract that were changed are replaced, and
            files that others put there are left; else either is an error.

    Raises:
        OnnxGatherError: As `gather_cases`; or the folder holds the model, or other
            files.
        ProviderError: There is no CPU provider.

    Example:
        >>> path = "models/networks/keywords.onnx"
        >>> inputs = np.load("models/networks/keywords.npz")
        >>> for gather in og.extract(path, inputs, "gathers"):
        ...     print(gather.node, gather.folder or gather.left_out)
        length gathers/001_length
        position_embedding gathers/002_position_embedding
        word_embedding gathers/003_word_embedding
        keep_best it did not run with these inputs
    """
    model_path = check_name("path", path_text("path", path, "a path"))
    folder_path = check_name("folder", path_text("folder", folder, "a path"))
    node = plain_text(node)
    check_type("node", node, "the name of a node", str, type(None))
    arrays = mapping("inputs", inputs)
    check_type("force", force, "True or False", bool)
    _FOLDER.check(folder_path, force)
    check_outside([model_path], folder_path)
    records: list[Extracted] = []

    def files() -> Iterator[tuple[str, bytes]]:
        gathers = gather_cases(model_path, arrays, node)
        for number, (extracted, case) in enumerate(gathers, 1):
            if case is not None:
                below = f"gathers/{file_stem(number, extracted.node)}"
                for name, content in _contents(model_path, extracted, case):
                    yield f"{below}/{name}", content
                extracted = replace(extracted, folder=below)
            records.append(extracted)
        # The index has the records of all gathers, so it comes last.
        model_name = os.path.basename(model_path)
        yield "index.json", index_of(_MADE_BY, model=model_name, gathers=records)

    _FOLDER.write(folder_path, files(), force)
    return records


def file_stem(number: int, name: str) -> str:
    """Return the name of a file or a folder of a gather, such as `002_word_Gather`."""
    plain = re.sub(r"[^A-Za-z0-9.]+", "_", name).strip("._")[:80]
    return f"{number:03}_{plain}"


def _contents(
    path: str, extracted: Extracted, case: Case
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a gather by name, with their contents."""
    node = f"{extracted.operator} {shown(extracted.node)}"
    title = f"{node} of {os.path.basename(path)}"
    if extracted.cropped:
        title += f": {extracted.cropped}"
    if extracted.no_descriptor:
        title += f"; there is no program.json, as {extracted.no_descriptor}"
    trial = next(trials_of(case, "portable"))
    yield from runnable(case, title, LaneInfo("cpu", CPU), trial).items()
    # DxDispatch runs descriptors alone, and not each node has a descriptor.
    if isinstance(case, DescriptorCase):
        program = program_files(case.descriptor, case.data, case.indices, title)
        yield from program.items()
