"""Sessions run on the provider asked for, with proof, or say why not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import onnxruntime
import pytest
from command_line import DATA_4X3 as DATA
from command_line import DESC, INDICES
from messages import message_of
from short_descriptors import tensor_desc

import onnxgather as og
from onnxgather.core.errors import ProviderError, shortened
from onnxgather.core.execution import kernels
from onnxgather.core.execution.providers import PROVIDERS, find_provider
from onnxgather.core.execution.session import Session, open_session


def model() -> bytes:
    """Return the model of DESC."""
    return og.to_onnx(DESC).SerializeToString()


def test_every_node_is_proven_to_run_on_the_provider() -> None:
    session = Session(model())
    operators = [operator for _, operator in session.assignment]
    assert operators[-1] == "Gather"
    assert session.assignment[-1][0] == "OutputTensor"


@pytest.mark.parametrize("provider", ["cpu", "CPUExecutionProvider"])
def test_a_provider_is_named_short_or_in_full(provider: str) -> None:
    result = og.run(DESC, DATA, INDICES, provider=provider)
    assert result.tolist() == DATA[:, [2, 0]].tolist()


def test_sessions_are_cached_by_descriptor_and_options() -> None:
    open_session.cache_clear()
    for _ in range(3):
        og.run(DESC, DATA, INDICES)
    og.run(DESC, DATA, INDICES, "zero")
    info = open_session.cache_info()
    assert (info.hits, info.misses) == (2, 2)


def test_missing_provider_says_what_is_there_and_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # without a host
    runtime: Any = onnxruntime
    monkeypatch.setattr(
        runtime, "get_available_providers", lambda: ["CPUExecutionProvider"]
    )
    assert message_of(
        ProviderError, og.run, DESC, DATA, INDICES, provider="directml"
    ) == (
        "DmlExecutionProvider is not available (available: CPUExecutionProvider);"
        " install onnxruntime-directml on Windows, or run scripts/directml/setup.sh"
        " on Linux"
    )


def test_unknown_provider_is_refused_by_name() -> None:
    assert message_of(ProviderError, og.run, DESC, DATA, INDICES, provider="gpu") == (
        "provider must be one of cpu, directml, openvino, cuda, tensorrt, webgpu,"
        " qnn, coreml, onnxgather, web-wasm, web-webgpu, web-webnn,"
        " webnn, or ONNX Runtime's full name"
        " of one, which ends in ExecutionProvider, got 'gpu'"
    )
    assert find_provider("XyzExecutionProvider").name == "XyzExecutionProvider"


def test_missing_runtime_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert message_of(ProviderError, Session, model()) == (
        "the environment of CPUExecutionProvider does not contain ONNX Runtime;"
        " install onnxruntime"
    )


def test_empty_runtime_package_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))
    assert message_of(ProviderError, Session, model()) == (
        "the module onnxruntime is empty, as uninstalling one of its wheels leaves"
        " it; "
        "reinstall onnxruntime"
    )


def test_model_that_does_not_load_is_a_provider_error() -> None:
    wrong = og.to_onnx(DESC)
    wrong.graph.node[-1].op_type = "Gathr"
    with pytest.raises(
        ProviderError, match=r"^CPUExecutionProvider cannot run the model: .+Gathr"
    ):
        Session(wrong)


class Elsewhere:
    """A runtime whose sessions put their nodes where the test says."""

    class SessionOptions:
        """Options that record their entries."""

        def __init__(self) -> None:
            self.entries: dict[str, str] = {}

        def add_session_config_entry(self, key: str, value: str) -> None:
            """Record an entry."""
            self.entries[key] = value

    class RunOptions(SessionOptions):
        """Options of a run, likewise."""

        def add_run_config_entry(self, key: str, value: str) -> None:
            """Record an entry."""
            self.entries[key] = value

    ExecutionMode = SimpleNamespace(ORT_SEQUENTIAL="sequential")

    def __init__(self, *assignment: tuple[str, list[tuple[str, str]]]) -> None:
        self.assignment = assignment
        self.options: Any = None
        self.arguments: dict[str, Any] = {}

    def get_available_providers(self) -> list[str]:
        """Return every provider of the table."""
        return [provider.name for provider in PROVIDERS.values()]

    def InferenceSession(self, _: bytes, options: Any, **arguments: Any) -> Any:  # noqa: N802
        """Return a session that only knows where its nodes went."""
        self.options, self.arguments = options, arguments

        def part(name: str, nodes: list[tuple[str, str]]) -> SimpleNamespace:
            made = [SimpleNamespace(name=node, op_type=op) for node, op in nodes]
            return SimpleNamespace(ep_name=name, get_nodes=lambda: made)

        parts = [part(name, nodes) for name, nodes in self.assignment]
        return SimpleNamespace(
            get_provider_graph_assignment_info=lambda: parts,
            get_inputs=list,
            get_outputs=list,
            run=None,
        )


def pretend(monkeypatch: pytest.MonkeyPatch, runtime: Elsewhere) -> Elsewhere:
    """Make `runtime` the module onnxruntime."""
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)  # type: ignore[arg-type]
    return runtime


def test_node_on_another_provider_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(
        monkeypatch,
        Elsewhere(
            ("DmlExecutionProvider", [("indices_clamped", "Min")]),
            ("CPUExecutionProvider", [("OutputTensor", "Gather")]),
        ),
    )
    assert message_of(ProviderError, Session, b"", "directml") == (
        "DmlExecutionProvider must run every node, but OutputTensor (Gather)"
        " runs on "
        "CPUExecutionProvider"
    )


def test_model_without_nodes_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, Elsewhere())
    assert message_of(ProviderError, Session, b"", "openvino") == (
        "OpenVINOExecutionProvider must run a node, but none is left to run"
    )


@pytest.mark.parametrize("name", ["cpu", "directml", "openvino"])
def test_a_provider_with_rules_for_sessions_gets_them(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    provider = PROVIDERS[name]
    runtime = pretend(
        monkeypatch, Elsewhere((provider.name, [("OutputTensor", "Gather")]))
    )
    Session(b"", name)
    assert runtime.arguments == {"providers": [provider.name], "enable_fallback": 0}
    expected = {"session.record_ep_graph_assignment_info": "1"}
    if name != "cpu":
        expected["session.disable_cpu_ep_fallback"] = "1"
    assert runtime.options.entries == expected
    directml = name == "directml"
    assert (getattr(runtime.options, "enable_mem_pattern", True) is False) == directml
    assert (
        getattr(runtime.options, "execution_mode", None) == "sequential"
    ) == directml


def test_failure_while_running_is_a_provider_error() -> None:
    session = Session(og.to_onnx(DESC, "error"))
    with pytest.raises(
        ProviderError, match=r"^CPUExecutionProvider failed: .*out of data bounds"
    ):
        session.run(
            {"InputTensor": DATA, "IndicesTensor": np.array([[3, 0]], np.uint32)}
        )


PINNED = """
import os
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
import numpy as np
import onnxruntime
import onnxgather as og
from onnxgather.core.options import usable_cores
numbers, make = [usable_cores()], onnxruntime.InferenceSession
def noted(model, options, **more):
    numbers.append(options.intra_op_num_threads)
    return make(model, options, **more)
