"""Any ONNX model as plain data: its graphs, subgraphs and called functions, types and constants."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxgather.core.checks import (
    check_type,
    listed,
    mapping,
    sequence,
    shown,
    suggestion,
    uint,
    uints,
)
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.files import reason
from onnxgather.core.gather import ATTRIBUTES
from onnxgather.core.model.protos import (
    Key,
    all_nodes,
    bodies_of,
    domain_of,
    key_of,
    operators,
)
from onnxgather.core.model.values import ValueType, load, name_of, numbers_in

MOST_NODES = 300_000
"""The most nodes that a model may have."""

MOST_COPIES = 20_000
"""The most nodes that calls may add to those of a model, as each call copies its
function."""

MOST_CALLS = 50
"""The most functions that may call one another, the last one called by all others."""

NEWEST_IR, NEWEST_OPSET = (
    max(14, onnx.IR_VERSION),
    max(28, onnx.defs.onnx_opset_version()),
)
"""The newest versions of the format and of ONNX's operators that onnx or ONNX Runtime
1.32 know."""


MAIN = "main graph"

OF_PROVIDERS = ("ai.onnx", "com.microsoft", "com.ms.", "org.pytorch.aten")
"""How the domains start, besides ONNX's own, whose operators ONNX Runtime may have: it
then runs the operator, and ignores a function of the same name."""

Dimensions = tuple[int | str, ...]
"""The sizes of a value: numbers, or the names of those that are open."""

MAY_DO_NOTHING = (
    *("Add", "Cast", "Div", "Dropout", "Expand", "Identity", "Mul", "Reshape", "Slice"),
    *("Squeeze", "Sub", "Unsqueeze"),
)
"""The operators that ONNX Runtime leaves out where they change nothing."""

_STORED: Mapping[int, int] = {
    onnx.TensorProto.BOOL: 1,
    onnx.TensorProto.FLOAT16: 2**16 - 1,
}
"""The largest number of int32_data of which onnx and ONNX Runtime make the same
element."""

_BODIES = {"If": {"then_branch", "else_branch"}, "Loop": {"body"}, "Scan": {"body"}}
"""The bodies that nodes must have."""


@dataclass(frozen=True, eq=False, slots=True)
class Operation:
    """An operation of a scope, made from a node of ONNX."""

    name: str
    operator: str
    domain: str
    """"" is ONNX's own, ai.onnx."""
    inputs: tuple[str, ...]
    """The names of values; "" is an input that is left out."""
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    """Numbers, texts, arrays, tuples of them. A Constant has none; it is its graph's
    `constant`."""
    bodies: Mapping[str, Scope]
    """The bodies by attribute, such as then_branch. A call of a model-local function
    has the body "function": its inputs and outputs are those of the node, in their
    order."""
    proto: onnx.NodeProto = field(default_factory=onnx.NodeProto)
    """For the modules of this package."""
    is_embedding: bool = False
    """Whether ONNX Runtime may make a Gather a part of an EmbedLayerNormalization."""

    @property
    def label(self) -> str:
        """The name of the node, or of its first output where the node has none."""
        return self.name or next(iter(self.outputs), "")

    @property
    def is_gather(self) -> bool:
        """Whether it is one of ONNX's gathers."""
        return self.operator in ATTRIBUTES and not self.domain

    @property
    def number(self) -> int:
        """Of a gather: its `axis`, which may count from the end, or its `batch_dims`."""
        return int(self.attributes.get(ATTRIBUTES[self.operator], 0))


