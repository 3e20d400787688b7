"""The lane on a runtime that is no provider of ONNX Runtime, behind its adapter."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from onnxgather.checking.cases import Case, DescriptorCase, smallest_case
from onnxgather.checking.lanes import adapter_program
from onnxgather.checking.lanes.lane import (
    CASE_TIMEOUT,
    START_CASES,
    Answer,
    AnswerKind,
    LaneInfo,
)
from onnxgather.checking.lanes.python import (
    interpreter,
    question_of,
    target_of_lane,
)
from onnxgather.checking.node_models import bare_model, onnx_operators
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution import runtime as frames
from onnxgather.core.execution.elsewhere.child import (
    LONGEST_PRINTED,
    Breakdown,
    Child,
    NoAnswerError,
)
from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES
from onnxgather.core.execution.providers import target_of
from onnxgather.core.options import DEFAULT_OPSET, Target

ADAPTERS = Path(__file__).parent / "adapters"
"""The folder of the adapters that come with onnxgather."""

_Natural = Annotated[int, msgspec.Meta(ge=0)]


class AdapterInfo(msgspec.Struct, frozen=True):
    """What an adapter says of itself."""

    versions: dict[str, str]
    """The versions of Python and numpy."""
    name: str = ""
    version: str = ""
    """The version of the runtime."""
    tells: bool = False
    """Whether it says which operators ran."""
    fault: str | None = None
    """Why it does not load."""
    missing: str | None = None
    """The module that is not installed, where that is why."""


class _Wrong(msgspec.Struct, frozen=True):
    """What an adapter returned in place of an output."""

    wrong: str


_Output = str | tuple[str, tuple[_Natural, ...], _Natural] | _Wrong
"""An output, or the message of an error."""


class _Answered(msgspec.Struct, frozen=True):
    """What the program says of a model."""

    refused: str | None = None
    outputs: tuple[tuple[_Output, ...], ...] = ()
    """Per set of inputs one output, or two that differ."""
    ran: tuple[str, ...] | str | None = None
    ended: int | msgspec.UnsetType | None = msgspec.UNSET
    """The exit code of a worker that ended; below 0 it is a signal. None if the worker
    had to be killed."""


@dataclass(frozen=True)
class RanTwice:
    """A model that ran twice on each set of inputs."""

    outputs: tuple[tuple[Array | str, Array | str], ...]
    """The output of both runs, or the runtime's message if a run failed."""
    ran: tuple[str, ...] | None
    """The operators, as the adapter tells them; None if it tells none."""


class AdapterWorker(Child):
    """The program of an adapter, in the interpreter that has its runtime."""

    name = "runtime"

    def __init__(self, python: str, adapter: str, timeout: float) -> None:
        program = adapter_program.__file__
        command = [python, "-u", program, frames.__file__, adapter]
        super().__init__(command, timeout)

    def about(self) -> AdapterInfo:
        """Return what the adapter says of itself.

        Raises:
            NoAnswerError: There is no answer.
        """

        def read(header: bytes, _: bytes) -> AdapterInfo:
            return msgspec.json.decode(header, type=AdapterInfo)

        return self.exchange(read, {})

    def run(
        self, model: bytes, name: str, feeds: Sequence[dict[str, Array]]
    ) -> RanTwice | str:
        """Run a model on sets of inputs; return why the runtime does not take it.

        Args:
            model: The serialized model.
            name: The name of the case.
            feeds: The sets of inputs.

        Raises:
            NoAnswerError: There is no answer, for example as the runtime ended.
        """
        blobs = bytearray(model)
        described_feeds: list[dict[str, list[object]]] = []
        for feed in feeds:
            described = {
                input_name: frames.append_array(array, blobs)
                for input_name, array in feed.items()
            }
            described_feeds.append(described)
        request = {"model": len(model), "name": name, "feeds": described_feeds}

        def read(header: bytes, content: bytes) -> RanTwice | NoAnswerError | str:
            answered = msgspec.json.decode(header, type=_Answered)
            if answered.ended is not msgspec.UNSET:
                return self._ended(answered.ended)
            if answered.refused is not None:
                return answered.refused
            return _read(answered, len(feeds), content)

        result = self.exchange(read, request, blobs)
        if isinstance(result, NoAnswerError):
            raise result
        return result

    def exit_code(self, seconds: float) -> int | None:
        """Let the runtime end as programs end; return the exit code.

        It is None if the runtime does not end in time.
        """

        def read(header: bytes, _: bytes) -> int | None:
            ended = msgspec.json.decode(header, type=_Answered).ended
            return 0 if ended is msgspec.UNSET else ended

        return self.exchange(read, {"end": seconds})

    def _last_words(self, content: bytes) -> str:
        """Return what the runtime printed, as one line.

        Of a long text the middle goes: the start says what failed first, the end what
        ended the process.
        """
        text = " ".join(content.decode(errors="replace").split())
        half = LONGEST_PRINTED // 2
        if len(text) > LONGEST_PRINTED:
            text = f"{text[:half]} … {text[-half:]}"
        return text

    def _ended(self, code: int | None) -> NoAnswerError:
        """Return the error that the runtime ended in place of an answer."""
        how = Breakdown.EXITED
        detail = str(code)
        if code is not None and code < 0:
            how = Breakdown.DIED
            detail = _signal_name(-code)
        reason = f"the runtime {_end_of(code)}{self._printed(self.printed)}"
        return NoAnswerError(how, reason, detail, self._last_words(self.printed))


