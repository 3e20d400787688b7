"""Lanes: what counts as run, and what a worker that misbehaves costs."""

from __future__ import annotations

import os
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lane_cases import DATA, pair, results, told
from messages import rows_of
from rings import one_quick_in, quick_alone
from stub_runtime import PLUGIN, environment

from onnxgather.checking.cases import Case
from onnxgather.checking.lanes import open_lanes
from onnxgather.checking.lanes.lane import Answer, AnswerKind
from onnxgather.checking.lanes.python import ModelLane
from onnxgather.checking.node_models import tensor_bytes
from onnxgather.checking.run import check_cases
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.execution.providers import PROVIDERS, find_provider
from onnxgather.core.model import write

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="the stand-in interpreter is a shell script"
)

STUB = "StubExecutionProvider"
ABSENT = "raise ModuleNotFoundError('absent', name='onnxruntime')"


def stub(
    folder: Path, change: str = "", banner: str = "", timeout: float = 30
) -> ModelLane:
    """Return a lane on the stand-in."""
    python = environment(folder, change, banner)
    return ModelLane("stub", find_provider(STUB), python, timeout=timeout)


BANNER = """
import sys, threading, time
def change():
    while not hasattr(sys.modules["__main__"], "serve"): time.sleep(0.001)
    {change}
threading.Thread(target=change).start()
"""
"""Changes the worker itself as soon as it is there."""


def lied(folder: Path, lie: str, name: str = "answer", timeout: float = 30) -> Answer:
    """Return the answer to a case of a worker that lies once; the next case must run.

    Args:
        folder: An empty folder.
        lie: A function; RIGHT and FLOATS are a right output.
        name: The function of `runtime` that it stands for.
        timeout: Seconds that the worker may take.
    """
    change = f"""
    import struct
    RIGHT, FLOATS = ["float32", [2], 0], struct.pack("<2f", 1, 1)
    def ran(output): return {{"nodes": ["Gather"], "outputs": [output]}}
    def framed(content): return struct.pack("<Q", len(content)) + content
    class InferenceSession(InferenceSession):
        def compute(self, data, indices):
            if indices[0] == 1:
                sys.modules["__main__"].{name} = {lie}
                raise RuntimeError
            return super().compute(data, indices)
    """
    lane = stub(folder, change)
    assert lane.start().not_run is None
    assert lane.answer(pair(1, 1)).kind is AnswerKind.FAILED  # from here on it lies
    worker: Any = lane._worker  # type: ignore[reportPrivateUsage]
    worker.timeout = timeout
    found = lane.answer(pair(0, 0))
    worker.timeout = 30
    assert lane.answer(pair(0, 0)).kind is AnswerKind.RAN
    lane.close()
    return found


FORBIDS = """
class SessionOptions:
    def add_session_config_entry(self, key, value): setattr(self, key, value)
class InferenceSession(InferenceSession):
    def __init__(self, model, options, providers, enable_fallback):
        if getattr(options, "session.disable_cpu_ep_fallback") == "1":
            raise RuntimeError("This session contains graph nodes that are assigned to the"
                               " default CPU EP, but fallback to CPU EP has been explicitly"
                               " disabled by the user.")
"""  # noqa: E501
WHY: dict[str, dict[str, str]] = tomllib.loads(f"""
[absent]
change = "PROVIDERS = ['CPUExecutionProvider']"
why = '''
{STUB} is not available (available: CPUExecutionProvider); install an ONNX
Runtime with {STUB}, or name its plugin library: --plugin {STUB}=LIBRARY'''

["no start"]
change = '''
class InferenceSession(InferenceSession):
    def open(self): raise RuntimeError("no device\\n was found")
'''
why = "{STUB} cannot start: no device was found"

[declined]
change = "PLACE = 'CPUExecutionProvider'"
why = "{STUB} must run every node, but Gather (Gather) runs on CPUExecutionProvider"

[forbidden]
change = '''
PLACE = "CPUExecutionProvider"
{FORBIDS}
'''
why = "{STUB} must run every node, but Gather (Gather) runs on CPUExecutionProvider"

[folded]
change = "NODES = []"
why = "{STUB} must run a node, but none is left to run"

[empty]
change = "del InferenceSession"
why = '''
the module onnxruntime is empty, as uninstalling one of its wheels leaves it;
reinstall an ONNX Runtime with {STUB}'''

["no runtime"]
change = "{ABSENT}"
why = '''
the environment of {STUB} does not contain ONNX Runtime; install an ONNX
Runtime with {STUB}'''

["no assignment"]
change = "del InferenceSession.get_provider_graph_assignment_info"
why = '''
{STUB} must say which nodes it ran, which ONNX Runtime 9.9.9 does not record;
install 1.24.4 or later'''
""")
"""Changes to the stand-in, and why nothing counts then."""


