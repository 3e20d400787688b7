"""The report of onnxgather's own provider: its sums over sessions and threads, its rows
and their end."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import onnx
import pytest
from provider_models import one_gather, opened, operators_on, run_alone, run_on
from sanitize import NATIVE

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution import kernels, runtime

DATA = np.arange(3000, dtype=np.float32).reshape(1000, 3)
MODEL = "report"


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    og.provider_report(reset=True)
    yield
    gc.collect()
    og.provider_report(reset=True)


def rows(model: str = MODEL) -> list[og.GatherCounts]:
    """Return the rows of a model; a test that failed may have kept others."""
    return [row for row in og.provider_report() if row.model == model]


def gather(name: str = "g", model: str = MODEL) -> onnx.ModelProto:
    """Return a Gather of rows of any length."""
    shapes = ([1000, 3], ["n"], ["n", 3])
    return one_gather(
        "Gather", DATA, np.zeros(0, np.int64), name=name, shapes=shapes, graph=model
    )


def with_outside(count: int, outside: int) -> Array:
    """Return indices of which the last ones are out of range."""
    indices = np.arange(count) % 1000
    if outside:
        indices[-outside:] = 1000 + np.arange(outside)
    return indices


def clamped(indices: Array) -> bytes:
    return DATA[np.clip(indices, 0, 999)].tobytes()


def with_zeros(indices: Array) -> bytes:
    output = DATA[np.clip(indices, 0, 999)]
    output[indices >= 1000] = 0
    return output.tobytes()


class TestThreads:
    def test_two_sessions_of_two_policies_keep_their_counts_apart(self) -> None:
        sessions = {
            "clamp": opened(gather(), "clamp"),
            "zero": opened(gather(), "zero"),
        }
        right = {"clamp": clamped, "zero": with_zeros}

        def run_forty(thread: int) -> list[str]:
            wrong: list[str] = []
            for number in range(40):
                indices = with_outside(20 + thread, number % 5)
                for policy, session in sessions.items():
                    (output,) = run_on(session, DATA, indices)
                    if output.tobytes() != right[policy](indices):
                        wrong.append(policy)
            return wrong

        with ThreadPoolExecutor(8) as pool:
            assert [*pool.map(run_forty, range(8))] == [[]] * 8
        assert {row.policy: (row.runs, row.indices, row.outside) for row in rows()} == {
            policy: (320, 40 * sum(range(20, 28)), 8 * 8 * (0 + 1 + 2 + 3 + 4))
            for policy in sessions
        }
        assert {(row.least, row.largest) for row in rows()} == {(1000, 1003)}

    def test_a_run_that_is_cut_into_parts_counts_once(self) -> None:
        indices = np.tile(np.arange(1000), 300)
        indices[[7, 200_000]] = 1234, -1001
        session = opened(gather(), "clamp", threads=2)
        (output,) = run_on(session, DATA, indices)
        below = np.where(indices < 0, 0, indices)
        assert output.tobytes() == clamped(below)
        (row,) = rows()
        assert (row.runs, row.indices, row.outside) == (1, 300_000, 2)
        assert (row.least, row.largest, row.first) == (-1001, 1234, (7,))

    def test_resets_beside_runs_lose_and_double_no_count(self) -> None:
        """The rows of many nodes make the time long in which a reset could err."""
        session = opened(gather(), "clamp")  # its row is written first
        many = gather(model="many")
        for number in range(1000):
            node = many.graph.node.add()
            node.CopyFrom(many.graph.node[0])
            node.name = f"g{number}"
            node.output[0] = f"output{number}"
        beside = opened(many, "clamp", level=0)
        indices = with_outside(10, 2)
        met: list[og.GatherCounts] = []

        def run_many(_: int) -> None:
            for _ in range(300):
                run_on(session, DATA, indices)

        with ThreadPoolExecutor(4) as pool:
            runs = [pool.submit(run_many, number) for number in range(4)]
            while not all(run.done() for run in runs):
                met += og.provider_report(reset=True)
        met += og.provider_report(reset=True)
        mine = [row for row in met if row.model == MODEL]
        assert sum(row.runs for row in mine) == 1200
        assert sum(row.indices for row in mine) == 12_000
        assert sum(row.outside for row in mine) == 2_400
        assert len(rows("many")) == len(operators_on(beside)) == 1001


class TestRows:
    def test_a_node_that_has_not_run_has_a_row(self) -> None:
        session = opened(gather(), "zero")
        (row,) = rows()
        names = row.model, row.policy, row.operator, row.node, row.output_name
        assert names == (MODEL, "zero", "Gather", "g", "output")
        assert (row.runs, row.indices, row.outside) == (0, 0, 0)
        assert (row.least, row.largest, row.first, row.error) == (None,) * 4
        del session

    def test_sessions_of_one_model_and_policy_share_a_row(self) -> None:
        sessions = [opened(gather(), "clamp") for _ in range(3)]
        for number, session in enumerate(sessions):
            run_on(session, DATA, with_outside(10, number))
        (row,) = rows()
        assert (row.runs, row.indices, row.outside) == (3, 30, 3)
        assert (row.least, row.largest, row.first) == (1000, 1001, (9,))

    @pytest.mark.parametrize("differs", ["model", "policy", "node", "output"])
    def test_sessions_that_differ_in_a_name_have_a_row_each(self, differs: str) -> None:
        first = gather()
        second = gather()
        policy = "clamp"
        if differs == "model":
            second.graph.name = "another"
        elif differs == "policy":
            policy = "zero"
        elif differs == "node":
            second.graph.node[0].name = "another"
        else:
            second.graph.node[0].output[0] = "another"
            second.graph.output[0].name = "another"
        sessions = opened(first, "clamp"), opened(second, policy)
        for session in sessions:
            run_on(session, DATA, with_outside(10, 1))
        found = [row for row in og.provider_report() if row.model in (MODEL, "another")]
        assert [(row.runs, row.outside) for row in found] == [(1, 1), (1, 1)]

    def test_a_row_outlives_its_sessions_until_a_reset(self) -> None:
        session = opened(gather(), "clamp")
        run_on(session, DATA, with_outside(10, 1))
        del session
        gc.collect()
        assert [(row.runs, row.outside) for row in rows()] == [(1, 1)]
        again = opened(gather(), "clamp")
        run_on(again, DATA, with_outside(10, 2))
        assert [(row.runs, row.outside) for row in rows()] == [(2, 3)]
        del again
        gc.collect()
        met = og.provider_report(reset=True)
        assert [(row.runs, row.outside) for row in met if row.model == MODEL] == [
            (2, 3)
        ]
        assert rows() == []

    def test_after_a_reset_a_session_counts_from_nothing(self) -> None:
        session = opened(gather(), "clamp")
        run_on(session, DATA, with_outside(10, 3))
        og.provider_report(reset=True)
        (row,) = rows()
        assert (row.runs, row.indices, row.outside, row.first) == (0, 0, 0, None)
        run_on(session, DATA, np.array([5, -2000]))
        (row,) = rows()
        assert (row.runs, row.indices, row.outside) == (1, 2, 1)
        assert (row.least, row.largest, row.first) == (-2000, -2000, (1,))
        sentence = "Gather 'g': IndicesTensor[1] must be in [-1000, 1000), got -2000"
        assert row.error == sentence

    def test_the_first_index_out_of_range_stays(self) -> None:
        session = opened(gather(), "clamp")
        run_on(session, DATA, np.array([1, 2, 5000]))
        run_on(session, DATA, np.array([9000, 2, -5000]))
        (row,) = rows()
        assert (row.least, row.largest, row.first) == (-5000, 9000, (2,))
        sentence = "Gather 'g': IndicesTensor[2] must be in [-1000, 1000), got 5000"
        assert row.error == sentence

    def test_a_run_that_ends_with_an_error_counts(self) -> None:
        session = opened(gather(), "error")
        for _ in range(2):
            with pytest.raises(Exception, match="must be in"):
                run_on(session, DATA, with_outside(10, 2))
        run_on(session, DATA, with_outside(10, 0))
        (row,) = rows()
        assert (row.policy, row.runs, row.indices, row.outside) == ("error", 3, 30, 4)

    def test_the_least_and_the_largest_index_are_whole(self) -> None:
        limits = np.iinfo(np.int64)
        session = opened(gather(), "zero")
        run_on(session, DATA, np.array([limits.max, limits.min]))
        (row,) = rows()
        assert (row.least, row.largest) == (limits.min, limits.max)


def test_a_node_warns_once_between_two_resets_where_the_option_is_set() -> None:
    code = """
