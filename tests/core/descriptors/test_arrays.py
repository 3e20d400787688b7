"""Whatever kind of array stands for a tensor gives the bytes of the plain array, or is
refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.explain import explain
from onnxgather.core.execution import session
from onnxgather.core.programs.writer import write_program

DATA = np.arange(12, dtype=np.float32).reshape(4, 3)
INDICES = np.array([[2, 0], [1, -1], [0, 0], [1, 2]])
DESC = og.GatherElementsDesc(
    og.TensorDesc("FLOAT32", [4, 3]),
    og.TensorDesc("INT64", [4, 2]),
    og.TensorDesc("FLOAT32", [4, 2]),
    axis=1,
)
ROWS = og.GatherDesc(
    og.TensorDesc("FLOAT32", [1, 3]),
    og.TensorDesc("INT64", [1, 2]),
    og.TensorDesc("FLOAT32", [1, 2]),
    axis=1,
    index_dimensions=1,
)


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


USES: list[Callable[[Any, Any, Any], Any]] = [
    *(og.reference, og.run, explained, known, expected, write_program)
]


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


@pytest.mark.one_quick_in(4)
@pytest.mark.parametrize("kind", KINDS)
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
    assert type(found) is type(wanted)
    if isinstance(wanted, np.ndarray):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)  # type: ignore[misc]
        assert found.tobytes() == wanted.tobytes()
    else:
        assert found == wanted


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
        (np.int64(1), "int64" + NUMPY),
        (INDICES.tolist(), "list" + NUMPY),
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
    with pytest.raises(og.DescriptorError) as caught:
        use(DESC, DATA, indices)
    assert (
        str(caught.value)
        == f"IndicesTensor must be an array of int64 (4, 2), got {found}"
    )


def test_a_type_that_is_like_float16_is_not_float16() -> None:
    half = og.GatherElementsDesc(
        og.TensorDesc("FLOAT16", [4, 3]),
        DESC.indices_tensor,
        og.TensorDesc("FLOAT16", [4, 2]),
        axis=1,
    )
    with pytest.raises(og.DescriptorError) as caught:
        og.run(half, DATA.astype(ml_dtypes.bfloat16), INDICES)
    assert (
        str(caught.value)
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
    with pytest.raises(og.DescriptorError) as caught:
        use(desc, DATA, INDICES)
    assert (
        str(caught.value)
        == "desc must be one of GatherDesc, GatherElementsDesc, GatherNDDesc,"
        f" GatherND1Desc, got {desc!r}"
    )
