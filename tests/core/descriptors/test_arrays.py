"""Whatever kind of array stands for a tensor gives the bytes of the plain array, or is
refused."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import msgspec
import numpy as np
import pytest
from messages import message_of, rows_of
from rings import one_quick_in
from short_descriptors import ascending, descriptor, tensor_desc

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.core.descriptors.arrays import (
    Array,
    check_array,
    content_of,
    differing,
)
from onnxgather.core.descriptors.explain import explain
from onnxgather.core.execution import session
from onnxgather.core.programs.writer import write_program

DATA = ascending("FLOAT32 4x3")
INDICES = np.array([[2, 0], [1, -1], [0, 0], [1, 2]])
DESC = descriptor("GATHER_ELEMENTS: FLOAT32 4x3, INT64 4x2, FLOAT32 4x2, 1")
ROWS = descriptor("GATHER: FLOAT32 1x3, INT64 1x2, FLOAT32 1x2, 1, 1")


def known(desc: og.Descriptor, _: Array, indices: Array) -> bytes:
    """Return the model with known indices."""
    return og.to_onnx(desc, indices=indices).SerializeToString()


def explained(desc: og.Descriptor, data: Array, indices: Array) -> str:
    """Return the explanation of an element."""
    return explain(desc, data, indices, (0, 1)).text


def expected(desc: og.Descriptor, data: Array, indices: Array) -> Any:
    """Return what is expected of a case that is made by hand, and the kinds of its
    arrays."""
    case = DescriptorCase("case", desc, data, indices)
    assert (type(case.data), type(case.indices)) == (np.ndarray, np.ndarray)
    return case.expected()


def prepared(desc: og.Descriptor, data: Any, indices: Any) -> Array:
    """Return the output of a gather that is called twice: its indices are known, or
    not."""
    first = og.Gather(desc)(data, indices)
    assert og.Gather(desc, indices=indices)(data).tobytes() == first.tobytes()
    return first


USES: list[Callable[[Any, Any, Any], Any]] = [
    *(og.reference, og.run, explained, known, expected, write_program, prepared)
]


def assert_alike(found: Any, wanted: Any) -> None:
    """Assert that two results are equal, arrays in type, shape and bytes."""
    assert type(found) is type(wanted)
    if isinstance(wanted, np.ndarray):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)  # type: ignore[misc]
        assert found.tobytes() == wanted.tobytes()
    else:
        assert found == wanted


class Own(np.ndarray[Any, Any]):
    """A subclass that answers everything otherwise."""

    def __getitem__(self, _: Any) -> Any:
        return "wrong"

    def reshape(self, *_: Any, **__: Any) -> Any:
        return "wrong"


def mapped(array: Array, folder: Path) -> Array:
    """Return the same array in a file."""
    found = np.memmap(folder / f"{array.dtype}", array.dtype, "w+", shape=array.shape)
    found[...] = array
    return found


def locked(array: Array, _: Path) -> Array:
    """Return a copy that cannot be written."""
    array = array.copy()
    array.flags.writeable = False
    return array


KINDS: dict[str, Callable[[Array, Path], Any]] = {
    "matrix": lambda a, _: a.view(np.matrix),
    "memmap": mapped,
    "recarray": lambda a, _: a.view(np.recarray),
    "subclass": lambda a, _: a.view(Own),
    "Fortran order": lambda a, _: np.asfortranarray(a),
    "negative strides": lambda a, _: a[::-1, ::-1].copy()[::-1, ::-1],
    "gaps": lambda a, _: np.repeat(a, 2, 1)[:, ::2],
    "read-only": locked,
    "unaligned": (
        lambda a, _: np.frombuffer(b"x" + a.tobytes(), a.dtype, a.size, 1).reshape(
            a.shape
        )
    ),
    "long long": lambda a, _: a.astype("q") if a.dtype.kind == "i" else a,
    "metadata": lambda a, _: a.view(np.dtype(a.dtype, metadata={"unit": "m"})),
}


@pytest.mark.parametrize("kind", one_quick_in(4, KINDS))
@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
@pytest.mark.parametrize("desc", [DESC, ROWS], ids=lambda desc: desc.operator)
def test_any_kind_of_array_gives_the_bytes_of_the_plain_array(
    desc: og.Descriptor, use: Callable[..., Any], kind: str, tmp_path: Path
) -> None:
    data, indices = (
        DATA[: desc.output_tensor.sizes[0]],
        INDICES[: desc.output_tensor.sizes[0]],
    )
    wanted = use(desc, data, indices)
    found = use(desc, KINDS[kind](data, tmp_path), KINDS[kind](indices, tmp_path))
    assert_alike(found, wanted)


class Tensor:
    """An array of another package, as torch has."""

    def __array__(self) -> Array:
        return INDICES

    def __repr__(self) -> str:
        return "tensor(\n)"


class Liar:
    """An object that says that it is an array."""

    __class__: Any = np.ndarray

    def __repr__(self) -> str:
        return "Liar()"


LOOP: list[Any] = []
LOOP.append(LOOP)
NUMPY = ", of which numpy.asarray makes an array"


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
@pytest.mark.parametrize(
    ("indices", "found"),
    [
        (
            np.ma.masked_array(INDICES),
            "a masked array, whose masked values would be lost",
        ),
        (INDICES.astype(">i8"), ">i8 (4, 2)"),
        (INDICES.astype(object), "object (4, 2)"),
        (INDICES.astype("S1").view(np.char.chararray), "|S1 (4, 2)"),
        (np.rec.fromarrays([INDICES]), "(numpy.record, [('f0', '<i8')]) (4, 2)"),
        (INDICES == 0, "bool (4, 2)"),
        (INDICES.astype(ml_dtypes.int4), "int4 (4, 2)"),
        (np.zeros((0, 2), np.int64), "int64 (0, 2)"),
        (np.array(1), "int64 ()"),
        (np.int64(1), f"{np.int64(1)!r}"),
        (INDICES.tolist()[:3], "a list of shape (3, 2)"),
        ([INDICES.tolist()], "a list of shape (1, 4, 2)"),
        ([], "a list of shape (0,)"),
        (LOOP, f"a list of shape {(1,) * 9}"),
        (Tensor(), "Tensor" + NUMPY),
        (Liar(), "Liar()"),
        (1, "1"),
        (None, "None"),
    ],
)
def test_what_is_no_such_array_is_refused(
    use: Callable[..., Any], indices: object, found: str
) -> None:
    if use is known and indices is None:
        return  # the indices are not known
    assert message_of(og.DescriptorError, use, DESC, DATA, indices) == (
        f"IndicesTensor must be an array of int64 (4, 2), got {found}"
    )


def named(desc: og.Descriptor, data: Any, indices: Any) -> Array:
    """Return the output of a session that gets its inputs by their names."""
    with og.Session(desc) as session:
        return session.run({"InputTensor": data, "IndicesTensor": indices})


def states(desc: og.Descriptor, data: Any, indices: Any) -> list[str]:
    """Return the states of a check."""
    results = og.check(desc, data, indices)
    assert [result.state for result in results] == ["PASS"]
    return [result.state for result in results]


def constant(desc: og.Descriptor, data: Any, _: Any) -> str:
    """Return the WebNN program whose data are known."""
    return og.to_webnn(desc, data=data).to_javascript()


def tuples(value: Any) -> Any:
    """Return nested lists as nested tuples."""
    if not isinstance(value, list):
        return value
    items = cast("list[Any]", value)
    return tuple([tuples(item) for item in items])


@pytest.mark.parametrize(
    "use", [*USES, named, states, constant], ids=lambda use: use.__name__
)
@pytest.mark.parametrize("desc", [DESC, ROWS], ids=lambda desc: desc.operator)
def test_nested_lists_and_tuples_are_arrays_of_the_descriptors_types(
    desc: og.Descriptor, use: Callable[..., Any]
) -> None:
    count = desc.output_tensor.sizes[0]
    data, indices = DATA[:count], INDICES[:count]
    wanted = use(desc, data, indices)
    whole = data.astype(int).tolist()  # floats may be integers in the list
    for kind in (list, tuples):
        assert_alike(use(desc, kind(whole), kind(indices.tolist())), wanted)


@pytest.mark.parametrize("index", [2, [2], [[2]], (np.int32(2),), np.uint64(2)])
def test_leading_ones_of_a_list_may_be_left_out(index: object) -> None:
    desc = descriptor("GATHER: FLOAT32 1x3, INT64 1x1, FLOAT32 1x1, 1, 0")
    for use in (og.reference, og.run, prepared):
        assert use(desc, [5, 6, 7.5], index).tolist() == [[7.5]]


def test_the_list_of_a_tensor_with_strides_is_its_buffer() -> None:
    desc = descriptor("GATHER: INT8 2x2 strides 3x1, INT64 1x1, INT8 1x2, 0, 1")
    buffer = [1, 2, -3, 4, 5, 6, 7, 8]
    assert og.reference(desc, buffer, 1).tolist() == [[4, 5]]
    assert message_of(og.DescriptorError, og.reference, desc, [[1, 2], [4, 5]], 1) == (
        "InputTensor must be the buffer of its Strides, an array of int8 (8,), got a"
        " list of shape (2, 2)"
    )
    array = np.zeros((2, 2), np.int8)
    assert message_of(og.DescriptorError, og.reference, desc, array, [[1]]) == (
        "InputTensor must be the buffer of its Strides, an array of int8 (8,), got int8"
        " (2, 2)"
    )


NAN = float("nan")


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        ("FLOAT64", [0.1, 1e308, float("-inf"), 2**53]),
        ("FLOAT32", [0.1, 3.4028235677e38, 16777216, NAN]),  # rounds to the largest
        ("FLOAT16", [0.1, 65519.99, -0.0, 65504]),
        ("FLOAT32", [np.float64(0.1), np.float16(0.1), np.int8(-3), 2**100]),
        ("UINT64", [0, 2**64 - 1, np.uint64(5), np.int8(3)]),
        ("INT8", [-128, 127, 0, 1]),
    ],
)
def test_an_element_is_what_numpy_makes_of_the_number(
    data_type: str, values: list[Any]
) -> None:
    tensor = og.TensorDesc(data_type, [4])
    found = check_array("InputTensor", tensor, values)
    assert found.dtype == tensor.data_type.numpy
    assert found.tobytes() == np.array(values, tensor.data_type.numpy).tobytes()


WRONG_LISTS = """
UINT8 [[1, 300], [1, 2]]
InputTensor: element [0, 1] must fit UINT8, got 300

