"""The kernels by themselves, compiled here: their bytes, their parts, and mistakes
planted in C."""

from __future__ import annotations

import ctypes
import math
import subprocess
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from bench_workloads import Workload
from corpus_cases import descriptor_cases
from kernel_numbers import INDEX_TYPES, gather_of
from sanitize import NATIVE, SHARED
from short_descriptors import ascending, descriptor

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus.sampling import random_cases
from onnxgather.core.descriptors.arrays import (
    Array,
    axis_sizes,
    elements,
    is_outside,
)
from onnxgather.core.loops import loops_of
from onnxgather.core.options import POLICIES

Change = tuple[str, str, str]
"""A source, what stands there once, and what stands there instead."""

Question = tuple[str, og.Descriptor, og.OutOfRange, Array, Array, Array | None]

STOPPED, RAN, RAN_OUTSIDE = range(3)
"""`enum gather_end` of kernel.h."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(which("cc") is None, reason="there is no C compiler"),
]


def run(
    kernels: ctypes.CDLL, question: Question, parts: int
) -> tuple[int, bytes | None]:
    """Return how a gather ended that ran in parts, and the output that they leave.

    A part that stops ends the whole, and so does one that met an index out of range.
    """
    _, desc, policy, data, indices, _ = question
    gather = gather_of(desc, policy)
    assert not kernels.gather_check(ctypes.byref(gather))
    output = np.full(desc.output_tensor.array_shape, 7, data.dtype)
    data, indices = np.ascontiguousarray(data), np.ascontiguousarray(indices)
    buffers = [ctypes.c_void_p(array.ctypes.data) for array in (data, indices, output)]
    kernels.gather_clear(ctypes.byref(gather), buffers[2])
    numbers = [(ctypes.c_size_t(part), ctypes.c_size_t(parts)) for part in range(parts)]
    ends = {
        kernels.gather_run(ctypes.byref(gather), *buffers, *number)
        for number in numbers
    }
    if STOPPED in ends:
        return STOPPED, None
    return max(ends), output.tobytes()


def expected_end(question: Question) -> int:
    """Return how the gather of a question ends, by its indices."""
    _, desc, policy, _, indices, expected = question
    if expected is None:
        return STOPPED
    values = elements(desc.indices_tensor, indices)
    if policy == "directml" and values.dtype == np.uint64:
        # DirectML reads UINT64 as INT64.
        values = values.astype(np.int64)
    return RAN_OUTSIDE if is_outside(values, axis_sizes(desc)).any() else RAN


def differing(kernels: ctypes.CDLL, questions: list[Question]) -> Iterator[str]:
    """Yield the name of each question that ends in another way than its indices say, or
    with another output than the reference's, in 1 to 5 parts."""
    for number, question in enumerate(questions):
        name, _, policy, _, _, expected = question
        output = None if expected is None else expected.tobytes()
        end = expected_end(question)
        if run(kernels, question, 1 + number % 5) != (end, output):
            yield f"{name} {policy}"


