"""Any ONNX model as plain data: its graphs and called functions, types, constants."""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from typing import Any, cast

import numpy as np
import onnx
from google.protobuf.message import Error as ProtobufError
from msgspec import Struct, field
from msgspec.structs import replace
from onnx import helper, numpy_helper

from onnxgather.core.checks import (
    listed,
    mapping,
    path_text,
    sequence,
    shown,
    suggestion,
    uint,
    uints,
)
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import FAULTS, OnnxGatherError, pass_foreign
from onnxgather.core.files import reason, write_pieces
from onnxgather.core.gather import ATTRIBUTES
from onnxgather.core.model.protos import (
    Key,
    all_nodes,
    bodies_of,
    domain_of,
    external_files,
    key_of,
)
from onnxgather.core.model.values import (
    ValueType,
    data_type_of,
    load_light,
    name_of,
    numbers_in,
    runtime_reads,
    serialized_pieces,
)
from onnxgather.core.model.wire import (
    NO_WEIGHTS,
    ChangedFileError,
    StoredTensor,
    Weight,
    Weights,
    digest_of_file,
    has_more_nodes,
    pieces_of,
    weight_of,
    whole_tensor,
)
from onnxgather.core.model.write import LARGEST_MODEL

MOST_NODES = 300_000
"""The most nodes that a model may have."""

MOST_COPIES = 20_000
"""The most nodes that calls may add to those of a model, as each call copies its
function."""

MOST_CALLS = 50
"""The most functions that may call one another, the last one called by all others."""

NEWEST_IR = max(14, onnx.IR_VERSION)
"""The newest version of the format that onnx or ONNX Runtime 1.32 reads."""

NEWEST_OPSET = max(28, onnx.defs.onnx_opset_version())
"""The newest version of ONNX's operators that onnx or ONNX Runtime 1.32 has."""

MAIN = "main graph"

OF_PROVIDERS = ("ai.onnx", "com.microsoft", "com.ms.", "org.pytorch.aten")
"""How the domains start, besides ONNX's own, whose operators ONNX Runtime may have: it
then runs the operator, and ignores a function of the same name."""

Dimensions = tuple[int | str, ...]
"""The sizes of a value: numbers, or the names of those that are open."""

_DATA_TYPES = frozenset(onnx.TensorProto.DataType.values())
"""ONNX's numbers of data types."""

_STORED: Mapping[int, int] = {
    onnx.TensorProto.BOOL: 1,
    onnx.TensorProto.FLOAT16: 2**16 - 1,
}
"""The largest number of int32_data of which onnx and ONNX Runtime make the same
element."""

_FLAGS = (
    "allowzero",
    "exclusive",
    "fmod",
    "keepdims",
    "noop_with_empty_axes",
    "reverse",
)
"""The attributes that are 0 or 1; providers differ in what other numbers mean."""

_NO_ATTRIBUTES: Mapping[str, Any] = {}

_NO_BODIES: dict[str, Scope] = {}
"""Of nearly all operations, which so share it."""

_NOTHING_KNOWN = ValueType()

_BODIES = {"If": {"then_branch", "else_branch"}, "Loop": {"body"}, "Scan": {"body"}}
"""The bodies that nodes must have."""


class Operation(Struct, frozen=True, eq=False):
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
    nodes: Sequence[onnx.NodeProto] = field(default_factory=lambda: [onnx.NodeProto()])
    """The nodes of the graph that the operation is of; for `proto`."""
    position: int = 0
    """Where the node is among them."""

    @property
    def proto(self) -> onnx.NodeProto:
        """The node, for the modules of this package."""
        return self.nodes[self.position]

    @property
    def label(self) -> str:
        """The name of the node, or of its first output where the node has none."""
        return self.name or next(iter(self.outputs), "")

    @property
    def wrong_flag(self) -> str:
        """An attribute that must be 0 or 1 and is not; "" if there is none."""
        for name in _FLAGS:
            if self.attributes.get(name, 0) not in (0, 1):
                return name
        return ""

    @property
    def is_gather(self) -> bool:
        """Whether it is one of ONNX's gathers."""
        return self.operator in ATTRIBUTES and not self.domain

    @property
    def number(self) -> int:
        """The `axis` of a gather, which may count from the end, or its `batch_dims`."""
        return int(self.attributes.get(ATTRIBUTES[self.operator], 0))