def test_a_right_answer_with_proof_passes(tmp_path: Path) -> None:
    (result,) = results(stub(tmp_path), pair())
    (found,) = result.results
    assert (found.lane, found.state, found.nodes) == ("stub", "PASS", ("Gather",))


def test_a_lane_says_its_provider_and_versions(tmp_path: Path) -> None:
    lane = stub(tmp_path)
    info = lane.start()
    lane.close()
    assert info.provider == STUB
    assert info.versions == {
        "python": ".".join(map(str, sys.version_info[:3])),
        "numpy": np.__version__,
        "onnxruntime": "9.9.9",
    }
    assert info.python == str(tmp_path / "python")
    assert info.not_run is None


@pytest.mark.parametrize("why", quick_alone(["absent", "empty", "forbidden"], WHY))
def test_what_does_not_count_says_why(tmp_path: Path, why: str) -> None:
    reason = WHY[why]["why"].replace("\n", " ")
    assert told(stub(tmp_path, WHY[why]["change"])) == [("NOT-RUN", reason)]


def test_a_provider_absent_from_this_environment_is_not_run() -> None:
    lane = ModelLane("directml", PROVIDERS["directml"])
    state, reason = told(lane)[0]
    assert state == "NOT-RUN"
    assert reason is not None
    assert reason.startswith("DmlExecutionProvider is not available (available: ")


def test_a_model_that_folds_away_on_the_cpu_is_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = write.descriptor_model

    def folded(*arguments: Any, **options: Any) -> Any:
        model = real(*arguments, **options)
        for value, array in zip(
            list(model.graph.input), (DATA, np.array([3, 0])), strict=True
        ):
            tensor = model.graph.initializer.add()
            tensor.ParseFromString(tensor_bytes(value.name, array))
        del model.graph.input[:]
        return model

    lane = ModelLane("cpu", PROVIDERS["cpu"])
    lane.start()
    monkeypatch.setattr("onnxgather.checking.lanes.python.descriptor_model", folded)
    answer = lane.answer(pair())
    lane.close()
    assert answer == Answer(
        AnswerKind.NOT_RUN,
        "CPUExecutionProvider must run a node, but none is left to run",
        how="folded",
        detail="none is left to run",
        gathers=("Gather",),
    )


def test_another_environment_without_onnx_runtime_says_what_to_install(
    tmp_path: Path,
) -> None:
    python = environment(tmp_path, ABSENT)
    reason = (
        f"{python} has no onnxruntime; install onnxruntime-openvino>=1.24.1 there;"
        " OpenVINO itself is the lane openvino-runtime"
    )
    (tmp_path / "site" / "openvino.py").write_text("raise ImportError('none')")
    lane = ModelLane("openvino", find_provider("openvino"), python)
    assert told(lane) == [("NOT-RUN", reason)]


def test_an_onnx_runtime_that_does_not_load_says_why(tmp_path: Path) -> None:
    python = environment(tmp_path, "raise ImportError('libcudart.so.12: no file')")
    (tmp_path / "site" / "openvino.py").write_text("raise ImportError('none')")
    lane = ModelLane("openvino", find_provider("openvino"), python)
    why = "cannot import onnxruntime: libcudart.so.12: no file"
    assert told(lane) == [("NOT-RUN", f"{python} {why}")]


