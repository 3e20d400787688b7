"""The corpus: built-in cases, random cases, and their export."""

from onnxgather.checking.corpus.built_in import built_in_cases
from onnxgather.checking.corpus.export import Exported, export
from onnxgather.checking.corpus.sampling import random_cases, random_names

__all__ = ["Exported", "built_in_cases", "export", "random_cases", "random_names"]
