"""What passes between onnxgather and the host of DirectML.dll, as host.cpp lays it down."""

from __future__ import annotations

import contextlib
import math
import re
import shlex
import struct
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from typing import Any, BinaryIO

from onnxgather.checks import shown, uint
from onnxgather.datatypes import TYPE_PREFIX, TensorDataType
from onnxgather.descriptors import OPERATORS, TENSORS, header_names
from onnxgather.errors import DescriptorError
from onnxgather.lanes.child import kill, pipes, start
from onnxgather.lanes.lane import Breakdown
from onnxgather.tensors import TensorFlags

STAGES = (
    *("done", "D3D12CreateDevice", "DMLCreateDevice1", "CreateOperator", "CompileOperator"),
    *("buffers", "initialize", "dispatch"),
)
"""The calls that may fail, by their numbers."""

MAGIC = int.from_bytes(b"OGDM\1", "little")
"""How a hello begins: four letters and the version of the protocol."""

RUN, CREATE = struct.pack("<I", 0), struct.pack("<I", 1)
"""How a request begins."""

GUARDS_TOUCHED, DEVICE_LOST = 3, 4
"""Flags of an answer."""

LONGEST_END = 10
"""Seconds that a host may take to end once its input has."""

LONGEST_FRAME = 2**33
"""Bytes."""

# DML_OPERATOR_TYPE and DML_TENSOR_DATA_TYPE of DirectML.h, types that no gather takes included.
_OPERATORS = {"GATHER": 67, "GATHER_ELEMENTS": 107, "GATHER_ND": 108, "GATHER_ND1": 140}
_DATA_TYPES = {t.name: t.directml for t in TensorDataType} | {"UNKNOWN": 0, "UINT4": 12, "INT4": 13}
_BITS = {t.name: 8 * t.size for t in TensorDataType} | {"UNKNOWN": 0, "UINT4": 4, "INT4": 4}


