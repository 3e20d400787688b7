"""What is verified of a model: what it ran, whether it is proved, and what differs."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import onnx
import onnx.parser
import pytest
from command_line import DESC, INDICES, SIGNED_DESC
from different_descriptors import different_descriptors
from folders import MODELS
from messages import message_of
from onnx import numpy_helper
from random_programs import random_program
from rings import but_slow, by_ring, quick_alone
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.checking.corpus import random_cases
from onnxgather.core.descriptors.drawn import MAX_DRAWN_BYTES, Drawn, bytes_of
from onnxgather.core.model.values import ModelProto
from onnxgather.core.model.write import descriptor_model
from onnxgather.core.options import POLICIES, TARGETS, OutOfRange, Target
from onnxgather.core.programs.program import parse_program
from onnxgather.proving import solvers, verify
from onnxgather.proving.verify import (
    DifferenceError,
    Verification,
    proved_webnn,
    verify_model,
)
from onnxgather.proving.verify_whole import verify_whole, verify_whole_webnn

PROGRAMS = sorted(MODELS.glob("*.json"))
PAIRS = [*itertools.product(POLICIES, TARGETS)]


def gather(data_type: str, size: int, index_type: str = "UINT32") -> og.GatherDesc:
    """Return a descriptor that takes one of so many elements."""
    return descriptor(
        f"GATHER: {data_type} {size}, {index_type} 1, {data_type} 1, 0, 1"
    )


def content_of(
    desc: og.Descriptor, policy: OutOfRange = "clamp", target: Target = "portable"
) -> bytes:
    return og.to_onnx(desc, policy, target).SerializeToString(deterministic=True)


def verified(
    desc: og.Descriptor,
    policy: OutOfRange = "clamp",
    target: Target = "portable",
    *given: Drawn,
) -> Verification:
    """Return the verification of the model of a descriptor."""
    content = content_of(desc, policy, target)
    return verify_model(content, desc, policy, target, given)


def refusal(content: bytes, desc: og.Descriptor = DESC, *given: Drawn) -> str:
    """Return why a model is not what its descriptor says."""
    with pytest.raises(DifferenceError) as caught:
        verify_model(content, desc, "clamp", "portable", given)
    assert caught.value.exit_code == 1
    return str(caught.value)


@pytest.fixture
def no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in solvers.SOLVERS:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(solvers, "_proved", set[Any]())  # what others have proved


@pytest.mark.parametrize("policy", quick_alone(["clamp"], POLICIES))
@pytest.mark.parametrize("target", quick_alone(["portable", "native"], TARGETS))
def test_the_models_of_all_programs_are_verified_and_proved(
    policy: OutOfRange, target: Target
) -> None:
    cases = 0
    for path in PROGRAMS:
        for dispatch in og.load(path).dispatches:
            assert dispatch.data is not None
            assert dispatch.indices is not None
            given = Drawn("its data", dispatch.data, dispatch.indices)
            found = verified(dispatch.descriptor, policy, target, given)
            assert (found.cases, found.proved) == (4, True), path
            cases += found.cases
    assert cases == 64


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_the_models_of_a_thousand_descriptors_are_verified_and_proved(
    part: int,
) -> None:
    drawn_descriptors = [case.descriptor for case in random_cases(500, seed=5)]
    descriptors = [*drawn_descriptors, *different_descriptors(500)][part::4]
    operators = set[str]()
    for number, desc in enumerate(descriptors):
        policy, target = PAIRS[number * 7 % len(PAIRS)]
        found = verified(desc, policy, target)
        assert (found.cases, found.proved) == (3, True), (policy, target, desc)
        operators.add(desc.operator)
    assert operators == og.OPERATORS.keys()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("form", ["bytes", "typed"])
def test_a_program_for_webnn_is_proved_and_does_not_run(
    policy: OutOfRange, form: Any
) -> None:
    desc = og.from_onnx("Gather", ("INT32", [3, 2]), ("INT32", [2]))
    found = proved_webnn(og.to_webnn(desc, policy, form))
    assert str(found) == "ran no case, proved for every index"


class TestSentence:
    def test_it_says_what_ran_and_what_is_proved(self) -> None:
        assert str(verified(DESC)) == "ran 3 cases, proved for every index"
        assert str(Verification(1, True)) == "ran 1 case, proved for every index"

    def test_it_has_the_preconditions_of_the_certificate(self) -> None:
        desc = og.from_onnx("Gather", ("FLOAT32", [3]), ("INT64", [2]))
        assert str(verified(desc, target="webgpu")) == (
            "ran 3 cases, proved, if each index fits INT32 on WebGPU's provider, which"
            " reads the low half"
        )

    def test_it_says_which_solver_to_install(self, no_solver: None) -> None:
        del no_solver
        said = str(verified(SIGNED_DESC))
        assert said == "ran 3 cases; not proved: pip install z3-solver"
        # The normal form alone proves this one.
        assert str(verified(DESC)) == "ran 3 cases, proved for every index"

    def test_it_says_that_the_time_is_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(verify, "SECONDS", 1e-9)
        assert str(verified(DESC)) == "ran 3 cases; not proved: time"

    @pytest.mark.parametrize("name", solvers.SOLVERS)
    def test_it_says_that_a_solver_had_no_time(self, name: str) -> None:
        reason = vars(verify)["_reason"]
        assert reason(f"{name}: {solvers.TIMEOUT}") == "time"
        assert reason(f"{name}: out of memory") == f"{name}: out of memory"

    def test_json_leaves_out_what_does_not_apply(self) -> None:
        proved = msgspec.to_builtins(Verification(3, True))
        assert proved == {"cases": 3, "proved": True}
        undecided = msgspec.to_builtins(Verification(4, False, why="time"))
        assert undecided == {"cases": 4, "proved": False, "why": "time"}


class TestDrawnData:
    def test_more_than_32_mib_are_not_drawn_and_the_proof_stays(self) -> None:
        desc = gather("INT8", MAX_DRAWN_BYTES)
        assert bytes_of(desc) > MAX_DRAWN_BYTES
        assert str(verified(desc)) == "ran no case, proved for every index"

    def test_what_the_certificate_excludes_is_not_run(self) -> None:
        """WebGPU's provider checks no index, so nothing is promised of a wrong one."""
        desc = og.from_onnx("Gather", ("FLOAT32", [3]), ("INT64", [2]))
        wild = Drawn("wild", np.ones(3, np.float32), np.array([2**40, 0]))
        assert verified(desc, "error", "webgpu", wild).cases == 3
        assert verified(desc, "error", "portable", wild).cases == 4

    def test_constant_indices_are_run_and_not_proved(self) -> None:
        indices = np.array([[2, 7]], np.uint32)
        content = og.to_onnx(DESC, indices=indices).SerializeToString()
        found = verify_model(content, DESC, "clamp", "portable", indices=indices)
        assert str(found) == "ran 3 cases; not proved: its indices are constant"
        other = np.array([[2, 1]], np.uint32)
        with pytest.raises(DifferenceError):
            verify_model(content, DESC, "clamp", "portable", indices=other)


