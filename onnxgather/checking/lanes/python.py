"""The lane on a provider of ONNX Runtime, in this Python environment or in another."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from onnxgather.checking.cases import (
    GATHER_NODES,
    Case,
    DescriptorCase,
    NodeCase,
    smallest_case,
)
from onnxgather.checking.lanes.adapter_worker import AdapterWorker, adapter_of
from onnxgather.checking.lanes.lane import (
    CASE_TIMEOUT,
    START_CASES,
    Answer,
    AnswerKind,
    LaneInfo,
)
from onnxgather.checking.lanes.plugins import provider_of_plugin
from onnxgather.checking.lanes.webnn import (
    given_to_webnn,
    why_no_program,
    with_own_type,
)
from onnxgather.checking.node_models import (
    bare_gather,
    bare_model,
    why_no_bare_gather,
    wrapped,
)
from onnxgather.core.checks import argument_text, shown
from onnxgather.core.descriptors.arrays import Array, content_of
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import OPERATORS
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution import kernels
from onnxgather.core.execution.elsewhere import hosts
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.execution.elsewhere.substitutes import Substitute, substitute_of
from onnxgather.core.execution.elsewhere.worker import About, Worker
from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES
from onnxgather.core.execution.providers import (
    FULL_NAME,
    OUT_OF_RANGE,
    SETUP,
    WEB_PROVIDERS,
    Provider,
    find_provider,
    target_of,
)
from onnxgather.core.execution.runtime import CPU, NotRunError, RefusedError
from onnxgather.core.execution.session import threads_for
from onnxgather.core.gather import gather_of
from onnxgather.core.model.protos import operators
from onnxgather.core.model.values import loaded
from onnxgather.core.model.write import descriptor_model, to_onnx_for_webnn
from onnxgather.core.options import DEFAULT_OPSET, TARGETS, Target


@dataclass
class ModelLane:
    """A provider of ONNX Runtime, run by a worker."""

    name: str
    """The name that the user gave it, such as `cpu` or `openvino@old`."""
    provider: Provider
    python: str = sys.executable
    """The interpreter of the environment that has the provider."""
    library: str | None = None
    """The plugin library that brings the provider, if one does."""
    target: Target | None = None
    """The target of the models; None is the target that suits the provider."""
    timeout: float = CASE_TIMEOUT
    """Seconds that one case may take."""
    host: Sequence[str] = ()
    """The command of the host that runs the provider, if no interpreter does."""
    operators: str | None = None
    """The library of onnxgather's own operators; None is that of this environment."""
    opset: int = DEFAULT_OPSET
    """The version of the ONNX operator set of the models."""
    plugin: str | None = None
    """The plugin as a command names it: the library, or the package that has it."""
    settings: Mapping[str, str] | None = None
    """The provider's own options."""

    def __post_init__(self) -> None:
        """Make the worker, which starts with its first request."""
        provider = self.provider
        self._target: Target = target_of(provider.name, self.target)
        self._operators = kernels.operators_of(provider, self._target, self.operators)
        self._worker = Worker(self.python, self.timeout, self.host)
        self._about = About({})

    @property
    def place(self) -> str:
        """The interpreter, or the host."""
        provider = self.provider
        if not self.host:
            return self.python
        if not provider.in_browser:
            return self.host[0]
        # The last argument of a browser's command is the folder that the page needs.
        folder = self.host[-1]
        if provider.library and provider.needs_webnn:
            return f"{folder}, in a browser with WebNN"
        return folder

    @property
    def is_for_webnn(self) -> bool:
        """Return whether the models are those of `to_onnx_for_webnn`."""
        return self.provider.needs_webnn and self.target is None

    def start(self) -> LaneInfo:
        """Start the worker and run a gather that every provider accepts.

        A host has a second try, as a start under Wine failed once in several hundred.
        """
        info = self._start()
        if info.not_run and self.host:
            self._worker.restart()
            info = self._start()
        return info

    def _start(self) -> LaneInfo:
        about = About({})
        not_run = None
        meant = None
        self._worker.timeout = START_CASES * self.timeout
        try:
            about = self._about = self._worker.about()
            not_run = self._why_not_started()
            if not_run is not None and self.provider.name not in about.providers:
                meant, not_run = self._lane_meant(not_run)
            # The first gather loads a plugin library, which brings its devices.
            if not_run is None:
                about = self._worker.about()
        except NoAnswerError as error:
            not_run = str(error)
        self._worker.timeout = self.timeout
        name = self.provider.name
        versions = about.versions
        # A provider of ONNX Runtime itself has the version of ONNX Runtime.
        if self.library and name in about.provider_versions:
            versions = {**versions, name: about.provider_versions[name]}
        return LaneInfo(
            self.name,
            name,
            versions,
            about.devices.get(name, ()),
            python=None if self.host else self.python,
            not_run=not_run,
            target=self._target if self.provider.has_target else None,
            opset=None if self.opset == DEFAULT_OPSET else self.opset,
            meant=meant,
            plugin=self.plugin,
            provider_options=dict(self.settings or {}),
        )

    def _lane_meant(self, not_run: str) -> tuple[str | None, str]:
        """Return the lane of a runtime that the environment has in place of a provider.

        Beside it is why this lane does not start: `not_run`, or what the other lane is.
        """
        if self.host or self.library:
            return None, not_run
        for runtime in OTHER_RUNTIMES.values():
            if runtime.provider != self.provider.name:
                continue
            adapter = adapter_of(runtime)
            worker = AdapterWorker(self.python, adapter, START_CASES * self.timeout)
            with closing(worker), suppress(NoAnswerError):
                about = worker.about()
                if about.fault is None:
                    own = f"{runtime.title} {about.version} itself"
                    option = f"--lane {runtime.name}={argument_text(self.python)}"
                    reason = (
                        f"{self.provider.name} is not available; the environment has"
                        f" {own}, which is no provider of ONNX Runtime, and whose lane"
                        f" is {runtime.name}: {option}"
                    )
                    return runtime.name, reason
        return None, not_run

    def _why_not_started(self) -> str | None:
        """Run a first gather; return why the lane cannot start, or None if it can."""
        if self.provider.gathers_alone and self.library is None:
            return kernels.error_without_kernels()
        first_case = FIRST_CASE
        if not self.provider.has_target:
            first_case = _FIRST_BARE
        answer = self.answer(first_case)
        # The provider of a plugin may refuse this case alone.
        if answer.kind is AnswerKind.REFUSED and self.library:
            answer = self.answer(_SECOND_CASE)
        if answer.kind is AnswerKind.REFUSED:
            return f"{self.provider.name} cannot start: {answer.reason}"
        # A provider that leaves this gather to the CPU may run others.
        if answer.how in (None, "elsewhere", "folded"):
            return None
        return answer.reason

    def answer(self, case: Case) -> Answer:
        """Have the worker run a case."""
        if self.provider.runs_programs:
            return self._answer_of_program(case)
        is_compiled = self.host and not self.provider.host_is_python
        if is_compiled and case.data_type not in _HOST_TYPES:
            reason = f"the program that runs {self.provider.name} takes no arrays of"
            return Answer(AnswerKind.NOT_RUN, f"{reason} {case.data_type}")
        if self.provider.gathers_alone:
            return self._answer_of_gather(case)
        substitute = substitute_for(case, self.provider)
        try:
            question = question_of(
                case, self._target, substitute, self.opset, self.is_for_webnn
            )
        except OnnxGatherError as error:
            return Answer(AnswerKind.BROKEN, str(error), how=Breakdown.NO_MODEL)
        library = self._operators
        if case.model is not None:
            library = kernels.operators_of(
                self.provider, case.model.target, self.operators
            )
        answer = self.run(question, question.operators, substitute, library)
        answer = replace(answer, gathers=question.gathers)
        if substitute is not None:
            answer = replace(answer, given_as=substitute.given_as)
        if case.model is not None and library and answer.output is not None:
            answer = self._with_body(case, question, answer)
        return answer

    def _with_body(self, case: Case, question: Question, answer: Answer) -> Answer:
        """Return the answer to a file with our operators, unless their body is wrong.

        The body runs where our library is not registered.
        """
        body = self.run(question)
        expected = case.expected()
        # Case: the provider must refuse the model, and the kernel did not.
        if isinstance(expected, str):
            return answer
        if body.output is None or content_of(body.output) != content_of(expected):
            return body
        return answer

    def _answer_of_program(self, case: Case) -> Answer:
        """Have a browser run a case's WebNN program."""
        reason = why_no_program(case)
        if isinstance(case, NodeCase) or reason is not None:
            return Answer(AnswerKind.NOT_RUN, reason)
        try:
            question = question_of_program(case)
        except OnnxGatherError as error:
            return Answer(AnswerKind.BROKEN, str(error), how=Breakdown.NO_MODEL)
        answer = self.run(question)
        answer = with_own_type(answer, case.descriptor.output_tensor)
        return replace(answer, of_descriptor=case.runs_file)

    def _answer_of_gather(self, case: Case) -> Answer:
        """Have onnxgather's own provider run the gather of a case.

        Of a file, and of a gather between operators, the CPU runs the rest.
        """
        reason = None
        if isinstance(case, DescriptorCase) and not case.runs_file:
            reason = why_no_bare_gather(case)
        if reason is not None:
            return Answer(AnswerKind.NOT_RUN, reason)
        question = question_of_gather(case, self.opset)
        answer = self.run(question)
        answer = replace(answer, gathers=question.gathers)
        left = [name for name in question.gathers if name not in answer.nodes]
        if answer.nodes and left:
            detail = f"{', '.join(left)} runs on {CPU}"
            reason = self.provider.why_not_run("elsewhere", detail)
            return Answer(AnswerKind.NOT_RUN, reason, how="elsewhere", detail=detail)
        if case.runs_file or isinstance(case, NodeCase):
            return answer
        if question.inputs["IndicesTensor"].dtype != case.indices.dtype:
            answer = replace(answer, given_as="indices as INT64")
        output = answer.output
        # An output of other sizes is wrong, and stays as it is.
        if output is not None and output.shape == gather_of(case.descriptor).output:
            own_sizes = case.descriptor.output_tensor.array_shape
            answer = replace(answer, output=output.reshape(own_sizes))
        return answer

    def run(
        self,
        question: Question,
        sent: Counter[str] | None = None,
        substitute: Substitute | None = None,
        library: str | None = None,
    ) -> Answer:
        """Have the worker run a model.

        Args:
            question: The model, which has one output, and the inputs; or the module of
                a WebNN program, whose output is bytes.
            sent: How often each operator is in the model; None if any may have run.
            substitute: What the model computes in place of the gather of the inputs.
            library: The library of onnxgather's own operators, if the model needs it.
        """
        session: dict[str, Any] = {
            "provider": self.provider.name,
            "threads": question.threads,
            "library": self.library,
        }
        settings = {**(self.settings or {}), **question.settings}
        if settings:
            session["settings"] = settings
        if question.cpu_too:
            session["cpu_too"] = True
        if self.library:
            session["device"] = device_of_lane(self.name)
        if library:
            session["operators"] = library
        feeds: Sequence[Mapping[str, Array]] = [question.inputs]
        try:
            if substitute is not None:
                feeds = substitute.feeds(feeds)
            ran = self._worker.run(question.model, session, feeds, sent)
        except NoAnswerError as error:
            return Answer.none(error)
        except NotRunError as error:
            return self._not_run(error)
        except RefusedError as error:
            return Answer(AnswerKind.REFUSED, str(error))

        nodes = tuple(operator for _, operator in ran.assignment)
        expanded = self._expanded(nodes, sent or Counter(), library)
        if expanded is not None:
            return expanded
        outputs = ran.outputs
        if substitute is not None:
            outputs = substitute.outputs(outputs)
        (output,) = outputs
        if isinstance(output, str):  # the run failed
            return Answer(AnswerKind.FAILED, output, nodes)
        return Answer(AnswerKind.RAN, None, nodes, output)

    def _not_run(self, error: NotRunError) -> Answer:
        """Return the answer if the provider did not run the model."""
        lane = "" if self.host or self.library else self.name
        reason = self.provider.why_not_run(error.kind, error.detail, lane)
        # Case: another environment, which has no other wheel yet.
        if error.kind == "no-runtime" and self.python != sys.executable:
            reason = self._why_no_runtime_elsewhere(error.detail) or reason
        has_source = self.library or self.provider.distribution
        if error.kind == "absent" and not has_source:
            option = f"--plugin {self.provider.name}=LIBRARY"
            reason += f", or name its plugin library: {option}"
        return Answer(
            AnswerKind.NOT_RUN,
            reason,
            how=error.kind,
            detail=error.detail,
            elsewhere=error.node,
        )

    def _why_no_runtime_elsewhere(self, detail: str) -> str:
        """Return what another environment lacks.

        It is empty if no wheel has the provider on every system.

        Args:
            detail: What Python says of the import.
        """
        # Case: it is installed, and does not load, such as without a library of CUDA.
        if self._about.installed:
            return f"{self.python} cannot import onnxruntime: {detail}"
        wheel = self.provider.wheel
        if not wheel or self.provider.system:
            return ""
        reason = f"{self.python} has no onnxruntime; install {wheel} there"
        for runtime in OTHER_RUNTIMES.values():
            if runtime.provider == self.provider.name:
                reason += f"; {runtime.title} itself is the lane {runtime.name}"
        return reason

    def _expanded(
        self, nodes: Sequence[str], sent: Counter[str], library: str | None
    ) -> Answer | None:
        """Return the answer if a body ran in place of the kernel of our operator."""
        own = OPERATORS.keys() & sent.keys()
        # Only the CPU provider has kernels for them.
        if self.provider.name != CPU or own <= {*nodes}:
            return None
        detail = f"the body of {', '.join(own)} ran"
        if not library:
            detail = kernels.why_not()
        reason = self.provider.why_not_run("operators", detail)
        return Answer(AnswerKind.NOT_RUN, reason, how="operators", detail=detail)

    def close(self) -> None:
        """End the worker."""
        self._worker.close()


