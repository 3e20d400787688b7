"""What is wrong with the ONNX Runtimes of this machine, and the commands that mend it."""

from onnxgather.doctor.checkup import Checkup
from onnxgather.doctor.examination import examine

__all__ = ["Checkup", "examine"]
