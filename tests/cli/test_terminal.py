"""What goes to a terminal: progress, widths and colours."""

from __future__ import annotations

import sys

import pytest

import onnxgather as og
from onnxgather.cli import sources, terminal
from onnxgather.cli.terminal import has_colours
from onnxgather.cli.terminal import width as width_of


class _Terminal:
    """A stream that says whether it is a terminal and keeps what it is told."""

    encoding = "utf-8"

    def __init__(self, is_terminal: bool) -> None:
        self.text = ""
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None: ...


def watched(
    monkeypatch: pytest.MonkeyPatch, stdout: bool, stderr: bool
) -> tuple[_Terminal, _Terminal, list[float]]:
    """Replace the streams, each of which is a terminal or none, and the clock."""
    out, err, now = _Terminal(stdout), _Terminal(stderr), [100.0]
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    return out, err, now


class TestProgress:
    @pytest.mark.parametrize(
        ("stdout", "stderr", "seconds", "shown"),
        [
            (False, True, 2, "1 of 2: xxx\r           \r"),
            (False, True, 0.5, ""),
            (True, True, 2, ""),
            (False, False, 9, ""),
            (False, False, 10, "1 of 2: xxx\n"),
            (True, False, 10, ""),
        ],
    )
    def test_progress_shows_after_a_second_on_a_terminal_and_ten_in_a_log(
        self,
        monkeypatch: pytest.MonkeyPatch,
        stdout: bool,
        stderr: bool,
        seconds: float,
        shown: str,
    ) -> None:
        out, err, now = watched(monkeypatch, stdout, stderr)
        batch = sources.Batch()
        now[0] += seconds
        with batch.step("xxx", 1, 2):
            pass
        batch.say("done")
        assert (out.text, err.text) == ("done\n", shown)

    def test_an_error_has_a_line_of_its_own(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, err, now = watched(monkeypatch, stdout=False, stderr=True)
        batch = sources.Batch()
        now[0] += 2
        with batch.step("xxx"):
            raise og.OnnxGatherError("no")
        assert err.text == "xxx\r   \r\x1b[1;31mError:\x1b[0m no\n"
        assert batch.finish() == 2

    @pytest.mark.parametrize(
        ("seconds", "total", "told"),
        [
            (0.5, None, ["20", "80"]),
            (0.5, 100, ["20/100, 0:00:40 left", "80/100, 0:00:10 left"]),
            (0.125, 1000, ["80/1,000, 0:01:55 left", "320/1,000, 0:01:25 left"]),
            (20, 100, ["1/100", "11/100, 0:29:40 left", "22/100, 0:26:00 left"]),
            (100, 1000, ["1/1,000", "4/1,000, 1 day, 3:40:00 left"]),
        ],
    )
    def test_a_log_has_a_line_each_tenth_of_the_work_but_none_within_30_seconds(
        self,
        monkeypatch: pytest.MonkeyPatch,
        seconds: float,
        total: int | None,
        told: list[str],
    ) -> None:
        _, err, now = watched(monkeypatch, stdout=False, stderr=False)
        progress = terminal.Progress()
        for _ in range(total or 100):
            now[0] += seconds
            progress.count("Checking", total)
        lines = err.text.splitlines()
        assert lines[: len(told)] == [f"Checking {text}" for text in told]
        assert len(lines) <= max(11, seconds * (total or 100) / 300 + 1)

    def test_the_start_of_lanes_is_not_counted_as_the_time_of_cases(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, err, now = watched(monkeypatch, stdout=False, stderr=False)
        progress = terminal.Progress()
        now[0] += 20  # as Wine takes
        for _ in range(601):
            progress.count("Checking", 601)
            now[0] += 0.125
        assert (
            err.text
            == "Checking 1/601\nChecking 241/601, 0:00:45 left\nChecking 481/601,"
            " 0:00:15 left\n"
        )

    def test_a_count_tells_the_time_that_is_left(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, err, now = watched(monkeypatch, stdout=True, stderr=True)
        progress = sources.Batch(prints=False).progress
        for _ in range(1000):
            progress.count("Checking", 3000)
        assert err.text == ""
        now[0] += 40
        progress.count("Checking", 3000)
        line = "Checking 1,001/3,000, 0:01:20 left"
        assert err.text == line
        progress.show("a" * 100)
        progress.clear()
        progress.clear()
        assert err.text == f"{line}\r{' ' * len(line)}\r{'a' * 79}\r{' ' * 79}\r"

    def test_without_a_standard_error_there_is_no_progress(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, _, now = watched(monkeypatch, stdout=False, stderr=False)
        monkeypatch.setattr(sys, "stderr", None)
        progress = terminal.Progress()
        now[0] += 2
        progress.count("Checking")
        progress.clear()


class TestTable:
    """How wide and how colourful a table is."""

    @pytest.mark.parametrize(
        ("columns", "width"), [("200", 200), ("60", 60), ("20", 40), ("", 100)]
    )
    def test_width_follows_columns(
        self, monkeypatch: pytest.MonkeyPatch, columns: str, width: int
    ) -> None:
        monkeypatch.setattr(sys, "__stdout__", None)
        monkeypatch.setenv("COLUMNS", columns)
        assert width_of() == width

    @pytest.mark.parametrize(
        ("terminal", "variables", "colours"),
        [
            (False, {}, False),
            (True, {}, True),
            (True, {"NO_COLOR": ""}, True),
            (True, {"NO_COLOR": "1"}, False),
            (True, {"TERM": "dumb"}, False),
            (False, {"FORCE_COLOR": "1"}, True),
            (False, {"FORCE_COLOR": ""}, False),
            (False, {"FORCE_COLOR": "1", "TERM": "dumb"}, True),
            (True, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ],
    )
    def test_colours_follow_the_terminal_and_the_environment(
        self,
        monkeypatch: pytest.MonkeyPatch,
        terminal: bool,
        variables: dict[str, str],
        colours: bool,
    ) -> None:
        monkeypatch.setattr(sys, "stdout", _Terminal(terminal))
        monkeypatch.setenv("TERM", "xterm")
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert has_colours() == colours