UINT8 [[1, 2], [-1, 2]]
InputTensor: element [1, 0] must fit UINT8, got -1

INT64 [[1, 2], [1, 9223372036854775808]]
InputTensor: element [1, 1] must fit INT64, got 9223372036854775808

INT8 [[1, 1.5], [1, 2]]
InputTensor: element [0, 1] must be an integer of INT8, got 1.5

INT8 [[1, 2.0], [1, 2]]
InputTensor: element [0, 1] must be an integer of INT8, got 2.0

INT8 [[True, 1], [1, 2]]
InputTensor: element [0, 0] must be an integer of INT8, got True

INT32 [[1, 2], ["3", 1]]
InputTensor: element [1, 0] must be an integer of INT32, got '3'

INT32 [[1, [2]], [3, 1]]
InputTensor: element [0, 1] must be an integer of INT32, got [2]

FLOAT32 [[1, None], [1, 2]]
InputTensor: element [0, 1] must be a number of FLOAT32, got None

FLOAT32 [[1, "nan"], [1, 2]]
InputTensor: element [0, 1] must be a number of FLOAT32, got 'nan'

FLOAT32 [[1, 1j], [1, 2]]
InputTensor: element [0, 1] must be a number of FLOAT32, got 1j

FLOAT32 [[1, 1e+39], [1, 2]]
InputTensor: element [0, 1] must fit FLOAT32, got 1e+39

