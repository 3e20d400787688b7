"""The rivals that bench.py times: numpy, torch, numba, pyarrow, polars, jax, a C loop.

Each gets the arrays of a workload and may prepare what a user would prepare once.
Indices are clamped in each call, by the library where it can do that itself. pyarrow,
polars and jax return new arrays; the others write where they are told.
"""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from bench_report import C_LOOP, COMPILER, FLAGS, LIBRARIES, SOURCE
from bench_workloads import Array, Workload


@dataclass(frozen=True, slots=True)
class Given:
    """What a rival gets, in the ranks of the workload."""

    workload: Workload
    data: Array
    indices: Array
    out: Array
    """The memory for the result."""
    threads: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to run a workload."""

    run: Callable[[], object]
    """One call."""
    result: Callable[[object], Array]
    """The result, from what the call returned."""


def in_place(run: Callable[[], object], out: Array) -> Candidate:
    """Return a call that leaves its result in memory that is there beforehand."""
    return Candidate(run, lambda _: out)


def rivals(given: Given) -> dict[str, Candidate]:
    """Return every rival that is installed and has such a gather, by its name."""
    offered = {name: make(given) for name, make in _MAKERS.items() if find_spec(name)}
    if given.threads == 1:
        offered[C_LOOP] = _in_c(given)
    return {name: candidate for name, candidate in offered.items() if candidate}


def _bits(array: Array) -> Array:
    """Return an array as unsigned integers.

    Some libraries lack its type, and some may change a NaN.
    """
    return array.view(f"u{array.itemsize}")


def _loop_sizes(workload: Workload) -> tuple[int, int, int, int]:
    """Return the batches, the repeats, the axis' size, and the indices of a batch.

    The gather is out[batch][repeat][i] = data[batch][repeat][index[batch][i]].
    """
    batches = 1
    if workload.has_batches:
        batches = math.prod(workload.indices[: workload.axis])
    repeats = math.prod(workload.data[: workload.axis]) // batches
    return (
        batches,
        repeats,
        workload.limits.item(),
        math.prod(workload.indices) // batches,
    )


def _in_numpy(given: Given) -> Candidate:
    """Return the gather as np.take, which clamps and writes into a given array."""
    workload, data, indices, out = given.workload, given.data, given.indices, given.out
    wide = np.zeros(indices.shape, np.intp)
    axis, limits = workload.axis, workload.limits

    def take_batches() -> None:
        for one_data, one_index, one_out in zip(data, wide, out, strict=True):
            np.take(one_data, one_index.reshape(-1), axis - 1, one_out, "clip")

    def take_tuples() -> None:
        row = np.ravel_multi_index(tuple(wide.T), tuple(limits), mode="clip")
        np.take(data.reshape(-1, *data.shape[limits.size :]), row, 0, out, "clip")

    take = {
        "GATHER": partial(np.take, data, wide, axis, out, "clip"),
        "GATHER_ELEMENTS": take_batches,
        "GATHER_ND1": take_batches,
        "GATHER_ND": take_tuples,
    }[workload.operator]

    def run() -> None:
        np.copyto(wide, indices)
        take()

    return in_place(run, out)


def _in_torch(given: Given) -> Candidate:
    """Return the gather as torch.index_select or torch.gather, into a given tensor."""
    torch: Any = import_module("torch")
    torch.set_num_threads(given.threads)
    workload, data, out = given.workload, given.data, given.out
    source, index, result = (
        torch.from_numpy(array) for array in (data, given.indices, out)
    )
    axis, limits = workload.axis, np.asarray(workload.limits - 1, np.int64)
    last = torch.from_numpy(limits) if limits.ndim else int(limits)
    wide = torch.zeros(given.indices.shape, dtype=torch.int64)

    def select_tuples() -> None:
        row, column = wide.unbind(-1)
        slices = source.reshape(-1, *data.shape[2:])
        torch.index_select(slices, 0, row * data.shape[1] + column, out=result)

    if workload.operator == "GATHER":
        rows = result.reshape(*data.shape[:axis], -1, *data.shape[axis + 1 :])
        select = partial(torch.index_select, source, axis, wide.reshape(-1), out=rows)
    elif workload.has_batches:
        everywhere = wide.expand(workload.output)
        select = partial(torch.gather, source, axis, everywhere, out=result)
    else:
        select = select_tuples

    def run() -> None:
        torch.clamp(wide.copy_(index), max=last, out=wide)
        select()

    return in_place(run, out)


def _in_numba(given: Given) -> Candidate:
    """Return the gather as loops that numba compiles, parallel with several threads."""
    numba: Any = import_module("numba")
    workload, threads = given.workload, given.threads
    numba.set_num_threads(threads)
    compiled = numba.njit(parallel=threads > 1, nogil=True, boundscheck=False)
    along: Any = numba.prange

    @compiled
    def rows(data: Any, index: Any, out: Any) -> None:
        last = data.shape[0] - 1
        for i in along(index.size):
            row = min(index[i], last)
            for k in range(data.shape[1]):
                out[i, k] = data[row, k]

    @compiled
    def columns(data: Any, index: Any, out: Any) -> None:
        last, repeats = data.shape[1] - 1, data.shape[0] // index.shape[0]
        for i in along(data.shape[0]):
            for j in range(index.shape[1]):
                row = min(index[i // repeats, j], last)
                for k in range(data.shape[2]):
                    out[i, j, k] = data[i, row, k]

    @compiled
    def elements(data: Any, index: Any, out: Any) -> None:
        last, repeats = data.shape[1] - 1, data.shape[0] // index.shape[0]
        for i in along(data.shape[0]):
            for j in range(index.shape[1]):
                out[i, j] = data[i, min(index[i // repeats, j], last)]

    @compiled
    def one_line(data: Any, index: Any, out: Any) -> None:
        last = data.size - 1
        for i in along(index.size):
            out[i] = data[min(index[i], last)]

    @compiled
    def pairs(data: Any, index: Any, out: Any) -> None:
        height, width = data.shape[0] - 1, data.shape[1] - 1
        for i in along(index.shape[0]):
            for k in range(data.shape[2]):
                out[i, k] = data[min(index[i, 0], height), min(index[i, 1], width), k]

    data, out = _bits(given.data), _bits(given.out)
    if workload.operator == "GATHER_ND":
        arrays = (
            data.reshape(*data.shape[:2], -1),
            given.indices,
            out.reshape(out.shape[0], -1),
        )
        return in_place(partial(pairs, *arrays), out)
    batches, repeats, limit, count = _loop_sizes(workload)
    outer, row = batches * repeats, workload.row_bytes // data.itemsize
    if outer == 1:
        index = given.indices.reshape(count)
        if row == 1:
            return in_place(
                partial(one_line, data.reshape(-1), index, out.reshape(-1)), out
            )
        shapes = data.reshape(limit, row), index, out.reshape(count, row)
        return in_place(partial(rows, *shapes), out)
    index = given.indices.reshape(batches, count)
    if row == 1:
        shapes = data.reshape(outer, limit), index, out.reshape(outer, count)
        return in_place(partial(elements, *shapes), out)
    shapes = data.reshape(outer, limit, row), index, out.reshape(outer, count, row)
    return in_place(partial(columns, *shapes), out)


def _is_plain(workload: Workload) -> bool:
    """Whether the gather takes rows of the first dimension."""
    return workload.operator == "GATHER" and workload.axis == 0


def _in_pyarrow(given: Given) -> Candidate | None:
    """Return the gather as pyarrow's take of scalars, or of values of a fixed size."""
    if not _is_plain(given.workload):
        return None
    arrow, compute = (import_module(name) for name in ("pyarrow", "pyarrow.compute"))
    arrow.set_cpu_count(given.threads)
    data, last = _bits(given.data), given.workload.limits - 1
    row = given.workload.row_bytes
    kind = (
        arrow.from_numpy_dtype(data.dtype)
        if row == data.itemsize
        else arrow.binary(row)
    )
    source = arrow.Array.from_buffers(kind, len(data), [None, arrow.py_buffer(data)])
    clamped = np.zeros(given.indices.size, given.indices.dtype)
    flat, counted = given.indices.reshape(-1), arrow.from_numpy_dtype(clamped.dtype)
    index = arrow.Array.from_buffers(
        counted, clamped.size, [None, arrow.py_buffer(clamped)]
    )

    def run() -> Any:
        np.minimum(flat, last, clamped)
        return compute.take(source, index, boundscheck=False)

    def result(taken: Any) -> Array:
        return np.frombuffer(taken.buffers()[1], np.uint8)[: given.out.nbytes]

    return Candidate(run, result)


