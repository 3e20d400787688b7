"""A check that a signal interrupts: it loses nothing and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from command_line import (
    POSIX,
    files,
    outcome,
    program,
    read_bytes,
    read_json,
    read_text,
    write_text,
)
from rings import one_quick_in

from onnxgather.checking import lanes, report, run
from onnxgather.checking.cases import Case
from onnxgather.checking.corpus import random_names
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.checking.results import read_report
from onnxgather.cli.sources import Batch

pytestmark = POSIX


@dataclass
class Slow:
    """A lane that takes a little time for everything."""

    name: str
    seconds: float = 0.001
    asked: list[str] = field(default_factory=list[str])
    closed: threading.Event = field(default_factory=threading.Event)

    def start(self) -> LaneInfo:
        self.closed.wait(0.02)
        return LaneInfo(self.name, "StubExecutionProvider", {"onnxruntime": "1.24.4"})

    def answer(self, case: Case) -> Answer:
        self.asked.append(case.name)
        if self.closed.wait(self.seconds):
            return Answer(AnswerKind.BROKEN, "closed")
        expected = case.expected()
        if isinstance(expected, str):
            return Answer(AnswerKind.NOT_RUN, "refused")
        return Answer(AnswerKind.RAN, nodes=("Gather",), output=expected)

    def close(self) -> None:
        self.closed.set()


class Hanging(Slow):
    """A lane that is asked, and then a signal comes before it answers."""

    def answer(self, case: Case) -> Answer:
        self.seconds = 600
        os.kill(os.getpid(), signal.SIGTERM)
        return super().answer(case)


@pytest.fixture
def late() -> Iterator[list[int]]:
    """Signals that come when the command has ended."""
    found: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [
        signal.signal(number, lambda number, _: found.append(number))
        for number in numbers
    ]
    yield found
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def opened(monkeypatch: pytest.MonkeyPatch, *stubs: Slow) -> None:
    def open_lanes(*_: object) -> list[Slow]:
        return [*stubs]

    monkeypatch.setattr(lanes, "open_lanes", open_lanes)
    # Else run would keep the stub, if it is imported while the stub is there.
    monkeypatch.setattr(run, "open_lanes", open_lanes)


REPORTS = "--json=r.json --junit=r.xml --html=r.html"
TOLD = [f"written: r.{ending}\n" for ending in ("json", "xml", "html")]
COUNT = 60


@pytest.mark.parametrize("moment", one_quick_in(20, range(20)))
def test_a_signal_at_any_moment_loses_no_finished_case(
    monkeypatch: pytest.MonkeyPatch, late: list[int], moment: int
) -> None:
    number = (signal.SIGINT, signal.SIGTERM)[moment % 2]
    stubs = [Slow("a"), Slow("b", 0.002)]
    opened(monkeypatch, *stubs)
    finished: list[set[str]] = []

    def send() -> None:
        # A lane is asked the next case when the last one is judged.
        finished.extend(set(stub.asked[:-1]) for stub in stubs)
        os.kill(os.getpid(), number)

    timer = threading.Timer(moment * 0.012, send)
    timer.start()
    code, out, err = outcome(f"check --random {COUNT} {REPORTS}")
    timer.join()
    time.sleep(0.01)
    assert code == (0 if late else 128 + number)
    if not Path("r.json").exists():  # the signal came before a lane was opened
        assert (files(), err, [stub.asked for stub in stubs]) == ([], "", [[], []])
        return
    assert err == "".join(TOLD)
    found = read_report(read_bytes("r.json"))
    names = [case.name for case in found.cases]
    every = list(random_names(COUNT, 0))
    assert names == [name for name in every if name in names]
    if late:
        assert names == every
    else:
        assert finished[0] & finished[1] <= {*names}
        assert all(
            result.kind != "broken" for case in found.cases for result in case.results
        )
    if found.interrupted is not None:
        assert found.interrupted == signal.Signals(number).name
        said = f"interrupted by {found.interrupted} after {len(names)} of "
        said += f"{found.planned} case{'s' if found.planned != 1 else ''}"
        assert f"({said})" in " ".join(out.split())
        errors = [str(error.text) for error in ElementTree.parse("r.xml").iter("error")]
        assert said in errors
        assert said in read_text("r.html")
    assert all(stub.closed.is_set() for stub in stubs)
    assert files() == ["r.html", "r.json", "r.xml"]


def test_a_signal_does_not_wait_for_a_lane_that_hangs(
    monkeypatch: pytest.MonkeyPatch, late: list[int]
) -> None:
    opened(monkeypatch, Slow("a"), Hanging("b"))
    start = time.monotonic()
    assert outcome(f"check --random {10**18} {REPORTS}")[0] == 143
    assert time.monotonic() - start < 60
    found = read_report(read_bytes("r.json"))
    assert (found.cases, found.planned, late) == ([], 10**18, [])


def test_a_signal_while_programs_are_read_is_in_the_report(
    monkeypatch: pytest.MonkeyPatch, late: list[int]
) -> None:
    program("x.json")
    opened(monkeypatch, Slow("a"))

    def read(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Batch, "read", read)
    assert outcome("check . --json=r.json")[0] == 143
    found = read_json("r.json")
    assert (found["interrupted"], found["lanes"], found["cases"]) == ("SIGTERM", [], [])


@pytest.mark.parametrize(("signals", "written"), [(1, True), (2, False)])
def test_the_second_signal_ends_the_writing(
    monkeypatch: pytest.MonkeyPatch, late: list[int], signals: int, written: bool
) -> None:
    opened(monkeypatch, Slow("a"))
    original = report.html

    def html(found: Any) -> bytes:
        for _ in range(signals):
            signal.raise_signal(signal.SIGTERM)
        return original(found)

    monkeypatch.setattr(report, "html", html)
    write_text("r.html", "earlier")
    code, out, err = outcome(f"check --random 3 {REPORTS}")
    told = TOLD if written else TOLD[:-1]
    assert (code, err, bool(out)) == (143, "".join(told), written)
    assert files() == ["r.html", "r.json", "r.xml"]
    assert len(read_report(read_bytes("r.json")).cases) == 3
    assert (read_text("r.html") != "earlier") is written


@pytest.mark.skipif(
    not os.path.exists("/proc/self/task"), reason="looks for children in /proc"
)
@pytest.mark.slow
def test_a_real_worker_ends_with_its_check() -> None:
    command = [sys.executable, "-m", "onnxgather", "check", "--random", "1000000"]
    with subprocess.Popen([*command, "--json=r.json"], stdout=subprocess.PIPE) as child:
        workers = _after(lambda: _children(child.pid))
        time.sleep(0.5)
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate(timeout=30)
    assert child.returncode == 143
    found = read_report(read_bytes("r.json"))
    assert b"(interrupted by SIGTERM after " in b" ".join(out.split())
    assert (found.interrupted, found.planned) == ("SIGTERM", 1000000)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def _children(pid: int) -> list[int]:
    text = "".join(
        path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")
    )
    return [*map(int, text.split())]


def _after(found: Callable[[], list[int]]) -> list[int]:
    """Wait until something is found."""
    for _ in range(600):
        if pids := found():
            return pids
        time.sleep(0.05)
    raise TimeoutError
