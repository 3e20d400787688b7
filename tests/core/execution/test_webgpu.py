"""The WebGPU provider: what a session asks of it, and the provider itself on a software
device."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import DATA_4X3, outcome
from corpus_cases import corpus, descriptor_cases
from folders import MODELS, ROOT
from short_descriptors import ascending, descriptor
from stub_runtime import environment

import onnxgather as og
from onnxgather.checking.cases import smallest_case
from onnxgather.checking.lanes import open_lanes
from onnxgather.checking.lanes.python import ModelLane
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.execution.elsewhere.hosts import (
    compiled_host,
    find_runtime,
    made_folder,
)
from onnxgather.core.execution.providers import PROVIDERS, target_of
from onnxgather.core.execution.session import open_session
from onnxgather.core.lowering import lower
from onnxgather.core.options import POLICIES

WEBGPU = PROVIDERS["webgpu"]

live = pytest.mark.skipif(
    not find_runtime(WEBGPU),
    reason="scripts/directml/setup.sh --lanes webgpu has not run",
)

RECORDS = """
PROVIDERS = [PLACE := "WebGpuExecutionProvider"]
ENTRIES = {}
SessionOptions.add_session_config_entry = lambda self, *entry: ENTRIES.update([entry])
class InferenceSession(InferenceSession):
    def open(self):
        if ENTRIES["ep.webgpuexecutionprovider.preferredLayout"] != LAYOUT: NODES.clear()
