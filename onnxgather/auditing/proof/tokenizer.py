"""The range of the ids that a tokenizer returns, from its `tokenizer.json`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from onnxgather.auditing.algebra.bounds import INTEGERS
from onnxgather.auditing.proof.contract import Condition
from onnxgather.core.checks import shown
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.json_files import decoding, whole
from onnxgather.core.model.network import Network

LARGEST_TOKENIZER = 2**26
"""The most bytes of the file of a tokenizer."""

_Id = Annotated[int, Meta(ge=0)]


class _Model(Struct):
    """The model of a tokenizer, such as WordPiece, BPE, WordLevel or Unigram."""

    vocab: dict[str, _Id] | list[tuple[str, float]]
    """Ids by their tokens; of Unigram, tokens and their scores in the order of ids."""


class _Added(Struct):
    """A token besides those of the vocabulary."""

    id: _Id


class _Padding(Struct):
    """The token that fills short texts of a batch."""

    pad_id: _Id = 0


class _Special(Struct):
    """A special token, such as the start of a text."""

    ids: list[_Id]


class _Processor(Struct):
    """The step that puts special tokens around a text.

    The vocabulary need not contain their ids.
    """

    sep: tuple[str, _Id] = ("", 0)
    cls: tuple[str, _Id] = ("", 0)
    special_tokens: dict[str, _Special] = {}
    processors: list[_Processor] = []

    @property
    def ids(self) -> list[int]:
        """Return the ids that it puts around a text."""
        ids = [self.sep[1], self.cls[1]]
        for special in self.special_tokens.values():
            ids.extend(special.ids)
        for processor in self.processors:
            ids.extend(processor.ids)
        return ids


class _Tokenizer(Struct):
    model: _Model
    added_tokens: list[_Added] = []
    padding: _Padding | None = None
    post_processor: _Processor | None = None


def token_range(path: str) -> tuple[int, int]:
    """Return the least and the greatest id of the tokens; the least counts as 0.

    Raises:
        FileFormatError: The file cannot be read, or is no tokenizer.
        OnnxGatherError: The tokenizer has no token.
    """
    with decoding(path, "docs/proof.md"), open(path, "rb") as file:
        content = whole(file, LARGEST_TOKENIZER)
        tokenizer = msgspec.json.decode(content, type=_Tokenizer)
    vocab = tokenizer.model.vocab
    # Unigram lists its tokens: their ids are their positions.
    ids = [*vocab.values()] if isinstance(vocab, dict) else [*range(len(vocab))]
    ids += [added.id for added in tokenizer.added_tokens]
    if not ids:
        raise OnnxGatherError(f"{path}: $.model.vocab must have a token, got none")
    # The other steps may use ids that no token has.
    if tokenizer.padding is not None:
        ids.append(tokenizer.padding.pad_id)
    if tokenizer.post_processor is not None:
        ids += tokenizer.post_processor.ids
    return 0, max(ids)


def token_condition(text: str, network: Network) -> Condition:
    """Return the condition that an input of a model holds ids of a tokenizer.

    Args:
        text: A file, after the input and a `=` if the model has several inputs of
            integers.
        network: The model.

    Raises:
        OnnxGatherError: The model has no input to choose, or the file is no tokenizer.
    """
    integers = [
        name
        for name in network.main.inputs
        if network.main.type_of(name).data_type in INTEGERS
    ]
    named = [name for name in integers if text.startswith(f"{name}=")]
    if named:
        # A name may contain a `=` itself: the longest fits best.
        name = max(named, key=len)
        path = text.removeprefix(f"{name}=")
    elif len(integers) == 1:
        name = integers[0]
        path = text
    else:
        names = ", ".join(map(shown, integers)) or "none"
        rule = "a tokenizer must come as INPUT=FILE with an input of integers"
        raise OnnxGatherError(f"{network.path}: {rule} ({names}), got {shown(text)}")
    low, high = token_range(path)
    return Condition(of="values", input=name, low=low, high=high)
