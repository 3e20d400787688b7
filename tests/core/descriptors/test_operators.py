"""Rules of descriptors, each with its full message; the recorded ones are in
test_recordings.py."""

from __future__ import annotations

import itertools
import math
import time
from ast import literal_eval
from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import message_of, rows_of
from short_descriptors import descriptor, tensor_desc

import onnxgather as og
from onnxgather.core.descriptors.explain import all_places, explain
from onnxgather.core.descriptors.operators import header_names
from onnxgather.core.descriptors.strides import overlapping, overlaps
from onnxgather.core.options import OutOfRange

UINT_RULE = "must be an integer from 0 to 4294967295"


def gather(**changes: Any) -> og.GatherDesc:
    """Return a small GATHER with some fields changed."""
    fields: dict[str, Any] = {
        "input_tensor": tensor_desc("FLOAT32 4x3"),
        "indices_tensor": tensor_desc("UINT32 1x2"),
        "output_tensor": tensor_desc("FLOAT32 4x2"),
        "axis": 1,
        "index_dimensions": 1,
    }
    return og.GatherDesc(**fields | changes)


BROKEN_TENSORS = """
"UINT4", [1]
DataType must be one of FLOAT64, FLOAT32, FLOAT16, INT64, INT32, INT16, INT8, UINT64,
UINT32, UINT16, UINT8, got 'UINT4'

7, [1]
DataType must be one of FLOAT64, FLOAT32, FLOAT16, INT64, INT32, INT16, INT8, UINT64,
UINT32, UINT16, UINT8, got 7

"INT8", []
DimensionCount must be 1 to 8, got 0

"INT8", [1, 1, 1, 1, 1, 1, 1, 1, 1]
DimensionCount must be 1 to 8, got 9

"INT8", 4
Sizes must be a sequence, got 4

"INT8", "44"
Sizes must be a sequence, got '44'

"INT8", [2, 0]
Sizes[1] must be at least 1, got 0

"INT8", [2, -1]
Sizes[1] must be an integer from 0 to 4294967295, got -1

"INT8", [1.5]
Sizes[0] must be an integer from 0 to 4294967295, got 1.5

"INT8", [True]
Sizes[0] must be an integer from 0 to 4294967295, got True

"INT8", [4294967296]
Sizes[0] must be an integer from 0 to 4294967295, got 4294967296

"INT8", [65536, 65536]
Sizes [65536, 65536] must describe at most 4294967295 elements, got 4294967296

"INT8", [2, 2], [4294967295, 1]
Sizes [2, 2] and Strides [4294967295, 1] must describe at most 4294967295 elements, got
4294967297

"INT8", [2], [1, 1]
Strides must have as many elements as Sizes (1), got 2

"INT8", [2], [-1]
Strides[0] must be an integer from 0 to 4294967295, got -1

"INT8", [2], "1"
Strides must be a sequence, got '1'

"INT8", [5], None, 7
TotalTensorSizeInBytes must be at least 8 (5 elements of INT8, rounded up to 4 bytes),
got 7

"INT16", [2, 3], [4, 1], 12
TotalTensorSizeInBytes must be at least 16 (7 elements of INT16, rounded up to 4
bytes), got 12

"INT8", [5], None, "8"
TotalTensorSizeInBytes must be an integer from 0 to 34359738360, got '8'

"INT8", [5], None, 4294967300
TotalTensorSizeInBytes must hold at most 4294967295 elements, got 4294967300

"UINT8", [4294967293]
Sizes [4294967293] must describe at most 4294967292 elements of UINT8, as a buffer is a
multiple of 4 bytes, got 4294967293

"UINT8", [4294967295], None, 4294967295
Sizes [4294967295] must describe at most 4294967292 elements of UINT8, as a buffer is a
multiple of 4 bytes, got 4294967295

"INT16", [2, 2], [4294967293, 1]
Sizes [2, 2] and Strides [4294967293, 1] must describe at most 4294967294 elements of
INT16, as a buffer is a multiple of 4 bytes, got 4294967295

"INT64", [2], None, 20, "NONE", 8
GuaranteedBaseOffsetAlignment must be 0 or a power of two from 16, got 8 (Microsoft's
page allows a power of two from the size of an element, which DirectML refuses below
16)

"INT8", [5], None, 0, "SHARED"
Flags must be NONE or OWNED_BY_DML, got 'SHARED'

"INT8", [5], None, 0, 3
Flags must be NONE or OWNED_BY_DML, got 3

"INT16", [5], None, 0, "NONE", 1
GuaranteedBaseOffsetAlignment must be 0 or a power of two from 16, got 1
"""
"""The arguments of TensorDesc, and the message."""


