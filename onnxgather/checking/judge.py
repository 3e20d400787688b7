"""Answers of lanes compared with the reference: each gives a kind, its facts and a sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from onnxgather.checking.cases import Case, DescriptorCase, NodeCase
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.checking.results import ArrayType, Element, Result, ResultKind, Returned
from onnxgather.core.descriptors.arrays import Array, differing, elements
from onnxgather.core.descriptors.explain import element_at, explain
from onnxgather.core.descriptors.reference import reference, source_map
from onnxgather.core.options import POLICIES, OutOfRange
from onnxgather.core.output.result_states import State

_Facts = tuple[ResultKind, dict[str, Any]]
"""A kind, and the fields of `Result` that go with it."""

KINDS: dict[ResultKind, tuple[State, str]] = {
    ResultKind.SAME: ("PASS", ""),
    ResultKind.REFUSED: ("PASS", "both refuse: {r.rule}"),
    ResultKind.ELEMENTS: (
        "DIFF",
        "{r.differing} of {r.compared} elements differ, {r.first}",
    ),
    ResultKind.DATA_TYPE: (
        "DIFF",
        "expected data type {r.expected.data_type}, got {r.got.data_type}",
    ),
    ResultKind.SHAPE: ("DIFF", "expected shape {r.expected.sizes}, got {r.got.sizes}"),
    ResultKind.NOT_REFUSED: ("DIFF", "must refuse, but returned {returned}: {r.rule}"),
    ResultKind.FAILED: ("ERROR", "{provider} failed: {r.message}"),
    ResultKind.NOT_TAKEN: ("ERROR", "{provider} cannot run the model: {r.message}"),
    ResultKind.BROKEN: ("ERROR", ""),
    ResultKind.NOT_RUN: ("NOT-RUN", ""),
    ResultKind.NOT_STARTED: ("NOT-RUN", ""),
    ResultKind.UNPROVED: ("NOT-RUN", ""),
}
"""The state of each kind, before known differences are looked up, and the sentence for
a result `r` of that kind; empty where the answer brings its own sentence."""

_POLICY_OF: dict[Returned, OutOfRange] = {
    Returned.ZEROS: "zero",
    Returned.CLAMPED: "clamp",
    Returned.DIRECTML: "directml",
}
"""The policies under which the reference returns the same."""

_RETURNED_AS = {
    **{returned: POLICIES[policy].returns for returned, policy in _POLICY_OF.items()},
    Returned.OTHER: "other elements of InputTensor",
    Returned.FOREIGN: "values that InputTensor has not",
    Returned.UNKNOWN: "an array of {r.got.data_type} {r.got.sizes}",
}
"""The words for what the output of a result `r` holds in place of a refusal."""


def judge(case: Case, info: LaneInfo, answer: Answer) -> Result:
    """The result of an answer, before known differences are looked up.

    Args:
        case: The case.
        info: The lane that answered.
        answer: The answer of the lane.
    """
    kind, facts = _facts(case, answer)
    told = {"nodes": answer.nodes, "given_as": answer.given_as}
    return result_of(info, kind, **told, **facts)


def result_of(info: LaneInfo, kind: ResultKind, **facts: Any) -> Result:
    """A result with the state and the sentence of its kind.

    Args:
        info: The lane.
        kind: The kind.
        facts: Fields of `Result`; if there is a `reason` among them, it is the sentence.
    """
    state, sentence = KINDS[kind]
    result = Result(info.name, state, kind, **facts)
    if result.reason is not None or not sentence:
        return result
    returned = _RETURNED_AS[result.returned].format(r=result) if result.returned else ""
    reason = sentence.format(r=result, provider=info.provider, returned=returned)
    if result.with_zeros:
        reason = f"with indices of zero: {reason}"
    return msgspec.structs.replace(result, reason=reason)


def _facts(case: Case, answer: Answer) -> _Facts:
    said = {"message": answer.reason}
    told = {"reason": answer.reason, "detail": answer.detail}
    if answer.kind is AnswerKind.NOT_RUN:
        return ResultKind.NOT_RUN, {
            "not_run": answer.how,
            "elsewhere": answer.elsewhere,
            **told,
        }
    if answer.kind is AnswerKind.BROKEN:
        return ResultKind.BROKEN, {"breakdown": answer.how, **told}
    if isinstance(case, NodeCase):
        if answer.output is None:
            return ResultKind.REFUSED, said | {"reason": f"refused: {answer.reason}"}
        return _facts_of_returned(Returned.UNKNOWN, answer.output, case.node.rule)
    if answer.kind is AnswerKind.REFUSED:
        return ResultKind.NOT_TAKEN, said
    expected = case.expected()
    if isinstance(expected, str):
        return _facts_of_refusal(case, expected, answer)
    if answer.output is None:
        return ResultKind.FAILED, said
    return _facts_of_output(case, expected, answer.output)


def _facts_of_output(case: DescriptorCase, expected: Array, got: Array) -> _Facts:
    """How an output differs from the reference's, and where first."""
    types = {"expected": ArrayType.of(expected), "got": ArrayType.of(got)}
    if got.dtype != expected.dtype:
        return ResultKind.DATA_TYPE, types
    if got.shape != expected.shape:
        return ResultKind.SHAPE, types
    offsets = differing(expected, got)
    if not offsets.size:
        return ResultKind.SAME, {}
    index = tuple(map(int, np.unravel_index(int(offsets[0]), expected.shape)))
    wanted, found = expected[index], got[index]
    first = Element(
        index,
        str(wanted),
        _bytes(wanted),
        str(found),
        _bytes(found),
        _source(case, index),
    )
    counts = {"differing": int(offsets.size), "compared": int(expected.size)}
    return ResultKind.ELEMENTS, {**counts, "first": first}