@dataclass(eq=False, slots=True)
class Scope:
    """The main graph, a subgraph, or the body of a function in one of its calls."""

    where: str
    """Such as "main graph", or "then_branch of if_1"."""
    inputs: tuple[str, ...] = ()
    """Without the initializers of a graph that lists them here too, as old models
    do."""
    outputs: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()
    types: dict[str, ValueType] = field(default_factory=dict[str, ValueType])
    """The types of the values of this scope."""
    outer: Scope | None = None
    """Where the values are that this graph takes by their names; None for a function
    too."""
    place: str = ""
    """As `where`, but the same for each call of a function, such as "function
    own.Pick"."""
    proto: onnx.GraphProto = field(default_factory=onnx.GraphProto)
    """For the modules of this package."""
    stored: dict[str, onnx.TensorProto] = field(
        default_factory=dict[str, onnx.TensorProto]
    )
    """The constants of this graph that are not sparse."""
    defaults: dict[str, onnx.TensorProto] = field(
        default_factory=dict[str, onnx.TensorProto]
    )
    """What inputs of the main graph hold where they are not given."""
    path: str = ""
    """The file of the model."""
    declared: dict[str, Dimensions] = field(default_factory=dict[str, Dimensions])
    """The sizes that the graph declares for values, which nothing checks but ONNX
    Runtime may believe."""
    opsets: Mapping[str, int] = field(default_factory=dict[str, int])
    """The versions of the operators, by domain."""

    @property
    def version(self) -> int:
        """The version of ONNX's own operators; the newest where the model names none."""
        return self.opsets.get("", NEWEST_OPSET)

    def constant(self, name: str) -> Array | None:
        """The array of an initializer or of a Constant node, of an outer graph too.

        The array is read now, from another file where it is there. None where the value
        is neither a constant nor an input with a default, or a sparse one.

        Raises:
            OnnxGatherError: It cannot be read.
        """
        tensor = self.tensor(name)
        if tensor is None:
            return None
        with reading(self.path, name):
            return array_of_tensor(tensor, folder_of(self.path))

    def tensor(self, name: str) -> onnx.TensorProto | None:
        """What `constant` reads."""
        owner = self.owner(name)
        return owner.stored.get(name, owner.defaults.get(name)) if owner else None

    def is_constant(self, name: str) -> bool:
        """Whether a value is a constant that `constant` reads."""
        owner = self.owner(name)
        return owner is not None and name in owner.stored

    def type_of(self, name: str) -> ValueType:
        """What is known of a value of this graph or of an outer one."""
        owner = self.owner(name)
        return owner.types.get(name, ValueType()) if owner else ValueType()

    def owner(self, name: str) -> Scope | None:
        """The graph, this one or an outer one, that has a value; None where none has it."""
        if name in self.types:
            return self
        return self.outer.owner(name) if self.outer else None

    def scopes(self) -> Iterator[Scope]:
        """Yield this scope and all scopes in its operations, in the order in which they run."""
        yield self
        for operation in self.operations:
            for scope in operation.bodies.values():
                yield from scope.scopes()


@dataclass(frozen=True, eq=False, slots=True)
class Network:
    """An ONNX model as plain data."""

    path: str
    """The file, or "the model" where it was given as an object."""
    main: Scope
    proto: onnx.ModelProto
    """The model as it was given, for the modules of this package."""
    dimensions: Mapping[str, Dimensions | None]
    """The sizes of the graph inputs."""
    uncalled: Mapping[Key, Scope]
    """The bodies of functions that nothing calls."""

    @property
    def digest(self) -> str:
        """The digest of the model as it was given, the same for a file and the object."""
        content = self.proto.SerializeToString(deterministic=True)
        return f"sha256:{hashlib.sha256(content).hexdigest()}"

    def scopes(self) -> Iterator[Scope]:
        """Yield every scope: the main graph, the bodies inside it, and functions."""
        for scope in (self.main, *self.uncalled.values()):
            yield from scope.scopes()


def uses(scope: Scope) -> set[str]:
    """The names of the values around a scope that the scope takes."""
    used = {*scope.outputs}.union(*map(taken, scope.operations))
    return used - scope.types.keys()


def taken(operation: Operation) -> set[str]:
    """The names of the values that an operation and its bodies take."""
    bodies = (body for name, body in operation.bodies.items() if name != "function")
    return {*operation.inputs}.union(*map(uses, bodies)) - {""}


