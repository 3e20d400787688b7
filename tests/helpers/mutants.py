"""Valid inputs to mutate, and the mutations: of text, of JSON, of bytes, of models, of
arrays."""

from __future__ import annotations

import io
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper, parser
from report_samples import small
from short_descriptors import descriptor, tensor_desc

import onnxgather as og
from onnxgather.cli.terminal import json_bytes
from onnxgather.core.documents import parse_json
from onnxgather.core.execution import runtime
from onnxgather.core.programs.writer import write_program

_ROOT = Path(__file__).parents[2]
_PROGRAMS = [
    *sorted((_ROOT / "models").glob("*.json")),
    *sorted((_ROOT / "tests/data/dxdispatch").glob("*.json")),
]

PROGRAMS = [path.read_bytes() for path in _PROGRAMS if path.stat().st_size < 10_000]
"""Programs, and below a bare descriptor."""

KNOWN = (_ROOT / "onnxgather/core/execution/known_differences.json").read_bytes()
"""A file of known differences."""

RULES = ("clamp", "error", "zero", "directml")


@cache
def report() -> bytes:
    """A report."""
    return json_bytes(small())


def _saved(save: Callable[..., None], *arrays: Any, **named: Any) -> bytes:
    stream = io.BytesIO()
    save(stream, *arrays, **named)
    return stream.getvalue()


_DATA = np.arange(12, dtype=np.float32).reshape(4, 3)
_INDICES = np.array([[2, 0], [1, -1]])

GATHER = (
    descriptor("GATHER_ELEMENTS: FLOAT32 4x3, INT64 4x2, FLOAT32 4x2, 1"),
    _DATA,
    np.array([[2, 0], [1, -1], [0, 0], [1, 2]]),
)
"""A descriptor with its arrays."""

DICT = json.dumps(og.to_dict(GATHER[0])).encode()
"""The descriptor as a dict in DxDispatch's spelling."""

PROGRAMS.append(DICT)

ARRAYS = [
    _saved(np.save, array) for array in (_DATA, _INDICES, _DATA.T, _DATA.astype(">f2"))
]
"""Arrays as .npy files."""

_PROGRAM = json.loads(write_program(*GATHER))
_PROGRAM["resources"]["data"] = {"sourcePath": "a.npy"}
WITH_NPY = json.dumps(_PROGRAM).encode()
"""A program that reads the file a.npy."""

WITH_BYTES = WITH_NPY.replace(b"a.npy", b"a.bin")
"""A program that reads the bytes of the file a.bin."""

_GRAPHS = [
    (
        "(float[4,3] x, int64[2,2] i, bool c) => (float[2,2,3] y) { y ="
        " Gather<axis=0>(x, i) }"
    ),
    "(float[4,3] x, int64[2,2] i, bool c) => (float[2] y) { y = GatherND(x, i) }",
    (
        "(float[4,N] x, int64[2,2] i, bool c) => (float[2,2] y)"
        " { a = Neg(x) b = Abs(i) y = GatherElements<axis=1>(a, b) }"
    ),
    (
        "(float[4,3] x, int64[2,2] i, bool c) => (float[?,?,?] y)"
        " <int64[2] k = {1, 0}, float[3] w = {1, 2, 3}>"
        " { a = Add(x, w) y = Gather(a, k) z = Gather(k, i) }"
    ),
    (
        "(float[4,3] x, int64[2,2] i, bool c) => (float[2,2,3] y)"
        " { a = If(c) <then_branch = t () => (float[4,3] u) { u = Neg(x) },"
        " else_branch = e () => (float[4,3] v) { v = Identity(x) }> y = Gather(a, i) }"
    ),
]

_HEAD = '<ir_version: 8, opset_import: ["": 17]> g'
_INPUTS = [
    _saved(save, x=_DATA, i=_INDICES, c=np.array(True))
    for save in (np.savez, np.savez_compressed)
]
MODELS: list[tuple[bytes, bytes]] = [
    (parser.parse_model(_HEAD + graph).SerializeToString(), inputs)
    for graph in _GRAPHS
    for inputs in _INPUTS
]
"""Models whose node y is a gather, each with its inputs as an .npz file."""

