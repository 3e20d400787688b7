"""OpenVINO itself, on the CPU: the package `openvino`."""

from functools import cache
from importlib.metadata import version as version_of

import numpy as np
import openvino

name = "openvino-runtime"


@cache
def _core():
    return openvino.Core()


def version():
    return version_of("openvino")  # without the name of the build


def load(model, name):
    network = _core().read_model(model)
    # Without the hint, some processors compute FLOAT32 in 16 bits.
    hints = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = _core().compile_model(network, "CPU", hints)

    def run(inputs):
        outputs = compiled(inputs)
        return {port.any_name: np.array(value) for port, value in outputs.items()}

    run.compiled = compiled
    return run


def ran(loaded):
    layers = loaded.compiled.get_runtime_model().get_ops()
    kinds = [layer.get_rt_info()["layerType"].value for layer in layers]
    # The other layers are its own, such as Convert and Subgraph.
    return [kind for kind in kinds if kind.startswith("Gather")]
