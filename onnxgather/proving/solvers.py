"""Scripts in SMT-LIB for a solver, which runs in a program of its own, with limits.

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
from importlib import import_module
from importlib.util import find_spec
from threading import TIMEOUT_MAX, Lock, Thread, Timer
from typing import Literal

import msgspec

from onnxgather.core.checks import printable
from onnxgather.core.errors import OnnxGatherError, pass_foreign

SOLVERS = {
    "z3": "(set-option :timeout {})(set-option :rlimit {})",
    "cvc5": (
        "(set-option :tlimit-per {})(set-option :rlimit-per {})"
        "(set-option :produce-models true)"
    ),
}
"""The modules of the solvers, in the order in which they are looked for, and what
stands before a script, with the milliseconds that it may take, and the steps; 0 is any
number."""

MEMORY = 2**32
"""The most bytes of the address space of a program that solves scripts."""

SPARE = 5
"""The seconds of a processor that such a program gets for a script beyond those of its
solver."""

OVERTIME = 30
"""The seconds after the time of a script at which a program without an answer is ended.
Such a program has a broken solver, or a machine that starts it slowly."""

TIME_IS_UP = "the time is up"
"""Why a script is unknown for which no time is left."""

TIMEOUT = "timeout"
"""The end of the reason of a script that its solver had no time for."""

NO_SOLVER = "a proof needs z3 or cvc5, which are not installed: pip install z3-solver"
"""Why a script is unknown where no solver is installed."""

_PROGRAM = "from onnxgather.proving.solvers import serve_scripts; serve_scripts()"
_REASON = re.compile(r'\(:reason-unknown "?([^")]+)')
_DECLARED = re.compile(r"\(declare-const (\S+) Int\)")
_VALUE = re.compile(r"\(\((\S+) (?:(\d+)|\(- (\d+)\))\)\)")

_lock = Lock()
_programs = dict[str, subprocess.Popen[bytes]]()
"""The program of each solver that waits for a script."""


class NoSolverError(OnnxGatherError):
    """A solver is not installed."""


class Solved(msgspec.Struct, frozen=True):
    """What a solver says of a script."""

    verdict: Literal["unsat", "sat", "unknown"]
    values: dict[str, int] = {}
    """If the verdict is sat: the values of the script's constants of Int by their
    names."""
    why: str = ""
    """If the verdict is unknown: what stopped the solver."""


def installed_solver(name: str | None = None) -> str:
    """Return the name of a solver that is installed, by default the first of `SOLVERS`.

    Raises:
        NoSolverError: It is not installed.
    """
    for solver in SOLVERS:
        if name not in (None, solver):
            continue
        # A solver is not imported here: only its program needs it, and it may be
        # broken.
        if find_spec(solver) is not None:
            return solver
    if name is None:
        raise NoSolverError(NO_SOLVER)
    wheel = "cvc5" if name == "cvc5" else "z3-solver"
    rule = f"a proof needs {name}, which is not installed"
    raise NoSolverError(f"{rule}: pip install {wheel}")


def solve(
    script: str, seconds: float, solver: str | None = None, steps: int = 0
) -> Solved:
    """Solve a script.

    A script that ends the solver's program is unknown; the next one is solved by
    another program.

    Args:
        script: The script.
        seconds: How long the solver may take.
        solver: One of `SOLVERS`; by default the first that is installed.
        steps: How many of its own steps the solver may take, so that it stops at the
            same place on each machine; 0 is any number.

    Raises:
        NoSolverError: The solver is not installed.
    """
    name = installed_solver(solver)
    request = msgspec.json.encode([script, seconds, steps])
    line = None
    with _lock:
        program = _programs.pop(name, None)
        if program is not None:
            line = _answer(program, request, seconds)
        # Case: no program waited, or it was ended while it waited.
        if program is None or line is None:
            program = _started(name)
            line = _answer(program, request, seconds)
        if line:
            _programs[name] = program
            return msgspec.json.decode(line, type=Solved)
        code = _end(program)
        return Solved("unknown", why=f"{name}: its program ended with code {code}")


def _answer(
    program: subprocess.Popen[bytes], request: bytes, seconds: float
) -> bytes | None:
    """Return what a program answers to a script, as a line.

    The line is empty if the script ended the program, or had no answer in time. None if
    the program had ended before; its end is then complete.
    """
    assert program.stdin
    assert program.stdout
    limit = Timer(min(seconds, TIMEOUT_MAX - OVERTIME) + OVERTIME, program.kill)
    limit.daemon = True
    limit.start()
    try:
        try:
            program.stdin.write(request + b"\n")
            program.stdin.flush()
        except OSError as error:
            pass_foreign(error)
            _end(program)
            return None
        line = program.stdout.readline()
    except BaseException:  # a signal, which does not wait for the solver
        _end(program)
        raise
    finally:
        limit.cancel()
    # Case: the program was ended while it wrote.
    if not line.endswith(b"\n"):
        return b""
    return line


_proved = set[tuple[str, str | None]]()


def solved(script: str, seconds: float, solver: str | None = None) -> Solved:
    """Solve a script of ours as `solve` does; what is proved is kept.

    Without a solver it is unknown.
    """
    if (script, solver) in _proved:
        return Solved("unsat")
    if seconds <= 0:
        return Solved("unknown", why=TIME_IS_UP)
    try:
        answer = solve(script, seconds, solver)
    except NoSolverError as error:
        return Solved("unknown", why=str(error))
    if answer.verdict == "unsat":
        _proved.add((script, solver))
    return answer


def _started(solver: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-c", _PROGRAM, solver]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _end(program: subprocess.Popen[bytes]) -> int:
    """End a program, and return its exit code."""
    program.kill()
    try:
        with program:  # closes its pipes
            pass
    except OSError as error:
        pass_foreign(error)  # else it has not read a request, which cannot be flushed
    return program.wait()


@atexit.register
def end_programs() -> None:
    """End the programs that wait for scripts."""
    while _programs:
        _, program = _programs.popitem()
        _end(program)


def serve_scripts() -> None:
    """Solve the scripts that `solve` sends, and print the answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the caller
    Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    answers = os.dup(1)
    os.dup2(2, 1)  # what a solver prints must not stand between the answers
    for line in sys.stdin.buffer:
        script, seconds, steps = msgspec.json.decode(line, type=tuple[str, float, int])
        _limit_resources(seconds)
        answer = _solved(sys.argv[1], script, seconds, steps)
        os.write(answers, msgspec.json.encode(answer) + b"\n")