def _bytes(value: np.generic) -> str:
    return value.tobytes().hex(" ")


def _facts_of_refusal(case: DescriptorCase, rule: str, answer: Answer) -> _Facts:
    """The kind and facts of an answer to a case that must be refused.

    A refusal counts only if the provider runs the case with valid indices: zeros.
    """
    if answer.answers_in_range is None:
        return ResultKind.FAILED, {"message": answer.reason}
    valid = replace(case, indices=np.zeros_like(case.indices), out_of_range="clamp")
    wanted = reference(valid.descriptor, valid.data, valid.indices)
    kind, facts = _facts_of_output(valid, wanted, answer.answers_in_range)
    if kind is not ResultKind.SAME:
        return kind, {**facts, "with_zeros": True}
    if answer.output is None:
        return ResultKind.REFUSED, {"message": answer.reason, "rule": rule}
    return _facts_of_returned(_returned(case, answer.output), answer.output, rule)


def _facts_of_returned(returned: Returned, got: Array, rule: str) -> _Facts:
    facts = {"returned": returned, "got": ArrayType.of(got), "rule": rule}
    return ResultKind.NOT_REFUSED, facts


def _returned(case: DescriptorCase, got: Array) -> Returned:
    """What the output holds where the indices are out of range."""
    desc = case.descriptor
    output = desc.output_tensor
    if (got.dtype, got.shape) != (case.data.dtype, output.array_shape):
        return Returned.UNKNOWN
    outside = source_map(desc, case.indices, "zero") < 0
    values = elements(output, got)[outside]
    for returned, policy in _POLICY_OF.items():
        wanted = elements(output, reference(desc, case.data, case.indices, policy))[
            outside
        ]
        if values.tobytes() == wanted.tobytes():
            return returned
    bits = f"u{got.itemsize}"
    inside = np.isin(values.view(bits), np.ascontiguousarray(case.data).view(bits))
    return Returned.OTHER if inside.all() else Returned.FOREIGN


def _source(case: DescriptorCase, index: tuple[int, ...]) -> str | None:
    """The explanation of an element of the output's array; None for padding and gaps."""
    desc = case.descriptor
    offset = int(np.ravel_multi_index(index, desc.output_tensor.array_shape))
    at = element_at(desc.output_tensor, offset)
    if at is None:
        return None
    return str(explain(desc, case.data, case.indices, at, case.out_of_range))
