"""The operators that the audit does not judge: their integers may be indices.

The operators of ONNX itself are known: those with indices are in
`index_operators.json`, and the integers of the others are none. Of com.microsoft, the
facts are in `other_operators.json`. `tests/auditing/operators/test_other_operators.py`
holds both against the operators of the installed ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from itertools import chain

import msgspec

from onnxgather.auditing.algebra.bounds import INTEGERS
from onnxgather.auditing.operators.index_operators import INDEX_OPERATORS
from onnxgather.core.model.network import Operation, Scope

_KNOWN_DOMAINS = (
    "",
    "ai.onnx.ml",
    "ai.onnx.preview",
    "ai.onnx.preview.training",
    "ai.onnx.training",
    "com.microsoft.nchwc",
    "com.ms.internal.nhwc",
)
"""The domains of which each operator is known; the last two are ONNX Runtime's own."""


class _OtherOperators(msgspec.Struct, frozen=True):
    """The operators of com.microsoft with integers that are no indices of the table."""

    without_indices: Mapping[str, Sequence[str]]
    """Those of which no integer is an index, by what their integers are."""
    lengths_or_mask: Mapping[str, int]
    """Those with an input that is a mask unless it has one axis, and its position."""
    not_judged: Mapping[str, Sequence[int]]
    """Those with inputs that may hold indices and are not judged, and their
    positions."""


OTHER_OPERATORS = msgspec.json.decode(
    files("onnxgather.auditing.operators")
    .joinpath("other_operators.json")
    .read_bytes(),
    type=_OtherOperators,
)

_LISTED = {
    *chain(*OTHER_OPERATORS.without_indices.values()),
    *OTHER_OPERATORS.not_judged,
    *(operator for domain, operator in INDEX_OPERATORS if domain == "com.microsoft"),
}


def is_judged(scope: Scope, operation: Operation) -> bool:
    """Return whether it is known which integers of an operation are indices.

    An input of a data type that is not known may hold integers.
    """
    # The nodes of a body and of a function of the model are judged themselves.
    if operation.domain in _KNOWN_DOMAINS or "function" in operation.bodies:
        return True
    positions: Collection[int] = range(len(operation.inputs))
    mask: int | None = None
    if operation.domain == "com.microsoft" and operation.operator in _LISTED:
        positions = OTHER_OPERATORS.not_judged.get(operation.operator, ())
        mask = OTHER_OPERATORS.lengths_or_mask.get(operation.operator)
    for position, name in enumerate(operation.inputs):
        if not name or position not in positions:
            continue
        data_type, sizes = scope.type_of(name)
        is_mask = position == mask and sizes is not None and len(sizes) != 1
        may_hold_integers = not data_type or data_type in INTEGERS
        if may_hold_integers and not is_mask:
            return False
    return True