class _Embeddings:
    """The Gathers of a scope that ONNX Runtime may make a part of an EmbedLayerNormalization.

    From level 2 on these are Gathers whose rows are added, in front of a
    LayerNormalization, which may be in its parts, in front of an Attention, which may
    be in its parts, too. A function and a branch may be put in place of its node.
    """

    def __init__(self, scope: Scope) -> None:
        self.ends = {*scope.outputs} if scope.where != MAIN else set[str]()
        self.consumers = dict[str, list[Operation]]()
        for operation in scope.operations:
            for name in taken(operation):
                self.consumers.setdefault(name, []).append(operation)

    def has(self, gather: Operation) -> bool:
        """Whether an operation is such a Gather."""
        if gather.domain or gather.operator != "Gather":
            return False
        rows, *_ = self._behind(gather.outputs, MAY_DO_NOTHING)
        return any(map(self._is_sum_before, rows)) or self._may_leave(rows)

    def _behind(
        self, names: Iterable[str], through: Collection[str]
    ) -> tuple[set[str], set[str]]:
        """The values that are made of others by some operators, and the operators behind them."""
        wanted, found, operators = [*names], set[str](), set[str]()
        while wanted:
            name = wanted.pop()
            found.add(name)
            for one in self.consumers.get(name, ()):
                operators.add(one.operator)
                wanted += {*one.outputs} - found if one.operator in through else ()
        return found, operators

    def _may_leave(self, names: Iterable[str]) -> bool:
        """Whether others take values: an outer graph, a body or a function."""
        each = [one for name in names for one in self.consumers.get(name, ())]
        return not self.ends.isdisjoint(names) or any(one.bodies for one in each)

    def _is_sum_before(self, name: str) -> bool:
        """Whether what follows a value may become a LayerNormalization and an Attention."""
        each = self.consumers.get(name, [])
        parts = {one.operator for one in each}
        if parts >= {"ReduceMean", "Sub"}:
            return True
        outputs = [
            one.outputs[0] for one in each if one.operator == "LayerNormalization"
        ]
        same, behind = self._behind(outputs, {*MAY_DO_NOTHING} - {"Add"})
        return (
            "Attention" in behind
            or behind >= {"Add", "MatMul"}
            or self._may_leave(same)
        )


