"""The lowering for ONNX Runtime's CPU provider: the first of its forms that fits."""

from __future__ import annotations

from onnxgather.arrays import Array
from onnxgather.descriptors import Descriptor
from onnxgather.lowering.cpu.facts import Facts, Form
from onnxgather.lowering.cpu.forms import FORMS
from onnxgather.lowering.graph import Graph
from onnxgather.lowering.portable import INPUT, OUTPUT, lower
from onnxgather.lowering.positions import scatter
from onnxgather.options import DEFAULT_THREADS, OutOfRange


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
        passed_over.append((form.name, why))
    else:
        graph = lower(desc, out_of_range, indices)
        graph.choice = "portable: no other form fits"
    graph.passed_over = tuple(passed_over)
    return graph


def lower_by(form: Form, facts: Facts) -> Graph:
    """Return the graph of a form that fits."""
    gain = f"the next form that fits takes {form.gain} times as long"
    choice = f"{form.name}: {form.reason}; {gain}"
    graph = Graph(fold_all=facts.known is not None, choice=choice)
    tensor = facts.desc.input_tensor
    data = graph.input(INPUT, tensor.data_type.numpy, tensor.array_shape)
    result = form.build(graph, facts, data)
    if facts.desc.output_tensor.strides is not None:
        result = scatter(graph, facts.desc.output_tensor, result)
    graph.finish(result, OUTPUT)
    return graph
