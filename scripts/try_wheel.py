"""Tries whether the kernels of an installed onnxgather agree with the reference.

`python -P scripts/try_wheel.py`: with -P not even the folder of a checkout is on the
path.
"""

from __future__ import annotations

import sys

import numpy as np

import onnxgather as og
from onnxgather.checking.doctor import try_kernels


def main() -> int:
    """Gather in Python and ONNX Runtime; return 1 if the kernels did not run both."""
    said = try_kernels()[0]
    print(f"{og.__file__}\nnative kernels: {said}")
    if said != "run in Python and in ONNX Runtime":
        return 1
    desc = og.GatherDesc(
        input_tensor=og.TensorDesc("FLOAT32", [1000, 3]),
        indices_tensor=og.TensorDesc("INT64", [1, 500]),
        output_tensor=og.TensorDesc("FLOAT32", [500, 3]),
        axis=0,
        index_dimensions=1,
    )
    rng = np.random.default_rng(0)
    data, indices = (
        rng.random((1000, 3), np.float32),
        rng.integers(-1500, 1500, (1, 500)),
    )
    expected = og.reference(desc, data, indices).tobytes()
    prepared = og.Gather(desc)(data, indices).tobytes() == expected
    native = og.run(desc, data, indices, target="native").tobytes() == expected
    print(f"equal to og.reference: og.Gather {prepared}, og.run {native}")
    return 0 if prepared and native else 1


if __name__ == "__main__":
    sys.exit(main())