def _end_of(code: int | None) -> str:
    """Return how a program ended, as the end of a sentence."""
    if code is None:
        return "did not end"
    if code < 0:
        return f"ended by signal {-code} ({_signal_name(-code)})"
    return f"ended with exit code {code}"


def _signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGSEGV."""
    if number in set(signal.Signals):
        return signal.Signals(number).name
    return f"signal {number}"


def _read(answered: _Answered, runs: int, content: bytes) -> RanTwice:
    """Return what an answer says.

    Args:
        answered: The JSON of the answer.
        runs: How many sets of inputs the request has.
        content: The bytes of the answer.

    Raises:
        ValueError: The answer is not one to the request.
    """
    if isinstance(answered.ran, str):
        raise ValueError(answered.ran)
    if len(answered.outputs) != runs:
        raise ValueError(f"{len(answered.outputs)} outputs of {runs} runs")
    pairs: list[tuple[Array | str, Array | str]] = []
    for outputs in answered.outputs:
        if len(outputs) not in (1, 2):
            raise ValueError(f"{len(outputs)} outputs of a model that ran twice")
        arrays: list[Array | str] = []
        for output in outputs:
            if isinstance(output, _Wrong):
                raise ValueError(output.wrong)
            if isinstance(output, str):
                arrays.append(output)
            else:
                arrays.append(frames.array_at(output, content))
        pairs.append((arrays[0], arrays[-1]))
    return RanTwice(tuple(pairs), answered.ran)


class RuntimeLane:
    """A runtime behind its adapter.

    Args:
        name: The name that the user gave the lane.
        adapter: The file of the adapter; None means that of the table of runtimes.
        python: The interpreter of the environment that has the runtime.
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
        self.python = interpreter(python)
        self.opset = opset
        self._row = None
        if adapter is None:
            self._row = OTHER_RUNTIMES[name.partition("@")[0]]
            adapter = str(ADAPTERS / self._row.file)
        self.adapter = os.path.abspath(os.path.expanduser(adapter))
        self._provider = name.partition("@")[0]
        self._target: Target = target_of("", target_of_lane(name, target))
        self._timeout = timeout
        self._worker = AdapterWorker(self.python, self.adapter, timeout)

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
            title = self._row.title
            cure = self._row.install(self.python)
            rule = f"lane {self.name} needs {title}, which is not installed"
            return f"{rule} (no module {about.missing}); run {cure}"
        return f"the adapter {self.adapter} does not load: {about.fault}"

    def _why_ran_is_no_proof(self) -> str | None:
        """Return why nothing can rely on what the adapter says ran; None if it can.

        It must not name a gather for a model that has none.
        """
        ones = np.ones(3, np.float32)
        model = bare_model("Add", {}, ones, ones, (3,)).SerializeToString()
        inputs = {"InputTensor": ones, "IndicesTensor": ones}
        try:
            result = self._worker.run(model, "add", [inputs])
        except NoAnswerError:
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

        The cases count all the same, so that this is no reason not to start.
        """
        if not adapter_program.FORKS:
            return None
        answer = self.answer(smallest_case("Gather", "FLOAT32"))
        if answer.kind is not AnswerKind.RAN:
            return None
        code = self._worker.exit_code(adapter_program.END_TIME)
        if code == 0:
            return None
        return f"answers, but then {_end_of(code)} at exit"

    def answer(self, case: Case) -> Answer:
        """Have the runtime run a case."""
        try:
            question = question_of(case, self._target, opset=self.opset)
        except OnnxGatherError as error:
            return Answer(AnswerKind.BROKEN, str(error), how=Breakdown.NO_MODEL)
        feeds = [question.inputs]
        must_refuse = isinstance(case, DescriptorCase) and case.must_refuse
        # A refusal counts only beside an output for valid indices.
        if must_refuse:
            zeros = np.zeros_like(case.indices)
            feeds.insert(0, {**question.inputs, "IndicesTensor": zeros})
        try:
            result = self._worker.run(question.model, case.name, feeds)
        except NoAnswerError as error:
            return Answer.none(error)
        if isinstance(result, str):
            return Answer(AnswerKind.REFUSED, result)
        if result.ran is not None:
            fault = self._fault_of_ran(result.ran, question.operators)
            if fault is not None:
                return fault
        return _answer(result, must_refuse)

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
        result: What the runs returned; the last set of inputs is that of the case.
        must_refuse: Whether the case must be refused.
    """
    nodes = result.ran or ()
    in_range = None
    if must_refuse and not isinstance(result.outputs[0][0], str):
        in_range = result.outputs[0][0]
    failures = [output for output in result.outputs[-1] if isinstance(output, str)]
    outputs = [output for output in result.outputs[-1] if not isinstance(output, str)]
    # A run that fails makes a case fail, but does not refuse one for the other run.
    if not outputs or (failures and not must_refuse):
        kind = AnswerKind.FAILED
        return Answer(kind, failures[0], nodes, answers_in_range=in_range)
    first = outputs[0]
    return Answer(AnswerKind.RAN, None, nodes, first, in_range, again=outputs[-1])
