"""A case that a stand-in of ONNX Runtime gets wrong, and its folder."""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from short_descriptors import descriptor

from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.lanes.lane import LaneInfo

STUB = "StubExecutionProvider"

GATHERS = """
SCRIPT = sys.argv[0].endswith("repro.py")
class InferenceSession(InferenceSession):
    def compute(self, data, indices):
        n = data.shape[0]
        if (indices >= n).any() or (indices < -n).any():
            raise RuntimeError("index out of range, " + str(indices.max()))
        found = data[indices.astype(np.int64)]
        return found.reshape(found.shape[found.ndim - self.rank(data, indices):])
    def rank(self, data, indices):
        return data.ndim - 1 + (indices.ndim if data.ndim == 1 else 1)
"""
"""A provider that takes rows of the data, and runs whatever model it is given. SCRIPT
tells whether a repro.py asks it, or else a worker."""

DESC = descriptor("GATHER: FLOAT32 5x4, INT64 1x3, FLOAT32 3x4, 0, 1")
CASE = DescriptorCase(
    "rows",
    DESC,
    np.arange(20, dtype=np.float32).reshape(5, 4),
    np.array([[1, -2, 4]]),
    "error",
)
OUTSIDE = replace(CASE, indices=np.array([[1, 7, 4]]))


def rerun(tmp_path: Path, *arguments: str) -> tuple[int, str]:
    """Run a written repro.py again, by hand and from elsewhere."""
    python = str(tmp_path / "environment" / "python")
    command = [python, str(tmp_path / "out" / "repro.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    return done.returncode, done.stdout + done.stderr


SYSTEM = (
    f"onnxruntime 9.9.9, numpy {np.__version__}, Python {platform.python_version()}, "
    f"{platform.platform()}"
)


INFO = LaneInfo(
    "cpu", "CPUExecutionProvider", {"onnxruntime": "9.9.9"}, python=sys.executable
)