def read_network(
    model: str | os.PathLike[str] | onnx.ModelProto | Network,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Network:
    """A model as plain data.

    The sizes of values other than inputs and constants are not known yet; `ranges_of`
    tells them. Those that the model declares play no part, as nothing checks them.

    Args:
        model: A file, or the model itself; or a network, to read it with other sizes.
        shapes: The sizes of graph inputs, by their names.

    Raises:
        OnnxGatherError: The file cannot be read, holds no model, or one that breaks a rule: a name
            stands for two values, a function calls itself, an input has no such sizes.
    """
    rule = "a file, or an onnx.ModelProto"
    check_type("model", model, rule, str, os.PathLike, onnx.ModelProto, Network)
    if isinstance(model, str | os.PathLike):
        path, proto = os.fspath(model), load(os.fspath(model))
    else:
        given = isinstance(model, Network)
        path, proto = (model.path, model.proto) if given else ("the model", model)
    try:
        return _Reader(path, proto).network(shapes_given(shapes))
    except (
        UnicodeError,
        TypeError,
        ValueError,
        KeyError,
    ) as error:  # as onnx checks no message
        said = " ".join(str(error).split())
        raise OnnxGatherError(
            f"{path}: must be an ONNX model, but it is broken: {said}"
        ) from error


def shapes_given(shapes: object) -> dict[str, tuple[int, ...]]:
    """The sizes of graph inputs, checked.

    Raises:
        OnnxGatherError: They are no mapping from names to sizes.
    """
    pairs = (
        (f"shapes[{shown(k)}]", k, sizes)
        for k, sizes in mapping("shapes", shapes).items()
    )
    return {name: uints(where, sequence(where, sizes)) for where, name, sizes in pairs}


@contextmanager
def reading(path: str, value: str) -> Generator[None]:
    """Turn what onnx raises while data is read into an error that names the value."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # onnx raises whatever a broken tensor leads to
        said = (
            reason(error)
            if isinstance(error, OSError)
            else " ".join(str(error).split())
        )
        rule = f"{path}: what leads to {shown(value)} cannot be read"
        raise OnnxGatherError(f"{rule}: {said}") from error


def folder_of(path: str) -> str:
    """The folder where the external data of a model is."""
    return os.path.dirname(os.path.abspath(path))


def array_of_tensor(tensor: onnx.TensorProto, folder: str) -> Array:
    """The array of a tensor, whose data may be in a file of a folder.

    Raises:
        ValueError: The sizes do not fit the data; other errors of onnx too.
    """
    if tensor.data_type not in onnx.TensorProto.DataType.values():
        raise ValueError(
            f"its type must be one of ONNX's, got {name_of(tensor.data_type)}"
        )
    most = _STORED.get(tensor.data_type)
    if most is not None and any(
        not 0 <= number <= most for number in tensor.int32_data
    ):
        raise ValueError(f"int32_data must have numbers from 0 to {most}")
    array = numpy_helper.to_array(tensor, folder)
    if [*array.shape] != [*tensor.dims]:  # numpy takes -1 for the size that is left
        raise ValueError(f"its sizes must be at least 0, got {[*tensor.dims]}")
    return array


def check_names(path: str, graph: onnx.GraphProto) -> None:
    """Check that each name of a graph, not of its subgraphs, is text and stands for one value.

    Raises:
        OnnxGatherError: A name does not.
    """
    initializers = [tensor.name for tensor in graph.initializer]
    inputs = {value.name for value in graph.input}
    made = Counter(name for node in graph.node for name in node.output if name)
    made.update(inputs - {*initializers})
    made.update(
        [*initializers, *(tensor.values.name for tensor in graph.sparse_initializer)]
    )
    texts = {
        text for n in graph.node for text in (n.name, n.op_type, *n.input, *n.output)
    }
    values = (*graph.value_info, *graph.output, *graph.input)
    texts |= made.keys() | {value.name for value in values}
    wrong = [(text, "UTF-8") for text in texts if isinstance(text, bytes)]
    wrong += [(name, f"of one value, got {n}") for name, n in made.items() if n > 1]
    for name, rule in wrong:
        raise OnnxGatherError(f"{path}: name {shown(name)} must be {rule}")


def _check_calls(
    path: str,
    functions: Mapping[Key, onnx.FunctionProto],
    main: Iterable[onnx.NodeProto],
) -> None:
    """Check that no function leads to itself, nor to more calls or nodes than are followed."""
    copied: dict[Key, int] = {}
    held = 0

    def count(nodes: Iterable[onnx.NodeProto], callers: tuple[Key, ...]) -> int:
        nonlocal held
        keys = [*map(key_of, all_nodes(nodes))]
        held += len(keys)
        return len(keys) + sum(
            measure(key, callers) for key in keys if key in functions
        )

    def measure(key: Key, callers: tuple[Key, ...]) -> int:
        if key in callers or len(callers) >= MOST_CALLS:
            rule = f"must not call itself, nor stand behind {MOST_CALLS} calls"
            raise OnnxGatherError(f"{path}: function {shown(key[1])} {rule}")
        if key not in copied:
            copied[key] = count(functions[key].node, (*callers, key))
        return copied[key]

    most = max([count(main, ()), *(measure(key, ()) for key in functions)])
    for rule, number, limit in (
        ("nodes", held, MOST_NODES),
        ("copies of nodes, as each call copies its function", most - held, MOST_COPIES),
    ):
        if number > limit:
            rule = f"must have at most {limit:,} {rule}"
            raise OnnxGatherError(f"{path}: the model {rule}, got {number:,}")


def _check_versions(path: str, model: onnx.ModelProto) -> None:
    """Check the versions that a model names; one without the format's counts as an old one."""
    uint(f"{path}: ir_version", model.ir_version, NEWEST_IR, 0, OnnxGatherError)
    if not model.opset_import:
        raise OnnxGatherError(
            f"{path}: opset_import must name the version of ai.onnx, got none"
        )
    for opset in chain(
        model.opset_import, *(one.opset_import for one in model.functions)
    ):
        if not domain_of(opset):
            name = f"{path}: the opset of ai.onnx"
            uint(name, opset.version, NEWEST_OPSET, 1, OnnxGatherError)


def _check_order(scope: Scope) -> None:
    """Check that the operations of a scope take values that there are, none from itself."""
    order = TopologicalSorter[str]()
    for operation in scope.operations:
        for name in operation.inputs:
            if name and scope.owner(name) is None:
                where = f"{scope.path}: {scope.where}: node {shown(operation.label)}"
                rule = "must take values of its graph or of a graph around it"
                raise OnnxGatherError(f"{where} {rule}, got {shown(name)}")
        for name in {*operation.outputs} - {""}:
            order.add(name, *taken(operation))
    try:
        order.prepare()
    except CycleError as error:
        names = listed([*map(shown, error.args[1])], 10)
        rule = "a value must not lead to itself"
        raise OnnxGatherError(
            f"{scope.path}: {scope.where}: {rule}, got {names}"
        ) from None


def check_input(path: str, inputs: Collection[str], name: str, what: str) -> None:
    """Check that a name is one of a model's graph inputs.

    Raises:
        OnnxGatherError: It is none; the message says `what` was given for it.
    """
    if name not in inputs:
        names, found = (
            ", ".join(map(shown, inputs)),
            shown(name) + suggestion(name, inputs),
        )
        raise OnnxGatherError(
            f"{path}: {what} must be of an input ({names}), got {found}"
        )


def _dimensions(
    path: str,
    inputs: Mapping[str, onnx.ValueInfoProto],
    shapes: Mapping[str, Sequence[int]],
) -> dict[str, Dimensions | None]:
    """The sizes of the inputs of a model, with those that are given.

    An open size has the name of the model where that is an identifier, else that of the
    first dimension with its name. Where a given size is of a name, it holds for the
    name in other inputs too.
    """
    named, firsts = dict[str, Dimensions | None](), dict[str, str]()
    known = dict[int | str, int]()
    for number, (name, value) in enumerate(inputs.items()):
        own = ValueType.of(value)
        dims = [dim.dim_param for dim in value.type.tensor_type.shape.dim]
        start = name if name.isidentifier() else f"input#{number}"
        names = [
            (
                dim
                if dim.isidentifier()
                else firsts.setdefault(dim or f"{start}.{k}", f"{start}.{k}")
            )
            for k, dim in enumerate(dims)
        ]
        pairs = zip(own.sizes or (), names, strict=True)
        sizes = (
            None
            if own.sizes is None
            else tuple(n if m is None else m for m, n in pairs)
        )
        if name in shapes:
            if not own.admits(shapes[name]):
                rule = f"{path}: input {shown(name)} must be {own}"
                raise OnnxGatherError(f"{rule}, got {[*shapes[name]]}")
            known |= dict(zip(sizes or (), shapes[name], strict=False))
            sizes = tuple(shapes[name])
        named[name] = sizes
    for name in shapes:
        check_input(path, inputs, name, "a shape")
    return {
        name: (
            sizes and tuple(n if isinstance(n, int) else known.get(n, n) for n in sizes)
        )
        for name, sizes in named.items()
    }


def _resolved(nodes: Any, given: Mapping[str, onnx.AttributeProto]) -> None:
    """Put the attributes of a call where the nodes of a function refer to them, in place."""
    for node in all_nodes(nodes):
        own = [*node.attribute]
        del node.attribute[:]
        for attribute in own:
            if not attribute.ref_attr_name:
                node.attribute.append(attribute)
            elif attribute.ref_attr_name in given:  # else the operator's default holds
                node.attribute.append(given[attribute.ref_attr_name])
                node.attribute[-1].name = attribute.name


def _plain(attribute: onnx.AttributeProto, folder: str) -> Any:
    """The value of an attribute: a number, a text, an array, or a tuple of them."""
    value = helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        return array_of_tensor(value, folder)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, Sequence):
        items = cast("Sequence[Any]", value)
        return tuple(
            v.decode(errors="replace") if isinstance(v, bytes) else v for v in items
        )
    return value


