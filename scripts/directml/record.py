"""Records what DirectML.dll does with random gathers, in the form of tests/data/observed.

Writes KIND.json.xz, one case per line, and KIND.versions.json, what answered. The same seed, count
and DirectML.dll give the same bytes.
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
from cases import RULES, broken_descriptors, valid_cases

import onnxgather as og
from onnxgather.arrays import Array, elements
from onnxgather.directml_dll import Answer, Host, find_host, setup_command

Record = dict[str, Any]


def valid(host: Host, seed: int, *, wild: bool) -> Iterator[Record]:
    """Yield what becomes of valid descriptors; those that DirectML refuses have a null output."""
    name = "wild" if wild else "random"
    for number, case in enumerate(valid_cases(seed, wild=wild)):
        desc = case.desc
        answer = host.run(desc, case.data, case.indices)
        output = None
        if answer.output is not None:
            output = elements(desc.output_tensor, answer.output).tobytes().hex()
        if output is None or answer.guards_touched:
            print(f"{name}:{seed}/{number}: {_trouble(answer)}", file=sys.stderr)
        spelled = og.to_dict(desc)
        yield {
            "id": f"{name}:{seed}/{number}",
            "operator": spelled["type"],
            "desc": spelled["desc"],
            "input_hex": _buffer(desc.input_tensor, case.data),
            "indices_hex": _buffer(desc.indices_tensor, case.indices),
            "output_hex": output,
        }


def invalid(host: Host, seed: int) -> Iterator[Record]:
    """Yield what becomes of descriptors that break a rule; null is what gave no verdict."""
    for number, (name, raw) in enumerate(broken_descriptors(seed)):
        try:
            answer = host.create_operator(raw)
            accepts = None if answer.crashed else answer.accepted
        except og.DescriptorError:  # it cannot be asked
            accepts = None
        yield {
            "id": f"random-invalid:{seed}/{number}",
            "operator": raw["type"],
            "desc": raw["desc"],
            "rule": name,
            "documented": RULES[name].documented,
            "says": RULES[name].says,
            "directml_accepts": accepts,
        }


KINDS: dict[str, Callable[[Host, int], Iterator[Record]]] = {
    "in_range": lambda host, seed: valid(host, seed, wild=False),
    "out_of_range": lambda host, seed: valid(host, seed, wild=True),
    "invalid": invalid,
}


def main(arguments: list[str] | None = None) -> int:
    """Record a kind of case, or all; return the exit code."""
    parser = argparse.ArgumentParser(description="Records what DirectML.dll does.")
    parser.add_argument("folder", type=Path, help="where the recordings go")
    parser.add_argument("--kind", choices=KINDS, help="by default all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=400, help="cases of a kind, by default 400")
    parser.add_argument("--host", help="the folder with the host, by default setup.sh's")
    options = parser.parse_args(arguments)
    command = find_host(options.host)
    if command is None:
        print(f"no host of DirectML.dll; {setup_command(options.host)} makes it", file=sys.stderr)
        return 3
    options.folder.mkdir(parents=True, exist_ok=True)
    with Host(command) as host:
        for kind in [options.kind] if options.kind else KINDS:
            begun = time.monotonic()
            records = list(itertools.islice(KINDS[kind](host, options.seed), options.count))
            lines = ",\n".join(json.dumps(record, separators=(",", ":")) for record in records)
            path = options.folder / f"{kind}.json.xz"
            path.write_bytes(lzma.compress(f"[\n{lines}\n]\n".encode(), preset=9))
            versions = {
                **msgspec.to_builtins(host.info),
                "seed": options.seed,
                "count": len(records),
            }
            versions_path = options.folder / f"{kind}.versions.json"
            versions_path.write_text(json.dumps(versions, indent=2) + "\n", encoding="utf-8")
            print(f"{path}: {len(records)} cases in {time.monotonic() - begun:.1f} s")
    return 0


def _buffer(tensor: og.TensorDesc, array: Array) -> str:
    """Return a tensor's buffer: TotalTensorSizeInBytes of it, zeros after the array."""
    padding = tensor.total_tensor_size_in_bytes - math.prod(array.shape) * array.itemsize
    return (np.ascontiguousarray(array).tobytes() + b"\0" * padding).hex()


def _trouble(answer: Answer) -> str:
    if answer.crashed:
        return answer.crashed
    if answer.guards_touched:
        return "DirectML wrote beside OutputTensor"
    return f"{answer.stage} gave 0x{answer.hresult:08X}"


if __name__ == "__main__":
    sys.exit(main())
