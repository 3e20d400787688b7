"""Models on exactly one execution provider, with proof that it ran them.

The only module that speaks to onnxruntime. ONNX Runtime falls back to the CPU without an error,
and its list of providers names those that ran nothing; so a session counts only where the
runtime's own node assignment puts every node on the provider asked for.
"""

from __future__ import annotations

import math
import os
import threading
from functools import lru_cache
from typing import Any

import numpy as np

from onnxgather.arrays import (
    Array,
    OutOfRange,
    check_array,
    check_descriptor,
    check_indices,
    check_policy,
)
from onnxgather.descriptors import Descriptor
from onnxgather.errors import ProviderError
from onnxgather.model import to_onnx
from onnxgather.options import Target
from onnxgather.providers import PROVIDERS, Provider, find_provider

CACHED_SESSIONS = 128
"""Sessions that `run` keeps; the one used longest ago goes first."""

THREADED_ELEMENTS = 2**15
"""Output elements from which `run` lets a session have threads: starting them costs more below."""


def run(
    desc: Descriptor,
    data: Array,
    indices: Array,
    out_of_range: OutOfRange = "clamp",
    provider: str = "cpu",
) -> Array:
    """Return what a descriptor computes, computed by one execution provider.

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
        ProviderError: The provider is missing, fails, or did not get every node.
    """
    check_descriptor(desc)
    check_policy(out_of_range)
    check_array("InputTensor", desc.input_tensor, data)
    check_array("IndicesTensor", desc.indices_tensor, indices)
    if out_of_range == "error":  # before the model, as some providers answer with zeros
        check_indices(desc, indices)
    session = _cached_session(desc, out_of_range, find_provider(provider))
    return session.run({"InputTensor": data, "IndicesTensor": indices})


class Session:
    """A model on one provider.

    Args:
        model: The serialized model.
        provider: The only provider that may run its nodes.
        threads: How many threads the provider may use where it asks; 0 means one per core.

    Raises:
        ProviderError: The provider is missing, cannot start, or did not get every node.
    """

    def __init__(self, model: bytes, provider: Provider, threads: int = 0) -> None:
        self.provider = provider
        runtime = _runtime(provider)
        options = runtime.SessionOptions()
        options.log_severity_level = 4  # what goes wrong is raised
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        if provider != PROVIDERS["cpu"]:
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        if provider == PROVIDERS["directml"]:
            options.enable_mem_pattern = False
            options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
        try:
            self._session = runtime.InferenceSession(
                model, options, providers=[provider.name], enable_fallback=0
            )
        except Exception as error:
            raise ProviderError(f"{provider.name} cannot run the model: {_line(error)}") from error
        self.assignment = self._prove()
        self._run_options: Any = None
        if provider == PROVIDERS["cpu"] and threads != 1:  # cached sessions must not hoard memory
            self._run_options = runtime.RunOptions()
            entry = ("memory.enable_memory_arena_shrinkage", "cpu:0")
            self._run_options.add_run_config_entry(*entry)
        # DirectML's provider does not allow calls from several threads at once.
        self._lock = threading.Lock()

    def run(self, inputs: dict[str, Array]) -> Array:
        """Return the model's output.

        Raises:
            ProviderError: The provider failed.
        """
        inputs = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        try:
            with self._lock:
                outputs: list[Any] = self._session.run(None, inputs, self._run_options)
        except Exception as error:
            raise ProviderError(f"{self.provider.name} failed: {_line(error)}") from error
        return outputs[0]

    def _prove(self) -> tuple[tuple[str, str], ...]:
        """Return the name and the operator of each node, all run by the provider."""
        nodes: list[tuple[str, str]] = []
        for part in self._session.get_provider_graph_assignment_info():
            for node in part.get_nodes():
                if part.ep_name != self.provider.name:
                    raise ProviderError(
                        f"{self.provider.name} must run every node, but {node.name} "
                        f"({node.op_type}) runs on {part.ep_name}"
                    )
                nodes.append((node.name, node.op_type))
        if not nodes:
            raise ProviderError(f"{self.provider.name} must run a node, but none is left to run")
        return tuple(nodes)


def open_session(
    desc: Descriptor, out_of_range: OutOfRange, provider: Provider, target: Target | None = None
) -> Session:
    """Return a new session for a descriptor, as `run` opens it.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does.
        provider: The only provider that may run the model.
        target: Whom the model is for; None is the target that suits the provider.

    Raises:
        ProviderError: The provider is missing, cannot start, or did not get every node.
    """
    small = math.prod(desc.output_tensor.sizes) < THREADED_ELEMENTS
    threads = 1 if small else os.cpu_count() or 1
    model = to_onnx(desc, out_of_range, target or target_of(provider), threads=threads)
    return Session(model.SerializeToString(), provider, threads)


@lru_cache(maxsize=CACHED_SESSIONS)
def _cached_session(desc: Descriptor, out_of_range: OutOfRange, provider: Provider) -> Session:
    return open_session(desc, out_of_range, provider)


def target_of(provider: Provider) -> Target:
    """Return the target that suits a provider."""
    return "cpu" if provider == PROVIDERS["cpu"] else "portable"


def _runtime(provider: Provider) -> Any:
    """Return the module onnxruntime, once it is known to have the provider."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ProviderError(
            f"{provider.name} needs ONNX Runtime, which is not installed; install {provider.source}"
        ) from error
    runtime: Any = onnxruntime
    if not hasattr(runtime, "InferenceSession"):
        raise ProviderError(
            "the module onnxruntime is empty, as uninstalling one of its wheels leaves it; "
            f"reinstall {provider.source}"
        )
    available: list[str] = runtime.get_available_providers()
    if provider.name not in available:
        raise ProviderError(
            f"{provider.name} is not available (available: {', '.join(available)}); "
            f"install {provider.source}"
        )
    return runtime


def _line(error: Exception) -> str:
    """Return an error of ONNX Runtime on one line."""
    return " ".join(str(error).split())
