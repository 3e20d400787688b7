"""Apache TVM, compiled for the CPU: the packages `apache-tvm` and `onnx`."""

from functools import lru_cache

import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

name = "tvm"
GATHERS = {
    "take": "Gather",
    "gather_elements": "GatherElements",
    "gather_nd": "GatherND",
}


def version():
    return tvm.__version__


@lru_cache(1)
def _compiled(model):
    graph = onnx.load_from_string(model).graph
    module = from_onnx(onnx.load_from_string(model), keep_params_in_input=False)
    # Other operators may become a take too.
    operators = {node.op_type for node in graph.node}
    text = module.script()
    gathers = [
        operator
        for kind, operator in GATHERS.items()
        if f"R.{kind}(" in text and operator in operators
    ]
    return graph, tvm.compile(module, "llvm"), gathers


def load(model, name):
    graph, executable, gathers = _compiled(model)
    machine = relax.VirtualMachine(executable, tvm.cpu())

    def run(inputs):
        arrays = [inputs[value.name] for value in graph.input]
        result = machine["main"](*map(tvm.runtime.tensor, arrays))
        outputs = [result] if hasattr(result, "numpy") else list(result)
        names = [value.name for value in graph.output]
        return {name: out.numpy() for name, out in zip(names, outputs, strict=True)}

    run.gathers = gathers
    return run


def ran(loaded):
    return loaded.gathers
