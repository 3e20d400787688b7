"""What a lane is, and what it answers to a case.

An answer is an output or a refusal, with the nodes that ran.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Protocol

import msgspec

from onnxgather.checking.cases import Case, NodeCase
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.execution.elsewhere.worker import NodeElsewhere
from onnxgather.core.execution.providers import PROVIDER_NAME
from onnxgather.core.execution.runtime import GATHERS, NotRunKind
from onnxgather.core.options import Target

CASE_TIMEOUT = 60.0
"""Seconds that one case may take."""

START_CASES = 3
"""How many times as long as a case the start of a lane may take.

The start includes a first gather. With a software GPU under Wine it takes 4 s on an
idle machine; on a busy machine it took 25 s.
"""


class AnswerKind(StrEnum):
    """What became of a case on a lane, before the reference judges it."""

    RAN = "ran"
    """Every node ran on the provider, which returned an output."""
    FAILED = "failed"
    """Every node was on the provider, which failed while it ran them."""
    REFUSED = "refused"
    """The provider did not take the model, or DirectML the descriptor."""
    NOT_RUN = "not-run"
    """The provider is missing, a node went elsewhere, or the lane runs no such case."""
    BROKEN = "broken"
    """The program behind the lane gave no answer."""


class Answer(msgspec.Struct, frozen=True):
    """The answer of a lane to a case."""

    kind: AnswerKind
    reason: str | None = None
    """Of FAILED and REFUSED: the provider's own message, on one line. Of NOT_RUN and
    BROKEN: a sentence. Of RAN: None."""
    nodes: tuple[str, ...] = ()
    """The operators that ran, by the runtime's own node assignment."""
    output: Array | None = None
    """Of RAN: the output."""
    how: NotRunKind | Breakdown | None = None
    """Of NOT_RUN: why; None where the lane runs no such case. Of BROKEN: in which
    way."""
    detail: str = ""
    """What `how` leaves open, as `NotRunKind` and `Breakdown` say."""
    elsewhere: NodeElsewhere | None = None
    """Of NOT_RUN: the node that went to another provider, where ONNX Runtime tells
    it."""

    given_as: str = ""
    """The data types that the provider was given in place of those that it lacks."""
    of_descriptor: bool = False
    """Whether the lane ran the descriptor of a model's metadata, as it runs no ONNX
    model."""
    by_directml: bool = False
    """Whether the output is to be judged by DirectML's formula, though the policy of
    the case is another: indices are out of range, and the lane is DirectML itself."""
    again: Array | None = None
    """Of RAN on a lane that runs each case twice, over other free memory: the second
    output."""
    gathers: tuple[str, ...] = ()
    """As `Result.gathers`."""

    @classmethod
    def none(cls, error: NoAnswerError) -> Answer:
        """Return the answer of a lane whose program gave no answer."""
        return cls(AnswerKind.BROKEN, str(error), how=error.how, detail=error.detail)


def beyond_descriptors(case: Case) -> str | None:
    """Return what of a case no descriptor says; None if a descriptor says all."""
    if isinstance(case, NodeCase):
        return "this node"
    return "a gather between operators" if case.wrapped else None


RuntimeName = Annotated[str, msgspec.Meta(pattern=rf"^{PROVIDER_NAME}\Z")]
"""The full name of a provider, or the name of another runtime.

The names go into commands that are copied.
"""


class LaneInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """A lane, as it describes itself when it starts."""

    name: str
    """The name that the user gave it, such as `cpu` or `openvino@old`."""
    provider: RuntimeName
    """The full name of the provider, such as CPUExecutionProvider; or the name of
    another runtime."""
    versions: dict[str, str] = {}
    """The versions of onnxruntime, numpy, python and others, such as DirectML. A
    runtime that is no provider of ONNX Runtime has its version under its name, and so
    has a provider of a plugin library."""
    devices: tuple[str, ...] = ()
    """The devices that the provider offers."""
    python: str | None = None
    """The interpreter of the lane's environment."""
    not_run: str | None = None
    """Why the lane could not start; None if it started."""
    target: Target | None = None
    """The target that the lane's models are made for; None where the lane runs no ONNX
    model, or bare nodes, which have none."""
    at_exit: str | None = None
    """What goes wrong when the program of the lane ends, though it has answered: a
    finding. None if nothing does."""
    meant: str | None = None
    """The lane of the runtime that the environment has in place of this provider, such
    as openvino-runtime."""
    opset: int | None = None
    """The version of the ONNX operator set of the lane's models, if it is not the
    usual one."""
    adapter: str | None = None
    """The file of the lane's adapter, if it is the user's own."""
    plugin: str | None = None
    """The plugin library that brings the provider, or the Python package that has the
    library, if one does."""
    provider_options: dict[str, str] = {}
    """The provider's own options."""
    required: bool = False
    """Whether a case that did not run on the lane means exit code 3."""
    has_answers: bool = False
    """Whether the answers came from a folder, so that no case can run again."""

    @property
    def runs_models(self) -> bool:
        """Whether the lane runs ONNX models."""
        return self.target is not None or self.provider == GATHERS

    @property
    def software(self) -> list[str]:
        """The provider, each package with its version, and the provider's options."""
        texts = [f"{package} {version}" for package, version in self.versions.items()]
        # A runtime that is no provider has a version of its own.
        if self.provider not in self.versions:
            texts.insert(0, self.provider)
        texts += [f"{key}={value}" for key, value in self.provider_options.items()]
        return texts


class Lane(Protocol):
    """A provider, in this environment or another, or DirectML itself."""

    name: str
    """The name that the user gave it, such as `cpu` or `openvino@old`."""

    def start(self) -> LaneInfo:
        """Start the lane and describe it; `not_run` says why it cannot start."""
        ...

    def answer(self, case: Case) -> Answer:
        """Run a case; a fault of the lane is an answer, never an exception."""
        ...

    def close(self) -> None:
        """End the lane."""
