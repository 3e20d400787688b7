"""Lanes on runtimes behind adapters: what counts, and what a fault costs."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from textwrap import dedent

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from folders import ROOT
from lane_cases import pair, results, told, vector_gather
from messages import message_of, rows_of
from planted_adapter import planted
from rings import one_quick_in
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase, GatherNode, NodeCase
from onnxgather.checking.corpus.built_in import built_in_cases
from onnxgather.checking.foreign_memory import foreign_memory
from onnxgather.checking.lanes import adapter_program, open_lanes
from onnxgather.checking.lanes.adapter_worker import ADAPTERS
from onnxgather.checking.lanes.runtime import RuntimeLane
from onnxgather.checking.report.sentences import about_lane
from onnxgather.checking.results import ForeignMemory, read_report
from onnxgather.checking.run import check_cases
from onnxgather.cli.commands import main
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES

forks = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere no worker is forked, and messages differ"
)


def lane_on(folder: Path, change: str = "", timeout: float = 30) -> RuntimeLane:
    """Return a lane on the planted adapter."""
    return RuntimeLane("planted", planted(folder, change), timeout=timeout)


def test_each_runtime_of_the_table_has_an_adapter_of_its_name() -> None:
    for name, row in OTHER_RUNTIMES.items():
        text = (ADAPTERS / row.file).read_text("utf-8")
        assert f'\nname = "{name}"\n' in text
        assert ("\ndef ran(" in text) == bool(row.ran)
    files = {path.name for path in ADAPTERS.glob("*.py")}
    assert files == {row.file for row in OTHER_RUNTIMES.values()}


def test_a_lane_runs_in_the_environment_that_was_made_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert RuntimeLane("opencv").python == sys.executable
    made = tmp_path / "onnxgather" / "runtimes" / "opencv" / "bin" / "python"
    made.parent.mkdir(parents=True)
    made.touch()
    assert RuntimeLane("opencv").python == str(made)
    assert RuntimeLane("opencv@other").python == str(made)
    assert RuntimeLane("tract").python == sys.executable
    assert RuntimeLane("opencv", python="/bin/python").python == "/bin/python"
    # An adapter of one's own has no such environment.
    adapter = planted(tmp_path)
    assert RuntimeLane("opencv", adapter).python == sys.executable


def test_a_right_answer_passes(tmp_path: Path) -> None:
    (result,) = results(lane_on(tmp_path), pair())
    (found,) = result.results
    assert (found.lane, found.state, found.nodes) == ("planted", "PASS", ("Gather",))


@pytest.mark.slow
def test_an_adapter_may_print_while_it_loads(tmp_path: Path) -> None:
    # The second is the greeting of the program itself.
    for text in (b"x" * 200_000, b"\x93gather\n"):
        change = f"sys.stdout.buffer.write({text!r})"
        assert told(lane_on(tmp_path, change)) == [("PASS", None)]


def test_a_lane_says_its_runtime_and_versions(tmp_path: Path) -> None:
    lane = lane_on(tmp_path)
    info = lane.start()
    lane.close()
    assert info.provider == "planted"
    assert info.versions == {
        "python": ".".join(map(str, sys.version_info[:3])),
        "numpy": np.__version__,
        "planted": "1.2.3",
    }
    assert (info.python, info.target) == (sys.executable, "portable")
    assert (info.not_run, info.at_exit, info.opset) == (None, None, None)
    assert info.adapter == str(tmp_path / "planted.py")


def test_models_have_the_opset_that_is_wanted(tmp_path: Path) -> None:
    change = """
    def load(model, name):
        def run(inputs):
            raise ValueError(f"opset {model[model.rindex(bytes([16])) + 1]}")
        return run
    del ran
    """
    adapter = planted(tmp_path, change)
    lane = RuntimeLane("planted", adapter, opset=13)
    assert lane.start().opset == 13
    lane.close()
    assert told(RuntimeLane("planted", adapter, opset=13)) == [
        ("ERROR", "planted failed: opset 13")
    ]


WRONG = """
gather = lambda data, indices: data[indices] + np.float32(1)
2 of 2 elements differ, first OutputTensor[0]: expected 4.0 (00 00 80 40), got 5.0 (00
00 a0 40)

gather = lambda data, indices: data[indices].reshape(2, 1)
expected shape [2], got [2, 1]

