"""What the answer of a lane means, by the reference: a kind, its facts, and a sentence of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from onnxgather.arrays import Array, elements
from onnxgather.cases import Case, DescriptorCase, NodeCase
from onnxgather.explain import element_at, explain
from onnxgather.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.options import OutOfRange
from onnxgather.parity.results import STATE_OF, ArrayType, Element, Result, ResultKind, Returned
from onnxgather.reference import reference, source_map

_Facts = tuple[ResultKind, dict[str, Any]]
"""A kind, and the fields of `Result` that go with it."""


def judge(case: Case, info: LaneInfo, answer: Answer) -> Result:
    """What an answer means, known differences aside.

    Args:
        case: The case.
        info: The lane that answered.
        answer: Its answer.
    """
    kind, facts = _facts(case, answer)
    return with_reason(Result(info.name, STATE_OF[kind], kind, nodes=answer.nodes, **facts), info)


def _facts(case: Case, answer: Answer) -> _Facts:
    match answer.kind:
        case AnswerKind.NOT_RUN:
            facts = {"not_run": answer.how, "elsewhere": answer.elsewhere}
            return ResultKind.NOT_RUN, facts | {"reason": answer.reason, "detail": answer.detail}
        case AnswerKind.BROKEN:
            facts = {"breakdown": answer.how, "detail": answer.detail}
            return ResultKind.BROKEN, facts | {"reason": answer.reason}
        case AnswerKind.REFUSED if isinstance(case, DescriptorCase):
            return ResultKind.NOT_TAKEN, {"message": answer.reason}
        case _:
            pass
    if isinstance(case, NodeCase):
        if answer.output is None:
            return ResultKind.REFUSED, {"message": answer.reason}
        facts = {"returned": Returned.UNKNOWN, "got": ArrayType.of(answer.output)}
        return ResultKind.NOT_REFUSED, facts | {"rule": case.node.rule}
    expected = case.expected()
    if isinstance(expected, str):
        return _facts_of_refusal(case, expected, answer)
    if answer.output is None:
        return ResultKind.FAILED, {"message": answer.reason}
    return _facts_of_output(case, expected, answer.output)


def _facts_of_output(case: DescriptorCase, expected: Array, got: Array) -> _Facts:
    """How an output differs from the reference's, and where first."""
    types = {"expected": ArrayType.of(expected), "got": ArrayType.of(got)}
    if got.dtype != expected.dtype:
        return ResultKind.DATA_TYPE, types
    if got.shape != expected.shape:
        return ResultKind.SHAPE, types
    bits = f"u{expected.itemsize}"
    differs = np.ascontiguousarray(expected).view(bits) != np.ascontiguousarray(got).view(bits)
    offsets = np.flatnonzero(differs)
    if not offsets.size:
        return ResultKind.SAME, {}
    index = tuple(map(int, np.unravel_index(int(offsets[0]), expected.shape)))
    wanted, found = expected[index], got[index]
    first = Element(
        index,
        str(wanted),
        wanted.tobytes().hex(" "),
        str(found),
        found.tobytes().hex(" "),
        _source(case, index),
    )
    counts = {"differing": int(offsets.size), "compared": int(expected.size)}
    return ResultKind.ELEMENTS, {**counts, "first": first}


def _facts_of_refusal(case: DescriptorCase, rule: str, answer: Answer) -> _Facts:
    """What becomes of a case that must be refused.

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
    facts = {"returned": _returned(case, answer.output), "got": ArrayType.of(answer.output)}
    return ResultKind.NOT_REFUSED, facts | {"rule": rule}


def _returned(case: DescriptorCase, got: Array) -> Returned:
    """What stands where the indices are out of range, as far as it can be told."""
    desc = case.descriptor
    output = desc.output_tensor
    if got.shape != output.array_shape:
        return Returned.UNKNOWN
    outside = source_map(desc, case.indices, "zero") < 0
    values = elements(output, got)[outside]
    for policy, returned in _RETURNED.items():
        wanted = elements(output, reference(desc, case.data, case.indices, policy))[outside]
        if values.tobytes() == wanted.tobytes():
            return returned
    bits = f"u{got.itemsize}"
    inside = np.isin(values.view(bits), np.ascontiguousarray(case.data).view(bits))
    return Returned.OTHER if inside.all() else Returned.FOREIGN


_RETURNED: dict[OutOfRange, Returned] = {
    "zero": Returned.ZEROS,
    "clamp": Returned.CLAMPED,
    "directml": Returned.DIRECTML,
}


def _source(case: DescriptorCase, index: tuple[int, ...]) -> str | None:
    """Where an element of the output's array comes from; None between its elements."""
    desc = case.descriptor
    offset = int(np.ravel_multi_index(index, desc.output_tensor.array_shape))
    at = element_at(desc.output_tensor, offset)
    if at is None:
        return None
    return str(explain(desc, case.data, case.indices, at, case.out_of_range))


def with_reason(result: Result, info: LaneInfo) -> Result:
    """The result with its sentence for people.

    Of what did not run or broke down, the sentence is the lane's own and is there already.
    """
    reason = _sentence(result, info.provider)
    if result.with_zeros:
        reason = f"with indices of zero: {reason}"
    if result.unsteady:
        reason = f"{reason}; a second run returned something else"
    return msgspec.structs.replace(result, reason=reason)


def _sentence(result: Result, provider: str) -> str | None:
    template = _SENTENCES.get(result.kind)
    if template is None:
        return result.reason
    if result.kind is ResultKind.REFUSED and result.rule is None:
        template = "refused: {r.message}"
    returned = _RETURNED_AS[result.returned].format(r=result) if result.returned else ""
    return template.format(r=result, provider=provider, returned=returned)


_SENTENCES = {
    ResultKind.REFUSED: "both refuse: {r.rule}",
    ResultKind.ELEMENTS: "{r.differing} of {r.compared} elements differ, {r.first}",
    ResultKind.DATA_TYPE: "expected data type {r.expected.data_type}, got {r.got.data_type}",
    ResultKind.SHAPE: "expected shape {r.expected.sizes}, got {r.got.sizes}",
    ResultKind.NOT_REFUSED: "must refuse, but returned {returned}: {r.rule}",
    ResultKind.FAILED: "{provider} failed: {r.message}",
    ResultKind.NOT_TAKEN: "{provider} cannot run the model: {r.message}",
}
"""What to say of a result `r`."""

_RETURNED_AS = {
    Returned.ZEROS: "zeros",
    Returned.CLAMPED: "the elements at the clamped indices",
    Returned.DIRECTML: "what DirectML returns",
    Returned.OTHER: "other elements of InputTensor",
    Returned.FOREIGN: "values that InputTensor has not",
    Returned.UNKNOWN: "an array of {r.got.data_type} {r.got.sizes}",
}
"""What to say that a result `r` returned in place of a refusal."""
