"""Gathers of data types that a provider lacks, run as gathers of types that it has.

Under every policy a gather only moves elements, so it may move the words of 32 bits
that they consist of in their place: one word for an element of up to 4 bytes, and two
for one of 8, each half in a run of its own. The words are integers, as shaders may
flush subnormal floats and quiet NaNs.

An index is given as the number of the other type that leads to the same element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from onnxgather.core.descriptors.arrays import (
    Array,
    all_in_range,
    axis_sizes,
    elements,
    is_outside,
)
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.execution.providers import Provider
from onnxgather.core.execution.runtime import NotRunError
from onnxgather.core.gather import gather_of
from onnxgather.core.lowering.indices import LONGEST_INT32
from onnxgather.core.lowering.offsets import index_strides
from onnxgather.core.options import OutOfRange

WORDS = (TensorDataType.UINT32, TensorDataType.INT32)
"""The data types of the data in place of a type that a provider lacks; the first that
the provider has."""

INDEX = TensorDataType.INT32
"""The data type of the indices in place of a type that a provider lacks."""

ADDRESS = TensorDataType.UINT32
"""The data type in which DirectML adds up addresses, and of indices in their place
under the policy "directml"."""


class Substitute(Struct, frozen=True):
    """A gather in data types that a provider has, in place of types that it lacks."""

    desc: Descriptor
    """The gather that is wanted."""
    given: Descriptor
    """The gather that the provider runs, with as many elements in each tensor."""
    out_of_range: OutOfRange
    """What an index out of range does, in both."""
    changes_indices: bool
    """Whether the indices are given as other numbers or in another type."""

    @property
    def given_as(self) -> str:
        """Return the changed data types, as `data as UINT32, indices as INT32`."""
        changes: list[str] = []
        if self.moves_words:
            changes.append(f"data as {self.given.input_tensor.data_type}")
        if self.changes_indices:
            changes.append(f"indices as {self.given.indices_tensor.data_type}")
        return ", ".join(changes)

    @property
    def moves_words(self) -> bool:
        """Return whether the data are given in another type."""
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

        Raises:
            NotRunError: The provider would read another element for an index.
        """
        outputs_of_runs = [run_all(given)[0] for given in self.feeds([feed])]
        return self.outputs(outputs_of_runs)

    def feeds(self, wanted: Iterable[Mapping[str, Array]]) -> list[dict[str, Array]]:
        """Return the inputs of the provider's runs.

        For each set of inputs there are as many runs as an element has words.

        Raises:
            NotRunError: As `run`.
        """
        given: list[dict[str, Array]] = []
        for feed in wanted:
            # One copy for all words, as another thread may change the indices
            # meanwhile.
            indices = self._indices(feed["IndicesTensor"].copy())
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
        if self.moves_words and self.desc.input_tensor.data_type.size > word_size:
            words_per_element = self.desc.input_tensor.data_type.size // word_size
        outputs: list[Any] = []
        for start in range(0, len(ran), words_per_element):
            words = ran[start : start + words_per_element]
            outputs.append(self._joined(words))
        return outputs

    def _indices(self, indices: Array) -> Array:
        """Return the indices as the provider's runs read them."""
        if not self.changes_indices:
            return indices
        longest = max(axis_sizes(self.desc))
        if longest >= LONGEST_INT32:
            rule = f"an axis must be shorter than {LONGEST_INT32}"
            raise NotRunError("types", f"INT64, so that {rule}, got {longest}")
        dtype = self.given.indices_tensor.data_type.numpy
        if self.out_of_range == "directml":
            index = elements(self.desc.indices_tensor, indices)
            words = _without_sign(self.desc, index)
            if dtype == ADDRESS.numpy:
                return words
            return self._with_low_addresses(index, words)
        # An index that `INDEX` does not hold is out of range, as its last number is.
        info = np.iinfo(dtype)
        indices = np.minimum(indices, info.max)
        if indices.dtype.kind == "i":
            indices = np.maximum(indices, info.min)
        return indices.astype(dtype)

    def _with_low_addresses(self, index: Array, words: Array) -> Array:
        """Return indices by which DirectML reads the same, without a sum beyond 2^31.

        Args:
            index: The elements of IndicesTensor.
            words: What `_without_sign` returns of them.

        Raises:
            NotRunError: There are none for an index.
        """
        tensor = self.desc.input_tensor
        gather = gather_of(self.desc)
        strides = index_strides(self.desc, gather, "directml").reshape(-1)
        tuples = words if gather.has_tuples else words[..., None]
        limit = LONGEST_INT32
        for _, dimension in gather.passed:
            last_coordinate = tensor.sizes[dimension] - 1
            limit -= last_coordinate * tensor.element_strides[dimension]

        # Case 1: the sum is low, as floats tell, which do not wrap.
        is_low = (tuples * strides.astype(np.float64)).sum(-1) < limit

        # Case 2: the sum modulo 2^32 is the address of other coordinates, or past the
        # last element, as those of the smallest low address there.
        address = (tuples * strides.astype(np.uint32)).sum(-1, dtype=np.uint32)
        address = address.astype(np.int64)
        falling = [place for place in np.argsort(-strides) if strides[place] > 0]
        smallest = strides[falling[-1]] if falling else 1
        last = tensor.reachable_count - 1
        is_past = address >= last
        rest = np.where(is_past, last + smallest - 1, address)
        is_right = (address < limit + LONGEST_INT32) & (rest < limit)
        coordinates = np.zeros(tuples.shape, np.int64)
        for place in falling:
            coordinates[..., place] = rest // strides[place]
            rest = rest % strides[place]
        is_right &= is_past | (rest == 0)

        is_wrong = ~(is_low | is_right)
        if is_wrong.any():
            where = np.unravel_index(np.argmax(is_wrong), is_wrong.shape)
            found = ",".join(map(str, where))
            raise NotRunError(
                "types",
                f"UINT32, so that IndicesTensor[{found}] must have an address that does"
                f" not wrap modulo 2^32, got {index[where].tolist()}",
            )
        low = np.where(is_low[..., None], tuples, coordinates)
        return low.reshape(words.shape).astype(INDEX.numpy)

    def _words(self, data: Array) -> list[Array]:
        """Return the data as the provider's runs read them: a word of each element."""
        if not self.moves_words:
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
        if not self.moves_words:
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
    out_of_range: OutOfRange,
    indices: Array | None = None,
    moves_only: bool = True,
) -> Substitute | None:
    """Return what a provider runs in place of a gather; None if it has the data types.

    Args:
        desc: Any of the four gather descriptors.
        provider: The provider.
        out_of_range: What an index out of range does.
        indices: IndicesTensor. Under "error" its type stays where `INDEX` does not hold
            each index. None means that it will.
        moves_only: Whether the model only moves elements.
    """
    data_types = provider.data_types
    if not data_types:
        return None
    changed: dict[str, TensorDesc] = {}
    if moves_only and desc.input_tensor.data_type not in data_types:
        word = next(data_type for data_type in WORDS if data_type in data_types)
        changed["input_tensor"] = _retyped(desc.input_tensor, word)
        changed["output_tensor"] = _retyped(desc.output_tensor, word)
    tensor = desc.indices_tensor
    changes_indices = tensor.data_type not in data_types
    index_type = INDEX
    if out_of_range == "error":
        changes_indices = changes_indices and _all_narrow(tensor, indices)
    elif out_of_range == "directml" and ADDRESS in data_types:
        index_type = ADDRESS
    elif out_of_range == "directml":
        changes_indices = True
    if changes_indices:
        if out_of_range == "directml":
            tensor = TensorDesc(index_type, tensor.sizes)
        changed["indices_tensor"] = _retyped(tensor, index_type)
    if not changed:
        return None
    given = replace(desc, **changed)
    return Substitute(desc, given, out_of_range, changes_indices)


def _without_sign(desc: Descriptor, index: Array) -> Array:
    """Return the elements of IndicesTensor as the UINT32 that DirectML makes of them.

    It keeps the low 32 bits, and adds the size of the axis to a negative index. A
    UINT32 has no sign.
    """
    words = index.astype(ADDRESS.numpy)
    if index.dtype == ADDRESS.numpy:
        return words
    is_negative = index.astype(np.int64) < 0
    sizes = np.array(axis_sizes(desc), ADDRESS.numpy)
    return words + is_negative * sizes


def why_not_as_it_is(
    desc: Descriptor, provider: Provider, out_of_range: OutOfRange, indices: Array
) -> str | None:
    """Return why a provider may read other elements in a model that runs as it is.

    The arguments are those of `substitute_of`; None means that it reads the same.
    """
    found = substitute_of(desc, provider, out_of_range, indices)
    if found is None:
        return None
    is_held = _all_narrow(desc.indices_tensor, indices)
    if out_of_range == "directml":
        is_held = all_in_range(desc, indices)
    if is_held and not found.moves_words:
        return None
    return f"{provider.name} must be given {found.given_as}, and a file runs as it is"


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
