"""Gathers of data types that a provider lacks, run as gathers of types that it has.

Under every policy a gather only moves elements, so it may move the words of 32 bits
that they consist of in their place: one word for an element of up to 4 bytes, and two
for one of 8, each half in a run of its own. The words are integers, as shaders may
flush subnormal floats and quiet NaNs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from onnxgather.core.descriptors.arrays import Array, elements, is_outside
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.execution.providers import Provider
from onnxgather.core.lowering.indices import LONGEST_INT32

WORDS = (TensorDataType.UINT32, TensorDataType.INT32)
"""The data types of the data in place of a type that a provider lacks; the first that
the provider has."""

INDEX = TensorDataType.INT32
"""The data type of the indices in place of a type that a provider lacks."""


class Substitute(Struct, frozen=True):
    """A gather in data types that a provider has, in place of types that it lacks."""

    desc: Descriptor
    """The gather that is wanted."""
    given: Descriptor
    """The gather that the provider runs, with as many elements in each tensor."""

    @property
    def given_as(self) -> str:
        """Return the changed data types, as `data as UINT32, indices as INT32`."""
        changes: list[str] = []
        if self._moves_words:
            changes.append(f"data as {self.given.input_tensor.data_type}")
        if self.narrows:
            changes.append(f"indices as {self.given.indices_tensor.data_type}")
        return ", ".join(changes)

    @property
    def narrows(self) -> bool:
        """Return whether the indices are given as `INDEX`, which must hold each."""
        return self.given.indices_tensor.data_type != self.desc.indices_tensor.data_type

    @property
    def _moves_words(self) -> bool:
        return self.given.input_tensor.data_type != self.desc.input_tensor.data_type

    def run(
        self,
        run_all: Callable[[Mapping[str, Array]], list[Any]],
        feed: Mapping[str, Array],
    ) -> list[Any]:
        """Return the output for inputs of the gather that is wanted.

        Args:
            run_all: Runs the gather that is given.
            feed: The inputs, by their names.
        """
        outputs_of_runs = [run_all(given)[0] for given in self.feeds([feed])]
        return self.outputs(outputs_of_runs)

    def feeds(self, wanted: Iterable[Mapping[str, Array]]) -> list[dict[str, Array]]:
        """Return the inputs of the provider's runs.

        For each set of inputs there are as many runs as an element has words.
        """
        given: list[dict[str, Array]] = []
        index_dtype = self.given.indices_tensor.data_type.numpy
        for feed in wanted:
            # One copy for all words, as another thread may change the indices
            # meanwhile.
            indices = feed["IndicesTensor"].astype(index_dtype)
            for words in self._words(feed["InputTensor"]):
                given.append({**feed, "InputTensor": words, "IndicesTensor": indices})
        return given

    def outputs(self, ran: Sequence[Any]) -> list[Any]:
        """Return the outputs of the sets of inputs, from those of the runs of `feeds`.

        The output of a run is an array, or a text that says why the run failed; the
        text is then the output of the set.
        """
        words_per_element = 1
        word_size = self.given.input_tensor.data_type.size
        if self._moves_words and self.desc.input_tensor.data_type.size > word_size:
            words_per_element = self.desc.input_tensor.data_type.size // word_size
        outputs: list[Any] = []
        for start in range(0, len(ran), words_per_element):
            words = ran[start : start + words_per_element]
            outputs.append(self._joined(words))
        return outputs

    def _words(self, data: Array) -> list[Array]:
        """Return the data as the provider's runs read them: a word of each element."""
        if not self._moves_words:
            return [data]
        # The last axis counts the words of an element.
        parts = np.ascontiguousarray(data)[..., None].view(self._bits)
        words: list[Array] = []
        for position in range(parts.shape[-1]):
            part = parts[..., position]
            word_dtype = self.given.input_tensor.data_type.numpy
            words.append(part.astype(word_dtype, order="C"))
        return words

    def _joined(self, words: Sequence[Any]) -> Any:
        """Return the output whose words are the outputs of runs."""
        tensor = self.given.output_tensor
        expected = (tensor.data_type.numpy, tensor.array_shape)
        for word in words:
            if isinstance(word, str):  # the run failed
                return word
            if (word.dtype, word.shape) != expected:  # the provider broke the model
                return word
        if not self._moves_words:
            return words[0]
        parts = np.stack(words, -1).astype(self._bits)
        joined = parts.view(self.desc.output_tensor.data_type.numpy)
        return joined[..., 0]

    @property
    def _bits(self) -> str:
        """Return numpy's name of the unsigned integers that hold an element or a half.

        A half is that of an element of 64 bits.
        """
        word_size = self.given.input_tensor.data_type.size
        size = min(self.desc.input_tensor.data_type.size, word_size)
        return f"u{size}"


def substitute_of(
    desc: Descriptor,
    provider: Provider,
    indices: Array | None = None,
    moves_only: bool = True,
) -> Substitute | None:
    """Return what a provider runs in place of a gather; None if it has the data types.

    Args:
        desc: Any of the four gather descriptors.
        provider: The provider.
        indices: IndicesTensor; its type stays where `INDEX` does not hold each index.
            None means that it will.
        moves_only: Whether the model only moves elements.
    """
    data_types = provider.data_types or tuple(TensorDataType)
    changed: dict[str, TensorDesc] = {}
    if moves_only and desc.input_tensor.data_type not in data_types:
        word = next(data_type for data_type in WORDS if data_type in data_types)
        changed["input_tensor"] = _retyped(desc.input_tensor, word)
        changed["output_tensor"] = _retyped(desc.output_tensor, word)
    lacks_index_type = desc.indices_tensor.data_type not in data_types
    if lacks_index_type and _all_narrow(desc.indices_tensor, indices):
        changed["indices_tensor"] = _retyped(desc.indices_tensor, INDEX)
    if not changed:
        return None
    return Substitute(desc, replace(desc, **changed))


def _all_narrow(tensor: TensorDesc, indices: Array | None) -> bool:
    """Return whether `INDEX` holds each index; unknown indices will be checked."""
    if indices is None:
        return True
    return not is_outside(elements(tensor, indices), LONGEST_INT32).any()


def _retyped(tensor: TensorDesc, data_type: TensorDataType) -> TensorDesc:
    """Return the tensor with another data type, and a buffer of as many elements.

    DirectML accepts it too.
    """
    # DirectML counts a partial last element: one byte more stands for what lies behind.
    is_partial = tensor.reachable_count > tensor.element_count
    total = tensor.element_count * data_type.size + is_partial
    return replace(tensor, data_type=data_type, total_tensor_size_in_bytes=total)