def test_a_missing_interpreter_is_not_run(tmp_path: Path) -> None:
    python = str(tmp_path / "none")
    lane = ModelLane("stub", find_provider(STUB), python)
    assert told(lane) == [
        ("NOT-RUN", f"{python} does not start: No such file or directory")
    ]


def test_a_plugin_that_does_not_load_is_not_run(tmp_path: Path) -> None:
    (lane,) = open_lanes([], plugins={"webgpu": str(tmp_path / "none.so")})
    ((state, reason),) = told(lane)
    assert state == "NOT-RUN"
    assert reason is not None
    assert reason.startswith(
        "the plugin library of WebGpuExecutionProvider does not load: "
    )


def plugin_lane(
    folder: Path, name: str, offered: str, options: dict[str, str] | None = None
) -> ModelLane:
    """Return the lane of a plugin on the stand-in.

    Args:
        folder: An empty folder.
        name: The name of the lane.
        offered: The devices that the library offers, as Python.
        options: The options of the provider.
    """
    change = f"{PLUGIN}\ndef offered(name): return {offered}\n"
    python = environment(folder, f"{change}PLACE = {name.split('@')[0]!r}\n")
    (lane,) = open_lanes(
        [],
        {name: python},
        {name: "/lib/stub.so"},
        provider_options={name: options} if options else {},
    )
    assert isinstance(lane, ModelLane)
    return lane


def test_a_plugin_without_a_device_is_not_run(tmp_path: Path) -> None:
    lane = plugin_lane(tmp_path, "mine", "[device('other', 'GPU', 'A')] * 2")
    assert told(lane) == [
        (
            "NOT-RUN",
            "the plugin library of mine loads, but does not offer a device; ONNX"
            " Runtime lists CPUExecutionProvider on CPU AMD; other on GPU A, GPU A",
        )
    ]


THREE = "[device(name, 'NPU', 'A'), device(name, 'GPU', 'B'), device(name, 'GPU', 'C')]"


@pytest.mark.parametrize(
    ("label", "chosen"),
    [("", "A, B, C"), ("@GPU", "B, C"), ("@GPU:1", "C"), ("@NPU:0", "A")],
)
def test_a_plugin_brings_its_provider_with_the_devices_of_the_label(
    tmp_path: Path, label: str, chosen: str
) -> None:
    devices = repr(chosen.split(", "))
    check = f"""
class SessionOptions(SessionOptions):
    def add_provider_for_devices(self, chosen, options):
        assert [each.device.vendor for each in chosen] == {devices}
        assert options == {{"a": "b:c=d"}}
"""
    lane = plugin_lane(tmp_path, f"My-EP{label}", THREE, {"a": "b:c=d"})
    package = tmp_path / "site" / "onnxruntime" / "__init__.py"
    package.write_text(package.read_text() + check)
    info = lane.start()
    assert info.devices == ("NPU A", "GPU B", "GPU C")
    assert info.versions["My-EP"] == "0.2.0"
    assert (info.plugin, info.provider_options) == ("/lib/stub.so", {"a": "b:c=d"})
    assert info.software[-2:] == ["My-EP 0.2.0", "a=b:c=d"]
    assert told(lane) == [("PASS", None)]


def test_a_device_that_a_plugin_does_not_offer_is_not_run(tmp_path: Path) -> None:
    lane = plugin_lane(tmp_path, "mine@GPU:2", THREE)
    assert told(lane) == [
        (
            "NOT-RUN",
            "the plugin library of mine loads, but does not offer GPU:2; ONNX Runtime"
            " lists CPUExecutionProvider on CPU AMD; mine on NPU A, GPU B, GPU C",
        )
    ]


