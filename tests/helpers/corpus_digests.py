"""Digests of the corpus, the same on every machine.

`python tests/helpers/corpus_digests.py` prints them, for `tests/data/corpus.sha256`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase
from onnxgather.checking.corpus import built_in_cases, random_cases
from onnxgather.core.descriptors.arrays import Array, content_of

RANDOM = 500
"""Random cases in the digest."""


def digest(case: Case) -> bytes:
    """A hash of a case and of what is expected of it, but of no sentence."""
    if isinstance(case, DescriptorCase):
        asked: Any = og.to_dict(case.descriptor)
    else:
        asked = [case.node.operator, dict(case.node.attributes), case.node.output_shape]
    found = hashlib.sha256()
    for part in (
        json.dumps([case.name, case.out_of_range, asked]),
        case.data,
        case.indices,
    ):
        found.update(stored(part))
    expected = case.expected()
    found.update(stored("refused" if isinstance(expected, str) else expected))
    return found.digest()


def stored(value: Array | str) -> bytes:
    if isinstance(value, str):
        return value.encode() + b"\0"
    return f"{value.dtype} {value.shape} ".encode() + content_of(value)


def group(case: Case) -> str:
    """The part of the corpus that a case is counted under."""
    parts = case.name.split("/")
    return "/".join(parts[: 3 if parts[0] in ("out-of-range", "forbidden") else 2])


def digests(found: Iterable[Case]) -> Iterator[str]:
    """Yield a line for each group of cases."""
    hashes: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for case in found:
        key = group(case)
        hashes.setdefault(key, hashlib.sha256()).update(digest(case))
        counts[key] = counts.get(key, 0) + 1
    for key, value in hashes.items():
        yield f"{value.hexdigest()}  {key} ({counts[key]})"


def all_digests() -> list[str]:
    return [*digests(built_in_cases()), *digests(random_cases(RANDOM, 0))]


if __name__ == "__main__":
    print(*all_digests(), sep="\n")
