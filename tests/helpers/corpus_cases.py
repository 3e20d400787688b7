"""The cases of the corpus, made once for all tests of a process."""

from __future__ import annotations

from functools import cache

from onnxgather.checking.cases import Case, DescriptorCase
from onnxgather.checking.corpus import built_in_cases


@cache
def corpus() -> tuple[Case, ...]:
    """Return the cases in their order."""
    return tuple(built_in_cases())


def descriptor_cases() -> list[DescriptorCase]:
    """Return the cases that have a descriptor."""
    return [case for case in corpus() if isinstance(case, DescriptorCase)]
