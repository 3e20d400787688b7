"""Cases on lanes, judged against the reference."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from msgspec.structs import replace

from onnxgather.arrays import Array, elements
from onnxgather.cases import Case, DescriptorCase, NodeCase, allowed_beside
from onnxgather.dxdispatch.descriptor import to_dict
from onnxgather.explain import element_at, explain, source_map
from onnxgather.lanes.lane import Answer, AnswerKind, Lane, LaneInfo
from onnxgather.options import OutOfRange
from onnxgather.parity.known import Known, known_differences
from onnxgather.parity.results import Blob, CaseResult, Element, Evidence, Result
from onnxgather.reference import reference

LARGEST_EVIDENCE = 2**20
"""Bytes of arrays that a report holds of one case."""

AHEAD = 16
"""Cases that a lane may be ahead of the slowest one; what keeps memory flat."""

_Judged = tuple[Result, Array | None]


def check_cases(
    cases: Iterable[Case],
    lanes: Sequence[Lane],
    infos: Sequence[LaneInfo],
    known: Sequence[Known] | None = None,
) -> Iterator[CaseResult]:
    """Ask every case of every lane, the lanes side by side, and yield the results in order.

    Args:
        cases: The cases.
        lanes: The lanes, started.
        infos: What each said when it started.
        known: The known differences; None means those that come with onnxgather.
    """
    known = known_differences() if known is None else known
    pools = [ThreadPoolExecutor(1) for _ in lanes]
    waiting: deque[tuple[Case, list[Future[_Judged]]]] = deque()
    try:
        for case in cases:
            asked = zip(pools, lanes, infos, strict=True)
            waiting.append((case, [p.submit(ask, case, a, b, known) for p, a, b in asked]))
            if len(waiting) > AHEAD:
                yield _collected(*waiting.popleft())
        while waiting:
            yield _collected(*waiting.popleft())
    except (Exception, KeyboardInterrupt):
        for lane in lanes:  # nobody waits for one that hangs
            lane.close()
        raise
    finally:
        for pool in pools:
            pool.shutdown(cancel_futures=True)


def ask(case: Case, lane: Lane, info: LaneInfo, known: Sequence[Known]) -> _Judged:
    """Return what a lane makes of a case, and the array it returned where that is wrong."""
    if info.not_run is not None:  # nothing is known of who is not there
        return Result(info.name, "NOT-RUN", info.not_run), None
    answer = lane.answer(case)
    result = judge(case, info, answer)
    if isinstance(case, NodeCase) and result.state == "PASS":
        allowed = allowed_beside(case)
        result = _believed(result, judge(allowed, info, lane.answer(allowed)))
    wrong = answer.output if result.state == "DIFF" else None
    if wrong is not None:
        again = lane.answer(case).output
        if again is None or again.tobytes() != wrong.tobytes():
            reason = f"{result.reason}; a second run returned something else"
            result = replace(result, reason=reason)
    return explained(result, case, info, known), wrong


def judge(case: Case, info: LaneInfo, answer: Answer) -> Result:
    """Return the state of an answer, whatever is known.

    Args:
        case: The case.
        info: Who answered.
        answer: Its answer.
    """
    lane, expected = info.name, case.expected()
    if answer.kind is AnswerKind.NOT_RUN:
        return Result(lane, "NOT-RUN", answer.reason)
    if answer.kind is AnswerKind.REFUSED and isinstance(case, NodeCase):
        return Result(lane, "PASS", f"refused: {answer.reason}")
    if answer.kind in (AnswerKind.REFUSED, AnswerKind.BROKEN):
        reason = answer.reason
        if answer.kind is AnswerKind.REFUSED:
            reason = f"{info.provider} cannot run the model: {reason}"
        return Result(lane, "ERROR", reason)
    failed = f"{info.provider} failed: {answer.reason}"
    if isinstance(expected, str):
        return _judge_refusal(case, lane, expected, answer, failed)
    if answer.output is None:
        return Result(lane, "ERROR", failed, answer.nodes)
    return _judge_array(case, lane, expected, answer.output, answer.nodes)


def explained(result: Result, case: Case, info: LaneInfo, known: Sequence[Known]) -> Result:
    """Return a result as KNOWN or FIXED where a known difference speaks of it."""
    for entry in known:
        if not entry.is_about(case, info):
            continue
        if entry.explains(result):
            return replace(result, state="KNOWN", found=result.state, known=str(entry))
        if result.state == "PASS" and not entry.sometimes:
            reason = "passes, although it is a known difference"
            return replace(result, state="FIXED", reason=reason, known=str(entry))
    return result


def _believed(refusal: Result, allowed: Result) -> Result:
    """Return the refusal of a forbidden node; it counts beside an allowed one that ran."""
    if allowed.state == "PASS":
        return refusal
    reason = f"refused, but an allowed node of the kind does not run either: {allowed.reason}"
    return replace(refusal, state="NOT-RUN", reason=reason)


def find_difference(expected: Array, got: Array) -> tuple[str, tuple[int, ...] | None] | None:
    """Return how an array differs from another, and where first; None if it does not.

    Args:
        expected: The right array.
        got: The array in question.
    """
    if got.dtype != expected.dtype:
        return f"expected data type {expected.dtype}, got {got.dtype}", None
    if got.shape != expected.shape:
        return f"expected shape {list(expected.shape)}, got {list(got.shape)}", None
    bits = f"u{expected.itemsize}"
    differs = np.ascontiguousarray(expected).view(bits) != np.ascontiguousarray(got).view(bits)
    places = np.flatnonzero(differs)
    if not places.size:
        return None
    index = tuple(map(int, np.unravel_index(int(places[0]), expected.shape)))
    return f"{places.size} of {expected.size} elements differ", index


def _judge_array(
    case: Case, lane: str, expected: Array, got: Array, nodes: tuple[str, ...]
) -> Result:
    difference = find_difference(expected, got)
    if difference is None:
        return Result(lane, "PASS", None, nodes)
    reason, index = difference
    if index is None:
        return Result(lane, "DIFF", reason, nodes)
    wanted, found = expected[index], got[index]
    first = Element(
        index,
        str(wanted),
        wanted.tobytes().hex(" "),
        str(found),
        found.tobytes().hex(" "),
        _source(case, index),
    )
    reason += (
        f", first OutputTensor[{','.join(map(str, index))}]: expected {first.expected} "
        f"({first.expected_bytes}), got {first.got} ({first.got_bytes})"
    )
    return Result(lane, "DIFF", reason, nodes, first)


def _judge_refusal(case: Case, lane: str, rule: str, answer: Answer, failed: str) -> Result:
    """Judge what must be refused: an error, though indices in range are answered rightly."""
    if isinstance(case, DescriptorCase):
        zeros = np.zeros_like(case.indices)
        if answer.answers_in_range is None:
            return Result(lane, "ERROR", failed, answer.nodes)
        wanted = reference(case.descriptor, case.data, zeros)
        proof = _judge_array(case, lane, wanted, answer.answers_in_range, answer.nodes)
        if proof.state != "PASS":
            return replace(proof, reason=f"with indices of zero: {proof.reason}", first=None)
    if answer.output is None:
        forbidden = isinstance(case, NodeCase)
        reason = f"refused: {answer.reason}" if forbidden else f"both refuse: {rule}"
        return Result(lane, "PASS", reason, answer.nodes)
    found = _kinds(case, answer.output)
    return Result(lane, "DIFF", f"must refuse, but returned {found}: {rule}", answer.nodes)


def _kinds(case: Case, got: Array) -> str:
    """Return what stands where the indices are out of range, as far as it can be told."""
    if isinstance(case, NodeCase) or got.shape != case.descriptor.output_tensor.array_shape:
        return f"an array of {got.dtype} {list(got.shape)}"
    desc = case.descriptor
    outside = source_map(desc, case.indices, "zero") < 0
    output = desc.output_tensor
    values = elements(output, got)[outside]
    for policy, name in _RETURNED.items():
        wanted = elements(output, reference(desc, case.data, case.indices, policy))[outside]
        if values.tobytes() == wanted.tobytes():
            return name
    bits = f"u{got.itemsize}"
    inside = np.isin(values.view(bits), np.ascontiguousarray(case.data).view(bits))
    return "other elements of InputTensor" if inside.all() else "values that InputTensor has not"


_RETURNED: dict[OutOfRange, str] = {
    "zero": "zeros",
    "clamp": "the elements at the clamped indices",
    "directml": "what DirectML returns",
}


def _source(case: Case, index: tuple[int, ...]) -> str | None:
    """Return where an element of the output's array comes from; None between its elements."""
    if isinstance(case, NodeCase):
        return None
    desc = case.descriptor
    offset = int(np.ravel_multi_index(index, desc.output_tensor.array_shape))
    at = element_at(desc.output_tensor, offset)
    if at is None:
        return None
    return str(explain(desc, case.data, case.indices, at, case.out_of_range))


def _collected(case: Case, futures: list[Future[_Judged]]) -> CaseResult:
    judged = [future.result() for future in futures]
    results = tuple(result for result, _ in judged)
    if all(result.state == "PASS" for result in results):
        return CaseResult.of(case, results, None)
    got = {result.lane: array for result, array in judged if array is not None}
    return CaseResult.of(case, results, _evidence(case, got))


def _evidence(case: Case, got: dict[str, Array]) -> Evidence | None:
    arrays = [case.data, case.indices, *got.values()]
    if sum(array.nbytes for array in arrays) > LARGEST_EVIDENCE:
        return None
    expected = case.expected()
    return Evidence(
        Blob.of(case.data),
        Blob.of(case.indices),
        to_dict(case.descriptor) if isinstance(case, DescriptorCase) else None,
        case.node if isinstance(case, NodeCase) else None,
        None if isinstance(expected, str) else Blob.of(expected),
        {lane: Blob.of(array) for lane, array in got.items()},
    )