gather = lambda data, indices: data[indices].astype(np.float64)
expected data type float32, got float64
"""


@pytest.mark.parametrize(("change", "reason"), one_quick_in(9, rows_of(WRONG)))
def test_a_wrong_output_differs(tmp_path: Path, change: str, reason: str) -> None:
    ((state, found),) = told(lane_on(tmp_path, change))
    assert (state, (found or "").partition("; ")[0]) == ("DIFF", reason)


LOAD = "def load(model, name): return "
NUMBERS = "and no array of numbers or texts"
NO_ANSWER = {
    f"{LOAD}lambda inputs: {{}}": "no output OutputTensor, but none",
    f"{LOAD}None": "load returned NoneType, and no function",
    f"{LOAD}lambda inputs: [1.0]": "outputs of type list, and no dict",
    f"{LOAD}lambda inputs: {{'OutputTensor': [1]}}": f"OutputTensor as list, {NUMBERS}",
    "gather = lambda data, indices: np.array(['a', 1], object)": (
        f"OutputTensor as an array of object, {NUMBERS}"
    ),
    "gather = lambda data, indices: np.array([b'a', b'b'])": (
        f"OutputTensor as an array of |S1, {NUMBERS}"
    ),
    "gather = lambda data, indices: data[indices].astype(np.longdouble)": (
        f"OutputTensor as an array of {np.dtype(np.longdouble)}, {NUMBERS}"
    ),
    "gather = lambda data, indices: np.broadcast_to(data[:1], 2**30)": (
        "OutputTensor of 4,294,967,296 bytes, and at most 2,147,483,648"
    ),
    "def ran(loaded): return 'Gather'": "ran returned str, and no list of names",
    "def ran(loaded): raise ValueError('no')": "ran failed: no",
}
"""Adapters that do not do what docs/runtimes.md says, and what they do."""

LIES = {
    "[]": "nothing, and the model has Gather",
    "['Mystery']": "Mystery, and the model has Gather",
    "['Gather', 'Conv']": "Gather, Conv, but the model has no Conv",
    "['GatherND']": "GatherND, but the model has no GatherND",
}
"""What an adapter says that it ran, and what is wrong with that."""

ONCE = [
    ("gather = lambda data, indices: data[indices].astype('>f4')", "PASS", None),
    (
        "def load(model, name): raise ValueError(f'no {name}')",
        "ERROR",
        "planted cannot run the model: no case",
    ),
    (
        "def gather(data, indices): raise ValueError('no')",
        "ERROR",
        "planted failed: no",
    ),
    (
        "def ran(loaded): return ['Gather']",
        "NOT-RUN",
        (
            "the adapter of planted says that Gather ran in a model that has Add alone,"
            " so that it proves nothing"
        ),
    ),
    *(
        (change, "ERROR", f"the adapter does not do what docs/runtimes.md says: {why}")
        for change, why in NO_ANSWER.items()
    ),
    *(
        (
            (
                f"def ran(loaded): return {kinds} if b'Gather' in loaded.model else"
                " ['Add']"
            ),
            "ERROR" if "but" in why else "NOT-RUN",
            f"planted says that it ran {why}",
        )
        for kinds, why in LIES.items()
    ),
]


@pytest.mark.parametrize(("change", "state", "reason"), one_quick_in(6, ONCE))
def test_what_becomes_of_one_case(
    tmp_path: Path, change: str, state: str, reason: str | None
) -> None:
    if "def load" in change:
        change += "\ndel ran"
    assert told(lane_on(tmp_path, change)) == [(state, reason)]


@pytest.mark.slow
def test_without_ran_the_bytes_count_alone(tmp_path: Path) -> None:
    (result,) = results(lane_on(tmp_path, "del ran"), pair())
    (found,) = result.results
    assert (found.state, found.nodes) == ("PASS", ())


RAN_OF_RUN = """
    def gather(data, indices):
        {fault}
        return data[indices.astype(np.int64)]

    def load(model, name):
        def run(inputs):
            data, indices = inputs["InputTensor"], inputs["IndicesTensor"]
            output = gather(data, indices)
            run.kinds = ["Gather"] if b"Gather" in model else ["Add"]
            return {{"OutputTensor": output}}
        return run

    def ran(loaded):
        return loaded.kinds
