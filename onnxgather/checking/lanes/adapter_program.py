"""The program that runs models with an adapter, in the interpreter of its runtime.

It needs the runtime and numpy, and imports nothing of the package: its arguments are
the path of core/execution/runtime.py, whose frames it speaks, and that of the adapter.
It answers requests on its standard input (`serve_adapter`), which the lane sends.

The program imports the adapter, and with it the runtime, once. On Linux it answers
nothing itself: it forks a worker, which answers until it ends. So a case that ends its
process costs a fork, and not another import of the runtime. The first worker is a
program of its own: a fork lacks the threads that an import started, and a runtime that
waits for them at its end would seem to fail there.
"""

from __future__ import annotations

import gc
import os
import platform
import select
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any, BinaryIO, cast

if __name__ == "__main__":
    if not getattr(sys.flags, "safe_path", False):
        # The package's modules have common names, which must hide no others.
        del sys.path[0]
    if find_spec("numpy") is None:
        python = sys.executable
        if " " in python:
            python = f'"{python}"'
        cure = f"install it: {python} -m pip install numpy"
        sys.exit(f"host: a lane needs numpy, which is not installed; {cure}")

import numpy as np

PATTERNS = (0xA5, 0x5B)
"""The bytes that fill free memory before the first run of a model and the second."""

GUARD = 4096
"""How many bytes of a pattern stand before and after each input in memory."""

LARGEST_FREE = 2**20
"""The largest block of free memory that is filled, in bytes."""

END_TIME = 10.0
"""Seconds that a worker may take to end when no request is left."""

AS_WORKER = "worker"
"""The argument that makes the program a worker."""

FORKS = sys.platform == "linux"
"""Whether the program forks workers; on other systems it answers itself."""


def module_of(name: str, path: str) -> ModuleType:
    """Return a file of Python as a module."""
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no file of Python")
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def add_folder(path: str) -> None:
    """Let an adapter import modules beside it, such as a runtime that is not installed.

    The adapters of onnxgather have the names of their runtimes, and need no module.
    """
    folder = os.path.dirname(os.path.abspath(path))
    own_folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "adapters")
    if folder != own_folder:
        sys.path.append(folder)


def text_of(rule: str, value: object) -> str:
    """Return a value that an adapter gives, which must be a text."""
    if isinstance(value, str):
        return value
    raise TypeError(f"{rule} a text, got {type(value).__name__}")


