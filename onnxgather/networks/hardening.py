"""ONNX models whose gathers do not fail: those that are not proved in range are rewritten."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from onnxgather.checks import check_choice, shown
from onnxgather.errors import OnnxGatherError
from onnxgather.files import check_apart, write_whole
from onnxgather.model.protos import external_files
from onnxgather.networks.gathers import audit_model, operations_of
from onnxgather.networks.network import read_network
from onnxgather.networks.rewrite import ModelProto, Rewritten, rewrite
from onnxgather.options import HARDENED, OutOfRange


def harden(
    model: str | os.PathLike[str] | ModelProto,
    out_of_range: OutOfRange = "clamp",
    shapes: Mapping[str, Sequence[int]] | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
) -> ModelProto:
    """A model in which each index that is not proved in range is kept in it.

    Gathers that are proved stay as they are, and so does every other part of the model, to the
    byte. Where DirectML refuses a GatherElements because it has more data than indices off the
    axis, the data is cropped. The outputs for indices in range are those of the model.

    Args:
        model: A file, or the model itself; external data is neither read nor moved.
        out_of_range: What an index out of range does: "clamp", "zero", or "directml", which needs
            sizes that are known.
        shapes: The sizes of graph inputs, by name. Proofs hold for these sizes.
        ranges: The least and the largest element of graph inputs, by name. Proofs hold for these.

    Raises:
        OnnxGatherError: The model cannot be read, its opset is too old for the index arithmetic,
            or what is not known of a gather makes the policy impossible.
    """
    return _hardened(model, out_of_range, shapes, ranges)[0]


def harden_file(
    path: str,
    output: str,
    out_of_range: OutOfRange = "clamp",
    shapes: Mapping[str, Sequence[int]] | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
) -> list[Rewritten]:
    """Write what `harden` makes of a file; return what was rewritten.

    Raises:
        OnnxGatherError: As `harden`; or the file to write is the model, or is in another folder
            although it refers to external data.
    """
    check_apart([(output, "the model")], [path])
    hardened, done = _hardened(path, out_of_range, shapes, ranges)
    folders = [os.path.dirname(os.path.realpath(file)) for file in (path, output)]
    external = external_files(hardened)
    if external and folders[0] != folders[1]:
        rule = f"{output} must be in the folder of {path}, as it refers to its external data"
        raise OnnxGatherError(f"{rule}, {shown(external[0])}")
    write_whole(output, hardened.SerializeToString())
    return done


def _hardened(
    model: str | os.PathLike[str] | ModelProto,
    out_of_range: OutOfRange,
    shapes: Mapping[str, Sequence[int]] | None,
    ranges: Mapping[str, tuple[int, int]] | None,
) -> tuple[ModelProto, list[Rewritten]]:
    check_choice("out_of_range", out_of_range, HARDENED)
    plain = read_network(model)
    network = read_network(model, shapes) if shapes else plain
    gathers = audit_model(model, None, shapes, ranges).gathers
    unproved = {key for key, gather in gathers.items() if gather.range.state != "proved"}
    limited = {operation for key, _, operation in operations_of(network) if key in unproved}
    return rewrite(network, plain, limited, out_of_range)