onnxruntime.InferenceSession = noted
desc = og.GatherDesc(og.TensorDesc("FLOAT32", [64, 2]), og.TensorDesc("UINT32", [1, 2**16]),
                     og.TensorDesc("FLOAT32", [2**16, 2]), axis=0, index_dimensions=1)
before = len(os.listdir("/proc/self/task"))
sessions = [og.Session(desc), og.Session(desc, threads=0), og.Session(og.to_onnx(desc))]
print(numbers, len(os.listdir("/proc/self/task")) - before, len(os.sched_getaffinity(0)))
"""  # noqa: E501


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux", reason="Linux alone pins a program to cores"
)
def test_a_program_that_is_pinned_to_one_core_gets_sessions_of_one_thread() -> None:
    command = [sys.executable, "-c", PINNED]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("[1, 1, 1, 1] 0 1\n", "")


FORK = """
import os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
import numpy as np
import onnxgather as og
desc = og.GatherDesc(og.TensorDesc("FLOAT32", [64, 2]), og.TensorDesc("UINT32", [1, 2**16]),
                     og.TensorDesc("FLOAT32", [2**16, 2]), axis=0, index_dimensions=1)
data = np.arange(128, dtype=np.float32).reshape(64, 2)
indices = np.arange(2**16, dtype=np.uint32).reshape(1, -1) % 64
wanted = og.run(desc, data, indices).tobytes()
session = og.Session(desc, target="cpu", threads=3)  # two threads of its own
gather = og.Gather(desc)
assert session.run(data, indices).tobytes() == gather(data, indices).tobytes() == wanted
def refused(call):
    try:
        call()
    except og.ProviderError as error:
        return str(error)
