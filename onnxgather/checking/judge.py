"""Answers of lanes compared with the reference.

A comparison gives the kind of the result, its facts and a sentence.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from msgspec.structs import replace

from onnxgather.checking.cases import Case, DescriptorCase, NodeCase
from onnxgather.checking.foreign_memory import FOREIGN_SENTENCES, foreign_memory
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.checking.results import (
    ArrayType,
    Element,
    ForeignMemory,
    Result,
    ResultKind,
    Returned,
)
from onnxgather.core.descriptors.arrays import Array, differing, elements
from onnxgather.core.descriptors.explain import element_at, explain
from onnxgather.core.descriptors.reference import reference, source_map
from onnxgather.core.options import POLICIES, OutOfRange
from onnxgather.core.output.result_states import State, worst

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
    ResultKind.UNPROVED: ("NOT-RUN", "refused, which proves nothing: {r.message}"),
}
"""The state of each kind, before known differences are looked up, and its sentence.

`r` in a sentence is the result. The sentence is empty if the answer brings its own.
"""

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
    """Return the result of an answer, before known differences are looked up.

    A refusal passes. It counts only `with_beside` the result of a valid case.

    Args:
        case: The case.
        info: The lane that answered.
        answer: The answer of the lane. Of two runs, a wrong one counts.
    """
    # Case: DirectML itself, which knows no policy, and has an index out of range.
    if isinstance(case, DescriptorCase) and answer.by_directml:
        case = dataclasses.replace(case, out_of_range="directml")
    answer = with_wrong_first(case, answer)
    kind, facts = _facts(case, answer)
    result = result_of(
        info,
        kind,
        nodes=answer.nodes,
        gathers=answer.gathers,
        given_as=answer.given_as,
        of_descriptor=answer.of_descriptor,
        by_directml=answer.by_directml,
        **facts,
    )
    if result.state != "DIFF" or answer.output is None or answer.again is None:
        return result
    how = foreign_memory(case, answer.output, answer.again)
    if how is None:
        return result
    return replace(
        result,
        reason=f"{result.reason}; {FOREIGN_SENTENCES[how]}",
        foreign_memory=how,
        unsteady=how is not ForeignMemory.VALUES,
    )


def with_wrong_first(case: Case, answer: Answer) -> Answer:
    """Return an answer of two runs; its output is wrong if that of a run is wrong."""
    if answer.output is None or answer.again is None:
        return answer
    # Case: both runs returned the same.
    if answer.again is answer.output:
        return answer
    kind, _ = _facts(case, answer)
    if kind is not ResultKind.SAME:
        return answer
    return replace(answer, output=answer.again, again=answer.output)


def result_of(info: LaneInfo, kind: ResultKind, **facts: Any) -> Result:
    """Return a result with the state and the sentence of its kind.

    Args:
        info: The lane.
        kind: The kind.
        facts: Fields of `Result`; a `reason` among them is the sentence.
    """
    state, sentence = KINDS[kind]
    result = Result(info.name, state, kind, **facts)
    if result.reason is not None or not sentence:
        return result
    returned = ""
    if result.returned:
        returned = _RETURNED_AS[result.returned].format(r=result)
    reason = sentence.format(r=result, provider=info.provider, returned=returned)
    return replace(result, reason=reason)


def with_beside(result: Result, beside: Result) -> Result:
    """Return the result of a case that must be refused, with that of the valid case.

    Args:
        result: The result of the case alone.
        beside: The result of the valid case beside it.
    """
    is_right = beside.state in ("PASS", "FIXED")
    # Case: the lane may refuse every case, or be wrong about every case.
    if result.kind is ResultKind.REFUSED and not is_right:
        kind = ResultKind.UNPROVED
        alone, sentence = KINDS[kind]
        reason = sentence.format(r=result)
        result = replace(result, state=alone, kind=kind, reason=reason, known=None)
    state = worst((result.state, beside.state))
    # Case: the refusal says nothing, so that the valid case alone does.
    if result.kind is ResultKind.UNPROVED:
        state = beside.state
    alone = None if state == result.state else result.state
    return replace(result, state=state, beside=beside, alone=alone)


def _facts(case: Case, answer: Answer) -> _Facts:
    """Return the kind and the facts of an answer."""
    # Case 1: the lane ran nothing.
    if answer.kind is AnswerKind.NOT_RUN:
        return ResultKind.NOT_RUN, {
            "reason": answer.reason,
            "not_run": answer.how,
            "detail": answer.detail,
            "elsewhere": answer.elsewhere,
        }
    if answer.kind is AnswerKind.BROKEN:
        return ResultKind.BROKEN, {
            "reason": answer.reason,
            "breakdown": answer.how,
            "detail": answer.detail,
        }

    # Case 2: a forbidden node. The provider may refuse it before or while it runs.
    message = {"message": answer.reason}
    if isinstance(case, NodeCase):
        if answer.output is None:
            sentence = f"refused: {answer.reason}"
            return ResultKind.REFUSED, {**message, "reason": sentence}
        return _facts_of_returned(Returned.UNKNOWN, answer.output, case.node.rule)

    # Case 3: a descriptor with an index out of range.
    output = answer.output
    expected = case.expected()
    if isinstance(expected, str):
        if output is None:
            return ResultKind.REFUSED, {**message, "rule": expected}
        return _facts_of_returned(_returned(case, output), output, expected)

    # Case 4: any other descriptor.
    if answer.kind is AnswerKind.REFUSED:
        return ResultKind.NOT_TAKEN, message
    if output is None:
        return ResultKind.FAILED, message
    return _facts_of_output(case, expected, output)


def _facts_of_output(case: DescriptorCase, expected: Array, got: Array) -> _Facts:
    """Return how an output differs from the reference's, and where first."""
    types = {"expected": ArrayType.of(expected), "got": ArrayType.of(got)}
    if got.dtype != expected.dtype:
        return ResultKind.DATA_TYPE, types
    if got.shape != expected.shape:
        return ResultKind.SHAPE, types
    offsets = differing(expected, got)
    if not offsets.size:
        return ResultKind.SAME, {}
    coordinates = np.unravel_index(int(offsets[0]), expected.shape)
    index = tuple(map(int, coordinates))
    texts = list[str]()
    for element in (expected[index], got[index]):
        texts += [str(element), element.tobytes().hex(" ")]
    return ResultKind.ELEMENTS, {
        "differing": int(offsets.size),
        "compared": int(expected.size),
        "first": Element(index, *texts, source=_source(case, index)),
    }


