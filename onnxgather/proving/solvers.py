"""Scripts in SMT-LIB for a solver, which works in a program of its own, with limits.

A script declares constants and functions, defines, asserts, and ends with
`(check-sat)`, one command in a line. For terms that it has twice it has definitions
without arguments.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from itertools import accumulate
from threading import Lock, Thread
from typing import Any, Literal

import msgspec

from onnxgather.core.checks import printable, shown
from onnxgather.core.errors import FileFormatError, OnnxGatherError

SOLVERS = {
    "z3": "(reset)(set-option :timeout {})(set-option :rlimit {})",
    "cvc5": (
        "(set-option :tlimit-per {})(set-option :rlimit-per {})"
        "(set-option :produce-models true)"
    ),
}
"""The modules of the solvers, in the order in which they are looked for, and what
stands before a script, with the milliseconds that it may take, and the steps; 0 is any
number."""

DEEP = 250
"""The most parentheses inside one another in a foreign script."""

MEMORY = 2**32
"""The most bytes of the address space of a program that solves scripts."""

SPARE = 5
"""The seconds of a processor that such a program gets for a script beyond those of its
solver."""

_PROGRAM = "from onnxgather.proving.solvers import serve_scripts; serve_scripts()"
_COMMAND = re.compile(
    r"\((set-logic|declare-const|declare-fun|define-fun|assert)"
    r" [\w\s()~!@$%^&*+=<>.?/#-]+\)",
    re.ASCII,
)
_REASON = re.compile(r'\(:reason-unknown "?([^")]+)')
_DECLARED = re.compile(r"\(declare-const (\S+) Int\)")
_VALUE = re.compile(r"\(\((\S+) (?:(\d+)|\(- (\d+)\))\)\)")

_lock = Lock()
_programs = dict[str, subprocess.Popen[bytes]]()
"""The program of each solver that waits for a script."""


class Solved(msgspec.Struct, frozen=True):
    """What a solver says of a script."""

    verdict: Literal["unsat", "sat", "unknown"]
    values: dict[str, int] = {}
    """If the verdict is sat: the values of the script's constants of Int by their
    names."""
    why: str = ""
    """If the verdict is unknown: what stopped the solver."""


def installed_solver(asked: str | None = None) -> str:
    """The solver that is asked for, else the first of `SOLVERS` that is installed.

    Raises:
        OnnxGatherError: It is not installed.
    """
    for name in SOLVERS:
        with suppress(ImportError):
            if asked in (None, name):
                import_module(name)
                return name
    missing = f"{asked}, which is" if asked else "z3 or cvc5, which are"
    wheel = "cvc5" if asked == "cvc5" else "z3-solver"
    raise OnnxGatherError(f"a proof needs {missing} not installed: pip install {wheel}")


def solve(
    script: str, seconds: float, solver: str | None = None, steps: int = 0
) -> Solved:
    """Solve a script; a foreign one must pass `check_script`.

    A script that ends the solver's program is unknown; the next one is solved by
    another program.

    Args:
        script: The script.
        seconds: How long the solver may take.
        solver: One of `SOLVERS`; by default the first that is installed.
        steps: How many of its own steps the solver may take, so that it stops at the same place on
            each machine; 0 is any number.

    Raises:
        OnnxGatherError: The solver is not installed.
    """
    name = installed_solver(solver)
    with _lock:
        program = _programs.pop(name, None) or _started(name)
        assert program.stdin
        assert program.stdout
        try:
            with suppress(BrokenPipeError):
                program.stdin.write(
                    msgspec.json.encode([script, seconds, steps]) + b"\n"
                )
                program.stdin.flush()
            line = program.stdout.readline()
        except BaseException:  # a signal, which does not wait for the solver
            _end(program)
            raise
        if line:
            _programs[name] = program
            return msgspec.json.decode(line, type=Solved)
        return Solved(
            "unknown", why=f"{name}: its program ended with code {_end(program)}"
        )


_proved = set[tuple[str, str | None]]()


def solved(script: str, seconds: float, solver: str | None = None) -> Solved:
    """As `solve`, for a script of ours; what is proved is kept."""
    if (script, solver) in _proved:
        return Solved("unsat")
    if seconds <= 0:
        return Solved("unknown", why="the time is up")
    answer = solve(script, seconds, solver)
    if answer.verdict == "unsat":
        _proved.add((script, solver))
    return answer


def _started(solver: str) -> subprocess.Popen[bytes]:
    command, pipe = [sys.executable, "-P", "-c", _PROGRAM, solver], subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)


def _end(program: subprocess.Popen[bytes]) -> int:
    program.kill()
    with program:  # closes its pipes
        return program.wait()


@atexit.register
def end_programs() -> None:
    """End the programs that wait for scripts."""
    while _programs:
        _end(_programs.popitem()[1])


def serve_scripts() -> None:
    """Solve the scripts that `solve` sends, and print the answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the caller
    Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    answers = os.dup(1)
    os.dup2(2, 1)  # what a solver prints must not stand between the answers
    for line in sys.stdin.buffer:
        script, seconds, steps = msgspec.json.decode(line, type=tuple[str, float, int])
        if sys.platform != "win32":  # which has the solver's own limit of time alone
            import resource

            most = int(time.process_time() + seconds) + SPARE
            resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
            with suppress(ValueError, OSError):  # macOS has no limit of address space
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
        answer = _solved(sys.argv[1], script, seconds, steps)
        os.write(answers, msgspec.json.encode(answer) + b"\n")


