"""The lane on DirectML.dll itself, which runs descriptors in a program, the host.

onnxgather/native/hosts/directml_host.cpp is the host. On Windows it runs as it is;
elsewhere it runs under Wine, in the folder that scripts/directml/setup.sh makes.
"""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from onnxgather.checking.cases import Case, DescriptorCase, NodeCase
from onnxgather.checking.lanes.lane import (
    CASE_TIMEOUT,
    Answer,
    AnswerKind,
    LaneInfo,
    beyond_descriptors,
)
from onnxgather.core.checks import LONGEST_SHOWN
from onnxgather.core.descriptors.arrays import Array, elements
from onnxgather.core.descriptors.operators import FACTS, TENSORS, Descriptor
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import ProviderError
from onnxgather.core.execution.elsewhere.child import (
    Breakdown,
    Child,
    NoAnswerError,
    StartedProgram,
)
from onnxgather.core.execution.elsewhere.hosts import made_folder
from onnxgather.core.execution.providers import SETUP

LIBRARY = "DirectML.dll"

Stage = Literal[
    "done",
    "DMLCreateDevice1",
    "CreateOperator",
    "CompileOperator",
    "buffers",
    "initialize",
    "dispatch",
]
"""The call that failed; "done" if no call failed."""

REFUSALS = ("CreateOperator", "CompileOperator")
"""The calls that judge a descriptor; the failure of another call is no verdict."""

LEAST_FEATURE_LEVEL = 0x1000
"""The minimum feature level that the device is created with, 1_0.

It is no ceiling: a device of DirectML 1.15.4 accepts the same whatever the minimum.
"""

E_INVALIDARG = 0x80070057
"""The HRESULT of a refusal; a failure with another HRESULT is no verdict."""

_Text = Annotated[str, msgspec.Meta(max_length=LONGEST_SHOWN)]


class HostInfo(msgspec.Struct, frozen=True):
    """What a host says of itself."""

    version: _Text
    """The version of DirectML.dll, such as "1.15.4.0"."""
    adapter: _Text
    """The name of the graphics adapter."""
    feature_level: _Text
    """The highest feature level that DirectML reports, such as "6_4"."""
    wine: _Text | None
    """Wine's version; None on Windows."""


