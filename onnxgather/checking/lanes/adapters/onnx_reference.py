"""The evaluator of ONNX itself: the package `onnx`."""

import onnx
from onnx.reference import ReferenceEvaluator

name = "onnx-reference"


def version():
    return onnx.__version__


def load(model, name):
    evaluator = ReferenceEvaluator(onnx.load_from_string(model))
    outputs = evaluator.output_names

    def run(inputs):
        return dict(zip(outputs, evaluator.run(None, inputs), strict=True))

    run.evaluator = evaluator
    return run


def ran(loaded):
    return [node.op_type for node in loaded.evaluator.rt_nodes_]
