"""DirectML.dll itself, asked through the program of scripts/directml/host.cpp.

The only module that speaks the host's protocol, which the head of host.cpp describes. On Windows
the host runs as it is; elsewhere under Wine, in the folder that scripts/directml/setup.sh makes.
"""

from __future__ import annotations

import math
import os
import shlex
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np

from onnxgather.arrays import Array, check_array, check_descriptor
from onnxgather.descriptors import Descriptor
from onnxgather.dxdispatch import to_dict
from onnxgather.errors import ProviderError
from onnxgather.lanes.directml_protocol import (
    CREATE,
    DEVICE_LOST,
    GUARDS_TOUCHED,
    RUN,
    STAGES,
    NoAnswerError,
    Running,
    counted,
    encoded,
)
from onnxgather.lanes.lane import Breakdown

REFUSALS = STAGES[3:5]
"""The calls that judge a descriptor; what fails before or later is no verdict on it."""

E_INVALIDARG = 0x80070057
"""What a refusal is; another failure is none."""


class Info(msgspec.Struct, frozen=True):
    """What answers."""

    version: str
    """Of DirectML.dll, such as "1.15.4.0"."""
    adapter: str
    feature_level: str
    """The highest that DirectML reports, such as "6_4"."""
    doubles: bool
    """Whether the Direct3D device reports double-precision arithmetic."""
    wine: str | None
    """Wine's version; None on Windows."""


class Answer(msgspec.Struct, frozen=True):
    """What became of one descriptor."""

    accepted: bool
    """Whether CreateOperator and CompileOperator took the descriptor."""
    hresult: int
    """What the call at `stage` returned, unsigned; 0 where none failed."""
    stage: str
    """The call that failed, "done" where none did, "host" where the host did not answer."""
    output: Array | None = None
    """OutputTensor after the dispatch; None where nothing ran."""
    guards_touched: bool = False
    """Whether bytes beside OutputTensor were written."""
    crashed: str | None = None
    """How the host ended instead of answering; the next request starts it anew."""
    how: Breakdown | None = None
    """Where it `crashed`, in which way."""
    detail: str = ""
    """What `how` leaves open."""