def _limit_resources(seconds: float) -> None:
    """Limit the memory of this program, and its time for the next script."""
    if sys.platform == "win32":  # which has the solver's own limit of time alone
        return
    import resource

    latest = int(time.process_time() + seconds) + SPARE
    resource.setrlimit(resource.RLIMIT_CPU, (latest, resource.RLIM_INFINITY))
    with suppress(ValueError, OSError):  # macOS has no limit of address space
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))


def _solved(solver: str, script: str, seconds: float, steps: int) -> Solved:
    """Solve a script in this program."""
    limits = SOLVERS[solver].format(round(seconds * 1000), steps)
    output = ""
    try:
        session = _session(solver)
        output = session(f"{limits}{script}(get-info :reason-unknown)")
        verdict, _, _ = output.partition("\n")
        if verdict == "unsat":
            return Solved(verdict)
        if verdict == "sat":
            return Solved(verdict, _values(session, script))
    except Exception as error:  # whatever a solver raises, it proves nothing
        output = str(error)
    why = f"it cannot read the script, or fails: {printable(output)}"
    reason = _REASON.search(output)
    if reason:
        why = reason[1]
    return Solved("unknown", why=f"{solver}: {why}")


def _values(session: Callable[[str], str], script: str) -> dict[str, int]:
    """Return the solver's values of the constants of a script."""
    names = _DECLARED.findall(script)
    if not names:
        return {}
    questions = [f"(get-value ({name}))" for name in names]
    values: dict[str, int] = {}
    for name, positive, negative in _VALUE.findall(session("".join(questions))):
        values[name] = int(positive) if positive else -int(negative)
    return values


def _end_with(caller: int) -> None:
    """End this program when the program that started it has ended.

    A solver may be at work then.
    """
    while os.getppid() == caller:
        time.sleep(1)
    os._exit(1)


def _session(solver: str) -> Callable[[str], str]:
    """Return a function that runs commands, and returns what the solver prints."""
    module = import_module(solver)
    if solver == "z3":
        # Each script has a context of its own. What a context keeps of earlier scripts
        # changes the search: a script then takes 0.1 s, or its whole time.
        context = module.Context()
        return lambda commands: module.Z3_eval_smtlib2_string(context.ref(), commands)
    program = module.Solver(module.TermManager())
    parser = module.InputParser(program)
    parser.setIncrementalStringInput(module.InputLanguage.SMT_LIB_2_6, "script")

    def session(commands: str) -> str:
        parser.appendIncrementalStringInput(commands)
        output = ""
        command = parser.nextCommand()
        while not command.isNull():
            output += command.invoke(program, parser.getSymbolManager())
            command = parser.nextCommand()
        return output

    return session
