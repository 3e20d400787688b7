"""Mutated inputs of every kind end properly, and the harness that tries them sees a
fault."""

from __future__ import annotations

import pytest
from mutations import MIXED, examine


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count"), [(MIXED, 300), ("calls", 500), ("networks", 500)]
)
def test_mutated_inputs_end_in_an_exit_code_or_an_error(kind: str, count: int) -> None:
    assert examine(kind, range(count)) == []


FAULTS = {
    "raise KeyError(1)": "KeyError: 1",
    "with sources.Batch().step('a'): raise KeyError(2)": "KeyError: 2",
    "warnings.warn('planted')": "UserWarning: planted",
    "print('\\x1b', file=sys.stderr)": "U+001B is printed",
    "print('x' * 3000, file=sys.stderr)": "a sentence has 3000 characters",
    "bytes(2**32)": "2,147,483,648 bytes are taken",
    "b'x' * 2**27": "takes 1",
    "open('.partial', 'w').close()": "leaves ['.partial']",
    "open('/nowhere/planted', 'a').close()": "writes /nowhere/planted",
    "subprocess.run(['true'])": "a report starts {'true'}",
    "click.get_current_context().exit(4)": "exit code 4",
    "click.get_current_context().exit(2)": "exit code 2 without a sentence",
    "os.kill(os.getpid(), signal.SIGSEGV)": "SIGSEGV",
    "while True: pass": "SIGALRM",
}
"""Mistakes in Python, each with what a finding says of it."""

PRELUDE = f"""
import os, signal, subprocess, sys, warnings
import click, mutations
from onnxgather.cli import sources

def plant(**_):
    with open("../seed") as seed:
        exec({[*FAULTS]}[int(seed.read())])

mutations.COMMANDS["repro"].callback = plant
mutations.COMMANDS["report"].commands["merge"].callback = plant
mutations.SECONDS = 1
mutations.ROOM = 2**26
"""


@pytest.mark.slow
def test_a_planted_fault_is_found() -> None:
    found = examine("reports", range(len(FAULTS)), PRELUDE)
    assert [finding.seed for finding in found] == [*range(len(FAULTS))]
    for finding, cause in zip(found, FAULTS.values(), strict=True):
        assert cause in finding.cause
