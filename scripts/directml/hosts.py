"""What the scripts share: DirectML.dll's host, and its verdict on any descriptor."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from rules import Raw

from onnxgather.checking.lanes.directml import (
    LEAST_FEATURE_LEVEL,
    REFUSALS,
    Host,
    find_host,
    setup_command,
)
from onnxgather.core.checks import shown, uint
from onnxgather.core.descriptors.datatypes import TYPE_PREFIX, TensorDataType
from onnxgather.core.descriptors.operators import FACTS, TENSORS, header_names
from onnxgather.core.descriptors.strides import packed_strides
from onnxgather.core.descriptors.tensors import TensorFlags
from onnxgather.core.errors import NOT_RUN, DescriptorError
from onnxgather.core.execution.elsewhere.child import NoAnswerError

VERDICTS = ("refused", "accepted", "crashed", "not asked")

_TYPES = {
    **{t.name: (t.directml, 8 * t.size) for t in TensorDataType},
    "UNKNOWN": (0, 0),
    "UINT4": (12, 4),
    "INT4": (13, 4),
}
"""The number of each type in DML_TENSOR_DATA_TYPE, and how many bits an element has."""


def run(
    parser: argparse.ArgumentParser,
    script: Callable[[argparse.Namespace, list[str]], int],
) -> NoReturn:
    """Run a script and exit with its code; with 3 if DirectML.dll cannot run.

    Args:
        parser: The script's options; `--host` is added.
        script: Takes the options and the command that starts the host.
    """
    parser.add_argument(
        "--host", help="the folder with the host, by default setup.sh's"
    )
    options = parser.parse_args()
    command = find_host(options.host)
    if command is None:
        print(
            f"no host of DirectML.dll; {setup_command(options.host)} makes it",
            file=sys.stderr,
        )
        sys.exit(NOT_RUN)
    try:
        sys.exit(script(options, command))
    except NoAnswerError as error:
        print(error, file=sys.stderr)
        sys.exit(NOT_RUN)


def verdict(host: Host, raw: Raw) -> tuple[str, str]:
    """Return DirectML's verdict, one of VERDICTS, and its reason: "" if accepted."""
    try:
        answer = host.ask(raw_request(raw))
    except DescriptorError as error:
        return "not asked", str(error)  # DirectML's structures cannot hold it
    except NoAnswerError as error:
        return "crashed", str(error)
    if answer.stage not in ("DMLCreateDevice1", *REFUSALS):
        return "accepted", ""
    return ("refused" if answer.stage in REFUSALS else "crashed"), str(answer)


def raw_request(raw: Raw) -> dict[str, Any]:
    """Return what `request_for` gives of a descriptor, for one that may break any rule.

    Raises:
        DescriptorError: DirectML's structures cannot hold a value.
    """
    operator = str(raw["type"]).removeprefix("DML_OPERATOR_")
    if operator not in FACTS:
        raise DescriptorError(
            f"type must be one of {', '.join(FACTS)}, got {shown(operator)}"
        )
    row, desc = FACTS[operator], raw["desc"]
    names = list(header_names(row.descriptor).values())
    tensors, fields = names[: len(TENSORS)], names[len(TENSORS) :]
    return {
        "operator": row.number,
        "feature_level": LEAST_FEATURE_LEVEL,
        "tensors": [_tensor(name, desc[name]) for name in tensors],
        "fields": [uint(name, desc[name]) for name in fields],
    }


def _tensor(name: str, raw: Raw) -> list[Any]:
    """Return a tensor of a request.

    By default its TotalTensorSizeInBytes is the smallest legal one.
    """
    short = str(raw["DataType"]).removeprefix(TYPE_PREFIX)
    if short not in _TYPES:
        rule = f"{name}.DataType must be one of {', '.join(_TYPES)}"
        raise DescriptorError(f"{rule}, got {shown(short)}")
    number, bits = _TYPES[short]
    sizes, strides = list(raw["Sizes"]), raw.get("Strides") or None
    if strides is not None and len(strides) != len(sizes):
        rule = f"{name}.Strides must have as many elements as Sizes ({len(sizes)})"
        raise DescriptorError(f"{rule}, got {len(strides)}")
    total = raw.get("TotalTensorSizeInBytes")
    if total is None:
        steps = strides or packed_strides(sizes)
        span = 1 + sum((n - 1) * s for n, s in zip(sizes, steps, strict=False))
        total = min((max(0, span) * bits + 31) // 32 * 4, 2**64 - 4)
    alignment = raw.get("GuaranteedBaseOffsetAlignment", 0)
    return [
        number,
        int(TensorFlags.parse(raw.get("Flags", TensorFlags.NONE))),
        [uint(f"{name}.Sizes[{k}]", n) for k, n in enumerate(sizes)],
        strides and [uint(f"{name}.Strides[{k}]", n) for k, n in enumerate(strides)],
        uint(f"{name}.TotalTensorSizeInBytes", total, 2**64 - 1),
        uint(f"{name}.GuaranteedBaseOffsetAlignment", alignment),
    ]
