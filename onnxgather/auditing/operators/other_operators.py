"""The operators that the audit does not judge: their integers may be indices.

The operators of ONNX itself are known: those with indices are in
`index_operators.json`, and the integers of the others are none. Of com.microsoft, the
facts are in `other_operators.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

import msgspec

from onnxgather.auditing.algebra.bounds import INTEGERS
from onnxgather.auditing.operators.index_operators import INDEX_OPERATORS
from onnxgather.core.model.network import Operation, Scope

_KNOWN_DOMAINS = (
    *("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"),
    *("ai.onnx.training", "com.microsoft.nchwc", "com.ms.internal.nhwc"),
)
"""The domains of which each operator is known; the last two are ONNX Runtime's own."""


class _OtherOperators(msgspec.Struct, frozen=True):
    """The operators of com.microsoft without indices."""

    without_integers: tuple[str, ...]
    """Those that accept no integers."""
    of_any_integer: tuple[str, ...]
    """Those of which no integer is an index, such as a quantized number."""
    besides: Mapping[str, Sequence[int]]
    """Those of which a few inputs may hold indices, with the positions of these."""


OTHER_OPERATORS = msgspec.json.decode(
    files("onnxgather.auditing.operators")
    .joinpath("other_operators.json")
    .read_bytes(),
    type=_OtherOperators,
)

_HARMLESS = {*OTHER_OPERATORS.without_integers, *OTHER_OPERATORS.of_any_integer}


def is_judged(scope: Scope, operation: Operation) -> bool:
    """Return whether it is known which integers of an operation are indices.

    An input of a data type that is not known may hold integers.
    """
    domain = operation.domain
    is_known = (
        domain in _KNOWN_DOMAINS or (domain, operation.operator) in INDEX_OPERATORS
    )
    # The nodes of a body and of a function of the model are judged themselves.
    if is_known or "function" in operation.bodies:
        return True
    names = operation.inputs
    if domain == "com.microsoft":
        if operation.operator in _HARMLESS:
            return True
        positions = OTHER_OPERATORS.besides.get(operation.operator)
        if positions is not None:
            names = tuple(names[number] for number in positions if number < len(names))
    return not any(_may_hold_integers(scope, name) for name in names if name)


def _may_hold_integers(scope: Scope, name: str) -> bool:
    data_type = scope.type_of(name).data_type
    return not data_type or data_type in INTEGERS
