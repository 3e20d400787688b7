"""Audits random networks and runs them on ONNX Runtime, to check what is claimed.

    python scripts/soundness.py [COUNT]

Each network has open sizes, chains of shape arithmetic as exporters write them, and
traps, where ONNX Runtime computes something else than one would think. It runs with
several draws of sizes and wild inputs, at each of ONNX Runtime's four levels of graph
optimizations. A gather that is proved must keep its indices in range; types, sizes and
bounds that the audit tells must hold. A claim that only a higher level breaks has the
kind "levels". It counts the runs where a level returns or fails otherwise than the
lowest one, and prints those that no row of tests/helpers/level_quirks.py explains.

With `--levels` nothing is audited: each network, and a form of
tests/helpers/level_forms.py for each second one, runs whole at the four levels. What no
row explains is a finding.

With `--hardened` each network is hardened instead: what comes out must be proved, must
not fail at an index, and must have the outputs of the network where this does not fail.

Where ONNX Runtime ends the whole program, the operator that does so is searched for. An
operator with indices, or none, is a claim that does not hold; another is counted. So is
a model that cannot be opened, if the audit proves nothing of it.

It prints what was drawn, and each claim that does not hold. The networks of those are
kept as SEED.onnx with SEED.npz in the folder that `--save` names.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

SOUND = 0
UNSOUND = 1

AUDIT, HARDENED, LEVELS = "audit", "hardened", "levels"
"""Whose claims are checked: of the audit, of harden, or of each level, that it does
what the lowest one does."""

DOCUMENTED = 60_000
"""The number of networks of the full figure."""

MEMORY = 8 << 30
"""The bytes of address space that a program has that checks networks."""


def rows(
    seeds: range, save: str, trap: str = "", chain: str = "", claims: str = AUDIT
) -> Iterator[dict[str, Any]]:
    """Check the network of each seed; yield what was counted.

    Args:
        seeds: The seeds.
        save: The folder for networks of which a claim does not hold; "" for none.
        trap: A trap that each network has; "" for none.
        chain: A chain that each network has; "" for none.
        claims: Those of the audit, those of harden, or none: levels are compared.
    """
    import numpy as np
    from audit_claims import check
    from hardened_claims import check_hardened
    from level_claims import check_levels
    from random_networks import graph

    checks = {AUDIT: check, HARDENED: check_hardened, LEVELS: check_levels}
    check_claims = checks[claims]
    for seed in seeds:
        made = graph(seed, trap, chain)
        found = check_claims(made, Random(seed))
        if found.violations and save:
            path = Path(save, f"{seed}.onnx")
            path.parent.mkdir(parents=True, exist_ok=True)
            first = found.violations[0]["output"]
            known = {name for node in made.draft.nodes for name in node.output}
            part = made.part([first]) if first in known else made.model
            path.write_bytes(part.SerializeToString())
            feeds: dict[str, Any] = {**found.feeds}
            np.savez(path.with_suffix(".npz"), **feeds)
        yield {
            "states": found.states,
            "operators": found.operators,
            "runs": found.runs,
            "differing": [{"seed": seed, "level": text} for text in found.differing],
            "violations": [{"seed": seed, **each} for each in found.violations],
        }


class Tally:
    """What all networks together had."""

    def __init__(self, count: int) -> None:
        self.count, self.done, self.differing = count, 0, 0
        names = "states", "operators", "runs", "ended"
        self.counts = {name: Counter[str]() for name in names}
        self.violations = list[dict[str, Any]]()
        self.started = time.monotonic()
        self._lock = threading.Lock()

    def add(self, row: dict[str, Any]) -> None:
        """Add what one network had."""
        with self._lock:
            self.done += 1
            for name, counts in self.counts.items():
                counts.update(row.get(name, {}))
            for differing in row.get("differing", ()):
                self.differing += 1
                print(json.dumps(differing), flush=True)
            for violation in row.get("violations", ()):
                self.violations.append(violation)
                print(json.dumps(violation), flush=True)
            if self.done % 1000 == 0 or self.done == self.count:
                seconds = time.monotonic() - self.started
                text = f"{self.done:,} of {self.count:,} networks, {seconds:.0f} s, "
                text += f"{len(self.violations)} claims that do not hold"
                print(text, file=sys.stderr, flush=True)

    def summary(self) -> Iterator[str]:
        """Yield the lines that say what was drawn and what was claimed."""
        from onnxgather.auditing.operators.output_bounds import TRANSFERS

        by_chain, by_state = dict[str, Counter[str]](), Counter[str]()
        for key, count in self.counts["states"].items():
            chain, _, state = key.partition(" ")
            by_chain.setdefault(chain, Counter())[state] += count
            by_state[state] += count
        operators = self.counts["operators"]
        drawn = [f"{name} {count:,}" for name, count in operators.most_common()]
        yield f"networks with each operator: {', '.join(drawn)}"
        for chain in sorted(by_chain):
            states = [f"{c:,} {s}" for s, c in sorted(by_chain[chain].items())]
            yield f"{chain}: {', '.join(states)}"
        yield f"runs: {dict(self.counts['runs'])}"
        ended = dict(self.counts["ended"])
        yield f"programs that ONNX Runtime ended, by operator: {ended}"
        yield f"differences of levels that no quirk explains: {self.differing:,}"
        kinds = Counter(each.get("kind", "") for each in self.violations)
        if kinds:
            yield f"kinds of claims that do not hold: {dict(kinds)}"
        yield f"gathers: {sum(by_state.values()):,}: {dict(by_state)}"
        missing = sorted(TRANSFERS.keys() - operators.keys())
        yield (
            "operators of the audit that were never drawn:"
            f" {', '.join(missing) or 'none'}"
        )
        yield f"{self.done:,} networks, {len(self.violations)} claims that do not hold"


def worker(
    python: str, first: int, last: int, step: int, more: list[str], tally: Tally
) -> None:
    """Check seeds in another process; where it dies, note a finding and start anew."""
    while first < last:
        seeds = f"{first}:{last}:{step}"
        command = [python, __file__, "--worker", seeds, *more]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                # ONNX Runtime's own code may print, too.
                if not line.startswith("{"):
                    print(line, end="", file=sys.stderr)
                    continue
                row = json.loads(line)
                if "states" in row:
                    tally.add(row)
                    first += step
        if first < last:
            tally.add(_ended_row(python, first, more, process.returncode))
            first += step


def _ended_row(
    python: str, seed: int, more: Sequence[str], return_code: int
) -> dict[str, Any]:
    """Return what is counted of a network that ends the program which checks it."""
    from ended_runs import ending_operator, proves_nothing, was_opening

    from onnxgather.auditing.operators.index_operators import INDEX_OPERATORS

    operator = ""
    with tempfile.TemporaryDirectory() as folder:
        command = [python, __file__, "--worker", f"{seed}:{seed + 1}:1", *more]
        environment = {**os.environ, "ONNXGATHER_KEPT_RUN": folder}
        again = subprocess.run(
            command, env=environment, capture_output=True, check=False
        )
        if again.returncode < 0:
            kept = Path(folder)
            operator = ending_operator(python, kept)
            # ONNX Runtime runs the model at no level, so nothing of it may be proved.
            if was_opening(kept) and proves_nothing(python, kept):
                return {"ended": {f"{operator} as the model was opened": 1}}
    with_indices = {name for _, name in INDEX_OPERATORS}
    if operator and operator not in with_indices:
        return {"ended": {operator: 1}}
    claim = f"the program ends with {return_code}, at {operator or 'no node alone'}"
    return {"violations": [{"seed": seed, "claim": claim}]}


def main() -> int:
    """Check random networks in processes of some interpreters."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("count", nargs="?", type=int, default=DOCUMENTED, metavar="COUNT")
    add("--seed", type=int, default=0, help="the first network's")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    text = "an environment, perhaps with another ONNX Runtime; several take turns"
    add("--python", action="append", metavar="PYTHON", help=text)
    add("--save", default="", metavar="FOLDER")
    add("--trap", default="", help="each network has this trap")
    add("--chain", default="", help="each network has this chain")
    constant = partial(add, dest="claims", action="store_const")
    constant("--hardened", const=HARDENED, help="check the claims of harden")
    constant("--levels", const=LEVELS, help="compare the levels alone")
    parser.set_defaults(claims=AUDIT)
    add("--claims", help=argparse.SUPPRESS)
    add("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        # A network may ask for more memory than there is: its run is to fail, not the
        # program.
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        seeds = range(*map(int, options.worker.split(":")))
        for row in rows(
            seeds, options.save, options.trap, options.chain, options.claims
        ):
            print(json.dumps(row), flush=True)
        return SOUND
    tally = Tally(options.count)
    pythons = options.python or [sys.executable]
    more = ["--save", options.save, "--trap", options.trap, "--chain", options.chain]
    more += ["--claims", options.claims]
    threads = list[threading.Thread]()
    for job in range(options.jobs):
        python = pythons[job % len(pythons)]
        last = options.seed + options.count
        args = (python, options.seed + job, last, options.jobs, more, tally)
        threads.append(threading.Thread(target=worker, args=args))
        threads[-1].start()
    for thread in threads:
        thread.join()
    print(*tally.summary(), sep="\n")
    return UNSOUND if tally.violations else SOUND


if __name__ == "__main__":
    sys.exit(main())