@pytest.mark.parametrize(("arguments", "message"), rows_of(BROKEN_TENSORS))
def test_a_tensor_that_breaks_a_rule_is_refused_by_its_message(
    arguments: str, message: str
) -> None:
    given = literal_eval(f"({arguments})")
    assert message_of(og.DescriptorError, og.TensorDesc, *given) == message


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (10**5000, "a value of type int that cannot be shown"),
        ("x" * 300, f"'{'x' * 99}…{'x' * 99}'"),
    ],
    ids=["integer", "text"],
)
def test_a_size_that_is_too_long_to_show_is_cut(size: Any, shown: str) -> None:
    assert message_of(og.DescriptorError, og.TensorDesc, "INT8", [size]) == (
        f"Sizes[0] {UINT_RULE}, got {shown}"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axis": -1}, f"Axis {UINT_RULE}, got -1; did you mean Axis 1?"),
        ({"axis": 1.0}, f"Axis {UINT_RULE}, got 1.0; did you mean Axis 1?"),
        (
            {"index_dimensions": None},
            (f"IndexDimensions {UINT_RULE}, got None; did you mean IndexDimensions 1?"),
        ),
        ({"input_tensor": [4, 3]}, "InputTensor must be a TensorDesc, got [4, 3]"),
        (
            {"output_tensor": og.TensorDesc("FLOAT32", [4, 2], flags="OWNED_BY_DML")},
            (
                "OutputTensor.Flags must be NONE, as only inputs can be OWNED_BY_DML,"
                " got OWNED_BY_DML"
            ),
        ),
        (
            {"output_tensor": tensor_desc("FLOAT32 4x2 strides 0x1")},
            "OutputTensor.Strides[0] must be at least 1 where Sizes[0] is 4, got 0",
        ),
        (
            {"output_tensor": tensor_desc("FLOAT32 4x2 strides 1x3")},
            (
                "OutputTensor.Strides must give each element of OutputTensor.Sizes [4,"
                " 2] a place of its own, got [1, 3], which gives [0, 1] and [3, 0] the"
                " place 3"
            ),
        ),
    ],
)
def test_a_descriptor_that_breaks_a_rule_is_refused_by_its_message(
    changes: dict[str, Any], message: str
) -> None:
    assert message_of(og.DescriptorError, gather, **changes) == message


def test_index_dimensions_may_be_0_and_may_be_dimension_count() -> None:
    scalar = descriptor("GATHER: FLOAT32 3, INT32 1, FLOAT32 1, 0, 0")
    whole = descriptor("GATHER: FLOAT32 3, INT32 5, FLOAT32 5, 0, 1")
    data = np.array([1, 2, 3], np.float32)
    assert og.reference(scalar, data, np.array([-1], np.int32)).tolist() == [3]
    indices = np.array([2, 1, 0, 1, 2], np.int32)
    assert og.reference(whole, data, indices).tolist() == [3, 2, 1, 2, 3]


def cropping(
    data: list[int], indices: list[int], output: list[int], axis: int, counted: int
) -> og.GatherDesc:
    """Return a GATHER of these sizes; its output crops as many as the indices have in
    excess."""
    return og.GatherDesc(
        og.TensorDesc("FLOAT32", data),
        og.TensorDesc("UINT32", indices),
        og.TensorDesc("FLOAT32", output),
        axis=axis,
        index_dimensions=counted,
    )


@pytest.mark.parametrize(
    ("sizes", "axis"), [([1, 3, 2], 1), ([1, 1, 6], 2), ([3, 1, 2], 0)]
)
def test_the_output_may_crop_ones_of_the_indices(sizes: list[int], axis: int) -> None:
    output = [*sizes[:axis], 5, *sizes[axis + 1 :]]
    indices = [1] * 2 + [5]
    plain = cropping(sizes, indices, output, axis, 1)
    cropped = cropping(sizes, indices, output, axis, 3)
    data, chosen = (
        np.arange(6, dtype=np.float32),
        np.array([2, 9, 0, 1, 2**31], np.uint32),
    )
    data, chosen = data.reshape(sizes), chosen.reshape(indices)
    for policy in get_args(OutOfRange):
        if policy != "error":
            expected = og.reference(plain, data, chosen, policy).tobytes()
            assert og.reference(cropped, data, chosen, policy).tobytes() == expected
            assert og.run(cropped, data, chosen, policy).tobytes() == expected
            places = all_places(cropped.output_tensor.sizes)
            found = [explain(cropped, data, chosen, at, policy) for at in places]
            assert (
                b"".join(bytes.fromhex(e.value_bytes or "") for e in found) == expected
            )