def model_lane(
    name: str,
    path: str | None = None,
    plugin: str | None = None,
    target: Target | None = None,
    timeout: float = CASE_TIMEOUT,
    opset: int = DEFAULT_OPSET,
) -> ModelLane:
    """Return the lane on a provider, not started.

    Args:
        name: The name of the lane.
        path: The interpreter of another environment, or a shared library of ONNX
            Runtime; for `WINDOWS_LANE`, and for a provider that has a host, the folder
            of its host; for a browser's provider the folder of onnxruntime-web, or the
            one that its setup fills. None means the host of the provider if there
            is one, else this environment.
        plugin: The plugin library that brings the provider, if one does; or the Python
            package that has it, whose name may stand for that of the provider.
        target: The target of the models, unless the name has one; None is the target
            that suits the provider.
        timeout: Seconds that one case may take.
        opset: The version of the ONNX operator set of the models.

    Raises:
        ProviderError: The name is not that of a provider.
        OnnxGatherError: There is a plugin beside a shared library, a file in place of
            the folder of a host, or the timeout is none; or as `provider_of_plugin`.
    """
    library = None
    if plugin is None:
        provider = _provider_of_lane(name)
        if provider.gathers_alone:
            library = kernels.operators_library()
    else:
        provider, library = provider_of_plugin(name, plugin, interpreter(path))
    target = target_of_lane(name, target)

    host: Sequence[str] = []
    operators = None
    # Case 1: a provider in a browser.
    if provider.in_browser:
        if plugin:
            raise OnnxGatherError(
                f"lane {shown(name)} must have no plugin, as it is a browser's"
            )
        host = hosts.web_host(provider, path)
        path = None
    # Case 2: ONNX Runtime for Windows on another system.
    elif _is_windows_elsewhere(name):
        if path and os.path.isfile(os.path.expanduser(path)):
            raise OnnxGatherError(
                f"lane {shown(name)} must have the folder that {SETUP} makes"
                f", got the file {shown(path)}"
            )
        host = [hosts.windows_host(path)]
        operators = hosts.WINDOWS_OPERATORS
        path = None
    # Case 3: a folder that `SETUP` fills.
    elif _is_host_folder(provider, path):
        assert path is not None
        host = hosts.host_in(path, provider)
        path = None
    # Case 4: a provider that may have a host on this machine.
    elif path is None and plugin is None:
        host = hosts.find_runtime(provider)

    python = interpreter(path)
    if hosts.is_library(python):
        if plugin or provider.gathers_alone:
            raise OnnxGatherError(
                f"lane {shown(name)} must have a shared library of ONNX Runtime or a"
                " plugin, got both"
            )
        host = [os.path.abspath(python)]
    return ModelLane(
        name,
        provider,
        python,
        library,
        target,
        timeout,
        host,
        operators,
        opset,
        plugin,
    )


