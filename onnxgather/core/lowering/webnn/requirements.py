"""What the WebNN specification requires of every implementation, method by method.

A program that stays within the table runs wherever WebNN does, and need not ask for
`opSupportLimits()`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnxgather.core.lowering.webnn.steps import MLOperand, Step

WEBNN_SPECIFICATION = "webmachinelearning/webnn, index.bs of 2026-06-26"
"""The source of the table: the tables "Tensor limits" of the specification, at commit
c515210dafb9707fc201fe1035a062001995972e."""

REQUIRED_RANK = 5
"""The highest rank that every method must accept."""

_MOVED = frozenset({"float32", "float16", "int32", "int8", "uint8"})
_COMPUTED = frozenset({"float32", "float16", "int32"})
_INDICES = frozenset({"int32"})
_MASK = frozenset({"uint8"})

_BINARY = (_COMPUTED, _COMPUTED)

REQUIRED_TYPES = {
    "gather": (_MOVED, _INDICES),
    "reshape": (_MOVED,),
    "slice": (_MOVED,),
    "cast": (_MOVED,),
    "concat": (_COMPUTED,),
    "where": (_MASK, _COMPUTED, _COMPUTED),
    "min": _BINARY,
    "max": _BINARY,
    "add": _BINARY,
    "mul": _BINARY,
    "lesser": _BINARY,
    "greater": _BINARY,
    "equal": _BINARY,
    "notEqual": _BINARY,
    "logicalOr": (_MASK, _MASK),
    "reduceSum": (_COMPUTED,),
    "reduceMax": (_COMPUTED,),
}
"""The only table of methods that programs call: for each operand of a method the data
types that every implementation must accept. The operands of `concat` are all alike."""


def beyond_required(steps: Iterable[Step]) -> Iterator[str]:
    """Yield what a program asks for that the specification does not require.

    Each is a sentence that names the step, and the data type or the rank.
    """
    for step in steps:
        types = REQUIRED_TYPES[step.method]
        if step.method == "concat":
            types = types * len(step.operands)
        for operand, accepted in zip(step.operands, types, strict=True):
            yield from _beyond_of(step, operand, accepted)
        if step.method == "cast":
            yield from _beyond_of(step, step.result, _MOVED)


def _beyond_of(
    step: Step, operand: MLOperand, accepted: frozenset[str]
) -> Iterator[str]:
    rule = f"{step.result.name}: {step.method} must take"
    if operand.data_type not in accepted:
        types = ", ".join(sorted(accepted))
        yield f"{rule} {types}, got {operand.data_type}"
    if len(operand.shape) > REQUIRED_RANK:
        yield f"{rule} ranks up to {REQUIRED_RANK}, got {len(operand.shape)}"
