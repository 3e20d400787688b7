"""Proves our models of a part of the corpus and of random descriptors.

    python scripts/certify_corpus.py --shard 1/30 --random 12 --jobs 2

Each descriptor is certified for each policy and each target, and as a WebNN program.
The script prints what is not proved, and how many are proved, refuted and undecided. It
ends with 1 if one is refuted or undecided. `--shard 1/1` is the whole corpus.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus import built_in_cases, random_cases
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.options import (
    POLICIES,
    PROVED_TARGETS,
    OutOfRange,
    ProvedTarget,
)
from onnxgather.proving.certify import Certified, certify

STATES = ("proved", "refuted", "undecided")

PROGRESS = 100
"""After how many certificates a line on the standard error says how many are done."""


class Question(NamedTuple):
    """A descriptor, with the policy and the target of the model that is to mean it."""

    name: str
    descriptor: Descriptor
    policy: OutOfRange
    target: ProvedTarget

    def __str__(self) -> str:
        return f"{self.name}: {self.policy}, {self.target}"


def corpus_part(part: int, parts: int) -> dict[Descriptor, str]:
    """Return the descriptors of a part of the corpus, each with a case's name."""
    names = dict[Descriptor, str]()
    for case in built_in_cases():
        # The other cases are nodes that ONNX forbids, which have no descriptor.
        if isinstance(case, DescriptorCase):
            names.setdefault(case.descriptor, case.name)
    return dict(itertools.islice(names.items(), part - 1, None, parts))


def questions(names: dict[Descriptor, str]) -> Iterator[Question]:
    """Yield each descriptor with each policy and each target."""
    for descriptor, name in names.items():
        for policy, target in itertools.product(POLICIES, PROVED_TARGETS):
            yield Question(name, descriptor, policy, target)


def answer(timeout: float, question: Question) -> Certified:
    """Certify our model of a descriptor."""
    return certify(
        question.descriptor, question.policy, question.target, timeout=timeout
    )


def certificates(
    all_questions: Sequence[Question], jobs: int, timeout: float
) -> Iterator[Certified]:
    """Yield the certificates of questions, in their order."""
    work = partial(answer, timeout)
    if jobs == 1:
        yield from map(work, all_questions)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(work, all_questions)


def shard(text: str) -> tuple[int, int]:
    """Return the two numbers of a text such as 2/8.

    Raises:
        ValueError: The text is no part of a whole.
    """
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(text)
    return part, parts


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is not proved, and how many are; 1 if one is not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--shard", type=shard, metavar="K/N", help="the K-th of N parts of the corpus")
    add("--random", type=int, default=0, metavar="N", help="N random descriptors")
    add("--seed", type=int, default=0, help="of --random")
    add("--jobs", type=int, default=1, help="processes")
    add("--timeout", type=float, default=60, help="seconds for a certificate")
    options = parser.parse_args(arguments)
    names = corpus_part(*options.shard) if options.shard else {}
    for case in random_cases(options.random, options.seed):
        names.setdefault(case.descriptor, case.name)
    if not names:
        parser.error("there is nothing to prove: give --shard K/N or --random N")

    all_questions = [*questions(names)]
    total = len(all_questions)
    counts = Counter[str]()
    results = certificates(all_questions, options.jobs, options.timeout)
    for question, certified in zip(all_questions, results, strict=True):
        counts[certified.state] += 1
        if certified.state != "proved":
            print(f"{question}: {certified}", flush=True)
        if counts.total() % PROGRESS == 0:
            print(f"{counts.total():,} of {total:,}", file=sys.stderr, flush=True)
    print(", ".join(f"{counts[state]:,} {state}" for state in STATES))
    return int(counts["proved"] < total)


if __name__ == "__main__":
    sys.exit(main())
