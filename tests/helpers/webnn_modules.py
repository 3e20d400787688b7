"""What modules of WebNN programs do on a stand-in for WebNN, which Node runs."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folders import HELPERS

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.lowering.webnn.requirements import REQUIRED_TYPES

needs_node = pytest.mark.skipif(
    shutil.which("node") is None, reason="Node, which reads the modules, is missing"
)


def as_base64(array: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def recorded(folder: Path, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what modules do, one after the other."""
    file = folder / "questions.json"
    content = {"methods": list(REQUIRED_TYPES), "modules": questions}
    file.write_text(json.dumps(content), encoding="utf-8")
    command = ["node", str(HELPERS / "webnn_recorder.mjs"), str(file)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.stderr == ""
    return json.loads(result.stdout)
