"""Models that are audited side by side: the order, the memory, the progress, and
interruptions."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import POSIX, json_of, outcome, read_json, succeed
from onnx_graphs import INT64, constant, info, model, node

from onnxgather.auditing.output import findings
from onnxgather.auditing.output.findings import AuditReport
from onnxgather.cli import networks, processes, sources, terminal


def save(path: str, rows: int = 4, gathers: int = 1) -> str:
    nodes = [
        node("Gather", ["table", "ids"], f"y{k}", f"tokens{k}") for k in range(gathers)
    ]
    table = constant("table", np.zeros((rows, 3), np.float32))
    made = model(nodes, [info("ids", INT64, ["b", 2])], ["y0"], [table])
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(made.SerializeToString())
    return path


NO_MEMORY = "there is not enough memory, or its process was ended"


@pytest.mark.slow
def test_jobs_give_what_one_process_gives() -> None:
    for k in range(6):
        save(f"m/{k}.onnx", gathers=7 - k)
    Path("m/2b.onnx").write_bytes(b"none")
    one = outcome("audit m --json")
    assert (one[0], one[2]) == (
        2,
        (
            "Error: m/2b.onnx: must be an ONNX model, got bytes that are cut short, or"
            " no model\n"
        ),
    )
    assert [each["model"] for each in json.loads(one[1])["models"]] == [
        f"m/{k}.onnx" for k in range(6)
    ]
    assert outcome("audit m --json --jobs 2") == one


def test_a_model_that_is_named_twice_is_audited_once() -> None:
    Path("link.onnx").symlink_to(save("m/a.onnx"))
    found = json_of("audit m ./m/a.onnx m/* link.onnx --json")
    assert [each["model"] for each in found["models"]] == ["m/a.onnx", "link.onnx"]


@pytest.mark.parametrize("error", [MemoryError, BrokenExecutor])
def test_a_model_that_memory_does_not_hold_is_one_line(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = networks._audited  # pyright: ignore[reportPrivateUsage]

    def fails(*given: object) -> object:
        if given[-1] == "b.onnx":
            raise error
        return made(*given)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(networks, "_audited", fails)
    code, text, told = outcome(
        "audit", save("a.onnx"), save("b.onnx"), save("c.onnx"), "--json"
    )
    assert (code, told) == (2, f"Error: b.onnx: {NO_MEMORY}\n")
    assert [each["model"] for each in json.loads(text)["models"]] == [
        "a.onnx",
        "c.onnx",
    ]


@pytest.mark.slow
def test_a_process_that_ends_loses_its_own_model_alone() -> None:
    found = list[object]()
    models = ["1 + 1", "__import__('os')._exit(1)", "2 + 2", "3 + 3"]
    for result in processes.results(2, eval, models):
        try:
            found.append(result())
        except BrokenExecutor:
            found.append(None)
    assert found == [2, None, 4, 6]


@pytest.mark.slow
def test_no_thread_is_left_to_race_with_the_end_of_the_program() -> None:
    before = threading.enumerate()
    assert [result() for result in processes.results(2, eval, ["1 + 1", "2 + 2"])] == [
        2,
        4,
    ]
    assert threading.enumerate() == before


def test_progress_has_the_number_and_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    show = sources.Progress.show

    def slow(self: sources.Progress, text: str, share: float | None = None) -> None:
        now[0] += 15
        show(self, text, share)

    monkeypatch.setattr(sources.Progress, "show", slow)
    for k in range(4):
        save(f"m/{k}.onnx")
    error = outcome("audit m --json")[2]
    assert error == "m\n2 of 4: m/1.onnx\n4 of 4: m/3.onnx\n"


@pytest.mark.slow
@POSIX
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interruption_writes_what_there_is(jobs: int) -> None:
    save("m/0.onnx", gathers=20)
    for k in range(1, 2000):
        os.link("m/0.onnx", f"m/{k}.onnx")
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "onnxgather", "audit", "m", "--jobs", str(jobs)]
    # A shell starts what runs behind it without SIGINT, and programs inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [*command, "--json=out.json"],
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    os.close(theirs)
    error = ""
    with process:
        try:
            while not re.search(r"\b[2-9]\d* of 2,000: m/", error):
                error += os.read(ours, 1000).decode()
            # as a terminal sends it to all processes
            os.killpg(process.pid, signal.SIGINT)
            text, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    error += os.read(ours, 10_000).decode()
    os.close(ours)
    assert process.returncode == 130
    told = re.search(
        r"\r(?:\x1b\[1;31m)?Error:(?:\x1b\[0m)?"
        r" (interrupted by SIGINT after ([\d,]+) of 2,000 models)\r?\n",
        error,
    )
    assert told is not None, repr(error)
    assert "Traceback" not in error
    found = read_json("out.json")
    assert found["unusable"] == [told[1]]
    assert 0 < len(found["models"]) == int(told[2].replace(",", "")) < 2000
    assert re.search(rf"^{told[2]} models? ", text, re.MULTILINE)
    left_out = 2000 - len(found["models"])
    assert " of 2,000: a wrong input can leave an axis; " in found["verdict"]
    assert found["verdict"].endswith(f"; {left_out:,} were not audited")


@pytest.mark.slow
def test_a_folder_of_models_takes_linear_time_and_the_memory_of_one() -> None:
    pytest.importorskip("resource", reason="Windows has no such figures")
    code = """
import resource, sys, time
from onnxgather.cli import main
try:
    main(["audit", sys.argv[1], "--json=out.json"])
finally:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(peak, time.process_time(), file=sys.stderr)
"""
    peaks, seconds = list[int](), list[float]()
    for count in (1, 41, 161):
        first = save(f"m{count}/0.onnx", rows=400_000)
        for k in range(1, count):
            os.link(first, f"m{count}/{k}.onnx")
        command = [sys.executable, "-c", code, f"m{count}"]
        told = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=120
        )
        # after ten seconds it tells how far it is
        peak, taken = told.stderr.split()[-2:]
        peaks.append(int(peak))
        seconds.append(float(taken))
    assert peaks[2] < peaks[0] + 3 * 4800  # kilobytes: a model has 4,800 of them
    # 3 as it is, 14 were it quadratic
    assert seconds[2] - seconds[1] < 8 * (seconds[1] - seconds[0])


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True])
def test_the_pictures_of_a_run_are_kept_for_the_page_alone(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez("x.npz", ids=np.array([[0, 1]]))
    reports = list[AuditReport]()

    def spied(*given: Any) -> AuditReport:
        reports.append(AuditReport(*given))
        return reports[-1]

    monkeypatch.setattr(findings, "AuditReport", spied)
    more = ["--html", "a.html"] if kept else []
    succeed("audit", save("m.onnx"), "--inputs", "x.npz", *more)
    (finished,) = reports[0].models.values()
    assert [bool(picture) for picture in finished.pictures] == [True] * kept