@pytest.mark.parametrize("offered", ["name", "name.removesuffix('.virtual')"])
def test_a_virtual_device_has_the_name_of_the_provider_with_or_without_the_end(
    tmp_path: Path, offered: str
) -> None:
    devices = f"[device({offered}, 'NPU', 'A')]"
    lane = plugin_lane(tmp_path, "mine.virtual", devices)
    change = f"\nPLACE = 'mine.virtual'\nname = PLACE\nPLACE = {offered}\n"
    package = tmp_path / "site" / "onnxruntime" / "__init__.py"
    package.write_text(package.read_text() + change)
    assert told(lane) == [("PASS", None)]


@pytest.mark.parametrize(("refused", "starts"), [("float32", True), ("*", False)])
def test_the_lane_of_a_plugin_starts_if_it_takes_one_of_two_gathers(
    tmp_path: Path, refused: str, starts: bool
) -> None:
    lane = plugin_lane(tmp_path, "mine", THREE)
    change = f"""
import onnx
NODES = ["Mul", "GatherND", "Mul"]
class InferenceSession(InferenceSession):
    def open(self):
        graph = onnx.ModelProto.FromString(self.model).graph
        name = {{1: "float32", 6: "int32"}}[graph.input[0].type.tensor_type.elem_type]
        if {refused!r} in (name, "*"): raise RuntimeError("no " + name)
    def compute(self, data, indices): return data
"""
    package = tmp_path / "site" / "onnxruntime" / "__init__.py"
    package.write_text(package.read_text() + change)
    not_run = None if starts else "mine cannot start: no int32"
    assert lane.start().not_run == not_run


def _dedented(text: str) -> str:
    return "\n".join(line[8:] for line in text.splitlines())


BREAKDOWNS = """
os.kill(os.getpid(), signal.SIGSEGV)
died: SIGSEGV

os._exit(7)
exited: 7

time.sleep(600)
late: 0.5 s

os.closerange(3, 12); time.sleep(600)
late: 0.5 s

os.closerange(3, 12); time.sleep(0.5); os._exit(7)
exited: 7

write(b'12345678')
stray: 12345678
"""

NONSENSE = r"""
{'nodes': []}
outputs of no node

{'nodes': ['Gather', 'Gather'], 'outputs': [RIGHT]}, FLOATS
more nodes than the model has: Gather

{'nodes': ['Gather', 'Conv', 'Relu'], 'outputs': [RIGHT]}, FLOATS
more nodes than the model has: Conv, Relu

{'nodes': ['GatherElements'], 'outputs': [RIGHT]}, FLOATS
more nodes than the model has: GatherElements

{'nodes': ['Gather'], 'outputs': []}
0 outputs of 1 runs

{'nodes': ['Gather'], 'outputs': [RIGHT, RIGHT]}, FLOATS
2 outputs of 1 runs

ran(['float32', [9], 0]), FLOATS
buffer is smaller than requested size

ran(['float32', [2], 1]), FLOATS
buffer is smaller than requested size

ran(['float32', [2], 9]), FLOATS
offset must be non-negative and no greater than buffer length (8)

ran(['float32', [2], -8]), FLOATS
Expected `int` >= 0 - at `$.outputs[0][2]`

ran(['float32', [-1], 0]), FLOATS
Expected `int` >= 0 - at `$.outputs[0][1][0]`

ran(['float32', [2**32, 2**32], 0]), FLOATS
Python int too large to convert to C ssize_t

ran(['float32', [2**70], 0]), FLOATS
Python int too large to convert to C ssize_t

ran(['float32', [2, *[1] * 99], 0]), FLOATS
maximum supported dimension for an ndarray is currently 64, found 100

ran(['O', [1], 0]), FLOATS
an array of O

ran(['datetime64[s]', [1], 0]), FLOATS
an array of datetime64[s]

ran(['>f4', [1], 0]), FLOATS
an array of >f4

ran(['f4,f4', [1], 0]), FLOATS
an array of f4,f4

ran(['float', [1], 0]), FLOATS
an array of float

{'nodes': 'Gather'}
Expected `array`, got `str` - at `$.nodes`

{'not_run': ['no such kind', '', None]}
Invalid enum value 'no such kind' - at `$.not_run[0]`

{'nodes': [['Gather']]}
Expected `str`, got `array` - at `$.nodes[0]`

ran(float('nan')), FLOATS
JSON is malformed: invalid character (byte 34)

{'refused': 'x' * 2**20}
1048591 bytes of JSON

[]
Expected `object`, got `array`
"""

