"""Compares descriptors with those that ONNX Runtime's DirectML provider gives DirectML.

The provider itself writes them down (`tests/helpers/serialized_graph.py`). For random
ONNX nodes `from_onnx` must give the provider's descriptor, field by field,
TotalTensorSizeInBytes included, or both must refuse. For random descriptors the
provider must make the same descriptor again of their portable model: but for leading
ones, for what an ONNX node has not, and for descriptors that no node computes. Prints
how many went which way; the provider writes neither Flags nor
GuaranteedBaseOffsetAlignment.

With --record FILE it writes what the provider makes of the nodes, and compares nothing.

Exit code 1 if a descriptor is another; 3 if the provider is not set up.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "helpers"))

from case_counts import counted
from provider_descriptors import (
    REFUSALS,
    SAME,
    GraphHost,
    OnnxGather,
    Question,
    descriptor_questions,
    named,
    node_questions,
    random_gathers,
    verdicts,
)
from record import Record, write_lines

from onnxgather.core.errors import NOT_RUN
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.execution.elsewhere.hosts import find_runtime
from onnxgather.core.execution.providers import PROVIDERS, SETUP

PAUSE = 10
"""Seconds between lines that say how far it is."""


def ask(
    host: GraphHost, noun: str, count: int, questions: Iterable[Question]
) -> list[str]:
    """Ask the provider, print how many verdicts each group has, return the findings."""
    groups: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    findings: list[str] = []
    told = time.monotonic()
    for verdict in verdicts(host, questions):
        groups[verdict.group] += 1
        lost.update(verdict.lost)
        findings += [verdict.finding] if verdict.finding else []
        if time.monotonic() - told > PAUSE:
            told = time.monotonic()
            print(f"{groups.total()} of {count} {noun}", flush=True)
    print(f"{groups.total()} {noun}")
    for group, number in groups.most_common():
        print(f"{number:7} {group}")
    if lost:
        print("of these, where the first or second, had what an ONNX node has not:")
    for what, number in lost.most_common():
        print(f"{number:7} {what}")
    if not groups[SAME]:
        findings.append(f"no descriptor of the {noun} was {SAME}")
    return findings


def record(host: GraphHost, path: Path, nodes: Iterable[OnnxGather]) -> None:
    """Write each node with the provider's graphs, or with why there are none."""
    lines: list[Record] = []
    for made in nodes:
        line: Record = asdict(made)
        try:
            graphs = host.graphs(made.model(named(0)).SerializeToString())
            line["graphs_hex"] = [graph.hex() for graph in graphs]
        except REFUSALS as error:
            line["refused"] = str(error)
        lines.append(line)
    write_lines(path, lines)


def main(options: argparse.Namespace) -> int:
    """Compare random descriptors; return the exit code."""
    command = find_runtime(PROVIDERS["directml"])
    if not command:
        print(f"no host of the DirectML provider; {SETUP} makes it", file=sys.stderr)
        return NOT_RUN
    begun = time.monotonic()
    asked = {
        "nodes": node_questions(options.nodes, options.seed),
        "descriptors": descriptor_questions(options.descriptors, options.seed),
    }
    findings: list[str] = []
    with closing(GraphHost(command)) as host:
        if PROVIDERS["directml"].name not in host.providers():
            raise NoAnswerError(
                Breakdown.NOT_STARTED, "the host has no DirectML provider"
            )
        host.graphs(OnnxGather("Gather", (2,), (2,), 0).model("").SerializeToString())
        if options.record:
            record(host, options.record, random_gathers(options.nodes, options.seed))
            return 0
        for noun, questions in asked.items():
            findings += ask(host, noun, getattr(options, noun), questions)
    for finding in findings:
        print(f"FINDING {finding}")
    took = time.monotonic() - begun
    counts = f"{options.nodes} nodes, {options.descriptors} descriptors"
    print(f"seed {options.seed}: {counts}, {len(findings)} findings, {took:.0f} s")
    return 1 if findings else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Compares descriptors with the provider's own."
    )
    parser.add_argument("--nodes", type=counted, default=2000, help="by default 2000")
    parser.add_argument(
        "--descriptors", type=counted, default=2000, help="by default 2000"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="write the provider's graphs"
    )
    try:
        sys.exit(main(parser.parse_args()))
    except (NoAnswerError, *REFUSALS) as error:
        print(error, file=sys.stderr)
        sys.exit(NOT_RUN)