"""
"""An adapter that knows what ran once a run has returned an output."""


def test_a_run_that_fails_has_its_own_message_though_ran_knows_nothing(
    tmp_path: Path,
) -> None:
    fails = RAN_OF_RUN.format(fault="raise ValueError('no kernel')")
    assert told(lane_on(tmp_path, fails)) == [("ERROR", "planted failed: no kernel")]


@pytest.mark.slow
def test_what_ran_for_valid_indices_counts_where_others_are_refused(
    tmp_path: Path,
) -> None:
    reason = "both refuse: IndicesTensor[0] must be in [-4, 4), got 9"
    (result,) = results(lane_on(tmp_path, RAN_OF_RUN.format(fault="")), pair(9, 0))
    (found,) = result.results
    assert (found.state, found.reason) == ("PASS", reason)
    assert found.beside is not None
    assert found.beside.nodes == ("Gather",)
    lies = (
        RAN_OF_RUN.format(fault="")
        + """
    def ran(loaded):
        return ["Add"] if loaded.kinds == ["Add"] else []
    """
    )
    (result,) = results(lane_on(tmp_path, lies), pair(9, 0))
    (found,) = result.results
    assert found.state == "NOT-RUN"
    assert found.beside is not None
    assert found.beside.reason == (
        "planted says that it ran nothing, and the model has Gather"
    )


def test_a_message_that_is_no_utf_8_is_that_of_the_runtime(tmp_path: Path) -> None:
    fails = RAN_OF_RUN.format(fault=r"raise ValueError('caf\udce9')")
    assert told(lane_on(tmp_path, fails)) == [("ERROR", r"planted failed: caf\udce9")]


def test_an_index_out_of_range_must_be_refused(tmp_path: Path) -> None:
    assert told(lane_on(tmp_path), pair(9, 0)) == [
        (
            "PASS",
            "both refuse: IndicesTensor[0] must be in [-4, 4), got 9",
        )
    ]
    clamps = "gather = lambda data, indices: data[np.clip(indices, -4, 3)]"
    ((state, reason),) = told(lane_on(tmp_path, clamps), pair(9, 0))
    assert state == "DIFF"
    assert reason == (
        "must refuse, but returned the elements at the clamped indices:"
        " IndicesTensor[0] must be in [-4, 4), got 9"
    )


def test_what_the_adapter_cannot_pass_on_is_not_run_and_no_refusal(
    tmp_path: Path,
) -> None:
    change = """
    class NotGivenError(Exception):
        pass

    def gather(data, indices):
        if (indices > 8).any():
            raise NotGivenError("an index above 8")
        return data[indices]
    """
    assert told(lane_on(tmp_path, change), pair(9, 0), pair(3, 0)) == [
        (
            "NOT-RUN",
            "the adapter of planted cannot pass the case on: an index above 8",
        ),
        ("PASS", None),
    ]


@pytest.mark.slow
def test_numbers_between_indices_do_not_keep_an_adapter_from_a_case(
    tmp_path: Path,
) -> None:
    change = """
    class NotGivenError(Exception):
        pass

    del ran

    def load(model, name):
        evaluator = ReferenceEvaluator(onnx.load_model_from_string(model))
        def run(inputs):
            if (inputs["IndicesTensor"] > 8).any():
                raise NotGivenError("an index above 8")
            return {"OutputTensor": evaluator.run(None, inputs)[0]}
        return run

    import onnx
    from onnx.reference import ReferenceEvaluator
    """
    apart = descriptor("GATHER: FLOAT32 4, INT64 2 strides 2, FLOAT32 2, 0, 1")
    data = np.array([1, 2, 3, 4], np.float32)
    cases = [
        DescriptorCase("case", apart, data, np.array(indices), "error")
        for indices in ([3, 99, 0], [9, 0, 0])
    ]
    assert told(lane_on(tmp_path, change), *cases) == [
        ("PASS", None),
        (
            "NOT-RUN",
            "the adapter of planted cannot pass the case on: an index above 8",
        ),
    ]


@forks
def test_a_case_after_one_that_must_be_refused_has_another_process(
    tmp_path: Path,
) -> None:
    # The first case spoils memory, from which the process would die in the next.
    change = """
    SPOILED = []
    def gather(data, indices):
        if SPOILED and 9 not in indices:
            os.abort()
        if 9 in indices:
            SPOILED.append(0)
        return data[np.clip(indices, -4, 3)]
    """
    states = told(lane_on(tmp_path, change), pair(9, 0), pair(3, 0))
    assert [state for state, _ in states] == ["DIFF", "PASS"]


@pytest.mark.slow
@forks
def test_a_refusal_counts_only_if_both_runs_for_valid_indices_are_right(
    tmp_path: Path,
) -> None:
    # The second run for each set of indices is wrong.
    change = """
    RUNS = []
    def gather(data, indices):
        RUNS.append(0)
        output = data[indices]
        if len(RUNS) % 2 == 0:
            {fault}
        return output
    """
    in_vain = "refused, which proves nothing: index 9 is out of bounds"
    for fault, state, why in [
        ("output = output + np.float32(1)", "DIFF", "2 of 2 elements differ"),
        ("raise ValueError('the second')", "ERROR", "planted failed: the second"),
    ]:
        lane = lane_on(tmp_path, change.format(fault=fault))
        (result,) = results(lane, pair(9, 0))
        (found,) = result.results
        assert found.state == state
        itself, beside = [run.reason or "" for run in found.runs]
        assert itself.startswith(in_vain)
        assert beside.startswith(why)


@pytest.mark.slow
@forks
def test_a_forbidden_node_that_runs_once_of_two_times_is_not_refused(
    tmp_path: Path,
) -> None:
    forbidden = next(
        case for case in built_in_cases() if case.name == "forbidden/gather/axis/rank"
    )
    change = """
    del ran
    RUNS = []
    def gather(data, indices):
        RUNS.append(0)
        if len(RUNS) % 2:
            raise ValueError("no")
        return data[indices]
    """
    ((state, _),) = told(lane_on(tmp_path, change), forbidden)
    assert state == "DIFF"


def node_case(data: Array, indices: object = (2, 0, -1)) -> NodeCase:
    """Return the case of a Gather along axis 0."""
    array = np.array(indices)
    node = GatherNode("Gather", {"axis": 0}, (*array.shape, *data.shape[1:]))
    return NodeCase("node", node, data, array)


TEXTS = np.array([["a", "bc\0"], ["ü", ""], ["d" * 99, "e"]], object)


@pytest.mark.slow
def test_a_runtime_is_given_texts_and_returns_them(tmp_path: Path) -> None:
    assert told(lane_on(tmp_path), node_case(TEXTS)) == [("PASS", None)]
    # Arrays of numpy's own texts are texts too.
    change = "gather = lambda data, indices: np.array(['a', 'b', 'c'])"
    texts = np.array(["a", "b", "d"], object)
    ((state, reason),) = told(lane_on(tmp_path, change), node_case(texts, [0, 1, 2]))
    assert state == "DIFF"
    assert reason == (
        "1 of 3 elements differ, first OutputTensor[2]: expected d (5b 22 64 22 5d),"
        " got c (5b 22 63 22 5d)"
    )


@pytest.mark.slow
def test_a_runtime_is_given_other_data_types(tmp_path: Path) -> None:
    for name in ("bfloat16", "float8_e4m3fn", "int4"):
        dtype = np.dtype(getattr(ml_dtypes, name))
        data = np.arange(6).reshape(3, 2).astype(dtype)
        assert told(lane_on(tmp_path), node_case(data)) == [("PASS", None)]
    wide = np.arange(6).reshape(3, 2) * np.complex128(1j)
    assert told(lane_on(tmp_path), node_case(wide)) == [("PASS", None)]
    zeros = "gather = lambda data, indices: data[indices] * 0"
    ((state, reason),) = told(lane_on(tmp_path, zeros), node_case(wide))
    assert (state, (reason or "").partition(",")[0]) == (
        "DIFF",
        "5 of 6 elements differ",
    )


@pytest.mark.slow
@forks
def test_a_data_type_that_no_array_holds_is_not_run(tmp_path: Path) -> None:
    change = """
    sys.modules["ml_dtypes"] = None
    """
    data = np.arange(6).astype(ml_dtypes.bfloat16)
    assert told(lane_on(tmp_path, change), node_case(data)) == [
        (
            "NOT-RUN",
            "the adapter of planted cannot pass the case on: InputTensor of bfloat16,"
            " which numpy lacks without ml_dtypes",
        )
    ]


@pytest.mark.slow
def test_a_node_with_an_index_out_of_range_must_be_refused(tmp_path: Path) -> None:
    case = node_case(TEXTS, [0, 3])
    ((state, reason),) = told(lane_on(tmp_path), case)
    assert (state, (reason or "").partition(":")[0]) == ("PASS", "refused")
    clamps = "gather = lambda data, indices: data[np.clip(indices, 0, 2)]"
    assert told(lane_on(tmp_path, clamps), case) == [
        (
            "DIFF",
            "must refuse, but returned an array of string [2, 2]: indices[1] must be in"
            " [-3, 3), got 3",
        )
    ]
    refuses = """
    def gather(data, indices):
        raise ValueError("never")
    """
    assert told(lane_on(tmp_path, refuses), case) == [
        ("ERROR", "refused, which proves nothing: never")
    ]


AT_THREE = """
    def gather(data, indices):
        if 3 in indices:
            print("before", file=sys.stderr)
            {fault}
        return data[indices]