def device_of_lane(name: str) -> str | None:
    """Return the devices of a plugin library that the labels of a lane's name choose.

    They are as `runtime.Setup` has them, such as GPU:1 of `mine@GPU:1`.
    """
    _, *labels = name.split("@")
    for label in labels:
        if re.fullmatch("(CPU|GPU|NPU)(:[0-9]{1,3})?", label):
            return label
    return None


def target_of_lane(name: str, target: Target | None) -> Target | None:
    """Return the target that a lane's name ends in, or else another."""
    last_label = name.rpartition("@")[2]
    if "@" in name and last_label in TARGETS:
        return last_label
    return target


def interpreter(path: str | None) -> str:
    """Return the interpreter of a lane; None means that of this environment."""
    python = os.path.expanduser(path or sys.executable)
    # A name without a folder is a command to find on the PATH.
    if os.path.dirname(python):
        python = os.path.abspath(python)
    return python


def _provider_of_lane(name: str) -> Provider:
    """Return the provider that a lane's name begins with."""
    provider_name = name.partition("@")[0]
    option = f"--adapter {provider_name}=FILE.py"
    cure = f"; a lane on a runtime of your own needs {option}"
    return find_provider(provider_name, *OTHER_RUNTIMES, cure=cure)


def _is_windows_elsewhere(name: str) -> bool:
    """Return whether a lane is `WINDOWS_LANE` and this system is not Windows."""
    first_parts = name.split("@")[:2]
    return sys.platform != "win32" and first_parts == hosts.WINDOWS_LANE.split("@")


