"""Asks onnxgather and DirectML.dll which random descriptors are valid.

Half of them break one rule each, in turn. The other half are changed at random, and
many of those are valid. For each rule, prints how many of the descriptors that
onnxgather refuses by it DirectML refuses as well, accepts, or crashes on; then why
onnxgather refuses what DirectML accepts.

Exit code 1 if onnxgather accepts a descriptor that DirectML refuses or crashes on, or
if DirectML accepts one that breaks a rule for which rules.json has no reason; 3 if
there is no DirectML.dll.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

from broken import broken_descriptors, changed_descriptors
from hosts import VERDICTS, run, verdict
from rules import RULES, Raw, broken_rule

from onnxgather.checking.lanes.directml import Host

VALID = "(none)"
"""Stands for a rule where onnxgather accepts the descriptor."""


def descriptors(count: int, seed: int) -> Iterator[Raw]:
    """Descriptors of both kinds, by turns."""
    pairs = zip(broken_descriptors(seed), changed_descriptors(seed), strict=False)
    both = (raw for (_, broken), changed in pairs for raw in (broken, changed))
    return itertools.islice(both, count)


def main(options: argparse.Namespace, command: list[str]) -> int:
    """Ask both about random descriptors. Returns the exit code."""
    begun = time.monotonic()
    counts: Counter[tuple[str, str]] = Counter()
    findings: list[str] = []
    with closing(Host(command)) as host:
        print(f"DirectML.dll {host.info.version}, seed {options.seed}")
        for raw in descriptors(options.count, options.seed):
            word, reason = verdict(host, raw)
            rule = broken_rule(raw) or VALID
            counts[rule, word] += 1
            if rule == VALID:
                good = word == "accepted"
            else:
                good = word != "accepted" or "accepted" in RULES[rule]
            if not good:
                findings.append(f"FINDING {rule}, {word}: {reason} {json.dumps(raw)}")
    print(table(counts))
    print("Refused here though DirectML accepts it:")
    for rule in sorted(RULES):
        if counts[rule, "accepted"]:
            print(f"  {rule}: {RULES[rule].get('accepted')}")
    for finding in findings:
        print(finding)
    took = time.monotonic() - begun
    print(f"{options.count} descriptors, {len(findings)} findings, {took:.0f} s")
    return 1 if findings else 0


def table(counts: Counter[tuple[str, str]]) -> str:
    """How many descriptors have each verdict, by the rule that they break here."""
    lines = [f"{'rule broken here':26}" + "".join(f"{word:>11}" for word in VERDICTS)]
    for rule in sorted({rule for rule, _ in counts}):
        lines.append(
            f"{rule:26}" + "".join(f"{counts[rule, word]:11}" for word in VERDICTS)
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Asks which random descriptors are valid."
    )
    parser.add_argument("--count", type=int, default=5000, help="by default 5000")
    parser.add_argument("--seed", type=int, default=1)
    run(parser, main)
