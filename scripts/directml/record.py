"""Records what DirectML.dll does with random gathers, in the form of tests/data/observed.

Writes in_range.json.xz, out_of_range.json.xz and invalid.json.xz, one case per line, and
versions.json: what answered, and what makes the same again.
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
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from broken import broken_descriptors
from hosts import NONE, add_option, open_host
from rules import RECORDINGS

import onnxgather as og
from onnxgather.arrays import Array, elements
from onnxgather.cases import DescriptorCase
from onnxgather.corpus import random_cases
from onnxgather.corpus.words import seed_of, words
from onnxgather.lanes.directml_host import Answer, Host

Record = dict[str, Any]

COUNTS = {"in_range": 400, "out_of_range": 500, "invalid": 640}


def in_range(host: Host, seed: int) -> Iterator[Record]:
    """Yield what becomes of the random cases of a seed whose indices are in range."""
    return (_valid(host, case) for case in _cases(seed) if case.in_range)


def out_of_range(host: Host, seed: int) -> Iterator[Record]:
    """Yield what becomes of those whose indices are not."""
    return (_valid(host, case) for case in _cases(seed) if not case.in_range)


def invalid(host: Host, seed: int) -> Iterator[Record]:
    """Yield what becomes of descriptors that break a rule each."""
    for number, (rule, raw) in enumerate(broken_descriptors(seed)):
        record = {"id": f"broken/{seed}/{number}", "operator": raw["type"], "desc": raw["desc"]}
        try:
            answer = host.create_operator(raw)
        except og.DescriptorError as error:
            verdict, reason = None, f"not asked: {error}"
        else:
            verdict = None if answer.crashed else answer.accepted
            reason = None if answer.accepted else _trouble(answer)
        yield record | {"rule": rule, "directml_accepts": verdict} | _reason(reason)


def _cases(seed: int) -> Iterator[DescriptorCase]:
    return random_cases(sys.maxsize, seed, "directml")


def _valid(host: Host, case: DescriptorCase) -> Record:
    desc = case.descriptor
    tensor, spelled = desc.output_tensor, og.to_dict(desc)
    # What the gaps and the padding hold before shows whether DirectML writes them.
    before = words(seed_of(case.name), tensor.total_tensor_size_in_bytes // 8 + 1).tobytes()
    before = before[: tensor.total_tensor_size_in_bytes]
    buffers = (case.data.tobytes(), case.indices.tobytes())
    answer = host.run_raw(spelled, *buffers, before)
    record = {
        "id": case.name,
        "operator": spelled["type"],
        "desc": spelled["desc"],
        "input_hex": _buffer(desc.input_tensor, case.data),
        "indices_hex": _buffer(desc.indices_tensor, case.indices),
        "output_hex": None,
    }
    if answer.output is None or answer.guards_touched:
        return record | _reason(_trouble(answer))
    after = answer.output.tobytes()
    places = _places(tensor)
    record["output_hex"] = np.frombuffer(after, np.uint8)[places].tobytes().hex()
    rest = np.ones(len(after), np.bool_)
    rest[places] = False
    if rest.any():
        pair = (np.frombuffer(buffer, np.uint8)[rest].tobytes() for buffer in (before, after))
        record["rest_kept"] = next(pair) == next(pair)
    return record


def _places(tensor: og.TensorDesc) -> Array:
    """Return the bytes of a tensor's buffer that its elements take, in row-major order."""
    size = tensor.data_type.size
    numbers = np.arange(tensor.span).reshape(tensor.sizes if tensor.strides is None else -1)
    first = elements(tensor, numbers).reshape(-1, 1) * size
    return (first + np.arange(size)).reshape(-1)


def _buffer(tensor: og.TensorDesc, array: Array) -> str:
    """Return a tensor's buffer: TotalTensorSizeInBytes of it, zeros after the array."""
    padding = tensor.total_tensor_size_in_bytes - math.prod(array.shape) * array.itemsize
    return (np.ascontiguousarray(array).tobytes() + b"\0" * padding).hex()


def _reason(reason: str | None) -> Record:
    return {} if reason is None else {"reason": reason}


def _trouble(answer: Answer) -> str:
    if answer.crashed:
        return f"crashed: {answer.crashed}"
    if answer.guards_touched:
        return "bytes beside OutputTensor were written"
    return f"{answer.stage} gave 0x{answer.hresult:08X}"


KINDS: dict[str, Callable[[Host, int], Iterator[Record]]] = {
    "in_range": in_range,
    "out_of_range": out_of_range,
    "invalid": invalid,
}


def write_lines(path: Path, lines: list[Record]) -> None:
    """Write records as a JSON list, one per line, compressed: the same ones as the same bytes."""
    text = ",\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
    path.write_bytes(lzma.compress(f"[\n{text}\n]\n".encode(), preset=9))


def main(arguments: list[str] | None = None) -> int:
    """Record all kinds of cases; return the exit code."""
    parser = argparse.ArgumentParser(description="Records what DirectML.dll does.")
    parser.add_argument("folder", type=Path, nargs="?", default=RECORDINGS)
    parser.add_argument("--seed", type=int, default=1)
    add_option(parser)
    for kind, count in COUNTS.items():
        option = f"--{kind.replace('_', '-')}"
        parser.add_argument(option, type=int, default=count, help=f"cases, by default {count}")
    options = parser.parse_args(arguments)
    opened = open_host(options.host)
    if opened is None:
        return NONE
    options.folder.mkdir(parents=True, exist_ok=True)
    counts = {kind: getattr(options, kind) for kind in KINDS}
    with opened as host:
        for kind, make in KINDS.items():
            begun = time.monotonic()
            records = list(itertools.islice(make(host, options.seed), counts[kind]))
            path = options.folder / f"{kind}.json.xz"
            write_lines(path, records)
            print(f"{path}: {len(records)} cases in {time.monotonic() - begun:.1f} s")
        versions = {"onnxgather": og.__version__, **msgspec.to_builtins(host.info)}
        versions |= {"seed": options.seed, **counts}
    text = json.dumps(versions, indent=2) + "\n"
    (options.folder / "versions.json").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
