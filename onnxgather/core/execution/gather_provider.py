"""onnxgather's own execution provider, in sessions that users make themselves.

Its C code is in native/kernels/provider.c.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from onnxgather.core.checks import check_type, line_of, number_of
from onnxgather.core.descriptors.arrays import check_policy
from onnxgather.core.errors import OnnxGatherError, ProviderError
from onnxgather.core.execution import kernels, runtime
from onnxgather.core.execution.providers import OUT_OF_RANGE, PROVIDERS, REPORT
from onnxgather.core.options import OutOfRange
from onnxgather.core.public import public


@public
class GatherCounts(Struct, frozen=True):
    """What a gather met on onnxgather's provider: a row of `provider_report`.

    A row is one node of a model under one policy; all sessions with this model and this
    policy count there. `str` returns the row as a sentence for a log.

    Example:
        >>> import onnxruntime
        >>> options = onnxruntime.SessionOptions()
        >>> og.add_provider(options, "zero")
        >>> model = "models/networks/keywords.onnx"
        >>> session = onnxruntime.InferenceSession(model, options)
        >>> outputs = session.run(None, {"words": np.array([[3, 31]])})
        >>> rows = [row for row in og.provider_report() if row.policy == "zero"]
        >>> [(row.node, row.runs, row.indices, row.outside) for row in rows][0]
        ('position_embedding', 1, 2, 0)
    """

    model: str
    """The name of the model's main graph."""
    policy: OutOfRange | Literal["others"]
    """What an index out of range does; "others" in the row that further nodes share."""
    operator: str
    """Gather, GatherElements or GatherND."""
    node: str
    """The name of the node, or of its first output if the node has none."""
    output_name: str
    """The name of the node's first output."""
    runs: int
    """How often the node ran."""
    indices: int
    """How many indices it read; each coordinate of a tuple is an index."""
    outside: int
    """How many of these indices were out of range."""
    least: int | None = None
    """The least index that was out of range; None if none was."""
    largest: int | None = None
    """The largest index that was out of range; None if none was."""
    first: tuple[int, ...] | None = None
    """Where the first index that was out of range stood in its tensor; None if none
    was."""
    error: str | None = None
    """What the policy "error" says of this first index; None if none was."""

    @property
    def outside_text(self) -> str:
        """What `error` says, without the node that it starts with; empty if none."""
        # The node may have any name, and the rest of the sentence has no quotes.
        _, _, text = (self.error or "").rpartition("': ")
        return text

    def __str__(self) -> str:
        name = f"{self.operator} '{self.node}'"
        text = (
            f"{name} of '{self.model}', {self.policy}: {self.outside:,} of"
            f" {self.indices:,} indices out of range, in {number_of(self.runs, 'run')}"
        )
        if self.least != self.largest:
            text += f", from {self.least} to {self.largest}"
        if self.error is not None:
            text += f"; the first: {self.outside_text}"
        return line_of(text)


@public
def add_provider(
    session_options: Any, out_of_range: OutOfRange = "error", report: bool = False
) -> None:
    """Let onnxgather's provider run the gathers of a session of ONNX Runtime.

    It runs Gather, GatherElements and GatherND of any model, and `provider_report` says
    which indices they met. The CPU's provider is added behind it, for all other nodes:
    so a provider that is added later gets none.

    The first call registers the provider in this process. From then on, a selection
    policy of ONNX Runtime may choose it for other sessions, under "error".

    Args:
        session_options: The `onnxruntime.SessionOptions` of the session, which is made
            without `providers=`.
        out_of_range: What an index out of range does; see `OutOfRange`. "error" is what
            ONNX says.
        report: Whether ONNX Runtime logs a warning for a node that meets an index out
            of range: once until the report is reset, and not under "error".

    Raises:
        OnnxGatherError: An argument is not as it must be, or the options have the
            provider.
        ProviderError: The library is not there, or ONNX Runtime is missing or older
            than 1.24.

    Example:
        >>> import onnxruntime
        >>> options = onnxruntime.SessionOptions()
        >>> og.add_provider(options, out_of_range="clamp")
        >>> model = "models/networks/keywords.onnx"
        >>> session = onnxruntime.InferenceSession(model, options)
        >>> session.get_providers()
        ['OnnxGatherExecutionProvider', 'CPUExecutionProvider']
    """
    out_of_range = check_policy(out_of_range)
    check_type("report", report, "True or False", bool)
    settings = {OUT_OF_RANGE: out_of_range, REPORT: str(int(report))}
    try:
        runtime.add_gather_provider(session_options, provider_library(), settings)
    except runtime.NotRunError as error:
        provider = PROVIDERS["onnxgather"]
        sentence = provider.why_not_run(error.kind, error.detail)
        raise ProviderError(sentence) from error
    except runtime.OptionsError as error:
        raise OnnxGatherError(f"session_options {error}") from None


@public
def provider_library() -> str:
    """Return the path of the library of onnxgather's provider.

    C, C++, C# and others register it under the name `OnnxGatherExecutionProvider`.

    Raises:
        ProviderError: The library is not there.

    Example:
        >>> from pathlib import Path
        >>> Path(og.provider_library()).stem
        'onnxgather_operators'
    """
    return kernels.custom_ops_library()


@public
def provider_report(reset: bool = False) -> list[GatherCounts]:
    """Return what the gathers on onnxgather's provider met in this process.

    A node has a row from the moment that a session has it, also if it has not run.

    Args:
        reset: Whether all counts begin anew. The rows of sessions that are gone are
            then dropped. No run is lost, or counted twice.

    Raises:
        OnnxGatherError: `reset` is not True or False.
        ProviderError: The library is not there.

    Example:
        >>> import onnxruntime
        >>> options = onnxruntime.SessionOptions()
        >>> og.add_provider(options, out_of_range="clamp")
        >>> model = "models/networks/keywords.onnx"
        >>> session = onnxruntime.InferenceSession(model, options)
        >>> outputs = session.run(None, {"words": np.array([[3, 40]])})
        >>> print(*[row for row in og.provider_report(reset=True) if row.outside])
        Gather 'word_embedding' of 'keywords', clamp: 1 of 2 indices out of range,
        in 1 run; the first: IndicesTensor[0,1] must be in [-32, 32), got 40
    """
    check_type("reset", reset, "True or False", bool)
    rows = runtime.provider_rows(provider_library(), reset)
    return msgspec.convert(rows, list[GatherCounts])