def _solved(solver: str, script: str, seconds: float, steps: int) -> Solved:
    limits = SOLVERS[solver].format(round(seconds * 1000), steps)
    questions = "".join(f"(get-value ({name}))" for name in _DECLARED.findall(script))
    said = ""
    try:
        session = _session(solver)
        said = session(f"{limits}{script}(get-info :reason-unknown)")
        verdict = said.partition("\n")[0]
        if verdict == "sat":
            found = _VALUE.findall(session(questions)) if questions else []
            return Solved(
                verdict, {name: int(high or f"-{low}") for name, high, low in found}
            )
        if verdict == "unsat":
            return Solved(verdict)
    except Exception as error:  # whatever a solver raises, it proves nothing
        said = str(error)
    reason = _REASON.search(said)
    why = (
        reason[1]
        if reason
        else f"it cannot read the script, or fails: {printable(said)}"
    )
    return Solved("unknown", why=f"{solver}: {why}")


def _end_with(caller: int) -> None:
    """End this program when the one that started it has ended, as a solver may be at work."""
    while os.getppid() == caller:
        time.sleep(1)
    os._exit(1)


def _session(solver: str) -> Callable[[str], str]:
    """What runs commands one after another, and gives what the solver prints."""
    module = import_module(solver)
    if solver == "z3":
        return partial(module.Z3_eval_smtlib2_string, _context().ref())
    program = module.Solver(module.TermManager())
    parser = module.InputParser(program)
    parser.setIncrementalStringInput(module.InputLanguage.SMT_LIB_2_6, "script")

    def session(commands: str) -> str:
        parser.appendIncrementalStringInput(commands)
        said = ""
        while not (command := parser.nextCommand()).isNull():
            said += command.invoke(program, parser.getSymbolManager())
        return said

    return session


@cache
def _context() -> Any:
    """The context of z3, as making one takes longer than most scripts."""
    return import_module("z3").Context()


def check_script(script: str) -> None:
    """Check that a foreign script can be read.

    Raises:
        FileFormatError: It has other commands than a script of ours, or too many parentheses.
    """
    *lines, last = script.splitlines() or [""]
    for line in lines:
        if not _COMMAND.fullmatch(line):
            rule = "must have a command to declare, define or assert in each line"
            raise FileFormatError(f"{rule}, got {shown(line)}")
        deep = [
            *accumulate(1 if mark == "(" else -1 for mark in re.findall("[()]", line))
        ]
        if min(deep[:-1]) < 1 or max(deep) > DEEP or deep[-1]:
            raise FileFormatError(
                f"must have pairs of parentheses, at most {DEEP} in one another"
            )
    if last != "(check-sat)":
        raise FileFormatError(f"must end with (check-sat), got {shown(last)}")