"""
"""A fault of a case with the index 3 alone."""


@forks
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (
            "os.kill(os.getpid(), signal.SIGABRT)",
            "the runtime ended by signal 6 (SIGABRT); it printed: before",
        ),
        (
            "os._exit(3)",
            "the runtime ended with exit code 3; it printed: before",
        ),
    ],
)
def test_a_case_that_ends_its_process_costs_itself_alone(
    tmp_path: Path, fault: str, reason: str
) -> None:
    lane = lane_on(tmp_path, AT_THREE.format(fault=fault))
    cases = [pair(0, 1), pair(3, 0), pair(1, 2), pair(3, 3), pair(0, 0)]
    assert told(lane, *cases) == [
        ("PASS", None),
        ("ERROR", reason),
        ("PASS", None),
        ("ERROR", reason),
        ("PASS", None),
    ]


@pytest.mark.slow
@forks
def test_a_runtime_that_ends_between_cases_names_the_case_before(
    tmp_path: Path,
) -> None:
    change = """
    import threading
    def gather(data, indices):
        if 3 in indices:
            threading.Timer(0.2, os._exit, [7]).start()
        return data[indices]
    """
    lane = lane_on(tmp_path, change)
    info = lane.start()
    try:
        states: list[tuple[str, str | None]] = []
        for number, index in enumerate([3, 0, 0]):
            item = pair(index, 0, name=f"case-{number}")
            (result,) = next(check_cases([item], [lane], [info], ())).results
            states.append((result.state, result.reason))
            time.sleep(1)
    finally:
        lane.close()
    ended = (
        "the runtime ended with exit code 7 after the case 'case-0', before it received"
        " this one and printed nothing"
    )
    assert states == [("PASS", None), ("ERROR", ended), ("PASS", None)]


def test_the_frames_of_a_backtrace_are_left_out(tmp_path: Path) -> None:
    fault = """print(
                "stack backtrace:\\n   0:     0x7f90 - <unknown>\\n"
                "  12: 0x5605 - start\\n      at ./csu/start.c:360:3\\naborting",
                file=sys.stderr,
            ); os._exit(3)"""
    lane = lane_on(tmp_path, AT_THREE.format(fault=fault))
    ((_, reason),) = told(lane, pair(3, 0))
    assert reason is not None
    assert reason.endswith("; it printed: before aborting")


@pytest.mark.slow
@forks
def test_a_runtime_may_wait_at_its_end_for_a_thread_that_its_import_started(
    tmp_path: Path,
) -> None:
    change = """
    import atexit, threading
    ended = threading.Event()
    answered = threading.Event()
    def wait_and_answer():
        ended.wait()
        answered.set()
    threading.Thread(target=wait_and_answer, daemon=True).start()
    def end():
        ended.set()
        answered.wait()
    atexit.register(end)
    """
    lane = lane_on(tmp_path, change)
    start = time.monotonic()
    info = lane.start()
    lane.close()
    assert (info.not_run, info.at_exit) == (None, None)
    assert time.monotonic() - start < adapter_program.END_TIME


@pytest.mark.slow
@forks
def test_a_crash_does_not_import_the_runtime_again(tmp_path: Path) -> None:
    counted = tmp_path / "imports"
    change = f"open({str(counted)!r}, 'a').write('x')\n"
    fault = AT_THREE.format(fault="os.kill(os.getpid(), signal.SIGSEGV)")
    lane = lane_on(tmp_path, dedent(fault) + change)
    states = [state for state, _ in told(lane, *[pair(3, 0)] * 20, pair(0, 0))]
    assert states == [*["ERROR"] * 20, "PASS"]
    assert counted.read_text() == "xx"  # the first worker is a program of its own


@pytest.mark.slow
def test_a_hang_ends_in_time(tmp_path: Path) -> None:
    lane = lane_on(tmp_path, AT_THREE.format(fault="time.sleep(60)"), timeout=2)
    assert told(lane, pair(3, 0), pair(1, 0)) == [
        ("ERROR", "the runtime did not answer within 2 s; it printed: before"),
        ("PASS", None),
    ]


@pytest.mark.slow
@forks
def test_a_runtime_that_dies_at_exit_is_a_finding_and_its_cases_pass(
    tmp_path: Path,
) -> None:
    change = "import atexit; atexit.register(lambda: os.kill(os.getpid(), 11))"
    lane = lane_on(tmp_path, change)
    info = lane.start()
    assert info.not_run is None
    reason = "answers, but then ended by signal 11 (SIGSEGV) at exit"
    assert info.at_exit == reason
    assert about_lane(info).endswith(f", target portable; {reason}")
    assert told(lane_on(tmp_path, change)) == [("PASS", None)]
    words = ["check", "--case", "gather/rank-1/axis-0"]
    words += ["--adapter", f"planted={tmp_path}/planted.py"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 1
    assert result.output.splitlines()[-3:] == [
        "",
        f"1 finding; planted {reason}",
        "1 case on 1 lane: 1 agree bit for bit, 1 fault at exit.",
    ]


FOREIGN = "returned memory that is not the model's"


def foreign(folder: Path, change: str, *cases: Case) -> tuple[str, str, str]:
    """Return the state, how foreign memory shows, and the end of the reason."""
    (result,) = results(lane_on(folder, change), *(cases or [pair()]))
    (found,) = result.results
    return (
        found.state,
        str(found.foreign_memory),
        (found.reason or "").rpartition("; ")[2],
    )


@pytest.mark.slow
def test_the_bytes_around_an_input_are_told_as_foreign_memory(tmp_path: Path) -> None:
    change = """
    import ctypes
    def gather(data, indices):
        address = data.ctypes.data
        read = [ctypes.string_at(address + 4 * int(i), 4) for i in indices]
        return np.frombuffer(b"".join(read), np.float32)
    """
    assert foreign(tmp_path, change, pair(1, 9)) == (
        "DIFF",
        "pattern",
        f"{FOREIGN}: elements hold the bytes that were put into free memory",
    )
    assert foreign(tmp_path, change, pair(1, 2)) == ("PASS", "None", "")


def test_memory_that_was_never_written_is_told_as_foreign_memory(
    tmp_path: Path,
) -> None:
    change = "gather = lambda data, indices: np.empty(2000, np.float32)[-2:]"
    state, how, _ = foreign(tmp_path, change)
    assert (state, how) == ("DIFF", "pattern")


@pytest.mark.slow
def test_runs_that_differ_do_not_pass_though_one_is_right(tmp_path: Path) -> None:
    change = """
    RUNS = []
    def gather(data, indices):
        RUNS.append(0)
        return data[indices] + np.float32(len(RUNS) % 2 == FIRST)
    """
    for first in (0, 1):
        state, how, reason = foreign(tmp_path, f"FIRST = {first}\n" + dedent(change))
        assert (state, how) == ("DIFF", "differs")
        assert reason == (
            f"{FOREIGN}: two runs differ, with different bytes in free memory"
        )


def test_values_of_nowhere_are_told_as_foreign_memory(tmp_path: Path) -> None:
    change = "gather = lambda data, indices: data[indices] * np.float32(77)"
    assert foreign(tmp_path, change) == (
        "DIFF",
        "values",
        "returned what may be memory that is not the model's: elements are neither in"
        " InputTensor nor zero",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "gather = lambda data, indices: data[indices] * np.float32(0)",
        "gather = lambda data, indices: data[indices - 1]",
        "gather = lambda data, indices: data[indices].astype(np.float64)",
    ],
)
def test_what_data_zeros_and_types_explain_is_not_foreign(
    tmp_path: Path, change: str
) -> None:
    state, how, _ = foreign(tmp_path, change)
    assert (state, how) == ("DIFF", "None")


def test_a_scalar_may_be_foreign() -> None:
    desc = vector_gather(4, 2, "FLOAT32")
    data = np.arange(4, dtype=np.float32)
    asked = DescriptorCase("case", desc, data, np.array([0, 1]))
    for number, how in ((3, None), (9, ForeignMemory.VALUES)):
        output = np.array(number, np.float32)
        assert foreign_memory(asked, output, output) is how


def test_data_held_in_fewer_bits_are_not_foreign() -> None:
    wide = vector_gather(4, 2, "INT64")
    data = np.array([2**40 + 5, -(2**50), 2**62, 7])
    asked = DescriptorCase("case", wide, data, np.array([0, 1]))
    for got in (data[:2].astype(np.int32).astype(np.int64), [2**31 - 1, -(2**31)]):
        output = np.array(got, np.int64)
        assert foreign_memory(asked, output, output) is None
    output = np.array([5, 123456])
    assert foreign_memory(asked, output, output) is ForeignMemory.VALUES


def test_floats_held_in_fewer_bits_are_not_foreign() -> None:
    wide = vector_gather(3, 2, "FLOAT64")
    asked = DescriptorCase("case", wide, np.array([-4e269, 0.1, 1]), np.array([0, 1]))
    largest = float(np.finfo(np.float32).max)
    for got in ([-np.inf, 0.1], [-largest, float(np.float32(0.1))]):
        output = np.array(got)
        assert foreign_memory(asked, output, output) is None
    output = np.array([-largest, 0.3])
    assert foreign_memory(asked, output, output) is ForeignMemory.VALUES


def test_an_adapter_imports_a_runtime_beside_it(tmp_path: Path) -> None:
    (tmp_path / "runtime_beside.py").write_text("VERSION = '7.1'\n", "utf-8")
    lane = lane_on(
        tmp_path, "import runtime_beside\nversion = lambda: runtime_beside.VERSION"
    )
    info = lane.start()
    lane.close()
    assert info.versions["planted"] == "7.1"


NO_ADAPTERS = """
import no_such_module
the adapter PATH needs the module no_such_module, which PYTHON does not have; --lane
planted=PYTHON names an interpreter that has it