class Host:
    """DirectML.dll in a program of its own, started anew by the request after a crash.

    Args:
        command: What starts the host, such as `find_host` returns.
        timeout: Seconds for one answer; a host that takes longer is ended.

    Raises:
        ProviderError: The host does not start; any request after a crash may raise it too.
    """

    def __init__(self, command: Sequence[str], timeout: float = 60) -> None:
        self.command, self.timeout = list(command), timeout
        self.info: Info
        self._running: Running | None = None
        self._closed = False
        self._asking = threading.Lock()
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the host for good; who waits for its answer hears that it ended."""
        self._closed = True
        if self._running is not None and self._asking.locked():
            self._running.kill()
        with self._asking:
            if self._running is not None:
                self._running.end()
            self._running = None

    def run(
        self,
        desc: Descriptor,
        data: Array,
        indices: Array,
        output: Array | None = None,
        *,
        feature_level: str = "1_0",
    ) -> Answer:
        """Return what DirectML.dll makes of a descriptor and its inputs.

        Args:
            desc: Any of the four gather descriptors.
            data: InputTensor: an array of its `sizes`, or its 1-D buffer where it has strides.
            indices: IndicesTensor, likewise.
            output: OutputTensor before the dispatch, likewise; None means zeros.
            feature_level: The minimum that the DirectML device is created with. It is no
                ceiling: a device of DirectML 1.15.4 takes the same whatever the minimum.

        Raises:
            DescriptorError: An array does not fit its tensor.
        """
        check_descriptor(desc)
        check_array("InputTensor", desc.input_tensor, data)
        check_array("IndicesTensor", desc.indices_tensor, indices)
        if output is not None:
            check_array("OutputTensor", desc.output_tensor, output)
        before = b"" if output is None else output.tobytes()
        buffers = (data.tobytes(), indices.tobytes(), before)
        answer = self.run_raw(to_dict(desc), *buffers, feature_level=feature_level)
        if answer.output is None:
            return answer
        tensor = desc.output_tensor
        size, found = tensor.total_tensor_size_in_bytes, answer.output.size
        if found != size:
            reason = f"the host must return {size} bytes of OutputTensor, got {found}"
            return Answer(False, 0, "host", crashed=reason, how=Breakdown.NONSENSE)
        shape, dtype = tensor.array_shape, tensor.data_type.numpy
        elements = np.frombuffer(answer.output.data, dtype, math.prod(shape))
        return msgspec.structs.replace(answer, output=elements.reshape(shape))

    def run_raw(
        self,
        raw: Mapping[str, Any],
        data: bytes,
        indices: bytes,
        output: bytes = b"",
        *,
        feature_level: str = "1_0",
    ) -> Answer:
        """As `run`, of a dict as `to_dict` gives, valid or not, and whole buffers.

        A buffer that is too short ends in zeros. The answer's output is a buffer of UINT8.
        """
        buffers = b"".join(map(counted, (data, indices, output)))
        return self._ask(RUN + encoded(raw, feature_level) + buffers)

    def create_operator(self, raw: Mapping[str, Any], feature_level: str = "1_0") -> Answer:
        """Return what CreateOperator says of a dict as `to_dict` gives, valid or not.

        Raises:
            DescriptorError: A value has no place in DirectML's structures.
        """
        return self._ask(CREATE + encoded(raw, feature_level))

    def accepts(self, raw: Mapping[str, Any], feature_level: str = "1_0") -> bool:
        """Return whether `create_operator` accepts a dict; what crashes the host it does not."""
        return self.create_operator(raw, feature_level).accepted

    def _ask(self, request: bytes) -> Answer:
        with self._asking:
            if self._closed:
                return Answer(False, 0, "host", crashed="the host was ended", how=Breakdown.CLOSED)
            running = self._running or self._start()
            try:
                stage, hresult, flags, output = running.exchange("SIIB", self.timeout, request)
            except NoAnswerError as error:
                self._running = None
                running.end(now=True)
                return Answer(
                    False, 0, "host", crashed=str(error), how=error.how, detail=error.detail
                )
            if flags & DEVICE_LOST:
                self._running = None
                running.end()
        if stage in REFUSALS and hresult != E_INVALIDARG:
            crashed = f"{stage} gave 0x{hresult:08X}, which is no verdict"
            return Answer(False, hresult, stage, crashed=crashed, how=Breakdown.NO_VERDICT)
        ran = stage == "done" and request.startswith(RUN)
        array = np.frombuffer(output, np.uint8) if ran else None
        judged = stage == "done" or STAGES.index(stage) > STAGES.index(REFUSALS[-1])
        return Answer(judged, hresult, stage, array, bool(flags & GUARDS_TOUCHED))

    def _start(self) -> Running:
        try:
            running = Running(self.command)
        except NoAnswerError as error:
            raise ProviderError(f"DirectML.dll cannot run: {error}") from error
        try:
            _, stage, hresult, level, doubles, *texts = running.exchange("MSIIIBBB", self.timeout)
        except NoAnswerError as error:
            running.end(now=True)
            raise ProviderError(f"DirectML.dll cannot run: {error}") from error
        if stage != "done":
            running.end()
            raise ProviderError(f"DirectML.dll cannot run: {stage} gave 0x{hresult:08X}")
        version, adapter, wine = (text.decode(errors="replace") for text in texts)
        highest = f"{level >> 12}_{level >> 8 & 15}"
        self.info = Info(version, adapter, highest, bool(doubles), wine or None)
        self._running = running
        return running


def find_host(folder: str | None = None) -> list[str] | None:
    """Return the command that starts the host in a folder, by default setup.sh's; None without."""
    path = _folder(folder) / ("host.exe" if sys.platform == "win32" else "run-host")
    return [str(path)] if path.is_file() else None


def setup_command(folder: str | None = None) -> str:
    """Return what makes that `find_host` finds the host: a command, on Windows what to do."""
    if sys.platform == "win32":
        built = "scripts/directml/host.cpp, built as its first lines say"
        return f"{built}, with DirectML.dll beside it in {_folder(folder)}"
    return shlex.join(["scripts/directml/setup.sh", *([] if folder is None else [folder])])


def _folder(folder: str | None) -> Path:
    variable, other = "XDG_CACHE_HOME", ".cache"
    if sys.platform == "win32":
        variable, other = "LOCALAPPDATA", "AppData/Local"
    cache = os.environ.get(variable) or Path.home() / other
    return Path(folder) if folder is not None else Path(cache) / "onnxgather" / "directml"