ABOUT = """
{}
Object missing required field `versions`

{'versions': 5}
Expected `object`, got `int` - at `$.versions`

{'versions': {}, 'providers': [5]}
Expected `str`, got `int` - at `$.providers[0]`

{'versions': {}, 'devices': {'a': 'b'}}
Expected `array`, got `str` - at `$.devices[...]`
"""


@pytest.mark.parametrize(
    ("change", "reason"),
    one_quick_in(
        4,
        [
            ("os.kill(os.getpid(), signal.SIGSEGV)", "the worker died of SIGSEGV"),
            ("os._exit(7)", "the worker ended with exit code 7"),
        ],
    ),
)
@pytest.mark.parametrize("printed", ["", "oops"])
def test_a_crash_is_an_error_of_its_case(
    tmp_path: Path, change: str, reason: str, printed: str
) -> None:
    lane = stub(
        tmp_path,
        f"""
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                if indices[0] == 1:
                    print({printed!r}, end="", flush=True)
                    {change}
                return super().compute(data, indices)
        """,
    )
    tail = f"; it printed: {printed}" if printed else " and printed nothing"
    found = told(lane, pair(0, 0), pair(1, 1), pair(2, 2), pair(1, 2), pair(3, 3))
    crashed = ("ERROR", reason + tail)
    assert found == [
        ("PASS", None),
        crashed,
        ("PASS", None),
        crashed,
        ("PASS", None),
    ]


@pytest.mark.parametrize(("change", "told"), one_quick_in(6, rows_of(BREAKDOWNS)))
def test_an_answer_says_how_the_worker_broke_down(
    tmp_path: Path, change: str, told: str
) -> None:
    how, _, detail = told.partition(": ")
    folder = environment(
        tmp_path,
        f"""
import contextlib
def write(content):
    for pipe in range(3, 12):
        with contextlib.suppress(OSError):
            os.write(pipe, content)
class InferenceSession(InferenceSession):
    def compute(self, data, indices):
        if indices[0] == 1:
            {change}
        return super().compute(data, indices)
""",
    )
    lane = ModelLane("stub", find_provider(STUB), folder)
    assert lane.start().not_run is None
    worker: Any = lane._worker  # type: ignore[reportPrivateUsage]
    worker.timeout = 0.5 if how == Breakdown.LATE else 30
    answer = lane.answer(pair(1, 1))
    worker.timeout = 30
    assert answer.kind is AnswerKind.BROKEN
    assert (answer.how, answer.detail) == (how, detail)
    assert lane.answer(pair(0, 0)).kind is AnswerKind.RAN
    lane.close()


def test_an_answer_of_a_lane_whose_interpreter_is_not_there(tmp_path: Path) -> None:
    python = str(tmp_path / "none")
    answer = ModelLane("stub", find_provider(STUB), python).answer(pair())
    reason = f"{python} does not start: No such file or directory"
    assert answer == Answer(
        AnswerKind.BROKEN,
        reason,
        how=Breakdown.NOT_STARTED,
        detail="No such file or directory",
        gathers=("Gather",),
    )


def test_a_refusal_and_a_failure_are_in_the_words_of_the_provider(
    tmp_path: Path,
) -> None:
    change = """
class InferenceSession(InferenceSession):
    def open(self):
        if b"Mul" not in self.model: raise RuntimeError("no such type")
    def compute(self, data, indices): raise RuntimeError("no memory")
"""
    lane = stub(tmp_path, change)
    lane.start()
    assert lane.answer(pair()) == Answer(
        AnswerKind.REFUSED, "no such type", gathers=("Gather",)
    )
    assert lane.answer(pair().wrapped_in()) == Answer(
        AnswerKind.FAILED, "no memory", ("Gather",), gathers=("Gather",)
    )
    lane.close()