@pytest.mark.parametrize(
    ("data", "indices", "counted", "message"),
    [
        (
            [3, 2],
            [3, 2],
            2,
            (
                "OutputTensor.Sizes must be [3, 2, 2], which Axis 0 and IndexDimensions"
                " 2 give, as only leading ones are cropped to DimensionCount (2), got"
                " [3, 2]"
            ),
        ),
        (
            [3, 1, 1, 1],
            [1, 2, 1, 2],
            4,
            (
                "OutputTensor.Sizes must be [1, 2, 1, 2, 1, 1, 1], which Axis 0 and"
                " IndexDimensions 4 give, as only leading ones are cropped to"
                " DimensionCount (4), got [3, 1, 1, 1]"
            ),
        ),
        (
            [3] + [1] * 4,
            [1] * 5,
            5,
            (
                "Axis must be at least IndexDimensions - 1 (4), as what the output"
                " crops of more than 8 sizes (9) is undefined otherwise, got 0"
            ),
        ),
    ],
)
def test_the_output_crops_nothing_but_ones_of_at_most_8_sizes(
    data: list[int], indices: list[int], counted: int, message: str
) -> None:
    assert (
        message_of(og.DescriptorError, cropping, data, indices, data, 0, counted)
        == message
    )


BROKEN_NUMBERS = """
GATHER 4x3 1x2 4x2 2 1
Axis must be less than InputTensor.DimensionCount (2), got 2; did you mean Axis 1?

GATHER 3x3 1x3 3x3 2 1
Axis must be less than InputTensor.DimensionCount (2), got 2; did you mean Axis 0 or
Axis 1?

GATHER 2x2x2 1x1x2 2x2x2 3 1
Axis must be less than InputTensor.DimensionCount (3), got 3

GATHER 4x3 1x2 4x2 0 0
IndicesTensor.Sizes before the last IndexDimensions (0) must be 1, as what others mean
is undefined, got [1, 2]

GATHER 4x3 1x2 4x2 1 3
IndexDimensions must be 0 to IndicesTensor.DimensionCount (2), got 3; did you mean
IndexDimensions 1?

GATHER 1x4x3 1x2x5 4x2x5 2 1
IndicesTensor.Sizes before the last IndexDimensions (1) must be 1, as what others mean
is undefined, got [1, 2, 5]; did you mean IndexDimensions 2?

GATHER 4x3 1x2 4x2 0 1
OutputTensor.Sizes must be [2, 3], which Axis 0 and IndexDimensions 1 give, got [4,
2]; did you mean Axis 1?

GATHER 4x3 1x1 4x2 1 0
OutputTensor.Sizes must be [1, 4], which Axis 1 and IndexDimensions 0 give, got [4, 2]

GATHER_ELEMENTS 3x3 2x3 2x3 1
IndicesTensor.Sizes[0] must be InputTensor.Sizes[0] (3), as it is not at Axis, got 2;
did you mean Axis 0?

GATHER_ELEMENTS 3x3 2x3 3x3 0
OutputTensor.Sizes must be [2, 3], those of IndicesTensor, got [3, 3]

GATHER_ND 2x3 4x1 4x3 3 2
InputDimensionCount must be 1 to InputTensor.DimensionCount (2), got 3; did you mean
InputDimensionCount 2?

GATHER_ND 2x3 4x1 4x3 2 0
IndicesDimensionCount must be 1 to IndicesTensor.DimensionCount (2), got 0; did you
mean IndicesDimensionCount 2?

GATHER_ND 2x3 4x1 4x3 1 2
InputTensor.Sizes before the last InputDimensionCount (1) must be 1, as what others
mean is undefined, got [2, 3]; did you mean InputDimensionCount 2?

GATHER_ND 2x3 4x1 4x3 2 1
IndicesTensor.Sizes before the last IndicesDimensionCount (1) must be 1, as what
others mean is undefined, got [4, 1]; did you mean IndicesDimensionCount 2?

GATHER_ND 2x3x4x5 6x7x8x1 1x1x2x6 4 4
OutputTensor.DimensionCount must be at least 6, for the sizes [6, 7, 8, 3, 4, 5],
which InputDimensionCount 4, IndicesDimensionCount 4 and index tuples of 1 give, got 4

GATHER_ND 1x2x3 1x4x2 1x1x4 3 2
OutputTensor.Sizes must be [1, 4, 3], which InputDimensionCount 3,
IndicesDimensionCount 2 and index tuples of 2 give, got [1, 1, 4]; did you mean
InputDimensionCount 2?

GATHER_ND1 2x3 2x1 1x2 2 2 2
BatchDimensionCount must be less than DimensionCount (2), got 2; did you mean
BatchDimensionCount 1?

GATHER_ND1 2x3 2x1 1x2 2 2 0
OutputTensor.Sizes must be [2, 3], which InputDimensionCount 2, IndicesDimensionCount
2, BatchDimensionCount 0 and index tuples of 1 give, got [1, 2]; did you mean
BatchDimensionCount 1?

GATHER_ND1 2x3 4x1 1x4 2 2 1
The BatchDimensionCount (1) batch sizes of IndicesTensor must be those of InputTensor,
[2], as what others mean is undefined, got [4]
"""
"""The operator, the sizes of its tensors, and its numbers; and the message.

No number is suggested where three are valid, or where two are wrong.
"""


