"""Runs the kernels of another processor in an emulator, against the reference.

    python scripts/emulated.py --count 100000

zig (of the extra `wheels`) compiles tests/native/answers.c with the kernels for 64-bit
ARM, as they are in its wheel. qemu-aarch64-static, of Debian's qemu-user-static, runs
it with the C library of libc6-arm64-cross. The gathers are those of the corpus, then
random ones, under one policy after the other, in 1 to 5 parts. Before them the
harnesses of scripts/sanitize.py run there: nodes of ONNX, each element against the
formula, and the report of the provider on threads.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import shlex
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sanitize import HARNESSES, NATIVE, ROOT, SHARED

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus import built_in_cases
from onnxgather.checking.corpus.sampling import random_cases
from onnxgather.core.options import POLICIES

sys.path.insert(0, str(ROOT / "tests" / "helpers"))
from case_counts import counted
from kernel_numbers import gather_of

ZIG = f"{shlex.quote(sys.executable)} -m ziglang cc -target aarch64-linux-gnu.2.28"
QEMU = "qemu-aarch64-static -L /usr/aarch64-linux-gnu"
BATCH = 2000
"""Gathers of one run of the program."""
RUNS = {"fuzz_nodes": ("200000", "7"), "fuzz_report": ("20000", "4")}
"""The harnesses that say themselves whether they are right, and their arguments."""


def compiled(cc: str, folder: Path, program: str, sources: Sequence[str]) -> Path:
    """Compile a program of tests/native with sources of the kernels; return its path.

    Raises:
        OSError, subprocess.CalledProcessError: The compiler does not start, or fails.
    """
    path = folder / program
    words = f"{cc} -std=c11 -O2 -pthread -I{NATIVE} -o {path}"
    files = [NATIVE / name for name in sources]
    files.append(ROOT / "tests" / "native" / f"{program}.c")
    subprocess.run([*shlex.split(words), *files], check=True)
    return path


def questions(count: int, seed: int) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield gathers: a name, the program's request, and the reference's answer."""
    policies: list[og.OutOfRange] = [*POLICIES]
    cases = itertools.chain(built_in_cases(), random_cases(count, seed))
    wanted = (case for case in cases if isinstance(case, DescriptorCase))
    for number, case in enumerate(itertools.islice(wanted, count)):
        policy = policies[number % len(policies)]
        parts = struct.pack("=Q", 1 + number % 5)
        try:
            expected = og.reference(case.descriptor, case.data, case.indices, policy)
            answer = b"f" + expected.tobytes()
        except og.IndexOutOfRangeError:
            answer = b"o"
        gather = gather_of(case.descriptor, policy)
        numbers = ctypes.string_at(ctypes.addressof(gather), ctypes.sizeof(gather))
        arrays = (
            np.ascontiguousarray(array).tobytes() for array in (case.data, case.indices)
        )
        yield f"{case.name} {policy}", b"".join([numbers, parts, *arrays]), answer


def differing(
    program: Sequence[str], asked: Sequence[tuple[str, bytes, bytes]]
) -> Iterator[str]:
    """Yield the name of each gather whose answer is not the reference's.

    An answer of another length ends the comparison, as those behind it lie elsewhere.
    """
    given = b"".join(question for _, question, _ in asked)
    run = subprocess.run(program, input=given, capture_output=True)
    at = 0
    for name, _, answer in asked:
        found = run.stdout[at : at + len(answer)]
        at += len(answer)
        if found != answer:
            yield name
        if len(found) < len(answer) or found[:1] != answer[:1]:
            break
    if at != len(run.stdout) or run.returncode:
        said = run.stderr.decode(errors="replace").strip()
        yield (
            f"{program[0]} ended with {run.returncode} and {len(run.stdout)} bytes:"
            f" {said}"
        )


def main() -> int:
    """Compare; the exit code is 1 if there is a difference."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--count", type=counted, default=100_000, help="gathers, 100000 by default")
    add("--seed", type=int, default=0, help="of the random ones, 0 by default")
    add("--cc", default=ZIG, help="the compiler, and what chooses its target")
    add("--emulator", default=QEMU, help="'' where none is needed")
    options = parser.parse_args()
    if options.cc == ZIG and find_spec("ziglang") is None:
        print(
            "emulated.py: ziglang is not installed: pip install -e '.[wheels]'",
            file=sys.stderr,
        )
        return 2
    started, done, differences = time.monotonic(), 0, 0
    with TemporaryDirectory() as folder:
        emulator = shlex.split(options.emulator)
        try:
            for name, arguments in RUNS.items():
                path = compiled(options.cc, Path(folder), name, HARNESSES[name])
                if subprocess.run([*emulator, str(path), *arguments]).returncode:
                    print(f"{name} failed")
                    differences += 1
            path = compiled(options.cc, Path(folder), "answers", SHARED)
            command = [*emulator, str(path)]
            asked = questions(options.count, options.seed)
            while batch := [*itertools.islice(asked, BATCH)]:
                for difference in differing(command, batch):
                    print(difference)
                    differences += 1
                done += len(batch)
                print(
                    f"{time.monotonic() - started:5.0f} s  {done:,} gathers", flush=True
                )
        except OSError as error:
            print(f"emulated.py: {error.filename}: {error.strerror}", file=sys.stderr)
            return 2
        except subprocess.CalledProcessError as error:  # it has said why
            print(
                f"emulated.py: the compiler ended with {error.returncode}",
                file=sys.stderr,
            )
            return 2
    print(f"{done:,} gathers, {differences} differences")
    return 1 if differences or not done else 0


if __name__ == "__main__":
    sys.exit(main())
