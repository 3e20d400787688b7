"""Times what users wait for: the import, one conversion, and ten thousand translations.

    python scripts/speed.py

Prints seconds of wall-clock time. The import and the conversion are whole processes,
best of five.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onnxgather as og
from onnxgather.core.descriptors.datatypes import INDEX_TYPES
from onnxgather.core.gather import Geometry
from onnxgather.core.model.write import check_model
from onnxgather.core.options import OutOfRange

COUNT = 10_000
POLICIES: list[OutOfRange] = ["clamp", "error", "zero", "directml"]
MODEL = Path(__file__).parent.parent / "models" / "token_embedding.json"

INDICES = {
    "GATHER": ((5, 2), 1),
    "GATHER_ELEMENTS": ((3, 7, 4), 1),
    "GATHER_ND": ((5, 2), 0),
    "GATHER_ND1": ((3, 5, 1), 1),
}
"""The sizes of each operator's indices, and its axis or number of batches."""


def descriptors(count: int = COUNT) -> list[og.Descriptor]:
    """Return different descriptors, of all operators and types in turn."""
    made: list[og.Descriptor] = []
    kinds = itertools.cycle(itertools.product(INDICES, og.TensorDataType, INDEX_TYPES))
    for n, (operator, data_type, index_type) in enumerate(
        itertools.islice(kinds, count), 2
    ):
        gather = Geometry(operator, (3, n, 4), *INDICES[operator], dimension_count=4)
        types = (data_type, index_type, data_type)
        tensors = list(map(og.TensorDesc, types, gather.tensor_sizes()))
        made.append(gather.descriptor(tensors))
    assert len(set(made)) == count
    return made


def translate() -> float:
    """Return the seconds from nothing to COUNT serialized, checked models."""
    start = time.perf_counter()
    for number, desc in enumerate(descriptors()):
        model = og.to_onnx(desc, POLICIES[number % len(POLICIES)])
        check_model(model)
        model.SerializeToString()
    return time.perf_counter() - start


def whole_process(*arguments: str) -> float:
    """Return the seconds that a Python process takes, best of five."""
    seconds: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL
        )
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    """Print the three figures."""
    print(f"{COUNT} descriptors to serialized, checked models: {translate():.2f} s")
    python = whole_process("-c", "pass")
    print(
        f"import onnxgather: {whole_process('-c', 'import onnxgather') - python:.2f} s"
    )
    with tempfile.TemporaryDirectory() as folder:
        target = str(Path(folder) / "model.onnx")
        seconds = whole_process("-m", "onnxgather", "convert", str(MODEL), "-o", target)
    print(f"onnxgather convert, one file, whole process: {seconds:.2f} s")


if __name__ == "__main__":
    main()
