"""Makes the ONNX models of the folder models/networks/, with inputs for them.

    python scripts/build_networks.py

keywords.onnx embeds the words of each text, adds an embedding of their positions,
scores the positions, and returns the two best. The weights are random. keywords.npz
holds inputs, of which one word is not in the table.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from onnx import numpy_helper, parser

from onnxgather.core.files import write_whole

NETWORKS = Path(__file__).resolve().parent.parent / "models" / "networks"

KEYWORDS = """
<ir_version: 8, opset_import: ["" : 17], producer_name: "scripts/build_networks.py">
keywords (int64[texts, length] words) => (float[texts, 2, 8] kept)
<int64 second = {1}, int64 zero = {0}, int64 one = {1}, int64[1] two = {2}>
{
  sizes = Shape (words)
  [length] length = Gather (sizes, second)
  positions = Range (zero, length, one)
  [position_embedding] where = Gather (position_table, positions)
  [word_embedding] what = Gather (word_table, words)
  embedded = Add (what, where)
  scored = MatMul (embedded, weights)
  scores = ReduceMean <axes = [0, 2], keepdims = 0> (scored)
  best, chosen = TopK (scores, two)
  [keep_best] kept = Gather <axis = 1> (embedded, chosen)
}"""


def build() -> dict[str, bytes]:
    """Every file of the folder, by its name."""
    model = parser.parse_model(KEYWORDS)
    random = np.random.default_rng(1)
    tables = {"word_table": (32, 8), "position_table": (16, 8), "weights": (8, 1)}
    for name, shape in tables.items():
        array = random.normal(size=shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    model.graph.doc_string = "the two best positions of each text"
    words = random.integers(0, 32, (2, 6))
    words[1, 4] = 32
    inputs = io.BytesIO()
    np.savez(inputs, words=words)
    return {
        "keywords.onnx": model.SerializeToString(deterministic=True),
        "keywords.npz": inputs.getvalue(),
    }


def main() -> None:
    """Write the folder."""
    for name, content in build().items():
        write_whole(str(NETWORKS / name), content)


if __name__ == "__main__":
    main()
