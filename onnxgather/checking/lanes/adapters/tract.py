"""tract: the package `tract`."""

import os
import tempfile
from importlib.metadata import version as version_of

import tract

name = "tract"
os.environ["RUST_BACKTRACE"] = "0"  # so that the last lines say what went wrong


class NotGivenError(Exception):
    """Its Python module cannot hold the inputs."""


def version():
    return version_of("tract")


def load(model, name):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model)
        network = tract.onnx().load(path)
        names = [network.input_name(k) for k in range(network.input_count())]
        runnable = network.into_model().into_runnable()

    def run(inputs):
        if any(array.dtype.hasobject for array in inputs.values()):
            raise NotGivenError("texts, which its Python module lacks")
        (output,) = runnable.run([inputs[name] for name in names])
        # Its name of the output is that of the node.
        return {"OutputTensor": output.to_numpy()}

    return run
