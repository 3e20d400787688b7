"""The cases of the corpus, made from the tables in their order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from onnxgather.checking.cases import Case, DescriptorCase, ForbiddenNode, NodeCase
from onnxgather.checking.corpus.groups import GROUPS, TABLES, Example, Group
from onnxgather.checking.descriptor_layouts import descriptor_with_layouts
from onnxgather.core.descriptors.random_numbers import seed_of, splitmix64
from onnxgather.core.descriptors.sample_values import data_values, index_values, takes
from onnxgather.core.gather import gather_of_node
from onnxgather.core.options import OutOfRange


def built_in_cases(out_of_range: OutOfRange | None = None) -> Iterator[Case]:
    """Yield the cases of the corpus, the same on every machine.

    The arrays of a case depend on its name alone, so that a new row changes no other
    case.

    Args:
        out_of_range: The only policy; None lets each case have its own. All cases whose indices
            are in range have it, as every policy gives the same there, and of the others those
            that the corpus has under it.
    """
    for case in _built_in_cases():
        if out_of_range is None or case.out_of_range == out_of_range:
            yield case
        elif isinstance(case, DescriptorCase) and case.in_range:
            yield replace(
                case, name=f"{case.name}/{out_of_range}", out_of_range=out_of_range
            )


def _built_in_cases() -> Iterator[Case]:
    for group in GROUPS:
        yield from _cases(group)
    yield from map(_documented, TABLES.examples)
    yield from forbidden_cases()


def _cases(group: Group) -> Iterator[DescriptorCase]:
    rows = product(*group[1:])  # all but the template
    for (
        (word, gather),
        data_type,
        index_type,
        indices,
        data,
        (
            layout,
            layouts,
        ),
        policy,
    ) in rows:
        if not takes(data_type, index_type, data, indices):
            continue
        name = group.template.format(
            operator=gather.operator.lower().replace("_", "-"),
            gather=word,
            data_type=data_type.lower(),
            index_type=index_type.lower(),
            indices=indices,
            data=data,
            layout=layout,
            policy=policy,
        )
        # Cases that differ only in their policy have the same arrays.
        seed = seed_of(name.removesuffix(f"/{policy}"))
        desc = descriptor_with_layouts(gather, data_type, index_type, layouts)
        tensor = desc.input_tensor
        values = data_values(tensor.data_type.numpy, tensor.array_shape, data, seed)
        yield DescriptorCase(
            name, desc, values, index_values(desc, indices, seed), policy
        )


def _documented(example: Example) -> DescriptorCase:
    desc = descriptor_with_layouts(example.gather, "FLOAT32", "UINT32")
    data = example.first + np.arange(desc.input_tensor.element_count, dtype=np.float32)
    data = data.reshape(desc.input_tensor.sizes)
    indices = np.array(example.indices, np.uint32).reshape(desc.indices_tensor.sizes)
    return DescriptorCase(example.name, desc, data, indices, "error")


def forbidden_cases() -> Iterator[NodeCase]:
    """Yield the forbidden nodes; their indices are 0 and 1, those of scalar data 0."""
    for row in TABLES.forbidden:
        seed = seed_of(row.name)
        data = data_values(np.dtype("float32"), row.data, "distinct", seed)
        numbers = splitmix64(seed, math.prod(row.indices)) % np.uint64(
            2 if row.data else 1
        )
        indices = numbers.astype(row.index_type.lower()).reshape(row.indices)
        gather = gather_of_node(row.operator, row.data, row.indices, row.number)
        rule = gather.broken_rule(row.index_type)
        assert rule is not None, row.name
        output = gather.output if row.output is None else row.output
        node = ForbiddenNode(row.operator, {gather.attribute: row.number}, output, rule)
        yield NodeCase(row.name, node, data, indices)
