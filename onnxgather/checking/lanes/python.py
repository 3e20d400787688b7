"""The lane on a provider of ONNX Runtime, in this Python environment or in another."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from onnxgather.checking.cases import Case, DescriptorCase, NodeCase, smallest_case
from onnxgather.checking.lanes.lane import (
    CASE_TIMEOUT,
    START_CASES,
    Answer,
    AnswerKind,
    LaneInfo,
)
from onnxgather.checking.node_models import bare_model, wrapped
from onnxgather.core.checks import shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import OPERATORS
from onnxgather.core.errors import OnnxGatherError, ProviderError
from onnxgather.core.execution import kernels
from onnxgather.core.execution.elsewhere import hosts
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.execution.elsewhere.substitutes import Substitute, substitute_of
from onnxgather.core.execution.elsewhere.worker import About, Worker
from onnxgather.core.execution.providers import (
    SETUP,
    Provider,
    find_provider,
    target_of,
)
from onnxgather.core.execution.runtime import CPU, NotRunError, RefusedError
from onnxgather.core.execution.session import threads_for
from onnxgather.core.model.protos import operators
from onnxgather.core.model.write import to_onnx
from onnxgather.core.options import TARGETS, Target


@dataclass
class ModelLane:
    """A provider of ONNX Runtime, run by a worker."""

    name: str
    """As the user named it, such as `cpu` or `openvino@old`."""
    provider: Provider
    python: str = sys.executable
    """The interpreter of the environment that has the provider."""
    library: str | None = None
    """The plugin library that brings the provider, if one does."""
    target: Target | None = None
    """The target of the models; None is the one that suits the provider."""
    timeout: float = CASE_TIMEOUT
    """Seconds that one case may take."""
    host: Sequence[str] = ()
    """The command of the host that runs the provider, if no interpreter does."""
    operators: str | None = None
    """The library of onnxgather's own operators; None is that of this environment."""

    def __post_init__(self) -> None:
        """Make the worker, which starts with its first request."""
        self._target: Target = target_of(self.provider.name, self.target)
        self._operators = kernels.operators_of(
            self.provider, self._target, self.operators
        )
        self._worker = Worker(self.python, self.timeout, self.host)

    def start(self) -> LaneInfo:
        """Start the worker and run a gather that every provider takes.

        A host has a second try, as a start under Wine failed once in several hundred.
        """
        found = self._start()
        if found.not_run and self.host:
            self._worker.restart()
            found = self._start()
        return found

    def _start(self) -> LaneInfo:
        about, why = About({}), None
        self._worker.timeout = START_CASES * self.timeout
        try:
            about = self._worker.about()
            probe = self.answer(_PROBE)
            if probe.kind is AnswerKind.REFUSED:
                why = f"{self.provider.name} cannot start: {probe.reason}"
            elif probe.how not in (None, "elsewhere", "folded"):
                why = probe.reason
            else:  # now the devices of a plugin library are there too
                about = self._worker.about()
        except NoAnswerError as error:
            why = str(error)
        self._worker.timeout = self.timeout
        full = self.provider.name
        devices, python = (
            about.devices.get(full, ()),
            None if self.host else self.python,
        )
        return LaneInfo(
            self.name, full, about.versions, devices, python, why, self._target
        )

    def answer(self, case: Case) -> Answer:
        """Have the worker run a case."""
        substitute = substitute_for(case, self.provider)
        try:
            model, inputs, threads, sent = question_of(case, self._target, substitute)
        except OnnxGatherError as error:
            return Answer(AnswerKind.BROKEN, str(error), how=Breakdown.NO_MODEL)
        feeds = [inputs]
        if isinstance(case, DescriptorCase) and case.must_refuse:
            feeds.insert(0, {**inputs, "IndicesTensor": np.zeros_like(case.indices)})
        answer = self.run(model, feeds, threads, sent, substitute)
        return (
            answer
            if substitute is None
            else replace(answer, given_as=substitute.given_as)
        )

    def run(
        self,
        model: bytes,
        feeds: Sequence[Mapping[str, Array]],
        threads: int = 0,
        sent: Counter[str] | None = None,
        substitute: Substitute | None = None,
    ) -> Answer:
        """Have the worker run a serialized model on each of several sets of inputs.

        Args:
            model: The model, which has one output.
            feeds: The sets of inputs; the answer's output is that of the last.
            threads: How many threads ONNX Runtime may use; 0 means one per core.
            sent: How often each operator stands in the model; None where any may have run.
            substitute: What the model computes in place of the gather that takes the inputs.
        """
        given = feeds if substitute is None else substitute.feeds(feeds)
        session = {
            "provider": self.provider.name,
            "threads": threads,
            "library": self.library,
        }
        if self._operators:
            session["operators"] = self._operators
        try:
            ran = self._worker.run(model, session, given, sent)
        except NoAnswerError as error:
            return Answer.none(error)
        except NotRunError as error:
            how, detail, node = error.kind, error.detail, error.node
            reason = self.provider.why_not_run(how, detail)
            if how == "absent" and not (self.library or self.provider.distribution):
                reason += (
                    ", or name its plugin library: --plugin"
                    f" {self.provider.name}=LIBRARY"
                )
            return Answer(
                AnswerKind.NOT_RUN, reason, how=how, detail=detail, elsewhere=node
            )
        except RefusedError as error:
            return Answer(AnswerKind.REFUSED, str(error))
        nodes = tuple(operator for _, operator in ran.assignment)
        own = OPERATORS.keys() & (sent or {}).keys()
        if self.provider.name == CPU and own - {*nodes}:
            detail = f"the body of {', '.join(own)} ran"
            if not self._operators:
                detail = kernels.why_not()
            reason = self.provider.why_not_run("operators", detail)
            return Answer(AnswerKind.NOT_RUN, reason, how="operators", detail=detail)
        outputs = ran.outputs if substitute is None else substitute.outputs(ran.outputs)
        proof, output = outputs[0], outputs[-1]
        proved = None if len(feeds) == 1 or isinstance(proof, str) else proof
        if isinstance(output, str):
            return Answer(AnswerKind.FAILED, output, nodes, answers_in_range=proved)
        return Answer(AnswerKind.RAN, None, nodes, output, proved)

    def close(self) -> None:
        """End the worker."""
        self._worker.close()