@pytest.mark.slow
def test_a_hang_is_an_error_of_its_case(tmp_path: Path) -> None:
    change = """
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                if indices[0] == 1:
                    print("thinking", file=sys.stderr, flush=True)
                    time.sleep(600)
                return super().compute(data, indices)
        """
    start = time.monotonic()
    found = told(stub(tmp_path, change, timeout=2), pair(0, 0), pair(1, 1), pair(2, 2))
    assert found == [
        ("PASS", None),
        ("ERROR", "the worker did not answer within 2 s; it printed: thinking"),
        ("PASS", None),
    ]
    assert time.monotonic() - start < 30


def test_garbage_between_the_frames_is_shown(tmp_path: Path) -> None:
    change = """
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                if indices[0] == 1:
                    for pipe in range(3, 12):
                        try: os.write(pipe, b"hello, this is a banner")
                        except OSError: pass
                return super().compute(data, indices)
        """
    found = told(stub(tmp_path, change), pair(0, 0), pair(1, 1), pair(2, 2))
    assert found[0] == found[2] == ("PASS", None)
    state, reason = found[1]
    assert state == "ERROR"
    assert reason is not None
    assert reason.startswith(
        "the worker printed where it must answer; it printed: hello, this is a banner"
    )


def test_what_a_library_prints_does_no_harm(tmp_path: Path) -> None:
    change = """
        print("a library says hello")
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                os.write(1, b"x" * 10_000)
                return super().compute(data, indices)
        """
    lane = stub(tmp_path, change, banner="print('an environment says hello')")
    assert told(lane, *[pair()] * 30) == [("PASS", None)] * 30


def test_what_a_worker_printed_is_cut(tmp_path: Path) -> None:
    change = """
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                print("a" * 5000, "end", flush=True)
                os._exit(1)
        """
    ((state, reason),) = told(stub(tmp_path, change))
    assert state == "NOT-RUN"  # as it cannot run a gather at all
    shown = f"…{'a' * 149}…{'a' * 150} end"
    assert reason == f"the worker ended with exit code 1; it printed: {shown}"


def test_a_worker_that_dies_before_it_answers_at_all(tmp_path: Path) -> None:
    python = environment(tmp_path, banner="import os; os._exit(3)")
    lane = ModelLane("stub", find_provider(STUB), python)
    assert told(lane) == [
        ("NOT-RUN", "the worker ended with exit code 3 and printed nothing")
    ]


@pytest.mark.parametrize(
    ("failures", "state"), one_quick_in(2, [(1, "PASS"), (2, "NOT-RUN")])
)
def test_a_host_is_started_twice(tmp_path: Path, failures: int, state: str) -> None:
    tries = tmp_path / "tries"
    banner = f"""
        import os, pathlib
        tries = pathlib.Path({str(tries)!r})
        tries.write_text((tries.read_text() if tries.exists() else "") + ".")
        if len(tries.read_text()) <= {failures}:
            os._exit(3)
        """
    python = environment(tmp_path, banner=_dedented(banner))
    host = [python, "-u", runtime.__file__]
    ((found, _),) = told(ModelLane("stub", find_provider(STUB), python, host=host))
    assert (found, tries.read_text()) == (state, "..")


@pytest.mark.slow
def test_a_worker_behind_a_script_is_ended_with_it(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nsleep 600\nexit 0\n")
    script.chmod(0o755)
    start = time.monotonic()
    lane = ModelLane("stub", find_provider(STUB), str(script), timeout=1)
    assert told(lane) == [
        ("NOT-RUN", "the worker did not answer within 3 s and printed nothing")
    ]
    assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    ("answer", "detail"),
    one_quick_in(15, rows_of(NONSENSE)),
)
def test_a_worker_that_breaks_the_protocol_costs_its_case(
    tmp_path: Path, answer: str, detail: str
) -> None:
    lie = f"lambda *_: ({answer}, b'')[:2]"
    nonsense = f"the worker answered what no worker answers: {detail}"
    expected = Answer(
        AnswerKind.BROKEN,
        nonsense,
        how=Breakdown.NONSENSE,
        detail=detail,
        gathers=("Gather",),
    )
    assert lied(tmp_path, lie) == expected


