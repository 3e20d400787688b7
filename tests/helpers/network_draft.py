"""A random ONNX model that grows node by node, in two worlds of sizes at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, TypeAlias, TypeVar, cast

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from onnxgather.core.descriptors.arrays import Array

TYPES = (
    "int64",
    "int64",
    "int64",
    "int32",
    "float32",
    "float32",
    "float64",
    "float16",
    "bool",
    "uint8",
    "uint64",
    "int8",
    "uint32",
)
INTEGERS = ("int64", "int32", "uint8", "uint64", "int8", "uint32")
FLOATS = ("float32", "float64", "float16")

OPSETS = (
    *(17,) * 6,
    7,
    8,
    9,
    10,
    11,
    11,
    12,
    13,
    13,
    14,
    15,
    16,
    18,
    18,
    19,
    20,
    21,
    21,
    22,
    23,
)
MOST_ELEMENTS = 4000
"""The most elements of a value."""

Style = Literal["calm", "near", "wild"]
"""Of elements: 0 and 1; small numbers; the ends of the type, NaN and infinities too."""

Feeds = dict[str, Array]
Option = TypeVar("Option")


class RefusedError(Exception):
    """ONNX Runtime refuses a node."""


def numbers(
    random: Random, dtype: str, shape: Sequence[int], style: Style = "wild"
) -> Array:
    """Random elements of a type."""
    wild = style == "wild"
    near: list[Any] = [0, 0, 1, 1, 2, 3, 5, 7, 63, -1, -2, -5]
    if dtype == "bool" or style == "calm":
        choices = [0, 1]
    elif dtype in INTEGERS:
        info = np.iinfo(dtype)
        far = [
            2**31 - 1,
            2**31,
            2**31 + 5,
            2**32 - 1,
            2**32,
            -(2**31),
            -(2**31) - 1,
            -(2**32),
        ]
        choices = [
            *near,
            *[*far, int(info.min), int(info.max), int(info.max) - 1] * wild,
        ]
        choices = [n for n in choices if info.min <= n <= info.max]
    else:
        choices = [*near, 0.5, 1.5, 2.5, -0.5, 0.1]
        choices += [np.nan, np.inf, -np.inf, 6e4, -6e4] * wild
        choices += [1e30, -1e30, 2.0**63, 1e-30] * (wild and dtype != "float16")
    count = int(np.prod(shape))
    return np.array(random.choices(choices, k=count), dtype=dtype).reshape(shape)


def sizes(random: Random, rank: int | None = None) -> list[int]:
    """Random sizes of at most four dimensions, seldom empty."""
    rank = random.choice([0, 1, 1, 2, 2, 3]) if rank is None else rank
    return [
        random.choice([1, 1, 2, 2, 3, 3, 4, 5, 0 if random.random() < 0.3 else 2])
        for _ in range(rank)
    ]


def session(
    model: onnx.ModelProto, level: int = 0, off: Sequence[str] = (), kept: str = ""
) -> Any:
    """A session on ONNX Runtime's CPU provider, with one thread.

    Args:
        model: The model.
        level: Of the graph optimizations: 0 none, 1 basic, 2 extended, 3 all.
        off: The optimizers that are turned off.
        kept: The file for the graph that runs; "" for none.
    """
    runtime: Any = onnxruntime
    options = runtime.SessionOptions()
    names = (
        "ORT_DISABLE_ALL",
        "ORT_ENABLE_BASIC",
        "ORT_ENABLE_EXTENDED",
        "ORT_ENABLE_ALL",
    )
    options.graph_optimization_level = getattr(
        runtime.GraphOptimizationLevel, names[level]
    )
    options.log_severity_level = 4
    options.optimized_model_filepath = kept
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    return runtime.InferenceSession(
        model.SerializeToString(),
        options,
        providers=providers,
        disabled_optimizers=[*off],
    )


def results(session: Any, inputs: Feeds) -> Feeds:
    """The outputs of a session, by name."""
    names = [output.name for output in session.get_outputs()]
    fed = {i.name: inputs[i.name] for i in session.get_inputs()}
    return dict(zip(names, session.run(names, fed), strict=True))


def run(model: onnx.ModelProto, inputs: Feeds) -> Feeds:
    """The outputs of a model, with optimizations off."""
    return results(session(model), inputs)


def data_type(array: Array) -> int:
    """ONNX's number of the type of an array."""
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def captured(node: onnx.NodeProto) -> set[str]:
    """The names that a node reads, those of its bodies too."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        if attribute.HasField("g"):
            inner = {i.name for i in attribute.g.input} | {
                i.name for i in attribute.g.initializer
            }
            inner |= {name for child in attribute.g.node for name in child.output}
            read = {o.name for o in attribute.g.output}.union(
                *map(captured, attribute.g.node)
            )
            names |= read - inner
    return names


def leading(
    nodes: Sequence[onnx.NodeProto], wanted: Iterable[str]
) -> list[onnx.NodeProto]:
    """The nodes that lead to values."""
    needed, kept = {*wanted}, list[onnx.NodeProto]()
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output):
            kept.append(node)
            needed |= captured(node)
    return kept[::-1]


SHIFTED = ([("Add", "x y", "sum"), ("Abs", "sum", "shifted")], "x y", "shifted")
PICKED = (
    [
        ("Shape", "table", "all"),
        ("Slice", "all zero one zero", "rows"),
        ("Mod", "i rows", "kept"),
        ("Gather", "table kept", "picked"),
    ],
    "table i zero one",
    "picked",
)
FUNCTIONS = {"Shifted": SHIFTED, "Picked": PICKED}
"""Functions of the models: nodes, inputs, outputs."""


def function_proto(name: str, opset: int) -> onnx.FunctionProto:
    """A function of a model."""
    rows, inputs, outputs = FUNCTIONS[name]
    nodes = [
        helper.make_node(op, i.split(), o.split(), name=f"{name}.{o}")
        for op, i, o in rows
    ]
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_function(
        "local", name, inputs.split(), outputs.split(), nodes, opsets
    )


TO_ATTRIBUTES: dict[str, tuple[int, dict[int, str]]] = {
    "Clip": (11, {1: "min", 2: "max"}),
    "Pad": (11, {1: "pads", 2: "value"}),
    "ReduceSum": (13, {1: "axes"}),
    "Slice": (10, {1: "starts", 2: "ends", 3: "axes"}),
    "Split": (13, {1: "split"}),
    "Squeeze": (13, {1: "axes"}),
    "TopK": (10, {1: "k"}),
    "Unsqueeze": (13, {1: "axes"}),
}
"""The inputs of operators that are attributes before an opset."""

REDUCTIONS = ("ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean", "ReduceL1")
"""The reductions whose axes are an input from opset 18 on."""


@dataclass
class Input:
    """A graph input."""

    dtype: str
    dims: list[int | str]
    """A name stands for an open size, which each draw of sizes tells."""
    declared: list[int | str | None] | None
    """The sizes in the model: a name, or None for an open one without a name."""

    def shape(self, sizes: dict[str, int]) -> list[int]:
        """The sizes in a draw."""
        return [sizes[n] if isinstance(n, str) else n for n in self.dims]


Part: TypeAlias = "str | float | Sequence[Any] | Array | np.number[Any]"
"""What a node takes: the name of a value, or the elements of a constant."""


@dataclass
class Draft:
    """A model that grows node by node, with the values of its runs in worlds of sizes.

    What runs in two worlds, whose open sizes differ, most often runs in any.
    """

    random: Random
    opset: int = 17
    worlds: list[Feeds] = field(default_factory=lambda: [{}])
    sizes: list[dict[str, int]] = field(default_factory=lambda: [{}])
    """The open sizes, in each world."""
    inputs: dict[str, Input] = field(default_factory=dict[str, Input])
    constants: Feeds = field(default_factory=Feeds)
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    functions: list[onnx.FunctionProto] = field(
        default_factory=list[onnx.FunctionProto]
    )
    value_infos: list[onnx.ValueInfoProto] = field(
        default_factory=list[onnx.ValueInfoProto]
    )
    """Sizes that the model declares, though nothing checks them."""
    sequences: dict[str, tuple[onnx.TypeProto, list[Array]]] = field(
        default_factory=dict[str, "tuple[onnx.TypeProto, list[Array]]"]
    )
    """The graph inputs that are sequences: the type that the model declares, and the
    elements."""
    wild: set[str] = field(default_factory=set[str])
    """The values that other inputs change, but for their sizes: no sizes, and no
    divisors."""
    names: Iterator[str] = field(
        default_factory=lambda: (f"v{k}" for k in itertools.count())
    )
    label: str = "random"
    """The start of the names of nodes: what chain they are of."""

    def chance(self, share: float) -> bool:
        """Whether a random number is below a share."""
        return self.random.random() < share

    def choice(self, options: Sequence[Option]) -> Option:
        return self.random.choice(options)

    def randint(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    def randrange(self, *ends: int) -> int:
        return self.random.randrange(*ends)

    @property
    def values(self) -> Feeds:
        """The values in the first world."""
        return self.worlds[0]

    def open_axes(self, name: str) -> list[int]:
        """The axes of a value whose sizes are open."""
        shapes = zip(*(world[name].shape for world in self.worlds), strict=False)
        return [axis for axis, found in enumerate(shapes) if len({*found}) > 1]

    def open_size(self, name: str, numbers: Sequence[int]) -> str:
        """Add an open size, with its number in each world; returns its name."""
        for world, number in zip(self.sizes, numbers, strict=True):
            world[name] = number
        return name

    def input(
        self,
        dtype: str = "",
        dims: Sequence[int | str] | None = None,
        style: Style | None = None,
    ) -> str:
        """Add a graph input; returns its name."""
        name, dtype = next(self.names), dtype or self.choice(TYPES)
        if dims is None:
            fixed = sizes(self.random)
            opens = [*self.sizes[0]]
            dims = [
                self.choice(opens) if opens and self.chance(0.7) else n for n in fixed
            ]
        unnamed = self.random.random()
        declared: list[int | str | None] | None = [
            None if isinstance(n, str) and unnamed < 0.3 else n for n in dims
        ]
        if unnamed < 0.03:
            declared = None
        self.inputs[name] = Input(dtype, [*dims], declared)
        style = style or self.choice(["near", "wild"])
        for world, drawn in zip(self.worlds, self.sizes, strict=True):
            world[name] = numbers(
                self.random, dtype, self.inputs[name].shape(drawn), style
            )
        self.wild.add(name)
        return name

    def sequence_input(self, declared: onnx.TypeProto, elements: list[Array]) -> str:
        """Add a graph input that is a sequence; returns its name."""
        name = next(self.names)
        self.sequences[name] = declared, elements
        return name

    def constant(self, array: Any, dtype: str = "int64") -> str:
        """Add a constant; returns its name."""
        name = next(self.names)
        self.constants[name] = np.asarray(array, dtype)
        for world in self.worlds:
            world[name] = self.constants[name]
        return name

    def small(self, dtype: str, shape: Sequence[int] = ()) -> str:
        """A constant of small numbers."""
        return self.constant(numbers(self.random, dtype, shape, "near"), dtype)

    def pick(self, *dtypes: str, rank: int = 0) -> str:
        """The name of a value of a type and at least a rank; a new constant where there
        is none."""
        fits = [
            name
            for name, array in self.values.items()
            if (not dtypes or str(array.dtype) in dtypes) and array.ndim >= rank
        ]
        if fits and self.chance(0.9):
            return self.choice(fits[-8:] if self.chance(0.7) else fits)
        dtype = self.choice(dtypes or TYPES)
        shape = sizes(self.random, max(rank, self.choice([0, 1, 2])))
        return self.constant(numbers(self.random, dtype, shape), dtype)

    def like(self, name: str) -> str:
        """A value of the same type that broadcasts with another one."""
        array = self.values[name]
        fits = list[str]()
        for other, candidate in self.values.items():
            if candidate.dtype == array.dtype and self.chance(0.5):
                try:
                    for world in self.worlds:
                        np.broadcast_shapes(world[other].shape, world[name].shape)
                except ValueError:
                    continue
                fits.append(other)
        if fits and self.chance(0.7):
            return self.choice(fits)
        kept = {*range(array.ndim)}.difference(self.open_axes(name))
        shape = [
            n if axis in kept and self.chance(0.5) else 1
            for axis, n in enumerate(array.shape)
        ]
        style: Style = "wild" if self.chance(0.3) else "near"
        return self.constant(
            numbers(self.random, str(array.dtype), shape, style), str(array.dtype)
        )

    def known(self, rank: int) -> list[str]:
        """The INT64 values of a rank that other inputs do not change."""
        return [
            name
            for name, array in self.values.items()
            if array.dtype == "int64" and array.ndim == rank and name not in self.wild
        ]

    def least_size(self, name: str, axis: int) -> int:
        """The least size of an axis in the worlds."""
        return min(world[name].shape[axis] for world in self.worlds)

    def axis(self, name: str) -> int:
        """An axis of a value, from the front or from the end."""
        rank = self.values[name].ndim
        return self.randrange(-rank, rank)

    def of(self, part: Part) -> str:
        """The name of a part of a node: of a new constant, if it is none."""
        if isinstance(part, str):
            return part
        array = np.asarray(part)
        if array.dtype == np.float64 and not isinstance(part, np.ndarray | np.generic):
            array = array.astype(np.float32)
        return self.constant(array, str(array.dtype) if array.size else "int64")

    def op(
        self, operator: str, *inputs: Part, domain: str = "", **attributes: Any
    ) -> str:
        """Add a node with one output; returns its name.

        Raises:
            RefusedError: ONNX Runtime refuses it.
        """
        return self.ops(operator, 1, *inputs, domain=domain, **attributes)[0]

    def ops(
        self,
        operator: str,
        count: int,
        *inputs: Part,
        domain: str = "",
        **attributes: Any,
    ) -> list[str]:
        """Add a node with some outputs; returns their names.

        Raises:
            RefusedError: ONNX Runtime refuses it.
        """
        node = self.node(operator, [*map(self.of, inputs)], count, domain, **attributes)
        self.append([node], node.output)
        return [*node.output]

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        count: int = 1,
        domain: str = "",
        **attributes: Any,
    ) -> onnx.NodeProto:
        """A node as the opset of the model has it, from one of opset 17; it is not
        added."""
        outputs, names = [next(self.names) for _ in range(count)], [*inputs]
        before, moved = TO_ATTRIBUTES.get(operator, (0, {}))
        if self.opset < before:
            for k, attribute in moved.items():
                if k < len(names) and names[k] in self.constants:
                    attributes[attribute] = self.constants[names[k]].tolist()
                    if operator == "TopK":
                        (attributes[attribute],) = attributes[attribute]
                    if operator in ("Clip", "Pad") and attribute != "pads":
                        attributes[attribute] = float(attributes[attribute])
            if operator == "Slice" and any(
                (self.of_constant(n) != 1).any() for n in names[4:]
            ):
                raise RefusedError("Slice has no steps")
            names = [names[0]]
            attributes.pop("noop_with_empty_axes", None)
        if self.opset < 14:
            attributes.pop("allowzero", None) if operator == "Reshape" else None
        if self.opset >= 18 and operator in REDUCTIONS and "axes" in attributes:
            names.append(self.constant(attributes.pop("axes")))
        if self.opset >= 18 and operator == "Split" and len(names) == 1:
            attributes["num_outputs"] = count
        name = f"{self.label}.{operator}.{outputs[0]}"
        return helper.make_node(
            operator, names, outputs, name=name, domain=domain, **attributes
        )

    def of_constant(self, name: str) -> Array:
        """The array of a constant; 0 where it is none."""
        return self.constants.get(name, np.zeros(1))

    def append(self, nodes: Sequence[onnx.NodeProto], outputs: Iterable[str]) -> None:
        """Add nodes, of which some outputs are seen by others.

        Raises:
            RefusedError: ONNX Runtime refuses them.
        """
        wanted = [*outputs]
        try:
            made = session(self.model(nodes, wanted, None))
            found = [results(made, world) for world in self.worlds]
        except Exception as error:  # whatever ONNX Runtime raises
            raise RefusedError(str(error)) from error
        for values in found:
            arrays = [*values.values()]
            if not all(
                isinstance(array, np.ndarray) for array in cast("list[Any]", arrays)
            ):
                raise RefusedError("a value is no tensor")
            if any(array.size > MOST_ELEMENTS for array in arrays):
                raise RefusedError("a value is too large")
        self.nodes.extend(nodes)
        for world, values in zip(self.worlds, found, strict=True):
            world |= values
        for node in nodes:
            if node.op_type not in ("Shape", "Size") and captured(node) & self.wild:
                self.wild |= {*node.output}

    def end(self, node: onnx.NodeProto) -> None:
        """Add a node whose outputs are not seen, as it may fail.

        Raises:
            RefusedError: ONNX Runtime refuses this node. Of a node that follows others
                nothing is said.
        """
        if captured(node) <= self.values.keys():
            try:
                session(self.model([node], node.output, None))
            except Exception as error:  # whatever ONNX Runtime raises
                raise RefusedError(str(error)) from error
        self.nodes.append(node)

    def model(
        self,
        nodes: Sequence[onnx.NodeProto],
        outputs: Iterable[str],
        declared: dict[str, Any] | None,
    ) -> onnx.ModelProto:
        """A model of some of the nodes.

        Args:
            nodes: The nodes.
            outputs: The names of the outputs.
            declared: The sizes of graph inputs, by name; None: the model tells no
                sizes.
        """
        used = {name for node in nodes for name in captured(node)}
        made = {name for node in nodes for name in node.output}
        infos = list[onnx.ValueInfoProto]()
        for name in sorted(used - made - self.constants.keys()):
            if name in self.sequences:
                infos.append(helper.make_value_info(name, self.sequences[name][0]))
                continue
            dims = declared.get(name) if declared is not None else None
            infos.append(
                helper.make_tensor_value_info(name, data_type(self.values[name]), dims)
            )
        initializers = [
            numpy_helper.from_array(self.constants[n], n)
            for n in sorted(used & self.constants.keys())
        ]
        is_old = self.opset < 9 and declared is not None
        if is_old:  # initializers are inputs, too
            infos += [
                helper.make_tensor_value_info(t.name, t.data_type, [*t.dims])
                for t in initializers
            ]
        told = {info.name: info for info in self.value_infos if declared is not None}
        ends = [told.pop(name, onnx.ValueInfoProto(name=name)) for name in outputs]
        graph = helper.make_graph(
            nodes, "random", infos, ends, initializers, value_info=[*told.values()]
        )
        domains = {node.domain for node in nodes}
        functions = [
            function_proto(n, self.opset) for n in FUNCTIONS if "local" in domains
        ]
        functions += self.functions
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [
            helper.make_opsetid(d, 1) for d in sorted({"local", *domains} - {""})
        ]
        version = 3 if is_old and not functions else 8
        version = (
            11
            if self.opset >= 23
            else 10
            if self.opset >= 21
            else 9
            if self.opset >= 19
            else version
        )
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=version, functions=functions
        )
