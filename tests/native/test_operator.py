"""The custom operators of ONNX Runtime: their bytes, their threads, and what they
refuse."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from random import Random
from shutil import which
from typing import Any, cast

import numpy as np
import onnx
import pytest
from agreement import same
from corpus_cases import descriptor_cases
from folders import HELPERS, ROOT
from kernel_numbers import gather_of
from messages import message_of, rows_of
from native_models import Refusal, asked, attributes, model, run, session, wanted
from observed_library import functions_called, functions_declared, observed
from older_runtime import STATUS_OF_ERROR, older_runtime
from onnx import TensorProto, helper
from rings import by_ring
from short_descriptors import ascending

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus.sampling import random_cases
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.execution import kernels
from onnxgather.core.options import POLICIES

pytestmark = pytest.mark.skipif(
    kernels.operators_library() is None, reason="the kernels are not built"
)

FOLDER = Path(__file__).parent
OPERATORS = [
    f"{name}{f'_{number}' if number else ''}"
    for name in ("GATHER", "GATHER_ELEMENTS", "GATHER_ND", "GATHER_ND1")
    for number in (0, *range(2, 9))
]
"""The names that the library registers."""


def cases(step: int, count: int) -> list[DescriptorCase]:
    """Return one in `step` cases of the corpus, and `count` random ones."""
    return [*descriptor_cases()[::step], *random_cases(count, 13)]


@pytest.mark.parametrize("policy", POLICIES)
def test_samples_of_the_corpus_and_random_gathers_are_the_reference_s(
    policy: og.OutOfRange,
) -> None:
    chosen = cases(by_ring(120, 40), by_ring(16, 50))
    differing = [
        case.name
        for number, case in enumerate(chosen)
        for desc, data, indices in [(case.descriptor, case.data, case.indices)]
        if not same(
            asked(desc, data, indices, policy, number % 2 + 1),
            wanted(desc, data, indices, policy),
        )
    ]
    assert (differing, len(chosen) > by_ring(24, 80)) == ([], True)


def rows(
    data: str = "FLOAT32",
    indices: str = "INT64",
    sizes: tuple[int, int] = (4, 3),
    width: int = 2,
) -> og.GatherDesc:
    """Return a gather of columns."""
    return og.GatherDesc(
        input_tensor=TensorDesc(data, sizes),
        indices_tensor=TensorDesc(indices, (1, width)),
        output_tensor=TensorDesc(data, (sizes[0], width)),
        axis=1,
        index_dimensions=1,
    )


def test_all_types_of_data_and_indices_in_one_model() -> None:
    types = [*product(og.TensorDataType, ("UINT32", "UINT64", "INT32", "INT64"))]
    gathers = [rows(data, indices) for data, indices in types]
    arrays: list[Array] = []
    for gather in gathers:
        data = np.arange(12).astype(gather.input_tensor.data_type.numpy).reshape(4, 3)
        kind = gather.indices_tensor.data_type.numpy
        arrays += [data, np.array([[2, 7]]).astype(kind)]
    found = run(session(model(gathers, [attributes(one) for one in gathers])), *arrays)
    assert len(found) == 44
    for number, gather in enumerate(gathers):
        assert same(
            found[number],
            og.reference(gather, arrays[2 * number], arrays[2 * number + 1]),
        )


def test_every_name_runs_what_its_node_says() -> None:
    gathers = [
        rows(sizes=(4, 2 + number), width=1 + number % 5) for number in range(32)
    ]
    policies: list[og.OutOfRange] = [*POLICIES] * 8
    indices = [np.arange(one.indices_tensor.sizes[1])[None] % 3 % 2 for one in gathers]
    data = [
        np.random.default_rng(7).random(one.input_tensor.sizes, np.float32)
        for one in gathers
    ]
    arrays = [array for pair in zip(data, indices, strict=True) for array in pair]
    numbers = [attributes(*each) for each in zip(gathers, policies, strict=True)]
    opened = session(model(gathers, numbers, OPERATORS))
    for number, found in enumerate(run(opened, *arrays)):
        assert same(found, og.reference(gathers[number], data[number], indices[number]))


def test_another_name_is_no_operator() -> None:
    with pytest.raises(Refusal, match="GATHER_9"):
        session(model([rows()], [attributes(rows())], ["GATHER_9"]))


LARGE = rows("FLOAT32", "INT32", (700, 300), 290)


class TestThreads:
    data = np.random.default_rng(5).random((700, 300), np.float32)
    indices = np.random.default_rng(6).integers(-300, 300, (1, 290)).astype(np.int32)

    def test_their_number_does_not_change_the_bytes(self) -> None:
        expected = og.reference(LARGE, self.data, self.indices)
        for threads in (1, 2, 5):
            found = asked(LARGE, self.data, self.indices, "clamp", threads)
            assert same(found, expected)

    @pytest.mark.parametrize("policy", POLICIES)
    def test_an_index_out_of_range_is_the_reference_s_with_threads(
        self, policy: og.OutOfRange
    ) -> None:
        indices = self.indices.copy()
        indices[0, [17, 250]] = 300, -301
        given = (LARGE, self.data, indices, policy)
        assert same(asked(*given, threads=2), wanted(*given))

    def test_several_runs_of_one_session_at_the_same_time_are_right(self) -> None:
        opened = session(model([LARGE], [attributes(LARGE)]), 2)
        inputs = [np.roll(self.indices, shift) for shift in range(8)]

        def one(indices: Array) -> Array:
            return run(opened, self.data, indices)[0]

        with ThreadPoolExecutor(4) as pool:
            found = [*pool.map(one, inputs)]
        for indices, output in zip(inputs, found, strict=True):
            assert same(output, og.reference(LARGE, self.data, indices))


DATA, INDICES = ascending("FLOAT32 4x3"), np.array([[0, 2]])


def refusal(made: onnx.ModelProto, *arrays: Array) -> str:
    """Return why ONNX Runtime refuses a model, or its run."""
    return message_of(Refusal, lambda: run(session(made), *(arrays or (DATA, INDICES))))


BROKEN_ATTRIBUTES = """
{"policy": "clam"}
policy must be clamp, error, zero or directml, got 'clam'

