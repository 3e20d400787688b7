"""The lane on a runtime that is no provider of ONNX Runtime, behind its adapter."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from msgspec.structs import replace

from onnxgather.checking.cases import Case, NodeCase, smallest_case
from onnxgather.checking.lanes import adapter_program
from onnxgather.checking.lanes.adapter_worker import (
    AdapterInfo,
    AdapterWorker,
    NotGivenError,
    RanTwice,
    adapter_of,
    end_of,
)
from onnxgather.checking.lanes.lane import (
    CASE_TIMEOUT,
    START_CASES,
    Answer,
    AnswerKind,
    LaneInfo,
)
from onnxgather.checking.lanes.python import (
    Question,
    interpreter,
    question_of,
    target_of_lane,
)
from onnxgather.checking.node_models import bare_model, onnx_operators
from onnxgather.core.checks import shown
from onnxgather.core.descriptors.arrays import array_with, elements
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.execution.elsewhere.hosts import runtime_python
from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES
from onnxgather.core.execution.providers import target_of
from onnxgather.core.options import DEFAULT_OPSET, Target


class RuntimeLane:
    """A runtime behind its adapter.

    Args:
        name: The name that the user gave the lane.
        adapter: The file of the adapter; None means that of the table of runtimes.
        python: The interpreter of the environment that has the runtime. None means that
            of the environment which scripts/runtimes/setup.sh made for a runtime of the
            table, and else this environment.
        target: The target of the models; None is "portable".
        opset: The version of the ONNX operator set of the models.
        timeout: Seconds that one case may take.
    """

    def __init__(
        self,
        name: str,
        adapter: str | None = None,
        python: str | None = None,
        target: Target | None = None,
        opset: int = DEFAULT_OPSET,
        timeout: float = CASE_TIMEOUT,
    ) -> None:
        self.name = name
        self.opset = opset
        self._row = None
        if adapter is None:
            self._row = OTHER_RUNTIMES[name.partition("@")[0]]
            adapter = adapter_of(self._row)
            python = python or runtime_python(self._row.name)
        self.python = interpreter(python)
        self.adapter = os.path.abspath(os.path.expanduser(adapter))
        self._provider = name.partition("@")[0]
        self._target: Target = target_of("", target_of_lane(name, target))
        self._timeout = timeout
        self._worker = AdapterWorker(self.python, self.adapter, timeout)

    @property
    def place(self) -> str:
        """The interpreter."""
        return self.python

    def start(self) -> LaneInfo:
        """Start the runtime, and try whether its adapter tells truly what ran."""
        about = AdapterInfo({})
        at_exit = None
        self._worker.timeout = START_CASES * self._timeout
        try:
            about = self._worker.about()
            not_run = self._why_not_started(about)
            if not_run is None:
                at_exit = self._fault_at_exit()
        except NoAnswerError as error:
            not_run = str(error)
        self._worker.timeout = self._timeout
        versions = dict(about.versions)
        if about.version:
            versions[self._provider] = about.version
        return LaneInfo(
            self.name,
            self._provider,
            versions,
            python=self.python,
            not_run=not_run,
            target=self._target,
            at_exit=at_exit,
            opset=None if self.opset == DEFAULT_OPSET else self.opset,
            adapter=None if self._row else self.adapter,
        )

    def _why_not_started(self, about: AdapterInfo) -> str | None:
        """Return why the lane cannot start, or None if it can."""
        if about.fault is None:
            if about.tells:
                return self._why_ran_is_no_proof()
            return None
        if about.missing is not None and self._row is not None:
            cure = self._row.install(self.python)
            rule = f"lane {self.name} needs {self._row.title}, which is not installed"
            return f"{rule} (no module {about.missing}); run {cure}"
        if about.missing is not None:
            rule = f"the adapter {self.adapter} needs the module {about.missing}"
            option = f"--lane {self.name}=PYTHON names an interpreter that has it"
            return f"{rule}, which {self.python} does not have; {option}"
        return f"the adapter {self.adapter} does not load: {about.fault}"

    def _why_ran_is_no_proof(self) -> str | None:
        """Return why nothing can rely on what the adapter says ran; None if it can.

        It must not name a gather for a model that has none.
        """
        ones = np.ones(3, np.float32)
        model = bare_model("Add", {}, ones, ones, (3,)).SerializeToString()
        inputs = {"InputTensor": ones, "IndicesTensor": ones}
        try:
            result = self._worker.run(model, "add", inputs)
        except (NoAnswerError, NotGivenError):
            return None  # the cases will tell
        ran = () if isinstance(result, str) else result.ran or ()
        gathers = [kind for kind in ran if kind.startswith("Gather")]
        if not gathers:
            return None
        return (
            f"the adapter of {self._provider} says that {', '.join(gathers)} ran in a"
            " model that has Add alone, so that it proves nothing"
        )

    def _fault_at_exit(self) -> str | None:
        """Run a gather and let the runtime end; return what goes wrong then.

        It is a finding of its own. The cases count all the same, so that it is no
        reason not to start.
        """
        if not adapter_program.FORKS:
            return None
        answer = self.answer(smallest_case("Gather", "FLOAT32"))
        if answer.kind is not AnswerKind.RAN:
            return None
        code = self._worker.exit_code(adapter_program.END_TIME)
        if code == 0:
            return None
        return f"answers, but then {end_of(code)} at exit"

    def answer(self, case: Case) -> Answer:
        """Have the runtime run a case."""
        if case.model is not None and case.model.output != adapter_program.OUTPUT_NAME:
            name = adapter_program.OUTPUT_NAME
            rule = f"an adapter runs models whose output is {name}"
            reason = f"{rule}, and that of the file is {shown(case.model.output)}"
            return Answer(AnswerKind.NOT_RUN, reason)
        try:
            question = question_of(case, self._target, opset=self.opset)
        except OnnxGatherError as error:
            return Answer(AnswerKind.BROKEN, str(error), how=Breakdown.NO_MODEL)
        return replace(self._answered(case, question), gathers=question.gathers)

    def _answered(self, case: Case, question: Question) -> Answer:
        """Have the runtime answer the question of a case."""
        try:
            result = self._run(case, question)
        except NoAnswerError as error:
            return Answer.none(error)
        except NotGivenError as error:
            reason = f"the adapter of {self._provider} cannot pass the case on: {error}"
            return Answer(AnswerKind.NOT_RUN, reason, detail=str(error))
        if isinstance(result, str):
            return Answer(AnswerKind.REFUSED, result)
        answer = _answer(result, case.must_refuse)
        # What ran before a right refusal is proved by the valid case beside it.
        is_refusal = case.must_refuse and answer.kind is AnswerKind.FAILED
        if result.ran is not None and not is_refusal:
            fault = self._fault_of_ran(result.ran, question.operators)
            if fault is not None:
                return fault
        if case.must_refuse and answer.kind is AnswerKind.RAN:
            self._renew_worker()
        return answer

    def _run(self, case: Case, question: Question) -> RanTwice | str:
        """Return what the runtime makes of a case, as `AdapterWorker.run` does."""
        inputs = question.inputs
        try:
            return self._worker.run(question.model, case.name, inputs)
        except NotGivenError:
            if isinstance(case, NodeCase) or not case.descriptor.indices_tensor.strides:
                raise
        # Case: the adapter may refuse a number that is no index, but lies between them.
        tensor = case.descriptor.indices_tensor
        _, name, *_ = inputs
        indices = array_with(tensor, elements(tensor, case.indices))
        return self._worker.run(question.model, case.name, {**inputs, name: indices})

    def _renew_worker(self) -> None:
        """Give the next case another worker, if that costs a fork alone.

        A runtime that runs what it must refuse may have written outside its memory,
        which would end the process in a case that is right.
        """
        if adapter_program.FORKS:
            with suppress(NoAnswerError):  # the next request starts the runtime again
                self._worker.exit_code(0)

    def _fault_of_ran(self, ran: Sequence[str], sent: Counter[str]) -> Answer | None:
        """Return the answer if what ran is not what the model has; None if it is.

        Args:
            ran: The operators, as the adapter tells them.
            sent: How often each operator is in the model.
        """
        says = f"{self._provider} says that it ran {', '.join(ran) or 'nothing'}"
        others = sorted({*ran} & onnx_operators() - {*sent})
        if others:
            reason = f"{says}, but the model has no {', '.join(others)}"
            return Answer(AnswerKind.BROKEN, reason, how=Breakdown.NONSENSE)
        gathers = [kind for kind in sent if kind.startswith("Gather")]
        missing = [kind for kind in gathers if kind not in ran]
        if missing:
            reason = f"{says}, and the model has {', '.join(missing)}"
            return Answer(AnswerKind.NOT_RUN, reason, how="folded")
        return None

    def close(self) -> None:
        """End the runtime."""
        self._worker.close()


def _answer(result: RanTwice, must_refuse: bool) -> Answer:
    """Return the answer of a model that ran.

    Args:
        result: What the runs returned.
        must_refuse: Whether the case passes if the runtime refuses it.
    """
    nodes = result.ran or ()
    failures = [output for output in result.outputs if isinstance(output, str)]
    outputs = [output for output in result.outputs if not isinstance(output, str)]
    # A run that fails makes a case fail, but does not refuse one for the other run.
    if not outputs or (failures and not must_refuse):
        return Answer(AnswerKind.FAILED, failures[0], nodes)
    return Answer(AnswerKind.RAN, None, nodes, outputs[0], again=outputs[-1])
