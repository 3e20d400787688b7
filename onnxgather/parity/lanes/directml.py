"""The lane on DirectML.dll itself, which runs descriptors in a program, the host.

onnxgather/native/hosts/directml_host.cpp is the host. On Windows it runs as it is; elsewhere it
runs under Wine, in the folder that scripts/directml/setup.sh makes.
"""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self

import msgspec
import numpy as np

from onnxgather.checks import LONGEST_SHOWN
from onnxgather.descriptors.arrays import elements
from onnxgather.descriptors.reference import reference
from onnxgather.execution.child import Breakdown, Child, NoAnswerError, StartedProgram
from onnxgather.execution.hosts import made_folder
from onnxgather.execution.providers import SETUP
from onnxgather.parity.cases import Case, DescriptorCase, NodeCase
from onnxgather.parity.lanes.directml_protocol import (
    DEVICE_LOST,
    GUARDS_TOUCHED,
    STAGES,
    encoded,
    read_answer,
    read_hello,
)
from onnxgather.parity.lanes.lane import TIMEOUT, Answer, AnswerKind, LaneInfo
from onnxgather.programs import to_dict

DIRECTML_DLL = "directml-dll"
"""The lane's name; the provider `directml` is ONNX Runtime's."""

LIBRARY = "DirectML.dll"

REFUSALS = STAGES[3:5]
"""The calls that judge a descriptor; the failure of another call is no verdict on it."""

E_INVALIDARG = 0x80070057
"""The HRESULT of a refusal; a failure with another one is no verdict."""


class HostInfo(msgspec.Struct, frozen=True):
    """What a host says of itself."""

    version: str
    """The version of DirectML.dll, such as "1.15.4.0"."""
    adapter: str
    """The name of the graphics adapter."""
    feature_level: str
    """The highest feature level that DirectML reports, such as "6_4"."""
    doubles: bool
    """Whether the Direct3D device reports double-precision arithmetic."""
    wine: str | None
    """Wine's version; None on Windows."""


class Verdict(msgspec.Struct, frozen=True):
    """DirectML's verdict on a descriptor, and the output."""

    stage: str
    """The call that failed; "done" if no call failed."""
    hresult: int = 0
    """The HRESULT of that call, unsigned."""
    output: bytes | None = None
    """The buffer of OutputTensor after the dispatch; None if nothing ran."""
    guards_touched: bool = False
    """Whether the dispatch wrote guard bytes beside OutputTensor."""

    @property
    def accepted(self) -> bool:
        """Whether CreateOperator and CompileOperator took the descriptor."""
        return self.stage not in STAGES[1:5]

    def __str__(self) -> str:
        return f"{self.stage} gave 0x{self.hresult:08X}"


class Host(Child):
    """DirectML.dll in a program of its own, which is started at once.

    Args:
        command: The command that starts the host, as `find_host` gives it.
        timeout: Seconds that an answer may take.

    Raises:
        NoAnswerError: The host does not start.
    """

    name = "host"
    sentences: ClassVar[Mapping[Breakdown, str]] = {
        **Child.sentences,
        Breakdown.NOT_STARTED: "{command!r} does not start, {detail}",
        Breakdown.LATE: "the host gave no answer within {detail}",
        Breakdown.STRAY: "the host wrote what is not its protocol, {stray}",
    }

    def __init__(self, command: Sequence[str], timeout: float = TIMEOUT) -> None:
        super().__init__(command, timeout)
        self.info: HostInfo
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(
        self,
        raw: Mapping[str, Any],
        buffers: Sequence[bytes] | None = None,
        feature_level: str = "1_0",
    ) -> Verdict:
        """DirectML.dll's verdict on a descriptor.

        Args:
            raw: The descriptor, a dict as `to_dict` gives it, valid or not.
            buffers: The bytes of InputTensor, IndicesTensor and OutputTensor before the dispatch;
                zeros fill up a buffer that is too short. With None the operator is created and
                not run.
            feature_level: The minimum feature level that the DirectML device is created with. It
                is no ceiling: a device of DirectML 1.15.4 takes the same whatever the minimum.

        Raises:
            DescriptorError: DirectML's structures cannot hold a value.
            NoAnswerError: There is no verdict, for example because the descriptor crashes DirectML.
        """
        request = encoded(raw, buffers, feature_level)
        stage, hresult, flags, output = self.exchange(request, read_answer)
        if flags & DEVICE_LOST:
            self.restart()
        ran = buffers is not None and stage == "done"
        verdict = Verdict(stage, hresult, output if ran else None, bool(flags & GUARDS_TOUCHED))
        if stage in REFUSALS and hresult != E_INVALIDARG:
            raise NoAnswerError(Breakdown.NO_VERDICT, f"{verdict}, which is no verdict")
        return verdict

    def _start(self) -> StartedProgram:
        try:
            return super()._start()
        except NoAnswerError as error:
            reason = f"{LIBRARY} cannot run: {error}"
            raise NoAnswerError(Breakdown.NOT_STARTED, reason) from error

    def _greeted(self, stream: BinaryIO) -> None:
        stage, hresult, level, doubles, *texts = read_hello(stream)
        if stage != "done":
            raise NoAnswerError(Breakdown.NOT_STARTED, str(Verdict(stage, hresult)))
        version, adapter, wine = (text.decode(errors="replace")[:LONGEST_SHOWN] for text in texts)
        highest = f"{level >> 12}_{level >> 8 & 15}"
        self.info = HostInfo(version, adapter, highest, bool(doubles), wine or None)

    def _printed(self, content: bytes) -> str:
        lines = content.decode(errors="replace").strip().splitlines()
        return f", {lines[-1].strip()}" if lines else ""  # Wine prints much before


