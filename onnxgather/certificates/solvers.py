"""Scripts in SMT-LIB for a solver: our own are solved in this process, foreign ones in a program.

A script declares constants and functions, defines, asserts, and ends with `(check-sat)`. For terms
that it has twice it has definitions without arguments rather than `let`, as the values of an answer
are asked for in the words of the script.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from importlib import import_module
from itertools import accumulate
from typing import Any, Literal

import msgspec

from onnxgather.checks import printable, shown
from onnxgather.errors import FileFormatError, OnnxGatherError

SOLVERS = {
    "z3": "(reset)(set-option :timeout {})",
    "cvc5": "(set-option :tlimit-per {})(set-option :produce-models true)",
}
"""The modules of the solvers, in the order in which they are looked for, and what stands before a
script, with the milliseconds that it may take."""

DEEP = 250
"""The most parentheses inside one another in a foreign script."""

MEMORY = 2**32
"""The most bytes of the address space of a program that solves foreign scripts."""

SPARE = 5
"""The seconds of a processor that such a program gets for a script beyond those of its solver."""

_PROGRAM = "from onnxgather.certificates.solvers import serve_scripts; serve_scripts()"
_COMMAND = re.compile(
    r"\((set-logic|declare-const|declare-fun|define-fun|assert) [\w\s()~!@$%^&*+=<>.?/#-]+\)",
    re.ASCII,
)
_REASON = re.compile(r':reason-unknown "?([^")]+)')
_DECLARED = re.compile(r"\(declare-(?:const|fun) (\S+) (?:\(([^()]*)\) )?Int\)")
_VALUE = re.compile(r"(-?)\s*(\d+)\)+\Z")


class Solved(msgspec.Struct, frozen=True):
    """What a solver says of a script."""

    verdict: Literal["unsat", "sat", "unknown"]
    values: dict[str, int] = {}
    """If the verdict is sat: the values of the script's constants of Int by their names, and of its
    functions to Int where it applies them, by their names with values as arguments: `(i 3)`."""
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
    raise OnnxGatherError(f"a proof needs {missing} not installed: pip install onnxgather[proof]")


def solve(script: str, seconds: float, solver: str | None = None) -> Solved:
    """Solve a script of our own in this process.

    Args:
        script: The script.
        seconds: How long the solver may take.
        solver: One of `SOLVERS`; by default the first that is installed.

    Raises:
        OnnxGatherError: The solver is not installed.
        KeyboardInterrupt: The solver was interrupted.
    """
    name = installed_solver(solver)
    ask = partial(_ask, name, SOLVERS[name].format(round(seconds * 1000)) + script)
    try:
        said = ask("(get-info :reason-unknown)")
        verdict = said.partition("\n")[0]
        if verdict == "sat":
            return Solved(verdict, _values(script, ask))
    except Exception as error:  # whatever a solver raises, it proves nothing
        verdict, said = "", str(error)
    if "interrupted from keyboard" in said:
        raise KeyboardInterrupt
    if verdict == "unsat":
        return Solved(verdict)
    why = reason[1] if (reason := _REASON.search(said)) else printable(said)
    return Solved("unknown", why=f"{name}: {why}")


def solve_apart(scripts: Sequence[str], seconds: float, solver: str) -> Iterator[Solved]:
    """Solve foreign scripts in a program with limits of time and memory; no answer has values.

    A script that ends the program is unknown; another program goes on behind it.

    Args:
        scripts: The scripts, which `check_script` has checked.
        seconds: How long the solver may take for each.
        solver: One of `SOLVERS`, which is installed.
    """
    command = [sys.executable, "-P", "-c", _PROGRAM, solver, str(seconds)]
    while scripts:
        run = subprocess.run(command, input=msgspec.json.encode(scripts), capture_output=True)
        answers = [msgspec.json.decode(line, type=Solved) for line in run.stdout.splitlines()]
        if len(answers) < len(scripts):
            answers.append(
                Solved("unknown", why=f"{solver}: its program ended with code {run.returncode}")
            )
        yield from answers
        scripts = scripts[len(answers) :]


def serve_scripts() -> None:
    """Solve the scripts that `solve_apart` sends, and print the answers."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what a solver prints must not stand between the answers
    solver, seconds = installed_solver(sys.argv[1]), float(sys.argv[2])
    for script in msgspec.json.decode(sys.stdin.buffer.read(), type=list[str]):
        if sys.platform != "win32":  # which has the solver's own limit of time alone
            import resource

            most = int(time.process_time() + seconds) + SPARE
            resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
            with suppress(ValueError, OSError):  # macOS has no limit of address space
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
        answer = solve(script, seconds, solver)
        line = msgspec.json.encode(Solved(answer.verdict, why=answer.why))
        os.write(answers, line + b"\n")