@pytest.mark.parametrize(("row", "message"), rows_of(BROKEN_NUMBERS))
def test_a_message_has_the_numbers_and_the_one_that_would_be_valid(
    row: str, message: str
) -> None:
    operator, data, indices, output, *numbers = row.split()
    cls: Any = og.OPERATORS[operator]
    texts = (f"FLOAT32 {data}", f"UINT32 {indices}", f"FLOAT32 {output}")
    given = [*map(tensor_desc, texts), *map(int, numbers)]
    assert message_of(og.DescriptorError, cls, *given) == message
    fields = dict(zip(header_names(cls), given, strict=True))
    spelling = {name: field for field, name in header_names(cls).items()}
    _, _, suggested = message.partition("; did you mean ")
    for text in filter(None, suggested.removesuffix("?").split(" or ")):
        name, number = text.split()
        cls(**fields | {spelling[name]: int(number)})


def test_a_suggestion_is_made_only_for_numbers() -> None:
    wrong = tensor_desc("FLOAT16 4x2")
    assert message_of(og.DescriptorError, gather, output_tensor=wrong, axis=0) == (
        "OutputTensor.DataType must be that of InputTensor (FLOAT32), got FLOAT16"
    )


def test_of_many_elements_with_one_place_no_two_are_looked_for() -> None:
    assert message_of(
        og.DescriptorError,
        gather,
        input_tensor=og.TensorDesc("FLOAT32", [2**20, 3]),
        output_tensor=og.TensorDesc("FLOAT32", [2**20, 2], [1, 2**20 - 1]),
    ) == (
        "OutputTensor.Strides must give each element of OutputTensor.Sizes [1048576,"
        " 2] a place of its own, got [1, 1048575]"
    )


def test_sizes_and_counts_may_be_numpy_integers() -> None:
    tensor = og.TensorDesc("FLOAT32", np.array([4, 3]), np.array([3, 1]))  # type: ignore[arg-type]
    assert tensor.sizes == (4, 3)
    assert all(type(n) is int for n in (*tensor.sizes, *(tensor.strides or ())))
    assert gather(axis=np.int64(1)) == gather()


def test_names_may_be_short_or_long() -> None:
    long = og.TensorDesc(
        "DML_TENSOR_DATA_TYPE_INT8", [4], flags=["DML_TENSOR_FLAG_OWNED_BY_DML", "NONE"]
    )
    assert long == og.TensorDesc(
        og.TensorDataType.INT8, [4], flags=og.TensorFlags.OWNED_BY_DML
    )


