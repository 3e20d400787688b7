"""Shapes that tell the size of an axis that a node of a model loses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from onnxgather.auditing.graph_audit import OperationKey, operations_of
from onnxgather.auditing.operators.index_operators import coordinates_of
from onnxgather.auditing.operators.sizes_beside import sizes_beside
from onnxgather.auditing.proof.contract import Condition
from onnxgather.auditing.proof.index_range import Lost
from onnxgather.auditing.proof.ranges import ranges_of
from onnxgather.auditing.records import AuditedGather
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.network import Network, read_network


class TrialShapes(Struct, frozen=True):
    """Shapes of the inputs of a model that are tried."""

    shapes: Mapping[str, Sequence[int]]
    """The shapes, by input; those that are given too."""
    options: str
    """The options of the command that give those that are not given."""
    conditions: Sequence[Condition]
    """What holds of the inputs."""
    allow_empty: bool
    """Whether open sizes may be 0."""


def with_told_sizes(
    network: Network, gathers: dict[OperationKey, AuditedGather], trial: TrialShapes
) -> dict[OperationKey, AuditedGather]:
    """Return the records, with the options that tell a size that a node loses.

    The bounds of the file are computed again with the shapes of the trial. Only a
    gather that has its sizes then gets the options.

    Args:
        network: The model, with the sizes of its file.
        gathers: The records.
        trial: The shapes.
    """
    lost_by_key: dict[OperationKey, Lost] = {}
    for key, gather in gathers.items():
        if gather.range.lost is not None:
            lost_by_key[key] = gather.range.lost
    if not lost_by_key:
        return gathers
    try:
        sized = read_network(network, trial.shapes)
        bounds = ranges_of(sized, trial.conditions, trial.allow_empty)
    except OnnxGatherError:  # the model allows no such shapes
        return gathers

    unknown: set[OperationKey] = set()
    for key, scope, operation in operations_of(sized):
        if key in lost_by_key:
            call = bounds.given(scope, operation)
            sizes = [coordinate.size for coordinate in coordinates_of(call)]
            for beside in sizes_beside(call):
                sizes += [beside.size, beside.limit]
            if not all(isinstance(size, int) for size in sizes):
                unknown.add(key)
    told: dict[OperationKey, AuditedGather] = {}
    for key, lost in lost_by_key.items():
        if key in unknown:
            continue
        told_lost = replace(lost, told_by=trial.options)
        index_range = replace(gathers[key].range, lost=told_lost)
        told[key] = replace(gathers[key], range=index_range)
    return gathers | told