def check_script(script: str) -> None:
    """Check that a foreign script can be read.

    Raises:
        FileFormatError: It has other commands than a script of ours, or too many parentheses.
    """
    deep = [*accumulate(1 if mark == "(" else -1 for mark in re.findall("[()]", script)), 0]
    if min(deep) < 0 or max(deep) > DEEP or deep[-2:][0]:
        raise FileFormatError(f"must have pairs of parentheses, at most {DEEP} in one another")
    *_, (_, commands) = _groups(script)
    for command in commands[:-1]:
        if not _COMMAND.fullmatch(command):
            raise FileFormatError(f"must be of declare, define and assert, got {shown(command)}")
    if commands[-1:] != ["(check-sat)"]:
        raise FileFormatError(f"must end with (check-sat), got {shown(' '.join(commands[-1:]))}")


def _ask(solver: str, script: str, question: str) -> str:
    """What a solver prints."""
    module = import_module(solver)
    if solver == "z3":
        context = _context(threading.get_ident())
        return module.Z3_eval_smtlib2_string(context.ref(), script + question)
    program = module.Solver(module.TermManager())
    parser = module.InputParser(program)
    parser.setStringInput(module.InputLanguage.SMT_LIB_2_6, script + question, "script")
    said = ""
    while not (command := parser.nextCommand()).isNull():
        said += command.invoke(program, parser.getSymbolManager())
    return said


@lru_cache
def _context(_: int) -> Any:
    """The context of a thread, as making one takes longer than most scripts."""
    return import_module("z3").Context()


def _values(script: str, ask: Callable[[str], str]) -> dict[str, int]:
    """The values of the constants of a script, and of its functions where it applies them."""
    declared: dict[str, str] = dict(_DECLARED.findall(script))
    inner = (parts for depth, parts in _groups(script) if depth > 1)
    calls = [parts for parts in inner if parts and declared.get(parts[0])]
    terms = [name for name, arguments in declared.items() if not arguments]
    terms += [term for parts in calls for term in (f"({' '.join(parts)})", *parts[1:])]
    *_, (_, (_, *pairs)) = _groups(ask("".join(f"(get-value ({term}))" for term in terms)))
    found = (int("".join(_VALUE.findall(pair)[0])) for pair in pairs)
    values = dict(zip(terms, found, strict=True))
    for function, *arguments in calls:
        told = " ".join(str(values[argument]) for argument in arguments)
        values[f"({function} {told})"] = values[f"({function} {' '.join(arguments)})"]
    return values


def _groups(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield what stands in parentheses, inner ones first: how deep, and its parts.

    The last is the text itself, with depth 0. The parentheses are in pairs.
    """
    starts: list[int] = []
    parts: list[list[str]] = [[]]
    for found in re.finditer(r"[()]|[^\s()]+", text):
        if found[0] == "(":
            starts.append(found.start())
            parts.append([])
        elif found[0] == ")":
            yield len(starts), parts.pop()
            parts[-1].append(text[starts.pop() : found.end()])
        else:
            parts[-1].append(found[0])
    yield 0, parts[0]