class Adapter:
    """An adapter, and what it answers to requests.

    Args:
        path: The file of the adapter.
        frames: The module that packs arrays and messages.
    """

    def __init__(self, path: str, frames: Any) -> None:
        self._frames = frames
        self._module: Any = None
        self._about: dict[str, Any] = {
            "versions": {"python": platform.python_version(), "numpy": np.__version__}
        }
        add_folder(path)
        try:
            self._module = module_of("adapter", path)
            # Known differences bind to the version, so that None must not pass for one.
            self._about["name"] = text_of("name must be", self._module.name)
            version = self._module.version()
            self._about["version"] = text_of("version() must return", version)
            self._about["tells"] = hasattr(self._module, "ran")
            if not callable(self._module.load):
                raise TypeError("load is no function")
        except BaseException as error:
            # Whatever it is, such as a system exit: the lane says that it is so.
            self._about["fault"] = f"{type(error).__name__}: {frames.line(error)}"
            if isinstance(error, ModuleNotFoundError):
                self._about["missing"] = str(error.name)

    def answer(self, content: bytes) -> bytes:
        """Return what a frame holds that answers a request.

        Args:
            content: A line of JSON, the model and the arrays. The JSON has `model` (how
                many bytes it has), `name` of the case, and `inputs`, each as
                `append_array` describes it. An empty request asks what the adapter is.
        """
        header, _, blobs = content.partition(b"\n")
        request = self._frames.json.loads(header)
        described, arrays = self._about, bytearray()
        if request:
            described = self._ran_model(request, blobs, arrays)
        return self._frames.json.dumps(described).encode() + b"\n" + arrays

    def _ran_model(
        self, request: Mapping[str, Any], blobs: bytes, content: bytearray
    ) -> dict[str, Any]:
        """Run a model twice, over other free memory.

        Where both outputs are the same, the answer has one.
        """
        model = blobs[: request["model"]]
        described = request["inputs"]
        outputs: list[Any] = []
        first_output: Any = None
        loaded: Any = None
        answered: Any = None
        for pattern in PATTERNS:
            fill_free_memory(pattern)
            try:
                loaded = self._module.load(model, request["name"])
            except Exception as error:
                kind = "not_given" if self._is_not_given(error) else "refused"
                return {kind: self._text(error)}
            try:
                # No name keeps the inputs, whose memory is then filled again.
                output = self._run(loaded, self._inputs(described, blobs, pattern))
            except Exception as error:
                if not self._is_not_given(error):
                    raise
                return {"not_given": self._text(error)}
            if is_array(output):
                answered = loaded
            if outputs and is_same(first_output, output):
                continue
            outputs.append(self._described(output, content))
            first_output = output
        if answered is not None:
            return {"outputs": outputs, "ran": self._ran(answered)}
        # Case: no run returned an output, and the adapter may not know what ran then.
        ran = self._ran(loaded)
        return {"outputs": outputs, "ran": None if isinstance(ran, str) else ran}

    def _inputs(
        self, described: Mapping[str, Any], blobs: bytes, pattern: int
    ) -> dict[str, np.ndarray[Any, Any]]:
        inputs: dict[str, np.ndarray[Any, Any]] = {}
        for name, place in described.items():
            array = self._frames.array_at(place, blobs)
            if array.dtype.names:
                missing = f"{name} of {array.dtype.names[0]}"
                raise _UnheldError(f"{missing}, which numpy lacks without ml_dtypes")
            inputs[name] = guarded(array, pattern)
        return inputs

    def _run(self, loaded: Any, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Any:
        """Return an output, or the text of an error, or a sentence in a tuple."""
        if not callable(loaded):
            return (f"load returned {type(loaded).__name__}, and no function",)
        try:
            outputs = loaded(inputs)
        except Exception as error:
            if self._is_not_given(error):
                raise
            return self._text(error)
        if not isinstance(outputs, dict):
            return (f"outputs of type {type(outputs).__name__}, and no dict",)
        arrays = cast("dict[str, Any]", outputs)
        if OUTPUT_NAME not in arrays:
            names = ", ".join(map(str, arrays)) or "none"
            return (f"no output {OUTPUT_NAME}, but {names}",)
        output = arrays[OUTPUT_NAME]
        kind = type(output).__name__
        if is_array(output):
            kind = f"an array of {output.dtype}"
            if output.dtype.kind == "U":
                output = output.astype(object)
        if not is_array(output) or not self._has_elements(output):
            return (f"{OUTPUT_NAME} as {kind}, and no array of numbers or texts",)
        if output.nbytes > LARGEST_RETURNED:
            size = f"{output.nbytes:,} bytes"
            return (f"{OUTPUT_NAME} of {size}, and at most {LARGEST_RETURNED:,}",)
        # A copy, as the runtime may own the memory; in this machine's byte order.
        return output.astype(output.dtype.newbyteorder("="))

    def _has_elements(self, array: np.ndarray[Any, Any]) -> bool:
        """Return whether an array is one of numbers, truth values or texts."""
        dtype = array.dtype
        if dtype.hasobject:
            return all(isinstance(text, str) for text in array.flat)
        # The types of ml_dtypes come first, as one has the sign of numpy's longdouble.
        if dtype.name in self._frames.ONNX_NUMBERS:
            return True
        return dtype.kind in "biufc" and dtype.char not in "gG"

    def _is_not_given(self, error: Exception) -> bool:
        """Return whether an error says that the adapter cannot pass the case on.

        Such an error is no refusal by the runtime, which never saw the case.
        """
        kind = getattr(self._module, NOT_GIVEN, None)
        is_own = isinstance(kind, type) and isinstance(error, kind)
        return is_own or isinstance(error, _UnheldError)

    def _described(self, output: Any, content: bytearray) -> Any:
        if is_array(output):
            return self._frames.append_array(output, content)
        if isinstance(output, str):
            return output
        (wrong,) = output
        return {"wrong": wrong}

    def _ran(self, loaded: Any) -> Any:
        """Return the names of the operators that ran; None if the adapter tells none.

        A text says what is wrong with them.
        """
        if not self._about["tells"]:
            return None
        try:
            names = self._module.ran(loaded)
        except Exception as error:
            return f"ran failed: {self._text(error)}"
        if not isinstance(names, list | tuple):
            return f"ran returned {type(names).__name__}, and no list of names"
        return [str(name) for name in cast("list[Any]", names)]

    def _text(self, error: BaseException) -> str:
        text = self._frames.line(error)
        return text or type(error).__name__


OUTPUT_NAME = "OutputTensor"
"""The name of the output of each model."""


LARGEST_RETURNED = 2**31
"""The most bytes of an output; more would fill the memory with its copies."""

NOT_GIVEN = "NotGivenError"
"""The class by which an adapter says that it cannot give its runtime the case."""


class _UnheldError(Exception):
    """No array of this environment holds an input; contains which."""


def is_array(value: Any) -> bool:
    """Return whether a value is an array of numpy."""
    return isinstance(value, np.ndarray)


def is_same(one: Any, other: Any) -> bool:
    """Return whether two outputs have the same type, shape and bytes.

    Two failures count as the same.
    """
    if not is_array(one) or not is_array(other):
        return not is_array(one) and not is_array(other)
    is_alike = one.dtype == other.dtype and one.shape == other.shape
    if is_alike and one.dtype.hasobject:
        return one.tolist() == other.tolist()
    return bool(is_alike and one.tobytes() == other.tobytes())


def guarded(array: np.ndarray[Any, Any], pattern: int) -> np.ndarray[Any, Any]:
    """Return a copy of an array, with bytes of a pattern before it and after it."""
    if array.dtype.hasobject:  # texts lie elsewhere
        return array.copy()
    block = np.full(array.nbytes + 3 * GUARD, pattern, np.uint8)
    # Runtimes take no array that begins elsewhere than at a multiple of 64 as it is.
    start = GUARD + -block.ctypes.data % 64
    inner = block[start : start + array.nbytes]
    inner[:] = np.frombuffer(array.tobytes(), np.uint8)
    return inner.view(array.dtype).reshape(array.shape)


_PINNED: list[np.ndarray[Any, Any]] = []
"""A block behind the free memory, which keeps the system from taking that back."""


def fill_free_memory(pattern: int) -> None:
    """Fill blocks of memory of all usual sizes with a byte, and free them.

    What a runtime reads of memory that it never wrote is then this byte.
    """
    sizes = [*range(16, 1040, 16)] * 8
    size = 2048
    while size <= LARGEST_FREE:
        sizes += [size] * 2
        size *= 2
    blocks = [np.full(size, pattern, np.uint8) for size in sizes]
    _PINNED[:] = [np.full(2048, pattern, np.uint8)]
    blocks.clear()


class ForkedWorker:
    """A fork of this process, which answers requests that come through a pipe.

    Args:
        adapter: The adapter.
        frames: The module that packs arrays and messages.
        is_program: Whether the fork runs this program anew, with an adapter of its own.
    """

    def __init__(self, adapter: Adapter, frames: Any, is_program: bool) -> None:
        self._frames = frames
        self._status: int | None = None
        self.answered: str | None = None
        """The name of the case that it answered last."""
        self.ended_before = False
        """Whether it ended before it received the last request."""
        requests, to_worker = os.pipe()
        from_worker, answers = os.pipe()
        self._pid = os.fork()
        if self._pid == 0 and is_program:
            os.dup2(requests, 0)
            os.dup2(answers, 1)
            os.execv(sys.executable, [*sys.orig_argv, AS_WORKER])
        if self._pid == 0:
            os.close(to_worker)
            os.close(from_worker)
            # The standard input belongs to the process that forks.
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            with open(requests, "rb") as source, open(answers, "wb") as target:
                _answer_all(adapter, frames, source, target)
            sys.exit(0)  # as a program ends, with all that a runtime does then
        os.close(requests)
        os.close(answers)
        self._requests = os.fdopen(to_worker, "wb")
        self._answers = os.fdopen(from_worker, "rb")

    def exchange(self, request: bytes) -> bytes | None:
        """Return the answer to a request; None if the worker ended before.

        The program ends where its own input ends meanwhile.
        """
        # Case: a thread of the runtime ended the process after the last answer.
        if self._has_ended():
            self.ended_before = True
            return None
        try:
            self._requests.write(self._frames.frame(request))
            self._requests.flush()
            ready, _, _ = select.select([self._answers, sys.stdin], [], [])
            if sys.stdin in ready:  # nobody waits for the answer
                self.kill()
                sys.exit()
            answer = self._frames.read_frame(self._answers)
        except (OSError, EOFError):
            return None
        header, _, _ = request.partition(b"\n")
        self.answered = self._frames.json.loads(header)["name"]
        return answer

    def _has_ended(self) -> bool:
        """Return whether the worker has ended, and keep its status if it has."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._status = status
        return self._status is not None

    def ended(self, seconds: float) -> int | None:
        """Let the worker end; return its exit code, as `subprocess` writes it.

        It is None if the worker does not end in time. Then it is killed.
        """
        with suppress(OSError):
            self._requests.close()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._has_ended():
                assert self._status is not None
                self._answers.close()
                return os.waitstatus_to_exitcode(self._status)
            time.sleep(0.001)
        self.kill()
        return None

    def kill(self) -> None:
        """End the worker at once."""
        if not self._has_ended():
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        self._answers.close()


def _answer_all(
    adapter: Adapter, frames: Any, requests: BinaryIO, answers: BinaryIO
) -> None:
    """Answer requests in a worker, until none is left."""
    with suppress(EOFError):
        while True:
            request = frames.read_frame(requests)
            frames.send(answers, frames.frame(adapter.answer(request)))


def serve_by_forks(adapter: Adapter, frames: Any) -> None:
    """Answer requests through workers; the program ends when its input ends.

    A request may ask to let the worker end: `end` is how many seconds that may take.
    In place of an answer there may be `ended`, the exit code of the worker, with
    `after`, the case that it had answered, if it ended before the request came.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not get between the frames
    frames.send(answers, frames.MAGIC)
    worker: ForkedWorker | None = None
    is_first = True
    while True:
        try:
            request = frames.read_frame(sys.stdin.buffer)
        except EOFError:
            break
        header = frames.json.loads(request.partition(b"\n")[0])
        seconds = header.get("end")
        answer: bytes | None = None
        # Case 1: what the adapter is needs no worker.
        if not header:
            answer = adapter.answer(request)
        # Case 2: a model.
        elif seconds is None:
            worker = worker or ForkedWorker(adapter, frames, is_program=is_first)
            is_first = False
            answer = worker.exchange(request)
            seconds = END_TIME
        # Case 3: the worker ended, or is to end.
        if answer is None:
            end: dict[str, Any] = {"ended": 0}
            if worker is not None:
                end["ended"] = worker.ended(seconds)
                if worker.ended_before:
                    end["after"] = worker.answered
            worker = None
            answer = frames.json.dumps(end).encode() + b"\n"
        frames.send(answers, frames.frame(answer))
    if worker is not None:
        worker.kill()


def serve_here(adapter: Adapter, frames: Any) -> None:
    """Answer requests in this process; the program ends when its input ends."""
    requests, answers = frames.open_frames()
    frames.send(answers, frames.MAGIC)
    while True:
        frames.send(answers, frames.frame(adapter.answer(requests.get())))


def serve_as_worker(adapter: Adapter, frames: Any) -> None:
    """Answer requests in a worker that is a program of its own."""
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what libraries print must not get between the frames
        _answer_all(adapter, frames, sys.stdin.buffer, answers)


def serve_adapter(frames_path: str, adapter_path: str, role: str = "") -> None:
    """Answer requests; the first bytes out are `MAGIC` of the frames.

    Args:
        frames_path: The path of core/execution/runtime.py.
        adapter_path: The path of the adapter.
        role: `AS_WORKER` for a worker, whose first bytes out are those of an answer.
    """
    frames = module_of("onnxgather_frames", frames_path)
    # What an adapter prints while it loads must not stand for the greeting.
    standard_output = os.dup(1)
    os.dup2(2, 1)
    adapter = Adapter(adapter_path, frames)
    os.dup2(standard_output, 1)
    os.close(standard_output)
    if role == AS_WORKER:
        serve_as_worker(adapter, frames)
    elif FORKS:
        gc.freeze()  # so that workers share the memory of what is imported
        serve_by_forks(adapter, frames)
    else:
        serve_here(adapter, frames)


if __name__ == "__main__":
    serve_adapter(*sys.argv[1:])