import numpy as np
import onnxruntime as ort
import onnxgather as og
from provider_models import *

data = np.arange(12, dtype=np.float32).reshape(4, 3)

def run_often(name, report):
    options = ort.SessionOptions()
    og.add_provider(options, "clamp", report)
    ids = np.array([0, 9])
    session = session_of(one_gather("Gather", data, ids, name=name), options)
    for _ in range(3):
        run_on(session, data, ids)
    og.provider_report(reset=True)
    run_on(session, data, np.array([-7, 1]))

run_often("tokens", True)
run_often("silent", False)
"""
    _, log = run_alone(code)
    first = "Gather 'tokens': IndicesTensor[1] must be in [-4, 4), got 9"
    second = "Gather 'tokens': IndicesTensor[0] must be in [-4, 4), got -7"
    assert (log.count(first), log.count(second)) == (1, 1)
    assert len(log.splitlines()) == 2


@pytest.mark.slow
def test_a_session_warns_of_a_node_that_a_silent_session_has_run_before() -> None:
    code = """
import numpy as np
import onnxgather as og
from provider_models import *

data = np.zeros((4, 3), np.float32)
ids = np.array([9])
model = one_gather("Gather", data, ids, name="tokens")
for report in (False, True, False, True):
    options = ort.SessionOptions()
    og.add_provider(options, "clamp", report)
    run_on(session_of(model, options), data, ids)