def constants_changed(model: ModelProto) -> Iterator[ModelProto]:
    """Yield the model with one element of one constant changed, each in turn."""
    for number, tensor in enumerate(model.graph.initializer):
        array = numpy_helper.to_array(tensor)
        for place in range(array.size):
            wrong = array.copy()
            wrong.reshape(-1)[place] += 1
            changed = ModelProto()
            changed.CopyFrom(model)
            proto = numpy_helper.from_array(wrong, tensor.name)
            changed.graph.initializer[number].CopyFrom(proto)
            yield changed


class TestDifference:
    def test_the_first_element_that_differs_is_named(self) -> None:
        assert refusal(content_of(DESC, "zero")) == (
            "with wild indices, the model's OutputTensor[0,0] must be -2.199481e+08,"
            " got 0.0; 4 of 8 elements differ"
        )

    def test_bytes_are_named_where_the_texts_are_equal(self) -> None:
        desc = gather("FLOAT32", 2)
        model = og.to_onnx(desc)
        output = model.graph.output[0].name
        model.graph.node[-1].output[0] = "gathered"
        absolute = onnx.helper.make_node("Abs", ["gathered"], [output])
        model.graph.node.append(absolute)
        nan = np.array([0xFFC00001, 0], np.uint32).view(np.float32)
        given = Drawn("a NaN", nan, np.zeros(1, np.uint32))
        assert refusal(model.SerializeToString(), desc, given) == (
            "with a NaN, the model's OutputTensor[0] must be the bytes 01 00 c0 ff, got"
            " 01 00 c0 7f; 1 of 1 elements differ"
        )

    def test_a_shape_differs(self) -> None:
        model = og.to_onnx(DESC)
        model.graph.node[-1].output[0] = "gathered"
        flat = onnx.helper.make_node("Flatten", ["gathered"], ["OutputTensor"], axis=0)
        model.graph.node.append(flat)
        del model.graph.output[0].type.tensor_type.shape.dim[:]
        model.graph.output[0].type.tensor_type.shape.dim.add(dim_value=1)
        model.graph.output[0].type.tensor_type.shape.dim.add(dim_value=8)
        assert refusal(model.SerializeToString()) == (
            "with both ends of each axis, the model's OutputTensor must be float32"
            " [4, 2], got float32 [1, 8]"
        )

    def test_a_model_that_fails_is_a_difference(self) -> None:
        assert refusal(content_of(DESC, "error")).startswith(
            "with wild indices, the model must run, got: "
        )

    def test_a_model_that_must_fail_is_a_difference_too(self) -> None:
        given = Drawn("an index", np.zeros((4, 3), np.float32), INDICES + 2)
        assert message_of(
            DifferenceError,
            verify_model,
            content_of(DESC),
            DESC,
            "error",
            "portable",
            [given],
        ) == (
            "with an index, the model must fail, as IndicesTensor[0,0] must be in"
            " [0, 3), got 4; it returned an output"
        )

    def test_a_model_that_the_provider_refuses_is_a_difference(self) -> None:
        model = og.to_onnx(DESC)
        model.graph.node[0].op_type = "Nonsense"
        assert refusal(model.SerializeToString()).startswith(
            "the model must run on the CPU provider, got: "
        )

    def test_what_no_case_meets_is_refuted(self) -> None:
        """The model gives another element for one index among 100,000."""
        desc = gather("FLOAT32", 100_000, "INT32")
        model = og.to_onnx(desc, "error")
        nodes = [*model.graph.node]
        for node in nodes:
            for place, name in enumerate(node.input):
                if name == "IndicesTensor":
                    node.input[place] = "chosen"
        beside = onnx.parser.parse_graph("""
            g () => () <int32[1] at = {77777}, int32[1] beside = {3}> {
                is_at = Equal(IndicesTensor, at)
                chosen = Where(is_at, beside, IndicesTensor)
            }""")
        model.graph.initializer.extend(beside.initializer)
        del model.graph.node[:]
        model.graph.node.extend([*beside.node, *nodes])
        content = model.SerializeToString()
        assert message_of(
            DifferenceError, verify_model, content, desc, "error", "portable"
        ) == (
            "the model must do what its descriptor says: where IndicesTensor is 0 but"
            " 77777 at 0 and InputTensor counts from 1 to 127 over and over,"
            " OutputTensor must be 54.0 at 0, got 4.0"
        )

    @pytest.mark.parametrize(
        ("policy", "wrong"),
        but_slow(
            [("directml", 22)],
            [("clamp", 5), ("error", 2), ("zero", 31), ("directml", 22)],
        ),
    )
    def test_each_changed_constant_is_seen(
        self, policy: OutOfRange, wrong: int
    ) -> None:
        """Or the model is proved, where the constant need not be what it was."""
        seen = 0
        for desc in (DESC, SIGNED_DESC):
            for model in constants_changed(og.to_onnx(desc, policy)):
                try:
                    content = model.SerializeToString()
                    found = verify_model(content, desc, policy, "portable")
                    assert found.proved
                except DifferenceError:
                    seen += 1
        assert seen == wrong