def in_child(work):
    child = os.fork()
    if not child:
        signal.alarm(20)
        work()
        sys.stdout.flush()
        os._exit(0)  # not sys.exit: ONNX Runtime itself hangs in the exit of a forked process
    assert os.waitpid(child, 0)[1] == 0
    assert session.run(data, indices).tobytes() == og.run(desc, data, indices).tobytes() == wanted
"""  # noqa: E501
"""Code that may run work in the child of a fork; two sessions were made and ran
before."""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
class TestForks:
    """Sessions, and the child of a fork."""

    def outcome(self, code: str) -> str:
        """Return what the code prints after `FORK`."""
        command = [sys.executable, "-c", FORK + code]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def test_a_session_that_was_made_before_says_so(self) -> None:
        code = """
def work():
    print(refused(lambda: session.run(data, indices)))
    session.close()
    print(refused(lambda: session.run(data, indices)))
in_child(work)
"""
        refusal = (
            "the session on CPUExecutionProvider must run in the process that made it,"
            " got the child of a fork; make a Session in the child, start the child by"
            " spawn, or use og.Gather\n"
        )
        closed = "the session on CPUExecutionProvider is closed\n"
        assert self.outcome(code) == refusal + closed

    def test_run_makes_a_session_of_its_own_in_the_child(self) -> None:
        code = """
def work():
    print(*(og.run(desc, data, indices).tobytes() == wanted for _ in range(2)))
in_child(work)
"""
        assert self.outcome(code) == "True True\n"

    def test_a_session_that_the_child_makes_runs_beside_a_busy_one_of_its_parent(
        self,
    ) -> None:
        code = """
busy = True
def run():
    while busy:
        session.run(data, indices)
thread = threading.Thread(target=run)
thread.start()
def work():
    own = og.Session(desc, target="cpu", threads=3)
    print(own.run(data, indices).tobytes() == og.run(desc, data, indices, "zero").tobytes()
          == gather(data, indices).tobytes() == wanted)
for _ in range(5):
    time.sleep(0.05)
    in_child(work)
busy = False
thread.join()
"""  # noqa: E501
        assert self.outcome(code) == "True\n" * 5

    def test_a_session_that_was_made_before_may_be_dropped(self) -> None:
        code = """
time.sleep(1)  # until the session's threads sleep: ONNX Runtime would wait for them without end
def work():
    global session
    del session
    print("dropped")
