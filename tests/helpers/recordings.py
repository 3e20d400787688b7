"""DirectML.dll's recorded results."""

from __future__ import annotations

import json
import lzma
import math
from typing import Any, NamedTuple, get_args

import numpy as np
from folders import OBSERVED as FOLDER

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.options import OutOfRange, Target

POLICIES: tuple[OutOfRange, ...] = get_args(OutOfRange)
TARGETS: tuple[Target, ...] = get_args(Target)
E_INVALIDARG = "CreateOperator gave 0x80070057"

Recording = list[dict[str, Any]]

RULES: dict[str, dict[str, Any]] = json.loads(
    (FOLDER / "rules.json").read_text(encoding="utf-8")
)
VERSIONS: dict[str, Any] = json.loads(
    (FOLDER / "versions.json").read_text(encoding="utf-8")
)

# What was never put to DirectML, as its structures have no place for it or a host did
# not try.
NOT_ASKED = {"INPUT_DATA_TYPE", "STRIDES_COUNT"}


def load(name: str) -> Recording:
    """Return the cases of a recording; each knows its place in it."""
    cases: Recording = json.loads(
        lzma.decompress((FOLDER / f"{name}.json.xz").read_bytes())
    )
    return [case | {"number": number} for number, case in enumerate(cases)]


KINDS = ("in_range", "out_of_range", "invalid")
OURS = {kind: load(kind) for kind in (*KINDS, "cropped")}
INDEPENDENT = {kind: load(f"independent/{kind}") for kind in KINDS}
IN_RANGE, OUT_OF_RANGE = (OURS[kind] + INDEPENDENT[kind] for kind in KINDS[:2])
CROPPED = OURS["cropped"]


class Recorded(NamedTuple):
    """One recorded case."""

    desc: og.Descriptor
    data: Array
    indices: Array
    output: bytes


def recorded(case: dict[str, Any]) -> Recorded:
    """Return a recorded case with its buffers as the arrays that stand for its
    tensors."""
    desc = og.from_dict({"type": case["operator"], "desc": case["desc"]})

    def array(tensor: og.TensorDesc, text: str) -> Array:
        count = math.prod(tensor.array_shape)
        buffer = np.frombuffer(bytes.fromhex(text), tensor.data_type.numpy, count)
        return buffer.reshape(tensor.array_shape)

    return Recorded(
        desc,
        array(desc.input_tensor, case["input_hex"]),
        array(desc.indices_tensor, case["indices_hex"]),
        bytes.fromhex(case["output_hex"]),
    )
