"""Python environments that hold a stand-in for onnxruntime, to try lanes with.

The stand-in is a package that does what the test says: refuse, crash, hang, print,
place nodes elsewhere. A lane reaches it through a script that stands for an
interpreter.
"""

from __future__ import annotations

import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

STUB = """
import os, signal, sys, time
import numpy as np
__version__ = "9.9.9"
PROVIDERS = ["StubExecutionProvider"]
PLACE = "StubExecutionProvider"
NODES = ["Gather"]
class Any_:
    def __init__(self, **fields): self.__dict__.update(fields)
GraphOptimizationLevel = int
class SessionOptions:
    def add_session_config_entry(self, *_): pass
def get_available_providers(): return PROVIDERS
class InferenceSession:
    def __init__(self, model, options, providers, enable_fallback):
        self.model = model
        self.open()
    def open(self): pass
    def get_inputs(self): return []
    def get_outputs(self): return []
    def get_provider_graph_assignment_info(self):
        nodes = [Any_(name=node, op_type=node) for node in NODES]
        return [Any_(ep_name=PLACE, get_nodes=lambda: nodes)] if nodes else []
    def run(self, _, feeds, options):
        return [self.compute(feeds["InputTensor"], feeds["IndicesTensor"])]
    def compute(self, data, indices):
        return np.asarray(data[indices.astype(np.int64)])
"""

PLUGIN = """
PROVIDERS = []
ADDED = []
LIBRARIES = {}
def device(name, kind, vendor):
    hardware = Any_(type="OrtHardwareDeviceType." + kind, vendor=vendor)
    return Any_(ep_name=name, ep_metadata={"version": "0.2.0"}, device=hardware)
CPU = Any_(
    ep_name="CPUExecutionProvider",
    ep_metadata={"version": "9.9.9"},
    device=Any_(type="OrtHardwareDeviceType.CPU", vendor="AMD"),
)
def get_ep_devices(): return [CPU, *ADDED]
def register_execution_provider_library(name, library):
    LIBRARIES[name] = library
    ADDED.extend(offered(name))
class SessionOptions(SessionOptions):
    def add_provider_for_devices(self, chosen, options):
        self.chosen, self.settings = chosen, options
"""
"""A change: a plugin library brings the devices that a function `offered` returns."""


def environment(folder: Path, change: str = "", banner: str = "") -> str:
    """Return the path of an interpreter whose onnxruntime is the stand-in, changed.

    Args:
        folder: An empty folder.
        change: Python that is put at the end of the stand-in.
        banner: Python that runs when the interpreter starts.
    """
    package = folder / "site" / "onnxruntime"
    package.mkdir(parents=True)
    text = STUB + textwrap.dedent(change)
    (package / "__init__.py").write_text(text, encoding="utf-8")
    if banner:
        (folder / "site" / "sitecustomize.py").write_text(banner, encoding="utf-8")
    script = folder / "python"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH="{folder}/site" exec "{sys.executable}" "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    return str(script)


def gone(pid: int, within: float = 30) -> bool:
    """Whether a program ends within some seconds."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        with suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text()
            if stat.rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.02)
                continue
        return True
    return False