OWN_MODELS: list[tuple[bytes, bytes]] = [
    (path.read_bytes(), _INPUTS[0])
    for path in sorted((_ROOT / "models").glob("*.onnx"))
    if path.stat().st_size < 10_000
]
"""Models that onnxgather wrote of programs, with inputs that some of them have."""

ABOUT = runtime.message(runtime.environment())
ANSWER = runtime.message(
    {"nodes": ["GatherElements"], "outputs": [["float32", [4, 2], 0]]}, bytes(32)
)
"""Answers of a worker: what it is, and an output of zeros."""

INFO = runtime.message(
    {
        "version": "1",
        "adapter": "a",
        "feature_level": "6_4",
        "doubles": True,
        "wine": None,
    }
)
VERDICT = runtime.message(
    {"stage": "done", "hresult": 0, "guards_touched": False, "device_lost": False},
    bytes(32),
)
"""Answers of the host of DirectML.dll: what it is, and an output of zeros."""

RUNTIME = b'{"name": "my-runtime", "version": "1.2.0"}'
"""The file that names the runtime of a folder of answers."""

_SHORT_TEXTS = ("", "x", "\0", "\x1b[31m", "\x9b1m", "\u202e", "\ud800", "é" * 300)
_WORDS = ("../x", "/dev/zero", "..", ".x", "a\nb", "pipe", "a.npy", "nan", "-inf")
_SOME_TEXTS = [*_SHORT_TEXTS[:4], "n" * 5000, "y", "x", "i"]
"""Names of values, of which some are in models."""
HOSTILE_TEXTS = [*_SHORT_TEXTS, *_WORDS, "%s{}", "$.a", "FLOAT31", "1e400"]
_POWERS = [
    sign * 2**k + d for k in (31, 32, 63, 64) for sign in (1, -1) for d in (-1, 0, 1)
]
_NUMBERS: list[Any] = [*range(-1, 10), 255, *_POWERS, 10**30, 0.5, -0.0, 1e308]
_OF_JSON = [*_NUMBERS, float("inf"), float("nan"), "x" * 10**6]
_PARTS = ["null", "true", "[]", "{}", "[[]]", '{"": 0}', "[0, 0, 0, 0, 0, 0, 0, 0, 0]"]
_LONG = (b"[" * 2000, b"{" * 99, b"1" * 5000)
_MARKS = (b"\\ud800", b"\\u202e", b"\xff", b"\x00", b"\x1b[31m", b"\xef\xbb\xbf")
_SIGNS = (b"//", b"/*", b",", b"]", b'"', b"}")
_LITERALS = [b"NaN", b"1e400", b"-Infinity", *_LONG, *_MARKS, *_SIGNS]


def mutated_bytes(random: Random, content: bytes) -> bytes:
    """Change some bytes: other bits, spans removed, repeated or moved, an end that is
    missing."""
    found = bytearray(content)
    for _ in range(random.choice([1, 1, 2, 5])):
        at, length = random.randrange(len(found) + 1), random.choice([1, 1, 2, 8, 40])
        match random.randrange(6):
            case 0 if at < len(found):
                found[at] ^= 1 << random.randrange(8)
            case 1:
                found[at : at + length] = random.randbytes(length)
            case 2:
                del found[at : at + length]
            case 3:
                found[at:at] = found[at : at + length]
            case 4:
                found[at:at] = random.choice(_LITERALS)
            case _ if random.random() < 0.2:
                del found[at:]
            case _:
                other = random.randrange(len(found) + 1)
                found[at:at] = found[other : other + length]
    return bytes(found)