def _is_host_folder(provider: Provider, path: str | None) -> bool:
    """Return whether a path is a folder in which a provider may have its host."""
    if sys.platform == "win32" or not provider.host or path is None:
        return False
    return os.path.isdir(os.path.expanduser(path))


_HOST_TYPES = (*TensorDataType, "BOOL")
"""The data types that hosts take which are no interpreters of Python."""


class Question(NamedTuple):
    """What ONNX Runtime is given for a case."""

    model: bytes
    """The serialized model."""
    inputs: dict[str, Array]
    """The arrays by the names of the model's inputs."""
    threads: int
    """How many threads ONNX Runtime may use; 0 means one per core."""
    operators: Counter[str]
    """How often each operator is in the model."""
    settings: Mapping[str, str] = {}
    """The provider's own options for this question."""
    cpu_too: bool = False
    """As of `runtime.Setup`."""

    @property
    def gathers(self) -> tuple[str, ...]:
        """As `Result.gathers`."""
        return tuple(name for name in GATHER_NODES if name in self.operators)


def substitute_for(case: Case, provider: Provider) -> Substitute | None:
    """Return what a provider runs in place of a case's gather.

    It is None if the provider runs the gather itself, as it does of a file.
    """
    if isinstance(case, NodeCase) or case.runs_file:
        return None
    return substitute_of(
        case.descriptor,
        provider,
        case.out_of_range,
        case.indices,
        moves_only=not case.wrapped,  # a multiplication needs elements of the data type
    )