FLOAT32 [[1, 16777217], [1, 2]]
InputTensor: element [0, 1] must be exact in FLOAT32, got 16777217

FLOAT16 [[1, 2], [3, 65520]]
InputTensor: element [1, 1] must be exact in FLOAT16, got 65520

INT8 [[1, 2], [3]]
InputTensor: element [1] must be a list of 2 elements, got [3]

INT8 [[1, 2], 3]
InputTensor: element [1] must be a list of 2 elements, got 3

INT8 [1, 2]
InputTensor must be an array of int8 (2, 2), got a list of shape (2,)

INT8 5
InputTensor must be an array of int8 (2, 2), got 5

INT8 True
InputTensor must be an array of int8 (2, 2), got True
"""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        *rows_of(WRONG_LISTS),
        (
            f"FLOAT64 [[1, 2], [3, 1{'0' * 400}]]",
            "InputTensor: element [1, 1] must be exact in FLOAT64, got "
            f"1{'0' * 99}…{'0' * 100}",
        ),
    ],
)
def test_a_list_that_is_no_such_array_is_refused(given: str, message: str) -> None:
    data_type, _, values = given.partition(" ")
    asked = ("InputTensor", tensor_desc(f"{data_type} 2x2"), literal_eval(values))
    assert message_of(og.DescriptorError, check_array, *asked) == message


def test_a_number_that_is_wrong_is_refused_without_a_place() -> None:
    tensor = tensor_desc("UINT8 1x1")
    assert (
        message_of(og.DescriptorError, check_array, "IndicesTensor", tensor, 256)
        == "IndicesTensor must fit UINT8, got 256"
    )


def test_a_list_is_no_output() -> None:
    assert (
        message_of(
            og.DescriptorError,
            lambda: og.Gather(DESC)(DATA, INDICES, out=np.zeros((4, 2)).tolist()),
        )
        == f"out must be an array of float32 (4, 2), got list{NUMPY}"
    )


def test_the_session_of_a_model_takes_no_lists() -> None:
    session = og.Session(og.to_onnx(DESC))
    assert message_of(og.DescriptorError, session.run, DATA, INDICES.tolist()) == (
        f"IndicesTensor must be an array of int64 (4, 2), got list{NUMPY}"
    )


def test_a_type_that_is_like_float16_is_not_float16() -> None:
    half = descriptor("GATHER_ELEMENTS: FLOAT16 4x3, INT64 4x2, FLOAT16 4x2, 1")
    assert (
        message_of(
            og.DescriptorError, og.run, half, DATA.astype(ml_dtypes.bfloat16), INDICES
        )
        == "InputTensor must be an array of float16 (4, 3), got bfloat16 (4, 3)"
    )


def test_indices_that_change_while_they_run_are_those_that_were_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    indices, check = INDICES.copy(), session.check_indices

    def changed(desc: og.Descriptor, given: Array) -> None:
        check(desc, given)
        indices[...] = 2**40  # as another thread may do

    monkeypatch.setattr(session, "check_indices", changed)
    found = og.run(DESC, DATA, indices, "error")
    assert found.tobytes() == og.reference(DESC, DATA, INDICES).tobytes()


@pytest.mark.parametrize(
    "desc", [{"type": "DML_OPERATOR_GATHER"}, None, og.GatherDesc, DESC.input_tensor]
)
@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_what_is_no_descriptor_is_refused(
    use: Callable[..., Any], desc: object
) -> None:
    assert message_of(og.DescriptorError, use, desc, DATA, INDICES) == (
        "desc must be one of GatherDesc, GatherElementsDesc, GatherNDDesc,"
        f" GatherND1Desc, got {desc!r}"
    )


def test_what_load_reads_is_no_descriptor_and_the_message_says_where_one_is() -> None:
    hint = "; each of og.load(PATH).dispatches has a descriptor"
    values: list[Any] = ["swap.onnx", Path("swap.onnx"), og.load(og.to_dict(DESC))]
    for value in values:
        assert message_of(og.DescriptorError, og.to_onnx, value).endswith(hint)


@pytest.mark.parametrize(
    ("first", "second", "offsets"),
    [
        (np.array([[1, 2], [3, 4]], np.complex128), np.array([1, 2j, 3, 4j]), [1, 3]),
        (np.array([1, 2], np.complex64), np.array([1, 2], np.complex64), []),
        (np.array(["a", "", "c"], object), np.array(["a", "b", "d"], object), [1, 2]),
        (np.array("a", object), np.array("b", object), [0]),
        (np.array([True, False]), np.array([True, True]), [1]),
        (
            np.array([0.0, 1, np.nan]).astype(ml_dtypes.bfloat16),
            np.array([-0.0, 1, np.nan]).astype(ml_dtypes.bfloat16),
            [0],
        ),
        (np.empty((0, 2), np.complex128), np.empty((0, 2), np.complex128), []),
        (np.empty((0, 2), object), np.empty((0, 2), object), []),
    ],
)
def test_elements_of_any_type_differ_by_their_bits(
    first: Array, second: Array, offsets: list[int]
) -> None:
    second = second.astype(first.dtype).reshape(first.shape)
    assert differing(first, second).tolist() == offsets
    assert (content_of(first) == content_of(second)) == (not offsets)


def test_the_bytes_of_texts_are_json_that_utf_8_holds() -> None:
    content = content_of(np.array(["\ud800", "é"], object))
    assert msgspec.json.decode(content) == ["\\ud800", "é"]
