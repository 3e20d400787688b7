"""Descriptors and models on exactly one execution provider, with proof that it ran them."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from operator import attrgetter, is_
from typing import Any, Self, cast
from weakref import WeakSet

import numpy as np

from onnxgather import runtime
from onnxgather.arrays import Array, check_descriptor, check_indices, plain_array
from onnxgather.checks import number_of, uint
from onnxgather.descriptors import Descriptor
from onnxgather.errors import (
    DescriptorError,
    IndexOutOfRangeError,
    OnnxGatherError,
    ProviderError,
)
from onnxgather.model import to_onnx
from onnxgather.model.network import Value, loaded, values_of
from onnxgather.model.write import MOST_THREADS
from onnxgather.options import OutOfRange, Target
from onnxgather.providers import find_provider, target_of
from onnxgather.runtime import NotRunError, Opened, RefusedError
from onnxgather.workers.child import NoAnswerError
from onnxgather.workers.hosts import OpenedThere, open_model

CACHED_SESSIONS = 128
"""How many sessions `run` keeps; the one used longest ago is dropped first."""

THREADED_ELEMENTS = 2**15
"""The fewest output elements for which a session has several threads; below, they cost time."""


def run(
    desc: Descriptor,
    data: Any,
    indices: Any,
    out_of_range: OutOfRange = "clamp",
    provider: str = "cpu",
) -> Array:
    """The output of a gather, computed by one execution provider.

    The session is kept for the next call with the same descriptor and options.

    Args:
        desc: Any of the four gather descriptors.
        data: InputTensor: an array of its `sizes`, or its 1-D buffer where it has strides.
        indices: IndicesTensor, likewise.
        out_of_range: What an index out of range does; see `OutOfRange`.
        provider: "cpu", "directml", "openvino", … or ONNX Runtime's full name.

    Returns:
        OutputTensor: an array of its `sizes`, or its 1-D buffer where it has strides.

    Raises:
        DescriptorError: An array does not fit its tensor.
        IndexOutOfRangeError: An index is out of range and `out_of_range` is "error".
        ProviderError: The provider is missing, fails, or did not get every node; or its arithmetic
            reads an index in part.
    """
    try:
        session = open_session(desc, out_of_range, provider)
    except TypeError:  # what cannot be hashed is no descriptor and no option, and is told so
        session = open_session.__wrapped__(desc, out_of_range, provider)
    return session.run(data, indices)


class Session:
    """A descriptor's model, or any model, on one provider: prepared once, to run often.

    Several threads may use a session at once; where the provider allows one call at a time, the
    others wait. In the child of a fork the model is opened once more, with the first call there.

    Args:
        source: A descriptor; or a model: an onnx.ModelProto, its bytes, or the path of its file.
        provider: "cpu", "directml", "openvino", … or ONNX Runtime's full name: the only provider
            that may run the model's nodes.
        out_of_range: What an index out of range of a descriptor does; see `OutOfRange`.
        target: What the descriptor's model is made for; None is what suits the provider: on the
            CPU "native" where the native kernels are there, else "cpu".
        threads: How many threads the provider may use, 0 for one per core; None is one for a
            descriptor with a small output, else one per core.
        provider_options: The provider's own options, as ONNX Runtime documents them.

    Raises:
        OnnxGatherError: The source is no descriptor and no model, or an option is unknown.
        ProviderError: The provider is missing, cannot start, or did not get every node.
    """

    def __init__(
        self,
        source: Descriptor | Any,
        provider: str = "cpu",
        *,
        out_of_range: OutOfRange = "clamp",
        target: Target | None = None,
        threads: int | None = None,
        provider_options: Mapping[str, str] | None = None,
    ) -> None:
        self.provider = found = find_provider(provider)
        if threads is not None:
            threads = uint("threads", threads, MOST_THREADS, 0, OnnxGatherError)
        self._desc = source if isinstance(source, Descriptor) else None
        if isinstance(source, Descriptor):
            threads = threads_for(source) if threads is None else threads
            target = target_of(found.name, target)
            cores = threads or os.cpu_count()
            source = to_onnx(source, out_of_range, target, threads=cores)
        elif (out_of_range, target) != ("clamp", None):
            raise OnnxGatherError("a model has its own out_of_range and target; leave them out")
        model, proto = loaded(source)
        self.inputs, self.outputs = values_of(proto)
        """The names, data types and sizes of the inputs, and of the outputs, in their order."""
        self._names = [value.name for value in self.inputs]
        self._kinds = [(np.ndarray, value.dtype, value.type.sizes) for value in self.inputs]
        self._policy, self._bound = out_of_range, _Bound()
        self._guards = False
        if self._desc is not None:
            wide = 8 * self._desc.indices_tensor.data_type.size > found.int64_bits
            self._guards = out_of_range == "error" or wide
        session = {"threads": threads or 0, "settings": provider_options}
        self._open: Callable[[], Opened | OpenedThere] | None = partial(
            open_model, model, found, session
        )
        self.assignment = self._opened.assignment
        """The name and the operator of each node, all run by the provider."""
        _SESSIONS.add(self)

    def run(self, *arrays: Any) -> Any:
        """The output for inputs; of a model with several outputs, a list of them.

        Args:
            arrays: The inputs, in the order of `inputs` (InputTensor, IndicesTensor); or one
                mapping from their names. Numpy arrays; or, without a copy, OrtValues and what
                has DLPack, such as torch tensors on the CPU.

        Raises:
            DescriptorError: An array does not fit its input.
            IndexOutOfRangeError: An index is out of range and `out_of_range` is "error".
            ProviderError: The provider failed; or it is in another program, which takes numpy
                arrays alone.
        """
        try:
            fits = [*map(_KIND, arrays)] == self._kinds
        except AttributeError:
            fits = False
        # As strict=True costs as much as the rest.
        feeds = dict(zip(self._names, arrays)) if fits else self._fed(arrays)  # noqa: B905
        if self._guards:
            self._guard(feeds)
        try:
            outputs = self._opened.run_all(feeds)
        except Exception as error:
            raise self._told(error) from error
        return outputs[0] if len(outputs) == 1 else outputs

    def run_into(self, *arrays: Any, out: Any) -> None:
        """Run into memory that is there: ONNX Runtime's IO binding.

        Each thread's arrays stay bound, and alive, until it comes with others. So the same arrays
        may be filled again between calls, but not be given other memory, as `resize` does.

        Args:
            arrays: The inputs, as `run` takes them.
            out: What the output is written into: a C-contiguous array, an OrtValue, or what has
                DLPack; of a model with several outputs, a list of them.

        Raises:
            DescriptorError: An array does not fit its input or output; `out` is read-only, not
                contiguous, or overlaps an input.
            IndexOutOfRangeError, ProviderError: As `run`.
        """
        was, into, run = self._bound.now
        try:
            if out is not into or len(arrays) != len(was) or not all(map(is_, arrays, was)):
                run = self._bind(arrays, out)
            run()
        except Exception as error:
            raise self._told(error) from error

    def close(self) -> None:
        """Let go of the model and the arrays; a call that comes later raises ProviderError."""
        self._open = None
        self.let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _opened(self) -> Opened | OpenedThere:
        if self._open is None:
            raise ProviderError(f"the session on {self.provider.name} is closed")
        try:
            return self._open()
        except Exception as error:
            raise self._told(error) from error

    def let_go(self) -> object:
        """Have the next call open and bind again; return what was there."""
        was, self._bound = self._bound, _Bound()
        return was, self.__dict__.pop("_opened", None)

    def _fed(self, arrays: Sequence[Any]) -> dict[str, Any]:
        """The inputs by their names, checked."""
        names, given = self._names, arrays
        rule = f"the inputs must be {', '.join(names) or 'none'}"
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            named = cast("Mapping[str, Any]", arrays[0])
            if {*named} != {*names}:
                raise DescriptorError(f"{rule}, got {', '.join(map(str, named)) or 'none'}")
            given = [named[name] for name in names]
        if len(given) != len(names):
            raise DescriptorError(f"{rule}, got {number_of(len(given), 'array')}")
        pairs = zip(self.inputs, given, strict=True)
        return {value.name: self._fitting(value, array) for value, array in pairs}

    def _fitting(self, value: Value, array: Any) -> Any:
        """An array, or an OrtValue, of the memory that was given, checked."""
        dtype, kind = value.dtype, value.type
        if dtype is None:  # texts, or a sequence; ONNX Runtime checks them
            return array
        sizes = kind.sizes if kind.is_static else str(kind).partition(" ")[2]
        rule = f"{value.name} must be an array of {dtype} {sizes}"
        if runtime.is_ort_value(array):
            self._binding()
            found, shape = array.data_type(), tuple(array.shape())
            fits = found == f"tensor({kind.data_type.lower()})"
        else:
            if _has_dlpack(array):
                self._binding()
                array = _of_dlpack(rule, array)
            array = plain_array(rule, cast("object", array))
            found, shape, fits = array.dtype, array.shape, array.dtype == dtype
        if fits and kind.admits(shape):
            return array
        raise DescriptorError(f"{rule}, got {found} {shape}")

    def _binding(self) -> Opened:
        """What binds memory; raises ProviderError where there is no memory to share."""
        if isinstance(self._opened, Opened):
            return self._opened
        raise ProviderError(
            f"{self.provider.name} runs in another program here, which takes numpy arrays and "
            "returns one: it has no run_into, and takes no OrtValue and no DLPack"
        )

    def _guard(self, feeds: dict[str, Any]) -> None:
        """Check the indices of a descriptor as far as the provider does not."""
        desc, indices = cast("Descriptor", self._desc), feeds["IndicesTensor"]
        if runtime.is_ort_value(indices):
            indices = indices.numpy()
        if self._policy == "error":  # before the model, as some providers answer with zeros
            indices = indices.copy()  # as a provider may read on past an index that changes now
            feeds["IndicesTensor"] = indices
            check_indices(desc, indices)
            return
        bits = self.provider.int64_bits
        try:
            check_indices(desc, indices, 2 ** (bits - 1))
        except IndexOutOfRangeError as error:
            rule = f"{self.provider.name} reads the low {bits} bits of INT64 indices"
            raise ProviderError(f"{rule}: {error}") from None

    def _bind(self, arrays: Sequence[Any], out: Any) -> Callable[[], object]:
        """A call that runs the model into what `run_into` was given."""
        opened, bound = self._binding(), self._bound
        feeds = self._fed(arrays)
        outs: list[Any] = [*out] if isinstance(out, list | tuple) else [out]
        if len(outs) != len(self.outputs):
            rule = f"out must be {number_of(len(self.outputs), 'array')}"
            raise DescriptorError(f"{rule}, got {len(outs)}")
        into = {v.name: self._fitting(v, x) for v, x in zip(self.outputs, outs, strict=True)}
        if self._guards:
            self._guard(feeds)
        feeds = {name: _contiguous(value) for name, value in feeds.items()}
        values = [*feeds.values(), *into.values()]
        if [*map(id, values)] != [*map(id, bound.values)]:
            for name, value in into.items():
                _check_out(name, value, {**feeds, **into})
            bound.run, bound.values = opened.bound(feeds, into), values
        if not opened.keeps_bindings:  # inputs were copied when they were bound
            bound.values = []
        given = [*map(id, arrays), id(cast("object", out))]
        same = opened.keeps_bindings and [*map(id, values)] == given
        bound.now = (arrays, out, bound.run) if same else _Bound.now
        return bound.run

    def _told(self, error: Exception) -> Exception:
        """The error that tells in one sentence why a model did not run."""
        if isinstance(error, OnnxGatherError) and not isinstance(error, NoAnswerError):
            return error
        if isinstance(error, NotRunError):
            return ProviderError(self.provider.why_not_run(error.kind, error.detail))
        what = "cannot run the model" if isinstance(error, RefusedError) else "failed"
        return ProviderError(f"{self.provider.name} {what}: {runtime.line(error)}")


_KIND = attrgetter("__class__", "dtype", "shape")


class _Bound(threading.local):
    """What a thread bound last."""

    values: Sequence[Any] = ()
    """The arrays and OrtValues, kept alive."""
    run: Callable[[], object] = object
    """The call that runs the model into them."""
    now: tuple[Sequence[Any], object, Callable[[], object]] = (), ..., object
    """The inputs and `out` as they were given, where they are what is bound; and the call."""


def _has_dlpack(array: object) -> bool:
    return hasattr(type(array), "__dlpack__") and not isinstance(array, np.ndarray)


def _of_dlpack(rule: str, array: Any) -> Array:
    try:
        return np.from_dlpack(array)
    except Exception as error:  # each library raises errors of its own
        found = f"{type(array).__name__}, which numpy does not read by DLPack"
        raise DescriptorError(f"{rule}, got {found}: {runtime.line(error)}") from error


def _contiguous(value: Any) -> Any:
    """The same value, or a copy where it is an array in disorder."""
    if not isinstance(value, np.ndarray):
        return value
    return np.require(cast("Array", value), requirements=["C", "A"])


def _check_out(name: str, out: Any, others: Mapping[str, Any]) -> None:
    """Check that a model can write into memory."""
    if isinstance(out, np.ndarray):
        if not out.flags.writeable:
            raise DescriptorError(f"{name} must be writable, got a read-only array")
        if not out.flags.carray:
            raise DescriptorError(f"{name} must be C-contiguous and aligned, as it is written into")
    start, end = _span(out)
    for other, value in others.items():
        first, last = _span(value)
        if other != name and start < last and first < end:
            raise DescriptorError(f"{name} must have memory of its own, got some of {other}'s")


def _span(value: Any) -> tuple[int, int]:
    """The addresses where memory of this program begins and ends."""
    if isinstance(value, np.ndarray):
        return value.ctypes.data, value.ctypes.data + value.nbytes
    if value.device_name().lower() != "cpu":
        return 0, 0
    return value.data_ptr(), value.data_ptr() + value.tensor_size_in_bytes()


@lru_cache(maxsize=CACHED_SESSIONS)
def open_session(
    desc: Descriptor, out_of_range: OutOfRange, provider: str, target: Target | None = None
) -> Session:
    """The session that `run` uses for a descriptor; it is made if it is not kept.

    Raises:
        DescriptorError: `desc` is no descriptor.
        OnnxGatherError, ProviderError: As `Session`.
    """
    check_descriptor(desc)
    return Session(desc, provider, out_of_range=out_of_range, target=target)


_SESSIONS: WeakSet[Session] = WeakSet()
_FORGOTTEN: list[object] = []


def _forget_models() -> None:
    """In the child of a fork, which has none of their threads: sessions open other models."""
    _FORGOTTEN.extend(session.let_go() for session in _SESSIONS)  # as their end waits for threads


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_models)


def threads_for(desc: Descriptor) -> int:
    """How many threads a session has for a descriptor."""
    few = math.prod(desc.output_tensor.sizes) < THREADED_ELEMENTS
    return 1 if few else os.cpu_count() or 1