def mutated_json(random: Random, content: bytes, *, text: bool = True) -> bytes:
    """Change a JSON document: mostly its values and its structure, else its text."""
    if text and random.random() < 0.3:
        change = random.choice([mutated_bytes, mutated_bytes, _other_form])
        return change(random, content)
    root = [parse_json(content)]
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        _change(random, root)
    return json.dumps(root[0]).encode()


def _other_form(random: Random, content: bytes) -> bytes:
    """Encode a JSON document otherwise, cut it, or give it a key twice, a long key, or
    many levels."""
    text = content.decode()
    key = random.choice([*re.finditer(r'"[^"\n]*"\s*:', text)])
    before, after = text[: key.start()], text[key.start() :]
    forms = [
        *(text.encode(name) for name in ("utf-8-sig", "utf-16", "utf-16-be")),
        *(text.encode("utf-32"), text[: random.randrange(len(text))].encode()),
        f"{before}{key[0]} {random.choice(_PARTS)}, {after}".encode(),
        f'{before}"{"k" * 10**6}": 0, {after}'.encode(),
        f"{before}{key[0]} 1e400, {after}".encode(),
        b"[" * 10**5 + content,
        b'{"a":' * 10**5 + content,
    ]
    return random.choice(forms)


def mutated_frame(random: Random, frame: bytes) -> bytes:
    """Change a frame: mostly its content, with or without a line of JSON, else its
    bytes."""
    if random.random() < 0.2:
        return mutated_bytes(random, frame)
    if frame == runtime.MAGIC or random.random() < 0.2:
        return runtime.frame(mutated_bytes(random, frame[8:]))
    header, newline, blobs = frame[8:].partition(b"\n")
    return runtime.frame(mutated_json(random, header, text=False), newline, blobs)


def _change(random: Random, root: list[Any]) -> None:
    """Change one value of a JSON document, which is the only item of a list."""
    slots = list(_slots(root))
    holder, key = random.choice(slots)
    other, other_key = random.choice(slots)
    match random.randrange(9):
        case 0 | 1:
            holder[key] = random.choice(_OF_JSON)
        case 2:
            holder[key] = random.choice(HOSTILE_TEXTS)
        case 3:
            holder[key] = json.loads(random.choice(_PARTS))
        case 4 | 5:
            holder[key] = json.loads(json.dumps(other[other_key]))
        case 6 if isinstance(holder[key], int):
            holder[key] += random.choice([-1, 1, 2])
        case 7 if type(holder) is not list:
            name = random.choice(
                [*HOSTILE_TEXTS, str(other_key), f"{key}x", key.lower(), key[1:]]
            )
            holder[name] = holder.pop(key)
        case 8 if holder is not root:
            del holder[key]
        case _:
            holder[key] = [holder[key]]


def _slots(holder: Any) -> Iterator[tuple[Any, Any]]:
    keys: Any = holder.keys() if hasattr(holder, "keys") else range(len(holder))
    for key in keys:
        yield holder, key
        if isinstance(holder[key], dict | list):
            yield from _slots(holder[key])


def mutated_model(random: Random, content: bytes) -> tuple[bytes, list[str]]:
    """Change a model's bytes or fields; also return the names of its nodes."""
    if random.random() < 0.3:
        return mutated_bytes(random, content), []
    model = onnx.ModelProto.FromString(content)
    for _ in range(random.choice([1, 1, 2, 4])):
        fields = [_change_field] * 6
        change = random.choice([*fields, _resize, _resize, _nest, _add_string])
        change(random, model)
    names = [node.name for node in model.graph.node if node.name]
    content = model.SerializeToString()
    if random.random() < 0.05:
        content = _without_utf_8(random, model, content)
    return content, names