class Scope(Struct, eq=False):
    """The main graph, a subgraph, or the body of a function in one of its calls."""

    where: str
    """Such as "main graph", or "then_branch of if_1"."""
    inputs: tuple[str, ...] = ()
    """Without the initializers of a graph that lists them here too, as old models
    do."""
    outputs: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()
    types: dict[str, ValueType] = {}
    """The types of the values of this scope."""
    outer: Scope | None = None
    """The graph around this graph, whose values it uses by name; None for a function
    too."""
    place: str = ""
    """As `where`, but the same for each call of a function, such as "function
    own.Pick"."""
    proto: onnx.GraphProto = field(default_factory=onnx.GraphProto)
    """For the modules of this package."""
    stored: dict[str, Weight] = {}
    """The constants of this graph that are not sparse."""
    defaults: dict[str, Weight] = {}
    """The values of inputs of the main graph that are not given."""
    path: str = ""
    """The file of the model."""
    opsets: Mapping[str, int] = {}
    """The versions of the operators, by domain."""

    @property
    def declared(self) -> dict[str, Dimensions]:
        """The sizes that the graph declares for values that are computed.

        Nothing checks them, but ONNX Runtime may believe them.
        """
        return _declared_sizes(self)

    @property
    def version(self) -> int:
        """The version of ONNX's own operators; by default the newest."""
        return self.opsets.get("", NEWEST_OPSET)

    def constant(self, name: str) -> Array | None:
        """Return the array of an initializer or a Constant node, of outer graphs too.

        The array is read now, maybe from another file. None for a sparse constant, and
        for a value that is neither a constant nor an input with a default.

        Raises:
            OnnxGatherError: It cannot be read.
        """
        tensor = self.tensor(name)
        if tensor is None:
            return None
        with reading(self.path, name):
            array = None
            if isinstance(tensor, StoredTensor):
                array = _array_in_file(tensor)
            if array is None:
                whole = whole_tensor(tensor)
                array = array_of_tensor(whole, folder_of(self.path))
            return array

    def tensor(self, name: str) -> Weight | None:
        """Return the tensor that `constant` reads."""
        owner = self.owner(name)
        if owner is None:
            return None
        return owner.stored.get(name, owner.defaults.get(name))

    def is_constant(self, name: str) -> bool:
        """Return whether a value is a constant that `constant` reads."""
        owner = self.owner(name)
        return owner is not None and name in owner.stored

    def type_of(self, name: str) -> ValueType:
        """Return what is known of a value of this graph or of an outer graph."""
        owner = self.owner(name)
        if owner is None:
            return ValueType()
        return owner.types.get(name, ValueType())

    def owner(self, name: str) -> Scope | None:
        """Return the graph that has a value: this graph or an outer graph."""
        if name in self.types:
            return self
        if self.outer is None:
            return None
        return self.outer.owner(name)

    def scopes(self) -> Iterator[Scope]:
        """Yield this scope and all scopes in its operations, as they are executed."""
        yield self
        for operation in self.operations:
            for scope in operation.bodies.values():
                yield from scope.scopes()


