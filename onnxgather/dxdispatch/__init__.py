"""DxDispatch's JSON programs: reading, checking, running and writing them.

Imports point one way: `document <- {descriptor, resources} <- {program <- execution, writer}`.
"""

from onnxgather.dxdispatch.descriptor import from_dict, to_dict
from onnxgather.dxdispatch.execution import Dispatch, Evaluate, dispatches, execute
from onnxgather.dxdispatch.program import (
    Dispatchable,
    DispatchCommand,
    PrintCommand,
    Program,
    WriteFileCommand,
    parse_program,
    read_program,
)
from onnxgather.dxdispatch.resources import Resource
from onnxgather.dxdispatch.writer import write_program

__all__ = [
    "Dispatch",
    "DispatchCommand",
    "Dispatchable",
    "Evaluate",
    "PrintCommand",
    "Program",
    "Resource",
    "WriteFileCommand",
    "dispatches",
    "execute",
    "from_dict",
    "parse_program",
    "read_program",
    "to_dict",
    "write_program",
]
