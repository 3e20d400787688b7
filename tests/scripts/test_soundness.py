"""The script that checks the claims of the audit on random networks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "soundness.py"


@pytest.mark.slow
def test_it_says_what_was_drawn_and_what_was_claimed() -> None:
    command = [sys.executable, SCRIPT, "6", "--jobs", "2", "--chain", "positions"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr.count("6 of 6 networks")) == (0, 1)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("networks with each operator: ")
    assert any(line.startswith("positions: ") for line in lines)
    assert lines[-1] == "6 networks, 0 claims that do not hold"


@pytest.mark.slow
def test_it_checks_hardened_networks_too() -> None:
    command = [sys.executable, SCRIPT, "8", "--seed", "20", "--jobs", "2", "--hardened"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert any(line.startswith("Gather: ") and "rewritten" in line for line in lines)
    assert lines[-1] == "8 networks, 0 claims that do not hold"


@pytest.mark.slow
def test_it_compares_levels_alone_too() -> None:
    command = [sys.executable, SCRIPT, "8", "--seed", "20", "--jobs", "2", "--levels"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert "differences of levels that no quirk explains: 0" in lines
    assert lines[-1] == "8 networks, 0 claims that do not hold"
