"""Descriptors run on exactly one execution provider, with proof that it ran them."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

from onnxgather.arrays import Array, check_indices, check_inputs
from onnxgather.descriptors import Descriptor
from onnxgather.errors import IndexOutOfRangeError, ProviderError
from onnxgather.model import to_onnx
from onnxgather.options import OutOfRange, Target
from onnxgather.providers import Provider, find_provider, target_of
from onnxgather.runtime import FailedError, NotRunError, RefusedError
from onnxgather.workers.child import NoAnswerError
from onnxgather.workers.hosts import open_model

CACHED_SESSIONS = 128
"""How many sessions `run` keeps; the one used longest ago is dropped first."""

THREADED_ELEMENTS = 2**15
"""The fewest output elements for which a session has several threads; below, they cost time."""


def run(
    desc: Descriptor,
    data: Array,
    indices: Array,
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
    data, indices = check_inputs(desc, data, indices, out_of_range)
    found = find_provider(provider)
    if out_of_range == "error":  # before the model, as some providers answer with zeros
        indices = indices.copy()  # as a provider may read on past an index that changes now
        check_indices(desc, indices)
    elif indices.dtype == np.int64 and (bits := found.int64_bits) < 64:
        try:
            check_indices(desc, indices, 2 ** (bits - 1))
        except IndexOutOfRangeError as error:
            rule = f"{found.name} reads the low {bits} bits of INT64 indices"
            raise ProviderError(f"{rule}: {error}") from None
    session = open_session(desc, out_of_range, found)
    return session.run({"InputTensor": data, "IndicesTensor": indices})


class Session:
    """A model on one provider, of this environment or of a host that runs it in another program.

    Args:
        model: The serialized model.
        provider: The only provider that may run its nodes.
        threads: How many threads the provider may use; 0 means one per core.

    Raises:
        ProviderError: The provider is missing, cannot start, or did not get every node.
    """

    def __init__(self, model: bytes, provider: Provider, threads: int = 0) -> None:
        self.provider = provider
        with self._told():
            self._opened = open_model(model, provider, threads)
        self.assignment = self._opened.assignment
        """The name and the operator of each node, all run by the provider."""
        # DirectML's provider does not allow calls from several threads at once.
        self._lock = threading.Lock()

    def run(self, inputs: dict[str, Array]) -> Array:
        """The model's output, from arrays by the names of the inputs.

        Raises:
            ProviderError: The provider failed.
        """
        with self._told(), self._lock:
            return self._opened.run(inputs)

    @contextmanager
    def _told(self) -> Generator[None]:
        """Tell in one sentence why a model did not run."""
        name = self.provider.name
        try:
            yield
        except NotRunError as error:
            raise ProviderError(self.provider.why_not_run(error.kind, error.detail)) from error
        except RefusedError as error:
            raise ProviderError(f"{name} cannot run the model: {error}") from error
        except (FailedError, NoAnswerError) as error:
            raise ProviderError(f"{name} failed: {error}") from error


@lru_cache(maxsize=CACHED_SESSIONS)
def open_session(
    desc: Descriptor, out_of_range: OutOfRange, provider: Provider, target: Target | None = None
) -> Session:
    """The session that `run` uses for a descriptor; it is made if it is not kept.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does.
        provider: The only provider that may run the model.
        target: The target of the model; None is the one that suits the provider.

    Raises:
        ProviderError: The provider is missing, cannot start, or did not get every node.
    """
    threads = threads_for(desc)
    model = to_onnx(desc, out_of_range, target_of(provider.name, target), threads=threads)
    return Session(model.SerializeToString(), provider, threads)


_FORGOTTEN: list[object] = []


def _forget_sessions() -> None:
    """In the child of a fork, which has none of their threads: `run` opens other sessions."""
    global open_session
    _FORGOTTEN.append(open_session)  # kept, as the end of a session waits for its threads
    open_session = lru_cache(maxsize=CACHED_SESSIONS)(open_session.__wrapped__)


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_sessions)


def threads_for(desc: Descriptor) -> int:
    """How many threads a session has for a descriptor."""
    few = math.prod(desc.output_tensor.sizes) < THREADED_ELEMENTS
    return 1 if few else os.cpu_count() or 1
