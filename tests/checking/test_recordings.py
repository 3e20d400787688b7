"""DirectML.dll's recorded results: the reference and the models give its bytes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import onnxruntime
import pytest
from recordings import (
    CROPPED,
    E_INVALIDARG,
    IN_RANGE,
    INDEPENDENT,
    KINDS,
    NOT_ASKED,
    OURS,
    OUT_OF_RANGE,
    POLICIES,
    RULES,
    TARGETS,
    VERSIONS,
    Recording,
    recorded,
)

import onnxgather as og
from onnxgather.core.descriptors.arrays import elements
from onnxgather.core.execution.session import Session
from onnxgather.core.options import OutOfRange

WHERE_OF_UINT32 = not onnxruntime.__version__.startswith("1.24.")
"""Whether the CPU provider has this operator of the target webgpu."""


def assert_gives(case: dict[str, Any], policy: OutOfRange) -> None:
    """Assert that the models of the targets return the recorded elements, zeros between
    them."""
    desc, data, indices, output = recorded(case)
    expected = og.reference(desc, data, indices, policy)
    assert elements(desc.output_tensor, expected).tobytes() == output
    # The target webgpu has the arithmetic of the portable one in other operators: some
    # are enough.
    some = WHERE_OF_UINT32 and case["number"] % 8 == 0
    targets = TARGETS if some else TARGETS[:2]
    models = [og.to_onnx(desc, policy, target, threads=1) for target in targets]
    # The targets differ in the metadata; most graphs are the same, and run once.
    for model in {model.graph.SerializeToString(): model for model in models}.values():
        session = Session(model, threads=1)
        found = session.run({"InputTensor": data, "IndicesTensor": indices})
        assert found.tobytes() == expected.tobytes()


def _sizes(desc: dict[str, Any]) -> list[list[int]]:
    return [
        desc[name]["Sizes"] for name in ("InputTensor", "IndicesTensor", "OutputTensor")
    ]


def _output_looks_distinct(desc: dict[str, Any]) -> bool:
    pairs = zip(
        desc["OutputTensor"]["Sizes"], desc["OutputTensor"]["Strides"], strict=True
    )
    longer = [(size, stride) for size, stride in pairs if size > 1]
    strides = [stride for _, stride in longer]
    span = 1 + sum((size - 1) * stride for size, stride in longer)
    distinct = 0 not in strides and len(set(strides)) == len(strides)
    return distinct and math.prod(size for size, _ in longer) <= span


def _last_sizes_fit(desc: dict[str, Any]) -> bool:
    data, indices, output = _sizes(desc)
    axis, first = desc["Axis"], len(indices) - desc["IndexDimensions"]
    sizes = [1, *data[:axis], *indices[first:], *data[axis + 1 :]]
    free = 0 if desc["IndexDimensions"] else 1
    return output[free:] == sizes[-len(output) :][free:]


def _batches_of_the_indices(desc: dict[str, Any]) -> bool:
    data, indices, output = _sizes(desc)
    rank, index_rank, batches = list(desc.values())[3:]
    first = len(data) - rank + batches + indices[-1]
    sizes = indices[len(indices) - index_rank : -1] + data[first:]
    return output == [1] * (len(output) - len(sizes)) + sizes


# What decides whether DirectML accepts a descriptor that breaks the rule alone.
ASKED_INSTEAD: dict[str, Callable[[dict[str, Any]], bool]] = {
    "OUTPUT_OVERLAP": _output_looks_distinct,
    "GATHER_OUTPUT_RANK": _last_sizes_fit,
    "GATHER_OUTPUT_SIZES": _last_sizes_fit,
    "ND_BATCH_SIZES": _batches_of_the_indices,
}


VALID = IN_RANGE + OUT_OF_RANGE + CROPPED

FILES = OURS | {f"independent/{kind}": cases for kind, cases in INDEPENDENT.items()}
"""The cases of each file of recordings."""

MOST_CASES = 94
"""How many cases of a file one test takes, so that the tests can run at the same
time."""


def of_files(*kinds: str) -> pytest.MarkDecorator:
    """Give a test the cases of all files of some kinds, a part of a file at a time.

    The first part of a file of ours is quick, of the first kind alone.
    """
    parts = [
        pytest.param(
            cases[first : first + MOST_CASES],
            id=f"{file}:{first}",
            marks=() if file == kinds[0] and first == 0 else pytest.mark.slow,
        )
        for file, cases in FILES.items()
        for first in range(0, len(cases), MOST_CASES)
        if file.rpartition("/")[2] in kinds
    ]
    return pytest.mark.parametrize("cases", parts)


def test_the_recordings_are_complete() -> None:
    assert {kind: len(cases) for kind, cases in OURS.items()} == {
        k: VERSIONS[k] for k in OURS
    }
    assert [len(INDEPENDENT[kind]) for kind in KINDS] == [360, 447, 540]
    assert {case["rule"] for case in OURS["invalid"]} == RULES.keys()


def test_the_recordings_name_the_dll_that_answered() -> None:
    assert VERSIONS["version"] == "1.15.4.0"
    assert VERSIONS["feature_level"] == "6_4"


def test_every_valid_descriptor_ran() -> None:
    assert not [case["id"] for case in VALID if case["output_hex"] is None]


def test_cropped_cases_crop_ones_of_the_indices() -> None:
    descs = [recorded(case).desc for case in CROPPED]
    gathers = [desc for desc in descs if isinstance(desc, og.GatherDesc)]
    assert len(gathers) == len(descs)
    assert all(desc.index_dimensions > desc.axis + 1 for desc in gathers)
    counts = {desc.input_tensor.dimension_count for desc in gathers}
    assert (min(counts), max(counts)) == (2, 5)


def test_bytes_between_and_after_the_elements_of_outputs_were_kept() -> None:
    kept = Counter(
        case.get("rest_kept") for case in OURS["in_range"] + OURS["out_of_range"]
    )
    assert kept.keys() == {True, None}
    assert kept[True] > 500


def test_cases_out_of_range_have_partial_longer_and_owned_buffers() -> None:
    descs = [recorded(case).desc for case in OURS["out_of_range"]]
    tensors = [desc.input_tensor for desc in descs]
    partial = [t for t in tensors if t.total_tensor_size_in_bytes % t.data_type.size]
    longer = [
        t
        for t in tensors
        if t.total_tensor_size_in_bytes > t.default_total_tensor_size_in_bytes
    ]
    assert len([t for t in partial if t.data_type.size == 8]) > 20
    assert len(longer) > 150
    assert len([t for t in tensors if t.flags]) > 30
    assert {desc.operator for desc in descs} == og.OPERATORS.keys()


@of_files("in_range")
class TestInRange:
    def test_the_reference_gives_the_recorded_bytes_under_every_policy(
        self, cases: Recording, subtests: pytest.Subtests
    ) -> None:
        for case in cases:
            with subtests.test(case["id"]):
                desc, data, indices, output = recorded(case)
                for policy in POLICIES:
                    found = elements(
                        desc.output_tensor, og.reference(desc, data, indices, policy)
                    )
                    assert found.tobytes() == output

    def test_the_models_give_the_recorded_bytes(
        self, cases: Recording, subtests: pytest.Subtests
    ) -> None:
        for case in cases:
            with subtests.test(case["id"]):
                number: int = case["number"]
                assert_gives(case, POLICIES[number % len(POLICIES)])


@of_files("out_of_range", "cropped")
def test_reference_and_models_give_the_recorded_bytes(
    cases: Recording, subtests: pytest.Subtests
) -> None:
    for case in cases:
        with subtests.test(case["id"]):
            assert_gives(case, "directml")


@of_files("invalid")
def test_a_broken_descriptor_is_refused_by_its_own_rule(
    cases: Recording, subtests: pytest.Subtests
) -> None:
    for case in cases:
        with subtests.test(case["id"]):
            with pytest.raises(og.DescriptorError) as caught:
                og.from_dict({"type": case["operator"], "desc": case["desc"]})
            messages = map(re.escape, RULES[case["rule"]]["messages"])
            pattern = "|".join(messages).replace(r"\{\}", r"(.+)")
            assert re.fullmatch(pattern, str(caught.value)), str(caught.value)


def test_what_directml_accepts_breaks_a_rule_with_a_reason() -> None:
    with_reason = {name for name, rule in RULES.items() if "accepted" in rule}
    accepted = {case["rule"] for case in OURS["invalid"] if case["directml_accepts"]}
    assert accepted == with_reason
    others = {
        case["rule"] for case in INDEPENDENT["invalid"] if case["directml_accepts"]
    }
    assert others <= with_reason


def test_what_directml_refuses_it_refuses_as_invalid() -> None:
    refused = [case for case in OURS["invalid"] if case["directml_accepts"] is False]
    assert {case["reason"] for case in refused} == {E_INVALIDARG}
    assert len(refused) > 500


def test_what_has_no_verdict_says_why() -> None:
    unknown = [case for case in OURS["invalid"] if case["directml_accepts"] is None]
    kinds = {(case["rule"], case["reason"].split(": ")[0]) for case in unknown}
    assert kinds == {
        ("STRIDES_COUNT", "not asked"),
        ("INDICES_LEADING_ONES", "crashed"),
    }
    others = [
        case for case in INDEPENDENT["invalid"] if case["directml_accepts"] is None
    ]
    assert {case["rule"] for case in others} == NOT_ASKED


def test_directml_accepts_by_the_weaker_rule_that_it_asks_instead() -> None:
    found: set[tuple[str, bool]] = set()
    for case in OURS["invalid"]:
        if case["rule"] in ASKED_INSTEAD:
            asks = ASKED_INSTEAD[case["rule"]](case["desc"])
            assert case["directml_accepts"] == asks, case["id"]
            found.add((case["rule"], asks))
    assert len(found) > len(ASKED_INSTEAD)
