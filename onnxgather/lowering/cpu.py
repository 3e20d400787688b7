"""The lowering for ONNX Runtime's CPU provider: one table of forms, the first that fits is taken.

Ratios are times of a form over ONNX's own operator with INT64 indices clamped by Max and Min, as a
user would write it; measured with `scripts/bench.py`, one thread, ONNX Runtime 1.31.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from onnxgather.arrays import Array
from onnxgather.descriptors import Descriptor
from onnxgather.gather import gather_of
from onnxgather.lowering import cpu_fits
from onnxgather.lowering import cpu_forms as forms
from onnxgather.lowering.cpu_indices import (
    any_outside,
    clipped,
    directml_offset,
    limited,
    linear,
    narrowed,
    to_slot,
)
from onnxgather.lowering.cpu_style import style
from onnxgather.lowering.facts import Facts, find_facts
from onnxgather.lowering.graph import Graph, Shape, Value, size_of
from onnxgather.lowering.indices import axis_limits, read_indices
from onnxgather.lowering.offsets import padded
from onnxgather.lowering.portable import INPUT, OUTPUT, lower, lower_into, natural, natural_node
from onnxgather.lowering.positions import scatter
from onnxgather.options import DEFAULT_THREADS, OutOfRange

Build = Callable[[Graph, Facts, Value], Value]
"""Adds the nodes of a form to a graph, given the data; returns OutputTensor's elements."""


@dataclass(frozen=True, slots=True)
class Form:
    """A row of the table: a form, when it is taken, and why."""

    name: str
    reason: str
    fits: Callable[[Facts], bool]
    build: Build


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
    facts = find_facts(desc, out_of_range, indices, threads or DEFAULT_THREADS)
    form = next((form for form in FORMS if form.fits(facts)), None)
    if form is None:
        graph = lower(desc, out_of_range, indices, style(facts))
        graph.choice = "portable: no other form fits"
        return graph
    graph = Graph(fold_all=indices is not None, choice=f"{form.name}: {form.reason}")
    tensor = desc.input_tensor
    data = graph.input(INPUT, tensor.data_type.numpy, tensor.array_shape)
    result = form.build(graph, facts, data)
    if desc.output_tensor.strides is not None:
        result = scatter(graph, desc.output_tensor, result)
    graph.finish(result, OUTPUT)
    return graph


def _index(graph: Graph, facts: Facts, shape: Shape | None = None) -> Value:
    """Return the indices of one axis, limited, in a shape or in the sizes that count."""
    if facts.ready is not None:
        return facts.ready
    kept, tensor = facts.place.kept, facts.desc.indices_tensor
    index = read_indices(graph, tensor, kept, kept if shape is None else shape, facts.known)
    return _limited(graph, facts, index)


def _limited(graph: Graph, facts: Facts, index: Value) -> Value:
    if facts.out_of_range == "zero":
        return to_slot(graph, index, facts.axes[0])
    return limited(graph, index, axis_limits(gather_of(facts.desc)), facts.out_of_range)


def _rows(graph: Graph, facts: Facts, shape: Shape) -> Value:
    """Return one row number per row of the output, in a shape where one index each gives them."""
    if not facts.place.has_tuples:
        return _index(graph, facts, shape)
    kept = facts.place.kept
    tuples = read_indices(graph, facts.desc.indices_tensor, kept, kept, facts.known)
    return linear(graph, facts, tuples)


def _from_index(make: Callable[..., Value], *, as_given: bool = False) -> Build:
    """Return what builds a form from the indices of one axis, plain ones in all their sizes."""

    def build(graph: Graph, facts: Facts, data: Value) -> Value:
        shape = facts.desc.indices_tensor.sizes if as_given else None
        return make(graph, facts, data, _index(graph, facts, shape))

    return build


def _build_short(graph: Graph, facts: Facts, data: Value) -> Value:
    return forms.row_gather(graph, facts, data, _rows(graph, facts, (facts.count,)))