class TestWhole:
    def test_random_programs_are_run_and_each_dispatch_is_proved(self) -> None:
        cases = 0
        for seed in range(by_ring(4, 60)):
            program = parse_program(random_program(seed), "p.json")
            policy, target = PAIRS[seed * 7 % len(PAIRS)]
            inputs = ((), None)[seed % 2]
            model = og.program_to_onnx(program, policy, target, inputs=inputs)
            found = verify_whole(
                model.SerializeToString(), program, policy, target, 17, None, inputs
            )
            assert (found.proved, found.by_dispatch) == (True, True), seed
            cases += found.cases
        assert cases > by_ring(2, 8)

    @pytest.mark.parametrize("policy", ["clamp", "zero", "directml"])
    def test_each_dispatch_of_a_program_for_webnn_is_proved(
        self, policy: OutOfRange
    ) -> None:
        program = og.load(MODELS / "detector_topk_boxes.json")
        found = verify_whole_webnn(program, policy)
        assert str(found) == "ran no case, each dispatch proved for every index"

    def test_a_changed_constant_is_seen(self) -> None:
        program = og.load(MODELS / "gather_3_swap_columns.json")
        model = og.program_to_onnx(program, inputs=())
        seen: list[str] = []
        for changed in constants_changed(model):
            content = changed.SerializeToString()
            try:
                verify_whole(content, program, "clamp", "portable", 17, None, ())
            except DifferenceError as error:
                seen.append(str(error))
        # All but the bound of an index, and the index that this bound brings back.
        assert len(seen) == sum(1 for _ in constants_changed(model)) - 2
        failure, first, *_, last = seen
        assert failure.startswith(
            "with the data of the program, the model must run, got: "
        )
        assert first == (
            "with the data of the program, the model's output 'output'[0,1] must be"
            " 1.0, got 2.0; 1 of 6 elements differ"
        )
        assert last.endswith("3 of 6 elements differ")

    def test_a_dispatch_that_is_not_proved_is_named(self, no_solver: None) -> None:
        del no_solver
        program = og.load(MODELS / "detector_topk_boxes.json")
        content = og.program_to_onnx(program).SerializeToString()
        found = verify_whole(content, program, "clamp", "portable", 17, None, None)
        why = "$.commands[0]: pip install z3-solver"
        assert str(found) == f"ran 1 case; not proved: {why}"


