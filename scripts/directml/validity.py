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
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from broken import RULES, Raw, broken_descriptors, broken_rule, changed_descriptors

from onnxgather.checking.lanes.directml import (
    LEAST_FEATURE_LEVEL,
    REFUSALS,
    Host,
    find_host,
    setup_command,
)
from onnxgather.core.checks import shown, uint
from onnxgather.core.descriptors.datatypes import TYPE_PREFIX, TensorDataType
from onnxgather.core.descriptors.operators import FACTS, TENSORS, header_names
from onnxgather.core.descriptors.strides import packed_strides
from onnxgather.core.descriptors.tensors import TensorFlags
from onnxgather.core.errors import NOT_RUN, DescriptorError
from onnxgather.core.execution.elsewhere.child import NoAnswerError

VERDICTS = ("refused", "accepted", "crashed", "not asked")

_TYPES = {
    **{t.name: (t.directml, 8 * t.size) for t in TensorDataType},
    "UNKNOWN": (0, 0),
    "UINT4": (12, 4),
    "INT4": (13, 4),
}
"""The number of each type in DML_TENSOR_DATA_TYPE, and how many bits an element has."""


VALID = "(none)"
"""Stands for a rule where onnxgather accepts the descriptor."""


def descriptors(count: int, seed: int) -> Iterator[Raw]:
    """Descriptors of both kinds, by turns."""
    pairs = zip(broken_descriptors(seed), changed_descriptors(seed), strict=False)
    both = (raw for (_, broken), changed in pairs for raw in (broken, changed))
    return itertools.islice(both, count)


def main() -> int:
    """Ask both about random descriptors; return the exit code."""
    parser = argparse.ArgumentParser(
        description="Asks which random descriptors are valid."
    )
    parser.add_argument("--count", type=int, default=5000, help="by default 5000")
    parser.add_argument("--seed", type=int, default=1)
    text = "the folder with the host, by default setup.sh's"
    parser.add_argument("--host", help=text)
    options = parser.parse_args()
    command = find_host(options.host)
    if command is None:
        made_by = setup_command(options.host)
        print(f"no host of DirectML.dll; {made_by} makes it", file=sys.stderr)
        return NOT_RUN
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


def verdict(host: Host, raw: Raw) -> tuple[str, str]:
    """Return DirectML's verdict, one of VERDICTS, and its reason: "" if accepted."""
    try:
        answer = host.ask(raw_request(raw))
    except DescriptorError as error:
        return "not asked", str(error)  # DirectML's structures cannot hold it
    except NoAnswerError as error:
        return "crashed", str(error)
    if answer.stage not in ("DMLCreateDevice1", *REFUSALS):
        return "accepted", ""
    return ("refused" if answer.stage in REFUSALS else "crashed"), str(answer)


def raw_request(raw: Raw) -> dict[str, Any]:
    """Return what `request_for` gives of a descriptor, for one that may break any rule.

    Raises:
        DescriptorError: DirectML's structures cannot hold a value.
    """
    operator = str(raw["type"]).removeprefix("DML_OPERATOR_")
    if operator not in FACTS:
        raise DescriptorError(
            f"type must be one of {', '.join(FACTS)}, got {shown(operator)}"
        )
    row, desc = FACTS[operator], raw["desc"]
    names = list(header_names(row.descriptor).values())
    tensors, fields = names[: len(TENSORS)], names[len(TENSORS) :]
    return {
        "operator": row.number,
        "feature_level": LEAST_FEATURE_LEVEL,
        "tensors": [_tensor(name, desc[name]) for name in tensors],
        "fields": [uint(name, desc[name]) for name in fields],
    }


def _tensor(name: str, raw: Raw) -> list[Any]:
    """Return a tensor of a request.

    By default its TotalTensorSizeInBytes is the smallest legal one.
    """
    short = str(raw["DataType"]).removeprefix(TYPE_PREFIX)
    if short not in _TYPES:
        rule = f"{name}.DataType must be one of {', '.join(_TYPES)}"
        raise DescriptorError(f"{rule}, got {shown(short)}")
    number, bits = _TYPES[short]
    sizes, strides = list(raw["Sizes"]), raw.get("Strides") or None
    if strides is not None and len(strides) != len(sizes):
        rule = f"{name}.Strides must have as many elements as Sizes ({len(sizes)})"
        raise DescriptorError(f"{rule}, got {len(strides)}")
    total = raw.get("TotalTensorSizeInBytes")
    if total is None:
        steps = strides or packed_strides(sizes)
        span = 1 + sum((n - 1) * s for n, s in zip(sizes, steps, strict=False))
        total = min((max(0, span) * bits + 31) // 32 * 4, 2**64 - 4)
    alignment = raw.get("GuaranteedBaseOffsetAlignment", 0)
    return [
        number,
        int(TensorFlags.parse(raw.get("Flags", TensorFlags.NONE))),
        [uint(f"{name}.Sizes[{k}]", n) for k, n in enumerate(sizes)],
        strides and [uint(f"{name}.Strides[{k}]", n) for k, n in enumerate(strides)],
        uint(f"{name}.TotalTensorSizeInBytes", total, 2**64 - 1),
        uint(f"{name}.GuaranteedBaseOffsetAlignment", alignment),
    ]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NoAnswerError as error:
        print(error, file=sys.stderr)
        sys.exit(NOT_RUN)
