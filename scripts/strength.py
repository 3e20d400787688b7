"""How many gathers of a folder of models have their indices proved in range.

    python scripts/strength.py FOLDER

The folder holds models, NAME.onnx or NAME.KIND.onnx, each with arrays for its inputs, NAME.npz.
Their sizes are the sizes of the proofs. Counted are the gathers that the level-1 passes of the
installed ONNX Runtime leave; most others compute shapes. It prints those that are not proved, and
how many are, without and with the range of each integer input.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from onnxgather.gather import ATTRIBUTES
from onnxgather.networks.gathers import given_conditions
from onnxgather.networks.network import Network, read_network
from onnxgather.networks.ranges import proof_of, ranges_of


def left_by_level_1(network: Network) -> set[str]:
    """The outputs of the gathers that the level-1 passes leave."""
    runtime: Any = onnxruntime
    model = onnx.ModelProto()
    model.CopyFrom(network.proto)
    for value in model.graph.input:
        sizes = network.main.types[value.name].sizes or ()
        for dimension, size in zip(value.type.tensor_type.shape.dim, sizes, strict=False):
            dimension.dim_value = size or 0
    with tempfile.TemporaryDirectory() as folder:
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = f"{folder}/model.onnx"
        options.log_severity_level = 4
        providers = ["CPUExecutionProvider"]
        runtime.InferenceSession(model.SerializeToString(), options, providers=providers)
        left = onnx.ModelProto.FromString(Path(folder, "model.onnx").read_bytes())
    return {node.output[0] for node in left.graph.node if node.op_type in ATTRIBUTES}


def main(folder: str) -> None:
    """Print what is proved of the models of a folder."""
    counts = Counter[str]()
    for path in sorted(Path(folder).glob("*.onnx")):
        inputs = dict(np.load(path.with_name(path.name.partition(".")[0] + ".npz")))
        taken = read_network(path).main.inputs
        network = read_network(path, {name: inputs[name].shape for name in taken})
        integers = {name: inputs[name] for name in taken if inputs[name].dtype.kind in "iu"}
        given = {name: (int(array.min()), int(array.max())) for name, array in integers.items()}
        left = left_by_level_1(network)
        gathers = [node for node in network.main.operations if node.outputs[0] in left]
        counts["gathers"] += len(gathers)
        for what, ranges in (("proved", {}), ("proved with ranges", given)):
            found = ranges_of(network, given_conditions(network, ranges, []))
            for node in gathers:
                proof = proof_of(found, network.main, node)
                counts[what] += proof.state == "proved"
                if proof.state != "proved":
                    print(f"{path.name} not {what}: {node.label}: {proof.input}")
    print(dict(counts))


if __name__ == "__main__":
    main(sys.argv[1])
