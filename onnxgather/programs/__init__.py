"""DxDispatch's programs, which are JSON files: reading, checking, running and writing them."""

from onnxgather.programs.program import PrintCommand, Program, parse_program, read_program
from onnxgather.programs.running import Dispatch, dispatches, execute, told_outside
from onnxgather.programs.writer import program_files, write_program, write_program_of_zeros

__all__ = [
    "Dispatch",
    "PrintCommand",
    "Program",
    "dispatches",
    "execute",
    "parse_program",
    "program_files",
    "read_program",
    "told_outside",
    "write_program",
    "write_program_of_zeros",
]