class HostAnswer(msgspec.Struct, frozen=True):
    """DirectML's verdict on a descriptor, and the output."""

    stage: Stage
    hresult: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)] = 0
    """The HRESULT of the call that failed."""
    output: bytes | None = None
    """The buffer of OutputTensor after the dispatch; None if nothing ran."""
    guards_touched: bool = False
    """Whether the dispatch wrote guard bytes beside OutputTensor."""
    device_lost: bool = False
    """Whether the host can run no more."""

    def __str__(self) -> str:
        if self.guards_touched:
            return "bytes beside OutputTensor were written"
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

    def __init__(self, command: Sequence[str], timeout: float = CASE_TIMEOUT) -> None:
        super().__init__(command, timeout)

        def read(header: bytes, _: bytes) -> HostInfo:
            return msgspec.json.decode(header, type=HostInfo)

        # The host answers an empty request with what it is.
        self.info = self.exchange(read, {})

    def ask(
        self,
        asked: Mapping[str, Any],
        buffers: Sequence[bytes | memoryview] | None = None,
        bindings: Sequence[tuple[int, int]] | None = None,
    ) -> HostAnswer:
        """Return DirectML.dll's verdict on a descriptor.

        Args:
            asked: The descriptor, as `request_for` gives it.
            buffers: The bytes of InputTensor, IndicesTensor and OutputTensor before the
                dispatch; zeros fill up a buffer that is too short. With None the
                operator is created and not run.
            bindings: For each tensor the number of its buffer and the offset in bytes
                there; the output is then the whole buffer of OutputTensor. None:
                `buffers` has a buffer for each tensor.

        Raises:
            NoAnswerError: There is no verdict, for example because the descriptor
                crashes DirectML.
        """
        buffer_sizes = None
        if buffers is not None:
            buffer_sizes = [len(buffer) for buffer in buffers]
        request = {**asked, "buffers": buffer_sizes, "bindings": bindings}

        def read(header: bytes, output: bytes) -> HostAnswer:
            answer = msgspec.json.decode(header, type=HostAnswer)
            if buffer_sizes is None or answer.stage != "done":
                return answer
            size = asked["tensors"][-1][_TOTAL_SIZE]
            # With bindings the output is the whole buffer of OutputTensor, the last
            # tensor.
            if bindings:
                output_buffer, _ = bindings[-1]
                size = buffer_sizes[output_buffer]
            if len(output) != size:
                raise ValueError(f"{len(output)} bytes of OutputTensor, not {size}")
            return replace(answer, output=output)

        answer = self.exchange(read, request, b"".join(buffers or ()))
        if answer.device_lost:
            self.restart()
        if answer.stage in REFUSALS and answer.hresult != E_INVALIDARG:
            raise NoAnswerError(Breakdown.NO_VERDICT, f"{answer}, which is no verdict")
        return answer

    def dispatch(self, desc: Descriptor, bound: Sequence[tuple[Array, int]]) -> Array:
        """Return the bytes of the buffer of OutputTensor after a dispatch.

        Args:
            desc: The descriptor.
            bound: For each tensor the bytes of its buffer, and the offset in bytes
                there. Several tensors may have the same array.

        Raises:
            ProviderError: DirectML refuses the descriptor or a binding, or gives no
                answer.
        """
        # Tensors that share an array share a buffer.
        buffers: list[memoryview] = []
        numbers: dict[int, int] = {}
        bindings: list[tuple[int, int]] = []
        for array, offset in bound:
            if id(array) not in numbers:
                numbers[id(array)] = len(buffers)
                buffers.append(array.data)
            bindings.append((numbers[id(array)], offset))
        answer = self.ask(request_for(desc), buffers, bindings)
        if answer.output is None or answer.guards_touched:
            raise ProviderError(
                f"{LIBRARY} {self.info.version} must run the dispatch, but {answer}"
            )
        return np.frombuffer(answer.output, np.uint8)

    def _start(self) -> StartedProgram:
        try:
            return super()._start()
        except NoAnswerError as error:
            reason = f"{LIBRARY} cannot run: {error}"
            raise NoAnswerError(Breakdown.NOT_STARTED, reason) from error

    def _last_words(self, content: bytes) -> str:
        lines = content.decode(errors="replace").strip().splitlines()
        if not lines:
            return ""
        # Wine prints much before the line that says what failed.
        return lines[-1].strip()[:LONGEST_SHOWN]

    def _printed(self, content: bytes) -> str:
        text = self._last_words(content)
        return f", {text}" if text else ""


def request_for(desc: Descriptor) -> dict[str, Any]:
    """Return the request for a descriptor, but without its buffers.

    directml_host.cpp describes requests.
    """
    values = [getattr(desc, name) for name in desc.__struct_fields__]
    tensors = values[: len(TENSORS)]
    other_fields = values[len(TENSORS) :]
    return {
        "operator": FACTS[desc.operator].number,
        "feature_level": LEAST_FEATURE_LEVEL,
        "tensors": [_tensor(tensor) for tensor in tensors],
        "fields": other_fields,
    }


def _tensor(tensor: TensorDesc) -> list[Any]:
    """Return a tensor as a request has it."""
    return [
        tensor.data_type.directml,
        int(tensor.flags),
        tensor.sizes,
        tensor.strides,
        tensor.total_tensor_size_in_bytes,
        tensor.guaranteed_base_offset_alignment,
    ]


_TOTAL_SIZE = 4
"""The place of TotalTensorSizeInBytes in a tensor of a request."""