{"policy": 1}
policy must be clamp, error, zero or directml, got ''

{"sizes": null}
sizes must be 1 to 8 integers

{"sizes": "four"}
sizes must be 1 to 8 integers

{"sizes": [1, 1, 1, 1, 1, 1, 1, 1, 1]}
sizes must be 1 to 8 integers

{"axis_sizes": [1, 1, 1, 1, 1, 1, 1, 1, 1]}
axis_sizes must be 1 to 8 integers

{"indices_sizes": [1, 1, 1, 1, 1, 1, 1, 1, 1]}
indices_sizes must be 1 to 8 integers

{"output_shape": null}
output_shape must be 1 to 8 integers

{"output_shape": [1, 1, 1, 1, 1, 1, 1, 1, 1]}
output_shape must be 1 to 8 integers

{"data_strides": [1]}
data_strides must be 2 integers

{"index_strides": [1, 1, 1]}
index_strides must be 2 integers

{"output_strides": 3}
output_strides must be 2 integers

{"axis_strides": [1, 1]}
axis_strides must be 1 integer

{"counts": [12, 2]}
counts must be 3 integers

{"tuple_stride": [1]}
tuple_stride must be 1 integer

{"axis_sizes": [2,2], "axis_strides": [1,1], "indices_sizes": [1,2], "tuple_stride": 2}
tuple_stride must lead to elements of IndicesTensor, got 2

{"reachable_count": "all"}
reachable_count must be 1 integer

{"sizes": [0, 2]}
sizes must be 1 or more, and their product at most 2^32, got 0, 2

{"sizes": [-1, 2]}
sizes must be 1 or more, and their product at most 2^32, got -1, 2