class Network(Struct, frozen=True, eq=False):
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
    is_file: bool = False
    """Whether `path` is a file that contains `proto`."""
    weights: Weights = {}
    """The constants whose bytes `proto` lacks."""

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the given model, in pieces if it is large."""
        return pieces_of(self.proto, self.weights)

    @property
    def content(self) -> bytes:
        """The bytes of the given model.

        Raises:
            OnnxGatherError: protobuf cannot write it.
        """
        return b"".join(serialized_pieces(self.proto, self.weights))

    @property
    def source(self) -> bytes | str:
        """The given model as ONNX Runtime reads it: the path of its file, or its bytes.

        Raises:
            OnnxGatherError: As `content`.
        """
        path = self.runtime_path
        return self.content if path is None else path

    @property
    def runtime_path(self) -> str | None:
        """The path of the file where ONNX Runtime reads the given model, if it can."""
        return self.path if self.is_file and runtime_reads(self.path) else None

    def write(self, path: str) -> None:
        """Write the given model to a file.

        Raises:
            OnnxGatherError: As `content`, or the file cannot be written.
        """
        # A copy of a large model in memory would be as large.
        write_pieces(path, serialized_pieces(self.proto, self.weights))

    @property
    def digest(self) -> str:
        """The digest of the given model, the same for a file and the object.

        It covers the files of the model's external data.
        """
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        for path in external_paths(self.path, self.proto):
            digest.update(digest_of_file(path))
        return f"sha256:{digest.hexdigest()}"

    def scopes(self) -> Iterator[Scope]:
        """Yield every scope: the main graph, the bodies inside it, and functions."""
        for scope in (self.main, *self.uncalled.values()):
            yield from scope.scopes()


def uses(scope: Scope) -> set[str]:
    """Return the names of the values around a scope that the scope uses."""
    used = {*scope.outputs}.union(*map(taken, scope.operations))
    return used - scope.types.keys()


def taken(operation: Operation) -> set[str]:
    """Return the names of the values that an operation and its bodies use."""
    names = set(operation.inputs)
    for name, body in operation.bodies.items():
        if name != "function":  # which uses nothing but the inputs
            names |= uses(body)
    return names - {""}


def read_network(
    model: str | os.PathLike[str] | onnx.ModelProto | Network,
    shapes: Mapping[str, Sequence[int]] | None = None,
    place: str = "the model",
    weights: Weights = NO_WEIGHTS,
) -> Network:
    """Return a model as plain data.

    The sizes of values other than inputs and constants are not known yet; `ranges_of`
    computes them. The sizes that the model declares for these values are not used, as
    nothing checks them.

    Args:
        model: A file, or the model itself; or a network, to read it with other sizes.
        shapes: The sizes of graph inputs, by their names.
        place: The path of a model that is given as an object, for errors; its external
            data are in the folder of the path.
        weights: The constants whose bytes a model lacks that is given as an object.

    Raises:
        OnnxGatherError: The file cannot be read, contains no model, or a model that
            breaks a rule: a name is of two values, a function calls itself, an input
            has no such sizes.
    """
    rule = "a file, or an onnx.ModelProto"
    is_file = False
    if isinstance(model, Network):
        path = model.path
        proto = model.proto
        weights = model.weights
        is_file = model.is_file
    elif isinstance(model, onnx.ModelProto):
        path = place
        proto = model
    else:
        path = path_text("model", model, rule)
        _check_node_count(path)
        proto, weights = load_light(path)
        is_file = True
    try:
        network = _Reader(path, proto, weights).network(shapes_given(shapes))
    # onnx checks no message when it parses it.
    except (UnicodeError, TypeError, ValueError, KeyError) as error:
        rule = "must be an ONNX model, but it is broken"
        raise OnnxGatherError(f"{path}: {rule}: {_on_one_line(error)}") from error
    return replace(network, is_file=is_file, weights=weights)


def _on_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def shapes_given(shapes: object) -> dict[str, tuple[int, ...]]:
    """Return the sizes of graph inputs, checked.

    Raises:
        OnnxGatherError: They are no mapping from names to sizes.
    """
    checked: dict[str, tuple[int, ...]] = {}
    for name, sizes in mapping("shapes", shapes).items():
        where = f"shapes[{shown(name)}]"
        checked[name] = uints(where, sequence(where, sizes))
    return checked


FAULTS_OF_ONNX = (
    *FAULTS,
    ProtobufError,
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    onnx.shape_inference.InferenceError,
)
"""What onnx raises where a tensor or a node is broken."""


@contextmanager
def reading(path: str, value: str) -> Generator[None]:
    """Turn what onnx raises while data is read into an error that names the value."""
    try:
        yield
    except ChangedFileError:
        raise
    except (*FAULTS_OF_ONNX, OSError, OnnxGatherError) as error:
        why = reason(error) if isinstance(error, OSError) else _on_one_line(error)
        rule = f"{path}: what leads to {shown(value)} cannot be read"
        raise OnnxGatherError(f"{rule}: {why}") from error


def folder_of(path: str) -> str:
    """Return the folder that contains the external data of a model."""
    return os.path.dirname(os.path.abspath(path))


def external_paths(path: str, model: onnx.ModelProto) -> list[str]:
    """Return the paths of the files of a model's external data.

    Raises:
        OnnxGatherError: A name is none of a file.
    """
    # The model names them relative to its own folder.
    folder = folder_of(path)
    paths: list[str] = []
    for name in external_files(model):
        if isinstance(name, bytes) or "\0" in name:
            rule = "external data must be in a file with a name in UTF-8 without NUL"
            raise OnnxGatherError(f"{path}: {rule}, got {shown(name)}")
        paths.append(os.path.join(folder, name))
    return paths


def array_of_tensor(tensor: onnx.TensorProto, folder: str) -> Array:
    """Return the array of a tensor, whose data may be in a file of a folder.

    Raises:
        ValueError: The sizes do not fit the data; other errors of onnx too.
    """
    if tensor.data_type not in _DATA_TYPES:
        raise ValueError(
            f"its type must be one of ONNX's, got {name_of(tensor.data_type)}"
        )
    largest = _STORED.get(tensor.data_type)
    if largest is not None:
        for number in tensor.int32_data:
            if not 0 <= number <= largest:
                raise ValueError(f"int32_data must have numbers from 0 to {largest}")
    array = numpy_helper.to_array(tensor, folder)
    if [*array.shape] != [*tensor.dims]:  # numpy takes -1 for the size that is left
        raise ValueError(f"its sizes must be at least 0, got {[*tensor.dims]}")
    return array


def _array_in_file(tensor: StoredTensor) -> Array | None:
    """Return the array of a constant whose elements numpy has as the file has them.

    None for another constant.
    """
    if tensor.data_type not in _DATA_TYPES:
        return None
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    count = math.prod(tensor.dims)
    is_plain = dtype.isbuiltin == 1 and not dtype.hasobject
    if not is_plain or count * dtype.itemsize != len(tensor.content):
        return None
    if min(tensor.dims, default=0) < 0:
        return None
    content = tensor.content.part(0, len(tensor.content))
    little = np.frombuffer(content, dtype.newbyteorder("<"))
    return little.astype(dtype, copy=False).reshape(tensor.dims)


def check_names(path: str, graph: onnx.GraphProto) -> None:
    """Check that each name of a graph, not of its subgraphs, is text and of one value.

    Raises:
        OnnxGatherError: A name does not keep the rule.
    """
    initializers = [tensor.name for tensor in graph.initializer]
    inputs = {value.name for value in graph.input}
    counts: Counter[str] = Counter()
    texts: set[str] = set()
    for node in graph.node:
        counts.update(name for name in node.output if name)
        texts.update((node.name, node.op_type, *node.input, *node.output))
    counts.update(inputs.difference(initializers))  # old models list them twice
    counts.update(initializers)
    counts.update(tensor.values.name for tensor in graph.sparse_initializer)
    texts.update(counts)
    for value in (*graph.value_info, *graph.output, *graph.input):
        texts.add(value.name)
        sizes = value.type.tensor_type.shape.dim
        texts.update(size.dim_param for size in sizes)
    # protobuf returns bytes where a text is broken.
    for text in texts:
        if isinstance(text, bytes):
            raise OnnxGatherError(f"{path}: name {shown(text)} must be UTF-8")
    for name, count in counts.items():
        if count > 1:
            rule = f"must be of one value, got {count}"
            raise OnnxGatherError(f"{path}: name {shown(name)} {rule}")


class _CallCounter:
    """Counts the nodes of a model, and those that calls of functions copy."""

    def __init__(self, path: str, functions: Mapping[Key, onnx.FunctionProto]) -> None:
        self.node_count = 0
        """The nodes that the model contains, so far."""
        self._path = path
        self._functions = functions
        self._copied: dict[Key, int] = {}

    def copied(
        self, nodes: Iterable[onnx.NodeProto], callers: tuple[Key, ...] = ()
    ) -> int:
        """Return the number of nodes with the copies that their calls make."""
        total = 0
        for node in all_nodes(nodes):
            self.node_count += 1
            total += 1
            # Case: the model has functions, as few have.
            if self._functions and key_of(node) in self._functions:
                total += self.copied_by_call(key_of(node), callers)
        return total

    def copied_by_call(self, key: Key, callers: tuple[Key, ...] = ()) -> int:
        """Return the number of nodes that a call of a function copies."""
        if key in callers or len(callers) >= MOST_CALLS:
            rule = f"must not call itself, nor stand behind {MOST_CALLS} calls"
            raise OnnxGatherError(f"{self._path}: function {shown(key[1])} {rule}")
        if key not in self._copied:
            nodes = self._functions[key].node
            self._copied[key] = self.copied(nodes, (*callers, key))
        return self._copied[key]


def _check_calls(
    path: str,
    functions: Mapping[Key, onnx.FunctionProto],
    main: Iterable[onnx.NodeProto],
) -> None:
    """Check that no function leads to itself, or to too many calls or nodes."""
    counter = _CallCounter(path, functions)
    most = counter.copied(main)
    for key in functions:  # also those that nothing calls
        most = max(most, counter.copied_by_call(key))
    copies = most - counter.node_count
    for noun, number, limit in (
        ("nodes", counter.node_count, MOST_NODES),
        ("copies of nodes, as each call copies its function", copies, MOST_COPIES),
    ):
        if number > limit:
            rule = f"must have at most {limit:,} {noun}"
            raise OnnxGatherError(f"{path}: the model {rule}, got {number:,}")


def _check_node_count(path: str) -> None:
    """Check that the model in a file has not too many nodes, before it is read."""
    has_more = False
    # Case: whoever reads the file next says why it cannot be read. A pipe would wait.
    if not os.path.isfile(path):
        return
    try:
        # Case: whoever reads it next says that it is too large.
        if os.path.getsize(path) > LARGEST_MODEL:
            return
        with open(path, "rb") as stream:
            has_more = has_more_nodes(stream, MOST_NODES)
    except (OSError, ValueError) as error:
        pass_foreign(error)
    if has_more:
        raise OnnxGatherError(
            f"{path}: the model must have at most {MOST_NODES:,} nodes, got more"
        )


def _check_versions(path: str, model: onnx.ModelProto) -> None:
    """Check the versions of a model; a model without a version of the format is old."""
    uint(f"{path}: ir_version", model.ir_version, NEWEST_IR, 0, OnnxGatherError)
    if not model.opset_import:
        raise OnnxGatherError(
            f"{path}: opset_import must name the version of ai.onnx, got none"
        )
    _check_opsets(path, model.opset_import)
    for function in model.functions:
        where = f"{path}: function {shown(function.name)}"
        _check_opsets(where, function.opset_import)


def _check_opsets(path: str, opsets: Iterable[onnx.OperatorSetIdProto]) -> None:
    """Check the versions of ai.onnx, which has two names.

    Of two versions ONNX Runtime takes the last, and onnx takes that of the name that a
    node has.
    """
    versions: list[int] = []
    for opset in opsets:
        if domain_of(opset):
            continue
        name = f"{path}: the opset of ai.onnx"
        uint(name, opset.version, NEWEST_OPSET, 1, OnnxGatherError)
        versions.append(opset.version)
    different = [str(version) for version in sorted(set(versions))]
    if len(different) > 1:
        rule = "opset_import must name one version of ai.onnx"
        raise OnnxGatherError(f"{path}: {rule}, got {listed(different, 10)}")


def _check_order(scope: Scope) -> None:
    """Check that the operations of a scope use values that exist, and make no cycle."""
    later: set[str] = set()
    for operation in scope.operations:
        later.update(operation.outputs)
    is_sorted = True
    for operation in scope.operations:
        for name in operation.inputs:
            if name and scope.owner(name) is None:
                where = f"{scope.path}: {scope.where}: node {shown(operation.label)}"
                rule = "must take values of its graph or of a graph around it"
                raise OnnxGatherError(f"{where} {rule}, got {shown(name)}")
        is_sorted = is_sorted and later.isdisjoint(taken(operation))
        later.difference_update(operation.outputs)
    # Nearly all models have their nodes in an order of execution.
    if is_sorted:
        return
    order = TopologicalSorter[str]()
    for operation in scope.operations:
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
        OnnxGatherError: It is not; the message says `what` was given for the name.
    """
    if name not in inputs:
        names = ", ".join(map(shown, inputs))
        rule = f"{what} must be of an input ({names})"
        got = shown(name) + suggestion(name, inputs)
        raise OnnxGatherError(f"{path}: {rule}, got {got}")


