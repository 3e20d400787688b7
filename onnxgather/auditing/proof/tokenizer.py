"""The range of the ids that a tokenizer makes, from its `tokenizer.json`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from onnxgather.auditing.algebra.bounds import INTEGERS
from onnxgather.auditing.proof.contract import Condition
from onnxgather.core.checks import shown
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.json_files import decoding, whole
from onnxgather.core.model.network import Network

LARGEST_TOKENIZER = 2**26
"""The most bytes of a file of a tokenizer."""

_Id = Annotated[int, Meta(ge=0)]


class _Model(msgspec.Struct):
    """The model of a tokenizer, such as WordPiece, BPE, WordLevel or Unigram."""

    vocab: dict[str, _Id] | list[tuple[str, float]]
    """Ids by their tokens; or, of Unigram, each token with its score, in the order of
    the ids."""


class _Added(msgspec.Struct):
    id: _Id


class _Padding(msgspec.Struct):
    """What short texts of a batch end with."""

    pad_id: _Id = 0


class _Special(msgspec.Struct):
    ids: list[_Id]


class _Processor(msgspec.Struct):
    """What puts special tokens around a text; nothing says that the vocabulary has their ids."""

    sep: tuple[str, _Id] = ("", 0)
    cls: tuple[str, _Id] = ("", 0)
    special_tokens: dict[str, _Special] = {}
    processors: list[_Processor] = []

    @property
    def ids(self) -> list[int]:
        """The ids that it puts in."""
        own = [n for special in self.special_tokens.values() for n in special.ids]
        return [
            self.sep[1],
            self.cls[1],
            *own,
            *(n for one in self.processors for n in one.ids),
        ]


class _Tokenizer(msgspec.Struct):
    model: _Model
    added_tokens: list[_Added] = []
    padding: _Padding | None = None
    post_processor: _Processor | None = None


def token_range(path: str) -> tuple[int, int]:
    """The least and the greatest id of the tokens of a tokenizer; the least counts as 0.

    Raises:
        FileFormatError: The file cannot be read, or is no tokenizer.
        OnnxGatherError: The tokenizer has no token.
    """
    with decoding(path, "docs/proof.md"), open(path, "rb") as file:
        told = msgspec.json.decode(whole(file, LARGEST_TOKENIZER), type=_Tokenizer)
    vocab = told.model.vocab
    ids = vocab.values() if isinstance(vocab, dict) else range(len(vocab))
    highest = max([*ids, *(added.id for added in told.added_tokens)], default=None)
    if highest is None:
        raise OnnxGatherError(f"{path}: $.model.vocab must have a token, got none")
    padding, around = told.padding or _Padding(), told.post_processor or _Processor()
    return 0, max(highest, padding.pad_id, *around.ids)


def token_condition(text: str, network: Network) -> Condition:
    """The condition that an input of a model holds ids of a tokenizer.

    Args:
        text: A file, after the input and a `=` where the model has several inputs of integers.
        network: The model.

    Raises:
        OnnxGatherError: The model has no such input, or the file is no tokenizer.
    """
    integers = [
        name
        for name in network.main.inputs
        if network.main.type_of(name).data_type in INTEGERS
    ]
    named = [name for name in integers if text.startswith(f"{name}=")]
    if not named and len(integers) != 1:
        names = ", ".join(map(shown, integers)) or "none"
        rule = (
            f"{network.path}: a tokenizer must come as INPUT=FILE with an input of"
            " integers"
        )
        raise OnnxGatherError(f"{rule} ({names}), got {shown(text)}")
    name = max(named, key=len, default=integers[0])
    low, high = token_range(text.removeprefix(f"{name}=") if named else text)
    return Condition(of="values", input=name, low=low, high=high)
