"""The lane on onnxgather's own provider: bare nodes under each policy."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from corpus_cases import corpus
from lane_cases import pair, told
from messages import message_of
from onnx_graphs import written
from rings import by_ring
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.checking.cases import (
    Case,
    DescriptorCase,
    FileModel,
    GatherNode,
    NodeCase,
)
from onnxgather.checking.known_differences import known_differences
from onnxgather.checking.lanes import lanes_installed, open_lanes, python
from onnxgather.checking.lanes.lane import AnswerKind, LaneInfo
from onnxgather.checking.lanes.python import (
    ModelLane,
    Question,
    model_lane,
    question_of_gather,
)
from onnxgather.checking.node_models import bare_gather, why_no_bare_gather
from onnxgather.checking.repro.folder import runnable, trial_of_gather
from onnxgather.checking.results import Result
from onnxgather.checking.run import check_cases
from onnxgather.core.execution import kernels
from onnxgather.core.execution.providers import OUT_OF_RANGE
from onnxgather.core.execution.runtime import CPU
from onnxgather.core.model.values import load_model
from onnxgather.core.options import POLICIES

pytestmark = pytest.mark.skipif(
    kernels.operators_library() is None, reason="the native kernels are not built"
)

LANE = "onnxgather"
TAKES_STRIDES = "Tensor has strides, which no node of ONNX has"
REASONS = (
    f"Input{TAKES_STRIDES}",
    f"Indices{TAKES_STRIDES}",
    f"Output{TAKES_STRIDES}",
    "the indices are UINT64, which no node of ONNX takes",
    "InputTensor has memory behind its elements, of which no node of ONNX knows",
)
"""Why a case of a descriptor does not run."""
ON_CPU = "OnnxGatherExecutionProvider must run every node, but "
"""How the reason begins where the provider leaves a node to the CPU."""


def wild(text: str, policy: og.OutOfRange, *indices: int) -> DescriptorCase:
    """Return a case whose data are the numbers from 1 on."""
    desc: og.Descriptor = descriptor(text)
    tensor = desc.input_tensor
    numbers = np.arange(1, math.prod(tensor.array_shape) + 1)
    data = numbers.reshape(tensor.array_shape).astype(tensor.data_type.numpy)
    index_tensor = desc.indices_tensor
    array = np.resize(indices, index_tensor.array_shape)
    array = array.astype(index_tensor.data_type.numpy)
    return DescriptorCase("wild", desc, data, array, policy)


def cases_of_all_policies() -> Iterator[Case]:
    """Yield the cases of the corpus, those of descriptors under each policy."""
    for case in corpus():
        if isinstance(case, NodeCase):
            yield case
            continue
        for policy in POLICIES:
            name = f"{case.name}, {policy}"
            yield replace(case, name=name, out_of_range=policy)


class Started(NamedTuple):
    """The lane, started once for all tests."""

    lane: ModelLane
    info: LaneInfo

    def results(self, *cases: Case) -> list[Result]:
        """Return what becomes of cases on the lane."""
        found = check_cases(cases, [self.lane], [self.info], known_differences())
        return [result for case in found for result in case.results]

    def state_of(self, case: Case) -> str:
        """Return the state of a case, with the reason where it did not run."""
        (result,) = self.results(case)
        if result.state == "NOT-RUN":
            return f"NOT-RUN: {result.reason}"
        return result.state


@pytest.fixture(scope="module")
def started() -> Iterator[Started]:
    with closing(model_lane(LANE)) as lane:
        yield Started(lane, lane.start())


def test_no_case_of_the_corpus_differs_under_any_policy(started: Started) -> None:
    cases = [*cases_of_all_policies()][:: by_ring(67, 1)]
    states = Counter[str]()
    wrong: list[tuple[str, str | None]] = []
    for case, result in zip(cases, started.results(*cases), strict=True):
        states[result.state] += 1
        reason = str(result.reason)
        is_right = result.state in ("PASS", "KNOWN")
        if result.state == "NOT-RUN" and isinstance(case, NodeCase):
            is_right = reason.startswith(ON_CPU)
        elif result.state == "NOT-RUN":
            is_right = reason in REASONS
        if not is_right:
            wrong.append((case.name, result.reason))
    assert wrong == []
    assert states["PASS"] > 0.7 * len(cases)
    assert states["NOT-RUN"]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_that_is_not_the_case_s_is_found(
    started: Started, policy: og.OutOfRange, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each policy gives something else: 5 6, an error, 0 0, 6 6.
    case = wild("GATHER: FLOAT32 3x2, INT64 1x1, FLOAT32 1x2, 0, 1", policy, 4)
    assert started.state_of(case) == "PASS"

    def with_policy(other: og.OutOfRange) -> str:
        def planted(given: Case, opset: int) -> Question:
            question = question_of_gather(given, opset)
            return question._replace(settings={OUT_OF_RANGE: other})

        monkeypatch.setattr(python, "question_of_gather", planted)
        return started.state_of(case)

    for other in POLICIES:
        assert (with_policy(other) == "PASS") == (other == policy), other


@pytest.mark.parametrize(
    ("text", "policy", "reason"),
    [
        ("GATHER: FLOAT32 3x2 strides 1x3, INT64 1x1, FLOAT32 1x2, 0, 1", "clamp",
         REASONS[0]),
        ("GATHER: FLOAT32 3x2, INT64 1x2 strides 0x0, FLOAT32 2x2, 0, 1", "clamp",
         REASONS[1]),
        ("GATHER: FLOAT32 3x2, INT64 1x1, FLOAT32 1x2 strides 8x4, 0, 1", "clamp",
         REASONS[2]),
        ("GATHER: FLOAT32 3x2, UINT64 1x1, FLOAT32 1x2, 0, 1", "clamp", REASONS[3]),
        ("GATHER: FLOAT32 1x2 strides 7x1, INT64 1x1, FLOAT32 1x2, 0, 1", "directml",
         REASONS[0]),
    ],
)  # fmt: skip
def test_a_descriptor_that_is_no_node_does_not_run(
    started: Started, text: str, policy: og.OutOfRange, reason: str
) -> None:
    case = wild(text, policy, 0)
    assert started.state_of(case) == f"NOT-RUN: {reason}"


def test_memory_behind_the_elements_counts_under_directml_alone(
    started: Started,
) -> None:
    data = og.TensorDesc("FLOAT32", [4], total_tensor_size_in_bytes=32)
    indices = og.TensorDesc("INT64", [1])
    output = og.TensorDesc("FLOAT32", [1])
    desc = og.GatherDesc(data, indices, output, 0, 1)
    arrays = (np.ones(4, np.float32), np.array([7]))
    case = DescriptorCase("behind", desc, *arrays, "directml")
    assert started.state_of(case) == f"NOT-RUN: {REASONS[4]}"
    assert started.state_of(replace(case, out_of_range="clamp")) == "PASS"


@pytest.mark.parametrize(
    ("text", "given_as"),
    [
        ("GATHER: FLOAT32 4, UINT32 2, FLOAT32 2, 0, 1", "indices as INT64"),
        ("GATHER: FLOAT32 4, INT32 2, FLOAT32 2, 0, 1", ""),
        ("GATHER_ND: FLOAT32 4x1, INT32 2x1, FLOAT32 2x1, 2, 2", "indices as INT64"),
    ],
)
def test_indices_that_a_node_does_not_take_are_given_as_others(
    started: Started, text: str, given_as: str
) -> None:
    answer = started.lane.answer(wild(text, "clamp", 2, 9))
    assert (answer.kind, answer.given_as) == (AnswerKind.RAN, given_as)


class TestSizesOfOne:
    """An axis of size 1 under the policy "directml"."""

    packed = wild("GATHER: FLOAT32 1x3, INT32 1x1, FLOAT32 1x3, 0, 1", "directml", 1)

    def static(self) -> DescriptorCase:
        """Return the gather as DirectML reads it in a graph with sizes."""
        data, indices = ("FLOAT32", [1, 3]), ("INT32", [1])
        desc = og.from_onnx("Gather", data, indices, static=True)
        index = self.packed.indices
        return replace(
            self.packed, descriptor=desc, data=self.packed.data.ravel(), indices=index
        )

    def test_the_two_rules_lead_to_other_elements(self) -> None:
        expected = [np.ravel(case.expected()) for case in (self.packed, self.static())]
        assert [row.tolist() for row in expected] == [[3, 3, 3], [1, 2, 3]]

    def test_a_node_without_sizes_is_read_by_the_strides(
        self, started: Started
    ) -> None:
        model, _ = bare_gather(self.packed)
        (size, _) = model.graph.input[0].type.tensor_type.shape.dim
        assert (size.dim_param, size.dim_value) == ("InputTensor_0", 0)
        assert started.state_of(self.packed) == "PASS"

    def test_a_node_with_sizes_is_read_by_the_stride_0(self, started: Started) -> None:
        model, _ = bare_gather(self.static())
        (size, _) = model.graph.input[0].type.tensor_type.shape.dim
        assert (size.dim_param, size.dim_value) == ("", 1)
        assert started.state_of(self.static()) == "PASS"

    def test_sizes_that_stand_where_they_must_not_are_found(
        self, started: Started, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        static = self.static()

        def exchanged(case: DescriptorCase, opset: int) -> Any:
            return bare_gather(static if case is self.packed else self.packed, opset)

        monkeypatch.setattr(python, "bare_gather", exchanged)
        assert started.state_of(self.packed) == "DIFF"
        assert started.state_of(static) == "DIFF"


def test_between_operators_the_gather_alone_is_on_the_provider(
    started: Started,
) -> None:
    answer = started.lane.answer(pair(1, 9, out_of_range="clamp").wrapped_in())
    assert (answer.kind, answer.nodes) == (AnswerKind.RAN, ("Gather",))
    assert answer.output is not None
    assert answer.output.tolist() == [2, 4]


@pytest.mark.parametrize("target", ["portable", "native"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_file_of_onnxgather_runs_as_it_is(
    started: Started, target: og.Target, policy: og.OutOfRange, tmp_path: Path
) -> None:
    case = pair(1, 9, out_of_range=policy)
    proto = og.to_onnx(case.descriptor, policy, target=target)
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    content = load_model(str(path)).SerializeToString()
    names = ("InputTensor", "IndicesTensor")
    model = FileModel(content, names, "OutputTensor", target)
    assert started.state_of(replace(case, model=model)) == "PASS"


def test_a_file_with_a_gather_on_the_cpu_does_not_count(started: Started) -> None:
    text = """(float[4] data, int64[2] index) => (float[2] output) {
        sizes = Shape(data)
        zero = Constant<value = int64 {0}>()
        size = Gather(sizes, zero)
        part = GatherElements(data, index)
        whole = Cast<to = 1>(size)
        output = Mul(part, whole)
    }"""
    content = written(text).SerializeToString()
    node = GatherNode("GatherElements", {"axis": 0}, (2,))
    data = np.ones(4, np.float32)
    model = FileModel(content, ("data", "index"), "output", "portable")
    case = NodeCase("file", node, data, np.array([1, 2]), model=model)
    reason = f"{ON_CPU}Gather runs on CPUExecutionProvider"
    assert started.state_of(case) == f"NOT-RUN: {reason}"


def test_a_file_whose_gathers_are_all_on_the_cpu_does_not_count(
    started: Started,
) -> None:
    text = """(float[n] data, int64[1] index) => (int64[1] output) {
        sizes = Shape(data)
        output = Gather(sizes, index)
    }"""
    content = written(text).SerializeToString()
    node = GatherNode("Gather", {"axis": 0}, (1,))
    data = np.ones(4, np.float32)
    model = FileModel(content, ("data", "index"), "output", "portable")
    case = NodeCase("file", node, data, np.array([0]), model=model)
    assert started.state_of(case) == (
        "NOT-RUN: OnnxGatherExecutionProvider must run a node, but none is a gather"
        " that it runs"
    )


def test_a_policy_of_the_lane_is_refused() -> None:
    options = {LANE: {"out_of_range": "clamp"}}
    message = message_of(
        og.OnnxGatherError, open_lanes, [LANE], provider_options=options
    )
    assert message == (
        "lane 'onnxgather' must have no option out_of_range, as each case has its own,"
        " got clamp"
    )


def test_without_kernels_the_lane_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXGATHER_NATIVE", "0")
    reason = "the native kernels must be there, but ONNXGATHER_NATIVE is 0"
    assert told(model_lane(LANE)) == [("NOT-RUN", reason)]
    assert lanes_installed([CPU], [], takes_plugins=True) == ["cpu"]


def test_an_onnx_runtime_that_takes_plugins_has_the_lane() -> None:
    assert lanes_installed([CPU], [], takes_plugins=True) == ["cpu", LANE]
    assert lanes_installed([CPU], [], [LANE], takes_plugins=True) == ["cpu"]
    assert lanes_installed([CPU], []) == ["cpu"]


def test_a_shared_library_of_onnx_runtime_has_no_lane(tmp_path: Path) -> None:
    library = tmp_path / "libonnxruntime.so"
    library.touch()
    message = message_of(og.OnnxGatherError, model_lane, LANE, str(library))
    assert message == (
        "lane 'onnxgather' must have a shared library of ONNX Runtime or a plugin, got"
        " both"
    )


def test_the_lane_says_its_version_and_no_target(started: Started) -> None:
    info = started.info
    assert info.target is None
    assert info.runs_models
    assert info.versions["OnnxGatherExecutionProvider"]


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_repro_runs_the_node_under_its_policy(
    started: Started, is_wrong: bool, tmp_path: Path
) -> None:
    case = wild("GATHER: FLOAT32 1x3, INT64 1x1, FLOAT32 1x1, 1, 1", "zero", 5)
    lane, info = started
    trial = trial_of_gather(case, lane.library, lane.opset)
    assert trial.expected is not None
    if is_wrong:
        trial = trial._replace(expected=trial.expected + 1)
    for name, content in runnable(case, "a title", info, trial).items():
        (tmp_path / name).write_bytes(content)
    script = subprocess.run(
        [sys.executable, tmp_path / "repro.py"], capture_output=True, text=True
    )
    assert script.returncode == int(is_wrong), script.stdout + script.stderr


def test_why_no_bare_gather_says_nothing_of_a_plain_case() -> None:
    assert why_no_bare_gather(pair()) is None