FRAMES = r"""
b'{"x":' + b'[' * 200_000
maximum recursion depth exceeded

b''
Input data was truncated

b'hello'
JSON is malformed: invalid character (byte 0)

bytes(1000)
JSON is malformed: invalid character (byte 0)

b'\xff' * 9
JSON is malformed: invalid character (byte 0)
"""


@pytest.mark.parametrize(("frame", "detail"), one_quick_in(5, rows_of(FRAMES)))
def test_a_frame_that_is_no_answer_costs_its_case(
    tmp_path: Path, frame: str, detail: str
) -> None:
    answer = lied(tmp_path, f"lambda *_: framed({frame})", "message")
    assert (answer.kind, answer.how) == (AnswerKind.BROKEN, Breakdown.NONSENSE)
    assert answer.detail.startswith(detail)


def test_a_frame_that_is_announced_and_not_sent_costs_its_case(tmp_path: Path) -> None:
    lie = "lambda *_: (2**33).to_bytes(8, 'little')"
    answer = lied(tmp_path, lie, "message", timeout=0.5)
    assert answer.how in (Breakdown.LATE, Breakdown.TOO_LONG)


@pytest.mark.parametrize(("about", "detail"), one_quick_in(10, rows_of(ABOUT)))
def test_a_worker_that_says_nonsense_of_itself_does_not_start(
    tmp_path: Path, about: str, detail: str
) -> None:
    change = f"sys.modules['__main__'].environment = lambda: ({about})"
    lane = stub(tmp_path, banner=BANNER.format(change=change))
    assert told(lane) == [
        ("NOT-RUN", f"the worker answered what no worker answers: {detail}")
    ]


def test_a_worker_that_dies_between_two_cases_costs_none(tmp_path: Path) -> None:
    lane = stub(tmp_path)
    lane.start()
    worker: Any = lane._worker  # type: ignore[reportPrivateUsage]
    worker._program.popen.kill()
    worker._program.popen.wait()
    assert lane.answer(pair()).kind is AnswerKind.RAN
    lane.close()


def test_an_ended_lane_starts_no_other_worker(tmp_path: Path) -> None:
    lane = stub(tmp_path)
    lane.start()
    lane.close()
    assert lane.answer(pair()) == Answer(
        AnswerKind.BROKEN,
        "the worker was ended",
        how=Breakdown.CLOSED,
        gathers=("Gather",),
    )


def test_an_interruption_does_not_wait_for_a_hang(tmp_path: Path) -> None:
    change = """
        class InferenceSession(InferenceSession):
            def compute(self, data, indices):
                if indices[0] == 1:
                    time.sleep(600)
                return super().compute(data, indices)
        """
    lane = stub(tmp_path, change, timeout=120)
    info = lane.start()

    def interrupted() -> Iterator[Case]:
        yield pair(1, 1)
        time.sleep(0.5)
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(check_cases(interrupted(), [lane], [info], ()))
    assert time.monotonic() - start < 20


@pytest.mark.slow
def test_thousands_of_cases_leave_memory_flat(tmp_path: Path) -> None:
    lane = stub(tmp_path)
    lane.start()
    worker: Any = lane._worker  # type: ignore[reportPrivateUsage]
    pid = worker._program.popen.pid
    for _ in range(300):
        lane.answer(pair())
    first = _resident(pid)
    for _ in range(1200):
        lane.answer(pair())
    assert _resident(pid) < first + 2**21
    lane.close()


def _resident(pid: int) -> int:
    """Return the bytes of memory that a program has."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
