"""The plain C loops that bench.py compares with, compiled where there is a C compiler."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from bench_workloads import Array, Workload

C_LOOP = "C loop"
"""The candidate that says what is left to be gained."""

SOURCE = Path(__file__).with_suffix(".c")
COMPILER = "cc"
FLAGS = ("-O2", "-shared", "-fPIC")


def compiler() -> str | None:
    """Return the C compiler's name and version, None where there is none."""
    path = shutil.which(COMPILER)
    if path is None:
        return None
    shown = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return shown.stdout.partition("\n")[0]


@cache
def loops() -> ctypes.CDLL | None:
    """Return the compiled loops, None where there is no C compiler.

    Raises:
        CalledProcessError: The compiler refuses them; it said why on the standard error.
    """
    path = shutil.which(COMPILER)
    if path is None:
        return None
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        library = Path(folder, "bench_loop.so")
        subprocess.run([path, *FLAGS, "-o", library, SOURCE], check=True)
        return ctypes.CDLL(str(library))


def gather_in_c(
    workload: Workload, data: Array, indices: Array
) -> tuple[Callable[[], object], Array] | None:
    """Return a call of the C loop and the array that it writes, None without a C compiler."""
    compiled = loops()
    if compiled is None:
        return None
    result = np.zeros(workload.output, data.dtype)
    if workload.operator == "GATHER_ND":
        loop = compiled.gather_pairs
        sizes = (*workload.limits.tolist(), workload.indices[0])
    else:
        loop = compiled.gather
        elements = workload.operator == "GATHER_ELEMENTS"
        batches = math.prod(workload.indices[: workload.axis]) if elements else 1
        repeats = math.prod(workload.data[: workload.axis]) // batches
        sizes = (batches, repeats, workload.limits.item(), indices.size // batches)
    loop.restype = None
    # These pointers keep their arrays alive; converted once, arguments cost a tiny call least.
    arrays = (array.ctypes.data_as(ctypes.c_void_p) for array in (data, indices, result))
    numbers = map(ctypes.c_size_t, (*sizes, workload.row_bytes))
    return partial(loop, *arrays, *numbers), result