def _facts_of_returned(returned: Returned, got: Array, rule: str) -> _Facts:
    """Return the kind and facts of an output in place of a refusal."""
    facts = {"returned": returned, "got": ArrayType.of(got), "rule": rule}
    return ResultKind.NOT_REFUSED, facts


def _returned(case: DescriptorCase, got: Array) -> Returned:
    """Return what the output holds where the indices are out of range."""
    desc = case.descriptor
    output = desc.output_tensor
    if (got.dtype, got.shape) != (case.data.dtype, output.array_shape):
        return Returned.UNKNOWN
    is_outside = source_map(desc, case.indices, "zero") < 0
    values = elements(output, got)[is_outside]

    # Case 1: what the reference returns under some policy.
    for returned, policy in _POLICY_OF.items():
        array = reference(desc, case.data, case.indices, policy)
        values_of_policy = elements(output, array)[is_outside]
        if values.tobytes() == values_of_policy.tobytes():
            return returned

    # Case 2: anything else. The bits are compared, as a NaN is not equal to itself.
    bits = f"u{got.itemsize}"
    data = np.ascontiguousarray(case.data)
    is_of_data = np.isin(values.view(bits), data.view(bits))
    return Returned.OTHER if is_of_data.all() else Returned.FOREIGN


def _source(case: DescriptorCase, index: tuple[int, ...]) -> str | None:
    """Return the explanation of an element of the output's array.

    It is None for padding and gaps, which belong to no element of the tensor.
    """
    desc = case.descriptor
    output = desc.output_tensor
    offset = int(np.ravel_multi_index(index, output.array_shape))
    coordinates = element_at(output, offset)
    if coordinates is None:
        return None
    arrays = (case.data, case.indices)
    return str(explain(desc, *arrays, coordinates, case.out_of_range))
