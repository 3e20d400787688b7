"""MNN: the package `MNN`, with its converter."""

import os
import subprocess
import sys
import tempfile
from functools import lru_cache

import MNN
import numpy as np
from MNN import expr, nn

name = "mnn"
TYPES = {
    "float32": expr.float,
    "float64": expr.double,
    "int32": expr.int,
    "int64": expr.int64,
    "uint8": expr.uint8,
}
"""The data types that its Python module takes."""


class NotGivenError(Exception):
    """Its Python module cannot hold the inputs."""


def version():
    return MNN.version()


@lru_cache(1)  # a case loads its model several times
def _folder(model):
    folder = tempfile.TemporaryDirectory()
    with open(f"{folder.name}/m.onnx", "wb") as file:
        file.write(model)
    # The program mnnconvert would install a package and send statistics by it.
    program = "import sys, _tools; _tools.mnnconvert(sys.argv)"
    command = [sys.executable, "-c", program, "-f", "ONNX", "--bizCode", "MNN"]
    command += ["--modelFile", f"{folder.name}/m.onnx"]
    command += ["--MNNModel", f"{folder.name}/m.mnn"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not os.path.exists(f"{folder.name}/m.mnn"):
        lines = (done.stdout + done.stderr).strip().splitlines()
        raise RuntimeError(f"the converter: {['no model', *lines][-1]}")
    return folder


def _variable(name, array):
    # Its modules have INT32 in the place of the other types of indices.
    if name == "IndicesTensor":
        wide, array = array, array.astype(np.int32)
        if (wide != array).any():
            raise NotGivenError("an index that INT32 does not hold")
    if array.dtype.name not in TYPES:
        raise NotGivenError(f"{name} of {array.dtype}, which MNN.expr lacks")
    return expr.const(array, list(array.shape), expr.NCHW, TYPES[array.dtype.name])


def load(model, name):
    folder = _folder(model)

    def run(inputs):
        path = f"{folder.name}/m.mnn"
        network = nn.load_module_from_file(path, list(inputs), ["OutputTensor"])
        (output,) = network.forward([_variable(*item) for item in inputs.items()])
        return {"OutputTensor": np.array(output.read())}

    return run