def _in_polars(given: Given) -> Candidate | None:
    """Return the gather as polars' gather of scalars."""
    workload = given.workload
    if not _is_plain(workload) or workload.row_bytes != given.data.itemsize:
        return None
    polars: Any = import_module("polars")
    source, last = polars.Series(_bits(given.data)), workload.limits.item() - 1
    index = polars.Series(given.indices.reshape(-1))

    def result(taken: Any) -> Array:
        return taken.to_numpy()

    return Candidate(lambda: source.gather(index.clip(upper_bound=last)), result)


def _in_jax(given: Given) -> Candidate:
    """Return the gather as XLA compiles it; the arrays are XLA's own beforehand."""
    jax: Any = import_module("jax")
    jax.config.update("jax_platforms", "cpu")
    # Else it halves elements of 8 bytes.
    jax.config.update("jax_enable_x64", given.data.itemsize == 8)
    workload, axis = given.workload, given.workload.axis
    data, indices = (
        jax.numpy.asarray(_bits(given.data)),
        jax.numpy.asarray(given.indices),
    )

    def gather(data: Any, indices: Any) -> Any:
        if workload.operator == "GATHER":
            return jax.numpy.take(data, indices, axis, mode="clip")
        if workload.has_batches:
            return jax.numpy.take_along_axis(data, indices, axis, mode="clip")
        return data.at[indices[:, 0], indices[:, 1]].get(mode="clip")

    compiled = jax.jit(gather)
    return Candidate(lambda: compiled(data, indices).block_until_ready(), np.asarray)


