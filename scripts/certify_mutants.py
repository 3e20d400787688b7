"""Changes models in one place, and tells whether certificates see what matters.

    python scripts/certify_mutants.py --count 2000 --seed 23112026

The models are those of descriptors of the corpus and of random ones, with any policy,
for the targets portable, cpu and webgpu. A change is a constant with an element one
larger or smaller, two inputs of a node in the other order, a Clip without a bound, a
Cast to another type, an axis one larger or smaller, another operator of the same kind,
a node that is left out, so that one of its inputs is passed on, or a gather of which a
Shape or a Size is taken, too. A changed model counts if ONNX Runtime opens it at
some level of optimization.

Each changed model is certified against the descriptor of the model. Apart from that it
is run on the CPU provider at each level of optimization, with indices in range, at the
ends of the axes and around powers of two, and compared with the reference: the bytes,
and whether the run fails. It prints how many changed models

- are proved though they differ: there must be none;
- are proved, and do not differ: the change changes nothing;
- are refuted: each has a counterexample that was run on the CPU provider;
- are undecided, with what stopped the certificate, and how many of them differ;
- make the certificate crash: there must be none.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache, partial
from operator import setitem
from typing import NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus.built_in import built_in_cases
from onnxgather.checking.corpus.sampling import random_cases
from onnxgather.core.descriptors.arrays import Array, axis_sizes
from onnxgather.core.descriptors.sample_values import data_values
from onnxgather.core.errors import IndexOutOfRangeError
from onnxgather.core.execution.runtime import (
    CPU,
    FailedError,
    NotRunError,
    Opened,
    RefusedError,
    Setup,
)
from onnxgather.core.model.quirks import OPTIMIZATION_LEVELS
from onnxgather.core.options import OutOfRange, Target
from onnxgather.proving.certify import certify

POLICIES: tuple[OutOfRange, ...] = ("clamp", "zero", "error", "directml")
TARGETS: tuple[Target, ...] = ("portable", "cpu", "webgpu")

TRIES = 60
"""How often a changed model is run to find indices with which it differs."""

TYPES = (
    TensorProto.INT64,
    TensorProto.INT32,
    TensorProto.UINT64,
    TensorProto.UINT32,
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.FLOAT16,
)
"""What a Cast may become."""

GATHERS = ("Gather", "GatherElements", "GatherND")

ALIKE = (
    ("Add", "Sub", "Mul"),
    ("Min", "Max"),
    ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"),
    ("And", "Or"),
    ("Div", "Mod"),
)
"""Operators with inputs alike."""

Change = tuple[str, Callable[[], None]]
"""What a change is, and what makes it."""


class Mutant(NamedTuple):
    """A changed model that ONNX Runtime opens."""

    name: str
    desc: og.Descriptor
    policy: OutOfRange
    model: onnx.ModelProto
    opened: Mapping[str, Opened | None]
    """The model at each level of optimization; None where ONNX Runtime refuses it."""


class Verdict(NamedTuple):
    """What came of a mutant."""

    name: str
    state: str
    why: str
    differs: bool
    levels: Sequence[str] = ()
    """The levels of optimization at which a run showed that the model differs."""


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and those of the bodies in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from graphs_of(attribute.g)


def changes(model: onnx.ModelProto) -> list[Change]:
    """Return all changes of a model; of constants, one for each constant and sign."""
    own: list[Change] = []
    for graph in graphs_of(model.graph):
        own += _changes(graph)
    return own


def _changes(graph: onnx.GraphProto) -> Iterator[Change]:
    for tensor in graph.initializer:
        for step in (1, -1):
            yield f"{tensor.name} by {step}", partial(_add, tensor, step)
    for node in graph.node:
        what = f"{node.op_type} {node.name or node.output[0]}"
        for k in range(1, len(node.input)):
            if node.input[k] != node.input[k - 1]:
                yield f"{what} swapped", partial(_swap, node, k)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.INT and attribute.name != "to":
                for step in (1, -1):
                    changed = partial(setattr, attribute, "i", attribute.i + step)
                    yield f"{what} {attribute.name} by {step}", changed
            for dtype in TYPES if attribute.name == "to" else ():
                if dtype != attribute.i:
                    name = TensorProto.DataType.Name(dtype)
                    yield f"{what} to {name}", partial(setattr, attribute, "i", dtype)
        for operator in next((row for row in ALIKE if node.op_type in row), ()):
            if operator != node.op_type:
                yield (
                    f"{what} as {operator}",
                    partial(setattr, node, "op_type", operator),
                )
        for operator in ("Shape", "Size") if node.op_type in GATHERS else ():
            yield (
                f"{what} beside its {operator}",
                partial(_sized, graph, node, operator),
            )
        if node.op_type == "Clip":
            for k in range(1, len(node.input)):
                yield f"{what} without a bound", partial(setitem, node.input, k, "")
        for name in dict.fromkeys(node.input):
            passed = partial(_pass, graph, node.output[0], name)
            yield f"{what} left out for {name}", passed


def _sized(graph: onnx.GraphProto, node: onnx.NodeProto, operator: str) -> None:
    """Take a Shape or a Size of a gather that nothing uses."""
    output = node.output[0]
    graph.node.append(helper.make_node(operator, [output], [f"{output}_sized"]))


def _add(tensor: onnx.TensorProto, step: int) -> None:
    """Change an element, that in the middle, by one."""
    array = numpy_helper.to_array(tensor).copy()
    flat = array.reshape(-1)
    if flat.size:
        flat[flat.size // 2] += np.array(step).astype(array.dtype)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _swap(node: onnx.NodeProto, k: int) -> None:
    node.input[k], node.input[k - 1] = node.input[k - 1], node.input[k]


def _pass(graph: onnx.GraphProto, output: str, name: str) -> None:
    """Leave a node out, so that an input is passed on."""
    kept = [node for node in graph.node if output not in node.output]
    for node in kept:
        for k, own in enumerate(node.input):
            if own == output:
                node.input[k] = name
    if output in {value.name for value in graph.output}:
        kept.append(helper.make_node("Identity", [name], [output]))
    del graph.node[:]
    graph.node.extend(kept)


@cache
def corpus() -> list[DescriptorCase]:
    """Return the cases of the corpus that have descriptors."""
    return [case for case in built_in_cases() if isinstance(case, DescriptorCase)]


def mutants(seed: str) -> Iterator[Mutant]:
    """Yield mutants of one model after another."""
    draw = random.Random(seed)
    while True:
        if draw.random() < 0.5:
            case = draw.choice(corpus())
        else:
            case = next(random_cases(1, draw.getrandbits(32)))
        policy, target = draw.choice(POLICIES), draw.choice(TARGETS)
        model = og.to_onnx(case.descriptor, policy, target)
        own = changes(model)
        # As there are many changes of one kind, a word is drawn before a change is.
        of_words: dict[str, list[Change]] = {}
        for change in own:
            first, *_, word, _ = change[0].split()
            of_words.setdefault(word + first, []).append(change)
        what, change = draw.choice(of_words[draw.choice(sorted(of_words))])
        change()
        for graph in graphs_of(model.graph):
            del graph.value_info[:]
        opened = opened_at_levels(model)
        if not any(opened.values()):
            continue
        name = f"{case.name} {policy} {target}: {what}"
        yield Mutant(name, case.descriptor, policy, model, opened)


def opened_at_levels(model: onnx.ModelProto) -> dict[str, Opened | None]:
    """Return a model at each level of optimization; None where it is refused.

    A level is left out at which no node is left to run.
    """
    content = model.SerializeToString()
    opened: dict[str, Opened | None] = {}
    for level, number in OPTIMIZATION_LEVELS.items():
        try:
            opened[level] = Opened(content, Setup(CPU, threads=1, level=number))
        except RefusedError:
            opened[level] = None
        except NotRunError:
            continue
    return opened


def indices_of(desc: og.Descriptor, draw: random.Random) -> Array:
    """Return indices in range, near the ends of the axes and around powers of two."""
    tensor = desc.indices_tensor
    info = np.iinfo(tensor.data_type.numpy)
    sizes = axis_sizes(desc)
    if draw.random() < 0.5:
        near = {
            k * n + more for n in sizes for k in range(-2, 3) for more in (-1, 0, 1)
        }
    else:
        powers = [2**k for k in (8, 15, 16, 24, 31, 32, 53, 63, 64)]
        powers += [-power for power in powers]
        near = {power + more for power in powers for more in (-1, 0, 1, *sizes)}
    held = sorted(n for n in near if info.min <= n <= info.max)
    inside = range(-min(sizes) if info.min else 0, min(sizes))
    share = draw.choice((0, 0.3, 1))
    count = int(np.prod(tensor.array_shape))
    drawn = [
        draw.choice(held if draw.random() < share else inside) for _ in range(count)
    ]
    return np.array(drawn, tensor.data_type.numpy).reshape(tensor.array_shape)


def told(output: Array | None) -> object:
    """Return the type, the shape and the bytes of an output; None if it is an error."""
    return None if output is None else (output.dtype, output.shape, output.tobytes())


def differing_levels(mutant: Mutant, draw: random.Random) -> list[str]:
    """Return the levels at which some indices show that a mutant differs.

    These are the levels that the first such indices show; none if no indices do.
    """
    tensor = mutant.desc.input_tensor
    for number in range(TRIES):
        data = data_values(
            tensor.data_type.numpy, tensor.array_shape, "distinct", number
        )
        indices = indices_of(mutant.desc, draw)
        try:
            expected = og.reference(mutant.desc, data, indices, mutant.policy)
        except IndexOutOfRangeError:
            expected = None
        levels: list[str] = []
        for level, opened in mutant.opened.items():
            found = None
            with suppress(FailedError):
                if opened:
                    found = opened.run({"InputTensor": data, "IndicesTensor": indices})
            if told(expected) != told(found):
                levels.append(level)
        if levels:
            return levels
    return []


def judged(seed: int, timeout: float, number: int) -> Verdict:
    """Certify the mutant with a number."""
    mutant = next(mutants(f"{seed}/{number}"))
    try:
        found = certify(mutant.desc, mutant.policy, model=mutant.model, timeout=timeout)
        state, why = found.state, found.why
    except Exception as error:  # it counts, and the others are still judged
        state, why = "crashed", repr(error)
    if state == "refuted":
        return Verdict(mutant.name, state, why, True)
    levels = differing_levels(mutant, random.Random(number))
    return Verdict(mutant.name, state, why, bool(levels), levels)


def main() -> int:
    """Print what came of the mutants; 1 if one that differs is proved."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--count", type=int, default=2000)
    add("--seed", type=int, default=23112026)
    add("--jobs", type=int, default=2)
    add("--timeout", type=float, default=20, help="seconds for a certificate")
    args = parser.parse_args()
    states, reasons = Counter[str](), Counter[str]()
    with ProcessPoolExecutor(args.jobs) as pool:
        made = pool.map(partial(judged, args.seed, args.timeout), range(args.count))
        for number, one in enumerate(made, 1):
            state = f"{one.state}{' and different' if one.differs else ''}"
            states[state] += 1
            if one.why:
                why = one.why.split(" [")[0]
                reasons[f"{why}{', different' if one.differs else ''}"] += 1
            where = f" at {', '.join(one.levels)}" if one.levels else ""
            line = f"{number} {state}{where}: {one.name}: {one.why}"
            print(line, file=sys.stderr, flush=True)
    for state, count in states.most_common():
        print(f"{state}: {count} of {args.count}")
    for reason, count in reasons.most_common():
        print(f"    {count}: {reason}")
    is_wrong = {"crashed", "crashed and different", "proved and different"}
    return int(not is_wrong.isdisjoint(states))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
