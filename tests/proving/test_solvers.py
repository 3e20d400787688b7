from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pytest
from rings import quick_alone

from onnxgather.core.errors import OnnxGatherError
from onnxgather.proving import solvers
from onnxgather.proving.solvers import Solved, installed_solver, solve

NAMES = [*solvers.SOLVERS]

CLAMP = """(set-logic QF_UFLIA)
(declare-const x Int)
(declare-fun i (Int) Int)
(define-fun a () Int (ite (< x 0) 0 (ite (< x 9) x 9)))
(assert (and (< (- 20) x) (< x 20)))
(assert (and (<= (- 3) (i a)) (< (i a) (- 2))))
(assert {})
(check-sat)
"""
PROVED, REFUTED = CLAMP.format("(not (<= 0 a 9))"), CLAMP.format("(< x (- 18))")

CUBES = """(set-logic QF_NIA)
(declare-const a Int)
(declare-const b Int)
(declare-const c Int)
(assert (and (> a 1) (> b 1) (> c 1) (= (+ (* a a a) (* b b b)) (* c c c))))
(check-sat)
"""
"""Fermat's theorem for cubes, which no solver decides in seconds."""

REMAINDERS = """(declare-const x Int)
(declare-const y Int)
(assert (and (> x 2) (< x 400) (= (mod x 7) 3) (= (mod x 11) 2) (= (+ y x) (* 3 x))))
(check-sat)
"""
"""A script that z3 5.4.1 solves in 489 of its steps."""


def fewest_steps(script: str, name: str) -> int:
    """Return the fewest steps with which a new program solves a script."""
    too_few = 0
    enough = 20_000
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        solvers.end_programs()
        if solve(script, 5, name, middle).verdict == "unknown":
            too_few = middle
        else:
            enough = middle
    return enough