class NoAnswerError(Exception):
    """The host did not start, ended, hung, or wrote what is not its protocol."""

    def __init__(self, how: Breakdown, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.how, self.detail = how, detail


class Running:
    """A host that runs.

    Raises:
        NoAnswerError: It does not start.
    """

    def __init__(self, command: list[str]) -> None:
        self._said: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 as it is open while it runs
        try:
            self._host = start(command, self._said)
        except OSError as error:
            self._said.close()
            reason = f"{shlex.join(command)} does not start, {error.strerror}"
            raise NoAnswerError(Breakdown.NOT_STARTED, reason, error.strerror or "") from error
        self._stdin, self._stdout = pipes(self._host)

    def exchange(self, layout: str, timeout: float, request: bytes | None = None) -> list[Any]:
        """Send a request, if any, and return what the next frame holds.

        Args:
            layout: One letter for each part: I is a number, S a stage, B bytes, M the magic.
            timeout: Seconds until the host is ended.
            request: What to send.

        Raises:
            NoAnswerError: There is no such frame; the host is ended.
        """
        late = threading.Event()

        def end_late() -> None:
            late.set()
            kill(self._host)

        watch = threading.Timer(timeout, end_late)
        watch.start()
        try:
            if request is not None:
                self._stdin.write(counted(request))
                self._stdin.flush()
            frame = self._frame()
        except (OSError, EOFError) as error:
            raise (_late(timeout) if late.is_set() else self._ended()) from error
        except (ValueError, MemoryError) as error:
            raise _nonsense(error) from error
        finally:
            watch.cancel()
            watch.join()  # one that fires now must not end the next answer
        if late.is_set():
            raise _late(timeout)
        self._said.seek(0)
        self._said.truncate()  # its position is the host's own too
        try:
            return _decoded(frame, layout)
        except ValueError as error:
            raise _nonsense(error) from error

    def kill(self) -> None:
        """Kill the host; who waits for its answer hears that it ended."""
        kill(self._host)

    def end(self, *, now: bool = False) -> None:
        """End the host: at once, or by the end of its input."""
        if now:
            kill(self._host)
        with contextlib.suppress(OSError):  # it did not read all that was written
            self._stdin.close()
        try:
            self._host.wait(LONGEST_END)
        except subprocess.TimeoutExpired:
            kill(self._host)
            self._host.wait()
        self._stdout.close()
        self._said.close()

    def _frame(self) -> bytes:
        head = self._read(8)
        count = int.from_bytes(head, "little")
        if count > LONGEST_FRAME:
            raise ValueError(shown(head))
        return self._read(count)

    def _read(self, count: int) -> bytes:
        content = self._stdout.read(count)
        if len(content) < count:
            raise EOFError
        return content

    def _ended(self) -> NoAnswerError:
        """Return how the host ended, with the last line that it wrote to standard error."""
        try:
            code = self._host.wait(LONGEST_END)
        except subprocess.TimeoutExpired:
            return NoAnswerError(Breakdown.LATE, "the host closed its output")
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").splitlines()
        words = [line.strip() for line in lines if line.strip()]
        reason = f"the host ended with exit code {code}" + (f", {words[-1]}" if words else "")
        return NoAnswerError(Breakdown.EXITED, reason, str(code))


def _late(timeout: float) -> NoAnswerError:
    detail = f"{timeout:g} s"
    return NoAnswerError(Breakdown.LATE, f"the host gave no answer within {detail}", detail)


def _nonsense(error: Exception) -> NoAnswerError:
    reason = f"the host wrote what is not its protocol, {error}"
    return NoAnswerError(Breakdown.NONSENSE, reason, str(error))


def counted(content: bytes) -> bytes:
    """Return bytes with their number in front."""
    return struct.pack("<Q", len(content)) + content


def encoded(raw: Mapping[str, Any], feature_level: str) -> bytes:
    """Return a descriptor, a dict as `to_dict` gives, as it stands in a request.

    Raises:
        DescriptorError: A value has no place in DirectML's structures.
    """
    operator = str(raw["type"]).removeprefix("DML_OPERATOR_")
    if operator not in _OPERATORS:
        raise DescriptorError(f"type must be one of {', '.join(_OPERATORS)}, got {shown(operator)}")
    names, desc = list(header_names(OPERATORS[operator]).values()), raw["desc"]
    tensors, fields = names[: len(TENSORS)], names[len(TENSORS) :]
    return b"".join(
        [
            _u32("type", _OPERATORS[operator]),
            _u32("feature level", _level_number(feature_level)),
            *(_tensor(name, desc[name]) for name in tensors),
            _u32("fields", len(fields)),
            *(_u32(name, desc[name]) for name in fields),
        ]
    )


def _tensor(name: str, raw: Mapping[str, Any]) -> bytes:
    """Return a tensor as it stands in a request; TotalTensorSizeInBytes is by default the least."""
    short = str(raw["DataType"]).removeprefix(TYPE_PREFIX)
    if short not in _DATA_TYPES:
        rule = f"{name}.DataType must be one of {', '.join(_DATA_TYPES)}"
        raise DescriptorError(f"{rule}, got {shown(short)}")
    sizes, strides = list(raw["Sizes"]), raw.get("Strides") or None
    if strides is not None and len(strides) != len(sizes):
        rule = f"{name}.Strides must have as many elements as Sizes ({len(sizes)})"
        raise DescriptorError(f"{rule}, got {len(strides)}")
    total = raw.get("TotalTensorSizeInBytes")
    if total is None:
        last = sum((n - 1) * s for n, s in zip(sizes, strides or sizes, strict=True))
        span = math.prod(sizes) if strides is None else 1 + last
        total = min((max(0, span) * _BITS[short] + 31) // 32 * 4, 2**64 - 4)
    flags = TensorFlags.parse(raw.get("Flags", TensorFlags.NONE))
    alignment = raw.get("GuaranteedBaseOffsetAlignment", 0)
    return b"".join(
        [
            _u32("DataType", _DATA_TYPES[short]),
            _u32("Flags", int(flags)),
            _u32("DimensionCount", len(sizes)),
            _u32("Strides", int(strides is not None)),
            struct.pack("<Q", uint(f"{name}.TotalTensorSizeInBytes", total, 2**64 - 1)),
            _u32(f"{name}.GuaranteedBaseOffsetAlignment", alignment),
            *(_u32(f"{name}.Sizes[{k}]", n) for k, n in enumerate(sizes)),
            *(_u32(f"{name}.Strides[{k}]", n) for k, n in enumerate(strides or [])),
        ]
    )


def _u32(name: str, value: object) -> bytes:
    return struct.pack("<I", uint(name, value))


def _level_number(feature_level: str) -> int:
    """Return a DML_FEATURE_LEVEL: 0x2100 for "2_1"."""
    numbers = re.fullmatch(r"(\d)_(\d)", feature_level)
    if numbers is None:
        raise DescriptorError(f"feature_level must be such as 2_1, got {shown(feature_level)}")
    return int(numbers[1]) << 12 | int(numbers[2]) << 8


def _decoded(frame: bytes, layout: str) -> list[Any]:
    """Return the parts of a frame; ValueError shows one that is not as the layout says."""
    parts: list[Any] = []
    place = 0
    for letter in layout:
        width = {"B": 8, "M": 8}.get(letter, 4)
        head, place = frame[place : place + width], place + width
        number = int.from_bytes(head, "little")
        if letter == "B":
            head, place = frame[place : place + number], place + number
        known = {"M": number == MAGIC, "S": number < len(STAGES)}.get(letter, True)
        if place > len(frame) or not known:
            raise ValueError(shown(frame))
        parts.append(head if letter == "B" else STAGES[number] if letter == "S" else number)
    if place != len(frame):
        raise ValueError(shown(frame))
    return parts