def _build_elements(graph: Graph, facts: Facts, data: Value) -> Value:
    flat = graph.reshape(data, (size_of(data.shape),), "flat", "the elements in one row")
    if facts.out_of_range == "directml":
        kept = facts.place.kept
        index = read_indices(graph, facts.desc.indices_tensor, kept, kept, None)
        flat, last = padded(graph, facts.desc.input_tensor, flat)
        offset = directml_offset(graph, facts, index, last)
        return forms.element_gather(graph, flat, offset, facts.sizes)
    flat = forms.with_zero(graph, facts, flat, 0)
    return _by_tiles(graph, facts, partial(forms.element_gather, flat=flat))


def _build_narrow(graph: Graph, facts: Facts, data: Value) -> Value:
    columns = forms.columns_of(graph, facts, data)
    return _by_tiles(graph, facts, partial(forms.narrow_gather, facts=facts, columns=columns))


def _by_tiles(graph: Graph, facts: Facts, gather: Callable[..., Value]) -> Value:
    """Gather rows by `gather(graph, index=, sizes=)`, tile by tile where that is faster."""
    tiles = cpu_fits.tiles(facts)
    if tiles == 1:
        row = (*(1,) * (len(facts.sizes) - 1), facts.count)
        return gather(graph, index=_rows(graph, facts, row), sizes=facts.sizes)

    def one_tile(body: Graph, parts: list[Value]) -> Value:
        index = _limited(body, facts, parts[0])
        inner = facts.sizes[facts.split :] if facts.row > 1 else ()
        return gather(body, index=index, sizes=index.shape + inner)

    kept, shape = facts.place.kept, (tiles, facts.count // tiles)
    index = read_indices(graph, facts.desc.indices_tensor, kept, shape, None)
    gathered = graph.scan((index,), one_tile, "gathered_tiles")
    return graph.reshape(gathered, facts.sizes, "gathered", "a copy, of what is in the cache")


def _build_repeated(graph: Graph, facts: Facts, data: Value) -> Value:
    tensor, axis = facts.desc.indices_tensor, facts.place.indexed[0]
    dims = zip(tensor.sizes, tensor.element_strides, strict=True)
    rows = tuple(1 if stride == 0 else size for size, stride in dims)[: axis + 1]
    return forms.repeated_gather(graph, facts, data, _index(graph, facts, rows))


def _build_pattern(graph: Graph, facts: Facts, data: Value) -> Value:
    assert facts.pattern is not None
    shape = (*facts.sizes[:-1], facts.axes[0])
    table = graph.reshape(data, shape, "table", "the rows to choose from")
    return facts.pattern(graph, table, facts.sizes)


def _build_transposed(graph: Graph, facts: Facts, data: Value) -> Value:
    transposed = facts.transposed
    assert transposed is not None
    inner = find_facts(transposed.desc, facts.out_of_range, facts.known, facts.threads)
    form = next((form for form in FORMS if form.fits(inner)), None)
    if form is None:
        result = lower_into(graph, inner.desc, inner.out_of_range, inner.known, style(inner))
    else:
        result = form.build(graph, inner, data)
    why = "puts the dimensions into the output's order"
    return graph.transpose(result, transposed.perm, "turned", why)


def _build_guarded(graph: Graph, facts: Facts, data: Value) -> Value:
    kept, size = facts.place.kept, facts.axes[0]
    index = read_indices(graph, facts.desc.indices_tensor, kept, kept, None)
    signed = index.dtype.kind == "i"
    index = narrowed(graph, clipped(graph, index, size))
    outside = any_outside(graph, index, size, signed=signed)
    slow, fast = graph.body(), graph.body()
    result = lower_into(slow, facts.desc, facts.out_of_range, None, style(facts))
    slow.finish(result, "gathered_slowly")
    inside = replace(facts, out_of_range="clamp", ready=index)
    form = next(form for form in FORMS if form.fits(inside))
    result = form.build(fast, inside, data)
    fast.finish(result, "gathered_fast")
    why = "only an index out of range needs more than the gather"
    bodies = {"then_branch": slow, "else_branch": fast}
    return graph.add(
        "If", "gathered", outside, why=why, shape=facts.sizes, dtype=data.dtype, bodies=bodies
    )


def _build_natural(graph: Graph, facts: Facts, data: Value) -> Value:
    form = natural_node(facts.desc)
    assert form is not None
    limit, policy = style(facts).limit, facts.out_of_range
    if facts.ready is not None:
        index, limit, policy = facts.ready, _as_they_are, "clamp"
        if size_of(index.shape) == size_of(form.indices):
            index = graph.reshape(index, form.indices, "indices_shaped", "the operator's shape")
    else:
        tensor = facts.desc.indices_tensor
        index = read_indices(graph, tensor, facts.place.kept, form.indices, facts.known)
    gathered, _ = natural(graph, facts.desc, form, data, index, policy, limit)
    return graph.expand(gathered, facts.sizes, "expanded", "repeats what is repeated")


def _as_they_are(_: Graph, index: Value, __: Array) -> Value:
    return index


FORMS = (
    Form(
        "pattern",
        "known indices that run, repeat, roll or tile need no gather; 0.04 to 0.18",
        cpu_fits.pattern,
        _build_pattern,
    ),
    Form(
        "transposed data",
        "data that lies transposed is gathered as it lies, and only the result turned; 0.12",
        cpu_fits.transposed,
        _build_transposed,
    ),
    Form(
        "single row",
        "a tuple of one coordinate spares the Reshape of the index; 0.8 of a small call",
        cpu_fits.single,
        _from_index(forms.single_gather, as_given=True),
    ),
    Form(
        "repeated rows",
        "the indices are the same along whole rows, so rows are gathered; 0.09 to 0.18",
        cpu_fits.repeated,
        _build_repeated,
    ),
    Form(
        "elements",
        "single elements of one table come fastest in one row of GatherElements; 0.08 to 0.27",
        cpu_fits.elements,
        _build_elements,
    ),
    Form(
        "columns",
        "the same places of many rows come fastest from GatherElements; 0.11 to 0.17",
        cpu_fits.columns,
        _from_index(forms.column_gather, as_given=True),
    ),
    Form(
        "narrow rows",
        "rows of 2 to 4 elements come fastest column by column, transposed; 0.21 to 0.68",
        cpu_fits.narrow,
        _build_narrow,
    ),
    Form(
        "row numbers",
        "short rows come faster from Gather by row number than from GatherND; 0.35 to 0.50",
        cpu_fits.short,
        _build_short,
    ),
    Form(
        "narrow elements",
        "GatherElements costs 15 ns a row, so narrow rows are joined to one; 0.21 to 0.88",
        cpu_fits.narrow_elements,
        _from_index(forms.narrow_elements),
    ),
    Form(
        "turned elements",
        "GatherElements costs 15 ns a row, so the indexed dimension goes last; 0.11 to 0.16",
        cpu_fits.turned,
        _from_index(forms.turned_elements),
    ),
    Form(
        "slices",
        "scattered reads are faster from a slice copied into the cache; 0.26 to 0.40",
        cpu_fits.slices,
        _from_index(forms.slice_by_slice),
    ),
    Form(
        "guarded",
        "while all indices are in range, the policy costs a look at the indices; 0.08 to 1.3",
        cpu_fits.guarded,
        _build_guarded,
    ),
    Form(
        "natural",
        "ONNX's own operator, with indices limited in 32 bits; 0.35 to 1.0",
        cpu_fits.natural,
        _build_natural,
    ),
)
"""The forms, in the order tried. What none of them fits is lowered as for every provider."""
