"""onnxgather's own execution provider: the gathers of any model in ONNX Runtime.

Its C code is in native/kernels/provider.c.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from onnxgather.core.checks import check_choice
from onnxgather.core.errors import ProviderError
from onnxgather.core.execution import kernels, runtime
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.options import POLICIES, OutOfRange
from onnxgather.core.public import public


@public
class GatherCounts(Struct, frozen=True):
    """What a gather of a model has met in the runs of its sessions."""

    model: str
    """The name of the model's graph."""
    policy: OutOfRange | str
    """What an index out of range does."""
    operator: str
    node: str
    """The node's name, or the name of its first output."""
    output_name: str
    """The name of its first output."""
    runs: int
    indices: int
    """How many indices it has read."""
    outside: int
    """How many of them were out of range."""
    least: int | None = None
    """The least index out of range; None if none was."""
    largest: int | None = None
    """The largest index out of range; None if none was."""
    first: tuple[int, ...] | None = None
    """The place in the indices of the first one that was out of range."""
    error: str | None = None
    """The sentence about that one."""


@public
def add_provider(
    session_options: Any, out_of_range: OutOfRange = "error", report: bool = False
) -> None:
    """Run the gathers of a session of ONNX Runtime on onnxgather's own provider."""
    check_choice("out_of_range", out_of_range, POLICIES)
    settings = {"out_of_range": out_of_range, "report": str(int(report))}
    try:
        runtime.add_gather_provider(session_options, provider_library(), settings)
    except runtime.NotRunError as error:
        text = PROVIDERS["onnxgather"].why_not_run(error.kind, error.detail)
        raise ProviderError(text) from error


@public
def provider_library() -> str:
    """Return the path of the library of onnxgather's own provider."""
    return kernels.custom_ops_library()


@public
def provider_report(reset: bool = False) -> list[GatherCounts]:
    """Return what the gathers of onnxgather's own provider have met in this program."""
    rows = runtime.provider_rows(provider_library(), reset)
    return msgspec.convert(rows, list[GatherCounts])
