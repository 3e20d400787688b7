"""The cases of the corpus, made from the tables in their order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from onnxgather.checking.cases import Case, DescriptorCase, GatherNode, NodeCase
from onnxgather.checking.corpus.groups import (
    GROUPS,
    NODE_GROUPS,
    TABLES,
    Example,
    ForbiddenRow,
    Group,
    NamedGather,
    NamedLayouts,
)
from onnxgather.checking.descriptor_layouts import descriptor_with_layouts
from onnxgather.core.descriptors.datatypes import dtype_of
from onnxgather.core.descriptors.random_numbers import seed_of, splitmix64
from onnxgather.core.descriptors.sample_values import (
    INDICES_BY_WORD,
    data_values,
    index_values,
    takes,
)
from onnxgather.core.gather import gather_of_node
from onnxgather.core.options import OutOfRange


def built_in_cases(out_of_range: OutOfRange | None = None) -> Iterator[Case]:
    """Yield the cases of the corpus, the same on every machine.

    The arrays of a case depend on its name alone, so that a new row changes no other
    case.

    Args:
        out_of_range: The only policy; None lets each case have its own. Every case
            whose indices are in range gets the policy, as every policy gives the same
            there. The other cases are those that the corpus has under the policy.
    """
    for case in _built_in_cases():
        if out_of_range is None:
            yield case
        elif case.out_of_range == out_of_range:
            # The case under "directml" is left out, so that this one asks.
            if isinstance(case, DescriptorCase):
                case = replace(case, asked_as_directml=False)
            yield case
        elif isinstance(case, DescriptorCase) and case.in_range:
            name = f"{case.name}/{out_of_range}"
            yield replace(case, name=name, out_of_range=out_of_range)


def _built_in_cases() -> Iterator[Case]:
    for group in GROUPS:
        for row in _rows(group):
            if takes(row.data_type, row.index_type, row.data, row.indices):
                yield _case_of_row(group, row)
    for example in TABLES.examples:
        yield _documented_case(example)
    yield from forbidden_cases()
    for group in NODE_GROUPS:
        for row in _rows(group):
            yield _node_case_of_row(group, row)


class _Row(NamedTuple):
    """A row of a group: one value of each field."""

    named_gather: NamedGather
    data_type: str
    index_type: str
    indices: str
    data: str
    named_layouts: NamedLayouts
    policy: OutOfRange


def _rows(group: Group) -> Iterator[_Row]:
    """Return every combination of a group's fields; the last field varies fastest."""
    _, *fields = group
    return map(_Row._make, product(*fields))


def _case_of_row(group: Group, row: _Row) -> DescriptorCase:
    _, gather = row.named_gather
    _, layouts = row.named_layouts
    name = _name_of_row(group, row)
    # Cases that differ only in their policy have the same arrays.
    seed = seed_of(name.removesuffix(f"/{row.policy}"))
    desc = descriptor_with_layouts(gather, row.data_type, row.index_type, layouts)
    tensor = desc.input_tensor
    data = data_values(tensor.data_type.numpy, tensor.array_shape, row.data, seed)
    indices = index_values(desc, row.indices, seed)
    case = DescriptorCase(name, desc, data, indices, row.policy)
    if row.policy == "directml" or "directml" not in group.policies or case.in_range:
        return case
    return replace(case, asked_as_directml=True)


def _name_of_row(group: Group, row: _Row) -> str:
    word_of_gather, gather = row.named_gather
    word_of_layouts, _ = row.named_layouts
    return group.template.format(
        operator=gather.operator.lower().replace("_", "-"),
        gather=word_of_gather,
        data_type=row.data_type.lower(),
        index_type=row.index_type.lower(),
        indices=row.indices,
        data=row.data,
        layout=word_of_layouts,
        policy=row.policy,
    )


def _node_case_of_row(group: Group, row: _Row) -> NodeCase:
    """Return the case of a row as a node, without layouts and policy."""
    _, gather = row.named_gather
    # ONNX has one operator for the two of tuples.
    name = _name_of_row(group, row).replace("/gather-nd1/", "/gather-nd/")
    seed = seed_of(name)
    data = data_values(dtype_of(row.data_type), gather.data, row.data, seed)
    # A single index has no dimension, and the size of its axis has one.
    sizes = np.broadcast_to(np.array(gather.axes), gather.indices or (1,))
    draw = INDICES_BY_WORD[row.indices]
    indices = draw(dtype_of(row.index_type), sizes.reshape(-1), seed)
    rule = gather.broken_rule(row.index_type, row.data_type)
    attributes = {gather.attribute: gather.number}
    node = GatherNode(gather.onnx, attributes, gather.output, rule)
    return NodeCase(name, node, data, indices.reshape(gather.indices))


def _documented_case(example: Example) -> DescriptorCase:
    desc = descriptor_with_layouts(example.gather, "FLOAT32", "UINT32")
    data = np.arange(desc.input_tensor.element_count, dtype=np.float32)
    data = (data + example.first).reshape(desc.input_tensor.sizes)
    indices = np.array(example.indices, np.uint32).reshape(desc.indices_tensor.sizes)
    return DescriptorCase(example.name, desc, data, indices, "error")


def forbidden_cases() -> Iterator[NodeCase]:
    """Return a case for each forbidden node."""
    return map(_forbidden_case, TABLES.forbidden)


def _forbidden_case(row: ForbiddenRow) -> NodeCase:
    """Return the case of a forbidden node, whose indices are 0 and 1."""
    seed = seed_of(row.name)
    data = data_values(np.dtype("float32"), row.data, "distinct", seed)
    # Scalar data has no axis: all its indices are 0.
    index_count = 2 if row.data else 1
    numbers = splitmix64(seed, math.prod(row.indices)) % np.uint64(index_count)
    indices = numbers.astype(row.index_type.lower()).reshape(row.indices)
    gather = gather_of_node(row.operator, row.data, row.indices, row.number)
    rule = gather.broken_rule(row.index_type)
    assert rule is not None, row.name
    output = row.output
    if output is None:
        output = gather.output
    attributes = {gather.attribute: row.number}
    node = GatherNode(row.operator, attributes, output, rule)
    return NodeCase(row.name, node, data, indices)
