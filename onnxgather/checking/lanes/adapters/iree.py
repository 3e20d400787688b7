"""IREE on the CPU: `iree-base-compiler`, `iree-base-runtime` and `onnx`."""

import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from importlib.metadata import version as version_of

import iree.runtime
import numpy as np
import onnx

name = "iree"
TARGET = ["--iree-hal-target-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host"]


def version():
    return version_of("iree-base-runtime")


def _call(program, *arguments):
    path = os.path.join(os.path.dirname(sys.executable), program)
    done = subprocess.run([path, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error:" in line]
        raise RuntimeError(f"{program}: {[*lines, 'failed'][0]}")


@lru_cache(1)  # a case loads its model several times
def _compiled(model):
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/m.onnx", "wb") as file:
            file.write(model)
        _call("iree-import-onnx", f"{folder}/m.onnx", "-o", f"{folder}/m.mlir")
        _call("iree-compile", f"{folder}/m.mlir", *TARGET, "-o", f"{folder}/m.vmfb")
        with open(f"{folder}/m.vmfb", "rb") as file:
            return file.read()


def load(model, name):
    graph = onnx.load_from_string(model).graph
    config = iree.runtime.Config("local-sync")
    context = iree.runtime.SystemContext(config=config)
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, _compiled(model))
    context.add_vm_module(module)
    function = context.modules.module[graph.name]

    def run(inputs):
        arrays = [inputs[value.name] for value in graph.input]
        return {graph.output[0].name: np.array(function(*arrays).to_host())}

    return run