def given_to(provider: Provider, case: Case) -> list[Case]:
    """Return the cases that a provider runs in place of a case.

    There is a case for each word of an element.
    """
    substitute = substitute_for(case, provider)
    if substitute is None or isinstance(case, NodeCase):
        return [case]
    inputs = {"InputTensor": case.data, "IndicesTensor": case.indices}
    cases = list[Case]()
    for feed in substitute.feeds([inputs]):
        data, indices = feed.values()
        case_of_word = dataclasses.replace(
            case, descriptor=substitute.given, data=data, indices=indices
        )
        cases.append(case_of_word)
    return cases


def question_of(
    case: Case,
    target: Target,
    substitute: Substitute | None = None,
    opset: int = DEFAULT_OPSET,
    for_webnn: bool = False,
) -> Question:
    """Return the question of a case: its model, made for `target`, and the inputs.

    Args:
        case: The case.
        target: The target of the model.
        substitute: What the model computes in place of the case's gather.
        opset: The version of the ONNX operator set of the model.
        for_webnn: Whether the model of a descriptor is that of `to_onnx_for_webnn`.

    Raises:
        OnnxGatherError: The model cannot be made.
    """
    if case.model is not None:
        _, proto = loaded(case.model.content)
        arrays = (case.data, case.indices)
        inputs = dict(zip(case.model.inputs, arrays, strict=True))
        threads = 1
        if not isinstance(case, NodeCase):
            threads = threads_for(case.descriptor)
        return Question(case.model.content, inputs, threads, operators(proto))
    if isinstance(case, NodeCase):
        threads = 1
        node = case.node
        model = bare_model(
            node.operator,
            node.attributes,
            case.data,
            case.indices,
            node.output_shape,
            opset,
        )
    else:
        threads = threads_for(case.descriptor)
        desc = case.descriptor
        if substitute is not None:
            desc = substitute.given
        target = target_of("", target, case.wrapped)
        if for_webnn:
            model = to_onnx_for_webnn(desc, case.out_of_range, opset)
        else:
            model = descriptor_model(
                desc, case.out_of_range, target, opset, threads=threads
            )
    inputs = {"InputTensor": case.data, "IndicesTensor": case.indices}
    if case.wrapped:
        model = wrapped(model)
        inputs["One"] = np.ones((), case.data.dtype)
    return Question(model.SerializeToString(), inputs, threads, operators(model))