"""
    _, log = run_alone(code)
    assert log.count("Gather 'tokens': IndicesTensor[0] must be in [-4, 4), got 9") == 1
    assert len(log.splitlines()) == 1


@pytest.mark.slow
def test_a_row_stays_when_the_provider_is_unregistered() -> None:
    code = """
import gc
import numpy as np
import onnxgather as og
from provider_models import *

data = np.zeros((4, 3), np.float32)
ids = np.array([9, 1])
for _ in range(2):
    session = opened(one_gather("Gather", data, ids, name="tokens"), "clamp")
    run_on(session, data, ids)
    del session
    gc.collect()
    ort.unregister_execution_provider_library(GATHERS)
print([(row.node, row.runs, row.outside) for row in og.provider_report()])
"""
    printed, _ = run_alone(code)
    assert printed == "[('tokens', 2, 2)]\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the library sees forks on Linux")
def test_a_child_of_a_fork_can_read_a_report_that_a_thread_was_reading() -> None:
    """The rows of many nodes make a thread hold the lock nearly all the time."""
    code = """
import ctypes, os, signal, threading
import numpy as np
import onnxgather as og
from provider_models import *

data = np.zeros((4, 3), np.float32)
model = one_gather("Gather", data, np.array([0]))
for number in range(1000):
    node = model.graph.node.add()
    node.CopyFrom(model.graph.node[0])
    node.name = f"g{number}"
    node.output[0] = f"output{number}"
session = opened(model, "clamp", level=0)
report = ctypes.CDLL(og.provider_library()).onnxgather_provider_report
stopped = threading.Event()

def read_often():
    while not stopped.is_set():
        report(None, 0, 0)

