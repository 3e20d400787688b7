"""The corpus: the built-in cases, which cover the gather family; random cases; their export."""

from onnxgather.corpus.cases import corpus
from onnxgather.corpus.export import Exported, export
from onnxgather.corpus.sampling import random_cases, random_names

__all__ = ["Exported", "corpus", "export", "random_cases", "random_names"]