def question_of_program(case: DescriptorCase) -> Question:
    """Return the WebNN program of a case as a question.

    Raises:
        OnnxGatherError: There is no program of the descriptor.
    """
    module, inputs = given_to_webnn(case)
    return Question(module, inputs, 0, Counter())


def question_of_gather(case: Case, opset: int) -> Question:
    """Return the question of a case to onnxgather's own provider.

    The model of a descriptor is a bare node, and the provider has the policy. A model
    of a file has its own policy, so that no index that leaves its range is right there.

    Args:
        case: The case; of a descriptor, one for which `why_no_bare_gather` returns
            None.
        opset: The version of the ONNX operator set of the model.
    """
    policy = case.out_of_range
    if isinstance(case, NodeCase) or case.runs_file:
        question = question_of(case, "portable", opset=opset)
        policy = "error"
    else:
        model, inputs = bare_gather(case, opset)
        if case.wrapped:
            model = wrapped(model)
            inputs["One"] = np.ones((), case.data.dtype)
        threads = threads_for(case.descriptor)
        content = model.SerializeToString()
        question = Question(content, inputs, threads, operators(model))
    return question._replace(
        settings={OUT_OF_RANGE: policy}, cpu_too=case.wrapped or case.runs_file
    )


def question_to(case: Case, info: LaneInfo) -> tuple[Question, Substitute | None]:
    """Return the question that a lane is asked for a case.

    Beside it is what the model computes in place of the case's gather; None if it
    computes that.
    """
    provider = Provider(info.provider)
    name = info.name.partition("@")[0]
    # Case 1: a browser's provider, whose full name another may have.
    if name in WEB_PROVIDERS:
        provider = WEB_PROVIDERS[name]
    # Case 2: any other provider, and no other runtime.
    elif re.fullmatch(FULL_NAME, info.provider):
        provider = find_provider(info.provider)
    opset = info.opset or DEFAULT_OPSET
    if provider.gathers_alone:
        return question_of_gather(case, opset), None
    substitute = substitute_for(case, provider)
    target = info.target or "portable"
    question = question_of(case, target, substitute, opset, provider.needs_webnn)
    return question, substitute


_FIRST_BARE = smallest_case("Gather", "FLOAT32")
"""The case that starts a lane on WebNN, and on onnxgather's own provider."""

FIRST_CASE = _FIRST_BARE.wrapped_in()
"""The case that starts any other lane. It is wrapped, as some providers run no single
node."""

_SECOND_CASE = smallest_case("GatherND", "INT32").wrapped_in()
"""The case that starts the lane of a plugin that refuses `FIRST_CASE`."""