@pytest.mark.parametrize(
    ("data_type", "sizes", "strides", "expected"),
    [
        ("UINT8", [3], None, 4),
        ("UINT8", [1, 1, 1, 5], None, 8),
        ("FLOAT16", [3], None, 8),
        ("FLOAT16", [1], None, 4),
        ("INT64", [2, 3], None, 48),
        ("FLOAT32", [3, 3], [4, 1], 44),
        ("FLOAT32", [2, 3], [0, 1], 12),
        ("UINT8", [2, 3], [0, 0], 4),
    ],
)
def test_total_tensor_size_follows_directmls_rule(
    data_type: str, sizes: list[int], strides: list[int] | None, expected: int
) -> None:
    assert (
        og.TensorDesc(data_type, sizes, strides).total_tensor_size_in_bytes == expected
    )


def test_header_names_are_directmls_in_its_order() -> None:
    assert list(header_names(og.TensorDesc).values()) == [
        "DataType",
        "Sizes",
        "Strides",
        "TotalTensorSizeInBytes",
        "Flags",
        "GuaranteedBaseOffsetAlignment",
    ]
    tensors = ["InputTensor", "IndicesTensor", "OutputTensor"]
    counts = ["InputDimensionCount", "IndicesDimensionCount"]
    assert {
        name: list(header_names(cls).values()) for name, cls in og.OPERATORS.items()
    } == {
        "GATHER": [*tensors, "Axis", "IndexDimensions"],
        "GATHER_ELEMENTS": [*tensors, "Axis"],
        "GATHER_ND": [*tensors, *counts],
        "GATHER_ND1": [*tensors, *counts, "BatchDimensionCount"],
    }


def test_descriptors_are_immutable_hashable_values() -> None:
    assert gather() == gather()
    assert hash(gather()) == hash(gather())
    assert gather() != gather(output_tensor=tensor_desc("FLOAT32 4x2 strides 2x1"))
    with pytest.raises(AttributeError, match="immutable"):
        gather().axis = 0  # type: ignore[misc]


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 12)), min_size=1, max_size=4
    ).filter(lambda dims: math.prod(n for n, _ in dims) <= 300)
)
def test_overlap_is_found_exactly(dims: list[tuple[int, int]]) -> None:
    sizes, strides = zip(*dims, strict=True)
    elements = [list(element) for element in itertools.product(*map(range, sizes))]
    places = [
        sum(c * s for c, s in zip(element, strides, strict=True))
        for element in elements
    ]
    found = overlaps(sizes, strides)
    assert found == (len(set(places)) < len(places))
    if found:
        second = next(k for k, place in enumerate(places) if place in places[:k])
        first = places.index(places[second])
        assert overlapping(sizes, strides) == (
            f", which gives {elements[first]} and {elements[second]} the place"
            f" {places[second]}"
        )


def test_overlap_of_large_tensors_is_quick() -> None:
    assert not overlaps([2**10] * 3, [2**20, 2**10, 1])
    assert not overlaps([2**11, 2**20], [1, 2**11])
    assert overlaps([2**11, 2**20], [1, 2**11 - 1])
    assert not overlaps([2**15, 2**15], [2**15 + 1, 2**15])  # coprime, interleaved
    assert overlaps([2**15 + 2, 2**15 + 2], [2**15 + 1, 2**15])


# of up to 2^31 elements, in 3 to 8 dimensions; the first and the last have overlaps
TANGLED = [
    (
        [9] * 8,
        "62742444 61925337 66821346 63664812 61736833 66789469 67084929 61001383",
    ),
    ([14] * 7, "42434056 42603960 41613182 43279765 41042399 41298213 43797817"),
    ([44] * 5, "18161580 19413834 17633253 19193637 19285168"),
    ([900] * 3, "1583125 1468668 1525441"),
    ([1619, 1590, 1667], "884129 900397 858817"),
]


@pytest.mark.parametrize(("sizes", "strides"), TANGLED)
def test_overlap_is_decided_at_once_however_strides_tangle(
    sizes: list[int], strides: str
) -> None:
    start = time.process_time()
    found = overlaps(sizes, [int(stride) for stride in strides.split()])
    assert time.process_time() - start < 20  # a search by trial takes minutes
    assert found == ((sizes, strides) in (TANGLED[0], TANGLED[-1]))


@given(
    st.lists(
        st.tuples(st.integers(2, 4), st.integers(1, 400)), min_size=3, max_size=6
    ).filter(lambda dims: math.prod(n for n, _ in dims) <= 1000)
)
def test_overlap_is_found_exactly_where_strides_tangle(
    dims: list[tuple[int, int]],
) -> None:
    offsets = [
        sum(c) for c in itertools.product(*([i * s for i in range(n)] for n, s in dims))
    ]
    sizes, strides = zip(*dims, strict=True)
    assert overlaps(sizes, strides) == (len(set(offsets)) < len(offsets))


