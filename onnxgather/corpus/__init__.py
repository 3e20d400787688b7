"""Cases that put every corner of the gather family to a provider, and their export."""

from onnxgather.corpus.cases import corpus
from onnxgather.corpus.export import Exported, FormatName, export
from onnxgather.corpus.sampling import random_cases

__all__ = ["Exported", "FormatName", "corpus", "export", "random_cases"]
