"""Gathers of data types that a provider lacks, run by it as gathers of types that it has.

Under every policy a gather only moves elements, so it may move the words of 32 bits
that they consist of in their place: one word for an element of up to 4 bytes, and two
for one of 8, each half in a run of its own. The words are integers, as shaders may
flush subnormal floats and quiet NaNs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace

from onnxgather.core.descriptors.arrays import Array, elements, is_outside
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.execution.providers import Provider
from onnxgather.core.lowering.indices import LONGEST_INT32

WORD, INDEX = TensorDataType.UINT32, TensorDataType.INT32
"""The data types of the data and of the indices in place of those that a provider
lacks."""


@dataclass(frozen=True, slots=True)
class Substitute:
    """A gather in data types that a provider has, in place of one with types that it lacks."""

    desc: Descriptor
    """The gather that is asked for."""
    given: Descriptor
    """The gather that the provider runs, with as many elements in each tensor."""

    @property
    def given_as(self) -> str:
        """The data types that differ, such as `data as UINT32, indices as INT32`."""
        data, indices = (
            self.given.input_tensor.data_type,
            self.given.indices_tensor.data_type,
        )
        said = [f"data as {data}"] if self._takes_words else []
        said += [f"indices as {indices}"] if self.narrows else []
        return ", ".join(said)

    @property
    def narrows(self) -> bool:
        """Whether the indices are given as `INDEX`, which must hold each of them."""
        return self.given.indices_tensor.data_type != self.desc.indices_tensor.data_type

    @property
    def _takes_words(self) -> bool:
        return self.given.input_tensor.data_type != self.desc.input_tensor.data_type

    def run(
        self,
        run_all: Callable[[Mapping[str, Array]], list[Any]],
        feed: Mapping[str, Array],
    ) -> list[Any]:
        """The output for inputs as they are asked for, from what runs the gather that is given."""
        return self.outputs([run_all(given)[0] for given in self.feeds([feed])])

    def feeds(self, asked: Iterable[Mapping[str, Array]]) -> list[dict[str, Array]]:
        """The inputs of the provider's runs: of each set as many as an element has words."""
        given: list[dict[str, Array]] = []
        for feed in asked:
            # One copy for all words, as another thread may change the indices
            # meanwhile.
            indices = feed["IndicesTensor"].astype(
                self.given.indices_tensor.data_type.numpy
            )
            words = self._words(feed["InputTensor"])
            given += [
                {**feed, "InputTensor": word, "IndicesTensor": indices}
                for word in words
            ]
        return given

    def outputs(self, ran: Sequence[Any]) -> list[Any]:
        """The outputs of the sets of inputs, from those of the runs that `feeds` gives.

        A run has an array, or a text that says why it failed, which is then that of its
        set.
        """
        count = max(1, self.desc.input_tensor.data_type.size // WORD.size)
        count = count if self._takes_words else 1
        return [self._joined(ran[k : k + count]) for k in range(0, len(ran), count)]

    def _words(self, data: Array) -> list[Array]:
        if not self._takes_words:
            return [data]
        parts = np.ascontiguousarray(data)[..., None].view(self._bits)
        return [
            parts[..., k].astype(WORD.numpy, order="C") for k in range(parts.shape[-1])
        ]

    def _joined(self, words: Sequence[Any]) -> Any:
        tensor = self.given.output_tensor
        wanted = tensor.data_type.numpy, tensor.array_shape
        for word in words:
            if isinstance(word, str) or (word.dtype, word.shape) != wanted:
                return word  # not what the model says it is
        if not self._takes_words:
            return words[0]
        parts = np.stack(words, -1).astype(self._bits)
        return parts.view(self.desc.output_tensor.data_type.numpy)[..., 0]

    @property
    def _bits(self) -> str:
        """The unsigned integers, by numpy's name, that hold an element, or each half of it."""
        return f"u{min(self.desc.input_tensor.data_type.size, WORD.size)}"


def substitute_of(
    desc: Descriptor,
    provider: Provider,
    indices: Array | None = None,
    moves_only: bool = True,
) -> Substitute | None:
    """What a provider runs in place of a gather; None where it has the data types.

    Args:
        desc: Any of the four gather descriptors.
        provider: The provider.
        indices: IndicesTensor; its type stays where `INDEX` does not hold each index. None means
            that it will.
        moves_only: Whether the model does nothing with elements but move them.
    """
    types = provider.data_types or (*TensorDataType,)
    given: dict[str, TensorDesc] = {}
    if moves_only and desc.input_tensor.data_type not in types:
        given["input_tensor"] = _retyped(desc.input_tensor, WORD)
        given["output_tensor"] = _retyped(desc.output_tensor, WORD)
    if desc.indices_tensor.data_type not in types and (
        indices is None
        or not is_outside(elements(desc.indices_tensor, indices), LONGEST_INT32).any()
    ):
        given["indices_tensor"] = _retyped(desc.indices_tensor, INDEX)
    return Substitute(desc, replace(desc, **given)) if given else None


def _retyped(tensor: TensorDesc, data_type: TensorDataType) -> TensorDesc:
    """The tensor with another data type, and a buffer of as many elements, for DirectML too."""
    is_partial = tensor.reachable_count > tensor.element_count
    total = tensor.element_count * data_type.size + is_partial
    return replace(tensor, data_type=data_type, total_tensor_size_in_bytes=total)