class DirectMLLane:
    """DirectML.dll, behind its host.

    The lane runs descriptors, so two cases are NOT-RUN: a forbidden node and a wrapped
    gather. DirectML has one rule for indices out of range. So it judges the case of
    another policy; where the corpus asks the same under "directml", that case alone
    runs.

    Args:
        name: The name that the user gave the lane.
        folder: The folder of the host; None means the folder that
            scripts/directml/setup.sh makes.
        timeout: Seconds that one case may take.
    """

    def __init__(
        self, name: str, folder: str | None = None, timeout: float = CASE_TIMEOUT
    ) -> None:
        self.name = name
        # The current folder may be another one when the lane starts.
        if folder is not None:
            folder = os.path.abspath(os.path.expanduser(folder))
        self._folder = folder
        self._timeout = timeout
        self._host: Host | None = None

    @property
    def place(self) -> str:
        """The folder of the host."""
        return str(_folder(self._folder))

    def start(self) -> LaneInfo:
        """Start the host."""
        try:
            self._host = open_host(self._folder, self._timeout)
        except ProviderError as error:
            return LaneInfo(self.name, LIBRARY, not_run=str(error))
        info = self._host.info
        versions = {"DirectML": info.version, "feature level": info.feature_level}
        if info.wine:
            versions["wine"] = info.wine
        return LaneInfo(self.name, LIBRARY, versions, (info.adapter,))

    def answer(self, case: Case) -> Answer:
        """Run a case's descriptor."""
        reason = _why_not_run(case)
        if isinstance(case, NodeCase) or reason is not None:
            return Answer(AnswerKind.NOT_RUN, reason)
        by_directml = case.out_of_range != "directml" and not case.in_range
        return replace(
            self._answer(case), of_descriptor=case.runs_file, by_directml=by_directml
        )

    def _answer(self, case: DescriptorCase) -> Answer:
        """Have the host run a descriptor."""
        assert self._host is not None
        desc = case.descriptor
        buffers = (case.data.tobytes(), case.indices.tobytes(), _wrong_everywhere(case))
        try:
            answer = self._host.ask(request_for(desc), buffers)
        except NoAnswerError as error:
            return Answer.none(error)
        if answer.stage in REFUSALS:
            return Answer(AnswerKind.REFUSED, str(answer))
        nodes = (f"DML_OPERATOR_{case.operator}",)
        if answer.output is None or answer.guards_touched:
            return Answer(AnswerKind.FAILED, str(answer), nodes)
        tensor = desc.output_tensor
        count = math.prod(tensor.array_shape)  # without the padding
        values = np.frombuffer(answer.output, tensor.data_type.numpy, count)
        output = values.reshape(tensor.array_shape)
        return Answer(AnswerKind.RAN, None, nodes, output)

    def close(self) -> None:
        """End the host."""
        if self._host is not None:
            self._host.close()


def _why_not_run(case: Case) -> str | None:
    """Return why no descriptor says a case as DirectML runs it; None if one does."""
    what = beyond_descriptors(case)
    if what is not None:
        return f"{LIBRARY} runs descriptors, and no descriptor says {what}"
    if isinstance(case, DescriptorCase) and case.asked_as_directml:
        rule = f"{LIBRARY} has a rule of its own for indices out of range"
        return f'{rule}, which out_of_range="{case.out_of_range}" is not'
    return None


def open_host(folder: str | None = None, timeout: float = CASE_TIMEOUT) -> Host:
    """Return the host in a folder, started; see `find_host`.

    Raises:
        ProviderError: The host is not there, or it does not start.
    """
    command = find_host(folder)
    if command is None:
        raise ProviderError(f"{LIBRARY} is not set up; run {setup_command(folder)}")
    return Host(command, timeout)


def find_host(folder: str | None = None) -> list[str] | None:
    """Return the command that starts the host in a folder; None if there is no host.

    Args:
        folder: The folder; None means the folder that scripts/directml/setup.sh makes.
    """
    name = "directml_host.exe" if sys.platform == "win32" else "run-host"
    path = _folder(folder) / name
    if not path.is_file():
        return None
    return [str(path)]


def setup_command(folder: str | None = None) -> str:
    """Return the command that sets the host up so that `find_host` finds it.

    On Windows it is a sentence.
    """
    if sys.platform == "win32":
        source = "onnxgather/native/hosts/directml_host.cpp"
        built = f"{source}, built as its first lines say"
        return f"{built}, with {LIBRARY} beside it in {_folder(folder)}"
    command = [SETUP]
    if folder is not None:
        command.append(folder)
    return shlex.join(command)


def _folder(folder: str | None) -> Path:
    if folder is None:
        return made_folder()
    return Path(folder)


def _wrong_everywhere(case: DescriptorCase) -> bytes:
    """Return a buffer for OutputTensor before the dispatch.

    Each element is the right element with every bit inverted; zeros fill the gaps
    between the elements. So an element that DirectML does not write differs.
    """
    right = reference(case.descriptor, case.data, case.indices, "directml")
    right_bits = right.view(f"u{right.itemsize}")
    offsets = np.arange(right_bits.size).reshape(right_bits.shape)
    offsets_of_elements = elements(case.descriptor.output_tensor, offsets)
    wrong_bits = np.zeros_like(right_bits)
    wrong_bits.put(offsets_of_elements, ~right_bits.take(offsets_of_elements))
    return wrong_bits.tobytes()
