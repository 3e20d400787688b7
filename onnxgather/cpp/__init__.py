"""Descriptors read from C and C++, and written as C++."""

from onnxgather.cpp.reading import is_cpp, read_cpp
from onnxgather.cpp.writing import to_cpp, variable_names

__all__ = ["is_cpp", "read_cpp", "to_cpp", "variable_names"]