class DirectMLLane:
    """DirectML.dll, asked through its host.

    The lane runs descriptors, and DirectML has one rule for indices out of range. So three cases
    are NOT-RUN: a forbidden node, a wrapped gather, and an index out of range under another policy
    than "directml".

    Args:
        name: The name that the user gave the lane.
        folder: The folder of the host; None means the one that scripts/directml/setup.sh makes.
        timeout: Seconds that one case may take.
    """

    def __init__(self, name: str, folder: str | None = None, timeout: float = TIMEOUT) -> None:
        self.name, self._folder, self._timeout = name, folder, timeout
        self._host: Host | None = None

    def start(self) -> LaneInfo:
        """Start the host."""
        command = find_host(self._folder)
        if command is None:
            why = f"{LIBRARY} is not set up; run {setup_command(self._folder)}"
            return LaneInfo(self.name, LIBRARY, not_run=why)
        try:
            self._host = Host(command, self._timeout)
        except NoAnswerError as error:
            return LaneInfo(self.name, LIBRARY, not_run=str(error))
        info = self._host.info
        versions = {"DirectML": info.version, "feature level": info.feature_level}
        if info.wine:
            versions["wine"] = info.wine
        return LaneInfo(self.name, LIBRARY, versions, (info.adapter,))

    def answer(self, case: Case) -> Answer:
        """Run a case's descriptor."""
        says = f"{LIBRARY} runs descriptors, and no descriptor says"
        if isinstance(case, NodeCase):
            return Answer(AnswerKind.NOT_RUN, f"{says} this node")
        if case.wrapped:
            return Answer(AnswerKind.NOT_RUN, f"{says} a gather between operators")
        if case.out_of_range != "directml" and not case.in_range:
            rule = f"{LIBRARY} has a rule of its own for indices out of range"
            why = f'{rule}, which out_of_range="{case.out_of_range}" is not'
            return Answer(AnswerKind.NOT_RUN, why)
        assert self._host is not None
        tensor = case.descriptor.output_tensor
        buffers = (case.data.tobytes(), case.indices.tobytes(), _wrong_everywhere(case))
        try:
            verdict = self._host.ask(to_dict(case.descriptor), buffers)
            if verdict.stage in REFUSALS:
                return Answer(AnswerKind.REFUSED, str(verdict))
            nodes = (f"DML_OPERATOR_{case.operator}",)
            if verdict.output is None:
                return Answer(AnswerKind.FAILED, str(verdict), nodes)
            size, found = tensor.total_tensor_size_in_bytes, len(verdict.output)
            if found != size:
                self._host.restart()
                reason = f"the host must return {size} bytes of OutputTensor, got {found}"
                raise NoAnswerError(Breakdown.NONSENSE, reason)
        except NoAnswerError as error:
            return Answer.none(error)
        if verdict.guards_touched:
            return Answer(AnswerKind.FAILED, "bytes beside OutputTensor were written", nodes)
        count = math.prod(tensor.array_shape)  # without the padding
        output = np.frombuffer(verdict.output, tensor.data_type.numpy, count)
        return Answer(AnswerKind.RAN, None, nodes, output.reshape(tensor.array_shape))

    def close(self) -> None:
        """End the host."""
        if self._host is not None:
            self._host.close()


def find_host(folder: str | None = None) -> list[str] | None:
    """The command that starts the host in a folder; None if the host is not there.

    Args:
        folder: The folder; None means the one that scripts/directml/setup.sh makes.
    """
    path = _folder(folder) / ("directml_host.exe" if sys.platform == "win32" else "run-host")
    return [str(path)] if path.is_file() else None


def setup_command(folder: str | None = None) -> str:
    """The command that sets the host up so that `find_host` finds it; on Windows a sentence."""
    if sys.platform == "win32":
        built = "onnxgather/native/hosts/directml_host.cpp, built as its first lines say"
        return f"{built}, with {LIBRARY} beside it in {_folder(folder)}"
    return shlex.join([SETUP, *([] if folder is None else [folder])])


def _folder(folder: str | None) -> Path:
    return made_folder() if folder is None else Path(folder)


def _wrong_everywhere(case: DescriptorCase) -> bytes:
    """A buffer for OutputTensor before the dispatch.

    Each element is the right one with every bit inverted; zeros stand between the elements. So an
    element that DirectML does not write differs.
    """
    wanted = reference(case.descriptor, case.data, case.indices, case.out_of_range)
    bits = wanted.view(f"u{wanted.itemsize}")
    offsets = np.arange(bits.size).reshape(bits.shape)
    own = elements(case.descriptor.output_tensor, offsets)
    before = np.zeros_like(bits)
    before.put(own, ~bits.take(own))
    return before.tobytes()