in_child(work)
"""  # noqa: E501
        assert self.outcome(code) == "dropped\n"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        (None, ""),
        (5, ""),
        ("", ""),
        ("cpu\0", '; did you mean "cpu"?'),
        ("CPU", '; did you mean "cpu"?'),
        ("openvno", '; did you mean "openvino"?'),
        ("dml", '; did you mean "directml"?'),
        ("TRT", '; did you mean "tensorrt"?'),
        ("migraphx", '; did you mean "MIGraphXExecutionProvider"?'),
        ("myep", ""),
        ("CpuExecutionProvder", '; did you mean "CPUExecutionProvider"?'),
        ("ExecutionProvider", '; did you mean "QNNExecutionProvider"?'),
        ("CPUExecutionProvider\n", '; did you mean "CPUExecutionProvider"?'),
        ("'x'); import os #ExecutionProvider", ""),
        ("größeExecutionProvider", '; did you mean "CoreMLExecutionProvider"?'),
        (f"{'A' * 10**6}ExecutionProvider", ""),
        (np.arange(3), ""),
    ],
)
def test_a_provider_that_is_no_name_is_refused(name: Any, meant: str) -> None:
    with pytest.raises(ProviderError) as caught:
        og.run(DESC, DATA, INDICES, provider=name)
    rule = (
        "provider must be one of cpu, directml, openvino, cuda, tensorrt, webgpu, qnn,"
        " coreml, onnxgather, "
    )
    rule += "web-wasm, web-webgpu, web-webnn, webnn, "
    got = shortened(repr(name), 200)
    rule += "or ONNX Runtime's full name of one, which ends in ExecutionProvider"
    assert str(caught.value) == f"{rule}, got {got}{meant}"


GIVEN_INDICES = """\
webgpu | clamp | -2147483648 2147483647
webgpu | zero | -2147483648 2147483647
webgpu | directml | 2147483650 2147483648
openvino | clamp | -2147483648 2147483647
"""
"""What providers are given for the indices -2^31 - 1 and 2^31 of 3 rows."""


@pytest.mark.parametrize("row", GIVEN_INDICES.splitlines())
def test_a_provider_is_given_indices_that_it_holds(
    row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, policy, given = row.split(" | ")
    opened = Mock()
    monkeypatch.setattr("onnxgather.core.execution.session.open_model", opened)
    runs = opened.return_value.run_all
    runs.return_value = [DATA]
    open_session.cache_clear()
    tensor = tensor_desc("INT64 1x2")
    desc = og.GatherDesc(DESC.input_tensor, tensor, DESC.output_tensor, DESC.axis, 1)
    indices = np.array([[-(2**31) - 1, 2**31]])
    og.run(desc, DATA, indices, cast("Any", policy), provider)
    (feed,) = runs.call_args.args
    assert feed["IndicesTensor"].tolist() == [[*map(int, given.split())]]
    open_session.cache_clear()


def test_an_index_that_a_provider_reads_otherwise_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = Mock()
    monkeypatch.setattr("onnxgather.core.execution.session.open_model", opened)
    session = Session(DESC, "openvino", out_of_range="directml")
    indices = np.array([[0, 2**32 - 1]], np.uint32)
    assert message_of(ProviderError, session.run, DATA, indices) == (
        "OpenVINOExecutionProvider has no UINT32, so that IndicesTensor[0,1] must have"
        " an address that does not wrap modulo 2^32, got 4294967295"
    )
    opened.return_value.run_all.assert_not_called()


@pytest.mark.skipif(
    kernels.operators_library() is None, reason="the native kernels are not built"
)
class TestNative:
    """Sessions on the CPU provider where the native kernels are."""

    @pytest.mark.parametrize("policy", ["clamp", "error", "zero", "directml"])
    def test_a_descriptor_runs_in_one_node_of_our_own(self, policy: Any) -> None:
        assert Session(DESC, out_of_range=policy).assignment == (
            ("OutputTensor", "GATHER"),
        )
        assert (
            og.run(DESC, DATA, INDICES, policy).tobytes() == DATA[:, [2, 0]].tobytes()
        )

    def test_another_target_is_taken_where_it_is_asked_for(self) -> None:
        found = Session(DESC, target="portable").assignment
        assert found[-1] == ("OutputTensor", "Gather")

    def test_a_model_with_our_operators_runs_them(self) -> None:
        session = Session(og.to_onnx(DESC, "zero", "native"))
        assert session.assignment == (("OutputTensor", "GATHER"),)

    def test_no_kernels_are_used_where_they_are_forbidden(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ONNXGATHER_NATIVE", "0")
        for session in (Session(DESC), Session(og.to_onnx(DESC, "clamp", "native"))):
            assert "GATHER" not in dict(session.assignment).values()
            assert session.run(DATA, INDICES).tobytes() == DATA[:, [2, 0]].tobytes()
        assert message_of(ProviderError, Session, DESC, target="native") == (
            "CPUExecutionProvider must run onnxgather's own operators, but"
            " ONNXGATHER_NATIVE is 0"
        )

    def test_the_first_bad_index_is_named_without_a_look_at_all_before(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session, looked = Session(DESC, out_of_range="error"), Mock()
        monkeypatch.setattr("onnxgather.core.execution.session.check_indices", looked)
        session.run(DATA, INDICES)
        looked.assert_not_called()
        monkeypatch.undo()
        assert (
            message_of(
                og.IndexOutOfRangeError,
                session.run,
                DATA,
                np.array([[1, 3]], np.uint32),
            )
            == "IndicesTensor[0,1] must be in [0, 3), got 3"
        )
