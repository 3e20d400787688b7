"""The options of a model and of an exported corpus.

A model has a policy, a target, an opset and a number of threads, a corpus a format.
"""

from __future__ import annotations

import os
from typing import Literal

from msgspec import Struct

OutOfRange = Literal["clamp", "error", "zero", "directml"]
"""The name of a policy: what an index out of range does; see `POLICIES`."""


class Policy(Struct, frozen=True):
    """What an index outside [0, n), or [-n, n) for a signed type, does."""

    rule: str
    """The rule in full, as the end of a sentence that starts with "an index out of
    range"."""
    brief: str
    """The rule in a few words, as the end of the same sentence."""
    returns: str
    """What the output holds where the index is out of range."""
    element: str = ""
    """What the output holds for a single index, where it reads otherwise."""


POLICIES: dict[OutOfRange, Policy] = {
    "clamp": Policy(
        "moves to the nearest element of its own axis, below -n to element 0",
        "is clamped",
        "the elements at the clamped indices",
        "the clamped element",
    ),
    "error": Policy("is an error", "is an error", "an output"),
    "zero": Policy("makes the output elements that it leads to 0", "gives 0", "zeros"),
    "directml": Policy(
        "does what DirectML.dll 1.15.4 was measured to do, bit for bit",
        "does what DirectML does",
        "what DirectML returns",
    ),
}
"""The only table of policies, in the order of `gather_policy` in kernel.h."""

# An error makes no value, so it hardens nothing.
HARDENED = (*(name for name in POLICIES if name != "error"), "index=N")
"""The policies that make a value of an index out of range.

Under "index=N" the index means row N.
"""


Target = Literal["portable", "cpu", "webgpu", "native"]
"""The name of a target: the provider or providers that a model is for; see
`TARGETS`."""

TARGETS: dict[Target, str] = {
    "portable": "standard ONNX for every provider",
    "cpu": "what ONNX Runtime's CPU provider runs fastest",
    "webgpu": (
        "what ONNX Runtime's WebGPU provider computes, and OpenVINO's, which have no"
        " 64-bit arithmetic"
    ),
    "native": (
        "one node of onnxgather's own operators, and standard ONNX for where they"
        " are not"
    ),
}
"""The only table of targets, with what their models are.

All models compute the same.
"""

WEBNN: Literal["webnn"] = "webnn"
"""The name of WebNN itself.

convert takes it as a target too: its files are WebNN programs, no ONNX models. As a
provider it is no one of ONNX Runtime: a browser runs these programs.
"""

ProvedTarget = Target | Literal["webnn"]
"""What certify proves: the models of a target, or WebNN programs."""

PROVED_TARGETS: tuple[ProvedTarget, ...] = (*TARGETS, WEBNN)

WebnnForm = Literal["bytes", "typed"]
"""The name of a form of WebNN programs; see `WEBNN_FORMS`."""

WEBNN_FORMS: dict[WebnnForm, str] = {
    "bytes": "operands of words or bytes, which hold every data type",
    "typed": "operands of the descriptor's own data types, inside a larger graph",
}
"""The only table of the forms of WebNN programs, with what their operands are."""

FormatName = Literal["onnx", "dxdispatch", "json", "wpt"]
"""The name of a format of the exported corpus; see `FORMATS`."""

FORMATS: dict[FormatName, str] = {
    "onnx": "ONNX backend tests",
    "dxdispatch": "programs",
    "json": "plain arrays",
    "wpt": "Web Platform Tests of WebNN",
}
"""The only table of the formats of the exported corpus, with what each holds."""

OPSETS = range(13, 26)
"""The versions of the ONNX operator set that a model may have.

The first is the version that gave the gathers their present form, the last the newest
that ONNX Runtime 1.24.4 loads (measured).
"""

DEFAULT_OPSET = 17
"""ONNX Runtime's DirectML provider, old builds included, has each of its nodes."""

DEFAULT_THREADS = 2
"""The number of threads of a model for the CPU provider, if the user gives none."""

MOST_THREADS = 1024
"""The most threads that the user may ask for."""


def usable_cores() -> int:
    """Return the number of cores that the program may run on."""
    # Python has the function on Linux alone, where a container may have fewer cores.
    affinity = getattr(os, "sched_getaffinity", None)
    if affinity:
        return len(affinity(0))
    return os.cpu_count() or 1