"""  # noqa: E501
"""A stand-in that records the node assignment under one layout alone, as 1.27.0
does."""


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script")
@pytest.mark.parametrize(
    ("layout", "kind"),
    [("NCHW", "ran"), ("NHWC", "not-run")],
    ids=["recorded", "empty"],
)
def test_a_session_asks_for_the_layout_under_which_nodes_are_recorded(
    layout: str, kind: str, tmp_path: Path
) -> None:
    lane = ModelLane(
        "webgpu", WEBGPU, environment(tmp_path, f"LAYOUT = {layout!r}\n{RECORDS}")
    )
    try:
        answer = lane.answer(smallest_case("Gather", "FLOAT32"))
    finally:
        lane.close()
    assert answer.kind == kind
    if kind == "not-run":
        assert (
            answer.reason
            == "WebGpuExecutionProvider must run a node, but none is left to run"
        )


def test_the_target_of_the_provider_is_webgpu_wrapped_or_not() -> None:
    assert target_of(WEBGPU.name) == target_of(WEBGPU.name, wrapped=True) == "webgpu"
    assert target_of(WEBGPU.name, "cpu") == "cpu"
    assert target_of(WEBGPU.name, "cpu", wrapped=True) == "portable"


def test_the_target_has_no_operator_that_the_provider_lacks() -> None:
    # For the types that it has.
    taken = {
        *(
            "Cast",
            "Clip",
            "Less",
            "Equal",
            "Not",
            "Where",
            "Add",
            "Mul",
            "Reshape",
            "Expand",
        ),
        *("Concat", "Gather", "GatherElements", "GatherND", "ScatterElements"),
    }
    wide = (np.dtype(np.int64), np.dtype(np.uint64))
    seen = 0
    for case in descriptor_cases():
        if case.data_type not in ("FLOAT32", "INT32"):
            continue
        if case.index_type == "UINT64":
            continue  # which the provider lacks
        graph = lower(case.descriptor, case.out_of_range, target="webgpu")
        types = {value.name: value.dtype for value in graph.values.values()}
        for node in graph.nodes:
            assert node.op in taken, case.name
            read = {
                types.get(name)
                for name in node.inputs[: 2 if node.op == "Where" else 1]
            }
            assert node.op == "Cast" or not read & {*wide}, (case.name, node.op)
            tuples = [
                types.get(name) for name in node.inputs[1:] if node.op == "GatherND"
            ]
            assert {*tuples} <= {np.dtype(np.int64)}, case.name  # ONNX allows no other
        seen += 1
    assert seen > 800


def test_the_model_that_setup_runs_is_that_of_its_program() -> None:
    program = json.loads(
        "".join(
            line
            for line in (MODELS / "gather_1_remap_1d.json").read_text().splitlines()
            if not line.startswith("//")
        )
    )
    desc = og.from_dict(program["dispatchables"]["gather"])
    model = onnx.load_from_string((ROOT / "scripts/directml/gather.onnx").read_bytes())
    assert model.graph == og.to_onnx(desc, target="webgpu").graph


@pytest.mark.slow
@live
@pytest.mark.parametrize(
    "program", sorted(MODELS.glob("*.json")), ids=lambda path: path.stem
)
def test_it_prints_what_dxdispatch_prints(program: Path, tmp_path: Path) -> None:
    found = outcome(
        "run", str(program), "--provider", "webgpu", "--output-folder", str(tmp_path)
    )
    # a slow start is told
    assert found[:2] == (0, program.with_suffix(".txt").read_text())


@pytest.mark.slow
@live
@pytest.mark.parametrize("index_type", ["UINT64", "INT64"])
@pytest.mark.parametrize("data_type", TensorDataType)
def test_every_bit_of_every_data_type_is_moved(
    data_type: TensorDataType, index_type: str
) -> None:
    whole = np.dtype(f"u{data_type.size}")
    bits = np.random.default_rng(26).integers(
        0, 2 ** (8 * data_type.size), (64, 5), whole
    )
    if data_type.numpy.kind == "f":  # NaNs that signal, and subnormal numbers
        bits[:16] = (bits[:16] & 0xFF | 1) + np.array(np.inf, data_type.numpy).view(
            whole
        )
        bits[16:32] &= 0xFF
    data = bits.view(data_type.numpy)
    desc = descriptor(
        f"GATHER: {data_type} 64x5, {index_type} 1x70, {data_type} 70x5, 0, 1"
    )
    indices = np.arange(70)[None].astype(index_type.lower())
    for policy in POLICIES:
        given = np.minimum(indices, 63) if policy == "error" else indices
        found = og.run(desc, data, given, policy, provider="webgpu")
        assert found.dtype == data.dtype
        assert found.tobytes() == og.reference(desc, data, given, policy).tobytes()


@pytest.mark.slow
@live
def test_int64_indices_are_clamped() -> None:
    desc = descriptor("GATHER: FLOAT32 4x3, INT64 1x3, FLOAT32 4x3, 1, 1")
    indices = np.array([[7, -9, -1]])
    found = og.run(desc, DATA_4X3, indices, provider="webgpu")
    assert found.tobytes() == DATA_4X3[:, [2, 0, 2]].tobytes()
    operators = [
        operator for _, operator in open_session(desc, "clamp", "webgpu").assignment
    ]
    assert "Gather" in operators


@pytest.mark.slow
@live
def test_int64_indices_of_a_model_are_cast_before_they_are_reshaped() -> None:
    desc = descriptor("GATHER: FLOAT32 5x3, INT64 1x4, FLOAT32 4x3, 0, 1")
    data = ascending("FLOAT32 5x3")
    indices = np.array([[4, -1, -9, 7]])
    model = og.to_onnx(desc, "directml", "webgpu")
    found = og.Session(model, "webgpu").run(data, indices)
    assert found.tobytes() == og.reference(desc, data, indices, "directml").tobytes()


@pytest.mark.slow
@live
@pytest.mark.skipif(
    shutil.which("c++") is None, reason="the host is compiled here by c++"
)
def test_a_host_of_its_shared_library_answers_as_python_does() -> None:
    python = made_folder() / WEBGPU.host
    libraries = made_folder() / "root/usr/lib/x86_64-linux-gnu"
    (library,) = (made_folder() / "root/lane/webgpu").glob(
        "onnxruntime/capi/libonnxruntime.so.*"
    )
    # With the environment and the libraries of the lane's Python.
    become = [str(python), "-c", "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"]
    loader = [str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries)]
    host = [*become, *loader, compiled_host(), str(library)]
    names = ["gather/float32/int64/forward", "gather/float64/int64/forward"]
    names += [
        "out-of-range/gather-nd1/int64/just-past/clamp",
        "gather/policy/directml-int64",
    ]
    names += ["out-of-range/gather/uint64/2-to-the-32/clamp"]
    cases = [case for case in corpus() if case.name in names]
    (lane,) = open_lanes(["webgpu"])
    native = ModelLane("webgpu@host", WEBGPU, host=host)
    for case in cases:
        found, wanted = native.answer(case), lane.answer(case)
        assert (found.kind, found.nodes) == (wanted.kind, wanted.nodes)
        assert found.elsewhere == wanted.elsewhere
        assert np.array_equal(np.array(found.output), np.array(wanted.output))
    native.close()
    lane.close()
    assert len(cases) == len(names)


@pytest.mark.slow
@live
def test_a_part_of_the_corpus_has_nothing_new() -> None:
    options = "--shard", "1/40", "--lanes", "webgpu", "--require", "webgpu"
    code, out, _ = outcome("check --corpus", *options)
    assert code == 0, out