class TestSolver:
    def test_a_broken_solver_proves_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        solvers.end_programs()
        monkeypatch.setattr(solvers, "_PROGRAM", "import os; os._exit(3)")
        # Another descriptor than elsewhere, as proofs are kept.
        desc = gather("INT8", 41, "INT64")
        content = content_of(desc)
        found = verify_model(content, desc, "clamp", "portable")
        why = "z3: its program ended with code 3"
        assert str(found) == f"ran 3 cases; not proved: {why}"

    def test_a_solver_that_never_answers_is_ended(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        solvers.end_programs()
        monkeypatch.setattr(solvers, "_PROGRAM", "import time; time.sleep(100)")
        monkeypatch.setattr(solvers, "OVERTIME", 0.2)
        start = time.monotonic()
        answer = solvers.solve("(check-sat)", 0.1, "z3")
        assert answer.why == "z3: its program ended with code -9"
        assert time.monotonic() - start < 30


class TestPython:
    def test_a_model_is_verified_if_asked(self) -> None:
        model = og.to_onnx(DESC, verify=True)
        assert model.SerializeToString() == og.to_onnx(DESC).SerializeToString()
        og.to_onnx(DESC, "error", indices=INDICES, verify=True)
        og.to_onnx(DESC, "zero", prefix="a_", names={"OutputTensor": "y"}, verify=True)

    def test_a_difference_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def wrong(*_: object, **__: object) -> ModelProto:
            return descriptor_model(DESC, "directml")

        monkeypatch.setattr("onnxgather.proving.to_onnx.descriptor_model", wrong)
        assert og.to_onnx(DESC)
        assert message_of(og.OnnxGatherError, og.to_onnx, DESC, verify=True) == (
            "with wild indices, the model's OutputTensor[0,0] must be -2.199481e+08,"
            " got 1.8326524e-05; 4 of 8 elements differ"
        )

    def test_without_a_runtime_it_is_an_error(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        assert og.to_onnx(DESC)
        assert message_of(og.ProviderError, og.to_onnx, DESC, verify=True) == (
            "the environment of CPUExecutionProvider does not contain ONNX Runtime;"
            " install onnxruntime"
        )

    def test_it_must_be_true_or_false(self) -> None:
        called: Any = og.to_onnx
        assert (
            message_of(og.OnnxGatherError, called, DESC, verify="yes")
            == "verify must be True or False, got 'yes'"
        )

    @pytest.mark.slow
    def test_neither_runtime_nor_prover_is_imported_unless_asked(self) -> None:
        program = """\
import sys
import onnxgather as og
model = og.to_onnx(og.from_onnx("Gather", ("INT8", [3]), ("INT32", [2])){})
names = ("onnxruntime", "onnxgather.proving.verify", "onnxgather.proving.certify")
print([name for name in names if name in sys.modules])
"""
        for option, loaded in (("", 0), (", verify=True", 3)):
            command = [sys.executable, "-c", program.replace("{}", option)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            assert done.stdout.count("'") == 2 * loaded
