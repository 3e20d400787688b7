"""ONNX Runtime: a model on exactly one provider, with proof that it ran there.

This is the only module that imports onnxruntime. It imports nothing of the package, so
that it also runs as a program, in an environment that has onnxruntime and numpy and
nothing else: there it answers requests on its standard input (`serve`), which
`execution.worker` sends.

ONNX Runtime falls back to the CPU without an error, and its list of providers names
providers that ran nothing. So a session counts only if ONNX Runtime's own node
assignment says that the provider asked for runs every node.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import platform
import re
import signal
import struct
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from queue import SimpleQueue
from typing import Any, BinaryIO, Literal

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

CPU = "CPUExecutionProvider"
DIRECTML = "DmlExecutionProvider"
WEBGPU = "WebGpuExecutionProvider"
GATHERS = "OnnxGatherExecutionProvider"
"""onnxgather's own provider, which runs nothing but gathers."""
NO_GATHER = "none is a gather that it runs"
"""Of "folded" of `NotRunKind`, on that provider."""
VIRTUAL = ".virtual"
"""The end of a name under which a plugin library may offer virtual devices."""

_ENTRIES = {
    WEBGPU: {
        # With its own layout, NHWC, ONNX Runtime 1.27.0 records no node assignment.
        "ep.webgpuexecutionprovider.preferredLayout": "NCHW",
        "ep.webgpuexecutionprovider.enableInt64": "1",
    }
}
"""The entries of the session's configuration that a provider needs, by its full
name."""

ONNX_NUMBERS = {
    "bfloat16": 16,
    "float8_e4m3fn": 17,
    "float8_e4m3fnuz": 18,
    "float8_e5m2": 19,
    "float8_e5m2fnuz": 20,
    "uint4": 21,
    "int4": 22,
}
"""ONNX's numbers of the data types that numpy lacks, by their names in ml_dtypes."""

MAGIC = b"\x93gather\n"
"""What a worker writes first. An environment may print something before it."""

LONGEST_FRAME = 2**33
"""The most bytes of a frame."""

LONGEST_MESSAGE = 10_000
"""The most characters of a message of ONNX Runtime that are passed on."""

_OLDEST_FOR_GATHERS = (1, 24)
"""The oldest ONNX Runtime that onnxgather's own provider runs in."""

_SHRINKAGE = ("memory.enable_memory_arena_shrinkage", "cpu:0")
_EXTERNAL_DATA = "session.model_external_initializers_file_folder_path"
_NO_FALLBACK = "session.disable_cpu_ep_fallback"
_NO_PREPACKING = "session.disable_prepacking"
_WEIGHTS = "session.optimized_model_external_initializers_file_name"
_LEAST_WEIGHT = "session.optimized_model_external_initializers_min_size_in_bytes"
_ASSIGNMENT = "get_provider_graph_assignment_info"


NotRunKind = Literal[
    "no-runtime",
    "empty-runtime",
    "absent",
    "too-old",
    "before-plugins",
    "library",
    "no-device",
    "elsewhere",
    "folded",
    "operators",
    "types",
]
"""Why a provider did not run a model.

no-runtime: onnxruntime is not installed. empty-runtime: its package is empty. absent:
the build has no such provider; the detail names those that it has. too-old: it records
no node assignment; the detail is its version. before-plugins: it is older than
onnxgather's own provider; the detail is its version. library: the plugin library does
not load; the detail is its error. no-device: the plugin library offers no such device;
the detail is which, and the devices that ONNX Runtime lists.
elsewhere: a node went to another provider; the detail names both. folded: no node was
left to run, or none is a gather that onnxgather's own provider runs. operators:
onnxgather's own operators did not run; the detail says why. types: the provider lacks a
data type, without which it would read another element; the detail names both.
"""


class NotRunError(Exception):
    """The provider did not run the model.

    Args:
        kind: Why.
        detail: What `NotRunKind` says of the kind.
        node: Of "elsewhere": the name, operator and provider of the node that went to
            another provider; None where ONNX Runtime does not name them.
    """

    def __init__(self, kind: NotRunKind, detail: str = "", node: Any = None) -> None:
        super().__init__(kind, detail, node)
        self.kind: NotRunKind = kind
        self.detail = detail
        self.node = node