reader = threading.Thread(target=read_often)
reader.start()
ends = []
for _ in range(5):
    child = os.fork()
    if not child:
        signal.alarm(20)
        report(None, 0, 0)
        os._exit(0)
    ends.append(os.waitpid(child, 0)[1])
stopped.set()
reader.join()
print(ends)
"""
    printed, _ = run_alone(code)
    assert printed == "[0, 0, 0, 0, 0]\n"


def test_the_library_s_function_cuts_the_text_and_then_resets_nothing() -> None:
    session = opened(gather(), "clamp")
    run_on(session, DATA, with_outside(10, 1))
    report: Any = ctypes.CDLL(og.provider_library()).onnxgather_provider_report
    report.restype = ctypes.c_size_t
    report.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
    needed = report(None, 0, 1)
    text = ctypes.create_string_buffer(b"\xff" * (needed + 8), needed + 8)
    assert report(text, needed - 1, 1) == needed
    assert text.raw[needed - 1 :] == b"\xff" * 9
    assert report(text, needed, 1) == needed
    assert text.raw[needed:] == b"\xff" * 8
    lines = [json.loads(line) for line in text.raw[:needed].decode().splitlines()]
    (row,) = (line for line in lines if line["model"] == MODEL)
    assert row == {
        "model": MODEL,
        "policy": "clamp",
        "operator": "Gather",
        "node": "g",
        "output_name": "output",
        "runs": 1,
        "indices": 10,
        "outside": 1,
        "least": 1000,
        "largest": 1000,
        "first": [9],
        "error": "Gather 'g': IndicesTensor[9] must be in [-1000, 1000), got 1000",
    }
    (after,) = rows()
    assert (after.runs, after.outside) == (0, 0)


@pytest.mark.slow
@pytest.mark.skipif(which("cc") is None, reason="the library is compiled by cc")
def test_behind_100_000_rows_all_nodes_share_the_row_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = str(tmp_path / "report.so")
    sources = [str(NATIVE / name) for name in ("report.c", "onnx_node.c", "check.c")]
    command = ["cc", "-std=c11", "-O2", "-shared", "-fPIC", "-pthread", "-o", library]
    subprocess.run([*command, *sources], check=True)
    loaded = ctypes.CDLL(library)
    loaded.report_row.restype = ctypes.c_void_p
    loaded.report_run.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    loaded.report_leave.argtypes = [ctypes.c_void_p]

    def row_of(node: str) -> int:
        names = (b"m", b"clamp", b"Gather", node.encode(), b"o")
        return loaded.report_row(ctypes.byref((ctypes.c_char_p * 5)(*names)))

    found = [row_of(f"n{number}") for number in range(100_000)]
    assert len({*found}) == 100_000
    others = row_of("one more")
    assert others not in found
    assert row_of("and another") == others
    assert row_of("n99999") == found[-1]
    loaded.report_run(others, 3)
    loaded.report_run(others, 4)

    read = runtime.provider_rows(library)
    assert len(read) == 100_001
    last = read[-1]
    assert (last["model"], last["node"], last["runs"]) == ("others", "others", 2)
    assert last["indices"] == 7
    monkeypatch.setattr(kernels, "operators_library", lambda: library)
    assert og.provider_report()[-1].policy == "others"
    # A reset drops the rows that no session has: then there is room for others.
    for row in found[:50_000]:
        loaded.report_leave(row)
    runtime.provider_rows(library, reset=True)
    assert len(runtime.provider_rows(library)) == 50_001
    assert row_of("one more") not in (others, *found[50_000:])


def memory() -> int:
    """Return the bytes of memory that this program has."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no /proc")
def test_many_sessions_keep_no_memory() -> None:
    model = gather().SerializeToString()

    def open_and_run(count: int) -> None:
        for _ in range(count):
            run_on(opened(model, "clamp"), DATA, with_outside(10, 1))

    open_and_run(200)
    before = memory()
    open_and_run(1200)
    assert memory() - before < 4 << 20
    (row,) = rows()
    assert (row.runs, row.outside) == (1400, 1400)