def test_feature_level_ceiling_names_what_needs_more() -> None:
    from onnxgather.core.descriptors.feature_levels import check_feature_level

    desc = gather(indices_tensor=tensor_desc("INT64 1x2"))
    check_feature_level(desc, "3_0")
    check_feature_level(desc, "6_4")
    assert message_of(og.DescriptorError, check_feature_level, desc, "2_1") == (
        "the feature level must be at most 2_1, got 3_0 (IndicesTensor.DataType"
        " INT64 needs 3_0; DimensionCount 2 needs 3_0)"
    )
    assert message_of(og.OnnxGatherError, check_feature_level, desc, "9_9") == (
        "feature level must be one of 1_0, 2_0, 2_1, 3_0, 3_1, 4_0, 4_1, 5_0, 5_1,"
        " 5_2, 6_0, 6_1, 6_2, 6_3, 6_4, got '9_9'"
    )


def test_data_type_table_is_a_bijection() -> None:
    types = list(og.TensorDataType)
    assert len(types) == 11
    for column in (
        [t.numpy for t in types],
        [t.onnx for t in types],
        [t.directml for t in types],
    ):
        assert len(set(column)) == 11


def test_replacing_a_field_checks_the_rules_again() -> None:
    assert message_of(
        og.DescriptorError, msgspec.structs.replace, gather(), axis=2
    ) == (
        "Axis must be less than InputTensor.DimensionCount (2), got 2; did you mean"
        " Axis 1?"
    )


@pytest.mark.parametrize(
    ("found", "meant"),
    [
        (np.float32, "FLOAT32"),
        (np.dtype("int64"), "INT64"),
        ("numpy.int64", "INT64"),
        (int, "INT32"),
    ],
)
def test_a_data_type_of_another_library_gets_a_suggestion(
    found: Any, meant: str
) -> None:
    with pytest.raises(og.DescriptorError, match=f'; did you mean "{meant}"\\?$'):
        og.TensorDesc(found, [1])


def _call(cls: Any, wrong: str) -> str:
    """Return Python's error of a call with an argument that a class does not have."""
    return message_of(TypeError, cls, **{wrong: 1})


@pytest.mark.parametrize("cls", [og.TensorDesc, *og.OPERATORS.values()])
def test_an_argument_as_the_header_spells_it_gets_its_name_in_python(cls: Any) -> None:
    for field, name in header_names(cls).items():
        small = name[0].lower() + name[1:]
        for spelled in {name, small, name.upper()} - {field}:
            assert _call(cls, spelled) == (
                f"{cls.__name__}() has no argument {spelled}; in Python it is {field}"
            )


@pytest.mark.parametrize(
    ("cls", "wrong", "message"),
    [
        (og.GatherDesc, "axes", 'has no argument axes; did you mean "axis"?'),
        (  # a translation of Microsoft's page spells it like this
            og.GatherNDDesc,
            "IndexesTensor",
            'has no argument IndexesTensor; did you mean "indices_tensor"?',
        ),
        (
            og.TensorDesc,
            "DimensionCount",
            "has no argument DimensionCount; it is the number of sizes",
        ),
        (
            og.GatherElementsDesc,
            "x\n",
            (
                "has no argument x\\n; it has input_tensor, indices_tensor,"
                " output_tensor, axis"
            ),
        ),
    ],
)
def test_an_unknown_argument_is_pythons_error_with_help(
    cls: Any, wrong: str, message: str
) -> None:
    assert _call(cls, wrong) == f"{cls.__name__}() {message}"


def test_too_many_and_missing_values_are_the_constructors_own_errors() -> None:
    cls: Any = og.GatherDesc
    tensor = tensor_desc("FLOAT32 1")
    with pytest.raises(TypeError, match=r"^Extra positional arguments provided$"):
        cls(tensor, tensor, tensor, 0, 1, 2)
    with pytest.raises(TypeError, match=r"^Missing required argument 'axis'$"):
        cls(tensor, tensor, tensor)
    with pytest.raises(TypeError, match="'axis' given by name and position"):
        cls(tensor, tensor, tensor, 0, 1, axis=1)