def _dimensions(
    path: str,
    inputs: Mapping[str, onnx.ValueInfoProto],
    shapes: Mapping[str, Sequence[int]],
) -> dict[str, Dimensions | None]:
    """Return the sizes of the inputs of a model, with those that are given.

    A given size of a name holds for the name in other inputs too.
    """
    dimensions = _named_dimensions(inputs)
    numbers: dict[int | str, int] = {}
    for name, value in inputs.items():
        if name not in shapes:
            continue
        shape = tuple(shapes[name])
        value_type = ValueType.of(value)
        if not value_type.admits(shape):
            rule = f"{path}: input {shown(name)} must be {value_type}"
            raise OnnxGatherError(f"{rule}, got {[*shape]}")
        numbers.update(zip(dimensions[name] or (), shape, strict=False))
        dimensions[name] = shape
    for name in shapes:
        check_input(path, inputs, name, "a shape")

    # The sizes that have a number now replace their names.
    for name, sizes in dimensions.items():
        if sizes is not None:
            dimensions[name] = tuple(
                size if isinstance(size, int) else numbers.get(size, size)
                for size in sizes
            )
    return dimensions


def _named_dimensions(
    inputs: Mapping[str, onnx.ValueInfoProto],
) -> dict[str, Dimensions | None]:
    """Return the sizes of inputs, each open size with a name.

    An open size has the name of the model if this is an identifier, else that of the
    first dimension with its name, such as `ids.0`.
    """
    dimensions: dict[str, Dimensions | None] = {}
    first_places: dict[str, str] = {}
    for number, (name, value) in enumerate(inputs.items()):
        start = name if name.isidentifier() else f"input#{number}"
        names: list[str] = []
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            size_name = dimension.dim_param
            if not size_name.isidentifier():
                place = f"{start}.{axis}"
                size_name = first_places.setdefault(size_name or place, place)
            names.append(size_name)
        sizes = ValueType.of(value).sizes
        if sizes is None:
            dimensions[name] = None
            continue
        pairs = zip(sizes, names, strict=True)
        dimensions[name] = tuple(
            size_name if size is None else size for size, size_name in pairs
        )
    return dimensions