def _stored(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """What a Constant node holds; None where it is sparse."""
    value = helper.get_attribute_value(node.attribute[0])
    if isinstance(value, onnx.SparseTensorProto | onnx.TensorProto):
        return value if isinstance(value, onnx.TensorProto) else None
    types = {"value_float": np.float32, "value_int": np.int64}
    name = node.attribute[0].name.removesuffix("s")
    return numpy_helper.from_array(np.array(value, types.get(name, object)))


class _Reader:
    """A model that becomes a `Network`."""

    def __init__(self, path: str, model: onnx.ModelProto) -> None:
        self.path, self.model = path, model
        self.functions = {key_of(function): function for function in model.functions}
        self.called = set[Key]()
        parts = operators(model)
        self.embeds = parts["Gather"] and (
            parts["LayerNormalization"] or parts["ReduceMean"]
        )
        _check_versions(path, model)
        _check_calls(path, self.functions, model.graph.node)

    def network(self, shapes: Mapping[str, Sequence[int]]) -> Network:
        """The model, with the sizes of graph inputs that are given."""
        graph = self.model.graph
        versions = {domain_of(one): one.version for one in self.model.opset_import}
        main = Scope(MAIN, place=MAIN, proto=graph, opsets=versions)
        # Old models list their initializers as inputs too; in later ones these are
        # defaults.
        inputs = {value.name for value in graph.input if self.model.ir_version >= 4}
        main.defaults = {
            tensor.name: tensor for tensor in graph.initializer if tensor.name in inputs
        }
        self._fill(main)
        given = {
            value.name: value for value in graph.input if value.name in main.inputs
        }
        dimensions = _dimensions(self.path, given, shapes)
        for name, sizes in dimensions.items():
            main.types[name] = ValueType(main.types[name].data_type, numbers_in(sizes))
        for scope in main.scopes():
            _check_order(scope)
        uncalled = {
            key: self._called(
                one, onnx.NodeProto(), main, f"function {one.name}, not called"
            )
            for key, one in self.functions.items()
            if key not in self.called
        }
        return Network(self.path, main, self.model, dimensions, uncalled)

    def _fill(self, scope: Scope) -> Scope:
        """Give a graph what its protobuf message holds.

        Of a value that an operation computes, the data type counts alone: ONNX Runtime
        checks it when it loads the model, and the sizes are checked by nothing.
        """
        proto, scope.path = scope.proto, self.path
        check_names(self.path, proto)
        scope.outputs = tuple(value.name for value in proto.output)
        constants = {tensor.name: tensor for tensor in proto.initializer}
        for node in proto.node:
            if node.op_type == "Constant" and not domain_of(node) and node.attribute:
                name = next(iter(node.output), "")
                with reading(self.path, name):
                    tensor = _stored(node)
                if tensor is not None:
                    constants[name] = tensor
        own = {
            name: constants[name] for name in constants.keys() - scope.defaults.keys()
        }
        scope.inputs = tuple(
            value.name for value in proto.input if value.name not in own
        )
        scope.stored |= own
        values = (*proto.value_info, *proto.output)
        for value in values if scope.where == MAIN else (*values, *proto.input):
            tensor = value.type.tensor_type
            if tensor.HasField("shape"):
                dims = tensor.shape.dim
                sizes = (
                    d.dim_value if d.HasField("dim_value") else d.dim_param
                    for d in dims
                )
                scope.declared[value.name] = tuple(sizes)
        known = {
            value.name: ValueType(ValueType.of(value).data_type) for value in values
        }
        known |= {value.name: ValueType.of(value) for value in proto.input}
        made = (name for node in proto.node for name in node.output if name)
        scope.types = {
            name: known.get(name, ValueType()) for name in (*scope.inputs, *made)
        }
        for name, tensor in scope.stored.items():
            scope.types[name] = ValueType.of_tensor(tensor)  # whatever is declared
        for sparse in proto.sparse_initializer:
            whole = onnx.TensorProto(
                data_type=sparse.values.data_type, dims=sparse.dims
            )
            scope.types[sparse.values.name] = ValueType.of_tensor(whole)
        scope.operations = tuple(self._node(node, scope) for node in proto.node)
        if self.embeds:
            found = _Embeddings(scope)
            scope.operations = tuple(
                replace(one, is_embedding=found.has(one)) for one in scope.operations
            )
        return scope

    def _node(self, proto: onnx.NodeProto, scope: Scope) -> Operation:
        plain = [a for a in proto.attribute if not (a.HasField("g") or a.graphs)]
        plain = [] if proto.op_type == "Constant" else plain
        with reading(self.path, next(iter(proto.output), proto.name)):
            attributes = {a.name: _plain(a, folder_of(self.path)) for a in plain}
        inputs, outputs, bodies = (
            tuple(proto.input),
            tuple(proto.output),
            dict[str, Scope](),
        )
        domain = domain_of(proto)
        operation = Operation(
            proto.name,
            proto.op_type,
            domain,
            inputs,
            outputs,
            attributes,
            bodies,
            proto,
        )
        inside = "" if scope.where == MAIN else f" in {scope.where}"
        for name, body in bodies_of(proto):
            own = f"{name} of {operation.label}"
            place = own if scope.place == MAIN else f"{own} in {scope.place}"
            inner = Scope(
                own + inside, outer=scope, place=place, proto=body, opsets=scope.opsets
            )
            bodies[name] = self._fill(inner)
        function = self.functions.get(key_of(proto))
        if function and domain and not domain.startswith(OF_PROVIDERS):
            where = f"function {function.name}, called by {operation.label}{inside}"
            bodies["function"] = self._called(function, proto, scope, where)
        where = f"{self.path}: node {shown(operation.label)}"
        if not domain and operation.operator in ATTRIBUTES:
            if len(inputs) != 2 or len(outputs) != 1:
                raise OnnxGatherError(f"{where} must have two inputs and one output")
            name, names = (
                ATTRIBUTES[operation.operator],
                [a.name for a in proto.attribute],
            )
            if names not in ([], [name]) or not isinstance(
                attributes.get(name, 0), int
            ):
                raise OnnxGatherError(f"{where} must be one that ONNX allows")
        if not domain and not bodies.keys() >= _BODIES.get(operation.operator, set()):
            raise OnnxGatherError(f"{where} must be one that ONNX allows")
        return operation

    def _called(
        self,
        function: onnx.FunctionProto,
        call: onnx.NodeProto,
        caller: Scope,
        where: str,
    ) -> Scope:
        """The body of a function in one of its calls."""
        proto = onnx.GraphProto(name=function.name, node=function.node)
        _resolved(
            proto.node,
            {a.name: a for a in (*function.attribute_proto, *call.attribute)},
        )
        proto.input.extend(onnx.ValueInfoProto(name=name) for name in function.input)
        proto.output.extend(onnx.ValueInfoProto(name=name) for name in function.output)
        key = key_of(function)
        self.called.add(key)
        place = "function " + ".".join(filter(None, key))
        versions = {domain_of(one): one.version for one in function.opset_import}
        scope = Scope(where, place=place, proto=proto, opsets=versions)
        for name, value in zip(function.input, call.input, strict=False):
            owner = caller.owner(value)
            if owner and value in owner.stored:
                scope.stored[name] = owner.stored[value]
        return self._fill(scope)


def refusal(operation: Operation, scope: Scope) -> str:
    """Why ONNX's checker refuses the counts of inputs and outputs, or the attributes; else ""."""
    if operation.bodies:
        return ""
    checker: Any = onnx.checker  # its signature is only partly typed
    context = checker.C.CheckerContext()
    context.ir_version = onnx.IR_VERSION
    known = min(scope.version, onnx.defs.onnx_opset_version())
    context.opset_imports = {**scope.opsets, "": known}
    try:
        checker.check_node(operation.proto, context)
    except checker.ValidationError as error:
        return str(error).splitlines()[0].rstrip(".")
    return ""