@pytest.mark.parametrize("name", quick_alone(["z3"], NAMES))
class TestSolve:
    def test_a_script_that_follows_is_unsat(self, name: str) -> None:
        assert solve(PROVED, 5, name) == Solved("unsat")

    def test_the_values_of_constants_come_with_sat(self, name: str) -> None:
        assert solve(REFUTED, 5, name).values == {"x": -19}

    def test_large_values_are_exact(self, name: str) -> None:
        script = (
            "(set-logic QF_LIA)(declare-const x Int)(assert (= x (* 3 {})))(check-sat)"
        )
        assert solve(script.format(10**40), 5, name).values == {"x": 3 * 10**40}

    def test_a_script_without_constants_of_int_is_sat_without_values(
        self, name: str
    ) -> None:
        script = (
            "(set-logic QF_BV)(declare-const b (_ BitVec 8))(assert (= b"
            " #x07))(check-sat)"
        )
        assert solve(script, 5, name) == Solved("sat")

    def test_time_is_limited(self, name: str) -> None:
        start = time.monotonic()
        answer = solve(CUBES, 0.3, name)
        assert answer == Solved("unknown", why=f"{name}: timeout")
        assert time.monotonic() - start < 60

    def test_steps_are_limited(self, name: str) -> None:
        why = {"z3": "z3: canceled", "cvc5": "cvc5: resourceout"}[name]
        assert solve(CUBES, 60, name, steps=10_000) == Solved("unknown", why=why)

    @pytest.mark.slow
    def test_the_steps_of_a_script_do_not_depend_on_earlier_scripts(
        self, name: str
    ) -> None:
        steps = fewest_steps(REMAINDERS, name)
        for _ in range(5):
            solve(REFUTED, 5, name)
            assert solve(REMAINDERS, 5, name, steps).verdict == "sat"
        assert solve(REMAINDERS, 5, name, steps - 1).verdict == "unknown"

    @pytest.mark.slow
    @pytest.mark.skipif(sys.platform == "win32", reason="signals")
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_does_not_wait_for_the_solver(
        self, name: str, number: int
    ) -> None:
        before = signal.signal(number, signal.default_int_handler)
        timer = threading.Timer(0.2, os.kill, [os.getpid(), number])
        try:
            solve(PROVED, 5, name)
            timer.start()
            start = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                solve(CUBES, 60, name)
            assert time.monotonic() - start < 20
        finally:
            signal.signal(number, before)
        assert solve(PROVED, 5, name) == Solved("unsat")

    def test_a_script_with_a_mistake_proves_nothing(self, name: str) -> None:
        answer = solve(
            "(set-logic QF_LIA)(assert yes)(assert false)(check-sat)", 5, name
        )
        assert answer.verdict == "unknown"
        assert answer.why.startswith(f"{name}: it cannot read the script, or fails: ")
        assert "yes" in answer.why
        assert solve(PROVED, 5, name) == Solved("unsat")

    def test_a_solver_that_is_not_installed_is_one_sentence(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(OnnxGatherError) as raised:
            solve(PROVED, 5, name)
        wheel = {"z3": "z3-solver", "cvc5": "cvc5"}[name]
        sentence = f"a proof needs {name}, which is not installed: pip install {wheel}"
        assert str(raised.value) == sentence
        other = next(other for other in NAMES if other != name)
        assert installed_solver() == other
        monkeypatch.setitem(sys.modules, other, None)
        with pytest.raises(OnnxGatherError) as raised:
            installed_solver()
        sentence = (
            "a proof needs z3 or cvc5, which are not installed: pip install z3-solver"
        )
        assert str(raised.value) == sentence


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_program_that_was_ended_while_it_waited_is_replaced() -> None:
    programs = vars(solvers)["_programs"]
    for script, verdict in ((PROVED, "unsat"), (REFUTED, "sat")):
        assert solve(script, 5, "z3").verdict == verdict
        waiting = programs["z3"]
        os.kill(waiting.pid, signal.SIGKILL)
        os.waitid(os.P_PID, waiting.pid, os.WEXITED | os.WNOWAIT)
        assert solve(script, 5, "z3").verdict == verdict
        assert programs["z3"].pid != waiting.pid
        assert waiting.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_program_that_ends_before_it_reads_proves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solvers.end_programs()
    monkeypatch.setattr(solvers, "_PROGRAM", "import os; os._exit(3)")
    # More than a pipe holds, so that the program ends before it could be sent.
    script = PROVED + ";" + "x" * 2**20 + "\n"
    answer = solve(script, 5, "z3")
    assert answer.verdict == "unknown"
    assert answer.why.startswith("z3: its program ended with code ")
    monkeypatch.undo()
    assert solve(PROVED, 5, "z3") == Solved("unsat")


def test_z3_is_taken_first() -> None:
    assert installed_solver() == "z3"


def test_threads_solve_at_the_same_time() -> None:
    answers: list[Solved] = []
    work = [
        threading.Thread(target=lambda: answers.append(solve(PROVED, 5, "z3")))
        for _ in range(8)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert answers == [Solved("unsat")] * 8


WIDE = """(set-logic QF_BV)
(declare-const x (_ BitVec 400000))
(assert (= (bvmul x x x) (bvudiv x (bvadd x x))))
(check-sat)
"""
"""Takes much memory."""

DOUBLED = (
    "(set-logic QF_UFLIA)(declare-fun g (Int Int) Int)(define-fun a0 ((x Int)) Int (g x"
    " 1)){}(assert (= (a40 3) 7))(check-sat)"
).format(
    "".join(
        f"(define-fun a{k + 1} ((x Int)) Int (g (a{k} (g x 1)) (a{k} (g x 2))))"
        for k in range(40)
    )
)
"""Means 2^40 terms, so that its reader never ends."""


class TestHostileScripts:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", NAMES)
    def test_a_bomb_costs_its_own_answer_alone(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        small = "from onnxgather.proving import solvers; "
        small += "solvers.MEMORY, solvers.SPARE = 2**30, 2; solvers.serve_scripts()"
        monkeypatch.setattr(solvers, "_PROGRAM", small)
        scripts = [PROVED, WIDE, REFUTED, DOUBLED, PROVED]
        solvers.end_programs()
        answers = [solve(script, 1, name) for script in scripts]
        solvers.end_programs()
        assert [each.verdict for each in answers] == [
            "unsat",
            "unknown",
            "sat",
            "unknown",
            "unsat",
        ]
        assert {answer.why for answer in answers[1::2]} <= {
            f"{name}: out of memory",
            f"{name}: timeout",
            f"{name}: its program ended with code {-signal.SIGXCPU}",
        }

    def test_memory_is_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        small = "from onnxgather.proving import solvers; "
        monkeypatch.setattr(
            solvers,
            "_PROGRAM",
            f"{small}solvers.MEMORY = 2**29; solvers.serve_scripts()",
        )
        solvers.end_programs()
        assert solve(WIDE, 20, "z3") == Solved("unknown", why="z3: out of memory")
        solvers.end_programs()