def _resolved(nodes: Any, given: Mapping[str, onnx.AttributeProto]) -> None:
    """Put the attributes of a call in the nodes of a function that refer to them."""
    for node in all_nodes(nodes):
        own = [*node.attribute]
        del node.attribute[:]
        for attribute in own:
            if not attribute.ref_attr_name:
                node.attribute.append(attribute)
            elif attribute.ref_attr_name in given:  # else the operator's default holds
                node.attribute.append(given[attribute.ref_attr_name])
                node.attribute[-1].name = attribute.name


def _text_of_bytes(value: Any) -> Any:
    """Return the text of bytes, as onnx has texts; anything else as it is."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _stored(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """Return the tensor of a Constant node; None for a sparse tensor."""
    value = helper.get_attribute_value(node.attribute[0])
    if isinstance(value, onnx.TensorProto):
        return value
    if isinstance(value, onnx.SparseTensorProto):
        return None
    types = {"value_float": np.float32, "value_int": np.int64}
    name = node.attribute[0].name.removesuffix("s")
    return numpy_helper.from_array(np.array(value, types.get(name, object)))


class _Reader:
    """A model that becomes a `Network`."""

    def __init__(self, path: str, model: onnx.ModelProto, weights: Weights) -> None:
        self._path = path
        self._folder = folder_of(path)
        self._model = model
        self._weights = weights
        self._functions = {key_of(function): function for function in model.functions}
        self._called: set[Key] = set()
        self._texts: dict[str, str] = {}
        """Each name that is read, as most are read of several nodes."""
        _check_versions(path, model)
        external_paths(path, model)  # raises, where a name is none of a file
        _check_calls(path, self._functions, model.graph.node)

    def network(self, shapes: Mapping[str, Sequence[int]]) -> Network:
        """Return the model, with the sizes of graph inputs that are given."""
        graph = self._model.graph
        versions = _versions(self._model.opset_import)
        main = Scope(MAIN, place=MAIN, proto=graph, opsets=versions)
        # Old models list their initializers as inputs too; in later models these are
        # defaults.
        if self._model.ir_version >= 4:
            inputs = {value.name for value in graph.input}
            for tensor in graph.initializer:
                if tensor.name in inputs:
                    main.defaults[tensor.name] = weight_of(tensor, self._weights)
        self._fill(main)
        values = {
            value.name: value for value in graph.input if value.name in main.inputs
        }
        dimensions = _dimensions(self._path, values, shapes)
        for name, sizes in dimensions.items():
            data_type = main.types[name].data_type
            main.types[name] = ValueType(data_type, numbers_in(sizes))
        for scope in main.scopes():
            _check_order(scope)
        uncalled: dict[Key, Scope] = {}
        for key, function in self._functions.items():
            if key not in self._called:
                where = f"function {function.name}, not called"
                uncalled[key] = self._body_of_call(
                    function, onnx.NodeProto(), main, where
                )
        return Network(self._path, main, self._model, dimensions, uncalled)

    def _fill(self, scope: Scope) -> Scope:
        """Give a graph the content of its protobuf message."""
        proto = scope.proto
        scope.path = self._path
        check_names(self._path, proto)
        constants = self._constants(proto)
        for name, tensor in constants.items():
            if name not in scope.defaults:
                scope.stored[name] = tensor
        scope.inputs = tuple(
            value.name
            for value in proto.input
            if value.name not in constants or value.name in scope.defaults
        )
        scope.outputs = tuple(value.name for value in proto.output)
        scope.types = _types(scope)
        for name in scope.types:
            self._text(name)
        scope.operations = tuple(
            self._operation(proto.node, position, scope)
            for position in range(len(proto.node))
        )
        return scope

    def _constants(self, graph: onnx.GraphProto) -> dict[str, Weight]:
        """Return the initializers and the values of Constant nodes."""
        constants: dict[str, Weight] = {}
        for tensor in graph.initializer:
            constants[tensor.name] = weight_of(tensor, self._weights)
        for node in graph.node:
            if node.op_type != "Constant" or domain_of(node) or not node.attribute:
                continue
            name = next(iter(node.output), "")
            with reading(self._path, name):
                tensor = _stored(node)
            if tensor is not None:
                constants[name] = weight_of(tensor, self._weights)
        return constants

    def _operation(
        self, nodes: Sequence[onnx.NodeProto], position: int, scope: Scope
    ) -> Operation:
        """Return the operation of a node, with its bodies."""
        proto = nodes[position]
        function = self._function_of(proto)
        has_bodies = function is not None or any(bodies_of(proto))
        bodies: dict[str, Scope] = {} if has_bodies else _NO_BODIES
        operation = Operation(
            name=self._text(proto.name),
            operator=self._text(proto.op_type),
            domain=self._text(domain_of(proto)),
            inputs=tuple(map(self._text, proto.input)),
            outputs=tuple(map(self._text, proto.output)),
            attributes=self._attributes(proto),
            bodies=bodies,
            nodes=nodes,
            position=position,
        )
        inside = "" if scope.where == MAIN else f" in {scope.where}"
        for name, body in bodies_of(proto):
            own = f"{name} of {operation.label}"
            inner = Scope(
                own + inside,
                outer=scope,
                place=own if scope.place == MAIN else f"{own} in {scope.place}",
                proto=body,
                opsets=scope.opsets,
            )
            bodies[name] = self._fill(inner)
        if function is not None:
            where = f"function {function.name}, called by {operation.label}{inside}"
            bodies["function"] = self._body_of_call(function, proto, scope, where)
        if not operation.domain:
            self._check_node(operation)
        return operation

    def _text(self, name: str) -> str:
        """Return a name; the same object for all that are equal."""
        return self._texts.setdefault(name, name)

    def _attributes(self, proto: onnx.NodeProto) -> Mapping[str, Any]:
        """Return the plain attributes of a node; a Constant has none."""
        if proto.op_type == "Constant" or not proto.attribute:
            return _NO_ATTRIBUTES
        attributes: dict[str, Any] = {}
        with reading(self._path, next(iter(proto.output), proto.name)):
            for attribute in proto.attribute:
                if attribute.HasField("g") or attribute.graphs:  # a body
                    continue
                attributes[attribute.name] = self._plain(attribute)
        return attributes

    def _plain(self, attribute: onnx.AttributeProto) -> Any:
        """Return the value of an attribute: a number, a text, an array, or a tuple."""
        value = helper.get_attribute_value(attribute)
        if isinstance(value, onnx.TensorProto):
            whole = whole_tensor(weight_of(value, self._weights))
            return array_of_tensor(whole, self._folder)
        if isinstance(value, Sequence) and not isinstance(value, bytes):
            items = cast("Sequence[Any]", value)
            return tuple(map(_text_of_bytes, items))
        return _text_of_bytes(value)

    def _function_of(self, proto: onnx.NodeProto) -> onnx.FunctionProto | None:
        """Return the function that a node calls."""
        domain = domain_of(proto)
        # ONNX Runtime prefers an operator of its own to a function.
        if not domain or domain.startswith(OF_PROVIDERS):
            return None
        return self._functions.get(key_of(proto))

    def _check_node(self, operation: Operation) -> None:
        """Check what is read of ONNX's own gathers and control flow."""
        rule = self._broken_rule(operation)
        if rule:
            where = f"{self._path}: node {shown(operation.label)}"
            raise OnnxGatherError(f"{where} {rule}")

    def _broken_rule(self, operation: Operation) -> str:
        """Return the rule that an operation breaks; "" if it breaks none."""
        attribute = ATTRIBUTES.get(operation.operator)
        if attribute is not None:
            names = (*operation.inputs, *operation.outputs)
            numbers = len(operation.inputs), len(operation.outputs)
            if numbers != (2, 1) or "" in names:
                return "must have two inputs and one output"
            given = [own.name for own in operation.proto.attribute]
            number = operation.attributes.get(attribute, 0)
            if given not in ([], [attribute]) or not isinstance(number, int):
                return "must be one that ONNX allows"
        if not operation.outputs:
            return "must have an output"
        if not operation.bodies.keys() >= _BODIES.get(operation.operator, set()):
            return "must be one that ONNX allows"
        return ""

    def _body_of_call(
        self,
        function: onnx.FunctionProto,
        call: onnx.NodeProto,
        caller: Scope,
        where: str,
    ) -> Scope:
        """Return the body of a function in one of its calls."""
        proto = onnx.GraphProto(name=function.name, node=function.node)
        attributes = {
            attribute.name: attribute
            for attribute in (*function.attribute_proto, *call.attribute)
        }
        _resolved(proto.node, attributes)
        proto.input.extend(onnx.ValueInfoProto(name=name) for name in function.input)
        proto.output.extend(onnx.ValueInfoProto(name=name) for name in function.output)
        key = key_of(function)
        self._called.add(key)
        place = "function " + ".".join(filter(None, key))
        versions = _versions(function.opset_import)
        scope = Scope(where, place=place, proto=proto, opsets=versions)
        # A call may leave inputs out.
        for name, value in zip(function.input, call.input, strict=False):
            owner = caller.owner(value)
            if owner and value in owner.stored:
                scope.stored[name] = owner.stored[value]
        return self._fill(scope)