{"sizes": [4294967296, 2]}
sizes must be 1 or more, and their product at most 2^32, got 4294967296, 2

{"sizes": [4611686018427387904, 4]}
sizes must be 1 or more, and their product at most 2^32, got 4611686018427387904, 4

{"axis_sizes": [0]}
axis_sizes must be from 1 to 2^32, got 0

{"axis_sizes": [4294967297]}
axis_sizes must be from 1 to 2^32, got 4294967297

{"indices_sizes": [1, 0]}
indices_sizes must be 1 or more, and their product at most what the loops read, got 1,
0

{"indices_sizes": [1, 9], "indices_strides": [0, 0]}
indices_sizes must be 1 or more, and their product at most what the loops read, got 1,
9

{"axis_sizes": [2, 2], "axis_strides": [1, 1], "indices_sizes": [2, 1]}
indices_sizes must end with the number of axis_sizes, got 2, 1

{"counts": [0, 2, 8]}
counts must be from 1 to 2^32, got 0, 2, 8

{"counts": [12, 4294967297, 8]}
counts must be from 1 to 2^32, got 12, 4294967297, 8

{"counts": [12, 2, -8]}
counts must be from 1 to 2^32, got 12, 2, -8

{"reachable_count": 11}
reachable_count must be from the elements of InputTensor to 2^32, got 11

{"reachable_count": 8589934592}
reachable_count must be from the elements of InputTensor to 2^32, got 8589934592

{"axis_sizes": [13]}
axis_strides must lead to elements of InputTensor, got 1

{"axis_strides": [6]}
axis_strides must lead to elements of InputTensor, got 6

{"axis_strides": [-1]}
axis_strides must lead to elements of InputTensor, got -1

{"data_strides": [4, 0]}
data_strides must lead to elements of InputTensor, got 4, 0

{"data_strides": [4611686018427387904, 0]}
data_strides must lead to elements of InputTensor, got 4611686018427387904, 0

{"index_strides": [1, 1]}
index_strides must lead to elements of IndicesTensor, got 1, 1

{"indices_strides": [2, 2]}
indices_strides must lead to elements of IndicesTensor, got 2, 2

{"output_strides": [2, 2]}
output_strides must lead to elements of OutputTensor, got 2, 2

{"output_strides": [1, 1]}
output_strides must lead to different elements of OutputTensor, got 1, 1

{"sizes": [4, 3], "index_strides": [0, 0], "output_strides": [1, 1]}
output_strides must lead to different elements of OutputTensor, got 1, 1

{"output_shape": [4, 3]}
output_shape must hold as many elements as counts says, got 4, 3

{"output_shape": [-4, -2]}
output_shape must hold as many elements as counts says, got -4, -2

{"output_shape": [4294967296, 4294967296]}
output_shape must hold as many elements as counts says, got 4294967296, 4294967296

