"""The table of runtimes that read ONNX models and are no provider of ONNX Runtime.

A lane of `check` runs each through its adapter, checking/lanes/adapters/NAME.py.
`--list`, the doctor, messages and docs/runtimes.md derive from the table.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnxgather.core.checks import argument_text

RUNTIME_NAME = r"[a-z][a-z0-9_.-]{0,63}"
"""How the name of a runtime is spelled, the user's own included."""

RUNTIME_NAME_RULE = (
    "must begin with a small letter and have small letters, digits, _, . and - alone"
    ", up to 64"
)
"""`RUNTIME_NAME` as the end of a sentence."""


@dataclass(frozen=True)
class OtherRuntime:
    """A runtime that reads ONNX models."""

    name: str
    """The name of its lane, and of its adapter."""
    title: str
    """What its makers call it."""
    modules: tuple[str, ...]
    """The Python modules that its adapter imports, besides numpy."""
    wheels: tuple[str, ...]
    """The wheels that bring it, as pip spells them, with the version that was
    measured."""
    ran: str
    """What the adapter says of the operators that ran, as a sentence without its
    subject; empty if the runtime does not tell."""
    provider: str = ""
    """The full name of the provider of ONNX Runtime that comes from the same makers;
    empty if there is none."""

    @property
    def file(self) -> str:
        """The name of the adapter's file."""
        return f"{self.name.replace('-', '_')}.py"

    @property
    def line(self) -> str:
        """The row of the runtime in the table of docs/runtimes.md."""
        install = f"pip install {' '.join(self.wheels)} numpy"
        ran = self.ran or "nothing: only the bytes count"
        return f"| `{self.name}` | {self.title} | `{install}` | {ran} |"

    def install(self, python: str) -> str:
        """Return the command that installs the runtime where an interpreter is."""
        wheels = " ".join(self.wheels)
        return f"{argument_text(python)} -m pip install {wheels} numpy"


_ROWS = (
    OtherRuntime(
        "openvino-runtime",
        "OpenVINO",
        ("openvino",),
        ("openvino==2026.4.1",),
        "names the layers of the compiled model that are gathers",
        provider="OpenVINOExecutionProvider",
    ),
    OtherRuntime(
        "opencv",
        "OpenCV",
        ("cv2",),
        ("opencv-python-headless==5.0.0.93",),
        "names the layers of the network that are gathers",
    ),
    OtherRuntime(
        "tvm",
        "Apache TVM",
        ("tvm", "onnx"),
        ("apache-tvm==0.27.0.post1", "onnx==1.23.2"),
        "names the gathers of the compiled module",
    ),
    OtherRuntime(
        "iree",
        "IREE",
        ("iree.compiler", "iree.runtime", "onnx"),
        ("iree-base-compiler==3.13.0", "iree-base-runtime==3.13.0", "onnx==1.23.2"),
        "",
    ),
    OtherRuntime("mnn", "MNN", ("MNN",), ("MNN==3.6.1",), ""),
    OtherRuntime("tract", "tract", ("tract",), ("tract==0.23.9",), ""),
    OtherRuntime(
        "onnx-reference",
        "the ReferenceEvaluator of ONNX",
        ("onnx",),
        ("onnx==1.23.2",),
        "names the operators of the model",
    ),
)

OTHER_RUNTIMES = {row.name: row for row in _ROWS}
"""The runtimes by the names of their lanes."""