del load
the adapter PATH does not load: AttributeError: module 'adapter' has no attribute 'load'

version = lambda: None
the adapter PATH does not load: TypeError: version() must return a text, got NoneType

name = 3
the adapter PATH does not load: TypeError: name must be a text, got int

VERSION = ''
the adapter PATH does not load: version() must return 1 to 200 printable characters, got
''

VERSION = '1.0' + chr(27) + '[31m'
the adapter PATH does not load: version() must return 1 to 200 printable characters, got
'1.0\\x1b[31m'

VERSION = '1' * 201
the adapter PATH does not load: version() must return 1 to 200 printable characters, got
'ONES'

name = 'Mine' + chr(27)
the adapter PATH does not load: name must begin with a small letter and have small
letters, digits, _, . and - alone, up to 64, got 'Mine\\x1b'

sys.exit('bye')
the adapter PATH does not load: SystemExit: bye

no python
the adapter PATH does not load: SyntaxError: invalid syntax (planted.py, line LINE)
"""


@pytest.mark.slow
def test_the_longest_version_is_one(tmp_path: Path) -> None:
    lane = lane_on(tmp_path, "VERSION = '1' * 200")
    info = lane.start()
    lane.close()
    assert (info.not_run, info.versions["planted"]) == (None, "1" * 200)


@pytest.mark.parametrize(("change", "reason"), one_quick_in(5, rows_of(NO_ADAPTERS)))
def test_a_file_that_is_no_adapter_says_why(
    tmp_path: Path, change: str, reason: str
) -> None:
    lane = lane_on(tmp_path, change)
    path = tmp_path / "planted.py"
    line = len(path.read_text("utf-8").splitlines())
    reason = reason.replace("PATH", str(path)).replace("LINE", str(line))
    reason = reason.replace("ONES", f"{'1' * 99}…{'1' * 99}")
    reason = reason.replace("which PYTHON", f"which {sys.executable}")
    assert told(lane) == [("NOT-RUN", reason)]


def test_an_unknown_lane_says_which_option_a_runtime_needs() -> None:
    assert message_of(OnnxGatherError, open_lanes, ["ncnn"]).endswith(
        "got 'ncnn'; a lane on a runtime of your own needs --adapter ncnn=FILE.py"
    )


def test_a_lane_elsewhere_without_its_adapter_says_which_option_is_missing() -> None:
    assert message_of(
        OnnxGatherError, open_lanes, ["mine"], {"mine": "mine/bin/python"}
    ).endswith(
        "got 'mine'; a lane on a runtime of your own needs --adapter mine=FILE.py"
    )
    assert message_of(
        OnnxGatherError, open_lanes, ["tracts"], {"tracts": "tract/bin/python"}
    ).endswith("got 'tracts'; did you mean \"tract\"?")


def test_a_runtime_that_is_not_installed_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (lane,) = open_lanes(["tract"])
    assert told(lane) == [
        (
            "NOT-RUN",
            "lane tract needs tract, which is not installed (no module tract); run"
            f" {sys.executable} -m pip install tract==0.23.9 numpy",
        )
    ]


@pytest.mark.parametrize("name", ["Mine", "", "a b", "x" * 65])
def test_an_adapter_has_a_name_of_small_letters(name: str) -> None:
    assert message_of(
        og.OnnxGatherError, open_lanes, [], adapters={name: "mine.py"}
    ) == (
        "the name of an adapter must begin with a small letter and have small letters,"
        f" digits, _, . and - alone, up to 64, got {name!r}"
    )


@pytest.mark.parametrize("name", ["cpu", "web-wasm", "directml-dll", "reference"])
def test_an_adapter_has_no_name_of_another_lane(name: str) -> None:
    assert message_of(
        og.OnnxGatherError, open_lanes, [], adapters={name: "mine.py"}
    ) == (f"the name of an adapter must not be that of another lane, got {name!r}")


@pytest.mark.slow
def test_an_adapter_may_have_lanes_in_several_environments(tmp_path: Path) -> None:
    adapter = planted(tmp_path)
    lanes = open_lanes(["mine@a", "mine@b"], adapters={"mine": adapter})
    assert [lane.name for lane in lanes] == ["mine@a", "mine@b"]
    assert told(lanes[0]) == [("PASS", None)]
    lanes[1].close()


PAGE = (ROOT / "docs/runtimes.md").read_text("utf-8")


def test_the_page_has_the_table_of_runtimes() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert rows[: len(OTHER_RUNTIMES)] == [row.line for row in OTHER_RUNTIMES.values()]


@pytest.mark.slow
def test_the_adapter_of_the_page_passes(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)
    path = tmp_path / "mine.py"
    path.write_text(block, "utf-8")
    (lane,) = open_lanes([], adapters={"mine": str(path)})
    assert told(lane) == [("PASS", None)]


@pytest.mark.slow
def test_the_command_takes_an_adapter_and_an_opset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(tmp_path, "def load(model, name): raise ValueError(name)")
    monkeypatch.chdir(tmp_path)
    name = "gather/float32/int64/forward"
    words = ["check", "--case", name, "--adapter", "mine=planted.py", "--opset", "13"]
    result = CliRunner().invoke(main, [*words, "--json=report.json"])
    assert result.exit_code == 1, result.output
    assert "mine: 1 case, 1 ERROR" in result.output
    report = read_report((tmp_path / "report.json").read_bytes())
    (lane,) = report.lanes
    assert (lane.provider, lane.versions["mine"], lane.opset) == ("mine", "1.2.3", 13)
    assert lane.adapter == "planted.py"  # without the folder
    (line,) = [text for text in result.output.splitlines() if "again: " in text]
    assert line.split("again: ")[1] == (
        f"onnxgather check --case {name} --lanes mine"
        f" --adapter mine={tmp_path}/planted.py --opset 13"
    )


def test_an_adapter_that_is_no_file_is_wrong_usage(tmp_path: Path) -> None:
    path = str(tmp_path / "none.py")
    words = ["check", "--corpus", "--adapter", f"mine={path}"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert result.output.splitlines()[-1] == (
        f"Error: Invalid value for '--adapter': {path!r}: no such file or directory"
    )
