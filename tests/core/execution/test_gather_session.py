"""A session of any model whose gathers run on onnxgather's own provider."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from command_line import error_of, write_json
from messages import message_of
from onnx_graphs import constant, written

import onnxgather as og
from onnxgather.core.execution import kernels
from onnxgather.core.options import POLICIES, TARGETS

pytestmark = pytest.mark.skipif(
    kernels.operators_library() is None, reason="the native kernels are not built"
)

PROVIDER = "OnnxGatherExecutionProvider"
DESC = og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [1]))
DATA = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
PAST = np.array([4])
BELOW = np.array([-5])
MODEL = written("""(float[3, 2] data, int64[1] index) => (float[1, 2] output) {
    doubled = Add(data, data)
    [tokens] rows = Gather(doubled, index)
    [parts] part = GatherElements<axis = 1>(rows, zeros)
    output = Add(part, part)
}""", constant("zeros", np.zeros((1, 2), np.int64)))  # fmt: skip
"""Two gathers between nodes of the CPU."""
REFUSED = "Gather 'tokens': IndicesTensor[0] must be in [-3, 3), got 4"


def opened(
    out_of_range: og.OutOfRange | None = None, model: Any = MODEL, **more: Any
) -> og.Session:
    """Return the session of a model on the provider."""
    return og.Session(model, "onnxgather", out_of_range=out_of_range, **more)


def rows(session: og.Session, index: Any = PAST) -> Any:
    """Return the output for the data as a list."""
    return session.run(DATA, index).tolist()


@pytest.mark.parametrize(
    ("policy", "past", "below"),
    [
        ("clamp", [[20, 20]], [[4, 4]]),
        ("zero", [[0, 0]], [[0, 0]]),
        # What lies past the last element is the last element.
        ("directml", [[24, 24]], [[24, 24]]),
    ],
)
def test_each_policy_gives_an_index_out_of_range_its_meaning(
    policy: og.OutOfRange, past: object, below: object
) -> None:
    session = opened(policy)
    assert (rows(session), rows(session, BELOW)) == (past, below)
    assert rows(session, np.array([1])) == [[12, 12]]


@pytest.mark.parametrize("policy", [None, "error"])
def test_without_a_policy_an_index_out_of_range_is_an_error(
    policy: og.OutOfRange | None,
) -> None:
    session = opened(policy)
    assert message_of(og.IndexOutOfRangeError, rows, session) == REFUSED
    assert rows(session, np.array([-1])) == [[20, 20]]


def test_a_scalar_index_out_of_range_is_the_same_error() -> None:
    model = written("""(float[3, 2] data, int64 index) => (float[2] output) {
        [tokens] output = Gather(data, index)
    }""")
    session = opened(model=model)
    refused = message_of(og.IndexOutOfRangeError, rows, session, np.array(4))
    assert refused == "Gather 'tokens': IndicesTensor must be in [-3, 3), got 4"


def test_the_provider_has_the_version_of_the_package() -> None:
    opened()
    runtime: Any = onnxruntime
    devices = runtime.get_ep_devices()
    versions = {
        each.ep_metadata["version"] for each in devices if each.ep_name == PROVIDER
    }
    assert versions == {og.__version__}


def test_the_assignment_names_the_gathers_alone() -> None:
    session = opened()
    assert session.assignment == (("tokens", "Gather"), ("parts", "GatherElements"))
    text = f"<Session on {PROVIDER}: data FLOAT [3, 2], index INT64 [1] ->"
    assert repr(session) == f"{text} output FLOAT [1, 2]>"


def test_in_range_the_bytes_are_those_of_the_cpu() -> None:
    on_cpu = og.Session(MODEL, "cpu")
    for index in range(-3, 3):
        array = np.array([index])
        expected = on_cpu.run(DATA, array).tobytes()
        assert opened("clamp").run(DATA, array).tobytes() == expected


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("policy", ["clamp", "zero", "error"])
def test_a_model_of_onnxgather_keeps_its_own_policy(
    target: og.Target, policy: og.OutOfRange
) -> None:
    session = opened(model=og.to_onnx(DESC, policy, target=target))
    indices = PAST.reshape(1, 1)
    if policy == "error":
        message = message_of(og.IndexOutOfRangeError, session.run, DATA, indices)
        assert message.endswith("must be in [-3, 3), got 4")
        return
    expected = og.reference(DESC, DATA, indices, policy)
    assert session.run(DATA, indices).tobytes() == expected.tobytes()


ANY = og.OnnxGatherError
NO_GATHER = written("(float[2] a) => (float[2] b) { b = Add(a, a) }")
TEXTS = written("""(string[2] a, int64[1] i) => (string[1] b) { b = Gather(a, i) }""")
NO_NODE = f"{PROVIDER} must run a node, but none is a gather that it runs"


@pytest.mark.parametrize(
    ("kind", "source", "options", "message"),
    [
        (og.ProviderError, NO_GATHER, {}, NO_NODE),
        (og.ProviderError, TEXTS, {}, NO_NODE),
        (og.ProviderError, DESC, {},
         f"{PROVIDER} must run an ONNX model, got a descriptor; provider cpu runs"
         " descriptors"),
        (ANY, MODEL, {"out_of_range": "wrap"},
         f"out_of_range must be one of {', '.join(POLICIES)}, got 'wrap'"),
        (ANY, MODEL, {"target": "cpu"}, "a model has its own target; leave it out"),
        (ANY, MODEL, {"provider_options": {"out_of_range": "clamp"}},
         f"the options of {PROVIDER} must be report alone, as out_of_range is an"
         " argument, got 'out_of_range'"),
        (ANY, MODEL, {"provider_options": {"reprot": "1"}},
         f"the options of {PROVIDER} must be report alone, as out_of_range is an"
         " argument, got 'reprot'"),
    ],
)  # fmt: skip
def test_what_the_provider_does_not_run_is_refused(
    kind: type[Exception], source: Any, options: Any, message: str
) -> None:
    assert message_of(kind, og.Session, source, "onnxgather", **options) == message


def test_a_wrong_report_is_refused_by_the_provider() -> None:
    message = message_of(og.ProviderError, opened, provider_options={"report": "2"})
    assert message.startswith(f"{PROVIDER} cannot run the model: ")
    assert message.endswith("report must be 0 or 1, got '2'")


@pytest.mark.parametrize("policy", POLICIES)
def test_on_another_provider_a_model_has_its_own_policy(policy: og.OutOfRange) -> None:
    message = message_of(ANY, og.Session, MODEL, "cpu", out_of_range=policy)
    assert message == (
        "a model has its own out_of_range and target; leave them out, or give"
        ' out_of_range with the provider "onnxgather"'
    )


def test_an_error_that_is_no_index_stays_one_of_the_provider() -> None:
    model = written("""(float[a, b] data, int64[c, d] index) => (float[c, d] output) {
        output = GatherElements<axis = 1>(data, index)
    }""")
    session = opened(model=model)
    too_long = np.zeros((4, 2), np.int64)
    message = message_of(og.ProviderError, session.run, DATA, too_long)
    assert message.startswith(f"{PROVIDER} failed: ")


def test_without_kernels_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXGATHER_NATIVE", "0")
    message = message_of(og.ProviderError, opened)
    assert message == "the native kernels must be there, but ONNXGATHER_NATIVE is 0"


def test_run_names_what_runs_a_descriptor() -> None:
    run: Callable[..., Any] = og.run
    message = message_of(
        og.ProviderError, run, DESC, DATA, PAST.reshape(1, 1), provider="onnxgather"
    )
    assert message == (
        f"{PROVIDER} must run an ONNX model, got a descriptor; provider cpu runs"
        " descriptors"
    )


def test_the_command_run_says_the_same_of_a_program(tmp_path: Path) -> None:
    path = tmp_path / "gather.json"
    write_json(str(path), og.to_dict(DESC))
    arrays = tmp_path / "inputs.npz"
    np.savez(arrays, InputTensor=DATA, IndicesTensor=np.zeros((1, 1), np.int64))
    line = f"run {path} --inputs {arrays} --provider onnxgather"
    message = error_of(line, code=3)
    assert message.endswith(
        f"{PROVIDER} must run an ONNX model, got a descriptor; provider cpu runs"
        " descriptors"
    )
