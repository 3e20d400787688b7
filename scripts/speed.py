"""Times what users wait for: the import, one conversion, and ten thousand translations.

    python scripts/speed.py

Prints seconds, wall clock; the two commands are whole processes, best of five.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onnxgather as og
from onnxgather.datatypes import INDEX_TYPES
from onnxgather.model import check_model
from onnxgather.options import OutOfRange

COUNT = 10_000
POLICIES: list[OutOfRange] = ["clamp", "error", "zero", "directml"]
MODEL = Path(__file__).parent.parent / "models" / "token_embedding.json"


def descriptors() -> list[og.Descriptor]:
    """Return COUNT different descriptors of all operators and types."""
    made: list[og.Descriptor] = []
    kinds = itertools.cycle(itertools.product(range(4), og.TensorDataType, INDEX_TYPES))
    for number, (kind, data_type, index_type) in zip(range(COUNT), kinds, strict=False):
        n = 2 + number
        data = og.TensorDesc(data_type, [1, 3, n, 4])
        indices, output = og.TensorDesc(index_type, [1, 1, 5, 2]), [3, 5, 2, 4]
        if kind == 0:
            result = og.TensorDesc(data_type, output)
            made.append(og.GatherDesc(data, indices, result, axis=2, index_dimensions=2))
        elif kind == 1:
            indices = og.TensorDesc(index_type, [1, 3, 7, 4])
            result = og.TensorDesc(data_type, [1, 3, 7, 4])
            made.append(og.GatherElementsDesc(data, indices, result, axis=2))
        elif kind == 2:
            result = og.TensorDesc(data_type, [1, 1, 5, 4])
            made.append(og.GatherNDDesc(data, indices, result, 3, 2))
        else:
            indices = og.TensorDesc(index_type, [1, 3, 5, 1])
            result = og.TensorDesc(data_type, [1, 3, 5, 4])
            made.append(og.GatherND1Desc(data, indices, result, 3, 3, 1))
    assert len(set(made)) == COUNT
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
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    """Print the three figures."""
    print(f"{COUNT} descriptors to serialized, checked models: {translate():.2f} s")
    python = whole_process("-c", "pass")
    print(f"import onnxgather: {whole_process('-c', 'import onnxgather') - python:.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        target = str(Path(folder) / "model.onnx")
        seconds = whole_process("-m", "onnxgather", "convert", str(MODEL), "-o", target)
    print(f"onnxgather convert, one file, whole process: {seconds:.2f} s")


if __name__ == "__main__":
    main()