def _nest(random: Random, model: onnx.ModelProto) -> None:
    """Put the graph into bodies, one in another, or let a function call itself."""
    # Case: it was nested before, and protobuf reads at most 100 messages in another.
    if model.functions:
        return
    body = onnx.GraphProto()
    body.CopyFrom(model.graph)
    del body.input[:]
    for _ in range(random.choice([1, 3, 20])):
        outer = onnx.GraphProto(name="body")
        node = outer.node.add(op_type=random.choice(["If", "Loop", "Scan", "G"]))
        node.input.extend(["c"])
        node.output.extend(value.name for value in body.output)
        node.attribute.add(name="then_branch", type="GRAPH").g.CopyFrom(body)
        outer.output.extend(body.output)
        body = outer
    model.graph.node.extend(body.node)
    function = model.functions.add(name="G", domain=random.choice(["", "own"]))
    function.node.extend(model.graph.node)
    function.output.extend(value.name for value in body.output)


def _add_string(random: Random, model: onnx.ModelProto) -> None:
    """Let a node read a tensor of texts, or a tensor of another type or length."""
    nodes = [*model.graph.node]
    tensor = model.graph.initializer.add(name="other", dims=[random.choice([2, -1, 0])])
    tensor.data_type = random.choice([8, 16, 23, 40, 2**31 - 1])
    tensor.raw_data = random.randbytes(random.choice([0, 3, 16]))
    tensor.string_data.extend([b"a", b"\xff"])
    if nodes:
        random.choice(nodes).input[:1] = ["other"]
    sparse = model.graph.sparse_initializer.add(dims=[4, 3])
    sparse.values.CopyFrom(tensor)


def _resize(random: Random, model: onnx.ModelProto) -> None:
    """Give a tensor, or a value of the graph, sizes that are empty and too large."""
    sizes = random.choice([[2, 0, 2**60], [2**62, 4, 0], [0, 2**63 - 1], [2**33] * 2])
    messages = [*_messages(model)]
    tensors = [each for each in messages if isinstance(each, onnx.TensorProto)]
    shapes = [each for each in messages if isinstance(each, onnx.TensorShapeProto)]
    if not tensors and not shapes:
        return
    chosen: Any = random.choice([*tensors, *shapes])
    if isinstance(chosen, onnx.TensorShapeProto):
        del chosen.dim[:]
        for size in sizes:
            chosen.dim.add(dim_value=size)
        return
    name, data_type = chosen.name, chosen.data_type
    # The elements are the sizes, as a Reshape or an Expand takes them, or there are
    # none.
    if data_type == onnx.TensorProto.INT64 and random.random() < 0.5:
        chosen.CopyFrom(numpy_helper.from_array(np.array(sizes), name))
        return
    chosen.Clear()
    chosen.name = name
    chosen.data_type = data_type
    chosen.dims.extend(sizes)


def _without_utf_8(random: Random, model: onnx.ModelProto, content: bytes) -> bytes:
    """Change a text of a model, wherever it is, to bytes that are no UTF-8."""
    texts = set[str]()
    for message in _messages(model):
        for field, value in message.ListFields():
            if field.type == field.TYPE_STRING:
                texts.update(value if field.is_repeated else [value])
    texts.discard("")
    if not texts:
        return content
    text = random.choice(sorted(texts)).encode()
    return content.replace(text, b"\xff" * len(text), random.choice([1, -1]))


def _change_field(random: Random, model: onnx.ModelProto) -> None:
    """Change one field of one message of a model."""
    messages: list[Any] = list(_messages(model))
    message = random.choice(messages)
    field = random.choice(message.DESCRIPTOR.fields)
    value: Any = getattr(message, field.name)
    values: list[Any] = {
        field.CPPTYPE_STRING: [
            *HOSTILE_TEXTS[:4],
            "n" * 5000,
            "y",
            "x",
            "i",
            "Gather",
            "Loop",
        ],
        field.CPPTYPE_INT64: [
            n for n in [*range(9), *_POWERS] if -(2**63) <= n < 2**63
        ],
        field.CPPTYPE_INT32: [*range(-1, 41), 99, 2**31 - 1],
        field.CPPTYPE_ENUM: (
            [each.number for each in field.enum_type.values] if field.enum_type else []
        ),
    }.get(field.cpp_type, [])
    if field.type == field.TYPE_BYTES:
        values = [b"", b"\xff", random.randbytes(8), random.randbytes(48)]
    if field.is_repeated and len(value) and random.random() < 0.4:
        del value[random.randrange(len(value))]
    elif field.is_repeated and (value or values):
        value.extend([random.choice([*value, *values])])
    elif field.is_repeated or not values or random.random() < 0.2:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, random.choice(values))


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.cpp_type == field.CPPTYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                yield from _messages(inner)


