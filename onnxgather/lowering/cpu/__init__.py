"""The lowering for ONNX Runtime's CPU provider: a list of forms, the first that fits is taken.

A form is a module of this package: its name, the reason to take it, its gain, why it is passed
over, and its nodes. A new one is a new module and a row of FORMS.

The gain is the time of the next form of the list that fits, or of the portable lowering, over the
time of the form itself: the geometric mean over the workloads that take the form, with one thread
and ONNX Runtime 1.31.1. `python scripts/bench.py --forms` measures it. A form stays while its gain
is at least 1.25 with one thread or with two.
"""

from __future__ import annotations

from onnxgather.arrays import Array
from onnxgather.descriptors import Descriptor
from onnxgather.lowering.cpu import (
    clamp,
    columns,
    elements,
    narrow_rows,
    offsets,
    repeated_rows,
    runs,
    slices,
    transposed,
)
from onnxgather.lowering.cpu.facts import Facts, Form
from onnxgather.lowering.graph import Graph
from onnxgather.lowering.portable import INPUT, OUTPUT, lower
from onnxgather.lowering.positions import scatter
from onnxgather.options import DEFAULT_THREADS, OutOfRange

FORMS: tuple[Form, ...] = (
    runs,
    transposed,
    repeated_rows,
    elements,
    columns,
    narrow_rows,
    slices,
    offsets,
    clamp,
)
"""The forms, in the order tried. If none of them fits, the portable lowering is used."""


def lower_cpu(
    desc: Descriptor,
    out_of_range: OutOfRange,
    indices: Array | None = None,
    threads: int | None = None,
) -> Graph:
    """Return the graph of a descriptor that ONNX Runtime's CPU provider runs fastest.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does.
        indices: IndicesTensor where it is known; see `lower`.
        threads: How many threads the graph will run on; None stands for 2.
    """
    facts = Facts(desc, out_of_range, indices, threads or DEFAULT_THREADS)
    passed_over: list[tuple[str, str]] = []
    for form in FORMS:
        why = form.passed_over(facts)
        if why is None:
            graph = lower_by(form, facts)
            break
        passed_over.append((form.NAME, why))
    else:
        graph = lower(desc, out_of_range, indices)
        graph.choice = "portable: no other form fits"
    graph.passed_over = tuple(passed_over)
    return graph


def lower_by(form: Form, facts: Facts) -> Graph:
    """Return the graph of a form that fits."""
    gain = f"the next form that fits takes {form.GAIN} times as long"
    choice = f"{form.NAME}: {form.REASON}; {gain}"
    graph = Graph(fold_all=facts.known is not None, choice=choice)
    tensor = facts.desc.input_tensor
    data = graph.input(INPUT, tensor.data_type.numpy, tensor.array_shape)
    result = form.build(graph, facts, data)
    if facts.desc.output_tensor.strides is not None:
        result = scatter(graph, facts.desc.output_tensor, result)
    graph.finish(result, OUTPUT)
    return graph
