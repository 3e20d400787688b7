"""OpenCV's module dnn: the package `opencv-python-headless`."""

import cv2
import numpy as np

name = "opencv"


class NotGivenError(Exception):
    """Its Python module cannot hold an output."""


def version():
    return cv2.__version__


def load(model, name):
    network = cv2.dnn.readNetFromONNX(np.frombuffer(model, np.uint8))
    outputs = network.getUnconnectedOutLayersNames()

    def run(inputs):
        for input_name, array in inputs.items():
            network.setInput(array, input_name)
        arrays = network.forward(outputs)
        if any(array is None for array in arrays):
            raise NotGivenError("a Mat without sizes, which Python sees as None")
        return dict(zip(outputs, arrays, strict=True))

    run.network = network
    return run


def ran(loaded):
    network = loaded.network
    kinds = [network.getLayer(layer).type for layer in network.getLayerNames()]
    # The others are its own, such as NaryEltwise. Its newer engine says Gather2.
    return [kind.removesuffix("2") for kind in kinds if kind.startswith("Gather")]