class _Liar(list[Any]):
    """A sequence that is wrong about its length."""

    def __len__(self) -> int:
        return 10**18


class _Raises:
    """An object that raises whatever is asked of it."""

    def _raise(self, *_: Any) -> Any:
        raise RuntimeError("asked")

    __repr__ = __len__ = __iter__ = __index__ = __eq__ = __hash__ = __getitem__ = (
        __bool__
    ) = _raise
    __array__ = __int__ = __float__ = __getattr__ = _raise


# These take long to make.
_SLOW = (Mock(), Mock(spec=np.ndarray), np.ma.masked_array([1, 2]))

TEXTS = [text for text in HOSTILE_TEXTS if text != "pipe"]
"""Without the pipe, as a pipe that a user names waits for its writer."""


def hostile_value(random: Random) -> Any:
    """A value of some type, of which many are no value that a person gives."""
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    values: list[Any] = [
        *(cyclic, {2: {}}, {None: 1}, {"type": {2: 1}}, np.datetime64("NaT")),
        *(np.str_("x"), ..., None, True, [], {}, set(), b"x", 1.0, 10**30, "1"),
        *(Fraction(1), Decimal(1), object(), np.int64(1), np.float32(1)),
        *(np.bool_(True), np.array(1), np.array([1.5]), 1j, int, sys),
        *(_Liar([1]), _Raises(), [_Raises()], *_SLOW, [[[1]]], {"a": 1}),
        *(range(10**12), itertools.count(), (n for n in [1]), ["a"] * 100),
        [random.choice(_NUMBERS)],
        *(np.zeros((0,)), np.zeros(3, object), np.zeros(3, "S3")),
        *(random.choice(_NUMBERS), random.choice(TEXTS), og.TensorDesc, og.run),
        *("FLOAT32", "float32", np.float32, np.dtype("f4"), "zero", "cpu"),
    ]
    return random.choice(values)


VARIANTS: list[Callable[[Any], Any]] = [
    np.asfortranarray,
    lambda a: np.repeat(a, 2, 0)[::2],
    lambda a: a[::-1][::-1],
    lambda a: np.asarray(a, a.dtype.newbyteorder()),
    lambda a: a.view(np.recarray),
    lambda a: a.view(type("Own", (np.ndarray,), {})),
    lambda a: a.view(np.matrix),
    np.ma.masked_array,
    lambda a: a.astype(object),
    lambda a: a.tolist(),
    lambda a: a.reshape(-1),
    lambda a: a.astype("q") if a.dtype == np.int64 else a,
]
"""Other arrays that a person may have in place of a plain one."""

HUGE = descriptor(
    f"GATHER_ELEMENTS: UINT8 {2**31}, UINT32 {2**31} strides 0, "
    f"UINT8 {2**31} strides 1 bytes {2**32 - 4}, 0"
)
"""A descriptor of a gather that needs gigabytes."""

_SCALARS = og.GatherND1Desc(
    tensor_desc("UINT64 2x3"),
    tensor_desc("INT32 2x1 strides 1x0"),
    tensor_desc("UINT64 1x2 strides 4x2"),
    *(2, 2, 1),
)
_MODEL = og.to_onnx(GATHER[0])
_FEEDS = {"InputTensor": GATHER[1], "IndicesTensor": GATHER[2]}
_DESCS = (*[GATHER[0]] * 4, _SCALARS, HUGE)
_TENSORS = (GATHER[0].input_tensor, GATHER[0].indices_tensor, HUGE.output_tensor)
_CONTRACT = og.audit(_MODEL).contract
_RUNTIME: Any = import_module("onnxruntime")

