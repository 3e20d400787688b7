"""Records what DirectML.dll does with random gathers, as tests/data/observed has it.

Writes in_range.json.xz, out_of_range.json.xz, cropped.json.xz and invalid.json.xz, one
case per line, and versions.json: the DLL and the host that answered, and the seed and
counts that make the same again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from broken import broken_descriptors
from hosts import run, verdict
from rules import RECORDINGS

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus import random_cases
from onnxgather.checking.lanes.directml import Host, request_for
from onnxgather.core.descriptors.arrays import Array, elements
from onnxgather.core.descriptors.random_numbers import seed_of, splitmix64
from onnxgather.core.execution.elsewhere.child import NoAnswerError

Record = dict[str, Any]


def valid(
    host: Host, seed: int, chosen: Callable[[DescriptorCase], bool]
) -> Iterator[Record]:
    """Return records of those random cases of a seed that are chosen."""
    cases = random_cases(sys.maxsize, seed, "directml")
    return (_output(host, case) for case in cases if chosen(case))


def crops_indices(case: DescriptorCase) -> bool:
    """Whether the output of a GATHER crops leading ones of the indices."""
    desc = case.descriptor
    return isinstance(desc, og.GatherDesc) and desc.index_dimensions > desc.axis + 1


def invalid(host: Host, seed: int) -> Iterator[Record]:
    """Return records of random descriptors that break one rule each."""
    for number, (rule, raw) in enumerate(broken_descriptors(seed)):
        record = {
            "id": f"broken/{seed}/{number}",
            "operator": raw["type"],
            "desc": raw["desc"],
        }
        word, reason = verdict(host, raw)
        accepts = {"accepted": True, "refused": False}.get(word)
        record |= {"rule": rule, "directml_accepts": accepts}
        if reason:
            record["reason"] = reason if accepts is False else f"{word}: {reason}"
        yield record


KINDS: dict[str, tuple[int, Callable[[Host, int], Iterator[Record]]]] = {
    "in_range": (400, partial(valid, chosen=lambda case: case.in_range)),
    "out_of_range": (500, partial(valid, chosen=lambda case: not case.in_range)),
    "cropped": (100, partial(valid, chosen=crops_indices)),
    "invalid": (640, invalid),
}
"""How many cases of each kind are recorded by default, and how."""


def _output(host: Host, case: DescriptorCase) -> Record:
    desc = case.descriptor
    tensor, raw = desc.output_tensor, og.to_dict(desc)
    # The gaps and the padding hold random bytes at first, to show whether DirectML
    # writes them.
    size = tensor.total_tensor_size_in_bytes
    before = splitmix64(seed_of(case.name), size // 8 + 1).tobytes()[:size]
    record = {
        "id": case.name,
        "operator": raw["type"],
        "desc": raw["desc"],
        "input_hex": _buffer(desc.input_tensor, case.data),
        "indices_hex": _buffer(desc.indices_tensor, case.indices),
        "output_hex": None,
    }
    try:
        answer = host.ask(
            request_for(desc), (case.data.tobytes(), case.indices.tobytes(), before)
        )
    except NoAnswerError as error:
        return record | {"reason": f"crashed: {error}"}
    if answer.output is None or answer.guards_touched:
        return record | {"reason": str(answer)}
    after, written = np.frombuffer(answer.output, np.uint8), _element_bytes(tensor)
    record["output_hex"] = after[written].tobytes().hex()
    rest = np.delete(np.frombuffer(before, np.uint8), written)
    if rest.size:
        record["rest_kept"] = np.array_equal(rest, np.delete(after, written))
    return record


def _element_bytes(tensor: og.TensorDesc) -> Array:
    """Return the offsets of the bytes of a tensor's elements, in row-major order."""
    size = tensor.data_type.size
    numbers = np.arange(tensor.span).reshape(
        tensor.sizes if tensor.strides is None else -1
    )
    first = elements(tensor, numbers).reshape(-1, 1) * size
    return (first + np.arange(size)).reshape(-1)


def _buffer(tensor: og.TensorDesc, array: Array) -> str:
    """Return a tensor's buffer as hexadecimal digits.

    The buffer has the array, and zeros to TotalTensorSizeInBytes.
    """
    padding = (
        tensor.total_tensor_size_in_bytes - math.prod(array.shape) * array.itemsize
    )
    return (np.ascontiguousarray(array).tobytes() + b"\0" * padding).hex()


def write_lines(path: Path, lines: list[Record]) -> None:
    """Write records as a compressed JSON list, one per line.

    Equal records make equal bytes.
    """
    text = ",\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
    path.write_bytes(lzma.compress(f"[\n{text}\n]\n".encode(), preset=9))


def main(options: argparse.Namespace, command: list[str]) -> int:
    """Record all kinds of cases. Returns the exit code."""
    options.folder.mkdir(parents=True, exist_ok=True)
    with closing(Host(command)) as host:
        versions: Record = {
            "onnxgather": og.__version__,
            **msgspec.to_builtins(host.info),
        }
        versions["seed"] = options.seed
        for kind, (_, recorded) in KINDS.items():
            begun = time.monotonic()
            count = versions[kind] = getattr(options, kind)
            records = list(itertools.islice(recorded(host, options.seed), count))
            path = options.folder / f"{kind}.json.xz"
            write_lines(path, records)
            print(f"{path}: {len(records)} cases in {time.monotonic() - begun:.1f} s")
    text = json.dumps(versions, indent=2) + "\n"
    (options.folder / "versions.json").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Records what DirectML.dll does.")
    parser.add_argument("folder", type=Path, nargs="?", default=RECORDINGS)
    parser.add_argument("--seed", type=int, default=1)
    for kind, (count, _) in KINDS.items():
        option = f"--{kind.replace('_', '-')}"
        parser.add_argument(
            option, type=int, default=count, help=f"cases, by default {count}"
        )
    run(parser, main)