_MAKERS: dict[str, Callable[[Given], Candidate | None]] = dict(
    zip(
        LIBRARIES,
        (_in_numpy, _in_torch, _in_numba, _in_pyarrow, _in_polars, _in_jax),
        strict=True,
    )
)
"""What makes a candidate of each library; None where the library has no such gather."""


def compiler() -> str | None:
    """Return the C compiler's name and version, None where there is none."""
    path = shutil.which(COMPILER)
    if path is None:
        return None
    shown = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=True
    )
    return shown.stdout.partition("\n")[0]


@cache
def _loops() -> ctypes.CDLL | None:
    """Return the compiled loops, None where there is no C compiler.

    Raises:
        CalledProcessError: The compiler refuses them; standard error says why.
    """
    if shutil.which(COMPILER) is None:
        return None
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        library = Path(folder, "bench_loop.so")
        subprocess.run([COMPILER, *FLAGS, "-o", library, SOURCE], check=True)
        return ctypes.CDLL(str(library))


def _in_c(given: Given) -> Candidate | None:
    """Return the gather as a plain loop in C."""
    loops, workload = _loops(), given.workload
    if loops is None:
        return None
    if workload.operator == "GATHER_ND":
        loop = loops.gather_pairs
        sizes = (*workload.limits.tolist(), workload.indices[0])
    else:
        loop, sizes = loops.gather, _loop_sizes(workload)
    loop.restype = None
    # These pointers keep their arrays alive; converted once, arguments cost a tiny call
    # least.
    arrays = (given.data, given.indices, given.out)
    pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in arrays)
    numbers = map(ctypes.c_size_t, (*sizes, workload.row_bytes))
    return in_place(partial(loop, *pointers, *numbers), given.out)