RIGHT: dict[str, Sequence[Any]] = {
    "at": ((0, 0), [0]),
    "assume": (None, _CONTRACT),
    "axis": (0, 1),
    "batch_dimension_count": (0, 1),
    "batch_dims": (0, 1),
    "contract": (_CONTRACT,),
    "data": (GATHER[1], HUGE.input_tensor, ("FLOAT32", [4, 3])),
    "data_type": ("FLOAT32", "DML_TENSOR_DATA_TYPE_INT8", og.TensorDataType.UINT64),
    "desc": _DESCS,
    "descs": (_DESCS, []),
    "folder": ("out", "x"),
    "flags": (0, "OWNED_BY_DML", ["NONE"]),
    "guaranteed_base_offset_alignment": (0, 16),
    "index_dimensions": (0, 1, 2),
    "indices": (GATHER[2], None, HUGE.indices_tensor, ("INT64", [4, 2]), "i"),
    "indices_dimension_count": (1, 2),
    "indices_tensor": _TENSORS,
    "input": ("InputTensor",),
    "input_dimension_count": (1, 2),
    "input_tensor": _TENSORS,
    "inputs": (None, _FEEDS, ["a"]),
    "lanes": (("cpu",), ["openvino"]),
    "low_halves": (False, True),
    "model": (_MODEL,),
    "name": ("gather", "a b"),
    "names": (None, {"InputTensor": "x"}),
    "op_type": ("Gather", "GatherND", "GatherElements"),
    "node": (None, "gather"),
    "opset": (13, 17, 25),
    "out_of_range": RULES,
    "output": ("rows",),
    "output_tensor": _TENSORS,
    "prefix": ("", "a/"),
    "path": ("none.onnx", str(_PROGRAMS[0])),
    "program": (str(_PROGRAMS[0]), str(_PROGRAMS[-1])),
    "provider": ("cpu",),
    "provider_options": (None, {"a": "1"}),
    "ranges": (None, {"IndicesTensor": (0, 2)}),
    "session_options": (_RUNTIME.SessionOptions(),),
    "shapes": (None, {"InputTensor": [4, 3]}),
    "sizes": ([4, 3], (2**32 - 1,)),
    "source": _DESCS,
    "strides": (None, [3, 1], [0]),
    "target": ("portable", "cpu", "webgpu", "native", None),
    "threads": (None, 1, 0),
    "timeout": (1, 0.001),
    "total_tensor_size_in_bytes": (0, None, 48),
    "value": (json.loads(DICT), "FLOAT32", 1),
}
"""Arguments that may be right, by the names of the parameters of public calls."""


def other_value(random: Random, value: Any) -> Any:
    """A value in the place of one that is right: mostly like it, else hostile."""
    if random.random() < 0.5:
        return hostile_value(random)
    match value:
        case np.ndarray() if value.ndim:
            return random.choice(VARIANTS)(value)
        case onnx.ModelProto():
            content = mutated_model(random, value.SerializeToString())[0]
            try:
                return onnx.ModelProto.FromString(content)
            except DecodeError:
                return content
        case dict() | list() | tuple() if value:
            given, is_dict = cast("Any", value), isinstance(value, dict)
            found: Any = {**given} if is_dict else [*given]
            key = random.choice([*found] if is_dict else range(len(found)))
            if is_dict and random.random() < 0.3:
                found[random.choice([2, None, *TEXTS])] = found.pop(key)
            else:
                found[key] = other_value(random, found[key])
            return found
        case str():
            return random.choice([*TEXTS, value + "x", value.upper(), value[1:]])
        case int():
            return random.choice(_NUMBERS)
        case _:
            return hostile_value(random)