def model_lane(
    name: str,
    path: str | None = None,
    plugin: str | None = None,
    target: Target | None = None,
    timeout: float = CASE_TIMEOUT,
) -> ModelLane:
    """The lane on a provider, not started.

    Args:
        name: The name of the lane.
        path: The interpreter of another environment, or a shared library of ONNX Runtime, or for
            `WINDOWS_LANE` the folder of its host, or for a browser's provider the folder of
            onnxruntime-web; None means the host of the provider if there is
            one, else this environment.
        plugin: The plugin library that brings the provider, if one does.
        target: The target of the models, unless the name has one; None is the one that suits the
            provider.
        timeout: Seconds that one case may take.

    Raises:
        ProviderError: The name is not that of a provider.
        OnnxGatherError: There is a plugin beside a shared library, a file in place of the folder of
            a host, or the timeout is none.
    """
    of, label = name.partition("@")[0], name.rpartition("@")[2]
    try:
        provider = find_provider(of)
    except ProviderError:
        if plugin is None:
            raise
        rule = (
            "a plugin library must come with ONNX Runtime's full name of its provider"
        )
        raise ProviderError(
            f"{rule}, such as MyExecutionProvider, got {shown(of)}"
        ) from None
    target = label if "@" in name and label in TARGETS else target
    operators = None
    host = hosts.find_runtime(provider) if path is plugin is None else []
    if provider.library:
        if plugin:
            raise OnnxGatherError(
                f"lane {shown(name)} must have no plugin, as it is a browser's"
            )
        host, path = hosts.web_host(provider, path), None
    if name.split("@")[:2] == hosts.WINDOWS_LANE.split("@") and sys.platform != "win32":
        if path and os.path.isfile(os.path.expanduser(path)):
            rule = f"lane {shown(name)} must have the folder that {SETUP} makes"
            raise OnnxGatherError(f"{rule}, got the file {shown(path)}")
        host, operators, path = (
            [hosts.windows_host(path)],
            hosts.WINDOWS_OPERATORS,
            None,
        )
    python = os.path.expanduser(path or sys.executable)
    if hosts.is_library(python):
        if plugin:
            rule = (
                f"lane {shown(name)} must have a shared library of ONNX Runtime or a"
                " plugin"
            )
            raise OnnxGatherError(f"{rule}, got both")
        host = [os.path.abspath(python)]
    elif os.path.dirname(python):  # else it is a command to find on the PATH
        python = os.path.abspath(python)
    library = plugin and os.path.abspath(plugin)
    return ModelLane(name, provider, python, library, target, timeout, host, operators)


class Question(NamedTuple):
    """What ONNX Runtime is given for a case."""

    model: bytes
    """The serialized model."""
    inputs: dict[str, Array]
    """The arrays by the names of the model's inputs."""
    threads: int
    """How many threads ONNX Runtime may use."""
    operators: Counter[str]
    """How often each operator stands in the model."""


def substitute_for(case: Case, provider: Provider) -> Substitute | None:
    """What a provider runs in place of a case's gather; None where it runs the gather itself."""
    if isinstance(case, NodeCase):
        return None
    return substitute_of(case.descriptor, provider, case.indices, not case.wrapped)


def given_to(provider: Provider, case: Case) -> list[Case]:
    """The cases that a provider runs in place of a case: one for each word of an element."""
    substitute = substitute_for(case, provider)
    if substitute is None or isinstance(case, NodeCase):
        return [case]
    asked = {"InputTensor": case.data, "IndicesTensor": case.indices}
    return [
        dataclasses.replace(
            case, descriptor=substitute.given, data=data, indices=indices
        )
        for data, indices in (given.values() for given in substitute.feeds([asked]))
    ]


def question_of(
    case: Case, target: Target, substitute: Substitute | None = None
) -> Question:
    """The question of a case: its model, made for `target`, and the inputs.

    Args:
        case: The case.
        target: The target of the model.
        substitute: What the model computes in place of the case's gather.

    Raises:
        OnnxGatherError: The model cannot be made.
    """
    inputs = {"InputTensor": case.data, "IndicesTensor": case.indices}
    if isinstance(case, NodeCase):
        node, threads = case.node, 1
        arrays = case.data, case.indices
        model = bare_model(node.operator, node.attributes, *arrays, node.output_shape)
    else:
        desc, threads = case.descriptor, threads_for(case.descriptor)
        target = target_of("", target, case.wrapped)
        given = desc if substitute is None else substitute.given
        model = to_onnx(given, case.out_of_range, target, threads=threads)
    if case.wrapped:
        model = wrapped(model)
        inputs["One"] = np.ones((), case.data.dtype)
    return Question(model.SerializeToString(), inputs, threads, operators(model))


_PROBE = smallest_case("Gather", "FLOAT32").wrapped_in()
