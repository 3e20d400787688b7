"""Calls the Python module of the kernels with random things, right and wrong.

    python fuzz_python_entry.py COUNT SEED

Half of the calls are of gathers of random numbers, most of them hostile;
the other half of `og.Gather`.
"""

from __future__ import annotations

import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import numpy as np

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus.sampling import random_cases
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution import kernels, prepared
from onnxgather.core.options import POLICIES, OutOfRange

EDGES = [0, 1, 2, 7, 8, 9, 2**31, 2**32, 2**33, 2**62, 2**63, 2**64 - 1]


def anything(random: Random, arrays: list[Any]) -> Any:
    """Return something to give for an array: mostly one, of any memory."""
    array: Any = random.choice(arrays)
    return random.choice(
        [
            *[array] * 6,
            array.T,
            array.reshape(-1)[: random.randrange(array.size + 1)],
            np.frombuffer(bytes(array.nbytes + 1), np.uint8)[1:],
            array.view(np.recarray),
            memoryview(array),
            array.astype(array.dtype.newbyteorder()),
            None,
            3,
            "text",
            [[1.0]],
        ]
    )


def gather_of_numbers(random: Random, native: Any) -> bool:
    """Make a gather of random numbers; if it is taken, run it on arrays of just its
    sizes."""
    size, kind, loops, coordinates = (random.randint(1, 4) for _ in range(4))
    most = random.choice([3, 3, 8])

    def some(count: int, least: int = 0) -> list[int]:
        return [random.randint(least, most) for _ in range(count)] + [0] * (8 - count)

    numbers = [2 ** (size - 1), kind - 1, random.randrange(4), loops, coordinates]
    numbers += some(loops, 1) + some(loops) + some(loops) + some(loops)
    numbers += [random.randrange(3), *some(coordinates, 1), *some(coordinates)]
    counts = [random.randint(1, 600) for _ in range(3)]
    numbers += [*counts, random.choice([counts[0], random.randint(1, 600)])]
    for _ in range(random.choice([0, 0, 0, 1, 2])):
        numbers[random.randrange(len(numbers))] = random.choice(EDGES)
    if random.random() < 0.02:
        numbers.pop()
    packed = struct.pack(f"={len(numbers)}Q", *numbers)
    element = np.dtype(f"u{2 ** (size - 1)}")
    index = np.dtype(f"{'i' if kind > 2 else 'u'}{8 if kind % 2 == 0 else 4}")
    shapes = [
        random.choice([*[(n,)] * 12, (n + 1,), (), (2, n // 2), (-n, -1)])
        for n in counts
    ]
    try:
        types = (element, random.choice([*[index] * 12, element]), element)
        threads = random.randint(-1, 5)
        made = native.Gather(np.ndarray, packed, types, tuple(shapes), threads)
    except ValueError:
        return False
    data = np.ones(shapes[0], element)
    indices = np.frombuffer(random.randbytes(counts[1] * index.itemsize), index)
    if random.random() < 0.5:
        indices = indices % 4
    ran = made.run(data, indices.reshape(shapes[1]), np.empty(shapes[2], data.dtype))
    return ran is not None


def call(random: Random, cases: list[DescriptorCase]) -> bool:
    """Make a gather and call it with random objects; whether it ran."""
    case = random.choice(cases)
    policy: OutOfRange = random.choice([*POLICIES])
    known = random.random() < 0.3
    out = np.zeros(case.descriptor.output_tensor.array_shape, case.data.dtype)
    # an output may be known indices
    arrays = [case.data.copy(), case.indices.copy(), out]
    given: list[Any] = [*arrays[:2], random.choice([None, out, out, arrays[0]])]
    if random.random() < 0.4:
        given[random.randrange(3)] = anything(random, arrays)
    try:
        threads = random.choice([1, 1, 1, 2, 8])
        gather = og.Gather(
            case.descriptor, policy, given[1] if known else None, threads
        )
        found: Any = gather(given[0], None if known else given[1], given[2])
    except og.OnnxGatherError:
        return False
    if given[0] is arrays[0] and given[1] is arrays[1]:
        wanted = og.reference(case.descriptor, case.data, case.indices, policy)
        assert np.asarray(found).tobytes() == wanted.tobytes()
    return True


def large(random: Random) -> None:
    """Call a gather that is large enough for threads, from three threads at the same
    time."""
    desc = og.GatherDesc(
        og.TensorDesc("FLOAT32", [500, 300]),
        og.TensorDesc("INT32", [1, 900]),
        og.TensorDesc("FLOAT32", [900, 300]),
        axis=0,
        index_dimensions=1,
    )
    gather = og.Gather(desc, "error", threads=random.randint(2, 5))
    data = np.arange(150_000, dtype=np.float32).reshape(500, 300)
    indices = np.array([random.choices(range(-500, 500), k=900)], np.int32)
    wrong = indices.copy()
    wrong[0, random.randrange(900)] = 500

    def run(given: Array) -> bool:
        try:
            return gather(data, given).tobytes() == data[indices[0]].tobytes()
        except og.IndexOutOfRangeError:
            return given is wrong

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(run, [indices, wrong, indices]))


def main(count: int, seed: int) -> None:
    """Try `count` gathers, and print how many of each kind ran."""
    native = kernels.python_kernels()
    prepared.THREADED_NANOSECONDS = 0
    random = Random(seed)
    cases = list(random_cases(300, seed))
    numbers = sum(gather_of_numbers(random, native) for _ in range(count // 2))
    calls = sum(call(random, cases) for _ in range(count // 2))
    for _ in range(count // 200):
        large(random)
    print(f"of {count // 2} each, {numbers} gathers of numbers ran and {calls} calls")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