class RefusedError(Exception):
    """ONNX Runtime made no session for the model; contains its message, on one line."""


class FailedError(Exception):
    """The provider failed while it ran the model; contains its message, on one line."""


class OptionsError(Exception):
    """The options of a session take no provider; contains the rule, and why."""


@dataclass(frozen=True)
class Setup:
    """How a model is opened; the object `session` of a request."""

    provider: str
    """The full name of the only provider that may run the model's nodes."""
    threads: int = 0
    """How many threads the provider may use; 0 leaves the number to ONNX Runtime."""
    library: str | None = None
    """The plugin library that brings the provider, if one does."""
    level: int | None = None
    """How much of the graph is optimized: 0 nothing, 1 what needs no provider; None
    all."""
    folder: str | None = None
    """The folder of the external data of a model that is given as bytes."""
    operators: str | None = None
    """The shared library of operators that ONNX does not have, if one is used."""
    settings: Mapping[str, str] | None = None
    """The provider's own options."""
    device: str | None = None
    """Which devices of the plugin library are used: those of a type, such as GPU, or
    one of them, such as GPU:1 for the second; None all."""
    cpu_too: bool = False
    """Whether the CPU provider may run nodes, too: those that are no gathers."""


class Opened:
    """A model on one provider.

    Args:
        model: The serialized model, or the path of its file.
        setup: The provider, and how the model is opened.

    Raises:
        NotRunError: The provider is missing, or did not get every node.
        RefusedError: ONNX Runtime made no session, for any other reason.
    """

    def __init__(self, model: bytes | str, setup: Setup) -> None:
        runtime = onnxruntime_with(setup.provider, setup.library, setup.device)
        session = _session(runtime, model, setup)
        self._session = session
        self.assignment = _proved(session, setup.provider, setup.cpu_too)
        """The name and the operator of each node that the provider runs."""
        names = [output.name for output in session.get_outputs()]
        self._outputs: list[str] | None = None
        self._run_options: Any = None
        self._run: Callable[..., list[Any]] = session.run
        if setup.provider == CPU:
            # The checks of ONNX Runtime's Python layer, a third of a short call, are
            # idle on the CPU.
            if hasattr(session, "_sess"):
                self._outputs = names
                self._run = session._sess.run
            # A run with threads gives back the memory that it took.
            if setup.threads != 1:
                self._run_options = runtime.RunOptions()
                self._run_options.add_run_config_entry(*_SHRINKAGE)
        # Case: ONNX Runtime makes arrays of these neither from inputs nor from outputs.
        values = [*session.get_inputs(), *session.get_outputs()]
        types = " ".join([value.type for value in values])
        if "bfloat16" in types or "float8" in types:
            self._outputs = names
            self._run = partial(_run_bits, runtime, session)
        # DirectML does not allow calls from several threads at once.
        if setup.provider == DIRECTML:
            self._run = partial(_run_alone, threading.Lock(), session.run)

    def run(self, inputs: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        """Return the model's first output.

        Raises:
            FailedError: The provider failed.
        """
        output = self.run_all(inputs)[0]
        if not _is_array(output):
            raise FailedError("the output is no array, but several")
        return output

    def run_all(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Return the model's outputs, from arrays or OrtValues by the inputs' names.

        Raises:
            FailedError: The provider failed.
        """
        try:
            return self._run(self._outputs, inputs, self._run_options)
        except Exception as error:
            raise_unless_own(error)
            raise FailedError(line(error)) from error


_FAULTS = (
    ArithmeticError,
    AttributeError,
    FailedError,
    ImportError,
    LookupError,
    MemoryError,
    NotRunError,
    RefusedError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What this module and the bindings of ONNX Runtime raise, beside its own classes."""


def raise_unless_own(error: Exception) -> None:
    """Raise an exception again if this module, ONNX Runtime or the system did not.

    A handler of a signal may have raised it, and a caller's own exception must arrive.
    """
    # Case: a program of its own has no caller.
    if __name__ == "__main__":
        return
    is_of_runtime = type(error).__module__.startswith("onnxruntime")
    is_of_system = isinstance(error, OSError) and error.errno is not None
    if not is_of_runtime and not is_of_system and not isinstance(error, _FAULTS):
        raise error


def _session(runtime: Any, model: bytes | str, setup: Setup) -> Any:
    """Return the session of ONNX Runtime for a model; raise as `Opened`."""
    options = _options(runtime, setup)
    providers: list[Any] = []
    if setup.library is None and setup.settings:
        providers = [(setup.provider, setup.settings)]
    elif setup.library is None:
        providers = [setup.provider]
    make_session = partial(
        runtime.InferenceSession, model, options, providers=providers, enable_fallback=0
    )
    try:
        session = make_session()
    except Exception as error:
        raise_unless_own(error)
        if "assigned to the default CPU EP" not in str(error):
            raise RefusedError(line(error)) from error
        # The error does not name the node. With the fallback `_proved` can name it.
        options.add_session_config_entry(_NO_FALLBACK, "0")
        try:
            session = make_session()
        except Exception as other_error:
            raise_unless_own(other_error)
            raise NotRunError("elsewhere", f"some node would run on {CPU}") from error
    if not hasattr(session, _ASSIGNMENT):
        raise NotRunError("too-old", runtime.__version__)
    return session


def _options(runtime: Any, setup: Setup) -> Any:
    """Return the options of a session.

    Raises:
        NotRunError: The library of operators does not load.
    """
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # errors are raised, so they need not be logged too
    options.intra_op_num_threads = setup.threads
    entries = {"session.record_ep_graph_assignment_info": "1"}
    if setup.provider != CPU and not setup.cpu_too:
        entries[_NO_FALLBACK] = "1"
    if setup.folder is not None:
        entries[_EXTERNAL_DATA] = setup.folder
    entries |= _ENTRIES.get(setup.provider, {})
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    if setup.level is not None:
        options.graph_optimization_level = runtime.GraphOptimizationLevel(setup.level)
    if setup.provider == DIRECTML:  # which allows nothing else
        options.enable_mem_pattern = False
        options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    if setup.library is not None:
        _add_plugin(runtime, options, setup)
    if setup.operators is not None:
        try:
            options.register_custom_ops_library(setup.operators)
        except Exception as error:
            raise_unless_own(error)
            detail = f"their library does not load: {line(error)}"
            raise NotRunError("operators", detail) from error
    return options


def _add_plugin(runtime: Any, options: Any, setup: Setup) -> None:
    """Add the provider of a plugin library to the options of a session."""
    devices = _plugin_devices(runtime, setup.provider, setup.device)
    options.add_provider_for_devices(devices, setup.settings or {})
    # Behind it, as a CPU provider before it takes all nodes. One that is added by name
    # takes no part in the order, and ONNX Runtime warns of nodes that it was not asked
    # for.
    if setup.cpu_too:
        options.add_provider_for_devices(_plugin_devices(runtime, CPU), {})


def _proved(session: Any, provider: str, cpu_too: bool) -> tuple[tuple[str, str], ...]:
    """Return the name and operator of each node that a provider runs.

    Raises:
        NotRunError: Another provider runs a node, or no node is left. Where `cpu_too`
            is true, the CPU provider may run any node.
    """
    names = _device_names(provider)
    nodes: list[tuple[str, str]] = []
    for part in session.get_provider_graph_assignment_info():
        if cpu_too and part.ep_name == CPU:
            continue
        for node in part.get_nodes():
            if part.ep_name not in names:
                detail = f"{node.name} ({node.op_type}) runs on {part.ep_name}"
                node_elsewhere = {
                    "name": node.name,
                    "operator": node.op_type,
                    "provider": part.ep_name,
                }
                raise NotRunError("elsewhere", detail, node_elsewhere)
            nodes.append((node.name, node.op_type))
    if not nodes and not cpu_too:
        raise NotRunError("folded", "none is left to run")
    return tuple(nodes)


def _takes_plugins(runtime: Any) -> bool:
    """Return whether an ONNX Runtime takes onnxgather's own provider."""
    numbers = re.findall(r"\d+", runtime.__version__)[:2]
    is_new = tuple(map(int, numbers)) >= _OLDEST_FOR_GATHERS
    return is_new and hasattr(runtime, "register_execution_provider_library")


def onnxruntime_with(
    provider: str, library: str | None = None, device: str | None = None
) -> Any:
    """Return the module onnxruntime, with the provider available.

    Args:
        provider: The full name of the provider.
        library: The plugin library that brings the provider, if one does.
        device: As of `Setup`.

    Raises:
        NotRunError: The module is not installed, is empty, or has no such provider.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise NotRunError("no-runtime", line(error)) from error
    runtime: Any = onnxruntime
    if not hasattr(runtime, "InferenceSession"):
        raise NotRunError("empty-runtime")
    if library is None:
        available: list[str] = runtime.get_available_providers()
        if provider not in available:
            raise NotRunError("absent", ", ".join(available))
    elif provider == GATHERS and not _takes_plugins(runtime):
        raise NotRunError("before-plugins", runtime.__version__)
    elif not _plugin_devices(runtime, provider):
        try:
            runtime.register_execution_provider_library(provider, library)
        except Exception as error:
            raise_unless_own(error)
            # Case: another thread registered it meanwhile.
            if not _plugin_devices(runtime, provider):
                raise NotRunError("library", line(error)) from error
    if library is not None and not _plugin_devices(runtime, provider, device):
        texts = _devices_by_provider(runtime)
        listed = [f"{name} on {', '.join(texts[name])}" for name in texts]
        detail = f"{device or 'a device'}; ONNX Runtime lists {'; '.join(listed)}"
        raise NotRunError("no-device", detail)
    return runtime


def add_gather_provider(
    options: Any, library: str, settings: Mapping[str, str]
) -> None:
    """Add onnxgather's own provider to the options of a session, and the CPU's behind.

    Args:
        options: The SessionOptions of ONNX Runtime.
        library: The library of the provider, which is registered once in the process.
        settings: The provider's own options; one at least.

    Raises:
        NotRunError: ONNX Runtime is missing or too old, or the library does not load.
        OptionsError: `options` are no SessionOptions, or have the provider.
    """
    runtime = onnxruntime_with(CPU)
    if not _takes_plugins(runtime):
        raise NotRunError("before-plugins", runtime.__version__)
    if not isinstance(options, runtime.SessionOptions):
        rule = "must be an onnxruntime.SessionOptions"
        raise OptionsError(f"{rule}, got {type(options).__name__}")
    onnxruntime_with(GATHERS, library)
    ctypes.CDLL(library)  # keeps the rows if ONNX Runtime unloads the library
    if _has_gather_provider(options, settings):
        raise OptionsError(
            "must not have onnxgather's provider, got options that have it; make new"
            " SessionOptions for another policy"
        )
    setup = Setup(GATHERS, library=library, settings=settings, cpu_too=True)
    _add_plugin(runtime, options, setup)


def _has_gather_provider(options: Any, settings: Iterable[str]) -> bool:
    """Return whether options have onnxgather's own provider.

    They do not list their providers, but keep the settings of each as entries.
    """
    for name in settings:
        with suppress(RuntimeError):  # there is no such entry
            options.get_session_config_entry(f"ep.{GATHERS.lower()}.{name}")
            return True
    return False


def provider_rows(library: str, reset: bool = False) -> list[dict[str, Any]]:
    """Return what the gathers of onnxgather's own provider have met in this process.

    Args:
        library: The library of the provider.
        reset: Whether the counts begin anew.
    """
    report = ctypes.CDLL(library).onnxgather_provider_report
    report.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
    report.restype = ctypes.c_size_t
    room = 0
    while True:
        text = ctypes.create_string_buffer(room)
        needed = report(text, room, reset)
        # Sessions of other threads may have added rows meanwhile.
        if needed <= room:
            break
        room = needed + 4096
    # A model may have names that are no UTF-8, or that hold other ends of lines.
    rows = text.raw[:needed].decode(errors="replace").split("\n")
    return [json.loads(row) for row in rows if row]


def available_providers() -> list[str]:
    """Return the full names of the providers here; none if onnxruntime is empty."""
    try:
        import onnxruntime
    except ImportError:
        return []
    return getattr(onnxruntime, "get_available_providers", list[str])()


def environment() -> dict[str, Any]:
    """Return what this environment offers.

    Returns:
        `versions`. If ONNX Runtime loads: `providers`, as it lists them; `devices` by
        provider; `provider_versions`, as their devices state them; `records_nodes`,
        whether it records which provider runs a node; `takes_plugins`, whether it loads
        plugin libraries. Else `fault`: why not; and
        `installed`, whether the module onnxruntime is there.
    """
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    offers: dict[str, Any] = {"versions": versions}
    try:
        import onnxruntime

        runtime: Any = onnxruntime
        versions["onnxruntime"] = runtime.__version__
        offers["providers"] = runtime.get_available_providers()
        offers["records_nodes"] = hasattr(runtime.InferenceSession, _ASSIGNMENT)
        offers["takes_plugins"] = _takes_plugins(runtime)
        offers["devices"] = _devices_by_provider(runtime)
        offers["provider_versions"] = {
            device.ep_name: device.ep_metadata["version"]
            for device in _devices(runtime)
            if "version" in device.ep_metadata
        }
    except (ImportError, AttributeError) as error:  # the first request fails likewise
        offers["fault"] = line(error)
        # Else the module, or one that it imports, does not load.
        is_absent = isinstance(error, ModuleNotFoundError)
        offers["installed"] = not (is_absent and error.name == "onnxruntime")
    return offers


def _devices(runtime: Any) -> list[Any]:
    """Return the devices of all providers; an older ONNX Runtime lists none."""
    return getattr(runtime, "get_ep_devices", list)()


def _hardware_type(device: Any) -> str:
    """Return the type of a device: CPU, GPU or NPU."""
    return str(device.device.type).rsplit(".", 1)[-1]


def _devices_by_provider(runtime: Any) -> dict[str, list[str]]:
    texts_by_provider: dict[str, list[str]] = {}
    for device in _devices(runtime):
        texts = texts_by_provider.setdefault(device.ep_name, [])
        texts.append(f"{_hardware_type(device)} {device.device.vendor}")
    return texts_by_provider


def _device_names(provider: str) -> tuple[str, str]:
    """Return the names that the devices of a plugin's provider may have.

    ONNX Runtime lists virtual devices where a library is registered under a name that
    ends in .virtual, and some libraries call their devices as they do without it.
    """
    return provider, provider.removesuffix(VIRTUAL)


def _plugin_devices(
    runtime: Any, provider: str, chosen: str | None = None
) -> list[Any]:
    """Return the devices of a provider; only those that `chosen` of `Setup` names."""
    names = _device_names(provider)
    devices = [device for device in _devices(runtime) if device.ep_name in names]
    if chosen is None:
        return devices
    hardware, _, number = chosen.partition(":")
    of_type = [device for device in devices if _hardware_type(device) == hardware]
    if not number:
        return of_type
    first = int(number)
    return of_type[first : first + 1]


def line(error: BaseException) -> str:
    """Return the message of an error of ONNX Runtime on one line.

    Bytes that are no UTF-8 are escaped, as no answer in JSON has them.
    """
    text = str(error).encode(errors="backslashreplace").decode()
    return " ".join(text.split())[:LONGEST_MESSAGE]


def answer(request: Mapping[str, Any], blobs: bytes) -> tuple[dict[str, Any], bytes]:
    """Open the model of a request and run it on each set of inputs; return the answer.

    Args:
        request: `model` (bytes of it at the start of `blobs`, or the path of its file),
            `session` (the fields of
            `Setup`), `feeds`: per run, each input as `append_array` describes it, and
            perhaps `keep`: whether to keep the opened model, for requests that follow
            with the same model, `every`: whether the answer has all outputs of a run,
            in a list, and `report`: whether it has `rows`: what the gathers of
            onnxgather's own provider have met in these runs. An empty request asks what
            `environment` returns. A request with `graphs` asks for the graphs that the
            CPU provider runs: the object has the arguments of `_written_graphs`.
        blobs: The model and the arrays.
    """
    if not request:
        return environment(), b""
    if "graphs" in request:
        return _written_graphs(blobs, **request["graphs"]), b""
    source = request["model"]
    model = source if isinstance(source, str) else blobs[:source]
    setup = Setup(**request["session"])
    try:
        open_model = _kept if request.get("keep") else Opened
        opened = open_model(model, setup)
    except NotRunError as error:
        return {"not_run": error.args}, b""
    except RefusedError as error:
        return {"refused": str(error)}, b""
    every = bool(request.get("every"))
    # Case: the CPU provider runs all nodes, which only the whole outputs do not mind.
    if not opened.assignment and not every:
        return {"not_run": ("folded", NO_GATHER, None)}, b""
    reported = setup.library if request.get("report") else None
    if reported is not None:
        provider_rows(reported, reset=True)
    content = bytearray()
    outputs = [
        _described_outputs(opened, feed, blobs, content, every)
        for feed in request["feeds"]
    ]
    names = [name for name, _ in opened.assignment]
    nodes = [operator for _, operator in opened.assignment]
    answered = {"names": names, "nodes": nodes, "outputs": outputs}
    # The JSON of an answer is short, and a model may have many gathers.
    if reported is not None:
        rows = json.dumps(provider_rows(reported)).encode()
        answered["rows"] = [len(content), len(rows)]
        content += rows
    return answered, bytes(content)


def _written_graphs(
    blobs: bytes,
    levels: Sequence[int],
    target: str,
    path: str | None,
    folder: str,
    keeps_weights: bool,
    least_weight: int,
    memory: int,
) -> dict[str, Any]:
    """Write the graph that the CPU provider runs of a model at each level.

    Args:
        blobs: The serialized model; empty if the model is in a file.
        levels: The levels, as of `Setup`.
        target: The folder for the graphs. The graph of level 1 is 1.onnx, and its large
            constants are 1.weights.
        path: The file of the model; None if the model is in `blobs`.
        folder: The folder of the external data of a model in `blobs`.
        keeps_weights: Whether the large constants are kept.
        least_weight: The least bytes of a large constant.
        memory: The most bytes of memory that this program may have meanwhile.

    Returns:
        `version` of ONNX Runtime; `refused`: the message by level, where it makes no
        session. Or `not_run`: why there is no CPU provider.
    """
    try:
        runtime = onnxruntime_with(CPU)
    except NotRunError as error:
        return {"not_run": error.args}
    refused: dict[int, str] = {}
    with _limited_memory(memory):
        for level in levels:
            # ONNX Runtime takes the folder of a file from its path.
            own_folder = folder if path is None else None
            setup = Setup(CPU, threads=1, level=level, folder=own_folder)
            options = _options(runtime, setup)
            options.optimized_model_filepath = os.path.join(target, f"{level}.onnx")
            options.add_session_config_entry(_NO_PREPACKING, "1")
            weights = f"{level}.weights"
            options.add_session_config_entry(_WEIGHTS, weights)
            options.add_session_config_entry(_LEAST_WEIGHT, str(least_weight))
            weights_path = os.path.join(target, weights)
            # The device keeps nothing; ONNX Runtime removes the link at the end.
            # Windows may allow no link, and then the file is removed.
            if not keeps_weights:
                with suppress(OSError):
                    os.symlink(os.devnull, weights_path)
            try:
                runtime.InferenceSession(
                    path or blobs, options, providers=[CPU], enable_fallback=0
                )
            except Exception as error:
                raise_unless_own(error)
                refused[level] = line(error)
            if not keeps_weights:
                with suppress(OSError):
                    os.remove(weights_path)
    return {"version": runtime.__version__, "refused": refused}


@contextmanager
def _limited_memory(most: int) -> Generator[None]:
    """Limit the memory of this program; Windows has no such limit."""
    if sys.platform == "win32":
        yield
        return
    import resource

    limits = resource.getrlimit(resource.RLIMIT_AS)
    _, hard_limit = limits
    if hard_limit != resource.RLIM_INFINITY:
        most = min(most, hard_limit)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard_limit))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def _described_outputs(
    opened: Opened,
    feed: Mapping[str, Any],
    blobs: bytes,
    content: bytearray,
    every: bool,
) -> Any:
    """Return an answer's part about a run: its output or outputs, or why it failed.

    Args:
        opened: The opened model.
        feed: The description of each input.
        blobs: The bytes of the request.
        content: The bytes of the answer, to which the outputs are appended.
        every: Whether the answer has all outputs; null stands for an output that is no
            array.
    """
    arrays = {name: array_at(described, blobs) for name, described in feed.items()}
    try:
        if not every:
            return append_array(opened.run(arrays), content)
        outputs = opened.run_all(arrays)
    except FailedError as error:
        return str(error)
    described_outputs: list[Any] = []
    for output in outputs:
        described = None
        if _is_array(output):
            described = append_array(output, content)
        described_outputs.append(described)
    return described_outputs


_LAST: list[tuple[bytes | str, Setup, Opened]] = []
"""The model that was kept last, if any."""


def _kept(model: bytes | str, setup: Setup) -> Opened:
    """Return the model, opened and kept in place of another; raise as `Opened`."""
    if _LAST:
        last_model, last_setup, last_opened = _LAST[0]
        if last_model == model and last_setup == setup:
            return last_opened
    opened = Opened(model, setup)
    _LAST[:] = [(model, setup, opened)]
    return opened


def is_on_device(value: Any) -> bool:
    """Return whether a value is an OrtValue, a tensor of ONNX Runtime, on a device."""
    # Where onnxruntime is not imported, no value is an OrtValue.
    ort_value = getattr(sys.modules.get("onnxruntime"), "OrtValue", ())
    return isinstance(value, ort_value) and value.device_name().lower() != "cpu"


def _run_alone(turns: threading.Lock, run: Callable[..., Any], *arguments: Any) -> Any:
    with turns:
        return run(*arguments)


def _is_array(value: Any) -> bool:
    """Return whether a value is an array of numpy, or a single element of one."""
    return isinstance(value, np.ndarray | np.generic)


def _run_bits(
    runtime: Any,
    session: Any,
    outputs: Sequence[str],
    inputs: Mapping[str, Any],
    options: Any,
) -> list[Any]:
    """Run a session some of whose arrays have types that numpy lacks."""
    values: dict[str, Any] = {}
    for name, array in inputs.items():
        value = array
        if _is_array(array):
            number = ONNX_NUMBERS.get(_name_of(array.dtype))
            if number is None:
                value = runtime.OrtValue.ortvalue_from_numpy(array)
            else:
                bits = np.ascontiguousarray(array).view(f"u{array.itemsize}")
                value = runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(
                    bits.reshape(array.shape), number
                )
        values[name] = value
    names = {number: name for name, number in ONNX_NUMBERS.items()}
    results: list[Any] = []
    for value in session.run_with_ort_values(outputs, values, options):
        name = names.get(value.element_type())
        if name is None:
            results.append(value.numpy())
            continue
        dtype = _numpy_type(name)
        shape = value.shape()
        size = dtype.itemsize * math.prod(shape)
        content = ctypes.string_at(value.data_ptr(), size) if size else b""
        results.append(np.frombuffer(content, dtype).reshape(shape))
    return results


def _name_of(dtype: np.dtype[Any]) -> str:
    """Return how requests and answers call a type of numpy."""
    # Case: a type of ml_dtypes, where that is not installed.
    if dtype.names:
        return dtype.names[0]
    return dtype.str if dtype.kind in "SU" else dtype.name


def _numpy_type(name: str) -> np.dtype[Any]:
    """Return the type that `_name_of` names.

    Where ml_dtypes is not installed, its types are structures of one field, which has
    their name.
    """
    if name in ONNX_NUMBERS:
        try:
            import_module("ml_dtypes")  # makes its types known to numpy
        except ImportError:
            bits = "uint16" if name == "bfloat16" else "uint8"
            return np.dtype([(name, bits)])
    return np.dtype(name)


def append_array(array: np.ndarray[Any, Any], blobs: bytearray) -> list[Any]:
    """Append an array to `blobs`; return its data type, shape, and offset in bytes.

    Texts are appended as a line with a list of JSON.
    """
    offset = len(blobs)
    if array.dtype.hasobject:
        blobs += json.dumps(array.ravel().tolist()).encode() + b"\n"
    else:
        blobs += array.tobytes()
    return [_name_of(array.dtype), array.shape, offset]


def array_at(described: Sequence[Any], blobs: bytes) -> np.ndarray[Any, Any]:
    """Return the array that `append_array` described.

    Raises:
        ValueError: The bytes are not those of such an array.
    """
    name, shape, offset = described
    if name == "object":
        line_end = blobs.index(b"\n", offset)
        texts = json.loads(blobs[offset:line_end])
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("an array of texts has other elements")
        return np.array(texts, object).reshape(shape)
    flat = np.frombuffer(blobs, _numpy_type(name), math.prod(shape), offset)
    return flat.reshape(shape)


def message(header: Mapping[str, Any], blobs: bytes | bytearray = b"") -> bytes:
    """Return a frame with a line of JSON and bytes."""
    first_line = json.dumps(header).encode() + b"\n"
    return frame(first_line, blobs)


def frame(*parts: bytes | bytearray) -> bytes:
    """Return a frame: the number of the bytes, and the bytes."""
    count = sum(map(len, parts))
    return b"".join([struct.pack("<Q", count), *parts])


def read_frame(stream: BinaryIO) -> bytes:
    """Return the bytes of the next frame.

    Raises:
        EOFError: The stream ends.
        ValueError: The stream contains something else; the error contains its bytes.
    """
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    (count,) = struct.unpack("<Q", head)
    if count > LONGEST_FRAME:
        raise ValueError(head)
    content = stream.read(count)
    if len(content) < count:
        raise EOFError
    return content


def serve() -> None:
    """Answer requests; the first bytes out are MAGIC.

    The program ends when its input ends, in the middle of an answer too: then the
    program that asks has ended, or wants no answer.
    """
    requests, answers = open_frames()
    send(answers, MAGIC)
    while True:
        header, _, blobs = requests.get().partition(b"\n")
        _set_end_with_reader(answers, True)
        answer_frame = message(*answer(json.loads(header), blobs))
        _set_end_with_reader(answers, False)
        send(answers, answer_frame)


def open_frames() -> tuple[SimpleQueue[bytes], BinaryIO]:
    """Return the requests as they come, and the stream for answers.

    The program ends when its input ends.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not get between the frames
    requests: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        try:
            while True:
                requests.put(read_frame(sys.stdin.buffer))
        finally:
            os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return requests, answers


def send(answers: BinaryIO, content: bytes) -> None:
    """Write what the program that asks waits for."""
    answers.write(content)
    answers.flush()


def _set_end_with_reader(answers: BinaryIO, on: bool) -> None:
    """Set whether the system ends this program when something happens behind a pipe.

    ONNX Runtime 1.24 holds the interpreter's lock while it makes a session, so that no
    thread of Python sees the input end. Windows has no signal for this.

    Args:
        answers: The pipe. Its reader waits for an answer, so that it can only end.
        on: Whether the program is to end from now on.
    """
    if sys.platform != "win32":
        import fcntl

        signal.signal(signal.SIGIO, signal.SIG_DFL)  # which ends the program
        fcntl.fcntl(answers, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(answers, fcntl.F_GETFL)
        if on:
            flags |= os.O_ASYNC
        else:
            flags &= ~os.O_ASYNC
        fcntl.fcntl(answers, fcntl.F_SETFL, flags)


if __name__ == "__main__":
    serve()
