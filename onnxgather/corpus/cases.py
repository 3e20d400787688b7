"""The cases of the table, in its order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from onnxgather.cases import Case, DescriptorCase
from onnxgather.corpus.forbidden import forbidden_cases
from onnxgather.corpus.table import EXAMPLES, TABLE, Group
from onnxgather.corpus.values import data_values, index_values, takes
from onnxgather.corpus.words import seed_of
from onnxgather.layouts import laid_out


def corpus() -> Iterator[Case]:
    """Yield the cases of the corpus, the same on every machine.

    What a case holds depends on its name alone, so that a new row changes no other case.
    """
    for group in TABLE:
        yield from _group(group)
    for name, (gather, data, indices) in EXAMPLES.items():
        desc = laid_out(gather, "FLOAT32", "UINT32")
        yield DescriptorCase(
            name,
            desc,
            np.array(data, np.float32).reshape(desc.input_tensor.sizes),
            np.array(indices, np.uint32).reshape(desc.indices_tensor.sizes),
            "error",
        )
    yield from forbidden_cases()


def _group(group: Group) -> Iterator[DescriptorCase]:
    for (
        (name, gather),
        data_type,
        index_type,
        indices,
        data,
        (layout, layouts),
        policy,
    ) in product(
        group.gathers.items(),
        group.data_types,
        group.index_types,
        group.indices,
        group.data,
        group.layouts.items(),
        group.policies,
    ):
        if not takes(data_type, index_type, data, indices):
            continue
        full = group.name.format(
            gather=name,
            data_type=data_type.lower(),
            index_type=index_type.lower(),
            indices=indices,
            data=data,
            layout=layout,
            policy=policy,
        )
        # All policies are asked the same question.
        seed = seed_of(full.removesuffix(f"/{policy}"))
        desc = laid_out(gather, data_type, index_type, layouts)
        yield DescriptorCase(
            full,
            desc,
            data_values(desc.input_tensor, data, seed),
            index_values(desc, indices, seed),
            policy,
        )
