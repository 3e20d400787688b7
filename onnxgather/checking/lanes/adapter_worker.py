"""The program of an adapter, asked from here: what it is, and what a model returns."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from onnxgather.checking.lanes import adapter_program
from onnxgather.core.checks import LONGEST_SHOWN, shortened, shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution import runtime as frames
from onnxgather.core.execution.elsewhere.child import (
    LONGEST_PRINTED,
    Breakdown,
    Child,
    NoAnswerError,
)
from onnxgather.core.execution.other_runtimes import (
    RUNTIME_NAME,
    RUNTIME_NAME_RULE,
    OtherRuntime,
)

ADAPTERS = Path(__file__).parent / "adapters"
"""The folder of the adapters that come with onnxgather."""


def adapter_of(runtime: OtherRuntime) -> str:
    """Return the path of the adapter of a runtime."""
    return str(ADAPTERS / runtime.file)


_BACKTRACE = re.compile(r"\s*(stack backtrace:$|\d+: +0x[0-9a-f]+ - |at \S+:\d+)")
"""The lines of a backtrace as Rust prints it."""

_Natural = Annotated[int, msgspec.Meta(ge=0)]


class AdapterInfo(msgspec.Struct, frozen=True):
    """What an adapter says of itself."""

    versions: dict[str, str]
    """The versions of Python and numpy."""
    name: str = ""
    """The name of the runtime, as the adapter spells it."""
    version: str = ""
    """The version of the runtime."""
    tells: bool = False
    """Whether it says which operators ran."""
    fault: str | None = None
    """Why it does not load."""
    missing: str | None = None
    """The module that is not installed, where that is why."""

    def checked(self) -> AdapterInfo:
        """Return the same, with a fault if the name or the version breaks its rule."""
        fault = self.fault
        if fault is None and not re.fullmatch(RUNTIME_NAME, self.name):
            fault = f"name {RUNTIME_NAME_RULE}, got {shown(self.name)}"
        is_short = 0 < len(self.version) <= LONGEST_SHOWN
        if fault is None and not (is_short and self.version.isprintable()):
            rule = f"version() must return 1 to {LONGEST_SHOWN} printable characters"
            fault = f"{rule}, got {shown(self.version)}"
        if fault == self.fault:
            return self
        return AdapterInfo(self.versions, fault=fault)


class _Wrong(msgspec.Struct, frozen=True):
    """What an adapter returned in place of an output."""

    wrong: str


_Output = str | tuple[str, tuple[_Natural, ...], _Natural] | _Wrong
"""An output, or the message of an error."""


class _Answered(msgspec.Struct, frozen=True):
    """What the program says of a model."""

    refused: str | None = None
    not_given: str | None = None
    """Why the adapter cannot give the runtime the case."""
    outputs: tuple[_Output, ...] = ()
    """One output, or two that differ."""
    ran: tuple[str, ...] | str | None = None
    ended: int | msgspec.UnsetType | None = msgspec.UNSET
    """The exit code of a worker that ended; below 0 it is a signal. None if the worker
    had to be killed."""
    after: str | None = None
    """The case that the worker had answered before it ended, if it never got the case
    at hand."""


@dataclass(frozen=True)
class RanTwice:
    """A model that ran twice."""

    outputs: tuple[Array | str, Array | str]
    """The output of both runs, or the runtime's message if a run failed."""
    ran: tuple[str, ...] | None
    """The operators, as the adapter tells them; None if it tells none."""


class NotGivenError(Exception):
    """The adapter cannot give its runtime the case; contains its message."""


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
            return msgspec.json.decode(header, type=AdapterInfo).checked()

        return self.exchange(read, {})

    def run(
        self, model: bytes, name: str, inputs: Mapping[str, Array]
    ) -> RanTwice | str:
        """Run a model twice; return why the runtime does not take it.

        Args:
            model: The serialized model.
            name: The name of the case.
            inputs: The inputs, by their names.

        Raises:
            NoAnswerError: There is no answer, for example as the runtime ended.
            NotGivenError: The adapter cannot give the runtime the case.
        """
        blobs = bytearray(model)
        described = {
            input_name: frames.append_array(array, blobs)
            for input_name, array in inputs.items()
        }
        request = {"model": len(model), "name": name, "inputs": described}

        def read(header: bytes, content: bytes) -> RanTwice | Exception | str:
            answered = msgspec.json.decode(header, type=_Answered)
            if answered.ended is not msgspec.UNSET:
                return self._ended(answered.ended, answered.after)
            if answered.not_given is not None:
                return NotGivenError(answered.not_given)
            if answered.refused is not None:
                return answered.refused
            return _read(answered, content)

        result = self.exchange(read, request, blobs)
        if isinstance(result, Exception):
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

    def _no_answer(
        self, how: Breakdown, detail: str = "", printed: bytes = b""
    ) -> NoAnswerError:
        error = super()._no_answer(how, detail, printed)
        if how is not Breakdown.NONSENSE:
            return error
        # The adapter is to be mended, and not the runtime.
        reason = f"the adapter does not do what docs/runtimes.md says: {detail}"
        return NoAnswerError(how, reason, detail, error.last_words)

    def _last_words(self, content: bytes) -> str:
        """Return what the runtime printed, as one line.

        The frames of a backtrace go, as they are those of a program without its
        source. Of a long text the middle goes: the start says what failed first, the
        end what ended the process.
        """
        lines = content.decode(errors="replace").splitlines()
        kept = [line for line in lines if not _BACKTRACE.match(line)]
        text = " ".join(" ".join(kept).split())
        return shortened(text, LONGEST_PRINTED)

    def _ended(self, code: int | None, after: str | None) -> NoAnswerError:
        """Return the error that the runtime ended in place of an answer.

        Args:
            code: Its exit code; below 0 it is a signal.
            after: The case that it had answered before it ended; None if it ended in
                the case at hand.
        """
        how = Breakdown.EXITED
        detail = str(code)
        if code is not None and code < 0:
            how = Breakdown.DIED
            detail = _signal_name(-code)
        when = ""
        if after is not None:
            when = f" after the case {shown(after)}, before it received this one"
        reason = f"the runtime {end_of(code)}{when}{self._printed(self.printed)}"
        return NoAnswerError(how, reason, detail, self._last_words(self.printed))


def end_of(code: int | None) -> str:
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


def _read(answered: _Answered, content: bytes) -> RanTwice:
    """Return what an answer says.

    Args:
        answered: The JSON of the answer.
        content: The bytes of the answer.

    Raises:
        ValueError: The answer is not one to the request.
    """
    if isinstance(answered.ran, str):
        raise ValueError(answered.ran)
    if len(answered.outputs) not in (1, 2):
        raise ValueError(f"{len(answered.outputs)} outputs of a model that ran twice")
    outputs: list[Array | str] = []
    for output in answered.outputs:
        if isinstance(output, _Wrong):
            raise ValueError(output.wrong)
        if isinstance(output, str):
            outputs.append(output)
        else:
            outputs.append(frames.array_at(output, content))
    return RanTwice((outputs[0], outputs[-1]), answered.ran)
