"""Adapters that hold a stand-in for a runtime: numpy, which does what a test says."""

from __future__ import annotations

import textwrap
from pathlib import Path

PLANTED = """
import os, signal, sys, time
import numpy as np

name = "planted"
VERSION = "1.2.3"

def version():
    return VERSION

def gather(data, indices):
    return data[indices.astype(np.int64)]

def load(model, name):
    def run(inputs):
        return {"OutputTensor": gather(inputs["InputTensor"], inputs["IndicesTensor"])}
    run.model = model
    return run

def ran(loaded):
    return ["Gather"] if b"Gather" in loaded.model else ["Add"]
"""
"""A gather along the first axis, for models of one node Gather."""


def planted(folder: Path, change: str = "") -> str:
    """Return the path of the adapter, with Python that a test puts at its end."""
    path = folder / "planted.py"
    path.write_text(PLANTED + textwrap.dedent(change), encoding="utf-8")
    return str(path)
