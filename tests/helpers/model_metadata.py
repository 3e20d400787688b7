"""What models of onnxgather say of themselves."""

from __future__ import annotations

import json
from typing import Any

import onnx


def metadata_of(model: onnx.ModelProto) -> dict[str, Any]:
    """The metadata of a model that onnxgather wrote."""
    (entry,) = model.metadata_props
    assert entry.key.startswith("onnxgather.")
    return json.loads(entry.value)
