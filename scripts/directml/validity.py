"""Asks onnxgather and DirectML.dll which random descriptors are valid.

Half of them break one rule each, in turn; half are changed anyhow, and many of those are valid.
Prints, by rule, how many of the descriptors that onnxgather refuses DirectML refuses as well,
accepts, or crashes on, and why onnxgather refuses what DirectML accepts. Exit code 1 where
onnxgather accepts what DirectML refuses or crashes on, and where DirectML accepts what breaks a
rule without a reason in rules.json; 3 where there is no DirectML.dll.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator

from broken import broken_descriptors, changed_descriptors
from hosts import NONE, add_option, open_host
from rules import Raw, broken_rule, load_rules

import onnxgather as og
from onnxgather.lanes.directml_host import REFUSALS, Host

VERDICTS = ("refused", "accepted", "crashed", "not asked")
VALID = "(none)"


def asked(host: Host, raw: Raw) -> tuple[str, str]:
    """Return DirectML's verdict on a descriptor, one of VERDICTS, and what it rests on."""
    try:
        answer = host.create_operator(raw)
    except og.DescriptorError as error:
        return "not asked", str(error)  # the structures have no place for it
    if answer.crashed is not None:
        return "crashed", answer.crashed
    if answer.accepted:
        return "accepted", ""
    said = f"{answer.stage} gave 0x{answer.hresult:08X}"
    return ("refused" if answer.stage in REFUSALS else "crashed"), said


def descriptors(count: int, seed: int) -> Iterator[Raw]:
    """Yield descriptors of both kinds, by turns."""
    pairs = zip(broken_descriptors(seed), changed_descriptors(seed), strict=False)
    both = (raw for (_, broken), changed in pairs for raw in (broken, changed))
    return itertools.islice(both, count)


def main(arguments: list[str] | None = None) -> int:
    """Ask both about random descriptors; return the exit code."""
    parser = argparse.ArgumentParser(description="Asks which random descriptors are valid.")
    parser.add_argument("--count", type=int, default=5000, help="by default 5000")
    parser.add_argument("--seed", type=int, default=1)
    add_option(parser)
    options = parser.parse_args(arguments)
    opened = open_host(options.host)
    if opened is None:
        return NONE
    begun = time.monotonic()
    counts: Counter[tuple[str, str]] = Counter()
    findings: list[str] = []
    rules = load_rules()
    with opened as host:
        print(f"DirectML.dll {host.info.version}, seed {options.seed}")
        for raw in descriptors(options.count, options.seed):
            verdict, reason = asked(host, raw)
            rule = broken_rule(raw) or VALID
            counts[rule, verdict] += 1
            if rule == VALID:
                good = verdict == "accepted"
            else:
                good = verdict != "accepted" or rules[rule].accepted is not None
            if not good:
                findings.append(f"{rule}, {verdict}: {reason} {json.dumps(raw)}")
    print(table(counts))
    print("Refused here though DirectML accepts it:")
    for rule in sorted(rules):
        if counts[rule, "accepted"]:
            print(f"  {rule}: {rules[rule].accepted}")
    print(*(f"FINDING {finding}" for finding in findings), sep="\n", end="\n" if findings else "")
    took = time.monotonic() - begun
    print(f"{options.count} descriptors, {len(findings)} findings, {took:.0f} s")
    return 1 if findings else 0


def table(counts: Counter[tuple[str, str]]) -> str:
    """Return how many descriptors have each verdict, by the rule that they break here."""
    rules = sorted({rule for rule, _ in counts})
    lines = [f"{'rule broken here':26}" + "".join(f"{verdict:>11}" for verdict in VERDICTS)]
    for rule in rules:
        cells = "".join(f"{counts[rule, verdict]:11}" for verdict in VERDICTS)
        lines.append(f"{rule:26}{cells}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