{"output_shape": [0, 2]}
output_shape must hold as many elements as counts says, got 0, 2
"""
"""The attributes that are changed, of which null ones are left out; and the message."""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *rows_of(BROKEN_ATTRIBUTES),
        (
            json.dumps({"policy": "clamp" * 99}),
            "policy must be clamp, error, zero or directml, got ''",
        ),
    ],
)
def test_an_attribute_that_breaks_a_rule_is_one_sentence(
    changes: str, message: str
) -> None:
    numbers = attributes(rows()) | json.loads(changes)
    given = {name: found for name, found in numbers.items() if found is not None}
    start = (
        "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Exception during initialization: "
    )
    assert refusal(model([rows()], [given])) == f"{start}GATHER 'gather0': {message}"


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        (0, TensorProto.BFLOAT16, "InputTensor must have a data type of DirectML"),
        (0, TensorProto.STRING, "InputTensor must have a data type of DirectML"),
        (1, TensorProto.INT8, "IndicesTensor must be UINT32, UINT64, INT32 or INT64"),
    ],
)
def test_a_type_that_directml_has_not_is_refused(
    number: int, kind: int, message: str
) -> None:
    made = model([rows()], [attributes(rows())])
    made.graph.input[number].type.tensor_type.elem_type = kind
    if number == 0:
        made.graph.output[0].type.tensor_type.elem_type = kind
    assert refusal(made).endswith(f": GATHER 'gather0': {message}")


@pytest.mark.parametrize(
    ("data", "indices", "message"),
    [
        (
            np.zeros((5, 3), np.float32),
            INDICES,
            "InputTensor must have 12 elements of FLOAT32",
        ),
        (
            np.zeros((3, 3), np.float32),
            INDICES,
            "InputTensor must have 12 elements of FLOAT32",
        ),
        (
            np.zeros((0, 3), np.float32),
            INDICES,
            "InputTensor must have 12 elements of FLOAT32",
        ),
        (
            DATA,
            np.zeros((1, 3), np.int64),
            "IndicesTensor must have 2 elements of INT64",
        ),
        (
            DATA,
            np.zeros((1, 1), np.int64),
            "IndicesTensor must have 2 elements of INT64",
        ),
    ],
)
def test_a_tensor_of_another_size_is_refused_in_the_run(
    data: Array, indices: Array, message: str
) -> None:
    made = model([rows()], [attributes(rows())])
    for one in made.graph.input:
        for dimension in one.type.tensor_type.shape.dim:
            dimension.dim_param = f"n{id(dimension)}"
    wrong = data if data is not DATA else indices
    found = f"{message}, got {wrong.size} of {message.split()[-1]}"
    assert refusal(made, data, indices).endswith(f"Status Message: {found}")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["data0"], "has input size 1 not in range [min=2, max=2]"),
        (
            ["data0", "indices0", "indices0"],
            "has input size 3 not in range [min=2, max=2]",
        ),
        (
            ["data0", ""],
            "input 1 is marked single but has an empty string in the graph",
        ),
    ],
)
def test_other_inputs_than_two_are_refused_by_onnx_runtime(
    inputs: list[str], message: str
) -> None:
    made = model([rows()], [attributes(rows())])
    made.graph.node[0].input[:] = inputs
    assert message in refusal(made)


HOSTILE = [
    0,
    1,
    -1,
    2,
    3,
    7,
    8,
    2**31,
    2**32 - 1,
    2**32,
    2**32 + 1,
    2**62,
    2**63 - 1,
    -(2**63),
]


def mutated(random: Random, desc: og.Descriptor) -> onnx.ModelProto:
    """Return a model whose attributes are changed at random."""
    numbers: dict[str, Any] = attributes(desc, random.choice([*POLICIES]))
    for name in random.sample([*numbers], random.randint(1, 3)):
        found = numbers[name]
        chosen = random.choice(HOSTILE)
        if isinstance(found, tuple):
            some = [*cast("tuple[int, ...]", found)]
            how = random.randrange(5)
            if how == 0:
                some.append(chosen)
            elif how == 1:
                some.pop()
            else:
                some[random.randrange(len(some))] = chosen
            numbers[name] = some or "nothing"
        else:
            numbers[name] = random.choice([chosen, "clamp", "zero", "", 1.5, [chosen]])
    return model([desc], [numbers])


def attack(count: int, seed: int) -> None:
    """Run hostile models; print how many were refused and how many ran."""
    random, refused, ran = Random(seed), 0, 0
    chosen = [case for case in cases(60, 40) if case.data.size < 5000]
    for _ in range(count):
        case = random.choice(chosen)
        made = mutated(random, case.descriptor)
        try:
            (found,) = run(
                session(made, random.choice((1, 2))), case.data, case.indices
            )
        except Refusal:
            refused += 1
        else:
            assert found.dtype == case.data.dtype
            given = {
                one.name: helper.get_attribute_value(one)
                for one in made.graph.node[0].attribute
            }
            assert found.shape == tuple(given["output_shape"])
            ran += 1
    print(refused, ran)


@pytest.mark.slow
def test_hostile_models_are_refused_or_stay_inside_their_tensors() -> None:
    count = 50
    path = [str(FOLDER), str(HELPERS), str(ROOT / "scripts")]
    code = (
        f"import sys; sys.path[:0] = {path}; import test_operator as t;"
        f" t.attack({count}, 3)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    refused, ran = map(int, ended.stdout.split())
    assert refused + ran == count
    assert refused > ran > 0


def cores_counted(library: str) -> tuple[int, int]:
    """Return the cores that the library counts, and in how many parts it cuts a large
    gather."""
    loaded = ctypes.CDLL(library)
    loaded.machine_cores.restype = loaded.gather_parts.restype = ctypes.c_size_t
    gather = gather_of(LARGE, "clamp")
    cores = loaded.machine_cores()
    return cores, loaded.gather_parts(ctypes.byref(gather), ctypes.c_size_t(cores))


def run_parallel(library: str) -> bool:
    """Run a large gather; return whether ONNX Runtime was asked to run its parts in
    parallel."""
    opened = session(model([LARGE], [attributes(LARGE)]), 2, library)
    found = run(opened, TestThreads.data, TestThreads.indices)[0]
    assert same(found, og.reference(LARGE, TestThreads.data, TestThreads.indices))
    return PARALLEL_FOR in functions_called(library)


PARALLEL_FOR = 274
"""The number of KernelContext_ParallelFor in `onnxruntime_abi.h`."""


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="there are no affinity masks"
)
@pytest.mark.skipif(which("cc") is None, reason="the library is compiled by cc")
@pytest.mark.slow
def test_a_gather_has_no_more_parts_than_cores_that_the_process_may_use(
    tmp_path: Path,
) -> None:
    """Pinned to one core, a gather runs in one part, whatever the machine has."""
    library = observed(tmp_path)
    code = (
        "import os, sys; sys.path[:0] ="
        f" {[str(FOLDER), str(HELPERS), str(ROOT / 'scripts')]}\ncores ="
        " sorted(os.sched_getaffinity(0))[: int(sys.argv[2])]\nos.sched_setaffinity(0,"
        " cores)\nimport test_operator as t\nprint(len(cores),"
        " *t.cores_counted(sys.argv[1]), t.run_parallel(sys.argv[1]))"
    )
    for most in (1, 2):
        command = [sys.executable, "-c", code, library, str(most)]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert ended.stderr == ""
        cores, counted, parts, parallel = ended.stdout.split()
        assert (counted, parts, parallel) == (cores, cores, str(cores != "1"))


class TestABI:
    """The numbers of ONNX Runtime's functions, by running each of them."""

    @pytest.mark.slow
    @pytest.mark.skipif(which("cc") is None, reason="the library is compiled by cc")
    def test_every_function_is_called_and_answers(self, tmp_path: Path) -> None:
        library = observed(tmp_path)
        numbers = functions_declared("onnxruntime_abi.h")
        opened = session(model([LARGE], [attributes(LARGE)]), 2, library)
        found = run(opened, TestThreads.data, TestThreads.indices)[0]
        assert same(found, og.reference(LARGE, TestThreads.data, TestThreads.indices))
        broken = attributes(rows()) | {"policy": 3}
        with pytest.raises(Refusal, match="gather0"):
            session(model([rows()], [broken]), 1, library)
        assert functions_called(library) == numbers
        assert len(numbers) == 26

    def test_an_older_onnx_runtime_is_refused_in_one_sentence(self) -> None:
        messages: list[bytes] = []
        library = ctypes.CDLL(og.custom_ops_library())
        library.RegisterCustomOps.restype = ctypes.c_void_p
        with older_runtime(messages) as base:
            assert library.RegisterCustomOps(None, base) == STATUS_OF_ERROR
        assert messages == [
            b"the operators of onnxgather need ONNX Runtime 1.24, got 1.23.2"
        ]