@cache
def questions(count: int = 150) -> list[Question]:
    """Return large gathers, samples of the corpus and random gathers, under each
    policy."""
    cases = [*descriptor_cases()[:: 2000 // count], *random_cases(count, 17)]
    found: list[Question] = []
    for case in [*large_cases(), *cases]:
        for policy in POLICIES:
            try:
                expected = og.reference(
                    case.descriptor, case.data, case.indices, policy
                )
            except og.IndexOutOfRangeError:
                expected = None
            found.append(
                (case.name, case.descriptor, policy, case.data, case.indices, expected)
            )
    return found


def large_cases() -> Iterator[DescriptorCase]:
    """Yield gathers of several tiles: elements, rows, columns, tuples; half of them in
    range.

    The first half of the indices is in range, and not negative.
    """
    shapes: list[tuple[str, str, tuple[int, ...], tuple[int, ...], int]] = [
        ("GATHER", "UINT8", (5_000_000,), (20_000,), 0),
        ("GATHER", "FLOAT64", (3000,), (9000,), 0),
        ("GATHER", "FLOAT32", (1200, 5), (3000,), 0),
        ("GATHER", "UINT8", (100_000, 3), (9000,), 0),
        ("GATHER", "FLOAT32", (1200, 4), (3000,), 0),
        ("GATHER", "UINT8", (300, 50), (900,), 0),
        ("GATHER", "FLOAT32", (200, 20), (700,), 0),
        ("GATHER", "FLOAT32", (200, 37), (700,), 0),
        ("GATHER", "FLOAT32", (30, 1001), (50,), 0),
        ("GATHER", "FLOAT32", (900, 3), (3,), 1),
        ("GATHER", "FLOAT16", (40, 700), (300,), 1),
        ("GATHER", "FLOAT16", (30, 300, 4), (200,), 1),
        ("GATHER", "FLOAT64", (30, 300, 3), (200,), 1),
        ("GATHER_ELEMENTS", "FLOAT32", (900, 4), (900, 4), 0),
        ("GATHER_ELEMENTS", "FLOAT32", (4, 3000), (4, 3001), 1),
        ("GATHER_ELEMENTS", "FLOAT16", (50, 600), (70, 600), 0),
        ("GATHER_ND", "FLOAT16", (9, 8, 7, 3), (5000, 3), 0),
        ("GATHER_ND", "FLOAT32", (90, 80), (5000, 2), 0),
        ("GATHER_ND", "UINT8", (60, 50, 3), (5000, 2), 0),
        ("GATHER_ND", "FLOAT64", (5, 6, 7), (5000, 3), 0),
    ]
    rng = np.random.default_rng(5)
    for number, (operator, kind, data, indices, axis) in enumerate(shapes):
        workload = Workload("", "", operator, kind, data, indices, axis)
        for index_type in INDEX_TYPES:
            signed, beyond = index_type.startswith("i"), number % 2
            limits = workload.limits.astype(np.int64)
            high = limits + beyond
            low = -high * signed
            chosen = rng.integers(low, high, indices, np.int64)
            plain = rng.integers(0, limits, indices, np.int64)
            half = chosen.size // 2
            chosen.reshape(-1)[:half] = plain.reshape(-1)[:half]
            chosen = chosen.astype(index_type)
            desc, (array, _) = workload.desc(index_type.upper()), workload.arrays()
            name = f"{operator} {kind} {data} {index_type} {indices}"
            array = array.reshape(desc.input_tensor.array_shape)
            chosen = chosen.reshape(desc.indices_tensor.array_shape)
            yield DescriptorCase(name, desc, array, chosen)


def compiled(folder: Path, flags: list[str], *changes: Change) -> ctypes.CDLL:
    """Compile the kernels, with some text of their sources replaced."""
    for path in NATIVE.glob("*.[ch]"):
        text = path.read_text()
        for name, old, new in changes:
            if name == path.name:
                assert text.count(old) == 1, f"{name} must hold once: {old}"
                text = text.replace(old, new)
        (folder / path.name).write_text(text)
    made = str(folder / "kernels.so")
    sources = [str(folder / name) for name in SHARED]
    subprocess.run(
        ["cc", "-std=c11", "-shared", "-fPIC", *flags, *sources, "-o", made], check=True
    )
    return ctypes.CDLL(made)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The kernels as they are; no warning is allowed."""
    strict = ["-O2", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Werror"]
    return compiled(tmp_path_factory.mktemp("kernels"), strict)


def test_the_kernels_give_the_bytes_of_the_reference_in_one_to_five_parts(
    kernels: ctypes.CDLL,
) -> None:
    """Each part may run on a thread of its own."""
    assert list(differing(kernels, questions(400))) == []


LOOP_KINDS = {
    "rows from their indices": "GATHER: FLOAT32 1x70, INT64 1x99, FLOAT32 1x99, 1, 1",
    "rows from pairs": "GATHER_ND: FLOAT32 70x70, INT64 99x2, FLOAT32 1x99, 2, 2",
    "rows from offsets": "GATHER: UINT8 70x50, INT64 1x99, UINT8 99x50, 0, 1",
    "offsets that repeat": "GATHER: FLOAT32 5x70, INT64 1x99, FLOAT32 5x99, 1, 1",
    "lines": "GATHER_ELEMENTS: FLOAT16 70x40, INT64 99x40, FLOAT16 99x40, 0",
    "triples": ("GATHER_ND: FLOAT32 70x70x70, INT64 1x99x3, FLOAT32 1x1x99, 3, 2"),
}
"""A descriptor for each way to run a gather."""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", LOOP_KINDS)
def test_a_gather_says_whether_it_met_an_index_out_of_range(
    kernels: ctypes.CDLL, kind: str, policy: og.OutOfRange
) -> None:
    """The first index, one in the middle, the last one, or none; in 1 to 3 parts."""
    desc = descriptor(LOOP_KINDS[kind])
    data = ascending(desc.input_tensor)
    shape = desc.indices_tensor.array_shape
    for value, end in ((3, RAN), (-1, RAN), (70, RAN_OUTSIDE), (-71, RAN_OUTSIDE)):
        for place in (0, math.prod(shape) // 2, -1):
            indices = np.zeros(shape, np.int64)
            indices.reshape(-1)[place] = value
            expected = None
            if policy != "error" or end == RAN:
                expected = og.reference(desc, data, indices, policy)
            question: Question = (kind, desc, policy, data, indices, expected)
            assert expected_end(question) == (STOPPED if expected is None else end)
            for parts in (1, 2, 3):
                assert run(kernels, question, parts)[0] == expected_end(question)


def test_the_worked_example_of_the_loops_gives_its_output(kernels: ctypes.CDLL) -> None:
    """Both at once and in two parts."""
    desc = descriptor("GATHER: FLOAT32 2x4, UINT32 1x2, FLOAT32 2x2, 1, 1")
    loops = loops_of(desc, "clamp")
    assert (loops.sizes, loops.axis_sizes, loops.axis_strides) == ((2, 2), (4,), (1,))
    steps = (loops.data_strides, loops.index_strides, loops.output_strides)
    assert steps == ((4, 0), (0, 1), (2, 1))
    data = ascending("FLOAT32 2x4")
    question: Question = (
        "example",
        desc,
        "clamp",
        data,
        np.array([[1, 9]], np.uint32),
        None,
    )
    for parts in (1, 2):
        output = np.array([1, 3, 5, 7], np.float32).tobytes()
        assert run(kernels, question, parts) == (RAN_OUTSIDE, output)


@pytest.mark.parametrize("row_bytes", [416, 2400, 4096, 8192])
def test_an_output_that_begins_just_behind_a_page_is_written_as_fast(
    kernels: ctypes.CDLL, row_bytes: int
) -> None:
    """At most 1.5 times the time; memcpy of some processors takes about 11 times."""
    workload = Workload("", "", "GATHER", "UINT8", (2048, row_bytes), (512,))
    data, indices = workload.arrays()
    gather = gather_of(workload.desc(), "clamp")
    page = 4096
    memory = np.zeros(data.nbytes + 512 * row_bytes + 4 * page, np.uint8)
    begin = -memory.ctypes.data % page
    memory[begin : begin + data.nbytes] = data.reshape(-1)
    behind = begin + -(-data.nbytes // page) * page
    least = {0: math.inf, 16: math.inf}
    for _ in range(300):  # the least time counts, as other programs take some of it
        for offset in least:
            output = memory[behind + offset :]
            places = [memory[begin:].ctypes.data, indices.ctypes.data]
            buffers = map(ctypes.c_void_p, (*places, output.ctypes.data))
            part = (ctypes.c_size_t(0), ctypes.c_size_t(1))
            started = time.process_time()
            kernels.gather_run(ctypes.byref(gather), *buffers, *part)
            least[offset] = min(least[offset], time.process_time() - started)
    assert least[16] <= 1.5 * least[0]


STREAMED = ("loops.c", "used > STREAMED_BYTES", "bytes > 1000")
NARROW = ("loops.c", "run.wide = vectors >= MOVES_32;", "run.wide = 0;")
EIGHTS = ("loops.c", "return bytes > NEAREST_BYTES &&", "return bytes > 7 &&")
SINGLES = ("loops.c", " && machine_vectors() == LOADS_EIGHT;", " && 0;")
WAYS: dict[str, tuple[Change, ...]] = {
    "past the caches": (STREAMED,),
    "past the caches without vectors": (STREAMED, NARROW),
    "eight at a time": (EIGHTS,),
    "without vectors": (SINGLES, NARROW),
}
"""Ways to copy that sizes or the processor decide on, and the changes by which all take
them."""


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_copy_gives_the_same_bytes(tmp_path: Path, way: str) -> None:
    """Also those that are for large data or large outputs."""
    assert list(differing(compiled(tmp_path, ["-O1"], *WAYS[way]), questions())) == []


EIGHTS_MISTAKES: list[Change] = [
    ("rows.c", "(__mmask8)~negative", "255"),
    ("rows.c", "_mm512_slli_epi64(step, 3)", "step"),
    ("rows.c", "_mm512_sub_epi64(wanted, read)", "_mm512_setzero_si512()"),
]
LOADS_EIGHT = 2
"""What `machine_vectors` answers on a processor that loads eight elements at once."""


@pytest.mark.parametrize("mistake", EIGHTS_MISTAKES)
def test_mistakes_planted_in_the_loads_of_eight_are_seen(
    tmp_path: Path, mistake: Change
) -> None:
    """On processors that have them."""
    kernels = compiled(tmp_path, ["-O0", "-w"], EIGHTS, mistake)
    if kernels.machine_vectors() < LOADS_EIGHT:
        pytest.skip("the processor has no AVX-512, or loads slowly with it")
    assert next(differing(kernels, questions()), None)


LINE_MISTAKES: list[Change] = [
    ("rows.c", "if (k && streams) stream(output, row, k);", "if (k && streams) {}"),
    ("rows.c", "else if (k) copy(output, row);", ""),
    (
        "rows.c",
        "if (streams) stream(output + k, row + k, rows.bytes - k);",
        "if (streams) {}",
    ),
    ("rows.c", "else copy(output + last, row + last);", ""),
    ("rows.c", "row + 32));\n    _mm256_stream", "row));\n    _mm256_stream"),
    ("rows.c", "row + 32));\n    _mm256_storeu", "row));\n    _mm256_storeu"),
]


@pytest.mark.parametrize("mistake", LINE_MISTAKES)
def test_mistakes_planted_in_the_copying_of_lines_are_seen(
    tmp_path: Path, mistake: Change
) -> None:
    """In rows of a cache line and more, in the caches and past them."""
    folders = [tmp_path / "cached", tmp_path / "streamed"]
    for folder in folders:
        folder.mkdir()
    cached = compiled(folders[0], ["-O0", "-w"], mistake)
    streamed = compiled(folders[1], ["-O0", "-w"], STREAMED, mistake)
    if "_mm256" in mistake[1] and not cached.machine_vectors():
        pytest.skip("the processor has no AVX2")
    both = (differing(kernels, questions()) for kernels in (cached, streamed))
    assert any(next(differences, None) for differences in both)


MISTAKES: list[Change] = [
    ("tiles.h", "last & ~negative", "last"),
    ("tiles.h", "value + (size & negative)", "value"),
    ("tiles.h", "last = size - 1;", "last = size;"),
    ("offsets.c", "index ^= outside;", "(void)0;"),
    ("offsets.c", "(!first && missing[j]) | ", ""),
    ("rows.c", "index_of(indices, at + 1, type", "index_of(indices, at, type"),
    ("rows.c", "first >= size0", "first > size0"),
    ("rows.c", "second >= size1", "second > size1"),
    (
        "rows.c",
        "&outside, type, coordinates, piece, whole, 0, 0)",
        "&outside, type, coordinates, piece, whole, 0, 1)",
    ),
    ("rows.c", "return j;", "return to;"),
    ("rows.c", "*outside |= met;", ""),
    ("loops.c", "if (outside) run->end = outside_end;", ""),
    ("loops.c", "(!outside || g->policy == GATHER_CLAMP)", "1"),
    (
        "rows.c",
        "memcpy(output + end, row + end, piece);\n        output += bytes",
        "{}\n        output += bytes",
    ),
    (
        "rows.c",
        "memcpy(output + end, row + end, piece);\n        output += step",
        "{}\n        output += step",
    ),
    ("rows.c", "data += data_step;", ";"),
    ("loops.c", "if (outside && g->policy == GATHER_ZERO)", "if (0)"),
    ("loops.c", "g->policy == GATHER_ERROR ? GATHER_STOPPED", "0 ? GATHER_STOPPED"),
    ("loops.c", "wrapped < last ? wrapped : last", "wrapped"),
    ("loops.c", "run->offsets[j - before] + step;", "run->offsets[j - before];"),
    ("loops.c", "run->missing[j] = run->missing[j - before];", "run->missing[j] = 0;"),
    ("loops.c", "loop->output != loop[1].size * loop[1].output", "0"),
    ("loops.c", "loop->size * (part + 1) / parts - begin", "loop->size / parts"),
    (
        "loops.c",
        "*at = moved(*at, loop, begin);",
        "at->output += begin * loop->output;",
    ),
    ("loops.c", "rest->size %= fits;", "rest->size = 0;"),
    (
        "loops.c",
        "*at = moved(*at, loop, 0 - loop->size);",
        (
            "at->data -= loop->size * loop->data;\nat->output -= loop->size *"
            " loop->output;"
        ),
    ),
    ("loops.c", "(g->tuple_stride == 1 && !last->data)", "1"),
    ("loops.c", "if (bytes_written(gather) <", "if (0 &&"),
]
"""What is wrong in a source of the kernels."""


def test_mistakes_planted_in_the_kernels_are_seen(tmp_path: Path) -> None:
    """Each mistake changes bytes that the other tests compare."""
    for number, mistake in enumerate(MISTAKES[::6]):
        folder = tmp_path / str(number)
        folder.mkdir()
        kernels = compiled(folder, ["-O0", "-w"], mistake)
        assert next(differing(kernels, questions()), None), mistake