def _versions(opsets: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {domain_of(opset): opset.version for opset in opsets}


def _declared_sizes(scope: Scope) -> dict[str, Dimensions]:
    """Return the sizes that a graph declares for values that are computed."""
    proto = scope.proto
    values = [*proto.value_info, *proto.output]
    if scope.where != MAIN:  # the inputs of a body are computed too
        values.extend(proto.input)
    declared: dict[str, Dimensions] = {}
    for value in values:
        tensor = value.type.tensor_type
        if tensor.HasField("shape"):
            declared[value.name] = tuple(
                dimension.dim_value
                if dimension.HasField("dim_value")
                else dimension.dim_param
                for dimension in tensor.shape.dim
            )
    return declared


def _types(scope: Scope) -> dict[str, ValueType]:
    """Return the types of the values of a graph.

    Of a value that an operation computes, only the data type is used: ONNX Runtime
    checks the data type when it loads the model, but nothing checks the sizes.
    """
    proto = scope.proto
    declared: dict[str, ValueType] = {}
    for value in (*proto.value_info, *proto.output):
        declared[value.name] = ValueType(data_type_of(value))
    for value in proto.input:
        declared[value.name] = ValueType.of(value)
    types: dict[str, ValueType] = {}
    for name in scope.inputs:
        types[name] = declared.get(name, ValueType())
    for node in proto.node:
        for name in filter(None, node.output):
            types[name] = declared.get(name, _NOTHING_KNOWN)
    # The type of a constant is that of its tensor, whatever the graph declares.
    for name, tensor in scope.stored.items():
        types[name] = ValueType.of_tensor(tensor)
    for sparse in proto.sparse_initializer:
        whole = onnx.TensorProto(data_type=sparse.values.data_type, dims=sparse.dims)
        types[sparse.values.name] = ValueType.of_tensor(whole)
    return types


def refusal(operation: Operation, scope: Scope) -> str:
    """Return why ONNX's checker refuses inputs, outputs or attributes; else ""."""
    if operation.bodies:
        return ""
    checker: Any = onnx.checker  # its signature is only partly typed
    context = checker.C.CheckerContext()
    context.ir_version = onnx.IR_VERSION
    version = min(scope.version, onnx.defs.onnx_opset_version())
    context.opset_imports = {**scope.opsets, "": version}
    try:
        checker.check_node(operation.proto, context)
    except checker.ValidationError as error:
        return str(error).splitlines()[0].rstrip(".")
    return ""
